"""Floats as order-preserving integers, and the sorts and searches of rankings.

Every finite or infinite score has one integer key whose signed order is the order of the scores; ``-0.0`` and ``0.0``
share a key. NaN has no key; input validation raises an error for it. On CPU the sorts are NumPy's, which are vectorized
and release the GIL. NumPy has no bfloat16 and sorts float16 slowly, so both are sorted as their int16 keys. On
accelerators the sorts are torch's. Only values and integer counts leave this module, so no result depends on the path.
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
KEYED_BYTES = 4  # maximum width of scores that fit into one int64 with their ranking and relevance
COLUMNS_A_TASK = 32
_ITEMS_A_TILE = 1 << 15  # copies of more values start torch's threads
_ITEMS_A_SORT = 1 << 12  # of one segment or several, in the first cache
_THREADING_PAYS = 1 << 17  # values; below, threads cost more than they save


def keys(scores: Tensor) -> Tensor:
    """Return integers in the order of the scores, of the same width.

    IEEE floats are sign and magnitude: the key of a negative float is minus its magnitude bits, the key of a positive
    float is its bits. Integers are their own keys.

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
    """Return :func:`keys` of a NumPy array, computed by the calling thread alone; the result may share its memory."""
    if scores.dtype.kind != "f":
        return scores
    bits: Array = scores.view(f"i{scores.dtype.itemsize}")
    if bits.size and bits.item(bits.argmin()) >= 0:  # five times as fast as `min`
        return bits
    sign = bits >> (np.iinfo(bits.dtype).bits - 1)
    keys = bits & np.iinfo(bits.dtype).max
    keys ^= sign
    keys -= sign
    return keys


def values(keys: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the scores of ``keys``; the inverse of :func:`keys`, with ``0.0`` for both zeros."""
    if dtype not in KEY_OF:
        return keys.to(dtype)
    if keys.device.type == "cpu":  # NumPy's passes wake no threads
        bits = keys.numpy()
        return torch.from_numpy(np.where(bits < 0, np.iinfo(bits.dtype).min - bits, bits)).view(dtype)
    return torch.where(keys < 0, torch.iinfo(keys.dtype).min - keys, keys).view(dtype)


def sortable(scores: Tensor) -> Tensor:
    """Return the scores, or their keys if NumPy cannot sort the scores fast (half precision on CPU)."""
    return keys(scores) if scores.dtype in (torch.float16, torch.bfloat16) else scores


def sort_in_place(values: Array) -> Array:
    """Sort a NumPy array ascending, in place; values of at most 16 bits use NumPy's radix sort."""
    values.sort(kind="stable" if values.dtype.itemsize <= 2 else None)
    return values


def sort(values: Values) -> Values:
    """Return the values in ascending order in new memory, without indices."""
    if not isinstance(values, Tensor):
        return sort_in_place(values.copy())
    if values.device.type != "cpu":
        return torch.sort(values).values
    return torch.from_numpy(sort(values.numpy()))


def sort_segments(values: Tensor, offsets: Any) -> Tensor:
    """Return the sorted rows of (b, N) values that ascend from segment to segment already.

    On CPU, segments are sorted one by one, or several small ones at once. They fit in cache, which halves the time.

    Args:
        values: (b, N) integers; no value of a segment is below a value of an earlier segment.
        offsets: (S + 1,) native boundaries of the segments.
    """
    if values.device.type != "cpu":
        return sort(values)
    out = values.numpy().copy()
    wanted = np.arange(0, out.shape[1], _ITEMS_A_SORT)
    cuts = np.unique(offsets[np.searchsorted(offsets, wanted)]).tolist()
    for first, last in itertools.pairwise([*cuts, out.shape[1]]):
        sort_in_place(out[:, first:last])
    return torch.from_numpy(out)


def argsort(values: Tensor) -> Tensor:
    """Return the indices that sort ``values`` ascending; equal values are in any order."""
    if values.device.type != "cpu":
        return torch.argsort(values)
    return torch.from_numpy(np.argsort(values.numpy()))


def stable_argsort(keys: Tensor, bound: int) -> Tensor:
    """Return the indices that sort integers in [0, bound) ascending; equal ones keep their order.

    On CPU, integers below 2^16 use NumPy's radix sort. Otherwise a number and its index are packed into one
    int64 and sorted as values, if 63 bits suffice for both.
    """
    if keys.device.type == "cpu" and (keys.itemsize <= 2 or bound <= 1 << 16):
        narrow = keys.numpy() if keys.itemsize <= 2 else keys.numpy().astype(np.uint16)
        return torch.from_numpy(narrow.argsort(kind="stable"))
    bits = max(len(keys) - 1, 1).bit_length()
    if keys.device.type != "cpu" or max(bound - 1, 1).bit_length() + bits > 63:
        return torch.sort(keys, stable=True).indices
    packed: Array = np.left_shift(keys.numpy(), bits, dtype=np.int64)
    packed |= np.arange(len(packed))
    sort_in_place(packed)
    packed &= (1 << bits) - 1
    return torch.from_numpy(packed)


def lexsort(*keys: Any) -> Any:
    """Return the native indices that sort by the first of several keys, then by the next, and so on."""
    if not isinstance(keys[0], Tensor):
        return np.lexsort(keys[::-1])
    place = torch.argsort(keys[-1], stable=True)
    for key in keys[-2::-1]:
        place = place[torch.argsort(key[place], stable=True)]
    return place


def dense_ranks(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct keys ascending, and the index of each key among them, which needs fewer bits than the key."""
    distinct, ranks = torch.unique(keys.detach(), return_inverse=True)  # which has no derivative
    return distinct, ranks


def equal_range(ascending: Array, queries: Array) -> tuple[Array, Array]:
    """Count the values below each query, and at or below it.

    Equals ``searchsorted`` left and right. The second search runs only for queries that occur more than once. The
    clipped access to the last value can only cause an unnecessary second search.

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
    """Return ``values.bool()``, on CPU by NumPy.

    torch distributes a pass over this many values to its OpenMP threads. They wait for the next pass by spinning and
    compete with our own threads, which costs milliseconds if processors are few or shared.
    """
    if values.dtype == torch.bool or values.device.type != "cpu":
        return values.bool()
    return torch.from_numpy(values.numpy().astype(bool))


def as_rows(columns: Tensor) -> Tensor:
    """Transpose (N, C) to (C, N) in new memory, on CPU by tiles that stay in cache, three times as fast as at once."""
    rows = columns.t()
    if rows.is_contiguous():
        return rows.clone()
    if not columns.is_cpu or columns.numel() <= _ITEMS_A_TILE:
        return rows.contiguous()
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    width = min(len(rows), COLUMNS_A_TASK)
    for first in range(0, len(rows), width):
        for tile in blocks(slice(0, len(columns)), _ITEMS_A_TILE // width):
            out[first : first + width, tile].copy_(rows[first : first + width, tile])
    return out


def workers(size: int) -> int:
    """Return the number of threads to start for ``size`` values: one for small inputs, else torch's setting."""
    return min(torch.get_num_threads(), os.cpu_count() or 1) if size >= _THREADING_PAYS else 1


def slices(size: int, parts: int) -> list[slice]:
    """Split ``range(size)`` into slices of nearly equal length."""
    cuts = [size * part // parts for part in range(parts + 1)]
    return [slice(first, last) for first, last in itertools.pairwise(cuts)]


def blocks(span: slice, size: int) -> list[slice]:
    """Split ``span`` into slices of ``size``; the last one may be shorter."""
    return [slice(first, min(first + size, span.stop)) for first in range(span.start, span.stop, size)]


@contextmanager
def thread_pool(threads: int) -> Iterator[Callable[[Callable[[Task], Answer], Iterable[Task]], list[Answer]]]:
    """Yield ``pool_map(work, tasks)``, which runs tasks on the same threads and returns the results in order."""
    if threads <= 1:
        yield lambda work, tasks: [work(task) for task in tasks]
        return
    with ThreadPoolExecutor(threads) as pool:
        yield lambda work, tasks: list(pool.map(work, tasks))


@contextmanager
def torch_thread_pool(threads: int) -> Iterator[Callable[[Callable[[Task], Answer], Iterable[Task]], list[Answer]]]:
    """Yield :func:`thread_pool` for threads that each call torch, while torch's own threads are disabled.

    Otherwise torch would start its threads for each of these threads, and they would wait for work by spinning.
    """
    torch_threads = torch.get_num_threads()
    limit = torch_threads > 1 and threads > 1
    with thread_pool(threads) as pool_map:
        try:
            if limit:
                torch.set_num_threads(1)
            yield pool_map
        finally:
            if limit:
                torch.set_num_threads(torch_threads)


def run_in_threads(work: Callable[[Task], Answer], tasks: Iterable[Task], threads: int) -> list[Answer]:
    """Return ``[work(task) for task in tasks]``, computed on ``threads`` threads."""
    with thread_pool(threads) as pool_map:
        return pool_map(work, tasks)


def extremes(values: Array) -> tuple[int, int]:
    """Return the minimum and the maximum of at least one integer."""
    threads = workers(len(values))
    ends = run_in_threads(lambda part: (values[part].min(), values[part].max()), slices(len(values), threads), threads)
    lows, highs = zip(*ends, strict=True)
    return int(min(lows)), int(max(highs))


def bincount(values: Array, bins: int) -> Array:
    """Count the occurrences of each of 0 to ``bins`` - 1, (bins,) int64."""
    threads = workers(len(values))
    parts = slices(len(values), threads)
    counts = run_in_threads(lambda part: np.bincount(values[part], minlength=bins), parts, threads)
    total: Array = counts[0] if threads == 1 else np.stack(counts).sum(0)
    return total
