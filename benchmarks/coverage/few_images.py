"""mAP of few images, with common classes or with mostly rare ones: the bootstrap and the delete-one-image jackknife."""

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.detectors import Scenes, limit
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from torch_ap.detection.inference.resampled import METHODS, ends, image_replicates, without_each_group
from torch_ap.inference import record
from torch_ap.inference.groups import Groups, standard_error
from torch_ap.inference.resampling import Resampling

_SIZES = list(itertools.product((5, 40), (20, 50, 100, 200)))
_LEVEL, _REPLICATES = 0.95, 200
_JACKKNIFE = ("jackknife", "jackknife, corrected")


def intervals(classes: int, images: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Count the covering intervals of each method, and sum the bias and its delete-one estimate."""
    found, truth = Tally(), limit(classes)
    every = Groups(torch.arange(images), images)
    quantile = record.student_quantile(_LEVEL, torch.tensor(images - 1.0, dtype=torch.float64))
    for _ in range(repetitions):
        sample = Scenes(images, classes, generator).detected()._sample()
        ranked, interpolation = sample.ranked, sample.interpolation
        estimate = ranked.average_precision(ranked.unit_weights, interpolation).nanmean()
        values = image_replicates([ranked], Resampling(_REPLICATES, generator), interpolation)[:, 0]
        without = without_each_group(ranked, every, interpolation)
        bias, error = (images - 1) * (without.mean() - estimate), standard_error(without)
        center = torch.minimum(torch.maximum(estimate - bias, estimate / 2), (1 + estimate) / 2)
        by_method: dict[str, tuple[Tensor, Tensor]] = {x: ends(values, estimate, x, _LEVEL) for x in METHODS}
        by_method[_JACKKNIFE[0]] = record.logit(estimate, error, quantile)
        by_method[_JACKKNIFE[1]] = record.logit(center, torch.sqrt(error**2 + bias**2 / 4), quantile)
        for method, (low, high) in by_method.items():
            tally(found, (method,), bool(low <= truth <= high), float(high - low))
        tally(found, ("bias",), estimate - truth)
        tally(found, ("square",), (estimate - truth) ** 2)
        tally(found, ("estimated bias",), bias)
    return found


def sections(options: Options) -> list[Section]:
    return [Section(tasks_of(intervals, _SIZES, options.resampled, 25), lambda found: _lines(found, options))]


def _lines(found: dict[tuple[Any, ...], Tally], options: Options) -> list[str]:
    out = [
        f"\n## mAP of few images, at 95%: {options.resampled} repetitions\n",
        "Images of the section on two detectors: 5 classes, or 40 of which most are rare. "
        f'{_REPLICATES} replicates. "jackknife" leaves one image out, on the logit scale, with Student\'s t. '
        '"corrected" subtracts the estimated bias B and adds B^2 / 4 to the squared standard error, as for averages '
        "over classes. The estimate is too noisy with 200 images, and too small if classes have no ground truth. So "
        "the package has no correction.\n",
    ]
    out += report.head("classes", "images", "bias", "estimated bias", "sd of mAP", "method", "covers", "s.e.", "width")
    for (classes, images), shares in found.items():
        bias, estimated = shares["bias",].value, shares["estimated bias",].value
        deviation = math.sqrt(shares["square",].value - bias**2)
        for method in (*METHODS, *_JACKKNIFE):
            share = shares[method,]
            cells = f"{share.value:.3f}", f"{share.error:.4f}", report.width([share])
            sizes = str(classes), str(images), f"{bias:+.4f}", f"{estimated:+.4f}", f"{deviation:.4f}"
            out.append(report.row(*sizes, method, *cells))
    return out
