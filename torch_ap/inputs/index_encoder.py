"""Names of queries as the integers that metrics take."""

import hashlib
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.rules import tensors
from torch_ap.rules.messages import Plain, refuse, shown


class IndexEncoder:
    """Names of queries, text or anything hashable, as int64 for ``indexes``, the same in every process and on every
    day.

    The integer is the hash, by BLAKE2b in 64 bits, of a name's type and text (1, 1.0 and True are one name): ranks need
    not agree on numbers, and a query whose items come in several batches or processes is one query. An encoder
    remembers the names that it has seen, to give them back. That any two of a million names have one integer happens
    once in 37 million times; it is an error, where one encoder sees both.

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

        Raises:
            TypeError: for one text in place of many; for None, NaN, and what is not hashable or has no such ``repr``.
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
            ValueError: for an integer of a name that this encoder has not seen.
        """
        tensors.tensor("indexes", indexes)
        codes = indexes.tolist()
        for code in codes:
            if code not in self._names:
                refuse("indexes", "must be of names that this encoder has seen", code)
        return [self._names[code] for code in codes]


def _code(name: Any) -> int:
    name = name.item() if isinstance(name, np.generic) else name
    if isinstance(name, bool) or (isinstance(name, float) and name.is_integer()):
        name = int(name)  # equal names have one integer
    kind, text = ("str", str.__str__(name)) if isinstance(name, str) else (type(name).__name__, repr(name))
    if name is None or name != name or " object at 0x" in text:
        refuse("names", "must be names that can be told apart in every process", name, TypeError)
    told = f"{kind} {text}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "little", signed=True)
