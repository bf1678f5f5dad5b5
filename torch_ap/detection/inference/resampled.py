"""Intervals of the mAP of detectors over images, by the bootstrap or by deletion of groups of images."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.options import InterpolationRule
from torch_ap.core.ranking import segments
from torch_ap.detection.inference.rankings import ResampledRankings, images_of_mean
from torch_ap.inference import groups as grouped
from torch_ap.inference import resampling as bootstrap
from torch_ap.inference.contributions import Contributions, jackknife_contributions
from torch_ap.inference.groups import Groups
from torch_ap.inference.record import Ends, Interval, logit, normal_quantile, student_quantile
from torch_ap.inference.resampling import Resampling, multinomial_on_device, times_drawn

Statistic: TypeAlias = Callable[[ResampledRankings, Tensor], Tensor]

METHODS = ("bootstrap-basic", "bootstrap-percentile", "bootstrap-logit")
_NO_SPREAD = "all resamples have the same value, which says nothing of its spread"
_NUMBERS_PER_STEP = 1 << 23  # of the weights of groups in one step
_NUMBERS_PER_TASK = 1 << 24  # several resamples in one task, which share sums and calls
# below these numbers of images, intervals cover too little (benchmarks.coverage)
_MIN_IMAGES = 10  # of a class, or of a comparison, whose coverage was measured from 50 images on
_MIN_IMAGES_OF_MEAN = 50
_FEWEST_MEASURED = 20  # images; the smallest number with a measured coverage of the mean
_MIN_IMAGES_OF_MOST_CLASSES = 20  # of the mean


def image_replicates(
    systems: Sequence[ResampledRankings],
    resampling: Resampling,
    interpolation: InterpolationRule = None,
    *,
    statistics: Sequence[Statistic] | None = None,
) -> Tensor:
    """Return the mean AP over the rankings with ground truths, of each system in B resamples of the images.

    Args:
        systems: X systems over the same images, which share the resamples.
        resampling: number of resamples, generator and memory limit.
        interpolation: as for :meth:`ResampledRankings.average_precision`.
        statistics: for each system, a function of its rankings and (b, U) weights that returns (b, K) numbers, to
            return these instead.

    Returns:
        (B, X) float64, or (B, X, K); NaN for a resample without ground truths.
    """
    device, images = systems[0].image.device, systems[0].images

    def means(weights: Tensor) -> Tensor:
        if statistics is not None:
            return torch.stack([f(ranked, weights) for f, ranked in zip(statistics, systems, strict=True)], 1)
        return torch.stack([ranked.average_precision(weights, interpolation).nanmean(1) for ranked in systems], 1)

    if device.type == "cpu":
        size = sum(size_of(ranked, interpolation) for ranked in systems)

        def resampled_means(rngs: list[np.random.Generator]) -> Tensor:
            return means(torch.from_numpy(np.stack([times_drawn(rng, images, images) for rng in rngs])))

        return torch.cat(resampling.map_tasks(resampled_means, size, _NUMBERS_PER_TASK))
    width = max(size_of(ranked, interpolation) for ranked in systems)
    generator, ones = resampling.generator_on(device), torch.ones(images, dtype=torch.int64, device=device)

    def draw(count: int) -> tuple[Tensor]:
        return (multinomial_on_device(generator, ones, (ones * images)[:1].expand(count)),)

    return torch.cat([means(*weights) for weights in resampling.draw_on_device(width, draw, drawn=images)])


def list_replicates(
    systems: Sequence[ResampledRankings], resampling: Resampling, interpolation: InterpolationRule
) -> list[Tensor]:
    """Return the mean AP over the rankings of each list in B resamples of the images, (B, K) for each system.

    Args:
        systems: as for :func:`image_replicates`; their numbers of lists may differ.
        resampling: as for :func:`image_replicates`.
        interpolation: as for :func:`image_replicates`.
    """
    counts = [len(ranked.offsets) - 1 for ranked in systems]

    def padded(ranked: ResampledRankings, weights: Tensor) -> Tensor:
        aps = ranked.average_precision_of_lists(weights, interpolation)
        return torch.nn.functional.pad(aps, (0, max(counts) - aps.shape[1]), value=torch.nan)

    values = image_replicates(systems, resampling, interpolation, statistics=[padded] * len(systems))
    return [values[:, place, :count] for place, count in enumerate(counts)]


def size_of(ranked: ResampledRankings, interpolation: InterpolationRule) -> int:
    """Return the approximate count of numbers that one replicate stores."""
    levels = len(interpolation) if isinstance(interpolation, Tensor) else 0
    return 2 * len(ranked.image) + 8 * len(ranked.event_item) + 4 * len(ranked.ranking_list) * levels


def image_interval(
    ranked: ResampledRankings,
    *,
    confidence_level: float = 0.95,
    method: str = "bootstrap-basic",
    interpolation: InterpolationRule = None,
    resampling: Resampling | None = None,
    values: Tensor | None = None,
) -> Interval:
    """Return a confidence interval of mean AP by the bootstrap over images.

    The estimand is the limit of mean AP as images are added, not its expectation for this number of images.

    Args:
        ranked: the rankings.
        confidence_level: nominal coverage, in (0, 1).
        method: a method of the table below; "bootstrap-basic" is clipped to [0, 1].
        interpolation: as for :meth:`ResampledRankings.average_precision`.
        resampling: None for 1,000 resamples that repeat.
        values: (B,) replicates, if they are known.

    Returns:
        :class:`torch_ap.inference.record.Interval` of 0-d float64 tensors; NaN without ground truths, or if all
        ground truths are in one image. For fewer than 50 images, and if most classes have ground truths in fewer than
        20 images, ``reason`` notes that the interval is likely too narrow.

    Raises:
        ValueError: if ``confidence_level`` is outside (0, 1), or the method is unknown.

    Measured coverage at 95% (``python -m benchmarks.coverage --only images detectors``, 2,000 data sets per value):

    ==========================  =====  ==========  =====
    data                        basic  percentile  logit
    ==========================  =====  ==========  =====
    4 classes, 50 images        0.897  0.754       0.837
    4 classes, 200 images       0.925  0.833       0.894
    4 classes, 800 images       0.940  0.886       0.923
    40, most rare, 300 images   0.844  0.389       0.639
    ==========================  =====  ==========  =====

    With 20 images, "basic" covered .885 for 5 common classes and .590 for 40 mostly rare ones (1,000 data sets, part
    ``few-images``). A delete-one-image bias correction covered .882 to .942 and .798 to .934 with 20 to 200 images.

    The mAP of few images is larger than the mAP of many (by 0.7, 0.5 and 0.4 of its standard deviation in the first
    three rows), because interpolation takes maxima. A resample contains fewer distinct images, so its mAP is larger
    again. "bootstrap-percentile" doubles this bias. "bootstrap-basic", which mirrors the replicates, corrects it.

    Source: Efron (1979); Davison & Hinkley (1997), section 5.2; images are resampled with all their items.

    Example:
        >>> import torch
        >>> from torch_ap.detection.inference.rankings import ResampledRankings
        >>> from torch_ap.detection.inference.resampled import image_interval
        >>> hits, one = torch.tensor([True, False, True, True, False, False]), torch.tensor([0, 6])
        >>> ranked = ResampledRankings(
        ...     image=torch.arange(6), counted=torch.ones(6, dtype=torch.bool), offsets=one,
        ...     event_item=hits.nonzero()[:, 0], event_hit=hits[hits], event_counts=hits[hits],
        ...     event_offsets=torch.tensor([0, 3]), ranking_list=torch.tensor([0]),
        ...     relevant_image=hits.nonzero()[:, 0], relevant_list=torch.zeros(3, dtype=torch.int64), images=6,
        ... )
        >>> round(float(image_interval(ranked).estimate), 4)
        0.8056
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, METHODS)
    estimate = ranked.average_precision(ranked.unit_weights, interpolation).nanmean()
    nan = torch.full_like(estimate, torch.nan)
    empty = Interval(estimate, nan, nan, nan, confidence_level, method, "iid")
    if bool(torch.isnan(estimate)):
        return replace(empty, reason="nothing is relevant")
    if ranked.images < 2:
        return replace(empty, reason="one image, which has no spread: the ends are NaN")
    if values is None:
        values = image_replicates([ranked], resampling or Resampling(), interpolation)[:, 0]
    error = bootstrap.standard_error(values)
    if bool(torch.isnan(error)):
        return replace(empty, reason="fewer than two resamples have anything to find")
    low, high = ends(values, estimate, method, confidence_level)
    reason = "" if error > 0 else _NO_SPREAD
    return replace(empty, low=low, high=high, standard_error=error, reason=reason or _mean_note(ranked))


# measured coverage of the mean at 95%: with 20 images, with 20 to 50, and if most classes are in few images
_COVERAGE_OF_BOOTSTRAP = ".57 to .89", ".57 to .92", ".64 to .84"
_COVERAGE_OF_JACKKNIFE = ".73 to .93", ".72 to .93", ".70 to .72"


def _mean_note(ranked: ResampledRankings, covered: tuple[str, str, str] = _COVERAGE_OF_BOOTSTRAP) -> str:
    """Return why an interval of the mean is likely too narrow; "" otherwise."""
    count = images_of_mean([ranked])
    if count < _MIN_IMAGES_OF_MEAN:
        measured = f"{covered[1]} with 20 to 50 images" if count > _FEWEST_MEASURED else f"{covered[0]} with 20 images"
        return f"{count} images: likely too narrow, 95% covered {measured}"
    of_classes = images_per_list(ranked)
    of_classes = of_classes[of_classes > 0]
    if 2 * int((of_classes < _MIN_IMAGES_OF_MOST_CLASSES).sum()) <= len(of_classes):
        return ""
    least = _MIN_IMAGES_OF_MOST_CLASSES
    return (
        f"most classes are in fewer than {least} images: likely too narrow, 95% covered {covered[2]} for such classes"
    )


def without_each_group(
    ranked: ResampledRankings,
    groups: Groups,
    interpolation: InterpolationRule = None,
    *,
    each_list: bool = False,
    statistic: Statistic | None = None,
) -> Tensor:
    """Return the mean AP over the rankings without the images of each group; nothing is matched again.

    Args:
        ranked: the rankings.
        groups: the group of each image.
        interpolation: as for :meth:`ResampledRankings.average_precision`.
        each_list: whether to return the mean AP over the rankings of each list.
        statistic: a function as for :func:`image_replicates`, to return its numbers instead.

    Returns:
        (G,) float64, or with ``each_list`` or ``statistic`` (K, G).
    """
    device = ranked.image.device
    values_of = statistic or partial(_mean_aps, interpolation=interpolation, each_list=each_list)
    values = [values_of(ranked, ranked.unit_weights)[:0]]
    step = max(1, _NUMBERS_PER_STEP // max(size_of(ranked, interpolation), 1))
    for first in range(0, groups.count, step):
        left_out = torch.arange(first, min(first + step, groups.count), device=device)
        weights = (groups.ids != left_out[:, None]).to(torch.int64)
        values.append(values_of(ranked, weights))
    return torch.cat(values).movedim(0, -1)


def _mean_aps(
    ranked: ResampledRankings, weights: Tensor, interpolation: InterpolationRule, *, each_list: bool
) -> Tensor:
    """Return the mean AP over the rankings for each row of weights, (b,), or over the rankings of each list, (b, K)."""
    if each_list:
        return ranked.average_precision_of_lists(weights, interpolation)
    return ranked.average_precision(weights, interpolation).nanmean(1)


def group_degrees_of_freedom(
    ranked: ResampledRankings, groups: Groups, *, each_list: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the degrees of freedom of values without each group, and the number of groups with ground truths.

    Returns:
        Two 0-d tensors, or with ``each_list`` two (K,) tensors.
    """
    group, rows = groups.ids[ranked.relevant_image], 1
    if each_list:
        group, rows = ranked.relevant_list * groups.count + group, len(ranked.offsets) - 1
    sizes = segments.as_float64(segments.count(group, rows * groups.count)).view(rows, groups.count)
    df = sizes.new_tensor([min(float(groups.count), grouped.effective_number(x)) - 1 for x in sizes])
    with_truths = (sizes > 0).sum(1)
    return (df, with_truths) if each_list else (df[0], with_truths[0])


def group_interval(
    ranked: ResampledRankings,
    groups: Groups,
    *,
    confidence_level: float,
    interpolation: InterpolationRule,
    each_list: bool = False,
) -> Interval:
    """Return a confidence interval of mean AP by the delete-one-group jackknife, on the logit scale.

    The images of a group, such as a video, may depend on each other. SE is that of :mod:`torch_ap.inference.groups`,
    with ground truths in place of hits, and t has K - 1 degrees of freedom. ``benchmarks.coverage`` measures groups of
    one image: with 20 to 50 images, 95% covered .716 to .925. ``reason`` notes fewer than 50 images, and if most
    classes have ground truths in fewer than 20 images.

    Args:
        ranked: as for :func:`image_interval`.
        groups: the group of each image.
        confidence_level: as for :func:`image_interval`.
        interpolation: as for :func:`image_interval`.
        each_list: whether to return intervals of the mean AP over the rankings of each list, (K,).
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    estimate = _mean_aps(ranked, ranked.unit_weights, interpolation, each_list=each_list)[0]
    df, with_truths = group_degrees_of_freedom(ranked, groups, each_list=each_list)
    error = grouped.standard_error(without_each_group(ranked, groups, interpolation, each_list=each_list))
    low, high = logit(estimate, error, student_quantile(confidence_level, df))
    undefined, ends_missing = estimate.isnan(), low.isnan()
    causes = (
        (undefined, "nothing is relevant"),
        (~undefined & (df < 1), f"{grouped.NO_SPREAD}: the ends are NaN"),
        (
            ~undefined & (df >= 1) & ends_missing,
            "a mean AP of 0 or 1, or without a value without some group: the ends are NaN",
        ),
    )
    few = grouped.few_groups_reason(torch.where(ends_missing, 0, with_truths), "ground truths", "classes")
    narrow = "" if each_list or bool(ends_missing) else _mean_note(ranked, _COVERAGE_OF_JACKKNIFE)
    reason = "; ".join(filter(None, [_describe_causes(causes), few, narrow]))
    return Interval(estimate, low, high, error, confidence_level, "jackknife", "iid", reason)


def image_contributions(
    ranked: ResampledRankings, *, interpolation: InterpolationRule, resampling: Resampling
) -> Contributions:
    """Return the contributions of B resamples of the images to the mean AP over the rankings.

    Systems over the same images have the same resamples if the generators of ``resampling`` have the same state.

    Args:
        ranked: as for :func:`image_interval`.
        interpolation: as for :func:`image_interval`.
        resampling: number of resamples, generator and memory limit.
    """
    value = float(ranked.average_precision(ranked.unit_weights, interpolation).nanmean())
    values = image_replicates([ranked], resampling, interpolation)[:, 0].cpu()
    values = values[~values.isnan()]  # resamples without ground truths, the same for all systems
    shares = (values - values.mean()) / (math.sqrt(len(values) - 1) if len(values) > 1 else math.nan)
    return Contributions(value, shares, images_of_mean([ranked]) - 1, note=_mean_note(ranked))


def group_contributions(
    ranked: ResampledRankings, groups: Groups, *, interpolation: InterpolationRule
) -> Contributions:
    """Return the contributions of groups of the images to the mean AP over the rankings, by deletion of each group."""
    value = float(ranked.average_precision(ranked.unit_weights, interpolation).nanmean())
    df, with_truths = group_degrees_of_freedom(ranked, groups)
    few = grouped.few_groups_reason(with_truths, "ground truths")
    note = "; ".join(filter(None, [few, _mean_note(ranked, _COVERAGE_OF_JACKKNIFE)]))
    values = without_each_group(ranked, groups, interpolation)
    return jackknife_contributions(value, values, float(df), None, note)


def narrow_note(images: int) -> str:
    """Return the note on a normal or percentile interval of a difference of few images; "" for 10 images and more."""
    return "likely too narrow, coverage is measured from 50 on" if images < _MIN_IMAGES else ""


def class_intervals(
    ranked: ResampledRankings,
    *,
    confidence_level: float = 0.95,
    method: str = "bootstrap-logit",
    interpolation: InterpolationRule = None,
    resampling: Resampling | None = None,
    values: Tensor | None = None,
) -> Interval:
    """Return intervals of the mean AP over the rankings of each list, such as the AP of a class over IoU thresholds.

    The estimand is the limit of the mean AP as images are added. "bootstrap-logit" uses Student's t; its degrees of
    freedom are the number of images with ground truths of the list, minus one.

    Args:
        ranked: as for :func:`image_interval`.
        confidence_level: as for :func:`image_interval`.
        method: a method of :func:`image_interval`.
        interpolation: as for :func:`image_interval`.
        resampling: as for :func:`image_interval`, with the same resamples.
        values: (B, K) replicates, if they are known.

    Returns:
        :class:`torch_ap.inference.record.Interval` of (K,) float64 tensors. The ends are NaN without ground truths,
        if all ground truths are in one image, or if all resamples are equal; for "bootstrap-logit" also if AP is 0 or
        1. The intervals of the other methods are likely too narrow for classes in fewer than 10 images; ``reason``
        contains the number of such classes.

    Raises:
        ValueError: if ``confidence_level`` is outside (0, 1), or the method is unknown.

    Measured coverage at 95% by the number of ground truths of a class (``python -m benchmarks.coverage --only
    detectors --resampled 2000``, 300 images, 40 classes, most of them rare):

    =============  ======  ========  ========  ========  ===========
    ground truths  5 to 9  10 to 19  20 to 49  50 to 99  100 or more
    =============  ======  ========  ========  ========  ===========
    logit          0.976   0.950     0.939     0.935     0.946
    percentile     0.911   0.922     0.924     0.924     0.937
    basic          0.829   0.887     0.916     0.930     0.940
    =============  ======  ========  ========  ========  ===========

    Source: as for :func:`image_interval`; intervals for one ranking have the same logit scale and quantile.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    checks.one_of("method", method, METHODS)
    estimate = ranked.average_precision_of_lists(ranked.unit_weights, interpolation)[0]
    if values is None:
        (values,) = list_replicates([ranked], resampling or Resampling(), interpolation)
    return class_intervals_from_replicates(ranked, values, estimate, method, confidence_level)


def class_intervals_from_replicates(
    ranked: ResampledRankings, values: Tensor, estimate: Tensor, method: str, confidence_level: float
) -> Interval:
    """Return the intervals of (K,) estimates, given their (B, K) replicates."""
    images = segments.as_float64(images_per_list(ranked))
    quantile = student_quantile(confidence_level, images - 1)
    out = torch.full((3, len(estimate)), torch.nan, dtype=estimate.dtype, device=estimate.device)
    for place in (images > 1).nonzero().flatten().tolist():
        error = bootstrap.standard_error(values[:, place])
        if error > 0:
            both_ends = ends(values[:, place], estimate[place], method, confidence_level, quantile[place])
            out[:, place] = torch.stack([*both_ends, error])
    low, high, error = out
    reason = _reasons(images, error, low, method)
    return Interval(estimate, low, high, error, confidence_level, method, "iid", reason)


def images_per_list(ranked: ResampledRankings) -> Tensor:
    """Return the number of images with ground truths of each list, (K,) int64."""
    size = ranked.images
    holds: Tensor = torch.unique(ranked.relevant_list * size + ranked.relevant_image) // max(size, 1)
    return segments.count(holds, len(ranked.offsets) - 1)


def _reasons(images: Tensor, error: Tensor, low: Tensor, method: str) -> str:
    """Return the causes of missing or narrow intervals, with the number of classes of each."""
    several = images > 1
    narrow = several & (images < _MIN_IMAGES) & (error > 0)
    causes = (
        (images == 0, "nothing is relevant"),
        (images == 1, "all in one image, which has no spread"),
        (several & torch.isnan(error), _NO_SPREAD),
        (several & ~torch.isnan(error) & torch.isnan(low), "AP of 0 or 1"),
        (narrow & (method != "bootstrap-logit"), f"in fewer than {_MIN_IMAGES} images, the interval likely too narrow"),
    )
    return _describe_causes(causes)


def _describe_causes(causes: Iterable[tuple[Tensor, str]]) -> str:
    """Return the texts that apply, each with the number of classes of its (K,) flags; none for a 0-d flag."""
    return "; ".join(
        f"{int(flags.sum())} of {len(flags)} classes: {text}" if flags.ndim else text
        for flags, text in causes
        if bool(flags.any())
    )


def ends(
    values: Tensor, estimate: Tensor, method: str, confidence_level: float, quantile: Tensor | float | None = None
) -> Ends:
    """Return the ends of an interval from (B,) replicates; ``quantile`` is for "bootstrap-logit", by default normal."""
    if method == "bootstrap-logit":
        quantile = normal_quantile(confidence_level) if quantile is None else quantile
        return logit(estimate, bootstrap.standard_error(values), quantile)
    if method == "bootstrap-percentile":
        return bootstrap.percentile(values, confidence_level)
    low, high = bootstrap.basic(values, estimate, confidence_level)
    return low.clamp(0, 1), high.clamp(0, 1)
