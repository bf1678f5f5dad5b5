"""Plot of the AP of each class as bars with intervals, the highest first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from torch import Generator

from torch_ap.classification.analyses import ItemAnalyses
from torch_ap.core.base import checks
from torch_ap.core.base.class_names import ClassNames, label_names
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import short_repr
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.ties import tie_rule
from torch_ap.curves import Curve
from torch_ap.detection.metrics.analyses import DetectionAnalyses
from torch_ap.detection.metrics.coco_analyses import CocoAnalyses
from torch_ap.inference.average_precision import curve_interval
from torch_ap.inference.resampling import InferenceSettings, Resampling
from torch_ap.plot import style, vertices
from torch_ap.plot.given import Curves, curves_of, with_kind
from torch_ap.plot.style import COLORS, DASHES, FAINT, GREY, HATCHES, Axes, array, number, text_of

_ROW_INCHES = 0.24
_MAX_INCHES = 24.0
_MIN_POINTS = 4.0  # font size of a readable name


@dataclass(frozen=True)
class Bar:
    """The bar of one class of one system."""

    value: float
    low: float = np.nan
    high: float = np.nan
    chance: float = np.nan


class IntervalOptions(NamedTuple):
    """Options of the intervals."""

    confidence_level: float
    resampling: Resampling
    simultaneous: bool = False  # intervals that contain the values of all classes at once


@renamed_keywords(batch="chunk_size")
def per_class(
    curves: Curves,
    *,
    ax: "Axes | None" = None,
    class_names: ClassNames = None,
    interval: bool = True,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    generator: Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> "Axes":
    """Draw the average precision of each class as a bar, the highest first; several systems are drawn side by side.

    The length of a bar is the AP. The whisker is its confidence interval, the vertical stroke the chance level m / n.
    Classes without positives have no AP and come last. Names shrink until about 80 fit; more names are omitted.

    Args:
        curves: a metric of several classes, or a dict of such metrics by system; or any source of curves: a list of
            :class:`torch_ap.curves.Curve`, or a dict of curves by name. For detectors, the bar is the AP over all
            IoU thresholds.
        ax: the axes to draw on; None for the axes of a new figure, whose height follows the number of classes.
        class_names: names of the classes of metrics; for a ``MeanAveragePrecision`` or LVIS's, they replace its own
            names.
        interval: whether intervals are drawn. Classifiers have the intervals of
            :func:`torch_ap.inference.average_precision_interval`, by "bootstrap-logit" if AP is interpolated. Detectors
            have intervals over images, ``metric.confidence_interval(per_class=True)``. Metrics of items in groups have
            the intervals of the groups, and their curves have none. AP@k, weights, "trapezoid" and
            ties other than "grouped" have no interval. Interpolated AP of curves has none either, because a curve does
            not record whether its items are independent (the items of a detector are not); pass the metric instead.
        confidence_level: nominal coverage of each interval, in (0, 1).
        n_resamples: number of resamples of intervals that resample; at least 2.
        generator: the source of randomness of these intervals; None for a new one with seed 0, so that plots repeat.
        chunk_size: number of resamples computed together; None for as many as fit the bound on memory.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError: for an argument of an invalid type.
        ValueError: for an argument with an invalid value.

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
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    return draw_bars(
        _systems(curves, class_names, IntervalOptions(confidence_level, resampling) if interval else None), ax
    )


def draw_bars(systems: Mapping[str, Mapping[str, Bar]], ax: "Axes | None" = None) -> "Axes":
    """Draw the bars of each system by class; see :func:`per_class`."""
    names = _sorted_names(systems)
    rows = len(names) * max(1.0, len(systems) / 2)
    is_new, ax = ax is None, style.axes_of(ax, height=min(_MAX_INCHES, 1.2 + _ROW_INCHES * rows))
    handles = [_draw(ax, bars, names, place, len(systems)) for place, bars in enumerate(systems.values())]
    means = [style.mean(bar.value for bar in bars.values()) for bars in systems.values()]
    style.frame(ax, xlabel="average precision", xlim=(0, 1.02), ylim=(max(1, len(names)) - 0.4, -0.6))
    ax.grid(visible=False, axis="y")
    if len(systems) > 1:
        _write_names(ax, names, [text_of(x) for x in names])
        entries = [(handle, style.entry(mean, x)) for handle, mean, x in zip(handles, means, systems, strict=True)]
        style.legend(ax, entries, "mean", widen=is_new, force_outside=True)
        return ax
    (bars,) = systems.values()
    _write_names(ax, names, [f"{text_of(x)}  {number(bars[x].value)}" for x in names])
    if not np.isnan(means[0]):
        line = ax.axvline(means[0], color=GREY, linestyle=(0, (4, 2)), linewidth=1.2, zorder=1)
        style.legend(ax, [(line, f"mean {number(means[0])}")])
    return ax


def _systems(curves: Curves, class_names: ClassNames, options: IntervalOptions | None) -> dict[str, dict[str, Bar]]:
    """Return the bars of each system; a dict whose values have one bar each is a single system."""
    systems = {name: class_bars(x, class_names, options) for name, x in style.systems_of(curves).items()}
    if len(systems) == 1 or any(len(bars) > 1 for bars in systems.values()):
        return systems
    return {"": {name: bar for name, bars in systems.items() for bar in bars.values()}}


def class_bars(
    source: Curves, class_names: ClassNames, options: IntervalOptions | None, known: Sequence[Curve] | None = None
) -> dict[str, Bar]:
    """Return the bars of one system by class name.

    Args:
        source: metric or curves of the system.
        class_names: names of the classes, or None.
        options: options of the intervals; None for none.
        known: curves of the metric; None to compute them.
    """
    if isinstance(source, DetectionAnalyses):
        bars = _detector_bars(source, class_names, options)
    else:
        independent = isinstance(source, ItemAnalyses)
        if known is None:
            curves = curves_of(source, class_names)
        else:
            curves = [replace(x, name=with_kind(source, x.name)) for x in known]
        has_several = len(curves) > 1
        bars = [(x.name or f"{place}" * has_several, _bar(x, options, independent)) for place, x in enumerate(curves)]
        of_metric = options is not None and (options.simultaneous or all(map(_has_interval_of_groups, curves)))
        if options is not None and independent and curves and of_metric:
            bars = _with_intervals_of_metric(bars, source, options)
    duplicates = [name for name, count in Counter(name for name, _ in bars).items() if count > 1]
    if duplicates:
        raise ValueError(f"`curves` must have different names, got {short_repr(duplicates[0])} twice")
    return dict(bars)


def _detector_bars(
    metric: DetectionAnalyses, class_names: ClassNames, options: IntervalOptions | None
) -> list[tuple[str, Bar]]:
    """Return each class with its AP over all IoU thresholds, and its interval over images."""
    with metric._all_ranks():
        sample = metric._sample(per_class=True)
    metric_names = metric._report.class_names if isinstance(metric, CocoAnalyses) else None
    names = label_names(sample.labels, metric_names if class_names is None else class_names)
    columns = [array(sample.each_class())]
    if options is not None and names:
        interval = sample.interval(options.confidence_level, None, options.resampling)
        columns += [array(interval.low), array(interval.high)]
    rows = zip(names, *columns, strict=True)
    return [(with_kind(metric, name), Bar(*map(float, numbers))) for name, *numbers in rows]


def _has_interval_of_groups(curve: Curve) -> bool:
    """Whether the items are in groups, with an interval of their AP by the groups."""
    is_plain = curve.interpolation is None and curve.top_k is None
    return curve.groups is not None and is_plain and not curve.hits.is_floating_point()


def _with_intervals_of_metric(
    bars: Sequence[tuple[str, Bar]], metric: ItemAnalyses, options: IntervalOptions
) -> list[tuple[str, Bar]]:
    """Return the bars of classes with the intervals of items in groups, or of all classes at once."""
    settings = metric._settings
    with metric._all_ranks():
        settings = settings if settings.single else replace(settings, average="none")
        sample = replace(metric._sample(), settings=settings, simultaneous=options.simultaneous)
        interval = sample.interval_of_value(options.confidence_level, None, options.resampling)
    ends = zip(array(interval.low).reshape(-1), array(interval.high).reshape(-1), strict=True)
    return [
        (name, replace(bar, low=float(low), high=float(high)))
        for (name, bar), (low, high) in zip(bars, ends, strict=True)
    ]


def _bar(curve: Curve, options: IntervalOptions | None, independent: bool) -> Bar:
    """Return the bar of a curve, with an interval if the curve determines it.

    Args:
        curve: the curve of a class.
        options: options of the interval; None for none.
        independent: whether the items are independent, as required by intervals that resample items.
    """
    value, chance = float(curve.average_precision), float(curve.chance_level)
    ranking, interpolation = curve._ranking(), curve.interpolation
    tied = not tie_rule(curve.ties).is_threshold and bool((ranking.items > 1).any())
    has_interval = interpolation is None or (independent and not vertices.is_straight(curve))
    if (
        options is None
        or curve.groups is not None
        or ranking.weighted
        or curve.top_k is not None
        or tied
        or not has_interval
    ):
        return Bar(value, chance=chance)
    method = "influence" if interpolation is None else "bootstrap-logit"
    settings = InferenceSettings(options.confidence_level, method, resampling=options.resampling)
    interval = curve_interval(ranking, Convention(interpolation=interpolation, ties=curve.ties), settings)
    return Bar(value, float(interval.low), float(interval.high), chance)


def _sorted_names(systems: Mapping[str, Mapping[str, Bar]]) -> list[str]:
    """Return all classes by their mean over the systems that have a value, the highest first, NaN last."""
    names = list(dict.fromkeys(name for bars in systems.values() for name in bars))
    means = {x: style.mean(bars[x].value for bars in systems.values() if x in bars) for x in names}
    return sorted(names, key=lambda x: (np.isnan(means[x]), -means[x]))


def _draw(ax: "Axes", bars: Mapping[str, Bar], names: Sequence[str], place: int, systems: int) -> Any:
    """Draw the bars of one system with whiskers and chance levels, and return a handle for the legend."""
    rows, height = style.bar_rows([i for i, name in enumerate(names) if name in bars], place, systems)
    value, low, high, chance = (
        np.array([getattr(bars[x], field) for x in names if x in bars]) for field in ("value", "low", "high", "chance")
    )
    color, text = COLORS[place % len(COLORS)], ax.xaxis.label.get_color()
    if _points(ax, names) < _MIN_POINTS:
        ax.fill_betweenx(rows, low, high, step="mid", color=color, alpha=FAINT, linewidth=0)
        ax.plot(chance, rows, linestyle="none", marker=".", markersize=2, color=text)
        return ax.plot(value, rows, drawstyle="steps-mid", color=color, linestyle=DASHES[place % len(DASHES)])[0]
    bar_style: dict[str, Any] = {
        "color": (color, 0.75),
        "hatch": HATCHES[place % len(HATCHES)],
        "edgecolor": GREY,
        "linewidth": 0.5,
    }
    handle = ax.barh(rows, np.nan_to_num(value), height * 0.9, **bar_style)
    has_interval = ~np.isnan(low)
    reach = np.abs([value - low, high - value])[:, has_interval]
    ax.errorbar(
        value[has_interval],
        rows[has_interval],
        xerr=reach,
        fmt="none",
        ecolor=text,
        elinewidth=1.1,
        capsize=1.5,
        zorder=3,
    )
    ax.plot(chance, rows, linestyle="none", marker="|", color=text, markersize=6, markeredgewidth=1.4, zorder=3)
    for row in rows[np.isnan(value)] if systems == 1 else ():
        text_style: Any = {"textcoords": "offset points", "va": "center", "fontsize": "small"}
        ax.annotate("no positives", (0, row), (4, 0), color=GREY, **text_style)
    return handle


def _points(ax: "Axes", names: Sequence[str]) -> float:
    """Return the height of a name that fits a row, in points."""
    return 0.75 * 72 * ax.get_window_extent().height / ax.figure.dpi / max(1, len(names))


def _write_names(ax: "Axes", names: Sequence[str], labels: Sequence[str]) -> None:
    """Write the names at the size of their rows, or the number of classes if the names do not fit."""
    points = _points(ax, names)
    if points < _MIN_POINTS:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(names):,} classes")
        return
    ax.set_yticks(range(len(names)), labels, fontsize=min(10.0, points))
    ax.tick_params(axis="y", length=0)
