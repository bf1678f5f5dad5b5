"""Precision, recall and F of detectors whose images are in groups, against deletion of each group."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from benchmarks.coverage.detectors import Scenes
from tests.detection.test_cuts import RATIOS
from tests.support.every_metric import METRICS
from tests.support.modes import quiet
from tests.support.tolerances import REORDERED
from torch_ap import MeanAveragePrecision
from torch_ap.detection.errors.every_threshold import numbers_at_every_threshold
from torch_ap.inference.operating_point import CHOSEN
from torch_ap.reports.thresholds import cuts_of_detections, sampled_numbers

IMAGES, VIDEOS = 60, 12
LEVEL = 0.9


def video(images=IMAGES):
    return torch.randint(VIDEOS, (images,), generator=torch.Generator().manual_seed(7)) * 10**10 - 3


@pytest.fixture(scope="module")
def columns():
    return Scenes(IMAGES, 3, torch.Generator().manual_seed(0)).detected()._columns()


def images_of(columns, chosen):
    """Return the chosen images as lists of dicts."""
    preds, target = [], []
    for side, out, names in (
        ("detection", preds, ("labels", "scores", "boxes")),
        ("ground_truth", target, ("labels", "boxes")),
    ):
        ends = columns[f"{side}s_per_image"].cumsum(0).tolist()
        for image in chosen:
            rows = slice(ends[image - 1] if image else 0, ends[image])
            out.append({name: columns[f"{side}_{name}"][rows] for name in names})
    return preds, target


def detector(columns, chosen, groups=None):
    metric = MeanAveragePrecision("xywh").set_dtype(torch.float64)
    metric.update(*images_of(columns, chosen), groups=groups)
    return metric


@pytest.fixture(scope="module")
def metric(columns):
    return detector(columns, range(IMAGES), video())


@pytest.fixture(scope="module")
def independent(columns):
    return detector(columns, range(IMAGES))


def explicit_ends(columns, thresholds, *, per_class):
    """Return the ends, (K, 3, 2), from the counts of detectors of the images outside of each group."""
    whole = detector(columns, range(IMAGES)).operating_points(score_threshold=thresholds, per_class=per_class)
    labels = whole.labels.tolist()
    given = dict(zip(labels, thresholds, strict=True)) if per_class else thresholds

    def counts(chosen):
        points = detector(columns, chosen).operating_points(score_threshold=given, per_class=per_class)
        rows = torch.stack([points.tp, points.tp + points.fp, points.tp + points.fn], -1).view(-1, 3).tolist()
        return dict(zip(points.labels.tolist() if per_class else [0], rows, strict=True))

    every, ids = counts(range(IMAGES)), video().tolist()
    groups = sorted(set(ids))
    rest = [counts([x for x in range(IMAGES) if ids[x] != group]) for group in groups]
    out = []
    for label, (tp, n, m) in every.items():
        left = np.array([x.get(label, (0, 0, 0)) for x in rest], dtype=float)
        own = np.array([tp, n, m]) - left
        left, own = (x[(own[:, 1] > 0) | (own[:, 2] > 0)] for x in (left, own))
        pairs = []
        for ratio, denominator, values in (
            (tp / n, own[:, 1], left[:, 0] / left[:, 1]),
            (tp / m, own[:, 2], left[:, 0] / left[:, 2]),
            (2 * tp / (n + m), own[:, 1] + own[:, 2], 2 * left[:, 0] / (left[:, 1] + left[:, 2])),
        ):
            effective = denominator.sum() ** 2 / (denominator**2).sum()
            error = math.sqrt((len(left) - 1) / len(left) * ((values - values.mean()) ** 2).sum())
            half = stats.t.ppf((1 + LEVEL) / 2, effective - 1) * error / (ratio * (1 - ratio))
            pairs.append([1 / (1 + math.exp(-(math.log(ratio / (1 - ratio)) + x))) for x in (-half, half)])
        out.append(pairs)
    return np.array(out)


def ends_of(points):
    rows = [[getattr(points, f"{x}_{end}").reshape(-1) for end in ("low", "high")] for x in RATIOS]
    return torch.stack([torch.stack(pair, -1) for pair in rows], 1).numpy()


@pytest.mark.parametrize("per_class", [True, False])
@pytest.mark.parametrize("wanted", [{}, {"precision": 0.7}, {"score_threshold": 0.2}])
def test_intervals_equal_deletion_of_each_group(columns, metric, independent, wanted, per_class):
    points, other = (
        quiet(x.operating_points, **wanted, per_class=per_class, confidence_level=LEVEL) for x in (metric, independent)
    )
    assert (points.method, other.method) == ("jackknife", "delta-wilson")
    thresholds = points.threshold.tolist()
    np.testing.assert_allclose(ends_of(points), explicit_ends(columns, thresholds, per_class=per_class), rtol=REORDERED)
    for name in (*RATIOS, "threshold", "tp", "fp", "fn", "n"):
        assert torch.equal(getattr(points, name), getattr(other, name))
    assert (CHOSEN in points.reason) == (not wanted)
    assert not other.reason


@pytest.mark.parametrize("cell", [{}, {"iou_threshold": 0.75}, {"area": "medium"}, {"max_detections": 10}])
def test_curves_have_the_intervals_of_their_groups(columns, metric, cell):
    curves = metric.curve(**cell)
    single = detector(columns, range(IMAGES), video())
    for place, curve in enumerate(curves):
        assert int(curve.groups.group_positives.sum()) == int(curve.m)
        assert torch.equal(curve.groups.scores.sort(descending=True).values, curve.thresholds)
        point = quiet(curve.operating_point, precision=0.5, confidence_level=LEVEL)
        assert point.method == "jackknife"
        if cell.keys() <= {"iou_threshold"}:
            expected = quiet(single.operating_points, **cell, precision=0.5, confidence_level=LEVEL)
            np.testing.assert_allclose(ends_of(point)[0], ends_of(expected)[place], rtol=REORDERED)


def test_groups_of_one_image_agree_with_independent_images(columns, independent):
    singles = detector(columns, range(IMAGES), torch.randperm(IMAGES, generator=torch.Generator().manual_seed(1)))
    points, other = (x.operating_points(precision=0.5) for x in (singles, independent))
    # two methods, the logit interval of the jackknife and Wilson's of the delta method, differ by part of the width
    np.testing.assert_allclose(ends_of(points), ends_of(other), atol=0.04)


@pytest.mark.parametrize("per_class", [True, False])
def test_every_threshold_keeps_the_groups_and_no_interval_of_images(metric, per_class):
    at = metric._matches_at()
    found = numbers_at_every_threshold(at, per_class=per_class, confidence_level=LEVEL)
    assert np.isnan(found.low).all()
    assert np.isnan(found.high).all()
    cuts = cuts_of_detections(found, at.names if per_class else ["all"])
    for place, cut in enumerate(cuts):
        numbers = sampled_numbers(cut, 9, LEVEL)
        for index in (2, 7):
            threshold = numbers["t"][index]
            points = quiet(
                metric.operating_points,
                score_threshold=dict.fromkeys(at.labels.tolist(), threshold) if per_class else threshold,
                per_class=per_class,
                confidence_level=LEVEL,
            )
            expected = ends_of(points)[place].reshape(-1)
            assert [row[index] for row in numbers["ends"]] == pytest.approx(expected.tolist(), abs=1e-3)  # 3 digits


def test_slices_have_the_groups_of_their_images(columns, metric):
    flags = torch.arange(IMAGES) % 3 > 0
    chosen = flags.nonzero().flatten().tolist()
    at = metric._matches_at().select_images(flags)
    found = numbers_at_every_threshold(at, per_class=False, confidence_level=LEVEL)
    part = detector(columns, chosen, video()[flags])
    expected = numbers_at_every_threshold(part._matches_at(), per_class=False, confidence_level=LEVEL)
    thresholds = torch.tensor([1.0, 0.3, -0.5], dtype=torch.float64)
    for one, other in zip(found.groups, expected.groups, strict=True):
        m = float(one.group_positives.sum())
        for low, high in zip(one.ends(thresholds, m, 1.0, LEVEL), other.ends(thresholds, m, 1.0, LEVEL), strict=True):
            torch.testing.assert_close(low, high)


def test_one_group_has_no_interval_with_the_reason(columns):
    single = detector(columns, range(IMAGES), torch.full((IMAGES,), 5))
    points = single.operating_points(recall=0.5)
    assert np.isnan(ends_of(points)).all()
    assert "fewer than two groups, or one with most hits" in points.reason
    assert all("fewer than two groups" in x.operating_point(recall=0.5).reason for x in single.curve())


def test_few_groups_warn(columns):
    few = detector(columns, range(IMAGES), torch.arange(IMAGES) % 4)
    with pytest.warns(UserWarning, match="4 groups with ground truths, but coverage is measured from 10 on"):
        points = few.operating_points(recall=0.5)
    assert "the interval may be too narrow" in points.reason


def test_merged_states_and_order_give_the_same_intervals(columns, metric):
    order = torch.randperm(IMAGES, generator=torch.Generator().manual_seed(3))
    parts = [detector(columns, x.tolist(), video()[x]) for x in order.split(IMAGES // 2)]
    parts[0].merge_state(parts[1])
    expected, found = (x.operating_points(recall=0.5) for x in (metric, parts[0]))
    np.testing.assert_allclose(ends_of(found), ends_of(expected), rtol=REORDERED)


@pytest.mark.parametrize("name", ["coco", "lvis", "voc", "open_images", "nuscenes"])
def test_every_detection_metric_uses_its_groups(name):
    row = METRICS[name]
    metric, independent = row.new(), row.new()
    for place, batch in enumerate(row.batches(2)):
        batch = {key: x for key, x in batch.items() if key != "groups"}
        quiet(metric.update, **batch, groups=torch.arange(len(batch["preds"])) + place)
        quiet(independent.update, **batch)
    points, other = (quiet(x.operating_points) for x in (metric, independent))
    assert (points.method, other.method) == ("jackknife", "delta-wilson")
    assert torch.equal(points.tp, other.tp)
    assert all(x.groups is not None for x in metric.curve())
    assert all(x.groups is None for x in independent.curve())
