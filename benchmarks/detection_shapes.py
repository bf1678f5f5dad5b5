"""Keypoints, rotated boxes, masks and their boundaries, compared with other packages."""

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import detection_peers
from benchmarks.detection_scenes import HEIGHT, WIDTH, Scenes, like_coco
from benchmarks.timing import Timer, print_peer_head, print_peer_row
from torch_ap.detection import MeanAveragePrecision
from torch_ap.detection.functions import coco_mean_average_precision

Packed = dict[str, Tensor]
Lists = Sequence[Mapping[str, Any]]
BATCH = 50
_POINTS = 17


def poses(images: int) -> tuple[Packed, Packed]:
    """Return persons with 17 points, a third of them not labelled, and at most 20 detections per image."""
    scenes, generator = like_coco(images, most=20), torch.Generator().manual_seed(0)
    skeleton = torch.rand(_POINTS, 2, generator=generator, dtype=torch.float64)

    def points(boxes: Tensor, third: Tensor) -> Tensor:
        noise = 0.03 * torch.randn(len(boxes), _POINTS, 2, generator=generator)
        position = boxes[:, None, :2] + boxes[:, None, 2:] * (skeleton + noise)
        return torch.cat([position.round(decimals=1).to(torch.float64), third[..., None].to(torch.float64)], 2)

    found, true = dict(scenes.preds), dict(scenes.target)
    flags = 2 * (torch.rand(len(true["labels"]), _POINTS, generator=generator) < 2 / 3)
    true["keypoints"] = points(true["boxes"], flags) * (flags > 0)[..., None]
    boxes = found.pop("boxes")
    found["keypoints"] = points(boxes, torch.ones(len(boxes), _POINTS))
    for side in (found, true):
        side["labels"] = torch.ones_like(side["labels"])
    return found, true


def rotated_boxes(images: int) -> tuple[Packed, Packed]:
    """Return boxes rotated by about the angle of their image."""
    scenes, generator = like_coco(images), torch.Generator().manual_seed(0)
    sides = []
    for side in (dict(scenes.preds), dict(scenes.target)):
        image = torch.repeat_interleave(torch.arange(images), side["counts"])
        angle = (37.0 * image) % 180 + 3 * torch.randn(len(image), generator=generator)
        boxes = side["boxes"].double()
        side["boxes"] = torch.cat([boxes[:, :2] + boxes[:, 2:] / 2, boxes[:, 2:], angle[:, None].double()], 1)
        sides.append(side)
    del sides[1]["area"], sides[1]["iscrowd"]
    return sides[0], sides[1]


def mask_images(
    scenes: Scenes, height_of_image: int = int(HEIGHT), width_of_image: int = int(WIDTH)
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return uneven ellipses in the boxes, as compressed run-length codes, in lists of dicts."""
    encode = importlib.import_module("pycocotools.mask").frPyObjects
    r = np.random.default_rng(0)

    def codes(boxes: Tensor) -> list[Any]:
        out = []
        for x, y, width, height in boxes.double().tolist():
            first, last = max(int(x), 0), min(math.ceil(x + width), width_of_image)
            column = np.arange(first, max(last, first + 1))
            half = np.sqrt(np.maximum(1 - (2 * (column + 0.5 - first) / len(column) - 1) ** 2, 0.02)) * height / 2
            low, high = (y + height / 2 + sign * half * r.normal(1, 0.03, len(half)) for sign in (-1, 1))
            low = low.round().clip(0, height_of_image - 1)
            ends = np.stack([low, high.round().clip(low + 1, height_of_image)], 1) + column[:, None] * height_of_image
            runs = np.diff(ends.flatten(), prepend=0, append=width_of_image * height_of_image).astype(int).tolist()
            size = [height_of_image, width_of_image]
            out.append(encode({"size": size, "counts": runs}, *size))
        return out

    sides = scenes.lists()
    for side in sides:
        for image in side:
            image["masks"] = codes(image.pop("boxes"))  # type: ignore[assignment]
    return sides


def ours(preds: Packed, target: Packed, kind: str) -> None:
    """Compute COCO's numbers of packed images with the function."""
    box_format: Any = "xywh" if kind == "keypoints" else "cxcywhr"
    coco_mean_average_precision(preds, target, box_format, iou_type=kind)  # type: ignore[arg-type]


def update_metric(preds: Lists, target: Lists, iou_type: Any = "segm") -> MeanAveragePrecision:
    """Return a metric after updates with batches of 50 images."""
    metric = MeanAveragePrecision(iou_type=iou_type)
    for first in range(0, len(preds), BATCH):
        metric.update(preds[first : first + BATCH], target[first : first + BATCH])
    return metric


def print_tables(sizes: list[int], timer: Timer) -> None:
    """Print the time from loaded images to numbers of the installed peers."""
    names = detection_peers.installed()
    print_peer_head("Keypoints, rotated boxes and masks in memory to the numbers", "images", names)
    for kind, make, theirs in (
        ("keypoints", poses, names),
        ("rotated", rotated_boxes, [x for x in names if x == "hotcoco"]),
    ):
        for images in sizes:
            scenes = make(images)
            called = kind if kind == "keypoints" else "obb"
            files = detection_peers.annotations(*scenes, called)
            contenders: dict[str, Callable[[], Any]] = {"torch_ap": partial(ours, *scenes, kind)}
            contenders |= {name: detection_peers.peer(name, *files, called) for name in theirs}
            print_peer_row(f"{kind}, {images:,}", timer(contenders), names)
    lists = mask_images(like_coco(sizes[0] * 3 // 5))
    coded = detection_peers.mask_annotations(*lists)
    _masks(*lists, "segm", {name: detection_peers.peer(name, *coded, "segm") for name in names}, timer)
    bounds = {"vernier": detection_peers.vernier_boundaries(*lists)} if "vernier" in names else {}
    _masks(*lists, "boundary", bounds, timer)
    _dense(min(sizes[0], 100), timer)


def _masks(preds: Lists, target: Lists, kind: str, theirs: Mapping[str, Callable[[], None]], timer: Timer) -> None:
    """Print a row for ``compute``, since the peers have loaded their files, and a row for updates and compute."""
    names, metric = detection_peers.installed(), update_metric(preds, target, kind)

    def compute() -> None:
        metric._computed = None
        # writing to the state discards the cached matches
        metric.metric_state["image_sizes"][0].add_(0)
        metric.compute()

    seconds = timer({"torch_ap": compute, "all": lambda: update_metric(preds, target, kind).compute(), **theirs})
    masks = sum(len(image["masks"]) for side in (preds, target) for image in side)
    print_peer_row(f"{kind}, {masks:,} masks, {len(preds)}", seconds, names)
    print_peer_row(f"{kind}, with updates", seconds | {"torch_ap": seconds["all"]}, names)


def _dense(images: int, timer: Timer) -> None:
    """Print a row for updates with dense masks, and the time of pycocotools to encode the masks for its evaluator."""
    code = importlib.import_module("pycocotools.mask")
    sides = mask_images(like_coco(images, most=20))
    for image in (*sides[0], *sides[1]):
        drawn = code.decode(image["masks"]) if image["masks"] else np.zeros((int(HEIGHT), int(WIDTH), 0), np.uint8)
        image["masks"] = torch.from_numpy(drawn).permute(2, 0, 1).bool().contiguous()

    def encode() -> None:
        for image in (*sides[0], *sides[1]):
            code.encode(np.asfortranarray(image["masks"].permute(1, 2, 0).numpy().view(np.uint8)))

    seconds = timer({"torch_ap": lambda: update_metric(*sides), "pycocotools": encode})
    masks = sum(len(image["masks"]) for side in sides for image in side)
    print_peer_row(f"{masks:,} dense masks, updates; encoding alone", seconds, detection_peers.installed())
