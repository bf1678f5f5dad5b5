"""Plot of the costs of the kinds of errors of a detector as bars."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from torch_ap.core.base.messages import short_repr
from torch_ap.detection.errors.tide import DetectionErrors
from torch_ap.detection.metrics import diagnosis
from torch_ap.detection.metrics.analyses import DetectionAnalyses
from torch_ap.plot import style
from torch_ap.plot.style import COLORS, GREY, HATCHES, Axes

_KINDS = (
    *("classification", "localization", "both", "duplicate", "background", "missed"),
    *("false_positives", "false_negatives"),
)

Detector = DetectionAnalyses | DetectionErrors


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
    handles = [_draw(ax, result, place, len(results)) for place, result in enumerate(results.values())]
    style.frame(ax, xlabel="cost in average precision, and number of errors", ylim=(len(_KINDS) - 0.4, -0.6))
    ax.set_xlim(0, 1.2 * max(0.01, ax.dataLim.x1))
    ax.set_yticks(range(len(_KINDS)), [kind.replace("_", " ") for kind in _KINDS])
    ax.grid(visible=False, axis="y")
    if len(results) > 1:
        labels = [style.entry(float(result.average_precision), name) for name, result in results.items()]
        style.legend(ax, zip(handles, labels, strict=True), "average precision", widen=is_new, force_outside=True)
    return ax


def _draw(ax: "Axes", result: DetectionErrors, place: int, detectors: int) -> Any:
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
