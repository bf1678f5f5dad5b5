"""Builders of hit curves from scores and relevance, by the fastest algorithm; all algorithms give the same curve.

| input | algorithm |
|---|---|
| one ranking with many hits, 32-bit scores, no weights, CPU | *pack*: sort (reversed score, relevance) in 32 bits |
| other single rankings, no weights, CPU | *count*: sort the values, search the distinct hit scores |
| long columns, no weights, CPU | :mod:`torch_ap.core.ranking.long_rankings` |
| many rankings, no weights, CPU | :mod:`torch_ap.core.ranking.many_rankings` |
| an accelerator, or rankings of very unequal length | *packed*: (ranking, reversed score, relevance) in one int64 |
| weights | *indexed*: (ranking, reversed score) in one int64, sorted with indices |

Hit curves from counts: of sorted items, of bins, and of rows with a common layout.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.ranking import few_items, hit_curve, long_rankings, many_rankings, order, segments, tie_groups
from torch_ap.core.ranking.hit_curve import HitCurve, Parts
from torch_ap.core.ranking.order import Array


def from_ordered(
    relevant: Tensor,
    last: Tensor,
    offsets: Tensor,
    *,
    score: Tensor | None = None,
    weight: Tensor | None = None,
    m: Tensor | None = None,
    keep_all_groups: bool = False,
    parts: Parts | None = None,
) -> HitCurve:
    """Return the hit curves of sorted items: concatenated rankings, best item first.

    Args:
        relevant: (N,) bool or 0/1 integers.
        last: (N,) bool, true at the last item of each tie group, and so at the last item of each ranking.
        offsets: (S + 1,) int64, the start and end of the items of each ranking.
        score: (N,) scores of the items, for ``HitCurve.score``.
        weight: (N,) float64 item weights.
        m: (S,) relevant items of each ranking, if there are more than were ranked.
        keep_all_groups: whether tie groups without a hit are entries too.
        parts: the other processes, if each process has the items of a range of scores.
    """
    ends = last.nonzero().squeeze(1)
    ones = [torch.ones_like(relevant, dtype=torch.int64)]
    if weight is not None:
        ones = segments.slices(weight, offsets, None if parts is None else parts.highest)
    relevant = relevant.bool()
    cumulative, starts, sizes = zip(
        *(_running_sums(x, offsets, parts) for x in ([torch.where(relevant, x, 0) for x in ones], ones)), strict=True
    )
    first = torch.searchsorted(ends, offsets[:-1])[offsets.diff() > 0]
    above = [_sums_above(x[ends], first, y[offsets.diff() > 0]) for x, y in zip(cumulative, starts, strict=True)]
    hits, items = (x[ends] - before for x, before in zip(cumulative, above, strict=True))
    if not keep_all_groups:
        places = (hits > 0).nonzero().squeeze(1)
        ends, hits, items, *above = (x[places] for x in (ends, hits, items, *above))
    score, m = None if score is None else score[ends], sizes[0] if m is None else m
    (hits_above, items_above), offsets = above, torch.searchsorted(ends, offsets)
    return HitCurve(hits, items, hits_above, items_above, score, offsets, sizes[1], m, parts=parts)


def _running_sums(terms: Sequence[Tensor], offsets: Tensor, parts: Parts | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the (N,) running sums over all parts, and the (S,) sums per ranking above this part and in all parts."""
    sums = [segments.cumulative(x, offsets) for x in terms]
    whole = torch.stack([_sums_at_ends(x, offsets) for x in sums])
    above = torch.zeros_like(whole)
    if parts is not None:
        above, whole = parts.above_and_whole(whole)
        sums = [x + segments.each_entry(y, offsets) for x, y in zip(sums, above, strict=True)]
    return segments.rounded_sum(sums), segments.rounded_sum(above.unbind()), segments.rounded_sum(whole.unbind())


def _sums_at_ends(cumulative: Tensor, offsets: Tensor) -> Tensor:
    """Return the running sum at the end of each ranking, 0 for an empty one."""
    return torch.where(offsets.diff() > 0, torch.cat([cumulative.new_zeros(1), cumulative])[offsets[1:]], 0)


def _sums_above(cumulative: Tensor, first: Tensor, start: Tensor) -> Tensor:
    """Return the sum above each group: the running sum of the group before, or ``start`` for the ``first`` groups."""
    above = torch.cat([cumulative.new_zeros(1), cumulative])[:-1]
    above[first] = start
    return above


def from_bins(
    hits: Tensor,
    items: Tensor,
    *,
    n: Tensor | None = None,
    m: Tensor | None = None,
    score: Tensor | None = None,
    kept: Tensor | None = None,
) -> HitCurve:
    """Return the hit curves of counts per bin; each bin is a tie group.

    Args:
        hits: (S, B) hits in each bin of each ranking, highest scores first; int64, or float64 sums of weights.
        items: (S, B) items in each bin, hits included.
        n: (S,) items of each ranking, if some are in no bin. Default: the items in the bins.
        m: (S,) relevant items of each ranking, likewise.
        score: (B,) or (S, B) for ``HitCurve.score``; all bins become entries, also bins without a hit.
        kept: (S, B) bool, the bins that become entries instead.
    """
    if kept is None:
        kept = hits > 0 if score is None else torch.ones_like(hits, dtype=torch.bool)
    columns = [x[kept] for x in (hits, items, hits.cumsum(1) - hits, items.cumsum(1) - items)]
    score = None if score is None else score.expand(hits.shape)[kept]
    n, m = items.sum(1) if n is None else n, hits.sum(1) if m is None else m
    fields: Any = (*columns, score, segments.from_counts(kept.sum(1)), n, m)
    return HitCurve(*fields)


def from_rows(
    hits: Tensor, items: Tensor, hits_above: Tensor, items_above: Tensor, offsets: Tensor, n: Tensor, m: Tensor
) -> HitCurve:
    """Return the hit curve of b rows of S rankings each, row by row.

    Args:
        hits: (b, E) as of :class:`HitCurve`, with the same layout in all rows.
        items: (b, E) likewise.
        hits_above: (b, E) likewise.
        items_above: (b, E) likewise.
        offsets: (S + 1,) the start and end of the entries of each ranking of a row.
        n: (b, S) items ranked.
        m: (b, S) relevant items.
    """
    rows, width = hits.shape
    starts = torch.arange(rows, device=offsets.device)[:, None] * width + offsets[:-1]
    offsets = torch.cat([starts.flatten(), offsets[:1] + rows * width])
    hits, items, hits_above, items_above, n, m = (x.flatten() for x in (hits, items, hits_above, items_above, n, m))
    return HitCurve(hits, items, hits_above, items_above, None, offsets, n, m)


_PACKED_ITEMS, _PACKED_SHARE = 1 << 15, 1 / 8  # from these numbers of items and share of hits on, packing is faster
_SAMPLED_A_THREAD = 1 << 10  # keys that determine the ranges of the threads
ITEMS_A_BLOCK = 1 << 22  # items in a block of columns that is transposed in one step; larger memory is not reused


def from_scores(
    scores: Tensor,
    relevant: Tensor,
    *,
    segment: Tensor | None = None,
    segments_count: int = 1,
    lengths: Tensor | None = None,
    weight: Tensor | None = None,
    m: Tensor | None = None,
    keep_all_groups: bool = False,
) -> HitCurve:
    """Return the hit curves of rankings by descending score.

    Args:
        scores: (N,) any real dtype, no NaN.
        relevant: (N,) bool, or integers that are 0 or 1.
        segment: (N,) int64 in [0, segments_count), the ranking of each item; None for a single ranking.
        segments_count: S, number of rankings.
        lengths: (S,) items of each ranking, if available; the items may then be in any order.
        weight: (N,) non-negative weights.
        m: (S,) relevant items of each ranking, if there are more than were ranked.
        keep_all_groups: whether tie groups without a hit are entries too.
    """
    relevant = order.as_flags(relevant)
    simple = weight is None and not keep_all_groups and scores.is_cpu
    if segment is None and scores.is_cpu:
        if simple:
            return _count_ranking(scores, relevant, m)
        return _sort_ranking(scores, relevant, m, weight, keep_all_groups)
    if segment is None:
        segment = torch.zeros(1, dtype=torch.int64, device=scores.device).expand(len(scores))
    elif simple:
        return _from_segments_on_cpu(scores, relevant, segment, segments_count, lengths, m)
    offsets = segments.from_counts(segments.count(segment, segments_count) if lengths is None else lengths)
    return _from_packed_keys(scores, relevant, segment, offsets, m, weight, keep_all_groups)


def from_runs(scores: Tensor, relevant: Tensor, offsets: Tensor, *, m: Tensor | None = None) -> HitCurve:
    """Return the hit curves of concatenated rankings.

    Args:
        scores: (N,) any real dtype, no NaN.
        relevant: (N,) bool, or integers that are 0 or 1.
        offsets: (S + 1,) int64, the start and end of each ranking.
        m: (S,) relevant items of each ranking, if there are more than were ranked.
    """
    relevant, on_cpu = order.as_flags(relevant), scores.is_cpu
    if on_cpu and offsets.shape[0] == 2 and scores.shape[0] <= few_items.FEW_ITEMS:
        return _count_ranking(scores, relevant, m)
    curve = None
    if on_cpu:
        few = few_items.rankings(scores, relevant, offsets.numpy(), m)
        curve = few or many_rankings.from_runs(scores, relevant, offsets, m)
    if curve is None and on_cpu and scores.element_size() <= order.KEYED_BYTES:
        curve = many_rankings.from_any_order(scores, relevant, segments.ids(offsets), offsets.diff(), m)
    return curve or _from_packed_keys(scores, relevant, segments.ids(offsets), offsets, m)


def from_columns(
    scores: Tensor, relevant: Tensor, *, weight: Tensor | None = None, keep_all_groups: bool = False
) -> HitCurve:
    """Return the hit curves of a table with one ranking per column.

    Args:
        scores: (N, C) any real dtype, no NaN.
        relevant: (N, C) bool or 0/1 integers; or (N,) integer class ids, where column c counts class c as relevant.
        weight: (N,) or (N, C) non-negative weights.
        keep_all_groups: whether tie groups without a hit are entries too.
    """
    items, columns = scores.shape
    simple = weight is None and not keep_all_groups and scores.is_cpu
    if simple and columns and long_rankings.are_long(scores, relevant):
        return long_rankings.from_columns(scores, relevant)
    width = max(1, ITEMS_A_BLOCK // max(items, 1))
    weight = None if weight is None else arrays.expand_columns(weight, scores.shape[1:])
    blocks = []
    for first in range(0, max(columns, 1), width):
        block = order.as_rows(scores[:, first : first + width])
        across = torch.arange(first, first + len(block), device=scores.device)
        hits = order.as_rows(relevant[:, first : first + width]) if relevant.ndim == 2 else relevant == across[:, None]
        if simple:
            blocks.append(many_rankings.from_table(block, order.as_flags(hits)))
            continue
        curve = from_scores(
            block.flatten(),
            hits.flatten(),
            segment=(across - first).repeat_interleave(items),
            segments_count=len(block),
            weight=None if weight is None else weight[:, first : first + width].t().flatten(),
            keep_all_groups=keep_all_groups,
        )
        blocks.append(curve)
    return hit_curve.join(blocks)


def from_hits_and_misses(hits: Sequence[Any], misses: Sequence[Any], dtype: torch.dtype) -> HitCurve:
    """Return the hit curves of rankings from separate scores of hits and misses, which are sorted in place.

    Args:
        hits: native scores of the hits, one array per ranking; on CPU as :func:`order.sortable` returns them.
        misses: native scores of the misses, one array per ranking, likewise.
        dtype: the original dtype of the scores.
    """
    if isinstance(hits[0], Tensor):
        parts = [part for pair in zip(hits, misses, strict=True) for part in pair]
        lengths = torch.tensor([len(part) for part in parts], device=parts[0].device)
        kind = torch.arange(len(parts), device=parts[0].device).repeat_interleave(lengths)
        return from_scores(torch.cat(parts), kind % 2 == 0, segment=kind // 2, segments_count=len(hits))
    groups = [
        _count_groups([order.sort_in_place(hit), order.sort_in_place(miss)], hit)
        for hit, miss in zip(hits, misses, strict=True)
    ]
    n = np.array([len(hit) + len(miss) for hit, miss in zip(hits, misses, strict=True)], np.int64)
    return _assemble(groups, n, np.array([len(hit) for hit in hits], np.int64), dtype)


def _from_segments_on_cpu(
    scores: Tensor, relevant: Tensor, segment: Tensor, segments_count: int, lengths: Tensor | None, m: Tensor | None
) -> HitCurve:
    """Return the curves of rankings on CPU.

    Concatenated rankings are processed as rows. Other rankings are sorted by keys. Keys have no room for 64-bit scores,
    whose items are first put in the order of their rankings.
    """
    ascending = lengths is None and bool((segment[1:] >= segment[:-1]).all())
    lengths = segments.count(segment, segments_count) if lengths is None else lengths
    if 0 < len(scores) == len(lengths) and bool((lengths == 1).all()):
        return _from_single_items(scores, relevant, segment, m)
    if not ascending and scores.element_size() <= order.KEYED_BYTES:
        return many_rankings.from_any_order(scores, relevant, segment, lengths, m)
    if not ascending:
        places = order.stable_argsort(segment, max(segments_count, 1))
        scores, relevant = scores[places], relevant[places]
    return from_runs(scores, relevant, segments.from_counts(lengths), m=m)


def _from_single_items(scores: Tensor, relevant: Tensor, segment: Tensor, m: Tensor | None) -> HitCurve:
    """Return the curves of rankings of one item each, on CPU; ``segment`` has every ranking once."""
    flags = np.zeros(len(scores), bool)
    flags[segment.numpy()] = relevant.numpy()
    counts, hits = flags.astype(np.int64), np.count_nonzero(flags)
    ones, zeros = np.ones(hits, np.int64), np.zeros(hits, np.int64)

    def score() -> Tensor:
        """Return the scores of the hits in the order of the rankings."""
        return scores[torch.argsort(segment)][torch.from_numpy(flags)] + 0  # -0.0 becomes 0.0

    n, m_of_rankings = np.ones(len(flags), np.int64), counts if m is None else m.numpy()
    offsets = segments.from_counts(counts)
    above = (zeros, zeros.copy())
    return hit_curve.from_arrays(ones, ones.copy(), *above, score, offsets, n, m_of_rankings, untied=True)


def _from_packed_keys(
    scores: Tensor,
    relevant: Tensor,
    segment: Tensor,
    offsets: Tensor,
    m: Tensor | None,
    weight: Tensor | None = None,
    keep_all_groups: bool = False,
) -> HitCurve:
    """Return the curves of any rankings on any device, by one sort of all items."""
    group_keys, levels = tie_groups.group_keys(scores, segment)
    group_keys, relevant, last, weight = sort_items(group_keys, relevant, weight)
    curve = from_ordered(relevant, last, offsets, score=group_keys, weight=weight, m=m, keep_all_groups=keep_all_groups)
    assert curve.score is not None
    return replace(curve, score=tie_groups.scores_of_group_keys(curve.score, levels, scores.dtype))


def sort_items(
    group_keys: Tensor, relevant: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Sort items by their group keys.

    Returns:
        The ascending keys, and for each item in that order: whether it is relevant, whether it is the last of its tie
        group, and its weight as float64 or None.
    """
    if weight is None:
        packed = order.sort((group_keys << 1) | relevant)
        group_keys, relevant = packed >> 1, (packed & 1).bool()
    else:
        places = order.argsort(group_keys)
        group_keys, relevant, weight = group_keys[places], relevant[places], segments.as_float64(weight[places])
    last = torch.ones_like(relevant)
    torch.ne(group_keys[1:], group_keys[:-1], out=last[:-1])
    return group_keys, relevant, last, weight


def _count_ranking(scores: Tensor, relevant: Tensor, m: Tensor | None) -> HitCurve:
    """Return the curve of one ranking on CPU.

    Each thread sorts a chunk, and the chunks are not merged: counts from different chunks are added.
    """
    values, flags = order.sortable(scores).numpy(), relevant.numpy()
    threads = order.workers(len(values))
    is_short = m is None and 0 < len(values) <= few_items.FEW_ITEMS
    if is_short and (curve := few_items.ranking(values, flags)) is not None:
        return hit_curve.from_native(curve, lambda: _original_scores(np.unique(values[flags])[::-1], scores.dtype))
    n, hits = np.array([len(values)]), np.array([np.count_nonzero(flags)])
    many_hits = len(values) >= _PACKED_ITEMS and hits[0] >= len(values) * _PACKED_SHARE
    if many_hits and (packed := _packed_groups(values, flags, threads)) is not None:
        score = tie_groups.scores_from_keys(packed.key, scores.dtype)
        return tie_groups.curve_from_groups(packed, score, n, m)
    if threads == 1:
        groups = _count_groups([order.sort_in_place(values.copy())], order.sort_in_place(values[flags]))
    else:
        groups = _count_in_threads(values, flags, threads)
    return _assemble([groups], n, hits if m is None else m.numpy(), scores.dtype)


def _packed_groups(values: Array, flags: Array, threads: int) -> tie_groups.Groups | None:
    """Return the tie groups of one ranking by sorting hit keys; None if 32 bits do not suffice for them.

    Each thread sorts the keys of a range of scores. The ranges are chosen from a sample, and no tie group is divided.
    """
    keys = tie_groups.narrow_keys(values, flags)
    if keys is None:
        return None
    packed = keys.packed
    sample = order.sort_in_place(packed[:: max(1, len(packed) // (threads * _SAMPLED_A_THREAD))].copy())
    cuts = sample[[len(sample) * part // threads for part in range(1, threads)]] & ~np.uint32(1)

    def work(part: int) -> tuple[int, tie_groups.Groups]:
        own = packed
        if threads > 1:
            inside = packed >= cuts[part - 1] if part else packed < cuts[0]
            own = packed[inside & (packed < cuts[part]) if 0 < part < threads - 1 else inside]
        return len(own), tie_groups.groups_of_sorted_ranking(order.sort_in_place(own))

    sizes, parts = zip(*order.run_in_threads(work, range(threads), threads), strict=True)
    for start, part in zip(itertools.accumulate(sizes[:-1], initial=0), parts, strict=True):
        np.add(part.above, start, out=part.above)
        np.add(part.cumulative, start, out=part.cumulative)
    groups = tie_groups.join(parts)
    return groups._replace(key=keys.score_keys(groups.key), counts=groups.counts.sum(keepdims=True))


@arrays.quiet  # unchecked weights may be infinite or NaN
def _sort_ranking(
    scores: Tensor, relevant: Tensor, m: Tensor | None, weight: Tensor | None, keep_all_groups: bool
) -> HitCurve:
    """Return the curve of one ranking on CPU, with weights or with all tie groups."""
    values, flags = order.sortable(scores).numpy(), relevant.numpy()
    if weight is None:
        ascending, hit_scores = order.sort_in_place(values.copy()), order.sort_in_place(values[flags])
        score = ascending[segments.runs(ascending)[0]][::-1]
        sums = [len(x) - np.append(len(x), np.searchsorted(x, score)) for x in (hit_scores, ascending)]
    else:
        places = values.argsort()[::-1].copy()  # contiguous, for three accesses
        ordered, hit = values.take(places), flags.take(places)
        changed = np.ones(len(ordered) + 1, bool)
        np.not_equal(ordered[1:], ordered[:-1], out=changed[1:-1])
        bounds = changed.nonzero()[0]
        score = ordered.take(bounds[:-1])
        terms = segments.slices_of_one(segments.as_float64(weight.numpy().take(places)))
        sums = [
            segments.rounded_sum([segments.from_zero(x).take(bounds) for x in parts])
            for parts in ([np.where(hit, x, 0) for x in terms], terms)
        ]
    columns = [*(x[1:] - x[:-1] for x in sums), *(x[:-1] for x in sums), score]
    if not keep_all_groups:
        kept = (columns[0] > 0).nonzero()[0]
        columns = [x.take(kept) for x in columns]
    hits, items, hits_above, items_above, score = columns
    offsets, n, m_of_ranking = np.array([0, len(score)]), sums[1][-1:], sums[0][-1:] if m is None else m.numpy()
    original = partial(_original_scores, score, scores.dtype)
    return hit_curve.from_arrays(hits, items, hits_above, items_above, original, offsets, n, m_of_ranking)


def _count_in_threads(values: Array, flags: Array, threads: int) -> tuple[Array, ...]:
    """Return the tie groups of one ranking."""
    slices = order.slices(len(values), threads)
    with order.thread_pool(threads) as pool_map:
        hit_scores = np.concatenate(pool_map(lambda span: values[span][flags[span]], slices))
        chunks = pool_map(
            lambda span: order.sort_in_place(hit_scores if span is None else values[span].copy()), [*slices, None]
        )
        return _count_groups(chunks[:-1], hit_scores, pool_map, threads)


def _count_groups(
    chunks: Sequence[Array], hit_scores: Array, pool_map: Callable[..., Any] = map, threads: int = 1
) -> tuple[Array, ...]:
    """Return the tie groups that contain a hit, best first.

    Args:
        chunks: sorted arrays that together contain all scores.
        hit_scores: (H,) sorted scores of the hits.
        pool_map: runs a function over parts, on threads.
        threads: number of parts.

    Returns:
        hits, items, hits_above, items_above, score of each group.
    """
    changed = np.ones(len(hit_scores) + 1, bool)
    np.not_equal(hit_scores[1:], hit_scores[:-1], out=changed[1:-1])
    bounds = np.flatnonzero(changed) if len(hit_scores) else np.zeros(1, np.int64)
    ascending = hit_scores[bounds[:-1]]
    size, groups = sum(map(len, chunks)), len(ascending)
    hits, items, hits_above, items_above = (np.empty(groups, np.int64) for _ in range(4))
    score = np.empty_like(ascending)

    def fill(part: slice) -> None:
        """Write the groups ``part``, counted from the worst, to their places counted from the best."""
        place = slice(groups - part.stop, groups - part.start)
        ranges = [order.equal_range(chunk, ascending[part]) for chunk in chunks]
        below, at_or_below = ranges[0] if len(ranges) == 1 else (sum(side) for side in zip(*ranges, strict=True))
        start, end = bounds[:-1][part], bounds[1:][part]
        np.subtract(end, start, out=hits[place][::-1])
        np.subtract(len(hit_scores), end, out=hits_above[place][::-1])
        np.subtract(at_or_below, below, out=items[place][::-1])
        np.subtract(size, at_or_below, out=items_above[place][::-1])
        score[place] = ascending[part][::-1]

    list(pool_map(fill, order.slices(groups, threads)))
    return hits, items, hits_above, items_above, score


def _assemble(groups: Sequence[tuple[Array, ...]], n: Array, m: Array, dtype: torch.dtype) -> HitCurve:
    """Return the curves of all rankings from the groups of each ranking."""
    hits, items, hits_above, items_above, score = (
        column[0] if len(column) == 1 else np.concatenate(column) for column in zip(*groups, strict=True)
    )
    offsets = segments.from_counts(np.array([len(group[0]) for group in groups]))
    return hit_curve.from_arrays(hits, items, hits_above, items_above, _original_scores(score, dtype), offsets, n, m)


def _original_scores(sortable: Array, dtype: torch.dtype) -> Tensor:
    """Convert scores from the form of :func:`order.sortable` to their original dtype; -0.0 becomes 0.0."""
    values = torch.from_numpy(sortable + 0)
    return order.values(values, dtype) if dtype in (torch.float16, torch.bfloat16) else values
