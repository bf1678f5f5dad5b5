"""Metrics over queries: the mean, or another aggregate, of a measure of each query."""

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor

from torch_ap.core.base.options import Action, Ties, TopKs
from torch_ap.core.measures.measure import measure_at_ranks
from torch_ap.inference import metric
from torch_ap.retrieval.metrics.analyses import QueryAnalyses
from torch_ap.retrieval.metrics.state import QueryState


class QueryMetric(QueryAnalyses, QueryState):
    """A measure of each query, aggregated over queries, for measures without a class and for custom measures.

    The state contains the data of the batches: scores in their dtype, a byte per item for relevance, the indexes, and
    for a measure of grades also the grades, in float64. In a ``MetricCollection``, metrics with the same
    ``ignore_index`` and ``relevance_level`` share one state and sort it once, if all or none of them use grades. A
    checkpoint of a torchmetrics class (states ``indexes``, ``preds``, ``target``) can be loaded.
    If no query counts, the aggregate is NaN, with a warning (torchmetrics: 0 if all queries are skipped).

    Args:
        measure: a measure, such as :class:`torch_ap.Convention`, or a function of a hit curve
            (``torch_ap.core.ranking.hit_curve.HitCurve``) that returns one value per ranking: (S,) float64, NaN where
            undefined. If it has an attribute ``graded`` that is true, curves have grades. Intervals and comparisons
            need values in [0, 1]; ``chance_level``, ``summary`` and reports need a measure.
        empty_target_action: value of a query whose measure is undefined: "neg" 0, "pos" 1, "skip" left out, "nan",
            "error".
        ignore_index: target value of items to ignore.
        aggregation: over queries: "mean", "median", "min", "max", "gm" for the geometric mean of values raised to at
            least 0.00001 (trec_eval's ``gm_map``), or a function of their values.
        **kwargs: ``relevance_level``: the lowest relevant target. None, the default, is 1; a target that is not a grade
            (negative, or a fraction) then raises instead of being not relevant.
            ``missing_queries``: value of a query that was judged and has no items: "neg" 0, "skip" left out, "error".
            If its m is 0 and the measure undefined, "neg" uses ``empty_target_action``.
            ``sync``: "gather" or "exchange" (see docs/scale.md); and the keywords of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import QueryMetric
        >>> def share_of_hits(curve):
        ...     return torch.where(curve.m > 0, curve.hits_seen / curve.n, torch.nan).double()
        >>> metric = QueryMetric(share_of_hits)
        >>> metric.update(torch.tensor([[0.9, 0.8, 0.7], [0.9, 0.8, 0.7]]), torch.tensor([[0, 0, 1], [1, 1, 0]]))
        >>> metric.compute()
        tensor(0.5000)
    """

    _summary_name = "value"

    @property
    def measure(self) -> Any:
        """The measure of each query."""
        return self._settings.measure

    prediction_powered_interval = metric.prediction_powered_interval
    summary = metric.summary

    @property
    def top_k(self) -> Any:
        """``top_k`` of the measure: k, a list of several, or None for all items and for measures without k."""
        return getattr(self.measure, "top_k", None)

    def compute(self) -> Tensor:
        """Return the aggregate over all queries so far.

        Returns:
            0-d, or (K,) if ``top_k`` is a list; in [0, 1] unless ``aggregation`` or the measure is custom. float32, or
            float64 for float64 scores and after ``set_dtype(torch.float64)``. NaN, with a warning, if no query counts;
            NaN if a query is NaN by ``empty_target_action="nan"``.

        Raises:
            ValueError: for a missing query or an undefined measure, if the setting is "error"; for judgements of
                several updates that contradict each other or the items; for processes without the ``indexes`` or
                ``num_relevant`` of the others; on an accelerator, for the first update that broke a rule about values.
        """
        return self._settings.value(self._per_query(), self._dtype_of_values(), warn=self.update_called)


class TopKMetric(QueryMetric):
    """Abstract base of the metrics whose measure has k and the tie rule as its only settings."""

    _measure: ClassVar[Callable[..., Any]]

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
        measure = measure_at_ranks(top_k, lambda k: self._measure(top_k=k, ties=ties))
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)
