"""A run and its judgements as a hit curve with one ranking per query, by trec_eval's rules or by ours."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve.few_hits import FewHits
from torch_ap.files.trec_names import CONVENTIONS
from torch_ap.files.trec_tables import Qrels, Run, as_text
from torch_ap.ranking import builders, segments
from torch_ap.ranking.graded import Relevant, with_grades
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array
from torch_ap.rules import checks

_SPARSE_BITS, _LEAST_BITS, _MOST_BITS = 4, 8, 24


class Documents(Protocol):
    """The documents of a run that were retrieved for judged queries, and all judgements."""

    def counts(self, level: int) -> tuple[int, int, bool, bool]:
        """Of queries with documents: how many these are, and were judged; if one has this grade, also among these."""
        ...

    def few(self, level: int) -> list[FewHits] | None:
        """The rankings with the documents as hits that have at least this grade, where they are few; else None."""
        ...

    def curve(self, low: float, high: float = math.inf) -> HitCurve:
        """The rankings of the queries that count, with the documents as hits whose grade lies in [low, high)."""
        ...

    def with_grades(self, curve: HitCurve) -> HitCurve:
        """The curve, whose hits have a grade above 0, with all such grades."""
        ...


@dataclass(frozen=True, eq=False)
class Listed:
    """:class:`Documents` of tables.

    Attributes:
        qrels: the judgements.
        run: what was retrieved.
        lines: (N,) int64, where the run has them.
        scores: (N,) by which they are ranked.
        number: (N,) int64, the place of their query in ``qrels.queries``.
        by_document: whether tied documents come in descending order of their ids, as in trec_eval.
        chosen: (S,) int64, the places in ``qrels.queries`` of the queries that count.
    """

    qrels: Qrels
    run: Run
    lines: Array
    scores: Tensor
    number: Tensor
    by_document: bool
    chosen: Tensor

    @property
    def documents(self) -> Array:
        """(N,) ids."""
        return self.run.documents[self.lines]

    def curve(self, low: float, high: float = math.inf) -> HitCurve:
        """The rankings of the queries that count, with the documents as hits whose grade lies in [low, high)."""
        judged = (self.qrels.relevance >= low) & (self.qrels.relevance < high)
        relevant = torch.zeros(len(self.run.key), dtype=torch.bool)
        relevant[self.found(judged)[0]] = True
        relevant = relevant[self.lines]
        queries = len(self.qrels.queries)
        curve = builders.from_scores(self.scores, relevant, segment=self.number, segments_count=queries)
        if self.by_document:
            curve = _by_document(curve, self.scores, relevant, self.number, self.documents)
        return _only(replace(curve, m=segments.count(self.qrels.query[judged], queries)), self.chosen)

    def counts(self, level: int) -> tuple[int, int, bool, bool]:
        """As of :class:`Documents`."""
        relevant, judged = self.qrels.relevance >= level, self.both[1]
        there = torch.zeros(len(self.qrels.queries), dtype=torch.bool)
        there[self.number] = True
        some = bool((relevant & there[self.qrels.query]).any())
        return len(self.lines), len(judged), some, bool(relevant.numpy()[judged].any())

    def few(self, level: int) -> None:
        """As of :class:`Documents`; of tables none are."""

    def found(self, judged: Tensor) -> tuple[Array, Array]:
        """Where run and judgements have the flagged documents that were retrieved: the lines of both."""
        lines, places = self.both
        kept = judged.numpy()[places]
        return lines[kept], places[kept]

    @cached_property
    def both(self) -> tuple[Array, Array]:
        """Where run and judgements have the documents that were retrieved and judged: the lines of both."""
        number = np.full(len(self.run.key), -1)
        number[self.lines] = self.number.numpy()
        return _found(self.qrels, self.run, number)

    def with_grades(self, curve: HitCurve) -> HitCurve:
        """The curve, whose hits have a grade above 0, with all such grades."""
        return with_grades(curve, self.gained)

    @cached_property
    def gained(self) -> Relevant:
        """The documents with a grade above 0, retrieved or not; scores are higher for a higher rank."""
        judged = self.qrels.relevance > 0
        lines, places = self.found(judged)
        line_of = np.full(len(judged), -1)
        line_of[places] = lines
        renumbered = torch.full((len(self.qrels.queries),), -1)
        renumbered[self.chosen] = torch.arange(len(self.chosen))
        segment = renumbered[self.qrels.query]
        kept = (judged & (segment >= 0)).numpy()
        line = line_of[kept]
        ranked = line >= 0
        keys = [np.zeros(len(line)), -segment.numpy()[kept]]
        keys[0][ranked] = self.run.scores.numpy()[line[ranked]]
        if self.by_document:
            names = np.zeros(len(line), np.int64)
            names[ranked] = np.unique(as_text(self.run.documents[line[ranked]]), return_inverse=True)[1]
            keys.insert(0, names)
        place = np.empty(len(line), np.int64)
        place[np.lexsort(keys)] = np.arange(len(line))
        grades = segments.as_float64(self.qrels.relevance[kept])
        return Relevant(segment[kept], grades, torch.from_numpy(place), torch.from_numpy(ranked))


@dataclass(frozen=True, eq=False)
class Judged:
    """The queries of a run that were judged.

    Attributes:
        queries: S names, in the order of the judgements.
        convention: the rule by which ties were resolved.
        relevance_level: the lowest relevant grade.
        documents: what the curves are made of.
    """

    queries: list[Any]
    convention: str
    relevance_level: int
    documents: Documents

    @cached_property
    def curve(self) -> HitCurve:
        """S rankings; m counts the relevant documents of the judgements, retrieved or not."""
        return self.documents.curve(self.relevance_level)

    @cached_property
    def few(self) -> list[FewHits] | None:
        """The same without arrays, where they are few."""
        return self.documents.few(self.relevance_level)

    @cached_property
    def few_graded(self) -> list[FewHits] | None:
        """Those of ``graded`` without arrays, where they are few."""
        return self.few if self.relevance_level == 1 else self.documents.few(1)

    @cached_property
    def graded(self) -> HitCurve:
        """The same rankings with grades; relevant is every document with a grade above 0, whatever the level."""
        return self.documents.with_grades(self.curve if self.relevance_level == 1 else self.documents.curve(1))

    @cached_property
    def nonrelevant(self) -> HitCurve:
        """The same rankings with the documents as hits that were judged to be not relevant."""
        return self.documents.curve(0, self.relevance_level)

    @cached_property
    def unjudged(self) -> HitCurve:
        """The same rankings with the documents as hits that have a negative grade: pooled, and not judged."""
        return self.documents.curve(-math.inf, 0)


def judge(
    qrels: Qrels,
    run: Run,
    *,
    relevance_level: int = 1,
    convention: str = "trec10",
    complete: bool = False,
) -> Judged:
    """The rankings of a run, with the relevance that the judgements give.

    Queries of the run without judgements are left out, and documents without a judgement are not relevant.

    Args:
        qrels: judgements.
        run: what was retrieved.
        relevance_level: a document is relevant where its grade is at least this; at least 1.
        convention: how tied scores are ordered. "trec9" and "trec10" as in these versions of trec_eval: scores are
            float32 (9) or float64 (10), and tied documents come in descending order of their ids. Or one of "expected",
            "grouped", "optimistic", "pessimistic".
        complete: whether judged queries that the run lacks count too, with an empty ranking, as with ``trec_eval -c``.

    Returns:
        The queries and their curve.

    Raises:
        ValueError: for an argument that breaks one of these rules.
    """
    checks.positive_int("relevance_level", relevance_level)
    checks.one_of("convention", convention, CONVENTIONS)
    _ = qrels.by_key  # which raises where two documents have one
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
    names = [qrels.queries[place] for place in chosen.tolist()]
    return Judged(names, convention, relevance_level, documents)


def _found(qrels: Qrels, run: Run, number: Array) -> tuple[Array, Array]:
    """Where run and judgements have the same documents: the lines of both, found by equal keys and then equal names.

    A table of the keys' leading bits excludes most of a run before the search.
    """
    places, keys = qrels.by_key
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


def _by_document(curve: HitCurve, scores: Tensor, relevant: Tensor, number: Tensor, documents: Array) -> HitCurve:
    """The curve with every hit at a rank of its own: tied documents come in descending order of their ids.

    Only the documents of tie groups that hold a hit are looked at and sorted.
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
    source, inside, hits_inside = source[sequence], inside[sequence], hits_inside[sequence]
    ones = torch.ones_like(source)
    return replace(
        curve,
        hits=ones,
        items=ones,
        hits_above=curve.hits_above[source] + hits_inside,
        items_above=curve.items_above[source] + inside,
        score=curve.score[source],
        offsets=segments.from_counts(segments.count(curve.segment[source], len(curve.n))),
    )


def _members(curve: HitCurve, tied: Tensor, scores: Tensor, number: Tensor) -> tuple[Array, Array]:
    """The documents of the tie groups: the place of the group in ``tied``, and the line of the run."""
    assert curve.score is not None
    levels = torch.unique(curve.score[tied])
    level = torch.searchsorted(levels, scores).clamp(max=len(levels) - 1)
    candidate = (levels[level] == scores).nonzero().squeeze(1)
    wide = len(levels)
    keys = curve.segment[tied] * wide + torch.searchsorted(levels, curve.score[tied])
    ascending, place = keys.sort()
    wanted = number[candidate] * wide + level[candidate]
    at = torch.searchsorted(ascending, wanted).clamp(max=len(ascending) - 1)
    inside = ascending[at] == wanted
    return place[at[inside]].numpy(), candidate[inside].numpy()


def _only(curve: HitCurve, chosen: Tensor) -> HitCurve:
    """The chosen rankings, (S,) ascending; the others have no entry."""
    if len(chosen) == len(curve.n):
        return curve
    offsets = torch.cat([curve.offsets[:1], curve.offsets[1:][chosen]])
    return replace(curve, offsets=offsets, n=curve.n[chosen], m=curve.m[chosen])
