"""LVIS's mean average precision as a metric; ``torch_ap.functional`` has the function of this name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.base.deprecated import renamed_attributes, renamed_keywords
from torch_ap.core.base.options import AnyBoxFormat, IoUType, settings_from
from torch_ap.detection.matching.shapes import AreaRanges
from torch_ap.detection.metrics.coco import CocoMetric
from torch_ap.detection.rules.coco import Report
from torch_ap.detection.rules.lvis import Frequency, lvis_settings_of, usual_limit


@renamed_attributes(fixed="ap_fixed")
class LVISMeanAveragePrecision(CocoMetric):
    """LVIS's mean AP and AR; see :func:`torch_ap.functional.lvis_mean_average_precision` for formula and arguments.

    Args:
        box_format: "xyxy", "xywh" or "cxcywh".
        iou_type: "bbox", "segm" or "boundary", or several as a tuple.
        iou_thresholds, rec_thresholds: LVIS's where None.
        max_detections: limit per image, default 300; with ``ap_fixed`` per category, default 10,000.
        ap_fixed: whether to compute AP-Fixed.
        frequencies: "r", "c" or "f" of each category, for the AP of rare, common and frequent categories.
        class_metrics: whether to return AP and AR of each class too, at no cost.
        area_ranges, class_names, use_given_area: as for the function.
        match: "compute", or "update", as for :class:`torch_ap.MeanAveragePrecision`; not with ``ap_fixed``.
        validate_args: whether to check the values of batches.
        diagnose: whether ``compute`` warns of the likely cause of a low value, once per metric.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md; with ``ap_fixed`` both gather), and arguments of
            ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.detection import LVISMeanAveragePrecision
        >>> metric = LVISMeanAveragePrecision(frequencies={3: "r", 5: "c", 7: "f"})
        >>> box, nothing = torch.tensor([[10.0, 10, 50, 50]]), torch.empty(0, dtype=torch.int64)
        >>> labels = torch.tensor([3, 5, 7])
        >>> preds = [{"boxes": box.repeat(3, 1), "scores": torch.tensor([0.9, 0.8, 0.7]), "labels": labels}]
        >>> target = {"boxes": box, "labels": labels[:1], "not_exhaustive_category_ids": nothing}
        >>> metric.update(preds, [{**target, "neg_category_ids": torch.tensor([5])}])
        >>> metric.compute()["map_rare"]
        tensor(1.)
        >>> metric.per_class()["detections"]  # 7 does not count, as it was not annotated
        tensor([1, 1, 0])
    """

    _shown_arguments = ("box_format", "iou_type")
    _argument_names = MappingProxyType({**CocoMetric._argument_names, "limits": "max_detections"})

    @renamed_keywords(fixed="ap_fixed", area_as_given="use_given_area")
    def __init__(
        self,
        box_format: AnyBoxFormat = "xyxy",
        iou_type: IoUType | tuple[IoUType, ...] = "bbox",
        *,
        iou_thresholds: list[float] | None = None,
        rec_thresholds: list[float] | None = None,
        max_detections: int | None = None,
        ap_fixed: bool = False,
        frequencies: Mapping[int, Frequency] | None = None,
        class_metrics: bool = False,
        area_ranges: AreaRanges | None = None,
        class_names: ClassNames = None,
        use_given_area: bool = False,
        match: Literal["compute", "update"] = "compute",
        validate_args: bool = True,
        diagnose: bool = True,
        **kwargs: Any,
    ) -> None:
        settings = settings_from(lvis_settings_of, locals())
        report = Report(class_metrics, class_names=class_names)
        super().__init__(settings, report, diagnose=diagnose, **kwargs)
        self.max_detections, self.ap_fixed = settings.limits[0], ap_fixed

    @property
    def _can_exchange(self) -> bool:
        return not self.ap_fixed  # its limits need all images

    @property
    def _limit(self) -> int | None:
        """``max_detections``, or None for the usual limit."""
        return None if self.max_detections == usual_limit(self.ap_fixed) else self.max_detections

    def _settings_of_value(self) -> Mapping[str, Any]:
        return {**super()._settings_of_value(), "max_detections": self._limit}

    @property
    def _usual_settings(self) -> Mapping[str, Any]:
        return {**super()._usual_settings, "limits": (usual_limit(self.ap_fixed),)}
