"""Evaluators of other packages on the same images, which are loaded before the measurement."""

import contextlib
import importlib
import io
import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.detection_scenes import Scenes

Packed = dict[str, Tensor]
Lists = Sequence[Mapping[str, Any]]
PEERS = {  # module and class of the evaluation, and the module of its `COCO`; about in order of speed
    "hotcoco": ("hotcoco", "COCOeval", "hotcoco"),
    "ultrafast-pycocotools": ("ultrafast_pycocotools.cocoeval", "COCOeval", "ultrafast_pycocotools.coco"),
    "vernier": ("vernier", "COCOeval", "pycocotools.coco"),
    "faster-coco-eval": ("faster_coco_eval", "COCOeval_faster", "faster_coco_eval"),
    "pycocotools": ("pycocotools.cocoeval", "COCOeval", "pycocotools.coco"),
}

_OWN = ("torch_ap.compat", "COCOeval", "torch_ap.compat")


def installed() -> list[str]:
    """Return the names of the installed peers."""
    return [name for name, modules in PEERS.items() if find_spec(modules[0].partition(".")[0])]


def annotations(preds: Packed, target: Packed, kind: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Convert packed images to the dicts of COCO's files, and rotated boxes to radians for hotcoco."""
    sides = []
    for side in (preds, target):
        columns = {"image_id": torch.repeat_interleave(torch.arange(len(side["counts"])), side["counts"])}
        columns |= {"category_id": side["labels"]}
        names = {"scores": "score", "area": "area", "iscrowd": "iscrowd"}
        columns |= {names[key]: side[key] for key in names if key in side}
        if kind == "obb":
            boxes = side["boxes"].clone()
            boxes[:, 4] *= -math.pi / 180
            size = boxes[:, 2:4]
            columns |= {"obb": boxes, "bbox": torch.cat([torch.zeros_like(size), size], 1), "area": size.prod(1)}
        elif "boxes" in side:
            columns["bbox"] = side["boxes"].double()
        if "keypoints" in side:
            columns["keypoints"] = side["keypoints"].flatten(1)
            columns["num_keypoints"] = (side["keypoints"][..., 2] > 0).sum(1)
        values = [column.tolist() for column in columns.values()]
        sides.append([dict(zip(columns, entry, strict=True)) for entry in zip(*values, strict=True)])
    return _data_set(sides[0], sides[1], len(target["counts"])), sides[0]


def box_annotations(scenes: Scenes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Convert scenes of boxes to the dicts of COCO's files."""
    return annotations(scenes.preds, scenes.target, "bbox")


def mask_annotations(preds: Lists, target: Lists) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Convert images with masks as compressed run-length codes to the dicts of COCO's files."""
    sides = []
    for name, images in (("score", preds), ("iscrowd", target)):
        flags = "scores" if name == "score" else name
        sides.append(
            [
                {
                    "image_id": index,
                    "category_id": label,
                    name: value,
                    "segmentation": {**mask, "counts": mask["counts"].decode()},
                }
                for index, image in enumerate(images)
                for label, value, mask in zip(
                    image["labels"].tolist(), image[flags].tolist(), image["masks"], strict=True
                )
            ]
        )
    areas = torch.cat([image["area"] for image in target]).tolist()
    truths = [{**entry, "area": area, "bbox": [0, 0, 1, 1]} for entry, area in zip(sides[1], areas, strict=True)]
    return _data_set(sides[0], truths, len(target)), sides[0]


def _data_set(found: list[dict[str, Any]], truths: list[dict[str, Any]], images: int) -> dict[str, Any]:
    """Return the content of an annotation file: ground truths, images and categories."""
    truths = [{"id": index + 1, "iscrowd": 0, **entry} for index, entry in enumerate(truths)]
    sizes = [{"id": image, "width": 640, "height": 480} for image in range(images)]
    labels = sorted({entry["category_id"] for entry in (*found, *truths)})
    categories = [{"id": label, "name": str(label)} for label in labels]
    return {"images": sizes, "annotations": truths, "categories": categories, "info": {}}


def peer(
    name: str,
    truths: dict[str, Any],
    found: list[dict[str, Any]],
    kind: str,
    limits: list[int] | None = None,
) -> Callable[[], None]:
    """Return the evaluation of a peer, or of `torch_ap.compat` for another name. The images are loaded before."""
    evaluation, evaluator, data = PEERS.get(name, _OWN)
    with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "truths.json")
        path.write_text(json.dumps(truths))
        truth = importlib.import_module(data).COCO(str(path))
        load = truth.load_res if name == "hotcoco" else truth.loadRes
        results = load([dict(entry) for entry in found])
    if name == "vernier":  # it accepts no arrays as boxes, which pycocotools creates for masks
        for entry in results.dataset["annotations"]:
            entry["bbox"] = list(entry["bbox"])

    def evaluate() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            run = getattr(importlib.import_module(evaluation), evaluator)(truth, results, kind)
            if limits is not None:
                setattr(run.params, "max_dets" if name == "hotcoco" else "maxDets", limits)
            run.evaluate()
            run.accumulate()
            if limits is None:  # the summary of some peers supports only the default limits
                run.summarize()

    return evaluate


def vernier_boundaries(preds: Lists, target: Lists) -> Callable[[], None]:
    """Return the evaluation of boundaries by vernier. Ground truths are loaded, detections are arrays."""
    module = importlib.import_module("vernier.instance")
    truths = module.CocoDataset.from_json(json.dumps(mask_annotations(preds, target)[0]).encode())
    found = [
        {
            "image_id": index,
            "boxes": image["scores"].new_zeros(len(image["scores"]), 4).double().numpy(),
            "scores": image["scores"].double().numpy(),
            "labels": image["labels"].numpy(),
            "rles": image["masks"],
        }
        for index, image in enumerate(preds)
    ]
    evaluator = module.Evaluator(iou=module.Boundary(), parity_mode="strict")

    def run() -> None:
        truths.clear_cache()  # the cache contains the boundaries
        evaluator.evaluate(truths, found, num_threads=torch.get_num_threads())

    return run
