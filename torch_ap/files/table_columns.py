"""Scores, targets and what belongs to them, from the columns of a table; every error names file, row and column."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.files import tables
from torch_ap.files.columns import Progress
from torch_ap.files.table_streams import lengths_of_lists, pyarrow
from torch_ap.rules.messages import nearest, shown
from torch_ap.rules.values import WEIGHTS

_TRUE, _FALSE = ("1", "1.0", "true"), ("0", "0.0", "false")
_WIDER = {"u2": np.int32, "u4": np.int64, "u8": np.int64}  # for unsigned numbers, most of which torch cannot sort


Rule: TypeAlias = Callable[[Any], int | str]  # of a value in a file: what it stands for, or what it must be


@dataclass(frozen=True, eq=False)
class Columns:
    """Some rows of a table.

    Attributes:
        preds: (N,) scores, or (N, C) where several columns were named or one holds lists.
        target: (N,) int64: 0 and 1, grades, or class ids; (N, C) of 0 and 1 where so many columns were named.
        baseline: scores of another system, of the shape of ``preds``; None where none were named, as what follows.
        weights: (N,) float64.
        group: (N,) int64, the number of each row's group.
    """

    preds: Tensor
    target: Tensor
    baseline: Tensor | None = None
    weights: Tensor | None = None
    group: Tensor | None = None


@dataclass
class Table:
    """A file, which of its columns are read, and what its texts stand for.

    Attributes:
        path: of the file; "-" for standard input.
        preds, target: columns of scores and of targets; as many of these, or one.
        group, weights, baseline: further columns, or None.
        form: one of :data:`torch_ap.files.table_names.FORMATS`; None for what the suffix says.
        pos_label: the target that is positive, as text; None for 1, or true.
        groups: the number of each group by its name, in the order in which they came; to be read in :meth:`batches`.
        labels: the different targets, as text, likewise.
    """

    path: str | Path
    preds: Sequence[str]
    target: Sequence[str]
    group: str | None = None
    weights: str | None = None
    baseline: str | None = None
    form: str | None = None
    pos_label: str | None = None
    groups: dict[str, int] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    _widths: dict[str, int] = field(default_factory=dict, init=False)  # of columns of lists

    def batches(self, progress: Progress | None = None) -> Iterator[Columns]:
        """The rows, some at a time.

        Raises:
            OSError, ModuleNotFoundError: as :func:`torch_ap.files.tables.batches`.
            ValueError: as there; and for values that are missing or break the rule of their column, naming the row.
        """
        numbers = [name for name in (*self.preds, self.baseline, self.weights) if name is not None]
        names = [*numbers, *self.target, *([] if self.group is None else [self.group])]
        row = 1
        for batch in tables.batches(self.path, names, numbers=numbers, form=self.form, progress=progress):
            if batch.num_rows:
                yield self._columns(batch, row)
                row += batch.num_rows
        if row == 1:
            raise ValueError(f"{self.path}: must hold rows, but has none")
        positive = self.pos_label
        if positive is not None and len(self.labels) > 1 and not any(_same(x, positive) for x in self.labels):
            told = ", ".join(map(repr, sorted(self.labels)))
            raise ValueError(
                f"{self.path}: no target is {shown(positive)} (--pos-label){nearest(positive, self.labels)}; they are "
                f"{shown(told)[1:-1]}"
            )

    def read(self, progress: Progress | None = None) -> Columns:
        """All rows."""
        parts = list(self.batches(progress))
        listed: dict[str, Any] = {one.name: [getattr(part, one.name) for part in parts] for one in fields(Columns)}
        whole: dict[str, Any] = {
            name: found[0] if found[0] is None else torch.cat(found) for name, found in listed.items()
        }
        return Columns(**whole)

    def _columns(self, batch: Any, row: int) -> Columns:
        preds = self._scores(batch, row)
        weights = None if self.weights is None else self._weights(batch, self.weights, row)
        baseline = None if self.baseline is None else self._numbers(batch, self.baseline, row)
        group = None if self.group is None else self._mapped(batch, self.group, row, self._group_of)
        rule = self._rule(preds)
        target = _side_by_side([self._mapped(batch, name, row, rule) for name in self.target])
        return Columns(preds, target, baseline, weights, group)

    def _scores(self, batch: Any, row: int) -> Tensor:
        """The columns of scores side by side; of several dtypes as float64, which must hold them."""
        found = [self._numbers(batch, name, row) for name in self.preds]
        if len({x.dtype for x in found}) > 1:
            for name, column in zip(self.preds, found, strict=True):
                rounded = (column != column.to(torch.float64).to(column.dtype)).reshape(len(column), -1).any(1)
                if rounded.any():
                    place = int(rounded.nonzero()[0])
                    message = (
                        f"column {shown(name)} must hold numbers that float64 holds, as other columns are fractions"
                    )
                    raise ValueError(f"{self.path}, row {row + place}: {message}, got {shown(column[place].tolist())}")
        return _side_by_side(found)

    def _rule(self, preds: Tensor) -> Rule:
        """What a target says, which depends on what is ranked: classes, the items of a group, or all items."""
        if preds.ndim == 2 and len(self.target) == 1:
            names = self.preds if len(self.preds) > 1 else ()
            places = {name: place for place, name in enumerate(names)}
            return lambda value: _class_of(value, places, preds.shape[1])
        return _grade_of if self.group is not None and self.pos_label is None else self._relevance_of

    def _group_of(self, value: Any) -> int:
        return self.groups.setdefault(str(value), len(self.groups))

    def _relevance_of(self, value: Any) -> int | str:
        text = str(value)
        self.labels.add(text)
        if self.pos_label is not None:
            return int(_same(text, self.pos_label))
        if text.lower() not in _TRUE + _FALSE:
            return "must be 0 or 1 (or --pos-label must say which value is positive)"
        return int(text.lower() in _TRUE)

    def _weights(self, batch: Any, name: str, row: int) -> Tensor:
        found = self._numbers(batch, name, row).to(torch.float64)
        wrong = WEIGHTS.offends(found).reshape(len(found), -1).any(1)
        if wrong.any():
            place = int(wrong.nonzero()[0])
            got = shown(found[place].tolist())
            raise ValueError(f"{self.path}, row {row + place}: column {shown(name)} {WEIGHTS.rule}, got {got}")
        return found

    def _numbers(self, batch: Any, name: str, row: int) -> Tensor:
        """A column of numbers, or of lists of as many numbers each; none is NaN."""
        types = pyarrow().types
        column, width = self._complete(batch, name, row), None
        if types.is_list(column.type) or types.is_fixed_size_list(column.type):
            lengths = lengths_of_lists(column)
            column, width = column.flatten(), self._widths.setdefault(name, int(lengths[0]))
            if not width or (lengths != width).any():
                place = int((lengths != width).argmax())
                rule = f"lists of one length, {width}" if width else "lists of one length, at least 1"
                got = int(lengths[place])
                raise ValueError(f"{self.path}, row {row + place}: column {shown(name)} must hold {rule}, got {got}")
        if types.is_decimal(column.type) or types.is_boolean(column.type):
            column = column.cast("float64" if types.is_decimal(column.type) else "uint8")
        if not (types.is_floating(column.type) or types.is_integer(column.type)):
            raise ValueError(f"{self.path}: column {shown(name)} must hold numbers, got {column.type}")
        values = column.to_numpy(zero_copy_only=False)
        if values.dtype == np.uint64 and (large := values >= 1 << 63).any():
            place = int(large.argmax())
            where = f"{self.path}, row {row + place // (width or 1)}"
            raise ValueError(f"{where}: column {shown(name)} must hold numbers below 2^63, got {values[place]}")
        values = values.astype(_WIDER.get(values.dtype.str[1:], values.dtype)).reshape(
            len(batch), *[width][: width is not None]
        )
        missing = np.isnan(values).reshape(len(batch), -1).any(1)
        if missing.any():
            raise ValueError(f"{self.path}, row {row + int(missing.argmax())}: column {shown(name)} must not hold NaN")
        return torch.from_numpy(values)

    def _mapped(self, batch: Any, name: str, row: int, rule: Rule) -> Tensor:
        """(N,) int64: what a rule makes of the values of a column; it sees each different one once."""
        column = self._complete(batch, name, row)
        try:
            encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        except pyarrow().ArrowNotImplementedError:
            raise ValueError(
                f"{self.path}: column {shown(name)} must hold one value per row, got {column.type}"
            ) from None
        at, values = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()
        made = np.zeros(len(values), np.int64)
        for place in np.unique(at).tolist():  # a dictionary may hold what no row has
            if values[place] is None or values[place] != values[place] or str(values[place]).strip() == "":
                self._refuse_missing(name, row + int((at == place).argmax()))
            if isinstance(found := rule(values[place]), str):
                where = row + int((at == place).argmax())
                meant = nearest(str(values[place]), self.preds) if len(self.preds) > 1 else ""
                got = f"{shown(values[place])}{meant}"
                raise ValueError(f"{self.path}, row {where}: column {shown(name)} {found}, got {got}")
            made[place] = found
        return torch.from_numpy(made[at])

    def _complete(self, batch: Any, name: str, row: int) -> Any:
        """A column in which every row has a value."""
        column = batch.column(name)
        if column.null_count:
            place = int(column.is_null().to_numpy(zero_copy_only=False).argmax())
            self._refuse_missing(name, row + place)
        return column

    def _refuse_missing(self, name: str, row: int) -> NoReturn:
        raise ValueError(
            f"{self.path}, row {row}: column {shown(name)} must have a value, got none (empty, NA, NaN or null)"
        )


def _side_by_side(columns: Sequence[Tensor]) -> Tensor:
    if len({x.dtype for x in columns}) > 1:
        columns = [x.to(torch.float64) for x in columns]
    return columns[0] if len(columns) == 1 else torch.stack(list(columns), 1)


def _same(label: str, wanted: str) -> bool:
    """Whether two texts are the same label: the same text, or the same number."""
    return label == wanted or (_whole(label) is not None and _whole(label) == _whole(wanted))


def _whole(text: str) -> int | None:
    """The whole number that a text says, as "3" and "3.0" do; None where it says none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() and abs(number) < 1 << 53 else None


def _number_of(value: Any) -> int | None:
    return int(value) if isinstance(value, bool) else _whole(str(value))


def _grade_of(value: Any) -> int | str:
    found = _number_of(value)
    if found is None or found < 0:
        return "must be a whole number of at least 0"
    return found


def _class_of(value: Any, places: Mapping[str, int], classes: int) -> int | str:
    """The column of a class, by its name; or by its number, unless columns have numbers for names."""
    if str(value) in places:
        return places[str(value)]
    found = None if any(_whole(name) is not None for name in places) else _number_of(value)
    if found is None or not 0 <= found < classes:
        told = f"one of the columns {', '.join(map(repr, places))}, or its number, " if places else ""
        return f"must be {told}0 to {classes - 1}"
    return found
