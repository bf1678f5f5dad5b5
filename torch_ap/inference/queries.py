"""Per-query values: the interval of their mean, and the paired tests of two systems.

The queries are the sample here: nothing is assumed of what lies inside a query.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from torch_ap.core import checks
from torch_ap.inference import bootstrap, rules
from torch_ap.inference.interval import Interval, wald
from torch_ap.inference.resampling import Resampling, generators, multinomial, rows
from torch_ap.inference.student import student_quantile, student_tail

METHODS = ("t", "bootstrap-bca")
TESTS = ("t", "randomization", "wilcoxon", "sign")
_EXACT = 20
_SAME = 1e-12


def mean_interval(
    values: Tensor,
    *,
    level: float = 0.95,
    method: Literal["t", "bootstrap-bca"] = "t",
    resampling: Resampling | None = None,
) -> Interval:
    """A confidence interval for the mean of per-query values, such as MAP: mean ± t_{Q-1} s / sqrt(Q), or BCa.

    Covers, at 80% and 95%, with values of a skewed law: t .795 and .940 of 10 queries, .788 and .942 of 50; BCa .767
    and .913 of 10, .788 and .945 of 50 (``benchmarks.coverage``).

    Args:
        values: (Q,) finite values, one a query, one at least.
        level: nominal coverage, in (0, 1).
        method: "t", or "bootstrap-bca" (Efron 1987) over queries.
        resampling: of the bootstrap; None for 1,000 replicates that repeat.

    Returns:
        :class:`torch_ap.inference.interval.Interval` of 0-d float64 tensors; NaN ends for one query.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals the interval of ``scipy.stats.ttest_1samp``, and ``scipy.stats.bootstrap(..., method="BCa")``.

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
    x = values.detach().to("cpu", torch.float64)
    mean, count = x.mean(), len(x)
    error = x.std() / math.sqrt(count) if count > 1 else mean.new_tensor(math.nan)
    reason = "" if count > 1 else "one query, which has no spread: the ends are NaN"
    if count > 1 and not error > 0:
        reason = "all queries have the same value, which says nothing of its spread"
    if method == "t" or not bool(error > 0):
        ends = wald(mean, error, student_quantile(level, mean.new_tensor(count - 1.0)))
    else:
        found = _replicates(x, resampling or Resampling())
        off = x - mean
        ends = bootstrap.bca(found, mean, (off**3).sum() / (6 * (off**2).sum() ** 1.5), level)
        error = bootstrap.standard_error(found)
    return Interval(mean, *ends, error, level, method, "", reason)


@dataclass(frozen=True)
class QueryComparison:
    """Two systems over the same queries.

    Attributes:
        value_a: mean of system A.
        value_b: mean of system B.
        difference: mean of A - B.
        low: lower end of the t interval of the difference.
        high: upper end.
        standard_error: of the difference.
        effect_size: mean of the differences over their standard deviation (Cohen's d for pairs).
        p_values: two-sided p by name of the test.
        level: nominal coverage.
        queries: Q.
        reason: why numbers are NaN, or p is 1 by definition; "" otherwise.
    """

    value_a: float
    value_b: float
    difference: float
    low: float
    high: float
    standard_error: float
    effect_size: float
    p_values: dict[str, float]
    level: float
    queries: int
    reason: str = ""


def compare_queries(
    values_a: Tensor,
    values_b: Tensor,
    *,
    tests: tuple[str, ...] = ("t", "randomization"),
    level: float = 0.95,
    resampling: Resampling | None = None,
) -> QueryComparison:
    """Two systems' per-query values, paired: mean difference, interval, effect size, and p-values.

    - "t": paired t.
    - "randomization": Fisher's, which flips the sign of each difference; exact for up to 20 differences that are not
      zero, else (b + 1) / (B + 1) of B random flips.
    - "wilcoxon" (signed ranks) and "sign": do *not* test the mean. Where four queries of five gain .05 and the fifth
      loses .2, so that the means are equal, they reject 81% and 100% of the time with 150 queries (t and randomization
      7%).

    Of two systems whose values have the same law, at nominal 5%, with 15 / 50 queries: t rejects 6.7 / 3.8%,
    randomization 6.8 / 3.5%, Wilcoxon 7.2 / 4.2%, sign 4.7 / 4.0%, each ± 1 (``benchmarks.coverage``).

    Args:
        values_a: (Q,) finite per-query values of system A.
        values_b: (Q,) of system B, of the same queries in the same order.
        tests: names of the tests.
        level: nominal coverage of the t interval, in (0, 1).
        resampling: of the randomization; None for 10,000 flips that repeat.

    Returns:
        :class:`QueryComparison` of floats. All differences zero: p = 1 by every test. One query: no t.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.
        ModuleNotFoundError: for "wilcoxon" or "sign" without scipy (extra: ``inference``).

    Equals ``scipy.stats.ttest_rel``, ``wilcoxon``, ``binomtest`` of the signs, and
    ``permutation_test(permutation_type="samples")``. Source: Smucker, Allan & Carterette (2007).

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_queries
        >>> found = compare_queries(torch.tensor([0.5, 0.6, 0.9, 0.4]), torch.tensor([0.4, 0.4, 0.6, 0.5]))
        >>> round(found.difference, 4), {name: round(p, 4) for name, p in found.p_values.items()}
        (0.125, {'t': 0.2394, 'randomization': 0.375})
    """
    rules.paired(values_a, values_b, "values_a", "values_b")
    for name, values in (("values_a", values_a), ("values_b", values_b)):
        rules.query_values(name, values)
    for test in tests:
        checks.one_of("tests", test, TESTS)
    a, b = (x.detach().to("cpu", torch.float64) for x in (values_a, values_b))
    gap = a - b
    same = not bool((gap.abs() > _SAME).any())
    found = mean_interval(gap, level=level)
    how = resampling or Resampling(10_000)
    p_values = {test: 1.0 if same else _P_VALUES[test](gap, how) for test in tests}
    deviation = float(gap.std()) if len(gap) > 1 else math.nan
    mean = float(gap.mean())
    return QueryComparison(
        value_a=float(a.mean()),
        value_b=float(b.mean()),
        difference=mean,
        low=float(found.low),
        high=float(found.high),
        standard_error=float(found.standard_error),
        effect_size=mean / deviation if deviation > 0 else (0.0 if same else math.nan),
        p_values=p_values,
        level=level,
        queries=len(gap),
        reason="all differences are zero: p = 1 by definition" if same else found.reason,
    )


def paired_t(gap: Tensor, _: Resampling) -> float:
    """Two-sided p of the mean of the differences by Student's t; NaN for one query."""
    if len(gap) < 2:
        return math.nan
    error = gap.std() / math.sqrt(len(gap))
    if not bool(error > 0):
        return 0.0
    return float(student_tail((gap.mean() / error).abs(), gap.new_tensor(len(gap) - 1.0)))


def randomization(gap: Tensor, resampling: Resampling) -> float:
    """Two-sided p of the sum of the differences when each one's sign is a coin's."""
    gap = gap[gap != 0]
    observed = abs(float(gap.sum())) * (1 - _SAME)
    if len(gap) <= _EXACT:
        sums = gap.new_zeros(1)
        for difference in gap:  # twice as many sums each time; a table of all signs would be 20 times as large
            sums = torch.cat([sums + difference, sums - difference])
        return float((sums.abs() >= observed).double().mean())
    values = gap.numpy()

    def flipped(rng: np.random.Generator) -> float:
        keep = rng.integers(0, 2, len(values), dtype=np.uint8).astype(bool)
        return float(values.sum(where=keep) - values.sum(where=~keep))

    seed = resampling.seed()
    drawn = [
        x for span in resampling.spans(4 * len(values)) for x in rows(flipped, generators(seed, span), len(values))
    ]
    return float((np.abs(drawn) >= observed).sum() + 1) / (len(drawn) + 1)


def scipy_stats(what: str) -> Any:
    """``scipy.stats``, or an error that names the extra."""
    try:
        from scipy import stats
    except ImportError as error:
        raise ModuleNotFoundError(f"{what} needs scipy: pip install 'torch-ap[inference]'") from error
    return stats


def _wilcoxon(gap: Tensor, _: Resampling) -> float:
    return float(scipy_stats("Wilcoxon's test").wilcoxon(gap.numpy()).pvalue)


def _sign(gap: Tensor, _: Resampling) -> float:
    wins, losses = int((gap > 0).sum()), int((gap < 0).sum())
    return float(scipy_stats("the sign test").binomtest(wins, wins + losses).pvalue)


def _replicates(values: Tensor, resampling: Resampling) -> Tensor:
    """(B,) means of resampled values."""
    x, ones = values.numpy(), np.ones(len(values), np.int64)

    def one(rng: np.random.Generator) -> float:
        return float(multinomial(rng, ones, len(x)) @ x) / len(x)

    seed = resampling.seed()
    drawn = [v for span in resampling.spans(4 * len(x)) for v in rows(one, generators(seed, span), len(x))]
    return torch.tensor(drawn, dtype=torch.float64)


_P_VALUES = {"t": paired_t, "randomization": randomization, "wilcoxon": _wilcoxon, "sign": _sign}
