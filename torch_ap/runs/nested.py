"""Judgements and runs as nested dicts of text: documents are looked up where they are, and no table is made of them.

Only the judged documents of a run are looked at one by one. Of the others the scores are sorted, a query at a time.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from torch_ap.files.trec_names import TREC_CONVENTIONS
from torch_ap.ranking import few_items, hit_curve, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array

Nested: TypeAlias = Mapping[str, Mapping[str, Any]]

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

    @property
    def judged(self) -> int:
        """How many of them were judged."""
        return len(self.places)

    def curve(self, low: float, high: float = math.inf) -> HitCurve:
        """The rankings of the queries that count, with the documents as hits whose grade lies in [low, high)."""
        if self._few:
            hits = sorted(x for x, grade in zip(self.places, self.grades, strict=True) if low <= grade < high)
            return few_items.of_places(hits, self.lengths[0], sum(low <= x < high for x in self.judgements[0]))
        query, place, grade, query_judged, grade_judged = self._columns
        hit, relevant = ((x >= low) & (x < high) for x in (grade, grade_judged))
        n, m = np.array(self.lengths, np.int64), np.bincount(query_judged[relevant], minlength=len(self.lengths))
        offsets = segments.from_counts(np.bincount(query[hit], minlength=len(n)))
        ones = np.ones(offsets[-1], np.int64)
        hits_above = np.arange(offsets[-1]) - offsets[query[hit]]
        return hit_curve.of_arrays(ones, ones.copy(), hits_above, place[hit], None, offsets, n, m)

    def with_grades(self, curve: HitCurve) -> HitCurve:
        """The curve, whose hits have a grade above 0, with all such grades."""
        if self._few:
            by_place = [x for _, x in sorted(zip(self.places, self.grades, strict=True)) if x > 0]
            ideal = sorted((x for x in self.judgements[0] if x > 0), reverse=True)
            return hit_curve.with_grades(curve, np.array(by_place, np.float64), np.array(ideal, np.float64))
        _, _, grade, query, judged = self._columns
        query, gained = query[judged > 0], judged[judged > 0]
        gained = gained[np.lexsort((-gained, query))]
        return hit_curve.with_grades(curve, grade[grade > 0].astype(np.float64), gained.astype(np.float64))

    @property
    def _few(self) -> bool:
        """Whether this is one ranking of few documents: then arrays cost more than they save."""
        return len(self.lengths) == 1 and 0 < self.lengths[0] <= few_items.FEW_ITEMS

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
    out = NestedDocuments([], [], [], [], [], [])
    for query, judged in qrels.items():
        listed = run.get(query) or {}
        if not (listed or complete):
            continue
        if convention == "trec9":
            listed = _in_single_precision(listed)
        found = [name for name in judged if name in listed]
        places = _places(listed, found, convention in TREC_CONVENTIONS)
        if places is None:
            return None
        out.queries.append(query)
        out.lengths.append(len(listed))
        out.places.extend(places)
        out.grades.extend([judged[name] for name in found])
        out.found.append(len(found))
        out.judgements.append(judged.values())
    return out


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
        first, last = ([bisect(ascending, x) for x in scores] for bisect in (bisect_left, bisect_right))
    else:
        ascending = np.fromiter(listed.values(), np.float64, len(listed))
        ascending.sort()
        first, last = (ascending.searchsorted(scores, side).tolist() for side in ("left", "right"))
    if listed and not -_LARGEST_WHOLE < ascending[0] <= ascending[-1] < _LARGEST_WHOLE:
        return None
    above = [len(listed) - x for x in last]
    if sum(last) - sum(first) == len(found):
        return above
    return _among_tied(listed, found, scores, above) if by_name else None


def _among_tied(listed: Mapping[str, Any], found: Sequence[str], scores: list[Any], above: list[int]) -> list[int]:
    """The same, with tied documents in descending order of their names."""
    groups: dict[Any, list[str]] = {score: [] for score in scores}
    for name, score in listed.items():
        if score in groups:
            groups[score].append(name)
    before = {name: place for group in groups.values() for place, name in enumerate(sorted(group, reverse=True))}
    return [place + before[name] for name, place in zip(found, above, strict=True)]
