"""Report as one page of HTML with its style, pictures, data and scripts.

The page is complete without scripts; scripts add interaction. A section adds

- static content as parts of a :class:`torch_ap.reports.content.Section`, or as the ``html`` of a :class:`Widget`;
- data as the ``data`` of a :class:`Widget`, in the one JSON element of the page;
- behaviour as ``static/NAME.js`` for a :class:`Widget` with that name, which is included if the page has such a widget;
- tables that sort, search and filter as :class:`Table` with ``sortable``, or as ``<table class="sortable">``.

Pictures are SVG in the colours of the page, light or dark, and with distinct ids. The content security policy forbids
every request and every other script, so that an escaping error could not run a script.
"""

import hashlib
import io
import json
import math
import re
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from torch_ap._version import __version__
from torch_ap.core.base.messages import escape_unprintable
from torch_ap.reports.content import Cell, Content, Drawing, Headline, Part, Picture, Table, Widget, shortened

_MOST_BYTES = 2_700_000  # of a page with thumbnails; without them a page is as large as its tables and curves
_NEAR = 0.1  # distance from an end of the scale within which names would collide or overflow
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
_SPARE = re.compile(r"(\.\d\d)\d+| +(?=\n)")  # digits beyond hundredths of a pixel, spaces before line ends
_LINE_ENDS = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}  # what could end the element or its lines


def document(content: Content) -> str:
    """Return the whole page."""
    page = _Page()
    body = "\n".join(_body(content, page))
    names = dict.fromkeys(["page", *(x.name for x in page.widgets if x.name != "chart")])  # page.js contains chart
    scripts = [_static("uPlot.iife.min.js")] * page.has_charts + [_static(f"{name}.js") for name in names]
    data = f'<script type="application/json" id="data">{json_text([x.data for x in page.widgets])}</script>'
    parts = {
        "title": escape(content.title),
        "policy": _policy(scripts),
        "style": _static("uPlot.min.css") * page.has_charts + _static("page.css"),
        "body": body,
        "scripts": "\n".join([data, *(f"<script>{x}</script>" for x in scripts)]),
        "version": escape(__version__),
    }
    left = _MOST_BYTES - sum(len(x.encode()) for x in parts.values())
    parts["body"] += "".join(x.fill(left) for x in page.widgets if x.fill is not None)
    return Template(_static("page.html")).substitute(parts)


class _Page:
    """State shared by the parts of a page.

    Attributes:
        pictures: number of pictures so far.
        widgets: widgets so far.
        has_charts: whether a picture or widget draws charts.
    """

    def __init__(self) -> None:
        self.pictures, self.widgets, self.has_charts = 0, list[Widget](), False

    def part_html(self, part: Part) -> str:
        """Return the HTML of a part."""
        if isinstance(part, Picture):
            return self._picture(part)
        if isinstance(part, Drawing):
            return _figure(part.svg, part.caption)
        if isinstance(part, Widget):
            return self._element(part, "".join(map(self.part_html, part.parts)) + part.html)
        return _table(part) if isinstance(part, Table) else f"<p>{escape(part)}</p>"

    def _picture(self, picture: Picture) -> str:
        self.pictures += 1
        figure = _figure(_svg_of(picture, self.pictures), picture.caption)
        return figure if picture.chart is None else self._element(Widget("chart", picture.chart), figure)

    def _element(self, widget: Widget, html: str) -> str:
        self.widgets.append(widget)
        self.has_charts = True
        return f'<div data-widget="{escape(widget.name)}" data-place="{len(self.widgets) - 1}">{html}</div>'


def _figure(svg: str, caption: str) -> str:
    return f'<figure tabindex="0">{svg}<figcaption>{escape(caption)}</figcaption></figure>'


def _static(name: str) -> str:
    return (files("torch_ap.reports") / "static" / name).read_text("utf-8")


def _policy(scripts: list[str]) -> str:
    """Return a content security policy for the scripts of the page."""
    digests = (b64encode(hashlib.sha256(x.encode()).digest()).decode() for x in scripts)
    allowed = " ".join(f"'sha256-{x}'" for x in digests)
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed}"


def json_text(data: Any) -> str:
    """Return JSON for an element of HTML, without NaN, infinities and invisible characters."""
    text = json.dumps(_clean(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub("[<\u2028\u2029]", lambda match: _LINE_ENDS[match[0]], text)


def _clean(data: Any) -> Any:
    """Return the data with None for numbers that are not finite, and texts with escapes for invisible characters."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, str):
        return escape_unprintable(data)
    if isinstance(data, dict):
        return {_clean(name): _clean(x) for name, x in data.items()}
    if not isinstance(data, list | tuple):
        return data
    # most are numbers, and a call for each takes three times as long
    return [x if type(x) is int or (type(x) is float and x - x == 0) else _clean(x) for x in data]


def _body(content: Content, page: _Page) -> Iterator[str]:
    head = content.headline
    yield f"<header><h1>{escape(content.title)}</h1>{_headline(head, content.systems[1])}</header>"
    yield f'<p class="convention">{escape(content.convention)}</p>'
    yield from (f'<p class="remark">{escape(x)}</p>' for x in head.remarks)
    facts = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(x if isinstance(x, str) else f'{x:,}')}</dd></div>"
        for name, x in content.facts.items()
    )
    yield f'<dl class="facts">{facts}</dl>'
    if content.warnings:
        items = "".join(f"<li>{escape(x)}</li>" for x in content.warnings)
        yield f'<section class="warnings"><h2>Warnings</h2><ul>{items}</ul></section>'
    for section in content.sections:
        parts = "".join(map(page.part_html, section.parts))
        yield f"<section><h2>{escape(section.title)}</h2>{parts}</section>"
    yield f'<p class="source"><code>{escape(content.source)}</code></p>'


def _headline(head: Headline, other: str) -> str:
    details = []
    if head.low == head.low:
        details.append(f"{head.level} interval {_data('low', head.low)} to {_data('high', head.high)}")
    marks = [("chance", "chance level", head.chance), ("other", other, head.other)]
    details += [f"{escape(name)} {_data(kind, x)}" for kind, name, x in marks if x == x]
    text = f'<p class="number"><span class="name">{escape(head.name)}</span> {_data("value", head.value)}</p>'
    text += f'<p class="about">{" · ".join(details)}</p>' if details else ""
    return text + _scale(head, other)


def _data(kind: str, number: float) -> str:
    """Return a number for people, with all digits for programs."""
    return f'<data class="{kind}" value="{number!r}">{number:.4f}</data>'


def _scale(head: Headline, other: str) -> str:
    """Return the numbers on a scale from 0 to 1, as a drawing of the width of the page."""
    if not 0 <= head.value <= 1:
        return ""
    parts = ['<line class="axis" x1="0" x2="100%" y1="24" y2="24"/>']
    parts += [f'<line class="axis" x1="{x}%" x2="{x}%" y1="20" y2="28"/>' for x in (0, 25, 50, 75, 100)]
    ends = [(x, "start" if x == 0 else "end") for x in (0, 1) if not abs(head.other - x) < _NEAR]
    parts += [f'<text x="{100 * x}%" y="8" text-anchor="{anchor}">{x}</text>' for x, anchor in ends]
    if head.low == head.low:
        low, high = (f"{100 * x:.2f}%" for x in (head.low, head.high))
        parts.append(f'<line class="interval" x1="{low}" x2="{high}" y1="24" y2="24"/>')
    for kind, name, number, y in (("chance", "chance", head.chance, 48), ("other", other, head.other, 8)):
        if number == number:
            x = f"{100 * number:.2f}%"
            anchor = "start" if number < _NEAR else "end" if number > 1 - _NEAR else "middle"
            parts.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="14" y2="34"/>')
            parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(shortened(name))}</text>')
    parts.append(f'<circle class="dot" cx="{100 * head.value:.2f}%" cy="24" r="6"/>')
    return f'<svg class="scale" height="54" aria-hidden="true">{"".join(parts)}</svg>'


def _table(table: Table) -> str:
    places = range(len(table.head))
    texts = [' class="text"' if table.is_text(place) else "" for place in places]
    head = "".join(_head(table, place, texts[place]) for place in places)
    keys = [f' data-key="{escape(str(key))}"' if key != "" else "" for key in table.keys] or [""] * len(table.rows)
    rows = "".join(
        f"<tr{key}>{''.join(_cell(table, place, cell, texts[place]) for place, cell in enumerate(row))}</tr>\n"
        for key, row in zip(keys, table.rows, strict=True)
    )
    kind = ' class="sortable"' if table.sortable else ""
    opens = f' data-opens="{escape(table.opens)}"' if table.opens else ""
    inner = f"<table{kind}{opens}><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table>"
    block = f'<div class="wide" tabindex="0">{inner}</div>'
    return f"<details><summary>{escape(table.summary)}</summary>{block}</details>" if table.summary else block


def _head(table: Table, place: int, kind: str) -> str:
    name, (column, order) = table.head[place], table.order
    sort = f' aria-sort="{order}"' if order and name == column else ""
    return f'<th scope="col"{kind}{sort}>{escape(name)}</th>'


def _cell(table: Table, place: int, cell: Cell, kind: str) -> str:
    text = escape(table.text(place, cell))
    if place == 0 and isinstance(cell, str):
        return f'<th scope="row"{kind}>{text}</th>'
    number = f' data-value="{cell:.8g}"' if isinstance(cell, int | float) and cell == cell and table.sortable else ""
    return f"<td{kind}{number}>{text}</td>"


def _svg_of(picture: Picture, number: int) -> str:
    """Return the picture as an element of HTML.

    Args:
        picture: the picture.
        number: its number on the page.

    Raises:
        ModuleNotFoundError: without matplotlib.
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("a report in HTML needs matplotlib: pip install matplotlib (extra `plot`)") from error
    out = io.StringIO()
    settings: Any = {**mpl.rcParamsDefault, **_SETTINGS, "backend": mpl.rcParams["backend"]}
    with mpl.rc_context(settings):
        figure = Figure(figsize=picture.size, layout="constrained")
        picture.draw(figure.subplots())
        # `savefig` would draw the figure twice, the first time only for the sizes of the parts
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(out, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return _inline(out.getvalue(), number, picture.caption)


def _inline(svg: str, number: int, caption: str) -> str:
    """Remove the header of a file and add the number of the picture to ids, which must be unique on the page."""
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", svg))
    svg = re.sub(r' id="([^"]+)"', lambda match: f' id="p{number}-{match[1]}"' if match[1] in used else "", svg)
    svg = re.sub(r"(url\(|href=\")#", rf"\1#p{number}-", svg)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    svg = re.sub(r' d="[^"]*"', lambda match: _SPARE.sub(r"\1", match[0]), svg)
    svg = svg.replace(_INK, "currentColor").replace(_PAPER, "var(--paper)")
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{escape(caption)}" ', svg, count=1)
