"""Two detectors on the same images: does the interval of mAP cover, even with many rare classes, do those of the AP of
each class, and does the comparison of the two keep its size?
"""

import functools
import itertools
import math
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.detection import MeanAveragePrecision
from torch_ap.detection.inference.comparison import METHODS as COMPARED
from torch_ap.detection.inference.resampled import (
    METHODS,
    class_intervals_from_replicates,
    ends,
    image_replicates,
    list_replicates,
)
from torch_ap.inference import resampling
from torch_ap.inference.record import GroupComparison
from torch_ap.inference.resampling import Resampling

_SIZES = ((5, 50), (5, 200), (40, 300))
_GROUPED = ((5, 100, 10), (5, 200, 4), (5, 500, 10), (40, 300, 6))  # classes, images, and images of a group
_LEVEL, _REPLICATES = 0.95, 400
_EVERY = 10  # repetitions of groups of which one has an interval of independent images too
_LIMIT = 100_000
_GROUND_TRUTHS = (1, 5, 10, 20, 50, 100)
_SIDE, _CELL = 20.0, 40.0


class Scenes:
    """Images with objects of some classes, the first of which is common and the last rare.

    Args:
        images: their number.
        classes: their number; the k-th is k times as rare as the first.
        generator: the source of all randomness here.
        together: number of successive images of a group, which are equally hard.
    """

    def __init__(self, images: int, classes: int, generator: torch.Generator, together: int = 1) -> None:
        self._classes, self._generator = classes, generator
        self.groups = torch.arange(images) // together
        self.hard = torch.rand(images // together, generator=generator)[self.groups]
        self.counts = 1 + self._poisson(4.0, images)
        rates = 1 / torch.arange(1.0, classes + 1)
        total = int(self.counts.sum())
        self.labels = torch.multinomial(rates, total, replacement=True, generator=generator)
        self.image = torch.repeat_interleave(torch.arange(images), self.counts)
        # objects lie far from each other, so that a detection overlaps only the object it is meant for; and near 0,
        # where float32 has the digits of a shift
        place = torch.arange(total) - (self.counts.cumsum(0) - self.counts)[self.image]
        self.corner = place[:, None] * torch.tensor([_CELL, 0.0])

    def _poisson(self, rate: float, size: int) -> Tensor:
        return torch.poisson(torch.full((size,), rate), generator=self._generator).to(torch.int64)

    def detected(self, *, in_groups: bool = False) -> MeanAveragePrecision:
        """A detector on these images; another call gives an equally good one that errs on the same images."""
        generator, hard = self._generator, self.hard[self.image]
        found = torch.rand(len(hard), generator=generator) < 0.95 - 0.4 * hard
        shift = torch.randn(len(hard), generator=generator).abs() * (1 + 4 * hard)
        sure = 2 - 2 * hard + torch.randn(len(hard), generator=generator) - shift / 4
        false = self._poisson(5.0, len(self.hard))
        where = torch.repeat_interleave(torch.arange(len(false)), false)
        wrong = torch.randint(self._classes, (len(where),), generator=generator)
        image, order = torch.cat([self.image[found], where]).sort(stable=True)
        corner = torch.cat([(self.corner + shift[:, None])[found], torch.full((len(where), 2), -1000.0)])
        metric = MeanAveragePrecision("xywh")
        metric.set_dtype(torch.float64)
        preds = {
            "boxes": self._boxes(corner[order]),
            "scores": torch.cat([sure[found], torch.randn(len(where), generator=generator) - 1])[order],
            "labels": torch.cat([self.labels[found], wrong])[order],
            "counts": torch.bincount(image, minlength=len(false)),
        }
        target = {"boxes": self._boxes(self.corner), "labels": self.labels, "counts": self.counts}
        metric.update(preds, target, groups=self.groups if in_groups else None)
        return metric

    def _boxes(self, corner: Tensor) -> Tensor:
        return torch.cat([corner, torch.full_like(corner, _SIDE)], 1).double()


@functools.cache
def limit(classes: int) -> float:
    """The mAP of very many images."""
    return float(Scenes(_LIMIT, classes, torch.Generator().manual_seed(0)).detected().compute()["map"])


def pairs(classes: int, images: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Compare two equally good detectors, and count the covering intervals of the first."""
    found, truth = Tally(), limit(classes)
    for _ in range(repetitions):
        scenes = Scenes(images, classes, generator)
        samples = [scenes.detected()._sample() for _ in range(2)]
        systems, interpolation = [sample.ranked for sample in samples], samples[0].interpolation
        values = image_replicates(systems, Resampling(_REPLICATES, generator), interpolation)
        every = torch.ones(1, images, dtype=torch.int64)
        a, b = (ranked.average_precision(every, interpolation).nanmean() for ranked in systems)
        for method in METHODS:
            low, high = ends(values[:, 0], a, method, _LEVEL)
            tally(found, ("covers", method), bool(low <= truth <= high), float(high - low))
        gaps = values[:, 0] - values[:, 1]
        normal = math.erfc(float(abs(a - b) / resampling.standard_error(gaps)) / math.sqrt(2))
        tally(found, ("rejects", "bootstrap-percentile"), resampling.two_sided_p_value(gaps)[0] <= 1 - _LEVEL)
        tally(found, ("rejects", "bootstrap-normal"), normal <= 1 - _LEVEL)
    return found


def pairs_in_groups(classes: int, images: int, together: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Count the covering intervals of a detector over groups of images, and rejections for an equally good one."""
    found, truth = Tally(), limit(classes)
    for place in range(repetitions):
        scenes = Scenes(images, classes, generator, together)
        first, second = (scenes.detected(in_groups=True) for _ in range(2))
        interval, gap = first.confidence_interval(), first.compare(second)
        tally(found, ("covers",), bool(interval.low <= truth <= interval.high), float(interval.high - interval.low))
        tally(found, ("rejects",), bool(gap.p_value <= 1 - _LEVEL))
        if place % _EVERY == 0:
            alone = scenes.detected().confidence_interval(n_resamples=_REPLICATES, generator=generator)
            tally(found, ("independent",), bool(alone.low <= truth <= alone.high))
    return found


@functools.cache
def limits(classes: int) -> dict[int, float]:
    """The AP of each class of very many images, by its label."""
    metric = Scenes(_LIMIT, classes, torch.Generator().manual_seed(0)).detected()
    table = metric.per_class()
    return dict(zip(table["class"].tolist(), table["ap"].tolist(), strict=True))


def of_classes(classes: int, images: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Intervals of the AP of each class, by the number of its ground truths."""
    found, truth = Tally(), limits(classes)
    for _ in range(repetitions):
        metric = Scenes(images, classes, generator).detected()
        table, sample = metric.per_class(), metric._sample(per_class=True)
        resampling = Resampling(_REPLICATES, generator)
        values = list_replicates([sample.ranked], resampling, sample.interpolation)[0]
        for method in METHODS:
            interval = class_intervals_from_replicates(sample.ranked, values, sample.each_class(), method, _LEVEL)
            ends = zip(interval.low.tolist(), interval.high.tolist(), strict=True)
            for label, count, (low, high) in zip(
                table["class"].tolist(), table["ground_truths"].tolist(), ends, strict=True
            ):
                if count and not math.isnan(low):
                    size = max(x for x in _GROUND_TRUTHS if x <= count)
                    tally(found, (size, method), low <= truth[label] <= high, high - low)
    return found


def pairs_of_classes(classes: int, images: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Count rejections for two equally good detectors in a class, by its ground truths, and in any class."""
    found = Tally()
    for _ in range(repetitions):
        scenes = Scenes(images, classes, generator)
        first, second = scenes.detected(), scenes.detected()
        table = first.per_class()
        counts = dict(zip(map(str, table["class"].tolist()), table["ground_truths"].tolist(), strict=True))
        for method in COMPARED:
            gap = first.compare(second, per_class=True, method=method, n_resamples=_REPLICATES, generator=generator)
            assert isinstance(gap, GroupComparison)
            for name, p_value in zip(gap.names, gap.p_value.tolist(), strict=True):
                if not math.isnan(p_value):
                    size = max(x for x in _GROUND_TRUTHS if x <= counts[name])
                    tally(found, (size, method), p_value <= 1 - _LEVEL)
            tally(found, ("any", method), bool((gap.adjusted_p_value <= 1 - _LEVEL).any()))
    return found


def sections(options: Options) -> list[Section]:
    return [
        Section(tasks_of(pairs, _SIZES, options.resampled, 25), lambda found: _lines(found, options)),
        Section(
            tasks_of(of_classes, _SIZES[-1:], options.resampled, 10), lambda found: _lines_of_classes(found, options)
        ),
        Section(
            tasks_of(pairs_of_classes, _SIZES[-1:], options.resampled, 10),
            lambda found: _lines_of_pairs(found, options),
        ),
        Section(tasks_of(pairs_in_groups, _GROUPED, options.resampled, 25), _lines_of_groups),
    ]


def _lines_of_groups(found: dict[tuple[Any, ...], Tally]) -> list[str]:
    shares = [share for tallies in found.values() for share in tallies.values()]
    out = [
        "\n## mAP of a detector, and two equally good ones, over groups of images, at 95%\n",
        "Detectors of the section on two detectors; the images of a group are equally hard. Delete-one-group jackknife "
        f"by default. The last column takes the images as independent. {max(x.trials for x in shares)} repetitions, "
        f"a tenth of them for the last column, s.e. up to {report.largest_error(shares)}.\n",
    ]
    columns = ("covers", "mean width", "two detectors: rejects at 5%", "independent: covers")
    out += report.head("classes", "groups", "images of each", *columns)
    for (classes, images, together), tallies in found.items():
        covers = tallies["covers",]
        cells = (str(classes), str(images // together), str(together), f"{covers.value:.3f}", report.width([covers]))
        out.append(report.row(*cells, f"{tallies['rejects',].value:.3f}", f"{tallies['independent',].value:.3f}"))
    return out


def _lines_of_classes(found: dict[tuple[Any, ...], Tally], options: Options) -> list[str]:
    ((classes, images),) = found
    (shares,) = found.values()
    out = [
        f"\n## AP of each class of a detector, over images: {options.resampled} repetitions\n",
        f"The first of these detectors on {images} images with {classes} classes. {_REPLICATES} replicates. The truth "
        f"is the AP of {_LIMIT} images. Classes whose interval has NaN ends, such as classes in one image, are left "
        "out. The s.e. treats the intervals of one data set as independent.\n",
    ]
    out += report.head("ground truths", "method", "intervals", "at 95% covers", "s.e.", "mean width")
    for size, method in itertools.product(_GROUND_TRUTHS, METHODS):
        if (size, method) not in shares:
            continue
        share = shares[size, method]
        cells = (f"{share.trials:.0f}", f"{share.value:.3f}", f"{share.error:.4f}", report.width([share]))
        out.append(report.row(f"from {size}", method, *cells))
    return out


def _lines_of_pairs(found: dict[tuple[Any, ...], Tally], options: Options) -> list[str]:
    ((classes, images),) = found
    (shares,) = found.values()
    out = [
        f"\n## Two equally good detectors, each class compared: {options.resampled} repetitions\n",
        f"Detectors on {images} images with {classes} classes. {_REPLICATES} replicates. Classes without a p-value, "
        'such as classes in one image, are left out. "any, Holm": whether any class of a data set has an adjusted p of '
        f'5% or less, which "bootstrap-percentile" cannot have: its p is at least 2 / {_REPLICATES + 1}.\n',
    ]
    out += report.head("ground truths", "method", "comparisons", "rejects at 5%", "s.e.")
    for size, method in itertools.product((*_GROUND_TRUTHS, "any"), COMPARED):
        if (size, method) in shares:
            share = shares[size, method]
            what = "any, Holm" if size == "any" else f"from {size}"
            out.append(report.row(what, method, f"{share.trials:.0f}", f"{share.value:.3f}", f"{share.error:.4f}"))
    return out


def _lines(found: dict[tuple[Any, ...], Tally], options: Options) -> list[str]:
    out = [
        f"\n## Two equally good detectors on the same images: {options.resampled} repetitions\n",
        "About 5 objects per image, some images hard; the k-th class is k times as rare as the first. "
        f"{_REPLICATES} replicates. The truth is the mAP of {_LIMIT} images.\n",
    ]
    out += report.head("classes", "images", "method", "interval at 95% covers", "s.e.", "mean width")
    for (classes, images), method in itertools.product(found, METHODS):
        share = found[classes, images]["covers", method]
        cells = (f"{share.value:.3f}", f"{share.error:.4f}", report.width([share]))
        out.append(report.row(str(classes), str(images), method, *cells))
    out += ["", *report.head("classes", "images", "comparison", "rejects at 5%", "s.e.")]
    for (classes, images), method in itertools.product(found, ("bootstrap-percentile", "bootstrap-normal")):
        share = found[classes, images]["rejects", method]
        out.append(report.row(str(classes), str(images), method, f"{share.value:.3f}", f"{share.error:.4f}"))
    return out
