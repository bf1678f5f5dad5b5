"""Counts of a batch of boxes at one threshold: equal to the operating points of the metric, small batches or large."""

import pytest
import torch

from tests.support import emulated
from tests.support.each import each
from tests.support.oracles_detection import random_scene
from tests.support.tolerances import REORDERED
from torch_ap import MeanAveragePrecision
from torch_ap.detection.curves import coco_counts
from torch_ap.detection.rules import coco_counts as kernel

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64)


def scene(seed):
    """Return a scene with scores of one of the dtypes, tied with the threshold in half of the scenes."""
    preds, target = random_scene(seed)
    dtype = DTYPES[seed % len(DTYPES)]
    for image in preds:
        scores = image["scores"] * 10 if dtype == torch.int64 else image["scores"]
        image["scores"] = scores.to(dtype)
    threshold = [3, 5, 0][seed % 3] if dtype == torch.int64 else [0.3, 0.5, 0.0][seed % 3]
    return preds, target, threshold


def expected(preds, target, iou_threshold, score_threshold):
    metric = MeanAveragePrecision("xywh", iou_thresholds=[iou_threshold])
    metric.update(preds, target)
    points = metric.operating_points(iou_threshold, score_threshold=score_threshold, per_class=False)
    return [float(x) for x in (points.tp, points.fp, points.fn, points.precision, points.recall, points.f_beta)]


def values(counts):
    return [float(x) for x in (counts.tp, counts.fp, counts.fn, counts.precision, counts.recall, counts.f_beta())]


def check(seed):
    preds, target, threshold = scene(seed)
    iou_threshold = [0.5, 0.75, 1.0, 0.0, 0.3][seed // 2 % 5]
    got = values(coco_counts(preds, target, "xywh", iou_threshold, threshold))
    assert got == pytest.approx(expected(preds, target, iou_threshold, threshold), rel=REORDERED, nan_ok=True)


@pytest.mark.filterwarnings("ignore")  # likely mistakes, which both calls report
@each("seed", range(40))
def test_counts_equal_operating_points(seed, monkeypatch):
    check(seed)
    monkeypatch.setattr(kernel, "_MOST_PAIRS", -1)  # the way of large batches and of accelerators
    check(seed)


@pytest.mark.filterwarnings("ignore")
def test_counts_of_images_on_an_accelerator():
    preds, target, threshold = scene(2)
    here = values(coco_counts(preds, target, "xywh", 0.5, threshold))
    with emulated.device():
        preds, target = (
            [{key: x.to("cuda") for key, x in image.items()} for image in side] for side in (preds, target)
        )
        there = coco_counts(preds, target, "xywh", 0.5, threshold)
        assert there.tp.device.type == there.tn.device.type == "cuda"
        assert values(there) == here


@pytest.mark.filterwarnings("ignore:An image has 150")
def test_the_limit_of_a_class_and_image_counts_only_its_best():
    box = torch.tensor([[0.0, 0.0, 10.0, 10.0]])
    preds = [{"boxes": box.repeat(150, 1), "scores": torch.rand(150), "labels": torch.arange(150) // 120}]
    target = [{"boxes": box, "labels": torch.tensor([0])}]
    assert values(coco_counts(preds, target, "xywh", 0.5, 0.0))[:3] == [1, 129, 0]
    assert values(coco_counts(preds, target, "xywh", 0.5, 0.0)) == expected(preds, target, 0.5, 0.0)


def test_no_images_and_thresholds_beyond_the_scores():
    assert values(coco_counts([], []))[:3] == [0, 0, 0]
    preds, target, _ = scene(2)
    for threshold in (1e300, float("inf"), torch.tensor(2.0)):
        counts = coco_counts(preds, target, "xywh", score_threshold=threshold)
        assert counts.tp == counts.fp == 0
        assert counts.precision.isnan()
        assert counts.tn.isnan()
    assert set(counts.to_dict()) == {"tp", "fp", "fn", "tn"}


def test_inputs_are_neither_changed_nor_kept():
    preds, target, threshold = scene(2)
    before = [{key: value.clone() for key, value in image.items()} for image in (*preds, *target)]
    coco_counts(preds, target, "xywh", score_threshold=threshold)
    for image, copy in zip((*preds, *target), before, strict=True):
        assert all(torch.equal(image[key], copy[key]) for key in copy)


@each(
    "arguments, message",
    [
        ({"iou_threshold": 1.5}, "`iou_threshold` must be a number in"),
        ({"score_threshold": float("nan")}, "`score_threshold` must be a number other than NaN"),
        ({"score_threshold": "best"}, "`score_threshold` must be a number"),
        ({"box_format": "corners"}, "`box_format` must be one of"),
        ({"preds": [{}], "target": [{}]}, "labels"),
    ],
)
def test_invalid_arguments(arguments, message):
    preds, target, _ = scene(2)
    with pytest.raises((TypeError, ValueError), match=message):
        coco_counts(**{"preds": preds, "target": target, "box_format": "xywh", **arguments})


def test_invalid_values_raise_as_in_update():
    box, label = torch.tensor([[0.0, 0, 10, 10]]), torch.tensor([0])
    preds = [{"boxes": box, "scores": torch.tensor([torch.nan]), "labels": label}]
    messages = []
    for call in (coco_counts, MeanAveragePrecision().update):
        with pytest.raises(ValueError, match="scores") as raised:
            call(preds, [{"boxes": box, "labels": label}])
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
