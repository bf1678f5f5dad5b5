"""Plots over the cut of a ranking: hits over depth; precision, recall and F_beta over score thresholds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.ranking.order import Array
from torch_ap.curves import Curve
from torch_ap.plot import style
from torch_ap.plot.given import Curves, curves_of
from torch_ap.plot.style import COLORS, DASHES, GREY, MEAN, Axes, Style

_REFERENCES = {"ideal": (0, (4, 2)), "random": (0, (1, 2))}
_MEASURES = ("f_beta", "precision", "recall")
_POINTS = 4096  # maximum number of points of the line of a mean


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
        ax.plot(*points, color=GREY if shared else look.color, linestyle=_REFERENCES[name], linewidth=1.2, zorder=2)[0]
        for points, look in (lines[:1] if shared else lines)
    ]
    return [(handle, name) for handle in handles[:1]]


def f_beta_thresholds(
    curves: Curves,
    *,
    ax: "Axes | None" = None,
    class_names: ClassNames = None,
    beta: float = 1.0,
    measure: str = "f_beta",
    mean: bool = False,
) -> "Axes":
    r"""Draw F_beta over score thresholds, with its highest point; for a single curve also precision and recall.

    .. math::
        F_\beta = (1 + \beta^2) \frac{p r}{\beta^2 p + r}

    Precision p and recall r are of the items with ``score >= threshold``. Between two scores nothing changes, so the
    lines are steps. The legend is sorted by the highest F_beta, and contains its threshold; of more than ten curves
    only the five best and the five worst are named. Infinite scores are omitted.

    Args:
        curves: a :class:`torch_ap.curves.Curve`, a metric that has ``curve()``, a list of them, or a dict by name.
        ax: the axes to draw on; None for the axes of a new figure.
        class_names: names of the classes of metrics.
        beta: the weight of recall relative to precision, above 0 and with a finite square.
        measure: "f_beta", or "precision" or "recall" alone, which have no highest point.
        mean: whether the mean of the curves with positives is drawn as a thick line, at up to 4,096 of their scores;
            the lines of the curves are then thin. Mean precision covers the curves that retrieve anything at a score.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError: for an argument of an invalid type.
        ValueError: for an argument with an invalid value.

    Equals :meth:`Curve.f_beta` over ``Curve.thresholds``, with :meth:`Curve.operating_point`.

    Source: van Rijsbergen (1979), chapter 7.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import plot
        >>> from torch_ap.functional import binary_curve
        >>> ranking = binary_curve(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]))
        >>> ax = plot.f_beta_thresholds(ranking, ax=Figure().subplots())
        >>> [x.get_text() for x in ax.get_legend().get_texts()]
        ['$F_{1}$, highest 0.800 at score ≥ 0.7', 'precision', 'recall']
    """
    checks.beta("beta", beta)
    checks.one_of("measure", measure, _MEASURES)
    style.check_flags(mean=mean)
    ranked = curves_of(curves, class_names)
    is_new, ax = ax is None, style.axes_of(ax)
    label = f"$F_{{{beta:g}}}$" if measure == "f_beta" else measure
    is_single = len(ranked) == 1 and measure == "f_beta" and not mean
    entries = [_mean_line(ax, ranked, measure, beta)] if mean else []
    unnamed = [replace(x, name="") for x in ranked] if is_single else ranked
    drawn, more = _draw_curves(ax, unnamed, measure, beta, thin=mean)
    if is_single:
        drawn = [(drawn[0][0], f"{label}, highest {drawn[0][1]}")]
        for place, name in enumerate(_MEASURES[1:], 1):
            look = Style(COLORS[place], DASHES[place])
            drawn.append((_draw(ax, ranked[0], getattr(ranked[0], name), look), name))
    title = None if is_single else f"highest {label}" if measure == "f_beta" else "average precision"
    style.frame(ax, xlabel="score threshold", ylabel="" if is_single else label, ylim=(-0.02, 1.04))
    style.legend(ax, [*entries, *drawn], title, more=more, widen=is_new)
    return ax


def _draw_curves(
    ax: "Axes", curves: Sequence[Curve], measure: str, beta: float, *, thin: bool
) -> tuple[list[tuple[Any, str]], int]:
    """Draw the line of each curve, for F_beta with its highest point.

    Returns:
        The entries of the legend, and the number of curves without one.
    """
    best = [x.operating_point(beta=beta) for x in curves] if measure == "f_beta" else []
    heights = [float(x.f_beta) for x in best] if best else [float(x.average_precision) for x in curves]
    order, looks = style.styles(heights)
    entries = []
    for i, look in zip(order, [x.thin for x in looks] if thin else looks, strict=True):
        handle, suffix = _draw(ax, curves[i], _values(curves[i], measure, beta), look), ""
        if best and not np.isnan(heights[i]):
            suffix = f" at score ≥ {float(best[i].threshold):.3g}"
            if look.named and np.isfinite(float(best[i].threshold)):
                mark: dict[str, Any] = {"markersize": 7, "markeredgecolor": "white", "zorder": 5}
                ax.plot(float(best[i].threshold), heights[i], "o", color=look.color, **mark)
        entries += [(handle, style.entry(heights[i], curves[i].name) + suffix)] * look.named
    return entries, sum(not look.named for look in looks)


def _values(curve: Curve, measure: str, beta: float) -> Tensor:
    return curve.f_beta(beta) if measure == "f_beta" else getattr(curve, measure)


def _mean_line(ax: "Axes", curves: Sequence[Curve], measure: str, beta: float) -> tuple[Any, str]:
    """Draw the mean over curves that have positives, at the scores of all of them, and return its legend entry."""
    with_positives = [x for x in curves if float(x.m) > 0]
    scores = np.unique(np.concatenate([np.zeros(0), *(style.array(x.thresholds) for x in with_positives)]))
    scores = scores[np.isfinite(scores)]
    scores = scores[np.unique(np.linspace(0, max(len(scores) - 1, 0), _POINTS).astype(int))] if len(scores) else scores
    rows = [_values_at(x, style.array(_values(x, measure, beta)), scores, measure) for x in with_positives]
    is_known = [~np.isnan(row) for row in rows]
    count = np.sum(is_known, 0) if rows else np.zeros(len(scores))
    total = np.sum([np.where(*x, 0.0) for x in zip(is_known, rows, strict=True)], 0) if rows else np.zeros(len(scores))
    height = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    (handle,) = ax.plot(scores, height, drawstyle="steps-pre", **MEAN)
    if measure != "f_beta":
        return handle, style.entry(style.mean([float(x.average_precision) for x in with_positives]), "mean")
    if not len(height):
        return handle, style.entry(np.nan, "mean")
    place = int(height.argmax())
    return handle, style.entry(float(height[place]), f"mean at score ≥ {scores[place]:.3g}")


def _values_at(curve: Curve, values: Array, scores: Array, measure: str) -> Array:
    """Return the value at each score: the value of the lowest threshold that is at least the score.

    Nothing is retrieved above all thresholds.
    """
    ascending = style.array(curve.thresholds)[::-1]
    place = np.searchsorted(ascending, scores, "left")
    return np.append(values[::-1], np.nan if measure == "precision" else 0.0)[place]


def _draw(ax: "Axes", curve: Curve, values: Tensor, look: Style) -> Any:
    """Draw a step that has each value from the next lower score (excluded) to its own score."""
    score, height = style.array(curve.thresholds), style.array(values)
    is_shown = np.isfinite(score) & ~np.isnan(height)
    score, height = score[is_shown][::-1], height[is_shown][::-1]
    places = style.decimated(score, height)
    (handle,) = ax.plot(score[places], height[places], drawstyle="steps-pre", **look.line)
    return handle
