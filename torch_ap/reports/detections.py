"""Report of an object detector."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap import plot
from torch_ap.core.base.class_names import label_names
from torch_ap.curves import Curve
from torch_ap.detection.errors.confusion import confusion_counts
from torch_ap.detection.errors.every_threshold import numbers_at_every_threshold
from torch_ap.detection.errors.loss_per_image import loss_per_image
from torch_ap.detection.errors.matches_at import counts_of_images
from torch_ap.detection.errors.operating_points import score_thresholds
from torch_ap.detection.errors.outcomes import Outcomes, outcomes_of
from torch_ap.detection.errors.resampled_costs import cost_intervals
from torch_ap.detection.errors.tide import errors_of
from torch_ap.detection.matching.shapes import threshold_index
from torch_ap.detection.metrics import diagnosis
from torch_ap.detection.metrics.analyses import DetectionAnalyses
from torch_ap.detection.metrics.coco_analyses import CocoAnalyses
from torch_ap.detection.metrics.compared_numbers import compare_coco_numbers
from torch_ap.detection.metrics.image_sample import share_resamples
from torch_ap.detection.rules.ultralytics import UltralyticsSettings
from torch_ap.detection.rules.voc import VocSettings
from torch_ap.inference.groups import Groups
from torch_ap.inference.metric import check_comparable
from torch_ap.inference.record import Comparison, Interval
from torch_ap.inference.resampling import Resampling
from torch_ap.plot.bars import Bar
from torch_ap.plot.given import with_kind
from torch_ap.reports import cautions
from torch_ap.reports.comparisons import (
    ClassDifferences,
    comparison_sections,
    difference_parts,
    f1_difference,
    numbers_of,
    paired_parts,
    reasons_of,
    thresholds_text,
)
from torch_ap.reports.content import (
    FORMS,
    LOSS,
    LOSS_TEXT,
    NAN,
    Cell,
    Content,
    Part,
    Picture,
    Section,
    Table,
    count_of_groups,
    loss_shares,
    sorted_table,
)
from torch_ap.reports.curves import BEST_F1, best_f1, class_sections
from torch_ap.reports.drawings import bars
from torch_ap.reports.estimates import ReportOptions, headline
from torch_ap.reports.gallery import gallery_sections
from torch_ap.reports.slices import slice_section, slices_of, unit_of_images
from torch_ap.reports.thresholds import ALL, HIGHEST_F1, Cuts, cuts_of_detections

_NUMBERS = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large")
_CHANCE_ORDERS = 25  # random orders of scores; their mean has a standard error of 0.0001 for 100 images
_IMAGE = "image-"  # begin of the keys of images
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
    if options.other is not None:
        check_comparable(metric, options.other)
    samples = _samples(metrics, options)
    how = (options.confidence_level, None, options.resampling)
    # with average="micro", the ranking of all classes has its own resamples
    is_micro = getattr(metric._settings, "average", "macro") == "micro"
    first, *others = [replace(x, labels=None, simultaneous=False) for x in samples.values()]
    head = headline(
        metric,
        "mean AP",
        lambda x: means[x is not metric],
        options,
        interval=None if is_micro else first.interval(*how),
        orders=_CHANCE_ORDERS,
    )
    intervals = {name: x.interval(*how) for name, x in samples.items()}
    classes = None if options.other is None else _class_differences(metric, samples, intervals, options)

    @cache
    def compared() -> Comparison:
        own, other = [x._sample() for x in metrics.values()] if is_micro else (first, *others)
        found: Comparison = own.compare(other, *how)
        return found

    sections = comparison_sections(
        metric,
        head,
        options,
        "images",
        lambda: _further_differences(metrics, classes, options),
        compare=compared,
    )
    thresholds = metric._settings.thresholds
    iou = thresholds[threshold_index(None, thresholds)]
    curves: list[Curve] = list(metric.curve(class_names=options.names))
    if isinstance(metric, CocoAnalyses):
        sections.append(_threshold_section(numbers, metrics, compared, options))
    if curves:
        caption = "Average precision of classes over all IoU thresholds"
        slices = slices_of(metric, options)
        labels = metric._matches_at(None, None, {}).labels.tolist()
        cuts = {name: _cuts(x, labels, slices, options) for name, x in metrics.items()}
        class_bars = {name: _bars(metrics[name], x, samples[name].labels, options) for name, x in intervals.items()}
        confusions = _confusions(metric) if metric._has_errors and len(curves) > 1 else None
        place = f" at IoU {iou:g}"
        sections += class_sections(metric, curves, cuts, class_bars, "classes", options, caption, place, confusions)
        loss = None if is_micro else loss_per_image(metric._matches_at(None, None, {}))
        images = None if loss is None else _image_section(metric, loss, options)
        if min(thresholds) > 0 and metric._has_errors:
            sections.append(_error_section(metrics, options))
            sections += gallery_sections(metric, options, () if images is None else _positions(images))
        interval = next(iter(intervals.values()))
        sections.append(_class_table(curves, interval, iou, options, classes, unit_of_images(metric)))
        (every, *_), *_ = cuts.values()
        section = slice_section(metric, slices, loss, every, options, first_key=len(curves))
        sections += [x for x in (section, images) if x is not None]
    with metric._all_ranks():
        columns, groups = metric._columns(), metric._known_groups()
    return Content(
        head,
        convention=_convention(metric),
        facts={
            "images": len(columns["detections_per_image"]),
            **count_of_groups(groups),
            "ground truths": int(sum(float(x.m) for x in curves)),
            "detections": len(columns["detection_scores"]),
            "classes with ground truths": sum(int(x.m) > 0 for x in curves),
        },
        warnings=[
            *cautions.few_positives({x.name: int(x.m) for x in curves}, ("class", "classes"), "ground truths"),
            *cautions.saturation(columns["detection_scores"]),
        ],
        sections=sections,
    )


def _convention(metric: DetectionAnalyses) -> str:
    """Return the meaning of the mean, in words."""
    settings = metric._settings
    if type(settings) in (VocSettings, UltralyticsSettings):
        listed = ", ".join(f"{x:g}" for x in settings.thresholds)
        rule = "above" if settings.strict else "of at least"
        return (
            "PASCAL VOC's mean average precision: the mean over classes of AP "
            f"({settings.interpolation} interpolation) of detections that match a ground truth with an IoU {rule} "
            f"{listed}. {_ONE_BY_ONE}"
        )
    if not isinstance(metric, CocoAnalyses):
        return f"The mean over classes and thresholds of the AP of {type(metric).__name__}. {_ONE_BY_ONE}"
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


def _class_differences(
    metric: Any, samples: Mapping[str, Any], intervals: Mapping[str, Interval], options: ReportOptions
) -> ClassDifferences:
    """Return the AP of each class of both systems, with the differences."""
    (one, mine), (other, theirs) = zip(samples.values(), intervals.values(), strict=True)
    places = {label: place for place, label in enumerate(other.labels.tolist())}
    ap = torch.cat([theirs.estimate, theirs.estimate.new_full((1,), NAN)])
    values = mine.estimate, ap[[places.get(x, -1) for x in one.labels.tolist()]]
    names = label_names(one.labels, metric._class_names if options.names is None else options.names)
    return ClassDifferences(
        names,
        values,
        lambda: one.compare(other, options.confidence_level, None, options.resampling),
        one.class_names,
        options,
    )


def _further_differences(
    metrics: Mapping[str, Any], classes: ClassDifferences | None, options: ReportOptions
) -> tuple[dict[str, dict[str, Any]], list[Part]]:
    """Return the comparisons at the highest F1 with one threshold for all classes, and parts on classes and images."""
    parts = [*(classes.paired("classes", options) if classes else []), *_paired_images(metrics, options)]
    points = [x.operating_points(per_class=False) for x in metrics.values()]
    thresholds = [x.threshold for x in points]
    if any(bool(x.isnan()) for x in thresholds):
        return {}, parts
    counts = [
        counts_of_images(metric._matches_at(None, None, {}), threshold)
        for metric, threshold in zip(metrics.values(), thresholds, strict=True)
    ]
    first, *_ = metrics.values()
    with first._all_ranks():
        groups = first._known_groups()
    sides = [(tp, n) for tp, n, _ in counts]
    rows = {f"{HIGHEST_F1}: F1": f1_difference(sides, counts[0][2], groups, options)}
    return rows, [thresholds_text(thresholds, options), *parts]


def _paired_images(metrics: Mapping[str, Any], options: ReportOptions) -> list[Part]:
    """Return wins, losses and a scatter of the images."""
    one, other = (x.per_image() for x in metrics.values())
    names = list(options.image_names or map(str, one["image"].tolist()))
    keys = [f"{_IMAGE}{place}" for place in range(len(names))]
    in_groups = next(iter(metrics.values()))._known_groups() is not None
    values = one["ap"], other["ap"]
    return paired_parts("images", "AP", names, values, options, keys=keys, opens="gallery", in_groups=in_groups)


def _threshold_section(
    numbers: Mapping[str, Mapping[str, float]],
    metrics: Mapping[str, Any],
    compare: Callable[[], Comparison],
    options: ReportOptions,
) -> Section:
    """Return AP by IoU threshold and object size, of each system by name; ``compare`` compares their means."""
    first, has_other = next(iter(numbers.values())), len(numbers) > 1
    others = (x for x in first if x.startswith(("map_", "mar_")) and not x.endswith("per_class"))
    names = dict.fromkeys([*(x for x in _NUMBERS if x in first), *others])
    drawn: Any = metrics if has_other else next(iter(metrics.values()))
    picture = Picture(
        "AP over IoU thresholds, by the size of objects: a line that falls early means loose boxes.",
        lambda ax: plot.iou_thresholds(drawn, ax=ax, areas=["all"] if has_other else None),
        chart={"x": "IoU threshold", "y": "AP", "series": _threshold_series(metrics)},
    )
    if not has_other:
        return Section(
            "IoU thresholds and sizes", [picture, Table(["number", "value"], [[x, first[x]] for x in names])]
        )
    systems = tuple(metrics.values())
    resampling = options.fewer_resamples
    mean = compare()
    compared = _compared_numbers(systems, options.confidence_level, resampling) | {"map": mean}
    one, other = numbers.values()
    rows = {
        name: numbers_of(compared[name].to_dict() if name in compared else {}, (one[name], other[name]))
        for name in names
    }
    text = f"Differences have {options.level} intervals by the jackknife over groups of images."
    if systems[0]._known_groups() is None:
        text = (
            f"The difference of map has the interval and the p-value of the whole comparison (method {mean.method!r}), "
            f"the other differences {options.level} intervals from {resampling.n_resamples} resamples of the images, "
            "with the normal distribution."
        )
    return Section("IoU thresholds and sizes", [picture, text, *difference_parts(rows, options)])


def _compared_numbers(
    systems: tuple[Any, ...], confidence_level: float, resampling: Resampling
) -> dict[str, Comparison]:
    """Return the comparison of each of COCO's numbers of two detectors."""
    first, second = systems
    with first._all_ranks(), second._all_ranks():
        groups, micro = first._known_groups(), first._settings.average == "micro"
        columns = [x._columns() for x in systems]
        numbers = [x._numbers(y, None, micro=micro) for x, y in zip(systems, columns, strict=True)]
        return compare_coco_numbers(
            (numbers[0], numbers[1]),
            len(columns[0]["detections_per_image"]),
            confidence_level=confidence_level,
            resampling=resampling,
            groups=None if groups is None else Groups.from_ids(groups),
        )


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


def _error_section(metrics: Mapping[str, Any], options: ReportOptions) -> Section:
    """Return the costs of all kinds of errors with their intervals, of each system by name."""
    found = {name: _outcomes(metric) for name, metric in metrics.items()}
    errors = {name: errors_of(*x) for name, x in found.items()}
    first, *others = errors.values()
    groups = next(iter(metrics.values()))._known_groups()
    intervals, differences, resamples = cost_intervals(
        [x for x, _ in found.values()],
        confidence_level=options.confidence_level,
        resampling=options.fewer_resamples,
        groups=None if groups is None else Groups.from_ids(groups),
    )
    names = [x.replace("_", " ") for x in _KINDS]
    columns: dict[str, Sequence[Cell]] = {"kind": names, "what it is": list(_KINDS.values())}
    system_bars, every_count = {}, []
    for place, (name, x) in enumerate(errors.items()):
        prefix = f"{name}: " if others else ""
        numbers: dict[str, list[float]] = {"cost": [float(getattr(x, kind)) for kind in _KINDS]}
        numbers |= {"low": intervals[place].low.tolist(), "high": intervals[place].high.tolist()}
        counts = [int(x.counts[kind]) for kind in _KINDS]
        columns |= {f"{prefix}{column}": values for column, values in numbers.items()}
        columns[f"{prefix}errors"] = counts
        system_bars[name if others else ""] = [Bar(*row) for row in zip(*numbers.values(), strict=True)]
        every_count.append(counts)
    if differences:
        columns["difference"] = [float(x.difference) for x in differences]
        columns |= {f"difference {end}": [float(getattr(x, end)) for x in differences] for end in ("low", "high")}
    units = "images" if groups is None else "groups of images"
    text = (
        f"At IoU {first.iou_threshold:g}, background up to {first.background_threshold:g}: a cost is what AP would be "
        "higher by without errors of that kind. Costs do not add up: one error often hides another. "
        f"Intervals ({options.level}) are from {resamples} resamples of the {units} and describe sets of as "
        "many images: with more images, duplicates and false positives of rare classes cost more. Errors in fewer than "
        f"five {units} have none."
    )
    keys = ["" if kind.startswith("false") else f"kind-{kind}" for kind in _KINDS]  # the last two are sums
    drawing = bars(
        "What each kind of error costs in AP.",
        names,
        system_bars,
        keys=keys,
        opens="gallery",
        notes=[f"errors: {', '.join(f'{x:,}' for x in row)}" for row in zip(*every_count, strict=True)],
    )
    head, rows = list(columns), [list(row) for row in zip(*columns.values(), strict=True)]
    table, _ = sorted_table(head, rows, "kinds", FORMS, order=(head[2], "descending"), opens="gallery", keys=keys)
    return Section("What went wrong", [text, drawing, table])


def _outcomes(metric: Any) -> tuple[Outcomes, float]:
    """Return the outcomes of the detections, and the threshold of background."""
    at = metric._matches_at(None, None, {})
    background = diagnosis.background_of(at, None)
    return outcomes_of(at, background), background


def _confusions(metric: Any) -> Callable[[float], Tensor] | None:
    """Return the function from a score threshold to the confusion matrix; None without the pairs of the matches."""
    at = metric._matches_at(None, None, {})
    if at.matches.partners is None:
        return None
    return lambda least: confusion_counts(at, score_thresholds(least, None, at.matches.ranked.score))


def _cuts(metric: Any, labels: Sequence[int], slices: Mapping[str, Tensor], options: ReportOptions) -> list[Cuts]:
    """Return the counts at the thresholds of all classes together, of the class of each label, and of each slice."""
    at = metric._matches_at(None, None, options.names)
    numbers = partial(numbers_at_every_threshold, confidence_level=options.confidence_level)
    cuts = [*cuts_of_detections(numbers(at, per_class=False), [ALL])]
    classes = dict(zip(at.labels.tolist(), cuts_of_detections(numbers(at, per_class=True), at.names), strict=True))
    none = np.empty(0)
    nothing = Cuts("", none, none, none, m=0, ends=np.empty((6, 0)))  # a class that only the first system detects
    cuts += [classes.get(label, nothing) for label in labels]
    for name, flags in slices.items():
        cuts += cuts_of_detections(numbers(at.select_images(flags), per_class=False), [f"slice: {name}"], is_slice=True)
    return cuts


def _samples(metrics: Mapping[str, Any], options: ReportOptions) -> dict[str, Any]:
    """Return the images of each system with the same resamples, for intervals and comparisons of the classes."""
    samples = []
    for metric in metrics.values():
        with metric._all_ranks():
            samples.append(metric._sample(per_class=True, simultaneous=options.simultaneous))
    return dict(zip(metrics, share_resamples(samples, options.resampling), strict=True))


def _bars(metric: Any, interval: Interval, labels: Tensor, options: ReportOptions) -> dict[str, Bar]:
    """Return the bar of each class by name."""
    rows = zip(*(x[: len(labels)].tolist() for x in (interval.estimate, interval.low, interval.high)), strict=True)
    names = label_names(labels, metric._class_names if options.names is None else options.names)
    return {with_kind(metric, name): Bar(*row) for name, row in zip(names, rows, strict=True)}


def _image_section(metric: Any, loss: Tensor, options: ReportOptions) -> Section:
    """Return the table of images, worst first."""
    table = {name: x.tolist() for name, x in metric.per_image().items()}
    names = list(options.image_names or map(str, table["image"]))
    columns = {"image": names, LOSS: (loss / loss.sum()).tolist(), "AP": table["ap"]}
    if options.other is not None:
        others = options.other.per_image()["ap"].tolist()
        columns[f"AP of {options.systems[1]}"] = others
        columns["difference"] = [a - b for a, b in zip(table["ap"], others, strict=True)]
    columns |= {"F1": table["f1"], "missed": table["missed"], "false": table["fp"], "found": table["tp"]}
    rows = list(zip(*columns.values(), strict=True))
    keys = [f"{_IMAGE}{place}" for place in range(len(rows))]
    shown, omitted = sorted_table(
        list(columns), rows, "images", FORMS, order=(LOSS, "descending"), opens="gallery", keys=keys
    )
    threshold = metric._matches_at(None, None, {}).iou_threshold
    text = (
        f"The {LOSS} is the part of 1 minus mean AP that the false detections and missed objects of an image explain, "
        "over all IoU thresholds; all parts add up to it. AP is the mean AP of the image alone. F1 and the counts are "
        f"of detections with any score, at IoU {threshold:g}. {omitted}"
    )
    return Section("All images", [text.strip(), shown])


def _positions(images: Section) -> list[int]:
    """Return the positions of the images in the rows of their table."""
    return [int(str(key).removeprefix(_IMAGE)) for x in images.parts if isinstance(x, Table) for key in x.keys]


def _class_table(
    curves: Sequence[Curve],
    interval: Interval,
    iou: float,
    options: ReportOptions,
    differences: ClassDifferences | None,
    unit: str,
) -> Section:
    """Return the table of all classes."""
    columns = [x[: len(curves)].tolist() for x in (interval.estimate, interval.low, interval.high)]
    columns.insert(1, loss_shares(columns[0]))
    head = ["class", "AP", LOSS, "low", "high", f"AP at IoU {iou:g}"]
    columns += [[float(x.average_precision) for x in curves]]
    if differences is not None:
        head, columns = [*head, *differences.columns], [*columns, *differences.columns.values()]
    rows: list[list[Cell]] = []
    for curve, *numbers in zip(curves, *columns, strict=True):
        rows.append([curve.name, *numbers, int(curve.m), len(curve.thresholds), *best_f1(curve)])
    head += ["ground truths", "detections", *BEST_F1]
    table, omitted = sorted_table(head, rows, "classes", FORMS, opens="thresholds")
    text = (
        f"AP is over all IoU thresholds, low and high its {options.class_level} interval over {unit}. "
        f"best F1 is the highest F1 at IoU {iou:g}, with its threshold, precision and recall. {LOSS_TEXT} {omitted}"
    )
    return Section("All classes", [text.strip(), *reasons_of(differences), table])
