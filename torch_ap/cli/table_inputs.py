"""Measures, columns and metrics of ``torch-ap score`` and ``torch-ap report``, from their arguments."""

import argparse
import glob
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.cli.notes import note
from torch_ap.cli.options import exclude_options, option_of
from torch_ap.cli.progress import Bar
from torch_ap.cli.table_options import LABELS, OTHER_SAMPLES
from torch_ap.core.base.messages import short_repr
from torch_ap.core.columns import tables
from torch_ap.core.columns.streams import STANDARD_INPUT
from torch_ap.core.columns.table_names import Measure, measures_of
from torch_ap.core.columns.tables import Columns

ALL = "all"  # name of the mean in a table of values


_WITHOUT_BEST = (
    "bins", "per_class", "per_group", "interval", "normalization", "fail_below", "fail_if_worse", *OTHER_SAMPLES,
)  # fmt: skip
_OF_ONE_RANKING = (
    "simultaneous", "first_look", "weights", *OTHER_SAMPLES, "per_class", "normalization", "suspicious_labels",
    "id", *LABELS[1:],
)  # fmt: skip


class Inputs(NamedTuple):
    """Measures, the columns that they take, and the columns of the baseline."""

    measures: list[Measure]
    table: tables.Table
    columns: Columns
    baseline: Columns | None


def read(args: argparse.Namespace) -> Inputs:
    """Read the columns that the arguments name.

    Raises:
        OSError: for a file that cannot be read.
        ValueError: for an invalid file or argument.
    """
    measures, table = prepare(args)
    with Bar(args.file) as bar:
        columns = table.read(bar)
    _check_clusters(args, table, columns)
    measures = measures_of_rankings(args, measures, columns.preds.ndim == 2)
    return Inputs(measures, table, columns, _read_baseline(args, table, columns))


def prepare(args: argparse.Namespace) -> tuple[list[Measure], tables.Table]:
    """Return the requested measures and the file, before it is read.

    Raises:
        ValueError: for options that contradict each other.
    """
    _check_options(args)
    table = tables.Table(
        args.files,
        args.preds,
        args.target,
        group=args.group,
        weights=weights_column(args),
        baseline=None if args.best or is_file(args.baseline) else args.baseline,
        form=args.format,
        pos_label=args.pos_label,
        systems=args.best,
        cluster=args.cluster,
        judge=args.judge,
        sampled=args.sampling_weights is not None,
        row_id=args.id,
    )
    return _requested_measures(args, len(args.preds) > 1 and not args.best), table


def measures_of_rankings(args: argparse.Namespace, measures: list[Measure], has_classes: bool) -> list[Measure]:
    """Return the measures after the file is read: a column of lists has a ranking per class.

    Raises:
        ValueError: for options of one ranking with classes, and for a normalization of one ranking.
    """
    if has_classes and len(args.preds) == 1:
        _check_class_options(args)
        return _requested_measures(args, has_classes)
    if not has_classes and args.normalization is not None:
        raise ValueError(
            "--normalization is for the scores of classes, not for one column, whose order it would not change"
        )
    return measures


def _requested_measures(args: argparse.Namespace, has_classes: bool) -> list[Measure]:
    """Return the requested measures of one ranking, of groups, or of a ranking per class."""
    measures = measures_of(
        args.measures or ["ap"],
        ties=args.ties,
        denominator=args.denominator,
        grouped=args.group is not None,
        classes=has_classes,
    )
    for name in ("weights", "sampling_weights", "prevalence"):
        for measure in measures if getattr(args, name) is not None else ():
            if measure.k is not None or not measure.formula.is_average_precision:
                raise ValueError(f"{option_of(name)} is for ap of all rows, not for {measure.name}")
            if not measure.formula.takes_weights:
                raise ValueError(f"{option_of(name)} requires --ties grouped, got {args.ties}")
    return measures


def weights_column(args: argparse.Namespace) -> str | None:
    """Return the column of the weights."""
    column: str | None = args.sampling_weights if args.weights is None else args.weights
    return column


def _check_options(args: argparse.Namespace) -> None:
    """Raise ValueError for options that contradict each other."""
    if len(args.target) not in (1, len(args.preds)):
        raise ValueError(f"--target takes one column, or as many as --preds, {len(args.preds)}, got {len(args.target)}")
    if [*args.files, args.baseline].count(STANDARD_INPUT) > 1:
        raise ValueError(f"{STANDARD_INPUT} can appear only once, since standard input can be read once")
    grouped = args.group is not None
    only_column = args.command == "score" and not (args.suspicious_labels or args.report or is_file(args.baseline))
    for is_excluded, names, condition in (
        (
            args.bins is not None,
            ("report", "prevalence", "sampling_weights", "cluster", "suspicious_labels", "id"),
            "with --bins, which stores counts",
        ),
        (args.best, _WITHOUT_BEST, "with --best"),
        (args.best or weights_column(args) is not None, ("suspicious_labels",), "with --best or weights"),
        (args.best and not getattr(args, "systems", False), ("id",), "with --best"),
        (only_column, ("id",), "with a column as --baseline, which has the same rows"),
        (args.best and grouped, ("cluster",), "with --best and --group"),
        (args.best or args.bins is not None, ("simultaneous", "first_look"), "with --best or --bins"),
        (args.weights is not None, ("simultaneous", "first_look", "sampling_weights"), "with --weights"),
        (args.first_look is not None, ("simultaneous", "baseline", *OTHER_SAMPLES), "with --first-look"),
        (not grouped, ("per_group", "relevance_level"), "without --group"),
        (grouped, _OF_ONE_RANKING, "with --group"),
        (args.bins is not None or args.exact or args.best, ("chance_test", *LABELS), "with --bins, --exact or --best"),
        (args.judge is not None, LABELS[1:], "with --judge"),
        (args.report is not None, ("first_look", *OTHER_SAMPLES), "with --report"),
    ):
        if is_excluded:
            exclude_options(args, names, condition)
    if args.best:
        _check_systems(args)
    elif len(args.preds) > 1:
        _check_class_options(args)


def _check_systems(args: argparse.Namespace) -> None:
    """Raise ValueError unless there are several systems and one target, and the baseline is one of the systems."""
    if len(set(args.preds)) < max(len(args.preds), 2):
        raise ValueError(f"--best needs several different columns as --preds, got {' '.join(args.preds)}")
    if len(args.target) > 1:
        raise ValueError(f"--target takes one column with --best, got {len(args.target)}")
    if args.baseline is not None and args.baseline not in args.preds:
        raise ValueError(f"--baseline must be one of --preds with --best, got {short_repr(args.baseline)}")


def _check_class_options(args: argparse.Namespace) -> None:
    """Raise ValueError for options that contradict several rankings of the same rows."""
    for name in ("group", "pos_label"):
        if getattr(args, name) is not None:
            raise ValueError(f"{option_of(name)} is for one column of scores, not for one per class")
    if args.baseline is not None and not is_file(args.baseline):
        raise ValueError(f"{args.baseline}: --baseline of classes must be a file with the same columns")


def baseline_table(args: argparse.Namespace, table: tables.Table) -> tables.Table:
    """Return the file of the baseline, with the same columns and groups."""
    form = None if args.format and Path(args.baseline).suffix else args.format
    return replace(table, path=args.baseline, baseline=None, form=form, labels=set(), row_ids={})


def is_file(name: str | None) -> bool:
    """Whether a baseline is a file instead of a column: also a pattern of files, a URI, or a folder with "/"."""
    if name is None:
        return False
    if Path(name).is_dir():
        return "/" in name  # a column can have the name of a folder
    return name == STANDARD_INPUT or "://" in name or Path(name).exists() or bool(glob.glob(name, recursive=True))  # noqa: PTH207


def _read_baseline(args: argparse.Namespace, table: tables.Table, columns: Columns) -> Columns | None:
    """Return the columns of the baseline: other scores of the same rows, or another file."""
    if not is_file(args.baseline):
        return None if columns.baseline is None else replace(columns, preds=columns.baseline)
    other_table = baseline_table(args, table)
    with Bar(args.baseline) as bar:
        baseline = other_table.read(bar)
    if columns.group is None:
        places = None
        if table.row_id is not None:
            places = _places_of_ids(args, table.row_ids, other_table.row_ids)
            baseline = baseline.rows(places)
        _check_same_rows(args, columns, baseline, places)
    elif baseline.group is not None:
        sizes = (torch.bincount(x, minlength=len(table.groups)) for x in (columns.group, baseline.group))
        check_same_groups(args, table, *sizes)
    return baseline


def _places_of_ids(args: argparse.Namespace, ids: Mapping[str, int], others: Mapping[str, int]) -> Tensor:
    """Return the place of each id in the file of the baseline; raise ValueError for an id of one file alone."""
    if alone := sorted(ids.keys() ^ others.keys()):
        has, lacks = (args.file, args.baseline) if alone[0] in ids else (args.baseline, args.file)
        raise ValueError(f"{lacks}: must have the ids of {has}, but has no row with {args.id} {short_repr(alone[0])}")
    return torch.tensor([others[x] for x in ids], dtype=torch.int64)


def check_same_groups(args: argparse.Namespace, table: tables.Table, rows: Tensor, others: Tensor) -> None:
    """Raise ValueError unless both files have rows of the same groups; (S,) numbers of rows each."""
    differ = (rows > 0) != (others > 0)
    if differ.any():
        group = short_repr(list(table.groups)[int(differ.nonzero()[0])])
        raise ValueError(f"{args.baseline}: must have the groups of {args.file}, but {group} is in one alone")


def _check_same_rows(args: argparse.Namespace, columns: Columns, baseline: Columns, places: Tensor | None) -> None:
    """Raise ValueError unless shapes, targets and weights are equal; ``places`` are those of the rows in their file."""
    if columns.preds.shape != baseline.preds.shape:
        shapes = [tuple(x.preds.shape) for x in (columns, baseline)]
        raise ValueError(
            f"{args.baseline}: must have as many rows and scores as {args.file}, {shapes[0]}, got {shapes[1]}"
        )
    for names, own, other in (
        (args.target, columns.target, baseline.target),
        ([weights_column(args)], columns.weights, baseline.weights),
        ([args.cluster], columns.cluster, baseline.cluster),
    ):
        if own is not None and other is not None and not torch.equal(own, other):
            place = int((own != other).reshape(len(own), -1).any(1).nonzero()[0])
            row, hint = (place, " (or --id must name a column of ids)") if places is None else (int(places[place]), "")
            raise ValueError(
                f"{args.baseline}, row {row + 1}: {', '.join(map(short_repr, names))} must be as in {args.file}{hint}"
            )


def requested_rows(args: argparse.Namespace, table: tables.Table, classes: int) -> tuple[str, ...]:
    """Return the names of the groups or classes whose values are requested; ``classes`` is 0 for one ranking."""
    if args.per_group:
        if ALL in table.groups and args.form == "csv":
            raise ValueError(f"{args.file}: group {ALL!r} has the name of the mean; use --json")
        return tuple(table.groups)
    if args.per_class and not classes:
        raise ValueError("--per-class needs several columns of scores, or one of lists")
    return class_names(args, classes) if args.per_class else ()


def class_names(args: argparse.Namespace, classes: int) -> tuple[str, ...]:
    """Return the names of the classes: the columns of their scores, or numbers."""
    return tuple(args.preds) if len(args.preds) > 1 else tuple(map(str, range(classes)))


def note_without_positives(args: argparse.Namespace, table: tables.Table, positives: Tensor, *, labels: bool) -> None:
    """Write a note on the groups or classes without positives.

    Args:
        args: arguments of the command.
        table: the file.
        positives: (S,) number of positive rows of each group or class.
        labels: whether the classes are labels.
    """
    without = (positives == 0).nonzero().flatten().tolist()
    if not without:
        return
    if args.group is not None:
        names = list(table.groups)
        which = f"{len(without):,} of {len(names):,} groups, as of {short_repr(names[without[0]])}"
        note(f"{args.file}: no row is relevant of {which}: counted as 0 in the mean")
    else:
        first = f"{'label' if labels else 'class'} {short_repr(class_names(args, len(positives))[without[0]])}"
        more = f" and {len(without) - 1} more" if len(without) > 1 else ""
        rule = "counted as 0 in the mean" if labels else "left out of the mean"
        note(f"{args.file}: no row is positive of {first}{more}: {rule}")


def table_facts(
    args: argparse.Namespace, table: tables.Table, rows: int, positives: int, classes: int, *, labels: bool
) -> dict[str, Any]:
    """Return the name of the file and the numbers of rows, groups, classes and positives."""
    facts: dict[str, Any] = {"file": args.file, "items": rows}
    if args.group is not None:
        return facts | {"groups": len(table.groups), "relevant": positives}
    return facts | ({"labels" if labels else "classes": classes} if classes else {"positive": positives})


def count_of_clusters(columns: Columns) -> dict[str, int]:
    """Return the number of clusters of ``--cluster`` as a fact; {} without clusters."""
    return {} if columns.cluster is None else {"clusters": len(torch.unique(columns.cluster))}


def _check_clusters(args: argparse.Namespace, table: tables.Table, columns: Columns) -> None:
    """Raise ValueError if the rows of a group are in two clusters."""
    if columns.group is None or columns.cluster is None:
        return
    pairs = torch.unique(torch.stack([columns.group, columns.cluster], 1), dim=0)
    repeated = (pairs[1:, 0] == pairs[:-1, 0]).nonzero().flatten()
    if len(repeated):
        name = short_repr(list(table.groups)[int(pairs[repeated[0], 0])])
        column = short_repr(args.cluster)
        raise ValueError(
            f"{args.file}: column {column} must have one cluster for all rows of a group, group {name} has two"
        )
