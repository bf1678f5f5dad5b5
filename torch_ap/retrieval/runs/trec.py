"""Judgements ("qrels") and runs as columns, from TREC's two files, text or Parquet.

A line of qrels is ``query iteration document relevance``. A line of a run is ``query Q0 document rank score tag``. The
iteration, ``Q0``, the rank and the text after the tag are ignored. Parquet has the same columns, named as in
:data:`torch_ap.retrieval.runs.measure_names.COLUMNS`; integers that name queries or documents become text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.messages import short_repr, suggest_name
from torch_ap.core.columns import columns, tables
from torch_ap.core.columns.columns import Progress
from torch_ap.core.columns.streams import missing_values, pyarrow
from torch_ap.core.ranking.order import Array, sort_in_place
from torch_ap.retrieval.runs.measure_names import COLUMNS, PARQUET, QRELS_FORM, RUN_FORM


def column_name(table: str, columns: Sequence[Any], role: str, name: str | None = None) -> Any:
    """Return the name of the column of queries, documents, grades or scores.

    Args:
        table: the name of the table in messages.
        columns: the names of its columns.
        role: a key of :data:`torch_ap.retrieval.runs.measure_names.COLUMNS`.
        name: the name that the user chose; None for a usual name.

    Raises:
        ValueError: unless one column has such a name.
    """
    usual = COLUMNS[role] if name is None else (name,)
    matching = [x for x in columns if x in usual]
    if len(matching) == 1:
        return matching[0]
    hint = "" if matching else suggest_name(usual[0], map(str, columns))
    listed = short_repr(", ".join(map(str, columns)))[1:-1]
    allowed = " or ".join(map(short_repr, usual))
    raise ValueError(f"{table} must have one column of `{role}`, named {allowed}{hint}; it has {listed}")


def parquet_rows(
    path: Path | str, value: str, progress: Progress | None
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield queries, documents, values ("grade" or "score") and numbers of rows in parts.

    Raises:
        OSError: if the file cannot be read.
        ValueError: naming file and row, for an invalid name or value; for missing columns.
        ModuleNotFoundError: without pyarrow.
    """
    known, first = tables.column_names(path), 1
    names = [column_name(str(path), known, role) for role in ("query", "document", value)]
    for batch in tables.batches(path, names, form="parquet", progress=progress):
        number = np.arange(first, first + batch.num_rows)
        if batch.num_rows:
            query, document = (_text(path, batch.column(x), names[x], number) for x in (0, 1))
            yield query, document, _values(path, batch.column(2), names[2], number, whole=value == "grade"), number
        first += batch.num_rows


def _text(path: Path | str, column: Any, name: str, number: Array) -> Array:
    """Return names as byte strings; integers as their digits."""
    types = pyarrow().types
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if not (text or types.is_integer(kind)):
        raise ValueError(f"{path}: column {short_repr(name)} must contain text or integers, got {kind}")
    _check_complete(path, column, name, number)
    column = column.cast("large_string")
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    text = bytes(memoryview(data or b"")[ends[0] : ends[-1]]) + bytes(columns.PADDING)
    starts = ends - ends[0]
    return columns.fields(np.frombuffer(text, np.uint8), starts[:-1], starts[1:], f"{path}, row", number)


def _values(path: Path | str, column: Any, name: str, number: Array, *, whole: bool) -> Array:
    """Return grades as int64, scores as float64."""
    types = pyarrow().types
    rule = "integers" if whole else "numbers"
    if not (types.is_integer(column.type) or (types.is_floating(column.type) and not whole)):
        raise ValueError(f"{path}: column {short_repr(name)} must contain {rule}, got {column.type}")
    _check_complete(path, column, name, number)
    values: Array = column.cast("int64" if whole else "float64", safe=whole).to_numpy(zero_copy_only=False)
    wrong = ~np.isfinite(values)
    if wrong.any():
        place = int(wrong.argmax())
        where = f"{path}, row {number[place]}: column {short_repr(name)}"
        raise ValueError(f"{where} must contain finite numbers, got {values[place]}")
    return values


def _check_complete(path: Path | str, column: Any, name: str, number: Array) -> None:
    """Raise ValueError for a missing value."""
    missing = missing_values(column)
    if missing.any():
        row = number[int(missing.argmax())]
        raise ValueError(f"{path}, row {row}: column {short_repr(name)} must have a value, got none")


_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@dataclass(frozen=True, eq=False)
class Table:
    """Documents listed for queries.

    Attributes:
        path: path of the file, or the name of another source in messages.
        queries: Q names, in order of first occurrence; text, if read from a file.
        query: (N,) int64, the index of each line's query in ``queries``.
        documents: (N,) byte strings of fixed width, if read from a file; else int64, or objects of one type.
        key: (N,) uint64 hashes of query and document; equal for equal pairs.
    """

    path: Path | str
    queries: list[Any]
    query: Tensor
    documents: Array
    key: Array

    @property
    def firsts(self) -> tuple[Any, Any]:
        """The names of the first query and of the first document."""
        return self.queries[0], document_names(self.documents[:1])[0]


@dataclass(frozen=True, eq=False)
class Qrels(Table):
    """Judgements.

    Attributes:
        relevance: (N,) int64 grade of each judged document; negative for documents that were pooled and not judged.
    """

    relevance: Tensor

    @cached_property
    def sorted_keys(self) -> tuple[Array, Array]:
        """The lines by ascending key, and their keys.

        Raises:
            ValueError: for two documents with the same key.
        """
        places = np.argsort(self.key)
        keys = self.key[places]
        if (keys[1:] == keys[:-1]).any():
            raise ValueError(f"{self.path}: two judged documents have the same 64-bit hash; rename one of them")
        return places, keys


@dataclass(frozen=True, eq=False)
class Run(Table):
    """The documents that a system retrieved.

    Attributes:
        scores: (N,) float64.
        tag: the name of the run, from its last line.
    """

    scores: Tensor
    tag: str

    @property
    def emptied(self) -> "Run":
        """The run without its documents."""
        nothing: dict[str, Any] = {name: getattr(self, name)[:0] for name in ("query", "documents", "key", "scores")}
        return replace(self, queries=[], **nothing)


def keys_of(queries: Array, query: Array, documents: Array) -> Array:
    """Return (N,) uint64 hashes of query and document.

    Args:
        queries: (Q,) numbers of 64 bits, or byte strings padded with zeros to words of 8 bytes.
        query: (N,) the index of each document's query.
        documents: (N,) of the type of the queries.
    """
    return _hashes(documents, _hashes(queries, _MIX)[query])


def _hashes(strings: Array, start: Array | np.uint64) -> Array:
    """Return (N,) uint64 hashes of numbers, or of byte strings; padding does not change a hash."""
    words = strings.view(np.uint64).reshape(len(strings), strings.itemsize // 8)
    out = np.empty(len(strings), np.uint64)
    out[:] = start
    for column in range(words.shape[1]):
        word = words[:, column]
        mixed = (out ^ word) * _MIX
        mixed ^= mixed >> _HALF
        out = mixed if column == 0 else np.where(word != 0, mixed, out)
    out *= _MIX
    out ^= out >> _HALF
    return out


def as_text(documents: Array) -> Array:
    """Return the (N,) names of documents, which sort like their bytes in UTF-8."""
    return documents if documents.dtype.kind == "S" else np.array([str(x) for x in documents.tolist()])


def document_names(documents: Array) -> list[Any]:
    """Return the names of documents; names from a file as text. Bytes of Python stay bytes."""
    names = documents.tolist()
    return [x.decode() for x in names] if documents.dtype.kind == "S" else names


def check_once(table: Table, unit: str, lines: Array) -> None:
    """Raise ValueError for a document that occurs twice for a query; equal hashes alone are not an error.

    Args:
        table: all lines.
        unit: the name of its lines in messages.
        lines: (N,) line numbers.
    """
    ordered = sort_in_place(table.key.copy())
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        return
    seen: dict[tuple[int, Any], int] = {}
    for place in np.flatnonzero(np.isin(table.key, twice, kind="sort")).tolist():
        pair = (int(table.query[place]), document_names(table.documents[place : place + 1])[0])
        if pair in seen:
            raise ValueError(
                f"{table.path}, {unit} {lines[place]}: document {short_repr(pair[1])} occurs a second time for query "
                f"{short_repr(table.queries[pair[0]])}, after {unit} {seen[pair]}"
            )
        seen[pair] = int(lines[place])


def read_qrels(path: Path | str, *, progress: Progress | None = None) -> Qrels:
    """Return the judgements of a file: text, plain or gzip, or Parquet.

    Blank lines and lines that begin with ``#`` are left out.

    Args:
        path: path of the file or of a pipe; "-" for standard input. Parquet files end in .parquet or .pq.
        progress: called after each part with the number of bytes read and the size of the file; not for pipes.

    Returns:
        Queries and documents by name, and the grades.

    Raises:
        OSError: if the file cannot be read.
        ValueError: naming file and line, for a line that does not have four columns, a grade that is not an integer, or
            a document that is judged twice for a query; for Parquet without the columns.
    """
    parts = _read_parts(path, "grade", progress)
    return Qrels(**parts.table(path), relevance=torch.from_numpy(parts.column("values")))


def read_run(path: Path | str, *, progress: Progress | None = None) -> Run:
    """Return the ranked documents of a file: text, plain or gzip, or Parquet.

    Blank lines and lines that begin with ``#`` are left out.

    Args:
        path: path of the file or of a pipe; "-" for standard input. Parquet files end in .parquet or .pq.
        progress: called after each part with the number of bytes read and the size of the file; not for pipes.

    Returns:
        Queries and documents by name, and the scores.

    Raises:
        OSError: if the file cannot be read.
        ValueError: naming file and line, for a line of fewer than six columns, a score that is not a finite number, or
            a document that occurs twice for a query; for Parquet without the columns.
    """
    return _read_parts(path, "score", progress).run(path)


def run_parts(path: Path | str, *, lines: int = 1 << 19, progress: Progress | None = None) -> Iterator[Run]:
    """Yield a run in parts of complete queries, so that it may be larger than memory.

    Args:
        path: path of the file, as in :func:`read_run`.
        lines: approximate number of lines of a part; a query with more lines is not divided.
        progress: called after each part, as in :func:`read_run`.

    Raises:
        OSError: as :func:`read_run`.
        ValueError: as :func:`read_run`.
        NotGroupedError: for a query that continues after its part.
    """
    parts, done = _Parts(), set[bytes]()
    for block in _read_lines(path, "score", progress):
        parts.add(block)
        if again := done.intersection(parts.numbers):
            raise NotGroupedError(path, min(again))
        if sum(map(len, parts.columns["query"])) >= lines and len(parts.numbers) > 1:
            complete, parts = parts.split(path)
            done.update(complete.numbers)
            yield complete.run(path)
            arrays.release_freed()
    yield parts.run(path)


class NotGroupedError(ValueError):
    """A run with separated lines of one query, which cannot be read in parts."""

    def __init__(self, path: Path | str, query: bytes) -> None:
        super().__init__(
            f"{path}: the lines of a query must be contiguous in a run that is read in parts, got separated "
            f"lines of {short_repr(query.decode())}; sort them with `sort -s -k 1,1`"
        )


class _Lines(NamedTuple):
    """Some lines of a file: (L,) queries and documents as byte strings, values, line numbers; and the tag, or ""."""

    queries: Array
    documents: Array
    values: Array
    numbers: Array
    tag: str


def _read_lines(path: Path | str, value: str, progress: Progress | None) -> Iterator[_Lines]:
    """Yield the lines of a file in parts; ``value`` is "grade" or "score"."""
    if Path(path).suffix.lower() in PARQUET:
        for rows in parquet_rows(path, value, progress):
            yield _Lines(*rows, tag="")
        return
    run = value == "score"
    for block in columns.read(path, RUN_FORM if run else QRELS_FORM, more=run, progress=progress):
        if len(block.lines):
            tag = bytes(block.text[block.starts[-1, 5] : block.ends[-1, 5]]).decode() if run else ""
            values = block.numbers(4) if run else block.integers(3)
            yield _Lines(block.field(0), block.field(2), values, block.lines, tag)


class _Parts:
    """Columns of the lines so far, in parts."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        self.columns: dict[str, list[Array]] = {name: [] for name in ("query", "documents", "key", "lines", "values")}
        self.tag = ""

    def add(self, part: _Lines) -> None:
        """Add at least one line."""
        names = part.queries
        heads = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]]))
        distinct, first, place = np.unique(names[heads], return_index=True, return_inverse=True)
        number, listed = np.empty_like(first), distinct.tolist()
        for at in np.argsort(first).tolist():
            number[at] = self.numbers.setdefault(listed[at], len(self.numbers))
        lengths = np.diff(np.append(heads, len(names)))
        key = keys_of(distinct, np.repeat(place, lengths), part.documents)
        added = np.repeat(number[place], lengths), part.documents, key, part.numbers, part.values
        for column, values in zip(self.columns.values(), added, strict=True):
            column.append(values)
        self.tag = part.tag

    def column(self, name: str, dtype: type | str = np.int64) -> Array:
        """Return a column of all lines."""
        parts = self.columns[name]
        return np.concatenate(parts) if parts else np.empty(0, dtype)

    def split(self, path: Path | str) -> tuple["_Parts", "_Parts"]:
        """Return the lines of all queries except the last, and the lines of the last query."""
        query = self.column("query")
        last = query[-1]
        cut = len(query) - int((query[::-1] != last).argmax())
        name = list(self.numbers)[last]
        if (query[:cut] == last).any():
            raise NotGroupedError(path, name)
        complete, rest = _Parts(), _Parts()
        for half, rows in ((complete, slice(cut)), (rest, slice(cut, None))):
            half.columns, half.tag = {name: [self.column(name)[rows]] for name in self.columns}, self.tag
        complete.numbers = {x: number for x, number in self.numbers.items() if number != last}
        complete.columns["query"][0] -= complete.columns["query"][0] > last
        rest.numbers, rest.columns["query"] = {name: 0}, [np.zeros_like(rest.columns["query"][0])]
        return complete, rest

    def table(self, path: Path | str) -> dict[str, Any]:
        """Return the fields of the table; raise ValueError for documents that occur twice."""
        names = [name.decode() for name in self.numbers]
        query = torch.from_numpy(self.column("query"))
        table = Table(Path(path), names, query, self.column("documents", "S8"), self.column("key", np.uint64))
        check_once(table, "line", self.column("lines"))
        return vars(table)

    def run(self, path: Path | str) -> Run:
        """Return all lines as a run."""
        scores = torch.from_numpy(self.column("values", np.float64))
        return Run(**self.table(path), scores=scores, tag=self.tag)


def _read_parts(path: Path | str, value: str, progress: Progress | None) -> _Parts:
    parts = _Parts()
    for lines in _read_lines(path, value, progress):
        parts.add(lines)
    return parts
