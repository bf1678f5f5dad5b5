r"""Intervals by Dirichlet weights with pseudo-items, for measures and samples where the delta method fails.

Every item has a random weight with the exponential distribution: the Bayesian bootstrap (Rubin 1981). All misses
between two hits matter only by their total weight, which has the gamma distribution of their number. So a draw takes
O(m) operations for m hits, also with ties. A measure of a draw is the measure of a weighted hit curve.

A sample does not show all scores of the population. So the ends of an interval come from draws with pseudo-items. The
weight of a pseudo-item has the distribution Gamma(1/2):

- the lower end is the alpha / 2 quantile of the measure with a pseudo-miss above all items and a pseudo-hit below them;
- the upper end is the 1 - alpha / 2 quantile of the measure with a pseudo-hit above all items.

For one hit below b of q misses, the share of the misses above the hit is Beta(b + 1/2, q - b) at the lower end, as in
Jeffreys' interval, and Beta(b, q - b) at the upper end, as in the interval of Clopper & Pearson (1934). The ends are in
[0, 1] for every measure with values in [0, 1], and exist for a single hit and for AP = 1. The pseudo-items are a
construction without a proof; ``benchmarks.coverage`` measures the coverage. The ends are quantiles of
random draws: with other random numbers they move, by about 2% of the width of the interval with 1,000 draws.

Items that were sampled with known probabilities have a sampling weight, the reciprocal of the probability, which
multiplies their random weight. The pseudo-hits have the greatest sampling weight of a hit, and the pseudo-miss has the
greatest sampling weight of a miss above the median hit.

Source: Rubin (1981), The Bayesian Bootstrap; Ferguson (1973), A Bayesian Analysis of Some Nonparametric Problems, for
the prior of pseudo-items; Fay & Feuer (1997) for the greatest weight.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.inference.influence import count_misses
from torch_ap.inference.record import Ends
from torch_ap.inference.resampling import Resampling, curve_from_counts, group_items

_PSEUDO_COUNT = 0.5  # shape of the weight of a pseudo-item
_MARGIN, _MORE_RANKS = 8, 50  # standard deviations of the rank of the cut in a draw, and ranks for a small k


@dataclass(frozen=True, eq=False)
class WeightedItems:
    """Items of one ranking by place, for draws of their weights.

    A cell contains the items with one place and one sampling weight. The places are the hits of each of E tie groups,
    the hits never retrieved, the misses above each tie group, the misses below the last one, and, if any misses tie
    with hits, the misses of each tie group.

    Attributes:
        counts: (G,) number of items in each cell.
        weights: (G,) float64 sampling weight of the items of each cell, above 0.
        places: (G,) place of each cell.
        entries: E.
        width: number of places.
        pseudo_count: shape of the gamma distribution of the weight of a pseudo-item; 0 for no pseudo-items.
    """

    counts: Array
    weights: Array
    places: Array
    entries: int
    width: int
    pseudo_count: float = _PSEUDO_COUNT

    @classmethod
    def from_curve(cls, curve: HitCurve) -> "WeightedItems":
        """Return the items of one ranking without weights; hits below its entries count as never retrieved."""
        between, below = count_misses(curve)
        tied = curve.items - curve.hits
        counts = [curve.hits, curve.m - curve.total(curve.hits), between - tied, below]
        counts += [tied] if bool((tied > 0).any()) else []
        cells = torch.cat(counts).cpu().numpy()
        return cls(cells, np.ones(len(cells)), np.arange(len(cells)), len(curve.hits), len(cells))

    @classmethod
    def from_items(cls, curve: HitCurve, scores: Tensor, relevant: Tensor, weights: Tensor) -> "WeightedItems":
        """Return the items of one ranking that were sampled with known probabilities.

        Args:
            curve: the ranking of the weighted items.
            scores: (N,) scores from which the curve was made.
            relevant: (N,) bool.
            weights: (N,) reciprocals of the probabilities, up to a factor; above 0.
        """
        grouped = group_items(curve, scores, relevant, split_ties=True)
        place, weight = grouped.group.cpu().numpy(), segments.as_float64(weights).cpu().numpy()
        order = np.lexsort((weight, place))
        place, weight = place[order], weight[order]
        first = np.flatnonzero(np.append(True, (np.diff(place) != 0) | (np.diff(weight) != 0)))
        counts = np.diff(np.append(first, len(place)))
        return cls(counts, weight[first], place[first], len(curve.hits), sum(grouped.sizes))

    @cached_property
    def pseudo_weights(self) -> Array:
        """The sampling weights of the pseudo-items: the miss on top, the hit below, the hit on top."""
        is_hit = (self.places <= self.entries) & (self.counts > 0)
        hit, misses = self.weights[is_hit].max(initial=0), self._misses_above_median_hit
        if not misses.any():  # the weight of the highest misses
            is_miss = ~is_hit & (self.counts > 0)
            misses = is_miss & (self._rank == self._rank[is_miss].min(initial=self.width))
        return np.array([self.weights[misses].max(initial=0) or hit, hit, hit])

    @property
    def effective_misses(self) -> float:
        """Kish's effective number of misses above the median hit, or tied with it: (sum of w)^2 / sum of w^2."""
        counts, weights = (x[self._misses_above_median_hit] for x in (self.counts, self.weights))
        return float((counts * weights).sum() ** 2 / (counts * weights**2).sum()) if counts.sum() else 0.0

    @property
    def _rank(self) -> Array:
        """The tie group of each cell of misses, or the first tie group below it."""
        rank = self.places - self.entries - 1
        return np.where(rank > self.entries, rank - self.entries - 1, rank)

    @property
    def _misses_above_median_hit(self) -> Array:
        """Whether each cell contains misses above the hit at half the weight of all hits, or tied with it."""
        sums = np.bincount(self.places, self.counts * self.weights, minlength=self.width)[: self.entries + 1]
        median = np.searchsorted(sums.cumsum(), sums.sum() / 2)
        above: Array = (self.places > self.entries) & (self.counts > 0) & (self._rank <= median)
        return above

    def draw(self, rng: "np.random.Generator") -> tuple[Array, Array]:
        """Draw the weights of the places and of the three pseudo-items."""
        weights = rng.standard_gamma(self.counts) * self.weights
        return np.bincount(self.places, weights, minlength=self.width), self.draw_pseudo_items(rng)

    def curves(self, rngs: "list[np.random.Generator]") -> tuple[HitCurve, HitCurve]:
        """Draw the curves of the lower end and of the upper end, one ranking per generator."""
        return self.curves_of_weights(*map(np.stack, zip(*map(self.draw, rngs), strict=True)))

    def curves_of_weights(self, weights: Array, pseudo: Array) -> tuple[HitCurve, HitCurve]:
        """Return the curves of the lower end and of the upper end.

        Args:
            weights: (b, width) weights of the places.
            pseudo: (b, 3) weights of the pseudo-items: the miss on top, the hit below, the hit on top.
        """
        drawn = torch.from_numpy(weights)
        miss_on_top, hit_below, hit_on_top = torch.from_numpy(pseudo).unsqueeze(2).unbind(1)
        none = torch.zeros_like(hit_below)
        return self._curve(drawn, none, miss_on_top, hit_below), self._curve(drawn, hit_on_top, none, none)

    def plain_curve(self, weights: Array) -> HitCurve:
        """Return the curves of (b, width) weights of the places without pseudo-items."""
        none = torch.zeros(len(weights), 1, dtype=torch.float64)
        return self._curve(torch.from_numpy(weights), none, none, none)

    def draw_pseudo_items(self, rng: "np.random.Generator") -> Array:
        """Draw the weights of the three pseudo-items."""
        pseudo: Array = rng.standard_gamma(self.pseudo_count, 3) * self.pseudo_weights
        return pseudo

    def _curve(self, drawn: Tensor, hit_on_top: Tensor, miss_on_top: Tensor, hit_below: Tensor) -> HitCurve:
        """Return the curves of the weights of places, with one tie group for each pseudo-hit."""
        size = self.entries
        hits, unseen, misses, tied = drawn.tensor_split([size, size + 1, 2 * size + 2], 1)
        none = torch.zeros_like(hit_below)
        hits = torch.cat([hit_on_top, hits, hit_below, unseen], 1)
        above = torch.cat([none, misses[:, :1] + miss_on_top, misses[:, 1:], none], 1)
        return curve_from_counts(hits, torch.cat([above, none, tied, none], 1) if tied.shape[1] else above)


def deepest_rank(k: int) -> int:
    """Return a rank beyond which no draw has its cut at the share of the top k."""
    return k + int(_MARGIN * math.sqrt(k)) + _MORE_RANKS


def replicate_ends(
    items: WeightedItems, measure: Callable[[HitCurve], Tensor], confidence_level: float, resampling: Resampling
) -> Ends:
    """Return the lower and the upper end of the interval of a measure.

    Args:
        items: the items of one ranking, at least one of them a hit.
        measure: function of a weighted curve of b rankings that returns (b, ...) values of at most 1, such as
            ``Convention()`` or the measures of :mod:`torch_ap.core.measures.top_share`. All measures of the same items
            and settings use the same draws.
        confidence_level: nominal coverage.
        resampling: number of draws, generator and memory limit.

    Returns:
        Two (...) float64 CPU tensors.
    """
    low, high = replicates(items, measure, resampling)
    tail = (1 - confidence_level) / 2
    low, high = torch.quantile(low, tail, dim=0), torch.quantile(high, 1 - tail, dim=0)
    return torch.minimum(low, high), torch.maximum(low, high)


def replicates(
    items: WeightedItems, measure: Callable[[HitCurve], Tensor], resampling: Resampling
) -> tuple[Tensor, Tensor]:
    """Return the values of a measure in the draws of the lower end and of the upper end, (B, ...) each.

    Args:
        items: as for :func:`replicate_ends`.
        measure: as for :func:`replicate_ends`.
        resampling: number of draws, generator and memory limit.
    """

    def evaluate(rngs: list[np.random.Generator]) -> Tensor:
        return torch.stack([measure(curve) for curve in items.curves(rngs)])

    low, high = torch.cat(resampling.map_tasks(evaluate, 16 * len(items.counts)), 1).clamp(max=1)  # sums round
    return low, high
