"""What a detector confuses: detections matched to ground truths of any class, counted by both classes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.inference.result import Result
from torch_ap.inputs.detections import Columns, Kind, image_of
from torch_ap.matching import candidate_pairs
from torch_ap.matching.candidate_pairs import Candidates, Pairs, descending
from torch_ap.matching.matched import Matches
from torch_ap.matching.shape_settings import ShapeSettings
from torch_ap.ranking import order, segments
from torch_ap.rules import checks
from torch_ap.rules.options import Normalize, allowed

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
    ranked, partners = matches.ranked, matches.partners
    assert partners is not None
    wrong, missed = (x[order.argsort(rows[x])] for x, rows in ((wrong, ranked.rows), (missed, partners.rows)))
    true = matches.truth_group[missed] % matches.categories
    pairs = _pairs(settings, columns, iou_type, ranked.rows[wrong], partners.rows[missed], _reached(matches, place))
    detected = ranked.category[wrong]
    other = detected[pairs.detection] != true[pairs.truth]
    if settings.strict:
        other &= pairs.iou > _reached(matches, place)
    pairs = _preferred(Pairs(*(x[other] for x in pairs)), ranked.score[wrong])
    taken = one_to_one(pairs.detection, pairs.truth, len(wrong), len(missed))
    return _counted(ranked.category[found], pairs.detection[taken], pairs.truth[taken], detected, true, classes)


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

    Detections as places among those ranked, ground truths as places among ``matches.truth_group``.
    """
    ranked, partners = matches.ranked, matches.partners
    assert partners is not None
    kept = segments.comparable(ranked.score) >= (
        score_threshold if score_threshold.ndim == 0 else score_threshold[ranked.category]
    )
    pair = matches.criteria.of_one(matches.true_positive, 0, place) & kept[matches.at]
    left = matches.valid[0].index_fill(0, partners.truth[pair], False)
    wrong = matches.flags(0, place)[1] & kept
    return matches.at[pair], left.nonzero().squeeze(1), wrong.nonzero().squeeze(1)


def _reached(matches: Matches, place: int) -> float:
    """The IoU that a match reaches; below 0 where similarity is minus a distance."""
    least = float(matches.criteria.ascending[matches.criteria.rank[place]])
    return least if least < 0 else max(least, _LEAST)


def _pairs(
    settings: ShapeSettings, columns: Columns, iou_type: Kind, rows: Tensor, truths: Tensor, least: float
) -> Pairs:
    """All pairs of one image that overlap enough, as places in ``rows`` and ``truths``, both in order of images."""
    image, true_image = (
        image_of(columns[f"{side}s_per_image"])[x] for side, x in (("detection", rows), ("ground_truth", truths))
    )
    width = segments.count(true_image, len(columns["detections_per_image"]))
    near = (width[image] > 0).nonzero().squeeze(1)
    image = image[near]
    candidates = Candidates(near, segments.from_zero(width)[image], width[image], truths, true_image)
    no_crowd = torch.zeros_like(truths, dtype=torch.bool)
    pair_iou = settings.similarity(columns, iou_type, rows[near], truths, no_crowd)
    found = candidate_pairs.overlapping(candidates, pair_iou, least)
    return Pairs(near[found.detection], found.truth, found.iou)


def _preferred(pairs: Pairs, score: Tensor) -> Pairs:
    """Pairs by descending IoU, then by the score of the detection, in the order of detections and of ground truths."""
    place = torch.argsort(descending(score[pairs.detection]), stable=True)
    place = place[torch.argsort(pairs.iou[place], descending=True, stable=True)]
    return Pairs(*(x[place] for x in pairs))


def _counted(found: Tensor, detection: Tensor, truth: Tensor, detected: Tensor, true: Tensor, size: int) -> Tensor:
    """The matrix of the classes of true positives, of pairs of two classes, and of what these leave of both sides."""
    wide = size + 1
    missed, wrong = (torch.ones_like(x, dtype=torch.bool) for x in (true, detected))
    missed[truth], wrong[detection] = False, False
    others = true[truth] * wide + detected[detection], true[missed] * wide + size, size * wide + detected[wrong]
    return segments.count(torch.cat([found * (wide + 1), *others]), wide * wide).reshape(wide, wide)
