"""What a detector gets wrong, in its report."""

from collections.abc import Mapping

from torch_ap import plot
from torch_ap.metrics.images import DetectionMetric
from torch_ap.reports.content import Cell, Picture, Section, Table

_KINDS = {
    "classification": "in place, under the name of another class",
    "localization": "of the right class, but too far off",
    "both": "off, and of another class",
    "duplicate": "of an object that a better one has found",
    "background": "where nothing is",
    "missed": "objects that none of the first two is about",
    "false_positives": "all detections of nothing",
    "false_negatives": "all objects not found",
}


def of_errors(detectors: Mapping[str, DetectionMetric]) -> Section:
    """The costs of all kinds of errors of one or two detectors, by name."""
    found = {name: metric.errors() for name, metric in detectors.items()}
    several = len(found) > 1
    head = ["", "what it is"]
    for name in found:
        head += [f"{name}: {x}" if several else x for x in ("cost", "errors")]
    rows: list[list[Cell]] = []
    for kind, meaning in _KINDS.items():
        numbers: list[Cell] = []
        for one in found.values():
            numbers += [float(getattr(one, kind)), int(one.counts[kind])]
        rows.append([kind.replace("_", " "), meaning, *numbers])
    (first, *_) = found.values()
    text = (
        f"At IoU {first.iou_threshold:g}, background up to {first.background_threshold:g}: a cost is what AP would be "
        "higher by without errors of that kind. Costs do not add up: one error often hides another."
    )
    drawn = found if several else first
    caption = "What each kind of error costs in AP, and how many there are."
    return Section("What went wrong", [text, Picture(caption, lambda ax: plot.errors(drawn, ax=ax)), Table(head, rows)])
