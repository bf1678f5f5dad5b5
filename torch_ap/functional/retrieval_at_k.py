"""Measures of the top k of each query: precision, recall, F_beta, fall-out, R-precision."""

import torch
from torch import Tensor

from torch_ap.curve.measures import AtRank, RPrecision
from torch_ap.curve.top_k import at_each
from torch_ap.evaluation.queries import each_query
from torch_ap.rules.options import Action, MissingQueries, NumRelevant, Ties, TopKs
from torch_ap.runtime import cached

_at_rank, _r_precision = cached.settings_cache(AtRank), cached.settings_cache(RPrecision)


def retrieval_precision(
    preds: Tensor,
    target: Tensor,
    top_k: TopKs = None,
    adaptive_k: bool = False,
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
    """Precision at k of each query: h(k) / k.

    Args:
        preds, target: as in :func:`torch_ap.functional.retrieval_average_precision`.
        top_k: k of at least 1; "relevant" for m of each query; a list of different ones for a value of each, as there;
            None for all n items of the query.
        adaptive_k: divide by n where a query has fewer than k items. Else the missing ones count as not relevant.
        ties: whether a group of equal scores that straddles rank k counts with its share of relevant items ("expected"
            and "grouped"), with its relevant items first ("optimistic") or last ("pessimistic").
        indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries, dtype: as in
            :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        0-d or (Q,), as there.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals trec_eval's ``P_k`` and ``torchmetrics.functional.retrieval_precision`` where no scores are tied.

    Source: Zhu (2004), section 1. Share of tied groups: Raghavan, Bollmann & Jung (1989).

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_precision
        >>> retrieval_precision(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]), top_k=2)
        tensor(0.5000)
    """
    measure = at_each(top_k, lambda k: _at_rank("precision", k, adaptive_k, 1.0, ties))
    queries = (indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries)
    return each_query(measure, preds, target, *queries, dtype)


def retrieval_recall(
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
    """Recall at k of each query: h(k) / m.

    Args:
        preds, target, top_k, ties: as in :func:`retrieval_precision`.
        indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries, dtype: as in
            :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        0-d or (Q,), as there.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals trec_eval's ``recall_k`` and ``torchmetrics.functional.retrieval_recall`` where no scores are tied.

    Source: Zhu (2004), section 1.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_recall
        >>> retrieval_recall(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]), top_k=2)
        tensor(0.5000)
    """
    measure = at_each(top_k, lambda k: _at_rank("recall", k, False, 1.0, ties))
    queries = (indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries)
    return each_query(measure, preds, target, *queries, dtype)


def retrieval_f_beta(
    preds: Tensor,
    target: Tensor,
    top_k: TopKs = None,
    beta: float = 1.0,
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
    """F_beta at k of each query: (1 + beta^2) h(k) / (beta^2 m + k), which combines precision and recall at k.

    Args:
        preds, target, top_k, ties: as in :func:`retrieval_precision`.
        indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries, dtype: as in
            :func:`torch_ap.functional.retrieval_average_precision`.
        beta: how many times as much as precision recall counts; at least 0, with a finite square.

    Returns:
        0-d or (Q,), as there.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``sklearn.metrics.fbeta_score`` of "is in the top k" where a query has at least k items and none are tied.

    Source: van Rijsbergen (1979), Information Retrieval, chapter 7.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_f_beta
        >>> retrieval_f_beta(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]), top_k=1)
        tensor(0.6667)
    """
    measure = at_each(top_k, lambda k: _at_rank("f_beta", k, False, beta, ties))
    queries = (indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries)
    return each_query(measure, preds, target, *queries, dtype)


def retrieval_fall_out(
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
    empty_target_action: Action = "pos",
    missing_queries: MissingQueries = "neg",
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Fall-out at k of each query: the share of its items that are not relevant that lies in the top k.

    Args:
        preds, target, top_k, ties: as in :func:`retrieval_precision`.
        empty_target_action: what a query counts as all of whose items are relevant, where it is undefined; as there.
        missing_queries: as there; "neg" counts 0, whatever m is, which is the best value.
        indexes, mask, num_relevant, ignore_index, relevance_level, dtype: as in
            :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        0-d or (Q,), as there.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``torchmetrics.functional.retrieval_fall_out`` where it is defined and no scores are tied.

    Source: van Rijsbergen (1979), Information Retrieval, chapter 7.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_fall_out
        >>> retrieval_fall_out(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0, 0, 1]), top_k=2)
        tensor(0.5000)
    """
    measure = at_each(top_k, lambda k: _at_rank("fall_out", k, False, 1.0, ties))
    queries = (indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries)
    return each_query(measure, preds, target, *queries, dtype)


def retrieval_r_precision(
    preds: Tensor,
    target: Tensor,
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
    """Precision at rank m of each query, which is recall there too: h(m) / m.

    Args:
        preds, target, ties: as in :func:`retrieval_precision`.
        indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries, dtype: as in
            :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        0-d or (Q,), as there.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals trec_eval's ``Rprec`` and ``torchmetrics.functional.retrieval_r_precision`` where no scores are tied.

    Source: Buckley & Voorhees (2000).

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_r_precision
        >>> retrieval_r_precision(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]))
        tensor(0.5000)
    """
    measure = _r_precision(ties)
    queries = (indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries)
    return each_query(measure, preds, target, *queries, dtype)
