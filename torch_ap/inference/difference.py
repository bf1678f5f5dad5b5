"""Two systems and their difference, as a record, and what its standard error says of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.inference.interval import of_difference
from torch_ap.inference.result import Result, number
from torch_ap.inference.rounding import SAME_VALUE
from torch_ap.inference.student import normal_quantile, student_quantile, student_tail

_NAMED = 3  # classes or slices of one reason; of more their number


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Two systems and their difference, 0-d each.

    Attributes:
        value_a: of system A.
        value_b: of system B.
        difference: A - B.
        low: lower end of the interval of the difference, no further out than two values can differ; NaN where none
            exists.
        high: upper end.
        standard_error: of the difference.
        p_value: two-sided, of no difference.
        confidence_level: nominal coverage of the interval.
        method: name of the method.
        design: "iid" or "stratified", or "" where the question is void.
        reason: why numbers are NaN, p is 1 by definition, or so few images or items allow no more; "" otherwise.
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
    """Two systems in several respects, classes or slices of the images: the fields of Comparison, one entry each.

    Attributes:
        adjusted_p_value: by Holm (1979), which holds the error of all of them together; those without a p have no part.
        names: of the classes or slices.
    """

    adjusted_p_value: Tensor = field(kw_only=True)
    names: list[str] = field(kw_only=True)


def of_groups(found: Mapping[str, Comparison], **settings: Any) -> GroupComparison:
    """Comparisons by name as one record.

    Args:
        found: of one shape each.
        settings: ``confidence_level``, ``method`` and ``design``, which they share.
    """
    none = torch.empty(0, dtype=torch.float64)
    every = {name: [getattr(one, name) for one in found.values()] for name in Comparison._tensors()}
    columns: dict[str, Any] = {name: torch.stack(values) if values else none for name, values in every.items()}
    known = ~columns["p_value"].isnan()
    adjusted = torch.full_like(columns["p_value"], math.nan)
    adjusted[known] = holm(columns["p_value"][known])
    reason = reasons({name: one.reason for name, one in found.items()})
    return GroupComparison(**columns, **settings, reason=reason, adjusted_p_value=adjusted, names=list(found))


def reasons(given: Mapping[str, str]) -> str:
    """The reasons of several results by name, each once."""
    names: dict[str, list[str]] = {}
    for name, text in given.items():
        names.setdefault(text, []).append(name)
    told = {
        text: ", ".join(some) if len(some) <= _NAMED else f"{len(some)} of {len(given)}" for text, some in names.items()
    }
    return "; ".join(f"{who}: {text}" for text, who in told.items() if text)


def holm(p_values: Tensor) -> Tensor:
    """Holm's step-down adjustment of (P,) p-values; NaN from the first that is NaN on."""
    order = p_values.argsort()
    left = torch.arange(len(p_values), 0, -1, device=p_values.device)
    raised = (p_values[order] * left).cummax(0).values.clamp(max=1)
    out = torch.empty_like(p_values)
    out[order] = raised
    return out


def of_few(found: Comparison, count: int, units: str, narrow: str = "") -> Comparison:
    """A comparison of so many units, whose p-value is not below that of the two-sided sign test, 2^(1 - n).

    If the systems are alike, each unit may favour either: that all n favour one has this probability, and resamples of
    n units know nothing else.

    Args:
        found: a comparison by resamples.
        count: n, of the units that have a part in it.
        units: what they are called.
        narrow: what is said of the interval of so few; "" for nothing.
    """
    least = 2.0 ** (1 - count)
    if math.isnan(found.p_value) or found.p_value == 1:
        return found
    bites = bool(found.p_value < least)
    said = [*([f"p is no less than {least:.4g}"] if bites else []), *([f"the interval is {narrow}"] if narrow else [])]
    reason = "; ".join([*filter(None, [found.reason]), *([f"{count} {units}: {', and '.join(said)}"] if said else [])])
    return replace(found, p_value=found.p_value.clamp(min=least), reason=reason)


def described(
    value_a: float,
    value_b: float,
    error: float,
    *,
    confidence_level: float,
    method: str,
    design: str,
    reason: str,
    df: float = math.inf,
) -> Comparison:
    """The comparison of two APs whose difference has this standard error, by Student's or the normal law."""
    difference = value_a - value_b
    error = 0.0 if error < SAME_VALUE else error
    quantile = normal_quantile(confidence_level)
    if df < math.inf:
        quantile = float(student_quantile(confidence_level, torch.tensor(df, dtype=torch.float64)))
    half, p = quantile * error if error else 0.0, math.nan
    if error > 0 and df >= 1:
        size = abs(difference) / error
        p = student_tail(size, df) if df < math.inf else math.erfc(size / math.sqrt(2))
    if error == 0 and difference == 0:
        p, reason = 1.0, "no item tells the systems apart: p = 1 by definition"
    elif error == 0:
        half, reason = math.nan, "the standard error is 0: neither interval nor p-value exists"
    low, high = of_difference(difference - half, difference + half, (0, 1))
    return Comparison(
        value_a=number(value_a),
        value_b=number(value_b),
        difference=number(difference),
        low=number(low),
        high=number(high),
        standard_error=number(error),
        p_value=number(p),
        confidence_level=confidence_level,
        method=method,
        design=design,
        reason=reason,
    )
