"""Average precision, recall at k, MAP@R and CMC of embeddings: queries that search a gallery, without their matrix."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from torch_ap.evaluation.embeddings import EmbeddingMeasures, EmbeddingSettings
from torch_ap.inference.result import Result
from torch_ap.inputs.relevance import Relevance
from torch_ap.rules.messages import warn_caller
from torch_ap.rules.options import Action, Denominator, PointsInterpolation, Similarity, Ties


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddingRetrieval(Result):
    """What queries find in a gallery by their embeddings: means over the queries.

    Attributes:
        k: (K,) int64, the ranks of what is "at k".
        map: 0-d, mean average precision.
        map_at_k: (K,) the mean of AP@k.
        map_at_r: 0-d, the mean of AP at R, the number of items relevant to the query, over R.
        precision_at_k: (K,) the mean share of relevant items among the first k.
        recall_at_k: (K,) the mean share of the relevant items that the first k hold.
        r_precision: 0-d, the mean precision at R.
        cmc: (K,) cumulative matching characteristic: the share of queries with a relevant item among the first k. That
            is rank-k accuracy; face and person retrieval call it so, metric learning often "recall@k".
        mrr: 0-d, the mean of one over the rank of the first relevant item.
        queries: how many have a part in the means.
        without_relevant: how many queries have no relevant item.
        per_query: the values whose means these are, by the same names: (Q,) or (Q, K), in the order of the queries.
        without_itself: whether queries searched one another, and none was among its own results.
        similarity: by which items are ranked.
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


def embedding_average_precision(
    queries: Tensor,
    gallery: Tensor | None,
    query_labels: Tensor,
    gallery_labels: Tensor | None = None,
    *,
    similarity: Similarity = "cosine",
    k: Sequence[int] = (1, 5, 10),
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
    r"""MAP, MAP@R, precision and recall at k, and CMC of queries that search a gallery by their embeddings.

    .. math::
        AP = \frac{1}{R} \sum_{i=1}^{R} \frac{i}{t_i}, \qquad AP@R = \frac{1}{R} \sum_{i : t_i \le R} \frac{i}{t_i}

    where R items are relevant to the query, those of its label, and t_i is the rank of the i-th found.
    The matrix of all similarities is never held: memory is bounded, whatever the number of queries and items.

    Args:
        queries: (Q, d) floating, finite.
        gallery: (G, d) floating, finite, what is searched. None, or the very tensor ``queries``: they search one
            another, and no query finds itself.
        query_labels: (Q,) integers.
        gallery_labels: (G,) integers; an item is relevant to the queries of its label. None where ``gallery`` is None.
        similarity: "cosine", "dot" (inner product) or "euclidean" (the nearest first).
        k: different ints of at least 1, the ranks of AP@k, precision, recall and CMC.
        denominator: what AP@k divides by: "min" min(k, R), "relevant" R, "found" the relevant items in the top k.
        interpolation: of ``map`` alone: None, "trapezoid" (as the code for Oxford5k and Paris6k has it), "11-point",
            "11-point-arange", "101-point", "all-points" or a 1-D tensor of recall levels.
        ties: how equal similarities count: "expected" (mean over all their orders), "grouped" (they enter together),
            "optimistic", "pessimistic". None, the default: "expected", or "grouped" with ``interpolation``.
        relevance: a function of some query labels and some gallery labels, (b, ...) and (g, ...), that gives (b, g):
            bool, or numbers, above 0 for relevant, below 0 for pairs that do not count ("junk"). Labels may then have
            any form, such as (Q, L) of 0 and 1. It is called for a few thousand pairs at a time, from several threads.
        query_groups, gallery_groups: (Q,) and (G,) integers: items of the query's label *and* its group do not count.
            In person retrieval, groups are cameras. Groups of unique ids leave out the query itself.
        empty_target_action: what a query without relevant items counts as: "skip" left out, "neg" 0, "pos" 1, "nan",
            "error" raises.
        product_dtype: in which similarities are computed: None for float32, or float64 where an embedding is.
            torch.float16 or torch.bfloat16 only where they are asked for: their similarities have few digits, and tie.
        max_memory: bytes, about as many as are used beside the embeddings and a copy of them, or what the relevant
            items of 256 queries take, about 256 bytes each, where that is more. No result depends on it.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`EmbeddingRetrieval`.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules; the message names it.

    Equals the means of ``torch_ap.functional.retrieval_average_precision`` and its siblings of the rows of the matrix;
    ``mean_average_precision``, ``mean_average_precision_at_r``, ``r_precision`` and ``precision_at_1`` of
    pytorch-metric-learning's ``AccuracyCalculator``; Market-1501's evaluation with cameras as groups, but for its
    ``map``, which is ``interpolation="trapezoid"``.

    Source: MAP@R: Musgrave, Belongie & Lim (2020), A Metric Learning Reality Check, section 3.2. CMC and cameras: Zheng
    et al. (2015), Scalable Person Re-identification. Trapezoid: Philbin et al. (2007). Ties: McSherry & Najork (2008).

    Example:
        >>> import torch
        >>> from torch_ap.functional import embedding_average_precision
        >>> points = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [1.0, 4.0]])
        >>> labels = torch.tensor([0, 0, 1, 1])
        >>> found = embedding_average_precision(points, None, labels, similarity="euclidean", k=[1, 2])
        >>> found.map, found.cmc
        (tensor(1., dtype=torch.float64), tensor([1., 1.], dtype=torch.float64))
    """
    measures = EmbeddingMeasures.of(k, denominator, interpolation, ties)
    settings = EmbeddingSettings(
        measures, similarity, empty_target_action, relevance, product_dtype, max_memory, progress
    )
    batch = settings.validate(queries, gallery, query_labels, gallery_labels, query_groups, gallery_groups)
    return retrieval_of(settings, measures.k, settings.each(batch), without_itself=batch.own is not None)


def retrieval_of(
    settings: EmbeddingSettings, k: tuple[int, ...], values: dict[str, Tensor], *, without_itself: bool
) -> EmbeddingRetrieval:
    """The means over the queries that have a part in them, of the values of all."""
    values, kept = settings.filled(values)
    if not bool(kept.any()):
        warn_caller("No query has a relevant item in the gallery: all values are NaN.", UserWarning)
    means = {name: x[kept].mean(0) for name, x in values.items() if name not in ("relevant", "items")}
    return EmbeddingRetrieval(
        k=torch.tensor(k, device=kept.device),
        **means,
        queries=int(kept.sum()),
        without_relevant=int((values["relevant"] == 0).sum()),
        per_query=values,
        without_itself=without_itself,
        similarity=settings.similarity,
    )
