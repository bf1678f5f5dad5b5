"""Rankings of any length in bounded memory: counts of hits and items between scores, learnt in one pass.

A bin contains all items of one ranking whose scores are between its lowest and its highest score. Bins of a ranking do
not overlap, so only the order inside a bin is unknown. While there are fewer distinct scores than bins, each score has
its own bin and nothing is lost. Otherwise neighbours are merged. Bins near the top stay finer, because errors of high
ranks change a measure most: bins have equal width on the scale C log(1 + t / C) of the rank t. Scores outside all bins
create new bins, so scores may come in any order. The bins of the rankings with the most bins are merged first, so that
short rankings stay exact.
"""

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve, drop_groups_without_hits
from torch_ap.core.ranking.order import Array

_NAMES = ("ranking", "low", "high", "items", "hits")


class ScoreBins:
    """Counts of hits and items in at most ``most`` bins, ascending by ranking and score.

    Args:
        most: the number of bins of all rankings together, at least 2.

    Attributes:
        ranking: (B,) int64, the ranking of each bin.
        low: (B,) the lowest score of each bin, in the dtype of the scores.
        high: (B,) the highest score of each bin, likewise.
        items: (B,) int64, or float64 sums of weights.
        hits: (B,) likewise.
    """

    def __init__(self, most: int) -> None:
        self.most = checks.positive_int("bins", most, least=2)
        self.ranking: Array = np.empty(0, np.int64)
        self.low: Array = np.empty(0, np.float32)
        self.high: Array = np.empty(0, np.float32)
        self.items: Array = np.empty(0, np.int64)
        self.hits: Array = np.empty(0, np.int64)

    def add(
        self, scores: Tensor, relevant: Tensor, weights: Tensor | None = None, ranking: Tensor | None = None
    ) -> None:
        """Count items.

        Args:
            scores: (N,), no NaN; of one dtype in all calls.
            relevant: (N,) of 0 and 1.
            weights: (N,) float64, in all calls or in none.
            ranking: (N,) int64 of at least 0, the ranking of each item; None for a single ranking.

        Raises:
            ValueError: for more rankings than bins.
        """
        values, rankings, place = _distinct_scores(scores.numpy(), None if ranking is None else ranking.numpy())
        old_bins = len(self.low)
        hit = relevant.numpy() == 1
        if weights is None:
            items, hits = (np.bincount(x, minlength=len(values)) for x in (place, place[hit]))
        else:
            amounts = weights.numpy()
            items, hits = (np.bincount(place, x, len(values)) for x in (amounts, np.where(hit, amounts, 0.0)))
        parts = (rankings, values, values, items, hits)
        columns = {
            name: np.concatenate([getattr(self, name).astype(x.dtype), x])
            for name, x in zip(_NAMES, parts, strict=True)
        }
        # a bin comes before an equal score
        order = np.lexsort((columns["low"], columns["ranking"]))
        for name, column in columns.items():
            setattr(self, name, column[order])
        self._join(_is_inside_previous_bin(order < old_bins, self.ranking, self.low, self.high))
        if len(self.low) > self.most:
            self._merge()

    def _join(self, joins: Array) -> None:
        """Merge each entry with ``joins`` into the entry before."""
        first = np.flatnonzero(~joins)
        if len(first) == len(joins):
            return
        self.ranking, self.low = self.ranking[first], self.low[first]
        self.high = np.maximum.reduceat(self.high, first)
        self.items, self.hits = (np.add.reduceat(x, first) for x in (self.items, self.hits))

    def _merge(self) -> None:
        """Merge neighbours until about half of the bins are left, so that the next scores fit."""
        starts = np.flatnonzero(np.diff(self.ranking, prepend=-1))
        sizes = np.diff(starts, append=len(self.ranking))
        if len(sizes) > self.most:
            raise_invalid("bins", f"must be at least the number of rankings, {len(sizes)}", self.most)
        limit = _max_bins_per_ranking(sizes, max(self.most // 2, len(sizes)))
        ends = np.maximum(self.items, 0).astype(np.float64).cumsum()
        end = np.repeat(ends[starts + sizes - 1], sizes)
        above = end - ends  # amount in the bins above each bin
        total = np.diff(ends[starts + sizes - 1], prepend=0)
        width = np.repeat(_width(total, float(limit)), sizes)
        step = np.floor(width * np.log1p(above / width))
        joins = np.concatenate([[False], (step[1:] == step[:-1]) & (self.ranking[1:] == self.ranking[:-1])])
        self._join(joins & np.repeat(sizes > limit, sizes))

    def curve(self, rankings: int = 1) -> HitCurve:
        """Return the curves of the rankings; each bin with a hit is a tie group, highest first.

        Args:
            rankings: S, the number of rankings, empty ones included.
        """
        order = self._highest_first()
        ranking, hits, items = (torch.from_numpy(x[order]) for x in (self.ranking, self.hits, self.items))
        offsets = segments.from_counts(segments.count(ranking, rankings))
        ends = [segments.cumulative(x, offsets) for x in (hits, items)]
        n, m = (segments.total(x, offsets) for x in (items, hits))
        curve = HitCurve(hits, items, ends[0] - hits, ends[1] - items, None, offsets, n, m)
        return drop_groups_without_hits(curve)

    def mixed(self) -> Tensor:
        """Return whether the bin of each entry of the curve contains distinct scores, (E,) bool."""
        order = self._highest_first()
        return torch.from_numpy((self.low != self.high)[order][self.hits[order] > 0])

    def _highest_first(self) -> Array:
        order: Array = len(self.ranking) - 1 - np.argsort(self.ranking[::-1], kind="stable")
        return order


def _distinct_scores(scores: Array, ranking: Array | None) -> tuple[Array, Array, Array]:
    """Return the distinct scores of each ranking, the ranking of each, and the index of each item among them."""
    if ranking is None:
        values, place = np.unique(scores, return_inverse=True)
        return values, np.zeros(len(values), np.int64), place
    order = np.lexsort((scores, ranking))
    scores, ranking = scores[order], ranking[order]
    new = np.ones(len(order), bool)
    new[1:] = (scores[1:] != scores[:-1]) | (ranking[1:] != ranking[:-1])
    place = np.empty(len(order), np.int64)
    place[order] = new.cumsum() - 1
    return scores[new], ranking[new], place


def _is_inside_previous_bin(is_bin: Array, ranking: Array, low: Array, high: Array) -> Array:
    """Return the new scores that are inside the last bin before them, for bins and new scores in joint order.

    Args:
        is_bin: (X,) bool, true for bins, false for new scores.
        ranking: (X,) rankings.
        low: (X,) lowest scores.
        high: (X,) highest scores.
    """
    last = np.maximum.accumulate(np.where(is_bin, np.arange(len(is_bin)), -1))
    inside = ~is_bin & (last >= 0)
    inside &= (ranking[last] == ranking) & (low <= high[last])
    return inside


def _max_bins_per_ranking(sizes: Array, total: int) -> int:
    """Return the largest limit of bins per ranking, at least 1, so that all rankings have at most ``total`` bins."""
    low, high = 1, int(sizes.max())
    while low < high:
        middle = (low + high + 1) // 2
        fits = np.minimum(sizes, middle).sum() <= total
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _width(total: Array, bins: float) -> Array:
    """Return the C that solves C log(1 + total / C) = bins, by bisection."""
    low, high = np.full_like(total, 1e-6), np.full_like(total, bins)
    for _ in range(60):
        middle = (low + high) / 2
        fits = middle * np.log1p(total / middle) < bins
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return high
