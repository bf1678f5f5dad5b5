"""Interval methods for each ranking, by name, and the reasons why an interval is undefined."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.base.options import Design, allowed_values
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.ties import tie_rule
from torch_ap.core.ranking import hit_curve, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import influence, record, resampling
from torch_ap.inference.record import Interval, degrees_of_freedom, normal_quantile, student_quantile
from torch_ap.inference.resampling import Resampling

DESIGNS = allowed_values(Design)


Method: TypeAlias = Literal[
    "influence", "wald", "jackknife", "bootstrap-percentile", "bootstrap-bca", "bootstrap-logit"
]
METHODS = allowed_values(Method)
_VARIANCES: dict[str, Callable[[HitCurve, str], Tensor]] = {
    "influence": influence.variance,
    "wald": influence.variance,
    "jackknife": lambda curve, design: resampling.variance(resampling.leave_one_out(curve), design),
}
BOOTSTRAPS = ("bootstrap-percentile", "bootstrap-bca", "bootstrap-logit")


def curve_interval(
    curve: HitCurve,
    convention: Convention,
    *,
    confidence_level: float,
    method: str,
    design: str,
    resampling: Resampling,
) -> Interval:
    """Return the interval of each ranking of a curve: (S,) ends."""
    refuse_convention(convention, method, curve)
    estimate = convention(curve)
    if method in BOOTSTRAPS:
        low, high, error = _bootstrapped(curve, convention, estimate, method, design, confidence_level, resampling)
    else:
        error = torch.sqrt(_VARIANCES[method](curve, design))
        if method == "wald":
            low, high = record.wald(estimate, error, normal_quantile(confidence_level))
        else:
            quantile = student_quantile(confidence_level, degrees_of_freedom(curve))
            low, high = record.logit(estimate, error, quantile)
    return resolve_edge_cases(Interval(estimate, low, high, error, confidence_level, method, design), curve)


def _bootstrapped(
    curve: HitCurve,
    convention: Convention,
    estimate: Tensor,
    method: str,
    design: str,
    confidence_level: float,
    how: Resampling,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the low and high end and the standard error of each ranking, which has resamples of its own."""
    out = torch.full((3, len(estimate)), torch.nan, dtype=estimate.dtype, device=estimate.device)
    for ranking, one in enumerate(hit_curve.split(curve)):
        m, n = int(one.m), int(one.n)
        if m < 2 or m == n:
            continue
        values = resampling.replicates(one, convention, design, how, split_ties=convention.reads_tie_groups)
        out[:, ranking] = torch.stack(bootstrap_ends(method, values, one, estimate[ranking], confidence_level))
    return out[0], out[1], out[2]


def bootstrap_ends(
    method: str, values: Tensor, curve: HitCurve, estimate: Tensor, confidence_level: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the low end, the high end and the standard error from the replicates of one ranking, 0-d each.

    Args:
        method: one of ``BOOTSTRAPS``.
        values: (B,) replicates.
        curve: the ranking.
        estimate: its AP, 0-d.
        confidence_level: nominal coverage.
    """
    error = resampling.standard_error(values)
    if method == "bootstrap-percentile":
        return *resampling.percentile(values, confidence_level), error
    if method == "bootstrap-bca":
        slope = influence.acceleration(influence.influence(curve))[0]
        return *resampling.bca(values, estimate, slope, confidence_level), error
    quantile = student_quantile(confidence_level, degrees_of_freedom(curve))[0]
    return *record.logit(estimate, error, quantile), error


def refuse_convention(convention: Convention, method: str, curve: HitCurve | None) -> None:
    """Raise ValueError, with the argument's name, for conventions that the method does not support."""
    if convention.top_k is not None:
        raise ValueError(
            f"`top_k` has no interval here, got {convention.top_k}; recall and precision at k have theirs in "
            "`recall_at_k_interval` and `precision_at_k_interval`"
        )
    tied = curve is None or bool((curve.items > 1).any())
    if tied and not tie_rule(convention.ties or "grouped").is_threshold:
        raise_invalid("ties", "must be 'grouped' for an interval where scores tie", convention.ties)
    if convention.interpolation is None:
        return
    trapezoid = isinstance(convention.interpolation, str) and convention.interpolation == "trapezoid"
    if trapezoid:
        raise ValueError("`interpolation` has no interval by any method for 'trapezoid'")
    if method not in ("bootstrap-percentile", "bootstrap-logit"):
        raise ValueError(
            f"`interpolation` has no interval by method {method!r}, got {convention.interpolation!r}; "
            "use 'bootstrap-percentile' or 'bootstrap-logit'"
        )


def refuse_comparison(convention: Convention, method: str, curve: HitCurve | None) -> None:
    """Raise ValueError for conventions that comparisons of two rankings do not support, such as interpolated AP."""
    if convention.interpolation is not None:
        raise_invalid("interpolation", "must be None for a comparison", convention.interpolation)
    refuse_convention(convention, method, curve)


def resolve_edge_cases(found: Interval, curve: HitCurve) -> Interval:
    """Return the intervals with the conventions for AP = 1 and for few hits or misses applied, and the reason."""
    m, misses = segments.as_float64(curve.m), curve.n - curve.m
    void = (curve.m < 2) | (misses < 1)
    perfect = ~void & (found.estimate == 1) & ~(found.standard_error > 0)
    flat = ~void & ~perfect & (found.standard_error == 0)
    if not bool((void | perfect | flat | torch.isnan(found.low)).any()):
        return found
    # the upper end is fixed at 1, so the lower end is one-sided
    low = torch.where(perfect, (1 - found.confidence_level) ** (1 / m), found.low)
    high = torch.where(perfect, 1, found.high)
    error = torch.where(perfect, 0, found.standard_error)
    low, high, error = (torch.where(void, torch.nan, x) for x in (low, high, error))
    return replace(
        found, low=low, high=high, standard_error=error, reason=_reason(curve, perfect, flat, torch.isnan(low))
    )


def _reason(curve: HitCurve, perfect: Tensor, flat: Tensor, undefined: Tensor) -> str:
    """Return the special cases, with the number of rankings of each."""
    misses = curve.n - curve.m
    some = (curve.m > 1) & (misses > 0)
    told = (
        (curve.m == 0, "no hits, so AP and its interval are NaN"),
        (curve.m == 1, "one hit, which has no spread: the ends are NaN"),
        ((curve.m > 1) & (misses == 0), "no misses: AP is 1 for any scores, and the ends are NaN"),
        (some & undefined & (misses == 1), "one miss, which has no spread: the ends are NaN"),
        (some & undefined & (misses > 1), "AP of 0: the ends are NaN"),
        (flat & ~undefined, "a standard error of 0, as of tied hits alone: the interval has no width"),
        (perfect, "AP of 1, where no standard error exists: the lower end is the heuristic alpha^(1 / m)"),
    )
    counts = torch.stack([flags.sum() for flags, _ in told]).tolist()
    said = [(count, text) for count, (_, text) in zip(counts, told, strict=True) if count]
    if len(curve.m) == 1:
        return "".join(text for _, text in said)
    return "; ".join(f"{count} of {len(curve.m)} rankings: {text}" for count, text in said)
