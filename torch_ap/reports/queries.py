"""Report of a measure over queries."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap import plot
from torch_ap.core.measures import interpolation
from torch_ap.core.measures.counts import counts_at_rank
from torch_ap.core.ranking import hit_curve, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.functional import QueryCurve
from torch_ap.inference.metric import paired_samples
from torch_ap.plot.bars import Bar
from torch_ap.reports import cautions
from torch_ap.reports.comparisons import comparison_sections, numbers_of, paired_parts
from torch_ap.reports.content import (
    AS_NUMBERS,
    FORMS,
    LOSS,
    LOSS_TEXT,
    MAX_ROWS,
    Cell,
    Content,
    Part,
    Picture,
    Section,
    Table,
    count_of_groups,
    loss_shares,
    sorted_table,
)
from torch_ap.reports.depths import depth_widget
from torch_ap.reports.drawings import bars
from torch_ap.reports.estimates import ReportOptions, headline, numbers_of_comparison
from torch_ap.reports.labels import labels_section
from torch_ap.retrieval.curve import interpolated_precision, mean_curve
from torch_ap.retrieval.measures import words
from torch_ap.retrieval.metrics.analyses import QueryAnalyses
from torch_ap.retrieval.metrics.query_sample import QuerySample

_AT_RANK = "Means over queries; the missing items of a shorter ranking count as not relevant."
_RANKS = (1, 3, 5, 10, 20, 50, 100, 1000)
_LEVELS = [level / 10 for level in range(11)]  # recall of the interpolated curve
_SPREAD = {"lowest": 0.0, "lower quarter": 0.25, "median": 0.5, "upper quarter": 0.75, "highest": 1.0}
_EMPTY = {"neg": "count 0", "pos": "count 1", "skip": "are left out", "nan": "are NaN"}


def content_of(metric: QueryAnalyses, options: ReportOptions) -> Content:
    """Return the content of the report."""
    measure: Any = metric._settings.measure
    name = measure.label
    aggregation = metric._settings.aggregation
    title = f"mean {name}" if aggregation == "mean" else name
    run = metric._run_scores
    head = headline(metric, title, lambda x: float(x.compute()), options)
    with metric._all_ranks():
        table = _PerQuery(metric._sample())
        texts = _warnings(metric, table)
    sections = comparison_sections(metric, head, options, "queries", lambda: _differences(metric, table, options))
    if measure.is_average_precision:
        curves = options.per_system(_curve(metric), lambda: _curve(options.other))
        sections += _curve_sections({name: x for name, x in curves.items() if x.queries})
    is_gain = getattr(metric, "higher_is_better", True)
    has_loss = is_gain and aggregation == "mean" and not bool((table.values > 1).any())
    return Content(
        head,
        convention=words.describe_over_queries(measure, aggregation, None if run is None else run.order),
        facts={
            "queries": len(table.queries),
            **count_of_groups(table.groups),
            "items": int(table.n.sum()),
            "relevant": int(table.m.sum()),
        },
        warnings=texts,
        sections=[
            *sections,
            *_query_sections(table, options, name, has_loss=has_loss),
            *(labels_section(options.labels, options.one_of_several) if options.labels is not None else []),
        ],
    )


class _PerQuery:
    """Id, value, ranking, items, relevant items and group, None without groups, of each query that counts."""

    def __init__(self, sample: QuerySample) -> None:
        rankings, self.ids = sample.rankings, sample.unit_ids
        values = sample.settings.per_query(rankings)
        order = torch.argsort(rankings.queries)
        self.queries, self.values = values.queries[values.counted], values.values[values.counted]
        each, places = hit_curve.split(rankings.curve), order[values.counted].tolist()
        self.curve = hit_curve.join([each[place] for place in places]) if places else rankings.curve
        self.n, self.m = (x[places].long() for x in (rankings.curve.n, rankings.curve.m))
        self.groups = sample._ids_of_groups(self.queries)


def _differences(metric: QueryAnalyses, table: _PerQuery, options: ReportOptions) -> tuple[dict[str, Any], list[Part]]:
    """Return the comparisons of further means over queries, and the values of both systems for each query."""
    measure: Any = metric._settings.measure
    name, other = measure.label, options.other
    measures = _means(measure, int(table.n.max()) if len(table.n) else 0) if measure.is_average_precision else {}
    with metric._all_ranks(), other._all_ranks():
        samples = paired_samples(metric, other)
        others = _PerQuery(samples[1])
        rows = {}
        for text, values in measures.items():
            mine, theirs = (
                replace(x, settings=replace(x.settings, measure=values, aggregation="mean")) for x in samples
            )
            compare = partial(mine.compare, theirs, options.confidence_level, None, options.resampling)
            rows[text] = numbers_of(numbers_of_comparison(compare))
    names, each = _query_names(table.queries, options.names), (table.values, others.values)
    keys = range(len(names)) if len(names) <= MAX_ROWS else ()
    gap, order = each[0] - each[1], (each[0] - each[1]).argsort(descending=True).tolist()
    drawing = bars(
        f"{name} of each query: {options.systems[0]} minus {options.systems[1]}.",
        [names[x] for x in order],
        {"": [Bar(float(x)) for x in gap[order]]},
        keys=order if keys else (),
        opens="depths",
        notes=[f"{a:.3f} and {b:.3f}" for a, b in zip(*(x[order].tolist() for x in each), strict=True)],
    )
    in_groups = table.groups is not None
    paired = paired_parts("queries", name, names, each, options, keys=keys, opens="depths", in_groups=in_groups)
    return rows, [*paired, drawing]


def _means(convention: Any, deepest: int) -> Mapping[str, Callable[[HitCurve], Tensor]]:
    """Return precision and recall at ranks, and interpolated precision at recall levels, as measures by name."""
    ties = convention.ties or "grouped"

    def ratio_at_rank(ratio: str, k: int, curve: HitCurve) -> Tensor:
        values: Tensor = getattr(counts_at_rank(curve, k, ties=ties), ratio)
        return torch.where(curve.m > 0, values, torch.nan)

    def precision_at_level(place: int, curve: HitCurve) -> Tensor:
        levels = interpolation.recall_levels("11-point", curve.m.device)
        return interpolated_precision(curve, levels, convention)[:, place]

    ranks = {
        f"{ratio} at {k}": partial(ratio_at_rank, ratio, k)
        for ratio in ("precision", "recall")
        for k in _RANKS
        if k <= deepest
    }
    return ranks | {
        f"precision at recall {level:.1f}": partial(precision_at_level, x) for x, level in enumerate(_LEVELS)
    }


def _curve(metric: QueryAnalyses) -> QueryCurve:
    with metric._all_ranks():
        measure: Any = metric._settings.measure
        return mean_curve(metric._ranked(), metric._settings, measure, "")


def _curve_sections(curves: Mapping[str, QueryCurve]) -> list[Section]:
    """Return the interpolated curve, and precision and recall at each rank, of each system."""
    if not curves:
        return []
    first, has_other = next(iter(curves.values())), len(curves) > 1
    precision = {name if has_other else "precision": x.interpolated_precision for name, x in curves.items()}
    levels: list[list[Cell]] = [
        [f"{float(level):.1f}", *(float(x[place]) for x in precision.values())]
        for place, level in enumerate(first.recall_levels)
    ]
    last = min(len(x.k) for x in curves.values())
    ranks: list[list[Cell]] = [
        [f"{k}", *(float(x[k - 1]) for curve in curves.values() for x in (curve.precision, curve.recall))]
        for k in _RANKS
        if k <= last
    ]
    ends = [f" of {name}" if has_other else "" for name in curves]
    head = ["k", *(f"{measure} at k{end}" for end in ends for measure in ("precision", "recall"))]
    picture = Picture(
        "Mean interpolated precision at eleven recall levels, TREC's graph.",
        lambda ax: plot.precision_recall(dict(curves) if has_other else first, ax=ax),
        chart={
            "x": "recall",
            "y": "precision",
            "xRange": [0, 1.02],
            "series": [
                {"name": name if has_other else "", "x": _LEVELS, "y": x.interpolated_precision.tolist()}
                for name, x in curves.items()
            ],
        },
    )
    table = Table(["recall of at least", *precision], levels, summary=AS_NUMBERS)
    return [Section("Precision and recall", [picture, table]), Section("At rank k", [_AT_RANK, Table(head, ranks)])]


def _query_sections(table: _PerQuery, options: ReportOptions, name: str, *, has_loss: bool) -> list[Section]:
    """Return the depths of the rankings, the quantiles of the values, and the values of all queries."""
    values, defined = table.values, table.values[~torch.isnan(table.values)]
    head, columns = ["query", name], [_query_names(table.queries, options.names), values.tolist()]
    if has_loss:
        head, columns = [*head, LOSS], [*columns, loss_shares(values.tolist())]
    if options.other is not None:
        with options.other._all_ranks():
            other = _PerQuery(options.other._sample().ordered_as(table.ids, "`other`"))
        others = other.values
        columns += [others.tolist(), (values - others).tolist()]
        head += [f"{name} of {options.systems[1]}", "difference"]
    columns += [table.n.tolist(), table.m.tolist()]
    rows = list(zip(*columns, strict=True))
    queries, omitted = sorted_table([*head, "items", "relevant"], rows, "queries", FORMS, opens="depths")
    curves = options.per_system(table.curve, lambda: other.curve)
    shown = [(int(key), str(row[0])) for key, row in zip(queries.keys, queries.rows, strict=True)]
    depths = depth_widget(curves, shown, options, table.groups)
    parts: list[Part] = [LOSS_TEXT] if has_loss else []
    if len(defined):
        quantiles: list[Cell] = torch.quantile(defined, defined.new_tensor(list(_SPREAD.values()))).tolist()
        parts.append(Table(list(_SPREAD), [quantiles]))
    sections = [Section("All queries", [*parts, *([omitted] if omitted else []), queries])]
    return sections if depths is None else [Section("Depth of the ranking", [depths]), *sections]


def _query_names(queries: Tensor, names: Mapping[int, str] | None) -> list[str]:
    """Return the names of the queries, or their ids."""
    return [str((names or {}).get(x, x)) for x in queries.tolist()]


def _warnings(metric: QueryAnalyses, table: _PerQuery) -> list[str]:
    count, texts = len(table.queries), cautions.few_queries(len(table.queries))
    if empty := int((table.m == 0).sum()):
        rule = _EMPTY.get(metric._settings.empty_target_action, "are errors")
        texts.append(f"Without relevant items: {empty:,} of {count:,} queries, which {rule}.")
    settings, measure = metric._settings, metric._settings.measure
    run = metric._run_scores
    if run is None:
        groups = segments.as_float64(metric._sample().all_groups().items)
    else:
        groups = _group_sizes(run.scores, run.queries)
    has_rules = hasattr(measure, "ties") and settings.aggregation == "mean"
    if has_rules and getattr(measure, "is_monotone", True):  # own measures may lack it
        tied_metric = metric if run is None or run.tied is None else run.tied
        ends = [float(metric.compute())] if run is not None else []
        for ties in ("pessimistic", "optimistic"):
            each = settings.per_query(tied_metric._ranked(), replace(measure, ties=ties))  # type: ignore[type-var]
            ends.append(float(each.values[each.counted].nanmean()))
        texts += cautions.ties(groups, min(ends), max(ends))
    elif has_rules or run is not None:
        texts += cautions.ties(groups, math.nan, math.nan)
    if not metric.preds:
        return texts
    if run is None:
        scores = torch.cat([x.flatten().double() for x in metric.preds]).cpu().numpy()
        query = torch.cat([x.flatten() for x in metric.indexes]).cpu().numpy()
    else:
        scores, query = run.scores.numpy(), run.queries.numpy()
    order = np.lexsort((scores, query))
    repeats = (np.diff(scores[order]) == 0) & (np.diff(query[order]) == 0)
    tied = np.zeros(len(scores), np.bool_)
    tied[order] = np.append(repeats, False) | np.append(False, repeats)
    return texts + cautions.saturation(
        torch.from_numpy(scores), tied=torch.from_numpy(tied), by_name=run is not None and bool(run.order)
    )


def _group_sizes(scores: Tensor, queries: Tensor) -> Tensor:
    """Return the number of items of each score of each query, (G,) float64."""
    if not len(scores):
        return scores
    values = torch.unique(scores, return_inverse=True)[1]
    keys = queries * (int(values.max()) + 1) + values
    sizes: Tensor = torch.unique(keys, return_counts=True)[1]
    return sizes.to(torch.float64)
