"""What to say of a mean average precision that is suspiciously low: what is likely wrong with its images."""

from collections.abc import Mapping
from typing import Any

import torch

from torch_ap.analysis import angle_faults, box_faults
from torch_ap.analysis.box_faults import Evidence
from torch_ap.analysis.encodings import PLAIN, Encoding
from torch_ap.inputs.detections import Columns
from torch_ap.matching.shape_options import ShapeOptions
from torch_ap.rules.detections import no_label_in_common
from torch_ap.rules.messages import warn_caller

LOW = "the value is low: "
_IMAGES = 10  # of fewer nothing is said
_HIGH = {"bbox": 0.1, "rotated": 0.3}  # no value from here on is low; boxes turned by too little overlap now and then
_PAIRS = 200_000  # of a detection and a ground truth: a poor detector is looked at after each epoch


def remark(settings: ShapeOptions, columns: Columns, found: Mapping[str, Any]) -> None:
    """Warn of the likeliest cause of a low value, if there is one that no poor detector has. Waits for an accelerator.

    Args:
        settings: of the value; nothing is said where they check no values.
        columns: all images, or what matching found in them, of which the labels alone are looked at.
        found: numbers by name, the value as ``map`` or ``bbox_map``.
    """
    if not settings.check_values:
        return
    images, one_class = len(columns["detections_per_image"]), getattr(settings, "average", None) == "micro"
    labels = columns["detection_labels"], columns["ground_truth_labels"]
    said = None if one_class else no_label_in_common(*labels, images)
    kind, value = _kind(settings, columns), found.get("map", found.get("bbox_map"))
    if said is None and kind is not None and value is not None and images >= _IMAGES and float(value) < _HIGH[kind]:
        cause = _of_angles(settings, columns) if kind == "rotated" else _of_boxes(settings, columns, one_class)
        said = None if cause is None else f"{LOW}{cause}"
    if said is not None:
        warn_caller(said, UserWarning)


def _kind(settings: ShapeOptions, columns: Columns) -> str | None:
    """Which of the shapes is looked at, if any."""
    known = settings.own_iou is None and settings.box_format != "xyxyxyxy" and "detection_boxes" in columns
    return next((kind for kind in _HIGH if known and kind in settings.iou_types), None)


def _sides(columns: Columns) -> tuple[Columns, Columns]:
    """Packed images on CPU."""
    keys = {"detection": ("boxes", "labels", "scores"), "ground_truth": ("boxes", "labels")}
    found, true = (
        {key: columns[f"{side}_{key}"].cpu() for key in of} | {"counts": columns[f"{side}s_per_image"].cpu()}
        for side, of in keys.items()
    )
    return found, true


def _of_boxes(settings: ShapeOptions, columns: Columns, one_class: bool) -> str | None:
    preds, target = sides = _sides(columns)
    for side in sides if one_class else ():
        side["labels"] = torch.zeros_like(side["labels"])
    encoding = Encoding(PLAIN[settings.box_format])
    given = f"as {encoding.reading}, as `box_format={settings.box_format!r}` has it,"
    evidence = Evidence(
        *(preds, target, None, settings.box_format),
        given=encoding,
        remedy=f"give `preds` {given} in the units of `target`",
        true=encoding,
        remedy_of_both=f"give `preds` and `target` {given} in the same units",
        sure=True,
        pairs=_PAIRS,
    )
    return next(box_faults.causes(evidence), None)


def _of_angles(settings: ShapeOptions, columns: Columns) -> str | None:
    preds, target = _sides(columns)
    found, true = (side["boxes"].to(torch.float64) for side in (preds, target))
    return angle_faults.cause(found, true, (preds["counts"], target["counts"]), preds["scores"], settings.box_format)
