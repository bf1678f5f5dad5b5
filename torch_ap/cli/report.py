"""``torch-ap report``: a page on the scores of a table."""

import argparse
from pathlib import Path
from typing import Any

from torch_ap.cli import score
from torch_ap.cli.images import system_names
from torch_ap.cli.notes import emit
from torch_ap.cli.progress import of_resamples
from torch_ap.cli.statements import Asked, metric_of
from torch_ap.curve.convention import Convention
from torch_ap.files.table_streams import STANDARD_INPUT
from torch_ap.reports import report


def run(args: argparse.Namespace) -> int:
    """Read, measure, write the page, and say where it is."""
    args.measures = [args.measure]
    (measure,), table, columns, baseline = score.read(args)
    if columns.group is None and not isinstance(measure.formula, Convention):
        raise ValueError(f"a report of one ranking is of ap, ap@k or interpolated ap, not of {measure.name}")
    asked = Asked(relevance_level=args.relevance_level, normalization=args.normalization)
    name = "standard input" if args.file == STANDARD_INPUT else Path(args.file).name
    names: dict[str, Any] = {"class_names": args.preds} if len(args.preds) > 1 else {}
    if columns.group is not None:
        names = {"query_names": list(table.groups)}
    path = report(
        metric_of(measure, columns, asked),
        args.output,
        other=None if baseline is None else metric_of(measure, baseline, asked),
        system_names=system_names(args.file if score.is_file(args.baseline) else args.preds[0], args.baseline),
        title=args.title or name,
        confidence_level=args.confidence_level,
        n_resamples=args.n_resamples,
        progress=of_resamples(),
        **names,
    )
    emit([str(path)])
    return 0
