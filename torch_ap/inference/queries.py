"""Two systems over the same queries: the interval of their mean difference, and paired tests.

The queries are the sample here: nothing is assumed of what lies inside a query.
"""

import math
import warnings
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.inference.difference import Comparison
from torch_ap.inference.interval import of_difference
from torch_ap.inference.query_mean import student_interval
from torch_ap.inference.resampling import Resampling, generators, rows
from torch_ap.inference.result import number
from torch_ap.inference.rounding import deviation, rounding
from torch_ap.inference.student import student_tail
from torch_ap.rules import checks, tensors
from torch_ap.rules import values as value_rules
from torch_ap.rules.options import allowed

Method: TypeAlias = Literal["t", "randomization", "wilcoxon", "sign"]
METHODS = allowed(Method)
_EXACT = 20


@dataclass(frozen=True, eq=False, repr=False)
class QueryComparison(Comparison):
    """Two systems over the same queries: the means, and the mean of the differences, in the fields of Comparison.

    Attributes:
        effect_size: mean of the differences over their standard deviation (Cohen's d for pairs); NaN without spread.
        queries: Q.
    """

    effect_size: Tensor = field(kw_only=True)
    queries: int = field(kw_only=True)


def compare_queries(
    values_a: Tensor,
    values_b: Tensor,
    *,
    confidence_level: float = 0.95,
    method: Method = "t",
    bounds: tuple[float, float] | None = None,
    n_resamples: int = 10_000,
    generator: torch.Generator | None = None,
    batch: int | None = None,
    progress: bool = False,
) -> QueryComparison:
    """Two systems' per-query values, paired: mean difference, interval, effect size, and a p-value.

    The estimand is the mean difference over the population of queries that these were drawn from.

    - "t": paired t, by whose law the interval is, whatever the method.
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
        confidence_level: nominal coverage of the t interval, in (0, 1).
        method: the test, as above.
        bounds: the least and the greatest value that the measure can take, (0, 1) for average precision; the ends of
            the interval then lie no further out than two values can differ. None where there are none.
        n_resamples: random flips of the randomization; at least 2.
        generator: what they are drawn with; None for one with seed 0, so that results repeat.
        batch: how many are computed at once, on which no result depends; None for as many as take about 64 MB.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`QueryComparison`. A difference that rounding explains (1e-12 of the largest value, or two
        epsilons of its dtype) counts as zero. All differences zero: p = 1 by every test. All equal, or one query: they
        have no spread, so the ends, effect size and p of t are NaN, with a reason; the other tests have their p.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``scipy.stats.ttest_rel``, ``wilcoxon``, ``binomtest`` of the signs, and
    ``permutation_test(permutation_type="samples")``. Source: Smucker, Allan & Carterette (2007).

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_queries
        >>> found = compare_queries(torch.tensor([0.5, 0.6, 0.9, 0.4]), torch.tensor([0.4, 0.4, 0.6, 0.5]))
        >>> round(float(found.difference), 4), round(float(found.p_value), 4)
        (0.125, 0.2394)
    """
    tensors.paired(values_a=values_a, values_b=values_b)
    for name, values in (("values_a", values_a), ("values_b", values_b)):
        value_rules.of_each_query(name, values)
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, METHODS)
    checks.within_bounds(bounds, values_a=values_a, values_b=values_b)
    how = Resampling(n_resamples, generator, batch, progress)
    pairs = pairs_of(values_a, values_b)
    gap = pairs.gap
    found = student_interval(gap, pairs.noise, confidence_level)
    mean, spread = float(gap.mean()), float(deviation(gap, pairs.noise))
    ends = (float(found.low), float(found.high)) if spread > 0 or not gap.any() else (math.nan, math.nan)
    low, high = of_difference(*ends, bounds)
    return QueryComparison(
        value_a=pairs.value_a,
        value_b=pairs.value_b,
        difference=gap.mean(),
        low=number(low),
        high=number(high),
        standard_error=found.standard_error,
        p_value=number(p_value(method, pairs, how)),
        confidence_level=confidence_level,
        method=method,
        reason=_reason(gap, spread),
        effect_size=number(mean / spread if spread > 0 else (math.nan if gap.any() else 0.0)),
        queries=len(gap),
    ).to(values_a.device)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Two systems' values, subtracted query by query.

    Attributes:
        value_a: 0-d, mean of system A.
        value_b: 0-d, of system B.
        gap: (Q,) float64 on CPU, A - B; 0 where rounding explains it.
        noise: how far rounding may have moved each.
    """

    value_a: Tensor
    value_b: Tensor
    gap: Tensor
    noise: float


def pairs_of(values_a: Tensor, values_b: Tensor) -> Pairs:
    """The differences of checked values."""
    a, b = (x.detach().to("cpu", torch.float64) for x in (values_a, values_b))
    noise = rounding(values_a, values_b)
    return Pairs(a.mean(), b.mean(), torch.where((a - b).abs() > noise, a - b, 0.0), noise)


def p_value(test: str, pairs: Pairs, resampling: Resampling) -> float:
    """Two-sided p by the test of that name; 1 where all differences are zero."""
    return _P_VALUES[test](pairs, resampling) if pairs.gap.any() else 1.0


def _reason(gap: Tensor, spread: float) -> str:
    if not gap.any():
        return "all differences are zero: p = 1 by definition" + ("; one query has no ends" if len(gap) == 1 else "")
    if not spread > 0:
        why = "one query" if len(gap) == 1 else "all differences are equal"
        return f"{why}, so the differences have no spread: ends, effect size and the p of t are NaN"
    return ""


def _t(pairs: Pairs, _: Resampling) -> float:
    """Student's t of the mean; NaN without spread."""
    gap = pairs.gap
    error = deviation(gap, pairs.noise) / math.sqrt(len(gap))
    if not error > 0:
        return math.nan
    return student_tail(float((gap.mean() / error).abs()), len(gap) - 1)


def _randomization(pairs: Pairs, resampling: Resampling) -> float:
    """The sum when each difference's sign is a coin's; a sum that rounding tells from the observed one reaches it."""
    gap = pairs.gap[pairs.gap != 0]
    observed = abs(float(gap.sum())) - pairs.noise * math.sqrt(len(gap))
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
        x for span in resampling.batches(4 * len(values)) for x in rows(flipped, generators(seed, span), len(values))
    ]
    return float((np.abs(drawn) >= observed).sum() + 1) / (len(drawn) + 1)


def _wilcoxon(pairs: Pairs, _: Resampling) -> float:
    """Signed ranks of the differences; those that differ only by rounding are tied."""
    from scipy.stats import wilcoxon

    sizes, places = pairs.gap.abs().sort()
    ranks = torch.zeros(len(sizes), dtype=torch.float64)
    ranks[places[1:]] = (sizes.diff() > pairs.noise).cumsum(0).double()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sample size too small", UserWarning)  # of scipy 1.13, for few queries
        return float(wilcoxon((pairs.gap.sign() * (ranks + 1)).numpy()).pvalue)


def _sign(pairs: Pairs, _: Resampling) -> float:
    from scipy.stats import binomtest

    wins, losses = int((pairs.gap > 0).sum()), int((pairs.gap < 0).sum())
    return float(binomtest(wins, wins + losses).pvalue)


_P_VALUES = {"t": _t, "randomization": _randomization, "wilcoxon": _wilcoxon, "sign": _sign}
