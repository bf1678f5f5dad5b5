"""Matches of a few boxes in Python: equal to the vectorized matches to the last bit."""

import warnings

import pytest
import torch

from tests.support.each import each
from tests.support.oracles_detection import random_scene
from torch_ap.detection.rules import coco
from torch_ap.detection.rules.coco_numbers import settings_of
from torch_ap.detection.shapes.boxes import from_xywh

SCORES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8)
BOXES = (torch.float64, torch.float32, torch.float16)
THRESHOLDS = (None, [0.5], [0.9, 0.3, 0.5, 0.5], [1.0, 0.05], [x / 20 for x in range(1, 16)])
AREAS = ({}, {"tiny": (0.0, 64.0), "not tiny": (64.0, 1e6)})
LIMITS = (None, [1, 3], [2])


def scene(seed):
    """Return settings and the columns of a scene; formats, dtypes and settings depend on the seed."""
    preds, target = random_scene(seed)
    box_format = ("xywh", "xyxy", "cxcywh")[seed % 3]
    for images in (preds, target):
        for image in images:
            image["boxes"] = from_xywh(image["boxes"], box_format).to(BOXES[seed // 3 % 3])
    for image in preds:
        image["scores"] = (image["scores"] * (100 if seed % 5 == 4 else 1)).to(SCORES[seed % 5])
        if seed % 4 == 0:  # a detector's raw outputs
            image["boxes"][::3, 2:] *= -1
        if seed % 7 == 0 and seed % 5 < 4:
            image["scores"][:3] = torch.tensor([torch.inf, -0.0, 0.0])[: len(image["scores"])]
    settings = settings_of(
        iou_type="bbox",
        box_format=box_format,
        iou_thresholds=THRESHOLDS[seed // 2 % 5],
        max_detection_thresholds=LIMITS[seed // 3 % 3],
        area_ranges=AREAS[seed // 5 % 2] or None,
        use_given_area=seed % 11 == 0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return settings, settings.inputs.validate(preds, target)[0]


def tensors(record):
    """Yield the tensors of matches, in records inside records too."""
    for name in getattr(record, "_fields", None) or vars(record):
        value = getattr(record, name)
        if isinstance(value, torch.Tensor):
            yield name, value
        elif name in ("ranked", "partners"):
            yield from tensors(value)


def matched(settings, columns, micro, *, few):
    with pytest.MonkeyPatch.context() as patch:
        if not few:
            patch.setattr(coco, "_MOST_BOXES", -1)
        numbers = coco.match(settings, columns, "bbox", micro=micro)
    return {"labels": numbers.labels, "m": numbers.matches.relevant} | dict(tensors(numbers.matches))


@each("seed", range(60))
def test_matches_have_the_same_bits(seed):
    settings, columns = scene(seed)
    for micro in (False, True):
        assert coco._match_few_boxes(settings, columns, micro=micro) is not None
        few, many = (matched(settings, columns, micro, few=few) for few in (True, False))
        assert few.keys() == many.keys()
        for name, values in few.items():
            assert values.dtype == many[name].dtype, name
            assert torch.equal(values, many[name]), name


def test_no_images():
    settings = settings_of(iou_type="bbox", box_format="xywh")
    few, many = (matched(settings, settings.inputs.empty(), False, few=few) for few in (True, False))
    assert all(torch.equal(values, many[name]) for name, values in few.items())


@pytest.mark.parametrize("change", ["many", "pairs", "zero", "words", "nan", "area"])
def test_other_input_is_matched_by_array_operations(change):
    settings, columns = scene(2)
    assert min(len(columns["detection_boxes"]), len(columns["ground_truth_boxes"])) > 1
    if change == "zero":
        settings = settings_of(iou_type="bbox", box_format="cxcywh", iou_thresholds=[0.0, 0.5])
    if change == "words":
        settings = settings_of(iou_type="bbox", box_format="cxcywh", iou_thresholds=[x / 32 for x in range(1, 32)])
    if change == "nan":
        columns["detection_scores"][1] = torch.nan
    if change == "area":
        columns["detection_area"] = torch.ones_like(columns["detection_labels"], dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        for name in {"many": ["_MOST_BOXES"], "pairs": ["_MOST_PAIRS"]}.get(change, []):
            patch.setattr(coco, name, 1)
        assert coco._match_few_boxes(settings, columns, micro=False) is None
        assert coco.match(settings, columns, "bbox").matches.at.ndim == 1
