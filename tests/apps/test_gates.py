"""``--fail-below`` and ``--fail-if-worse``: exit status, results in every form, and Holm's procedure."""

import json
import math
import random
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from torch_ap.cli import gates, main
from torch_ap.cli.gates import FAILED, PASSED, UNDECIDED, Gate
from torch_ap.inference import Interval, compare_per_query, compare_rankings, mean_interval
from torch_ap.inference.record import comparison_from_error, holm, normal_quantile, wald

LEVEL = 0.95


def bound_gate(estimate, error, bound):
    """Return the gate of a normal estimate with a known error."""

    def interval(level):
        value = torch.tensor(estimate, dtype=torch.float64)
        ends = wald(value, torch.tensor(error, dtype=torch.float64), normal_quantile(level))
        return Interval(value, *ends, error, level, "")

    return Gate("a", "m", bound, interval)


def difference_gate(difference, error, margin):
    def comparison(level):
        return comparison_from_error(difference, 0.0, error, confidence_level=level, method="influence")

    return Gate("a", "m", -margin, comparison, "b")


def test_decisions_equal_holms_adjusted_p_values():
    draw = np.random.default_rng(8)
    results = set()
    for _ in range(60):
        numbers = [(*draw.normal(0, 0.25, 2), abs(draw.normal(0.1, 0.05)) + 0.01) for _ in range(draw.integers(1, 7))]
        tested, z = [], []
        for place, (estimate, bound, error) in enumerate(numbers):
            kind = place % 3  # a bound, a margin of 0, and another margin
            bound = bound if kind == 0 else -abs(bound) * (kind - 1)
            tested.append(bound_gate(estimate, error, bound) if kind == 0 else difference_gate(estimate, error, -bound))
            z.append((estimate - bound) / error)
        adjusted = holm(torch.tensor([math.erfc(abs(x) / math.sqrt(2)) for x in z], dtype=torch.float64))
        gates.decide(tested, LEVEL)
        expected = [
            UNDECIDED if p > 1 - LEVEL else PASSED if x > 0 else FAILED
            for x, p in zip(z, adjusted.tolist(), strict=True)
        ]
        assert [gate.result for gate in tested] == expected
        results.update(expected)
        assert gates.status_of(tested) == (1 if FAILED in expected else 3 if UNDECIDED in expected else 0)
    assert results == {PASSED, FAILED, UNDECIDED}


def test_equal_systems_pass_and_undefined_numbers_decide_nothing():
    for error, result in ((0.0, PASSED), (math.nan, UNDECIDED)):
        gate = difference_gate(0.0, error, 0)
        gates.decide([gate], LEVEL)
        assert (gate.result, gates.status_of([gate])) == (result, 0 if result == PASSED else 3)
    gate = bound_gate(0.3, math.nan, 0.2)
    gates.decide([gate], LEVEL)
    assert gate.result == UNDECIDED
    assert "value 0.3000 (95% interval - to -)" in gate.sentence
    assert gates.status_of([]) == 0


@pytest.fixture
def run(capsys):
    def command(*words, status):
        try:
            found = main.main([*map(str, words)])
        except SystemExit as stopped:
            found = stopped.code
        said = capsys.readouterr()
        assert found == status, said
        return said

    return command


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(2)
    label = draw.random(600) < 0.3
    scores = {"good": draw.normal(size=600) + 2 * label, "bad": draw.normal(size=600)}
    scores["alike"] = scores["good"] + 0.05 * draw.normal(size=600)
    lines = ["good,bad,alike,label,query"]
    rows = zip(*scores.values(), label, strict=True)
    lines += [f"{a},{b},{c},{int(y)},q{place % 30}" for place, (a, b, c, y) in enumerate(rows)]
    Path("t.csv").write_text("\n".join(lines) + "\n")
    return {name: torch.tensor(x) for name, x in scores.items()}, torch.tensor(label).long()


TABLE = ("score", "t.csv", "--target", "label", "--preds")


@pytest.mark.usefixtures("table")
def test_status_of_a_table(run):
    for words, status in (
        (("good", "--fail-below", "ap=0.5"), 0),
        (("good", "--fail-below", "map=0.5"), 0),  # another name
        (("bad", "--fail-below", "ap=0.5"), 1),
        (("bad", "--fail-below", "ap=0.3"), 3),
        (("bad", "--fail-below", "ap=0.3", "--fail-below", "ap=0.6"), 1),
        (("good", "--baseline", "bad", "--fail-if-worse"), 0),
        (("bad", "--baseline", "good", "--fail-if-worse"), 1),
        (("good", "--baseline", "alike", "--fail-if-worse"), 3),
        (("good", "--baseline", "good", "--fail-if-worse"), 0),
        (("alike", "--baseline", "good", "--fail-if-worse", "0.05"), 0),
        (("bad", "--baseline", "good", "--fail-if-worse", "0.95"), 0),
        (("bad", "--baseline", "good", "--fail-if-worse", "0.1"), 1),
        (("good", "--group", "query", "-m", "map", "-m", "P@3", "--fail-below", "P@3=0.1"), 0),
        (("bad", "--group", "query", "-m", "map", "-m", "ndcg", "--baseline", "good", "--fail-if-worse"), 1),
        (("good", "--bins", "64", "--fail-below", "ap=0.5"), 0),
        (("bad", "--bins", "64", "--fail-below", "ap=0.6"), 1),
        (("bad", "--group", "query", "--bins", "500", "--baseline", "good", "--fail-if-worse"), 1),
        (("good", "--group", "query", "--bins", "40", "--fail-below", "ap=0.5"), 3),  # the bounds are wide
        (("good", "bad", "--target", "label", "label", "--fail-below", "ap=0.1"), 0),
    ):
        run(*TABLE, *words, status=status)


def test_numbers_are_the_librarys_at_the_level_of_holm(table, run):
    scores, target = table
    words = ("--baseline", "bad", "--fail-if-worse", "0.9", "--fail-below", "ap=0.9", "--confidence-level", "0.9")
    found = json.loads(run(*TABLE, "good", *words, "--json", status=1).out)["gates"]
    first, second = found
    level = 1 - 0.1 / 2
    compared = compare_rankings(scores["good"], scores["bad"], target, confidence_level=level)
    assert [x["confidence_level"] for x in found] == pytest.approx([level, level])
    assert first == {
        "system": "t.csv",
        "measure": "ap",
        "bound": 0.9,
        **{x: pytest.approx(first[x]) for x in ("value", "low", "high", "confidence_level")},
        "result": FAILED,
    }
    assert {x: second[x] for x in ("baseline", "margin", "result")} == {
        "baseline": "bad",
        "margin": 0.9,
        "result": PASSED,
    }
    names = ("difference", "low", "high", "p_value")
    assert [second[x] for x in names] == pytest.approx([float(getattr(compared, x)) for x in names])


@pytest.mark.usefixtures("table")
def test_results_are_in_every_form_and_in_the_junit_file(run):
    words = (*TABLE, "bad", "--baseline", "alike", "--fail-below", "ap=0.3", "--fail-below", "ap=0.01")
    words += ("--fail-if-worse", "--junit", "gates.xml")
    sentences = run(*words, status=1).out.splitlines()[-3:]
    assert [line.split(",")[0] for line in sentences] == [
        "Gate ap >= 0.3 of t.csv: undecided",
        "Gate ap >= 0.01 of t.csv: passed",
        "Gate ap >= alike of t.csv: failed",
    ]
    assert all(line in run(*words, "--markdown", status=1).out for line in sentences)
    assert [line.removeprefix("torch-ap: ") for line in run(*words, "--csv", status=1).err.splitlines()] == sentences
    root = ElementTree.parse("gates.xml").getroot()
    assert root.attrib | {"tests": "3", "failures": "1", "skipped": "1", "errors": "0"} == root.attrib
    cases = root.findall("testsuite/testcase")
    assert [(x.get("classname"), x.get("name"), x[0].tag) for x in cases] == [
        ("t.csv", "ap >= 0.3", "skipped"),
        ("t.csv", "ap >= 0.01", "system-out"),
        ("t.csv", "ap >= alike", "failure"),
    ]
    assert [x[0].get("message", x[0].text) for x in cases] == sentences


@pytest.mark.usefixtures("table")
def test_a_page_has_gates_too(run):
    said = run("report", *TABLE[1:], "bad", "--fail-below", "ap=0.9", "-o", "page.md", "--junit", "g.xml", status=1)
    assert said.out.splitlines()[0] == "page.md"
    assert said.out.splitlines()[1].startswith("Gate ap >= 0.9 of t.csv: failed")
    assert Path("page.md").exists()
    assert Path("g.xml").exists()


@pytest.mark.usefixtures("table")
def test_faults_of_gates(run):
    for words, part in (
        (("--fail-below", "P@10=0.3"), "takes a measure of this command, ap, got 'P@10'; add -m P@10"),
        (("--fail-below", "ap=42"), "--fail-below ap must have a bound in [0, 1], got 42"),
        (("--fail-below", "ap=-0.1"), "--fail-below ap must have a bound in [0, 1], got -0.1"),
        (("--baseline", "bad", "--fail-if-worse", "5"), "--fail-if-worse of ap must be at most 1, got 5"),
        (("--fail-below", "ap"), "--fail-below: must be MEASURE=BOUND, as map=0.42, got 'ap'"),
        (("--fail-below", "ap=nan"), "must be MEASURE=BOUND"),
        (("--fail-below", "=1"), "must be MEASURE=BOUND"),
        (("--fail-if-worse",), "--fail-if-worse has no meaning without --baseline"),
        (("--baseline", "bad", "--fail-if-worse", "-1"), "--fail-if-worse: must be a number of at least 0, got '-1'"),
        (("--baseline", "bad", "--fail-if-worse", "inf"), "must be a number of at least 0"),
        (("--junit", "x"), "--junit has no meaning without --fail-below or --fail-if-worse"),
        (("--fail-below", "Rprec=0", "-m", "Rprec"), "--fail-below Rprec has no interval: one ranking has one"),
        (("--baseline", "bad", "--fail-if-worse", "-m", "F@3"), "--fail-if-worse of F@3 has no comparison"),
        (("--baseline", "bad", "--fail-if-worse", "--bins", "9"), "--fail-if-worse of ap: no p-value: bins of two"),
        (("--fail-below", "P@3=0", "-m", "P@3", "--bins", "9"), "--fail-below P@3: no interval: with --bins only"),
        (("--fail-below", "ap=0", "--junit", "none/x.xml"), "none/x.xml: No such file or directory"),
    ):
        assert part in run(*TABLE, "good", *words, status=2).err


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw, lines = random.Random(4), {"good": [], "bad": [], "far": []}
    truths = []
    for query in range(25):
        for document in range(12):
            grade = int(draw.random() < 0.3) or int(document == 0)
            truths.append(f"{query} 0 d{document} {grade}")
            lines["good"].append(f"{query} Q0 d{document} 1 {draw.random() + grade} good")
            lines["bad"].append(f"{query} Q0 d{document} 1 {draw.random()} bad")
            lines["far"].append(f"{query + 25} Q0 d{document} 1 {draw.random()} far")
    for name, rows in {"qrels": [*truths, "25 0 d1 1"], **lines}.items():
        Path(name).write_text("\n".join(rows) + "\n")


@pytest.mark.usefixtures("runs")
def test_status_of_runs(run):
    for words, status in (
        (("good", "--fail-below", "map=0.5"), 0),
        (("bad", "--fail-below", "map=0.8", "-m", "AP(rel=1)"), 1),
        (("good", "bad", "--fail-below", "map=0.8"), 1),
        (("good", "bad", "--compare", "--fail-if-worse", "-m", "map", "-m", "P_5", "-m", "num_ret"), 1),
        (("bad", "good", "--compare", "--fail-if-worse", "-m", "gm_map"), 0),
        (("bad", "good", "--compare", "--fail-if-worse", "0.1", "--fail-below", "P.5=0.1", "-m", "P_5"), 0),
        (("good", "good", "--compare", "--fail-if-worse", "-m", "ndcg"), 0),
        (("good", "-m", "dcg", "--fail-below", "dcg=1.5"), 0),  # no share
        *(
            (("good", *words, "-m", name), status)
            for name in ("hits(rel=1)@10", "hits(judged_only=True)@10", "hits-l1", "dcg(judged_only=True)@5")
            for words, status in (
                (("--fail-below", f"{name}=1.5"), 0),
                (("--fail-below", f"{name}=9"), 1),
                (("bad", "--compare", "--fail-if-worse", "3"), 0),
            )
        ),
    ):
        said = run("trec", "qrels", *words, "--json", status=status)
        found = json.loads(said.out)["gates"]
        assert gates.status_of([Gate("", "", 0, None, result=x["result"]) for x in found]) == status
    for words, part in (
        (("good", "--fail-below", "AP(rel=1)@10=2", "-m", "AP(rel=1)@10"), "must have a bound in [0, 1], got 2"),
        (("good", "bad", "--compare", "--fail-if-worse", "2", "-m", "AP(rel=1)"), "must be at most 1, got 2"),
        (("good", "--fail-below", "num_ret=3", "-m", "num_ret"), "--fail-below num_ret has no interval"),
        (("good", "--fail-below", "gm_map=0", "-m", "gm_map"), "--fail-below gm_map has no interval"),
        (("good", "--fail-below", "P=0"), "--fail-below takes a measure of this command, map, map@10"),
        (("good", "bad", "--compare", "--fail-if-worse", "-m", "num_q"), "takes a measure that is not a count"),
        (
            ("good", "bad", "--compare", "--fail-if-worse", "0.1", "-m", "gm_map"),
            "--fail-if-worse must be 0 for gm_map",
        ),
        (("good", "far", "--compare", "--fail-if-worse"), "the runs have no common queries"),
    ):
        assert part in run("trec", "qrels", *words, status=2).err


@pytest.mark.usefixtures("runs")
def test_gates_of_runs_are_tests_over_queries(run):
    words = ("-m", "map", "--per-query", "--compare", "--fail-if-worse", "--fail-below", "map=0.7", "--json")
    found = json.loads(run("trec", "qrels", "good", "bad", *words, status=1).out)
    good, bad = (torch.tensor(list(found[x]["map"]["queries"].values()), dtype=torch.float64) for x in ("good", "bad"))
    compared = compare_per_query(bad, good)
    interval = mean_interval(bad, confidence_level=found["gates"][0]["confidence_level"])
    assert [x["system"] for x in found["gates"]] == ["bad", "bad"]
    assert found["gates"][0]["high"] == pytest.approx(float(interval.high))
    assert found["gates"][1]["p_value"] == pytest.approx(float(compared.p_value))


@pytest.mark.usefixtures("runs")
def test_a_run_named_gates_is_an_error_in_json(run):
    Path("odd").write_text(Path("good").read_text().replace(" good\n", " gates\n"))
    words = ("trec", "qrels", "odd", "--fail-below", "map=0.1")
    run(*words, status=0)
    assert "results are named 'gates'" in run(*words, "--json", status=2).err


@pytest.fixture
def detections(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = random.Random(1)
    images = [{"id": x, "width": 99, "height": 99, "neg_category_ids": []} for x in range(1, 31)]
    truths, found = [], {"near": [], "off": []}
    for x in images:
        box = [draw.uniform(0, 50), draw.uniform(0, 50), 30.0, 30.0]
        truths.append({"id": x["id"], "image_id": x["id"], "category_id": 1, "bbox": box, "area": 900, "iscrowd": 0})
        for name, off in (("near", 2), ("off", 6)):
            moved = [max(0, v + draw.gauss(0, off)) for v in box[:2]] + box[2:]
            found[name].append({"image_id": x["id"], "category_id": 1, "bbox": moved, "score": draw.random()})
    category = {"id": 1, "name": "cat", "frequency": "f"}
    for x in images:
        x["not_exhaustive_category_ids"] = []
    truth = {"images": images, "annotations": truths, "categories": [category]}
    for name, content in {"truth": truth, **found}.items():
        Path(f"{name}.json").write_text(json.dumps(content))
    for folder, rows in (("t", truths), *found.items()):
        Path(folder).mkdir()
        for row in rows:
            x, y, w, h = row["bbox"]
            line = " ".join(map(str, ["cat", *([row["score"]] if "score" in row else []), x, y, x + w, y + h]))
            Path(folder, f"{row['image_id']}.txt").write_text(line)


@pytest.mark.usefixtures("detections")
@pytest.mark.parametrize("command", ["coco", "lvis", "voc"])
def test_status_of_detectors(command, run):
    truth, near, off = ("t", "near", "off") if command == "voc" else ("truth.json", "near.json", "off.json")
    for words, status in (
        ((near, "--fail-below", "map=0.4"), 0),
        ((off, "--fail-below", "map=0.99"), 1),
        ((near, off, "--fail-below", "map=0.99"), 1),
        ((off, "--compare", near, "--fail-if-worse"), 1),
        ((near, off, "--compare", off, "--fail-if-worse", "0.01", "--fail-below", "map=0.1"), 0),
        ((near, near.replace("near", "off"), "--compare", "--fail-if-worse", "0.99"), 0),
    ):
        said = run(command, truth, *words, "--n-resamples", "100", "--json", status=status)
        found = json.loads(said.out)["gates"]
        assert {x["measure"] for x in found} == {"AP" if command == "lvis" else "map"}
        assert all(x["low"] <= x.get("value", x.get("difference")) <= x["high"] for x in found)
    name = "AP" if command == "lvis" else "map"
    assert (
        f"--fail-below takes a measure of this command, {name}, got 'map_50'"
        in run(command, truth, near, "--fail-below", "map_50=0.5", status=2).err
    )
