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
construction without a proof; ``benchmarks.coverage`` measures the coverage.

Source: Rubin (1981), The Bayesian Bootstrap; Ferguson (1973), A Bayesian Analysis of Some Nonparametric Problems, for
the prior of pseudo-items.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.inference.influence import count_misses
from torch_ap.inference.record import Ends
from torch_ap.inference.resampling import Resampling, curve_from_counts

_PSEUDO_COUNT = 0.5  # shape of the weight of a pseudo-item


@dataclass(frozen=True, eq=False)
class WeightedItems:
    """Items of one ranking by place, for draws of their weights.

    Attributes:
        counts: (G,) number of items in each cell. Without sampling weights, the cells are the hits of each of E tie
            groups, the hits never retrieved, the misses above each tie group, the misses below the last one, and, if
            any misses tie with hits, the misses of each tie group.
        entries: E.
        pseudo_count: shape of the gamma distribution of the weight of a pseudo-item; 0 for no pseudo-items.
    """

    counts: Array
    entries: int
    pseudo_count: float = _PSEUDO_COUNT

    @classmethod
    def from_curve(cls, curve: HitCurve) -> "WeightedItems":
        """Return the items of one ranking without weights."""
        between, below = count_misses(curve)
        tied = curve.items - curve.hits
        cells = [curve.hits, curve.m - curve.hits_seen, between - tied, below]
        cells += [tied] if bool((tied > 0).any()) else []
        return cls(torch.cat(cells).cpu().numpy(), len(curve.hits))

    def draw(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw the weights of the cells and of the three pseudo-items."""
        return rng.standard_gamma(self.counts), rng.standard_gamma(self.pseudo_count, 3)

    def curves(self, rngs: list[np.random.Generator]) -> tuple[HitCurve, HitCurve]:
        """Draw the curves of the lower end and of the upper end, one ranking per generator."""
        drawn, pseudo = (torch.from_numpy(np.stack(x)) for x in zip(*map(self.draw, rngs), strict=True))
        miss_on_top, hit_below, hit_on_top = pseudo.unsqueeze(2).unbind(1)
        none = torch.zeros_like(hit_below)
        return self._curve(drawn, none, miss_on_top, hit_below), self._curve(drawn, hit_on_top, none, none)

    def _curve(self, drawn: Tensor, hit_on_top: Tensor, miss_on_top: Tensor, hit_below: Tensor) -> HitCurve:
        """Return the curves of (b, G) weights with one tie group for each pseudo-hit."""
        size = self.entries
        hits, unseen, misses, tied = drawn.tensor_split([size, size + 1, 2 * size + 2], 1)
        none = torch.zeros_like(hit_below)
        hits = torch.cat([hit_on_top, hits, hit_below, unseen], 1)
        above = torch.cat([none, misses[:, :1] + miss_on_top, misses[:, 1:], none], 1)
        return curve_from_counts(hits, torch.cat([above, none, tied, none], 1) if tied.shape[1] else above)


def replicate_ends(
    items: WeightedItems,
    measure: Callable[[HitCurve], Tensor],
    confidence_level: float,
    resampling: Resampling,
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

    def evaluate(rngs: list[np.random.Generator]) -> Tensor:
        return torch.stack([measure(curve) for curve in items.curves(rngs)])

    values = torch.cat(resampling.map_tasks(evaluate, 16 * len(items.counts)), 1)
    tail = (1 - confidence_level) / 2
    values = values.clamp(max=1)  # sums of weights round
    low, high = torch.quantile(values[0], tail, dim=0), torch.quantile(values[1], 1 - tail, dim=0)
    return torch.minimum(low, high), torch.maximum(low, high)
