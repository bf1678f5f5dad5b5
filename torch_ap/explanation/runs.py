"""Mean average precision of a run of queries under the conventions of search and recommendation."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from torch_ap.core.base.options import Denominator
from torch_ap.core.measures.convention import Convention
from torch_ap.core.ranking import builders, segments
from torch_ap.explanation.record import Named, Settings

_ORDERS = ("trec_eval 9", "trec_eval 10", "input order")


@dataclass(frozen=True)
class RunSettings(Settings):
    """Settings of a mean average precision of queries, in the order of the steps.

    Attributes:
        identical_ids: "documents" or "left out": documents with the id of the query.
        unjudged: "not relevant" or "left out": documents without a judgement.
        missing_queries: "left out" or "0": judged queries without documents.
        queries_without_relevant: "0" or "left out".
        scores_up_to_0: "as others" or "not relevant", as in torchmetrics: relevant documents with a score of 0 or less.
        ties: "trec_eval 9" (scores in float32, then the document id, descending), "trec_eval 10" (scores in float64),
            "input order", "expected" or "grouped".
        limit: k of AP@k, as text, "R" for the number of relevant documents, "None" for all documents.
        relevant: "judged" for all relevant documents, "retrieved" for the relevant documents of the run.
        denominator: divisor of AP@k, "relevant", "min" or "found".
    """

    identical_ids: str = "documents"
    unjudged: str = "not relevant"
    missing_queries: str = "left out"
    queries_without_relevant: str = "0"
    scores_up_to_0: str = "as others"
    ties: str = "trec_eval 10"
    limit: str = "None"
    relevant: str = "judged"
    denominator: str = "relevant"


def conventions(k: int) -> dict[str, Named]:
    """Return the named conventions; AP@k has this k."""
    trec, at = RunSettings, str(k)
    positive = {"ties": "input order", "relevant": "retrieved", "scores_up_to_0": "not relevant"}
    complete = {"missing_queries": "0", "queries_without_relevant": "left out"}
    return {
        "trec_eval 10": Named(trec(), "map"),
        "trec_eval 9": Named(trec(ties="trec_eval 9"), "map; pytrec_eval, ir_measures"),
        f"trec_eval 9 @{k}": Named(trec(ties="trec_eval 9", limit=at), f"map_cut_{k}"),
        f"BEIR @{k}": Named(
            trec(ties="trec_eval 9", limit=at, identical_ids="left out"), f"EvaluateRetrieval.evaluate, MAP@{k}"
        ),
        "ranx": Named(trec(ties="input order", missing_queries="0"), "map"),
        f"ranx @{k}": Named(trec(ties="input order", missing_queries="0", limit=at), f"map@{k}"),
        "torchmetrics": Named(trec(**positive), "RetrievalMAP"),
        f"torchmetrics @{k}": Named(trec(**positive, limit=at, denominator="found"), f"RetrievalMAP(top_k={k})"),
        f"PyG @{k}": Named(
            trec(ties="input order", limit=at, denominator="min", **complete),
            f"LinkPredMAP(k={k}); sentence-transformers' MAP@{k}",
        ),
        "pytorch-metric-learning": Named(
            trec(ties="input order", limit="R", **complete), "mean_average_precision_at_r (MAP@R)"
        ),
        f"pytorch-metric-learning @{k}": Named(
            trec(ties="input order", limit=at, **complete), f"mean_average_precision, k={k}"
        ),
        "haystack": Named(trec(ties="input order", relevant="retrieved", missing_queries="0"), "DocumentMAPEvaluator"),
        "judged documents only": Named(trec(unjudged="left out"), "ir_measures' AP(judged_only=True)"),
        "expected": Named(trec(ties="expected"), "mean over the orders of equal scores (McSherry & Najork 2008)"),
    }


class Runs:
    """Judgements and a run.

    Args:
        qrels: grade of each judged document by query.
        run: score of each retrieved document by query, in the order of the run.
        relevance_level: lowest relevant grade.
    """

    def __init__(
        self, qrels: Mapping[Any, Mapping[Any, int]], run: Mapping[Any, Mapping[Any, float]], relevance_level: int
    ) -> None:
        self._qrels, self._run, self._level = qrels, run, relevance_level

    def evaluate(self, settings: RunSettings) -> float:
        """Return the mean average precision; NaN without queries."""
        hits: list[bool] = []
        scores: list[float] = []
        counts: list[int] = []
        relevant: list[int] = []
        for query, grades in self._qrels.items():
            documents = self._ranked(query, settings)
            m = sum(grade >= self._level for grade in grades.values())
            if (not self._run.get(query) and settings.missing_queries == "left out") or (
                not m and settings.queries_without_relevant == "left out"
            ):
                continue
            lowest = -math.inf if settings.scores_up_to_0 == "as others" else 0.0
            flags = [grades.get(x, 0) >= self._level and self._run[query][x] > lowest for x, _ in documents]
            relevant.append(sum(flags) if settings.relevant == "retrieved" else m)
            counts.append(len(documents))
            hits += flags
            scores += [score for _, score in documents]
        if not counts:
            return math.nan
        curve = builders.from_scores(
            torch.tensor(scores, dtype=torch.float64),
            torch.tensor(hits, dtype=torch.bool),
            segment=segments.ids(segments.from_counts(torch.tensor(counts))),
            segments_count=len(counts),
            m=torch.tensor(relevant),
        )
        return _convention(settings)(curve).nan_to_num(0.0).mean().item()

    def _ranked(self, query: Any, settings: RunSettings) -> list[tuple[Any, float]]:
        """Return the documents of a query with scores in the order of the settings; distinct if they are ordered."""
        documents = list(self._run.get(query, {}).items())
        if settings.identical_ids == "left out":
            documents = [x for x in documents if x[0] != query]
        if settings.unjudged == "left out":
            documents = [x for x in documents if x[0] in self._qrels[query]]
        if settings.ties not in _ORDERS:
            return documents
        single = settings.ties == "trec_eval 9"
        if settings.ties != "input order":
            documents.sort(key=lambda x: str(x[0]), reverse=True)
        values = torch.tensor([score for _, score in documents], dtype=torch.float32 if single else torch.float64)
        order = (-values).argsort(stable=True).tolist()
        return [(documents[place][0], -float(rank)) for rank, place in enumerate(order)]


def _convention(settings: RunSettings) -> Convention:
    """Return the convention of each query."""
    ties = settings.ties if settings.ties not in _ORDERS else "grouped"
    if settings.limit == "None":
        return Convention(ties=ties)
    denominator: Denominator = settings.denominator  # type: ignore[assignment]
    return Convention("relevant" if settings.limit == "R" else int(settings.limit), denominator, ties=ties)
