"""``torch-ap voc``: PASCAL VOC's average precision of folders of ground truths and detections."""

import argparse
import json
from typing import Any

from torch_ap.files.voc import read_voc
from torch_ap.functional.detection import voc_mean_average_precision


def add_parser(subparsers: Any) -> None:
    """Add the sub-command."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "voc", help="PASCAL VOC mean average precision of folders of boxes", description=__doc__
    )
    parser.add_argument("ground_truths", help="folder of XML annotations, or of text files, one an image")
    parser.add_argument("detections", help="folder of text files, one an image, or one a class (devkit)")
    parser.add_argument("--box-format", choices=("xyxy", "xywh", "cxcywh"), default="xyxy")
    parser.add_argument("--iou-threshold", type=float, default=0.5)
    parser.add_argument("--interpolation", choices=("all-points", "11-point"), default="all-points")
    parser.add_argument("--exclusive-pixels", action="store_true", help="sizes are x2 - x1, without the devkit's + 1")
    parser.add_argument("--strict", action="store_true", help="IoU must exceed the threshold")
    parser.add_argument("--json", action="store_true", help="print JSON, all digits")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    data = read_voc(args.ground_truths, args.detections)
    found = voc_mean_average_precision(
        data.preds,
        data.target,
        args.box_format,
        args.iou_threshold,
        interpolation=args.interpolation,
        inclusive_pixels=not args.exclusive_pixels,
        strict=args.strict,
        class_metrics=True,
    )
    values = found["map_per_class"].tolist()
    each = {data.class_names[label]: value for label, value in zip(found["classes"].tolist(), values, strict=True)}
    if args.json:
        # JSON has no NaN: a class without ground truths that count is null
        plain = {name: value if value == value else None for name, value in each.items()}
        mean = found["map"].item()
        print(json.dumps({"map": mean if mean == mean else None, "per_class": plain}, indent=2))
        return 0
    width = max(map(len, (*each, "mean")))
    for name, value in (*each.items(), ("mean", found["map"].item())):
        print(f"{name.ljust(width)}  {value:.4f}")
    return 0
