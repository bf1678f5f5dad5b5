"""The interval of an average over rankings of the same items: what one item does to all of them adds up."""

import torch
from torch import Tensor

from torch_ap.curve import averaging
from torch_ap.evaluation.average_precision import APSettings
from torch_ap.inference import bootstrap, interval, item_bootstrap, item_influence
from torch_ap.inference.interval import Interval
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.student import normal_quantile, student_quantile
from torch_ap.inputs.classification import Batch
from torch_ap.ranking import hit_curve
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules.messages import refuse

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
    if validated is None:
        raise ValueError("`thresholds` and `bins` must be None for the interval of an average: counts keep no items")
    if method not in METHODS:
        refuse("method", f"must be one of {', '.join(map(repr, METHODS))} for an average", method)
    estimate = settings.value(curve, torch.float64 if curve.m.device.type != "mps" else torch.float32, warn=False)
    plain = settings.convention.interpolation is None
    shares = item_influence.shares_of(settings, validated, curve, design) if plain else None
    error = estimate.new_tensor(torch.nan) if shares is None else shares.square().sum().sqrt()
    quantile = student_quantile(confidence_level, item_influence.degrees_of_freedom(settings, curve, design))
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
        placed.append(
            (kept, item_bootstrap.groups_of(one, validated.scores[:, column][kept], flags[kept]), len(one.hits))
        )

    def measure(weights: Tensor) -> Tensor:
        weights = weights.repeat_interleave(target.shape[1], 1) if micro else weights
        curves = [item_bootstrap.curve_of(group, groups, weights[:, kept]) for kept, group, groups in placed]
        return _average(settings, curves)

    return item_bootstrap.replicates(measure, strata, items, resampling)


def _average(settings: APSettings, curves: list[HitCurve]) -> Tensor:
    """(b,) the average over rankings, of curves that hold b resamples each."""
    action = settings.action_on_empty
    values = torch.stack(
        [averaging.fill_undefined(settings.convention(curve), curve, action, what="resample") for curve in curves]
    )
    m, n = (torch.stack([getattr(curve, name) for curve in curves]) for name in ("m", "n"))
    return averaging.averages(values, m, n, settings.average, action)


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
