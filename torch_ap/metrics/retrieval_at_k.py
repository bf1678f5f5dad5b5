"""Measures of the top k of queries as metrics: each is a function of ``torch_ap.functional``, averaged over queries."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from torch_ap.curve.measures import AtRank, RPrecision
from torch_ap.curve.top_k import at_each
from torch_ap.metrics.queries import QueryMetric
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules.options import Action, Ties, TopK, TopKs


class TopKMetric(QueryMetric):
    """Abstract: a measure that k and the rule for ties are all the settings of."""

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        top_k: TopKs = None,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = at_each(top_k, lambda k: self._measure(k, ties))
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)

    @classmethod
    def _measure(cls, top_k: TopK, ties: Ties) -> Callable[[HitCurve], Tensor]:
        """The measure, for concrete classes."""
        raise NotImplementedError


class RetrievalPrecision(QueryMetric):
    """Mean precision at k over queries; see :func:`torch_ap.functional.retrieval_precision`.

    Replaces ``torchmetrics.retrieval.RetrievalPrecision``: same names, positions and keywords. It differs on purpose
    where every query is skipped: NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such for a value of
            each, or None for all items of a query.
        adaptive_k: whether to divide by n where a query has fewer than k items; without ``top_k`` k is n anyway.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalPrecision
        >>> metric = RetrievalPrecision(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.5000)
    """

    summary_name = "precision"

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
        measure = at_each(top_k, lambda k: AtRank("precision", k, adaptive_k, ties=ties))
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)
        self.adaptive_k = adaptive_k


class RetrievalRecall(TopKMetric):
    """Mean recall at k over queries; see :func:`torch_ap.functional.retrieval_recall`.

    Replaces ``torchmetrics.retrieval.RetrievalRecall``: same names, positions and keywords. It differs on purpose
    where every query is skipped: NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such for a value of
            each, or None for all items of a query.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalRecall
        >>> metric = RetrievalRecall(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    summary_name = "recall"

    @classmethod
    def _measure(cls, top_k: TopK, ties: Ties) -> AtRank:
        return AtRank("recall", top_k, ties=ties)


class RetrievalFBeta(QueryMetric):
    """Mean F_beta at k over queries; see :func:`torch_ap.functional.retrieval_f_beta`.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such for a value of
            each, or None for all items of a query.
        beta: how many times as much as precision recall counts; at least 0, with a finite square.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalFBeta
        >>> metric = RetrievalFBeta(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.5833)
    """

    summary_name = "f_beta"

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
        measure = at_each(top_k, lambda k: AtRank("f_beta", k, beta=beta, ties=ties))
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)


class RetrievalRPrecision(QueryMetric):
    """Mean R-precision over queries; see :func:`torch_ap.functional.retrieval_r_precision`.

    Replaces ``torchmetrics.retrieval.RetrievalRPrecision``: same names, positions and keywords. It differs on purpose
    where every query is skipped: NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalRPrecision
        >>> metric = RetrievalRPrecision()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    summary_name = "r_precision"

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


class RetrievalFallOut(QueryMetric):
    """Mean fall-out at k over queries; see :func:`torch_ap.functional.retrieval_fall_out`.

    Replaces ``torchmetrics.retrieval.RetrievalFallOut``: same names, positions and keywords. It differs on purpose
    where every query is skipped: NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such for a value of
            each, or None for all items of a query.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    A query that was judged and has no items counts 0 with ``missing_queries="neg"``, whatever its m: nothing wrong was
    retrieved, which is the best value there is. Give "skip" or "error" where a system must not gain by silence.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalFallOut
        >>> metric = RetrievalFallOut(top_k=2)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.5000)
    """

    summary_name = "fall_out"
    higher_is_better: bool = False

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
        measure = at_each(top_k, lambda k: AtRank("fall_out", k, ties=ties))
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)
