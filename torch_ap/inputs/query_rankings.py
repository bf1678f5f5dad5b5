"""From many batches of queries to one curve with one ranking per query."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.inputs.queries import NOT_COUNTED, NOT_RANKED, QueryBatch
from torch_ap.ranking import builders, graded, order, segments
from torch_ap.ranking.graded import Relevant
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.runtime import arrays

_MOST_GAPS = 2
_ITEMS_A_RUN = 4
_FIRST = np.zeros(1, np.int64)


class Rankings(NamedTuple):
    """A curve with one ranking per query.

    Attributes:
        queries: (Q,) int64 ids.
        curve: Q rankings, with grades where the batch has them; m counts the relevant items that are known of.
        judged: (Q,) bool, whether m was given, or an item that was not ranked.
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
    rankings, relevant = _of_rows(batch) if batch.indexes is None else _of_flat(batch)
    if batch.judged_counts is not None:
        curve, what = rankings.curve, "query" if batch.lengths is None else "row"
        seen = curve.hits_seen if relevant is None else relevant.counts(len(curve.m))
        _check_seen(curve.m, seen, rankings.queries, what="" if single else what)
    if relevant is None:
        return rankings
    return rankings._replace(curve=graded.with_grades(rankings.curve, relevant))


def check_batch(batch: QueryBatch) -> None:
    """Refuse a batch whose judgements contradict one another or its own items.

    Nothing is looked at without judgements, or on an accelerator, where a look would stall the device.

    Raises:
        ValueError: as :func:`rankings_of`.
    """
    if batch.judged_counts is None or not len(batch.judged_counts) or batch.scores.device.type != "cpu":
        return
    hits = batch.relevance % 2 == 1
    if batch.lengths is not None:
        seen = segments.total(hits.to(torch.int64), segments.from_counts(batch.lengths))
        _check_seen(batch.judged_counts, seen, torch.arange(len(seen)), what="row")
    elif batch.judged_queries is not None:
        known, counts = _agreed(batch.judged_queries, batch.judged_counts)
        found = batch.judged_queries[:0] if batch.indexes is None else batch.indexes[hits]
        place = torch.searchsorted(known, found).clamp(max=len(known) - 1)
        seen = torch.bincount(place[known[place] == found], minlength=len(known))
        _check_seen(counts, seen, known)


class _Items(NamedTuple):
    """Columns of a batch, (N,) each, as of :class:`torch_ap.inputs.queries.QueryBatch`."""

    scores: Tensor
    relevance: Tensor
    grades: Tensor | None

    def pick(self, kept: Tensor) -> "_Items":
        return _Items(*(x if x is None else x[kept] for x in self))  # type: ignore[arg-type]


def _of_rows(batch: QueryBatch) -> tuple[Rankings, Relevant | None]:
    assert batch.lengths is not None
    items, offsets = _Items(batch.scores, batch.relevance, batch.grades), segments.from_counts(batch.lengths)
    most = _greatest(items.relevance)
    if most >= NOT_COUNTED:
        kept = items.relevance != NOT_COUNTED
        offsets, items = segments.from_counts(segments.total(kept.to(torch.int64), offsets)), items.pick(kept)
    xp = arrays.namespace(arrays.native(items.relevance))
    queries = arrays.tensor(xp.arange(len(batch.lengths), **({} if xp is np else {"device": offsets.device})))
    return _ranked(queries, items, most, offsets=offsets, m=batch.judged_counts)


def _of_flat(batch: QueryBatch) -> tuple[Rankings, Relevant | None]:
    items, indexes = _Items(batch.scores, batch.relevance, batch.grades), batch.indexes
    assert indexes is not None
    most = _greatest(items.relevance)
    if most >= NOT_COUNTED:
        kept = items.relevance != NOT_COUNTED
        items, indexes = items.pick(kept), indexes[kept]
    queries, offsets = _runs(indexes) if len(indexes) and indexes.device.type == "cpu" else (None, None)
    if queries is not None and offsets is not None:
        rankings, relevant = _ranked(queries, items, most, offsets=offsets)
    else:
        queries, segment, lengths = _numbered(indexes)
        rankings, relevant = _ranked(queries, items, most, segment=segment, lengths=lengths)
    return _judged(rankings, batch), relevant


def _ranked(
    queries: Tensor,
    items: _Items,
    most: int,
    *,
    offsets: Tensor | None = None,
    segment: Tensor | None = None,
    lengths: Tensor | None = None,
    m: Tensor | None = None,
) -> tuple[Rankings, Relevant | None]:
    """The rankings of items that count, and with grades all relevant items.

    Args:
        queries: (Q,) ids.
        items: those of a query end to end, if there are ``offsets``; else in any order, with a ``segment`` each.
        most: the greatest ``items.relevance``.
        offsets: (Q + 1,) where those of each query begin and end.
        segment: (N,) int64 in [0, Q), the query of each.
        lengths: (Q,) how many each query has.
        m: (Q,) relevant items, where they are known; those that were not ranked included.
    """
    ranked, judged = None, torch.from_numpy((np.zeros if m is None else np.ones)(queries.shape[0], bool))
    judged = judged if queries.is_cpu else judged.to(queries.device)
    scores, relevance = items.scores, items.relevance
    if offsets is not None and most >= NOT_RANKED:
        segment, offsets = segments.ids(offsets), None
    if segment is not None and most >= NOT_RANKED:
        ranked = relevance < NOT_RANKED
        judged = judged | (segments.count(segment[~ranked], len(queries)) > 0)
        m = segments.count(segment[relevance % 2 == 1], len(queries)) if m is None else m
        scores, relevance, of_ranked = scores[ranked], relevance[ranked], segment[ranked]
        lengths = segments.count(of_ranked, len(queries))
        curve = builders.from_scores(
            scores, relevance, segment=of_ranked, segments_count=len(queries), lengths=lengths, m=m
        )
    elif offsets is not None:
        curve = builders.from_runs(scores, relevance, offsets, m=m)
    else:
        curve = builders.from_scores(
            scores, relevance, segment=segment, segments_count=len(queries), lengths=lengths, m=m
        )
    rankings = Rankings(queries, curve, judged)
    if items.grades is None:
        return rankings, None
    places = arrays.tensor(arrays.places(arrays.native(items.relevance) & 1))
    if queries.shape[0] == 1:
        owner = None
    elif segment is None:
        assert offsets is not None
        owner = segments.of_places(places, offsets)
    else:
        owner = segments.pick(segment, places)
    grades, scores = (segments.pick(x, places) for x in (items.grades, items.scores))
    return rankings, Relevant(owner, grades, scores, None if ranked is None else ranked[places])


def _greatest(relevance: Tensor) -> int:
    """The greatest value, which says in one pass whether there are items that do not count, or were not ranked."""
    if not relevance.shape[0]:
        return 0
    if not relevance.is_cpu:
        return int(relevance.max())
    flags = relevance.numpy()
    return int(flags[flags.argmax()])  # in a third of the time of `max`


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


def _judged(rankings: Rankings, batch: QueryBatch) -> Rankings:
    """Let the numbers of relevant items that were given replace those seen; judged queries without items come last."""
    queries, curve, before = rankings
    if batch.judged_queries is None or batch.judged_counts is None or not len(batch.judged_queries):
        return rankings
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
    judged = torch.cat([judged | before, torch.ones_like(added, dtype=torch.bool)])
    return Rankings(torch.cat([queries, added]), curve, judged)


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
