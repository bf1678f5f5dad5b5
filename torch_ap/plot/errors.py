"""What kinds of errors of a detector cost, as bars."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from torch_ap.analysis.errors import DetectionErrors
from torch_ap.metrics.images import DetectionMetric
from torch_ap.plot import style
from torch_ap.plot.style import COLORS, GREY
from torch_ap.rules.messages import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS = (
    *("classification", "localization", "both", "duplicate", "background", "missed"),
    *("false_positives", "false_negatives"),
)
_HATCHES = ("", "//", "..", "xx", "\\\\", "++")  # colours alone are not told apart in grey
_BAR = 0.8  # of a row, for all its bars

Detector = DetectionMetric | DetectionErrors


def errors(detectors: Detector | Mapping[str, Detector], *, ax: "Axes | None" = None) -> "Axes":
    """What each kind of error costs in AP as a bar, with how many there are; of several detectors side by side.

    Costs do not add up: one error often hides another. The last two are the cost of all false positives, and of all
    ground truths that are not found.

    Args:
        detectors: a detection metric or its ``errors()``, or a dict of them by name.
        ax: the axes to draw on; None for those of a new figure.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError: for an argument that breaks one of these rules.

    Source: Bolya, Foley, Hays & Hoffman (2020), TIDE: A General Toolbox for Identifying Object Detection Errors.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import MeanAveragePrecision, plot
        >>> metric = MeanAveragePrecision()
        >>> boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
        >>> found = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}
        >>> metric.update([found], [{"boxes": boxes, "labels": torch.tensor([0, 1])}])
        >>> ax = plot.errors(metric, ax=Figure().subplots())
        >>> [x.get_text() for x in ax.texts][:2]
        ['0.500  1', '0.000  0']
    """
    given = detectors if isinstance(detectors, Mapping | nn.ModuleDict) else {"": detectors}
    found = {str(name): _errors(one) for name, one in given.items()}
    own, ax = ax is None, style.axes_of(ax)
    handles = [_draw(ax, one, place, len(found)) for place, one in enumerate(found.values())]
    style.frame(ax, xlabel="cost in average precision, and number of errors", ylim=(len(_KINDS) - 0.4, -0.6))
    ax.set_xlim(0, 1.2 * max(0.01, ax.dataLim.x1))
    ax.set_yticks(range(len(_KINDS)), [kind.replace("_", " ") for kind in _KINDS])
    ax.grid(visible=False, axis="y")
    if len(found) > 1:
        labels = [style.entry(float(one.average_precision), name) for name, one in found.items()]
        style.legend(ax, zip(handles, labels, strict=True), "average precision", widen=own, beside=True)
    return ax


def _draw(ax: "Axes", found: DetectionErrors, place: int, detectors: int) -> Any:
    """The bars of one of several detectors, and a handle for the legend."""
    height = _BAR / detectors
    costs = np.nan_to_num([float(getattr(found, kind)) for kind in _KINDS])
    rows = np.arange(len(_KINDS)) - _BAR / 2 + height * (place + 0.5)
    look: dict[str, Any] = {"color": COLORS[place % len(COLORS)], "hatch": _HATCHES[place % len(_HATCHES)]}
    for kind, cost, row in zip(_KINDS, costs, rows, strict=True):
        text = f"{style.number(float(getattr(found, kind)))}  {int(found.counts[kind]):,}"
        ax.annotate(text, (cost, row), (4, 0), textcoords="offset points", va="center", fontsize="small")
    return ax.barh(rows, costs, height * 0.9, edgecolor=GREY, linewidth=0.5, **look)


def _errors(detector: Detector) -> DetectionErrors:
    if isinstance(detector, DetectionMetric):
        return detector.errors()
    if not isinstance(detector, DetectionErrors):
        raise TypeError(f"`detectors` must be a detection metric, its errors, or a dict of them, got {shown(detector)}")
    return detector
