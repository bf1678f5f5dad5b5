"""Lists of objects in JSON files and their values by key; every error names file, list, place and key."""

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from torch_ap.files import text as text_files
from torch_ap.rules.messages import known_ids, shown

Entry: TypeAlias = Mapping[str, Any]
Value = TypeVar("Value")
Key = TypeVar("Key", int, str)

_NUMBERS = {int, float}
_INT64 = 1 << 63
MOST_DIGITS = 4000  # of a whole number; Python reads 4,300 at most
_HUGE = 10**5000
_HINTS = {
    "bbox": " (for masks alone: iou_type 'segm', `--iou-type segm`; "
    "for keypoints: 'keypoints', `--iou-type keypoints`)",
    "neg_category_ids": " (of LVIS's files; COCO's are for `torch-ap coco`)",
}


def load(path: str | Path) -> Any:
    """The content of a JSON file in UTF-8, with or without a byte-order mark, plain or gzip.

    A file of one object per line (JSON Lines) is read as their list.

    Raises:
        ValueError: for another encoding, for what is not JSON, and for an object that has one key twice, naming file
            and place. A whole number of thousands of digits becomes one that breaks the rule of its key.
    """
    content = text_files.read(path)
    if not content.strip():
        raise ValueError(f"{path}: must be JSON, but is empty")
    repeated: list[Entry] = []

    def once(pairs: list[tuple[str, Any]]) -> Entry:
        found = dict(pairs)
        if len(found) < len(pairs):
            repeated.append({"found": found, "key": _twice(key for key, _ in pairs)})
        return found

    decode = partial(json.loads, object_pairs_hook=once, parse_int=_whole)
    try:
        loaded = decode(content)
    except RecursionError:
        raise ValueError(f"{path}: must be JSON of less depth, its lists or objects are nested too deeply") from None
    except ValueError as reason:
        repeated.clear()
        loaded = _lines(path, content, decode)
        if not loaded:
            raise ValueError(f"{path}: must be JSON: {reason}") from None
    if repeated:
        _refuse_repeated(path, loaded, repeated)
    return loaded


def _lines(path: str | Path, content: str, decode: Callable[[str], Any]) -> list[Any]:
    """The objects of lines that have one each; none where the first line is not one, or the only one."""
    lines = [(number, line) for number, line in enumerate(content.split("\n"), 1) if line.strip()]
    values: list[Any] = []
    try:
        for _, line in lines if lines[1:] and lines[0][1].startswith("{") else ():
            values.append(decode(line))
    except (ValueError, RecursionError) as reason:
        if values:
            raise ValueError(f"{path}: line {lines[len(values)][0]} must be JSON: {reason}") from None
    return values


def _whole(digits: str) -> int:
    """A whole number. For thousands of digits Python's error names no place; the rule of the key does."""
    return int(digits) if len(digits) < MOST_DIGITS else _HUGE


def _twice(keys: Iterable[str]) -> str:
    """The first key that occurs a second time."""
    seen: set[str] = set()
    return next(key for key in keys if key in seen or seen.add(key))  # type: ignore[func-returns-value]


def _refuse_repeated(path: str | Path, loaded: Any, repeated: list[Entry]) -> None:
    """Raise for a key that is given twice, naming its object: it is unknown which value is meant."""
    keys = {id(one["found"]): one["key"] for one in repeated}
    pending = [("", loaded)]
    while pending:
        where, value = pending.pop()
        if id(value) in keys:
            entry = where if not where or where.startswith("[") else f": {where}"
            raise ValueError(f"{path}{entry}: the key {shown(keys[id(value)])} must be given once, but is given twice")
        if isinstance(value, dict):
            pending += [(f"{where}.{key}".removeprefix("."), part) for key, part in reversed(value.items())]
        elif isinstance(value, list) and value and not isinstance(value[0], int | float | str):
            pending += [(f"{where}[{place}]", part) for place, part in reversed([*enumerate(value)])]


@dataclass(frozen=True)
class Entries:
    """Objects of one list of a file, in any order.

    Attributes:
        entries: the objects.
        where: what messages call the list.
        places: the place of each in the list.
    """

    entries: list[Entry]
    where: str
    places: list[int]

    @classmethod
    def of(cls, entries: list[Any], where: str) -> "Entries":
        """The entries of a list, each of which must be an object."""
        for place, entry in enumerate(entries):
            if not isinstance(entry, dict):
                raise ValueError(f"{where}[{place}]: must be an object, got {type(entry).__name__}")
        return cls(entries, where, list(range(len(entries))))

    def ordered(self, order: list[int]) -> "Entries":
        """The entries in another order."""
        return Entries([self.entries[row] for row in order], self.where, [self.places[row] for row in order])

    def each(self, key: str, read: Callable[[Any], Value], default: Any = None) -> list[Value]:
        """One key of every entry; ``default`` where an entry lacks it, unless that is None.

        Args:
            key: of the entries.
            read: makes a value of what the key holds; raises ValueError that says what it must be.
            default: taken where an entry lacks the key.
        """
        try:
            if default is None:
                return [read(entry[key]) for entry in self.entries]
            return [read(entry.get(key, default)) for entry in self.entries]
        except (KeyError, ValueError):
            self._complain(key, read, optional=default is not None)
            raise

    def _complain(self, key: str, read: Callable[[Any], Any], *, optional: bool) -> None:
        """Name the first entry that cannot be read."""
        for place, entry in zip(self.places, self.entries, strict=True):
            if key in entry:
                try:
                    read(entry[key])
                except ValueError as reason:
                    raise ValueError(f"{self.where}[{place}]: '{key}' {reason}") from None
            elif not optional:
                raise ValueError(
                    f"{self.where}[{place}]: must have the key '{key}'{_HINTS.get(key, '')}, got {shown(list(entry))}"
                ) from None

    def integers(self, key: str) -> list[int]:
        """One whole number of every entry."""
        values: list[Any] = [entry.get(key) for entry in self.entries]
        if set(map(type, values)) == {int} and min(values) >= -_INT64 and max(values) < _INT64:
            return values
        return self.each(key, integer)

    def numbers(self, key: str, least: float = -math.inf, default: float | None = None) -> Tensor:
        """:meth:`each` as float64, of finite numbers of at least so much; in one step where all are."""
        values = [entry.get(key, default) for entry in self.entries]
        if set(map(type, values)) <= _NUMBERS:
            with suppress(OverflowError):
                out = np.array(values, np.float64)
                if np.isfinite(out).all() and not (out < least).any():
                    return torch.from_numpy(out)
        return torch.tensor(self.each(key, partial(finite, least=least), default), dtype=torch.float64)

    def boxes(self, key: str) -> Tensor:
        """:meth:`each` as (N, 4) float64, of lists that :func:`box` accepts; in one step where it would accept all."""
        values = [entry.get(key) for entry in self.entries]
        if all(type(value) is list and len(value) == 4 and set(map(type, value)) <= _NUMBERS for value in values):
            with suppress(OverflowError):
                out = np.array(values, np.float64).reshape(-1, 4)
                if np.isfinite(out).all() and not (out[:, 2:] < 0).any():
                    return torch.from_numpy(out)
        return torch.tensor(self.each(key, box), dtype=torch.float64).reshape(-1, 4)

    def keypoints(self, key: str, read: Callable[[Any], list[float]], wanted: int | None = None) -> Tensor:
        """:meth:`each` as (N, K, 3) float64, of lists of x, y and a third number in turn, as many in every entry: as
        many as are wanted, where that is known.
        """
        values = self.each(key, read)
        length = 3 * wanted if wanted else len(values[0]) if values else 3
        for place, value in zip(self.places, values, strict=True):
            if len(value) != length:
                others = "those of the annotations" if wanted else f"that of {self.where}[{self.places[0]}]"
                rule = f"'{key}' must hold {length} numbers, as {others}"
                raise ValueError(f"{self.where}[{place}]: {rule}, got {len(value)}")
        return torch.from_numpy(np.array(values, np.float64).reshape(-1, length // 3, 3))

    def unique(self, key: str, read: Callable[[Any], Key]) -> list[Key]:
        """:meth:`each`, no two values of which may be equal."""
        values = self.each(key, read)
        seen: set[Key] = set()
        for place, value in zip(self.places, values, strict=True):
            if value in seen:
                raise ValueError(f"{self.where}[{place}]: '{key}' must be given once, got {shown(value)} again")
            seen.add(value)
        return values

    def known(self, key: str, allowed: Mapping[Key, Value]) -> list[Value]:
        """The value that ``allowed`` has for the id of every entry, text if those allowed are, else a whole number."""
        first = next(iter(allowed), next((entry.get(key) for entry in self.entries), None))
        texts = isinstance(first, str)
        try:
            values: list[Any] = self.each(key, text) if texts else self.integers(key)
        except ValueError as error:
            self._check_kind(key, next(iter(allowed), None), str(error))
            raise
        for place, value in zip(self.places, values, strict=True):
            if value not in allowed:
                raise ValueError(f"{self.where}[{place}]: unknown {key} {shown(value)}{_meant(value, values, allowed)}")
        return [allowed[value] for value in values]

    def _check_kind(self, key: str, known: Any, said: str) -> None:
        """Refuse the id of which something was ``said``, if it is text where those that are known are numbers, or the
        other way round.
        """
        other, rule = (int, "text") if isinstance(known, str) else (str, "an integer")
        for place, entry in zip(self.places, self.entries, strict=True):
            if known is not None and type(entry.get(key)) is other and said.startswith(f"{self.where}[{place}]: "):
                rule = f"'{key}' must be {rule}, as the ids that it refers to are, such as {shown(known)}"
                raise ValueError(f"{self.where}[{place}]: {rule}, got {shown(entry[key])}") from None


def _meant(unknown: Any, values: Sequence[Any], allowed: Collection[Any]) -> str:
    """What to say of an id that is not allowed; ids may run from 0, where those allowed do not."""
    if (
        isinstance(unknown, str)
        or 0 in allowed
        or 0 not in values
        or min(values) < 0
        or max(values) >= max(allowed, default=0)
    ):
        return known_ids(unknown, allowed)
    return "; these count from 0, as places in a list do, and the ids that are known do not"


def integer(value: Any) -> int:
    """A whole number of 64 bits, not written as a fraction, as text or as a bool."""
    if isinstance(value, bool) or not isinstance(value, int) or not -_INT64 <= value < _INT64:
        raise ValueError(f"must be an integer, got {shown(value)}")
    return value


def text(value: Any) -> str:
    """Text."""
    if not isinstance(value, str):
        raise ValueError(f"must be text, got {shown(value)}")
    return value


def flag(value: Any) -> int:
    """0 or 1, or false or true."""
    if not isinstance(value, int | float) or value not in (0, 1):
        raise ValueError(f"must be 0 or 1, got {shown(value)}")
    return int(value)


def finite(value: Any, least: float = -math.inf) -> float:
    """A finite number of at least so much, not written as text or as a bool."""
    if type(value) in _NUMBERS:
        with suppress(OverflowError):
            if math.isfinite(value) and value >= least:
                return float(value)
    also = "" if least == -math.inf else f" of at least {least:g}"
    raise ValueError(f"must be a finite number{also}, got {shown(value)}")


def box(value: Any) -> list[float]:
    """x, y, width and height, the last two of which are not negative."""
    if not isinstance(value, list) or len(value) != 4:
        raise ValueError(f"must hold x, y, width and height, got {shown(value)}")
    try:
        sides = [finite(x) for x in value]
    except ValueError:
        raise ValueError(f"must hold finite numbers, got {shown(value)}") from None
    if min(sides[2:]) < 0:
        raise ValueError(f"must hold a width and a height of at least 0, got {shown(value)}")
    return sides


def points(value: Any) -> list[float]:
    """x, y and a third number of each keypoint."""
    if not isinstance(value, list) or not value or len(value) % 3:
        raise ValueError(f"must hold x, y and a third number of each keypoint, got {shown(value)}")
    if set(map(type, value)) <= _NUMBERS:
        with suppress(OverflowError):
            if all(map(math.isfinite, value)):
                return value
    raise ValueError(f"must hold finite numbers, got {shown(value)}")


def labelled_points(value: Any) -> list[float]:
    """x, y and visibility, 0, 1 or 2, of each keypoint."""
    numbers = points(value)
    if not set(numbers[2::3]) <= {0, 1, 2}:
        wrong = next(flag for flag in numbers[2::3] if flag not in (0, 1, 2))
        raise ValueError(f"must hold 0, 1 or 2 as the visibility of each keypoint, got {shown(wrong)}")
    return numbers
