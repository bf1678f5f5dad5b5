"""One call for whoever has judgements and a run."""

import os
from collections.abc import Mapping
from itertools import chain
from typing import Any, Literal, TypeAlias, overload

from torch_ap.rules.messages import Plain, refuse, shown
from torch_ap.rules.options import Denominator, MissingQueries
from torch_ap.runs import nested, remarks
from torch_ap.runs.given import alike, as_in_files, run_of
from torch_ap.runs.judgements import Judgements, judgements_of
from torch_ap.runs.measured import Measured, measure_file, measure_nested, measure_whole
from torch_ap.runs.plan import Plan, plan_of
from torch_ap.runs.results import Evaluation, RunComparison

_USUAL = ("AP", "AP@10", "P@5", "P@10", "R@100", "Rprec", "RR")

RunTies: TypeAlias = Literal["trec10", "trec9", "expected", "grouped", "optimistic", "pessimistic"]


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
    """Measures of a run, or of several, against judgements, by the names of ir_measures and trec_eval.

    Args:
        qrels: judgements, and
        run: what a system retrieved, each in any of these forms: nested dicts ``{query: {document: grade or score}}``;
            a table with columns (pandas, Polars, Arrow); the path of a file, TREC's text or Parquet; or what
            ``torch_ap.files.trec.read_qrels`` and ``read_run`` give. Queries and documents may be of any hashable type,
            of one in both. Runs in files are read in parts of whole queries: memory does not grow with them.
        measures: one or several: ir_measures' names ("AP", "AP@10", "P@5", "R@100", "RR", "Rprec", "AP(rel=2)"), or its
            measures themselves; trec_eval's ("map_cut.10", "recip_rank", "P.5,10"); those of ``torch-ap trec --help``.
        runs: several runs by name, instead of ``run``.
        relevance_level: lowest relevant grade, at least 1, where a measure does not say it.
        ties: how tied scores are ordered: "trec10" and "trec9" as in these versions of trec_eval, documents in
            descending order of their names, scores in double or single precision; or a rule without an order:
            "expected", "grouped", "optimistic", "pessimistic".
        denominator: what AP@k divides by: "relevant" all relevant documents (trec_eval, ir_measures, BEIR), "min" at
            most k (sentence-transformers), "found" those in the top k.
        missing_queries: what a judged query without documents counts as: "neg" 0 (``trec_eval -c``, ir_measures),
            "skip" left out, in all ``runs`` (trec_eval, ``torch-ap trec``), "error".
        confidence_level: nominal coverage of the intervals, in (0, 1).
        query, document, grade, score: the columns of tables; None for the one there is of "query", "query_id", "qid",
            "q_id"; of "doc", "doc_id", "document", "docno", "docid"; of "grade", "relevance", "label", "rel"; "score".

    Returns:
        :class:`torch_ap.runs.results.Evaluation` of ``run``, which prints as a table and has ``to_dict()`` ({measure
        as asked: mean}), ``per_query``, ``confidence_interval``, ``to_pandas``, ``to_markdown``, ``to_latex``;
        :class:`torch_ap.runs.results.RunComparison` of ``runs``, with the best run of each measure and p-values of all
        pairs. ``conventions`` says in words what each measure is, ``notes`` what counts 0 or does not count.

    Raises:
        TypeError, ValueError: for an unknown measure or option; for a document that is listed twice, a score that is
            NaN or infinite, a grade that is not whole, names of several types, judgements and runs that share no query.
        OSError: for a file that cannot be read.

    Warns:
        UserWarning: where judged queries have no documents, none has a relevant one, or none of a run's documents is
            relevant.

    A document without a judgement, or with a grade below ``relevance_level``, is not relevant, and a query of the run
    without judgements does not count. Equals ``pytrec_eval`` and ``ir_measures``, which have trec_eval 9's order of
    ties ("trec9") and its interpolated precision.

    Example:
        >>> import torch_ap
        >>> qrels = {"q1": {"d1": 1, "d4": 1}, "q2": {"d2": 1}}
        >>> run = {"q1": {"d1": 0.9, "d2": 0.5, "d3": 0.3}, "q2": {"d1": 2.0, "d2": 1.0}}
        >>> torch_ap.evaluate(qrels, run, ["AP", "P@1"]).to_dict()
        {'AP': 0.5, 'P@1': 0.5}
    """
    plan = plan_of(measures, relevance_level, ties, denominator, missing_queries, confidence_level)
    if (run is None) == (runs is None):
        raise ValueError(f"`run` or `runs` must be given, one of them, got {'neither' if run is None else 'both'}")
    columns = {"query": query, "document": document, "grade": grade, "score": score}
    judgements = judgements_of(qrels, columns)
    given = {"run": run} if runs is None else _named(runs)
    measured = {name: _measured(judgements, one, name, columns, plan) for name, one in given.items()}
    kept = _kept(judgements, measured, plan, "run" if runs is None else "runs")
    notes = [*remarks.on_judgements(judgements, kept, plan.measures), *plan.notes]
    if runs is not None:
        notes = [*remarks.on_left_out(judgements, kept), *notes]
    on_runs = {name: list(remarks.on_run(judgements, x, name, plan.rules.complete)) for name, x in measured.items()}
    found = {
        name: Evaluation(
            {asked: result.in_order(kept) for asked, result in one.results.items()},
            dict(plan.conventions),
            (*on_runs[name], *notes),
            plan.confidence_level,
        )
        for name, one in measured.items()
    }
    return found["run"] if runs is None else RunComparison(found, (*chain.from_iterable(on_runs.values()), *notes))


def _kept(qrels: Judgements, measured: Mapping[str, Measured], plan: Plan, argument: str) -> list[Any]:
    """The judged queries that count."""
    missing = set[Any]().union(*(x.missing for x in measured.values()))
    if missing and plan.missing_queries == "error":
        first = next(x for x in qrels.queries if x in missing)
        rule = "must have documents for every judged query by `missing_queries='error'`"
        refuse(argument, rule, Plain(f"none for {len(missing)}, as {shown(first)}"))
    if not missing or plan.rules.complete:
        return qrels.queries
    kept = [x for x in qrels.queries if x not in missing]
    if not kept:
        raise ValueError("`runs` must have judged queries in common, got none")
    return kept


def _named(runs: Any) -> dict[str, Any]:
    if not isinstance(runs, Mapping) or not runs:
        refuse("runs", "must be {name: run} of at least one run", runs if runs == {} else Plain(type(runs).__name__))
    found = {str(name): run for name, run in runs.items()}
    if len(found) < len(runs):
        refuse("runs", "must have names that differ as text", Plain(shown(list(runs))))
    return found


def _measured(qrels: Judgements, given: Any, name: str, columns: Mapping[str, str | None], plan: Plan) -> Measured:
    (measures, rules), path, found = (plan.measures, plan.rules), f"`{name}`", None
    if isinstance(given, str | os.PathLike):
        path = os.fspath(given)
        found = measure_file(as_in_files(qrels.table, path), path, measures, rules)
    elif qrels.nested is not None and nested.is_run(given):
        found = measure_nested(qrels.nested, given, measures, rules)
    if found is None:
        judgements, run = alike(qrels.table, run_of(given, columns, name))
        found = measure_whole(judgements, run, measures, rules)[0]
    if why := found.why_none(len(qrels.queries), qrels.path, path):
        raise ValueError(why)
    return found
