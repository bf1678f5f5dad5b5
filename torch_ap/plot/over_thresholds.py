"""Precision, recall and F_beta over score thresholds: where to cut a ranking."""

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from torch_ap.functional import Curve
from torch_ap.matching.coco import ClassNames
from torch_ap.plot import style
from torch_ap.plot.given import Curves, curves_of
from torch_ap.plot.style import COLORS, DASHES, Style, number
from torch_ap.rules import checks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def f_beta_thresholds(
    curves: Curves, *, ax: "Axes | None" = None, class_names: ClassNames = None, beta: float = 1.0
) -> "Axes":
    r"""F_beta over score thresholds, with its highest point; of one curve precision and recall too.

    .. math::
        F_\beta = (1 + \beta^2) \frac{p r}{\beta^2 p + r}

    of the items with ``score >= threshold``. Between two scores nothing changes, so the lines are steps. The legend is
    sorted by the highest F_beta, and says at which threshold that is; of more than ten curves the five best and the
    five worst have names. Infinite scores are left out.

    Args:
        curves: a :class:`torch_ap.functional.Curve`, a metric that has ``curve()``, a list of them, or a dict by name.
        ax: the axes to draw on; None for those of a new figure.
        class_names: of the classes of metrics.
        beta: how many times as important recall is as precision, above 0 and with a finite square.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals :meth:`Curve.f_beta` over ``Curve.thresholds``, with :meth:`Curve.operating_point`.

    Source: van Rijsbergen (1979), chapter 7.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import plot
        >>> from torch_ap.functional import curve
        >>> found = curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]))
        >>> ax = plot.f_beta_thresholds(found, ax=Figure().subplots())
        >>> [x.get_text() for x in ax.get_legend().get_texts()]
        ['$F_{1}$, highest 0.800 at score ≥ 0.7', 'precision', 'recall']
    """
    checks.beta("beta", beta)
    found = curves_of(curves, class_names)
    best = [x.operating_point(beta=beta) for x in found]
    own, ax = ax is None, style.axes_of(ax)
    order, looks = style.styles([float(x.f_beta) for x in best])
    measure, alone, entries = f"$F_{{{beta:g}}}$", len(found) == 1, []
    for i, look in zip(order, looks, strict=True):
        handle = _draw(ax, found[i], found[i].f_beta(beta), look)
        height, threshold = float(best[i].f_beta), float(best[i].threshold)
        if look.named and np.isfinite(threshold):
            ax.plot(threshold, height, "o", color=look.color, markersize=7, markeredgecolor="white", zorder=5)
        at = "" if np.isnan(height) else f" at score ≥ {threshold:.3g}"
        name = f"{measure}, highest {number(height)}" if alone else style.entry(height, found[i].name)
        entries += [(handle, name + at)] * look.named
    if alone:
        for place, name in enumerate(("precision", "recall"), 1):
            handle = _draw(ax, found[0], getattr(found[0], name), Style(COLORS[place], DASHES[place]))
            entries.append((handle, name))
    style.frame(ax, xlabel="score threshold", ylabel="" if alone else measure, ylim=(-0.02, 1.04))
    style.legend(
        ax, entries, None if alone else f"highest {measure}", more=sum(not look.named for look in looks), widen=own
    )
    return ax


def _draw(ax: "Axes", curve: Curve, values: Tensor, look: Style) -> Any:
    """A step that has each value from the next lower score, which is left out, to its own."""
    score, height = style.array(curve.thresholds), style.array(values)
    known = np.isfinite(score) & ~np.isnan(height)
    score, height = score[known][::-1], height[known][::-1]
    kept = style.decimated(score, height)
    (handle,) = ax.plot(score[kept], height[kept], drawstyle="steps-pre", **look.line)
    return handle
