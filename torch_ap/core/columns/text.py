"""Text files in UTF-8, with or without a byte-order mark. Another encoding is an error that names file and line.

The encoding is never guessed: text of another encoding would be read as other names, or as blanks.
"""

import gzip
import io
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from torch_ap.core.base.messages import short_repr
from torch_ap.core.columns import literals
from torch_ap.core.ranking.order import Array

MARK = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"  # no text begins with these bytes
_OTHER_MARKS = {  # longer marks first: a mark of UTF-32 begins like one of UTF-16
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_TAB, _RETURN, _SPACE = 9, 13, 32
_NEWLINE = b"\n"


class Line(NamedTuple):
    """A line of a file that is not blank.

    Attributes:
        where: file and line number, for messages.
        words: the words between white space.
    """

    where: str
    words: list[str]


def read(path: str | Path) -> str:
    """Return the text of a file, plain or gzip.

    Raises:
        OSError: if it cannot be read.
        ValueError: naming file and line, for anything but UTF-8 text.
    """
    return decode(Path(path).read_bytes(), path)


def decode(data: bytes, path: str | Path) -> str:
    """Return bytes of a file, plain or gzip, as text; ``path`` is its name in the errors of :func:`read`."""
    data = _unzip(data, path)
    check(data, path)
    return data.decode()


def read_data(path: str | Path) -> bytes:
    """Return the bytes of a file, plain or gzip, without the mark of UTF-8; errors as of :func:`read`."""
    return _unzip(Path(path).read_bytes(), path)


def _unzip(data: bytes, path: str | Path) -> bytes:
    """Return bytes, plain or gzip, without the mark of UTF-8."""
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as reason:
            raise ValueError(f"{path}: must be whole as gzip: {reason}") from None
    return data.removeprefix(MARK)


def unzipped(stream: io.BufferedReader) -> Any:
    """Return the stream of a text, plain or gzip."""
    return gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == _GZIP else stream


def lines(path: str | Path) -> list[Line]:
    """Return the lines of a file that are not blank.

    Raises:
        OSError: if it cannot be read.
        ValueError: naming file and line, for anything but UTF-8 text.
    """
    return split_lines(read(path), path)


def split_lines(content: str, path: str | Path) -> list[Line]:
    """Return the lines of the text of a file that are not blank."""
    text = content.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [Line(f"{path}, line {place + 1}", line.split()) for place, line in enumerate(text) if line.strip()]


def check(data: bytes, path: str | Path, line: int = 1) -> None:
    """Raise ValueError unless bytes are UTF-8 text without control characters and byte-order marks.

    Args:
        data: complete lines of a file, without the mark of UTF-8 at its start.
        path: path of the file.
        line: number of the first line.
    """
    codes = np.frombuffer(data, np.uint8)
    # below a tab; or between carriage return and space: subtracting 14 moves these below all other codes
    control = len(data) > 0 and (codes.min() < _TAB or (codes - np.uint8(_RETURN + 1)).min() < _SPACE - _RETURN - 1)
    fault = None if data.isascii() and not control else _find_fault(data, codes, control, line == 1)
    if fault is not None:
        place, message = fault
        raise ValueError(f"{path}, line {line + data.count(_NEWLINE, 0, place)}: {message}")


def _find_fault(data: bytes, codes: Array, control: bool, is_start: bool) -> tuple[int, str] | None:
    """Return place and description of the first fault of a text, if it has one."""
    rule = "must be UTF-8 text, got "
    for mark, name in _OTHER_MARKS.items():
        if is_start and data.startswith(mark):
            return 0, f"{rule}the byte-order mark of {name}"
    if control:
        place = int(((codes < _TAB) | ((codes > _RETURN) & (codes < _SPACE))).argmax())
        also = "" if data[place] else " (as in UTF-16 and UTF-32)"
        return place, f"{rule}the control character 0x{data[place]:02x}{also}"
    try:
        data.decode()
    except UnicodeDecodeError as reason:
        return reason.start, f"{rule}the byte 0x{data[reason.start]:02x}, as in Latin-1"
    place = data.find(MARK)
    return None if place < 0 else (place, "a byte-order mark (U+FEFF) inside the file, as when files are joined")


def numbers(words: Sequence[str], where: str, name: str) -> list[float]:
    """Return finite numbers in decimal digits as float64.

    Args:
        words: the digits.
        where: file and line, for messages.
        name: the name of the numbers in messages.

    Raises:
        ValueError: for anything else, and for numbers that float64 does not represent.
    """
    try:
        values = list(map(literals.parse, words))
    except OverflowError:
        got = short_repr(" ".join(words))
        raise ValueError(f"{where}: {name} must contain numbers that float64 represents, got {got}") from None
    except ValueError:
        values = [math.nan]
    if not all(map(math.isfinite, values)):
        raise ValueError(f"{where}: {name} must contain finite numbers, got {short_repr(' '.join(words))}")
    return values


def whole_number(word: str) -> int | None:
    """Return an integer of at least 0 and of at most nine digits; None for anything else."""
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else None
