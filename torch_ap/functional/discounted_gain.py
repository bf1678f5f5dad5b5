"""Normalized discounted cumulative gain of search and recommendation, one value per query."""

import torch
from torch import Tensor

from torch_ap.curve.discounted_gain import NormalizedDCG
from torch_ap.curve.top_k import at_each
from torch_ap.evaluation.queries import each_query
from torch_ap.rules.options import Action, Gains, MissingQueries, NumRelevant, Ties, TopKs
from torch_ap.runtime import cached

_normalized_dcg = cached.settings_cache(NormalizedDCG)


def retrieval_normalized_dcg(
    preds: Tensor,
    target: Tensor,
    top_k: TopKs = None,
    *,
    gains: Gains = "linear",
    ties: Ties = "expected",
    indexes: Tensor | None = None,
    mask: Tensor | None = None,
    retrieved: Tensor | None = None,
    num_relevant: NumRelevant = None,
    ignore_index: int | None = None,
    relevance_level: float | None = None,
    empty_target_action: Action = "neg",
    missing_queries: MissingQueries = "neg",
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""Normalized discounted cumulative gain of each query: what its ranking is worth beside the best there could be.

    .. math::
        nDCG@k = \frac{DCG@k}{IDCG@k}, \qquad DCG@k = \sum_{t=1}^{k} \frac{g(y_t)}{\log_2(t + 1)}

    with y_t the grade of the item at rank t, g its gain, and IDCG@k the DCG@k of all judged items, best first.

    Args:
        preds: as in :func:`torch_ap.functional.retrieval_average_precision`.
        target: of the shape of ``preds``: grades of at least 0, integers, bool or floats.
        top_k: k of at least 1; "relevant" for how many of the judged items have a gain; a list of different ones for a
            value of each, as there; None for all items of the query.
        gains: "linear", the grade itself, or "exponential", 2^grade - 1, of grades of at most 1000.
        ties: how equal scores count: "expected" (mean over all their orders), "grouped" (all at the rank of the last of
            them), "optimistic", "pessimistic".
        retrieved: bool, of the shape of ``preds``: which of the items the system ranked. The others were judged, and
            have a part in the ideal ranking only; their scores may be anything.
        num_relevant: how many items of each query have a gain, as there; those not among the items have grade 1, so
            that with other grades than 0 and 1 ``retrieved`` says it better.
        relevance_level: the lowest grade that has a gain, any finite number. None, the default, is the lowest above 0,
            and a negative grade is then an error; with any level it counts 0, as in trec_eval.
        empty_target_action: what a query counts as none of whose judged items has a gain; as there.
        missing_queries: what a query counts as that has judgements, by ``num_relevant`` or ``retrieved``, and no ranked
            items; as there.
        indexes, mask, ignore_index, dtype: as there.

    Returns:
        0-d for (D,) scores, (Q,) for (Q, D); with ``indexes`` (Q,), ascending by query. In [0, 1].

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules; the message names it.

    Equals ``torchmetrics.functional.retrieval_normalized_dcg`` and ``sklearn.metrics.ndcg_score``, with tied scores
    too; trec_eval's ``ndcg`` and ``ndcg_cut_k`` where no scores are tied and ``retrieved`` says which judged documents
    were not found.

    Source: Järvelin & Kekäläinen (2002), Cumulated Gain-Based Evaluation of IR Techniques, with the discount of Burges
    et al. (2005), Learning to Rank Using Gradient Descent, whose gains are "exponential". "expected": McSherry & Najork
    (2008), section 3.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_normalized_dcg
        >>> preds, target = torch.tensor([0.1, 0.2, 0.3, 4.0, 70.0]), torch.tensor([10, 0, 0, 1, 5])
        >>> retrieval_normalized_dcg(preds, target)
        tensor(0.6957)
        >>> retrieval_normalized_dcg(preds, target, top_k=3, gains="exponential")
        tensor(0.0303)
    """
    measure = at_each(top_k, lambda k: _normalized_dcg(k, gains, ties))
    queries = (indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries)
    return each_query(measure, preds, target, *queries, dtype, retrieved)
