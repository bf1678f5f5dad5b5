"""``torch-ap voc``: PASCAL VOC's average precision of folders of ground truths and detections."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.cli import diagnosis, images, operating_points
from torch_ap.cli.encodings import CORNERS, PLAIN, Encoding
from torch_ap.cli.errors import with_errors
from torch_ap.cli.notes import note
from torch_ap.cli.tables import Report, Table, number
from torch_ap.detection import VOCMeanAveragePrecision
from torch_ap.files.activitynet import read_activitynet
from torch_ap.files.box_rows import VocData
from torch_ap.files.dota import read_dota
from torch_ap.files.voc import read_voc
from torch_ap.files.yolo import DETECTED as YOLO_FORM
from torch_ap.files.yolo import read_yolo
from torch_ap.functional.detection import validated
from torch_ap.matching.matched import Matches
from torch_ap.matching.voc import VocSettings, voc_settings_of
from torch_ap.ranking import segments

_YOLO = Encoding(PLAIN["cxcywh"], unit="fractions", score="last")
_USUAL: dict[str, dict[str, Any]] = {
    "dota": {
        "box_format": "xyxyxyxy",
        "iou_type": "rotated",
        "interpolation": "11-point-arange",
        "strict": True,
    },
    "activitynet": {"iou_type": "intervals", "iou_threshold": np.linspace(0.5, 0.95, 10).tolist()},
}
_OPTIONS = {  # of one format or some alone
    "box_format": ("voc",),
    "images": ("yolo",),
    "names": ("yolo",),
    "subset": ("activitynet",),
    "exclusive_pixels": ("voc", "yolo"),
}


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    data = _read(args, args.detections)
    settings, labels, matches = _matched(args, data)
    each = _per_class(settings, labels, matches, data)
    mean = float(torch.tensor(each["ap"], dtype=torch.float64).nanmean())
    interval, compared = _stated(args, data)
    each = images.with_ends(each, interval.pop("classes", {}))
    said = images.stated(args, args.detections, interval, compared)
    values = dict(zip(each["name"], each["ap"], strict=True))
    table = {"name": each["name"], "ap": each["ap"]} if not args.per_class else each
    report = Report(
        parts=lambda: [_rows(each, mean, args), *said],
        records=lambda: [
            ("measure", "class", "value"),
            ("map", "all", mean),
            *images.records(table, interval, compared),
        ],
        # a class without ground truths that count is null
        document=lambda: (
            {"map": mean}
            | images.plain(interval)
            | ({"compared": {"baseline": args.compare} | images.plain(compared)} if compared else {})
            | {"per_class": each if args.per_class else values}
        ),
    )
    points = (matches, labels, data.class_names, settings.thresholds)
    report = with_errors(report, args, lambda: _metric(args, data), dict(enumerate(data.class_names)))
    operating_points.with_points(report, args, *points).write(args.form)
    return 0


def _matched(args: argparse.Namespace, data: VocData) -> tuple[VocSettings, Tensor, Matches]:
    """The settings, the labels that occur, and every detection matched."""
    settings = voc_settings_of(**_rules(args))
    return settings, *settings.match(validated(settings.inputs, data.preds, data.target))


def _per_class(settings: VocSettings, labels: Tensor, matches: Matches, data: VocData) -> dict[str, list[Any]]:
    """A row per class, as a dictionary of columns; ``ap`` is NaN where no ground truth counts."""
    tp, fp = matches.counts_at(0, 0, float("-inf"))
    columns = {
        "ap": settings.average_precision(matches.curve(0)).mean(0),
        "ground_truths": matches.relevant[0],
        "detections": segments.count(matches.ranked.category, matches.categories),
        "tp": tp,
        "fp": fp,
    }
    names = [data.class_names[label] for label in labels.tolist()]
    return {"name": names} | {name: column[: len(labels)].tolist() for name, column in columns.items()}


def _stated(args: argparse.Namespace, data: VocData) -> tuple[images.Numbers, images.Numbers]:
    """Interval and comparison, as far as they are asked for."""
    if not args.interval and args.compare is None and args.report is None:
        return {}, {}
    metric = _metric(args, data)
    interval = images.interval(metric, args) if args.interval else {}
    baseline = None if args.compare is None else _metric(args, _read(args, args.compare))
    images.write_page(args, args.detections, metric, baseline, data.class_names)
    return interval, {} if baseline is None else images.compared(metric, baseline, args)


def _metric(args: argparse.Namespace, data: VocData) -> VOCMeanAveragePrecision:
    metric = VOCMeanAveragePrecision(**_rules(args))
    metric.update(data.preds, data.target)
    return metric


def _rules(args: argparse.Namespace) -> dict[str, Any]:
    """Arguments of the metric: what the options say, else what is usual for the format."""
    usual = {"box_format": "xyxy", "iou_threshold": 0.5, "interpolation": "all-points", "strict": False}
    usual |= _USUAL.get(args.format, {})
    given = {"interpolation": args.interpolation, "iou_threshold": args.iou_threshold, "strict": args.strict or None}
    said = {name: value for name, value in given.items() if value is not None}
    return usual | said | {"inclusive_pixels": not args.exclusive_pixels}


def _title(args: argparse.Namespace) -> str:
    rules = _rules(args)
    thresholds = rules["iou_threshold"]
    several = isinstance(thresholds, list)
    rule = "above" if rules["strict"] else "of at least"
    place = ", ".join(f"{x:g}" for x in thresholds) if several else f"{thresholds:g}"
    counts = f"; tp and fp of any score{f', at {thresholds[0]:g}' if several else ''}" if args.per_class else ""
    return f"AP at IoU {rule} {place}, interpolation {rules['interpolation']}{counts}"


def _rows(each: dict[str, list[Any]], mean: float, args: argparse.Namespace) -> Table:
    """The classes and the mean; "-" where a class has no ground truths that count."""
    further = [name for name in each if name not in ("name", "ap")] if args.per_class else []
    rows = [
        (name, number(ap), *(_cell(each[column][place]) for column in further))
        for place, (name, ap) in enumerate(zip(each["name"], each["ap"], strict=True))
    ]
    return Table([("class", "ap", *further), *rows, ("mean", number(mean), *("" for _ in further))], title=_title(args))


def _cell(value: float) -> str:
    return str(value) if isinstance(value, int) else number(value)


def _read(args: argparse.Namespace, detections: str) -> VocData:
    """The content of the folders, with a note on what is likely wrong with it."""
    for option, formats in _OPTIONS.items():
        if getattr(args, option) and args.format not in formats:
            raise ValueError(f"--{option.replace('_', '-')} has no meaning with --format {args.format}")
    if args.format in _USUAL:
        data = _of_other_shapes(args, detections)
        images.refuse_empty(len(data.preds["labels"]), detections, args.allow_empty)
        return data
    yolo, given = args.format == "yolo", args.box_format or "xyxy"
    if yolo:
        data = read_yolo(args.ground_truths, detections, args.images, args.names, allow_empty=args.allow_empty)
    else:
        data = read_voc(args.ground_truths, detections, given, allow_empty=args.allow_empty)
    images.refuse_empty(len(data.preds["labels"]), detections, args.allow_empty)
    truths = data.target["boxes"]
    if len(truths) and float(truths.abs().max()) <= 1.1 and not args.exclusive_pixels:
        raise ValueError(
            f"{args.ground_truths}: all boxes lie in [0, 1], and a size counts both its first and its last pixel: "
            "give --exclusive-pixels for boxes in fractions of the image's size, or --format yolo for YOLO's"
        )
    xml = not yolo and any(Path(args.ground_truths).glob("*.xml"))
    evidence = diagnosis.Evidence(
        *(data.preds, data.target, dict(enumerate(data.class_names)), data.sizes),
        given=_YOLO if yolo else Encoding(PLAIN[given], score="first"),
        form=f"lines of {YOLO_FORM}, in fractions" if yolo else f"lines of class, score, {PLAIN[given]}, in pixels",
        true=replace(_YOLO, score="") if yolo else CORNERS if xml else Encoding(PLAIN[given]),
        option="--box-format" if xml else "",
    )
    for cause in diagnosis.causes(evidence):
        note(f"{detections}: {cause}")
    return data


def _of_other_shapes(args: argparse.Namespace, detections: str) -> VocData:
    if args.format == "dota":
        return read_dota(args.ground_truths, detections, allow_empty=args.allow_empty)
    subset = args.subset or "validation"
    return read_activitynet(args.ground_truths, detections, subset, allow_empty=args.allow_empty)
