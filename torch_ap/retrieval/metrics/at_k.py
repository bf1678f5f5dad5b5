"""Metrics of the top k of queries: functions of ``torch_ap.functional``, averaged over queries."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch_ap.core.base.options import Action, Ties, TopKs
from torch_ap.core.measures.measure import measure_at_ranks
from torch_ap.retrieval.measures.at_rank import AtRank, FirstHit, RPrecision
from torch_ap.retrieval.metrics.query_metric import QueryMetric, TopKMetric


class RetrievalPrecision(QueryMetric):
    """Mean precision at k over queries; see :func:`torch_ap.functional.retrieval_precision`.

    Replaces ``torchmetrics.retrieval.RetrievalPrecision``: same names, positions and keywords. Intended
    difference: if every query is skipped, the value is NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: see :class:`torch_ap.retrieval.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such ranks for a
            value of each, or None for all items of a query.
        adaptive_k: whether to divide by n if a query has fewer than k items; without ``top_k``, k is always n.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        **kwargs: ``relevance_level``, ``missing_queries`` (see there) and the keywords of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalPrecision
        >>> metric = RetrievalPrecision(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.5000)
    """

    _summary_name = "precision"

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        top_k: TopKs = None,
        adaptive_k: bool = False,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = measure_at_ranks(top_k, lambda k: AtRank("precision", k, adaptive_k, ties=ties))
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)
        self.adaptive_k = adaptive_k


class RetrievalRecall(TopKMetric):
    """Mean recall at k over queries; see :func:`torch_ap.functional.retrieval_recall`.

    Replaces ``torchmetrics.retrieval.RetrievalRecall``: same names, positions and keywords. Intended
    difference: if every query is skipped, the value is NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: see :class:`torch_ap.retrieval.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such ranks for a
            value of each, or None for all items of a query.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        **kwargs: ``relevance_level``, ``missing_queries`` (see there) and the keywords of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalRecall
        >>> metric = RetrievalRecall(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    _summary_name = "recall"
    _measure = partial(AtRank, "recall")


class RetrievalFBeta(QueryMetric):
    """Mean F_beta at k over queries; see :func:`torch_ap.functional.retrieval_f_beta`.

    Args:
        empty_target_action, ignore_index, aggregation: see :class:`torch_ap.retrieval.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such ranks for a
            value of each, or None for all items of a query.
        beta: weight of recall relative to precision; at least 0, with a finite square.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        **kwargs: ``relevance_level``, ``missing_queries`` (see there) and the keywords of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalFBeta
        >>> metric = RetrievalFBeta(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.5833)
    """

    _summary_name = "f_beta"

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        top_k: TopKs = None,
        beta: float = 1.0,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = measure_at_ranks(top_k, lambda k: AtRank("f_beta", k, beta=beta, ties=ties))
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)


class RetrievalRPrecision(QueryMetric):
    """Mean R-precision over queries; see :func:`torch_ap.functional.retrieval_r_precision`.

    Replaces ``torchmetrics.retrieval.RetrievalRPrecision``: same names, positions and keywords. Intended
    difference: if every query is skipped, the value is NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: see :class:`torch_ap.retrieval.QueryMetric`.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        **kwargs: ``relevance_level``, ``missing_queries`` (see there) and the keywords of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalRPrecision
        >>> metric = RetrievalRPrecision()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    _summary_name = "r_precision"

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        super().__init__(RPrecision(ties), empty_target_action, ignore_index, aggregation, **kwargs)


class RetrievalFallOut(TopKMetric):
    """Mean fall-out at k over queries; see :func:`torch_ap.functional.retrieval_fall_out`.

    Replaces ``torchmetrics.retrieval.RetrievalFallOut``: same names, positions and keywords. Intended
    difference: if every query is skipped, the value is NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: see :class:`torch_ap.retrieval.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such ranks for a
            value of each, or None for all items of a query.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        **kwargs: ``relevance_level``, ``missing_queries`` (see there) and the keywords of ``torchmetrics.Metric``.

    With ``missing_queries="neg"``, a query that was judged and has no items counts 0 for every m, which is the best
    value. Use "skip" or "error" if a system must not gain by returning nothing.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalFallOut
        >>> metric = RetrievalFallOut(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.5000)
    """

    _summary_name = "fall_out"
    higher_is_better: bool = False
    _measure = partial(AtRank, "fall_out")

    def __init__(
        self,
        empty_target_action: Action = "pos",
        ignore_index: int | None = None,
        top_k: TopKs = None,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        super().__init__(empty_target_action, ignore_index, top_k, aggregation, ties=ties, **kwargs)


class RetrievalHitRate(TopKMetric):
    """Share of queries with a relevant item in the top k; see :func:`torch_ap.functional.retrieval_hit_rate`.

    Replaces ``torchmetrics.retrieval.RetrievalHitRate``: same names, positions and keywords. Intended
    difference: if every query is skipped, the value is NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: see :class:`torch_ap.retrieval.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such ranks for a
            value of each, or None for all items of a query.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        **kwargs: ``relevance_level``, ``missing_queries`` (see there) and the keywords of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalHitRate
        >>> metric = RetrievalHitRate(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(1.)
    """

    _summary_name = "hit_rate"
    _measure = partial(FirstHit, "hit_rate")
