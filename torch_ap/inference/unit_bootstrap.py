"""The bootstrap over units that hold many items of many rankings: over images, for the mAP of detectors."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from torch_ap.core import checks, checks_inference
from torch_ap.inference import bootstrap
from torch_ap.inference.interval import Interval, logit
from torch_ap.inference.ranked_units import RankedUnits
from torch_ap.inference.resampling import Resampling, generators, multinomial, multinomial_on_device, rows
from torch_ap.inference.student import normal_quantile
from torch_ap.inference.unit_plan import UnitPlan

__all__ = ["METHODS", "RankedUnits", "unit_interval", "unit_replicates"]

METHODS = ("bootstrap-percentile", "bootstrap-logit")


def unit_replicates(ranked: RankedUnits, resampling: Resampling, levels: Tensor | None = None) -> Tensor:
    """The mean AP over the rankings that have something to find, of B resamples of the units: (B,) float64."""
    if ranked.unit.device.type == "cpu":
        return _on_cpu(ranked, resampling, levels)
    width = 2 * len(ranked.unit) + 8 * len(ranked.event_item)
    width += 4 * len(ranked.ranking_list) * (0 if levels is None else len(levels))
    generator, parts = resampling.on(ranked.unit.device), []
    ones = torch.ones(ranked.units, dtype=torch.int64, device=ranked.unit.device)
    for span in resampling.spans(width):
        weights = multinomial_on_device(generator, ones, (ones * ranked.units)[:1].expand(len(span)))
        parts.append(ranked.average_precision(weights, levels).nanmean(1))
    return torch.cat(parts)


def _on_cpu(ranked: RankedUnits, resampling: Resampling, levels: Tensor | None) -> Tensor:
    plan, ones = UnitPlan(ranked, levels), np.ones(ranked.units, np.int64)

    def one(rng: np.random.Generator) -> float:
        values = plan(multinomial(rng, ones, ranked.units))
        known = values[~np.isnan(values)]
        return float(known.mean()) if len(known) else np.nan

    seed, size = resampling.seed(), len(ranked.unit) + 8 * len(ranked.event_item)
    drawn = [x for span in resampling.spans(size) for x in rows(one, generators(seed, span), size)]
    return torch.tensor(drawn, dtype=torch.float64)


def unit_interval(
    ranked: RankedUnits,
    *,
    level: float = 0.95,
    method: str = "bootstrap-percentile",
    levels: Tensor | None = None,
    resampling: Resampling | None = None,
) -> Interval:
    """A confidence interval for mean AP by the bootstrap over units.

    It covers less than it says: of COCO-like scenes, 50 / 200 / 800 images, at 95% "bootstrap-percentile"
    .75 / .83 / .88 and "bootstrap-logit" .82 / .91 / .91 (``benchmarks.coverage``). The interpolated mAP of few images
    lies above that of many, by .7 / .5 / .4 of its standard deviation.

    Args:
        ranked: the rankings.
        level: nominal coverage, in (0, 1).
        method: "bootstrap-percentile", or "bootstrap-logit" from the replicates' standard deviation.
        levels: (R,) recall levels of interpolated AP, such as COCO's 101; None for the plain sum.
        resampling: None for 1,000 replicates that repeat.

    Returns:
        :class:`torch_ap.inference.interval.Interval` of 0-d float64 tensors; NaN where nothing is relevant, or all
        stands in one unit.

    Raises:
        ValueError: for a level outside (0, 1) or an unknown method.

    Source: Efron (1979); units are drawn with all that they hold.

    Example:
        >>> import torch
        >>> from torch_ap.inference.unit_bootstrap import RankedUnits, unit_interval
        >>> hits, one = torch.tensor([True, False, True, True, False, False]), torch.tensor([0, 6])
        >>> ranked = RankedUnits(
        ...     unit=torch.arange(6), counted=torch.ones(6, dtype=torch.bool), offsets=one,
        ...     event_item=hits.nonzero()[:, 0], event_hit=hits[hits], event_counts=hits[hits],
        ...     event_offsets=torch.tensor([0, 3]), ranking_list=torch.tensor([0]),
        ...     relevant_unit=hits.nonzero()[:, 0], relevant_list=torch.zeros(3, dtype=torch.int64), units=6,
        ... )
        >>> round(float(unit_interval(ranked).estimate), 4)
        0.8056
    """
    checks_inference.level(level)
    checks.one_of("method", method, METHODS)
    every = torch.ones(1, ranked.units, dtype=torch.int64, device=ranked.unit.device)
    estimate = ranked.average_precision(every, levels).nanmean()
    nan = torch.full_like(estimate, torch.nan)
    empty = Interval(estimate, nan, nan, nan, level, method, "iid")
    if bool(torch.isnan(estimate)):
        return replace(empty, reason="nothing is relevant")
    if ranked.units < 2:
        return replace(empty, reason="one unit, which has no spread: the ends are NaN")
    values = unit_replicates(ranked, resampling or Resampling(), levels)
    error = bootstrap.standard_error(values)
    percentiles = method == "bootstrap-percentile"
    low, high = bootstrap.percentile(values, level) if percentiles else logit(estimate, error, normal_quantile(level))
    return replace(empty, low=low, high=high, standard_error=error)
