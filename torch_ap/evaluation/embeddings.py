"""From embeddings and labels to the value of each query: what the function and the metric of embeddings share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.curve import average_precision, averaging, counts, first_hit
from torch_ap.curve.convention import Convention, query_convention
from torch_ap.curve.measures import AtRank
from torch_ap.inputs import embeddings as inputs
from torch_ap.inputs.relevance import ByFunction, ByLabel, Relevance
from torch_ap.ranking import order, products, tiles
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.tiles import Ranks
from torch_ap.rules import checks, tensors
from torch_ap.rules.messages import Plain, refuse, warn_caller
from torch_ap.runtime.precision import full_precision
from torch_ap.runtime.progress import with_bar


class Side(NamedTuple):
    """The queries, or the gallery.

    Attributes:
        vectors: (N, d) embeddings.
        labels: (N,) int64, or what the function of relevance takes.
        groups: (N,) int64, or None.
    """

    vectors: Tensor
    labels: Tensor
    groups: Tensor | None


class EmbeddingBatch(NamedTuple):
    """Queries, and what they search.

    Attributes:
        queries: Q of them.
        gallery: G items.
        own: (Q,) int64, which item a query itself is, -1 for none; None where queries and gallery are two.
    """

    queries: Side
    gallery: Side
    own: Tensor | None


@dataclass(frozen=True)
class EmbeddingMeasures:
    """What is measured of the ranking of each query.

    Attributes:
        k: ranks of the measures "at k".
        whole: average precision of the whole ranking; its ties are those of all measures.
        at_k: average precision at each k.
    """

    k: tuple[int, ...]
    whole: Convention
    at_k: tuple[Convention, ...]

    @classmethod
    def of(cls, k: Any, denominator: Any, interpolation: Any, ties: Any) -> "EmbeddingMeasures":
        """The measures of these arguments, checked."""
        ranks = tuple(checks.ranks("k", k))
        whole = query_convention(None, None, "min", interpolation, ties)
        return cls(ranks, whole, tuple(Convention(rank, denominator, None, whole.ties) for rank in ranks))

    def __call__(self, curve: HitCurve) -> dict[str, Tensor]:
        """(S,) float64, or (S, K) at each k; NaN where nothing is relevant; (S,) how many are, of how many."""
        ties = self.whole.ties or "grouped"

        def at_each(measure: Callable[[int], Tensor]) -> Tensor:
            return torch.stack([measure(k) for k in self.k], 1)

        return {
            "map": self.whole(curve),
            "map_at_k": torch.stack([convention(curve) for convention in self.at_k], 1),
            "map_at_r": average_precision.average_precision(curve, ties=ties, top_k="relevant", denominator="relevant"),
            "precision_at_k": at_each(lambda k: AtRank("precision", k, ties=ties)(curve)),
            "recall_at_k": at_each(lambda k: AtRank("recall", k, ties=ties)(curve)),
            "r_precision": counts.r_precision(curve, ties=ties),
            "cmc": at_each(lambda k: first_hit.hit_rate(curve, ties=ties, top_k=k)),
            "mrr": first_hit.reciprocal_rank(curve, ties=ties),
            "relevant": curve.m,
            "items": curve.n,
        }


@dataclass(frozen=True)
class OneMeasure:
    """Average precision alone, with what its chance level depends on."""

    convention: Convention

    def __call__(self, curve: HitCurve) -> dict[str, Tensor]:
        """(S,) float64, NaN where nothing is relevant; how many items are, of how many."""
        return {"value": self.convention(curve), "relevant": curve.m, "items": curve.n}


@dataclass(frozen=True, eq=False)
class EmbeddingSettings:
    """How embeddings are searched and what is measured; the arguments of these names of the public function."""

    measures: Callable[[HitCurve], dict[str, Tensor]]
    similarity: str = "cosine"
    empty_target_action: str = "skip"
    relevance: Relevance | None = None
    product_dtype: torch.dtype | None = None
    max_memory: int = 1 << 28
    progress: bool = False

    def __post_init__(self) -> None:
        checks.one_of("similarity", self.similarity, inputs.SIMILARITIES)
        checks.one_of("empty_target_action", self.empty_target_action, averaging.ACTIONS)
        checks.floating_dtype("product_dtype", self.product_dtype)
        checks.boolean("progress", self.progress)
        object.__setattr__(self, "max_memory", checks.positive_int("max_memory", self.max_memory))
        if self.relevance is not None and not callable(self.relevance):
            refuse(
                "relevance",
                "must be a function of query labels and gallery labels, or None",
                Plain(type(self.relevance).__name__),
                TypeError,
            )

    def side(self, name: str, vectors: Any, labels: Any, groups: Any) -> Side:
        """The queries, or the gallery, as they come in: embeddings, labels and groups, in the right form."""
        word = "query" if name == "queries" else "gallery"
        vectors = inputs.embeddings(name, vectors)
        custom = self.relevance is not None
        labels = inputs.labels(f"{word}_labels", labels, name, len(vectors), any_form=custom)
        if groups is not None:
            if custom:
                refuse(f"{word}_groups", "must be None with `relevance`, which says what does not count", groups)
            groups = inputs.labels(f"{word}_groups", groups, name, len(vectors))
        tensors.same_device(**{name: vectors, f"{word}_labels": labels, f"{word}_groups": groups})
        return Side(vectors, labels, groups)

    def validate(
        self,
        queries: Any,
        gallery: Any,
        query_labels: Any,
        gallery_labels: Any,
        query_groups: Any = None,
        gallery_groups: Any = None,
    ) -> EmbeddingBatch:
        """The arguments of one call, checked."""
        query_side = self.side("queries", queries, query_labels, query_groups)
        if gallery is None or gallery is queries:
            for name, value, own in (
                ("labels", gallery_labels, query_labels),
                ("groups", gallery_groups, query_groups),
            ):
                if value is not None and not _same(value, own):
                    refuse(f"gallery_{name}", "must be None where queries search one another", Plain(f"other {name}"))
            return self.batch(query_side, None)
        return self.batch(query_side, self.side("gallery", gallery, gallery_labels, gallery_groups))

    def batch(self, queries: Side, gallery: Side | None) -> EmbeddingBatch:
        """Both sides, checked; None for queries that search one another."""
        if gallery is not None:
            tensors.same_device(queries=queries.vectors, gallery=gallery.vectors)
            if (queries.groups is None) != (gallery.groups is None):
                raise ValueError("`query_groups` and `gallery_groups` must be given both or neither")
            if queries.vectors.shape[1] != gallery.vectors.shape[1]:
                rule = f"must have {queries.vectors.shape[1]} columns, as `queries` have"
                refuse("gallery", rule, Plain(f"shape {tuple(gallery.vectors.shape)}"))
        for name, side in (("queries", queries), ("gallery", gallery)):
            if side is not None:
                inputs.check_values(name, side.vectors, self.similarity)
        if gallery is None:
            return EmbeddingBatch(queries, queries, torch.arange(len(queries.vectors), device=queries.vectors.device))
        if len(queries.vectors) > 1 and torch.equal(queries.vectors, gallery.vectors):
            warn_caller(
                "`gallery` holds the queries, and each finds itself first: for queries that search one another give "
                "`gallery=None`.",
                UserWarning,
            )
        return EmbeddingBatch(queries, gallery, None)

    def each(
        self, batch: EmbeddingBatch, ranks: Ranks | None = None, centre: Tensor | None = None
    ) -> dict[str, Tensor]:
        """The measures of each query, in the order given: (Q,) or (Q, K).

        Args:
            batch: queries, the same on all ranks, and what they search on this one.
            ranks: that have a gallery each; None for this one alone.
            centre: (d,) amid the queries of all batches, the same on all ranks; None where this batch is all.
        """
        attempt = _alone if ranks is None else ranks.attempt
        relation, matrix = attempt(self._matrix, batch, centre, ranks is not None)
        room, (height, width), device = self.max_memory // 2, matrix.shape, batch.queries.vectors.device
        threads = order.workers(height * width) if device.type == "cpu" else 1
        spans = products.spans(matrix, room) if ranks is None else [slice(0, height)]
        with products.workers(threads) as pool_map, full_precision(device):
            parts = [
                attempt(self.measures, tiles.curve_of(matrix, span, pool_map, room // threads, ranks))
                for span in with_bar(spans, self.progress)
            ]
        place = torch.argsort(relation.query_order)
        return {name: torch.cat([part[name] for part in parts])[place] for name in parts[0]}

    def _matrix(
        self, batch: EmbeddingBatch, centre: Tensor | None, exchanged: bool
    ) -> tuple[ByLabel | ByFunction, products.Products]:
        """Which pairs are relevant, and the similarities of all; where ranks have galleries in one order of queries."""
        queries, gallery, own = batch
        dtype = inputs.product_dtype(self.product_dtype, queries.vectors.dtype, gallery.vectors.dtype)
        if centre is None:
            centre = inputs.centre(queries.vectors[:: inputs.spacing(len(queries.vectors))])
        rows, columns = (inputs.vectors(side.vectors, self.similarity, dtype, centre) for side in (queries, gallery))
        inputs.check_range(rows, columns, self.similarity)
        relation: ByLabel | ByFunction
        if self.relevance is not None:
            relation = ByFunction(self.relevance, queries.labels, gallery.labels, own)
        else:
            order_of_all = torch.argsort(queries.labels, stable=True) if exchanged else None
            relation = ByLabel((queries.labels, queries.groups), (gallery.labels, gallery.groups), own, order_of_all)
        return relation, products.Products(rows, columns, relation, self.similarity)

    def most_relevant(self, gallery: Side) -> int:
        """How many items are relevant to one query, or fewer."""
        if self.relevance is not None or not len(gallery.labels):
            return len(gallery.labels)
        return int(torch.unique(gallery.labels, return_counts=True)[1].max())

    def filled(self, values: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """The values with what undefined ones count as, and (Q,) bool which queries have a part in the means.

        Raises:
            ValueError: for a query without relevant items where that is an error.
        """
        kept = values["relevant"] > 0
        if self.empty_target_action == "error" and not bool(kept.all()):
            refuse(
                "gallery",
                "must hold, for each query, a relevant item",
                Plain(f"none for query {int((~kept).nonzero()[0])}"),
            )
        if self.empty_target_action in averaging.COUNTS_AS:
            undefined = averaging.COUNTS_AS[self.empty_target_action]
            values = {
                name: x if name in ("relevant", "items") else x.nan_to_num(undefined) for name, x in values.items()
            }
        return values, kept if self.empty_target_action == "skip" else torch.ones_like(kept)


def _alone(work: Callable[..., Any], *args: Any) -> Any:
    """``work(*args)``, where no other rank waits for it."""
    return work(*args)


def _same(one: Any, other: Any) -> bool:
    """Whether a tensor is this one, or equal to it."""
    if one is other or not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return one is other
    return one.device == other.device and one.dtype == other.dtype and torch.equal(one, other)
