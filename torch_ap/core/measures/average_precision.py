"""Average precision of all items and at k, with the tie rules of :mod:`torch_ap.core.measures.ties`.

The shape of hit curves: area, concave hull, and the difference of two curves.

h is linear between whole ranks and inside tie groups. The corners of the curve are the ends of its tie groups.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.measures.ties import (
    Groups,
    TieRule,
    cut_rank,
    divisor,
    expected_sum,
    expected_sum_of_tied,
    harmonic_step,
    rank_per_entry,
    tie_rule,
)
from torch_ap.core.ranking import order, segments
from torch_ap.core.ranking.hit_curve import HitCurve

_SHORT = 8  # up to this number of tie groups, a loop is faster than arrays


def average_precision(curve: HitCurve, *, ties: str = "grouped", top_k: Any = None, denominator: str = "min") -> Tensor:
    """Return the AP, or AP@k, of each ranking; NaN without relevant items.

    AP = (1 / m) * sum over hits i of p(t_i). AP@k sums over the hits in the top k and divides by ``denominator``.

    Args:
        curve: S rankings. Weights require ``ties="grouped"`` and no ``top_k``.
        ties: name of a tie rule.
        top_k: k of at least 1, "relevant" for m, (S,) ranks, or None for all items.
        denominator: divisor of AP@k: "min" for min(k, m), "relevant" for m, "found" for the number of hits in the top k
            (0 / 0 counts as 0).

    Returns:
        (S,) float64 in [0, 1].
    """
    values, rule = curve.native, tie_rule(ties)
    has_one_rank = top_k is None or isinstance(top_k, int | str)
    if rule.is_random and values.single and len(values.hits) <= _SHORT and denominator != "found" and has_one_rank:
        k = values.m.item(0) if top_k == "relevant" else top_k
        return arrays.tensor(_short_average_precision(values, k, denominator))
    return arrays.tensor(_average_precision(values, rule, cut_rank(top_k, values), denominator))


def _short_average_precision(curve: Any, k: int | None, denominator: str) -> Any:
    """Return the AP of one ranking with few tie groups and ties "expected", (1,).

    It takes 24 µs for 10 items; arrays take 34 µs, more than torchmetrics. The results are equal.
    """
    m = curve.m.item(0)
    if not m:
        return np.full(1, np.nan)
    precision_sums = []
    columns = (curve.hits, curve.items, curve.hits_above, curve.items_above)
    for hits, items, hits_above, above in zip(*(x.tolist() for x in columns), strict=True):
        places = items if k is None else max(0, min(items, k - above))
        if items == 1:
            precision_sums.append(places * ((hits_above + 1) / (above + 1)))
            continue
        chance, steps = (hits - 1) / (items - 1), harmonic_step(above, places)
        precision_sums.append((hits / items) * ((hits_above + 1 - chance * (above + 1)) * steps + chance * places))
    return segments.total(np.array(precision_sums, np.float64), curve.offsets) / divisor(denominator, m, k)


@arrays.quiet
def _average_precision(values: Any, rule: TieRule, rank: Any, denominator: str) -> Any:
    m, k = segments.as_float64(values.m), rank_per_entry(rank, values.offsets)
    depends_on_ties = not (values.untied or (k is None and rule.is_threshold))
    has_ties = depends_on_ties and (values.single or values.any_entry(values.items > 1))
    total, ratio = values.total(precision_sums(values, rule, k, has_ties=has_ties)), None
    if denominator == "found" and k is not None:
        if has_ties:
            ratio = _mean_over_hits_in_top(values, _groups(values, k), total, rule)
        else:
            ratio = _divide_or_zero(total, values.total(values.hits * (values.items_above < k)))
    if ratio is not None:
        return arrays.namespace(m).where(m > 0, ratio, torch.nan)
    return total / divisor(denominator, m, rank)


@arrays.quiet
def precision_sums(values: Any, rule: TieRule, k: Any, *, has_ties: bool) -> Any:
    """Return the sum of the precisions at the hits of each entry, (E,) float64.

    Args:
        values: rankings with native values.
        rule: the tie rule.
        k: rank after which hits do not count: an int, (E,) ranks, or None.
        has_ties: whether an entry with several items is possible and its places matter. They do not if the group enters
            as a whole and k is None.
    """
    if not has_ties:
        # equal to the general case below, in half the passes over memory
        if k is None and values.untied:
            return values.precision
        return segments.product(values.hits if k is None else values.hits * (values.items_above < k), values.precision)
    return rule.precision_sum(_groups(values, k))


def average_precision_of_ranks(ranks: Any, *, tied: bool = False) -> Any:
    """Return the AP of rankings from the ranks of their m hits, (..., m) to (...).

    Args:
        ranks: ascending whole numbers, native.
        tied: whether hits can have equal ranks. The rank of a hit is then the rank of the last item of its tie group
            (ties "grouped").
    """
    if tied:
        hits = arrays.namespace(ranks).searchsorted(ranks, ranks, side="right")
    else:
        hits = arrays.arange_like(ranks.shape[-1], ranks) + 1
    return (hits / segments.as_float64(ranks)).sum(-1) / ranks.shape[-1]


def _divide_or_zero(total: Any, count: Any) -> Any:
    return arrays.namespace(count).where(count > 0, total / count, 0)


def places_within(items: Any, above: Any, k: Any) -> Any:
    """Return the number of places of a tie group in the top k, elementwise."""
    return arrays.namespace(items).minimum(items, arrays.clamp_min(k - above, 0))


def _groups(curve: Any, k: Any) -> Groups:
    """Return r, g, h0, t0 and L of each entry, as floats."""
    hits, items, hits_above, items_above = curve.float_counts
    places = items if k is None else places_within(items, items_above, k)
    return hits, items, hits_above, items_above, places


def _mean_over_hits_in_top(curve: Any, groups: Groups, total: Any, rule: TieRule) -> Any:
    """Return the sum over the hits in the top k, divided by their number.

    If the order is random, both vary with the order of the one group that straddles k. The mean of the ratio is then
    taken over the number of hits of this group in the top k.
    """
    hits, items, _, _, places = groups
    ratio = _divide_or_zero(total, curve.total(rule.hits_within(hits, items, places)))
    straddles = (places > 0) & (places < items)
    if not rule.is_random or not curve.any_entry(straddles):
        return ratio
    cut, mean = arrays.true_indices(straddles), hits * 0
    if len(cut):
        group = tuple(x[cut] for x in groups)
        above = total[curve.segment[cut]] - expected_sum_of_tied(*group)
        mean[cut] = arrays.native(_mean_ratio(tuple(map(arrays.tensor, group)), arrays.tensor(above)))
    is_cut = curve.total(segments.as_float64(straddles))
    return arrays.namespace(ratio).where(is_cut > 0, curve.total(mean), ratio)


def _mean_ratio(groups: tuple[Tensor, ...], above: Tensor) -> Tensor:
    """Return E[(above + S) / (h0 + X)]: X hits of a group are in its first L places, S is their precision sum."""
    hits, items, hits_above, items_above, places = groups
    group, x, chance = cases_within(hits, items, places)
    hits_above, items_above, places, above = (y[group] for y in (hits_above, items_above, places, above))
    inside = expected_sum((x, places, hits_above, items_above, places))
    ratio = torch.where(hits_above + x > 0, (above + inside) / (hits_above + x), 0)
    offsets = segments.from_counts(torch.bincount(group, minlength=len(hits)))
    return segments.total(chance * ratio, offsets)


def cases_within(hits: Tensor, items: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the possible numbers of hits in the first places of each group, with their probabilities.

    The number is hypergeometric. The ratio of successive probabilities is rational, so no factorial is needed. The
    running products are relative to the largest one.

    Args:
        hits: (G,) float64.
        items: (G,) float64.
        places: (G,) float64.

    Returns:
        The group of each case, ascending; its number of hits; its probability. The probabilities of a group sum to 1.
    """
    least = (places - (items - hits)).clamp(min=0)
    cases = (torch.minimum(hits, places) - least + 1).to(torch.int64)
    offsets = segments.from_counts(cases)
    group = segments.ids(offsets)
    least, hits, items, places = (x[group] for x in (least, hits, items, places))
    nth = torch.arange(len(group), device=group.device) - offsets[group]
    x = least + nth
    ratios = (hits - x + 1) * (places - x + 1) / (x * (items - hits - places + x))
    likelihood = segments.cumulative(torch.where(nth > 0, ratios, 1).log(), offsets)
    chance = torch.exp(likelihood - segments.maximum_from_right(likelihood, offsets)[offsets[:-1]][group])
    return group, x, chance / segments.total(chance, offsets)[group]


def area(curve: HitCurve, *, ties: str = "grouped") -> Tensor:
    """Return the area under h(t) / n over t / n of each ranking: (S,) float64.

    A hit at rank t adds n - t + 1/2 to the area under h.

    Args:
        curve: S rankings without weights.
        ties: places of the hits of a tie group: spread evenly ("grouped", "expected"), the first ("optimistic") or the
            last ("pessimistic").
    """
    hits, items = curve.hits, curve.items
    places = sum(tie_rule(ties).hit_places(hits, items))  # twice the mean place of the hits, a whole number
    n = curve.n[curve.segment]
    doubled: Tensor = segments.total(hits * (2 * (n - curve.items_above) - places), curve.offsets)
    return segments.as_float64(doubled) / 2 / segments.as_float64(curve.n) / segments.as_float64(curve.n)


def hull_corners(curve: HitCurve) -> Tensor:
    """Return the entries whose ends are the corners of the concave hull of h: (V,) int64, ascending.

    The slopes of the hull are the antitonic regression of the hit rates of the groups, each with the misses directly
    above it, weighted by the number of items (Ayer et al. 1955).

    Args:
        curve: one ranking, without weights.
    """
    from scipy.optimize import isotonic_regression

    cumulative = curve.cumulative_items
    if not len(cumulative):
        return cumulative
    width = torch.diff(cumulative, prepend=cumulative.new_zeros(1)).cpu().numpy()
    regression: Any = isotonic_regression(curve.hits.cpu().numpy() / width, weights=width, increasing=False)
    corners = torch.from_numpy(np.asarray(regression.blocks[1:], np.int64) - 1).to(cumulative.device)
    # drop corners between slopes that differ only by rounding
    run, rise = (torch.diff(x[corners], prepend=x.new_zeros(1)) for x in (cumulative, curve.cumulative_hits))
    bends = rise[:-1] * run[1:] > rise[1:] * run[:-1]
    return corners[torch.cat([bends, bends.new_ones(1)])]


@dataclass(frozen=True, eq=False)
class Gap:
    """h_A - h_B at every corner of either curve.

    Attributes:
        t: (K,) int64 ranks, ascending from 0 to n.
        value: (K,) float64 h_A(t) - h_B(t).
        sign: (K,) int64 exact sign of the value.
    """

    t: Tensor
    value: Tensor
    sign: Tensor


def gap(a: HitCurve, b: HitCurve) -> Gap:
    """Return the difference of the hit curves of two rankings of n items, both without weights."""
    ends = [x for curve in (a, b) for x in (curve.items_above, curve.cumulative_items)]
    t, _ = order.dense_ranks(torch.cat([a.n.new_zeros(1), *ends, a.n]))
    (whole_a, part_a, size_a), (whole_b, part_b, size_b) = (_hits_at_rank(curve, t) for curve in (a, b))
    # integers, and the difference of two proper fractions, in (-1, 1): no product exceeds n^2
    whole, part = whole_a - whole_b, part_a * size_b - part_b * size_a
    value = segments.as_float64(whole) + segments.as_float64(part) / (
        segments.as_float64(size_a) * segments.as_float64(size_b)
    )
    return Gap(t, value, torch.where(whole == 0, part.sign(), whole.sign()))


def _hits_at_rank(curve: HitCurve, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return h at whole ranks as (whole, part, size): h = whole + part / size with 0 <= part < size."""
    if not len(curve.hits):
        return torch.zeros_like(t), torch.zeros_like(t), torch.ones_like(t)
    entry = (torch.searchsorted(curve.items_above, t) - 1).clamp(min=0)
    hits, items, above = curve.hits[entry], curve.items[entry], curve.items_above[entry]
    inside = hits * torch.minimum(items, (t - above).clamp(min=0))
    return curve.hits_above[entry] + inside // items, inside % items, items


def crossings(gap: Gap) -> Tensor:
    """Return the depths of the sign changes of the difference: (X,) float64.

    If the curves coincide in between, the depth is the end of the common part.
    """
    leading = gap.sign.nonzero().squeeze(1)
    sign = gap.sign[leading]
    turns = (sign[1:] != sign[:-1]).nonzero().squeeze(1)
    first = leading[turns + 1]  # first corner where the other curve leads; the crossing is on the line before it
    before = first - 1
    start, end = gap.value[before].abs(), gap.value[first].abs()
    t = segments.as_float64(gap.t)
    return t[before] + (t[first] - t[before]) * (start / (start + end))
