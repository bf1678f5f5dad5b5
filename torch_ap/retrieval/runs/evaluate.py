"""Evaluation of runs against judgements in one call.

Measures of a run against judgements, for a part of its queries at a time.

Notes and warnings on an evaluation: items that count 0 or do not count, and their number.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np
import torch

from torch_ap.core.base import cached, checks
from torch_ap.core.base.messages import Plain, raise_invalid, short_repr, warn_caller
from torch_ap.core.base.options import Denominator, MissingQueries
from torch_ap.core.columns.columns import Progress
from torch_ap.core.measures.ties import DENOMINATORS
from torch_ap.retrieval.runs import names as report
from torch_ap.retrieval.runs import tables
from torch_ap.retrieval.runs.judged import Judged, Judgements, judge, judgements_of
from torch_ap.retrieval.runs.measure_names import CONVENTIONS, COUNTS
from torch_ap.retrieval.runs.names import Asked, Result
from torch_ap.retrieval.runs.results import Evaluation, RunComparison
from torch_ap.retrieval.runs.tables import Nested, NestedQrels, run_of, with_common_names, with_file_names
from torch_ap.retrieval.runs.trec import NotGroupedError, Qrels, Run, read_run, run_parts
from torch_ap.retrieval.settings import MISSING


class Rules(NamedTuple):
    """Conventions of an evaluation.

    Attributes:
        convention: how tied scores are ordered; see :func:`torch_ap.retrieval.runs.judged.judge`.
        complete: whether judged queries without documents count, as with ``trec_eval -c``.
        denominator: divisor of AP@k.
    """

    convention: str = "trec10"
    complete: bool = False
    denominator: str = "relevant"


@dataclass(frozen=True, eq=False)
class Measured:
    """Measures of a run.

    Attributes:
        results: by requested name; queries in the order of the judgements.
        tag: the name of the run, from its file, or "".
        missing: judged queries without a document.
        unjudged: number of queries of the run without judgements.
        documents: number of documents of the run for judged queries.
        judged: number of these documents that were judged.
        blind: whether none of these documents is relevant, although the judgements contain relevant documents.
        by_name: number of queries where the order of names ranks a relevant and another document that tie.
        scores_are_ranks: whether the scores of the first query are 1, 2, 3, ..., or 0, 1, 2, ..., in this order.
    """

    results: dict[str, Result]
    tag: str
    missing: list[Any]
    unjudged: int
    documents: int
    judged: int
    blind: bool
    by_name: int
    scores_are_ranks: bool

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


def measure_file(
    qrels: Qrels, path: str, measures: Sequence[Asked], rules: Rules, progress: Progress | None = None
) -> Measured:
    """Return the measures of a run in a file, read in parts if the lines of each query are contiguous."""
    try:
        return measure(qrels, run_parts(path, progress=progress), measures, rules)
    except NotGroupedError:
        if not Path(path).is_file():
            raise
    return measure_whole(qrels, read_run(path, progress=progress), measures, rules)[0]


def measure(qrels: Qrels, parts: Iterable[Run], measures: Sequence[Asked], rules: Rules) -> Measured:
    """Return the measures of a run in parts of whole queries, at least one part."""
    known, there, unjudged, ranks = set(qrels.queries), set[Any](), 0, list[bool]()
    part_results, counts = list[dict[str, Result]](), list[tuple[int, int, bool, bool, int]]()
    for part in parts:
        levels, results = _measure_levels(partial(_judge, qrels, part, rules.convention), measures, rules.denominator)
        first = levels[measures[0].level]
        part_results.append(results)
        counts.append(first.documents.counts(first.relevance_level))
        there |= set(first.queries)
        unjudged += sum(query not in known for query in part.queries)
        ranks.append(_are_ranks(part.scores[part.query == 0].tolist()))
    documents, judged, relevant, hits, by_name = (sum(x) for x in zip(*counts, strict=True))
    missing = [query for query in qrels.queries if query not in there]
    if missing and rules.complete:
        none = partial(_judge, qrels, part.emptied, rules.convention, complete=True)
        results = _measure_levels(none, measures, rules.denominator)[1]
        part_results.append({name: result.reorder(missing) for name, result in results.items()})
    counted = [query for query in qrels.queries if rules.complete or query in there]
    return Measured(
        {x.asked: _concatenate([results[x.asked] for results in part_results]).reorder(counted) for x in measures},
        part.tag,
        missing,
        unjudged,
        documents,
        judged,
        bool(relevant and not hits),
        by_name,
        scores_are_ranks=ranks[0],
    )


def measure_whole(
    qrels: Qrels, run: Run, measures: Sequence[Asked], rules: Rules
) -> tuple[Measured, dict[int, Judged]]:
    """Return the measures of a whole run, and the judged run by the lowest relevant grade."""
    judge_at = partial(_judge, qrels, run, rules.convention, complete=rules.complete)
    levels, results = _measure_levels(judge_at, measures, rules.denominator)
    known, there = set(qrels.queries), {run.queries[place] for place in np.unique(run.query).tolist()}
    missing, unjudged = [x for x in qrels.queries if x not in there], sum(x not in known for x in run.queries)
    ranks = _are_ranks(run.scores[run.query == 0].tolist())
    return _whole(levels[measures[0].level], results, run.tag, missing, unjudged, ranks), levels


def measure_nested(qrels: NestedQrels, run: Nested, measures: Sequence[Asked], rules: Rules) -> Measured | None:
    """Return the measures of a run of nested dicts, without tables; None if tables are necessary.

    Args:
        qrels: judgements.
        run: a run that passes :func:`torch_ap.retrieval.runs.tables.is_run`.
        measures: the measures.
        rules: conventions.
    """
    documents = tables.documents_of(qrels, run, rules.convention, rules.complete)
    if documents is None:
        return None
    queries = list(documents.qrels.source)

    def judge_at(level: int) -> Judged:
        return Judged(queries, rules.convention, level, documents)

    levels, results = _measure_levels(judge_at, measures, rules.denominator)
    missing, unjudged = [x for x in qrels.source if not run.get(x)], len(run.keys() - qrels.source.keys())
    ranks = _are_ranks(list(next(iter(run.values())).values()))
    return _whole(levels[measures[0].level], results, "", missing, unjudged, ranks)


def _whole(
    judged: Judged, results: dict[str, Result], tag: str, missing: list[Any], unjudged: int, ranks: bool
) -> Measured:
    """Return the record of a whole run; numbers of documents use the relevance level of the first measure."""
    documents, known, relevant, hits, by_name = judged.documents.counts(judged.relevance_level)
    blind = relevant and not hits
    return Measured(results, tag, missing, unjudged, documents, known, blind, by_name, scores_are_ranks=ranks)


def _judge(qrels: Qrels, run: Run, convention: str, level: int, *, complete: bool = False) -> Judged:
    return judge(qrels, run, relevance_level=level, convention=convention, complete=complete)


def _measure_levels(
    judge_at: Callable[[int], Judged], measures: Sequence[Asked], denominator: str
) -> tuple[dict[int, Judged], dict[str, Result]]:
    """Return the judged run by the lowest relevant grade, the argument of ``judge_at``, and the results by name."""
    judged = {level: judge_at(level) for level in dict.fromkeys(x.level for x in measures)}
    results = {
        level: report.evaluate(one, [x.name for x in measures if x.level == level], denominator=denominator)
        for level, one in judged.items()
    }
    return judged, {x.asked: results[x.level][x.name] for x in measures}


def _concatenate(parts: Sequence[Result]) -> Result:
    """Return the result of all parts."""
    if len(parts) == 1:
        return parts[0]
    return parts[0].with_values(
        [query for part in parts for query in part.queries], torch.cat([part.values for part in parts])
    )


def _are_ranks(scores: Sequence[float]) -> bool:
    """Return whether the scores are 1, 2, 3, ..., or 0, 1, 2, ..., in this order."""
    first = int(scores[0]) if len(scores) > 2 and scores[0] in (0, 1) else -1
    return first >= 0 and list(scores) == list(range(first, first + len(scores)))


_DIVISORS = {
    "relevant": "all relevant documents",
    "min": "k or all relevant documents, whichever are fewer",
    "found": "the relevant documents in the top k",
}
_SINGULAR = {
    "s": "s",
    "are": "is",
    "do": "does",
    "have": "has",
    "query": "query",
    "these": "this document",
    "them": "it",
}
_PLURAL = {
    "s": "",
    "are": "are",
    "do": "do",
    "have": "have",
    "query": "queries",
    "these": "these documents",
    "each": "each",
}


def on_run(qrels: Judgements, run: Measured, name: str, complete: bool) -> Iterator[str]:
    """Yield the notes on a run; probable mistakes are also warnings."""
    warnings = []
    if run.missing:
        missing, judged = len(run.missing), len(qrels.queries)
        what = "which count{s} 0" if complete else "which {are} left out"
        warnings.append(
            f"`{name}` has no documents for {missing:,} of {judged:,} judged queries, {_inflect(missing, what)}"
        )
    if run.blind:
        alone = run.documents == 1
        warnings.append(
            f"{'the one document' if alone else f'none of the {run.documents:,} documents'} of `{name}` is "
            f"{'not ' if alone else ''}relevant"
        )
    if run.scores_are_ranks:
        warnings.append(f"the scores of the first query of `{name}` rise by one per document, as ranks do")
    for text in warnings:
        warn_caller(f"{text}.", UserWarning)
    yield from warnings
    if run.unjudged:
        yield f"`{name}` {describe_unjudged(run.unjudged)}"
    if run.by_name:
        yield f"`{name}` {describe_name_ties(run.by_name)}"
    if unjudged := run.documents - run.judged:
        which = f"{unjudged:,} of the {run.documents:,} documents" if run.documents > 1 else "the one document"
        yield f"{which} of `{name}` {_inflect(unjudged, '{have} no judgement, and {are} not relevant')}"


def on_judgements(qrels: Judgements, counted: Sequence[Any], measures: Sequence[Asked]) -> Iterator[str]:
    """Yield the notes on the judgements, and warn if nothing is relevant; ``counted`` are the queries that count."""
    for level in levels_of(measures):
        if without := len(qrels.queries_without(level).intersection(counted)):
            note = describe_without_relevant(without, len(counted), level)
            if without == len(counted):
                warn_caller(f"{note}.", UserWarning)
            yield note
    negative, grades = qrels.count_negative()
    if negative:
        yield f"{negative:,} of {grades:,} grades {_inflect(negative, '{are} negative: {these} {are} not relevant')}"


def levels_of(measures: Sequence[Asked]) -> list[int]:
    """Return the lowest relevant grades of the measures that are not counts."""
    return list(dict.fromkeys(x.level for x in measures if x.name not in COUNTS))


def describe_unjudged(queries: int) -> str:
    """Return the end of a sentence about a run with this number of queries without judgements."""
    return f"has {queries:,} {_inflect(queries, '{query} without judgements, which {do} not count')}"


def describe_name_ties(queries: int) -> str:
    """Return the end of a sentence about a run where the order of names decides the ranks in some queries."""
    return (
        f"has tied scores in {queries:,} {_inflect(queries, '{query}')}, where the order of the documents' names "
        "decides between relevant and other documents: descending as text, so that 'd9' precedes 'd10'"
    )


def describe_without_relevant(without: int, judged: int, level: int) -> str:
    """Return the sentence on judged queries without a relevant document."""
    what = _inflect(without, "{have} no document of grade {level} or more, and count{s} 0", level)
    return f"{without:,} of {judged:,} judged queries {what}"


def on_left_out(qrels: Judgements, counted: Sequence[Any]) -> Iterator[str]:
    """Yield the note on queries that are left out for all runs because one run has no documents for them."""
    if left_out := len(qrels.queries) - len(counted):
        what = _inflect(left_out, "{are} left out of all, for not every run has documents for {them}")
        yield f"{left_out:,} of {len(qrels.queries):,} judged queries {what}"


def on_conventions(measures: Sequence[Asked], denominator: str) -> Iterator[str]:
    """Yield notes on names that have several meanings."""
    cut = [x.asked for x in measures if x.name.startswith(("map@", "map_cut_"))]
    if cut:
        yield f"{', '.join(cut)}: divided by {_DIVISORS[denominator]} (`denominator={denominator!r}`)"


def _inflect(count: int, words: str, level: int = 1) -> str:
    """Return the words in the singular or plural."""
    return words.format(level=level, **(_SINGULAR if count == 1 else _PLURAL))


_USUAL = ("AP", "AP@10", "P@5", "P@10", "R@100", "Rprec", "RR")

RunTies: TypeAlias = Literal["trec10", "trec9", "expected", "grouped", "optimistic", "pessimistic"]


@dataclass(frozen=True)
class _Plan:
    """The settings of :func:`torch_ap.evaluate`.

    Attributes:
        measures: requested measures.
        rules: conventions.
        missing_queries: value of a judged query without documents.
        confidence_level: nominal coverage of the intervals.
        conventions: (requested name, description of the measure).
        notes: on names that have several meanings.
    """

    measures: tuple[Asked, ...]
    rules: Rules
    missing_queries: str
    confidence_level: float
    conventions: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


@overload
def evaluate(
    qrels: Any,
    run: Any,
    measures: Any = ...,
    *,
    relevance_level: int = ...,
    ties: RunTies = ...,
    denominator: Denominator = ...,
    missing_queries: MissingQueries = ...,
    confidence_level: float = ...,
    query: str | None = ...,
    document: str | None = ...,
    grade: str | None = ...,
    score: str | None = ...,
) -> Evaluation: ...


@overload
def evaluate(
    qrels: Any,
    *,
    measures: Any = ...,
    runs: Mapping[str, Any],
    relevance_level: int = ...,
    ties: RunTies = ...,
    denominator: Denominator = ...,
    missing_queries: MissingQueries = ...,
    confidence_level: float = ...,
    query: str | None = ...,
    document: str | None = ...,
    grade: str | None = ...,
    score: str | None = ...,
) -> RunComparison: ...


def evaluate(
    qrels: Any,
    run: Any = None,
    measures: Any = _USUAL,
    *,
    runs: Mapping[str, Any] | None = None,
    relevance_level: int = 1,
    ties: RunTies = "trec10",
    denominator: Denominator = "relevant",
    missing_queries: MissingQueries = "neg",
    confidence_level: float = 0.95,
    query: str | None = None,
    document: str | None = None,
    grade: str | None = None,
    score: str | None = None,
) -> Evaluation | RunComparison:
    """Return measures of a run, or of several, against judgements, by the names of ir_measures and trec_eval.

    Args:
        qrels: judgements, in one of these forms: nested dicts ``{query: {document: grade}}``; a table with columns
            (pandas, Polars, Arrow); the path of a TREC file, text or Parquet; or the result of
            ``torch_ap.files.read_qrels``. Queries and documents may have any hashable type, equal in ``run``.
        run: the retrieved documents, in one of these forms, with scores instead of grades, or the result of
            ``torch_ap.files.read_run``. Files are read in parts of whole queries, so that memory does not grow.
        measures: one or several: names of ir_measures ("AP", "AP@10", "P@5", "R@100", "RR", "Rprec", "AP(rel=2)"), or
            its measure objects; names of trec_eval ("map_cut.10", "recip_rank", "P.5,10") and of
            ``torch-ap trec --help``.
        runs: several runs by name, instead of ``run``.
        relevance_level: lowest relevant grade, at least 1, for measures without a level of their own.
        ties: how tied scores are ordered: "trec10" and "trec9" as in these versions of trec_eval, documents in
            descending order of their names, scores in double or single precision; or a rule without an order:
            "expected", "grouped", "optimistic", "pessimistic".
        denominator: divisor of AP@k: "relevant" all relevant documents (trec_eval, ir_measures, BEIR), "min" at
            most k (sentence-transformers), "found" the relevant documents in the top k.
        missing_queries: value of a judged query without documents: "neg" 0 (``trec_eval -c``, ir_measures),
            "skip" left out, in all ``runs`` (trec_eval, ``torch-ap trec``), "error".
        confidence_level: nominal coverage of the intervals, in (0, 1).
        query: column of tables; None for the existing one of "query", "query_id", "qid", "q_id".
        document: column; None for one of "doc", "doc_id", "document", "docno", "docid".
        grade: column; None for one of "grade", "relevance", "label", "rel".
        score: column; None for "score".

    Returns:
        :class:`torch_ap.retrieval.runs.results.Evaluation` of ``run``, which prints as a table and has ``to_dict()``
        ({requested measure: mean}), ``per_query``, ``confidence_interval``, ``to_pandas``, ``to_markdown``,
        ``to_latex``;
        :class:`torch_ap.retrieval.runs.results.RunComparison` of ``runs``, with the best run of each measure and
        p-values of all pairs. ``conventions`` describes each measure, ``notes`` the items that count 0 or do not count.

    Raises:
        TypeError, ValueError: for an unknown measure or option, a duplicate document, a score that is NaN or infinite,
            a grade that is not whole, names of several types, judgements and runs without a common query.
        OSError: for a file that cannot be read.

    Warns:
        UserWarning: if judged queries have no documents, no query has a relevant document, or a run contains no
            relevant document.

    A document without a judgement, or with a grade below ``relevance_level``, is not relevant. A query of the run
    without judgements does not count. Equals ``pytrec_eval`` and ``ir_measures`` with ``ties="trec9"``; both also use
    the interpolated precision of trec_eval 9.

    Example:
        >>> import torch_ap
        >>> qrels = {"q1": {"d1": 1, "d4": 1}, "q2": {"d2": 1}}
        >>> run = {"q1": {"d1": 0.9, "d2": 0.5, "d3": 0.3}, "q2": {"d1": 2.0, "d2": 1.0}}
        >>> torch_ap.evaluate(qrels, run, ["AP", "P@1"]).to_dict()
        {'AP': 0.5, 'P@1': 0.5}
    """
    plan = _plan(measures, relevance_level, ties, denominator, missing_queries, confidence_level)
    if (run is None) == (runs is None):
        raise ValueError(f"`run` or `runs` must be given, one of them, got {'neither' if run is None else 'both'}")
    columns = {"query": query, "document": document, "grade": grade, "score": score}
    judgements = judgements_of(qrels, columns)
    sources = {"run": run} if runs is None else _runs_by_name(runs)
    measured = {name: _measure(judgements, source, name, columns, plan) for name, source in sources.items()}
    kept = _counted_queries(judgements, measured, plan, "run" if runs is None else "runs")
    notes = [*on_judgements(judgements, kept, plan.measures), *plan.notes]
    if runs is not None:
        notes = [*on_left_out(judgements, kept), *notes]
    on_runs = {name: list(on_run(judgements, x, name, plan.rules.complete)) for name, x in measured.items()}
    evaluations = {
        name: Evaluation(
            {asked: result.reorder(kept) for asked, result in x.results.items()},
            dict(plan.conventions),
            (*on_runs[name], *notes),
            plan.confidence_level,
        )
        for name, x in measured.items()
    }
    return (
        evaluations["run"]
        if runs is None
        else RunComparison(evaluations, (*chain.from_iterable(on_runs.values()), *notes))
    )


def _counted_queries(qrels: Judgements, measured: Mapping[str, Measured], plan: _Plan, argument: str) -> list[Any]:
    """Return the judged queries that count."""
    missing = set[Any]().union(*(x.missing for x in measured.values()))
    if missing and plan.missing_queries == "error":
        first = next(x for x in qrels.queries if x in missing)
        rule = "must have documents for every judged query by `missing_queries='error'`"
        raise_invalid(argument, rule, Plain(f"none for {len(missing)}, as {short_repr(first)}"))
    if not missing or plan.rules.complete:
        return qrels.queries
    kept = [x for x in qrels.queries if x not in missing]
    if not kept:
        raise ValueError("`runs` must have judged queries in common, got none")
    return kept


def _runs_by_name(runs: Any) -> dict[str, Any]:
    if not isinstance(runs, Mapping) or not runs:
        raise_invalid(
            "runs", "must be {name: run} of at least one run", runs if runs == {} else Plain(type(runs).__name__)
        )
    by_name = {str(name): run for name, run in runs.items()}
    if len(by_name) < len(runs):
        raise_invalid("runs", "must have names that differ as text", Plain(short_repr(list(runs))))
    return by_name


def _measure(qrels: Judgements, source: Any, name: str, columns: Mapping[str, str | None], plan: _Plan) -> Measured:
    (measures, rules), path, measured = (plan.measures, plan.rules), f"`{name}`", None
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        measured = measure_file(with_file_names(qrels.table, path), path, measures, rules)
    elif qrels.nested is not None and tables.is_run(source):
        measured = measure_nested(qrels.nested, source, measures, rules)
    if measured is None:
        judgements, run = with_common_names(qrels.table, run_of(source, columns, name))
        measured = measure_whole(judgements, run, measures, rules)[0]
    if reason := measured.failure_reason(len(qrels.queries), qrels.path, path):
        raise ValueError(reason)
    return measured


def _plan(measures: Any, *settings: Any) -> _Plan:
    """Return the plan for measures by name or of ir_measures; ``settings``: see :func:`_validated_plan`."""
    several = isinstance(measures, Iterable) and not isinstance(measures, str)
    names = tuple(map(str, measures)) if several else (str(measures),)
    if not names:
        raise_invalid("measures", "must name at least one", measures)
    return _validated_plan(names, *settings)


@cached.settings_cache
def _validated_plan(
    names: tuple[str, ...],
    relevance_level: int,
    ties: str,
    denominator: str,
    missing_queries: str,
    confidence_level: float,
) -> _Plan:
    checks.one_of("ties", ties, CONVENTIONS)
    checks.one_of("denominator", denominator, DENOMINATORS)
    checks.one_of("missing_queries", missing_queries, tuple(MISSING))
    checks.positive_int("relevance_level", relevance_level)
    requested: dict[str, Asked] = {}
    for name in names:
        measures = report.requested_measures(name, relevance_level)
        requested |= {x.asked: x for x in measures} if len(measures) > 1 else {name: replace(measures[0], asked=name)}
    for x in requested.values():
        checks.positive_int("relevance_level", x.level)
        report.check(x.name, ties)
    return _Plan(
        tuple(requested.values()),
        Rules(ties, missing_queries == "neg", denominator),
        missing_queries,
        checks.open_fraction("confidence_level", confidence_level),
        tuple((x.asked, report.meaning(x.name, ties, denominator)) for x in requested.values()),
        tuple(on_conventions(list(requested.values()), denominator)),
    )
