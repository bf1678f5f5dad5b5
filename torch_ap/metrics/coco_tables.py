"""What the metrics by COCO's rules say beside their numbers: tables of classes and of thresholds, curves."""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from torch_ap.functional.curve_record import Curve
from torch_ap.functional.detection_curves import curves_of_coco
from torch_ap.inputs.detections import Columns, Kind
from torch_ap.matching import coco
from torch_ap.matching.coco import Report, per_class
from torch_ap.matching.coco_numbers import CocoNumbers
from torch_ap.matching.coco_settings import CocoSettings, default_settings
from torch_ap.matching.matched import Matches, Shares
from torch_ap.metrics import representation
from torch_ap.metrics.cuts import OfClasses
from torch_ap.metrics.image_slices import ValuesIn
from torch_ap.metrics.images import DetectionMetric
from torch_ap.rules import checks
from torch_ap.rules.class_names import ClassNames, check_names


class CocoTables(DetectionMetric):
    """Abstract: a metric whose detections are matched, counted and averaged by COCO's rules."""

    iou_type: tuple[Kind, ...]
    iou_thresholds: list[float]
    rec_thresholds: list[float]

    _settings: CocoSettings
    _report: Report

    def compute(self) -> dict[str, Any]:
        """All numbers of the images so far, by torchmetrics' names."""
        columns = self._columns()
        dtype = self._dtype_of_result(columns["detection_scores"].dtype)
        found = self._report(self._settings, columns, dtype, self._shares, self._matched_here)
        self._remark(columns, found)
        return found

    def per_threshold(self, iou_type: str | None = None) -> dict[str, Tensor]:
        """A table with one row per IoU threshold: AP in each area range, at the last detection limit.

        Args:
            iou_type: which one, where there are several; default the first.

        Returns:
            Columns of one length: ``iou_threshold``, and one by the name of each area range, "all" first: float64, the
            mean over classes, -1 without ground truths. Their means are ``map``, ``map_small`` and so on of
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
        """The curve of each class at one IoU threshold: what each score retrieves, and the AP there.

        Args:
            iou_threshold: one of the IoU thresholds; default 0.5, or the lowest without it.
            area: name of an area range.
            max_detections: one of the detection limits; default the last.
            iou_type: which one, where there are several; default the first.
            class_names: names of the labels, as for the class, whose own are the default.

        Returns:
            (K,) :class:`torch_ap.functional.Curve`, in the order of ``classes``, whatever ``average`` is. Items are
            detections, taken one by one as COCO takes them, and positives the ground truths, of which ``m`` counts
            those never found too. AP is NaN without ground truths.

        Raises:
            ValueError: for a threshold, area or limit that the metric does not have, and for names that do not fit.

        Example:
            >>> import torch
            >>> from torch_ap import MeanAveragePrecision
            >>> metric = MeanAveragePrecision()
            >>> box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
            >>> for score, shift in ((0.9, 0), (0.8, 30), (0.7, 2)):
            ...     found = {"boxes": box + shift, "scores": torch.tensor([score]), "labels": label}
            ...     metric.update([found], [{"boxes": box, "labels": label}])
            >>> metric.curve(0.75, class_names=["cat"])[0].recall
            tensor([0.3333, 0.3333, 0.6667], dtype=torch.float64)
        """
        settings = self._settings
        checks.one_of("area", area, list(settings.areas))
        limit = len(settings.limits) - 1
        if max_detections is not None:
            limit = checks.place_among("max_detections", max_detections, settings.limits)
        place = self._place(iou_threshold)
        check_names(class_names)
        with self._all_ranks():
            numbers = self._numbers(self._columns(), iou_type)
        names = self._report.class_names if class_names is None else class_names
        return curves_of_coco(numbers, area, limit, place, names)

    def _text_of(self, always: Collection[str], **further: Any) -> str:
        """``repr``'s settings: those that differ from their defaults, and those that are always shown.

        Args:
            always: names of these.
            further: settings of the class by name, None for the usual value.
        """
        settings, usual = self._settings, default_settings(self.iou_type)
        given: dict[str, Any] = {
            "iou_thresholds": None if settings.thresholds == usual.thresholds else self.iou_thresholds,
            "rec_thresholds": None if settings.levels == usual.levels else self.rec_thresholds,
            "area_ranges": None if settings.areas == usual.areas else settings.areas,
            "iou_type": self.iou_type[0] if len(self.iou_type) == 1 else self.iou_type,
            "class_names": self._report.class_names,
            "area_as_given": settings.area_as_given,
            "match": settings.match,
            "validate_args": settings.check_values,
            **further,
        }
        return representation.settings_text(
            representation.defaults_of(type(self)),
            lambda name: given[name] if name in given else getattr(self, name),
            always,
        )

    def _class_table(self, place: int, score: float, iou_type: str | None) -> dict[str, Any]:
        return per_class(self._numbers(self._columns(), iou_type), self._report.class_names, place, score)

    @property
    def _class_names(self) -> ClassNames:
        return self._report.class_names

    def _matched(self, columns: Columns, iou_type: str | None, per_class: bool = False) -> OfClasses:
        numbers = self._numbers(columns, iou_type, micro=self._settings.average == "micro" and not per_class)
        return OfClasses(numbers.matches, numbers.levels, numbers.labels)

    def _numbers(self, columns: Columns, iou_type: str | None, *, micro: bool = False) -> CocoNumbers:
        self._check_iou_type(iou_type)
        if self._settings.stored is not None and self._settings.stored.micro and not micro:
            raise ValueError("`match='update'` with `average='micro'` knows no classes; give `match='compute'`")
        return self._matched_here(columns, iou_type or self._settings.iou_types[0], micro=micro)

    def _values_in(self, columns: Columns, iou_type: str | None) -> ValuesIn:
        micro, by_class = self._settings.average == "micro", self._report.class_metrics
        numbers = self._numbers(columns, iou_type, micro=micro)
        each = self._numbers(columns, iou_type) if micro and by_class else numbers

        def values(kept: Tensor) -> tuple[Matches, dict[str, Tensor]]:
            here = numbers.of_slices(kept)
            found = here.summary()
            if by_class:
                found |= self._report.of_classes(each.of_slices(kept) if micro else here, torch.float64)
            return here.matches, found

        return values

    def _match_batch(self, columns: Columns) -> tuple[Tensor, Matches]:
        settings = self._settings
        numbers = coco.match(settings, columns, settings.iou_types[0], micro=settings.average == "micro")
        return numbers.labels, numbers.matches

    def _matched_here(
        self, columns: Columns, kind: Kind, *, micro: bool = False, shares: Shares | None = None
    ) -> CocoNumbers:
        """What matching finds, once for all that is asked of the same state."""

        def made() -> CocoNumbers:
            return coco.match(self._settings, columns, kind, micro=micro, shares=shares)

        return self._once(made, kind, micro) if shares is None else made()
