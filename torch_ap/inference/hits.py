"""Where chance puts the hits: h(t) of a random ranking is hypergeometric, and from it follow r(t), p(t) and the ranks
of the hits.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from torch_ap.inference.result import Result, number
from torch_ap.inference.rounding import SAME_PROBABILITY
from torch_ap.ranking import segments
from torch_ap.rules import checks

__all__ = ["RandomHits", "joint_rank_probability", "rank_probability"]

_WHOLE = 1 << 20
_DEVIATIONS = 45
# Not scipy.stats.hypergeom: its relative error (scipy 1.17) is 1e-10 at n = 10^6, 1e-7 at 10^9 and .25 at 10^15, where
# this is below 1e-9; and of 8,000 quantiles at n up to 40, half of them at probabilities reached exactly, it missed 387


@dataclass(frozen=True, eq=False, repr=False)
class RandomHits(Result):
    """The law of h(t), the hits among the top t of a random ranking; of r(t) = h(t) / m, p(t) = h(t) / t and the
    survival function S(t) = 1 - r(t) with it.

    P(h = j) = C(m, j) C(n - m, t - j) / C(n, t). Probabilities come from the ratios of successive ones, in which no
    large factorials cancel.

    Args:
        n: items, at least 1.
        m: relevant items, 0 to n.
        t: rank, 1 to n.

    Raises:
        ValueError: for an argument that breaks one of these rules.

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
        """E(h(t)) = t m / n."""
        return number(self._mean)

    @property
    def variance(self) -> Tensor:
        """Var(h(t)) = t pi (1 - pi) (n - t) / (n - 1), with pi = m / n."""
        return number(self._variance)

    def covariance(self, later: int) -> Tensor:
        """Cov(h(t), h(t')) = t (n - t') pi (1 - pi) / (n - 1), for t' of at least t."""
        checks.rank("later", later, self.n)
        checks.positive_int("later", later, least=self.t)
        return number(self._covariance(later))

    @property
    def recall_mean(self) -> Tensor:
        """E(r(t)) = t / n; NaN for m = 0, as all of r(t) and S(t)."""
        return number(self.t / self.n if self.m else math.nan)

    @property
    def recall_variance(self) -> Tensor:
        """Var(r(t)) = Var(h(t)) / m^2."""
        return number(self._variance / self.m**2 if self.m else math.nan)

    @property
    def precision_mean(self) -> Tensor:
        """E(p(t)) = pi = m / n."""
        return number(self.m / self.n)

    @property
    def precision_variance(self) -> Tensor:
        """Var(p(t)) = Var(h(t)) / t^2 = pi (1 - pi) (n - t) / ((n - 1) t)."""
        return number(self._variance / self.t**2)

    @property
    def survival_mean(self) -> Tensor:
        """E(S(t)) = 1 - t / n, of the share S(t) = 1 - r(t) of the hits that stand below rank t."""
        return 1 - self.recall_mean

    @property
    def survival_variance(self) -> Tensor:
        """Var(S(t)) = Var(r(t))."""
        return self.recall_variance

    def probability(self, hits: int) -> Tensor:
        """P(h(t) = hits), for any int; 0 where h(t) cannot be it."""
        checks.any_int("hits", hits)
        place = hits - self._least
        return self._law[place] if 0 <= place < len(self._law) else number(0.0)

    def tail(self, hits: int) -> Tensor:
        """P(h(t) >= hits), for any int."""
        checks.any_int("hits", hits)
        place = hits - self._least
        return number(1.0) if place <= 0 else self._law[place:].sum()

    def quantile(self, p: float) -> int:
        """The smallest h that h(t) can be with P(h(t) <= h) >= p, for p in [0, 1]."""
        checks.fraction("p", p)
        if p in (0, 1):  # the ends of the range, whose probabilities may be below the last digits of the others
            return min(self.m, self.t) if p else max(0, self.t - (self.n - self.m))
        cumulative = self._law.cumsum(0) * (1 + SAME_PROBABILITY)
        return self._least + min(int(torch.searchsorted(cumulative, p)), len(self._law) - 1)

    def interval(self, confidence_level: float = 0.95) -> tuple[int, int]:
        """The hits that chance finds with probability of at least ``confidence_level``, equal tails cut off."""
        confidence_level = checks.open_fraction("confidence_level", confidence_level)
        return self.quantile((1 - confidence_level) / 2), self.quantile((1 + confidence_level) / 2)

    @property
    def _mean(self) -> float:
        return self.t * self.m / self.n

    @property
    def _variance(self) -> float:
        return self._covariance(self.t)

    def _covariance(self, later: int) -> float:
        share = self.m * (self.n - self.m) / self.n**2
        return self.t * (self.n - later) * share / max(self.n - 1, 1)

    @cached_property
    def _least(self) -> int:
        """The smallest h whose probability is kept."""
        least, most = max(0, self.t - (self.n - self.m)), min(self.m, self.t)
        if most - least <= _WHOLE:
            return least
        return max(least, int(self._mean - _DEVIATIONS * math.sqrt(self._variance)))

    @cached_property
    def _law(self) -> Tensor:
        """Probabilities from ``_least`` on."""
        most = min(self.m, self.t)
        if most - max(0, self.t - (self.n - self.m)) > _WHOLE:
            most = min(most, int(self._mean + _DEVIATIONS * math.sqrt(self._variance)) + 1)
        h = torch.arange(self._least, most, dtype=torch.float64)
        up = (self.m - h) * (self.t - h)
        down = (h + 1) * (self.n - self.m - self.t + h + 1)
        logs = segments.from_zero(torch.log(up / down))
        law = torch.exp(logs - logs.max())
        return law / law.sum()


def rank_probability(n: int, m: int, hit: int, rank: int) -> Tensor:
    """P(T_j = k): that the ``hit``-th hit of a random ranking stands at ``rank``.

    C(k - 1, j - 1) C(n - k, m - j) / C(n, m), which is j / k times P(h(k) = j).

    Args:
        n: items, at least 1.
        m: relevant items, 1 to n.
        hit: j, 1 to m.
        rank: k, 1 to n.

    Returns:
        A probability, 0-d float64; 0 where the rank leaves no room for the hits before or after it. Over all ranks they
        add up to 1.

    Raises:
        ValueError: for an argument that breaks one of these rules.

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
    """P(T_i = s, T_j = t): that of a random ranking the i-th hit stands at rank s and the j-th at rank t.

    C(s - 1, i - 1) C(t - s - 1, j - i - 1) C(n - t, m - j) / C(n, m): given T_j = t, the j - 1 hits before it are
    a random ranking of t - 1 items.

    Args:
        n: items, at least 2.
        m: relevant items, 2 to n.
        first: (i, s), i from 1, s from 1 to n.
        second: (j, t), j above i and to m, t from 1 to n.

    Returns:
        A probability, 0-d float64; 0 where s is not above t, or the ranks leave no room for the other hits.

    Raises:
        ValueError: for an argument that breaks one of these rules.

    Equals the product of P(T_j = t) and the probability of T_i = s in a random ranking of t - 1 items, j - 1 of them
    relevant. Source: Su & Zhang, Statistical Inference for Recall, Precision and Average Precision.

    Example:
        >>> from torch_ap.inference.hits import joint_rank_probability
        >>> round(float(joint_rank_probability(8, 3, (1, 1), (2, 2))), 6)
        0.107143
    """
    (i, s), (j, t) = first, second
    if not i < j:
        raise ValueError(f"`second` must name a later hit than `first`, got {first} and {second}")
    outer = rank_probability(n, m, j, t)
    checks.rank("first", s, n)
    return outer * rank_probability(t - 1, j - 1, i, s) if s < t and j <= t else number(0.0)
