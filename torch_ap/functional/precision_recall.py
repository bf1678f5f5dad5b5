"""Precision and recall at every threshold: the curve that average precision summarizes."""

import itertools
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from torch_ap.curve import counts
from torch_ap.evaluation.arguments import inputs_and_thresholds
from torch_ap.evaluation.average_precision import result_dtype, warn_of_logits
from torch_ap.inputs.classification import Batch, ClassificationInputs, bins_of, counted, curve_of
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.options import CurveAverage, Normalization, Thresholds, allowed


class PrecisionRecallCurve(NamedTuple):
    """Precision and recall at each threshold, thresholds ascending; a last point (1, 0) has no threshold.

    Attributes:
        precision: (T + 1,), a list of such for several rankings, or (C, T + 1) at given thresholds.
        recall: likewise.
        thresholds: (T,), a list of such, or the (T,) given.
    """

    precision: Tensor | list[Tensor]
    recall: Tensor | list[Tensor]
    thresholds: Tensor | list[Tensor]


def binary_precision_recall_curve(
    preds: Tensor,
    target: Tensor,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    weights: Tensor | None = None,
    normalization: Literal["none", "sigmoid"] | None = None,
) -> PrecisionRecallCurve:
    r"""Precision and recall of one ranking where everything that scores at least a threshold is called positive.

    .. math::
        p = \frac{tp}{tp + fp}, \qquad r = \frac{tp}{m}

    Args:
        preds: (N, ...) floating or integer scores, no NaN.
        target: (N, ...) integers or bool, 0 or 1.
        thresholds: None for every distinct score; an int (that many from 0 to 1), list or 1-D tensor for those
            thresholds, in any order.
        ignore_index: target value of items that do not count.
        validate_args: whether values are checked.
        weights: (N, ...) finite weights of at least 0.
        normalization: "sigmoid" to apply one; None or "none" leaves the scores as they are.

    Returns:
        precision (T + 1,), recall (T + 1,) and thresholds (T,), in ascending order of the thresholds; float64 for
        float64 scores, else float32. Recall is NaN without positives (scikit-learn and torchmetrics then set it to 1),
        precision NaN where nothing is retrieved.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules; the message names it.

    Equals ``sklearn.metrics.precision_recall_curve``, and torchmetrics' function of this name where that does not apply
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
    return curve_of_inputs(inputs, levels, preds, target, weights, None)


def multiclass_precision_recall_curve(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    thresholds: Thresholds = None,
    average: CurveAverage = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    weights: Tensor | None = None,
    normalization: Normalization = None,
) -> PrecisionRecallCurve:
    """Precision and recall of each class against the rest, or of all of them together.

    Args:
        preds: (N, C, ...) floating or integer scores.
        target: (N, ...) class ids in [0, C).
        num_classes: C, at least 2.
        thresholds: as for :func:`binary_precision_recall_curve`.
        average: None for one curve per class; "micro" for the curve of all N * C scores as one ranking; "macro" for the
            mean over classes of precision and recall at each threshold, the distinct scores of all classes or those
            given. A class that retrieves nothing there has no precision, and no part in that mean.
        ignore_index, validate_args: as there.
        weights: (N, ...) finite weights of at least 0.
        normalization: "softmax", "sigmoid", "none" or None, as for
            :func:`torch_ap.functional.multiclass_average_precision`.

    Returns:
        Lists of C tensors; (C, T + 1), (C, T + 1) and (T,) at given thresholds; one curve's tensors with an average.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules; the message names it.

    Equals torchmetrics' function of this name where that does not apply a softmax, but for "macro": it interpolates
    recall as a function of precision, which no such function is, since precision goes up and down.

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
    checks.one_of("average", average, allowed(CurveAverage))
    inputs, levels = inputs_and_thresholds(
        thresholds, ignore_index, validate_args, normalization, name="num_classes", width=num_classes
    )
    return curve_of_inputs(inputs, levels, preds, target, weights, average)


def multilabel_precision_recall_curve(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
    *,
    weights: Tensor | None = None,
    normalization: Literal["none", "sigmoid"] | None = None,
) -> PrecisionRecallCurve:
    """Precision and recall of each label.

    Args:
        preds: (N, L, ...) floating or integer scores.
        target: (N, L, ...) integers or bool, 0 or 1.
        num_labels: L, at least 2.
        thresholds, ignore_index, validate_args, normalization: as for :func:`binary_precision_recall_curve`.
        weights: (N, ...) or (N, L, ...) finite weights of at least 0.

    Returns:
        Lists of L tensors; at given thresholds (L, T + 1), (L, T + 1) and (T,).

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules; the message names it.

    Equals torchmetrics' function of this name where that does not apply a sigmoid.

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
    return curve_of_inputs(inputs, levels, preds, target, weights, None)


def curve_of_inputs(
    inputs: ClassificationInputs,
    levels: Tensor | None,
    preds: Tensor,
    target: Tensor,
    weights: Tensor | None,
    average: CurveAverage,
) -> PrecisionRecallCurve:
    """The curve of a checked batch, or the curves."""
    batch = inputs.validate_now(preds, target, weights)
    warn_of_logits(inputs, batch)
    dtype, one = result_dtype(preds.dtype), inputs.width is None or average == "micro"
    if levels is not None:
        levels = levels.to(preds.device)
        return _at_thresholds(bins_of(batch, levels, ignoring=inputs.ignoring), levels, dtype, one, average)
    if average == "micro":
        batch = _one_ranking_of_classes(batch)
    curve = curve_of(batch, ignoring=inputs.ignoring, keep_all_groups=True)
    if average == "macro":
        return _mean_of_curves(curve, dtype)
    each = _at_scores(curve, dtype)
    return PrecisionRecallCurve(*(each[0] if one else map(list, zip(*each, strict=True))))


def _one_ranking_of_classes(batch: Batch) -> Batch:
    """Every score of every item, positive where it is that of the item's class."""
    kept = counted(batch.target)
    scores, target = batch.scores[kept], batch.target[kept]
    hits = target[:, None] == torch.arange(scores.shape[1], device=scores.device)
    weights = None if batch.weights is None else batch.weights[kept].repeat_interleave(scores.shape[1])
    return Batch(scores.flatten(), hits.flatten().to(torch.uint8), weights)


def _at_scores(curve: HitCurve, dtype: torch.dtype) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Precision, recall and thresholds of each ranking, at every distinct score."""
    assert curve.score is not None
    recall = curve.cumulative_hits / segments.as_float64(curve.m)[curve.segment]
    each = []
    for first, last in itertools.pairwise(curve.offsets.tolist()):
        p, r, score = (x[first:last].flip(0) for x in (curve.precision, recall, curve.score))
        each.append((ended(p.to(dtype), 1.0), ended(r.to(dtype), 0.0), score))
    return each


def _mean_of_curves(curve: HitCurve, dtype: torch.dtype) -> PrecisionRecallCurve:
    """The mean of precision and recall over rankings, at the distinct scores of all of them."""
    assert curve.score is not None
    thresholds = torch.unique(curve.score)
    sums = [torch.zeros(len(thresholds), dtype=curve.precision.dtype, device=thresholds.device) for _ in range(4)]
    occurs = (curve.m > 0).tolist()
    for has_recall, (precision, recall, score) in zip(occurs, _at_scores(curve, curve.precision.dtype), strict=True):
        place = torch.searchsorted(score, thresholds)  # of the lowest score that reaches the threshold
        retrieved = place < len(score)
        parts = (torch.where(retrieved, precision[place], 0), retrieved, recall[place] if has_recall else 0, has_recall)
        for total, part in zip(sums, parts, strict=True):
            total += part
    precision, recall = sums[0] / sums[1], sums[2] / sums[3]
    return PrecisionRecallCurve(ended(precision.to(dtype), 1.0), ended(recall.to(dtype), 0.0), thresholds)


def _at_thresholds(
    binned: Tensor, levels: Tensor, dtype: torch.dtype, one: bool, average: CurveAverage
) -> PrecisionRecallCurve:
    """Precision and recall from (C, T + 1, 2) misses and hits per bin."""
    if average == "micro":
        binned = binned.sum(0, keepdim=True)
    at = counts.counts_from_bins(binned[:, :, 1], binned.sum(2))
    precision, recall = at.precision.flip(1), at.recall.flip(1)
    if average == "macro":
        precision, recall = precision.nanmean(0), recall.nanmean(0)
    elif one:
        precision, recall = precision[0], recall[0]
    return PrecisionRecallCurve(ended(precision.to(dtype), 1.0), ended(recall.to(dtype), 0.0), levels)


def ended(values: Tensor, last: float) -> Tensor:
    """With a last point, which no threshold reaches."""
    return torch.cat([values, values.new_full((*values.shape[:-1], 1), last)], -1)
