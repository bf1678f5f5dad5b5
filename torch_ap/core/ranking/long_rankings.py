"""Hit curves of long rankings on CPU, counted one by one.

| scores of a ranking | algorithm |
|---|---|
| integers or half precisions of few levels | *levels*: items and hits are counted per score, no sort |
| floats, with few hits | *buckets*: only scores near a hit score are sorted, the others are counted |
| at most 32 bits, with many hits | *packed*: sorted as hit keys |
| else | *sorted*: scores are sorted, and the distinct hit scores are searched |

All algorithms give the same counts.
"""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.ranking import order, segments, tie_groups
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.core.ranking.tie_groups import Groups

_LONG, _LONG_WIDE = 1 << 13, 1 << 11  # items from which a ranking is counted alone; for scores wider than 32 bits
_LONG_PACKED = 1 << 16  # for float32 with many hits; shorter columns are sorted faster in tables
_FEW_HITS = 1 / 10  # share of hits up to which buckets are faster than sorts
_MIN_BUCKETS, _MAX_BUCKETS = 1 << 12, 1 << 16  # powers of two; more buckets leave the cache
_BUCKETS_A_HIT = 64
_MAX_LEVELS, _LEVELS_AN_ITEM = 1 << 16, 4
_SAMPLE = 1 << 10  # scores that determine the scale of the buckets


def are_long(scores: Tensor, relevant: Tensor) -> bool:
    """Return whether columns are counted one by one; the arguments are those of :func:`from_columns`."""
    items, columns = scores.shape
    if scores.element_size() > order.KEYED_BYTES:
        return items >= _LONG_WIDE
    if scores.dtype is not torch.float32 or not _LONG <= items < _LONG_PACKED:
        return items >= _LONG
    hits = items if relevant.ndim == 1 else np.count_nonzero(order.as_flags(relevant).numpy())
    return bool(hits <= items * columns * _FEW_HITS)


def is_bucketed(table: Array, hits: int) -> bool:
    """Return whether sorting only the scores near the hit scores is faster.

    Args:
        table: (S, W) sortable scores, one ranking per row.
        hits: number of hits of all rankings.
    """
    return table.shape[1] >= _LONG and table.dtype.kind == "f" and hits <= table.size * _FEW_HITS


def count_in_rows(table: Array, wanted: Array, counts: Array) -> tuple[Array, Array]:
    """Count the scores of the same row above each wanted score, and at or above it, by buckets.

    Args:
        table: (S, W) floats.
        wanted: (E,) scores, by row, the best first.
        counts: (S,) number of wanted scores of each row.
    """
    above, cumulative = np.empty((2, len(wanted)), np.int64)
    offsets = segments.from_counts(counts)
    as_scale = _scale(table)

    def work(row: int) -> None:
        entries = slice(offsets[row], offsets[row + 1])
        below, at_or_below = _count_by_buckets(table[row], wanted[entries][::-1], as_scale)
        above[entries], cumulative[entries] = len(table[row]) - at_or_below[::-1], len(table[row]) - below[::-1]

    order.run_in_threads(work, range(len(table)), order.workers(table.size))
    return above, cumulative


def from_columns(scores: Tensor, relevant: Tensor) -> HitCurve:
    """Return the curves of at least one column, by blocks of columns that each thread transposes and counts.

    Args:
        scores: (N, C) on CPU, any real dtype, no NaN.
        relevant: (N, C) bool or 0/1 integers; or (N,) integer class ids, where column c counts class c as relevant.
    """
    values = order.sortable(scores)
    items, columns = values.shape
    hits_of = _hits_of_columns(relevant, columns)

    def work(span: slice) -> Groups:
        rows = order.as_rows(values[:, span]).numpy()
        as_scale = _scale(rows)
        return tie_groups.join([_count(*pair, as_scale) for pair in zip(rows, hits_of(span), strict=True)])

    tasks = order.blocks(slice(0, columns), order.COLUMNS_A_TASK)
    groups = tie_groups.join(order.run_in_threads(work, tasks, order.workers(values.numel())))
    score = tie_groups.scores_from_keys(groups.key, scores.dtype)
    return tie_groups.curve_from_groups(groups, score, np.full(columns, items, np.int64), None)


def _hits_of_columns(relevant: Tensor, columns: int) -> Callable[[slice], Iterable[Array]]:
    """Return the function from a range of columns to the flags, or if there are few, to the places of their hits."""
    if relevant.ndim == 2:
        flags = order.as_flags(relevant)
        if np.count_nonzero(flags.numpy()) > flags.numel() * _FEW_HITS:
            return lambda span: order.as_rows(flags[:, span]).numpy()
        item, column = np.divmod(np.flatnonzero(flags.numpy()), columns)
        places = item.take(order.stable_argsort(torch.from_numpy(column), columns).numpy())
    else:
        column = relevant.long().numpy()
        places = order.stable_argsort(relevant, columns).numpy()
    starts = segments.from_counts(segments.count(torch.from_numpy(column), columns)).tolist()
    return lambda span: [places[starts[c] : starts[c + 1]] for c in range(span.start, span.stop)]


def _count(row: Array, hits: Array, as_scale: Callable[[Array], Array]) -> Groups:
    """Return the groups of one ranking.

    Args:
        row: (N,) sortable scores.
        hits: flags of the hits, or their places.
        as_scale: result of :func:`_scale`.
    """
    hit_scores, long = row[hits], len(row) >= _LONG
    few = len(hit_scores) <= len(row) * _FEW_HITS
    if row.dtype.kind != "f" and long:
        low = int(row.min())
        levels = int(row.max()) - low + 1
        if levels <= min(_MAX_LEVELS, len(row) * _LEVELS_AN_ITEM):
            return _count_levels(row, hit_scores, low, levels)
    if not few and row.dtype.itemsize <= order.KEYED_BYTES:
        return _count_packed(row, hits)
    hit_scores = order.sort_in_place(hit_scores)
    starts, counts = segments.runs(hit_scores)
    wanted = hit_scores.take(starts)
    count_below = _count_by_buckets if few and long and row.dtype.kind == "f" else _count_by_sorting
    below, at_or_below = count_below(row, wanted, as_scale)
    above, cumulative = len(row) - at_or_below[::-1], len(row) - below[::-1]
    keys = order.array_keys(wanted[::-1].copy()).astype(np.int64)
    return Groups(counts[::-1], above, cumulative, keys, np.array([len(wanted)]))


def _count_levels(row: Array, hit_scores: Array, low: int, levels: int) -> Groups:
    """Return the groups of one ranking of integers in [low, low + levels)."""
    last = low + levels - 1
    items, hits = (np.bincount(np.subtract(last, x, dtype=np.int64), minlength=levels) for x in (row, hit_scores))
    level = hits.nonzero()[0]
    cumulative, hits = items.cumsum().take(level), hits.take(level)
    return Groups(hits, cumulative - items.take(level), cumulative, last - level, np.array([len(level)]))


def _count_packed(row: Array, hits: Array) -> Groups:
    """Return the groups of one ranking by a sort of hit keys."""
    flags = hits
    if hits.dtype != bool:
        flags = np.zeros(len(row), bool)
        flags[hits] = True
    keys = tie_groups.narrowest_keys(row, flags)
    groups = tie_groups.groups_of_sorted_ranking(order.sort_in_place(keys.packed))
    return groups._replace(key=keys.score_keys(groups.key))


def _count_by_sorting(row: Array, wanted: Array, _: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Count the scores below each of the ascending wanted scores of the row, and at or below it."""
    return order.equal_range(order.sort_in_place(row.copy()), wanted)


def _count_by_buckets(row: Array, wanted: Array, as_scale: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Count as :func:`_count_by_sorting`, but sort only the scores in buckets that contain a wanted score."""
    size = min(max(_MIN_BUCKETS, 1 << (_BUCKETS_A_HIT * len(wanted)).bit_length()), _MAX_BUCKETS)
    values = as_scale(row)
    bucket_of = _buckets(values, size)
    bucket, wanted_bucket = bucket_of(values), bucket_of(as_scale(wanted))
    is_wanted = np.zeros(size, bool)
    is_wanted[wanted_bucket] = True
    chosen = order.sort_in_place(row.compress(is_wanted.take(bucket)))
    others = np.bincount(bucket, minlength=size)
    others[wanted_bucket] = 0
    others_below = np.add.reduceat(others, np.append(0, wanted_bucket))[:-1].cumsum()
    below, at_or_below = order.equal_range(chosen, wanted)
    return others_below + below, others_below + at_or_below


def _scale(table: Array) -> Callable[[Array], Array]:
    """Return the function from scores to the numbers that are divided into buckets: the scores, or their keys.

    The keys are about proportional to logarithms. They are taken if a sample spreads over more buckets there, as
    probabilities of many classes do.
    """
    sample = table.ravel()[:: max(1, table.size // _SAMPLE)]
    if table.dtype.kind != "f" or not sample.size:
        return np.asarray
    spread = [len(np.unique(_buckets(x, _SAMPLE)(x))) for x in (sample, order.array_keys(sample))]
    return order.array_keys if spread[1] > spread[0] else np.asarray


@arrays.quiet
def _buckets(values: Array, size: int) -> Callable[[Array], Array]:
    """Return the function from values to buckets; all values are in one bucket if their range is infinite or empty.

    Buckets have equal widths, those of integers a power of two. Rounding never changes the order of two values, so all
    counts are exact.

    Args:
        values: at least one float or key.
        size: number of buckets, a power of two.
    """
    low, high = values.min(), values.max()
    if values.dtype.kind == "i":
        shift = max((int(high) - int(low)).bit_length() - size.bit_length() + 1, 0)
        unsigned = f"u{values.dtype.itemsize}"  # the difference is exact modulo the range of the dtype
        return lambda x: ((x - low).view(unsigned) >> shift).astype(np.intp)
    scale = (size - 1) / (high - low)
    if not 0 < scale < np.inf:
        return lambda x: np.zeros(len(x), np.intp)
    return lambda x: ((x - low) * scale).astype(np.int32).astype(np.intp)  # twice as fast as directly
