"""Areas in the input: all metrics and functions that read them apply the same rule, on every device."""

import itertools
import re

import pytest
import torch

from tests.support.each import each
from torch_ap import LVISMeanAveragePrecision, MeanAveragePrecision
from torch_ap.functional import coco_mean_average_precision, lvis_mean_average_precision

BOX = torch.tensor([[1.0, 1, 10, 10], [20, 20, 30, 30]])
MASK = torch.zeros(2, 40, 40, dtype=torch.bool)
MASK[0, 1:10, 1:10] = MASK[1, 20:30, 20:30] = True
ROTATED = torch.tensor([[5.0, 5, 9, 9, 0], [25, 25, 9, 9, 0]])
SPANS = torch.tensor([[0.0, 10], [20, 30]])


def similarity(*_):
    return torch.eye(2)


# the shapes of an image, and further keys of its detections
KINDS = {
    "bbox": ({}, {"boxes": BOX}, {}),
    "own boxes": ({"iou": lambda x, y, _: (x == y).all(1).double()}, {"boxes": BOX}, {}),
    "segm": ({"iou_type": "segm"}, {"masks": MASK}, {}),
    "boundary": ({"iou_type": "boundary"}, {"masks": MASK}, {}),
    "both": ({"iou_type": ("bbox", "segm")}, {"boxes": BOX, "masks": MASK}, {}),
    "rotated": ({"iou_type": "rotated", "box_format": "cxcywhr"}, {"boxes": ROTATED}, {}),
    "intervals": ({"iou_type": "intervals"}, {"intervals": SPANS}, {}),
    "precomputed": ({"iou_type": "precomputed"}, {}, {"ious": torch.eye(2)}),
    "function": ({"iou_type": similarity}, {}, {}),
    "matched at once": ({"match": "update"}, {"boxes": BOX}, {}),
}
ROWS = {("coco", kind): (MeanAveragePrecision, *row) for kind, row in KINDS.items()}
ROWS |= {("lvis", kind): (LVISMeanAveragePrecision, *KINDS[kind]) for kind in ("bbox", "segm", "boundary")}
FUNCTION = {MeanAveragePrecision: coco_mean_average_precision, LVISMeanAveragePrecision: lvis_mean_average_precision}


def images(shapes, more, area):
    """Return two images, the second with these areas in its ground truths or in both sides."""
    labels, nothing = torch.tensor([0, 1]), torch.zeros(0, dtype=torch.int64)
    lists = {"neg_category_ids": nothing, "not_exhaustive_category_ids": nothing}
    good = {"area": torch.tensor([81.0, 0])}
    preds = [{**shapes, **more, **good, "labels": labels, "scores": torch.ones(2)} for _ in range(2)]
    target = [{**shapes, **good, "labels": labels, **lists} for _ in range(2)]
    target[1]["area"] = torch.tensor(area)
    return preds, target


def value_or_error(metric, preds, target):
    try:
        metric.update(preds, target)
        return metric.compute()
    except ValueError as error:
        return str(error)


@each("row", ROWS)
@pytest.mark.filterwarnings("ignore:.*lists categories")
def test_areas_are_finite_and_not_negative(row):
    call, settings, shapes, more = row
    of_function = {key: x for key, x in settings.items() if key != "match"}
    for given, area in itertools.product((False, True), ([torch.inf, 1], [1, -torch.inf], [torch.nan, 1], [1.0, -5])):
        data = images(shapes, more, area)
        metric = call(**settings, use_given_area=given)
        found = value_or_error(metric, *data)
        if not given and area == [1.0, -5]:  # as in torchmetrics: the area of the shape
            expected = value_or_error(call(**settings), *images(shapes, more, [1.0, 0]))
            torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
            continue
        bad = next(x for x in area if x != 1)
        rule = "must be a finite number of at least 0" if given else "must be finite"
        assert re.search(rf"`target\[1\]\['area'\]` {rule}, got {bad}", str(found))
        assert metric.update_count == 0
        with pytest.raises(ValueError, match=rule):
            FUNCTION[call](*data, **of_function, use_given_area=given)
        assert isinstance(value_or_error(call(**settings, use_given_area=given, validate_args=False), *data), dict)


@pytest.mark.parametrize("kind", ["segm", "precomputed", "function"])
def test_areas_of_detections_too(kind):
    settings, shapes, more = KINDS[kind]
    preds, target = images(shapes, more, [1.0, 1])
    preds[1]["area"] = torch.tensor([1.0, -5])
    with pytest.raises(ValueError, match=r"`preds\[1\]\['area'\]` must be a finite number of at least 0, got -5"):
        MeanAveragePrecision(**settings, use_given_area=True).update(preds, target)
    MeanAveragePrecision(**settings).update(preds, target)


@pytest.mark.gpu
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("call", [MeanAveragePrecision, LVISMeanAveragePrecision])
def test_an_accelerator_raises_in_compute(call, given):
    preds, target = (
        [{key: x.cuda() for key, x in image.items()} for image in side]
        for side in images({"boxes": BOX}, {}, [1.0, -5 if given else torch.inf])
    )
    metric = call(use_given_area=given).to("cuda")
    metric.update(preds, target)
    with pytest.raises(ValueError, match=r"`area` must be .*finite.*; broken first in update 1"):
        metric.compute()
    settled = call(use_given_area=given).to("cuda")
    target[1]["area"] = target[0]["area"]
    settled.update(preds, target)
    settled.compute()
