"""Copies of large tensors on CPU in memory that NumPy allocates.

NumPy asks Linux for huge pages, torch does not: without them fresh memory costs a page fault each 4 KB, and a copy of
40 MB takes three to four times as long. Such memory cannot be resized.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_LARGE = 1 << 22  # bytes, from where NumPy asks for huge pages


def copied(values: Tensor) -> Tensor:
    """A contiguous copy."""
    memory = _memory(values.shape, values)
    return values.clone(memory_format=torch.contiguous_format) if memory is None else memory.copy_(values)


def joined(parts: Sequence[Tensor]) -> Tensor:
    """The parts, one at least, as one tensor; a single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    alike = all(
        part.dtype == first.dtype and part.shape[1:] == first.shape[1:] and not part.requires_grad for part in parts
    )
    memory = _memory((sum(map(len, parts)), *first.shape[1:]), first) if alike else None
    return torch.cat(list(parts)) if memory is None else torch.cat(list(parts), out=memory)


def _memory(shape: Sequence[int], like: Tensor) -> Tensor | None:
    """New memory of that shape, of the dtype of ``like``; None where it would not be large, or on an accelerator."""
    size = int(np.prod(shape, dtype=np.int64)) * like.element_size()
    if like.device.type != "cpu" or size < _LARGE:
        return None
    return torch.from_numpy(np.empty(size, np.uint8)).view(like.dtype).view(*shape)


def sent(values: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device, which is not made to wait where it comes from the host."""
    if device.type == "cuda" and values.device.type == "cpu":  # a copy from pinned memory does not stall
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)
