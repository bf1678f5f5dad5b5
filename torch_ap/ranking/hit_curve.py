"""The hit curve h(t), number of relevant items among the top t, held only where it changes.

Every measure of this package is a function of it (Zhu 2004, section 1): recall r(t) = h(t) / m, precision
p(t) = h(t) / t, AP the mean of p over the hits. Items of equal score form a *tie group*, and what a ranking says about
the order inside a group is a convention, so the curve keeps the group whole: how many items and hits lie above it and
in it. From these four counts every rule for ties follows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.ranking.order import Array
from torch_ap.runtime import arrays

_COUNTS = ("hits", "items", "hits_above", "items_above", "offsets", "n", "m")


class Parts(Protocol):
    """What reduces values over all parts of rankings of which each process has one.

    All processes call the same methods in the same order; each gets the result. Values and results are native.
    """

    def total(self, values: Any, offsets: Any) -> Any:
        """(E,) values of the entries here to (S,) sums of the entries of all parts, to the bit those of one process."""
        ...

    def highest(self, values: Tensor) -> Tensor:
        """The greatest of each value over all parts: of any shape, the same everywhere."""
        ...

    def above_and_whole(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of each value over the parts above this one, and over all; of values that add up exactly."""
        ...

    def highest_below(self, values: Tensor) -> Tensor:
        """(S,) values to the greatest of those of the parts below this one, -inf for none."""
        ...


@dataclass(frozen=True, eq=False)
class HitCurve:
    """The hit curves of S rankings, end to end, best score first in each.

    An entry is a tie group that holds a hit (a builder may keep the other groups too: they change no measure). Counts
    are int64; for a weighted curve they are sums of weights, in float64.

    Attributes:
        hits: (E,) hits in the group.
        items: (E,) items in the group, hits included.
        hits_above: (E,) hits above the group, in its ranking.
        items_above: (E,) items above the group, in its ranking.
        score: (E,) score of the group in the dtype it was given in, or None for a curve made from flags or bins.
        offsets: (S + 1,) int64, where the entries of each ranking begin and end.
        n: (S,) items ranked.
        m: (S,) relevant items. It may exceed the hits of the entries: what was never retrieved is relevant too.
        untied: whether each entry is known to be one item, a hit.
        seen: (S,) hits of all entries, where entries below some rank were left out and m are the hits of all.
        single: whether this is known to be one ranking of at least one item, untied or not, with native values.
        parts: where the entries are those of a range of scores, and other processes have the others: what reduces
            values over all of them. Counts above, ``n`` and ``m`` are those of the whole rankings.
        grades: (H,) float64, for graded relevance, where every hit has a grade: those of the hits, by tie group.
        ideal_grades: (M,) float64, those of all relevant items, ranked or not, best first in each ranking; m of each.
    """

    hits: Tensor
    items: Tensor
    hits_above: Tensor
    items_above: Tensor
    score: Tensor | None
    offsets: Tensor
    n: Tensor
    m: Tensor
    untied: bool = False
    seen: Tensor | None = None
    single: bool = False
    parts: Parts | None = None
    grades: Tensor | None = None
    ideal_grades: Tensor | None = None

    def __getattr__(self, name: str) -> Any:
        """The tensors of a curve of which there are only native values so far; what is read-only is copied."""
        if name == "score" and "_find_score" in self.__dict__:
            self.__dict__["score"] = self.__dict__["_find_score"]()
            return self.__dict__["score"]
        if name not in _COUNTS or "_native" not in self.__dict__:
            raise AttributeError(name)
        for count in _COUNTS:
            values = getattr(self.native, count)
            self.__dict__[count] = torch.from_numpy(values if values.flags.writeable else values.copy())
        return self.__dict__[name]

    @property
    def native(self) -> Any:
        """The curve of native values, for kernels: the same fields and properties, but for the scores."""
        return self if self.single else self._native

    @cached_property
    def _native(self) -> Any:
        if not isinstance(self.m, Tensor) or not self.m.is_cpu:
            return self
        hits, items, hits_above, items_above, offsets, n, m = (
            x.numpy() for x in (self.hits, self.items, self.hits_above, self.items_above, self.offsets, self.n, self.m)
        )
        fields: Any = (hits, items, hits_above, items_above, None, offsets, n, m, self.untied, None, False, self.parts)
        return HitCurve(*fields)

    @property
    def segment(self) -> Tensor:
        """(E,) int64, the ranking of each entry."""
        return segments.ids(self.offsets)

    @property
    def weighted(self) -> bool:
        """Whether the counts are sums of weights. Ranks, and with them everything "at k", then have no meaning."""
        return self.hits.is_floating_point()

    @property
    def cumulative_hits(self) -> Tensor:
        """(E,) h at the end of the group."""
        return self.hits_above + self.hits

    @property
    def cumulative_items(self) -> Tensor:
        """(E,) rank t of the group's last item."""
        return self.items_above + self.items

    @property
    @arrays.quiet
    def precision(self) -> Tensor:
        """(E,) float64, h / t at the end of the group; NaN for a group of no weight at the very top."""
        if isinstance(self.hits, Tensor) and self.hits.is_cpu:
            return arrays.tensor(self.native.precision)
        return segments.as_float64(self.cumulative_hits) / segments.as_float64(self.cumulative_items)

    @property
    def hits_seen(self) -> Tensor:
        """(S,) hits of all entries; below ``m`` where relevant items were not retrieved."""
        return self.seen if self.seen is not None else self.total(self.hits)

    # -- over all entries of a ranking, those of other parts too

    def total(self, values: Any) -> Any:
        """(E,) values of entries to the (S,) sums of each ranking."""
        return segments.total(values, self.offsets) if self.parts is None else self.parts.total(values, self.offsets)

    def total_product(self, weights: Any, values: Any) -> Any:
        """(S,) sums of weight times value, float64; what weighs nothing adds nothing, NaN or not."""
        return self.total(segments.product(weights, values))

    def some(self, flags: Any) -> bool:
        """Whether a flag of any entry is set."""
        found = arrays.some(flags)
        return found if self.parts is None else bool(self.parts.highest(torch.tensor([int(found)])))


def of_arrays(
    hits: Array,
    items: Array,
    hits_above: Array,
    items_above: Array,
    score: Tensor | Callable[[], Tensor] | None,
    offsets: Array,
    n: Array,
    m: Array,
    *,
    untied: bool = False,
) -> HitCurve:
    """The curve on CPU whose counts are these arrays, which it keeps for kernels to read."""
    counts: Any = (hits, items, hits_above, items_above, None, offsets, n, m, untied)
    return with_tensors(HitCurve(*counts), score)


def with_tensors(native: Any, score: Tensor | Callable[[], Tensor] | None) -> HitCurve:
    """The curve whose native values are given; its tensors are made when one is asked for, the scores if a function."""
    curve: HitCurve = object.__new__(HitCurve)
    curve.__dict__.update({"_native": native, "_find_score" if callable(score) else "score": score})
    return curve


def with_grades(curve: HitCurve, grades: Any, ideal_grades: Any) -> HitCurve:
    """The same curve with these grades, as of :class:`HitCurve`; its tensors are still made when one is asked for."""
    graded: HitCurve = object.__new__(HitCurve)
    graded.__dict__.update(curve.__dict__ | {"grades": grades, "ideal_grades": ideal_grades})
    return graded


def cut_off(curve: HitCurve, n: Tensor) -> HitCurve:
    """The rankings without the misses that stand last in them, beyond ``n`` items; (S,) int64."""
    end = segments.repeat(n, curve.offsets.diff())
    return replace(curve, items=torch.minimum(curve.items, end - curve.items_above), n=n)


def of_hits(curve: HitCurve) -> HitCurve:
    """The rankings without the entries that hold no hit, which change no measure."""
    kept = curve.hits > 0
    offsets = segments.from_zero(kept.to(torch.int64))[curve.offsets]
    return replace(curve, **_picked(curve, kept.nonzero().squeeze(1)), offsets=offsets)


def _picked(curve: HitCurve, entries: slice | Tensor) -> dict[str, Any]:
    """The columns of some of the entries."""
    columns = {name: getattr(curve, name)[entries] for name in ("hits", "items", "hits_above", "items_above")}
    return {**columns, "score": None if curve.score is None else curve.score[entries]}


def join(curves: Sequence[HitCurve]) -> HitCurve:
    """The rankings of several curves, in the order given, as one curve."""
    if len(curves) == 1:
        return curves[0]

    def along(name: str) -> Tensor:
        return torch.cat([getattr(curve, name) for curve in curves])

    def everywhere(name: str) -> Tensor | None:
        return None if any(getattr(curve, name) is None for curve in curves) else along(name)

    return HitCurve(
        hits=along("hits"),
        items=along("items"),
        hits_above=along("hits_above"),
        items_above=along("items_above"),
        score=everywhere("score"),
        offsets=segments.from_counts(torch.cat([curve.offsets.diff() for curve in curves])),
        n=along("n"),
        m=along("m"),
        grades=everywhere("grades"),
        ideal_grades=everywhere("ideal_grades"),
    )


def split(curve: HitCurve) -> list[HitCurve]:
    """Each ranking as a curve of its own; the inverse of :func:`join`. The tensors are views."""
    bounds = curve.offsets.tolist()

    def one(ranking: int) -> HitCurve:
        first, last = bounds[ranking], bounds[ranking + 1]
        return HitCurve(
            **_picked(curve, slice(first, last)),
            offsets=curve.offsets[ranking : ranking + 2] - first,
            n=curve.n[ranking : ranking + 1],
            m=curve.m[ranking : ranking + 1],
        )

    return [one(ranking) for ranking in range(len(bounds) - 1)]
