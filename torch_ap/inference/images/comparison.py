"""Two systems over the same images, whose items differ: two detectors on the same images."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.inference import bootstrap
from torch_ap.inference.difference import Comparison, described
from torch_ap.inference.images.bootstrap import image_replicates
from torch_ap.inference.images.resampled_rankings import InterpolationRule, ResampledRankings
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.result import number
from torch_ap.inference.rounding import SAME_VALUE
from torch_ap.rules import checks

METHODS = ("bootstrap-percentile", "bootstrap-normal")


def compare_images(
    first: ResampledRankings,
    second: ResampledRankings,
    *,
    confidence_level: float = 0.95,
    method: str = "bootstrap-percentile",
    interpolation: InterpolationRule = None,
    resampling: Resampling | None = None,
) -> Comparison:
    """The difference of two systems' mean AP, by the bootstrap over images: both see the same resamples.

    The estimand is the difference of the limits that the two tend to as images are added.

    Args:
        first: the rankings of system A.
        second: those of system B, over the same images, in which the same is relevant.
        confidence_level: nominal coverage of the interval, in (0, 1).
        method: "bootstrap-percentile": interval from the replicates' percentiles, and p twice the share of replicates
            on the rarer side of 0, (b + 1) / (B + 1); "bootstrap-normal": both from their standard deviation by the
            normal law.
        interpolation: as for :meth:`torch_ap.inference.images.resampled_rankings.ResampledRankings.average_precision`.
        resampling: None for 1,000 resamples that repeat.

    Returns:
        :class:`torch_ap.inference.Comparison` of floats. NaN, with a reason, where nothing is relevant, or all stands
        in one image; p = 1 where no image tells the systems apart.

    Raises:
        ValueError: for a ``confidence_level`` outside (0, 1), or an unknown method.

    Source: Efron & Tibshirani (1993), chapter 16; images are drawn with all that they hold.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    how = resampling or Resampling()
    checks.one_of("method", method, METHODS)
    systems = (first, second)
    every = torch.ones(1, first.images, dtype=torch.int64, device=first.image.device)
    a, b = (float(ranked.average_precision(every, interpolation).nanmean()) for ranked in systems)
    b = a if abs(a - b) < SAME_VALUE else b
    settings: dict[str, Any] = {"confidence_level": confidence_level, "method": method, "design": "iid"}
    if math.isnan(a) or first.images < 2:
        reason = "nothing is relevant" if math.isnan(a) else "one image, which has no spread"
        return described(a, b, 0.0 if a == b else math.nan, reason=reason, **settings)
    gaps = _gaps(image_replicates(systems, how, interpolation))
    error = float(bootstrap.standard_error(gaps))
    reason = "fewer than two resamples have anything to find" if math.isnan(error) else ""
    found = described(a, b, error, reason=reason, **settings)
    if method == "bootstrap-normal" or not error > 0:
        return found
    low, high = bootstrap.percentile(gaps, confidence_level)
    return replace(found, low=low, high=high, p_value=number(bootstrap.two_sided(gaps)))


def _gaps(values: Tensor) -> Tensor:
    """Differences of (B, 2) replicates; what is rounding is none."""
    gaps = values[:, 0] - values[:, 1]
    return torch.where(gaps.abs() < SAME_VALUE, 0, gaps)
