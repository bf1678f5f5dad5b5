"""The report of queries that search a gallery by their embeddings."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch_ap.curve import words
from torch_ap.functional.embeddings import EmbeddingRetrieval
from torch_ap.metrics.embeddings import EmbeddingMAP
from torch_ap.reports import cautions
from torch_ap.reports.content import Cell, Content, Picture, Section, Table
from torch_ap.reports.curves import AS_NUMBERS
from torch_ap.reports.statement import Asked, compared, headline

_RANKS = (1, 2, 3, 5, 10, 20, 50, 100)
_COLUMNS = {"cmc": "rank-k (CMC)", "precision_at_k": "precision at k", "recall_at_k": "recall at k", "map_at_k": "AP@k"}
_RANKED_BY = {
    "cosine": "The larger the cosine of the angle to the query, the higher an item ranks.",
    "dot": "The larger the inner product with the query, the higher an item ranks.",
    "euclidean": "The nearer to the query, the higher an item ranks.",
}


def content_of(metric: EmbeddingMAP, asked: Asked) -> Content:
    """All that the report says."""
    value, name, other = float(metric.compute()), words.name_of(metric.convention), asked.other
    head, sections = headline(metric, f"mean {name}", value, asked), []
    both = {asked.systems[0]: metric.evaluate(_RANKS)}
    if other is not None:
        head = replace(head, other=float(other.compute()))
        sections.append(compared(metric, asked, (value, head.other), {"unit": "queries"}))
        both[asked.systems[1]] = other.evaluate(_RANKS)
    found = both[asked.systems[0]]
    said = [*cautions.inside(head.low, head.high, head.chance)]
    if found.without_relevant:
        said.append(f"Without relevant items: {found.without_relevant:,} of {len(found.per_query['map']):,} queries.")
    return Content(
        title="",
        systems=asked.systems,
        headline=head,
        convention=f"{words.of_queries(metric.convention, 'mean')} {_RANKED_BY[metric.similarity]}",
        facts={"queries": found.queries, "relevant": int(found.per_query["relevant"].sum())},
        warnings=said,
        sections=[*sections, *_at_rank(both)],
        source=repr(metric),
    )


def _at_rank(both: Mapping[str, EmbeddingRetrieval]) -> list[Section]:
    """Every measure at each rank, of each system."""
    several = len(both) > 1
    head = ["k", *(f"{word}{f' of {name}' if several else ''}" for name in both for word in _COLUMNS.values())]
    rows: list[list[Cell]] = [
        [f"{k}", *(float(getattr(found, field)[place]) for found in both.values() for field in _COLUMNS)]
        for place, k in enumerate(_RANKS)
    ]

    def draw(ax: Any) -> None:
        for name, found in both.items():
            ax.plot(_RANKS, found.cmc.tolist(), marker="o", label=name)
        ax.set(xscale="log", xlabel="k", ylabel="rank-k (CMC)", ylim=(0, 1.02))
        if several:
            ax.legend()

    picture = Picture("The share of queries with a relevant item among the first k.", draw)
    return [Section("At rank k", [picture, Table(head, rows, folded=AS_NUMBERS)])]
