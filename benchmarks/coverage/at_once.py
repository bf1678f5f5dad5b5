"""Simultaneous statements on items in groups, on images and on queries: all classes, all looks, all measures."""

import functools
import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage.detectors import Scenes
from benchmarks.coverage.detectors import limits as limits_of_classes
from benchmarks.coverage.groups import population, sample
from benchmarks.coverage.simultaneous import lines
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.detection.inference.resampled import list_replicates
from torch_ap.functional import multilabel_average_precision
from torch_ap.inference import average_precision_interval, mean_interval
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.simultaneous import max_t_level

_LEVEL, _REPLICATES = 0.95, 400
_NAMES = ("pointwise", "simultaneous")
_LARGE = 10_000  # groups of the population
# groups, items of each, labels
GROUPED = ((20, 50, 5), (50, 20, 10), (200, 5, 10))
# items of each group, groups at the first and the last look, looks
LOOKS = ((10, 20, 250, 12), (20, 20, 250, 12))
# classes, images
DETECTORS = ((5, 50), (5, 200), (20, 100))
QUERIES = ((10,), (30,), (100,))
_DOCUMENTS = 50


def labels_in_groups(groups: int, size: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return (N, C) scores and targets, and groups, whose normal effects the labels share by half."""
    ids = torch.arange(groups).repeat_interleave(size)

    def effects(*shape: int) -> Tensor:
        common, own = torch.randn(*shape, 1, generator=generator), torch.randn(*shape, count, generator=generator)
        return (common + own) / 2**0.5

    share = torch.sigmoid(torch.linspace(-2, 0, count) + effects(groups))
    target = (torch.rand(len(ids), count, generator=generator) < share[ids]).long()
    return effects(len(ids)) + 0.7 * effects(groups)[ids] + 1.5 * target, target, ids


@functools.cache
def limits_of_labels(size: int, count: int) -> Tensor:
    """Return the AP of each label over the items of many groups."""
    scores, target, _ = labels_in_groups(_LARGE, size, count, torch.Generator().manual_seed(0))
    return multilabel_average_precision(scores, target, num_labels=count, average=None)


def _count(found: Tally, name: str, low: Tensor, high: Tensor, truth: Any) -> None:
    """Count the samples in which all intervals that exist contain their values."""
    inside = ((low <= truth) & (truth <= high)) | low.isnan()
    tally(found, (name,), bool(inside.all()), float((high - low).nanmean()))


def labels(groups: int, size: int, count: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    found, truth = Tally(), limits_of_labels(size, count)
    for _ in range(repetitions):
        scores, target, ids = labels_in_groups(groups, size, count, generator)
        for name in _NAMES:
            at_once = name == "simultaneous"
            ends = average_precision_interval(scores, target, groups=ids, simultaneous=at_once, generator=generator)
            _count(found, name, ends.low, ends.high, truth)
    return found


def looks(size: int, first: int, last: int, count: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    effects = (0.5, 1.0, -2.0)
    truth, found = population(size, "equal", effects), Tally()
    sizes = torch.logspace(math.log10(first), math.log10(last), count).round().long() * size
    for _ in range(repetitions):
        (scores,), target, ids = sample(last, size, "equal", effects, (1.5,), 0.0, generator)
        for name, look in zip(_NAMES, (None, first * size), strict=True):
            every = [
                average_precision_interval(scores[:n], target[:n], groups=ids[:n], first_look=look)
                for n in sizes.tolist()
            ]
            low, high = (torch.stack([getattr(x, end) for x in every]) for end in ("low", "high"))
            _count(found, name, low, high, truth)
    return found


def detectors(classes: int, images: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    found, every = Tally(), limits_of_classes(classes)
    for _ in range(repetitions):
        sample = Scenes(images, classes, generator).detected()._sample(per_class=True)
        truth = torch.tensor([every[x] for x in sample.labels.tolist()], dtype=torch.float64)
        resampling = Resampling(_REPLICATES, generator)
        (values,) = list_replicates([sample.ranked], resampling, sample.interpolation)
        for name in _NAMES:
            how = replace(sample, replicates=values, simultaneous=name == "simultaneous")
            ends = how.interval(_LEVEL, None, resampling)
            _count(found, name, ends.low, ends.high, truth)
    return found


def measures_of_queries(queries: int, generator: torch.Generator) -> Tensor:
    """Return AP, precision at 10, recall at 10 and the reciprocal rank of each query, (4, Q)."""
    relevant = torch.randint(1, 10, (queries, 1), generator=generator)
    target = torch.arange(_DOCUMENTS) < relevant
    skill = torch.randn(queries, 1, generator=generator) + 1
    scores = torch.randn(queries, _DOCUMENTS, generator=generator) + skill * target
    hits = target.gather(1, scores.argsort(1, descending=True)).double()
    found, ranks = hits.cumsum(1), torch.arange(1, _DOCUMENTS + 1)
    m = relevant[:, 0]
    first = 1.0 / (1 + hits.argmax(1))
    return torch.stack([(hits * found / ranks).sum(1) / m, found[:, 9] / 10, found[:, 9] / m, first])


@functools.cache
def limits_of_measures() -> Tensor:
    return measures_of_queries(500_000, torch.Generator().manual_seed(0)).mean(1)


def measures(queries: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    found, truth = Tally(), limits_of_measures()
    for _ in range(repetitions):
        values = measures_of_queries(queries, generator)
        levels = _LEVEL, max_t_level(values, _LEVEL, Resampling(generator=generator))
        for name, level in zip(_NAMES, levels, strict=True):
            every = [mean_interval(x, confidence_level=level) for x in values]
            low, high = (torch.stack([getattr(x, end) for x in every]) for end in ("low", "high"))
            _count(found, name, low, high, truth)
    return found


def sections(options: Options) -> list[Section]:
    many = options.repetitions
    parts: tuple[tuple[Any, Any, int, str, str, str], ...] = (
        (
            labels, GROUPED, 250, "All labels of items in groups",
            "`average_precision_interval(..., groups=, simultaneous=True)`. Each group shifts the scores of its items "
            "and the logit of its share of hits of each label; the labels share half of the variance of these effects. "
            f"The truth is the AP of {_LARGE:,} groups.",
            "groups, items of each, labels",
        ),
        (
            looks, LOOKS, 50, "All looks at a growing sample of groups",
            "`average_precision_interval(..., groups=, first_look=)`. Whole groups arrive. The width is the mean over "
            "the looks.",
            "items of each group, groups at the first look, at the last look, looks",
        ),
        (
            detectors, DETECTORS, 50, "All classes of a detector, over images",
            "`MeanAveragePrecision.confidence_interval(per_class=True, simultaneous=True)` of the detectors of the "
            f"section on classes, with {_REPLICATES} resamples. Classes without an interval are left out.",
            "classes, images",
        ),
        (
            measures, QUERIES, 250, "All measures of a run over queries",
            "`torch-ap trec --interval --simultaneous` of AP, P@10, R@10 and the reciprocal rank.",
            "queries",
        ),
    )  # fmt: skip
    return [
        Section(tasks_of(run, cases, many, at_once), partial(lines, many, title, text, head))
        for run, cases, at_once, title, text, head in parts
    ]
