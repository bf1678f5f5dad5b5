"""The detection commands from files that are read to what they write: numbers, page, errors, operating points."""

import argparse
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch_ap.analysis.low_values import LOW
from torch_ap.cli import image_tables, operating_points
from torch_ap.cli.errors import with_errors
from torch_ap.cli.image_tables import Form
from torch_ap.cli.images import Found, Paths, evaluated, slices_of, system_names
from torch_ap.cli.progress import of_resamples
from torch_ap.metrics.images import DetectionMetric
from torch_ap.reports import report
from torch_ap.rules.class_names import ClassNames


def write(
    args: argparse.Namespace,
    paths: Paths,
    metric_of: Callable[[str], DetectionMetric],
    found_of: Callable[[DetectionMetric], Found],
    form_of: Callable[[DetectionMetric], Form],
    *,
    images: Sequence[Any],
    class_names: Mapping[int, str],
) -> None:
    """Evaluate lists of detections, and write what was asked for.

    Args:
        args: of the command.
        paths: of the lists.
        metric_of: the metric that has seen the list at a path.
        found_of: what the command itself says of one.
        form_of: how it writes that, of any of the metrics.
        images: ids or names of the images.
        class_names: names of the labels.
    """
    warnings.filterwarnings("ignore", f"no label in `preds`|{LOW}", UserWarning)  # of which the notes say more
    slices = slices_of(args, images)
    metrics = {path: metric_of(path) for path in paths.every}
    _write_page(args, paths, metrics, class_names)
    found = evaluated(args, paths, metrics, found_of, slices)
    metric = next(iter(metrics.values()))
    form = form_of(metric)
    told = image_tables.reported(args, paths, found, form)
    told = with_errors(told, args, metric, class_names, form.name("ap"))
    told = operating_points.with_points(told, args, metric, class_names)
    told.write(args.form)


def _write_page(
    args: argparse.Namespace, paths: Paths, metrics: Mapping[str, DetectionMetric], names: ClassNames
) -> None:
    """The report, where it is asked for."""
    if args.report is None:
        return
    run = paths.compared[0]
    report(
        metrics[run],
        args.report,
        other=None if paths.baseline is None else metrics[paths.baseline],
        system_names=system_names(run, paths.baseline),
        class_names=names,
        confidence_level=args.confidence_level,
        n_resamples=args.n_resamples,
        progress=of_resamples(),
    )
