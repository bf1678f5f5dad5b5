"""Labels with known flip rates, and few human labels with the labels of a judge, in ``torch-ap score`` and ``trec``."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from torch_ap.cli import table_inputs
from torch_ap.cli.notes import to_option_names
from torch_ap.cli.options import option_of
from torch_ap.cli.progress import Bar
from torch_ap.cli.table_options import LABELS
from torch_ap.cli.table_results import MeasureResult, TableReport
from torch_ap.cli.table_values import evaluate
from torch_ap.core.base.messages import short_repr
from torch_ap.core.columns.table_names import Measure
from torch_ap.core.columns.tables import Columns
from torch_ap.inference import (
    noisy_average_precision_interval,
    prediction_powered_average_precision_interval,
    prediction_powered_mean_interval,
)
from torch_ap.inference.record import Interval
from torch_ap.retrieval.runs.names import Result

_LABELINGS = 20  # random labels by the probabilities of a judge, whose mean is the value of a group
_JUDGED = "under human labels, from those of the judge"
_FURTHER = {"human": "human_estimate", "human_low": "human_low", "human_high": "human_high"}
_FURTHER |= {"judge_weight": "judge_weight"}  # fields of a prediction-powered interval by their names in results


def imperfect_labels(args: argparse.Namespace) -> TableReport:
    """Read the table, and return the values under the true labels, with their intervals.

    Raises:
        ValueError: for several columns of scores, for a measure other than ap without ``--group``, and errors of the
            file and of the labels.
    """
    measures, table = table_inputs.prepare(args)
    grouped = args.group is not None
    option = option_of(next(x for x in LABELS if getattr(args, x) is not None))
    if len(args.preds) > 1 or (not grouped and [x.name for x in measures] != ["ap"]):
        raise ValueError(f"{option} is for ap of one ranking, with one column as --preds")
    with Bar(args.file) as bar:
        columns = table.read(bar)
    if columns.preds.ndim > 1:
        raise ValueError(f"{option} is for ap of one ranking, not for lists of scores")
    level, human = args.confidence_level, int((columns.target >= 0).sum())
    facts: dict[str, Any] = {} if columns.judge is None else {"human labels": human}
    intervals: dict[str, Interval]
    if grouped:
        intervals = _judged_means(args, measures, columns, list(table.groups))
        convention = f"means over the groups {_JUDGED}"
    elif columns.judge is not None:
        items = columns.preds, columns.target, columns.judge
        intervals = {"ap": prediction_powered_average_precision_interval(*items, confidence_level=level)}
        convention = f"AP {_JUDGED}"
    else:
        rates = {x: getattr(args, x) or 0.0 for x in ("false_positive_rate", "false_negative_rate")}
        interval = noisy_average_precision_interval(columns.preds, columns.target, **rates, confidence_level=level)
        intervals, convention = {"ap": interval}, "AP of the true labels, corrected for the rates of false labels"
    positive = int((columns.target >= 1).sum())
    facts = table_inputs.table_facts(args, table, len(columns.preds), positive, 0, labels=False) | facts
    return _report(args, intervals, facts, convention)


def _judged_means(
    args: argparse.Namespace, measures: Sequence[Measure], columns: Columns, names: Sequence[str]
) -> dict[str, Interval]:
    """Return the intervals of means over groups, where some groups have human labels."""
    assert columns.group is not None
    assert columns.judge is not None
    labeled = columns.target >= 0
    rows, human_rows = (torch.bincount(columns.group[x], minlength=len(names)) for x in (slice(None), labeled))
    partial = (human_rows > 0) & (human_rows < rows)
    if bool(partial.any()):
        name = short_repr(names[int(partial.nonzero()[0])])
        raise ValueError(f"{args.file}: group {name} must have human labels of all rows or of none (--judge)")
    human = replace(columns, preds=columns.preds[labeled], target=columns.target[labeled], group=columns.group[labeled])
    generator = torch.Generator().manual_seed(0)
    is_certain = bool((columns.judge == columns.judge.round()).all())
    chances = columns.judge.expand(1 if is_certain else _LABELINGS, -1)
    labelings = [replace(columns, target=x.to(torch.int64)) for x in torch.bernoulli(chances, generator=generator)]
    out: dict[str, Interval] = {}
    for measure in measures:
        groups, own = evaluate(args, measure, human).per_query()
        judged = torch.stack([evaluate(args, measure, x).per_query()[1] for x in labelings]).mean(0)
        values = torch.full_like(judged, torch.nan)
        values[groups] = own
        settings = {"confidence_level": args.confidence_level}
        out[measure.name] = prediction_powered_mean_interval(values, judged, **settings)
    return out


def judged_run(args: argparse.Namespace, human: Mapping[str, Result], judged: Mapping[str, Result]) -> TableReport:
    """Return the means over the queries of a run under human judgements, from the judgements of a judge.

    Args:
        args: arguments of ``torch-ap trec``.
        human: the measures of the run under the human judgements of some queries.
        judged: the measures under the judgements of the judge.

    Raises:
        ValueError: for a measure that is no mean of values in [0, 1], and for a query without the judge's judgements.
    """
    intervals: dict[str, Interval] = {}
    for name, own in human.items():
        if not own.is_share or own.geometric or own.counted:
            raise ValueError(f"--judge is for means over queries of values in [0, 1], got {name}")
        places = {query: place for place, query in enumerate(judged[name].queries)}
        missing = [query for query in own.queries if query not in places]
        if missing:
            raise ValueError(
                f"{args.judge}: must judge every query of {args.qrels}, but lacks {short_repr(missing[0])}"
            )
        values = torch.full((len(places),), torch.nan, dtype=torch.float64)
        values[[places[query] for query in own.queries]] = own.values.to(torch.float64)
        level = args.confidence_level
        intervals[name] = prediction_powered_mean_interval(values, judged[name].values, confidence_level=level)
    counts = [len(next(iter(x.values())).queries) for x in (judged, human)]
    facts = {"file": args.runs[0], "queries": counts[0], "human queries": counts[1]}
    return _report(args, intervals, facts, f"means over the queries {_JUDGED}")


def _report(
    args: argparse.Namespace, intervals: Mapping[str, Interval], facts: dict[str, Any], convention: str
) -> TableReport:
    results = {}
    for name, interval in intervals.items():
        fields = {"value": "estimate", "low": "low", "high": "high"}
        fields |= _FURTHER if hasattr(interval, "judge_weight") else {}
        numbers = {key: float(getattr(interval, field)) for key, field in fields.items()}
        reasons = [to_option_names(interval.reason, args.option_names)] if interval.reason else []
        results[name] = MeasureResult(numbers, reasons=reasons)
    return TableReport(args, results, facts, convention)
