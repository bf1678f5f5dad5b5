"""What ``torch-ap`` takes for detectors: ``coco``, ``lvis`` and ``voc``; like the other options, without torch."""

import argparse
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from torch_ap.cli import operating_points
from torch_ap.cli.options import (
    Subparsers,
    add_allow_empty,
    add_command,
    add_forms,
    add_report_path,
    add_resampling,
    numbers,
)
from torch_ap.rules import area_names
from torch_ap.rules.messages import shown

_SAME = 1e-9  # thresholds no further apart are one, as for the metrics
_FORMATS = (
    "yolo: text files, one per image, of the lines `class cx cy w h` and, detected, `class cx cy w h confidence`, with "
    "boxes in fractions of the image's size; classes are ids. dota: its text files of quadrilaterals, labelTxt and "
    "Task1. activitynet: its JSON files of segments of time. voc (default): all other forms of boxes"
)
_IMAGES = (
    "with --format yolo: the folder of the images (PNG, JPEG), whose sizes are read, or a text file of the lines "
    "`image width height`; default: the folder GROUND_TRUTHS with `images` for `labels` in its path"
)
_KINDS = {"bbox": "boxes (default)", "segm": "masks", "boundary": "masks by their boundaries"}
_EACH_CATEGORY = 'also a table by category, "-" where one has no ground truths (in JSON -1, as in pycocotools)'


def add_coco(subparsers: Subparsers) -> None:
    """``torch-ap coco``."""
    parser = _add_results(
        subparsers,
        "coco",
        kinds={**_KINDS, "keypoints": "keypoints"},
        annotations="JSON of images, annotations and categories",
        help="COCO mean average precision of results files",
        description="COCO's numbers of a results file, or of several beside one another.",
        epilog="Examples:\n"
        "  torch-ap coco instances_val2017.json results.json\n"
        "  torch-ap coco instances_val2017.json results.json --per-class --markdown\n"
        "  torch-ap coco instances_val2017.json new.json --compare old.json --n-resamples 2000\n"
        "  torch-ap coco instances_val2017.json a.json b.json c.json --compare --per-class\n"
        "  torch-ap coco instances_val2017.json results.json --slices day_and_night.json --interval\n"
        "  torch-ap coco instances_val2017.json masks.json --iou-type segm --interval --json\n"
        "  torch-ap coco person_keypoints_val2017.json keypoints.json --iou-type keypoints",
    )
    said = "of each keypoint, as 0.026,0.025; default COCO's 17"
    parser.add_argument("--sigmas", type=numbers, metavar="S,S,...", help=said)
    said = "how many detections of an image and category count; AP is at the last; default 1,10,100, of keypoints 20"
    parser.add_argument("--max-detections", type=wholes, metavar="N,N,...", help=said)
    _add_further(parser, "RESULTS", "list of detections", "ids of images", _EACH_CATEGORY)


def add_lvis(subparsers: Subparsers) -> None:
    """``torch-ap lvis``."""
    parser = _add_results(
        subparsers,
        "lvis",
        kinds=_KINDS,
        annotations="JSON of images, annotations and categories, with LVIS's fields",
        help="LVIS mean average precision of results files",
        description="LVIS's numbers of a results file, or of several beside one another: only what was looked for in "
        "an image counts there. LVIS has no keypoints.",
        epilog="Examples:\n"
        "  torch-ap lvis lvis_v1_val.json results.json\n"
        "  torch-ap lvis lvis_v1_val.json masks.json --iou-type segm --json\n"
        "  torch-ap lvis lvis_v1_val.json results.json --fixed\n"
        "  torch-ap lvis lvis_v1_val.json new.json --compare old.json --per-class --csv",
    )
    said = "AP-Fixed: the 10,000 best detections of each category count, in place of the 300 best of each image"
    parser.add_argument("--fixed", action="store_true", help=said)
    said = "how many detections of an image count, or with --fixed of a category; default 300, or 10000"
    parser.add_argument("--max-detections", type=positive, metavar="N", help=said)
    _refuse(parser, "LVIS has no keypoints", "--sigmas")
    _add_further(parser, "RESULTS", "list of detections", "ids of images", _EACH_CATEGORY)


def add_voc(subparsers: Subparsers) -> None:
    """``torch-ap voc``."""
    parser = add_command(
        subparsers,
        "voc",
        help="PASCAL VOC mean average precision of folders of boxes",
        description="PASCAL VOC's average precision of folders of ground truths and detections; of several folders of "
        "detections beside one another. Its rules know neither ranges of area nor a limit on detections.",
        epilog="Examples:\n"
        "  torch-ap voc VOC2012/Annotations detections\n"
        "  torch-ap voc annotations detections --interpolation 11-point --per-class\n"
        "  torch-ap voc annotations detections --iou-thresholds 0.5,0.75\n"
        "  torch-ap voc labels/val runs/detect/labels --format yolo --images images/val --names data.yaml\n"
        "  torch-ap voc labelTxt Task1 --format dota\n"
        "  torch-ap voc annotations new --compare old --interval --json\n"
        "  torch-ap voc annotations a b c --compare",
    )
    said = (
        "folder of XML annotations, or of text files, one per image, of the lines `class x1 y1 x2 y2`; ActivityNet: a "
        "JSON file"
    )
    parser.add_argument("ground_truths", metavar="GROUND_TRUTHS", help=said)
    said = (
        "folder of text files, one per image, of the lines `class score x1 y1 x2 y2`, or one per class (devkit, DOTA); "
        "ActivityNet: a JSON file"
    )
    parser.add_argument("detections", metavar="DETECTIONS", nargs="+", help=said)
    parser.add_argument("--format", choices=("voc", "yolo", "dota", "activitynet"), default="voc", help=_FORMATS)
    said = "of the text files (default xyxy); XML has corners"
    parser.add_argument("--box-format", choices=("xyxy", "xywh", "cxcywh"), help=said)
    parser.add_argument("--images", metavar="PATH", help=_IMAGES)
    said = "with --format yolo: names of the classes, YAML with `names`, or text, one per line"
    parser.add_argument("--names", metavar="FILE", help=said)
    said = "with --format activitynet: which of the videos count (default validation)"
    parser.add_argument("--subset", metavar="NAME", help=said)
    said = "least IoU of a true positive, of several the mean over them; default 0.5, ActivityNet's 0.5,0.55,...,0.95"
    parser.add_argument("--iou-thresholds", type=fractions, metavar="T,T,...", help=said)
    choices = ("all-points", "11-point", "11-point-arange")
    said = (
        "of the precision over recall: all-points (default, VOC since 2010), 11-point (2007), or 11-point-arange, "
        "those of Python programs (default with --format dota)"
    )
    parser.add_argument("--interpolation", choices=choices, help=said)
    said = "sizes are x2 - x1, without the devkit's + 1, as with --format yolo"
    parser.add_argument("--exclusive-pixels", action="store_true", help=said)
    parser.add_argument("--strict", action="store_true", help="IoU must exceed the threshold, as with --format dota")
    _refuse(parser, "PASCAL VOC's rules have none; torch-ap coco has", "--areas", "--max-detections")
    _refuse(parser, "--format says which shapes are compared", "--iou-type")
    said = "also the ground truths, detections, true and false positives of each class"
    _add_further(parser, "DETECTIONS", "folder of detections", "names of images", said)


def _add_results(
    subparsers: Subparsers, name: str, kinds: Mapping[str, str], annotations: str, **texts: Any
) -> argparse.ArgumentParser:
    """A command on JSON files of annotations and results, ``kinds`` of whose shapes can be compared."""
    parser = add_command(subparsers, name, **texts)
    parser.add_argument("annotations", metavar="ANNOTATIONS", help=annotations)
    said = (
        "JSON list of detections: `image_id`, `category_id`, `score`, and `bbox` as [x, y, width, height] in pixels; "
        f"of masks `segmentation`{', of keypoints `keypoints`' if 'keypoints' in kinds else ''}"
    )
    parser.add_argument("results", metavar="RESULTS", nargs="+", help=said)
    *some, last = kinds.values()
    said = f"{', '.join(some)}, or {last}"
    parser.add_argument("--iou-type", choices=tuple(kinds), default="bbox", help=said)
    said = "in place of 0.5,0.55,...,0.95"
    parser.add_argument("--iou-thresholds", type=fractions, metavar="T,T,...", help=said)
    said = (
        "ranges of area in pixels, ends included, beside that of all; default "
        "small:0:1024,medium:1024:9216,large:9216:1e10"
    )
    parser.add_argument("--areas", type=areas, metavar="NAME:LOW:HIGH,...", help=said)
    return parser


def _add_further(parser: argparse.ArgumentParser, of: str, what: str, images: str, per_class: str) -> None:
    """What is said of lists of detections beside their numbers.

    Args:
        parser: of the command.
        of: its argument.
        what: one such list is.
        images: what slices are lists of.
        per_class: the help of ``--per-class``.
    """
    parser.add_argument("--per-class", action="store_true", help=f"{per_class}; with --compare the difference of each")
    said = (
        "what is wrong, by kind (TIDE), and how much AP each kind of error costs; with --per-class in each class, too"
    )
    parser.add_argument("--errors", action="store_true", help=said)
    said = f"JSON of names to lists of {images}: a table with the numbers of each, from one matching"
    parser.add_argument("--slices", metavar="FILE", help=said)
    said = (
        "the mean's interval over resampled images (with --per-class and --slices that of each, too), and its "
        "chance level: the mean over all orders of the scores of each class, the boxes and their matches as they are"
    )
    parser.add_argument("--interval", action="store_true", help=said)
    add_report_path(parser)
    said = (
        f"another {what}, by default the first: what the mean of {of} is above its mean, with interval and "
        "p-value (of several with Holm's, too); with --per-class and --slices that of each as well"
    )
    parser.add_argument("--compare", metavar="BASELINE", nargs="?", const="", help=said)
    add_resampling(parser, 1000, "resamples of the images", "interval", "compare", "report")
    operating_points.add_options(parser)
    add_forms(parser)
    add_allow_empty(parser, f"a {what} without any")


class _Refused(argparse.Action):
    """An option of another command, which has no meaning here; ``const`` says why."""

    def __call__(self, parser: argparse.ArgumentParser, _: object, __: object, option: str | None = None) -> None:
        """Say so."""
        parser.error(f"{option} has no meaning here: {self.const}")


def _refuse(parser: argparse.ArgumentParser, why: str, *options: str) -> None:
    for option in options:
        parser.add_argument(option, action=_Refused, nargs="?", const=why, help=argparse.SUPPRESS)


def fractions(text: str) -> list[float]:
    """Different numbers in [0, 1] with commas between them, so different that each has a name of its own."""
    found = numbers(text)
    alike = any(two - one <= _SAME for one, two in pairwise(sorted(found)))
    if not all(0 <= x <= 1 for x in found) or alike:
        raise argparse.ArgumentTypeError(f"must be different numbers in [0, 1], got {shown(text)}")
    return found


def positive(text: str) -> int:
    """A whole number of at least 1."""
    return _positive(text, "must be an int of at least 1")


def wholes(text: str) -> list[int]:
    """Different whole numbers of at least 1 with commas between them."""
    rule = "must be different ints of at least 1 with commas between them"
    found = [_positive(part, rule) for part in text.split(",")]
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{rule}, got {shown(text)}")
    return found


def _positive(text: str, rule: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{rule}, got {shown(text)}")
    return int(text)


def areas(text: str) -> dict[str, tuple[float, float]]:
    """Different names with two ascending numbers each, as ``small:0:1024,large:1024:1e10``.

    Raises:
        argparse.ArgumentTypeError: for another form, and for a name that another number has: ``map_50``, ``map_low``.
    """
    found: dict[str, tuple[float, float]] = {}
    for part in text.split(","):
        name, _, ends = part.partition(":")
        try:
            low, high = map(float, ends.split(":"))
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"must be NAME:LOW:HIGH, LOW and HIGH numbers, got {shown(part)}"
            ) from None
        for rule, holds in (
            ("must give each range a name", name != ""),
            ("must give each range another name", name not in found),
            ("must not be called all, which is the range of every area", name != "all"),
            (f"must have names that no other number has: {area_names.RULE}", not area_names.is_taken(name)),
            ("must be NAME:LOW:HIGH, LOW at most HIGH", low <= high),
        ):
            if not holds:
                raise argparse.ArgumentTypeError(f"{rule}, got {shown(part)}")
        found[name] = (low, high)
    return found
