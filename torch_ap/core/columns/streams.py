"""Shared parts of the table readers: streams, selected columns, batches of rows, and pyarrow, imported on first use."""

import glob
import io
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from torch_ap.core.base.messages import short_repr, suggest_name

STANDARD_INPUT = "-"
LONGEST_LINE = 1 << 20


class Selection(NamedTuple):
    """The columns to read from a table.

    Attributes:
        path: path of the file, for messages.
        columns: names of the columns.
        numbers: names of the columns of numbers; text formats give the other columns as text.
    """

    path: Any
    columns: Sequence[str]
    numbers: Collection[str]

    def check_names(self, names: Sequence[str]) -> None:
        """Raise ValueError unless each column occurs once among the names of a table."""
        for name in self.columns:
            if names.count(name) > 1:
                raise ValueError(f"{self.path}: must have one column {short_repr(name)}, got {names.count(name)}")
            if name not in names:
                hint, all_names = suggest_name(name, names), short_repr(", ".join(names))[1:-1]
                raise ValueError(f"{self.path}: has no column {short_repr(name)}{hint}; its columns are {all_names}")


class Batch(NamedTuple):
    """Rows of a table that were read without pyarrow, with the interface of its record batches.

    Attributes:
        num_rows: number of rows.
        columns: values by column, a list (None for a missing value) or an array.
    """

    num_rows: int
    columns: Mapping[str, Any]

    def column(self, name: str) -> Any:
        """Return a column by its name."""
        return self.columns[name]


def pyarrow() -> Any:
    """Return the package, or raise an error that names the extra."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ModuleNotFoundError("tables need pyarrow: pip install pyarrow (extra `files`)") from error


def has_pyarrow() -> bool:
    """Return whether pyarrow can be imported."""
    try:
        pyarrow()
    except ModuleNotFoundError:
        return False
    return True


def missing_values(column: Any) -> Any:
    """Return which values of a column are missing, (N,) bool."""
    if isinstance(column, list):
        return np.fromiter((x is None for x in column), bool, len(column))
    if isinstance(column, np.ndarray) or not column.null_count:
        return np.zeros(len(column), bool)
    return column.is_null().to_numpy(zero_copy_only=False)


def distinct_values(column: Any) -> tuple[Any, list[Any]] | None:
    """Return the distinct values of a column in order of occurrence, and the place of each row's value among them.

    Returns:
        (N,) places, and values; None for a column whose rows are lists.
    """
    if isinstance(column, np.ndarray):
        if column.ndim > 1:
            return None
        column = column.tolist()
    if isinstance(column, list):
        places: dict[Any, int] = {}
        return np.fromiter((places.setdefault(x, len(places)) for x in column), np.int64, len(column)), list(places)
    try:
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    except pyarrow().ArrowNotImplementedError:
        return None
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()


def flat_numbers(column: Any) -> tuple[Any, Any]:
    """Return the numbers of a column, or of all its lists in order, and the length of each list.

    Returns:
        (M,) numbers, NaN for a missing one in a list; and (N,) lengths, None for a column of numbers.

    Raises:
        TypeError: for a column that contains no numbers; the message is its type.
    """
    if isinstance(column, list):
        if not isinstance(column[0], list):
            return np.array(column, np.float64), None
        return np.array([x for row in column for x in row], np.float64), np.array(list(map(len, column)))
    if isinstance(column, np.ndarray):
        if column.dtype.kind not in "biuf":
            raise TypeError({"U": "string", "S": "binary"}.get(column.dtype.kind, column.dtype))
        lengths = None if column.ndim == 1 else np.full(len(column), column.shape[1])
        return column.ravel().astype(np.uint8 if column.dtype.kind == "b" else column.dtype, copy=False), lengths
    types, lengths = pyarrow().types, None
    if types.is_list(column.type) or types.is_fixed_size_list(column.type):
        lengths = import_module("pyarrow.compute").list_value_length(column).to_numpy(zero_copy_only=False)
        column = column.flatten()
    if types.is_boolean(column.type):
        column = column.cast("uint8")
    if types.is_decimal(column.type):
        column = column.cast("float64")
    if not (types.is_floating(column.type) or types.is_integer(column.type)):
        raise TypeError(column.type)
    return column.to_numpy(zero_copy_only=False), lengths


class RemoteFile(NamedTuple):
    """A file of another file system, such as an object store.

    Attributes:
        system: the file system, a ``pyarrow.fs.FileSystem``.
        path: path of the file in it.
        uri: the path with the scheme, for messages.
    """

    system: Any
    path: str
    uri: str

    def __str__(self) -> str:
        return self.uri


Source: TypeAlias = str | Path | RemoteFile


def files_of(source: Source, suffixes: Collection[str] | None) -> list[Source]:
    """Return the files of a path: a file, a folder, a pattern with ``*``, or a URI of pyarrow's file systems of these.

    Args:
        source: the path or URI; "-" for standard input.
        suffixes: suffixes of the files in a folder, without ``.gz``; None for all files. Files and folders whose names
            begin with a point or an underscore are left out, as engines write them.

    Raises:
        ValueError: if there is no file, or the URI is invalid.
    """
    text, found = str(source), list[Source]()
    if "://" in text and not isinstance(source, RemoteFile):
        found += _remote_files(text, suffixes)
    elif Path(text).is_dir():
        names = (x for x in Path(text).rglob("*") if x.is_file())
        found += sorted(x for x in names if _is_part(str(x.relative_to(text)), suffixes))
    elif any(x in text for x in "*?[") and not Path(text).exists():
        found += sorted(x for x in glob.glob(text, recursive=True) if Path(x).is_file())  # noqa: PTH207
    else:
        return [source]
    if not found:
        raise ValueError(f"{text}: must contain or match at least one file of a table, but has none")
    return found


def _remote_files(uri: str, suffixes: Collection[str] | None) -> list[RemoteFile]:
    pyarrow()
    fs = import_module("pyarrow.fs")
    scheme = uri.partition("://")[0]
    address, question, query = uri.partition("?")
    folder, star, _ = address.partition("*")
    root = folder.rpartition("/")[0] if star else address
    system, path = fs.FileSystem.from_uri(f"{root}{question}{query}")
    info = system.get_file_info(path)
    if info.type == fs.FileType.File:
        return [RemoteFile(system, path, f"{scheme}://{path}")]
    pattern = f"{path.rstrip('/')}{address[len(root) :]}"
    selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
    names = sorted(x.path for x in system.get_file_info(selector) if x.is_file)
    if star:
        any_depth = "**" in pattern
        names = [x for x in names if fnmatchcase(x, pattern) and (any_depth or x.count("/") == pattern.count("/"))]
    else:
        names = [x for x in names if _is_part(x[len(path) :].lstrip("/"), suffixes)]
    return [RemoteFile(system, x, f"{scheme}://{x}") for x in names]


def _is_part(name: str, suffixes: Collection[str] | None) -> bool:
    """Return whether a file in a folder is a part of a table; ``name`` is its path in the folder."""
    path = PurePath(name)
    if any(x.startswith((".", "_")) for x in path.parts):
        return False
    return suffixes is None or PurePath(path.name.lower().removesuffix(".gz")).suffix in suffixes


def stream_size(stream: Any) -> int:
    """Return the number of bytes of a file; of a pipe 0 or another number without a meaning."""
    try:
        return os.fstat(stream.fileno()).st_size
    except OSError:  # a file of another system
        size: int = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        return size


@contextmanager
def open_stream(path: Source) -> Iterator[Any]:
    """Open a file, or standard input, which stays open at the end."""
    if isinstance(path, RemoteFile):
        with io.BufferedReader(path.system.open_input_file(path.path), LONGEST_LINE) as stream:
            yield stream
        return
    if str(path) != STANDARD_INPUT:
        with Path(path).open("rb", buffering=LONGEST_LINE) as stream:
            yield stream
        return
    try:
        number = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        raise ValueError("standard input cannot be read") from None
    with open(number, "rb", buffering=LONGEST_LINE, closefd=False) as stream:
        yield stream


def first_line(error: BaseException) -> str:
    """Return the first line of an error message, shortened."""
    text = str(error.args[0] if error.args else error)
    return short_repr(text.split("\n")[0])[1:-1] if text else type(error).__name__


def seekable(stream: io.BufferedReader) -> Any:
    """Return the stream for readers that seek; a pipe is read to its end first."""
    return stream if stream.seekable() else io.BytesIO(stream.read())
