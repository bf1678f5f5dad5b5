"""Documents listed for queries: judgements ("qrels") and runs, as columns."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

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
