"""Report as Markdown, without pictures."""

import re
from collections.abc import Iterator, Sequence

from torch_ap.reports.content import Content, Headline, Part, Table, Widget


def document(content: Content) -> str:
    """Return the whole text."""
    return "\n".join(_lines(content)) + "\n"


def _lines(content: Content) -> Iterator[str]:
    yield from (f"# {_plain(content.title)}", "", _headline(content.headline, content.systems[1]), "")
    yield from (_plain(x) + "\n" for x in (content.convention, *content.headline.remarks))
    facts = Table(list(content.facts), [list(content.facts.values())])
    yield from (*_table(facts), "")
    if content.warnings:
        yield from ("## Warnings", "", *(f"- {_plain(x)}" for x in content.warnings), "")
    for section in content.sections:
        parts = list(_parts(section.parts))
        if parts:
            yield from (f"## {_plain(section.title)}", "", *(line for part in parts for line in (*part, "")))
    yield f"`{content.source.replace('`', '')}`"


def _parts(parts: Sequence[Part]) -> Iterator[list[str]]:
    """Yield the lines of each part that is no picture."""
    for part in parts:
        if isinstance(part, Widget):
            yield from _parts(part.parts)
        elif isinstance(part, Table | str):
            yield list(_table(part)) if isinstance(part, Table) else [_plain(part)]


def _headline(head: Headline, other: str) -> str:
    texts = [f"**{head.name} {head.value:.4f}**"]
    if head.low == head.low:
        texts.append(f"{head.level} interval {head.low:.4f} to {head.high:.4f}")
    texts += [f"{name} {x:.4f}" for name, x in (("chance level", head.chance), (_plain(other), head.other)) if x == x]
    return "; ".join(texts)


def _table(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(map(_plain, table.head))} |"
    yield "".join("|---" if table.is_text(place) else "|---:" for place in range(len(table.head))) + "|"
    for row in table.rows:
        yield f"| {' | '.join(_plain(table.text(place, cell)) for place, cell in enumerate(row))} |"


def _plain(text: str) -> str:
    """Return a text on one line, with escapes for Markdown."""
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", " ".join(text.split()))
