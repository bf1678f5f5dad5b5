"""Images with few boxes, one image at a time, and the command ``torch-ap coco``, compared with hotcoco."""

import contextlib
import importlib
import io
import json
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from benchmarks.detection_peers import box_annotations, mask_annotations
from benchmarks.detection_scenes import Scenes, like_coco
from benchmarks.detection_shapes import Lists, mask_images
from benchmarks.detection_weak import displaced, weak
from benchmarks.timing import Timer, print_head, print_peer_head, print_peer_row, print_row
from torch_ap.detection import MeanAveragePrecision
from torch_ap.detection.curves import coco_counts
from torch_ap.detection.functions import coco_mean_average_precision

BATCH = 50
NAMES = ["function", "bare reads", "hotcoco", "hotcoco, from dicts"]
SIDE = 4096  # pixels of large masks
_SCRIPTS = {
    "import torch": "import torch",
    "torch-ap coco": """
        import sys
        from torch_ap.cli.main import main
        main(["coco", *sys.argv[1:]])
    """,
    "hotcoco": """
        import sys
        import hotcoco
        truths = hotcoco.COCO(sys.argv[1])
        evaluation = hotcoco.COCOeval(truths, truths.load_res(sys.argv[2]), "bbox")
        evaluation.run()
    """,
}
_REPORT = """
import os, pathlib, sys
status = pathlib.Path("/proc/self/status")  # only Linux has this file
lines = status.read_text().splitlines() if status.exists() else ["VmHWM: nan"]
memory = next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
print(sum(os.times()[:2]), memory, file=sys.stderr)
"""


def few_boxes(images: int, detections: float, truths: float) -> Scenes:
    """Return images with few boxes; a number below 1 is the share of images with one box."""
    generator = torch.Generator().manual_seed(0)

    def side(number: float) -> dict[str, torch.Tensor]:
        share = torch.rand(images, generator=generator) < number
        counts = share.long() if number < 1 else torch.full((images,), int(number))
        size = 20 + 40 * torch.rand(int(counts.sum()), 2, generator=generator)
        boxes = torch.cat([200 * torch.rand(size.shape, generator=generator), size], 1)
        labels = torch.randint(0, 5, (len(boxes),), generator=generator)
        return {"boxes": boxes, "labels": labels, "counts": counts}

    preds, target = side(detections), side(truths)
    preds["scores"] = torch.rand(len(preds["labels"]), generator=generator)
    target |= {"area": target["boxes"][:, 2:].prod(1), "iscrowd": torch.zeros_like(target["labels"])}
    return Scenes(preds, target)


class BareReads(Metric):
    """Reads of all tensors and means of tables in a class of torchmetrics, which no metric of Python can leave out."""

    columns: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.add_state("columns", [], dist_reduce_fx="cat")

    def update(self, preds: Lists, target: Lists) -> None:
        """Read types, sizes and dtypes, and concatenate."""
        for images in (preds, target):
            for key in images[0]:
                values = [image[key] for image in images]
                if {Tensor} == set(map(type, values)) and len(set(map(attrgetter("dtype"), values))) == 1:
                    list(map(Tensor.numel, values))
                    self.columns.append(torch.cat(values))

    def compute(self) -> dict[int, Tensor]:
        """Return as many means as the metric, of 10 thresholds, 101 recall levels, 5 classes and 4 area ranges."""
        precision = np.zeros((10, 4, 5)).repeat(101).reshape(10, 4, 5, 101)
        recall = np.zeros((10, 4, 5))
        means = [np.add.reduce(x[:, area].reshape(-1)) for x in (precision, recall) for area in (0, 0, 0, 1, 2, 3)]
        return dict(enumerate(torch.from_numpy(np.array(means)).unbind()))


def _updates(metric: Any, preds: Lists, target: Lists) -> Callable[[], Any]:
    """Return an epoch of updates with 50 images, and compute."""

    def run() -> None:
        metric.reset()
        for first in range(0, len(preds), BATCH):
            metric.update(preds[first : first + BATCH], target[first : first + BATCH])
        metric.compute()

    return run


def _box_contenders(scenes: Scenes) -> dict[str, Callable[[], Any]]:
    """Return updates with lists of dicts without areas and crowds, and the function of packed images."""
    plain = {key: column for key, column in scenes.target.items() if key not in ("area", "iscrowd")}
    lists = Scenes(scenes.preds, plain).lists()
    metric = MeanAveragePrecision("xywh")
    metric.warn_on_many_detections = False
    return {
        "torch_ap": _updates(metric, *lists),
        NAMES[0]: partial(coco_mean_average_precision, scenes.preds, scenes.target, "xywh"),
        NAMES[1]: _updates(BareReads(), *lists),
    }


def _hotcoco(data_set: tuple[dict[str, Any], list[dict[str, Any]]], kind: str = "bbox") -> dict[str, Callable[[], Any]]:
    """Return the evaluation of loaded data, and the evaluation with the loading of dicts."""
    package = importlib.import_module("hotcoco")
    truths, found = data_set

    def load() -> tuple[Any, Any]:
        data = package.COCO(truths)
        return data, data.load_res(found)

    def evaluate(data: tuple[Any, Any]) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            package.COCOeval(*data, kind).run()

    loaded = load()
    return {NAMES[2]: lambda: evaluate(loaded), NAMES[3]: lambda: evaluate(load())}


def print_table(timer: Timer, timer_of_short: Timer, *, quick: bool) -> None:
    """Print the time of updates with lists of dicts and compute, of the function of packed images, and of hotcoco.

    Args:
        timer: for many images.
        timer_of_short: for a few images; it times several calls together.
        quick: whether to use small sizes.
    """
    names = NAMES if find_spec("hotcoco") else NAMES[:2]
    print_peer_head("Few boxes: updates and compute", "images", names)
    many = 100 if quick else 100_000
    sets = {
        "1, with 5 detections and 2 ground truths": few_boxes(1, 5, 2),
        "1 like COCO's": like_coco(1, seed=3),
        "1 like COCO's, weak detector": displaced(like_coco(1, seed=3)),
        "16 like COCO's": like_coco(16, seed=1),
        f"{many // 20:,}, a tenth of them with a detection": few_boxes(many // 20, 0.1, 1),
        f"{many // 10:,} with one box": few_boxes(many // 10, 1, 1),
        f"{many:,} with one box": few_boxes(many, 1, 1),
    }
    for what, scenes in sets.items():
        contenders = _box_contenders(scenes)
        contenders |= _hotcoco(box_annotations(scenes)) if len(names) > 2 else {}
        chosen = timer if len(scenes.preds["counts"]) > BATCH else timer_of_short
        print_peer_row(what, chosen(contenders), names)
    if find_spec("pycocotools"):
        _print_masks(timer_of_short, names)


def _bare_masks(texts: list[bytes]) -> Any:
    """Pass as often over the texts of masks as any decoding and intersection in NumPy, without validation.

    The passes find the ends of numbers, join their characters, sum differences to runs and runs to edges, merge as many
    numbers as there are edges, sum the open runs, and sum the pixels of the runs.
    """
    chars = np.frombuffer(b"".join(texts), np.uint8)
    ends = np.flatnonzero(chars < 80)
    edges = np.add.reduceat(chars & 31, ends, dtype=np.int32).cumsum(dtype=np.int32).cumsum(dtype=np.int32)
    numbers = np.arange(len(edges), dtype=np.int32)
    merged = np.concatenate([numbers[::2], numbers[1::2]])
    merged.sort(kind="stable")
    open_runs = np.flatnonzero((1 - 2 * (merged & 1)).cumsum(dtype=np.int8) == 1)
    return np.add.reduce(merged[open_runs]), np.add.reduce(np.diff(edges))


def _print_masks(timer: Timer, names: list[str]) -> None:
    """Print the row of one image with 16 large masks, from run-length codes."""
    scenes = few_boxes(1, 8, 8)
    for side in (scenes.preds, scenes.target):
        side["boxes"] = (side["boxes"] * SIDE / 260).double()
    preds, target = mask_images(scenes, SIDE, SIDE)
    contenders: dict[str, Callable[[], Any]] = {
        "torch_ap": _updates(MeanAveragePrecision(iou_type="segm"), preds, target),
        NAMES[0]: partial(coco_mean_average_precision, preds, target, iou_type="segm"),
        NAMES[1]: partial(_bare_masks, [mask["counts"] for side in (preds, target) for mask in side[0]["masks"]]),
    }
    if len(names) > 2:
        contenders |= _hotcoco(mask_annotations(preds, target), "segm")
    print_peer_row(f"1 with 16 masks of {SIDE:,} by {SIDE:,} pixels", timer(contenders), names)


def print_batches(timer: Timer) -> None:
    """Print the time of precision, recall and F1 of 16 images with 100 detections, by the metric and by a peer."""
    peer = "ultrafast-pycocotools" if find_spec("ultrafast_pycocotools") else None
    names = ["the metric", *([peer] if peer else [])]
    print_peer_head("Precision, recall and F1 of 16 images with 100 detections", "classes", names)
    for classes in (5, 80):
        scenes = few_boxes(16, 100, 4)
        for side in (scenes.preds, scenes.target):
            side["labels"] = side["labels"] * (classes // 5) + torch.arange(len(side["labels"])) % (classes // 5)
        preds, target = scenes.lists()
        contenders: dict[str, Callable[[], Any]] = {
            "torch_ap": partial(_batch_f1, preds, target),
            names[0]: partial(_metric_f1, preds, target),
        }
        if peer:
            evaluator = importlib.import_module("ultrafast_pycocotools.metrics").DetectionMetrics
            options = {"iou_thrs": 0.5, "score_thr": 0.25, "box_format": "xywh", "max_dets": 100}
            contenders[peer] = lambda: evaluator(**options).update(preds, target)  # noqa: B023
        print_peer_row(str(classes), timer(contenders), names)


def _batch_f1(preds: Any, target: Any) -> list[float]:
    counts = coco_counts(preds, target, "xywh")
    return [float(x) for x in (counts.precision, counts.recall, counts.f_beta())]


def _metric_f1(preds: Any, target: Any) -> list[float]:
    metric = MeanAveragePrecision("xywh", iou_thresholds=[0.5])
    metric.update(preds, target)
    points = metric.operating_points(score_threshold=0.25, per_class=False)
    return [float(x) for x in (points.precision, points.recall, points.f_beta)]


def print_command(images: int, rounds: int) -> None:
    """Print processor time and peak memory of the command on the results of a weak detector, in new processes."""
    truths, found = box_annotations(weak(like_coco(images, most=60, wrong=48)))
    title = f"Files of {images:,} images with {len(found):,} detections, low mAP"
    print_head(title, "", "processor time, s", "beyond importing torch, s", "memory, MB")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("truths.json", "found.json")]
        for path, content in zip(paths, (truths, found), strict=True):
            path.write_text(json.dumps(content))
        base = 0.0
        for name, script in _SCRIPTS.items():
            if name == "hotcoco" and not find_spec(name):
                continue
            runs = [_run(textwrap.dedent(script), paths) for _ in range(rounds + 1)]
            seconds, memory = (min(x) for x in zip(*runs, strict=True))
            base = base or seconds
            beyond = seconds if name == "hotcoco" else seconds - base
            print_row(name, f"{seconds:.2f}", f"{beyond:.2f}", f"{memory:.0f}")


def _run(script: str, paths: list[Path]) -> tuple[float, float]:
    """Return the processor time of a script in seconds, and its peak memory in MB."""
    command = [sys.executable, "-c", f"{script}\n{_REPORT}", *map(str, paths)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, memory = done.stderr.split()[-2:]
    return float(seconds), float(memory)
