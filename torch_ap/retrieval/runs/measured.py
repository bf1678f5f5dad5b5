"""Measures of a run against judgements, for all its queries or a part of them at a time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from torch_ap.core.columns.columns import Progress
from torch_ap.retrieval.runs import names, nested
from torch_ap.retrieval.runs.judged import Judged, Listed, judge
from torch_ap.retrieval.runs.measure_names import COUNTS
from torch_ap.retrieval.runs.names import RequestedMeasure, Result
from torch_ap.retrieval.runs.nested import DocumentCounts, Nested, NestedQrels
from torch_ap.retrieval.runs.tables import qrels_of, run_of
from torch_ap.retrieval.runs.trec import NotGroupedError, Qrels, Run, read_run, run_parts

Views: TypeAlias = dict[tuple[int, bool], Judged]  # see RequestedMeasure.view


@dataclass(frozen=True)
class Rules:
    """Measures and conventions of an evaluation.

    Attributes:
        measures: requested measures, at least one.
        convention: how tied scores are ordered; see :func:`torch_ap.retrieval.runs.judged.judge`.
        complete: whether judged queries without documents count, as with ``trec_eval -c``.
        denominator: divisor of AP@k.
        with_orders: whether to measure other orders of tied documents if names decide.
    """

    measures: Sequence[RequestedMeasure]
    convention: str = "trec10"
    complete: bool = False
    denominator: str = "relevant"
    with_orders: bool = False

    @cached_property
    def bound(self) -> dict[tuple[int, bool], list[names.BoundMeasure]]:
        """The measures of each :attr:`RequestedMeasure.view`, under the conventions."""
        by_view: dict[tuple[int, bool], dict[str, str]] = {}
        for x in self.measures:
            by_view.setdefault(x.view, {})[x.requested_name] = x.name
        return {view: names.bind(x, self.convention, self.denominator) for view, x in by_view.items()}


ORDERS = ("pessimistic", "expected", "optimistic")


@dataclass(frozen=True, eq=False)
class Measured:
    """Measures of a run.

    Attributes:
        results: by requested name; queries in the order of the judgements.
        tag: name of the run, from its file, or "".
        missing: judged queries without a document.
        unjudged: number of queries of the run without judgements.
        counts: numbers of documents, by the lowest relevant grade of the measures, ascending.
        by_name: number of queries where the order of names decides a tie of relevant and other documents.
        scores_are_ranks: whether the scores of the first query are 1, 2, 3, ..., or 0, 1, 2, ..., in this order.
        by_order: results for the rules ``ORDERS`` of tied documents, of measures whose lowest, mean and highest value
            they give; empty unless names decide between tied documents and ``with_orders``.
    """

    results: dict[str, Result]
    tag: str
    missing: list[Any]
    unjudged: int
    counts: dict[int, DocumentCounts]
    by_name: int
    scores_are_ranks: bool
    by_order: dict[str, dict[str, Result]] = field(default_factory=dict)

    @property
    def documents(self) -> DocumentCounts:
        """Numbers of documents for the lowest relevant grade."""
        return next(iter(self.counts.values()))

    @property
    def blind_level(self) -> int | None:
        """The lowest relevant grade of the measures that no retrieved document has, although judged documents have."""
        return next((level for level, counts in self.counts.items() if counts.is_blind), None)

    def failure_reason(self, judged: int, qrels: Path | str, path: Path | str) -> str:
        """Return why no query has a value, or "" if some query has one.

        Args:
            judged: number of judged queries.
            qrels: name of the judgements in the message.
            path: name of the run in the message.
        """
        if not judged:
            return f"{qrels}: contains no judgements"
        if len(self.missing) < judged:
            return ""
        alone = "no query of the run has judgements in"
        return f"{path}: {alone} {qrels}" if self.unjudged else f"{path}: contains no documents"


def measure_file(qrels: Qrels, path: str, rules: Rules, progress: Progress | None = None) -> Measured:
    """Return the measures of a run in a file, read in parts if the lines of each query are contiguous."""
    try:
        return measure(qrels, run_parts(path, progress=progress), rules)
    except NotGroupedError:
        if not Path(path).is_file():
            raise
    return measure_whole(qrels, read_run(path, progress=progress), rules)[0]


def measure(qrels: Qrels, parts: Iterable[Run], rules: Rules) -> Measured:
    """Return the measures of a run in parts of whole queries, at least one part."""
    measured = []
    for part in parts:
        measured.append(measure_whole(qrels, part, replace(rules, complete=False))[0])
    absent = set[Any].intersection(*(set(x.missing) for x in measured))
    missing = [query for query in qrels.queries if query in absent]
    results = [x.results for x in measured]
    if missing and rules.complete:
        empty = measure_whole(qrels, part.emptied, rules)[0].results
        results.append({name: result.reorder(missing) for name, result in empty.items()})
    counted = [query for query in qrels.queries if rules.complete or query not in absent]
    return Measured(
        {
            x.requested_name: _concatenate([result[x.requested_name] for result in results]).reorder(counted)
            for x in rules.measures
        },
        part.tag,
        missing,
        sum(x.unjudged for x in measured),
        {
            level: DocumentCounts(*map(sum, zip(*(x.counts[level] for x in measured), strict=True)))
            for level in measured[0].counts
        },
        sum(x.by_name for x in measured),
        measured[0].scores_are_ranks,
        _join_orders([x.by_order for x in measured], results, rules, counted),
    )


def _join_orders(
    by_order: Sequence[Mapping[str, Mapping[str, Result]]],
    results: Sequence[Mapping[str, Result]],
    rules: Rules,
    counted: list[Any],
) -> dict[str, dict[str, Result]]:
    """Return the results by order of all parts.

    Args:
        by_order: results by order of each part; empty if names do not decide.
        results: results of each part, and of queries without documents.
        rules: measures and conventions.
        counted: queries that count.
    """
    if not any(by_order):
        return {}
    joined: dict[str, dict[str, Result]] = {rule: {} for rule in ORDERS}
    parts = [*by_order, *[{}] * (len(results) - len(by_order))]
    for rule, of_rule in joined.items():
        for x in rules.measures:
            if names.has_order(x.name, rule, rules.denominator):
                name = x.requested_name
                values = [part.get(rule, own)[name] for part, own in zip(parts, results, strict=True)]
                of_rule[name] = _concatenate(values).reorder(counted)
    return joined


def measure_whole(qrels: Qrels, run: Run, rules: Rules) -> tuple[Measured, Views]:
    """Return the measures of a whole run, and the judged run by :attr:`RequestedMeasure.view`."""

    def judge_at(level: int, judged_only: bool) -> Judged:
        settings = {"convention": rules.convention, "complete": rules.complete, "judged_only": judged_only}
        return judge(qrels, run, relevance_level=level, **settings)  # type: ignore[arg-type]

    known, present = set(qrels.queries), {run.queries[place] for place in np.unique(run.query).tolist()}
    missing, unjudged = [x for x in qrels.queries if x not in present], sum(x not in known for x in run.queries)
    first_scores = run.scores[run.query == 0].tolist()
    return _measure_levels(judge_at, rules, run.tag, missing, unjudged, first_scores)


def measure_nested(qrels: NestedQrels, run: Nested, rules: Rules) -> Measured | None:
    """Return the measures of a run of nested dicts, without tables; None if tables are necessary.

    Args:
        qrels: judgements.
        run: a run that passes :func:`torch_ap.retrieval.runs.nested.is_run`.
        rules: measures and conventions.
    """
    documents: dict[bool, Any] = {
        judged_only: nested.documents_of(qrels, run, rules.convention, rules.complete, judged_only)
        for judged_only in dict.fromkeys(x.judged_only for x in rules.measures)
    }
    if None in documents.values():
        return None

    def judge_at(level: int, judged_only: bool) -> Judged:
        of_view = documents[judged_only]
        return Judged(list(of_view.qrels.source), rules.convention, level, of_view)

    missing, unjudged = [x for x in qrels.source if not run.get(x)], len(run.keys() - qrels.source.keys())
    first_scores = list(next(iter(run.values())).values())
    measured = _measure_levels(judge_at, rules, "", missing, unjudged, first_scores)[0]
    tied = [x for of_view in documents.values() for x in of_view.tied.items()]
    mixed = {query: 0 for query, groups in tied if any(min(grades) < max(grades) for grades in groups)}
    if not mixed or not rules.with_orders:
        return measured
    few_qrels, few_run = ({query: listed[query] for query in mixed} for listed in (qrels.source, run))
    few = measure_whole(qrels_of(few_qrels, {}), run_of(few_run, {}, "run"), rules)[0]
    return replace(
        measured,
        by_order={
            rule: {name: measured.results[name].with_some(x) for name, x in results.items()}
            for rule, results in few.by_order.items()
        },
    )


def _measure_levels(
    judge_at: Callable[[int, bool], Judged],
    rules: Rules,
    tag: str,
    missing: list[Any],
    unjudged: int,
    first_scores: Sequence[float],
) -> tuple[Measured, Views]:
    """Return the measures of a whole run, and the judged run by :attr:`RequestedMeasure.view`.

    Args:
        judge_at: function that judges the run for a view.
        rules: measures and conventions.
        tag: see :class:`Measured`.
        missing: see there.
        unjudged: see there.
        first_scores: scores of the first query.
    """
    judged = {view: judge_at(*view) for view in rules.bound}
    results: dict[str, Result] = {}
    for view, bound in rules.bound.items():
        results |= names.evaluate(judged[view], bound)
    if len(judged) > 1:
        results = {x.requested_name: results[x.requested_name] for x in rules.measures}
    views = {x.view for x in rules.measures if x.name not in COUNTS} or set(judged)
    documents = judged[min(judged, key=lambda view: view[1])].documents  # all documents, unless all measures omit some
    counts = {level: documents.counts(level) for level in sorted({level for level, _ in views})}
    by_name = set[Any]().union(*(judged[view].documents.queries_by_name(view[0]) for view in views))
    by_order = {}
    if rules.with_orders and any(isinstance(x.documents, Listed) and x.documents.by_name for x in judged.values()):
        by_order = _results_by_order(judged, rules)
    is_ranked = _are_ranks(first_scores)
    return Measured(results, tag, missing, unjudged, counts, len(by_name), is_ranked, by_order), judged


def _results_by_order(judged: Views, rules: Rules) -> dict[str, dict[str, Result]]:
    """Return the results for other orders of tied documents than the order of names."""
    by_order: dict[str, dict[str, Result]] = {rule: {} for rule in ORDERS}
    for view, of_view in judged.items():
        assert isinstance(of_view.documents, Listed)
        documents = replace(of_view.documents, by_document=False, by_name={})
        for rule, results in by_order.items():
            bound = [x for x in rules.bound[view] if names.has_order(x.name, rule, rules.denominator)]
            measures = {x.requested_name: x.name for x in bound}
            rankings = Judged(of_view.queries, rule, of_view.relevance_level, documents)
            results |= names.evaluate(rankings, names.bind(measures, rule, rules.denominator))
    return by_order


def _concatenate(parts: Sequence[Result]) -> Result:
    """Return the result of all parts."""
    if len(parts) == 1:
        return parts[0]
    joined = parts[0].with_values(
        [query for part in parts for query in part.queries], torch.cat([part.values for part in parts])
    )
    return joined._replace(upper_bound=max(part.upper_bound for part in parts))


def _are_ranks(scores: Sequence[float]) -> bool:
    """Return whether the scores are 1, 2, 3, ..., or 0, 1, 2, ..., in this order."""
    first = int(scores[0]) if len(scores) > 2 and scores[0] in (0, 1) else -1
    return first >= 0 and list(scores) == list(range(first, first + len(scores)))
