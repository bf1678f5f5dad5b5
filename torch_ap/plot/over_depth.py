"""Plot of hits over depth: the hit curve between the curves of the ideal and the random ranking."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.ranking.order import Array
from torch_ap.curves import Curve
from torch_ap.plot import style
from torch_ap.plot.given import Curves, curves_of
from torch_ap.plot.style import GREY, Axes, Style

_DASHES = {"ideal": (0, (4, 2)), "random": (0, (1, 2))}


def hit_curve(
    curves: Curves,
    *,
    ax: "Axes | None" = None,
    class_names: ClassNames = None,
    fraction: bool = False,
    ideal: bool = True,
    random: bool = True,
) -> "Axes":
    r"""Draw the hit curve h(t), the number of positives among the first t items, and the ideal and the random ranking.

    .. math::
        h_P(t) = \min(t, m), \qquad h_R(t) = t \, \frac{m}{n}

    The path through tied items follows ``ties``. The legend is sorted by AP; of more than ten curves only the five best
    and the five worst are named.

    Args:
        curves: a :class:`torch_ap.curves.Curve`, a metric that has ``curve()``, a list of them, or a dict by name.
        ax: the axes to draw on; None for the axes of a new figure.
        class_names: names of the classes of metrics.
        fraction: whether t and h are fractions of n, as in Zhu's paper, instead of numbers of items.
        ideal: whether h_P is drawn: once if all curves share it, else for each curve in its colour.
        random: whether h_R is drawn, likewise.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError: for an argument of an invalid type.
        ValueError: for an argument with an invalid value.

    Equals the points of :meth:`Curve.hit_curve`, ``Curve.ideal_hit_curve`` and ``Curve.random_hit_curve``.

    Source: Zhu (2004), Figure 2.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import plot
        >>> from torch_ap.functional import binary_curve
        >>> ranking = binary_curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]), name="model")
        >>> plot.hit_curve(ranking, ax=Figure().subplots()).lines[-1].get_ydata().tolist()
        [0.0, 1.0, 1.0, 2.0, 2.0]
    """
    style.check_flags(fraction=fraction, ideal=ideal, random=random)
    ranked = curves_of(curves, class_names)
    is_new, ax = ax is None, style.axes_of(ax)
    order, looks = style.styles([float(x.average_precision) for x in ranked])
    drawn = [(ranked[i], look) for i, look in zip(order, looks, strict=True)]
    references: list[tuple[Any, str]] = []
    for name, is_shown in (("ideal", ideal), ("random", random)):
        if is_shown:
            references += _reference(ax, name, [x for x in drawn if x[1].named], fraction)
    entries = []
    for curve, look in drawn:
        (handle,) = ax.plot(*_points(curve.hit_curve(fraction=fraction)), **look.line)
        entries += [(handle, style.entry(float(curve.average_precision), curve.name))] * look.named
    unit = " / n" if fraction else ""
    style.frame(ax, xlabel=f"depth t{unit}", ylabel=f"hits h(t){unit}")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    style.legend(ax, [*entries, *references], "average precision", more=len(drawn) - len(entries), widen=is_new)
    return ax


def _points(curve: Any) -> list[Array]:
    t, hits = style.array(curve.t), style.array(curve.hits)
    shown = style.decimated(t, hits)
    return [t[shown], hits[shown]]


def _reference(ax: "Axes", name: str, curves: Sequence[tuple[Curve, Style]], fraction: bool) -> list[tuple[Any, str]]:
    """Draw the ideal or the random curve: one grey line if all are equal, else one line per curve in its colour."""
    lines = [(_points(getattr(curve, f"{name}_hit_curve")(fraction=fraction)), look) for curve, look in curves]
    shared = all(np.array_equal(points, lines[0][0]) for points, _ in lines)
    handles = [
        ax.plot(*points, color=GREY if shared else look.color, linestyle=_DASHES[name], linewidth=1.2, zorder=2)[0]
        for points, look in (lines[:1] if shared else lines)
    ]
    return [(handle, name) for handle in handles[:1]]
