"""The report of a measure over queries."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap import plot
from torch_ap.curve import words
from torch_ap.curve.convention import Convention
from torch_ap.functional import QueryCurve
from torch_ap.functional.query_curve import curve_of_queries
from torch_ap.metrics.queries import QueryMetric
from torch_ap.ranking import segments
from torch_ap.reports import cautions
from torch_ap.reports.content import Cell, Content, Picture, Section, Table, bounded
from torch_ap.reports.curves import AS_NUMBERS
from torch_ap.reports.statement import Asked, compared, headline
from torch_ap.rules.messages import refuse

_AT_RANK = "Means over queries; of a shorter ranking the missing items count as not relevant."
_RANKS = (1, 3, 5, 10, 20, 50, 100, 1000)
_SPREAD = {"lowest": 0.0, "lower quarter": 0.25, "median": 0.5, "upper quarter": 0.75, "highest": 1.0}
_EMPTY = {"neg": "count 0", "pos": "count 1", "skip": "are left out", "nan": "are NaN"}


def content_of(metric: QueryMetric, asked: Asked) -> Content:
    """All that the report says."""
    measure, other = metric._settings.measure, asked.other
    value, name = float(metric.compute()), words.name_of(measure)
    head = headline(metric, f"mean {name}" if metric.aggregation == "mean" else name, value, asked)
    sections = []
    if other is not None:
        head = replace(head, other=float(other.compute()))
        section = compared(metric, asked, (value, head.other), {"unit": "queries"})
        bars = Picture(
            f"{name} of each query: {asked.systems[0]} minus {asked.systems[1]}.",
            lambda ax: plot.query_differences(dict(zip(asked.systems, (metric, other), strict=True)), ax=ax),
        )
        sections.append(replace(section, parts=[*section.parts, bars]))
    if isinstance(measure, Convention):
        both = {asked.systems[0]: _curve(metric)} | ({} if other is None else {asked.systems[1]: _curve(other)})
        sections += _of_curves({name: x for name, x in both.items() if x.queries})
    with metric._all_ranks():
        table = _PerQuery(metric)
        by_chance = cautions.inside(head.low, head.high, head.chance) if metric.higher_is_better else []
        warnings = [*_cautions(metric, table), *by_chance]
    return Content(
        title="",
        systems=asked.systems,
        headline=head,
        convention=words.of_queries(measure, metric.aggregation),
        facts=table.facts,
        warnings=warnings,
        sections=[*sections, _values(table, asked, name)],
        source=repr(metric),
    )


class _PerQuery:
    """Each query with its value, items and relevant items."""

    def __init__(self, metric: QueryMetric) -> None:
        rankings = metric._ranked()
        found = metric._settings.each(rankings)
        order = torch.argsort(rankings.queries)
        n, m = (x[order][found.kept] for x in (rankings.curve.n, rankings.curve.m))
        self.queries, self.values = found.queries[found.kept], found.values[found.kept]
        self.n, self.m = n.to(torch.int64), m.to(torch.int64)

    @property
    def facts(self) -> dict[str, Cell]:
        """How much there is."""
        return {"queries": len(self.queries), "items": int(self.n.sum()), "relevant": int(self.m.sum())}


def _curve(metric: QueryMetric) -> QueryCurve:
    with metric._all_ranks():
        measure: Any = metric._settings.measure
        return curve_of_queries(metric._ranked(), metric._settings, measure, "")


def _of_curves(both: Mapping[str, QueryCurve]) -> list[Section]:
    if not both:
        return []
    first, several = next(iter(both.values())), len(both) > 1
    levels = [f"{float(x):.1f}" for x in first.recall_levels]
    precision = {name if several else "precision": x.interpolated_precision for name, x in both.items()}
    rows: list[list[Cell]] = [
        [level, *(float(x[place]) for x in precision.values())] for place, level in enumerate(levels)
    ]
    deepest = min(len(x.k) for x in both.values())
    ranks = [k for k in _RANKS if k <= deepest]
    at_rank: list[list[Cell]] = [
        [f"{k}", *(float(x[k - 1]) for one in both.values() for x in (one.precision, one.recall))] for k in ranks
    ]
    ends = [f" of {name}" if several else "" for name in both]
    head = ["k", *(f"{what} at k{end}" for end in ends for what in ("precision", "recall"))]
    picture = Picture(
        "Mean interpolated precision at eleven recall levels, TREC's graph.",
        lambda ax: plot.precision_recall(dict(both) if several else first, ax=ax),
    )
    return [
        Section("Precision and recall", [picture, Table(["recall of at least", *precision], rows, folded=AS_NUMBERS)]),
        Section(
            "At rank k",
            [_AT_RANK, Table(head, at_rank)],
        ),
    ]


def _values(table: _PerQuery, asked: Asked, name: str) -> Section:
    """How the values spread, and those of all queries."""
    values, known = table.values, table.values[~torch.isnan(table.values)]
    spread: list[Cell] = torch.quantile(known, known.new_tensor(list(_SPREAD.values()))).tolist() if len(known) else []
    head, columns = ["query", name], [_names(table.queries, asked.names), values.tolist()]
    if asked.other is not None:
        with asked.other._all_ranks():
            others = _PerQuery(asked.other).values
        columns += [others.tolist(), (values - others).tolist()]
        head += [f"{name} of {asked.systems[1]}", "difference"]
    columns += [table.n.tolist(), table.m.tolist()]
    rows = sorted(zip(*columns, strict=True), key=lambda row: (row[1] != row[1], -row[1]))
    kept, said = bounded(rows, "queries")
    parts: list[Any] = [Table(list(_SPREAD), [spread])] if spread else []
    of_all = Table([*head, "items", "relevant"], kept, {"difference": "+.3f"}, sortable=True)
    return Section("All queries", [*parts, *([said] if said else []), of_all])


def _names(queries: Tensor, names: Mapping[int, str] | Sequence[str] | None) -> list[str]:
    """Of the queries that have names; else their ids."""
    if isinstance(names, Sequence) and not isinstance(names, str):
        names = dict(enumerate(names))
    if names is not None and not isinstance(names, Mapping):
        refuse("query_names", "must be a list of names, a dict of ids to names, or None", names)
    return [str((names or {}).get(x, x)) for x in queries.tolist()]


def _cautions(metric: QueryMetric, table: _PerQuery) -> list[str]:
    count = len(table.queries)
    said = []
    if 0 < count < cautions.FEW_QUERIES:
        said.append(f"Few queries: {count}. The mean is that of these, and of others it may be far from it.")
    empty = int((table.m == 0).sum())
    if empty:
        what = _EMPTY.get(metric.empty_target_action, "are errors")
        said.append(f"Without relevant items: {empty:,} of {count:,} queries, which {what}.")
    settings, measure = metric._settings, metric._settings.measure
    groups = segments.as_float64(metric._sample().all_groups().items)
    if hasattr(measure, "ties") and metric.aggregation == "mean":
        ends = []
        for ties in ("pessimistic", "optimistic"):
            each = settings.each(metric._ranked(), replace(measure, ties=ties))  # type: ignore[type-var]
            ends.append(float(each.values[each.kept].nanmean()))
        said += cautions.ties(*cautions.tied_items(groups), min(ends), max(ends))
    scores = metric.preds
    return said + (cautions.saturation(torch.cat([x.flatten().double() for x in scores])) if scores else [])
