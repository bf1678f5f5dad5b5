"""Judgements and runs as nested dicts of text, evaluated without conversion to tables.

Only the judged documents of a run are searched individually. The scores of the other documents are sorted, query by
query.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from torch_ap.core.measures.lists import FewHits
from torch_ap.core.ranking import hit_curve, many_rankings, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.retrieval.runs.measure_names import TREC_CONVENTIONS

LARGEST_WHOLE = 1 << 53  # float64 does not represent all larger whole numbers
Nested: TypeAlias = Mapping[str, Mapping[str, Any]]

_FEW_QUERIES = 16  # up to this number, lists are faster than arrays
_FEW = 64  # scores up to this number are sorted faster by Python than by NumPy
_ABSENT = repeat(math.nan)
_DICT = frozenset((dict,))


@dataclass(frozen=True, eq=False)
class NestedQrels:
    """Judgements as nested dicts of text and whole numbers.

    Attributes:
        source: {query: {document: grade}}.
        grades: J grades, query by query.
        lengths: number of judgements of each of the S queries.
    """

    source: Nested
    grades: list[int]
    lengths: list[int]

    @cached_property
    def columns(self) -> tuple[Array, Array]:
        """Number of the query and grade of each judgement, (J,) int64 each."""
        return np.arange(len(self.lengths)).repeat(self.lengths), np.array(self.grades, np.int64)

    @property
    def has_few_queries(self) -> bool:
        """Whether lists are faster than arrays."""
        return len(self.lengths) <= _FEW_QUERIES

    def restrict_to(self, run: Nested) -> "NestedQrels":
        """Return the judgements of the queries with documents in a run."""
        kept = {query: judged for query, judged in self.source.items() if run.get(query)}
        return self if len(kept) == len(self.source) else _qrels(kept)


def qrels_of_dicts(source: Any) -> NestedQrels | None:
    """Return judgements that are {query: {document: grade}} of text and whole numbers, not empty; None for others."""
    if not _is_nested(source):
        return None
    qrels = _qrels(source)
    return qrels if set(map(type, qrels.grades)) == {int} and _are_small(qrels.grades) else None


def _qrels(source: Nested) -> NestedQrels:
    return NestedQrels(source, list(_values(source)), list(map(len, source.values())))


def is_run(source: Any) -> bool:
    """Return whether this is {query: {document: score}} of text and finite numbers, not empty."""
    if not _is_nested(source):
        return False
    try:
        total = sum(_values(source))
    except (TypeError, OverflowError):  # whole numbers beyond float64
        return False
    if type(total) is float:  # so no score is of NumPy; whole numbers are validated by _count_above
        return math.isfinite(total)
    if type(total) is int:
        return _are_small(list(_values(source)))
    return set(map(type, _values(source))) == {np.float64} and math.isfinite(total)


def _is_nested(source: Any) -> bool:
    """Return whether this is {text: {text: value}}, not empty."""
    if not isinstance(source, dict) or not _DICT.issuperset(map(type, source.values())):
        return False
    try:  # join raises for names that are not text
        return bool("".join(source)) and bool("".join(chain.from_iterable(source.values())))
    except TypeError:
        return False


def _values(source: Nested) -> Iterable[Any]:
    return chain.from_iterable([listed.values() for listed in source.values()])


def _are_small(values: Sequence[int]) -> bool:
    """Return whether float64 represents all values and the numbers next to them."""
    return max(values) < LARGEST_WHOLE and min(values) > -LARGEST_WHOLE


class DocumentCounts(NamedTuple):
    """Numbers of documents of the queries with documents.

    Attributes:
        documents: number of retrieved documents.
        judged: number of these documents that were judged.
        has_relevant: whether a judged document is relevant; as a sum, the number of parts of a run.
        has_hits: whether a retrieved document is relevant; as a sum, the number of parts of a run.
    """

    documents: int
    judged: int
    has_relevant: int
    has_hits: int

    @property
    def is_blind(self) -> bool:
        """Whether no retrieved document is relevant, although the judgements contain relevant documents."""
        return bool(self.has_relevant and not self.has_hits)


@dataclass(frozen=True, eq=False)
class NestedDocuments:
    """The documents of a run for the queries that count, and their judgements.

    Attributes:
        qrels: the judgements of the S queries.
        lengths: number of documents of each of the S queries.
        hits: for each query, the number of documents above each document that was judged and retrieved, and its grade,
            ascending; or the same as arrays, see :attr:`columns`.
        tied: by query, the grades of the documents of each tie group that is ordered by names, 0 without a judgement.
    """

    qrels: NestedQrels
    lengths: Sequence[int]
    hits: list[list[tuple[int, int]]] | tuple[Array, Array, Array]
    tied: Mapping[str, Sequence[Sequence[int]]]

    def counts(self, level: int) -> DocumentCounts:
        """Return the numbers of documents; documents with at least this grade are relevant."""
        if isinstance(self.hits, list):
            grades: Any = [grade for row in self.hits for _, grade in row]
            highest = max(grades, default=-1)
        else:
            grades = self.hits[2]
            highest = grades.max(initial=-1)
        has_relevant = has_hits = bool(highest >= level)
        if not has_relevant:
            query, grade = self.qrels.columns
            has_relevant = bool(np.array(self.lengths)[query[grade >= level]].any())
        return DocumentCounts(sum(self.lengths), len(grades), has_relevant, has_hits)

    def queries_by_name(self, level: int) -> list[Any]:
        """Return the queries where the order of names decides a tie of relevant and other documents."""
        return [
            query for query, groups in self.tied.items() if any(min(group) < level <= max(group) for group in groups)
        ]

    def short_rankings(self, level: int) -> list[FewHits] | None:
        """Return small rankings, whose hits are the documents with at least this grade; None for large rankings."""
        if isinstance(self.hits, tuple) or not self.qrels.has_few_queries:
            return None
        rankings = []
        for n, hits, judged in zip(self.lengths, self.hits, self.qrels.source.values(), strict=True):
            places, grades = [], []
            for place, grade in hits:
                if grade >= level:
                    places.append(place)
                    grades.append(grade)
            ideal = [grade for grade in judged.values() if grade >= level]
            ideal.sort(reverse=True)
            rankings.append(FewHits(places, n, len(ideal), grades, ideal))
        return rankings

    def curve(self, low: float, high: float = math.inf) -> HitCurve:
        """Return the rankings, whose hits are the documents with a grade in [low, high)."""
        query, place, grade = self.columns
        judged, grade_judged = self.qrels.columns
        hit, relevant = ((x >= low) & (x < high) for x in (grade, grade_judged))
        query, place, n = query[hit], place[hit], np.array(self.lengths, np.int64)
        offsets = segments.from_counts(np.bincount(query, minlength=len(n)))
        ones, hits_above = np.ones(len(query), np.int64), np.arange(len(query)) - offsets[query]
        m = np.bincount(judged[relevant], minlength=len(n))
        return hit_curve.from_arrays(ones, ones.copy(), hits_above, place, None, offsets, n, m, untied=True)

    def with_grades(self, curve: HitCurve) -> HitCurve:
        """Return the curve with all grades above 0; its hits are the documents with such a grade."""
        grade, (query, judged) = self.columns[2], self.qrels.columns
        query, gained = query[judged > 0], judged[judged > 0]
        gained = gained[np.lexsort((-gained, query))]
        return hit_curve.attach_grades(curve, grade[grade > 0].astype(np.float64), gained.astype(np.float64))

    @cached_property
    def columns(self) -> tuple[Array, Array, Array]:
        """Query, place and grade of the judged and retrieved documents, (F,) int64 each, by query and place."""
        if isinstance(self.hits, tuple):
            return self.hits
        places_and_grades = np.array(list(chain.from_iterable(self.hits)), np.int64).reshape(-1, 2)
        return np.arange(len(self.hits)).repeat(list(map(len, self.hits))), *places_and_grades.T


def documents_of(
    qrels: NestedQrels, run: Nested, convention: str, complete: bool, judged_only: bool = False
) -> NestedDocuments | None:
    """Return the documents of a run that passes :func:`is_run`.

    Args:
        qrels: judgements.
        run: the retrieved documents.
        convention: how tied scores are ordered; see :func:`torch_ap.retrieval.runs.judged.judge`.
        complete: whether judged queries without documents count.
        judged_only: whether documents without a judgement, or with a negative grade, are left out.

    Returns:
        None if tables are necessary: for tied scores under a tie rule without an order, and for whole numbers that
        float64 may not represent.
    """
    qrels = qrels if complete else qrels.restrict_to(run)
    rows = [(judged, run.get(query) or {}) for query, judged in qrels.source.items()]
    if judged_only:
        rows = [
            (judged, {x: listed[x] for x, grade in judged.items() if grade >= 0 and x in listed})
            for judged, listed in rows
        ]
    if convention == "trec9":
        rows = [(judged, _round_to_single(listed)) for judged, listed in rows]
    lengths = [len(listed) for _, listed in rows]
    short = len(rows) > _FEW_QUERIES and sum(lengths) <= _FEW * len(rows)
    if short and (documents := _short_documents(qrels, rows, lengths)) is not None:
        return documents
    hits, tied = [], dict[str, list[list[int]]]()
    for query, (judged, listed) in zip(qrels.source, rows, strict=True):
        ascending = _sort_scores(listed)
        if listed and not -LARGEST_WHOLE < ascending[0] <= ascending[-1] < LARGEST_WHOLE:
            return None
        n, found, is_tied = len(listed), [], False
        for name, grade in judged.items():
            if name in listed:
                score = listed[name]
                end = bisect_right(ascending, score)
                is_tied |= ascending[end - 2] == score
                found.append((n - end, grade))
        if is_tied:
            if convention not in TREC_CONVENTIONS:
                return None
            groups = _tie_groups(listed, judged)
            tied[query] = [[judged.get(name, 0) for name in group] for group in groups if len(group) > 1]
            found = [
                (n - bisect_right(ascending, listed[group[0]]) + place, judged[name])
                for group in groups
                for place, name in enumerate(sorted(group, reverse=True))
                if name in judged
            ]
        found.sort()
        hits.append(found)
    return NestedDocuments(qrels, lengths, hits, tied)


def _short_documents(
    qrels: NestedQrels, rows: Sequence[tuple[Nested, Nested]], lengths: Sequence[int]
) -> NestedDocuments | None:
    """Return the documents of many short rankings, with arrays; None for tied scores and large whole numbers."""
    query, grades = qrels.columns
    listed = [documents for _, documents in rows]
    scores = np.fromiter(chain.from_iterable([documents.values() for documents in listed]), np.float64, sum(lengths))
    if np.abs(scores).max(initial=0) >= LARGEST_WHOLE:
        return None
    judged = chain.from_iterable([map(documents.get, names, _ABSENT) for names, documents in rows])
    judged_scores = np.fromiter(judged, np.float64, len(query))
    retrieved = (judged_scores == judged_scores).nonzero()[0]
    found = np.bincount(query[retrieved], minlength=len(rows))
    above, end = many_rankings.count_above(scores, np.array(lengths), judged_scores[retrieved], found)
    if np.count_nonzero(end - above > 1):
        return None
    order = np.lexsort((above, query[retrieved]))
    return NestedDocuments(qrels, lengths, (query[retrieved], above[order], grades[retrieved][order]), {})


def _round_to_single(listed: Mapping[str, Any]) -> dict[str, float]:
    with np.errstate(over="ignore"):
        scores = np.fromiter(listed.values(), np.float64, len(listed)).astype(np.float32)
    return dict(zip(listed, scores.tolist(), strict=True))


def _sort_scores(listed: Mapping[str, Any]) -> list[Any]:
    """Return the scores in ascending order."""
    if len(listed) <= _FEW:
        return sorted(listed.values())
    scores = np.fromiter(listed.values(), np.float64, len(listed))
    scores.sort()
    ascending: list[float] = scores.tolist()
    return ascending


def _tie_groups(listed: Mapping[str, Any], judged: Iterable[str]) -> list[list[str]]:
    """Return the names of the documents that share the score of a judged document, a list per score."""
    groups: dict[Any, list[str]] = {listed[name]: [] for name in judged if name in listed}
    for name, score in listed.items():
        if score in groups:
            groups[score].append(name)
    return list(groups.values())
