"""Precision-recall curves: precision and recall at every threshold."""

import itertools
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks
from torch_ap.core.base.options import CurveAverage, IgnoreIndex, Normalization, Thresholds, allowed_values
from torch_ap.core.base.record import Record
from torch_ap.core.items.inputs import (
    Batch,
    ClassificationInputs,
    bins_of,
    counted_items,
    curve_of,
    warn_of_logits,
    warn_of_two_scores,
)
from torch_ap.core.items.settings import inputs_and_thresholds, result_dtype
from torch_ap.core.measures import counts
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve


class _PrecisionRecallCurve(NamedTuple):
    precision: Tensor | list[Tensor]
    recall: Tensor | list[Tensor]
    thresholds: Tensor | list[Tensor]


class PrecisionRecallCurve(Record, _PrecisionRecallCurve):
    """Precision and recall by ascending threshold; the last point (1, 0) has no threshold.

    Attributes:
        precision: (T + 1,); for several rankings a list of tensors, or (C, T + 1) with the argument ``thresholds``.
        recall: in the form of ``precision``.
        thresholds: (T,); for several rankings a list of tensors, or the argument ``thresholds``.
    """

    __slots__ = ()


def binary_precision_recall_curve(
    preds: Tensor,
    target: Tensor,
    thresholds: Thresholds = None,
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    *,
    weights: Tensor | None = None,
    normalization: Literal["none", "sigmoid"] | None = None,
) -> PrecisionRecallCurve:
    r"""Return precision and recall of one ranking if items with at least a threshold as score are predicted positive.

    .. math::
        p = \frac{tp}{tp + fp}, \qquad r = \frac{tp}{m}

    Args:
        preds: (N, ...) floating or integer scores, no NaN.
        target: (N, ...) integers or bool, 0 or 1.
        thresholds: None for every distinct score; a list or 1-D tensor in any order; or an int, the number of
            thresholds from 0 to 1.
        ignore_index: target value of items to ignore, or a sequence of such values.
        validate_args: whether to check values.
        weights: (N, ...) finite weights of at least 0.
        normalization: "sigmoid" to apply a sigmoid; None or "none" to rank the scores unchanged.

    Returns:
        precision (T + 1,), recall (T + 1,) and thresholds (T,), in ascending order of the thresholds; float64 for
        float64 scores, else float32. Recall is NaN without positives (1 in scikit-learn and torchmetrics). Precision is
        NaN without retrieved items.

    Raises:
        TypeError, ValueError: for an invalid argument; the message names it.

    Equals ``sklearn.metrics.precision_recall_curve``, and torchmetrics' function of the same name if it does not apply
    a sigmoid.

    Source: Zhu (2004), eq. 1.

    Example:
        >>> import torch
        >>> from torch_ap.functional import binary_precision_recall_curve
        >>> curve = binary_precision_recall_curve(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
        >>> curve.precision
        tensor([0.5000, 0.6667, 0.5000, 1.0000, 1.0000])
        >>> curve.recall
        tensor([1.0000, 1.0000, 0.5000, 0.5000, 0.0000])
    """
    inputs, levels = inputs_and_thresholds(thresholds, ignore_index, validate_args, normalization)
    return validated_precision_recall(inputs, levels, preds, target, weights, None)


def multiclass_precision_recall_curve(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    thresholds: Thresholds = None,
    average: CurveAverage = None,
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    *,
    weights: Tensor | None = None,
    normalization: Normalization = None,
) -> PrecisionRecallCurve:
    """Return precision and recall of each class against the rest, or of all classes together.

    Args:
        preds: (N, C, ...) floating or integer scores.
        target: (N, ...) class ids in [0, C).
        num_classes: C, at least 2.
        thresholds: see :func:`binary_precision_recall_curve`.
        average: None for one curve per class; "micro" for one ranking of all N * C scores; "macro" for the mean over
            classes of precision and recall at each of the ``thresholds``, or at the distinct scores of all classes. A
            class without retrieved items at a threshold is left out of the mean precision there.
        ignore_index: see :func:`binary_precision_recall_curve`.
        validate_args: see :func:`binary_precision_recall_curve`.
        weights: (N, ...) finite weights of at least 0.
        normalization: "softmax", "sigmoid", "none" or None, see
            :func:`torch_ap.functional.multiclass_average_precision`.

    Returns:
        Lists of C tensors; (C, T + 1), (C, T + 1) and (T,) with ``thresholds``; tensors of one curve with an average.

    Raises:
        TypeError, ValueError: for an invalid argument; the message names it.

    Equals torchmetrics' function of the same name if it does not apply a softmax, except for "macro": torchmetrics
    interpolates recall as a function of precision, although precision is not monotone.

    Source: Zhu (2004), eq. 1, for each class.

    Example:
        >>> import torch
        >>> from torch_ap.functional import multiclass_precision_recall_curve
        >>> preds = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4]])
        >>> settings = {"num_classes": 3, "thresholds": [0.25, 0.5], "average": "macro"}
        >>> curve = multiclass_precision_recall_curve(preds, torch.tensor([0, 1, 2]), **settings)
        >>> curve.precision, curve.recall
        (tensor([0.6667, 1.0000, 1.0000]), tensor([1.0000, 0.6667, 0.0000]))
    """
    checks.one_of("average", average, allowed_values(CurveAverage))
    inputs, levels = inputs_and_thresholds(
        thresholds, ignore_index, validate_args, normalization, name="num_classes", width=num_classes
    )
    return validated_precision_recall(inputs, levels, preds, target, weights, average)


def multilabel_precision_recall_curve(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    thresholds: Thresholds = None,
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    *,
    weights: Tensor | None = None,
    normalization: Literal["none", "sigmoid"] | None = None,
) -> PrecisionRecallCurve:
    """Return precision and recall of each label.

    Args:
        preds: (N, L, ...) floating or integer scores.
        target: (N, L, ...) integers or bool, 0 or 1.
        num_labels: L, at least 2.
        thresholds: see :func:`binary_precision_recall_curve`.
        ignore_index: see :func:`binary_precision_recall_curve`.
        validate_args: see :func:`binary_precision_recall_curve`.
        normalization: see :func:`binary_precision_recall_curve`.
        weights: (N, ...) or (N, L, ...) finite weights of at least 0.

    Returns:
        Lists of L tensors; with ``thresholds`` (L, T + 1), (L, T + 1) and (T,).

    Raises:
        TypeError, ValueError: for an invalid argument; the message names it.

    Equals torchmetrics' function of the same name if it does not apply a sigmoid.

    Source: Zhu (2004), eq. 1, for each label.

    Example:
        >>> import torch
        >>> from torch_ap.functional import multilabel_precision_recall_curve
        >>> preds, target = torch.tensor([[0.9, 0.2], [0.6, 0.7]]), torch.tensor([[1, 0], [0, 1]])
        >>> multilabel_precision_recall_curve(preds, target, num_labels=2).recall
        [tensor([1., 1., 0.]), tensor([1., 1., 0.])]
    """
    inputs, levels = inputs_and_thresholds(
        thresholds, ignore_index, validate_args, normalization, name="num_labels", width=num_labels
    )
    return validated_precision_recall(inputs, levels, preds, target, weights, None)


def validated_precision_recall(
    inputs: ClassificationInputs,
    levels: Tensor | None,
    preds: Tensor,
    target: Tensor,
    weights: Tensor | None,
    average: CurveAverage,
) -> PrecisionRecallCurve:
    """Validate a batch and return its precision-recall curve or curves."""
    batch = inputs.validate_now(preds, target, weights)
    warn_of_logits(inputs, batch)
    warn_of_two_scores(inputs, [batch.scores], [batch.target])
    dtype, single = result_dtype(preds.dtype), inputs.width is None or average == "micro"
    if levels is not None:
        levels = levels.to(preds.device)
        return _curve_at_thresholds(bins_of(batch, levels, ignoring=inputs.ignoring), levels, dtype, single, average)
    if average == "micro":
        batch = _flatten_classes(batch)
    curve = curve_of(batch, ignoring=inputs.ignoring, keep_all_groups=True)
    if average == "macro":
        return _mean_curve(curve, dtype)
    curves = _curves_at_scores(curve, dtype)
    return PrecisionRecallCurve(*(curves[0] if single else map(list, zip(*curves, strict=True))))


def _flatten_classes(batch: Batch) -> Batch:
    """Return all scores as one ranking; the score of an item's class is positive."""
    is_counted = counted_items(batch.target)
    scores, target = batch.scores[is_counted], batch.target[is_counted]
    hits = target[:, None] == torch.arange(scores.shape[1], device=scores.device)
    weights = None if batch.weights is None else batch.weights[is_counted].repeat_interleave(scores.shape[1])
    return Batch(scores.flatten(), hits.flatten().to(torch.uint8), weights)


@arrays.quiet
def _curves_at_scores(curve: HitCurve, dtype: torch.dtype) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return precision, recall and thresholds of each ranking at every distinct score."""
    assert curve.score is not None
    values = curve.native
    precision = values.precision
    recall = values.cumulative_hits / segments.each_entry(segments.as_float64(values.m), values.offsets)
    curves = []
    for first, last in itertools.pairwise(values.offsets.tolist()):
        p, r = (
            arrays.tensor(arrays.join(arrays.flipped(x[first:last]), arrays.full(1, end, x))).to(dtype)
            for x, end in ((precision, 1.0), (recall, 0.0))
        )
        curves.append((p, r, curve.score[first:last].flip(0)))
    return curves


def _mean_curve(curve: HitCurve, dtype: torch.dtype) -> PrecisionRecallCurve:
    """Return the mean of precision and recall over rankings, at the distinct scores of all rankings."""
    assert curve.score is not None
    thresholds = torch.unique(curve.score)
    sums = [torch.zeros(len(thresholds), dtype=curve.precision.dtype, device=thresholds.device) for _ in range(4)]
    occurs = (curve.m > 0).tolist()
    curves = _curves_at_scores(curve, curve.precision.dtype)
    for has_recall, (precision, recall, score) in zip(occurs, curves, strict=True):
        index = torch.searchsorted(score, thresholds)  # of the lowest score that reaches the threshold
        retrieved = index < len(score)
        reached_precision = torch.where(retrieved, precision[index], 0)
        terms = (reached_precision, retrieved, recall[index] if has_recall else 0, has_recall)
        for total, term in zip(sums, terms, strict=True):
            total += term
    precision, recall = sums[0] / sums[1], sums[2] / sums[3]
    return PrecisionRecallCurve(append_point(precision.to(dtype), 1.0), append_point(recall.to(dtype), 0.0), thresholds)


def _curve_at_thresholds(
    binned: Tensor, levels: Tensor, dtype: torch.dtype, single: bool, average: CurveAverage
) -> PrecisionRecallCurve:
    """Return precision and recall from (C, T + 1, 2) misses and hits per bin."""
    if average == "micro":
        binned = binned.sum(0, keepdim=True)
    at = counts.counts_from_bins(binned[:, :, 1], binned.sum(2))
    precision, recall = at.precision.flip(1), at.recall.flip(1)
    if average == "macro":
        precision, recall = precision.nanmean(0), recall.nanmean(0)
    elif single:
        precision, recall = precision[0], recall[0]
    return PrecisionRecallCurve(append_point(precision.to(dtype), 1.0), append_point(recall.to(dtype), 0.0), levels)


def append_point(values: Tensor, last: float) -> Tensor:
    """Append the last point, which has no threshold."""
    return torch.cat([values, values.new_full((*values.shape[:-1], 1), last)], -1)
