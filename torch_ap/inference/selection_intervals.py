r"""Intervals of the best of several systems, from the joint distribution of their values.

The value of the best of K systems is too high on average, because the selection prefers systems with favorable errors.
With l the values on the logit scale, V their covariance and k the best system, the methods are:

- "hybrid" (Andrews, Kitagawa & McCloskey 2024): given that k is the best, and given the part of l that is uncorrelated
  with l_k, the distribution of l_k is truncated to an interval:

  .. math::
      l_k \ge L = \max_{j:\ g_j < 1} \frac{z_j - z_k}{1 - g_j}, \qquad
      l_k \le U = \min_{j:\ g_j > 1} \frac{z_j - z_k}{1 - g_j}, \qquad
      g = V_{\cdot k} / V_{kk},\ z = l - g\, l_k

  It is further truncated to the simultaneous interval around theta of level 1 - beta, beta = alpha / 10. The ends are
  the theta at which the truncated distribution function of l_k is 1 - e and e, e = (alpha - beta) / (1 - beta) / 2.
- "shifted": l_k minus quantiles of the error of the best system in parametric draws. The draws have the covariance V,
  and their means are the values, shrunk to their common mean by an empirical Bayes factor.
- "simultaneous": l_k ± c s_k, where c is the 1 - alpha quantile of the largest abs(T_j) of all systems. It holds for
  every system at once, so for the best one.

T is a multivariate Student's t with the correlation of l, and the truncated distribution is normal. The interval is
extended to contain the value: if two systems are nearly equal, the conditional distribution has little information, and
both of its ends can be far below the value. For the same reason the median of the conditional distribution is not used
as the corrected value: its mean squared error is larger than that of the value itself. The corrected value is l_k minus
the mean error of "shifted", for every method.
"""

import math
from dataclasses import dataclass

import numpy as np

from torch_ap.core.ranking.order import Array

_DRAWS = 10_000  # of multivariate t: a p-value of .05 has a standard error of .002
_BETA = 10  # alpha / beta of "hybrid"
_SAME_SLOPE = 1e-9  # slopes no further from 1 belong to systems that move with the best one
_BISECTIONS = 50  # of the simultaneous interval: far below the precision of the draws


def student_draws(covariance: Array, df: float) -> Array:
    """Draw multivariate t with the correlation of a covariance matrix: (S, B); 0 for systems without variance.

    The draws integrate a known distribution, so they have a fixed seed.
    """
    errors = np.sqrt(np.diag(covariance))
    scale = np.divide(1, errors, out=np.zeros_like(errors), where=errors > 0)
    size, vectors = np.linalg.eigh(covariance * np.outer(scale, scale))
    rng = np.random.Generator(np.random.SFC64(0))
    root = (vectors * np.sqrt(size.clip(min=0))) @ vectors.T  # unique, unlike the eigenvectors
    draws: Array = root @ rng.standard_normal((len(errors), _DRAWS))
    draws = draws if math.isinf(df) else draws * np.sqrt(df / rng.chisquare(df, _DRAWS))
    draws -= draws.mean(1, keepdims=True)  # so that a clear winner has no optimism
    return draws


@dataclass(frozen=True, eq=False)
class JointDistribution:
    """Joint distribution of the estimates of S systems.

    Attributes:
        values: (S,) estimates on the scale of the intervals; NaN for systems without an interval.
        covariance: (S, S).
        draws: (S, B) of multivariate t with the correlation of the estimates.
    """

    values: Array
    covariance: Array
    draws: Array

    @property
    def errors(self) -> Array:
        """Standard errors, (S,)."""
        errors: Array = np.sqrt(np.diag(self.covariance))
        return errors

    @property
    def varying(self) -> Array:
        """(S,) bool, whether a system has an interval."""
        return np.isfinite(self.values) & (self.errors > 0)

    def critical_value(self, alpha: float) -> float:
        """Return the 1 - alpha quantile of the largest abs(T) of all systems that have an interval."""
        largest = np.abs(self.draws[self.varying]).max(0, initial=0)
        return float(np.quantile(largest, 1 - alpha))

    def simultaneous(self, alpha: float) -> Array:
        """Return the ends of the simultaneous intervals of all systems: (2, S), NaN without an interval."""
        half_width = np.where(self.varying, self.critical_value(alpha) * self.errors, np.nan)
        return np.stack([self.values - half_width, self.values + half_width])

    def reason(self, system: int, name: str) -> str:
        """Return why a system has no interval, with the name of its value; "" if it has one."""
        if not np.isfinite(self.values[system]):
            return f"{name} is the largest or smallest possible value, which has no standard error"
        return "" if self.varying[system] else f"the standard error of {name} is 0"


def _hybrid(joint: JointDistribution, best: int, alpha: float) -> tuple[float, float]:
    """Return the ends of the "hybrid" interval of the best system."""
    value, error, beta = joint.values[best], joint.errors[best], alpha / _BETA
    widest = joint.critical_value(beta) * error
    floor, ceiling = _truncation(joint, best)

    def share(theta: float) -> float:
        """Return the truncated distribution function of the best value at its estimate, given its expectation."""
        low, high = max(floor, theta - widest), min(ceiling, theta + widest)
        return _truncated_share((low - theta) / error, (value - theta) / error, (high - theta) / error)

    def solve(target: float) -> float:
        """Return the expectation at which the distribution function is ``target``."""
        low, high = value - widest, value + widest
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if share(middle) > target else (low, middle)
        return float(low + high) / 2

    tail = (alpha - beta) / (1 - beta) / 2
    return solve(1 - tail), solve(tail)


def _truncation(joint: JointDistribution, best: int) -> tuple[float, float]:
    """Return L and U, between which the best value is the best, given the part that is uncorrelated with it."""
    others = joint.varying.copy()
    others[best] = False
    slope = joint.covariance[others, best] / joint.covariance[best, best]
    rest = joint.values[others] - joint.values[best]  # (z_j - z_k) / (1 - g_j) = l_k + (l_j - l_k) / (1 - g_j)
    bounds = joint.values[best] + np.divide(rest, 1 - slope, out=np.zeros_like(rest), where=slope != 1)
    floor = bounds[slope < 1 - _SAME_SLOPE].max(initial=-math.inf)
    ceiling = bounds[slope > 1 + _SAME_SLOPE].min(initial=math.inf)
    return float(floor), float(ceiling)


def _truncated_share(low: float, value: float, high: float) -> float:
    """Return the distribution function at a value of the normal distribution that is truncated to [low, high]."""
    from scipy.special import ndtr

    if low > 0:  # in the lower tail, small probabilities have no rounding error
        return 1 - _truncated_share(-high, -value, -low)
    below, at, above = map(float, ndtr([low, value, high]))
    return (at - below) / (above - below) if above > below else 1.0


def selection_errors(joint: JointDistribution) -> Array:
    """Return the error of the best system in each parametric draw around the shrunken values, (B,)."""
    values, errors, draws = joint.values[joint.varying], joint.errors[joint.varying], joint.draws[joint.varying]
    count, deviations, centers = len(values), values - values.mean(), values
    if (squares := (deviations**2).sum()) > 0:
        correlation = joint.covariance[np.ix_(joint.varying, joint.varying)] / np.outer(errors, errors)
        common = (correlation.sum() - count) / (count * (count - 1))
        noise = (count - 1) * (errors**2).mean() * (1 - common)
        centers = values.mean() + max(1 - noise / squares, 0) * deviations
    drawn: Array = draws * errors[:, None]
    chosen = (centers[:, None] + drawn).argmax(0)
    gaps: Array = drawn[chosen, np.arange(drawn.shape[1])]
    return gaps


def _shifted(joint: JointDistribution, best: int, alpha: float) -> tuple[float, float]:
    """Return the ends of the "shifted" interval of the best system."""
    low, high = joint.values[best] - np.quantile(selection_errors(joint), [1 - alpha / 2, alpha / 2])
    return float(low), float(high)


def _simultaneous(joint: JointDistribution, best: int, alpha: float) -> tuple[float, float]:
    """Return the ends of the simultaneous interval of the best system."""
    low, high = joint.simultaneous(alpha)[:, best]
    return float(low), float(high)


INTERVALS = {"hybrid": _hybrid, "shifted": _shifted, "simultaneous": _simultaneous}
