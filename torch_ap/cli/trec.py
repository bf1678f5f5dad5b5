"""``torch-ap trec``: measures of TREC runs."""

import argparse
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch_ap.cli import compare_runs, gates
from torch_ap.cli.compare_runs import Settings, best_of_runs
from torch_ap.cli.gates import Estimate, Gate
from torch_ap.cli.judged_metrics import (
    CHANCE_NUMBERS,
    ENDS,
    NO_CHANCE_TEST,
    chance_test_of,
    evaluate,
    has_chance_test,
    interval_of,
    untested,
)
from torch_ap.cli.notes import is_same_file, note, unique_suffix
from torch_ap.cli.options import exclude_options
from torch_ap.cli.progress import Bar, announced, resampling_options
from torch_ap.cli.suspicious import SuspiciousLabelsReport
from torch_ap.cli.tables import Part, Report, Table, level_heads, number
from torch_ap.core.base import checks
from torch_ap.core.base.messages import escape_unprintable
from torch_ap.core.base.options import allowed_values
from torch_ap.inference.query_chance import ChanceTies
from torch_ap.inference.record import Comparison, Interval
from torch_ap.retrieval.runs import names as report
from torch_ap.retrieval.runs import notes
from torch_ap.retrieval.runs.judged import judgements_of
from torch_ap.retrieval.runs.measure_names import DEFAULT_MEASURES
from torch_ap.retrieval.runs.measured import Measured, Rules, Views, measure_file, measure_whole
from torch_ap.retrieval.runs.names import RequestedMeasure, Result
from torch_ap.retrieval.runs.results import joint_level, result_interval
from torch_ap.retrieval.runs.suspicious import unjudged_documents
from torch_ap.retrieval.runs.trec import Qrels, read_qrels, read_run

_ALL = "all"
_STANDARD_INPUT = "-"
_ORDERED = ("trec10", "trec9")  # conventions that order all documents

_OTHER_OUTPUTS = ("compare", "interval", "chance_test", "report", "per_query", "fail_below", "suspicious_labels")
_OTHER_QUERIES = "The runs differ in their queries. Comparisons use their common queries"


def run(args: argparse.Namespace) -> int:
    """Read, judge, measure and print."""
    if isinstance(args.compare, str):
        args.runs = [args.compare, *(path for path in args.runs if not is_same_file(path, args.compare))]
    listed = [
        x
        for name in args.measures or DEFAULT_MEASURES
        for x in report.requested_measures(name, args.relevance_level, judged_only=args.judged_only)
    ]
    measures = list({x.requested_name: x for x in listed}.values())
    if args.compare and len(args.runs) < 2:
        raise ValueError("--compare takes at least two different runs")
    if args.best:
        exclude_options(args, _OTHER_OUTPUTS, "with --best")
        if len(args.runs) < 2:
            raise ValueError("--best takes at least two runs")
    if args.judge is not None:
        exclude_options(args, (*_OTHER_OUTPUTS, "best", "cluster"), "with --judge")
        if len(args.runs) > 1:
            raise ValueError(f"--judge takes one run, got {len(args.runs)}")
    if args.report is not None and len(args.runs) > 1 and not args.compare:
        raise ValueError(f"--report takes one run, or several with --compare, got {len(args.runs)}")
    if args.suspicious_labels and (args.judged_only or args.convention not in _ORDERED):
        raise ValueError("--suspicious-labels needs --convention trec10 or trec9, and no --judged-only")
    if [args.qrels, args.judge, *args.runs].count(_STANDARD_INPUT) > 1:
        raise ValueError(f"{_STANDARD_INPUT} can appear only once, since standard input can be read once")
    args.clusters = None if args.cluster is None else compare_runs.Clusters.read(args.cluster)
    if args.simultaneous and args.report is not None:
        rule = "whose page is on the first measure alone: write it in a call without --simultaneous"
        raise ValueError(f"--simultaneous has no meaning with --report, {rule}")
    with Bar(args.qrels) as bar:
        qrels = read_qrels(args.qrels, progress=bar)
    measured = [_measure(args, qrels, path, measures) for path in args.runs]
    names = _run_names([(x.tag, path) for (x, _), path in zip(measured, args.runs, strict=True)])
    runs, judged = (dict(zip(names, x, strict=True)) for x in zip(*measured, strict=True))
    results = {name: x.results for name, x in runs.items()}
    if args.best:
        best_of_runs(args, results).write(args.form)
        return 0
    if args.judge is not None:
        from torch_ap.cli.table_labels import judged_run  # imports the readers of tables

        with Bar(args.judge) as bar:
            judgements = read_qrels(args.judge, progress=bar)
        by_judge, _ = _measure(args, judgements, args.runs[0], measures)
        judged_run(args, results[names[0]], by_judge.results).write(args.form)
        return 0
    output = _TrecReport(args, measures, results, judged)
    for text in _notes(args, qrels, measures, list(runs.values()), output):
        note(text)
    if args.report is not None:
        _write_page(args, measures[0], judged)
    return gates.write(args, output, _gates_of_runs(args, measures, results))


class _TrecReport(Report):
    """Results of all runs.

    Args:
        args: arguments of the command.
        measures: requested measures.
        results: results by measure, of each run by name.
        judged: judged runs by name.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        measures: Sequence[RequestedMeasure],
        results: Mapping[str, Mapping[str, Result]],
        judged: Mapping[str, Views],
    ) -> None:
        self._per_query, self._results, self._simultaneous = args.per_query, results, args.simultaneous
        self._settings = settings = Settings(args.confidence_level, args.n_resamples, args.clusters)
        self.queries = {name: _queries(x) for name, x in results.items()}
        self.queries_differ = len(set(self.queries.values())) > 1
        self._clusters: dict[str, int] = {}
        if args.clusters is not None:
            self._clusters = {name: len(args.clusters.ids(sorted(x)).unique()) for name, x in self.queries.items()}
        self._comparisons = compare_runs.compare_all_runs(results, settings) if args.compare else {}
        self._intervals: dict[str, dict[str, dict[str, float]]] = {}
        if args.interval:
            for name, run in results.items():
                single = _joint_settings(run.values(), settings) if args.simultaneous else settings
                self._intervals[name] = {
                    x.requested_name: interval_of(judged[name][x.view], x.name, run[x.requested_name], single)
                    for x in measures
                }
        self._tests: dict[str, dict[str, dict[str, float]]] = {}
        self._untested = [x.requested_name for x in measures if args.chance_test and not has_chance_test(x.name)]
        if args.chance_test:
            if not any(has_chance_test(x.name) for x in measures):
                raise ValueError("--chance-test is for map and map@k, got none of them as --measure")
            allowed = (*_ORDERED, *allowed_values(ChanceTies))
            checks.one_of("convention", args.convention, allowed, or_else="another without `chance_test`")
            self._tests = {
                name: {
                    x.requested_name: chance_test_of(judged[name][x.view], x.name, settings, resampling_options(args))
                    if has_chance_test(x.name)
                    else untested(results[name][x.requested_name])
                    for x in measures
                }
                for name in results
            }
        self._suspicious = _suspicious_labels(judged) if args.suspicious_labels else {}

    def parts(self) -> Iterator[Part]:
        """Yield the tables of values, intervals and comparisons, with four digits as in trec_eval."""
        results = self._results
        first, level = next(iter(results)), self._settings.confidence_level
        cells = [(name, query, *map(number, values)) for name, query, values in self._lines()]
        yield Table([("measure", "query", *results), *cells], names=2)
        for text in dict.fromkeys(f"{len(self.queries[x])} queries in {y} clusters" for x, y in self._clusters.items()):
            yield f"Intervals and tests are over clusters: {text}."
        if self._intervals:
            cells = [
                (name, run, *map(number, (results[run][name].aggregate, *self._intervals[run][name].values())))
                for name in results[first]
                for run in results
            ]
            ends = level_heads(level, simultaneous=self._simultaneous)
            yield Table([("measure", "run", "value", *ends, "chance"), *cells], names=2)
        if self._tests:
            cells = [
                (name, run, *map(number, list(x.values())[:3]), number(x["p_value"], ".4g"))
                for name in next(iter(self._tests.values()))
                for run, x in ((run, by_measure[name]) for run, by_measure in self._tests.items())
            ]
            yield Table([("measure", "run", "value", "chance", "sd of chance", "p (chance)"), *cells], names=2)
            if self._untested:
                yield f"-: {NO_CHANCE_TEST} ({', '.join(self._untested)})"
        yield from (Table(rows, names=2) for rows in compare_runs.tables(self._comparisons, first, self._settings))
        if compare_runs.has_adjusted_p_values(self._comparisons):
            yield "p (t, Holm) allows for all measures and runs."
        if self._comparisons and self.queries_differ:
            yield f"{_OTHER_QUERIES}, the values above all queries of a run (see -c)."
        numbers = (x.numbers.values() for measures in self._comparisons.values() for x in measures.values())
        if any(math.isnan(x) for values in numbers for x in values):
            yield compare_runs.UNDEFINED
        for x in self._suspicious.values():
            yield from x.parts()

    def records(self) -> Iterator[Sequence[Any]]:
        """Yield a row per measure and query, with a column per run.

        The numbers of intervals and comparisons follow, as "interval.low" or "compared.difference" instead of a query.
        The baseline has no comparison.
        """
        results, comparisons = self._results, list(self._comparisons.values())
        yield ("measure", "query", *results)
        for name, query, values in self._lines():
            yield (name, query, *values)
        for name in next(iter(results.values())) if self._intervals else ():
            for end in ENDS:
                yield (name, f"interval.{end}", *(x[name][end] for x in self._intervals.values()))
            if self._simultaneous:
                yield (name, "interval.simultaneous", *(1 for _ in results))
        for name in next(iter(self._tests.values()), ()):
            for key in CHANCE_NUMBERS:
                yield (name, f"chance_test.{key}", *(x[name][key] for x in self._tests.values()))
        for name in results[next(iter(results))] if self._clusters else ():
            yield (name, "clusters", *self._clusters.values())
        for name, compared in comparisons[0].items() if comparisons else ():
            for key in compared.names:
                yield (name, f"compared.{key}", None, *(x[name].numbers.get(key) for x in comparisons))
        for place, x in enumerate(self._suspicious.values()):
            absent = [None] * len(self._suspicious)
            for name, query, value in x.records():
                yield (name, query, *absent[:place], value, *absent[place + 1 :])

    def document(self) -> dict[str, Any]:
        """Return {run: {measure: {"all", "low", "high", "chance", "queries": {...}, "compared": {...}}}}."""
        baseline, out = next(iter(self._results)), {}
        for run, measures in self._results.items():
            out[run] = document = {name: dict[str, Any]({_ALL: x.aggregate}) for name, x in measures.items()}
            for name, result in measures.items():
                document[name] |= self._intervals.get(run, {}).get(name, {})
                document[name] |= {"simultaneous": True} if self._simultaneous else {}
                document[name] |= {"clusters": self._clusters[run]} if self._clusters else {}
                if self._per_query:
                    document[name]["queries"] = dict(zip(result.queries, result.values.tolist(), strict=True))
            for name, test in self._tests.get(run, {}).items():
                document[name]["chance_test"] = test
                if name in self._untested:
                    document[name]["chance_test"] = test | {"reason": NO_CHANCE_TEST}
            for name, compared in self._comparisons.get(run, {}).items():
                document[name]["compared"] = {"baseline": baseline} | compared.numbers
            if run in self._suspicious:
                out[run]["suspicious_labels"] = self._suspicious[run].document()
        return out

    def _lines(self) -> Iterator[tuple[str, str, list[float | None]]]:
        """Yield measure, query and the value of each run: the queries, then the aggregate."""
        runs = list(self._results.values())
        for name in runs[0]:
            if self._per_query:
                values = [dict(zip(x[name].queries, x[name].values.tolist(), strict=True)) for x in runs]
                queries = dict.fromkeys(query for x in values for query in x)
                yield from ((name, query, [x.get(query) for x in values]) for query in queries)
            yield name, _ALL, [x[name].aggregate for x in runs]


def _joint_settings(results: Iterable[Result], settings: Settings) -> Settings:
    """Return the settings of the single intervals of a run that contain the values of all measures at once."""
    means = [x for x in results if not (x.counted or x.geometric)]
    if len(means) < 2:
        raise ValueError("--simultaneous takes at least two measures that are means over queries")
    queries = means[0].queries
    level = settings.confidence_level
    if queries:
        level = joint_level(means, level, settings.groups_of(queries))
    return replace(settings, confidence_level=level)


def _suspicious_labels(judged: Mapping[str, Views]) -> dict[str, SuspiciousLabelsReport]:
    """Return the report on the documents without a judgement of each run, by the relevance of the first measure."""
    reports = {}
    for run, views in judged.items():
        labels = unjudged_documents(next(iter(views.values())))
        value = number(labels.value.item())
        title = f"Suspicious labels of {run}: the change of map, {value}, if the document were relevant"
        reports[run] = SuspiciousLabelsReport(labels, title, {})
    return reports


def _gates_of_runs(
    args: argparse.Namespace, measures: Sequence[RequestedMeasure], results: Mapping[str, Mapping[str, Result]]
) -> list[Gate]:
    """Return the gates of each run, with ``--compare`` of each run but the baseline."""
    names = {(x.name, x.view): x.requested_name for x in measures}
    (baseline, base), *others = results.items()

    def full_name(requested: str) -> str:
        named = report.requested_measures(requested, args.relevance_level, judged_only=args.judged_only)
        same = [names.get((x.name, x.view)) for x in named]
        return same[0] or requested if len(same) == 1 else requested

    def value(result: Result, name: str) -> Estimate:
        def estimate(level: float) -> Interval:
            if result.geometric or result.counted:
                raise ValueError(f"--fail-below {name} has no interval: it is no mean over queries")
            if not result.queries:
                raise ValueError(f"--fail-below {name} has no interval: the run has no judged queries")
            settings = Settings(level, args.n_resamples, args.clusters)
            return result_interval(result, level, settings.groups_of(result.queries))

        return estimate

    def difference(result: Result, name: str) -> Estimate:
        def estimate(level: float) -> Comparison:
            if result.geometric and args.fail_if_worse:
                raise ValueError(f"--fail-if-worse must be 0 for {name}, whose comparison is a ratio")
            settings = Settings(level, args.n_resamples, args.clusters)
            by_test = compare_runs.compare_with_baseline(result, base[name], settings, ("t",))
            if not by_test:
                raise ValueError(f"--fail-if-worse of {name} has no comparison: the runs have no common queries")
            return by_test["t"]

        return estimate

    tested = []
    for run, by_measure in others if args.compare else results.items():
        values = {name: value(result, name) for name, result in by_measure.items()}
        differences = {name: difference(x, name) for name, x in by_measure.items() if not x.counted}
        shares = {name for name, result in by_measure.items() if result.is_share}
        tested += gates.gates_of(args, run, values, differences, baseline, full_name, shares.__contains__)
    return tested


def _write_page(args: argparse.Namespace, measure: RequestedMeasure, runs: Mapping[str, Views]) -> None:
    """Write the page on the first measure of the last run, compared with the other runs with ``--compare``."""
    from torch_ap.reports import report as write_report

    (*baseline, (name, judged)) = ((name, views[measure.view]) for name, views in runs.items())
    common = set(judged.queries).intersection(*(x.queries for _, x in baseline))
    queries = [x for x in judged.queries if x in common]
    if judged.queries and not queries:
        raise ValueError("--report has no comparison: the runs have no common queries (see -c)")
    title = f"{measure.requested_name} of {name}"
    is_whole = len(queries) == len(judged.queries)  # else the value of the labels would be of other queries
    if any(len(x.queries) > len(queries) for _, x in (*baseline, (name, judged))):
        title += f", on {len(queries)} common queries"
    settings = Settings(clusters=args.clusters)
    system, *others = (evaluate(x, measure.name, queries, settings) for x in (judged, *(x for _, x in baseline)))
    with announced(args.report):
        write_report(
            system,
            args.report,
            other=others,
            system_names=(name, *([other for other, _ in baseline] or [f"{name} (baseline)"])),
            query_names=queries,
            suspicious_labels=unjudged_documents(judged) if is_whole and judged.convention in _ORDERED else None,
            title=title,
            confidence_level=args.confidence_level,
            n_resamples=args.n_resamples,
        )


def _measure(
    args: argparse.Namespace, qrels: Qrels, path: str, measures: Sequence[RequestedMeasure]
) -> tuple[Measured, Views]:
    """Return the measures of a run, and the judged run if intervals or a page need it."""
    rules, judged = Rules(measures, args.convention, args.complete, with_orders=True), Views()
    with Bar(path) as bar:
        if args.interval or args.report or args.chance_test or args.suspicious_labels:
            measured, judged = measure_whole(qrels, read_run(path, progress=bar), rules)
        else:
            measured = measure_file(qrels, path, rules, bar)
    is_empty = bool(qrels.queries) and not measured.unjudged
    if (reason := measured.failure_reason(len(qrels.queries), qrels.path, path)) and not (
        is_empty and args.allow_empty
    ):
        raise ValueError(f"{reason} (--allow-empty lets it pass)" if is_empty else reason)
    if measured.scores_are_ranks:
        note(f"{path}: the scores of its first query rise by one per line, as ranks do; the score is the fifth column")
    if args.per_query and args.form != "json" and _ALL in _queries(measured.results):
        raise ValueError(f"{path}: query {_ALL!r} has the name of the mean with --per-query; use --json")
    return measured, judged


def _notes(
    args: argparse.Namespace,
    qrels: Qrels,
    measures: Sequence[RequestedMeasure],
    runs: list[Measured],
    output: _TrecReport,
) -> Iterator[str]:
    """Yield notes on the numbers: queries and runs without relevant documents, queries that do not count."""
    counted = frozenset[str]().union(*output.queries.values())
    for level in notes.levels_of(measures):
        if len(qrels.relevance) and int(qrels.relevance.max()) < level:
            yield f"{args.qrels}: no grade is {level} or more, so nothing is relevant"
        elif without := len(judgements_of(qrels, {}).queries_without(level) & counted):
            yield f"{args.qrels}: {notes.describe_without_relevant(without, len(counted), level)}"
    by_path = list(zip(args.runs, runs, strict=True))
    yield from (f"{path} {notes.describe_unjudged(x.unjudged)}" for path, x in by_path if x.unjudged)
    yield from (
        f"{path}: none of its documents is relevant{notes.describe_level(x)} by {args.qrels}"
        for path, x in by_path
        if x.blind_level is not None
    )
    yield from (
        f"{path} {notes.describe_name_ties(x.by_name)} (no such order with --convention expected or grouped)"
        f"{notes.describe_orders(x)}"
        for path, x in by_path
        if x.by_name
    )
    if output.queries_differ:
        if not args.compare:
            yield "the runs differ in their queries: each mean is over the queries of its run (see -c)"
        elif args.form:  # text has this sentence below its tables
            yield f"{_OTHER_QUERIES} (see -c)."
    elif runs[0].missing and counted and not args.complete:
        missing, judged = len(runs[0].missing), len(qrels.queries)
        yield f"{missing} of {judged} judged queries have no documents and are left out (see -c)"


def _run_names(runs: Sequence[tuple[str, str]]) -> list[str]:
    """Return distinct names of runs with a tag and a path: unique tags, else the ends of the paths, else numbered."""
    tags, names = [tag for tag, _ in runs], list[str]()
    paths = {path for _, path in runs}
    for tag, path in runs:
        suffix = escape_unprintable(unique_suffix(path, paths - {path}))
        unique_tag = [tag] if tags.count(tag) == 1 else []
        choices = [*unique_tag, suffix, *(f"{suffix} ({n})" for n in range(2, len(runs) + 2))]
        names.append(next(x for x in choices if x and x not in names))
    return names


def _queries(measures: Mapping[str, Result]) -> frozenset[str]:
    """Return the queries of a run; all measures share them, except for the number of queries."""
    return frozenset(query for result in measures.values() for query in result.queries)
