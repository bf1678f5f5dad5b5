"""What each kind of error costs: TIDE's AP after it is mended, minus the AP before (Bolya et al. 2020, section 2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torch_ap.analysis import outcomes
from torch_ap.analysis.outcomes import Outcomes
from torch_ap.curve.convention import Convention
from torch_ap.inference.result import Result
from torch_ap.matching.candidate_pairs import descending
from torch_ap.ranking import hit_curve, order, segments

KINDS = (*outcomes.DETECTION_KINDS[1:6], "missed")
EVERY_KIND = (*KINDS, "false_positives", "false_negatives")


@dataclass(frozen=True, eq=False, repr=False)
class DetectionErrors(Result):
    """What a detector gets wrong at one IoU threshold, and how much AP each kind of error costs.

    Made by the method ``errors()`` of the detection metrics. A cost is the AP that the detector would gain if it made
    no errors of that kind and all others as before, so costs do not add up. A *false positive* is a detection that
    matches nothing; what is matched to a crowd, or to another ground truth that does not count, is none.

    Attributes:
        average_precision: 0-d, the mean AP of the classes that have ground truths.
        classification: 0-d, the cost of boxes in the right place under the name of another class.
        localization: 0-d, that of boxes of the right class which are too far off.
        both: 0-d, that of boxes which are off, and of another class.
        duplicate: 0-d, that of further boxes of a ground truth that is already found.
        background: 0-d, that of boxes where nothing is.
        missed: 0-d, that of ground truths that are not found, nor what a classification or localization error is about.
        false_positives: 0-d, the cost of all false positives: AP with perfect precision, minus AP.
        false_negatives: 0-d, that of all ground truths that are not found: AP with perfect recall, minus AP.
        counts: how many of each of these kinds there are; 0-d int64.
        per_class: a table with one row per class: ``class``, ``name``, ``ap``, the cost of each kind in the AP of this
            class, and as ``classification_count`` and so on how many there are. False positives are of the class that
            they are given, missed ground truths of their own. NaN where no ground truths of the class are to be found.
        iou_threshold: at which detections are matched.
        background_threshold: IoU up to which a detection is in the background.
    """

    average_precision: Tensor
    classification: Tensor
    localization: Tensor
    both: Tensor
    duplicate: Tensor
    background: Tensor
    missed: Tensor
    false_positives: Tensor
    false_negatives: Tensor
    counts: dict[str, Tensor]
    per_class: dict[str, Any] = field(repr=False)
    iou_threshold: float
    background_threshold: float


def errors_of(
    found: Outcomes, interpolation: Any, labels: Tensor, names: Sequence[str], thresholds: tuple[float, float]
) -> DetectionErrors:
    """The record.

    Args:
        found: what became of the detections.
        interpolation: of AP, an ``InterpolationRule``.
        labels: (K,) of the classes.
        names: (K,) of the classes.
        thresholds: of background and of matching.
    """
    mending = _Mending(found, Convention(interpolation=interpolation))
    before, each, counts = mending.before, mending.each(), mending.counts()
    mean = before.nanmean()
    table: dict[str, Any] = {"class": labels, "name": list(names), "ap": before}
    table |= {kind: ap - before for kind, ap in each.items()}
    table |= {f"{kind}_count": count for kind, count in counts.items()}
    return DetectionErrors(
        mean,
        **{kind: ap.nanmean() - mean for kind, ap in each.items()},
        counts={kind: count.sum() for kind, count in counts.items()},
        per_class={name: x[: len(labels)] for name, x in table.items()},
        iou_threshold=thresholds[1],
        background_threshold=thresholds[0],
    )


class _Mending:
    """The AP of each class before and after errors are mended, (K,) float64; NaN without ground truths.

    Where mending leaves a class without ground truths, its AP is 0 if it has detections and undefined if not.
    """

    def __init__(self, found: Outcomes, convention: Convention) -> None:
        self.found, self.convention = found, convention
        self.category, self.size = found.matches.ranked.category, found.matches.categories
        self.hit = found.outcome == outcomes.HIT
        self.counted = found.outcome != outcomes.IGNORED
        self.m = self._of_truths(found.valid)
        self.before = self._ap(self.hit, self.counted)

    def each(self) -> dict[str, Tensor]:
        """Of every kind, after it is mended."""
        mended, m = self.found.mended, self.m
        ap = {}
        for code in range(outcomes.CLASSIFICATION, outcomes.IGNORED):
            wrong = self.found.outcome == code
            right = wrong & mended
            moved = right if code == outcomes.CLASSIFICATION else None
            ap[outcomes.DETECTION_KINDS[code]] = self._ap(self.hit | right, self.counted & ~wrong | right, moved=moved)
        ap["missed"] = self._ap(self.hit, self.counted, m - self._of_truths(self.found.missed))
        ap["false_positives"] = self._ap(self.hit, self.hit)
        ap["false_negatives"] = self._ap(self.hit, self.counted, self._of_truths(self.found.found))
        return ap

    def counts(self) -> dict[str, Tensor]:
        """(K,) int64 of every kind: false positives by the class they are given, ground truths by their own."""
        codes = range(outcomes.CLASSIFICATION, outcomes.IGNORED)
        found = {outcomes.DETECTION_KINDS[code]: self._of_detections(self.found.outcome == code) for code in codes}
        wrong = torch.stack([*found.values()]).sum(0)
        return {
            **found,
            "missed": self._of_truths(self.found.missed),
            "false_positives": wrong,
            "false_negatives": self.m - self._of_truths(self.found.found),
        }

    def _of_detections(self, which: Tensor) -> Tensor:
        return segments.count(self.category[which], self.size)

    def _of_truths(self, which: Tensor) -> Tensor:
        return segments.count(self.found.truth_category[which], self.size)

    def _ap(self, hit: Tensor, counted: Tensor, m: Tensor | None = None, moved: Tensor | None = None) -> Tensor:
        """(K,) of the detections that count; those that have ``moved`` take the class of their ground truth."""
        category, kept = self.category, counted.nonzero().squeeze(1)
        if moved is not None and bool(moved.any()):
            category = torch.where(moved, self.found.truth_category[self.found.truth], category)
            kept = self._ranked(category, kept)
        category, hit = category[kept], hit[kept]
        edges = torch.searchsorted(category, torch.arange(self.size + 1, device=category.device))
        curve = hit_curve.from_ordered(hit, torch.ones_like(hit), edges, m=self.m if m is None else m)
        ap = self.convention(curve)
        if m is not None:
            ap = torch.where((m == 0) & (edges.diff() > 0), 0, ap)
        return torch.where(self.m > 0, ap, torch.nan)

    def _ranked(self, category: Tensor, kept: Tensor) -> Tensor:
        """Some of the detections in order of category and descending score, ties in the order of input."""
        ranked = self.found.matches.ranked
        kept = kept[torch.argsort(ranked.rows[kept])]
        keys = (category[kept] << 32).add_(descending(ranked.score[kept]))
        return kept[order.stable_argsort(keys, self.size << 32)]
