"""What each kind of error costs: TIDE's AP after it is fixed, minus the AP before (Bolya et al. 2020, section 2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torch_ap.analysis import outcomes
from torch_ap.analysis.one_by_one import one_by_one
from torch_ap.analysis.outcomes import Outcomes
from torch_ap.curve.convention import Convention
from torch_ap.inference.result import Result
from torch_ap.matching.candidate_pairs import descending
from torch_ap.ranking import hit_curve, order, segments
from torch_ap.ranking.hit_curve import HitCurve

_KINDS = outcomes.DETECTION_KINDS[outcomes.CLASSIFICATION : outcomes.IGNORED]
_CLASSIFICATION = _KINDS[0]  # whose fixing moves detections to other classes


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
    fixes = _Fixes(found)
    counts, each = fixes.counts(), fixes.average_precision(Convention(interpolation=interpolation))
    before = each.pop("ap")
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


class _Fixes:
    """Detections and ground truths before and after errors are fixed."""

    def __init__(self, found: Outcomes) -> None:
        self.found, self.size = found, found.matches.categories
        self.category = found.matches.ranked.category
        self.ends = self._ends(self.category)
        self.hit, self.counted = found.outcome == outcomes.HIT, found.outcome != outcomes.IGNORED
        self.m = self._of_truths(found.valid)

    def average_precision(self, convention: Convention) -> dict[str, Tensor]:
        """(K,) float64 by kind of what is fixed, "ap" where nothing is; NaN for classes without ground truths.

        Where fixing leaves a class without ground truths, its AP is 0 if it has detections, and NaN if not.
        """
        names, curves = self._curves()
        joined = hit_curve.join(curves)
        none = torch.where(joined.n > 0, 0, torch.nan)
        ap = torch.where(joined.m > 0, convention(joined), none).reshape(-1, self.size)
        found = dict(zip(names, torch.where(self.m > 0, ap, torch.nan), strict=True))
        return {name: found[name] for name in ("ap", *_KINDS, "missed", "false_positives", "false_negatives")}

    def counts(self) -> dict[str, Tensor]:
        """(K,) int64 of every kind: false positives by the class they are given, ground truths by their own."""
        each = segments.count(self.found.outcome * self.size + self.category, len(outcomes.DETECTION_KINDS) * self.size)
        wrong = each.reshape(-1, self.size)[outcomes.CLASSIFICATION : outcomes.IGNORED]
        return {
            **dict(zip(_KINDS, wrong, strict=True)),
            "missed": self._of_truths(self.found.missed),
            "false_positives": wrong.sum(0),
            "false_negatives": self.m - self._of_truths(self.found.found),
        }

    def _curves(self) -> tuple[list[str], list[HitCurve]]:
        """What is fixed, nothing at first, and the rankings after it: K of each kind, end to end."""
        same, right = (self.hit, self.counted, self.m), self.found.fixed
        ranked = {
            "ap": same,
            "missed": (self.hit, self.counted, self.m - self._of_truths(self.found.missed)),
            "false_positives": (self.hit, self.hit, self.m),
            "false_negatives": (self.hit, self.counted, self._of_truths(self.found.found)),
        }
        for code, kind in enumerate(_KINDS, outcomes.CLASSIFICATION):
            wrong = self.found.outcome == code
            ranked[kind] = self.hit | (wrong & right), self.counted & (~wrong | right), self.m
        moved = self._moved(*ranked.pop(_CLASSIFICATION)[:2])
        hit, counted, m = (torch.cat(x) for x in zip(*ranked.values(), strict=True))
        lengths = self.ends.diff().repeat(len(ranked))
        every = one_by_one(hit, counted, segments.from_counts(lengths), m)
        return [*ranked, _CLASSIFICATION], [every, moved]

    def _moved(self, hit: Tensor, counted: Tensor) -> HitCurve:
        """With the hits among the errors in the classes of their ground truths, in order of score, then of input."""
        ranked = self.found.matches.ranked
        category = self.category.clone()
        category[hit] = self.found.truth_category[self.found.truth[hit]]
        rows = order.stable_argsort(ranked.rows, int(ranked.rows.max()) + 1) if len(hit) else ranked.rows
        rows = rows[counted[rows]]
        rows = rows[order.stable_argsort((category[rows] << 32).add_(descending(ranked.score[rows])), self.size << 32)]
        return one_by_one(hit[rows], counted[rows], self._ends(category[rows]), self.m)

    def _ends(self, category: Tensor) -> Tensor:
        """(K + 1,) where the detections of each category begin and end."""
        return torch.searchsorted(category, torch.arange(self.size + 1, device=category.device))

    def _of_truths(self, which: Tensor) -> Tensor:
        return segments.count(self.found.truth_category[which], self.size)
