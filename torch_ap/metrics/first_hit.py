"""Measures of where a query's first relevant item lies as metrics: hit rate and reciprocal rank."""

from torch_ap.curve.measures import FirstHit
from torch_ap.metrics.retrieval_at_k import TopKMetric
from torch_ap.rules.options import Ties, TopK


class RetrievalHitRate(TopKMetric):
    """Share of queries with a relevant item in the top k; see :func:`torch_ap.functional.retrieval_hit_rate`.

    Replaces ``torchmetrics.retrieval.RetrievalHitRate``: same names, positions and keywords. It differs on purpose
    where every query is skipped: NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such for a value of
            each, or None for all items of a query.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalHitRate
        >>> metric = RetrievalHitRate(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(1.)
    """

    summary_name = "hit_rate"

    @classmethod
    def _measure(cls, top_k: TopK, ties: Ties) -> FirstHit:
        return FirstHit("hit_rate", top_k, ties)


class RetrievalMRR(TopKMetric):
    """Mean reciprocal rank over queries; see :func:`torch_ap.functional.retrieval_reciprocal_rank`.

    Replaces ``torchmetrics.retrieval.RetrievalMRR``: same names, positions and keywords. It differs on
    purpose: scores of 0 and below rank as they are, and where every query is skipped it is NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such for a value of
            each, or None for all items of a query.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalMRR
        >>> metric = RetrievalMRR()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    summary_name = "mrr"

    @classmethod
    def _measure(cls, top_k: TopK, ties: Ties) -> FirstHit:
        return FirstHit("reciprocal_rank", top_k, ties)
