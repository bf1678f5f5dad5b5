"""Names of queries as the integers that metrics take."""

import contextlib
import hashlib
import numbers
from collections.abc import Hashable, Iterable, Set
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from torch_ap.rules import tensors
from torch_ap.rules.messages import Plain, refuse, shown

_ELSEWHERE = (" at 0x", "frozenset({")  # addresses, and the order of sets, are others in every process


class IndexEncoder:
    """Names of queries, text or anything hashable, as int64 for ``indexes``, the same in every process and on every
    day.

    The integer is the hash, by BLAKE2b in 64 bits, of a name's type and text (equal numbers, such as 1, 1.0 and True,
    are one name, in tuples too): ranks need not agree on numbers, and a query whose items come in several batches or
    processes is one query. An encoder remembers the names that it has seen, to give them back. That any two of a
    million names have one integer happens once in 37 million times; it is an error, where one encoder sees both.

    Example:
        >>> import torch
        >>> from torch_ap.retrieval import IndexEncoder, RetrievalMAP
        >>> encoder, metric = IndexEncoder(), RetrievalMAP()
        >>> indexes = encoder(["query 1", "query 1", "query 2"])
        >>> metric.update(torch.tensor([0.2, 0.7, 0.9]), torch.tensor([1, 0, 1]), indexes)
        >>> queries, values = metric.per_query()
        >>> sorted(zip(encoder.decode(queries), values.tolist()))
        [('query 1', 0.5), ('query 2', 1.0)]
    """

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}
        self._names: dict[int, Hashable] = {}

    def __call__(self, names: Iterable[Hashable]) -> Tensor:
        """(N,) int64 of N names.

        Args:
            names: of the query of each item: a list, an array, or a column of a table. Text, bytes, numbers, and what
                else is hashable and has a ``repr`` that says what it is, such as tuples, dates and UUIDs.
                Sets have none: their order is another in every process.

        Raises:
            TypeError: for one text in place of many; for None, NaN, pandas' NA, sets, and what is not hashable or has
                no such ``repr``.
            ValueError: for two names that have one integer.
        """
        if isinstance(names, str | bytes) or not isinstance(names, Iterable):
            refuse("names", "must be a list or column of names", Plain(type(names).__name__), TypeError)
        given: list[Any] = names.tolist() if hasattr(names, "tolist") else list(names)
        try:
            new = [name for name in dict.fromkeys(given) if name not in self._codes]
        except TypeError as error:
            raise TypeError(f"`names` must be hashable: {error}") from None
        coded = {name: _code(name) for name in new}
        known = dict(self._names)
        for name, code in coded.items():
            if (other := known.setdefault(code, name)) != name:
                raise ValueError(f"`names` must have different hashes, not so {shown(other)} and {shown(name)}")
        self._codes |= coded
        self._names = known
        return torch.from_numpy(np.fromiter(map(self._codes.__getitem__, given), np.int64, len(given)))

    def decode(self, indexes: Tensor) -> list[Any]:
        """The names of (N,) integers, such as those of ``per_query()``.

        Raises:
            ValueError: for another shape, and for an integer of a name that this encoder has not seen.
        """
        tensors.tensor("indexes", indexes)
        if indexes.ndim != 1:
            refuse("indexes", "must have shape (N,)", Plain(tuple(indexes.shape)))
        codes = indexes.tolist()
        for code in codes:
            if code not in self._names:
                refuse("indexes", "must be of names that this encoder has seen", code)
        return [self._names[code] for code in codes]


def _code(name: Any) -> int:
    if name is None:
        _refuse(name)
    plain = _plain(name)
    kind = type(plain).__name__
    told = f"{kind} {plain if isinstance(plain, str) else repr(plain)}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "little", signed=True)


def _plain(name: Any) -> Any:
    """The name itself, or of equal names one for all, which is what is hashed."""
    name = name.item() if isinstance(name, np.generic) else name
    if isinstance(name, str):
        return str.__str__(name)
    if isinstance(name, bytes):
        return bytes(name)
    if isinstance(name, tuple):
        return tuple(map(_plain, name))
    try:
        undefined = bool(name != name)
    except (TypeError, ValueError):  # pandas' NA is neither equal to itself nor not
        undefined = True
    if undefined or isinstance(name, Set) or any(mark in repr(name) for mark in _ELSEWHERE):
        _refuse(name)
    return _number(name) if isinstance(name, numbers.Number) else name


def _number(name: Any) -> Any:
    """The int that equals a number, else the float that does, else the number itself."""
    name = name.real if isinstance(name, complex) and not name.imag else name
    for kind in (int, float):
        with contextlib.suppress(OverflowError, TypeError):  # infinite, too great, or complex
            if (found := kind(name)) == name:
                return found
    return Fraction(name) if isinstance(name, Decimal) else name


def _refuse(name: Any) -> NoReturn:
    refuse("names", "must be names that can be told apart in every process", name, TypeError)
