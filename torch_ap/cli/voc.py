"""``torch-ap voc``: PASCAL VOC's average precision of folders of ground truths and detections."""

import argparse
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.cli import file_notes, ultralytics
from torch_ap.cli.coco import write
from torch_ap.cli.compare_runs import Clusters
from torch_ap.cli.detectors import Paths, Result, evaluate, evaluate_images
from torch_ap.cli.image_tables import Layout, Rows
from torch_ap.cli.notes import note
from torch_ap.cli.options import exclude_options
from torch_ap.cli.tables import Part, number
from torch_ap.core.base.messages import short_repr
from torch_ap.core.ranking import segments
from torch_ap.detection.errors import unmatchable
from torch_ap.detection.files.activitynet import read_activitynet
from torch_ap.detection.files.dota import read_dota
from torch_ap.detection.files.voc import VocData, read_voc
from torch_ap.detection.files.yolo import read_yolo
from torch_ap.detection.inputs.rules import negative_sizes
from torch_ap.detection.matching.shapes import threshold_index
from torch_ap.detection.metrics.voc_analyses import VocAnalyses
from torch_ap.detection.shapes import boxes

_FORMAT_DEFAULTS: dict[str, dict[str, Any]] = {
    "dota": {"box_format": "xyxyxyxy", "iou_type": "rotated", "interpolation": "11-point-arange", "strict": True},
    "activitynet": {"iou_type": "intervals", "iou_thresholds": np.linspace(0.5, 0.95, 10).tolist()},
}
_IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
_FORMATS_OF_OPTIONS = {
    "box_format": ("voc",),
    "images": ("yolo", "voc", "dota"),
    "names": ("yolo",),
    "subset": ("activitynet",),
    "exclusive_pixels": ("voc", "yolo"),
}


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    paths = Paths.from_args(args, args.detections)
    data = {path: _read(args, path) for path in paths.all}
    is_explained = {path: _note_causes(args, x, path) for path, x in data.items()}
    if len(data) > 1:
        data = _with_common_labels(data)
    first = next(iter(data.values()))
    class_names = dict(enumerate(first.class_names))
    groups = None if args.cluster is None else Clusters.read(args.cluster, "image").ids(first.images)

    def evaluate_path(path: str) -> Any:
        with warnings.catch_warnings():  # `_note_causes` has reported these boxes
            warnings.filterwarnings("ignore", r"\d+ of \d+ boxes in `preds`", UserWarning)
            evaluation = evaluate_images("VOCMeanAveragePrecision", _rules(args), data[path], groups)
        file_notes.note_copies(data[path].preds, path)
        text = unmatchable.describe(evaluation._settings, evaluation._columns())
        if text is not None and path == paths.all[0]:
            note(f"{args.ground_truths}: {text}")
        if not is_explained[path]:
            file_notes.note_no_match(evaluation, path)
        return evaluation

    def result_of(evaluation: Any) -> Result:
        if args.convention is not None:
            return ultralytics.result_of(evaluation, class_names, per_class=args.per_class)
        return _result_of(evaluation, class_names, per_class=args.per_class)

    files = None if args.images is None or args.report is None else _image_files(args, first.images)
    evaluations, results = evaluate(args, paths, evaluate_path, result_of, first.images, class_names, files)
    evaluation = next(iter(evaluations.values()))
    layout: Layout = ultralytics.UltralyticsLayout(evaluation)
    if args.convention is None:
        layout = VocLayout(args, evaluation._settings.thresholds)
    return write(args, paths, evaluations, results, layout, class_names, first.images)


def _with_common_labels(data: Mapping[str, VocData]) -> dict[str, VocData]:
    """Return the folders with common labels, because their classes may differ."""
    names, out = sorted({name for x in data.values() for name in x.class_names}), {}
    for path, x in data.items():
        label = torch.tensor([names.index(name) for name in x.class_names], dtype=torch.int64)
        preds, target = ({**side, "labels": label[side["labels"]]} for side in (x.preds, x.target))
        out[path] = replace(x, preds=preds, target=target, class_names=names)
    return out


def _result_of(evaluation: VocAnalyses, class_names: Mapping[int, str], *, per_class: bool) -> Result:
    """Return the means and the table of classes, with counts if requested."""
    numbers = evaluation.compute()
    labels, each = (numbers[name].reshape(-1).tolist() for name in ("classes", "map_per_class"))
    table = {"name": [class_names[label] for label in labels], "ap": each}
    if per_class:
        table |= {name: column[: len(labels)].tolist() for name, column in _counts(evaluation).items()}
    values = {"map": numbers["map"].item()}
    if "map_per_threshold" in numbers:
        means = numbers["map_per_threshold"].reshape(-1).tolist()
        values |= {f"map_{100 * x:.10g}": y for x, y in zip(evaluation._settings.thresholds, means, strict=True)}
    return Result(values, labels, table)


def _image_files(args: argparse.Namespace, images: Sequence[str]) -> list[str] | None:
    """Return the path of each image below the folder, by its name without the ending; None for a file of sizes."""
    root = Path(args.images)
    if not root.is_dir():
        if args.format == "yolo":
            return None
        raise ValueError(f"--images: {root} is no folder")
    files = (x for x in sorted(root.rglob("*")) if x.suffix.lower() in _IMAGE_ENDINGS)
    by_name = {x.relative_to(root).with_suffix("").as_posix(): str(x) for x in files}
    return [by_name.get(name, str(root / f"{Path(name).name}.jpg")) for name in images]


def _rules(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of the metric: the options, else the defaults of the format."""
    defaults = {"box_format": "xyxy", "iou_thresholds": 0.5, "interpolation": "all-points", "strict": False}
    defaults |= {"class_metrics": True, **_FORMAT_DEFAULTS.get(args.format, {})}
    listed = args.iou_thresholds
    threshold = listed[0] if listed is not None and len(listed) == 1 else listed
    options = {"interpolation": args.interpolation, "iou_thresholds": threshold, "strict": args.strict or None}
    chosen = {name: value for name, value in options.items() if value is not None}
    if args.convention is not None:
        exclude_options(args, ("exclusive_pixels",), "with --convention")
        shapes = {name: defaults[name] for name in ("class_metrics", "box_format", "iou_type") if name in defaults}
        return shapes | chosen | {"convention": args.convention}
    return defaults | chosen | {"inclusive_pixels": not (args.exclusive_pixels or args.format == "yolo")}


def _counts(evaluation: VocAnalyses) -> dict[str, Tensor]:
    """Return counts of each class at the IoU threshold 0.5, or the lowest if 0.5 is not among the thresholds."""
    matches = evaluation._matched(evaluation._columns(), None)[0]
    tp, fp = matches.counts_at(0, threshold_index(None, evaluation._settings.thresholds), float("-inf"))
    detections = segments.count(matches.ranked.category, matches.categories)
    return {"ground_truths": matches.relevant[0], "detections": detections, "tp": tp, "fp": fp}


class VocLayout(Layout):
    """A row per class, and the means.

    Args:
        args: arguments of the command.
        thresholds: IoU thresholds.
    """

    head = ("class",)
    digits = ".4f"

    def __init__(self, args: argparse.Namespace, thresholds: Sequence[float]) -> None:
        rules = _rules(args)
        rule, listed = "above" if rules["strict"] else "of at least", ", ".join(f"{x:.10g}" for x in thresholds)
        at = f", at {thresholds[threshold_index(None, thresholds)]:.10g}" if len(thresholds) > 1 else ""
        counts = f"; tp and fp of any score{at}" if args.per_class else ""
        self.title = f"AP at IoU {rule} {listed}, interpolation {rules['interpolation']}{counts}"

    def rows(self, result: Result) -> Rows:
        """Return the AP of each class, and the means."""
        classes = zip(result.classes["name"], result.classes["ap"], strict=True)
        return [*(((name,), ap) for name, ap in classes), *self._means(result)]

    def summary(self, result: Result) -> list[Part]:
        """Return the table of classes and means; "-" for classes without ground truths that count."""
        columns = {name: column for name, column in result.classes.items() if name != "name"}
        table = self.table("class", result.classes["name"], columns, self.title)
        means = [(*names, number(value), *[""] * (len(columns) - 1)) for names, value in self._means(result)]
        return [replace(table, rows=[*table.rows, *means])]

    def _means(self, result: Result) -> Rows:
        """Return the mean over classes; with several IoU thresholds also the mean at each."""
        means, *each = result.values.items()
        return [(("mean",), means[1]), *(((f"mean at {float(x[4:]) / 100:.10g}",), value) for x, value in each)]


def _read(args: argparse.Namespace, detections: str) -> VocData:
    """Read the folders or files.

    Raises:
        ValueError: for an option of another format, no detections, and boxes in fractions with inclusive pixels.
    """
    for option, formats in _FORMATS_OF_OPTIONS.items():
        if args.format not in formats:
            exclude_options(args, (option,), f"with --format {args.format}")
    if args.images is not None and args.report is None and args.format != "yolo":
        raise ValueError("--images has no meaning without --report")
    truths, empty = args.ground_truths, args.allow_empty
    if args.format == "dota":
        data = read_dota(truths, detections, allow_empty=empty)
    elif args.format == "activitynet":
        data = read_activitynet(truths, detections, args.subset or "validation", allow_empty=empty)
    elif args.format == "yolo":
        data = read_yolo(truths, detections, args.images, args.names, allow_empty=empty)
    else:
        data = read_voc(truths, detections, args.box_format or "xyxy", allow_empty=empty)
    file_notes.check_not_empty(len(data.preds["labels"]), detections, empty)
    corners = data.target.get("boxes", torch.empty(0))
    is_fraction = len(corners) and float(corners.abs().max()) <= 1.1
    if is_fraction and not args.exclusive_pixels and args.format not in _FORMAT_DEFAULTS:
        raise ValueError(
            f"{args.ground_truths}: all boxes lie in [0, 1], and a size counts both its first and its last pixel: "
            "give --exclusive-pixels for boxes in fractions of the image's size, or --format yolo for YOLO's"
        )
    return data


def _note_causes(args: argparse.Namespace, data: VocData, path: str) -> bool:
    """Write notes on the detections; return whether one names the cause of a low value, or there is no detection."""
    names = dict(enumerate(data.class_names))
    box_format = "cxcywh" if args.format == "yolo" else args.box_format or "xyxy"
    preds, target = (_as_written(side, args.format, box_format, data.sizes) for side in (data.preds, data.target))
    causes = [*file_notes.low_value_causes(preds, target, box_format, names)] or _negative_sizes(args, data)
    for text in (*causes, *file_notes.classes_without_truths(data.preds, data.target, names)):
        note(f"{path}: {text}")
    return bool(causes) or not len(data.preds["labels"])


def _as_written(side: dict[str, Any], form: str, box_format: str, sizes: Tensor) -> dict[str, Any]:
    """Return boxes in the format of the files, as fractions for YOLO, and boxes around quadrilaterals."""
    if "boxes" not in side:
        return side
    shapes = side["boxes"]
    if form == "dota":
        points = shapes.reshape(-1, 4, 2)
        shapes = torch.cat([points.amin(1), points.amax(1)], 1)
    elif form == "yolo":
        shapes = shapes / sizes.repeat(1, 2).repeat_interleave(side["counts"], 0)
    return {**side, "boxes": boxes.from_xywh(boxes.to_xywh(shapes, "xyxy"), box_format)}


def _negative_sizes(args: argparse.Namespace, data: VocData) -> list[str]:
    """Return a note on detections of negative size, for lists without a likelier cause."""
    if args.format in _FORMAT_DEFAULTS:
        return []
    negative = negative_sizes(data.preds["boxes"], "xyxy", data.preds["counts"])
    if negative is None:
        return []
    count, image = f"{negative.total} of {len(data.preds['boxes'])}", short_repr(data.images[negative.image])
    return [
        f"{count} boxes have x2 < x1 or y2 < y1, the first in image {image}, corners {short_repr(negative.box)}: are "
        "corners swapped, or is --box-format another?"
    ]
