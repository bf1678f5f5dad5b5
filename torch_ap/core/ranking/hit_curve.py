"""The hit curve h(t), the number of relevant items among the top t, stored only where it changes.

Every measure of this package is a function of it (Zhu 2004, section 1): recall r(t) = h(t) / m, precision
p(t) = h(t) / t, AP the mean of p over the hits. Items of equal score form a *tie group*. The order inside a group is a
matter of convention, so the curve stores four counts of each group: the items and the hits in it, and the items and the
hits above it. Every rule for ties follows from these counts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.order import Array

_COUNTS = ("hits", "items", "hits_above", "items_above", "offsets", "n", "m")


class Parts(Protocol):
    """Reduction over all parts of rankings; each process has one part.

    All processes call the same methods in the same order; each process gets the result. Values and results are native.
    """

    def total(self, values: Any, offsets: Any) -> Any:
        """Return the (S,) sums of (E,) values over the entries of all parts, bit-identical to a single process."""

    def highest(self, values: Tensor) -> Tensor:
        """Return the elementwise maximum over all parts; values have one shape in all processes."""

    def above_and_whole(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums of the values over the parts above this one, and over all parts; sums must be exact."""

    def highest_below(self, values: Tensor) -> Tensor:
        """Return the elementwise maximum of (S,) values over the parts below this one; -inf if there are none."""


@dataclass(frozen=True, eq=False)
class HitCurve:
    """The concatenated hit curves of S rankings, best score first in each ranking.

    An entry is a tie group that contains a hit. A builder may keep the other groups too; they change no measure. Counts
    are int64; for a weighted curve they are sums of weights, in float64.

    Attributes:
        hits: (E,) hits in the group.
        items: (E,) items in the group, hits included.
        hits_above: (E,) hits above the group, in its ranking.
        items_above: (E,) items above the group, in its ranking.
        score: (E,) score of the group in its original dtype, or None for a curve made from flags or bins.
        offsets: (S + 1,) int64, the start and end of the entries of each ranking.
        n: (S,) items ranked.
        m: (S,) relevant items. It can exceed the hits of the entries, because unretrieved items are relevant too.
        untied: whether each entry is guaranteed to be one item, a hit.
        seen: (S,) hits of all entries, if entries below some rank were omitted and m counts all hits.
        single: whether the curve is guaranteed to be one ranking of at least one item with native values.
        parts: the reduction over all processes, if each process has the entries of a range of scores. Counts above,
            ``n`` and ``m`` are then counts of the whole rankings.
        grades: (H,) float64 grades of the hits, by tie group, for graded relevance, where every hit has a grade.
        ideal_grades: (M,) float64 grades of all relevant items, ranked or not, best first in each ranking; m per
            ranking.
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
        """Create the tensors of a curve that has only native values so far; copy read-only and reversed arrays."""
        if name == "score" and "_find_score" in self.__dict__:
            self.__dict__["score"] = self.__dict__["_find_score"]()
            return self.__dict__["score"]
        if name not in _COUNTS or "_native" not in self.__dict__:
            raise AttributeError(name)
        for count in _COUNTS:
            values = getattr(self.native, count)
            usable = values.flags.carray and min(values.strides) >= 0  # NumPy takes any one item for contiguous
            self.__dict__[count] = torch.from_numpy(values if usable else values.copy())
        return self.__dict__[name]

    @property
    def native(self) -> Any:
        """The curve with native values, for kernels: the same fields and properties except the scores."""
        return self if self.single else self._native

    @cached_property
    def _native(self) -> Any:
        if not isinstance(self.m, Tensor) or not self.m.is_cpu:
            return self
        hits, items, hits_above, items_above, offsets, n, m = (
            x.numpy() for x in (self.hits, self.items, self.hits_above, self.items_above, self.offsets, self.n, self.m)
        )
        seen: Any = None if self.seen is None else self.seen.numpy()
        fields: Any = (hits, items, hits_above, items_above, None, offsets, n, m, self.untied, seen, False, self.parts)
        return HitCurve(*fields)

    @property
    def segment(self) -> Tensor:
        """The ranking of each entry, (E,) int64."""
        return segments.ids(self.offsets)

    @property
    def weighted(self) -> bool:
        """Whether the counts are sums of weights. Ranks and measures "at k" are then undefined."""
        hits = self.native.hits  # `self.hits` would create the tensors
        return hits.is_floating_point() if isinstance(hits, Tensor) else bool(hits.dtype.kind == "f")

    @property
    def cumulative_hits(self) -> Tensor:
        """The value of h at the end of each group, (E,)."""
        return self.hits_above + self.hits

    @property
    def cumulative_items(self) -> Tensor:
        """The rank t of the last item of each group, (E,)."""
        return self.items_above + self.items

    @property
    @arrays.quiet
    def precision(self) -> Tensor:
        """The precision h / t at the end of each group, (E,) float64; NaN for a first group of zero weight."""
        if isinstance(self.hits, Tensor) and self.hits.is_cpu:
            return arrays.tensor(self.native.precision)
        return segments.as_float64(self.cumulative_hits) / segments.as_float64(self.cumulative_items)

    @property
    def float_counts(self) -> tuple[Any, Any, Any, Any]:
        """The columns ``hits``, ``items``, ``hits_above`` and ``items_above``, (E,) float64."""
        hits, items = segments.as_float64(self.hits), segments.as_float64(self.items)
        return hits, items, segments.as_float64(self.hits_above), segments.as_float64(self.items_above)

    @property
    def hits_seen(self) -> Tensor:
        """The hits of all entries, (S,); less than ``m`` if relevant items were not retrieved."""
        return self.seen if self.seen is not None else self.total(self.hits)

    # -- over all entries of a ranking, including the entries of other parts

    def total(self, values: Any) -> Any:
        """Sum (E,) values of entries per ranking, (S,), over all parts."""
        return segments.total(values, self.offsets) if self.parts is None else self.parts.total(values, self.offsets)

    def any_entry(self, flags: Any) -> bool:
        """Return whether the flag of any entry is set."""
        is_set = arrays.any_true(flags)
        return is_set if self.parts is None else bool(self.parts.highest(torch.tensor([int(is_set)])))


def from_arrays(
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
    """Return a CPU curve with these arrays as counts; kernels read the arrays directly."""
    counts: Any = (hits, items, hits_above, items_above, None, offsets, n, m, untied)
    return from_native(HitCurve(*counts), score)


def from_native(native: Any, score: Tensor | Callable[[], Tensor] | None) -> HitCurve:
    """Return a curve with these native values.

    The tensors are created on first access; so are the scores if ``score`` is callable.
    """
    curve: HitCurve = object.__new__(HitCurve)
    curve.__dict__.update({"_native": native, "_find_score" if callable(score) else "score": score})
    return curve


def attach_grades(curve: HitCurve, grades: Any, ideal_grades: Any) -> HitCurve:
    """Return the curve with these grades, as of :class:`HitCurve`; its tensors are still created on first access."""
    graded: HitCurve = object.__new__(HitCurve)
    graded.__dict__.update(curve.__dict__ | {"grades": grades, "ideal_grades": ideal_grades})
    return graded


def separate_hits(curve: HitCurve, group: Tensor, nth: Tensor, place: Tensor) -> HitCurve:
    """Return the curve with each hit as an entry, without ties.

    Args:
        curve: S rankings.
        group: (H,) the tie group of each hit of the curve, ascending.
        nth: (H,) number of hits above the hit in its group.
        place: (H,) number of items above the hit in its group.
    """
    ones = torch.ones_like(group)
    return replace(
        curve,
        hits=ones,
        items=ones,
        hits_above=curve.hits_above[group] + nth,
        items_above=curve.items_above[group] + place,
        score=None if curve.score is None else curve.score[group],
        offsets=segments.from_counts(segments.total(curve.hits, curve.offsets)),
    )


def drop_misses_beyond(curve: HitCurve, n: Tensor) -> HitCurve:
    """Drop the trailing misses of each ranking beyond ``n`` items; (S,) int64."""
    end = segments.repeat(n, curve.offsets.diff())
    return replace(curve, items=torch.minimum(curve.items, end - curve.items_above), n=n)


def drop_groups_without_hits(curve: HitCurve) -> HitCurve:
    """Drop the entries without a hit, which change no measure."""
    has_hits = curve.hits > 0
    offsets = segments.from_zero(has_hits.to(torch.int64))[curve.offsets]
    return replace(curve, **_select_entries(curve, has_hits.nonzero().squeeze(1)), offsets=offsets)


def _select_entries(curve: HitCurve, entries: slice | Tensor) -> dict[str, Any]:
    """Return the columns of some of the entries."""
    columns = {name: getattr(curve, name)[entries] for name in ("hits", "items", "hits_above", "items_above")}
    return {**columns, "score": None if curve.score is None else curve.score[entries]}


def at_prevalence(curve: HitCurve, prevalence: float) -> HitCurve:
    """Return the rankings with the misses weighted so that the hits are this share of the total weight.

    A hit has its weight, and each of q misses the weight (m / q) (1 - prevalence) / prevalence (Elkan 2001). The counts
    of a ranking without misses are NaN.

    Args:
        curve: S rankings, weighted or not.
        prevalence: share of the hits, in (0, 1).
    """
    n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
    weight = m / (n - m) * ((1 - prevalence) / prevalence)

    def weighted(items: Tensor, hits: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        hits = segments.as_float64(hits)
        return hits, hits + weight * (segments.as_float64(items) - hits)

    of_entry = segments.each_entry(weight, curve.offsets)
    hits, items = weighted(curve.items, curve.hits, of_entry)
    hits_above, items_above = weighted(curve.items_above, curve.hits_above, of_entry)
    columns: dict[str, Any] = {"hits": hits, "items": items, "hits_above": hits_above, "items_above": items_above}
    return replace(curve, **columns, n=weighted(curve.n, curve.m, weight)[1], m=m, untied=False, single=False)


def top(curve: HitCurve, count: int) -> HitCurve:
    """Return the tie groups that begin in the top ``count`` items of each ranking; ``n`` and ``m`` remain."""
    entries = segments.flag_places(curve.items_above < count)
    offsets = torch.searchsorted(entries, curve.offsets)
    return HitCurve(**_select_entries(curve, entries), offsets=offsets, n=curve.n, m=curve.m, seen=curve.hits_seen)


def with_relevant(curve: HitCurve, num_relevant: Sequence[int]) -> HitCurve:
    """Return the rankings with these numbers of relevant items, some of which may not be ranked.

    A ranking without items remains without relevant items, so that its measures are undefined.

    Raises:
        ValueError: if a number is below the number of ranked relevant items.
    """
    m = torch.tensor(num_relevant, dtype=torch.int64, device=curve.m.device)
    for given, ranked in zip(num_relevant, curve.m.tolist(), strict=True):
        if given < ranked:
            raise_invalid("num_relevant", f"must be at least the number of scored positives, {ranked}", given)
    return replace(curve, m=torch.where(curve.n > 0, m, curve.m))


def join(curves: Sequence[HitCurve]) -> HitCurve:
    """Concatenate the rankings of several curves."""
    if len(curves) == 1:
        return curves[0]

    def concatenated(name: str) -> Any:
        parts = [getattr(curve, name) for curve in curves]
        return None if any(part is None for part in parts) else torch.cat(parts)

    columns = {name: concatenated(name) for name in (*_COUNTS, "score", "grades", "ideal_grades") if name != "offsets"}
    return HitCurve(**columns, offsets=segments.from_counts(torch.cat([curve.offsets.diff() for curve in curves])))


def split(curve: HitCurve) -> list[HitCurve]:
    """Return each ranking as a separate curve; the inverse of :func:`join`. The tensors are views."""
    bounds = curve.offsets.tolist()

    def single_curve(ranking: int) -> HitCurve:
        first, last = bounds[ranking], bounds[ranking + 1]
        return HitCurve(
            **_select_entries(curve, slice(first, last)),
            offsets=curve.offsets[ranking : ranking + 2] - first,
            n=curve.n[ranking : ranking + 1],
            m=curve.m[ranking : ranking + 1],
        )

    return [single_curve(ranking) for ranking in range(len(bounds) - 1)]


def without_entries(n: int, m: int) -> HitCurve:
    """Return one ranking of n items, of which m are relevant and none is in an entry."""
    none = torch.zeros(0, dtype=torch.int64)
    return HitCurve(
        none, none, none, none, None, torch.zeros(2, dtype=torch.int64), torch.tensor([n]), torch.tensor([m])
    )


def one_group(curve: HitCurve, hits: Tensor) -> HitCurve:
    """Return the rankings with all items of each in one tie group, of (S,) hits."""
    kept = hits > 0
    items = curve.n[kept]
    none, offsets = torch.zeros_like(items), segments.from_counts(segments.as_int64(kept))
    return HitCurve(hits[kept], items, none, none, None, offsets, curve.n, curve.m)
