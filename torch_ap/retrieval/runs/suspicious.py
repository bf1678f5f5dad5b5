"""Documents of a run whose judgement may be missing, by the average precision if they were relevant."""

from typing import Any, Literal

import numpy as np
import torch

from torch_ap.core.base import checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.ranking import segments
from torch_ap.inference.suspicious import SuspiciousLabels, best_first, selected
from torch_ap.retrieval.runs.judged import Judged, Listed, judge, judgements_of
from torch_ap.retrieval.runs.tables import run_of, with_common_names
from torch_ap.retrieval.runs.trec import as_text, document_names
from torch_ap.retrieval.settings import MISSING

KIND = "without judgement"


def suspicious_labels(
    qrels: Any,
    run: Any,
    *,
    depth: int = 10,
    limit: int | None = 100,
    relevance_level: int = 1,
    ties: Literal["trec10", "trec9"] = "trec10",
    missing_queries: Literal["neg", "skip"] = "neg",
    query: str | None = None,
    document: str | None = None,
    grade: str | None = None,
    score: str | None = None,
) -> SuspiciousLabels:
    """Return the highly ranked documents without a judgement, by how much MAP would change if each were relevant.

    A document without a judgement counts as not relevant. Each change is exact: the AP of the query with one more
    relevant document at this rank, minus its AP, divided by the number of queries.

    Args:
        qrels, run: as for :func:`torch_ap.evaluate`.
        depth: the last rank of a highly ranked document; at least 1.
        limit: the largest number of rows; None for all.
        relevance_level, ties, query, document, grade, score: as for :func:`torch_ap.evaluate`; ``ties`` must order all
            documents.
        missing_queries: whether judged queries without documents count 0 ("neg") or are left out ("skip").

    Returns:
        :class:`torch_ap.inference.SuspiciousLabels` with MAP as its value and the kind "without judgement", which
        includes negative grades. Further columns are ``query``, ``document``, ``rank`` (from 1) and ``score``.

    Raises:
        TypeError, ValueError: for an invalid argument, and as for :func:`torch_ap.evaluate`.
        OSError: for a file that cannot be read.

    Example:
        >>> from torch_ap.retrieval import suspicious_labels
        >>> qrels = {"q1": {"d1": 1, "d4": 1, "d3": 0}, "q2": {"d2": 1}}
        >>> run = {"q1": {"d1": 0.9, "d2": 0.5, "d3": 0.3}, "q2": {"d1": 2.0, "d2": 1.0}}
        >>> for row in suspicious_labels(qrels, run).rows():
        ...     print(f"{row['query']} {row['document']} at rank {row['rank']}: {row['change']:+.3f}")
        q2 d1 at rank 1: +0.250
        q1 d2 at rank 2: +0.083
    """
    checks.one_of("ties", ties, ("trec10", "trec9"))
    checks.one_of("missing_queries", missing_queries, tuple(x for x in MISSING if x != "error"))
    judgements = judgements_of(qrels, {"query": query, "document": document, "grade": grade, "score": score})
    table, rows = with_common_names(judgements.table, run_of(run, judgements.columns))
    judged = judge(table, rows, relevance_level=relevance_level, convention=ties, complete=missing_queries == "neg")
    return unjudged_documents(judged, depth=depth, limit=limit)


def unjudged_documents(judged: Judged, *, depth: int = 10, limit: int | None = 100) -> SuspiciousLabels:
    """Return :func:`suspicious_labels` of a judged run."""
    depth = checks.positive_int("depth", depth)
    limit = checks.positive_int("limit", limit, optional=True)
    documents = judged.documents
    if not isinstance(documents, Listed) or not documents.by_document:
        raise_invalid("ties", "must order all documents, as trec10 and trec9 do", judged.convention)
    lines, places = documents.common_lines
    grade = np.full(len(documents.run.key), -1)  # by line of the run
    grade[lines] = documents.qrels.relevance.numpy()[places]
    # by query, descending score and descending name
    query, scores = documents.number.numpy(), documents.scores.numpy()
    order = np.lexsort((as_text(documents.documents), scores, -query))[::-1]
    query, grade = query[order], grade[documents.lines[order]]
    first = np.searchsorted(query, np.arange(len(documents.qrels.queries) + 1))
    rank = np.arange(len(query)) + 1 - first[query]
    is_hit = grade >= judged.relevance_level
    hits = segments.from_zero(is_hit.astype(np.int64))
    hits = hits[1:] - hits[first[query]]
    precision, inverse = (segments.from_zero(np.where(is_hit, x / rank, 0.0)) for x in (hits, 1.0))
    is_relevant = documents.qrels.relevance >= judged.relevance_level
    m = segments.count(documents.qrels.query[is_relevant], len(first) - 1).numpy()
    total = precision[first[1:]] - precision[first[:-1]]
    value = np.divide(total, m, out=np.zeros_like(total), where=m > 0)
    found = ((grade < 0) & (rank <= depth)).nonzero()[0]
    owner = query[found]
    # the document itself, and one more hit above each hit below it
    gain = (hits[found] + 1) / rank[found] + inverse[first[owner + 1]] - inverse[found + 1]
    change = ((total[owner] + gain) / (m[owner] + 1) - value[owner]) / max(1, len(judged.queries))
    table: dict[str, Any] = {
        "kind": [KIND] * len(found),
        "change": torch.from_numpy(change),
        "query": [documents.qrels.queries[x] for x in owner.tolist()],
        "document": document_names(documents.documents[order[found]]),
        "rank": torch.from_numpy(rank[found]),
        "score": segments.as_float64(torch.from_numpy(scores[order[found]])),
    }
    mean = torch.tensor(value.sum() / len(judged.queries) if judged.queries else torch.nan, dtype=torch.float64)
    return SuspiciousLabels(mean, {KIND: len(found)}, selected(table, best_first(table["change"], limit)))
