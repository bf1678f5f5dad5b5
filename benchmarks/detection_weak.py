"""The search for the cause of a low value: ``compute`` of a weak detector, compared with a good one of equal size."""

import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.detection_scenes import Scenes, like_coco
from benchmarks.timing import milliseconds, print_head, print_row, time_in_turns

NAMES = ("good", "at random places", "`diagnose=False`", "displaced by half a side", "weak / good")


def weak(scenes: Scenes) -> Scenes:
    """Return the detections at random positions."""
    generator = torch.Generator().manual_seed(0)
    boxes = scenes.preds["boxes"]
    size = torch.tensor([640.0, 480.0], dtype=boxes.dtype) - boxes[:, 2:]
    corner = torch.rand(size.shape, generator=generator, dtype=boxes.dtype) * size.clamp(min=0)
    return Scenes({**scenes.preds, "boxes": torch.cat([corner, boxes[:, 2:]], 1)}, scenes.target)


def displaced(scenes: Scenes) -> Scenes:
    """Return the detections moved by about half their size, as of an early epoch: the mAP is about 0.03."""
    generator = torch.Generator().manual_seed(0)
    boxes = scenes.preds["boxes"].clone()
    boxes[:, :2] += 0.5 * boxes[:, 2:] * torch.randn(len(boxes), 2, generator=generator)
    return Scenes({**scenes.preds, "boxes": boxes}, scenes.target)


def print_table(sizes: list[int], rounds: int) -> None:
    """Print the processor time of the first ``compute`` of a metric, without its updates."""
    print_head("The first `compute` of weak detectors, processor time in ms", "images", *NAMES)
    for images in sizes:
        scenes = like_coco(images)
        contenders = {
            NAMES[0]: _first_computes(scenes, rounds, diagnose=True),
            NAMES[1]: _first_computes(weak(scenes), rounds, diagnose=True),
            NAMES[2]: _first_computes(weak(scenes), rounds, diagnose=False),
            NAMES[3]: _first_computes(displaced(scenes), rounds, diagnose=True),
        }
        seconds = time_in_turns(contenders, rounds, clock=time.process_time)
        multiple = max(seconds[NAMES[1]], seconds[NAMES[3]]) / seconds[NAMES[0]]
        print_row(f"{images:,}", *map(milliseconds, seconds.values()), f"{multiple:.2g}")


def _first_computes(scenes: Scenes, rounds: int, *, diagnose: bool) -> Callable[[], Any]:
    """Return a function that computes a new metric in each call."""
    from torch_ap.detection import MeanAveragePrecision  # the benchmark of reports times this import

    metrics = []
    for _ in range(rounds + 1):
        metric = MeanAveragePrecision("xywh", diagnose=diagnose)
        metric.warn_on_many_detections = False
        metric.update(scenes.preds, scenes.target)
        metrics.append(metric)
    return lambda: metrics.pop().compute()
