"""What a report holds, whatever its form: a headline, facts, warnings, and sections of texts, pictures and tables."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Cell: TypeAlias = str | int | float

NAN = math.nan
MOST_ROWS = 1000
DASH = "\N{EN DASH}"


@dataclass(frozen=True)
class Table:
    """Rows below a head.

    Attributes:
        head: names of the columns.
        rows: as many cells each; NaN for a number that does not exist.
        forms: of numbers of a column, where it is not ".3f".
        sortable: whether a reader may sort it.
        folded: what stands in its place until a reader opens it, where the form has that; "" where it is open.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    forms: Mapping[str, str] = field(default_factory=dict)
    sortable: bool = False
    folded: str = ""

    def text(self, column: int, cell: Cell) -> str:
        """A cell for people."""
        if isinstance(cell, float):
            return DASH if math.isnan(cell) else format(cell, self.forms.get(self.head[column], ".3f"))
        return f"{cell:,}" if isinstance(cell, int) else cell

    def is_text(self, column: int) -> bool:
        """Whether a column holds texts, not numbers."""
        return any(isinstance(row[column], str) for row in self.rows)


@dataclass(frozen=True)
class Picture:
    """A picture, where the form has pictures.

    Attributes:
        caption: what it shows.
        draw: on matplotlib's axes.
        size: width and height in inches.
    """

    caption: str
    draw: Callable[[Any], object]
    size: tuple[float, float] = (6.4, 4.2)


Part: TypeAlias = str | Table | Picture


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it; a text is a paragraph."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Headline:
    """The number, and how sure it is.

    Attributes:
        name: of the measure.
        value: of the system.
        low, high: the ends of its interval; NaN where there is none.
        confidence_level: of the interval.
        chance: the chance level; NaN where there is none.
        other: the value of a second system, or NaN.
        remarks: why numbers are missing.
    """

    name: str
    value: float
    low: float
    high: float
    confidence_level: float
    chance: float = NAN
    other: float = NAN
    remarks: Sequence[str] = ()

    @property
    def level(self) -> str:
        """Of the interval, in percent."""
        return f"{100 * self.confidence_level:.10g}%"


@dataclass(frozen=True)
class Content:
    """A whole report.

    Attributes:
        title: of the page.
        systems: names of the system and of the one that it is compared with.
        headline: the number.
        convention: what the number means, in sentences.
        facts: what it was measured on, numbers by name.
        warnings: what speaks against it.
        sections: the rest.
        source: who wrote it.
    """

    title: str
    systems: tuple[str, str]
    headline: Headline
    convention: str
    facts: Mapping[str, Cell]
    warnings: Sequence[str]
    sections: Sequence[Section]
    source: str


def bounded(rows: Sequence[Sequence[Cell]], what: str) -> tuple[Sequence[Sequence[Cell]], str]:
    """At most ``MOST_ROWS`` rows, which are sorted: the first and the last; and a sentence that says so."""
    if len(rows) <= MOST_ROWS:
        return rows, ""
    half = MOST_ROWS // 2
    return [*rows[:half], *rows[-half:]], (
        f"The {half:,} highest and the {half:,} lowest of {len(rows):,} {what}; the {len(rows) - MOST_ROWS:,} between "
        "them are left out."
    )
