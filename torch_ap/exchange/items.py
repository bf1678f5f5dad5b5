"""Items of which each rank has some: the hit curves of all, or the part of them that a rank makes.

Where hits are few, all ranks get the scores of all of them, and add up how many of their misses lie above each. Else
items are sent to the ranks by ranges of their scores. Each rank sorts its hits and its misses. Evenly spaced ones,
weighted by how many they stand for, give the same splitters on all ranks; the scores between two splitters go to one
rank, the highest to the first. What ties with a splitter is counted where it lies, so that no score, however frequent,
makes a rank hold more than others.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.exchange.parts import RankParts
from torch_ap.exchange.ranks import Ranks, Route
from torch_ap.inputs.classification import Batch, counted
from torch_ap.ranking import builders, order, segments, tie_groups
from torch_ap.ranking.counting import from_ordered
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.runtime import arrays, memory

_MOST_SAMPLES, _FEWEST_SAMPLES, _SAMPLES = 256, 8, 1 << 16  # of a ranking on each rank, and of all rankings


_FEW_HITS = 0.125  # of all ranks, as if each had as many as that with most, in items of a rank


class Scores(NamedTuple):
    """The scores of C rankings that one rank has: native, and as their library sorts them.

    Attributes:
        hits, misses: C of them each.
    """

    hits: list[Any]
    misses: list[Any]


def part_of_curve(ranks: Ranks, batch: Batch) -> HitCurve:
    """The hit curves of the items of all ranks; or this rank's part, which is that of a range of scores.

    Args:
        ranks: each calls it with its own items.
        batch: one ranking or one per column; scores of one dtype on all ranks, and weights on all or on none.
    """
    rankings, dtype = ranks.attempt(_hits_and_misses, batch), batch.scores.dtype
    lengths = ranks.gather(torch.tensor([[len(x) for x in kind] for kind in rankings]))
    if batch.weights is not None:
        rankings = ranks.attempt(_sorted, rankings)
        return _part_of_weighted(ranks, batch, _splitters(ranks, rankings, lengths))
    del batch  # so that what is sent takes the room of what was held
    most = int(lengths[:, 0].sum(1).max())
    if most * ranks.size**2 <= _FEW_HITS * int(lengths.sum()):
        return _curve_of_few_hits(ranks, rankings, lengths, dtype)
    rankings = ranks.attempt(_sorted, rankings)
    splitters = _splitters(ranks, rankings, lengths)
    found, tied = _exchanged(ranks, rankings, splitters)
    curve = ranks.attempt(builders.from_hits_and_misses, *found, dtype)
    return _with_others(ranks, curve, tied)


def _hits_and_misses(batch: Batch) -> Scores:
    scores, target = batch.scores, batch.target
    classes = scores.ndim > target.ndim
    if classes and not bool((kept := counted(target)).all()):
        scores, target = scores[kept], target[kept]
    scores = order.sortable(scores) if scores.is_cpu else scores
    scores = scores if scores.ndim == 2 else scores[:, None]
    target = target[:, None] if target.ndim == 1 and not classes else target

    def block(first: int) -> Scores:
        across = arrays.native(order.as_rows(scores[:, first : first + order.COLUMNS_A_TASK]))
        found = Scores([], [])
        for column, values in enumerate(across, first):
            hits = arrays.native(target) == column if classes else arrays.native(target[:, column]) == 1
            misses = ~hits if classes else arrays.native(target[:, column]) == 0
            found.hits.append(values[hits])
            found.misses.append(values[misses])
        return found

    tasks = range(0, max(scores.shape[1], 1), order.COLUMNS_A_TASK)
    parts = order.in_threads(block, tasks, order.workers(scores.numel()) if scores.is_cpu else 1)
    return Scores([x for part in parts for x in part.hits], [x for part in parts for x in part.misses])


def _curve_of_few_hits(ranks: Ranks, rankings: Scores, lengths: Tensor, dtype: torch.dtype) -> HitCurve:
    """The whole curves, on every rank: of the hits of all, and of misses by their counts.

    Args:
        ranks: of all items.
        rankings: of this rank.
        lengths: (W, 2, C) how many hits and misses each rank has.
        dtype: of the scores as they were given.
    """
    hits = torch.cat(ranks.gather_unequal(torch.cat([arrays.tensor(x) for x in rankings.hits])))
    rankings.hits[:] = _by_column(arrays.native(hits), lengths[:, 0].tolist())
    here = ranks.attempt(builders.from_hits_and_misses, *rankings, dtype)
    rankings.misses.clear()
    tied, above = ranks.sum(torch.stack([here.items - here.hits, here.items_above - here.hits_above]))
    n, m = lengths.sum((0, 1)), lengths[:, 0].sum(0)
    return replace(here, items=here.hits + tied, items_above=here.hits_above + above, score=None, n=n, m=m)


def _sorted(rankings: Scores) -> Scores:
    """The scores of each ranking ascending."""
    size = sum(len(x) for kind in rankings for x in kind)
    threads = order.workers(size) if not isinstance(rankings.hits[0], Tensor) else 1
    return Scores(*(list(order.in_threads(_ascending, kind, threads)) for kind in rankings))


def _ascending(values: Tensor) -> Tensor:
    return values.sort().values if isinstance(values, Tensor) else order.sort_in_place(values)


def _splitters(ranks: Ranks, rankings: Scores, lengths: Tensor) -> Tensor:
    """(C, W - 1) scores, ascending, that part those of each ranking into W ranges of about equally many."""
    columns = len(rankings.hits)
    size = max(_FEWEST_SAMPLES, min(_MOST_SAMPLES, _SAMPLES // columns))
    both = [*rankings.hits, *rankings.misses]
    samples = ranks.gather(torch.stack([_spaced(x, size) for x in map(arrays.tensor, both)]))
    samples = samples.reshape(-1, columns, size).transpose(0, 1)
    lengths = segments.as_float64(lengths.reshape(-1, columns).transpose(0, 1))
    ordered, places = samples.flatten(1).sort(1)
    stands_for = lengths.repeat_interleave(size, 1).gather(1, places).cumsum(1)
    shares = torch.arange(1, ranks.size, dtype=torch.float64, device=ordered.device) / ranks.size
    wanted = torch.searchsorted(stands_for, stands_for[:, -1:] * shares)
    return ordered.gather(1, wanted.clamp(max=ordered.shape[1] - 1))


def _spaced(values: Tensor, size: int) -> Tensor:
    """So many of the values, evenly spaced; zeros where there are none."""
    if not len(values):
        return values.new_zeros(size)
    return values[(torch.arange(1, 2 * size, 2, device=values.device) * len(values)) // (2 * size)]


def _exchanged(ranks: Ranks, rankings: Scores, splitters: Tensor) -> tuple[Scores, Tensor]:
    """The scores of this rank's range, unsorted; and (2, C, W - 1) hits and misses of all ranks at each splitter."""
    edges = arrays.native(splitters)
    places = torch.stack([torch.stack([_cuts(*x) for x in zip(kind, edges, strict=True)]) for kind in rankings])
    counts = (places[:, :, 1] - places[:, :, 0]).flip(2)  # of the highest range first
    tied = ranks.sum(places[:, :, 0, 1:] - places[:, :, 1, :-1])
    coming = ranks.swap(counts.permute(2, 0, 1))
    spans = places.flip(3).tolist()
    found = []
    for kind, scores in enumerate(rankings):
        pieces = [
            values[start:end]
            for rank in range(ranks.size)
            for values, (starts, ends) in zip(scores, spans[kind], strict=True)
            for start, end in [(starts[rank], ends[rank])]
        ]
        sent = arrays.tensor(arrays.namespace(pieces[0]).concatenate(pieces))
        scores.clear()
        del pieces
        received = ranks.send(sent, counts[kind].sum(0).tolist(), coming[:, kind].sum(1).tolist())
        del sent
        found.append(_by_column(arrays.native(received), coming[:, kind].tolist()))
    return Scores(*found), tied


def _cuts(values: Any, edges: Any) -> Tensor:
    """(2, W) where the values between two edges begin and end: those at an edge lie between ranges."""
    xp = arrays.namespace(values)
    first, last = (arrays.tensor(xp.searchsorted(values, edges, side=side)) for side in ("left", "right"))
    first[1:] = torch.maximum(first[1:], last[:-1])  # edges that are equal
    ends = first.new_tensor([0, len(values)])
    return torch.stack([torch.cat([ends[:1], last]), torch.cat([first, ends[1:]])])


def _by_column(received: Any, coming: list[list[int]]) -> list[Any]:
    """The values of each column, of (W, C) runs of so many values."""
    lengths = torch.tensor(coming).flatten()
    bounds = segments.from_zero(lengths).tolist()
    runs = [received[start:end] for start, end in pairwise(bounds)]
    columns = len(coming[0])
    if columns == 1:
        return [received]
    return [arrays.namespace(received).concatenate(runs[column::columns]) for column in range(columns)]


def _with_others(ranks: Ranks, curve: HitCurve, tied: Tensor) -> HitCurve:
    """The part with what the others say: counts above it, those of whole rankings, and the ties with its lowest edge.

    Args:
        ranks: of all parts.
        curve: of the scores strictly between two splitters.
        tied: (2, C, W - 1) hits and misses of all ranks at each splitter, in ascending order.
    """
    below = torch.nn.functional.pad(tied, (1, 0))[:, :, ranks.size - 1 - ranks.rank]
    hits, items = below[0], below.sum(0)
    everywhere = ranks.gather(torch.stack([curve.m + hits, curve.n + items]))
    above, whole = everywhere[: ranks.rank].sum(0), everywhere.sum(0)
    local = replace(
        curve,
        hits_above=curve.hits_above + segments.repeat(above[0], curve.offsets.diff()),
        items_above=curve.items_above + segments.repeat(above[1], curve.offsets.diff()),
    )
    added = (hits > 0).nonzero().squeeze(1)
    places = torch.argsort(torch.cat([curve.segment, added]), stable=True)
    ties = {"hits": hits, "items": items, "hits_above": above[0] + curve.m, "items_above": above[1] + curve.n}
    counts: dict[str, Any] = {name: torch.cat([getattr(local, name), x[added]])[places] for name, x in ties.items()}
    return HitCurve(
        **counts,
        score=None,
        offsets=segments.from_counts(curve.offsets.diff() + (hits > 0)),
        n=whole[1],
        m=whole[0],
        parts=RankParts(ranks),
    )


def _part_of_weighted(ranks: Ranks, batch: Batch, splitters: Tensor) -> HitCurve:
    """The same of weighted items, each of which travels with its weight; those of one score to one rank."""
    destination, *sent = ranks.attempt(_flat, batch, splitters)
    route = Route(ranks, ranks.size - 1 - destination)
    scores, kind, weight = (route.send(x) for x in sent)
    keys = ranks.attempt(tie_groups.group_keys, scores, kind // 2)[0]
    _, relevant, last, ordered = ranks.attempt(builders.in_order, keys, kind % 2 == 1, weight)
    offsets = segments.from_counts(segments.count(kind // 2, len(splitters)))
    return from_ordered(relevant, last, offsets, weight=ordered, parts=RankParts(ranks))


def _flat(batch: Batch, splitters: Tensor) -> tuple[Tensor, ...]:
    """Of each score that counts the range that it lies in; the score; 2 c + 1 for a hit of column c, 2 c for a miss;
    and its weight.
    """
    scores, target, weights = batch.scores, batch.target, batch.weights
    assert weights is not None
    across = (scores if scores.ndim == 2 else scores[:, None]).t().contiguous()
    sortable = order.sortable(across) if across.is_cpu else across
    ranges = torch.searchsorted(splitters, sortable, right=True)
    column = torch.arange(len(across), device=scores.device)[:, None]
    hits = target == column if scores.ndim > target.ndim else target.t() == 1
    kind = 2 * column + hits
    weight = memory.spread(segments.as_float64(weights), scores.shape[1:]).t()
    kept = (counted(target).t() if target.ndim else counted(target)).expand(across.shape)
    return tuple(x.expand(across.shape)[kept] for x in (ranges, across, kind, weight))
