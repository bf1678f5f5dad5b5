"""``torch-ap lvis``: numbers of LVIS for results files, by the names of the package lvis."""

import argparse
from typing import Any

from torch_ap.cli import file_notes
from torch_ap.cli.coco import CocoLayout, evaluate_results
from torch_ap.cli.detectors import Paths, Result
from torch_ap.cli.image_tables import Rows
from torch_ap.cli.notes import note
from torch_ap.detection.files.lvis import LvisData, read_annotations, read_results
from torch_ap.detection.metrics.analyses import DetectionAnalyses

_LETTERS = {"small": "s", "medium": "m", "large": "l", "rare": "r", "common": "c", "frequent": "f"}
_KINDS = {"map": "AP", "ap": "AP", "mar": "AR", "ar": "AR"}


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    paths = Paths.from_args(args, args.results)
    annotations = read_annotations(args.annotations, args.iou_type)
    for text in file_notes.annotation_notes(annotations.coco, "LVIS", "ignore"):
        note(f"{args.annotations}: {text}")

    def options_of(data: LvisData, _: str) -> dict[str, Any]:
        return {
            "box_format": "xywh",
            "iou_type": args.iou_type,
            "iou_thresholds": args.iou_thresholds,
            "max_detections": args.max_detections,
            "ap_fixed": args.fixed,
            "frequencies": data.frequencies,
            "area_ranges": args.areas,
            "use_given_area": True,
        }

    def read(path: str) -> LvisData:
        return read_results(annotations, path)

    return evaluate_results(args, paths, annotations.coco, read, "LVISMeanAveragePrecision", options_of, LvisLayout)


class LvisLayout(CocoLayout):
    """The thirteen numbers of LVIS in its lines; tables have whole words and no limit on detections."""

    line = " {:<18} {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3s} catIds={:>3s}] = {value:0.3f}"
    head = ("", "IoU", "area", "categories")

    def __init__(self, evaluation: DetectionAnalyses) -> None:
        settings = evaluation._settings
        self._limit, self._fixed = str(settings.limits[0]), settings.ap_fixed
        super().__init__(evaluation)

    def rows(self, result: Result) -> Rows:
        """Return measure, IoU, area and categories of each number, and its value."""
        return [((*names[:3], *names[4:]), value) for names, value in super().all_rows(result)]

    def all_rows(self, result: Result) -> Rows:
        """Return the rows with the letters of lvis; with ``fixed`` images have no limit."""
        most = "all" if self._fixed else self._limit
        rows = [(tuple(_LETTERS.get(x, x) for x in names), value) for names, value in super().all_rows(result)]
        return [((*names[:3], most, *names[4:]), value) for names, value in rows]

    def key(self, name: str) -> str:
        """Return the name in lvis, whose word for no limit is -1."""
        return self._name(name, "-1" if self._fixed else self._limit)

    def label(self, name: str) -> str:
        """Return the name in lvis, with "all" for no limit."""
        return self._name(name, "all" if self._fixed else self._limit)

    def _name(self, name: str, limit: str) -> str:
        """Return the name of an AP or AR in lvis; other names are unchanged."""
        kind, _, detail = name.partition("_")
        if kind not in _KINDS:
            return name
        is_recall = _KINDS[kind] == "AR"
        detail = "" if is_recall and detail == self._limit else detail
        detail = _LETTERS.get(detail, detail if detail.isdigit() or not detail else f"_{detail}")
        return f"{_KINDS[kind]}{detail}" + (f"@{limit}" if is_recall else "")
