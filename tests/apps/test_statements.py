"""Options of the commands for chance, rank k, wrong labels, judges and the best of several, against the functions."""

import csv
import json
import random
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.inference.test_simultaneous import joint_level_by_definition
from tests.support.each import each
from torch_ap import MeanAveragePrecision, RetrievalMAP, RetrievalPrecision, inference, plot
from torch_ap.cli import main
from torch_ap.files import read_coco


@pytest.fixture
def run(capsys):
    def command(*words, status=0):
        try:
            found = main.main([*map(str, words)])
        except SystemExit as stopped:
            found = stopped.code
        said = capsys.readouterr()
        assert found == status, said.err
        return said

    return command


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Write a table of 400 rows, and return its columns."""
    monkeypatch.chdir(tmp_path)
    generator = torch.Generator().manual_seed(2)
    target = (torch.rand(400, generator=generator) < 0.3).long()
    score, other = (torch.randn(400, generator=generator, dtype=torch.float64) + x * target for x in (1.5, 1.0))
    model = torch.where(torch.rand(400, generator=generator) < 0.1, 1 - target, target)
    human = torch.where(torch.arange(400) % 2 == 0, target, -1)
    columns = {"score": score, "other": other, "label": target, "human": human, "model": model}
    columns["group"] = torch.arange(400) // 20
    columns["cluster"] = torch.arange(400) // 40
    with Path("t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        rows = zip(*(x.tolist() for x in columns.values()), strict=True)
        writer.writerows(["" if x == -1 else x for x in row] for row in rows)
    return columns


SEED = partial(torch.Generator().manual_seed, 0)
BINARY = ("score", "t.csv", "--preds", "score", "--target", "label")


def measures(said):
    return json.loads(said.out)["measures"]


def ends(found):
    return pytest.approx([float(found.low), float(found.high)])


def test_rank_k_of_one_ranking(table, run):
    words = ("-m", "ap@60", "-m", "P@30", "-m", "R@60", "--interval", "--baseline", "other", "--n-resamples", "50")
    found = measures(run(*BINARY, *words, "--json"))
    preds, other, target = table["score"], table["other"], table["label"]
    at = inference.average_precision_at_k_interval(preds, target, 60, n_resamples=50)
    assert [found["ap@60"][x] for x in ("low", "high")] == ends(at)
    for name, k, options in (
        ("ap@60", 60, {}),
        ("P@30", 30, {"measure": "precision"}),
        ("R@60", 60, {"measure": "recall"}),
    ):
        wanted = inference.compare_rankings_at_k(preds, other, target, k, n_resamples=50, **options)
        compared = found[name]["compared"]
        assert [compared["low"], compared["high"]] == ends(wanted)
        assert compared["p_value"] == pytest.approx(float(wanted.p_value))
    gate = json.loads(run(*BINARY, *words[:2], "--baseline", "other", "--fail-if-worse", "0.5", "--json").out)["gates"]
    assert gate[0]["result"] == "passed"
    words = ("-m", "ap@60", "-m", "P@60", "--interval", "--baseline", "other", "--cluster", "cluster", "--json")
    clustered, ids = measures(run(*BINARY, *words)), table["cluster"]
    found = inference.average_precision_at_k_interval(preds, target, 60, groups=ids)
    assert [clustered["ap@60"][x] for x in ("low", "high")] == ends(found)
    for name, options in (("ap@60", {}), ("P@60", {"measure": "precision"})):
        wanted = inference.compare_rankings_at_k(preds, other, target, 60, groups=ids, **options)
        assert clustered[name]["compared"]["p_value"] == pytest.approx(float(wanted.p_value))


def test_chance_of_one_ranking_and_of_groups(table, run):
    preds, target = table["score"], table["label"]
    found = measures(run(*BINARY, "-m", "ap", "-m", "ap@50", "-m", "P@9", "--chance-test", "--json"))
    for name, wanted in (
        ("ap", inference.chance_test(preds, target)),
        ("ap@50", inference.chance_test_of_queries(preds, target, top_k=50, ties="grouped")),
    ):
        numbers = wanted.chance_level, wanted.standard_deviation, wanted.p_value
        assert [found[name][x] for x in ("chance", "chance_sd", "p_chance")] == pytest.approx(
            [float(x) for x in numbers]
        )
    assert found["P@9"]["p_chance"] is None
    assert found["P@9"]["reasons"] == ["no test against chance: only ap and ap@k have one"]
    metric = RetrievalMAP(top_k=5)
    metric.update(preds, target, table["group"])
    words = ("--group", "group", "-m", "map@5", "--chance-test", "--n-resamples", "99", "--json")
    grouped = measures(run(*BINARY, *words))["map@5"]
    assert grouped["p_chance"] == pytest.approx(float(metric.chance_test(n_resamples=99).p_value))
    words = ("-m", "ap", "-m", "ap@60", "--cluster", "cluster", "--chance-test", "--json")
    clustered, ids = measures(run(*BINARY, *words)), table["cluster"]
    for name, wanted in (
        ("ap", inference.chance_test(preds, target, groups=ids)),
        ("ap@60", inference.chance_test_of_queries(preds, target, top_k=60, ties="grouped", groups=ids)),
    ):
        assert clustered[name]["p_chance"] == pytest.approx(float(wanted.p_value))
    # the rows of a group are in one cluster
    rows = zip(preds.tolist(), target.tolist(), range(len(preds)), strict=True)
    lines = [f"{x},{y},{place // 8},{place // 16}" for x, y, place in rows]
    Path("topics.csv").write_text("\n".join(["score,label,group,topic", *lines]))
    words = ("score", "topics.csv", *BINARY[2:], "--group", "group", "--cluster", "topic", "--chance-test", "--json")
    topics = {x: x // 2 for x in range(len(preds) // 8)}
    metric = RetrievalMAP()
    metric.update(preds, target, torch.arange(len(preds)) // 8)
    assert measures(run(*words))["map"]["p_chance"] == pytest.approx(float(metric.chance_test(groups=topics).p_value))
    text = run(*BINARY, "--interval", "--chance-test").out
    assert "chance  sd of chance  p (chance)" in text


def test_flip_rates_and_judges(table, run):
    preds, target = table["score"], table["label"]
    rates = {"false_positive_rate": 0.02, "false_negative_rate": 0.1}
    wanted = inference.noisy_average_precision_interval(preds, target, **rates, confidence_level=0.8)
    words = ("--false-positive-rate", "0.02", "--false-negative-rate", "0.1", "--confidence-level", "0.8", "--json")
    found = measures(run(*BINARY, *words))["ap"]
    assert found["value"] == pytest.approx(float(wanted.estimate))
    assert [found["low"], found["high"]] == ends(wanted)
    judged = inference.prediction_powered_average_precision_interval(preds, table["human"], table["model"])
    words = ("score", "t.csv", "--preds", "score", "--target", "human", "--judge", "model")
    content = json.loads(run(*words, "--json").out)
    found = content["measures"]["ap"]
    assert content["human labels"] == 200
    assert [found["low"], found["high"]] == ends(judged)
    numbers = judged.human_estimate, judged.human_low, judged.human_high, judged.judge_weight
    keys = ("human", "human_low", "human_high", "judge_weight")
    assert [found[x] for x in keys] == pytest.approx([float(x) for x in numbers])
    assert "human labels" in run(*words).out


def rows_of(table, human):
    """Return score, group, label of the judge and human label of each row, "" for none."""
    labels = ["" if label < 0 else label for label in human.tolist()]
    return list(zip(*(table[x].tolist() for x in ("score", "group", "model")), labels, strict=True))


def test_judge_of_groups(table, run):
    human = torch.where(table["group"] % 2 == 0, table["label"], -1)
    lines = [f"{score},{group},{model},{label}\n" for score, group, model, label in rows_of(table, human)]
    Path("g.csv").write_text("score,group,model,human\n" + "".join(lines))
    words = ("score", "g.csv", "--preds", "score", "--target", "human", "--judge", "model", "--group", "group")
    content = json.loads(run(*words, "-m", "map", "-m", "P@5", "--confidence-level", "0.8", "--json").out)
    assert (content["groups"], content["human labels"]) == (20, 200)
    labeled = human >= 0
    for name, make in (("map", RetrievalMAP), ("P@5", partial(RetrievalPrecision, top_k=5))):
        human_metric, judge = (make().set_dtype(torch.float64) for _ in range(2))
        human_metric.update(table["score"][labeled], human[labeled], table["group"][labeled])
        judge.update(table["score"], table["model"], table["group"])
        wanted = human_metric.prediction_powered_interval(judge, confidence_level=0.8)
        found = content["measures"][name]
        assert [found["low"], found["high"]] == ends(wanted)
        assert [found["human"], found["judge_weight"]] == pytest.approx(
            [float(wanted.human_estimate), float(wanted.judge_weight)]
        )
        assert found["reasons"] == [wanted.reason]
    assert "weight of judge" in run(*words).out
    certain = run(*words).out
    shares = [(score, group, 0.8 if model else 0.1, label) for score, group, model, label in rows_of(table, human)]
    Path("g.csv").write_text("score,group,model,human\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in shares))
    found = measures(run(*words, "-m", "P@5", "--json"))["P@5"]
    draws = torch.bernoulli(torch.where(table["model"] == 1, 0.8, 0.1).double().expand(20, -1), generator=SEED())
    judge = RetrievalPrecision(top_k=5, aggregation=lambda x, **_: x.flatten()).set_dtype(torch.float64)
    judged = torch.stack([judge(table["score"], x.long(), table["group"]) for x in draws]).mean(0)
    values = judge(table["score"], table["label"], table["group"])
    values[1::2] = torch.nan
    wanted = inference.prediction_powered_mean_interval(values, judged)
    assert [found["low"], found["high"]] == ends(wanted)
    assert run(*words).out != certain


def test_measures_relative_to_the_share_of_positives(table, run):
    items = table["score"], table["label"]
    words = ("-m", "normalized_ap", "-m", "auprg", "--interval", "--n-resamples", "50", "--confidence-level", "0.9")
    found = measures(run(*BINARY, *words, "--json"))
    options = {"confidence_level": 0.9}
    for name, wanted in (
        ("normalized_ap", inference.normalized_average_precision_interval(*items, **options)),
        ("auprg", inference.precision_recall_gain_interval(*items, **options, n_resamples=50)),
    ):
        assert found[name]["value"] == pytest.approx(float(wanted.estimate))
        assert [found[name]["low"], found[name]["high"]] == ends(wanted)
    share = float(table["label"].double().mean())
    chance = (float(inference.chance_level(*items)) - share) / (1 - share)
    assert (found["normalized_ap"]["chance"], found["auprg"]["chance"]) == (pytest.approx(chance), None)
    assert found["auprg"]["reasons"] == ["no chance level: AUPRG has no closed form of its chance level"]
    Path("one.csv").write_text("score,label\n0.1,1\n0.2,1\n")
    alike = measures(run("score", "one.csv", *BINARY[2:], "-m", "normalized_ap", "-m", "auprg", "--json"))
    assert [x["value"] for x in alike.values()] == [None, None]
    words = ("-m", "normalized_ap", "-m", "auprg", "--interval", "--baseline", "other", "--n-resamples", "50", "--json")
    for further, groups in (((), None), (("--cluster", "cluster"), table["cluster"])):
        found = measures(run(*BINARY, *words, *further))
        for name, measure, interval in (
            ("normalized_ap", "normalized_average_precision", inference.normalized_average_precision_interval),
            ("auprg", "precision_recall_gain", inference.precision_recall_gain_interval),
        ):
            how = {"measure": measure, "groups": groups, "n_resamples": 50}
            wanted = inference.compare_rankings_above_chance(*items[:1], table["other"], *items[1:], **how)
            compared = found[name]["compared"]
            assert [compared["low"], compared["high"]] == ends(wanted)
            assert compared["p_value"] == pytest.approx(float(wanted.p_value))
            more = {"n_resamples": 50} if name == "auprg" else {}
            wanted = interval(*items, groups=groups, **more)
            assert [found[name]["low"], found[name]["high"]] == ends(wanted)


@pytest.fixture
def classes(tmp_path, monkeypatch):
    """Write a table of 300 rows and three classes, and return scores and labels."""
    monkeypatch.chdir(tmp_path)
    labels = torch.randint(3, (300,), generator=SEED())
    scores = torch.randn(300, 3, generator=SEED(), dtype=torch.float64) + 1.5 * torch.eye(3)[labels]
    rows = zip(scores.softmax(1).tolist(), labels.tolist(), strict=True)
    Path("c.csv").write_text("a,b,c,label\n" + "".join(f"{','.join(map(str, x))},{y}\n" for x, y in rows))
    return scores.softmax(1), labels


def test_intervals_of_all_classes_at_once(classes, run):
    words = ("score", "c.csv", "--preds", "a", "b", "c", "--target", "label", "--interval", "--per-class")
    for option, settings in (
        (("--simultaneous",), {"simultaneous": True}),
        (("--first-look", "100"), {"first_look": 100}),
    ):
        wanted = inference.average_precision_interval(*classes, average="none", **settings)
        said = measures(run(*words, *option, "--json"))["map"]
        found = said["classes"].values()
        assert [x["low"] for x in found] == pytest.approx(wanted.low.tolist())
        assert [x["high"] for x in found] == pytest.approx(wanted.high.tolist())
        assert (said["low"] is None) == (option != ("--simultaneous",))
    assert "; intervals that contain all classes at once" in run(*words, "--simultaneous").out
    wanted = inference.average_precision_interval(*classes, average="none", simultaneous=True)
    said = run(*words, "--simultaneous", "--report", "c.md").out.splitlines()
    assert "simultaneous 95% low  simultaneous 95% high" in next(x for x in said if x.startswith("class"))
    page = Path("c.md").read_text()
    assert "low and high are the simultaneous 95% interval." in page
    for low, high in zip(wanted.low.tolist(), wanted.high.tolist(), strict=True):
        assert f"{low:.3f} | {high:.3f}" in page
    assert json.loads(run(*words, "--simultaneous", "--json").out)["simultaneous"] is True
    head, *rows = run(*words, "--simultaneous", "--csv").out.splitlines()
    assert head.endswith(",simultaneous")
    assert [row[-1] for row in rows] == ["1", "1", "1", "0"]  # the mean has a single interval
    assert "--simultaneous is for ap of each class" in run(*words, "--simultaneous", "-m", "11-point", status=2).err


def test_classes_and_looks_of_rows_in_clusters(classes, table, run):
    lines, patients = Path("c.csv").read_text().splitlines(), torch.arange(300) // 10
    rows = [f"{line},{x}\n" for line, x in zip(lines, ["patient", *patients.tolist()], strict=True)]
    Path("p.csv").write_text("".join(rows))
    words = ("score", "p.csv", "--preds", "a", "b", "c", "--target", "label", "--interval", "--per-class", "--json")
    wanted = inference.average_precision_interval(*classes, average="none", groups=patients, simultaneous=True)
    found = measures(run(*words, "--cluster", "patient", "--simultaneous"))["map"]["classes"].values()
    assert [x["low"] for x in found] == pytest.approx(wanted.low.tolist())
    wanted = inference.average_precision_interval(
        table["score"], table["label"], groups=table["cluster"], first_look=150
    )
    found = measures(run(*BINARY, "--interval", "--first-look", "150", "--cluster", "cluster", "--json"))["ap"]
    assert [found["low"], found["high"]] == ends(wanted)


def test_looks_at_a_growing_table(table, run):
    wanted = inference.average_precision_interval(table["score"], table["label"], first_look=150)
    gate = f"ap={float(wanted.estimate):.3f}"
    words = ("--interval", "--first-look", "150", "-m", "ap", "-m", "P@9", "--fail-below", gate)
    found = run(*BINARY, *words, status=3)
    low, high = f"{float(wanted.low):.4f}", f"{float(wanted.high):.4f}"
    assert f"(95% interval {low} to {high})" in found.out
    assert f"{low}    {high}" in found.out
    assert "; intervals that hold at every look from 150 rows on" in found.out
    assert "P@9: no interval: --first-look is for ap of one ranking, or of each class" in found.out


@pytest.mark.usefixtures("table")
def test_band_of_a_whole_curve(run, monkeypatch):
    drawn = []
    monkeypatch.setattr(plot, "precision_recall", lambda *_, **options: drawn.append(options))
    run(*BINARY, "--simultaneous", "--report", "x.html")
    run("report", *BINARY[1:], "--simultaneous", "-o", "x.html")
    run("report", *BINARY[1:], "-o", "y.html")
    run(*BINARY, "--simultaneous", "--report", "z.html", "--cluster", "cluster")
    assert [x["simultaneous"] for x in drawn] == [True, True, False, True]
    assert "which contains the whole curve" in Path("z.html").read_text()
    assert "which contains the whole curve" in Path("x.html").read_text()
    assert "level by level" in Path("y.html").read_text()
    message = "--simultaneous requires the curve of one ranking of one system"
    assert message in run("report", *BINARY[1:], "--simultaneous", "--baseline", "other", status=2).err


@each(
    "words",
    [
        (("--simultaneous",), "--simultaneous needs --interval and --per-class with classes, or --report"),
        (("--simultaneous", "--bins", "9"), "--simultaneous has no meaning with --best or --bins"),
        (("--relevance-level", "0"), "--relevance-level has no meaning without --group"),
        (("--best", "--preds", "other", "score", "-m", "auprg"), "--best is for ap of one ranking, and for means over"),
        (("--best", "--preds", "other", "score", "-m", "ap@5"), "--best is for ap of one ranking, and for means over"),
        (("-m", "auprg", "--weights", "other"), "--weights is for ap of all rows, not for auprg"),
        (("--cluster", "cluster"), "--cluster has no meaning without --interval, --chance-test, --baseline"),
        (("--first-look", "9"), "--first-look has no meaning without --interval or --fail-below"),
        (("--first-look", "401", "--interval"), "--first-look must be at most the number of rows, 400, got 401"),
        (("--first-look", "9", "--interval", "--report", "x.md"), "--first-look has no meaning with --report"),
        (("--first-look", "9", "--interval", "--baseline", "other"), "--baseline has no meaning with --first-look"),
        (("--first-look", "9", "--interval", "--weights", "other"), "--first-look has no meaning with --weights"),
        (("--simultaneous", "--report", "x.md", "--weights", "other"), "--simultaneous has no meaning with --weights"),
        (("--first-look", "9", "--interval", "--prevalence", "0.1"), "--prevalence has no meaning with --first-look"),
        (("-m", "auprg", "--group", "group"), "measure 'auprg' is of one ranking, without --group"),
        (("-m", "auprg", "--ties", "expected"), "--ties must be one of 'grouped'"),
        (
            ("--judge", "model", "--group", "group", "--target", "human"),
            "must have human labels of all rows or of none",
        ),
        (("--judge", "model", "--group", "group", "--per-group"), "--per-group cannot be combined with --judge"),
        (("--judge", "model", "--cluster", "cluster"), "--cluster cannot be combined with --judge"),
        (
            ("--false-positive-rate", "0.1", "--cluster", "cluster", "--interval"),
            "--cluster cannot be combined with --false-positive-rate",
        ),
        (("--judge", "model", "--first-look", "9"), "--first-look cannot be combined with --judge"),
        (("--false-positive-rate", "0.1", "--group", "group"), "has no meaning with --group"),
        (("--judge", "model", "-m", "P@3"), "--judge is for ap of one ranking"),
        (("--judge", "model", "--false-positive-rate", "0.1"), "has no meaning with --judge"),
        (("--judge", "score"), "must contain numbers in [0, 1]"),
        (("--false-positive-rate", "1"), "below 1"),
        (("--false-positive-rate", "0.6", "--false-negative-rate", "0.5"), "must be below"),
        (("--false-negative-rate", "0.1", "--baseline", "other"), "--baseline cannot be combined with"),
        (("--chance-test", "--bins", "9"), "--chance-test has no meaning with --bins"),
        (("--judge", "model", "--exact"), "--judge has no meaning with --bins, --exact or --best"),
    ],
)
@pytest.mark.usefixtures("table")
def test_options_that_exclude_each_other(words, run):
    options, message = words
    assert message in run(*BINARY, *options, status=2).err


@pytest.mark.usefixtures("table")
def test_missing_labels_need_a_judge(run):
    message = "row 2: column 'human' must have a value"
    assert message in run("score", "t.csv", "--preds", "score", "--target", "human", status=2).err


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Write judgements and three runs of 24 queries."""
    monkeypatch.chdir(tmp_path)
    draw, lines, truths = random.Random(4), {"good": [], "fair": [], "bad": []}, []
    for query in range(24):
        for document in range(12):
            grade = int(draw.random() < 0.3) or int(document == 0)
            truths.append(f"{query} 0 d{document} {grade}")
            for name, gap in (("good", 1.5), ("fair", 0.5), ("bad", 0.0)):
                lines[name].append(f"{query} Q0 d{document} 1 {draw.gauss(0, 1) + gap * grade} {name}")
    lines["bad"] = lines["bad"][12:]  # one query fewer
    topics = [f"{query} t{query // 2}" for query in range(24)]
    for name, rows in {"qrels": truths, "topics": topics, **lines}.items():
        Path(name).write_text("\n".join(rows) + "\n")


@pytest.mark.usefixtures("runs")
def test_best_run(run):
    words = ("trec", "qrels", "good", "fair", "bad")
    values = json.loads(run(*words, "-m", "map", "--per-query", "--json").out)
    names = list(values["bad"]["map"]["queries"])
    rows = [[values[x]["map"]["queries"][q] for q in names] for x in ("good", "fair", "bad")]
    for further, groups in (((), None), (("--cluster", "topics"), [int(q) // 2 for q in names])):
        wanted = inference.best_of_per_query(torch.tensor(rows, dtype=torch.float64), groups=groups)
        content = json.loads(run(*words, "-m", "map", "-m", "P_5", "--best", *further, "--json").out)
        found = content["measures"]["map"]
        assert (content["queries"], found["best"], found["names"]) == (23, 0, ["good", "fair", "bad"])
        assert [found["low"], found["high"]] == ends(wanted)
        assert found["simultaneous_low"] == pytest.approx(wanted.simultaneous_low.tolist())
    assert "p against best" in run(*words, "-m", "map", "--best").out
    for more, message in (
        (("trec", "qrels", "good", "--best"), "--best takes at least two runs"),
        ((*words, "--best", "--compare"), "--compare has no meaning with --best"),
        ((*words, "--best", "-m", "gm_map"), "--best is for means over queries, got gm_map"),
    ):
        assert message in run(*more, status=2).err


@pytest.mark.usefixtures("runs")
def test_measures_of_a_run_at_once(run):
    words = ("trec", "qrels", "good", "fair", "-m", "map", "-m", "P_5", "-m", "num_q", "-m", "gm_map", "--json")
    values = json.loads(run(*words, "--per-query").out)
    words = (*words, "--interval")
    for further, groups in (((), None), (("--cluster", "topics"), torch.arange(24) // 2)):
        single, found = (json.loads(run(*words, *further, *more).out) for more in ((), ("--simultaneous",)))
        for name in ("good", "fair"):
            queries = values[name]["map"]["queries"]
            rows = torch.tensor([[values[name][x]["queries"][q] for q in queries] for x in ("map", "P_5")]).double()
            sums = rows if groups is None else torch.zeros(2, 12).double().index_add(1, groups, rows)
            wide = joint_level_by_definition(sums.numpy())
            for row, measure in zip(rows, ("map", "P_5"), strict=True):
                wanted = inference.mean_interval(row, confidence_level=wide, groups=groups)
                assert found[name][measure]["low"] == pytest.approx(float(wanted.low), rel=0.01)  # random draws
                assert found[name][measure]["low"] < single[name][measure]["low"]
            assert found[name]["gm_map"]["low"] is None
            assert found[name]["map"]["simultaneous"] is True
            assert found[name]["map"].get("clusters") == (None if groups is None else 12)
            assert "simultaneous" not in single[name]["map"]
    message = "--simultaneous takes at least two measures that are means over queries"
    assert message in run("trec", "qrels", "good", "-m", "map", "--interval", "--simultaneous", status=2).err
    assert "without --interval" in run("trec", "qrels", "good", "--simultaneous", status=2).err
    words = ("trec", "qrels", "good", "-m", "map", "-m", "P_5", "--interval", "--simultaneous", "--cluster", "topics")
    text = run(*words).out
    assert "Intervals and tests are over clusters: 24 queries in 12 clusters.\n" in text
    assert "value  simultaneous 95% low  simultaneous 95% high" in text
    rows = run(*words, "--csv").out.splitlines()
    assert {"map,interval.simultaneous,1", "map,clusters,12"} <= set(rows)
    words = ("trec", "qrels", "good", "--interval", "--simultaneous", "--report", "x.html")
    assert "--simultaneous has no meaning with --report" in run(*words, status=2).err


@pytest.mark.usefixtures("runs")
def test_judge_of_a_run(run):
    draw, lines, queries = random.Random(5), Path("qrels").read_text().splitlines(), [str(x) for x in range(0, 24, 2)]
    Path("human").write_text("".join(f"{x}\n" for x in lines if x.split()[0] in queries))
    Path("judge").write_text("".join(f"{x[:-1]}{int(x[-1] == '1') ^ (draw.random() < 0.1)}\n" for x in lines))
    values = {}
    for name in ("human", "judge"):
        content = json.loads(run("trec", name, "good", "-m", "map", "--per-query", "--json").out)
        values[name] = content["good"]["map"]["queries"]
    everyone = list(values["judge"])
    labels = torch.tensor([values["human"].get(x, torch.nan) for x in everyone], dtype=torch.float64)
    wanted = inference.prediction_powered_mean_interval(
        labels, torch.tensor([values["judge"][x] for x in everyone], dtype=torch.float64), confidence_level=0.9
    )
    words = ("trec", "human", "good", "--judge", "judge", "-m", "map", "-m", "P_5")
    content = json.loads(run(*words, "--confidence-level", "0.9", "--json").out)
    found = content["measures"]["map"]
    assert (content["queries"], content["human queries"]) == (24, 12)
    assert [found["low"], found["high"]] == ends(wanted)
    assert [found["value"], found["human"]] == pytest.approx([float(wanted.estimate), float(wanted.human_estimate)])
    assert "12 units with human labels" in found["reasons"][0]
    assert "weight of judge" in run(*words).out
    Path("few").write_text(lines[0] + "\n")
    for more, message in (
        (("trec", "human", "good", "fair", "--judge", "judge"), "--judge takes one run, got 2"),
        ((*words, "--interval"), "--interval has no meaning with --judge"),
        ((*words, "-m", "gm_map"), "--judge is for means over queries of values in [0, 1], got gm_map"),
        (("trec", "human", "good", "--judge", "few"), "few: must judge every query of human, but lacks '2'"),
    ):
        assert message in run(*more, status=2).err


@pytest.mark.usefixtures("runs")
def test_chance_of_runs(run):
    words = ("-m", "map", "-m", "map@5", "-m", "P_5", "--chance-test", "--n-resamples", "99")
    content = json.loads(run("trec", "qrels", "good", "bad", *words, "--json").out)
    test = content["bad"]["map"]["chance_test"]
    assert 0 < test["p_value"] <= 1
    assert test["estimate"] == pytest.approx(content["bad"]["map"]["all"])
    untested = content["bad"]["P_5"]["chance_test"]
    assert untested["p_value"] is None
    assert untested["estimate"] == content["bad"]["P_5"]["all"]
    interval = json.loads(run("trec", "qrels", "bad", "-m", "map", "--interval", "--json").out)
    assert test["chance_level"] == pytest.approx(interval["bad"]["map"]["chance"])
    assert "p (chance)" in run("trec", "qrels", "good", *words).out
    assert "chance_test.p_value" in run("trec", "qrels", "good", *words, "--csv").out
    assert (
        "--chance-test is for map and map@k" in run("trec", "qrels", "good", "-m", "P_5", "--chance-test", status=2).err
    )
    for convention in ("trec9", "expected", "grouped"):
        run("trec", "qrels", "good", *words, "--convention", convention)
    for convention in ("optimistic", "pessimistic"):
        said = run("trec", "qrels", "good", *words, "--convention", convention, status=2).err
        rule = "one of 'trec10', 'trec9', 'expected', 'grouped' or another without --chance-test"
        assert said == f"torch-ap: --convention must be {rule}, got '{convention}'\n"
    said = run("trec", "qrels", "good", "-m", "bpref", "--convention", "expected", status=2).err
    assert said.endswith("trec_eval only: it needs --convention trec9 or --convention trec10\n")


@pytest.mark.usefixtures("runs")
def test_gates_of_clusters(run):
    words = ("--compare", "--fail-if-worse", "--cluster", "topics", "-m", "map")
    assert "Gate map >= good of bad: failed" in run("trec", "qrels", "good", "bad", *words, status=1).out
    gate = json.loads(run("trec", "qrels", "bad", "good", *words, "--json").out)["gates"][0]
    assert gate["result"] == "passed"
    compared = json.loads(run("trec", "qrels", "bad", "good", *words, "--json").out)["good"]["map"]["compared"]
    assert gate["p_value"] == pytest.approx(compared["p_t"])


def test_gates_of_clustered_rows(table, run):
    words = ("--baseline", "other", "--cluster", "cluster", "--fail-if-worse")
    gate = json.loads(run(*BINARY, *words, "--json", status=0).out)["gates"][0]
    wanted = inference.compare_rankings(table["score"], table["other"], table["label"], groups=table["cluster"])
    assert gate["p_value"] == pytest.approx(float(wanted.p_value))
    grouped = run(*BINARY, *words, "--group", "group", "--json", status=0)
    assert json.loads(grouped.out)["gates"][0]["result"] == "passed"


@pytest.fixture
def detections(tmp_path, monkeypatch):
    """Write 24 images in 12 videos, and three lists of detections."""
    monkeypatch.chdir(tmp_path)
    draw, boxes = random.Random(1), []
    images = [{"id": x, "width": 100, "height": 100, "video_id": x // 2} for x in range(24)]
    for place in range(48):
        box = [60 * draw.random(), 60 * draw.random(), 30, 30]
        boxes.append(
            {"id": place + 1, "image_id": place // 2, "category_id": 1, "bbox": box, "area": 900, "iscrowd": 0}
        )
    truth = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "a"}]}
    Path("truth.json").write_text(json.dumps(truth))
    for name, noise in (("a", 2), ("b", 4), ("c", 6)):
        found = [
            {
                "image_id": x["image_id"],
                "category_id": 1,
                "score": draw.random(),
                "bbox": [x["bbox"][0] + draw.gauss(0, noise), *x["bbox"][1:]],
            }
            for x in boxes
        ]
        Path(f"{name}.json").write_text(json.dumps(found))


@pytest.mark.usefixtures("detections")
def test_best_detector(run):
    lists = ("a.json", "b.json", "c.json")
    videos = [x // 2 for x in range(24)]
    for further, groups in (((), None), (("--cluster", "video_id"), videos)):
        metrics = {}
        for name in lists:
            data = read_coco("truth.json", name)
            metrics[name] = MeanAveragePrecision("xywh", use_given_area=True)
            metrics[name].update(data.preds, data.target, groups=groups)
        wanted = inference.best_of_metrics(metrics, n_resamples=50)
        words = ("coco", "truth.json", *lists, "--best", *further, "--n-resamples", "50")
        content = json.loads(run(*words, "--json").out)
        found = content["measures"]["map"]
        assert (content["images"], found["best"], found["names"]) == (24, 0, list(lists))
        assert [found["low"], found["high"]] == ends(wanted)
    assert "selection" in run(*words).out
    assert run(*words, "--csv").out.startswith("measure,system,value")
    gate = run(
        "coco", "truth.json", "c.json", "--compare", "a.json", "--fail-if-worse", "--cluster", "video_id", status=1
    )
    assert "Gate map >= a.json of c.json: failed" in gate.out
    assert "--best takes at least two lists" in run("coco", "truth.json", "a.json", "--best", status=2).err
    assert "--interval has no meaning with --best" in run(*words, "--interval", status=2).err
