"""Measures of search and recommendation, a value a query: tensors in, tensors out, no state."""

from torch import Tensor
from typing_extensions import Unpack

from torch_ap.curve.convention import Convention
from torch_ap.curve.measures import AtRank, RPrecision
from torch_ap.evaluation.per_query import QueryInterpolation, QuerySettings, each_query
from torch_ap.functional.first_hit import retrieval_hit_rate, retrieval_reciprocal_rank
from torch_ap.rules.options import Denominator, Ties
from torch_ap.runtime import cached

__all__ = [
    "retrieval_average_precision",
    "retrieval_f_beta",
    "retrieval_fall_out",
    "retrieval_hit_rate",
    "retrieval_precision",
    "retrieval_r_precision",
    "retrieval_recall",
    "retrieval_reciprocal_rank",
]

_at_rank, _r_precision = cached.settings_cache(AtRank), cached.settings_cache(RPrecision)


def retrieval_average_precision(
    preds: Tensor,
    target: Tensor,
    top_k: int | None = None,
    *,
    denominator: Denominator = "min",
    interpolation: QueryInterpolation = None,
    ties: Ties | None = None,
    **settings: Unpack[QuerySettings],
) -> Tensor:
    r"""Average precision of each query: the mean, over its relevant items, of the precision where each is found.

    .. math::
        AP = \frac{1}{m} \sum_{i : y_i = 1} p(t_i), \qquad p(t) = \frac{h(t)}{t}

    with m relevant items, h(t) of them among the top t, and t_i the rank of relevant item i; one that was not retrieved
    adds 0. The ranking is by descending score.

    Args:
        preds: floating or integer scores, any number but NaN, ranked as they are. (D,) for one query, (Q, D) for a
            query a row, or any shape with ``indexes``.
        target: of the shape of ``preds``; integers, bool or floats. Relevant is what is at least ``relevance_level``.
        top_k: k of at least 1: AP@k, which sums over the relevant items in the top k.
        denominator: what AP@k divides by: "min" min(k, m), "relevant" m, "found" the relevant items in the top k.
            Of no effect without ``top_k``: AP divides by m. Refused with ``interpolation``.
        interpolation: None for the sum above; "11-point", "101-point", "all-points", "trapezoid" or a 1-D tensor of
            recall levels in [0, 1]; "11-point-arange" has the levels of ``numpy.arange(0, 1.1, 0.1)``, of which 0.3,
            0.6 and 0.7 are a bit larger; "11-point-trec9" and "11-point-trec10" cut as trec_eval 9 and 10 do, at
            int(l m + 0.9) and round(l m) hits.
        ties: how equal scores count: "expected" (mean over all their orders), "grouped" (they enter together),
            "optimistic", "pessimistic". None, the default: "expected", or "grouped" with ``interpolation``, which has
            no closed form for the mean.
        indexes: integers of the shape of ``preds`` but not uint64, the query of each item, of any value, in any order.
        mask: bool, of the shape of ``preds``: which items there are. The others may hold anything.
        num_relevant: how many items are relevant to each query, those that were not retrieved included: (Q,) integers
            for rows; with ``indexes`` a dict {query: m} or integers of the shape of ``preds``; an int for one query.
            A dict may name queries without items. At least the relevant items in ``target``, which is the default.
        ignore_index: target value of items that do not count.
        relevance_level: the lowest target that is relevant, any finite number. None, the default, is 1, and a target
            that is no grade (negative, or a fraction) is then an error rather than not relevant.
        empty_target_action: what a query without relevant items counts as: "neg" 0, "pos" 1, "nan" and "skip" NaN,
            "error" raises. A row without items is NaN.
        missing_queries: what a query counts as that has judgements and no items: "neg" 0 (but where its m is 0 as
            ``empty_target_action`` says), "skip" NaN, "error" raises.
        dtype: of the result, floating. Default: float64 for float64 scores, else float32.

    Returns:
        0-d for (D,) scores, (Q,) for (Q, D); with ``indexes`` (Q,), ascending by query, those of ``num_relevant``
        included. In [0, 1].

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules; the message names it.

    Equals trec_eval's ``map`` and, with ``denominator="relevant"``, its ``map_cut_k``, where no scores are tied and
    ``num_relevant`` is what the judgements say; ``torchmetrics.functional.retrieval_average_precision`` with
    ``denominator="found"`` and positive untied scores; ``sklearn.metrics.average_precision_score`` of each query with
    ``ties="grouped"``.

    Source: Buckley & Voorhees (2000), Evaluating Evaluation Measure Stability; Zhu (2004), eq. 2. "expected": McSherry
    & Najork (2008), section 3.

    Example:
        >>> import torch
        >>> from torch_ap.functional.retrieval import retrieval_average_precision
        >>> preds = torch.tensor([[0.9, 0.8, 0.7, 0.6], [2.0, 1.0, -1.0, -2.0]])
        >>> target = torch.tensor([[1, 0, 1, 0], [0, 1, 0, 0]])
        >>> retrieval_average_precision(preds, target)
        tensor([0.8333, 0.5000])
        >>> retrieval_average_precision(preds, target, num_relevant=torch.tensor([4, 1]))
        tensor([0.4167, 0.5000])
    """
    return each_query(Convention.of_queries(top_k, denominator, interpolation, ties), preds, target, **settings)


def retrieval_precision(
    preds: Tensor,
    target: Tensor,
    top_k: int | None = None,
    adaptive_k: bool = False,
    *,
    ties: Ties = "expected",
    **settings: Unpack[QuerySettings],
) -> Tensor:
    """Precision at k of each query: h(k) / k.

    Args:
        preds, target: as in :func:`retrieval_average_precision`.
        top_k: k of at least 1; None for all n items of the query.
        adaptive_k: divide by n where a query has fewer than k items. Else the missing ones count as not relevant.
        ties: whether a group of equal scores that straddles rank k counts with its share of relevant items ("expected"
            and "grouped"), with its relevant items first ("optimistic") or last ("pessimistic").
        settings: ``indexes``, ``mask``, ``num_relevant``, ``ignore_index``, ``relevance_level``,
            ``empty_target_action``, ``missing_queries``, ``dtype`` as in :func:`retrieval_average_precision`.

    Returns:
        0-d or (Q,), as there.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals trec_eval's ``P_k`` and ``torchmetrics.functional.retrieval_precision`` where no scores are tied.

    Source: Zhu (2004), section 1. Share of tied groups: Raghavan, Bollmann & Jung (1989).

    Example:
        >>> import torch
        >>> from torch_ap.functional.retrieval import retrieval_precision
        >>> retrieval_precision(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]), top_k=2)
        tensor(0.5000)
    """
    return each_query(_at_rank("precision", top_k, adaptive_k, 1.0, ties), preds, target, **settings)


def retrieval_recall(
    preds: Tensor,
    target: Tensor,
    top_k: int | None = None,
    *,
    ties: Ties = "expected",
    **settings: Unpack[QuerySettings],
) -> Tensor:
    """Recall at k of each query: h(k) / m.

    Args:
        preds, target, top_k, ties, settings: as in :func:`retrieval_precision`.

    Returns:
        0-d or (Q,), as there.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals trec_eval's ``recall_k`` and ``torchmetrics.functional.retrieval_recall`` where no scores are tied.

    Source: Zhu (2004), section 1.

    Example:
        >>> import torch
        >>> from torch_ap.functional.retrieval import retrieval_recall
        >>> retrieval_recall(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]), top_k=2)
        tensor(0.5000)
    """
    return each_query(_at_rank("recall", top_k, False, 1.0, ties), preds, target, **settings)


def retrieval_f_beta(
    preds: Tensor,
    target: Tensor,
    top_k: int | None = None,
    beta: float = 1.0,
    *,
    ties: Ties = "expected",
    **settings: Unpack[QuerySettings],
) -> Tensor:
    """F_beta at k of each query: (1 + beta^2) h(k) / (beta^2 m + k), which combines precision and recall at k.

    Args:
        preds, target, top_k, ties, settings: as in :func:`retrieval_precision`.
        beta: how many times as much as precision recall counts; at least 0.

    Returns:
        0-d or (Q,), as there.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``sklearn.metrics.fbeta_score`` of "is in the top k" where a query has at least k items and none are tied.

    Source: van Rijsbergen (1979), Information Retrieval, chapter 7.

    Example:
        >>> import torch
        >>> from torch_ap.functional.retrieval import retrieval_f_beta
        >>> retrieval_f_beta(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]), top_k=1)
        tensor(0.6667)
    """
    return each_query(_at_rank("f_beta", top_k, False, beta, ties), preds, target, **settings)


def retrieval_fall_out(
    preds: Tensor,
    target: Tensor,
    top_k: int | None = None,
    *,
    ties: Ties = "expected",
    **settings: Unpack[QuerySettings],
) -> Tensor:
    """Fall-out at k of each query: the share of its items that are not relevant that lies in the top k.

    Args:
        preds, target, top_k, ties, settings: as in :func:`retrieval_precision`. It is undefined, and counts as
            ``empty_target_action`` (default "pos", 1) says, for a query all of whose items are relevant. A query that
            has judgements and no items counts 0 by ``missing_queries="neg"``, whatever its m; 0 is the best value.

    Returns:
        0-d or (Q,), as there.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``torchmetrics.functional.retrieval_fall_out`` where it is defined and no scores are tied.

    Source: van Rijsbergen (1979), Information Retrieval, chapter 7.

    Example:
        >>> import torch
        >>> from torch_ap.functional.retrieval import retrieval_fall_out
        >>> retrieval_fall_out(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0, 0, 1]), top_k=2)
        tensor(0.5000)
    """
    settings.setdefault("empty_target_action", "pos")
    return each_query(_at_rank("fall_out", top_k, False, 1.0, ties), preds, target, **settings)


def retrieval_r_precision(
    preds: Tensor, target: Tensor, *, ties: Ties = "expected", **settings: Unpack[QuerySettings]
) -> Tensor:
    """Precision at rank m of each query, which is recall there too: h(m) / m.

    Args:
        preds, target, ties, settings: as in :func:`retrieval_precision`.

    Returns:
        0-d or (Q,), as there.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals trec_eval's ``Rprec`` and ``torchmetrics.functional.retrieval_r_precision`` where no scores are tied.

    Source: Buckley & Voorhees (2000).

    Example:
        >>> import torch
        >>> from torch_ap.functional.retrieval import retrieval_r_precision
        >>> retrieval_r_precision(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]))
        tensor(0.5000)
    """
    return each_query(_r_precision(ties), preds, target, **settings)
