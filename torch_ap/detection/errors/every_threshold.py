"""Counts and intervals of a detector at every score threshold, from running sums over the images."""

from typing import Any, NamedTuple

import numpy as np

from torch_ap.core.base import arrays
from torch_ap.detection.errors.matches_at import MatchesAt, detections_in_groups
from torch_ap.detection.errors.operating_points import ratio_ends
from torch_ap.inference.groups_at_threshold import ItemGroups

Array = np.ndarray[Any, Any]


class ThresholdNumbers(NamedTuple):
    """Numbers of S rankings at X thresholds, descending in each ranking: every score of a true positive, or given ones.

    Attributes:
        offsets: (S + 1,) offsets of the thresholds of each ranking.
        score: (X,) the thresholds.
        tp, fp: (X,) int64 numbers of detections with at least this score.
        m: (S,) int64 numbers of ground truths.
        low, high: (3, X) ends of the intervals of precision, recall and F1, as in ``operating_points``; NaN at every
            score with groups.
        groups: the detections of each ranking, for these intervals at some thresholds, if images are in groups.
    """

    offsets: Array
    score: Array
    tp: Array
    fp: Array
    m: Array
    low: Array
    high: Array
    groups: list[ItemGroups] | None = None


def numbers_at_every_threshold(
    at: MatchesAt, *, per_class: bool, confidence_level: float, thresholds: Array | None = None
) -> ThresholdNumbers:
    """Return the numbers of each class, or of one threshold for all classes.

    The variance of a ratio a / b is a sum over images of (a - r b)^2. Each detection changes the sums of squares and
    products of the counts of images by a known number, so cumulative sums give the variance at every threshold.

    Args:
        at: the matches.
        per_class: whether each class is a ranking.
        confidence_level: nominal coverage, in (0, 1).
        thresholds: (X,) descending thresholds of the ranking of all classes; None for every score of a true positive.
    """
    items, categories = at.items(per_class), at.matches.categories
    kept = items.before(items.categories[1:])
    hit, score, group = (
        _numpy(x) for x in (at.matches.flags(0, at.threshold_index)[0], items.score, at.matches.ranked.group)
    )
    hit, score, group = (x[_numpy(kept)] for x in (hit, score, group))
    truth_group = _numpy(at.matches.truth_group)[_numpy(items.truths)]
    size = categories if per_class else 1
    ranking, truth_ranking = (x % categories if per_class else 0 * x for x in (group, truth_group))
    order = np.lexsort((-score, ranking))
    hit, score, group, ranking = hit[order].astype(np.int64), score[order], group[order], ranking[order]
    if not per_class:
        group, truth_group = group // categories, truth_group // categories
    offsets = np.searchsorted(ranking, np.arange(size + 1))
    cells = int(max(group.max(initial=0), truth_group.max(initial=0))) + 1
    truths = np.bincount(truth_group, minlength=cells)
    n, tp, m = *_earlier_counts(group, hit), truths[group]  # of the image and class of each detection
    changes = np.stack(
        [hit, 1 - hit, hit * (2 * tp + 1), 2 * n + 1, tp + hit * (n + 1), hit * m, m, n == 0, (n == 0) & (m == 0)]
    )
    sums = np.concatenate([np.zeros((len(changes), 1), np.int64), changes.cumsum(1)], 1)
    if thresholds is None:
        ends = _ends_with_hits(score, ranking, sums[0])
        owner, thresholds = ranking[ends - 1], score[ends - 1]
    else:
        ends = np.searchsorted(-score, -thresholds.astype(score.dtype), side="right")
        owner = np.zeros_like(ends)
    tp, fp, tt, nn, tn, tm, nm, some_n, only_n = (sums[:, ends] - sums[:, offsets[owner]]).astype(np.float64)
    per_ranking = _truth_sums(truths, truth_group, truth_ranking, size)
    m, mm, some_m = (x[owner] for x in per_ranking)
    with np.errstate(all="ignore"):
        estimates = np.stack([tp / (tp + fp), tp / m, 2 * tp / (tp + fp + m)])
        precision, recall, f1 = estimates
        residual = np.stack(
            [
                tt - 2 * precision * tn + precision**2 * nn,
                tt - 2 * recall * tm + recall**2 * mm,
                tt - f1 * (tm + tn) + f1**2 / 4 * (mm + 2 * nm + nn),
            ]
        )
        whole, some = np.stack([tp + fp, m, (tp + fp + m) / 2]), np.stack([some_n, some_m, some_m + only_n])
        low, high = ratio_ends(estimates, residual, whole, some, np.stack([tp + fp, m, fp + m]), confidence_level)
    grouped = None
    if at.groups is not None:
        grouped = detections_in_groups(at.matches, 0, at.threshold_index, at.groups, per_class=per_class)
        low = high = np.full(low.shape, np.nan)
    tp, fp, relevant = (x.astype(np.int64) for x in (tp, fp, per_ranking[0]))
    starts = np.searchsorted(owner, np.arange(size + 1))
    return ThresholdNumbers(starts, thresholds, tp, fp, relevant, low, high, grouped)


def _numpy(values: Any) -> Array:
    array: Array = arrays.tensor(values).cpu().numpy()
    return array


def _earlier_counts(cell: Array, hit: Array) -> tuple[Array, Array]:
    """Return how many detections, and how many hits, of the same cell are before each detection."""
    order = np.argsort(cell, kind="stable")
    first = np.searchsorted(cell[order], cell[order])
    before = np.concatenate([[0], hit[order].cumsum()])
    n, tp = np.empty((2, len(cell)), np.int64)
    n[order] = np.arange(len(cell)) - first
    tp[order] = before[:-1] - before[first]
    return n, tp


def _ends_with_hits(score: Array, ranking: Array, hits: Array) -> Array:
    """Return the ends of the groups of equal scores in a ranking that contain a hit, from (N + 1,) running counts."""
    is_last = np.append((score[1:] != score[:-1]) | (ranking[1:] != ranking[:-1]), True)[: len(score)]
    ends = is_last.nonzero()[0] + 1
    return ends[np.diff(hits[ends], prepend=0) > 0]


def _truth_sums(truths: Array, group: Array, ranking: Array, size: int) -> tuple[Array, Array, Array]:
    """Return the (S,) ground truths, their sums of squares over cells, and the numbers of cells with any."""
    cell, first = np.unique(group, return_index=True)
    rows, owner = truths[cell].astype(np.float64), ranking[first]
    m, mm, some = (np.bincount(owner, x, minlength=size) for x in (rows, rows**2, rows > 0))
    return m, mm, some
