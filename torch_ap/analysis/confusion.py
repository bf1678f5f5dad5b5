"""What a detector confuses: detections matched to ground truths of any class, counted by both classes."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from torch_ap.analysis.cut_items import items_of, lengths
from torch_ap.analysis.image_pairs import row_pairs
from torch_ap.inference.result import Result
from torch_ap.inputs.detections import Columns, Kind
from torch_ap.matching.candidate_pairs import descending
from torch_ap.matching.matched import Matches
from torch_ap.matching.shape_settings import ShapeSettings
from torch_ap.ranking import order, segments
from torch_ap.rules import checks
from torch_ap.rules.options import Normalize, allowed
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

BACKGROUND = "background"
_LEAST = 5e-324  # what does not overlap at all is not confused


@dataclass(frozen=True, eq=False, repr=False)
class ConfusionMatrix(Result):
    """How many objects of each class were detected as each class: true classes down, detected ones across.

    The last column counts objects that were missed, the last row detections where there is no object.

    Attributes:
        matrix: (K + 1, K + 1) int64.
        labels: (K,) int64, the labels that occur, ascending.
        names: K + 1, of the labels, and "background".
        iou_threshold: the least IoU of a match; None of centres.
        score_threshold: the least score of a detection that is looked at, 0-d, or (K,) of each class, in the dtype of
            the scores, at least float32; float64 of integers.
        distance_threshold: the distance below which centres match; None of all else.
    """

    matrix: Tensor
    labels: Tensor
    names: list[str]
    iou_threshold: float | None
    score_threshold: Tensor
    distance_threshold: float | None = None

    _as_given = ("score_threshold",)

    def normalized(self, over: Normalize = "true") -> Tensor:
        """(K + 1, K + 1) float64 shares; NaN where there is nothing to share.

        Args:
            over: "true" for shares of the objects of each class, whose diagonal is recall; "pred" for those of the
                detections of each class, with precision; "all" for those of everything.

        Equals ``normalize`` of ``sklearn.metrics.confusion_matrix``, where shares of nothing are 0.
        """
        checks.one_of("over", over, allowed(Normalize))
        counts = segments.as_float64(self.matrix)
        sums = {"true": counts.sum(1, keepdim=True), "pred": counts.sum(0, keepdim=True), "all": counts.sum()}
        return counts / sums[over]


def confused(
    settings: ShapeSettings,
    columns: Columns,
    iou_type: Kind,
    matches: Matches,
    place: int,
    score_threshold: Tensor,
    labels: Tensor,
) -> Tensor:
    """(K + 1, K + 1) int64, true classes down, detected ones across, the background last.

    Args:
        settings: of shapes.
        columns: all images.
        iou_type: one of the settings' kinds.
        matches: of these images in each class: what counts, and the pairs of one class.
        place: which IoU threshold.
        score_threshold: 0-d, or (K,) of each class, in the dtype of ``segments.comparable``.
        labels: (K,) of the classes, ascending; without labels there is a category all the same.
    """
    detected, true = native(columns["detection_labels"]), native(columns["ground_truth_labels"])
    scores = columns["detection_scores"]
    right, others, wrong, missed = _of_one_class(matches, place, native(score_threshold), scores)
    least = _reached(matches, place)
    pairs = row_pairs(settings, columns, iou_type, wrong, missed, least)
    detection, truth, iou = map(native, pairs)
    other = arrays.take(detected, detection) != arrays.take(true, truth)
    if settings.strict:
        other &= iou > float(matches.criteria.thresholds[place])  # perhaps above COCO's highest
    detection, truth, iou = (arrays.take(x, arrays.places(other)) for x in (detection, truth, iou))
    preferred = order.lexsort(-iou)
    if arrays.some(iou[preferred[1:]] == iou[preferred[:-1]]):  # of these the higher score, then the first given
        down = descending(scores.index_select(0, arrays.tensor(detection)))
        preferred = order.lexsort(-iou, native(down), detection)
    detection, truth = (arrays.take(x, preferred) for x in (detection, truth))
    taken = one_to_one(detection, truth, len(detected), len(true))
    labelled = arrays.take(detected, detection[taken]), arrays.take(true, truth[taken])
    classes = (arrays.below(native(labels), x) for x in labelled)
    matrix = _counted(right, others, native(matches.relevant)[0] - right, *classes)
    return arrays.tensor(matrix)[: len(labels) + 1, : len(labels) + 1]


def one_to_one(one: Any, other: Any, ones: int, others: int) -> Any:
    """(M,) which pairs are taken if each in turn is, unless one of its two is taken.

    In each step all pairs are taken that come first for both of theirs, which no earlier pair can take from them.

    Args:
        one, other: (P,) int64, pairs in the order of preference, native.
        ones, others: how many there are of each; only those of pairs are looked at.
    """
    left, sides = arrays.steps(len(one), one), (one, other)
    first, free = ([arrays.empty(size, x) for size in (ones, others)] for x in (one, one[:0] == 0))
    for open_, side in zip(free, sides, strict=True):
        open_[side] = True
    taken = left[:0]
    while len(left):
        here = [arrays.take(side, left) for side in sides]
        for highest, side in zip(first, here, strict=True):
            highest[side] = -len(one)
            arrays.raise_to(highest, side, -left)  # negated, for they are raised
        best = (arrays.take(first[0], here[0]) == -left) & (arrays.take(first[1], here[1]) == -left)
        taken = arrays.joined(taken, left[best])
        for open_, side in zip(free, here, strict=True):
            open_[side[best]] = False
        left = left[arrays.take(free[0], here[0]) & arrays.take(free[1], here[1])]
    return taken


def _of_one_class(matches: Matches, place: int, least: Any, scores: Tensor) -> tuple[Any, ...]:
    """Of the detections of at least the score: true positives and all others that count; and what is left.

    Args:
        matches: in each class.
        place: which IoU threshold.
        least: the threshold, as of :func:`confused`, native.
        scores: (D,) of the detections, by row.

    Returns:
        (K,) how many of the first, and of the others; (D,) bool, by row, which are those; and the rows of the ground
        truths without a true positive, ascending; all native.
    """
    partners, items = matches.partners, items_of(matches, place, per_class=True)
    assert partners is not None
    ends, edges, rows = items.ends(least), items.categories, native(matches.ranked.rows)
    right = items.hits_before(ends)
    pairs, found = (arrays.take(native(x), right) for x in matches.events(0, place)[:2])
    if least.ndim or len(rows) < len(scores):  # of each class, or of some images only the best are ranked
        wrong = arrays.full(len(scores), False, right[:0] == 0)
        wrong[arrays.take(rows, segments.members(edges[:-1], ends))] = True
    else:
        wrong = native(segments.comparable(scores)) >= least
    for others in (items.uncounted, found):
        wrong[arrays.take(rows, others)] = False
    left = ~native(matches.valid)[0]
    left[arrays.take(native(partners.truth), pairs)] = True
    missed = order.sort(arrays.take(native(partners.rows), arrays.places(~left)))
    of_class = lengths(items.offsets(found))
    return of_class, items.above(ends) - items.above(edges[:-1]) - of_class, wrong, missed


def _reached(matches: Matches, place: int) -> float:
    """The IoU that a match reaches; below 0 where similarity is minus a distance."""
    least = float(matches.criteria.ascending[matches.criteria.rank[place]])
    return least if least < 0 else max(least, _LEAST)


def _counted(right: Any, wrong: Any, missed: Any, detected: Any, true: Any) -> Any:
    """The matrix, all native.

    Args:
        right: (K,) how many true positives each class has.
        wrong: (K,) how many other detections.
        missed: (K,) how many ground truths that no detection of their class is matched to.
        detected: (P,) the classes of the detections of pairs of two classes.
        true: (P,) those of their ground truths.
    """
    size, wide = len(right), len(right) + 1
    cells = segments.count(true * wide + detected, wide * wide)
    cells[: size * (wide + 1) : wide + 1] = right
    matrix = cells.reshape(wide, wide)
    matrix[-1, :-1] = wrong - segments.count(detected, size)
    matrix[:-1, -1] = missed - segments.count(true, size)
    return matrix
