"""Published intervals of AP, and published normal distributions for a random ranking, reproduced for comparison only.

Boyd, Eng & Page (2013) treat AP as a share of m trials. Su & Zhang treat the ranks of the hits as event times
("survival"), or as the ranks of a random ranking ("sigma-ap"). Coverage: minimum, median and maximum over the
configurations of :func:`torch_ap.inference.average_precision_interval`, which compares all methods.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.options import allowed_values
from torch_ap.core.items.settings import validated_curve
from torch_ap.core.measures.average_precision import average_precision
from torch_ap.core.measures.interpolation import order_ties
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import record
from torch_ap.inference.edge_cases import resolve_edge_cases
from torch_ap.inference.influence import sum_from_below
from torch_ap.inference.random_ranking import RandomHits
from torch_ap.inference.record import Interval, Result, normal_quantile, number


def survival(curve: HitCurve) -> Tensor:
    r"""Return Su & Zhang's variance of AP, the sum of r(t_i) / t_i over hits; r is an empirical distribution.

    .. math::
        \sum_i \frac{r_i (1 - r_i)}{m t_i^2} + 2 \sum_{i < j} \frac{r_i (1 - r_j)}{m t_i t_j}

    The coverage of AP ± z SE is .725 / .885 / 1 at 80% and .908 / .984 / 1 at 95%: mostly too wide. Each tied hit
    counts as an event at the last rank of its group. The result is (S,) float64.
    """
    t, r = segments.as_float64(curve.cumulative_items), segments.as_float64(curve.cumulative_hits)
    hits, m = segments.as_float64(curve.hits), segments.as_float64(curve.m)
    r = r / m[curve.segment]
    pull = hits * (1 - r) / t
    later = 2 * sum_from_below(pull, curve.offsets) - pull
    return segments.total(hits * r / t * later, curve.offsets) / m


def sigma_ap(curve: HitCurve) -> Tensor:
    r"""Return Su & Zhang's sigma_ap^2, for fixed ranks t_j of the hits and h(t) of a random ranking.

    .. math::
        \frac{1}{m^2} \sum_j (2j - 1) v(t_j), \qquad v(t) = \pi (1 - \pi) \frac{n - t}{(n - 1) t}

    It is not the variance of AP: the coverage of AP ± z sigma_ap is .105 / .636 / 1 at 80% and .157 / .822 / 1 at 95%.
    For random rankings at (n, m) = (3000, 245), the case of its authors, the coverage of E(AP) is .757 and .927, while
    their slides report .764 and .932. Tied hits take the lowest ranks of their group. The result is (S,) float64.
    """
    single = order_ties(curve, "pessimistic")
    n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
    share = m / n
    t, j = segments.as_float64(single.cumulative_items), segments.as_float64(single.cumulative_hits)
    segment = single.segment
    spread = (n[segment] - t) / (t * (n[segment] - 1).clamp(min=1))
    return share * (1 - share) * segments.total((2 * j - 1) * spread, single.offsets) / (m * m)


Method: TypeAlias = Literal["boyd-logit", "boyd-binomial", "survival", "sigma-ap"]
METHODS = allowed_values(Method)
_VARIANCES: dict[str, Callable[[HitCurve], Tensor]] = {"survival": survival, "sigma-ap": sigma_ap}


def published_interval(
    preds: Tensor, target: Tensor, *, confidence_level: float = 0.95, method: Method = "boyd-logit"
) -> Interval:
    """Return a confidence interval for average precision with a published variance, for comparison only.

    ==============  =================================================  ==================  ==================
    method          description                                        coverage, at 80%    coverage, at 95%
    ==============  =================================================  ==================  ==================
    boyd-logit      AP (1 - AP) / m, logit: wide, never far too short  .793 / .892 / 1     .948 / .980 / 1
    boyd-binomial   AP ± z sqrt(AP (1 - AP) / m)                       .793 / .902 / 1     .943 / .986 / 1
    survival        Su & Zhang's survival function, AP ± z SE          .725 / .885 / 1     .908 / .984 / 1
    sigma-ap        Su & Zhang's sigma_ap: a reproduction, not useful  .105 / .636 / 1     .157 / .822 / 1
    ==============  =================================================  ==================  ==================

    Prefer :func:`torch_ap.inference.average_precision_interval`, which documents the conditions of the coverage and the
    conventions for special cases. The estimand is the limit of AP as items are added. The ends of all methods but
    "boyd-logit" may be outside [0, 1]. "survival" and "sigma-ap" have a positive standard error even if AP = 1.

    Args:
        preds: (N,) scores of one ranking, no NaN; other shapes are flattened.
        target: values 0 and 1, with the shape of ``preds``.
        confidence_level: nominal coverage, in (0, 1).
        method: as above.

    Returns:
        :class:`torch_ap.inference.Interval` of 0-d float64 tensors.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Boyd's methods equal :func:`torch_ap.inference.reported_average_precision_interval` for the same AP and hits.
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
    return record.first_interval(curve_interval(validated_curve(preds, target), confidence_level, method))


def curve_interval(curve: HitCurve, confidence_level: float, method: str) -> Interval:
    """Return the interval of each ranking of a curve: (S,) ends."""
    estimate = average_precision(curve)
    if method in _VARIANCES:
        variance = _VARIANCES[method](curve)
    else:  # Boyd, Eng & Page (2013), section 4
        variance = estimate * (1 - estimate) / segments.as_float64(curve.m)
    error, ends = torch.sqrt(variance), record.logit if method == "boyd-logit" else record.wald
    low, high = ends(estimate, error, normal_quantile(confidence_level))
    return resolve_edge_cases(Interval(estimate, low, high, error, confidence_level, method, ""), curve)


ReportedMethod: TypeAlias = Literal["boyd-logit", "boyd-binomial"]


def reported_average_precision_interval(
    average_precision: float | Tensor, m: int, *, confidence_level: float = 0.95, method: ReportedMethod = "boyd-logit"
) -> Interval:
    r"""Return a confidence interval from a published AP and the number of hits, without scores.

    .. math::
        SE^2 = \frac{AP (1 - AP)}{m}, \qquad logit(AP) \pm \frac{z}{\sqrt{m\, AP (1 - AP)}} \quad\text{or}\quad
        AP \pm z\, SE

    The formula treats AP as a share of m trials. The interval is mostly too wide and never far too narrow; the coverage
    is in the table of :func:`published_interval`. If scores are available, prefer
    :func:`torch_ap.inference.average_precision_interval`. The estimand is the limit of AP as items are added. The
    intervals of two systems on the same items do not show whether the systems differ, because their errors are
    correlated.

    Args:
        average_precision: the published AP, in [0, 1]; a number, or a tensor with one value.
        m: number of hits (relevant items), at least 1.
        confidence_level: nominal coverage, in (0, 1).
        method: the formula, as above; the ends of "boyd-binomial" may be outside [0, 1].

    Returns:
        :class:`torch_ap.inference.Interval` of 0-d float64 tensors. For AP = 1, the upper end is 1 and the
        lower end is the one-sided (1 - confidence_level)^(1 / m). For AP = 0 and for m = 1, the ends are NaN.
        ``reason`` explains these cases.

    Raises:
        ValueError: if an argument is invalid.

    Equals ``published_interval`` with the same method, for any ranking with this AP and m. Source: Boyd, Eng & Page
    (2013), Area under the Precision-Recall Curve, section 4.

    Example:
        >>> from torch_ap.inference import reported_average_precision_interval
        >>> found = reported_average_precision_interval(0.256, 304)
        >>> round(float(found.low), 3), round(float(found.high), 3)
        (0.21, 0.308)
    """
    value: Any = average_precision
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    checks.fraction("average_precision", value)
    m = checks.positive_int("m", m)
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, allowed_values(ReportedMethod))
    ap = torch.tensor(float(value), dtype=torch.float64)
    nan, error = torch.full_like(ap, torch.nan), torch.sqrt(ap * (1 - ap) / m)
    low, high = (record.logit if method == "boyd-logit" else record.wald)(ap, error, normal_quantile(confidence_level))
    reason = ""
    if m == 1 or value == 0:
        low, high, reason = nan, nan, "one hit, which has no spread" if m == 1 else "AP of 0"
        reason += ": the ends are NaN"
    elif value == 1:
        low, high = torch.full_like(ap, (1 - confidence_level) ** (1 / m)), ap
        reason = "AP of 1, where no standard error exists: the lower end is the one-sided alpha^(1 / m)"
    return Interval(ap, low, high, error, confidence_level, method, "", reason)


@dataclass(frozen=True, eq=False, repr=False)
class NormalLaw(Result):
    """A normal approximation of a distribution.

    Attributes:
        name: name of the approximated quantity.
        mean: mean.
        standard_deviation: standard deviation.
    """

    name: str
    mean: Tensor
    standard_deviation: Tensor

    def tail(self, value: float) -> Tensor:
        """Return P(X >= value)."""
        value = checks.number("value", value)
        mean, deviation = float(self.mean), float(self.standard_deviation)
        if not deviation > 0:
            return number(float(value <= mean))
        return number(math.erfc((value - mean) / (deviation * math.sqrt(2))) / 2)


def normal_recall(n: int, m: int, t: int) -> NormalLaw:
    r"""Return Su & Zhang's normal distribution of r(t), the recall at rank t of a random ranking: exact moments.

    .. math::
        E(r(t)) = \frac{t}{n}, \qquad Var(r(t)) = \frac{t}{m^2} \pi (1 - \pi) \frac{n - t}{n - 1}, \; \pi = \frac{m}{n}

    The shape is not exact, because h(t) = m r(t) is an integer. The probability of r(t) within mean ± z sd of nominal
    80 / 95% is 81.6 / 93.9% for t = 50 and 81.8 / 95.5% for t = 1500 at (n, m) = (3000, 245), and 68.2 / 90.8% for
    t = 50 at (100, 10). Use the quantiles of :class:`torch_ap.inference.random_ranking.RandomHits` instead.

    Args:
        n: items, at least 1.
        m: relevant items, 1 to n.
        t: rank, 1 to n.

    Returns:
        :class:`NormalLaw`.

    Raises:
        ValueError: if an argument is invalid.

    Equals mean and variance of ``scipy.stats.hypergeom(n, m, t)``, divided by m and m^2. Source: Su & Zhang,
    Statistical Inference for Recall, Precision and Average Precision.

    Example:
        >>> from torch_ap.inference.published import normal_recall
        >>> law = normal_recall(3000, 245, 50)
        >>> round(float(law.mean), 6), round(float(law.standard_deviation), 6)
        (0.016667, 0.007839)
    """
    hits = RandomHits(n, m, t)
    checks.positive_int("m", m)
    return NormalLaw("r(t)", hits.mean / m, hits.variance.sqrt() / m)


def normal_precision(n: int, m: int, t: int) -> NormalLaw:
    r"""Return Su & Zhang's normal distribution of p(t), the precision at rank t of a random ranking: exact moments.

    .. math::
        E(p(t)) = \pi, \qquad Var(p(t)) = \frac{\pi (1 - \pi)}{t} \frac{n - t}{n - 1}, \quad \pi = \frac{m}{n}

    The shape is not exact: p(t) = m r(t) / t has the same coverage as r(t), see :func:`normal_recall`.

    Args:
        n: items, at least 1.
        m: relevant items, 0 to n.
        t: rank, 1 to n.

    Returns:
        :class:`NormalLaw`.

    Raises:
        ValueError: if an argument is invalid.

    Equals mean and variance of ``scipy.stats.hypergeom(n, m, t)``, divided by t and t^2. Source: Su & Zhang,
    Statistical Inference for Recall, Precision and Average Precision.

    Example:
        >>> from torch_ap.inference.published import normal_precision
        >>> law = normal_precision(3000, 245, 50)
        >>> round(float(law.mean), 6), round(float(law.standard_deviation), 6)
        (0.081667, 0.038411)
    """
    hits = RandomHits(n, m, t)
    return NormalLaw("p(t)", hits.mean / t, hits.variance.sqrt() / t)


def normal_average_precision(preds: Tensor, target: Tensor) -> NormalLaw:
    r"""Return Su & Zhang's normal distribution of AP, with mean m / n and a variance for the observed ranks t_j.

    .. math::
        \sigma_{ap}^2 = \frac{1}{m^2} \sum_{j=1}^m (2j - 1) \frac{\pi (1 - \pi)}{t_j} \frac{n - t_j}{n - 1}

    At (n, m) = (3000, 245) its mean is 0.41 standard deviations below E(AP), its standard deviation is 10% too small,
    and it lacks the skewness of .5. Rejection rates at nominal 5 / 1 / .1% of a normal distribution with mean pi, even
    with the exact standard deviation: 11.2 / 4.0 / 1.1%, at (100, 10) 15.8 / 7.7 / 3.3%. Use
    :func:`torch_ap.inference.chance_test` instead.

    Args:
        preds: (N,) scores of one ranking, no NaN; other shapes are flattened. Tied hits take the lowest ranks of their
            group.
        target: values 0 and 1, with the shape of ``preds``, at least one hit.

    Returns:
        :class:`NormalLaw`.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    No other package has an equivalent. Source: Su & Zhang, Statistical Inference for Recall, Precision and Average
    Precision.

    Example:
        >>> import torch
        >>> from torch_ap.inference.published import normal_average_precision
        >>> preds, target = torch.tensor([8.0, 7, 6, 5, 4, 3, 2, 1]), torch.tensor([1, 1, 0, 1, 0, 0, 0, 0])
        >>> law = normal_average_precision(preds, target)
        >>> round(float(law.mean), 4), round(float(law.standard_deviation), 4)
        (0.375, 0.2795)
    """
    curve = validated_curve(preds, target)
    if not int(curve.m):
        raise ValueError(f"`target` must contain at least one hit, got none among {int(curve.n)} items")
    mean = segments.as_float64(curve.m) / segments.as_float64(curve.n)
    return NormalLaw("AP", mean[0], sigma_ap(curve).sqrt()[0])


__all__ = ["NormalLaw", "normal_average_precision", "normal_precision", "normal_recall", "published_interval"]
