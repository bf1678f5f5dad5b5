"""Sections on curves: pictures, the curves as numbers, and operating points."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap import plot
from torch_ap.core.base.messages import without_reasons
from torch_ap.curves import Curve
from torch_ap.plot import style
from torch_ap.plot.bars import Bar
from torch_ap.plot.given import with_kind
from torch_ap.reports.content import AS_NUMBERS, DASH, NAN, Cell, Picture, Section, Table, with_interval
from torch_ap.reports.drawings import bars
from torch_ap.reports.estimates import ReportOptions
from torch_ap.reports.thresholds import RULES, Cuts, cuts_of_curve, threshold_widget

BEST_F1 = ("best F1", "at score", "precision", "recall")  # columns of best_f1
_POINT_COLUMNS = ("score ≥", "precision", "recall", "F1", "TP", "FP", "FN")
_MAX_BAND_ITEMS = 100_000  # a band takes 1,000 resamples of the items
_MAX_INSIDE = 6  # names that fit inside a picture
_MAX_CURVES = 200


def ranking_sections(curves: Mapping[str, Curve], options: ReportOptions) -> list[Section]:
    """Return curve and operating points of one ranking, or of the rankings of two systems, by name."""
    curve, is_single = next(iter(curves.values())), len(curves) == 1
    if not (curve.m > 0 and curve.n > 0):  # n is NaN for a prevalence without negatives
        return []
    is_small = options.simultaneous or float(curve.n) <= _MAX_BAND_ITEMS
    has_band = is_single and not curve.hits.is_floating_point() and is_small and bool(1 < curve.m < curve.n)
    if has_band and curve.groups is not None:
        with without_reasons():
            has_band = not bool(curve.band(torch.tensor([0.5]), n_resamples=2).low.isnan())
    if options.simultaneous and not has_band:
        groups = "" if curve.groups is None else ", two groups of items"
        raise ValueError(f"`simultaneous` requires two hits and a miss{groups}, and no weights")
    extent = "which contains the whole curve" if options.simultaneous else "level by level"
    shade = f" The shade is the {options.level} confidence band of precision, {extent}."
    shade = shade if has_band else ""
    drawn: Any = curve if is_single else curves
    precision_recall = Picture(
        f"Precision over recall, drawn as it is integrated; the dot is the highest F1.{shade}",
        lambda ax: plot.precision_recall(
            drawn,
            ax=ax,
            band=has_band,
            simultaneous=options.simultaneous,
            beta=1.0,
            confidence_level=options.confidence_level,
        ),
    )
    f_beta = Picture(
        f"F1 over the score threshold{', precision and recall' if is_single else ''}.",
        lambda ax: plot.f_beta_thresholds(drawn, ax=ax),
    )
    use_groups = "" if curve.groups is None else "use the groups of the items, and "
    intervals = (
        f"Intervals ({options.level}) {use_groups}take the threshold as fixed in advance; for a threshold chosen on "
        "these items they are slightly too narrow."
    )
    text = (
        f"Items with scores of at least the threshold are positive. {intervals} "
        "A threshold itself has no interval: resamples do not give one for the highest F1."
    )
    points = [_operating_points("" if is_single else name, x, options) for name, x in curves.items()]
    cuts = {name: [cuts_of_curve(x)] for name, x in curves.items()}
    return [
        Section("Precision and recall", [threshold_widget(cuts, [precision_recall, f_beta], options), _levels(curves)]),
        Section("Operating points", [text, *points]),
    ]


def class_sections(
    metric: Any,
    curves: Sequence[Curve],
    cuts: Mapping[str, Sequence[Cuts]],
    class_bars: Mapping[str, Mapping[str, Bar]],
    units: str,
    options: ReportOptions,
    bars_caption: str,
    at: str = "",
    confusions: Callable[[float], Tensor] | None = None,
) -> list[Section]:
    """Return bars of the classes, of both systems if there are two, and the curves of the first with their thresholds.

    Args:
        metric: metric of the first system.
        curves: its curves.
        cuts: counts at the thresholds of each system.
        class_bars: AP and interval of each class by name, of each system.
        units: name of the classes, in the plural.
        options: arguments of the report.
        bars_caption: caption of the bars.
        at: IoU threshold of the curves, for the caption.
        confusions: as for :func:`torch_ap.reports.thresholds.threshold_widget`.
    """
    title = f"{units[0].upper()}{units[1:]}"
    every = dict.fromkeys(name for rows in class_bars.values() for name in rows)
    means = {name: style.mean(rows[name].value for rows in class_bars.values() if name in rows) for name in every}
    names = sorted(means, key=lambda name: (math.isnan(means[name]), means[name]))
    places = {name: place for place, name in enumerate(next(iter(class_bars.values())))}
    drawing = bars(
        f"{bars_caption} with {options.class_level} intervals.",
        names,
        {
            system if len(class_bars) > 1 else "": [rows.get(name, Bar(NAN)) for name in names]
            for system, rows in class_bars.items()
        },
        keys=[places.get(name, "") for name in names],
        opens="thresholds",
    )
    if len(curves) > _MAX_CURVES:
        return [Section(title, [drawing, threshold_widget(cuts, [], options, confusions)])]
    lines = [replace(x, name=with_kind(metric, x.name)) for x in curves]  # the names of the bars
    picture = Picture(
        f"Precision over recall of {units}{at}.",
        lambda ax: plot.precision_recall(lines, ax=ax, chance_level=False),
        (8.4 if len(curves) > _MAX_INSIDE else 6.4, 4.2),
    )
    return [Section(title, [drawing, threshold_widget(cuts, [picture], options, confusions)])]


def best_f1(curve: Curve) -> list[Cell]:
    """Return the highest F1, with its threshold, precision and recall."""
    f1 = curve.f_beta().nan_to_num(-1.0)
    if not len(f1) or not float(curve.m):
        return [NAN] * len(BEST_F1)
    best = int(torch.argmax(f1))
    return [float(x[best]) for x in (f1, curve.thresholds, curve.precision, curve.recall)]


def _levels(curves: Mapping[str, Curve]) -> Table:
    """Return the highest precision at each of eleven recall levels or beyond."""
    names = list(curves) if len(curves) > 1 else ["precision"]
    columns = [x.interpolated("11-point").precision for x in curves.values()]
    rows: list[list[Cell]] = [[f"{level / 10:.1f}", *(float(x[level]) for x in columns)] for level in range(11)]
    return Table(["recall of at least", *names], rows, summary=AS_NUMBERS)


def _operating_points(name: str, curve: Curve, options: ReportOptions) -> Table:
    rows: list[list[Cell]] = []
    for rule, settings in RULES:
        point = curve.operating_point(confidence_level=options.confidence_level, **settings)
        counts = [DASH if x != x else f"{float(x):,.10g}" for x in (point.tp, point.fp, point.fn)]
        threshold = "no threshold" if point.threshold != point.threshold else f"{float(point.threshold):.4g}"
        names = [[f"{x}{end}" for end in ("", "_low", "_high")] for x in ("precision", "recall", "f_beta")]
        numbers = [with_interval(*(float(getattr(point, x)) for x in ends)) for ends in names]
        rows.append([rule, threshold, *numbers, *counts])
    return Table([f"{name}: wanted" if name else "wanted", *_POINT_COLUMNS], rows)
