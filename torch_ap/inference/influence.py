r"""The influence functions of average precision: how much one more item like this would move it.

AP is a functional of the score distributions of hits and misses; with p_i = h_i / t_i at the end of each tie group,

.. math::
    \phi_+(x) = p(x) + \sum_{hits\ i:\ s_i \le x} (1 - p_i) / t_i, \qquad
    \phi_-(x) = -\frac{q}{m} \sum_{hits\ i:\ s_i \le x} p_i / t_i, \qquad
    \theta_\pi = \frac{1}{m} \sum_{hits\ i} \frac{h_i}{m}\, \frac{t_i - h_i}{q} \Big(\frac{n}{t_i}\Big)^2

are its derivatives in the distribution of the hits, in that of the misses, and in the share of hits. They are exact
with ties, and cost two cumulative sums over the hits after the sort.
"""

import numpy as np
import torch
from torch import Tensor

from torch_ap.inference.item_values import ItemValues, sum_from_below
from torch_ap.ranking import order, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array

_BLOCK = 1 << 13  # below the length from which BLAS starts threads of its own
_THREADED = 1 << 20


def influence(curve: HitCurve) -> ItemValues:
    """The phi of every item of each ranking (not centred: only differences have a meaning).

    Args:
        curve: S rankings, unweighted, tie groups as thresholds.
    """
    hits, t = segments.as_float64(curve.hits), segments.as_float64(curve.cumulative_items)
    p = segments.as_float64(curve.cumulative_hits) / t
    ratio = segments.as_float64(curve.n - curve.m) / segments.as_float64(curve.m)
    ratio = ratio if len(curve.m) == 1 else ratio[curve.segment]
    share = hits / t
    lost = sum_from_below(share * p, curve.offsets).mul_(-ratio)
    gained = sum_from_below(share.mul_(1 - p), curve.offsets).add_(p)
    none = torch.zeros_like(segments.as_float64(curve.m))
    return ItemValues(curve, gained, lost, none, none)


def prevalence_slope(curve: HitCurve) -> Tensor:
    """theta_pi, the derivative of AP in the share of hits m / n: (S,) float64; NaN without hits or without misses."""
    n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
    hits, h, t = (segments.as_float64(x) for x in (curve.hits, curve.cumulative_hits, curve.cumulative_items))
    total = segments.total(hits * h * (t - h) / (t * t), curve.offsets)
    return total * n * n / (m * m * (n - m))


def variance(curve: HitCurve, design: str) -> Tensor:
    """Var(AP) by influence functions: (S,) float64; NaN with fewer than two hits or two misses.

    Args:
        curve: S rankings, unweighted, tie groups as thresholds.
        design: "stratified" (m is fixed): var(phi+) / m + var(phi-) / q. "iid" (m is random) adds
            pi (1 - pi) theta_pi^2 / n.
    """
    if in_blocks(curve):
        of_hits, of_misses, slope = _of_blocks(curve)
        return of_hits + of_misses + (prevalence_variance(curve, slope) if design == "iid" else 0)
    values = influence(curve)
    fixed = values.of_hits().variance_of_mean + values.of_misses().variance_of_mean
    return fixed + prevalence_variance(curve, prevalence_slope(curve)) if design == "iid" else fixed


def prevalence_variance(curve: HitCurve, slope: Tensor) -> Tensor:
    """What the random number of hits adds to Var(AP) under design "iid", given theta_pi: (S,) float64."""
    n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
    share = m / n
    return share * (1 - share) * slope**2 / n


def acceleration(values: ItemValues) -> Tensor:
    """Efron's acceleration: a sixth of the skewness of the total influence, hits and misses as two samples: (S,)."""
    hits, misses = values.of_hits(), values.of_misses()
    cubes = hits.cubes / hits.count**3 + misses.cubes / misses.count**3
    squares = hits.squares / hits.count**2 + misses.squares / misses.count**2
    return torch.where(squares > 0, cubes / (6 * squares**1.5), 0)


def in_blocks(curve: HitCurve) -> bool:
    """Whether the variance is taken block by block of hits, so that none leaves the cache: of one ranking on CPU."""
    return len(curve.m) == 1 and len(curve.hits) > 0 and curve.m.device.type == "cpu"


def _of_blocks(curve: HitCurve) -> tuple[Tensor, Tensor, Tensor]:
    """Var(phi+) / m, var(phi-) / q, both with one degree of freedom less, and theta_pi, of one ranking: (1,) each.

    The means of phi are sums over the hits from the top, so they are known before the cumulative sums from the bottom:
    that of phi+ is the sum of (r / t) h (2 - p) over m, that of phi- minus that of (r / t) p (t - h) over m; and
    theta_pi is the second sum times n^2 / (m^2 q). A first pass adds up these and what each block passes on to those
    above it; a second adds up squared deviations.
    """
    columns = [x.numpy() for x in (curve.hits, curve.items, curve.hits_above, curve.items_above)]
    n, m = float(curve.n), float(curve.m)
    q = n - m
    size = len(columns[0])
    blocks = [slice(first, min(first + _BLOCK, size)) for first in range(0, size, _BLOCK)]
    threads = order.workers(size) if size >= _THREADED else 1
    first = np.array(order.in_threads(lambda block: _totals(*_of(columns, block)), blocks, threads))
    hits, misses, gained, lost = first.T
    means = hits.sum() / m, -misses.sum() / m
    carried = [np.append(x[::-1].cumsum()[::-1][1:], 0.0) for x in (gained, lost)]

    def squares(task: tuple[slice, float, float]) -> tuple[float, float]:
        block, *carry = task
        above = columns[3][block.start - 1] + columns[1][block.start - 1] if block.start else 0
        above -= columns[2][block.start - 1] + columns[0][block.start - 1] if block.start else 0
        return _squares(*_of(columns, block), float(above), carry[0], carry[1], -q / m, means)

    second = np.array(order.in_threads(squares, list(zip(blocks, *carried, strict=True)), threads)).sum(0)
    hits_seen, misses_seen = float(columns[0].sum()), float(curve.cumulative_items[-1] - curve.cumulative_hits[-1])
    of_hits = second[0] + (m - hits_seen) * means[0] ** 2
    of_misses = second[1] + (q - misses_seen) * means[1] ** 2
    return (
        _mean_variance(of_hits, m),
        _mean_variance(of_misses, q),
        torch.tensor([misses.sum() * n * n / (m * m * q) if q else np.nan], dtype=torch.float64),
    )


def _of(columns: list[Array], block: slice) -> tuple[Array, Array, Array]:
    """R, h and t of a block, as floats."""
    r, g, above, items_above = (x[block] for x in columns)
    return r.astype(np.float64), (above + r).astype(np.float64), (items_above + g).astype(np.float64)


def _totals(r: Array, h: Array, t: Array) -> tuple[float, ...]:
    """Sums of a block: of phi+, of -phi- m / q; and what it adds to both running sums."""
    share, p, misses = r / t, h / t, t - h
    lost = share * p
    gained = share - lost
    return float(h @ (share + gained)), float(lost @ misses), gained.sum(), lost.sum()


def _squares(
    r: Array, h: Array, t: Array, above: float, gained: float, lost: float, factor: float, means: tuple[float, float]
) -> tuple[float, float]:
    """Squared deviations of a block: over its hits, and over the misses that share a value with its groups."""
    share, p, misses = r / t, h / t, t - h
    passed = share * p
    of_hits = (share - passed)[::-1].cumsum()[::-1]
    of_hits += p
    of_hits += gained - means[0]
    of_misses = passed[::-1].cumsum()[::-1]
    of_misses += lost
    of_misses *= factor
    of_misses -= means[1]
    between = np.diff(misses, prepend=above)
    return float(r @ (of_hits * of_hits)), float(between @ (of_misses * of_misses))


def _mean_variance(squares: float, count: float) -> Tensor:
    return torch.tensor([squares / (count * (count - 1)) if count > 1 else np.nan], dtype=torch.float64)
