"""Differences of harmonic numbers, to full precision at any size.

A difference of prefix sums or of digamma values loses all its digits once the ranks are large (at rank 10^8 the error
is 32%). Here the first terms are added up and the rest comes from ``log1p`` with the Euler-Maclaurin corrections of
DeTemple and Wang, in which nothing large cancels.
"""

from typing import TypeVar

import torch
from torch import Tensor

from torch_ap.core import arrays
from torch_ap.core.order import Array

Values = TypeVar("Values", Tensor, Array)

_TERMS = 16
_CORRECTIONS = (1 / 24, -7 / 960, 31 / 8064, -127 / 30720, 511 / 67584)


def harmonic_difference(start: Values, length: Values) -> Values:
    """H(start + length) - H(start) = sum of 1 / (start + j) for j = 1 .. length, elementwise.

    Args:
        start: float64 whole numbers of at least 0.
        length: float64 whole numbers of at least 0.
    """
    xp = arrays.namespace(start)
    total: Values = xp.zeros_like(start)
    longest = int(length.max()) if 0 not in length.shape else 0
    for j in range(1, min(longest, _TERMS) + 1):
        total += xp.where(length >= j, 1 / (start + j), 0)
    if longest > _TERMS:
        longer = length > _TERMS
        tail = _tail(*(arrays.tensor(x[longer]) for x in (start, length)))
        total[longer] += tail if isinstance(start, Tensor) else tail.numpy()
    return total


def _tail(start: Tensor, length: Tensor) -> Tensor:
    """The terms after the first ones."""
    low, more = start + (_TERMS + 0.5), length - _TERMS
    return torch.log1p(more / low) + _correction(low + more) - _correction(low)


def _correction(x: Tensor) -> Tensor:
    """H(x - 1/2) - log(x) - Euler's gamma, for x > 16, to 1e-16."""
    inverse = 1 / (x * x)
    value = torch.zeros_like(x)
    for coefficient in reversed(_CORRECTIONS):
        value = (value + coefficient) * inverse
    return value
