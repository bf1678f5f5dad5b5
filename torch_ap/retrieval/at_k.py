"""Measures of the top k of search and recommendation: one value per query, without state.

Precision and recall at every rank, as in the retrieval curve of torchmetrics.
"""

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from torch_ap.core.base import cached, checks
from torch_ap.core.base.options import Action, Ties, TopKs
from torch_ap.core.base.record import Record
from torch_ap.core.items.settings import result_dtype
from torch_ap.core.measures.measure import measure_at_ranks
from torch_ap.retrieval.measures.at_rank import AtEveryRank, AtRank, FirstHit, RPrecision
from torch_ap.retrieval.settings import evaluate_queries, rank_batch, with_query_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from torch_ap.retrieval.settings import BatchOptions, QueryOptions

_at_rank, _r_precision = cached.settings_cache(AtRank), cached.settings_cache(RPrecision)
_first_hit = cached.settings_cache(FirstHit)


@with_query_options
def retrieval_precision(
    preds: Tensor,
    target: Tensor,
    top_k: TopKs = None,
    adaptive_k: bool = False,
    *,
    ties: Ties = "expected",
    **options: "Unpack[QueryOptions]",
) -> Tensor:
    """Return the precision at k of each query: h(k) / k.

    Args:
        preds: scores, (D,), (Q, D), or any shape with ``indexes``; see
            :func:`torch_ap.functional.retrieval_average_precision`.
        target: shape of ``preds``; integers, bool or floats: the relevance of each item.
        top_k: k of at least 1; "relevant" for m of each query; a list of different ranks for a value of each; None for
            all n items of the query.
        adaptive_k: whether to divide by n if a query has fewer than k items. By default, missing items count as not
            relevant.
        ties: how a group of equal scores that straddles rank k counts: with its share of relevant items ("expected"
            and "grouped"), with its relevant items first ("optimistic") or last ("pessimistic").
        **options: see :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        0-d for (D,) scores, (Q,) for (Q, D); with ``indexes`` (Q,), ascending by query. (K,) or (Q, K) for a list of
        ``top_k``. In [0, 1].

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals trec_eval's ``P_k`` and ``torchmetrics.functional.retrieval_precision`` if no scores are tied.

    Source: Zhu (2004), section 1. Share of tied groups: Raghavan, Bollmann & Jung (1989).

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_precision
        >>> retrieval_precision(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]), top_k=2)
        tensor(0.5000)
    """
    measure = measure_at_ranks(top_k, lambda k: _at_rank("precision", k, adaptive_k, 1.0, ties))
    return evaluate_queries(measure, preds, target, **options)


@with_query_options
def retrieval_recall(
    preds: Tensor, target: Tensor, top_k: TopKs = None, *, ties: Ties = "expected", **options: "Unpack[QueryOptions]"
) -> Tensor:
    """Return the recall at k of each query: h(k) / m.

    Args:
        preds: scores, (D,), (Q, D), or any shape with ``indexes``; see
            :func:`torch_ap.functional.retrieval_average_precision`.
        target: shape of ``preds``; integers, bool or floats: the relevance of each item.
        top_k: k of at least 1, "relevant" for m, a list of different ranks, or None for all items of the query.
        ties: "expected", "grouped", "optimistic" or "pessimistic"; see :func:`torch_ap.functional.retrieval_precision`.
        **options: see :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        0-d for (D,) scores, (Q,) for (Q, D); with ``indexes`` (Q,), ascending by query. (K,) or (Q, K) for a list of
        ``top_k``. In [0, 1].

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals trec_eval's ``recall_k`` and ``torchmetrics.functional.retrieval_recall`` if no scores are tied.

    Source: Zhu (2004), section 1.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_recall
        >>> retrieval_recall(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]), top_k=2)
        tensor(0.5000)
    """
    measure = measure_at_ranks(top_k, lambda k: _at_rank("recall", k, False, 1.0, ties))
    return evaluate_queries(measure, preds, target, **options)


@with_query_options
def retrieval_f_beta(
    preds: Tensor,
    target: Tensor,
    top_k: TopKs = None,
    beta: float = 1.0,
    *,
    ties: Ties = "expected",
    **options: "Unpack[QueryOptions]",
) -> Tensor:
    """Return F_beta at k of each query: (1 + beta^2) h(k) / (beta^2 m + k), which combines precision and recall at k.

    Args:
        preds: scores, (D,), (Q, D), or any shape with ``indexes``; see
            :func:`torch_ap.functional.retrieval_average_precision`.
        target: shape of ``preds``; integers, bool or floats: the relevance of each item.
        top_k: k of at least 1, "relevant" for m, a list of different ranks, or None for all items of the query.
        ties: "expected", "grouped", "optimistic" or "pessimistic"; see :func:`torch_ap.functional.retrieval_precision`.
        beta: weight of recall relative to precision; at least 0, with a finite square.
        **options: see :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        0-d for (D,) scores, (Q,) for (Q, D); with ``indexes`` (Q,), ascending by query. (K,) or (Q, K) for a list of
        ``top_k``. In [0, 1].

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals ``sklearn.metrics.fbeta_score`` of "is in the top k" if each query has at least k items and no ties.

    Source: van Rijsbergen (1979), Information Retrieval, chapter 7.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_f_beta
        >>> retrieval_f_beta(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]), top_k=1)
        tensor(0.6667)
    """
    measure = measure_at_ranks(top_k, lambda k: _at_rank("f_beta", k, False, beta, ties))
    return evaluate_queries(measure, preds, target, **options)


@with_query_options
def retrieval_fall_out(
    preds: Tensor,
    target: Tensor,
    top_k: TopKs = None,
    *,
    ties: Ties = "expected",
    empty_target_action: Action = "pos",
    dtype: torch.dtype | None = None,
    **options: "Unpack[BatchOptions]",
) -> Tensor:
    """Return the fall-out at k of each query: the share of its items that are not relevant that is in the top k.

    Args:
        preds: scores, (D,), (Q, D), or any shape with ``indexes``; see
            :func:`torch_ap.functional.retrieval_average_precision`.
        target: shape of ``preds``; integers, bool or floats: the relevance of each item.
        top_k: k of at least 1, "relevant" for m, a list of different ranks, or None for all items of the query.
        ties: "expected", "grouped", "optimistic" or "pessimistic"; see :func:`torch_ap.functional.retrieval_precision`.
        empty_target_action: value of a query with relevant items only: "neg" 0, "pos" 1, "nan" and "skip" NaN, "error"
            raises.
        **options: see :func:`torch_ap.functional.retrieval_average_precision`. With ``missing_queries="neg"`` a query
            without items counts 0 for every m, which is the best value.

    Returns:
        0-d for (D,) scores, (Q,) for (Q, D); with ``indexes`` (Q,), ascending by query. (K,) or (Q, K) for a list of
        ``top_k``. In [0, 1].

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals ``torchmetrics.functional.retrieval_fall_out`` where it is defined and no scores are tied.

    Source: van Rijsbergen (1979), Information Retrieval, chapter 7.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_fall_out
        >>> retrieval_fall_out(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0, 0, 1]), top_k=2)
        tensor(0.5000)
    """
    measure = measure_at_ranks(top_k, lambda k: _at_rank("fall_out", k, False, 1.0, ties))
    return evaluate_queries(measure, preds, target, dtype=dtype, empty_target_action=empty_target_action, **options)


@with_query_options
def retrieval_r_precision(
    preds: Tensor, target: Tensor, *, ties: Ties = "expected", **options: "Unpack[QueryOptions]"
) -> Tensor:
    """Return the precision at rank m of each query, which equals the recall there: h(m) / m.

    Args:
        preds: scores, (D,), (Q, D), or any shape with ``indexes``; see
            :func:`torch_ap.functional.retrieval_average_precision`.
        target: shape of ``preds``; integers, bool or floats: the relevance of each item.
        ties: "expected", "grouped", "optimistic" or "pessimistic"; see :func:`torch_ap.functional.retrieval_precision`.
        **options: see :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        0-d for (D,) scores, (Q,) for (Q, D); with ``indexes`` (Q,), ascending by query. In [0, 1].

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals trec_eval's ``Rprec`` and ``torchmetrics.functional.retrieval_r_precision`` if no scores are tied.

    Source: Buckley & Voorhees (2000).

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_r_precision
        >>> retrieval_r_precision(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]))
        tensor(0.5000)
    """
    measure = _r_precision(ties)
    return evaluate_queries(measure, preds, target, **options)


@with_query_options
def retrieval_hit_rate(
    preds: Tensor, target: Tensor, top_k: TopKs = None, *, ties: Ties = "expected", **options: "Unpack[QueryOptions]"
) -> Tensor:
    """Return whether the top k of each query contains a relevant item: 1 or 0.

    Args:
        preds: scores, (D,), (Q, D), or any shape with ``indexes``; see
            :func:`torch_ap.functional.retrieval_average_precision`.
        target: shape of ``preds``; integers, bool or floats: the relevance of each item.
        top_k: k of at least 1, "relevant" for m, a list of different ranks, or None for all items of the query.
        ties: "expected" for the probability over all orders of equal scores; "optimistic", "pessimistic"; "grouped" for
            whether the whole first group with a relevant item is in the top k.
        **options: see :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        0-d for (D,) scores, (Q,) for (Q, D); with ``indexes`` (Q,), ascending by query. (K,) or (Q, K) for a list of
        ``top_k``. In [0, 1].

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals trec_eval's ``success_k`` and ``torchmetrics.functional.retrieval_hit_rate`` if no scores are tied.

    Source: McSherry & Najork (2008) for ties.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_hit_rate
        >>> retrieval_hit_rate(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 0]), top_k=2)
        tensor(0.)
    """
    measure = measure_at_ranks(top_k, lambda k: _first_hit("hit_rate", k, ties))
    return evaluate_queries(measure, preds, target, **options)


class _PrecisionRecallAtK(NamedTuple):
    precision: Tensor
    recall: Tensor
    k: Tensor


class PrecisionRecallAtK(Record, _PrecisionRecallAtK):
    """Precision and recall in the top k, for each k.

    Attributes:
        precision: (K,), or (Q, K) for several queries.
        recall: of the same shape.
        k: (K,) int64, the ranks from 1 on.
    """

    __slots__ = ()


@with_query_options
def retrieval_precision_recall_curve(
    preds: Tensor,
    target: Tensor,
    max_k: int | None = None,
    adaptive_k: bool = False,
    *,
    ties: Ties = "expected",
    **options: "Unpack[QueryOptions]",
) -> PrecisionRecallAtK:
    """Return precision and recall of each query at every rank from 1 on: h(k) / k and h(k) / m.

    Args:
        preds: scores, (D,), (Q, D), or any shape with ``indexes``; see
            :func:`torch_ap.functional.retrieval_average_precision`.
        target: shape of ``preds``; integers, bool or floats: the relevance of each item.
        max_k: the last rank, at least 1; None for the length of the longest ranking.
        adaptive_k: whether precision beyond the n items of a query is hits / n. By default, missing items
            count as not relevant.
        ties: see :func:`torch_ap.functional.retrieval_precision`.
        **options: see :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        ``PrecisionRecallAtK`` of (K,) tensors for (D,) scores, else of (Q, K) tensors and (K,) ranks.

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals ``torchmetrics.functional.retrieval_precision_recall_curve`` if no scores are tied. Use
    :func:`torch_ap.functional.retrieval_curve` for means over queries: it needs far less memory.

    Source: Salton & McGill (1983), Introduction to Modern Information Retrieval.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_precision_recall_curve
        >>> curve = retrieval_precision_recall_curve(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]), max_k=2)
        >>> curve.precision, curve.recall, curve.k
        (tensor([1.0000, 0.5000]), tensor([0.5000, 0.5000]), tensor([1, 2]))
    """
    checks.floating_dtype("dtype", dtype := options.pop("dtype", None))
    measures = [AtEveryRank(ratio, max_k, adaptive_k, ties) for ratio in ("precision", "recall")]
    rankings, settings, single = rank_batch(preds, target, **options)
    values = [settings.per_query(rankings, x).values.to(dtype or result_dtype(preds.dtype)) for x in measures]
    precision, recall = (x[0] if single else x for x in values)
    return PrecisionRecallAtK(precision, recall, measures[0].ranks(rankings.curve))
