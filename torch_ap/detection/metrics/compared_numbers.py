"""Comparison of all of COCO's numbers of two detectors, by resamples of the images, or over groups of images."""

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from torch_ap.detection.inference.comparison import compare_numbers
from torch_ap.detection.inference.rankings import ResampledRankings, ranked_images
from torch_ap.detection.inference.resampled import Statistic
from torch_ap.detection.rules.coco_numbers import CocoNumbers, Number
from torch_ap.inference.groups import Groups
from torch_ap.inference.record import Comparison
from torch_ap.inference.resampling import Resampling


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


def _numbers(coco: CocoNumbers) -> dict[tuple[int, int], list[Number]]:
    """Return the numbers whose IoU thresholds are known, by the indices of their area range and limit on detections."""
    found: dict[tuple[int, int], list[Number]] = defaultdict(list)
    for number in coco.settings.numbers:
        if number.iou is None or coco.threshold(number.iou) is not None:
            found[number.area, number.limit].append(number)
    return found


def _statistic(numbers: list[Number], coco: CocoNumbers) -> Statistic:
    """Return the function of rankings and (b, U) weights of images that returns the (b, R) numbers."""
    has_precision = not all(x.is_recall for x in numbers)

    def statistic(ranked: ResampledRankings, weights: Tensor) -> Tensor:
        shape = (len(weights), *coco.shape)
        recall = ranked.recall(weights).view(shape)
        precision = ranked.average_precision(weights, coco.levels).view(shape) if has_precision else recall
        means = []
        for number in numbers:
            values = recall if number.is_recall else precision
            values = values if number.iou is None else values[:, [coco.threshold(number.iou)]]
            values = values if number.labels is None else values[:, :, coco.is_among(number.labels).nonzero()[:, 0]]
            means.append(values.flatten(1).nanmean(1))
        return torch.stack(means, 1)

    return statistic
