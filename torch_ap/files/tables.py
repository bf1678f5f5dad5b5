"""Tables in files, some columns and one batch of rows at a time, so that a file may be larger than memory.

| format | suffix | read by |
|---|---|---|
| csv, tsv | .csv, .tsv, gzip too | ``pyarrow.csv``; the first line names the columns |
| jsonl | .jsonl, .ndjson, gzip too | ``pyarrow.json``; the first line says which types the columns have |
| parquet | .parquet, .pq | ``pyarrow.parquet`` |
| arrow | .arrow, .feather, .ipc | ``pyarrow.ipc``, files and streams |
| npz | .npz | NumPy's format; arrays of (N,), or (N, C) |

pyarrow is imported where it is used (extra: ``files``).
"""

import csv
import gzip
import io
import itertools
import json
import os
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from torch_ap.files.columns import Progress
from torch_ap.files.table_names import FORMATS, SUFFIXES
from torch_ap.files.text import MARK
from torch_ap.rules.messages import nearest, shown

STANDARD_INPUT = "-"
_BLOCK = 1 << 21
_ROWS = 1 << 18
_LONGEST_LINE = 1 << 20
_CONVERSION = re.compile(
    r"In CSV column #(\d+): Row #(\d+): CSV conversion error to double: invalid value (.*)", re.DOTALL
)
_GZIP = b"\x1f\x8b"


def batches(
    path: str | Path,
    columns: Sequence[str],
    *,
    numbers: Collection[str] = (),
    form: str | None = None,
    progress: Progress | None = None,
) -> Iterator[Any]:
    """The columns of a table as pyarrow's record batches, in the order of its rows.

    Args:
        path: of the file; "-" for standard input.
        columns: names of those that are read.
        numbers: those of them that hold numbers, which text formats do not say; their other columns are read as text.
        form: one of :data:`FORMATS`; None for what the suffix says.
        progress: called after each batch with the number of bytes that are done and that of the file.

    Raises:
        OSError: if it cannot be read.
        ValueError: for an unknown suffix, a column that is not there or is there twice, and what breaks the format;
            naming the file and, where there is one, the row, counted from 1 without the line of names.
        ModuleNotFoundError: without pyarrow.
    """
    form = form or _form_of(path)
    arrow = pyarrow()
    columns = list(dict.fromkeys(columns))
    with _opened(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            for batch in _READERS[form](stream, path, columns, numbers):
                yield batch
                if progress is not None and stream.seekable():
                    progress(min(stream.tell(), size), size)
        except (arrow.ArrowException, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: broken {form} file ({_first_line(error)})") from None


def pyarrow() -> Any:
    """The package, or an error that names the extra."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ModuleNotFoundError("tables need pyarrow: pip install pyarrow (extra `files`)") from error


def lengths_of_lists(column: Any) -> Any:
    """(N,) how many entries each list of a column has."""
    return import_module("pyarrow.compute").list_value_length(column).to_numpy(zero_copy_only=False)


def _form_of(path: str | Path) -> str:
    if str(path) == STANDARD_INPUT:
        raise ValueError(f"--format must say what standard input is: one of {', '.join(FORMATS)}")
    name = Path(path).name.lower().removesuffix(".gz")
    suffix = Path(name).suffix
    if suffix not in SUFFIXES:
        raise ValueError(f"{path}: must end in one of {', '.join(SUFFIXES)}, or --format must say what it is")
    return SUFFIXES[suffix]


@contextmanager
def _opened(path: str | Path) -> Iterator[Any]:
    """The file, or standard input, which stays open."""
    if str(path) != STANDARD_INPUT:
        with Path(path).open("rb", buffering=_LONGEST_LINE) as stream:
            yield stream
        return
    try:
        number = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        raise ValueError(f"{path}: standard input cannot be read") from None
    with open(number, "rb", buffering=_LONGEST_LINE, closefd=False) as stream:
        yield stream


def _first_line(error: BaseException) -> str:
    text = str(error.args[0] if error.args else error)
    return shown(text.split("\n")[0])[1:-1] if text else type(error).__name__


def _whole(stream: io.BufferedReader) -> Any:
    """The stream for readers that jump in it: a pipe is read to its end first."""
    return stream if stream.seekable() else io.BytesIO(stream.read())


def _check(path: str | Path, names: Sequence[str], wanted: Sequence[str]) -> None:
    """The columns are there, each once."""
    for name in wanted:
        if names.count(name) > 1:
            raise ValueError(f"{path}: must have one column {shown(name)}, got {names.count(name)}")
        if name not in names:
            all_of_them = shown(", ".join(names))[1:-1]
            raise ValueError(
                f"{path}: has no column {shown(name)}{nearest(name, names)}; its columns are {all_of_them}"
            )


# -- text


def _unzipped(stream: io.BufferedReader) -> Any:
    return gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == _GZIP else stream


def _line(source: Any, path: str | Path) -> str:
    """The first line that is not blank, without its end; "" where there is none."""
    first: bytes = source.readline(_LONGEST_LINE).removeprefix(MARK)
    while first and not first.strip():
        first = source.readline(_LONGEST_LINE)
    try:
        return first.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(f"{path}, line 1: must be UTF-8 text") from None


def _csv_names(source: Any, path: str | Path, delimiter: str) -> list[str]:
    line = _line(source, path)
    if not line:
        raise ValueError(f"{path}: must begin with a line of the columns' names, but is empty")
    return [name.strip() for name in next(csv.reader([line], delimiter=delimiter))]


def _separated(delimiter: str) -> Callable[..., Iterator[Any]]:
    def read(
        stream: io.BufferedReader, path: str | Path, columns: Sequence[str], numbers: Collection[str]
    ) -> Iterator[Any]:
        arrow, reader = pyarrow(), import_module("pyarrow.csv")
        source = _unzipped(stream)
        names = _csv_names(source, path, delimiter)
        _check(path, names, columns)
        text = arrow.dictionary(arrow.int32(), arrow.string())
        types = {name: arrow.float64() if name in numbers else text for name in columns}
        options = {
            "read_options": reader.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=names),
            "parse_options": reader.ParseOptions(delimiter=delimiter),
            "convert_options": reader.ConvertOptions(include_columns=list(columns), column_types=types),
        }
        try:
            yield from reader.open_csv(source, **options)
        except arrow.ArrowInvalid as error:
            found = _CONVERSION.match(message := _first_line(error))
            if found:
                message = f"column {shown(names[int(found[1])])} must hold numbers, got {found[3]}"
                raise ValueError(f"{path}, row {found[2]}: {message}") from None
            if message != "Empty CSV file":  # there are names, and no rows
                raise

    return read


def _object(line: str, where: str) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as reason:
        raise ValueError(f"{where}: must be a JSON object: {_first_line(reason)}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{where}: must be a JSON object, got {shown(found)}")
    return found


def _jsonl(
    stream: io.BufferedReader, path: str | Path, columns: Sequence[str], numbers: Collection[str]
) -> Iterator[Any]:
    arrow, reader = pyarrow(), import_module("pyarrow.json")
    source = _unzipped(stream)
    line = _line(source, path)
    if not line:
        return
    first = _object(line, f"{path}, line 1")
    _check(path, list(first), columns)
    schema = arrow.schema([(name, _type(arrow, first[name], name in numbers)) for name in columns])
    options = {
        "read_options": reader.ReadOptions(use_threads=False, block_size=_BLOCK),
        "parse_options": reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    }
    try:
        for part in (io.BytesIO(line.encode()), source):
            for batch in reader.open_json(part, **options):
                yield batch.select(columns)
    except arrow.ArrowInvalid as error:
        if _first_line(error) != "Empty JSON file":
            _refuse_row(path, schema)
            raise


def _type(arrow: Any, value: Any, number: bool) -> Any:
    """Of a JSON value; of a list, from its first entry."""
    if isinstance(value, list):
        return arrow.list_(_type(arrow, value[0] if value else None, number))
    if isinstance(value, str):
        return arrow.string()
    kinds = {bool: arrow.bool_(), int: arrow.int64()}
    return arrow.float64() if number else kinds.get(type(value), arrow.float64())


def _refuse_row(path: str | Path, schema: Any) -> None:
    """Name the row that is wrong, where the file can be read again: pyarrow counts rows from the start of a block."""
    if str(path) == STANDARD_INPUT:
        return
    arrow = pyarrow()
    with _opened(path) as stream:
        for row, line in enumerate(filter(bytes.strip, _unzipped(stream)), 1):
            where = f"{path}, row {row}"
            found = _object(line.removeprefix(MARK).decode(errors="replace"), where)
            wrong = next((one for one in schema if not _holds(arrow, one.type, found.get(one.name))), None)
            if wrong is not None:
                got = shown(found[wrong.name])
                raise ValueError(f"{where}: column {shown(wrong.name)} must be {wrong.type}, got {got}")


def _holds(arrow: Any, kind: Any, value: Any) -> bool:
    try:
        arrow.array([value], kind)
    except (arrow.ArrowException, OverflowError):
        return False
    return True


# -- binary


def _parquet(
    stream: io.BufferedReader, path: str | Path, columns: Sequence[str], numbers: Collection[str]
) -> Iterator[Any]:
    del numbers
    file = import_module("pyarrow.parquet").ParquetFile(_whole(stream))
    _check(path, file.schema_arrow.names, columns)
    for batch in file.iter_batches(_ROWS, columns=list(columns)):
        yield batch.select(columns)


def _arrow(
    stream: io.BufferedReader, path: str | Path, columns: Sequence[str], numbers: Collection[str]
) -> Iterator[Any]:
    del numbers
    ipc = import_module("pyarrow.ipc")
    if stream.peek(6)[:6] == b"ARROW1":
        source = _whole(stream)
        names = ipc.open_file(source).schema.names
        _check(path, names, columns)
        file = ipc.open_file(source, options=ipc.IpcReadOptions(included_fields=[names.index(x) for x in columns]))
        found = map(file.get_batch, range(file.num_record_batches))
    else:
        found = ipc.open_stream(stream)
        _check(path, found.schema.names, columns)
    for batch in found:
        for first in range(0, batch.num_rows, _ROWS):
            yield batch.select(columns).slice(first, _ROWS)


def _npz(
    stream: io.BufferedReader, path: str | Path, columns: Sequence[str], numbers: Collection[str]
) -> Iterator[Any]:
    del numbers
    arrow = pyarrow()
    with zipfile.ZipFile(_whole(stream)) as archive:
        _check(path, [name.removesuffix(".npy") for name in archive.namelist()], columns)
        arrays = [_chunks(archive, name, path) for name in columns]
        for parts in itertools.zip_longest(*arrays, fillvalue=()):
            if len(set(map(len, parts))) > 1:
                raise ValueError(f"{path}: its arrays {', '.join(map(shown, columns))} must be of equal length")
            yield arrow.record_batch([_listed(arrow, part) for part in parts], names=list(columns))


def _chunks(archive: zipfile.ZipFile, name: str, path: str | Path) -> Iterator[Any]:
    """An array of an archive, some rows at a time."""
    with archive.open(f"{name}.npy") as member:
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        try:
            shape, by_columns, dtype = read[np.lib.format.read_magic(member)](member)
        except (KeyError, ValueError):
            raise ValueError(f"{path}: {shown(name)} must be an array of NumPy's format 1 or 2") from None
        if dtype.hasobject or len(shape) not in (1, 2) or (by_columns and len(shape) == 2):
            told = f"{dtype} of shape {shape}{' by columns' if by_columns else ''}"
            raise ValueError(
                f"{path}: {shown(name)} must hold numbers or text of shape (N,), or (N, C) by rows, got {told}"
            )
        width = int(np.prod(shape[1:])) * dtype.itemsize
        for first in range(0, shape[0], _ROWS):
            rows = min(_ROWS, shape[0] - first)
            data = member.read(rows * width)
            yield np.frombuffer(data, dtype).reshape(rows, *shape[1:])


def _listed(arrow: Any, part: Any) -> Any:
    if part.dtype.byteorder == ">":
        part = part.astype(part.dtype.newbyteorder("="))
    return arrow.array(part) if part.ndim == 1 else arrow.FixedSizeListArray.from_arrays(part.ravel(), part.shape[1])


_READERS: Mapping[str, Callable[..., Iterator[Any]]] = {
    "csv": _separated(","),
    "tsv": _separated("\t"),
    "jsonl": _jsonl,
    "parquet": _parquet,
    "arrow": _arrow,
    "npz": _npz,
}
