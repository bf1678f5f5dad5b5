"""Metrics over queries, made from their measure."""

from typing import Any

from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.measure import Measure
from torch_ap.retrieval.measures.gain import NormalizedDCG
from torch_ap.retrieval.metrics.measures import RetrievalMAP, RetrievalNormalizedDCG
from torch_ap.retrieval.metrics.query_metric import QueryMetric

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
        aggregation: see there.
        **settings: the other settings of that class.
    """
    cls = _CLASSES.get(type(measure))
    if cls is None:
        return QueryMetric(measure, empty_target_action, None, aggregation, **settings)
    metric: QueryMetric = cls(
        empty_target_action=empty_target_action, aggregation=aggregation, **vars(measure), **settings
    )
    return metric
