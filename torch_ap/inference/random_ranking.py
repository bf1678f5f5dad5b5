"""Laws of a random ranking: its hits, the ranks of its hits, and its average precision.

The variance of average precision is a small difference of large sums, so the closed form is computed in decimal
arithmetic with sixty digits. It takes a few hundred operations for any n.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.base.options import DenominatorOfChance, allowed_values
from torch_ap.core.measures.ties import divisor, harmonic_difference
from torch_ap.core.ranking import segments
from torch_ap.inference.enumeration import Distribution, exact_distribution, is_feasible
from torch_ap.inference.record import SAME_PROBABILITY, Result, number

__all__ = [
    "RandomAveragePrecision",
    "RandomHits",
    "joint_rank_probability",
    "random_average_precision",
    "rank_probability",
]

_MAX_PROBABILITIES = 1 << 20  # for a larger support, probabilities beyond 45 standard deviations are omitted
_DEVIATIONS = 45
# scipy.stats.hypergeom (1.17) is less accurate: its relative error is 1e-10 at n = 10^6, 1e-7 at 10^9 and .25 at 10^15,
# here below 1e-9; 387 of 8,000 quantiles at n up to 40, half of them at exactly reached probabilities, were wrong
_DIGITS = 60
_TERMS = 64
# Bernoulli numbers B2, B4, ...
_BERNOULLI = (
    (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510), (43867, 798), (-174611, 330),
    (854513, 138), (-236364091, 2730), (8553103, 6),
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class RandomHits(Result):
    """Hypergeometric distribution of h(t), the number of hits in the top t of a random ranking.

    P(h = j) = C(m, j) C(n - m, t - j) / C(n, t). It gives the distributions of r(t) = h(t) / m, p(t) = h(t) / t and the
    survival function S(t) = 1 - r(t). The probabilities are computed from the ratios of successive ones, in which no
    large factorials cancel.

    Args:
        n: number of items, at least 1.
        m: number of relevant items, 0 to n.
        t: rank, 1 to n.

    Raises:
        ValueError: if an argument is invalid.

    Equals ``scipy.stats.hypergeom(n, m, t)``.

    Example:
        >>> from torch_ap.inference.random_ranking import RandomHits
        >>> h = RandomHits(8, 3, 2)
        >>> float(h.mean), round(float(h.recall_variance), 6), h.quantile(0.5)
        (0.75, 0.044643, 1)
    """

    n: int
    m: int
    t: int

    def __post_init__(self) -> None:
        checks.ranking_size(self.n, self.m)
        checks.rank("t", self.t, self.n)
        super().__post_init__()

    @property
    def mean(self) -> Tensor:
        """Expectation of h(t), t m / n."""
        return number(self.t * self.m / self.n)

    @property
    def variance(self) -> Tensor:
        """Variance of h(t), t pi (1 - pi) (n - t) / (n - 1) with pi = m / n."""
        return self.covariance(self.t)

    def covariance(self, later: int) -> Tensor:
        """Return Cov(h(t), h(t')) = t (n - t') pi (1 - pi) / (n - 1) for t' >= t."""
        checks.rank("later", later, self.n)
        checks.positive_int("later", later, least=self.t)
        share = self.m * (self.n - self.m) / self.n**2
        return number(self.t * (self.n - later) * share / max(self.n - 1, 1))

    @property
    def recall_mean(self) -> Tensor:
        """Expectation of r(t), t / n; NaN for m = 0, as all values of r(t) and S(t)."""
        return number(self.t / self.n if self.m else math.nan)

    @property
    def recall_variance(self) -> Tensor:
        """Variance of r(t), Var(h(t)) / m^2."""
        return number(float(self.variance) / self.m**2 if self.m else math.nan)

    @property
    def precision_mean(self) -> Tensor:
        """Expectation of p(t), pi = m / n."""
        return number(self.m / self.n)

    @property
    def precision_variance(self) -> Tensor:
        """Variance of p(t), Var(h(t)) / t^2 = pi (1 - pi) (n - t) / ((n - 1) t)."""
        return number(float(self.variance) / self.t**2)

    @property
    def survival_mean(self) -> Tensor:
        """Expectation of S(t), 1 - t / n; S(t) = 1 - r(t) is the share of the hits below rank t."""
        return 1 - self.recall_mean

    @property
    def survival_variance(self) -> Tensor:
        """Variance of S(t), equal to the variance of r(t)."""
        return self.recall_variance

    def probability(self, hits: int) -> Tensor:
        """Return P(h(t) = hits) for any int; 0 for impossible numbers of hits."""
        checks.any_int("hits", hits)
        first, law = self._law
        return law[hits - first] if 0 <= hits - first < len(law) else number(0.0)

    def tail(self, hits: int) -> Tensor:
        """Return P(h(t) >= hits) for any int."""
        checks.any_int("hits", hits)
        first, law = self._law
        return number(1.0) if hits <= first else law[hits - first :].sum()

    def quantile(self, p: float) -> int:
        """Return the smallest possible h with P(h(t) <= h) >= p, for p in [0, 1]."""
        checks.fraction("p", p)
        if p in (0, 1):  # the ends of the support; their probabilities may be below the precision of the others
            return self._support[int(p)]
        first, law = self._law
        cumulative = law.cumsum(0) * (1 + SAME_PROBABILITY)
        return first + min(int(torch.searchsorted(cumulative, p)), len(law) - 1)

    def interval(self, confidence_level: float = 0.95) -> tuple[int, int]:
        """Return the central range of hits with a probability of at least ``confidence_level``."""
        confidence_level = checks.open_fraction("confidence_level", confidence_level)
        return self.quantile((1 - confidence_level) / 2), self.quantile((1 + confidence_level) / 2)

    @property
    def _support(self) -> tuple[int, int]:
        """The smallest and the largest possible number of hits."""
        return max(0, self.t - (self.n - self.m)), min(self.m, self.t)

    @cached_property
    def _law(self) -> tuple[int, Tensor]:
        """The smallest number of hits with a stored probability, and the probabilities from it on."""
        least, most = self._support
        if most - least > _MAX_PROBABILITIES:
            mean, spread = float(self.mean), _DEVIATIONS * math.sqrt(self.variance)
            least, most = max(least, int(mean - spread)), min(most, int(mean + spread) + 1)
        h = torch.arange(least, most, dtype=torch.float64)
        up = (self.m - h) * (self.t - h)
        down = (h + 1) * (self.n - self.m - self.t + h + 1)
        logs = segments.from_zero(torch.log(up / down))
        law = torch.exp(logs - logs.max())
        return least, law / law.sum()


def rank_probability(n: int, m: int, hit: int, rank: int) -> Tensor:
    """Return P(T_j = k), the probability that the ``hit``-th hit of a random ranking is at ``rank``.

    C(k - 1, j - 1) C(n - k, m - j) / C(n, m), which is j / k times P(h(k) = j).

    Args:
        n: number of items, at least 1.
        m: number of relevant items, 1 to n.
        hit: j, 1 to m.
        rank: k, 1 to n.

    Returns:
        A probability, 0-d float64; 0 if the hits before or after the rank do not fit. The sum over all ranks is 1.

    Raises:
        ValueError: if an argument is invalid.

    Equals ``scipy.stats.nhypergeom(n, n - m, j).pmf(k - j)``. Source: Su & Zhang, Statistical Inference for Recall,
    Precision and Average Precision.

    Example:
        >>> from torch_ap.inference.random_ranking import rank_probability
        >>> round(float(rank_probability(8, 3, 1, 1)), 6)
        0.375
    """
    n, m = checks.ranking_size(n, m)
    hit, rank = checks.rank("hit", hit, m, "relevant items"), checks.rank("rank", rank, n)
    return hit / rank * RandomHits(n, m, rank).probability(hit)


def joint_rank_probability(n: int, m: int, first: tuple[int, int], second: tuple[int, int]) -> Tensor:
    """Return P(T_i = s, T_j = t), the probability that the i-th hit is at rank s and the j-th at rank t.

    C(s - 1, i - 1) C(t - s - 1, j - i - 1) C(n - t, m - j) / C(n, m). Given T_j = t, the t - 1 items above it are a
    random ranking with j - 1 hits.

    Args:
        n: number of items, at least 2.
        m: number of relevant items, 2 to n.
        first: (i, s), i from 1, s from 1 to n.
        second: (j, t), j from i + 1 to m, t from 1 to n.

    Returns:
        A probability, 0-d float64; 0 if s >= t, or if the other hits do not fit.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Equals the product of P(T_j = t) and the probability of T_i = s in a random ranking of t - 1 items, j - 1 of them
    relevant. Source: Su & Zhang, Statistical Inference for Recall, Precision and Average Precision.

    Example:
        >>> from torch_ap.inference.random_ranking import joint_rank_probability
        >>> round(float(joint_rank_probability(8, 3, (1, 1), (2, 2))), 6)
        0.107143
    """
    n, m = checks.ranking_size(n, m)
    (i, s), (j, t) = (_hit_and_rank(*x, n, m) for x in (("first", first), ("second", second)))
    if not i < j:
        raise ValueError(f"`second` must refer to a later hit than `first`, got {first} and {second}")
    outer = rank_probability(n, m, j, t)
    return outer * rank_probability(t - 1, j - 1, i, s) if s < t and j <= t else number(0.0)


def _hit_and_rank(name: str, value: Any, n: int, m: int) -> tuple[int, int]:
    """Return the hit and the rank of an argument, or raise an error unless they are a pair of ints in their ranges."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise_invalid(name, "must be a hit and its rank, two ints", value, TypeError)
    return checks.rank(name, value[0], m, "relevant items"), checks.rank(name, value[1], n)


@dataclass(frozen=True, eq=False, repr=False)
class RandomAveragePrecision(Result):
    """Distribution of AP, or AP@k, of a random ranking of n items with m relevant items.

    Attributes:
        n: number of items.
        m: number of relevant items.
        k: cutoff, or None.
        norm: divisor of the sum of precisions.
        mean: E(AP); NaN without relevant items.
        variance: Var(AP).
    """

    n: int
    m: int
    k: int | None
    norm: int
    mean: Tensor
    variance: Tensor

    @property
    def standard_deviation(self) -> Tensor:
        """Square root of the variance."""
        return self.variance.sqrt()

    @cached_property
    def least(self) -> Tensor:
        """AP of the worst ranking, with all misses first."""
        cut = self.n if self.k is None else min(self.k, self.n)
        misses = self.n - self.m
        hits = max(0, cut - misses)
        total = hits - misses * float(harmonic_difference(number(float(misses)), number(float(hits))))
        return number(total / self.norm if self.norm else math.nan)

    @property
    def has_exact_distribution(self) -> bool:
        """Whether all rankings can be listed: C(n, m) is at most 3,000,000."""
        return is_feasible(self.n, self.m)

    @cached_property
    def distribution(self) -> Distribution:
        """All values of AP and their probabilities.

        Raises:
            ValueError: if there are more than 3,000,000 rankings.
        """
        return exact_distribution(self.n, self.m, self.k, norm=self.norm)

    def lognormal_tail(self, value: float) -> Tensor:
        """Return P(AP >= value) for a lognormal distribution shifted by the smallest AP.

        It has the mean and the variance of AP. Rejection rates in percent at nominal 5 / 1 / .1: (n, m) = (3000, 245)
        5.2 / 1.2 / .17; (100, 10) 5.7 / .8 / .01. The normal distribution with mean E(AP) is less accurate: 6.1 / 2.0 /
        .53 and 7.4 / 3.5 / 1.5.
        """
        value = checks.number("value", value)
        mean, variance, least = map(float, (self.mean, self.variance, self.least))
        if not variance > 0:
            return number(math.nan if math.isnan(mean) else float(value <= mean))
        if value <= least:
            return number(1.0)
        log_variance = math.log1p(variance / (mean - least) ** 2)
        centre = math.log(mean - least) - log_variance / 2
        return _upper((math.log(value - least) - centre) / math.sqrt(log_variance))

    def normal_tail(self, value: float) -> Tensor:
        """Return P(AP >= value) for a normal distribution with this mean and variance; it is too small in the tail."""
        value = checks.number("value", value)
        if not self.variance > 0:
            return self.lognormal_tail(value)
        return _upper((value - float(self.mean)) / float(self.standard_deviation))


@renamed_keywords(k="top_k")
def random_average_precision(
    n: int, m: int, top_k: int | None = None, *, denominator: DenominatorOfChance = "min"
) -> RandomAveragePrecision:
    r"""Return the mean, variance and distribution of AP, or AP@k, over all rankings of n items with m relevant items.

    .. math::
        E(AP) = \frac{m}{n} + \frac{(n - m)(H_n - 1)}{n (n - 1)}, \qquad H_n = \sum_{t=1}^n \frac{1}{t}

    which exceeds m / n, its limit as n increases. In general, AP@k = S / norm with S the sum of the precisions at the
    hits of the top k. With p_j = m (m - 1) ... (m - j + 1) / (n (n - 1) ... (n - j + 1)), H and H2 the sums of 1 / t
    and 1 / t^2 for t up to k, and A = (H^2 - H2) / 2:

    .. math::
        E(S) &= p_1 H + p_2 (k - H) \\
        E(S^2) &= p_1 H_2 + 3 p_2 (H - H_2) + p_3 (k - 3 H + 2 H_2) + 2 (2 p_2 A + p_3 (2 k - 3 H + k H - 5 A) \\
               &\quad + p_4 (k (k - 1) / 2 - k H - 2 k + 3 H + 3 A)) \\
        Var(AP@k) &= (E(S^2) - E(S)^2) / norm^2

    Args:
        n: number of items, at least 1.
        m: number of relevant items, 0 to n.
        top_k: k of AP@k, at least 1; None for all items.
        denominator: divisor of AP@k: "min" for min(k, m), or "relevant" for m.

    Returns:
        :class:`RandomAveragePrecision`, accurate to the last digits; NaN for m = 0.

    Raises:
        ValueError: if an argument is invalid.

    Equals the mean and variance over all permutations. Source of the mean: Bestgen (2015), Exact Expected Average
    Precision of the Random Baseline for System Evaluation. The variance follows from the p_j, the probabilities that j
    fixed ranks are hits.

    Example:
        >>> from torch_ap.inference.random_ranking import random_average_precision
        >>> chance = random_average_precision(3000, 245)
        >>> round(float(chance.mean), 10), round(float(chance.standard_deviation), 10)
        (0.0839889109, 0.0056134508)
    """
    n, m = checks.ranking_size(n, m)
    k = checks.positive_int("top_k", top_k, optional=True)
    checks.one_of("denominator", denominator, allowed_values(DenominatorOfChance))
    cut = n if k is None else min(k, n)
    norm = divisor(denominator, m, k)
    if not norm:
        return RandomAveragePrecision(n, m, k, 0, number(math.nan), number(math.nan))
    return RandomAveragePrecision(n, m, k, norm, *map(number, _moments(n, m, cut, norm)))


def _moments(n: int, m: int, cut: int, norm: int) -> tuple[float, float]:
    """Return mean and variance of S / norm, with S the sum of the precisions at the hits of the top ``cut``."""
    with localcontext(Context(prec=_DIGITS)):
        p = [Decimal(1)]
        for j in range(4):
            p.append(p[-1] * max(m - j, 0) / max(n - j, 1))
        _, p1, p2, p3, p4 = p
        k, h, h2 = Decimal(cut), _harmonic(cut, 1), _harmonic(cut, 2)
        a = (h * h - h2) / 2
        mean = p1 * h + p2 * (k - h)
        square = p1 * h2 + 3 * p2 * (h - h2) + p3 * (k - 3 * h + 2 * h2)
        pairs = 2 * p2 * a + p3 * (2 * k - 3 * h + k * h - 5 * a)
        pairs += p4 * (k * (k - 1) / 2 - k * h - 2 * k + 3 * h + 3 * a)
        variance = max(square + 2 * pairs - mean * mean, Decimal(0))
        # smaller values are rounding errors of the decimals
        variance = variance if variance > mean * mean * Decimal(10) ** (10 - _DIGITS) else Decimal(0)
        return float(mean / norm), float(variance / (norm * norm))


def _harmonic(n: int, power: int) -> Decimal:
    """Return the sum of k^-power for k = 1 .. n, power 1 or 2: the first terms, then the Euler-Maclaurin formula."""
    total = sum((Decimal(1) / (k**power) for k in range(1, min(n, _TERMS) + 1)), Decimal(0))
    if n <= _TERMS:
        return total
    return total + _integral(n, power) - _integral(_TERMS, power)


def _integral(n: int, power: int) -> Decimal:
    """Return the Euler-Maclaurin formula at its upper end n: the sum of k^-power up to n, except for a constant."""
    x = Decimal(n)
    total = (x.ln() if power == 1 else -1 / x) + 1 / (2 * x**power)
    for j, (top, bottom) in enumerate(_BERNOULLI, 1):
        factor = Decimal(top) / bottom
        total -= factor / (2 * j * x ** (2 * j)) if power == 1 else factor / x ** (2 * j + 1)
    return total


def _upper(z: float) -> Tensor:
    return number(math.erfc(z / math.sqrt(2)) / 2)
