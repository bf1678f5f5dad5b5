"""``torch-ap lvis``: LVIS's numbers of a results file."""

import argparse

import torch

from torch_ap.cli import coco, images, operating_points
from torch_ap.cli.errors import with_errors
from torch_ap.cli.tables import Part, Report, Table
from torch_ap.detection import LVISMeanAveragePrecision
from torch_ap.files.lvis import LvisAnnotations, LvisData, read_annotations, with_results
from torch_ap.functional.detection import validated
from torch_ap.matching.coco import match, per_class
from torch_ap.matching.coco_numbers import CocoNumbers
from torch_ap.matching.lvis import lvis_settings_of

_LINE = " {:<18} {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3d} catIds={:>3s}] = {:0.3f}"
_KINDS = {"AP": ("Average Precision", "(AP)"), "AR": ("Average Recall", "(AR)")}
_NAMES = {
    "AP": "map",
    "AP50": "map_50",
    "AP75": "map_75",
    "APs": "map_small",
    "APm": "map_medium",
    "APl": "map_large",
    "APr": "map_rare",
    "APc": "map_common",
    "APf": "map_frequent",
    "AR": "mar_{}",
    "ARs": "mar_small",
    "ARm": "mar_medium",
    "ARl": "mar_large",
}


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    annotations = read_annotations(args.annotations, args.iou_type)
    data = _read(args, annotations, args.results)
    settings = lvis_settings_of(
        box_format="xywh",
        iou_type=args.iou_type,
        iou_thresholds=None,
        rec_thresholds=None,
        max_detections=None,
        fixed=args.fixed,
        frequencies=data.frequencies,
        area_ranges=None,
        area_as_given=True,
    )
    numbers = match(settings, validated(settings.inputs, data.preds, data.target), args.iou_type)
    table = per_class(numbers, data.class_names, coco.COUNTED_AT, float("-inf")) if args.per_class else None
    columns = table and {name: x.tolist() if isinstance(x, torch.Tensor) else x for name, x in table.items()}
    interval, compared = _stated(args, annotations, data)
    columns = columns and images.with_ends(columns, interval.pop("classes", {}))
    most = -1 if args.fixed else settings.limits[-1]  # as lvis says that images have no limit
    summary = _by_lvis_names(numbers, most)
    said = images.stated(args, args.results, interval, compared)
    classes: list[Part] = [coco.class_table(columns, numbers)] if columns is not None else []
    report = Report(
        parts=lambda: [*_lines(summary, most), *said, *classes],
        records=lambda: [
            ("measure", "class", "value"),
            *((name, "all", value) for name, value in summary.items()),
            *images.records(columns, interval, compared),
        ],
        document=lambda: (
            summary
            | images.plain(interval)
            | ({"compared": {"baseline": args.compare} | images.plain(compared)} if compared else {})
            | ({"per_class": columns} if columns is not None else {})
        ),
        markdown=lambda: [_table(summary), *said, *classes],
    )
    report = with_errors(report, args, lambda: _metric(data, args), data.class_names)
    points = (numbers.matches, numbers.labels, data.class_names, settings.thresholds)
    operating_points.with_points(report, args, *points).write(args.form)
    return 0


def _read(args: argparse.Namespace, annotations: LvisAnnotations, results: str) -> LvisData:
    data = with_results(annotations, results)
    coco.noted(args, data, results)
    return data


def _stated(
    args: argparse.Namespace, annotations: LvisAnnotations, data: LvisData
) -> tuple[images.Numbers, images.Numbers]:
    """Interval and comparison, as far as they are asked for."""
    if not args.interval and args.compare is None and args.report is None:
        return {}, {}
    metric = _metric(data, args)
    interval = images.interval(metric, args) if args.interval else {}
    baseline = None if args.compare is None else _metric(_read(args, annotations, args.compare), args)
    images.write_page(args, args.results, metric, baseline, data.class_names)
    return interval, {} if baseline is None else images.compared(metric, baseline, args)


def _metric(data: LvisData, args: argparse.Namespace) -> LVISMeanAveragePrecision:
    metric = LVISMeanAveragePrecision(
        "xywh", args.iou_type, fixed=args.fixed, frequencies=data.frequencies, area_as_given=True
    )
    metric.update(data.preds, data.target)
    return metric


def _by_lvis_names(numbers: CocoNumbers, most: int) -> dict[str, float]:
    """The numbers as lvis names them, recall with the limit on detections."""
    found, limit = numbers.summary(), numbers.settings.limits[-1]
    return {
        f"{name}@{most}" if name.startswith("AR") else name: float(found[key.format(limit)])
        for name, key in _NAMES.items()
    }


def _rows(summary: dict[str, float]) -> list[tuple[str, str, str, str, str, float]]:
    """Of each number what it is, its sign, IoU, area, categories, value; the last three letters as lvis has them."""
    rows = []
    for name, value in summary.items():
        of = name[2:].partition("@")[0]
        iou = f"0.{of}" if of.isdigit() else "0.50:0.95"
        area, categories = (of if of and of in letters else "all" for letters in ("sml", "rcf"))
        rows.append((*_KINDS[name[:2]], iou, area, categories, value))
    return rows


def _lines(summary: dict[str, float], most: int) -> list[str]:
    """LVIS's lines in its own form."""
    return [_LINE.format(*row[:4], most, *row[4:]) for row in _rows(summary)]


def _table(summary: dict[str, float]) -> Table:
    rows = [(what, iou, area, of, f"{value:.3f}") for what, _, iou, area, of, value in _rows(summary)]
    return Table([("", "IoU", "area", "categories", "value"), *rows], names=4)
