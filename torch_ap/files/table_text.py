"""Tables as text: separated values, and lines of JSON."""

import csv
import gzip
import io
import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from torch_ap.files.table_streams import LONGEST_LINE, check_names, first_line, pyarrow
from torch_ap.files.text import MARK
from torch_ap.rules.messages import shown

_BLOCK = 1 << 21
_GZIP = b"\x1f\x8b"
_LARGEST_WHOLE = 1 << 53  # of float64: from here on it does not hold each whole number
# what pyarrow takes for no value
_MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL"),
    *("NaN", "n/a", "nan", "null"),
)


class _Written(str):
    """A fraction of JSON as it is written."""

    __slots__ = ()


def _unzipped(stream: io.BufferedReader) -> Any:
    return gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == _GZIP else stream


def _lines(source: Any, path: str | Path) -> Iterator[str]:
    """The lines that are not blank, as far as they are asked for."""
    number, line = 1, source.readline(LONGEST_LINE).removeprefix(MARK)
    while line:
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            raise ValueError(f"{path}, line {number}: a line of more than {LONGEST_LINE} bytes is too long")
        try:
            decoded = line.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{path}, line {number}: must be UTF-8 text") from None
        if line.strip():
            yield decoded
        number, line = number + 1, source.readline(LONGEST_LINE)


def _csv_names(source: Any, path: str | Path, delimiter: str) -> list[str]:
    """The first record, which may be several lines where a name in quotes is."""
    try:
        names = next(csv.reader(_lines(source, path), delimiter=delimiter), None)
    except csv.Error as reason:
        also = " (lines must end with a newline, not a carriage return)" if "new-line" in str(reason) else ""
        raise ValueError(f"{path}, line 1: must name the columns: {first_line(reason)}{also}") from None
    if names is None:
        raise ValueError(f"{path}: must begin with a line of the columns' names, but is empty")
    return [name.strip() for name in names]


def separated(delimiter: str) -> Callable[..., Iterator[Any]]:
    """The reader of lines of values, the first of which names the columns; numbers as float64, others as text."""

    def read(
        stream: io.BufferedReader, path: str | Path, columns: Sequence[str], numbers: Collection[str]
    ) -> Iterator[Any]:
        arrow, reader = pyarrow(), import_module("pyarrow.csv")
        source = _unzipped(stream)
        names = _csv_names(source, path, delimiter)
        check_names(path, names, columns)
        text = arrow.dictionary(arrow.int32(), arrow.string())
        types = {name: arrow.string() if name in numbers else text for name in columns}
        options = {
            "read_options": reader.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=names),
            "parse_options": reader.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            "convert_options": reader.ConvertOptions(include_columns=list(columns), column_types=types),
        }
        row = 1
        try:
            for batch in reader.open_csv(source, **options):
                found = [
                    _parsed(batch.column(name), f"{path}, row", name, row) if name in numbers else batch.column(name)
                    for name in columns
                ]
                yield arrow.record_batch(found, names=list(columns))
                row += batch.num_rows
        except arrow.ArrowInvalid as error:
            if first_line(error) != "Empty CSV file":  # there are names, and no rows
                raise

    return read


def _parsed(texts: Any, where: str, name: str, row: int) -> Any:
    """A column of texts as float64; null for those that stand for no value.

    A number that float64 does not hold is refused: it would be infinite, or equal to another whole number.
    """
    arrow, compute = pyarrow(), import_module("pyarrow.compute")
    texts = compute.utf8_trim_whitespace(texts)
    missing = compute.is_in(texts, value_set=arrow.array(_MISSING))
    try:
        found = compute.if_else(missing, None, texts).cast(arrow.float64())
    except arrow.ArrowInvalid:
        place, text = next((i, x) for i, x in enumerate(texts.to_pylist()) if x not in _MISSING and not _is_number(x))
        raise ValueError(f"{where} {row + place}: column {shown(name)} must hold numbers, got {shown(text)}") from None
    values = found.to_numpy(zero_copy_only=False)
    for place in np.flatnonzero(np.abs(values) >= _LARGEST_WHOLE).tolist():
        text = texts[place].as_py()
        if "inf" not in text.lower() and not _is_held(text, values[place]):
            message = f"column {shown(name)} must hold numbers that float64 holds, got {shown(text)}"
            raise ValueError(f"{where} {row + place}: {message}")
    return found


def _is_number(text: str) -> bool:
    """Whether pyarrow reads a number."""
    arrow = pyarrow()
    try:
        arrow.array([text]).cast(arrow.float64())
    except arrow.ArrowInvalid:
        return False
    return True


def _is_held(number: str | int, value: float) -> bool:
    """Whether float64 holds a number of JSON or a text: any fraction, rounded, and whole numbers exactly."""
    if math.isinf(value):
        return False
    return not re.fullmatch("[+-]?[0-9]+", text := str(number)) or int(text[:400]) == int(value)


def _object(line: bytes, where: str) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except UnicodeDecodeError:
        raise ValueError(f"{where}: must be UTF-8 text") from None
    except (ValueError, RecursionError) as reason:
        raise ValueError(f"{where}: must be a JSON object: {first_line(reason)}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{where}: must be a JSON object, got {shown(found)}")
    return found


def json_lines(
    stream: io.BufferedReader, path: str | Path, columns: Sequence[str], numbers: Collection[str]
) -> Iterator[Any]:
    """Objects of one line each, the first of which says the types of the columns."""
    arrow, reader = pyarrow(), import_module("pyarrow.json")
    row, options = 1, None
    for block in _blocks(_unzipped(stream)):
        if options is None:
            first = _object(block.lstrip().partition(b"\n")[0], f"{path}, line 1")
            check_names(path, list(first), columns)
            schema = arrow.schema([(name, _type(arrow, first[name], name in numbers)) for name in columns])
            options = reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        try:
            whole = reader.ReadOptions(use_threads=False, block_size=len(block) + 1)
            found = reader.read_json(io.BytesIO(block), read_options=whole, parse_options=options).select(columns)
        except arrow.ArrowInvalid:
            _refuse_row(block, path, row, schema)
            raise
        if any(_has_large(found[name]) for name in columns if name in numbers):
            _refuse_large(block, path, row, [name for name in columns if name in numbers])
        yield from found.to_batches()
        row += found.num_rows


def _blocks(source: Any) -> Iterator[bytes]:
    """Whole lines, some at a time; none that are blank alone."""
    rest = source.read(_BLOCK).removeprefix(MARK)
    parts = []
    while rest:
        whole, newline, rest = rest.rpartition(b"\n")
        parts.append(whole + newline)
        if newline:
            block = b"".join(parts)
            parts = []
            if block.strip():
                yield block
        parts.append(rest)
        rest = source.read(_BLOCK)
    if (block := b"".join(parts)).strip():
        yield block


def _has_large(column: Any) -> bool:
    """Whether a column of numbers, or of lists of them, holds some that float64 may have rounded."""
    values = column.combine_chunks()
    while hasattr(values, "flatten") and pyarrow().types.is_list(values.type):
        values = values.flatten()
    if not pyarrow().types.is_floating(values.type):
        return False
    return bool((np.abs(values.to_numpy(zero_copy_only=False)) >= _LARGEST_WHOLE).any())


def _refuse_large(block: bytes, path: str | Path, row: int, names: Collection[str]) -> None:
    for place, line in enumerate(filter(bytes.strip, block.split(b"\n")), row):
        found = json.loads(line)
        for name in names:
            given = found.get(name)
            for value in given if isinstance(given, list) else [given]:
                if isinstance(value, int) and abs(value) >= _LARGEST_WHOLE and not _is_held(value, float(value)):
                    message = f"column {shown(name)} must hold numbers that float64 holds, got {shown(value)}"
                    raise ValueError(f"{path}, row {place}: {message}")


def _type(arrow: Any, value: Any, number: bool) -> Any:
    """Of a JSON value; of a list, from its first entry."""
    if isinstance(value, list):
        return arrow.list_(_type(arrow, value[0] if value else None, number))
    if isinstance(value, str):
        return arrow.string()
    kinds = {bool: arrow.bool_(), int: arrow.int64()}
    return arrow.float64() if number else kinds.get(type(value), arrow.float64())


def _refuse_row(block: bytes, path: str | Path, row: int, schema: Any) -> None:
    """Name the row that is wrong."""
    arrow = pyarrow()
    for place, line in enumerate(filter(bytes.strip, block.split(b"\n")), row):
        where = f"{path}, row {place}"
        found = _object(line, where)
        wrong = next((one for one in schema if not _holds(arrow, one.type, found.get(one.name))), None)
        if wrong is not None:
            got = shown(found[wrong.name])
            raise ValueError(f"{where}: column {shown(wrong.name)} must be {wrong.type}, got {got}")
        for name in schema.names:  # Python reads 1e400 as infinite, and pyarrow does not read it
            texts = json.loads(line, parse_float=_Written).get(name)
            for text in texts if isinstance(texts, list) else [texts]:
                if isinstance(text, _Written) and math.isinf(float(text)):
                    message = f"column {shown(name)} must hold numbers that float64 holds, got {shown(text)[1:-1]}"
                    raise ValueError(f"{where}: {message}")


def _holds(arrow: Any, kind: Any, value: Any) -> bool:
    try:
        arrow.array([value], kind)
    except (arrow.ArrowException, OverflowError, UnicodeEncodeError):  # the last of a lone surrogate
        return False
    return True
