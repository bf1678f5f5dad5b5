"""A report as one page of HTML that needs nothing else: style, pictures and a few lines of script are inside."""

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from string import Template

from torch_ap._version import __version__
from torch_ap.reports.content import Cell, Content, Headline, Part, Picture, Section, Table
from torch_ap.reports.pictures import svg_of

_NEAR = 0.1  # an end of the scale, so that names there would collide or stand out


def document(content: Content) -> str:
    """The whole page."""
    page = Template((files("torch_ap.reports") / "page.html").read_text("utf-8"))
    return page.substitute(title=escape(content.title), body="\n".join(_body(content)), version=escape(__version__))


def _body(content: Content) -> Iterator[str]:
    found = content.headline
    yield f"<header><h1>{escape(content.title)}</h1>{_headline(found, content.systems)}</header>"
    yield f'<p class="convention">{escape(content.convention)}</p>'
    yield from (f'<p class="remark">{escape(x)}</p>' for x in found.remarks)
    facts = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(_fact(x))}</dd></div>" for name, x in content.facts.items()
    )
    yield f'<dl class="facts">{facts}</dl>'
    if content.warnings:
        items = "".join(f"<li>{escape(x)}</li>" for x in content.warnings)
        yield f'<section class="warnings"><h2>Warnings</h2><ul>{items}</ul></section>'
    pictures = iter(range(1, 1 << 30))
    for section in content.sections:
        yield _section(section, pictures)
    yield f'<p class="source"><code>{escape(content.source)}</code></p>'


def _fact(cell: Cell) -> str:
    return f"{cell:,}" if isinstance(cell, int | float) else cell


def _headline(found: Headline, systems: tuple[str, str]) -> str:
    value = _data("value", found.value)
    said = [f'<p class="number"><span class="name">{escape(found.name)}</span> {value}</p>']
    small = []
    if found.low == found.low:
        small.append(f"{found.level} interval {_data('low', found.low)} to {_data('high', found.high)}")
    for name, number in (("chance level", found.chance), (systems[1], found.other)):
        if number == number:
            small.append(f"{escape(name)} {_data('chance' if name == 'chance level' else 'other', number)}")
    said += [f'<p class="about">{" · ".join(small)}</p>'] if small else []
    return "".join(said) + _scale(found, systems[1])


def _data(kind: str, number: float) -> str:
    """A number for people, with all digits for programs."""
    return f'<data class="{kind}" value="{number!r}">{number:.4f}</data>'


def _scale(found: Headline, other: str) -> str:
    """The numbers between 0 and 1, as a drawing that is as wide as the page."""
    if not 0 <= found.value <= 1:
        return ""
    parts = ['<line class="axis" x1="0" x2="100%" y1="24" y2="24"/>']
    parts += [f'<line class="axis" x1="{x}%" x2="{x}%" y1="20" y2="28"/>' for x in (0, 25, 50, 75, 100)]
    ends = [(x, "start" if x == 0 else "end") for x in (0, 1) if not abs(found.other - x) < _NEAR]
    parts += [f'<text x="{100 * x}%" y="8" text-anchor="{anchor}">{x}</text>' for x, anchor in ends]
    if found.low == found.low:
        low, high = (f"{100 * x:.2f}%" for x in (found.low, found.high))
        parts.append(f'<line class="interval" x1="{low}" x2="{high}" y1="24" y2="24"/>')
    marks = (("chance", found.chance), (other, found.other))
    for place, (name, number) in enumerate(marks):
        if number == number:
            x, anchor = f"{100 * number:.2f}%", _anchor(number)
            kind = "other" if place else "chance"
            parts.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="14" y2="34"/>')
            parts.append(f'<text x="{x}" y="{8 if place else 48}" text-anchor="{anchor}">{escape(name)}</text>')
    parts.append(f'<circle class="dot" cx="{100 * found.value:.2f}%" cy="24" r="6"/>')
    return f'<svg class="scale" height="54" aria-hidden="true">{"".join(parts)}</svg>'


def _anchor(share: float) -> str:
    return "start" if share < _NEAR else "end" if share > 1 - _NEAR else "middle"


def _section(section: Section, pictures: Iterator[int]) -> str:
    return f"<section><h2>{escape(section.title)}</h2>{''.join(_part(x, pictures) for x in section.parts)}</section>"


def _part(part: Part, pictures: Iterator[int]) -> str:
    if isinstance(part, Picture):
        svg = svg_of(part, next(pictures))
        return f"<figure>{svg}<figcaption>{escape(part.caption)}</figcaption></figure>"
    return _table(part) if isinstance(part, Table) else f"<p>{escape(part)}</p>"


def _table(table: Table) -> str:
    places = range(len(table.head))
    texts = [' class="text"' if table.is_text(place) else "" for place in places]
    head = "".join(_head(table, place, texts[place]) for place in places)
    rows = "".join(
        f"<tr>{''.join(_cell(table, place, cell, texts[place]) for place, cell in enumerate(row))}</tr>\n"
        for row in table.rows
    )
    kind = ' class="sortable"' if table.sortable else ""
    inner = f"<table{kind}><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table>"
    whole = f'<div class="wide" tabindex="0">{inner}</div>'
    return f"<details><summary>{escape(table.folded)}</summary>{whole}</details>" if table.folded else whole


def _head(table: Table, place: int, kind: str) -> str:
    name = escape(table.head[place])
    if not table.sortable:
        return f'<th scope="col"{kind}>{name}</th>'
    order = "descending" if place == 1 else "none"  # as the rows come
    return f'<th scope="col"{kind} aria-sort="{order}"><button type="button">{name}</button></th>'


def _cell(table: Table, place: int, cell: Cell, kind: str) -> str:
    text = escape(table.text(place, cell))
    if place == 0 and isinstance(cell, str):
        return f'<th scope="row"{kind}>{text}</th>'
    number = f' data-value="{cell:.8g}"' if isinstance(cell, int | float) and cell == cell and table.sortable else ""
    return f"<td{kind}{number}>{text}</td>"
