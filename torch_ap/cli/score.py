"""``torch-ap score``: average precision, and measures at a rank, of the columns of a table."""

import argparse
import math
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from torch_ap.cli import gates, score_best, score_bins, score_exact, table_inputs
from torch_ap.cli.notes import note, to_option_names
from torch_ap.cli.suspicious import SuspiciousLabelsReport
from torch_ap.cli.table_intervals import (
    AP_ALONE,
    chance_level_of,
    chance_test_of,
    comparison_of,
    gates_of_table,
    has_comparison,
    interval_of,
)
from torch_ap.cli.table_labels import imperfect_labels
from torch_ap.cli.table_options import LABELS
from torch_ap.cli.table_results import NO_NEGATIVE, NO_POSITIVE, NO_WEIGHT, MeasureResult, TableReport
from torch_ap.cli.table_values import evaluate
from torch_ap.cli.tables import number
from torch_ap.core.columns.table_names import Measure
from torch_ap.core.columns.tables import Columns
from torch_ap.core.measures.ties import tie_rule
from torch_ap.reports.estimates import interval_and_chance, numbers_of_comparison

_ORDER = ("value", "low", "high", "chance", "chance_sd", "p_chance")


def run(args: argparse.Namespace) -> int:
    """Read, measure and print."""
    if args.exact:
        score_exact.evaluate(args).write(args.form)
        return 0
    if args.bins is not None:
        return gates.write(args, *score_bins.evaluate(args))
    if args.best:
        score_best.evaluate(args).write(args.form)
        return 0
    if any(getattr(args, name) is not None for name in LABELS):
        imperfect_labels(args).write(args.form)
        return 0
    inputs = table_inputs.read(args)
    measures, table, columns, baseline = inputs
    classes, labels = columns.preds.shape[1] if columns.preds.ndim == 2 else 0, columns.target.ndim == 2
    rows = table_inputs.requested_rows(args, table, classes)
    _check_statements(args, columns)
    results = {x.name: _result_of(args, x, columns, baseline, rows) for x in measures}
    level = 1 if args.relevance_level is None else args.relevance_level
    if classes:
        positives = columns.target.sum(0) if labels else torch.bincount(columns.target, minlength=classes)
        table_inputs.note_without_positives(args, table, positives, labels=labels)
    elif columns.group is not None:  # measures of grades do not depend on the level
        is_hit = columns.target >= (1 if all(x.formula.graded for x in measures) else level)
        positives = torch.bincount(columns.group[is_hit], minlength=len(table.groups))
        table_inputs.note_without_positives(args, table, positives, labels=False)
    if classes and not labels and columns.target.max() == 1:  # with a positive row
        first, second, *_ = table_inputs.class_names(args, classes)
        note(
            f"{args.file}: all targets are 0 or 1, and --preds are the scores of {classes} classes: {first} of "
            f"class 0, {second} of class 1; --best, or --baseline with one column as --preds, compares the columns as "
            "systems with the same targets"
        )
    if args.report is not None:
        from torch_ap.cli import report  # imports the plots

        report.write(args, inputs, args.report)
    positive = int((columns.target >= level).sum())
    facts = table_inputs.table_facts(args, table, len(columns.preds), positive, classes, labels=labels)
    facts |= table_inputs.count_of_clusters(columns)
    ties = tie_rule(args.ties or ("expected" if args.group is not None else "grouped")).clause
    convention = f"{'means over the groups; ' if args.group is not None else ''}{ties}"
    if args.first_look is not None:
        convention += f"; intervals that hold at every look from {args.first_look:,} rows on"
    elif args.simultaneous and classes:
        convention += "; intervals that contain all classes at once"
    suspicious = _suspicious_labels(args, inputs, classes) if args.suspicious_labels else None
    return gates.write(args, TableReport(args, results, facts, convention, suspicious), gates_of_table(args, inputs))


def _check_statements(args: argparse.Namespace, columns: Columns) -> None:
    """Raise ValueError for options of several classes, recall levels or looks that the rows do not allow."""
    has_classes = columns.preds.ndim == 2
    if args.simultaneous and not (args.interval and args.per_class if has_classes else args.report is not None):
        raise ValueError("--simultaneous needs --interval and --per-class with classes, or --report with one ranking")
    if args.first_look is not None and args.first_look > len(columns.preds):
        raise ValueError(
            f"--first-look must be at most the number of rows, {len(columns.preds)}, got {args.first_look}"
        )


def _suspicious_labels(args: argparse.Namespace, inputs: table_inputs.Inputs, classes: int) -> SuspiciousLabelsReport:
    """Return the report on the targets that may be wrong, by the first measure that is an average precision."""
    measure = next((x for x in inputs.measures if x.formula.is_average_precision), None)
    if measure is None:
        raise ValueError("--suspicious-labels needs ap, or another average precision, among the measures")
    names = list(table_inputs.class_names(args, classes)) if classes else None
    labels = evaluate(args, measure, inputs.columns).suspicious_labels(class_names=names)
    title = f"Suspicious labels: the change of {measure.name}, {number(labels.value)}, if a label were corrected"
    row_ids = list(inputs.table.row_ids)
    ids = {"item": lambda row: row_ids[row["item"] - 1]} if row_ids else {}
    return SuspiciousLabelsReport(labels, title, ids)


def _result_of(
    args: argparse.Namespace, measure: Measure, columns: Columns, baseline: Columns | None, rows: tuple[str, ...]
) -> MeasureResult:
    """Return the value of a measure, with interval, chance level, comparison and rows if requested."""
    evaluation = evaluate(args, measure, columns)
    value = float(evaluation.compute())
    result = MeasureResult({"value": value})
    is_undefined, grouped = math.isnan(value) and columns.preds.ndim == 1, columns.group is not None
    missing_rows = _missing_rows(columns) if is_undefined else ""
    if is_undefined:
        result.reasons.append(missing_rows)
        result.numbers |= dict.fromkeys(("low", "high", "chance"), math.nan) if args.interval else {}
    elif args.interval:
        ends, reasons = interval_and_chance(
            lambda: interval_of(args, measure, evaluation, columns, args.confidence_level),
            lambda: chance_level_of(args, evaluation),
        )
        result.numbers |= ends
        result.reasons += [to_option_names(x, args.option_names) for x in reasons]
    if args.chance_test:
        _add_chance_test(args, measure, evaluation, columns, result)
    if baseline is not None:
        other_value = float(evaluate(args, measure, baseline).compute())
        missing = missing_rows if is_undefined or has_comparison(measure, columns) else AP_ALONE
        compared = numbers_of_comparison(
            lambda: comparison_of(args, measure, columns, baseline, args.confidence_level), missing
        )
        numbers = {name: compared[name] for name in ("low", "high", "p_value")}
        result.compared = {"baseline": other_value, "difference": value - other_value, **numbers}
        reason = to_option_names(compared["reason"], args.option_names)
        if reason and reason not in result.reasons:
            subject = "no comparison" if math.isnan(numbers["p_value"]) else "comparison"
            result.reasons.append(f"{subject}: {reason}")
    if rows and grouped:
        result.rows = {name: {"value": x} for name, x in zip(rows, evaluation.per_query()[1].tolist(), strict=True)}
    elif rows:
        result.rows = _values_of_classes(args, measure, columns, rows)
    return result


def _missing_rows(columns: Columns) -> str:
    """Return the reason why a measure of one ranking is undefined."""
    if columns.weights is not None:
        columns = columns.rows(columns.weights > 0)
    if not len(columns.preds):
        return NO_WEIGHT
    return NO_NEGATIVE if bool((columns.target > 0).any()) else NO_POSITIVE


def _add_chance_test(
    args: argparse.Namespace, measure: Measure, evaluation: Any, columns: Columns, result: MeasureResult
) -> None:
    """Add the chance level, its standard deviation and the p-value, or the reason why there are none."""
    numbers = dict.fromkeys(("chance", "chance_sd", "p_chance"), math.nan)
    try:
        test = chance_test_of(args, measure, evaluation, columns)
        values = (float(x) for x in (test.chance_level, test.standard_deviation, test.p_value))
        numbers, reason = dict(zip(numbers, values, strict=True)), test.reason
    except ValueError as error:
        reason = f"no test against chance: {error}"
    result.numbers = {**numbers, **result.numbers} if "chance" in result.numbers else {**result.numbers, **numbers}
    result.numbers = {name: result.numbers[name] for name in _ORDER if name in result.numbers}
    result.reasons += [to_option_names(reason, args.option_names)] if reason and reason not in result.reasons else []


def _values_of_classes(
    args: argparse.Namespace, measure: Measure, columns: Columns, names: tuple[str, ...]
) -> dict[str, dict[str, float]]:
    """Return the value of each class, with interval and chance level if they exist."""
    evaluation = evaluate(args, measure, columns, "none")
    numbers: dict[str, Tensor] = {"value": evaluation.compute()}
    if args.interval:
        try:
            interval = interval_of(args, measure, evaluation, columns, args.confidence_level)
        except ValueError:  # the mean has the reason, except for simultaneous intervals
            if args.simultaneous:
                raise
        else:
            numbers |= {"low": interval.low, "high": interval.high}
            with suppress(ValueError):  # the mean has the reason
                numbers["chance"] = chance_level_of(args, evaluation)
    return {name: {key: float(x[place]) for key, x in numbers.items()} for place, name in enumerate(names)}
