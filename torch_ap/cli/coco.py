"""``torch-ap coco``: COCO's numbers of results files."""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torch_ap.analysis.box_faults import Evidence
from torch_ap.analysis.encodings import PLAIN, Encoding
from torch_ap.cli import annotation_notes, detectors, diagnosis, images, shape_diagnosis
from torch_ap.cli.image_tables import Form, Rows
from torch_ap.cli.images import Columns, Found
from torch_ap.cli.notes import note
from torch_ap.detection import MeanAveragePrecision
from torch_ap.files import lvis
from torch_ap.files.coco import CocoData, read_annotations, with_results
from torch_ap.geometry import keypoints
from torch_ap.matching.shape_settings import place_of_threshold
from torch_ap.metrics.coco_tables import CocoTables
from torch_ap.metrics.images import DetectionMetric
from torch_ap.rules.class_names import names_of

_ENCODING = Encoding(PLAIN["xywh"])
_LINE = " {:<18} {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3s} ] = {value:0.3f}"
_SIGNS = {"Average Precision": "(AP)", "Average Recall": "(AR)"}
_ALL = "all"  # classes
_FEW = 3  # IoU thresholds that are told one by one


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    if args.sigmas is not None and args.iou_type != "keypoints":
        raise ValueError("--sigmas has no meaning without --iou-type keypoints")
    paths = images.paths_of(args, args.results)
    annotations = read_annotations(args.annotations, args.iou_type)
    if lvis.has_fields(annotations.entries):
        note(
            f"{args.annotations}: has LVIS's lists, `neg_category_ids` or `not_exhaustive_category_ids`, of which "
            "COCO's rules know nothing: detections of categories that nobody looked for in an image count as wrong; "
            "torch-ap lvis has LVIS's rules"
        )
    for said in annotation_notes.of(annotations, "COCO", "iscrowd"):
        note(f"{args.annotations}: {said}")
    _check_sigmas(args, args.annotations, annotations.target)

    def metric_of(path: str) -> MeanAveragePrecision:
        data = with_results(annotations, path)
        images.note_copies(data.preds, path)
        named = noted(args, data, path)
        _check_sigmas(args, path, data.preds)
        metric = _metric(data, args)
        if not named:
            images.note_no_match(metric, path, "a keypoint similarity" if args.iou_type == "keypoints" else "an IoU")
        return metric

    names = annotations.class_names
    found_of = partial(found_in, per_class=args.per_class, class_names=names)
    detectors.write(args, paths, metric_of, found_of, _form, images=annotations.images, class_names=names)
    return 0


def noted(args: argparse.Namespace, data: CocoData, results: str) -> bool:
    """Whether there was a note on what is likely wrong with the results, or they are none."""
    detections = len(data.preds["labels"]) if isinstance(data.preds, Mapping) else sum(map(_detections, data.preds))
    images.refuse_empty(detections, results, args.allow_empty)
    poses = isinstance(data.preds, Mapping) and "keypoints" in data.preds
    shape = "`keypoints` as [x, y, a third number, ...]" if poses else "`bbox` as [x, y, width, height]"
    preds, target = (_boxed(side) if poses else side for side in (data.preds, data.target))
    if poses and not (_extended(preds) and _extended(target)):
        return not detections
    evidence = Evidence(
        *(preds, target, data.sizes, "xywh"),
        given=_ENCODING,
        remedy=f"write {shape} in pixels of the image",
        true=_ENCODING,
    )
    likely = [*shape_diagnosis.causes(data)] or [*diagnosis.causes(evidence, data.class_names)]
    for cause in likely:
        note(f"{results}: {cause}")
    return bool(likely) or not detections


def _detections(image: Mapping[str, Any]) -> int:
    return len(image["labels"])


def _boxed(side: Any) -> dict[str, Any]:
    """Packed images with the boxes around keypoints; around those that are labelled, if any is, of ground truths."""
    points, seen = side["keypoints"][..., :2], side["keypoints"][..., 2:] > 0
    kept = seen | ~seen.any(1, keepdim=True) if "boxes" in side else torch.ones_like(seen)
    low, high = points.where(kept, torch.inf).amin(1), points.where(kept, -torch.inf).amax(1)
    return {**side, "boxes": torch.cat([low, high - low], 1)}


def _extended(side: Any) -> bool:
    """Whether boxes around keypoints say where objects are: those around single points have no area to overlap."""
    sizes = side["boxes"][:, 2:]
    return not len(sizes) or bool((sizes > 0).all(1).any())


def _check_sigmas(args: argparse.Namespace, path: str, side: Any) -> None:
    """There is a sigma for each keypoint."""
    points = side.get("keypoints") if isinstance(side, Mapping) else None
    wanted = len(keypoints.SIGMAS if args.sigmas is None else args.sigmas)
    if points is not None and len(points) and points.shape[1] != wanted:
        given = "COCO's 17, which are meant without --sigmas" if args.sigmas is None else str(wanted)
        raise ValueError(f"{path}: has {points.shape[1]} keypoints an object, and needs as many --sigmas, got {given}")


def _metric(data: CocoData, args: argparse.Namespace) -> MeanAveragePrecision:
    """It has seen all images; the page and errors ask for shapes, all else for matches alone."""
    metric = MeanAveragePrecision(
        "xywh",
        args.iou_type,
        args.iou_thresholds,
        max_detection_thresholds=args.max_detections,
        area_ranges=args.areas,
        sigmas=args.sigmas,
        area_as_given=True,
        match="compute" if args.report or args.errors else "update",
    )
    metric.warn_on_many_detections = False
    metric.update(data.preds, data.target)
    return metric


def found_in(metric: DetectionMetric, *, per_class: bool, class_names: Mapping[int, str]) -> Found:
    """The numbers by torchmetrics' names, without those of single classes, and the table of these if wanted."""
    assert isinstance(metric, CocoTables)
    numbers = metric.compute().items()
    values = {name: x.item() for name, x in numbers if name != "classes" and not name.endswith("_per_class")}
    table = _class_table(metric, class_names) if per_class else {}
    return Found(values["map"], values, table.get("class", []), table)


def _class_table(metric: CocoTables, class_names: Mapping[int, str]) -> Columns:
    """A row per class."""
    table = {x: v.tolist() if isinstance(v, Tensor) else v for x, v in metric.per_class(_counted_at(metric)).items()}
    return table | {"name": names_of(torch.tensor(table["class"], dtype=torch.int64), class_names)}


def rows_of(metric: CocoTables, found: Found) -> Rows:
    """Of each number what it is, IoU, area, most detections and group of classes; and its value."""
    settings = metric._settings
    areas, limits = list(settings.areas), list(map(str, settings.limits))
    last, every, (first, *others) = limits[-1], _thresholds(metric), areas
    precision, recall = _SIGNS
    at = [x for x in (0.5, 0.75) if x in settings.thresholds and len(settings.thresholds) > 1]
    rows = [
        ((precision, every, first, last, _ALL), "map"),
        *(((precision, f"{x:.2f}", first, last, _ALL), f"map_{100 * x:.0f}") for x in at),
        *(((precision, every, name, last, _ALL), f"map_{name}") for name in others),
        *(((precision, every, first, last, group), f"map_{group}") for group in settings.groups),
        *(((recall, every, first, most, _ALL), f"mar_{most}") for most in limits),
        *(((recall, f"{x:.2f}", first, last, _ALL), f"mar_iou_{100 * x:.0f}") for x in at if x in settings.recall_at),
        *(((recall, every, name, last, _ALL), f"mar_{name}") for name in others),
    ]
    return [(names, found.values[key]) for names, key in rows]


def line_of(line: str, names: tuple[str, ...], value: float) -> str:
    """A line in the form of pycocotools or lvis."""
    return line.format(names[0], _SIGNS[names[0]], *names[1:], value=value)


def _form(metric: DetectionMetric) -> Form:
    """COCO's twelve numbers, ten for keypoints."""
    assert isinstance(metric, CocoTables)
    return Form(
        head=("", "IoU", "area", "maxDets"),
        rows=lambda one: [(names[:4], value) for names, value in rows_of(metric, one)],
        first=lambda one: [line_of(_LINE, names, value) for names, value in rows_of(metric, one)],
        title="",
        classes=class_title(metric),
        digits=".3f",
    )


def _thresholds(metric: CocoTables) -> str:
    found = metric._settings.thresholds
    return ",".join(f"{x:.2f}" for x in found) if len(found) < _FEW else f"{found[0]:0.2f}:{found[-1]:0.2f}"


def _counted_at(metric: CocoTables) -> float:
    """The IoU of true and false positives: 0.5, or the lowest where that is none of those asked for."""
    known = metric._settings.thresholds
    return known[place_of_threshold(None, known)]


def class_title(metric: CocoTables, name: Callable[[str], str] = str) -> str:
    """Of the table of classes, whose columns have a ``name``."""
    ap, ar = map(name, ("ap", "ar"))
    at = "".join(f", {name(f'ap_{100 * x:.0f}')} at {x:.2f}" for x in (0.5, 0.75) if x in metric._settings.thresholds)
    return (
        f"Each class: {ap} and {ar} over IoU {_thresholds(metric)}{at}; "
        f"tp and fp at {_counted_at(metric):0.2f}, of any score"
    )
