"""The steps from one convention to another as a waterfall."""

import itertools
from collections.abc import Sequence

from torch_ap.plot import style
from torch_ap.plot.style import COLORS, GREY, Axes

_BAR = 0.6  # height of a bar; bars are 1 apart


def waterfall(labels: Sequence[str], values: Sequence[float], ax: "Axes | None") -> "Axes":
    """Draw a bar for each of the two conventions, and one for each step between them.

    Args:
        labels: name of the first convention, of each step, and of the second convention.
        values: value of the first convention, and after each step.
        ax: the axes; None for new ones.
    """
    ax = style.axes_of(ax, height=1.2 + 0.5 * len(labels))
    shares = [after - before for before, after in itertools.pairwise(values)]
    starts, widths = [0.0, *values[:-1], 0.0], [values[0], *shares, values[-1]]
    colors = [GREY, *(COLORS[0] if x >= 0 else COLORS[1] for x in shares), GREY]
    ax.barh(range(len(labels)), widths, left=starts, color=colors, height=_BAR)
    for place, (start, width) in enumerate(zip(starts, widths, strict=True)):
        text = f"{width:+.3f}" if 0 < place < len(labels) - 1 else style.number(width)
        ax.annotate(text, (max(start, start + width), place), (4, 0), textcoords="offset points", va="center")
    for place, x in enumerate(values):
        ax.plot([x, x], [place + _BAR / 2, place + 1 - _BAR / 2], color=GREY, linewidth=0.8)
    ax.set_yticks(range(len(labels)), labels)
    ax.invert_yaxis()
    style.frame(ax, xlabel="average precision", xlim=(0, 1.15 * max(*values, 1e-3)))
    return ax
