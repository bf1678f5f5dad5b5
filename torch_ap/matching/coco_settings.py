"""Which of COCO's numbers are meant: thresholds, recall levels, detection limits, area ranges."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.inputs.detections import Columns, DetectionInputs, Kind
from torch_ap.matching import assignment
from torch_ap.matching.geometries import AreaRanges, OwnIoU, geometry_of
from torch_ap.matching.shape_settings import ShapeSettings, shape_settings_of
from torch_ap.matching.stored import StoredMatches
from torch_ap.ranking import segments
from torch_ap.rules import checks
from torch_ap.rules.options import Sigmas
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

Classes: TypeAlias = tuple[
    Tensor, Tensor, Tensor
]  # labels, and the place among them of each detection and ground truth

_THRESHOLDS = tuple(np.linspace(0.5, 0.95, 10).tolist())
_LEVELS = tuple(np.linspace(0, 1, 101).tolist())


@dataclass(frozen=True, eq=False, kw_only=True)
class CocoSettings(ShapeSettings):
    """All settings of one COCO mean average precision.

    Attributes:
        thresholds: T IoU thresholds.
        levels: R recall levels.
        limits: M numbers of detections of a category and image that count, ascending.
        areas: names and bounds of the A area ranges, the one of the overall numbers first.
        average: "macro" or "micro".
        area_as_given: whether ``area`` is required and taken as it is, an area of 0 or less too.
    """

    thresholds: tuple[float, ...]
    levels: tuple[float, ...]
    limits: tuple[int, ...]
    areas: AreaRanges
    average: str = "macro"
    area_as_given: bool = False

    def _form(self) -> StoredMatches:
        return StoredMatches(
            self.thresholds,
            tuple(self.areas.values()),
            self.limits[-1],
            f"{self._shapes_text}|{self.area_as_given}",
            micro=self.average == "micro",
        )

    data_set: ClassVar[str] = "COCO"
    by_levels: ClassVar[bool] = True  # whether means are over all levels at once, in COCO's order, to the last bit

    @cached_property
    def inputs(self) -> DetectionInputs:
        """How images come in."""
        return DetectionInputs(**self._images())

    def _images(self) -> dict[str, Any]:
        """What images hold. Where the geometry is not ours, or theirs are asked for, detections bring areas too."""
        given = any(one.area is None or (self.area_as_given and one.file_areas) for one in self.geometries)
        return {
            "rows": self.rows,
            "masks": any(one.masks for one in self.geometries),
            "pairs": any(one.pairs for one in self.geometries),
            "of_detections": ("area",) if given else (),
            "similarity": self.own_similarity,
            "check_values": self.check_values,
            "areas_required": self.area_as_given,
        }

    @property
    def most(self) -> str:
        """How many detections count, in words."""
        return f"{self.limits[-1]} detections per image and class"

    @property
    def groups(self) -> Mapping[str, Tensor]:
        """The labels of groups of classes whose mean is given beside that of all."""
        return {}

    def objects(self, columns: Columns, iou_type: Kind, classes: "Classes") -> "Objects":  # noqa: ARG002
        """What the rules ask of the shapes of all images."""
        return Objects(self, columns, iou_type)

    @property
    def recall_at(self) -> tuple[float, ...]:
        """IoU thresholds whose recall is given beside the mean over all."""
        return self.geometries[0].recall_at

    def criteria(self, device: torch.device) -> assignment.Criteria:
        """Thresholds and area ranges of matching, on a device."""
        return assignment.criteria_of(self.thresholds, len(self.areas), device)

    def inside(self, area: Tensor) -> Tensor:
        """(A, X) bool, which areas lie in each range, its ends included."""
        bounds, each = native(segments.constants(tuple(self.areas.values()), area.device)), native(area)
        return arrays.tensor((each >= bounds[:, :1]) & (each <= bounds[:, 1:]))


def thresholds_of(given: Any) -> tuple[float, ...]:
    """The IoU thresholds: those given, or COCO's ten, exactly as NumPy makes them in float64."""
    if given is None:
        return _THRESHOLDS
    checks.numbers_in("iou_thresholds", given, low=0, high=1)
    return tuple(float(x) for x in given)


def levels_of(given: Any) -> tuple[float, ...]:
    """The recall levels: those given, or COCO's 101."""
    if given is None:
        return _LEVELS
    checks.numbers_in("rec_thresholds", given, low=0, high=1)
    return tuple(float(x) for x in given)


def default_settings(iou_type: Kind | tuple[Kind, ...]) -> CocoSettings:
    """COCO's own settings."""
    first = iou_type[0] if isinstance(iou_type, tuple) else iou_type
    return settings_of(
        box_format=geometry_of(first).formats[0],
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
    iou_type: Kind | tuple[Kind, ...],
    iou_thresholds: list[float] | None,
    rec_thresholds: list[float] | None,
    max_detection_thresholds: list[int] | None,
    average: str,
    area_ranges: AreaRanges | None,
    iou: OwnIoU | None,
    box_width: int = 4,
    validate_args: bool = True,
    area_as_given: bool = False,
    sigmas: Sigmas = None,
    match: str = "compute",
) -> CocoSettings:
    """Settings as given, checked, as a record."""
    checks.one_of("average", average, ("macro", "micro"))
    checks.boolean("area_as_given", area_as_given)
    settings = shape_settings_of(
        iou_type=iou_type,
        box_format=box_format,
        iou=iou,
        box_width=box_width,
        sigmas=sigmas,
        validate_args=validate_args,
        match=match,
    )
    usual = next((one for one in settings.geometries if one.area is None), settings.geometries[0])
    limits = usual.limits if max_detection_thresholds is None else max_detection_thresholds
    limits = checks.positive_ints("max_detection_thresholds", limits)
    areas = usual.area_ranges
    if area_ranges is not None:
        checks.ranges("area_ranges", area_ranges)
        areas = {"all": areas["all"]} | {name: (float(low), float(high)) for name, (low, high) in area_ranges.items()}
    return CocoSettings(
        **vars(settings),
        thresholds=thresholds_of(iou_thresholds),
        levels=levels_of(rec_thresholds),
        limits=tuple(sorted(limits)),
        areas=areas,
        average=average,
        area_as_given=area_as_given,
    )


class Objects:
    """What COCO's rules ask of one kind of shape in all images.

    Attributes:
        crowd: (G,) bool.
        ignored: (G,) bool, crowds and others that count in no area range.
        detection_area, truth_area: (D,) and (G,) float64.
        rows: int64 rows of the detections and of the ground truths that take part; None for all.
        forgiven: (D,) bool, the detections that count nowhere if they are unmatched; None for none.
    """

    rows: tuple[Tensor, Tensor] | None = None
    forgiven: Tensor | None = None

    def __init__(self, settings: CocoSettings, columns: Columns, iou_type: Kind) -> None:
        self._of = settings, columns, iou_type
        self.crowd = self.ignored = columns["ground_truth_iscrowd"].bool()
        others = settings.ignored(columns, iou_type)
        if others is not None:
            self.ignored = self.crowd | others

    @cached_property
    def detection_area(self) -> Tensor:
        """When it is first asked for: areas of masks come with their similarity."""
        settings, columns, iou_type = self._of
        from_files = settings.area_as_given and settings.geometry(iou_type).file_areas
        return columns["detection_area"] if from_files else settings.area(columns, iou_type, "detection")

    @cached_property
    def truth_area(self) -> Tensor:
        """Likewise."""
        settings, columns, iou_type = self._of
        area = segments.as_float64(columns["ground_truth_area"])
        if settings.area_as_given or "area" in settings.inputs.rows_of("ground_truth"):
            return area
        # as in COCO's files, the area of a ground truth is that of its mask where there is one
        kind = next((kind for kind in settings.iou_types if settings.geometry(kind).masks), iou_type)
        given, shapes = native(area), native(settings.area(columns, kind, "ground_truth"))
        return arrays.tensor(arrays.namespace(given).where(given > 0, given, shapes))
