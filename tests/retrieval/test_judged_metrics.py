"""Metrics over judged runs: the values, interval and chance level equal the numbers of the command."""

import csv
import io
import itertools
import json
import random
import statistics

import numpy as np
import pytest
import torch

import torch_ap
from tests.support.runs import evaluate_by_name
from tests.support.tolerances import REORDERED
from torch_ap.cli import main
from torch_ap.cli.judged_metrics import evaluate
from torch_ap.files import read_qrels, read_run
from torch_ap.inference import compare_per_query, mean_interval
from torch_ap.inference.queries import bounded_mean_interval
from torch_ap.inference.random_ranking import random_average_precision
from torch_ap.retrieval.runs import judge, measured
from torch_ap.retrieval.runs import names as report
from torch_ap.retrieval.runs.measure_names import CONVENTIONS
from torch_ap.retrieval.runs.tables import qrels_of, run_of

NAMES = (
    "map",
    "map@3",
    "gm_map",
    "P@5",
    "R@5",
    "F@5",
    "Rprec",
    "recip_rank",
    "success@2",
    "set_P",
    "iprec@0.2",
    "11pt_avg",
    "ndcg",
    "ndcg@4",
)
TREC_ONLY = ("iprec@0.2", "11pt_avg")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write judgements and two runs with ties that lack a judged query and miss relevant documents."""
    folder, draw = tmp_path_factory.mktemp("trec"), np.random.default_rng(5)
    judged = [
        (q, d, int(draw.random() < 0.3) * (1 + d % 2)) for q in range(12) for d in range(30) if draw.random() < 0.7
    ]
    (folder / "qrels").write_text("".join(f"q{q} 0 d{d} {grade}\n" for q, d, grade in judged))
    for run in range(2):
        rows = [
            f"q{q} Q0 d{d} 0 {int(draw.integers(8)) + run * grade} run{run}\n"
            for q, d, grade in judged
            if q != 3 and draw.random() < 0.8
        ]
        (folder / f"run{run}").write_text("".join(rows))
    return folder


def judged_run(files, run=0, **settings):
    return judge(read_qrels(files / "qrels"), read_run(files / f"run{run}"), **settings)


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_metrics_have_the_values_of_the_command(convention, complete, files):
    judged = judged_run(files, convention=convention, complete=complete)
    for name in NAMES:
        if name in TREC_ONLY and not convention.startswith("trec"):
            continue
        found = evaluate_by_name(judged, [name])[name]
        metric = evaluate(judged, name)
        queries, values = metric.per_query()
        assert [judged.queries[x] for x in queries.tolist()] == found.queries
        assert values.tolist() == pytest.approx(found.values.tolist(), abs=REORDERED)
        assert float(metric.compute()) == pytest.approx(found.aggregate, abs=REORDERED)


def trec(files, capsys, *arguments, status=0):
    paths = [str(files / x) for x in ("qrels", "run0", "run1")]
    assert main.main(["trec", *paths[: 2 + ("--compare" in arguments)], *map(str, arguments)]) == status
    return capsys.readouterr()


def test_intervals_equal_the_queries(files, capsys):
    asked = ("-m", "map", "-m", "P@5", "-m", "gm_map", "--interval", "--confidence-level", 0.8)
    found = json.loads(trec(files, capsys, *asked, "--json").out)["run0"]
    judged = judged_run(files)
    for name in ("map", "P@5"):
        ends = mean_interval(evaluate_by_name(judged, [name])[name].values, confidence_level=0.8, n_resamples=10_000)
        assert (found[name]["low"], found[name]["high"]) == (float(ends.low), float(ends.high))
    seen = judged.curve.hits_seen.tolist()
    each = [
        float(random_average_precision(n, hits, denominator="relevant").mean) * hits / m if hits else 0.0
        for n, hits, m in zip(judged.curve.n.tolist(), seen, judged.curve.m.tolist(), strict=True)
    ]
    assert found["map"]["chance"] == pytest.approx(np.mean(each))
    at_5 = [hits * min(5, n) / n / 5 for n, hits in zip(judged.curve.n.tolist(), seen, strict=True)]
    assert found["P@5"]["chance"] == pytest.approx(np.mean(at_5))
    assert found["gm_map"]["low"] is None
    rows = list(csv.reader(io.StringIO(trec(files, capsys, *asked, "--csv").out)))
    assert ["map", "interval.low", repr(found["map"]["low"])] in rows
    text = trec(files, capsys, *asked).out
    (line,) = [x for x in text.splitlines() if x.startswith("map ") and "run0" in x]
    assert line.split()[2:] == [f"{found['map'][x]:.4f}" for x in ("all", "low", "high", "chance")]
    assert "80% low" in text


def test_the_page_compares_run_and_baseline(files, capsys, tmp_path):
    page = tmp_path / "x.md"
    found = json.loads(trec(files, capsys, "-m", "map", "--compare", "--report", page, "--json").out)
    text = page.read_text()
    assert f"mean AP {found['run1']['map']['all']:.4f}**" in text
    assert "## Compared with run0" in text
    assert f"{found['run1']['map']['compared']['difference']:+.3f}" in text
    assert "| q4 |" in text
    values = [evaluate_by_name(judged_run(files, run), ["map"])["map"].values for run in (1, 0)]
    p = float(compare_per_query(*values, bounds=(0, 1)).p_value)
    assert ("< 0.001" if p < 0.001 else f"{p:.2g}") in text
    for name in (*TREC_ONLY, "gm_map", "set_F"):
        trec(files, capsys, "-m", name, "--report", page)
        assert evaluate_by_name(judged_run(files), [name])[name].aggregate == pytest.approx(
            float(page.read_text().split("**")[1].split()[-1]),
            abs=5e-5,  # the command prints four digits
        )
    torch.testing.assert_close(values[0].mean().item(), found["run1"]["map"]["all"])


def test_the_page_pairs_queries_by_name(tmp_path, capsys):
    draw = np.random.default_rng(1)
    names = [f"q{x}" for x in range(12)]
    (tmp_path / "qrels").write_text("".join(f"{q} 0 d{x} {x % 2}\n" for q in names for x in range(6)))
    for run, queries in enumerate((names[:-1], names[:0:-1])):  # the first lacks q11, the second q0
        rows = [f"{q} Q0 d{x} 0 {score} run{run}\n" for q in queries for x, score in enumerate(draw.permutation(7))]
        (tmp_path / f"run{run}").write_text("".join(rows))
    page = tmp_path / "x.md"
    for metric in ("map", "ndcg"):
        found = json.loads(trec(tmp_path, capsys, "-m", metric, "--compare", "--report", page, "--json").out)
        text = page.read_text()
        compared = found["run1"][metric]["compared"]
        assert compared["queries"] == 10
        assert f"# {metric} of run1, on 10 common queries" in text
        assert f"| {compared['difference']:+.3f} | {compared['low']:+.3f} |" in text
        assert "| q0 |" not in text
        assert "Labels that may be" not in text, "of other queries than the value"
    trec(tmp_path, capsys, "-m", "map", "--report", page)
    assert "Labels that may be" in page.read_text(), "of document 6, which has no judgement"
    (tmp_path / "run1").write_text("q11 Q0 d1 0 1 run1\n")
    notes = trec(tmp_path, capsys, "-m", "map", "--compare", "--report", page, status=2).err
    assert "--report has no comparison: the runs have no common queries" in notes


def test_the_page_reports_saturation_within_queries(tmp_path, capsys):
    rows = [f"q{q} Q0 d{x} 0 {9 - x} run0\n" for q in range(200) for x in range(6)]
    (tmp_path / "run0").write_text("".join(rows))
    (tmp_path / "qrels").write_text("".join(f"q{q} 0 d{q % 3} 1\n" for q in range(200)))
    page = tmp_path / "x.md"
    trec(tmp_path, capsys, "-m", "map", "--report", page)
    assert "Saturated" not in page.read_text()


@pytest.mark.parametrize(
    ("convention", "rule"),
    [
        ("trec10", "Items with equal scores are in descending order of their names, as in trec"),
        ("trec9", "Items with equal scores in single precision are in descending order of their names, as in trec"),
        ("expected", "Equal scores count as the mean over all their orders."),
        ("grouped", "Items with equal scores enter together."),
    ],
)
@pytest.mark.parametrize("name", ["map", "ndcg", "P@5"])
def test_the_page_describes_the_ties_of_the_file(name, convention, rule, files, capsys, tmp_path):
    page = tmp_path / "x.md"
    trec(files, capsys, "-m", name, "--convention", convention, "--report", page)
    text = page.read_text()
    ends = [judged_run(files, convention=order) for order in ("pessimistic", "optimistic")]
    bounds = [evaluate_by_name(x, [name])[name].aggregate for x in ends]
    assert rule in text
    assert sum(x in text for x in ("Items with equal scores", "Equal scores count")) == 1
    documents = judged_run(files).documents
    keys = list(zip(documents.number.tolist(), documents.scores.tolist(), strict=True))
    tied = [score for (query, score) in keys if keys.count((query, score)) > 1]
    assert f"Tied scores: {100 * len(tied) / len(keys):.3g}% of the items share their score" in text
    if convention != "grouped":  # a group that enters as a whole can count less than any order
        assert f"between {min(bounds):.3f} and {max(bounds):.3f}" in text
    assert f"Saturated scores: {tied.count(0.0)} of {len(keys)} " in text
    assert "are exactly 0, the lowest" in text
    assert "exactly -" not in text
    if convention.startswith("trec"):
        assert f"ties='{convention}'" in text
        assert "ties='grouped'" not in text


def test_intervals_at_k_end_at_the_largest_possible_value(tmp_path, capsys):
    draw = np.random.default_rng(2)
    rows = [(q, d, int(draw.random() < 0.2)) for q in range(8) for d in range(25)]
    (tmp_path / "qrels").write_text("".join(f"q{q} 0 d{d} {grade}\n" for q, d, grade in rows))
    (tmp_path / "run0").write_text("".join(f"q{q} Q0 d{d} 0 {draw.random()} run0\n" for q, d, _ in rows))
    (tmp_path / "clusters").write_text("".join(f"q{q} c{q % 4}\n" for q in range(8)))
    most = {"P@1000": 0.025, "F@1000": 2 * 25 / 1025, "RBP(p=0.95)@10": 1 - 0.95**10, "P@10": 1, "R@5": 1}
    asked = [x for name in most for x in ("-m", name)]
    found = json.loads(trec(tmp_path, capsys, *asked, "--interval", "--json").out)["run0"]
    judged = judged_run(tmp_path)
    for name, bound in most.items():
        if name.startswith("RBP"):
            assert found[name]["high"] < bound
            continue
        ends = mean_interval(evaluate_by_name(judged, [name])[name].values / bound)
        wanted = [bound * float(ends.low), bound * float(ends.high)]
        # the sums have another order
        assert [found[name]["low"], found[name]["high"]] == pytest.approx(wanted, rel=1e-9)
        own = evaluate(judged, name).confidence_interval()
        # the sums have another order
        assert [float(own.low), float(own.high)] == pytest.approx(wanted, rel=1e-9)
    options = ("--interval", "--cluster", tmp_path / "clusters", "--confidence-level", 0.999999, "--json")
    clustered = json.loads(trec(tmp_path, capsys, "-m", "P@1000", *options).out)["run0"]["P@1000"]
    assert clustered["high"] <= 0.025


def test_values_of_zero_and_the_bound_have_wilsons_interval():
    values = torch.tensor([0.1, 0.0, 0.1], dtype=torch.float64)
    found = bounded_mean_interval(values, 0.1)
    assert found.reason == "all values are the smallest or the largest possible: Wilson's interval"
    assert found.estimate == values.mean()
    assert float(found.high) <= 0.1


def test_a_warning_about_clusters_is_printed_once(files, capsys, tmp_path):
    (tmp_path / "clusters").write_text("".join(f"q{q} c{q % 4}\n" for q in range(12)))
    asked = ("-m", "map", "-m", "P@5", "-m", "ndcg", "--interval", "--simultaneous", "--cluster", tmp_path / "clusters")
    notes = [x for x in trec(files, capsys, *asked).err.splitlines() if "groups with" in x]
    rule = "--cluster: 4 groups with queries, but coverage is measured from 10 on: the interval may be too narrow"
    assert notes == [f"torch-ap: {rule}"]


def test_measures_without_a_chance_test_have_a_reason(files, capsys):
    asked = ("-m", "map", "-m", "ndcg@10", "--chance-test")
    text = trec(files, capsys, *asked).out
    (line,) = [x for x in text.splitlines() if x.startswith("ndcg@10 ") and "run0" in x]
    assert line.split()[3:] == ["-"] * 3
    assert "-: no test against chance: only map and map@k have one (ndcg@10)" in text
    found = json.loads(trec(files, capsys, *asked, "--json").out)["run0"]
    assert found["ndcg@10"]["chance_test"]["p_value"] is None
    assert found["ndcg@10"]["chance_test"]["reason"].startswith("no test against chance")
    assert "reason" not in found["map"]["chance_test"]


def test_intervals_need_no_second_look_at_a_run(files, monkeypatch, capsys):
    judged = []
    monkeypatch.setattr(measured, "judge", lambda *args, **settings: judged.append(1) or judge(*args, **settings))
    asked = ("-m", "map", "-m", "ndcg", "-m", "AP(rel=2)", "--interval", "-c")
    assert main.main(["trec", str(files / "qrels"), str(files / "run0"), *asked]) == 0
    assert "95% low" in capsys.readouterr().out
    assert len(judged) == 2  # relevance levels


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--report", "nowhere/x.md"), "nowhere: no such folder for the report"),
        (
            ("--n-resamples", "9"),
            "--n-resamples has no meaning without --compare, --interval, --report or --chance-test",
        ),
    ],
)
def test_invalid_input_raises(options, message, files, capsys):
    paths = [str(files / "qrels"), str(files / "run0")]
    assert main.main(["trec", *paths, *options]) == 2
    assert message in capsys.readouterr().err
    assert main.main(["trec", *paths, str(files / "run1"), "--report", "x.md"]) == 2
    assert "--report takes one run, or several with --compare, got 2" in capsys.readouterr().err


def test_measures_without_report_raise(files):
    judged = judged_run(files)
    for name in ("bpref", "infAP", "num_rel"):
        with pytest.raises(ValueError, match=f"--report is of a measure of one ranking .*, got {name}$"):
            evaluate(judged, name)


@pytest.mark.parametrize("convention", ["grouped", "expected"])
def test_chance_counts_the_ties_of_all_documents(convention, tmp_path, capsys):
    draw = torch.Generator().manual_seed(4)
    scores, target = (torch.randint(high, (6, 12), generator=draw) for high in (4, 2))
    cells = list(itertools.product(range(6), range(12)))
    (tmp_path / "qrels").write_text("".join(f"q{q} 0 d{d} {target[q, d]}\n" for q, d in cells))
    (tmp_path / "run0").write_text("".join(f"q{q} Q0 d{d} 0 {scores[q, d]} run0\n" for q, d in cells))
    metric = torch_ap.RetrievalMAP(ties=convention)
    metric.update(scores.double().flatten(), target.flatten(), torch.arange(6).repeat_interleave(12))
    asked = ("-m", "map", "--convention", convention, "--interval", "--json", "--report", tmp_path / "x.md")
    found = json.loads(trec(tmp_path, capsys, *asked).out)["run0"]["map"]["chance"]
    assert found == pytest.approx(float(metric.chance_level()))
    assert f"chance level {found:.4f}" in (tmp_path / "x.md").read_text()


def test_chance_of_ndcg_equals_its_metric(files, capsys):
    judged = judged_run(files, convention="expected")
    given = ["trec", str(files / "qrels"), str(files / "run0"), "--interval", "--json"]
    flags = ["-m", "ndcg@4", "-m", "num_rel", "-m", "bpref", "--convention"]
    assert main.main([*given, *flags, "trec10"]) == 0
    found = json.loads(capsys.readouterr().out)["run0"]
    assert found["ndcg@4"]["chance"] == pytest.approx(float(evaluate(judged, "ndcg@4").chance_level()))
    assert found["bpref"]["low"] < found["bpref"]["all"] < found["bpref"]["high"]
    assert 0 < found["bpref"]["chance"] < 1
    assert found["num_rel"]["low"] is None


def test_chance_of_measures_of_judged_documents_is_the_mean_over_all_orders():
    """Draw up to six retrieved documents, each relevant, judged not relevant, pooled or unjudged."""
    draw, names = random.Random(3), ("bpref", "infAP")
    qrels, run, orders = {}, {}, {}
    for scene in range(25):
        documents = [f"d{one}" for one in range(draw.randint(1, 6))]
        judged = {one: draw.choice([1, 1, 0, -1]) for one in documents if draw.random() < 0.8}
        judged |= {f"x{one}": draw.choice([1, 0, 0, -1]) for one in range(draw.randint(0, 4))}
        qrels[scene], run[scene] = judged, {one: draw.random() for one in documents}
        orders |= {
            (scene, place): {one: -float(rank) for rank, one in enumerate(order)}
            for place, order in enumerate(itertools.permutations(documents))
        }
    qrels = {scene: judged for scene, judged in qrels.items() if judged}
    of_orders = {f"{x}": qrels[x[0]] for x in orders if x[0] in qrels}
    values = torch_ap.evaluate(of_orders, {f"{x}": listed for x, listed in orders.items()}, names).per_query()
    columns = dict.fromkeys(("query", "document", "grade", "score"))
    judged = judge(qrels_of(qrels, columns), run_of({x: run[x] for x in qrels}, columns))
    for name in names:
        wanted = [statistics.fmean(values[name][f"{x}"] for x in orders if x[0] == scene) for scene in judged.queries]
        found = report.measure_of(name, judged).chance_level(judged.curve).nan_to_num(0)
        assert found.tolist() == pytest.approx(wanted, abs=REORDERED)
        assert len(set(wanted)) > 7
