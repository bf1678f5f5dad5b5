"""AP of each class as bars with intervals, the highest first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Generator, nn

from torch_ap.curve.convention import Convention
from torch_ap.functional import Curve
from torch_ap.inference.methods import curve_interval
from torch_ap.inference.resampling import Resampling
from torch_ap.metrics.coco_tables import CocoTables
from torch_ap.metrics.images import DetectionMetric
from torch_ap.metrics.items import ClassificationAveragePrecision
from torch_ap.plot import style, vertices
from torch_ap.plot.given import Curves, curves_of, with_kind
from torch_ap.plot.style import COLORS, DASHES, FAINT, GREY, array, number, text_of
from torch_ap.rules import checks
from torch_ap.rules.class_names import ClassNames, names_of
from torch_ap.rules.messages import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES = 0.24  # of a row
_MOST_INCHES = 24.0
_LEAST_POINTS = 4.0  # of a name that can be read
_BAR = 0.8  # of a row, for all its bars
_HATCHES = ("", "//", "..", "xx", "\\\\", "++")  # colours alone are not told apart in grey


@dataclass(frozen=True)
class Bar:
    """One class of one system."""

    value: float
    low: float = np.nan
    high: float = np.nan
    chance: float = np.nan


class Wanted(NamedTuple):
    """Which intervals are drawn."""

    confidence_level: float
    resampling: Resampling


def per_class(
    curves: Curves,
    *,
    ax: "Axes | None" = None,
    class_names: ClassNames = None,
    interval: bool = True,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    generator: Generator | None = None,
    batch: int | None = None,
    progress: bool = False,
) -> "Axes":
    """Average precision of each class as a bar, the highest first; of several systems side by side.

    A bar is as long as the AP; the whisker is its confidence interval, the upright stroke the chance level m / n.
    Classes without positives have no AP and stand last. Names shrink until 80 or so fit, and are left out beyond.

    Args:
        curves: a metric of several classes, or a dict of such metrics by system; or whatever has curves: a list of
            :class:`torch_ap.functional.Curve`, or a dict of curves by name. Of detectors it is the AP over all IoU
            thresholds.
        ax: the axes to draw on; None for those of a new figure, as high as there are classes.
        class_names: of the classes of metrics; of a ``MeanAveragePrecision`` or LVIS's, in place of its own.
        interval: whether the intervals are drawn: of classifiers those of
            :func:`torch_ap.inference.average_precision_interval`, by "bootstrap-logit" where AP is interpolated; of
            detectors those over images, ``metric.confidence_interval(per_class=True)``. AP@k, weights, "trapezoid" and
            ties that are not grouped have none. Nor has interpolated AP of curves: these do not say whether their items
            are independent, as a detector's are not; give the metric.
        confidence_level: nominal coverage of each interval, in (0, 1).
        n_resamples: of intervals that resample; at least 2.
        generator: their source of randomness; None for a fresh one with seed 0, so that pictures repeat.
        batch: how many resamples are computed at once; None for as many as fit the bound on memory.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``compute()`` and ``confidence_interval()`` of a metric with ``average="none"``.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import MultilabelAveragePrecision, plot
        >>> metric = MultilabelAveragePrecision(num_labels=2)
        >>> metric.update(torch.tensor([[0.9, 0.2], [0.6, 0.7], [0.1, 0.8]]), torch.tensor([[1, 0], [0, 1], [1, 0]]))
        >>> ax = plot.per_class(metric, ax=Figure().subplots(), class_names=["cat", "dog"])
        >>> [x.get_text() for x in ax.get_yticklabels()]
        ['cat  0.833', 'dog  0.500']
    """
    style.check_flags(interval=interval)
    checks.open_fraction("confidence_level", confidence_level)
    how = Resampling(n_resamples, generator, batch, progress)
    systems = _systems(curves, class_names, Wanted(confidence_level, how) if interval else None)
    names = _sorted(systems)
    rows = len(names) * max(1.0, len(systems) / 2)
    own, ax = ax is None, style.axes_of(ax, height=min(_MOST_INCHES, 1.2 + _INCHES * rows))
    handles = [_draw(ax, bars, names, place, len(systems)) for place, bars in enumerate(systems.values())]
    means = [_mean(bars) for bars in systems.values()]
    style.frame(ax, xlabel="average precision", xlim=(0, 1.02), ylim=(max(1, len(names)) - 0.4, -0.6))
    ax.grid(visible=False, axis="y")
    if len(systems) > 1:
        _write_names(ax, names, [text_of(x) for x in names])
        entries = [(handle, style.entry(mean, x)) for handle, mean, x in zip(handles, means, systems, strict=True)]
        style.legend(ax, entries, "mean", widen=own, beside=True)
        return ax
    (bars,) = systems.values()
    _write_names(ax, names, [f"{text_of(x)}  {number(bars[x].value)}" for x in names])
    if not np.isnan(means[0]):
        line = ax.axvline(means[0], color=GREY, linestyle=(0, (4, 2)), linewidth=1.2, zorder=1)
        style.legend(ax, [(line, f"mean {number(means[0])}")])
    return ax


def _systems(given: Curves, class_names: ClassNames, wanted: Wanted | None) -> dict[str, dict[str, Bar]]:
    """The bars of each system: a dict is of systems, unless each has one bar."""
    if not isinstance(given, Mapping | nn.ModuleDict):
        return {"": _bars(given, class_names, wanted)}
    each = {str(name): _bars(one, class_names, wanted) for name, one in given.items()}
    if any(len(bars) > 1 for bars in each.values()):
        return each
    return {"": {name: bar for name, bars in each.items() for bar in bars.values()}}


def _bars(given: Curves, class_names: ClassNames, wanted: Wanted | None) -> dict[str, Bar]:
    """One system's classes by name."""
    if isinstance(given, DetectionMetric):
        bars = _of_detector(given, class_names, wanted)
    else:
        curves, independent = curves_of(given, class_names), isinstance(given, ClassificationAveragePrecision)
        several = len(curves) > 1
        bars = [(x.name or f"{place}" * several, _bar(x, wanted, independent)) for place, x in enumerate(curves)]
    twice = [name for name, count in Counter(name for name, _ in bars).items() if count > 1]
    if twice:
        raise ValueError(f"`curves` must have different names, got {shown(twice[0])} twice")
    return dict(bars)


def _of_detector(metric: DetectionMetric, class_names: ClassNames, wanted: Wanted | None) -> list[tuple[str, Bar]]:
    """Classes with their AP over all IoU thresholds, and its interval over images."""
    with metric._all_ranks():
        sample = metric._sample(per_class=True)
    own = metric._report.class_names if isinstance(metric, CocoTables) else None
    names = names_of(sample.labels, own if class_names is None else class_names)
    columns = [array(sample.each_class())]
    if wanted is not None and names:
        found = sample.interval(wanted.confidence_level, None, wanted.resampling)
        columns += [array(found.low), array(found.high)]
    rows = zip(names, *columns, strict=True)
    return [(with_kind(metric, name), Bar(*map(float, numbers))) for name, *numbers in rows]


def _bar(curve: Curve, wanted: Wanted | None, independent: bool) -> Bar:
    """With its interval, where that is a matter of the curve alone, or of its items, which are ``independent``."""
    value, chance = float(curve.average_precision), float(curve.chance_level)
    ranking, interpolation = vertices.ranking_of(curve), curve.interpolation
    tied = curve.ties != "grouped" and bool((ranking.items > 1).any())
    known = interpolation is None or (independent and not vertices.is_straight(curve))
    if wanted is None or ranking.weighted or curve.top_k is not None or tied or not known:
        return Bar(value, chance=chance)
    found = curve_interval(
        ranking,
        Convention(interpolation=interpolation, ties="grouped"),
        confidence_level=wanted.confidence_level,
        method="influence" if interpolation is None else "bootstrap-logit",
        design="iid",
        resampling=wanted.resampling,
    )
    return Bar(value, float(found.low), float(found.high), chance)


def _sorted(systems: Mapping[str, Mapping[str, Bar]]) -> list[str]:
    """All classes, by their mean over the systems that have a value, the highest first, NaN last."""
    names = list(dict.fromkeys(name for bars in systems.values() for name in bars))
    means = {x: _mean({y: bars[x] for y, bars in systems.items() if x in bars}) for x in names}
    return sorted(names, key=lambda x: (np.isnan(means[x]), -means[x]))


def _mean(bars: Mapping[str, Bar]) -> float:
    known = [bar.value for bar in bars.values() if not np.isnan(bar.value)]
    return float(np.mean(known)) if known else np.nan


def _draw(ax: "Axes", bars: Mapping[str, Bar], names: Sequence[str], place: int, systems: int) -> Any:
    """The bars of one system, with whiskers and chance levels; and a handle for the legend."""
    height = _BAR / systems
    rows = np.array([i for i, name in enumerate(names) if name in bars]) - _BAR / 2 + height * (place + 0.5)
    value, low, high, chance = (
        np.array([getattr(bars[x], field) for x in names if x in bars]) for field in ("value", "low", "high", "chance")
    )
    color, text = COLORS[place % len(COLORS)], ax.xaxis.label.get_color()
    if _points(ax, names) < _LEAST_POINTS:
        ax.fill_betweenx(rows, low, high, step="mid", color=color, alpha=FAINT, linewidth=0)
        ax.plot(chance, rows, linestyle="none", marker=".", markersize=2, color=text)
        return ax.plot(value, rows, drawstyle="steps-mid", color=color, linestyle=DASHES[place % len(DASHES)])[0]
    look: dict[str, Any] = {
        "color": (color, 0.75),
        "hatch": _HATCHES[place % len(_HATCHES)],
        "edgecolor": GREY,
        "linewidth": 0.5,
    }
    drawn = ax.barh(rows, np.nan_to_num(value), height * 0.9, **look)
    known = ~np.isnan(low)
    reach = np.abs([value - low, high - value])[:, known]
    ax.errorbar(value[known], rows[known], xerr=reach, fmt="none", ecolor=text, elinewidth=1.1, capsize=1.5, zorder=3)
    ax.plot(chance, rows, linestyle="none", marker="|", color=text, markersize=6, markeredgewidth=1.4, zorder=3)
    for row in rows[np.isnan(value)] if systems == 1 else ():
        where: Any = {"textcoords": "offset points", "va": "center", "fontsize": "small"}
        ax.annotate("no positives", (0, row), (4, 0), color=GREY, **where)
    return drawn


def _points(ax: "Axes", names: Sequence[str]) -> float:
    """The height of a name that fits a row, in points."""
    return 0.75 * 72 * ax.get_window_extent().height / ax.figure.dpi / max(1, len(names))


def _write_names(ax: "Axes", names: Sequence[str], labels: Sequence[str]) -> None:
    """Names as large as their rows, or how many there are."""
    points = _points(ax, names)
    if points < _LEAST_POINTS:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(names):,} classes")
        return
    ax.set_yticks(range(len(names)), labels, fontsize=min(10.0, points))
    ax.tick_params(axis="y", length=0)
