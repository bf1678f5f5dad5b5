"""A run and its judgements as a hit curve with one ranking per query, by trec_eval's rules or by ours."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from torch_ap.files.trec import Qrels, Run
from torch_ap.files.trec_names import CONVENTIONS
from torch_ap.ranking import builders, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array
from torch_ap.rules import checks

_TABLE_BITS = 20


@dataclass(frozen=True, eq=False)
class Judged:
    """The queries of a run that were judged.

    Attributes:
        queries: S names, in the order of the judgements.
        curve: S rankings; m counts the relevant documents of the judgements, retrieved or not.
        convention: the rule by which ties were resolved.
    """

    queries: list[str]
    curve: HitCurve
    convention: str

    @property
    def ties(self) -> str:
        """The rule for ties under which measures of ``curve`` follow the convention; trec_eval's leave no ties."""
        return "grouped" if self.convention.startswith("trec") else self.convention


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
    scores = run.scores.float() if convention == "trec9" else run.scores
    numbers = {name: number for number, name in enumerate(qrels.queries)}
    number = torch.tensor([numbers.get(name, -1) for name in run.queries], dtype=torch.int64)[run.query]
    relevant = torch.zeros(len(scores), dtype=torch.bool)
    graded = qrels.relevance >= relevance_level
    relevant[_found(qrels, graded.numpy(), run, number.numpy())] = True
    known = number >= 0
    if not bool(known.all()):
        scores, relevant, number = scores[known], relevant[known], number[known]
    curve = builders.from_scores(scores, relevant, segment=number, segments_count=len(qrels.queries))
    if convention.startswith("trec"):
        documents = run.documents if len(run.documents) == len(scores) else run.documents[known.numpy()]
        curve = _by_document(curve, scores, relevant, number, documents)
    curve = replace(curve, m=segments.count(qrels.query[graded], len(qrels.queries)))
    return _only(qrels.queries, curve, convention, torch.ones_like(curve.m) > 0 if complete else curve.n > 0)


def why_none(qrels: Qrels, run: Run) -> str:
    """Why no query of a run was judged: what is wrong with which file."""
    for table in (qrels, run):
        if not table.queries:
            also = "" if table is qrels else " (--allow-empty lets it pass)"
            return f"{table.path}: the file holds nothing but blank lines and comments{also}"
    return f"{run.path}: no query of the run has judgements in {qrels.path}"


def _found(qrels: Qrels, graded: Array, run: Run, number: Array) -> Array:
    """The places of the relevant documents in the run, found by equal keys and then by equal names.

    A table of the keys' leading bits excludes most of a long run before the search.
    """
    places = np.flatnonzero(graded)
    places = places[np.argsort(qrels.key[places])]
    keys = qrels.key[places]
    if (keys[1:] == keys[:-1]).any():
        raise ValueError(f"{qrels.path}: two judged documents have the same 64-bit hash; rename one of them")
    if not len(keys):
        return places
    candidates = np.arange(len(run.key))
    if len(run.key) >> _TABLE_BITS - 3:
        shift = np.uint64(64 - _TABLE_BITS)
        table = np.zeros(1 << _TABLE_BITS, bool)
        table[keys >> shift] = True
        candidates = np.flatnonzero(table[run.key >> shift])
    at = np.minimum(np.searchsorted(keys, run.key[candidates]), len(keys) - 1)
    same = keys[at] == run.key[candidates]
    candidates, at = candidates[same], places[at[same]]
    same = (qrels.documents[at] == run.documents[candidates]) & (qrels.query.numpy()[at] == number[candidates])
    found: Array = candidates[same]
    return found


def _by_document(curve: HitCurve, scores: Tensor, relevant: Tensor, number: Tensor, documents: Array) -> HitCurve:
    """The curve with every hit at a rank of its own: tied documents come in descending order of their ids.

    Only the documents of tie groups that hold a hit are looked at and sorted.
    """
    tied = (curve.items > 1).nonzero().squeeze(1)
    if not len(tied):
        return curve
    assert curve.score is not None
    group, member = _members(curve, tied, scores, number)
    descending = np.lexsort((documents[member], -group))[::-1].copy()
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


def _only(names: list[str], curve: HitCurve, convention: str, kept: Tensor) -> Judged:
    """The rankings that are kept; the others have no entry."""
    if bool(kept.all()):
        return Judged(list(names), curve, convention)
    chosen = kept.nonzero().squeeze(1)
    curve = replace(
        curve, offsets=torch.cat([curve.offsets[:1], curve.offsets[1:][chosen]]), n=curve.n[chosen], m=curve.m[chosen]
    )
    return Judged([names[place] for place in chosen.tolist()], curve, convention)
