"""Settings of an evaluation with the names of ``pycocotools.cocoeval.Params``."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.detection.matching.shapes import COCO_AREAS, geometry_of
from torch_ap.detection.rules.coco_numbers import CocoSettings
from torch_ap.detection.shapes.keypoints import SIGMAS

__all__ = ["KINDS", "Params", "check_area_names", "settings_of_params"]

Settings = TypeVar("Settings", bound=CocoSettings)
KINDS = ("segm", "bbox", "keypoints", "boundary")


class Params:
    """Settings of an evaluation; every attribute can be replaced or changed.

    Args:
        iouType: "segm", "bbox", "keypoints" or "boundary".

    Attributes:
        imgIds: ids of the evaluated images.
        catIds: ids of the evaluated categories.
        iouThrs: IoU thresholds.
        recThrs: recall levels, ascending.
        maxDets: limits of the detections of a category and image.
        areaRng: lowest and highest area of each range, inclusive.
        areaRngLbl: names of the area ranges.
        useCats: whether categories are evaluated separately; 0 for all objects as one category.
        kpt_oks_sigmas: the sigma of each keypoint.
    """

    def __init__(self, iouType: str = "segm") -> None:
        checks.one_of("iouType", iouType, KINDS)
        geometry = geometry_of(iouType)
        self.iouType = iouType
        self.imgIds: Any = []
        self.catIds: Any = []
        self.iouThrs: Any = np.linspace(0.5, 0.95, 10)
        self.recThrs: Any = np.linspace(0.0, 1.0, 101)
        self.maxDets: Any = list(geometry.limits)
        self.areaRngLbl: Any = list(geometry.area_ranges)
        self.areaRng: Any = [list(COCO_AREAS[name]) for name in self.areaRngLbl]
        self.useCats: Any = 1
        self.useSegm: Any = None  # deprecated in pycocotools
        if iouType == "keypoints":
            self.kpt_oks_sigmas: Any = np.array(SIGMAS)


def check_area_names(params: Any, name: str = "areaRngLbl") -> None:
    """Raise ValueError unless each area range has a name; ``name`` is the name of the parameter in the message."""
    if len(params.areaRng) != len(params.areaRngLbl):
        rule = f"must name each of the {len(params.areaRng)} area ranges"
        raise_invalid(f"params.{name}", rule, params.areaRngLbl)


def settings_of_params(
    make: Callable[..., Settings], params: Any, names: tuple[str, str, str] = ("iouThrs", "recThrs", "areaRngLbl")
) -> Settings:
    """Validate parameters with the names of :class:`Params`, and return the settings.

    Args:
        make: returns the settings from the arguments that all rules share.
        params: the parameters.
        names: the names of the IoU thresholds, recall levels and names of area ranges in messages.
    """
    check_area_names(params, names[2])
    thresholds, levels = ([float(x) for x in values] for values in (params.iouThrs, params.recThrs))
    for name, values in zip(names[:2], (thresholds, levels), strict=True):
        checks.numbers_in(f"params.{name}", values, low=0, high=1, optional=False)
    settings = make(
        box_format="xywh",
        iou_type=params.iouType,
        iou_thresholds=thresholds,
        rec_thresholds=levels,
        average="macro" if params.useCats else "micro",
        use_given_area=True,
    )
    areas = {str(place): (float(low), float(high)) for place, (low, high) in enumerate(params.areaRng)}
    return replace(settings, areas=areas)
