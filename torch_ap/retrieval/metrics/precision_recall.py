"""Metrics of precision and recall at every rank, as in torchmetrics, and of the recall at a precision."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.options import Action, Ties
from torch_ap.core.metric import plotted
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.retrieval.functions import PrecisionRecallAtK
from torch_ap.retrieval.measures.at_rank import AtEveryRank
from torch_ap.retrieval.metrics.query_sample import check_mean
from torch_ap.retrieval.metrics.state import QueryState


class RankedCurve(QueryState):
    """Abstract base: precision and recall at every rank, aggregated over queries at each rank."""

    _can_exchange = False  # the curve of a query is as large as its items

    def __init__(
        self,
        max_k: int | None = None,
        adaptive_k: bool = False,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = AtEveryRank("precision", max_k, adaptive_k, ties)
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)
        self.max_k, self.adaptive_k = measure.max_k, adaptive_k

    def _curve(self, values: Callable[[AtEveryRank, HitCurve], Tensor] = AtEveryRank.__call__) -> PrecisionRecallAtK:
        """Return the curve of precision and recall, or of another function of the measures."""
        rankings, settings, precision = self._ranked(), self._settings, self._settings.measure
        assert isinstance(precision, AtEveryRank)
        means: list[Tensor] = []
        for measure in (precision, replace(precision, ratio="recall")):
            per_query = settings.per_query(rankings, partial(values, measure))
            means.append(settings.value(per_query, self._dtype_of_values(), warn=self.update_called and not means))
        return PrecisionRecallAtK(means[0], means[1], precision.ranks(rankings.curve))


class RetrievalPrecisionRecallCurve(RankedCurve):
    """Mean precision and recall at every rank over queries.

    See :func:`torch_ap.functional.retrieval_precision_recall_curve`. Replaces
    ``torchmetrics.retrieval.RetrievalPrecisionRecallCurve``: same names, positions and keywords. Intended difference:
    if every query is skipped, the value is NaN with a warning, not 0. For interpolated precision, AP and plots use
    :meth:`torch_ap.RetrievalMAP.curve`; for intervals and comparisons :class:`torch_ap.RetrievalPrecision` and
    :class:`torch_ap.RetrievalRecall` with a list of ``top_k``.

    Args:
        max_k: the last rank, at least 1; None for the length of the longest ranking.
        adaptive_k: whether precision beyond the n items of a query is hits / n.
        empty_target_action, ignore_index, aggregation: see :class:`torch_ap.retrieval.QueryMetric`, for each rank.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        **kwargs: ``relevance_level``, ``missing_queries`` (see there) and the keywords of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalPrecisionRecallCurve
        >>> metric = RetrievalPrecisionRecallCurve(max_k=2)
        >>> preds, target = torch.tensor([0.4, 0.01, 0.5, 0.6, 0.2, 0.3, 0.5]), torch.tensor([1, 0, 0, 1, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 0, 1, 1, 1]))
        >>> precision, recall, top_k = metric.compute()
        >>> precision, recall
        (tensor([1.0000, 0.5000]), tensor([0.5000, 0.5000]))
    """

    def compute(self) -> PrecisionRecallAtK:
        """Return precision and recall at each rank, aggregated over the queries so far.

        Returns:
            ``PrecisionRecallAtK`` of (K,) tensors, float32, or float64 for float64 scores.

        Raises:
            ValueError: for an undefined measure or a missing query, if the setting is "error".
        """
        return self._curve()

    def chance_level(self) -> PrecisionRecallAtK:
        """Return the mean of the curve over all orders of the items; recall at rank k is k / n.

        Returns:
            See ``compute()``.

        Raises:
            ValueError: for an ``aggregation`` other than "mean".
        """
        check_mean(self.aggregation, "a chance level")
        with self._all_ranks():
            return self._curve(AtEveryRank.chance_level)

    def plot(self, curve: Any = None, ax: Any = None) -> Any:
        """Plot precision over recall (extra: ``plot``).

        Args:
            curve: a result of ``compute``; None for ``compute()``.
            ax: the matplotlib axis to draw on.

        Returns:
            Figure and axis.

        Raises:
            ModuleNotFoundError: without matplotlib.
        """
        ax = plotted.axes_of(ax)
        precision, recall, _ = self.compute() if curve is None else curve
        ax.plot(recall.cpu(), precision.cpu(), marker=".")
        ax.set(xlabel="recall at k", ylabel="precision at k", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        return ax.figure, ax


class RetrievalRecallAtFixedPrecision(RankedCurve):
    """The highest recall at a rank with sufficient precision, and this rank.

    Both refer to the means over queries of :class:`RetrievalPrecisionRecallCurve`. Replaces
    ``torchmetrics.retrieval.RetrievalRecallAtFixedPrecision``: same names, positions and keywords.

    Args:
        min_precision: the least precision, in [0, 1].
        max_k, adaptive_k, empty_target_action, ignore_index, ties: see :class:`RetrievalPrecisionRecallCurve`.
        **kwargs: ``aggregation``, and the keywords of that class.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalRecallAtFixedPrecision
        >>> metric = RetrievalRecallAtFixedPrecision(min_precision=0.8)
        >>> preds, target = torch.tensor([0.4, 0.01, 0.5, 0.6, 0.2, 0.3, 0.5]), torch.tensor([1, 0, 0, 1, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 0, 1, 1, 1]))
        >>> metric.compute()
        (tensor(0.5000), tensor(1))
    """

    def __init__(
        self,
        min_precision: float = 0.0,
        max_k: int | None = None,
        adaptive_k: bool = False,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        checks.fraction("min_precision", min_precision)
        super().__init__(max_k, adaptive_k, empty_target_action, ignore_index, ties=ties, **kwargs)
        self.min_precision = min_precision

    def compute(self) -> tuple[Tensor, Tensor]:
        """Return the recall and the last rank with this recall, as in torchmetrics.

        Returns:
            0-d recall, in the dtype of the curve, and 0-d int64 rank. 0 and the last rank of all if no rank has
            sufficient precision; NaN and this rank if the precisions are NaN.

        Raises:
            ValueError: see :class:`RetrievalPrecisionRecallCurve`.
        """
        precision, recall, k = self._curve()
        if not len(k):
            return recall.new_full((), torch.nan), k.new_zeros(())
        reached = torch.where(precision >= self.min_precision, recall, 0 * precision)  # NaN if the precision is NaN
        best = reached.max()
        last = torch.where((reached == best) & (best > 0), k, 0).max()
        return best, torch.where(best > 0, last, k[-1])

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot the recall, as torchmetrics does (extra: ``plot``).

        Args:
            val: a recall from ``compute``, or a list of recalls; None for the recall of ``compute()``.
            ax: the matplotlib axis to draw on.

        Returns:
            Figure and axis.

        Raises:
            ModuleNotFoundError: without matplotlib.
        """
        return super().plot(self.compute()[0] if val is None else val, ax)
