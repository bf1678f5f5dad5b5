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

import math

import torch
from torch import Tensor

from torch_ap.ranking import segments

_LOWEST, _UNUSED = -(1 << 63), (1 << 63) - 1
_ENDS, _COUNTS, _WEIGHTS = 0, slice(1, 3), slice(3, 5)
FIELDS = 5


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
    ends, counts, weights = sketch[:, :, _ENDS], sketch[:, :, _COUNTS], weights_in(sketch)
    used = ends != _UNUSED
    ascending = (ends[:, 1:] > ends[:, :-1]) | ~used[:, 1:]
    whole = (used[:, :1] == used[0, 0]) & (~used[:, :1] | (ends[:, :1] == _LOWEST))
    filled = (counts != 0) | (weights != 0)
    fits = ascending.all() & whole.all() & (counts >= 0).all() & (weights >= 0).all() & torch.isfinite(weights).all()
    return bool(fits & (used[:, :, None] | ~filled).all())


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


def bin_of(sketch: Tensor, scores: Tensor) -> Tensor:
    """The bin of each of (N, C) scores, from the lowest: int64, without a device sync."""
    ends, keys = sketch[:, :, _ENDS].contiguous(), keys_of(scores.t())
    return torch.searchsorted(ends, keys, right=True).sub_(1).clamp_(0, sketch.shape[1] - 1).t().contiguous()


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
    ends = sketches[..., _ENDS]
    teachers = (ends[:, :, 0] != _UNUSED).sum(0)[:, None]
    columns, size = ends.shape[1:]
    ordered = ends.movedim(0, 1).reshape(columns, -1).sort(1).values
    place = torch.arange(ordered.shape[1], device=ends.device)
    last = (place + teachers - 1).clamp(0, ordered.shape[1] - 1)
    first = torch.cat([torch.ones_like(ordered[:, :1]), ordered[:, 1:] - ordered[:, :-1]], 1) != 0
    shared = first & (ordered == ordered.gather(1, last)) & (place + teachers <= ordered.shape[1])
    common = torch.where(shared, ordered, _UNUSED).sort(1).values[:, :size].contiguous()
    found = torch.zeros_like(sketches[0])
    found[:, :, _ENDS] = common
    weights = found.new_zeros(columns, size, 2).double() if sketches.device.type != "mps" else None
    for one in sketches:
        at = torch.searchsorted(common, one[:, :, _ENDS].contiguous(), right=True).sub_(1).clamp_(0, size - 1)
        spread = at[:, :, None].expand(-1, -1, 2)
        found[:, :, _COUNTS] += torch.zeros_like(one[:, :, _COUNTS]).scatter_add_(1, spread, one[:, :, _COUNTS])
        if weights is not None:
            weights += torch.zeros_like(weights).scatter_add_(1, spread, weights_in(one))
    if weights is not None:
        found[:, :, _WEIGHTS] = weights.view(torch.int64)
    return found
