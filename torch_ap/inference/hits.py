"""Distribution of the hits of a random ranking: h(t), r(t), p(t), S(t) and the ranks of the hits."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.ranking import segments
from torch_ap.inference.record import SAME_PROBABILITY, Result, number

__all__ = ["RandomHits", "joint_rank_probability", "rank_probability"]

_MAX_PROBABILITIES = 1 << 20  # for a larger support, probabilities beyond 45 standard deviations are omitted
_DEVIATIONS = 45
# scipy.stats.hypergeom (1.17) is less accurate: its relative error is 1e-10 at n = 10^6, 1e-7 at 10^9 and .25 at 10^15,
# here below 1e-9; 387 of 8,000 quantiles at n up to 40, half of them at exactly reached probabilities, were wrong


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
        >>> from torch_ap.inference.hits import RandomHits
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
        >>> from torch_ap.inference.hits import rank_probability
        >>> round(float(rank_probability(8, 3, 1, 1)), 6)
        0.375
    """
    n, m = checks.ranking_size(n, m)
    hit, rank = checks.rank("hit", hit, m), checks.rank("rank", rank, n)
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
        ValueError: if an argument is invalid.

    Equals the product of P(T_j = t) and the probability of T_i = s in a random ranking of t - 1 items, j - 1 of them
    relevant. Source: Su & Zhang, Statistical Inference for Recall, Precision and Average Precision.

    Example:
        >>> from torch_ap.inference.hits import joint_rank_probability
        >>> round(float(joint_rank_probability(8, 3, (1, 1), (2, 2))), 6)
        0.107143
    """
    (i, s), (j, t) = first, second
    if not i < j:
        raise ValueError(f"`second` must refer to a later hit than `first`, got {first} and {second}")
    outer = rank_probability(n, m, j, t)
    checks.rank("first", s, n)
    return outer * rank_probability(t - 1, j - 1, i, s) if s < t and j <= t else number(0.0)
