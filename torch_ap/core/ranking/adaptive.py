"""Bins learnt from the first scores, as sketches that several processes can merge.

A *sketch* is an int64 tensor of constant shape (C, B, 5). It stores for each column and bin the lower edge, the number
of misses, the number of hits, and the bits of two float64, the weights of misses and of hits. Edges are *keys*:
integers in the order of float64. Unused bins come last; they have the greatest key and are empty. A new sketch has only
unused bins.

The bins have about equal width on the scale C log(1 + t / C) of the rank t. They are finer near the top of the ranking,
because errors of high ranks change a measure most. Edges are restricted, so that sketches of different processes can be
compared: an edge is a key with many trailing zeros, which bisects the range of all keys, one of its halves, and so on.
Similar scores therefore learn mostly the same edges. Sketches are merged over their common edges. The merge is exact,
associative and commutative, so it gives the same bits in every order and grouping.
"""

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.ranking import bins, order, segments

_LOWEST, _UNUSED = -(1 << 63), (1 << 63) - 1
_INFINITE = 0x7FF << 52  # the bits of float64's infinity
_ENDS, _COUNTS, _WEIGHTS = 0, slice(1, 3), slice(3, 5)
FIELDS = 5
_CACHED_TABLES = 64  # half a megabyte each


def empty_sketch(columns: int, size: int, device: torch.device | None = None) -> Tensor:
    """Return the sketch of no items, (columns, size, 5)."""
    sketch = torch.zeros((columns, size, FIELDS), dtype=torch.int64, device=device)
    sketch[:, :, _ENDS] = _UNUSED
    return sketch


def has_bins(sketch: Tensor) -> Tensor:
    """Return whether the sketch has bins, as a 0-d bool tensor."""
    return sketch[0, 0, _ENDS] != _UNUSED


def is_sketch(sketch: Tensor) -> bool:
    """Return whether the tensor is a valid sketch.

    Used edges must ascend, unused bins must come last and be empty, counts and weights must not be negative.
    """
    ends, inside = sketch[:, :, _ENDS].contiguous(), sketch[:, :, 1:]
    used = ends != _UNUSED
    ascending = (ends[:, 1:] > ends[:, :-1]) | ~used[:, 1:]
    whole = (used[:, :1] == used[0, 0]) & (~used[:, :1] | (ends[:, :1] == _LOWEST))
    # the bits of non-negative float64 ascend with the number, the bits of negative float64 are negative integers
    fits = ascending.all() & whole.all() & (inside >= 0).all() & (sketch[:, :, _WEIGHTS] < _INFINITE).all()
    fits &= segments.as_float64(sketch[:, :, _COUNTS]).sum() < 2.0**63
    return bool(fits & (used | (inside.amax(2) == 0)).all())


def score_keys(scores: Tensor) -> Tensor:
    """Return integers in the order of the scores: the bits of float64, with the bits of negative numbers inverted."""
    bits = (segments.as_float64(scores) + 0.0).contiguous().view(torch.int64)  # -0 becomes 0
    return torch.where(bits < 0, bits ^ _UNUSED, bits)


def scores_from_keys(keys: Tensor) -> Tensor:
    """Return the float64 of each key, and -inf for the lowest key; the inverse of :func:`score_keys`."""
    bits = torch.where(keys < 0, keys ^ _UNUSED, keys)
    return torch.where(keys == _LOWEST, -math.inf, bits.contiguous().view(torch.float64))


def learn_bins(scores: Tensor, size: int) -> Tensor:
    """Return an empty sketch with bins for the given scores.

    The candidate edges are the cuts of the repeatedly bisected key range. The ``size - 1`` cuts whose ranges span the
    largest part of the ranking are used.

    Args:
        scores: (N, C) with N of at least 1; NaN for ignored items.
        size: B.
    """
    without_nan = torch.where(scores.isnan(), -math.inf, scores) if scores.is_floating_point() else scores
    keys = score_keys(without_nan.t()).sort(1).values
    items, sketch = keys.shape[1], empty_sketch(len(keys), size, scores.device)
    sketch[:, 0, _ENDS] = _LOWEST
    if items == 1:
        return sketch
    below, above = keys[:, :-1].contiguous(), keys[:, 1:].contiguous()
    inside = _fill_lower_bits(below ^ above)  # trailing ones: the bits that differ between the keys of a range
    cut = above & ~(inside >> 1 & _UNUSED)
    whole = inside == -1
    low, high = torch.where(whole, _LOWEST, above & ~inside), torch.where(whole, _UNUSED, above | inside)
    ends = (torch.searchsorted(keys, low), torch.searchsorted(keys, high, right=True))
    width = _bin_scale(items, size)
    first, last = (width * torch.log1p(segments.as_float64(items - x) / width) for x in ends)
    span = torch.where(below == above, -1.0, first - last)
    span, largest = span.topk(min(size - 1, items - 1), 1)
    edges = torch.where(span > 0, cut.gather(1, largest), _UNUSED).sort(1).values
    sketch[:, 1 : 1 + edges.shape[1], _ENDS] = edges
    return sketch


def _fill_lower_bits(bits: Tensor) -> Tensor:
    """Set all bits below the highest set bit: 0010 1000 gives 0011 1111."""
    high = bits < 0
    for step in (1, 2, 4, 8, 16, 32):
        bits = bits | (bits & _UNUSED) >> step
    return torch.where(high, -1, bits)


def _bin_scale(items: int, size: int) -> float:
    """Return the C that solves C log(1 + items / C) = number of bins, by bisection."""
    low, high = 1e-6, float(size)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * math.log1p(items / middle) < size else (low, middle)
    return high


def count_items(sketch: Tensor, items: bins.Items) -> Tensor:
    """Count misses and hits in each bin of a sketch, without a device sync on an accelerator.

    Args:
        sketch: (C, B, 5) with bins.
        items: the items, with (N, C) scores.

    Returns:
        (C, B, 2) misses and hits, lowest bin first.
    """
    (columns, size), scores = sketch.shape[:2], items.scores
    if not scores.is_cpu or len(scores) < bins.MIN_SCORES:
        return bins.count_by(partial(_search_bins, sketch), size, items)
    counts = []
    for column in range(columns):
        hit, *more = (_select_column(x, column) for x in items[1:])
        hit = hit == column if items.relevant.ndim == 1 and columns > 1 else hit
        place = _bin_lookup(sketch[column, :, _ENDS])
        counts.append(bins.count_by(place, size, bins.Items(scores[:, column], hit, *more)))
    return torch.cat(counts)


def _select_column(values: Any, column: int) -> Any:
    return values if values is None or values.ndim == 1 else values[:, column]


def _search_bins(sketch: Tensor, scores: Tensor) -> Tensor:
    """Return the bin of each of (N, C) scores, counted from the lowest, by binary search."""
    ends, keys = sketch[:, :, _ENDS].contiguous(), score_keys(scores.t())
    return torch.searchsorted(ends, keys, right=True).sub_(1).clamp_(0, sketch.shape[1] - 1).t().contiguous()


def _bin_lookup(ends: Tensor) -> Callable[[Tensor], Tensor]:
    """Return :func:`_search_bins` for (N, 1) scores and (B,) edges, by table lookup."""
    lookup_bins = _lookup_tables(ends[1:].numpy().tobytes())  # every score reaches the first edge
    return lambda scores: lookup_bins(scores[:, 0])[:, None]


@functools.lru_cache(_CACHED_TABLES)
def _lookup_tables(ends: bytes) -> bins.Lookup:
    """Return the lookup tables of the edges; cached because all updates of a metric need the same tables.

    Args:
        ends: bytes of the int64 edges.
    """
    keys = torch.frombuffer(bytearray(ends), dtype=torch.int64)
    return bins.build_lookup(scores_from_keys(keys[keys != _UNUSED]))


def add_counts(sketch: Tensor, counts: Tensor) -> Tensor:
    """Return the sketch after adding (C, B, 2) misses and hits, lowest bin first; int64 counts or float64 weights."""
    sketch = sketch.clone()
    if counts.is_floating_point():
        sketch[:, :, _WEIGHTS] = (sketch_weights(sketch) + counts).view(torch.int64)
    else:
        sketch[:, :, _COUNTS] += counts
    return sketch


def sketch_counts(sketch: Tensor) -> Tensor:
    """Return the (C, B, 2) misses and hits, lowest bin first."""
    return sketch[:, :, _COUNTS]


def sketch_weights(sketch: Tensor) -> Tensor:
    """Return the (C, B, 2) float64 weights of misses and hits, lowest bin first."""
    return sketch[:, :, _WEIGHTS].contiguous().view(torch.float64)


def lower_ends(sketch: Tensor) -> Tensor:
    """Return the (C, B) float64 lower edges, ascending; NaN for unused bins."""
    return scores_from_keys(sketch[:, :, _ENDS])


def merge_sketches(sketches: Tensor) -> Tensor:
    """Merge sketches over the edges that all sketches with bins have in common.

    Args:
        sketches: (W, C, B, 5).
    """
    common, first = _common_ends(sketches[..., _ENDS])
    width = common.shape[1]
    merged = empty_sketch(sketches.shape[1], sketches.shape[2], sketches.device)
    merged[:, :width, _ENDS] = common
    for sketch, places in zip(sketches, first, strict=True):
        merged[:, :width, _COUNTS] += _counts_between(places, sketch)
    weights = sum(
        _weights_in_bins(merged, sketch)
        for sketch in sketches
        if not sketch.is_cpu or bool(sketch_weights(sketch).any())
    )
    if isinstance(weights, Tensor):
        merged[:, :, _WEIGHTS] = weights.view(torch.int64)
    return merged


def _common_ends(ends: Tensor) -> tuple[Tensor, Tensor]:
    """Return the common edges of the sketches that have bins, and the first bin of each edge in every sketch.

    Args:
        ends: (W, C, B) edges.

    Returns:
        (C, M) edges, unused ones last, with M at most the smallest number of used edges; and (W, C, M) bins, B for
        unused edges.
    """
    size, used = ends.shape[2], (ends != _UNUSED).sum(2)
    fewest = torch.where(used > 0, used, size + 1).argmin(0)
    candidates = ends[fewest, torch.arange(len(fewest), device=ends.device)]
    if ends.is_cpu:
        candidates = candidates[:, : int((candidates != _UNUSED).sum(1).max())].contiguous()
    first = torch.stack([torch.searchsorted(edges.contiguous(), candidates) for edges in ends])
    present = ends.gather(2, first.clamp(max=size - 1)) == candidates
    shared = (candidates != _UNUSED) & (present | (used == 0)[:, :, None]).all(0)
    width = candidates.shape[1]
    ordered = order.sort(torch.where(shared, torch.arange(width, device=ends.device), width))
    return _append_to_rows(candidates, _UNUSED).gather(1, ordered), _append_to_rows(first, size).gather(
        2, ordered.expand(len(first), -1, -1)
    )


def _append_to_rows(values: Tensor, last: int) -> Tensor:
    """Append one value to the end of each row."""
    return torch.cat([values, torch.full_like(values[..., :1], last)], -1)


def _counts_between(first: Tensor, sketch: Tensor) -> Tensor:
    """Return the (C, M, 2) counts between consecutive ones of the (C, M) first bins."""
    running = segments.from_zero(sketch[:, :, _COUNTS].transpose(1, 2).contiguous())
    bounds = _append_to_rows(first, sketch.shape[1])[:, None].expand(-1, 2, -1)
    return running.gather(2, bounds).diff().transpose(1, 2)


def _weights_in_bins(common: Tensor, sketch: Tensor) -> Tensor:
    """Return the (C, B, 2) float64 weights of a sketch in the bins of the merged one.

    The weights are added bin by bin, because differences of running sums would be rounded.
    """
    ends, theirs = (x[:, :, _ENDS].contiguous() for x in (common, sketch))
    place = torch.searchsorted(ends, theirs, right=True).sub_(1).clamp_(min=0)
    weights = sketch_weights(sketch)
    return torch.zeros_like(weights).scatter_add_(1, place[:, :, None].expand(-1, -1, 2), weights)
