"""Quantiles of Student's t and the normal distribution, on tensors, so that the default interval needs no scipy."""

from statistics import NormalDist

import torch
from torch import Tensor

_MANY = 1000
_NEAR = 10
_FRACTIONS = 200
_STEPS = 100


def normal_quantile(level: float) -> float:
    """The z with P(abs(Z) <= z) = level for a standard normal Z."""
    return NormalDist().inv_cdf(0.5 + level / 2)


def student_quantile(level: float, df: Tensor) -> Tensor:
    """The t with P(abs(T) <= t) = level, for Student's t with each number of degrees of freedom.

    Newton's method on the tail, which is convex; above 1,000 degrees of freedom the expansion in
    1 / df, whose first term left out is below 1e-12.

    Args:
        level: in (0, 1).
        df: float64 degrees of freedom, whole or not; NaN below 1.

    Returns:
        Of the shape of ``df``. Equals ``scipy.stats.t.ppf((1 + level) / 2, df)`` to 1e-10.
    """
    z = normal_quantile(level)
    few = torch.where(df >= 1, df, 1).clamp(max=_MANY)
    # from a point next to the root the first step may cross it, and all others come back from below
    t = torch.where(few > _NEAR, _expansion(z, few), z) if z < _NEAR else torch.full_like(df, z)
    for _ in range(_STEPS):
        step = (student_tail(t, few) - (1 - level)) / (2 * _density(t, few))
        t = t + step
        if not bool((step.abs() > 1e-13 * t).any()):
            break
    t = torch.where(df > _MANY, _expansion(z, df.clamp(min=1)), t)
    return torch.where(df >= 1, t, torch.nan)


def student_tail(t: Tensor, df: Tensor) -> Tensor:
    """P(abs(T) > t) = I_x(df / 2, 1 / 2) at x = df / (df + t^2), for t of at least 0."""
    square = t * t
    a, b = df / 2, torch.full_like(df, 0.5)
    x, y = df / (df + square), square / (df + square)
    far = x < (a + 1) / (a + b + 2)
    part = _beta_part(torch.where(far, x, y), torch.where(far, y, x), torch.where(far, a, b), torch.where(far, b, a))
    return torch.where(far, part, 1 - part)


def _beta_part(x: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The regularized incomplete beta function by Lentz's continued fraction, for x below its mean; y = 1 - x."""
    front = torch.exp(torch.lgamma(a + b) - torch.lgamma(a) - torch.lgamma(b) + torch.xlogy(a, x) + torch.xlogy(b, y))
    c = torch.ones_like(x)
    d = 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for k in range(1, _FRACTIONS):
        for numerator in (
            k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k)),
            -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1)),
        ):
            d = 1 / (1 + numerator * d)
            c = 1 + numerator / c
            value = value * (d * c)
        if not bool(((d * c - 1).abs() > 4e-16).any()):
            break
    return front * value / a


def _density(t: Tensor, df: Tensor) -> Tensor:
    half = (df + 1) / 2
    scale = torch.lgamma(half) - torch.lgamma(df / 2) - 0.5 * torch.log(torch.pi * df)
    return torch.exp(scale - half * torch.log1p(t * t / df))


def _expansion(z: float, df: Tensor) -> Tensor:
    """Abramowitz & Stegun 26.7.5."""
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    total = torch.zeros_like(df)
    for term in reversed(terms):
        total = (total + term) / df
    return z + total
