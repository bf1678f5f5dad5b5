"""Ground truths without area, which no detection matches, and which therefore limit AP and recall."""

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.base.messages import warn_caller
from torch_ap.detection.inputs.federated import NEGATIVE
from torch_ap.detection.inputs.images import Columns
from torch_ap.detection.inputs.rules import warn_if_no_label_in_common
from torch_ap.detection.matching.shapes import ShapeSettings

NO_AREA = r"[\d,]+ of [\d,]+ ground truths ha(s|ve) no "  # as the warning begins
_UNITS = {"bbox": "area", "segm": "pixel", "boundary": "pixel", "rotated": "area", "intervals": "length"}
_MIN_SHARE = 1e-3  # below, the limit on AP is hardly visible
_IGNORED = ("iscrowd", "difficult", "ignore")  # columns of ground truths that do not count


def sentence(areas: Tensor, ignored: Tensor, unit: str, least_share: float = 0) -> str | None:
    """Return a sentence about ground truths without area; None where every one has some.

    Args:
        areas: (G,) areas of all ground truths.
        ignored: (G,) bool or 0 and 1, the ground truths that do not count.
        unit: "area" of boxes, "pixel" of masks, or "length" of intervals.
        least_share: share of the ground truths below which the sentence is left out.
    """
    counted = areas[ignored == 0]
    without = int((counted == 0).sum())
    if not without or without < least_share * len(counted):
        return None
    verb, pronoun = ("has", "it") if without == 1 else ("have", "them")
    return (
        f"{without:,} of {len(counted):,} ground truths {verb} no {unit}: no detection can match {pronoun}, so that AP "
        "and recall stay below 1; remove or mend them"
    )


def describe(settings: ShapeSettings, columns: Columns, least_share: float = 0) -> str | None:
    """Return :func:`sentence` for images. None where only matches are stored. Waits for an accelerator.

    Args:
        settings: settings of the metric or function.
        columns: all images.
        least_share: share of the ground truths below which the sentence is left out.
    """
    kind = settings.iou_types[0]
    if (settings.pixel and kind == "bbox") or settings.own_iou is not None or kind not in _UNITS:
        return None
    if not columns.keys() & {"ground_truth_boxes", "ground_truth_edges_per_mask", "ground_truth_intervals"}:
        return None
    areas = settings.area(columns, kind, "ground_truth")
    if not arrays.any_true(native(areas) == 0):
        return None
    ignored = torch.zeros_like(areas, dtype=torch.bool)
    for name in _IGNORED:
        ignored |= columns.get(f"ground_truth_{name}", ignored) != 0
    if NEGATIVE in columns:  # LVIS leaves out ground truths whose `area` is not above 0
        ignored |= ~(columns["ground_truth_area"] > 0)
    return sentence(areas, ignored, _UNITS[kind], least_share)


def warn_of_empty(settings: ShapeSettings, columns: Columns) -> None:
    """Warn of ground truths without area if they are at least one in a thousand; see :func:`describe`."""
    if (text := describe(settings, columns, _MIN_SHARE)) is not None:
        warn_caller(f"{text}.", UserWarning)


def warn_of_unmatchable(settings: ShapeSettings, columns: Columns) -> bool:
    """Warn of ground truths without area and of labels that no ground truth has. Waits for an accelerator.

    Args:
        settings: settings of the metric or function; there is no warning without ``check_values``.
        columns: all images, or their matches.

    Returns:
        Whether no label occurs on both sides.
    """
    if not settings.check_values:
        return False
    warn_of_empty(settings, columns)
    return warn_if_no_label_in_common(settings, columns)
