"""Precision, recall and F_1 of a detector at chosen and at fixed score thresholds."""

import functools
import itertools
import math
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage import report
from benchmarks.coverage.detectors import Scenes
from benchmarks.coverage.tasks import Options, Section, Share, Tally, tally, tasks_of
from torch_ap.detection import MeanAveragePrecision

_SIZES = ((5, 50), (5, 200), (40, 300))
_WANTED: dict[str, dict[str, Any]] = {
    "best F1": {},
    "precision 0.8": {"precision": 0.8},
    "recall 0.4": {"recall": 0.4},
    "given": {},
}
_LIMIT, _GRID = 100_000, 2000
_RATIOS = ("precision", "recall", "f_beta")
_GROUND_TRUTHS = (1, 5, 10, 20, 50, 100)


def large(classes: int) -> MeanAveragePrecision:
    """A detector on very many images."""
    return Scenes(_LIMIT, classes, torch.Generator().manual_seed(0)).detected()


@functools.cache
def truths(classes: int) -> tuple[dict[int, dict[str, Tensor]], dict[int, float]]:
    """Return the true values at 2,000 thresholds, and the threshold of the best F_1, of each label."""
    metric, out = large(classes), {}
    for curve in metric.curve(0.5):
        kept = torch.linspace(0, len(curve.thresholds) - 1, _GRID).long()
        columns = {"threshold": curve.thresholds, "precision": curve.precision, "recall": curve.recall}
        columns["f_beta"] = curve.f_beta()
        out[int(curve.name)] = {name: x[kept].flip(0) for name, x in columns.items()}
    points = metric.operating_points()
    return out, dict(zip(points.labels.tolist(), points.threshold.tolist(), strict=True))


def covered(classes: int, images: int, wanted: str, *, repetitions: int, generator: torch.Generator) -> Tally:
    """Count intervals that contain the value on very many images, by the ground truths of the class."""
    found, (truth, best) = Tally(), truths(classes)
    for _ in range(repetitions):
        metric = Scenes(images, classes, generator).detected()
        settings = dict(_WANTED[wanted])
        if wanted == "given":
            labels = metric.compute()["classes"].tolist()
            settings["score_threshold"] = torch.tensor([best[x] for x in labels], dtype=torch.float64)
        points = metric.operating_points(**settings)
        rows = zip(points.labels.tolist(), points.threshold.tolist(), (points.tp + points.fn).tolist(), strict=True)
        for place, (label, threshold, count) in enumerate(rows):
            if not count or math.isnan(threshold):
                continue
            size, of = max(x for x in _GROUND_TRUTHS if x <= count), truth[label]
            at = min(int(torch.searchsorted(of["threshold"], threshold)), _GRID - 1)
            for name in _RATIOS:
                low, high = (float(getattr(points, name + end)[place]) for end in ("_low", "_high"))
                if not math.isnan(low):
                    value = float(of[name][at])
                    tally(found, (size, name), low <= value <= high, high - low)
                    tally(found, (size, name, "optimism"), True, float(getattr(points, name)[place]) - value)
    return found


def sections(options: Options) -> list[Section]:
    cases = [(*size, wanted) for wanted in _WANTED for size in _SIZES]
    return [Section(tasks_of(covered, cases, options.resampled, 25), lambda found: _lines(found, options))]


def _lines(found: dict[tuple[Any, ...], Tally], options: Options) -> list[str]:
    sizes = ", ".join(f"{classes} classes on {images} images" for classes, images in _SIZES)
    out = [
        f"\n## Operating points of a detector, `operating_points`, at 95%: {options.resampled} repetitions of "
        f"{sizes}\n",
        "Detectors and images as in the section above. The truth is the result of the threshold of each class on "
        f"{_LIMIT} images. The threshold is chosen on the same images as the interval, or is the best one of the "
        f"{_LIMIT} images. Optimism is the mean of the sample minus the truth. The s.e. treats the classes of one data "
        "set as independent.\n",
    ]
    out += report.head("wanted", "what", "ground truths", "intervals", "covers", "s.e.", "mean width", "optimism")
    for wanted, name, size in itertools.product(_WANTED, _RATIOS, _GROUND_TRUTHS):
        cases = [shares for case, shares in found.items() if case[-1] == wanted and (size, name) in shares]
        if not cases:
            continue
        share, gained = Share(), Share()
        for one in cases:
            share += one[size, name]
            gained += one[size, name, "optimism"]
        cells = (f"{share.trials}", f"{share.value:.3f}", f"{share.error:.4f}", report.width([share]))
        label = "F1" if name == "f_beta" else name
        out.append(report.row(wanted, label, f"from {size}", *cells, f"{gained.width / gained.trials:+.3f}"))
    return out
