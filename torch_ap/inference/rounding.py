"""Where rounding ends and evidence begins: what lies below counts as zero, by one rule for all values.

Each tolerance is named by the numbers that it keeps together. Where a definition has one of its own, as COCO's matching
and its precision, it stands there.
"""

import torch
from torch import Tensor

# APs, their means and standard errors, of the same items in another order: sums of millions of numbers up to 1
SAME_VALUE = 1e-12
# APs of two of at most 3,000,000 listed rankings: sums of few terms, and two places of one hit differ by more
SAME_LISTED_VALUE = 2e-14
# a probability that is a sum of others reaches one that it equals on paper: the share of it that the sum may lack
SAME_PROBABILITY = 1e-13
_EPSILONS = 2  # each of two values is off by half an epsilon at most, and so is their difference, here twice over


def rounding(*values: Tensor) -> float:
    """How far two numbers may differ by rounding alone: a share of the largest value.

    The share is 1e-12 of float64 and whole numbers, and two epsilons of the least precise dtype otherwise (2.4e-7 of
    float32): each of two values is off by half an epsilon at most.

    Args:
        values: finite tensors of at least one value.
    """
    shares = [_EPSILONS * torch.finfo(x.dtype).eps for x in values if x.is_floating_point()]
    return max([SAME_VALUE, *shares]) * max(float(x.detach().to("cpu", torch.float64).abs().max()) for x in values)


def deviation(values: Tensor, noise: float) -> Tensor:
    """Standard deviation of (Q,) float64 values, 0 where it is not above ``noise``; NaN of one value."""
    if len(values) < 2:
        return values.new_tensor(torch.nan)
    found = values.std()
    return torch.where(found > noise, found, 0.0)
