"""``torch-ap trec``: measures of TREC runs against judgements."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch_ap.cli import compare_runs
from torch_ap.cli.compare_runs import Comparisons, Settings
from torch_ap.cli.judged_metrics import ENDS, interval_of, metric_of
from torch_ap.cli.notes import end_of, note
from torch_ap.cli.progress import Bar
from torch_ap.cli.tables import Part, Report, Table, number
from torch_ap.files import report
from torch_ap.files.judged import Judged
from torch_ap.files.report import Asked, Result
from torch_ap.files.trec import read_qrels, read_run
from torch_ap.files.trec_names import DEFAULT_MEASURES
from torch_ap.files.trec_tables import Qrels
from torch_ap.reports import report as write_report
from torch_ap.rules.messages import printable
from torch_ap.runs import remarks
from torch_ap.runs.judgements import judgements_of
from torch_ap.runs.measured import Measured, Rules, measure_file, measure_whole

_ALL = "all"
_STANDARD_INPUT = "-"

Levels = dict[int, Judged]  # a run, by the lowest grade that is relevant
Results = dict[str, dict[str, Result]]
Intervals = dict[str, dict[str, dict[str, float]]]

_OTHER_QUERIES = "The runs differ in their queries. Comparisons are over those that both have"


def run(args: argparse.Namespace) -> int:
    """Read, judge, measure, and write the results on standard output."""
    every = [x for given in args.measures or DEFAULT_MEASURES for x in report.asked(given, args.relevance_level)]
    measures = list({x.asked: x for x in every}.values())
    if args.compare and len(args.runs) < 2:
        raise ValueError("--compare takes at least two runs")
    if args.report is not None and len(args.runs) > 1 + args.compare:
        raise ValueError(f"--report is of one run, or with --compare of two, got {len(args.runs)}")
    if [args.qrels, *args.runs].count(_STANDARD_INPUT) > 1:
        raise ValueError(f"{_STANDARD_INPUT} can be given once, since standard input can be read once")
    with Bar(args.qrels) as bar:
        qrels = read_qrels(args.qrels, progress=bar)
    found = [_measured(args, qrels, path, measures) for path in args.runs]
    columns = _columns([(run.tag, path) for (run, _), path in zip(found, args.runs, strict=True)])
    results = {column: run.results for column, (run, _) in zip(columns, found, strict=True)}
    judged = {column: levels for column, (_, levels) in zip(columns, found, strict=True)}
    for said in _notes(args, qrels, measures, results, [run for run, _ in found]):
        note(said)
    settings = Settings(args.confidence_level, args.n_resamples)
    comparisons = compare_runs.comparisons(results, settings) if args.compare else {}
    if comparisons and args.form and _differ(results):
        note(f"{_OTHER_QUERIES} (see -c).")
    intervals = _intervals(measures, results, judged, settings) if args.interval else {}
    if args.report is not None:
        _write_page(args, measures[0], judged)
    Report(
        parts=lambda: _parts(results, args.per_query, comparisons, settings, intervals),
        records=lambda: _records(results, args.per_query, comparisons, intervals),
        document=lambda: _document(results, args.per_query, comparisons, intervals),
    ).write(args.form)
    return 0


def _intervals(
    measures: Sequence[Asked], results: Results, runs: Mapping[str, Levels], settings: Settings
) -> Intervals:
    """Of each run and measure."""
    return {
        name: {x.asked: interval_of(judged[x.level], x.name, results[name][x.asked], settings) for x in measures}
        for name, judged in runs.items()
    }


def _write_page(args: argparse.Namespace, measure: Asked, runs: Mapping[str, Levels]) -> None:
    """The report on the first measure; with --compare of the second run, compared with the first."""
    (*baseline, (name, run)) = ((name, judged[measure.level]) for name, judged in runs.items())
    other = metric_of(baseline[0][1], measure.name) if baseline else None
    write_report(
        metric_of(run, measure.name),
        args.report,
        other=other,
        system_names=(name, baseline[0][0] if baseline else f"{name} (baseline)"),
        query_names=run.queries,
        title=f"{measure.asked} of {name}",
        confidence_level=args.confidence_level,
        n_resamples=args.n_resamples,
    )


def _measured(args: argparse.Namespace, qrels: Qrels, path: str, measures: Sequence[Asked]) -> tuple[Measured, Levels]:
    """A run by its measures; and as it is judged, which only intervals and reports need: all of it at once."""
    rules, judged = Rules(args.convention, args.complete), Levels()
    with Bar(path) as bar:
        if args.interval or args.report:
            found, judged = measure_whole(qrels, read_run(path, progress=bar), measures, rules)
        else:
            found = measure_file(qrels, path, measures, rules, bar)
    empty = bool(qrels.queries) and not found.unjudged
    if (why := found.why_none(len(qrels.queries), qrels.path, path)) and not (empty and args.allow_empty):
        raise ValueError(f"{why} (--allow-empty lets it pass)" if empty else why)
    if found.scores_are_ranks:
        note(f"{path}: the scores of its first query rise by one per line, as ranks do; the score is the fifth column")
    if args.per_query and args.form != "json" and _ALL in _queries(found.results):
        raise ValueError(f"{path}: query {_ALL!r} has the name that --per-query gives the mean; give --json too")
    return found, judged


def _notes(
    args: argparse.Namespace, qrels: Qrels, measures: Sequence[Asked], results: Results, runs: list[Measured]
) -> Iterator[str]:
    """What to know of the numbers: runs that found nothing, queries that are left out."""
    counted = frozenset[str]().union(*map(_queries, results.values()))
    for level in remarks.levels_of(measures):
        if len(qrels.relevance) and int(qrels.relevance.max()) < level:
            yield f"{args.qrels}: no grade is {level} or more, so nothing is relevant"
        elif without := len(judgements_of(qrels, {}).without(level) & counted):
            yield f"{args.qrels}: {remarks.of_nothing_relevant(without, len(counted), level)}"
    yield from (
        f"{path} {remarks.of_unjudged(run.unjudged)}" for path, run in zip(args.runs, runs, strict=True) if run.unjudged
    )
    yield from (
        f"{path}: none of its documents is relevant by {args.qrels}"
        for path, run in zip(args.runs, runs, strict=True)
        if run.blind
    )
    if _differ(results):
        if not args.compare:
            yield "the runs differ in their queries: each mean is over those of its run (see -c)"
    elif runs[0].missing and _queries(runs[0].results) and not args.complete:
        missing, judged = len(runs[0].missing), len(qrels.queries)
        yield f"{missing} of {judged} judged queries have no documents and are left out (see -c)"


def _columns(runs: Sequence[tuple[str, str]]) -> list[str]:
    """Names of runs of a tag and a path: their tags, or the ends of the paths of those whose tag is empty or another's
    too, as short as tells them apart; numbered, where that is taken.
    """
    tags, taken = [tag for tag, _ in runs], []
    paths = {path for _, path in runs}
    for tag, path in runs:
        name = printable(end_of(path, paths - {path}))
        names = [*([tag] if tags.count(tag) == 1 else []), name, *(f"{name} ({n})" for n in range(2, len(runs) + 2))]
        taken.append(next(x for x in names if x and x not in taken))
    return taken


def _differ(results: Results) -> bool:
    """Whether the runs have other queries."""
    return len({_queries(one) for one in results.values()}) > 1


def _queries(measures: dict[str, Result]) -> frozenset[str]:
    """The queries of a run, which all measures share but the number of them."""
    return frozenset(query for one in measures.values() for query in one.queries)


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


def _parts(
    results: Results, per_query: bool, comparisons: Comparisons, settings: Settings, intervals: Intervals
) -> Iterator[Part]:
    """A table with four digits, as trec_eval prints them; then the comparisons, and what to know of them."""
    lines = _lines(results, per_query)
    head = ("measure", "query", *results)
    yield Table([head, *((name, query, *map(number, values)) for name, query, values in lines)], names=2)
    if intervals:
        ends = [f"{100 * settings.confidence_level:.10g}% {end}" for end in ("low", "high")]
        rows = [
            (name, run, *map(number, (results[run][name].aggregate, *intervals[run][name].values())))
            for name in next(iter(results.values()))
            for run in results
        ]
        yield Table([("measure", "run", "value", *ends, "chance"), *rows], names=2)
    yield from (Table(rows, names=2) for rows in compare_runs.tables(comparisons, next(iter(results)), settings))
    if comparisons and _differ(results):
        yield f"{_OTHER_QUERIES}, the values above over all that a run has (see -c)."
    yield from compare_runs.notes(comparisons)


def _records(
    results: Results, per_query: bool, comparisons: Comparisons, intervals: Intervals
) -> Iterator[Sequence[Any]]:
    """A row a measure and query; those of an interval and a comparison have their number's name for a query.

    Names have "interval." or "compared." before them, and come after all queries; of a comparison the baseline has no
    numbers. A number that does not exist is left empty.
    """
    yield ("measure", "query", *results)
    for name, query, values in _lines(results, per_query):
        yield (name, query, *values)
    for name in next(iter(results.values())) if intervals else ():
        for end in ENDS:
            yield (name, f"interval.{end}", *(x[name][end] for x in intervals.values()))
    for name in next(iter(comparisons.values()), {}):
        for one in next(iter(comparisons.values()))[name].names:
            yield (name, f"compared.{one}", None, *(x[name].numbers.get(one) for x in comparisons.values()))


def _document(results: Results, per_query: bool, comparisons: Comparisons, intervals: Intervals) -> dict[str, Any]:
    """{run: {measure: {"all": aggregate, "low", "high", "chance", "queries": {query: value}, "compared": {...}}}}.

    What is compared has the name of the first run as its "baseline".
    """
    out: dict[str, dict[str, dict[str, Any]]] = {}
    baseline = next(iter(results))
    for column, measures in results.items():
        ends = intervals.get(column, {})
        out[column] = {name: {_ALL: result.aggregate} | ends.get(name, {}) for name, result in measures.items()}
        for name, result in measures.items() if per_query else ():
            out[column][name]["queries"] = dict(zip(result.queries, result.values.tolist(), strict=True))
        for name, found in comparisons.get(column, {}).items():
            out[column][name]["compared"] = {"baseline": baseline} | found.numbers
    return out
