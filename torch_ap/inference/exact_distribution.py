"""Every value that AP takes over all rankings, and how often: by listing the rankings, where they are few enough.

The sum of precisions is a sum of one term for each hit, j / t for the j-th hit at rank t; and likewise a sum of one
term for each miss. The rarer of the two are placed. Values that are equal as fractions are told from values that are
merely close by carrying each sum modulo a prime of 61 bits beside its float.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from torch_ap.inference.enumeration import MOST_LISTED, fill
from torch_ap.inference.result import Result, number
from torch_ap.inference.rounding import SAME_LISTED_VALUE, SAME_PROBABILITY
from torch_ap.ranking.order import Array
from torch_ap.rules import checks

_PRIME = (1 << 61) - 1


@dataclass(frozen=True, eq=False, repr=False)
class Distribution(Result):
    """A discrete distribution, as :func:`exact_distribution` gives it.

    Attributes:
        values: (V,) float64, ascending.
        counts: (V,) int64, rankings with each value.
        total: the number of rankings.
    """

    values: Tensor
    counts: Tensor
    total: int

    @property
    def probabilities(self) -> Tensor:
        """(V,) float64."""
        return self.counts.to(torch.float64) / self.total

    def tail(self, value: float) -> Tensor:
        """P(AP >= value); values within 2e-14 of each other are taken for equal."""
        value = checks.number("value", value)
        return number(int(self.counts[self.values >= value - SAME_LISTED_VALUE].sum()) / self.total)

    def quantile(self, p: float) -> Tensor:
        """The smallest value that AP reaches or stays below with probability ``p`` in [0, 1]."""
        checks.fraction("p", p)
        cumulative = self.counts.cumsum(0)
        place = int(torch.searchsorted(cumulative, math.ceil(p * self.total * (1 - SAME_PROBABILITY))))
        return self.values[min(place, len(self.values) - 1)]


def is_feasible(n: int, m: int) -> bool:
    """Whether at most 3,000,000 rankings exist."""
    rare = min(m, n - m)
    return m > 0 and rare <= 40 and math.comb(n, rare) <= MOST_LISTED


def exact_distribution(n: int, m: int, k: int | None = None, *, norm: int | None = None) -> Distribution:
    """All values of AP, or AP@k, of the C(n, m) rankings of n items with m relevant ones.

    Args:
        n: items, at least 1.
        m: relevant items, 1 to n.
        k: cut of AP@k, at least 1, or None.
        norm: what the sum of precisions is divided by, at least 1; m by default.

    Returns:
        :class:`Distribution`: (V,) float64 values, (V,) int64 counts that add up to C(n, m).

    Raises:
        ValueError: for an argument that breaks one of these rules, or where more than 3,000,000 rankings exist.

    Equals a count of ``torch_ap.functional.binary_average_precision`` over ``itertools.combinations`` of the ranks.
    Source: the definition.

    Example:
        >>> from torch_ap.inference.exact_distribution import exact_distribution
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
    table, residues, start = _terms_of_hits(n, m, cut) if m <= n - m else _terms_of_misses(n, n - m, cut)
    sums, marks = _all_sums(n, table, residues)
    _, first, counts = np.unique(marks, return_index=True, return_counts=True)
    values = (start + sums[first]) / (norm or m)
    order = np.argsort(values)
    return Distribution(torch.from_numpy(values[order]), torch.from_numpy(counts[order]), len(sums))


def _terms_of_hits(n: int, m: int, cut: int) -> tuple[Array, Array, float]:
    """(m, n) what the j-th hit adds at each rank: j / t in the top, as floats and modulo the prime."""
    hit, t = np.arange(1, m + 1)[:, None], np.arange(1, n + 1)
    if m == 1:
        return np.where(t <= cut, 1 / t, 0.0)[None], _one_each(n, cut), 0.0
    inverse = [pow(rank, -1, _PRIME) if rank <= cut else 0 for rank in range(1, n + 1)]
    residues = [[j * x % _PRIME for x in inverse] for j in range(1, m + 1)]
    return np.where(t <= cut, hit / t, 0.0), np.array(residues, np.int64), 0.0


def _terms_of_misses(n: int, q: int, cut: int) -> tuple[Array, Array, float]:
    """(q, n) what the i-th miss takes away at rank s of the sum ``cut`` of a ranking without misses.

    It takes 1 - i / s for its own place, and 1 / t at its rank and each below it.
    """
    miss, s = np.arange(1, q + 1)[:, None], np.arange(1, n + 1)
    below = np.concatenate([np.cumsum(1 / np.arange(cut, 0, -1.0))[::-1], np.zeros(n - cut)])
    table = np.where(s <= cut, miss / s - 1 - below, 0.0)
    if q == 1:
        return table, _one_each(n, cut), float(cut)
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


def _one_each(n: int, cut: int) -> Array:
    """(1, n) what tells apart the sums that one hit, or one miss, gives: its rank, while that is in the top."""
    return np.minimum(np.arange(n), cut)[None]


def _all_sums(n: int, table: Array, residues: Array) -> tuple[Array, Array]:
    """The sum of one term per row, over all ways to place the rows at ascending ranks; with its residue."""
    sums, marks = np.zeros(1), np.zeros(1, np.int64)
    for row, (before, rank, _) in enumerate(fill(np.ones(n, np.int64), len(table))):
        sums = sums[before] + table[row, rank]
        marks = (marks[before] + residues[row, rank]) % _PRIME
    return sums, marks
