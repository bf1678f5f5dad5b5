"""Values of short rankings without ties, from lists: arrays take longer than the work.

Sums are added in the order of the array implementations, so that both give the same bits.
"""

from bisect import bisect_left
from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from torch_ap.core.base.options import TopK
from torch_ap.core.measures.ties import divisor
from torch_ap.core.ranking import segments

_UNDEFINED = float("nan")


class FewHits(NamedTuple):
    """One ranking.

    Attributes:
        places: number of items above each hit, ascending.
        n: number of ranked items.
        m: number of relevant items, ranked or not.
        grades: grade of each hit, in the order of ``places``.
        ideal: grades of all relevant items, descending.
    """

    places: Sequence[int]
    n: int
    m: int
    grades: Sequence[float] = ()
    ideal: Sequence[float] = ()

    def cut(self, top_k: TopK) -> tuple[int, int]:
        """Return k, n for all items, and the number of hits in the top k."""
        if top_k is None:
            return self.n, len(self.places)
        k = self.m if isinstance(top_k, str) else top_k
        return k, bisect_left(self.places, k)


def rank_lists(scores: Sequence[float], grades: Sequence[float], most: float, graded: bool) -> FewHits | None:
    """Return the ranking of items, where an item with a grade other than 0 is a hit.

    Args:
        scores: N scores.
        grades: N grades.
        most: the highest allowed sum of the grades.
        graded: whether the ranking contains grades.

    Returns:
        None for tied scores or NaN, and for invalid grades: below 0, NaN, or with a sum above ``most``.
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
    hit_grades = [grade for grade in ordered if grade]
    return FewHits(places, len(ordered), len(hit_grades), hit_grades, sorted(hit_grades, reverse=True))


def average_precision(hits: FewHits, top_k: TopK, denominator: str) -> float:
    """Return AP, or AP@k; NaN if nothing is relevant."""
    if not hits.m:
        return _UNDEFINED
    precisions = [nth / (place + 1) for nth, place in enumerate(hits.places, 1)]
    k, inside = hits.cut(top_k)
    total = segments.sum_of(precisions, inside)
    if top_k is None:
        return total / hits.m
    if denominator == "found":
        return total / inside if inside else 0.0
    value: float = total / divisor(denominator, hits.m, k)
    return value


def ratio(hits: FewHits, name: str, top_k: TopK) -> float:
    """Return precision, recall or fall-out at k; NaN if nothing is relevant."""
    if not hits.m:
        return _UNDEFINED
    k, inside = hits.cut(top_k)
    if name == "fall_out":
        return (min(hits.n, k) - inside) / (hits.n - len(hits.places))
    return inside / (hits.m if name == "recall" else k) if hits.n else 0.0


def first_hit(hits: FewHits, what: str, top_k: TopK) -> float:
    """Return the reciprocal rank of the first hit in the top k, or whether it exists; NaN if nothing is relevant."""
    if not hits.cut(top_k)[1]:
        return 0.0 if hits.m else _UNDEFINED
    return 1 / (hits.places[0] + 1) if what == "reciprocal_rank" else 1.0


def normalized_gain(hits: FewHits, discounts: Sequence[float], top_k: TopK) -> float:
    """Return nDCG if gains are the grades; NaN if nothing has a gain."""
    places, _, m, grades, ideal = hits
    if not m:
        return _UNDEFINED
    k, inside = hits.cut(top_k)
    gained = list(map(mul, grades, map(discounts.__getitem__, places)))
    most = segments.sum_of(list(map(mul, ideal, discounts)), None if top_k is None else k)
    value = segments.sum_of(gained, inside) / most
    return 1.0 if value > 1 else value
