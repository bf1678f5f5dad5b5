"""Base of all result records: conversion to plain Python values, and a table for notebooks."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from html import escape
from typing import Any

from torch import Tensor

from torch_ap.core.base.untraced import disable_tracing_of_methods

_DIGITS = 4
_SHOWN = 6  # longer lists are shortened in the middle


class Record:
    """Mixin of result records, which are frozen dataclasses or named tuples."""

    __slots__ = ()

    def _field_names(self) -> Mapping[str, bool]:
        """Return whether the table shows a field, by the name of the field."""
        if hasattr(self, "_fields"):  # of a named tuple
            return dict.fromkeys(self._fields, True)
        return {field.name: field.repr for field in fields(self)}  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name as plain Python: floats, ints, strings, None, and lists and dicts of these."""
        return {name: to_plain(getattr(self, name)) for name in self._field_names()}

    def _repr_html_(self) -> str:
        """Return the fields as an HTML table, which notebooks show; numbers have four digits."""
        rows = [(name, format_value(getattr(self, name))) for name, is_shown in self._field_names().items() if is_shown]
        return html_table([row for row in rows if row[1] not in ("''", "None")], type(self).__name__)


disable_tracing_of_methods(Record)


def html_table(rows: Iterable[Iterable[str]], caption: str, head: Iterable[str] = ()) -> str:
    """Return rows of texts as an HTML table; the first cell of a row is its name."""
    first = "".join(f"<th>{escape(text)}</th>" for text in head)
    lines = [f"<tr>{first}</tr>"] if first else []
    for name, *cells in rows:
        lines.append(f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(text)}</td>' for text in cells)}</tr>")
    return f"<table><caption>{escape(caption)}</caption>{''.join(lines)}</table>"


def to_plain(value: Any) -> Any:
    """Return a value as plain Python: tensors, tuples and lists as lists, and records as dicts."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: to_plain(entry) for name, entry in value.items()}
    return [to_plain(x) for x in value] if isinstance(value, list | tuple) else value


def format_value(value: Any, column: int = 0) -> str:
    """Format a number with four digits, shorten a long list in the middle, and use ``repr`` for other values.

    Args:
        value: a field, or an element of one.
        column: indentation of the rows of a table, which are printed one per line; 0 for a single line.
    """
    if isinstance(value, Tensor) and value.ndim == 0:
        value = value.item()
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    if isinstance(value, dict):
        separator = f",{chr(10)}{' ' * column}" if column else ", "
        return f"{{{separator.join(f'{name!r}: {format_value(entry)}' for name, entry in value.items())}}}"
    if not isinstance(value, list | Tensor):
        return repr(value)
    half = _SHOWN // 2
    texts = [format_value(x) for x in (value if len(value) <= _SHOWN else [*value[:half], *value[-half:]])]
    texts[half:half] = ["..."] if len(value) > _SHOWN else []
    rows = column and len(value) and isinstance(value[0], Tensor) and value[0].ndim
    return f"[{(',' + chr(10) + ' ' * column if rows else ', ').join(texts)}]"
