"""What uncertainty costs: intervals beside the AP itself, the bootstrap beside a loop over scikit-learn.

    python -m benchmarks.inference

prints Markdown tables; figures are multiples of the first column, measured by turns in the same run.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

from benchmarks.detection_scenes import like_coco
from benchmarks.timing import by_turns, head, in_ms, machine, once, parser, row
from torch_ap.detection import MeanAveragePrecision
from torch_ap.functional import binary_average_precision, multilabel_average_precision
from torch_ap.inference import average_precision_interval, compare_rankings

_LOOPS = 20


def scores(size: int, rate: float) -> tuple[Tensor, Tensor]:
    """Normal scores, those of hits two standard deviations higher."""
    target = torch.rand(size) < rate
    return torch.randn(size) + 2 * target, target.long()


def intervals(sizes: list[int], rounds: int) -> None:
    """The time of the interval, the AP included, as a multiple of that of the AP alone."""
    names = ["influence interval", "jackknife interval"]
    print("\n### Interval of one ranking, as a multiple of its AP\n\n" + head("N, positives", names))
    for rate in (0.02, 0.5):
        for size in sizes:
            preds, target = scores(size, rate)
            contenders: dict[str, Callable[[], Any]] = {
                "torch_ap": partial(binary_average_precision, preds, target),
                names[0]: partial(average_precision_interval, preds, target),
                names[1]: partial(average_precision_interval, preds, target, method="jackknife"),
            }
            print(row(f"{size:,}, {rate:.0%}", by_turns(contenders, rounds), names), flush=True)


def macro(rounds: int, items: int) -> None:
    """The interval of a macro mean, which needs every item's place in every ranking."""
    names = ["interval of each", "interval of the macro mean"]
    preds, target = torch.randn(items, 80), (torch.rand(items, 80) < 0.03).long()
    contenders: dict[str, Callable[[], Any]] = {
        "torch_ap": partial(multilabel_average_precision, preds, target, 80),
        names[0]: partial(average_precision_interval, preds, target),
        names[1]: partial(average_precision_interval, preds, target, average="macro"),
    }
    print("\n### Intervals of 80 labels, as a multiple of their AP\n\n" + head("items", names))
    print(row(f"{items:,}", by_turns(contenders, rounds), names), flush=True)


def bootstraps(size: int, rounds: int) -> None:
    """1,000 stratified replicates; the peer runs a few, and its time is scaled up."""
    print(f"\n### 1,000 stratified bootstrap replicates of AP, N = {size:,}\n")
    print("| positives | torch_ap, s | scikit-learn loop |\n|---|---|---|")
    for rate in (0.02, 0.5):
        preds, target = scores(size, rate)
        ours = partial(
            average_precision_interval, preds, target, method="bootstrap-percentile", design="stratified",
            n_resamples=1000,
        )  # fmt: skip
        seconds = by_turns({"ours": ours, "theirs": partial(scikit_learn_loop, preds, target)}, min(rounds, 2))
        theirs = seconds["theirs"] * 1000 / _LOOPS
        print(f"| {rate:.0%} | {seconds['ours']:.3g} | {theirs / seconds['ours']:.3g} |", flush=True)


def scikit_learn_loop(preds: Tensor, target: Tensor) -> list[float]:
    """A few replicates, as one would write them by hand."""
    rng = np.random.default_rng(0)
    x, y = preds.numpy(), target.numpy()
    hits, misses = np.flatnonzero(y), np.flatnonzero(1 - y)
    values = []
    for _ in range(_LOOPS):
        drawn = np.concatenate([rng.choice(hits, len(hits)), rng.choice(misses, len(misses))])
        values.append(average_precision_score(y[drawn], x[drawn]))
    return values


def comparisons(size: int) -> None:
    """Two systems on the same items."""
    preds, target = scores(size, 0.02)
    other = preds + 0.3 * torch.randn(size)
    print(f"\n### Two systems on the same items, N = {size:,}\n\n| method | ms |\n|---|---|")
    for method in ("logit", "influence", "jackknife", "bootstrap", "permutation"):
        run = partial(compare_rankings, preds, other, target, method=method)
        print(f"| {method} | {in_ms(once({'run': run})['run'])} |", flush=True)


def images(count: int, replicates: int) -> None:
    """Detectors on a set like COCO's val2017: 80 categories, 10 thresholds, 101 recall levels."""
    scenes, metric, other = like_coco(count), MeanAveragePrecision("xywh"), MeanAveragePrecision("xywh")
    metric.update(scenes.preds, scenes.target)
    noise = 0.1 * torch.randn(len(scenes.preds["scores"]))
    other.update(scenes.preds | {"scores": scenes.preds["scores"] + noise}, scenes.target)
    how: dict[str, Any] = {"n_resamples": replicates}
    seconds = once(
        {
            "run": metric.compute,
            "bootstrap": partial(metric.confidence_interval, **how),
            "comparison": partial(metric.compare, other, **how),
            "chance": partial(metric.chance_level, **how),
        }
    )
    print(f"\n### Bootstrap over {count:,} images, {len(scenes.preds['labels']):,} detections\n")
    print(
        f"{replicates:,} resamples of mAP, matching included, in {seconds['bootstrap']:.3g} s; of two detectors in "
        f"{seconds['comparison']:.3g} s; {replicates:,} random orders of the scores in {seconds['chance']:.3g} s; "
        f"`compute` takes {seconds['run']:.3g} s"
    )


def main() -> None:
    options = parser("What uncertainty costs.").parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    quick = options.quick
    print(machine("torch", "scikit-learn", "numpy"))
    intervals([2000] if quick else [2000, 10**5, 10**6, 10**7], options.rounds)
    macro(options.rounds, 1000 if quick else 50_000)
    bootstraps(2000 if quick else 100_000, options.rounds)
    comparisons(2000 if quick else 100_000)
    images(50 if quick else 5000, 20 if quick else 1000)


if __name__ == "__main__":
    main()
