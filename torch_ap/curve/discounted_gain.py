"""Discounted cumulative gain, and its share of the ideal ranking's, under each rule for ties.

The item at rank t adds its gain times d(t) = 1 / log2(t + 1). Of a group of g items, r of which have a gain, G in sum,
with t0 items above it, only the first L = min(g, k - t0) places count at k:

| ties | the group adds |
|---|---|
| expected | (G / g) (d(t0 + 1) + ... + d(t0 + L)), the mean over all orders |
| grouped | (G L / g) d(t0 + L): the group enters at once, at the rank of its end, and at k with its share |
| optimistic | its gains in descending order times d(t0 + 1), d(t0 + 2), ... |
| pessimistic | its gains in ascending order times d(t0 + g - r + 1), d(t0 + g - r + 2), ... |

(McSherry & Najork 2008.) The ideal ranking has no ties that matter: what is equal there has equal gains.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve import few_hits
from torch_ap.curve.average_precision import places_within
from torch_ap.curve.convention import TIES
from torch_ap.curve.few_hits import FewHits
from torch_ap.curve.top_k import at_entries, rank_of
from torch_ap.ranking import order, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array
from torch_ap.rules import checks
from torch_ap.rules.options import Gains, TopK, allowed
from torch_ap.runtime import arrays

GAINS = allowed(Gains)
_FINE = float(1 << 32)
_LONGEST_KEPT = 1 << 20
_HIGHEST_EXPONENT = 1000
_FEW_GAINS = 32  # of one ranking, which lists discount faster than arrays


@dataclass(frozen=True)
class NormalizedDCG:
    """DCG at k, divided by that of the ideal ranking of all items that are known.

    Attributes:
        top_k: k, "relevant" for the number of items with a gain, or None for all items of the ranking.
        gains: "linear" for the grade itself, "exponential" for 2^grade - 1.
        ties: how a tie group counts.
    """

    top_k: TopK = None
    gains: str = "linear"
    ties: str = "expected"
    graded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "top_k", checks.top_k("top_k", self.top_k))
        checks.one_of("gains", self.gains, GAINS)
        checks.one_of("ties", self.ties, TIES)

    def __call__(self, curve: HitCurve) -> Tensor:
        """(S,) float64 in [0, 1], NaN where nothing has a gain, of a curve with grades."""
        native = curve.native
        if native.single and native.m.item(0):
            return arrays.tensor(self._share(curve))
        return arrays.tensor(arrays.quiet(self._share)(curve))

    def of_few(self, rankings: Sequence[FewHits]) -> list[float] | None:
        """The value of each ranking, without arrays, where it has few gains and these are the grades."""
        if self.gains != "linear" or max([hits.m for hits in rankings], default=0) > _FEW_GAINS:
            return None
        known = _listed(_size_of(max([max(hits.n, hits.m) for hits in rankings], default=0)))
        return [few_hits.normalized_gain(hits, known, self.top_k) for hits in rankings]

    def _share(self, curve: HitCurve) -> Any:
        found = self.dcg(curve, self.gains_of(arrays.native(curve.grades)))
        return arrays.at_most(found / self.ideal(curve), 1)

    def dcg(self, curve: HitCurve, gains: Any) -> Any:
        """The DCG of each ranking, (S,) native, whose hits have these gains, (H,) native in the order of the curve."""
        native = curve.native
        if not len(gains):
            return segments.as_float64(native.m) * 0
        factors = self._factors(native)
        if len(native.m) == 1 and factors is not None and len(factors) == len(gains):
            return arrays.whole_sum(gains * factors)
        hits_above = segments.from_zero(native.hits)
        if factors is None:
            gains, factors = self._in_order(native, gains, hits_above)
        elif len(gains) > len(factors):
            factors = factors[segments.ids(hits_above)]
        return segments.total(gains * factors, hits_above[native.offsets])

    def ideal(self, curve: HitCurve) -> Any:
        """The DCG of the ideal ranking, (S,) native."""
        native, gains = curve.native, self.gains_of(arrays.native(curve.ideal_grades))
        if len(native.m) == 1 and len(gains):
            found = gains * discounts(len(gains), gains)[: len(gains)]
            if isinstance(self.top_k, int):
                found[self.top_k :] = 0  # and not left out: sums are the same to the bit as those of many rankings
            return arrays.whole_sum(found)
        offsets = segments.from_counts(native.m)
        single = discounts(int(native.m.max()) if len(native.m) else 0, native.m)
        place = arrays.steps(len(gains), offsets) - segments.each_entry(offsets[:-1], offsets)
        found = gains * single[place]
        return segments.total(found * (place < self.top_k) if isinstance(self.top_k, int) else found, offsets)

    def gains_of(self, grades: Any) -> Any:
        """The gain of each grade, native or not."""
        if self.gains == "linear":
            return grades
        if len(grades) and float(grades.max()) > _HIGHEST_EXPONENT:
            raise ValueError(
                f"`target` must be at most {_HIGHEST_EXPONENT} with `gains='exponential'`, got {float(grades.max())}"
            )
        space = arrays.namespace(grades)
        return space.where(grades < 1, space.expm1(grades * math.log(2)), 2.0**grades - 1)  # 2^grade near 1 has lost it

    def _factors(self, curve: Any) -> Any:
        """What each group multiplies every gain in it with, (E,); None where the place inside the group counts."""
        items, above = curve.items, curve.items_above
        where, k = arrays.namespace(items).where, at_entries(rank_of(self.top_k, curve), curve.offsets)
        tied = () if curve.untied else arrays.places(items > 1)
        if len(tied) and self.ties in ("optimistic", "pessimistic"):
            return None
        depth = curve.n.item(0) if curve.single else int(curve.n.max())
        single = discounts(depth, items)
        found = single[above]
        if not (k is None or (isinstance(k, int) and depth <= k)):
            found = where(above < k, found, 0)
        if not len(tied):
            return found
        items, above, k = items[tied], above[tied], k if k is None or isinstance(k, int) or len(k) == 1 else k[tied]
        places = items if k is None else places_within(items, above, k)
        if self.ties == "grouped":
            of_group = single[arrays.at_least(above + segments.as_int64(places) - 1, 0)] * segments.as_float64(places)
        else:
            of_group = _between(running_discounts(depth, items), above, above + segments.as_int64(places))
        found[tied] = of_group / segments.as_float64(items)
        return found

    def _in_order(self, curve: Any, gains: Any, hits_above: Any) -> tuple[Any, Any]:
        """The gains in the order that the rule for ties puts them in, and the discount of each."""
        group = segments.ids(hits_above)
        nth = arrays.steps(len(group), hits_above) - hits_above[:-1][group]
        first = curve.items_above
        if self.ties == "pessimistic":
            first = first + curve.items - curve.hits
        ascending = torch.argsort(arrays.tensor(gains), descending=self.ties == "optimistic")
        sequence = order.stable_argsort(segments.pick(arrays.tensor(group), ascending), len(curve.items))
        rank = first[group] + nth
        discount = discounts(int(rank.max()) + 1, rank)[rank]
        found = segments.pick(arrays.tensor(gains), segments.pick(ascending, sequence))
        k = at_entries(rank_of(self.top_k, curve), curve.offsets)
        if k is None:
            return arrays.native(found), discount
        return arrays.native(found), discount * (rank < (k if isinstance(k, int) or len(k) == 1 else k[group]))


def discounts(ranks: int, like: Any) -> Any:
    """1 / log2(t + 1) for t = 1 .. at least ``ranks``, native as ``like``."""
    size = _size_of(ranks)
    found = _kept_single(size) if size <= _LONGEST_KEPT else _single(size)
    return _sent(found, like) if isinstance(like, Tensor) else found


def running_discounts(ranks: int, like: Any) -> tuple[Any, Any]:
    """The running sums of :func:`discounts`, from 0, in two parts: whole multiples of 2^-32, and the rest.

    Where they cancel no digits are lost.
    """
    size = _size_of(ranks)
    whole, rest = _kept_running(size) if size <= _LONGEST_KEPT else _running(size)
    return (_sent(whole, like), _sent(rest, like)) if isinstance(like, Tensor) else (whole, rest)


def _size_of(ranks: int) -> int:
    return 1 << max(ranks - 1, 0).bit_length()


def _sent(values: Array, like: Tensor) -> Tensor:
    """Values on the device of a tensor; on MPS, which has no float64, as float32."""
    given = torch.from_numpy(values)
    return (given.float() if like.device.type == "mps" and given.is_floating_point() else given).to(like.device)


def _single(size: int) -> Array:
    found: Array = 1 / np.log2(np.arange(2, size + 2, dtype=np.float64))
    return found


def _running(size: int) -> tuple[Array, Array]:
    single = _single(size)
    whole = np.rint(single * _FINE)
    return segments.from_zero(whole.astype(np.int64)), segments.from_zero(single - whole / _FINE)


@functools.cache
def _listed(size: int) -> list[float]:
    found: list[float] = _kept_single(size).tolist()
    return found


_kept_single, _kept_running = functools.cache(_single), functools.cache(_running)


def total_discount(ranks: Tensor) -> Tensor:
    """The sum of 1 / log2(t + 1) for t = 1 .. each of the ranks: float64."""
    native = arrays.native(ranks)
    return arrays.tensor(_between(running_discounts(int(ranks.max()) if len(ranks) else 0, native), 0, native))


def _between(running: tuple[Any, Any], first: Any, last: Any) -> Any:
    """The sum of the discounts from the place ``first`` to before the place ``last``, counted from 0."""
    whole, rest = running
    return segments.as_float64(whole[last] - whole[first]) / _FINE + (rest[last] - rest[first])
