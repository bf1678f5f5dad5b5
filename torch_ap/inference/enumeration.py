"""Listing of all rankings with the same labels: their AP, and the number of label orders with each value.

There are two algorithms. The listing *by item* places the rarer of hits and misses one after the other, each in the
group of the previous one or a later group. The listing *by group* assigns hits to one group after the other. Both take
one step per item, or per group, and no more memory than the list, because every partial way can be completed.

The exact distribution of AP lists the rankings of n items with m relevant items, if there are few. The sum of
precisions is a sum of one term per hit, j / t for the j-th hit at rank t. It is also a sum of one term per miss. The
rarer of the two are placed. A residue modulo a prime of 61 bits accompanies each floating sum, to distinguish values
that are equal as fractions from values that are merely close.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
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
        index = int(torch.searchsorted(cumulative, math.ceil(p * self.total * (1 - SAME_PROBABILITY))))
        return self.values[min(index, len(self.values) - 1)]


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
        >>> from torch_ap.inference.enumeration import exact_distribution
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
