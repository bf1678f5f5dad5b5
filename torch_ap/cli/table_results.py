"""Results of ``torch-ap score`` in every form, of exact values and of bounds."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from torch_ap.cli.notes import file_name
from torch_ap.cli.table_inputs import ALL, is_file
from torch_ap.cli.tables import Part, Report, Table, comparison_cells, level_heads, number, reason_lines
from torch_ap.inference.record import holm_of_defined

NO_POSITIVE = "no row is positive, so the measure is undefined"
NO_NEGATIVE = "no row is negative, so the measure is undefined"
NO_WEIGHT = "no row has weight, so the measure is undefined"
_FORMATS = {"width": ".3g", "p_chance": ".4g"}  # all other numbers of a table have 4 digits, with bounds 6 digits


@dataclass
class MeasureResult:
    """Results of one measure.

    Attributes:
        numbers: numbers of all rows by name, first the value or estimate; ``low``, ``high``, ``chance`` if requested.
        compared: ``baseline``, its value, then ``difference``, its bounds, ``low``, ``high`` and ``p_value``; or empty.
        rows: numbers of each group or class by its name, if requested.
        reasons: reasons for missing or doubtful numbers.
    """

    numbers: dict[str, float]
    compared: dict[str, float] = field(default_factory=dict)
    rows: dict[str, dict[str, float]] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


class TableReport(Report):
    """Results of all measures.

    Args:
        args: arguments of the command.
        results: result of each measure by name.
        facts: name of the file and numbers of rows, groups, classes and positives.
        convention: meaning of the numbers.
        suspicious: report on suspicious labels, or None.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        results: Mapping[str, MeasureResult],
        facts: dict[str, Any],
        convention: str,
        suspicious: Report | None = None,
    ) -> None:
        self._args, self._results, self._facts, self._convention = args, results, facts, convention
        self._suspicious = suspicious
        self._first = next(iter(results.values()))
        _add_adjusted_p_values(results.values())
        low, high = level_heads(args.confidence_level)
        self._heads = {"at_least": "at least", "at_most": "at most", "low": low, "high": high, "p_value": "p"}
        self._heads["adjusted_p_value"] = "p (Holm)"
        self._heads |= {"chance_sd": "sd of chance", "p_chance": "p (chance)"}
        self._heads |= {
            "human": "human labels",
            "human_low": low,
            "human_high": high,
            "judge_weight": "weight of judge",
        }
        self._simultaneous = bool(getattr(args, "simultaneous", False)) and bool(self._first.rows)
        self._kind, self._kinds = ("class", "classes") if getattr(args, "group", None) is None else ("group", "groups")

    def parts(self) -> Iterator[Part]:
        """Yield the tables of measures, comparisons, and groups or classes; then the reasons."""
        args, results = self._args, self._results
        counts = ", ".join(f"{value:,} {name}" for name, value in self._facts.items() if name != "file")
        columns = list(self._first.numbers)
        formats = [_FORMATS.get(x, ".4f" if columns[0] == "value" else ".6f") for x in columns]
        cells = [(name, *map(number, x.numbers.values(), formats)) for name, x in results.items()]
        title = f"{file_name(self._facts['file'])}: {counts}; {self._convention}"
        yield Table([("measure", *self._with_heads(columns)), *cells], title=title)
        if self._first.compared:
            _, *columns = self._first.compared
            names = (file_name(args.file) if is_file(args.baseline) else args.preds[0], file_name(args.baseline))
            cells = [
                (
                    name,
                    number(next(iter(x.numbers.values()))),
                    number(x.compared["baseline"]),
                    *comparison_cells(x.compared, columns),
                )
                for name, x in results.items()
            ]
            yield Table([("measure", *names, *self._with_heads(columns)), *cells])
        if self._first.rows:
            if self._simultaneous:
                self._heads["low"], self._heads["high"] = level_heads(args.confidence_level, simultaneous=True)
            heads = [head for name, x in results.items() for head in (name, *self._with_heads(_columns_of_rows(x)[1:]))]
            values = {row: [v for x in results.values() for v in x.rows[row].values()] for row in self._first.rows}
            yield Table([(self._kind, *heads), *((row, *map(number, x)) for row, x in values.items())])
        yield from reason_lines({name: x.reasons for name, x in results.items()})
        if self._suspicious is not None:
            yield from self._suspicious.parts()

    def records(self) -> Iterator[Sequence[Any]]:
        """Yield a row per measure and group or class; the mean is called "all" and has the comparison."""
        numbers, compared = list(self._first.numbers), list(self._first.compared)
        compared_heads = (x if x == "baseline" else f"compared.{x}" for x in compared)
        more = ("simultaneous",)[: int(self._simultaneous)]  # whether the interval of a row is simultaneous
        yield ("measure", self._kind, *numbers, *compared_heads, *more)
        for measure, result in self._results.items():
            for name, values in result.rows.items():
                yield (measure, name, *map(values.get, numbers), *(None for _ in compared), *(1 for _ in more))
            mean = (*map(result.numbers.get, numbers), *map(result.compared.get, compared))
            yield (measure, ALL, *mean, *(0 for _ in more))
        if self._suspicious is not None:
            absent = [None] * (len(numbers) + len(compared) + len(more) - 1)
            yield from ((*row, *absent) for row in self._suspicious.records())

    def document(self) -> dict[str, Any]:
        """Return the facts and ``measures``: numbers, ``compared``, ``groups`` or ``classes``, ``reasons`` by name."""
        measures: dict[str, Any] = {}
        for name, result in self._results.items():
            measures[name] = document = dict[str, Any](result.numbers)
            value = next(iter(document))
            if result.compared:
                baseline, *others = result.compared.items()
                document["compared"] = {"baseline": self._args.baseline, value: baseline[1], **dict(others)}
            if result.rows:
                is_plain = _columns_of_rows(result) == [value]
                document[self._kinds] = {row: x[value] if is_plain else x for row, x in result.rows.items()}
            if result.reasons:
                document["reasons"] = result.reasons
        document = self._facts | ({"simultaneous": True} if self._simultaneous else {}) | {"measures": measures}
        return document if self._suspicious is None else document | {"suspicious_labels": self._suspicious.document()}

    def _with_heads(self, columns: Sequence[str]) -> list[str]:
        return [self._heads.get(x, x) for x in columns]


def _add_adjusted_p_values(results: Iterable[MeasureResult]) -> None:
    """Add p-values adjusted by Holm's method for all measures, if several have one."""
    compared = [x.compared for x in results if "p_value" in x.compared]
    p_values = torch.tensor([x["p_value"] for x in compared], dtype=torch.float64)
    if int((~p_values.isnan()).sum()) > 1:
        for x, p in zip(compared, holm_of_defined(p_values).tolist(), strict=True):
            x["adjusted_p_value"] = p


def _columns_of_rows(result: MeasureResult) -> list[str]:
    return list(next(iter(result.rows.values())))
