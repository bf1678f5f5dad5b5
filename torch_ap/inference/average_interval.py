"""The interval of an average over rankings of the same items: what one item does to all of them adds up."""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.curve import averaging
from torch_ap.evaluation.average_precision import APSettings
from torch_ap.inference import bootstrap, influence, interval, item_bootstrap, item_influence
from torch_ap.inference.interval import Interval
from torch_ap.inference.methods import rarer
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.student import normal_quantile, student_quantile
from torch_ap.inputs.classification import Batch
from torch_ap.ranking import hit_curve, segments
from torch_ap.ranking.hit_curve import HitCurve

METHODS = ("influence", "wald", "bootstrap-percentile", "bootstrap-bca", "bootstrap-logit")


def average_interval(
    settings: APSettings,
    curve: HitCurve,
    validated: Batch | None,
    *,
    confidence_level: float,
    method: str,
    design: str,
    resampling: Resampling,
) -> Interval:
    """The interval of the macro, weighted or micro average: 0-d ends.

    Args:
        settings: all settings.
        curve: its rankings.
        validated: their items.
        confidence_level, method, design, resampling: as for an interval of one ranking.

    Raises:
        ValueError: for a method that knows no covariances, or counts per threshold, which keep no items.
    """
    if validated is None or settings.thresholds is not None:
        raise ValueError("`thresholds` must be None for the interval of an average: counts per threshold keep no items")
    if method not in METHODS:
        raise ValueError(f"`method` must be one of {', '.join(map(repr, METHODS))} for an average, got {method!r}")
    estimate = settings.value(curve, torch.float64 if curve.m.device.type != "mps" else torch.float32, warn=False)
    plain = settings.convention.interpolation is None
    shares = shares_of(settings, validated, curve, design) if plain else None
    error = estimate.new_tensor(torch.nan) if shares is None else shares.square().sum().sqrt()
    quantile = student_quantile(confidence_level, degrees_of_freedom(settings, curve, design))
    if method.startswith("bootstrap"):
        values = _replicates(settings, validated, curve, design, resampling)
        error = bootstrap.standard_error(values)
    if method == "bootstrap-percentile":
        ends = bootstrap.percentile(values, confidence_level)
    elif method == "bootstrap-bca":
        assert shares is not None
        ends = bootstrap.bca(values, estimate, _skew(shares), confidence_level)
    else:
        ends = interval.wald(estimate, error, normal_quantile(confidence_level))
        ends = ends if method == "wald" else interval.logit(estimate, error, quantile)
    if bool(estimate == 1):
        ends = (torch.full_like(estimate, torch.nan),) * 2
    return Interval(estimate, *ends, error, confidence_level, method, design, _reason(estimate, ends[0]))


@dataclass(frozen=True, eq=False)
class _Average:
    """An average as a weighted sum: (S,) weight of each AP that varies, and of each that enters as a constant too."""

    weights: Tensor
    values: Tensor

    @staticmethod
    def of(settings: APSettings, curve: HitCurve) -> "_Average":
        """Rankings without hits have no weight; those that count as a constant still dilute the others."""
        values = settings.convention(curve)
        m = segments.as_float64(curve.m)
        if settings.average == "weighted":
            return _Average(m / m.sum(), values)
        among = (curve.n > 0) if settings.action_on_empty in ("neg", "pos", "nan") else curve.m > 0
        return _Average((m > 0) / segments.as_float64(among).sum(), values)


def shares_of(settings: APSettings, validated: Batch, curve: HitCurve, design: str) -> Tensor:
    """(N,) what each item contributes to the average."""
    ignoring = settings.inputs.ignoring
    if settings.average == "micro":
        return _shares_of_micro(validated, curve, design, ignoring)
    average = _Average.of(settings, curve)
    varied = average.weights * (curve.m < curve.n)  # without misses AP is 1 for any scores
    shares = item_influence.contributions(validated, curve, design, ignoring=ignoring, weights=varied)
    if design == "stratified":
        return _centred_by_class(shares, validated.target) if settings.inputs.classes else shares
    if settings.average != "weighted":
        return shares
    # the weights m / sum of m are random too
    total, mean = segments.as_float64(curve.m.sum()), (average.weights * average.values.nan_to_num()).sum()
    for column in curve.m.nonzero().squeeze(1).tolist():
        flags, kept = item_influence.column_of(validated.target, column, ignoring)
        expected = curve.m[column] / curve.n[column]
        shares[kept] += (segments.as_float64(flags[kept]) - expected) * (average.values[column] - mean) / total
    return shares


def _centred_by_class(shares: Tensor, target: Tensor) -> Tensor:
    """The classes are the strata: an item varies around its class only."""
    kinds = int(target.max()) + 1 if len(target) else 0
    place = target.long()
    means = shares.new_zeros(kinds).index_add_(0, place, shares) / segments.count(place, kinds).clamp(min=1)
    return shares - means[place]


def _shares_of_micro(validated: Batch, curve: HitCurve, design: str, ignoring: bool) -> Tensor:
    """One ranking of all scores, in which an item has as many places as labels."""
    scores, target = validated.scores, validated.target
    flags, kept = item_influence.column_of(target.flatten(), 1, ignoring)
    shares = torch.zeros(scores.numel(), dtype=segments.as_float64(curve.m).dtype, device=scores.device)
    shares[kept] = item_influence.of_one(curve, scores.flatten()[kept], flags[kept], design)
    return shares.reshape(scores.shape).sum(1)


def degrees_of_freedom(settings: APSettings, curve: HitCurve, design: str) -> Tensor:
    """Satterthwaite's (1946): (sum of v)^2 / sum of v^2 / (k - 1), of the variances v of the weighted APs; 0-d.

    k is the number of hits of a ranking, or of misses where there are fewer.
    """
    varied = (curve.m > 1) & (curve.m < curve.n)
    v = (_Average.of(settings, curve).weights ** 2 * influence.variance(curve, design))[varied]
    return v.sum() ** 2 / (v**2 / (rarer(curve)[varied] - 1)).sum()


def _replicates(settings: APSettings, validated: Batch, curve: HitCurve, design: str, resampling: Resampling) -> Tensor:
    """(B,) the average under resamples of the items."""
    target, items = validated.target, len(validated.scores)
    ignoring, micro = settings.inputs.ignoring, settings.average == "micro"
    if design == "stratified" and not settings.inputs.classes:
        raise ValueError("`design` must be 'iid' for a bootstrap over labels: they divide the items in different ways")
    if design == "stratified":
        strata = [(target == kind).nonzero().squeeze(1) for kind in range(len(curve.m))]
    else:
        strata = [torch.arange(items, device=target.device)]
    if micro:
        validated = Batch(validated.scores.reshape(-1, 1), target.reshape(-1, 1))
    placed = []
    for column, one in enumerate(hit_curve.split(curve)):
        flags, kept = item_influence.column_of(validated.target, 1 if micro and target.ndim == 1 else column, ignoring)
        placed.append((kept, item_bootstrap.cells(one, validated.scores[:, column][kept], flags[kept]), len(one.hits)))

    def measure(weights: Tensor) -> Tensor:
        weights = weights.repeat_interleave(target.shape[1], 1) if micro else weights
        curves = [item_bootstrap.curve_of(cell, groups, weights[:, kept]) for kept, cell, groups in placed]
        return _average(settings, curves)

    return item_bootstrap.replicates(measure, strata, items, resampling)


def _average(settings: APSettings, curves: list[HitCurve]) -> Tensor:
    """(b,) the average over rankings, of curves that hold b resamples each."""
    action = settings.action_on_empty
    values = torch.stack(
        [averaging.fill_undefined(settings.convention(curve), curve, action, what="resample") for curve in curves]
    )
    if settings.average == "weighted":
        m = segments.as_float64(torch.stack([curve.m for curve in curves]))
        return (values.nan_to_num() * m).sum(0) / m.sum(0)
    return values.nanmean(0) if action != "nan" else values.mean(0)


def _skew(shares: Tensor) -> Tensor:
    squares = shares.square().sum()
    return torch.where(squares > 0, (shares**3).sum() / (6 * squares**1.5), 0)


def _reason(estimate: Tensor, low: Tensor) -> str:
    if not bool(torch.isnan(low)):
        return ""
    if bool(torch.isnan(estimate)):
        return "the average is NaN"
    if bool(estimate == 1):
        return "every AP is 1, where no standard error exists: the ends are NaN"
    return "a ranking has one hit, or one miss, and so no spread: the ends are NaN"
