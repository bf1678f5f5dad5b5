"""Where to cut a detector: operating points and confusion matrix, against loops over thresholds, images and pairs."""

import functools
import math

import numpy as np
import pytest
import torch

from tests import oracles_cuts
from tests.oracles_detection import joined, random_scene, to_voc
from tests.tolerances import REORDERED
from torch_ap.detection import MeanAveragePrecision, VOCMeanAveragePrecision

RATIOS = ("precision", "recall", "f_beta")
WANTED = [{}, {"beta": 2.0}, {"beta": 0.3}, {"precision": 0.5}, {"precision": 1.0}, {"recall": 0.5}, {"recall": 1.0}]
ALL_IN_ONE_PASS = 300  # of the 2,000 scenes: those whose intervals are looked at image by image


@functools.cache
def scenes(count=2000):
    """Random scenes as one data set, with ties, crowds, empty images, and classes that only one side has."""
    return joined(random_scene, range(count))


@functools.cache
def metric(count=2000):
    found = MeanAveragePrecision("xywh", iou_thresholds=[0.5, 0.75]).set_dtype(torch.float64)
    found.warn_on_many_detections = False
    found.update(*scenes(count))
    return found


@functools.cache
def items(count=2000):
    """By label, the detections that count and the images of ground truths."""
    return oracles_cuts.coco_items(*map(oracles_cuts.plain, scenes(count)))


@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_operating_points_are_those_of_a_loop_over_thresholds(wanted):
    found = metric().operating_points(**wanted)
    assert found.labels.tolist() == list(items())
    slow = [oracles_cuts.best(*each, **wanted) for each in items().values()]
    assert found.threshold.tolist() == pytest.approx(slow, abs=0, nan_ok=True)
    rows = [
        oracles_cuts.counts(*each, math.inf if math.isnan(threshold) else threshold)
        for each, threshold in zip(items().values(), slow, strict=True)
    ]
    assert torch.stack([found.tp, found.fp, found.fn], 1).tolist() == [list(row) for row in rows]
    tp, fp, fn = (np.array(x, dtype=float) for x in zip(*rows, strict=True))
    with np.errstate(invalid="ignore"):
        missing = np.isnan(slow)
        square = wanted.get("beta", 1.0) ** 2
        wanted_f = (1 + square) * tp / ((1 + square) * tp + square * fn + fp)
        for name, value in zip(RATIOS, (tp / (tp + fp), tp / (tp + fn), wanted_f), strict=True):
            value[missing] = np.nan
            assert getattr(found, name).tolist() == pytest.approx(value.tolist(), rel=REORDERED, nan_ok=True)
    assert found.n.tolist() == [len(each) for each, _ in items().values()]
    assert 0.02 < missing.mean() < 0.95  # both kinds are there


@pytest.mark.parametrize("wanted", [{}, {"recall": 0.5}, {"beta": 2.0}], ids=str)
def test_intervals_are_those_of_a_loop_over_images(wanted):
    found = metric().operating_points(**wanted, confidence_level=0.9)
    beta = wanted.get("beta", 1.0)
    rows = list(zip(items().values(), found.threshold.tolist(), strict=True))[:ALL_IN_ONE_PASS]
    slow = [
        [(math.nan, math.nan)] * 3
        if math.isnan(threshold)
        else oracles_cuts.ends(*each, threshold, beta=beta, level=0.9)
        for each, threshold in rows
    ]
    for place, name in enumerate(RATIOS):
        for end, which in (("_low", 0), ("_high", 1)):
            ours = getattr(found, name + end)[:ALL_IN_ONE_PASS].tolist()
            assert ours == pytest.approx([row[place][which] for row in slow], abs=1e-9, nan_ok=True)
        known = ~torch.isnan(getattr(found, f"{name}_low"))
        low, value, high = (getattr(found, name + end)[known] for end in ("_low", "", "_high"))
        assert known.any()
        assert ((low >= 0) & (low <= value) & (value <= high) & (high <= 1)).all()


def test_one_threshold_for_all_classes():
    together = [x for each, _ in items(60).values() for x in each]
    truths = [x for _, each in items(60).values() for x in each]
    for wanted in ({}, {"precision": 0.35}, {"recall": 0.1}):
        found = metric(60).operating_points(**wanted, per_class=False)
        threshold = oracles_cuts.best(together, truths, **wanted)
        assert found.threshold.shape == found.recall_low.shape == found.tp.shape == ()
        assert float(found.threshold) == threshold
        assert (int(found.tp), int(found.fp), int(found.fn)) == oracles_cuts.counts(together, truths, threshold)
        each = metric(60).operating_points(score_threshold=threshold)
        assert [int(x.sum()) for x in (each.tp, each.fp, each.fn)] == [int(x) for x in (found.tp, found.fp, found.fn)]
        assert set(each.threshold.tolist()) == {threshold}


def test_thresholds_that_are_given_are_those_that_were_chosen():
    """On other images, say: the same numbers where they are the same images."""
    chosen = metric().operating_points()
    given = metric().operating_points(score_threshold=chosen.threshold)
    fields = {"method", "reason", "recall", "recall_low", "recall_high", "f_beta", "f_beta_low", "f_beta_high"}
    one, two = chosen.to_dict(), given.to_dict()
    assert {x: repr(one[x]) for x in one.keys() - fields} == {x: repr(two[x]) for x in two.keys() - fields}
    missing = torch.isnan(chosen.threshold)
    assert torch.equal(given.recall[~missing], chosen.recall[~missing])


@pytest.mark.parametrize("kind", [MeanAveragePrecision, VOCMeanAveragePrecision])
def test_points_are_those_of_the_curves(kind):
    preds, target = scenes(40)
    if kind is VOCMeanAveragePrecision:
        preds, target = to_voc(preds, target)
    found = kind("xyxy" if kind is VOCMeanAveragePrecision else "xywh").set_dtype(torch.float64)
    found.update(preds, target)
    for wanted in ({}, {"precision": 0.5}, {"recall": 0.5}):
        points = found.operating_points(**wanted)
        for place, curve in enumerate(found.curve()):
            one = curve.operating_point(**wanted)
            assert points.names[place] == curve.name
            for name in ("threshold", *RATIOS):
                both = [float(getattr(x, name)) for x in (one,)] + [float(getattr(points, name)[place])]
                assert both[0] == pytest.approx(both[1], rel=REORDERED, nan_ok=True), name


def test_a_class_without_ground_truths_or_with_all_in_one_image_says_so():
    found = MeanAveragePrecision()
    box = torch.tensor([[10.0, 10, 50, 50]])
    for label in (0, 0, 1, 1):
        truth = {"boxes": box, "labels": torch.tensor([label])}
        found.update([{**truth, "scores": torch.tensor([0.9]), "labels": torch.tensor([2])}], [truth])
        found.update([{**truth, "scores": torch.tensor([0.8])}], [truth])
    points = found.operating_points(class_names=["cat", "dog", "hen"])
    assert points.names == ["cat", "dog", "hen"]
    assert points.reason == "1 of 3 classes: no ground truths"
    assert points.fn.tolist() == [2, 2, 0]
    assert torch.isnan(points.threshold).tolist() == [False, False, True]
    alone = MeanAveragePrecision()
    alone.update(
        [{"boxes": box, "labels": torch.tensor([0]), "scores": torch.tensor([0.5])}],
        [truth | {"labels": torch.tensor([0])}],
    )
    assert "nothing is kept, or all stands in one image" in alone.operating_points().reason
    assert torch.isnan(alone.operating_points().recall_low).all()


# -- confusion matrix


@functools.cache
def of_one_name_space(count=2000):
    """Scenes whose classes are the same three."""
    preds, target = [], []
    for seed in range(count):
        for side, images in zip((preds, target), random_scene(seed), strict=True):
            side += images
    return preds, target


@pytest.mark.parametrize("score_threshold", [0.3, 0.5])
def test_the_confusion_matrix_is_that_of_a_loop_over_pairs(score_threshold):
    preds, target = of_one_name_space()
    found = MeanAveragePrecision("xywh").set_dtype(torch.float64)
    found.update(preds, target)
    matrix = found.confusion_matrix(0.5, score_threshold)
    slow = oracles_cuts.confusion(*map(oracles_cuts.plain, (preds, target)), matrix.labels.tolist(), score_threshold)
    assert matrix.matrix.tolist() == slow.tolist()
    assert (slow > 0).sum() == slow.size - 1  # what is nowhere and was not detected is not counted
    assert found.confusion_matrix(score_threshold=torch.full((3,), score_threshold)).matrix.tolist() == slow.tolist()
    points = found.operating_points(score_threshold=score_threshold)
    assert torch.equal(matrix.matrix[:-1].sum(1), points.tp + points.fn)
    assert torch.equal(matrix.matrix[:, :-1].sum(0), points.tp + points.fp)
    assert matrix.matrix.dtype == torch.int64
    assert torch.equal(matrix.labels, points.labels)
