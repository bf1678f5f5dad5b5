"""What each kind of error costs: TIDE's AP after it is fixed, minus the AP before (Bolya et al. 2020, section 2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from torch_ap.analysis import outcomes
from torch_ap.analysis.one_by_one import one_by_one
from torch_ap.analysis.outcomes import Outcomes
from torch_ap.curve.convention import Convention
from torch_ap.inference.result import Result
from torch_ap.ranking import order, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

_KINDS = outcomes.DETECTION_KINDS[outcomes.CLASSIFICATION : outcomes.IGNORED]
_ALL = (*_KINDS, "missed", "false_positives", "false_negatives")
_COUNTS = tuple(f"{kind}_count" for kind in _ALL)


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
    means, kept = each.nanmean(1), slice(len(labels))  # without labels there is a category all the same
    costs, numbers = (each[1:] - each[0])[:, kept], counts[:, kept]
    table: dict[str, Any] = {"class": labels, "name": list(names), "ap": each[0, kept]}
    table |= {**dict(zip(_ALL, costs, strict=True)), **dict(zip(_COUNTS, numbers, strict=True))}
    return DetectionErrors(
        means[0],
        **dict(zip(_ALL, means[1:] - means[0], strict=True)),
        counts=dict(zip(_ALL, counts.sum(1), strict=True)),
        per_class=table,
        iou_threshold=thresholds[1],
        background_threshold=thresholds[0],
    )


class _Fixes:
    """Detections and ground truths before and after errors are fixed; all values are native."""

    def __init__(self, found: Outcomes) -> None:
        self.found, self.matches, self.size = found, found.matches, found.matches.categories
        self.outcome, self.category = native(found.outcome), native(self.matches.ranked.category)
        self.hit, self.counted = self.outcome == outcomes.HIT, self.outcome != outcomes.IGNORED
        edges = native(self.matches.edges)
        self.lengths = edges[1:] - edges[:-1]
        valid, missed, hit = map(native, (found.valid, found.missed, found.found))
        # a ground truth that is to be found is found, or missed, or some error is about it
        each = native(found.truth_category) + self.size * (valid + 1 * missed + 2 * hit)
        _, about, self.missed, self.of_found = segments.count(each[valid], 4 * self.size).reshape(4, -1)
        self.m = about + self.missed + self.of_found

    def average_precision(self, convention: Convention) -> Tensor:
        """(9, K) float64: where nothing is fixed, then of each kind; NaN for classes without ground truths.

        Where fixing leaves a class without ground truths, its AP is 0 if it has detections, and NaN if not.
        """
        curve = self._curve()
        ap, counts = native(convention(curve)).reshape(-1, self.size), curve.native
        m, n = (x.reshape(-1, self.size) for x in (counts.m, counts.n))
        ap[(m == 0) & (n > 0) & (self.m > 0)] = 0
        return arrays.tensor(ap)

    def counts(self) -> Tensor:
        """(8, K) int64 of every kind: false positives by the class they are given, ground truths by their own."""
        xp = arrays.namespace(self.outcome)
        each = segments.count(self.outcome * self.size + self.category, len(outcomes.DETECTION_KINDS) * self.size)
        wrong = each.reshape(-1, self.size)[outcomes.CLASSIFICATION : outcomes.IGNORED]
        others = xp.stack([self.missed, wrong.sum(0), self.m - self.of_found])
        return arrays.tensor(xp.concatenate([wrong, others]))

    def _curve(self) -> HitCurve:
        """The rankings where nothing is fixed, and after each kind is: K of each, end to end."""
        xp, codes = arrays.namespace(self.outcome), arrays.steps(len(_KINDS), self.outcome)[:, None]
        wrong = self.outcome == codes + outcomes.CLASSIFICATION
        mended = wrong & native(self.found.fixed)
        left = self.counted & ~wrong
        moved, others = self._moved(left[0], arrays.places(mended[0]))
        same, there = (self.hit, self.counted), (self.hit | mended[1:], left[1:] | mended[1:])
        rows = zip(same, moved, there, same, (self.hit, self.hit), same, strict=True)
        hit, counted = (xp.concatenate([x.reshape(-1) for x in row]) for row in rows)
        m = xp.concatenate([*[self.m] * (1 + len(_KINDS)), self.m - self.missed, self.m, self.of_found])
        lengths = xp.concatenate([self.lengths, others, *[self.lengths] * (len(_ALL) - 1)])
        return one_by_one(hit, counted, segments.from_counts(lengths), m)

    def _moved(self, left: Any, which: Any) -> tuple[Any, Any]:
        """With some detections as hits in the classes of their ground truths: hits and what counts; and (K,) lengths.

        Args:
            left: (N,) bool, what counts of the others.
            which: (X,) int64, their places.
        """
        category = native(self.found.truth_category)[native(self.found.truth)[which]]
        place = order.sort(self._place(which, category))
        flags = arrays.namespace(left).stack([self.hit, left])
        return _with_set(flags, place), self.lengths + segments.count(category, self.size)

    def _place(self, which: Any, category: Any) -> Any:
        """How many detections would come before some of them in other categories: of equal scores those first given."""
        ranked, down = self.matches.ranked, native(self.found.down)
        keys, rows = (self.category << 32) + down, native(ranked.rows)
        own = (category << 32) + down[which]
        low, equal = arrays.below(keys, own), arrays.below(keys, own + 1)
        lift = segments.as_int64(segments.running_counts(keys[1:] != keys[:-1]))
        lift *= int(rows.max()) + 1 if len(rows) else 0  # beyond their number, where some detections are not ranked
        among = arrays.below(lift + rows, lift[arrays.at_most(low, len(rows) - 1)] + rows[which])
        return low + (equal > low) * (among - low)


def _with_set(flags: Any, places: Any) -> Any:
    """(2, N) flags with others that are set, each before that of its place, where N is the end: native."""
    old = arrays.full(flags.shape[1] + len(places), True, flags)
    old[places + arrays.steps(len(places), places)] = False
    out = arrays.namespace(old).stack([~old, ~old])
    out[:, old] = flags
    return out
