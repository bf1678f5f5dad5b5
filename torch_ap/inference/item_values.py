"""A number for every item of a ranking, held once for all items that share it.

What one item does to AP depends on its relevance and on which hits it stands above, so hits of one tie group share a
value, and so do all misses between two groups of hits. Moments over millions of items then cost O(hits).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve


@dataclass(frozen=True, eq=False)
class ItemValues:
    """One value per item of S rankings.

    Attributes:
        curve: the rankings; unweighted.
        hits: (E,) float64, value of each hit of the tie group.
        misses: (E,) value of each miss in the tie group, or above it and below the group before.
        hits_unseen: (S,) value of each relevant item that was never retrieved.
        misses_below: (S,) value of each miss below the last hit.
    """

    curve: HitCurve
    hits: Tensor
    misses: Tensor
    hits_unseen: Tensor
    misses_below: Tensor

    def of_hits(self) -> "Moments":
        """Moments over the m hits of each ranking."""
        seen = segments.as_float64(self.curve.hits)
        unseen = segments.as_float64(self.curve.m - self.curve.hits_seen)
        return _moments(self.hits, seen, self.hits_unseen, unseen, self.curve.offsets)

    def of_misses(self) -> "Moments":
        """Moments over the q misses of each ranking."""
        between, below = misses_of(self.curve)
        return _moments(
            self.misses, segments.as_float64(between), self.misses_below, segments.as_float64(below), self.curve.offsets
        )

    def of_items(self, scores: Tensor, relevant: Tensor) -> Tensor:
        """The value of each item of one ranking: (N,) of the dtype of the values.

        Args:
            scores: (N,) as the curve was made from.
            relevant: (N,) bool.
        """
        assert self.curve.score is not None
        ascending = _searchable(self.curve.score).flip(0)
        entry = len(ascending) - torch.searchsorted(ascending, _searchable(scores).contiguous(), right=True)
        table = torch.cat([self.misses, self.misses_below, self.hits, self.hits_unseen])
        return table[entry + relevant * (len(ascending) + 1)]


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean, and sums of squared and cubed deviations from the mean: (S,) float64 each."""

    count: Tensor
    mean: Tensor
    squares: Tensor
    cubes: Tensor

    @property
    def variance_of_mean(self) -> Tensor:
        """Var(values) / count, with count - 1 degrees of freedom; NaN for fewer than two values."""
        return torch.where(self.count > 1, self.squares / (self.count * (self.count - 1)), torch.nan)


def misses_of(curve: HitCurve) -> tuple[Tensor, Tensor]:
    """(E,) misses in each group or between it and the one before, and (S,) misses below the last: int64."""
    cumulative = curve.cumulative_items - curve.cumulative_hits
    before = torch.cat([cumulative.new_zeros(1), cumulative[:-1]])[: len(cumulative)]
    starts, ends = curve.offsets[:-1], curve.offsets[1:]
    filled = ends > starts
    before[starts[filled]] = 0
    last = torch.zeros_like(curve.n)
    last[filled] = cumulative[ends[filled] - 1]
    return cumulative - before, curve.n - curve.m - last


def sum_from_below(values: Tensor, offsets: Tensor) -> Tensor:
    """For each entry, the sum of the values from it to the end of its ranking."""
    total = values.flip(0).cumsum(0).flip(0)
    if len(offsets) == 2:
        return total
    beyond = torch.cat([total, total.new_zeros(1)])[offsets[1:]]
    return total - beyond[segments.ids(offsets)]


def _moments(values: Tensor, counts: Tensor, rest: Tensor, rest_count: Tensor, offsets: Tensor) -> Moments:
    count = segments.total(counts, offsets) + rest_count
    mean = (segments.total(counts * values, offsets) + rest_count * rest) / count
    deviation = values - (mean if len(offsets) == 2 else mean[segments.ids(offsets)])
    off = rest - mean
    square = counts * deviation * deviation
    squares = segments.total(square, offsets) + rest_count * off**2
    cubes = segments.total(square * deviation, offsets) + rest_count * off**3
    return Moments(count, mean, squares, cubes)


def _searchable(scores: Tensor) -> Tensor:
    """Scores in a dtype that can be searched."""
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
