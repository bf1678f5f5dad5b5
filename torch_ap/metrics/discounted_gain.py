"""Normalized discounted cumulative gain as a metric: the function of that name, averaged over queries."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from torch_ap.curve.discounted_gain import NormalizedDCG
from torch_ap.curve.top_k import at_each
from torch_ap.inputs.samples import SampleIds
from torch_ap.metrics.queries import QueryMetric
from torch_ap.rules.options import Action, Gains, Ties, TopKs


class RetrievalNormalizedDCG(QueryMetric):
    """Mean nDCG over queries; see :func:`torch_ap.functional.retrieval_normalized_dcg`.

    Replaces ``torchmetrics.retrieval.RetrievalNormalizedDCG``: same names, positions and keywords. It differs on
    purpose where grades are negative, which are refused unless there is a ``relevance_level``, and where every query is
    skipped: NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such for a value of
            each, or None for all items of a query.
        gains: "linear", the grade itself, or "exponential", 2^grade - 1.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, the lowest grade that has a gain, ``missing_queries`` (see there too) and those of
            ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalNormalizedDCG
        >>> metric = RetrievalNormalizedDCG()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 2, 0, 3])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.8240)
    """

    summary_name = "ndcg"

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        top_k: TopKs = None,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        gains: Gains = "linear",
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = at_each(top_k, lambda k: NormalizedDCG(k, gains, ties))
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)

    def update(
        self,
        preds: Tensor | None = None,
        target: Tensor | None = None,
        indexes: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        retrieved: Tensor | None = None,
        num_relevant: Tensor | dict[int, int] | None = None,
        sample_ids: SampleIds = None,
    ) -> None:
        """Add a batch, as :meth:`torch_ap.metrics.queries.QueryMetric.update` does; targets are grades.

        Args:
            preds, indexes, mask, sample_ids: as there.
            target: of the shape of ``preds``; grades of at least 0, integers, bool or floats.
            retrieved: bool, of the shape of ``preds``: which of the items the system ranked. The others were judged,
                and have a part in the ideal ranking only; their scores may be anything.
            num_relevant: how many items of each query have a gain, as there; those not among the items have grade 1.

        Raises:
            TypeError, ValueError: as there.
        """
        self._add(preds, target, indexes, mask, num_relevant, sample_ids, retrieved)
