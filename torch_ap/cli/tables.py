"""Results of the sub-commands in every form: text and Markdown for people, CSV and JSON for programs."""

import csv
import io
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from torch_ap.cli.notes import emit, emit_json, note
from torch_ap.retrieval.runs.results import Table as Table  # re-exported for the modules that build reports
from torch_ap.retrieval.runs.results import number as number

FORMS = ("json", "csv", "markdown")

Part: TypeAlias = Table | str


class Report(ABC):
    """Results of a command; only the requested form is built.

    Attributes:
        gates: tested gates; see :mod:`torch_ap.cli.gates`.
    """

    gates: Sequence[Any] = ()

    @abstractmethod
    def parts(self) -> Iterable[Part]:
        """Return tables and one-line sentences for people."""

    @abstractmethod
    def records(self) -> Iterable[Sequence[Any]]:
        """Return the rows of one table for programs, head first; NaN and None become empty cells."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Return the content of the JSON document; NaN becomes null."""

    def markdown_parts(self) -> Iterable[Part]:
        """Return the parts for Markdown."""
        return self.parts()

    def write(self, form: str | None) -> None:
        """Write the results on standard output in one of ``FORMS``, or as text if ``form`` is None."""
        sentences = [gate.sentence for gate in self.gates]
        if form == "json":
            emit_json(_replace_nan(self._document_with_gates()))
        elif form == "csv":
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([_cell(x) for x in row] for row in self.records())
            emit(text.getvalue().removesuffix("\n").split("\n"))
            for sentence in sentences:
                note(sentence)
        elif form == "markdown":
            emit(_spaced_lines([*self.markdown_parts(), *sentences], Table.markdown, between_all=True))
        else:
            emit(_spaced_lines([*self.parts(), *sentences], Table.lines, between_all=False))

    def _document_with_gates(self) -> dict[str, Any]:
        document = self.document()
        if self.gates and "gates" in document:  # the name of a run
            raise ValueError("results are named 'gates', which is the key of gates in JSON")
        return document | ({"gates": [gate.to_dict() for gate in self.gates]} if self.gates else {})


def level_heads(confidence_level: float, *, simultaneous: bool = False) -> list[str]:
    """Return the column heads of the ends of an interval, as "95% low" or "simultaneous 95% low"."""
    kind = "simultaneous " if simultaneous else ""
    return [f"{kind}{percent(confidence_level)} {end}" for end in ("low", "high")]


def percent(confidence_level: float) -> str:
    """Return a confidence level as "95%"."""
    return f"{100 * confidence_level:.10g}%"


def comparison_cells(numbers: Mapping[str, float], names: Iterable[str]) -> list[str]:
    """Return cells of the named numbers: p-values with 4 significant digits, differences with a sign."""
    return [number(numbers.get(name), ".4g" if name.endswith("p_value") else "+.4f") for name in names]


def reason_lines(reasons: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield each reason once, after the names of the measures that it concerns."""
    for reason in dict.fromkeys(x for listed in reasons.values() for x in listed):
        yield f"{', '.join(name for name, listed in reasons.items() if reason in listed)}: {reason}"


def _spaced_lines(parts: Iterable[Part], lines: Callable[[Table], list[str]], *, between_all: bool) -> list[str]:
    """Return the lines of the parts, with an empty line around each table or between all parts."""
    out: list[str] = []
    last: Part | None = None
    for part in parts:
        if last is not None and (between_all or isinstance(part, Table) or isinstance(last, Table)):
            out.append("")
        out += lines(part) if isinstance(part, Table) else [part]
        last = part
    return out


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ""
    return "" if value is None else str(value)


def _replace_nan(value: Any) -> Any:
    """Return a copy with None for numbers that are not finite, which JSON lacks."""
    if isinstance(value, dict):
        return {key: _replace_nan(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_nan(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
