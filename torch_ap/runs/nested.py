"""Judgements and runs as nested dicts of text: documents are looked up where they are, and no table is made of them.

Only the judged documents of a run are looked at one by one. Of the others the scores are sorted, a query at a time.
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import eq
from typing import Any, TypeAlias

import numpy as np

from torch_ap.curve.few_hits import FewHits
from torch_ap.files.trec_names import TREC_CONVENTIONS
from torch_ap.ranking import hit_curve, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array

Nested: TypeAlias = Mapping[str, Mapping[str, Any]]

_FEW_QUERIES = 16  # of which lists cost less than arrays
_SEVERAL = 8  # from so many on of few documents NumPy sorts all at once
_FEW = 64  # scores that Python sorts faster than NumPy
_LARGEST_WHOLE = 1 << 53
_DICT = frozenset((dict,))


def are_qrels(given: Any) -> bool:
    """Whether this is {query: {document: grade}} of text and whole numbers, with some judgement."""
    return _is_nested(given) and set(map(type, _values(given))) == {int} and _are_small(_values(given))


def is_run(given: Any) -> bool:
    """Whether this is {query: {document: score}} of text and finite numbers, with some document."""
    if not _is_nested(given):
        return False
    try:
        total = sum(_values(given))
    except TypeError:
        return False
    if type(total) is float:  # so none is NumPy's; whole numbers among them are looked at where they are sorted
        return math.isfinite(total)
    if type(total) is int:
        return _are_small(_values(given))
    return set(map(type, _values(given))) == {np.float64} and math.isfinite(total)


def _is_nested(given: Any) -> bool:
    """Whether this is {text: {text: value}}, with some value."""
    if not isinstance(given, dict) or not _DICT.issuperset(map(type, given.values())):
        return False
    try:  # which joins text alone
        return bool("".join(given)) and bool("".join(chain.from_iterable(given.values())))
    except TypeError:
        return False


def _values(given: Nested) -> Iterable[Any]:
    return chain.from_iterable([listed.values() for listed in given.values()])


def _are_small(values: Iterable[int]) -> bool:
    """Whether float64 holds all of them, and the numbers next to them."""
    known = list(values)
    return max(known) < _LARGEST_WHOLE and min(known) > -_LARGEST_WHOLE


@dataclass(frozen=True, eq=False)
class NestedDocuments:
    """The documents of a run for the queries that count, and their judgements.

    Attributes:
        queries: S names, in the order of the judgements.
        lengths: S, how many documents each lists.
        places, grades: F of the documents that were judged and retrieved, query by query: how many stand above each,
            and its grade.
        found: S, how many of them are of each query.
        judgements: S, the grades of each query.
    """

    queries: list[str]
    lengths: list[int]
    places: list[int]
    grades: list[int]
    found: list[int]
    judgements: list[Collection[int]]

    def counts(self, level: int) -> tuple[int, int, bool, bool]:
        """As of :class:`torch_ap.files.judged.Documents`."""
        hits = max(self.grades, default=-1) >= level
        listed = zip(self.lengths, self.judgements, strict=True)
        relevant = hits or any(length and max(judged, default=-1) >= level for length, judged in listed)
        return sum(self.lengths), len(self.places), relevant, hits

    def few(self, level: int) -> list[FewHits] | None:
        """As of :class:`torch_ap.files.judged.Documents`."""
        if len(self.queries) > _FEW_QUERIES:
            return None
        rankings, last = [], 0
        for n, found, judged in zip(self.lengths, self.found, self.judgements, strict=True):
            first, last = last, last + found
            hits = sorted(
                x for x in zip(self.places[first:last], self.grades[first:last], strict=True) if x[1] >= level
            )
            ideal = sorted([grade for grade in judged if grade >= level], reverse=True)
            rankings.append(FewHits([x for x, _ in hits], n, len(ideal), [x for _, x in hits], ideal))
        return rankings

    def curve(self, low: float, high: float = math.inf) -> HitCurve:
        """As of :class:`torch_ap.files.judged.Documents`."""
        query, place, grade, query_judged, grade_judged = self._columns
        hit, relevant = ((x >= low) & (x < high) for x in (grade, grade_judged))
        n, m = np.array(self.lengths, np.int64), np.bincount(query_judged[relevant], minlength=len(self.lengths))
        offsets = segments.from_counts(np.bincount(query[hit], minlength=len(n)))
        ones = np.ones(offsets[-1], np.int64)
        hits_above = np.arange(offsets[-1]) - offsets[query[hit]]
        return hit_curve.of_arrays(ones, ones.copy(), hits_above, place[hit], None, offsets, n, m)

    def with_grades(self, curve: HitCurve) -> HitCurve:
        """As of :class:`torch_ap.files.judged.Documents`."""
        _, _, grade, query, judged = self._columns
        query, gained = query[judged > 0], judged[judged > 0]
        gained = gained[np.lexsort((-gained, query))]
        return hit_curve.with_grades(curve, grade[grade > 0].astype(np.float64), gained.astype(np.float64))

    @cached_property
    def _columns(self) -> tuple[Array, ...]:
        """(F,) int64 query, place and grade of what was found, by query and place; (J,) of each judgement."""
        number = np.arange(len(self.queries))
        query, place, grade = number.repeat(self.found), np.array(self.places), np.array(self.grades)
        order = np.lexsort((place, query))
        judged = np.fromiter(chain.from_iterable(self.judgements), np.int64)
        return query, place[order], grade[order], number.repeat(list(map(len, self.judgements))), judged


def documents_of(qrels: Nested, run: Nested, convention: str, complete: bool) -> NestedDocuments | None:
    """The documents of a run that :func:`is_run` finds to be one; None where tables are needed after all: where a rule
    for ties without an order meets scores that tie, and for whole numbers that float64 may not hold.

    Args:
        qrels: judgements, as :func:`are_qrels` finds them to be.
        run: what was retrieved.
        convention: how tied scores are ordered; see :func:`torch_ap.files.judged.judge`.
        complete: whether judged queries that the run lacks count.
    """
    rows = [(judged, run.get(query) or {}) for query, judged in qrels.items()]
    queries = [query for query, (_, listed) in zip(qrels, rows, strict=True) if listed or complete]
    rows = [x for x in rows if x[1] or complete]
    if convention == "trec9":
        rows = [(judged, _in_single_precision(listed)) for judged, listed in rows]
    lengths = [len(listed) for _, listed in rows]
    found = [[name for name in judged if name in listed] for judged, listed in rows]
    places = (
        _places_in_short(rows, lengths, found) if len(rows) >= _SEVERAL and sum(lengths) <= _FEW * len(rows) else None
    )
    if places is None:
        by_name, each = convention in TREC_CONVENTIONS, []
        for (_, listed), names in zip(rows, found, strict=True):
            if (one := _places(listed, names, by_name)) is None:
                return None
            each.append(one)
        places = list(chain.from_iterable(each))
    grades = [judged[name] for (judged, _), names in zip(rows, found, strict=True) for name in names]
    judgements: list[Collection[int]] = [judged.values() for judged, _ in rows]
    return NestedDocuments(queries, lengths, places, grades, [len(names) for names in found], judgements)


def _in_single_precision(listed: Mapping[str, Any]) -> dict[str, float]:
    with np.errstate(over="ignore"):
        scores = np.fromiter(listed.values(), np.float64, len(listed)).astype(np.float32)
    return dict(zip(listed, scores.tolist(), strict=True))


def _places_in_short(
    rows: Sequence[tuple[Any, Mapping[str, Any]]], lengths: Sequence[int], found: Sequence[Sequence[str]]
) -> list[int] | None:
    """:func:`_places` of all rows, by one sort of complex numbers, the row and the score; None where some are tied."""
    number, counts = np.arange(len(rows)), list(map(len, found))
    keys, wanted = np.empty(sum(lengths), np.complex128), np.empty(sum(counts), np.complex128)
    keys.real, wanted.real = number.repeat(lengths), number.repeat(counts)
    keys.imag = np.fromiter(chain.from_iterable([listed.values() for _, listed in rows]), np.float64, len(keys))
    scores = [listed[name] for (_, listed), names in zip(rows, found, strict=True) for name in names]
    wanted.imag = scores
    if np.count_nonzero(np.abs(keys.imag) >= _LARGEST_WHOLE):
        return None
    keys.sort()
    end = keys.searchsorted(wanted, "right")
    if np.count_nonzero(keys[end - 2] == wanted):
        return None
    found_places: list[int] = (np.cumsum(lengths).repeat(counts) - end).tolist()
    return found_places


def _places(listed: Mapping[str, Any], found: Sequence[str], by_name: bool) -> list[int] | None:
    """How many documents stand above each of those found; None where one is tied and names decide nothing, and for
    whole numbers that float64 may not hold.
    """
    scores: Any = [listed[name] for name in found]
    if len(listed) <= _FEW:
        ascending: Any = sorted(listed.values())
        end: Any = [bisect_right(ascending, x) for x in scores]
        tied = True in map(eq, [ascending[at - 2] for at in end], scores)
        above = [len(listed) - at for at in end]
    else:
        ascending, scores = np.fromiter(listed.values(), np.float64, len(listed)), np.array(scores, np.float64)
        ascending.sort()
        end = ascending.searchsorted(scores, "right")
        tied = bool(np.count_nonzero(ascending[end - 2] == scores))
        above = (len(listed) - end).tolist()
    if listed and not -_LARGEST_WHOLE < ascending[0] <= ascending[-1] < _LARGEST_WHOLE:
        return None
    if not tied:
        return above
    return _among_tied(listed, found, above) if by_name else None


def _among_tied(listed: Mapping[str, Any], found: Sequence[str], above: list[int]) -> list[int]:
    """The same, with tied documents in descending order of their names."""
    groups: dict[Any, list[str]] = {listed[name]: [] for name in found}
    for name, score in listed.items():
        if score in groups:
            groups[score].append(name)
    before = {name: place for group in groups.values() for place, name in enumerate(sorted(group, reverse=True))}
    return [place + before[name] for name, place in zip(found, above, strict=True)]
