"""Many rankings on CPU, by sorts of values and no index.

| rankings | algorithm |
|---|---|
| rows: end to end, of about one length; more hits than rows, scores of 32 bits at most | *packed*: sorted as hit keys |
| rows, else, with one hit score each at most | *compared*: every score with it, no sort |
| rows, else | *searched*: scores sorted alone, and one binary search for all hits |
| in any order, scores of 32 bits at most | *packed*, with the number of the ranking in the same int64 |

Only counts leave this module, so each algorithm gives the same curve, to the last bit.
"""

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import few_items, order, segments, tie_groups
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array

_ITEMS_A_BLOCK = 1 << 17  # which stay in cache
_COMPARED = 1 << 13
_PACKED_BITS = 33
_MOST_PADDING = 2


def from_runs(scores: Tensor, relevant: Tensor, offsets: Tensor, m: Tensor | None = None) -> HitCurve | None:
    """The curves of rankings that lie end to end; None where their lengths differ too much for rows.

    Args:
        scores: (N,) on CPU, no NaN.
        relevant: (N,) bool.
        offsets: (S + 1,) int64, where each ranking begins and ends.
        m: (S,) relevant items of each ranking, where more are known than were ranked.
    """
    bounds = offsets.numpy()
    curve = few_items.rankings(scores, relevant, bounds, m)
    if curve is not None:
        return curve
    lengths = bounds[1:] - bounds[:-1]
    width = int(lengths.max(initial=0))
    if width * len(lengths) > _MOST_PADDING * len(scores):
        return None
    given, flags = order.sortable(scores).numpy(), relevant.numpy()
    table = _rows(given, lengths, width, given.min() if len(given) else 0)
    if _is_packed(given, flags, len(lengths)):
        return _of_packed(table, _rows(flags, lengths, width, False), lengths, scores.dtype, m)
    places = flags.nonzero()[0]
    row = places // max(width, 1) if table.size == len(given) else bounds.searchsorted(places, "right") - 1
    return _of_hits(table, segments.pick(scores, torch.from_numpy(places)), row, lengths, m)


def from_table(scores: Tensor, relevant: Tensor) -> HitCurve:
    """The curves of the rows of a table.

    Args:
        scores: (S, W) on CPU, contiguous, no NaN.
        relevant: (S, W) bool, contiguous.
    """
    curve = few_items.rankings(scores.view(-1), relevant.view(-1), np.arange(len(scores) + 1) * scores.shape[1])
    if curve is not None:
        return curve
    table, flags = order.sortable(scores).numpy(), relevant.numpy()
    lengths = np.full(len(table), table.shape[1], np.int64)
    if _is_packed(table, flags, len(table)):
        return _of_packed(table, flags, lengths, scores.dtype)
    places = flags.ravel().nonzero()[0]
    row = places // max(table.shape[1], 1)
    return _of_hits(table, segments.pick(scores.reshape(-1), torch.from_numpy(places)), row, lengths)


def from_any_order(
    scores: Tensor, relevant: Tensor, ranking: Tensor, lengths: Tensor, m: Tensor | None = None
) -> HitCurve:
    """The curves of rankings whose items come in any order, by one sort of (ranking, hit key); each thread has its own.

    Args:
        scores: (N,) on CPU, of 32 bits at most, no NaN.
        relevant: (N,) bool.
        ranking: (N,) int64 in [0, S), with S below 2^30.
        lengths: (S,) items of each ranking.
        m: (S,) relevant items of each ranking, where more are known than were ranked.
    """
    groups = _of_any_order(order.sortable(scores).numpy(), relevant.numpy(), ranking.numpy(), lengths.numpy())
    score = tie_groups.scores_of(groups.key, scores.dtype)
    return tie_groups.curve_of(*groups[:3], groups.counts, score, lengths.numpy(), m)


def _is_packed(given: Array, flags: Array, rankings: int) -> bool:
    return bool(given.dtype.itemsize <= order.KEYED_BYTES and np.count_nonzero(flags) > rankings)


def _of_packed(table: Array, flags: Array, lengths: Array, dtype: torch.dtype, m: Tensor | None = None) -> HitCurve:
    """The curves of rows, sorted as hit keys."""
    groups = _packed(table, flags)
    score = tie_groups.scores_of(groups.key, dtype)
    return _curve(table, groups.hits, groups.above, groups.cumulative, groups.counts, score, lengths, m)


def _of_hits(table: Array, hit_scores: Tensor, row: Array, lengths: Array, m: Tensor | None = None) -> HitCurve:
    """The curves of rows, in which the hits' scores are counted.

    Args:
        table: (S, W) what scores are sorted as.
        hit_scores: (H,) scores of the hits.
        row: (H,) int64, the row of each.
        lengths: (S,) items of each row.
        m: (S,) as of :func:`from_runs`.
    """
    found = tie_groups.of_hits(hit_scores, torch.from_numpy(row), len(lengths))
    search = _compared if found.counts.max(initial=0) <= 1 else _searched
    above, cumulative = search(table, order.sortable(found.score).numpy(), found.counts)
    return _curve(table, found.hits, above, cumulative, found.counts, found.score, lengths, m)


def _curve(
    table: Array,
    hits: Array,
    above: Array,
    cumulative: Array,
    counts: Array,
    score: Tensor,
    lengths: Array,
    m: Tensor | None,
) -> HitCurve:
    """The curves; a group that ties with the fill of its row ends where its ranking does."""
    if len(lengths) and lengths.min() < table.shape[1]:
        cumulative = np.minimum(cumulative, np.repeat(lengths, counts))
    return tie_groups.curve_of(hits, above, cumulative, counts, score, lengths, m)


def _rows(given: Array, lengths: Array, width: int, lowest: float) -> Array:
    """Rankings as rows, the ends filled with the lowest score.

    That fill ties at most with a ranking's own lowest scores, and no group reaches past its ranking's length.
    """
    if width * len(lengths) == len(given):
        return given.reshape(len(lengths), width)
    table = np.full((len(lengths), width), lowest, given.dtype)
    table[np.arange(width) < lengths[:, None]] = given
    return table


def _packed(table: Array, relevant: Array) -> tie_groups.Groups:
    """The tie groups of each row, a block of rows at a time."""
    width = table.shape[1]
    threads = order.workers(table.size)

    def work(rows: slice) -> tie_groups.Groups:
        keys = tie_groups.narrowest(table[rows], relevant[rows])
        keys.packed.sort(axis=1)
        groups = tie_groups.of_sorted(keys.packed.ravel(), np.arange(len(keys.packed) + 1) * width)
        return groups._replace(key=keys.score_keys(groups.key))

    return tie_groups.join(order.in_threads(work, _blocks(table), threads))


def _of_any_order(scores: Array, relevant: Array, ranking: Array, lengths: Array) -> tie_groups.Groups:
    of_items = tie_groups.narrowest(scores, relevant)
    keys = ranking << _PACKED_BITS
    keys += of_items.packed
    threads = order.workers(len(keys))
    offsets = segments.from_counts(lengths)

    def work(rankings: slice) -> tie_groups.Groups:
        first, last = rankings.start, rankings.stop
        mine = keys if threads == 1 else keys.take(np.flatnonzero((ranking >= first) & (ranking < last)))
        starts = offsets[first : last + 1] - offsets[first]
        groups = tie_groups.of_sorted(order.sort_in_place(mine), starts)
        lifted = np.repeat(np.arange(first, last) << _PACKED_BITS, groups.counts)
        return groups._replace(key=of_items.score_keys(groups.key - lifted))

    cuts = offsets.searchsorted([len(keys) * part // threads for part in range(threads)]).tolist()
    ranges = [slice(first, last) for first, last in zip(cuts, [*cuts[1:], len(lengths)], strict=True)]
    return tie_groups.join(order.in_threads(work, ranges, threads))


def standing(scores: Array, lengths: Array, wanted: Array, counts: Array) -> tuple[Array, Array]:
    """How many scores of its ranking lie above each wanted one, and at or above it.

    Args:
        scores: (N,) finite floats of rankings end to end, of about one length.
        lengths: (S,) int64, items of each ranking.
        wanted: (E,) scores that are among those of their ranking, by ranking.
        counts: (S,) how many of each ranking are wanted.
    """
    table = _rows(scores, lengths, int(lengths.max(initial=0)), -np.inf)
    small = len(wanted) * table.shape[1] <= _COMPARED
    above, cumulative = (_compared if small else _searched)(table, wanted, counts)
    return above, np.minimum(cumulative, np.repeat(lengths, counts))


def _compared(table: Array, wanted: Array, counts: Array) -> tuple[Array, Array]:
    """:func:`_searched` for few wanted scores per row."""
    above, cumulative = np.empty((2, len(wanted)), np.int64)
    offsets = segments.from_counts(counts)

    def work(rows: slice) -> None:
        entries = slice(offsets[rows.start], offsets[rows.stop])
        block, score = np.repeat(table[rows], counts[rows], axis=0), wanted[entries, None]
        above[entries] = np.count_nonzero(block > score, axis=1)
        cumulative[entries] = np.count_nonzero(block >= score, axis=1)

    order.in_threads(work, _blocks(table), order.workers(table.size))
    return above, cumulative


def _searched(table: Array, wanted: Array, counts: Array) -> tuple[Array, Array]:
    """How many scores of its row lie above each wanted one, and at or above it; a block is searched while in cache.

    Args:
        table: (S, W) scores.
        wanted: (E,) scores, by row.
        counts: (S,) how many of each row are wanted.
    """
    above, cumulative = np.empty((2, len(wanted)), np.int64)
    offsets = segments.from_counts(counts)
    width = table.shape[1]
    pitch = (1 << width.bit_length()) - 1  # one below a power of two, so that no step of a search leaves its row
    highest = np.inf if table.dtype.kind == "f" else np.iinfo(table.dtype).max

    def work(rows: slice) -> None:
        block = np.full((rows.stop - rows.start, pitch), highest, table.dtype)
        block[:, :width] = table[rows]
        block[:, :width].sort(axis=1, kind="stable" if block.dtype.itemsize <= 2 else None)
        entries = slice(offsets[rows.start], offsets[rows.stop])
        start = np.repeat(np.arange(len(block)) * pitch, counts[rows])
        below, at_or_below = _equal_range_in_rows(block, start, wanted[entries])
        above[entries], cumulative[entries] = width - np.minimum(at_or_below, width), width - below

    order.in_threads(work, _blocks(table), order.workers(table.size))
    return above, cumulative


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
    """Blocks of whole rows that stay in cache; one at least."""
    rows, width = table.shape
    return order.blocks(slice(0, rows), max(1, _ITEMS_A_BLOCK // max(width, 1))) or [slice(0, 0)]
