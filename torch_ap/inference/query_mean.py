"""The interval of a mean over queries. They are the sample: nothing is assumed of what lies inside a query."""

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from torch_ap.core import checks
from torch_ap.inference import bootstrap, rules
from torch_ap.inference.interval import Interval, wald
from torch_ap.inference.resampling import Resampling, generators, multinomial, rows
from torch_ap.inference.rounding import deviation, rounding
from torch_ap.inference.student import student_quantile

METHODS = ("t", "bootstrap-bca")


def mean_interval(
    values: Tensor,
    *,
    level: float = 0.95,
    method: Literal["t", "bootstrap-bca"] = "t",
    resampling: Resampling | None = None,
) -> Interval:
    """A confidence interval for the mean of per-query values, such as MAP: mean ± t_{Q-1} s / sqrt(Q), or BCa.

    The estimand is the mean over the population of queries that these were drawn from, each with its documents as they
    are.

    Covers, at 80% and 95%, with values of a skewed law: t .795 and .940 of 10 queries, .788 and .942 of 50; BCa .767
    and .913 of 10, .788 and .945 of 50 (``benchmarks.coverage``).

    Args:
        values: (Q,) finite values, one a query, one at least.
        level: nominal coverage, in (0, 1).
        method: "t", or "bootstrap-bca" (Efron 1987) over queries.
        resampling: of the bootstrap; None for 1,000 replicates that repeat.

    Returns:
        :class:`torch_ap.inference.interval.Interval` of 0-d float64 tensors. With a reason: NaN ends for one query, and
        ends at the mean where all values are equal but for rounding.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals the interval of ``scipy.stats.ttest_1samp``, and ``scipy.stats.bootstrap(..., method="BCa")``.
    Source: Student (1908), The Probable Error of a Mean; Efron (1987), Better Bootstrap Confidence Intervals.

    Example:
        >>> import torch
        >>> from torch_ap.inference import mean_interval
        >>> found = mean_interval(torch.tensor([0.2, 0.4, 0.9, 0.5]))
        >>> round(float(found.low), 4), round(float(found.high), 4)
        (0.0316, 0.9684)
    """
    rules.query_values("values", values)
    rules.level(level)
    checks.one_of("method", method, METHODS)
    how = rules.resampling(resampling)
    x = values.detach().to("cpu", torch.float64)
    found = student_interval(x, rounding(values), level)
    if method == "t" or found.reason:
        return replace(found, method=method)
    replicates, off = _replicates(x, how), x - found.estimate
    ends = bootstrap.bca(replicates, found.estimate, (off**3).sum() / (6 * (off**2).sum() ** 1.5), level)
    return Interval(found.estimate, *ends, bootstrap.standard_error(replicates), level, method)


def student_interval(values: Tensor, noise: float, level: float) -> Interval:
    """The t interval of the mean of (Q,) float64 values, whose spread is none where it is not above ``noise``."""
    mean, count = values.mean(), len(values)
    error = deviation(values, noise) / math.sqrt(count)
    ends = wald(mean, error, student_quantile(level, mean.new_tensor(count - 1.0)))
    reason = "" if error > 0 else "all queries have the same value, which says nothing of its spread"
    if count == 1:
        reason = "one query, which has no spread: the ends are NaN"
    return Interval(mean, *ends, error, level, "t", "", reason)


def _replicates(values: Tensor, resampling: Resampling) -> Tensor:
    """(B,) means of resampled values."""
    x, ones = values.numpy(), np.ones(len(values), np.int64)

    def one(rng: np.random.Generator) -> float:
        return float(multinomial(rng, ones, len(x)) @ x) / len(x)

    seed = resampling.seed()
    drawn = [v for span in resampling.spans(4 * len(x)) for v in rows(one, generators(seed, span), len(x))]
    return torch.tensor(drawn, dtype=torch.float64)
