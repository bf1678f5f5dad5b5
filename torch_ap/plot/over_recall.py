"""Precision over recall, as it is integrated, with what helps to read it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from torch_ap.functional import Curve, QueryCurve
from torch_ap.inference import Interval, OperatingPoint
from torch_ap.inference.operating_point import Wanted
from torch_ap.plot import style, vertices
from torch_ap.plot.given import Curves, all_curves_of
from torch_ap.plot.style import FAINT, GREY, MEAN, Style
from torch_ap.rules import checks
from torch_ap.rules.class_names import ClassNames
from torch_ap.rules.messages import refuse

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW_LEVELS = 21  # points that can be told apart
_SAME = 0.0005  # in a picture
_APART = 0.04  # what marks must lie apart to be told from one another
_RIGHT = 1.02  # edge of the picture


def precision_recall(
    curves: Curves,
    *,
    ax: "Axes | None" = None,
    class_names: ClassNames = None,
    chance_level: bool = True,
    iso_f: Sequence[float] = (),
    band: bool = False,
    mean: bool = False,
    confidence_level: float = 0.95,
    beta: float | None = None,
    precision: float | None = None,
    recall: float | None = None,
) -> "Axes":
    """Precision over recall, drawn so that the area under the line is the average precision.

    A step from hit to hit for plain AP, with its tie groups as ``ties`` says, and of AP@k up to k; the interpolated
    curve for "all-points", with a dot at each of the recall levels over which "11-point" and its like are means;
    straight lines for "trapezoid". The line falls to 0 at the last recall of a ranking that misses positives. Over
    queries it is TREC's: the mean interpolated precision at eleven recall levels. The legend is sorted by AP; of more
    than ten curves the five best and the five worst have names.

    Args:
        curves: a :class:`torch_ap.functional.Curve`, a metric that has ``curve()``, a list of them, or a dict by name.
        ax: the axes to draw on; None for those of a new figure.
        class_names: of the classes of metrics.
        chance_level: whether the precision of a random order is drawn: a line where all curves have the same; a mark at
            the right for each, in its colour, where they lie apart; else a grey band from the lowest to the highest.
            Queries have none.
        iso_f: values of F_beta whose lines are drawn; ``beta`` is 1 where it is not given.
        band: whether the confidence band of interpolated precision is drawn (:meth:`Curve.band`).
        mean: whether the mean over the curves that have positives is drawn, thick, beside thin lines of these: of
            interpolated precision at 101 recall levels.
        confidence_level: of the band and of the intervals at operating points, in (0, 1).
        beta, precision, recall: one of them marks each curve's operating point, with its intervals: that of the highest
            F_beta, or of a wanted precision or recall (:meth:`Curve.operating_point`).

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals, for plain AP, the steps of ``sklearn.metrics.PrecisionRecallDisplay``, without its strokes down where recall
    stays as it is.

    Source: Davis & Goadrich (2006) on why the step is not a straight line; van Rijsbergen (1979) for F.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import plot
        >>> from torch_ap.functional import curve
        >>> found = curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]), name="model")
        >>> ax = plot.precision_recall(found, ax=Figure().subplots())
        >>> ax.get_legend().get_texts()[0].get_text()
        '0.833  model'
    """
    style.check_flags(chance_level=chance_level, band=band, mean=mean)
    checks.open_fraction("confidence_level", confidence_level)
    values = _iso_values(iso_f)
    point = _wanted(beta=beta, precision=precision, recall=recall)
    found = all_curves_of(curves, class_names)
    order, looks = style.styles([float(x.average_precision) for x in found])
    named = [x for x, look in zip((found[i] for i in order), looks, strict=True) if look.named and isinstance(x, Curve)]
    bands = {id(x): x.band(confidence_level=confidence_level) for x in named if band and len(x.thresholds)}
    points = {id(x): x.operating_point(**point, confidence_level=confidence_level) for x in named if point}
    own, ax = ax is None, style.axes_of(ax)
    _iso_lines(ax, values, 1.0 if beta is None else beta)
    entries, unnamed = [_mean_line(ax, found)] if mean else [], 0
    for curve, look in zip((found[i] for i in order), [x.thin for x in looks] if mean else looks, strict=True):
        handle = _draw(ax, curve, look)
        label = style.entry(float(curve.average_precision), curve.name)
        if look.named and id(curve) in bands:
            _band(ax, bands[id(curve)], look)
        if look.named and id(curve) in points:
            label += _operating_point(ax, points[id(curve)], look, by_f="beta" in point)
        unnamed += not look.named
        entries += [(handle, label)] * look.named
    if chance_level:
        entries += _chance(ax, [found[i] for i in order], looks)
    style.frame(ax, xlabel="recall", ylabel="precision", xlim=(1 - _RIGHT, _RIGHT), ylim=(-0.02, 1.04))
    style.legend(ax, entries, "average precision", more=unnamed, margin=60 if values else 14, widen=own)
    return ax


def _draw(ax: "Axes", curve: Curve | QueryCurve, look: Style) -> Any:
    """The line, the recall levels if there are any, and a handle for the legend."""
    if isinstance(curve, QueryCurve):
        points = style.array(curve.recall_levels), style.array(curve.interpolated_precision)
        return ax.plot(*points, marker="o", markersize=4, **look.line)[0]
    (handle,) = ax.plot(*vertices.line(curve), **look.line)
    at_levels = vertices.levels(curve) if look.named else None
    if at_levels is not None and len(at_levels.recall) <= _FEW_LEVELS:
        ax.plot(*at_levels, color=look.color, linestyle="none", marker="o", markersize=5, zorder=4)
    return handle


def _mean_line(ax: "Axes", curves: Sequence[Curve | QueryCurve]) -> tuple[Any, str]:
    """The mean of interpolated precision over the curves of rankings that have positives, and what the legend says."""
    some = [x for x in curves if isinstance(x, Curve) and float(x.m) > 0]
    found = [x.interpolated("101-point") for x in some]
    levels = np.linspace(0, 1, 101)
    height = np.mean([style.array(x.precision) for x in found], 0) if some else np.full(101, np.nan)
    (handle,) = ax.plot(levels, height, **MEAN)
    value = float(np.mean([float(x.average_precision) for x in some])) if some else np.nan
    return handle, style.entry(value, "mean")


def _iso_values(given: Any) -> list[float]:
    """The values of F whose lines are drawn."""
    if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str):
        refuse("iso_f", "must be a list of numbers between 0 and 1", given, TypeError)
    return [checks.open_fraction("iso_f", value) for value in given]


def _wanted(**given: float | None) -> dict[str, Any]:
    """What operating points are chosen for: one thing, or none."""
    found = {name: value for name, value in given.items() if value is not None}
    if len(found) > 1:
        raise ValueError(f"{' and '.join(f'`{x}`' for x in found)} cannot both be given: one marks the operating point")
    Wanted(**found)
    return found


def _band(ax: "Axes", found: Interval, look: Style) -> None:
    low, high = (style.array(end) for end in (found.low, found.high))
    ax.fill_between(np.linspace(0, 1, len(low)), low, high, color=look.color, alpha=FAINT, linewidth=0, zorder=1)


def _operating_point(ax: "Axes", found: OperatingPoint, look: Style, *, by_f: bool) -> str:
    """Its mark, with the intervals of precision and recall as bars; and what the legend says of it."""
    values = {x: float(getattr(found, x)) for x in ("precision", "recall", "f_beta", "threshold")}
    if np.isnan(values["threshold"]):
        return ""
    ends = {
        x: [[abs(values[x] - float(getattr(found, f"{x}_{end}")))] for end in ("low", "high")]
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
    said = f"precision {values['precision']:.3f}, recall {values['recall']:.3f}"
    if by_f:
        said = f"F{_subscript(found.beta)} {values['f_beta']:.3f}"
    return f"  ({said} at score ≥ {values['threshold']:.3g})"


def _chance(ax: "Axes", curves: Sequence[Curve | QueryCurve], looks: Sequence[Style]) -> list[tuple[Any, str]]:
    """One line where all curves have one chance level; a mark each, where they lie apart; else a band."""
    found = sorted(
        (float(curve.chance_level), look.color)
        for curve, look in zip(curves, looks, strict=True)
        if look.named and isinstance(curve, Curve) and np.isfinite(float(curve.chance_level)) and float(curve.m) > 0
    )
    if not found:
        return []
    levels = [level for level, _ in found]
    lowest, highest, what = levels[0], levels[-1], "of precision"
    dotted: dict[str, Any] = {"linestyle": (0, (1, 2)), "linewidth": 1.4, "zorder": 1}
    if highest - lowest < _SAME:
        line = ax.axhline(lowest, color=GREY, **dotted)
        return [(line, f"chance level {what}: {style.number(lowest)}")]
    if min(np.diff(levels)) < _APART:
        beyond = {"xmin": -0.1, "xmax": 1.1}  # so that its edges are lines across the picture, and no box
        band = ax.axhspan(lowest, highest, **beyond, facecolor=(GREY, FAINT), edgecolor=GREY, **dotted)
        return [(band, f"chance levels {what}: {style.number(lowest)} to {style.number(highest)}")]
    mark: dict[str, Any] = {"linestyle": "none", "marker": 5, "clip_on": False}  # a triangle that points to the right
    marks = [ax.plot(_RIGHT, level, color=color, **mark)[0] for level, color in found]
    return [(marks[0], f"chance levels {what}, at the right")]


def _iso_lines(ax: "Axes", values: Sequence[float], beta: float) -> None:
    """Where F_beta has these values: p = F r / ((1 + beta^2) r - beta^2 F)."""
    square = beta**2
    for value in values:
        recall = np.linspace(square * value / (1 + square - value), 1, 200)
        height = value * recall / ((1 + square) * recall - square * value)
        ax.plot(recall, height, color=GREY, linewidth=0.8, alpha=0.7, zorder=1)
        said = f"F{_subscript(beta)} = {value:g}"
        where: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
        ax.annotate(said, (_RIGHT, height[-1]), (8, 0), fontsize="small", color=GREY, **where)


def _subscript(beta: float) -> str:
    return f"$_{{{beta:g}}}$"
