"""Copies of large tensors on CPU in memory allocated by NumPy, and transfers to devices.

NumPy requests huge pages from Linux, torch does not. Without huge pages, new memory costs one page fault per 4 KB, and
a copy of 40 MB takes three to four times as long. Memory from NumPy cannot be resized.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import tensors

_LARGE = 1 << 22  # bytes from which NumPy requests huge pages


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
    filled = [part for part in parts if len(part)] or parts
    if len(parts) == 1 or (len(filled) == 1 and all(part.ndim == filled[0].ndim for part in parts)):
        return filled[0]
    if len({(part.dtype, part.ndim) for part in parts}) > 1:
        dtype = tensors.common_dtype(name, [part.dtype for part in parts if part.numel()] or [parts[0].dtype])
        widest = max(parts, key=Tensor.dim)
        parts = [expand_columns(part.to(dtype), widest.shape[1:]) for part in parts]
    first = parts[0]
    if first.is_meta:  # `torch.cat` of meta tensors imports the compiler, which takes two seconds
        return first.new_empty((sum(map(len, parts)), *first.shape[1:]))
    fits = all(part.shape[1:] == first.shape[1:] and not part.requires_grad for part in parts)
    if not fits or sum(part.nbytes for part in parts) < _LARGE:
        return torch.cat(list(parts))
    memory = _memory((sum(map(len, parts)), *first.shape[1:]), first)
    return torch.cat(list(parts)) if memory is None else torch.cat(list(parts), out=memory)


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
