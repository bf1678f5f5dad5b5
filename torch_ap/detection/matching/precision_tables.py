"""COCO's precision at recall levels for several area ranges, directly from matches.

All detections between two matched pairs of a category are misses, which reduce precision and do not change recall. So
the highest precision at a recall level or above occurs right after a matched pair. All thresholds share the same pairs,
and no threshold requires a curve of its own. A table has a cell for each level. First a cell is the highest precision
of the pairs whose recall reaches this level but not the next; then a running maximum is taken from the last level down.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, cached
from torch_ap.core.base.arrays import native
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.order import Array
from torch_ap.detection.matching.matched import Matches

SPACING = 2.0**-52  # COCO's numpy.spacing(1); avoids 0 / 0, and changes the last bit of the first precision

_FEW_PAIRS, _FEW_CATEGORIES = 256, 64  # up to here numpy's calls take more time than the numbers
_FEW_RANKINGS = 16  # up to here one pass along the levels takes less time than a pass over each level
_COUNTS_A_CHUNK = {"cpu": 1 << 15}  # counts of this size stay in a processor's cache
_COUNTS_A_CHUNK_ON_DEVICE = 1 << 24


class PrecisionTable(NamedTuple):
    """The table of one area range, for the K' categories with ground truths in it.

    Attributes:
        precision: (T, R, K') float64, the highest tp / (fp + tp + 2^-52) at any recall of at least the level, 0 after
            the last hit.
        recall: (T, K') float64, of all detections.
        scores: (T, R, K') float64, the score of the first pair that reaches a level, -inf without one; only on request.
    """

    precision: Tensor
    recall: Tensor
    scores: Tensor | None = None


class _Pairs(NamedTuple):
    """The X pairs that change a count in an area range, by area range, category and place.

    Attributes:
        added: (T, 2, X) int8, the change of the true positives and of the counted detections at each threshold.
        counted: (X,) int32, the counted detections of the category up to the pair, if none of them were matched.
        ranking: (X,) int64, the ranking in [0, S): one for each area range and category with ground truths.
        score: (X,) float64, the score of the detection.
    """

    added: Tensor
    counted: Tensor
    ranking: Tensor
    score: Tensor


def precision_tables(
    matches: Matches, levels: tuple[float, ...], areas: Sequence[int], *, scores: bool = False
) -> list[PrecisionTable]:
    """Return the tables of area ranges.

    Args:
        matches: the matches of all criteria.
        levels: R recall levels, in any order.
        areas: the indices of the area ranges.
        scores: whether the tables contain scores.
    """
    relevant = native(matches.relevant)[list(areas)]
    present, (ordered, places) = relevant > 0, _ascending(levels, matches.at.device)
    if not scores and _are_few(matches):
        table, hits = _fill_few(matches, areas, relevant, ordered.numpy())
        tables = [table]
    else:
        pairs, m = _pairs(matches, areas, present), arrays.tensor(relevant[present])
        shape = len(pairs.added), len(levels) + 1, len(m)
        tables = [ordered.new_zeros(shape), *([ordered.new_full(shape, -torch.inf)] if scores else [])]
        hits = _fill(tables, pairs, m, ordered)
        for table in tables:
            _raise_to_later_levels(table)
    size, columns = present.sum(1).tolist(), []
    for table in tables:
        kept = table[:, 1:] if places is None else table.index_select(1, places + 1)
        columns.append(kept.split_with_sizes(size, 2))
    recall = arrays.tensor(segments.as_float64(native(hits)) / segments.as_float64(relevant[present]))
    columns.insert(1, recall.split_with_sizes(size, 1))
    return [PrecisionTable(*parts) for parts in zip(*columns, strict=True)]


@cached.settings_cache
def _ascending(levels: tuple[float, ...], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Return the (R,) levels in ascending order, and the place of each level; None for ascending levels."""
    values = segments.constants(levels, device)
    ordered, indices = values.sort()
    return ordered, None if torch.equal(ordered, values) else indices.argsort()


def _are_few(matches: Matches) -> bool:
    """Whether one pass over all criteria takes less time than a pass over each area range."""
    few = matches.at.shape[0] <= _FEW_PAIRS and matches.categories <= _FEW_CATEGORIES
    return few and matches.at.is_cpu and matches.criteria.word_count == 1


@arrays.quiet
def _fill_few(matches: Matches, areas: Sequence[int], m: Array, levels: Array) -> tuple[Tensor, Tensor]:
    """Return the table and the hits of :func:`_fill` from all area ranges at once, with the values of later levels.

    A cell of a level is the highest precision of the first pair that reaches the level, and of later pairs. So the
    number of levels that a pair reaches first is the number of copies of its value.

    Args:
        matches: the matches of all criteria, on CPU, in one word.
        areas: the indices of the A' area ranges.
        m: (A', K) ground truths.
        levels: (R,) recall levels, ascending.

    Returns:
        (T, R + 1, S) float64, the first row undefined, and (T, S) int32.
    """
    category, at, bits = matches.ranked.category.numpy(), matches.at.numpy(), matches.criteria.word_bits(areas)
    inside, owner = matches.inside.numpy()[areas], category.take(at)
    hit, match = ((words.numpy() & bits) != 0 for words in (matches.true_positive, matches.matched))  # (T, A', E)
    running, first = segments.running_counts(inside), category.searchsorted(owner)
    counted = running.take(at + 1, 1) - running.take(first, 1)
    change = hit.view(np.int8) - (match & inside.take(at, 1)).view(np.int8)
    kinds = np.arange(matches.categories + 1)
    edges, totals = owner.searchsorted(kinds), segments.running_counts(hit)
    hits, changes = (x[..., 1:] - x.take(edges.take(owner), -1) for x in (totals, segments.running_counts(change)))
    precision = hits / (changes + counted + SPACING)
    for low, high in itertools.pairwise(edges.tolist()):
        if high - low > 1:
            later_first = precision[..., high - 1 : low - 1 if low else None : -1]
            np.maximum.accumulate(later_first, -1, out=later_first)
    after_pairs = edges[1:] + kinds[:-1]  # each category has one more value, 0 for the levels that no pair reaches
    values, ends = (np.zeros((*hit.shape[:2], len(owner) + len(after_pairs)), x) for x in (np.float64, np.int64))
    of_pairs = np.arange(len(owner)) + owner
    values[..., of_pairs] = precision
    ends[..., of_pairs] = levels.searchsorted(hits / m.take(owner, 1), "right") + owner * len(levels)
    ends[..., after_pairs] = kinds[1:] * len(levels)
    ends[..., 1:] -= ends[..., :-1].copy()
    copies = values.reshape(-1).repeat(ends.reshape(-1)).reshape(len(hit), -1, len(levels))
    chosen = arrays.true_indices(m.reshape(-1) > 0)
    table = np.empty((len(hit), len(levels) + 1, len(chosen)))
    table[:, 1:] = copies.take(chosen, 1).swapaxes(1, 2)
    ends_of_totals = totals.take(edges, -1)
    all_hits = (ends_of_totals[..., 1:] - ends_of_totals[..., :-1]).reshape(len(hit), -1).take(chosen, 1)
    return torch.from_numpy(table), torch.from_numpy(all_hits)


def _raise_to_later_levels(table: Tensor) -> None:
    """Replace each value of (T, R + 1, S) by the highest one of its level and all later levels."""
    descending = native(table).swapaxes(0, 1)[1:]
    xp = arrays.namespace(descending)
    if table.shape[2] <= _FEW_RANKINGS and xp is np:
        np.maximum.accumulate(descending[::-1], 0, out=descending[::-1])
    else:
        for above, level in itertools.pairwise(list(descending)[::-1]):
            xp.maximum(level, above, out=level)


def _fill(tables: Sequence[Tensor], pairs: _Pairs, m: Tensor, levels: Tensor) -> Tensor:
    """Fill tables with the highest values for each number of reached levels.

    Args:
        tables: (T, R + 1, S) for precision, and optionally for scores.
        pairs: the pairs.
        m: (S,) the ground truths of each ranking.
        levels: (R,) recall levels, ascending.

    Returns:
        The (T, S) hits.
    """
    table, out = tables[0], list[Tensor]()
    size = segments.count(pairs.ranking, len(m))
    offsets, size = segments.from_counts(size), native(size)
    first, cells = _cells(m, levels)
    own, counted = native(first.index_select(0, pairs.ranking)), native(pairs.counted)
    step = max(1, _COUNTS_A_CHUNK.get(table.device.type, _COUNTS_A_CHUNK_ON_DEVICE) // max(1, len(pairs.ranking)))
    for part, added in zip(torch.split(table, step), torch.split(pairs.added, step), strict=True):
        running = segments.running_counts(added)
        ends = running.index_select(2, offsets)
        counts = native(running)[..., 1:] - arrays.repeat(native(ends[..., :-1]), size)
        hits, change = counts[:, 0], counts[:, 1]
        precision = hits / (segments.as_float64(change + counted) + SPACING)
        at = arrays.take(native(cells), hits + own)
        at += native(torch.arange(len(part), device=table.device)[:, None] * part[0].numel())
        arrays.raise_to(native(part.view(-1)), at.reshape(-1), precision.reshape(-1))
        for scores in tables[1:]:
            rows = scores[len(out) * step : len(out) * step + len(part)]
            arrays.raise_to(native(rows.view(-1)), at.reshape(-1), native(pairs.score.repeat(len(part))))
        out.append(ends[:, 0].diff())
    return torch.cat(out)


def _cells(m: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the table cells of S rankings with 0, 1, ..., m hits.

    Returns:
        (S,) the index of the cell of each ranking with 0 hits; and the cells, levels reached * S + ranking.
    """
    offsets = segments.from_zero(m + 1)
    ranking = segments.ids(offsets)
    hits = torch.arange(len(ranking), device=m.device).sub_(segments.repeat(offsets[:-1], m + 1))
    recall = native(segments.as_float64(hits) / segments.repeat(segments.as_float64(m), m + 1))
    reached = arrays.tensor(arrays.namespace(recall).searchsorted(native(levels), recall, side="right"))
    return offsets[:-1], reached.mul_(len(m)).add_(ranking)


def _pairs(matches: Matches, areas: Sequence[int], present: Any) -> _Pairs:
    """Return the pairs of area ranges; native ``present`` (A', K) flags the categories with ground truths."""
    ranked_category, at = native(matches.ranked.category), native(matches.at)
    matched, true_positive = native(matches.matched), native(matches.true_positive)
    category = arrays.take(ranked_category, at)
    first = arrays.below(ranked_category, arrays.arange_like(matches.categories, category))
    xp, columns = arrays.namespace(at), []
    number = (present.reshape(-1).cumsum(0) - 1).reshape(present.shape)
    for area, here, ranking in zip(areas, present, number, strict=True):
        inside = native(matches.inside)[area]
        counting = matched * arrays.take(inside, at)
        kept = arrays.true_indices(
            matches.criteria.has_range(counting | true_positive, area) & arrays.take(here, category)
        )
        hit, match = (
            native(matches.criteria.range_flags(arrays.tensor(arrays.take(words, kept)), area)).view(xp.int8)
            for words in (true_positive, counting)
        )
        kind = arrays.take(category, kept)
        running = segments.running_counts(inside)
        counted = arrays.take(running, arrays.take(at, kept) + 1) - arrays.take(arrays.take(running, first), kind)
        score = arrays.take(native(segments.as_float64(matches.ranked.score)), arrays.take(at, kept))
        columns.append((xp.stack([hit, hit - match], 1), counted, arrays.take(ranking, kind), score))
    return _Pairs(*(arrays.tensor(xp.concatenate(x, -1)) for x in zip(*columns, strict=True)))
