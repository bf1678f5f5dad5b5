"""Report of queries that search a gallery by their embeddings."""

from collections.abc import Mapping
from typing import Any

from torch_ap.reports.comparisons import comparison_sections
from torch_ap.reports.content import AS_NUMBERS, Cell, Content, Picture, Section, Table
from torch_ap.reports.estimates import ReportOptions, headline
from torch_ap.retrieval.embeddings import EmbeddingRetrieval
from torch_ap.retrieval.measures import words
from torch_ap.retrieval.metrics.embeddings import EmbeddingMAP

__all__ = ["EmbeddingMAP", "content_of"]

_RANKS = (1, 2, 3, 5, 10, 20, 50, 100)
_COLUMNS = {"cmc": "rank-k (CMC)", "precision_at_k": "precision at k", "recall_at_k": "recall at k", "map_at_k": "AP@k"}
_RANKED_BY = {
    "cosine": "The larger the cosine of the angle to the query, the higher an item ranks.",
    "dot": "The larger the inner product with the query, the higher an item ranks.",
    "euclidean": "The nearer to the query, the higher an item ranks.",
}


def content_of(metric: EmbeddingMAP, options: ReportOptions) -> Content:
    """Return the content of the report."""
    name = f"mean {metric.convention.label}"
    head = headline(metric, name, lambda x: float(x.compute()), options)
    sections = comparison_sections(metric, head, options, "queries")
    results = options.per_system(metric.evaluate(_RANKS), lambda: options.other.evaluate(_RANKS))
    first = next(iter(results.values()))
    missing, queries = first.without_relevant, len(first.per_query["map"])
    return Content(
        head,
        convention=f"{words.describe_over_queries(metric.convention, 'mean')} {_RANKED_BY[metric.similarity]}",
        facts={"queries": first.queries, "relevant": int(first.per_query["relevant"].sum())},
        warnings=[f"Without relevant items: {missing:,} of {queries:,} queries."] if missing else [],
        sections=[*sections, _rank_section(results)],
    )


def _rank_section(results: Mapping[str, EmbeddingRetrieval]) -> Section:
    """Return every measure at each rank, of each system."""
    has_other = len(results) > 1
    head = ["k", *(f"{word}{f' of {name}' if has_other else ''}" for name in results for word in _COLUMNS.values())]
    rows: list[list[Cell]] = [
        [f"{k}", *(float(getattr(x, field)[place]) for x in results.values() for field in _COLUMNS)]
        for place, k in enumerate(_RANKS)
    ]

    def draw(ax: Any) -> None:
        for name, result in results.items():
            ax.plot(_RANKS, result.cmc.tolist(), marker="o", label=name)
        ax.set(xscale="log", xlabel="k", ylabel="rank-k (CMC)", ylim=(0, 1.02))
        if has_other:
            ax.legend()

    series = [{"name": name if has_other else "", "x": _RANKS, "y": x.cmc.tolist()} for name, x in results.items()]
    picture = Picture(
        "The share of queries with a relevant item among the first k.",
        draw,
        chart={"x": "k", "y": "rank-k (CMC)", "log": True, "series": series},
    )
    return Section("At rank k", [picture, Table(head, rows, summary=AS_NUMBERS)])
