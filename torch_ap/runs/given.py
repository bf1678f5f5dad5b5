"""Judgements and runs in any form as the columns that files are read into: nested dicts, tables, paths.

Queries and documents are known by name, which may be of any hashable type, but of one type in judgements and run, since
no 301 equals "301". Names in files are text.
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

from torch_ap.files.trec import read_qrels, read_run
from torch_ap.files.trec_parquet import column_of
from torch_ap.files.trec_tables import Qrels, Run, Table, check_once, keys_of, named
from torch_ap.ranking.order import Array
from torch_ap.rules.messages import Plain, refuse, shown

_LARGEST_WHOLE = 1 << 53  # of float64: from here on it does not hold each whole number


def qrels_of(given: Any, columns: Mapping[str, str | None]) -> Qrels:
    """Judgements in any form.

    Args:
        given: as :func:`torch_ap.runs.evaluation.evaluate` takes them.
        columns: names of those of tables, by what they hold; None for the usual ones.
    """
    if isinstance(given, Qrels):
        return given
    if isinstance(given, str | os.PathLike):
        return read_qrels(os.fspath(given))
    table, grades = _read("qrels", given, columns, "grade")
    whole = (np.abs(grades) < _LARGEST_WHOLE) & (np.floor(grades) == grades)
    if not whole.all():
        _refuse_value("qrels", "grades that are whole numbers below 2^53", table, grades, int(whole.argmin()))
    return Qrels(**vars(table), relevance=torch.from_numpy(grades.astype(np.int64)))


def run_of(given: Any, columns: Mapping[str, str | None], name: str = "run") -> Run:
    """A run in any form; ``name`` is what messages call it."""
    if isinstance(given, Run):
        return given
    if isinstance(given, str | os.PathLike):
        return read_run(os.fspath(given))
    table, scores = _read(name, given, columns, "score")
    if not (finite := np.isfinite(scores)).all():
        _refuse_value(name, "scores that are finite, as in files", table, scores, int(finite.argmin()))
    return Run(**vars(table), scores=torch.from_numpy(scores), tag="")


def alike(qrels: Qrels, run: Run) -> tuple[Qrels, Run]:
    """Both, the judgements with names in the form of those of the run, whether a file's or Python's.

    Raises:
        TypeError: where they name queries or documents by different types.
    """
    if not len(qrels.documents) or not len(run.documents):
        return qrels, run
    _check_kinds(qrels, run.path, *run.firsts)
    if run.documents.dtype.kind == "S":
        return as_in_files(qrels, run.path), run
    qrels = qrels if qrels.documents.dtype.kind != "S" else _named_by(_objects, qrels)
    try:
        _ = qrels.by_key
    except ValueError:  # names whose hashes are equal in Python, as those of -1.0 and -2.0 are
        numbers: dict[Any, int] = {}
        return replace(qrels, key=_numbered(qrels, numbers)), replace(run, key=_numbered(run, numbers))
    return qrels, run


def _numbered(table: Table, numbers: dict[Any, int]) -> Array:
    """(N,) uint64 keys by numbers of names, which grow with those that are new."""
    query, document = (
        np.array([numbers.setdefault(x, len(numbers)) for x in names], np.int64)
        for names in (table.queries, table.documents.tolist())
    )
    return keys_of(query, table.query.numpy(), document)


def as_in_files(qrels: Qrels, path: Path | str) -> Qrels:
    """The judgements with names as those in a file are.

    Raises:
        TypeError: where they are not text.
    """
    if not len(qrels.documents) or qrels.documents.dtype.kind == "S":
        return qrels
    _check_kinds(qrels, path, "", "")
    return _named_by(_as_in_files, qrels)


def _named_by(form: Callable[[Sequence[Any]], Array], qrels: Qrels) -> Qrels:
    table = _table(qrels.path, form(qrels.queries), qrels.query, form(named(qrels.documents)))
    return Qrels(qrels.path, qrels.queries, qrels.query, table.documents, table.key, relevance=qrels.relevance)


def _check_kinds(qrels: Qrels, path: Path | str, *firsts: Any) -> None:
    """The judgements name queries and documents by the types of these."""
    for what, one, other in zip(("queries", "documents"), qrels.firsts, firsts, strict=True):
        kinds = _kind(type(one)), _kind(type(other))
        if kinds[0] != kinds[1]:
            as_in = f" as {shown(other)}" if other != "" else ""
            text = "`x.decode()`" if "bytes" in kinds else "`str(x)`"
            raise TypeError(
                f"{qrels.path} and {path} must name {what} by one type, got {kinds[0]} as {shown(one)} and "
                f"{kinds[1]}{as_in}; give both as text: {text}, `table[column].astype(str)`"
            )


def _read(name: str, given: Any, columns: Mapping[str, str | None], value: str) -> tuple[Table, Array]:
    """What is named, and the (N,) float64 values."""
    if isinstance(given, Mapping):
        table, values = _of_dicts(name, given, value)
    elif (known := getattr(given, "column_names", getattr(given, "columns", None))) is not None:
        table, values = _of_columns(name, given, list(known), columns, value)
    else:
        reader = "read_qrels" if value == "grade" else "read_run"
        rule = f"must be {{query: {{document: {value}}}}}, a table, the path of a file, or what `{reader}` gives"
        refuse(name, rule, Plain(type(given).__name__), TypeError)
    return table, _numbers(name, value, values, table)


def _of_dicts(name: str, given: Mapping[Any, Any], value: str) -> tuple[Table, list[Any]]:
    for query, listed in given.items():
        inner = next(iter(listed.values()), None) if isinstance(listed, Mapping) else listed
        if inner is listed or isinstance(inner, Mapping):
            also = "; several runs are given as `runs`" if value == "score" else ""
            told = Plain(f"{type(inner).__name__} for {shown(query)}{also}")
            refuse(name, f"as a dict must be {{query: {{document: {value}}}}}", told, TypeError)
    documents = _names(name, "document", list(chain.from_iterable(given.values())))
    query = np.repeat(np.arange(len(given)), np.fromiter(map(len, given.values()), np.int64, len(given)))
    values = list(chain.from_iterable([x.values() for x in given.values()]))
    return _table(f"`{name}`", _names(name, "query", list(given)), torch.from_numpy(query), documents), values


def _of_columns(
    name: str, given: Any, known: Sequence[str], columns: Mapping[str, str | None], value: str
) -> tuple[Table, Any]:
    query, document, values = (_column(name, given, known, columns[x], x) for x in ("query", "document", value))
    rows = _names(name, "query", query).tolist()
    places = {one: place for place, one in enumerate(dict.fromkeys(rows))}
    number = torch.from_numpy(np.fromiter(map(places.__getitem__, rows), np.int64, len(rows)))
    table = _table(f"`{name}`", _names(name, "query", list(places)), number, _names(name, "document", document))
    check_once(table, "row", np.arange(len(rows)))
    return table, values


def _column(name: str, given: Any, known: Sequence[Any], asked: str | None, what: str) -> Any:
    column = column_of(f"`{name}`", known, what, asked)
    return (given.column(column) if hasattr(given, "column_names") else given[column]).to_numpy()


def _table(path: Path | str, queries: Array, query: torch.Tensor, documents: Array) -> Table:
    key = keys_of(_words(queries), query.numpy(), _words(documents))
    return Table(path, queries.tolist(), query, documents, key)


def _names(name: str, what: str, given: Any) -> Array:
    """(N,) names of queries or documents: int64, or objects of one type.

    Raises:
        TypeError: for names of several types, and for what is no name: None, NaN, lists.
    """
    if isinstance(given, np.ndarray) and given.dtype.kind in "iu" and given.dtype != np.uint64:
        return given.astype(np.int64)
    names = given.tolist() if isinstance(given, np.ndarray) else given
    kinds = {_kind(x): x for x in set(map(type, names))}
    if len(kinds) > 1:
        told = " and ".join(f"{shown(next(x for x in names if type(x) is kinds[one]))} ({one})" for one in kinds)
        refuse(name, f"must name each {what} by one type", Plain(told), TypeError)
    if "NoneType" in kinds or ("float" in kinds and any(x != x for x in names)):
        refuse(name, f"must name each {what}", Plain("None or NaN"), TypeError)
    texts: list[Any] = [(x.__str__, x.__repr__) for x in set(map(type, names))]
    if what == "document" and (object.__str__, object.__repr__) in texts:
        refuse(name, "must name each document by what has a text of its own: ties go by it", names[0], TypeError)
    if "int" in kinds and all(-(1 << 63) <= x < 1 << 63 for x in names):
        return np.fromiter(names, np.int64, len(names))
    return _objects(names)


def _kind(kind: type) -> str:
    """What a type of names is called: NumPy's strings and integers are Python's."""
    if issubclass(kind, str):
        return "str"
    return "int" if kind is not bool and issubclass(kind, Integral) else kind.__name__


def _objects(names: Sequence[Any]) -> Array:
    out = np.empty(len(names), object)
    out[:] = names
    return out


def _as_in_files(names: Sequence[str]) -> Array:
    """Byte strings, padded with zeros to words of 8 bytes."""
    texts = np.array([x.encode() for x in names], "S")
    return texts.astype(f"S{-(-texts.itemsize // 8) * 8}")


def _words(names: Array) -> Array:
    """What is hashed of names: numbers and byte strings as they are, of other objects Python's hash."""
    return np.fromiter(map(hash, names), np.int64, len(names)) if names.dtype == object else names


def _numbers(name: str, value: str, given: Any, table: Table) -> Array:
    """(N,) float64."""
    found = np.asarray(given) if len(given) else np.empty(0)
    if found.dtype.kind in "iufb" and found.ndim == 1:
        numbers = found.astype(np.float64)
    else:
        wrong = [not _is_number(x) for x in given]
        if any(wrong):
            _refuse_value(name, f"{value}s that are numbers", table, given, wrong.index(True))
        numbers = np.array([float(x) for x in given])
    for place in np.flatnonzero(np.abs(numbers) >= _LARGEST_WHOLE).tolist():
        if value == "score" and isinstance(given[place], Integral) and int(numbers[place]) != int(given[place]):
            _refuse_value(name, "scores that float64 holds: whole numbers below 2^53", table, given, place)
    return numbers


def _is_number(given: Any) -> bool:
    if isinstance(given, str | bytes) or np.iscomplexobj(given):  # of which NumPy's become floats
        return False
    try:
        float(given)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _refuse_value(name: str, rule: str, table: Table, values: Any, place: int) -> NoReturn:
    query, document = table.queries[int(table.query[place])], table.documents[place]
    value = values[place].item() if isinstance(values[place], np.generic) else values[place]
    told = f"{shown(value)} for document {shown(document)} of query {shown(query)}"
    refuse(name, f"must have {rule}", Plain(told))
