"""Conversion of judgements and runs in any form (nested dicts, tables, paths) to the tables of TREC files.

Names of queries and documents may have any hashable type, but the same type in judgements and run, because 301 and
"301" are different names. Names in files are text.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch

from torch_ap.core.base.messages import Plain, raise_invalid, short_repr
from torch_ap.core.columns.columns import Progress
from torch_ap.core.ranking.order import Array
from torch_ap.retrieval.runs import trec
from torch_ap.retrieval.runs.measure_names import COLUMNS
from torch_ap.retrieval.runs.nested import LARGEST_WHOLE
from torch_ap.retrieval.runs.trec import Qrels, Run, Table, check_once, column_name, document_names, keys_of


def qrels_of(source: Any, columns: Mapping[str, str | None], progress: Progress | None = None) -> Qrels:
    """Return judgements in any form as a table.

    Args:
        source: see :func:`torch_ap.evaluate`.
        columns: names of the columns of tables, by content; None for the usual names.
    """
    if isinstance(source, Qrels):
        return source
    if isinstance(source, str | os.PathLike):
        return trec.read_qrels(os.fspath(source), progress=progress)
    table, grades = _read("qrels", source, columns, "grade")
    whole = (np.abs(grades) < LARGEST_WHOLE) & (np.floor(grades) == grades)
    if not whole.all():
        _raise_for_value("qrels", "grades that are whole numbers below 2^53", table, grades, int(whole.argmin()))
    return Qrels(**vars(table), relevance=torch.from_numpy(grades.astype(np.int64)))


def run_of(source: Any, columns: Mapping[str, str | None], name: str = "run", progress: Progress | None = None) -> Run:
    """Return a run in any form as a table; ``name`` is its name in messages."""
    if isinstance(source, Run):
        return source
    if isinstance(source, str | os.PathLike):
        return trec.read_run(os.fspath(source), progress=progress)
    table, scores = _read(name, source, columns, "score")
    if not (finite := np.isfinite(scores)).all():
        _raise_for_value(name, "scores that are finite, as in files", table, scores, int(finite.argmin()))
    return Run(**vars(table), scores=torch.from_numpy(scores), tag="")


def read_qrels(source: Any, *, progress: Progress | None = None) -> Qrels:
    """Return the judgements of a TREC file, of nested dicts or of a table.

    Args:
        source: path of a file or of a pipe, text, plain or gzip, or Parquet (.parquet, .pq); "-" for standard input.
            Blank lines and lines that begin with ``#`` are left out. Or dicts or a table, as for
            :func:`torch_ap.evaluate`.
        progress: called after each part with the number of bytes read and the size of the file; not for pipes.

    Returns:
        Queries and documents by name, and the grades.

    Raises:
        OSError: if the file cannot be read.
        TypeError, ValueError: naming file and line, or query and document, for a line that does not have four columns,
            a grade that is not an integer, or a document that is judged twice for a query; for missing columns.
    """
    return qrels_of(source, dict.fromkeys(COLUMNS), progress)


def read_run(source: Any, *, progress: Progress | None = None) -> Run:
    """Return the ranked documents of a TREC file, of nested dicts or of a table.

    Args:
        source: as for :func:`torch_ap.files.read_qrels`, with scores instead of grades.
        progress: as there.

    Returns:
        Queries and documents by name, and the scores.

    Raises:
        OSError: if the file cannot be read.
        TypeError, ValueError: naming file and line, or query and document, for a line of fewer than six columns, a
            score that is not a finite number, or a document that occurs twice for a query; for missing columns.
    """
    return run_of(source, dict.fromkeys(COLUMNS), progress=progress)


def with_common_names(qrels: Qrels, run: Run) -> tuple[Qrels, Run]:
    """Return judgements and run with names of the same form: bytes as in files, or Python objects.

    Raises:
        TypeError: if the names of queries or documents have different types.
    """
    if not len(qrels.documents) or not len(run.documents):
        return qrels, run
    _check_kinds(qrels, run.path, *run.firsts)
    if run.documents.dtype.kind == "S":
        return with_file_names(qrels, run.path), run
    qrels = qrels if qrels.documents.dtype.kind != "S" else _rename(_objects, qrels)
    try:
        _ = qrels.sorted_keys
    except ValueError:  # different names with equal hashes, such as -1.0 and -2.0
        numbers: dict[Any, int] = {}
        return replace(qrels, key=_number_names(qrels, numbers)), replace(run, key=_number_names(run, numbers))
    return qrels, run


def _number_names(table: Table, numbers: dict[Any, int]) -> Array:
    """Return keys from numbers of names, (N,) uint64; new names are added to ``numbers``."""
    query, document = (
        np.array([numbers.setdefault(x, len(numbers)) for x in names], np.int64)
        for names in (table.queries, table.documents.tolist())
    )
    return keys_of(query, table.query.numpy(), document)


def with_file_names(qrels: Qrels, path: Path | str) -> Qrels:
    """Return the judgements with names in the form of files.

    Raises:
        TypeError: for names that are not text.
    """
    if not len(qrels.documents) or qrels.documents.dtype.kind == "S":
        return qrels
    _check_kinds(qrels, path, "", "")
    return _rename(_encode_names, qrels)


def _rename(form: Callable[[Sequence[Any]], Array], qrels: Qrels) -> Qrels:
    table = _table(qrels.path, form(qrels.queries), qrels.query, form(document_names(qrels.documents)))
    return Qrels(qrels.path, qrels.queries, qrels.query, table.documents, table.key, relevance=qrels.relevance)


def _check_kinds(qrels: Qrels, path: Path | str, *firsts: Any) -> None:
    """Raise TypeError if the names of judgements and run have different types.

    Args:
        qrels: judgements.
        path: name of the run in messages.
        *firsts: a query and a document of the run.
    """
    for what, first, other in zip(("queries", "documents"), qrels.firsts, firsts, strict=True):
        kinds = _kind(type(first)), _kind(type(other))
        if kinds[0] != kinds[1]:
            as_in = f" as {short_repr(other)}" if other != "" else ""
            text = "`x.decode()`" if "bytes" in kinds else "`str(x)`"
            raise TypeError(
                f"{qrels.path} and {path} must name {what} by one type, got {kinds[0]} as {short_repr(first)} and "
                f"{kinds[1]}{as_in}; give both as text: {text}, `table[column].astype(str)`"
            )


def _read(name: str, source: Any, columns: Mapping[str, str | None], value: str) -> tuple[Table, Array]:
    """Return the table without values, and the values, (N,) float64."""
    if isinstance(source, Mapping):
        table, values = _read_dicts(name, source, value)
    elif (known := getattr(source, "column_names", getattr(source, "columns", None))) is not None:
        table, values = _read_columns(name, source, list(known), columns, value)
    else:
        reader = "read_qrels" if value == "grade" else "read_run"
        rule = f"must be {{query: {{document: {value}}}}}, a table, the path of a file, or the result of `{reader}`"
        raise_invalid(name, rule, Plain(type(source).__name__), TypeError)
    return table, _numbers(name, value, values, table)


def _read_dicts(name: str, source: Mapping[Any, Any], value: str) -> tuple[Table, list[Any]]:
    for query, documents_of_query in source.items():
        is_mapping = isinstance(documents_of_query, Mapping)
        inner = next(iter(documents_of_query.values()), None) if is_mapping else documents_of_query
        if inner is documents_of_query or isinstance(inner, Mapping):
            also = "; several runs are given as `runs`" if value == "score" else ""
            kind = Plain(f"{type(inner).__name__} for {short_repr(query)}{also}")
            raise_invalid(name, f"as a dict must be {{query: {{document: {value}}}}}", kind, TypeError)
    documents = _names(name, "document", list(chain.from_iterable(source.values())))
    query = np.repeat(np.arange(len(source)), np.fromiter(map(len, source.values()), np.int64, len(source)))
    values = list(chain.from_iterable([x.values() for x in source.values()]))
    return _table(f"`{name}`", _names(name, "query", list(source)), torch.from_numpy(query), documents), values


def _read_columns(
    name: str, source: Any, known: Sequence[str], columns: Mapping[str, str | None], value: str
) -> tuple[Table, Any]:
    query, document, values = (_column(name, source, known, columns[x], x) for x in ("query", "document", value))
    rows = _names(name, "query", query).tolist()
    places = {query: place for place, query in enumerate(dict.fromkeys(rows))}
    number = torch.from_numpy(np.fromiter(map(places.__getitem__, rows), np.int64, len(rows)))
    table = _table(f"`{name}`", _names(name, "query", list(places)), number, _names(name, "document", document))
    check_once(table, "row", np.arange(len(rows)))
    return table, values


def _column(name: str, source: Any, known: Sequence[Any], requested: str | None, what: str) -> Any:
    column = column_name(f"`{name}`", known, what, requested)
    return (source.column(column) if hasattr(source, "column_names") else source[column]).to_numpy()


def _table(path: Path | str, queries: Array, query: torch.Tensor, documents: Array) -> Table:
    key = keys_of(_hashable(queries), query.numpy(), _hashable(documents))
    return Table(path, queries.tolist(), query, documents, key)


def _names(name: str, what: str, column: Any) -> Array:
    """Return names of queries or documents: (N,) int64, or objects of one type.

    Raises:
        TypeError: for names of several types, and for None, NaN and lists.
    """
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu" and column.dtype != np.uint64:
        return column.astype(np.int64)
    names = column.tolist() if isinstance(column, np.ndarray) else column
    kinds = {_kind(x): x for x in set(map(type, names))}
    if len(kinds) > 1:
        examples = [f"{short_repr(next(x for x in names if type(x) is kinds[kind]))} ({kind})" for kind in kinds]
        raise_invalid(name, f"must name each {what} by one type", Plain(" and ".join(examples)), TypeError)
    if "NoneType" in kinds or ("float" in kinds and any(x != x for x in names)):
        raise_invalid(name, f"must name each {what}", Plain("None or NaN"), TypeError)
    texts: list[Any] = [(x.__str__, x.__repr__) for x in set(map(type, names))]
    if what == "document" and (object.__str__, object.__repr__) in texts:
        raise_invalid(
            name, "must name each document by a type with its own text, which orders ties", names[0], TypeError
        )
    if "int" in kinds and all(-(1 << 63) <= x < 1 << 63 for x in names):
        return np.fromiter(names, np.int64, len(names))
    return _objects(names)


def _kind(kind: type) -> str:
    """Return the name of a type of names; strings and integers of NumPy count as Python types."""
    if issubclass(kind, str):
        return "str"
    return "int" if kind is not bool and issubclass(kind, Integral) else kind.__name__


def _objects(names: Sequence[Any]) -> Array:
    out = np.empty(len(names), object)
    out[:] = names
    return out


def _encode_names(names: Sequence[str]) -> Array:
    """Return names as byte strings, padded with zeros to words of 8 bytes."""
    texts = np.array([x.encode() for x in names], "S")
    return texts.astype(f"S{-(-texts.itemsize // 8) * 8}")


def _hashable(names: Array) -> Array:
    """Return numbers and byte strings unchanged, and the Python hash of other names."""
    return np.fromiter(map(hash, names), np.int64, len(names)) if names.dtype == object else names


def _numbers(name: str, value: str, column: Any, table: Table) -> Array:
    """Return the values of a column: (N,) float64."""
    values = np.asarray(column) if len(column) else np.empty(0)
    if values.dtype.kind in "iufb" and values.ndim == 1:
        numbers = values.astype(np.float64)
    else:
        wrong = [not _is_number(x) for x in column]
        if any(wrong):
            _raise_for_value(name, f"{value}s that are numbers", table, column, wrong.index(True))
        numbers = np.array([float(x) for x in column])
    for place in np.flatnonzero(np.abs(numbers) >= LARGEST_WHOLE).tolist():
        if value == "score" and isinstance(column[place], Integral) and int(numbers[place]) != int(column[place]):
            _raise_for_value(name, "scores that float64 represents: whole numbers below 2^53", table, column, place)
    return numbers


def _is_number(value: Any) -> bool:
    if isinstance(value, str | bytes) or np.iscomplexobj(value):  # float() accepts complex numbers of NumPy
        return False
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _raise_for_value(name: str, rule: str, table: Table, values: Any, place: int) -> NoReturn:
    query, document = table.queries[int(table.query[place])], table.documents[place]
    value = values[place].item() if isinstance(values[place], np.generic) else values[place]
    place_text = f"{short_repr(value)} for document {short_repr(document)} of query {short_repr(query)}"
    raise_invalid(name, f"must have {rule}", Plain(place_text))
