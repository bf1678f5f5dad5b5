"""Judgements and runs as nested dicts of text: documents are looked up where they are, and no table is made of them.

Only the judged documents of a run are looked at one by one. Of the others the scores are sorted, a query at a time.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat
from operator import eq
from typing import Any, TypeAlias

import numpy as np

from torch_ap.curve.few_hits import FewHits
from torch_ap.files.trec_names import TREC_CONVENTIONS
from torch_ap.ranking import hit_curve, many_rankings, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array

Nested: TypeAlias = Mapping[str, Mapping[str, Any]]

_FEW_QUERIES = 16  # of which lists cost less than arrays
_FEW = 64  # scores that Python sorts faster than NumPy
_ABSENT = repeat(math.nan)
_LARGEST_WHOLE = 1 << 53
_DICT = frozenset((dict,))


@dataclass(frozen=True, eq=False)
class NestedQrels:
    """Judgements as nested dicts of text and whole numbers.

    Attributes:
        given: {query: {document: grade}}.
        grades: J of them, query by query.
        lengths: how many each of the S queries has.
    """

    given: Nested
    grades: list[int]
    lengths: list[int]

    @cached_property
    def columns(self) -> tuple[Array, Array]:
        """(J,) int64 number of the query, and grade."""
        return np.arange(len(self.lengths)).repeat(self.lengths), np.array(self.grades, np.int64)

    def of_queries_in(self, run: Nested) -> "NestedQrels":
        """Those of queries for which a run has documents."""
        kept = {query: judged for query, judged in self.given.items() if run.get(query)}
        return self if len(kept) == len(self.given) else _qrels(kept)


def qrels_of(given: Any) -> NestedQrels | None:
    """Judgements, if they are {query: {document: grade}} of text and whole numbers, with some judgement; else None."""
    if not _is_nested(given):
        return None
    found = _qrels(given)
    return found if set(map(type, found.grades)) == {int} and _are_small(found.grades) else None


def _qrels(given: Nested) -> NestedQrels:
    return NestedQrels(given, list(_values(given)), list(map(len, given.values())))


def is_run(given: Any) -> bool:
    """Whether this is {query: {document: score}} of text and finite numbers, with some document."""
    if not _is_nested(given):
        return False
    try:
        total = sum(_values(given))
    except (TypeError, OverflowError):  # of whole numbers beyond float64
        return False
    if type(total) is float:  # so none is NumPy's; whole numbers among them are looked at where they are sorted
        return math.isfinite(total)
    if type(total) is int:
        return _are_small(list(_values(given)))
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


def _are_small(values: Sequence[int]) -> bool:
    """Whether float64 holds all of them, and the numbers next to them."""
    return max(values) < _LARGEST_WHOLE and min(values) > -_LARGEST_WHOLE


@dataclass(frozen=True, eq=False)
class NestedDocuments:
    """The documents of a run for the queries that count, and their judgements.

    Attributes:
        qrels: the judgements of the S queries.
        lengths: S, how many documents each lists.
        places, grades: F of the documents that were judged and retrieved, query by query: how many stand above each,
            and its grade.
        found: S, how many of them are of each query.
    """

    qrels: NestedQrels
    lengths: Sequence[int]
    places: list[int] | Array
    grades: list[int] | Array
    found: list[int] | Array

    def counts(self, level: int) -> tuple[int, int, bool, bool]:
        """As of :class:`torch_ap.files.judged.Documents`."""
        hits = max(self.grades, default=-1) if isinstance(self.grades, list) else int(self.grades.max(initial=-1))
        if hits >= level:
            return sum(self.lengths), len(self.places), True, True
        query, grade = self.qrels.columns
        relevant = np.array(self.lengths)[query[grade >= level]].any()
        return sum(self.lengths), len(self.places), bool(relevant), False

    def few(self, level: int) -> list[FewHits] | None:
        """As of :class:`torch_ap.files.judged.Documents`."""
        if len(self.lengths) > _FEW_QUERIES:
            return None
        rankings, last, end = [], 0, 0
        for n, found, judged in zip(self.lengths, self.found, self.qrels.lengths, strict=True):
            first, last, start, end = last, last + found, end, end + judged
            listed = zip(self.places[first:last], self.grades[first:last], strict=True)
            hits = sorted([x for x in listed if x[1] >= level])
            ideal = sorted([grade for grade in self.qrels.grades[start:end] if grade >= level], reverse=True)
            rankings.append(FewHits([x for x, _ in hits], n, len(ideal), [x for _, x in hits], ideal))
        return rankings

    def curve(self, low: float, high: float = math.inf) -> HitCurve:
        """As of :class:`torch_ap.files.judged.Documents`."""
        query, place, grade = self._found
        judged, grade_judged = self.qrels.columns
        hit, relevant = ((x >= low) & (x < high) for x in (grade, grade_judged))
        query, place, n = query[hit], place[hit], np.array(self.lengths, np.int64)
        offsets = segments.from_counts(np.bincount(query, minlength=len(n)))
        ones, hits_above = np.ones(len(query), np.int64), np.arange(len(query)) - offsets[query]
        m = np.bincount(judged[relevant], minlength=len(n))
        return hit_curve.of_arrays(ones, ones.copy(), hits_above, place, None, offsets, n, m, untied=True)

    def with_grades(self, curve: HitCurve) -> HitCurve:
        """As of :class:`torch_ap.files.judged.Documents`."""
        grade, (query, judged) = self._found[2], self.qrels.columns
        query, gained = query[judged > 0], judged[judged > 0]
        gained = gained[np.lexsort((-gained, query))]
        return hit_curve.with_grades(curve, grade[grade > 0].astype(np.float64), gained.astype(np.float64))

    @cached_property
    def _found(self) -> tuple[Array, Array, Array]:
        """(F,) int64 query, place and grade of what was judged and retrieved, by query and place."""
        query = np.arange(len(self.lengths)).repeat(self.found)
        place, grade = np.asarray(self.places, np.int64), np.asarray(self.grades, np.int64)
        order = np.lexsort((place, query))
        return query, place[order], grade[order]


def documents_of(qrels: NestedQrels, run: Nested, convention: str, complete: bool) -> NestedDocuments | None:
    """The documents of a run that :func:`is_run` finds to be one; None where tables are needed after all: where a rule
    for ties without an order meets scores that tie, and for whole numbers that float64 may not hold.

    Args:
        qrels: judgements.
        run: what was retrieved.
        convention: how tied scores are ordered; see :func:`torch_ap.files.judged.judge`.
        complete: whether judged queries that the run lacks count.
    """
    qrels = qrels if complete else qrels.of_queries_in(run)
    rows = [(judged, run.get(query) or {}) for query, judged in qrels.given.items()]
    if convention == "trec9":
        rows = [(judged, _in_single_precision(listed)) for judged, listed in rows]
    lengths = [len(listed) for _, listed in rows]
    short = len(rows) > _FEW_QUERIES and sum(lengths) <= _FEW * len(rows)
    if short and (documents := _of_short(qrels, rows, lengths)) is not None:
        return documents
    names = [[name for name in judged if name in listed] for judged, listed in rows]
    places, by_name = list[int](), convention in TREC_CONVENTIONS
    for (_, listed), found_names in zip(rows, names, strict=True):
        if (above := _places(listed, found_names, by_name)) is None:
            return None
        places += above
    grades = [judged[name] for (judged, _), found_names in zip(rows, names, strict=True) for name in found_names]
    return NestedDocuments(qrels, lengths, places, grades, list(map(len, names)))


def _of_short(
    qrels: NestedQrels, rows: Sequence[tuple[Nested, Nested]], lengths: Sequence[int]
) -> NestedDocuments | None:
    """The documents of many short rankings, by arrays; None where some are tied, or whole numbers are large."""
    query, grades = qrels.columns
    listed = [documents for _, documents in rows]
    scores = np.fromiter(chain.from_iterable([documents.values() for documents in listed]), np.float64, sum(lengths))
    if np.abs(scores).max(initial=0) >= _LARGEST_WHOLE:
        return None
    judged = chain.from_iterable([map(documents.get, names, _ABSENT) for names, documents in rows])
    wanted = np.fromiter(judged, np.float64, len(query))
    there = (wanted == wanted).nonzero()[0]
    found = np.bincount(query[there], minlength=len(rows))
    above, end = many_rankings.standing(scores, np.array(lengths), wanted[there], found)
    if np.count_nonzero(end - above > 1):
        return None
    return NestedDocuments(qrels, lengths, above, grades[there], found)


def _in_single_precision(listed: Mapping[str, Any]) -> dict[str, float]:
    with np.errstate(over="ignore"):
        scores = np.fromiter(listed.values(), np.float64, len(listed)).astype(np.float32)
    return dict(zip(listed, scores.tolist(), strict=True))


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
