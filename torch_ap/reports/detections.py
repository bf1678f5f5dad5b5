"""Report of an object detector."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_ap import plot
from torch_ap.core.base.class_names import label_names
from torch_ap.curves import Curve
from torch_ap.detection.errors.every_threshold import numbers_at_every_threshold
from torch_ap.detection.errors.loss_per_image import loss_per_image
from torch_ap.detection.inference.resampled import mean_and_class_intervals
from torch_ap.detection.matching.shapes import threshold_index
from torch_ap.detection.metrics import diagnosis
from torch_ap.detection.metrics.base import DetectionMetric
from torch_ap.detection.metrics.coco import CocoMetric
from torch_ap.detection.metrics.voc import VOCMeanAveragePrecision
from torch_ap.inference.record import Interval
from torch_ap.plot.bars import Bar
from torch_ap.plot.given import with_kind
from torch_ap.reports import cautions
from torch_ap.reports.content import (
    FORMS,
    LOSS,
    LOSS_TEXT,
    NAN,
    Cell,
    Content,
    Picture,
    Section,
    Table,
    loss_shares,
    sorted_table,
)
from torch_ap.reports.curves import BEST_F1, best_f1, class_sections
from torch_ap.reports.estimates import ReportOptions, headline
from torch_ap.reports.gallery import gallery_sections
from torch_ap.reports.thresholds import ALL, Cuts, cuts_of_detections

_NUMBERS = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large")
_CHANCE_ORDERS = 25  # random orders of scores; their mean has a standard error of 0.0001 for 100 images
_ONE_BY_ONE = (
    "Detections are counted one by one, by descending score. The chance level shuffles the scores of the same boxes."
)
_KINDS = {
    "classification": "right place, wrong class",
    "localization": "right class, IoU too low",
    "both": "wrong class, and IoU too low",
    "duplicate": "object already found by a better detection",
    "background": "no object there",
    "missed": "objects without a classification or localization error",
    "false_positives": "all false detections",
    "false_negatives": "all missed objects",
}


def content_of(metric: Any, options: ReportOptions) -> Content:
    """Return the content of the report."""
    numbers = options.per_system(_numbers(metric), lambda: _numbers(options.other))
    means = [x["map"] for x in numbers.values()]
    metrics = options.per_system(metric, lambda: options.other)
    intervals = {name: _intervals(x, options) for name, x in metrics.items()}
    of_mean = next(iter(intervals.values()))[0]
    head, sections = headline(
        metric,
        "mean AP",
        lambda x: means[x is not metric],
        options,
        "images",
        interval=of_mean,
        orders=_CHANCE_ORDERS,
    )
    thresholds = metric._settings.thresholds
    iou = thresholds[threshold_index(None, thresholds)]
    curves: list[Curve] = list(metric.curve(class_names=options.names))
    by_system = options.per_system(curves, lambda: options.other.curve(class_names=options.names))
    if isinstance(metric, CocoMetric):
        sections.append(_threshold_section(numbers, metrics))
    if curves:
        caption = "Average precision of classes over all IoU thresholds"
        cuts = {name: _cuts(x, options) for name, x in metrics.items()}
        bars = {name: _bars(metrics[name], x, labels, options) for name, (_, x, labels) in intervals.items()}
        sections += class_sections(metric, curves, cuts, bars, "classes", options, caption, f" at IoU {iou:g}")
        if min(thresholds) > 0 and metric._has_errors:
            sections.append(_error_section(metrics))
            sections += gallery_sections(metric, options)
        sections.append(_class_table(by_system, next(iter(intervals.values()))[1], iou, options))
        sections += _image_section(metric)
    with metric._all_ranks():
        columns = metric._columns()
    return Content(
        head,
        convention=_convention(metric),
        facts={
            "images": len(columns["detections_per_image"]),
            "ground truths": int(sum(float(x.m) for x in curves)),
            "detections": len(columns["detection_scores"]),
            "classes": len(curves),
        },
        warnings=[
            *cautions.few_positives({x.name: int(x.m) for x in curves}, ("class", "classes"), "ground truths"),
            *cautions.saturation(columns["detection_scores"]),
        ],
        sections=sections,
    )


def _convention(metric: DetectionMetric) -> str:
    """Return the meaning of the mean, in words."""
    if isinstance(metric, VOCMeanAveragePrecision):
        listed = ", ".join(f"{x:g}" for x in metric._settings.thresholds)
        rule = "above" if metric.strict else "of at least"
        return (
            f"PASCAL VOC's mean average precision: the mean over classes of AP ({metric.interpolation} interpolation) "
            f"of detections that match a ground truth with an IoU {rule} {listed}. {_ONE_BY_ONE}"
        )
    if not isinstance(metric, CocoMetric):
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
    """Return the scalars of ``compute`` of the first shape; NaN for undefined numbers, which are -1 there."""
    numbers = {name: float(x) for name, x in metric.compute().items() if isinstance(x, torch.Tensor) and x.ndim == 0}
    first, *others = metric._settings.iou_types
    if others:
        numbers |= {name.removeprefix(f"{first}_"): x for name, x in numbers.items()}
    return {name: NAN if x == -1 else x for name, x in numbers.items()}


def _threshold_section(numbers: Mapping[str, Mapping[str, float]], metrics: Mapping[str, Any]) -> Section:
    """Return AP by IoU threshold and object size, of each system by name."""
    first, has_other = next(iter(numbers.values())), len(numbers) > 1
    others = (x for x in first if x.startswith(("map_", "mar_")) and not x.endswith("per_class"))
    names = dict.fromkeys([*(x for x in _NUMBERS if x in first), *others])
    rows: list[list[Cell]] = [[x, *(values[x] for values in numbers.values())] for x in names]
    drawn: Any = metrics if has_other else next(iter(metrics.values()))
    picture = Picture(
        "AP over IoU thresholds, by the size of objects: a line that falls early means loose boxes.",
        lambda ax: plot.iou_thresholds(drawn, ax=ax, areas=["all"] if has_other else None),
        chart={"x": "IoU threshold", "y": "AP", "series": _threshold_series(metrics)},
    )
    table = Table(["number", *(numbers if has_other else ("value",))], rows)
    return Section("IoU thresholds and sizes", [picture, table])


def _threshold_series(metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return AP over IoU thresholds of each size of objects, or of each system."""
    series = []
    for name, metric in metrics.items():
        table = {column: x.tolist() for column, x in metric.per_threshold().items()}
        x = table.pop("iou_threshold")
        for area, values in table.items():
            if (len(metrics) == 1 or area == "all") and max(values) >= 0:
                series.append({"name": area if len(metrics) == 1 else name, "x": x, "y": values})
    return series


def _error_section(metrics: Mapping[str, Any]) -> Section:
    """Return the costs of all kinds of errors, of each system by name."""
    errors = {name: diagnosis.errors(metric) for name, metric in metrics.items()}
    (first, *others) = errors.values()
    prefixes = [f"{name}: " for name in errors] if others else [""]
    head = ["kind", "what it is", *(f"{prefix}{x}" for prefix in prefixes for x in ("cost", "errors"))]
    rows: list[list[Cell]] = []
    for kind, meaning in _KINDS.items():
        numbers = [(float(getattr(x, kind)), int(x.counts[kind])) for x in errors.values()]
        rows.append([kind.replace("_", " "), meaning, *(number for pair in numbers for number in pair)])
    text = (
        f"At IoU {first.iou_threshold:g}, background up to {first.background_threshold:g}: a cost is what AP would be "
        "higher by without errors of that kind. Costs do not add up: one error often hides another."
    )
    drawn = errors if others else first
    caption = "What each kind of error costs in AP, and how many there are."
    return Section(
        "What went wrong", [text, Picture(caption, lambda ax: plot.error_costs(drawn, ax=ax)), Table(head, rows)]
    )


def _cuts(metric: Any, options: ReportOptions) -> list[Cuts]:
    """Return the counts at the thresholds of all classes together, and of each class."""
    at = metric._matches_at(None, None, options.names)
    numbers = [
        numbers_at_every_threshold(at, per_class=per_class, confidence_level=options.confidence_level)
        for per_class in (False, True)
    ]
    return [*cuts_of_detections(numbers[0], [ALL]), *cuts_of_detections(numbers[1], at.names)]


def _intervals(metric: Any, options: ReportOptions) -> tuple[Interval | None, Interval, Tensor]:
    """Return the intervals of the mean and of the classes from the same resamples, and the labels of the classes.

    The first is None with ``average="micro"``, whose ranking of all classes has its own resamples.
    """
    with metric._all_ranks():
        sample = metric._sample(per_class=True)
    of_mean, of_classes = mean_and_class_intervals(
        sample.ranked,
        confidence_level=options.confidence_level,
        interpolation=sample.interpolation,
        resampling=options.resampling,
    )
    is_micro = getattr(metric._settings, "average", "macro") == "micro"
    return None if is_micro else of_mean, of_classes, sample.labels


def _bars(metric: Any, interval: Interval, labels: Tensor, options: ReportOptions) -> dict[str, Bar]:
    """Return the bar of each class by name."""
    rows = zip(*(x[: len(labels)].tolist() for x in (interval.estimate, interval.low, interval.high)), strict=True)
    names = label_names(labels, metric._class_names if options.names is None else options.names)
    return {with_kind(metric, name): Bar(*row) for name, row in zip(names, rows, strict=True)}


def _image_section(metric: Any) -> list[Section]:
    """Return the table of images, worst first."""
    at = metric._matches_at(None, None, {})
    loss = loss_per_image(at)
    if loss is None or getattr(metric._settings, "average", "macro") == "micro":
        return []
    table = {name: x.tolist() for name, x in metric.per_image().items()}
    shares = (loss / loss.sum()).tolist()
    columns = [list(map(str, table["image"])), shares, *(table[x] for x in ("ap", "f1", "missed", "fp", "tp"))]
    head = ["image", LOSS, "AP", "F1", "missed", "false", "found"]
    rows = list(zip(*columns, strict=True))
    shown, omitted = sorted_table(head, rows, "images", FORMS, order=(LOSS, "descending"))
    text = (
        f"The {LOSS} is the part of 1 minus mean AP that the false detections and missed objects of an image explain, "
        "over all IoU thresholds; all parts add up to it. AP is the mean AP of the image alone. F1 and the counts are "
        f"of detections with any score, at IoU {at.iou_threshold:g}. {omitted}"
    )
    return [Section("All images", [text.strip(), shown])]


def _class_table(
    by_system: Mapping[str, Sequence[Curve]], interval: Interval, iou: float, options: ReportOptions
) -> Section:
    """Return the table of all classes."""
    curves, *others = by_system.values()
    columns = [x[: len(curves)].tolist() for x in (interval.estimate, interval.low, interval.high)]
    columns.insert(1, loss_shares(columns[0]))
    head = ["class", "AP", LOSS, "low", "high", f"AP at IoU {iou:g}"]
    head += [f"the same of {options.systems[1]}", "difference"] if others else []
    theirs = {x.name: float(x.average_precision) for x in others[0]} if others else {}
    rows: list[list[Cell]] = []
    for curve, *numbers in zip(curves, *columns, strict=True):
        ap, other = float(curve.average_precision), theirs.get(curve.name, NAN)
        compared = [other, ap - other] if others else []
        rows.append([curve.name, *numbers, ap, *compared, int(curve.m), len(curve.thresholds), *best_f1(curve)])
    head += ["ground truths", "detections", *BEST_F1]
    table, omitted = sorted_table(head, rows, "classes", FORMS, opens="thresholds")
    text = (
        f"AP is over all IoU thresholds, low and high its {options.level} interval over images. "
        f"best F1 is the highest F1 at IoU {iou:g}, with its threshold, precision and recall. {LOSS_TEXT} {omitted}"
    )
    return Section("All classes", [text.strip(), table])
