r"""Planning of samples: how many positives, queries or images give an interval of some width, or a test some power.

The variance of an estimate is proportional to 1 / m, where m is the number of positives (at a constant share of
positives), of queries or of images. A pilot of m_0 units with half width w_0 therefore gives

.. math::
    m = m_0 (w_0 / w)^2

units for the half width w. The pilot estimates the variance with an error of its own, so a range is returned, too. It
multiplies m by (m_0 - 1) / chi^2 for the 10% and 90% quantiles of chi-square with m_0 - 1 degrees of freedom. For an
interval it also multiplies m by the least and the greatest p (1 - p) for p in the 80% interval of the pilot, relative
to the estimate's, because the variance of a value in [0, 1] depends on the value.

For a paired comparison with standard error SE_0, the two-sided test at level alpha finds a true difference D with the
power

.. math::
    P = 1 - T_{m-1}(t - \delta) + T_{m-1}(-t - \delta), \qquad \delta = \frac{|D|}{SE_0 \sqrt{m_0 / m}}

with t the 1 - alpha / 2 quantile of Student's t with m - 1 degrees of freedom. D is an argument, because the difference
that a pilot happens to show says next to nothing about the power.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import Plain, raise_invalid, warn_caller
from torch_ap.inference.record import Comparison, Interval, Result, normal_quantile

_MEASURED_FROM = 30  # units of the pilot; with fewer, the range is often wrong
_RANGE = 0.8  # nominal share of pilots whose range contains the number of units
_MOST_UNITS = 1 << 40
_EDGE = 1e-6  # distance of a value from 0 and 1, whose logits are infinite


@dataclass(frozen=True, eq=False, repr=False)
class IntervalPlan(Result):
    """Units for half widths of an interval.

    Attributes:
        half_width: (H,) the half widths.
        units: (H,) number of positives, queries or images for each half width.
        units_low: (H,) lower end of the range of this number.
        units_high: (H,) upper end.
        pilot_units: number of units of the pilot.
        pilot_half_width: half width of the interval of the pilot.
        reason: why the range is doubtful; "" otherwise.
    """

    half_width: Tensor
    units: Tensor
    units_low: Tensor
    units_high: Tensor
    pilot_units: int
    pilot_half_width: float
    reason: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonPlan(Result):
    """Power of a paired comparison.

    Attributes:
        units: (U,) numbers of positives, queries or images.
        power: (U,) probability that the test finds the difference.
        needed: number of units for the requested power.
        needed_low: lower end of the range of this number.
        needed_high: upper end.
        smallest_difference: difference that the test finds with the requested power, with the units of the pilot.
        difference: the true difference that is assumed.
        requested_power: the requested power.
        pilot_units: number of units of the pilot.
        reason: why the range is doubtful; "" otherwise.
    """

    units: Tensor
    power: Tensor
    needed: Tensor
    needed_low: Tensor
    needed_high: Tensor
    smallest_difference: Tensor
    difference: float
    requested_power: float
    pilot_units: int
    reason: str = ""


def plan_interval(interval: Interval, units: int, half_width: float | Sequence[float]) -> IntervalPlan:
    """Return how many positives, queries or images give an interval of a half width.

    Args:
        interval: interval of a pilot: of a metric, ``metric.confidence_interval()``; of a function, such as
            :func:`torch_ap.inference.average_precision_interval`; or of two printed numbers, by
            :func:`torch_ap.inference.reported_average_precision_interval`.
        units: number of units of the pilot, at least 2: positives for AP of one ranking, queries or images.
        half_width: half of the wanted width, above 0; or several.

    Returns:
        :class:`torch_ap.inference.IntervalPlan`. The range is for the error of the pilot; ``reason`` notes a pilot of
        fewer than 30 units, with a warning, because its range is often wrong.

    Raises:
        TypeError, ValueError: if an argument is invalid, or the interval has no ends or its value as one of them, as
            for an AP of 1.

    The range contains the number that gives the half width for .755 to .967 of the pilots of 30 and 100 hits, and .884
    to .974 of those of queries, at nominal .8. The number itself is .89 to 1.32 times this number on average
    (``benchmarks.coverage``).

    No other package has an equivalent. Source: formulas of :mod:`torch_ap.inference.planning`.

    Example:
        >>> from torch_ap.inference import plan_interval, reported_average_precision_interval
        >>> pilot = reported_average_precision_interval(0.6, m=50)
        >>> plan = plan_interval(pilot, 50, [0.1, 0.05])
        >>> [round(x) for x in plan.units.tolist()], [round(x) for x in plan.units_high.tolist()]
        ([89, 353], [122, 488])
    """
    if not isinstance(interval, Interval):
        raise_invalid("interval", "must be an Interval", type(interval).__name__, TypeError)
    units = checks.positive_int("units", units, least=2)
    width = float(interval.high - interval.low) / 2 if interval.low.ndim == 0 else math.nan
    if not width > 0:
        raise_invalid("interval", "must be the interval of one value with finite ends", f"half width {width}")
    if float(interval.estimate) in (float(interval.low), float(interval.high)):
        rule = "must be on both sides of its value, because other widths do not fall with the root of the units"
        raise_invalid("interval", rule, Plain(f"an end of {float(interval.estimate):g}, which is the value"))
    wanted = _positive_numbers("half_width", half_width)
    needed = units * (width / wanted) ** 2
    smallest, largest = _variance_ratios(interval)
    low, high = _range(needed * smallest, units)[0], _range(needed * largest, units)[1]
    return IntervalPlan(wanted, needed.ceil(), low, high, units, width, _doubt(units))


def plan_comparison(
    comparison: Comparison,
    units: int,
    difference: float,
    *,
    power: float = 0.8,
    planned_units: int | Sequence[int] | None = None,
) -> ComparisonPlan:
    """Return the power of a paired comparison, and how many units it needs.

    Args:
        comparison: comparison of a pilot: ``metric.compare(other)``, or of a function such as
            :func:`torch_ap.inference.compare_rankings`. Its standard error and confidence level are used, not its
            difference.
        units: number of units of the pilot, at least 2: positives for AP of one ranking, queries or images.
        difference: true difference that the test should find, not 0.
        power: requested power, in (0, 1) and above the level of the test.
        planned_units: numbers of units, at least 2, whose power is returned; None for the units of the pilot.

    Returns:
        :class:`torch_ap.inference.ComparisonPlan`. ``reason`` notes a pilot of fewer than 30 units, with a warning.

    Raises:
        TypeError, ValueError: if an argument is invalid, or the comparison has no standard error.

    For three pairs of rankings, the power is .776, .273 and .757, and its mean from pilots of a third of the items is
    .795, .311 and .768 (``benchmarks.coverage``).

    Equals the power of the paired t test by the noncentral t distribution, to .03. Source: Cohen (1988), Statistical
    Power Analysis for the Behavioral Sciences.

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_per_query, plan_comparison
        >>> a, b = torch.tensor([0.5, 0.6, 0.9, 0.4] * 10), torch.tensor([0.4, 0.4, 0.6, 0.5] * 10)
        >>> plan = plan_comparison(compare_per_query(a, b), 40, difference=0.05)
        >>> round(float(plan.power[0]), 2), int(plan.needed), round(float(plan.smallest_difference), 3)
        (0.54, 73, 0.068)
    """
    if not isinstance(comparison, Comparison):
        raise_invalid("comparison", "must be a Comparison", type(comparison).__name__, TypeError)
    units = checks.positive_int("units", units, least=2)
    checks.finite("difference", difference)
    power = checks.open_fraction("power", power)
    alpha = 1 - comparison.confidence_level
    if not difference:
        raise_invalid("difference", "must not be 0", difference)
    if power <= alpha:
        raise_invalid("power", f"must be above the level of the test, {alpha:.3g}", power)
    error = float(comparison.standard_error) if comparison.standard_error.ndim == 0 else math.nan
    if not error > 0:
        raise_invalid("comparison", "must be one comparison with a standard error", f"standard error {error}")
    planned = _positive_numbers("planned_units", units if planned_units is None else planned_units)
    if bool((planned < 2).any()) or bool((planned != planned.round()).any()):
        raise_invalid("planned_units", "must be ints of at least 2", planned_units)
    scale = error * math.sqrt(units)  # standard error of one unit
    powers = [_power(abs(difference) / scale, m, alpha) for m in planned.tolist()]
    needed = torch.tensor(float(_units_for(abs(difference) / scale, alpha, power)), dtype=torch.float64)
    low, high = _range(needed, units)
    smallest = _effect_for(units, alpha, power) * scale
    numbers = (planned, torch.tensor(powers, dtype=torch.float64), needed, low, high, smallest)
    settings = {"difference": float(difference), "requested_power": power, "pilot_units": units}
    return ComparisonPlan.from_numbers(*numbers, **settings, reason=_doubt(units))


def _positive_numbers(name: str, value: float | Sequence[float]) -> Tensor:
    """Return one number above 0, or several, as a (H,) tensor."""
    listed = list(value) if isinstance(value, list | tuple) else [value]
    if not listed:
        raise_invalid(name, "must be a number above 0, or a list of them", value)
    for x in listed:
        checks.positive(name, x)
    return torch.tensor(listed, dtype=torch.float64)


def _variance_ratios(pilot: Interval) -> tuple[float, float]:
    """Return the least and the greatest p (1 - p) in the 80% interval, relative to that of the estimate."""
    ratio = normal_quantile(_RANGE) / normal_quantile(pilot.confidence_level)
    ends = torch.stack([pilot.low, pilot.estimate, pilot.high]).clamp(_EDGE, 1 - _EDGE).logit()
    p = torch.sigmoid(ends[1] + ratio * (ends - ends[1]))
    variances = p * (1 - p) / (p[1] * (1 - p[1]))
    largest = 0.25 / (p[1] * (1 - p[1])) if p[0] < 0.5 < p[2] else variances.max()
    return float(variances.min()), float(largest)


def _range(needed: Tensor, units: int) -> tuple[Tensor, Tensor]:
    """Return the ends of the range of the needed units."""
    from scipy.special import chdtri

    tail = (1 - _RANGE) / 2
    low, high = (needed * ((units - 1) / float(chdtri(units - 1, q))) for q in (tail, 1 - tail))
    return low.floor(), high.ceil()


def _doubt(units: int) -> str:
    """Warn about a small pilot, and return the reason; "" for a pilot that suffices."""
    if units >= _MEASURED_FROM:
        return ""
    reason = f"a pilot of {units} units is too small for a plan: the range is measured from {_MEASURED_FROM} units on"
    warn_caller(reason, UserWarning)
    return reason


def _power(effect: float, units: float, alpha: float) -> float:
    """Return the power of a two-sided t test at level alpha, for a difference of ``effect`` errors of one unit."""
    from scipy.special import stdtr, stdtrit

    df, delta = units - 1, effect * math.sqrt(units)
    t = -float(stdtrit(df, alpha / 2))
    return float(stdtr(df, delta - t) + stdtr(df, -t - delta))


def _units_for(effect: float, alpha: float, power: float) -> int:
    """Return the least number of units with a power, at least 2."""
    low, high = 1, 2
    while _power(effect, high, alpha) < power:
        low, high = high, 2 * high
        if high > _MOST_UNITS:
            raise_invalid("difference", "must be larger: more than 2^40 units would be needed", effect)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _power(effect, middle, alpha) < power else (low, middle)
    return high


def _effect_for(units: int, alpha: float, power: float) -> float:
    """Return the difference in errors of one unit that the test finds with a power."""
    from scipy.optimize import brentq

    most = 1.0
    while _power(most, units, alpha) < power:
        most *= 2
    return float(brentq(lambda effect: _power(effect, units, alpha) - power, 0.0, most))
