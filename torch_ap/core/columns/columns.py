"""Columns of white-space separated text, read one block of lines at a time, without a Python object per line.

Blank lines and lines that begin with ``#`` are left out. Fields are fixed-width byte strings. The text is UTF-8.

Detections and ground truths in another package's objects, as input of the detection metrics.
"""

import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from torch_ap.core.base.messages import short_repr
from torch_ap.core.columns import literals
from torch_ap.core.columns import text as texts
from torch_ap.core.columns.streams import open_stream
from torch_ap.core.ranking.order import Array

Progress = Callable[[int, int], None]

_BLOCK = 1 << 22
_LONGEST_LINE = 1 << 20
PADDING = 4096
_OTHER_FILE = {  # by the required and the actual number of columns of TREC's files
    (4, 6): ", as runs have: are the files swapped?",
    (6, 4): ", as judgements have: are the files swapped?",
}


class Block(NamedTuple):
    """The lines of one block, without comments and blank ones.

    Attributes:
        text: the bytes of the block, padded with zeros.
        starts: (L, K) places where the first K fields of each line begin.
        ends: (L, K) places where the fields end.
        lines: (L,) line numbers in the file, from 1.
        path: path of the file.
    """

    text: Array
    starts: Array
    ends: Array
    lines: Array
    path: Path

    def field(self, column: int) -> Array:
        """Return the (L,) byte strings of a column, zero-padded to a multiple of 8 bytes."""
        return fields(self.text, self.starts[:, column], self.ends[:, column], f"{self.path}, line", self.lines)

    def numbers(self, column: int) -> Array:
        """Return the numbers of a column as (L,) float64, rounded as Python rounds them."""
        fields = self.field(column)
        values = self._converted(fields, float, "a number")
        for literal in np.unique(fields[literals.doubtful_places(values)]).tolist():
            if not literals.is_represented(literal.decode(), float(literal)):
                self._fail(int((fields == literal).argmax()), literal, "a number that float64 represents")
        if np.isnan(values).any():
            place = int(np.isnan(values).argmax())
            self._fail(place, fields[place], "a number")
        return values

    def integers(self, column: int) -> Array:
        """Return the (L,) int64 numbers of a column."""
        return self._converted(self.field(column), int, "a whole number")

    def _fail(self, place: int, field: bytes, rule: str) -> NoReturn:
        text = short_repr(field.decode(errors="replace"))
        raise ValueError(f"{self.path}, line {self.lines[place]}: {text} is not {rule}") from None

    def _converted(self, fields: Array, kind: type, rule: str) -> Array:
        """Return fields as float64 or int64."""
        try:
            if (fields.view(np.uint8) == ord("_")).any():  # Python's digit groups (1_000) are not numbers here
                raise ValueError
            converted: Array = fields.astype(np.float64 if kind is float else np.int64)
        except (ValueError, OverflowError):
            place = next(place for place, field in enumerate(fields.tolist()) if not _is_number(kind, field))
            self._fail(place, fields[place], rule)
        if kind is float and np.isinf(converted).any():
            place = int(np.isinf(converted).argmax())
            self._fail(place, fields[place], "a finite number")
        return converted


def fields(text: Array, starts: Array, ends: Array, where: str, lines: Array) -> Array:
    """Return (L,) byte strings, zero-padded to a multiple of 8 bytes.

    Args:
        text: bytes, padded with ``PADDING`` zeros.
        starts: (L,) place where each string begins.
        ends: (L,) place where each string ends.
        where: the text before the number of a line in messages.
        lines: (L,) line numbers.
    """
    length = ends - starts
    longest = int(length.max(initial=1))
    if longest >= PADDING:
        line = lines[int(length.argmax())]
        raise ValueError(f"{where} {line}: a field of {longest} characters is too long")
    width = -(-longest // 8) * 8
    windows = np.ndarray((len(text) - width + 1,), f"S{width}", text, strides=(1,))
    words = windows[starts].view(np.uint64).reshape(len(starts), width // 8)
    for word in range(width // 8):
        words[:, word] &= _PREFIX_MASKS[np.clip(length - 8 * word, 0, 8)]
    return words.reshape(-1).view(f"S{width}")


_PREFIX_MASKS = np.array([(1 << (8 * length)) - 1 for length in range(9)], np.uint64)
if sys.byteorder == "big":  # whose first bytes are the high ones
    _PREFIX_MASKS = _PREFIX_MASKS.byteswap()


def read(path: Path | str, form: str, *, more: bool, progress: Progress | None = None) -> Iterator[Block]:
    """Yield the blocks of a file, plain or gzip.

    Args:
        path: path of the file or of a pipe; "-" for standard input.
        form: the names of the K columns of a line.
        more: whether a line may have more than K columns.
        progress: called after each block with the number of bytes read and the size of the file; not called for a pipe,
            whose size is unknown.

    Raises:
        ValueError: naming file and line, for a line with another number of columns, or longer than a MiB; for anything
            but UTF-8 text.
    """
    path = Path(path)
    line, rest = 1, b""
    with open_stream(path) as raw:
        size = os.fstat(raw.fileno()).st_size
        for data in _pieces(raw, path):
            cut = data.rfind(b"\n") + 1
            whole, rest = (rest + data[:cut], data[cut:]) if cut else (b"", rest + data)
            if whole:
                newlines = _newlines(whole, path, line)
                yield _block(whole, newlines, path, line, form, more)
                line += len(newlines)
            if len(rest) > _LONGEST_LINE:  # a line without an end would grow to the size of the file
                _fail_long_line(path, line)
            if progress is not None and raw.seekable():
                progress(raw.tell(), size)
    if rest:
        rest += b"\n"
        yield _block(rest, _newlines(rest, path, line), path, line, form, more)


def _pieces(raw: io.BufferedReader, path: Path) -> Iterator[bytes]:
    """Yield the bytes of the file in pieces, unzipped if they are gzip."""
    source = texts.unzipped(raw)
    try:
        yield source.read(_BLOCK).removeprefix(texts.MARK)
        while data := source.read(_BLOCK):
            yield data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: broken gzip file ({error})") from error


def _newlines(data: bytes, path: Path, first: int) -> Array:
    """Return the ends of the lines of a block; raise ValueError for other text than UTF-8 and for long lines."""
    texts.check(data, path, first)
    newlines = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    lengths = np.diff(newlines, prepend=-1) - 1
    if lengths.max() > _LONGEST_LINE:
        _fail_long_line(path, first + int(lengths.argmax()))
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        lone = re.search(rb"\r(?!\n)", data)
        line = first + data.count(b"\n", 0, lone.start() if lone else 0)
        raise ValueError(f"{path}, line {line}: must end with a newline, got a carriage return inside the line")
    return newlines


def _fail_long_line(path: Path, line: int) -> None:
    raise ValueError(f"{path}, line {line}: a line of more than {_LONGEST_LINE} bytes is too long")


def _block(data: bytes, newlines: Array, path: Path, first: int, form: str, more: bool) -> Block:
    """Return the fields of the lines of a block."""
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
        used = counts > 0
        used[used] = text[starts[opening[used]]] != ord("#")
        opening, counts, lines = opening[used], counts[used], lines[used]
    wrong = counts < columns if more else counts != columns
    if wrong.any():
        place = int(wrong.argmax())
        rule = f"must have {'at least ' if more else ''}{columns} columns, {form}"
        got = f"{counts[place]}{_OTHER_FILE.get((columns, int(counts[place])), '')}"
        raise ValueError(f"{path}, line {lines[place]}: {rule}, got {got}")
    fields = opening[:, None] + np.arange(columns)
    return Block(text, starts[fields], ends[fields], lines, path)


def _is_number(kind: type, field: bytes) -> bool:
    """Return whether a field is a number of this kind; integers must fit into 64 bits."""
    try:
        value = kind(field)
    except ValueError:
        return False
    return b"_" not in field and (kind is float or -(1 << 63) <= value < 1 << 63)


Image: TypeAlias = dict[str, Any]

MASK_KINDS = ("segm", "boundary")


@dataclass(frozen=True)
class InMemoryData:
    """A data set and the detections in it.

    Attributes:
        preds: predictions for the detection metrics' ``update``, a dict per image; boxes are corners in pixels.
        target: ground truths in the same form.
        class_names: names of the labels; a label may lack one.
    """

    preds: list[Image]
    target: list[Image]
    class_names: dict[int, str]
