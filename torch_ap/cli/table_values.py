"""Values of the measures of a table by functions, and as metrics for pages and selections.

Metric classes import torchmetrics, which takes two seconds. Numbers need no state and therefore no metric.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.classification.item_sample import ItemSample
from torch_ap.core.columns.table_names import Measure
from torch_ap.core.columns.tables import Columns
from torch_ap.core.items.inputs import warn_of_logits, warn_of_two_scores
from torch_ap.core.items.settings import average_precision_settings
from torch_ap.inference.record import Comparison, Interval
from torch_ap.inference.resampling import Resampling
from torch_ap.retrieval.inputs import QueryInputs
from torch_ap.retrieval.metrics.query_sample import QuerySample
from torch_ap.retrieval.rankings import rank_queries
from torch_ap.retrieval.settings import MeasureSettings


class Evaluation(NamedTuple):
    """Value of a measure of all rows, with the methods of a metric.

    Attributes:
        value: 0-d, or (C,) with one value per class; float64.
        sample: returns the rows as a sample of items or of groups; its keywords are fields of the sample.
    """

    value: Tensor
    sample: Callable[..., Any]

    def values_of_groups(self) -> list[float]:
        """Return the value of each group."""
        values: list[float] = self.sample().values()[1].tolist()
        return values

    def chance_level(self) -> Tensor:
        """Return the chance level."""
        level: Tensor = self.sample().chance_level(Resampling())
        return level

    def confidence_interval(
        self, confidence_level: float, method: str | None, *, n_resamples: int, progress: bool, **fields: Any
    ) -> Interval:
        """Return the interval of the value; ``fields`` are keywords of the sample."""
        resampling = Resampling(n_resamples, progress=progress)
        interval: Interval = self.sample(**fields).interval(confidence_level, method, resampling)
        return interval

    def compare(self, other: "Evaluation", *, confidence_level: float, **fields: Any) -> Comparison:
        """Return the comparison with other scores of the same rows; ``fields`` are keywords of the samples."""
        mine, theirs = (x.sample(**fields) for x in (self, other))
        comparison: Comparison = mine.compare(theirs, confidence_level, None, Resampling())
        return comparison


def evaluate(args: argparse.Namespace, measure: Measure, columns: Columns, average: str = "macro") -> Evaluation:
    """Return the value of all rows: of one ranking, of one per class or label, or of one per group."""
    if _is_over_queries(measure, columns):
        return _evaluate_queries(args, measure, columns)
    task, options = _item_options(args, measure, columns)
    width = None if task is None else columns.preds.shape[1]
    normalization = options.pop("normalization")
    average = "none" if task is None else average
    settings = average_precision_settings((task, width), average, None, None, True, normalization, **options)
    batch = settings.validate(columns.preds, columns.target, columns.weights)._replace(groups=columns.cluster)
    warn_of_logits(settings.inputs, batch)
    warn_of_two_scores(settings.inputs, [batch.scores], [batch.target])
    curve = settings.curve(batch)
    sample = partial(ItemSample, torch.float64, settings, curve, batch, lambda: curve)
    return Evaluation(settings.value(curve, torch.float64), sample)


def _evaluate_queries(args: argparse.Namespace, measure: Measure, columns: Columns) -> Evaluation:
    """Return the mean over groups, or the value of one ranking of a measure without a class for one ranking."""
    graded = measure.formula.graded
    grouped = columns.group is not None
    inputs = QueryInputs(None, args.relevance_level if grouped and not graded else None, copies=False, graded=graded)
    columns_of_batch = (columns.preds, columns.target) if grouped else (columns.preds[None], columns.target[None])
    batch = inputs.validate(*columns_of_batch, columns.group)
    settings = MeasureSettings(measure.formula, inputs, "neg" if grouped else "nan")
    rankings = rank_queries(batch)

    def all_hits() -> Any:
        return rank_queries(batch._replace(relevance=batch.relevance.clamp(min=1), grades=None)).curve

    value = settings.value(settings.per_query(rankings), torch.float64)
    return Evaluation(value, partial(QuerySample, torch.float64, settings, rankings, all_hits))


def metric_of(args: argparse.Namespace, measure: Measure, columns: Columns) -> Any:
    """Return the metric of all rows: of one ranking, of one per class or label, or of one per group."""
    from torch_ap.classification import metrics
    from torch_ap.retrieval.metrics.measures import metric_of_measure

    metric: Any
    preds, target = columns.preds, columns.target
    if columns.group is not None:
        settings: dict[str, Any] = {} if measure.formula.graded else {"relevance_level": args.relevance_level}
        metric = metric_of_measure(measure.formula, **settings)
        metric.update(preds, target, indexes=columns.group)
    elif _is_over_queries(measure, columns):
        metric = metric_of_measure(measure.formula, empty_target_action="nan")
        metric.update(preds[None], target[None])
    else:
        task, options = _item_options(args, measure, columns)
        options |= {} if task is None else {task: preds.shape[1]}
        make: Any = {
            None: metrics.BinaryAveragePrecision,
            "num_classes": metrics.MulticlassAveragePrecision,
            "num_labels": metrics.MultilabelAveragePrecision,
        }[task]
        metric = make(**options)
        metric.update(preds, target, columns.weights, groups=columns.cluster)
    metric.set_dtype(torch.float64)
    return metric


def metrics_of_systems(args: argparse.Namespace, measure: Measure, columns: Columns) -> dict[str, Any]:
    """Return the metric of each column of scores with ``--best``, by name."""
    if columns.preds.ndim != 2 or columns.preds.shape[1] != len(args.preds):
        raise ValueError(f"{args.file}: --best needs columns of numbers as --preds, not of lists")
    return {
        name: metric_of(args, measure, replace(columns, preds=columns.preds[:, place]))
        for place, name in enumerate(args.preds)
    }


def _is_over_queries(measure: Measure, columns: Columns) -> bool:
    """Return whether a measure is evaluated as a mean over queries: of groups, or without a class for one ranking."""
    return columns.group is not None or (columns.preds.ndim == 1 and not measure.formula.is_average_precision)


def _item_options(args: argparse.Namespace, measure: Measure, columns: Columns) -> tuple[str | None, dict[str, Any]]:
    """Return the argument with the number of columns, None for one ranking, and the other settings of an AP."""
    task, action = None, "nan"
    if columns.preds.ndim == 2:
        task, action = ("num_classes", "skip") if columns.target.ndim == 1 else ("num_labels", "neg")
    options = {"convention": measure.formula, "normalization": args.normalization, "prevalence": args.prevalence}
    return task, {**options, "empty_target_action": action}
