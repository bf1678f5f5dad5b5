"""Results of the detection commands in every form."""

import argparse
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from torch_ap.cli.detectors import Columns, Paths, Result, class_measure
from torch_ap.cli.tables import Part, Report, Table, comparison_cells, level_heads, number, percent

_COMPARED = ("difference", "difference_low", "difference_high", "p_value", "adjusted_p_value")
_SLICE_COLUMNS = (
    *("images", "ground_truths", "detections", "map", "map_low", "map_high", "map_chance", "map_50", "map_75"),
    *_COMPARED,
)
_HEADS = {"map_chance": "chance", "p_value": "p", "adjusted_p_value": "p (Holm)"}  # as in the tables of other commands
_TOLERANCE = 1e-12  # means closer to the best are also marked as best

Rows: TypeAlias = list[tuple[tuple[str, ...], float]]


class Layout(ABC):
    """Presentation of the numbers of one command.

    Attributes:
        head: column heads of the names in a row.
        title: title of the table of several lists.
        classes_title: title of the table of classes; None if the rows themselves are the classes.
        digits: format of numbers for people.
        class_ends: column heads of the intervals of classes, set by the report.
    """

    head: tuple[str, ...]
    title = ""
    classes_title: str | None = None
    digits = ".3f"
    class_ends: Sequence[str] = ()

    @abstractmethod
    def rows(self, result: Result) -> Rows:
        """Return the names and the value of each row of the numbers of one list."""

    @abstractmethod
    def summary(self, result: Result) -> list[Part]:
        """Return the first parts of the text for one list."""

    def key(self, name: str) -> str:
        """Return the name of a number for programs."""
        return name

    def label(self, name: str) -> str:
        """Return the name of a number for people."""
        return name

    def cell(self, value: float, column: str = "") -> str:
        """Return a number for people: "-" for undefined values, NaN and -1."""
        if column in _COMPARED:
            return number(value, ".4g" if column.endswith("p_value") else f"+{self.digits}")
        return number(value if isinstance(value, int) or value >= 0 else math.nan, self.digits)

    def table(
        self, head: str, names: Sequence[str], columns: Mapping[str, Any], title: str, ends: Sequence[str] = ()
    ) -> Table:
        """Return a table with a row per class or slice; ``ends`` are the heads of its intervals, by default classes."""
        cells = [[self.cell(value, column) for value in values] for column, values in columns.items()]
        heads = [_head_of_number(column, ends or self.class_ends) or self.label(column) for column in columns]
        return Table([(head, *heads), *zip(names, *cells, strict=True)], title=title)


class DetectorReport(Report):
    """Results of one list of detections, or of several side by side.

    Args:
        args: arguments of the command.
        paths: paths of the lists.
        results: result of each list by name.
        layout: presentation of the numbers.
        further: reports on the first list that follow, by their key in JSON.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        paths: Paths,
        results: Mapping[str, Result],
        layout: Layout,
        further: Mapping[str, Report],
    ) -> None:
        self._args, self._paths, self._results, self._layout, self._further = args, paths, results, layout, further
        self._ends = level_heads(args.confidence_level)
        layout.class_ends = level_heads(args.confidence_level, simultaneous=args.simultaneous)
        self._simultaneous = {"simultaneous": True} if args.simultaneous else {}  # intervals of classes

    def parts(self) -> Iterator[Part]:
        """Yield the numbers, intervals, comparisons, classes and slices."""
        if len(self._results) > 1:
            yield from self._parts_of_several()
        else:
            (result,) = self._results.values()
            yield from self._layout.summary(result)
            yield from self._parts_after_summary(result)

    def markdown_parts(self) -> Iterator[Part]:
        """Yield the parts with a table of the numbers of one list."""
        (result, *others) = self._results.values()
        if others or self._layout.classes_title is None:
            yield from self.parts()
        else:
            yield self._grid(self._layout.head, {"value": self._layout.rows(result)})
            yield from self._parts_after_summary(result)

    def records(self) -> Iterator[Sequence[Any]]:
        """Yield a row per number and class or slice, with a column per list."""
        names = list(self._results) if len(self._results) > 1 else ["value"]
        yield ("measure", "class", *names)
        values = map(self._numbers, self._results.values())
        for key, line in _aligned(dict(zip(names, values, strict=True))):
            yield (*key, *(line.get(name) for name in names))
        for report in self._further.values():
            yield from report.records()

    def document(self) -> dict[str, Any]:
        """Return the numbers of one list, or of each list by name, with the further reports in the first."""
        documents = {name: self._document(result) for name, result in self._results.items()}
        first = next(iter(documents.values()))
        first |= {key: x.document() for key, x in self._further.items()}
        return documents if len(documents) > 1 else first

    # -- one list

    def _parts_after_summary(self, result: Result) -> Iterator[Part]:
        level, layout = percent(self._args.confidence_level), self._layout
        yield from _sentence_on_units(result)
        if interval := result.interval:
            low, high, chance = (number(interval[name]) for name in ("map_low", "map_high", "map_chance"))
            yield f"{level} interval of the mean: {low} to {high}{_parenthesized(interval['reason'])}"
            yield f"Chance level of the mean: {chance} (the same boxes, their scores in random order)"
        if compared := result.compared:
            difference, low, high, p_value = comparison_cells(compared, ("difference", "low", "high", "p_value"))
            yield (
                f"{next(iter(self._paths.names))} - {compared['baseline']}: difference of the mean {difference}, "
                f"{level} interval {low} to {high}, p = {p_value}{_parenthesized(compared['reason'])}"
            )
        if result.classes and layout.classes_title is not None:
            columns = {name: column for name, column in result.classes.items() if name not in ("class", "name")}
            yield layout.table("class", result.classes["name"], columns, layout.classes_title)
        if result.slices:
            columns = {name: result.slices[name] for name in _SLICE_COLUMNS if name in result.slices}
            yield layout.table("slice", result.slices["slice"], columns, "Each slice of the images", self._ends)
        yield from (f"{x[0].upper()}{x[1:]}" for x in result.reasons)
        for report in self._further.values():
            yield from report.parts()

    def _numbers(self, result: Result) -> Iterator[tuple[tuple[str, str], Any]]:
        """Yield the names and the value of each number: all classes, each class, interval, comparison, each slice."""
        key, classes, slices = self._layout.key, result.classes, result.slices
        yield from (((key(name), "all"), value) for name, value in result.values.items())
        for measure in (x for x in classes if x not in ("class", "name")):
            yield from (((key(measure), x), v) for x, v in zip(classes["name"], classes[measure], strict=True))
        yield from (((key(name), "all"), value) for name, value in _drop_empty(result.interval).items())
        yield from (((name, "all"), int(value)) for name, value in (result.units | self._simultaneous).items())
        compared = _drop_empty(result.compared)
        yield from (((f"compared.{name}", "all"), value) for name, value in compared.items() if name != "baseline")
        for measure in (x for x in slices if x != "slice"):
            values = zip(slices["slice"], slices[measure], strict=True)
            yield from (((f"slice.{key(measure)}", x), v) for x, v in values if isinstance(v, int | float))

    def _document(self, result: Result) -> dict[str, Any]:
        def with_keys(columns: Mapping[str, Any]) -> dict[str, Any]:
            return {self._layout.key(name): column for name, column in columns.items()}

        document = with_keys(result.values | _drop_empty(result.interval))
        if result.compared:
            document["compared"] = _drop_empty(result.compared)
        if result.classes.keys() == {"name", "ap"}:
            document["per_class"] = dict(zip(result.classes["name"], result.classes["ap"], strict=True))
        elif result.classes:
            document["per_class"] = with_keys(result.classes)
        if result.slices:
            document["per_slice"] = with_keys(result.slices)
        document |= result.units | self._simultaneous
        return document | ({"reasons": result.reasons} if result.reasons else {})

    # -- several lists

    def _parts_of_several(self) -> Iterator[Part]:
        results, layout, baseline = self._results, self._layout, self._paths.baseline
        yield self._grid(layout.head, {name: layout.rows(x) for name, x in results.items()}, layout.title)
        yield from _sentence_on_units(next(iter(results.values())))
        if self._args.interval:
            numbers = [(name, x.values["map"], *list(x.interval.values())[:3]) for name, x in results.items()]
            rows = [(name, *map(number, values)) for name, *values in numbers]
            yield Table([("mean of", "value", *self._ends, "chance"), *rows])
            yield from (f"{name}: {x.interval['reason']}" for name, x in results.items() if x.interval["reason"])
        compared = {name: x.compared for name, x in results.items() if x.compared}
        if baseline is not None:
            names = ("difference", "low", "high", "p_value", "adjusted_p_value")
            title = f"Minus {self._paths.baseline_name}; Holm's p allows for all of them"
            cells = {name: comparison_cells(x, names) for name, x in compared.items()}
            yield self._comparison_table("mean of", cells.items(), title)
            yield from (f"{name}: {x['reason']}" for name, x in compared.items() if x["reason"])
        of_class = class_measure(self._args)
        yield from self._tables_of_groups("class", of_class, {name: x.classes for name, x in results.items()})
        yield from self._tables_of_groups("slice", "map", {name: x.slices for name, x in results.items()})
        yield from (f"{name}: {reason}" for name, x in results.items() for reason in x.reasons)
        for report in self._further.values():
            yield from report.parts()

    def _tables_of_groups(self, kind: str, measure: str, tables: Mapping[str, Columns]) -> Iterator[Table]:
        """Yield the measure of each class or slice if the rows of the layout lack it, then the comparisons."""
        label, names = self._layout.label(measure), "slice" if kind == "slice" else "name"
        if all(tables.values()) and (kind == "slice" or self._layout.classes_title is not None):
            rows: dict[str, Rows] = {
                name: [((x,), v) for x, v in zip(table[names], table[measure], strict=True)]
                for name, table in tables.items()
            }
            yield self._grid((kind,), rows, f"{label} of each {kind}")
        for name, table in tables.items():
            if _COMPARED[0] in table:
                title = f"{name} - {self._paths.baseline_name}: {label} of each {kind}; Holm's p allows for all of them"
                columns = zip(*(table[x] for x in _COMPARED), strict=True)
                cells = [comparison_cells(dict(zip(_COMPARED, x, strict=True)), _COMPARED) for x in columns]
                yield self._comparison_table(kind, zip(table[names], cells, strict=True), title)

    def _comparison_table(self, head: str, rows: Iterable[tuple[str, list[str]]], title: str) -> Table:
        cells = [(name, *row) for name, row in rows]
        return Table([(head, "difference", *self._ends, "p", "p (Holm)"), *cells], title=title)

    def _grid(self, head: Sequence[str], rows: Mapping[str, Rows], title: str = "") -> Table:
        """Return a table with a column per list; of several lists, the best of each row is marked."""
        lines = list(_aligned(rows))
        best: set[tuple[int, int]] = set()
        for place, (_, line) in enumerate(lines if len(rows) > 1 else (), 1):
            least = max((x for x in line.values() if x >= 0), default=math.inf) - _TOLERANCE
            best |= {(place, len(head) + at) for at, name in enumerate(rows) if line.get(name, -1) >= least}
        cells = [(*names, *(self._layout.cell(line.get(x, math.nan)) for x in rows)) for names, line in lines]
        return Table([(*head, *rows), *cells], names=len(head), title=title, best=best)


def _aligned(columns: Mapping[str, Iterable[tuple[Any, Any]]]) -> Iterable[tuple[Any, dict[str, Any]]]:
    """Return the names of each row with its value in each column that has it; equal names are matched in order."""
    lines: dict[tuple[Any, int], dict[str, Any]] = {}
    for column, rows in columns.items():
        occurrences: Counter[Any] = Counter()
        for names, value in rows:
            lines.setdefault((names, occurrences[names]), {})[column] = value
            occurrences[names] += 1
    return [(names, line) for (names, _), line in lines.items()]


def _head_of_number(column: str, ends: Sequence[str]) -> str:
    """Return the head of an end of an interval, a chance level or a p-value; "" for other numbers."""
    for suffix, head in zip(("_low", "_high"), ends, strict=False):
        if column.endswith(suffix):
            return head
    return _HEADS.get(column, "")


def _sentence_on_units(result: Result) -> list[str]:
    """Return the numbers of images and clusters as a sentence, if there are clusters."""
    if not result.units:
        return []
    images, clusters = result.units["images"], result.units["clusters"]
    return [f"{images:,} images in {clusters:,} cluster{'s' * (clusters != 1)}"]


def _parenthesized(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _drop_empty(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers without empty texts, such as the reason of defined numbers."""
    return {name: value for name, value in numbers.items() if value != ""}
