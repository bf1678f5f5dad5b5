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

import io
import itertools
import os
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from torch_ap.files.columns import Progress
from torch_ap.files.table_names import FORMATS, SUFFIXES
from torch_ap.files.table_streams import STANDARD_INPUT, check_names, first_line, opened, pyarrow, whole
from torch_ap.files.table_text import json_lines, separated
from torch_ap.rules.messages import shown

_ROWS = 1 << 18
_BROKEN = (zipfile.BadZipFile, EOFError, zlib.error, UnicodeError)  # and OSError without a number, as of gzip


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
    columns = list(dict.fromkeys(columns))
    with opened(path) as stream:
        arrow = pyarrow()  # so late that a file that is not there is told first
        size = os.fstat(stream.fileno()).st_size
        try:
            for batch in _READERS[form](stream, path, columns, numbers):
                yield batch
                if progress is not None and stream.seekable():
                    progress(min(stream.tell(), size), size)
        except (OSError, *_BROKEN, arrow.ArrowException) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise ValueError(f"{path}: broken {form} file ({first_line(error)})") from None


def column_names(path: str | Path) -> list[str]:
    """The names of the columns of a file of Parquet.

    Raises:
        OSError, ValueError, ModuleNotFoundError: as :func:`batches`.
    """
    with opened(path):
        arrow = pyarrow()
    try:
        names: list[str] = import_module("pyarrow.parquet").read_schema(path).names
    except arrow.ArrowException as error:
        raise ValueError(f"{path}: broken parquet file ({first_line(error)})") from None
    return names


def _form_of(path: str | Path) -> str:
    if str(path) == STANDARD_INPUT:
        raise ValueError(f"--format must say what standard input is: one of {', '.join(FORMATS)}")
    name = Path(path).name.lower().removesuffix(".gz")
    suffix = Path(name).suffix
    if suffix not in SUFFIXES:
        raise ValueError(f"{path}: must end in one of {', '.join(SUFFIXES)}, or --format must say what it is")
    return SUFFIXES[suffix]


def _parquet(
    stream: io.BufferedReader, path: str | Path, columns: Sequence[str], numbers: Collection[str]
) -> Iterator[Any]:
    del numbers
    file = import_module("pyarrow.parquet").ParquetFile(whole(stream), pre_buffer=False)
    check_names(path, file.schema_arrow.names, columns)
    for batch in file.iter_batches(_ROWS, columns=list(columns)):
        yield batch.select(columns)


def _arrow(
    stream: io.BufferedReader, path: str | Path, columns: Sequence[str], numbers: Collection[str]
) -> Iterator[Any]:
    del numbers
    ipc = import_module("pyarrow.ipc")
    if stream.peek(6)[:6] == b"ARROW1":
        source = whole(stream)
        names = ipc.open_file(source).schema.names
        check_names(path, names, columns)
        file = ipc.open_file(source, options=ipc.IpcReadOptions(included_fields=[names.index(x) for x in columns]))
        found = map(file.get_batch, range(file.num_record_batches))
    else:
        found = ipc.open_stream(stream)
        check_names(path, found.schema.names, columns)
    for batch in found:
        for first in range(0, batch.num_rows, _ROWS):
            yield batch.select(columns).slice(first, _ROWS)


def _npz(
    stream: io.BufferedReader, path: str | Path, columns: Sequence[str], numbers: Collection[str]
) -> Iterator[Any]:
    del numbers
    arrow = pyarrow()
    with zipfile.ZipFile(whole(stream)) as archive:
        check_names(path, [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")], columns)
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
        except (KeyError, ValueError, TypeError, SyntaxError, RecursionError, tokenize.TokenError):
            raise ValueError(f"{path}: {shown(name)} must be an array of NumPy's format 1 or 2") from None
        wide = dtype.kind in "cVO" or (dtype.kind == "f" and dtype.itemsize > 8) or not dtype.itemsize
        if wide or len(shape) not in (1, 2) or (by_columns and len(shape) == 2):
            told = f"{dtype} of shape {shape}{' by columns' if by_columns else ''}"
            raise ValueError(
                f"{path}: {shown(name)} must hold numbers or text of shape (N,), or (N, C) by rows, got {told}"
            )
        width = int(np.prod(shape[1:])) * dtype.itemsize
        for first in range(0, shape[0], _ROWS):
            rows = min(_ROWS, shape[0] - first)
            data = member.read(rows * width)
            if len(data) < rows * width:
                raise ValueError(f"{path}: {shown(name)} is cut short: must have {shape[0]} rows")
            yield np.frombuffer(data, dtype).reshape(rows, *shape[1:])


def _listed(arrow: Any, part: Any) -> Any:
    if part.dtype.byteorder == ">":
        part = part.astype(part.dtype.newbyteorder("="))
    return arrow.array(part) if part.ndim == 1 else arrow.FixedSizeListArray.from_arrays(part.ravel(), part.shape[1])


_READERS: Mapping[str, Callable[..., Iterator[Any]]] = {
    "csv": separated(","),
    "tsv": separated("\t"),
    "jsonl": json_lines,
    "parquet": _parquet,
    "arrow": _arrow,
    "npz": _npz,
}
