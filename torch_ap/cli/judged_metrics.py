"""Judged runs as metrics over queries: for intervals, chance levels and the report of ``torch-ap trec``."""

import math

import torch
from torch import Tensor

from torch_ap.cli.compare_runs import Settings
from torch_ap.curve.convention import Convention
from torch_ap.files import report
from torch_ap.files.judged import Judged
from torch_ap.files.report import Result
from torch_ap.inference.query_mean import mean_interval
from torch_ap.metrics.queries import QueryMetric
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.retrieval import RetrievalMAP

ENDS = ("low", "high", "chance")


def metric_of(judged: Judged, name: str) -> QueryMetric:
    """The metric of a measure that has seen the run: its queries are numbered as they are in ``judged``."""
    measure, aggregation = report.measure_of(name, judged), "gm" if name == "gm_map" else "mean"
    if isinstance(measure, Convention):
        metric: QueryMetric = RetrievalMAP(convention=measure, aggregation=aggregation)
    else:
        metric = QueryMetric(measure, "neg", None, aggregation)
    scores, relevant, query = _items(judged.curve)
    if len(scores):
        metric.update(scores, relevant, indexes=query)
    metric.update(num_relevant=dict(enumerate(judged.curve.m.tolist())))
    metric.set_dtype(torch.float64)
    return metric


def _items(curve: HitCurve) -> tuple[Tensor, Tensor, Tensor]:
    """The score, the relevance and the query of each document: tied, as far as their group holds a hit."""
    first = segments.from_counts(curve.n)
    query = segments.ids(first)
    place = torch.arange(len(query)) - first[query]
    relevant = torch.zeros_like(place)
    inside = segments.ids(segments.from_counts(curve.items))
    start = first[curve.segment] + curve.items_above
    rank = torch.arange(len(inside)) - segments.from_counts(curve.items)[inside]
    document = start[inside] + rank
    place[document] = curve.items_above[inside]
    relevant[document] = (rank < curve.hits[inside]).to(relevant.dtype)
    return -segments.as_float64(place), relevant, query


def interval_of(judged: Judged, name: str, result: Result, settings: Settings) -> dict[str, float]:
    """The ends of the interval of the mean over queries, and the chance level; NaN where there is none."""
    found = dict.fromkeys(ENDS, math.nan)
    if result.geometric or not result.queries:
        return found
    ends = mean_interval(result.values, **vars(settings))
    found |= {"low": float(ends.low), "high": float(ends.high)}
    measure = report.measure_of(name, judged)
    # where ties are grouped, those of documents that are not relevant count too, which the judged run does not hold
    if isinstance(measure, Convention) and measure.has_chance_level and judged.convention != "grouped":
        found["chance"] = float(metric_of(judged, name).chance_level())
    return found
