r"""Inference over queries: interval of a mean, and comparison of two systems by interval and paired tests.

The queries are the sample. Nothing is assumed about the documents of a query.

The interval "dirichlet" allows for unobserved values at the bounds 0 and 1. The distribution of the values has a
Dirichlet process prior with half an observation at 0 and half at 1. Then the mean is a sum of Dirichlet weights times
values,

.. math::
    P(mean \le \theta) = P\Big(\sum_i \gamma_i (x_i - \theta) \le 0\Big), \qquad \gamma_i \sim Gamma(a_i),

with a = 1 for each value and 1/2 for each bound. This is the Bayesian bootstrap without random replicates. For values
of 0 and 1 the result is Beta(s + 1/2, f + 1/2), Jeffreys' posterior. The probability is computed by the saddlepoint
approximation, which tilts the values by a logistic factor: the weights become proportional to a / (1 - x + x e^u), and
their mean is the theta of tilt u.
"""

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.options import allowed_values
from torch_ap.core.metric.samples import SampleIds
from torch_ap.core.ranking.order import Array
from torch_ap.inference import groups as grouped
from torch_ap.inference import record
from torch_ap.inference import resampling as bootstrap
from torch_ap.inference.groups import Groups
from torch_ap.inference.record import Comparison, Interval
from torch_ap.inference.resampling import Resampling, times_drawn

QueryMethod: TypeAlias = Literal["dirichlet", "t", "bootstrap-bca"]
QUERY_METHODS = allowed_values(QueryMethod)
_ENOUGH = 30  # queries; 95% by "t" and "bootstrap-bca" covered .918 to .954 with 30
_COVERED_BY_10 = {"t": ".80 to .94", "bootstrap-bca": ".84 to .93"}  # with 10 queries, by the skewness of the values


@renamed_keywords(batch="chunk_size")
def mean_interval(
    values: Tensor,
    *,
    confidence_level: float = 0.95,
    method: QueryMethod | None = None,
    groups: SampleIds = None,
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Interval:
    """Return a confidence interval for the mean of per-query values, such as MAP; by default inside [0, 1].

    The estimand is the mean over the population of queries from which the queries were sampled, each with its fixed
    documents.

    Coverage of the methods at 95% for 10 / 30 / 100 queries (the bootstrap 10 / 30). The values have a skewness of .7,
    1.5 and 2; the last column are reciprocal ranks of known items (``benchmarks.coverage``):

    =============  =================================  ==================  ==================  ==================
    method         description                        moderate            skewed              known-item
    =============  =================================  ==================  ==================  ==================
    dirichlet      Dirichlet weights; inside [0, 1]   .975 / .959 / .948  .968 / .971 / .960  .968 / .947 / .945
    t              mean ± t_{Q-1} s / sqrt(Q)         .938 / .943 / .944  .909 / .942 / .950  .799 / .918 / .942
    bootstrap-bca  Efron's (1987), over queries       .918 / .946         .898 / .937         .836 / .940
    =============  =================================  ==================  ==================  ==================

    "dirichlet" is the distribution of the mean under Dirichlet weights with parameter 1 for each value and 1/2 for each
    of the bounds 0 and 1, which allows for unobserved values. If all values are 0 or 1, it is Wilson's interval. For 10
    queries it is narrower than t (.31 and .35 for moderate values, .35 and .39 for known items), except for values that
    hardly vary (.20 and .04 if all are within .05 of .33). For 100 queries the widths are .098 and .099, and for values
    that hardly vary .024 and .011.

    Args:
        values: (Q,) finite values, one per query, at least one.
        confidence_level: nominal coverage, in (0, 1).
        method: as above; None for "dirichlet", and with ``groups`` for "t", the only method.
        groups: (Q,) integers, a tensor or a list, the group of each query, such as a topic or a user; None for
            independent queries. With S_g the sum of the n_g values of group g, SE^2 is G / (G - 1) times the sum of
            (S_g - n_g mean)^2, over Q^2. Student's t has (sum of n_g)^2 / sum of n_g^2 - 1 degrees of freedom. The ends
            are computed on the logit scale if all values are in [0, 1].
        n_resamples: number of bootstrap resamples, at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`torch_ap.inference.Interval` of 0-d float64 tensors. ``reason`` is set if all values are 0 or
        1; if all values are equal up to rounding, or there is one value (the ends of "dirichlet" then come from the
        bounds alone, the ends of the other methods are the mean, or NaN for one value); and for "t" without
        groups and "bootstrap-bca" with fewer than 30 queries, whose interval is likely too narrow for skewed values.

    Raises:
        TypeError, ValueError: if an argument is invalid, such as a value outside [0, 1].

    Equals the interval of ``scipy.stats.ttest_1samp``, and ``scipy.stats.bootstrap(..., method="BCa")``; for values of
    0 and 1 ``scipy.stats.binomtest(...).proportion_ci(method="wilson")``. "dirichlet" equals the quantiles of Bayesian
    bootstrap replicates with weights Dirichlet(1, ..., 1, 1/2, 1/2), to a tenth of the 2.5% of either tail.
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
    tensors.check_query_values("values", values)
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    ids = grouped.validate_groups(groups, values.shape, values.device, "query")
    checks.one_of("method", method, (None, *QUERY_METHODS) if groups is None else (None, "t"))
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    x, method = values.detach().to("cpu", torch.float64), method or ("dirichlet" if groups is None else "t")
    if ids is not None:
        return grouped_mean_interval(x, Groups.from_ids(ids.cpu()), confidence_level).to(values.device)
    return _interval(x, record.rounding(values), confidence_level, method, resampling).to(values.device)


def bounded_mean_interval(values: Tensor, upper: float, **options: Any) -> Interval:
    """Return the interval of :func:`mean_interval` for values in [0, upper], with ends in [0, upper].

    Args:
        values: as for :func:`mean_interval`.
        upper: the largest possible value, in (0, 1].
        **options: as for :func:`mean_interval`.
    """
    if upper == 1:
        return mean_interval(values, **options)
    found = mean_interval((values.to(torch.float64) / upper).clamp(max=1), **options)
    scaled = {x: getattr(found, x) * upper for x in ("low", "high", "standard_error")}
    return replace(found, estimate=values.to(torch.float64).mean(), **scaled)


def _interval(x: Tensor, noise: float, confidence_level: float, method: str, resampling: Resampling) -> Interval:
    """Return the interval of the mean of (Q,) float64 CPU values with a rounding error of at most ``noise``."""
    if method == "dirichlet":
        return _dirichlet_interval(x, noise, confidence_level)
    interval = student_interval(x, noise, confidence_level)
    few = f"{len(x)} queries: likely too narrow for skewed values, with 10 queries 95% covered {_COVERED_BY_10[method]}"
    reason = interval.reason or (few if len(x) < _ENOUGH else "")
    if method == "t" or interval.reason:
        return replace(interval, method=method, reason=reason)
    array, count, deviations = x.numpy(), len(x), x - interval.estimate
    replicates = resampling.statistics(
        lambda rng: float(times_drawn(rng, count, count) @ array) / count, 4 * count, count
    )
    acceleration = (deviations**3).sum() / (6 * (deviations**2).sum() ** 1.5)
    low, high = bootstrap.bca(replicates, interval.estimate, acceleration, confidence_level)
    error = bootstrap.standard_error(replicates)
    return replace(interval, low=low, high=high, standard_error=error, method=method, reason=reason)


def student_interval(values: Tensor, noise: float, confidence_level: float) -> Interval:
    """Return the t interval of the mean of (Q,) float64 values; their spread is 0 if it is at most ``noise``."""
    mean, count = values.mean(), len(values)
    error = record.deviation(values, noise) / math.sqrt(count)
    ends = record.wald(mean, error, record.student_quantile(confidence_level, mean.new_tensor(count - 1.0)))
    reason = "" if error > 0 else "all queries have the same value, so the spread is unknown"
    if count == 1:
        reason = "one query, which has no spread: the ends are NaN"
    return Interval(mean, *ends, error, confidence_level, "t", "", reason)


def grouped_mean_interval(values: Tensor, groups: Groups, confidence_level: float) -> Interval:
    """Return the interval of the mean of (Q,) float64 values in groups, on the logit scale for values in [0, 1]."""
    mean = values.mean()
    error = grouped_error(values, groups)
    df = grouped.effective_number(groups.sums(torch.ones_like(values))) - 1
    quantile = record.student_quantile(confidence_level, mean.new_tensor(df))
    within = bool(((values >= 0) & (values <= 1)).all())
    low, high = (record.logit if within else record.wald)(mean, error, quantile)
    reason = ""
    if bool(low.isnan()):
        cause = (
            grouped.NO_SPREAD
            if 0 < float(mean) < 1 or not within
            else "all values are the smallest possible, or all the largest"
        )
        reason = f"{cause}: the ends are NaN"
    elif float(error) <= record.rounding(values):
        reason = "the groups have equal means, so their spread is unknown: the interval has no width"
    elif groups.count < grouped.MEASURED_FROM:
        reason = grouped.few_groups_reason(torch.tensor(groups.count), "queries")
    return Interval(mean, low, high, error, confidence_level, "t", "", reason)


def grouped_error(values: Tensor, groups: Groups) -> Tensor:
    """Return the standard error of the mean of (Q,) values in groups; a mean of unequal groups is a ratio."""
    mean = values.mean()
    return grouped.standard_error(grouped.linearized_values(mean, (values - mean) / len(values), groups))


def _dirichlet_interval(values: Tensor, noise: float, confidence_level: float) -> Interval:
    """Return the "dirichlet" interval of (Q,) float64 values in [0, 1] with a rounding error of at most ``noise``."""
    outside = (values < -noise) | (values > 1 + noise)
    if bool(outside.any()):
        index = int(outside.nonzero()[0])
        raise ValueError(
            f"`values` must be in [0, 1] for method 'dirichlet', got {float(values[index])} at index {index}; "
            "methods 't' and 'bootstrap-bca' accept all finite values"
        )
    mean, count, x = values.mean(), len(values), values.clamp(0, 1)
    error = record.deviation(values, noise) / math.sqrt(count)
    if bool(((x == 0) | (x == 1)).all()):
        ends = record.wilson(mean, mean.new_tensor(count), record.normal_quantile(confidence_level))
        reason = "all values are the smallest or the largest possible: Wilson's interval"
    else:
        low, high = mean_ends(x.numpy(), confidence_level)
        ends, reason = (mean.new_tensor(low), mean.new_tensor(high)), ""
        if not error > 0:
            cause = "one query, which has no spread" if count == 1 else "all queries have the same value"
            reason = f"{cause}: the ends come from the smallest and the largest possible value alone"
    return Interval(mean, *ends, error, confidence_level, "dirichlet", "", reason)


_HALF = 0.5  # observations at each bound
_MAX_TILT = 300.0  # for every confidence level below 1 in float64, the ends have smaller tilts
_CENTER = 1e-4  # for smaller roots, r* is computed by its limit, because its terms cancel


def mean_ends(values: Array, confidence_level: float) -> tuple[float, float]:
    """Return both ends of the "dirichlet" interval; the mean is between them.

    Args:
        values: (Q,) in [0, 1], at least one.
        confidence_level: nominal coverage.
    """
    from scipy.optimize import brentq

    def end(z: float) -> float:
        u = brentq(lambda u: _mean_and_normal(values, u)[1] - z, -_MAX_TILT, _MAX_TILT, xtol=1e-12)
        return _mean_and_normal(values, u)[0]

    z, mean = record.normal_quantile(confidence_level), float(values.mean())
    return min(end(-z), mean), max(end(z), mean)


def _mean_and_normal(values: Array, u: float) -> tuple[float, float]:
    """Return theta at tilt u, and the z with P(Z <= z) = P(mean <= theta), by Barndorff-Nielsen's r*."""
    odds = math.exp(u)
    tilted = (1 - values) + values * odds
    weights = 1 / tilted
    total, count = weights.sum() + _HALF + _HALF / odds, len(values) + 2 * _HALF
    theta = float(((values * weights).sum() + _HALF / odds) / total)
    complement = float((((1 - values) * weights).sum() + _HALF) / total)
    scale = total / count
    # s solves K'(s) = 0 for the cumulant generating function K(s) = -sum of a log(1 - s (x - theta))
    s = (scale - 1) / theta if theta <= _HALF else (1 - odds * scale) / complement
    height = np.log(tilted).sum() + _HALF * u + count * math.log(scale)
    root = math.copysign(math.sqrt(max(2 * height, 0.0)), s)
    deviations = (values - theta) * weights / scale
    ends = np.array([-theta, complement / odds]) / scale
    squares = (deviations**2).sum() + _HALF * (ends**2).sum()
    if abs(root) < _CENTER:
        return theta, float(2 * ((deviations**3).sum() + _HALF * (ends**3).sum()) / (6 * squares**1.5)) + root
    return theta, float(root + math.log(s * math.sqrt(squares) / root) / root)


Method: TypeAlias = Literal["t", "randomization", "wilcoxon", "sign"]
METHODS = allowed_values(Method)
_MAX_EXACT = 20  # differences; the exact randomization test lists 2^20 sums


@dataclass(frozen=True, eq=False, repr=False)
class QueryComparison(Comparison):
    """Two systems over the same queries. The fields of Comparison contain the means and the mean difference.

    Attributes:
        effect_size: mean of the differences over their standard deviation (Cohen's d for pairs); NaN without spread.
        queries: Q.
    """

    effect_size: Tensor = field(kw_only=True)
    queries: int = field(kw_only=True)


@renamed_keywords(batch="chunk_size")
def compare_per_query(
    values_a: Tensor,
    values_b: Tensor,
    *,
    confidence_level: float = 0.95,
    method: Method = "t",
    bounds: tuple[float, float] | None = None,
    groups: SampleIds = None,
    n_resamples: int = 10_000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> QueryComparison:
    """Compare two systems by their per-query values: mean difference, interval, effect size and p-value.

    The estimand is the mean difference in the population of queries from which the queries were sampled.

    - "t": paired t test. The interval is the t interval for every method.
    - "randomization": Fisher's test, which flips the sign of each difference; exact for up to 20 nonzero differences,
      otherwise (b + 1) / (B + 1) of B random flips.
    - "wilcoxon" (signed ranks) and "sign" do *not* test the mean. If four of five queries gain .05 and the fifth loses
      .2, the means are equal, but these tests reject in 81% and 100% of samples of 150 queries (t and randomization
      7%).

    Rejection rates for two systems with the same distribution of values, at nominal 5%, with 15 / 50 queries: t
    6.7 / 3.8%, randomization 6.8 / 3.5%, Wilcoxon 7.2 / 4.2%, sign 4.7 / 4.0%, each ± 1 (``benchmarks.coverage``).

    Args:
        values_a: (Q,) finite per-query values of system A.
        values_b: (Q,) values of system B for the same queries in the same order.
        confidence_level: nominal coverage of the t interval, in (0, 1).
        method: the test, as above.
        bounds: smallest and largest value of the measure, (0, 1) for average precision, to which the interval is
            clipped; None for an unbounded measure.
        groups: (Q,) integers, a tensor or a list, the group of each query, such as a topic or a user; None for
            independent queries. Standard error and degrees of freedom are those of
            :func:`torch_ap.inference.mean_interval`, for method "t" only.
        n_resamples: number of random sign flips, at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`QueryComparison`. A difference within rounding error (1e-12 of the largest value, or two epsilons of its
        dtype) counts as zero. If all differences are zero, p = 1 for every test. If all differences are equal, or there
        is one query, the differences have no spread: the ends, the effect size and the p of t are NaN, with a reason.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Equals ``scipy.stats.ttest_rel``, ``wilcoxon``, ``binomtest`` of the signs, and
    ``permutation_test(permutation_type="samples")``. Source: Smucker, Allan & Carterette (2007).

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_per_query
        >>> found = compare_per_query(torch.tensor([0.5, 0.6, 0.9, 0.4]), torch.tensor([0.4, 0.4, 0.6, 0.5]))
        >>> round(float(found.difference), 4), round(float(found.p_value), 4)
        (0.125, 0.2394)
    """
    pairs = validate_pairs(values_a, values_b, bounds)
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, METHODS)
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    gap = pairs.gap
    ids = grouped.validate_groups(groups, gap.shape, values_a.device, "query")
    if ids is not None:
        checks.one_of("method", method, ("t",), or_else="None for `groups`")
        return _compare_grouped(pairs, Groups.from_ids(ids.cpu()), confidence_level, bounds).to(values_a.device)
    interval = student_interval(gap, pairs.noise, confidence_level)
    mean, spread = float(gap.mean()), float(record.deviation(gap, pairs.noise))
    ends = (float(interval.low), float(interval.high)) if spread > 0 or not gap.any() else (math.nan, math.nan)
    low, high = record.clip_difference(*ends, bounds)
    p = p_value(method, pairs, resampling)
    effect_size = mean / spread if spread > 0 else (math.nan if gap.any() else 0.0)
    numbers = (pairs.value_a, pairs.value_b, mean, low, high, interval.standard_error, p, effect_size)
    settings: dict[str, Any] = {"confidence_level": confidence_level, "method": method, "queries": len(gap)}
    return QueryComparison.from_numbers(*numbers, **settings, reason=_reason(gap, spread)).to(values_a.device)


def _compare_grouped(
    pairs: "Pairs", groups: Groups, confidence_level: float, bounds: tuple[float, float] | None
) -> QueryComparison:
    """Return the comparison by t of queries in groups."""
    gap, df = pairs.gap, grouped.effective_number(groups.sums(torch.ones_like(pairs.gap))) - 1
    mean, error = float(gap.mean()), float(grouped_error(gap, groups))
    has_spread = df >= 1 and error > pairs.noise
    low, high, p, reason = student_difference(gap, error if has_spread else 0.0, df, confidence_level, bounds)
    if p != p:
        cause = (
            "fewer than two groups, or one with most queries" if df < 1 else "the groups have equal mean differences"
        )
        reason = f"{cause}, so their spread is unknown: no p by t"
    elif not reason:
        reason = grouped.few_groups_reason(torch.tensor(groups.count), "queries")
    spread = float(record.deviation(gap, pairs.noise))
    numbers = (pairs.value_a, pairs.value_b, mean, low, high, error, p, mean / spread if spread > 0 else math.nan)
    settings: dict[str, Any] = {"confidence_level": confidence_level, "method": "t", "queries": len(gap)}
    return QueryComparison.from_numbers(*numbers, **settings, reason=reason)


def student_difference(
    gap: Tensor, error: float, df: float, confidence_level: float, bounds: tuple[float, float] | None
) -> tuple[float, float, float, str]:
    """Return the ends and the p-value of the mean of (Q,) differences by t, and the reason if all are 0.

    The ends and the p-value are NaN for a standard error of 0.
    """
    if not gap.any():
        return 0.0, 0.0, 1.0, "all differences are zero: p = 1 by definition"
    if not error > 0:
        return math.nan, math.nan, math.nan, ""
    mean, half = float(gap.mean()), float(record.student_quantile(confidence_level, record.number(df))) * error
    ends = record.clip_difference(mean - half, mean + half, bounds)
    return *ends, record.student_tail(abs(mean) / error, df), ""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Values of two systems, subtracted query by query.

    Attributes:
        value_a: mean of system A, 0-d.
        value_b: mean of system B, 0-d.
        gap: (Q,) float64 on CPU, A - B; 0 within rounding error.
        noise: bound of the rounding error of each difference.
    """

    value_a: Tensor
    value_b: Tensor
    gap: Tensor
    noise: float


def validate_pairs(values_a: Tensor, values_b: Tensor, bounds: tuple[float, float] | None) -> Pairs:
    """Validate the values of two systems, and return their differences."""
    tensors.check_paired(values_a=values_a, values_b=values_b)
    for name, values in (("values_a", values_a), ("values_b", values_b)):
        tensors.check_query_values(name, values)
    checks.check_bounds(bounds, values_a=values_a, values_b=values_b)
    return pair_values(values_a, values_b)


def pair_values(values_a: Tensor, values_b: Tensor) -> Pairs:
    """Return the differences of validated values."""
    a, b = (x.detach().to("cpu", torch.float64) for x in (values_a, values_b))
    noise = record.rounding(values_a, values_b)
    return Pairs(a.mean(), b.mean(), torch.where((a - b).abs() > noise, a - b, 0.0), noise)


def p_value(test: str, pairs: Pairs, resampling: Resampling) -> float:
    """Return the two-sided p-value of a test; 1 if all differences are zero."""
    return _P_VALUES[test](pairs, resampling) if pairs.gap.any() else 1.0


def _reason(gap: Tensor, spread: float) -> str:
    if not gap.any():
        return "all differences are zero: p = 1 by definition" + ("; one query has no ends" if len(gap) == 1 else "")
    if not spread > 0:
        why = "one query" if len(gap) == 1 else "all differences are equal"
        return f"{why}, so the differences have no spread: ends, effect size and the p of t are NaN"
    return ""


def _t(pairs: Pairs, _: Resampling) -> float:
    """Return the p-value of Student's t test of the mean; NaN without spread."""
    gap = pairs.gap
    error = record.deviation(gap, pairs.noise) / math.sqrt(len(gap))
    if not error > 0:
        return math.nan
    return record.student_tail(float((gap.mean() / error).abs()), len(gap) - 1)


def _randomization(pairs: Pairs, resampling: Resampling) -> float:
    """Return the p-value of random signs; a sum within rounding error of the observed sum counts as equal."""
    gap = pairs.gap[pairs.gap != 0]
    observed = abs(float(gap.sum())) - pairs.noise * math.sqrt(len(gap))
    if len(gap) <= _MAX_EXACT:
        sums = gap.new_zeros(1)
        for difference in gap:  # doubles the number of sums; a table of all signs takes 20 times the memory
            sums = torch.cat([sums + difference, sums - difference])
        return float((sums.abs() >= observed).double().mean())
    values = gap.numpy()

    def sum_with_random_signs(rng: np.random.Generator) -> float:
        positive = rng.integers(0, 2, len(values), dtype=np.uint8).astype(bool)
        return float(values.sum(where=positive) - values.sum(where=~positive))

    sums = resampling.statistics(sum_with_random_signs, 4 * len(values), len(values))
    return float((sums.abs() >= observed).sum() + 1) / (len(sums) + 1)


def _wilcoxon(pairs: Pairs, _: Resampling) -> float:
    """Return the p-value of signed ranks; sizes that differ only by rounding are tied."""
    from scipy.stats import wilcoxon

    sizes, queries = pairs.gap.abs().sort()
    ranks = torch.zeros(len(sizes), dtype=torch.float64)
    ranks[queries[1:]] = (sizes.diff() > pairs.noise).cumsum(0).double()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sample size too small", UserWarning)  # scipy 1.13, few queries
        return float(wilcoxon((pairs.gap.sign() * (ranks + 1)).numpy()).pvalue)


def _sign(pairs: Pairs, _: Resampling) -> float:
    """Return the p-value of the sign test."""
    from scipy.stats import binomtest

    wins, losses = int((pairs.gap > 0).sum()), int((pairs.gap < 0).sum())
    return float(binomtest(wins, wins + losses).pvalue)


_P_VALUES = {"t": _t, "randomization": _randomization, "wilcoxon": _wilcoxon, "sign": _sign}
