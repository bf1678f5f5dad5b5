"""A ranking of any length in bounded memory: counts of hits and items between scores, learnt in one pass.

A bin holds all items whose scores lie between its least and its greatest. Bins do not overlap, so that the order of
items in different bins is known, and only that inside a bin is not. While there are fewer different scores than bins,
each score has a bin of its own and nothing is lost. When there are more, neighbours are merged, the finer the nearer
they are to the top, where a rank weighs most: bins of equal width on the scale of C log(1 + t / C) of the rank t.
Scores that lie in no bin make new ones, so that it does not matter in which order they come.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import hit_curve
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array
from torch_ap.rules import checks


class ScoreBins:
    """Counts of hits and items in at most so many bins, ascending by score.

    Args:
        most: the number of bins, at least 2.

    Attributes:
        low, high: (B,) the least and the greatest score of each bin, in the dtype of the scores.
        items, hits: (B,) int64, or float64 sums of weights.
    """

    def __init__(self, most: int) -> None:
        self.most = checks.positive_int("bins", most, least=2)
        self.low: Array = np.empty(0, np.float32)
        self.high: Array = np.empty(0, np.float32)
        self.items: Array = np.empty(0, np.int64)
        self.hits: Array = np.empty(0, np.int64)

    def add(self, scores: Tensor, relevant: Tensor, weights: Tensor | None = None) -> None:
        """Count items.

        Args:
            scores: (N,), no NaN; of one dtype in all calls.
            relevant: (N,) of 0 and 1.
            weights: (N,) float64, in all calls or in none.
        """
        values, place = np.unique(scores.numpy(), return_inverse=True)
        sums = [_counted(place, len(values), x) for x in _amounts(relevant, weights)]
        at = np.searchsorted(self.low, values, side="right") - 1
        inside = np.zeros(len(values), bool)
        if len(self.low):
            inside = (at >= 0) & (values <= self.high[at])
        for name, amount in zip(("items", "hits"), sums, strict=True):
            held = getattr(self, name).astype(amount.dtype)
            np.add.at(held, at[inside], amount[inside])
            setattr(self, name, np.concatenate([held, amount[~inside]]))
        self.low, self.high = (np.concatenate([x.astype(values.dtype), values[~inside]]) for x in (self.low, self.high))
        order = np.argsort(self.low, kind="stable")
        self.low, self.high, self.items, self.hits = (x[order] for x in (self.low, self.high, self.items, self.hits))
        if len(self.low) > self.most:
            self._merge()

    def _merge(self) -> None:
        """Merge neighbours until half of the bins are left, so that the next scores find room."""
        counts = np.maximum(self.items, 0).astype(np.float64)
        below = counts.cumsum()
        above = below[-1] - below  # of each bin: how much lies in higher ones
        width = _width(below[-1], self.most // 2)
        step = np.floor(width * np.log1p(above / width))
        first = np.flatnonzero(np.concatenate([[True], step[1:] != step[:-1]]))
        last = np.append(first[1:], len(step)) - 1
        self.low, self.high = self.low[first], self.high[last]
        self.items, self.hits = (np.add.reduceat(x, first) for x in (self.items, self.hits))

    def curve(self) -> HitCurve:
        """The ranking with the items of each bin tied: an entry per bin that holds a hit, the highest first."""
        hits, items = (torch.from_numpy(x[::-1].copy())[None] for x in (self.hits, self.items))
        return hit_curve.from_bins(hits, items, n=items.sum(1), m=hits.sum(1))

    def mixed(self) -> Tensor:
        """(E,) bool, for each entry of the curve: whether its bin holds different scores, whose order is not known."""
        return torch.from_numpy((self.low != self.high)[self.hits > 0][::-1].copy())


def _amounts(relevant: Tensor, weights: Tensor | None) -> Iterator[Any]:
    """What each item adds to the items and to the hits; None for one each."""
    hit = relevant.numpy() == 1
    yield None if weights is None else weights.numpy()
    yield hit if weights is None else np.where(hit, weights.numpy(), 0.0)


def _counted(place: Array, size: int, amount: Any) -> Array:
    found = np.bincount(place, amount, size)
    return found if amount is not None and amount.dtype == np.float64 else np.rint(found).astype(np.int64)


def _width(total: float, bins: int) -> float:
    """C, of which bins of width 1 on the scale C log(1 + t / C) are as many as wanted for all ranks; by bisection."""
    low, high = 1e-6, float(bins)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * np.log1p(total / middle) < bins else (low, middle)
    return high
