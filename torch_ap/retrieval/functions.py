"""Measures of search and recommendation: one value per query, without state.

Measures of whole rankings or of the top k, and precision and recall at every rank, as in the retrieval curve of
torchmetrics.
"""

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from torch_ap.core.base import cached, checks
from torch_ap.core.base.options import Action, Denominator, Gains, Interpolation, Ties, TopKs
from torch_ap.core.base.record import Record
from torch_ap.core.items.settings import result_dtype
from torch_ap.core.measures.convention import Convention, query_convention
from torch_ap.core.measures.measure import measure_at_ranks
from torch_ap.retrieval.measures.at_rank import AtEveryRank, AtRank, FirstHit, RPrecision
from torch_ap.retrieval.measures.gain import NormalizedDCG
from torch_ap.retrieval.measures.roc import AUROC
from torch_ap.retrieval.settings import evaluate_queries, rank_batch, with_query_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from torch_ap.retrieval.settings import BatchOptions, QueryOptions

_auroc, _first_hit = cached.settings_cache(AUROC), cached.settings_cache(FirstHit)
_normalized_dcg = cached.settings_cache(NormalizedDCG)
_at_rank, _r_precision = cached.settings_cache(AtRank), cached.settings_cache(RPrecision)


@with_query_options
def retrieval_average_precision(
    preds: Tensor,
    target: Tensor,
    top_k: TopKs = None,
    *,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties | None = None,
    convention: Convention | None = None,
    **options: "Unpack[QueryOptions]",
) -> Tensor:
    r"""Return the average precision of each query: the mean, over its relevant items, of the precision at their ranks.

    .. math::
        AP = \frac{1}{m} \sum_{i : y_i = 1} p(t_i), \qquad p(t) = \frac{h(t)}{t}

    with m relevant items, h(t) of them among the top t, and t_i the rank of relevant item i. Relevant items that were
    not retrieved add 0. The ranking is by descending score.

    Args:
        preds: floating or integer scores without NaN, ranked unchanged. (D,) for one query, (Q, D) for one query per
            row, or any shape with ``indexes``.
        target: shape of ``preds``; integers, bool or floats. An item is relevant if its target is at least
            ``relevance_level``.
        top_k: k of at least 1: AP@k, which sums over the relevant items in the top k. "relevant" for m of each query
            (MAP@R, for every ``denominator`` except "found"). A list of different ranks gives one value for each, from
            one sort.
        denominator: divisor of AP@k: "min" min(k, m), "relevant" m, "found" the relevant items in the top k. Without
            effect if ``top_k`` is None, where AP divides by m. Cannot be combined with ``interpolation``.
        interpolation: None for the sum above; "11-point", "101-point", "all-points", "trapezoid" or a 1-D tensor of
            recall levels in [0, 1]. "11-point-arange" has the levels of ``numpy.arange(0, 1.1, 0.1)``, where 0.3, 0.6
            and 0.7 are larger in their last bit. "11-point-trec9" and "11-point-trec10" cut like trec_eval 9 and 10, at
            int(l m + 0.9) and round(l m) hits.
        ties: how equal scores count: "expected" (mean over all their orders), "grouped" (they enter together),
            "optimistic", "pessimistic". None, the default: "expected", or "grouped" with ``interpolation``, where the
            mean has no closed form.
        convention: the four settings above as one :class:`torch_ap.Convention`, instead of them. Its ``ties`` are used
            unchanged.
        indexes: integers in the shape of ``preds``, except uint64: the query of each item. Any values, in any order.
        mask: bool, in the shape of ``preds``: True for items that exist. All other items are ignored.
        num_relevant: number of relevant items of each query, including items that were not retrieved: (Q,) integers
            for rows; with ``indexes`` a dict {query: m} or integers in the shape of ``preds``; an int for one query.
            A dict may contain queries without items. At least the number of relevant items in ``target``, which is
            the default.
        ignore_index: target value of items to ignore.
        relevance_level: the lowest relevant target, any finite number. None, the default, is 1; a target that is not a
            grade (negative, or a fraction) then raises instead of being not relevant.
        empty_target_action: value of a query without relevant items: "neg" 0, "pos" 1, "nan" and "skip" NaN, "error"
            raises. A row without items is NaN.
        missing_queries: value of a query that has judgements but no items: "neg" 0 (if its m is 0, the value of
            ``empty_target_action``), "skip" NaN, "error" raises.
        dtype: floating dtype of the result. Default: float64 for float64 scores, else float32.
        **options: the keywords from ``indexes`` to ``dtype``.

    Returns:
        0-d for (D,) scores, (Q,) for (Q, D); with ``indexes`` (Q,), ascending by query, including the queries of
        ``num_relevant``. With a list of K ``top_k`` (K,) and (Q, K). In [0, 1].

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals trec_eval's ``map`` and, with ``denominator="relevant"``, its ``map_cut_k``, if no scores are tied and
    ``num_relevant`` counts the relevant judgements; pytorch-metric-learning's ``mean_average_precision_at_r`` with
    ``top_k="relevant"``; ``torchmetrics.functional.retrieval_average_precision`` with ``denominator="found"`` and
    positive untied scores; ``sklearn.metrics.average_precision_score`` of each query with ``ties="grouped"``.

    Source: Buckley & Voorhees (2000), Evaluating Evaluation Measure Stability; Zhu (2004), eq. 2. "expected": McSherry
    & Najork (2008), section 3. MAP@R: Musgrave, Belongie & Lim (2020), A Metric Learning Reality Check.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_average_precision
        >>> preds = torch.tensor([[0.9, 0.8, 0.7, 0.6], [2.0, 1.0, -1.0, -2.0]])
        >>> target = torch.tensor([[1, 0, 1, 0], [0, 1, 0, 0]])
        >>> retrieval_average_precision(preds, target)
        tensor([0.8333, 0.5000])
        >>> retrieval_average_precision(preds, target, num_relevant=torch.tensor([4, 1]))
        tensor([0.4167, 0.5000])
        >>> retrieval_average_precision(preds, target, top_k=[1, 2, "relevant"])
        tensor([[1.0000, 0.5000, 0.5000],
                [0.0000, 0.5000, 0.0000]])
    """
    measure = measure_at_ranks(top_k, lambda k: query_convention(convention, k, denominator, interpolation, ties))
    return evaluate_queries(measure, preds, target, **options)


@with_query_options
def retrieval_reciprocal_rank(
    preds: Tensor, target: Tensor, top_k: TopKs = None, *, ties: Ties = "expected", **options: "Unpack[QueryOptions]"
) -> Tensor:
    """Return 1 / (rank of the first relevant item) of each query; 0 if the top k contains no relevant item.

    Args:
        preds: scores, (D,), (Q, D), or any shape with ``indexes``; see
            :func:`torch_ap.functional.retrieval_average_precision`.
        target: shape of ``preds``; integers, bool or floats: the relevance of each item.
        top_k: k of at least 1, "relevant" for m, a list of different ranks, or None for all items of the query.
        ties: "expected" for the mean over all orders of equal scores; "optimistic", "pessimistic"; "grouped" for the
            rank at the end of the first group with a relevant item.
        **options: see :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        0-d for (D,) scores, (Q,) for (Q, D); with ``indexes`` (Q,), ascending by query. (K,) or (Q, K) for a list of
        ``top_k``. In [0, 1].

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals trec_eval's ``recip_rank`` if no scores are tied, and
    ``torchmetrics.functional.retrieval_reciprocal_rank`` for positive untied scores.

    Source: Voorhees (1999), The TREC-8 Question Answering Track Report. "expected": McSherry & Najork (2008).

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_reciprocal_rank
        >>> retrieval_reciprocal_rank(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0, 1, 0]))
        tensor(0.5000)
    """
    measure = measure_at_ranks(top_k, lambda k: _first_hit("reciprocal_rank", k, ties))
    return evaluate_queries(measure, preds, target, **options)


@with_query_options
def retrieval_normalized_dcg(
    preds: Tensor,
    target: Tensor,
    top_k: TopKs = None,
    *,
    gains: Gains = "linear",
    ties: Ties = "expected",
    retrieved: Tensor | None = None,
    **options: "Unpack[QueryOptions]",
) -> Tensor:
    r"""Return the normalized discounted cumulative gain of each query: its DCG divided by the DCG of the ideal ranking.

    .. math::
        nDCG@k = \frac{DCG@k}{IDCG@k}, \qquad DCG@k = \sum_{t=1}^{k} \frac{g(y_t)}{\log_2(t + 1)}

    with y_t the grade of the item at rank t, g its gain, and IDCG@k the DCG@k of all judged items in descending order
    of their gains.

    Args:
        preds: see :func:`torch_ap.functional.retrieval_average_precision`.
        target: shape of ``preds``: grades of at least 0, integers, bool or floats.
        top_k: k of at least 1; "relevant" for the number of judged items with a gain; a list of different ranks for a
            value of each; None for all items of the query.
        gains: "linear", the grade itself, or "exponential", 2^grade - 1, for grades of at most 1000.
        ties: how equal scores count: "expected" (mean over all their orders), "grouped" (all at the rank of the last
            item of the group), "optimistic", "pessimistic".
        retrieved: bool, in the shape of ``preds``: True for items that the system ranked. All other items were judged
            and count in the ideal ranking only; their scores may be anything.
        **options: see :func:`torch_ap.functional.retrieval_average_precision`. ``num_relevant`` is the number of items
            of each query that have a gain; items that are missing in ``preds`` have grade 1, so prefer ``retrieved``
            for other grades. ``relevance_level`` is the lowest grade that has a gain. None, the default, is the lowest
            grade above 0, and negative grades raise; with any level they count 0, as in trec_eval.
            ``empty_target_action`` applies to queries without a gain. ``missing_queries`` applies to queries with
            judgements, by ``num_relevant`` or ``retrieved``, and without ranked items.

    Returns:
        0-d for (D,) scores, (Q,) for (Q, D); with ``indexes`` (Q,), ascending by query. In [0, 1].

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals ``torchmetrics.functional.retrieval_normalized_dcg`` and ``sklearn.metrics.ndcg_score``, also for tied
    scores; trec_eval's ``ndcg`` and ``ndcg_cut_k`` if no scores are tied and ``retrieved`` is False for the judged
    documents that were not retrieved.

    Source: Järvelin & Kekäläinen (2002), Cumulated Gain-Based Evaluation of IR Techniques. Discount and "exponential":
    Burges et al. (2005), Learning to Rank Using Gradient Descent. "expected": McSherry & Najork (2008), section 3.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_normalized_dcg
        >>> preds, target = torch.tensor([0.1, 0.2, 0.3, 4.0, 70.0]), torch.tensor([10, 0, 0, 1, 5])
        >>> retrieval_normalized_dcg(preds, target)
        tensor(0.6957)
        >>> retrieval_normalized_dcg(preds, target, top_k=3, gains="exponential")
        tensor(0.0303)
    """
    measure = measure_at_ranks(top_k, lambda k: _normalized_dcg(k, gains, ties))
    return evaluate_queries(measure, preds, target, retrieved, **options)


@with_query_options
def retrieval_auroc(
    preds: Tensor,
    target: Tensor,
    top_k: TopKs = None,
    max_fpr: float | None = None,
    *,
    ties: Ties = "expected",
    **options: "Unpack[QueryOptions]",
) -> Tensor:
    """Return the area under the ROC curve of each query: the share of pairs with the relevant item above the other.

    Args:
        preds: scores, (D,), (Q, D), or any shape with ``indexes``; see
            :func:`torch_ap.functional.retrieval_average_precision`.
        target: shape of ``preds``; integers, bool or floats: the relevance of each item.
        top_k: k of at least 1, "relevant" or a list of different ranks: only pairs in the top k count. None for all.
        max_fpr: the highest fall-out of the area, above 0 and at most 1. The area is scaled so that chance is 1/2 and
            the best value is 1 (McClish). None for the whole area.
        ties: "expected" (mean over all orders of equal scores), "grouped" (a straight line through the group, equal to
            "expected" without ``max_fpr`` and ``top_k``; a group that straddles ``top_k`` has its share above),
            "optimistic", "pessimistic".
        **options: see :func:`torch_ap.functional.retrieval_average_precision`. Relevant items of ``num_relevant`` that
            were not retrieved are in no pair. A query whose relevant items are all below the top k counts 0.
            ``empty_target_action`` applies to queries without a pair: with no relevant item, or only relevant items in
            the top k.

    Returns:
        0-d for (D,) scores, (Q,) for (Q, D); with ``indexes`` (Q,), ascending by query. (K,) or (Q, K) for a list of
        ``top_k``. In [0, 1].

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals ``sklearn.metrics.roc_auc_score`` of each query, also with ``max_fpr`` if ``ties="grouped"``, and
    ``torchmetrics.functional.retrieval_auroc`` if no ties straddle ``top_k``.

    Source: Hanley & McNeil (1982), The Meaning and Use of the Area under a ROC Curve; McClish (1989), Analyzing a
    Portion of the ROC Curve.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_auroc
        >>> retrieval_auroc(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]))
        tensor(0.5000)
    """
    measure = measure_at_ranks(top_k, lambda k: _auroc(k, max_fpr, ties))
    return evaluate_queries(measure, preds, target, **options)


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
    own: QueryOptions = {"dtype": dtype, "empty_target_action": empty_target_action, **options}
    measure = measure_at_ranks(top_k, lambda k: _at_rank("fall_out", k, False, 1.0, ties))
    return evaluate_queries(measure, preds, target, **own)


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
    return evaluate_queries(_r_precision(ties), preds, target, **options)


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
