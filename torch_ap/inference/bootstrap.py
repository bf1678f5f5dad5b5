"""Bootstrap replicates of average precision, and the intervals read off them.

A resample of hits and misses is a vector of counts over the groups of the sorted data; a batch of resamples is one
curve of many rankings. A duplicated hit ties with itself, which biases the replicates upward a little.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from torch_ap.inference.interval import Ends
from torch_ap.inference.item_values import misses_of
from torch_ap.inference.resampling import Resampling, generators, multinomial, multinomial_on_device, rows
from torch_ap.inference.student import normal_quantile
from torch_ap.ranking import segments
from torch_ap.ranking.counting import of_rows
from torch_ap.ranking.hit_curve import HitCurve


def replicates(curve: HitCurve, measure: Callable[[HitCurve], Tensor], design: str, resampling: Resampling) -> Tensor:
    """A measure of B resamples of one ranking: (B, ...) float64; AP is NaN for a resample without hits.

    Args:
        curve: one unweighted ranking.
        measure: of many rankings, such as a convention; one that reads a curve at the ends of tie groups only.
        design: "stratified" draws m hits and q misses; "iid" draws n items, so that the number of hits varies.
        resampling: how many, from which generator, in how much memory.
    """
    between, below = misses_of(curve)
    hits = torch.cat([curve.hits, curve.m - curve.hits_seen])
    misses = torch.cat([between, below])
    n = int(curve.n)
    if curve.m.device.type != "cpu":
        draw = partial(_drawn_on_device, resampling.on(curve.m.device), hits, misses, design)
        drawn = resampling.drawn_on_device(8 * len(hits) + n, draw)
    else:
        seed, draws = resampling.seed(), n if design == "iid" else 0
        drawn = (_drawn(seed, span, hits, misses, draws) for span in resampling.batches(8 * len(hits)))
    return torch.cat([measure(curve_of_counts(*counts)) for counts in drawn])


def curve_of_counts(hits: Tensor, misses: Tensor) -> HitCurve:
    """Resamples as rankings: (b, E + 1) counts each, the last column of what stands below the last group."""
    seen, items = hits[:, :-1], (hits + misses)[:, :-1]
    hits_above, items_above = (segments.from_zero(x)[:, :-1] for x in (seen, items))
    whole = torch.tensor([0, seen.shape[1]], device=hits.device)
    n, m = (hits + misses).sum(1, keepdim=True), hits.sum(1, keepdim=True)
    return of_rows(seen, items, hits_above, items_above, whole, n, m)


def standard_error(values: Tensor) -> Tensor:
    """Standard deviation of the replicates that have a value, 0-d."""
    known = values[~torch.isnan(values)]
    return known.std() if len(known) > 1 else known.new_full((), torch.nan)


def two_sided(gaps: Tensor) -> float:
    """The p-value of no difference: twice the share of its replicates on the rarer side of 0, (b + 1) / (B + 1)."""
    known = gaps[~torch.isnan(gaps)]
    beyond = min(int((known <= 0).sum()), int((known >= 0).sum()))
    return min(1.0, 2 * (beyond + 1) / (len(known) + 1))


def percentile(values: Tensor, confidence_level: float) -> Ends:
    """The central share ``confidence_level`` of the replicates (Efron 1979)."""
    tail = (1 - confidence_level) / 2
    low, high = torch.nanquantile(values, values.new_tensor([tail, 1 - tail]))
    return low, high


def basic(values: Tensor, estimate: Tensor, confidence_level: float) -> Ends:
    """The percentiles mirrored at the estimate (Davison & Hinkley 1997): its bias is taken off, not doubled."""
    low, high = percentile(values, confidence_level)
    return 2 * estimate - high, 2 * estimate - low


def bca(values: Tensor, estimate: Tensor, acceleration: Tensor, confidence_level: float) -> Ends:
    """Bias-corrected and accelerated interval (Efron 1987).

    The percentiles are taken at Phi(z0 + (z0 + z) / (1 - a (z0 + z))), with z0 from the share of replicates below the
    estimate (half of those equal to it).
    """
    known = values[~torch.isnan(values)]
    below = segments.as_float64(known < estimate).mean() + segments.as_float64(known == estimate).mean() / 2
    shift = torch.special.ndtri(below.clamp(0.5 / len(known), 1 - 0.5 / len(known)))
    z = shift + values.new_tensor([-1.0, 1.0]) * normal_quantile(confidence_level)
    places = torch.special.ndtr(shift + z / (1 - acceleration * z))
    low, high = torch.quantile(known, places)
    return low, high


def _drawn(seed: int, span: range, hits: Tensor, misses: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """(b, E + 1) hits and misses of each group in each resample; ``n`` is 0 where m is fixed."""
    hit_sizes, miss_sizes = hits.numpy(), misses.numpy()
    m, q = int(hit_sizes.sum()), int(miss_sizes.sum())

    def one(rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        found = int(rng.binomial(n, m / n)) if n else m
        counts = multinomial(rng, hit_sizes, found), multinomial(rng, miss_sizes, n - found if n else q)
        return torch.from_numpy(counts[0]), torch.from_numpy(counts[1])

    drawn = rows(one, generators(seed, span), m + q)
    return torch.stack([row[0] for row in drawn]), torch.stack([row[1] for row in drawn])


def _drawn_on_device(
    generator: torch.Generator, hits: Tensor, misses: Tensor, design: str, count: int
) -> tuple[Tensor, Tensor]:
    m, q = hits.sum().expand(count), misses.sum().expand(count)
    if design == "iid":
        n, share = segments.as_float64(m + q), segments.as_float64(m) / segments.as_float64(m + q)
        m = torch.binomial(n, share, generator=generator).to(torch.int64)
        q = n.to(torch.int64) - m
    return multinomial_on_device(generator, hits, m), multinomial_on_device(generator, misses, q)
