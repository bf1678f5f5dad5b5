"""Measures of where the first hit of a ranking lies: reciprocal rank and hit rate, under each rule for ties.

A group of g items with r hits, t0 items and no hit above it, holds the first hit at rank t0 + X:

| ties | X |
|---|---|
| grouped | g: the group enters at once, and its rank is that of its end |
| optimistic | 1 |
| pessimistic | g - r + 1 |
| expected | x with chance C(g - x, r - 1) / C(g, r); measures are averaged over it |

Chances follow from one another: P(1) = r / g, and P(x + 1) = P(x) (g - r + 1 - x) / (g - x). All terms are positive and
none grows, so neither cancellation nor underflow takes digits from their sum.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core import arrays, segments
from torch_ap.core.harmonic import harmonic_difference
from torch_ap.core.hit_curve import HitCurve

_ENOUGH = 64  # P(X > 64 g / r) < exp(-64), which no float64 sum feels
_NARROWEST = 4
_MOST_AT_ONCE = 1 << 20  # terms


@arrays.quiet
def reciprocal_rank(curve: HitCurve, *, ties: str = "grouped", top_k: int | None = None) -> Tensor:
    """1 / (rank of the first hit), 0 where none lies in the top k: (S,) float64; NaN where nothing is relevant."""
    curve, k = curve.native, torch.inf if top_k is None else float(top_k)
    if curve.untied:
        rank = curve.items_above[:1] + 1
        found = (1 if top_k is None else rank <= top_k) / rank
        return arrays.tensor(found if len(rank) else 0 / segments.real(curve.m))  # with no hit in sight: 0, or 0 / 0
    if curve.single:
        return arrays.tensor(np.array([_reciprocal_rank_of_one(*_first_of_one(curve), ties, k)]))
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
    if curve.single:
        return arrays.tensor(np.array([_hit_rate_of_one(*_first_of_one(curve), ties, k)]))
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


def _first_of_one(curve: Any) -> tuple[float, float, float]:
    """Hits, items and items above of the first group of one ranking, some of whose groups tie."""
    return float(curve.hits.item(0)), float(curve.items.item(0)), float(curve.items_above.item(0))


def _place(hits: Any, items: Any, ties: str) -> Any:
    """X of the table above, for the rules that are one order."""
    if ties == "optimistic":
        return 1
    return items if ties == "grouped" else items - hits + 1


def _reciprocal_rank_of_one(hits: float, items: float, above: float, ties: str, k: float) -> float:
    if ties == "expected" and items > 1:
        return _mean_of_one(hits, items, above, k, reciprocal=True)
    rank = above + (1 if ties == "expected" else _place(hits, items, ties))
    return 1 / rank if rank <= k else 0.0


def _hit_rate_of_one(hits: float, items: float, above: float, ties: str, k: float) -> float:
    if ties != "expected":
        return float(above + _place(hits, items, ties) <= k)
    if above < k <= above + (items - hits):
        return min(1.0, _mean_of_one(hits, items, above, k, reciprocal=False))
    return float(above < k)


def _mean_reciprocal_rank(hits: Any, items: Any, above: Any, k: float) -> Any:
    """E[1 / (t0 + X); t0 + X <= k] of each group. Most groups are one item and need no sum."""
    value = arrays.namespace(above).where(above < k, 1 / (above + 1), 0)
    tied = arrays.places((items > 1) & (above < k))
    if len(tied):
        value[tied] = _mean(*(x[tied] for x in (hits, items, above)), k, reciprocal=True)
    return value


def _chance_of_hit(hits: Any, items: Any, above: Any, k: float) -> Any:
    """The chance that t0 + X <= k of each group, which is 0 or 1 but where a group of misses and hits straddles k."""
    value = segments.real(above < k)
    cut = arrays.places((above < k) & (k <= above + (items - hits)))
    if len(cut):
        value[cut] = arrays.at_most(_mean(*(x[cut] for x in (hits, items, above)), k, reciprocal=False), 1)
    return value


def _mean(hits: Any, items: Any, above: Any, k: float, *, reciprocal: bool) -> Any:
    """The sum over x, t0 + x <= k, of P(x), or of P(x) / (t0 + x), of each group, all of which begin above rank k.

    Groups are summed with others of about as many terms, in rows whose width depends on the group alone.
    """
    xp = arrays.namespace(items)
    places = arrays.at_most(items - hits + 1 + above, k) - above
    value = (harmonic_difference(above, places) if reciprocal else places) / items  # of one hit, anywhere alike
    terms = xp.where(hits > 1, xp.minimum(places, xp.ceil(_ENOUGH * items / hits)), 0)
    powers = arrays.at_least(xp.frexp(terms - 1)[1], _NARROWEST)
    for power in xp.unique(powers[terms > 0]).tolist():
        for rows in _blocks(arrays.places((terms > 0) & (powers == power)), max(1, _MOST_AT_ONCE >> power)):
            columns = (x[rows][:, None] for x in (hits, items, above, terms))
            value[rows] = _sum(*columns, xp.arange(1 << power, dtype=items.dtype, **_where(items)), reciprocal=reciprocal)
    return value


def _mean_of_one(hits: float, items: float, above: float, k: float, *, reciprocal: bool) -> float:
    """:func:`_mean` of one group, to the same bits."""
    places = min(items - hits + 1 + above, k) - above
    if places <= 0:
        return 0.0
    if hits == 1:
        steps = harmonic_difference(np.array([above]), np.array([places])).item() if reciprocal else places
        return float(steps / items)
    terms = min(places, math.ceil(_ENOUGH * items / hits))
    power = max(_NARROWEST, (int(terms) - 1).bit_length())
    return float(_sum(hits, items, above, terms, np.arange(1 << power, dtype=np.float64), reciprocal=reciprocal))


def _sum(hits: Any, items: Any, above: Any, terms: Any, step: Any, *, reciprocal: bool) -> Any:
    """The first terms, of one group or of one a row."""
    chance = arrays.namespace(step).where(step < terms, (items - hits + 1 - step) / (items - step), 0)
    chance[..., :1] = hits / items
    chance = chance.cumprod(-1)
    if reciprocal:
        chance /= above + 1 + step
    return chance.sum(-1)


def _blocks(rows: Any, size: int) -> list[Any]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _where(values: Any) -> dict[str, Any]:
    return {"device": values.device} if isinstance(values, Tensor) else {}
