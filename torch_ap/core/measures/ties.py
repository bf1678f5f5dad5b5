"""Settings that measures share: the tie rule, the cut-off rank, and the divisor of AP at that rank.

A tie rule defines the contribution of a group of items with equal scores.

A tie group of g items with r hits has t0 items and h0 hits above it. At a cut k, only its first L = min(g, k - t0)
places count.

| rule | the hits are | places of the hits | sum of precisions at the hits of the whole group |
|---|---|---|---|
| grouped | at one threshold: all items enter together | 1 to g, evenly | r (h0 + r) / (t0 + g) |
| expected | anywhere, all orders equally likely | 1 to g, evenly | (r / g) [(h0 + 1 - c (t0 + 1)) D + c g] |
| optimistic | at the top | 1 to r | sum over i = 1 .. r of (h0 + i) / (t0 + i) |
| pessimistic | at the bottom | g - r + 1 to g | sum over i = 1 .. r of (h0 + i) / (t0 + g - r + i) |

with c = (r - 1) / (g - 1) and D = H(t0 + g) - H(t0), a difference of harmonic numbers (McSherry & Najork 2008). At k, a
grouped group enters as L items with their r L / g expected hits, so that its precision at k is P@k.

A measure lists the rules that it supports and raises for all others. A new rule therefore changes no measure until the
measure lists it.

Differences of harmonic numbers in full precision for all sizes.

A difference of prefix sums or of digamma values loses its digits at large ranks (the error at rank 10^8 is 32%). On
CPU, a table contains the first harmonic numbers as sums of two floats, whose differences are accurate. Beyond the table
the first terms are added one by one. The rest is a ``log1p`` with the Euler-Maclaurin corrections of DeTemple and Wang,
without cancellation of large numbers.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.order import Array

Values = TypeVar("Values", Tensor, Array)

_TERMS = 16
_KEPT = (1 << 13) + 1  # size of the table
_BITS = 110  # fractional bits of the fixed-point sums
_CORRECTIONS = (1 / 24, -7 / 960, 31 / 8064, -127 / 30720, 511 / 67584)


def harmonic_difference(start: Values, length: Values) -> Values:
    """Return H(start + length) - H(start), the sum of 1 / (start + j) for j = 1 .. length, elementwise.

    Args:
        start: float64 whole numbers of at least 0.
        length: float64 whole numbers of at least 0.
    """
    if isinstance(start, Tensor):
        if not start.is_cpu:
            return _sum_terms(start, length)
        flat = harmonic_difference(start.reshape(-1).numpy(), length.reshape(-1).numpy())
        return torch.from_numpy(flat).reshape(start.shape)
    end = start + length
    beyond = end >= _KEPT
    if not np.count_nonzero(beyond):
        return _table_difference(start, end)
    total = _table_difference(np.where(beyond, 0, start), np.where(beyond, 0, end))
    total[beyond] = _sum_terms(torch.from_numpy(start[beyond]), torch.from_numpy(length[beyond])).numpy()
    return total


def harmonic_step(start: int, length: int) -> float:
    """Return :func:`harmonic_difference` of two ints, bit for bit."""
    if start + length >= _KEPT:
        return float(harmonic_difference(np.array([float(start)]), np.array([float(length)]))[0])
    numbers = _table()
    parts: complex = numbers.item(start + length) - numbers.item(start)
    return parts.real + parts.imag


def _table_difference(start: Array, end: Array) -> Array:
    """Return H(end) - H(start), rounded once; the error of the small parts is below the last bit."""
    numbers = _table()
    parts = numbers.take(end.astype(np.intp)) - numbers.take(start.astype(np.intp))
    difference: Array = parts.real + parts.imag
    return difference


@functools.cache
def _table() -> Array:
    """Return the harmonic numbers below ``_KEPT``: the real part is H(n) rounded, the imaginary part is the rest."""
    one = 1 << _BITS
    sums = list(itertools.accumulate((one // n for n in range(1, _KEPT)), initial=0))
    large = [x / one for x in sums]
    return np.array([complex(y, (x - int(y * one)) / one) for x, y in zip(sums, large, strict=True)])


def _sum_terms(start: Tensor, length: Tensor) -> Tensor:
    total = torch.zeros_like(start)
    longest = int(length.max()) if length.numel() else 0
    for j in range(1, min(longest, _TERMS) + 1):
        total += torch.where(length >= j, 1 / (start + j), 0)
    if longest > _TERMS:
        longer = length > _TERMS
        total[longer] += _tail(start[longer], length[longer])
    return total


def _tail(start: Tensor, length: Tensor) -> Tensor:
    """Return the sum of the terms after the first ones."""
    low, more = start + (_TERMS + 0.5), length - _TERMS
    return torch.log1p(more / low) + _correction(low + more) - _correction(low)


def _correction(x: Tensor) -> Tensor:
    """Return H(x - 1/2) - log(x) - Euler's gamma for x > 16, with an error of at most 1e-16."""
    inverse = 1 / (x * x)
    value = torch.zeros_like(x)
    for coefficient in reversed(_CORRECTIONS):
        value = (value + coefficient) * inverse
    return value


Groups: TypeAlias = tuple[Any, Any, Any, Any, Any]  # r, g, h0, t0 and L of each tie group, as floats


@dataclass(frozen=True, eq=False)
class TieRule:
    """A tie rule: functions of tie groups, elementwise on native arrays.

    Attributes:
        name: value of the public argument ``ties``.
        sentence: description of the rule, for reports.
        clause: the sentence without capital and period, for titles of tables.
        hits_within: (hits, items, places) to the number of hits in the first ``places`` places; also of Python's ints.
        precision_sum: :data:`Groups` to the sum of the precisions at the hits in the first L places.
        hit_places: (hits, items) to the first and the last place of the hits, from 0; the hits are spread evenly
            between the two. The last place is exclusive.
        first_place: (hits, items) to the place of the first hit, from 1; None if it is random.
        is_threshold: whether the group enters as a whole, as one threshold. Sample weights require it.
        hits_first: for a rule that orders the group, whether the hits come first; None for the others.
    """

    name: str
    sentence: str
    clause: str
    hits_within: Callable[[Any, Any, Any], Any]
    precision_sum: Callable[[Groups], Any]
    hit_places: Callable[[Any, Any], tuple[Any, Any]]
    first_place: Callable[[Any, Any], Any] | None
    is_threshold: bool = False
    hits_first: bool | None = None

    @cached_property
    def is_random(self) -> bool:
        """Whether a value is the mean over all orders of the group."""
        return self.first_place is None

    @cached_property
    def is_ordered(self) -> bool:
        """Whether the rule puts the group in one order."""
        return self.hits_first is not None


def tie_rule(name: str) -> TieRule:
    """Return the registered tie rule of this name.

    Raises:
        ValueError: for a name that is not registered.
    """
    try:
        return TIE_RULES[name]
    except KeyError:
        raise_invalid("ties", f"must be one of {', '.join(map(repr, TIE_RULES))}", name)


def check_ties(ties: Any, supported: Sequence[str | None]) -> None:
    """Raise ValueError unless ``ties`` is one of the supported names."""
    checks.one_of("ties", ties, supported)


def _even_share(hits: Any, items: Any, places: Any) -> Any:
    return hits * (places / items)


def _hits_at_top(hits: Any, items: Any, places: Any) -> Any:  # noqa: ARG001 - the signature of all rules
    return arrays.minimum(hits, places)


def _hits_at_bottom(hits: Any, items: Any, places: Any) -> Any:
    return arrays.maximum(places - (items - hits), 0)


def _grouped_sum(groups: Groups) -> Any:
    hits, items, hits_above, items_above, places = groups
    inside = _even_share(hits, items, places)
    return arrays.namespace(hits).where(inside > 0, inside * ((hits_above + inside) / (items_above + places)), 0)


def expected_sum(groups: Groups) -> Any:
    """Return the sum of precisions of each group, as the mean over all orders.

    Groups of one item need no harmonic numbers.
    """
    hits, items, hits_above, items_above, places = groups
    flags = items > 1
    tied = arrays.true_indices(flags)
    if len(tied) == len(items):
        return expected_sum_of_tied(*groups)
    total = hits * places * ((hits_above + 1) / (items_above + 1))
    if len(tied) * 2 >= len(items):  # computing all groups is faster than indexing
        return arrays.namespace(total).where(flags, expected_sum_of_tied(*groups), total)
    if len(tied):
        total[tied] = expected_sum_of_tied(*(x[tied] for x in groups))
    return total


def expected_sum_of_tied(hits: Any, items: Any, hits_above: Any, items_above: Any, places: Any) -> Any:
    """Return :func:`expected_sum` for groups of at least two items; NaN for a group of one item."""
    chance = (hits - 1) / (items - 1)
    steps = harmonic_difference(items_above, places)
    return (hits / items) * ((hits_above + 1 - chance * (items_above + 1)) * steps + chance * places)


def _optimistic_sum(groups: Groups) -> Any:
    hits, items, hits_above, items_above, places = groups
    return _run(hits_above, items_above, _hits_at_top(hits, items, places))


def _pessimistic_sum(groups: Groups) -> Any:
    hits, items, hits_above, items_above, places = groups
    return _run(hits_above, items_above + (items - hits), _hits_at_bottom(hits, items, places))


def _run(hits_above: Any, items_above: Any, length: Any) -> Any:
    """Return the sum of (h0 + i) / (t0 + i), i = 1 .. length: length - (t0 - h0) (H(t0 + length) - H(t0))."""
    total = arrays.namespace(length).where(length > 0, (hits_above + 1) / (items_above + 1), 0)
    longer = arrays.true_indices(length > 1)
    if len(longer):
        above, below, run = hits_above[longer], items_above[longer], length[longer]
        total[longer] = run - (below - above) * harmonic_difference(below, run)
    return total


def _all_places(hits: Any, items: Any) -> tuple[Any, Any]:
    return 0 * hits, items


TIE_RULES: dict[str, TieRule] = {
    rule.name: rule
    for rule in (
        TieRule(
            "grouped",
            "Items with equal scores enter together.",
            "equal scores enter together",
            hits_within=_even_share,
            precision_sum=_grouped_sum,
            hit_places=_all_places,
            first_place=lambda hits, items: items,  # noqa: ARG005
            is_threshold=True,
        ),
        TieRule(
            "expected",
            "Equal scores count as the mean over all their orders.",
            "equal scores count as the mean of their orders",
            hits_within=_even_share,
            precision_sum=expected_sum,
            hit_places=_all_places,
            first_place=None,
        ),
        TieRule(
            "optimistic",
            "Of equal scores the relevant items come first.",
            "of equal scores hits come first",
            hits_within=_hits_at_top,
            precision_sum=_optimistic_sum,
            hit_places=lambda hits, items: (0 * hits, hits),  # noqa: ARG005
            first_place=lambda hits, items: 1,  # noqa: ARG005
            hits_first=True,
        ),
        TieRule(
            "pessimistic",
            "Of equal scores the relevant items come last.",
            "of equal scores hits come last",
            hits_within=_hits_at_bottom,
            precision_sum=_pessimistic_sum,
            hit_places=lambda hits, items: (items - hits, items),
            first_place=lambda hits, items: items - hits + 1,
            hits_first=False,
        ),
    )
}
TIES = ("grouped", "expected", "optimistic", "pessimistic")  # supported by all measures except trec_eval's


def cut_rank(top_k: Any, curve: Any) -> Any:
    """Return the cut-off rank of native rankings: an int, None for no cut, or (S,) float64.

    Args:
        top_k: an int, None, "relevant", or (S,) ranks.
        curve: S rankings.
    """
    return segments.as_float64(curve.m) if isinstance(top_k, str) else arrays.native(top_k)


_DIVISORS: dict[str, Callable[[Any, Any], Any]] = {
    "min": arrays.minimum,
    "relevant": lambda m, k: m,  # noqa: ARG005
}
DENOMINATORS = (*_DIVISORS, "found")


def divisor(denominator: str, m: Any, k: Any) -> Any:
    """Return the divisor of AP@k; m for every denominator if k is None.

    Args:
        denominator: "min" or "relevant". The divisor of "found" depends on the ranking.
        m: number of relevant items of each ranking, or of a single ranking.
        k: rank of each ranking or of all rankings, or None for all items.
    """
    return m if k is None else _DIVISORS[denominator](m, k)


def rank_per_entry(rank: Any, offsets: Any) -> Any:
    """Return the rank of each entry's ranking; an int or None is returned unchanged."""
    return rank if rank is None or isinstance(rank, int) else segments.each_entry(rank, offsets)
