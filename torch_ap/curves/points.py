"""Average precision from points of a curve, and interpolated precision: the highest precision at or above a recall."""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from torch_ap.core.base import checks, tensors
from torch_ap.core.base.deprecated import renamed_keywords
from torch_ap.core.base.options import IgnoreIndex, PointsInterpolation, allowed_values
from torch_ap.core.base.record import Record
from torch_ap.core.items.settings import result_dtype, validated_curve
from torch_ap.core.measures import interpolation
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve

_EPSILONS = 8  # tolerance in units of eps: hits and depths, their differences and sums are each rounded once


@renamed_keywords(between="interpolate")
def average_precision_from_hit_curve(
    hits: Tensor, t: Tensor | None = None, *, m: float | None = None, interpolate: Literal["step", "line"] = "step"
) -> Tensor:
    r"""Return the average precision of points of a hit curve h(t).

    .. math::
        AP = \int_0^1 p\,dr = \int \frac{\pi r(t) r'(t)}{t} dt = \frac{1}{m} \int \frac{h(t) h'(t)}{t} dt

    "step" is the sum of p(t_i) (r(t_i) - r(t_{i-1})): the items between two points are one tie group. "line" is the
    integral of a curve that is linear between its points, as in plots of large collections.

    Args:
        hits: (T,) h at each depth, not negative and not decreasing: numbers of items, or fractions of n.
        t: (T,) depths above 0, ascending, in the unit of ``hits``. None for the ranks 1 to T. The curve is linear from
            (0, 0) to the first point; omit (0, 0). It can rise by at most 1 per rank (Lemma 5).
        m: number of all relevant items, in the same unit (Zhu's pi). Relevant items that are not on the curve count as
            0. None for the last h.
        interpolate: "step" or "line", as above.

    Returns:
        0-d float64; NaN if m is 0.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals :func:`torch_ap.functional.binary_average_precision` of the ranking if the points are all ranks, or the ends
    of all tie groups.

    Source: Zhu (2004), Lemma 4 ("line") and example 3 ("step").

    Example:
        >>> import torch
        >>> from torch_ap.curves import average_precision_from_hit_curve
        >>> average_precision_from_hit_curve(torch.tensor([1, 2, 2, 3, 3, 3, 3, 3]))
        tensor(0.9167, dtype=torch.float64)
        >>> t, h = torch.tensor([0.05, 1.0]), torch.tensor([0.05, 0.05])
        >>> average_precision_from_hit_curve(h, t, interpolate="line")
        tensor(1., dtype=torch.float64)
    """
    checks.one_of("interpolate", interpolate, ("step", "line"))
    tensors.numbers("hits", hits)
    if t is not None:
        tensors.numbers("t", t)
        tensors.paired_lengths(hits=hits, t=t)
    h = segments.as_float64(hits.detach())
    depth = (
        torch.arange(1, len(h) + 1, device=h.device, dtype=h.dtype) if t is None else segments.as_float64(t.detach())
    )
    floats = (x.dtype for x in (hits, depth if t is None else t) if x.is_floating_point())
    slack = _EPSILONS * max((torch.finfo(dtype).eps for dtype in floats), default=0.0)
    _check_hit_curve(h, depth, slack)
    total = h[-1]
    if m is not None:
        checks.not_negative("m", m)
        if m < float(total) * (1 - slack):
            raise ValueError(f"`m` must be at least the last of `hits`, got m={m} and {float(total)}")
        total = torch.full_like(total, float(m))
    if interpolate == "line":
        start = h.new_zeros(1)
        return area_of_precision(torch.cat([start, depth]), torch.cat([start, h]), total)
    rise = torch.diff(h, prepend=h.new_zeros(1))
    return (rise * h / depth).sum() / total


def average_precision_from_precision_recall(
    precision: Tensor, recall: Tensor, *, interpolation: PointsInterpolation = None
) -> Tensor:
    """Return the average precision of points of a precision-recall curve, from a file or another package.

    It is the sum of precision times the gain in recall. If several points have the same recall, the highest precision
    counts, because its threshold is the first to reach this recall. Recall that no point reaches counts as 0. Points at
    recall 0, such as the conventional end (1, 0), are used only for the trapezoid.

    Args:
        precision: (T,) numbers in [0, 1]; NaN is valid at recall 0, if nothing is retrieved.
        recall: (T,) numbers in [0, 1], ascending or descending, with equal neighbours allowed.
        interpolation: None for the sum above. "all-points", "11-point", "11-point-arange", "101-point" or a 1-D tensor
            of recall levels use interpolated precision as in :func:`torch_ap.functional.binary_average_precision`
            ("11-point-arange" for float64 recall only; in float32 its levels equal the levels of "11-point").
            "trapezoid" is the area under straight lines between the points, extended to recall 0 with the precision of
            the first point.

    Returns:
        0-d float64.

    Raises:
        TypeError, ValueError: for an invalid argument.

    For the points of :func:`torch_ap.functional.precision_recall_curve`, the result equals
    :func:`torch_ap.functional.binary_average_precision` and ``sklearn.metrics.average_precision_score`` of the ranking.
    "trapezoid" equals ``sklearn.metrics.auc(recall, precision)`` for points from recall 0 on.

    Source: Zhu (2004), Definition 1 and Lemma 4.

    Example:
        >>> import torch
        >>> from torch_ap.curves import average_precision_from_precision_recall
        >>> precision, recall = torch.tensor([1.0, 1.0, 0.75, 0.5]), torch.tensor([0.25, 0.5, 0.75, 1.0])
        >>> average_precision_from_precision_recall(precision, recall)
        tensor(0.8125, dtype=torch.float64)
    """
    for name, value in (("precision", precision), ("recall", recall)):
        tensors.numbers(name, value)
    tensors.paired_lengths(precision=precision, recall=recall)
    if isinstance(interpolation, Tensor):
        tensors.recall_levels("interpolation", interpolation)
    else:
        checks.one_of(
            "interpolation", interpolation, allowed_values(PointsInterpolation), or_else="a 1-D tensor of recall levels"
        )
    p, r = _ascending_points(precision, recall)
    if isinstance(interpolation, str) and interpolation == "trapezoid":
        return torch.trapezoid(p, r) + (p[:1] * r[:1]).sum()
    return _area_of_points(p[r > 0], r[r > 0], recall.dtype, interpolation)


def area_of_precision(t: Tensor, hits: Tensor, m: Tensor) -> Tensor:
    """Return the integral of p dr along straight lines between the points of a hit curve, from (0, 0): 0-d float64.

    On a line h = a + b t it is (b / m) (a log(t1 / t0) + b (t1 - t0)), with a = 0 for t0 = 0.
    """
    run, rise = t.diff(), hits.diff()
    start, slope = t[:-1], rise / run
    below = hits[:-1] - slope * start
    logs = torch.where(start > 0, torch.log1p(run / start), 0)
    return (slope * (torch.where(start > 0, below, 0) * logs + rise)).sum() / m


def _check_hit_curve(h: Tensor, t: Tensor, slack: float) -> None:
    """Raise ValueError unless the curve starts at (0, 0), never falls, and rises by at most 1 per rank."""
    run, rise = (torch.diff(x, prepend=x.new_zeros(1)) for x in (t, h))
    for name, bad, rule in (
        ("t", ~(run > 0), "ascend from above 0"),
        ("hits", ~(rise >= 0), "not be negative and not decrease"),
        ("hits", ~(rise <= run + slack * t), "rise by at most 1 per rank"),
    ):
        if bool(bad.any()):
            index = int(bad.nonzero()[0])
            value = float((t if name == "t" else h)[index])
            raise ValueError(f"`{name}` must {rule}, got {value:g} at index {index}")


def _ascending_points(precision: Tensor, recall: Tensor) -> tuple[Tensor, Tensor]:
    """Validate the points and return them by ascending recall, float64, without points that retrieve nothing."""
    p, r = segments.as_float64(precision.detach()), segments.as_float64(recall.detach())
    is_empty = torch.isnan(p) & (r == 0)
    for name, value in (("precision", p), ("recall", r)):
        bad = ~((value >= 0) & (value <= 1)) & ~is_empty
        if bool(bad.any()):
            index = int(bad.nonzero()[0])
            raise ValueError(f"`{name}` must be in [0, 1], got {float(value[index]):g} at index {index}")
    p, r = p[~is_empty], r[~is_empty]
    steps = r.diff()
    if bool((steps < 0).any()):
        if bool((steps > 0).any()):
            index = int((steps > 0).nonzero()[0])
            raise ValueError(f"`recall` must ascend or descend, got both directions, at index {index}")
        p, r = p.flip(0), r.flip(0)
    return p, r


def _area_of_points(p: Tensor, r: Tensor, dtype: torch.dtype, how: Any) -> Tensor:
    """Return the step sum, or an area under interpolated precision."""
    r, group = torch.unique_consecutive(r, return_inverse=True)
    p, whole = torch.zeros_like(r).scatter_reduce_(0, group, p, "amax"), torch.tensor([0, len(r)], device=r.device)
    if how is None or (isinstance(how, str) and how == "all-points"):
        height = p if how is None else segments.maximum_from_right(p, whole)
        return (torch.diff(r, prepend=r.new_zeros(1)) * height).sum()
    levels = how.to(r.device) if isinstance(how, Tensor) else interpolation.recall_levels(how, r.device)
    # levels are rounded like the recall, so that a recall of 7 / 10 reaches the level 0.7 in float32 too
    levels = levels.to(dtype) if dtype.is_floating_point else levels
    return interpolation.max_at_recall(p, r, segments.as_float64(levels), whole)[0].mean()


_LEVELS = (None, "11-point", "101-point")


class _InterpolatedPrecision(NamedTuple):
    recall: Tensor
    precision: Tensor


class InterpolatedPrecision(Record, _InterpolatedPrecision):
    """Interpolated precision at recall levels.

    Attributes:
        recall: (L,) the levels.
        precision: (L,) the highest precision at or above each recall.
    """

    __slots__ = ()


class _PrecisionAtRecall(NamedTuple):
    precision: Tensor
    recall: Tensor
    threshold: Tensor


class PrecisionAtRecall(Record, _PrecisionAtRecall):
    """The threshold with the highest precision among the thresholds that reach a recall.

    Attributes:
        precision: 0-d or (L,), the highest precision.
        recall: the recall at the threshold, at least the required one.
        threshold: the score threshold: ``preds >= threshold`` has this precision and recall.
    """

    __slots__ = ()


def interpolated_precision(
    preds: Tensor, target: Tensor, recall_levels: str | Tensor | None = None
) -> InterpolatedPrecision:
    r"""Return the interpolated precision: the highest precision at or above each recall.

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
        TypeError, ValueError: for an invalid argument.

    The mean over the levels equals :func:`torch_ap.functional.binary_average_precision` with ``interpolation`` of the
    same name. The area under the curve equals "all-points".

    Source: Salton & McGill (1983); Everingham et al. (2010), The PASCAL VOC Challenge, section 4.2.

    Example:
        >>> import torch
        >>> from torch_ap.functional import interpolated_precision
        >>> points = interpolated_precision(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([0, 1, 1, 0]))
        >>> points.recall, points.precision
        (tensor([0.5000, 1.0000]), tensor([0.6667, 0.6667]))
    """
    return interpolated_points(validated_curve(preds, target), recall_levels, result_dtype(preds.dtype))


def interpolated_points(
    curve: HitCurve, recall_levels: str | Tensor | None, dtype: torch.dtype
) -> InterpolatedPrecision:
    """Return :func:`interpolated_precision` of the hit curve of one ranking, with one entry per group with hits."""
    levels: Any = recall_levels
    if isinstance(levels, Tensor):
        tensors.recall_levels("recall_levels", levels)
    else:
        checks.one_of("recall_levels", levels, _LEVELS, or_else="a 1-D tensor of recall levels")
    if levels is None:
        recall = segments.as_float64(curve.cumulative_hits) / segments.as_float64(curve.m)
        return InterpolatedPrecision(recall.to(dtype), interpolation.envelope(curve).to(dtype))
    device = curve.m.device
    levels = interpolation.recall_levels(levels, device) if isinstance(levels, str) else levels.detach().to(device)
    return InterpolatedPrecision(levels.to(dtype), interpolation.precision_at_levels(curve, levels)[0].to(dtype))


def binary_precision_at_fixed_recall(
    preds: Tensor,
    target: Tensor,
    min_recall: float | Tensor,
    *,
    ignore_index: IgnoreIndex = None,
    validate_args: bool = True,
    weights: Tensor | None = None,
) -> PrecisionAtRecall:
    """Return the highest precision of the thresholds that reach a recall, and its threshold.

    If several thresholds have this precision, the result is the one with the highest recall.

    Args:
        preds: (N, ...) floating or integer scores, no NaN.
        target: (N, ...) integers or bool, 0 or 1.
        min_recall: a number in [0, 1], or a 1-D floating tensor of numbers.
        ignore_index: target value of items to ignore, or a sequence of such values.
        validate_args: whether to check values.
        weights: (N, ...) finite weights of at least 0; counts are then sums of weights.

    Returns:
        precision, recall and threshold, 0-d or (L,). The first two are float64 for float64 scores, else float32; the
        threshold has the dtype of floating scores, and is float64 for integers. All NaN without positives.

    Raises:
        TypeError, ValueError: for an invalid argument.

    Equals ``torchmetrics.functional.classification.binary_precision_at_fixed_recall`` without a sigmoid, if all
    thresholds have different recalls. For equal recalls torchmetrics returns the highest score. torchmetrics returns
    precision and threshold only.

    Source: van Rijsbergen (1979), chapter 7; "Recall (information retrieval)", Wikipedia.

    Example:
        >>> import torch
        >>> from torch_ap.functional import binary_precision_at_fixed_recall
        >>> preds, target = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5]), torch.tensor([1, 0, 1, 1, 0])
        >>> [round(float(x), 4) for x in binary_precision_at_fixed_recall(preds, target, 0.5)]
        [0.75, 1.0, 0.6]
    """
    if isinstance(min_recall, Tensor):
        tensors.recall_levels("min_recall", min_recall)
    else:
        checks.fraction("min_recall", min_recall)
    curve = validated_curve(preds, target, weights, ignore_index=ignore_index, validate_args=validate_args)
    p = curve.precision
    levels = min_recall.detach().to(p.device) if isinstance(min_recall, Tensor) else p.new_tensor([min_recall])
    entry = interpolation.best_entries(curve, levels)
    own, dtype = preds.dtype if preds.is_floating_point() else torch.float64, result_dtype(preds.dtype)
    assert curve.score is not None

    def values_at_levels(values: Tensor, dtype: torch.dtype) -> Tensor:
        at_levels = torch.cat([values.to(dtype), values.new_full((1,), torch.nan, dtype=dtype)])[entry]
        return at_levels if isinstance(min_recall, Tensor) else at_levels[0]

    recall = segments.as_float64(curve.cumulative_hits) / segments.as_float64(curve.m)
    return PrecisionAtRecall(
        values_at_levels(p, dtype), values_at_levels(recall, dtype), values_at_levels(curve.score, own)
    )
