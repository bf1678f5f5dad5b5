"""Metrics of the columns of a table."""

import argparse
from typing import Any

import torch

from torch_ap.classification import BinaryAveragePrecision, MulticlassAveragePrecision, MultilabelAveragePrecision
from torch_ap.core.columns.table_names import Measure
from torch_ap.core.columns.tables import Columns
from torch_ap.retrieval.metrics.measures import metric_of_measure


def metric_of(args: argparse.Namespace, measure: Measure, columns: Columns, average: str = "macro") -> Any:
    """Return the metric of all rows: of one ranking, of one per class or label, or of one per group."""
    metric: Any
    preds, target = columns.preds, columns.target
    if columns.group is not None:
        settings: dict[str, Any] = {} if measure.formula.graded else {"relevance_level": args.relevance_level}
        metric = metric_of_measure(measure.formula, **settings)
        metric.update(preds, target, indexes=columns.group)
    elif preds.ndim == 1 and not measure.formula.is_average_precision:
        metric = metric_of_measure(measure.formula, empty_target_action="nan")
        metric.update(preds[None], target[None])
    else:
        settings = {"convention": measure.formula, "normalization": args.normalization}
        if preds.ndim == 1:
            metric = BinaryAveragePrecision(**settings, empty_target_action="nan")
        elif target.ndim == 1:
            metric = MulticlassAveragePrecision(preds.shape[1], average, **settings, empty_target_action="skip")  # type: ignore[arg-type]
        else:
            metric = MultilabelAveragePrecision(preds.shape[1], average, **settings, empty_target_action="neg")  # type: ignore[arg-type]
        metric.update(preds, target, columns.weights)
    metric.set_dtype(torch.float64)
    return metric
