"""Mean and variance of the average precision of a random ranking, in closed form and accurate at any size.

The variance is a small difference of large sums, so the closed form is computed in decimal arithmetic with sixty
digits. It takes a few hundred operations for any n.

Listing of all distributions of the hits of a ranking over its tie groups, with AP and number of label orders.

There are two algorithms. The listing *by item* places the rarer of hits and misses one after the other, each in the
group of the previous one or a later group. The listing *by group* assigns hits to one group after the other. Both take
one step per item, or per group, and no more memory than the list, because every partial way can be completed.

Exact distribution of AP over all rankings, by listing the rankings if there are few.

The sum of precisions is a sum of one term per hit, j / t for the j-th hit at rank t. It is also a sum of one term per
miss. The rarer of the two are placed. A residue modulo a prime of 61 bits accompanies each floating sum, to distinguish
values that are equal as fractions from values that are merely close.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.options import DenominatorOfChance, allowed_values
from torch_ap.core.measures.ties import harmonic_difference
from torch_ap.core.measures.top_k import divisor
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.order import Array
from torch_ap.inference.record import SAME_LISTED_VALUE, SAME_PROBABILITY, Result, number

MOST_LISTED = 3_000_000
_MOST_CHOSEN = 12  # 12 of 25 groups with one more hit: more ways than are listed
_MAX_LOG_INTEGER = 36  # float64 represents integers up to e^36 exactly


def can_enumerate(sizes: Array, m: int) -> bool:
    """Whether there are at most 3,000,000 ways.

    Args:
        sizes: (G,) int64 number of items of each tie group.
        m: number of hits.
    """
    groups, n = len(sizes), int(sizes.sum())
    rare = min(m, n - m)
    # a lower bound: place one of these items per chosen group, and the others anywhere
    if rare < 1 or math.comb(groups, min(rare, groups // 2, _MOST_CHOSEN)) > MOST_LISTED:
        return False
    if groups == n or rare == 1:
        return math.comb(groups, rare) <= MOST_LISTED
    ways, least, left = np.ones(1), 0, n
    for size in np.sort(sizes).tolist():  # ways[i]: ways to give least + i items to the groups so far
        left -= size
        low, high = max(0, rare - left), min(rare, least + len(ways) - 1 + size)
        if high - low >= MOST_LISTED:
            return False
        cumulative = segments.from_zero(ways)
        last = np.arange(low, high + 1) - least
        ways = cumulative[np.minimum(last + 1, len(ways))] - cumulative[np.clip(last - size, 0, len(ways))]
        least = low
        if ways.sum() > MOST_LISTED:
            return False
    return True


def every_average_precision(sizes: Array, m: int) -> tuple[Array, Array]:
    """Return the AP of each way, and its weight: float64, proportional to its number of label orders.

    Args:
        sizes: (G,) int64 number of items of each tie group, best first.
        m: number of hits, between 0 and the number of items.

    Returns:
        (W,) AP in no particular order, and (W,) weights; small weights are the numbers of label orders themselves.
    """
    n = int(sizes.sum())
    sums, weights = _list_by_item(sizes, n, m) if min(m, n - m) <= len(sizes) else _list_by_group(sizes, n, m)
    return sums / m, weights


def placements(sizes: Array, count: int) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the ways to place items one by one, each in the group of the previous item if possible, or a later group.

    For each item, over all ways to place it and the items before it: (W,) the way of the previous item that is
    continued, (W,) the group of the item, and (W,) its number in that group, from 1.

    Args:
        sizes: (G,) int64 number of items of each group.
        count: number of items to place.
    """
    below = int(sizes.sum()) - segments.from_zero(sizes)
    group, number = np.full(1, -1), np.zeros(1, np.int64)
    for placed in range(count):
        last_group = int(np.searchsorted(-below, placed - count, "right")) - 1  # with room for later items
        is_full = np.where(group >= 0, number == sizes[group], True)
        first = group + is_full
        width = last_group + 1 - first
        before = np.repeat(np.arange(len(group)), width)
        step = np.arange(len(before)) - np.repeat(width.cumsum() - width, width)
        number = np.where((step == 0) & ~is_full[before], number[before], 0) + 1
        group = first[before] + step
        yield before, group, number


def _list_by_item(sizes: Array, n: int, m: int) -> tuple[Array, Array]:
    """Return the sums of precisions and the weights, by placing hits or misses.

    The c-th hit of a group that ends at rank t, the j-th of all, adds (j + c - 1) / t to the sum of precisions. For
    misses, the sum begins with a ranking of hits only. The c-th miss of a group, the j-th of all, adds the same term,
    minus 1, and minus g / t of its group and of each group below.
    """
    t, count = sizes.cumsum(), min(m, n - m)
    by_misses = count < m
    lost = 1 + (sizes / t)[::-1].cumsum()[::-1] if by_misses else np.zeros(len(sizes))
    sums, weights = np.full(1, float(n if by_misses else 0)), np.ones(1)
    for j, (before, group, c) in enumerate(placements(sizes, count), 1):
        sums = sums[before] + ((j + c - 1) / t[group] - lost[group])
        weights = weights[before] * (sizes[group] - c + 1) / c
    return sums, weights


def _list_by_group(sizes: Array, n: int, m: int) -> tuple[Array, Array]:
    """Return the sums of precisions and the weights, by group: r hits in a group that ends at rank t, after h above it.

    They add r (h + r) / t to the sum of precisions.
    """
    countable = math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1) < _MAX_LOG_INTEGER
    odds = None if countable else m / (n - m)
    hits, sums, weights, t = np.zeros(1, np.int64), np.zeros(1), np.ones(1), 0
    for size in sizes.tolist():
        t += size
        fewest = max(0, m - (n - size))
        least = np.maximum(m - hits - (n - t), 0)
        width = np.minimum(m - hits, size) + 1 - least
        before = np.repeat(np.arange(len(hits)), width)
        added = least[before] + np.arange(len(before)) - np.repeat(width.cumsum() - width, width)
        hits = hits[before] + added
        sums = sums[before] + added * hits / t
        weights = weights[before] * _weights(size, fewest, min(size, m), odds)[added - fewest]
    return sums, weights


def _weights(size: int, least: int, most: int, odds: float | None) -> Array:
    """Return C(size, r) for r from ``least`` to ``most``; with odds, C(size, r) odds^r divided by the largest of them.

    All ways have the same number of hits, so the powers of the odds multiply all weights by the same factor. The
    logarithms are summed from the largest weight, where they are small.
    """
    if odds is None:
        return np.array([float(math.comb(size, r)) for r in range(least, most + 1)])
    r = np.arange(least, most)
    logs = np.log((size - r) / (r + 1) * odds)
    mode = int((logs > 0).sum())
    shares: Array = np.exp(np.concatenate([-logs[:mode][::-1].cumsum()[::-1], np.zeros(1), logs[mode:].cumsum()]))
    return shares


_PRIME = (1 << 61) - 1


@dataclass(frozen=True, eq=False, repr=False)
class Distribution(Result):
    """A discrete distribution, the result of :func:`exact_distribution`.

    Attributes:
        values: (V,) float64, ascending.
        counts: (V,) int64, number of rankings with each value.
        total: number of rankings.
    """

    values: Tensor
    counts: Tensor
    total: int

    @property
    def probabilities(self) -> Tensor:
        """Probability of each value, (V,) float64."""
        return self.counts.to(torch.float64) / self.total

    def tail(self, value: float) -> Tensor:
        """Return P(AP >= value); values within 2e-14 of each other count as equal."""
        value = checks.number("value", value)
        return number(int(self.counts[self.values >= value - SAME_LISTED_VALUE].sum()) / self.total)

    def quantile(self, p: float) -> Tensor:
        """Return the smallest value x with P(AP <= x) >= ``p``, for ``p`` in [0, 1]."""
        checks.fraction("p", p)
        cumulative = self.counts.cumsum(0)
        place = int(torch.searchsorted(cumulative, math.ceil(p * self.total * (1 - SAME_PROBABILITY))))
        return self.values[min(place, len(self.values) - 1)]


def is_feasible(n: int, m: int) -> bool:
    """Whether there are at most 3,000,000 rankings."""
    rare = min(m, n - m)
    return m > 0 and rare <= 40 and math.comb(n, rare) <= MOST_LISTED


def exact_distribution(n: int, m: int, k: int | None = None, *, norm: int | None = None) -> Distribution:
    """Return all values of AP, or AP@k, of the C(n, m) rankings of n items with m relevant ones.

    Args:
        n: number of items, at least 1.
        m: number of relevant items, 1 to n.
        k: cutoff of AP@k, at least 1, or None.
        norm: divisor of the sum of precisions, at least 1; m by default.

    Returns:
        :class:`Distribution`: (V,) float64 values, (V,) int64 counts with the sum C(n, m).

    Raises:
        ValueError: if an argument is invalid, or if there are more than 3,000,000 rankings.

    Equals counting the values of ``torch_ap.functional.binary_average_precision`` over ``itertools.combinations`` of
    the ranks. Source: the definition.

    Example:
        >>> from torch_ap.inference.random_ranking import exact_distribution
        >>> law = exact_distribution(3, 2)
        >>> [round(float(x), 4) for x in law.values], law.counts.tolist(), law.total
        ([0.5833, 0.8333, 1.0], [1, 1, 1], 3)
    """
    n, m = checks.ranking_size(n, m)
    k, norm = (checks.positive_int(name, value, optional=True) for name, value in (("k", k), ("norm", norm)))
    if not is_feasible(n, m):
        raise ValueError(
            f"the distribution of AP is listed only for `m` of at least 1 and up to {MOST_LISTED:,} rankings, "
            f"got n={n}, m={m}; use `lognormal_tail`, or a permutation test"
        )
    cut = n if k is None else min(k, n)
    table, residues, start = _hit_terms(n, m, cut) if m <= n - m else _miss_terms(n, n - m, cut)
    sums, marks = _all_sums(n, table, residues)
    _, first, counts = np.unique(marks, return_index=True, return_counts=True)
    values = (start + sums[first]) / (norm or m)
    order = np.argsort(values)
    return Distribution(torch.from_numpy(values[order]), torch.from_numpy(counts[order]), len(sums))


def _hit_terms(n: int, m: int, cut: int) -> tuple[Array, Array, float]:
    """Return the terms that the j-th hit adds at each rank, j / t in the top, (m, n) as floats and residues."""
    hit, t = np.arange(1, m + 1)[:, None], np.arange(1, n + 1)
    if m == 1:
        return np.where(t <= cut, 1 / t, 0.0)[None], _rank_labels(n, cut), 0.0
    inverse = [pow(rank, -1, _PRIME) if rank <= cut else 0 for rank in range(1, n + 1)]
    residues = [[j * x % _PRIME for x in inverse] for j in range(1, m + 1)]
    return np.where(t <= cut, hit / t, 0.0), np.array(residues, np.int64), 0.0


def _miss_terms(n: int, q: int, cut: int) -> tuple[Array, Array, float]:
    """Return the terms that the i-th miss at rank s subtracts from ``cut``, the sum without misses: (q, n).

    A miss subtracts 1 - i / s at its own rank, and 1 / t at its rank and each rank below.
    """
    miss, s = np.arange(1, q + 1)[:, None], np.arange(1, n + 1)
    below = np.concatenate([np.cumsum(1 / np.arange(cut, 0, -1.0))[::-1], np.zeros(n - cut)])
    table = np.where(s <= cut, miss / s - 1 - below, 0.0)
    if q == 1:
        return table, _rank_labels(n, cut), float(cut)
    inverse = [pow(rank, -1, _PRIME) for rank in range(1, cut + 1)]
    marks, mark = [0] * n, 0
    for rank in range(cut, 0, -1):
        mark += inverse[rank - 1]
        marks[rank - 1] = mark % _PRIME
    residues = [
        [(i * inverse[rank] - 1 - marks[rank]) % _PRIME if rank < cut else 0 for rank in range(n)]
        for i in range(1, q + 1)
    ]
    return table, np.array(residues, np.int64).reshape(q, n), float(cut)


def _rank_labels(n: int, cut: int) -> Array:
    """Return labels that distinguish the sums of a single hit or miss: its rank, if it is in the top, (1, n)."""
    return np.minimum(np.arange(n), cut)[None]


def _all_sums(n: int, table: Array, residues: Array) -> tuple[Array, Array]:
    """Return the sum of one term per row, with its residue, over all ways to place the rows at ascending ranks."""
    sums, marks = np.zeros(1), np.zeros(1, np.int64)
    for row, (before, rank, _) in enumerate(placements(np.ones(n, np.int64), len(table))):
        sums = sums[before] + table[row, rank]
        marks = (marks[before] + residues[row, rank]) % _PRIME
    return sums, marks


_DIGITS = 60
_TERMS = 64
# Bernoulli numbers B2, B4, ...
_BERNOULLI = (
    (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510), (43867, 798), (-174611, 330),
    (854513, 138), (-236364091, 2730), (8553103, 6),
)  # fmt: skip


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
        places = max(0, cut - misses)
        start, length = (torch.tensor(float(x), dtype=torch.float64) for x in (misses, places))
        total = places - misses * float(harmonic_difference(start, length))
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


def random_average_precision(
    n: int, m: int, k: int | None = None, *, denominator: DenominatorOfChance = "min"
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
        k: cutoff of AP@k, at least 1; None for all items.
        denominator: divisor of AP@k: "min" for min(k, m), or "relevant" for m.

    Returns:
        :class:`RandomAveragePrecision`, accurate to the last digits; NaN for m = 0.

    Raises:
        ValueError: if an argument is invalid.

    Equals the mean and variance over all permutations. Source of the mean: Bestgen (2015), Exact Expected Average
    Precision of the Random Baseline for System Evaluation. The variance follows from the p_j, the probabilities that j
    fixed ranks are hits.

    Example:
        >>> from torch_ap.inference import random_average_precision
        >>> chance = random_average_precision(3000, 245)
        >>> round(float(chance.mean), 10), round(float(chance.standard_deviation), 10)
        (0.0839889109, 0.0056134508)
    """
    n, m = checks.ranking_size(n, m)
    k = checks.positive_int("k", k, optional=True)
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
