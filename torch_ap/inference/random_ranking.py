"""Average precision of a random ranking: mean and variance in closed form, right at any size.

The variance is a small difference of large sums, so the closed form is evaluated in decimal arithmetic of sixty digits;
it costs a few hundred operations whatever n is.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cached_property

import torch
from torch import Tensor

from torch_ap.curve.harmonic import harmonic_difference
from torch_ap.inference.exact_distribution import Distribution, exact_distribution, is_feasible
from torch_ap.inference.result import Result, number
from torch_ap.ranking import segments
from torch_ap.rules import checks
from torch_ap.rules.options import DenominatorOfChance, allowed

_DIGITS = 60
_TERMS = 64
# Bernoulli numbers B2, B4, ...
_BERNOULLI = (
    (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510), (43867, 798), (-174611, 330),
    (854513, 138), (-236364091, 2730), (8553103, 6),
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class RandomAveragePrecision(Result):
    """The law of AP, or AP@k, of a random ranking of n items of which m are relevant.

    Attributes:
        n: items.
        m: relevant items.
        k: cut, or None.
        norm: what the sum of precisions is divided by.
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
        """AP of the worst ranking, all misses first."""
        cut = self.n if self.k is None else min(self.k, self.n)
        misses = self.n - self.m
        places = max(0, cut - misses)
        start, length = (torch.tensor(float(x), dtype=torch.float64) for x in (misses, places))
        total = places - misses * float(harmonic_difference(start, length))
        return number(total / self.norm if self.norm else math.nan)

    @property
    def has_exact_distribution(self) -> bool:
        """Whether so few rankings exist, C(n, m) of at most 3,000,000, that all are listed."""
        return is_feasible(self.n, self.m)

    @cached_property
    def distribution(self) -> Distribution:
        """All values of AP and their probabilities.

        Raises:
            ValueError: where more than 3,000,000 rankings exist.
        """
        return exact_distribution(self.n, self.m, self.k, norm=self.norm)

    def lognormal_tail(self, value: float) -> Tensor:
        """P(AP >= value) by the lognormal law that starts at the smallest AP and has this mean and variance.

        Actual size in percent at nominal 5 / 1 / .1: (n, m) = (3000, 245) 5.2 / 1.2 / .17; (100, 10) 5.7 / .8 / .01.
        Normal tails err further: about E(AP) 6.1 / 2.0 / .53 and 7.4 / 3.5 / 1.5.
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
        """P(AP >= value) if AP were normal with this mean and variance; too small where it matters."""
        value = checks.number("value", value)
        if not self.variance > 0:
            return self.lognormal_tail(value)
        return _upper((value - float(self.mean)) / float(self.standard_deviation))


def random_average_precision(
    n: int, m: int, k: int | None = None, *, denominator: DenominatorOfChance = "min"
) -> RandomAveragePrecision:
    r"""The AP that chance gives: mean, variance and law of AP, or AP@k, over all rankings of n items, m relevant.

    .. math::
        E(AP) = \frac{m}{n} + \frac{(n - m)(H_n - 1)}{n (n - 1)}, \qquad H_n = \sum_{t=1}^n \frac{1}{t}

    which lies above m / n, the limit for n without bound. In general, AP@k = S / norm with S the sum of the precisions
    at the hits of the top k. With p_j = m (m - 1) ... (m - j + 1) / (n (n - 1) ... (n - j + 1)), H the sum of 1 / t and
    H2 that of 1 / t^2 for t up to k, and A = (H^2 - H2) / 2:

    .. math::
        E(S) &= p_1 H + p_2 (k - H) \\
        E(S^2) &= p_1 H_2 + 3 p_2 (H - H_2) + p_3 (k - 3 H + 2 H_2) + 2 (2 p_2 A + p_3 (2 k - 3 H + k H - 5 A) \\
               &\quad + p_4 (k (k - 1) / 2 - k H - 2 k + 3 H + 3 A)) \\
        Var(AP@k) &= (E(S^2) - E(S)^2) / norm^2

    Args:
        n: items, at least 1.
        m: relevant items, 0 to n.
        k: cut of AP@k, at least 1; None for all.
        denominator: of AP@k: "min" min(k, m), or "relevant" m.

    Returns:
        :class:`RandomAveragePrecision`, right to the last digits; NaN for m = 0.

    Raises:
        ValueError: for an argument that breaks one of these rules.

    Equals the mean and variance over all permutations. Source of the mean: Bestgen (2015), Exact Expected Average
    Precision of the Random Baseline for System Evaluation; the variance follows from the p_j, the chances that j given
    ranks hold hits.

    Example:
        >>> from torch_ap.inference import random_average_precision
        >>> chance = random_average_precision(3000, 245)
        >>> round(float(chance.mean), 10), round(float(chance.standard_deviation), 10)
        (0.0839889109, 0.0056134508)
    """
    n, m = checks.ranking_size(n, m)
    k = checks.positive_int("k", k, optional=True)
    checks.one_of("denominator", denominator, allowed(DenominatorOfChance))
    cut = n if k is None else min(k, n)
    norm = m if k is None or denominator == "relevant" else min(k, m)
    if not norm:
        return RandomAveragePrecision(n, m, k, 0, number(math.nan), number(math.nan))
    return RandomAveragePrecision(n, m, k, norm, *map(number, _moments(n, m, cut, norm)))


def expected_average_precision(
    n: Tensor, m: Tensor, k: int | Tensor | None = None, *, denominator: str = "min"
) -> Tensor:
    """E(AP), or E(AP@k), of random rankings, elementwise: float64, NaN where nothing is relevant.

    Args:
        n: int64 items, of any shape, each at least 1.
        m: int64 relevant items, 0 to n, of the shape of ``n``.
        k: cut of AP@k, at least 1, or float64 ones of the shape of ``n``; None for all.
        denominator: of AP@k: "min" min(k, m), or "relevant" m.

    Returns:
        float64 of the shape of ``n``, on its device.

    Equals ``random_average_precision(n, m, k).mean``. Source: Bestgen (2015).

    Example:
        >>> import torch
        >>> from torch_ap.inference.random_ranking import expected_average_precision
        >>> [round(x, 4) for x in expected_average_precision(torch.tensor([8, 3000]), torch.tensor([3, 245])).tolist()]
        [0.5284, 0.084]
    """
    items, hits = segments.as_float64(n), segments.as_float64(m)
    cut = items if k is None else items.clamp(max=k)
    one = hits / items
    two = one * (hits - 1) / (items - 1).clamp(min=1)
    harmonic = harmonic_difference(torch.zeros_like(cut), cut)
    norm = hits if k is None or denominator == "relevant" else hits.clamp(max=k)
    return torch.where(hits > 0, (one * harmonic + two * (cut - harmonic)) / norm, torch.nan)


def _moments(n: int, m: int, cut: int, norm: int) -> tuple[float, float]:
    """Mean and variance of S / norm, S the sum of the precisions at the hits of the top ``cut``."""
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
        # below the last digits of the decimals nothing is left but rounding
        variance = variance if variance > mean * mean * Decimal(10) ** (10 - _DIGITS) else Decimal(0)
        return float(mean / norm), float(variance / (norm * norm))


def _harmonic(n: int, power: int) -> Decimal:
    """Sum of k^-power for k = 1 .. n, power 1 or 2: the first terms, then the Euler-Maclaurin formula."""
    total = sum((Decimal(1) / (k**power) for k in range(1, min(n, _TERMS) + 1)), Decimal(0))
    if n <= _TERMS:
        return total
    return total + _integral(n, power) - _integral(_TERMS, power)


def _integral(n: int, power: int) -> Decimal:
    """The Euler-Maclaurin formula at its upper end n: a constant short of the sum of k^-power up to n."""
    x = Decimal(n)
    total = (x.ln() if power == 1 else -1 / x) + 1 / (2 * x**power)
    for j, (top, bottom) in enumerate(_BERNOULLI, 1):
        factor = Decimal(top) / bottom
        total -= factor / (2 * j * x ** (2 * j)) if power == 1 else factor / x ** (2 * j + 1)
    return total


def _upper(z: float) -> Tensor:
    return number(math.erfc(z / math.sqrt(2)) / 2)
