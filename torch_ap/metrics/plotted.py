"""What ``plot()`` draws of a metric's value: numbers that are measures, with a legend that leaves room for them."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_MOST_ABOVE, _MOST = 6, 24  # entries of a legend above the axes, and beside them


def axes_of(ax: Any) -> Any:
    """The axes that are given, or those of a new figure.

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
    """What a metric computed, or a list of that, without what no axis of measures has a place for.

    Of a dict these are labels and other counts, arrays, values of single classes, which ``torch_ap.plot.per_class``
    draws, and -1, COCO's mark for a number that does not exist: it is left out, or NaN among others of its name.
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
    """Beside the axes, where it is too long to stand above them; away, where nobody would find anything in it."""
    handles, labels = ax.get_legend_handles_labels()
    if len(labels) > _MOST:
        ax.get_legend().remove()
    elif len(labels) > _MOST_ABOVE:
        ax.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.02, 1), fontsize="small")
