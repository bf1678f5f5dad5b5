"""Tables in files, some columns and one batch of rows at a time, so that a file may be larger than memory.

| format | suffix | read by |
|---|---|---|
| csv, tsv | .csv, .tsv, gzip too | ``pyarrow.csv``, or Python; the first line names the columns |
| jsonl | .jsonl, .ndjson, gzip too | ``pyarrow.json``, or Python; the first line defines the types of the columns |
| parquet | .parquet, .pq | ``pyarrow.parquet`` |
| arrow | .arrow, .feather, .ipc | ``pyarrow.ipc``, files and streams |
| npz | .npz | NumPy's format; arrays of (N,), or (N, C) |

Parquet and Arrow need pyarrow (extra: ``files``). Text is read faster with it.

Scores, targets, weights and groups from the columns of a table; every error names file, row and column.
"""

import io
import itertools
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base.messages import short_repr, suggest_name
from torch_ap.core.base.tensors import SAMPLING_WEIGHTS, WEIGHTS
from torch_ap.core.columns.columns import Progress
from torch_ap.core.columns.streams import (
    STANDARD_INPUT,
    Batch,
    RemoteFile,
    Selection,
    Source,
    distinct_values,
    files_of,
    first_line,
    flat_numbers,
    missing_values,
    open_stream,
    pyarrow,
    seekable,
    stream_size,
)
from torch_ap.core.columns.table_names import FORMATS, SUFFIXES
from torch_ap.core.columns.table_text import json_lines, separated_values

_ROWS = 1 << 18
_BROKEN = (zipfile.BadZipFile, EOFError, zlib.error, UnicodeError)  # and OSError without a number, as of gzip


def batches(
    path: Source,
    columns: Sequence[str],
    *,
    numbers: Collection[str] = (),
    form: str | None = None,
    progress: Progress | None = None,
) -> Iterator[Any]:
    """Yield the columns of a table in batches of rows, in the order of its rows.

    Args:
        path: path of the file; "-" for standard input.
        columns: names of the columns to read.
        numbers: names of the columns of numbers. Other columns of text formats are read as text.
        form: one of :data:`FORMATS`; None for the format of the suffix.
        progress: called after each batch with the number of bytes read and the size of the file.

    Yields:
        pyarrow's record batches, or :class:`torch_ap.core.columns.streams.Batch`.

    Raises:
        OSError: if it cannot be read.
        ValueError: for an unknown suffix, a missing or repeated column, and content that breaks the format. The message
            names the file and, if possible, the row, counted from 1 without the line of names.
        ModuleNotFoundError: for Parquet and Arrow without pyarrow.
    """
    form = form or _suffix_form(path)
    selection = Selection(path, list(dict.fromkeys(columns)), numbers)
    with open_stream(path) as stream:
        size = stream_size(stream)
        try:
            for batch in _READERS[form](stream, selection):
                yield batch
                if progress is not None and stream.seekable():
                    progress(min(stream.tell(), size), size)
        except _broken_errors() as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise ValueError(f"{path}: broken {form} file ({first_line(error)})") from None


def _broken_errors() -> tuple[type[Exception], ...]:
    """Return the errors of files that break their format; pyarrow's only if it was imported to read the file."""
    return (OSError, *_BROKEN, *([pyarrow().ArrowException] if sys.modules.get("pyarrow") else []))


def column_names(path: str | Path) -> list[str]:
    """Return the names of the columns of a file of Parquet.

    Raises:
        OSError: as :func:`batches`.
        ValueError: as :func:`batches`.
        ModuleNotFoundError: as :func:`batches`.
    """
    with open_stream(path):
        arrow = pyarrow()
    try:
        names: list[str] = import_module("pyarrow.parquet").read_schema(path).names
    except arrow.ArrowException as error:
        raise ValueError(f"{path}: broken parquet file ({first_line(error)})") from None
    return names


def _suffix_form(path: Source) -> str:
    """Return the format that the suffix of a path names."""
    if str(path) == STANDARD_INPUT:
        raise ValueError(f"--format must say what standard input is: one of {', '.join(FORMATS)}")
    name = Path(str(path)).name.lower().removesuffix(".gz")
    suffix = Path(name).suffix
    if suffix not in SUFFIXES:
        raise ValueError(f"{path}: must end in one of {', '.join(SUFFIXES)}, or --format must say what it is")
    return SUFFIXES[suffix]


def _parquet(stream: io.BufferedReader, selection: Selection) -> Iterator[Any]:
    pyarrow()
    file = import_module("pyarrow.parquet").ParquetFile(seekable(stream), pre_buffer=False)
    selection.check_names(file.schema_arrow.names)
    for batch in file.iter_batches(_ROWS, columns=list(selection.columns)):
        yield batch.select(selection.columns)


def _arrow(stream: io.BufferedReader, selection: Selection) -> Iterator[Any]:
    pyarrow()
    ipc = import_module("pyarrow.ipc")
    if stream.peek(6)[:6] == b"ARROW1":
        source = seekable(stream)
        names = ipc.open_file(source).schema.names
        selection.check_names(names)
        file = ipc.open_file(
            source, options=ipc.IpcReadOptions(included_fields=[names.index(x) for x in selection.columns])
        )
        parts = map(file.get_batch, range(file.num_record_batches))
    else:
        parts = ipc.open_stream(stream)
        selection.check_names(parts.schema.names)
    for batch in parts:
        for first in range(0, batch.num_rows, _ROWS):
            yield batch.select(selection.columns).slice(first, _ROWS)


def _npz(stream: io.BufferedReader, selection: Selection) -> Iterator[Any]:
    with zipfile.ZipFile(seekable(stream)) as archive:
        selection.check_names([name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")])
        arrays = [_chunks(archive, name, selection.path) for name in selection.columns]
        for parts in itertools.zip_longest(*arrays, fillvalue=()):
            if len(set(map(len, parts))) > 1:
                listed = ", ".join(map(short_repr, selection.columns))
                raise ValueError(f"{selection.path}: its arrays {listed} must be of equal length")
            native = (part.astype(part.dtype.newbyteorder("="), copy=False) for part in parts)
            yield Batch(len(parts[0]), dict(zip(selection.columns, native, strict=True)))


def _chunks(archive: zipfile.ZipFile, name: str, path: Source) -> Iterator[Any]:
    """Yield an array of an archive in parts of several rows."""
    with archive.open(f"{name}.npy") as member:
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        try:
            shape, by_columns, dtype = read[np.lib.format.read_magic(member)](member)
        except (KeyError, ValueError, TypeError, SyntaxError, RecursionError, tokenize.TokenError):
            raise ValueError(f"{path}: {short_repr(name)} must be an array of NumPy's format 1 or 2") from None
        wide = dtype.kind in "cVO" or (dtype.kind == "f" and dtype.itemsize > 8) or not dtype.itemsize
        if wide or len(shape) not in (1, 2) or (by_columns and len(shape) == 2):
            rule = "must contain numbers or text of shape (N,), or (N, C) by rows"
            order = " by columns" if by_columns else ""
            raise ValueError(f"{path}: {short_repr(name)} {rule}, got {dtype} of shape {shape}{order}")
        width = int(np.prod(shape[1:])) * dtype.itemsize
        for first in range(0, shape[0], _ROWS):
            rows = min(_ROWS, shape[0] - first)
            data = member.read(rows * width)
            if len(data) < rows * width:
                raise ValueError(f"{path}: {short_repr(name)} is cut short: must have {shape[0]} rows")
            yield np.frombuffer(data, dtype).reshape(rows, *shape[1:])


_READERS: Mapping[str, Callable[..., Iterator[Any]]] = {
    "csv": partial(separated_values, ","),
    "tsv": partial(separated_values, "\t"),
    "jsonl": json_lines,
    "parquet": _parquet,
    "arrow": _arrow,
    "npz": _npz,
}


POS_LABEL_HINT = " (or --pos-label must say which value is positive)"
_TRUE, _FALSE = ("1", "1.0", "true"), ("0", "0.0", "false")
_WIDER = {"u2": np.int32, "u4": np.int64, "u8": np.int64}  # torch cannot sort most unsigned numbers

UNLABELED = -1  # target of a row without a human label
Rule: TypeAlias = Callable[[Any], int | str]  # returns the integer for a value in a file, or the rule that it breaks


@dataclass(frozen=True, eq=False)
class Columns:
    """Some rows of a table.

    Attributes:
        preds: (N,) scores, or (N, C) for several columns or a column of lists.
        target: (N,) int64: 0 and 1, grades, or class ids; (N, C) of 0 and 1 for several columns.
        baseline: scores of another system, of the shape of ``preds``, or None.
        weights: (N,) float64, or None.
        group: (N,) int64, the number of each row's group, or None.
        cluster: (N,) int64, the number of each row's cluster, or None.
        judge: (N,) labels or probabilities of a judge, or None; ``target`` is then -1 for rows without a human label.
    """

    preds: Tensor
    target: Tensor
    baseline: Tensor | None = None
    weights: Tensor | None = None
    group: Tensor | None = None
    cluster: Tensor | None = None
    judge: Tensor | None = None

    def rows(self, places: Tensor) -> "Columns":
        """Return the rows at these places."""
        columns = (getattr(self, column.name) for column in fields(self))
        selected: list[Any] = [x if x is None else x[places] for x in columns]
        return Columns(*selected)


@dataclass
class Table:
    """A file, the columns to read, and the meaning of its texts.

    Attributes:
        path: path of the file, folder or pattern, or a list of them; "-" for standard input.
        preds: columns of scores.
        target: columns of targets: as many as of scores, or one.
        group: column of groups, or None.
        weights: column of weights, or None.
        baseline: column of another system's scores, or None.
        form: one of :data:`torch_ap.core.columns.table_names.FORMATS`; None for the format of the suffix.
        cluster: column of clusters, whose rows may depend on each other, or None.
        judge: column of a judge's labels or probabilities, or None; with it targets may be missing.
        sampled: whether the weights are reciprocals of sampling probabilities.
        row_id: column of ids, different in each row, or None.
        pos_label: the positive target, as text; None for 1, or true.
        systems: whether several columns of scores are systems with the same targets, instead of classes.
        clusters: the number of each cluster by its name, in order of occurrence; filled by :meth:`batches`.
        groups: the number of each group likewise.
        row_ids: the place of each row by its id, in order; filled by :meth:`batches`.
        labels: the different targets, as text; filled by :meth:`batches`.
    """

    path: Source | Sequence[Source]
    preds: Sequence[str]
    target: Sequence[str]
    group: str | None = None
    weights: str | None = None
    baseline: str | None = None
    form: str | None = None
    pos_label: str | None = None
    systems: bool = False
    cluster: str | None = None
    judge: str | None = None
    sampled: bool = False
    row_id: str | None = None
    clusters: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    row_ids: dict[str, int] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    _widths: dict[str, int] = field(default_factory=dict, init=False)  # of columns of lists
    _file: Any = field(default="", init=False)  # the file that is read, for messages

    def __post_init__(self) -> None:
        self._file = self.path

    def files(self) -> list[Source]:
        """Return all files of the table.

        Raises:
            ValueError: if a folder or pattern has no file.
        """
        path = self.path
        paths = [path] if isinstance(path, str | Path | RemoteFile) else path
        suffixes = SUFFIXES if self.form is None else None
        return [file for path in paths for file in files_of(path, suffixes)]

    def count_rows(self) -> int | None:
        """Return the number of rows of Parquet files, from their ends; None for other formats, and for a pipe."""
        files, rows = self.files(), 0
        for file in files:
            if str(file) == STANDARD_INPUT or (self.form or _suffix_form(file)) != "parquet":
                return None
            with open_stream(file) as stream:
                pyarrow()
                rows += import_module("pyarrow.parquet").ParquetFile(stream).metadata.num_rows
        return rows

    def batches(self, progress: Progress | None = None) -> Iterator[Columns]:
        """Yield the rows in batches.

        Raises:
            OSError: as :func:`torch_ap.core.columns.tables.batches`.
            ModuleNotFoundError: as :func:`torch_ap.core.columns.tables.batches`.
            ValueError: as :func:`torch_ap.core.columns.tables.batches`; and for values that are missing or break the
                rule of their column, naming the row.
        """
        numbers = [name for name in (*self.preds, self.baseline, self.weights, self.judge) if name is not None]
        texts = (self.group, self.cluster, self.row_id)
        names = [*numbers, *self.target, *(name for name in texts if name is not None)]
        has_rows, files = False, self.files()
        for self._file in files:
            row = 1
            for batch in batches(self._file, names, numbers=numbers, form=self.form, progress=progress):
                if batch.num_rows:
                    yield self.convert(batch, row)
                    row += batch.num_rows
            has_rows = has_rows or row > 1
        self._file = files[0] if len(files) == 1 else self.path
        if not has_rows:
            raise ValueError(f"{self._file}: must contain rows, but has none")
        positive = self.pos_label
        if positive is not None and len(self.labels) > 1 and not any(_is_same(x, positive) for x in self.labels):
            hint = suggest_name(positive, self.labels)
            listed = short_repr(", ".join(map(repr, sorted(self.labels))))[1:-1]
            raise ValueError(
                f"{self._file}: no target is {short_repr(positive)} (--pos-label){hint}; they are {listed}"
            )

    def read(self, progress: Progress | None = None) -> Columns:
        """Return all rows."""
        parts = list(self.batches(progress))
        columns = ([getattr(part, column.name) for part in parts] for column in fields(Columns))
        joined: list[Any] = [None if column[0] is None else torch.cat(column) for column in columns]
        return Columns(*joined)

    def convert(self, batch: Any, row: int) -> Columns:
        """Return the columns of one batch, whose first row has the number ``row``."""
        preds = self._scores(batch, row)
        weights = None
        if self.weights is not None:
            weights = self._numbers(batch, self.weights, row).to(torch.float64)
            valid = SAMPLING_WEIGHTS if self.sampled else WEIGHTS
            self._check(~valid.offends(weights), self.weights, row, valid.rule, weights)
        baseline = None if self.baseline is None else self._numbers(batch, self.baseline, row)
        group = None if self.group is None else self._mapped(batch, self.group, row, _numbering(self.groups))
        cluster = None if self.cluster is None else self._mapped(batch, self.cluster, row, _numbering(self.clusters))
        if self.row_id is not None:
            self._add_ids(batch, self.row_id, row)
        rule = self._rule(preds)
        judge = None
        if self.judge is not None:
            judge = self._numbers(batch, self.judge, row).to(torch.float64)
            self._check((judge >= 0) & (judge <= 1), self.judge, row, "must contain numbers in [0, 1]", judge)
        missing = None if self.judge is None else UNLABELED
        target = _stack([self._mapped(batch, name, row, rule, missing) for name in self.target])
        return Columns(preds, target, baseline, weights, group, cluster, judge)

    def _scores(self, batch: Any, row: int) -> Tensor:
        """Return the columns of scores, stacked; several dtypes become float64, which must represent the scores."""
        columns = [self._numbers(batch, name, row) for name in self.preds]
        if len({x.dtype for x in columns}) > 1:
            for name, column in zip(self.preds, columns, strict=True):
                exact = column == column.to(torch.float64).to(column.dtype)
                self._check(
                    exact,
                    name,
                    row,
                    "must contain numbers that float64 represents, as other columns are fractions",
                    column,
                )
        return _stack(columns)

    def _rule(self, preds: Tensor) -> Rule:
        """Return the rule of targets, which are classes, the relevance of a group's items, or of all items."""
        if preds.ndim == 2 and len(self.target) == 1 and not self.systems:
            names = self.preds if len(self.preds) > 1 else ()
            places = {name: place for place, name in enumerate(names)}
            return lambda value: _class_number(value, places, preds.shape[1])
        return _grade if self.group is not None and self.pos_label is None else self._relevance

    def _relevance(self, value: Any) -> int | str:
        text = str(value)
        self.labels.add(text)
        if self.pos_label is not None:
            return int(_is_same(text, self.pos_label))
        if text.lower() not in _TRUE + _FALSE:
            return f"must be 0 or 1{POS_LABEL_HINT}"
        return int(text.lower() in _TRUE)

    def _numbers(self, batch: Any, name: str, row: int) -> Tensor:
        """Return a column of numbers, or of lists of equal length, without NaN."""
        column = self._complete_column(batch, name, row)
        try:
            values, lengths = flat_numbers(column)
        except TypeError as kind:
            raise ValueError(f"{self._file}: column {short_repr(name)} must contain numbers, got {kind}") from None
        shape: tuple[int, ...] = (batch.num_rows,)
        if lengths is not None:
            width = self._widths.setdefault(name, int(lengths[0]))
            rule = f"must contain lists of one length, {width or 'at least 1'}"
            self._check(torch.from_numpy((lengths == width) & (width > 0)), name, row, rule, lengths)
            shape = (batch.num_rows, width)
        if values.dtype == np.uint64 and (large := values >= 1 << 63).any():
            place = int(large.argmax())
            width = shape[1] if len(shape) == 2 else 1
            self._fail(name, row + place // width, "must contain numbers below 2^63", values[place])
        values = values.astype(_WIDER.get(values.dtype.str[1:], values.dtype)).reshape(shape)
        if np.isnan(values).any():
            place = int(np.isnan(values).reshape(batch.num_rows, -1).any(1).argmax())
            raise ValueError(f"{self._file}, row {row + place}: column {short_repr(name)} must not contain NaN")
        return torch.from_numpy(values)

    def _mapped(self, batch: Any, name: str, row: int, rule: Rule, missing: int | None = None) -> Tensor:
        """Return the (N,) int64 results of a rule, which is called once per distinct value of a column.

        Args:
            batch: the rows.
            name: the column.
            row: number of the first row.
            rule: the rule.
            missing: result for rows without a value; None if every row must have one.
        """
        column = batch.column(name)
        encoded = distinct_values(column if missing is not None else self._complete_column(batch, name, row))
        if encoded is None:
            raise ValueError(f"{self._file}: column {short_repr(name)} must contain one value per row, got lists")
        at, values = encoded
        results = np.zeros(len(values), np.int64)
        for place in np.unique(at).tolist():  # a dictionary may contain unused values
            value = values[place]
            is_missing = value is None or value != value or str(value).strip() == ""
            result = (missing if missing is not None else "") if is_missing else rule(value)
            if isinstance(result, str):
                first = row + int((at == place).argmax())
                if is_missing:
                    self._fail_missing(name, first)
                hint = suggest_name(str(value), self.preds) if len(self.preds) > 1 else ""
                self._fail(name, first, result, f"{short_repr(value)}{hint}")
            results[place] = result
        return torch.from_numpy(results[at])

    def _add_ids(self, batch: Any, name: str, row: int) -> None:
        """Add the ids of the rows; raise ValueError for an id of two rows."""
        places: dict[str, int] = {}
        at = self._mapped(batch, name, row, _numbering(places)).tolist()
        ids = list(places)
        for place in at:
            number = len(self.row_ids)
            if self.row_ids.setdefault(ids[place], number) != number:
                self._fail(name, row, "must have another value in each row", f"{short_repr(ids[place])} again")
            row += 1

    def _complete_column(self, batch: Any, name: str, row: int) -> Any:
        """Return a column; raise ValueError for a row without a value."""
        column = batch.column(name)
        missing = missing_values(column)
        if missing.any():
            self._fail_missing(name, row + int(missing.argmax()))
        return column

    def _check(self, valid: Tensor, name: str, row: int, rule: str, values: Any) -> None:
        """Raise ValueError for the first row with an invalid value, or an invalid value in its list."""
        if not valid.all():
            place = int((~valid).reshape(len(valid), -1).any(1).nonzero()[0])
            self._fail(name, row + place, rule, short_repr(values[place].tolist()))

    def _fail_missing(self, name: str, row: int) -> NoReturn:
        self._fail(name, row, "must have a value", "none (empty, NA, NaN or null)")

    def _fail(self, name: str, row: int, rule: str, got: Any) -> NoReturn:
        raise ValueError(f"{self._file}, row {row}: column {short_repr(name)} {rule}, got {got}")


def _numbering(numbers: dict[str, int]) -> Rule:
    """Return the rule that numbers the values of a column in order of occurrence."""
    return lambda value: numbers.setdefault(str(value), len(numbers))


def _stack(columns: Sequence[Tensor]) -> Tensor:
    """Return one column, or several as (N, C); columns of several dtypes as float64."""
    if len({x.dtype for x in columns}) > 1:
        columns = [x.to(torch.float64) for x in columns]
    return columns[0] if len(columns) == 1 else torch.stack(list(columns), 1)


def _is_same(label: str, other: str) -> bool:
    """Return whether two texts are the same label: the same text, or the same number."""
    return label == other or (_integer(label) is not None and _integer(label) == _integer(other))


def _integer(value: Any) -> int | None:
    """Return the integer of a value or text, such as "3" and "3.0"; None for other values."""
    if isinstance(value, bool):
        return int(value)
    try:
        number = float(str(value))
    except ValueError:
        return None
    return int(number) if number.is_integer() and abs(number) < 1 << 53 else None


def _grade(value: Any) -> int | str:
    number = _integer(value)
    return "must be a whole number of at least 0" if number is None or number < 0 else number


def _class_number(value: Any, places: Mapping[str, int], classes: int) -> int | str:
    """Return the column of a class, by its name; or by its number, unless names of columns are numbers."""
    if str(value) in places:
        return places[str(value)]
    number = None if any(_integer(name) is not None for name in places) else _integer(value)
    if number is None or not 0 <= number < classes:
        names = f"one of the columns {', '.join(map(repr, places))}, or its number, " if places else ""
        return f"must be {names}0 to {classes - 1}"
    return number
