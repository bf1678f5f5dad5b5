"""The variance of one long ranking's AP by influence functions, block by block of hits, so that none leaves the cache.

The means of phi are sums over the hits from the top, so they are known before the cumulative sums from the bottom:

    sum of phi+ over hits = sum of (r / t) h (2 - p),      sum of phi- over misses = -(q / m) sum of (r / t) p (t - h)

and theta_pi is the second of them once more, times n^2 / (m^2 q).

A first pass adds up these and what each block passes on to those above it; a second adds up squared deviations.
"""

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import order
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array

_BLOCK = 1 << 13  # below the length from which BLAS starts threads of its own
_THREADED = 1 << 20


def applies(curve: HitCurve) -> bool:
    """Whether it is one ranking on CPU, with a hit."""
    return len(curve.m) == 1 and len(curve.hits) > 0 and curve.m.device.type == "cpu"


def moments(curve: HitCurve) -> tuple[Tensor, Tensor, Tensor]:
    """Var(phi+) / m, var(phi-) / q, both with one degree of freedom less, and theta_pi, of one ranking: (1,) each."""
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
    seen, through = float(columns[0].sum()), float(curve.cumulative_items[-1] - curve.cumulative_hits[-1])
    of_hits = second[0] + (m - seen) * means[0] ** 2
    of_misses = second[1] + (q - through) * means[1] ** 2
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
