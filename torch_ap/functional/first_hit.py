"""Measures of where a query's first relevant item lies: hit rate and reciprocal rank."""

import torch
from torch import Tensor

from torch_ap.curve.measures import FirstHit
from torch_ap.curve.top_k import at_each
from torch_ap.evaluation.queries import each_query
from torch_ap.rules.options import Action, MissingQueries, NumRelevant, Ties, TopKs
from torch_ap.runtime import cached

_first_hit = cached.settings_cache(FirstHit)


def retrieval_hit_rate(
    preds: Tensor,
    target: Tensor,
    top_k: TopKs = None,
    *,
    ties: Ties = "expected",
    indexes: Tensor | None = None,
    mask: Tensor | None = None,
    num_relevant: NumRelevant = None,
    ignore_index: int | None = None,
    relevance_level: float | None = None,
    empty_target_action: Action = "neg",
    missing_queries: MissingQueries = "neg",
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Whether a relevant item lies in the top k of each query: 1 or 0.

    Args:
        preds, target, top_k: as in :func:`torch_ap.functional.retrieval_precision`.
        ties: "expected" for the chance of it over all orders of equal scores; "optimistic", "pessimistic"; "grouped"
            for whether the first group with a relevant item lies in the top k as a whole.
        indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries, dtype: as in
            :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        0-d or (Q,), as there.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals trec_eval's ``success_k`` and ``torchmetrics.functional.retrieval_hit_rate`` where no scores are tied.

    Source: McSherry & Najork (2008) for ties.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_hit_rate
        >>> retrieval_hit_rate(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 0]), top_k=2)
        tensor(0.)
    """
    measure = at_each(top_k, lambda k: _first_hit("hit_rate", k, ties))
    queries = (indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries)
    return each_query(measure, preds, target, *queries, dtype)


def retrieval_reciprocal_rank(
    preds: Tensor,
    target: Tensor,
    top_k: TopKs = None,
    *,
    ties: Ties = "expected",
    indexes: Tensor | None = None,
    mask: Tensor | None = None,
    num_relevant: NumRelevant = None,
    ignore_index: int | None = None,
    relevance_level: float | None = None,
    empty_target_action: Action = "neg",
    missing_queries: MissingQueries = "neg",
    dtype: torch.dtype | None = None,
) -> Tensor:
    """One divided by the rank of each query's first relevant item; 0 where none lies in the top k.

    Args:
        preds, target, top_k: as in :func:`torch_ap.functional.retrieval_precision`.
        ties: "expected" for the mean over all orders of equal scores; "optimistic", "pessimistic"; "grouped" for the
            rank at the end of the first group with a relevant item.
        indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries, dtype: as in
            :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        0-d or (Q,), as there.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals trec_eval's ``recip_rank`` where no scores are tied, and
    ``torchmetrics.functional.retrieval_reciprocal_rank`` on positive untied scores.

    Source: Voorhees (1999), The TREC-8 Question Answering Track Report. "expected": McSherry & Najork (2008).

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_reciprocal_rank
        >>> retrieval_reciprocal_rank(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0, 1, 0]))
        tensor(0.5000)
    """
    measure = at_each(top_k, lambda k: _first_hit("reciprocal_rank", k, ties))
    queries = (indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries)
    return each_query(measure, preds, target, *queries, dtype)
