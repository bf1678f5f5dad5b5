"""``torch-ap trec``: measures of TREC runs against judgements, as a table, JSON or CSV."""

import argparse
import csv
import io
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch_ap.commands import compare_runs
from torch_ap.commands.compare_runs import Comparisons
from torch_ap.commands.progress import Bar
from torch_ap.files import report
from torch_ap.files.judged import CONVENTIONS, judge, why_none
from torch_ap.files.report import Result
from torch_ap.files.trec import QRELS_FORM, RUN_FORM, Qrels, read_qrels, read_run

DEFAULT_MEASURES = ("map", "map@10", "P@5", "P@10", "R@100", "Rprec", "recip_rank")
_ALL = "all"
_STANDARD_INPUT = "-"

Results = dict[str, dict[str, Result]]


_CONVENTION = (
    "how tied scores are ordered: trec10 (default) and trec9 as these versions of trec_eval, documents descending, "
    "scores in double or single precision, interpolated precision cut at round(l m) or int(l m + 0.9) hits; the others "
    "as rules for ties without an order, under which there is neither iprec nor 11pt_avg"
)
_COMPARE = (
    "each run against the first, over the queries that both have: mean difference, its "
    f"{100 * compare_runs.LEVEL:g}%% t interval, and p-values of the paired t test and of Fisher's randomization test. "
    "For gm_map the ratio of geometric means and its interval, by the same of the logs of AP (0.00001 at least)"
)
_OTHER_QUERIES = "The runs differ in their queries. Comparisons are over those that both have"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this command to the command line."""
    parser = subparsers.add_parser(
        "trec",
        help="measures of TREC runs against judgements",
        description="Measures of TREC runs against judgements. Files are plain or gzip.",
        epilog=f"Measures: {', '.join(report.KNOWN)}, or trec_eval's names for them (P.5,10 is P_5 and P_10). map@k "
        "divides by all relevant documents, as trec_eval's map_cut; iprec@l is interpolated precision at recall l; F@k "
        "is F1 at k; set_ measures take the whole run.",
    )
    parser.add_argument("qrels", metavar="QRELS", help=f"judgements: {QRELS_FORM}; - for standard input")
    parser.add_argument("runs", metavar="RUN", nargs="+", help=f"run: {RUN_FORM}; - likewise")
    said = f"repeatable; default: {' '.join(DEFAULT_MEASURES)}"
    parser.add_argument("-m", "--measure", action="append", dest="measures", metavar="MEASURE", help=said)
    parser.add_argument("-q", "--per-query", action="store_true", help="the value of each query too")
    parser.add_argument("-l", "--relevance-level", type=int, default=1, metavar="GRADE", help="lowest relevant grade")
    parser.add_argument("-c", "--complete", action="store_true", help="judged queries that a run lacks count 0")
    parser.add_argument("--convention", choices=CONVENTIONS, default="trec10", help=_CONVENTION)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_const", const="json", dest="form", help="as JSON, all digits")
    form.add_argument("--csv", action="store_const", const="csv", dest="form", help="as CSV, all digits")
    parser.add_argument("--compare", action="store_true", help=_COMPARE)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, judge, measure, and write the results on standard output."""
    names = list(dict.fromkeys(name for given in args.measures or DEFAULT_MEASURES for name in report.expanded(given)))
    if args.compare and len(args.runs) < 2:
        raise ValueError("--compare takes two runs at least")
    if [args.qrels, *args.runs].count(_STANDARD_INPUT) > 1:
        raise ValueError(f"{_STANDARD_INPUT} can be given once, since standard input can be read once")
    with Bar(args.qrels) as bar:
        qrels = read_qrels(args.qrels, progress=bar)
    results: Results = {}
    blind = []
    for path in args.runs:
        with Bar(path) as bar:
            read = read_run(path, progress=bar)
        judged = judge(
            qrels,
            read,
            relevance_level=args.relevance_level,
            convention=args.convention,
            complete=args.complete,
        )
        if not judged.queries:
            raise ValueError(why_none(qrels, read))
        if args.per_query and args.form != "json" and _ALL in judged.queries:
            raise ValueError(f"{path}: query {_ALL!r} has the name that --per-query gives the mean; give --json too")
        if int(judged.curve.m.sum()) and not int(judged.curve.hits_seen.sum()):
            blind.append(path)
        results[_column(read.tag, path, results)] = report.evaluate(judged, names)
    for note in _notes(args, qrels, results, blind):
        sys.stderr.write(f"torch-ap: {note}\n")
    forms: dict[str | None, Callable[[Results, bool, Comparisons], str]] = {"json": _json, "csv": _csv, None: _table}
    comparisons = compare_runs.comparisons(results) if args.compare else {}
    if comparisons and args.form and _differ(results):
        sys.stderr.write(f"torch-ap: {_OTHER_QUERIES} (see -c).\n")
    sys.stdout.write(forms[args.form](results, args.per_query, comparisons))
    return 0


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


def _table(results: Results, per_query: bool, comparisons: Comparisons) -> str:
    """Columns of text, four digits as trec_eval prints them; then the comparisons, and what to know of them."""
    lines = _lines(results, per_query)
    rows = [["measure", "query", *results]]
    rows += [[name, query, *("-" if v is None else f"{v:.4f}" for v in values)] for name, query, values in lines]
    compared = compare_runs.tables(comparisons, next(iter(results)))
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
    """A row a measure and query; those of a comparison have its number's name for a query, and none of the first run.

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


def _json(results: Results, per_query: bool, comparisons: Comparisons) -> str:
    """{run: {measure: {"all": aggregate, "queries": {query: value}, "compared": {name: number}}}}.

    A number of a comparison that is not finite is null.
    """
    out: dict[str, dict[str, dict[str, Any]]] = {}
    for column, measures in results.items():
        out[column] = {name: {_ALL: result.aggregate} for name, result in measures.items()}
        for name, result in measures.items() if per_query else ():
            out[column][name]["queries"] = dict(zip(result.queries, result.values.tolist(), strict=True))
        for name, found in comparisons.get(column, {}).items():
            numbers = found.numbers.items()
            out[column][name]["compared"] = {x: value if math.isfinite(value) else None for x, value in numbers}
    return json.dumps(out, indent=2, ensure_ascii=False) + "\n"
