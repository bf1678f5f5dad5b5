"""Measures of a run against judgements, some of its queries at a time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from torch_ap.files import report
from torch_ap.files.columns import Progress
from torch_ap.files.judged import Judged, judge
from torch_ap.files.report import Asked, Result
from torch_ap.files.trec import NotGroupedError, read_run, run_parts
from torch_ap.files.trec_tables import Qrels, Run


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

    def why_none(self, qrels: Qrels, path: Path | str) -> str:
        """Why no query was judged: what is wrong with which of the two; "" where nothing is."""
        if not qrels.queries:
            return f"{qrels.path}: holds no judgements"
        if len(self.missing) < len(qrels.queries):
            return ""
        alone = "no query of the run has judgements in"
        return f"{path}: {alone} {qrels.path}" if self.unjudged else f"{path}: holds no documents"


def measure_file(
    qrels: Qrels, path: str, measures: Sequence[Asked], rules: Rules, progress: Progress | None = None
) -> Measured:
    """A run in a file, in parts; whole, where its queries do not stand together and it can be read again."""
    try:
        return measure(qrels, run_parts(path, progress=progress), measures, rules)
    except NotGroupedError:
        if not Path(path).is_file():
            raise
    return measure(qrels, [read_run(path, progress=progress)], measures, rules)


def measure(qrels: Qrels, parts: Iterable[Run], measures: Sequence[Asked], rules: Rules) -> Measured:
    """A run in parts of whole queries, at least one part."""
    known, there, unjudged, ranks = set(qrels.queries), set[Any](), 0, list[bool]()
    found, counts = list[dict[str, Result]](), torch.zeros(4, dtype=torch.int64)
    for part in parts:
        first, results = _measured(qrels, part, measures, rules._replace(complete=False))
        found.append(results)
        both = torch.tensor(len(first.documents.both[0]))
        counts += torch.stack([first.curve.n.sum(), both, first.curve.m.sum(), first.curve.hits.sum()])
        there |= set(first.queries)
        unjudged += sum(query not in known for query in part.queries)
        ranks.append(_are_ranks(part))
    missing = [query for query in qrels.queries if query not in there]
    if missing and rules.complete:
        _, results = _measured(qrels, part.emptied, measures, rules)
        found.append({name: one.in_order(missing) for name, one in results.items()})
    counted = [query for query in qrels.queries if rules.complete or query in there]
    documents, both, relevant, hits = counts.tolist()
    return Measured(
        results={x.asked: _joined([results[x.asked] for results in found]).in_order(counted) for x in measures},
        tag=part.tag,
        missing=missing,
        unjudged=unjudged,
        documents=documents,
        judged=both,
        blind=bool(documents and relevant and not hits),
        scores_are_ranks=ranks[0],
    )


def _measured(qrels: Qrels, run: Run, measures: Sequence[Asked], rules: Rules) -> tuple[Judged, dict[str, Result]]:
    """The run as it is judged for the first measure, and the results."""
    levels = dict.fromkeys(x.level for x in measures)
    how: dict[str, Any] = {"convention": rules.convention, "complete": rules.complete}
    judged = {level: judge(qrels, run, relevance_level=level, **how) for level in levels}
    results = {
        level: report.evaluate(one, [x.name for x in measures if x.level == level], denominator=rules.denominator)
        for level, one in judged.items()
    }
    return judged[measures[0].level], {x.asked: results[x.level][x.name] for x in measures}


def _joined(parts: Sequence[Result]) -> Result:
    """The results of parts as one."""
    if len(parts) == 1:
        return parts[0]
    return parts[0].of([query for part in parts for query in part.queries], torch.cat([part.values for part in parts]))


def _are_ranks(run: Run) -> bool:
    """Whether the scores of the first query are 1, 2, 3, ..., or 0, 1, 2, ..., in the order of the file."""
    scores = run.scores[run.query == 0]
    rising = torch.arange(len(scores), dtype=scores.dtype)
    return len(scores) > 2 and any(torch.equal(scores, rising + first) for first in (0, 1))
