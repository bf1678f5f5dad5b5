"""Two systems and their difference, as a record, and what its standard error says of it."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.inference.interval import of_difference
from torch_ap.inference.result import Result, number
from torch_ap.inference.rounding import SAME_VALUE
from torch_ap.inference.student import normal_quantile, student_quantile, student_tail


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
        reason: why numbers are NaN, or p is 1 by definition; "" otherwise.
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
