"""Many rankings on CPU without moving relevance along: sort the scores alone, search the scores of the hits in them.

| rankings | road |
|---|---|
| end to end, few distinct hit scores in each | *tallied*: compare every score with each of them, no sort |
| end to end, of similar length | *searched*: one value sort a row, one binary search for all rows of a block at once |
| in any order | *keyed*: (ranking, reversed score) in one int64, value sort in chunks, search |

Only counts leave this module, so each road gives the same curve, to the last bit.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core import order, packing, segments
from torch_ap.core.hit_curve import HitCurve
from torch_ap.core.order import Array

_ITEMS_A_BLOCK = 1 << 17
_KEYS_A_BLOCK = 1 << 15
_FEW_GROUPS = 4
_MOST_PADDING = 2


class _Groups(NamedTuple):
    """The distinct (ranking, hit score) pairs, by ranking, best score first.

    Attributes:
        key: (E,) int64 that ascends so.
        hits: (E,) hits of each.
        offsets: (S + 1,) where those of each ranking begin and end.
        score: (E,) scores.
    """

    key: Tensor
    hits: Tensor
    offsets: Tensor
    score: Tensor


def from_runs(scores: Tensor, relevant: Tensor, offsets: Tensor, m: Tensor | None = None) -> HitCurve | None:
    """The curves of rankings that lie end to end; None where their lengths differ too much for rows.

    Args:
        scores: (N,) on CPU, no NaN.
        relevant: (N,) bool.
        offsets: (S + 1,) int64, where each ranking begins and ends.
        m: (S,) relevant items of each ranking, where more are known than were ranked.
    """
    lengths = offsets.diff()
    width = int(lengths.max()) if len(lengths) else 0
    if width * len(lengths) > _MOST_PADDING * len(scores):
        return None
    places = torch.from_numpy(np.flatnonzero(relevant.numpy()))
    even = width * len(lengths) == len(scores)
    segment = places // max(width, 1) if even else torch.searchsorted(offsets, places, right=True) - 1
    groups = _groups(scores[places], segment, len(lengths))
    wanted = order.sortable(groups.score).numpy()
    table = order.sortable(scores).numpy()
    table = table.reshape(len(lengths), width) if even else _padded(table, lengths.numpy(), width)
    few = int(groups.offsets.diff().max()) <= _FEW_GROUPS if len(lengths) else True
    above, through = (_tallied if few else _searched)(table, wanted, groups.offsets.numpy())
    through = np.minimum(through, np.repeat(lengths.numpy(), groups.offsets.diff().numpy()))
    return _assemble(groups, above, through, lengths, m)


def from_keys(scores: Tensor, relevant: Tensor, segment: Tensor, lengths: Tensor, m: Tensor | None = None) -> HitCurve:
    """The curves of rankings whose items come in any order.

    Args:
        scores: (N,) on CPU, of 32 bits at most, no NaN.
        relevant: (N,) bool.
        segment: (N,) int64 in [0, S).
        lengths: (S,) items of each ranking.
        m: (S,) relevant items of each ranking, where more are known than were ranked.
    """
    places = torch.from_numpy(np.flatnonzero(relevant.numpy()))
    groups = _groups(scores[places], segment[places], len(lengths))
    keys, wanted = np.empty(len(scores), np.int64), groups.key.numpy()

    def locate(span: slice) -> tuple[Array, Array]:
        for first in range(span.start, span.stop, _KEYS_A_BLOCK):
            part = slice(first, min(first + _KEYS_A_BLOCK, span.stop))
            keys[part] = packing.group_keys(scores[part], segment[part])[0].numpy()
        return order.equal_range(order.sort_in_place(keys[span]), wanted)

    threads = order.workers(len(keys))
    ranges = order.in_threads(locate, order.spans(len(keys), threads), threads)
    first = np.repeat(segments.from_counts(lengths)[:-1].numpy(), groups.offsets.diff().numpy())
    above, through = (sum(side) - first for side in zip(*ranges, strict=True))
    return _assemble(groups, above, through, lengths, m)


def _groups(hit_scores: Tensor, segment: Tensor, segments_count: int) -> _Groups:
    keys, levels = packing.group_keys(hit_scores, segment)
    ordered = order.sort(keys).numpy()
    changed = np.ones(len(ordered) + 1, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=changed[1:-1])
    bounds = np.flatnonzero(changed[: len(ordered) + bool(len(ordered))])
    key = torch.from_numpy(ordered[bounds[:-1]])
    return _Groups(
        key=key,
        hits=torch.from_numpy(np.diff(bounds)),
        offsets=segments.from_counts(segments.count(key >> 32, segments_count)),
        score=packing.scores_of(key, levels, hit_scores.dtype),
    )


def _padded(given: Array, lengths: Array, width: int) -> Array:
    """Rankings of unequal length as rows, the ends filled with the lowest score.

    That fill ties at most with a ranking's own lowest scores, and no group reaches past its ranking's length.
    """
    lowest = -np.inf if given.dtype.kind == "f" else np.iinfo(given.dtype).min
    table = np.full((len(lengths), width), lowest, given.dtype)
    table[np.arange(width) < lengths[:, None]] = given
    return table


def _tallied(table: Array, wanted: Array, offsets: Array) -> tuple[Array, Array]:
    """How many scores of its row lie above each wanted one, and at or above it, by comparing all of them."""
    above, through = np.empty((2, len(wanted)), np.int64)
    counts = np.diff(offsets)

    def work(rows: slice) -> None:
        block = table[rows]
        for nth in range(int(counts[rows].max(initial=0))):
            having = np.flatnonzero(counts[rows] > nth)
            entry = offsets[rows][having] + nth
            part = block if len(having) == len(block) else block[having]
            score = wanted[entry][:, None]
            through[entry] = np.count_nonzero(part >= score, axis=1)
            above[entry] = np.count_nonzero(part > score, axis=1)

    order.in_threads(work, _blocks(table), order.workers(table.size))
    return above, through


def _searched(table: Array, wanted: Array, offsets: Array) -> tuple[Array, Array]:
    """The same by sorting each row, a block at a time, and searching the block while it is in cache."""
    above, through = np.empty((2, len(wanted)), np.int64)
    width = table.shape[1]
    pitch = (1 << width.bit_length()) - 1  # one below a power of two, so that no step of a search leaves its row
    highest = np.inf if table.dtype.kind == "f" else np.iinfo(table.dtype).max

    def work(rows: slice) -> None:
        block = np.full((rows.stop - rows.start, pitch), highest, table.dtype)
        block[:, :width] = table[rows]
        block[:, :width].sort(axis=1, kind="stable" if block.dtype.itemsize <= 2 else None)
        entries = slice(offsets[rows.start], offsets[rows.stop])
        start = np.repeat(np.arange(len(block)) * pitch, np.diff(offsets[rows.start : rows.stop + 1]))
        below, at_or_below = _equal_range_in_rows(block, start, wanted[entries])
        above[entries], through[entries] = width - np.minimum(at_or_below, width), width - below

    order.in_threads(work, _blocks(table), order.workers(table.size))
    return above, through


def _equal_range_in_rows(ascending: Array, start: Array, wanted: Array) -> tuple[Array, Array]:
    """For each wanted score, which its row holds: how many of the row lie below it, and how many at or below it.

    Args:
        ascending: (R, 2^b - 1) rows of sorted scores, filled with the highest.
        start: (E,) where the row of each wanted score begins.
        wanted: (E,) scores.
    """
    flat, pitch = ascending.ravel(), ascending.shape[1]
    below = _search(flat, start, pitch, wanted, np.less)
    at_or_below = below + 1
    tied = np.flatnonzero(flat[start + np.minimum(at_or_below, pitch - 1)] == wanted)
    if len(tied):
        at_or_below[tied] = _search(flat, start[tied], pitch, wanted[tied], np.less_equal)
    return below, at_or_below


def _search(ascending: Array, start: Array, pitch: int, wanted: Array, before: np.ufunc) -> Array:
    """One binary search for all: how many values of the row come ``before`` the wanted one."""
    place, probe, moved = start - 1, np.empty_like(start), np.empty(len(start), bool)
    values = np.empty_like(wanted)
    step = (pitch + 1) // 2
    while step:
        np.add(place, step, out=probe)
        np.take(ascending, probe, out=values, mode="clip")
        before(values, wanted, out=moved)
        np.multiply(moved, step, out=probe)
        place += probe
        step //= 2
    place -= start - 1
    return place


def _blocks(table: Array) -> list[slice]:
    """Blocks of whole rows that fit in cache."""
    rows, width = table.shape
    height = max(1, _ITEMS_A_BLOCK // max(width, 1))
    return [slice(first, min(first + height, rows)) for first in range(0, rows, height)]


def _assemble(groups: _Groups, above: Array, through: Array, lengths: Tensor, m: Tensor | None) -> HitCurve:
    items_above = torch.from_numpy(above)
    hits_before = segments.from_counts(groups.hits)[:-1]
    first = segments.from_counts(segments.total(groups.hits, groups.offsets))
    counts = groups.offsets.diff()
    return HitCurve(
        hits=groups.hits,
        items=torch.from_numpy(through) - items_above,
        hits_above=hits_before - torch.repeat_interleave(first[:-1], counts),
        items_above=items_above,
        score=groups.score,
        offsets=groups.offsets,
        n=lengths,
        m=first.diff() if m is None else m,
    )
