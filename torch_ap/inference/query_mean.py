"""The interval of a mean over queries. They are the sample: nothing is assumed of what lies inside a query."""

import math
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.inference import bootstrap
from torch_ap.inference.bounded_mean import mean_ends
from torch_ap.inference.interval import Interval, wald, wilson
from torch_ap.inference.resampling import Resampling, generators, multinomial, rows
from torch_ap.inference.rounding import deviation, rounding
from torch_ap.inference.student import normal_quantile, student_quantile
from torch_ap.rules import checks
from torch_ap.rules import values as value_rules
from torch_ap.rules.options import allowed

Method: TypeAlias = Literal["dirichlet", "t", "bootstrap-bca"]
METHODS = allowed(Method)
_FEW = 10  # queries: the fewest whose coverage by the bootstrap was measured, and that is .86 to .90


def mean_interval(
    values: Tensor,
    *,
    confidence_level: float = 0.95,
    method: Method = "dirichlet",
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    batch: int | None = None,
    progress: bool = False,
) -> Interval:
    """A confidence interval for the mean of per-query values, such as MAP; by default one that stays inside [0, 1].

    The estimand is the mean over the population of queries that these were drawn from, each with its documents as they
    are.

    The methods cover, at 95%, of 10 / 30 / 100 queries (the bootstrap 10 / 30) whose values have a skewness of .7, 1.5
    and 2, the last being reciprocal ranks of known items (``benchmarks.coverage``):

    =============  =================================  ==================  ==================  ==================
    method         what it is                         moderate            skewed              known-item
    =============  =================================  ==================  ==================  ==================
    dirichlet      Dirichlet weights; inside [0, 1]   .975 / .959 / .948  .968 / .971 / .960  .968 / .947 / .945
    t              mean ± t_{Q-1} s / sqrt(Q)         .938 / .943 / .944  .909 / .942 / .950  .799 / .918 / .942
    bootstrap-bca  Efron's (1987), over queries       .900 / .950         .860 / .920         .860 / .950
    =============  =================================  ==================  ==================  ==================

    "dirichlet" gives the mean under Dirichlet weights, of which each value has one and 0 and 1 half of one each: what
    was not seen may lie at the bounds. Values that all are 0 or 1 have Wilson's interval. Of 10 queries it is narrower
    than t (.31 and .35 of moderate values, .35 and .39 of known items), but for values that hardly vary (.20 and .04
    where all lie within .05 of .33); of 100 as wide (.098 and .099), of those .024 and .011.

    Args:
        values: (Q,) finite values, one per query, at least one.
        confidence_level: nominal coverage, in (0, 1).
        method: as above.
        n_resamples: resamples of the bootstrap; at least 2.
        generator: what they are drawn with; None for one with seed 0, so that results repeat.
        batch: how many are computed at once, on which no result depends; None for as many as take about 64 MB.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`torch_ap.inference.interval.Interval` of 0-d float64 tensors. With a reason: where all values are 0 or
        1; where all are equal but for rounding, or there is one, ends that rest on the bounds ("dirichlet"), or else
        ends at the mean, and NaN for one; and for "bootstrap-bca" of fewer than 10, likely too narrow.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules, such as a value outside [0, 1].

    Equals the interval of ``scipy.stats.ttest_1samp``, and ``scipy.stats.bootstrap(..., method="BCa")``; of values that
    are 0 or 1 ``scipy.stats.binomtest(...).proportion_ci(method="wilson")``. "dirichlet" equals the quantiles of the
    Bayesian bootstrap's replicates, whose weights are Dirichlet(1, ..., 1, 1/2, 1/2), to a tenth of either tail's 2.5%.
    Source: Ferguson (1973), A Bayesian Analysis of Some Nonparametric Problems; Rubin (1981), The Bayesian Bootstrap;
    Barndorff-Nielsen (1986), Inference on Full or Partial Parameters; Wilson (1927); Student (1908), The Probable Error
    of a Mean; Efron (1987), Better Bootstrap Confidence Intervals.

    Example:
        >>> import torch
        >>> from torch_ap.inference import mean_interval
        >>> found = mean_interval(torch.tensor([0.2, 0.4, 0.9, 0.5]))
        >>> round(float(found.low), 4), round(float(found.high), 4)
        (0.2563, 0.7643)
    """
    value_rules.of_each_query("values", values)
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, METHODS)
    how = Resampling(n_resamples, generator, batch, progress)
    return _interval(values.detach().to("cpu", torch.float64), rounding(values), confidence_level, method, how).to(
        values.device
    )


def _interval(x: Tensor, noise: float, confidence_level: float, method: str, how: Resampling) -> Interval:
    """The interval of the mean of (Q,) float64 values on CPU, that may be off by ``noise``."""
    if method == "dirichlet":
        return _bounded_interval(x, noise, confidence_level)
    found = student_interval(x, noise, confidence_level)
    if method == "t" or found.reason:
        return replace(found, method=method)
    replicates, off = _replicates(x, how), x - found.estimate
    ends = bootstrap.bca(replicates, found.estimate, (off**3).sum() / (6 * (off**2).sum() ** 1.5), confidence_level)
    reason = f"{len(x)} queries: likely too narrow, coverage is measured from {_FEW} on" if len(x) < _FEW else ""
    return Interval(
        found.estimate, *ends, bootstrap.standard_error(replicates), confidence_level, method, reason=reason
    )


def student_interval(values: Tensor, noise: float, confidence_level: float) -> Interval:
    """The t interval of the mean of (Q,) float64 values, whose spread is none where it is not above ``noise``."""
    mean, count = values.mean(), len(values)
    error = deviation(values, noise) / math.sqrt(count)
    ends = wald(mean, error, student_quantile(confidence_level, mean.new_tensor(count - 1.0)))
    reason = "" if error > 0 else "all queries have the same value, which says nothing of its spread"
    if count == 1:
        reason = "one query, which has no spread: the ends are NaN"
    return Interval(mean, *ends, error, confidence_level, "t", "", reason)


def _bounded_interval(values: Tensor, noise: float, confidence_level: float) -> Interval:
    """The interval of the mean of (Q,) float64 values in [0, 1], that may be off by ``noise``."""
    outside = (values < -noise) | (values > 1 + noise)
    if bool(outside.any()):
        place = int(outside.nonzero()[0])
        raise ValueError(
            f"`values` must lie in [0, 1] for method 'dirichlet', got {float(values[place])} at index {place}; "
            "methods 't' and 'bootstrap-bca' take any"
        )
    mean, count, x = values.mean(), len(values), values.clamp(0, 1)
    error = deviation(values, noise) / math.sqrt(count)
    if bool(((x == 0) | (x == 1)).all()):
        ends = wilson(mean, mean.new_tensor(count), normal_quantile(confidence_level))
        return Interval(
            mean, *ends, error, confidence_level, "dirichlet", "", "all values are 0 or 1: Wilson's interval"
        )
    low, high = (mean.new_tensor(end) for end in mean_ends(x.numpy(), confidence_level))
    reason = "" if error > 0 else "all queries have the same value: the ends rest on the bounds 0 and 1"
    if count == 1:
        reason = "one query, which has no spread: the ends rest on the bounds 0 and 1"
    return Interval(mean, low, high, error, confidence_level, "dirichlet", "", reason)


def _replicates(values: Tensor, resampling: Resampling) -> Tensor:
    """(B,) means of resampled values."""
    x, ones = values.numpy(), np.ones(len(values), np.int64)

    def one(rng: np.random.Generator) -> float:
        return float(multinomial(rng, ones, len(x)) @ x) / len(x)

    seed = resampling.seed()
    drawn = [v for span in resampling.batches(4 * len(x)) for v in rows(one, generators(seed, span), len(x))]
    return torch.tensor(drawn, dtype=torch.float64)
