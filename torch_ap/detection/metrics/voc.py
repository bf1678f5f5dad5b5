"""PASCAL VOC's mean average precision as a metric; ``torch_ap.functional`` has the function of this name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

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
from torch_ap.core.metric.samples import SampleIds
from torch_ap.curves.record import Curve
from torch_ap.detection.curves import curves_of_voc
from torch_ap.detection.inputs.images import Columns, Images, Kind, OwnSimilarity
from torch_ap.detection.matching.matched import Matches, Shares
from torch_ap.detection.metrics import diagnosis, suspicious
from torch_ap.detection.metrics.base import DetectionMetric
from torch_ap.detection.metrics.images import ClassMatches, ValuesIn
from torch_ap.detection.rules.ultralytics import settings_by_convention
from torch_ap.detection.rules.voc import VocSettings


class VocMetric(DetectionMetric):
    """Abstract: mean AP over classes and thresholds for one kind of shape, by VOC's rule or another."""

    _argument_names = MappingProxyType(
        {"iou_types": "iou_type", "thresholds": "iou_thresholds", "check_values": "validate_args"}
    )
    if TYPE_CHECKING:  # torch.jit evaluates the annotations of every class
        _settings: VocSettings

    def __init__(
        self, settings: VocSettings, class_metrics: bool, class_names: ClassNames, diagnose: bool, **kwargs: Any
    ) -> None:
        checks.boolean("class_metrics", class_metrics)
        check_names(class_names)
        super().__init__(settings, diagnose=diagnose, **kwargs)
        self.interpolation, self.class_metrics, self.class_names = settings.interpolation, class_metrics, class_names

    def compute(self) -> dict[str, Tensor]:
        """Return ``map`` of the images so far, and the optional numbers."""
        columns = self._columns()
        numbers = self._settings.report(
            columns,
            self._dtype_of_result(columns["detection_scores"].dtype),
            several=self._several,
            class_metrics=self.class_metrics,
            shares=self._shares,
            matched=self._matched_here,
        )
        self._warn_of_low_value(columns, numbers)
        return numbers

    def _matched(self, columns: Columns, iou_type: str | None, per_class: bool = False) -> ClassMatches:
        del per_class  # classes are always separate
        self._check_iou_type(iou_type)
        labels, matches = self._matched_here(columns)
        return ClassMatches(matches, self._settings.levels(columns["detection_scores"].device), labels)

    def _match_batch(
        self, columns: Columns, iou_type: Kind | None = None, *, per_class: bool = False
    ) -> tuple[Tensor, Matches]:
        del iou_type, per_class  # there is one kind, and classes are always separate
        return self._settings.matching(columns)

    def _matched_here(self, columns: Columns, shares: Shares | None = None) -> tuple[Tensor, Matches]:
        """Return the matches of images, which are cached until the state changes."""

        def match() -> tuple[Tensor, Matches]:
            return self._settings.matching(columns, shares)

        return self._once(match) if shares is None else match()

    @property
    def _several(self) -> bool:
        return not isinstance(getattr(self, f"{self._threshold_name}s"), int | float)

    def _values_in(self, columns: Columns, iou_type: str | None) -> ValuesIn:
        self._check_iou_type(iou_type)
        labels, matches = self._matched_here(columns)

        def values(kept: Tensor) -> tuple[Matches, dict[str, Tensor]]:
            here, size = matches.select_slices(kept), len(kept)
            each = self._settings.average_precision(here.curve(0)).view(len(self._settings.thresholds), size, -1)
            curves = self._settings.score_curves(here)
            parts = [None] * size if curves is None else curves.reshape(2, size, len(labels), -1).unbind(1)
            how = {"several": self._several, "class_metrics": self.class_metrics}
            rows = [
                self._settings.values(x.contiguous(), len(labels), **how, curves=part)
                for x, part in zip(each.unbind(1), parts, strict=True)
            ]
            return here, {name: torch.stack([row[name] for row in rows]) for name in rows[0]}

        return values

    def curve(self, iou_threshold: float | None = None, class_names: ClassNames = None) -> list[Curve]:
        """Return the curve of each class at one IoU threshold: counts at each score, and the AP.

        Args:
            iou_threshold: one of the IoU thresholds; default 0.5, or the lowest without it.
            class_names: names of the labels, as for the class; default the names of the metric.

        Returns:
            (K,) :class:`torch_ap.curves.Curve`, in the order of ``classes``. Items are detections, each its own
            threshold as in the devkit, without detections of difficult objects. Positives are ground truths.

        Raises:
            ValueError: for a threshold that the metric does not have, and for invalid names.
        """
        place = self._threshold_index(iou_threshold)
        check_names(class_names)
        with self._all_ranks():
            matches = self._matched_here(self._columns())
        return curves_of_voc(self._settings, matches, place, self.class_names if class_names is None else class_names)

    @property
    def _class_names(self) -> ClassNames:
        names: ClassNames = self.class_names
        return names

    def _class_values(self, columns: Columns, iou_type: str | None) -> tuple[Matches, Tensor, dict[str, Tensor]]:
        self._check_iou_type(iou_type)
        labels, matches = self._matched_here(columns)
        return matches, labels, {"ap": self._settings.average_precision(matches.curve(0)).mean(0)}


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

    _shown_arguments = ("box_format", "iou_thresholds", "interpolation")

    errors = diagnosis.errors
    detections_table = diagnosis.detections_table
    lrp = diagnosis.lrp
    suspicious_labels = suspicious.suspicious_labels

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

    def update(self, preds: Images, target: Images, sample_ids: SampleIds = None, groups: SampleIds = None) -> None:
        """Add images; see :meth:`torch_ap.MeanAveragePrecision.update`. ``target`` may have ``difficult``.

        With a ``convention`` it may have ``iscrowd`` too.

        Raises:
            ValueError: for invalid input, with image and key; the state does not change.
        """
        self._add(*self._inputs.validate(preds, target), sample_ids, groups)

    @property
    def _usual_settings(self) -> Mapping[str, Any]:
        return {"sigmas": VocSettings.sigmas}

    def _shown_settings(self) -> dict[str, Any]:
        shown = super()._shown_settings()
        if self.convention is None:
            return shown
        determined = ("interpolation", "inclusive_pixels", "strict")
        return {name: x for name, x in shown.items() if name not in determined} | {"convention": self.convention}
