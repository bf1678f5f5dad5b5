"""LVIS: scenes of 1,203 categories, and the peers on them."""

import contextlib
import io
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.detection_scenes import like_coco
from benchmarks.timing import by_turns, head, row
from torch_ap.functional import lvis_mean_average_precision
from torch_ap.matching.lvis import Frequency

CLASSES, MOST = 1203, 300
_NEGATIVE = 9  # ids per image, as in LVIS's own examples
_NOT_EXHAUSTIVE = 0.05  # of the categories that an image shows
_LISTS = ("neg_category_ids", "not_exhaustive_category_ids")

Packed = dict[str, Tensor]
FREQUENCIES: dict[int, Frequency] = {label: "fcr"[min(2, label // 400)] for label in range(CLASSES)}  # type: ignore[misc]


def scenes(images: int) -> tuple[Packed, Packed]:
    """Images of 300 detections, which list the categories that were looked for in them."""
    found = like_coco(images, CLASSES, most=MOST, wrong=MOST)
    preds, target, r = dict(found.preds), dict(found.target), np.random.default_rng(0)
    del target["iscrowd"]
    shown = [set(x.tolist()) for x in torch.split(target["labels"], target["counts"].tolist())]
    lists = {
        _LISTS[0]: [sorted({*r.integers(0, CLASSES, _NEGATIVE).tolist()} - x) for x in shown],
        _LISTS[1]: [[one for one in sorted(x) if r.random() < _NOT_EXHAUSTIVE] for x in shown],
    }
    for key, every in lists.items():
        target[key] = torch.tensor([one for ids in every for one in ids])
        target[f"{key}_counts"] = torch.tensor([len(ids) for ids in every])
    return preds, target


def as_annotations(preds: Packed, target: Packed) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The images as LVIS's dicts."""
    sides = []
    for side in (preds, target):
        image = torch.repeat_interleave(torch.arange(len(side["counts"])), side["counts"])
        columns = {"image_id": image, "category_id": side["labels"], "bbox": side["boxes"].double()}
        columns |= {new: side[old] for new, old in (("score", "scores"), ("area", "area")) if old in side}
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        sides.append([dict(zip(columns, entry, strict=True)) for entry in rows])
    ids = {key: [x.tolist() for x in torch.split(target[key], target[f"{key}_counts"].tolist())] for key in _LISTS}
    images = [
        {"id": i, "width": 640, "height": 480, **{key: ids[key][i] for key in _LISTS}}
        for i in range(len(target["counts"]))
    ]
    truths = [{**entry, "id": place + 1, "iscrowd": 0} for place, entry in enumerate(sides[1])]
    categories = [{"id": x, "name": str(x), "frequency": one} for x, one in FREQUENCIES.items()]
    return {"images": images, "annotations": truths, "categories": categories, "info": {}}, sides[0]


def ours(preds: Packed, target: Packed) -> dict[str, Any]:
    """The function on packed images."""
    return lvis_mean_average_precision(preds, target, "xywh", frequencies=FREQUENCIES)


def hotcoco(truth: dict[str, Any], found: list[dict[str, Any]]) -> Callable[[], None]:
    """On the same images, loaded and cut to 300 detections each beforehand."""
    module = import_module("hotcoco")
    data = module.LVIS(truth)
    results = module.LVISResults(data, found)

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            module.LVISEval(data, results, "bbox").run()

    return run


def table(sizes: list[int], rounds: int) -> None:
    """CPU seconds from loaded images to numbers, against hotcoco, where it is installed."""
    names = ["hotcoco"] if find_spec("hotcoco") else []
    print("\n### LVIS's boxes of 1,203 classes in memory to the numbers, CPU seconds\n\n" + head("images", names))
    for images in sizes:
        packed = scenes(images)
        contenders: dict[str, Callable[[], Any]] = {"torch_ap": partial(ours, *packed)}
        contenders |= {name: hotcoco(*as_annotations(*packed)) for name in names}
        print(row(f"{images:,}", by_turns(contenders, rounds, time.process_time), names), flush=True)
