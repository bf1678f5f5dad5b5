"""The door for queries: batches checked and laid out, and from many batches to one curve with a ranking a query.

Two layouts. *Flat*: an item a line, with the query it belongs to, whose items may come in any order and from any batch.
*Rows*: one query a row, ended by the row; queries are numbered in the order they came.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core import builders, checks, order, segments
from torch_ap.core.batch import ignored_of
from torch_ap.core.hit_curve import HitCurve
from torch_ap.core.queries import rules

NOT_COUNTED = 2
_MOST_GAPS = 2
_ITEMS_A_RUN = 4
_ITEMS_OF_A_LOOK = 4096


class QueryBatch(NamedTuple):
    """Checked items in the layout of the state.

    Attributes:
        scores: (N,) in the dtype given.
        relevance: (N,) uint8, 1 for relevant, 0 for not, 2 for what does not count.
        indexes: (N,) int64, the query of each item; None for rows.
        lengths: (Q,) int64, the length of each row; None for flat items.
        judged_queries: (J,) int64 queries whose number of relevant items is known; None for rows.
        judged_counts: (J,) int64, those numbers; for rows one a row. None if not given.
        broken: None, or on an accelerator the rules of ``checks.VALUE_RULES`` that the batch breaks.
    """

    scores: Tensor
    relevance: Tensor
    indexes: Tensor | None = None
    lengths: Tensor | None = None
    judged_queries: Tensor | None = None
    judged_counts: Tensor | None = None
    broken: Tensor | None = None


class Rankings(NamedTuple):
    """A curve with one ranking a query.

    Attributes:
        queries: (Q,) int64 ids.
        curve: Q rankings; m counts the relevant items that are known of.
        judged: (Q,) bool, whether m was given.
    """

    queries: Tensor
    curve: HitCurve
    judged: Tensor


@dataclass(frozen=True)
class QueryDoor:
    """How batches of queries come in.

    Attributes:
        ignore_index: target value of items that do not count.
        relevance_level: an item is relevant where its target is at least this.
        copies: whether batches are laid out in memory of their own, for those who keep them.
    """

    ignore_index: int | None = None
    relevance_level: float = 1
    copies: bool = True

    def __post_init__(self) -> None:
        checks.integer("ignore_index", self.ignore_index)
        rules.level(self.relevance_level)

    def __call__(
        self,
        preds: Tensor,
        target: Tensor,
        indexes: Tensor | None = None,
        mask: Tensor | None = None,
        num_relevant: Tensor | Mapping[int, int] | None = None,
    ) -> QueryBatch:
        """Check a batch and lay it out; the tensors given are never written to."""
        checks.scores("preds", preds)
        rules.graded_target(target)
        checks.same_shape(preds, target)
        if indexes is None:
            rules.rows(preds)
        else:
            rules.indexes(indexes, preds)
        if mask is not None:
            rules.mask(mask, preds)
        given = num_relevant if isinstance(num_relevant, Tensor) else None
        checks.same_device(preds=preds, target=target, indexes=indexes, mask=mask, num_relevant=given)
        queries, counts = _judgements(num_relevant, preds, indexes)
        apart = self._apart(target, mask)
        broken = _check_values(preds, target, apart, counts)
        relevance = self._relevance(target)
        return QueryBatch(
            scores=self._own(preds),
            relevance=self._own(relevance) if apart is None else relevance.masked_fill(apart, NOT_COUNTED).flatten(),
            indexes=None if indexes is None else self._own(indexes).to(torch.int64),
            lengths=torch.full((len(preds),), preds.shape[1], device=preds.device) if indexes is None else None,
            judged_queries=queries,
            judged_counts=counts,
            broken=broken,
        )

    def raise_broken(self, batch: QueryBatch) -> None:
        """Raise for the rules that a batch on an accelerator was found to break."""
        if batch.broken is not None:
            for rule, broken in zip(checks.VALUE_RULES, batch.broken.tolist(), strict=True):
                if broken:
                    raise ValueError(rule)

    def _own(self, given: Tensor) -> Tensor:
        flat = given.detach().flatten()
        return flat.clone() if self.copies else flat

    def _relevance(self, target: Tensor) -> Tensor:
        """Uint8 of 0 and 1, of the shape of ``target``. A bool target is compared as such, which is far faster."""
        if target.dtype != torch.bool:
            return (target >= self.relevance_level).view(torch.uint8)
        if not 0 < self.relevance_level <= 1:
            return torch.full_like(target, self.relevance_level <= 0, dtype=torch.uint8)
        return target.view(torch.uint8)

    def _apart(self, target: Tensor, mask: Tensor | None) -> Tensor | None:
        """Which items do not count; None for all do."""
        apart = ignored_of(target, self.ignore_index)
        return apart if mask is None else (~mask if apart is None else apart | ~mask)


def rankings_of(batch: QueryBatch) -> Rankings:
    """One ranking a query, of everything in the batch, in any order of queries.

    Raises:
        ValueError: for a query with two different numbers of relevant items, or fewer than were seen.
    """
    rankings = _of_rows(batch) if batch.indexes is None else _of_flat(batch)
    curve = rankings.curve
    seen = curve.hits_seen
    short = seen > curve.m
    if bool(short.any()):
        first = int(short.nonzero()[0])
        raise ValueError(
            f"`num_relevant` must be at least the relevant items among those ranked, got {int(curve.m[first])} for "
            f"query {int(rankings.queries[first])}, of which {int(seen[first])} were ranked"
        )
    return rankings


def _judgements(
    num_relevant: Tensor | Mapping[int, int] | None, preds: Tensor, indexes: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Queries and their numbers of relevant items; of rows only the numbers."""
    if num_relevant is None:
        return None, None
    if isinstance(num_relevant, Mapping):
        if indexes is None:
            raise ValueError("`num_relevant` as a dict needs `indexes`, which name the queries; for rows give a tensor")
        return judgements_of(num_relevant, preds.device)
    if indexes is None:
        rules.counts_tensor(num_relevant, preds.shape[:1], "one a row")
        return None, num_relevant.to(torch.int64, copy=True)
    rules.counts_tensor(num_relevant, preds.shape, "for each item that of its query")
    queries, counts = indexes.flatten().to(torch.int64), num_relevant.flatten().to(torch.int64)
    if len(queries) and queries.device.type == "cpu":  # items of a query mostly stand together, and say it once
        new = torch.ones_like(queries, dtype=torch.bool)
        new[1:] = (queries[1:] != queries[:-1]) | (counts[1:] != counts[:-1])
        return queries[new], counts[new]
    return queries.clone(), counts.clone()


def judgements_of(num_relevant: Mapping[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
    """The queries and counts of {query: m}."""
    rules.counts_by_query(num_relevant)
    queries = torch.tensor(list(num_relevant), dtype=torch.int64, device=device)
    return queries, torch.tensor(list(num_relevant.values()), dtype=torch.int64, device=device)


def _check_values(preds: Tensor, target: Tensor, apart: Tensor | None, counts: Tensor | None) -> Tensor | None:
    if apart is not None:
        preds, target = preds.masked_fill(apart, 0), target.masked_fill(apart, 0)
    return rules.values(preds, target, counts)


def _of_rows(batch: QueryBatch) -> Rankings:
    assert batch.lengths is not None
    scores, relevance, offsets = batch.scores, batch.relevance, segments.from_counts(batch.lengths)
    if _some_apart(relevance):
        kept = relevance != NOT_COUNTED
        offsets = segments.from_counts(segments.total(kept.to(torch.int64), offsets))
        scores, relevance = scores[kept], relevance[kept]
    queries = torch.arange(len(batch.lengths), device=scores.device)
    curve = builders.from_runs(scores, relevance, offsets, m=batch.judged_counts)
    judged = torch.full_like(queries, batch.judged_counts is not None, dtype=torch.bool)
    return Rankings(queries, curve, judged)


def _of_flat(batch: QueryBatch) -> Rankings:
    scores, relevance, indexes = batch.scores, batch.relevance, batch.indexes
    assert indexes is not None
    if _some_apart(relevance):
        kept = relevance != NOT_COUNTED
        scores, relevance, indexes = scores[kept], relevance[kept], indexes[kept]
    queries, offsets = _runs(indexes) if len(indexes) and indexes.device.type == "cpu" else (None, None)
    if queries is not None and offsets is not None:
        curve = builders.from_runs(scores, relevance, offsets)
    else:
        queries, segment, lengths = _numbered(indexes)
        curve = builders.from_scores(scores, relevance, segment=segment, segments_count=len(queries), lengths=lengths)
    return _judged(queries, curve, batch)


def _some_apart(relevance: Tensor) -> bool:
    """Whether there are items that do not count; the greatest value says it in one pass."""
    return len(relevance) > 0 and int(order.greatest(relevance)) == NOT_COUNTED


def _runs(indexes: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Queries and offsets where the items of each query stand together; else, or where runs are short, None.

    On CPU; a look at the first items spares those in any order a pass over all.
    """
    given = indexes.numpy()
    head = given[:_ITEMS_OF_A_LOOK]
    if np.count_nonzero(head[1:] != head[:-1]) > len(head) // _ITEMS_A_RUN:
        return None, None
    starts = np.append(0, np.flatnonzero(given[1:] != given[:-1]) + 1)
    if len(starts) > len(given) // _ITEMS_A_RUN + 1:
        return None, None
    queries = given[starts]
    together = bool((queries[1:] > queries[:-1]).all()) or len(np.unique(queries)) == len(queries)
    return (torch.from_numpy(queries), torch.from_numpy(np.append(starts, len(given)))) if together else (None, None)


def _numbered(indexes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct queries, ascending; each item's place among them; and the items of each.

    Ids in a narrow range need no sort.
    """
    if len(indexes) and indexes.device.type == "cpu":
        low, high = (int(x) for x in torch.aminmax(indexes))
        if high - low < _MOST_GAPS * len(indexes):
            segment = indexes - low if low else indexes
            lengths = torch.bincount(segment)
            present = lengths > 0
            queries = present.nonzero().squeeze(1)
            if len(queries) == len(present):
                return queries + low, segment, lengths
            return queries + low, (present.cumsum(0) - 1)[segment], lengths[present]
    queries, segment, lengths = torch.unique(indexes, return_inverse=True, return_counts=True)
    return queries, segment, lengths


def _judged(queries: Tensor, curve: HitCurve, batch: QueryBatch) -> Rankings:
    """Let the numbers of relevant items that were given replace those seen; judged queries without items come last."""
    judged = torch.zeros_like(queries, dtype=torch.bool)
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
    """Each judged query once, ascending, with its number of relevant items."""
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
