"""Metrics of whole rankings of queries: functions of ``torch_ap.functional``, averaged over queries."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from torch_ap.core.base.options import Action, Denominator, Gains, Interpolation, Ties, TopKs
from torch_ap.core.measures.convention import Convention, query_convention
from torch_ap.core.measures.measure import AtSeveral, Measure, measure_at_ranks
from torch_ap.core.metric.samples import SampleIds
from torch_ap.core.metric.state import with_shortcut
from torch_ap.retrieval.curve import QueryCurve, mean_curve
from torch_ap.retrieval.inputs import QueryGroups
from torch_ap.retrieval.measures.at_rank import FirstHit
from torch_ap.retrieval.measures.gain import NormalizedDCG
from torch_ap.retrieval.measures.rank_biased import RankBiasedPrecision
from torch_ap.retrieval.measures.roc import AUROC
from torch_ap.retrieval.metrics import query_sample
from torch_ap.retrieval.metrics.query_metric import QueryMetric, TopKMetric


class RetrievalMAP(QueryMetric):
    """Mean average precision over queries; see :func:`torch_ap.functional.retrieval_average_precision`.

    Replaces ``torchmetrics.retrieval.RetrievalMAP``: same names, positions and keywords. Intended
    differences: scores of 0 and below are ranked unchanged, ties count with the mean over their orders, AP@k divides
    by min(k, m) by default (torchmetrics: ``denominator="found"``), and if every query is skipped, the value is NaN
    with a warning, not 0.

    Args:
        empty_target_action: value of a query without relevant items: "neg" 0, "pos" 1, "skip" left out, "nan", "error".
        ignore_index: target value of items to ignore.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such ranks for a
            value of each, or None for all items of a query.
        aggregation: over queries: "mean", "median", "min", "max", a function of their values, or "gm": the geometric
            mean, with values below 0.00001 raised to it, as in trec_eval's ``gm_map``, because a single 0 would make
            it 0.
        denominator: divisor of AP@k: "min" min(k, m), "relevant" m, "found" the relevant items in the top k. Without
            effect if ``top_k`` is None, where AP divides by m. Cannot be combined with ``interpolation``.
        interpolation: None, "11-point", "11-point-arange", "11-point-trec9", "11-point-trec10", "40-point",
            "101-point", "nuscenes", "all-points", "trapezoid" or recall levels.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic". None, the
            default: "expected", or "grouped" with ``interpolation``.
        convention: ``top_k``, ``denominator``, ``interpolation`` and ``ties`` as one :class:`torch_ap.Convention`,
            instead of them.
        **kwargs: ``relevance_level``, ``missing_queries`` (see :class:`torch_ap.retrieval.QueryMetric`) and the
            keywords of ``torchmetrics.Metric``.

    Raises:
        ValueError: for an unknown option, or contradicting options, such as ``top_k`` with ``interpolation``.

    Source: Buckley & Voorhees (2000); "gm": Robertson (2006), On GMAP: and Other Transformations. See the function for
    the other sources.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalMAP
        >>> metric = RetrievalMAP()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7917)
    """

    _summary_name = "map"

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
        measure = measure_at_ranks(top_k, lambda k: query_convention(convention, k, denominator, interpolation, ties))
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)

    chance_test = query_sample.chance_test

    @property
    def k(self) -> Any:
        """``top_k``, under the name in torchmetrics."""
        return self.top_k

    @property
    def convention(self) -> Convention:
        """The computed average precision: ``top_k``, ``denominator``, ``interpolation``, ``ties``.

        Raises:
            ValueError: if ``top_k`` is a list, which makes several conventions.
        """
        measure: Any = self.measure
        if isinstance(measure, AtSeveral):
            raise ValueError(f"`top_k` must be one k for a convention and a curve, got {measure.top_k}")
        assert isinstance(measure, Convention)
        return measure

    def curve(self) -> QueryCurve:
        """Return the mean curve of the queries so far, of all processes: precision and recall at each rank.

        Returns:
            :class:`torch_ap.functional.QueryCurve`, with means for every ``aggregation``.

        Raises:
            ValueError: see ``compute()``.

        Example:
            >>> import torch
            >>> from torch_ap import RetrievalMAP
            >>> metric = RetrievalMAP()
            >>> metric.update(torch.tensor([[0.9, 0.8, 0.7], [0.9, 0.8, 0.7]]), torch.eye(3).long()[[0, 2]])
            >>> metric.curve().interpolated_precision[0]
            tensor(0.6667, dtype=torch.float64)
        """
        with self._all_ranks():
            return mean_curve(self._ranked(), self._settings, self.convention, "")

    def _default_settings(self) -> dict[str, Any]:
        ties = query_convention(None, None, "min", self.measure.interpolation, None).ties
        return {**super()._default_settings(), "ties": ties}


class RetrievalMRR(TopKMetric):
    """Mean reciprocal rank over queries; see :func:`torch_ap.functional.retrieval_reciprocal_rank`.

    Replaces ``torchmetrics.retrieval.RetrievalMRR``: same names, positions and keywords. Intended
    differences: scores of 0 and below are ranked unchanged, and if every query is skipped, the value is NaN with a
    warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: see :class:`torch_ap.retrieval.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such ranks for a
            value of each, or None for all items of a query.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        **kwargs: ``relevance_level``, ``missing_queries`` (see there) and the keywords of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalMRR
        >>> metric = RetrievalMRR()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    _summary_name = "mrr"
    _measure = partial(FirstHit, "reciprocal_rank")


class RetrievalAUROC(QueryMetric):
    """Mean area under the ROC curve over queries; see :func:`torch_ap.functional.retrieval_auroc`.

    Replaces ``torchmetrics.retrieval.RetrievalAUROC``: same names, positions and keywords. Intended
    differences: if every query is skipped, the value is NaN with a warning, not 0; a query with only relevant items in
    the top k counts as ``empty_target_action``, not always 0.

    Args:
        empty_target_action, ignore_index, aggregation: see :class:`torch_ap.retrieval.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such ranks for a
            value of each, or None for all items of a query.
        max_fpr: the highest fall-out of the area, above 0 and at most 1; None for the whole area.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        **kwargs: ``relevance_level``, ``missing_queries`` (see there) and the keywords of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalAUROC
        >>> metric = RetrievalAUROC()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.7500)
    """

    _summary_name = "auroc"

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
        measure = measure_at_ranks(top_k, lambda k: AUROC(k, max_fpr, ties))
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)
        self.max_fpr = max_fpr


class RetrievalRankBiasedPrecision(QueryMetric):
    """Mean rank-biased precision over queries; see :func:`torch_ap.functional.retrieval_rank_biased_precision`.

    Args:
        empty_target_action, ignore_index, aggregation: see :class:`torch_ap.retrieval.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such ranks for a
            value of each, or None for all items of a query.
        p: persistence: the probability that the reader goes on to the next item, in (0, 1).
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        **kwargs: ``relevance_level``, ``missing_queries`` (see there) and the keywords of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalRankBiasedPrecision
        >>> metric = RetrievalRankBiasedPrecision(p=0.5)
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 1, 0, 1])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.4375)
    """

    _summary_name = "rbp"

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        top_k: TopKs = None,
        p: float = 0.8,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = measure_at_ranks(top_k, lambda k: RankBiasedPrecision(p, k, ties))
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)


class RetrievalNormalizedDCG(QueryMetric):
    """Mean nDCG over queries; see :func:`torch_ap.functional.retrieval_normalized_dcg`.

    Replaces ``torchmetrics.retrieval.RetrievalNormalizedDCG``: same names, positions and keywords. Intended
    differences: negative grades raise unless there is a ``relevance_level``, and if every query is skipped, the value
    is NaN with a warning, not 0.

    Args:
        empty_target_action, ignore_index, aggregation: see :class:`torch_ap.retrieval.QueryMetric`.
        top_k: k of at least 1, "relevant" for the number of relevant items of each query, a list of such ranks for a
            value of each, or None for all items of a query.
        gains: "linear", the grade itself, or "exponential", 2^grade - 1.
        ties: "expected" (mean over all orders of equal scores), "grouped", "optimistic" or "pessimistic".
        **kwargs: ``relevance_level``, the lowest grade that has a gain, ``missing_queries`` (see there) and the
            keywords of ``torchmetrics.Metric``.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import RetrievalNormalizedDCG
        >>> metric = RetrievalNormalizedDCG()
        >>> preds, target = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2]), torch.tensor([0, 0, 1, 0, 2, 0, 3])
        >>> metric.update(preds, target, indexes=torch.tensor([0, 0, 0, 1, 1, 1, 1]))
        >>> metric.compute()
        tensor(0.8240)
    """

    _summary_name = "ndcg"

    def __init__(
        self,
        empty_target_action: Action = "neg",
        ignore_index: int | None = None,
        top_k: TopKs = None,
        aggregation: str | Callable[..., Any] = "mean",
        *,
        gains: Gains = "linear",
        ties: Ties = "expected",
        **kwargs: Any,
    ) -> None:
        measure = measure_at_ranks(top_k, lambda k: NormalizedDCG(k, gains, ties))
        super().__init__(measure, empty_target_action, ignore_index, aggregation, **kwargs)

    @with_shortcut(QueryMetric._add_small)
    def update(
        self,
        preds: Tensor | None = None,
        target: Tensor | None = None,
        indexes: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        retrieved: Tensor | None = None,
        num_relevant: Tensor | dict[int, int] | None = None,
        sample_ids: SampleIds = None,
        groups: QueryGroups = None,
    ) -> None:
        """Add a batch whose targets are grades; see :meth:`torch_ap.retrieval.QueryMetric.update`.

        Args:
            preds: scores, (D,), (Q, D), or any shape with ``indexes``; see
                :func:`torch_ap.functional.retrieval_average_precision`.
            indexes: integers in the shape of ``preds``: the query of each item; None for rows.
            mask: bool, in the shape of ``preds``: True for items that exist.
            sample_ids: ids of items or rows that count once.
            groups: group of each query, for intervals and comparisons.
            target: shape of ``preds``; grades of at least 0, integers, bool or floats.
            retrieved: bool, in the shape of ``preds``: True for items that the system ranked. All other items were
                judged and count in the ideal ranking only; their scores may be anything.
            num_relevant: number of items of each query that have a gain; items that are missing have grade 1.

        Raises:
            TypeError, ValueError: see :meth:`torch_ap.retrieval.QueryMetric.update`.
        """
        self._add((preds, target, indexes, mask, num_relevant, retrieved), sample_ids, groups)


_CLASSES: dict[type[Measure], Any] = {  # with more methods than QueryMetric
    Convention: RetrievalMAP,
    NormalizedDCG: RetrievalNormalizedDCG,
}


def metric_of_measure(
    measure: Measure, *, empty_target_action: str = "neg", aggregation: str = "mean", **settings: Any
) -> QueryMetric:
    """Return a metric over queries that computes the measure.

    Args:
        measure: the measure of each query.
        empty_target_action: see :class:`torch_ap.retrieval.QueryMetric`.
        aggregation: see the same class.
        **settings: the other settings of the class.
    """
    cls = _CLASSES.get(type(measure))
    if cls is None:
        return QueryMetric(measure, empty_target_action, None, aggregation, **settings)
    metric: QueryMetric = cls(
        empty_target_action=empty_target_action, aggregation=aggregation, **vars(measure), **settings
    )
    return metric
