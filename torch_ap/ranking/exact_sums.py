"""Sums of weights that do not depend on the order of adding, and so on nothing that changes it.

A weight is split into slices of 21 bits, each a whole number of the same small unit in all items of a ranking. Of fewer
than 2^32 items every sum of one slice fits into the 53 bits of a float64, so that it is exact in any order
(Ogita, Rump & Oishi 2005, extraction of high-order parts); the sums of the slices are then added, the smallest first.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torch_ap.ranking import segments

_ITEMS_BITS, _LEAST, _GREATEST = 32, -1022, 1023


def slices(
    weight: Tensor, offsets: Tensor, highest: Callable[[Tensor], Tensor] = lambda values: values
) -> list[Tensor]:
    """Terms that add up to the weights, of which any sum over items of one ranking is exact.

    Args:
        weight: (N,) float64 of at least 0; where a device has no float64 they are not split.
        offsets: (S + 1,) where the items of each ranking begin and end.
        highest: the greatest of each value over all processes that have a part of the items.
    """
    if weight.dtype != torch.float64:
        return [weight]
    exponent = torch.frexp(highest(segments.maximum(weight, offsets, least=0.0))).exponent.to(torch.int64)
    found, rest = [], weight
    while True:
        exponent = exponent + _ITEMS_BITS
        power = ((exponent.clamp(_LEAST, _GREATEST) - _LEAST + 1) << 52).view(torch.float64)  # of 2, exactly
        unit = segments.each_entry(power, offsets)
        high = (rest + unit) - unit
        found.append(high)
        rest = rest - high
        left = torch.stack([(rest.abs() > 0).any()]).to(torch.int64)  # not so of what is no number
        if not bool(highest(left)):
            return found
        exponent = exponent - 53


def rounded(sums: Sequence[Tensor]) -> Tensor:
    """The sum of the sums of slices."""
    total = sums[-1]
    for part in reversed(sums[:-1]):
        total = part + total
    return total
