"""The form of results, one for all sub-commands: text or Markdown for people, CSV or JSON for programs."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch_ap.cli.notes import emit, emit_json
from torch_ap.runs.text_table import Table as Table  # those who make a report of tables have all from here
from torch_ap.runs.text_table import number as number

FORMS = ("json", "csv", "markdown")


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
