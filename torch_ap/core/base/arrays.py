"""Operations shared by NumPy and torch: NumPy arrays on CPU, tensors on other devices.

A NumPy pass over a few values takes a third of torch's time. It wakes no threads, which on a busy machine wait for one
another longer than the work takes. A function converts its tensors to *native* values, uses only operations with the
same names and rounding in both libraries (arithmetic, comparisons, indexing, ``where``, ``minimum``, ``isnan``), and
returns a tensor.

Full float32 precision of matrix products, independent of torch's global settings.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

_FIRST = np.zeros(1, np.int64)

quiet = np.errstate(all="ignore")  # a decorator: 0 / 0 is NaN in both libraries, but only NumPy warns


def native(values: Any) -> Any:
    """Return a tensor on CPU as an array that shares its memory; other values are unchanged."""
    return values.numpy() if isinstance(values, Tensor) and values.is_cpu else values


def tensor(values: Any) -> Tensor:
    """Return native values as a tensor that shares their memory."""
    return values if isinstance(values, Tensor) else torch.from_numpy(values)


def namespace(values: Any) -> Any:
    """Return the library of native values, ``numpy`` or ``torch``."""
    return torch if isinstance(values, Tensor) else np


def at_least(values: Any, bound: int | float) -> Any:
    """Return the values, raised to the bound."""
    return values.clamp(min=bound) if isinstance(values, Tensor) else np.maximum(values, bound)


def at_most(values: Any, bound: int | float) -> Any:
    """Return the values, lowered to the bound."""
    return values.clamp(max=bound) if isinstance(values, Tensor) else np.minimum(values, bound)


def minimum(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers, or of each pair of native values."""
    return min(a, b) if isinstance(a, int) else at_most(a, b)


def maximum(a: Any, b: Any) -> Any:
    """Return the larger of two numbers, or of each pair of native values."""
    return max(a, b) if isinstance(a, int) else at_least(a, b)


def places(flags: Any) -> Any:
    """Return the indices of the set flags, int64."""
    return flags.nonzero().squeeze(1) if isinstance(flags, Tensor) else flags.nonzero()[0]


def take(values: Any, places: Any) -> Any:
    """Return the values at indices of the last dimension; for rows three times as fast as NumPy's brackets."""
    return values[..., places] if isinstance(values, Tensor) else values.take(places, -1)


def repeat(values: Any, counts: Any) -> Any:
    """Repeat each value of the last dimension by its count."""
    return torch.repeat_interleave(values, counts, -1) if isinstance(values, Tensor) else values.repeat(counts, -1)


def below(ascending: Any, values: Any) -> Any:
    """Count the ascending numbers below each value."""
    return (torch if isinstance(ascending, Tensor) else np).searchsorted(ascending, values)


def raise_to(values: Any, places: Any, least: Any) -> None:
    """Raise the (N,) values at these indices, which may repeat, to at least ``least``, in place."""
    if isinstance(values, Tensor):
        values.scatter_reduce_(0, places, least, "amax")
    else:
        np.maximum.at(values, places, least)


def cast(values: Any, like: Any) -> Any:
    """Return the values in the dtype of other native values."""
    return values.to(like.dtype) if isinstance(values, Tensor) else values.astype(like.dtype, copy=False)


def some(flags: Any) -> bool:
    """Return whether any flag is set."""
    return bool(flags.any() if isinstance(flags, Tensor) else np.count_nonzero(flags))


def count(flags: Any) -> int:
    """Count the set flags."""
    return int(flags.sum() if isinstance(flags, Tensor) else np.count_nonzero(flags))


def every(flags: Tensor) -> bool:
    """Return whether all flags are set; False on an accelerator, which would have to synchronize."""
    return flags.is_cpu and bool(np.count_nonzero(flags.numpy()) == flags.shape[0])


def whole_sum(values: Any) -> Any:
    """Return the sum of (N,) values, at least one, as (1,)."""
    return values.sum(-1, keepdim=True) if isinstance(values, Tensor) else np.add.reduceat(values, _FIRST)


def joined(first: Any, second: Any) -> Any:
    """Concatenate two native values."""
    return torch.cat([first, second]) if isinstance(first, Tensor) else np.concatenate([first, second])


def flipped(values: Any) -> Any:
    """Reverse the values."""
    return values.flip(0) if isinstance(values, Tensor) else values[::-1]


def full(number: int, value: int | float, like: Any) -> Any:
    """Return ``number`` copies of a value in the dtype and on the device of native values."""
    return like.new_full((number,), value) if isinstance(like, Tensor) else np.full(number, value, like.dtype)


def empty(number: int, like: Any) -> Any:
    """Return uninitialized memory for ``number`` values in the dtype and on the device of native values."""
    return like.new_empty(number) if isinstance(like, Tensor) else np.empty(number, like.dtype)


def steps(number: int, like: Any) -> Any:
    """Return 0, 1, 2, ... in the dtype and on the device of native values."""
    if isinstance(like, Tensor):
        return torch.arange(number, dtype=like.dtype, device=like.device)
    return np.arange(number, dtype=like.dtype)


_FULL = ("none", "ieee")
_lock = threading.Lock()
_threads_inside = 0
_undo: list[Callable[[], None]] = []


@contextmanager
def full_precision(device: torch.device) -> Generator[None, None, None]:
    """Disable autocast, TF32 and bfloat16, which round scores so that they tie.

    The settings are global to the process: the first thread changes them, and the last thread restores them.
    """
    global _threads_inside
    with _lock:
        if not _threads_inside:
            _undo.extend(_set_backends() if hasattr(torch.backends.mkldnn, "matmul") else _set_globally())
        _threads_inside += 1
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        with _lock:
            _threads_inside -= 1
            while not _threads_inside and _undo:
                _undo.pop()()


def _set_backends() -> Generator[Callable[[], None], None, None]:
    """Set full precision, and yield the functions that restore each setting.

    The general setting is first, so that special settings continue to inherit it. torch has these settings since 2.9.
    """
    backends: Any = torch.backends
    for place in (backends, backends.cudnn, backends.cuda.matmul, backends.mkldnn.matmul):
        before = place.fp32_precision
        if before not in _FULL:
            place.fp32_precision = "ieee"
            yield partial(setattr, place, "fp32_precision", before)


def _set_globally() -> Generator[Callable[[], None], None, None]:
    """Set full precision in torch before 2.9, and yield the function that restores it."""
    before = torch.get_float32_matmul_precision()
    if before != "highest":
        torch.set_float32_matmul_precision("highest")
        yield partial(torch.set_float32_matmul_precision, before)
