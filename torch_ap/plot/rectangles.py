"""What average precision adds up, for teaching: rectangles under the precision-recall curve."""

from typing import TYPE_CHECKING

import numpy as np

from torch_ap.functional import Curve
from torch_ap.plot import style, vertices
from torch_ap.plot.given import Curves, curves_of
from torch_ap.plot.style import COLORS, FAINT, number
from torch_ap.plot.vertices import Line, Rectangles
from torch_ap.ranking.order import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW = 60  # rectangles with edges, and points
_INCHES = 0.42  # that a number takes
_TERMS = 6  # of a sum that fits a title
_LEVEL_WIDTH = 0.8  # of the distance between recall levels


def average_precision_rectangles(curve: Curves, *, ax: "Axes | None" = None) -> "Axes":
    """What average precision adds up: for each hit a rectangle as wide as the recall it adds, as high as the precision.

    The line joins the points of all thresholds. More than sixty rectangles are one area, without edges. Interpolated AP
    has the rectangles of the interpolated curve, or a bar at each recall level over which it is a mean; "trapezoid"
    what lies under the line. Of AP@k there are the first k items, and recall is in hits of those that it divides by:
    min(k, m), m, or those found. The area, or of bars the mean height, is the AP.

    Args:
        curve: one :class:`torch_ap.functional.Curve`, or a metric whose ``curve()`` is one.
        ax: the axes to draw on; None for those of a new figure.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError, ValueError: for what is not one curve.

    Source: Zhu (2004), example 3.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import plot
        >>> from torch_ap.functional import curve
        >>> found = curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]))
        >>> plot.average_precision_rectangles(found, ax=Figure().subplots()).get_title()
        'AP = (1 + 0.667) / 2 = 0.833'
    """
    given = curves_of(curve)
    if len(given) != 1:
        raise ValueError(f"`curve` must be one curve, got {len(given)}")
    one, ax = given[0], style.axes_of(ax)
    unit = hits_of_all(one)
    corners, points, at_levels = vertices.rectangles(one, unit), vertices.points(one, unit), vertices.levels(one)
    if at_levels is not None and len(at_levels.recall) <= _FEW:
        _bars(ax, *_around(at_levels))
    elif at_levels is None and not vertices.is_straight(one) and len(corners.right) <= _FEW:
        _bars(ax, corners.right - corners.width, corners.width, corners.height)
    else:
        ax.fill_between(*vertices.line(one), color=COLORS[0], alpha=FAINT, linewidth=0)
    kept = style.decimated(*points)
    mark = "o" if len(kept) <= _FEW else None
    ax.plot(points.recall[kept], points.precision[kept], color=COLORS[1], marker=mark, markersize=5, linewidth=1.6)
    xlabel = "recall" if one.top_k is None else f"hits / {unit:g}"
    style.frame(ax, xlabel=xlabel, ylabel="precision", xlim=(-0.06, 1.06), ylim=(0, 1.1))
    name = "AP" if one.top_k is None else f"AP@{one.top_k}"
    ax.set_title(f"{name} = {_in_words(one, corners, at_levels, unit)}", fontsize="medium")
    return ax


def hits_of_all(curve: Curve) -> float:
    """What average precision divides by."""
    m = float(curve.m)
    if curve.top_k is None or curve.denominator == "relevant":
        return m
    found = vertices.rectangles(curve, 1.0).right
    return min(float(curve.top_k), m) if curve.denominator == "min" else float(found[-1]) if len(found) else m


def _around(levels: Line) -> tuple[Array, Array, Array]:
    """Left ends, widths and heights of bars around recall levels."""
    width = _LEVEL_WIDTH * (np.diff(levels.recall).min() if len(levels.recall) > 1 else 0.1)
    return levels.recall - width / 2, np.full_like(levels.recall, width), levels.precision


def _bars(ax: "Axes", left: Array, width: Array, height: Array) -> None:
    """Rectangles with edges, and the height over each where there is room."""
    drawn = ax.bar(left, height, width, align="edge", color=(COLORS[0], FAINT), edgecolor=COLORS[0], linewidth=1.0)
    if ax.get_window_extent().width / ax.figure.dpi >= _INCHES * len(height):
        ax.bar_label(drawn, [f"{x:.3g}" for x in height], fontsize="small", padding=3)


def _in_words(curve: Curve, corners: Rectangles, levels: Line | None, unit: float) -> str:
    """The sum in numbers where it is short, else how many it is of; and what it is."""
    total, terms = number(float(curve.average_precision)), [f"{x:.3g}" for x in corners.height]
    if not float(curve.m):
        return f"{total}: no positives"
    if levels is not None:
        return f"mean height at {len(levels.recall)} recall levels = {total}"
    if vertices.is_straight(curve):
        return f"area under the line = {total}"
    if 0 < len(terms) <= _TERMS and np.allclose(corners.width * unit, 1):
        return f"({' + '.join(terms)}) / {unit:g} = {total}"
    return f"area of {len(terms):,} rectangles = {total}"
