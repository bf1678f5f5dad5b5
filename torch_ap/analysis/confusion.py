"""What a detector confuses: detections matched to ground truths of any class, counted by both classes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.inference.result import Result
from torch_ap.inputs.detections import Columns, Kind
from torch_ap.matching import candidate_pairs
from torch_ap.matching.candidate_pairs import Candidates, Pairs, Ranked, descending
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
    classes: int,
) -> Tensor:
    """(K + 1, K + 1) int64, true classes down, detected ones across, the background last.

    Args:
        settings: of shapes.
        columns: all images.
        iou_type: one of the settings' kinds.
        matches: of these images in each class: what counts, and the pairs of one class.
        place: which IoU threshold.
        score_threshold: 0-d, or (K,) of each class, in the dtype of ``segments.comparable``.
        classes: K; without labels there is a category all the same.
    """
    found, missed, wrong = _of_one_class(matches, place, score_threshold)
    ranked, size, partners = matches.ranked, matches.categories, matches.partners
    assert partners is not None
    missed = _in_order(missed, partners.rows, len(columns["ground_truth_labels"]))
    true = arrays.tensor(native(matches.truth_group.index_select(0, missed)) % size)
    pairs = _pairs(settings, columns, iou_type, matches, wrong, missed, _reached(matches, place))
    other = ranked.category.index_select(0, pairs.detection) != true.index_select(0, pairs.truth)
    if settings.strict:
        other &= pairs.iou > _reached(matches, place)
    pairs = _preferred(Pairs(*(x[other] for x in pairs)), ranked)
    distinct, detection = order.dense_ranks(pairs.detection)
    taken = one_to_one(detection, pairs.truth, len(distinct), len(missed))
    detection, truth = ranked.category.index_select(0, pairs.detection[taken]), pairs.truth[taken]
    edges = torch.searchsorted(ranked.category, torch.arange(size + 1, device=taken.device))
    wrongs = segments.running_counts(wrong).index_select(0, edges).diff() - segments.count(detection, size)
    return _counted(ranked.category.index_select(0, found), detection, truth, true, wrongs[:classes])


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

    The first as places among those ranked; ground truths as places among ``matches.truth_group``; the last as
    (N,) bool.
    """
    ranked, partners, each = matches.ranked, matches.partners, score_threshold
    assert partners is not None
    kept = segments.comparable(ranked.score) >= (each if each.ndim == 0 else each.index_select(0, ranked.category))
    hit = matches.criteria.of_one(matches.true_positive, 0, place) & kept.index_select(0, matches.at)
    pair = segments.places(hit)
    left = matches.valid[0].index_fill(0, partners.truth.index_select(0, pair), False)
    return matches.at.index_select(0, pair), segments.places(left), matches.flags(0, place)[1] & kept


def _reached(matches: Matches, place: int) -> float:
    """The IoU that a match reaches; below 0 where similarity is minus a distance."""
    least = float(matches.criteria.ascending[matches.criteria.rank[place]])
    return least if least < 0 else max(least, _LEAST)


def _pairs(
    settings: ShapeSettings,
    columns: Columns,
    iou_type: Kind,
    matches: Matches,
    wrong: Tensor,
    missed: Tensor,
    least: float,
) -> Pairs:
    """All pairs of one image that overlap enough: of a detection that is ``wrong``, and a place in ``missed``.

    In the order of detections and of ground truths as they came in.
    """
    (image, true_image), partners = matches.images, matches.partners
    assert partners is not None
    true_image = true_image.index_select(0, missed)
    width = segments.count(true_image, max(1, len(columns["detections_per_image"])))
    near = segments.places(wrong & (width > 0).index_select(0, image))
    near = _in_order(near, matches.ranked.rows, len(columns["detection_labels"]))
    image = image.index_select(0, near)
    first, truths = segments.from_counts(width)[:-1].index_select(0, image), partners.rows.index_select(0, missed)
    candidates = Candidates(near, first, width.index_select(0, image), truths, true_image)
    no_crowd = torch.zeros_like(truths, dtype=torch.bool)
    rows = matches.ranked.rows.index_select(0, near)
    pair_iou = settings.similarity(columns, iou_type, rows, truths, no_crowd)
    found = candidate_pairs.overlapping(candidates, pair_iou, least)
    return Pairs(near.index_select(0, found.detection), found.truth, found.iou)


def _in_order(places: Tensor, rows: Tensor, size: int) -> Tensor:
    """Some places in the order of their rows, different ones of so many: these need no sort."""
    own = rows.index_select(0, places)
    by_row = rows.new_empty(size).scatter_(0, own, places)
    taken = rows.new_zeros(size, dtype=torch.bool).index_fill_(0, own, True)
    return by_row.index_select(0, segments.places(taken))


def _preferred(pairs: Pairs, ranked: Ranked) -> Pairs:
    """Pairs by descending IoU, then by the score of the detection, in the order given."""
    place = torch.argsort(descending(ranked.score[pairs.detection]), stable=True)
    place = place[torch.argsort(pairs.iou[place], descending=True, stable=True)]
    return Pairs(*(x[place] for x in pairs))


def _counted(found: Tensor, detected: Tensor, truth: Tensor, true: Tensor, wrong: Tensor) -> Tensor:
    """The matrix.

    Args:
        found: the classes of true positives.
        detected: (P,) those of the detections of pairs of two classes.
        truth: (P,) their ground truths.
        true: (M,) the classes of ground truths.
        wrong: (K,) how many detections of each class have neither.
    """
    wide = len(wrong) + 1
    missed = torch.ones_like(true, dtype=torch.bool).index_fill_(0, truth, False)
    each = torch.cat([found * (wide + 1), true[truth] * wide + detected, true[missed] * wide + len(wrong)])
    matrix = segments.count(each, wide * wide).reshape(wide, wide)
    matrix[-1, :-1] += wrong
    return matrix
