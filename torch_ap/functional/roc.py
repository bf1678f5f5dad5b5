"""The area under the ROC curve of search and recommendation, one value per query."""

import torch
from torch import Tensor

from torch_ap.curve.roc import AUROC
from torch_ap.curve.top_k import at_each
from torch_ap.evaluation.queries import each_query
from torch_ap.rules.options import Action, MissingQueries, NumRelevant, Ties, TopKs
from torch_ap.runtime import cached

_auroc = cached.settings_cache(AUROC)


def retrieval_auroc(
    preds: Tensor,
    target: Tensor,
    top_k: TopKs = None,
    max_fpr: float | None = None,
    *,
    ties: Ties = "expected",
    indexes: Tensor | None = None,
    mask: Tensor | None = None,
    num_relevant: NumRelevant = None,
    ignore_index: int | None = None,
    relevance_level: float | None = None,
    empty_target_action: Action = "neg",
    missing_queries: MissingQueries = "neg",
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Area under the ROC curve of each query: how often a relevant item stands above one that is not, of all pairs.

    Args:
        preds, target: as in :func:`torch_ap.functional.retrieval_average_precision`.
        top_k: k of at least 1, of the pairs in the top k; "relevant", a list of different ones, or None, as there.
        max_fpr: the fall-out up to which the area counts, above 0 and at most 1, mapped so that chance has 1/2 and the
            best is 1 (McClish); None for all of it.
        ties: "expected" (mean over all orders of equal scores), "grouped" (a straight line through the group, the same
            without ``max_fpr`` and ``top_k``; with ``top_k`` a group that straddles it has its share above),
            "optimistic", "pessimistic".
        num_relevant: relevant items that were not retrieved are in no pair; a query none of whose relevant items is
            ranked, or is in the top k, counts 0.
        empty_target_action: what a query counts as where there is no pair: none of its items is relevant, or all that
            are in the top k.
        indexes, mask, ignore_index, relevance_level, missing_queries, dtype: as there.

    Returns:
        0-d or (Q,), and (K,) or (Q, K) with a list, as there.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``sklearn.metrics.roc_auc_score`` of each query, with ``max_fpr`` too if ``ties="grouped"``, and
    ``torchmetrics.functional.retrieval_auroc`` where no ties straddle ``top_k``.

    Source: Hanley & McNeil (1982), The Meaning and Use of the Area under a ROC Curve; McClish (1989), Analyzing a
    Portion of the ROC Curve.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_auroc
        >>> retrieval_auroc(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]))
        tensor(0.5000)
    """
    measure = at_each(top_k, lambda k: _auroc(k, max_fpr, ties))
    queries = (indexes, mask, num_relevant, ignore_index, relevance_level, empty_target_action, missing_queries)
    return each_query(measure, preds, target, *queries, dtype)
