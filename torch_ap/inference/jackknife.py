"""AP without each of the items in turn: the delete-one jackknife in O(hits) after the sort.

A miss taken away moves every hit at or below it up one rank. A hit taken away does that too, lowers h there by one,
and leaves m - 1 hits to average over.
"""

import torch
from torch import Tensor

from torch_ap.inference.item_values import ItemValues, sum_from_below
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve


def leave_one_out(curve: HitCurve) -> ItemValues:
    """AP of each ranking without this item; NaN for the only hit.

    Args:
        curve: S rankings, unweighted, tie groups as thresholds.
    """
    hits, h, t = (segments.as_float64(x) for x in (curve.hits, curve.cumulative_hits, curve.cumulative_items))
    m = segments.as_float64(curve.m)
    each = m if len(m) == 1 else m[curve.segment]
    left = (each - 1).clamp(min=0)
    shorter = (t - 1).clamp(min=1)  # a group that ends at rank 1 has no miss in or above it, and h - 1 = 0
    sums = segments.total(hits * h / t, curve.offsets)
    total = sums if len(m) == 1 else sums[curve.segment]
    below = sum_from_below(hits * h / t, curve.offsets)
    without_hit = sum_from_below(hits * (h - 1) / shorter, curve.offsets)
    gain = sum_from_below(torch.where(t > 1, hits * h / (t * shorter), 0), curve.offsets)
    # the group itself keeps r - 1 of its r hits
    of_hits = (total - below + without_hit - (h - 1) / shorter) / left
    return ItemValues(
        curve,
        torch.where(left > 0, of_hits, torch.nan),
        (total + gain) / each,
        torch.where(m > 1, sums / (m - 1), torch.nan),
        sums / m,
    )


def variance(values: ItemValues, design: str) -> Tensor:
    """The jackknife variance of AP: (S,) float64; NaN with fewer than two hits or two misses.

    Args:
        values: of :func:`leave_one_out`.
        design: "stratified": (m - 1) / m * sum over hits of squared deviations, plus the same over the q misses.
            "iid": (n - 1) / n * sum over all items.
    """
    hits, misses = values.of_hits(), values.of_misses()
    enough = (hits.count > 1) & (misses.count > 1)
    n = hits.count + misses.count
    if design == "stratified":
        value = hits.squares * (hits.count - 1) / hits.count + misses.squares * (misses.count - 1) / misses.count
    else:
        between = hits.count * misses.count / n * (hits.mean - misses.mean) ** 2
        value = (hits.squares + misses.squares + between) * (n - 1) / n
    return torch.where(enough, value, torch.nan)


def bias(values: ItemValues, estimate: Tensor) -> Tensor:
    """The stratified jackknife's estimate of E(AP) minus its limit: (S,) float64.

    It is a diagnosis, not a correction: intervals around AP minus this bias cover worse.
    """
    hits, misses = values.of_hits(), values.of_misses()
    return (hits.count - 1) * (hits.mean - estimate) + (misses.count - 1) * (misses.mean - estimate)
