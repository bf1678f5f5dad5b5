"""Samples that came more than once: padded by a sampler, which repeats items so that all ranks have as many.

Of several copies the first counts, in the order of ranks, then of updates; the others are as if they had never come,
with whatever scores they have. That they are copies is checked as far as it is cheap: their targets must be the same,
and of images only the numbers of ground truths are compared.
"""

from typing import Any

import torch
from torch import Tensor

from torch_ap.rules import tensors
from torch_ap.runtime import memory

STATE = "sample_ids"


def checked(value: Any, shape: torch.Size, device: torch.device, of: str) -> Tensor | None:
    """The ids of a batch as flat int64, in memory of their own; None for none.

    Args:
        value: integers, one per sample.
        shape: of the samples.
        device: of the batch.
        of: what a sample is, for messages.
    """
    if value is None:
        return None
    tensors.tensor(STATE, value, hint=" or None")
    tensors.integers(STATE, value)
    if value.shape != shape:
        raise ValueError(f"`{STATE}` must be one per {of}, {tuple(shape)}, got shape {tuple(value.shape)}")
    if value.device != device:
        raise ValueError(f"`{STATE}` must lie on the device of the batch, {device}, got {value.device}")
    return memory.copied(value.detach().flatten()).to(torch.int64)


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
