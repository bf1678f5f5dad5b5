"""Quantiles of Student's t and the normal distribution, as tensors."""

from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Values


def normal_quantile(confidence_level: float) -> float:
    """The z with P(abs(Z) <= z) = confidence_level for a standard normal Z."""
    return -NormalDist().inv_cdf((1 - confidence_level) / 2)


def student_quantile(confidence_level: float, df: Values) -> Values:
    """The t with P(abs(T) <= t) = confidence_level, for Student's t with each number of degrees of freedom.

    Args:
        confidence_level: in (0, 1).
        df: floating degrees of freedom, whole or not, native or a tensor; below 1 the answer is NaN.

    Returns:
        Of the shape, dtype and device of ``df``. Equals ``scipy.stats.t.isf((1 - confidence_level) / 2, df)``.
    """
    from scipy.special import stdtrit

    # from the lower tail: (1 + confidence_level) / 2 has lost the last digits of one near 1
    if not isinstance(df, Tensor):
        return np.where(df >= 1, -stdtrit(df, (1 - confidence_level) / 2), np.nan)
    return torch.as_tensor(student_quantile(confidence_level, df.to("cpu", torch.float64).numpy())).to(df)


def student_tail(t: float, df: float) -> float:
    """P(abs(T) > t) for Student's t, with t of at least 0; equals ``2 * scipy.stats.t.sf(t, df)``."""
    from scipy.special import stdtr

    return float(2 * stdtr(df, -t))


def degrees_of_freedom(curve: HitCurve) -> Tensor:
    """Those of the interval of one ranking: its hits less one, or its misses where there are fewer: (S,) floating."""
    return segments.as_float64(torch.minimum(curve.m, curve.n - curve.m)) - 1
