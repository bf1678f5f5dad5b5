"""What ``torch-ap score`` says of one measure: its value, interval and chance level, and a comparison."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torch_ap.classification import (
    BinaryAveragePrecision,
    MulticlassAveragePrecision,
    MultilabelAveragePrecision,
)
from torch_ap.cli.notes import in_words
from torch_ap.cli.progress import of_resamples
from torch_ap.curve.convention import Convention
from torch_ap.curve.discounted_gain import NormalizedDCG
from torch_ap.files.table_columns import Columns
from torch_ap.files.table_measures import Measure
from torch_ap.inference import precision_at_k_interval, recall_at_k_interval
from torch_ap.metrics.queries import QueryMetric
from torch_ap.metrics.uncertainty import UncertainMetric
from torch_ap.retrieval import RetrievalMAP, RetrievalNormalizedDCG

NAN = math.nan
_AP_ALONE = "of one ranking, or of classes, there is one of ap alone"
_NO_INTERVAL = "of one ranking, or of classes, there is one of ap, P@k, R@k and interpolated ap"
NO_POSITIVE = "no row is positive, so the measure is undefined"


@dataclass
class Statement:
    """One measure, as far as it was asked for.

    Attributes:
        value: of all rankings.
        interval: ``low``, ``high`` and ``chance``, NaN where they do not exist.
        compared: ``baseline``, its value, ``difference``, ``low``, ``high`` and ``p_value``.
        each: numbers of each group or class, by its name; those of ``interval`` too where they have them.
        reasons: why numbers are missing.
    """

    value: float
    interval: dict[str, float] = field(default_factory=dict)
    compared: dict[str, float] = field(default_factory=dict)
    each: dict[str, dict[str, float]] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Asked:
    """What is wanted of every measure.

    Attributes:
        interval: whether interval and chance level are.
        confidence_level: of intervals.
        n_resamples: of interpolated measures, whose interval has no formula.
        each: names of groups or classes whose values are.
        relevance_level: the lowest relevant grade, of groups; None for 1.
        normalization: of the scores of classes.
    """

    interval: bool = False
    confidence_level: float = 0.95
    n_resamples: int = 1000
    each: tuple[str, ...] = ()
    relevance_level: int | None = None
    normalization: str | None = None


def statement_of(measure: Measure, columns: Columns, baseline: Columns | None, asked: Asked) -> Statement:
    """The measure of the columns, and of the baseline's."""
    metric = metric_of(measure, columns, asked)
    found = Statement(float(metric.compute()))
    if math.isnan(found.value) and columns.preds.ndim == 1:
        found.reasons.append(NO_POSITIVE)
    if asked.interval:
        _add_interval(found, measure, metric, columns, asked)
    if baseline is not None:
        plain = measure.kind == "ap" and measure.k is None
        other = metric_of(measure, baseline, asked)
        _add_comparison(found, metric, other, asked, none="" if plain or columns.group is not None else _AP_ALONE)
    if asked.each:
        found.each = _each(measure, metric, columns, asked)
    return found


def metric_of(measure: Measure, columns: Columns, asked: Asked, average: str = "macro") -> UncertainMetric:
    """The metric that has seen all rows: of one ranking, of one per class or label, or of one per group."""
    metric: Any
    preds, target = columns.preds, columns.target
    if columns.group is not None:
        level: Any = {"relevance_level": asked.relevance_level}
        if isinstance(measure.formula, Convention):
            metric = RetrievalMAP(convention=measure.formula, **level)
        elif isinstance(measure.formula, NormalizedDCG):  # of grades, whatever is relevant
            metric = RetrievalNormalizedDCG(**vars(measure.formula))
        else:
            metric = QueryMetric(measure.formula, "neg", None, "mean", **level)
        metric.update(preds, target, indexes=columns.group)
    elif preds.ndim == 1 and not isinstance(measure.formula, Convention):
        metric = QueryMetric(measure.formula, "nan", None, "mean")
        metric.update(preds[None], target[None])
    else:
        how: dict[str, Any] = {"convention": measure.formula, "normalization": asked.normalization}
        if preds.ndim == 1:
            metric = BinaryAveragePrecision(**how, empty_target_action="nan")
        elif target.ndim == 1:
            how["empty_target_action"] = "skip"
            metric = MulticlassAveragePrecision(preds.shape[1], average, **how)  # type: ignore[arg-type]
        else:
            how["empty_target_action"] = "neg"
            metric = MultilabelAveragePrecision(preds.shape[1], average, **how)  # type: ignore[arg-type]
        metric.update(preds, target, columns.weights)
    metric.set_dtype(torch.float64)
    return metric  # type: ignore[no-any-return]


def _add_interval(found: Statement, measure: Measure, metric: UncertainMetric, columns: Columns, asked: Asked) -> None:
    """What has no mathematics is NaN, and the reason says so."""
    level, low, high, reason, chance, unknown = asked.confidence_level, NAN, NAN, "", NAN, ""
    alone = columns.group is None
    try:
        if found.reasons == [NO_POSITIVE]:
            reason = NO_POSITIVE
        elif alone and (measure.kind in ("F", "Rprec") or (measure.kind == "ap" and measure.k is not None)):
            reason = _NO_INTERVAL
        elif alone and measure.kind in ("P", "R"):
            of = precision_at_k_interval if measure.kind == "P" else recall_at_k_interval
            interval = of(columns.preds, columns.target, measure.k or 1, confidence_level=level)
        else:
            interval = metric.confidence_interval(level, _method(measure, columns), **_how(asked))
        if not reason:
            low, high, reason = float(interval.low), float(interval.high), interval.reason
    except ValueError as error:
        reason = in_words(str(error))
    try:
        chance = NAN if reason == NO_POSITIVE else float(metric.chance_level())
    except ValueError as error:
        unknown = in_words(str(error))
    found.interval = {"low": low, "high": high, "chance": chance}
    if unknown and unknown != reason:
        found.reasons.append(f"no chance level: {unknown}")
    if reason and reason not in found.reasons:
        what = "no interval" if math.isnan(low) else "interval"
        found.reasons.append(f"{what}{' and no chance level' if unknown == reason else ''}: {reason}")


def _method(measure: Measure, columns: Columns) -> str | None:
    """The default, but of one ranking or several for interpolated precision, which has no influence function."""
    interpolated = getattr(measure.formula, "interpolation", None) is not None
    return "bootstrap-logit" if interpolated and columns.group is None else None


def _how(asked: Asked) -> dict[str, Any]:
    return {"n_resamples": asked.n_resamples, "progress": of_resamples()}


def _add_comparison(found: Statement, metric: UncertainMetric, other: UncertainMetric, asked: Asked, none: str) -> None:
    """The difference of the values, and what is said of it; nothing for the reason ``none``."""
    none = NO_POSITIVE if NO_POSITIVE in found.reasons else none
    numbers, reason = dict.fromkeys(("low", "high", "p_value"), NAN), none
    try:
        compared = {} if none else metric.compare(other, confidence_level=asked.confidence_level).to_dict()
        numbers = {name: compared.get(name, NAN) for name in numbers}
        reason = reason or compared["reason"]
    except ValueError as error:
        reason = in_words(str(error))
    baseline = float(other.compute())
    found.compared = {"baseline": baseline, "difference": found.value - baseline} | numbers
    if reason and reason not in found.reasons:
        found.reasons.append(f"{'no comparison' if math.isnan(numbers['p_value']) else 'comparison'}: {reason}")


def _each(measure: Measure, metric: Any, columns: Columns, asked: Asked) -> dict[str, dict[str, float]]:
    if columns.group is not None:
        values = metric.per_query()[1].tolist()
        return {name: {"value": value} for name, value in zip(asked.each, values, strict=True)}
    metric = metric_of(measure, columns, asked, "none")
    rows: Mapping[str, Tensor] = {"value": metric.compute()}
    if asked.interval:
        try:
            interval = metric.confidence_interval(asked.confidence_level, _method(measure, columns), **_how(asked))
            rows = {**rows, "low": interval.low, "high": interval.high, "chance": metric.chance_level()}
        except ValueError:
            pass
    return {name: {key: float(row[place]) for key, row in rows.items()} for place, name in enumerate(asked.each)}
