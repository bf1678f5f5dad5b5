"""Shared helpers of the plots: axes, colours with line styles, names as text, legends, decimated lines."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from torch import nn

from torch_ap.core.base import checks
from torch_ap.core.base.messages import escape_unprintable
from torch_ap.core.ranking.order import Array

if TYPE_CHECKING:
    import matplotlib.axes

Axes: TypeAlias = "matplotlib.axes.Axes"  # plots import matplotlib when they draw

# Okabe & Ito (2008), Color Universal Design, without yellow and black, which are invisible on light or dark pages
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
HATCHES = ("", "//", "..", "xx", "\\\\", "++")  # colours alone cannot be distinguished in grey
GREY = "0.5"  # visible on white and on black
MEAN: dict[str, Any] = {"color": GREY, "linewidth": 3.5, "zorder": 4}  # the mean of several curves
FAINT = 0.2  # opacity of areas

_BARS_HEIGHT = 0.8  # share of a row for all its bars
_MAX_NAMED = 10  # named lines; there are 12 distinct pairs of colour and line style
_MAX_INSIDE = 6  # entries of a legend inside the axes
_MAX_NAME_LENGTH = 32
_POINTS = 72  # points per inch
_WIDTH = 6.4  # inches, of a figure
_COLUMNS = 4096  # at least the width of a plot in pixels


class Style(NamedTuple):
    """Style of one of several lines, and whether the legend names it."""

    color: str
    linestyle: Any
    named: bool = True
    width: float = 1.8

    @property
    def thin(self) -> "Style":
        """The style of the line next to the thick line of a mean."""
        return self._replace(width=0.9)

    @property
    def line(self) -> dict[str, Any]:
        """Keywords of ``Axes.plot``."""
        shape = {"linewidth": self.width, "zorder": 3} if self.named else {"linewidth": 0.7, "alpha": 0.5, "zorder": 2}
        return {"color": self.color, "linestyle": self.linestyle, **shape}


UNNAMED = Style(GREY, "-", named=False)


def axes_of(ax: Any, height: float = 4.8) -> Any:
    """Return the given axes, or the axes of a new figure.

    Raises:
        ModuleNotFoundError: without matplotlib.
        TypeError: for an object that is not matplotlib's Axes.
    """
    try:
        from matplotlib import axes
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("`torch_ap.plot` needs matplotlib: pip install matplotlib (extra `plot`)") from error
    if ax is None:
        from matplotlib import pyplot

        return pyplot.subplots(figsize=(_WIDTH, height), layout="constrained")[1]
    if not isinstance(ax, axes.Axes):
        raise TypeError(f"`ax` must be matplotlib's Axes or None, got {type(ax).__name__}")
    return ax


def check_flags(**flags: object) -> None:
    """Raise TypeError for a flag that is not a bool; keywords are the names of the arguments."""
    for name, value in flags.items():
        checks.boolean(name, value)


def styles(values: Sequence[float]) -> tuple[list[int], list[Style]]:
    """Return the order of the values, highest first and NaN last, and the style of each in that order.

    With more than ten values, the five highest and the five lowest are named; the others are thin grey lines.
    """
    order = sorted(range(len(values)), key=lambda i: (np.isnan(values[i]), -values[i]))
    last = len(order) - sum(np.isnan(values[i]) for i in order)
    half = _MAX_NAMED // 2
    named = [*range(len(order))] if len(order) <= _MAX_NAMED else [*range(half), *range(max(half, last - half), last)]
    looks = [UNNAMED] * len(order)
    for place, i in enumerate(named):
        looks[i] = Style(COLORS[place % len(COLORS)], DASHES[place % len(DASHES)])
    return order, looks


def text_of(name: object) -> str:
    """Return a name as matplotlib shows it literally: dollar signs and control characters escaped, long names cut."""
    text = escape_unprintable(" ".join(str(name).split()))
    text = text if len(text) <= _MAX_NAME_LENGTH else f"{text[: _MAX_NAME_LENGTH - 1].rstrip()}…"
    return text.replace("$", r"\$")


def mean(values: Iterable[float]) -> float:
    """Return the mean of the values that are not NaN; NaN if there are none."""
    defined = [x for x in values if not np.isnan(x)]
    return float(np.mean(defined)) if defined else np.nan


def number(value: float, digits: int = 3) -> str:
    """Format a measure in [0, 1]; a dash for NaN."""
    return "-" if np.isnan(value) else f"{value:.{digits}f}"


def entry(value: float, name: object) -> str:
    """Return a legend entry, value first, so that the values are aligned; the legend's title names the value."""
    return f"{number(value)}  {text_of(name)}".rstrip()


def legend(
    ax: "Axes",
    entries: Iterable[tuple[Any, str]],
    title: str | None = None,
    *,
    more: int = 0,
    margin: float = 10,
    widen: bool = False,
    force_outside: bool = False,
) -> None:
    """Add a legend with these handles and labels, outside the axes if it is long.

    Args:
        ax: the axes.
        entries: handles with their labels.
        title: title of the legend.
        more: number of unnamed lines.
        margin: distance from the axes to a legend outside, in points.
        widen: whether the figure is new, and can be widened for a legend outside.
        force_outside: whether even a short legend is outside, because the axes have no free space.
    """
    from matplotlib.lines import Line2D
    from matplotlib.transforms import offset_copy

    pairs = [*entries, *([(Line2D([], [], **UNNAMED.line), f"{more} more")] if more else [])]
    if not pairs:
        return
    handles, labels = zip(*pairs, strict=True)
    figure: Any = ax.figure
    position: dict[str, Any] = {"loc": "best"}
    outside = force_outside or len(pairs) > _MAX_INSIDE
    if outside:
        corner = offset_copy(ax.transAxes, figure, margin, 0, units="points")
        position = {"loc": "upper left", "bbox_to_anchor": (1, 1), "bbox_transform": corner, "borderaxespad": 0}
    box = ax.legend(
        handles, labels, title=title, fontsize="small", title_fontsize="small", alignment="left", **position
    )
    if widen and outside:
        width, height = figure.get_size_inches()
        figure.set_size_inches(width + box.get_window_extent().width / figure.dpi + margin / _POINTS, height)


def frame(ax: "Axes", **settings: Any) -> None:
    """Set labels and limits of the axes, as ``Axes.set``, and a grid behind everything."""
    ax.set(**settings)
    ax.set_axisbelow(True)
    ax.grid(color=GREY, alpha=FAINT, linewidth=0.6)


def systems_of(source: Any) -> dict[str, Any]:
    """Return the objects of a dict by name, or a single object, whose name is ""."""
    if isinstance(source, Mapping | nn.ModuleDict):
        return {str(name): x for name, x in source.items()}
    return {"": source}


def bar_rows(rows: Any, place: int, systems: int) -> tuple[Array, float]:
    """Return the centres of the bars of one of several systems, and the height of a bar.

    Args:
        rows: (R,) rows of the bars.
        place: position of the system.
        systems: number of systems, which share the height of a row.
    """
    height = _BARS_HEIGHT / systems
    return np.asarray(rows) - _BARS_HEIGHT / 2 + height * (place + 0.5), height


def array(values: Any) -> Array:
    """Convert a tensor to a float64 array."""
    values64: Array = values.detach().cpu().double().numpy()
    return values64


def decimated(x: Array, *ys: Array) -> Array:
    """Return the indices of the points to draw: the first, last, lowest and highest in each column of pixels.

    Args:
        x: (N,) ascending or descending.
        ys: (N,) values of lines over ``x``.

    Returns:
        Ascending indices, for each of 4,096 columns at most two and two per line; all indices of at most 4,096 points.
    """
    if len(x) <= _COLUMNS:
        return np.arange(len(x))
    low, high = min(x[0], x[-1]), max(x[0], x[-1])
    column = np.floor((x - low) * (_COLUMNS / (high - low))) if high > low else np.zeros_like(x)
    starts = np.flatnonzero(np.diff(column, prepend=-1.0))
    sizes = np.diff(starts, append=len(x))
    parts = [starts, starts + sizes - 1]
    for y in ys:
        for extreme in (np.fmin, np.fmax):
            places = np.flatnonzero(y == np.repeat(extreme.reduceat(y, starts), sizes))
            parts.append(places[np.unique(column[places], return_index=True)[1]])
    return np.unique(np.concatenate(parts))
