"""Tables as text: separated values, and lines of JSON."""

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from torch_ap.files.table_streams import LONGEST_LINE, STANDARD_INPUT, check_names, first_line, opened, pyarrow
from torch_ap.files.text import MARK
from torch_ap.rules.messages import shown

_BLOCK = 1 << 21
_GZIP = b"\x1f\x8b"
_CONVERSION = re.compile(
    r"In CSV column #(\d+): Row #(\d+): CSV conversion error to double: invalid value (.*)", re.DOTALL
)


def _unzipped(stream: io.BufferedReader) -> Any:
    return gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == _GZIP else stream


def _line(source: Any, path: str | Path) -> str:
    """The first line that is not blank, without its end; "" where there is none."""
    first: bytes = source.readline(LONGEST_LINE).removeprefix(MARK)
    while first and not first.strip():
        first = source.readline(LONGEST_LINE)
    try:
        return first.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(f"{path}, line 1: must be UTF-8 text") from None


def _csv_names(source: Any, path: str | Path, delimiter: str) -> list[str]:
    line = _line(source, path)
    if not line:
        raise ValueError(f"{path}: must begin with a line of the columns' names, but is empty")
    return [name.strip() for name in next(csv.reader([line], delimiter=delimiter))]


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
        types = {name: arrow.float64() if name in numbers else text for name in columns}
        options = {
            "read_options": reader.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=names),
            "parse_options": reader.ParseOptions(delimiter=delimiter),
            "convert_options": reader.ConvertOptions(include_columns=list(columns), column_types=types),
        }
        try:
            yield from reader.open_csv(source, **options)
        except arrow.ArrowInvalid as error:
            found = _CONVERSION.match(message := first_line(error))
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
        raise ValueError(f"{where}: must be a JSON object: {first_line(reason)}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{where}: must be a JSON object, got {shown(found)}")
    return found


def json_lines(
    stream: io.BufferedReader, path: str | Path, columns: Sequence[str], numbers: Collection[str]
) -> Iterator[Any]:
    """Objects of one line each, the first of which says the types of the columns."""
    arrow, reader = pyarrow(), import_module("pyarrow.json")
    source = _unzipped(stream)
    line = _line(source, path)
    if not line:
        return
    first = _object(line, f"{path}, line 1")
    check_names(path, list(first), columns)
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
        if first_line(error) != "Empty JSON file":
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
    with opened(path) as stream:
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
