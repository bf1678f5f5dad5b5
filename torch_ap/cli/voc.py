"""``torch-ap voc``: PASCAL VOC's average precision of folders of ground truths and detections."""

import argparse
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.analysis.box_faults import Evidence
from torch_ap.analysis.encodings import CORNERS, PLAIN, Encoding
from torch_ap.cli import detectors, diagnosis, images
from torch_ap.cli.image_tables import Form, Rows
from torch_ap.cli.images import Found
from torch_ap.cli.notes import note
from torch_ap.cli.tables import Table, number
from torch_ap.detection import VOCMeanAveragePrecision
from torch_ap.files.activitynet import read_activitynet
from torch_ap.files.box_rows import VocData
from torch_ap.files.dota import read_dota
from torch_ap.files.voc import read_voc
from torch_ap.files.yolo import DETECTED as YOLO_FORM
from torch_ap.files.yolo import read_yolo
from torch_ap.matching.shape_settings import place_of_threshold
from torch_ap.metrics.images import DetectionMetric
from torch_ap.ranking import segments
from torch_ap.rules.detections import negative_sizes
from torch_ap.rules.messages import shown

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
    paths = images.paths_of(args, args.detections)
    read = {path: _read(args, path) for path in paths.every}
    noted = {path: _noted(args, data, path) for path, data in read.items()}
    names = sorted({name for data in read.values() for name in data.class_names}) if len(read) > 1 else None
    read = {path: data if names is None else _renamed(data, names) for path, data in read.items()}
    data = next(iter(read.values()))
    class_names = dict(enumerate(data.class_names))
    found_of = partial(_found, args=args, class_names=class_names)
    form_of = partial(_form, args=args)

    def metric_of(path: str) -> VOCMeanAveragePrecision:
        metric = _metric(args, read[path])
        images.note_copies(read[path].preds, path)
        if not noted[path]:
            images.note_no_match(metric, path)
        return metric

    detectors.write(args, paths, metric_of, found_of, form_of, images=data.images, class_names=class_names)
    return 0


def _renamed(data: VocData, names: list[str]) -> VocData:
    """The same with labels by the names of several folders, whose classes may differ."""
    label = torch.tensor([names.index(name) for name in data.class_names], dtype=torch.int64)
    preds, target = ({**side, "labels": label[side["labels"]]} for side in (data.preds, data.target))
    return replace(data, preds=preds, target=target, class_names=names)


def _metric(args: argparse.Namespace, data: VocData) -> VOCMeanAveragePrecision:
    metric = VOCMeanAveragePrecision(**_rules(args), class_metrics=True)
    with warnings.catch_warnings():  # of boxes, of which `_read` says more
        warnings.filterwarnings("ignore", r"\d+ of \d+ boxes in `preds`", UserWarning)
        metric.update(data.preds, data.target)
    return metric


def _rules(args: argparse.Namespace) -> dict[str, Any]:
    """Arguments of the metric: what the options say, else what is usual for the format."""
    usual = {"box_format": "xyxy", "iou_threshold": 0.5, "interpolation": "all-points", "strict": False}
    usual |= _USUAL.get(args.format, {})
    several = args.iou_thresholds
    thresholds = several if several is None or len(several) > 1 else several[0]
    given = {"interpolation": args.interpolation, "iou_threshold": thresholds, "strict": args.strict or None}
    said = {name: value for name, value in given.items() if value is not None}
    return usual | said | {"inclusive_pixels": not (args.exclusive_pixels or args.format == "yolo")}


def _found(metric: DetectionMetric, *, args: argparse.Namespace, class_names: Mapping[int, str]) -> Found:
    """The means and a row per class; ``ap`` is NaN where no ground truth counts."""
    assert isinstance(metric, VOCMeanAveragePrecision)
    numbers = metric.compute()
    labels, each = numbers["classes"].reshape(-1).tolist(), numbers["map_per_class"].reshape(-1).tolist()
    table = {"name": [class_names[label] for label in labels], "ap": each}
    if args.per_class:
        table |= {name: column[: len(labels)].tolist() for name, column in _counts(metric).items()}
    values = {"map": numbers["map"].item()}
    if "map_per_threshold" in numbers:
        means = numbers["map_per_threshold"].reshape(-1).tolist()
        values |= {f"map_{_named(100 * x)}": y for x, y in zip(metric._settings.thresholds, means, strict=True)}
    return Found(values["map"], values, labels, table)


def _counts(metric: VOCMeanAveragePrecision) -> dict[str, Tensor]:
    """Of each class, at the IoU threshold 0.5, or the lowest where that is none of those asked for."""
    known = metric._settings.thresholds
    matches = metric._matched(metric._columns(), None)[0]
    tp, fp = matches.counts_at(0, place_of_threshold(None, known), float("-inf"))
    detections = segments.count(matches.ranked.category, matches.categories)
    return {"ground_truths": matches.relevant[0], "detections": detections, "tp": tp, "fp": fp}


def _form(metric: DetectionMetric, *, args: argparse.Namespace) -> Form:
    """A line per class, and the means."""
    form = Form(
        head=("class",),
        rows=_rows,
        first=lambda one: [_table(one, form)],
        title=_title(args, metric._settings.thresholds),
        classes=None,
        digits=".4f",
    )
    return form


def _rows(found: Found) -> Rows:
    each = zip(found.classes["name"], found.classes["ap"], strict=True)
    return [*(((name,), ap) for name, ap in each), *_means(found)]


def _means(found: Found) -> Rows:
    """That over classes, and of several IoU thresholds those at each."""
    at = [
        ((f"mean at {_named(float(name[4:]) / 100)}",), value) for name, value in found.values.items() if name != "map"
    ]
    return [(("mean",), found.mean), *at]


def _named(threshold: float) -> str:
    """In as many digits as tell any two apart that are different, and no more."""
    return f"{threshold:.10g}"


def _title(args: argparse.Namespace, thresholds: Sequence[float]) -> str:
    rules = _rules(args)
    rule = "above" if rules["strict"] else "of at least"
    place = ", ".join(map(_named, thresholds))
    at = f", at {_named(thresholds[place_of_threshold(None, thresholds)])}" if len(thresholds) > 1 else ""
    counts = f"; tp and fp of any score{at}" if args.per_class else ""
    return f"AP at IoU {rule} {place}, interpolation {rules['interpolation']}{counts}"


def _table(found: Found, form: Form) -> Table:
    """The classes and the means; "-" where a class has no ground truths that count."""
    columns = {name: column for name, column in found.classes.items() if name != "name"}
    table = form.table("class", found.classes["name"], columns, form.title)
    means = [(*names, number(value), *("" for _ in [*columns][1:])) for names, value in _means(found)]
    return replace(table, rows=[*table.rows, *means])


def _read(args: argparse.Namespace, detections: str) -> VocData:
    """The content of the folders or files."""
    for option, formats in _OPTIONS.items():
        if getattr(args, option) and args.format not in formats:
            raise ValueError(f"--{option.replace('_', '-')} has no meaning with --format {args.format}")
    data = _of_format(args, detections)
    images.refuse_empty(len(data.preds["labels"]), detections, args.allow_empty)
    truths = data.target.get("boxes", torch.empty(0))
    if len(truths) and float(truths.abs().max()) <= 1.1 and not args.exclusive_pixels and args.format not in _USUAL:
        raise ValueError(
            f"{args.ground_truths}: all boxes lie in [0, 1], and a size counts both its first and its last pixel: "
            "give --exclusive-pixels for boxes in fractions of the image's size, or --format yolo for YOLO's"
        )
    return data


def _of_format(args: argparse.Namespace, detections: str) -> VocData:
    truths, empty = args.ground_truths, args.allow_empty
    if args.format == "dota":
        return read_dota(truths, detections, allow_empty=empty)
    if args.format == "activitynet":
        return read_activitynet(truths, detections, args.subset or "validation", allow_empty=empty)
    if args.format == "yolo":
        return read_yolo(truths, detections, args.images, args.names, allow_empty=empty)
    return read_voc(truths, detections, args.box_format or "xyxy", allow_empty=empty)


def _noted(args: argparse.Namespace, data: VocData, detections: str) -> bool:
    """Whether there was a note on what is likely wrong with the detections, or they are none."""
    evidence, names = _evidence(args, data), dict(enumerate(data.class_names))
    causes = [*diagnosis.causes(evidence, names)] or _negative_sizes(args, data)
    for cause in (*causes, *diagnosis.without_truths(evidence, names)):
        note(f"{detections}: {cause}")
    return bool(causes) or not len(data.preds["labels"])


def _evidence(args: argparse.Namespace, data: VocData) -> Evidence:
    """What was read, of quadrilaterals the boxes around them."""
    yolo = args.format == "yolo"
    if args.format == "dota":
        remedy = "write the corners as x1 y1 x2 y2 x3 y3 x4 y4 in pixels"
        return Evidence(_around(data.preds), _around(data.target), data.sizes, remedy=remedy)
    given = args.box_format or "xyxy"
    xml = not yolo and any(Path(args.ground_truths).glob("*.xml"))
    form = f"{YOLO_FORM}, in fractions" if yolo else f"class, score, {PLAIN[given]}, in pixels"
    return Evidence(
        *(data.preds, data.target, data.sizes),
        given=_YOLO if yolo else Encoding(PLAIN[given], score="first"),
        remedy=f"write lines of {form}",
        true=replace(_YOLO, score="") if yolo else CORNERS if xml else Encoding(PLAIN[given]),
        option="--box-format" if xml else "",
    )


def _around(side: dict[str, Any]) -> dict[str, Any]:
    """The boxes around quadrilaterals."""
    points = side["boxes"].reshape(-1, 4, 2)
    return {**side, "boxes": torch.cat([points.amin(1), points.amax(1)], 1)}


def _negative_sizes(args: argparse.Namespace, data: VocData) -> list[str]:
    """What to say of detections of negative size, where no likelier cause is known."""
    found = None if args.format in _USUAL else negative_sizes(data.preds["boxes"], "xyxy", data.preds["counts"])
    if found is None:
        return []
    many, image, box = f"{found.total} of {len(data.preds['boxes'])}", shown(data.images[found.image]), shown(found.box)
    return [
        f"{many} boxes have x2 < x1 or y2 < y1, the first in image {image}, corners {box}: are corners swapped, or is "
        "--box-format another?"
    ]
