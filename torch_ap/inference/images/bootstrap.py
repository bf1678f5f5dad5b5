"""The bootstrap over images that hold many items of many rankings: over images, for the mAP of detectors."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from torch_ap.inference import bootstrap
from torch_ap.inference.images.resampled_rankings import InterpolationRule, ResampledRankings, images_of_mean
from torch_ap.inference.interval import Ends, Interval, logit
from torch_ap.inference.resampling import Resampling, multinomial, multinomial_on_device
from torch_ap.inference.student import normal_quantile, student_quantile
from torch_ap.ranking import segments
from torch_ap.rules import checks

__all__ = ["METHODS", "ResampledRankings", "class_intervals", "image_interval", "image_replicates"]

METHODS = ("bootstrap-basic", "bootstrap-percentile", "bootstrap-logit")
_FEW = 10  # images; coverage falls from 200 to 50 already, and was not measured below


def image_replicates(
    systems: Sequence[ResampledRankings],
    resampling: Resampling,
    interpolation: InterpolationRule = None,
    *,
    lists: Sequence[Tensor | slice] | None = None,
) -> Tensor:
    """The mean AP over the rankings that have something to find, of each system in B resamples of the images.

    Args:
        systems: X of the same images, which all see the same resamples.
        resampling: how many, from which generator, in how much memory.
        interpolation: as for :meth:`ResampledRankings.average_precision`.
        lists: those whose own means are wanted instead, K of each system.

    Returns:
        (B, X) float64, or (B, X, K); NaN for a resample in which nothing is relevant.
    """
    device, images = systems[0].image.device, systems[0].images

    def means(weights: Tensor) -> Tensor:
        if lists is None:
            return torch.stack([ranked.average_precision(weights, interpolation).nanmean(1) for ranked in systems], 1)
        each = [ranked.average_precision_of_lists(weights, interpolation) for ranked in systems]
        return torch.stack([values[:, kept] for values, kept in zip(each, lists, strict=True)], 1)

    if device.type == "cpu":
        equal, size = np.ones(images, np.int64), sum(size_of(ranked, interpolation) for ranked in systems)

        def some(rngs: list[np.random.Generator]) -> Tensor:
            return means(torch.from_numpy(np.stack([multinomial(rng, equal, images) for rng in rngs])))

        return torch.cat(resampling.together(some, size))
    width = max(size_of(ranked, interpolation) for ranked in systems)
    generator, ones = resampling.on(device), torch.ones(images, dtype=torch.int64, device=device)

    def draw(count: int) -> tuple[Tensor]:
        return (multinomial_on_device(generator, ones, (ones * images)[:1].expand(count)),)

    return torch.cat([means(*weights) for weights in resampling.drawn_on_device(width, draw)])


def size_of(ranked: ResampledRankings, interpolation: InterpolationRule) -> int:
    """About how many numbers one replicate holds."""
    levels = len(interpolation) if isinstance(interpolation, Tensor) else 0
    return 2 * len(ranked.image) + 8 * len(ranked.event_item) + 4 * len(ranked.ranking_list) * levels


def image_interval(
    ranked: ResampledRankings,
    *,
    confidence_level: float = 0.95,
    method: str = "bootstrap-basic",
    interpolation: InterpolationRule = None,
    resampling: Resampling | None = None,
) -> Interval:
    """A confidence interval for mean AP by the bootstrap over images.

    The estimand is the limit that mean AP tends to as images are added, not its mean over samples of so many.

    Args:
        ranked: the rankings.
        confidence_level: nominal coverage, in (0, 1).
        method: one of those above; "bootstrap-basic" is cut at 0 and 1.
        interpolation: as for :meth:`ResampledRankings.average_precision`.
        resampling: None for 1,000 resamples that repeat.

    Returns:
        :class:`torch_ap.inference.interval.Interval` of 0-d float64 tensors; NaN where nothing is relevant, or all
        stands in one image. Of fewer than 10 images ``reason`` says that the interval is likely too narrow.

    Raises:
        ValueError: for a ``confidence_level`` outside (0, 1), or an unknown method.

    Measured coverage at 95% (``python -m benchmarks.coverage --only images detectors``, 600 data sets a figure):

    ==========================  =====  ==========  =====
    data                        basic  percentile  logit
    ==========================  =====  ==========  =====
    4 classes, 50 images        0.887  0.753       0.822
    4 classes, 200 images       0.942  0.833       0.910
    4 classes, 800 images       0.928  0.875       0.912
    40, most rare, 300 images   0.840  0.427       0.638
    ==========================  =====  ==========  =====

    The mAP of few images lies above that of many (by 0.7, 0.5 and 0.4 of its standard deviation in the first three
    rows), because interpolation takes maxima. A resample has fewer different images still and lies above it again:
    "bootstrap-percentile" doubles the bias, "bootstrap-basic", which mirrors the replicates, takes it off.

    Source: Efron (1979); Davison & Hinkley (1997), section 5.2; images are drawn with all that they hold.

    Example:
        >>> import torch
        >>> from torch_ap.inference.images.bootstrap import ResampledRankings, image_interval
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
    how = resampling or Resampling()
    checks.one_of("method", method, METHODS)
    every = torch.ones(1, ranked.images, dtype=torch.int64, device=ranked.image.device)
    estimate = ranked.average_precision(every, interpolation).nanmean()
    nan = torch.full_like(estimate, torch.nan)
    empty = Interval(estimate, nan, nan, nan, confidence_level, method, "iid")
    if bool(torch.isnan(estimate)):
        return replace(empty, reason="nothing is relevant")
    if ranked.images < 2:
        return replace(empty, reason="one image, which has no spread: the ends are NaN")
    values = image_replicates([ranked], how, interpolation)[:, 0]
    error = bootstrap.standard_error(values)
    if bool(torch.isnan(error)):
        return replace(empty, reason="fewer than two resamples have anything to find")
    low, high = ends(values, estimate, method, confidence_level)
    reason = "" if error > 0 else "all resamples have the same value, which says nothing of its spread"
    if not reason and (narrow := narrow_of(count := images_of_mean([ranked]))):
        reason = f"{count} images: {narrow}"
    return replace(empty, low=low, high=high, standard_error=error, reason=reason)


def narrow_of(images: int) -> str:
    """What is said of an interval of so many images by the normal law or percentiles; "" of 10 and more."""
    return "likely too narrow, coverage is measured from 50 on" if images < _FEW else ""


def class_intervals(
    ranked: ResampledRankings,
    *,
    confidence_level: float = 0.95,
    method: str = "bootstrap-logit",
    interpolation: InterpolationRule = None,
    resampling: Resampling | None = None,
) -> Interval:
    """An interval for the mean AP over the rankings of each list, such as the AP of a class over IoU thresholds.

    The estimand is the limit that it tends to as images are added. "bootstrap-logit" takes the quantile of Student's t
    with as many degrees of freedom as images hold something of the list, less one.

    Args:
        ranked, confidence_level, interpolation, resampling: as for :func:`image_interval`, whose resamples these are.
        method: one of its methods.

    Returns:
        :class:`torch_ap.inference.interval.Interval` of (K,) float64 tensors. The ends are NaN where nothing is
        relevant, all stands in one image, or no resample differs; those of "bootstrap-logit" also where AP is 0 or 1.
        The others are likely too narrow for a class that fewer than 10 images hold: ``reason`` says of how many.

    Raises:
        ValueError: as there.

    Measured coverage at 95% by the number of ground truths of a class (``python -m benchmarks.coverage --only
    detectors --resampled 80``, 300 images, 40 classes, most of them rare):

    =============  ======  ========  ========  ========  ===========
    ground truths  5 to 9  10 to 19  20 to 49  50 to 99  100 or more
    =============  ======  ========  ========  ========  ===========
    logit          0.986   0.959     0.937     0.934     0.916
    percentile     0.922   0.924     0.928     0.938     0.908
    basic          0.838   0.894     0.916     0.952     0.924
    =============  ======  ========  ========  ========  ===========

    Source: as there; the scale and the quantile are those of intervals for one ranking.
    """
    confidence_level = checks.open_fraction("confidence_level", confidence_level)
    how = resampling or Resampling()
    checks.one_of("method", method, METHODS)
    every = torch.ones(1, ranked.images, dtype=torch.int64, device=ranked.image.device)
    estimate = ranked.average_precision_of_lists(every, interpolation)[0]
    values = image_replicates([ranked], how, interpolation, lists=[slice(None)])[:, 0]
    return class_intervals_of(ranked, values, estimate, method, confidence_level)


def class_intervals_of(
    ranked: ResampledRankings, values: Tensor, estimate: Tensor, method: str, confidence_level: float
) -> Interval:
    """The intervals of (K,) estimates from their (B, K) replicates."""
    images = segments.as_float64(images_of_lists(ranked))
    quantile = student_quantile(confidence_level, images - 1)
    out = torch.full((3, len(estimate)), torch.nan, dtype=estimate.dtype, device=estimate.device)
    for place in (images > 1).nonzero().flatten().tolist():
        error = bootstrap.standard_error(values[:, place])
        if error > 0:
            found = ends(values[:, place], estimate[place], method, confidence_level, quantile[place])
            out[:, place] = torch.stack([*found, error])
    low, high, error = out
    reason = _reasons(estimate, images, error, low, method)
    return Interval(estimate, low, high, error, confidence_level, method, "iid", reason)


def images_of_lists(ranked: ResampledRankings) -> Tensor:
    """(K,) int64, in how many images there is something to find of each list."""
    size = ranked.images
    holds: Tensor = torch.unique(ranked.relevant_list * size + ranked.relevant_image) // max(size, 1)
    return segments.count(holds, len(ranked.offsets) - 1)


def _reasons(estimate: Tensor, images: Tensor, error: Tensor, low: Tensor, method: str) -> str:
    """Why ends are missing or too near, of how many classes."""
    several = images > 1
    few = several & (images < _FEW) & (error > 0)
    told = (
        (images == 0, "nothing is relevant"),
        (images == 1, "all in one image, which has no spread"),
        (several & torch.isnan(error), "all resamples have the same value, which says nothing of its spread"),
        (several & ~torch.isnan(error) & torch.isnan(low), "AP of 0 or 1"),
        (few & (method != "bootstrap-logit"), f"in fewer than {_FEW} images, the interval likely too narrow"),
    )
    said = [(int(flags.sum()), text) for flags, text in told if bool(flags.any())]
    return "; ".join(f"{count} of {len(estimate)} classes: {text}" for count, text in said)


def ends(
    values: Tensor, estimate: Tensor, method: str, confidence_level: float, quantile: Tensor | float | None = None
) -> Ends:
    """The ends of an interval from replicates: (B,) values; ``quantile`` is of "bootstrap-logit", by default normal."""
    if method == "bootstrap-logit":
        quantile = normal_quantile(confidence_level) if quantile is None else quantile
        return logit(estimate, bootstrap.standard_error(values), quantile)
    if method == "bootstrap-percentile":
        return bootstrap.percentile(values, confidence_level)
    low, high = bootstrap.basic(values, estimate, confidence_level)
    return low.clamp(0, 1), high.clamp(0, 1)
