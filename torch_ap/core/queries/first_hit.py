"""Measures of where the first hit of a ranking lies: reciprocal rank and hit rate, under each rule for ties.

A group of g items with r hits, t0 items and no hit above it, holds the first hit at rank t0 + X:

| ties | X |
|---|---|
| grouped | g: the group enters at once, and its rank is that of its end |
| optimistic | 1 |
| pessimistic | g - r + 1 |
| expected | x with chance C(g - x, r - 1) / C(g, r); measures are averaged over it |
"""

from typing import Any

import torch
from torch import Tensor

from torch_ap.core import arrays, segments
from torch_ap.core.hit_curve import HitCurve


@arrays.quiet
def reciprocal_rank(curve: HitCurve, *, ties: str = "grouped", top_k: int | None = None) -> Tensor:
    """1 / (rank of the first hit), 0 where none lies in the top k: (S,) float64; NaN where nothing is relevant."""
    curve, k = curve.native, torch.inf if top_k is None else float(top_k)
    if curve.untied:
        rank = curve.items_above[:1] + 1
        found = (1 if top_k is None else rank <= top_k) / rank
        return arrays.tensor(found if len(rank) else 0 / segments.real(curve.m))  # with no hit in sight: 0, or 0 / 0
    ranking, hits, items, above = _first(curve)
    if ties == "expected":
        found = _mean_reciprocal_rank(hits, items, above, k)
    else:
        rank = above + _place(hits, items, ties)
        found = arrays.namespace(rank).where(rank <= k, 1 / rank, 0)
    return _of_all(curve, ranking, found)


@arrays.quiet
def hit_rate(curve: HitCurve, *, ties: str = "grouped", top_k: int | None = None) -> Tensor:
    """Whether a hit lies in the top k, or the chance of it: (S,) float64; NaN where nothing is relevant."""
    curve, k = curve.native, torch.inf if top_k is None else float(top_k)
    if curve.untied:
        found = segments.real(curve.items_above[:1] < k)
        return arrays.tensor(found if len(found) else 0 / segments.real(curve.m))
    ranking, hits, items, above = _first(curve)
    if ties == "expected":
        found = _chance_of_hit(hits, items, above, k)
    else:
        found = segments.real(above + _place(hits, items, ties) <= k)
    return _of_all(curve, ranking, found)


def _of_all(curve: Any, ranking: Any, found: Any) -> Tensor:
    """The values of the rankings that have a hit, and 0 for the others; NaN where nothing is relevant."""
    if len(ranking) == len(curve.m):
        return arrays.tensor(found)
    value = segments.real(curve.m) * 0
    value[ranking] = found
    return arrays.tensor(arrays.namespace(value).where(curve.m > 0, value, torch.nan))


def _first(curve: Any) -> tuple[Any, Any, Any, Any]:
    """Of each ranking that has a hit: which it is, and hits, items and items above of its first group with one."""
    starts = curve.offsets[:-1]
    if not arrays.some(curve.hits == 0):
        ranking = arrays.places(curve.offsets[1:] > starts)
        entries = starts[ranking]
    else:
        entries = arrays.places(curve.hits > 0)
        owner = curve.segment[entries]
        new = arrays.namespace(owner).ones_like(owner, dtype=bool)
        new[1:] = owner[1:] != owner[:-1]
        ranking, entries = owner[new], entries[new]
    hits, items, above = (segments.real(x[entries]) for x in (curve.hits, curve.items, curve.items_above))
    return ranking, hits, items, above


def _place(hits: Any, items: Any, ties: str) -> Any:
    """X of the table above, for the rules that are one order."""
    if ties == "optimistic":
        return 1
    return items if ties == "grouped" else items - hits + 1


def _mean_reciprocal_rank(hits: Any, items: Any, above: Any, k: float) -> Any:
    """E[1 / (t0 + X); t0 + X <= k] of each group. Most groups are one item and need no sum."""
    value = arrays.namespace(above).where(above < k, 1 / (above + 1), 0)
    tied = arrays.places(items > 1)
    if len(tied):
        value[tied] = arrays.native(_mean_of_tied(k, *(arrays.tensor(x[tied]) for x in (hits, items, above))))
    return value


def _mean_of_tied(k: float, hits: Tensor, items: Tensor, above: Tensor) -> Tensor:
    places = (k - above).clamp(min=0)
    offsets = segments.from_counts(torch.minimum(places, items - hits + 1).to(torch.int64))
    group = segments.ids(offsets)
    x = torch.arange(1, len(group) + 1, device=group.device) - offsets[group]
    chance = torch.exp(log_choose(items[group] - x, hits[group] - 1) - log_choose(items, hits)[group])
    return segments.total(chance / (above[group] + x), offsets)


def _chance_of_hit(hits: Any, items: Any, above: Any, k: float) -> Any:
    """The chance that t0 + X <= k of each group, which is 0 or 1 but where a group of misses and hits straddles k."""
    end = above + items
    value = segments.real(above + (items - hits) < k)
    cut = arrays.places((above < k) & (k < end) & (hits < items))
    if len(cut):
        value[cut] = arrays.native(_chance_of_cut(k, *(arrays.tensor(x[cut]) for x in (hits, items, above))))
    return value


def _chance_of_cut(k: float, hits: Tensor, items: Tensor, above: Tensor) -> Tensor:
    places = torch.minimum(items, (k - above).clamp(min=0))
    return 0 - torch.expm1(log_choose(items - hits, places) - log_choose(items, places))


def log_choose(n: Tensor, k: Tensor) -> Tensor:
    """Logarithm of the number of ways to choose k of n, elementwise; -inf where k > n."""
    ways = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma((n - k).clamp(min=0) + 1)
    return torch.where(k > n, -torch.inf, ways)
