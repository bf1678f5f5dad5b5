"""Slow oracles of query rankings, written from the definitions; they share no code with the package."""

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction


def entries(scores: list[float], relevant: list[bool], lengths: list[int]) -> list[tuple]:
    """Yield (ranking, score, hits, items, hits above, items above) of each score of a hit, best first."""
    out, first = [], 0
    for ranking, length in enumerate(lengths):
        pairs = list(zip(scores[first : first + length], relevant[first : first + length], strict=True))
        first += length
        for score in sorted({s for s, y in pairs if y}, reverse=True):
            tied, above = [y for s, y in pairs if s == score], [y for s, y in pairs if s > score]
            out.append((ranking, score, sum(tied), len(tied), sum(above), len(above)))
    return out


def orders(scores: list[float], relevant: list[int]) -> Iterator[list[int]]:
    """Yield the relevance by rank under every order of tied items, each as often as it occurs."""
    groups = [[y for s, y in zip(scores, relevant, strict=True) if s == score] for score in sorted(set(scores))[::-1]]
    for order in itertools.product(*(list(itertools.permutations(group)) for group in groups)):
        yield list(itertools.chain.from_iterable(order))


def over_orders(
    measure: Callable[[list[int]], Fraction], scores: list[float], relevant: list[int], ties: str
) -> Fraction:
    """Return a measure under a rule for ties that selects an order, or the mean over orders."""
    if ties == "expected":
        values = [measure(order) for order in orders(scores, relevant)]
        return sum(values, Fraction(0)) / len(values)
    sign = -1 if ties == "optimistic" else 1
    best = sorted(zip(scores, relevant, strict=True), key=lambda pair: (-pair[0], sign * pair[1]))
    return measure([y for _, y in best])


def average_precision(order: list[int], m: int, k: int | None = None, denominator: str = "min") -> Fraction:
    """Return the sum of h(t) / t over the hits in the top k, divided by min(k, m), m or the number of these hits."""
    top = order[:k]
    total = sum((Fraction(sum(order[: t + 1]), t + 1) for t, y in enumerate(top) if y), Fraction(0))
    divisor = {"min": min(k or m, m), "relevant": m, "found": sum(top)}[denominator] if k else m
    return total / divisor if divisor else Fraction(0)


def hits(order: list[int], k: int | None) -> int:
    return sum(order[:k])


def precision(order: list[int], k: int | None = None, adaptive: bool = False) -> Fraction:
    k = len(order) if k is None or (adaptive and k > len(order)) else k
    return Fraction(hits(order, k), k)


def recall(order: list[int], m: int, k: int | None = None) -> Fraction:
    return Fraction(hits(order, k), m)


def f_beta(order: list[int], m: int, beta: Fraction, k: int | None = None) -> Fraction:
    p, r = precision(order, k), recall(order, m, k)
    return (1 + beta**2) * p * r / (beta**2 * p + r) if p + r else Fraction(0)


def fall_out(order: list[int], k: int | None = None) -> Fraction:
    misses = [1 - y for y in order]
    return Fraction(sum(misses[:k]), sum(misses))


def hit_rate(order: list[int], k: int | None = None) -> Fraction:
    return Fraction(int(any(order[:k])))


def reciprocal_rank(order: list[int], k: int | None = None) -> Fraction:
    top = order[:k]
    return Fraction(1, top.index(1) + 1) if any(top) else Fraction(0)


def rank_biased_precision(order: list[int], k: int | None = None, p: Fraction = Fraction(4, 5)) -> Fraction:
    """Return the sum of (1 - p) p^(t - 1) over the hits in the top k."""
    return sum(((1 - p) * p**t for t, y in enumerate(order[:k]) if y), Fraction(0))


def r_precision(order: list[int], m: int) -> Fraction:
    return Fraction(hits(order, m), m)


def auroc(order: list[int], k: int | None = None, part: Fraction | None = None) -> Fraction | None:
    """Return ordered pairs of the top k up to a fall-out, scaled to [0, 1]; None without a pair, 0 without a hit."""
    top = order[:k]
    hits, misses = sum(top), len(top) - sum(top)
    if not hits:
        return Fraction(0)
    if not misses:
        return None
    part = Fraction(1) if part is None else part
    area, found, left = Fraction(0), 0, part * misses
    for y in top:
        found += y
        if not y:
            area += found * min(max(left, 0), Fraction(1))
            left -= 1
    area /= hits * misses
    return area if part == 1 else (1 + (area - part**2 / 2) / (part - part**2 / 2)) / 2


def dcg(order: list[float], k: int | None, gains: str = "linear") -> float:
    """Return the DCG of the grades by rank."""
    return sum((y if gains == "linear" else 2**y - 1) / math.log2(t + 1) for t, y in enumerate(order[:k], 1))


def normalized_dcg(
    scores: list[float],
    grades: list[float],
    judged: list[float],
    *,
    k: int | None = None,
    gains: str = "linear",
    ties: str = "expected",
) -> float:
    """Return the DCG over the DCG of all judged items, best first; 0 if no item has a gain.

    Grouped items count their gains at the rank of the last of them, and at k their share of the places above k.
    """
    ideal = dcg(sorted(judged)[::-1], k, gains)
    if not ideal:
        return 0.0
    if ties != "grouped":
        return float(over_orders(lambda order: dcg(order, k, gains), scores, grades, ties)) / ideal
    total, above = 0.0, 0
    for score in sorted(set(scores))[::-1]:
        group = [y for s, y in zip(scores, grades, strict=True) if s == score]
        places = len(group) if k is None else max(0, min(len(group), k - above))
        if places:
            gain = sum(y if gains == "linear" else 2**y - 1 for y in group)
            total += gain * places / len(group) / math.log2(above + places + 1)
        above += len(group)
    return total / ideal


def trec_interpolated(order: list[int], m: int, level: float, version: int) -> float:
    """Return trec_eval's interpolated precision: the highest precision once the hits of the level are reached."""
    cut = int(level * m + 0.9) if version == 9 else int(level * m + 0.5)
    if cut > sum(order):
        return 0.0
    return max((sum(order[:t]) / t for t in range(1, len(order) + 1) if sum(order[:t]) >= cut), default=0.0)
