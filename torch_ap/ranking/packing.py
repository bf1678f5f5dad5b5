"""One int64 for an item's ranking and score, so that one value sort orders the items of all rankings."""

import torch
from torch import Tensor

from torch_ap.ranking import order


def group_keys(scores: Tensor, segment: Tensor) -> tuple[Tensor, Tensor | None]:
    """int64 keys of 63 bits at most that ascend by ranking, then by descending score; with what turns them back.

    Args:
        scores: (N,) any real dtype, no NaN.
        segment: (N,) int64 in [0, 2^31), or of a shape that broadcasts.

    Returns:
        The keys, and for scores of 64 bits the distinct ones, of which a key then holds the rank.
    """
    keys, levels = order.keys(scores), None
    if keys.dtype == torch.int64:
        levels, keys = order.dense_ranks(keys)
        keys = keys.to(torch.int32)
    top = torch.iinfo(keys.dtype).max
    return (segment << 32) | (top - keys.to(torch.int64)), levels


def scores_of(group_keys: Tensor, levels: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The scores in ``group_keys``, as ``dtype``."""
    down = group_keys & 0xFFFFFFFF
    if levels is not None:
        return order.values(levels[torch.iinfo(torch.int32).max - down], dtype)
    key_dtype = order.keys(torch.empty(0, dtype=dtype)).dtype
    return order.values((torch.iinfo(key_dtype).max - down).to(key_dtype), dtype)
