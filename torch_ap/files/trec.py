"""TREC's two files: judgements ("qrels") and runs, read into columns.

A line of qrels is ``query iteration document relevance``, of a run ``query Q0 document rank score tag``. The iteration,
``Q0`` and the rank are ignored, as is anything after the tag of a run. Parquet has the same in columns, named as in
:data:`torch_ap.files.trec_names.COLUMNS`; integers that name queries or documents there are text here, as elsewhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.files import columns, trec_parquet
from torch_ap.files.columns import Progress
from torch_ap.files.trec_names import PARQUET, QRELS_FORM, RUN_FORM
from torch_ap.ranking.order import Array, sort_in_place
from torch_ap.rules.messages import shown

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@dataclass(frozen=True, eq=False)
class Table:
    """Documents listed for queries.

    Attributes:
        path: of the file, or what messages call what was no file.
        queries: Q names, in the order in which they first occur; text, if of a file.
        query: (N,) int64, the place of each line's query in ``queries``.
        documents: (N,) byte strings of fixed width, if of a file; else int64, or objects of one type.
        key: (N,) uint64 hashes of query and document; equal for equal pairs.
    """

    path: Path | str
    queries: list[Any]
    query: Tensor
    documents: Array
    key: Array

    @property
    def firsts(self) -> tuple[Any, Any]:
        """The names of a query and of a document."""
        return self.queries[0], named(self.documents[:1])[0]


@dataclass(frozen=True, eq=False)
class Qrels(Table):
    """Judgements.

    Attributes:
        relevance: (N,) int64 grade of each judged document; negative for those that were pooled and not judged.
    """

    relevance: Tensor

    @cached_property
    def by_key(self) -> tuple[Array, Array]:
        """The lines by ascending key, and their keys.

        Raises:
            ValueError: where two documents have one.
        """
        places = np.argsort(self.key)
        keys = self.key[places]
        if (keys[1:] == keys[:-1]).any():
            raise ValueError(f"{self.path}: two judged documents have the same 64-bit hash; rename one of them")
        return places, keys


@dataclass(frozen=True, eq=False)
class Run(Table):
    """What a system retrieved.

    Attributes:
        scores: (N,) float64.
        tag: the name of the run, from its last line.
    """

    scores: Tensor
    tag: str

    @property
    def emptied(self) -> "Run":
        """A run without documents."""
        nothing: dict[str, Any] = {name: getattr(self, name)[:0] for name in ("query", "documents", "key", "scores")}
        return replace(self, queries=[], **nothing)


def read_qrels(path: Path | str, *, progress: Progress | None = None) -> Qrels:
    """The judgements of a file: text, plain or gzip, whose blank lines and lines that begin with ``#`` are left out, or
    Parquet.

    Args:
        path: of the file, or of a pipe; "-" for standard input. What ends in .parquet or .pq is Parquet.
        progress: called now and then with the bytes that are done and the size of the file; not for pipes.

    Returns:
        Queries and documents by name, and the grades.

    Raises:
        OSError: if the file cannot be read.
        ValueError: naming file and line, for a line that does not have four columns, a grade that is not a whole
            number, or a document that is judged twice for a query; for Parquet without the columns.
    """
    gathered = _Gathered()
    for lines in _read(path, "grade", progress):
        gathered.add(lines)
    return Qrels(**gathered.table(path), relevance=torch.from_numpy(gathered.joined(np.int64)))


def read_run(path: Path | str, *, progress: Progress | None = None) -> Run:
    """The ranked documents of a file: text, plain or gzip, whose blank lines and lines that begin with ``#`` are left
    out, or Parquet.

    Args:
        path: of the file, or of a pipe; "-" for standard input. What ends in .parquet or .pq is Parquet.
        progress: called now and then with the bytes that are done and the size of the file; not for pipes.

    Returns:
        Queries and documents by name, and the scores.

    Raises:
        OSError: if the file cannot be read.
        ValueError: naming file and line, for a line of fewer than six columns, a score that is not a finite number, or
            a document that occurs twice for a query; for Parquet without the columns.
    """
    gathered = _Gathered()
    for lines in _read(path, "score", progress):
        gathered.add(lines)
    return gathered.run(path)


def run_parts(path: Path | str, *, lines: int = 1 << 19, progress: Progress | None = None) -> Iterator[Run]:
    """The same in parts of whole queries, so that a run may be larger than memory.

    Args:
        path: as there.
        lines: how many a part has, about; more where one query does.
        progress: as there.

    Raises:
        OSError, ValueError: as there.
        NotGroupedError: where a query goes on after its part.
    """
    gathered, done = _Gathered(), set[bytes]()
    for block in _read(path, "score", progress):
        gathered.add(block)
        if again := done.intersection(gathered.numbers):
            raise NotGroupedError(path, min(again))
        if sum(map(len, gathered.query)) >= lines and len(gathered.numbers) > 1:
            whole, gathered = gathered.split(path)
            done.update(whole.numbers)
            yield whole.run(path)
    yield gathered.run(path)


class NotGroupedError(ValueError):
    """A run whose queries do not stand together cannot be read in parts."""

    def __init__(self, path: Path | str, query: bytes) -> None:
        super().__init__(
            f"{path}: the lines of a query must stand together in a run that is read in parts, not so for "
            f"{shown(query.decode())}; `sort -s -k 1,1` brings them together"
        )


class _Lines(NamedTuple):
    """Some lines of a file: (L,) queries and documents as byte strings, values, line numbers; and the tag, or ""."""

    queries: Array
    documents: Array
    values: Array
    numbers: Array
    tag: str


def _read(path: Path | str, value: str, progress: Progress | None) -> Iterator[_Lines]:
    """The lines of a file, some at a time; ``value`` is "grade" or "score"."""
    if Path(path).suffix.lower() in PARQUET:
        for rows in trec_parquet.rows(path, value, progress):
            yield _Lines(*rows, tag="")
        return
    run = value == "score"
    for block in columns.read(path, RUN_FORM if run else QRELS_FORM, more=run, progress=progress):
        if len(block.lines):
            tag = bytes(block.text[block.starts[-1, 5] : block.ends[-1, 5]]).decode() if run else ""
            values = block.numbers(4) if run else block.integers(3)
            yield _Lines(block.field(0), block.field(2), values, block.lines, tag)


class _Gathered:
    """Columns of the lines so far."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        self.query: list[Array] = []
        self.documents: list[Array] = []
        self.key: list[Array] = []
        self.lines: list[Array] = []
        self.values: list[Array] = []
        self.tag = ""

    def add(self, given: _Lines) -> None:
        """Add lines, at least one."""
        names = given.queries
        heads = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]]))
        distinct, first, place = np.unique(names[heads], return_index=True, return_inverse=True)
        known, found = np.empty_like(first), distinct.tolist()
        for at in np.argsort(first).tolist():
            known[at] = self.numbers.setdefault(found[at], len(self.numbers))
        lengths = np.diff(np.append(heads, len(names)))
        self.query.append(np.repeat(known[place], lengths))
        self.documents.append(given.documents)
        self.key.append(keys_of(distinct, np.repeat(place, lengths), given.documents))
        self.lines.append(given.numbers)
        self.values.append(given.values)
        self.tag = given.tag

    def split(self, path: Path | str) -> tuple["_Gathered", "_Gathered"]:
        """The lines of all queries but the last, and those of the last."""
        query, last = _joined(self.query, np.int64), self.query[-1][-1]
        cut = len(query) - int((query[::-1] != last).argmax())
        name = list(self.numbers)[last]
        if (query[:cut] == last).any():
            raise NotGroupedError(path, name)
        whole, rest = _Gathered(), _Gathered()
        for one, part in ((whole, slice(cut)), (rest, slice(cut, None))):
            for column in ("query", "documents", "key", "lines", "values"):
                setattr(one, column, [_joined(getattr(self, column), "S8")[part]])
            one.tag = self.tag
        whole.numbers = {x: number for x, number in self.numbers.items() if number != last}
        whole.query[0] -= whole.query[0] > last
        rest.numbers, rest.query = {name: 0}, [np.zeros_like(rest.query[0])]
        return whole, rest

    def table(self, path: Path | str) -> dict[str, Any]:
        """The fields of the whole table, checked for documents that occur twice."""
        names = [name.decode() for name in self.numbers]
        query, key = _joined(self.query, np.int64), _joined(self.key, np.uint64)
        table = Table(Path(path), names, torch.from_numpy(query), _joined(self.documents, "S8"), key)
        check_once(table, "line", _joined(self.lines, np.int64))
        return vars(table)

    def run(self, path: Path | str) -> Run:
        """All of it as a run."""
        return Run(**self.table(path), scores=torch.from_numpy(self.joined(np.float64)), tag=self.tag)

    def joined(self, dtype: type) -> Array:
        """The values of all blocks."""
        return _joined(self.values, dtype)


def _joined(parts: list[Array], dtype: type | str) -> Array:
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def keys_of(queries: Array, query: Array, documents: Array) -> Array:
    """(N,) uint64 hashes of query and document.

    Args:
        queries: (Q,) numbers of 64 bits, or byte strings padded with zeros to words of 8 bytes.
        query: (N,) the place of each one's query.
        documents: (N,) like the queries.
    """
    return _hashed(documents, _hashed(queries, _MIX)[query])


def _hashed(strings: Array, start: Array | np.uint64) -> Array:
    """(N,) uint64 hashes of numbers, or of byte strings; padding does not count."""
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
    """(N,) names of documents as text, whose order is that of their bytes in UTF-8."""
    return documents if documents.dtype.kind == "S" else np.array([str(x) for x in documents.tolist()])


def named(documents: Array) -> list[Any]:
    """The names of documents, of a file as text; bytes of Python's are no text."""
    names = documents.tolist()
    return [x.decode() for x in names] if documents.dtype.kind == "S" else names


def check_once(table: Table, unit: str, lines: Array) -> None:
    """Refuse a document that occurs twice for a query; equal hashes alone are not an error.

    Args:
        table: the whole of it.
        unit: what its lines are called.
        lines: (N,) their numbers.
    """
    ordered = sort_in_place(table.key.copy())
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        return
    seen: dict[tuple[int, Any], int] = {}
    for place in np.flatnonzero(np.isin(table.key, twice, kind="sort")).tolist():
        pair = (int(table.query[place]), named(table.documents[place : place + 1])[0])
        if pair in seen:
            raise ValueError(
                f"{table.path}, {unit} {lines[place]}: document {shown(pair[1])} occurs a second time for query "
                f"{shown(table.queries[pair[0]])}, after {unit} {seen[pair]}"
            )
        seen[pair] = int(lines[place])
