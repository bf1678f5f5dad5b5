"""Hit rate, reciprocal rank, nDCG and average precision at k of recommendations, from scores of users and items."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from torch_ap.evaluation.recommendations import measured
from torch_ap.inference.result import Result
from torch_ap.rules.messages import warn_caller
from torch_ap.rules.options import Correction, Ties


@dataclass(frozen=True, eq=False, repr=False)
class Recommendation(Result):
    """What users are recommended in the first k places: means over the users who like anything.

    Attributes:
        k: (K,) int64.
        hit_rate: (K,) the share of users with an item they like among the first k.
        recall: (K,) the mean share of what a user likes that the first k hold; with one item per user the hit rate.
        ndcg: (K,) the mean nDCG at k; with one item per user 1 / log2(rank + 1), or 0 below rank k.
        map: (K,) the mean AP@k, divided by min(k, m); with one item per user 1 / rank, or 0 below rank k.
        mrr: (K,) the mean of one over the rank of the first item liked, or 0 below rank k.
        users: how many have a part in the means.
        without_target: how many users like nothing, and are left out.
        per_user: the values whose means these are, by the same names: (U, K), NaN for users left out.
        sampled_from: how many items there are in all, the liked one too; None where all items were ranked.
        correction: of sampled ranks.
    """

    k: Tensor
    hit_rate: Tensor
    recall: Tensor
    ndcg: Tensor
    map: Tensor
    mrr: Tensor
    users: int
    without_target: int
    per_user: dict[str, Tensor] = field(repr=False)
    sampled_from: int | None
    correction: str | None


def recommendation_at_k(
    scores: Tensor | Callable[[Tensor], Tensor],
    target: Tensor | tuple[Tensor, Tensor],
    seen: Tensor | tuple[Tensor, Tensor] | None = None,
    *,
    k: Sequence[int] = (5, 10, 20),
    items: int | None = None,
    ties: Ties = "expected",
    sampled_from: int | None = None,
    correction: Correction = None,
    progress: bool = False,
) -> Recommendation:
    r"""Hit rate, recall, nDCG, AP and reciprocal rank at k of users' recommendations, ranked among all items.

    With one item per user (leave-one-out), at rank t <= k: hit rate 1, AP and reciprocal rank 1 / t, and

    .. math::
        nDCG = \frac{1}{\log_2(t + 1)}

    Args:
        scores: (U, I) floating or integer scores, no NaN; or a function of (b,) int64 users that gives their (b, I),
            which is called for some users at a time, so that no matrix of all is held.
        target: what each user likes: (U,) integers, one item per user; (U, I) bool; or a pair (offsets, items) as of a
            sparse matrix by rows, (U + 1,) and (N,) integers.
        seen: what is not on offer, such as items of the training set: (U, I) bool, or a pair as above. None for
            nothing.
        k: different ints of at least 1.
        items: I, needed with a function of users, which does not tell it; None for a matrix.
        ties: how equal scores count: "expected" (mean over all their orders), "grouped", "optimistic", "pessimistic".
            Scores that are all equal have the mean of a random order, not rank 1.
        sampled_from: where the columns are not all items, but one liked item and a sample of others drawn with equal
            chances: how many items there are in all, the liked one too. Metrics of samples rank systems otherwise than
            those of all items do (Krichene & Rendle 2020), and a warning says so.
        correction: with ``sampled_from`` and one item per user: None for the metric of the sample, or "least-squares"
            for the estimate of the metric among all items with the least squared bias plus a tenth of the variance.
            Values may then be negative, also means of few users.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`Recommendation`.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules; the message names it.

    Equals the means of ``torch_ap.functional.retrieval_hit_rate``, ``retrieval_recall``,
    ``retrieval_normalized_dcg``, ``retrieval_average_precision`` and ``retrieval_reciprocal_rank`` of the rows.

    Source: nDCG: Järvelin & Kekäläinen (2002). Samples and their correction: Krichene & Rendle (2020), On Sampled
    Metrics for Item Recommendation, section 5. Ties: McSherry & Najork (2008).

    Example:
        >>> import torch
        >>> from torch_ap.functional import recommendation_at_k
        >>> scores = torch.tensor([[0.9, 0.8, 0.1, 0.3], [0.2, 0.7, 0.6, 0.5]])
        >>> seen = torch.tensor([[True, False, False, False], [False, True, False, False]])
        >>> recommendation_at_k(scores, torch.tensor([1, 3]), seen, k=[1, 2]).ndcg
        tensor([0.5000, 0.8155], dtype=torch.float64)
    """
    found = measured(scores, target, seen, k, items, ties, sampled_from, correction, progress)
    kept = found.pop("likes") > 0
    if not bool(kept.any()):
        warn_caller("No user has an item in `target`: all values are NaN.", UserWarning)
    means = {name: values[kept].mean(0) for name, values in found.items()}
    return Recommendation(
        k=torch.tensor(list(k), device=kept.device),
        **means,
        users=int(kept.sum()),
        without_target=int((~kept).sum()),
        per_user=found,
        sampled_from=sampled_from,
        correction=correction,
    )
