"""Drawings as SVG in the colours of the page: bars and scatters, whose marks have their numbers as tooltips.

They need neither scripts nor matplotlib. With scripts, a click on a mark with a key opens its details.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TypeAlias

from torch_ap.core.base.messages import escape_unprintable
from torch_ap.plot.bars import Bar
from torch_ap.reports.content import Drawing, shortened, with_interval

_MAX_BARS = 400
_NAMED = 100  # most rows with names
_ROW, _THIN_ROW, _THIN = 18, 1.5, 600  # pixels of a named row, of another row at least, and of all such rows
_NAMES = 30  # percent of the width
_ROUNDING = 1e-9  # relative to the distance of ticks
_MAX_POINTS = 1000
_CELLS = 50  # of a side of a scatter with more points
_SIDE, _LEFT, _BOTTOM = 360, 50, 370  # units of a scatter

_Point: TypeAlias = tuple[float, float, str, int | str]  # values of both systems, name, key


def bars(
    caption: str,
    names: Sequence[str],
    systems: Mapping[str, Sequence[Bar]],
    *,
    keys: Sequence[int | str] = (),
    opens: str = "",
    notes: Sequence[str] = (),
) -> Drawing:
    """Return horizontal bars with intervals and chance levels.

    Args:
        caption: sentence below the drawing.
        names: name of each row.
        systems: bar of each row, of each system by name; bars with NaN are not drawn.
        keys: argument of the widget that shows a row.
        opens: name of this widget.
        notes: further text of the tooltip of each row.
    """
    places = list(range(len(names)))
    if len(names) > _MAX_BARS:
        half = _MAX_BARS // 2
        caption = f"{caption} Only the first {half} and the last {half} of {len(names):,} are drawn."
        places = [*places[:half], *places[-half:]]
    is_named = len(places) <= _NAMED
    row = _ROW * max(1, 0.7 * len(systems)) if is_named else max(_THIN_ROW, _THIN / len(places))
    height, left = round(row * len(places)), _NAMES if is_named else 0
    every = [bars[place] for bars in systems.values() for place in places]
    axis = _Axis(x for bar in every for x in (bar.value, bar.low, bar.high, bar.chance))
    drawn = "".join(
        f'<line class="axis" x1="{axis.percent(x)}" x2="{axis.percent(x)}" y2="{height}"/>'
        f'<text x="{axis.percent(x)}" y="{height + 14}" text-anchor="middle">{x:g}</text>'
        for x in axis.ticks
    )
    step = row / len(systems)
    for number, place in enumerate(places):
        texts = [_bar_text(system, bars[place]) for system, bars in systems.items()]
        marks = "".join(
            _bar_marks(bars[place], axis, row * number + step * (system + 0.1), 0.8 * step, f"s{system % 4}")
            for system, bars in enumerate(systems.values())
        )
        title = f"{shortened(names[place])}: {', '.join([*texts, *([notes[place]] if notes else [])])}"
        area = f'<rect class="row" width="100%" y="{row * number:.5g}" height="{row:.4g}"/>'
        drawn += f"<g{_key(keys[place] if keys else '')}>{_title(title)}{area}{marks}</g>"
    labels = "".join(
        f'<text y="{row * (number + 0.5) + 4:.5g}">{_text(shortened(names[place]))}</text>'
        for number, place in enumerate(places)
    )
    parts = f'<svg width="{left - 1}%">{labels}</svg>' if is_named else ""
    parts += f'<svg x="{left}%" width="{98 - left}%" overflow="visible">{drawn}</svg>'
    return Drawing(
        caption, f'{_legend(systems)}<svg{_head(caption, opens)} style="height:{height + 18}px">{parts}</svg>'
    )


class _Axis:
    """An axis from 0 to 1 for values that fill at least half of it, else from the lowest to the highest value and 0."""

    def __init__(self, values: Iterable[float]) -> None:
        finite = [0.0, *(x for x in values if math.isfinite(x))]
        self.low, self.high = min(finite), max(finite)
        if self.low == self.high or (self.low == 0 and 0.5 <= self.high <= 1):
            self.low, self.high = 0.0, 1.0

    def share(self, x: float) -> float:
        """Return the place of a number, 0 to 1."""
        return (x - self.low) / (self.high - self.low)

    def percent(self, x: float) -> str:
        """Return the place of a number in percent."""
        return f"{100 * self.share(x):.4g}%"

    @property
    def ticks(self) -> list[float]:
        """At most six round numbers."""
        power = 10.0 ** math.floor(math.log10(self.high - self.low))
        step = next(x * power for x in (0.2, 0.25, 0.5, 1, 2) if (self.high - self.low) / (x * power) <= 5)
        first, last = math.ceil(self.low / step - _ROUNDING), math.floor(self.high / step + _ROUNDING)
        return [round(k * step, 12) for k in range(first, last + 1)]


def _bar_marks(bar: Bar, axis: _Axis, y: float, height: float, kind: str) -> str:
    """Return bar, interval and chance level of one system in one row."""
    if math.isnan(bar.value):
        return ""
    start, end = sorted((0.0, bar.value))
    marks = f'<rect class="{kind}" x="{axis.percent(start)}" y="{y:.5g}" height="{height:.3g}" '
    marks += f'width="{100 * (axis.share(end) - axis.share(start)):.4g}%"/>'
    middle = f"{y + height / 2:.5g}"
    if not math.isnan(bar.low):
        ends = f'x1="{axis.percent(bar.low)}" x2="{axis.percent(bar.high)}"'
        marks += f'<line class="whisker" {ends} y1="{middle}" y2="{middle}"/>'
    if not math.isnan(bar.chance):
        x = axis.percent(bar.chance)
        marks += f'<line class="stroke" x1="{x}" x2="{x}" y1="{y:.5g}" y2="{y + height:.5g}"/>'
    return marks


def _bar_text(system: str, bar: Bar) -> str:
    """Return the numbers of a bar."""
    text = f"{shortened(system)} {with_interval(bar.value, bar.low, bar.high)}".strip()
    return text if math.isnan(bar.chance) else f"{text}, chance {bar.chance:.3f}"


def scatter(
    caption: str,
    systems: Sequence[str],
    names: Sequence[str],
    values: tuple[Sequence[float], Sequence[float]],
    *,
    keys: Sequence[int | str] = (),
    opens: str = "",
) -> Drawing:
    """Return the values of two systems as points, the first system upwards; points above the diagonal favor it.

    Args:
        caption: sentence below the drawing.
        systems: names of both systems.
        names: name of each point.
        values: values of both systems; points with NaN are not drawn.
        keys: argument of the widget that shows a point.
        opens: name of this widget.
    """
    rows = [
        (a, b, name, keys[place] if keys else "")
        for place, (name, a, b) in enumerate(zip(names, *values, strict=True))
        if math.isfinite(a) and math.isfinite(b)
    ]
    axis = _Axis(x for row in rows for x in row[:2])
    points = [(a, b, 4.0, name, key) for a, b, name, key in rows]
    if len(rows) > _MAX_POINTS:
        caption = f"{caption} Points in the same cell of a grid of {_CELLS} by {_CELLS} are drawn as one larger point."
        points = list(_cells(rows, axis))
    groups: dict[str, list[str]] = {"s0": [], "s1": [], "even": []}
    for a, b, radius, name, key in points:
        pair = ", ".join(f"{shortened(system)} {x:.3f}" for system, x in zip(systems, (a, b), strict=False))
        text = f"{shortened(name)}: {pair}, difference {a - b:+.3f}"
        groups["s0" if a > b else "s1" if a < b else "even"].append(
            f'<circle{_key(key)} cx="{_LEFT + _SIDE * axis.share(b):.4g}" cy="{_BOTTOM - _SIDE * axis.share(a):.4g}" '
            f'r="{radius:.2g}">{_title(text)}</circle>'
        )
    right, middle = _LEFT + _SIDE, _SIDE / 2
    drawn = f'<path class="diagonal" d="M{_LEFT} {_BOTTOM}l{_SIDE} {-_SIDE}"/>'
    for tick in axis.ticks:
        x, y = _LEFT + _SIDE * axis.share(tick), _BOTTOM - _SIDE * axis.share(tick)
        drawn += (
            f'<path class="axis" d="M{_LEFT} {y:.4g}h{_SIDE}M{x:.4g} {_BOTTOM}v{-_SIDE}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.4g}" text-anchor="end">{tick:g}</text>'
            f'<text x="{x:.4g}" y="{_BOTTOM + 16}" text-anchor="middle">{tick:g}</text>'
        )
    for name, where in (
        (systems[0], f'transform="translate(12 {_BOTTOM - middle}) rotate(-90)"'),
        (systems[1], f'x="{_LEFT + middle}" y="{_BOTTOM + 34}"'),
    ):
        drawn += f'<text {where} text-anchor="middle">{_text(shortened(name))}</text>'
    drawn += "".join(f'<g class="{kind}">{"".join(found)}</g>' for kind, found in groups.items() if found)
    box = f'viewBox="0 0 {right + 10} {_BOTTOM + 40}"'
    return Drawing(caption, f"<svg{_head(caption, opens, 'scatter')} {box}>{drawn}</svg>")


def _cells(rows: Sequence[_Point], axis: _Axis) -> Iterator[tuple[float, float, float, str, int | str]]:
    """Yield one point for each cell of a grid: the mean of its points, radius, name, and the key of a single point."""
    cells: dict[tuple[int, int], list[_Point]] = {}
    for row in rows:
        cells.setdefault((math.floor(_CELLS * axis.share(row[0])), math.floor(_CELLS * axis.share(row[1]))), []).append(
            row
        )
    for found in cells.values():
        a, b = (math.fsum(values) / len(found) for values in ([x[0] for x in found], [x[1] for x in found]))
        name, key = found[0][2:] if len(found) == 1 else (f"mean of {len(found):,}", "")
        yield a, b, min(3 + math.sqrt(len(found)), 14), name, key


def _legend(systems: Iterable[str]) -> str:
    entries = [f'<span><i class="s{place % 4}"></i>{_text(shortened(x))}</span>' for place, x in enumerate(systems)]
    return f'<p class="key">{"".join(entries)}</p>' if len(entries) > 1 else ""


def _head(caption: str, opens: str, kind: str = "") -> str:
    """Return the attributes of a drawing."""
    name = f' data-opens="{escape(opens)}"' if opens else ""
    return f' class="marks {kind}" role="img" aria-label="{_text(caption)}"{name}'


def _key(key: int | str) -> str:
    return "" if key == "" else f' data-key="{escape(str(key))}"'


def _title(text: str) -> str:
    return f"<title>{_text(text)}</title>"


def _text(text: str) -> str:
    return escape(escape_unprintable(text))
