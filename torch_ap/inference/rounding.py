"""Where rounding ends and evidence begins: what lies below counts as zero, by one rule for all values."""

import torch
from torch import Tensor

SAME = 1e-12  # APs of the same hits, added up in another order, differ by less
SAME_OF_IMAGES = 1e-10  # mean APs over images: their envelopes are rounded as whole numbers up to 2 S
_ULPS = 2


def rounding(*values: Tensor) -> float:
    """How far two numbers may differ by rounding alone: a share of the largest value.

    The share is 1e-12 of float64 and whole numbers, and two epsilons of the least precise dtype otherwise (2.4e-7 of
    float32): each of two values is off by half an epsilon at most.

    Args:
        values: finite tensors of at least one value.
    """
    shares = [_ULPS * torch.finfo(x.dtype).eps for x in values if x.is_floating_point()]
    return max([SAME, *shares]) * max(float(x.detach().to("cpu", torch.float64).abs().max()) for x in values)


def deviation(values: Tensor, noise: float) -> Tensor:
    """Standard deviation of (Q,) float64 values, 0 where it is not above ``noise``; NaN of one value."""
    if len(values) < 2:
        return values.new_tensor(torch.nan)
    found = values.std()
    return torch.where(found > noise, found, 0.0)
