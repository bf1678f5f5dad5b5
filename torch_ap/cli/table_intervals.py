"""Intervals of the measures of a table, and the gates of ``torch-ap score`` and ``torch-ap report`` that use them."""

import argparse
from typing import Any

import torch

from torch_ap.cli import gates
from torch_ap.cli.gates import Estimate, Gate
from torch_ap.cli.notes import file_name
from torch_ap.cli.progress import resampling_options
from torch_ap.cli.table_inputs import Inputs
from torch_ap.cli.table_values import Evaluation, evaluate
from torch_ap.core.columns.table_names import Measure, measures_of
from torch_ap.core.columns.tables import Columns
from torch_ap.inference import precision_at_k_interval, recall_at_k_interval
from torch_ap.inference.record import Comparison, Interval

AP_ALONE = "one ranking and classes have one for ap only"
_NO_INTERVAL = "one ranking and classes have one for ap, P@k, R@k and interpolated ap only"
_AT_K: dict[str, Any] = {"P": precision_at_k_interval, "R": recall_at_k_interval}


def interval_of(
    args: argparse.Namespace, measure: Measure, evaluation: Evaluation, columns: Columns, level: float
) -> Interval:
    """Return the interval of a measure at a confidence level.

    Raises:
        ValueError: for a measure of one ranking or of classes without an interval.
    """
    method, grouped = None, columns.group is not None
    if not grouped:
        if measure.kind in _AT_K:
            at_k = _AT_K[measure.kind]
            settings = {"confidence_level": level, "groups": columns.cluster}
            return at_k(columns.preds, columns.target, measure.k or 1, **settings)  # type: ignore[no-any-return]
        if measure.k is not None or not measure.formula.is_average_precision:
            raise ValueError(_NO_INTERVAL)
        if getattr(measure.formula, "interpolation", None) is not None and columns.cluster is None:
            method = "bootstrap-logit"  # interpolated AP has no influence function
    options = {**resampling_options(args), **cluster_options(columns)}
    if args.sampling_weights is not None:
        options["sampling_weights"] = True
    return evaluation.confidence_interval(level, method, **options)


def cluster_options(columns: Columns) -> dict[str, Any]:
    """Return the argument ``groups`` of intervals over groups of rows that are in clusters; {} otherwise.

    Samples of items contain the cluster of each row.
    """
    if columns.group is None or columns.cluster is None:
        return {}
    return {"groups": dict(torch.stack([columns.group, columns.cluster], 1).tolist())}


def has_comparison(measure: Measure, columns: Columns) -> bool:
    """Whether a measure can be compared with the measure of a baseline."""
    return columns.group is not None or (measure.kind == "ap" and measure.k is None)


def gates_of_table(args: argparse.Namespace, inputs: Inputs) -> list[Gate]:
    """Return the gates of a table.

    Raises:
        ValueError: for a measure that the command does not compute.
    """
    baseline = file_name(args.baseline or "")
    values = {x.name: _value(args, x, inputs.columns) for x in inputs.measures}
    differences = {x.name: _difference(args, x, inputs) for x in inputs.measures}
    has_classes = inputs.columns.preds.ndim == 2
    names = (file_name(args.file), values, differences, baseline)
    return gates.gates_of(args, *names, lambda name: full_name(args, name, has_classes=has_classes))


def full_name(args: argparse.Namespace, name: str, *, has_classes: bool) -> str:
    """Return the name of a measure in results."""
    grouped = args.group is not None
    (measure,) = measures_of([name], ties=args.ties, denominator=None, grouped=grouped, classes=has_classes)
    return measure.name


def _value(args: argparse.Namespace, measure: Measure, columns: Columns) -> Estimate:
    def estimate(level: float) -> Interval:
        try:
            return interval_of(args, measure, evaluate(args, measure, columns), columns, level)
        except ValueError as error:
            raise ValueError(f"--fail-below {measure.name} has no interval: {error}") from None

    return estimate


def _difference(args: argparse.Namespace, measure: Measure, inputs: Inputs) -> Estimate:
    def estimate(level: float) -> Comparison:
        if not has_comparison(measure, inputs.columns):
            raise ValueError(f"--fail-if-worse of {measure.name} has no comparison: {AP_ALONE}")
        assert inputs.baseline is not None
        own, other = (evaluate(args, measure, x) for x in (inputs.columns, inputs.baseline))
        return own.compare(other, confidence_level=level, **cluster_options(inputs.columns))

    return estimate
