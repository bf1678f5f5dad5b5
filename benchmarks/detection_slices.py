"""Slices of the images, and images matched as they come: CPU seconds and bytes, each beside matching once."""

import contextlib
import importlib
import io
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

import torch

from benchmarks import detection_peers
from benchmarks.detection_scenes import Scenes, like_coco
from benchmarks.timing import by_turns, in_ms
from torch_ap.detection import MeanAveragePrecision
from torch_ap.detection.rules import coco

BATCH = 50
_PARTS = (1, 10)
Lists = list[dict[str, torch.Tensor]]


def slices(scenes: Scenes, rounds: int) -> None:
    """Every number of each of some disjoint slices, beside matching, which is not in them; hotcoco's likewise."""
    images = len(scenes.target["counts"])
    metric = MeanAveragePrecision("xywh")
    metric.warn_on_many_detections = False
    metric.update(scenes.preds, scenes.target)
    columns = metric._columns()
    match = partial(coco.match, metric._settings, columns, "bbox")
    contenders: dict[str, Callable[[], Any]] = {"matching": match, "all images": lambda: match().summary()}
    metric.per_slice({"all": range(images)})  # what is matched is kept
    for parts in _PARTS:
        members = {str(x): range(x, images, parts) for x in range(parts)}
        contenders[f"{parts} of ours"] = partial(metric.per_slice, members)
    if find_spec("hotcoco"):
        contenders |= _peer(*detection_peers.of_boxes(scenes), images)
    seconds = by_turns(contenders, rounds, clock=time.process_time)
    print(f"\n### Every number of each slice of {images:,} images, CPU ms\n")
    print("| | ms | share of the matching |\n|---|---|---|")
    for name, took in seconds.items():
        print(f"| {name} | {in_ms(took)} | {took / seconds['matching']:.2f} |", flush=True)


def _peer(truths: Any, found: Any, images: int) -> dict[str, Callable[[], Any]]:
    package = importlib.import_module("hotcoco")
    truth = package.COCO(truths)
    evaluated = package.COCOeval(truth, truth.load_res(found), "bbox")
    with contextlib.redirect_stdout(io.StringIO()):
        evaluated.evaluate()
        evaluated.accumulate()
    members = {parts: {str(x): list(range(x, images, parts)) for x in range(parts)} for parts in _PARTS}
    return {f"{parts} of hotcoco": partial(evaluated.slice_by, one) for parts, one in members.items()}


def masks(images: int) -> tuple[Lists, Lists]:
    """Ellipses, dense, 320 by 240, at most 20 detections per image."""
    height, width = torch.arange(240.0)[:, None], torch.arange(320.0)
    preds, target = like_coco(images, most=20).lists()

    def drawn(image: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x, y, w, h = (image["boxes"][:, i, None, None] / 2 for i in range(4))
        inside = ((width - x - w / 2) / (w / 2)) ** 2 + ((height - y - h / 2) / (h / 2)) ** 2 <= 1
        return {name: value for name, value in image.items() if name not in ("boxes", "area")} | {"masks": inside}

    return [drawn(x) for x in preds], [drawn(x) for x in target]


def as_they_come(kinds: dict[Literal["bbox", "segm"], tuple[Lists, Lists]], rounds: int) -> None:
    """Updates of 50 images, then compute, and what is kept."""
    print(
        '\n### `match="update"`, a multiple of "compute"\n\n'
        "| images | updates, ms | | compute, ms | | kept, MB | |\n|---|---|---|---|---|---|---|"
    )
    for kind, (preds, target) in kinds.items():
        metrics = {x: MeanAveragePrecision("xywh", kind, match=x) for x in ("compute", "update")}

        def epoch(metric: MeanAveragePrecision, preds: Lists = preds, target: Lists = target) -> None:
            metric.reset()
            for first in range(0, len(preds), BATCH):
                metric.update(preds[first : first + BATCH], target[first : first + BATCH])

        def compute(metric: MeanAveragePrecision) -> None:
            metric._once = lambda make, *_: make()  # type: ignore[method-assign]
            metric._computed = None
            metric.compute()

        cells = []
        for metric in metrics.values():
            metric.warn_on_many_detections = False
        for work in (epoch, compute):
            took = by_turns({x: partial(work, one) for x, one in metrics.items()}, rounds, clock=time.process_time)
            cells += [in_ms(took["update"]), f"{took['update'] / took['compute']:.2g}"]
        kept = {x: sum(p.nbytes for p in one._tensors()) / 1e6 for x, one in metrics.items()}
        cells += [f"{kept['update']:.3g}", f"{kept['update'] / kept['compute']:.2g}"]
        print(f"| {len(preds):,}, {kind} | {' | '.join(cells)} |", flush=True)


def tables(images: int, masked: int, rounds: int) -> None:
    """Both."""
    scenes = like_coco(images)
    for some in (like_coco(images // 10), scenes):
        slices(some, rounds)
    as_they_come({"bbox": scenes.lists(), "segm": masks(masked)}, max(1, rounds // 2))
