"""Operations shared by NumPy and torch: NumPy arrays on CPU, tensors on other devices.

A NumPy pass over a few values takes a third of torch's time. It wakes no threads, which on a busy machine wait for one
another longer than the work takes. A function converts its tensors to *native* values, uses only operations with the
same names and rounding in both libraries (arithmetic, comparisons, indexing, ``where``, ``minimum``, ``isnan``), and
returns a tensor.

Copies of large tensors on CPU use memory allocated by NumPy, which requests huge pages from Linux; torch does not.
Without huge pages, new memory costs one page fault per 4 KB, and a copy of 40 MB takes three to four times as long.
Memory from NumPy cannot be resized.

Full float32 precision of matrix products, independent of torch's global settings.
"""

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

_FIRST = np.zeros(1, np.int64)
_MANY = 16  # number of tensors from which checks in C are faster
_dtype = attrgetter("dtype")
_LARGE = 1 << 22  # bytes from which NumPy requests huge pages
_EXACT_FLOATS = {torch.int16: torch.float32, torch.int32: torch.float64}  # every float represents narrower integers

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


def clamp_min(values: Any, bound: int | float) -> Any:
    """Return the values, raised to the bound."""
    return values.clamp(min=bound) if isinstance(values, Tensor) else np.maximum(values, bound)


def clamp_max(values: Any, bound: int | float) -> Any:
    """Return the values, lowered to the bound."""
    return values.clamp(max=bound) if isinstance(values, Tensor) else np.minimum(values, bound)


def minimum(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers, or of each pair of native values."""
    return min(a, b) if isinstance(a, int) else clamp_max(a, b)


def maximum(a: Any, b: Any) -> Any:
    """Return the larger of two numbers, or of each pair of native values."""
    return max(a, b) if isinstance(a, int) else clamp_min(a, b)


def true_indices(flags: Any) -> Any:
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


@quiet
def raise_to(values: Any, places: Any, least: Any) -> None:
    """Raise the (N,) values at these indices, which may repeat, to at least ``least``, in place."""
    if isinstance(values, Tensor):
        values.scatter_reduce_(0, places, least, "amax")
    else:
        np.maximum.at(values, places, least)


def cast(values: Any, like: Any) -> Any:
    """Return the values in the dtype of other native values."""
    return values.to(like.dtype) if isinstance(values, Tensor) else values.astype(like.dtype, copy=False)


def any_true(flags: Any) -> bool:
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


def join(first: Any, second: Any) -> Any:
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


def arange_like(number: int, like: Any) -> Any:
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


def copy(values: Tensor) -> Tensor:
    """Return a contiguous copy."""
    memory = _memory(values.shape, values) if values.nbytes >= _LARGE else None
    return values.clone(memory_format=torch.contiguous_format) if memory is None else memory.copy_(values)


def concatenate(parts: Sequence[Tensor], name: str = "preds") -> Tensor:
    """Concatenate at least one tensor; if only one is not empty, it is returned without a copy.

    Different dtypes are converted to a dtype that represents the numbers of all. If some parts are (N,) and others (N,
    C), the (N,) parts are expanded to C columns.

    Raises:
        ValueError: for dtypes without such a common dtype; ``name`` is the name of the values in the message.
    """
    if len(parts) == 1:
        return parts[0]
    if len(parts) > _MANY and (joined := _concatenate_many(parts)) is not None:
        return joined
    shapes = [part.shape for part in parts]  # `len` of a tensor takes five times as long
    filled = [part for part, shape in zip(parts, shapes, strict=True) if shape[0]] or parts
    if len(filled) == 1 and all(len(shape) == filled[0].ndim for shape in shapes):
        return filled[0]
    if len({part.dtype for part in parts}) > 1 or len(set(map(len, shapes))) > 1:
        dtype = common_dtype(name, [part.dtype for part in parts if part.numel()] or [parts[0].dtype])
        widest = max(parts, key=Tensor.dim)
        parts = [expand_columns(part.to(dtype), widest.shape[1:]) for part in parts]
        shapes = [part.shape for part in parts]
    first, rows = parts[0], sum(shape[0] for shape in shapes)
    if first.is_meta:  # `torch.cat` of meta tensors imports the compiler, which takes two seconds
        return first.new_empty((rows, *shapes[0][1:]))
    memory = None
    if len({shape[1:] for shape in shapes}) == 1 and not any(part.requires_grad for part in parts):
        memory = _memory((rows, *shapes[0][1:]), first)
    return torch.cat(list(parts)) if memory is None else torch.cat(list(parts), out=memory)


def _concatenate_many(parts: Sequence[Tensor]) -> Tensor | None:
    """Concatenate tensors on CPU of one dtype and as many dimensions; None for other or for large tensors.

    The checks take a fifth of the time of checks of every shape, because they run in C.
    """
    first = parts[0]
    size = sum(map(Tensor.numel, parts)) * first.element_size()
    if not first.is_cpu or size >= _LARGE or len(set(map(_dtype, parts))) > 1 or len(set(map(Tensor.dim, parts))) > 1:
        return None
    return torch.cat(list(parts))


def release_freed() -> None:
    """Return freed memory to the system, as glibc keeps freed blocks between blocks in use."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # other C libraries
        ctypes.CDLL(None).malloc_trim(0)


def expand_columns(values: Tensor, columns: Sequence[int]) -> Tensor:
    """Expand (N,) numbers, one per item, to (N, C) without a copy; numbers with columns are unchanged."""
    return values if values.ndim > len(columns) else values[:, None].expand(-1, *columns)


def _memory(shape: Sequence[int], like: Tensor) -> Tensor | None:
    """Return new memory of that shape and the dtype of ``like``; None for small memory, or on an accelerator."""
    size = int(np.prod(shape, dtype=np.int64)) * like.element_size()
    if like.device.type != "cpu" or size < _LARGE:
        return None
    return torch.from_numpy(np.empty(size, np.uint8)).view(like.dtype).view(*shape)


def check_memory(name: str, bins: int, bin_bytes: int) -> None:
    """Raise ValueError if the bins set by argument ``name`` need more memory than the host has."""
    known = hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names
    room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else sys.maxsize
    if bins * bin_bytes > room:
        raise ValueError(
            f"`{name}` must set a state that fits into memory, got {bins * bin_bytes / 1e9:,.1f} GB, more than the "
            f"{room / 1e9:,.1f} GB of this host; each bin of each class takes {bin_bytes} bytes"
        )


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device; a copy from the host to CUDA does not synchronize."""
    if device.type == "cuda" and values.device.type == "cpu":  # copies from pinned memory are asynchronous
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)


def common_dtype(name: str, dtypes: Iterable[torch.dtype]) -> torch.dtype:
    """Return the narrowest dtype that represents every number of all dtypes, so that distinct numbers remain distinct.

    torch's own promotion of int64 and float32 is float32, which rounds 2^24 + 1 to 2^24.

    Raises:
        ValueError: for int64 and floats, which have no common dtype.
    """
    distinct = set(dtypes)
    common = functools.reduce(torch.promote_types, distinct)
    if not common.is_floating_point:
        return common
    if torch.int64 in distinct:
        kinds = " and ".join(sorted(str(dtype) for dtype in distinct))
        raise ValueError(
            f"`{name}` must not be int64 if others are floating, as no dtype represents the numbers of both, got "
            f"{kinds}; if all are below 2^53, pass `{name}.double()`"
        )
    for integer, real in _EXACT_FLOATS.items():
        common = torch.promote_types(common, real) if integer in distinct else common
    return common
