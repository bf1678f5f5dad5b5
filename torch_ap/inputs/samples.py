"""Samples that came more than once: padded by a sampler, which repeats items so that all ranks have as many.

Of several copies the first counts, in the order of ranks, then of updates; the others are as if they had never come,
with whatever scores they have. That they are copies is checked as far as it is cheap: their targets must be the same,
and of images only the numbers of ground truths are compared.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.rules import tensors
from torch_ap.rules.messages import refuse
from torch_ap.runtime import memory

STATE = "sample_ids"
SampleIds: TypeAlias = Tensor | Sequence[int] | None


def checked(value: Any, shape: torch.Size, device: torch.device, of: str) -> Tensor | None:
    """The ids of a batch as flat int64, in memory of their own; None for none.

    Args:
        value: integers, one per sample, as a tensor or a list.
        shape: of the samples.
        device: of the batch.
        of: what a sample is, for messages.
    """
    if value is None:
        return None
    if isinstance(value, list | tuple):
        value = memory.sent(_of_list(value), device)
    tensors.tensor(STATE, value, hint=", a list of integers or None")
    tensors.integers(STATE, value)
    if value.shape != shape:
        raise ValueError(f"`{STATE}` must be one per {of}, {tuple(shape)}, got shape {tuple(value.shape)}")
    if value.device != device:
        raise ValueError(f"`{STATE}` must lie on the device of the batch, {device}, got {value.device}")
    return memory.copied(value.detach().flatten()).to(torch.int64)


def _of_list(value: Sequence[Any]) -> Tensor:
    """Integers as a tensor; an error that names the first entry that is none."""
    try:
        ids = np.asarray(value)
    except (TypeError, ValueError):  # lists of unequal length, tensors of an accelerator
        ids = np.empty(0)
    if len(value) and (ids.dtype.kind != "i" or ids.ndim > 1):
        place = next((place for place, x in enumerate(value) if not _is_id(x)), 0)
        also = "; number names, as `torch_ap.IndexEncoder` does" if isinstance(value[place], str) else ""
        refuse(f"{STATE}[{place}]", f"must be an integer that int64 holds{also}", value[place], TypeError)
    return torch.from_numpy(ids.astype(np.int64))


def _is_id(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool) and -(2**63) <= int(x) < 2**63


def first_copies(ids: Tensor, facts: Tensor, unlike_in: str = "targets") -> Tensor | None:
    """Which samples are the first of their id: (N,) bool; None for all.

    Args:
        ids: (N,) int64.
        facts: (N, ...) what copies of one sample must have in common.
        unlike_in: what these are, for the message.

    Raises:
        ValueError: where an id stands for two different samples.
    """
    order = ids.argsort(stable=True)
    ordered = ids[order]
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[1:] = ordered[1:] != ordered[:-1]
    if bool(new.all()):
        return None
    first = order[new][new.cumsum(0) - 1]
    one, other = facts[order], facts[first]
    unlike = (one != other) & ((one == one) | (other == other))  # NaN is no other than NaN
    unlike = unlike.flatten(1).any(1) if facts.ndim > 1 else unlike
    if bool(unlike.any()):
        shown = int(ordered[unlike][0])
        raise ValueError(f"`{STATE}` must tell samples apart: {shown} has come with two different {unlike_in}")
    return torch.zeros_like(new).index_fill_(0, order[new], True)
