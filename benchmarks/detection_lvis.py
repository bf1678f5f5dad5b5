"""LVIS: scenes of 1,203 categories, compared with hotcoco and lvis."""

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.detection_scenes import Scenes, like_coco
from benchmarks.detection_shapes import mask_images
from benchmarks.timing import Timer, print_peer_head, print_peer_row
from torch_ap.detection import LVISMeanAveragePrecision
from torch_ap.detection.rules.lvis import Frequency
from torch_ap.functional import lvis_mean_average_precision

CLASSES, DETECTIONS, BATCH = 1203, 300, 50
_NEGATIVE = 9  # ids per image, as in the examples of LVIS
_NOT_EXHAUSTIVE = 0.05  # share of the categories of an image
_LISTS = ("neg_category_ids", "not_exhaustive_category_ids")

Packed = dict[str, Tensor]
Lists = Sequence[Mapping[str, Any]]
FREQUENCIES: dict[int, Frequency] = {label: "fcr"[min(2, label // 400)] for label in range(CLASSES)}  # type: ignore[misc]


def scenes(images: int) -> tuple[Packed, Packed]:
    """Return images of 300 detections with their lists of searched categories."""
    found = like_coco(images, CLASSES, most=DETECTIONS, wrong=DETECTIONS)
    preds, target, r = dict(found.preds), dict(found.target), np.random.default_rng(0)
    del target["iscrowd"]
    shown = [set(x.tolist()) for x in torch.split(target["labels"], target["counts"].tolist())]
    lists = {
        _LISTS[0]: [sorted({*r.integers(0, CLASSES, _NEGATIVE).tolist()} - x) for x in shown],
        _LISTS[1]: [[label for label in sorted(x) if r.random() < _NOT_EXHAUSTIVE] for x in shown],
    }
    for key, ids_by_image in lists.items():
        target[key] = torch.tensor([label for ids in ids_by_image for label in ids])
        target[f"{key}_counts"] = torch.tensor([len(ids) for ids in ids_by_image])
    return preds, target


def mask_scenes(images: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the images of :func:`scenes` as lists of dicts, with masks as run-length codes."""
    preds, target = scenes(images)
    ids_by_image = {key: torch.split(target.pop(key), target.pop(f"{key}_counts").tolist()) for key in _LISTS}
    sides = mask_images(Scenes(preds, target))
    for index, image in enumerate(sides[1]):
        image |= {key: ids[index] for key, ids in ids_by_image.items()}
    return sides


def as_annotations(
    preds: Packed, target: Packed, codes: Sequence[Sequence[Any]] = ()
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the images as dicts of LVIS. ``codes``: masks of detections and of ground truths, instead of boxes."""
    sides = []
    for index, side in enumerate((preds, target)):
        image = torch.repeat_interleave(torch.arange(len(side["counts"])), side["counts"])
        columns = {"image_id": image, "category_id": side["labels"], "bbox": side["boxes"].double()}
        columns |= {new: side[old] for new, old in (("score", "scores"), ("area", "area")) if old in side}
        values = {name: column.tolist() for name, column in columns.items()}
        if codes:
            del values["bbox"]
            values["segmentation"] = [{**code, "counts": code["counts"].decode()} for code in codes[index]]
        sides.append([dict(zip(values, entry, strict=True)) for entry in zip(*values.values(), strict=True)])
    ids = {key: [x.tolist() for x in torch.split(target[key], target[f"{key}_counts"].tolist())] for key in _LISTS}
    images = [
        {"id": i, "width": 640, "height": 480, **{key: ids[key][i] for key in _LISTS}}
        for i in range(len(target["counts"]))
    ]
    truths = [{**entry, "id": index + 1, "iscrowd": 0} for index, entry in enumerate(sides[1])]
    categories = [{"id": x, "name": str(x), "frequency": frequency} for x, frequency in FREQUENCIES.items()]
    return {"images": images, "annotations": truths, "categories": categories, "info": {}}, sides[0]


def ours(preds: Packed, target: Packed) -> dict[str, Any]:
    """Compute LVIS's numbers of packed images with the function."""
    return lvis_mean_average_precision(preds, target, "xywh", frequencies=FREQUENCIES)


def update_metric(preds: Lists, target: Lists) -> LVISMeanAveragePrecision:
    """Return a metric of masks after updates with batches of 50 images."""
    metric = LVISMeanAveragePrecision(iou_type="segm", frequencies=FREQUENCIES)
    for first in range(0, len(preds), BATCH):
        metric.update(preds[first : first + BATCH], target[first : first + BATCH])
    return metric


def hotcoco(truth: dict[str, Any], found: list[dict[str, Any]], kind: str) -> Callable[[], None]:
    """Return hotcoco's evaluation. The images are loaded and limited to 300 detections before."""
    module = import_module("hotcoco")
    data = module.LVIS(truth)
    results = module.LVISResults(data, found)

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            module.LVISEval(data, results, kind).run()

    return run


def lvis(truth: dict[str, Any], found: list[dict[str, Any]], kind: str) -> Callable[[], None]:
    """Return the evaluation of the package lvis, which includes the conversion of the results."""
    return partial(import_module("tests.support.oracles_lvis").lvis_eval, truth, found, kind)


def print_table(sizes: list[int], timer: Timer) -> None:
    """Print the time from loaded images to numbers.

    The row of masks has a fifth of the images of the smallest size. The package lvis, which needs gigabytes, runs only
    on the smallest size.
    """
    peers: dict[str, Callable[..., Callable[[], None]]] = {"hotcoco": hotcoco, "lvis": lvis}
    names = [name for name in peers if find_spec(name)]
    print_peer_head("LVIS of 1,203 classes in memory to the numbers", "images", names)
    for images in sizes:
        packed = scenes(images)
        files = as_annotations(*packed)
        theirs = {name: peers[name](*files, "bbox") for name in names if name != "lvis" or images == sizes[0]}
        print_peer_row(f"{images:,}, boxes", timer({"torch_ap": partial(ours, *packed), **theirs}), names)
    images = sizes[0] // 5
    lists = mask_scenes(images)
    codes = [[code for image in side for code in image["masks"]] for side in lists]
    files = as_annotations(*scenes(images), codes)
    metric = update_metric(*lists)

    def compute() -> None:
        metric._computed = None
        metric.metric_state["image_sizes"][0].add_(0)  # writing to the state discards the cached matches
        metric.compute()

    theirs = {name: peers[name](*files, "segm") for name in names}
    seconds = timer({"torch_ap": compute, "all": lambda: update_metric(*lists).compute(), **theirs})
    print_peer_row(f"{images:,}, {sum(map(len, codes)):,} masks", seconds, names)
    print_peer_row("masks, with updates", seconds | {"torch_ap": seconds["all"]}, names)
