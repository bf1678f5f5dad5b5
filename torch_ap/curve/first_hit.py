"""Measures of where the first hit of a ranking lies: reciprocal rank and hit rate, under each rule for ties.

A group of g items with r hits, t0 items and no hit above it, holds the first hit at rank t0 + X:

| ties | X |
|---|---|
| grouped | g: the group enters at once, and its rank is that of its end |
| optimistic | 1 |
| pessimistic | g - r + 1 |
| expected | x with probability C(g - x, r - 1) / C(g, r); measures are averaged over x |

Probabilities follow from one another: P(1) = r / g, and P(x + 1) = P(x) (g - r + 1 - x) / (g - x). All terms are
positive and do not grow, so their sum loses no digits to cancellation or underflow.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve.harmonic import harmonic_difference, harmonic_step
from torch_ap.curve.top_k import rank_of
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules.options import TopK
from torch_ap.runtime import arrays

_ENOUGH = 64  # P(X > 64 g / r) < exp(-64), too small to change a float64 sum
_NARROWEST = 4
_MOST_AT_ONCE = 1 << 20  # terms


def reciprocal_rank(curve: HitCurve, *, ties: str = "grouped", top_k: TopK = None) -> Tensor:
    """1 / (rank of the first hit), 0 where none lies in the top k: (S,) float64; NaN where nothing is relevant."""
    native = curve.native
    if native.single and len(native.hits):
        k = _rank_of_one(top_k, native)
        return arrays.tensor(np.array([_reciprocal_rank_of_one(*_first_of_one(native), ties, k)]))
    return _each(curve, _reciprocal_ranks, ties, top_k)


def hit_rate(curve: HitCurve, *, ties: str = "grouped", top_k: TopK = None) -> Tensor:
    """Whether a hit lies in the top k, or the probability of it: (S,) float64; NaN where nothing is relevant."""
    native = curve.native
    if native.single and len(native.hits):
        k = _rank_of_one(top_k, native)
        return arrays.tensor(np.array([_hit_rate_of_one(*_first_of_one(native), ties, k)]))
    return _each(curve, _hit_rates, ties, top_k)


@arrays.quiet
def _each(curve: HitCurve, measure: Callable[..., Any], ties: str, top_k: TopK) -> Tensor:
    """The values of the rankings that have a hit, and 0 for the others; NaN where nothing is relevant."""
    curve = curve.native
    ranking, hits, items, above = _first(curve)
    k = rank_of(top_k, curve)
    k = k[ranking] if top_k == "relevant" else above * 0 + (torch.inf if k is None else k)
    found = measure(hits, items, above, ties, k)
    if len(ranking) == len(curve.m):
        return arrays.tensor(found)
    value = segments.as_float64(curve.m) * 0
    value[ranking] = found
    return arrays.tensor(arrays.namespace(value).where(curve.m > 0, value, torch.nan))


def _reciprocal_ranks(hits: Any, items: Any, above: Any, ties: str, k: Any) -> Any:
    if ties == "expected":
        return _mean_reciprocal_rank(hits, items, above, k)
    rank = above + _place(hits, items, ties)
    return arrays.namespace(rank).where(rank <= k, 1 / rank, 0)


def _hit_rates(hits: Any, items: Any, above: Any, ties: str, k: Any) -> Any:
    if ties == "expected":
        return _chance_of_hit(hits, items, above, k)
    return segments.as_float64(above + _place(hits, items, ties) <= k)


def _first(curve: Any) -> tuple[Any, Any, Any, Any]:
    """The rankings that have a hit, and of each the hits, items and items above of its first group with one."""
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
    hits, items, above = (segments.as_float64(x[entries]) for x in (curve.hits, curve.items, curve.items_above))
    return ranking, hits, items, above


def _first_of_one(curve: Any) -> tuple[int, int, int]:
    """Hits, items and items above of the first group of one ranking."""
    return curve.hits.item(0), curve.items.item(0), curve.items_above.item(0)


def _rank_of_one(top_k: TopK, curve: Any) -> int | None:
    m: int = curve.m.item(0)
    return m if isinstance(top_k, str) else top_k


def _place(hits: Any, items: Any, ties: str) -> Any:
    """X of the table above, for the rules that fix the order."""
    if ties == "optimistic":
        return 1
    return items if ties == "grouped" else items - hits + 1


def _reciprocal_rank_of_one(hits: int, items: int, above: int, ties: str, k: int | None) -> float:
    if ties == "expected" and items > 1:
        return _mean_of_one(hits, items, above, k, reciprocal=True)
    rank = above + (1 if ties == "expected" else _place(hits, items, ties))
    return 1 / rank if k is None or rank <= k else 0.0


def _hit_rate_of_one(hits: int, items: int, above: int, ties: str, k: int | None) -> float:
    if k is None:
        return 1.0
    if ties != "expected":
        return float(above + _place(hits, items, ties) <= k)
    if above < k <= above + (items - hits):
        return min(1.0, _mean_of_one(hits, items, above, k, reciprocal=False))
    return float(above < k)


def _mean_reciprocal_rank(hits: Any, items: Any, above: Any, k: Any) -> Any:
    """E[1 / (t0 + X); t0 + X <= k] of each group. Most groups are one item and need no sum."""
    value = arrays.namespace(above).where(above < k, 1 / (above + 1), 0)
    tied = arrays.places((items > 1) & (above < k))
    if len(tied):
        value[tied] = _mean(hits[tied], items[tied], above[tied], k[tied], reciprocal=True)
    return value


def _chance_of_hit(hits: Any, items: Any, above: Any, k: Any) -> Any:
    """The probability that t0 + X <= k, of each group: 0 or 1 unless a group of misses and hits straddles k."""
    value = segments.as_float64(above < k)
    cut = arrays.places((above < k) & (k <= above + (items - hits)))
    if len(cut):
        value[cut] = arrays.at_most(_mean(hits[cut], items[cut], above[cut], k[cut], reciprocal=False), 1)
    return value


def _mean(hits: Any, items: Any, above: Any, k: Any, *, reciprocal: bool) -> Any:
    """The sum over x, t0 + x <= k, of P(x), or of P(x) / (t0 + x), of each group, all of which begin above rank k.

    Groups with about the same number of terms are summed together, in rows whose width depends only on the group.
    """
    xp = arrays.namespace(items)
    places = xp.minimum(items - hits + 1, k - above)
    value = (harmonic_difference(above, places) if reciprocal else places) / items  # one hit, anywhere
    terms = xp.where(hits > 1, xp.minimum(places, xp.ceil(_ENOUGH * items / hits)), 0)
    powers = arrays.at_least(xp.frexp(terms - 1)[1], _NARROWEST)
    for power in xp.unique(powers[terms > 0]).tolist():
        step = arrays.steps(1 << power, items)
        for rows in _blocks(arrays.places((terms > 0) & (powers == power)), max(1, _MOST_AT_ONCE >> power)):
            columns = (x[rows][:, None] for x in (hits, items, above, terms))
            value[rows] = _sum(*columns, step=step, reciprocal=reciprocal)
    return value


def _mean_of_one(hits: int, items: int, above: int, k: int | None, *, reciprocal: bool) -> float:
    """:func:`_mean` of one group, to the same bits."""
    places = items - hits + 1 if k is None else min(items - hits + 1, k - above)
    if places <= 0:
        return 0.0
    if hits == 1:
        return (harmonic_step(above, places) if reciprocal else places) / items
    terms = min(places, math.ceil(_ENOUGH * items / hits))
    power = max(_NARROWEST, (terms - 1).bit_length())
    step = np.arange(1 << power, dtype=np.float64)
    return float(_sum(hits, items, above, terms, step=step, reciprocal=reciprocal))


@arrays.quiet
def _sum(hits: Any, items: Any, above: Any, terms: Any, *, step: Any, reciprocal: bool) -> Any:
    """The first terms of one group, or of one group per row."""
    chance = arrays.namespace(step).where(step < terms, (items - hits + 1 - step) / (items - step), 0)
    chance[..., :1] = hits / items
    chance = chance.cumprod(-1)
    if reciprocal:
        chance /= above + 1 + step
    return chance.sum(-1)


def _blocks(rows: Any, size: int) -> list[Any]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]
