"""Tables as text: separated values, and lines of JSON.

pyarrow reads them where it is installed. Without it, and where pyarrow finds something wrong or a number may differ
from its literal, Python reads the same rows. All errors come from Python: both ways give the same results and errors.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from torch_ap.core.base.messages import short_repr
from torch_ap.core.columns import literals
from torch_ap.core.columns.streams import LONGEST_LINE, Batch, Selection, first_line, has_pyarrow, pyarrow, stream_size
from torch_ap.core.columns.text import MARK, unzipped

_BLOCK = 1 << 21
_SMALL = 1 << 20  # bytes that Python reads in less time than pyarrow takes to be imported
_ROWS = 1 << 16
_LONGEST_FIELD = 1 << 30  # characters
_LONE_SURROGATE = re.compile("[\ud800-\udfff]").search  # for bytes that are not UTF-8
# texts that pyarrow reads as missing values
_MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL"),
    *("NaN", "n/a", "nan", "null"),
)


# -- separated values


def _lines(source: Any, path: str | Path) -> Iterator[str]:
    """Yield the lines that are not blank. The source is read no further than the last line yielded."""
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
    """Read the names of the columns: the first record, which has several lines if a quoted name does."""
    try:
        names = next(csv.reader(_lines(source, path), delimiter=delimiter), None)
    except csv.Error as reason:
        also = " (lines must end with a newline, not a carriage return)" if "new-line" in str(reason) else ""
        raise ValueError(f"{path}, line 1: must name the columns: {first_line(reason)}{also}") from None
    if names is None:
        raise ValueError(f"{path}: must begin with a line of the columns' names, but is empty")
    return [name.strip() for name in names]


def separated_values(delimiter: str, stream: io.BufferedReader, selection: Selection) -> Iterator[Any]:
    """Yield batches of separated values, whose first line names the columns: numbers as float64, other text."""
    is_small = stream.seekable() and stream_size(stream) < _SMALL
    source = unzipped(stream)
    names = _csv_names(source, selection.path, delimiter)
    selection.check_names(names)
    batches = _python_batches if is_small or not has_pyarrow() else _arrow_batches
    yield from batches(source, selection, names, delimiter)


def _arrow_batches(source: Any, selection: Selection, names: list[str], delimiter: str) -> Iterator[Any]:
    path, columns, numbers = selection
    arrow, reader = pyarrow(), import_module("pyarrow.csv")
    ragged: list[Any] = []

    def record_row(row: Any) -> str:
        ragged.append(row)
        return "error"

    text = arrow.dictionary(arrow.int32(), arrow.string())
    types = {name: arrow.string() if name in numbers else text for name in columns}
    reading = reader.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=names)
    parsing = reader.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=record_row)
    conversion = reader.ConvertOptions(include_columns=list(columns), column_types=types)
    row = 1
    try:
        for batch in reader.open_csv(source, reading, parsing, conversion):
            values = {name: batch.column(name) for name in columns}
            for name in filter(numbers.__contains__, columns):
                values[name] = _parse_numbers(values[name], partial(_number, path, name), row)
            yield arrow.record_batch(list(values.values()), names=list(columns))
            row += batch.num_rows
    except arrow.ArrowInvalid as error:
        for record in ragged:
            _check_width(path, record.number, len(names), record.actual_columns)
        _check_encoding(path, "invalid UTF8" not in str(error))
        if first_line(error) != "Empty CSV file":  # a line of names without rows
            raise


def _python_batches(source: Any, selection: Selection, names: list[str], delimiter: str) -> Iterator[Batch]:
    path, columns, numbers = selection
    lines = io.TextIOWrapper(source, "utf-8", errors="surrogateescape", newline="")
    records, row = filter(None, csv.reader(lines, delimiter=delimiter)), 1
    try:
        while chosen := _first_records(records):
            for place, record in enumerate(chosen, row):
                _check_width(path, place, len(names), len(record))
            values: dict[str, list[Any]] = {name: [x[names.index(name)] for x in chosen] for name in columns}
            _check_encoding(path, not any(_LONE_SURROGATE("".join(texts)) for texts in values.values()))
            for name in filter(numbers.__contains__, columns):
                values[name] = [_number(path, name, place, x.strip()) for place, x in enumerate(values[name], row)]
            yield Batch(len(chosen), values)
            row += len(chosen)
    except csv.Error as reason:
        raise ValueError(f"{path}, row {row} or later: must be separated values: {first_line(reason)}") from None
    finally:
        lines.detach()


def _first_records(records: Iterator[list[str]]) -> list[list[str]]:
    """Return the next records, whose fields may be as long as pyarrow allows."""
    limit = csv.field_size_limit(_LONGEST_FIELD)
    try:
        return list(islice(records, _ROWS))
    finally:
        csv.field_size_limit(limit)


def _check_width(path: str | Path, row: int, columns: int, values: int) -> None:
    if values != columns:
        raise ValueError(f"{path}, row {row}: must have {columns} columns, got {values}")


def _check_encoding(path: str | Path, is_utf8: bool) -> None:
    if not is_utf8:
        raise ValueError(f"{path}: must be UTF-8 text")


def _number(path: str | Path, name: str, row: int, text: str) -> float | None:
    """Return the number with this text; None for a missing value."""
    if text in _MISSING:
        return None
    try:
        return literals.parse(text)
    except ValueError:
        rule = "must contain numbers"
    except OverflowError:
        rule = "must contain numbers that float64 represents"
    raise ValueError(f"{path}, row {row}: column {short_repr(name)} {rule}, got {short_repr(text)}")


def _parse_numbers(texts: Any, number: Callable[[int, str], float | None], row: int) -> Any:
    """Return a pyarrow column of texts as float64, with nulls for missing values.

    Args:
        texts: the column.
        number: the Python reader of the number in a row; it raises for other texts.
        row: the number of the first row.
    """
    arrow, compute = pyarrow(), import_module("pyarrow.compute")
    texts = compute.utf8_trim_whitespace(texts)
    missing = compute.is_in(texts, value_set=arrow.array(_MISSING))
    try:
        values = compute.if_else(missing, None, texts).cast(arrow.float64())
    except arrow.ArrowInvalid:
        return arrow.array([number(place, x) for place, x in enumerate(texts.to_pylist(), row)], arrow.float64())
    numbers = values.to_numpy(zero_copy_only=False)
    places = literals.doubtful_places(numbers)
    if len(places):
        lengths = compute.binary_length(texts).to_numpy(zero_copy_only=False)
        places = places[(numbers[places] != 0) | (lengths[places] >= literals.SHORTEST_UNDERFLOW)]
        plain = compute.match_substring_regex(texts.take(arrow.array(places)), "^[+-]?[0.]*$")  # zeros
        for place in places[~plain.to_numpy(zero_copy_only=False)].tolist():
            number(row + place, texts[place].as_py())
    return values


# -- lines of JSON


def json_lines(stream: io.BufferedReader, selection: Selection) -> Iterator[Any]:
    """Yield batches of objects of one line each. The first object defines the types of the columns."""
    path, columns, numbers = selection
    row, kinds, decode = 1, dict[str, str](), _decoder(columns)
    for block in _blocks(unzipped(stream)):
        if not kinds:
            first = _object(block.lstrip().partition(b"\n")[0], f"{path}, line 1", decode)
            selection.check_names(list(first))
            where = f"{path}, row 1: column "
            kinds = {name: _kind(first[name], name in numbers, where + short_repr(name)) for name in columns}
        batch = _arrow_batch(block, kinds) if has_pyarrow() else None
        batch = _python_batch(block, path, row, kinds, decode) if batch is None else batch
        yield batch
        row += batch.num_rows


def _blocks(source: Any) -> Iterator[bytes]:
    """Yield blocks of complete lines. At least one line of each block is not blank."""
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


_NUMBER, _NUMBERS, _INTEGER, _TEXT, _BOOL = "a number", "a list of numbers", "an integer", "text", "true or false"


def _kind(value: Any, number: bool, where: str) -> str:
    """Return the kind of the values of a column, from the first of them."""
    if isinstance(value, list) and number:
        return _NUMBERS
    if isinstance(value, list | dict) or (isinstance(value, str) and number):
        rule = "must contain numbers" if number else "must contain one value per row"
        raise ValueError(f"{where} {rule}, got {short_repr(value)}")
    return _NUMBER if number else {str: _TEXT, bool: _BOOL, int: _INTEGER}.get(type(value), _NUMBER)


def _arrow_batch(block: bytes, kinds: Mapping[str, str]) -> Any:
    """Return the rows that pyarrow reads; None if Python must read them, for an error or a doubtful number."""
    arrow, reader = pyarrow(), import_module("pyarrow.json")
    types = {_NUMBER: arrow.float64(), _NUMBERS: arrow.list_(arrow.float64()), _INTEGER: arrow.int64()}
    types |= {_TEXT: arrow.string(), _BOOL: arrow.bool_()}
    schema = arrow.schema([(name, types[kind]) for name, kind in kinds.items()])
    try:
        block.decode()
        table = reader.read_json(
            io.BytesIO(block),
            read_options=reader.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        ).select(list(kinds))
    except (arrow.ArrowInvalid, UnicodeDecodeError):
        return None
    if table.num_rows != block.count(b"\n") and table.num_rows != sum(map(bool, map(bytes.strip, block.split(b"\n")))):
        return None
    (batch,) = table.combine_chunks().to_batches()
    for name in (name for name, kind in kinds.items() if kind in (_NUMBER, _NUMBERS)):
        column = batch.column(name).flatten() if kinds[name] == _NUMBERS else batch.column(name)
        values = column.to_numpy(zero_copy_only=False)
        doubtful = values[literals.doubtful_places(values)]
        if doubtful.any() or (len(doubtful) and literals.may_underflow(block)):  # zeros are usual
            return None
    return batch


def _python_batch(
    block: bytes, path: str | Path, row: int, kinds: Mapping[str, str], decode: Callable[[str], Any]
) -> Batch:
    """Return the rows that Python reads."""
    values: dict[str, list[Any]] = {name: [] for name in kinds}
    rows = 0
    for rows, line in enumerate(filter(bytes.strip, block.split(b"\n")), 1):
        where = f"{path}, row {row + rows - 1}"
        entry = _object(line, where, decode)
        for name, kind in kinds.items():
            values[name].append(_check_value(entry.get(name), kind, f"{where}: column {short_repr(name)}"))
    return Batch(rows, values)


def _decoder(columns: Collection[str]) -> Callable[[str], Any]:
    """Return the reader of a text of JSON, whose objects have each of the columns at most once."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entry = dict(pairs)
        repeated = (
            literals.first_repeated(key for key, _ in pairs if key in columns) if len(entry) < len(pairs) else None
        )
        if repeated is not None:
            raise ValueError(f"the key {short_repr(repeated)} is given twice")
        return entry

    return json.JSONDecoder(
        parse_float=literals.parse_json, parse_int=literals.integer_of_digits, object_pairs_hook=once
    ).decode


def _object(line: bytes, where: str, decode: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the object of a line; fractions are numbers or :class:`torch_ap.core.columns.literals.Unrepresented`."""
    try:
        entry = decode(line.decode())
    except UnicodeDecodeError:
        raise ValueError(f"{where}: must be UTF-8 text") from None
    except RecursionError:
        raise ValueError(f"{where}: must be a JSON object of less depth, it is nested too deeply") from None
    except ValueError as reason:
        raise ValueError(f"{where}: must be a JSON object: {first_line(reason)}") from None
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: must be a JSON object, got {short_repr(entry)}")
    return entry


def _check_value(value: Any, kind: str, where: str) -> Any:
    """Return a value of a column, which must have its kind or be null; numbers as floats."""
    if value is None:
        return None
    if kind == _NUMBERS and isinstance(value, list):
        return [_check_value(x, _NUMBER, where) for x in value]
    is_inexact = kind == _NUMBER and type(value) is int and not literals.represents_integer(value)
    if is_inexact or isinstance(value, literals.Unrepresented):
        raise ValueError(f"{where} must contain numbers that float64 represents, got {short_repr(value)}")
    fits = {
        _NUMBER: type(value) in (int, float),
        _INTEGER: type(value) is int and -(1 << 63) <= value < 1 << 63,
        _TEXT: isinstance(value, str) and not _LONE_SURROGATE(value),
        _BOOL: isinstance(value, bool),
    }
    if not fits.get(kind, False):
        raise ValueError(f"{where} must be {kind}, got {short_repr(value)}")
    return float(value) if kind == _NUMBER else value
