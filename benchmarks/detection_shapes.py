"""Keypoints and rotated boxes: scenes, and the peers on them."""

import contextlib
import importlib
import io
import json
import math
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.detection_scenes import like_coco
from benchmarks.timing import by_turns, head, row
from torch_ap.functional.detection import coco_mean_average_precision

Packed = dict[str, Tensor]
PEERS = {  # module and classes of data and of evaluation
    "hotcoco": ("hotcoco", "hotcoco", "COCOeval"),
    "ultrafast-pycocotools": ("ultrafast_pycocotools.coco", "ultrafast_pycocotools.cocoeval", "COCOeval"),
    "faster-coco-eval": ("faster_coco_eval", "faster_coco_eval", "COCOeval_faster"),
    "pycocotools": ("pycocotools.coco", "pycocotools.cocoeval", "COCOeval"),
}
_POINTS = 17


def poses(images: int) -> tuple[Packed, Packed]:
    """Persons of 17 points, a third of them not labelled, and at most 20 detections of them per image."""
    scenes, generator = like_coco(images, most=20), torch.Generator().manual_seed(0)
    skeleton = torch.rand(_POINTS, 2, generator=generator, dtype=torch.float64)

    def points(boxes: Tensor, third: Tensor) -> Tensor:
        noise = 0.03 * torch.randn(len(boxes), _POINTS, 2, generator=generator)
        where = boxes[:, None, :2] + boxes[:, None, 2:] * (skeleton + noise)
        return torch.cat([where.round(decimals=1).to(torch.float64), third[..., None].to(torch.float64)], 2)

    found, true = dict(scenes.preds), dict(scenes.target)
    flags = 2 * (torch.rand(len(true["labels"]), _POINTS, generator=generator) < 2 / 3)
    true["keypoints"] = points(true["boxes"], flags) * (flags > 0)[..., None]
    boxes = found.pop("boxes")
    found["keypoints"] = points(boxes, torch.ones(len(boxes), _POINTS))
    for side in (found, true):
        side["labels"] = torch.ones_like(side["labels"])
    return found, true


def turned(images: int) -> tuple[Packed, Packed]:
    """Boxes turned by the angle of their image, more or less."""
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


def ours(preds: Packed, target: Packed, kind: str) -> None:
    """The function on packed images."""
    box_format: Any = "xywh" if kind == "keypoints" else "cxcywhr"
    coco_mean_average_precision(preds, target, box_format, iou_type=kind)  # type: ignore[arg-type]


def annotations(preds: Packed, target: Packed, kind: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The same as COCO's files have it; rotated boxes as hotcoco takes them, in radians."""
    sides = []
    for side in (preds, target):
        columns = {"image_id": torch.repeat_interleave(torch.arange(len(side["counts"])), side["counts"])}
        columns |= {"category_id": side["labels"]}
        names = {"scores": "score", "area": "area", "iscrowd": "iscrowd"}
        columns |= {names[key]: side[key] for key in names if key in side}
        if kind == "keypoints":
            columns["keypoints"] = side["keypoints"].flatten(1)
            columns |= {"bbox": side["boxes"]} if "boxes" in side else {}
            columns["num_keypoints"] = (side["keypoints"][..., 2] > 0).sum(1)
        else:
            boxes = side["boxes"].clone()
            boxes[:, 4] *= -math.pi / 180
            size = boxes[:, 2:4]
            columns |= {"obb": boxes, "bbox": torch.cat([torch.zeros_like(size), size], 1), "area": size.prod(1)}
        values = [column.tolist() for column in columns.values()]
        sides.append([dict(zip(columns, entry, strict=True)) for entry in zip(*values, strict=True)])
    truths = [{"id": place + 1, "iscrowd": 0, **entry} for place, entry in enumerate(sides[1])]
    images = [{"id": i, "width": 640, "height": 480} for i in range(len(target["counts"]))]
    labels = sorted({*preds["labels"].tolist(), *target["labels"].tolist()})
    categories = [{"id": label, "name": str(label)} for label in labels]
    return {"images": images, "annotations": truths, "categories": categories, "info": {}}, sides[0]


def peer(name: str, truths: dict[str, Any], found: list[dict[str, Any]], kind: str) -> Callable[[], None]:
    """A peer on the same images, loaded beforehand."""
    data, evaluation, evaluator = PEERS[name]
    with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "truths.json")
        path.write_text(json.dumps(truths))
        truth = importlib.import_module(data).COCO(str(path))
        load = truth.load_res if name == "hotcoco" else truth.loadRes
        results = load([dict(entry) for entry in found])

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            made = getattr(importlib.import_module(evaluation), evaluator)(truth, results, kind)
            made.evaluate()
            made.accumulate()
            made.summarize()

    return run


def table(sizes: list[int], rounds: int) -> None:
    """CPU seconds from loaded images to numbers, of the peers that are installed."""
    names = [name for name, (module, *_) in PEERS.items() if find_spec(module.partition(".")[0])]
    print("\n### Keypoints and rotated boxes in memory to the numbers, CPU seconds\n\n" + head("images", names))
    for kind, make, theirs in (("keypoints", poses, names), ("rotated", turned, [x for x in names if x == "hotcoco"])):
        for images in sizes:
            scenes = make(images)
            files = annotations(*scenes, kind)
            contenders: dict[str, Callable[[], Any]] = {"torch_ap": partial(ours, *scenes, kind)}
            called = kind if kind == "keypoints" else "obb"
            contenders |= {name: peer(name, *files, called) for name in theirs}
            print(row(f"{kind}, {images:,}", by_turns(contenders, rounds, time.process_time), names), flush=True)
