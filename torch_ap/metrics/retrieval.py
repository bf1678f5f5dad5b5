"""Measures of search and recommendation as metrics: each is a function of ``torch_ap.functional.retrieval``, averaged.

All of them take ``update(preds, target, indexes)`` in batches, and say every query's own value by ``per_query()``.
"""

from collections.abc import Callable
from typing import Any

from torch_ap.core.convention import Convention
from torch_ap.core.queries.measures import AtRank, FirstHit, RPrecision
from torch_ap.functional.classification import Action, Denominator, Ties
from torch_ap.functional.each_query import QueryInterpolation
from torch_ap.metrics.queries import QueryMetric
from torch_ap.metrics.query_chance import ChanceQueries


class RetrievalMAP(ChanceQueries):
    """Mean average precision over queries; see :func:`torch_ap.functional.retrieval.retrieval_average_precision`.

    Replaces ``torchmetrics.retrieval.RetrievalMAP``: same names, positions and keywords. It differs on
    purpose: scores of 0 and below rank as they are, ties count with the mean over their orders, and AP@k divides by
    min(k, m) unless ``denominator`` says otherwise ("found" is torchmetrics').

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, or None for all items of a query.
        denominator: what AP@k divides by: "min" min(k, m), "relevant" m, "found" the relevant items in the top k.
        interpolation: None, "11-point", "11-point-trec9", "11-point-trec10", "101-point", "all-points", "trapezoid" or
            recall levels.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic". None, the
            default: "expected", or "grouped" with ``interpolation``.
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.metrics.retrieval import RetrievalMAP
        >>> metric = RetrievalMAP()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7917)
    """

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        denominator: Denominator = "min",
        interpolation: QueryInterpolation = None,
        ties: Ties | None = None,
        **kwargs: Any,
    ) -> None:
        measure = Convention.of_queries(top_k, denominator, interpolation, ties)
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)


class RetrievalPrecision(QueryMetric):
    """Mean precision at k over queries; see :func:`torch_ap.functional.retrieval.retrieval_precision`.

    Replaces ``torchmetrics.retrieval.RetrievalPrecision``: same names, positions and keywords.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, or None for all items of a query.
        adaptive_k: whether to divide by n where a query has fewer than k items.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.metrics.retrieval import RetrievalPrecision
        >>> metric = RetrievalPrecision(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.5000)
    """

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        adaptive_k: bool = False,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = AtRank("precision", top_k, adaptive_k, ties=ties)
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)


class RetrievalRecall(QueryMetric):
    """Mean recall at k over queries; see :func:`torch_ap.functional.retrieval.retrieval_recall`.

    Replaces ``torchmetrics.retrieval.RetrievalRecall``: same names, positions and keywords.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, or None for all items of a query.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.metrics.retrieval import RetrievalRecall
        >>> metric = RetrievalRecall(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = AtRank("recall", top_k, ties=ties)
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)


class RetrievalFBeta(QueryMetric):
    """Mean F_beta at k over queries; see :func:`torch_ap.functional.retrieval.retrieval_f_beta`.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, or None for all items of a query.
        beta: how many times as much as precision recall counts; at least 0.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.metrics.retrieval import RetrievalFBeta
        >>> metric = RetrievalFBeta(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.5833)
    """

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        beta: float = 1.0,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = AtRank("f_beta", top_k, beta=beta, ties=ties)
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)


class RetrievalRPrecision(QueryMetric):
    """Mean R-precision over queries; see :func:`torch_ap.functional.retrieval.retrieval_r_precision`.

    Replaces ``torchmetrics.retrieval.RetrievalRPrecision``: same names, positions and keywords.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.metrics.retrieval import RetrievalRPrecision
        >>> metric = RetrievalRPrecision()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = RPrecision(ties)
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)


class RetrievalHitRate(QueryMetric):
    """Share of queries with a relevant item in the top k; see :func:`torch_ap.functional.retrieval.retrieval_hit_rate`.

    Replaces ``torchmetrics.retrieval.RetrievalHitRate``: same names, positions and keywords.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, or None for all items of a query.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.metrics.retrieval import RetrievalHitRate
        >>> metric = RetrievalHitRate(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(1.)
    """

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = FirstHit("hit_rate", top_k, ties)
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)


class RetrievalFallOut(QueryMetric):
    """Mean fall-out at k over queries; see :func:`torch_ap.functional.retrieval.retrieval_fall_out`.

    Replaces ``torchmetrics.retrieval.RetrievalFallOut``: same names, positions and keywords.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, or None for all items of a query.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.metrics.retrieval import RetrievalFallOut
        >>> metric = RetrievalFallOut(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.5000)
    """

    higher_is_better: bool = False

    def __init__(
        self,
        empty_target_action: Action = "pos",
        ignore_index: int | None = None,
        top_k: int | None = None,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = AtRank("fall_out", top_k, ties=ties)
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)


class RetrievalMRR(QueryMetric):
    """Mean reciprocal rank over queries; see :func:`torch_ap.functional.retrieval.retrieval_reciprocal_rank`.

    Replaces ``torchmetrics.retrieval.RetrievalMRR``: same names, positions and keywords. It differs on
    purpose: scores of 0 and below rank as they are.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, or None for all items of a query.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.metrics.retrieval import RetrievalMRR
        >>> metric = RetrievalMRR()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        top_k: int | None = None,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = FirstHit("reciprocal_rank", top_k, ties)
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)
