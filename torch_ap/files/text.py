"""Text files are UTF-8, with or without a byte-order mark. Another encoding is an error that names file and line.

Nothing is guessed: text of another encoding would be read as other names, or as blanks.
"""

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from torch_ap.rules.messages import shown

MARK = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"  # which begins no text
_OTHER_MARKS = {  # the longer ones first: a mark of UTF-32 begins like one of UTF-16
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_TAB, _RETURN, _SPACE = 9, 13, 32


class Line(NamedTuple):
    """A line of a file that has words.

    Attributes:
        where: file and line number, for messages.
        words: the words, which white space separates.
    """

    where: str
    words: list[str]


def read(path: str | Path) -> str:
    """The text of a file, plain or gzip.

    Raises:
        OSError: if it cannot be read.
        ValueError: naming file and line, for anything but UTF-8 text.
    """
    data = Path(path).read_bytes()
    if data.startswith(_GZIP):
        data = _unpacked(data, path)
    data = data.removeprefix(MARK)
    check(data, path)
    return data.decode()


def _unpacked(data: bytes, path: str | Path) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as reason:
        raise ValueError(f"{path}: must be whole as gzip: {reason}") from None


def lines(path: str | Path) -> list[Line]:
    """The lines of a file that are not blank.

    Raises:
        OSError: if it cannot be read.
        ValueError: naming file and line, for anything but UTF-8 text.
    """
    text = read(path).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [Line(f"{path}, line {place + 1}", line.split()) for place, line in enumerate(text) if line.strip()]


def check(data: bytes, path: str | Path, line: int = 1) -> None:
    """Raise unless bytes are UTF-8 text without control characters and without a byte-order mark inside.

    Args:
        data: whole lines of a file, without the mark of UTF-8 at its start.
        path: of the file.
        line: the number of the first of the lines.
    """
    codes = np.frombuffer(data, np.uint8)
    # below a tab; or between carriage return and space: subtracting 14 moves these below all other codes
    control = len(data) > 0 and (codes.min() < _TAB or (codes - np.uint8(_RETURN + 1)).min() < _SPACE - _RETURN - 1)
    if data.isascii():
        if control:
            _refuse_control(data, path, line)
        return
    if line == 1:
        for mark, name in _OTHER_MARKS.items():
            if data.startswith(mark):
                raise ValueError(f"{path}, line 1: must be UTF-8 text, got the byte-order mark of {name}")
    if control:
        _refuse_control(data, path, line)
    try:
        data.decode()
    except UnicodeDecodeError as reason:
        byte = f"the byte 0x{data[reason.start]:02x}, as in Latin-1"
        raise ValueError(f"{path}, line {_at(data, reason.start, line)}: must be UTF-8 text, got {byte}") from None
    inside = data.find(MARK)
    if inside >= 0:
        where = f"{path}, line {_at(data, inside, line)}"
        raise ValueError(f"{where}: a byte-order mark (U+FEFF) inside the file, as when files are joined")


def numbers(words: Sequence[str], where: str, what: str) -> list[float]:
    """Finite numbers in decimal digits.

    Python's ``float`` accepts more: digits of other scripts and underscores.

    Raises:
        ValueError: naming ``where``, for anything else.
    """
    try:
        values = [float(word) if word.isascii() and "_" not in word else math.nan for word in words]
    except ValueError:
        values = [math.nan]
    if not all(map(math.isfinite, values)):
        raise ValueError(f"{where}: {what} must hold finite numbers, got {shown(' '.join(words))}")
    return values


def whole_number(word: str) -> int | None:
    """A whole number of at least 0 and of at most nine digits; None for anything else."""
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else None


def _refuse_control(data: bytes, path: str | Path, line: int) -> None:
    codes = np.frombuffer(data, np.uint8)
    place = int(((codes < _TAB) | ((codes > _RETURN) & (codes < _SPACE))).argmax())
    got = f"the control character 0x{data[place]:02x}"
    also = " (as in UTF-16 and UTF-32)" if data[place] == 0 else ""
    raise ValueError(f"{path}, line {_at(data, place, line)}: must be UTF-8 text, got {got}{also}")


def _at(data: bytes, place: int, first: int) -> int:
    """The number of the line in which a byte lies."""
    return first + data.count(b"\n", 0, place)
