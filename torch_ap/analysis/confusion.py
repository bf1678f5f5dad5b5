"""What a detector confuses: detections matched to ground truths of any class, counted by both classes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.analysis.cut_items import items_of
from torch_ap.analysis.image_pairs import row_pairs
from torch_ap.inference.result import Result
from torch_ap.inputs.detections import Columns, Kind
from torch_ap.matching.candidate_pairs import Pairs, descending
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
            the scores, at least float32.
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
    found, missed, wrong = _of_one_class(matches, place, score_threshold)
    least, rows = _reached(matches, place), matches.ranked.rows.index_select(0, wrong)
    pairs = row_pairs(settings, columns, iou_type, rows, missed, least)
    detected, true = columns["detection_labels"], columns["ground_truth_labels"]
    other = detected.index_select(0, pairs.detection) != true.index_select(0, pairs.truth)
    if settings.strict:
        other &= pairs.iou > least
    pairs = _preferred(Pairs(*(segments.pick(x, other) for x in pairs)), columns["detection_scores"])
    (distinct, detection), (truths, truth) = map(order.dense_ranks, (pairs.detection, pairs.truth))
    taken = one_to_one(detection, truth, len(distinct), len(truths))
    labelled = detected.index_select(0, pairs.detection[taken]), true.index_select(0, pairs.truth[taken])
    classes = [arrays.tensor(arrays.below(native(labels), native(x))) for x in labelled]
    right, wrongs = (arrays.tensor(arrays.below(native(x), native(matches.edges))).diff() for x in (found, wrong))
    return _counted(right, wrongs, matches.relevant[0] - right, *classes)[: len(labels) + 1, : len(labels) + 1]


def one_to_one(one: Tensor, other: Tensor, ones: int, others: int) -> Tensor:
    """(M,) which pairs are taken if each in turn is, unless one of its two is taken.

    In each step all pairs are taken that come first for both of theirs, which no earlier pair can take from them.

    Args:
        one, other: (P,) int64, pairs in the order of preference.
        ones, others: how many there are of each.
    """
    left, taken = torch.arange(len(one), device=one.device), []
    free = [torch.ones(size, dtype=torch.bool, device=one.device) for size in (ones, others)]
    while len(left):
        sides = [side[left] for side in (one, other)]
        first = [
            left.new_full((len(open_),), len(one)).scatter_reduce_(0, side, left, "amin")
            for open_, side in zip(free, sides, strict=True)
        ]
        best = (first[0][sides[0]] == left) & (first[1][sides[1]] == left)
        taken.append(left[best])
        for open_, side in zip(free, sides, strict=True):
            open_[side[best]] = False
        left = left[free[0][sides[0]] & free[1][sides[1]]]
    return torch.cat(taken) if taken else left


def _of_one_class(matches: Matches, place: int, score_threshold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of the detections of at least the score: the true positives; the ground truths they leave; all others that count.

    The first and the last as places among those ranked, the second as rows: all ascending.
    """
    partners, items = matches.partners, items_of(matches, place, per_class=True)
    assert partners is not None
    right, counted = items.kept(score_threshold)
    pairs, found = (x.index_select(0, right) for x in matches.events(0, place)[:2])
    left = matches.valid[0].index_fill(0, partners.truth.index_select(0, pairs), False)
    missed = order.sort(partners.rows.index_select(0, segments.places(left)))
    return found, missed, segments.places(counted.index_fill_(0, found, False))


def _reached(matches: Matches, place: int) -> float:
    """The IoU that a match reaches; below 0 where similarity is minus a distance."""
    least = float(matches.criteria.ascending[matches.criteria.rank[place]])
    return least if least < 0 else max(least, _LEAST)


def _preferred(pairs: Pairs, score: Tensor) -> Pairs:
    """Pairs by descending IoU, then by the score of the detection, then in the order of input."""
    place = order.stable_argsort(pairs.detection, len(score))
    down = descending(score.index_select(0, pairs.detection[place]))
    place = place[order.stable_argsort(down, 1 << 32)]
    place = place[torch.argsort(pairs.iou[place], descending=True, stable=True)]
    return Pairs(*(x[place] for x in pairs))


def _counted(right: Tensor, wrong: Tensor, missed: Tensor, detected: Tensor, true: Tensor) -> Tensor:
    """The matrix.

    Args:
        right: (K,) how many true positives each class has.
        wrong: (K,) how many other detections.
        missed: (K,) how many ground truths that no detection of their class is matched to.
        detected: (P,) the classes of the detections of pairs of two classes.
        true: (P,) those of their ground truths.
    """
    size, wide = len(right), len(right) + 1
    matrix = segments.count(true * wide + detected, wide * wide).reshape(wide, wide)
    matrix[-1, :-1] = wrong - segments.count(detected, size)
    matrix[:-1, -1] = missed - segments.count(true, size)
    matrix.diagonal()[:-1] = right
    return matrix
