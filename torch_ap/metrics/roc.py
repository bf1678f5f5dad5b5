"""The area under the ROC curve of queries as a metric: the function of that name, averaged over queries."""

from collections.abc import Callable
from typing import Any

from torch_ap.curve.roc import AUROC
from torch_ap.curve.top_k import at_each
from torch_ap.metrics.queries import QueryMetric
from torch_ap.rules.options import Action, Ties, TopKs


class RetrievalAUROC(QueryMetric):
    """Mean area under the ROC curve over queries; see :func:`torch_ap.functional.retrieval_auroc`.

    Replaces ``torchmetrics.retrieval.RetrievalAUROC``: same names, positions and keywords. It differs on purpose where
    every query is skipped: NaN with a warning, not 0; and a query all of whose items in the top k are relevant counts
    as ``empty_target_action`` says, not always 0.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such for a value of
            each, or None for all items of a query.
        max_fpr: the fall-out up to which the area counts, above 0 and at most 1; None for all of it.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalAUROC
        >>> metric = RetrievalAUROC()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    summary_name = "auroc"

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        top_k: TopKs = None,
        max_fpr: float | None = None,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = at_each(top_k, lambda k: AUROC(k, max_fpr, ties))
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)
        self.max_fpr = max_fpr
