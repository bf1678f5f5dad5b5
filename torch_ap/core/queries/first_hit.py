"""Measures of where the first hit of a ranking lies: reciprocal rank and hit rate, under each rule for ties.

A group of g items with r hits, t0 items and no hit above it, holds the first hit at rank t0 + X:

| ties | X |
|---|---|
| grouped | g: the group enters at once, and its rank is that of its end |
| optimistic | 1 |
| pessimistic | g - r + 1 |
| expected | x with chance C(g - x, r - 1) / C(g, r); measures are averaged over it |
"""

import torch
from torch import Tensor

from torch_ap.core import segments
from torch_ap.core.hit_curve import HitCurve


def reciprocal_rank(curve: HitCurve, *, ties: str = "grouped", top_k: int | None = None) -> Tensor:
    """1 / (rank of the first hit), 0 where none lies in the top k: (S,) float64; NaN where nothing is relevant."""
    ranking, hits, items, above = _first(curve)
    k = torch.inf if top_k is None else float(top_k)
    value = segments.real(curve.m) * 0
    if ties == "expected":
        value[ranking] = _mean_reciprocal_rank(hits, items, above, (k - above).clamp(min=0))
    else:
        rank = above + _place(hits, items, ties)
        value[ranking] = torch.where(rank <= k, 1 / rank, 0)
    return torch.where(curve.m > 0, value, torch.nan)


def hit_rate(curve: HitCurve, *, ties: str = "grouped", top_k: int | None = None) -> Tensor:
    """Whether a hit lies in the top k, or the chance of it: (S,) float64; NaN where nothing is relevant."""
    ranking, hits, items, above = _first(curve)
    k = torch.inf if top_k is None else float(top_k)
    value = segments.real(curve.m) * 0
    if ties == "expected":
        places = torch.minimum(items, (k - above).clamp(min=0))
        value[ranking] = 0 - torch.expm1(log_choose(items - hits, places) - log_choose(items, places))
    else:
        value[ranking] = segments.real(above + _place(hits, items, ties) <= k)
    return torch.where(curve.m > 0, value, torch.nan)


def _first(curve: HitCurve) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of each ranking that has a hit: which it is, and hits, items and items above of its first group with one."""
    entries = (curve.hits > 0).nonzero().squeeze(1)
    owner = curve.segment[entries]
    new = torch.ones_like(owner, dtype=torch.bool)
    torch.ne(owner[1:], owner[:-1], out=new[1:])
    entries = entries[new]
    hits, items, above = (segments.real(x[entries]) for x in (curve.hits, curve.items, curve.items_above))
    return owner[new], hits, items, above


def _place(hits: Tensor, items: Tensor, ties: str) -> Tensor:
    """X of the table above, for the rules that are one order."""
    if ties == "optimistic":
        return torch.ones_like(hits)
    return items if ties == "grouped" else items - hits + 1


def _mean_reciprocal_rank(hits: Tensor, items: Tensor, above: Tensor, places: Tensor) -> Tensor:
    """E[1 / (t0 + X); X <= places] of each group. Most groups are one item and need no sum."""
    value = torch.where(places > 0, 1 / (above + 1), 0)
    tied = (items > 1).nonzero().squeeze(1)
    if len(tied):
        hits, items, above, places = (x[tied] for x in (hits, items, above, places))
        offsets = segments.from_counts(torch.minimum(places, items - hits + 1).to(torch.int64))
        group = segments.ids(offsets)
        x = torch.arange(1, len(group) + 1, device=group.device) - offsets[group]
        chance = torch.exp(log_choose(items[group] - x, hits[group] - 1) - log_choose(items, hits)[group])
        value[tied] = segments.total(chance / (above[group] + x), offsets)
    return value


def log_choose(n: Tensor, k: Tensor) -> Tensor:
    """Logarithm of the number of ways to choose k of n, elementwise; -inf where k > n."""
    ways = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma((n - k).clamp(min=0) + 1)
    return torch.where(k > n, -torch.inf, ways)
