"""PASCAL VOC's mean average precision as a metric; ``torch_ap.functional`` has the function of this name."""

from collections.abc import Mapping
from typing import Any, Literal

from torch_ap.core.base import checks
from torch_ap.core.base.class_names import ClassNames, check_names
from torch_ap.core.base.deprecated import renamed_attributes, renamed_keywords
from torch_ap.core.base.options import (
    AnyBoxFormat,
    DetectionConvention,
    IoUType,
    Sigmas,
    VOCInterpolation,
    settings_from,
)
from torch_ap.detection.inputs.images import OwnSimilarity
from torch_ap.detection.metrics import diagnosis, suspicious
from torch_ap.detection.metrics.base import DetectionMetric
from torch_ap.detection.metrics.voc_analyses import VocAnalyses
from torch_ap.detection.rules.ultralytics import settings_by_convention
from torch_ap.detection.rules.voc import VocSettings


class VocMetric(VocAnalyses, DetectionMetric):
    """Abstract: mean AP over classes and thresholds for one kind of shape, by VOC's rule or another."""

    def __init__(
        self, settings: VocSettings, class_metrics: bool, class_names: ClassNames, diagnose: bool, **kwargs: Any
    ) -> None:
        checks.boolean("class_metrics", class_metrics)
        check_names(class_names)
        super().__init__(settings, diagnose=diagnose, **kwargs)
        self.interpolation, self.class_metrics, self.class_names = settings.interpolation, class_metrics, class_names

    @property
    def _several(self) -> bool:
        return not isinstance(getattr(self, f"{self._threshold_name}s"), int | float)


@renamed_attributes(iou_threshold="iou_thresholds")
class VOCMeanAveragePrecision(VocMetric):
    """PASCAL VOC's mean AP; see :func:`torch_ap.functional.voc_mean_average_precision` for formula and arguments.

    Args:
        box_format: "xyxy", "xywh" or "cxcywh"; for rotated boxes "cxcywhr", "xywhr" or "xyxyxyxy".
        iou_thresholds: a number, or several; default 0.5, with a ``convention`` 0.5, 0.55, ..., 0.95.
        convention: "ultralytics" for the numbers of Ultralytics 8.4.190, "ultralytics-8.3" for versions up to 8.3, None
            for VOC's numbers; see the function. Its precision, recall, F1 and score are NaN if a score is outside
            [0, 1].
        interpolation: "all-points" (VOC 2010 on), "11-point" or "11-point-arange" (VOC 2007), "40-point" (KITTI), or
            "101-point".
        inclusive_pixels: whether boxes include the pixels of their corners, as in the devkit.
        strict: whether an IoU must exceed the threshold.
        class_metrics: whether to return the AP of each class too.
        class_names: names of the labels, a dict, or a list that begins with the name of label 0, for tables and curves.
        iou_type, sigmas: as for the function.
        match: "compute", or "update", as for :class:`torch_ap.MeanAveragePrecision`.
        validate_args: whether to check the values of batches.
        diagnose: whether ``compute`` warns of the likely cause of a low value, once per metric.
        kwargs: ``sync``, "gather" or "exchange" (see docs/scale.md), and arguments of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.detection import VOCMeanAveragePrecision
        >>> metric = VOCMeanAveragePrecision(interpolation="11-point")
        >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
        >>> preds = [{"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([3, 3])}]
        >>> metric.update(preds, [{"boxes": boxes[1:], "labels": torch.tensor([3])}])
        >>> metric.compute()["map"]
        tensor(0.5000)
    """

    errors = diagnosis.errors
    detections_table = diagnosis.detections_table
    lrp = diagnosis.lrp
    suspicious_labels = suspicious.suspicious_labels

    _shown_arguments = ("box_format", "iou_thresholds", "interpolation")

    @renamed_keywords(iou_threshold="iou_thresholds")
    def __init__(
        self,
        box_format: AnyBoxFormat = "xyxy",
        iou_thresholds: float | list[float] | None = None,
        *,
        convention: DetectionConvention | None = None,
        interpolation: VOCInterpolation = "all-points",
        inclusive_pixels: bool = True,
        strict: bool = False,
        class_metrics: bool = False,
        class_names: ClassNames = None,
        iou_type: IoUType | OwnSimilarity = "bbox",
        sigmas: Sigmas = None,
        match: Literal["compute", "update"] = "compute",
        validate_args: bool = True,
        diagnose: bool = True,
        **kwargs: Any,
    ) -> None:
        settings = settings_from(settings_by_convention, locals())
        super().__init__(settings, class_metrics, class_names, diagnose, **kwargs)
        if iou_thresholds is None:
            iou_thresholds = 0.5 if convention is None else list(settings.thresholds)
        self.box_format, self.iou_thresholds, self.iou_type = box_format, iou_thresholds, iou_type
        self.inclusive_pixels, self.strict, self.convention = settings.inclusive_pixels, strict, convention

    @property
    def _usual_settings(self) -> Mapping[str, Any]:
        return {"sigmas": VocSettings.sigmas}

    def _shown_settings(self) -> dict[str, Any]:
        shown = super()._shown_settings()
        if self.convention is None:
            return shown
        determined = ("interpolation", "inclusive_pixels", "strict")
        return {name: x for name, x in shown.items() if name not in determined} | {"convention": self.convention}
