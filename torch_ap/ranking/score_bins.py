"""Rankings of any length in bounded memory: counts of hits and items between scores, learnt in one pass.

A bin holds all items of one ranking whose scores lie between its least and its greatest. Bins of a ranking do not
overlap, so that the order of items in different bins is known, and only that inside a bin is not. While there are fewer
different scores than bins, each score has a bin of its own and nothing is lost. When there are more, neighbours are
merged, the finer the nearer they are to the top, where a rank weighs most: bins of equal width on the scale of
C log(1 + t / C) of the rank t. Scores that lie in no bin make new ones, so that it does not matter in which order they
come. Of several rankings those with the most bins are merged first, so that short ones stay exact.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array
from torch_ap.rules import checks
from torch_ap.rules.messages import refuse

_NAMES = ("ranking", "low", "high", "items", "hits")


class ScoreBins:
    """Counts of hits and items in at most so many bins, ascending by ranking and score.

    Args:
        most: the number of bins of all rankings together, at least 2.

    Attributes:
        ranking: (B,) int64, which ranking each bin is of.
        low, high: (B,) the least and the greatest score of each bin, in the dtype of the scores.
        items, hits: (B,) int64, or float64 sums of weights.
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
            ranking: (N,) int64 of at least 0, the ranking of each item; None for one of all.

        Raises:
            ValueError: for more rankings than bins.
        """
        values, of, place = _distinct(scores.numpy(), None if ranking is None else ranking.numpy())
        held = len(self.low)
        parts = (of, values, values, *(_counted(place, len(values), x) for x in _amounts(relevant, weights)))
        columns = {
            name: np.concatenate([getattr(self, name).astype(x.dtype), x])
            for name, x in zip(_NAMES, parts, strict=True)
        }
        # where a bin and a score are equal, the bin comes first
        order = np.lexsort((columns["low"], columns["ranking"]))
        for name, column in columns.items():
            setattr(self, name, column[order])
        self._join(_into_the_bin_before(order < held, self.ranking, self.low, self.high))
        if len(self.low) > self.most:
            self._merge()

    def _join(self, joins: Array) -> None:
        """Each entry that joins the one before becomes a part of it."""
        first = np.flatnonzero(~joins)
        if len(first) == len(joins):
            return
        self.ranking, self.low = self.ranking[first], self.low[first]
        self.high = np.maximum.reduceat(self.high, first)
        self.items, self.hits = (np.add.reduceat(x, first) for x in (self.items, self.hits))

    def _merge(self) -> None:
        """Merge neighbours until about half of the bins are left, so that the next scores find room."""
        starts = np.flatnonzero(np.diff(self.ranking, prepend=-1))
        sizes = np.diff(starts, append=len(self.ranking))
        if len(sizes) > self.most:
            refuse("bins", f"must be at least as many as the rankings, {len(sizes)}", self.most)
        kept = _most_of_each(sizes, max(self.most // 2, len(sizes)))
        ends = np.maximum(self.items, 0).astype(np.float64).cumsum()
        end = np.repeat(ends[starts + sizes - 1], sizes)
        above = end - ends  # of each bin: how much lies in higher ones
        total = np.diff(ends[starts + sizes - 1], prepend=0)
        width = np.repeat(_width(total, float(kept)), sizes)
        step = np.floor(width * np.log1p(above / width))
        joins = np.concatenate([[False], (step[1:] == step[:-1]) & (self.ranking[1:] == self.ranking[:-1])])
        self._join(joins & np.repeat(sizes > kept, sizes))

    def curve(self, rankings: int = 1) -> HitCurve:
        """The rankings with the items of each bin tied: an entry per bin that holds a hit, the highest first.

        Args:
            rankings: S, how many there are, those without items included.
        """
        order = self._highest_first()
        ranking, hits, items = (torch.from_numpy(x[order]) for x in (self.ranking, self.hits, self.items))
        offsets = segments.from_counts(segments.count(ranking, rankings))
        ends = [segments.cumulative(x, offsets) for x in (hits, items)]
        n, m = (segments.total(x, offsets) for x in (items, hits))
        kept = hits > 0
        return HitCurve(
            hits=hits[kept],
            items=items[kept],
            hits_above=(ends[0] - hits)[kept],
            items_above=(ends[1] - items)[kept],
            score=None,
            offsets=segments.from_counts(segments.count(ranking[kept], rankings)),
            n=n,
            m=m,
        )

    def mixed(self) -> Tensor:
        """(E,) bool, for each entry of the curve: whether its bin holds different scores, whose order is not known."""
        order = self._highest_first()
        return torch.from_numpy((self.low != self.high)[order][self.hits[order] > 0])

    def _highest_first(self) -> Array:
        found: Array = len(self.ranking) - 1 - np.argsort(self.ranking[::-1], kind="stable")
        return found


def _distinct(scores: Array, ranking: Array | None) -> tuple[Array, Array, Array]:
    """The different scores of each ranking, and that; and which of them each item has."""
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


def _into_the_bin_before(held: Array, ranking: Array, low: Array, high: Array) -> Array:
    """Of bins and new scores in order: which new scores lie in the last bin before them."""
    last = np.maximum.accumulate(np.where(held, np.arange(len(held)), -1))
    inside = ~held & (last >= 0)
    inside &= (ranking[last] == ranking) & (low <= high[last])
    return inside


def _amounts(relevant: Tensor, weights: Tensor | None) -> Iterator[Any]:
    """What each item adds to the items and to the hits; None for one each."""
    hit = relevant.numpy() == 1
    yield None if weights is None else weights.numpy()
    yield hit if weights is None else np.where(hit, weights.numpy(), 0.0)


def _counted(place: Array, size: int, amount: Any) -> Array:
    found = np.bincount(place, amount, size)
    return found if amount is not None and amount.dtype == np.float64 else np.rint(found).astype(np.int64)


def _most_of_each(sizes: Array, total: int) -> int:
    """The largest number of bins of a ranking with which all have at most ``total``; at least 1."""
    low, high = 1, int(sizes.max())
    while low < high:
        middle = (low + high + 1) // 2
        fits = np.minimum(sizes, middle).sum() <= total
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _width(total: Array, bins: float) -> Array:
    """C, of which bins of width 1 on the scale C log(1 + t / C) are as many as wanted for all ranks; by bisection."""
    low, high = np.full_like(total, 1e-6), np.full_like(total, bins)
    for _ in range(60):
        middle = (low + high) / 2
        fits = middle * np.log1p(total / middle) < bins
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return high
