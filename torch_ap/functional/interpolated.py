"""Interpolated precision as data: the highest precision at a recall or beyond, and the score that gives it."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.curve import interpolation
from torch_ap.evaluation.average_precision import curve_of_one, result_dtype
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks, tensors

_LEVELS = (None, "11-point", "101-point")


class InterpolatedPrecision(NamedTuple):
    """Interpolated precision at recall levels.

    Attributes:
        recall: (L,) the levels.
        precision: (L,) the highest precision at that recall or beyond.
    """

    recall: Tensor
    precision: Tensor


class PrecisionAtRecall(NamedTuple):
    """The best threshold among those that reach a recall.

    Attributes:
        precision: 0-d or (L,), the highest precision.
        recall: the recall there, at least the one asked for.
        threshold: the score: ``preds >= threshold`` has that precision and recall.
    """

    precision: Tensor
    recall: Tensor
    threshold: Tensor


def interpolated_precision(
    preds: Tensor, target: Tensor, recall_levels: str | Tensor | None = None
) -> InterpolatedPrecision:
    r"""Interpolated precision: at each recall the highest precision at that recall or beyond.

    .. math::
        p_{interp}(r) = \max_{\tilde r \ge r} p(\tilde r)

    Args:
        preds: (N, ...) floating or integer scores, no NaN.
        target: (N, ...) integers or bool, 0 or 1.
        recall_levels: "11-point" for 0, .1, ..., 1; "101-point" for 0, .01, ..., 1; or a 1-D tensor of levels in
            [0, 1]. None for every recall that the ranking reaches, ascending.

    Returns:
        recall and precision, (L,) each; float64 for float64 scores, else float32. Precision is NaN without positives.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals, averaged over the levels, :func:`torch_ap.functional.binary_average_precision` with ``interpolation`` of
    that name; its area is that of "all-points".

    Source: Salton & McGill (1983); Everingham et al. (2010), The PASCAL VOC Challenge, section 4.2.

    Example:
        >>> import torch
        >>> from torch_ap.functional import interpolated_precision
        >>> points = interpolated_precision(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([0, 1, 1, 0]))
        >>> points.recall, points.precision
        (tensor([0.5000, 1.0000]), tensor([0.6667, 0.6667]))
    """
    return interpolated_points(curve_of_one(preds, target), recall_levels, result_dtype(preds.dtype))


def interpolated_points(
    curve: HitCurve, recall_levels: str | Tensor | None, dtype: torch.dtype
) -> InterpolatedPrecision:
    """:func:`interpolated_precision` of the hit curve of one ranking, with an entry for each group that holds a hit."""
    levels: Any = recall_levels
    if isinstance(levels, Tensor):
        tensors.recall_levels("recall_levels", levels)
    else:
        checks.one_of("recall_levels", levels, _LEVELS, or_else="a 1-D tensor of recall levels")
    if levels is None:
        recall = segments.as_float64(curve.cumulative_hits) / segments.as_float64(curve.m)
        return InterpolatedPrecision(recall.to(dtype), interpolation.envelope(curve).to(dtype))
    device = curve.m.device
    levels = interpolation.levels_of(levels, device) if isinstance(levels, str) else levels.detach().to(device)
    return InterpolatedPrecision(levels.to(dtype), interpolation.at_levels(curve, levels)[0].to(dtype))


def precision_at_recall(
    preds: Tensor, target: Tensor, min_recall: float | Tensor, *, weights: Tensor | None = None
) -> PrecisionAtRecall:
    """The highest precision of the thresholds that reach a recall, and the score that gives it.

    Of thresholds with that precision, it is the one of the highest recall.

    Args:
        preds: (N, ...) floating or integer scores, no NaN.
        target: (N, ...) integers or bool, 0 or 1.
        min_recall: a number in [0, 1], or a 1-D floating tensor of them.
        weights: (N, ...) finite weights of at least 0; counts are then their sums.

    Returns:
        precision, recall and threshold, 0-d or (L,). The first two are float64 for float64 scores, else float32; the
        threshold has the dtype of floating scores, and is float64 for integers. All NaN without positives.

    Raises:
        TypeError, ValueError: for an argument that breaks one of these rules.

    Equals ``torchmetrics.functional.classification.binary_precision_at_fixed_recall``, where that applies no sigmoid
    and several thresholds have no recall in common; of those it takes the highest score.

    Source: the measure is named in "Recall (information retrieval)", Wikipedia; van Rijsbergen (1979), chapter 7.

    Example:
        >>> import torch
        >>> from torch_ap.functional import precision_at_recall
        >>> preds, target = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5]), torch.tensor([1, 0, 1, 1, 0])
        >>> [round(float(x), 4) for x in precision_at_recall(preds, target, 0.5)]
        [0.75, 1.0, 0.6]
    """
    if isinstance(min_recall, Tensor):
        tensors.recall_levels("min_recall", min_recall)
    else:
        checks.fraction("min_recall", min_recall)
    curve = curve_of_one(preds, target, weights)
    p = curve.precision
    levels = min_recall.detach().to(p.device) if isinstance(min_recall, Tensor) else p.new_tensor([min_recall])
    entry = interpolation.best_entries(curve, levels)
    own, dtype = preds.dtype if preds.is_floating_point() else torch.float64, result_dtype(preds.dtype)
    assert curve.score is not None

    def at_entries(values: Tensor, dtype: torch.dtype) -> Tensor:
        found = torch.cat([values.to(dtype), values.new_full((1,), torch.nan, dtype=dtype)])[entry]
        return found if isinstance(min_recall, Tensor) else found[0]

    recall = segments.as_float64(curve.cumulative_hits) / segments.as_float64(curve.m)
    return PrecisionAtRecall(at_entries(p, dtype), at_entries(recall, dtype), at_entries(curve.score, own))
