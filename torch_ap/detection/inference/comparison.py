"""Comparison of two detectors on the same images."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.options import InterpolationRule
from torch_ap.detection.inference.rankings import ResampledRankings, count_images, images_of_mean
from torch_ap.detection.inference.resampled import (
    Statistic,
    group_degrees_of_freedom,
    image_replicates,
    images_per_list,
    list_replicates,
    narrow_note,
    without_each_group,
)
from torch_ap.inference import groups as grouped
from torch_ap.inference import resampling
from torch_ap.inference.groups import Groups
from torch_ap.inference.record import (
    SAME_VALUE,
    Comparison,
    GroupComparison,
    comparison_from_error,
    group_comparison,
    limit_p_value,
    number,
)
from torch_ap.inference.resampling import Resampling

METHODS = ("bootstrap-percentile", "bootstrap-normal")
_IN_GROUPS: dict[str, Any] = {"method": "jackknife", "design": "iid"}


def compare_images(
    first: ResampledRankings,
    second: ResampledRankings,
    *,
    confidence_level: float = 0.95,
    method: str = "bootstrap-percentile",
    interpolation: InterpolationRule = None,
    resampling: Resampling | None = None,
    values: Sequence[Tensor] | None = None,
) -> Comparison:
    """Return the difference of two systems' mean AP by the bootstrap over images, with shared resamples.

    The estimand is the difference of the limits of the two mean APs as images are added.

    Args:
        first: the rankings of system A.
        second: the rankings of system B, over the same images and ground truths.
        confidence_level: nominal coverage of the interval, in (0, 1).
        method: "bootstrap-percentile": the interval from the percentiles of the replicates, and p as twice the share of
            replicates on the rarer side of 0, (b + 1) / (B + 1); "bootstrap-normal": both from the standard deviation
            of the replicates and the normal distribution.
        interpolation: as for :meth:`torch_ap.detection.inference.resampled.ResampledRankings.average_precision`.
        resampling: None for 1,000 resamples that repeat.
        values: (B,) replicates of both systems, if they are known.

    Returns:
        :class:`torch_ap.inference.Comparison` of floats. NaN, with a reason, without ground truths or if there is one
        image. p = 1 if no image distinguishes the systems. Otherwise p is at least 2^(1 - n), the p of the two-sided
        sign test of the n images that influence the means: .25 for 3 images, .0625 for 5. For fewer than 10 images, the
        interval is likely too narrow. ``reason`` notes both.

    Raises:
        ValueError: if ``confidence_level`` is outside (0, 1), or the method is unknown.

    Source: Efron & Tibshirani (1993), chapter 16; images are resampled with all their items.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, METHODS)
    systems = (first, second)
    a, b = (float(ranked.average_precision(ranked.unit_weights, interpolation).nanmean()) for ranked in systems)
    replicates = None
    if not math.isnan(a) and first.images > 1:
        if values is None:
            replicates = image_replicates(systems, resampling or Resampling(), interpolation)
        else:
            replicates = torch.stack(list(values), 1)
    count = images_of_mean(systems)
    return _compare((a, b), replicates, count, narrow_note(count), confidence_level, method)


def compare_in_groups(
    systems: tuple[ResampledRankings, ResampledRankings],
    groups: Groups,
    *,
    confidence_level: float,
    interpolation: InterpolationRule,
) -> Comparison:
    """Return the difference of two systems' mean AP by the delete-one-group jackknife, with Student's t.

    Args:
        systems: the rankings of both systems over the same images.
        groups: the group of each image.
        confidence_level: as for :func:`compare_images`.
        interpolation: as for :func:`compare_images`.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    a, b = (float(x.average_precision(x.unit_weights, interpolation).nanmean()) for x in systems)
    values = [without_each_group(x, groups, interpolation) for x in systems]
    df, with_truths = group_degrees_of_freedom(systems[0], groups)
    few = grouped.few_groups_reason(with_truths, "ground truths") if df >= 1 else ""
    return _compare_without_groups((a, b), values[0] - values[1], float(df), confidence_level, few)


def compare_lists_in_groups(
    systems: tuple[ResampledRankings, ResampledRankings],
    lists: Mapping[str, tuple[int, int]],
    groups: Groups,
    *,
    confidence_level: float,
    interpolation: InterpolationRule,
) -> GroupComparison:
    """Return the difference of the mean AP over the rankings of each list, as :func:`compare_in_groups`.

    Args:
        systems: as for :func:`compare_in_groups`.
        lists: as for :func:`compare_lists`.
        groups: as for :func:`compare_in_groups`.
        confidence_level: as for :func:`compare_images`.
        interpolation: as for :func:`compare_images`.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    a, b = (x.average_precision_of_lists(x.unit_weights, interpolation)[0].tolist() for x in systems)
    values, other = (without_each_group(x, groups, interpolation, each_list=True) for x in systems)
    df, with_truths = group_degrees_of_freedom(systems[0], groups, each_list=True)
    comparisons = {
        name: _compare_without_groups((a[k], b[at]), values[k] - other[at], float(df[k]), confidence_level)
        for name, (k, at) in lists.items()
    }
    compared = group_comparison(comparisons, confidence_level=confidence_level, **_IN_GROUPS)
    chosen = [k for k, _ in lists.values()]
    few = grouped.few_groups_reason(torch.where(df < 1, 0, with_truths)[chosen], "ground truths", "classes")
    return replace(compared, reason="; ".join(filter(None, [compared.reason, few]))).to(df.device)


def _compare_without_groups(
    values: tuple[float, float], differences: Tensor, df: float, confidence_level: float, reason: str = ""
) -> Comparison:
    """Compare two values by the (G,) differences without each group."""
    error = float(grouped.standard_error(differences)) if df >= 1 else math.nan
    reason = reason if df >= 1 else grouped.NO_SPREAD
    return comparison_from_error(*values, error, df=df, reason=reason, confidence_level=confidence_level, **_IN_GROUPS)


def compare_lists(
    first: ResampledRankings,
    second: ResampledRankings,
    lists: Mapping[str, tuple[int, int]],
    *,
    confidence_level: float = 0.95,
    method: str = "bootstrap-normal",
    interpolation: InterpolationRule = None,
    resampling: Resampling | None = None,
    values: Sequence[Tensor] | None = None,
) -> GroupComparison:
    """Return the difference of the mean AP over the rankings of each list, such as the AP of each class.

    Args:
        first: as for :func:`compare_images`.
        second: as for :func:`compare_images`.
        lists: by name, the index of each list in the first and in the second system.
        confidence_level: as for :func:`compare_images`.
        method: a method of :func:`compare_images`. "bootstrap-normal" uses Student's t; its degrees of freedom are the
            number of images with ground truths of the list, minus one.
        interpolation: as for :func:`compare_images`.
        resampling: as for :func:`compare_images`, with the same resamples.
        values: (B, K) replicates of all lists of each system, if they are known.

    Returns:
        :class:`torch_ap.inference.GroupComparison` of (K,) tensors. p is at least 2^(1 - n) for n images with a ground
        truth, or a detection of either system, of the list.

    Raises:
        ValueError: if ``confidence_level`` is outside (0, 1), or the method is unknown.

    Rejection rates for the classes of two equally good detectors on 300 images with 40 classes, most of them rare, at
    nominal 5%: "bootstrap-normal" 3.7 to 6.4% of the classes with at least 5 ground truths, "bootstrap-percentile" 3.3
    to 9.6%. With 1,000 resamples, "bootstrap-percentile" has no p below 0.002, so Holm's adjusted p is at least 0.002
    times the number of classes. In 2.5% of the data sets, ± 2, any class has an adjusted p of "bootstrap-normal" of at
    most 5% (``benchmarks.coverage``).

    Source: as for :func:`compare_images`; Holm (1979) for the adjusted p-values.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, METHODS)
    systems, device = (first, second), first.image.device
    places = [torch.tensor([pair[x] for pair in lists.values()], dtype=torch.int64, device=device) for x in (0, 1)]
    a, b = (
        ranked.average_precision_of_lists(ranked.unit_weights, interpolation)[0, columns].tolist()
        for ranked, columns in zip(systems, places, strict=True)
    )
    images = images_per_list(first)[places[0]].tolist()
    replicates = None
    if max(images, default=0) > 1:
        values = values or list_replicates(systems, resampling or Resampling(), interpolation)
        replicates = torch.stack([x[:, columns] for x, columns in zip(values, places, strict=True)], 1)
    counts, comparisons = _count_images_of_pairs(systems, places), {}
    for k, name in enumerate(lists):
        columns = None if replicates is None or images[k] < 2 else replicates[:, :, k]
        note = "" if method == "bootstrap-normal" else narrow_note(counts[k])  # "bootstrap-normal" has Student's t
        comparisons[name] = _compare((a[k], b[k]), columns, counts[k], note, confidence_level, method, images[k] - 1)
    settings: dict[str, Any] = {"confidence_level": confidence_level, "method": method, "design": "iid"}
    return group_comparison(comparisons, **settings).to(device)


def compare_numbers(
    systems: tuple[ResampledRankings, ResampledRankings],
    statistics: tuple[Statistic, Statistic],
    *,
    confidence_level: float,
    resampling: Resampling,
    groups: Groups | None = None,
) -> list[Comparison]:
    """Return the difference of each of several numbers by "bootstrap-normal" of :func:`compare_images`.

    Args:
        systems: the rankings of both systems over the same images.
        statistics: as for :func:`torch_ap.detection.inference.resampled.image_replicates`.
        confidence_level: as for :func:`compare_images`.
        resampling: as for :func:`compare_images`.
        groups: the group of each image, for the method of :func:`compare_in_groups`; None for independent images.
    """
    a, b = (f(x, x.unit_weights)[0].tolist() for f, x in zip(statistics, systems, strict=True))
    if groups is not None:
        without = [without_each_group(x, groups, statistic=f) for f, x in zip(statistics, systems, strict=True)]
        df = float(group_degrees_of_freedom(systems[0], groups)[0])
        rows = zip(zip(a, b, strict=True), without[0] - without[1], strict=True)
        return [_compare_without_groups(values, gaps, df, confidence_level) for values, gaps in rows]
    replicates = image_replicates(systems, resampling, statistics=statistics) if systems[0].images > 1 else None
    count = images_of_mean(systems)
    comparisons = []
    for place, values in enumerate(zip(a, b, strict=True)):
        each = None if replicates is None or math.isnan(values[0]) else replicates[:, :, place]
        comparisons.append(_compare(values, each, count, narrow_note(count), confidence_level, "bootstrap-normal"))
    return comparisons


def _count_images_of_pairs(systems: tuple[ResampledRankings, ResampledRankings], places: list[Tensor]) -> list[int]:
    """Return the number of images that influence the AP of each pair of lists, given as (K,) indices per system."""
    groups, count = [], len(places[0])
    for ranked, place in zip(systems, places, strict=True):
        group = torch.full((len(ranked.offsets) - 1,), count, dtype=torch.int64, device=place.device)
        group[place] = torch.arange(count, device=place.device)
        groups.append(group)
    return count_images(systems, groups, count).tolist()


def _compare(
    values: tuple[float, float],
    replicates: Tensor | None,
    count: int,
    note: str,
    confidence_level: float,
    method: str,
    df: float = math.inf,
) -> Comparison:
    """Compare two values by their (B, 2) replicates; None if the replicates are undefined.

    ``count`` images influence the values, which limits the p-value; ``note`` is on the interval.
    """
    a, b = values
    b = a if abs(a - b) < SAME_VALUE else b
    settings: dict[str, Any] = {"confidence_level": confidence_level, "method": method, "design": "iid"}
    if replicates is None:
        reason = "nothing is relevant" if math.isnan(a) else "one image, which has no spread"
        return comparison_from_error(a, b, 0.0 if a == b else math.nan, reason=reason, **settings)
    gaps = _gaps(replicates)
    error = float(resampling.standard_error(gaps))
    reason = "fewer than two resamples have anything to find" if math.isnan(error) else ""
    comparison = comparison_from_error(a, b, error, reason=reason, df=df, **settings)
    least = 0.0
    if method != "bootstrap-normal" and comparison.standard_error > 0:  # 0 where rounding explains it
        low, high = resampling.percentile(gaps, confidence_level)
        p, least = resampling.two_sided_p_value(gaps)
        comparison = replace(comparison, low=low, high=high, p_value=number(p))
    return limit_p_value(comparison, count, "images", note, least)


def _gaps(values: Tensor) -> Tensor:
    """Return the differences of (B, 2) replicates; 0 within rounding error."""
    gaps = values[:, 0] - values[:, 1]
    return torch.where(gaps.abs() < SAME_VALUE, 0, gaps)
