"""Floats as order-preserving integers, and the sorts and searches that rankings are made of.

Every finite or infinite score has one integer key whose signed order is the order of the scores; ``-0.0`` and ``0.0``
share a key. NaN has no place in an order and is refused before it gets here. On CPU the sorts are NumPy's, which are
vectorized and release the GIL; NumPy has no bfloat16 and sorts float16 slowly, so both are sorted as their int16 keys.
On accelerators the sorts are torch's. Only values and integer counts leave this module, so no result depends on the
path that was taken.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Values = TypeVar("Values", Tensor, Array)
Task = TypeVar("Task")
Answer = TypeVar("Answer")

KEY_OF = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}
KEYED_BYTES = 4  # of scores that share an int64 with the number of their ranking, or with their relevance
COLUMNS_A_TASK = 32
_THREADING_PAYS = 1 << 17


def keys(scores: Tensor) -> Tensor:
    """Integers in the order of the scores, of the same width.

    IEEE floats are sign and magnitude: a negative float's key is minus its magnitude bits, a positive one's its bits.
    Integers are their own keys.

    Args:
        scores: any shape, any real dtype, no NaN.

    Returns:
        A tensor of the same shape; int16 for the half precisions, int32 for float32, int64 for float64.
    """
    dtype = KEY_OF.get(scores.dtype)
    if dtype is None:
        return scores
    bits = scores.view(dtype)
    sign = bits >> (torch.iinfo(dtype).bits - 1)
    return ((bits & torch.iinfo(dtype).max) ^ sign) - sign


def array_keys(scores: Array) -> Array:
    """:func:`keys` of a NumPy array, computed by the calling thread alone."""
    if scores.dtype.kind != "f":
        return scores
    bits = scores.view(f"i{scores.dtype.itemsize}")
    sign = bits >> (np.iinfo(bits.dtype).bits - 1)
    keys = bits & np.iinfo(bits.dtype).max
    keys ^= sign
    keys -= sign
    return keys


def values(keys: Tensor, dtype: torch.dtype) -> Tensor:
    """The scores of ``keys``; the inverse of :func:`keys`, with ``0.0`` for both zeros."""
    if dtype not in KEY_OF:
        return keys.to(dtype)
    if keys.device.type == "cpu":  # NumPy's passes wake no threads
        bits = keys.numpy()
        return torch.from_numpy(np.where(bits < 0, np.iinfo(bits.dtype).min - bits, bits)).view(dtype)
    return torch.where(keys < 0, torch.iinfo(keys.dtype).min - keys, keys).view(dtype)


def sortable(scores: Tensor) -> Tensor:
    """The scores, or their keys where NumPy cannot sort the scores themselves fast (CPU half precision)."""
    return keys(scores) if scores.dtype in (torch.float16, torch.bfloat16) else scores


def sort_in_place(values: Array) -> Array:
    """Sort a NumPy array ascending, in place. Sixteen bits and fewer go through NumPy's radix sort."""
    values.sort(kind="stable" if values.dtype.itemsize <= 2 else None)
    return values


def sort(values: Values) -> Values:
    """The values in ascending order, without their indices, in new memory."""
    if not isinstance(values, Tensor):
        return sort_in_place(values.copy())
    if values.device.type != "cpu":
        return torch.sort(values).values
    return torch.from_numpy(sort(values.numpy()))


def argsort(values: Tensor) -> Tensor:
    """Indices that sort ``values`` ascending; equal values come in any order."""
    if values.device.type != "cpu":
        return torch.argsort(values)
    return torch.from_numpy(np.argsort(values.numpy()))


def stable_argsort(keys: Tensor, bound: int) -> Tensor:
    """Indices that sort whole numbers in [0, bound) ascending, equal ones in the order given.

    On CPU sixteen bits and fewer go through NumPy's radix sort; else a number and its index travel in one int64 through
    a sort of values, while 63 bits hold both.
    """
    if keys.device.type == "cpu" and keys.itemsize <= 2:
        return torch.from_numpy(keys.numpy().argsort(kind="stable"))
    bits = max(len(keys) - 1, 1).bit_length()
    if keys.device.type != "cpu" or max(bound - 1, 1).bit_length() + bits > 63:
        return torch.sort(keys, stable=True).indices
    packed: Array = np.left_shift(keys.numpy(), bits, dtype=np.int64)
    packed |= np.arange(len(packed))
    sort_in_place(packed)
    packed &= (1 << bits) - 1
    return torch.from_numpy(packed)


def lexsort(*keys: Any) -> Any:
    """Indices that sort by the first of several keys, equal ones by the next, and so on: native as they are."""
    if not isinstance(keys[0], Tensor):
        return np.lexsort(keys[::-1])
    place = torch.argsort(keys[-1], stable=True)
    for key in keys[-2::-1]:
        place = place[torch.argsort(key[place], stable=True)]
    return place


def dense_ranks(keys: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct keys ascending, and for each key its place among them, so that 64 bits become few."""
    distinct, ranks = torch.unique(keys, return_inverse=True)
    return distinct, ranks


def equal_range(ascending: Array, queries: Array) -> tuple[Array, Array]:
    """For each query, how many values lie below it, and how many at or below it.

    Equals ``searchsorted`` left and right. The second search runs only for queries that occur more than once. (A
    clipped look at the last value can ask for a search that was not needed, never spare one that was.)

    Args:
        ascending: (N,) sorted values.
        queries: (Q,) sorted ascending too, which keeps the search in cache.
    """
    below = np.searchsorted(ascending, queries)
    if not len(ascending):
        return below, below
    at_or_below: Array = below + (ascending.take(below, mode="clip") == queries)
    repeated = np.flatnonzero(ascending.take(at_or_below, mode="clip") == queries)
    if len(repeated):
        at_or_below[repeated] = np.searchsorted(ascending, queries[repeated], "right")
    return below, at_or_below


def as_flags(values: Tensor) -> Tensor:
    """``values.bool()``; on CPU by NumPy.

    torch shares a pass over so many values among its OpenMP threads, and they wait for the next one by spinning, beside
    our own threads: where processors are few or shared that costs milliseconds.
    """
    if values.dtype == torch.bool or values.device.type != "cpu":
        return values.bool()
    return torch.from_numpy(values.numpy().astype(bool))


def as_rows(columns: Tensor) -> Tensor:
    """(N, C) to (C, N), in memory of its own. torch transposes what lies in one piece by tiles, twice as fast."""
    rows = columns.t()
    return rows.clone() if rows.is_contiguous() else columns.contiguous().t().contiguous()


def workers(size: int) -> int:
    """How many threads are worth starting for ``size`` values: one for small inputs, else torch's own setting."""
    return min(torch.get_num_threads(), os.cpu_count() or 1) if size >= _THREADING_PAYS else 1


def slices(size: int, parts: int) -> list[slice]:
    """``range(size)`` in slices of nearly equal length."""
    cuts = [size * part // parts for part in range(parts + 1)]
    return [slice(first, last) for first, last in itertools.pairwise(cuts)]


def blocks(span: slice, size: int) -> list[slice]:
    """``span`` in slices of ``size``, the last one shorter."""
    return [slice(first, min(first + size, span.stop)) for first in range(span.start, span.stop, size)]


@contextmanager
def thread_pool(threads: int) -> Iterator[Callable[[Callable[[Task], Answer], Iterable[Task]], list[Answer]]]:
    """``pool_map(work, tasks)`` as often as wanted on the same threads; the answers come in the order of the tasks."""
    if threads <= 1:
        yield lambda work, tasks: [work(task) for task in tasks]
        return
    with ThreadPoolExecutor(threads) as pool:
        yield lambda work, tasks: list(pool.map(work, tasks))


def in_threads(work: Callable[[Task], Answer], tasks: Iterable[Task], threads: int) -> list[Answer]:
    """``[work(task) for task in tasks]`` on ``threads`` threads; the answers come in the order of the tasks."""
    with thread_pool(threads) as pool_map:
        return pool_map(work, tasks)


def extremes(values: Array) -> tuple[int, int]:
    """The least and the greatest of at least one whole number."""
    threads = workers(len(values))
    ends = in_threads(lambda part: (values[part].min(), values[part].max()), slices(len(values), threads), threads)
    lows, highs = zip(*ends, strict=True)
    return int(min(lows)), int(max(highs))


def bincount(values: Array, bins: int) -> Array:
    """How often each of 0 to ``bins`` - 1 occurs: (bins,) int64."""
    threads = workers(len(values))
    counts = in_threads(lambda part: np.bincount(values[part], minlength=bins), slices(len(values), threads), threads)
    total: Array = np.stack(counts).sum(0)
    return total
