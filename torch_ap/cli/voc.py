"""``torch-ap voc``: PASCAL VOC's average precision of folders of ground truths and detections."""

import argparse
import math
from dataclasses import replace
from pathlib import Path

from torch_ap.cli import diagnosis, images
from torch_ap.cli.encodings import CORNERS, PLAIN, Encoding
from torch_ap.cli.notes import emit, emit_json, note
from torch_ap.detection import VOCMeanAveragePrecision
from torch_ap.files.box_rows import VocData
from torch_ap.files.voc import read_voc
from torch_ap.files.yolo import DETECTED as YOLO_FORM
from torch_ap.files.yolo import read_yolo

_YOLO = Encoding(PLAIN["cxcywh"], unit="fractions", score="last")


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    data = _read(args)
    metric = VOCMeanAveragePrecision(
        "xyxy",
        args.iou_threshold,
        interpolation=args.interpolation,
        inclusive_pixels=not args.exclusive_pixels,
        strict=args.strict,
        class_metrics=True,
    )
    metric.update(data.preds, data.target)
    found, interval = metric.compute(), images.interval(metric, args) if args.interval else {}
    # torchmetrics makes one class a single number
    labels, values = (found[name].reshape(-1).tolist() for name in ("classes", "map_per_class"))
    each = {data.class_names[label]: value for label, value in zip(labels, values, strict=True)}
    if args.json:
        # a class without ground truths that count is null
        mean = images.plain({"map": found["map"].item()} | interval)
        emit_json(mean | {"per_class": images.plain(each)})
        return 0
    width = max(map(len, (*each, "mean")))
    rows = (*each.items(), ("mean", found["map"].item()))
    emit([f"{name.ljust(width)}  {'-' if math.isnan(value) else f'{value:.4f}'}" for name, value in rows])
    if interval:
        emit([images.interval_line(interval, args.confidence_level)])
    return 0


def _read(args: argparse.Namespace) -> VocData:
    """The content of the folders, with a note on what is likely wrong with it."""
    yolo = args.format == "yolo"
    for option in ("box_format",) if yolo else ("images", "names"):
        if getattr(args, option) is not None:
            raise ValueError(f"--{option.replace('_', '-')} has no meaning with --format {args.format}")
    given = args.box_format or "xyxy"
    if yolo:
        data = read_yolo(args.ground_truths, args.detections, args.images, args.names, allow_empty=args.allow_empty)
    else:
        data = read_voc(args.ground_truths, args.detections, given, allow_empty=args.allow_empty)
    images.refuse_empty(len(data.preds["labels"]), args.detections, args.allow_empty)
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
        note(f"{args.detections}: {cause}")
    return data
