r"""An interval for the mean of values in [0, 1] that takes the bounds for evidence: what was not seen may lie there.

The law of the values is given a Dirichlet process as prior, with half an observation at 0 and half at 1. Then the mean
is a sum of Dirichlet weights times values,

.. math::
    P(mean \le \theta) = P\Big(\sum_i \gamma_i (x_i - \theta) \le 0\Big), \qquad \gamma_i \sim Gamma(a_i),

with a = 1 for each value and 1/2 for each bound: the Bayesian bootstrap, whose replicates are not drawn here. Of values
that are 0 or 1 it is Beta(s + 1/2, f + 1/2), Jeffreys' posterior. The probability is taken from the saddlepoint, which
tilts the values by a logistic factor: their weights become proportional to a / (1 - x + x e^u), whose mean is the theta
that belongs to u.
"""

import math

import numpy as np
from numpy.typing import NDArray

from torch_ap.inference.student import normal_quantile

_HALF = 0.5
_FARTHEST = 300.0  # of u: beyond it no level that a float can hold has an end
_CENTRE = 1e-4


def mean_ends(values: NDArray[np.float64], confidence_level: float) -> tuple[float, float]:
    """Both ends, with the mean between them.

    Args:
        values: (Q,) in [0, 1], at least one.
        confidence_level: nominal coverage.
    """
    from scipy.optimize import brentq

    def end(z: float) -> float:
        u = brentq(lambda u: _mean_and_normal(values, u)[1] - z, -_FARTHEST, _FARTHEST, xtol=1e-12)
        return _mean_and_normal(values, u)[0]

    z, mean = normal_quantile(confidence_level), float(values.mean())
    return min(end(-z), mean), max(end(z), mean)


def _mean_and_normal(values: NDArray[np.float64], u: float) -> tuple[float, float]:
    """Theta at tilt u, and the z with P(Z <= z) = P(mean <= theta), by Barndorff-Nielsen's r*."""
    odds = math.exp(u)
    tilted = (1 - values) + values * odds
    weights = 1 / tilted
    total, count = weights.sum() + _HALF + _HALF / odds, len(values) + 2 * _HALF
    theta = float(((values * weights).sum() + _HALF / odds) / total)
    rest = float((((1 - values) * weights).sum() + _HALF) / total)
    scale = total / count
    # s solves K'(s) = 0 for the cumulant generating function K(s) = -sum of a log(1 - s (x - theta))
    s = (scale - 1) / theta if theta <= _HALF else (1 - odds * scale) / rest
    height = np.log(tilted).sum() + _HALF * u + count * math.log(scale)
    root = math.copysign(math.sqrt(max(2 * height, 0.0)), s)
    off = (values - theta) * weights / scale
    ends = np.array([-theta, rest / odds]) / scale
    squares = (off**2).sum() + _HALF * (ends**2).sum()
    if abs(root) < _CENTRE:
        return theta, float(2 * ((off**3).sum() + _HALF * (ends**3).sum()) / (6 * squares**1.5)) + root
    return theta, float(root + math.log(s * math.sqrt(squares) / root) / root)
