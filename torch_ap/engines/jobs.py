"""Jobs that all engines run: partial results of partitions as bytes, merged in any order and grouping.

An engine calls ``partial`` once per partition, ``merge`` for pairs of results, and ``finish`` for the last one. A
partition may be empty. A task that fails can run again: ``partial`` has no side effects. Engines return the result of
each task once. If you store partial results yourself, store them by partition, so that a repeated delivery replaces
the first.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeAlias

from torch_ap.core.base.messages import Plain, raise_invalid, suggest_name
from torch_ap.core.columns.streams import pyarrow
from torch_ap.core.columns.tables import POS_LABEL_HINT, Columns, Table

Names: TypeAlias = str | Sequence[str]  # of columns or measures


class Job(Protocol):
    """One computation over all partitions."""

    def partial(self, batches: Iterable[Any], partition: str) -> bytes:
        """Return the result of a partition from its Arrow record batches; messages contain the partition's name."""
        ...

    def merge(self, first: bytes, second: bytes) -> bytes:
        """Return the result of two partitions, or of two sets of partitions."""
        ...

    def finish(self, data: bytes) -> Any:
        """Return the value from the merged result of all partitions."""
        ...


class ColumnNames(NamedTuple):
    """Columns to read.

    Attributes:
        preds: one column of scores, or of lists of scores, or one column per class.
        target: one column of targets, or one per label.
        group: column of groups or queries, or None.
        weights: column of weights, or None.
    """

    preds: Sequence[str]
    target: Sequence[str]
    group: str | None = None
    weights: str | None = None

    @classmethod
    def from_arguments(cls, preds: Any, target: Any, group: Any = None, weights: Any = None) -> "ColumnNames":
        """Validate the arguments of the engines' functions: names, or lists of names."""
        names = {"preds": preds, "target": target}
        for name, value in names.items():
            listed = names[name] = [value] if isinstance(value, str) else value
            if not isinstance(listed, list | tuple) or not listed or not all(isinstance(x, str) for x in listed):
                raise_invalid(name, "must be the name of a column or a list of names", value, TypeError)
        for name, value in {"group": group, "weights": weights}.items():
            if value is not None and not isinstance(value, str):
                raise_invalid(name, "must be the name of a column or None", value, TypeError)
        if len(names["target"]) not in (1, len(names["preds"])):
            raise_invalid("target", f"must be one column, or as many as `preds`, {len(names['preds'])}", target)
        return cls(tuple(names["preds"]), tuple(names["target"]), group, weights)

    @property
    def names(self) -> list[str]:
        """All columns, each once."""
        optional = [x for x in (self.group, self.weights) if x is not None]
        return list(dict.fromkeys([*self.preds, *self.target, *optional]))

    def read(self, batches: Iterable[Any], partition: str) -> Iterator[tuple[Table, Columns, int]]:
        """Yield the rows of each batch, the table with their groups, and the number of the first row in the partition.

        Raises:
            ValueError: for an invalid value; the message names the partition, row, column and value.
        """
        table, row = Table(partition, self.preds, self.target, group=self.group, weights=self.weights), 1
        for batch in batches:
            if batch.num_rows:
                try:
                    columns = table.convert(batch, row)
                except ValueError as error:
                    raise ValueError(str(error).replace(POS_LABEL_HINT, "")) from None
                yield table, columns, row
                row += batch.num_rows


def encode(values: dict[str, bytes]) -> bytes:
    """Return named bytes as bytes; results of several calls can be concatenated."""
    header = json.dumps([[name, len(value)] for name, value in values.items()]).encode()
    return b"".join([len(header).to_bytes(8, "little"), header, *values.values()])


def decode(data: bytes) -> list[dict[str, bytes]]:
    """Return the arguments of :func:`encode` from its concatenated results."""
    out, start = [], 0
    while start < len(data):
        begin = start + 8
        start = begin + int.from_bytes(data[start:begin], "little")
        values = {}
        for name, length in json.loads(data[begin:start]):
            values[name] = data[start : start + length]
            start += length
        out.append(values)
    return out


def check_columns(columns: Iterable[str], names: Sequence[str]) -> None:
    """Raise ValueError unless each column is among the names of a data set."""
    for name in columns:
        if name not in names:
            raise_invalid(name, f"must be a column of the data{suggest_name(name, names)}", Plain(", ".join(names)))


@contextmanager
def task_errors() -> Iterator[None]:
    """Raise an error of a task with its own type and message; engines wrap it, with the traceback as text."""
    try:
        yield
    except Exception as error:
        found = re.findall(r"^(?:\w+\.)*(ValueError|TypeError): (partition.*)$", str(error), re.MULTILINE)
        if not found:
            raise
        kind, message = found[-1]
        raise (ValueError if kind == "ValueError" else TypeError)(message) from error


def sorted_names(names: Iterable[str]) -> list[str]:
    """Return names in numerical order if all are integers, else in alphabetical order."""
    listed = list(names)
    return sorted(listed, key=int) if all(x.removeprefix("-").isdecimal() for x in listed) else sorted(listed)


def to_batches(rows: Any, columns: Sequence[str]) -> list[Any]:
    """Return the columns of a pandas DataFrame, an Arrow table, or a list of dicts as Arrow record batches.

    A list of dicts of images, which contain tensors, is returned as one batch.
    """
    arrow = pyarrow()
    if isinstance(rows, list):
        if rows and isinstance(rows[0].get(columns[0]), Mapping):
            return [rows]  # images as dicts of arrays
        rows = arrow.Table.from_pylist(rows) if rows else arrow.table({name: [] for name in columns})
    elif not isinstance(rows, arrow.Table):
        rows = arrow.Table.from_pandas(rows[list(columns)], preserve_index=False)
    return rows.select(list(columns)).to_batches()  # type: ignore[no-any-return]
