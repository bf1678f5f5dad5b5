"""From the arguments of ``torch-ap score`` and ``torch-ap report`` to measures and columns."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from torch_ap.cli.progress import Bar
from torch_ap.curve.convention import Convention
from torch_ap.files import table_columns
from torch_ap.files.table_columns import Columns
from torch_ap.files.table_measures import Measure, measures_of
from torch_ap.files.table_streams import STANDARD_INPUT
from torch_ap.rules.messages import shown

ALL = "all"  # the name of the mean in a table of values


class Inputs(NamedTuple):
    """What is measured, on which columns of which table, and those of the baseline."""

    measures: list[Measure]
    table: table_columns.Table
    columns: Columns
    baseline: Columns | None


def read(args: argparse.Namespace) -> Inputs:
    """What the arguments name.

    Raises:
        OSError, ValueError: for a file that cannot be read, and for what is wrong with it or with the arguments.
    """
    check(args)
    classes = len(args.preds) > 1
    measures = measures_asked(args, classes)
    table = table_of(args, args.file)
    with Bar(args.file) as bar:
        columns = table.read(bar)
    if columns.preds.ndim == 2 and not classes:  # a column of lists
        classes = True
        check_classes(args)
        measures = measures_asked(args, classes)
    check_normalization(args, classes)
    return Inputs(measures, table, columns, _baseline(args, table, columns))


def measures_asked(args: argparse.Namespace, classes: bool) -> list[Measure]:
    """The measures that are asked for, of one ranking per class or of others."""
    grouped = args.group is not None
    names = args.measures or ["ap"]
    found = measures_of(names, ties=args.ties, denominator=args.denominator, grouped=grouped, classes=classes)
    for one in found if args.weights is not None else ():
        if not isinstance(one.formula, Convention) or not one.formula.takes_weights:
            raise ValueError(f"--weights have a meaning for ap alone, with --ties grouped: {one.name} counts ranks")
    return found


def check(args: argparse.Namespace) -> None:
    """Options that contradict one another."""
    if len(args.target) not in (1, len(args.preds)):
        raise ValueError(f"--target takes one column, or as many as --preds, {len(args.preds)}, got {len(args.target)}")
    if [args.file, args.baseline].count(STANDARD_INPUT) > 1:
        raise ValueError(f"{STANDARD_INPUT} can be given once, since standard input can be read once")
    without_bins = ("report",) if args.bins is not None else ()
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
        check_classes(args)


def check_classes(args: argparse.Namespace) -> None:
    """What has no meaning for several rankings of the same rows."""
    for name in ("group", "pos_label"):
        if getattr(args, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} is for one column of scores, not for one per class")
    if args.baseline is not None and not Path(args.baseline).is_file():
        raise ValueError(f"{args.baseline}: --baseline of classes must be a file with the same columns")


def check_normalization(args: argparse.Namespace, classes: bool) -> None:
    """It is for classes alone."""
    if not classes and args.normalization is not None:
        raise ValueError(
            "--normalization is for the scores of classes, not for one column, whose order it would not change"
        )


def table_of(args: argparse.Namespace, path: str) -> table_columns.Table:
    """Which columns of a file are read."""
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
    with Bar(args.baseline) as bar:
        found = table_of_baseline(args, table).read(bar)
    if columns.group is None:
        _check_same(args, columns, found)
    elif found.group is not None:
        here, there = (torch.bincount(x, minlength=len(table.groups)) > 0 for x in (columns.group, found.group))
        check_groups(args, table, here, there)
    return found


def table_of_baseline(args: argparse.Namespace, table: table_columns.Table) -> table_columns.Table:
    """The file of the other system, with the same columns, and the same groups."""
    form = None if args.format and Path(args.baseline).suffix else args.format
    return replace(table, path=args.baseline, baseline=None, form=form, labels=set())


def check_groups(args: argparse.Namespace, table: table_columns.Table, here: Tensor, there: Tensor) -> None:
    """Both files have rows of the same groups; (S,) bool each."""
    if not torch.equal(here, there):
        one = shown(list(table.groups)[int((here != there).nonzero()[0])])
        raise ValueError(f"{args.baseline}: must have the groups of {args.file}, but {one} is in one alone")


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


def names_asked(args: argparse.Namespace, table: table_columns.Table, classes: int) -> tuple[str, ...]:
    """Of the groups or classes whose values are wanted; ``classes`` is 0 for none."""
    if args.per_group:
        if ALL in table.groups and args.form == "csv":
            raise ValueError(f"{args.file}: group {ALL!r} has the name that the mean has; give --json")
        return tuple(table.groups)
    if args.per_class and not classes:
        raise ValueError("--per-class needs several columns of scores, or one of lists")
    return _class_names(args, classes) if args.per_class else ()


def _class_names(args: argparse.Namespace, classes: int) -> tuple[str, ...]:
    return tuple(args.preds) if len(args.preds) > 1 else tuple(map(str, range(classes)))


def without_relevant(args: argparse.Namespace, table: table_columns.Table, relevant: Tensor) -> Iterator[str]:
    """How many groups have no relevant row, of (S,) how many each has."""
    without = (relevant == 0).nonzero().flatten().tolist()
    if without:
        names = list(table.groups)
        which = f"{len(without):,} of {len(names):,} groups, as of {shown(names[without[0]])}"
        yield f"{args.file}: no row is relevant of {which}: counted as 0 in the mean"


def without_positives(args: argparse.Namespace, positive: Tensor, *, labels: bool) -> Iterator[str]:
    """Which classes have no positive row, and what they count as.

    Args:
        args: of the command.
        positive: (C,) how many rows are.
        labels: whether each has targets of its own.
    """
    names = _class_names(args, len(positive))
    without = [names[place] for place in (positive == 0).nonzero().flatten().tolist()]
    if without:
        one = f"{'label' if labels else 'class'} {shown(without[0])}"
        more = f" and {len(without) - 1} more" if len(without) > 1 else ""
        counted = "counted as 0 in the mean" if labels else "left out of the mean"
        yield f"{args.file}: no row is positive of {one}{more}: {counted}"
