"""Records of results, and the intervals and comparisons that follow from estimates and their standard errors.

The base class of all records has tensors as fields, which it prints and exports. Tolerances decide which differences
count as rounding errors: each constant is named after the numbers that it treats as equal. Tolerances that belong to a
definition, such as COCO's matching, are defined with it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.record import Record, format_value
from torch_ap.core.base.untraced import disable_tracing_of_methods
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Values

_WIDTH = 120  # characters; longer results have one field per line

R = TypeVar("R", bound="Result")


class Result(Record):
    """Abstract base of frozen dataclasses, ``@dataclass(frozen=True, eq=False, repr=False)``.

    Fields declared as ``Tensor`` are float64 tensors (float32 on devices without float64; counts are int64), 0-d for a
    single number. They also accept floats and ints. Sizes and settings are plain Python values. Fields named in
    ``_keep_dtype``, such as scores, keep their dtype.
    """

    _keep_dtype: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        disable_tracing_of_methods(cls)

    def __post_init__(self) -> None:
        for name in [x.name for x in fields(self)]:  # type: ignore[arg-type]
            if isinstance(value := getattr(self, name), np.generic):
                object.__setattr__(self, name, value.item())
            elif isinstance(value, Fraction):
                object.__setattr__(self, name, float(value))
        for name in self._tensors():
            value = getattr(self, name)
            value = value.detach() if isinstance(value, Tensor) else number(value)
            if name not in self._keep_dtype:
                value = segments.as_float64(value) if value.is_floating_point() else value.to(torch.int64)
            object.__setattr__(self, name, value)

    @classmethod
    def _tensors(cls) -> list[str]:
        return [field.name for field in fields(cls) if field.type is Tensor]  # type: ignore[arg-type]

    @classmethod
    def from_numbers(cls: type[R], *numbers: float | Tensor, **settings: Any) -> R:
        """Return a result with these values of the tensor fields, in the order of the fields."""
        return cls(**dict(zip(cls._tensors(), numbers, strict=True)), **settings)

    def to(self: R, device: torch.device | str) -> R:
        """Return the same result with its tensors on a device."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        moved = {
            name: _to_device(value, device)
            for name, value in values.items()
            if isinstance(value, Tensor | dict | Result)
        }
        return replace(self, **moved)  # type: ignore[type-var]

    def __eq__(self, other: object) -> bool:
        """Compare the plain values by ``repr``, which has all digits; NaN equals NaN."""
        if not isinstance(other, Result):
            return NotImplemented
        return type(self) is type(other) and repr(self.to_dict()) == repr(other.to_dict())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Format numbers with four digits; omit empty strings and None."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.repr}  # type: ignore[arg-type]
        shown = {name: value for name, value in values.items() if isinstance(value, Tensor) or value not in ("", None)}
        name = type(self).__name__
        line = f"{name}({', '.join(f'{x}={format_value(value)}' for x, value in shown.items())})"
        if len(line) <= _WIDTH:
            return line
        lines = [f"    {x}={format_value(value, len(x) + 6)},\n" for x, value in shown.items()]
        return f"{name}(\n{''.join(lines)})"


disable_tracing_of_methods(Result)


def number(value: float) -> Tensor:
    """Convert a Python number to a 0-d CPU tensor: int64 for an int, otherwise float64."""
    return torch.tensor(value, dtype=torch.int64 if isinstance(value, int) else torch.float64)


def _to_device(value: Any, device: torch.device | str) -> Any:
    if isinstance(value, dict):
        return {name: _to_device(entry, device) for name, entry in value.items()}
    if isinstance(value, Result):
        return value.to(device)
    if not isinstance(value, Tensor):
        return value
    narrow = torch.device(device).type == "mps" and value.is_floating_point()  # which lacks float64
    return (value.to(torch.float32) if narrow else value).to(device)


# APs, their means and standard errors, of the same items in another order: sums of millions of numbers up to 1
SAME_VALUE = 1e-12
# APs of at most 3,000,000 listed rankings: sums of few terms; different ranks of a hit change AP by more
SAME_LISTED_VALUE = 2e-14
ALIKE = "every hit and every miss is at the same place in both rankings: p = 1 by definition"
# relative error of a sum of probabilities
SAME_PROBABILITY = 1e-13
_EPSILONS = 2  # twice the bound of a difference of two values, each off by at most half an epsilon


def rounding(*values: Tensor) -> float:
    """Return the largest difference of two numbers that rounding alone can cause, proportional to the largest value.

    The factor is 1e-12 for float64 and integers, otherwise two epsilons of the least precise dtype (2.4e-7 for
    float32): each of two values is off by at most half an epsilon.

    Args:
        values: finite tensors with at least one value.
    """
    shares = [_EPSILONS * torch.finfo(x.dtype).eps for x in values if x.is_floating_point()]
    return max([SAME_VALUE, *shares]) * max(float(x.detach().to("cpu", torch.float64).abs().max()) for x in values)


def deviation(values: Tensor, noise: float) -> Tensor:
    """Return the standard deviation of (Q,) float64 values; 0 if it is at most ``noise``, NaN for a single value."""
    if len(values) < 2:
        return values.new_tensor(torch.nan)
    spread = values.std()
    return torch.where(spread > noise, spread, 0.0)


def normal_quantile(confidence_level: float) -> float:
    """Return the z with P(abs(Z) <= z) = confidence_level for a standard normal Z."""
    return -NormalDist().inv_cdf((1 - confidence_level) / 2)


def student_quantile(confidence_level: float, df: Values) -> Values:
    """Return the t with P(abs(T) <= t) = confidence_level for Student's t distribution.

    Args:
        confidence_level: in (0, 1).
        df: floating degrees of freedom, as an array or tensor; below 1 the result is NaN.

    Returns:
        An array or tensor with the shape, dtype and device of ``df``. Equals
        ``scipy.stats.t.isf((1 - confidence_level) / 2, df)``.
    """
    from scipy.special import stdtrit

    # the lower tail is exact for levels near 1, where (1 + confidence_level) / 2 rounds
    if not isinstance(df, Tensor):
        return np.where(df >= 1, -stdtrit(df, (1 - confidence_level) / 2), np.nan)
    return torch.as_tensor(student_quantile(confidence_level, df.to("cpu", torch.float64).numpy())).to(df)


def student_tail(t: float, df: float) -> float:
    """Return P(abs(T) > t) for Student's t and t >= 0; equals ``2 * scipy.stats.t.sf(t, df)``."""
    from scipy.special import stdtr

    return float(2 * stdtr(df, -t))


def degrees_of_freedom(curve: HitCurve) -> Tensor:
    """Return the degrees of freedom of each ranking's interval, min(hits, misses) - 1: (S,) floating."""
    return segments.as_float64(torch.minimum(curve.m, curve.n - curve.m)) - 1


@dataclass(frozen=True, eq=False, repr=False)
class Interval(Result):
    """An estimate with its confidence interval.

    Attributes:
        estimate: the measured value; 0-d, or one per ranking.
        low: lower end, of the same shape; NaN if no interval exists.
        high: upper end.
        standard_error: NaN if the method has none.
        confidence_level: nominal coverage.
        method: name of the method.
        design: "iid" (the number of hits is random) or "stratified" (it is fixed); "" if neither applies.
        reason: why the ends are NaN or come from another rule; "" otherwise.
        bias: estimated bias of ``estimate``, for which the ends are corrected; None for methods without a correction.
    """

    estimate: Tensor
    low: Tensor
    high: Tensor
    standard_error: Tensor
    confidence_level: float
    method: str
    design: str = ""
    reason: str = ""
    bias: Tensor | None = None


Ends = tuple[Tensor, Tensor]


def first_interval(intervals: Interval) -> Interval:
    """Return the interval of the first ranking, 0-d."""
    names = ("estimate", "low", "high", "standard_error")
    return replace(intervals, **{name: getattr(intervals, name)[0] for name in names})


def wald(estimate: Tensor, error: Tensor, quantile: Tensor | float) -> Ends:
    """Return estimate ± quantile * error. The ends may be outside [0, 1]."""
    return estimate - quantile * error, estimate + quantile * error


def logit(estimate: Tensor, error: Tensor, quantile: Tensor | float) -> Ends:
    """Return Wald's interval of log(x / (1 - x)), transformed back to (0, 1); NaN for estimates of 0 and 1."""
    inside = (estimate > 0) & (estimate < 1)
    center = torch.logit(torch.where(inside, estimate, torch.nan))
    half_width = quantile * error / (estimate * (1 - estimate))
    return torch.sigmoid(center - half_width), torch.sigmoid(center + half_width)


def clip_difference(low: float, high: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    """Clip the interval of a difference to the range of differences between values within the bounds; NaN stays NaN."""
    most = math.inf if bounds is None else bounds[1] - bounds[0]
    return max(low, -most), min(high, most)  # max and min return a NaN first argument


def wilson(estimate: Values, trials: Values, z: Any) -> tuple[Values, Values]:
    """Return Wilson's (1927) score interval of a proportion, as arrays or tensors; ``trials`` may be fractional."""
    square, xp = z * z, arrays.namespace(estimate)
    center = (estimate + square / (2 * trials)) / (1 + square / trials)
    half_width = z * xp.sqrt(estimate * (1 - estimate) / trials + square / (4 * trials**2)) / (1 + square / trials)
    # rounding must not leave an estimate of 0 or 1 outside
    low, high = xp.minimum(estimate, center - half_width), xp.maximum(estimate, center + half_width)
    return arrays.clamp_min(low, 0), arrays.clamp_max(high, 1)


@dataclass(frozen=True, eq=False, repr=False)
class AveragePrecisionBounds(Result):
    """Range of an average precision of which only counts per bin of scores are stored.

    Attributes:
        low: smallest possible AP; 0-d, or one per ranking.
        estimate: mean over all orders of the items inside the bins, which ``compute()`` returns. With weights, items of
            the same bin count as tied.
        high: largest possible AP.
    """

    low: Tensor
    estimate: Tensor
    high: Tensor


_MAX_NAMES = 3  # if more classes or slices have the same reason, their number replaces their names


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Two systems and their difference, 0-d each.

    Attributes:
        value_a: value of system A.
        value_b: value of system B.
        difference: A - B.
        low: lower end of the interval of the difference, clipped to the possible differences; NaN if no interval
            exists.
        high: upper end.
        standard_error: standard error of the difference.
        p_value: two-sided p-value of the hypothesis of no difference.
        confidence_level: nominal coverage of the interval.
        method: name of the method.
        design: "iid" or "stratified"; "" if neither applies.
        reason: why numbers are NaN, p is 1 by definition, or p is limited by the number of images or items; ""
            otherwise.
    """

    value_a: Tensor
    value_b: Tensor
    difference: Tensor
    low: Tensor
    high: Tensor
    standard_error: Tensor
    p_value: Tensor
    confidence_level: float
    method: str
    design: str = ""
    reason: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class GroupComparison(Comparison):
    """Two systems compared per class or per slice of the images: the fields of Comparison with one entry each.

    Attributes:
        adjusted_p_value: adjusted by Holm (1979) for the family-wise error; entries without a p-value are excluded.
        names: names of the classes or slices.
    """

    adjusted_p_value: Tensor = field(kw_only=True)
    names: list[str] = field(kw_only=True)


def group_comparison(comparisons: Mapping[str, Comparison], **settings: Any) -> GroupComparison:
    """Combine comparisons by name into one record.

    Args:
        comparisons: the comparisons, all of the same shape.
        settings: ``confidence_level``, ``method`` and ``design``, which the comparisons share.
    """
    values = {name: [getattr(x, name) for x in comparisons.values()] for name in Comparison._tensors()}
    empty = torch.empty(0, dtype=torch.float64)
    columns: dict[str, Any] = {name: torch.stack(column) if column else empty for name, column in values.items()}
    adjusted = holm_of_defined(columns["p_value"])
    reason = join_reasons({name: x.reason for name, x in comparisons.items()})
    return GroupComparison(**columns, **settings, reason=reason, adjusted_p_value=adjusted, names=list(comparisons))


def join_reasons(reasons: Mapping[str, str]) -> str:
    """Join the reasons of several results by name; equal reasons occur once."""
    names: dict[str, list[str]] = {}
    for name, text in reasons.items():
        names.setdefault(text, []).append(name)
    return "; ".join(
        f"{', '.join(group) if len(group) <= _MAX_NAMES else f'{len(group)} of {len(reasons)}'}: {text}"
        for text, group in names.items()
        if text
    )


def holm(p_values: Tensor) -> Tensor:
    """Return Holm's step-down adjustment of (P,) p-values; NaN from the first NaN on."""
    order = p_values.argsort()
    factors = torch.arange(len(p_values), 0, -1, device=p_values.device)
    adjusted = torch.empty_like(p_values)
    adjusted[order] = (p_values[order] * factors).cummax(0).values.clamp(max=1)
    return adjusted


def holm_of_defined(p_values: Tensor) -> Tensor:
    """Return Holm's adjustment of the (P,) p-values that are not NaN; NaN remains NaN."""
    has_p = ~p_values.isnan()
    adjusted = torch.full_like(p_values, math.nan)
    adjusted[has_p] = holm(p_values[has_p])
    return adjusted


def limit_p_value(
    comparison: Comparison, count: int, units: str, interval_note: str = "", least_of_draws: float = 0.0
) -> Comparison:
    """Raise the p-value to at least the p-value of the two-sided sign test of n units, 2^(1 - n), and name the limit.

    If the systems are equally good, each unit favors either system with probability 1/2. So 2^(1 - n) is the
    probability that all n units favor the same system, and resamples of n units contain no further information.

    Args:
        comparison: a comparison by resamples.
        count: n, the number of units that influence the comparison.
        units: name of the units in ``reason``.
        interval_note: note in ``reason`` about the interval; "" for none.
        least_of_draws: the smallest p-value that the resamples can have; 0 for a p-value of another method.
    """
    least = 2.0 ** (1 - count)
    if math.isnan(comparison.p_value) or comparison.p_value == 1:
        return comparison
    is_raised, of_draws = bool(comparison.p_value < least), ""
    if not is_raised and comparison.p_value <= least_of_draws:
        of_draws = f"p is no less than {least_of_draws:.4g} with these draws"
    notes = [f"p is no less than {least:.4g}"] if is_raised else []
    notes += [f"the interval is {interval_note}"] if interval_note else []
    reasons = [comparison.reason, of_draws, f"{count} {units}: {', and '.join(notes)}" if notes else ""]
    return replace(comparison, p_value=comparison.p_value.clamp(min=least), reason="; ".join(filter(None, reasons)))


def recover_ends(values: Sequence[float], below: Any, above: Any, correlation: float = 0.0) -> tuple[float, float]:
    """Return the interval of a - b by the method of variance estimates recovery, MOVER (Zou & Donner 2008).

    Args:
        values: a and b.
        below: pair of the distances from each value to the lower end of its own interval.
        above: pair of the distances to the upper ends.
        correlation: correlation of both values.
    """

    def combine(x: Any, y: Any) -> float:
        return math.sqrt(max(float(x**2 + y**2 - 2 * correlation * x * y), 0.0))

    difference = values[0] - values[1]
    return difference - combine(below[0], above[1]), difference + combine(above[0], below[1])


def resolve_equal_values(
    comparison: Comparison, is_alike: Callable[[], bool], intervals: Callable[[], Sequence[Interval]]
) -> Comparison:
    """Return a comparison whose interval has a width, if rankings that differ have equal values without a spread.

    Two perfect rankings are an example: the sample shows no difference, but a larger sample can. The intervals of both
    values are then combined by :func:`recover_ends`, without a correlation. p remains 1.

    Args:
        comparison: the comparison, returned unchanged unless its difference and standard error are 0.
        is_alike: returns whether both systems rank the items in the same way.
        intervals: returns the interval of each value.
    """
    if not (comparison.difference == 0 and comparison.standard_error == 0):
        return comparison
    if is_alike():
        return replace(comparison, reason=ALIKE)
    both = intervals()
    values, below, above = zip(*((x.estimate, x.estimate - x.low, x.high - x.estimate) for x in both), strict=True)
    low, high = map(number, recover_ends([float(x) for x in values], below, above))
    missing = next((x.reason for x in both if x.low.isnan()), "")
    note = f"no interval: {missing}" if missing else "the rankings differ: the interval combines those of both values"
    return replace(comparison, low=low, high=high, reason=f"{comparison.reason}; {note}")


def comparison_from_error(
    value_a: float,
    value_b: float,
    error: float,
    *,
    reason: str = "",
    df: float = math.inf,
    bounds: tuple[float, float] | None = (0, 1),
    **settings: Any,
) -> Comparison:
    """Return the comparison of two APs, given the standard error of their difference.

    Args:
        value_a: AP of system A.
        value_b: AP of system B.
        error: standard error of the difference; NaN if there is none.
        reason: reason stored in the record, unless the error is 0.
        df: degrees of freedom of Student's t; infinite for the normal distribution.
        bounds: smallest and largest value, None for none.
        settings: ``confidence_level``, ``method`` and ``design``.
    """
    difference = value_a - value_b
    error = 0.0 if error < SAME_VALUE else error
    level = settings["confidence_level"]
    quantile = float(student_quantile(level, number(float(df)))) if df < math.inf else normal_quantile(level)
    half, p = quantile * error if error else 0.0, math.nan
    if error > 0 and df >= 1:
        size = abs(difference) / error
        p = student_tail(size, df) if df < math.inf else math.erfc(size / math.sqrt(2))
    if error == 0 and difference == 0:
        p, reason = 1.0, "equal values without a spread: p = 1 by definition"
    elif error == 0:
        half, reason = math.nan, "the standard error is 0: neither interval nor p-value exists"
    low, high = clip_difference(difference - half, difference + half, bounds)
    numbers = (value_a, value_b, difference, low, high, error, p)
    return Comparison.from_numbers(*numbers, reason=reason, **settings)
