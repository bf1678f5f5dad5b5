"""Pictures as SVG inside a page, in its colours, light or dark, and with distinct ids."""

import io
import re
from html import escape
from typing import Any

from torch_ap.reports.content import Picture

_INK, _PAPER = "#010203", "#fdfcfb"  # placeholders for the colours of the page; no picture has them
_SETTINGS: dict[str, Any] = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor", "legend.edgecolor"), "none"),
    "legend.facecolor": _PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "torch_ap",
}


def svg_of(picture: Picture, number: int) -> str:
    """Return the picture as an element of HTML.

    Args:
        picture: the picture.
        number: its number on the page.

    Raises:
        ModuleNotFoundError: without matplotlib.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("a report in HTML needs matplotlib: pip install matplotlib (extra `plot`)") from error
    out = io.StringIO()
    settings: Any = {**mpl.rcParamsDefault, **_SETTINGS, "backend": mpl.rcParams["backend"]}
    with mpl.rc_context(settings):
        figure = Figure(figsize=picture.size, layout="constrained")
        picture.draw(figure.subplots())
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _inline(out.getvalue(), number, picture.caption)


def _inline(svg: str, number: int, caption: str) -> str:
    """Remove the header of a file and add the number of the picture to ids, which must be unique on the page."""
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", svg))
    svg = re.sub(r' id="([^"]+)"', lambda match: f' id="p{number}-{match[1]}"' if match[1] in used else "", svg)
    svg = re.sub(r"(url\(|href=\")#", rf"\1#p{number}-", svg)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    svg = svg.replace(_INK, "currentColor").replace(_PAPER, "var(--paper)")
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{escape(caption)}" ', svg, count=1)
