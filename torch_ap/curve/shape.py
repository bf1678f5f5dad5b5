"""The shape of the hit curve: the area under it, its concave hull, and which of two curves lies higher.

Between whole ranks, and inside a tie group, h is a straight line; so the curve is a polygon whose corners are the ends
of its tie groups.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import order, segments
from torch_ap.ranking.hit_curve import HitCurve


def area(curve: HitCurve, *, ties: str = "grouped") -> Tensor:
    """Area under h(t) / n over t / n, of each ranking: (S,) float64.

    A hit at rank t lifts the curve from there on, which adds n - t + 1/2; the hits of a tie group share its places
    ("grouped", "expected"), or take the first ("optimistic") or the last ("pessimistic") of them.

    Args:
        curve: S rankings without weights.
        ties: as above.
    """
    hits, items = curve.hits, curve.items
    # twice the mean place of the group's hits, so that all sums are of whole numbers
    places = {"optimistic": hits, "pessimistic": 2 * items - hits}.get(ties, items)
    n = curve.n[curve.segment]
    doubled = segments.total(hits * (2 * (n - curve.items_above) - places), curve.offsets)
    return segments.as_float64(doubled) / 2 / segments.as_float64(curve.n) / segments.as_float64(curve.n)


def hull_corners(curve: HitCurve) -> Tensor:
    """The entries at whose ends the least concave curve above h has its corners: (V,) int64, ascending.

    The slopes of the hull are the hit rates between corners, and they fall: the antitonic regression of the hit rates
    of the groups, each with the misses right above it, pooled by number of items (Ayer et al. 1955).

    Args:
        curve: one ranking, without weights.
    """
    from scipy.optimize import isotonic_regression

    cumulative = curve.cumulative_items
    if not len(cumulative):
        return cumulative
    width = torch.diff(cumulative, prepend=cumulative.new_zeros(1)).cpu().numpy()
    found: Any = isotonic_regression(curve.hits.cpu().numpy() / width, weights=width, increasing=False)
    corners = torch.from_numpy(np.asarray(found.blocks[1:], np.int64) - 1).to(cumulative.device)
    # slopes that differ by rounding alone are one line, which has no corner
    run, rise = (torch.diff(x[corners], prepend=x.new_zeros(1)) for x in (cumulative, curve.cumulative_hits))
    bends = rise[:-1] * run[1:] > rise[1:] * run[:-1]
    return corners[torch.cat([bends, bends.new_ones(1)])]


@dataclass(frozen=True, eq=False)
class Gap:
    """h_A - h_B at every rank where either curve bends.

    Attributes:
        t: (K,) int64 ranks, ascending from 0 to n.
        value: (K,) float64 h_A(t) - h_B(t).
        sign: (K,) int64 sign of it, exact.
    """

    t: Tensor
    value: Tensor
    sign: Tensor


def gap(a: HitCurve, b: HitCurve) -> Gap:
    """How far one ranking's curve lies above another's, of as many items; both without weights."""
    ends = [x for curve in (a, b) for x in (curve.items_above, curve.cumulative_items)]
    t, _ = order.dense_ranks(torch.cat([a.n.new_zeros(1), *ends, a.n]))
    (whole_a, part_a, size_a), (whole_b, part_b, size_b) = (_at(curve, t) for curve in (a, b))
    # whole numbers and the difference of two proper fractions, which lies between -1 and 1: no product exceeds n^2
    whole, part = whole_a - whole_b, part_a * size_b - part_b * size_a
    value = segments.as_float64(whole) + segments.as_float64(part) / (
        segments.as_float64(size_a) * segments.as_float64(size_b)
    )
    return Gap(t, value, torch.where(whole == 0, part.sign(), whole.sign()))


def _at(curve: HitCurve, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """H at whole ranks as whole + part / size, with 0 <= part < size."""
    if not len(curve.hits):
        return torch.zeros_like(t), torch.zeros_like(t), torch.ones_like(t)
    entry = (torch.searchsorted(curve.items_above, t) - 1).clamp(min=0)
    hits, items, above = curve.hits[entry], curve.items[entry], curve.items_above[entry]
    inside = hits * torch.minimum(items, (t - above).clamp(min=0))
    return curve.hits_above[entry] + inside // items, inside % items, items


def crossings(gap: Gap) -> Tensor:
    """Where one curve passes the other: (X,) float64 depths at which the lead changes.

    Where the curves coincide in between, it is the depth at which they part.
    """
    leading = gap.sign.nonzero().squeeze(1)
    sign = gap.sign[leading]
    turns = (sign[1:] != sign[:-1]).nonzero().squeeze(1)
    first = leading[turns + 1]  # the first corner at which the other curve leads; it took the lead just before
    before = first - 1
    start, end = gap.value[before].abs(), gap.value[first].abs()
    t = segments.as_float64(gap.t)
    return t[before] + (t[first] - t[before]) * (start / (start + end))
