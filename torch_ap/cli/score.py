"""``torch-ap score``: average precision, and measures at a rank, of the columns of a table."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from torch_ap.cli import report, score_bins
from torch_ap.cli.notes import named, note
from torch_ap.cli.statements import Asked, Statement, statement_of
from torch_ap.cli.table_inputs import ALL, is_file, names_asked, read, without_positives, without_relevant
from torch_ap.cli.tables import Part, Report, Table, number
from torch_ap.curve.discounted_gain import NormalizedDCG
from torch_ap.files import table_columns
from torch_ap.files.table_columns import Columns

_INTERVAL, _COMPARED = ("low", "high", "chance"), ("baseline", "difference", "low", "high", "p_value")


def run(args: argparse.Namespace) -> int:
    """Read, measure and print."""
    if args.bins is not None:
        return score_bins.run(args)
    measures, table, columns, baseline = inputs = read(args)
    asked = Asked(
        interval=args.interval,
        confidence_level=args.confidence_level,
        n_resamples=args.n_resamples,
        each=names_asked(args, table, 0 if columns.preds.ndim == 1 else columns.preds.shape[1]),
        relevance_level=args.relevance_level,
        normalization=args.normalization,
    )
    found = {one.name: statement_of(one, columns, baseline, asked) for one in measures}
    if columns.preds.ndim == 2:
        labels, many = columns.target.ndim == 2, columns.preds.shape[1]
        positive = columns.target.sum(0) if labels else torch.bincount(columns.target, minlength=many)
        for said in without_positives(args, positive, labels=labels):
            note(said)
    elif columns.group is not None:
        graded = all(isinstance(one.formula, NormalizedDCG) for one in measures)  # whatever is relevant
        hits = columns.target >= (1 if graded or args.relevance_level is None else args.relevance_level)
        for said in without_relevant(args, table, torch.bincount(columns.group[hits], minlength=len(table.groups))):
            note(said)
    if args.report is not None:
        report.write(args, inputs, args.report)
    _report(args, found, _said(args, table, columns), columns).write(args.form)
    return 0


def _said(args: argparse.Namespace, table: table_columns.Table, columns: Columns) -> dict[str, Any]:
    """How much was read."""
    found: dict[str, Any] = {"file": args.file, "items": len(columns.preds)}
    if columns.group is not None:
        level = 1 if args.relevance_level is None else args.relevance_level
        return found | {"groups": len(table.groups), "relevant": int((columns.target >= level).sum())}
    if columns.preds.ndim == 2:
        return found | {"classes" if columns.target.ndim == 1 else "labels": columns.preds.shape[1]}
    return found | {"positive": int(columns.target.sum())}


def _report(args: argparse.Namespace, found: dict[str, Statement], said: dict[str, Any], columns: Columns) -> Report:
    of = "group" if columns.group is not None else "class"
    return Report(
        parts=lambda: _parts(args, found, said, of),
        records=lambda: _records(found, of),
        document=lambda: _document(args, found, said, f"{'groups' if of == 'group' else 'classes'}"),
    )


def _parts(args: argparse.Namespace, found: dict[str, Statement], said: dict[str, Any], of: str) -> Iterator[Part]:
    counts = ", ".join(f"{value:,} {name}" for name, value in said.items() if name != "file")
    level = f"{100 * args.confidence_level:.10g}%"
    head = [f"{level} low", f"{level} high", "chance"] if args.interval else []
    rows = [(name, number(one.value), *map(number, one.interval.values())) for name, one in found.items()]
    title = f"{named(args.file)}: {counts}; {_convention(args)}"
    yield Table([("measure", "value", *head), *rows], title=title)
    if args.baseline is not None:
        yield _comparison(args, found, level)
    each = next(iter(found.values())).each
    if each:
        yield Table([(of, *_heads(found, level)), *((name, *_cells(found, name)) for name in each)])
    for reason in dict.fromkeys(x for one in found.values() for x in one.reasons):
        yield f"{', '.join(name for name, one in found.items() if reason in one.reasons)}: {reason}"


def _convention(args: argparse.Namespace) -> str:
    """What the numbers mean, in words."""
    ties = args.ties or ("expected" if args.group is not None else "grouped")
    words = {
        "grouped": "equal scores enter together",
        "expected": "equal scores count as the mean of their orders",
        "optimistic": "of equal scores hits come first",
        "pessimistic": "of equal scores hits come last",
    }
    mean = "means over the groups; " if args.group is not None else ""
    return f"{mean}{words[ties]}"


def _comparison(args: argparse.Namespace, found: dict[str, Statement], level: str) -> Table:
    run = named(args.file) if is_file(args.baseline) else args.preds[0]
    head = ("measure", run, named(args.baseline), "difference", f"{level} low", f"{level} high", "p")
    rows = [
        (
            name,
            number(one.value),
            number(one.compared["baseline"]),
            *(number(one.compared[key], "+.4f") for key in ("difference", "low", "high")),
            number(one.compared["p_value"], ".4g"),
        )
        for name, one in found.items()
    ]
    return Table([head, *rows])


def _heads(found: dict[str, Statement], level: str) -> Iterator[str]:
    for name, one in found.items():
        names = {"value": name, "low": f"{level} low", "high": f"{level} high", "chance": "chance"}
        yield from (names[key] for key in next(iter(one.each.values())))


def _cells(found: dict[str, Statement], name: str) -> Iterator[str]:
    for one in found.values():
        yield from map(number, one.each[name].values())


def _records(found: dict[str, Statement], of: str) -> Iterator[Sequence[Any]]:
    """A row per measure and group or class; the mean's has "all" for its name, and the comparison."""
    first = next(iter(found.values()))
    interval = _INTERVAL if first.interval else ()
    compared = _COMPARED if first.compared else ()
    yield ("measure", of, "value", *interval, *("baseline" if x == "baseline" else f"compared.{x}" for x in compared))
    for measure, one in found.items():
        for name, numbers in one.each.items():
            yield (measure, name, numbers["value"], *map(numbers.get, interval), *(None for _ in compared))
        yield (measure, ALL, one.value, *map(one.interval.get, interval), *map(one.compared.get, compared))


def _document(args: argparse.Namespace, found: dict[str, Statement], said: dict[str, Any], of: str) -> dict[str, Any]:
    """{"file", counts, "measures": {name: {"value", "low", "high", "chance", "compared": {...}, "groups": {...}}}}."""
    out: dict[str, Any] = {}
    for name, one in found.items():
        out[name] = {"value": one.value} | one.interval
        if one.compared:
            compared: dict[str, Any] = {"baseline": args.baseline, "value": one.compared["baseline"]}
            out[name]["compared"] = compared | {key: one.compared[key] for key in _COMPARED[1:]}
        if one.each:
            only = all(set(numbers) == {"value"} for numbers in one.each.values())
            out[name][of] = {key: x["value"] if only else x for key, x in one.each.items()}
        if one.reasons:
            out[name]["reasons"] = one.reasons
    return said | {"measures": out}
