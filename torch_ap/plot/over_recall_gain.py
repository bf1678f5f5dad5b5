"""Plot of precision gain over recall gain."""

import numpy as np

from torch_ap.core.base.class_names import ClassNames
from torch_ap.plot import style
from torch_ap.plot.given import Curves, curves_of
from torch_ap.plot.style import GREY, Axes

_LOWEST = -0.05  # lower limits of the axes
_HIGHEST = 1.04  # upper limits


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
    limits = (_LOWEST, _HIGHEST)
    style.frame(ax, xlabel="recall gain", ylabel="precision gain", xlim=(0, _HIGHEST), ylim=limits)
    more = sum(not look.named for look in looks)
    style.legend(ax, entries, "area under the curve", more=more, widen=is_new)
    return ax
