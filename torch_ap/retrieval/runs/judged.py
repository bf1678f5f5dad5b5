"""A run and its judgements as a hit curve with one ranking per query, by the rules of trec_eval or of this package."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.measures.lists import FewHits
from torch_ap.core.ranking import builders, segments
from torch_ap.core.ranking.graded import Relevant, attach_grades
from torch_ap.core.ranking.hit_curve import HitCurve, separate_hits
from torch_ap.core.ranking.order import Array
from torch_ap.retrieval.runs import nested
from torch_ap.retrieval.runs.measure_names import CONVENTIONS
from torch_ap.retrieval.runs.nested import DocumentCounts, NestedDocuments, NestedQrels
from torch_ap.retrieval.runs.tables import qrels_of
from torch_ap.retrieval.runs.trec import Qrels, Run, as_text

_SPARSE_BITS, _LEAST_BITS, _MOST_BITS = 4, 8, 24


@dataclass(frozen=True, eq=False)
class Listed:
    """The retrieved documents of judged queries, and all judgements, as tables.

    Attributes:
        qrels: the judgements.
        run: the retrieved documents.
        lines: (N,) int64, the lines of the run with documents of judged queries.
        scores: (N,) scores of these documents.
        number: (N,) int64, the index of their query in ``qrels.queries``.
        by_document: whether tied documents are in descending order of their ids, as in trec_eval.
        chosen: (S,) int64, the indices of the evaluated queries in ``qrels.queries``.
        by_name: queries where names decide ties, by the lowest relevant grade; set by :meth:`curve`.
    """

    qrels: Qrels
    run: Run
    lines: Array
    scores: Tensor
    number: Tensor
    by_document: bool
    chosen: Tensor
    by_name: dict[float, list[Any]] = field(default_factory=dict)

    @property
    def documents(self) -> Array:
        """(N,) ids of the documents."""
        return self.run.documents[self.lines]

    def curve(self, low: float, high: float = math.inf) -> HitCurve:
        """Return the rankings of the evaluated queries, whose hits are the documents with a grade in [low, high)."""
        judged = (self.qrels.relevance >= low) & (self.qrels.relevance < high)
        relevant = torch.zeros(len(self.run.key), dtype=torch.bool)
        relevant[self.retrieved_lines(judged)[0]] = True
        relevant = relevant[self.lines]
        queries = len(self.qrels.queries)
        curve = builders.from_scores(self.scores, relevant, segment=self.number, segments_count=queries)
        if self.by_document:
            mixed = curve.segment[(curve.items > 1) & (curve.hits < curve.items)]
            self.by_name[low] = torch.unique(mixed).tolist()
            curve = _split_ties(curve, self.scores, relevant, self.number, self.documents)
        return _select_rankings(replace(curve, m=segments.count(self.qrels.query[judged], queries)), self.chosen)

    def counts(self, level: int) -> DocumentCounts:
        """Return the numbers of documents; documents with at least this grade are relevant."""
        relevant, judged = self.qrels.relevance >= level, self.common_lines[1]
        retrieved = torch.zeros(len(self.qrels.queries), dtype=torch.bool)
        retrieved[self.number] = True
        has_relevant = bool((relevant & retrieved[self.qrels.query]).any())
        has_hits = bool(relevant.numpy()[judged].any())
        return DocumentCounts(len(self.lines), len(judged), has_relevant, has_hits)

    def queries_by_name(self, level: int) -> list[Any]:
        """Return the queries where the order of names decides a tie of relevant and other documents."""
        if self.by_document and level not in self.by_name:  # no measure uses the curve
            self.curve(level)
        return self.by_name.get(level, [])

    def short_rankings(self, level: int) -> None:
        """Return None: only :meth:`NestedDocuments.short_rankings` has small rankings without arrays."""

    def retrieved_lines(self, flags: Tensor) -> tuple[Array, Array]:
        """Return the lines of the flagged documents that were retrieved, in the run and in the judgements."""
        lines, places = self.common_lines
        flagged = flags.numpy()[places]
        return lines[flagged], places[flagged]

    @cached_property
    def common_lines(self) -> tuple[Array, Array]:
        """The lines of the documents that were retrieved and judged, in the run and in the judgements."""
        number = np.full(len(self.run.key), -1)
        number[self.lines] = self.number.numpy()
        return _match_documents(self.qrels, self.run, number)

    def with_grades(self, curve: HitCurve) -> HitCurve:
        """Return the curve with all grades above 0; its hits are the documents with such a grade."""
        return attach_grades(curve, self.gained)

    @cached_property
    def gained(self) -> Relevant:
        """The documents with a grade above 0, retrieved or not; scores are higher for a higher rank."""
        judged = self.qrels.relevance > 0
        lines, places = self.retrieved_lines(judged)
        line_of = np.full(len(judged), -1)
        line_of[places] = lines
        renumbered = torch.full((len(self.qrels.queries),), -1)
        renumbered[self.chosen] = torch.arange(len(self.chosen))
        segment = renumbered[self.qrels.query]
        used = (judged & (segment >= 0)).numpy()
        line = line_of[used]
        ranked = line >= 0
        keys = [np.zeros(len(line)), -segment.numpy()[used]]
        keys[0][ranked] = self.run.scores.numpy()[line[ranked]]
        if self.by_document:
            names = np.zeros(len(line), np.int64)
            names[ranked] = np.unique(as_text(self.run.documents[line[ranked]]), return_inverse=True)[1]
            keys.insert(0, names)
        place = np.empty(len(line), np.int64)
        place[np.lexsort(keys)] = np.arange(len(line))
        grades = segments.as_float64(self.qrels.relevance[used])
        return Relevant(segment[used], grades, torch.from_numpy(place), torch.from_numpy(ranked))


@dataclass(frozen=True, eq=False)
class Judged:
    """The judged queries of a run.

    Attributes:
        queries: S names, in the order of the judgements.
        convention: the rule for ties.
        relevance_level: the lowest relevant grade.
        documents: the documents of the curves.
    """

    queries: list[Any]
    convention: str
    relevance_level: int
    documents: Listed | NestedDocuments

    @cached_property
    def curve(self) -> HitCurve:
        """S rankings; m counts the relevant documents of the judgements, retrieved or not."""
        return self.documents.curve(self.relevance_level)

    @cached_property
    def short_rankings(self) -> list[FewHits] | None:
        """The rankings of :attr:`curve` without arrays, if they are small."""
        return self.documents.short_rankings(self.relevance_level)

    @cached_property
    def short_graded_rankings(self) -> list[FewHits] | None:
        """The rankings of :attr:`graded` without arrays, if they are small."""
        return self.short_rankings if self.relevance_level == 1 else self.documents.short_rankings(1)

    @cached_property
    def graded(self) -> HitCurve:
        """The rankings with grades. Every document with a grade above 0 is relevant, for any level."""
        return self.documents.with_grades(self.curve if self.relevance_level == 1 else self.documents.curve(1))

    @cached_property
    def nonrelevant(self) -> HitCurve:
        """The rankings whose hits are the documents judged as not relevant."""
        return self.documents.curve(0, self.relevance_level)

    @cached_property
    def judged(self) -> HitCurve:
        """The rankings whose hits are the documents with a judgement."""
        return self.documents.curve(-math.inf)

    @cached_property
    def unjudged(self) -> HitCurve:
        """The rankings whose hits are the documents with a negative grade: pooled, and not judged."""
        return self.documents.curve(-math.inf, 0)


def judge(
    qrels: Qrels,
    run: Run,
    *,
    relevance_level: int = 1,
    convention: str = "trec10",
    complete: bool = False,
    judged_only: bool = False,
) -> Judged:
    """Return the rankings of a run, with the relevance of the judgements.

    Queries of the run without judgements are left out, and documents without a judgement are not relevant.

    Args:
        qrels: judgements.
        run: the retrieved documents.
        relevance_level: the lowest grade of a relevant document; at least 1.
        convention: the rule for tied scores. "trec9" and "trec10" are the rules of these versions of trec_eval: scores
            are float32 (9) or float64 (10), and tied documents are in descending order of their ids. Or one of
            "expected", "grouped", "optimistic", "pessimistic".
        complete: whether to add an empty ranking for judged queries that the run lacks, as ``trec_eval -c`` does.
        judged_only: whether to leave documents without a judgement, or with a negative grade, out of the rankings, as
            ``trec_eval -J`` does (condensed lists, Sakai 2007).

    Returns:
        The queries and their curve.

    Raises:
        ValueError: for an invalid argument.
    """
    checks.positive_int("relevance_level", relevance_level)
    checks.one_of("convention", convention, CONVENTIONS)
    _ = qrels.sorted_keys  # which raises for two documents with one key
    scores = run.scores.float() if convention == "trec9" else run.scores
    numbers = {name: number for number, name in enumerate(qrels.queries)}
    number = torch.tensor([numbers.get(name, -1) for name in run.queries], dtype=torch.int64)[run.query]
    lines = (number >= 0).nonzero().squeeze(1)
    number = number[lines]
    ranked = segments.count(number, len(qrels.queries)) > 0
    chosen = (torch.ones_like(ranked) if complete else ranked).nonzero().squeeze(1)
    documents = Listed(
        qrels, replace(run, scores=scores), lines.numpy(), scores[lines], number, convention.startswith("trec"), chosen
    )
    if judged_only:
        judged_lines = documents.retrieved_lines(qrels.relevance >= 0)[0]
        kept = torch.from_numpy(np.isin(documents.lines, judged_lines))
        documents = replace(
            documents, lines=documents.lines[kept.numpy()], scores=documents.scores[kept], number=number[kept]
        )
    names = [qrels.queries[place] for place in chosen.tolist()]
    return Judged(names, convention, relevance_level, documents)


def _match_documents(qrels: Qrels, run: Run, number: Array) -> tuple[Array, Array]:
    """Return the lines of equal documents in the run and in the judgements, by equal keys and then equal names.

    A table of the keys' leading bits excludes most of a run before the search.
    """
    places, keys = qrels.sorted_keys
    if not len(keys):
        return places, places
    shift = np.uint64(64 - min(max(len(keys).bit_length() + _SPARSE_BITS, _LEAST_BITS), _MOST_BITS))
    table = np.zeros(1 << 64 - int(shift), bool)
    table[keys >> shift] = True
    candidates = np.flatnonzero(table[run.key >> shift])
    at = np.minimum(np.searchsorted(keys, run.key[candidates]), len(keys) - 1)
    same = keys[at] == run.key[candidates]
    candidates, at = candidates[same], places[at[same]]
    same = (qrels.documents[at] == run.documents[candidates]) & (qrels.query.numpy()[at] == number[candidates])
    return candidates[same], at[same]


def _split_ties(curve: HitCurve, scores: Tensor, relevant: Tensor, number: Tensor, documents: Array) -> HitCurve:
    """Return the curve without ties: tied documents are in descending order of their ids.

    Only the documents of tie groups with a hit are sorted.
    """
    tied = (curve.items > 1).nonzero().squeeze(1)
    if not len(tied):
        return curve
    assert curve.score is not None
    group, member = _members(curve, tied, scores, number)
    descending = np.lexsort((as_text(documents[member]), -group))[::-1].copy()
    group, member = group[descending], member[descending]
    starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    rank = np.arange(len(group)) - np.repeat(starts, np.diff(np.append(starts, len(group))))
    hit = relevant.numpy()[member]
    entry, place = tied[torch.from_numpy(group[hit])], torch.from_numpy(rank[hit])
    nth = torch.arange(len(entry)) - torch.searchsorted(entry, entry)
    alone = (curve.items == 1).nonzero().squeeze(1)
    source = torch.cat([alone, entry])
    inside, hits_inside = torch.cat([torch.zeros_like(alone), place]), torch.cat([torch.zeros_like(alone), nth])
    sequence = torch.argsort(source, stable=True)
    return separate_hits(curve, source[sequence], hits_inside[sequence], inside[sequence])


def _members(curve: HitCurve, tied: Tensor, scores: Tensor, number: Tensor) -> tuple[Array, Array]:
    """Return the documents of tie groups: the place of the group in ``tied``, and the line of the run."""
    assert curve.score is not None
    levels = torch.unique(curve.score[tied])
    level = torch.searchsorted(levels, scores).clamp(max=len(levels) - 1)
    candidate = (levels[level] == scores).nonzero().squeeze(1)
    width = len(levels)
    keys = curve.segment[tied] * width + torch.searchsorted(levels, curve.score[tied])
    ascending, place = keys.sort()
    own_key = number[candidate] * width + level[candidate]
    at = torch.searchsorted(ascending, own_key).clamp(max=len(ascending) - 1)
    inside = ascending[at] == own_key
    return place[at[inside]].numpy(), candidate[inside].numpy()


def _select_rankings(curve: HitCurve, chosen: Tensor) -> HitCurve:
    """Return the chosen rankings, (S,) ascending; the other rankings have no entry."""
    if len(chosen) == len(curve.n):
        return curve
    offsets = torch.cat([curve.offsets[:1], curve.offsets[1:][chosen]])
    return replace(curve, offsets=offsets, n=curve.n[chosen], m=curve.m[chosen])


@dataclass(frozen=True, eq=False)
class Judgements:
    """Judgements in their original form; nested dicts are converted to a table on first use only.

    Attributes:
        source: the judgements; see :func:`torch_ap.retrieval.runs.tables.qrels_of`.
        columns: names of the columns of a table; see there.
        nested: the dicts, if they are sufficient for all measures.
        path: name in messages.
        queries: Q names, in the order of their first occurrence.
    """

    source: Any
    columns: Mapping[str, str | None]
    nested: NestedQrels | None
    path: Path | str
    queries: list[Any]

    @cached_property
    def table(self) -> Qrels:
        """The judgements as a table."""
        return qrels_of(self.source, self.columns)

    @property
    def _columns(self) -> tuple[Array, Array]:
        """Number of the query and grade of each judgement, (J,) int64 each."""
        if self.nested is not None:
            return self.nested.columns
        return self.table.query.numpy(), self.table.relevance.numpy()

    def queries_without(self, level: int) -> set[Any]:
        """Return the queries without a document of at least this grade."""
        if self.nested is not None and self.nested.has_few_queries:
            return {query for query, judged in self.nested.source.items() if not judged or max(judged.values()) < level}
        query, grade = self._columns
        lacking = np.ones(len(self.queries), bool)
        lacking[query[grade >= level]] = False
        return {self.queries[place] for place in lacking.nonzero()[0].tolist()}

    def count_negative(self) -> tuple[int, int]:
        """Return the number of negative grades and the number of grades."""
        if self.nested is not None and self.nested.has_few_queries and min(self.nested.grades) >= 0:
            return 0, len(self.nested.grades)
        grade = self._columns[1]
        return int(np.count_nonzero(grade < 0)), len(grade)


def judgements_of(source: Any, columns: Mapping[str, str | None]) -> Judgements:
    """Return judgements in any form that :func:`torch_ap.retrieval.runs.tables.qrels_of` accepts."""
    if (nested_qrels := nested.qrels_of_dicts(source)) is not None:
        return Judgements(source, columns, nested_qrels, "`qrels`", list(source))
    table = qrels_of(source, columns)
    return Judgements(table, columns, None, table.path, table.queries)
