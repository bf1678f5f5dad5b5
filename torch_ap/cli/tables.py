"""The form of results, one for all sub-commands: text or Markdown for people, CSV or JSON for programs."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch_ap.cli.notes import emit, emit_json

FORMS = ("json", "csv", "markdown")


@dataclass(frozen=True)
class Table:
    """A table for people.

    Attributes:
        rows: texts, those of the head first.
        names: how many columns from the left are names; the others are numbers.
        title: a line above it, or "".
    """

    rows: Sequence[Sequence[str]]
    names: int = 1
    title: str = ""

    def lines(self) -> list[str]:
        """Aligned columns: names to the left, numbers to the right."""
        widths = [max(map(len, column)) for column in zip(*self.rows, strict=True)]
        rows = ["  ".join(self._padded(row, widths)).rstrip() for row in self.rows]
        return [self.title, *rows] if self.title else rows

    def markdown(self) -> list[str]:
        """The same as Markdown has it."""
        head, *rows = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in self.rows]
        rule = "".join("|---" if place < self.names else "|---:" for place in range(len(self.rows[0])))
        return [*([self.title, ""] if self.title else []), head, f"{rule}|", *rows]

    def _padded(self, row: Sequence[str], widths: Sequence[int]) -> list[str]:
        cells = enumerate(zip(row, widths, strict=True))
        return [cell.ljust(w) if place < self.names else cell.rjust(w) for place, (cell, w) in cells]


Part: TypeAlias = Table | str


@dataclass(frozen=True)
class Report:
    """Results in every form; each is made only where it is asked for.

    Attributes:
        parts: for people: tables, and sentences of a line each.
        records: one table for programs, its head first: texts and numbers; what is undefined is an empty cell.
        document: for JSON; what is undefined is null.
        markdown: parts for Markdown, where they are others.
    """

    parts: Callable[[], Iterable[Part]]
    records: Callable[[], Iterable[Sequence[Any]]]
    document: Callable[[], Any]
    markdown: Callable[[], Iterable[Part]] | None = None

    def write(self, form: str | None) -> None:
        """Write it on standard output in one of ``FORMS``; None for text."""
        if form == "json":
            emit_json(_finite(self.document()))
        elif form == "csv":
            emit(_separated(self.records()))
        elif form == "markdown":
            emit(_spaced((self.markdown or self.parts)(), Table.markdown, apart=True))
        else:
            emit(_spaced(self.parts(), Table.lines, apart=False))


def number(value: int | float | None, form: str = ".4f") -> str:
    """A number for people, a count as it is; "-" for one that does not exist."""
    if isinstance(value, int):
        return str(value)
    return "-" if value is None or math.isnan(value) else format(value, form)


def _spaced(parts: Iterable[Part], lines: Callable[[Table], list[str]], *, apart: bool) -> list[str]:
    """The lines of the parts; an empty one beside each table, or between all parts."""
    out: list[str] = []
    last: Part | None = None
    for part in parts:
        if last is not None and (apart or isinstance(part, Table) or isinstance(last, Table)):
            out.append("")
        out += lines(part) if isinstance(part, Table) else [part]
        last = part
    return out


def _separated(rows: Iterable[Sequence[Any]]) -> list[str]:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return out.getvalue().removesuffix("\n").split("\n")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ""
    return "" if value is None else str(value)


def _finite(value: Any) -> Any:
    """The same for JSON, which has finite numbers only."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
