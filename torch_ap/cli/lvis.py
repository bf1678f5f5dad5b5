"""``torch-ap lvis``: LVIS's numbers of results files."""

import argparse
from collections.abc import Mapping
from functools import partial

from torch_ap.cli import coco, image_tables, images
from torch_ap.cli.image_tables import Form
from torch_ap.cli.images import Found
from torch_ap.cli.notes import note
from torch_ap.detection import LVISMeanAveragePrecision
from torch_ap.files.lvis import LvisAnnotations, LvisData, read_annotations, with_results
from torch_ap.metrics.images import DetectionMetric

_LINE = " {:<18} {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3d} catIds={:>3s}] = {:0.3f}"
_KINDS = {"AP": ("Average Precision", "(AP)"), "AR": ("Average Recall", "(AR)")}
_NAMES = {
    "AP": "map",
    "AP50": "map_50",
    "AP75": "map_75",
    "APs": "map_small",
    "APm": "map_medium",
    "APl": "map_large",
    "APr": "map_rare",
    "APc": "map_common",
    "APf": "map_frequent",
    "AR": "mar_{}",
    "ARs": "mar_small",
    "ARm": "mar_medium",
    "ARl": "mar_large",
}


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    paths = images.paths_of(args, args.results)
    annotations = read_annotations(args.annotations, args.iou_type)
    if annotations.crowds:
        note(
            f"{args.annotations}: `iscrowd` is 1 of {annotations.crowds} annotations; LVIS's rules look at `ignore` "
            "alone, so that these count as single objects"
        )
    class_names = annotations.coco.class_names
    slices = images.slices_of(args, annotations.coco.images)
    metrics = {path: _metric(_read(args, annotations, path), args) for path in paths.every}
    images.write_page(args, paths, metrics, class_names)
    found_of = partial(_found, args=args, class_names=class_names)
    found = images.evaluated(args, paths, metrics, found_of, slices)
    metric = next(iter(metrics.values()))
    form = Form(
        head=("", "IoU", "area", "categories"),
        rows=lambda one: [((what, *of), value) for what, _, *of, value in _rows(one)],
        first=lambda one: [_LINE.format(*row[:4], _most(metric), *row[4:]) for row in _rows(one)],
        title="",
        classes=coco.class_title(metric),
        digits=".3f",
    )
    report = image_tables.reported(args, paths, found, form)
    images.with_further(report, args, metrics, class_names).write(args.form)
    return 0


def _read(args: argparse.Namespace, annotations: LvisAnnotations, results: str) -> LvisData:
    data = with_results(annotations, results)
    coco.noted(args, data, results)
    return data


def _metric(data: LvisData, args: argparse.Namespace) -> LVISMeanAveragePrecision:
    metric = LVISMeanAveragePrecision(
        "xywh", args.iou_type, fixed=args.fixed, frequencies=data.frequencies, area_as_given=True
    )
    metric.update(data.preds, data.target)
    return metric


def _most(metric: LVISMeanAveragePrecision) -> int:
    """The limit of images; -1 for none, as lvis has it."""
    return -1 if metric.fixed else metric.max_detections


def _found(metric: DetectionMetric, *, args: argparse.Namespace, class_names: Mapping[int, str]) -> Found:
    """LVIS's numbers by its names, recall with the limit on detections; the table of classes where it is asked for."""
    assert isinstance(metric, LVISMeanAveragePrecision)
    numbers = coco.values_of(metric)
    values = {
        f"{name}@{_most(metric)}" if name.startswith("AR") else name: numbers[key.format(metric.max_detections)]
        for name, key in _NAMES.items()
    }
    table = coco.class_table(metric, class_names) if args.per_class else {}
    return Found(values["AP"], values, table.get("class", []), table)


def _rows(found: Found) -> list[tuple[str, str, str, str, str, float]]:
    """Of each number what it is, its sign, IoU, area, categories, value; the last three letters as lvis has them."""
    rows = []
    for name, value in found.values.items():
        of = name[2:].partition("@")[0]
        iou = f"0.{of}" if of.isdigit() else "0.50:0.95"
        area, categories = (of if of and of in letters else "all" for letters in ("sml", "rcf"))
        rows.append((*_KINDS[name[:2]], iou, area, categories, value))
    return rows
