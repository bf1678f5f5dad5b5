"""What all pictures share: axes, colours with line styles, names as text, legends, decimated lines."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from torch_ap.ranking.order import Array
from torch_ap.rules import checks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe & Ito (2008), Color Universal Design, without yellow and black, which one of light and dark pages swallows
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
GREY = "0.5"  # on white as on black
MEAN: dict[str, Any] = {"color": GREY, "linewidth": 3.5, "zorder": 4}  # over several curves
FAINT = 0.2  # opacity of areas

_MOST_NAMED = 10  # with colours and line styles of their own; 12 pairs of them are different
_MOST_INSIDE = 6  # entries of a legend that leave room for the picture
_LONGEST_NAME = 32
_POINTS = 72  # in an inch
_COLUMNS = 4096  # at least as many as a picture has pixels across


class Style(NamedTuple):
    """How one of several lines looks, and whether the legend names it."""

    color: str
    linestyle: Any
    named: bool = True

    width: float = 1.8

    @property
    def thin(self) -> "Style":
        """The same beside the line of a mean."""
        return self._replace(width=0.9)

    @property
    def line(self) -> dict[str, Any]:
        """Keywords of ``Axes.plot``."""
        shape = {"linewidth": self.width, "zorder": 3} if self.named else {"linewidth": 0.7, "alpha": 0.5, "zorder": 2}
        return {"color": self.color, "linestyle": self.linestyle, **shape}


def axes_of(ax: Any, width: float = 6.4, height: float = 4.8) -> Any:
    """The axes that are given, or those of a new figure.

    Raises:
        ModuleNotFoundError: without matplotlib.
        TypeError: for what are no axes.
    """
    try:
        from matplotlib.axes import Axes
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("`torch_ap.plot` needs matplotlib: pip install matplotlib (extra `plot`)") from error
    if ax is None:
        from matplotlib import pyplot

        return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"`ax` must be matplotlib's Axes or None, got {type(ax).__name__}")
    return ax


def check_flags(**flags: object) -> None:
    """Switches are bools, each under its name."""
    for name, value in flags.items():
        checks.boolean(name, value)


def styles(values: Sequence[float]) -> tuple[list[int], list[Style]]:
    """An order of what has these values, the highest first and NaN last, and the style of each in that order.

    Of more than ten the five highest and the five lowest have names, the others are thin grey lines.
    """
    order = sorted(range(len(values)), key=lambda i: (np.isnan(values[i]), -values[i]))
    last = len(order) - sum(np.isnan(values[i]) for i in order)
    half = _MOST_NAMED // 2
    named = [*range(len(order))] if len(order) <= _MOST_NAMED else [*range(half), *range(max(half, last - half), last)]
    looks = [Style(GREY, "-", named=False)] * len(order)
    for place, i in enumerate(named):
        looks[i] = Style(COLORS[place % len(COLORS)], DASHES[place % len(DASHES)])
    return order, looks


def text_of(name: object) -> str:
    """A name as matplotlib shows it as it is: no mathematics between dollars, cut where it is long."""
    text = " ".join(str(name).split())
    text = text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1].rstrip()}…"
    return text.replace("$", r"\$")


def number(value: float, digits: int = 3) -> str:
    """A measure in [0, 1] for people; a dash for NaN."""
    return "-" if np.isnan(value) else f"{value:.{digits}f}"


def entry(value: float, name: object) -> str:
    """A line of a legend whose title says what the value is: numbers first, so that they stand below one another."""
    return f"{number(value)}  {text_of(name)}".rstrip()


def legend(
    ax: "Axes",
    entries: Iterable[tuple[Any, str]],
    title: str | None = None,
    *,
    more: int = 0,
    margin: float = 10,
    widen: bool = False,
    beside: bool = False,
) -> None:
    """The legend of these handles and labels; beside the axes where it is long.

    Args:
        ax: the axes.
        entries: handles with their labels.
        title: of the legend.
        more: how many lines are not named.
        margin: between it and the axes, where it stands beside them, in points.
        widen: whether the figure is ours, and may grow to hold it there.
        beside: whether it stands there however short it is, as nothing is free inside.
    """
    from matplotlib.lines import Line2D
    from matplotlib.transforms import offset_copy

    pairs = [*entries, *([(Line2D([], [], **Style(GREY, "-", named=False).line), f"{more} more")] if more else [])]
    if not pairs:
        return
    handles, labels = zip(*pairs, strict=True)
    figure: Any = ax.figure
    where: dict[str, Any] = {"loc": "best"}
    outside = beside or len(pairs) > _MOST_INSIDE
    if outside:
        corner = offset_copy(ax.transAxes, figure, margin, 0, units="points")
        where = {"loc": "upper left", "bbox_to_anchor": (1, 1), "bbox_transform": corner, "borderaxespad": 0}
    found = ax.legend(handles, labels, title=title, fontsize="small", title_fontsize="small", alignment="left", **where)
    if widen and outside:
        width, height = figure.get_size_inches()
        figure.set_size_inches(width + found.get_window_extent().width / figure.dpi + margin / _POINTS, height)


def frame(ax: "Axes", **settings: Any) -> None:
    """Labels and limits of the axes, as of ``Axes.set``, and a grid behind everything."""
    ax.set(**settings)
    ax.set_axisbelow(True)
    ax.grid(color=GREY, alpha=FAINT, linewidth=0.6)


def array(values: Any) -> Array:
    """A tensor as a float64 array."""
    found: Array = values.detach().cpu().double().numpy()
    return found


def decimated(x: Array, *ys: Array) -> Array:
    """Places of the points that a picture shows: of each column of pixels the first, the last, the lowest, the highest.

    Args:
        x: (N,) ascending or descending.
        ys: (N,) values of lines over ``x``.

    Returns:
        Ascending indices into them, at most two and two per line for each of 4,096 columns; all, where there are few.
    """
    if len(x) <= _COLUMNS:
        return np.arange(len(x))
    low, high = min(x[0], x[-1]), max(x[0], x[-1])
    column = np.floor((x - low) * (_COLUMNS / (high - low))) if high > low else np.zeros_like(x)
    starts = np.flatnonzero(np.diff(column, prepend=-1.0))
    sizes = np.diff(starts, append=len(x))
    kept = [starts, starts + sizes - 1]
    for y in ys:
        for extreme in (np.fmin, np.fmax):
            found = np.flatnonzero(y == np.repeat(extreme.reduceat(y, starts), sizes))
            kept.append(found[np.unique(column[found], return_index=True)[1]])
    return np.unique(np.concatenate(kept))
