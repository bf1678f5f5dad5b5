"""Measures of a run against judgements, some of its queries at a time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from torch_ap.files import report
from torch_ap.files.columns import Progress
from torch_ap.files.judged import Judged, judge
from torch_ap.files.report import Asked, Result
from torch_ap.files.trec import NotGroupedError, read_run, run_parts
from torch_ap.files.trec_tables import Qrels, Run
from torch_ap.runs import nested
from torch_ap.runs.nested import Nested, NestedQrels


class Rules(NamedTuple):
    """How runs are judged.

    Attributes:
        convention: how tied scores are ordered; see :func:`torch_ap.files.judged.judge`.
        complete: whether judged queries that a run lacks count, as with ``trec_eval -c``.
        denominator: what AP@k divides by.
    """

    convention: str = "trec10"
    complete: bool = False
    denominator: str = "relevant"


@dataclass(frozen=True, eq=False)
class Measured:
    """A run by its measures.

    Attributes:
        results: by name as asked; queries in the order of the judgements.
        tag: the name of the run, from its file, or "".
        missing: judged queries without a document.
        unjudged: how many of its queries have no judgements.
        documents: how many documents it lists for judged queries.
        judged: how many of them were judged.
        blind: whether none of them is relevant, though some document is.
        scores_are_ranks: whether the scores of its first query are 1, 2, 3, ..., or 0, 1, 2, ..., in their order.
    """

    results: dict[str, Result]
    tag: str
    missing: list[Any]
    unjudged: int
    documents: int
    judged: int
    blind: bool
    scores_are_ranks: bool

    def why_none(self, judged: int, qrels: Path | str, path: Path | str) -> str:
        """Why none of as many judged queries has a value: what is wrong with which of the two; "" where nothing is."""
        if not judged:
            return f"{qrels}: holds no judgements"
        if len(self.missing) < judged:
            return ""
        alone = "no query of the run has judgements in"
        return f"{path}: {alone} {qrels}" if self.unjudged else f"{path}: holds no documents"


def measure_file(
    qrels: Qrels, path: str, measures: Sequence[Asked], rules: Rules, progress: Progress | None = None
) -> Measured:
    """A run in a file, in parts; whole, where its queries do not stand together and it can be read again."""
    try:
        return measure(qrels, run_parts(path, progress=progress), measures, rules)
    except NotGroupedError:
        if not Path(path).is_file():
            raise
    return measure_whole(qrels, read_run(path, progress=progress), measures, rules)[0]


def measure(qrels: Qrels, parts: Iterable[Run], measures: Sequence[Asked], rules: Rules) -> Measured:
    """A run in parts of whole queries, at least one part."""
    known, there, unjudged, ranks = set(qrels.queries), set[Any](), 0, list[bool]()
    found, counts = list[dict[str, Result]](), list[tuple[int, int, bool, bool]]()
    for part in parts:
        levels, results = _measured(partial(_judged, qrels, part, rules.convention), measures, rules.denominator)
        first = levels[measures[0].level]
        found.append(results)
        counts.append(first.documents.counts(first.relevance_level))
        there |= set(first.queries)
        unjudged += sum(query not in known for query in part.queries)
        ranks.append(_are_ranks(part.scores[part.query == 0].tolist()))
    documents, judged, relevant, hits = (sum(x) for x in zip(*counts, strict=True))
    missing = [query for query in qrels.queries if query not in there]
    if missing and rules.complete:
        none = partial(_judged, qrels, part.emptied, rules.convention, complete=True)
        found.append(
            {name: one.in_order(missing) for name, one in _measured(none, measures, rules.denominator)[1].items()}
        )
    counted = [query for query in qrels.queries if rules.complete or query in there]
    return Measured(
        {x.asked: _joined([results[x.asked] for results in found]).in_order(counted) for x in measures},
        part.tag,
        missing,
        unjudged,
        documents,
        judged,
        bool(relevant and not hits),
        scores_are_ranks=ranks[0],
    )


def measure_whole(
    qrels: Qrels, run: Run, measures: Sequence[Asked], rules: Rules
) -> tuple[Measured, dict[int, Judged]]:
    """A run at once; and as it is judged, by the lowest relevant grade."""
    judge_at = partial(_judged, qrels, run, rules.convention, complete=rules.complete)
    levels, results = _measured(judge_at, measures, rules.denominator)
    known, there = set(qrels.queries), {run.queries[place] for place in np.unique(run.query).tolist()}
    missing, unjudged = [x for x in qrels.queries if x not in there], sum(x not in known for x in run.queries)
    ranks = _are_ranks(run.scores[run.query == 0].tolist())
    return _whole(levels[measures[0].level], results, run.tag, missing, unjudged, ranks), levels


def measure_nested(qrels: NestedQrels, run: Nested, measures: Sequence[Asked], rules: Rules) -> Measured | None:
    """A run that :func:`torch_ap.runs.nested.is_run` finds to be one, without tables; None where it takes them."""
    documents = nested.documents_of(qrels, run, rules.convention, rules.complete)
    if documents is None:
        return None
    queries = list(documents.qrels.given)

    def judge_at(level: int) -> Judged:
        return Judged(queries, rules.convention, level, documents)

    levels, results = _measured(judge_at, measures, rules.denominator)
    missing, unjudged = [x for x in qrels.given if not run.get(x)], len(run.keys() - qrels.given.keys())
    ranks = _are_ranks(list(next(iter(run.values())).values()))
    return _whole(levels[measures[0].level], results, "", missing, unjudged, ranks)


def _whole(
    judged: Judged, results: dict[str, Result], tag: str, missing: list[Any], unjudged: int, ranks: bool
) -> Measured:
    """A run that was measured at once; the numbers of documents are those by the first measure's level."""
    documents, known, relevant, hits = judged.documents.counts(judged.relevance_level)
    return Measured(results, tag, missing, unjudged, documents, known, relevant and not hits, scores_are_ranks=ranks)


def _judged(qrels: Qrels, run: Run, convention: str, level: int, *, complete: bool = False) -> Judged:
    return judge(qrels, run, relevance_level=level, convention=convention, complete=complete)


def _measured(
    judge_at: Callable[[int], Judged], measures: Sequence[Asked], denominator: str
) -> tuple[dict[int, Judged], dict[str, Result]]:
    """The run as it is judged, by the lowest relevant grade, which ``judge_at`` takes, and the results."""
    judged = {level: judge_at(level) for level in dict.fromkeys(x.level for x in measures)}
    results = {
        level: report.evaluate(one, [x.name for x in measures if x.level == level], denominator=denominator)
        for level, one in judged.items()
    }
    return judged, {x.asked: results[x.level][x.name] for x in measures}


def _joined(parts: Sequence[Result]) -> Result:
    """The results of parts as one."""
    if len(parts) == 1:
        return parts[0]
    return parts[0].of([query for part in parts for query in part.queries], torch.cat([part.values for part in parts]))


def _are_ranks(scores: Sequence[float]) -> bool:
    """Whether these are 1, 2, 3, ..., or 0, 1, 2, ..., in this order."""
    first = int(scores[0]) if len(scores) > 2 and scores[0] in (0, 1) else -1
    return first >= 0 and list(scores) == list(range(first, first + len(scores)))
