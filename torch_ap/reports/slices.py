"""Slices of the images of a detector: thirds by the number, size and shape of their objects, and slices of the user."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.ranking import segments
from torch_ap.detection.errors.every_threshold import numbers_at_every_threshold
from torch_ap.detection.inputs.images import image_ids
from torch_ap.detection.metrics.image_sample import SlicedSample, share_resamples
from torch_ap.detection.shapes import boxes
from torch_ap.reports.comparisons import ClassDifferences, reasons_of
from torch_ap.reports.content import DASH, FORMS, LOSS, NAN, Cell, Section, Table, Widget, sorted_table
from torch_ap.reports.estimates import ReportOptions
from torch_ap.reports.thresholds import ALL, Cuts, grouped_ends, sampled_numbers

_MANY_IMAGES, _FEW_RESAMPLES = 1000, 100  # more images have fewer resamples, which would take seconds
_WITH_AREA = ("bbox", "rotated", "segm", "boundary")
_THIRDS = (
    "Thirds of the images with objects: by the number of objects, and by the geometric mean of their areas and of "
    "their widths relative to their heights, from the smallest to the largest value of the third in three digits."
)

_NARROW = (
    "Intervals are likely too narrow for slices of fewer than 50 images, and where most classes are in fewer than 20: "
    "95% covered .57 to .89 with 20 images, and .57 to .92 with 20 to 50 images. With one image there is none."
)
_MAX_THRESHOLDS = 50  # of the slider, whose numbers are part of pages of nearly 3 MB
_MIN_IMAGES = 10  # of a slice, below which the p-values of differences are limited above 0.001


def unit_of_images(metric: Any) -> str:
    """Return the units of the intervals of a detector, in the plural."""
    return "images" if metric._known_groups() is None else "groups of images"


def slices_of(metric: Any, options: ReportOptions) -> dict[str, Tensor]:
    """Return the (B,) flags of the images of each slice of the user, and of each third."""
    with metric._all_ranks():
        at = metric._matches_at(None, None, {})
        given = metric._image_flags(options.slices, at.columns) if options.slices else {}
    return {**given, **_thirds(at, has_shapes=metric._keeps_shapes)}


def slice_section(
    metric: Any,
    flags: Mapping[str, Tensor],
    loss: Tensor | None,
    every: Cuts,
    options: ReportOptions,
    first_key: int,
) -> Section | None:
    """Return the table of slices; None without slices.

    Args:
        metric: metric of the detector.
        flags: (B,) flags of the images of each slice.
        loss: (B,) loss that each image explains; None if unknown.
        every: counts at the thresholds of all images together.
        options: arguments of the report.
        first_key: place of the first slice among the rankings of the slider.
    """
    if not flags:
        return None
    with metric._all_ranks():
        ids = metric._image_ids(metric._columns())
    slices = {name: ids[x] for name, x in flags.items()}
    table = {name: x if isinstance(x, list) else x.tolist() for name, x in metric.per_slice(slices).items()}
    columns: dict[str, list[Any]] = {"slice": table["slice"], "AP": [NAN if x == -1 else x for x in table["map"]]}
    samples = _samples(metric, slices, options)
    interval = samples[0].interval(options.confidence_level, None, options.fewer_resamples)
    columns |= {"low": interval.low.tolist(), "high": interval.high.tolist()}
    differences = None
    if options.other is not None:
        method = "bootstrap-normal" if metric._known_groups() is None else None
        differences = ClassDifferences(
            table["slice"],
            (torch.tensor(columns["AP"]), options.other.per_slice(slices)["map"]),
            lambda: samples[0].compare(samples[1], options.confidence_level, method, options.fewer_resamples),
            table["slice"],
            options,
        )
        columns |= differences.columns
    if loss is not None:
        columns[LOSS] = [float(loss[x].sum() / loss.sum()) for x in flags.values()]
    columns |= {name.replace("_", " "): table[name] for name in ("images", "ground_truths", "detections")}
    rows: list[list[Cell]] = list(map(list, zip(*columns.values(), strict=True)))
    keys = range(first_key, first_key + len(rows))
    shown, omitted = sorted_table(list(columns), rows, "slices", FORMS, opens="thresholds", keys=keys)
    has_thirds = len(slices) > len(options.slices or {})
    text = (
        f"{_THIRDS if has_thirds else ''} An image can belong to several slices. low and high are the {options.level} "
        f"interval over the {unit_of_images(metric)} of the slice. {omitted}"
    ).strip()
    in_groups = metric._known_groups() is not None
    reasons = [f"Intervals: {interval.reason}." if in_groups else _NARROW] if interval.reason else []
    reasons += reasons_of(differences) if in_groups or min(table["images"]) < _MIN_IMAGES else []
    return Section("Slices", [text, *reasons, shown, *_threshold_parts(metric, flags, every, options)])


def _threshold_parts(metric: Any, flags: Mapping[str, Tensor], every: Cuts, options: ReportOptions) -> list[Widget]:
    """Return a slider with the numbers of all slices at one threshold; its table is for the best F1 of all images."""
    numbers = sampled_numbers(every, _MAX_THRESHOLDS, options.confidence_level)
    if not numbers["t"]:
        return []
    at, place = metric._matches_at(None, None, {}), max(numbers["best"][0], 0)
    slices, rows = [], []
    for name, images in {ALL: None, **flags}.items():
        chosen = at if images is None else at.select_images(images)
        found = numbers_at_every_threshold(
            chosen, per_class=False, confidence_level=options.confidence_level, thresholds=np.asarray(numbers["t"])
        )
        m = int(found.m[0])
        slices.append({"name": name, "m": m, "tp": found.tp.tolist(), "fp": found.fp.tolist()})
        ends = np.stack([found.low, found.high], 1).reshape(6, -1)
        if found.groups is not None:
            ends = grouped_ends(found.groups[0], found.score, m, options.confidence_level)
        slices[-1]["ends"] = ends.round(3).tolist()
        rows.append([name, *_counts_and_ratios(int(found.tp[place]), int(found.fp[place]), m)])
    text = f"Slices at score ≥ {numbers['t'][place]:g}, the best F1 of all images"
    table = Table(["slice", "precision", "recall", "F1", "TP", "FP", "FN"], rows, summary=text)
    data = {"t": numbers["t"], "best": place, "slices": slices, "level": options.level, "units": unit_of_images(metric)}
    return [Widget("slices", data, [table])]


def _counts_and_ratios(tp: int, fp: int, m: int) -> list[Cell]:
    """Return precision, recall and F1, NaN if undefined, and the counts."""
    ratios = [(tp, tp + fp), (tp, m), (2 * tp, tp + fp + m)]
    return [*(a / b if b else NAN for a, b in ratios), tp, fp, m - tp]


def _samples(metric: Any, slices: Mapping[str, Any], options: ReportOptions) -> list[SlicedSample]:
    """Return the slices of each system; the images of a slice have the same resamples in all systems."""
    samples = []
    for system in (metric, options.other)[: 1 + (options.other is not None)]:
        with system._all_ranks():
            samples.append(system._sample(slices=slices))
    resampling = options.fewer_resamples
    if len(next(iter(samples[0].kept.values()))) > _MANY_IMAGES:
        resampling = replace(resampling, n_resamples=min(resampling.n_resamples, _FEW_RESAMPLES))
    shared = {name: share_resamples([x.slices[name] for x in samples], resampling) for name in slices}
    return [
        replace(sample, slices={name: each[place] for name, each in shared.items()})
        for place, sample in enumerate(samples)
    ]


def _thirds(at: Any, *, has_shapes: bool) -> dict[str, Tensor]:
    """Return the flags of the images of each third by each property of their objects, in three digits.

    Thirds are disjoint, so they differ in size if values are equal. Empty ones, and those of all images, are left out.
    """
    counts = at.columns["ground_truths_per_image"]
    has_any, image = counts > 0, image_ids(counts)
    properties = {"objects": segments.as_float64(counts)}
    if has_shapes and at.iou_type in _WITH_AREA and at.settings.own_iou is None:
        properties["area"] = _geometric_mean(at.settings.area(at.columns, at.iou_type, "ground_truth"), image, counts)
    if has_shapes and at.iou_type == "bbox":
        x1, y1, x2, y2 = boxes.to_xyxy(at.columns["ground_truth_boxes"], at.settings.box_format).unbind(1)
        properties["width / height"] = _geometric_mean((x2 - x1) / (y2 - y1), image, counts)
    slices = {}
    for name, values in properties.items():
        rounded = values.new_tensor([float(f"{x:.3g}") for x in values.tolist()])
        is_known = has_any & rounded.isfinite()
        if not bool(is_known.any()):
            continue
        known = rounded[is_known]
        third = torch.bucketize(rounded, torch.quantile(known, known.new_tensor([1 / 3, 2 / 3])))
        for flags in ((third == place) & is_known for place in range(3)):
            if 0 < int(flags.sum()) < len(known):
                ends = (x.item() for x in torch.aminmax(rounded[flags]))
                texts = dict.fromkeys(f"{x:,.0f}" if x >= 100 else f"{x:g}" for x in ends)
                slices[f"{name} {DASH.join(texts)}"] = flags
    return slices


def _geometric_mean(values: Tensor, image: Tensor, counts: Tensor) -> Tensor:
    """Return the geometric mean of the values of each image; NaN without a positive one."""
    is_positive = (values > 0) & values.isfinite()
    logs = torch.where(is_positive, values, 1).log()
    size = segments.as_float64(torch.bincount(image[is_positive], minlength=len(counts)))
    sums = torch.zeros_like(size).index_add_(0, image, logs)
    return (sums / size).exp()
