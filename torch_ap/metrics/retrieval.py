"""Measures of search and recommendation as metrics: each is a function of ``torch_ap.functional.retrieval``, averaged.

All of them take ``update(preds, target, indexes)`` in batches, and say every query's own value by ``per_query()``.
"""

from collections.abc import Callable
from typing import Any

from torch_ap.curve.convention import Convention
from torch_ap.curve.measures import AtRank, RPrecision
from torch_ap.evaluation.per_query import QueryInterpolation
from torch_ap.metrics.first_hit import RetrievalHitRate, RetrievalMRR
from torch_ap.metrics.queries import QueryMetric
from torch_ap.metrics.query_chance import ChanceQueries
from torch_ap.rules.options import Action, Denominator, Ties

__all__ = [
    "RetrievalFBeta",
    "RetrievalFallOut",
    "RetrievalHitRate",
    "RetrievalMAP",
    "RetrievalMRR",
    "RetrievalPrecision",
    "RetrievalRPrecision",
    "RetrievalRecall",
]


class RetrievalMAP(ChanceQueries):
    """Mean average precision over queries; see :func:`torch_ap.functional.retrieval.retrieval_average_precision`.

    Replaces ``torchmetrics.retrieval.RetrievalMAP``: same names, positions and keywords. It differs on
    purpose: scores of 0 and below rank as they are, ties count with the mean over their orders, AP@k divides by
    min(k, m) unless ``denominator`` says otherwise ("found" is torchmetrics'), and where every query is skipped it is
    NaN with a warning, not 0.

    Args:
        empty_target_action: what a query without relevant items counts as: "neg" 0, "pos" 1, "skip" left out, "nan",
            "error".
        ignore_index: target value of items that do not count.
        top_k: k of at least 1, or None for all items of a query.
        aggregation: over queries: "mean", "median", "min", "max", a function of their values, or "gm": the geometric
            mean, with values below 0.00001 raised to it, as in trec_eval's ``gm_map``: a single 0 would make it 0.
        denominator: what AP@k divides by: "min" min(k, m), "relevant" m, "found" the relevant items in the top k.
            Of no effect without ``top_k``: AP divides by m. Refused with ``interpolation``.
        interpolation: None, "11-point", "11-point-arange", "11-point-trec9", "11-point-trec10", "101-point",
            "all-points", "trapezoid" or recall levels.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic". None, the
            default: "expected", or "grouped" with ``interpolation``.
        kwargs: ``relevance_level``, ``missing_queries`` (see :class:`torch_ap.metrics.queries.QueryMetric`) and those
            of ``torchmetrics.Metric``.

    Raises:
        ValueError: for an unknown option, or options that contradict one another, such as ``top_k`` with
            ``interpolation``.

    Source: Buckley & Voorhees (2000); "gm": Robertson (2006), On GMAP: and Other Transformations. For the rest see the
    function.

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

    @property
    def k(self) -> int | None:
        """``top_k``, by the name that torchmetrics' class has for it."""
        return self.top_k

    @property
    def convention(self) -> Convention:
        """Which average precision is computed: ``top_k``, ``denominator``, ``interpolation``, ``ties``."""
        assert isinstance(self._settings.measure, Convention)
        return self._settings.measure

    def _usual(self) -> dict[str, Any]:
        ties = Convention.of_queries(None, "min", self.convention.interpolation, None).ties
        return {**super()._usual(), "ties": ties}


class RetrievalPrecision(QueryMetric):
    """Mean precision at k over queries; see :func:`torch_ap.functional.retrieval.retrieval_precision`.

    Replaces ``torchmetrics.retrieval.RetrievalPrecision``: same names, positions and keywords. It differs on purpose
    where every query is skipped: NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, or None for all items of a query.
        adaptive_k: whether to divide by n where a query has fewer than k items; without ``top_k`` k is n anyway.
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
        self.adaptive_k = adaptive_k


class RetrievalRecall(QueryMetric):
    """Mean recall at k over queries; see :func:`torch_ap.functional.retrieval.retrieval_recall`.

    Replaces ``torchmetrics.retrieval.RetrievalRecall``: same names, positions and keywords. It differs on purpose
    where every query is skipped: NaN with a warning, not 0.

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

    Replaces ``torchmetrics.retrieval.RetrievalRPrecision``: same names, positions and keywords. It differs on purpose
    where every query is skipped: NaN with a warning, not 0.

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


class RetrievalFallOut(QueryMetric):
    """Mean fall-out at k over queries; see :func:`torch_ap.functional.retrieval.retrieval_fall_out`.

    Replaces ``torchmetrics.retrieval.RetrievalFallOut``: same names, positions and keywords. It differs on purpose
    where every query is skipped: NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.queries.QueryMetric`.
        top_k: k of at least 1, or None for all items of a query.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

    A query that was judged and has no items counts 0 with ``missing_queries="neg"``, whatever its m: nothing wrong was
    retrieved, which is the best value there is. Give "skip" or "error" where a system must not gain by silence.

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
