"""Measures of a ranking cut at rank k or at a score threshold."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.messages import Plain, raise_invalid
from torch_ap.core.base.options import Ties
from torch_ap.core.items.inputs import ClassificationInputs
from torch_ap.core.measures import counts
from torch_ap.core.measures.counts import Counts
from torch_ap.core.measures.ties import TIES, check_ties
from torch_ap.core.ranking import bins, builders, order, segments
from torch_ap.core.ranking.hit_curve import HitCurve


@renamed_keywords(k="top_k")
def counts_at_k(
    preds: Tensor, target: Tensor, top_k: int, *, ties: Ties = "grouped", predicted: Tensor | None = None
) -> Counts:
    """Return the true and false positives and negatives if the k highest-scored items are retrieved.

    Args:
        preds: (N,) one ranking, or (Q, N) one per row: floating or integer scores, no NaN.
        target: the shape of ``preds``; integers or bool, 0 or 1.
        top_k: at least 1. If fewer than k items can be retrieved, the missing ones count as false positives, so that
            tp + fp is k.
        ties: order of the tied items that straddle k: "grouped" and "expected" count an even share (the mean over all
            orders), "optimistic" the relevant items first, "pessimistic" last.
        predicted: bool, in the shape of ``preds``: the items that the model returns, for example ``preds >= 0.5``. Only
            these can be among the k. Relevant items that are not predicted count as missed. None for all.

    Returns:
        :class:`Counts` of float64 tensors, 0-d or (Q,), with ``precision``, ``recall``, ``specificity``, ``fall_out``,
        ``miss_rate``, ``false_discovery_rate``, ``accuracy``, ``matthews_corrcoef``, ``f_beta(beta)`` and
        ``effectiveness(alpha)``.

    Raises:
        TypeError, ValueError: for an invalid argument.

    ``precision`` equals trec_eval's ``P_k`` and ``recall`` its ``recall_k`` on untied scores; with ``predicted``, for a
    run file of the predicted items.

    Source: Zhu (2004), section 1; van Rijsbergen (1979), chapter 7; "expected": McSherry & Najork (2008), section 2.

    Example:
        >>> import torch
        >>> from torch_ap.functional import counts_at_k
        >>> at = counts_at_k(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]), top_k=1)
        >>> at.specificity
        tensor(1., dtype=torch.float64)
    """
    top_k = checks.positive_int("top_k", top_k)
    curve, returned = curves_of_rows(preds, target, ties, predicted)
    if returned is None:
        at = counts.counts_at_rank(curve, top_k, ties=ties)
    else:
        ranks = returned.clamp(max=top_k)
        at = counts.counts_at_rank(curve, ranks, ties=ties)
        at = replace(at, fp=at.fp + (top_k - ranks))
    return at.map(lambda x: x.reshape(preds.shape[:-1]))


def counts_at_threshold(
    preds: Tensor, target: Tensor, threshold: float | Tensor | None = None, *, weights: Tensor | None = None
) -> Counts:
    """Return the true and false positives and negatives if items with scores >= ``threshold`` are retrieved.

    Args:
        preds: (N, ...) floating or integer scores, no NaN; or bool decisions, which need no threshold.
        target: (N, ...) integers or bool, 0 or 1.
        threshold: a number, converted to the dtype of ``preds`` as in ``preds >= threshold``; or a tensor of numbers,
            0-d or (T,), in any order. None for bool ``preds``, and only for them.
        weights: (N, ...) finite weights of at least 0; counts are then sums of weights.

    Returns:
        :class:`Counts` of float64 tensors, 0-d or (T,), with the ratios listed in :func:`counts_at_k`.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals the cells of ``sklearn.metrics.confusion_matrix(target, preds >= threshold)``, or of
    ``confusion_matrix(target, preds)`` for bool ``preds``.

    Source: Zhu (2004), section 1.

    Example:
        >>> import torch
        >>> from torch_ap.functional import counts_at_threshold
        >>> at = counts_at_threshold(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]), 0.7)
        >>> at.precision
        tensor(0.6667, dtype=torch.float64)
        >>> decided = counts_at_threshold(torch.tensor([True, True, True, False]), torch.tensor([1, 0, 1, 0]))
        >>> decided.matthews_corrcoef
        tensor(0.5774, dtype=torch.float64)
    """
    if isinstance(preds, Tensor) and preds.dtype == torch.bool:
        if threshold is not None:
            raise_invalid("threshold", "must be None for bool `preds`, which are decisions", threshold)
        preds, threshold = preds.to(torch.uint8), 1
    tensors.scores("preds", preds)
    if threshold is None:
        raise_invalid("threshold", "must be given for scores; only bool `preds` need none", preds.dtype)
    checks.threshold(threshold)
    own = preds.dtype if preds.is_floating_point() else torch.float64
    if not preds.is_floating_point() and isinstance(threshold, int) and abs(threshold) < 1 << 63:
        own = torch.int64
    levels = threshold if isinstance(threshold, Tensor) else torch.tensor(threshold, dtype=own, device=preds.device)
    batch = ClassificationInputs().validate_now(preds, target, weights)
    ascending, order = levels.to(batch.scores.device).reshape(-1).sort()
    binned = bins.count(bins.Items(batch.scores, batch.target, batch.weights), ascending)
    at = counts.counts_from_bins(binned[:, :, 1], binned.sum(2))
    columns = levels.numel() - 1 - order.argsort()
    return at.map(lambda x: x[0, columns].reshape(levels.shape))


def curves_of_rows(
    preds: Tensor, target: Tensor, ties: Ties, predicted: Tensor | None = None
) -> tuple[HitCurve, Tensor | None]:
    """Return the curve of one ranking or of one per row, and the number of predicted items, (S,) float64 or None.

    Items that are not predicted form one tie group below all others.
    """
    check_ties(ties, TIES)
    tensors.scores("preds", preds)
    tensors.rows("preds", preds)
    batch = ClassificationInputs().validate_now(preds, target)
    scores, returned = batch.scores, None
    if predicted is not None:
        _check_predicted(predicted, preds)
        scores = torch.where(predicted.flatten(), order.dense_ranks(scores)[1] + 1, 0)
        returned = segments.as_float64(predicted.sum(-1).reshape(-1))
    if preds.ndim == 1:
        return builders.from_scores(scores, batch.target), returned
    columns = (x.reshape(preds.shape).t() for x in (scores, batch.target))
    return builders.from_columns(*columns), returned


def _check_predicted(predicted: Any, preds: Tensor) -> None:
    if not isinstance(predicted, Tensor):
        raise_invalid("predicted", "must be a bool tensor or None", Plain(type(predicted).__name__), TypeError)
    if predicted.dtype != torch.bool or predicted.shape != preds.shape:
        raise ValueError(
            f"`predicted` must be bool and have the shape of `preds`, {tuple(preds.shape)}, got {predicted.dtype} of "
            f"shape {tuple(predicted.shape)}"
        )
    tensors.same_device(preds=preds, predicted=predicted)
