"""What ``torch-ap`` takes for detectors: ``coco``, ``lvis`` and ``voc``; like the other options, without torch."""

import argparse

from torch_ap.cli import operating_points
from torch_ap.cli.options import (
    HelpFormatter,
    Subparsers,
    add_allow_empty,
    add_forms,
    add_report_path,
    add_resampling,
    numbers,
)
from torch_ap.rules.messages import shown

_FORMATS = (
    "yolo: text files, one per image, of the lines `class cx cy w h` and, detected, `class cx cy w h confidence`, with "
    "boxes in fractions of the image's size; classes are ids. dota: its text files of quadrilaterals, labelTxt and "
    "Task1. activitynet: its JSON files of segments of time. voc (default): all other forms of boxes"
)
_IMAGES = (
    "with --format yolo: the folder of the images (PNG, JPEG), whose sizes are read, or a text file of the lines "
    "`image width height`; default: the folder GROUND_TRUTHS with `images` for `labels` in its path"
)


def add_coco(subparsers: Subparsers) -> None:
    """``torch-ap coco``."""
    parser = subparsers.add_parser(
        "coco",
        help="COCO mean average precision of results files",
        description="COCO's numbers of a results file, or of several beside one another.",
        formatter_class=HelpFormatter,
        epilog="Examples:\n"
        "  torch-ap coco instances_val2017.json results.json\n"
        "  torch-ap coco instances_val2017.json results.json --per-class --markdown\n"
        "  torch-ap coco instances_val2017.json new.json --compare old.json --n-resamples 2000\n"
        "  torch-ap coco instances_val2017.json a.json b.json c.json --compare --per-class\n"
        "  torch-ap coco instances_val2017.json results.json --slices day_and_night.json --interval\n"
        "  torch-ap coco instances_val2017.json masks.json --iou-type segm --interval --json\n"
        "  torch-ap coco person_keypoints_val2017.json keypoints.json --iou-type keypoints",
    )
    parser.add_argument("annotations", help="JSON of images, annotations and categories")
    parser.add_argument("results", metavar="RESULTS", nargs="+", help="JSON list of detections")
    parser.add_argument(
        "--iou-type",
        choices=("bbox", "segm", "boundary", "keypoints"),
        default="bbox",
        help="boxes (default), masks, masks by their boundaries, or keypoints",
    )
    parser.add_argument(
        "--sigmas", type=numbers, metavar="S,S,...", help="of each keypoint, as 0.026,0.025; default COCO's 17"
    )
    parser.add_argument(
        "--max-detections",
        type=wholes,
        metavar="N,N,...",
        help="how many detections of an image and category count; AP is at the last; default 1,10,100",
    )
    said = "in place of 0.5, 0.55, ... 0.95"
    parser.add_argument("--iou-thresholds", type=fractions, metavar="T,T,...", help=said)
    parser.add_argument(
        "--areas",
        type=areas,
        metavar="NAME:LOW:HIGH,...",
        help="ranges of area in pixels, ends included, beside that of all; default "
        "small:0:1024,medium:1024:9216,large:9216:1e10",
    )
    _add_of_results(parser)
    parser.set_defaults(command="coco")


def add_lvis(subparsers: Subparsers) -> None:
    """``torch-ap lvis``."""
    parser = subparsers.add_parser(
        "lvis",
        help="LVIS mean average precision of results files",
        description="LVIS's numbers of a results file, or of several beside one another: only what was looked for in "
        "an image counts there.",
        formatter_class=HelpFormatter,
        epilog="Examples:\n"
        "  torch-ap lvis lvis_v1_val.json results.json\n"
        "  torch-ap lvis lvis_v1_val.json masks.json --iou-type segm --json\n"
        "  torch-ap lvis lvis_v1_val.json results.json --fixed\n"
        "  torch-ap lvis lvis_v1_val.json new.json --compare old.json --per-class --csv",
    )
    parser.add_argument("annotations", help="JSON of images, annotations and categories, with LVIS's fields")
    parser.add_argument("results", metavar="RESULTS", nargs="+", help="JSON list of detections")
    said = "boxes (default), masks, or masks by their boundaries"
    parser.add_argument("--iou-type", choices=("bbox", "segm", "boundary"), default="bbox", help=said)
    said = "AP-Fixed: the 10,000 best detections of each category count, in place of the 300 best of each image"
    parser.add_argument("--fixed", action="store_true", help=said)
    _add_of_results(parser)
    parser.set_defaults(command="lvis")


def add_voc(subparsers: Subparsers) -> None:
    """``torch-ap voc``."""
    parser = subparsers.add_parser(
        "voc",
        help="PASCAL VOC mean average precision of folders of boxes",
        description="PASCAL VOC's average precision of folders of ground truths and detections; of several folders of "
        "detections beside one another.",
        formatter_class=HelpFormatter,
        epilog="Examples:\n"
        "  torch-ap voc VOC2012/Annotations detections\n"
        "  torch-ap voc annotations detections --interpolation 11-point --per-class\n"
        "  torch-ap voc labels/val runs/detect/labels --format yolo --images images/val --names data.yaml\n"
        "  torch-ap voc labelTxt Task1 --format dota\n"
        "  torch-ap voc annotations new --compare old --interval --json\n"
        "  torch-ap voc annotations a b c --compare",
    )
    said = "folder of XML annotations, or of text files, one per image; ActivityNet: a JSON file"
    parser.add_argument("ground_truths", metavar="GROUND_TRUTHS", help=said)
    said = "folder of text files, one per image, or one per class (devkit, DOTA); ActivityNet: a JSON file"
    parser.add_argument("detections", metavar="DETECTIONS", nargs="+", help=said)
    parser.add_argument("--format", choices=("voc", "yolo", "dota", "activitynet"), default="voc", help=_FORMATS)
    said = "of the text files (default xyxy); XML has corners"
    parser.add_argument("--box-format", choices=("xyxy", "xywh", "cxcywh"), help=said)
    parser.add_argument("--images", metavar="PATH", help=_IMAGES)
    parser.add_argument(
        "--names",
        metavar="FILE",
        help="with --format yolo: names of the classes, YAML with `names`, or text, one per line",
    )
    said = "with --format activitynet: which of the videos count (default validation)"
    parser.add_argument("--subset", metavar="NAME", help=said)
    said = "also the ground truths, detections, true and false positives of each class"
    parser.add_argument("--per-class", action="store_true", help=said)
    said = "least IoU of a true positive; default 0.5, ActivityNet's 0.5, 0.55, ..., 0.95"
    parser.add_argument("--iou-threshold", type=float, help=said)
    choices = ("all-points", "11-point", "11-point-arange")
    said = (
        "of the precision over recall: all-points (default, VOC since 2010), 11-point (2007), or 11-point-arange, "
        "those of Python programs (default with --format dota)"
    )
    parser.add_argument("--interpolation", choices=choices, help=said)
    parser.add_argument("--exclusive-pixels", action="store_true", help="sizes are x2 - x1, without the devkit's + 1")
    parser.add_argument("--strict", action="store_true", help="IoU must exceed the threshold, as with --format dota")
    _add_errors(parser)
    _add_slices(parser, "names of images")
    _add_interval(parser)
    _add_compare(parser, "DETECTIONS", "folder of detections")
    add_resampling(parser, 1000, "resamples of the images", "interval", "compare", "report")
    operating_points.add_options(parser)
    add_forms(parser)
    add_allow_empty(parser, "a folder without detections")
    parser.set_defaults(command="voc")


def _add_compare(parser: argparse.ArgumentParser, of: str, what: str) -> None:
    parser.add_argument(
        "--compare",
        metavar="BASELINE",
        nargs="?",
        const="",
        help=f"another {what}, by default the first: what the mean of {of} is above its mean, with interval and "
        "p-value (of several with Holm's, too); with --per-class and --slices that of each as well",
    )


def _add_of_results(parser: argparse.ArgumentParser) -> None:
    """What is said of lists of detections beside their numbers."""
    parser.add_argument(
        "--per-class",
        action="store_true",
        help='also a table by category, "-" where one has no ground truths (in JSON -1, as in pycocotools); with '
        "--compare the difference of each",
    )
    _add_errors(parser)
    _add_slices(parser, "ids of images")
    _add_interval(parser)
    _add_compare(parser, "RESULTS", "list of detections")
    add_resampling(parser, 1000, "resamples of the images", "interval", "compare", "report")
    operating_points.add_options(parser)
    add_forms(parser)
    add_allow_empty(parser, "a list of results without detections")


def _add_errors(parser: argparse.ArgumentParser) -> None:
    said = "what is wrong, by kind (TIDE), and how much AP each kind costs; with --per-class in each class, too"
    parser.add_argument("--errors", action="store_true", help=said)


def _add_slices(parser: argparse.ArgumentParser, what: str) -> None:
    said = f"JSON of names to lists of {what}: a table with the numbers of each, from one matching"
    parser.add_argument("--slices", metavar="FILE", help=said)


def _add_interval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        action="store_true",
        help="the mean's interval over resampled images (with --per-class and --slices that of each, too), and its "
        "chance level: the mean over all orders of the scores of each class, the boxes and their matches as they are",
    )
    add_report_path(parser)


def fractions(text: str) -> list[float]:
    """Numbers in [0, 1] with commas between them."""
    found = numbers(text)
    if not all(0 <= x <= 1 for x in found):
        raise argparse.ArgumentTypeError(f"must be numbers in [0, 1], got {shown(text)}")
    return found


def wholes(text: str) -> list[int]:
    """Whole numbers of at least 1 with commas between them."""
    if not all(part.isascii() and part.isdigit() and int(part) for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"must be ints of at least 1 with commas between them, got {shown(text)}")
    return [int(part) for part in text.split(",")]


def areas(text: str) -> dict[str, tuple[float, float]]:
    """Different names with two ascending numbers each, as ``small:0:1024,large:1024:1e10``."""
    found: dict[str, tuple[float, float]] = {}
    for part in text.split(","):
        name, _, ends = part.partition(":")
        try:
            low, high = map(float, ends.split(":"))
        except ValueError:
            low, high = 1, 0
        if not name or name in found or not low <= high:
            rule = "must be NAME:LOW:HIGH, another name each, LOW at most HIGH"
            raise argparse.ArgumentTypeError(f"{rule}, got {shown(part)}")
        found[name] = (low, high)
    return found
