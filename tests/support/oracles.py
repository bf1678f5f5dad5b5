"""Slow oracles of the measures, written from their definitions in exact fractions.

A ranking is a list of scores and a list of 0/1 relevances. ``None`` represents an undefined value.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np

Ranking = list[int]


def tie_groups(scores: Sequence[float], relevant: Sequence[int]) -> list[list[int]]:
    """Return the relevances of the items of each distinct score, best score first."""
    return [
        [hit for score, hit in zip(scores, relevant, strict=True) if score == distinct]
        for distinct in sorted(set(scores), reverse=True)
    ]


def orders(scores: Sequence[float], relevant: Sequence[int]) -> Iterator[Ranking]:
    """Yield every ranking of relevances that the scores allow, with tied items in all their orders."""
    for groups in itertools.product(*(itertools.permutations(group) for group in tie_groups(scores, relevant))):
        yield list(itertools.chain(*groups))


def hits_first(scores: Sequence[float], relevant: Sequence[int]) -> Ranking:
    return [hit for group in tie_groups(scores, relevant) for hit in sorted(group, reverse=True)]


def hits_last(scores: Sequence[float], relevant: Sequence[int]) -> Ranking:
    return [hit for group in tie_groups(scores, relevant) for hit in sorted(group)]


def mean_over_orders(
    measure: Callable[[Ranking], Fraction | None], scores: Sequence[float], relevant: Sequence[int]
) -> Fraction | None:
    values = [measure(ranking) for ranking in orders(scores, relevant)]
    if not values or any(value is None for value in values):
        return None
    return sum(values, Fraction(0)) / len(values)  # type: ignore[arg-type]


def denominator_of(name: str, m: int, k: int, found: Fraction) -> Fraction:
    return {"min": Fraction(min(k, m)), "relevant": Fraction(m), "found": found}[name]


def ap_of_ranking(
    ranking: Ranking, m: int | None = None, k: int | None = None, denominator: str = "relevant"
) -> Fraction | None:
    """Return the average precision (at k) of one order of the items."""
    m = sum(ranking) if m is None else m
    if m == 0:
        return None
    top = ranking[:k]
    total = sum((Fraction(sum(top[: i + 1]), i + 1) for i, hit in enumerate(top) if hit), Fraction(0))
    divisor = Fraction(m) if k is None else denominator_of(denominator, m, k, Fraction(sum(top)))
    return total / divisor if divisor else Fraction(0)


def ap_grouped(
    scores: Sequence[float], relevant: Sequence[int], k: int | None = None, denominator: str = "relevant"
) -> Fraction | None:
    """Return the AP with whole tie groups; a group that straddles k contributes its expected hits above k."""
    m = sum(relevant)
    if m == 0:
        return None
    items = hits = total = Fraction(0)
    for group in tie_groups(scores, relevant):
        places = len(group) if k is None else min(len(group), max(0, k - int(items)))
        inside = Fraction(sum(group) * places, len(group))
        items, hits = items + places, hits + inside
        total += inside * hits / items if inside else 0
    divisor = Fraction(m) if k is None else denominator_of(denominator, m, k, hits)
    return total / divisor if divisor else Fraction(0)


def average_precision(
    scores: Sequence[float],
    relevant: Sequence[int],
    ties: str = "grouped",
    k: int | None = None,
    denominator: str = "relevant",
) -> Fraction | None:
    """Return AP, or AP@k, under each rule for ties."""
    if ties == "grouped":
        return ap_grouped(scores, relevant, k, denominator)
    if ties == "expected":
        return mean_over_orders(lambda r: ap_of_ranking(r, None, k, denominator), scores, relevant)
    ranking = (hits_first if ties == "optimistic" else hits_last)(scores, relevant)
    return ap_of_ranking(ranking, None, k, denominator)


def ap_expected(
    scores: Sequence[float], relevant: Sequence[int], k: int | None = None, denominator: str = "relevant"
) -> Fraction | None:
    """Return the mean over all orders of ties, hit by hit: every hit is uniform within its tie group.

    ``test_oracles_agree`` compares it with an enumeration of the orders, which is feasible only for few ties.
    """
    m = sum(relevant)
    if m == 0:
        return None
    items, hits, total = 0, 0, Fraction(0)
    for group in tie_groups(scores, relevant):
        size, inside = len(group), sum(group)
        for place in range(1, size + 1):
            if inside and (k is None or items + place <= k):
                others = Fraction((place - 1) * (inside - 1), size - 1) if size > 1 else 0
                total += Fraction(inside, size) * (hits + 1 + others) / (items + place)
        items, hits = items + size, hits + inside
    return total / (m if k is None else denominator_of(denominator, m, k, Fraction(0)))


def weighted_average_precision(
    scores: Sequence[float], relevant: Sequence[int], weights: Sequence[float]
) -> Fraction | None:
    """Return the AP with weighted items: the sum of precision times gain in recall."""
    exact = [Fraction(weight) for weight in weights]
    m = sum((w for w, hit in zip(exact, relevant, strict=True) if hit), Fraction(0))
    if m == 0:
        return None
    total, before = Fraction(0), Fraction(0)
    for threshold in sorted(set(scores), reverse=True):
        taken = [(w, hit) for score, w, hit in zip(scores, exact, relevant, strict=True) if score >= threshold]
        hits = sum((w for w, hit in taken if hit), Fraction(0))
        if hits > before:
            total += (hits - before) / m * hits / sum(w for w, _ in taken)
        before = hits
    return total


def curve_points(scores: Sequence[float], relevant: Sequence[int]) -> list[tuple[Fraction, Fraction]]:
    """Return (recall, precision) at each distinct score, best first."""
    m, points, items, hits = sum(relevant), [], 0, 0
    for group in tie_groups(scores, relevant):
        items, hits = items + len(group), hits + sum(group)
        points.append((Fraction(hits, m), Fraction(hits, items)))
    return points


def interpolated_precision(points: Sequence[tuple[Fraction, Fraction]], level: Fraction) -> Fraction:
    return max((precision for recall, precision in points if recall >= level), default=Fraction(0))


def interpolated_average_precision(
    scores: Sequence[float], relevant: Sequence[int], levels: Sequence[Fraction] | str
) -> Fraction | None:
    """Return the mean of interpolated precision over the levels, or the area for "all-points" and "trapezoid"."""
    if sum(relevant) == 0:
        return None
    points = curve_points(scores, relevant)
    if not isinstance(levels, str):
        return sum((interpolated_precision(points, level) for level in levels), Fraction(0)) / len(levels)
    before, total = (Fraction(0), points[0][1]), Fraction(0)
    for recall, precision in points:
        height = interpolated_precision(points, recall) if levels == "all-points" else (precision + before[1]) / 2
        total += (recall - before[0]) * height
        before = (recall, precision)
    return total


def coco_average_precision(scores: Sequence[float], relevant: Sequence[int]) -> Fraction | None:
    """Return the mean of interpolated precision at COCO's 101 levels, with the levels and the recall as floats."""
    if sum(relevant) == 0:
        return None
    points = [(float(recall), precision) for recall, precision in curve_points(scores, relevant)]
    return sum((interpolated_precision(points, x) for x in np.linspace(0, 1, 101).tolist()), Fraction(0)) / 101


def counts_at_rank(ranking: Ranking, k: int) -> tuple[int, int, int, int]:
    """Return tp, fp, fn, tn of the top k; a ranking shorter than k is padded with irrelevant items."""
    filled = ranking + [0] * (k - len(ranking))
    top, rest = filled[:k], filled[k:]
    return sum(top), len(top) - sum(top), sum(rest), len(rest) - sum(rest)


def counts_at_score(scores: Sequence[float], relevant: Sequence[int], threshold: float) -> tuple[int, int, int, int]:
    pairs = list(zip(scores, relevant, strict=True))
    tp = sum(1 for score, hit in pairs if score >= threshold and hit)
    fp = sum(1 for score, hit in pairs if score >= threshold and not hit)
    return tp, fp, sum(relevant) - tp, len(pairs) - sum(relevant) - fp


def f_beta(precision: Fraction, recall: Fraction, beta: Fraction) -> Fraction:
    """Return F_beta as 1 - E, by van Rijsbergen's definition."""
    alpha = 1 / (beta**2 + 1)
    return 1 / (alpha / precision + (1 - alpha) / recall)


def average(values: Sequence[float | None], how: str, support: Sequence[float]) -> float | None:
    """Return the macro or weighted mean of the defined values; without any support all have equal weights."""
    kept = [(value, weight) for value, weight in zip(values, support, strict=True) if value is not None]
    if not kept:
        return None
    if how == "macro" or not any(weight for _, weight in kept):
        return sum(value for value, _ in kept) / len(kept)
    return sum(value * weight for value, weight in kept) / sum(weight for _, weight in kept)
