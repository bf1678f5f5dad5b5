"""``torch-ap score``: average precision, and measures at a rank, of the columns of a table."""

import argparse
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from torch_ap.cli import report, score_bins, table_inputs
from torch_ap.cli.notes import to_option_names
from torch_ap.cli.progress import resampling_options
from torch_ap.cli.table_inputs import metric_of
from torch_ap.cli.table_results import NO_POSITIVE, MeasureResult, TableReport
from torch_ap.core.columns.table_names import Measure
from torch_ap.core.columns.tables import Columns
from torch_ap.core.measures.ties import tie_rule
from torch_ap.inference import precision_at_k_interval, recall_at_k_interval
from torch_ap.inference.record import Interval
from torch_ap.reports.estimates import compare, interval_and_chance

_AP_ALONE = "one ranking and classes have one for ap only"
_NO_INTERVAL = "one ranking and classes have one for ap, P@k, R@k and interpolated ap only"
_AT_K: dict[str, Any] = {"P": precision_at_k_interval, "R": recall_at_k_interval}


def run(args: argparse.Namespace) -> int:
    """Read, measure and print."""
    if args.bins is not None:
        score_bins.evaluate(args).write(args.form)
        return 0
    inputs = table_inputs.read(args)
    measures, table, columns, baseline = inputs
    classes, labels = columns.preds.shape[1] if columns.preds.ndim == 2 else 0, columns.target.ndim == 2
    rows = table_inputs.requested_rows(args, table, classes)
    results = {x.name: _result_of(args, x, columns, baseline, rows) for x in measures}
    level = 1 if args.relevance_level is None else args.relevance_level
    if classes:
        positives = columns.target.sum(0) if labels else torch.bincount(columns.target, minlength=classes)
        table_inputs.note_without_positives(args, table, positives, labels=labels)
    elif columns.group is not None:  # measures of grades do not depend on the level
        is_hit = columns.target >= (1 if all(x.formula.graded for x in measures) else level)
        positives = torch.bincount(columns.group[is_hit], minlength=len(table.groups))
        table_inputs.note_without_positives(args, table, positives, labels=False)
    if args.report is not None:
        report.write(args, inputs, args.report)
    positive = int((columns.target >= level).sum())
    facts = table_inputs.table_facts(args, table, len(columns.preds), positive, classes, labels=labels)
    ties = tie_rule(args.ties or ("expected" if args.group is not None else "grouped")).clause
    convention = f"{'means over the groups; ' if args.group is not None else ''}{ties}"
    TableReport(args, results, facts, convention).write(args.form)
    return 0


def _result_of(
    args: argparse.Namespace, measure: Measure, columns: Columns, baseline: Columns | None, rows: tuple[str, ...]
) -> MeasureResult:
    """Return the value of a measure, with interval, chance level, comparison and rows if requested."""
    metric = metric_of(args, measure, columns)
    value = float(metric.compute())
    result = MeasureResult({"value": value})
    is_undefined, grouped = math.isnan(value) and columns.preds.ndim == 1, columns.group is not None
    if is_undefined:
        result.reasons.append(NO_POSITIVE)
        result.numbers |= dict.fromkeys(("low", "high", "chance"), math.nan) if args.interval else {}
    elif args.interval:
        ends, reasons = interval_and_chance(lambda: _interval(args, measure, metric, columns), metric.chance_level)
        result.numbers |= ends
        result.reasons += [to_option_names(x, args.option_names) for x in reasons]
    if baseline is not None:
        other = metric_of(args, measure, baseline)
        other_value = float(other.compute())
        is_comparable = grouped or (measure.kind == "ap" and measure.k is None)
        missing = NO_POSITIVE if is_undefined else "" if is_comparable else _AP_ALONE
        compared = compare(metric, other, missing, confidence_level=args.confidence_level)
        numbers = {name: compared[name] for name in ("low", "high", "p_value")}
        result.compared = {"baseline": other_value, "difference": value - other_value, **numbers}
        reason = to_option_names(compared["reason"], args.option_names)
        if reason and reason not in result.reasons:
            subject = "no comparison" if math.isnan(numbers["p_value"]) else "comparison"
            result.reasons.append(f"{subject}: {reason}")
    if rows and grouped:
        result.rows = {name: {"value": x} for name, x in zip(rows, metric.per_query()[1].tolist(), strict=True)}
    elif rows:
        result.rows = _values_of_classes(args, measure, columns, rows)
    return result


def _interval(args: argparse.Namespace, measure: Measure, metric: Any, columns: Columns) -> Interval:
    """Return the interval of a measure.

    Raises:
        ValueError: for a measure of one ranking or of classes without an interval.
    """
    method, grouped = None, columns.group is not None
    if not grouped:
        if measure.kind in _AT_K:
            at_k, level = _AT_K[measure.kind], args.confidence_level
            return at_k(columns.preds, columns.target, measure.k or 1, confidence_level=level)  # type: ignore[no-any-return]
        if measure.k is not None or not measure.formula.is_average_precision:
            raise ValueError(_NO_INTERVAL)
        if getattr(measure.formula, "interpolation", None) is not None:
            method = "bootstrap-logit"  # interpolated AP has no influence function
    return metric.confidence_interval(args.confidence_level, method, **resampling_options(args))  # type: ignore[no-any-return]


def _values_of_classes(
    args: argparse.Namespace, measure: Measure, columns: Columns, names: tuple[str, ...]
) -> dict[str, dict[str, float]]:
    """Return the value of each class, with interval and chance level if they exist."""
    metric = metric_of(args, measure, columns, "none")
    numbers: Mapping[str, Tensor] = {"value": metric.compute()}
    if args.interval:
        try:
            interval = _interval(args, measure, metric, columns)
            numbers = {**numbers, "low": interval.low, "high": interval.high, "chance": metric.chance_level()}
        except ValueError:  # the mean has the reason
            pass
    return {name: {key: float(x[place]) for key, x in numbers.items()} for place, name in enumerate(names)}
