"""Analyses of mean AP over classes and thresholds by VOC's rule, or by a similar one, without torchmetrics."""

from types import MappingProxyType
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from torch_ap.core.base.class_names import ClassNames, check_names
from torch_ap.core.base.untraced import disable_tracing_of_methods
from torch_ap.curves.record import Curve
from torch_ap.detection.curves import curves_of_voc
from torch_ap.detection.inputs.images import Columns, Kind
from torch_ap.detection.matching.matched import Matches, Shares
from torch_ap.detection.metrics import diagnosis, suspicious
from torch_ap.detection.metrics.analyses import DetectionAnalyses, EvaluatedImages
from torch_ap.detection.metrics.matched_images import ClassMatches, ValuesIn
from torch_ap.detection.rules.voc import VocSettings


class VocAnalyses(DetectionAnalyses):
    """Abstract: analyses of mean AP for one kind of shape."""

    _argument_names = MappingProxyType(
        {"iou_types": "iou_type", "thresholds": "iou_thresholds", "check_values": "validate_args"}
    )
    if TYPE_CHECKING:  # torch.jit evaluates the annotations of every class
        _settings: VocSettings
        class_metrics: bool
        class_names: ClassNames

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

    def _matched(
        self, columns: Columns, iou_type: str | None, per_class: bool = False, least_score: float | None = None
    ) -> ClassMatches:
        del per_class, least_score  # classes are always separate, and all detections are matched
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
        """Whether the numbers contain the mean at each threshold."""
        raise NotImplementedError

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
            threshold as in the devkit, without detections of difficult objects. Positives are ground truths. With
            ``groups`` of images, the intervals of ``operating_point()`` use them; without groups, they take detections
            as independent.

        Raises:
            ValueError: for a threshold that the metric does not have, and for invalid names.
        """
        place = self._threshold_index(iou_threshold)
        check_names(class_names)
        with self._all_ranks():
            matches, groups = self._matched_here(self._columns()), self._image_groups()
        names = self.class_names if class_names is None else class_names
        return curves_of_voc(self._settings, matches, place, names, groups)

    @property
    def _class_names(self) -> ClassNames:
        names: ClassNames = self.class_names
        return names

    def _class_values(self, columns: Columns, iou_type: str | None) -> tuple[Matches, Tensor, dict[str, Tensor]]:
        self._check_iou_type(iou_type)
        labels, matches = self._matched_here(columns)
        return matches, labels, {"ap": self._settings.average_precision(matches.curve(0)).mean(0)}


class VocEvaluation(VocAnalyses, EvaluatedImages):
    """Images evaluated by the rule of ``settings``, with the AP of each class.

    Args:
        settings: settings of the value; with several thresholds the numbers contain the mean at each.
        preds, target: images, as for :class:`torch_ap.VOCMeanAveragePrecision`.
        groups: (B,) integers, the group of each image, or None.
        source: repr of a metric with the same settings.
    """

    errors = diagnosis.errors
    detections_table = diagnosis.detections_table
    lrp = diagnosis.lrp
    suspicious_labels = suspicious.suspicious_labels

    class_metrics, class_names = True, None

    @property
    def _several(self) -> bool:
        return len(self._settings.thresholds) > 1


disable_tracing_of_methods(VocAnalyses, but=("compute",))
