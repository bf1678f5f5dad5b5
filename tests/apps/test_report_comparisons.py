"""Reports of two systems: differences of all numbers, wins and losses, scatters."""

import json
import math
import re

import pytest
import torch

from tests.apps.test_reports import ROUNDED, labels, number_in, queries, ranking, rows_of
from tests.support.each import each
from tests.support.oracles_detection import random_scene
from tests.support.tolerances import REORDERED, SINGLE
from torch_ap import (
    BinaryAveragePrecision,
    MeanAveragePrecision,
    MulticlassAveragePrecision,
    RetrievalMAP,
    functional,
    report,
)
from torch_ap.cli import main
from torch_ap.detection import LVISMeanAveragePrecision
from torch_ap.detection.metrics import compared_numbers
from torch_ap.detection.metrics.compared_numbers import compare_coco_numbers
from torch_ap.inference import best_of_metrics, compare_decisions, compare_per_query, mean_interval
from torch_ap.inference.groups import Groups
from torch_ap.inference.ratios import compare_ratios
from torch_ap.inference.record import holm
from torch_ap.inference.resampling import Resampling
from torch_ap.reports import drawings
from torch_ap.reports.comparisons import difference_parts
from torch_ap.reports.content import DASH
from torch_ap.reports.estimates import ReportOptions
from torch_ap.reports.thresholds import RULES

FEW = {"n_resamples": 20}


def compared(metric, other, path, **options):
    """Return the rows of the tables of a report by name."""
    text = report(metric, path, other=other, system_names=("new", "old"), **options).read_text()
    return {row[0]: row[1:] for row in rows_of(text)}


def signed(comparison):
    """Return the difference and its interval as the tables show them."""
    return [f"{float(getattr(comparison, x)):+.3f}" for x in ("difference", "low", "high")]


def points(page):
    """Return the points of all scatters: name, values of the first and of the second system."""
    found = re.findall(
        r"<circle[^>]*><title>([^<:]*): new ([\d.]+), old ([\d.]+), difference ([+-][\d.]+)</title>", page
    )
    return [(name, float(a), float(b)) for name, a, b, _ in found]


def test_a_classifier_at_its_thresholds(tmp_path):
    new, old = ranking(), ranking(shift=0.8)
    rows = compared(new, old, tmp_path / "x.md")
    for rule, settings in RULES:
        ends = [x.curve().operating_point(**settings) for x in (new, old)]
        decisions = [x.preds[0] >= point.threshold for x, point in zip((new, old), ends, strict=True)]
        for name, field in (("precision", "precision"), ("recall", "recall"), ("F1", "f_beta")):
            found = compare_decisions(*decisions, new.target[0], measure=field)
            values = [float(getattr(x, field)) for x in ends]
            row = rows[f"{rule}: {name}"]
            assert row[:3] == [*(f"{x:.3f}" for x in values), f"{values[0] - values[1]:+.3f}"]
            assert (row[3:5] == [DASH, DASH]) == ((rule, name) != ("highest F1", "F1"))
            p = float(found.p_value)
            assert row[5] == (r"\< 0.001" if p < 0.001 else f"{p:.2g}")


def test_classes_of_two_classifiers(tmp_path):
    new, old = labels(4, 200), labels(4, 200)
    noise = torch.randn(200, 4, generator=torch.Generator().manual_seed(5))
    old.reset()
    old.update(new.preds[0] + 0.8 * noise, new.target[0])
    each_class = []
    for column in range(4):
        pair = [BinaryAveragePrecision() for _ in range(2)]
        for one, both in zip(pair, (new, old), strict=True):
            one.update(both.preds[0][:, column], both.target[0][:, column])
        each_class.append(pair[0].compare(pair[1]))
    adjusted = holm(torch.stack([x.p_value for x in each_class]))
    rows = compared(new, old, tmp_path / "x.md")
    for column, (found, p) in enumerate(zip(each_class, adjusted.tolist(), strict=True)):
        numbers = [
            f"{float(found.value_b):.3f}",
            *(f"{float(getattr(found, x)):+.3f}" for x in ("difference", "low", "high")),
        ]
        assert rows[str(column)][2:7] == [*numbers, f"{p:.2g}"]
    gaps = torch.stack([x.difference for x in each_class])
    significant = adjusted < 0.05
    assert rows["ahead: new"] == [str(int((gaps > 0).sum())), str(int((significant & (gaps > 0)).sum()))]
    assert rows["ahead: old"] == [str(int((gaps < 0).sum())), str(int((significant & (gaps < 0)).sum()))]
    page = report(new, tmp_path / "x.html", other=old, system_names=("new", "old")).read_text()
    values = [(str(k), round(float(x.value_a), 3), round(float(x.value_b), 3)) for k, x in enumerate(each_class)]
    assert sorted(points(page)) == values


def test_p_values_allow_for_all_further_comparisons_of_a_table():
    p_values = {"AP": 0.04, "a": 0.03, "b": math.nan, "c": 0.01, "d": 0.4}
    numbers = dict.fromkeys(("value_a", "value_b", "difference", "low", "high"), 0.0)
    options = ReportOptions(None, ("new", "old"), 0.95, Resampling())
    table, text = difference_parts({name: numbers | {"p_value": p} for name, p in p_values.items()}, options)
    assert table.head[-2:] == ["p-value", "adjusted p"]
    assert [row[-1] for row in table.rows] == [DASH, "0.06", DASH, "0.03", "0.4"]
    assert text == "The adjusted p-values allow for all 3 comparisons below AP, which the page is about (Holm)."
    (table,) = difference_parts({"AP": numbers | {"p_value": 0.03}, "b": numbers | {"p_value": 0.1}}, options)
    assert table.head[-1] == "p-value"


def test_queries_of_two_runs(tmp_path):
    new, old = queries(shift=1.5), queries(shift=0.5)
    rows = compared(new, old, tmp_path / "x.md")
    text = "The adjusted p-values allow for all 19 comparisons below mean AP, which the page is about (Holm)."
    assert text in (tmp_path / "x.md").read_text()
    sides = [[torch.cat(getattr(x, y)) for y in ("preds", "target", "indexes")] for x in (new, old)]
    for name, function in (("precision", functional.retrieval_precision), ("recall", functional.retrieval_recall)):
        for k in (1, 3, 5, 10):
            values = [function(preds, target, indexes=indexes, top_k=k) for preds, target, indexes in sides]
            found = compare_per_query(*values, bounds=(0, 1))
            assert rows[f"{name} at {k}"][2:5] == signed(found)
    curves = [x.curve() for x in (new, old)]
    for level in range(11):
        row = rows[f"precision at recall {level / 10:.1f}"]
        assert row[:2] == [f"{float(x.interpolated_precision[level]):.3f}" for x in curves]
    a, b = (x.per_query()[1] for x in (new, old))
    assert rows["ahead: new"] == [str(int((a > b).sum()))]
    page = report(new, tmp_path / "x.html", other=old, system_names=("new", "old")).read_text()
    found = {int(name): values for name, *values in points(page)}
    expected = enumerate(zip(a.tolist(), b.tolist(), strict=True))
    assert found == {k: pytest.approx(list(pair), abs=ROUNDED) for k, pair in expected}
    bars = re.findall(r"<title>(\d+): (-?[\d.]+), ([\d.]+) and ([\d.]+)</title>", page)
    assert [float(x[1]) for x in bars] == pytest.approx(sorted((a - b).tolist(), reverse=True), abs=ROUNDED)


def updated(preds, target, kind=MeanAveragePrecision):
    metric = kind("xywh")
    metric.warn_on_many_detections = False
    metric.update(preds, target)
    return metric


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_highest_f1_of_two_detectors(tmp_path):
    preds, target = random_scene(3, images=60)
    new, old = updated(preds, target), updated([{name: x[::2] for name, x in image.items()} for image in preds], target)
    row = compared(new, old, tmp_path / "x.md", **FEW)["highest F1: F1"]
    ends = [float(x.operating_points(per_class=False).f_beta) for x in (new, old)]
    assert row[:3] == [*(f"{x:.3f}" for x in ends), f"{ends[0] - ends[1]:+.3f}"]
    sides = []
    for metric in (new, old):
        found = metric.per_image(score_threshold=metric.operating_points(per_class=False).threshold.item())
        sides.append((2.0 * found["tp"], 2.0 * found["tp"] + found["fp"] + found["missed"]))
    expected = compare_ratios(*sides, confidence_level=0.95)
    assert row[3:5] == [f"{float(x):+.3f}" for x in (expected.low, expected.high)]


def f1_terms(scores, relevant):
    """Return numerator and denominator of the highest F1 of all (N, C) decisions, for each item."""

    def terms(threshold):
        decided = (scores >= threshold).long()
        return (2.0 * (relevant * decided).sum(1), (relevant + decided).sum(1).double())

    return max(map(terms, scores.flatten()), key=lambda x: float(x[0].sum() / x[1].sum()))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_highest_f1_of_classes_and_groups(tmp_path):
    generator = torch.Generator().manual_seed(0)
    target, groups = torch.randint(0, 3, (90,), generator=generator), torch.arange(90) // 3
    relevant = torch.nn.functional.one_hot(target, 3)
    pair, single, sides = [], [], []
    for shift in (1.5, 0.7):
        scores = torch.randn(90, 3, generator=generator).double() + shift * relevant
        pair.append(MulticlassAveragePrecision(3, normalization="none"))
        pair[-1].update(scores, target)
        single.append(BinaryAveragePrecision())
        single[-1].update(scores[:, 0], relevant[:, 0], groups=groups)
        of_groups = f1_terms(scores[:, :1], relevant[:, :1])
        sides.append((f1_terms(scores, relevant), [x.reshape(30, 3).sum(1) for x in of_groups]))
    for metrics, terms in zip((pair, single), zip(*sides, strict=True), strict=True):
        row = compared(*metrics, tmp_path / "x.md", **FEW)["highest F1: F1"]
        expected = compare_ratios(*terms, confidence_level=0.95)
        assert row[2:5] == [f"{float(x):+.3f}" for x in (expected.difference, expected.low, expected.high)]


@pytest.mark.filterwarnings("ignore::UserWarning")
@each("seed", range(4))
def test_numbers_of_weighted_images_are_the_numbers_of_repeated_images(seed):
    preds, target = random_scene(seed, images=6)
    for image in preds:  # without ties among repeated images there is one order
        image["scores"] = torch.rand(len(image["labels"]), generator=torch.Generator().manual_seed(seed))
    weights = torch.randint(3, (len(preds),), generator=torch.Generator().manual_seed(seed))
    coco = updated(preds, target)
    numbers = coco._numbers(coco._columns(), None)
    expected = updated(*([x for x, w in zip(side, weights, strict=True) for _ in range(w)] for side in (preds, target)))
    expected = expected.compute()
    for (area, limit), listed in compared_numbers._numbers(numbers).items():
        ranked = compared_numbers.ranked_images(numbers.matches_within(limit), len(preds), area)
        found = compared_numbers._statistic(listed, numbers)(ranked, weights[None])[0].tolist()
        for number, value in zip(listed, found, strict=True):
            wanted = float(expected[number.name])
            assert value == pytest.approx(float("nan") if wanted == -1 else wanted, abs=SINGLE, nan_ok=True), (
                number.name
            )


@pytest.mark.filterwarnings("ignore::UserWarning")
@each("kind", [MeanAveragePrecision, LVISMeanAveragePrecision])
def test_numbers_of_two_detectors(kind):
    preds, target = random_scene(3, images=12)
    other = [{name: x[::2] for name, x in image.items()} for image in preds]
    if kind is LVISMeanAveragePrecision:
        for image in target:
            image.pop("iscrowd", None)
            image["not_exhaustive_category_ids"] = image["neg_category_ids"] = torch.tensor([], dtype=torch.int64)
    metrics = updated(preds, target, kind), updated(other, target, kind)
    values = [x.compute() for x in metrics]
    numbers = tuple(x._numbers(x._columns(), None) for x in metrics)
    found = compare_coco_numbers(numbers, 12, confidence_level=0.95, resampling=Resampling(20))
    assert set(found) == {x for x in values[0] if x.startswith(("map", "mar")) and "class" not in x}
    for name, x in found.items():
        for value, wanted in zip((x.value_a, x.value_b), values, strict=True):
            wanted = float(wanted[name])
            assert float(value) == pytest.approx(float("nan") if wanted == -1 else wanted, abs=SINGLE, nan_ok=True)
        assert not x.low > x.difference
    mean = metrics[0].compare(metrics[1], method="bootstrap-normal", n_resamples=20)
    assert [float(getattr(found["map"], x)) for x in ("low", "high", "p_value")] == pytest.approx(
        [float(getattr(mean, x)) for x in ("low", "high", "p_value")], abs=REORDERED
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_page_of_two_detectors(tmp_path):
    preds, target = random_scene(3, images=12)
    other = [{name: x[::2] for name, x in image.items()} for image in preds]
    new, old = updated(preds, target), updated(other, target)
    found = new.compare(old, per_class=True, **FEW)
    rows = compared(new, old, tmp_path / "x.md", class_names=[f"class {x}" for x in range(9)], **FEW)
    for name, *numbers in zip(
        found.names, *(getattr(found, x).tolist() for x in ("difference", "low", "high")), strict=True
    ):
        assert rows[f"class {name}"][6:9] == [f"{x:+.3f}" for x in numbers]
    assert rows["map"][:6] == rows["mean AP"][:6]
    assert rows["map"][2:5] == signed(new.compare(old, **FEW))
    a, b = (x.compute() for x in (new, old))
    assert rows[r"map\_50"][:3] == [f"{float(x['map_50']):.3f}" for x in (a, b)] + [
        f"{float(a['map_50'] - b['map_50']):+.3f}"
    ]
    page = report(new, tmp_path / "x.html", other=old, system_names=("new", "old"), **FEW).read_text()
    aps = zip(new.per_image()["ap"].tolist(), old.per_image()["ap"].tolist(), strict=True)
    drawn = points(page)
    classes = len(found.names)
    images = {name: values for name, *values in drawn[classes:]}
    assert images == {str(k): pytest.approx(list(y), abs=ROUNDED) for k, y in enumerate(aps) if y[0] == y[0]}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_page_of_two_detectors_on_images_in_groups(tmp_path):
    preds, target = random_scene(3, images=12)
    new, old = (MeanAveragePrecision("xywh") for _ in range(2))
    thinned = [{name: x[::2] for name, x in image.items()} for image in preds]
    for metric, found in ((new, preds), (old, thinned)):
        metric.update(found, target, groups=torch.arange(12) // 2)
    rows = compared(new, old, tmp_path / "x.md", class_names=[f"class {x}" for x in range(9)], **FEW)
    text = (tmp_path / "x.md").read_text()
    assert "| 12 | 6 |" in text  # images and groups
    assert "There is no sign test: it takes images as independent, but they are in groups." in text
    assert "intervals by the jackknife over groups of images." in text
    assert rows["mean AP"][2:5] == rows["map"][2:5] == signed(new.compare(old))
    numbers = tuple(x._numbers(x._columns(), None) for x in (new, old))
    groups = Groups.from_ids(torch.arange(12) // 2)
    found = compare_coco_numbers(numbers, 12, confidence_level=0.95, resampling=Resampling(2), groups=groups)
    without = []
    for group in range(6):
        kept = [x for x in range(12) if x // 2 != group]
        pair = [updated(*([side[x] for x in kept] for side in (x, target))).compute() for x in (preds, thinned)]
        without.append({name: float(pair[0][name] - pair[1][name]) for name in found})
    for name, x in found.items():
        values = torch.tensor([row[name] for row in without], dtype=torch.float64)
        expected = float(((values - values.mean()).square().sum() * 5 / 6).sqrt())
        if float(x.standard_error) > 0:  # else no image distinguishes the systems, or nothing is relevant
            assert float(x.standard_error) == pytest.approx(expected, abs=SINGLE), name
    assert sum(float(x.standard_error) > 0 for x in found.values()) > 3
    classes = new.confidence_interval(per_class=True)
    labels = new.compute()["classes"].tolist()
    for label, low, high in zip(labels, classes.low.tolist(), classes.high.tolist(), strict=True):
        shown = [DASH if x != x else f"{x:.3f}" for x in (low, high)]
        assert rows[f"class {label}"][2:4] == shown
    page = report(new, tmp_path / "x.html", **FEW).read_text()
    found = new.confidence_interval()
    assert [number_in(page, x) for x in ("low", "high")] == [float(found.low), float(found.high)]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_page_of_two_runs_on_queries_in_groups(tmp_path):
    new, old, groups = RetrievalMAP(), RetrievalMAP(), torch.arange(40) // 3
    items = [[torch.cat(getattr(queries(shift=x), y)) for y in ("preds", "target", "indexes")] for x in (1.5, 0.5)]
    for metric, (preds, target, indexes) in zip((new, old), items, strict=True):
        metric.update(preds, target, indexes=indexes, groups=groups[indexes])
    rows = compared(new, old, tmp_path / "x.md")
    text = (tmp_path / "x.md").read_text()
    assert "| 40 | 14 |" in text  # queries and groups
    assert "There is no sign test: it takes queries as independent, but they are in groups." in text
    values = [x.per_query()[1].double() for x in (new, old)]
    assert rows["mean AP"][2:5] == signed(compare_per_query(*values, groups=groups, bounds=(0, 1)))
    page = report(new, tmp_path / "x.html", other=old, system_names=("new", "old")).read_text()
    slider = next(x for x in json.loads(page.split('id="data">')[1].split("</script>")[0]) if "differences" in x)
    at_two = [functional.retrieval_precision(a, b, indexes=c, top_k=2) for a, b, c in items]
    found = mean_interval(at_two[0], groups=groups), compare_per_query(*at_two, groups=groups, bounds=(0, 1))
    shown = slider["systems"][0]["means"]["precision"], slider["differences"]["precision"]
    for record, first, columns in zip(found, ("estimate", "difference"), shown, strict=True):
        numbers = [x[1] for x in columns]  # at depth 2
        expected = [float(getattr(record, x)) for x in (first, "low", "high")]
        assert numbers == pytest.approx(expected, abs=5e-5)  # four digits on the page


def test_scatters_of_many_points_and_ticks():
    values = torch.rand(3000, generator=torch.Generator().manual_seed(0)).tolist()
    drawn = drawings.scatter("x.", ("a", "b"), list(map(str, range(3000))), (values, values))
    assert drawn.svg.count("<circle") == 50, "one point per cell of the diagonal"
    assert "Points in the same cell" in drawn.caption
    for ends, expected in (
        ((0, 0.7), [0, 0.2, 0.4, 0.6, 0.8, 1]),
        ((0, 0.031), [0, 0.01, 0.02, 0.03]),
        ((-0.2, 0.3), [-0.2, -0.1, 0, 0.1, 0.2, 0.3]),
        ((0, 7), [0, 2, 4, 6]),
        ((0, 0), [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ):
        assert drawings._Axis(ends).ticks == expected


def test_more_than_two_systems(tmp_path):
    systems = {"new": ranking(), "old": ranking(shift=1.1), "older": ranking(shift=0.5)}
    new, *others = systems.values()
    names = tuple(systems)
    text = report(new, tmp_path / "x.md", other=others, system_names=names).read_text()
    found = best_of_metrics(systems, reference=0)
    rows = {x[0]: x[1:] for x in rows_of(text.split("## All systems")[1].split("## ")[0])}
    for place, name in enumerate(names):
        numbers = (found.values, found.simultaneous_low, found.simultaneous_high)
        assert rows[name][:3] == [f"{float(x[place]):.3f}" for x in numbers]
        if place:
            assert rows[name][3:6] == signed(new.compare(systems[name]))
            assert rows[name][6] == f"{float(found.adjusted_p_value[place]):.2g}"
    assert (
        f"Best: new, {float(found.value):.3f}; without the optimism of the selection {float(found.corrected):.3f}"
        in text
    )
    assert "## Compared with old" in text
    page = report(new, tmp_path / "x.html", other=others, system_names=names).read_text()
    assert page.count("<title>older: ") == 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_objects_missed_by_all_of_three_detectors(tmp_path):
    preds, target = random_scene(3, images=12)
    none = [{name: x[:0] for name, x in image.items()} for image in preds]
    worse, empty, new = (
        updated([{name: x[::2] for name, x in p.items()} for p in preds], target),
        updated(none, target),
        updated(preds, target),
    )
    text = report(worse, tmp_path / "x.md", other=[empty, new], **FEW).read_text()
    counts = worse.suspicious_labels([empty, new], limit=20).counts
    assert counts != worse.suspicious_labels([empty], limit=20).counts
    assert f"missed by all {counts['missed by all']}," in text


@each(
    "options, kind, match",
    [
        ({"other": [ranking(), queries()]}, TypeError, "`other` must be a BinaryAveragePrecision.*RetrievalMAP"),
        (
            {"other": [ranking(), ranking()], "system_names": ("a", "b")},
            ValueError,
            "`system_names` must be 3 different",
        ),
        ({"other": [ranking(), BinaryAveragePrecision()]}, ValueError, "`other` must have been updated"),
        ({"other": [ranking(), ranking(share=0.5)]}, ValueError, "must have been updated with the same targets"),
        ({"other": [ranking(), ranking(ties="optimistic")]}, ValueError, "must have the same settings"),
        ({"system_names": ["a", "b", "c"]}, ValueError, "`system_names` must be two different names"),
    ],
)
def test_invalid_systems(options, kind, match, tmp_path):
    with pytest.raises(kind, match=match):
        report(ranking(), tmp_path / "x.md", **options)
    assert not list(tmp_path.iterdir())


def test_the_commands_compare_several_systems(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    metric = ranking()
    scores, target = metric.preds[0], metric.target[0]
    noise = torch.randn(2, len(scores), generator=torch.Generator().manual_seed(0))
    columns = zip(
        scores.tolist(), (scores + noise[0]).tolist(), (scores + noise[1]).tolist(), target.tolist(), strict=True
    )
    (tmp_path / "t.csv").write_text("new,old,older,hit\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in columns))
    words = ["report", "t.csv", "--preds", "new", "old", "older", "--target", "hit", "-o", "x.md"]
    assert main.main([*words, "--systems"]) == 0
    text = (tmp_path / "x.md").read_text()
    assert "## All systems" in text
    assert "## Compared with old" in text
    assert main.main([*words, "--systems", "--best"]) == 2
    assert "--best has no meaning with --systems" in capsys.readouterr().err
    for folder, box in (("truth", "1 1 9 9"), ("a", "0.5 1 1 9 9"), ("b", "0.5 1 1 9 30"), ("c", "0.5 2 1 9 9")):
        (tmp_path / folder).mkdir()
        for name in ("one", "two"):
            (tmp_path / folder / f"{name}.txt").write_text(f"cat {box}\n")
    few = ["--n-resamples", "10", "--report", "y.md"]
    assert main.main(["voc", "truth", "a", "b", "c", "--compare", *few]) == 0
    text = (tmp_path / "y.md").read_text()
    assert {x[0] for x in rows_of(text.split("## All systems")[1])} >= {"a", "b", "c"}
    assert "## Compared with a" in text
    assert main.main(["voc", "truth", "a", "b", *few]) == 2
    assert "--report takes one list of detections, or several with --compare, got 2" in capsys.readouterr().err
    (tmp_path / "qrels").write_text("".join(f"{q} 0 d{d} {int(d == q)}\n" for q in range(4) for d in range(4)))
    for run in range(3):
        lines = (f"{q} Q0 d{d} 1 {(d + q * run) % 4} r{run}\n" for q in range(4) for d in range(4))
        (tmp_path / f"run{run}").write_text("".join(lines))
    assert main.main(["trec", "qrels", "run0", "run1", "run2", "--compare", "-m", "map", "--report", "z.md"]) == 0
    assert {x[0] for x in rows_of((tmp_path / "z.md").read_text().split("## All systems")[1])} >= {"r0", "r1", "r2"}


def thirds(name, values):
    """Return the images of each third of values in three digits, by the label of the slice."""
    known = sorted(float(f"{x:.3g}") for x in values if x == x)
    ends = [torch.quantile(torch.tensor(known, dtype=torch.float64), x / 3).item() for x in (1, 2)]
    parts = [[], [], []]
    for image, x in enumerate(values):
        if x == x:
            x = float(f"{x:.3g}")
            parts[(x > ends[0]) + (x > ends[1])].append((x, image))
    shown = {}
    for part in parts:
        if 0 < len(part) < len(known):
            low, high = (f"{x:,.0f}" if x >= 100 else f"{x:g}" for x in (min(part)[0], max(part)[0]))
            shown[f"{name} {low}" if low == high else f"{name} {low}{DASH}{high}"] = [image for _, image in part]
    return shown


def test_thirds_are_disjoint_and_nearly_equal_images_share_one(tmp_path):
    side = torch.tensor([30, 30.0001, 30.0002, 30.0003, 40, 40, 40.0001, 50, 50, 50])
    boxes = [torch.stack([x * 0, x * 0, x, x])[None] for x in side]
    target = [{"boxes": x, "labels": torch.tensor([0])} for x in boxes]
    preds = [{**x, "scores": torch.tensor([0.5])} for x in target]
    text = report(updated(preds, target), tmp_path / "x.md", **FEW).read_text()
    _, *rows = rows_of(text.split("## Slices")[1].split("| slice | precision |")[0])
    found = {row[0]: int(row[-3]) for row in rows}
    assert found == {"area 900": 4, "area 1,600": 3, "area 2,500": 3}, "one object and one shape in all images"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_slices(tmp_path):
    preds, target = random_scene(3, images=30)
    other = [{name: x[::2] for name, x in image.items()} for image in preds]
    new, old = updated(preds, target), updated(other, target)
    mine = {"every second": list(range(0, 30, 2)), "<b>": [0]}
    text = report(new, tmp_path / "x.md", other=old, system_names=("new", "old"), slices=mine, **FEW).read_text()
    rows = {row[0]: row[1:] for row in rows_of(text.split("| slice | precision |")[0])}
    ratios = [x["boxes"][:, 2].double() / x["boxes"][:, 3] for x in target]
    ratios = [x[(x > 0) & x.isfinite()].log().mean().exp().item() for x in ratios]
    areas = [(x["boxes"][:, 2].double() * x["boxes"][:, 3]).clamp(min=0) for x in target]
    areas = [x[x > 0].log().mean().exp().item() for x in areas]
    values = {"objects": [len(x["labels"]) or float("nan") for x in target], "area": areas, "width / height": ratios}
    expected = {"every second": mine["every second"], r"\<b\>": [0]}
    for name, each_value in values.items():
        expected |= thirds(name, each_value)
    assert {x for x in rows if x.startswith(tuple(values))} == {*expected} - {*mine, r"\<b\>"}
    values = new.per_slice(expected)["map"].tolist()
    found = new.compare(old, slices=expected, method="bootstrap-normal", **FEW)
    interval = new.confidence_interval(slices=expected, **FEW)
    for place, (name, images) in enumerate(expected.items()):
        row = rows[name]
        assert row[0] == (DASH if values[place] == -1 else f"{values[place]:.3f}")
        ends = [float(getattr(interval, x)[place]) for x in ("low", "high")]
        assert row[1:3] == [DASH if x != x else f"{x:.3f}" for x in ends]
        if values[place] != -1:
            assert row[4:7] == [f"{float(getattr(found, x)[place]):+.3f}" for x in ("difference", "low", "high")]
        assert row[9] == str(len(images))
    for slices, match in (({"a": [99]}, "slices"), ({"a": [0, 0]}, "slices")):
        with pytest.raises(ValueError, match=match):
            report(new, tmp_path / "y.md", slices=slices)
    with pytest.raises(ValueError, match="`slices` must be None for a BinaryAveragePrecision"):
        report(ranking(), tmp_path / "y.md", slices={"a": [0]})
