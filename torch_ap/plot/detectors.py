"""Plots of detectors: AP over IoU thresholds and area ranges, costs of errors by kind, and confusion of classes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from torch_ap.core.base import checks
from torch_ap.core.base.class_names import ClassNames
from torch_ap.core.base.messages import raise_invalid, short_repr
from torch_ap.core.base.options import Normalize, allowed_values
from torch_ap.core.ranking.order import Array
from torch_ap.detection.errors.confusion import ConfusionMatrix
from torch_ap.detection.errors.tide import DetectionErrors
from torch_ap.detection.metrics import diagnosis
from torch_ap.detection.metrics.analyses import DetectionAnalyses
from torch_ap.detection.metrics.coco_analyses import CocoAnalyses
from torch_ap.plot import style
from torch_ap.plot.style import COLORS, DASHES, GREY, HATCHES, Axes

_MARKERS = "osD^vPX*"
_KINDS = (
    *("classification", "localization", "both", "duplicate", "background", "missed"),
    *("false_positives", "false_negatives"),
)

Detector = DetectionAnalyses | DetectionErrors
_MAX_NUMBERED = 20  # classes whose cells have numbers
_MAX_NAMED = 40
_DARK = 0.55  # opacity above which white text is easier to read


def iou_thresholds(
    metrics: CocoAnalyses | Mapping[str, CocoAnalyses], *, ax: "Axes | None" = None, areas: Sequence[str] | None = None
) -> "Axes":
    """Draw COCO's AP at each IoU threshold, for each range of object areas.

    An early fall of a line indicates loose boxes. A line that is low throughout indicates missed objects or false
    alarms. The legend contains the mean over the thresholds, COCO's ``map``, ``map_small`` and so on, and is sorted by
    it.

    Args:
        metrics: a :class:`torch_ap.MeanAveragePrecision` or :class:`torch_ap.LVISMeanAveragePrecision`, or a dict of
            them by name, each in its own colour.
        ax: the axes to draw on; None for the axes of a new figure.
        areas: names of area ranges; None for all of them.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError: for an argument of an invalid type.
        ValueError: for an argument with an invalid value.

    Equals the means over recall and classes of the ``precision`` of COCOeval's ``eval``.

    Source: Lin et al. (2014), Microsoft COCO: Common Objects in Context.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import MeanAveragePrecision, plot
        >>> metric = MeanAveragePrecision()
        >>> boxes, labels = torch.tensor([[258.0, 41.0, 606.0, 285.0]]), torch.tensor([0])
        >>> preds = [{"boxes": boxes, "scores": torch.tensor([0.536]), "labels": labels}]
        >>> metric.update(preds, [{"boxes": torch.tensor([[214.0, 41.0, 562.0, 285.0]]), "labels": labels}])
        >>> ax = plot.iou_thresholds(metric, ax=Figure().subplots())
        >>> [x.get_text() for x in ax.get_legend().get_texts()]
        ['0.600  all', '0.600  large', '-  small: no objects', '-  medium: no objects']
    """
    by_name = style.systems_of(metrics)
    for metric in by_name.values():
        if not isinstance(metric, CocoAnalyses):
            raise TypeError(
                "`metrics` must be a MeanAveragePrecision, an LVISMeanAveragePrecision or a dict of them, got "
                f"{short_repr(metric)}"
            )
    if areas is not None and (isinstance(areas, str) or not isinstance(areas, Sequence)):
        raise_invalid("areas", "must be None or a list of names", areas, TypeError)
    tables = [metric.per_threshold() for metric in by_name.values()]
    for table in tables:
        for area in areas or ():
            checks.one_of("areas", area, _areas(table))
    is_new, ax = ax is None, style.axes_of(ax)
    lines = []
    for place, (name, table) in enumerate(zip(by_name, tables, strict=True)):
        for area_index, area in enumerate(_areas(table) if areas is None else areas):
            ap = style.array(table[area])
            ap = np.where(ap < 0, np.nan, ap)
            line_style = {"linestyle": DASHES[area_index % len(DASHES)], "marker": _MARKERS[area_index % len(_MARKERS)]}
            line_style["color"] = COLORS[(place if name else area_index) % len(COLORS)]
            (handle,) = ax.plot(style.array(table["iou_threshold"]), ap, markersize=4.5, linewidth=1.8, **line_style)
            lines.append((float(ap.mean()), handle, f"{name}: {area}" if name else area))
    lines.sort(key=lambda x: (np.isnan(x[0]), -x[0]))
    style.frame(ax, xlabel="IoU threshold", ylabel="average precision", ylim=(-0.02, 1.04))
    suffix = {True: ": no objects", False: ""}
    entries = [(handle, style.entry(ap, label) + suffix[bool(np.isnan(ap))]) for ap, handle, label in lines]
    style.legend(ax, entries, "mean over thresholds", widen=is_new)
    return ax


def _areas(table: Mapping[str, Any]) -> list[str]:
    """Return the names of the area ranges."""
    return [x for x in table if x != "iou_threshold"]


def error_costs(detectors: Detector | Mapping[str, Detector], *, ax: "Axes | None" = None) -> "Axes":
    """Draw the cost in AP of each kind of error as a bar, with the number of errors.

    Several detectors are drawn side by side.

    Costs do not add up, because one error often hides another. The last two bars are the cost of all false positives,
    and of all missed ground truths.

    Args:
        detectors: a detection metric or its ``errors()``, or a dict of them by name.
        ax: the axes to draw on; None for the axes of a new figure.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError: for an argument of an invalid type.

    Source: Bolya, Foley, Hays & Hoffman (2020), TIDE: A General Toolbox for Identifying Object Detection Errors.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import MeanAveragePrecision, plot
        >>> metric = MeanAveragePrecision()
        >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
        >>> pred = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}
        >>> metric.update([pred], [{"boxes": boxes, "labels": torch.tensor([0, 1])}])
        >>> ax = plot.error_costs(metric, ax=Figure().subplots())
        >>> [x.get_text() for x in ax.texts][:2]
        ['0.500  1', '0.000  0']
    """
    results = {name: _errors(detector) for name, detector in style.systems_of(detectors).items()}
    is_new, ax = ax is None, style.axes_of(ax)
    handles = [_draw_costs(ax, result, place, len(results)) for place, result in enumerate(results.values())]
    style.frame(ax, xlabel="cost in average precision, and number of errors", ylim=(len(_KINDS) - 0.4, -0.6))
    ax.set_xlim(0, 1.2 * max(0.01, ax.dataLim.x1))
    ax.set_yticks(range(len(_KINDS)), [kind.replace("_", " ") for kind in _KINDS])
    ax.grid(visible=False, axis="y")
    if len(results) > 1:
        labels = [style.entry(float(result.average_precision), name) for name, result in results.items()]
        style.legend(ax, zip(handles, labels, strict=True), "average precision", widen=is_new, force_outside=True)
    return ax


def _draw_costs(ax: "Axes", result: DetectionErrors, place: int, detectors: int) -> Any:
    """Draw the bars of one of several detectors, and return a handle for the legend."""
    rows, height = style.bar_rows(np.arange(len(_KINDS)), place, detectors)
    costs = np.nan_to_num([float(getattr(result, kind)) for kind in _KINDS])
    bar_style: dict[str, Any] = {"color": COLORS[place % len(COLORS)], "hatch": HATCHES[place % len(HATCHES)]}
    for kind, cost, row in zip(_KINDS, costs, rows, strict=True):
        text = f"{style.number(float(getattr(result, kind)))}  {int(result.counts[kind]):,}"
        ax.annotate(text, (cost, row), (4, 0), textcoords="offset points", va="center", fontsize="small")
    return ax.barh(rows, costs, height * 0.9, edgecolor=GREY, linewidth=0.5, **bar_style)


def _errors(detector: Detector) -> DetectionErrors:
    if isinstance(detector, DetectionAnalyses) and hasattr(detector, "errors"):
        return diagnosis.errors(detector)
    if not isinstance(detector, DetectionErrors):
        raise TypeError(
            f"`detectors` must be a detection metric, its errors, or a dict of them, got {short_repr(detector)}"
        )
    return detector


def confusion_matrix(
    matrix: Any, *, ax: "Axes | None" = None, class_names: ClassNames = None, normalize: Normalize | None = "true"
) -> "Axes":
    """Draw how many objects of each class were detected as each class, as another, or not at all.

    True classes are rows, detected classes are columns, and the background is last in both. Up to 20 classes, each cell
    has its number; above 40 classes, the axes have no names.

    Args:
        matrix: a :class:`torch_ap.detection.ConfusionMatrix`, or a metric that has ``confusion_matrix()``.
        ax: the axes to draw on; None for the axes of a new figure.
        class_names: names of the classes of a metric.
        normalize: "true" for shares of the objects of each class, "pred" for shares of the detections of each class,
            "all" for shares of everything; None for counts.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError: for an argument of an invalid type.
        ValueError: for an argument with an invalid value.

    Equals :meth:`torch_ap.detection.ConfusionMatrix.normalized`, or its ``matrix``.

    The rule of matching is described at :meth:`torch_ap.MeanAveragePrecision.confusion_matrix`.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import MeanAveragePrecision, plot
        >>> metric = MeanAveragePrecision(class_names=["cat", "dog"])
        >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
        >>> pred = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}
        >>> metric.update([pred], [{"boxes": boxes, "labels": torch.tensor([0, 1])}])
        >>> ax = plot.confusion_matrix(metric, ax=Figure().subplots())
        >>> [x.get_text() for x in ax.texts]
        ['1.00', '1.00']
    """
    checks.one_of("normalize", normalize, (*allowed_values(Normalize), None))
    result = _matrix_of(matrix, class_names)
    values = style.array(result.matrix if normalize is None else result.normalized(normalize))
    ax = style.axes_of(ax)
    size, greatest = len(values), max(float(np.nanmax(values, initial=0)), 1e-300)
    shade = np.nan_to_num(values) / (1.0 if normalize in ("true", "pred") else greatest)
    _draw_cells(ax, shade)
    if size <= _MAX_NUMBERED + 1:
        _write_cells(ax, values, shade, "{:.0f}" if normalize is None else "{:.2f}")
    names = [style.text_of(x) for x in result.names] if size <= _MAX_NAMED + 1 else []
    ax.set_xticks(range(len(names)), names, rotation=90 if size > 4 else 0)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="detected", ylabel="true")
    return ax


def _matrix_of(matrix: Any, class_names: ClassNames) -> ConfusionMatrix:
    if isinstance(matrix, ConfusionMatrix):
        return matrix
    method = getattr(matrix, "confusion_matrix", None)
    if not isinstance(matrix, nn.Module) or not callable(method):
        raise TypeError(
            f"`matrix` must be a ConfusionMatrix, or a metric that has `confusion_matrix()`, got {short_repr(matrix)}"
        )
    result: ConfusionMatrix = method(class_names=class_names)
    return result


def _draw_cells(ax: "Axes", shade: Array) -> None:
    """Draw the cells in one colour on the background of the axes; a higher value is more opaque."""
    from matplotlib.colors import to_rgb

    cells = np.empty((*shade.shape, 4))
    cells[..., :3], cells[..., 3] = to_rgb(COLORS[0]), shade
    ax.imshow(cells, interpolation="nearest")
    edge = len(shade) - 1.5
    for line in (ax.axhline, ax.axvline):
        line(edge, color=GREY, linewidth=0.8)


def _write_cells(ax: "Axes", values: Array, shade: Array, form: str) -> None:
    """Write the numbers of nonempty cells."""
    for row, column in np.argwhere(values > 0):
        color: dict[str, Any] = {"color": "white"} if shade[row, column] > _DARK else {}
        text = form.format(values[row, column])
        ax.text(column, row, text, ha="center", va="center", fontsize="small", **color)
