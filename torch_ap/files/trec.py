"""TREC's two files: judgements ("qrels") and runs, read into columns.

A line of qrels is ``query iteration document relevance``, of a run ``query Q0 document rank score tag``. The iteration,
``Q0`` and the rank are ignored, as is anything after the tag of a run.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from torch_ap.files import columns
from torch_ap.files.columns import Block, Progress
from torch_ap.files.trec_names import QRELS_FORM, RUN_FORM
from torch_ap.ranking.order import Array, sort_in_place
from torch_ap.rules.messages import shown

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@dataclass(frozen=True, eq=False)
class Table:
    """Documents listed for queries.

    Attributes:
        path: of the file.
        queries: Q names, in the order in which they first occur.
        query: (N,) int64, the place of each line's query in ``queries``.
        documents: (N,) byte strings of fixed width.
        key: (N,) uint64 hashes of query and document; equal for equal pairs.
    """

    path: Path
    queries: list[str]
    query: Tensor
    documents: Array
    key: Array


@dataclass(frozen=True, eq=False)
class Qrels(Table):
    """Judgements.

    Attributes:
        relevance: (N,) int64 grade of each judged document; negative for those that were pooled and not judged.
    """

    relevance: Tensor


@dataclass(frozen=True, eq=False)
class Run(Table):
    """What a system retrieved.

    Attributes:
        scores: (N,) float64.
        tag: the name of the run, from its last line.
    """

    scores: Tensor
    tag: str


def read_qrels(path: Path | str, *, progress: Progress | None = None) -> Qrels:
    """The judgements of a file, plain or gzip; blank lines and lines that begin with ``#`` are left out.

    Args:
        path: of the file, or of a pipe; "-" for standard input.
        progress: called now and then with the bytes that are done and the size of the file; not for pipes.

    Returns:
        Queries and documents by name, and the grades.

    Raises:
        OSError: if the file cannot be read.
        ValueError: naming file and line, for a line that does not have four columns, a grade that is not a whole
            number, or a document that is judged twice for a query.
    """
    gathered = _Gathered()
    for block in columns.read(path, QRELS_FORM, more=False, progress=progress):
        gathered.add(block, block.integers(3))
    return Qrels(*gathered.table(Path(path)), relevance=torch.from_numpy(gathered.joined(np.int64)))


def read_run(path: Path | str, *, progress: Progress | None = None) -> Run:
    """The ranked documents of a file, plain or gzip; blank lines and lines that begin with ``#`` are left out.

    Args:
        path: of the file, or of a pipe; "-" for standard input.
        progress: called now and then with the bytes that are done and the size of the file; not for pipes.

    Returns:
        Queries and documents by name, and the scores.

    Raises:
        OSError: if the file cannot be read.
        ValueError: naming file and line, for a line of fewer than six columns, a score that is not a finite number, or
            a document that occurs twice for a query.
    """
    gathered, tag = _Gathered(), ""
    for block in columns.read(path, RUN_FORM, more=True, progress=progress):
        gathered.add(block, block.numbers(4))
        if len(block.lines):
            tag = bytes(block.text[block.starts[-1, 5] : block.ends[-1, 5]]).decode()
    return Run(*gathered.table(Path(path)), scores=torch.from_numpy(gathered.joined(np.float64)), tag=tag)


class _Gathered:
    """Columns of the blocks so far."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        self.query: list[Array] = []
        self.documents: list[Array] = []
        self.key: list[Array] = []
        self.lines: list[Array] = []
        self.values: list[Array] = []

    def add(self, block: Block, values: Array) -> None:
        """Add the queries (column 0), documents (column 2) and values of a block."""
        names = block.field(0)
        if not len(names):
            return
        heads = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]]))
        distinct, place = np.unique(names[heads], return_inverse=True)
        known = np.array([self.numbers.setdefault(name, len(self.numbers)) for name in distinct.tolist()])
        lengths = np.diff(np.append(heads, len(names)))
        documents = block.field(2)
        self.query.append(np.repeat(known[place], lengths))
        self.documents.append(documents)
        self.key.append(_hashed(documents, np.repeat(_hashed(distinct, _MIX)[place], lengths)))
        self.lines.append(block.lines)
        self.values.append(values)

    def table(self, path: Path) -> tuple[Path, list[str], Tensor, Array, Array]:
        """The whole table, checked for documents that occur twice."""
        names = [name.decode() for name in self.numbers]
        query, key = _joined(self.query, np.int64), _joined(self.key, np.uint64)
        documents = _joined(self.documents, "S8")
        ordered = sort_in_place(key.copy())
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(twice):
            _refuse_twice(path, names, query, documents, np.isin(key, twice), _joined(self.lines, np.int64))
        return path, names, torch.from_numpy(query), documents, key

    def joined(self, dtype: type) -> Array:
        """The values of all blocks."""
        return _joined(self.values, dtype)


def _joined(parts: list[Array], dtype: type | str) -> Array:
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _hashed(strings: Array, start: Array | np.uint64) -> Array:
    """(N,) uint64 hashes of byte strings padded to words of 8 bytes; padding does not count."""
    words = strings.view(np.uint64).reshape(len(strings), -1)
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


def _refuse_twice(path: Path, names: list[str], query: Array, documents: Array, among: Array, lines: Array) -> None:
    """Raise for the first document that occurs twice for a query; equal hashes alone are not an error."""
    seen: dict[tuple[int, bytes], int] = {}
    for place in np.flatnonzero(among).tolist():
        pair = (int(query[place]), bytes(documents[place]))
        if pair in seen:
            raise ValueError(
                f"{path}, line {lines[place]}: document {shown(pair[1].decode())} occurs a second time for query "
                f"{shown(names[pair[0]])}, after line {seen[pair]}"
            )
        seen[pair] = int(lines[place])
