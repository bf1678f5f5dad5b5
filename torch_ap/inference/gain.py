"""Intervals of measures relative to the share of hits: normalized average precision, and precision-recall gain."""

from dataclasses import replace

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.options import Design
from torch_ap.core.items.settings import validated_curve
from torch_ap.core.measures.average_precision import average_precision
from torch_ap.core.measures.relative import precision_recall_gain_area
from torch_ap.core.ranking import segments
from torch_ap.inference import influence, record
from torch_ap.inference.dirichlet import WeightedItems, replicate_ends
from torch_ap.inference.edge_cases import resolve_edge_cases
from torch_ap.inference.record import Interval, degrees_of_freedom, first_interval
from torch_ap.inference.resampling import InferenceSettings, Resampling


def normalized_average_precision_interval(
    preds: Tensor, target: Tensor, *, confidence_level: float = 0.95, design: Design = "iid"
) -> Interval:
    r"""Return normalized average precision, (AP - pi) / (1 - pi) for the share pi of hits, with its interval.

    A random ranking of many items has the value 0 for any pi, and a perfect ranking 1. The estimand is the limit of the
    value as items are added. The standard error comes from the influence values psi of AP and from the share of hits:

    .. math::
        e_i = \frac{\psi_i}{1 - \pi} - \frac{(1 - AP)(y_i - \pi)}{(1 - \pi)^2}, \qquad SE^2 = \frac{1}{n^2} \sum_i e_i^2

    with Student's t for min(m, q) - 1 degrees of freedom, on the logit scale for a value in (0, 1). The ends for AP = 1
    and for few hits or misses follow :func:`torch_ap.inference.average_precision_interval`.

    Args:
        preds: (N,) scores of one ranking, no NaN; tied items enter together.
        target: (N,) values 0 and 1.
        confidence_level: nominal coverage, in (0, 1).
        design: "iid" or "stratified", as for :func:`torch_ap.inference.average_precision_interval`.

    Returns:
        :class:`torch_ap.inference.Interval` of 0-d float64 tensors; NaN without hits or without misses.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Coverage at 95%, m random, 100 to 1,000 items with 10 to 100 hits: .938 to .961 (``benchmarks.coverage``). The value
    is also ``Curve.normalized_average_precision``.

    Example:
        >>> import torch
        >>> from torch_ap.inference import normalized_average_precision_interval
        >>> preds, target = torch.arange(40, 0, -1.0), torch.tensor([1, 1, 0, 1] * 5 + [0] * 20)
        >>> found = normalized_average_precision_interval(preds, target)
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high)]
        [0.312, 0.686, 0.913]
    """
    options = InferenceSettings(confidence_level, "influence", design)
    curve = validated_curve(preds, target)
    n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
    ap, share = average_precision(curve), m / n
    variance = influence.variance(curve, "stratified") / (1 - share) ** 2
    if design == "iid":
        slope = influence.prevalence_slope(curve) / (1 - share) - (1 - ap) / (1 - share) ** 2
        variance += influence.prevalence_variance(curve, slope)
    value, error = (ap - share) / (1 - share), variance.sqrt()
    quantile = record.student_quantile(options.confidence_level, degrees_of_freedom(curve))
    is_inside = (value > 0) & (value < 1)
    ends = zip(record.logit(value, error, quantile), record.wald(value, error, quantile), strict=True)
    low, high = (torch.where(is_inside, inner, outer) for inner, outer in ends)
    found = resolve_edge_cases(Interval(value, low, high.clamp(max=1), error, **options.fields), curve)
    if bool((ap == 1) & (curve.m > 1)):  # the lower end is an end of AP
        found = replace(found, low=(found.low - share) / (1 - share))
    return first_interval(found)


def precision_recall_gain_interval(
    preds: Tensor,
    target: Tensor,
    *,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Interval:
    r"""Return the area under the precision-recall-gain curve, with its interval by Dirichlet weights.

    .. math::
        precG = \frac{p - \pi}{(1 - \pi) p}, \qquad recG = \frac{r - \pi}{(1 - \pi) r}, \qquad
        AUPRG = \int_0^1 precG\ d\, recG

    with precision p, recall r and the share pi of hits. The gains are linear between thresholds. A perfect ranking has
    the area 1, a random ranking of many items 0; a ranking below chance can have any negative value. The estimand is
    the limit of the area as items are added.

    Args:
        preds: (N,) scores of one ranking, no NaN; tied items enter together.
        target: (N,) values 0 and 1.
        confidence_level: nominal coverage, in (0, 1).
        n_resamples: number of draws of weights, at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`torch_ap.inference.Interval` of 0-d float64 tensors, by method "dirichlet" for random numbers of hits;
        NaN without hits or without misses.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Coverage at 95%, m random, 100 to 1,000 items with 10 to 100 hits: .959 to .983 (``benchmarks.coverage``).

    Equals ``calc_auprg(create_prg_curve(labels, scores))`` of the package of the paper. The curve is
    ``Curve.precision_recall_gain()``. Source: Flach & Kull (2015), Precision-Recall-Gain Curves: PR Analysis Done
    Right; for the interval :mod:`torch_ap.inference.dirichlet`.

    Example:
        >>> import torch
        >>> from torch_ap.inference import precision_recall_gain_interval
        >>> preds, target = torch.arange(40, 0, -1.0), torch.tensor([1, 1, 0, 1] * 5 + [0] * 20)
        >>> found = precision_recall_gain_interval(preds, target)
        >>> [round(float(x), 2) for x in (found.low, found.estimate, found.high)]
        [0.45, 0.81, 0.96]
    """
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    curve = validated_curve(preds, target)
    estimate = precision_recall_gain_area(curve)[0]
    nan = torch.full_like(estimate, torch.nan)
    low, high, reason = nan, nan, ""
    if int(curve.m) in (0, int(curve.n)):
        reason = f"no {'misses' if int(curve.m) else 'hits'}: everything is NaN"
    else:
        items = WeightedItems.from_curve(curve)
        ends = replicate_ends(items, precision_recall_gain_area, confidence_level, resampling)
        low, high = (end.to(estimate) for end in ends)
    return Interval(estimate, low, high, nan, confidence_level, "dirichlet", "iid", reason)
