"""The widget with a slider over the depth k of rankings: precision, recall and F1 of all queries, and of one."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from torch_ap.core.measures.counts import counts_at_rank
from torch_ap.core.ranking import hit_curve
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference.queries import compare_per_query, mean_interval
from torch_ap.reports.content import Cell, Table, Widget, with_interval
from torch_ap.reports.estimates import ReportOptions

_EVERY, _RATIO, _MOST = 20, 1.15, 1000  # every depth up to 20, then steps of 15%, up to 1,000
_DIGITS = 6  # the page rounds to 3
_LISTED = (1, 2, 3, 5, 10, 20)  # depths of the table without scripts


def depth_widget(
    systems: Mapping[str, HitCurve],
    shown: Sequence[tuple[int, str]],
    options: ReportOptions,
    groups: Tensor | None = None,
) -> Widget | None:
    """Return the widget; None without a query with relevant items.

    Args:
        systems: the rankings of each system by name, (Q,) in the same order in each.
        shown: place and name of each query whose ranking the reader can open.
        options: arguments of the report.
        groups: (Q,) the group of each query; None for independent queries.
    """
    curves = {name: hit_curve.drop_groups_without_hits(x) for name, x in systems.items()}
    first = next(iter(curves.values()))
    deepest = min(_MOST, int(first.n.max()) if len(first.n) else 0)
    if not deepest or not bool((first.m > 0).any()):
        return None
    depths, groups = _depths(deepest), None if groups is None else groups[first.m > 0]
    means = {name if len(curves) > 1 else "": _means(x, depths, options, groups) for name, x in curves.items()}
    counted = int((first.m > 0).sum())
    text = (
        f"Means of {counted:,} queries with relevant items, with {options.level} intervals; the missing items of a "
        "shorter ranking count as not relevant."
    )
    return Widget(
        "depths",
        {
            "k": depths,
            "level": options.level,
            "counted": counted,
            "systems": [
                {"name": name, "means": x, "queries": _queries(curve, shown, deepest)}
                for (name, x), curve in zip(means.items(), curves.values(), strict=True)
            ],
            "differences": _differences(list(curves.values()), depths, options, groups) if len(curves) > 1 else {},
            "names": {str(place): name for place, name in shown},
        },
        [text, *(_table(name, x, depths) for name, x in means.items())],
    )


def _table(system: str, means: Mapping[str, Sequence[Sequence[float]]], depths: Sequence[int]) -> Table:
    """Return the means of a system at some depths."""
    rows: list[list[Cell]] = [
        [f"{k}", *(with_interval(*(column[place] for column in columns)) for columns in means.values())]
        for place, k in enumerate(depths)
        if k in _LISTED or k == depths[-1]
    ]
    return Table([f"{system}: k" if system else "k", *means], rows)


def _depths(deepest: int) -> list[int]:
    """Return the depths of the slider, ascending, with the last one."""
    depths = list(range(1, min(_EVERY, deepest) + 1))
    while depths[-1] < deepest:
        depths.append(min(deepest, round(depths[-1] * _RATIO)))
    return depths


def _values(curve: HitCurve, k: int) -> dict[str, Tensor]:
    """Return precision, recall and F1 of the first k items of each query with relevant items."""
    counts, kept = counts_at_rank(curve, k, ties="expected"), curve.m > 0
    named = {"precision": counts.precision, "recall": counts.recall, "F1": counts.f_beta(1.0)}
    return {name: values[kept].clamp(0, 1) for name, values in named.items()}


def _means(
    curve: HitCurve, depths: Sequence[int], options: ReportOptions, groups: Tensor | None
) -> dict[str, list[list[float]]]:
    """Return mean, low and high end of precision, recall and F1 over the queries with relevant items, by depth."""
    columns: dict[str, list[list[float]]] = {}
    for k in depths:
        for name, values in _values(curve, k).items():
            interval = mean_interval(values, confidence_level=options.confidence_level, groups=groups)
            columns.setdefault(name, []).append(_rounded(interval.estimate, interval.low, interval.high))
    return {name: [list(column) for column in zip(*rows, strict=True)] for name, rows in columns.items()}


def _differences(
    curves: Sequence[HitCurve], depths: Sequence[int], options: ReportOptions, groups: Tensor | None
) -> dict[str, list[list[float]]]:
    """Return the mean difference of the first two systems, with its interval, as :func:`_means`."""
    columns: dict[str, list[list[float]]] = {}
    for k in depths:
        first, second = (_values(curve, k) for curve in curves[:2])
        for name in first:
            how: Any = {"confidence_level": options.confidence_level, "bounds": (0, 1), "groups": groups}
            found = compare_per_query(first[name], second[name], **how)
            columns.setdefault(name, []).append(_rounded(found.difference, found.low, found.high))
    return {name: [list(column) for column in zip(*rows, strict=True)] for name, rows in columns.items()}


def _rounded(*numbers: Tensor) -> list[float]:
    return [round(float(x), _DIGITS) for x in numbers]


def _queries(curve: HitCurve, shown: Sequence[tuple[int, str]], deepest: int) -> dict[str, dict[str, Any]]:
    """Return the ranking of each query as ends, hits and items of its groups of tied items that contain a hit."""
    ends, hits, items = (x.tolist() for x in (curve.items_above + curve.items, curve.hits, curve.items))
    offsets, n, m = curve.offsets.tolist(), curve.n.tolist(), curve.m.tolist()
    rows = {}
    for place, _ in shown:
        span = [i for i in range(offsets[place], offsets[place + 1]) if ends[i] - items[i] < deepest]
        row: dict[str, Any] = {"n": n[place], "m": m[place], "end": [ends[i] for i in span]}
        if any(items[i] > 1 for i in span):
            row |= {"hits": [hits[i] for i in span], "items": [items[i] for i in span]}
        rows[str(place)] = row
    return rows
