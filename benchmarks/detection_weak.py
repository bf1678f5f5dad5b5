"""`compute` of a weak detector, whose low value is searched for a cause, beside a good detector of the same size."""

import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.detection_scenes import Scenes, like_coco
from benchmarks.timing import by_turns, head, in_ms
from torch_ap.detection import MeanAveragePrecision

NAMES = ("good", "weak", "weak, `diagnose=False`", "search, share of `compute`")


def weak(scenes: Scenes) -> Scenes:
    """The same detections at random places."""
    generator = torch.Generator().manual_seed(0)
    boxes = scenes.preds["boxes"]
    size = torch.tensor([640.0, 480.0], dtype=boxes.dtype) - boxes[:, 2:]
    corner = torch.rand(size.shape, generator=generator, dtype=boxes.dtype) * size.clamp(min=0)
    return Scenes({**scenes.preds, "boxes": torch.cat([corner, boxes[:, 2:]], 1)}, scenes.target)


def table(sizes: list[int], rounds: int) -> None:
    """CPU milliseconds of the first `compute` of a metric, without its updates."""
    print("\n### The first `compute` of weak detectors, CPU ms\n\n" + head("images", NAMES))
    for images in sizes:
        scenes = like_coco(images)
        contenders = {
            NAMES[0]: _first_computes(scenes, rounds, diagnose=True),
            NAMES[1]: _first_computes(weak(scenes), rounds, diagnose=True),
            NAMES[2]: _first_computes(weak(scenes), rounds, diagnose=False),
        }
        seconds = by_turns(contenders, rounds, clock=time.process_time)
        share = seconds[NAMES[1]] / seconds[NAMES[2]] - 1
        print(f"| {images:,} | {' | '.join(map(in_ms, seconds.values()))} | {share:.0%} |", flush=True)


def _first_computes(scenes: Scenes, rounds: int, *, diagnose: bool) -> Callable[[], Any]:
    """A function whose every call computes another metric for the first time."""
    metrics = []
    for _ in range(rounds + 1):
        metric = MeanAveragePrecision("xywh", diagnose=diagnose)
        metric.warn_on_many_detections = False
        metric.update(scenes.preds, scenes.target)
        metrics.append(metric)
    return lambda: metrics.pop().compute()
