"""Counts of scores in bins, which represent a ranking in constant memory.

No (items x bins) table is made. Each score finds its bin by one multiplication, in a table of all 16-bit numbers, or in
lookup tables of the edges; few scores and integers use binary search. One scatter-add then counts the items.

Table lookup of the number of ascending edges that each score reaches, on CPU.

A lookup takes a tenth of the time of a binary search.

The bits of a float32, transformed to ascend with the number, are an index into a table. The first twelve bits select a
cell: a sign, a power of two and an eighth of it. A cell is divided into parts, whose number grows with the edges in it.
The table stores for each part the number of edges below it. A score is compared only with the few edges inside its
part.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.ranking import order, segments

MIN_SCORES = 1 << 12  # scores whose binary search takes as long as making the tables of 16,384 edges
_BITS, _CELL_BITS = 32, 12
_IN_CELL = _BITS - _CELL_BITS
_PARTS = 4  # minimum number of parts of a cell per edge in it; few parts then contain two edges
_BLOCK_LOOKUP = 1 << 15  # number of scores whose keys and parts stay in the cache


@dataclass(frozen=True, eq=False)
class Lookup:
    """Ascending edges, and their lookup tables.

    Attributes:
        ends: (E + S,) float64 edges; the last ones are NaN, which no score reaches.
        first: (4096,) int32, the first part of each cell.
        shift: (4096,) int32, the number of low bits of a key that do not select a part of the cell.
        below: (P,) int32, the number of edges below each part, or below the numbers that float32 rounds into it.
        steps: S, S / 2, ... 1, the steps of the search among the edges in a part, which has at most 2 S - 1 edges.
    """

    ends: Tensor
    first: Tensor
    shift: Tensor
    below: Tensor
    steps: tuple[int, ...]

    def __call__(self, scores: Tensor) -> Tensor:
        """Return the number of edges that each of (N,) scores reaches, int32: ``searchsorted(..., right=True)``."""
        return torch.cat([self._count_block(block) for block in torch.split(scores, _BLOCK_LOOKUP)])

    def _count_block(self, scores: Tensor) -> Tensor:
        exact, keys = segments.as_float64(scores).numpy(), _float32_keys(scores)
        cell = _cell_index(keys)
        reached = self.below.index_select(0, self.first.index_select(0, cell) + _part_index(keys, self.shift, cell))
        for step in self.steps:
            further = exact >= self.ends[step - 1 :].index_select(0, reached).numpy()  # torch is ten times slower
            reached.add_(torch.from_numpy(further), alpha=step)
        return reached


def build_lookup(ends: Tensor) -> Lookup:
    """Return the tables of (E,) ascending float64 edges without NaN.

    Rounding to float32 is monotone, so only edges that round to the same float32 as a score need a comparison in
    float64.
    """
    keys = _float32_keys(ends)
    cell = _cell_index(keys)
    inside = torch.bincount(cell, minlength=1 << _CELL_BITS)
    # log2 of the number of parts of each cell
    parts = torch.frexp((_PARTS * inside - 1).clamp_(0, (1 << _IN_CELL) - 1).float()).exponent
    shift = _IN_CELL - parts
    running = segments.from_zero(torch.ones_like(parts) << parts)
    first = running[:-1]
    edges_per_part = torch.bincount(
        first.index_select(0, cell) + _part_index(keys, shift, cell), minlength=int(running[-1])
    )
    below = segments.from_zero(edges_per_part)[:-1].to(torch.int32)
    steps = tuple(1 << power for power in reversed(range(int(edges_per_part.max()).bit_length())))
    padded = torch.cat([ends, ends.new_full((sum(steps),), torch.nan)])
    return Lookup(padded, first, shift, below, steps)


def count_reached(scores: Tensor, ascending: Tensor) -> Tensor:
    """Return the number of ascending scores that each of (N,) scores of the same dtype reaches, (N,) integers."""
    if scores.is_cpu and scores.is_floating_point() and len(scores) >= MIN_SCORES:
        return build_lookup(segments.as_float64(ascending))(scores)
    if scores.dtype in HALVES:  # which cannot be searched
        scores, ascending = scores.float(), ascending.float()
    return torch.searchsorted(ascending, scores.contiguous(), right=True)


def _float32_keys(scores: Tensor) -> Tensor:
    """Return the int32 keys of the scores as float32."""
    narrow = scores if scores.dtype == torch.float32 else segments.as_float64(scores).to(torch.float32)
    return order.keys(narrow)


def _cell_index(keys: Tensor) -> Tensor:
    return (keys >> _IN_CELL).add_(1 << _CELL_BITS - 1)


def _part_index(keys: Tensor, shift: Tensor, cell: Tensor) -> Tensor:
    """Return the part of its cell that contains each key."""
    return keys.bitwise_and((1 << _IN_CELL) - 1).bitwise_right_shift_(shift.index_select(0, cell))


ADAPTIVE = 1 << 14  # number of learnt bins
HALVES = (torch.float16, torch.bfloat16)
_BLOCK = 1 << 18  # number of scores whose bins stay in the cache until they are counted
_MOST_INT32 = 1 << 30  # columns times bins whose misses and hits int32 can index
_BEYOND, _STEP = 2.0**63, 1024  # the first float64 outside int64, and its distance from the last one inside


def thresholds_from(thresholds: int | list[float] | Tensor) -> Tensor:
    """Return the thresholds in ascending order, on CPU: T equal steps from 0 to 1 for an int, else the sorted values.

    Fractions that are not in a tensor become float32, whatever torch's default dtype.
    """
    if isinstance(thresholds, int):
        return torch.linspace(0, 1, thresholds, dtype=torch.float32, device="cpu")
    if isinstance(thresholds, Tensor):
        return thresholds.detach().cpu().sort().values
    dtype = None if all(isinstance(x, Integral) for x in thresholds) else torch.float32
    return torch.tensor(thresholds, dtype=dtype, device="cpu").sort().values


def count_thresholds(scores: Tensor, thresholds: Tensor) -> Tensor:
    """Count the ascending thresholds that each score reaches.

    Scores and thresholds are compared in the wider of the two dtypes. If one is integer and the other floating point,
    the thresholds take the dtype of the scores and are rounded up, so that the same scores reach them.
    """
    reachable = None
    if scores.is_floating_point() and not thresholds.is_floating_point():
        thresholds = _round_up_to_float64(thresholds)
    elif thresholds.is_floating_point() and not scores.is_floating_point():
        up = segments.as_float64(thresholds).ceil()
        reachable = (up < _BEYOND).sum()
        thresholds = up.clamp(-_BEYOND, _BEYOND - _STEP).to(torch.int64)
    dtype = torch.promote_types(scores.dtype, thresholds.dtype)
    if dtype in (torch.float16, torch.bfloat16):
        dtype = torch.float32
    below = torch.searchsorted(thresholds.to(dtype), scores.to(dtype).contiguous(), right=True)
    return below if reachable is None else torch.minimum(below, reachable)


def _round_up_to_float64(whole: Tensor) -> Tensor:
    """Return the least float64 that is at least each integer."""
    near = segments.as_float64(whole)
    short = (near < _BEYOND) & (near.clamp(max=_BEYOND - _STEP).to(torch.int64) < whole)
    return torch.where(short, torch.nextafter(near, torch.full_like(near, torch.inf)), near)


@dataclass(frozen=True, eq=False)
class Bins:
    """Definition of the bins of scores.

    =============  =====================================================  ==============================================
    kind           bins                                                   meaning of a bin for a measure
    =============  =====================================================  ==============================================
    "thresholds"   from each threshold to the next, and one below all     a tie group; items below all are not retrieved
    "half"         one per number of float16 or bfloat16                  a tie group of equal scores, without loss
    "equal"        of equal width on [0, 1]                               items in unknown order
    "edges"        like thresholds                                        items in unknown order
    "adaptive"     :mod:`torch_ap.core.ranking.adaptive`                       items in unknown order
    =============  =====================================================  ==============================================

    Attributes:
        kind: one of the kinds above.
        size: the number of bins.
        edges: ascending: (size - 1,) thresholds or edges, or (size,) numbers of float16 and bfloat16; None for other
            kinds.
        places: (2, 65,536) int32, the bin of each bit pattern of float16 and of bfloat16; None for other kinds.
        pilot: the number of scores from which adaptive bins are learnt.
        tolerance: the width of the bounds of AP above which a warning is issued.
    """

    kind: str
    size: int
    edges: Tensor | None = None
    places: Tensor | None = None
    pilot: int = 0
    tolerance: float = math.inf

    @property
    def mixed(self) -> bool:
        """Whether a bin can contain distinct scores that are not meant as ties."""
        return self.kind not in ("thresholds", "half")

    @property
    def identity(self) -> str:
        """The settings that must be equal before two metrics can add their counts."""
        edges = self.edges.tolist() if self.edges is not None and self.kind != "half" else None
        return f"{self.kind} {self.size} {self.pilot} {edges}"

    def to(self, device: torch.device) -> "Bins":
        """Copy the bins to a device."""
        tables = {"edges": self.edges, "places": self.places}
        return replace(self, **{name: None if x is None else x.to(device) for name, x in tables.items()})  # type: ignore[arg-type]

    def lower_ends(self, device: torch.device) -> Tensor:
        """Return the thresholds, or the lower edge of each bin, highest first; -inf for a bin without a lower edge."""
        if self.kind == "equal":
            return (torch.arange(self.size, device=device, dtype=torch.float32) / self.size).flip(0)
        assert self.edges is not None
        edges = self.edges.flip(0)
        if self.kind != "edges":
            return edges
        edges = edges if edges.is_floating_point() else segments.as_float64(edges)
        return torch.cat([edges, edges.new_full((1,), -math.inf)])

    @functools.cached_property
    def _lookup(self) -> Lookup:
        assert self.edges is not None
        return build_lookup(segments.as_float64(self.edges))

    def index(self, scores: Tensor) -> Tensor:
        """Return the bin of each score, counted from the lowest, without a device sync: integers of the same shape."""
        if self.kind == "equal":
            return _equal_bin(scores, self.size)
        assert self.edges is not None
        if self.kind != "half":
            fractions = self.edges.is_floating_point() and scores.is_floating_point()
            if fractions and scores.is_cpu and scores.numel() >= MIN_SCORES:
                return self._lookup(scores.flatten()).reshape(scores.shape)
            return count_thresholds(scores, self.edges)
        if scores.dtype not in HALVES:  # the same numbers in a wider dtype
            wide = scores.to(torch.promote_types(scores.dtype, torch.float32)).contiguous()
            return torch.searchsorted(self.edges.to(wide.dtype), wide).clamp_(max=self.size - 1)
        assert self.places is not None
        bits = scores.contiguous().view(torch.int16).to(torch.int32).bitwise_and_(0xFFFF)
        return self.places[HALVES.index(scores.dtype)].index_select(0, bits.flatten()).reshape(scores.shape)


def from_thresholds(thresholds: int | list[float] | Tensor) -> Bins:
    """Return the bins between thresholds, as torchmetrics defines them."""
    edges = thresholds_from(thresholds)
    return Bins("thresholds", len(edges) + 1, edges)


def from_argument(bins: str | int | list[float] | Tensor, pilot: int, tolerance: float) -> Bins:
    """Validate the argument ``bins`` of a metric, and return the bins."""
    bins, pilot = checks.bins(bins), checks.positive_int("pilot", pilot, least=2)
    checks.not_negative("tolerance", tolerance)
    if isinstance(bins, str):
        adaptive = Bins("adaptive", ADAPTIVE, pilot=pilot, tolerance=tolerance)
        return replace(_half_bins(), tolerance=tolerance) if bins == "half" else adaptive
    if isinstance(bins, int):
        return Bins("equal", bins, tolerance=tolerance)
    edges = thresholds_from(bins)
    return Bins("edges", len(edges) + 1, edges, tolerance=tolerance)


@functools.cache
def _half_bins() -> Bins:
    """Return one bin for each number of float16 and bfloat16; -0 and 0 share a bin."""
    patterns = torch.arange(1 << 16, device="cpu").to(torch.int16)
    numbers = [patterns.view(dtype).float() for dtype in HALVES]
    numbers_of_both = torch.cat(numbers)
    values = torch.from_numpy(np.unique(numbers_of_both[~numbers_of_both.isnan()].numpy()))
    places = torch.stack([torch.searchsorted(values, x).clamp(max=len(values) - 1) for x in numbers])
    return Bins("half", len(values), values, places.to(torch.int32))


def _equal_bin(scores: Tensor, size: int) -> Tensor:
    """Return the bin of each score by one multiplication in float64, which preserves the order in any dtype."""
    exact = scores.dtype == torch.float32 and size & (size - 1) == 0  # multiplying by a power of two is exact
    return ((scores if exact else segments.as_float64(scores)) * size).to(torch.int32).clamp_(0, size - 1)


class Sum(NamedTuple):
    """Counts per bin after an addition.

    Attributes:
        total: (C, B, 2) counts.
        writes: the calls after which ``total`` is the sum; it is an earlier total until then.
    """

    total: Tensor
    writes: Sequence[partial[Any]]


class Items(NamedTuple):
    """Items to count.

    Attributes:
        scores: (N,) for one ranking, (N, C) for one ranking per column.
        relevant: 0/1 of the shape of ``scores``; or (N,) class ids for (N, C) scores.
        weight: (N,) or the shape of ``scores``; None for counts.
        counted: bool, of the shape of ``relevant``: the items to count; None for all.
    """

    scores: Tensor
    relevant: Tensor
    weight: Tensor | None = None
    counted: Tensor | None = None


def add(totals: Tensor, items: Items, bins: Bins | Tensor, index: Tensor | None = None) -> Sum:
    """Return the sum of earlier counts and the counts of more items.

    Fewer items than cells are added in place, since the cells of many classes may be a thousand times as many.

    Args:
        totals: (C, B, 2) earlier counts, as ``count`` returns.
        items: the new items.
        bins: as for ``count``.
        index: the bins of the scores, as ``Bins.index`` returns them, if they are known.
    """
    if totals.is_inference() or (index is None and items.scores.numel() >= totals.numel()):
        return Sum(totals + count(items, bins), ())
    bins = _as_bins(bins)
    place = bins.size - 1 - (bins.index(items.scores) if index is None else index)
    return Sum(totals, (_addition(totals, _as_columns(place), *items[1:]),))


def count(items: Items, bins: Bins | Tensor) -> Tensor:
    """Count misses and hits in each bin.

    Args:
        items: the items.
        bins: B bins; or (B - 1,) ascending thresholds.

    Returns:
        (C, B, 2), highest bin first, misses then hits; int64, or float64 with weights. C is 1 for (N,) scores.
    """
    bins = _as_bins(bins)
    return count_by(bins.index, bins.size, items).flip(1)


def _as_bins(bins: Bins | Tensor) -> Bins:
    """Return bins, or the bins between thresholds."""
    return Bins("thresholds", len(bins) + 1, bins) if isinstance(bins, Tensor) else bins


def count_by(place: Callable[[Tensor], Tensor], size: int, items: Items) -> Tensor:
    """Count misses and hits as :func:`count`, but lowest bin first and with any binning function.

    Args:
        place: returns the bins of (N, C) scores, counted from the lowest.
        size: the number of bins.
        items: the items.
    """
    scores, relevant, weight, counted = items
    table = _as_columns(scores)
    totals = torch.zeros((table.shape[1], size, 2), dtype=torch.int64, device=table.device)
    totals = totals if weight is None else segments.as_float64(totals)
    rows = max(1, _BLOCK // max(table.shape[1], 1)) if table.is_cpu else max(1, len(table))
    for first in range(0, len(table), rows):  # on CPU in blocks that fit in its cache
        part = slice(first, first + rows)
        options = [None if x is None else x[part] for x in (weight, counted)]
        _addition(totals, place(table[part]), relevant[part], *options)()
    return totals


def _addition(
    totals: Tensor, table: Tensor, relevant: Tensor, weight: Tensor | None, counted: Tensor | None
) -> partial[Any]:
    """Return the call that adds items to (C, B, 2) totals.

    Args:
        table: (N, C) places of the items among the B bins; changed in place.
    """
    columns, cells, _ = totals.shape
    column = torch.arange(columns, device=table.device)
    hit = relevant[:, None] == column if relevant.ndim == 1 and columns > 1 else relevant.reshape(table.shape) == 1
    if not table.is_cpu or columns * cells > _MOST_INT32:
        table = table.to(torch.int64)
    if columns > 1:
        table += (column * cells).to(table.dtype)
    place = table.mul_(2).add_(hit).flatten()
    amount = totals.new_ones(()).expand_as(place) if weight is None else spread(weight, table).flatten()
    if counted is not None:
        amount = amount * spread(counted, table).flatten()
    return partial(totals.view(-1).index_add_, 0, place, amount.to(totals.dtype))


def _as_columns(scores: Tensor) -> Tensor:
    """Return (N,) scores as one column."""
    return scores if scores.ndim == 2 else scores[:, None]


def spread(values: Tensor, table: Tensor) -> Tensor:
    """Expand (N,) values, one per item, to the (N, C) shape of the table; return (N, C) values unchanged."""
    return values if values.shape == table.shape else values[:, None].expand(table.shape)
