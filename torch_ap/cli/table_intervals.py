"""Intervals of the measures of a table, and the gates of ``torch-ap score`` and ``torch-ap report`` that use them."""

import argparse
from typing import Any

import torch
from torch import Tensor

from torch_ap.cli import gates
from torch_ap.cli.gates import Estimate, Gate
from torch_ap.cli.notes import file_name
from torch_ap.cli.options import option_of
from torch_ap.cli.progress import resampling_options
from torch_ap.cli.table_inputs import Inputs
from torch_ap.cli.table_options import OTHER_SAMPLES
from torch_ap.cli.table_values import evaluate
from torch_ap.core.columns.table_names import Measure, measures_of
from torch_ap.core.columns.tables import Columns
from torch_ap.inference import (
    ChanceTest,
    chance_test,
    chance_test_of_queries,
    compare_rankings_above_chance,
    compare_rankings_at_k,
    normalized_average_precision_interval,
    precision_at_k_interval,
    precision_recall_gain_interval,
    recall_at_k_interval,
)
from torch_ap.inference.record import Comparison, Interval

_RELATIVE: dict[str, Any] = {
    "normalized_ap": normalized_average_precision_interval,
    "auprg": precision_recall_gain_interval,
}
AP_ALONE = "one ranking has one for ap, ap@k, P@k, R@k, normalized_ap and auprg only, and classes for ap only"
_NO_INTERVAL = (
    "one ranking has one for ap, ap@k, P@k, R@k, interpolated ap, normalized_ap and auprg only, and classes for ap and "
    "interpolated ap"
)
_AT_K: dict[str, Any] = {"P": precision_at_k_interval, "R": recall_at_k_interval}
_NAMES_AT_K: dict[str, Any] = {"P": "precision", "R": "recall"}
_NAMES_ABOVE_CHANCE: dict[str, Any] = {
    "normalized_ap": "normalized_average_precision",
    "auprg": "precision_recall_gain",
}


def interval_of(
    args: argparse.Namespace, measure: Measure, evaluation: Any, columns: Columns, level: float
) -> Interval:
    """Return the interval of a measure at a confidence level.

    Raises:
        ValueError: for a measure of one ranking or of classes without an interval.
    """
    method, grouped = None, columns.group is not None
    is_mean = columns.preds.ndim == 2 and evaluation._settings.averages
    is_plain = (measure.kind, measure.k) == ("ap", None)
    if args.first_look is not None and (is_mean or not is_plain):
        raise ValueError("--first-look is for ap of one ranking, or of each class")
    if args.simultaneous and columns.preds.ndim == 2 and not (is_mean or is_plain):
        raise ValueError("--simultaneous is for ap of each class")
    if not grouped:
        if measure.kind in _AT_K:
            at_k = _AT_K[measure.kind]
            settings = {"confidence_level": level, "groups": columns.cluster}
            return at_k(columns.preds, columns.target, measure.k or 1, **settings)  # type: ignore[no-any-return]
        if measure.kind in _RELATIVE:
            more = resampling_options(args) if measure.kind == "auprg" else {}
            more |= {"confidence_level": level, "groups": columns.cluster}
            relative: Interval = _RELATIVE[measure.kind](columns.preds, columns.target, **more)
            return relative
        if not measure.formula.is_average_precision or (measure.k is not None and columns.preds.ndim > 1):
            raise ValueError(_NO_INTERVAL)
        is_interpolated = getattr(measure.formula, "interpolation", None) is not None
        option = next((option_of(x) for x in OTHER_SAMPLES if getattr(args, x) is not None), "")
        if option and is_mean:
            raise ValueError(f"the mean over classes has none with {option}; each class has one (--per-class)")
        if option and is_interpolated:
            raise ValueError(f"interpolated ap has none with {option}")
        if is_interpolated and columns.cluster is None:
            method = "bootstrap-logit"  # interpolated AP has no influence function
    options = {**resampling_options(args), **cluster_options(columns)}
    if args.sampling_weights is not None:
        options["sampling_weights"] = True
    if args.first_look is not None:
        options["first_look"] = args.first_look
    if args.simultaneous and not (is_mean or grouped):
        options["simultaneous"] = columns.preds.ndim == 2
    interval: Interval = evaluation.confidence_interval(level, method, **options)
    return interval


def chance_level_of(args: argparse.Namespace, evaluation: Any) -> Tensor:
    """Return the chance level of a measure, or raise ValueError if there is none."""
    _require_equal_rows(args, "a chance level")
    level: Tensor = evaluation.chance_level()
    return level


def _require_equal_rows(args: argparse.Namespace, what: str) -> None:
    if args.sampling_weights is not None:
        raise ValueError(f"--sampling-weights cannot be combined with {what}, whose formula counts rows")


def cluster_options(columns: Columns) -> dict[str, Any]:
    """Return the argument ``groups`` of intervals over groups of rows that are in clusters; {} otherwise.

    Samples of items contain the cluster of each row.
    """
    if columns.group is None or columns.cluster is None:
        return {}
    return {"groups": dict(torch.stack([columns.group, columns.cluster], 1).tolist())}


def has_comparison(measure: Measure, columns: Columns) -> bool:
    """Whether a measure can be compared with the measure of a baseline."""
    if columns.group is not None or (measure.kind == "ap" and measure.k is None):
        return True
    return columns.preds.ndim == 1 and measure.kind in ("ap", *_AT_K, *_RELATIVE)


def comparison_of(
    args: argparse.Namespace, measure: Measure, columns: Columns, baseline: Columns, level: float
) -> Comparison:
    """Return the comparison with a baseline at a confidence level.

    Raises:
        ValueError: if there is none.
    """
    _require_equal_rows(args, "a comparison")
    if columns.group is None and measure.kind in (*_AT_K, *_RELATIVE):
        pair = columns.preds, baseline.preds, columns.target
        how = {"confidence_level": level, "groups": columns.cluster, **resampling_options(args)}
        if measure.kind in _RELATIVE:
            return compare_rankings_above_chance(*pair, measure=_NAMES_ABOVE_CHANCE[measure.kind], **how)
        return compare_rankings_at_k(*pair, measure.k or 1, measure=_NAMES_AT_K[measure.kind], **how)
    own, other = (evaluate(args, measure, x) for x in (columns, baseline))
    has_default = columns.group is not None or measure.k is None
    options = cluster_options(columns) if has_default else resampling_options(args)
    comparison: Comparison = own.compare(other, confidence_level=level, **options)
    return comparison


def chance_test_of(args: argparse.Namespace, measure: Measure, evaluation: Any, columns: Columns) -> ChanceTest:
    """Return the test of a measure against random orders of the rows.

    Raises:
        ValueError: for a measure other than AP and AP@k, and for classes.
    """
    formula, options = measure.formula, resampling_options(args)
    if not formula.is_average_precision or getattr(formula, "interpolation", None) is not None:
        raise ValueError("only ap and ap@k have one")
    if columns.group is not None:
        test: ChanceTest = evaluation.chance_test(**options, **cluster_options(columns))
        return test
    if columns.preds.ndim > 1 or columns.weights is not None or args.prevalence is not None:
        raise ValueError("classes, weights and --prevalence have none")
    if measure.k is None:
        return chance_test(columns.preds, columns.target, groups=columns.cluster, **options)
    at_k: dict[str, Any] = {"top_k": measure.k, "denominator": args.denominator or "min", "ties": "grouped"}
    at_k |= {"groups": columns.cluster}
    return chance_test_of_queries(columns.preds, columns.target, **at_k, **options)


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
        return comparison_of(args, measure, inputs.columns, inputs.baseline, level)

    return estimate
