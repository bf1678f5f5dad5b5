"""Time of intervals compared with AP, and of the bootstrap compared with a loop over scikit-learn.

    python -m benchmarks.inference

The Markdown tables show multiples of the first column, measured in turns in the same run.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

from benchmarks.detection_scenes import like_coco
from benchmarks.timing import (
    machine,
    milliseconds,
    parser,
    print_head,
    print_peer_head,
    print_peer_row,
    print_row,
    time_in_turns,
    time_once,
)
from torch_ap.detection import MeanAveragePrecision
from torch_ap.functional import binary_average_precision, multilabel_average_precision
from torch_ap.inference import average_precision_interval, best_of, compare_rankings

_LOOPS = 20


def scores(size: int, rate: float) -> tuple[Tensor, Tensor]:
    """Return normal scores, two standard deviations higher for hits, and targets."""
    target = torch.rand(size) < rate
    return torch.randn(size) + 2 * target, target.long()


def print_intervals(sizes: list[int], rounds: int) -> None:
    """Print the time of AP with its interval as a multiple of the time of AP."""
    names = ["influence interval", "jackknife interval"]
    print_peer_head("Interval of one ranking, as a multiple of its AP", "N, positives", names)
    for rate in (0.02, 0.5):
        for size in sizes:
            preds, target = scores(size, rate)
            contenders: dict[str, Callable[[], Any]] = {
                "torch_ap": partial(binary_average_precision, preds, target),
                names[0]: partial(average_precision_interval, preds, target),
                names[1]: partial(average_precision_interval, preds, target, method="jackknife"),
            }
            print_peer_row(f"{size:,}, {rate:.0%}", time_in_turns(contenders, rounds), names)


def print_group_intervals(size: int, rounds: int) -> None:
    """Print the processor time of the interval with groups as a multiple of the interval without groups."""
    groups = (50, 500, max(size // 10, 1000))
    names = [f"{count:,} groups" for count in groups]
    print_peer_head("Interval of items in groups, as a multiple of independent items", "N, positives", names)
    for rate in (0.02, 0.5):
        preds, target = scores(size, rate)
        contenders: dict[str, Callable[[], Any]] = {"torch_ap": partial(average_precision_interval, preds, target)}
        for name, count in zip(names, groups, strict=True):
            contenders[name] = partial(average_precision_interval, preds, target, groups=torch.randint(count, (size,)))
        seconds = time_in_turns(contenders, rounds, time.process_time, statistic=min)
        print_peer_row(f"{size:,}, {rate:.0%}", seconds, names)


def print_best(size: int, systems: int) -> None:
    """Print the time to select the best of several systems on the same items."""
    target = (torch.rand(size) < 0.1).long()
    preds = torch.randn(systems, size) + target
    print_head(f"The best of {systems} systems, N = {size:,}", "ms")
    print_row(milliseconds(time_once({"run": partial(best_of, preds, target)})["run"]))


def print_macro_intervals(rounds: int, items: int) -> None:
    """Print the time of the interval of a macro mean, which needs the ranks of every item in all rankings."""
    names = ["interval of each", "interval of the macro mean"]
    preds, target = torch.randn(items, 80), (torch.rand(items, 80) < 0.03).long()
    contenders: dict[str, Callable[[], Any]] = {
        "torch_ap": partial(multilabel_average_precision, preds, target, 80),
        names[0]: partial(average_precision_interval, preds, target),
        names[1]: partial(average_precision_interval, preds, target, average="macro"),
    }
    print_peer_head("Intervals of 80 labels, as a multiple of their AP", "items", names)
    print_peer_row(f"{items:,}", time_in_turns(contenders, rounds), names)


def print_bootstraps(size: int, rounds: int) -> None:
    """Print the time of 1,000 stratified replicates. The peer runs fewer, and its time is scaled."""
    columns = ("positives", "torch_ap, s", "scikit-learn loop")
    print_head(f"1,000 stratified bootstrap replicates of AP, N = {size:,}", *columns)
    for rate in (0.02, 0.5):
        preds, target = scores(size, rate)
        ours = partial(
            average_precision_interval, preds, target, method="bootstrap-percentile", design="stratified",
            n_resamples=1000,
        )  # fmt: skip
        seconds = time_in_turns({"ours": ours, "theirs": partial(scikit_learn_loop, preds, target)}, min(rounds, 2))
        theirs = seconds["theirs"] * 1000 / _LOOPS
        print_row(f"{rate:.0%}", f"{seconds['ours']:.3g}", f"{theirs / seconds['ours']:.3g}")


def scikit_learn_loop(preds: Tensor, target: Tensor) -> list[float]:
    """Return AP of 20 replicates by a simple loop."""
    rng = np.random.default_rng(0)
    x, y = preds.numpy(), target.numpy()
    hits, misses = np.flatnonzero(y), np.flatnonzero(1 - y)
    values = []
    for _ in range(_LOOPS):
        drawn = np.concatenate([rng.choice(hits, len(hits)), rng.choice(misses, len(misses))])
        values.append(average_precision_score(y[drawn], x[drawn]))
    return values


def print_comparisons(size: int) -> None:
    """Print the time to compare two systems on the same items."""
    preds, target = scores(size, 0.02)
    other = preds + 0.3 * torch.randn(size)
    print_head(f"Two systems on the same items, N = {size:,}", "method", "ms")
    for method in ("logit", "influence", "jackknife", "bootstrap", "permutation"):
        run = partial(compare_rankings, preds, other, target, method=method)
        print_row(method, milliseconds(time_once({"run": run})["run"]))


def print_images(count: int, replicates: int) -> None:
    """Print the time for detectors on data like COCO's val2017: 80 categories, 10 thresholds, 101 recall levels."""
    scenes, metric, other = like_coco(count), MeanAveragePrecision("xywh"), MeanAveragePrecision("xywh")
    metric.update(scenes.preds, scenes.target)
    noise = 0.1 * torch.randn(len(scenes.preds["scores"]))
    other.update(scenes.preds | {"scores": scenes.preds["scores"] + noise}, scenes.target)
    settings: dict[str, Any] = {"n_resamples": replicates}
    seconds = time_once(
        {
            "run": metric.compute,
            "bootstrap": partial(metric.confidence_interval, **settings),
            "comparison": partial(metric.compare, other, **settings),
            "chance": partial(metric.chance_level, **settings),
        }
    )
    print(f"\n### Bootstrap over {count:,} images, {len(scenes.preds['labels']):,} detections\n")
    print(
        f"{replicates:,} resamples of mAP, matching included, in {seconds['bootstrap']:.3g} s; of two detectors in "
        f"{seconds['comparison']:.3g} s; {replicates:,} random orders of the scores in {seconds['chance']:.3g} s; "
        f"`compute` takes {seconds['run']:.3g} s"
    )


def main() -> None:
    """Print all tables."""
    options = parser(__doc__).parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    quick = options.quick
    print(machine("torch", "scikit-learn", "numpy"))
    print_intervals([2000] if quick else [2000, 10**5, 10**6, 10**7], options.rounds)
    print_group_intervals(2000 if quick else 10**6, options.rounds)
    print_macro_intervals(options.rounds, 1000 if quick else 50_000)
    print_bootstraps(2000 if quick else 100_000, options.rounds)
    print_comparisons(2000 if quick else 100_000)
    print_best(2000 if quick else 100_000, 3 if quick else 30)
    print_images(50 if quick else 5000, 20 if quick else 1000)


if __name__ == "__main__":
    main()
