"""``torch-ap report``: a page on the scores of a table."""

import argparse
from pathlib import Path
from typing import Any

from torch_ap.cli import table_inputs
from torch_ap.cli.images import system_names
from torch_ap.cli.notes import emit, named
from torch_ap.cli.progress import of_resamples
from torch_ap.cli.statements import Asked, metric_of
from torch_ap.cli.table_inputs import Inputs
from torch_ap.curve.convention import Convention
from torch_ap.reports import report


def run(args: argparse.Namespace) -> int:
    """Read, measure, write the page, and say where it is."""
    args.measures = [args.measure]
    emit([str(write(args, table_inputs.read(args), args.output, args.title))])
    return 0


def write(args: argparse.Namespace, inputs: Inputs, path: str, title: str | None = None) -> Path:
    """The page on the first measure."""
    measure, columns, baseline = inputs.measures[0], inputs.columns, inputs.baseline
    if columns.group is None and not isinstance(measure.formula, Convention):
        raise ValueError(f"a report of one ranking is of ap, ap@k or interpolated ap, not of {measure.name}")
    asked = Asked(relevance_level=args.relevance_level, normalization=args.normalization)
    names: dict[str, Any] = {"class_names": args.preds} if len(args.preds) > 1 else {}
    if columns.group is not None:
        names = {"query_names": list(inputs.table.groups)}
    return report(
        metric_of(measure, columns, asked),
        path,
        other=None if baseline is None else metric_of(measure, baseline, asked),
        system_names=system_names(args.file if table_inputs.is_file(args.baseline) else args.preds[0], args.baseline),
        title=title or Path(named(args.file)).name,
        confidence_level=args.confidence_level,
        n_resamples=args.n_resamples,
        progress=of_resamples(),
        **names,
    )
