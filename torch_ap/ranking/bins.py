"""Counts of scores between thresholds: what a ranking looks like in constant memory.

A bin holds the scores from one threshold up to the next; bins are tie groups to every measure. No (items x thresholds)
table is made: each score finds its bin by binary search, and one scatter counts them.
"""

from numbers import Integral

import torch
from torch import Tensor

from torch_ap.ranking import segments

_BEYOND, _STEP = 2.0**63, 1024  # the first float64 that int64 does not hold, and how far below it the last lies


def thresholds_from(thresholds: int | list[float] | Tensor) -> Tensor:
    """Thresholds in ascending order, on CPU: T equal steps from 0 to 1 for an int, else those given, sorted.

    Fractions that are not in a tensor are float32, whatever torch's default dtype.
    """
    if isinstance(thresholds, int):
        return torch.linspace(0, 1, thresholds, dtype=torch.float32, device="cpu")
    if isinstance(thresholds, Tensor):
        return thresholds.detach().cpu().sort().values
    dtype = None if all(isinstance(x, Integral) for x in thresholds) else torch.float32
    return torch.tensor(thresholds, dtype=dtype, device="cpu").sort().values


def bin_of(scores: Tensor, thresholds: Tensor) -> Tensor:
    """The bin of each score, counted from the top: 0 at or above the highest threshold, T below the lowest.

    Scores and thresholds are compared in the wider of their dtypes; of whole numbers and fractions, thresholds take the
    dtype of the scores and are rounded up, so that the same scores reach them.
    """
    reachable = None
    if scores.is_floating_point() and not thresholds.is_floating_point():
        thresholds = _rounded_up(thresholds)
    elif thresholds.is_floating_point() and not scores.is_floating_point():
        up = segments.as_float64(thresholds).ceil()
        reachable = (up < _BEYOND).sum()
        thresholds = up.clamp(-_BEYOND, _BEYOND - _STEP).to(torch.int64)
    dtype = torch.promote_types(scores.dtype, thresholds.dtype)
    if dtype in (torch.float16, torch.bfloat16):
        dtype = torch.float32
    below = torch.searchsorted(thresholds.to(dtype), scores.to(dtype).contiguous(), right=True)
    return len(thresholds) - (below if reachable is None else torch.minimum(below, reachable))


def _rounded_up(whole: Tensor) -> Tensor:
    """The least float64 that is at least each whole number."""
    near = segments.as_float64(whole)
    short = (near < _BEYOND) & (near.clamp(max=_BEYOND - _STEP).to(torch.int64) < whole)
    return torch.where(short, torch.nextafter(near, torch.full_like(near, torch.inf)), near)


def count(
    scores: Tensor, relevant: Tensor, thresholds: Tensor, *, weight: Tensor | None = None, counted: Tensor | None = None
) -> Tensor:
    """Misses and hits in each bin.

    Args:
        scores: (N,) for one ranking, (N, C) for one per column.
        relevant: of the shape of ``scores``, 0/1; or (N,) class ids for (N, C) scores.
        thresholds: (T,) ascending.
        weight: (N,) or the shape of ``scores``.
        counted: bool, of the shape of ``relevant``: which items count. Default: all.

    Returns:
        (C, T + 1, 2), highest bin first, misses then hits; int64, or float64 with weights. C is 1 for (N,) scores.
    """
    table = scores if scores.ndim == 2 else scores[:, None]
    columns, width = table.shape[1], len(thresholds) + 1
    column = torch.arange(columns, device=scores.device)
    hit = relevant[:, None] == column if relevant.ndim == 1 and scores.ndim == 2 else relevant.reshape(table.shape) == 1
    place = ((column * width + bin_of(table, thresholds)) * 2 + hit).flatten()
    if weight is None and counted is None:
        return segments.count(place, columns * width * 2).reshape(columns, width, 2)
    amount = torch.ones_like(place) if weight is None else segments.as_float64(spread(weight, table).flatten())
    if counted is not None:
        amount = amount * spread(counted, table).flatten()
    totals = amount.new_zeros(columns * width * 2).index_add_(0, place, amount)
    return totals.reshape(columns, width, 2)


def spread(values: Tensor, table: Tensor) -> Tensor:
    """(N,) values, one per item, to the (N, C) of the table; those of its shape stay."""
    return values if values.shape == table.shape else values[:, None].expand(table.shape)
