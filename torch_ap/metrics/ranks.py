"""Precision and recall at every rank as metrics, in the shape of torchmetrics' curve, and the recall at a precision."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import torch
from torch import Tensor

from torch_ap.curve.measures import AtEveryRank
from torch_ap.functional.ranks import PrecisionRecallAtK
from torch_ap.inference.chance_of_rankings import chance_of_ratio
from torch_ap.metrics import plotted
from torch_ap.metrics.query_sample import check_mean
from torch_ap.metrics.query_state import QueryState
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.options import Action, Ties


class RankedCurve(QueryState):
    """Abstract: precision and recall at every rank, aggregated over queries at each."""

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

    @property
    def _can_exchange(self) -> bool:
        return False  # a curve of many ranks for each query is no less than its items

    def _curve(self, of: Callable[[AtEveryRank, HitCurve], Tensor] = AtEveryRank.__call__) -> PrecisionRecallAtK:
        """The curve of precision and recall, or of what a function makes of each."""
        rankings, settings, precision = self._ranked(), self._settings, self._settings.measure
        assert isinstance(precision, AtEveryRank)
        found: list[Tensor] = []
        for measure in (precision, replace(precision, ratio="recall")):
            each = settings.each(rankings, partial(of, measure))
            found.append(settings.value(each, self._dtype_of_values(), warn=self.update_called and not found))
        return PrecisionRecallAtK(found[0], found[1], precision.ranks(rankings.curve))


class RetrievalPrecisionRecallCurve(RankedCurve):
    """Mean precision and recall at every rank over queries; see
    :func:`torch_ap.functional.retrieval_precision_recall_curve`.

    Replaces ``torchmetrics.retrieval.RetrievalPrecisionRecallCurve``: same names, positions and keywords. It differs on
    purpose where every query is skipped: NaN with a warning, not 0. For interpolated precision, AP and pictures of
    means take :meth:`torch_ap.RetrievalMAP.curve`; for intervals and comparisons, :class:`torch_ap.RetrievalPrecision`
    and :class:`torch_ap.RetrievalRecall` with a list of ``top_k``.

    Args:
        max_k: the last rank, at least 1; None for the length of the longest ranking.
        adaptive_k: whether precision beyond the n items of a query is hits / n.
        empty_target_action, ignore_index, aggregation: as for :class:`torch_ap.metrics.query_state.QueryState`, rank by
            rank.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        kwargs: ``relevance_level``, ``missing_queries`` (see there too) and those of ``torchmetrics.Metric``.

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
        """Precision and recall at each rank, aggregated over the queries so far.

        Returns:
            :class:`torch_ap.functional.PrecisionRecallAtK` of (K,) tensors, float32, or float64 for float64 scores.

        Raises:
            ValueError: where "error" is what an undefined measure or a missing query counts as, and one is there.
        """
        return self._curve()

    def chance_level(self) -> PrecisionRecallAtK:
        """What chance gives: the mean of the curve over all orders of the items, k / n of recall at rank k.

        Returns:
            As ``compute()``.

        Raises:
            ValueError: for an ``aggregation`` other than "mean".
        """
        check_mean(self.aggregation, "a chance level")
        with self._all_ranks():
            return self._curve(lambda measure, curve: chance_of_ratio(curve, measure))

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
    """The highest recall at a rank whose precision is high enough, and that rank.

    Of the means over queries that :class:`RetrievalPrecisionRecallCurve` gives. Replaces
    ``torchmetrics.retrieval.RetrievalRecallAtFixedPrecision``: same names, positions and keywords.

    Args:
        min_precision: the least precision, in [0, 1].
        max_k, adaptive_k, empty_target_action, ignore_index, ties: as for :class:`RetrievalPrecisionRecallCurve`.
        kwargs: ``aggregation``, and what ``kwargs`` are there.

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
        """The recall, and the last rank that has it, as in torchmetrics; 0 and the last rank of all where none has, NaN
        and that rank where the precisions are NaN.

        Returns:
            0-d recall, in the dtype of the curve, and 0-d int64 rank.

        Raises:
            ValueError: as the curve's.
        """
        precision, recall, k = self._curve()
        if not len(k):
            return recall.new_full((), torch.nan), k.new_zeros(())
        reached = torch.where(
            precision >= self.min_precision, recall, 0 * precision
        )  # undefined where the precision is
        best = reached.max()
        last = torch.where((reached == best) & (best > 0), k, 0).max()
        return best, torch.where(best > 0, last, k[-1])

    def chance_level(self) -> NoReturn:
        """There is none.

        Raises:
            ValueError: always, and says what there is.
        """
        raise ValueError(
            "the highest recall at a precision has no closed form of its chance level, for it is the best of many "
            "ranks; `RetrievalPrecisionRecallCurve` has that of the curve"
        )

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot the recall, as torchmetrics does (extra: ``plot``).

        Args:
            val: a recall that ``compute`` gave, or a list of them; None for that of ``compute()``.
            ax: the matplotlib axis to draw on.

        Returns:
            Figure and axis.

        Raises:
            ModuleNotFoundError: without matplotlib.
        """
        return super().plot(self.compute()[0] if val is None else val, ax)
