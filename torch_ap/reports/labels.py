"""Section of a report with the labels that may be wrong."""

from collections.abc import Mapping

from torch_ap.inference.suspicious import SuspiciousLabels
from torch_ap.reports.content import Cell, Section, Table

LABELS = "Labels that may be wrong"
CHANGE = {"change": "+.4f", "score": ".4g"}
MAX_LABELS = 20


def labels_text(counts: Mapping[str, int], shown: int, system: str = "") -> str:
    """Return the numbers of suspicious labels of each kind, and the number of rows; ``system`` is one of several."""
    listed = ", ".join(f"{kind} {count:,}" for kind, count in counts.items())
    listed = f"By {system}: {listed}" if system else listed
    return f"{listed}. The first {shown}, by the change of AP if the label were corrected."


def labels_section(
    labels: SuspiciousLabels, system: str = "", item_names: Mapping[int, str] | None = None
) -> list[Section]:
    """Return the section with the first labels, as for :func:`labels_text`; none without suspicious labels.

    Args:
        labels: the labels.
        system: name of their system, one of several.
        item_names: names of the items by id; None for their ids.
    """
    found = labels.rows()[:MAX_LABELS]
    if not found:
        return []
    head = [name.replace("_", " ") for name in found[0]]
    for row in found:
        if "item" in row:
            row["item"] = str((item_names or {}).get(row["item"], row["item"]))
    rows: list[list[Cell]] = [list(row.values()) for row in found]
    table = Table(head, rows, CHANGE, sortable=True, order=("change", "descending"))
    return [Section(LABELS, [labels_text(labels.counts, len(rows), system), table])]
