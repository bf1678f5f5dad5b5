"""Scores and relevance to hit curves, by the fastest algorithm; all of them give the same curve.

| input | algorithm |
|---|---|
| one ranking or long columns, no weights, CPU | *count*: sort the values, search the distinct hit scores among them |
| many rankings, no weights, CPU | :mod:`torch_ap.ranking.many_rankings` |
| an accelerator, or rankings of very unequal length | *packed*: (ranking, reversed score, relevance) in one int64 |
| weights | *indexed*: (ranking, reversed score) in one int64, sorted with indices |
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import few_items, hit_curve, many_rankings, order, segments, tie_groups
from torch_ap.ranking.counting import from_ordered
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array

ITEMS_A_BLOCK = 1 << 24  # of columns that are transposed at once
_LONG_COLUMN, _LONG_WIDE_COLUMN = 1 << 16, 1 << 11  # of scores of 32 bits at most, and of more


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
    """The hit curves of rankings by descending score.

    Args:
        scores: (N,) any real dtype, no NaN.
        relevant: (N,) bool, or integers that are 0 or 1.
        segment: (N,) int64 in [0, segments_count), the ranking of each item; None: all belong to one.
        segments_count: S, number of rankings.
        lengths: (S,) items of each ranking, if that is known, and then their items may come in any order.
        weight: (N,) non-negative weights.
        m: (S,) relevant items of each ranking, where more are known than were ranked.
        keep_all_groups: keep tie groups without a hit as entries too.
    """
    relevant = order.as_flags(relevant)
    simple = weight is None and not keep_all_groups and scores.is_cpu
    if segment is None and simple:
        return _counted(scores, relevant, m)
    if segment is None:
        segment = torch.zeros(1, dtype=torch.int64, device=scores.device).expand(len(scores))
    elif simple:
        return _many_on_cpu(scores, relevant, segment, segments_count, lengths, m)
    offsets = segments.from_counts(segments.count(segment, segments_count) if lengths is None else lengths)
    return _packed(scores, relevant, segment, offsets, m, weight, keep_all_groups)


def from_runs(scores: Tensor, relevant: Tensor, offsets: Tensor, *, m: Tensor | None = None) -> HitCurve:
    """The hit curves of rankings that lie end to end.

    Args:
        scores: (N,) any real dtype, no NaN.
        relevant: (N,) bool, or integers that are 0 or 1.
        offsets: (S + 1,) int64, where each ranking begins and ends.
        m: (S,) relevant items of each ranking, where more are known than were ranked.
    """
    relevant, on_cpu = order.as_flags(relevant), scores.is_cpu
    if on_cpu and offsets.shape[0] == 2 and scores.shape[0] <= few_items.FEW_ITEMS:
        return _counted(scores, relevant, m)
    curve = many_rankings.from_runs(scores, relevant, offsets, m) if on_cpu else None
    if curve is None and on_cpu and scores.element_size() <= order.KEYED_BYTES:
        curve = many_rankings.from_any_order(scores, relevant, segments.ids(offsets), offsets.diff(), m)
    return curve or _packed(scores, relevant, segments.ids(offsets), offsets, m)


def from_columns(
    scores: Tensor, relevant: Tensor, *, weight: Tensor | None = None, keep_all_groups: bool = False
) -> HitCurve:
    """One ranking per column.

    Args:
        scores: (N, C) any real dtype, no NaN.
        relevant: (N, C) bool or 0/1 integers; or (N,) integer class ids, where column c counts class c as relevant.
        weight: (N,) or (N, C) non-negative weights.
        keep_all_groups: keep tie groups without a hit as entries too.
    """
    items, columns = scores.shape
    simple = weight is None and not keep_all_groups and scores.is_cpu
    if simple and items >= (_LONG_COLUMN if scores.element_size() <= order.KEYED_BYTES else _LONG_WIDE_COLUMN):
        return _counted_columns(scores, relevant)
    width = max(1, ITEMS_A_BLOCK // max(items, 1))
    blocks = []
    for first in range(0, max(columns, 1), width):
        block = order.as_rows(scores[:, first : first + width])
        across = torch.arange(first, first + len(block), device=scores.device)
        hits = order.as_rows(relevant[:, first : first + width]) if relevant.ndim == 2 else relevant == across[:, None]
        if simple:
            blocks.append(many_rankings.from_table(block, order.as_flags(hits)))
            continue
        weights = None
        if weight is not None:
            weights = (
                weight[:, first : first + width].t() if weight.ndim == 2 else weight.expand(len(block), -1)
            ).flatten()
        curve = from_scores(
            block.flatten(),
            hits.flatten(),
            segment=(across - first).repeat_interleave(items),
            segments_count=len(block),
            weight=weights,
            keep_all_groups=keep_all_groups,
        )
        blocks.append(curve)
    return hit_curve.join(blocks)


def from_hits_and_misses(hits: Sequence[Any], misses: Sequence[Any], dtype: torch.dtype) -> HitCurve:
    """The hit curves of rankings whose hits and misses lie apart, which are sorted in place.

    Args:
        hits, misses: native scores of the rankings, one array each; on CPU as :func:`order.sortable` makes them.
        dtype: of the scores as they were given.
    """
    if isinstance(hits[0], Tensor):
        parts = [part for pair in zip(hits, misses, strict=True) for part in pair]
        lengths = torch.tensor([len(part) for part in parts], device=parts[0].device)
        kind = torch.arange(len(parts), device=parts[0].device).repeat_interleave(lengths)
        return from_scores(torch.cat(parts), kind % 2 == 0, segment=kind // 2, segments_count=len(hits))
    groups = [
        _count_groups([order.sort_in_place(found), order.sort_in_place(other)], found)
        for found, other in zip(hits, misses, strict=True)
    ]
    n = np.array([len(found) + len(other) for found, other in zip(hits, misses, strict=True)], np.int64)
    return _assemble(groups, n, np.array([len(found) for found in hits], np.int64), dtype)


def _many_on_cpu(
    scores: Tensor, relevant: Tensor, segment: Tensor, segments_count: int, lengths: Tensor | None, m: Tensor | None
) -> HitCurve:
    """Rankings that lie end to end are rows; else keys, or for 64 bits, which leave a key no room, made rows first."""
    ascending = lengths is None and bool((segment[1:] >= segment[:-1]).all())
    lengths = segments.count(segment, segments_count) if lengths is None else lengths
    if not ascending and scores.element_size() <= order.KEYED_BYTES:
        return many_rankings.from_any_order(scores, relevant, segment, lengths, m)
    if not ascending:
        places = order.stable_argsort(segment, max(segments_count, 1))
        scores, relevant = scores[places], relevant[places]
    return from_runs(scores, relevant, segments.from_counts(lengths), m=m)


def _packed(
    scores: Tensor,
    relevant: Tensor,
    segment: Tensor,
    offsets: Tensor,
    m: Tensor | None,
    weight: Tensor | None = None,
    keep_all_groups: bool = False,
) -> HitCurve:
    """Any rankings on any device, by one sort of all items."""
    group_keys, levels = tie_groups.group_keys(scores, segment)
    group_keys, relevant, last, weight = in_order(group_keys, relevant, weight)
    curve = from_ordered(relevant, last, offsets, score=group_keys, weight=weight, m=m, keep_all_groups=keep_all_groups)
    assert curve.score is not None
    return replace(curve, score=tie_groups.scores_of_group_keys(curve.score, levels, scores.dtype))


def in_order(
    group_keys: Tensor, relevant: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The keys of items ascending; and of each in that order whether it is relevant, whether it is the last of its tie
    group, and its weight, float64.
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


def _counted(scores: Tensor, relevant: Tensor, m: Tensor | None) -> HitCurve:
    """One ranking on CPU. Chunks are sorted unmerged, one per thread: counts from them add up."""
    given, flags = order.sortable(scores).numpy(), relevant.numpy()
    threads = order.workers(len(given))
    few = m is None and 0 < len(given) <= few_items.FEW_ITEMS
    if few and (curve := few_items.ranking(given, flags)) is not None:
        return hit_curve.with_tensors(curve, lambda: _read(np.unique(given[flags])[::-1], scores.dtype))
    if threads == 1:
        ascending, hit_scores = order.sort_in_place(given.copy()), order.sort_in_place(given[flags])
        groups = _count_groups([ascending], hit_scores)
    else:
        groups, hit_scores = _count_in_threads(given, flags, threads)
    n, hits = np.array([len(given)]), np.array([len(hit_scores)])
    return _assemble([groups], n, hits if m is None else m.numpy(), scores.dtype)


def _count_in_threads(given: Array, flags: Array, threads: int) -> tuple[tuple[Array, ...], Array]:
    """The tie groups, and the sorted scores of the hits."""
    slices = order.slices(len(given), threads)
    with order.thread_pool(threads) as pool_map:
        hit_scores = np.concatenate(pool_map(lambda span: given[span][flags[span]], slices))
        chunks = pool_map(
            lambda span: order.sort_in_place(hit_scores if span is None else given[span].copy()), [*slices, None]
        )
        return _count_groups(chunks[:-1], hit_scores, pool_map, threads), hit_scores


def _counted_columns(scores: Tensor, relevant: Tensor) -> HitCurve:
    """Many long columns on CPU: blocks of them are transposed and counted, a block at a time in each thread."""
    given = order.sortable(scores)
    items, columns = given.shape
    by_class = torch.argsort(relevant, stable=True).numpy() if relevant.ndim == 1 else None
    starts = segments.from_counts(segments.count(relevant.long(), columns)).numpy() if relevant.ndim == 1 else None

    def block(first: int) -> list[tuple[Array, ...]]:
        last = min(first + order.COLUMNS_A_TASK, columns)
        across = order.as_rows(given[:, first:last]).numpy()  # which are sorted in place
        flags = None if by_class is not None else order.as_rows(relevant[:, first:last]).bool().numpy()
        groups = []
        for column in range(last - first):
            if flags is None:
                assert by_class is not None
                assert starts is not None
                hits = across[column][by_class[starts[first + column] : starts[first + column + 1]]]
            else:
                hits = across[column][flags[column]]
            groups.append(_count_groups([order.sort_in_place(across[column])], order.sort_in_place(hits)))
        return groups

    tasks = range(0, columns, order.COLUMNS_A_TASK)
    groups = [one for part in order.in_threads(block, tasks, order.workers(given.numel())) for one in part]
    m = np.array([int(group[0].sum()) for group in groups], np.int64)
    return _assemble(groups, np.full(columns, items, np.int64), m, scores.dtype)


def _count_groups(
    chunks: Sequence[Array], hit_scores: Array, pool_map: Callable[..., Any] = map, threads: int = 1
) -> tuple[Array, ...]:
    """The tie groups that hold a hit, best first.

    Args:
        chunks: sorted arrays that hold all scores between them.
        hit_scores: (H,) sorted scores of the hits.
        pool_map: runs a function over parts, on threads.
        threads: how many parts.

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
        """Write groups ``part``, counted from the worst, to their places counted from the best."""
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
    """The groups of each ranking, end to end."""
    hits, items, hits_above, items_above, score = (
        column[0] if len(column) == 1 else np.concatenate(column) for column in zip(*groups, strict=True)
    )
    offsets = segments.from_counts(np.array([len(group[0]) for group in groups]))
    return hit_curve.of_arrays(hits, items, hits_above, items_above, _read(score, dtype), offsets, n, m)


def _read(sorted_as: Array, dtype: torch.dtype) -> Tensor:
    """Scores as they were given, of what :func:`order.sortable` made of them; without the sign of -0.0."""
    given = torch.from_numpy(sorted_as + 0)
    return order.values(given, dtype) if dtype in (torch.float16, torch.bfloat16) else given
