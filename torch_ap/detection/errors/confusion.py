"""Confusion matrix of a detector: detections matched to ground truths of any class, counted by both classes."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from torch_ap.core.base import arrays, checks
from torch_ap.core.base.arrays import native
from torch_ap.core.base.options import Normalize, allowed_values
from torch_ap.core.ranking import order, segments
from torch_ap.detection.errors.matches_at import MatchesAt, lengths
from torch_ap.detection.errors.outcomes import row_pairs
from torch_ap.detection.matching.candidate_pairs import descending
from torch_ap.inference.record import Result

BACKGROUND = "background"
_MIN_IOU = 5e-324  # objects without overlap are not confused


@dataclass(frozen=True, eq=False, repr=False)
class ConfusionMatrix(Result):
    """Counts of the objects of each true class (rows) that were detected as each class (columns).

    The last column counts missed objects, the last row detections without an object.

    Attributes:
        matrix: (K + 1, K + 1) int64.
        labels: (K,) int64, the labels of the images, ascending.
        names: K + 1 names, of the labels and "background".
        iou_threshold: the least IoU of a match; None for centres.
        score_threshold: the least score of a detection, 0-d, or (K,) per class, in the dtype of the scores, at least
            float32; float64 for integers.
        distance_threshold: the distance below which centres match; None for other shapes.
    """

    matrix: Tensor
    labels: Tensor
    names: list[str]
    iou_threshold: float | None
    score_threshold: Tensor
    distance_threshold: float | None = None

    _keep_dtype = ("score_threshold",)

    def normalized(self, over: Normalize = "true") -> Tensor:
        """Return the (K + 1, K + 1) float64 shares; NaN for a share of nothing.

        Args:
            over: "true" for shares of the objects of each class, with recall on the diagonal; "pred" for shares of the
                detections of each class, with precision; "all" for shares of the sum.

        Equals ``normalize`` of ``sklearn.metrics.confusion_matrix``, which returns 0 for shares of nothing.
        """
        checks.one_of("over", over, allowed_values(Normalize))
        counts = segments.as_float64(self.matrix)
        sums = {"true": counts.sum(1, keepdim=True), "pred": counts.sum(0, keepdim=True), "all": counts.sum()}
        return counts / sums[over]


def confusion_counts(at: MatchesAt, score_threshold: Tensor) -> Tensor:
    """Return the (K + 1, K + 1) int64 counts: rows are true classes, columns detected classes, the background last.

    Args:
        at: the matches.
        score_threshold: 0-d, or (K,) per class, in the dtype of ``segments.comparable``.
    """
    columns, matches, labels = at.columns, at.matches, at.labels
    detected, true = native(columns["detection_labels"]), native(columns["ground_truth_labels"])
    scores = columns["detection_scores"]
    right, others, wrong, missed = _matches_in_class(at, native(score_threshold))
    pairs = row_pairs(at, wrong, missed, _least_iou(at))
    detection, truth, iou = map(native, pairs)
    other = arrays.take(detected, detection) != arrays.take(true, truth)
    if at.settings.strict:
        other &= iou > float(matches.criteria.thresholds[at.threshold_index])  # can be above the highest of COCO
    detection, truth, iou = (arrays.take(x, arrays.true_indices(other)) for x in (detection, truth, iou))
    preferred = order.lexsort(-iou)
    if arrays.any_true(iou[preferred[1:]] == iou[preferred[:-1]]):  # then by score, then in the order of input
        down = descending(scores.index_select(0, arrays.tensor(detection)))
        preferred = order.lexsort(-iou, native(down), detection)
    detection, truth = (arrays.take(x, preferred) for x in (detection, truth))
    taken = one_to_one(detection, truth, len(detected), len(true))
    labels_of_pairs = arrays.take(detected, detection[taken]), arrays.take(true, truth[taken])
    classes = (arrays.below(native(labels), x) for x in labels_of_pairs)
    matrix = _matrix(right, others, native(matches.relevant)[0] - right, *classes)
    return arrays.tensor(matrix)[: len(labels) + 1, : len(labels) + 1]


def one_to_one(one: Any, other: Any, ones: int, others: int) -> Any:
    """Return the (M,) pairs that a greedy assignment in the order of preference takes.

    Each step takes all pairs that are the first pair of both their members, which no earlier pair can prevent.

    Args:
        one, other: (P,) int64, pairs in the order of preference, native.
        ones, others: the numbers of members on each side; members without pairs are ignored.
    """
    left, sides = arrays.arange_like(len(one), one), (one, other)
    first, free = ([arrays.empty(size, x) for size in (ones, others)] for x in (one, one[:0] == 0))
    for open_, side in zip(free, sides, strict=True):
        open_[side] = True
    taken = left[:0]
    while len(left):
        here = [arrays.take(side, left) for side in sides]
        for highest, side in zip(first, here, strict=True):
            highest[side] = -len(one)
            arrays.raise_to(highest, side, -left)  # negated, because values are raised
        best = (arrays.take(first[0], here[0]) == -left) & (arrays.take(first[1], here[1]) == -left)
        taken = arrays.join(taken, left[best])
        for open_, side in zip(free, here, strict=True):
            open_[side[best]] = False
        left = left[arrays.take(free[0], here[0]) & arrays.take(free[1], here[1])]
    return taken


def _matches_in_class(at: MatchesAt, least: Any) -> tuple[Any, ...]:
    """Return the counts of matches in each class, and the remaining detections and ground truths.

    Args:
        at: the matches.
        least: the score threshold, as for :func:`confusion_counts`, native.

    Returns:
        (K,) numbers of true positives and of other detections that count, with at least the score; (D,) bool flags of
        the other detections, by row; and the rows of the ground truths without a true positive, ascending; all native.
    """
    matches, partners, items = at.matches, at.matches.partners, at.items(per_class=True)
    scores = at.columns["detection_scores"]  # by row
    assert partners is not None
    ends, edges, rows = items.ends(least), items.categories, native(matches.ranked.rows)
    right = items.hits_before(ends)
    pairs, found = (arrays.take(native(x), right) for x in matches.events(0, at.threshold_index)[:2])
    if least.ndim or len(rows) < len(scores):  # per class, or only the best of some images are ranked
        wrong = arrays.full(len(scores), False, right[:0] == 0)
        wrong[arrays.take(rows, segments.members(edges[:-1], ends))] = True
    else:
        wrong = native(segments.comparable(scores)) >= least
    for others in (items.uncounted, found):
        wrong[arrays.take(rows, others)] = False
    left = ~native(matches.valid)[0]
    left[arrays.take(native(partners.truth), pairs)] = True
    missed = order.sort(arrays.take(native(partners.rows), arrays.true_indices(~left)))
    in_class = lengths(items.offsets(found))
    return in_class, items.above(ends) - items.above(edges[:-1]) - in_class, wrong, missed


def _least_iou(at: MatchesAt) -> float:
    """Return the least IoU of a match; below 0 if similarity is minus a distance."""
    criteria = at.matches.criteria
    least = float(criteria.ascending[criteria.rank[at.threshold_index]])
    return least if least < 0 else max(least, _MIN_IOU)


def _matrix(right: Any, wrong: Any, missed: Any, detected: Any, true: Any) -> Any:
    """Return the matrix; all values are native.

    Args:
        right: (K,) numbers of true positives of each class.
        wrong: (K,) numbers of other detections.
        missed: (K,) numbers of ground truths without a match in their class.
        detected: (P,) classes of the detections in pairs of two classes.
        true: (P,) classes of their ground truths.
    """
    size, wide = len(right), len(right) + 1
    cells = segments.count(true * wide + detected, wide * wide)
    cells[: size * (wide + 1) : wide + 1] = right
    matrix = cells.reshape(wide, wide)
    matrix[-1, :-1] = wrong - segments.count(detected, size)
    matrix[:-1, -1] = missed - segments.count(true, size)
    return matrix
