"""Two systems over the same images, whose items differ: two detectors on the same images."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.inference import bootstrap
from torch_ap.inference.difference import Comparison, GroupComparison, described, of_few, of_groups
from torch_ap.inference.images.bootstrap import image_replicates, images_of_lists, narrow_of
from torch_ap.inference.images.resampled_rankings import (
    InterpolationRule,
    ResampledRankings,
    images_of_mean,
    images_taking_part,
)
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
        in one image; p = 1 where no image tells the systems apart. p is no less than 2^(1 - n), that of the two-sided
        sign test, of n images that have a part in it: .25 of 3, .0625 of 5. Of fewer than 10 the interval is likely too
        narrow. Where either holds ``reason`` says so.

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
    replicates = None if math.isnan(a) or first.images < 2 else image_replicates(systems, how, interpolation)
    found, count = _described((a, b), replicates, confidence_level, method), images_of_mean(systems)
    return of_few(found, count, "images", narrow_of(count))


def compare_lists(
    first: ResampledRankings,
    second: ResampledRankings,
    lists: Mapping[str, tuple[int, int]],
    *,
    confidence_level: float = 0.95,
    method: str = "bootstrap-normal",
    interpolation: InterpolationRule = None,
    resampling: Resampling | None = None,
) -> GroupComparison:
    """The difference of the mean AP over the rankings of each list, such as the AP of each class.

    Args:
        first, second, confidence_level, interpolation, resampling: as for :func:`compare_images`, whose resamples these
            are.
        lists: by name, the place of each list among those of the first system, and of the second.
        method: one of its methods. "bootstrap-normal" takes Student's t with as many degrees of freedom as images hold
            something of the list, less one.

    Returns:
        :class:`torch_ap.inference.GroupComparison` of (K,) tensors. p is no less than 2^(1 - n) of n images in which
        there is something to find, or a detection of either system, of the list.

    Raises:
        ValueError: as there.

    Of two equally good detectors on 300 images with 40 classes, most of them rare, at nominal 5% "bootstrap-normal"
    tells apart 3.7 to 6.4% of the classes of 5 ground truths and more, "bootstrap-percentile" 3.3 to 9.6%, and with
    1,000 resamples has no p below 0.002, so that Holm's is no less than that times the number of classes. Any class has
    an adjusted p of "bootstrap-normal" of 5% or less in 2.5% of data sets, within 2 (``benchmarks.coverage``).

    Source: as there; Holm (1979) for the adjusted p-values.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    how = resampling or Resampling()
    checks.one_of("method", method, METHODS)
    systems = (first, second)
    device = first.image.device
    every = torch.ones(1, first.images, dtype=torch.int64, device=device)
    places = [torch.tensor([pair[x] for pair in lists.values()], dtype=torch.int64, device=device) for x in (0, 1)]
    a, b = (
        ranked.average_precision_of_lists(every, interpolation)[0, kept].tolist()
        for ranked, kept in zip(systems, places, strict=True)
    )
    images = images_of_lists(first)[places[0]].tolist()
    replicates = image_replicates(systems, how, interpolation, lists=places) if max(images, default=0) > 1 else None
    taking_part = _taking_part(systems, places)
    found = {}
    for k, name in enumerate(lists):
        drawn = None if replicates is None or images[k] < 2 else replicates[:, :, k]
        one = _described((a[k], b[k]), drawn, confidence_level, method, df=images[k] - 1)
        narrow = "" if method == "bootstrap-normal" else narrow_of(taking_part[k])  # that has Student's t
        found[name] = of_few(one, taking_part[k], "images", narrow)
    settings: dict[str, Any] = {"confidence_level": confidence_level, "method": method, "design": "iid"}
    return of_groups(found, **settings).to(device)


def _taking_part(systems: tuple[ResampledRankings, ResampledRankings], places: list[Tensor]) -> list[int]:
    """The images that have a part in the AP of each list: (K,) its places in either system."""
    groups, count = [], len(places[0])
    for ranked, place in zip(systems, places, strict=True):
        group = torch.full((len(ranked.offsets) - 1,), count, dtype=torch.int64, device=place.device)
        group[place] = torch.arange(count, device=place.device)
        groups.append(group)
    return images_taking_part(systems, groups, count).tolist()


def _described(
    values: tuple[float, float],
    replicates: Tensor | None,
    confidence_level: float,
    method: str,
    df: float = math.inf,
) -> Comparison:
    """Two values and their (B, 2) replicates, None where these say nothing."""
    a, b = values
    b = a if abs(a - b) < SAME_VALUE else b
    settings: dict[str, Any] = {"confidence_level": confidence_level, "method": method, "design": "iid"}
    if replicates is None:
        reason = "nothing is relevant" if math.isnan(a) else "one image, which has no spread"
        return described(a, b, 0.0 if a == b else math.nan, reason=reason, **settings)
    gaps = _gaps(replicates)
    error = float(bootstrap.standard_error(gaps))
    reason = "fewer than two resamples have anything to find" if math.isnan(error) else ""
    found = described(a, b, error, reason=reason, df=df, **settings)
    if method == "bootstrap-normal" or not found.standard_error > 0:  # 0 where rounding explains it
        return found
    low, high = bootstrap.percentile(gaps, confidence_level)
    return replace(found, low=low, high=high, p_value=number(bootstrap.two_sided(gaps)))


def _gaps(values: Tensor) -> Tensor:
    """Differences of (B, 2) replicates; what is rounding is none."""
    gaps = values[:, 0] - values[:, 1]
    return torch.where(gaps.abs() < SAME_VALUE, 0, gaps)
