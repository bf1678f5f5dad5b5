"""Labels that may be wrong, in every domain: one record of rows by how much a correction would change the value."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from torch_ap.core.base.record import format_value, html_table
from torch_ap.inference.record import Result

_SHOWN_ROWS = 20  # in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class SuspiciousLabels(Result):
    """Labels that may be wrong, by how much the measure would change if each was wrong and were corrected.

    The method or function ``suspicious_labels`` of each domain returns it. Each change is the value after the
    correction of this one label, minus ``value``, and is computed exactly.

    Attributes:
        value: 0-d, the value with the labels as they are.
        counts: numbers of suspicious labels of each kind; the table can contain fewer.
        table: columns of one length, by descending ``change``. The first are ``kind``, one of ``counts``, and
            ``change``, float64; the method documents the others.
    """

    value: Tensor
    counts: dict[str, int]
    table: dict[str, Any] = field(repr=False)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table as dicts of plain Python values."""
        columns = self.to_dict()["table"]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _repr_html_(self) -> str:
        """Return the first rows as an HTML table, which notebooks show."""
        rows = self.rows()
        caption = f"{min(_SHOWN_ROWS, len(rows))} of {sum(self.counts.values()):,} suspicious labels"
        cells = [[str(n), *map(_cell, row.values())] for n, row in enumerate(rows[:_SHOWN_ROWS], 1)]
        return html_table(cells, caption, ["", *self.table])


def _cell(value: Any) -> str:
    """Return a value of the table as text; an undefined number is empty."""
    return value if isinstance(value, str) else "" if value is None or value != value else format_value(value)


def best_first(changes: Tensor, limit: int | None) -> Tensor:
    """Return the order of rows by descending change, equal changes in the order of input, up to a limit."""
    return changes.argsort(descending=True, stable=True)[:limit]


def selected(columns: dict[str, Any], rows: Sequence[int] | Tensor) -> dict[str, Any]:
    """Return some rows of columns, which are tensors or lists."""
    places = rows.tolist() if isinstance(rows, Tensor) else rows
    return {name: x[rows] if isinstance(x, Tensor) else [x[place] for place in places] for name, x in columns.items()}
