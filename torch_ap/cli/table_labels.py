"""``torch-ap score`` for labels with known flip rates, and for few human labels with the labels of a judge."""

import argparse
from typing import Any

from torch_ap.cli import table_inputs
from torch_ap.cli.notes import to_option_names
from torch_ap.cli.progress import Bar
from torch_ap.cli.table_results import MeasureResult, TableReport
from torch_ap.inference import noisy_average_precision_interval, prediction_powered_average_precision_interval
from torch_ap.inference.record import Interval


def imperfect_labels(args: argparse.Namespace) -> TableReport:
    """Read one ranking, and return its AP under the true labels, with the interval.

    Raises:
        ValueError: for several columns of scores, another measure than ap, and errors of the file and of the labels.
    """
    measures, table = table_inputs.prepare(args)
    if len(args.preds) > 1 or [x.name for x in measures] != ["ap"]:
        raise ValueError("--judge and --false-... are for ap of one ranking, with one column as --preds")
    with Bar(args.file) as bar:
        columns = table.read(bar)
    if columns.preds.ndim > 1:
        raise ValueError("--judge and --false-... are for ap of one ranking, not for lists of scores")
    interval: Interval
    if columns.judge is not None:
        level = args.confidence_level
        judged = prediction_powered_average_precision_interval(
            columns.preds, columns.target, columns.judge, confidence_level=level
        )
        names = ("human_estimate", "human_low", "human_high", "judge_weight")
        further = {name.removesuffix("_estimate"): float(getattr(judged, name)) for name in names}
        interval, convention = judged, "AP under human labels, from those of the judge"
        facts: dict[str, Any] = {"human labels": int((columns.target >= 0).sum())}
    else:
        rates = {x: getattr(args, x) or 0.0 for x in ("false_positive_rate", "false_negative_rate")}
        interval = noisy_average_precision_interval(
            columns.preds, columns.target, **rates, confidence_level=args.confidence_level
        )
        further, facts, convention = {}, {}, "AP of the true labels, corrected for the rates of false labels"
    numbers = {"value": float(interval.estimate), "low": float(interval.low), "high": float(interval.high)}
    reasons = [to_option_names(interval.reason, args.option_names)] if interval.reason else []
    positive = int((columns.target == 1).sum())
    facts = table_inputs.table_facts(args, table, len(columns.preds), positive, 0, labels=False) | facts
    return TableReport(args, {"ap": MeasureResult(numbers | further, reasons=reasons)}, facts, convention)
