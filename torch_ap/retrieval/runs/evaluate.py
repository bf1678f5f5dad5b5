"""Evaluation of runs against judgements in one call."""

import os
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, overload

from torch_ap.core.base import cached, checks
from torch_ap.core.base.messages import Plain, raise_invalid, short_repr
from torch_ap.core.base.options import Denominator, MissingQueries
from torch_ap.core.measures.ties import DENOMINATORS
from torch_ap.inference.groups import few_groups_reason, ids_of_groups
from torch_ap.retrieval.runs import names, nested, notes
from torch_ap.retrieval.runs.judged import Judged, Judgements, judge, judgements_of
from torch_ap.retrieval.runs.measure_names import CONVENTIONS
from torch_ap.retrieval.runs.measured import Measured, Rules, measure_file, measure_nested, measure_whole
from torch_ap.retrieval.runs.names import RequestedMeasure
from torch_ap.retrieval.runs.results import Evaluation, RunComparison
from torch_ap.retrieval.runs.tables import run_of, with_common_names, with_file_names
from torch_ap.retrieval.settings import MISSING

if TYPE_CHECKING:
    from typing_extensions import Unpack

_USUAL = ("AP", "AP@10", "P@5", "P@10", "R@100", "Rprec", "RR")

RunTies: TypeAlias = Literal["trec10", "trec9", "expected", "grouped", "optimistic", "pessimistic"]


@dataclass(frozen=True)
class _Plan:
    """The settings of :func:`torch_ap.evaluate`.

    Attributes:
        rules: measures and conventions.
        missing_queries: value of a judged query without documents.
        confidence_level: nominal coverage of the intervals.
        conventions: (requested name, description of the measure).
        notes: on names that have several meanings.
    """

    rules: Rules
    missing_queries: str
    confidence_level: float
    conventions: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


class _Settings(TypedDict, total=False):
    relevance_level: int
    judged_only: bool
    ties: RunTies
    denominator: Denominator
    missing_queries: MissingQueries
    confidence_level: float
    groups: Mapping[Any, Hashable] | None
    query: str | None
    document: str | None
    grade: str | None
    score: str | None


@overload
def evaluate(qrels: Any, run: Any, measures: Any = ..., **settings: "Unpack[_Settings]") -> Evaluation: ...


@overload
def evaluate(
    qrels: Any, *, measures: Any = ..., runs: Mapping[str, Any], **settings: "Unpack[_Settings]"
) -> RunComparison: ...


def evaluate(
    qrels: Any,
    run: Any = None,
    measures: Any = _USUAL,
    *,
    runs: Mapping[str, Any] | None = None,
    relevance_level: int = 1,
    judged_only: bool = False,
    ties: RunTies = "trec10",
    denominator: Denominator = "relevant",
    missing_queries: MissingQueries = "neg",
    confidence_level: float = 0.95,
    groups: Mapping[Any, Hashable] | None = None,
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
            its measure objects; names of trec_eval ("map_cut.10", "recip_rank", "P.5,10"), of ranx ("mrr", "f1@5",
            "ndcg_burges@10", "map-l2"), BEIR and sentence-transformers ("Accuracy@10", the hit rate), and of
            ``torch-ap trec --help``.
        runs: several runs by name, instead of ``run``.
        relevance_level: lowest relevant grade, at least 1, for measures without a level of their own.
        judged_only: whether documents without a judgement, or with a negative grade, are left out of the rankings
            (condensed lists, Sakai 2007; ``trec_eval -J``). For one measure also as in ``AP(judged_only=True)``.
        ties: how tied scores are ordered: "trec10" and "trec9" as in these versions of trec_eval, documents in
            descending order of their names, scores in double or single precision; or a rule without an order:
            "expected", "grouped", "optimistic", "pessimistic".
        denominator: divisor of AP@k: "relevant" all relevant documents (trec_eval, ir_measures, BEIR), "min" at
            most k (sentence-transformers), "found" the relevant documents in the top k.
        missing_queries: value of a judged query without documents: "neg" 0 (``trec_eval -c``, ir_measures),
            "skip" left out, in all ``runs`` (trec_eval, ``torch-ap trec``), "error".
        confidence_level: nominal coverage of the intervals, in (0, 1).
        groups: ``{query: group}`` with every query that counts: its topic or user, a number or text. Queries of a group
            may depend on each other in intervals and p-values, see :func:`torch_ap.inference.mean_interval`. None for
            independent queries.
        query: column of tables; None for the existing one of "query", "query_id", "qid", "q_id".
        document: column; None for one of "doc", "doc_id", "document", "docno", "docid".
        grade: column; None for one of "grade", "relevance", "label", "rel".
        score: column; None for "score".

    Returns:
        :class:`torch_ap.retrieval.runs.Evaluation` of ``run``, which prints as a table and has ``to_dict()``
        ({requested measure: mean}), ``per_query``, ``confidence_interval``, ``to_pandas``, ``to_markdown``,
        ``to_latex``;
        :class:`torch_ap.retrieval.runs.RunComparison` of ``runs``, with the best run of each measure and
        p-values of all pairs. ``conventions`` describes each measure, ``notes`` the items that count 0 or do not count.

    Raises:
        TypeError, ValueError: for an unknown measure or option, a duplicate document, a score that is NaN or infinite,
            a grade that is not whole, names of several types, judgements and runs without a common query, a query
            without a group.
        OSError: for a file that cannot be read.

    Warns:
        UserWarning: if judged queries have no documents, no query has a relevant document, a run contains no
            relevant document, or there are fewer than 10 ``groups``.

    A document without a judgement, or with a grade below ``relevance_level``, is not relevant. A query of the run
    without judgements does not count. Equals ``pytrec_eval`` and ``ir_measures`` with ``ties="trec9"``; both also use
    the interpolated precision of trec_eval 9. Exceptions in ``ir_measures`` 0.4.3: RR@k and Judged@k put the tied
    document with the smaller name first, and NumQ and NumRel leave out judged queries without documents.

    Example:
        >>> import torch_ap
        >>> qrels = {"q1": {"d1": 1, "d4": 1}, "q2": {"d2": 1}}
        >>> run = {"q1": {"d1": 0.9, "d2": 0.5, "d3": 0.3}, "q2": {"d1": 2.0, "d2": 1.0}}
        >>> torch_ap.evaluate(qrels, run, ["AP", "P@1"]).to_dict()
        {'AP': 0.5, 'P@1': 0.5}
    """
    plan = _plan(measures, relevance_level, judged_only, ties, denominator, missing_queries, confidence_level)
    if (run is None) == (runs is None):
        raise ValueError(f"exactly one of `run` and `runs` must be given, got {'neither' if run is None else 'both'}")
    columns = {"query": query, "document": document, "grade": grade, "score": score}
    judgements = judgements_of(qrels, columns)
    sources = {"run": run} if runs is None else _runs_by_name(runs)
    measured = {name: measure_source(judgements, x, name, columns, plan.rules) for name, x in sources.items()}
    for name, x in measured.items():
        path = os.fspath(sources[name]) if isinstance(sources[name], str | os.PathLike) else f"`{name}`"
        if reason := x.failure_reason(len(judgements.queries), judgements.path, path):
            raise ValueError(reason)
    counted = _counted_queries(judgements, measured, plan, "run" if runs is None else "runs")
    few_groups = ""
    if groups is not None:
        ids = ids_of_groups(counted, groups, "query")
        groups = {x: groups[x] for x in counted}
        few_groups = few_groups_reason(ids.max() + 1, "queries")
    of_runs = {
        name: list(notes.run_notes(judgements, x, name, plan.rules.complete, counted)) for name, x in measured.items()
    }
    of_all = [*notes.judgement_notes(judgements, counted, plan.rules.measures), *plan.notes]
    if few_groups:
        of_all.append(f"`groups`: {few_groups}")
    if runs is not None:
        of_all = [*notes.left_out_notes(judgements, counted), *of_all]
    evaluations = {
        name: Evaluation(
            {name_of_measure: result.reorder(counted) for name_of_measure, result in x.results.items()},
            dict(plan.conventions),
            (*of_runs[name], *of_all),
            plan.confidence_level,
            groups,
        )
        for name, x in measured.items()
    }
    if runs is None:
        return evaluations["run"]
    return RunComparison(evaluations, (*chain.from_iterable(of_runs.values()), *of_all))


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


def judged_run(qrels: Judgements, run: Any, relevance_level: int, judged_only: bool) -> Judged:
    """Return the rankings of all judged queries of a run of nested dicts, by the rules of trec_eval 9."""
    if qrels.nested is not None and nested.is_run(run):
        documents = nested.documents_of(qrels.nested, run, "trec9", True, judged_only)
        if documents is not None:
            return Judged(qrels.queries, "trec9", relevance_level, documents)
    table, rows = with_common_names(qrels.table, run_of(run, {}, "run"))
    settings: dict[str, Any] = {"complete": True, "judged_only": judged_only}
    return judge(table, rows, relevance_level=relevance_level, convention="trec9", **settings)


def measure_source(
    qrels: Judgements, source: Any, name: str, columns: Mapping[str, str | None], rules: Rules
) -> Measured:
    """Return the measures of a run in any form that :func:`evaluate` accepts.

    Args:
        qrels: judgements.
        source: the run.
        name: name of the argument in messages.
        columns: names of the columns of a table.
        rules: measures and conventions.
    """
    measured = None
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        measured = measure_file(with_file_names(qrels.table, path), path, rules)
    elif qrels.nested is not None and nested.is_run(source):
        measured = measure_nested(qrels.nested, source, rules)
    if measured is None:
        judgements, run = with_common_names(qrels.table, run_of(source, columns, name))
        measured = measure_whole(judgements, run, rules)[0]
    return measured


def _plan(measures: Any, *settings: Any) -> _Plan:
    """Return the plan for measures by name or of ir_measures; ``settings``: see :func:`_validated_plan`."""
    several = isinstance(measures, Iterable) and not isinstance(measures, str)
    requested = tuple(map(_name_of, measures)) if several else (_name_of(measures),)
    if not requested:
        raise_invalid("measures", "must name at least one", measures)
    return _validated_plan(requested, *settings)


def _name_of(measure: Any) -> str:
    """Return the name of a measure, or of an object of ir_measures."""
    name = str(measure)
    if not isinstance(measure, str) and name.startswith("Accuracy"):  # BEIR's name of another measure
        raise ValueError(f"measure {short_repr(name)} of ir_measures, of pairs of documents, is unknown")
    return name


@cached.settings_cache
def _validated_plan(
    requested: tuple[str, ...],
    relevance_level: int,
    judged_only: bool,
    ties: str,
    denominator: str,
    missing_queries: str,
    confidence_level: float,
) -> _Plan:
    checks.one_of("ties", ties, CONVENTIONS)
    checks.one_of("denominator", denominator, DENOMINATORS)
    checks.one_of("missing_queries", missing_queries, tuple(MISSING))
    checks.positive_int("relevance_level", relevance_level)
    checks.boolean("judged_only", judged_only)
    measures: dict[str, RequestedMeasure] = {}
    for name in requested:
        named = names.requested_measures(name, relevance_level, judged_only=judged_only)
        measures |= (
            {x.requested_name: x for x in named} if len(named) > 1 else {name: replace(named[0], requested_name=name)}
        )
    for x in measures.values():
        checks.positive_int("relevance_level", x.level)
        names.check(x.name, ties)
    return _Plan(
        Rules(tuple(measures.values()), ties, missing_queries == "neg", denominator, with_orders=True),
        missing_queries,
        checks.open_fraction("confidence_level", confidence_level),
        tuple((x.requested_name, names.meaning(x.name, ties, denominator)) for x in measures.values()),
        tuple(notes.convention_notes(list(measures.values()), denominator)),
    )
