"""``torch-ap score``: average precision, and measures at a rank, of the columns of a table."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from torch_ap.cli import score_bins
from torch_ap.cli.notes import named, note
from torch_ap.cli.progress import Bar
from torch_ap.cli.statements import Asked, Statement, statement_of
from torch_ap.cli.tables import Part, Report, Table, number
from torch_ap.curve.convention import Convention
from torch_ap.files import table_columns
from torch_ap.files.table_columns import Columns
from torch_ap.files.table_measures import Measure, measures_of
from torch_ap.files.table_streams import STANDARD_INPUT
from torch_ap.rules.messages import shown

_ALL = "all"
_INTERVAL, _COMPARED = ("low", "high", "chance"), ("baseline", "difference", "low", "high", "p_value")


class Inputs(NamedTuple):
    """What is measured, on which columns of which table, and those of the baseline."""

    measures: list[Measure]
    table: table_columns.Table
    columns: Columns
    baseline: Columns | None


def run(args: argparse.Namespace) -> int:
    """Read, measure and print."""
    if args.bins is not None:
        _check(args)
        return score_bins.run(args, _table(args, args.file), _measures(args, classes=False))
    measures, table, columns, baseline = read(args)
    asked = Asked(
        interval=args.interval,
        confidence_level=args.confidence_level,
        n_resamples=args.n_resamples,
        each=_names(args, table, columns),
        relevance_level=args.relevance_level,
        normalization=args.normalization,
    )
    found = {one.name: statement_of(one, columns, baseline, asked) for one in measures}
    for said in _without_positives(args, columns):
        note(said)
    _report(args, found, _said(args, table, columns), columns).write(args.form)
    return 0


def read(args: argparse.Namespace) -> Inputs:
    """What the arguments name.

    Raises:
        OSError, ValueError: for a file that cannot be read, and for what is wrong with it or with the arguments.
    """
    _check(args)
    classes = len(args.preds) > 1
    measures = _measures(args, classes)
    table = _table(args, args.file)
    with Bar(args.file) as bar:
        columns = table.read(bar)
    if columns.preds.ndim == 2 and not classes:  # a column of lists
        classes = True
        _check_classes(args)
        measures = _measures(args, classes)
    if not classes and args.normalization is not None:
        raise ValueError(
            "--normalization is for the scores of classes, not for one column, whose order it would not change"
        )
    return Inputs(measures, table, columns, _baseline(args, table, columns))


def _measures(args: argparse.Namespace, classes: bool) -> list[Measure]:
    grouped = args.group is not None
    names = args.measures or ["ap"]
    found = measures_of(names, ties=args.ties, denominator=args.denominator, grouped=grouped, classes=classes)
    for one in found if args.weights is not None else ():
        if not isinstance(one.formula, Convention) or not one.formula.takes_weights:
            raise ValueError(f"--weights have a meaning for ap alone, with --ties grouped: {one.name} counts ranks")
    return found


def _check(args: argparse.Namespace) -> None:
    """Options that contradict one another."""
    if len(args.target) not in (1, len(args.preds)):
        raise ValueError(f"--target takes one column, or as many as --preds, {len(args.preds)}, got {len(args.target)}")
    if [args.file, args.baseline].count(STANDARD_INPUT) > 1:
        raise ValueError(f"{STANDARD_INPUT} can be given once, since standard input can be read once")
    without_bins = ("group", "baseline", "per_class", "per_group", "normalization") if args.bins is not None else ()
    without_group = () if args.group is not None else ("per_group", "relevance_level")
    with_group = ("weights", "per_class", "normalization") if args.group is not None else ()
    for names, other in (
        (without_bins, "with --bins, which keeps counts"),
        (without_group, "without --group"),
        (with_group, "with --group"),
    ):
        for name in names:
            if getattr(args, name) not in (None, False):
                raise ValueError(f"--{name.replace('_', '-')} has no meaning {other}")
    if len(args.preds) > 1:
        _check_classes(args)


def _check_classes(args: argparse.Namespace) -> None:
    for name in ("group", "bins", "pos_label"):
        if getattr(args, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} is for one column of scores, not for one per class")
    if args.baseline is not None and not Path(args.baseline).is_file():
        raise ValueError(f"{args.baseline}: --baseline of classes must be a file with the same columns")


def _table(args: argparse.Namespace, path: str) -> table_columns.Table:
    return table_columns.Table(
        path,
        args.preds,
        args.target,
        group=args.group,
        weights=args.weights,
        baseline=None if is_file(args.baseline) else args.baseline,
        form=args.format,
        pos_label=args.pos_label,
    )


def is_file(name: str | None) -> bool:
    """Whether a baseline is a file, and no column."""
    return name is not None and (name == STANDARD_INPUT or Path(name).is_file())


def _baseline(args: argparse.Namespace, table: table_columns.Table, columns: Columns) -> Columns | None:
    """The other system: other scores of the same rows, or another file with the same columns."""
    if not is_file(args.baseline):
        return None if columns.baseline is None else replace(columns, preds=columns.baseline)
    form = None if args.format and Path(args.baseline).suffix else args.format
    other = replace(table, path=args.baseline, baseline=None, form=form, labels=set())  # with the same groups
    with Bar(args.baseline) as bar:
        found = other.read(bar)
    if columns.group is None:
        _check_same(args, columns, found)
    elif found.group is not None:
        here, there = (torch.bincount(x, minlength=len(table.groups)) > 0 for x in (columns.group, found.group))
        if not torch.equal(here, there):
            one = shown(list(table.groups)[int((here != there).nonzero()[0])])
            raise ValueError(f"{args.baseline}: must have the groups of {args.file}, but {one} is in one alone")
    return found


def _check_same(args: argparse.Namespace, columns: Columns, found: Columns) -> None:
    """The same rows in the same order, as far as targets and weights tell."""
    if columns.preds.shape != found.preds.shape:
        shapes = [tuple(x.preds.shape) for x in (columns, found)]
        raise ValueError(
            f"{args.baseline}: must have as many rows and scores as {args.file}, {shapes[0]}, got {shapes[1]}"
        )
    for names, mine, theirs in (
        (args.target, columns.target, found.target),
        ([args.weights], columns.weights, found.weights),
    ):
        if mine is not None and theirs is not None and not torch.equal(mine, theirs):
            row = int((mine != theirs).reshape(len(mine), -1).any(1).nonzero()[0]) + 1
            raise ValueError(f"{args.baseline}, row {row}: {', '.join(map(shown, names))} must be as in {args.file}")


def _without_positives(args: argparse.Namespace, columns: Columns) -> Iterator[str]:
    """Of classes: which have no positive row, and what they count as."""
    if columns.preds.ndim == 1:
        return
    many, labels = columns.preds.shape[1], columns.target.ndim == 2
    names = args.preds if len(args.preds) > 1 else list(map(str, range(many)))
    found = columns.target.sum(0) if labels else torch.bincount(columns.target, minlength=many)
    without = [names[place] for place in (found == 0).nonzero().flatten().tolist()]
    if without:
        one = f"{'label' if labels else 'class'} {shown(without[0])}"
        more = f" and {len(without) - 1} more" if len(without) > 1 else ""
        counted = "counted as 0 in the mean" if labels else "left out of the mean"
        yield f"{args.file}: no row is positive of {one}{more}: {counted}"


def _names(args: argparse.Namespace, table: table_columns.Table, columns: Columns) -> tuple[str, ...]:
    """Of the groups or classes whose values are wanted."""
    if args.per_group:
        if _ALL in table.groups and args.form == "csv":
            raise ValueError(f"{args.file}: group {_ALL!r} has the name that the mean has; give --json")
        return tuple(table.groups)
    if not args.per_class:
        return ()
    if columns.preds.ndim == 1:
        raise ValueError("--per-class needs several columns of scores, or one of lists")
    return tuple(args.preds) if len(args.preds) > 1 else tuple(map(str, range(columns.preds.shape[1])))


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
        yield (measure, _ALL, one.value, *map(one.interval.get, interval), *map(one.compared.get, compared))


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
