"""Judged runs as metrics over queries: for intervals, chance levels and the report of ``torch-ap trec``."""

import math

import torch
from torch import Tensor

from torch_ap.cli.compare_runs import Settings
from torch_ap.curve.convention import Convention
from torch_ap.curve.discounted_gain import NormalizedDCG
from torch_ap.curve.judgements import BPref, InferredAP
from torch_ap.files import report
from torch_ap.files.judged import Judged, Listed
from torch_ap.files.report import Result
from torch_ap.files.trec_names import COUNTS
from torch_ap.inference.chance_of_judgements import chance_of_judged
from torch_ap.inference.query_mean import mean_interval
from torch_ap.metrics.queries import QueryMetric
from torch_ap.metrics.query_sample import has_chance_level
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.retrieval import RetrievalMAP, RetrievalNormalizedDCG

ENDS = ("low", "high", "chance")
_OF_JUDGED = ("bpref", "infAP")  # which are of more than one ranking and its relevant documents


def metric_of(judged: Judged, name: str) -> QueryMetric:
    """The metric of a measure that has seen the run: its queries are numbered as they are in ``judged``."""
    if name in (*COUNTS, *_OF_JUDGED):
        raise ValueError(f"--report is of a measure of one ranking and its relevant documents, got {name}")
    measure, aggregation = report.measure_of(name, judged), "gm" if name == "gm_map" else "mean"
    if isinstance(measure, NormalizedDCG):
        return _of_grades(judged, measure)
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


def _of_grades(judged: Judged, measure: NormalizedDCG) -> QueryMetric:
    metric = RetrievalNormalizedDCG(**vars(measure))
    assert isinstance(judged.documents, Listed)
    curve, (segment, grades, _, ranked) = judged.graded, judged.documents.gained
    assert curve.grades is not None
    assert segment is not None
    assert ranked is not None
    scores, relevant, query = _items(curve)
    target = torch.zeros_like(scores)
    target[relevant == 1] = curve.grades  # both by query and rank
    unranked = grades[~ranked]
    retrieved = torch.arange(len(target) + len(unranked)) < len(target)
    items = (torch.cat([scores, 0 * unranked]), torch.cat([target, unranked]), torch.cat([query, segment[~ranked]]))
    if len(retrieved):
        metric.update(*items, retrieved=retrieved)
    metric.update(num_relevant=dict(enumerate(curve.m.tolist())))
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
    if result.geometric or result.counted or not result.queries:
        return found
    ends = mean_interval(result.values, **vars(settings))
    found |= {"low": float(ends.low), "high": float(ends.high)}
    measure = report.measure_of(name, judged)
    if isinstance(measure, BPref | InferredAP):
        found["chance"] = float(chance_of_judged(judged.curve, measure).nan_to_num(0).mean())
    # where ties are grouped, those of documents that are not relevant count too, which the judged run does not hold
    if has_chance_level(measure) and judged.convention != "grouped":
        found["chance"] = float(metric_of(judged, name).chance_level())
    return found
