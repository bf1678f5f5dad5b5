"""Plots of precision over recall, as it is integrated, with reference lines, and of their gains."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from torch_ap.core.base import checks
from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.base.messages import raise_invalid, warn_of_reason
from torch_ap.core.ranking.order import Array
from torch_ap.curves import Curve
from torch_ap.functional import QueryCurve
from torch_ap.inference import OperatingPoint
from torch_ap.inference.operating_point import ThresholdCriterion
from torch_ap.plot import style, vertices
from torch_ap.plot.given import Curves, all_curves_of, curves_of
from torch_ap.plot.style import FAINT, GREY, MEAN, UNNAMED, Axes, Style

_MAX_LEVELS = 21  # more recall levels are drawn without dots
_TOLERANCE = 0.0005  # closer chance levels look the same
_MIN_DISTANCE = 0.04  # closer marks overlap
_RIGHT = 1.02  # right limit of the axes
_LOWEST_GAIN = -0.05  # lower limits of the axes of gains
_HIGHEST_GAIN = 1.04  # upper limits


def precision_recall(
    curves: Curves,
    *,
    ax: "Axes | None" = None,
    class_names: ClassNames = None,
    chance_level: bool = True,
    iso_f: Sequence[float] = (),
    band: bool = False,
    simultaneous: bool = False,
    mean: bool = False,
    confidence_level: float = 0.95,
    beta: float | None = None,
    precision: float | None = None,
    recall: float | None = None,
) -> "Axes":
    """Draw precision over recall, so that the area under the line is the average precision.

    The line depends on the definition of AP:

    - plain AP, and AP@k up to k: a step from hit to hit; ``ties`` determines the path through tie groups.
    - "all-points": the interpolated curve; "11-point" and similar add a dot at each recall level.
    - "trapezoid": straight lines.

    The line falls to 0 at the last recall of a ranking that misses positives. For queries it is TREC's curve, the mean
    interpolated precision at eleven recall levels. The legend is sorted by AP; of more than ten curves only the five
    best and the five worst are named.

    Args:
        curves: a :class:`torch_ap.curves.Curve`, a metric that has ``curve()``, a list of them, or a dict by name.
        ax: the axes to draw on; None for the axes of a new figure.
        class_names: names of the classes of metrics.
        chance_level: whether the precision of a random order is drawn: one line if all curves share it; a mark for each
            at the right, in its colour, if the levels are far enough from each other; else a grey band from the lowest
            to the highest. Queries have no chance level.
        iso_f: values of F_beta whose lines are drawn; ``beta`` defaults to 1 here.
        band: whether the confidence band of precision is drawn (:meth:`Curve.band`). Items in groups without a band
            raise a warning.
        simultaneous: whether the band contains the whole curve, instead of the precision at each recall level.
        mean: whether the mean interpolated precision of the curves with positives, at 101 recall levels, is drawn as a
            thick line; the lines of the curves are then thin.
        confidence_level: level of the band and of the intervals at operating points, in (0, 1).
        beta: marks the operating point of each curve with the highest F_beta, with its intervals
            (:meth:`Curve.operating_point`). At most one of ``beta``, ``precision``
            and ``recall`` can be used.
        precision: marks the operating point with this precision, likewise.
        recall: marks the operating point with this recall, likewise.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError: for an argument of an invalid type.
        ValueError: for an argument with an invalid value.

    Equals, for plain AP, the steps of ``sklearn.metrics.PrecisionRecallDisplay``, without its vertical lines at
    constant recall.

    Source: Davis & Goadrich (2006) on why the step is not a straight line; van Rijsbergen (1979) for F.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import plot
        >>> from torch_ap.functional import binary_curve
        >>> ranking = binary_curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]), name="model")
        >>> ax = plot.precision_recall(ranking, ax=Figure().subplots())
        >>> ax.get_legend().get_texts()[0].get_text()
        '0.833  model'
    """
    style.check_flags(chance_level=chance_level, band=band, simultaneous=simultaneous, mean=mean)
    if simultaneous and not band:
        raise ValueError("`simultaneous` has no meaning without `band`")
    checks.open_fraction("confidence_level", confidence_level)
    values: Any = iso_f
    if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str):
        raise_invalid("iso_f", "must be a list of numbers between 0 and 1", values, TypeError)
    values = [checks.open_fraction("iso_f", value) for value in values]
    point = _point_criterion(beta=beta, precision=precision, recall=recall)
    drawn = all_curves_of(curves, class_names)
    order, looks = style.styles([float(x.average_precision) for x in drawn])
    named = [x for x, look in zip((drawn[i] for i in order), looks, strict=True) if look.named and isinstance(x, Curve)]
    settings: dict[str, Any] = {"confidence_level": confidence_level, "simultaneous": simultaneous}
    bands = {id(x): x.band(**settings) for x in named if band and len(x.thresholds)}
    in_groups = [bands[id(x)] for x in named if id(x) in bands and x.groups is not None]
    if reason := next((x.reason for x in in_groups if bool(x.low.isnan().all())), ""):
        warn_of_reason("band", reason)
    points = {id(x): x.operating_point(**point, confidence_level=confidence_level) for x in named if point}
    is_new, ax = ax is None, style.axes_of(ax)
    _iso_lines(ax, values, 1.0 if beta is None else beta)
    entries, unnamed = [_mean_line(ax, drawn)] if mean else [], list[tuple[Array, Array]]()
    for curve, look in zip((drawn[i] for i in order), [x.thin for x in looks] if mean else looks, strict=True):
        if not look.named:
            line = _line(curve)
            unnamed += [line] * (len(line[0]) > 0)  # no line without positives
            continue
        handle = _draw(ax, curve, look)
        label = style.entry(float(curve.average_precision), curve.name)
        if id(curve) in bands:
            low, high = (style.array(end) for end in (bands[id(curve)].low, bands[id(curve)].high))
            levels = np.linspace(0, 1, len(low))
            ax.fill_between(levels, low, high, color=look.color, alpha=FAINT, linewidth=0, zorder=1)
        if id(curve) in points:
            label += _operating_point(ax, points[id(curve)], look, by_f="beta" in point)
        entries.append((handle, label))
    if unnamed:
        _draw_unnamed(ax, unnamed)
    if chance_level:
        entries += _chance(ax, [drawn[i] for i in order], looks)
    style.frame(ax, xlabel="recall", ylabel="precision", xlim=(1 - _RIGHT, _RIGHT), ylim=(-0.02, 1.04))
    style.legend(ax, entries, "average precision", more=len(unnamed), margin=60 if values else 14, widen=is_new)
    return ax


def _draw(ax: "Axes", curve: Curve | QueryCurve, look: Style) -> Any:
    """Draw the line, and the recall levels if there are any, and return a handle for the legend."""
    marks: dict[str, Any] = {"marker": "o", "markersize": 4} if isinstance(curve, QueryCurve) else {}
    (handle,) = ax.plot(*_line(curve), **marks, **look.line)
    at_levels = vertices.levels(curve) if isinstance(curve, Curve) else None
    if at_levels is not None and len(at_levels.recall) <= _MAX_LEVELS:
        ax.plot(*at_levels, color=look.color, linestyle="none", marker="o", markersize=5, zorder=4)
    return handle


def _line(curve: Curve | QueryCurve) -> tuple[Array, Array]:
    """Return recall and precision of the points of a line."""
    if isinstance(curve, QueryCurve):
        return style.array(curve.recall_levels), style.array(curve.interpolated_precision)
    return vertices.line(curve)


def _draw_unnamed(ax: "Axes", lines: Sequence[tuple[Array, Array]]) -> None:
    """Draw one line with gaps: of 80 curves, a line for each takes half of the time of the picture."""
    gap = np.full((2, 1), np.nan)
    ax.plot(*np.concatenate([x for line in lines for x in (line, gap)], 1), **UNNAMED.line)


def _mean_line(ax: "Axes", curves: Sequence[Curve | QueryCurve]) -> tuple[Any, str]:
    """Draw the mean interpolated precision of the curves that have positives, and return its legend entry."""
    with_positives = [x for x in curves if isinstance(x, Curve) and float(x.m) > 0]
    interpolated = [x.interpolated("101-point") for x in with_positives]
    levels = np.linspace(0, 1, 101)
    height = np.mean([style.array(x.precision) for x in interpolated], 0) if with_positives else np.full(101, np.nan)
    (handle,) = ax.plot(levels, height, **MEAN)
    return handle, style.entry(style.mean([float(x.average_precision) for x in with_positives]), "mean")


def _point_criterion(**criteria: float | None) -> dict[str, Any]:
    """Return the one criterion of the operating points that is not None, or no criterion."""
    chosen = {name: value for name, value in criteria.items() if value is not None}
    if len(chosen) > 1:
        raise ValueError(f"{' and '.join(f'`{x}`' for x in chosen)} cannot be combined: pass one of them")
    ThresholdCriterion(**chosen)
    return chosen


def _operating_point(ax: "Axes", point: OperatingPoint, look: Style, *, by_f: bool) -> str:
    """Draw a mark, with the intervals of precision and recall as bars, and return its text for the legend."""
    values = {x: float(getattr(point, x)) for x in ("precision", "recall", "f_beta", "threshold")}
    if np.isnan(values["threshold"]):
        return ""
    ends = {
        x: [[abs(values[x] - float(getattr(point, f"{x}_{end}")))] for end in ("low", "high")]
        for x in ("precision", "recall")
    }
    mark: dict[str, Any] = {"fmt": "o", "markersize": 7, "markeredgecolor": "white", "elinewidth": 1.2, "zorder": 5}
    ax.errorbar(
        values["recall"],
        values["precision"],
        ends["precision"],
        ends["recall"],
        color=look.color,
        clip_on=False,
        **mark,
    )
    text = f"precision {values['precision']:.3f}, recall {values['recall']:.3f}"
    if by_f:
        text = f"F{_subscript(point.beta)} {values['f_beta']:.3f}"
    return f"  ({text} at score ≥ {values['threshold']:.3g})"


def _chance(ax: "Axes", curves: Sequence[Curve | QueryCurve], looks: Sequence[Style]) -> list[tuple[Any, str]]:
    """Draw the chance levels: one line if all are equal, marks if they are far enough from each other, else a band."""
    pairs = sorted(
        (float(curve.chance_level), look.color)
        for curve, look in zip(curves, looks, strict=True)
        if look.named and isinstance(curve, Curve) and np.isfinite(float(curve.chance_level)) and float(curve.m) > 0
    )
    if not pairs:
        return []
    levels = [level for level, _ in pairs]
    lowest, highest, of_what = levels[0], levels[-1], "of precision"
    dotted: dict[str, Any] = {"linestyle": (0, (1, 2)), "linewidth": 1.4, "zorder": 1}
    if highest - lowest < _TOLERANCE:
        line = ax.axhline(lowest, color=GREY, **dotted)
        return [(line, f"chance level {of_what}: {style.number(lowest)}")]
    if min(np.diff(levels)) < _MIN_DISTANCE:
        beyond = {"xmin": -0.1, "xmax": 1.1}  # the edges become lines across the plot, not a box
        band = ax.axhspan(lowest, highest, **beyond, facecolor=(GREY, FAINT), edgecolor=GREY, **dotted)
        return [(band, f"chance levels {of_what}: {style.number(lowest)} to {style.number(highest)}")]
    mark: dict[str, Any] = {"linestyle": "none", "marker": 5, "clip_on": False}  # a triangle that points to the right
    marks = [ax.plot(_RIGHT, level, color=color, **mark)[0] for level, color in pairs]
    return [(marks[0], f"chance levels {of_what}, at the right")]


def _iso_lines(ax: "Axes", values: Sequence[float], beta: float) -> None:
    """Draw the lines of constant F_beta: p = F r / ((1 + beta^2) r - beta^2 F)."""
    square = beta**2
    for value in values:
        recall = np.linspace(square * value / (1 + square - value), 1, 200)
        height = value * recall / ((1 + square) * recall - square * value)
        ax.plot(recall, height, color=GREY, linewidth=0.8, alpha=0.7, zorder=1)
        label = f"F{_subscript(beta)} = {value:g}"
        text_style: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
        ax.annotate(label, (_RIGHT, height[-1]), (8, 0), fontsize="small", color=GREY, **text_style)


def _subscript(beta: float) -> str:
    return f"$_{{{beta:g}}}$"


def precision_recall_gain(curves: Curves, *, ax: "Axes | None" = None, class_names: ClassNames = None) -> "Axes":
    """Draw precision gain over recall gain, so that the area under the line is the AUPRG.

    A random ranking of many items is the line at 0, for any share of positives, so that curves of data sets with
    different shares are comparable. Points with a negative recall gain, where recall is below the share of positives,
    are left out. The legend is sorted by the area; of more than ten curves only the five best and the five worst are
    named.

    Args:
        curves: a :class:`torch_ap.curves.Curve`, a metric that has ``curve()``, a list of them, or a dict by name.
        ax: the axes to draw on; None for the axes of a new figure.
        class_names: names of the classes of metrics.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError, ValueError: for an invalid argument.

    Equals ``Curve.precision_recall_gain()``.

    Source: Flach & Kull (2015), figure 2.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import plot
        >>> from torch_ap.functional import binary_curve
        >>> ranking = binary_curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]), name="model")
        >>> ax = plot.precision_recall_gain(ranking, ax=Figure().subplots())
        >>> ax.get_legend().get_texts()[0].get_text()
        '0.250  model'
    """
    ranked = curves_of(curves, class_names)
    is_new, ax = ax is None, style.axes_of(ax)
    gains = [x.precision_recall_gain() for x in ranked]
    areas = [float(x.area) for x in gains]
    order, looks = style.styles(areas)
    entries = []
    ax.axhline(0, color=GREY, linewidth=0.8)
    for i, look in zip(order, looks, strict=True):
        recall, precision = style.array(gains[i].recall_gain), style.array(gains[i].precision_gain)
        first = np.flatnonzero(recall >= 0)[:1]
        # the line from the last point before 0 is cut by the axes
        shown = slice(max(int(first[0]) - 1, 0), None) if len(first) else slice(0, 0)
        recall, precision = recall[shown], precision[shown]
        finite = np.isfinite(recall) & np.isfinite(precision)
        recall, precision = recall[finite], precision[finite]
        places = style.decimated(recall, precision)
        (handle,) = ax.plot(recall[places], precision[places], **look.line)
        entries += [(handle, style.entry(areas[i], ranked[i].name))] * look.named
    limits = (_LOWEST_GAIN, _HIGHEST_GAIN)
    style.frame(ax, xlabel="recall gain", ylabel="precision gain", xlim=(0, _HIGHEST_GAIN), ylim=limits)
    more = sum(not look.named for look in looks)
    style.legend(ax, entries, "area under the curve", more=more, widen=is_new)
    return ax
