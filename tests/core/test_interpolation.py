"""Interpolated AP and the trapezoid against their definitions, for one ranking and for many."""

import dataclasses
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from sklearn.metrics import auc, precision_recall_curve

from tests.support import oracles
from tests.support.each import each
from tests.support.strategies import rankings, tables
from tests.support.tolerances import FEW_TERMS, LAST_BITS, SINGLE, SOLVED
from torch_ap import Convention, functional
from torch_ap.classification import BinaryAveragePrecision, MulticlassAveragePrecision
from torch_ap.core.measures import interpolation
from torch_ap.core.ranking import builders
from torch_ap.core.ranking.builders import from_bins
from torch_ap.detection import VOCMeanAveragePrecision
from torch_ap.retrieval import RetrievalMAP

ELEVEN = [Fraction(j, 10) for j in range(11)]
FORTY = [Fraction(j, 40) for j in range(1, 41)]
COCO = np.linspace(0, 1, 101).tolist()


def close(value, exact):
    return math.isnan(value) if exact is None else abs(value - float(exact)) < 1e-14


def curve_of(ranking):
    return builders.from_scores(*(torch.tensor(x) for x in ranking))


@pytest.mark.parametrize(
    ("name", "meaning"),
    [("11-point", ELEVEN), ("40-point", FORTY), ("all-points", "all-points"), ("trapezoid", "trapezoid")],
)
@given(rankings(max_size=12))
def test_equals_the_definition(name, meaning, ranking):
    value = Convention(interpolation=name)(curve_of(ranking)).item()
    assert close(value, oracles.interpolated_average_precision(*ranking, meaning))


def over_float_levels(ranking, levels):
    """Compare recall and levels as float64 numbers, as pycocotools does."""
    if not sum(ranking[1]):
        return None
    points = [(Fraction(float(recall)), precision) for recall, precision in oracles.curve_points(*ranking)]
    return sum(oracles.interpolated_precision(points, Fraction(level)) for level in levels) / len(levels)


@given(rankings(), st.lists(st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0]), min_size=1, max_size=5))
def test_own_levels(ranking, levels):
    value = Convention(interpolation=torch.tensor(levels, dtype=torch.float64))(curve_of(ranking)).item()
    assert close(value, over_float_levels(ranking, levels))


@given(rankings(max_size=12))
def test_cocos_levels(ranking):
    value = Convention(interpolation="101-point")(curve_of(ranking)).item()
    assert close(value, over_float_levels(ranking, COCO))


def on_straight_lines(ranking):
    """Interpolate between the points of the curve by NumPy, as the nuScenes devkit does."""
    if not sum(ranking[1]):
        return None
    recall, precision = (np.array(x, np.float64) for x in zip(*oracles.curve_points(*ranking), strict=True))
    if recall[0]:
        recall, precision = np.append(0.0, recall), np.append(precision[0], precision)
    found = np.interp(COCO, recall, precision, right=0)[11:] - 0.1
    return found.clip(min=0).mean() / 0.9


@given(rankings(max_size=30))
def test_nuscenes_straight_lines(ranking):
    curve = curve_of(ranking)
    convention = Convention(interpolation="nuscenes")
    assert close(convention(curve).item(), on_straight_lines(ranking))
    levels, found = convention.at_levels(curve)
    assert found.shape == (1, 90)
    assert levels.tolist() == COCO[11:]


@each("name, unit", [("nuscenes", 1e-3), ("nuscenes", 0.1), ("nuscenes", 2.0**-60), ("ultralytics", 0.1)])
@given(rankings(max_size=12), st.lists(st.integers(1, 4), min_size=12, max_size=12))
def test_weights_are_numbers_of_items_in_any_unit(name, unit, ranking, numbers):
    repeated = [[x for x, n in zip(column, numbers, strict=False) for _ in range(n)] for column in ranking]
    weight = torch.tensor(numbers[: len(ranking[0])], dtype=torch.float64) * unit
    curve = builders.from_scores(*map(torch.tensor, ranking), weight=weight)
    found = Convention(interpolation=name)(curve).item()
    if not sum(ranking[1]):
        assert math.isnan(found)
        return
    expected = on_straight_lines(repeated) if name == "nuscenes" else over_ultralytics_levels(repeated, name)
    assert found == pytest.approx(expected, abs=SOLVED)


LINES = ["trapezoid", "trapezoid-anchored", "davis-goadrich", "ultralytics", "ultralytics-8.3"]


@pytest.mark.parametrize("name", ["11-point", "40-point", "101-point", "nuscenes", "all-points", *LINES])
@given(tables(columns=4))
def test_many_rankings_are_each_their_own(name, table):
    convention = Convention(interpolation=name)
    together = convention(builders.from_columns(*table))
    each = [convention(builders.from_scores(table[0][:, c], table[1][:, c])) for c in range(4)]
    torch.testing.assert_close(together, torch.cat(each), rtol=0, atol=0, equal_nan=True)


def over_ultralytics_levels(ranking, name, missed=0):
    """Return the AP as ``compute_ap`` of Ultralytics does; equal scores enter together."""
    m = sum(ranking[1]) + missed
    points = [(float(r * sum(ranking[1]) / m), float(p)) for r, p in oracles.curve_points(*ranking)]
    recall, precision = map(np.array, zip(*points, strict=True))
    end = [recall[-1], 1.0] if name == "ultralytics" else [1.0]
    recall, precision = np.concatenate(([0.0], recall, end)), np.concatenate(([1.0], precision, [0.0] * len(end)))
    highest = np.maximum.accumulate(precision[::-1])[::-1]
    return np.trapezoid(np.interp(COCO, recall, highest), COCO)


@pytest.mark.parametrize("name", ["ultralytics", "ultralytics-8.3"])
@given(rankings(max_size=30), st.integers(0, 3))
def test_ultralytics(name, ranking, missed):
    curve, convention = curve_of(ranking), Convention(interpolation=name)
    curve = dataclasses.replace(curve, m=curve.m + missed)
    if not sum(ranking[1]):
        assert math.isnan(convention(curve).item()) == (missed == 0)
        return
    expected = over_ultralytics_levels(ranking, name, missed)
    assert convention(curve).item() == pytest.approx(expected, abs=FEW_TERMS)


def test_ultralytics_versions_differ_in_missed_items():
    """One of two items is found: up to 8.3 a line leads from (1/2, 1) to (1, 0), from 8.4 on recall ends at 1/2."""
    for name, expected in (("ultralytics", 0.495), ("ultralytics-8.3", 0.75)):
        value = functional.retrieval_average_precision(
            torch.ones(1), torch.ones(1, dtype=torch.int64), num_relevant=2, interpolation=name
        )
        assert value.item() == pytest.approx(expected, abs=SINGLE)


def davis_and_goadrich(ranking):
    """Integrate precision over the true positives of each group, numerically."""
    total, hits, items = 0.0, 0, 0
    for score in sorted(set(ranking[0]), reverse=True):
        group = [y for s, y in zip(*ranking, strict=True) if s == score]
        if new := sum(group):
            counts = hits, items, len(group) / new
            total += integrate.quad(lambda u, h, t, g: (h + u) / (t + u * g), 1e-300, new, counts, epsabs=1e-13)[0]
        hits, items = hits + new, items + len(group)
    return total / hits


@given(rankings(max_size=12))
def test_davis_and_goadrich(ranking):
    value = Convention(interpolation="davis-goadrich")(curve_of(ranking)).item()
    assert math.isnan(value) if not sum(ranking[1]) else value == pytest.approx(davis_and_goadrich(ranking), abs=SOLVED)


def test_davis_and_goadrich_in_full_precision_after_many_misses():
    """The closed form in 50 digits: h = 1 of t = 10^9 items, then a group of one hit in one item."""
    hits = torch.tensor([[1, 0, 1]])
    curve = from_bins(hits, torch.tensor([[1, 10**9 - 1, 1]]))
    with mpmath.workdps(50):
        t, log = mpmath.mpf(10**9), mpmath.log(1 + mpmath.mpf(10) ** -9)
        expected = float((1 + log + (1 - log * t)) / 2)
    assert Convention(interpolation="davis-goadrich")(curve).item() == pytest.approx(expected, rel=LAST_BITS)


@given(rankings(max_size=12))
def test_anchored_trapezoid_is_scikit_learns_auc(ranking):
    if not sum(ranking[1]):
        return
    places = np.unique(ranking[0], return_inverse=True)[1]  # scikit-learn rejects infinities
    precision, recall, _ = precision_recall_curve(ranking[1], places)
    value = Convention(interpolation="trapezoid-anchored")(curve_of(ranking)).item()
    assert value == pytest.approx(auc(recall, precision), abs=FEW_TERMS)


@pytest.mark.parametrize("ties", ["optimistic", "pessimistic"])
@pytest.mark.parametrize("name", ["11-point", "all-points"])
@given(rankings())
def test_resolved_ties(name, ties, ranking):
    order = (oracles.hits_first if ties == "optimistic" else oracles.hits_last)(*ranking)
    value = Convention(interpolation=name, ties=ties)(curve_of(ranking)).item()
    meaning = ELEVEN if name == "11-point" else name
    assert close(value, oracles.interpolated_average_precision([-i for i in range(len(order))], order, meaning))


def test_eleven_points_compare_recall_exactly():
    """A recall of exactly 3 / 10 reaches its level, although 0.1 * 3 is above 3 / 10 in floats."""
    relevant = [1, 1, 1, *[0] * 50, *[1] * 7]
    curve = curve_of([[float(-i) for i in range(60)], relevant])
    at = interpolation.precision_at_levels(curve, interpolation.recall_levels("11-point"))
    assert at[0, 3] == 1
    assert at[0, 4] < 1


def voc_in_python(recall, precision):
    """Return the AP as py-faster-rcnn's ``voc_ap`` does."""
    return sum(
        0 if np.sum(recall >= level) == 0 else np.max(precision[recall >= level]) / 11.0
        for level in np.arange(0.0, 1.1, 0.1)
    )


@given(rankings(max_size=40))
def test_the_other_reading_of_eleven_points_is_numpys_arange(ranking):
    value = Convention(interpolation="11-point-arange")(curve_of(ranking)).item()
    m = int(sum(ranking[1]))
    if not m:
        assert math.isnan(value)
        return
    recall, precision = zip(*oracles.curve_points(*ranking), strict=True)
    hits = np.array([round(x * m) for x in recall])
    assert value == pytest.approx(voc_in_python(hits / m, np.array([float(p) for p in precision])), abs=LAST_BITS)


@pytest.mark.parametrize(("name", "expected"), [("11-point", 4 / 11), ("11-point-arange", 3 / 11)])
def test_both_readings_of_queries_and_detections(name, expected):
    """Three of ten relevant items are retrieved: .3636 if 3/10 reaches 0.3, else .2727."""
    scores, relevant = torch.tensor([9.0, 8.0, 7.0]), torch.ones(3, dtype=torch.int64)
    curve = dataclasses.replace(curve_of([scores.tolist(), [1, 1, 1]]), m=torch.tensor([10]))
    queries = RetrievalMAP(interpolation=name)
    queries.update(scores, relevant, torch.zeros(3, dtype=torch.int64), num_relevant={0: 10})
    box, label = torch.tensor([[0.0, 0, 10, 10]]), torch.tensor([0])
    target = [{"boxes": box, "labels": label}] * 10
    preds = [{"boxes": box, "labels": label, "scores": scores[:1]}] * 3
    preds += [{"boxes": box[:0], "labels": label[:0], "scores": scores[:0]}] * 7
    images = VOCMeanAveragePrecision(interpolation=name)
    images.update(preds, target)
    found = [
        Convention(interpolation=name)(curve),
        functional.retrieval_average_precision(scores, relevant, interpolation=name, num_relevant=10),
        queries.compute(),
        functional.voc_mean_average_precision(preds, target, interpolation=name)["map"],
        images.compute()["map"],
        images.confidence_interval().estimate,
    ]
    assert [value.item() for value in found] == pytest.approx([expected] * len(found), abs=SINGLE)


@pytest.mark.parametrize(("name", "level"), [("11-point", 0.3), ("11-point-arange", 0.1 * 3)])
def test_both_readings_of_classifiers(name, level):
    """Precision is 1 up to a recall of 3/10, then falls to 1/3 at the end."""
    target = torch.tensor([1, 1, 1, *[0] * 20, *[1] * 7])
    scores = torch.arange(30.0, 0, -1)
    expected = (sum(1 if x <= 0.3 else 1 / 3 for x in (0.0, 0.1, 0.2, level)) + 7 / 3) / 11
    two, both = torch.stack([-scores, scores], 1), {"interpolation": name, "average": "none"}
    binary, classes = BinaryAveragePrecision(interpolation=name), MulticlassAveragePrecision(2, **both)
    binary.update(scores, target)
    classes.update(two, target)
    labels = torch.stack([1 - target, target], 1)
    found = [
        functional.binary_average_precision(scores, target, interpolation=name),
        functional.multiclass_average_precision(two, target, 2, **both)[1],
        functional.multilabel_average_precision(two, labels, 2, **both)[1],
        binary.compute(),
        classes.compute()[1],
    ]
    assert [value.item() for value in found] == pytest.approx([expected] * len(found), abs=SINGLE)


def test_trapezoid_is_sklearns_but_for_the_anchor(generator):
    scores = torch.randn(300, generator=generator)
    relevant = torch.rand(300, generator=generator) < 0.3
    relevant[scores.argmax()] = True  # the first point is (1 / m, 1), and both anchors are (0, 1)
    precision, recall, _ = precision_recall_curve(relevant.numpy(), scores.numpy())
    value = interpolation.trapezoid(builders.from_scores(scores, relevant)).item()
    assert value == pytest.approx(auc(recall, precision), abs=FEW_TERMS)


def test_weighted_recall_reaches_its_last_level():
    weight = torch.tensor([0.1, 0.2, 0.3, 0.1, 0.7])
    curve = builders.from_scores(torch.arange(5.0), torch.tensor([1, 0, 1, 1, 1]), weight=weight)
    columns = builders.from_columns(
        torch.arange(5.0)[:, None].expand(5, 2), torch.tensor([1, 0, 1, 1, 1])[:, None].expand(5, 2), weight=weight
    )
    one = interpolation.precision_at_levels(curve, torch.tensor([1.0]))[0, 0].item()
    assert one == pytest.approx((0.1 + 0.3 + 0.1 + 0.7) / 1.4, abs=SINGLE)
    torch.testing.assert_close(
        interpolation.precision_at_levels(columns, torch.tensor([1.0])), torch.full((2, 1), one).double()
    )


def test_no_rankings_at_all():
    empty = from_bins(torch.zeros(0, 3, dtype=torch.int64), torch.zeros(0, 3, dtype=torch.int64))
    assert interpolation.area_over_all_points(empty).shape == (0,)


@each("name", [*interpolation.LEVELS, "close"])
def test_levels_up_to_many_recalls(name):
    levels = interpolation.LEVELS.get(name, np.array([0.0, 0.5, 0.5001, 1.0, 1.0]))
    near = np.concatenate([levels, np.nextafter(levels, 0), np.nextafter(levels, 1), [np.nan, np.inf]])
    recall = np.concatenate([near, np.random.default_rng(0).random(5000), np.arange(1, 1001) / 1000])
    expected = np.searchsorted(levels, recall, side="right")
    assert (interpolation.levels_reached(recall, levels) == expected).all()


@each("name", [*interpolation.LEVELS, "all-points", *LINES, torch.tensor([0.5])])
@pytest.mark.filterwarnings("error")
def test_prevalence_without_negatives_is_undefined(name):
    options = {"prevalence": 0.1, "interpolation": name}
    scores, target = torch.tensor([1.0, 0.5, 0.2]), torch.ones(3, dtype=torch.int64)
    assert functional.binary_average_precision(scores, target, **options).isnan()
    columns = torch.tensor([[1, 1], [1, 0], [1, 1]])
    each_label = functional.multilabel_average_precision(
        scores[:, None].expand(3, 2), columns, 2, average=None, empty_target_action="nan", **options
    )
    assert each_label.isnan().tolist() == [True, False]
