"""Plots of the values of metrics: the measures in a value, and a legend that leaves room for them."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_MAX_ABOVE, _MAX_ENTRIES = 6, 24  # entries of a legend above the axes, and of any legend


def axes_of(ax: Any) -> Any:
    """Return the axes, or the axes of a new figure for None.

    Raises:
        ModuleNotFoundError: without matplotlib.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("`plot` needs matplotlib: pip install matplotlib (extra `plot`)") from error
    return pyplot.subplots(layout="constrained")[1]


def measures(value: Any) -> Any:
    """Return the measures in a result of ``compute``, or in each of a list of results.

    From a dict this removes labels and other counts, arrays, values of single classes, which
    ``torch_ap.plot.per_class`` draws, and -1, COCO's value for an undefined number, which becomes NaN in a series.
    """
    if isinstance(value, Mapping):
        return {name: number for name, number in value.items() if _is_measure(name, number)}
    if isinstance(value, Sequence) and len(value) and all(isinstance(x, Mapping) for x in value):
        rows = [measures(x) for x in value]
        names = dict.fromkeys(name for row in rows for name in row)
        return [{name: row.get(name, torch.tensor(torch.nan)).detach().cpu() for name in names} for row in rows]
    return value


def _is_measure(name: str, value: Any) -> bool:
    single = isinstance(value, Tensor) and value.is_floating_point() and value.ndim == 0
    return single and "class" not in name and float(value) != -1


def move_long_legend(ax: Any) -> None:
    """Move a legend that is too long for the space above the axes to their right, and remove an unreadable one."""
    handles, labels = ax.get_legend_handles_labels()
    if len(labels) > _MAX_ENTRIES:
        ax.get_legend().remove()
    elif len(labels) > _MAX_ABOVE:
        ax.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.02, 1), fontsize="small")


def plot(self: Any, val: Any = None, ax: Any = None) -> Any:
    """Plot one value or several, as torchmetrics does (extra: ``plot``). Pictures of curves: ``torch_ap.plot``.

    In a dict of results each single measure is a series; labels, arrays, values of single classes and undefined
    numbers (-1) are left out.

    Args:
        val: a result of ``compute`` or ``forward``, or a list of them, one per step; None for ``compute()``.
        ax: the matplotlib axis to draw on.

    Returns:
        Figure and axis.

    Raises:
        ModuleNotFoundError: if matplotlib is not installed.
    """
    ax = axes_of(ax)
    self._plot(measures(self.compute() if val is None else val), ax)
    move_long_legend(ax)
    return ax.figure, ax
