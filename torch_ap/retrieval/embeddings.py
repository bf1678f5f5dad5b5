"""Average precision, recall at k, MAP@R and CMC of queries that search a gallery by their embeddings.

The function and the metric of embeddings use the same search. In the galleries of several processes, queries and
results are exchanged, galleries are not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.arrays import full_precision
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import Plain, raise_invalid, warn_caller
from torch_ap.core.base.options import Action, Denominator, PointsInterpolation, Similarity, Ties
from torch_ap.core.base.progress import progress_bar
from torch_ap.core.measures import average_precision, averaging, counts
from torch_ap.core.measures.convention import Convention, query_convention
from torch_ap.core.metric.exchange import Ranks
from torch_ap.core.ranking import hit_curve, order, products
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.products import TileRanks
from torch_ap.inference.record import Result
from torch_ap.retrieval import embedding_inputs as inputs
from torch_ap.retrieval.embedding_inputs import FunctionRelevance, LabelRelevance, Relevance
from torch_ap.retrieval.measures.at_rank import AtRank, FirstHit


class Side(NamedTuple):
    """Queries or gallery.

    Attributes:
        vectors: (N, d) embeddings.
        labels: (N,) int64, or the labels of the function ``relevance``.
        groups: (N,) int64, or None.
    """

    vectors: Tensor
    labels: Tensor
    groups: Tensor | None


class EmbeddingBatch(NamedTuple):
    """Queries and gallery.

    Attributes:
        queries: Q queries.
        gallery: G items.
        own: (Q,) int64, the item of each query in the gallery, -1 for none; None if queries and gallery differ.
    """

    queries: Side
    gallery: Side
    own: Tensor | None


@dataclass(frozen=True)
class EmbeddingMeasures:
    """Measures of the ranking of each query.

    Attributes:
        k: ranks of the measures "at k".
        full_ranking: average precision of the whole ranking; its tie rule applies to all measures.
        at_k: average precision at each k.
    """

    k: tuple[int, ...]
    full_ranking: Convention
    at_k: tuple[Convention, ...]

    @classmethod
    def from_arguments(cls, k: Any, denominator: Any, interpolation: Any, ties: Any) -> "EmbeddingMeasures":
        """Return the measures of validated arguments."""
        ranks = tuple(checks.ranks("top_k", k))
        full_ranking = query_convention(None, None, "min", interpolation, ties)
        return cls(ranks, full_ranking, tuple(Convention(rank, denominator, None, full_ranking.ties) for rank in ranks))

    def __call__(self, curve: HitCurve) -> dict[str, Tensor]:
        """Return values by name, (S,) or (S, K) float64, NaN if nothing is relevant, and the numbers of items."""
        ties = self.full_ranking.ties or "grouped"
        top = hit_curve.top(curve, max(self.k))

        def stack_ranks(measure: Callable[[int], Tensor]) -> Tensor:
            return torch.stack([measure(k) for k in self.k], 1)

        return {
            "map": self.full_ranking(curve),
            "map_at_k": torch.stack([convention(top) for convention in self.at_k], 1),
            "map_at_r": average_precision.average_precision(curve, ties=ties, top_k="relevant", denominator="relevant"),
            "precision_at_k": stack_ranks(lambda k: AtRank("precision", k, ties=ties)(top)),
            "recall_at_k": stack_ranks(lambda k: AtRank("recall", k, ties=ties)(top)),
            "r_precision": counts.r_precision(curve, ties=ties),
            "cmc": stack_ranks(lambda k: FirstHit("hit_rate", k, ties)(top)),
            "mrr": FirstHit("reciprocal_rank", None, ties)(curve),
            "relevant": curve.m,
            "items": curve.n,
        }


@dataclass(frozen=True)
class OneMeasure:
    """Average precision alone, with the numbers of items for its chance level."""

    convention: Convention

    def __call__(self, curve: HitCurve) -> dict[str, Tensor]:
        """Return the values, (S,) float64, NaN if nothing is relevant, and the numbers of items."""
        return {"value": self.convention(curve), "relevant": curve.m, "items": curve.n}


@dataclass(frozen=True, eq=False)
class EmbeddingSettings:
    """Settings of the search and its measures; see :func:`torch_ap.functional.embedding_average_precision`."""

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
            raise_invalid(
                "relevance",
                "must be a function of query labels and gallery labels, or None",
                Plain(type(self.relevance).__name__),
                TypeError,
            )

    def side(self, name: str, vectors: Any, labels: Any, groups: Any) -> Side:
        """Return validated queries or gallery: embeddings, labels and groups."""
        word = "query" if name == "queries" else "gallery"
        vectors = inputs.embeddings(name, vectors)
        custom = self.relevance is not None
        labels = inputs.label_codes(f"{word}_labels", labels, name, len(vectors), any_form=custom)
        if groups is not None:
            if custom:
                raise_invalid(
                    f"{word}_groups", "must be None with `relevance`, which defines the pairs that do not count", groups
                )
            groups = inputs.label_codes(f"{word}_groups", groups, name, len(vectors))
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
        """Return the validated arguments of one call."""
        query_side = self.side("queries", queries, query_labels, query_groups)
        if gallery is None or gallery is queries:
            for name, value, own in (
                ("labels", gallery_labels, query_labels),
                ("groups", gallery_groups, query_groups),
            ):
                if value is not None and not _is_equal(value, own):
                    raise_invalid(
                        f"gallery_{name}", "must be None if queries are their own gallery", Plain(f"other {name}")
                    )
            return self.batch(query_side, None)
        return self.batch(query_side, self.side("gallery", gallery, gallery_labels, gallery_groups))

    def batch(self, queries: Side, gallery: Side | None) -> EmbeddingBatch:
        """Return the validated batch; ``gallery`` is None if queries are their own gallery."""
        if gallery is not None:
            tensors.same_device(queries=queries.vectors, gallery=gallery.vectors)
            if (queries.groups is None) != (gallery.groups is None):
                raise ValueError("`query_groups` and `gallery_groups` must both be None or both be tensors")
            if queries.vectors.shape[1] != gallery.vectors.shape[1]:
                rule = f"must have {queries.vectors.shape[1]} columns, as `queries` have"
                raise_invalid("gallery", rule, Plain(f"shape {tuple(gallery.vectors.shape)}"))
        for name, side in (("queries", queries), ("gallery", gallery)):
            if side is not None:
                inputs.check_values(name, side.vectors, self.similarity)
        if gallery is None:
            return EmbeddingBatch(queries, queries, torch.arange(len(queries.vectors), device=queries.vectors.device))
        if len(queries.vectors) > 1 and torch.equal(queries.vectors, gallery.vectors):
            warn_caller(
                "`gallery` contains the queries, so that each query is its own first result; pass `gallery=None` to "
                "leave it out.",
                UserWarning,
            )
        return EmbeddingBatch(queries, gallery, None)

    def query_values(
        self, batch: EmbeddingBatch, ranks: TileRanks | None = None, centre: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the measures of each query, in the order of the batch: (Q,) or (Q, K).

        Args:
            batch: queries, equal on all processes, and the gallery of this process.
            ranks: processes with a gallery each; None for a single process.
            centre: (d,) centre of the queries of all batches, equal on all processes; None for a single batch.
        """
        attempt: Any = ranks.attempt if ranks is not None else lambda work, *args: work(*args)
        queries, gallery, magnitudes = attempt(self._vectors, batch, centre)
        if ranks is not None:
            magnitudes = ranks.highest(magnitudes)
        relation, matrix = attempt(self._matrix, batch, queries, gallery, magnitudes, ranks is not None)
        room, (height, width), device = self.max_memory // 2, matrix.shape, batch.queries.vectors.device
        threads = order.workers(height * width) if device.type == "cpu" else 1
        spans = products.spans(matrix, room) if ranks is None else [slice(0, height)]
        with order.torch_thread_pool(threads) as pool_map, full_precision(device):
            parts = [
                attempt(self.measures, products.curve_from_tiles(matrix, span, pool_map, room // threads, ranks))
                for span in progress_bar(spans, self.progress)
            ]
        original = torch.argsort(relation.query_order)
        return {name: torch.cat([part[name] for part in parts])[original] for name in parts[0]}

    def _vectors(self, batch: EmbeddingBatch, centre: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the vectors of queries and gallery, whose products rank items, and the magnitudes of the gallery."""
        dtype, queries = self._product_dtype(batch), batch.queries.vectors
        if centre is None:
            centre = inputs.mean_vector(queries[:: inputs.centre_stride(len(queries))])
        rows, columns = (inputs.vectors(x, self.similarity, dtype, centre) for x in (queries, batch.gallery.vectors))
        return rows, columns, inputs.magnitudes(columns)

    def _product_dtype(self, batch: EmbeddingBatch) -> torch.dtype:
        return inputs.product_dtype(self.product_dtype, batch.queries.vectors.dtype, batch.gallery.vectors.dtype)

    def _matrix(
        self, batch: EmbeddingBatch, rows: Tensor, columns: Tensor, magnitudes: Tensor, exchanged: bool
    ) -> tuple[LabelRelevance | FunctionRelevance, products.Products]:
        """Return the relevant pairs and the similarities of all pairs.

        Args:
            batch: queries and gallery.
            rows: vectors of the queries.
            columns: vectors of the gallery.
            magnitudes: magnitudes of the gallery, or of the galleries of all processes.
            exchanged: whether other processes have a gallery too, so that the order of queries must be the same.
        """
        queries, gallery, own = batch
        rows, columns = inputs.scale(rows, columns, self.similarity, self._product_dtype(batch), magnitudes)
        relation: LabelRelevance | FunctionRelevance
        if self.relevance is not None:
            relation = FunctionRelevance(self.relevance, queries.labels, gallery.labels, own)
        else:
            order_of_all = torch.argsort(queries.labels, stable=True) if exchanged else None
            relation = LabelRelevance(
                (queries.labels, queries.groups), (gallery.labels, gallery.groups), own, order_of_all
            )
        return relation, products.Products(rows, columns, relation, self.similarity)

    def most_relevant(self, gallery: Side) -> int:
        """Return an upper bound of the number of relevant items of a query."""
        if self.relevance is not None or not len(gallery.labels):
            return len(gallery.labels)
        return int(torch.unique(gallery.labels, return_counts=True)[1].max())

    def fill_undefined(self, values: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """Return the values with undefined ones filled in, and whether each query counts in the means, (Q,) bool.

        Raises:
            ValueError: for a query without relevant items, if the setting is "error".
        """
        counted = values["relevant"] > 0
        if self.empty_target_action == "error" and not bool(counted.all()):
            first = Plain(f"none for query {int((~counted).nonzero()[0])}")
            raise_invalid("gallery", "must contain a relevant item for each query", first)
        counts_as = averaging.UNDEFINED_AS[self.empty_target_action]
        values = {
            name: x if name in ("relevant", "items") else x.nan_to_num(counts_as.value) for name, x in values.items()
        }
        return values, torch.ones_like(counted) if counts_as.takes_part else counted


def _is_equal(first: Any, other: Any) -> bool:
    """Return whether two arguments are the same object or equal tensors."""
    if first is other or not isinstance(first, Tensor) or not isinstance(other, Tensor):
        return first is other
    return first.device == other.device and first.dtype == other.dtype and torch.equal(first, other)


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddingRetrieval(Result):
    """Search of a gallery by embeddings: means over the queries.

    Attributes:
        k: (K,) int64, the ranks of the measures "at k".
        map: 0-d, mean average precision.
        map_at_k: (K,) the mean of AP@k.
        map_at_r: 0-d, the mean of AP at R, the number of items relevant to the query, over R.
        precision_at_k: (K,) the mean share of relevant items among the first k.
        recall_at_k: (K,) the mean share of the relevant items that are among the first k.
        r_precision: 0-d, the mean precision at R.
        cmc: (K,) cumulative matching characteristic: the share of queries with a relevant item among the first k. It
            is called rank-k accuracy in face and person retrieval, and often "recall@k" in metric learning.
        mrr: 0-d, the mean of one over the rank of the first relevant item.
        queries: number of queries in the means.
        without_relevant: number of queries without relevant items.
        per_query: the values of each query, by the same names: (Q,) or (Q, K), in the order of the queries.
        without_itself: whether queries were their own gallery, without the query itself among its results.
        similarity: similarity that ranks items.
    """

    k: Tensor
    map: Tensor
    map_at_k: Tensor
    map_at_r: Tensor
    precision_at_k: Tensor
    recall_at_k: Tensor
    r_precision: Tensor
    cmc: Tensor
    mrr: Tensor
    queries: int
    without_relevant: int
    per_query: dict[str, Tensor] = field(repr=False)
    without_itself: bool
    similarity: str


@renamed_keywords(k="top_k")
def embedding_average_precision(
    queries: Tensor,
    gallery: Tensor | None,
    query_labels: Tensor,
    gallery_labels: Tensor | None = None,
    *,
    similarity: Similarity = "cosine",
    top_k: Sequence[int] = (1, 5, 10),
    denominator: Denominator = "min",
    interpolation: PointsInterpolation = None,
    ties: Ties | None = None,
    relevance: Relevance | None = None,
    query_groups: Tensor | None = None,
    gallery_groups: Tensor | None = None,
    empty_target_action: Action = "skip",
    product_dtype: torch.dtype | None = None,
    max_memory: int = 1 << 28,
    progress: bool = False,
) -> EmbeddingRetrieval:
    r"""Return MAP, MAP@R, precision and recall at k, and CMC of queries that search a gallery by their embeddings.

    .. math::
        AP = \frac{1}{R} \sum_{i=1}^{R} \frac{i}{t_i}, \qquad AP@R = \frac{1}{R} \sum_{i : t_i \le R} \frac{i}{t_i}

    where R items have the label of the query, and t_i is the rank of the i-th relevant item. The matrix of all
    similarities is never stored, so that memory is bounded for any number of queries and items.

    Args:
        queries: (Q, d) floating, finite.
        gallery: (G, d) floating, finite, the searched items. None, or the tensor ``queries`` itself: queries are their
            own gallery, and a query is not among its own results.
        query_labels: (Q,) integers.
        gallery_labels: (G,) integers; an item is relevant to queries with its label. None if ``gallery`` is None.
        similarity: "cosine", "dot" (inner product) or "euclidean" (the nearest first).
        top_k: different ints of at least 1, the ranks of AP@k, precision, recall and CMC.
        denominator: divisor of AP@k: "min" min(k, R), "relevant" R, "found" the relevant items in the top k.
        interpolation: for ``map`` only: None, "trapezoid" (as in the code for Oxford5k and Paris6k), "11-point",
            "11-point-arange", "101-point", "all-points" or a 1-D tensor of recall levels.
        ties: how equal similarities count: "expected" (mean over all their orders), "grouped" (they enter together),
            "optimistic", "pessimistic". None, the default: "expected", or "grouped" with ``interpolation``.
        relevance: a function of b query labels and g gallery labels, (b, ...) and (g, ...), that returns (b, g): bool,
            or numbers, above 0 for relevant, below 0 for pairs that do not count ("junk"). Labels may then have any
            form, such as (Q, L) of 0 and 1. It is called for a few thousand pairs at a time, from several threads.
        query_groups: (Q,) integers: items with the label *and* the group of the query do not count. In person
            retrieval, groups are cameras. Groups of unique ids leave out the query itself.
        gallery_groups: (G,) integers, the groups of the gallery.
        empty_target_action: value of a query without relevant items: "skip" left out, "neg" 0, "pos" 1, "nan", "error"
            raises.
        product_dtype: dtype of the similarities: None for float32, or float64 for float64 embeddings. Similarities in
            torch.float16 and torch.bfloat16 have few digits, and tie.
        max_memory: approximate number of bytes used in addition to the embeddings and a copy of them. At least the
            memory of the relevant items of 256 queries, about 256 bytes each, is used. No result depends on it.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`EmbeddingRetrieval`.

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals the means of ``torch_ap.functional.retrieval_average_precision`` and similar functions of the matrix;
    ``mean_average_precision``, ``mean_average_precision_at_r``, ``r_precision`` and ``precision_at_1`` of
    pytorch-metric-learning's ``AccuracyCalculator``; Market-1501's evaluation with cameras as groups, where
    ``map`` needs ``interpolation="trapezoid"``.

    Source: MAP@R: Musgrave, Belongie & Lim (2020), A Metric Learning Reality Check, section 3.2. CMC and cameras: Zheng
    et al. (2015), Scalable Person Re-identification. Trapezoid: Philbin et al. (2007). Ties: McSherry & Najork (2008).

    Example:
        >>> import torch
        >>> from torch_ap.functional import embedding_average_precision
        >>> points = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [1.0, 4.0]])
        >>> labels = torch.tensor([0, 0, 1, 1])
        >>> found = embedding_average_precision(points, None, labels, similarity="euclidean", top_k=[1, 2])
        >>> found.map, found.cmc
        (tensor(1., dtype=torch.float64), tensor([1., 1.], dtype=torch.float64))
    """
    measures = EmbeddingMeasures.from_arguments(top_k, denominator, interpolation, ties)
    settings = EmbeddingSettings(
        measures, similarity, empty_target_action, relevance, product_dtype, max_memory, progress
    )
    batch = settings.validate(queries, gallery, query_labels, gallery_labels, query_groups, gallery_groups)
    return embedding_retrieval(settings, measures.k, settings.query_values(batch), without_itself=batch.own is not None)


def embedding_retrieval(
    settings: EmbeddingSettings, k: tuple[int, ...], values: dict[str, Tensor], *, without_itself: bool
) -> EmbeddingRetrieval:
    """Return the means over the queries that count, from the values of all queries."""
    values, counted = settings.fill_undefined(values)
    if not bool(counted.any()):
        warn_caller("No query has a relevant item in the gallery: all values are NaN.", UserWarning)
    means = {name: x[counted].mean(0) for name, x in values.items() if name not in ("relevant", "items")}
    return EmbeddingRetrieval(
        k=torch.tensor(k, device=counted.device),
        **means,
        queries=int(counted.sum()),
        without_relevant=int((values["relevant"] == 0).sum()),
        per_query=values,
        without_itself=without_itself,
        similarity=settings.similarity,
    )


def query_measures(ranks: Ranks, settings: EmbeddingSettings, batch: EmbeddingBatch) -> dict[str, Tensor]:
    """Return the measures of the queries of all processes, in process order, (Q,) or (Q, K), the same on every process.

    A limited number of queries at a time is sent to every process, which returns the scores of their relevant items in
    its gallery, and then the number of its other items above each relevant score of all processes.

    Args:
        ranks: the processes; each calls this function with its own queries and gallery.
        settings: the same on all processes.
        batch: batch of this process.
    """
    queries, gallery, own = batch
    sizes = ranks.gather(torch.tensor([len(queries.labels)])).flatten().tolist()
    most = int(ranks.sum(torch.tensor(ranks.attempt(settings.most_relevant, gallery))))
    share = max(1, products.rows_at_once(most, settings.max_memory // 2) // ranks.size)
    step = inputs.centre_stride(sum(sizes))
    centre = inputs.mean_vector(_gather_rows(ranks, queries.vectors[-sum(sizes[: ranks.rank]) % step :: step]))
    results, positions = [], []
    for start in range(0, max(1, *sizes), share):
        ends = [slice(min(start, size), min(start + share, size)) for size in sizes]
        sent = [_gather_rows(ranks, x[ends[ranks.rank]]) for x in (queries.vectors, queries.labels)]
        groups = None if queries.groups is None else _gather_rows(ranks, queries.groups[ends[ranks.rank]])
        lengths = [end.stop - end.start for end in ends]
        own_items = None
        if own is not None:
            own_items = torch.full((sum(lengths),), -1, device=gallery.labels.device)
            first = sum(lengths[: ranks.rank])
            own_items[first : first + lengths[ranks.rank]] = own[ends[ranks.rank]]
        results.append(
            settings.query_values(EmbeddingBatch(Side(sent[0], sent[1], groups), gallery, own_items), ranks, centre)
        )
        positions += [torch.arange(end.start, end.stop) + sum(sizes[:rank]) for rank, end in enumerate(ends)]
    order_of_queries = torch.argsort(torch.cat(positions)).to(gallery.labels.device)
    return {name: torch.cat([part[name] for part in results])[order_of_queries] for name in results[0]}


def _gather_rows(ranks: Ranks, rows: Tensor) -> Tensor:
    """Return the (N, ...) rows of all processes, in process order."""
    return torch.cat(ranks.gather_unequal(rows))
