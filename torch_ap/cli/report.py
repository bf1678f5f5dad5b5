"""``torch-ap report``: a page on the scores of a table."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch_ap.cli import gates, table_inputs
from torch_ap.cli.detectors import system_names
from torch_ap.cli.notes import emit, file_name
from torch_ap.cli.progress import announced, resampling_options
from torch_ap.cli.table_inputs import Inputs
from torch_ap.cli.table_intervals import gates_of_table
from torch_ap.cli.table_values import evaluate, evaluate_systems
from torch_ap.reports import report


def run(args: argparse.Namespace) -> int:
    """Read, measure, write the page and print its path."""
    args.measures = [args.measure]
    if (args.best or args.systems) and args.baseline is not None:
        raise ValueError(f"--baseline has no meaning with --{'best' if args.best else 'systems'}")
    if args.best and args.systems:
        raise ValueError("--best has no meaning with --systems")
    args.best = args.best or args.systems  # both read several columns for the same targets
    inputs = table_inputs.read(args)
    tested = gates_of_table(args, inputs)
    gates.decide(tested, args.confidence_level)
    emit([str(write(args, inputs, args.output, args.title)), *(gate.sentence for gate in tested)])
    return gates.finish(args, tested)


def write(args: argparse.Namespace, inputs: Inputs, path: str, title: str | None = None) -> Path:
    """Write the page on the first measure."""
    measure, columns, baseline = inputs.measures[0], inputs.columns, inputs.baseline
    metric: Any = evaluate_systems(args, measure, columns) if args.best else evaluate(args, measure, columns)
    has_systems = getattr(args, "systems", False)  # an option of `torch-ap report` alone
    if columns.group is None and not measure.formula.is_average_precision:
        raise ValueError(f"a report of one ranking is of ap, ap@k or interpolated ap, not of {measure.name}")
    names: dict[str, Any] = {"class_names": args.preds} if len(args.preds) > 1 and not args.best else {}
    if columns.group is not None and (not args.best or has_systems):
        names = {"query_names": list(inputs.table.groups)}
    if args.id is not None:
        names["item_names"] = {row + 1: name for name, row in inputs.table.row_ids.items()}
    other = None if baseline is None else evaluate(args, measure, baseline)
    systems: Sequence[str] = system_names(
        args.file if table_inputs.is_file(args.baseline) else args.preds[0], args.baseline
    )
    if has_systems:
        systems, (metric, *other) = list(metric), metric.values()
        if not other:
            raise ValueError("--systems needs at least two columns as --preds")
    with announced(path):
        return report(
            metric,
            path,
            other=other,
            system_names=systems,
            title=title or Path(file_name(args.file)).name,
            simultaneous=args.simultaneous,
            confidence_level=args.confidence_level,
            **resampling_options(args),
            **names,
        )
