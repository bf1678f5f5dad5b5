"""Which of COCO's numbers are meant: thresholds, recall levels, detection limits, area ranges; and what a geometry
says of all images, areas and the IoU of pairs. Nothing else knows of boxes and masks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.geometry import boxes, masks
from torch_ap.inputs.detections import Columns, DetectionInputs, image_of
from torch_ap.matching import assignment
from torch_ap.ranking import segments
from torch_ap.rules import checks
from torch_ap.rules.messages import Plain, refuse, shown
from torch_ap.rules.options import IoUType, allowed

AreaRanges: TypeAlias = Mapping[str, tuple[float, float]]
OwnIoU: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]

COCO_AREAS: AreaRanges = {
    "all": (0, 1e10),
    "small": (0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e10),
}


@dataclass(frozen=True, eq=False)
class CocoSettings:
    """All settings of one COCO mean average precision.

    Attributes:
        iou_types: "bbox", "segm" or "precomputed", or several.
        box_format: of ``boxes``; of no meaning with ``own_iou``.
        thresholds: T IoU thresholds.
        levels: R recall levels.
        limits: M numbers of detections of a category and image that count, ascending.
        areas: names and bounds of the A area ranges, the one of the overall numbers first.
        average: "macro" or "micro".
        own_iou: IoU of pairs of boxes, in place of COCO's.
        box_width: numbers per box.
        check_values: whether values are checked.
        area_as_given: whether ``area`` is required and taken as it is, an area of 0 or less too.
    """

    iou_types: tuple[str, ...]
    box_format: str
    thresholds: tuple[float, ...]
    levels: tuple[float, ...]
    limits: tuple[int, ...]
    areas: AreaRanges
    average: str = "macro"
    own_iou: OwnIoU | None = None
    box_width: int = 4
    check_values: bool = True
    area_as_given: bool = False

    @cached_property
    def inputs(self) -> DetectionInputs:
        """How images come in. Where the geometry is not ours, or theirs are asked for, detections bring areas too."""
        own = self.own_iou is not None or "precomputed" in self.iou_types
        own = own or (self.area_as_given and "segm" in self.iou_types)
        return DetectionInputs(
            self.iou_types,
            self.box_width,
            None if self.own_iou is not None else self.box_format,
            of_detections=("area",) if own else (),
            check_values=self.check_values,
            areas_required=self.area_as_given,
        )

    def criteria(self, device: torch.device) -> assignment.Criteria:
        """Thresholds and area ranges of matching, on a device."""
        thresholds = segments.as_float64(torch.tensor(self.thresholds, dtype=torch.float64).to(device))
        return assignment.Criteria(thresholds, len(self.areas))

    def inside(self, area: Tensor) -> Tensor:
        """(A, X) bool, which areas lie in each range, its ends included."""
        bounds = area.new_tensor(list(self.areas.values()))
        return (area >= bounds[:, :1]) & (area <= bounds[:, 1:])


def thresholds_of(given: Any) -> tuple[float, ...]:
    """The IoU thresholds: those given, or COCO's ten, exactly as NumPy makes them in float64."""
    if given is None:
        return tuple(np.linspace(0.5, 0.95, 10).tolist())
    checks.numbers_in("iou_thresholds", given, low=0, high=1)
    return tuple(float(x) for x in given)


def levels_of(given: Any) -> tuple[float, ...]:
    """The recall levels: those given, or COCO's 101."""
    if given is None:
        return tuple(np.linspace(0, 1, 101).tolist())
    checks.numbers_in("rec_thresholds", given, low=0, high=1)
    return tuple(float(x) for x in given)


def default_settings(iou_type: str | tuple[str, ...]) -> CocoSettings:
    """COCO's own settings."""
    return settings_of(
        box_format="xywh",
        iou_type=iou_type,
        iou_thresholds=None,
        rec_thresholds=None,
        max_detection_thresholds=None,
        average="macro",
        area_ranges=None,
        iou=None,
    )


def settings_of(
    *,
    box_format: str,
    iou_type: str | tuple[str, ...],
    iou_thresholds: list[float] | None,
    rec_thresholds: list[float] | None,
    max_detection_thresholds: list[int] | None,
    average: str,
    area_ranges: AreaRanges | None,
    iou: OwnIoU | None,
    box_width: int = 4,
    validate_args: bool = True,
    area_as_given: bool = False,
) -> CocoSettings:
    """Settings as given, checked, as a record."""
    kinds = (iou_type,) if isinstance(iou_type, str) else tuple(iou_type)
    for kind in kinds:
        checks.one_of("iou_type", kind, allowed(IoUType))
    if not kinds or len(set(kinds)) < len(kinds):
        refuse("iou_type", "must name one kind or several different ones", iou_type)
    checks.one_of("average", average, ("macro", "micro"))
    checks.boolean("validate_args", validate_args)
    checks.boolean("area_as_given", area_as_given)
    checks.one_of("box_format", box_format, boxes.FORMATS)
    box_width = checks.positive_int("box_width", box_width)
    if iou is not None and (kinds != ("bbox",) or not callable(iou)):
        raise ValueError(
            f"`iou` must be a function of boxes, with `iou_type='bbox'`, got {shown(iou)} and {shown(iou_type)}"
        )
    if iou is None and box_width != 4:
        refuse("box_width", "must be 4 without a function `iou`", box_width)
    limits = (1, 10, 100) if max_detection_thresholds is None else max_detection_thresholds
    limits = checks.positive_ints("max_detection_thresholds", limits)
    own = iou is not None or "precomputed" in kinds
    # areas of unknown geometry, volumes perhaps, have no bounds
    whole = (-float("inf"), float("inf")) if own else COCO_AREAS["all"]
    areas = {"all": whole} if own else COCO_AREAS
    if area_ranges is not None:
        checks.ranges("area_ranges", area_ranges)
        areas = {"all": whole} | {name: (float(low), float(high)) for name, (low, high) in area_ranges.items()}
    return CocoSettings(
        kinds,
        box_format,
        thresholds_of(iou_thresholds),
        levels_of(rec_thresholds),
        tuple(sorted(limits)),
        areas,
        average,
        iou,
        box_width,
        validate_args,
        area_as_given,
    )


class Shapes:
    """What one geometry says of all images: areas, and the IoU of pairs."""

    def __init__(self, settings: CocoSettings, columns: Columns, iou_type: str) -> None:
        self.settings, self.columns, self.iou_type = settings, columns, iou_type
        self.crowd = columns["ground_truth_iscrowd"].bool()
        given = segments.as_float64(columns["ground_truth_area"])
        if settings.area_as_given:
            masks_have = iou_type == "segm"
            self.detection_area = columns["detection_area"] if masks_have else self._area("detection", iou_type)
            self.truth_area = given
            return
        self.detection_area = self._area("detection", iou_type)
        # as in COCO's files, the area of a ground truth is that of its mask where there is one
        kind = "segm" if "segm" in settings.iou_types else iou_type
        self.truth_area = torch.where(given > 0, given, self._area("ground_truth", kind))

    def _area(self, side: str, kind: str) -> Tensor:
        if kind == "segm":
            return segments.as_float64(
                masks.area(self.columns[f"{side}_mask_edges"], self.columns[f"{side}_edges_per_mask"])
            )
        if kind == "bbox" and self.settings.own_iou is None:
            return boxes.area(boxes.to_xywh(self.columns[f"{side}_boxes"], self.settings.box_format))
        return segments.as_float64(self.columns[f"{side}_area"])

    def pair_iou(self, rows: Tensor, truths: Tensor) -> boxes.PairIoU:
        """IoU of pairs of ``rows`` of the detections and ``truths`` of the ground truths."""
        columns, crowd = self.columns, self.crowd[truths]
        if self.iou_type == "segm":
            height = columns["image_sizes"][image_of(columns["ground_truths_per_image"])][:, 0].clamp(min=1)
            sides = [
                masks.take(columns[f"{side}_mask_edges"], columns[f"{side}_edges_per_mask"], places)
                for side, places in (("detection", rows), ("ground_truth", truths))
            ]
            return masks.coco_pairs(sides[0], sides[1], crowd, height[truths])
        if self.iou_type == "precomputed":
            return _looked_up(columns, rows, truths)
        own = self.settings.own_iou
        if own is not None:
            return _asked(own, columns["detection_boxes"][rows], columns["ground_truth_boxes"][truths], crowd)
        to_xywh = boxes.to_xywh
        return boxes.coco_pairs(
            to_xywh(columns["detection_boxes"].index_select(0, rows), self.settings.box_format),
            to_xywh(columns["ground_truth_boxes"][truths], self.settings.box_format),
            crowd,
        )


def _looked_up(columns: Columns, rows: Tensor, truths: Tensor) -> boxes.PairIoU:
    """IoUs from the matrices given, one per image."""
    counts = [columns[f"{side}s_per_image"] for side in ("detection", "ground_truth")]
    image = image_of(counts[0])[rows]
    start = [segments.from_counts(x) for x in (*counts, counts[0] * counts[1])]
    row = start[2][image] + (rows - start[0][image]) * counts[1][image] - start[1][image]

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        return _reaching(d, g, segments.as_float64(columns["pair_ious"][row[d] + truths[g]]), least)

    return overlapping


def _asked(own: OwnIoU, one: Tensor, two: Tensor, crowd: Tensor) -> boxes.PairIoU:
    """IoUs from a function of pairs."""

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        value = own(one[d], two[g], crowd[g])
        if not isinstance(value, Tensor) or value.shape != d.shape:
            got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            refuse("iou", f"must return a tensor of shape ({len(d)},) for {len(d)} pairs", Plain(got))
        return _reaching(d, g, segments.as_float64(value), least)

    return overlapping


def _reaching(d: Tensor, g: Tensor, value: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
    kept = (value >= least).nonzero().squeeze(1)
    return d[kept], g[kept], value[kept]
