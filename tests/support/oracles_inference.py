"""Slow oracles of inference: average precision in exact fractions, and distributions by brute force."""

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
