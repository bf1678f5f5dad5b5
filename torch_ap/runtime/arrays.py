"""The same code for NumPy and torch: it computes on NumPy arrays on CPU, and on the tensors themselves elsewhere.

A NumPy pass over a few values takes a third of the time of torch's, and wakes no threads, which on a busy machine wait
for one another longer than the work takes. A function turns its tensors into *native* values, uses only operations
that both libraries name and round in the same way (arithmetic, comparisons, indexing, ``where``, ``minimum``,
``isnan``), and returns a tensor.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

_FIRST = np.zeros(1, np.int64)

quiet = np.errstate(all="ignore")  # a decorator: 0 / 0 is NaN in both libraries, but only NumPy warns


def native(values: Any) -> Any:
    """A tensor on CPU as an array that shares its memory, any other as it is; an array is native already."""
    return values.numpy() if isinstance(values, Tensor) and values.is_cpu else values


def tensor(values: Any) -> Tensor:
    """Native values as a tensor that shares their memory."""
    return values if isinstance(values, Tensor) else torch.from_numpy(values)


def namespace(values: Any) -> Any:
    """The library that native values belong to: ``numpy`` or ``torch``."""
    return torch if isinstance(values, Tensor) else np


def at_least(values: Any, bound: int | float) -> Any:
    """The values, with those below the bound raised to it."""
    return values.clamp(min=bound) if isinstance(values, Tensor) else np.maximum(values, bound)


def at_most(values: Any, bound: int | float) -> Any:
    """The values, with those above the bound lowered to it."""
    return values.clamp(max=bound) if isinstance(values, Tensor) else np.minimum(values, bound)


def places(flags: Any) -> Any:
    """The places where the flags are set: int64."""
    return flags.nonzero().squeeze(1) if isinstance(flags, Tensor) else flags.nonzero()[0]


def take(values: Any, places: Any) -> Any:
    """The values at these places of the last dimension; for rows in a third of the time of NumPy's brackets."""
    return values[..., places] if isinstance(values, Tensor) else values.take(places, -1)


def repeat(values: Any, counts: Any) -> Any:
    """Each value of the last dimension as often as its count says, end to end."""
    return torch.repeat_interleave(values, counts, -1) if isinstance(values, Tensor) else values.repeat(counts, -1)


def below(ascending: Any, values: Any) -> Any:
    """How many of the ascending numbers lie below each value."""
    return (torch if isinstance(ascending, Tensor) else np).searchsorted(ascending, values)


def raise_to(values: Any, places: Any, least: Any) -> None:
    """Raise the (N,) values at these places, which may repeat, to at least these, in place."""
    if isinstance(values, Tensor):
        values.scatter_reduce_(0, places, least, "amax")
    else:
        np.maximum.at(values, places, least)


def cast(values: Any, like: Any) -> Any:
    """The values in the dtype of other native ones."""
    return values.to(like.dtype) if isinstance(values, Tensor) else values.astype(like.dtype, copy=False)


def some(flags: Any) -> bool:
    """Whether any flag is set."""
    return bool(flags.any() if isinstance(flags, Tensor) else np.count_nonzero(flags))


def count(flags: Any) -> int:
    """How many flags are set."""
    return int(flags.sum() if isinstance(flags, Tensor) else np.count_nonzero(flags))


def every(flags: Tensor) -> bool:
    """Whether all flags are set; False on an accelerator, where looking would stall it."""
    return flags.is_cpu and bool(np.count_nonzero(flags.numpy()) == flags.shape[0])


def whole_sum(values: Any) -> Any:
    """(N,) values, one at least, to their sum, (1,)."""
    return values.sum(-1, keepdim=True) if isinstance(values, Tensor) else np.add.reduceat(values, _FIRST)


def joined(first: Any, second: Any) -> Any:
    """Both, end to end."""
    return torch.cat([first, second]) if isinstance(first, Tensor) else np.concatenate([first, second])


def flipped(values: Any) -> Any:
    """The values from the last to the first."""
    return values.flip(0) if isinstance(values, Tensor) else values[::-1]


def full(number: int, value: int | float, like: Any) -> Any:
    """A value so many times, in the dtype and on the device of native values."""
    return like.new_full((number,), value) if isinstance(like, Tensor) else np.full(number, value, like.dtype)


def empty(number: int, like: Any) -> Any:
    """Memory for so many values in the dtype and on the device of native values, with anything in it."""
    return like.new_empty(number) if isinstance(like, Tensor) else np.empty(number, like.dtype)


def steps(number: int, like: Any) -> Any:
    """0, 1, 2, ... in the dtype and on the device of native values."""
    if isinstance(like, Tensor):
        return torch.arange(number, dtype=like.dtype, device=like.device)
    return np.arange(number, dtype=like.dtype)
