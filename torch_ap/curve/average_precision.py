"""Average precision, whole and at k, under each rule for ties.

A group of g items with r hits has t0 items and h0 hits above it; at k, only its first L = min(g, k - t0) places count.
What it adds to the sum of precisions at the hits:

| ties | the group's hits lie | whole group |
|---|---|---|
| grouped | at one threshold: the group enters at once | r (h0 + r) / (t0 + g) |
| expected | anywhere in it, all orders equally likely | (r / g) [(h0 + 1 - c (t0 + 1)) D + c g] |
| optimistic | at its top | sum over i = 1 .. r of (h0 + i) / (t0 + i) |
| pessimistic | at its bottom | sum over i = 1 .. r of (h0 + i) / (t0 + g - r + i) |

with c = (r - 1) / (g - 1) and D = H(t0 + g) - H(t0), a difference of harmonic numbers (McSherry & Najork 2008).

At k a grouped group is cut: it enters as L items with their r L / g expected hits, so that its precision at k is P@k.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve.harmonic import harmonic_difference, harmonic_step
from torch_ap.curve.top_k import at_entries, rank_of
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.runtime import arrays

_Groups: TypeAlias = tuple[Any, Any, Any, Any, Any]
_FEW_GROUPS = 8  # up to so many, one by one is faster than with arrays


def average_precision(curve: HitCurve, *, ties: str = "grouped", top_k: Any = None, denominator: str = "min") -> Tensor:
    """AP, or AP@k, of each ranking; NaN where nothing is relevant.

    AP = (1 / m) * sum over hits i of p(t_i); AP@k sums over the hits in the top k and divides by ``denominator``.

    Args:
        curve: S rankings; weighted ones only with ``ties="grouped"`` and no ``top_k``.
        ties: "grouped", "expected", "optimistic" or "pessimistic".
        top_k: k of at least 1, "relevant" for m, (S,) ranks, or None for all.
        denominator: of AP@k: "min" for min(k, m), "relevant" for m, "found" for the hits in the top k (0 / 0 counts 0).

    Returns:
        (S,) float64 in [0, 1].
    """
    values, usual = curve.native, top_k is None or isinstance(top_k, int | str)
    few = values.single and len(values.hits) <= _FEW_GROUPS and denominator != "found"
    if few and usual and (values.untied or ties == "expected"):
        return arrays.tensor(_of_few(values, values.m.item(0) if top_k == "relevant" else top_k, denominator))
    return arrays.tensor(_of_many(values, ties, rank_of(top_k, values), denominator))


def _of_few(values: Any, k: int | None, denominator: str) -> Any:
    """The AP of one ranking with few groups that hold a hit, whose ties count as expected: (1,); the same bits."""
    m = values.m.item(0)
    if not m:
        return np.full(1, np.nan)
    total = segments.total(np.array(_expected_of_few(values, k), np.float64), values.offsets)
    return total / (m if k is None or denominator == "relevant" else min(m, k))


@arrays.quiet
def _of_many(values: Any, ties: str, rank: Any, denominator: str) -> Any:
    m, k = segments.as_float64(values.m), at_entries(rank, values.offsets)
    if (k is None and ties == "grouped") or not _any_tied(values):
        # the same as below, in half the passes over memory
        hits = values.hits if k is None else values.hits * (values.items_above < k)
        plain = k is None and values.untied
        total = values.total(values.precision) if plain else values.total_product(hits, values.precision)
        found = denominator == "found" and k is not None
        ratio = _per(total, values.total(hits)) if found else None
    else:
        groups = _groups(values, k)
        total = values.total(_RULES[ties](groups))
        found = denominator == "found" and k is not None
        ratio = _per_found(values, groups, total, ties) if found else None
    if ratio is not None:
        return arrays.namespace(m).where(m > 0, ratio, torch.nan)
    return total / (m if rank is None or denominator == "relevant" else arrays.at_most(m, rank))


def average_precision_of_ranks(ranks: Any, *, tied: bool = False) -> Any:
    """AP of rankings of which only the ranks of the m hits are known: (..., m) whole numbers, ascending, to (...).

    Where scores are ``tied``, a hit's rank is that of the last item of its tie group (ties "grouped"). Native values.
    """
    if tied:
        found = arrays.namespace(ranks).searchsorted(ranks, ranks, side="right")
    else:
        found = arrays.steps(ranks.shape[-1], ranks) + 1
    return (found / segments.as_float64(ranks)).sum(-1) / ranks.shape[-1]


def _any_tied(curve: Any) -> bool:
    return not curve.untied and (curve.single or curve.some(curve.items > 1))


def _per(total: Any, found: Any) -> Any:
    return arrays.namespace(found).where(found > 0, total / found, 0)


def hits_within(hits: Any, items: Any, places: Any, ties: str) -> Any:
    """How many hits of a tie group lie in its first ``places`` places, elementwise; expected where that is open."""
    if ties == "optimistic":
        return arrays.namespace(hits).minimum(hits, places)
    if ties == "pessimistic":
        return arrays.at_least(places - (items - hits), 0)
    return hits * (places / items)


def places_within(items: Any, above: Any, k: Any) -> Any:
    """How many of a tie group's places lie in the top k, elementwise."""
    return arrays.namespace(items).minimum(items, arrays.at_least(k - above, 0))


def _groups(curve: Any, k: Any) -> _Groups:
    """r, g, h0, t0 and L of each entry, as floats."""
    hits, items, hits_above, items_above = (
        segments.as_float64(x) for x in (curve.hits, curve.items, curve.hits_above, curve.items_above)
    )
    places = items if k is None else places_within(items, items_above, k)
    return hits, items, hits_above, items_above, places


def _grouped(groups: _Groups) -> Any:
    hits, items, hits_above, items_above, places = groups
    inside = hits_within(hits, items, places, "grouped")
    return arrays.namespace(hits).where(inside > 0, inside * ((hits_above + inside) / (items_above + places)), 0)


def _expected(groups: _Groups) -> Any:
    """Groups of one item need no formula: they have one place or none, and one hit or none."""
    hits, items, hits_above, items_above, places = groups
    flags = items > 1
    tied = arrays.places(flags)
    if len(tied) == len(items):
        return _expected_of_tied(*groups)
    total = hits * places * ((hits_above + 1) / (items_above + 1))
    if len(tied) * 2 >= len(items):  # computing with all groups is faster than picking those
        return arrays.namespace(total).where(flags, _expected_of_tied(*groups), total)
    if len(tied):
        total[tied] = _expected_of_tied(*(x[tied] for x in groups))
    return total


def _expected_of_few(curve: Any, k: int | None) -> list[float]:
    """:func:`_expected` of one ranking with few groups that hold a hit, without arrays; the same bits."""
    added = []
    columns = (curve.hits, curve.items, curve.hits_above, curve.items_above)
    for hits, items, hits_above, above in zip(*(x.tolist() for x in columns), strict=True):
        places = items if k is None else max(0, min(items, k - above))
        if items == 1:
            added.append(places * ((hits_above + 1) / (above + 1)))
            continue
        chance, steps = (hits - 1) / (items - 1), harmonic_step(above, places)
        added.append((hits / items) * ((hits_above + 1 - chance * (above + 1)) * steps + chance * places))
    return added


def _expected_of_tied(hits: Any, items: Any, hits_above: Any, items_above: Any, places: Any) -> Any:
    """For groups of at least two items; NaN for one."""
    chance = (hits - 1) / (items - 1)
    steps = harmonic_difference(items_above, places)
    return (hits / items) * ((hits_above + 1 - chance * (items_above + 1)) * steps + chance * places)


def _optimistic(groups: _Groups) -> Any:
    hits, items, hits_above, items_above, places = groups
    return _run(hits_above, items_above, hits_within(hits, items, places, "optimistic"))


def _pessimistic(groups: _Groups) -> Any:
    hits, items, hits_above, items_above, places = groups
    return _run(hits_above, items_above + (items - hits), hits_within(hits, items, places, "pessimistic"))


def _run(hits_above: Any, items_above: Any, length: Any) -> Any:
    """Sum of (h0 + i) / (t0 + i), i = 1 .. length; it is length - (t0 - h0) (H(t0 + length) - H(t0))."""
    total = arrays.namespace(length).where(length > 0, (hits_above + 1) / (items_above + 1), 0)
    longer = arrays.places(length > 1)
    if len(longer):
        above, below, run = hits_above[longer], items_above[longer], length[longer]
        total[longer] = run - (below - above) * harmonic_difference(below, run)
    return total


def _per_found(curve: Any, groups: _Groups, total: Any, ties: str) -> Any:
    """Sum over the hits in the top k, divided by their number.

    Under "expected" both vary with the order of the one group that straddles k, so the mean of the ratio is taken over
    the number of its hits that lie in the top k.
    """
    hits, items, _, _, places = groups
    ratio = _per(total, curve.total(hits_within(hits, items, places, ties)))
    straddles = (places > 0) & (places < items)
    if ties != "expected" or not curve.some(straddles):
        return ratio
    cut, mean = arrays.places(straddles), hits * 0
    if len(cut):
        group = tuple(x[cut] for x in groups)
        above = total[curve.segment[cut]] - _expected_of_tied(*group)
        mean[cut] = arrays.native(_mean_ratio(tuple(map(arrays.tensor, group)), arrays.tensor(above)))
    is_cut = curve.total(segments.as_float64(straddles))
    return arrays.namespace(ratio).where(is_cut > 0, curve.total(mean), ratio)


def _mean_ratio(groups: tuple[Tensor, ...], above: Tensor) -> Tensor:
    """E[(above + S) / (h0 + X)], where X of a group's r hits lie in its first L places and S sums their precisions."""
    hits, items, hits_above, items_above, places = groups
    group, x, chance = cases_within(hits, items, places)
    hits_above, items_above, places, above = (y[group] for y in (hits_above, items_above, places, above))
    inside = _expected((x, places, hits_above, items_above, places))
    ratio = torch.where(hits_above + x > 0, (above + inside) / (hits_above + x), 0)
    offsets = segments.from_counts(torch.bincount(group, minlength=len(hits)))
    return segments.total(chance * ratio, offsets)


def cases_within(hits: Tensor, items: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How many hits of each group may lie in its first places, one case after the other, and their probabilities.

    The number is hypergeometric. The ratio of one probability to the one before is rational, so no factorial is needed;
    their running products are taken relative to the largest.

    Args:
        hits, items, places: (G,) float64.

    Returns:
        The group of each case, ascending; the number of hits; the probability, 1 in sum for each group.
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


_RULES: dict[str, Callable[[_Groups], Any]] = {
    "grouped": _grouped,
    "expected": _expected,
    "optimistic": _optimistic,
    "pessimistic": _pessimistic,
}
