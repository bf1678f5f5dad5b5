"""Intervals of average precision as their authors published them, for comparison."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from torch_ap.curve.average_precision import average_precision
from torch_ap.evaluation.average_precision import curve_of_one
from torch_ap.inference import interval
from torch_ap.inference.interval import Ends, Interval
from torch_ap.inference.methods import at_the_edge
from torch_ap.inference.published import variances
from torch_ap.inference.student import normal_quantile
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.options import allowed

Method: TypeAlias = Literal["boyd-logit", "boyd-binomial", "survival", "sigma-ap"]
METHODS = allowed(Method)
_VARIANCES: dict[str, Callable[[HitCurve, Tensor], Tensor]] = {
    "boyd-logit": variances.boyd,
    "boyd-binomial": variances.boyd,
    "survival": lambda curve, _: variances.survival(curve),
    "sigma-ap": lambda curve, _: variances.sigma_ap(curve),
}


def published_interval(
    preds: Tensor, target: Tensor, *, confidence_level: float = 0.95, method: Method = "boyd-logit"
) -> Interval:
    """A confidence interval for average precision by a published variance; better ones are not here.

    ==============  =================================================  ==================  ==================
    method          what it is                                         covers, at 80%      covers, at 95%
    ==============  =================================================  ==================  ==================
    boyd-logit      AP (1 - AP) / m, logit: wide, never far too short  .793 / .892 / 1     .948 / .980 / 1
    boyd-binomial   AP ± z sqrt(AP (1 - AP) / m)                       .793 / .902 / 1     .943 / .986 / 1
    survival        Su & Zhang's survival function, AP ± z SE          .725 / .885 / 1     .908 / .984 / 1
    sigma-ap        Su & Zhang's sigma_ap: a reproduction, no use      .105 / .636 / 1     .157 / .822 / 1
    ==============  =================================================  ==================  ==================

    Coverage, and what is a matter of definition, as for :func:`torch_ap.inference.average_precision_interval`, which is
    to be preferred. The estimand is the limit that AP tends to as items are added. The ends of all but "boyd-logit" may
    leave [0, 1]; "survival" and "sigma-ap" find a spread where AP = 1 too.

    Args:
        preds: (N,) scores of one ranking, no NaN; other shapes are flattened.
        target: of 0 and 1, in the shape of ``preds``.
        confidence_level: nominal coverage, in (0, 1).
        method: one of those above.

    Returns:
        :class:`torch_ap.inference.Interval` of 0-d float64 tensors.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals, for Boyd's, :func:`torch_ap.inference.reported_average_precision_interval` of the AP and the number of hits.
    Source: Boyd, Eng & Page (2013), Area under the Precision-Recall Curve, section 4; Su & Zhang, Statistical Inference
    for Recall, Precision and Average Precision.

    Example:
        >>> import torch
        >>> from torch_ap.inference.published import published_interval
        >>> preds, target = torch.tensor([8.0, 7, 6, 5, 4, 3, 2, 1]), torch.tensor([1, 1, 0, 1, 0, 0, 0, 0])
        >>> found = published_interval(preds, target, method="survival")
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high)]
        [0.211, 0.917, 1.622]
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, METHODS)
    return interval.of_first(curve_interval(curve_of_one(preds, target), confidence_level, method))


def curve_interval(curve: HitCurve, confidence_level: float, method: str) -> Interval:
    """The interval of each ranking of a curve: (S,) ends."""
    estimate = average_precision(curve)
    error = torch.sqrt(_VARIANCES[method](curve, estimate))
    form: Callable[[Tensor, Tensor, float], Ends] = interval.logit if method == "boyd-logit" else interval.wald
    low, high = form(estimate, error, normal_quantile(confidence_level))
    return at_the_edge(Interval(estimate, low, high, error, confidence_level, method, ""), curve)
