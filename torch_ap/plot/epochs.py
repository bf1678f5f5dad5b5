"""Plot of the values of a training over epochs."""

from typing import TYPE_CHECKING, Any

import numpy as np

from torch_ap.core.base.messages import raise_invalid
from torch_ap.inference.selection import BestSystem
from torch_ap.plot import style
from torch_ap.plot.style import COLORS, FAINT, Axes, text_of

if TYPE_CHECKING:
    from torch_ap.inference.best_epoch import BestOf

_MAX_TICKS = 12  # epochs with names on the axis


def epochs(best: "BestSystem | BestOf", *, ax: "Axes | None" = None) -> "Axes":
    """Draw the value of each epoch with its simultaneous interval, and the best epoch without its optimism.

    The shade contains the true values of all epochs at once, with the probability of the confidence level. The bar at
    the best epoch is its corrected value with the selection-adjusted interval.

    Args:
        best: the epochs of :class:`torch_ap.BestOf`, or the result of its method ``best`` or of
            :func:`torch_ap.inference.best_of_metrics`. Its names label the axis.
        ax: the axes to draw on; None for the axes of a new figure.

    Returns:
        The axes.

    Raises:
        ModuleNotFoundError: without matplotlib (extra: ``plot``).
        TypeError: for an argument of an invalid type.
        ValueError: for a ``BestOf`` with fewer than two epochs.

    Equals ``values``, ``simultaneous_low``, ``simultaneous_high``, ``corrected``, ``low`` and ``high`` of the result.

    Example:
        >>> import torch
        >>> from matplotlib.figure import Figure
        >>> from torch_ap import inference, plot
        >>> target = torch.tensor([1, 1, 0, 1, 0, 0, 1, 0, 0, 0] * 6)
        >>> noise = torch.linspace(-1, 1, 60).mul(7).sin()
        >>> preds = torch.stack([target * 0.8 + noise.roll(7 * epoch) for epoch in range(5)])
        >>> ax = plot.epochs(inference.best_of(preds, target), ax=Figure().subplots())
        >>> [round(float(x), 3) for x in ax.lines[0].get_ydata()]
        [0.723, 0.754, 0.772, 0.753, 0.749]
    """
    found = best if isinstance(best, BestSystem) else _best_of_epochs(best)
    ax = style.axes_of(ax)
    values, low, high = map(style.array, (found.values, found.simultaneous_low, found.simultaneous_high))
    places, level = np.arange(len(values)), f"{100 * found.confidence_level:g}%"
    (line,) = ax.plot(places, values, "o-", color=COLORS[0], markersize=4, zorder=3)
    entries: list[tuple[Any, str]] = [(line, "value")]
    if not np.isnan(low).all():
        shade = ax.fill_between(places, low, high, color=COLORS[0], alpha=FAINT, linewidth=0, zorder=1)
        entries.append((shade, f"{level} simultaneous intervals"))
    text = f"best, {text_of(found.names[found.best])}: {float(found.value):.3f}"
    best_low, corrected, best_high = (float(x) for x in (found.low, found.corrected, found.high))
    mark: dict[str, Any] = {"color": COLORS[1], "markersize": 6, "zorder": 4}
    if best_low == best_low:
        ends = [[corrected - best_low], [best_high - corrected]]
        bar = ax.errorbar(found.best, corrected, ends, fmt="D", capsize=4, linewidth=1.8, **mark)
        text += f", without optimism {corrected:.3f}, {level} interval {best_low:.3f} to {best_high:.3f}"
        entries.append((bar, text))
    else:
        entries.append((ax.plot(found.best, float(found.value), "D", **mark)[0], text))
    shown = np.unique(np.linspace(0, len(values) - 1, min(len(values), _MAX_TICKS)).round().astype(int))
    ax.set_xticks(shown, [text_of(found.names[place]) for place in shown])
    style.frame(ax, xlabel="epoch", ylabel="value")
    style.legend(ax, entries)
    return ax


def _best_of_epochs(best: object) -> BestSystem:
    from torch_ap.inference.best_epoch import BestOf  # imports torchmetrics

    if not isinstance(best, BestOf):
        raise_invalid("best", "must be a BestOf or a BestSystem", type(best).__name__, TypeError)
    return best.best()
