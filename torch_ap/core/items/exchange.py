"""Exchange of items: the hit curves of all processes, or each process's part of them.

With few hits, every process receives the scores of all hits, and the numbers of misses above each hit are summed.
Otherwise items are sent to processes by ranges of scores. Each process sorts its hits and its misses. Evenly spaced
samples, weighted by the number of items that they represent, give the same splitters on all processes. The scores
between two splitters are sent to one process, the highest to the first. Ties with a splitter are only counted, so that
a frequent score does not increase the share of a process.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.items.inputs import Batch, counted_items
from torch_ap.core.metric.exchange import RankParts, Ranks, Route
from torch_ap.core.ranking import builders, order, segments, tie_groups
from torch_ap.core.ranking.builders import from_ordered
from torch_ap.core.ranking.hit_curve import HitCurve

_MOST_SAMPLES, _FEWEST_SAMPLES, _SAMPLES = 256, 8, 1 << 16  # per ranking and process, and of all rankings
_FEW_HITS = 0.125  # processes times the largest number of hits of a process, as a share of a process's items


class Scores(NamedTuple):
    """Local scores of C rankings, as arrays on CPU, else tensors.

    Attributes:
        hits: C arrays of scores of hits.
        misses: C arrays of scores of misses.
    """

    hits: list[Any]
    misses: list[Any]


def curve_part(ranks: Ranks, batch: Batch) -> HitCurve:
    """Return the hit curves of the items of all processes, or this process's part of them, a range of scores.

    Args:
        ranks: the processes; each calls this function with its own items.
        batch: one ranking, or one per column; scores of one dtype on all processes, and weights on all or on none.
    """
    rankings, dtype = ranks.attempt(_hits_and_misses, batch), batch.scores.dtype
    lengths = ranks.gather(torch.tensor([[len(x) for x in kind] for kind in rankings]))
    if batch.weights is not None:
        rankings = ranks.attempt(_sort, rankings)
        return _weighted_curve_part(ranks, batch, _splitters(ranks, rankings, lengths))
    del batch  # frees memory for the scores to send
    most = int(lengths[:, 0].sum(1).max())
    if most * ranks.size**2 <= _FEW_HITS * int(lengths.sum()):
        return _curve_of_few_hits(ranks, rankings, lengths, dtype)
    rankings = ranks.attempt(_sort, rankings)
    splitters = _splitters(ranks, rankings, lengths)
    received, tied = _exchange(ranks, rankings, splitters)
    curve = ranks.attempt(builders.from_hits_and_misses, *received, dtype)
    return _add_other_parts(ranks, curve, tied)


def _hits_and_misses(batch: Batch) -> Scores:
    scores, target = batch.scores, batch.target
    classes = scores.ndim > target.ndim
    if classes and not bool((kept := counted_items(target)).all()):
        scores, target = scores[kept], target[kept]
    scores = order.sortable(scores) if scores.is_cpu else scores
    scores = scores if scores.ndim == 2 else scores[:, None]
    target = target[:, None] if target.ndim == 1 and not classes else target

    def block(first: int) -> Scores:
        across = arrays.native(order.as_rows(scores[:, first : first + order.COLUMNS_A_TASK]))
        scores_of_block = Scores([], [])
        for column, values in enumerate(across, first):
            hits = arrays.native(target) == column if classes else arrays.native(target[:, column]) == 1
            misses = ~hits if classes else arrays.native(target[:, column]) == 0
            scores_of_block.hits.append(values[hits])
            scores_of_block.misses.append(values[misses])
        return scores_of_block

    tasks = range(0, max(scores.shape[1], 1), order.COLUMNS_A_TASK)
    parts = order.run_in_threads(block, tasks, order.workers(scores.numel()) if scores.is_cpu else 1)
    return Scores([x for part in parts for x in part.hits], [x for part in parts for x in part.misses])


def _curve_of_few_hits(ranks: Ranks, rankings: Scores, lengths: Tensor, dtype: torch.dtype) -> HitCurve:
    """Return the complete curves, on every process, from the scores of all hits and counts of misses.

    Args:
        ranks: the processes.
        rankings: scores of this process.
        lengths: (W, 2, C) number of hits and misses of each process.
        dtype: dtype of the input scores.
    """
    hits = torch.cat(ranks.gather_unequal(torch.cat([arrays.tensor(x) for x in rankings.hits])))
    rankings.hits[:] = _split_columns(arrays.native(hits), lengths[:, 0].tolist())
    here = ranks.attempt(builders.from_hits_and_misses, *rankings, dtype)
    rankings.misses.clear()
    tied, above = ranks.sum(torch.stack([here.items - here.hits, here.items_above - here.hits_above]))
    n, m = lengths.sum((0, 1)), lengths[:, 0].sum(0)
    return replace(here, items=here.hits + tied, items_above=here.hits_above + above, score=None, n=n, m=m)


def _sort(rankings: Scores) -> Scores:
    """Return the scores of each ranking in ascending order."""
    size = sum(len(x) for kind in rankings for x in kind)
    threads = order.workers(size) if not isinstance(rankings.hits[0], Tensor) else 1
    return Scores(*(list(order.run_in_threads(_ascending, kind, threads)) for kind in rankings))


def _ascending(values: Tensor) -> Tensor:
    return values.sort().values if isinstance(values, Tensor) else order.sort_in_place(values)


def _splitters(ranks: Ranks, rankings: Scores, lengths: Tensor) -> Tensor:
    """Return (C, W - 1) scores, ascending, that divide each ranking into W ranges of about the same size."""
    columns = len(rankings.hits)
    size = max(_FEWEST_SAMPLES, min(_MOST_SAMPLES, _SAMPLES // columns))
    both = [*rankings.hits, *rankings.misses]
    samples = ranks.gather(torch.stack([_spaced(x, size) for x in map(arrays.tensor, both)]))
    samples = samples.reshape(-1, columns, size).transpose(0, 1)
    lengths = segments.as_float64(lengths.reshape(-1, columns).transpose(0, 1))
    ordered, places = samples.flatten(1).sort(1)
    represented = lengths.repeat_interleave(size, 1).gather(1, places).cumsum(1)
    shares = torch.arange(1, ranks.size, dtype=torch.float64, device=ordered.device) / ranks.size
    splits = torch.searchsorted(represented, represented[:, -1:] * shares)
    return ordered.gather(1, splits.clamp(max=ordered.shape[1] - 1))


def _spaced(values: Tensor, size: int) -> Tensor:
    """Return ``size`` evenly spaced values; zeros if there are none."""
    if not len(values):
        return values.new_zeros(size)
    return values[(torch.arange(1, 2 * size, 2, device=values.device) * len(values)) // (2 * size)]


def _exchange(ranks: Ranks, rankings: Scores, splitters: Tensor) -> tuple[Scores, Tensor]:
    """Return the unsorted scores of this process's range, and all (2, C, W - 1) hits and misses at the splitters."""
    edges = arrays.native(splitters)
    places = torch.stack([torch.stack([_cuts(*x) for x in zip(kind, edges, strict=True)]) for kind in rankings])
    counts = (places[:, :, 1] - places[:, :, 0]).flip(2)  # highest range first
    tied = ranks.sum(places[:, :, 0, 1:] - places[:, :, 1, :-1])
    coming = ranks.swap(counts.permute(2, 0, 1))
    spans = places.flip(3).tolist()
    result = []
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
        result.append(_split_columns(arrays.native(received), coming[:, kind].tolist()))
    return Scores(*result), tied


def _cuts(values: Any, edges: Any) -> Tensor:
    """Return (2, W) the start and end of the values between two edges; values equal to an edge are in no range."""
    xp = arrays.namespace(values)
    first, last = (arrays.tensor(xp.searchsorted(values, edges, side=side)) for side in ("left", "right"))
    first[1:] = torch.maximum(first[1:], last[:-1])  # equal edges
    ends = first.new_tensor([0, len(values)])
    return torch.stack([torch.cat([ends[:1], last]), torch.cat([first, ends[1:]])])


def _split_columns(received: Any, lengths: list[list[int]]) -> list[Any]:
    """Return the values of each column from (W, C) runs of the given lengths."""
    columns = len(lengths[0])
    if columns == 1:
        return [received]
    bounds = segments.from_zero(torch.tensor(lengths).flatten()).tolist()
    runs = [received[start:end] for start, end in pairwise(bounds)]
    return [arrays.namespace(received).concatenate(runs[column::columns]) for column in range(columns)]


def _add_other_parts(ranks: Ranks, curve: HitCurve, tied: Tensor) -> HitCurve:
    """Add the other processes' counts to a part: above it, of whole rankings, and of ties with its lowest edge.

    Args:
        ranks: the processes.
        curve: curve of the scores strictly between two splitters.
        tied: (2, C, W - 1) hits and misses of all processes at each splitter, in ascending order.
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
    offsets = segments.from_counts(curve.offsets.diff() + (hits > 0))
    hits, items, hits_above, items_above = (
        torch.cat([getattr(local, name), x[added]])[places] for name, x in ties.items()
    )
    return HitCurve(hits, items, hits_above, items_above, None, offsets, whole[1], whole[0], parts=RankParts(ranks))


def _weighted_curve_part(ranks: Ranks, batch: Batch, splitters: Tensor) -> HitCurve:
    """Return this process's part of weighted rankings; weights are sent with items, equal scores to one process."""
    destination, *sent = ranks.attempt(_flatten, batch, splitters)
    route = Route(ranks, ranks.size - 1 - destination)
    scores, kind, weight = (route.send(x) for x in sent)
    keys = ranks.attempt(tie_groups.group_keys, scores, kind // 2)[0]
    _, relevant, last, ordered = ranks.attempt(builders.sort_items, keys, kind % 2 == 1, weight)
    offsets = segments.from_counts(segments.count(kind // 2, len(splitters)))
    return from_ordered(relevant, last, offsets, weight=ordered, parts=RankParts(ranks))


def _flatten(batch: Batch, splitters: Tensor) -> tuple[Tensor, ...]:
    """Return the range, score, kind and weight of each item that counts.

    The kind is 2 c + 1 for a hit of column c, and 2 c for a miss.
    """
    scores, target, weights = batch.scores, batch.target, batch.weights
    assert weights is not None
    across = (scores if scores.ndim == 2 else scores[:, None]).t().contiguous()
    sortable = order.sortable(across) if across.is_cpu else across
    ranges = torch.searchsorted(splitters, sortable, right=True)
    column = torch.arange(len(across), device=scores.device)[:, None]
    hits = target == column if scores.ndim > target.ndim else target.t() == 1
    kind = 2 * column + hits
    weight = arrays.expand_columns(segments.as_float64(weights), scores.shape[1:]).t()
    counts = counted_items(target).t().expand(across.shape)
    return tuple(x.expand(across.shape)[counts] for x in (ranges, across, kind, weight))
