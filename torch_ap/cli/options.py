"""What the sub-commands take; those of tables have a module of their own. Neither imports torch, so that help appears
at once.
"""

import argparse
from collections.abc import Sequence
from typing import Any, TypeAlias

from torch_ap.cli import operating_points
from torch_ap.files.trec_names import CONVENTIONS, DEFAULT_MEASURES, KNOWN, QRELS_FORM, RUN_FORM
from torch_ap.rules.messages import shown

CONFIDENCE_LEVEL = 0.95
_PAGES = (".html", ".htm", ".md")

Subparsers: TypeAlias = "argparse._SubParsersAction[Any]"

_CONVENTION = (
    "how tied scores are ordered: trec10 (default) and trec9 as these versions of trec_eval, documents descending, "
    "scores in double or single precision, interpolated precision cut at round(l m) or int(l m + 0.9) hits; the others "
    "as rules for ties without an order, under which there is neither iprec nor 11pt_avg"
)
_COMPARE = (
    "each run minus the first, the baseline, over the queries that both have: mean difference, its t interval, cut off "
    "where no two values differ by more, and p-values of the paired t test and of Fisher's randomization test. "
    "For gm_map the ratio of geometric means and its interval, by the same of the logs of AP (0.00001 at least)"
)
_FORMATS = (
    "yolo: text files, one per image, of the lines `class cx cy w h` and, detected, `class cx cy w h confidence`, with "
    "boxes in fractions of the image's size; classes are ids. dota: its text files of quadrilaterals, labelTxt and "
    "Task1. activitynet: its JSON files of segments of time. voc (default): all other forms of boxes"
)
_IMAGES = (
    "with --format yolo: the folder of the images (PNG, JPEG), whose sizes are read, or a text file of the lines "
    "`image width height`; default: the folder GROUND_TRUTHS with `images` for `labels` in its path"
)


class HelpFormatter(argparse.HelpFormatter):
    """Paragraphs stay apart, and lines that are indented stay as they are: examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n")
        return "\n\n".join(
            paragraph if "\n  " in paragraph else super(HelpFormatter, self)._fill_text(paragraph, width, indent)
            for paragraph in paragraphs
        )


def add_trec(subparsers: Subparsers) -> None:
    """``torch-ap trec``."""
    parser = subparsers.add_parser(
        "trec",
        help="measures of TREC runs against judgements",
        description="Measures of TREC runs against judgements. Files are plain or gzip.",
        formatter_class=HelpFormatter,
        epilog=f"Measures: {', '.join(KNOWN)}, or trec_eval's names for them (P.5,10 is P_5 and P_10). map@k "
        "divides by all relevant documents, as trec_eval's map_cut; iprec@l is interpolated precision at recall l; F@k "
        "is F1 at k; set_ measures take the whole run; ndcg has the grades as gains. Names of trec_eval without a rank "
        "(P, ndcg_cut) stand for its usual ranks, official for what it prints by itself.\n\n"
        "Examples:\n"
        "  torch-ap trec qrels.txt run.txt\n"
        "  torch-ap trec qrels.txt bm25.run dense.run -m map -m P@10 --compare\n"
        "  torch-ap trec qrels.txt run.txt.gz -m map@100 --per-query --csv > queries.csv\n"
        "  torch-ap trec qrels.txt run.txt -m map --interval --report run.html\n"
        "  retrieve | torch-ap trec qrels.txt - -m recip_rank --json",
    )
    parser.add_argument("qrels", metavar="QRELS", help=f"judgements: {QRELS_FORM}; - for standard input")
    parser.add_argument("runs", metavar="RUN", nargs="+", help=f"run: {RUN_FORM}; - likewise")
    said = f"repeatable; default: {' '.join(DEFAULT_MEASURES)}"
    parser.add_argument("-m", "--measure", action="append", dest="measures", metavar="MEASURE", help=said)
    parser.add_argument("-q", "--per-query", action="store_true", help="the value of each query too")
    parser.add_argument("-l", "--relevance-level", type=int, default=1, metavar="GRADE", help="lowest relevant grade")
    parser.add_argument("-c", "--complete", action="store_true", help="judged queries that a run lacks count 0")
    parser.add_argument("--convention", choices=CONVENTIONS, default="trec10", help=_CONVENTION)
    add_forms(parser)
    parser.add_argument("--compare", action="store_true", help=_COMPARE)
    said = "the interval of each mean over its queries, and its chance level: the mean over all orders of each ranking"
    parser.add_argument("--interval", action="store_true", help=said)
    add_report_path(parser, "the first measure of a run, or with --compare of two")
    add_resampling(
        parser,
        10_000,
        "flips of the randomization test, and resamples of the interval",
        "compare",
        "interval",
        "report",
    )
    _add_allow_empty(parser, "a run without documents")
    parser.set_defaults(command="trec")


def add_coco(subparsers: Subparsers) -> None:
    """``torch-ap coco``."""
    parser = subparsers.add_parser(
        "coco",
        help="COCO mean average precision of a results file",
        description="COCO's numbers of a results file.",
        formatter_class=HelpFormatter,
        epilog="Examples:\n"
        "  torch-ap coco instances_val2017.json results.json\n"
        "  torch-ap coco instances_val2017.json results.json --per-class --markdown\n"
        "  torch-ap coco instances_val2017.json new.json --compare old.json --n-resamples 2000\n"
        "  torch-ap coco instances_val2017.json masks.json --iou-type segm --interval --json\n"
        "  torch-ap coco person_keypoints_val2017.json keypoints.json --iou-type keypoints",
    )
    parser.add_argument("annotations", help="JSON of images, annotations and categories")
    parser.add_argument("results", help="JSON list of detections")
    parser.add_argument(
        "--iou-type",
        choices=("bbox", "segm", "boundary", "keypoints"),
        default="bbox",
        help="boxes (default), masks, masks by their boundaries, or keypoints",
    )
    parser.add_argument(
        "--sigmas", type=numbers, metavar="S,S,...", help="of each keypoint, as 0.026,0.025; default COCO's 17"
    )
    _add_of_results(parser)
    parser.set_defaults(command="coco")


def add_lvis(subparsers: Subparsers) -> None:
    """``torch-ap lvis``."""
    parser = subparsers.add_parser(
        "lvis",
        help="LVIS mean average precision of a results file",
        description="LVIS's numbers of a results file: only what was looked for in an image counts there.",
        formatter_class=HelpFormatter,
        epilog="Examples:\n"
        "  torch-ap lvis lvis_v1_val.json results.json\n"
        "  torch-ap lvis lvis_v1_val.json masks.json --iou-type segm --json\n"
        "  torch-ap lvis lvis_v1_val.json results.json --fixed\n"
        "  torch-ap lvis lvis_v1_val.json new.json --compare old.json --per-class --csv",
    )
    parser.add_argument("annotations", help="JSON of images, annotations and categories, with LVIS's fields")
    parser.add_argument("results", help="JSON list of detections")
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
        description="PASCAL VOC's average precision of folders of ground truths and detections.",
        formatter_class=HelpFormatter,
        epilog="Examples:\n"
        "  torch-ap voc VOC2012/Annotations detections\n"
        "  torch-ap voc annotations detections --interpolation 11-point --per-class\n"
        "  torch-ap voc labels/val runs/detect/labels --format yolo --images images/val --names data.yaml\n"
        "  torch-ap voc labelTxt Task1 --format dota\n"
        "  torch-ap voc annotations new --compare old --interval --json",
    )
    said = "folder of XML annotations, or of text files, one per image; ActivityNet: a JSON file"
    parser.add_argument("ground_truths", metavar="GROUND_TRUTHS", help=said)
    said = "folder of text files, one per image, or one per class (devkit, DOTA); ActivityNet: a JSON file"
    parser.add_argument("detections", metavar="DETECTIONS", help=said)
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
    _add_interval(parser)
    parser.add_argument(
        "--compare",
        metavar="BASELINE",
        help="another folder of detections: what the mean of DETECTIONS is above its mean, with interval and p-value",
    )
    add_resampling(parser, 1000, "resamples of the images", "interval", "compare", "report")
    operating_points.add_options(parser)
    add_forms(parser)
    _add_allow_empty(parser, "a folder without detections")
    parser.set_defaults(command="voc")


def _add_errors(parser: argparse.ArgumentParser) -> None:
    said = "what is wrong, by kind (TIDE), and how much AP each kind costs; with --per-class in each class, too"
    parser.add_argument("--errors", action="store_true", help=said)


def _add_of_results(parser: argparse.ArgumentParser) -> None:
    """What is said of a list of detections beside its numbers."""
    parser.add_argument(
        "--per-class",
        action="store_true",
        help='also a table by category, "-" where one has no ground truths (in JSON -1, as in pycocotools)',
    )
    _add_errors(parser)
    _add_interval(parser)
    parser.add_argument(
        "--compare",
        metavar="BASELINE",
        help="another list of detections: what the mean of RESULTS is above its mean, with interval and p-value",
    )
    add_resampling(parser, 1000, "resamples of the images", "interval", "compare", "report")
    operating_points.add_options(parser)
    add_forms(parser)
    _add_allow_empty(parser, "a list of results without detections")


def _add_interval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        action="store_true",
        help="the mean's interval over resampled images (with --per-class that of each class, too), and its chance "
        "level: the mean over all orders of the scores of each class, the boxes and their matches as they are",
    )
    add_report_path(parser)


def add_report_path(parser: argparse.ArgumentParser, of: str = "all of this") -> None:
    """The page beside the results."""
    said = f"also write a page with {of}, curves and warnings: .html, or .md for Markdown"
    parser.add_argument("--report", type=page, metavar="PATH", help=said)


def add_forms(parser: argparse.ArgumentParser) -> None:
    """The forms of results."""
    form = parser.add_mutually_exclusive_group()
    for name, said in (("json", "as JSON, all digits"), ("csv", "as CSV, all digits"), ("markdown", "as Markdown")):
        form.add_argument(f"--{name}", action="store_const", const=name, dest="form", help=said)


def page(text: str) -> str:
    """The path of a page, whose suffix says what it is."""
    if not text.lower().endswith(_PAGES):
        raise argparse.ArgumentTypeError(f"must end in {', '.join(_PAGES)}, got {shown(text)}")
    return text


def add_resampling(parser: argparse.ArgumentParser, count: int, what: str, *of: str) -> None:
    """Options of resampling, which mean something only beside one of others."""
    _add_confidence_level(parser, *of)
    parser.add_argument("--n-resamples", type=whole, metavar="N", help=f"{what}; default {count:,}")
    parser.set_defaults(defaults={"confidence_level": CONFIDENCE_LEVEL, "n_resamples": count})


def _add_confidence_level(parser: argparse.ArgumentParser, *of: str) -> None:
    """An option that means something only beside one of others."""
    said = f"nominal coverage of the intervals of {_listed(of, 'and')}; default {CONFIDENCE_LEVEL:g}"
    parser.add_argument("--confidence-level", type=confidence_level, metavar="LEVEL", help=said)
    parser.set_defaults(defaults={"confidence_level": CONFIDENCE_LEVEL}, of=of, also={})


def _listed(options: Sequence[str], word: str) -> str:
    *some, last = (f"--{x.replace('_', '-')}" for x in options)
    return f"{', '.join(some)} {word} {last}" if some else last


def filled_in(args: argparse.Namespace) -> argparse.Namespace:
    """The arguments with the defaults of those that mean something only beside others.

    Raises:
        ValueError: where one of them is given without the others.
    """
    for name, other in vars(args).get("needs", {}).items():
        if getattr(args, name) is not None and not getattr(args, other):
            raise ValueError(f"--{name} has no meaning without {_listed([other], '')}")
    for name, default in args.defaults.items():
        of = (*args.of, *args.also.get(name, ()))
        if getattr(args, name) is None:
            setattr(args, name, default)
        elif not any(getattr(args, other) for other in of):
            raise ValueError(f"--{name.replace('_', '-')} has no meaning without {_listed(of, 'or')}")
    return args


def confidence_level(text: str) -> float:
    """A number between 0 and 1, by the rule of the functions' argument of this name."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must be a number between 0 and 1, ends excluded, got {shown(text)}")
    return value


def numbers(text: str) -> list[float]:
    """Numbers with commas between them; their range is a rule of the functions' argument."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers with commas between them, got {shown(text)}") from None


def whole(text: str) -> int:
    """A whole number of at least 2."""
    value = int(text) if text.isascii() and text.isdigit() else 0
    if value < 2:
        raise argparse.ArgumentTypeError(f"must be an int of at least 2, got {shown(text)}")
    return value


def _add_allow_empty(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--allow-empty", action="store_true", help=f"{what} is not an error")
