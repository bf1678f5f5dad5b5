"""Report on suspicious labels, for the commands of all domains."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch_ap.cli.tables import Part, Report, Table, number
from torch_ap.inference.suspicious import SuspiciousLabels

_KEY = "suspicious_labels"
_SHOWN_ROWS = 20  # for people; programs get all


class SuspiciousLabelsReport(Report):
    """Labels that may be wrong.

    Args:
        labels: result of a method ``suspicious_labels``.
        title: title of the table.
        ids: functions that replace the value of a column, for example by the id of an image, by the name of the column.
        hidden: columns that only programs need.
    """

    def __init__(
        self,
        labels: SuspiciousLabels,
        title: str,
        ids: Mapping[str, Callable[[dict[str, Any]], Any]],
        hidden: Sequence[str] = (),
    ) -> None:
        self._title, self._hidden = title, hidden
        self._value, self._counts = labels.value.item(), labels.counts
        self._rows = [row | {name: id_of(row) for name, id_of in ids.items()} for row in labels.rows()]

    def parts(self) -> Iterator[Part]:
        """Yield the counts of the kinds and the table."""
        counts = self._counts
        rows = self._rows[:_SHOWN_ROWS]
        listed = f"; the first {len(rows)}" if len(rows) < sum(counts.values()) else ""
        yield f"Suspicious labels: {', '.join(f'{kind} {count:,}' for kind, count in counts.items())}{listed}"
        if rows:
            names = [name for name in rows[0] if name not in self._hidden]
            cells = [[_cell(row[name], "+.4f" if name == "change" else ".4g") for name in names] for row in rows]
            yield Table([[x.replace("_", " ") for x in names], *cells], title=self._title)

    def records(self) -> Iterator[Sequence[Any]]:
        """Yield rows of measure, class and value, a row per cell of the table."""
        for place, row in enumerate(self._rows, 1):
            owner = row.get("class") or row.get("detected_class") or "all"
            yield from ((f"{_KEY}.{place}.{name}", owner, value) for name, value in row.items())

    def document(self) -> dict[str, Any]:
        """Return value, counts, and the rows."""
        return {"value": self._value, "counts": self._counts, "rows": self._rows}


def _cell(value: Any, digits: str) -> str:
    if isinstance(value, float):
        return number(value, digits)
    if isinstance(value, list):
        return " ".join(number(x, ".6g") for x in value)
    return "-" if value is None else str(value)
