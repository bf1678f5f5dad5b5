"""``torch-ap voc``: PASCAL VOC's average precision of folders of ground truths and detections."""

import argparse
import json
from typing import Any

from torch_ap.commands import images
from torch_ap.files.voc import read_voc
from torch_ap.metrics.detection import VOCMeanAveragePrecision


def add_parser(subparsers: Any) -> None:
    """Add the sub-command."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "voc", help="PASCAL VOC mean average precision of folders of boxes", description=__doc__
    )
    parser.add_argument("ground_truths", help="folder of XML annotations, or of text files, one an image")
    parser.add_argument("detections", help="folder of text files, one an image, or one a class (devkit)")
    parser.add_argument("--box-format", choices=("xyxy", "xywh", "cxcywh"), default="xyxy")
    parser.add_argument("--iou-threshold", type=float, default=0.5)
    choices = ("all-points", "11-point", "11-point-arange")
    parser.add_argument("--interpolation", choices=choices, default="all-points")
    parser.add_argument("--exclusive-pixels", action="store_true", help="sizes are x2 - x1, without the devkit's + 1")
    parser.add_argument("--strict", action="store_true", help="IoU must exceed the threshold")
    images.add_interval(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, all digits")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    data = read_voc(args.ground_truths, args.detections)
    metric = VOCMeanAveragePrecision(
        args.box_format,
        args.iou_threshold,
        interpolation=args.interpolation,
        inclusive_pixels=not args.exclusive_pixels,
        strict=args.strict,
        class_metrics=True,
    )
    metric.update(data.preds, data.target)
    found, interval = metric.compute(), images.interval(metric) if args.interval else {}
    # torchmetrics makes one class a single number
    labels, values = (found[name].reshape(-1).tolist() for name in ("classes", "map_per_class"))
    each = {data.class_names[label]: value for label, value in zip(labels, values, strict=True)}
    if args.json:
        # a class without ground truths that count is null
        mean = images.plain({"map": found["map"].item()} | interval)
        print(json.dumps(mean | {"per_class": images.plain(each)}, indent=2))
        return 0
    width = max(map(len, (*each, "mean")))
    for name, value in (*each.items(), ("mean", found["map"].item())):
        print(f"{name.ljust(width)}  {value:.4f}")
    if interval:
        print(images.interval_line(interval))
    return 0
