"""Comparison of all of COCO's numbers of two detectors, by resamples of the images, or over groups of images."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_ap.detection.inference.comparison import compare_numbers
from torch_ap.detection.inference.rankings import ResampledRankings, ranked_images
from torch_ap.detection.inference.resampled import Statistic
from torch_ap.detection.rules.coco_numbers import CocoNumbers
from torch_ap.inference.groups import Groups
from torch_ap.inference.record import Comparison
from torch_ap.inference.resampling import Resampling


@dataclass(frozen=True, eq=False)
class _Number:
    """One of COCO's numbers: a mean over IoU thresholds and classes.

    Attributes:
        name: its name, as in ``compute()``.
        is_recall: whether it is a recall; else an AP.
        threshold: index of its IoU threshold; None for all.
        labels: labels of its classes; None for all.
    """

    name: str
    is_recall: bool
    threshold: int | None = None
    labels: Tensor | None = None


def compare_coco_numbers(
    systems: tuple[CocoNumbers, CocoNumbers],
    images: int,
    *,
    confidence_level: float,
    resampling: Resampling,
    groups: Groups | None = None,
) -> dict[str, Comparison]:
    """Return the difference of each number of two detectors by its name in ``compute()``.

    Args:
        systems: the numbers of both detectors over the same images and ground truths.
        images: number of images.
        confidence_level: as for :func:`torch_ap.detection.inference.comparison.compare_images`.
        resampling: as there; the method is "bootstrap-normal". All numbers have the same resamples.
        groups: the group of each image, for "jackknife" over groups; None for independent images.
    """
    compared: dict[str, Comparison] = {}
    for (area, limit), numbers in _numbers(systems[0]).items():
        a, b = (ranked_images(x.matches_within(limit), images, area) for x in systems)
        f, g = (_statistic(numbers, x) for x in systems)
        options: Any = {"confidence_level": confidence_level, "resampling": resampling, "groups": groups}
        found = compare_numbers((a, b), (f, g), **options)
        compared |= {number.name: comparison for number, comparison in zip(numbers, found, strict=True)}
    return compared


def _numbers(coco: CocoNumbers) -> dict[tuple[int, int], list[_Number]]:
    """Return the numbers of ``CocoNumbers.summary``, by the indices of their area range and limit on detections."""
    settings = coco.settings
    last = len(settings.limits) - 1
    numbers = [_Number("map", is_recall=False)]
    for name, iou in (("map_50", 0.5), ("map_75", 0.75)):
        if (place := coco.threshold(iou)) is not None:
            numbers.append(_Number(name, False, place))
    numbers += [_Number(f"map_{name}", False, labels=labels) for name, labels in settings.groups.items()]
    for iou in settings.recall_at:
        if (place := coco.threshold(iou)) is not None:
            numbers.append(_Number(f"mar_iou_{100 * iou:.0f}", True, place))
    numbers.append(_Number(f"mar_{settings.limits[-1]}", True))
    found = {(0, last): numbers}
    for area, name in list(enumerate(settings.areas))[1:]:
        found[area, last] = [_Number(f"map_{name}", False), _Number(f"mar_{name}", True)]
    return found | {(0, limit): [_Number(f"mar_{settings.limits[limit]}", True)] for limit in range(last)}


def _statistic(numbers: list[_Number], coco: CocoNumbers) -> Statistic:
    """Return the function of rankings and (b, U) weights of images that returns the (b, R) numbers."""
    has_precision = not all(x.is_recall for x in numbers)

    def statistic(ranked: ResampledRankings, weights: Tensor) -> Tensor:
        shape = (len(weights), *coco.shape)
        recall = ranked.recall(weights).view(shape)
        precision = ranked.average_precision(weights, coco.levels).view(shape) if has_precision else recall
        means = []
        for number in numbers:
            values = recall if number.is_recall else precision
            values = values if number.threshold is None else values[:, [number.threshold]]
            if number.labels is not None:
                inside = torch.isin(coco.labels, number.labels.to(coco.labels.device)).nonzero()[:, 0]
                values = values[:, :, inside]
            means.append(values.flatten(1).nanmean(1))
        return torch.stack(means, 1)

    return statistic
