"""``torch-ap coco``: COCO's numbers of a results file."""

import argparse
from collections.abc import Mapping
from typing import Any, Literal

import torch

from torch_ap.cli import diagnosis, images
from torch_ap.cli.encodings import PLAIN, Encoding
from torch_ap.cli.notes import emit, emit_json, note
from torch_ap.detection import MeanAveragePrecision
from torch_ap.files.coco import CocoAnnotations, CocoData, read_annotations, with_results
from torch_ap.functional.detection import validated
from torch_ap.matching import coco
from torch_ap.matching.coco import per_class
from torch_ap.matching.coco_numbers import CocoNumbers
from torch_ap.matching.coco_settings import settings_of

_ENCODING = Encoding(PLAIN["xywh"])
_LINE = " {:<18} {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3d} ] = {:0.3f}"
_COLUMNS = ("ap", "ap_50", "ap_75", "ar", "ground_truths", "detections", "tp", "fp")


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    annotations = read_annotations(args.annotations, args.iou_type)
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
        area_as_given=True,
    )
    numbers = coco.match(settings, validated(settings.inputs, data.preds, data.target), args.iou_type)
    table = per_class(numbers, data.class_names, 0.5, float("-inf")) if args.per_class else None
    interval, compared = _stated(args, annotations, data)
    if args.json:
        summary: dict[str, Any] = {name: value.item() for name, value in numbers.summary().items()}
        summary |= images.plain(interval) | (
            {"compared": {"baseline": args.compare} | images.plain(compared)} if compared else {}
        )
        if table is not None:
            summary["per_class"] = {k: v.tolist() if isinstance(v, torch.Tensor) else v for k, v in table.items()}
        emit_json(summary)
        return 0
    lines = _lines(numbers)
    if interval:
        lines.append(images.interval_line(interval, args.confidence_level))
    if compared:
        lines.append(images.compared_line(args.results, args.compare, compared, args.confidence_level))
    emit(lines + (_rows(table) if table is not None else []))
    return 0


def _read(args: argparse.Namespace, annotations: CocoAnnotations, results: str) -> CocoData:
    """The content of the files, with a note on what is likely wrong with it."""
    data = with_results(annotations, results)
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
    if not args.interval and args.compare is None:
        return {}, {}
    metric = _metric(data, args.iou_type)
    interval = images.interval(metric, args) if args.interval else {}
    if args.compare is None:
        return interval, {}
    baseline = _metric(_read(args, annotations, args.compare), args.iou_type)
    return interval, images.compared(metric, baseline, args)


def _metric(data: CocoData, iou_type: Literal["bbox", "segm"]) -> MeanAveragePrecision:
    metric = MeanAveragePrecision("xywh", iou_type, area_as_given=True)
    metric.warn_on_many_detections = False
    metric.update(data.preds, data.target)
    return metric


def _lines(numbers: CocoNumbers) -> list[str]:
    """COCO's twelve lines in its own form."""
    areas, limits = list(numbers.settings.areas), numbers.settings.limits
    last, every = limits[-1], f"{numbers.settings.thresholds[0]:0.2f}:{numbers.settings.thresholds[-1]:0.2f}"
    precision, recall = ("Average Precision", "(AP)"), ("Average Recall", "(AR)")
    rows = [
        (*precision, every, areas[0], last, numbers.mean_precision()),
        (*precision, "0.50", areas[0], last, numbers.mean_precision(0, 0.5)),
        (*precision, "0.75", areas[0], last, numbers.mean_precision(0, 0.75)),
        *((*precision, every, name, last, numbers.mean_precision(a)) for a, name in enumerate(areas) if a),
        *((*recall, every, areas[0], most, numbers.mean_recall(0, limit)) for limit, most in enumerate(limits)),
        *((*recall, every, name, last, numbers.mean_recall(a)) for a, name in enumerate(areas) if a),
    ]
    return [_LINE.format(*row[:-1], float(row[-1])) for row in rows]


def _rows(table: dict[str, Any]) -> list[str]:
    """The table, aligned; true and false positives are at IoU 0.5, of any score.

    "-" where a class has no ground truths: pycocotools' -1, which JSON keeps.
    """
    cells = [[name, *(_cell(table[column][row]) for column in _COLUMNS)] for row, name in enumerate(table["name"])]
    lines = [["class", *_COLUMNS], *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS) + 1)]
    return [
        "  ".join([line[0].ljust(widths[0]), *(x.rjust(w) for x, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    ]


def _cell(value: torch.Tensor) -> str:
    if value.is_floating_point():
        return "-" if value < 0 else f"{float(value):.3f}"
    return str(int(value))
