"""The table of a detection metric's classes, with an interval of the AP of each where that is asked for."""

from typing import Any

from torch import Generator

from torch_ap.metrics.diagnosis import DiagnosedImages
from torch_ap.rules import checks


class ClassTables(DiagnosedImages):
    """Abstract: a metric whose state is images, and whose classes are apart."""

    def per_class(
        self,
        iou_threshold: float | None = None,
        score_threshold: float = float("-inf"),
        iou_type: str | None = None,
        *,
        interval: bool = False,
        confidence_level: float = 0.95,
        n_resamples: int = 1000,
        generator: Generator | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> dict[str, Any]:
        """A table with one row per class.

        Args:
            iou_threshold: one of the IoU thresholds, at which ``tp`` and ``fp`` are counted; default 0.5, or the lowest
                without it.
            score_threshold: the lowest score that counts there.
            iou_type: which one, where there are several; default the first.
            interval: whether the ends of an interval of each AP are given too, those of
                ``confidence_interval(per_class=True)``.
            confidence_level, n_resamples, generator, batch, progress: of these intervals, as there.

        Returns:
            Columns of one length, in the order of ``classes``: ``class``; ``name``, the label where it has none;
            ``ap``, float64, over all IoU thresholds; ``ground_truths``, those that count; ``detections``; ``tp`` and
            ``fp``. By COCO's and LVIS's rules also ``ap_50``, ``ap_75`` and ``ar``, all of them -1 without ground
            truths; by other rules ``ap`` is NaN there. With ``interval`` also ``ap_low`` and ``ap_high``, NaN there.

        Raises:
            TypeError, ValueError: for a threshold that the metric does not have, and what else breaks one of these
                rules.

        Example:
            >>> import torch
            >>> from torch_ap import VOCMeanAveragePrecision
            >>> metric = VOCMeanAveragePrecision(class_names=["cat", "dog"])
            >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
            >>> found = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}
            >>> metric.update([found], [{"boxes": boxes[:1], "labels": torch.tensor([0])}])
            >>> table = metric.per_class(score_threshold=0.5)
            >>> table["name"], table["ap"], table["tp"], table["fp"]
            (['cat'], tensor([1.], dtype=torch.float64), tensor([1]), tensor([1]))
        """
        place, score = self._place(iou_threshold), checks.number("score_threshold", score_threshold)
        checks.boolean("interval", interval)
        with self._all_ranks():
            table = self._class_table(place, score, iou_type)
        if not interval:
            return table
        ends = self.confidence_interval(
            confidence_level,
            iou_type=iou_type,
            per_class=True,
            n_resamples=n_resamples,
            generator=generator,
            batch=batch,
            progress=progress,
        )
        return table | {"ap_low": ends.low, "ap_high": ends.high}

    def _class_table(self, place: int, score: float, iou_type: str | None) -> dict[str, Any]:
        """The same without intervals, of the images as they are now; for concrete classes.

        Args:
            place: of the IoU threshold.
            score: the lowest that counts.
            iou_type: as of :meth:`per_class`.
        """
        raise NotImplementedError
