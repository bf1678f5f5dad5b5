"""Mean and variance of the sum of precisions over all orders of the labels of rankings.

With ties "grouped" or "expected", the sum of the precisions at the hits of the top k is a sum over hits and pairs of
hits. For a tie group of g items with t0 items above it and L of its places in the top k, and s the sum of 1 / t over
these places:

==========  ======================  ====================================  ===================
ties        c, each hit             w, each pair within the group         x, a hit and a hit above
==========  ======================  ====================================  ===================
grouped     (L / g)^2 / (t0 + L)    2 (L / g)^2 / (t0 + L)                (L / g) / (t0 + L)
expected    s / g                   2 (L - (t0 + 1) s) / (g (g - 1))      s / g
==========  ======================  ====================================  ===================

Hoeffding's decomposition for sampling without replacement splits the variance of this sum into a part of single hits
and a part of pairs. Neither part is a small difference of large numbers.
"""

from typing import Any

import torch
from torch import Tensor

from torch_ap.core.measures.average_precision import places_within
from torch_ap.core.measures.ties import harmonic_difference, rank_per_entry
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve


def moments_of_sums(groups: HitCurve, hits: Tensor, k: Any = None, ties: str = "grouped") -> tuple[Tensor, Tensor]:
    r"""Return mean and variance of the sum of precisions of each ranking over all orders of the labels.

    With D_a the sum of the pair terms d_ab of item a over all b, and D the sum of d_ab over all pairs:

    .. math::
        E = \frac{m}{n} \sum_a c_a + \frac{m (m - 1)}{n (n - 1)} D

    .. math::
        Var = \frac{m (n - m)}{n (n - 1)} \sum_a l_a^2
                  + \frac{m (m - 1) (n - m) (n - m - 1)}{n (n - 1) (n - 2) (n - 3)} \sum_{a < b} e_{ab}^2

    with l_a = c_a + D_a (m - 1) / (n - 2) minus the mean over all items, and e_ab = d_ab - (D_a + D_b) / (n - 2) + 2 D
    / ((n - 1) (n - 2)). The computation takes one pass over the groups.

    Args:
        groups: S rankings with an entry for every tie group.
        hits: (S,) int64 number m of hits among the n items of each ranking.
        k: rank after which hits do not count: an int, (S,) float64 ranks, or None.
        ties: "grouped" or "expected".

    Returns:
        Two (S,) float64 tensors.

    Equals mean and variance over all permutations. Source: Hoeffding (1948), with the pair terms above.
    """
    g, above, n, m = (segments.as_float64(x) for x in (groups.items, groups.items_above, groups.n, hits))
    places = g if k is None else places_within(g, above, rank_per_entry(k, groups.offsets))
    if ties == "grouped":
        inside = places / g
        across = inside / (above + places).clamp(min=1)
        alone, within = inside * across, 2 * inside * across
    else:
        steps = harmonic_difference(above, places)
        alone = across = steps / g
        within = 2 * (places - (above + 1) * steps) / (g * (g - 1)).clamp(min=1)

    def each(values: Tensor) -> Tensor:
        return segments.each_entry(values, groups.offsets)

    def total(values: Tensor) -> Tensor:
        return segments.total(values, groups.offsets)

    below = total(g * across)
    pairs = (g - 1) * within + above * across + each(below) - segments.cumulative(g * across, groups.offsets)
    pair_sum, items = total(g * pairs) / 2, n.clamp(min=1)
    p1, p2 = m / items, m * (m - 1) / (items * (items - 1)).clamp(min=1)
    single = alone + pairs * each((m - 1) / (n - 2).clamp(min=1))
    single = single - each(total(g * single) / items)
    variance = m * (n - m) / (items * (items - 1)).clamp(min=1) * total(g * single**2)
    centred = pairs - each(2 * pair_sum / items)
    left = total(g * (g - 1) / 2 * within**2 + g * above * across**2)
    left = left - 2 * pair_sum**2 / (items * (items - 1)).clamp(min=1) - total(g * centred**2) / (n - 2).clamp(min=1)
    has_pairs = torch.minimum(m, n - m) > 1
    scale = p2 * (n - m) * (n - m - 1) / ((n - 2) * (n - 3)).clamp(min=1)
    variance = variance + torch.where(has_pairs, scale * left, 0)
    has_one_value = groups.offsets.diff() < 2  # with a single tie group, no order matters
    return p1 * total(g * alone) + p2 * pair_sum, variance.clamp(min=0).masked_fill(has_one_value, 0)
