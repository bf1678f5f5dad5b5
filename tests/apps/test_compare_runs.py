import csv
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from tests.support.tolerances import REORDERED
from torch_ap.cli.compare_runs import DIFFERENCES, RATIOS, Settings, compare_all_runs, compare_with_baseline, tables
from torch_ap.cli.main import main
from torch_ap.inference import compare_per_query, mean_interval
from torch_ap.inference.record import holm
from torch_ap.retrieval.runs.names import Result


def result(values, names="abcdefgh", geometric=False):
    values = torch.tensor(values, dtype=torch.float64)
    aggregate = values.clamp(min=1e-5).log().mean().exp() if geometric else values.mean()
    return Result(list(names[: len(values)]), values, float(aggregate), geometric)


def test_queries_are_paired_by_name():
    first, other = result([0.1, 0.5, 0.9, 0.4]), result([0.8, 0.5, 0.7], "dbc")
    found = compare_with_baseline(other, first, Settings())
    assert {x.queries for x in found.values()} == {3}
    wanted = stats.ttest_rel([0.8, 0.5, 0.7], [0.4, 0.5, 0.9])
    assert found["t"].p_value == pytest.approx(wanted.pvalue)
    runs = {"one": {"map": first}, "two": {"map": other}, "none": {"map": result([0.3], "z")}}
    (rows,) = tables(compare_all_runs(runs, Settings(0.9)), "one", Settings(0.9))
    assert rows[0][3:6] == ("run - one", "90% low", "90% high")
    assert rows[1][:4] == ("map", "two", "3", f"{0.2 / 3:+.4f}")
    assert rows[2][:4] == ("map", "none", "0", "-")


def test_geometric_means_are_compared_by_their_ratio():
    values = [0.1, 0.5, 0.9, 0.4, 0.0], [0.2, 0.4, 0.95, 0.6, 0.3]
    first, other = (result(x, geometric=True) for x in values)
    found = compare_all_runs(
        {"one": {"gm_map": first, "map": result(values[0])}, "two": {"gm_map": other, "map": other}}, Settings()
    )
    numbers = found["two"]["gm_map"].numbers
    assert tuple(numbers) == RATIOS
    logs = [np.log(np.maximum(x, 1e-5)) for x in values]
    wanted = stats.ttest_rel(logs[1], logs[0])
    ends = wanted.confidence_interval()
    assert numbers["ratio"] == pytest.approx(other.aggregate / first.aggregate, rel=REORDERED)
    assert numbers["ratio"] == pytest.approx(stats.gmean(np.exp(logs[1])) / stats.gmean(np.exp(logs[0])), rel=REORDERED)
    assert (numbers["ratio_low"], numbers["ratio_high"]) == pytest.approx((math.exp(ends.low), math.exp(ends.high)))
    assert numbers["p_t"] == pytest.approx(wanted.pvalue)
    gap = logs[1] - logs[0]
    assert numbers["log_standard_error"] == pytest.approx(stats.sem(gap))
    assert numbers["log_effect_size"] == pytest.approx(gap.mean() / gap.std(ddof=1))
    differences, ratios = tables(found, "one", Settings())
    assert [row[0] for row in differences] == ["measure", "map"]
    assert ratios[0][3] == "run / one"
    assert ratios[1][:4] == ("gm_map", "two", "5", f"{numbers['ratio']:.4g}")


def test_equal_differences_are_no_evidence():
    first, other = result([0.1, 0.5, 0.9, 0.4]), result([0.2, 0.6, 1.0, 0.5])
    ((_, row),) = tables(
        compare_all_runs({"one": {"P@10": first}, "two": {"P@10": other}}, Settings()), "one", Settings()
    )
    assert row == ("P@10", "two", "4", "+0.1000", "-", "-", "-", "0.125")


@pytest.fixture
def files(tmp_path):
    qrels, good, bad = (tmp_path / name for name in ("qrels", "good", "bad"))
    topics = range(1, 9)
    qrels.write_text("".join(f"{q} 0 d{d} {int(d % 3 == 0)}\n" for q in topics for d in range(9)))
    good.write_text("".join(f"{q} Q0 d{d} 1 {9 - d % 3 + d / 20} good\n" for q in topics for d in range(9)))
    bad.write_text("".join(f"{q} Q0 d{d} 1 {(d * q) % 7} bad\n" for q in topics for d in range(9)))
    return [str(path) for path in (qrels, good, bad)]


def test_command_prints_differences(files, capsys):
    assert main(["trec", *files, "-m", "map", "--compare"]) == 0
    out = capsys.readouterr().out
    assert "p (randomization)" in out
    assert out.splitlines()[-1].split()[:3] == ["map", "bad", "8"]
    assert "-0." in out.splitlines()[-1]
    assert "run - good  95% low  95% high" in out
    assert "differ" not in out


def test_p_values_allow_for_all_measures_and_runs(files, tmp_path, capsys):
    other = tmp_path / "other"
    other.write_text("".join(f"{q} Q0 d{d} 1 {(d * q + 3) % 5} other\n" for q in range(1, 9) for d in range(9)))
    measures = ["-m", "map", "-m", "gm_map", "-m", "P@2", "-m", "num_rel"]
    words = ["trec", *files, str(other), *measures, "--compare"]
    assert main([*words, "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)
    compared = [x["compared"] for run in ("bad", "other") for x in runs[run].values() if "compared" in x]
    assert len(compared) == 6
    expected = holm(torch.tensor([x["p_t"] for x in compared], dtype=torch.float64))
    assert [x["adjusted_p_t"] for x in compared] == pytest.approx(expected.tolist())
    assert main(words) == 0
    out = capsys.readouterr().out
    assert out.count("p (t, Holm)\n") == 2  # the heads of differences and of ratios
    assert "\np (t, Holm) allows for all measures and runs.\n" in out
    assert main([*words, "--csv"]) == 0
    assert f"map,compared.adjusted_p_t,,{compared[0]['adjusted_p_t']}," in capsys.readouterr().out


def test_compare_takes_the_baseline(files, capsys):
    qrels, good, bad = files
    outputs = []
    for words in ((good, bad, "--compare"), (bad, "--compare", good), (bad, good, "--compare", good)):
        assert main(["trec", qrels, *words, "-m", "map", "--json"]) == 0
        outputs.append(capsys.readouterr())
    assert outputs[0] == outputs[1] == outputs[2]
    assert main(["trec", qrels, good, "--compare", os.path.relpath(good)]) == 2  # the same file
    assert "--compare takes at least two different runs" in capsys.readouterr().err


def test_command_describes_its_numbers(files, tmp_path, capsys):
    qrels, good, bad = files
    some = tmp_path / "some"
    some.write_text("".join(line for line in Path(bad).read_text().splitlines(True) if line[0] in "124"))
    assert main(["trec", qrels, good, str(some), "-m", "map", "-m", "gm_map", "--compare"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith(
        f"torch-ap: {some} has tied scores in 3 queries, where the order of the documents' names"
    )
    assert said.err.count("\n") == 1
    assert "use their common queries, the values above all queries of a run (see -c)." in said.out
    assert "run / good" in said.out
    assert "\n-: " not in said.out
    assert main(["trec", qrels, good, str(some), "-m", "map", "--compare", "--csv"]) == 0
    assert "use their common queries (see -c)" in capsys.readouterr().err
    assert main(["trec", qrels, good, str(some), "-m", "map", "--compare", "--complete"]) == 0
    assert "differ" not in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["trec", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "compare each run with the first run, or with BASELINE" in text
    assert "gm_map: ratio of the geometric means" in text


def test_command_writes_json_and_csv(files, capsys):
    command = ["trec", *files, "-m", "map", "-m", "P@5", "-m", "gm_map", "--compare"]
    assert main([*command, "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert set(out["good"]["map"]) == {"all"}
    for name in ("map", "P@5"):
        found = out["bad"][name]["compared"]
        assert (found.pop("baseline"), *found) == ("good", *DIFFERENCES)
        assert found["difference"] == pytest.approx(out["bad"][name]["all"] - out["good"][name]["all"])
        assert found["queries"] == 8
    found = out["bad"]["gm_map"]["compared"]
    assert (found.pop("baseline"), *found) == ("good", *RATIOS)
    assert found["ratio"] == pytest.approx(out["bad"]["gm_map"]["all"] / out["good"]["gm_map"]["all"])
    assert main([*command, "--csv"]) == 0
    rows = list(csv.reader(capsys.readouterr().out.splitlines()))
    compared_rows = [row for row in rows if row[1].startswith("compared.")]
    assert all(row[2] == "" for row in compared_rows)
    wanted = [x for name in ("map", "P@5", "gm_map") for x in out["bad"][name]["compared"].values()]
    assert [row[1].removeprefix("compared.") for row in compared_rows] == [*DIFFERENCES, *DIFFERENCES, *RATIOS]
    assert [float(row[3]) for row in compared_rows] == wanted


def test_numbers_that_do_not_exist_are_left_empty(files, tmp_path, capsys):
    qrels, good, _ = files
    one, none = tmp_path / "one", tmp_path / "none"
    one.write_text("1 Q0 d1 1 3 one\n1 Q0 d3 2 2 one\n")
    none.write_text("20 Q0 d3 1 3 none\n")
    Path(qrels).write_text(Path(qrels).read_text() + "20 0 d3 1\n")
    command = ["trec", qrels, good, str(one), str(none), "-m", "map", "--compare"]
    assert main([*command, "--json"]) == 0
    out = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert out["one"]["map"]["compared"]["low"] is None
    assert out["one"]["map"]["compared"]["queries"] == 1
    assert out["none"]["map"]["compared"] == {"baseline": "good", "queries": 0}
    assert main([*command, "--csv"]) == 0
    rows = {row[1]: row[2:] for row in csv.reader(capsys.readouterr().out.splitlines())}
    assert rows["compared.queries"] == ["", "1", "0"]
    assert rows["compared.low"] == ["", "", ""]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "nan" not in out
    first, second = (line.split() for line in out.splitlines() if line.startswith("map") and line.split()[1] != "all")
    assert first[:3] == ["map", "one", "1"]
    assert first[4:] == ["-", "-", "-", "1", "-"]
    assert second == ["map", "none", "0", *"------"]
    assert "-: undefined, for one query" in out


def test_command_refuses_incomparable_runs(files, capsys):
    assert main(["trec", *files[:2], "--compare"]) == 2
    assert "--compare" in capsys.readouterr().err


def test_confidence_level_and_resamples_are_the_users(files, capsys):
    command = ["trec", *files, "-m", "map", "--compare"]
    assert main([*command, "--json"]) == 0
    wide = json.loads(capsys.readouterr().out)["bad"]["map"]["compared"]
    assert main([*command, "--json", "--confidence-level", "0.5", "--n-resamples", "20"]) == 0
    narrow = json.loads(capsys.readouterr().out)["bad"]["map"]["compared"]
    assert wide["low"] < narrow["low"] < narrow["high"] < wide["high"]
    assert main([*command, "--confidence-level", ".999"]) == 0
    assert "99.9% low" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("--confidence-level", "95", "between 0 and 1"),
        ("--confidence-level", "nan", "between 0 and 1"),
        ("--confidence-level", "x", "between 0 and 1"),
        ("--n-resamples", "1", "at least 2"),
        ("--n-resamples", "1e3", "at least 2"),
    ],
)
def test_bad_options_are_refused_by_name(files, capsys, option, value, rule):
    with pytest.raises(SystemExit):
        main(["trec", *files, "--compare", option, value])
    said = capsys.readouterr().err
    assert option in said
    assert rule in said
    assert value in said


def test_queries_in_clusters(tmp_path, capsys):
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(2, 40, 5, generator=generator)
    paths = [tmp_path / name for name in ("qrels", "a", "b", "topics")]
    rows = [(query, document) for query in range(40) for document in range(5)]
    paths[0].write_text("".join(f"q{query} 0 d{document} {int(document == query % 5)}\n" for query, document in rows))
    for path, values in zip(paths[1:3], scores, strict=True):
        path.write_text("".join(f"q{x} Q0 d{y} 1 {float(values[x, y])} {path.name}\n" for x, y in rows))
    paths[3].write_text("".join(f"q{query} t{query % 12}\n" for query in range(40)))
    arguments = ["trec", *map(str, paths[:3]), "-m", "map", "--interval", "--compare", "--json", "--cluster"]
    assert main([*arguments, str(paths[3])]) == 0
    found = json.loads(capsys.readouterr().out)
    ranks = [1 + (values > values[torch.arange(40), torch.arange(40) % 5][:, None]).sum(1) for values in scores]
    values, groups = [1 / x.double() for x in ranks], torch.arange(40) % 12
    runs = list(found.values())[-1] if "runs" in found else found
    interval, compared = mean_interval(values[0], groups=groups), compare_per_query(values[1], values[0], groups=groups)
    assert runs["a"]["map"]["low"] == pytest.approx(float(interval.low))
    assert runs["b"]["map"]["compared"]["p_t"] == pytest.approx(float(compared.p_value))
    assert runs["b"]["map"]["compared"]["p_randomization"] is None
    assert (
        main(["trec", *map(str, paths[:2]), "-m", "map", "--chance-test", "--json", *arguments[-1:], str(paths[3])])
        == 0
    )
    found = json.loads(capsys.readouterr().out)["a"]["map"]["chance_test"]
    chance = torch.full_like(values[0], sum(1 / x for x in range(1, 6)) / 5)
    compared = compare_per_query(values[0], chance, groups=groups)
    spread, sizes = np.std([1 / x for x in range(1, 6)]), torch.bincount(groups).double()
    error = max(float(compared.standard_error), float(spread) / math.sqrt(40))  # at least that of random orders
    wanted = stats.t.sf(float(compared.difference) / error, float(sizes.sum() ** 2 / sizes.square().sum()) - 1)
    page = ["--compare", str(paths[2]), "--report", str(tmp_path / "x.md"), *arguments[-1:], str(paths[3])]
    assert main(["trec", *map(str, paths[:2]), "-m", "map", *page]) == 0
    capsys.readouterr()
    text, interval = (tmp_path / "x.md").read_text(), mean_interval(values[0], groups=groups)
    assert f"95% interval {float(interval.low):.4f} to {float(interval.high):.4f}" in text
    assert "| 40 | 12 |" in text  # queries and groups
    assert found["p_value"] == pytest.approx(wanted)
    for text, message in (
        ("q1 t 3\n", "two fields, `query cluster`, got 3"),
        ("q1 a\nq1 b\n", "must have one cluster"),
    ):
        paths[3].write_text(text)
        assert main([*arguments, str(paths[3])]) == 2
        assert message in capsys.readouterr().err
    paths[3].write_text("q1 a\n")
    assert main([*arguments, str(paths[3])]) == 2
    wanted = f"{paths[3]} (--cluster): must have a line `query cluster` for every query, got none for 'q0'"
    assert wanted in capsys.readouterr().err
