"""COCO's precision at recall levels, in several area ranges at once, straight from matches.

Between two matched pairs of a category only misses lie, which lower precision and leave recall as it is. So the highest
precision at some recall or beyond is that right after some pair, whichever criteria match it, and all thresholds share
the same pairs: none needs curves of its own. A table has a cell for each level; it takes the highest precision of the
pairs whose recall reaches this level and not the next, and then, from the last level down, that of those above.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from torch_ap.matching.matched import Matches
from torch_ap.ranking import segments
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

SPACING = 2.0**-52  # COCO's numpy.spacing(1), which keeps 0 / 0 away and moves the very first precision by one bit

_COUNTS_A_CHUNK = {"cpu": 1 << 15}  # which stay in a processor's cache from step to step
_COUNTS_A_CHUNK_ON_DEVICE = 1 << 24


class PrecisionTable(NamedTuple):
    """One area range, of the K' categories that have ground truths in it, in their order.

    Attributes:
        precision: (T, R, K') float64, the highest of tp / (fp + tp + 2^-52) at any recall of at least the level, 0 past
            the last hit.
        hits: (T, K') int32, true positives.
    """

    precision: Tensor
    hits: Tensor


class _Pairs(NamedTuple):
    """The X pairs that change a count in some of the area ranges, in order of area range, category and place.

    Attributes:
        added: (T, 2, X) int8, what it adds at each threshold to true positives, and to detections that count.
        counted: (X,) int32, the detections of its category that count down to it, were none of them matched.
        ranking: (X,) int64, which of the S rankings: the categories that have ground truths, of all area ranges.
    """

    added: Tensor
    counted: Tensor
    ranking: Tensor


def precision_tables(matches: Matches, levels: Tensor, areas: Sequence[int]) -> list[PrecisionTable]:
    """The tables of some area ranges.

    Args:
        matches: of all criteria.
        levels: (R,) recall levels, in any order.
        areas: which area ranges.
    """
    relevant = matches.relevant[list(areas)]
    present, (ordered, places) = relevant > 0, levels.sort()
    pairs, m = _pairs(matches, areas, present), relevant[present]
    table = levels.new_zeros((len(pairs.added), len(levels) + 1, len(m)))
    hits = _fill(table, pairs, m, ordered)
    xp, cells = arrays.namespace(native(table)), list(native(table.transpose(0, 1)))
    for above, level in itertools.pairwise(cells[:0:-1]):
        xp.maximum(level, above, out=level)
    precision = table[:, 1:] if torch.equal(ordered, levels) else table.index_select(1, places.argsort() + 1)
    size = present.sum(1).tolist()
    parts = zip(torch.split(precision, size, 2), torch.split(hits, size, 1), strict=True)
    return [PrecisionTable(x, y) for x, y in parts]


def _fill(table: Tensor, pairs: _Pairs, m: Tensor, levels: Tensor) -> Tensor:
    """Write the highest precision of each number of levels reached into (T, R + 1, S); and give (T, S) hits."""
    size = segments.count(pairs.ranking, len(m))
    offsets, size = segments.from_counts(size), native(size)
    first, cells = _cells(m, levels)
    own, counted, out = native(first.index_select(0, pairs.ranking)), native(pairs.counted), []
    step = max(1, _COUNTS_A_CHUNK.get(table.device.type, _COUNTS_A_CHUNK_ON_DEVICE) // max(1, len(pairs.ranking)))
    for part, added in zip(torch.split(table, step), torch.split(pairs.added, step), strict=True):
        running = segments.running_counts(added)
        ends = running.index_select(2, offsets)
        counts = native(running)[..., 1:] - arrays.repeat(native(ends[..., :-1]), size)
        hits, more = counts[:, 0], counts[:, 1]
        precision = hits / (segments.as_float64(more + counted) + SPACING)
        at = arrays.take(native(cells), hits + own)
        at += native(torch.arange(len(part), device=table.device)[:, None] * part[0].numel())
        arrays.raise_to(native(part.view(-1)), at.reshape(-1), precision.reshape(-1))
        out.append(ends[:, 0].diff())
    return torch.cat(out)


def _cells(m: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
    """Of S rankings, (S,) where those with 0, 1, ..., m hits begin; and of these levels reached * S + ranking."""
    offsets = segments.from_zero(m + 1)
    ranking = segments.ids(offsets)
    hits = torch.arange(len(ranking), device=m.device).sub_(segments.repeat(offsets[:-1], m + 1))
    recall = native(segments.as_float64(hits) / segments.repeat(segments.as_float64(m), m + 1))
    reached = arrays.tensor(arrays.namespace(recall).searchsorted(native(levels), recall, side="right"))
    return offsets[:-1], reached.mul_(len(m)).add_(ranking)


def _pairs(matches: Matches, areas: Sequence[int], present: Tensor) -> _Pairs:
    """Of area ranges, from (A', K) bool, which categories have ground truths in each."""
    category = matches.ranked.category.index_select(0, matches.at)
    first = torch.searchsorted(matches.ranked.category, torch.arange(matches.categories, device=category.device))
    number, columns = (present.view(-1).cumsum(0) - 1).view(present.shape), []
    for area, here, ranking in zip(areas, present, number, strict=True):
        inside = matches.inside[area]
        words = matches.matched * inside.index_select(0, matches.at), matches.true_positive
        kept = arrays.places(
            matches.criteria.some_of_range(words[0] | words[1], area) & native(here.index_select(0, category))
        )
        hit, found = (matches.criteria.of_range(arrays.tensor(arrays.take(native(x), kept)), area) for x in words[::-1])
        at, kind = (x.index_select(0, arrays.tensor(kept)) for x in (matches.at, category))
        running = segments.running_counts(inside)
        counted = running.index_select(0, at + 1) - running.index_select(0, first).index_select(0, kind)
        hit = hit.view(torch.int8)
        columns.append((torch.stack([hit, hit - found.view(torch.int8)], 1), counted, ranking.index_select(0, kind)))
    return _Pairs(*(torch.cat(x, -1) for x in zip(*columns, strict=True)))
