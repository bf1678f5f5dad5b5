"""Counts of scores in bins: what a ranking looks like in constant memory.

No (items x bins) table is made: each score finds its bin by one multiplication, in a table of all numbers of 16 bits or
in tables of the ends (few scores, and whole numbers, by binary search), and one scatter-add counts them.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import lookup, segments
from torch_ap.rules import checks

ADAPTIVE = 1 << 14  # bins that are learnt
HALVES = (torch.float16, torch.bfloat16)
_BLOCK = 1 << 18  # scores whose bins stay in the cache until they are counted
_MOST_INT32 = 1 << 30  # columns times bins that int32 tells apart, misses and hits
_BEYOND, _STEP = 2.0**63, 1024  # the first float64 that int64 does not hold, and how far below it the last lies


def thresholds_from(thresholds: int | list[float] | Tensor) -> Tensor:
    """Thresholds in ascending order, on CPU: T equal steps from 0 to 1 for an int, else those given, sorted.

    Fractions that are not in a tensor are float32, whatever torch's default dtype.
    """
    if isinstance(thresholds, int):
        return torch.linspace(0, 1, thresholds, dtype=torch.float32, device="cpu")
    if isinstance(thresholds, Tensor):
        return thresholds.detach().cpu().sort().values
    dtype = None if all(isinstance(x, Integral) for x in thresholds) else torch.float32
    return torch.tensor(thresholds, dtype=dtype, device="cpu").sort().values


def bin_of(scores: Tensor, thresholds: Tensor) -> Tensor:
    """The bin of each score, counted from the top: 0 at or above the highest threshold, T below the lowest.

    Scores and thresholds are compared in the wider of their dtypes; of whole numbers and fractions, thresholds take the
    dtype of the scores and are rounded up, so that the same scores reach them.
    """
    return len(thresholds) - _reached(scores, thresholds)


def _reached(scores: Tensor, thresholds: Tensor) -> Tensor:
    """How many thresholds each score reaches."""
    reachable = None
    if scores.is_floating_point() and not thresholds.is_floating_point():
        thresholds = _rounded_up(thresholds)
    elif thresholds.is_floating_point() and not scores.is_floating_point():
        up = segments.as_float64(thresholds).ceil()
        reachable = (up < _BEYOND).sum()
        thresholds = up.clamp(-_BEYOND, _BEYOND - _STEP).to(torch.int64)
    dtype = torch.promote_types(scores.dtype, thresholds.dtype)
    if dtype in (torch.float16, torch.bfloat16):
        dtype = torch.float32
    below = torch.searchsorted(thresholds.to(dtype), scores.to(dtype).contiguous(), right=True)
    return below if reachable is None else torch.minimum(below, reachable)


def _rounded_up(whole: Tensor) -> Tensor:
    """The least float64 that is at least each whole number."""
    near = segments.as_float64(whole)
    short = (near < _BEYOND) & (near.clamp(max=_BEYOND - _STEP).to(torch.int64) < whole)
    return torch.where(short, torch.nextafter(near, torch.full_like(near, torch.inf)), near)


@dataclass(frozen=True, eq=False)
class Bins:
    """Which scores share a bin.

    =============  =====================================================  ==============================================
    kind           bins                                                   what a bin is to a measure
    =============  =====================================================  ==============================================
    "thresholds"   from each threshold up to the next, and one below all  a tie group; below all nothing is retrieved
    "half"         one per number of float16 or bfloat16                  a tie group of equal scores: nothing is lost
    "equal"        of equal width on [0, 1]                               items whose order is not known
    "edges"        as thresholds                                          items whose order is not known
    "adaptive"     :mod:`torch_ap.ranking.adaptive`                       items whose order is not known
    =============  =====================================================  ==============================================

    Attributes:
        kind: one of these.
        size: the number of bins.
        edges: ascending: (size - 1,) thresholds or edges, or (size,) numbers of float16 and bfloat16; None for others.
        places: (2, 65,536) int32, the bin of each bit pattern of float16 and of bfloat16; None for others.
        pilot: how many scores adaptive bins are learnt from.
        tolerance: the width of the bounds of AP above which a warning is given.
    """

    kind: str
    size: int
    edges: Tensor | None = None
    places: Tensor | None = None
    pilot: int = 0
    tolerance: float = math.inf

    @property
    def mixed(self) -> bool:
        """Whether a bin may hold different scores that are not meant to tie."""
        return self.kind not in ("thresholds", "half")

    @property
    def identity(self) -> str:
        """What two metrics must have in common to add their counts."""
        listed = self.edges.tolist() if self.edges is not None and self.kind != "half" else None
        return f"{self.kind} {self.size} {self.pilot} {listed}"

    def to(self, device: torch.device) -> "Bins":
        """The same bins on a device."""
        tables = {"edges": self.edges, "places": self.places}
        return replace(self, **{name: None if x is None else x.to(device) for name, x in tables.items()})  # type: ignore[arg-type]

    def lower_ends(self, device: torch.device) -> Tensor:
        """The thresholds, or the least number of each bin, the highest first; -inf where there is none."""
        if self.kind == "equal":
            return (torch.arange(self.size, device=device, dtype=torch.float32) / self.size).flip(0)
        assert self.edges is not None
        least = self.edges.flip(0)
        if self.kind != "edges":
            return least
        least = least if least.is_floating_point() else segments.as_float64(least)
        return torch.cat([least, least.new_full((1,), -math.inf)])

    @functools.cached_property
    def _lookup(self) -> lookup.Lookup:
        assert self.edges is not None
        return lookup.of_ends(segments.as_float64(self.edges))

    def of(self, scores: Tensor) -> Tensor:
        """The bin of each score, counted from the lowest: integers of the same shape, without a device sync."""
        if self.kind == "equal":
            return _equal_bin(scores, self.size)
        assert self.edges is not None
        if self.kind != "half":
            fractions = self.edges.is_floating_point() and scores.is_floating_point()
            if fractions and scores.is_cpu and scores.numel() >= lookup.PAYS:
                return self._lookup(scores.flatten()).reshape(scores.shape)
            return _reached(scores, self.edges)
        if scores.dtype not in HALVES:  # numbers of these dtypes in a wider one
            wide = scores.to(torch.promote_types(scores.dtype, torch.float32)).contiguous()
            return torch.searchsorted(self.edges.to(wide.dtype), wide).clamp_(max=self.size - 1)
        assert self.places is not None
        bits = scores.contiguous().view(torch.int16).to(torch.int32).bitwise_and_(0xFFFF)
        return self.places[HALVES.index(scores.dtype)].index_select(0, bits.flatten()).reshape(scores.shape)


def of_thresholds(thresholds: int | list[float] | Tensor) -> Bins:
    """The bins between thresholds, as torchmetrics has them."""
    edges = thresholds_from(thresholds)
    return Bins("thresholds", len(edges) + 1, edges)


def of_argument(bins: str | int | list[float] | Tensor, pilot: int, tolerance: float) -> Bins:
    """The bins that the argument ``bins`` of metrics asks for, checked."""
    bins, pilot = checks.bins(bins), checks.positive_int("pilot", pilot, least=2)
    checks.not_negative("tolerance", tolerance)
    if isinstance(bins, str):
        adaptive = Bins("adaptive", ADAPTIVE, pilot=pilot, tolerance=tolerance)
        return replace(_halves(), tolerance=tolerance) if bins == "half" else adaptive
    if isinstance(bins, int):
        return Bins("equal", bins, tolerance=tolerance)
    edges = thresholds_from(bins)
    return Bins("edges", len(edges) + 1, edges, tolerance=tolerance)


@functools.cache
def _halves() -> Bins:
    """All numbers of float16 and bfloat16, of which -0 is 0."""
    patterns = torch.arange(1 << 16, device="cpu").to(torch.int16)
    numbers = [patterns.view(dtype).float() for dtype in HALVES]
    known = torch.cat(numbers)
    values = torch.from_numpy(np.unique(known[~known.isnan()].numpy()))
    places = torch.stack([torch.searchsorted(values, x).clamp(max=len(values) - 1) for x in numbers])
    return Bins("half", len(values), values, places.to(torch.int32))


def _equal_bin(scores: Tensor, size: int) -> Tensor:
    """By one multiplication in float64, which keeps the order of scores of any dtype; no search."""
    exact = scores.dtype == torch.float32 and size & (size - 1) == 0  # a power of two rounds nothing
    return ((scores if exact else segments.as_float64(scores)) * size).to(torch.int32).clamp_(0, size - 1)


def count(
    scores: Tensor,
    relevant: Tensor,
    bins: Bins | Tensor,
    *,
    weight: Tensor | None = None,
    counted: Tensor | None = None,
    held: Tensor | None = None,
) -> Tensor:
    """Misses and hits in each bin.

    Args:
        scores: (N,) for one ranking, (N, C) for one per column.
        relevant: of the shape of ``scores``, 0/1; or (N,) class ids for (N, C) scores.
        bins: B of them; or (B - 1,) ascending thresholds.
        weight: (N,) or the shape of ``scores``.
        counted: bool, of the shape of ``relevant``: which items count. Default: all.
        held: what was counted before. The sum is written to it where the items are fewer than its cells: those of many
            classes and bins may be a thousand times as many.

    Returns:
        (C, B, 2), highest bin first, misses then hits; int64, or float64 with weights. C is 1 for (N,) scores.
    """
    if isinstance(bins, Tensor):
        bins = Bins("thresholds", len(bins) + 1, bins)
    if held is None or held.is_inference() or scores.numel() >= held.numel():
        found = count_by(bins.of, bins.size, scores, relevant, weight=weight, counted=counted).flip(1)
        return found if held is None else held + found
    _scatter(held, bins.size - 1 - bins.of(_columns(scores)), relevant, weight, counted)
    return held


def count_by(
    place: Callable[[Tensor], Tensor],
    size: int,
    scores: Tensor,
    relevant: Tensor,
    *,
    weight: Tensor | None = None,
    counted: Tensor | None = None,
) -> Tensor:
    """:func:`count`, lowest bin first, where ``place`` gives the bins of (N, C) scores, from the lowest of ``size``."""
    table = _columns(scores)
    totals = torch.zeros((table.shape[1], size, 2), dtype=torch.int64, device=table.device)
    totals = totals if weight is None else segments.as_float64(totals)
    rows = max(1, _BLOCK // max(table.shape[1], 1)) if table.is_cpu else max(1, len(table))
    for first in range(0, len(table), rows):  # on CPU in parts that stay in its cache
        part = slice(first, first + rows)
        some = [None if x is None else x[part] for x in (weight, counted)]
        _scatter(totals, place(table[part]), relevant[part], *some)
    return totals


def _scatter(totals: Tensor, table: Tensor, relevant: Tensor, weight: Tensor | None, counted: Tensor | None) -> None:
    """Add items to (C, B, 2) totals, in which their bins are an (N, C) table, which is written to."""
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
    totals.view(-1).index_add_(0, place, amount.to(totals.dtype))


def _columns(scores: Tensor) -> Tensor:
    """(N,) scores as one column."""
    return scores if scores.ndim == 2 else scores[:, None]


def spread(values: Tensor, table: Tensor) -> Tensor:
    """(N,) values, one per item, to the (N, C) of the table; those of its shape stay."""
    return values if values.shape == table.shape else values[:, None].expand(table.shape)
