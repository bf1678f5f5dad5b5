"""Columns of white-space separated text, read one block of lines at a time, without a Python object per line.

Blank lines and lines that begin with ``#`` are left out. Fields come as fixed-width byte strings. The text is UTF-8.
"""

import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np

from torch_ap.files import text as texts
from torch_ap.ranking.order import Array
from torch_ap.rules.messages import shown

Progress = Callable[[int, int], None]

_BLOCK = 1 << 22
_LONGEST_LINE = 1 << 20
PADDING = 4096
_EXACT_POWERS = 10.0 ** np.arange(23)
_LONGEST_DECIMAL = 17
_OTHER_FILE = {  # by the columns that TREC's files must have, and have
    (4, 6): ", as runs have: are the files swapped?",
    (6, 4): ", as judgements have: are the files swapped?",
}


class Block(NamedTuple):
    """The lines of one block, without comments and blank ones.

    Attributes:
        text: the bytes of the block, padded with zeros.
        starts: (L, K) where the first K fields of each line begin.
        ends: (L, K) where they end.
        lines: (L,) line numbers in the file, from 1.
        path: of the file.
    """

    text: Array
    starts: Array
    ends: Array
    lines: Array
    path: Path

    def field(self, column: int) -> Array:
        """(L,) byte strings of a column, zero-padded to a multiple of 8 bytes."""
        return fields(self.text, self.starts[:, column], self.ends[:, column], f"{self.path}, line", self.lines)

    def numbers(self, column: int) -> Array:
        """(L,) float64 numbers of a column, rounded as Python rounds them."""
        fields = self.field(column)
        values, simple = _decimals(fields)
        if not simple.all():
            values[~simple] = self._converted(fields[~simple], self.lines[~simple], float, "a number")
        if np.isnan(values).any():
            place = int(np.isnan(values).argmax())
            raise ValueError(f"{self.path}, line {self.lines[place]}: {_shown(fields[place])} is not a number")
        return values

    def integers(self, column: int) -> Array:
        """(L,) int64 numbers of a column."""
        return self._converted(self.field(column), self.lines, int, "a whole number")

    def _converted(self, fields: Array, lines: Array, kind: type, what: str) -> Array:
        try:
            if (fields.view(np.uint8) == ord("_")).any():  # Python's digit groups (1_000) are not numbers here
                raise ValueError
            converted: Array = fields.astype(np.float64 if kind is float else np.int64)
        except (ValueError, OverflowError):
            place = next(place for place, field in enumerate(fields.tolist()) if not _is(kind, field))
            raise ValueError(f"{self.path}, line {lines[place]}: {_shown(fields[place])} is not {what}") from None
        for place in np.flatnonzero(np.isinf(converted)).tolist() if kind is float else ():
            raise ValueError(f"{self.path}, line {lines[place]}: {_shown(fields[place])} is not a finite number")
        return converted


def fields(text: Array, starts: Array, ends: Array, where: str, lines: Array) -> Array:
    """(L,) byte strings, zero-padded to a multiple of 8 bytes.

    Args:
        text: bytes, padded with ``PADDING`` zeros.
        starts: (L,) where each string begins.
        ends: (L,) where it ends.
        where: what stands before the number of a line in messages.
        lines: (L,) their numbers.
    """
    length = ends - starts
    longest = int(length.max(initial=1))
    if longest >= PADDING:
        line = lines[int(length.argmax())]
        raise ValueError(f"{where} {line}: a field of {longest} characters is too long")
    width = -(-longest // 8) * 8
    windows = np.ndarray((len(text) - width + 1,), f"S{width}", text, strides=(1,))
    taken = windows[starts].view(np.uint64).reshape(len(starts), width // 8)
    for word in range(width // 8):
        taken[:, word] &= _KEEP[np.clip(length - 8 * word, 0, 8)]
    return taken.reshape(-1).view(f"S{width}")


_KEEP = np.array([(1 << (8 * kept)) - 1 for kept in range(9)], np.uint64)
if sys.byteorder == "big":  # the first bytes are the high ones there
    _KEEP = _KEEP.byteswap()


def read(path: Path | str, form: str, *, more: bool, progress: Progress | None = None) -> Iterator[Block]:
    """The blocks of a file, plain or gzip.

    Args:
        path: of the file, or of a pipe; "-" for standard input.
        form: the names of the K columns of a line.
        more: whether more than K are allowed.
        progress: called after each block with the number of bytes that are done and that of the file; not called for a
            pipe, whose size is unknown.

    Raises:
        ValueError: naming file and line, for a line with another number of columns, or longer than a MiB; for anything
            but UTF-8 text.
    """
    path = Path(path)
    line, rest = 1, b""
    with _opened(path) as raw:
        size = os.fstat(raw.fileno()).st_size
        for data in _pieces(raw, path):
            cut = data.rfind(b"\n") + 1
            whole, rest = (rest + data[:cut], data[cut:]) if cut else (b"", rest + data)
            if whole:
                newlines = _newlines(whole, path, line)
                yield _block(whole, newlines, path, line, form, more)
                line += len(newlines)
            if len(rest) > _LONGEST_LINE:  # refused here too: a line without an end would grow to the size of the file
                _refuse_line(path, line)
            if progress is not None and raw.seekable():
                progress(raw.tell(), size)
    if rest:
        rest += b"\n"
        yield _block(rest, _newlines(rest, path, line), path, line, form, more)


def _opened(path: Path) -> AbstractContextManager[io.BufferedReader]:
    """The file, closed at the end; standard input stays open."""
    if str(path) != "-":
        return path.open("rb")
    stream = getattr(sys.stdin, "buffer", None)
    if not isinstance(stream, io.BufferedReader):
        raise ValueError("standard input cannot be read")
    return nullcontext(stream)


def _pieces(raw: io.BufferedReader, path: Path) -> Iterator[bytes]:
    """The file's bytes in pieces, unzipped if they are gzip."""
    source = gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw
    try:
        yield source.read(_BLOCK).removeprefix(texts.MARK)
        while data := source.read(_BLOCK):
            yield data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: broken gzip file ({error})") from error


def _newlines(data: bytes, path: Path, first: int) -> Array:
    """Where the lines of a block end; checked to be UTF-8 text, no line too long, every line ended by a newline."""
    texts.check(data, path, first)
    newlines = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    lengths = np.diff(newlines, prepend=-1) - 1
    if lengths.max() > _LONGEST_LINE:
        _refuse_line(path, first + int(lengths.argmax()))
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        lone = re.search(rb"\r(?!\n)", data)
        line = first + data.count(b"\n", 0, lone.start() if lone else 0)
        raise ValueError(f"{path}, line {line}: must end with a newline, got a carriage return inside the line")
    return newlines


def _refuse_line(path: Path, line: int) -> None:
    raise ValueError(f"{path}, line {line}: a line of more than {_LONGEST_LINE} bytes is too long")


def _block(data: bytes, newlines: Array, path: Path, first: int, form: str, more: bool) -> Block:
    columns = len(form.split())
    text = np.frombuffer(data + bytes(PADDING), np.uint8)
    inside = np.empty(len(data) + 1, bool)
    inside[0] = False
    np.greater(text[: len(data)], 32, out=inside[1:])
    edges = np.flatnonzero(inside[1:] != inside[:-1]).reshape(-1, 2)
    starts, ends = edges[:, 0], edges[:, 1]
    tokens = np.searchsorted(starts, newlines)
    counts = np.diff(tokens, prepend=0)
    opening = tokens - counts
    lines = np.arange(first, first + len(newlines))
    if b"#" in data or not counts.all():
        said = counts > 0
        said[said] = text[starts[opening[said]]] != ord("#")
        opening, counts, lines = opening[said], counts[said], lines[said]
    wrong = counts < columns if more else counts != columns
    if wrong.any():
        place = int(wrong.argmax())
        wanted = f"at least {columns}" if more else str(columns)
        got = f"{counts[place]}{_OTHER_FILE.get((columns, int(counts[place])), '')}"
        raise ValueError(f"{path}, line {lines[place]}: must have {wanted} columns, {form}, got {got}")
    fields = opening[:, None] + np.arange(columns)
    return Block(text, starts[fields], ends[fields], lines, path)


def _decimals(fields: Array) -> tuple[Array, Array]:
    """Numbers of sign, digits and point with so few digits that one division rounds them right; and which those are.

    A whole number below 2^53 and a power of ten up to 10^22 are both exact, so their quotient is rounded once.
    """
    characters = np.ascontiguousarray(fields.view(np.uint8).reshape(len(fields), fields.itemsize).T)
    mantissa = np.zeros(len(fields), np.int64)
    point = np.zeros(len(fields), np.int64)
    places = np.zeros(len(fields), np.int64)
    digits = np.zeros(len(fields), np.int64)
    simple = np.ones(len(fields), bool)
    negative = characters[0] == ord("-")
    for place, column in enumerate(characters):
        if not column.any():
            break
        digit = column - np.uint8(ord("0"))
        is_digit = digit < 10
        np.multiply(mantissa, 10, out=mantissa, where=is_digit)
        np.add(mantissa, digit, out=mantissa, where=is_digit)
        digits += is_digit
        places += is_digit & (point > 0)
        is_point = column == ord(".")
        point += is_point
        known = is_digit | is_point | (column == 0)
        simple &= known | negative if place == 0 else known
    simple &= (point <= 1) & (digits > 0) & (digits <= _LONGEST_DECIMAL) & (mantissa < 1 << 53)
    values = mantissa / _EXACT_POWERS[np.minimum(places, 22)]
    return np.where(negative, -values, values), simple


def _is(kind: type, field: bytes) -> bool:
    """Whether a field is a number of this kind; whole numbers must fit 64 bits."""
    try:
        value = kind(field)
    except ValueError:
        return False
    return b"_" not in field and (kind is float or -(1 << 63) <= value < 1 << 63)


def _shown(field: bytes) -> str:
    return shown(field.decode(errors="replace"))
