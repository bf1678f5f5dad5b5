"""Evaluations of the measures of a table: values, intervals, comparisons, and the results of pages."""

import argparse
from dataclasses import replace
from typing import Any

from torch_ap.classification.analyses import EvaluatedItems
from torch_ap.core.columns.table_names import Measure
from torch_ap.core.columns.tables import Columns
from torch_ap.core.items.settings import average_precision_settings
from torch_ap.retrieval.inputs import QueryInputs
from torch_ap.retrieval.metrics.analyses import EvaluatedQueries
from torch_ap.retrieval.settings import MeasureSettings


def evaluate(args: argparse.Namespace, measure: Measure, columns: Columns, average: str = "macro") -> Any:
    """Return the evaluation of all rows: of one ranking, of one per class or label, or of one per group."""
    if columns.group is not None or (columns.preds.ndim == 1 and not measure.formula.is_average_precision):
        return _evaluate_queries(args, measure, columns)
    task, action, width = None, "nan", None
    if columns.preds.ndim == 2:
        task, action = ("num_classes", "skip") if columns.target.ndim == 1 else ("num_labels", "neg")
        width = columns.preds.shape[1]
    average = "none" if task is None else average
    options = {"convention": measure.formula, "prevalence": args.prevalence, "empty_target_action": action}
    settings = average_precision_settings((task, width), average, None, None, True, args.normalization, **options)
    rows = columns.preds, columns.target, columns.weights, columns.cluster
    return EvaluatedItems(settings, *rows, first_id=1)  # as messages count the rows of a file


def _evaluate_queries(args: argparse.Namespace, measure: Measure, columns: Columns) -> EvaluatedQueries:
    """Return the evaluation of groups, or of one ranking of a measure without a class for one ranking."""
    graded = measure.formula.graded
    grouped = columns.group is not None
    inputs = QueryInputs(None, args.relevance_level if grouped and not graded else None, copies=False, graded=graded)
    columns_of_batch = (columns.preds, columns.target) if grouped else (columns.preds[None], columns.target[None])
    batch = inputs.validate(*columns_of_batch, columns.group)
    return EvaluatedQueries(MeasureSettings(measure.formula, inputs, "neg" if grouped else "nan"), batch)


def evaluate_systems(args: argparse.Namespace, measure: Measure, columns: Columns) -> dict[str, Any]:
    """Return the evaluation of each column of scores with ``--best``, by name."""
    if columns.preds.ndim != 2 or columns.preds.shape[1] != len(args.preds):
        raise ValueError(f"{args.file}: --best needs columns of numbers as --preds, not of lists")
    return {
        name: evaluate(args, measure, replace(columns, preds=columns.preds[:, place]))
        for place, name in enumerate(args.preds)
    }
