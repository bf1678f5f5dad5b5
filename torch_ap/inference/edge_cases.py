"""Conventions that an interval of AP supports, and its special cases: AP of 1, few hits, misses or groups."""

from dataclasses import replace

import torch
from torch import Tensor

from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.items.settings import APSettings
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.ties import tie_rule
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.inference import groups as grouped
from torch_ap.inference.record import Interval

FEW_MISSES = 3  # m (1 - AP); with fewer misses above the hits, an interval covers too little (benchmarks.coverage)
_MANY_HITS = 100  # with fewer hits, the t quantile makes up for it
FEW_GROUPS = f"{grouped.NO_SPREAD}: the ends are NaN"


def check_convention(convention: Convention, method: str, curve: HitCurve | None) -> None:
    """Raise ValueError, with the argument's name, for conventions that the method does not support."""
    if convention.top_k is not None:
        raise ValueError(
            f"`top_k` must be None for an interval of AP, got {convention.top_k}; for recall and precision at k use "
            "`recall_at_k_interval` and `precision_at_k_interval`"
        )
    tied = curve is None or bool((curve.items > 1).any())
    if tied and not tie_rule(convention.ties or "grouped").is_threshold:
        raise_invalid("ties", "must be 'grouped' for an interval if scores are tied", convention.ties)
    interpolation = convention.interpolation
    if convention.is_line_area:
        raise ValueError(f"`interpolation` must not be {interpolation!r} for an interval; no method supports it")
    if interpolation is not None and method not in ("bootstrap-percentile", "bootstrap-logit"):
        raise ValueError(
            f"`interpolation` must be None for an interval by method {method!r}, got {interpolation!r}; "
            "use 'bootstrap-percentile' or 'bootstrap-logit'"
        )


def check_comparison(convention: Convention, method: str, curve: HitCurve | None) -> None:
    """Raise ValueError for conventions that comparisons of two rankings do not support, such as interpolated AP."""
    if convention.interpolation is not None:
        raise_invalid("interpolation", "must be None for a comparison", convention.interpolation)
    check_convention(convention, method, curve)


def unknown_error_reason(settings: APSettings, curve: HitCurve, in_one_group: int | None = None) -> str:
    """Return why the error of an average is unknown, with the number of rankings; "" if no ranking is the cause.

    Args:
        settings: settings of the average.
        curve: the rankings.
        in_one_group: for items in groups, the number of rankings whose hits, or misses, are all in one group.
    """
    text, count = "all hits, or all misses, are in one group, so the spread is unknown", in_one_group
    if count is None:
        text = "one hit, or one miss, which has no spread"
        count = int(((curve.m == 1) | ((curve.m > 0) & (curve.n - curve.m == 1))).sum())
    where = "" if len(curve.m) == 1 else f"{count} of {len(curve.m)} {settings.rankings_noun}: "
    return f"{where}{text}" if count else ""


def resolve_edge_cases(
    intervals: Interval, curve: HitCurve, group_df: Tensor | None = None, name: str = "AP"
) -> Interval:
    """Return the intervals with the conventions for a value of 1 and for few hits or misses applied, and the reason.

    Args:
        intervals: the interval of each ranking.
        curve: the rankings.
        group_df: (S,) degrees of freedom of intervals with groups.
        name: name of the value in the reason.
    """
    m, misses = segments.as_float64(curve.m) if group_df is None else group_df + 1, curve.n - curve.m
    few_groups = torch.zeros_like(misses, dtype=torch.bool) if group_df is None else group_df < 1
    void = (curve.m < 2) | (misses < 1) | few_groups
    perfect = ~void & (intervals.estimate == 1) & ~(intervals.standard_error > 0)
    flat = ~void & ~perfect & (intervals.standard_error == 0)
    is_measured = group_df is None and intervals.method == "influence"
    narrow = ~(void | perfect | flat) & (curve.m >= _MANY_HITS) & (m * (1 - intervals.estimate) < FEW_MISSES)
    narrow = narrow & is_measured
    if not bool((void | perfect | flat | narrow | torch.isnan(intervals.low)).any()):
        return intervals
    # the upper end is fixed at 1, so the lower end is one-sided
    low = torch.where(perfect, (1 - intervals.confidence_level) ** (1 / m), intervals.low)
    high = torch.where(perfect, 1, intervals.high)
    error = torch.where(perfect, 0, intervals.standard_error)
    low, high, error = (torch.where(void, torch.nan, x) for x in (low, high, error))
    return replace(
        intervals,
        low=low,
        high=high,
        standard_error=error,
        reason=_reason(
            curve,
            perfect,
            flat,
            narrow,
            few_groups,
            torch.isnan(low),
            "m" if group_df is None else "effective groups",
            name,
        ),
    )


def _reason(
    curve: HitCurve,
    perfect: Tensor,
    flat: Tensor,
    narrow: Tensor,
    few_groups: Tensor,
    undefined: Tensor,
    unit: str,
    name: str,
) -> str:
    """Return the special cases, with the number of rankings of each; ``unit`` is what the heuristic counts."""
    misses = curve.n - curve.m
    few_groups = (curve.m > 1) & (misses > 0) & few_groups
    undefined_with_both = (curve.m > 1) & (misses > 0) & undefined & ~few_groups
    cases = {
        "no hits: the ends are NaN": curve.m == 0,
        "one hit, which has no spread: the ends are NaN": curve.m == 1,
        f"no misses: {name} is the same for any scores, and the ends are NaN": (curve.m > 1) & (misses == 0),
        FEW_GROUPS: few_groups,
        "one miss, which has no spread: the ends are NaN": undefined_with_both & (misses == 1),
        f"{name} of 0: the ends are NaN": undefined_with_both & (misses > 1),
        "the standard error is 0, as for hits that are all tied: the interval has no width": flat & ~undefined,
        "few misses are above the hits: the interval may be too narrow": narrow & ~undefined,
        f"{name} of 1, where no standard error exists: the lower end is the heuristic alpha^(1 / {unit})": perfect,
    }
    counts = torch.stack([flags.sum() for flags in cases.values()]).tolist()
    reasons = {text: count for text, count in zip(cases, counts, strict=True) if count}
    if len(curve.m) == 1:
        return "".join(reasons)
    return "; ".join(f"{count} of {len(curve.m)} rankings: {text}" for text, count in reasons.items())
