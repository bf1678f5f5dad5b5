"""From many batches of queries to one curve with one ranking per query."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.inputs.queries import NOT_COUNTED, QueryBatch
from torch_ap.ranking import builders, order, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.runtime import arrays

_MOST_GAPS = 2
_ITEMS_A_RUN = 4
_FIRST = np.zeros(1, np.int64)


class Rankings(NamedTuple):
    """A curve with one ranking per query.

    Attributes:
        queries: (Q,) int64 ids.
        curve: Q rankings; m counts the relevant items that are known of.
        judged: (Q,) bool, whether m was given.
    """

    queries: Tensor
    curve: HitCurve
    judged: Tensor


def rankings_of(batch: QueryBatch, *, single: bool = False) -> Rankings:
    """One ranking per query, of everything in the batch, in any order of queries.

    Args:
        batch: as :meth:`torch_ap.inputs.queries.QueryInputs.validate` made it.
        single: whether the batch is one ranking, which errors then do not name.

    Raises:
        ValueError: for a query with two different numbers of relevant items, or fewer than were seen.
    """
    rankings = _of_rows(batch) if batch.indexes is None else _of_flat(batch)
    if batch.judged_counts is not None:
        curve, what = rankings.curve, "query" if batch.lengths is None else "row"
        _check_seen(curve.m, curve.hits_seen, rankings.queries, what="" if single else what)
    return rankings


def check_batch(batch: QueryBatch) -> None:
    """Refuse a batch whose judgements contradict one another or its own items.

    Nothing is looked at without judgements, or on an accelerator, where a look would stall the device.

    Raises:
        ValueError: as :func:`rankings_of`.
    """
    if batch.judged_counts is None or not len(batch.judged_counts) or batch.scores.device.type != "cpu":
        return
    hits = batch.relevance == 1
    if batch.lengths is not None:
        seen = segments.total(hits.to(torch.int64), segments.from_counts(batch.lengths))
        _check_seen(batch.judged_counts, seen, torch.arange(len(seen)), what="row")
    elif batch.judged_queries is not None:
        known, counts = _agreed(batch.judged_queries, batch.judged_counts)
        found = batch.judged_queries[:0] if batch.indexes is None else batch.indexes[hits]
        place = torch.searchsorted(known, found).clamp(max=len(known) - 1)
        seen = torch.bincount(place[known[place] == found], minlength=len(known))
        _check_seen(counts, seen, known)


def _of_rows(batch: QueryBatch) -> Rankings:
    assert batch.lengths is not None
    scores, relevance, offsets = batch.scores, batch.relevance, segments.from_counts(batch.lengths)
    if _some_ignored(relevance):
        kept = relevance != NOT_COUNTED
        offsets = segments.from_counts(segments.total(kept.to(torch.int64), offsets))
        scores, relevance = scores[kept], relevance[kept]
    curve = builders.from_runs(scores, relevance, offsets, m=batch.judged_counts)
    xp = arrays.namespace(arrays.native(relevance))
    where = {} if xp is np else {"device": scores.device}
    queries = arrays.tensor(xp.arange(len(batch.lengths), **where))
    judged = arrays.tensor(xp.full((len(queries),), batch.judged_counts is not None, **where))
    return Rankings(queries, curve, judged)


def _of_flat(batch: QueryBatch) -> Rankings:
    scores, relevance, indexes = batch.scores, batch.relevance, batch.indexes
    assert indexes is not None
    if _some_ignored(relevance):
        kept = relevance != NOT_COUNTED
        scores, relevance, indexes = scores[kept], relevance[kept], indexes[kept]
    queries, offsets = _runs(indexes) if len(indexes) and indexes.device.type == "cpu" else (None, None)
    if queries is not None and offsets is not None:
        curve = builders.from_runs(scores, relevance, offsets)
    else:
        queries, segment, lengths = _numbered(indexes)
        curve = builders.from_scores(scores, relevance, segment=segment, segments_count=len(queries), lengths=lengths)
    return _judged(queries, curve, batch)


def _some_ignored(relevance: Tensor) -> bool:
    """Whether there are items that do not count; the greatest value says it in one pass."""
    if not relevance.shape[0]:
        return False
    if not relevance.is_cpu:
        return int(relevance.max()) == NOT_COUNTED
    flags = relevance.numpy()
    return bool(flags[flags.argmax()] == NOT_COUNTED)  # in a third of the time of `max`


def _runs(indexes: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Queries and offsets where the items of each query stand together; else, or where runs are short, None. On CPU."""
    given = indexes.numpy()
    changed = given[1:] != given[:-1]
    if np.count_nonzero(changed) > len(given) // _ITEMS_A_RUN:
        return None, None
    places = changed.nonzero()[0]
    if not len(places):
        return torch.from_numpy(given[:1].copy()), torch.from_numpy(np.array([0, len(given)]))
    starts = np.concatenate([_FIRST, places + 1])
    queries = given.take(starts)
    together = bool((queries[1:] > queries[:-1]).all()) or len(np.unique(queries)) == len(queries)
    return (torch.from_numpy(queries), torch.from_numpy(np.append(starts, len(given)))) if together else (None, None)


def _numbered(indexes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct queries, ascending; each item's place among them; and the items of each.

    Ids in a narrow range need no sort.
    """
    if len(indexes) and indexes.device.type == "cpu":
        low, high = order.extremes(indexes.numpy())
        if high - low < _MOST_GAPS * len(indexes):
            segment = indexes - low if low else indexes
            lengths = torch.from_numpy(order.bincount(segment.numpy(), high - low + 1))
            present = lengths > 0
            queries = torch.from_numpy(np.flatnonzero(present.numpy()))
            if len(queries) == len(present):
                return queries + low, segment, lengths
            return queries + low, segments.pick(present.cumsum(0) - 1, segment), segments.pick(lengths, present)
    queries, segment, lengths = torch.unique(indexes, return_inverse=True, return_counts=True)
    return queries, segment, lengths


def _judged(queries: Tensor, curve: HitCurve, batch: QueryBatch) -> Rankings:
    """Let the numbers of relevant items that were given replace those seen; judged queries without items come last."""
    judged = torch.from_numpy(np.zeros(queries.shape, bool)).to(queries.device)
    if batch.judged_queries is None or batch.judged_counts is None or not len(batch.judged_queries):
        return Rankings(queries, curve, judged)
    known, counts = _agreed(batch.judged_queries, batch.judged_counts)
    place = torch.searchsorted(known, queries).clamp(max=len(known) - 1)
    judged = known[place] == queries
    missing = torch.ones_like(known, dtype=torch.bool)
    missing[place[judged]] = False
    added = known[missing]
    curve = replace(
        curve,
        offsets=torch.cat([curve.offsets, curve.offsets[-1:].expand(len(added))]),
        n=torch.cat([curve.n, torch.zeros_like(added)]),
        m=torch.cat([torch.where(judged, counts[place], curve.m), counts[missing]]),
    )
    return Rankings(torch.cat([queries, added]), curve, torch.cat([judged, torch.ones_like(added, dtype=torch.bool)]))


def _agreed(queries: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Each judged query once, ascending, with its number of relevant items.

    Raises:
        ValueError: for a query with two different numbers.
    """
    known, place = torch.unique(queries, return_inverse=True)
    lowest, highest = (
        torch.zeros_like(known).scatter_reduce_(0, place, counts, how, include_self=False) for how in ("amin", "amax")
    )
    differ = lowest != highest
    if bool(differ.any()):
        first = int(differ.nonzero()[0])
        raise ValueError(
            f"`num_relevant` must be the same wherever a query is judged, got {int(lowest[first])} and "
            f"{int(highest[first])} for query {int(known[first])}"
        )
    return known, highest


def _check_seen(counts: Tensor, seen: Tensor, names: Tensor, *, what: str = "query") -> None:
    """No ranking has fewer relevant items than were seen.

    Args:
        counts: (Q,) int64, how many are said to be relevant.
        seen: (Q,) int64, how many were seen.
        names: (Q,) int64, by which the message names the rankings.
        what: the message calls them; "" where there is but one, which needs no name.
    """
    short = seen > counts
    if bool(short.any()):
        first = int(short.nonzero()[0])
        whose = f" for {what} {int(names[first])}" if what else ""
        raise ValueError(
            f"`num_relevant` must be at least the relevant items among those ranked, got {int(counts[first])}{whose}, "
            f"where there are {int(seen[first])}"
        )
