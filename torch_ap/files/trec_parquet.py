"""TREC's columns in a table: what they are called, and those of Parquet read as if they were text."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from torch_ap.files import columns, tables
from torch_ap.files.columns import Progress
from torch_ap.files.table_streams import pyarrow
from torch_ap.files.trec_names import COLUMNS
from torch_ap.ranking.order import Array
from torch_ap.rules.messages import nearest, shown


def column_of(given: str, known: Sequence[Any], what: str, name: str | None = None) -> Any:
    """The name of the column that holds queries, documents, grades or scores.

    Args:
        given: what messages call the table.
        known: the names of its columns.
        what: a key of :data:`torch_ap.files.trec_names.COLUMNS`.
        name: the column's name, where it was given; None for the usual one that is there.

    Raises:
        ValueError: where there is none, or several.
    """
    usual = COLUMNS[what] if name is None else (name,)
    found = [x for x in known if x in usual]
    if len(found) == 1:
        return found[0]
    meant = "" if found else nearest(usual[0], map(str, known))
    every = shown(", ".join(map(str, known)))[1:-1]
    raise ValueError(
        f"{given} must have one column of `{what}`, named {' or '.join(map(shown, usual))}{meant}; it has {every}"
    )


def rows(path: Path | str, value: str, progress: Progress | None) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Queries, documents, values ("grade" or "score") and numbers of rows, some at a time.

    Raises:
        OSError: if the file cannot be read.
        ValueError: naming file and row, for what is no name or no such value; for columns that are not there.
        ModuleNotFoundError: without pyarrow.
    """
    known, first = tables.column_names(path), 1
    names = [column_of(str(path), known, what) for what in ("query", "document", value)]
    for batch in tables.batches(path, names, form="parquet", progress=progress):
        number = np.arange(first, first + batch.num_rows)
        if batch.num_rows:
            query, document = (_text(path, batch.column(x), names[x], number) for x in (0, 1))
            yield query, document, _values(path, batch.column(2), names[2], number, whole=value == "grade"), number
        first += batch.num_rows


def _text(path: Path | str, column: Any, name: str, number: Array) -> Array:
    """Names as byte strings; integers as text says them."""
    types = pyarrow().types
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if not (text or types.is_integer(kind)):
        raise ValueError(f"{path}: column {shown(name)} must hold text or integers, got {kind}")
    _refuse_missing(path, column, name, number)
    column = column.cast("large_string")
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    text = bytes(memoryview(data or b"")[ends[0] : ends[-1]]) + bytes(columns.PADDING)
    starts = ends - ends[0]
    return columns.fields(np.frombuffer(text, np.uint8), starts[:-1], starts[1:], f"{path}, row", number)


def _values(path: Path | str, column: Any, name: str, number: Array, *, whole: bool) -> Array:
    """Grades as int64, scores as float64."""
    types = pyarrow().types
    rule = "integers" if whole else "numbers"
    if not (types.is_integer(column.type) or (types.is_floating(column.type) and not whole)):
        raise ValueError(f"{path}: column {shown(name)} must hold {rule}, got {column.type}")
    _refuse_missing(path, column, name, number)
    values: Array = column.cast("int64" if whole else "float64", safe=whole).to_numpy(zero_copy_only=False)
    wrong = ~np.isfinite(values)
    if wrong.any():
        place = int(wrong.argmax())
        raise ValueError(
            f"{path}, row {number[place]}: column {shown(name)} must hold finite numbers, got {values[place]}"
        )
    return values


def _refuse_missing(path: Path | str, column: Any, name: str, number: Array) -> None:
    if column.null_count:
        place = int(import_module("pyarrow.compute").is_null(column).to_numpy(zero_copy_only=False).argmax())
        raise ValueError(f"{path}, row {number[place]}: column {shown(name)} must have a value, got none")
