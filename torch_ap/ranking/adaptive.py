"""Bins that are learnt from the first scores, and that those of other processes can be added to.

A *sketch* is a tensor of constant shape (C, B, 5), int64: for each column and bin its lower end, misses, hits, and the
bits of two float64, the weights of misses and of hits. Ends are *keys*, integers in the order of float64; unused bins
stand last, with the greatest key and nothing in them. A sketch that has learnt nothing holds unused bins only.

Where bins are fine is a matter of ranks: on the scale C log(1 + t / C) of the rank t all are about as wide, so that
they are the finer the nearer they are to the top, where a rank weighs most. What makes sketches of different processes
comparable is where bins may end: at keys with many zeros at the end, which halve the range of all keys, halve a half of
it and so on. Similar scores then learn mostly the same ends. Two sketches are added over the ends that both have: that
is exact, associative and commutative, and so gives the same bits in every order and grouping.
"""

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torch_ap.ranking import bins, lookup, order, segments

_LOWEST, _UNUSED = -(1 << 63), (1 << 63) - 1
_INFINITE = 0x7FF << 52  # the bits of float64's infinity
_ENDS, _COUNTS, _WEIGHTS = 0, slice(1, 3), slice(3, 5)
FIELDS = 5
_TABLES_KEPT = 64  # of half a megabyte each


def empty(columns: int, size: int, device: torch.device | None = None) -> Tensor:
    """The sketch of no items."""
    sketch = torch.zeros((columns, size, FIELDS), dtype=torch.int64, device=device)
    sketch[:, :, _ENDS] = _UNUSED
    return sketch


def has_learnt(sketch: Tensor) -> Tensor:
    """0-d bool: whether the sketch has bins."""
    return sketch[0, 0, _ENDS] != _UNUSED


def is_sketch(sketch: Tensor) -> bool:
    """Whether updates can make it: ends that ascend, unused bins last and empty, counts and weights not negative."""
    ends, inside = sketch[:, :, _ENDS].contiguous(), sketch[:, :, 1:]
    used = ends != _UNUSED
    ascending = (ends[:, 1:] > ends[:, :-1]) | ~used[:, 1:]
    whole = (used[:, :1] == used[0, 0]) & (~used[:, :1] | (ends[:, :1] == _LOWEST))
    # the bits of float64 ascend with the number from 0 on, and those of negative ones are negative
    fits = ascending.all() & whole.all() & (inside >= 0).all() & (sketch[:, :, _WEIGHTS] < _INFINITE).all()
    fits &= segments.as_float64(sketch[:, :, _COUNTS]).sum() < 2.0**63
    return bool(fits & (used | (inside.amax(2) == 0)).all())


def keys_of(scores: Tensor) -> Tensor:
    """Integers in the order of the scores: the bits of float64, of which those of negative numbers are turned round."""
    bits = (segments.as_float64(scores) + 0.0).contiguous().view(torch.int64)  # -0 becomes 0
    return torch.where(bits < 0, bits ^ _UNUSED, bits)


def scores_of(keys: Tensor) -> Tensor:
    """The float64 of each key; the inverse of :func:`keys_of`. -inf for the lowest key of all."""
    bits = torch.where(keys < 0, keys ^ _UNUSED, keys)
    return torch.where(keys == _LOWEST, -math.inf, bits.contiguous().view(torch.float64))


def learnt(scores: Tensor, size: int) -> Tensor:
    """A sketch with bins for scores like these, and nothing in it yet.

    A range that is halved again and again is cut where it spans much of the ranking: the ``size - 1`` cuts are those
    whose ranges span most.

    Args:
        scores: (N, C) with N of at least 1; NaN for what does not count.
        size: B.
    """
    known = torch.where(scores.isnan(), -math.inf, scores) if scores.is_floating_point() else scores
    keys = keys_of(known.t()).sort(1).values
    items, sketch = keys.shape[1], empty(len(keys), size, scores.device)
    sketch[:, 0, _ENDS] = _LOWEST
    if items == 1:
        return sketch
    below, above = keys[:, :-1].contiguous(), keys[:, 1:].contiguous()
    inside = _filled(below ^ above)  # the bits in which a range's keys differ: a run of ones from the last
    cut = above & ~(inside >> 1 & _UNUSED)
    whole = inside == -1
    low, high = torch.where(whole, _LOWEST, above & ~inside), torch.where(whole, _UNUSED, above | inside)
    ends = (torch.searchsorted(keys, low), torch.searchsorted(keys, high, right=True))
    width = _scale(items, size)
    first, last = (width * torch.log1p(segments.as_float64(items - x) / width) for x in ends)
    span = torch.where(below == above, -1.0, first - last)
    span, place = span.topk(min(size - 1, items - 1), 1)
    found = torch.where(span > 0, cut.gather(1, place), _UNUSED).sort(1).values
    sketch[:, 1 : 1 + found.shape[1], _ENDS] = found
    return sketch


def _filled(bits: Tensor) -> Tensor:
    """All bits below the highest one that is set, with it: 0010 1000 to 0011 1111."""
    high = bits < 0
    for step in (1, 2, 4, 8, 16, 32):
        bits = bits | (bits & _UNUSED) >> step
    return torch.where(high, -1, bits)


def _scale(items: int, size: int) -> float:
    """C, of which C log(1 + items / C) is the number of bins; by bisection."""
    low, high = 1e-6, float(size)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * math.log1p(items / middle) < size else (low, middle)
    return high


def counted(
    sketch: Tensor, scores: Tensor, relevant: Tensor, *, weight: Tensor | None = None, kept: Tensor | None = None
) -> Tensor:
    """Misses and hits in each bin of a sketch, (C, B, 2), from the lowest bin; no device sync on an accelerator.

    Args:
        sketch: with bins.
        scores: (N, C).
        relevant: of that shape, 0/1; or (N,), for several columns class ids.
        weight: (N,) or the shape of ``scores``.
        kept: bool, of the shape of ``relevant``: which items count. Default: all.
    """
    columns, size = sketch.shape[:2]
    if not scores.is_cpu or len(scores) < lookup.PAYS:
        return bins.count_by(partial(_searched, sketch), size, scores, relevant, weight=weight, counted=kept)
    found = []
    for column in range(columns):
        hit, *more = (_column(x, column) for x in (relevant, weight, kept))
        hit = hit == column if relevant.ndim == 1 and columns > 1 else hit
        place = _lookup(sketch[column, :, _ENDS])
        found.append(bins.count_by(place, size, scores[:, column], hit, weight=more[0], counted=more[1]))
    return torch.cat(found)


def _column(values: Any, column: int) -> Any:
    return values if values is None or values.ndim == 1 else values[:, column]


def _searched(sketch: Tensor, scores: Tensor) -> Tensor:
    """The bin of each of (N, C) scores, from the lowest."""
    ends, keys = sketch[:, :, _ENDS].contiguous(), keys_of(scores.t())
    return torch.searchsorted(ends, keys, right=True).sub_(1).clamp_(0, sketch.shape[1] - 1).t().contiguous()


def _lookup(ends: Tensor) -> Callable[[Tensor], Tensor]:
    """:func:`_searched` for (N, 1) scores and (B,) ends, by tables."""
    found = _tables(ends[1:].numpy().tobytes())  # every score reaches the first
    return lambda scores: found(scores[:, 0])[:, None]


@functools.lru_cache(_TABLES_KEPT)
def _tables(ends: bytes) -> lookup.Lookup:
    """Of the bytes of ends: each update asks for the same."""
    keys = torch.frombuffer(bytearray(ends), dtype=torch.int64)
    return lookup.of_ends(scores_of(keys[keys != _UNUSED]))


def added(sketch: Tensor, counts: Tensor) -> Tensor:
    """The sketch with (C, B, 2) more misses and hits, from the lowest bin; int64 counts or float64 weights."""
    sketch = sketch.clone()
    if counts.is_floating_point():
        sketch[:, :, _WEIGHTS] = (weights_in(sketch) + counts).view(torch.int64)
    else:
        sketch[:, :, _COUNTS] += counts
    return sketch


def counts_in(sketch: Tensor) -> Tensor:
    """(C, B, 2) misses and hits, from the lowest bin."""
    return sketch[:, :, _COUNTS]


def weights_in(sketch: Tensor) -> Tensor:
    """(C, B, 2) float64 weights of misses and hits, from the lowest bin."""
    return sketch[:, :, _WEIGHTS].contiguous().view(torch.float64)


def lower_ends(sketch: Tensor) -> Tensor:
    """(C, B) float64 lower ends, ascending; NaN for unused bins."""
    return scores_of(sketch[:, :, _ENDS])


def merged(sketches: Tensor) -> Tensor:
    """Several sketches as one, over the ends that all of those have which have learnt any.

    Args:
        sketches: (W, C, B, 5).
    """
    common, first = _common_ends(sketches[..., _ENDS])
    many = common.shape[1]
    found = empty(sketches.shape[1], sketches.shape[2], sketches.device)
    found[:, :many, _ENDS] = common
    for one, places in zip(sketches, first, strict=True):
        found[:, :many, _COUNTS] += _counts_from(places, one)
    weights = sum(_weights_from(found, one) for one in sketches if not one.is_cpu or bool(weights_in(one).any()))
    if isinstance(weights, Tensor):
        found[:, :, _WEIGHTS] = weights.view(torch.int64)
    return found


def _common_ends(ends: Tensor) -> tuple[Tensor, Tensor]:
    """Those of (W, C, B) that all of the W have which have learnt any, unused ones last; and which bins they begin.

    Returns:
        (C, M), at most as many as the sketch with the fewest has, and (W, C, M), B for unused ends.
    """
    size, used = ends.shape[2], (ends != _UNUSED).sum(2)
    fewest = torch.where(used > 0, used, size + 1).argmin(0)
    wanted = ends[fewest, torch.arange(len(fewest), device=ends.device)]
    if ends.is_cpu:
        wanted = wanted[:, : int((wanted != _UNUSED).sum(1).max())].contiguous()
    first = torch.stack([torch.searchsorted(one.contiguous(), wanted) for one in ends])
    there = ends.gather(2, first.clamp(max=size - 1)) == wanted
    shared = (wanted != _UNUSED) & (there | (used == 0)[:, :, None]).all(0)
    many = wanted.shape[1]
    kept = order.sort(torch.where(shared, torch.arange(many, device=ends.device), many))
    return _with_last(wanted, _UNUSED).gather(1, kept), _with_last(first, size).gather(
        2, kept.expand(len(first), -1, -1)
    )


def _with_last(values: Tensor, last: int) -> Tensor:
    """The values with one more at the end of each row."""
    return torch.cat([values, torch.full_like(values[..., :1], last)], -1)


def _counts_from(first: Tensor, sketch: Tensor) -> Tensor:
    """(C, M, 2) counts from each of (C, M) bins up to the next of them."""
    running = segments.from_zero(sketch[:, :, _COUNTS].transpose(1, 2).contiguous())
    bounds = _with_last(first, sketch.shape[1])[:, None].expand(-1, 2, -1)
    return running.gather(2, bounds).diff().transpose(1, 2)


def _weights_from(common: Tensor, sketch: Tensor) -> Tensor:
    """(C, B, 2) float64 weights in the bins of another sketch: added up, where differences would be rounded."""
    ends, theirs = (x[:, :, _ENDS].contiguous() for x in (common, sketch))
    place = torch.searchsorted(ends, theirs, right=True).sub_(1).clamp_(min=0)
    weights = weights_in(sketch)
    return torch.zeros_like(weights).scatter_add_(1, place[:, :, None].expand(-1, -1, 2), weights)
