"""What the detection commands found, as tables and sentences for people, and for programs."""

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch_ap.cli.images import Found, Numbers, Paths
from torch_ap.cli.tables import Part, Report, Table, number

_COMPARED = ("difference", "difference_low", "difference_high", "p_value", "adjusted_p_value")
_OF_SLICES = ("images", "ground_truths", "detections", "map", "map_low", "map_high", "map_chance", "map_50", "map_75")
_GROUPS = {"class": "ap", "slice": "map"}  # what is a row, and its number
_SAME = 1e-12  # of means

Rows: TypeAlias = list[tuple[tuple[str, ...], float]]


@dataclass(frozen=True)
class Form:
    """How a command writes what is its own.

    Attributes:
        head: of the names of a line.
        rows: the lines of the numbers of one list of detections: names, and number.
        first: what text begins with, of one list.
        title: of the numbers.
        classes: the title of a table of classes behind them; None where they are those of the classes.
        digits: of a number for people.
        name: what a number is called; its own name by default.
        word: what people are told that it is called.
    """

    head: tuple[str, ...]
    rows: Callable[[Found], Rows]
    first: Callable[[Found], list[Part]]
    title: str
    classes: str | None
    digits: str
    name: Callable[[str], str] = str
    word: Callable[[str], str] = str

    def shown(self, value: float) -> str:
        """A value for people: "-" for what is undefined, pycocotools' -1 too."""
        return number(value if isinstance(value, int) or value >= 0 else math.nan, self.digits)

    def table(self, head: str, names: Sequence[str], columns: Mapping[str, Sequence[Any]], title: str = "") -> Table:
        """A row per class or slice."""
        cells = [[self._cell(x, value) for value in column] for x, column in columns.items()]
        return Table([(head, *map(self.word, columns)), *zip(names, *cells, strict=True)], title=title)

    def _cell(self, column: str, value: float) -> str:
        if column in _COMPARED:
            return number(value, ".4g" if column.endswith("p_value") else f"+{self.digits}")
        return self.shown(value)


def reported(args: argparse.Namespace, paths: Paths, found: Mapping[str, Found], form: Form) -> Report:
    """Of one list of detections, or of several beside one another."""
    if len(found) > 1:
        return Report(
            parts=lambda: _beside(args, paths, found, form),
            records=lambda: _records_beside(found, form),
            document=lambda: {name: _document(one, form) for name, one in found.items()},
        )
    one = next(iter(found.values()))
    further: list[Part] = [*_sentences(args, next(iter(paths.names)), one), *_tables(one, form)]
    summary: Part = _grid(form.head, {"value": form.rows(one)}, form)
    return Report(
        parts=lambda: [*form.first(one), *further],
        records=lambda: [("measure", "class", "value"), *_records(one, form)],
        document=lambda: _document(one, form),
        markdown=lambda: [*([summary] if form.classes else form.first(one)), *further],
    )


# -- one list of detections


def _sentences(args: argparse.Namespace, path: str, found: Found) -> Iterator[str]:
    """Lines on interval and comparison."""
    level = f"{100 * args.confidence_level:.10g}%"
    if interval := found.interval:
        low, high, chance = (number(interval[name]) for name in ("map_low", "map_high", "map_chance"))
        yield f"{level} interval of the mean: {low} to {high}{_because(interval)}"
        yield f"Chance level of the mean: {chance} (the same boxes, their scores in random order)"
    if compared := found.compared:
        difference, low, high = (number(compared[name], "+.4f") for name in ("difference", "low", "high"))
        yield (
            f"{path} - {compared['baseline']}: difference of the mean {difference}, {level} interval {low} to {high}, "
            f"p = {number(compared['p_value'], '.4g')}{_because(compared)}"
        )


def _because(found: Mapping[str, Any]) -> str:
    """Why numbers are missing, or were found by another rule, behind them."""
    return f" ({found['reason']})" if found["reason"] else ""


def _tables(found: Found, form: Form) -> Iterator[Part]:
    """Of classes, unless they come first, and of slices, and what is said of them."""
    if found.classes and form.classes:
        columns = {name: column for name, column in found.classes.items() if name not in ("class", "name")}
        yield form.table("class", found.classes["name"], columns, form.classes)
    if found.slices:
        columns = {name: found.slices[name] for name in (*_OF_SLICES, *_COMPARED) if name in found.slices}
        yield form.table("slice", found.slices["slice"], columns, "Each slice of the images")
    yield from (f"{x[0].upper()}{x[1:]}" for x in found.reasons)


def _records(found: Found, form: Form) -> list[tuple[str, str, Any]]:
    """Names and value: the whole, each class, what is said of the mean, each slice."""
    rows = [(name, "all", value) for name, value in found.values.items()]
    for measure, column in found.classes.items():
        if measure not in ("class", "name"):
            rows += [(measure, name, value) for name, value in zip(found.classes["name"], column, strict=True)]
    rows += [(name, "all", value) for name, value in _plain(found.interval).items()]
    rows = [(form.name(measure), of, value) for measure, of, value in rows]
    rows += [(f"compared.{name}", "all", x) for name, x in _plain(found.compared).items() if name != "baseline"]
    for measure, column in found.slices.items():
        named = zip(found.slices["slice"], column, strict=True)
        rows += [(f"slice.{form.name(measure)}", name, x) for name, x in named if isinstance(x, int | float)]
    return rows


def _document(found: Found, form: Form) -> dict[str, Any]:
    """For JSON; a class without ground truths has COCO's -1, or null."""

    def named(columns: Mapping[str, Any]) -> dict[str, Any]:
        return {form.name(name): column for name, column in columns.items()}

    out = named(found.values | _plain(found.interval))
    if found.compared:
        out["compared"] = _plain(found.compared)
    if found.classes.keys() == {"name", "ap"}:
        out["per_class"] = dict(zip(found.classes["name"], found.classes["ap"], strict=True))
    elif found.classes:
        out["per_class"] = named(found.classes)
    out |= {"per_slice": named(found.slices)} if found.slices else {}
    return out | ({"reasons": found.reasons} if found.reasons else {})


def _plain(found: Numbers) -> Numbers:
    """For programs: a reason only where there is one."""
    return {name: value for name, value in found.items() if value != ""}


# -- several


def _grid(head: Sequence[str], rows: Mapping[str, Rows], form: Form, title: str = "") -> Table:
    """A column per list of detections; where there are several the best of each line stands out."""
    lines: dict[tuple[str, ...], dict[str, float]] = {}
    for system, one in rows.items():
        for names, value in one:
            lines.setdefault(names, {})[system] = value
    best: set[tuple[int, int]] = set()
    for line, values in enumerate(lines.values() if len(rows) > 1 else (), 1):
        most = max((x for x in values.values() if x >= 0), default=math.inf) - _SAME
        best |= {(line, len(head) + at) for at, system in enumerate(rows) if values.get(system, -1) >= most}
    cells = [(*names, *(form.shown(values.get(x, math.nan)) for x in rows)) for names, values in lines.items()]
    return Table([(*head, *rows), *cells], names=len(head), title=title, best=best)


def _beside(args: argparse.Namespace, paths: Paths, found: Mapping[str, Found], form: Form) -> Iterator[Part]:
    """Tables for people: numbers, intervals, comparisons, and the same of classes and slices."""
    ends = [f"{100 * args.confidence_level:.10g}% {end}" for end in ("low", "high")]
    yield _grid(form.head, {name: form.rows(one) for name, one in found.items()}, form, form.title)
    if args.interval:
        numbers = [(name, one.mean, *list(one.interval.values())[:3]) for name, one in found.items()]
        rows: list[Sequence[str]] = [(str(name), *map(number, values)) for name, *values in numbers]
        yield Table([("mean of", "value", *ends, "chance"), *rows])
        yield from (f"{name}: {one.interval['reason']}" for name, one in found.items() if one.interval["reason"])
    others = {name: one for name, one in found.items() if one.compared}
    if others:
        columns = ("difference", "low", "high", "p_value", "adjusted_p_value")
        compared = {name: [one.compared[x] for x in columns] for name, one in others.items()}
        yield _comparisons("mean of", compared, ends, f"Minus {paths.baseline_name}; Holm's p allows for all of them")
        yield from (f"{name}: {one.compared['reason']}" for name, one in others.items() if one.compared["reason"])
    for kind, measure in _GROUPS.items():
        yield from _groups(kind, measure, found, form, ends, paths)
    yield from (f"{name}: {x}" for name, one in found.items() for x in one.reasons)


def _groups(
    kind: str, measure: str, found: Mapping[str, Found], form: Form, ends: list[str], paths: Paths
) -> Iterator[Table]:
    """Of classes or slices: the number of each, and comparisons; none where they were not asked for."""
    every = {name: one.slices if kind == "slice" else one.classes for name, one in found.items()}
    named = "slice" if kind == "slice" else "name"
    if all(every.values()) and (form.classes or kind == "slice"):
        values: dict[str, Rows] = {
            name: [((x,), v) for x, v in zip(one[named], one[measure], strict=True)] for name, one in every.items()
        }
        yield _grid((kind,), values, form, f"{form.word(measure)} of each {kind}")
    for name, one in every.items():
        if _COMPARED[0] in one:
            columns = zip(*(one[x] for x in _COMPARED), strict=True)
            title = (
                f"{name} - {paths.baseline_name}: {form.word(measure)} of each {kind}; Holm's p allows for all of them"
            )
            yield _comparisons(kind, dict(zip(one[named], columns, strict=True)), ends, title)


def _comparisons(head: str, rows: Mapping[str, Sequence[float]], ends: Sequence[str], title: str) -> Table:
    """Difference, ends and both p-values of each row."""
    cells = [
        (name, *(number(x, "+.4f") for x in values[:3]), *(number(x, ".4g") for x in values[3:]))
        for name, values in rows.items()
    ]
    return Table([(head, "difference", *ends, "p", "p (Holm)"), *cells], title=title)


def _records_beside(found: Mapping[str, Found], form: Form) -> Iterator[Sequence[Any]]:
    """A column per list of detections; a cell is empty where one has no such number."""
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for system, one in found.items():
        for measure, of, value in _records(one, form):
            lines.setdefault((measure, of), {})[system] = value
    yield ("measure", "class", *found)
    for names, values in lines.items():
        yield (*names, *(values.get(system) for system in found))
