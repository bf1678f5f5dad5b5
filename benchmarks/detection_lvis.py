"""LVIS: scenes of 1,203 categories, and the peers on them."""

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
from benchmarks.detection_shapes import outlined
from benchmarks.timing import Timed, head, row
from torch_ap.detection import LVISMeanAveragePrecision
from torch_ap.detection.rules.lvis import Frequency
from torch_ap.functional import lvis_mean_average_precision

CLASSES, MOST, BATCH = 1203, 300, 50
_NEGATIVE = 9  # ids per image, as in LVIS's own examples
_NOT_EXHAUSTIVE = 0.05  # of the categories that an image shows
_LISTS = ("neg_category_ids", "not_exhaustive_category_ids")

Packed = dict[str, Tensor]
Lists = Sequence[Mapping[str, Any]]
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


def outlined_scenes(images: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The same with masks, as run-length codes, in lists."""
    preds, target = scenes(images)
    named = {key: torch.split(target.pop(key), target.pop(f"{key}_counts").tolist()) for key in _LISTS}
    sides = outlined(Scenes(preds, target))
    for place, image in enumerate(sides[1]):
        image |= {key: each[place] for key, each in named.items()}
    return sides


def as_annotations(
    preds: Packed, target: Packed, codes: Sequence[Sequence[Any]] = ()
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The images as LVIS's dicts; with masks of detections and of ground truths in place of boxes, if given."""
    sides = []
    for place, side in enumerate((preds, target)):
        image = torch.repeat_interleave(torch.arange(len(side["counts"])), side["counts"])
        columns = {"image_id": image, "category_id": side["labels"], "bbox": side["boxes"].double()}
        columns |= {new: side[old] for new, old in (("score", "scores"), ("area", "area")) if old in side}
        values = {name: column.tolist() for name, column in columns.items()}
        if codes:
            del values["bbox"]
            values["segmentation"] = [{**one, "counts": one["counts"].decode()} for one in codes[place]]
        sides.append([dict(zip(values, entry, strict=True)) for entry in zip(*values.values(), strict=True)])
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


def updated(preds: Lists, target: Lists) -> LVISMeanAveragePrecision:
    """The metric after updates of masks of 50 images each."""
    metric = LVISMeanAveragePrecision(iou_type="segm", frequencies=FREQUENCIES)
    for first in range(0, len(preds), BATCH):
        metric.update(preds[first : first + BATCH], target[first : first + BATCH])
    return metric


def hotcoco(truth: dict[str, Any], found: list[dict[str, Any]], kind: str) -> Callable[[], None]:
    """On the same images, loaded and cut to 300 detections each beforehand."""
    module = import_module("hotcoco")
    data = module.LVIS(truth)
    results = module.LVISResults(data, found)

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            module.LVISEval(data, results, kind).run()

    return run


def lvis(truth: dict[str, Any], found: list[dict[str, Any]], kind: str) -> Callable[[], None]:
    """LVIS's own package, which reads its results meanwhile."""
    return partial(import_module("tests.support.oracles_lvis").lvis_eval, truth, found, kind)


def table(sizes: list[int], timed: Timed) -> None:
    """Seconds from loaded images to numbers, against the peers that are installed.

    Masks of a fifth of the fewest images; lvis, which keeps gigabytes, not of more than the fewest.
    """
    peers: dict[str, Callable[..., Callable[[], None]]] = {"hotcoco": hotcoco, "lvis": lvis}
    names = [name for name in peers if find_spec(name)]
    print("\n### LVIS of 1,203 classes in memory to the numbers\n\n" + head("images", names))
    for images in sizes:
        packed = scenes(images)
        files = as_annotations(*packed)
        theirs = {name: peers[name](*files, "bbox") for name in names if name != "lvis" or images == sizes[0]}
        print(row(f"{images:,}, boxes", timed({"torch_ap": partial(ours, *packed), **theirs}), names), flush=True)
    few = sizes[0] // 5
    lists = outlined_scenes(few)
    codes = [[one for image in side for one in image["masks"]] for side in lists]
    files = as_annotations(*scenes(few), codes)
    metric = updated(*lists)

    def compute() -> None:
        metric._computed = None
        metric.metric_state["image_sizes"][0].add_(0)  # matches are not kept
        metric.compute()

    theirs = {name: peers[name](*files, "segm") for name in names}
    seconds = timed({"torch_ap": compute, "all": lambda: updated(*lists).compute(), **theirs})
    print(row(f"{few:,}, {sum(map(len, codes)):,} masks", seconds, names))
    print(row("the same, with updates", seconds | {"torch_ap": seconds["all"]}, names), flush=True)
