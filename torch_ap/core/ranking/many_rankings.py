"""Hit curves of many rankings on CPU, by sorts of values without indices.

| rankings | algorithm |
|---|---|
| concatenated, of similar length, as rows; more hits than rows, at most 32 bits | *packed*: sorted as hit keys |
| long rows of floats with few hits | *bucketed* by :mod:`torch_ap.core.ranking.long_rankings` |
| other rows, with at most one hit score each | *compared*: every score is compared with it, no sort |
| other rows | *searched*: scores are sorted alone, and one binary search finds all hits |
| in any order, scores of at most 32 bits | *packed*, with the number of the ranking in the same int64 |

Only counts leave this module, so all algorithms give bit-identical curves.
"""

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.ranking import few_items, long_rankings, order, segments, tie_groups
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array

_ITEMS_A_BLOCK = 1 << 17  # items of a block that stay in cache
_COMPARED = 1 << 13  # comparisons that take less time than a sort and a search
_PACKED_BITS = 33  # of a wide hit key
_MOST_PADDING = 2  # items of padded rows per item


def from_runs(scores: Tensor, relevant: Tensor, offsets: Tensor, m: Tensor | None = None) -> HitCurve | None:
    """Return the curves of concatenated rankings; None if their lengths differ too much for rows.

    Args:
        scores: (N,) on CPU, no NaN.
        relevant: (N,) bool.
        offsets: (S + 1,) int64, the start and end of each ranking.
        m: (S,) relevant items of each ranking, if there are more than were ranked.
    """
    bounds = offsets.numpy()
    lengths = bounds[1:] - bounds[:-1]
    width = int(lengths.max(initial=0))
    if width * len(lengths) > _MOST_PADDING * len(scores):
        return None
    values, flags = order.sortable(scores).numpy(), relevant.numpy()
    table = _as_rows(values, lengths, width, values.min() if len(values) else 0)
    if _is_packed(table, flags):
        return _curves_by_packing(table, _as_rows(flags, lengths, width, False), lengths, scores.dtype, m)
    places = flags.nonzero()[0]
    row = places // max(width, 1) if table.size == len(values) else bounds.searchsorted(places, "right") - 1
    return _curves_by_hits(table, segments.pick(scores, torch.from_numpy(places)), row, lengths, m)


def from_table(scores: Tensor, relevant: Tensor, lengths: Array | None = None) -> HitCurve:
    """Return the curves of the rows of a table.

    Args:
        scores: (S, W) on CPU, contiguous, no NaN.
        relevant: (S, W) bool, contiguous.
        lengths: (S,) int64, the items of each row, if some are ignored, whose score is the lowest and which are not
            relevant.
    """
    if lengths is None:
        curve = few_items.rankings(scores.view(-1), relevant.view(-1), np.arange(len(scores) + 1) * scores.shape[1])
        if curve is not None:
            return curve
        lengths = np.full(len(scores), scores.shape[1], np.int64)
    table, flags = order.sortable(scores).numpy(), relevant.numpy()
    if _is_packed(table, flags):
        return _curves_by_packing(table, flags, lengths, scores.dtype)
    places = flags.ravel().nonzero()[0]
    row = places // max(table.shape[1], 1)
    return _curves_by_hits(table, segments.pick(scores.reshape(-1), torch.from_numpy(places)), row, lengths)


def from_any_order(
    scores: Tensor, relevant: Tensor, ranking: Tensor, lengths: Tensor, m: Tensor | None = None
) -> HitCurve:
    """Return the curves of rankings with items in any order, by one sort of (ranking, hit key) per thread.

    Args:
        scores: (N,) on CPU, of at most 32 bits, no NaN.
        relevant: (N,) bool.
        ranking: (N,) int64 in [0, S), with S below 2^30.
        lengths: (S,) items of each ranking.
        m: (S,) relevant items of each ranking, if there are more than were ranked.
    """
    groups = _groups_in_any_order(order.sortable(scores).numpy(), relevant.numpy(), ranking.numpy(), lengths.numpy())
    score = tie_groups.scores_from_keys(groups.key, scores.dtype)
    return tie_groups.curve_from_groups(groups, score, lengths.numpy(), m)


def _is_packed(table: Array, flags: Array) -> bool:
    hits = int(np.count_nonzero(flags))
    return bool(
        table.dtype.itemsize <= order.KEYED_BYTES and hits > len(table) and not long_rankings.is_bucketed(table, hits)
    )


def _curves_by_packing(
    table: Array, flags: Array, lengths: Array, dtype: torch.dtype, m: Tensor | None = None
) -> HitCurve:
    """Return the curves of rows by sorting hit keys."""
    groups = _groups_of_rows(table, flags)
    score = tie_groups.scores_from_keys(groups.key, dtype)
    return _curve(table, groups, score, lengths, m)


def _curves_by_hits(table: Array, hit_scores: Tensor, row: Array, lengths: Array, m: Tensor | None = None) -> HitCurve:
    """Return the curves of rows by counting the scores above each hit score.

    Args:
        table: (S, W) sortable scores.
        hit_scores: (H,) scores of the hits.
        row: (H,) int64, the row of each hit.
        lengths: (S,) items of each row.
        m: (S,) as of :func:`from_runs`.
    """
    hits, counts, score = tie_groups.group_hits(hit_scores, torch.from_numpy(row), len(lengths))
    search = _count_by_comparing if counts.max(initial=0) <= 1 else _count_by_searching
    if search is _count_by_searching and long_rankings.is_bucketed(table, len(hits)):
        search = long_rankings.count_in_rows
    wanted = order.sortable(score).numpy()
    above, cumulative = search(table, wanted, counts)
    return _curve(table, tie_groups.Groups(hits, above, cumulative, wanted, counts), score, lengths, m)


def _curve(table: Array, groups: tie_groups.Groups, score: Tensor, lengths: Array, m: Tensor | None) -> HitCurve:
    """Return the curves; the padding of a row is excluded from the last group, the only one that can tie with it."""
    if len(lengths) and lengths.min() < table.shape[1]:
        has_groups = groups.counts > 0
        last = segments.from_counts(groups.counts)[1:][has_groups] - 1
        groups.cumulative[last] = np.minimum(groups.cumulative[last], lengths[has_groups])
    return tie_groups.curve_from_groups(groups, score, lengths, m)


def _as_rows(values: Array, lengths: Array, width: int, lowest: float) -> Array:
    """Return rankings as rows, padded with the lowest score.

    The padding can tie only with the lowest scores of a ranking; groups are cut at the length of the ranking.
    """
    if width * len(lengths) == len(values):
        return values.reshape(len(lengths), width)
    table = np.full((len(lengths), width), lowest, values.dtype)
    table[np.arange(width) < lengths[:, None]] = values
    return table


def _groups_of_rows(table: Array, relevant: Array) -> tie_groups.Groups:
    """Return the tie groups of each row, by blocks of rows."""
    width = table.shape[1]
    threads = order.workers(table.size)

    def work(rows: slice) -> tie_groups.Groups:
        keys = tie_groups.narrowest_keys(table[rows], relevant[rows])
        keys.packed.sort(axis=1)
        groups = tie_groups.groups_of_sorted_keys(keys.packed.ravel(), np.arange(len(keys.packed) + 1) * width)
        return groups._replace(key=keys.score_keys(groups.key))

    return tie_groups.join(order.run_in_threads(work, _blocks(table), threads))


def _groups_in_any_order(scores: Array, relevant: Array, ranking: Array, lengths: Array) -> tie_groups.Groups:
    hit_keys = tie_groups.narrowest_keys(scores, relevant)
    keys = ranking << _PACKED_BITS
    keys += hit_keys.packed
    threads = order.workers(len(keys))
    offsets = segments.from_counts(lengths)

    def work(rankings: slice) -> tie_groups.Groups:
        first, last = rankings.start, rankings.stop
        own_keys = keys if threads == 1 else keys.take(np.flatnonzero((ranking >= first) & (ranking < last)))
        starts = offsets[first : last + 1] - offsets[first]
        groups = tie_groups.groups_of_sorted_keys(order.sort_in_place(own_keys), starts)
        prefix = np.repeat(np.arange(first, last) << _PACKED_BITS, groups.counts)
        return groups._replace(key=hit_keys.score_keys(groups.key - prefix))

    cuts = offsets.searchsorted([len(keys) * part // threads for part in range(threads)]).tolist()
    ranges = [slice(first, last) for first, last in zip(cuts, [*cuts[1:], len(lengths)], strict=True)]
    return tie_groups.join(order.run_in_threads(work, ranges, threads))


def count_above(scores: Array, lengths: Array, wanted: Array, counts: Array) -> tuple[Array, Array]:
    """Count the scores of the same ranking above each wanted score, and at or above it.

    Args:
        scores: (N,) finite floats of concatenated rankings of similar length.
        lengths: (S,) int64, items of each ranking.
        wanted: (E,) scores that occur in their ranking, by ranking.
        counts: (S,) number of wanted scores of each ranking.
    """
    table = _as_rows(scores, lengths, int(lengths.max(initial=0)), -np.inf)
    small = len(wanted) * table.shape[1] <= _COMPARED
    above, cumulative = (_count_by_comparing if small else _count_by_searching)(table, wanted, counts)
    return above, np.minimum(cumulative, np.repeat(lengths, counts))


def _count_by_comparing(table: Array, wanted: Array, counts: Array) -> tuple[Array, Array]:
    """Count as :func:`_count_by_searching`, but by comparison with the whole row; for few wanted scores."""
    above, cumulative = np.empty((2, len(wanted)), np.int64)
    offsets = segments.from_counts(counts)

    def work(rows: slice) -> None:
        entries = slice(offsets[rows.start], offsets[rows.stop])
        block, score = np.repeat(table[rows], counts[rows], axis=0), wanted[entries, None]
        above[entries] = np.count_nonzero(block > score, axis=1)
        cumulative[entries] = np.count_nonzero(block >= score, axis=1)

    order.run_in_threads(work, _blocks(table), order.workers(table.size))
    return above, cumulative


def _count_by_searching(table: Array, wanted: Array, counts: Array) -> tuple[Array, Array]:
    """Count the scores of the same row above each wanted score, and at or above it, by blocks that stay in cache.

    Args:
        table: (S, W) scores.
        wanted: (E,) scores, by row.
        counts: (S,) number of wanted scores of each row.
    """
    above, cumulative = np.empty((2, len(wanted)), np.int64)
    offsets = segments.from_counts(counts)
    width = table.shape[1]
    pitch = (1 << width.bit_length()) - 1  # one less than a power of two, so that the steps of a search stay in the row
    highest = np.inf if table.dtype.kind == "f" else np.iinfo(table.dtype).max

    def work(rows: slice) -> None:
        block = np.full((rows.stop - rows.start, pitch), highest, table.dtype)
        block[:, :width] = table[rows]
        block[:, :width].sort(axis=1, kind="stable" if block.dtype.itemsize <= 2 else None)
        entries = slice(offsets[rows.start], offsets[rows.stop])
        start = np.repeat(np.arange(len(block)) * pitch, counts[rows])
        below, at_or_below = _equal_range_in_rows(block, start, wanted[entries])
        above[entries], cumulative[entries] = width - np.minimum(at_or_below, width), width - below

    order.run_in_threads(work, _blocks(table), order.workers(table.size))
    return above, cumulative


def _equal_range_in_rows(ascending: Array, start: Array, wanted: Array) -> tuple[Array, Array]:
    """Count the scores of its row below each wanted score, and at or below it.

    Args:
        ascending: (R, 2^b - 1) rows of sorted scores, padded with the highest.
        start: (E,) start of the row of each wanted score.
        wanted: (E,) scores that occur in their row.
    """
    flat, pitch = ascending.ravel(), ascending.shape[1]
    below = _search(flat, start, pitch, wanted, np.less)
    at_or_below = below + 1
    tied = np.flatnonzero(flat[start + np.minimum(at_or_below, pitch - 1)] == wanted)
    if len(tied):
        at_or_below[tied] = _search(flat, start[tied], pitch, wanted[tied], np.less_equal)
    return below, at_or_below


def _search(ascending: Array, start: Array, pitch: int, wanted: Array, before: np.ufunc) -> Array:
    """Count by one binary search the values of the row that come ``before`` each wanted one."""
    place, probe, is_before = start - 1, np.empty_like(start), np.empty(len(start), bool)
    values = np.empty_like(wanted)
    step = (pitch + 1) // 2
    while step:
        np.add(place, step, out=probe)
        np.take(ascending, probe, out=values, mode="clip")
        before(values, wanted, out=is_before)
        np.multiply(is_before, step, out=probe)
        place += probe
        step //= 2
    place -= start - 1
    return place


def _blocks(table: Array) -> list[slice]:
    """Return at least one block of whole rows; each block fits in cache."""
    rows, width = table.shape
    return order.blocks(slice(0, rows), max(1, _ITEMS_A_BLOCK // max(width, 1))) or [slice(0, 0)]
