"""What all formats of tables need: a stream, the names of its columns, and pyarrow, imported where it is used."""

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from torch_ap.rules.messages import nearest, shown

STANDARD_INPUT = "-"
LONGEST_LINE = 1 << 20


def pyarrow() -> Any:
    """The package, or an error that names the extra."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ModuleNotFoundError("tables need pyarrow: pip install pyarrow (extra `files`)") from error


def lengths_of_lists(column: Any) -> Any:
    """(N,) how many entries each list of a column has."""
    return import_module("pyarrow.compute").list_value_length(column).to_numpy(zero_copy_only=False)


@contextmanager
def opened(path: str | Path) -> Iterator[Any]:
    """The file, or standard input, which stays open."""
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
    """The first line of what a library says, cut short."""
    text = str(error.args[0] if error.args else error)
    return shown(text.split("\n")[0])[1:-1] if text else type(error).__name__


def whole(stream: io.BufferedReader) -> Any:
    """The stream for readers that jump in it: a pipe is read to its end first."""
    return stream if stream.seekable() else io.BytesIO(stream.read())


def check_names(path: str | Path, names: Sequence[str], wanted: Sequence[str]) -> None:
    """The columns are there, each once."""
    for name in wanted:
        if names.count(name) > 1:
            raise ValueError(f"{path}: must have one column {shown(name)}, got {names.count(name)}")
        if name not in names:
            all_of_them = shown(", ".join(names))[1:-1]
            raise ValueError(
                f"{path}: has no column {shown(name)}{nearest(name, names)}; its columns are {all_of_them}"
            )
