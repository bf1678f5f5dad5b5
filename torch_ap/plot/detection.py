"""AP of detectors over IoU thresholds and area ranges: whether boxes are loose, and which objects are missed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from torch_ap.metrics.coco_tables import CocoTables
from torch_ap.plot import style
from torch_ap.plot.style import COLORS, DASHES
from torch_ap.rules import checks
from torch_ap.rules.messages import refuse, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vPX*"


def coco(
    metrics: CocoTables | Mapping[str, CocoTables],
    *,
    ax: "Axes | None" = None,
    areas: Sequence[str] | None = None,
) -> "Axes":
    """COCO's AP at each IoU threshold, for each range of object areas.

    A line that falls early is of boxes that are loose; one that is low throughout, of objects that are missed or false
    alarms. The legend has the mean over the thresholds: COCO's ``map``, ``map_small`` and so on, and is sorted by it.

    Args:
        metrics: a :class:`torch_ap.MeanAveragePrecision` or :class:`torch_ap.LVISMeanAveragePrecision`, or a dict of
            them by name, each in a colour of its own.
        ax: the axes to draw on; None for those of a new figure.
        areas: names of area ranges; None for all of them.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError, ValueError: for an argument that breaks one of these rules.

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
        >>> ax = plot.coco(metric, ax=Figure().subplots())
        >>> [x.get_text() for x in ax.get_legend().get_texts()]
        ['0.600  all', '0.600  large', '-  small: no objects', '-  medium: no objects']
    """
    given = metrics if isinstance(metrics, Mapping | nn.ModuleDict) else {"": metrics}
    for metric in given.values():
        if not isinstance(metric, CocoTables):
            raise TypeError(
                "`metrics` must be a MeanAveragePrecision, an LVISMeanAveragePrecision or a dict of them, got "
                f"{shown(metric)}"
            )
    if areas is not None and (isinstance(areas, str) or not isinstance(areas, Sequence)):
        refuse("areas", "must be None or a list of names", areas, TypeError)
    tables = [metric.per_threshold() for metric in given.values()]
    for table in tables:
        for area in areas or ():
            checks.one_of("areas", area, _areas(table))
    own, ax = ax is None, style.axes_of(ax)
    lines = []
    for place, (name, table) in enumerate(zip(given, tables, strict=True)):
        for which, area in enumerate(_areas(table) if areas is None else areas):
            ap = style.array(table[area])
            ap = np.where(ap < 0, np.nan, ap)
            look = {"linestyle": DASHES[which % len(DASHES)], "marker": _MARKERS[which % len(_MARKERS)]}
            look["color"] = COLORS[(place if name else which) % len(COLORS)]
            (handle,) = ax.plot(style.array(table["iou_threshold"]), ap, markersize=4.5, linewidth=1.8, **look)
            lines.append((float(ap.mean()), handle, f"{name}: {area}" if name else area))
    lines.sort(key=lambda x: (np.isnan(x[0]), -x[0]))
    style.frame(ax, xlabel="IoU threshold", ylabel="average precision", ylim=(-0.02, 1.04))
    missing = {True: ": no objects", False: ""}
    entries = [(handle, style.entry(ap, label) + missing[bool(np.isnan(ap))]) for ap, handle, label in lines]
    style.legend(ax, entries, "mean over thresholds", widen=own)
    return ax


def _areas(table: Mapping[str, Any]) -> list[str]:
    """The names of the area ranges."""
    return [x for x in table if x != "iou_threshold"]
