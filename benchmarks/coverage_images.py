"""Does the interval of a detector's mAP cover, and does the comparison of two keep its size: a simulation.

    python -m benchmarks.coverage_images > benchmarks/coverage_images.md

Images are alike drawn: some are hard, so what stands in one of them hangs together. Coverage is of the mAP of 100,000
images.
"""

import argparse
import math

import torch
from torch import Tensor

from torch_ap.inference import Resampling
from torch_ap.inference.interval import logit
from torch_ap.inference.student import normal_quantile
from torch_ap.inference.unit_bootstrap import METHODS
from torch_ap.inference.unit_comparison import METHODS as COMPARISONS
from torch_ap.metrics.detection import MeanAveragePrecision

SIZES = ((5, 50), (5, 200), (5, 800), (40, 300))
LEVEL = 0.95
_LIMIT = 100_000
_SIDE, _CELL = 20.0, 40.0
_REPLICATES = 400


class Scenes:
    """Images with objects of some classes, the first of which is common and the last rare.

    Args:
        images: how many.
        classes: how many; the k-th is k times as rare as the first.
        generator: of all that is random here.
    """

    def __init__(self, images: int, classes: int, generator: torch.Generator) -> None:
        self._classes, self._generator = classes, generator
        self.hard = torch.rand(images, generator=generator)
        self.counts = 1 + self._poisson(4.0, images)
        rates = 1 / torch.arange(1.0, classes + 1)
        total = int(self.counts.sum())
        self.labels = torch.multinomial(rates, total, replacement=True, generator=generator)
        self.image = torch.repeat_interleave(torch.arange(images), self.counts)
        # objects stand apart, so that none is found by what is meant for another
        self.corner = torch.arange(total)[:, None] * torch.tensor([_CELL, 0.0])

    def _poisson(self, rate: float, size: int) -> Tensor:
        return torch.poisson(torch.full((size,), rate), generator=self._generator).to(torch.int64)

    def detected(self) -> MeanAveragePrecision:
        """A detector on them; another call is an equally good one, whose errors are of the same images."""
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
        preds = {
            "boxes": self._boxes(corner[order]),
            "scores": torch.cat([sure[found], torch.randn(len(where), generator=generator) - 1])[order],
            "labels": torch.cat([self.labels[found], wrong])[order],
            "counts": torch.bincount(image, minlength=len(false)),
        }
        metric.update(preds, {"boxes": self._boxes(self.corner), "labels": self.labels, "counts": self.counts})
        return metric

    def _boxes(self, corner: Tensor) -> Tensor:
        return torch.cat([corner, torch.full_like(corner, _SIDE)], 1).double()


def limit(classes: int) -> float:
    """The mAP of very many images."""
    return float(Scenes(_LIMIT, classes, torch.Generator().manual_seed(0)).detected().compute()["map"])


def coverage(images: int, classes: int, repetitions: int) -> dict[str, tuple[int, float]]:
    """Of each method of an interval: how often it holds the limit, and the sum of its widths."""
    truth, held = limit(classes), dict.fromkeys(METHODS, (0, 0.0))
    for repetition in range(1, repetitions + 1):
        metric = Scenes(images, classes, torch.Generator().manual_seed(repetition)).detected()
        found = metric.confidence_interval(LEVEL, "bootstrap-percentile", resampling=Resampling(_REPLICATES))
        # the same replicates serve all methods
        ends = {
            "bootstrap-basic": (2 * found.estimate - found.high, 2 * found.estimate - found.low),
            "bootstrap-percentile": (found.low, found.high),
            "bootstrap-logit": logit(found.estimate, found.standard_error, normal_quantile(LEVEL)),
        }
        for method, (low, high) in ends.items():
            count, width = held[method]
            held[method] = count + int(low <= truth <= high), width + float(high - low)
    return held


def rejections(images: int, classes: int, repetitions: int) -> dict[str, int]:
    """Of each method of a comparison: how often two equally good detectors are told apart at 5%."""
    told = dict.fromkeys(COMPARISONS, 0)
    for repetition in range(1, repetitions + 1):
        scenes = Scenes(images, classes, torch.Generator().manual_seed(repetition))
        found = scenes.detected().compare(scenes.detected(), resampling=Resampling(_REPLICATES))
        normal = math.erfc(abs(found.difference) / found.standard_error / math.sqrt(2))
        for method, p in zip(COMPARISONS, (found.p_value, normal), strict=True):
            told[method] += p <= 0.05
    return told


def main() -> None:
    options = argparse.ArgumentParser(description="Coverage of the interval of mAP and size of the comparison.")
    options.add_argument("--repetitions", type=int, default=1000, help="of each configuration (default 1000)")
    count = options.parse_args().repetitions
    print(
        "# Coverage of the interval of mAP and size of the comparison\n\nMade by `python -m benchmarks.coverage_images "
        f"--repetitions {count}`: {_REPLICATES} resamples of the images each, 5 objects an image.\n"
    )
    print("## Intervals at 95%\n\n| classes, images | method | covers | mean width |\n|---|---|---|---|")
    for classes, images in SIZES:
        for method, (held, width) in coverage(images, classes, count).items():
            print(f"| {classes}, {images} | {method} | {share(held, count)} | {width / count:.3f} |", flush=True)
    print("\n## Two equally good detectors: rejections at nominal 5%\n")
    print("| classes, images | method | share |\n|---|---|---|")
    for classes, images in SIZES:
        for method, told in rejections(images, classes, count).items():
            print(f"| {classes}, {images} | {method} | {share(told, count)} |", flush=True)


def share(count: int, total: int) -> str:
    """A share and its standard error."""
    value = count / total
    return f"{value:.3f} ± {math.sqrt(value * (1 - value) / total):.3f}"


if __name__ == "__main__":
    main()
