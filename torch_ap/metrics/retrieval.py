"""Mean average precision of search and recommendation as a metric: the function of that name, averaged over queries."""

from collections.abc import Callable
from typing import Any

from torch_ap.curve.convention import Convention, query_convention
from torch_ap.curve.top_k import AtSeveral, at_each
from torch_ap.functional.query_curve import QueryCurve, curve_of_queries
from torch_ap.metrics.queries import QueryMetric
from torch_ap.rules.options import Action, Denominator, Interpolation, Ties, TopKs


class RetrievalMAP(QueryMetric):
    """Mean average precision over queries; see :func:`torch_ap.functional.retrieval_average_precision`.

    Replaces ``torchmetrics.retrieval.RetrievalMAP``: same names, positions and keywords. It differs on
    purpose: scores of 0 and below rank as they are, ties count with the mean over their orders, AP@k divides by
    min(k, m) unless ``denominator`` says otherwise ("found" is torchmetrics'), and where every query is skipped it is
    NaN with a warning, not 0.

    Args:
        empty_target_action: what a query without relevant items counts as: "neg" 0, "pos" 1, "skip" left out, "nan",
            "error".
        ignore_index: target value of items that do not count.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such for a value of
            each, or None for all items of a query.
        aggregation: over queries: "mean", "median", "min", "max", a function of their values, or "gm": the geometric
            mean, with values below 0.00001 raised to it, as in trec_eval's ``gm_map``: a single 0 would make it 0.
        denominator: what AP@k divides by: "min" min(k, m), "relevant" m, "found" the relevant items in the top k.
            Of no effect without ``top_k``: AP divides by m. Refused with ``interpolation``.
        interpolation: None, "11-point", "11-point-arange", "11-point-trec9", "11-point-trec10", "40-point",
            "101-point", "nuscenes", "all-points", "trapezoid" or recall levels.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic". None, the
            default: "expected", or "grouped" with ``interpolation``.
        convention: ``top_k``, ``denominator``, ``interpolation`` and ``ties`` as one :class:`torch_ap.Convention`,
            instead of them.
        kwargs: ``relevance_level``, ``missing_queries`` (see :class:`torch_ap.metrics.queries.QueryMetric`) and those
            of ``torchmetrics.Metric``.

    Raises:
        ValueError: for an unknown option, or options that contradict one another, such as ``top_k`` with
            ``interpolation``.

    Source: Buckley & Voorhees (2000); "gm": Robertson (2006), On GMAP: and Other Transformations. For the rest see the
    function.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalMAP
        >>> metric = RetrievalMAP()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7917)
    """

    summary_name = "map"

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        top_k: TopKs = None,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        denominator: Denominator = "min",
        interpolation: Interpolation = None,
        ties: Ties | None = None,
        convention: Convention | None = None,
        **kwargs: Any,
    ) -> None:
        measure = at_each(top_k, lambda k: query_convention(convention, k, denominator, interpolation, ties))
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)

    @property
    def k(self) -> Any:
        """``top_k``, by the name that torchmetrics' class has for it."""
        return self.top_k

    @property
    def convention(self) -> Convention:
        """Which average precision is computed: ``top_k``, ``denominator``, ``interpolation``, ``ties``.

        Raises:
            ValueError: where ``top_k`` is a list, so that there are several.
        """
        measure: Any = self._settings.measure
        if isinstance(measure, AtSeveral):
            raise ValueError(f"`top_k` must be one k for a convention and a curve, got {measure.top_k}")
        assert isinstance(measure, Convention)
        return measure

    def curve(self) -> QueryCurve:
        """The means over the queries so far, of all ranks: precision and recall at each rank, interpolated precision.

        Returns:
            :class:`torch_ap.functional.QueryCurve`, of means whatever ``aggregation`` is.

        Raises:
            ValueError: as ``compute()``.

        Example:
            >>> import torch
            >>> from torch_ap import RetrievalMAP
            >>> metric = RetrievalMAP()
            >>> metric.update(torch.tensor([[0.9, 0.8, 0.7], [0.9, 0.8, 0.7]]), torch.eye(3).long()[[0, 2]])
            >>> metric.curve().interpolated_precision[0]
            tensor(0.6667, dtype=torch.float64)
        """
        with self._all_ranks():
            return curve_of_queries(self._ranked(), self._settings, self.convention, "")

    def _usual(self) -> dict[str, Any]:
        measure: Any = self._settings.measure
        ties = query_convention(None, None, "min", measure.interpolation, None).ties
        return {**super()._usual(), "ties": ties}
