"""The report of an object detector."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from torch_ap import plot
from torch_ap.functional import Curve
from torch_ap.matching.shape_settings import place_of_threshold
from torch_ap.metrics.coco_tables import CocoTables
from torch_ap.metrics.images import DetectionMetric
from torch_ap.metrics.voc import VOCMeanAveragePrecision
from torch_ap.reports import cautions, curves
from torch_ap.reports.content import NAN, Cell, Content, Picture, Section, Table, bounded
from torch_ap.reports.of_errors import of_errors
from torch_ap.reports.statement import Asked, compared, headline

_UNITS = ("class", "classes")
_NUMBERS = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large")
_ONE_BY_ONE = (
    "Detections are taken one by one, by score. The chance level is that of shuffled scores, with all boxes where they "
    "are."
)


def content_of(metric: DetectionMetric, asked: Asked) -> Content:
    """All that the report says."""
    numbers = _numbers(metric)
    head = headline(metric, "mean AP", numbers["map"], asked)
    found, iou = _curves(metric, asked.names)
    both: dict[str, Sequence[Curve]] = {asked.systems[0]: found}
    sections = []
    if asked.other is not None:
        theirs = _numbers(asked.other)
        head = replace(head, other=theirs["map"])
        sections.append(compared(metric, asked, (numbers["map"], head.other), {"unit": "images"}))
        both[asked.systems[1]] = _curves(asked.other, asked.names)[0]
    if isinstance(metric, CocoTables):
        sections.append(_of_thresholds(metric, numbers, asked))
    if found:
        bars_of = "Average precision of classes over all IoU thresholds"
        sections += curves.of_classes(metric, found, "classes", asked, bars_of, f" at IoU {iou:g}")
        if min(metric._settings.thresholds) > 0 and metric._tells_errors:
            given = (metric,) if asked.other is None else (metric, asked.other)
            sections.append(of_errors(dict(zip(asked.systems, given, strict=False))))
        sections.append(_of_each(metric, both, iou, asked))
    with metric._all_ranks():
        columns = metric._columns()
    return Content(
        title="",
        systems=asked.systems,
        headline=head,
        convention=_convention(metric),
        facts={
            "images": len(columns["detections_per_image"]),
            "ground truths": int(sum(float(x.m) for x in found)),
            "detections": len(columns["detection_scores"]),
            "classes": len(found),
        },
        warnings=[
            *cautions.few({x.name: int(x.m) for x in found}, _UNITS, "ground truths"),
            *cautions.saturation(columns["detection_scores"]),
            *cautions.inside(head.low, head.high, head.chance),
        ],
        sections=sections,
        source=repr(metric),
    )


def _convention(metric: DetectionMetric) -> str:
    """What the mean is of, in words."""
    if isinstance(metric, VOCMeanAveragePrecision):
        several = not isinstance(metric.iou_threshold, int | float)
        iou: Any = metric.iou_threshold
        at = ", ".join(f"{x:g}" for x in iou) if several else f"{iou:g}"
        rule = "above" if metric.strict else "of at least"
        return (
            f"PASCAL VOC's mean average precision: the mean over classes of AP ({metric.interpolation} interpolation) "
            f"of detections that match a ground truth with an IoU {rule} {at}. {_ONE_BY_ONE}"
        )
    if not isinstance(metric, CocoTables):
        return f"The mean over classes and thresholds of the AP of {type(metric).__name__}. {_ONE_BY_ONE}"
    settings = metric._settings
    thresholds, levels = settings.thresholds, len(settings.levels)
    over = f"{len(thresholds)} IoU thresholds from {thresholds[0]:g} to {thresholds[-1]:g}"
    average = "classes" if settings.average == "macro" else "all classes taken as one"
    return (
        f"{settings.data_set}'s mean average precision: the mean over {over} and {average} of AP interpolated at "
        f"{levels} recall levels, of at most {settings.most}, objects of all sizes. {_ONE_BY_ONE}"
    )


def _numbers(metric: Any) -> dict[str, float]:
    """Of ``compute``; those that do not exist, which are -1 there, NaN."""
    found = {name: float(x) for name, x in metric.compute().items() if isinstance(x, torch.Tensor) and x.ndim == 0}
    kinds = metric._settings.iou_types
    first = kinds[0] if len(kinds) > 1 else ""
    found |= {name.removeprefix(f"{first}_"): x for name, x in found.items()} if first else {}
    return {name: NAN if x == -1 else x for name, x in found.items()}


def _curves(metric: Any, names: Any) -> tuple[list[Curve], float]:
    """Of each class, at an IoU threshold of 0.5, or the lowest."""
    thresholds = metric._settings.thresholds
    return metric.curve(class_names=names), thresholds[place_of_threshold(None, thresholds)]


def _of_thresholds(metric: CocoTables, numbers: Mapping[str, float], asked: Asked) -> Section:
    """AP over IoU thresholds and sizes of objects."""
    theirs = {} if asked.other is None else _numbers(asked.other)
    names = [x for x in numbers if x in _NUMBERS or x.startswith(("map_", "mar_"))]
    names = list(dict.fromkeys([*(x for x in _NUMBERS if x in names), *names]))
    names = [x for x in names if not x.endswith("per_class")]
    head = ["", *(asked.systems if theirs else ("value",))]
    rows: list[list[Cell]] = [[x, numbers[x], *([theirs[x]] if theirs else [])] for x in names]
    drawn: Any = metric if asked.other is None else dict(zip(asked.systems, (metric, asked.other), strict=True))
    picture = Picture(
        "AP over IoU thresholds, by the size of objects: a line that falls early is of loose boxes.",
        lambda ax: plot.coco(drawn, ax=ax, areas=None if asked.other is None else ["all"]),
    )
    return Section("IoU thresholds and sizes", [picture, Table(head, rows)])


def _of_each(metric: Any, both: Mapping[str, Sequence[Curve]], iou: float, asked: Asked) -> Section:
    """The table of all classes."""
    found, *others = both.values()
    how = {"confidence_level": asked.confidence_level, **vars(asked.resampling)}
    each = metric.confidence_interval(per_class=True, **how)
    columns = [x.tolist() for x in (each.estimate, each.low, each.high)]
    head = ["class", "AP", "low", "high", f"AP at IoU {iou:g}", "ground truths", "detections"]
    rows: list[list[Cell]] = []
    for curve, *numbers in zip(found, *columns, strict=True):
        counts: list[Cell] = [int(curve.m), len(curve.thresholds)]
        rows.append([curve.name, *numbers, float(curve.average_precision), *counts, *curves.best_f1(curve)])
    if others:
        theirs = {x.name: float(x.average_precision) for x in others[0]}
        at = head.index("ground truths")
        head[at:at] = [f"the same of {asked.systems[1]}", "difference"]
        for row, curve in zip(rows, found, strict=True):
            other = theirs.get(curve.name, NAN)
            row[at:at] = [other, float(curve.average_precision) - other]
    rows.sort(key=lambda row: (row[1] != row[1], -float(row[1])))
    kept, said = bounded(rows, "classes")
    text = (
        f"AP is over all IoU thresholds, low and high its {100 * asked.confidence_level:.10g}% interval over images. "
        f"best F1 is the highest F1 of all thresholds at IoU {iou:g}, with what that one gives. {said}"
    )
    forms = {"at score": ".4g", "difference": "+.3f"}
    table = Table([*head, "best F1", "at score", "precision", "recall"], kept, forms, sortable=True)
    return Section("All classes", [text.strip(), table])
