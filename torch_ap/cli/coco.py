"""``torch-ap coco``: COCO's numbers of a results file."""

import argparse
from collections.abc import Mapping
from typing import Any

import torch

from torch_ap.cli import diagnosis, images, operating_points
from torch_ap.cli.encodings import PLAIN, Encoding
from torch_ap.cli.errors import with_errors
from torch_ap.cli.notes import note
from torch_ap.cli.tables import Part, Report, Table
from torch_ap.detection import MeanAveragePrecision
from torch_ap.files import lvis
from torch_ap.files.coco import CocoAnnotations, CocoData, read_annotations, with_results
from torch_ap.functional.detection import validated
from torch_ap.matching import coco
from torch_ap.matching.coco import per_class
from torch_ap.matching.coco_numbers import CocoNumbers
from torch_ap.matching.coco_settings import settings_of

_ENCODING = Encoding(PLAIN["xywh"])
_LINE = " {:<18} {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3d} ] = {:0.3f}"
COUNTED_AT = 0.5  # the IoU of true and false positives


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    annotations = read_annotations(args.annotations, args.iou_type)
    if lvis.has_fields(annotations.entries):
        note(
            f"{args.annotations}: has LVIS's `neg_category_ids`, of which COCO's rules know nothing: detections of "
            "categories that nobody looked for in an image count as wrong; torch-ap lvis has LVIS's rules"
        )
    data = _read(args, annotations, args.results)
    settings = settings_of(
        box_format="xywh",
        iou_type=args.iou_type,
        iou_thresholds=None,
        rec_thresholds=None,
        max_detection_thresholds=None,
        average="macro",
        area_ranges=None,
        iou=None,
        sigmas=args.sigmas,
        area_as_given=True,
    )
    numbers = coco.match(settings, validated(settings.inputs, data.preds, data.target), args.iou_type)
    table = per_class(numbers, data.class_names, COUNTED_AT, float("-inf")) if args.per_class else None
    columns = table and {name: x.tolist() if isinstance(x, torch.Tensor) else x for name, x in table.items()}
    interval, compared = _stated(args, annotations, data)
    columns = columns and images.with_ends(columns, interval.pop("classes", {}))
    summary = {name: value.item() for name, value in numbers.summary().items()}
    said = images.stated(args, args.results, interval, compared)
    classes: list[Part] = [class_table(columns, numbers)] if columns is not None else []
    report = Report(
        parts=lambda: [*_lines(numbers), *said, *classes],
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
        markdown=lambda: [_summary(numbers), *said, *classes],
    )
    points = (numbers.matches, numbers.labels, data.class_names, settings.thresholds)
    report = with_errors(report, args, lambda: _metric(data, args), data.class_names)
    operating_points.with_points(report, args, *points).write(args.form)
    return 0


def _read(args: argparse.Namespace, annotations: CocoAnnotations, results: str) -> CocoData:
    """The content of the files."""
    return noted(args, with_results(annotations, results), results)


def noted(args: argparse.Namespace, data: CocoData, results: str) -> CocoData:
    """The same data, with a note on what is likely wrong with the results."""
    detections = len(data.preds["labels"]) if isinstance(data.preds, Mapping) else sum(map(_detections, data.preds))
    images.refuse_empty(detections, results, args.allow_empty)
    evidence = diagnosis.Evidence(
        *(data.preds, data.target, data.class_names, data.sizes, "xywh"),
        given=_ENCODING,
        form="`bbox` as [x, y, width, height] in pixels of the image",
        true=_ENCODING,
    )
    for cause in diagnosis.causes(evidence):
        note(f"{results}: {cause}")
    return data


def _detections(image: Mapping[str, Any]) -> int:
    return len(image["labels"])


def _stated(
    args: argparse.Namespace, annotations: CocoAnnotations, data: CocoData
) -> tuple[images.Numbers, images.Numbers]:
    """Interval and comparison, as far as they are asked for."""
    if not args.interval and args.compare is None and args.report is None:
        return {}, {}
    metric = _metric(data, args)
    interval = images.interval(metric, args) if args.interval else {}
    baseline = None if args.compare is None else _metric(_read(args, annotations, args.compare), args)
    images.write_page(args, args.results, metric, baseline, data.class_names)
    return interval, {} if baseline is None else images.compared(metric, baseline, args)


def _metric(data: CocoData, args: argparse.Namespace) -> MeanAveragePrecision:
    metric = MeanAveragePrecision("xywh", args.iou_type, sigmas=args.sigmas, area_as_given=True)
    metric.warn_on_many_detections = False
    metric.update(data.preds, data.target)
    return metric


def _numbers(numbers: CocoNumbers) -> list[tuple[str, str, str, str, int, float]]:
    """COCO's twelve, ten for keypoints: what it is, its sign, IoU, area, most detections, value."""
    areas, limits = list(numbers.settings.areas), numbers.settings.limits
    last, every = limits[-1], _thresholds(numbers)
    precision, recall = ("Average Precision", "(AP)"), ("Average Recall", "(AR)")
    rows = [
        (*precision, every, areas[0], last, numbers.mean_precision()),
        (*precision, "0.50", areas[0], last, numbers.mean_precision(0, 0.5)),
        (*precision, "0.75", areas[0], last, numbers.mean_precision(0, 0.75)),
        *((*precision, every, name, last, numbers.mean_precision(a)) for a, name in enumerate(areas) if a),
        *((*recall, every, areas[0], most, numbers.mean_recall(0, limit)) for limit, most in enumerate(limits)),
        *((*recall, f"{x:.2f}", areas[0], last, numbers.mean_recall(threshold=x)) for x in numbers.settings.recall_at),
        *((*recall, every, name, last, numbers.mean_recall(a)) for a, name in enumerate(areas) if a),
    ]
    return [(*row[:-1], float(row[-1])) for row in rows]


def _thresholds(numbers: CocoNumbers) -> str:
    found = numbers.settings.thresholds
    return f"{found[0]:0.2f}:{found[-1]:0.2f}"


def _lines(numbers: CocoNumbers) -> list[str]:
    """COCO's lines in its own form."""
    return [_LINE.format(*row) for row in _numbers(numbers)]


def _summary(numbers: CocoNumbers) -> Table:
    rows = [(what, iou, area, str(most), f"{value:.3f}") for what, _, iou, area, most, value in _numbers(numbers)]
    return Table([("", "IoU", "area", "maxDets", "value"), *rows], names=3)


def class_table(columns: Mapping[str, Any], numbers: CocoNumbers) -> Table:
    """The table of classes: "-" where a class has no ground truths, pycocotools' -1, which JSON keeps."""
    title = (
        f"Each class: ap and ar over IoU {_thresholds(numbers)}, ap_50 and ap_75 at 0.50 and 0.75; "
        f"tp and fp at {COUNTED_AT:0.2f}, of any score"
    )
    of = [x for x in columns if x not in ("class", "name")]
    rows = [(name, *(_cell(columns[column][row]) for column in of)) for row, name in enumerate(columns["name"])]
    return Table([("class", *of), *rows], title=title)


def _cell(value: float) -> str:
    return str(value) if isinstance(value, int) else "-" if not value >= 0 else f"{value:.3f}"
