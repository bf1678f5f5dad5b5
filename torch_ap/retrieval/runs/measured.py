"""Measures of a run against judgements, for all its queries or a part of them at a time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from torch_ap.core.columns.columns import Progress
from torch_ap.retrieval.runs import names, nested
from torch_ap.retrieval.runs.judged import Judged, judge
from torch_ap.retrieval.runs.names import RequestedMeasure, Result
from torch_ap.retrieval.runs.nested import DocumentCounts, Nested, NestedQrels
from torch_ap.retrieval.runs.trec import NotGroupedError, Qrels, Run, read_run, run_parts


class Rules(NamedTuple):
    """Measures and conventions of an evaluation.

    Attributes:
        measures: requested measures, at least one.
        convention: how tied scores are ordered; see :func:`torch_ap.retrieval.runs.judged.judge`.
        complete: whether judged queries without documents count, as with ``trec_eval -c``.
        denominator: divisor of AP@k.
    """

    measures: Sequence[RequestedMeasure]
    convention: str = "trec10"
    complete: bool = False
    denominator: str = "relevant"


@dataclass(frozen=True, eq=False)
class Measured:
    """Measures of a run.

    Attributes:
        results: by requested name; queries in the order of the judgements.
        tag: name of the run, from its file, or "".
        missing: judged queries without a document.
        unjudged: number of queries of the run without judgements.
        counts: numbers of documents, for the relevance level of the first measure.
        scores_are_ranks: whether the scores of the first query are 1, 2, 3, ..., or 0, 1, 2, ..., in this order.
    """

    results: dict[str, Result]
    tag: str
    missing: list[Any]
    unjudged: int
    counts: DocumentCounts
    scores_are_ranks: bool

    def failure_reason(self, judged: int, qrels: Path | str, path: Path | str) -> str:
        """Return why no query has a value, or "" if some query has one.

        Args:
            judged: number of judged queries.
            qrels: name of the judgements in the message.
            path: name of the run in the message.
        """
        if not judged:
            return f"{qrels}: contains no judgements"
        if len(self.missing) < judged:
            return ""
        alone = "no query of the run has judgements in"
        return f"{path}: {alone} {qrels}" if self.unjudged else f"{path}: contains no documents"


def measure_file(qrels: Qrels, path: str, rules: Rules, progress: Progress | None = None) -> Measured:
    """Return the measures of a run in a file, read in parts if the lines of each query are contiguous."""
    try:
        return measure(qrels, run_parts(path, progress=progress), rules)
    except NotGroupedError:
        if not Path(path).is_file():
            raise
    return measure_whole(qrels, read_run(path, progress=progress), rules)[0]


def measure(qrels: Qrels, parts: Iterable[Run], rules: Rules) -> Measured:
    """Return the measures of a run in parts of whole queries, at least one part."""
    measured = []
    for part in parts:
        measured.append(measure_whole(qrels, part, rules._replace(complete=False))[0])
    absent = set[Any].intersection(*(set(x.missing) for x in measured))
    missing = [query for query in qrels.queries if query in absent]
    results = [x.results for x in measured]
    if missing and rules.complete:
        empty = measure_whole(qrels, part.emptied, rules)[0].results
        results.append({name: result.reorder(missing) for name, result in empty.items()})
    counted = [query for query in qrels.queries if rules.complete or query not in absent]
    return Measured(
        {
            x.requested_name: _concatenate([result[x.requested_name] for result in results]).reorder(counted)
            for x in rules.measures
        },
        part.tag,
        missing,
        sum(x.unjudged for x in measured),
        DocumentCounts(*map(sum, zip(*(x.counts for x in measured), strict=True))),
        measured[0].scores_are_ranks,
    )


def measure_whole(qrels: Qrels, run: Run, rules: Rules) -> tuple[Measured, dict[int, Judged]]:
    """Return the measures of a whole run, and the judged run by the lowest relevant grade."""

    def judge_at(level: int) -> Judged:
        return judge(qrels, run, relevance_level=level, convention=rules.convention, complete=rules.complete)

    known, present = set(qrels.queries), {run.queries[place] for place in np.unique(run.query).tolist()}
    missing, unjudged = [x for x in qrels.queries if x not in present], sum(x not in known for x in run.queries)
    first_scores = run.scores[run.query == 0].tolist()
    return _measure_levels(judge_at, rules, run.tag, missing, unjudged, first_scores)


def measure_nested(qrels: NestedQrels, run: Nested, rules: Rules) -> Measured | None:
    """Return the measures of a run of nested dicts, without tables; None if tables are necessary.

    Args:
        qrels: judgements.
        run: a run that passes :func:`torch_ap.retrieval.runs.nested.is_run`.
        rules: measures and conventions.
    """
    documents = nested.documents_of(qrels, run, rules.convention, rules.complete)
    if documents is None:
        return None
    queries = list(documents.qrels.source)

    def judge_at(level: int) -> Judged:
        return Judged(queries, rules.convention, level, documents)

    missing, unjudged = [x for x in qrels.source if not run.get(x)], len(run.keys() - qrels.source.keys())
    first_scores = list(next(iter(run.values())).values())
    return _measure_levels(judge_at, rules, "", missing, unjudged, first_scores)[0]


def _measure_levels(
    judge_at: Callable[[int], Judged],
    rules: Rules,
    tag: str,
    missing: list[Any],
    unjudged: int,
    first_scores: Sequence[float],
) -> tuple[Measured, dict[int, Judged]]:
    """Return the measures of a whole run, and the judged run by the lowest relevant grade.

    Args:
        judge_at: function that judges the run at a lowest relevant grade.
        rules: measures and conventions.
        tag: see :class:`Measured`.
        missing: see there.
        unjudged: see there.
        first_scores: scores of the first query.
    """
    measures, denominator = rules.measures, rules.denominator
    judged = {level: judge_at(level) for level in dict.fromkeys(x.level for x in measures)}
    by_level = {
        level: names.evaluate(at_level, [x.name for x in measures if x.level == level], denominator=denominator)
        for level, at_level in judged.items()
    }
    results = {x.requested_name: by_level[x.level][x.name] for x in measures}
    counts = judged[measures[0].level].documents.counts(measures[0].level)
    return Measured(results, tag, missing, unjudged, counts, _are_ranks(first_scores)), judged


def _concatenate(parts: Sequence[Result]) -> Result:
    """Return the result of all parts."""
    if len(parts) == 1:
        return parts[0]
    return parts[0].with_values(
        [query for part in parts for query in part.queries], torch.cat([part.values for part in parts])
    )


def _are_ranks(scores: Sequence[float]) -> bool:
    """Return whether the scores are 1, 2, 3, ..., or 0, 1, 2, ..., in this order."""
    first = int(scores[0]) if len(scores) > 2 and scores[0] in (0, 1) else -1
    return first >= 0 and list(scores) == list(range(first, first + len(scores)))
