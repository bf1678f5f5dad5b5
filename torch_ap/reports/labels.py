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


def labels_section(labels: SuspiciousLabels, system: str = "") -> list[Section]:
    """Return the section with the first labels, as for :func:`labels_text`; none without suspicious labels."""
    found = labels.rows()[:MAX_LABELS]
    if not found:
        return []
    head = [name.replace("_", " ") for name in found[0]]
    rows: list[list[Cell]] = [[str(x) if name == "item" else x for name, x in row.items()] for row in found]
    table = Table(head, rows, CHANGE, sortable=True, order=("change", "descending"))
    return [Section(LABELS, [labels_text(labels.counts, len(rows), system), table])]
