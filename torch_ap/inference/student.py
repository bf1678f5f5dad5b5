"""Quantiles of Student's t and the normal distribution, as tensors."""

from statistics import NormalDist

import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve


def normal_quantile(confidence_level: float) -> float:
    """The z with P(abs(Z) <= z) = confidence_level for a standard normal Z."""
    return -NormalDist().inv_cdf((1 - confidence_level) / 2)


def student_quantile(confidence_level: float, df: Tensor) -> Tensor:
    """The t with P(abs(T) <= t) = confidence_level, for Student's t with each number of degrees of freedom.

    Args:
        confidence_level: in (0, 1).
        df: floating degrees of freedom, whole or not; NaN below 1.

    Returns:
        Of the shape, dtype and device of ``df``. Equals ``scipy.stats.t.isf((1 - confidence_level) / 2, df)``.
    """
    from scipy.special import stdtrit

    # from the lower tail: (1 + confidence_level) / 2 has lost the last digits of one near 1
    t = torch.as_tensor(-stdtrit(df.to("cpu", torch.float64).numpy(), (1 - confidence_level) / 2)).to(df)
    return torch.where(df >= 1, t, torch.nan)


def student_tail(t: float, df: float) -> float:
    """P(abs(T) > t) for Student's t, with t of at least 0; equals ``2 * scipy.stats.t.sf(t, df)``."""
    from scipy.special import stdtr

    return float(2 * stdtr(df, -t))


def degrees_of_freedom(curve: HitCurve) -> Tensor:
    """Those of the interval of one ranking: its hits less one, or its misses where there are fewer: (S,) floating."""
    return segments.as_float64(torch.minimum(curve.m, curve.n - curve.m)) - 1
