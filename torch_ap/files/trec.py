"""TREC's two files: judgements ("qrels") and runs, read into columns.

A line of qrels is ``query iteration document relevance``, of a run ``query Q0 document rank score tag``. The iteration,
``Q0`` and the rank are ignored, as is anything after the tag of a run. Parquet has the same in columns, named as in
:data:`torch_ap.files.trec_names.COLUMNS`; integers that name queries or documents there are text here, as elsewhere.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from torch_ap.files import columns, trec_parquet
from torch_ap.files.columns import Progress
from torch_ap.files.trec_names import PARQUET, QRELS_FORM, RUN_FORM
from torch_ap.files.trec_tables import Qrels, Run, Table, check_once, keys_of
from torch_ap.ranking.order import Array
from torch_ap.rules.messages import shown
from torch_ap.runtime import memory


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
            memory.give_back()
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
