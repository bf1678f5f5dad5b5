"""Options of the detection commands, ``coco``, ``lvis`` and ``voc``; without torch, as the other options."""

import argparse
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from torch_ap.cli.options import Parser, Subparsers, add_command, numbers, require
from torch_ap.core.base import area_names

_THRESHOLD_TOLERANCE = 1e-9  # closer thresholds count as equal, as in the metrics
_SHAPES = {"bbox": "boxes (default)", "segm": "masks", "boundary": "boundaries of masks"}
_NAN_CLASS = '"-" for categories without ground truths (-1 in JSON, as in pycocotools)'
_FORMATS = (
    "yolo: text files, one per image, with lines `class cx cy w h`, of detections `class cx cy w h confidence`; boxes "
    "are fractions of the image size, classes are ids. dota: text files of quadrilaterals, labelTxt and Task1. "
    "activitynet: JSON files of time segments. voc (default): all other forms of boxes"
)
_CONVENTIONS = ("ultralytics", "ultralytics-8.3")
_CONVENTION = (
    "numbers that Ultralytics (YOLO) prints, in version 8.4.190 or up to 8.3: P and R at the best F1, mAP50 and "
    "mAP50-95, without crowds and difficult objects"
)
_CLUSTERED = ("interval", "compare", "fail_below", "best", "report", "operating_points")  # with intervals
_IMAGES = (
    "folder of the image files, for thumbnails in the pictures of the page; with --format yolo the sizes are read from "
    "them, or from a text file with lines `image width height` (default: GROUND_TRUTHS with `images` for `labels` in "
    "its path)"
)


def add_coco(subparsers: Subparsers) -> None:
    """Add ``torch-ap coco``."""
    parser = _add_results_command(
        subparsers,
        "coco",
        shapes={**_SHAPES, "keypoints": "keypoints"},
        annotations="JSON of images, annotations and categories",
        help="COCO mean average precision of results files",
        description="Compute the numbers of COCO for a results file, or for several side by side.",
        epilog="Examples:\n"
        "  torch-ap coco instances_val2017.json results.json\n"
        "  torch-ap coco instances_val2017.json results.json --per-class --markdown\n"
        "  torch-ap coco instances_val2017.json new.json --compare old.json --n-resamples 2000\n"
        "  torch-ap coco instances_val2017.json a.json b.json c.json --compare --per-class\n"
        "  torch-ap coco instances_val2017.json results.json --slices day_and_night.json --interval\n"
        "  torch-ap coco instances_val2017.json masks.json --iou-type segm --interval --json\n"
        "  torch-ap coco videos.json results.json --interval --cluster video_id\n"
        "  torch-ap coco person_keypoints_val2017.json keypoints.json --iou-type keypoints",
    )
    text = "OKS sigma of each keypoint, comma-separated (default: the 17 of COCO)"
    parser.option("--sigmas", text, type=numbers, metavar="S,S,...")
    parser.option("--img-ids", "ids of the images to evaluate (default: all)", type=ids, metavar="ID,ID,...")
    parser.option("--cat-ids", "ids of the categories to evaluate (default: all)", type=ids, metavar="ID,ID,...")
    text = "evaluate all objects as one category, as params.useCats = 0 in pycocotools, which returns 0 for keypoints"
    parser.flag("--no-cats", text)
    text = "limits on the detections per image and category; AP uses the last (default: 1,10,100; keypoints: 20)"
    parser.option("--max-detections", text, type=distinct_positive_ints, metavar="N,N,...")
    parser.option("--convention", _CONVENTION, choices=_CONVENTIONS)
    _add_outputs(parser, "RESULTS", "list of detections", "image ids", f"add a table by category, {_NAN_CLASS}")


def add_lvis(subparsers: Subparsers) -> None:
    """Add ``torch-ap lvis``."""
    parser = _add_results_command(
        subparsers,
        "lvis",
        shapes=_SHAPES,
        annotations="JSON of images, annotations and categories, with LVIS's fields",
        help="LVIS mean average precision of results files",
        description="Compute the numbers of LVIS for a results file, or for several side by side. Detections count "
        "only if their category was annotated in the image. LVIS has no keypoints.",
        epilog="Examples:\n"
        "  torch-ap lvis lvis_v1_val.json results.json\n"
        "  torch-ap lvis lvis_v1_val.json masks.json --iou-type segm --json\n"
        "  torch-ap lvis lvis_v1_val.json results.json --fixed\n"
        "  torch-ap lvis lvis_v1_val.json new.json --compare old.json --per-class --csv",
    )
    text = "AP-Fixed: count the best 10,000 detections of each category instead of the best 300 of each image"
    parser.flag("--fixed", text)
    text = "limit on the detections per image, or with --fixed per category (default: 300, or 10000)"
    parser.option("--max-detections", text, type=positive_int, metavar="N")
    _reject(parser, "LVIS has no keypoints", "--sigmas")
    _add_outputs(parser, "RESULTS", "list of detections", "image ids", f"add a table by category, {_NAN_CLASS}")


def add_voc(subparsers: Subparsers) -> None:
    """Add ``torch-ap voc``."""
    parser = add_command(
        subparsers,
        "voc",
        help="PASCAL VOC mean average precision of folders of boxes",
        description="Compute PASCAL VOC's average precision of folders of ground truths and detections; several "
        "folders of detections appear side by side. VOC has neither area ranges nor a limit on detections.",
        epilog="Examples:\n"
        "  torch-ap voc VOC2012/Annotations detections\n"
        "  torch-ap voc annotations detections --interpolation 11-point --per-class\n"
        "  torch-ap voc annotations detections --iou-thresholds 0.5,0.75\n"
        "  torch-ap voc labels/val runs/detect/labels --format yolo --images images/val --names data.yaml\n"
        "  torch-ap voc labelTxt Task1 --format dota\n"
        "  torch-ap voc annotations new --compare old --interval --json\n"
        "  torch-ap voc annotations a b c --compare\n"
        "  torch-ap voc annotations detections --interval --cluster videos.txt",
    )
    text = "folder of XML files, or of text files, one per image, with lines `class x1 y1 x2 y2`; ActivityNet: JSON"
    parser.option("ground_truths", text, metavar="GROUND_TRUTHS")
    text = (
        "folder of text files, one per image, with lines `class score x1 y1 x2 y2`, or one per class (devkit, DOTA); "
        "ActivityNet: JSON"
    )
    parser.option("detections", text, metavar="DETECTIONS", nargs="+")
    parser.option("--format", _FORMATS, choices=("voc", "yolo", "dota", "activitynet"), default="voc")
    text = "box format of the text files (default: xyxy); XML has corners"
    parser.option("--box-format", text, choices=("xyxy", "xywh", "cxcywh"))
    parser.option("--images", _IMAGES, metavar="PATH")
    text = "with --format yolo: names of the classes, YAML with `names`, or text with one name per line"
    parser.option("--names", text, metavar="FILE")
    text = "with --format activitynet: subset of the videos to evaluate (default: validation)"
    parser.option("--subset", text, metavar="NAME")
    text = "IoU threshold, or several for the mean over them (default: 0.5; ActivityNet: 0.5,0.55,...,0.95)"
    parser.option("--iou-thresholds", text, type=fractions, metavar="T,T,...")
    choices = ("all-points", "11-point", "11-point-arange")
    text = "all-points (default, VOC since 2010), 11-point (2007), or 11-point-arange (Python; default of dota)"
    parser.option("--interpolation", text, choices=choices)
    parser.flag("--exclusive-pixels", "compute sizes as x2 - x1, without the devkit's + 1, as --format yolo does")
    parser.option("--convention", _CONVENTION, choices=_CONVENTIONS)
    parser.flag("--strict", "require an IoU above the threshold, as --format dota does")
    text = "lines `image cluster`: images of a video, scene or patient may depend on each other in intervals"
    parser.option("--cluster", text, needs=_CLUSTERED, metavar="FILE")
    _reject(parser, "PASCAL VOC's rules have none; torch-ap coco has", "--areas", "--max-detections")
    _reject(parser, "--format determines the shapes", "--iou-type")
    text = "add the ground truths, detections, true and false positives of each class"
    _add_outputs(parser, "DETECTIONS", "folder of detections", "image names", text)


def _add_results_command(
    subparsers: Subparsers, name: str, shapes: Mapping[str, str], annotations: str, **texts: Any
) -> Parser:
    """Add a command on JSON files of annotations and results, with a choice of shapes."""
    parser = add_command(subparsers, name, **texts)
    parser.option("annotations", annotations, metavar="ANNOTATIONS")
    text = (
        "JSON list of detections: `image_id`, `category_id`, `score`, and `bbox` as [x, y, width, height] in pixels; "
        f"masks: `segmentation`{'; keypoints: `keypoints`' if 'keypoints' in shapes else ''}"
    )
    parser.option("results", text, metavar="RESULTS", nargs="+")
    *first, last = shapes.values()
    parser.option("--iou-type", f"{', '.join(first)}, or {last}", choices=tuple(shapes), default="bbox")
    parser.option("--iou-thresholds", "IoU thresholds (default: 0.5,0.55,...,0.95)", type=fractions, metavar="T,T,...")
    text = (
        "area ranges in pixels, ends included, in addition to all areas (default: "
        "small:0:1024,medium:1024:9216,large:9216:1e10)"
    )
    parser.option("--areas", text, type=area_ranges, metavar="NAME:LOW:HIGH,...")
    text = (
        "key of the entries in `images`, such as video_id: images with equal values, integers or text, may depend on "
        "each other; intervals, also of --operating-points, and comparisons leave out whole clusters"
    )
    parser.option("--cluster", text, needs=_CLUSTERED, metavar="KEY")
    text = "folder of the image files (`file_name` in `images`), for thumbnails in the pictures of the page"
    parser.option("--images", text, needs=("report",), metavar="DIR")
    return parser


def _add_outputs(parser: Parser, argument: str, content: str, images: str, per_class: str) -> None:
    """Add the options of further results.

    Args:
        parser: parser of the command.
        argument: name of the argument with the detections.
        content: name of one of its values.
        images: kind of the entries of slices.
        per_class: help of ``--per-class``.
    """
    parser.flag("--per-class", f"{per_class}; with --compare also the differences")
    text = "add the errors by kind (TIDE) and the AP that each kind costs; with --per-class also for each class"
    parser.flag("--errors", text)
    text = (
        "add the ground truths that may be wrong or missing, by how much AP would change if each were corrected; with "
        f"several lists of {argument} the first contradicts them, and missed ground truths are missed by all lists"
    )
    parser.flag("--suspicious-labels", text)
    text = f"JSON file of slice names with lists of {images}: add a table of the numbers of each slice (one matching)"
    parser.option("--slices", text, metavar="FILE")
    text = (
        "add the interval of the mean over resampled images (with --per-class and --slices also of each class and "
        "slice) and its chance level: the mean over all orders of the scores of each class, with the same boxes and "
        "matches, estimated from as many random orders"
    )
    parser.flag("--interval", text)
    text = "with --interval and --per-class: intervals that contain the values of all classes at once, also on the page"
    parser.option("--simultaneous", text, needs=("interval",), default=False, action="store_true")
    parser.report_path()
    text = (
        f"compare the mean of {argument} with another {content}, by default the first: difference, interval and "
        "p-value (of several comparisons also Holm's); with --per-class and --slices also for each class and slice"
    )
    parser.option("--compare", text, metavar="BASELINE", nargs="?", const="")
    text = (
        f"of several {argument}: which is the best, its mean corrected for the selection with a selection-adjusted "
        "interval, simultaneous intervals of all, and adjusted p-values of each and the best"
    )
    parser.flag("--best", text)
    points = ("operating_points",)
    users = ("interval", "compare", "report", "fail_below", "best")
    parser.resampling(1000, "resamples of the images", *users, others=points)
    parser.gates("compare")
    text = "add the score threshold with the best F of each class and of all together, with intervals"
    parser.flag("--operating-points", text)
    for names, metavar, text in (
        ("--beta", "B", "weight of recall, B times precision (default: 1)"),
        ("--precision", "P", "highest recall at a precision of at least P, instead of the best F"),
        ("--recall", "R", "highest precision at a recall of at least R, instead of the best F"),
    ):
        parser.option(names, f"with --operating-points: {text}", needs=points, type=float, metavar=metavar)
    parser.forms()
    parser.flag("--allow-empty", f"accept an empty {content}")


class _Rejected(argparse.Action):
    """An option of another command, which is an error here; ``const`` is the reason."""

    def __call__(self, parser: argparse.ArgumentParser, _: object, __: object, option: str | None = None) -> None:
        """Report the error."""
        parser.error(f"{option} has no meaning here: {self.const}")


def _reject(parser: Parser, reason: str, *options: str) -> None:
    for option in options:
        parser.option(option, argparse.SUPPRESS, action=_Rejected, nargs="?", const=reason)


def fractions(text: str) -> list[float]:
    """Return distinct comma-separated numbers in [0, 1]."""
    values = numbers(text)
    distinct = all(high - low > _THRESHOLD_TOLERANCE for low, high in pairwise(sorted(values)))
    require(all(0 <= x <= 1 for x in values) and distinct, "must be different numbers in [0, 1]", text)
    return values


def ids(text: str) -> list[str]:
    """Return distinct comma-separated ids as text."""
    values = [part.strip() for part in text.split(",")]
    require(all(values) and len(set(values)) == len(values), "must be different ids with commas between them", text)
    return values


def positive_int(text: str, rule: str = "must be an int of at least 1") -> int:
    """Return an int of at least 1."""
    require(text.isascii() and text.isdigit() and int(text) > 0, rule, text)
    return int(text)


def distinct_positive_ints(text: str) -> list[int]:
    """Return distinct comma-separated ints of at least 1."""
    rule = "must be different ints of at least 1 with commas between them"
    values = [positive_int(part, rule) for part in text.split(",")]
    require(len(set(values)) == len(values), rule, text)
    return values


def area_ranges(text: str) -> dict[str, tuple[float, float]]:
    """Return area ranges, as ``small:0:1024,large:1024:1e10``.

    Raises:
        argparse.ArgumentTypeError: for another form, for equal names, and for a name that is a key of another number,
            as in ``map_50`` or ``map_low``.
    """
    ranges: dict[str, tuple[float, float]] = {}
    for part in text.split(","):
        name, _, ends = part.partition(":")
        try:
            low, high = map(float, ends.split(":"))
        except ValueError:
            low = high = float("nan")
        require(low == low and high == high, "must be NAME:LOW:HIGH, LOW and HIGH numbers", part)
        require(name != "", "must give each range a name", part)
        require(name not in ranges, "must give each range another name", part)
        require(name != "all", "must not be called all, which is the range of every area", part)
        require(not area_names.is_taken(name), f"must have names that no other number has: {area_names.RULE}", part)
        require(low <= high, "must be NAME:LOW:HIGH, LOW at most HIGH", part)
        ranges[name] = (low, high)
    return ranges
