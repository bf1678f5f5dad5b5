"""Differences of harmonic numbers, to full precision at any size.

A difference of prefix sums or of digamma values loses all its digits once the ranks are large (at rank 10^8 the error
is 32%). On CPU a table holds the first harmonic numbers as sums of two floats each, whose differences lose nothing.
Beyond the table the first terms are added up and the rest comes from ``log1p`` with the Euler-Maclaurin corrections of
DeTemple and Wang, in which nothing large cancels.
"""

import functools
import itertools
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking.order import Array

Values = TypeVar("Values", Tensor, Array)

_TERMS = 16
_KEPT = (1 << 13) + 1
_BITS = 110  # of the fixed point in which they are summed
_CORRECTIONS = (1 / 24, -7 / 960, 31 / 8064, -127 / 30720, 511 / 67584)


def harmonic_difference(start: Values, length: Values) -> Values:
    """H(start + length) - H(start) = sum of 1 / (start + j) for j = 1 .. length, elementwise.

    Args:
        start: float64 whole numbers of at least 0.
        length: float64 whole numbers of at least 0.
    """
    if isinstance(start, Tensor):
        if not start.is_cpu:
            return _by_terms(start, length)
        flat = harmonic_difference(start.reshape(-1).numpy(), length.reshape(-1).numpy())
        return torch.from_numpy(flat).reshape(start.shape)
    end = start + length
    beyond = end >= _KEPT
    if not np.count_nonzero(beyond):
        return _looked_up(start, end)
    total = _looked_up(np.where(beyond, 0, start), np.where(beyond, 0, end))
    total[beyond] = _by_terms(torch.from_numpy(start[beyond]), torch.from_numpy(length[beyond])).numpy()
    return total


def harmonic_step(start: int, length: int) -> float:
    """:func:`harmonic_difference` of two numbers, to the same bits."""
    if start + length >= _KEPT:
        return float(harmonic_difference(np.array([float(start)]), np.array([float(length)]))[0])
    numbers = _numbers()
    parts: complex = numbers.item(start + length) - numbers.item(start)
    return parts.real + parts.imag


def _looked_up(start: Array, end: Array) -> Array:
    """The difference of the large parts is rounded once; the error of the small parts lies below the last bit."""
    numbers = _numbers()
    parts = numbers.take(end.astype(np.intp)) - numbers.take(start.astype(np.intp))
    difference: Array = parts.real + parts.imag
    return difference


@functools.cache
def _numbers() -> Array:
    """The harmonic numbers below ``_KEPT``, summed as whole numbers: H(n) rounded; the rest as the imaginary part."""
    one = 1 << _BITS
    sums = list(itertools.accumulate((one // n for n in range(1, _KEPT)), initial=0))
    large = [x / one for x in sums]
    return np.array([complex(y, (x - int(y * one)) / one) for x, y in zip(sums, large, strict=True)])


def _by_terms(start: Tensor, length: Tensor) -> Tensor:
    total = torch.zeros_like(start)
    longest = int(length.max()) if length.numel() else 0
    for j in range(1, min(longest, _TERMS) + 1):
        total += torch.where(length >= j, 1 / (start + j), 0)
    if longest > _TERMS:
        longer = length > _TERMS
        total[longer] += _tail(start[longer], length[longer])
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
