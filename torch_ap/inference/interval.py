"""A confidence interval as a record, and the forms that an estimate with a standard error takes."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.inference.result import Result
from torch_ap.ranking.order import Values
from torch_ap.runtime import arrays


@dataclass(frozen=True, eq=False, repr=False)
class Interval(Result):
    """An estimate, how far it can be trusted, and how that was found out.

    Attributes:
        estimate: what was measured; 0-d, or one per ranking.
        low: lower end, of the same shape; NaN where no interval exists.
        high: upper end.
        standard_error: NaN where the method has none.
        confidence_level: nominal coverage.
        method: name of the method.
        design: "iid" (the number of hits is random) or "stratified" (it is fixed), or "" where the question is void.
        reason: why ends are NaN or were found by another rule; "" where nothing was special.
    """

    estimate: Tensor
    low: Tensor
    high: Tensor
    standard_error: Tensor
    confidence_level: float
    method: str
    design: str = ""
    reason: str = ""


Ends = tuple[Tensor, Tensor]


def of_first(found: Interval) -> Interval:
    """That of the first ranking, 0-d."""
    names = ("estimate", "low", "high", "standard_error")
    return replace(found, **{name: getattr(found, name)[0] for name in names})


def wald(estimate: Tensor, error: Tensor, quantile: Tensor | float) -> Ends:
    """Estimate ± quantile * error. The ends may leave [0, 1]."""
    return estimate - quantile * error, estimate + quantile * error


def logit(estimate: Tensor, error: Tensor, quantile: Tensor | float) -> Ends:
    """Wald's interval on the scale of log(x / (1 - x)), carried back: inside (0, 1); NaN at 0 and at 1."""
    inside = (estimate > 0) & (estimate < 1)
    centre = torch.logit(torch.where(inside, estimate, torch.nan))
    half = quantile * error / (estimate * (1 - estimate))
    return torch.sigmoid(centre - half), torch.sigmoid(centre + half)


def of_difference(low: float, high: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    """The ends of an interval of a difference, no further out than values within these bounds can differ."""
    most = math.inf if bounds is None else bounds[1] - bounds[0]
    return max(low, -most), min(high, most)  # NaN stays


def wilson(estimate: Values, trials: Values, z: Any) -> tuple[Values, Values]:
    """Wilson's (1927) score interval of a share of so many trials, whole or effective; native too."""
    square, xp = z * z, arrays.namespace(estimate)
    centre = (estimate + square / (2 * trials)) / (1 + square / trials)
    half = z * xp.sqrt(estimate * (1 - estimate) / trials + square / (4 * trials**2)) / (1 + square / trials)
    # rounding must not leave an estimate of 0 or 1 outside
    low, high = xp.minimum(estimate, centre - half), xp.maximum(estimate, centre + half)
    return arrays.at_least(low, 0), arrays.at_most(high, 1)
