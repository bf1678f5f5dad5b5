"""Slices of the images, and ``match="update"``: processor time and bytes, compared with matching once."""

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
from benchmarks.timing import milliseconds, print_head, print_row, time_in_turns
from torch_ap.detection import MeanAveragePrecision
from torch_ap.detection.rules import coco

BATCH = 50
_PARTS = (1, 10)
Lists = list[dict[str, torch.Tensor]]


def print_slices(scenes: Scenes, rounds: int) -> None:
    """Print the time of every number of disjoint slices, without the matching, for torch_ap and hotcoco."""
    images = len(scenes.target["counts"])
    metric = MeanAveragePrecision("xywh")
    metric.warn_on_many_detections = False
    metric.update(scenes.preds, scenes.target)
    columns = metric._columns()
    match = partial(coco.match, metric._settings, columns, "bbox")
    contenders: dict[str, Callable[[], Any]] = {"matching": match, "all images": lambda: match().summary()}
    metric.per_slice({"all": range(images)})  # caches the matches
    for parts in _PARTS:
        members = {str(x): range(x, images, parts) for x in range(parts)}
        contenders[f"{parts} of torch_ap"] = partial(metric.per_slice, members)
    if find_spec("hotcoco"):
        contenders |= _peer(*detection_peers.box_annotations(scenes), images)
    seconds = time_in_turns(contenders, rounds, clock=time.process_time)
    print_head(f"Every number of each slice of {images:,} images, processor time", "", "ms", "share of the matching")
    for name, took in seconds.items():
        print_row(name, milliseconds(took), f"{took / seconds['matching']:.2f}")


def _peer(truths: Any, found: Any, images: int) -> dict[str, Callable[[], Any]]:
    package = importlib.import_module("hotcoco")
    truth = package.COCO(truths)
    evaluated = package.COCOeval(truth, truth.load_res(found), "bbox")
    with contextlib.redirect_stdout(io.StringIO()):
        evaluated.evaluate()
        evaluated.accumulate()
    members = {parts: {str(x): list(range(x, images, parts)) for x in range(parts)} for parts in _PARTS}
    return {f"{parts} of hotcoco": partial(evaluated.slice_by, slices) for parts, slices in members.items()}


def masks(images: int) -> tuple[Lists, Lists]:
    """Return dense masks of ellipses, 320 by 240 pixels, at most 20 detections per image."""
    height, width = torch.arange(240.0)[:, None], torch.arange(320.0)
    preds, target = like_coco(images, most=20).lists()

    def draw_ellipses(image: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        x, y, w, h = (image["boxes"][:, i, None, None] / 2 for i in range(4))
        inside = ((width - x - w / 2) / (w / 2)) ** 2 + ((height - y - h / 2) / (h / 2)) ** 2 <= 1
        return {name: value for name, value in image.items() if name not in ("boxes", "area")} | {"masks": inside}

    return [draw_ellipses(x) for x in preds], [draw_ellipses(x) for x in target]


def print_match_update(kinds: dict[Literal["bbox", "segm"], tuple[Lists, Lists]], rounds: int) -> None:
    """Print the time of updates with 50 images, the time of compute, and the size of the state."""
    columns = ("images", "updates, ms", "", "compute, ms", "", "state, MB", "")
    print_head('`match="update"`, and as a multiple of `match="compute"`', *columns)
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
            took = time_in_turns(
                {x: partial(work, metric) for x, metric in metrics.items()}, rounds, clock=time.process_time
            )
            cells += [milliseconds(took["update"]), f"{took['update'] / took['compute']:.2g}"]
        size = {x: sum(tensor.nbytes for tensor in metric._tensors()) / 1e6 for x, metric in metrics.items()}
        cells += [f"{size['update']:.3g}", f"{size['update'] / size['compute']:.2g}"]
        print_row(f"{len(preds):,}, {kind}", *cells)


def print_tables(images: int, mask_images: int, rounds: int) -> None:
    """Print the tables of slices and of ``match="update"``."""
    scenes = like_coco(images)
    for subset in (like_coco(images // 10), scenes):
        print_slices(subset, rounds)
    print_match_update({"bbox": scenes.lists(), "segm": masks(mask_images)}, max(1, rounds // 2))
