"""Content of a report in any form: headline, facts, warnings, and sections of text, pictures and tables."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor

Cell: TypeAlias = str | int | float

NAN = math.nan
LOSS = "share of loss"  # name of a column
LOSS_TEXT = f"The {LOSS} is a row's share of 1 minus the mean."
FORMS = {
    "at score": ".4g",
    LOSS: ".1%",
    "adjusted p": ".2g",
    **dict.fromkeys(("difference", "difference low", "difference high"), "+.3f"),
}  # formats of columns of several tables
DASH = "\N{EN DASH}"
AS_NUMBERS = "The curve as numbers: the highest precision at each recall or beyond"
MAX_ROWS = 1000
_MAX_NAME = 40  # characters, in pictures


@dataclass(frozen=True)
class Table:
    """Rows below a head.

    Attributes:
        head: names of the columns.
        rows: cells of each row; NaN for undefined numbers.
        forms: formats of columns of numbers, by name; ".3f" for the others.
        sortable: whether a reader can sort, search and filter the rows.
        summary: text that hides the table until a reader opens it, in HTML; "" for an open table.
        order: the column of the order of the rows, and "ascending" or "descending"; empty for no order.
        opens: name of the widget that shows the details of a row; "" for none.
        keys: argument of the widget for each row, for tables that open a widget; "" for rows without details.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    forms: Mapping[str, str] = field(default_factory=dict)
    sortable: bool = False
    summary: str = ""
    order: tuple[str, str] = ("", "")
    opens: str = ""
    keys: Sequence[int | str] = ()

    def text(self, column: int, cell: Cell) -> str:
        """Return a cell for people."""
        if isinstance(cell, float):
            return DASH if math.isnan(cell) else format(cell, self.forms.get(self.head[column], ".3f"))
        return f"{cell:,}" if isinstance(cell, int) else cell

    def is_text(self, column: int) -> bool:
        """Whether a column contains texts."""
        return any(isinstance(row[column], str) for row in self.rows)


@dataclass(frozen=True)
class Picture:
    """A picture, for forms with pictures.

    Attributes:
        caption: sentence below the picture.
        draw: draws on axes of matplotlib.
        size: width and height in inches.
        chart: the same curves as data for `page.chart` of `static/page.js`; None for a picture without hover.
    """

    caption: str
    draw: Callable[[Any], object]
    size: tuple[float, float] = (6.4, 4.2)
    chart: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Drawing:
    """A drawing of :mod:`torch_ap.reports.drawings`, for forms with pictures.

    Attributes:
        caption: sentence below the drawing.
        svg: the drawing as an element of HTML, with escaped texts.
    """

    caption: str
    svg: str


@dataclass(frozen=True)
class Widget:
    """An interactive element of a page in HTML.

    Attributes:
        name: name of the script `static/NAME.js`, which registers a function under this name (see `static/page.js`).
        data: second argument of the function, as for `json.dumps`; NaN becomes null. The page escapes texts.
        parts: content for all forms, which is complete without the script.
        html: further content for readers without JavaScript, with escaped names.
        fill: returns HTML for the end of the page from the number of bytes that the page may still have; or None.
    """

    name: str
    data: Any
    parts: Sequence["Part"] = ()
    html: str = ""
    fill: Callable[[int], str] | None = None


Part: TypeAlias = str | Table | Picture | Drawing | Widget


@dataclass(frozen=True)
class Section:
    """A title and its parts; a text is a paragraph."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Headline:
    """Value of the measure and its uncertainty.

    Attributes:
        name: name of the measure.
        value: value of the system.
        low: lower end of the interval; NaN if undefined.
        high: upper end, likewise.
        level: confidence level of the interval, as "95%".
        chance: chance level; NaN if undefined.
        other: value of the second system, or NaN.
        remarks: reasons for missing numbers.
    """

    name: str
    value: float
    low: float
    high: float
    level: str
    chance: float = NAN
    other: float = NAN
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class Content:
    """A whole report.

    Attributes:
        headline: value of the measure.
        convention: meaning of the value, in sentences.
        facts: size of the data, numbers by name.
        warnings: reasons for doubt.
        sections: further results.
        title: title of the page.
        systems: names of the system and of the second system.
        source: representation of the metric.
    """

    headline: Headline
    convention: str
    facts: Mapping[str, Cell]
    warnings: Sequence[str]
    sections: Sequence[Section]
    title: str = ""
    systems: tuple[str, ...] = ()
    source: str = ""


def sorted_table(
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    units: str,
    forms: Mapping[str, str],
    *,
    order: tuple[str, str] | None = None,
    opens: str = "",
    keys: Sequence[int | str] | None = None,
) -> tuple[Table, str]:
    """Return a sortable table, and a sentence about omitted rows.

    Args:
        head: names of the columns.
        rows: cells of each row; of more than 1,000 rows only the first and the last 500 remain.
        units: name of the rows, in the plural.
        forms: formats of columns.
        order: column and direction of the order; None for the second column, ascending. NaN comes last.
        opens: name of the widget that shows a row.
        keys: argument of the widget for each row; None for the place in ``rows``.
    """
    column, direction = order or (head[1], "ascending")
    place, sign = list(head).index(column), 1 if direction == "ascending" else -1
    places = sorted(range(len(rows)), key=lambda row: _sort_key(rows[row][place], sign))
    text = ""
    if len(places) > MAX_ROWS:
        half = MAX_ROWS // 2
        text = (
            f"The first {half:,} and the last {half:,} of {len(places):,} {units}; the {len(places) - MAX_ROWS:,} "
            "between them are left out."
        )
        places = [*places[:half], *places[-half:]]
    shown = [rows[row] for row in places]
    shown_keys = [row if keys is None else keys[row] for row in places] if opens else ()
    return Table(head, shown, forms, sortable=True, order=(column, direction), opens=opens, keys=shown_keys), text


def count_of_groups(groups: Tensor | None) -> dict[str, Cell]:
    """Return the number of groups as a fact of the page, from the group of each unit; nothing without groups."""
    return {} if groups is None else {"groups": len(torch.unique(groups))}


def with_interval(value: float, low: float, high: float) -> str:
    """Return a number with its interval, if there is one."""
    text = DASH if math.isnan(value) else f"{value:.3f}"
    return text if math.isnan(low) else f"{text} ({low:.3f}{DASH}{high:.3f})"


def shortened(name: str) -> str:
    """Return a name of at most 40 characters."""
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"


def loss_shares(values: Sequence[float]) -> list[float]:
    """Return the share of each value in the loss of their mean, (1 - value) / sum(1 - values); NaN if undefined."""
    losses = [1 - x for x in values]
    total = math.fsum(x for x in losses if x == x)
    return [x / total if total > 0 else NAN for x in losses]


def _sort_key(cell: Cell, sign: int) -> tuple[bool, float]:
    number = float(cell)
    return number != number, sign * number
