"""Plot of the terms of average precision as rectangles under the precision-recall curve, for teaching."""

import numpy as np

from torch_ap.core.measures.ties import divisor
from torch_ap.core.ranking.order import Array
from torch_ap.curves import Curve
from torch_ap.plot import style, vertices
from torch_ap.plot.given import Curves, curves_of
from torch_ap.plot.style import COLORS, FAINT, Axes, number
from torch_ap.plot.vertices import Line, Rectangles

_MAX_RECTANGLES = 60  # rectangles with edges, and points with marks
_NUMBER_INCHES = 0.42  # width of a number
_MAX_TERMS = 6  # terms of a sum that fits a title
_LEVEL_WIDTH = 0.8  # share of the distance between recall levels


def average_precision_rectangles(curve: Curves, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the terms of average precision as rectangles: the width is the recall of a hit, the height its precision.

    The line joins the points of all thresholds. More than sixty rectangles are one area, without edges. Interpolated AP
    has the rectangles of the interpolated curve, or a bar at each of its recall levels; "trapezoid" has the area under
    the line. AP@k has the first k items, and recall in units of hits of its denominator: min(k, m), m, or the number of
    hits retrieved. The area, or the mean height of the bars, is the AP.

    Args:
        curve: one :class:`torch_ap.curves.Curve`, or a metric whose ``curve()`` is one.
        ax: the axes to draw on; None for the axes of a new figure.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError: for an object without a curve.
        ValueError: for several curves.

    Source: Zhu (2004), example 3.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import plot
        >>> from torch_ap.functional import binary_curve
        >>> ranking = binary_curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]))
        >>> plot.average_precision_rectangles(ranking, ax=Figure().subplots()).get_title()
        'AP = (1 + 0.667) / 2 = 0.833'
    """
    curves = curves_of(curve)
    if len(curves) != 1:
        raise ValueError(f"`curve` must be one curve, got {len(curves)}")
    ranking, ax = curves[0], style.axes_of(ax)
    unit = hits_of_all(ranking)
    corners, points, at_levels = (
        vertices.rectangles(ranking, unit),
        vertices.points(ranking, unit),
        vertices.levels(ranking),
    )
    if at_levels is not None and len(at_levels.recall) <= _MAX_RECTANGLES:
        width = _LEVEL_WIDTH * (np.diff(at_levels.recall).min() if len(at_levels.recall) > 1 else 0.1)
        _draw_bars(ax, at_levels.recall - width / 2, np.full_like(at_levels.recall, width), at_levels.precision)
    elif at_levels is None and not vertices.is_straight(ranking) and len(corners.right) <= _MAX_RECTANGLES:
        _draw_bars(ax, corners.right - corners.width, corners.width, corners.height)
    else:
        ax.fill_between(*vertices.line(ranking), color=COLORS[0], alpha=FAINT, linewidth=0)
    shown = style.decimated(*points)
    mark = "o" if len(shown) <= _MAX_RECTANGLES else None
    ax.plot(points.recall[shown], points.precision[shown], color=COLORS[1], marker=mark, markersize=5, linewidth=1.6)
    xlabel = "recall" if ranking.top_k is None else f"hits / {unit:g}"
    style.frame(ax, xlabel=xlabel, ylabel="precision", xlim=(-0.06, 1.06), ylim=(0, 1.1))
    name = "AP" if ranking.top_k is None else f"AP@{ranking.top_k}"
    ax.set_title(f"{name} = {_sum_text(ranking, corners, at_levels, unit)}", fontsize="medium")
    return ax


def hits_of_all(curve: Curve) -> float:
    """Return the denominator of average precision."""
    m = float(curve.m)
    if curve.top_k is None or curve.denominator != "found":
        return divisor(curve.denominator, m, curve.top_k)  # type: ignore[no-any-return]
    hits = vertices.rectangles(curve, 1.0).right
    return float(hits[-1]) if len(hits) else m


def _draw_bars(ax: "Axes", left: Array, width: Array, height: Array) -> None:
    """Draw rectangles with edges, and the height above each if it fits."""
    bars = ax.bar(left, height, width, align="edge", color=(COLORS[0], FAINT), edgecolor=COLORS[0], linewidth=1.0)
    if ax.get_window_extent().width / ax.figure.dpi >= _NUMBER_INCHES * len(height):
        ax.bar_label(bars, [f"{x:.3g}" for x in height], fontsize="small", padding=3)


def _sum_text(curve: Curve, corners: Rectangles, levels: Line | None, unit: float) -> str:
    """Return the sum as text: its terms if they are few, else their number."""
    total, terms = number(float(curve.average_precision)), [f"{x:.3g}" for x in corners.height]
    if not float(curve.m):
        return f"{total}: no positives"
    if levels is not None:
        return f"mean height at {len(levels.recall)} recall levels = {total}"
    if vertices.is_straight(curve):
        return f"area under the line = {total}"
    if 0 < len(terms) <= _MAX_TERMS and np.allclose(corners.width * unit, 1):
        return f"({' + '.join(terms)}) / {unit:g} = {total}"
    return f"area of {len(terms):,} rectangles = {total}"
