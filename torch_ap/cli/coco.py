"""``torch-ap coco``: numbers of COCO for results files."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_ap.cli import file_notes, gates, ultralytics
from torch_ap.cli.detectors import Paths, Result, best_of_lists, evaluate, evaluate_images, gates_of_lists
from torch_ap.cli.diagnosis import ErrorReport, OperatingPointReport
from torch_ap.cli.image_tables import DetectorReport, Layout, Rows
from torch_ap.cli.notes import note
from torch_ap.cli.options import exclude_options
from torch_ap.cli.suspicious import SuspiciousLabelsReport
from torch_ap.cli.tables import Part, Report, number
from torch_ap.core.base.class_names import ClassNames, label_names
from torch_ap.core.base.messages import short_repr, suggest_id
from torch_ap.detection.files import entries, lvis
from torch_ap.detection.files.coco import CocoAnnotations, CocoData, read_annotations, read_results, select
from torch_ap.detection.matching.shapes import threshold_index
from torch_ap.detection.metrics.analyses import DetectionAnalyses
from torch_ap.detection.metrics.voc_analyses import VocAnalyses
from torch_ap.detection.shapes import keypoints
from torch_ap.inference.groups import ids_of_groups

_SIGNS = {"Average Precision": "(AP)", "Average Recall": "(AR)"}
_MAX_LISTED = 2  # IoU thresholds; of more, only the first and the last appear


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    _check_options(args)
    paths = Paths.from_args(args, args.results)
    annotations = _read_annotations(args)
    images = _ids_of(args.img_ids, annotations.images, "--img-ids", args.annotations)
    categories = _ids_of(args.cat_ids, annotations.class_names, "--cat-ids", args.annotations)
    if args.no_cats:
        several = ("per_class", "errors", "suspicious_labels", "operating_points")
        exclude_options(args, several, "with --no-cats, which has one category")

    def read(path: str) -> CocoData:
        data = read_results(annotations, path)
        return data if images is None and categories is None else select(data, images, categories)

    def options_of(data: CocoData, path: str) -> dict[str, Any]:
        _check_sigmas(args, path, data.preds)
        options = {"box_format": "xywh", "iou_type": args.iou_type, "iou_thresholds": args.iou_thresholds}
        if args.convention is not None:
            return options | {"convention": args.convention, "class_metrics": True}
        return options | {
            "max_detection_thresholds": args.max_detections,
            "average": "micro" if args.no_cats else "macro",
            "area_ranges": args.areas,
            "sigmas": args.sigmas,
            "use_given_area": True,
        }

    by_coco = args.convention is None
    metric_name = "MeanAveragePrecision" if by_coco else "VOCMeanAveragePrecision"
    layout = CocoLayout if by_coco else ultralytics.UltralyticsLayout
    return evaluate_results(args, paths, annotations, read, metric_name, options_of, layout, images, categories)


def _check_options(args: argparse.Namespace) -> None:
    """Raise ValueError for options that cannot be combined."""
    if args.convention is not None:
        exclude_options(args, ("areas", "max_detections", "no_cats"), "with --convention")
    if args.sigmas is not None and args.iou_type != "keypoints":
        raise ValueError("--sigmas has no meaning without --iou-type keypoints")


def _read_annotations(args: argparse.Namespace) -> CocoAnnotations:
    """Read the ground truths, and write notes on them."""
    annotations = read_annotations(args.annotations, args.iou_type)
    if lvis.has_fields(annotations.entries):
        note(
            f"{args.annotations}: has LVIS's lists, `neg_category_ids` or `not_exhaustive_category_ids`, which COCO's "
            "rules ignore: detections of categories that were not annotated in an image count as wrong; torch-ap lvis "
            "applies LVIS's rules"
        )
    for text in file_notes.annotation_notes(annotations, "COCO", "iscrowd"):
        note(f"{args.annotations}: {text}")
    _check_sigmas(args, args.annotations, annotations.target)
    return annotations


def _ids_of(listed: Sequence[str] | None, known: Iterable[Any], option: str, path: str) -> list[Any] | None:
    """Return the ids of an option, in the type of the file; None without the option."""
    by_text = {str(x): x for x in known}
    for unknown in (x for x in listed or () if x not in by_text):
        raise ValueError(f"{option}: {path} has no {short_repr(unknown)}{suggest_id(unknown, by_text.values())}")
    return None if listed is None else [by_text[x] for x in listed]


def evaluate_results(
    args: argparse.Namespace,
    paths: Paths,
    annotations: CocoAnnotations,
    read: Callable[[str], Any],
    metric_name: str,
    options_of: Callable[[Any, str], Mapping[str, Any]],
    layout_of: Callable[[Any], Layout],
    images: Sequence[Any] | None = None,
    categories: Sequence[int] | None = None,
) -> int:
    """Evaluate results files, print, and return the exit status, for COCO and LVIS.

    Args:
        args: arguments of the command.
        paths: paths of the results.
        annotations: content of the annotation file.
        read: returns the data of a path.
        metric_name: name of the metric class.
        options_of: returns the arguments of the metric for the data of a path.
        layout_of: returns the layout for evaluated images.
        images: ids of the evaluated images; None for all.
        categories: ids of the evaluated categories; None for all.
    """
    class_names = annotations.class_names
    evaluated = [x for x in annotations.images if images is None or x in images]
    groups = None if args.cluster is None else _clusters_of_images(args, annotations, evaluated)

    def evaluate_path(path: str) -> Any:
        data = read(path)
        file_notes.note_copies(data.preds, path)
        is_explained = _note_causes(args, data, path)
        evaluation = evaluate_images(metric_name, options_of(data, path), data, groups)
        if not is_explained:
            similarity = "a keypoint similarity" if args.iou_type == "keypoints" else "an IoU"
            file_notes.note_no_match(evaluation, path, similarity)
        return evaluation

    def result_of(evaluation: Any) -> Result:
        if isinstance(evaluation, VocAnalyses):
            return ultralytics.result_of(evaluation, class_names, per_class=args.per_class)
        numbers = evaluation.compute().items()
        values = {name: x.item() for name, x in numbers if name != "classes" and not name.endswith("_per_class")}
        table: dict[str, list[Any]] = {}
        if args.per_class:
            columns = evaluation.per_class(_count_threshold(evaluation)).items()
            table = {name: x.tolist() if isinstance(x, Tensor) else x for name, x in columns}
            table["name"] = label_names(torch.tensor(table["class"], dtype=torch.int64), class_names)
        return Result(values, table.get("class", []), table)

    image_files = None if args.images is None else _image_files(args.images, annotations, evaluated)
    metrics, results = evaluate(args, paths, evaluate_path, result_of, evaluated, class_names, image_files)
    ids = _annotation_ids(annotations, evaluated, categories) if args.suspicious_labels else None
    layout = layout_of(next(iter(metrics.values())))
    return write(args, paths, metrics, results, layout, class_names, evaluated, ids)


def _image_files(folder: str, annotations: CocoAnnotations, images: Sequence[Any]) -> list[str]:
    """Return the path of each evaluated image: its ``file_name`` below the folder, or its id without one.

    A ``file_name`` that leads out of the folder is reduced to its last part.
    """
    root, evaluated, files = Path(folder).resolve(), set(images), []
    if not root.is_dir():
        raise ValueError(f"--images: {folder} is no folder")
    for image, entry in zip(annotations.images, annotations.entries.entries, strict=True):
        if image in evaluated:
            name = entry.get("file_name")
            name = name if isinstance(name, str) and name and "\0" not in name else str(image)
            path = (root / name).resolve()
            files.append(str(path if path.is_relative_to(root) else root / path.name))
    return files


def _annotation_ids(
    annotations: CocoAnnotations, images: Sequence[Any], categories: Sequence[int] | None
) -> list[list[Any]]:
    """Return the ids of the annotations of each evaluated image, in the order of its ground truths; None without id."""
    ids: dict[Any, list[Any]] = {image: [] for image in images}
    for entry in annotations.truths.entries:
        if entry["image_id"] in ids and (categories is None or entry["category_id"] in categories):
            ids[entry["image_id"]].append(entry.get("id"))
    return list(ids.values())


def _clusters_of_images(args: argparse.Namespace, annotations: CocoAnnotations, images: Sequence[Any]) -> Tensor:
    """Return the number of the cluster of each evaluated image, (B,) int64.

    Raises:
        ValueError: for an image whose entry lacks the key or has a value that is neither an integer nor text; names
            file and entry.
    """
    evaluated = set(images)
    rows = [row for row, image in enumerate(annotations.images) if image in evaluated]
    field = entries.Field([entries.INTEGER_OR_TEXT], hint=" (--cluster)")
    names = dict(enumerate(annotations.entries.reordered(rows).values(args.cluster, field)))
    return ids_of_groups(list(names), names, "image")


def write(
    args: argparse.Namespace,
    paths: Paths,
    metrics: Mapping[str, DetectionAnalyses],
    results: Mapping[str, Result],
    layout: Layout,
    class_names: ClassNames,
    images: Sequence[Any],
    annotation_ids: Sequence[Sequence[Any]] | None = None,
) -> int:
    """Write the results of a detection command, with the requested further reports; return the status.

    Args:
        args: arguments of the command.
        paths: paths of the lists.
        metrics: evaluated images of each list by path.
        results: result of each list by name.
        layout: presentation of the numbers.
        class_names: names of the labels.
        images: ids or names of the images.
        annotation_ids: ids of the ground truths of each image, for suspicious labels; None if the files have none.
    """
    if args.best:
        best_of_lists(args, paths, metrics, layout.key("map"), images).write(args.form)
        return 0
    metric, further = next(iter(metrics.values())), dict[str, Report]()
    if args.errors:
        further["errors"] = ErrorReport(metric, class_names, per_class=args.per_class, ap=layout.key("ap"))
    if args.operating_points:
        further["operating_points"] = OperatingPointReport(args, metric, class_names)
    if args.suspicious_labels:
        further["suspicious_labels"] = _suspicious_labels(paths, metrics, class_names, images, annotation_ids)
    tested = gates_of_lists(args, paths, metrics, layout.key("map"))
    return gates.write(args, DetectorReport(args, paths, results, layout, further), tested)


def _suspicious_labels(
    paths: Paths,
    metrics: Mapping[str, Any],
    class_names: ClassNames,
    images: Sequence[Any],
    annotation_ids: Sequence[Sequence[Any]] | None,
) -> SuspiciousLabelsReport:
    """Return the report on the labels that the first list contradicts and no list detects; arguments as for `write`."""
    (path, metric), *others = metrics.items()
    labels = metric.suspicious_labels([x for _, x in others], class_names=class_names)

    def id_of(row: dict[str, Any], column: str) -> Any:
        place = row[column]
        return None if place < 0 else place if annotation_ids is None else annotation_ids[row["image"]][place]

    names = ("ground_truth", "other") if annotation_ids is None else ("annotation", "other_annotation")
    ids: dict[str, Any] = {"image": lambda row: images[row["image"]]}
    for name, column in zip(names, ("ground_truth", "other"), strict=True):
        ids[name] = partial(id_of, column=column)
    hidden = ("detection",) if annotation_ids is None else ("detection", "ground_truth", "other")
    of_list = f" of {paths.names[path]}" if others else ""
    iou = metric._matches_at(class_names={}).iou_threshold
    title = f"Suspicious labels{of_list} at IoU {iou:g}, AP {number(labels.value)}"
    return SuspiciousLabelsReport(labels, f"{title}: the change of AP if a label were corrected", ids, hidden)


def _note_causes(args: argparse.Namespace, data: CocoData, path: str) -> bool:
    """Write notes on the likely cause of a low value; return whether there is one, or no detection at all."""
    preds, target = data.preds, data.target
    detections = len(preds["labels"]) if isinstance(preds, Mapping) else sum(len(x["labels"]) for x in preds)
    file_notes.check_not_empty(detections, path, args.allow_empty)
    if isinstance(preds, Mapping) and "keypoints" in preds:
        preds, target = _with_boxes(preds), _with_boxes(target)
        if not (_has_area(preds) and _has_area(target)):
            return not detections
    causes = [*file_notes.low_value_causes(preds, target, "xywh", data.class_names)]
    if args.iou_type == "bbox":
        causes = causes or [*file_notes.detections_in_other_units(preds, target, data.sizes)]
    for cause in causes:
        note(f"{path}: {cause}")
    return bool(causes) or not detections


def _with_boxes(side: Any) -> dict[str, Any]:
    """Return packed images with boxes around keypoints; of ground truths, around the labelled ones, if any."""
    points, labelled = side["keypoints"][..., :2], side["keypoints"][..., 2:] > 0
    inside = labelled | ~labelled.any(1, keepdim=True) if "boxes" in side else torch.ones_like(labelled)
    low, high = points.where(inside, torch.inf).amin(1), points.where(inside, -torch.inf).amax(1)
    return {**side, "boxes": torch.cat([low, high - low], 1)}


def _has_area(side: Any) -> bool:
    """Whether any box has an area; boxes around single keypoints cannot overlap."""
    sizes = side["boxes"][:, 2:]
    return not len(sizes) or bool((sizes > 0).all(1).any())


def _check_sigmas(args: argparse.Namespace, path: str, side: Any) -> None:
    """Raise ValueError unless there is a sigma for each keypoint."""
    points = side.get("keypoints") if isinstance(side, Mapping) else None
    sigmas = len(keypoints.SIGMAS if args.sigmas is None else args.sigmas)
    if points is not None and len(points) and points.shape[1] != sigmas:
        value = "the 17 of COCO, the default" if args.sigmas is None else str(sigmas)
        raise ValueError(f"{path}: has {points.shape[1]} keypoints per object and needs as many --sigmas, got {value}")


class CocoLayout(Layout):
    """The twelve numbers of COCO, ten for keypoints, in the lines of pycocotools.

    Args:
        evaluation: evaluated images of one of the lists.
    """

    line = " {:<18} {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3s} ] = {value:0.3f}"
    head: tuple[str, ...] = ("", "IoU", "area", "maxDets")

    def __init__(self, evaluation: DetectionAnalyses) -> None:
        self.settings = evaluation._settings
        ap, ar = map(self.label, ("ap", "ar"))
        fixed = (x for x in (0.5, 0.75) if x in self.settings.thresholds)
        further = "".join(f", {self.label(f'ap_{100 * x:.0f}')} at {x:.2f}" for x in fixed)
        self.classes_title = (
            f"Each class: {ap} and {ar} over IoU {self._thresholds()}{further}; "
            f"tp and fp at {_count_threshold(evaluation):0.2f}, of any score"
        )

    def rows(self, result: Result) -> Rows:
        """Return measure, IoU, area and limit on detections of each number, and its value."""
        return [(names[:4], value) for names, value in self.all_rows(result)]

    def summary(self, result: Result) -> list[Part]:
        """Return the lines of pycocotools."""
        return [self.line.format(names[0], _SIGNS[names[0]], *names[1:], value=x) for names, x in self.all_rows(result)]

    def all_rows(self, result: Result) -> Rows:
        """Return measure, IoU, area, limit on detections and group of classes of each number, and its value."""
        settings = self.settings
        areas, limits = list(settings.areas), list(map(str, settings.limits))
        last, iou, (first, *others) = limits[-1], self._thresholds(), areas
        precision, recall = _SIGNS
        fixed = [x for x in (0.5, 0.75) if x in settings.thresholds and len(settings.thresholds) > 1]
        rows = [
            ((precision, iou, first, last, "all"), "map"),
            *(((precision, f"{x:.2f}", first, last, "all"), f"map_{100 * x:.0f}") for x in fixed),
            *(((precision, iou, name, last, "all"), f"map_{name}") for name in others),
            *(((precision, iou, first, last, group), f"map_{group}") for group in settings.groups),
            *(((recall, iou, first, most, "all"), f"mar_{most}") for most in limits),
            *(
                ((recall, f"{x:.2f}", first, last, "all"), f"mar_iou_{100 * x:.0f}")
                for x in fixed
                if x in settings.recall_at
            ),
            *(((recall, iou, name, last, "all"), f"mar_{name}") for name in others),
        ]
        return [(names, result.values[key]) for names, key in rows]

    def _thresholds(self) -> str:
        thresholds = self.settings.thresholds
        if len(thresholds) <= _MAX_LISTED:
            return ",".join(f"{x:.2f}" for x in thresholds)
        return f"{thresholds[0]:0.2f}:{thresholds[-1]:0.2f}"


def _count_threshold(evaluation: DetectionAnalyses) -> float:
    """Return the IoU threshold of true and false positives: 0.5, or the lowest if 0.5 is not among the thresholds."""
    thresholds: Sequence[float] = evaluation._settings.thresholds
    return thresholds[threshold_index(None, thresholds)]
