"""Sample ids: identify samples that occur repeatedly, such as the padding of a distributed sampler.

The first copy of a sample counts, in the order of processes, then of updates. Later copies are ignored for any scores.
Copies must have equal targets, or for images equal numbers of ground truths, so that most wrong ids raise an error.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, tensors
from torch_ap.core.base.class_names import is_int64
from torch_ap.core.base.messages import raise_invalid

STATE = "sample_ids"
GROUPS = "groups"  # the group of each sample, such as a patient
QUERY_GROUPS = ("grouped_queries", "query_groups")  # queries with a group, absent for rows, and the group of each
ADDED = (STATE, GROUPS, *QUERY_GROUPS)  # states that older checkpoints lack
SampleIds: TypeAlias = Tensor | Sequence[int] | None


def validate_ids(name: str, value: Any, shape: torch.Size, device: torch.device, unit: str) -> Tensor | None:
    """Return the ids of a batch as a copy, flat int64; None for None.

    Args:
        name: name of the argument.
        value: integers, one per sample, as a tensor or a list.
        shape: shape of the samples.
        device: device of the batch.
        unit: name of a sample in messages.
    """
    if value is None:
        return None
    if isinstance(value, list | tuple):
        value = arrays.to_device(_ids_from_list(name, value), device)
    tensors.tensor(name, value, hint=", a list of integers or None")
    tensors.integers(name, value)
    if value.shape != shape:
        raise ValueError(f"`{name}` must be one per {unit}, {tuple(shape)}, got shape {tuple(value.shape)}")
    if value.device != device:
        raise ValueError(f"`{name}` must be on the device of the batch, {device}, got {value.device}")
    return arrays.copy(value.detach().flatten()).to(torch.int64)


def _ids_from_list(name: str, value: Sequence[Any]) -> Tensor:
    """Return a list of integers as a tensor, or raise TypeError for the first entry that is not an integer."""
    try:
        ids = np.asarray(value)
    except (TypeError, ValueError):  # ragged lists, tensors on an accelerator
        ids = np.empty(0)
    if len(value) and (ids.dtype.kind != "i" or ids.ndim > 1):
        first = next((index for index, x in enumerate(value) if not is_int64(x)), 0)
        advice = "; convert names with `torch_ap.IndexEncoder`" if isinstance(value[first], str) else ""
        raise_invalid(f"{name}[{first}]", f"must be an integer that int64 represents{advice}", value[first], TypeError)
    return torch.from_numpy(ids.astype(np.int64))


def places_of_ids(ids: Tensor, wanted: Tensor, name: str) -> Tensor:
    """Return the place of each wanted id among the ids of another metric, (N,) int64.

    Args:
        ids: (N,) int64, different.
        wanted: (N,) int64, different.
        name: the metric with ``ids``, for the message.

    Raises:
        ValueError: with the first id that only one of the metrics has.
    """
    for own, other, text in ((wanted, ids, "lacks"), (ids, wanted, "alone has")):
        alone = own[~torch.isin(own, other)]
        if len(alone):
            raise ValueError(f"{name} must have been updated with the same `{STATE}`, but it {text} {int(alone[0])}")
    places: Tensor = ids.argsort()[wanted.argsort().argsort()]
    return places


def first_copies(ids: Tensor, key: Tensor, name: str = "targets") -> Tensor | None:
    """Return which samples are the first of their id, (N,) bool; None if all are.

    Args:
        ids: (N,) int64.
        key: (N, ...) values that must be equal for all copies of a sample.
        name: name of the values in the message.

    Raises:
        ValueError: if two different samples have one id.
    """
    order = ids.argsort(stable=True)
    ordered = ids[order]
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[1:] = ordered[1:] != ordered[:-1]
    if bool(new.all()):
        return None
    first = order[new][new.cumsum(0) - 1]
    own, expected = key[order], key[first]
    differs = (own != expected) & ((own == own) | (expected == expected))  # NaN equals NaN here
    differs = differs.flatten(1).any(1) if key.ndim > 1 else differs
    if bool(differs.any()):
        raise ValueError(
            f"`{STATE}` must be unique per sample, got {int(ordered[differs][0])} with two different {name}"
        )
    return torch.zeros_like(new).index_fill_(0, order[new], True)
