"""Measures of one ranking without ties of which the places of its hits are known, without arrays: to the same bits.

For a few rankings of a few hits each; arrays cost more than the work there is.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from torch_ap.ranking import segments
from torch_ap.rules.options import TopK

_UNDEFINED = float("nan")


class FewHits(NamedTuple):
    """One ranking.

    Attributes:
        places: how many items stand above each hit, ascending.
        n: items ranked.
        m: relevant items, ranked or not.
        grades: those of the hits, by place.
        ideal: those of all relevant items, the highest first.
    """

    places: Sequence[int]
    n: int
    m: int
    grades: Sequence[float] = ()
    ideal: Sequence[float] = ()

    def cut(self, top_k: TopK) -> tuple[int, int]:
        """K, n for all items, and how many hits lie in the top k."""
        if top_k is None:
            return self.n, len(self.places)
        k = self.m if isinstance(top_k, str) else top_k
        return k, bisect_left(self.places, k)


def ranked(scores: Sequence[float], grades: Sequence[float], most: float, graded: bool) -> FewHits | None:
    """The ranking of items of which those are hits whose grade is not 0; None where scores tie or are NaN, and for
    grades that are none: below 0, NaN, or more than ``most`` in all.
    """
    if len(set(scores)) < len(scores):
        return None
    total, grade_of = sum(scores), dict(zip(scores, grades, strict=True))
    if total != total or not sum(grades) <= most or min(grades) < 0:
        return None
    ordered = [grade_of[score] for score in sorted(grade_of, reverse=True)]
    places = [place for place, grade in enumerate(ordered) if grade]
    if not graded:
        return FewHits(places, len(ordered), len(places))
    found = [grade for grade in ordered if grade]
    return FewHits(places, len(ordered), len(found), found, sorted(found, reverse=True))


def average_precision(hits: FewHits, top_k: TopK, denominator: str) -> float:
    """AP, or AP@k; NaN where nothing is relevant."""
    if not hits.m:
        return _UNDEFINED
    if top_k is None:
        return segments.sum_of(_precisions(hits.places)) / hits.m
    k, inside = hits.cut(top_k)
    total = segments.sum_of(_filled(_precisions(hits.places[:inside]), hits.places))
    if denominator == "found":
        return total / inside if inside else 0.0
    return total / (hits.m if denominator == "relevant" else min(hits.m, k))


def _precisions(places: Sequence[int]) -> list[float]:
    return [nth / (place + 1) for nth, place in enumerate(places, 1)]


def ratio(hits: FewHits, of: str, top_k: TopK) -> float:
    """Precision, recall or fall-out at k; NaN where nothing is relevant."""
    if not hits.m:
        return _UNDEFINED
    k, inside = hits.cut(top_k)
    if of == "fall_out":
        return (min(hits.n, k) - inside) / (hits.n - len(hits.places))
    return inside / (hits.m if of == "recall" else k) if hits.n else 0.0


def first_hit(hits: FewHits, what: str, top_k: TopK) -> float:
    """The reciprocal rank of the first hit, or whether there is one, in the top k; NaN where nothing is relevant."""
    if not hits.cut(top_k)[1]:
        return 0.0 if hits.m else _UNDEFINED
    return 1 / (hits.places[0] + 1) if what == "reciprocal_rank" else 1.0


def normalized_gain(hits: FewHits, discounts: Sequence[float], top_k: TopK) -> float:
    """NDCG of gains that are the grades; NaN where nothing has one."""
    if not hits.m:
        return _UNDEFINED
    k, inside = (len(hits.ideal), len(hits.places)) if top_k is None else hits.cut(top_k)
    found = [grade * discounts[place] for grade, place in zip(hits.grades[:inside], hits.places, strict=False)]
    ideal = [grade * discount for grade, discount in zip(hits.ideal[:k], discounts, strict=False)]
    return min(segments.sum_of(_filled(found, hits.places)) / segments.sum_of(_filled(ideal, hits.ideal)), 1.0)


def _filled(values: list[float], like: Sequence[float]) -> list[float]:
    """With zeros to the length of others: of so many more the sum differs in its last bit."""
    return values if len(values) == len(like) else values + [0.0] * (len(like) - len(values))
