"""Measures relative to the share of hits, normalized average precision and precision-recall gain, with inference.

For items in groups, the delete-one-group jackknife of :mod:`torch_ap.inference.groups` gives the standard error and the
degrees of freedom. Values below chance are negative, so intervals are on the logit scale of a function with values in
(0, 1): of AP for normalized AP, with the share of hits of the sample, and of 1 / (2 - a) for the area a under the
precision-recall-gain curve, whose logit is -log(1 - a).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.options import Design, allowed_values
from torch_ap.core.items.settings import validated_curve
from torch_ap.core.measures.average_precision import average_precision
from torch_ap.core.measures.relative import NormalizedAveragePrecision, precision_recall_gain_area
from torch_ap.core.metric.samples import SampleIds
from torch_ap.core.ranking import builders, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import groups as grouped
from torch_ap.inference import influence, record
from torch_ap.inference.comparison import PairedGroups, RankedPair, logit_test
from torch_ap.inference.comparison_at_k import Mover, SharedItems
from torch_ap.inference.dirichlet import WeightedItems, replicate_ends
from torch_ap.inference.edge_cases import resolve_edge_cases
from torch_ap.inference.groups_at_k import values_without_groups_at_k
from torch_ap.inference.record import Comparison, Interval, comparison_from_error, degrees_of_freedom, first_interval
from torch_ap.inference.resampling import InferenceSettings, Resampling

MeasureAboveChance: TypeAlias = Literal["normalized_average_precision", "precision_recall_gain"]
_NORMALIZED = NormalizedAveragePrecision().values


@dataclass(frozen=True)
class _UnitScale:
    """Increasing function of a measure with values in (0, 1).

    Attributes:
        to_unit: the function.
        from_unit: its inverse.
        slope: its derivative.
    """

    to_unit: Callable[[Any], Any]
    from_unit: Callable[[Any], Any]
    slope: Callable[[Any], Any]

    def interval(self, value: Tensor, error: Tensor, df: Tensor, options: InferenceSettings) -> Interval:
        """Return the interval by Student's t on the logit scale of the function."""
        quantile = record.student_quantile(options.confidence_level, df)
        ends = record.logit(self.to_unit(value), error * self.slope(value), quantile)
        low, high = (self.from_unit(x) for x in ends)
        return Interval(value, low, high, error, **options.fields)


def _unit_scale(measure: Callable[[HitCurve], Tensor], curve: HitCurve) -> _UnitScale:
    """Return the scale of normalized AP, which is AP, or of the area of gains."""
    if measure is not _NORMALIZED:
        return _UnitScale(lambda x: 1 / (2 - x), lambda u: 2 - 1 / u, lambda x: (2 - x) ** -2)
    share = float(curve.m) / max(float(curve.n), 1)
    return _UnitScale(lambda x: share + (1 - share) * x, lambda u: (u - share) / (1 - share), lambda _: 1 - share)


def normalized_average_precision_interval(
    preds: Tensor,
    target: Tensor,
    *,
    confidence_level: float = 0.95,
    design: Design = "iid",
    groups: SampleIds = None,
) -> Interval:
    r"""Return normalized average precision, (AP - pi) / (1 - pi) for the share pi of hits, with its interval.

    A random ranking of many items has the value 0 for any pi, and a perfect ranking 1. The estimand is the limit of the
    value as items are added. The standard error comes from the influence values psi of AP and from the share of hits:

    .. math::
        e_i = \frac{\psi_i}{1 - \pi} - \frac{(1 - AP)(y_i - \pi)}{(1 - \pi)^2}, \qquad SE^2 = \frac{1}{n^2} \sum_i e_i^2

    with Student's t for min(m, q) - 1 degrees of freedom, on the scale of logit(AP). The ends for AP = 1 and for few
    hits or misses follow :func:`torch_ap.inference.average_precision_interval`.

    Args:
        preds: (N,) scores of one ranking, no NaN; tied items enter together.
        target: (N,) values 0 and 1.
        confidence_level: nominal coverage, in (0, 1).
        design: "iid" or "stratified", as for :func:`torch_ap.inference.average_precision_interval`.
        groups: (N,) integers, a tensor or a list, the group of each item, such as a patient; None for independent
            items. With fewer than 10 groups with hits, a warning is raised.

    Returns:
        :class:`torch_ap.inference.Interval` of 0-d float64 tensors; NaN without hits or without misses.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Coverage at 95%, m random, 100 to 1,000 items with 10 to 500 hits: .939 to .961, also at chance, and .942 to .978
    with 10 to 200 groups (``benchmarks.coverage``). The value is also ``Curve.normalized_average_precision``.

    Example:
        >>> import torch
        >>> from torch_ap.inference import normalized_average_precision_interval
        >>> preds, target = torch.arange(40, 0, -1.0), torch.tensor([1, 1, 0, 1] * 5 + [0] * 20)
        >>> found = normalized_average_precision_interval(preds, target)
        >>> [round(float(x), 3) for x in (found.low, found.estimate, found.high)]
        [0.228, 0.686, 0.904]
    """
    options = InferenceSettings(confidence_level, "influence", design)
    curve = validated_curve(preds, target)
    ids = grouped.validate_groups(groups, preds.flatten().shape, preds.device)
    if ids is not None:
        grouped.check_design(design)
        return _grouped_interval(preds, target, ids, _NORMALIZED, options.confidence_level)
    n, m = segments.as_float64(curve.n), segments.as_float64(curve.m)
    ap, share = average_precision(curve), m / n
    variance = influence.variance(curve, "stratified") / (1 - share) ** 2
    if design == "iid":
        slope = influence.prevalence_slope(curve) / (1 - share) - (1 - ap) / (1 - share) ** 2
        variance += influence.prevalence_variance(curve, slope)
    scale = _unit_scale(_NORMALIZED, curve)
    interval = scale.interval(_NORMALIZED(curve), variance.sqrt(), degrees_of_freedom(curve), options)
    return _with_end_of_ap(resolve_edge_cases(interval, curve), curve)


def _with_end_of_ap(interval: Interval, curve: HitCurve) -> Interval:
    """Return the first interval; for a perfect ranking, the lower end of AP becomes that of normalized AP."""
    if bool((interval.estimate == 1) & (curve.m > 1)):
        share = segments.as_float64(curve.m) / segments.as_float64(curve.n)
        interval = replace(interval, low=(interval.low - share) / (1 - share))
    return first_interval(interval)


def _grouped_interval(
    preds: Tensor, target: Tensor, ids: Tensor, measure: Callable[[HitCurve], Tensor], confidence_level: float
) -> Interval:
    """Return the interval of a measure of items in groups by the jackknife."""
    options = InferenceSettings(confidence_level, "jackknife")
    scores, relevant = preds.detach().flatten(), target.flatten() == 1
    curve, groups = builders.from_scores(scores, relevant), grouped.Groups.from_ids(ids).pooled()
    hits = groups.hits(relevant)
    df = hits.new_tensor([groups.effective_count(hits)]) - 1
    value = measure(curve)
    error = torch.full_like(value, torch.nan)
    if 0 < int(curve.m) < int(curve.n):
        error = grouped.standard_error(_without_each_group(curve, scores, relevant, groups, measure))[None]
        error = torch.where((value < 1) & (error > record.SAME_VALUE), error, 0)  # 0 for tied scores, but for rounding
    interval = _unit_scale(measure, curve).interval(value, error, df, options)
    interval = _with_end_of_ap(resolve_edge_cases(interval, curve, df, "a value"), curve)
    if bool(interval.low.isnan()):
        return interval
    return replace(
        interval, reason="; ".join(filter(None, [interval.reason, grouped.few_groups_reason((hits > 0).sum())]))
    )


def _without_each_group(
    curve: HitCurve, scores: Tensor, relevant: Tensor, groups: Any, measure: Callable[[HitCurve], Tensor]
) -> Tensor:
    """Return a measure of a whole ranking without each group, (G,)."""
    return values_without_groups_at_k(curve, scores, relevant, groups, len(scores), lambda curves, _: measure(curves))


def precision_recall_gain_interval(
    preds: Tensor,
    target: Tensor,
    *,
    confidence_level: float = 0.95,
    groups: SampleIds = None,
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
        groups: (N,) integers, a tensor or a list, the group of each item, such as a patient; None for independent
            items. With fewer than 10 groups with hits, a warning is raised. The
            method is then "jackknife", without draws.
        n_resamples: number of draws of weights, at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`torch_ap.inference.Interval` of 0-d float64 tensors, by method "dirichlet" for random numbers of hits;
        NaN without hits or without misses.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    Coverage at 95%, m random, 100 to 1,000 items with 10 to 500 hits: .946 to .983, and .948 to .972 with 10 to 200
    groups (``benchmarks.coverage``).

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
    ids = grouped.validate_groups(groups, preds.flatten().shape, preds.device)
    if ids is not None:
        return _grouped_interval(preds, target, ids, precision_recall_gain_area, confidence_level)
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


_MEASURES: dict[str, Callable[[HitCurve], Tensor]] = {
    "normalized_average_precision": _NORMALIZED,
    "precision_recall_gain": precision_recall_gain_area,
}


def compare_rankings_above_chance(
    preds_a: Tensor,
    preds_b: Tensor,
    target: Tensor,
    *,
    measure: MeasureAboveChance = "normalized_average_precision",
    confidence_level: float = 0.95,
    groups: SampleIds = None,
    n_resamples: int = 1000,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Comparison:
    """Compare normalized AP, or the area under the precision-recall-gain curve, of two systems on the same items.

    The interval combines the intervals of both systems by Dirichlet weights, as in
    :func:`torch_ap.inference.compare_rankings_at_k`, and p is the smallest level at which it excludes 0. For items in
    groups, the values without each group give an interval and a p-value by Student's t, on the scale of the single
    intervals. The estimand is the difference of the limits of both values as items are added.

    Args:
        preds_a: (N,) scores of system A, no NaN; A and B may have different scales.
        preds_b: (N,) scores of system B.
        target: (N,) values 0 and 1.
        measure: "normalized_average_precision", (AP - pi) / (1 - pi) for the share pi of hits, or
            "precision_recall_gain".
        confidence_level: nominal coverage of the interval, in (0, 1).
        groups: (N,) integers, a tensor or a list, the group of each item, such as a patient; None for independent
            items. With fewer than 10 groups with hits, a warning is raised. The
            method is then "jackknife" instead of "dirichlet".
        n_resamples: number B of draws of weights, at least 2.
        generator: random number generator; None for a new one with seed 0, so that results repeat.
        chunk_size: number computed per step, which limits memory and changes no result; None for about 64 MB per step.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Returns:
        :class:`torch_ap.inference.Comparison`. NaN without hits or misses; p = 1 and ends of 0 if the systems rank the
        items in the same way. Equal values without a spread of items in groups are treated as by
        :func:`torch_ap.inference.compare_rankings`.

    Raises:
        TypeError, ValueError: if an argument is invalid.

    No other package has an equivalent. Source: Flach & Kull (2015) for the gain; Zou & Donner (2008); Rubin (1981).

    Example:
        >>> import torch
        >>> from torch_ap.inference import compare_rankings_above_chance
        >>> generator = torch.Generator().manual_seed(0)
        >>> target = (torch.rand(500, generator=generator) < 0.2).long()
        >>> a, b = (torch.randn(500, generator=generator) + shift * target for shift in (2.5, 1.0))
        >>> found = compare_rankings_above_chance(a, b, target)
        >>> [round(float(x), 1) for x in (found.low, found.difference, found.high)]
        [0.3, 0.5, 0.6]
    """
    checks.one_of("measure", measure, allowed_values(MeasureAboveChance))
    level = checks.open_fraction("confidence_level", confidence_level)
    resampling = Resampling(n_resamples, generator, chunk_size, progress)
    pair, function = RankedPair.from_arguments(preds_a, preds_b, target, groups), _MEASURES[measure]
    settings: dict[str, Any] = {"confidence_level": level, "design": "iid"}
    settings["method"] = "dirichlet" if pair.groups is None else "jackknife"
    if int(pair.relevant.sum()) in (0, len(pair.relevant)):
        reason = f"no {'misses' if bool(pair.relevant.any()) else 'hits'}: everything is NaN"
        return Comparison.from_numbers(*[math.nan] * 7, **settings, reason=reason).to(preds_a.device)
    values = float(function(pair.curves[0])), float(function(pair.curves[1]))
    if pair.groups is None:
        found = _compare_by_draws(values, pair, function, resampling, settings)
    else:
        found = _compare_in_groups(values, pair, pair.groups, function, settings)
    return found.to(preds_a.device)


def _compare_by_draws(
    values: tuple[float, float],
    pair: RankedPair,
    measure: Callable[[HitCurve], Tensor],
    resampling: Resampling,
    settings: dict[str, Any],
) -> Comparison:
    """Return the comparison by weights that both systems share."""
    if pair.is_alike():
        return Comparison.from_numbers(*values, 0.0, 0.0, 0.0, 0.0, 1.0, **settings, reason=record.ALIKE)
    items = SharedItems.from_items(pair.curves, pair.scores, pair.relevant, len(pair.relevant))
    mover = Mover(values, items.draw(measure, resampling))
    p, least = mover.p_value()
    reason = f"p is no less than {least:.4g} with these draws" if p <= least else ""
    ends = mover.ends(1 - settings["confidence_level"])
    numbers = (*values, values[0] - values[1], *ends, mover.standard_error, p)
    return Comparison.from_numbers(*numbers, **settings, reason=reason)


def _compare_in_groups(
    values: tuple[float, float],
    pair: RankedPair,
    ids: Tensor,
    measure: Callable[[HitCurve], Tensor],
    settings: dict[str, Any],
) -> Comparison:
    """Return the comparison by the values without each group."""
    groups = grouped.Groups.from_ids(ids).pooled()
    without = [_without_each_group(*x, pair.relevant, groups, measure) for x in pair.systems]
    both = PairedGroups(without, groups, pair.relevant)
    error, level = both.standard_error(), settings["confidence_level"]
    settings = {**settings, "df": both.df, "bounds": None, "reason": both.reason}
    found = comparison_from_error(values[0], values[1], error, **settings)
    if found.standard_error > 0 and not found.p_value.isnan():
        scale = _unit_scale(measure, pair.curves[0])
        units = PairedGroups([scale.to_unit(x) for x in without], groups, pair.relevant)
        a, b = map(scale.to_unit, values)
        low, high, p = map(record.number, logit_test((a, b), units, level, scale.from_unit))
        found = replace(found, low=low, high=high, p_value=p)

    def intervals() -> list[Interval]:
        return [_grouped_interval(x, pair.relevant, ids, measure, level) for x in pair.scores]

    return record.resolve_equal_values(found, pair.is_alike, intervals)
