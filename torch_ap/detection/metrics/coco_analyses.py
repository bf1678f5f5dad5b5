"""Analyses by COCO's rules of matching, counting and averaging, without torchmetrics."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks
from torch_ap.core.base.arrays import native
from torch_ap.core.base.class_names import ClassNames, check_names
from torch_ap.core.base.untraced import disable_tracing_of_methods
from torch_ap.core.ranking import segments
from torch_ap.curves.record import Curve
from torch_ap.detection.curves import curves_of_coco
from torch_ap.detection.inputs.images import Columns, Kind
from torch_ap.detection.matching.matched import Matches, Shares
from torch_ap.detection.metrics import diagnosis, suspicious
from torch_ap.detection.metrics.analyses import DetectionAnalyses, EvaluatedImages
from torch_ap.detection.metrics.matched_images import ClassMatches, ValuesIn
from torch_ap.detection.rules import coco
from torch_ap.detection.rules.coco import Report
from torch_ap.detection.rules.coco_numbers import CocoNumbers, CocoSettings

_LEAST_GAIN = 2  # detections per kept detection; below, the matches of all are cached, which other analyses need too


class CocoAnalyses(DetectionAnalyses):
    """Abstract: analyses of detections that are matched, counted and averaged by COCO's rules."""

    errors = diagnosis.errors
    detections_table = diagnosis.detections_table
    lrp = diagnosis.lrp
    suspicious_labels = suspicious.suspicious_labels

    if TYPE_CHECKING:  # torch.jit evaluates the annotations of every class
        _settings: CocoSettings
        _report: Report

    def compute(self) -> dict[str, Any]:
        """Return all numbers of the images so far, by torchmetrics' names."""
        columns = self._columns()
        dtype = self._dtype_of_result(columns["detection_scores"].dtype)
        numbers = self._report(self._settings, columns, dtype, self._shares, self._matched_here)
        self._warn_of_low_value(columns, numbers)
        return numbers

    def per_threshold(self, iou_type: str | None = None) -> dict[str, Tensor]:
        """Return a table with one row per IoU threshold: AP in each area range, at the last detection limit.

        Args:
            iou_type: one of several ``iou_type``; default the first.

        Returns:
            Columns of one length: ``iou_threshold``, and one column per area range, "all" first: float64, the mean over
            classes, -1 without ground truths. Their means are ``map``, ``map_small`` and so on of
            ``compute()``.
        """
        thresholds = self._settings.thresholds
        with self._all_ranks():
            numbers = self._numbers(self._columns(), iou_type, micro=self._settings.average == "micro")
        columns = {
            name: torch.stack([numbers.mean_precision(area, threshold) for threshold in thresholds])
            for area, name in enumerate(self._settings.areas)
        }
        return {"iou_threshold": torch.tensor(thresholds, dtype=torch.float64), **columns}

    def curve(
        self,
        iou_threshold: float | None = None,
        area: str = "all",
        max_detections: int | None = None,
        iou_type: str | None = None,
        class_names: ClassNames = None,
    ) -> list[Curve]:
        """Return the curve of each class at one IoU threshold: counts at each score, and the AP.

        Args:
            iou_threshold: one of the IoU thresholds; default 0.5, or the lowest without it.
            area: name of an area range.
            max_detections: one of the detection limits; default the last.
            iou_type: one of several ``iou_type``; default the first.
            class_names: names of the labels, as for the class; default the names of the metric.

        Returns:
            (K,) :class:`torch_ap.curves.Curve`, in the order of ``classes``, whatever ``average`` is. Items are
            detections, each its own threshold as in COCO. Positives are ground truths; ``m`` also counts undetected
            ones. AP is NaN without ground truths. With ``groups`` of images, the intervals of ``operating_point()`` use
            them; without groups, they take detections as independent.

        Raises:
            ValueError: for a threshold, area or limit that the metric does not have, and for invalid names.

        Example:
            >>> import torch
            >>> from torch_ap import MeanAveragePrecision
            >>> metric = MeanAveragePrecision()
            >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
            >>> for score, shift in ((0.9, 0), (0.8, 30), (0.7, 2)):
            ...     pred = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
            ...     metric.update([pred], [{"boxes": box, "labels": label}])
            >>> metric.curve(0.75, class_names=["cat"])[0].recall
            tensor([0.3333, 0.3333, 0.6667], dtype=torch.float64)
        """
        settings = self._settings
        checks.one_of("area", area, list(settings.areas))
        limit = len(settings.limits) - 1
        if max_detections is not None:
            limit = checks.option_index("max_detections", max_detections, settings.limits)
        place = self._threshold_index(iou_threshold)
        check_names(class_names)
        with self._all_ranks():
            numbers, groups = self._numbers(self._columns(), iou_type), self._image_groups()
        names = self._report.class_names if class_names is None else class_names
        return curves_of_coco(numbers, area, limit, place, names, groups)

    def _class_values(self, columns: Columns, iou_type: str | None) -> tuple[Matches, Tensor, dict[str, Tensor]]:
        numbers = self._numbers(columns, iou_type)
        ap, ar = numbers.category_means()
        values = {"ap_50": numbers.category_precision(0.5), "ap_75": numbers.category_precision(0.75), "ar": ar}
        return numbers.matches, numbers.labels, {"ap": ap, **values}

    @property
    def _class_names(self) -> ClassNames:
        return self._report.class_names

    def _matched(
        self, columns: Columns, iou_type: str | None, per_class: bool = False, least_score: float | None = None
    ) -> ClassMatches:
        micro = self._settings.average == "micro" and not per_class
        numbers = self._numbers(columns, iou_type, micro=micro, least_score=least_score)
        return ClassMatches(numbers.matches, numbers.levels, numbers.labels)

    def _numbers(
        self, columns: Columns, iou_type: str | None, *, micro: bool = False, least_score: float | None = None
    ) -> CocoNumbers:
        self._check_iou_type(iou_type)
        if self._settings.stored is not None and self._settings.stored.micro and not micro:
            raise ValueError("`match='update'` with `average='micro'` knows no classes; give `match='compute'`")
        kind = iou_type or self._settings.iou_types[0]
        numbers = None if least_score is None else self._confident_numbers(columns, kind, least_score, micro=micro)
        return self._matched_here(columns, kind, micro=micro) if numbers is None else numbers

    def _confident_numbers(
        self, columns: Columns, kind: Kind, least_score: float, *, micro: bool
    ) -> CocoNumbers | None:
        """Return the matches of the detections with at least a score, and perhaps of further ones.

        They are cached. They are None if those of all detections are cached, or soon are: if few detections have lower
        scores, or after a request with a higher score.
        """
        name = "confident", kind, micro
        if self._is_cached(kind, micro):
            return None
        kept = None
        if not self._is_cached(*name):
            kept = native(segments.comparable(columns["detection_scores"])) >= least_score
            if _LEAST_GAIN * arrays.count(kept) > len(kept):
                return None

        def match() -> tuple[float, CocoNumbers]:
            rows = None if kept is None else arrays.tensor(kept)
            return least_score, coco.match(self._settings, columns, kind, micro=micro, kept=rows)

        least, numbers = self._once(match, *name)
        return numbers if least <= least_score else None

    def _values_in(self, columns: Columns, iou_type: str | None) -> ValuesIn:
        micro, by_class = self._settings.average == "micro", self._report.class_metrics
        numbers = self._numbers(columns, iou_type, micro=micro)
        each = self._numbers(columns, iou_type) if micro and by_class else numbers

        def values(kept: Tensor) -> tuple[Matches, dict[str, Tensor]]:
            here = numbers.slice_images(kept)
            table = here.summary()
            if by_class:
                table |= self._report.class_results(each.slice_images(kept) if micro else here, torch.float64)
            return here.matches, table

        return values

    def _match_batch(
        self, columns: Columns, iou_type: Kind | None = None, *, per_class: bool = False
    ) -> tuple[Tensor, Matches]:
        settings = self._settings
        micro = settings.average == "micro" and not per_class
        numbers = coco.match(settings, columns, iou_type or settings.iou_types[0], micro=micro)
        return numbers.labels, numbers.matches

    def _matched_here(
        self, columns: Columns, kind: Kind, *, micro: bool = False, shares: Shares | None = None
    ) -> CocoNumbers:
        """Return the matches of images, which are cached until the state changes."""

        def match() -> CocoNumbers:
            return coco.match(self._settings, columns, kind, micro=micro, shares=shares)

        return self._once(match, kind, micro) if shares is None else match()


class CocoEvaluation(CocoAnalyses, EvaluatedImages):
    """Images evaluated by COCO's rules, or with the settings of LVIS by LVIS's rules.

    Args:
        settings: settings of the value.
        preds, target: images, as for :class:`torch_ap.MeanAveragePrecision`.
        groups: (B,) integers, the group of each image, or None.
        source: repr of a metric with the same settings.
    """

    _report = Report()


disable_tracing_of_methods(CocoAnalyses, but=("compute",))
