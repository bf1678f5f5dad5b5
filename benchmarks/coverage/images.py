"""mAP of detections: the bootstrap over images, against the mAP of very many images of the same kind."""

import functools
import itertools
import math
import statistics
from typing import Any

import torch

from benchmarks.coverage import report
from benchmarks.coverage.rankings import LEVELS
from benchmarks.coverage.tasks import Options, Section, Tally, tally, tasks_of
from benchmarks.detection_scenes import like_coco
from torch_ap.detection import MeanAveragePrecision
from torch_ap.detection.inference.resampled import METHODS, ends, image_replicates
from torch_ap.inference.resampling import Resampling

_IMAGES = ((50,), (200,), (800,))
_CLASSES, _REPLICATES = 4, 500
_MANY, _PARTS = 20_000, 12


def fed(images: int, seed: int) -> MeanAveragePrecision:
    scenes = like_coco(images, _CLASSES, seed)
    metric = MeanAveragePrecision("xywh")
    metric.set_dtype(torch.float64)
    metric.warn_on_many_detections = False
    metric.update(scenes.preds, scenes.target)
    return metric


@functools.cache
def truth() -> tuple[float, float]:
    """MAP of very many images and its standard error, from several sets of as many as fit into memory."""
    values = [float(fed(_MANY, seed).compute()["map"]) for seed in range(_PARTS)]
    return statistics.fmean(values), statistics.stdev(values) / _PARTS**0.5


def intervals(images: int, *, repetitions: int, generator: torch.Generator) -> Tally:
    """All methods and both levels from the same replicates, as ``confidence_interval`` finds them."""
    found, (value, error) = Tally(), truth()
    tally(found, ("truth",), value)
    tally(found, ("its s.e.",), error)
    for _ in range(repetitions):
        metric = fed(images, int(torch.randint(1 << 62, (), generator=generator)))
        sample = metric._sample()
        values = image_replicates([sample.ranked], Resampling(_REPLICATES, generator), sample.interpolation)[:, 0]
        estimate = metric.compute()["map"]
        tally(found, ("bias",), estimate - value)
        tally(found, ("square",), (estimate - value) ** 2)
        for method, level in itertools.product(METHODS, LEVELS):
            low, high = ends(values, estimate, method, level)
            inside = bool(low <= value) and bool(value <= high)
            tally(found, (method, level), inside, float(high - low))
    return found


def sections(options: Options) -> list[Section]:
    return [Section(tasks_of(intervals, _IMAGES, options.resampled, 25), lambda found: _lines(found, options))]


def _lines(found: dict[tuple[Any, ...], Tally], options: Options) -> list[str]:
    first = next(iter(found.values()))
    out = [
        f"\n## mAP of detections, bootstrap over images: {options.resampled} repetitions\n",
        f"Scenes of `benchmarks.detection_scenes.like_coco` with {_CLASSES} classes, about 7 ground truths and 74 "
        f"detections per image; {_REPLICATES} replicates. The truth is the mean mAP of {_PARTS} sets of {_MANY} "
        f"images, {first['truth',].value:.5f} with a standard error of {first['its s.e.',].value:.5f}.\n",
    ]
    out += report.head("images", "mean mAP - truth", "sd of mAP", "method", "level", "covers", "s.e.", "mean width")
    for (images,), shares in found.items():
        bias = shares["bias",].value
        deviation = math.sqrt(shares["square",].value - bias**2)
        for method, level in itertools.product(METHODS, LEVELS):
            share = shares[method, level]
            out.append(
                report.row(
                    str(images),
                    f"{bias:+.4f}",
                    f"{deviation:.4f}",
                    method,
                    f"{level:.0%}",
                    f"{share.value:.3f}",
                    f"{share.error:.4f}",
                    report.width([share]),
                )
            )
    return out
