"""``torch-ap lvis``: LVIS's numbers of results files, by the names that lvis gives them."""

import argparse
from functools import partial

from torch_ap.cli import annotation_notes, coco, detectors, images
from torch_ap.cli.image_tables import Form, Rows
from torch_ap.cli.images import Found
from torch_ap.cli.notes import note
from torch_ap.detection import LVISMeanAveragePrecision
from torch_ap.files.lvis import LvisData, read_annotations, with_results
from torch_ap.metrics.images import DetectionMetric

_LINE = " {:<18} {} @[ IoU={:<9} | area={:>6s} | maxDets={:>3s} catIds={:>3s}] = {value:0.3f}"
_LETTERS = {"small": "s", "medium": "m", "large": "l", "rare": "r", "common": "c", "frequent": "f"}
_KINDS = {"map": "AP", "ap": "AP", "mar": "AR", "ar": "AR"}


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    paths = images.paths_of(args, args.results)
    annotations = read_annotations(args.annotations, args.iou_type)
    for said in annotation_notes.of(annotations.coco, "LVIS", "ignore"):
        note(f"{args.annotations}: {said}")

    def metric_of(path: str) -> LVISMeanAveragePrecision:
        data = with_results(annotations, path)
        images.note_copies(data.preds, path)
        named = coco.noted(args, data, path)
        metric = _metric(data, args)
        if not named:
            images.note_no_match(metric, path)
        return metric

    names = annotations.coco.class_names
    found_of = partial(coco.found_in, per_class=args.per_class, class_names=names)
    detectors.write(args, paths, metric_of, found_of, _form, images=annotations.coco.images, class_names=names)
    return 0


def _metric(data: LvisData, args: argparse.Namespace) -> LVISMeanAveragePrecision:
    metric = LVISMeanAveragePrecision(
        "xywh",
        args.iou_type,
        iou_thresholds=args.iou_thresholds,
        max_detections=args.max_detections,
        fixed=args.fixed,
        frequencies=data.frequencies,
        area_ranges=args.areas,
        area_as_given=True,
    )
    metric.update(data.preds, data.target)
    return metric


def _form(metric: DetectionMetric) -> Form:
    """LVIS's thirteen numbers in its lines; tables have whole words, and no column of the limit on detections."""
    assert isinstance(metric, LVISMeanAveragePrecision)
    limit = str(metric.max_detections)
    most = "all" if metric.fixed else limit  # of an image; programs are told lvis's own word for that, -1
    name = partial(_name, limit=limit, most="-1" if metric.fixed else limit)
    word = partial(_name, limit=limit, most=most)

    def lines(found: Found) -> Rows:
        rows = [(tuple(_LETTERS.get(x, x) for x in names), value) for names, value in coco.rows_of(metric, found)]
        return [((*names[:3], most, *names[4:]), value) for names, value in rows]

    return Form(
        head=("", "IoU", "area", "categories"),
        rows=lambda one: [((*names[:3], *names[4:]), value) for names, value in coco.rows_of(metric, one)],
        first=lambda one: [coco.line_of(_LINE, names, value) for names, value in lines(one)],
        title="",
        classes=coco.class_title(metric, word),
        digits=".3f",
        name=name,
        word=word,
    )


def _name(name: str, *, limit: str, most: str) -> str:
    """As lvis calls a number; what is neither AP nor AR keeps its name."""
    kind, _, of = name.partition("_")
    if kind not in _KINDS:
        return name
    recall = _KINDS[kind] == "AR"
    of = "" if recall and of == limit else of
    of = _LETTERS.get(of, of if of.isdigit() or not of else f"_{of}")
    return f"{_KINDS[kind]}{of}" + (f"@{most}" if recall else "")
