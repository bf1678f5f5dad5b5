"""Plot of the AP of detectors over IoU thresholds and area ranges, which shows loose boxes and missed objects."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid, short_repr
from torch_ap.detection.metrics.coco_analyses import CocoAnalyses
from torch_ap.plot import style
from torch_ap.plot.style import COLORS, DASHES, Axes

_MARKERS = "osD^vPX*"


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
