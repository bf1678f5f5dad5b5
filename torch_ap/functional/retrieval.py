"""Average precision of search and recommendation, one value per query: tensors in, tensors out, no state."""

import torch
from torch import Tensor

from torch_ap.curve.convention import Convention, query_convention
from torch_ap.curve.top_k import at_each
from torch_ap.evaluation.queries import each_query
from torch_ap.rules.options import Action, Denominator, Interpolation, MissingQueries, NumRelevant, Ties, TopKs


def retrieval_average_precision(
    preds: Tensor,
    target: Tensor,
    top_k: TopKs = None,
    *,
    denominator: Denominator = "min",
    interpolation: Interpolation = None,
    ties: Ties | None = None,
    convention: Convention | None = None,
    indexes: Tensor | None = None,
    mask: Tensor | None = None,
    num_relevant: NumRelevant = None,
    ignore_index: int | None = None,
    relevance_level: float | None = None,
    empty_target_action: Action = "neg",
    missing_queries: MissingQueries = "neg",
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""Average precision of each query: the mean, over its relevant items, of the precision where each is found.

    .. math::
        AP = \frac{1}{m} \sum_{i : y_i = 1} p(t_i), \qquad p(t) = \frac{h(t)}{t}

    with m relevant items, h(t) of them among the top t, and t_i the rank of relevant item i; one that was not retrieved
    adds 0. The ranking is by descending score.

    Args:
        preds: floating or integer scores, no NaN, ranked as they are. (D,) for one query, (Q, D) for a
            query a row, or any shape with ``indexes``.
        target: of the shape of ``preds``; integers, bool or floats. Relevant is what is at least ``relevance_level``.
        top_k: k of at least 1: AP@k, which sums over the relevant items in the top k. "relevant" for m of each query
            (MAP@R, whatever ``denominator`` but "found"). A list of different ones for a value of each, from one sort.
        denominator: what AP@k divides by: "min" min(k, m), "relevant" m, "found" the relevant items in the top k.
            Of no effect without ``top_k``: AP divides by m. Refused with ``interpolation``.
        interpolation: None for the sum above; "11-point", "101-point", "all-points", "trapezoid" or a 1-D tensor of
            recall levels in [0, 1]; "11-point-arange" has the levels of ``numpy.arange(0, 1.1, 0.1)``, of which 0.3,
            0.6 and 0.7 are a bit larger; "11-point-trec9" and "11-point-trec10" cut as trec_eval 9 and 10 do, at
            int(l m + 0.9) and round(l m) hits.
        ties: how equal scores count: "expected" (mean over all their orders), "grouped" (they enter together),
            "optimistic", "pessimistic". None, the default: "expected", or "grouped" with ``interpolation``, which has
            no closed form for the mean.
        convention: those four as one :class:`torch_ap.Convention`, instead of them; its ``ties`` are as it says.
        indexes: integers of the shape of ``preds`` but not uint64, the query of each item, of any value, in any order.
        mask: bool, of the shape of ``preds``: which items there are. The others may hold anything.
        num_relevant: how many items are relevant to each query, those that were not retrieved included: (Q,) integers
            for rows; with ``indexes`` a dict {query: m} or integers of the shape of ``preds``; an int for one query.
            A dict may name queries without items. At least the relevant items in ``target``, which is the default.
        ignore_index: target value of items that do not count.
        relevance_level: the lowest target that is relevant, any finite number. None, the default, is 1, and a target
            that is not a grade (negative, or a fraction) is then an error instead of not relevant.
        empty_target_action: what a query without relevant items counts as: "neg" 0, "pos" 1, "nan" and "skip" NaN,
            "error" raises. A row without items is NaN.
        missing_queries: what a query counts as that has judgements and no items: "neg" 0 (but where its m is 0 as
            ``empty_target_action`` says), "skip" NaN, "error" raises.
        dtype: of the result, floating. Default: float64 for float64 scores, else float32.

    Returns:
        0-d for (D,) scores, (Q,) for (Q, D); with ``indexes`` (Q,), ascending by query, those of ``num_relevant``
        included. With a list of K ``top_k`` (K,) and (Q, K). In [0, 1].

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules; the message names it.

    Equals trec_eval's ``map`` and, with ``denominator="relevant"``, its ``map_cut_k``, where no scores are tied and
    ``num_relevant`` is what the judgements say; pytorch-metric-learning's ``mean_average_precision_at_r`` with
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
    measure = at_each(top_k, lambda k: query_convention(convention, k, denominator, interpolation, ties))
    queries = (indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries)
    return each_query(measure, preds, target, *queries, dtype)
