"""Discounted cumulative gain, and its ratio to the ideal ranking, under each tie rule.

The item at rank t adds its gain times d(t) = 1 / log2(t + 1). A tie group has g items, r items with a gain, the sum G
of gains, and t0 items above it. At k, only its first L = min(g, k - t0) places count:

| ties | the group adds |
|---|---|
| expected | (G / g) (d(t0 + 1) + ... + d(t0 + L)), the mean over all orders |
| grouped | (G L / g) d(t0 + L): the whole group enters together, at the rank of its end, and at k with its share |
| optimistic | its gains in descending order times d(t0 + 1), d(t0 + 2), ... |
| pessimistic | its gains in ascending order times d(t0 + g - r + 1), d(t0 + g - r + 2), ... |

(McSherry & Najork 2008.) Ties in the ideal ranking have no effect, because tied items have equal gains.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks
from torch_ap.core.base.options import TopK
from torch_ap.core.measures import lists
from torch_ap.core.measures.average_precision import places_within
from torch_ap.core.measures.lists import FewHits
from torch_ap.core.measures.measure import Measure
from torch_ap.core.measures.ties import TieRule, cut_rank, rank_per_entry
from torch_ap.core.ranking import order, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array

_FINE = float(1 << 32)
_MAX_CACHED = 1 << 20  # ranks
_HIGHEST_EXPONENT = 1000
_FEW_GAINS = 32  # of one ranking; up to this number, lists are faster than arrays


def _exponential(grades: Any) -> Any:
    if len(grades) and float(grades.max()) > _HIGHEST_EXPONENT:
        raise ValueError(
            f"`target` must be at most {_HIGHEST_EXPONENT} with `gains='exponential'`, got {float(grades.max())}"
        )
    space = arrays.namespace(grades)
    return space.where(grades < 1, space.expm1(grades * math.log(2)), 2.0**grades - 1)  # exact near 0


GAINS: dict[str, Callable[[Any], Any]] = {"linear": lambda grades: grades, "exponential": _exponential}


@dataclass(frozen=True)
class _DiscountedGain(Measure):
    """Sum of discounted gains: the settings and the sums of both measures."""

    top_k: TopK = None
    gains: str = "linear"
    ties: str = "expected"
    graded: ClassVar[bool] = True
    is_bounded: ClassVar[bool] = False
    _highest: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("gains", self.gains, tuple(GAINS))

    def describe(self) -> str:
        """Return the definition of the sum."""
        gain = {"linear": "the grade of each item", "exponential": "2^grade - 1 of each item"}[self.gains]
        return f"{self.table_name}, the sum of {gain} in {self.top} over log2(rank + 1)"

    def _divisor(self, curve: HitCurve) -> Any:
        """Return the divisor of the DCG of each ranking, (S,) native; NaN if nothing has a gain."""
        m = curve.native.m
        return arrays.namespace(m).where(m > 0, 1.0, torch.nan)

    @arrays.quiet
    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking of a curve with grades: (S,) float64, NaN if nothing has a gain."""
        gain = self.dcg(curve, self.gains_of(arrays.native(curve.grades)))
        return arrays.tensor(arrays.clamp_max(gain / self._divisor(curve), self._highest))

    def chance_level(self, curve: HitCurve, *, groups: HitCurve | None = None, **_: Any) -> Tensor:
        """Return the mean over random orders: each of the n places has the mean gain of the ranked items.

        For ``groups`` see :class:`torch_ap.core.measures.measure.Measure`. The level is NaN if nothing has a gain.
        """
        n, grades = segments.as_float64(curve.n), curve.grades
        assert grades is not None
        gain = segments.total(self.gains_of(grades), segments.from_zero(curve.hits)[curve.offsets])
        if groups is None:
            k = cut_rank(self.top_k, curve)
            worth = total_discount(curve.n if k is None else segments.as_int64(n.clamp(max=k)))
        else:
            ones = torch.ones(int(groups.hits.sum()), dtype=n.dtype, device=n.device)
            discount = arrays.tensor(self.dcg(groups, arrays.native(ones)))
            worth = torch.cat([discount, n.new_zeros(len(n) - len(discount))])
        level: Tensor = gain / n.clamp(min=1) * worth / arrays.tensor(self._divisor(curve))
        return level

    def dcg(self, curve: HitCurve, gains: Any) -> Any:
        """Return the DCG of each ranking, (S,) native; ``gains`` (H,) are of the hits, in the order of the curve."""
        native = curve.native
        if not len(gains):
            return segments.as_float64(native.m) * 0
        factors = self._factors(native)
        hits_above = segments.from_zero(native.hits)
        if factors is None:
            gains, factors = self._order_gains(native, gains, hits_above)
        elif len(gains) > len(factors):
            factors = factors[segments.ids(hits_above)]
        return segments.total(gains * factors, hits_above[native.offsets])

    def gains_of(self, grades: Any) -> Any:
        """Return the gain of each grade, native or not."""
        return GAINS[self.gains](grades)

    def _factors(self, curve: Any) -> Any:
        """Return the factor of all gains of each group, (E,); None if the place inside the group counts."""
        items, above = curve.items, curve.items_above
        where, k = arrays.namespace(items).where, rank_per_entry(cut_rank(self.top_k, curve), curve.offsets)
        tied = () if curve.untied else arrays.true_indices(items > 1)
        if len(tied) and self.rule.is_ordered:
            return None
        depth = curve.n.item(0) if curve.single else int(curve.n.max())
        single = discounts(depth, items)
        factors = single[above]
        if not (k is None or (isinstance(k, int) and depth <= k)):
            factors = where(above < k, factors, 0)
        if not len(tied):
            return factors
        items, above, k = items[tied], above[tied], k if k is None or isinstance(k, int) or len(k) == 1 else k[tied]
        places = items if k is None else places_within(items, above, k)
        factors[tied] = _DISCOUNTS[self.ties](depth, above, places) / segments.as_float64(items)
        return factors

    def _order_gains(self, curve: Any, gains: Any, hits_above: Any) -> tuple[Any, Any]:
        """Return the gains in the order of the tie rule, and the discount of each."""
        ordered, rank, group = order_gains(curve, gains, hits_above, self.rule)
        discount = discounts(int(rank.max()) + 1, rank)[rank]
        k = rank_per_entry(cut_rank(self.top_k, curve), curve.offsets)
        if k is None:
            return ordered, discount
        return ordered, discount * (rank < (k if isinstance(k, int) or len(k) == 1 else k[group]))


@dataclass(frozen=True)
class NormalizedDCG(_DiscountedGain):
    """DCG at k, divided by the DCG of the ideal ranking of all judged items.

    Attributes:
        top_k: k, "relevant" for the number of items with a gain, or None for all items of the ranking.
        gains: "linear" for the grade itself, "exponential" for 2^grade - 1.
        ties: name of a tie rule.
    """

    table_name: ClassVar[str] = "nDCG"
    _highest: ClassVar[float] = 1.0

    def describe(self) -> str:
        """Return the definition of the measure."""
        return f"{super().describe()}, divided by the sum of the ideal order"

    def _divisor(self, curve: HitCurve) -> Any:
        """Return the DCG of the ideal ranking, (S,) native."""
        native, gains = curve.native, self.gains_of(arrays.native(curve.ideal_grades))
        offsets = segments.from_counts(native.m)
        single = discounts(int(native.m.max()) if len(native.m) else 0, native.m)
        place = arrays.arange_like(len(gains), offsets) - segments.each_entry(offsets[:-1], offsets)
        gains = gains * single[place]
        return segments.total(gains * (place < self.top_k) if isinstance(self.top_k, int) else gains, offsets)

    def values_of_lists(self, rankings: Sequence[FewHits]) -> list[float] | None:
        """Return the value of each short ranking; None for many gains, and for gains that are not the grades."""
        if self.gains != "linear" or max([hits.m for hits in rankings], default=0) > _FEW_GAINS:
            return None
        weights = _discount_list(_size_of(max([max(hits.n, hits.m) for hits in rankings], default=0)))
        return [lists.normalized_gain(hits, weights, self.top_k) for hits in rankings]


def order_gains(curve: Any, gains: Any, hits_above: Any, rule: TieRule) -> tuple[Any, Any, Any]:
    """Return the gains in the order of a tie rule, the number of items above each, and its tie group: (H,) native.

    Args:
        curve: native rankings.
        gains: (H,) gain of each hit, in the order of the curve.
        hits_above: (E + 1,) number of hits before each tie group, of all rankings.
        rule: a rule with an order.
    """
    group = segments.ids(hits_above)
    nth = arrays.arange_like(len(group), hits_above) - hits_above[:-1][group]
    first = curve.items_above + rule.hit_places(curve.hits, curve.items)[0]
    ascending = torch.argsort(arrays.tensor(gains), descending=bool(rule.hits_first))
    sequence = order.stable_argsort(segments.pick(arrays.tensor(group), ascending), len(curve.items))
    ordered = segments.pick(arrays.tensor(gains), segments.pick(ascending, sequence))
    return arrays.native(ordered), first[group] + nth, group


@dataclass(frozen=True)
class DCG(_DiscountedGain):
    """DCG at k, without division by the DCG of the ideal ranking.

    Attributes:
        top_k: k, "relevant" for the number of items with a gain, or None for all items of the ranking.
        gains: "linear" for the grade itself, "exponential" for 2^grade - 1.
        ties: name of a tie rule.
    """

    table_name: ClassVar[str] = "DCG"


def _discount_of_end(depth: int, above: Any, places: Any) -> Any:
    """Return the discount of the last place that counts, times the number of places that count."""
    end = arrays.clamp_min(above + segments.as_int64(places) - 1, 0)
    return discounts(depth, above)[end] * segments.as_float64(places)


def _discounts_of_places(depth: int, above: Any, places: Any) -> Any:
    """Return the sum of the discounts of the places that count."""
    return _between(running_discounts(depth, above), above, above + segments.as_int64(places))


_DISCOUNTS = {"grouped": _discount_of_end, "expected": _discounts_of_places}  # of a tie group without an order


def discounts(ranks: int, like: Any) -> Any:
    """Return 1 / log2(t + 1) for t = 1 .. at least ``ranks``, native as ``like``."""
    size = _size_of(ranks)
    values = _cached_single(size) if size <= _MAX_CACHED else _single(size)
    return _to_device(values, like) if isinstance(like, Tensor) else values


def running_discounts(ranks: int, like: Any) -> tuple[Any, Any]:
    """Return the running sums of :func:`discounts`, from 0, in two parts: whole multiples of 2^-32, and the rest.

    Differences of the two parts lose no digits to cancellation.
    """
    size = _size_of(ranks)
    whole, rest = _cached_running(size) if size <= _MAX_CACHED else _running(size)
    return (_to_device(whole, like), _to_device(rest, like)) if isinstance(like, Tensor) else (whole, rest)


def _size_of(ranks: int) -> int:
    return 1 << max(ranks - 1, 0).bit_length()


def _to_device(values: Array, like: Tensor) -> Tensor:
    """Return values on the device of a tensor; as float32 on MPS, which has no float64."""
    tensor = torch.from_numpy(values)
    return (tensor.float() if like.device.type == "mps" and tensor.is_floating_point() else tensor).to(like.device)


def _single(size: int) -> Array:
    values: Array = 1 / np.log2(np.arange(2, size + 2, dtype=np.float64))
    return values


def _running(size: int) -> tuple[Array, Array]:
    single = _single(size)
    whole = np.rint(single * _FINE)
    return segments.from_zero(whole.astype(np.int64)), segments.from_zero(single - whole / _FINE)


@functools.cache
def _discount_list(size: int) -> list[float]:
    values: list[float] = _cached_single(size).tolist()
    return values


_cached_single, _cached_running = functools.cache(_single), functools.cache(_running)


def total_discount(ranks: Tensor) -> Tensor:
    """Return the sum of 1 / log2(t + 1) for t = 1 .. each rank: float64."""
    native = arrays.native(ranks)
    return arrays.tensor(_between(running_discounts(int(ranks.max()) if len(ranks) else 0, native), 0, native))


def _between(running: tuple[Any, Any], first: Any, last: Any) -> Any:
    """Return the sum of the discounts from place ``first`` to before place ``last``, counted from 0."""
    whole, rest = running
    return segments.as_float64(whole[last] - whole[first]) / _FINE + (rest[last] - rest[first])
