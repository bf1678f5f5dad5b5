"""Slow oracles of inference: average precision in exact fractions, and distributions by brute force."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np


def grouped(scores, target):
    """Return the AP with one threshold per distinct score, as a Fraction."""
    m = sum(target)
    total = Fraction(0)
    for s, y in zip(scores, target, strict=True):
        if y:
            above = [b for a, b in zip(scores, target, strict=True) if a >= s]
            total += Fraction(sum(above), len(above))
    return total / m if m else None


def precision_sum(flags, hits, items):
    """Sum the precision at each hit of an ordered group below these numbers of hits and items."""
    total = 0.0
    for flag in flags:
        items, hits = items + 1, hits + flag
        total += flag * hits / items
    return total


def average_precision_by_definition(scores, target, ties):
    """Return the AP of one ranking; NaN without hits."""
    total, hits, items = 0.0, 0, 0
    for score in sorted(set(scores), reverse=True):
        flags = [y for s, y in zip(scores, target, strict=True) if s == score]
        found = sum(flags)
        if ties == "grouped":
            total += found * (hits + found) / (items + len(flags))
        elif ties == "expected":
            places = combinations(range(len(flags)), found) if 0 < found < len(flags) else [range(found)]
            orders = [[int(place in chosen) for place in range(len(flags))] for chosen in places]
            orders = orders if len(orders) > 1 else [flags]
            total += sum(precision_sum(order, hits, items) for order in orders) / len(orders)
        else:
            total += precision_sum(sorted(flags, reverse=ties == "optimistic"), hits, items)
        hits, items = hits + found, items + len(flags)
    return total / hits if hits else math.nan


def weighted(scores, target, weights):
    """Return the AP of items that occur several times each."""
    repeated = [(s, y) for s, y, w in zip(scores, target, weights, strict=True) for _ in range(int(w))]
    return grouped([s for s, _ in repeated], [y for _, y in repeated])


def of_order(relevant, k=None):
    """Sum the precisions at the hits among the top k of an untied ranking."""
    hits, total = 0, Fraction(0)
    for rank, y in enumerate(relevant[:k], 1):
        hits += y
        total += Fraction(hits, rank) if y else 0
    return total


def rankings(n, m):
    """Yield every way to place m hits among n ranks."""
    for places in combinations(range(n), m):
        yield [int(i in places) for i in range(n)]


def random_values(n, m, k=None, norm=None):
    """Return the AP (or S_k / norm) of every ranking."""
    return [of_order(y, k) / (norm or m) for y in rankings(n, m)]


def moments(values):
    mean = sum(values) / len(values)
    return mean, sum((x - mean) ** 2 for x in values) / len(values)


def allocations(sizes, m):
    """Yield every way to distribute m hits over tie groups of these sizes."""
    return [hits for hits in product(*(range(size + 1) for size in sizes)) if sum(hits) == m]


def grouped_allocation(sizes, hits):
    """Return the AP for this number of hits per group, as a Fraction."""
    t = h = total = Fraction(0)
    for size, r in zip(sizes, hits, strict=True):
        t, h = t + size, h + r
        total += r * h / t
    return total / sum(hits)


def influence_by_difference(scores, target, step=1e-6):
    """Return dAP / d(weight of an item) by central differences, centred within its class and times its size."""
    scores, target = np.asarray(scores, float), np.asarray(target)

    def ap(w):
        total = 0.0
        for i in np.flatnonzero(target):
            at = scores >= scores[i]
            total += w[i] * (w * target)[at].sum() / w[at].sum()
        return total / (w * target).sum()

    n = len(scores)
    out = np.zeros(n)
    for i in range(n):
        up, down = np.ones(n), np.ones(n)
        up[i] += step
        down[i] -= step
        out[i] = (ap(up) - ap(down)) / (2 * step)
    return out


def without_each(scores, target):
    """Return the AP without each item; None for the only hit."""
    return [grouped(scores[:i] + scores[i + 1 :], target[:i] + target[i + 1 :]) for i in range(len(scores))]
