"""``torch-ap trec``: measures of TREC runs against judgements, as a table, JSON or CSV."""

import argparse
import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from torch_ap.cli import compare_runs
from torch_ap.cli.compare_runs import Comparisons, Settings
from torch_ap.cli.notes import emit, emit_json, note
from torch_ap.cli.options import DEFAULT_MEASURES
from torch_ap.cli.progress import Bar
from torch_ap.files import report
from torch_ap.files.judged import Judged, judge, why_none
from torch_ap.files.report import Result
from torch_ap.files.trec import Qrels, Run, read_qrels, read_run
from torch_ap.rules.messages import printable

_ALL = "all"
_STANDARD_INPUT = "-"

Results = dict[str, dict[str, Result]]

_OTHER_QUERIES = "The runs differ in their queries. Comparisons are over those that both have"


def run(args: argparse.Namespace) -> int:
    """Read, judge, measure, and write the results on standard output."""
    names = list(dict.fromkeys(name for given in args.measures or DEFAULT_MEASURES for name in report.expanded(given)))
    if args.compare and len(args.runs) < 2:
        raise ValueError("--compare takes at least two runs")
    if [args.qrels, *args.runs].count(_STANDARD_INPUT) > 1:
        raise ValueError(f"{_STANDARD_INPUT} can be given once, since standard input can be read once")
    with Bar(args.qrels) as bar:
        qrels = read_qrels(args.qrels, progress=bar)
    results: Results = {}
    blind = []
    for path in args.runs:
        tag, judged = _judged(args, qrels, path)
        if int(judged.curve.n.sum()) and int(judged.curve.m.sum()) and not int(judged.curve.hits_seen.sum()):
            blind.append(path)
        results[_column(tag, path, results)] = report.evaluate(judged, names)
    for said in _notes(args, qrels, results, blind):
        note(said)
    settings = Settings(args.confidence_level, args.n_resamples)
    comparisons = compare_runs.comparisons(results, settings) if args.compare else {}
    if comparisons and args.form and _differ(results):
        note(f"{_OTHER_QUERIES} (see -c).")
    if args.form == "json":
        emit_json(_json(results, args.per_query, comparisons))
        return 0
    if args.form == "csv":
        text = _csv(results, args.per_query, comparisons)
    else:
        text = _table(results, args.per_query, comparisons, settings)
    emit(text.removesuffix("\n").split("\n"))
    return 0


def _judged(args: argparse.Namespace, qrels: Qrels, path: str) -> tuple[str, Judged]:
    """A run's tag, and its judged queries."""
    with Bar(path) as bar:
        run = read_run(path, progress=bar)
    _check_queries(qrels, run, args.allow_empty)
    if _are_ranks(run):
        note(f"{path}: the scores of its first query rise by one per line, as ranks do; the score is the fifth column")
    level, convention = args.relevance_level, args.convention
    judged = judge(qrels, run, relevance_level=level, convention=convention, complete=args.complete)
    if args.per_query and args.form != "json" and _ALL in judged.queries:
        raise ValueError(f"{path}: query {_ALL!r} has the name that --per-query gives the mean; give --json too")
    return run.tag, judged


def _check_queries(qrels: Qrels, run: Run, allow_empty: bool) -> None:
    """The run has documents (unless none are allowed), and judged queries; there are judgements."""
    if not qrels.queries or not (run.queries or allow_empty) or (run.queries and not {*run.queries} & {*qrels.queries}):
        raise ValueError(why_none(qrels, run))


def _are_ranks(run: Run) -> bool:
    """Whether the scores of the first query are 1, 2, 3, ..., or 0, 1, 2, ..., in the order of the file."""
    scores = run.scores[run.query == 0]
    rising = torch.arange(len(scores), dtype=scores.dtype)
    return len(scores) > 2 and any(torch.equal(scores, rising + first) for first in (0, 1))


def _notes(args: argparse.Namespace, qrels: Qrels, results: Results, blind: list[str]) -> Iterator[str]:
    """What to know of the numbers: runs that found nothing (``blind``), queries that are left out."""
    level = args.relevance_level
    if len(qrels.relevance) and int(qrels.relevance.max()) < level:
        yield f"{args.qrels}: no grade is {level} or more, so nothing is relevant"
    for path in blind:
        yield f"{path}: none of its documents is relevant by {args.qrels}"
    judged, ranked = (set(x) for x in (qrels.queries, next(iter(next(iter(results.values())).values())).queries))
    if _differ(results):
        if not args.compare:
            yield "the runs differ in their queries: each mean is over those of its run (see -c)"
    elif len(ranked) < len(judged):
        yield f"{len(judged - ranked)} of {len(judged)} judged queries have no documents and are left out (see -c)"


def _column(tag: str, path: str, taken: Results) -> str:
    """A run's tag; its path, where the tag is empty or another run has it; numbered, where that is taken too."""
    path = printable(path)
    names = [tag, path, *(f"{path} ({number})" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name and name not in taken)


def _differ(results: Results) -> bool:
    """Whether the runs have other queries."""
    return len({frozenset(next(iter(one.values())).queries) for one in results.values()}) > 1


def _lines(results: Results, per_query: bool) -> list[tuple[str, str, list[float | None]]]:
    """(measure, query, value of each run), the queries first and then the aggregate."""
    lines: list[tuple[str, str, list[float | None]]] = []
    runs = list(results.values())
    for name in runs[0]:
        if per_query:
            found = [dict(zip(one[name].queries, one[name].values.tolist(), strict=True)) for one in runs]
            queries = dict.fromkeys(query for values in found for query in values)
            lines += [(name, query, [values.get(query) for values in found]) for query in queries]
        lines.append((name, _ALL, [one[name].aggregate for one in runs]))
    return lines


def _table(results: Results, per_query: bool, comparisons: Comparisons, settings: Settings) -> str:
    """Columns of text, four digits as trec_eval prints them; then the comparisons, and what to know of them."""
    lines = _lines(results, per_query)
    rows = [["measure", "query", *results]]
    rows += [[name, query, *("-" if v is None else f"{v:.4f}" for v in values)] for name, query, values in lines]
    compared = compare_runs.tables(comparisons, next(iter(results)), settings)
    text = "\n".join([_aligned(rows), *(_aligned(table) for table in compared)])
    notes = compare_runs.notes(comparisons)
    if comparisons and _differ(results):
        notes = f"{_OTHER_QUERIES}, the values above over all that a run has (see -c).\n{notes}"
    return f"{text}\n{notes}" if notes else text


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(_padded(row, widths) + "\n" for row in rows)


def _padded(row: Sequence[str], widths: Sequence[int]) -> str:
    """Names to the left, numbers to the right."""
    cells = [
        cell.ljust(w) if place < 2 else cell.rjust(w) for place, (cell, w) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _csv(results: Results, per_query: bool, comparisons: Comparisons) -> str:
    """A row a measure and query; those of a comparison have its number's name for a query, and none of the baseline.

    Names have "compared." before them, and come after all queries. A number that does not exist is left empty.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["measure", "query", *results])
    for name, query, values in _lines(results, per_query):
        writer.writerow([name, query, *("" if value is None else repr(value) for value in values)])
    for name in next(iter(comparisons.values()), {}):
        for number in next(iter(comparisons.values()))[name].names:
            found = [measures[name].numbers.get(number, math.nan) for measures in comparisons.values()]
            cells = ["" if math.isnan(value) else repr(value) for value in found]
            writer.writerow([name, f"compared.{number}", "", *cells])
    return out.getvalue()


def _json(results: Results, per_query: bool, comparisons: Comparisons) -> dict[str, Any]:
    """{run: {measure: {"all": aggregate, "queries": {query: value}, "compared": {name: number}}}}.

    What is compared has the name of the first run as its "baseline".
    A number that is not finite is null: of a comparison, or an aggregate over no queries.
    """
    out: dict[str, dict[str, dict[str, Any]]] = {}
    baseline = next(iter(results))
    for column, measures in results.items():
        out[column] = {name: {_ALL: _plain(result.aggregate)} for name, result in measures.items()}
        for name, result in measures.items() if per_query else ():
            out[column][name]["queries"] = dict(zip(result.queries, result.values.tolist(), strict=True))
        for name, found in comparisons.get(column, {}).items():
            numbers = found.numbers.items()
            out[column][name]["compared"] = {"baseline": baseline} | {x: _plain(value) for x, value in numbers}
    return out


def _plain(value: float) -> float | None:
    """For JSON, which has finite numbers only."""
    return value if math.isfinite(value) else None
