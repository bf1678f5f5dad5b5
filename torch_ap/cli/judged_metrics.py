"""Evaluations of the queries of judged runs, for intervals, chance levels and the page of ``torch-ap trec``."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.cli.compare_runs import Settings
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.retrieval.inputs import QueryInputs
from torch_ap.retrieval.metrics.analyses import EvaluatedQueries, RunScores
from torch_ap.retrieval.runs import names
from torch_ap.retrieval.runs.judged import Judged, Listed
from torch_ap.retrieval.runs.measure_names import COUNTS, TREC_CONVENTIONS
from torch_ap.retrieval.runs.names import Result
from torch_ap.retrieval.runs.results import result_interval
from torch_ap.retrieval.settings import MeasureSettings

ENDS = ("low", "high", "chance")
CHANCE_NUMBERS = ("estimate", "chance_level", "standard_deviation", "p_value")
NO_CHANCE_TEST = "no test against chance: only map and map@k have one"


def evaluate(judged: Judged, name: str, queries: Sequence[Any] | None = None, settings: Settings | None = None) -> Any:
    """Return the evaluation of a run by a measure.

    Args:
        judged: the run.
        name: name of the measure.
        queries: names of queries, whose places are their ids in the evaluation; others are left out. Default all of
            ``judged``.
        settings: settings with the clusters of the queries; None for independent queries.
    """
    if name in COUNTS or names.needs_judgements(name):
        raise ValueError(f"--report is of a measure of one ranking and its relevant documents, got {name}")
    measure: Any = names.measure_of(name, judged)
    inputs = QueryInputs(copies=False, graded=measure.graded)
    curve = judged.graded if measure.graded else judged.curve
    scores, target, query = _items(curve, judged.documents)
    retrieved = None
    if measure.graded:  # grades of all judged documents, with or without a rank
        assert isinstance(judged.documents, Listed)
        segment, grades, _, ranked = judged.documents.gained
        assert curve.grades is not None
        assert segment is not None
        assert ranked is not None
        is_hit, unranked = target == 1, grades[~ranked]
        target = torch.zeros_like(scores)
        target[is_hit] = curve.grades  # both by query and rank
        retrieved = torch.arange(len(target) + len(unranked)) < len(target)
        scores, target = torch.cat([scores, 0 * unranked]), torch.cat([target, unranked])
        query = torch.cat([query, segment[~ranked]])
    places = {x: place for place, x in enumerate(judged.queries if queries is None else queries)}
    ids = torch.tensor([places.get(x, -1) for x in judged.queries], dtype=torch.int64)
    kept = ids[query] >= 0
    relevant = {place: m for place, m in zip(ids.tolist(), curve.m.tolist(), strict=True) if place >= 0}
    items = scores[kept], target[kept], ids[query[kept]], None, relevant
    batch = inputs.validate(*items, None if retrieved is None else retrieved[kept])
    of_measure = MeasureSettings(measure, inputs, aggregation=names.aggregation_of(name))
    clusters = None if settings is None else settings.groups_of(judged.queries if queries is None else queries)
    groups = None if clusters is None else dict(enumerate(clusters.tolist()))
    return EvaluatedQueries(of_measure, batch, _run_scores(judged, name, queries, ids), groups)


def _run_scores(judged: Judged, name: str, queries: Sequence[Any] | None, ids: Tensor) -> RunScores:
    """Return the scores of the file.

    Args:
        judged: the run.
        name: as for :func:`evaluate`.
        queries: as for :func:`evaluate`.
        ids: (S,) int64, the id of each query of ``judged``; -1 if it is left out.
    """
    documents = judged.documents
    assert isinstance(documents, Listed)
    places, listed = _listed_scores(documents)
    query = ids[places]
    scores = RunScores(segments.as_float64(listed[query >= 0]), query[query >= 0])
    if judged.convention not in TREC_CONVENTIONS:
        return scores
    with_ties = replace(documents, by_document=False, by_name={})
    tied = evaluate(Judged(judged.queries, "expected", judged.relevance_level, with_ties), name, queries)
    return replace(scores, order=judged.convention, tied=tied)


def _items(curve: HitCurve, documents: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return score, relevance and query of each document, by query and rank; documents of a tie group are tied."""
    first = segments.from_counts(curve.n)
    query = segments.ids(first)
    rank = torch.arange(len(query)) - first[query]
    relevant = torch.zeros_like(rank)
    inside = segments.ids(segments.from_counts(curve.items))
    start = first[curve.segment] + curve.items_above
    member = torch.arange(len(inside)) - segments.from_counts(curve.items)[inside]
    document = start[inside] + member
    relevant[document] = (member < curve.hits[inside]).to(relevant.dtype)
    if isinstance(documents, Listed) and not documents.by_document:
        rank = _tie_starts(documents) - first[query]
    return -segments.as_float64(rank), relevant, query


def _tie_starts(documents: Listed) -> Tensor:
    """Return the index at which the tie group of each document begins, by query and rank."""
    places, scores = (x.numpy() for x in _listed_scores(documents))
    order = np.lexsort((scores, -places))[::-1]
    places, scores = places[order], scores[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (places[1:] != places[:-1]) | (scores[1:] != scores[:-1])
    starts = np.flatnonzero(begins)
    return torch.from_numpy(starts[np.cumsum(begins) - 1])


def _listed_scores(documents: Listed) -> tuple[Tensor, Tensor]:
    """Return the place in ``Judged.queries`` and the score of each document of these queries."""
    place_of_number = torch.full((len(documents.qrels.queries),), -1)
    place_of_number[documents.chosen] = torch.arange(len(documents.chosen))
    places = place_of_number[documents.number]
    return places[places >= 0], documents.scores[places >= 0]


def interval_of(judged: Judged, name: str, result: Result, settings: Settings) -> dict[str, float]:
    """Return the interval of the mean over queries, and the chance level; NaN if undefined."""
    numbers = dict.fromkeys(ENDS, math.nan)
    if result.geometric or result.counted or not result.queries:
        return numbers
    ends = result_interval(result, settings.confidence_level, settings.groups_of(result.queries))
    numbers |= {"low": float(ends.low), "high": float(ends.high)}
    measure = names.measure_of(name, judged)
    if measure.needs_judgements:
        numbers["chance"] = float(measure.chance_level(judged.curve).nan_to_num(0).mean())
    elif measure.has_chance_level:
        numbers["chance"] = float(evaluate(judged, name).chance_level())
    return numbers


def has_chance_test(name: str) -> bool:
    """Whether a measure is AP or AP@k, whose mean has a test against random orders."""
    return name == "map" or name.startswith("map@")


def untested(result: Result) -> dict[str, float]:
    """Return the value and NaN for the other numbers of the test, for a measure without a test."""
    return dict.fromkeys(CHANCE_NUMBERS, math.nan) | {"estimate": result.aggregate}


def chance_test_of(judged: Judged, name: str, settings: Settings, options: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of the test of the mean against random orders of the retrieved documents of each query."""
    test = evaluate(judged, name, settings=settings).chance_test(**options)
    return {x: float(getattr(test, x)) for x in CHANCE_NUMBERS}
