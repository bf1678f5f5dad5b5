"""All ways to give the hits of a ranking to its tie groups: the AP of each, and how many orders of the labels it stands
for.

Two algorithms list them. *By item* places the rarer of hits and misses one after the other, each in the group of the
one before or a later one; *by group* gives each group its hits in turn. Both need one step per item, or per group, and
no more room than the list: a way that has begun can always be ended.
"""

import math
from collections.abc import Iterator

import numpy as np

from torch_ap.ranking import segments
from torch_ap.ranking.order import Array

MOST_LISTED = 3_000_000
_MOST_CHOSEN = 12  # 25 groups, 12 of which hold one hit more: more ways than are listed
_WHOLE = 36  # e^36 and whatever is below it is a whole number in float64


def is_feasible(sizes: Array, m: int) -> bool:
    """Whether at most 3,000,000 ways exist.

    Args:
        sizes: (G,) int64 items of each tie group.
        m: hits among them.
    """
    groups, n = len(sizes), int(sizes.sum())
    rare = min(m, n - m)
    # one item of each group set aside, these few of them can be chosen, whatever the others hold
    if rare < 1 or math.comb(groups, min(rare, groups // 2, _MOST_CHOSEN)) > MOST_LISTED:
        return False
    if groups == n or rare == 1:
        return math.comb(groups, rare) <= MOST_LISTED
    ways, least, left = np.ones(1), 0, n
    for size in np.sort(sizes).tolist():  # ways[i] ways to give least + i items to the groups so far
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
    """AP of each way, and its weight: float64, in proportion to the orders of the labels that it stands for.

    Args:
        sizes: (G,) int64 items of each tie group, best first.
        m: hits, neither 0 nor all.

    Returns:
        (W,) AP, not in order, and (W,) weights: the numbers of orders themselves, while these are few.
    """
    n = int(sizes.sum())
    sums, weights = _by_item(sizes, n, m) if min(m, n - m) <= len(sizes) else _by_group(sizes, n, m)
    return sums / m, weights


def fill(sizes: Array, count: int) -> Iterator[tuple[Array, Array, Array]]:
    """Place ``count`` items one by one, each in the group of the one before, if there is room, or in a later one.

    Yields, for each item in turn, over all ways to place those so far: (W,) which way of the item before it continues,
    (W,) its group, and (W,) its number, from 1, in that group.
    """
    below = int(sizes.sum()) - segments.from_zero(sizes)
    group, number = np.full(1, -1), np.zeros(1, np.int64)
    for placed in range(count):
        most = int(np.searchsorted(-below, placed - count, "right")) - 1  # the last group with room for those to come
        full = np.where(group >= 0, number == sizes[group], True)
        first = group + full
        width = most + 1 - first
        before = np.repeat(np.arange(len(group)), width)
        step = np.arange(len(before)) - np.repeat(width.cumsum() - width, width)
        number = np.where((step == 0) & ~full[before], number[before], 0) + 1
        group = first[before] + step
        yield before, group, number


def _by_item(sizes: Array, n: int, m: int) -> tuple[Array, Array]:
    """The c-th hit of a group that ends at rank t, the j-th of all, adds (j + c - 1) / t to the sum of precisions.

    The c-th miss there, the j-th of all, adds so much to a sum that begins with a ranking of hits only, less 1, and
    less g / t of its group and each below it.
    """
    t, few = sizes.cumsum(), min(m, n - m)
    of_misses = few < m
    taken = 1 + (sizes / t)[::-1].cumsum()[::-1] if of_misses else np.zeros(len(sizes))
    sums, weights = np.full(1, float(n if of_misses else 0)), np.ones(1)
    for j, (before, group, number) in enumerate(fill(sizes, few), 1):
        sums = sums[before] + ((j + number - 1) / t[group] - taken[group])
        weights = weights[before] * (sizes[group] - number + 1) / number
    return sums, weights


def _by_group(sizes: Array, n: int, m: int) -> tuple[Array, Array]:
    """The r hits of a group that ends at rank t, after h above it, add r (h + r) / t."""
    countable = math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1) < _WHOLE
    odds = None if countable else m / (n - m)
    hits, sums, weights, t = np.zeros(1, np.int64), np.zeros(1), np.ones(1), 0
    for size in sizes.tolist():
        t += size
        fewest = max(0, m - (n - size))
        least = np.maximum(m - hits - (n - t), 0)
        width = np.minimum(m - hits, size) + 1 - least
        before = np.repeat(np.arange(len(hits)), width)
        given = least[before] + np.arange(len(before)) - np.repeat(width.cumsum() - width, width)
        hits = hits[before] + given
        sums = sums[before] + given * hits / t
        weights = weights[before] * _weights(size, fewest, min(size, m), odds)[given - fewest]
    return sums, weights


def _weights(size: int, least: int, most: int, odds: float | None) -> Array:
    """C(size, r) for r from ``least`` to ``most``; with odds C(size, r) odds^r over the largest of them.

    All ways hold as many hits, so that the powers of the odds multiply each of them by the same. The logarithms are
    added up from the largest, where they are small.
    """
    if odds is None:
        return np.array([float(math.comb(size, r)) for r in range(least, most + 1)])
    r = np.arange(least, most)
    logs = np.log((size - r) / (r + 1) * odds)
    mode = int((logs > 0).sum())
    shares: Array = np.exp(np.concatenate([-logs[:mode][::-1].cumsum()[::-1], np.zeros(1), logs[mode:].cumsum()]))
    return shares
