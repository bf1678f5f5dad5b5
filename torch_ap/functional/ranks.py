"""Precision and recall at every rank, as torchmetrics' retrieval curve has them."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_ap.curve.measures import AtEveryRank
from torch_ap.evaluation.average_precision import result_dtype
from torch_ap.evaluation.queries import MeasureSettings
from torch_ap.inputs.queries import QueryInputs
from torch_ap.inputs.query_rankings import rankings_of
from torch_ap.rules import checks
from torch_ap.rules.options import Action, MissingQueries, NumRelevant, Ties


class PrecisionRecallAtK(NamedTuple):
    """Precision and recall in the top k, for each k.

    Attributes:
        precision: (K,), or (Q, K) for several queries.
        recall: of the same shape.
        k: (K,) int64, the ranks from 1 on.
    """

    precision: Tensor
    recall: Tensor
    k: Tensor


def retrieval_precision_recall_curve(
    preds: Tensor,
    target: Tensor,
    max_k: int | None = None,
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
) -> PrecisionRecallAtK:
    """Precision and recall of each query at every rank from 1 on: h(k) / k and h(k) / m.

    Args:
        preds, target: as in :func:`torch_ap.functional.retrieval_average_precision`.
        max_k: the last rank, at least 1; None for the length of the longest ranking.
        adaptive_k: whether precision beyond the n items of a query is hits / n. Else the missing ones count as not
            relevant.
        ties: as in :func:`torch_ap.functional.retrieval_precision`.
        indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries, dtype: as in
            :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        :class:`PrecisionRecallAtK` of (K,) tensors for (D,) scores, else of (Q, K) ones and the (K,) ranks.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``torchmetrics.functional.retrieval_precision_recall_curve`` where no scores are tied; the means over queries
    are those of :func:`torch_ap.functional.retrieval_curve`, which takes far less memory for them.

    Source: Salton & McGill (1983), Introduction to Modern Information Retrieval.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_precision_recall_curve
        >>> found = retrieval_precision_recall_curve(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]), max_k=2)
        >>> found.precision, found.recall, found.k
        (tensor([1.0000, 0.5000]), tensor([0.5000, 0.5000]), tensor([1, 2]))
    """
    checks.floating_dtype("dtype", dtype)
    measures = [AtEveryRank(ratio, max_k, adaptive_k, ties) for ratio in ("precision", "recall")]
    single = indexes is None and isinstance(preds, Tensor) and preds.ndim == 1
    inputs = QueryInputs(ignore_index, relevance_level, copies=False, single=single)
    settings = MeasureSettings(measures[0], inputs, empty_target_action, missing_queries)
    batch = inputs.validate(preds, target, indexes, mask, num_relevant)
    inputs.raise_broken(batch)
    rankings = rankings_of(batch, single=single)
    found = [settings.each(rankings, x).values.to(dtype or result_dtype(preds.dtype)) for x in measures]
    precision, recall = (x[0] if single else x for x in found)
    return PrecisionRecallAtK(precision, recall, measures[0].ranks(rankings.curve))
