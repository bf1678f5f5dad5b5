"""Copies of large tensors on CPU in memory that NumPy allocates.

NumPy asks Linux for huge pages, torch does not: without them new memory costs one page fault per 4 KB, and a copy of
40 MB takes three to four times as long. Such memory cannot be resized.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from torch_ap.rules import tensors

_LARGE = 1 << 22  # bytes from which on NumPy asks for huge pages


def copied(values: Tensor) -> Tensor:
    """A contiguous copy."""
    memory = _memory(values.shape, values) if values.nbytes >= _LARGE else None
    return values.clone(memory_format=torch.contiguous_format) if memory is None else memory.copy_(values)


def joined(parts: Sequence[Tensor], name: str = "preds") -> Tensor:
    """The parts, at least one, joined to one tensor; one beside which there are only empty ones is not copied.

    Different dtypes become one that holds the numbers of all. Where some parts are (N,) and others (N, C), the former
    are spread over the columns.

    Raises:
        ValueError: for dtypes that no dtype holds all of; ``name`` is what the message calls the values.
    """
    filled = [part for part in parts if len(part)] or parts
    if len(parts) == 1 or (len(filled) == 1 and all(part.ndim == filled[0].ndim for part in parts)):
        return filled[0]
    if len({(part.dtype, part.ndim) for part in parts}) > 1:
        dtype = tensors.common_dtype(name, [part.dtype for part in parts if part.numel()] or [parts[0].dtype])
        widest = max(parts, key=Tensor.dim)
        parts = [spread(part.to(dtype), widest.shape[1:]) for part in parts]
    first = parts[0]
    if first.is_meta:  # for which `torch.cat` would import the compiler, for two seconds
        return first.new_empty((sum(map(len, parts)), *first.shape[1:]))
    alike = all(part.shape[1:] == first.shape[1:] and not part.requires_grad for part in parts)
    if not alike or sum(part.nbytes for part in parts) < _LARGE:
        return torch.cat(list(parts))
    memory = _memory((sum(map(len, parts)), *first.shape[1:]), first)
    return torch.cat(list(parts)) if memory is None else torch.cat(list(parts), out=memory)


def give_back() -> None:
    """Give the system what was freed: glibc keeps what lies between pieces in use, more with every part of a file."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # other systems' libraries
        ctypes.CDLL(None).malloc_trim(0)


def spread(values: Tensor, columns: Sequence[int]) -> Tensor:
    """(N,) numbers, one per item, as (N, C), the same in every column; numbers that have columns stay."""
    return values if values.ndim > len(columns) else values[:, None].expand(-1, *columns)


def _memory(shape: Sequence[int], like: Tensor) -> Tensor | None:
    """New memory of that shape and the dtype of ``like``; None where it would be small, or on an accelerator."""
    size = int(np.prod(shape, dtype=np.int64)) * like.element_size()
    if like.device.type != "cpu" or size < _LARGE:
        return None
    return torch.from_numpy(np.empty(size, np.uint8)).view(like.dtype).view(*shape)


def check_room(name: str, bins: int, each: int) -> None:
    """Refuse a state of so many bins of so many bytes, which ``name`` asks for, where the host has less memory."""
    known = hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names
    room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else sys.maxsize
    if bins * each > room:
        raise ValueError(
            f"`{name}` must leave a state that fits into memory: {bins * each / 1e9:,.1f} GB are more than the "
            f"{room / 1e9:,.1f} GB here; each bin of each class takes {each} bytes"
        )


def sent(values: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device; a copy from the host does not make the device wait."""
    if device.type == "cuda" and values.device.type == "cpu":  # a copy from pinned memory does not stall
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)
