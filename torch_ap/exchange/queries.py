"""Queries of which ranks have items: each goes to one rank, which computes its value; rows stay where they are."""

from collections.abc import Callable

import torch
from torch import Tensor

from torch_ap.evaluation.queries import PerQuery
from torch_ap.exchange import copies
from torch_ap.exchange.ranks import Ranks, Route, spread
from torch_ap.inputs.queries import QueryBatch, chosen
from torch_ap.inputs.query_rankings import Rankings, rankings_of


def share_of(ranks: Ranks, batch: QueryBatch, ids: Tensor | None) -> Rankings:
    """The rankings of the queries that come to this rank, with all their items and judgements.

    Args:
        ranks: each calls it with its own items.
        batch: flat items or rows, the same on all ranks.
        ids: of items or rows, of which the first copy counts; None for all of them do.

    Raises:
        ValueError: on every rank, for what :func:`rankings_of` refuses on one.
    """
    if ids is not None:
        batch = chosen(batch, copies.first_copies(ranks, ids, batch.facts))
    if batch.lengths is None:
        batch = _routed(ranks, batch)
    found = ranks.attempt(rankings_of, batch)
    if batch.lengths is not None:
        rows = ranks.gather(torch.tensor([len(batch.lengths)]))
        found = found._replace(queries=found.queries + rows[: ranks.rank].sum())
    return found


def _routed(ranks: Ranks, batch: QueryBatch) -> QueryBatch:
    assert batch.indexes is not None
    route = Route(ranks, spread(batch.indexes, ranks.size))
    scores, relevance, indexes = (route.send(x) for x in (batch.scores, batch.relevance, batch.indexes))
    grades = None if batch.grades is None else route.send(batch.grades)
    batch = batch._replace(scores=scores, relevance=relevance, indexes=indexes, grades=grades)
    if batch.judged_queries is None or batch.judged_counts is None:
        return batch
    route = Route(ranks, spread(batch.judged_queries, ranks.size))
    return batch._replace(
        judged_queries=route.send(batch.judged_queries), judged_counts=route.send(batch.judged_counts)
    )


def of_all(ranks: Ranks, each: Callable[[Rankings], PerQuery], rankings: Rankings) -> PerQuery:
    """The values of the queries of all ranks, each computed where it is."""
    mine = ranks.attempt(each, rankings)
    queries, values, kept = (torch.cat(ranks.gather_unequal(x)) for x in mine)
    order = torch.argsort(queries)
    return PerQuery(queries[order], values[order], kept[order])
