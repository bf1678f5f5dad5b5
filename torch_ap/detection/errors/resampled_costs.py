"""Intervals of the costs of errors, and of their differences between detectors, by resamples of images or groups.

A fix changes detections and ground truths within their images, so a resample is a weight per image, as it is for AP.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base.options import InterpolationRule
from torch_ap.core.ranking import segments
from torch_ap.detection.errors.outcomes import CLASSIFICATION, IGNORED, Outcomes
from torch_ap.detection.errors.tide import KINDS, Fixes
from torch_ap.detection.inference.rankings import ResampledRankings
from torch_ap.detection.inference.resampled import image_replicates
from torch_ap.detection.inputs.images import image_ids
from torch_ap.inference.groups import Groups
from torch_ap.inference.record import Comparison, Interval, comparison_from_error, logit, student_quantile
from torch_ap.inference.resampling import Resampling, standard_error

_MAX_NUMBERS = 1 << 27  # counts of items of all resamples; 200 resamples up to about 90,000 detections
_MIN_RESAMPLES = 50  # below, standard errors are off by over 10% on average

_MIN_UNITS = 5  # images or groups with errors of a kind, for an interval


def error_costs(ranked: ResampledRankings, weights: Tensor, interpolation: InterpolationRule) -> Tensor:
    """Return the cost of each kind of error for given numbers of occurrences of the images, (b, 8).

    Args:
        ranked: the result of ``Fixes.rankings``.
        weights: (b, U) int64, at least 0.
        interpolation: interpolation of AP.
    """
    ap = ranked.average_precision(weights, interpolation).view(len(weights), 1 + len(KINDS), -1)
    emptied = ap.isnan() & ~ap[:, :1].isnan()
    if bool(emptied.any()):  # the AP is 0 if detections remain
        size = ap.shape[2]
        first = ranked.image[: ranked.offsets[size]]
        n = torch.zeros_like(weights[:, :1]).repeat(1, size)
        n.index_add_(1, segments.ids(ranked.offsets[: size + 1]), weights[:, first])
        ap = torch.where(emptied & (n > 0)[:, None], 0, ap)
    means = ap.nanmean(2)
    return means[:, 1:] - means[:, :1]


def cost_intervals(
    systems: Sequence[Outcomes], *, confidence_level: float, resampling: Resampling, groups: Groups | None = None
) -> tuple[list[Interval], list[Comparison], int]:
    """Return the intervals of the costs of each detector, and the comparisons of the costs of the first two.

    The estimand is the mean cost over sets of as many images. With more images, the costs of duplicates and of all
    false positives of rare classes are higher.

    Args:
        systems: the outcomes of detectors on the same images, with the same interpolation.
        confidence_level: nominal coverage of each interval, in (0, 1).
        resampling: settings of the resamples of the images, which the detectors share. Many detections have fewer
            resamples, but at least 50.
        groups: groups of the images, such as videos, that are resampled whole; None for independent images.

    Returns:
        One interval of (8,) tensors per detector, in the order of ``KINDS``: "bootstrap-logit" with Student's t, whose
        degrees of freedom are the number of images, or groups, with such errors, minus one. NaN for a cost of 0, and
        for errors in fewer than 5 images, or groups. With two detectors, the 8 comparisons by "bootstrap-normal", with
        Student's t for groups; NaN for fewer than 5 groups. And the number of resamples.
    """
    interpolation = systems[0].at.interpolation
    ranked = [Fixes(x).rankings() for x in systems]
    most = max(_MIN_RESAMPLES, _MAX_NUMBERS // max(1, sum(len(x.image) for x in ranked)))
    resampling = replace(resampling, n_resamples=min(resampling.n_resamples, most))
    statistic = partial(error_costs, interpolation=interpolation)
    costs = [statistic(x, x.unit_weights)[0] for x in ranked]
    drawn = ranked if groups is None else [x.in_groups(groups) for x in ranked]
    values = image_replicates(drawn, resampling, statistics=[statistic] * len(drawn))
    # resamples of G groups have (G - 1) / G of the variance; for images the factor is nearly 1
    scale = 1.0 if groups is None else math.sqrt(groups.count / max(groups.count - 1, 1))
    intervals = []
    for place, (outcomes, estimate) in enumerate(zip(systems, costs, strict=True)):
        error = scale * _standard_errors(values[:, place])
        units = _units_of_kinds(outcomes, groups)
        quantile = student_quantile(confidence_level, segments.as_float64(units) - 1)
        low, high = (torch.where(units < _MIN_UNITS, torch.nan, x) for x in logit(estimate, error, quantile))
        intervals.append(Interval(estimate, low, high, error, confidence_level, "bootstrap-logit", "iid"))
    if len(systems) < 2:
        return intervals, [], resampling.n_resamples
    settings: Any = {"confidence_level": confidence_level, "method": "bootstrap-normal", "design": "iid"}
    gaps = (scale * _standard_errors(values[:, 0] - values[:, 1])).tolist()
    if groups is not None:
        settings["df"] = groups.count - 1
        gaps = gaps if groups.count >= _MIN_UNITS else [math.nan] * len(gaps)
    pairs = zip(costs[0].tolist(), costs[1].tolist(), gaps, strict=True)
    return intervals, [comparison_from_error(*pair, **settings) for pair in pairs], resampling.n_resamples


def _standard_errors(values: Tensor) -> Tensor:
    """Return the standard error of each column of (B, 8) replicates."""
    return torch.stack([standard_error(x) for x in values.unbind(1)])


def _units_of_kinds(outcomes: Outcomes, groups: Groups | None) -> Tensor:
    """Return the number of images, or of groups of images, with errors of each kind, (8,)."""
    at = outcomes.at
    image = at.matches.ranked.group // at.matches.categories
    truth_image = image_ids(at.columns["ground_truths_per_image"])
    if groups is not None:
        image, truth_image = groups.ids[image], groups.ids[truth_image]
    wrong = [outcomes.outcome == code for code in range(CLASSIFICATION, IGNORED)]
    each = [image[x] for x in wrong]
    each.append(truth_image[outcomes.missed])
    each.append(image[torch.stack(wrong).any(0)])
    each.append(truth_image[outcomes.valid & ~outcomes.detected])
    return torch.tensor([len(torch.unique(x)) for x in each], device=image.device)
