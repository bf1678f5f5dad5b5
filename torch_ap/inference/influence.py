r"""The influence functions of average precision: how much one more item like this would move it.

AP is a functional of the score distributions of hits and misses; with p_i = h_i / t_i at the end of each tie group,

.. math::
    \phi_+(x) = p(x) + \sum_{hits\ i:\ s_i \le x} (1 - p_i) / t_i, \qquad
    \phi_-(x) = -\frac{q}{m} \sum_{hits\ i:\ s_i \le x} p_i / t_i, \qquad
    \theta_\pi = \frac{1}{m} \sum_{hits\ i} \frac{h_i}{m}\, \frac{t_i - h_i}{q} \Big(\frac{n}{t_i}\Big)^2

are its derivatives in the distribution of the hits, in that of the misses, and in the share of hits. They are exact
with ties, and cost two cumulative sums over the hits after the sort.
"""

import torch
from torch import Tensor

from torch_ap.inference import influence_blocks
from torch_ap.inference.item_values import ItemValues, sum_from_below
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve


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
    if influence_blocks.applies(curve):
        of_hits, of_misses, slope = influence_blocks.moments(curve)
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
