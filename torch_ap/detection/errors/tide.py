"""Cost of each kind of error: TIDE's AP after fixing it, minus the AP before (Bolya et al. 2020, section 2)."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.measures.convention import Convention
from torch_ap.core.ranking import hit_curve, order, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.detection.errors import outcomes
from torch_ap.detection.errors.outcomes import Outcomes
from torch_ap.detection.inference.rankings import ResampledRankings
from torch_ap.detection.inputs.images import image_ids
from torch_ap.inference.record import Result

_DETECTION = outcomes.DETECTION_KINDS[outcomes.CLASSIFICATION : outcomes.IGNORED]
KINDS = (*_DETECTION, "missed", "false_positives", "false_negatives")
_COUNTS = tuple(f"{kind}_count" for kind in KINDS)


@dataclass(frozen=True, eq=False, repr=False)
class DetectionErrors(Result):
    """Errors of a detector at one IoU threshold, and the cost in AP of each kind.

    The method ``errors()`` of the detection metrics returns it. A cost is the gain in AP of a detector without errors
    of one kind and with all other errors, so costs do not add up. A *false positive* is a detection without a match; a
    detection that matches a crowd, or another ground truth that does not count, is none.

    Attributes:
        average_precision: 0-d, the mean AP of the classes with ground truths.
        classification: 0-d, the cost of boxes in the right place with the wrong class.
        localization: 0-d, the cost of boxes of the right class that are too far off.
        both: 0-d, the cost of boxes in the wrong place with the wrong class.
        duplicate: 0-d, the cost of further boxes of a detected ground truth.
        background: 0-d, the cost of boxes without an object.
        missed: 0-d, the cost of undetected ground truths that no classification or localization error concerns.
        false_positives: 0-d, the cost of all false positives: AP with perfect precision, minus AP.
        false_negatives: 0-d, the cost of all undetected ground truths: AP with perfect recall, minus AP.
        counts: numbers of errors of each kind; 0-d int64.
        per_class: a table with one row per class: ``class``, ``name``, ``ap``, the cost of each kind in the AP of this
            class, and the numbers of errors as ``classification_count`` and so on. False positives count for their
            predicted class, missed ground truths for their own. NaN for a class without ground truths that count.
        iou_threshold: the IoU threshold of matches.
        background_threshold: the highest IoU of a detection in the background.
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


def errors_of(detections: Outcomes, background: float) -> DetectionErrors:
    """Return the record of errors.

    Args:
        detections: the outcomes of the detections.
        background: the threshold of background.
    """
    at, fixes = detections.at, Fixes(detections)
    counts, each = fixes.counts(), fixes.average_precision(Convention(interpolation=at.interpolation))
    means, kept = each.nanmean(1), slice(len(at.labels))  # without labels there is still one category
    costs, numbers = (each[1:] - each[0])[:, kept], counts[:, kept]
    table: dict[str, Any] = {"class": at.labels, "name": list(at.names), "ap": each[0, kept]}
    table |= {**dict(zip(KINDS, costs, strict=True)), **dict(zip(_COUNTS, numbers, strict=True))}
    return DetectionErrors(
        means[0],
        **dict(zip(KINDS, means[1:] - means[0], strict=True)),
        counts=dict(zip(KINDS, counts.sum(1), strict=True)),
        per_class=table,
        iou_threshold=at.iou_threshold,
        background_threshold=background,
    )


def curve_without_ties(hit: Any, counted: Any, offsets: Any, m: Any) -> HitCurve:
    """Return the curve of S rankings of ordered items without ties, one entry per hit, from tensors or native values.

    Args:
        hit: (N,) bool flags of hits.
        counted: (N,) bool flags of the items of a ranking, which include all hits.
        offsets: (S + 1,) int64 offsets of the items of each ranking.
        m: (S,) int64 numbers of relevant items.
    """
    hit, counted, offsets, m = map(native, (hit, counted, offsets, m))
    at, items = arrays.true_indices(hit), segments.running_counts(counted)
    ranking, above = segments.ids_at(at, offsets), arrays.take(items, offsets)
    ends = segments.from_counts(segments.count(ranking, len(m)))
    hits_above = arrays.arange_like(len(at), at) - arrays.take(ends, ranking)
    items_above = segments.as_int64(arrays.take(items, at) - arrays.take(above, ranking))
    ones = arrays.namespace(at).ones_like(hits_above)
    n = segments.as_int64(above[1:] - above[:-1])
    curve = HitCurve(ones, ones, hits_above, items_above, score=None, offsets=ends, n=n, m=m)
    return curve if isinstance(m, Tensor) else hit_curve.from_native(curve, None)


class Fixes:
    """Detections and ground truths before and after errors are fixed; all values are native."""

    def __init__(self, detections: Outcomes) -> None:
        self.detections, self.matches = detections, detections.at.matches
        self.size = self.matches.categories
        self.outcome, self.category = native(detections.outcome), native(self.matches.ranked.category)
        self.hit, self.counted = self.outcome == outcomes.HIT, self.outcome != outcomes.IGNORED
        self.fixed = native(detections.fixed)
        edges = native(self.matches.edges)
        self.lengths = edges[1:] - edges[:-1]
        valid, missed, hit = map(native, (detections.valid, detections.missed, detections.detected))
        # a ground truth that counts is detected, or missed, or some error concerns it
        each = native(detections.truth_category) + self.size * (valid + 1 * missed + 2 * hit)
        _, about, self.missed, self.detected = segments.count(each[valid], 4 * self.size).reshape(4, -1)
        self.m = about + self.missed + self.detected

    def average_precision(self, convention: Convention) -> Tensor:
        """Return (9, K) float64 AP: without fixes, then with each kind fixed; NaN for classes without ground truths.

        If a fix leaves a class without ground truths, its AP is 0 if it has detections, and NaN if not.
        """
        curve = self._curve()
        ap, counts = native(convention(curve)).reshape(-1, self.size), curve.native
        m, n = (x.reshape(-1, self.size) for x in (counts.m, counts.n))
        ap[(m == 0) & (n > 0) & (self.m > 0)] = 0
        return arrays.tensor(ap)

    def counts(self) -> Tensor:
        """Return (8, K) int64 counts of each kind: false positives by predicted class, ground truths by their own."""
        xp = arrays.namespace(self.outcome)
        each = segments.count(self.outcome * self.size + self.category, len(outcomes.DETECTION_KINDS) * self.size)
        wrong = each.reshape(-1, self.size)[outcomes.CLASSIFICATION : outcomes.IGNORED]
        others = xp.stack([self.missed, wrong.sum(0), self.m - self.detected])
        return arrays.tensor(xp.concatenate([wrong, others]))

    def rankings(self) -> ResampledRankings:
        """Return the rankings of :meth:`average_precision`, (9K,), each with a list of its own, for weighted images."""
        hit, counted, offsets = self._flags()
        xp, image = arrays.namespace(hit), native(self.matches.ranked.group) // self.size
        place, moved, _ = self._moved
        images = xp.concatenate([image, _insert(image, place, moved), *[image] * (len(KINDS) - 1)])[counted]
        ends = segments.running_counts(counted)[offsets]
        places = arrays.true_indices(hit[counted])
        found = self.detections
        valid, missed, detected = map(native, (found.valid, found.missed, found.detected))
        kept = [*[valid] * (1 + len(_DETECTION)), valid & ~missed, valid, valid & detected]
        truth = arrays.true_indices(xp.concatenate(kept))
        row, truth = truth // len(valid), truth % len(valid)
        truth_image = native(image_ids(found.at.columns["ground_truths_per_image"]))
        is_hit = arrays.full(len(places), True, hit)
        fields = {
            "image": images,
            "counted": arrays.full(len(images), True, hit),
            "offsets": ends,
            "event_item": places,
            "event_hit": is_hit,
            "event_counts": is_hit,
            "event_offsets": arrays.below(places, ends),
            "ranking_list": arrays.arange_like(len(ends) - 1, image),
            "relevant_image": truth_image[truth],
            "relevant_list": row * self.size + native(found.truth_category)[truth],
        }
        tensors = {name: arrays.tensor(x) for name, x in fields.items()}
        return ResampledRankings(**tensors, images=len(found.at.columns["detections_per_image"]))

    def _curve(self) -> HitCurve:
        """Return the rankings without fixes, then with each kind fixed: K of each, concatenated."""
        m = [*[self.m] * (1 + len(_DETECTION)), self.m - self.missed, self.m, self.detected]
        return curve_without_ties(*self._flags(), arrays.namespace(self.m).concatenate(m))

    def _flags(self) -> tuple[Any, Any, Any]:
        """Return flags of hits and of detections that count in these rankings, and the offsets of the rankings."""
        xp, codes = arrays.namespace(self.outcome), arrays.arange_like(len(_DETECTION), self.outcome)[:, None]
        wrong = self.outcome == codes + outcomes.CLASSIFICATION
        mended, left = wrong & self.fixed, self.counted & ~wrong
        place, _, others = self._moved
        moved = [_insert(x, place, True) for x in (self.hit, left[0])]
        same, there = (self.hit, self.counted), (self.hit | mended[1:], left[1:] | mended[1:])
        rows = zip(same, moved, there, same, (self.hit, self.hit), same, strict=True)
        hit, counted = (xp.concatenate([x.reshape(-1) for x in row]) for row in rows)
        lengths = xp.concatenate([self.lengths, others, *[self.lengths] * (len(KINDS) - 1)])
        return hit, counted, segments.from_counts(lengths)

    @cached_property
    def _moved(self) -> tuple[Any, Any, Any]:
        """Detections that a fix moves to the classes of their ground truths.

        The indices before which they are inserted, ascending; their images; and the (K,) lengths of the classes then.
        """
        which = arrays.true_indices(self.fixed & (self.outcome == outcomes.CLASSIFICATION))
        category = native(self.detections.truth_category)[native(self.detections.truth)[which]]
        images = len(self.detections.at.columns["detections_per_image"])
        image = native(self.matches.ranked.group)[which] // self.size
        # at the same index, the end of a class is before the start of the next one
        key = order.sort((self._insertion_index(which, category) * self.size + category) * images + image)
        return key // (self.size * images), key % images, self.lengths + segments.count(category, self.size)

    def _insertion_index(self, which: Any, category: Any) -> Any:
        """Return the indices of detections in other categories; equal scores keep the order of input."""
        ranked, down = self.matches.ranked, native(self.detections.down)
        keys, rows = (self.category << 32) + down, native(ranked.rows)
        own = (category << 32) + down[which]
        low, equal = arrays.below(keys, own), arrays.below(keys, own + 1)
        lift = segments.as_int64(segments.running_counts(keys[1:] != keys[:-1]))
        lift *= int(rows.max()) + 1 if len(rows) else 0  # larger than their number if some detections are not ranked
        among = arrays.below(lift + rows, lift[arrays.clamp_max(low, len(rows) - 1)] + rows[which])
        return low + (equal > low) * (among - low)


def _insert(values: Any, places: Any, further: Any) -> Any:
    """Return values with further ones, each inserted before an index; N is the end; native."""
    is_old = arrays.full(len(values) + len(places), True, values[:0] == 0)
    is_old[places + arrays.arange_like(len(places), places)] = False
    out = arrays.empty(len(is_old), values)
    out[is_old], out[~is_old] = values, further
    return out
