"""COCO's mean average precision: CPU seconds, peak memory and sync against the peers.

    python -m benchmarks.detection

prints Markdown tables; a peer's figure is its CPU time, memory or sync time as a multiple of ours, in the same run.
Each contender starts from the input that it takes without conversion: arrays here, dicts of annotations for pycocotools
and faster-coco-eval (loading them is not counted), lists of dicts for the two metrics.
"""

import contextlib
import importlib
import io
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from benchmarks import detection_errors, detection_lvis, detection_shapes
from benchmarks.detection_scenes import Scenes, dense, like_coco
from benchmarks.timing import by_turns, head, machine, once, parser, peak, row
from torch_ap.detection import MeanAveragePrecision
from torch_ap.functional.detection import coco_mean_average_precision

PEERS = ["faster-coco-eval", "pycocotools"]
METRICS = ["torchmetrics, faster-coco-eval", "torchmetrics, pycocotools"]
BATCH = 50


def ours(scenes: Scenes, limits: list[int] | None = None, *, class_metrics: bool = False) -> None:
    """The function on packed images."""
    coco_mean_average_precision(
        scenes.preds, scenes.target, "xywh", max_detection_thresholds=limits, class_metrics=class_metrics
    )


def peer(name: str, scenes: Scenes, limits: list[int] | None = None) -> Callable[[], None]:
    """pycocotools or faster-coco-eval on the same images, loaded beforehand."""
    if name == "pycocotools":
        make = importlib.import_module("pycocotools.coco").COCO
        evaluate = importlib.import_module("pycocotools.cocoeval").COCOeval
    else:
        package = importlib.import_module("faster_coco_eval")
        make, evaluate = package.COCO, package.COCOeval_faster
    truths, found = as_annotations(scenes)
    with contextlib.redirect_stdout(io.StringIO()):
        truth = make()
        truth.dataset = truths
        truth.createIndex()
        results = truth.loadRes(found)

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            settings = evaluate(truth, results, "bbox")
            if limits is not None:
                settings.params.maxDets = limits
            settings.evaluate()
            settings.accumulate()
            if limits is None:  # its summary knows only one set of limits
                settings.summarize()

    return run


def as_annotations(scenes: Scenes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The images as COCO's dicts."""
    lists = []
    for side in (scenes.preds, scenes.target):
        image = torch.repeat_interleave(torch.arange(len(side["counts"])), side["counts"])
        columns = {"image_id": image, "category_id": side["labels"], "bbox": side["boxes"].double()}
        columns |= {
            new: side[old]
            for new, old in (("score", "scores"), ("area", "area"), ("iscrowd", "iscrowd"))
            if old in side
        }
        values = [column.tolist() for column in columns.values()]
        lists.append([dict(zip(columns, entry, strict=True)) for entry in zip(*values, strict=True)])
    labels = sorted({*scenes.preds["labels"].tolist(), *scenes.target["labels"].tolist()})
    truths = [{**entry, "id": place + 1} for place, entry in enumerate(lists[1])]
    images = [{"id": i, "width": 640, "height": 480} for i in range(len(scenes.target["counts"]))]
    categories = [{"id": label, "name": str(label)} for label in labels]
    return {"images": images, "annotations": truths, "categories": categories, "info": {}}, lists[0]


def torchmetrics_map(backend: Any) -> Any:
    """Torchmetrics' metric; None where it does not run on this machine."""
    try:
        from torchmetrics.detection import MeanAveragePrecision as Theirs

        return Theirs("xywh", backend=backend)
    except Exception as reason:  # it needs a torchvision built for this torch
        print(f"torchmetrics left out: {str(reason).splitlines()[0]}")
        return None


def epoch(metric: Any, scenes: Scenes) -> Callable[[], None]:
    """Updates of 50 images each, and compute."""
    preds, target = scenes.lists()

    def run() -> None:
        metric.reset()
        for first in range(0, len(preds), BATCH):
            metric.update(preds[first : first + BATCH], target[first : first + BATCH])
        metric.compute()

    return run


def functions(sets: Sequence[tuple[str, Scenes, list[int] | None]], rounds: int, endless: Sequence[str]) -> None:
    """CPU seconds from loaded images to numbers; pycocotools runs once, and not where it would take an hour."""
    names = [*PEERS, "ours with class_metrics"]
    print("\n### From images in memory to the numbers, CPU seconds\n\n" + head("images", names))
    for what, scenes, limits in sets:
        contenders: dict[str, Callable[[], Any]] = {
            "torch_ap": partial(ours, scenes, limits),
            names[2]: partial(ours, scenes, limits, class_metrics=True),
            names[0]: peer(names[0], scenes, limits),
        }
        seconds = by_turns(contenders, rounds, clock=time.process_time)
        if what not in endless:
            seconds |= once({names[1]: peer(names[1], scenes, limits)}, clock=time.process_time)
        print(row(what, seconds, names), flush=True)


def metrics(sets: Sequence[tuple[str, Scenes]]) -> None:
    """CPU seconds of an epoch of updates and compute."""
    print("\n### An epoch of updates of 50 images, and compute, CPU seconds\n\n" + head("images", METRICS))
    for what, scenes in sets:
        contenders = {"torch_ap": epoch(MeanAveragePrecision("xywh"), scenes)}
        for name, backend in zip(METRICS, ("faster_coco_eval", "pycocotools"), strict=True):
            theirs = torchmetrics_map(backend)
            if theirs is not None:
                contenders[name] = epoch(theirs, scenes)
        contenders["torch_ap"]()
        print(row(what, once(contenders, clock=time.process_time), METRICS), flush=True)


def memory(images: int) -> None:
    """Peak memory beyond that of the images, each contender in a process of its own."""
    print(f"\n### Peak memory on {images:,} images, MB\n\n| | MB | multiple of ours |\n|---|---|---|")
    context = multiprocessing.get_context("spawn")
    base = 0.0
    for name in ("torch_ap", *PEERS, *METRICS):
        with context.Pool(1) as pool:
            used = pool.apply(_peak, (name, images))
        base = base or used
        print(f"| {name} | {used:.0f} | {used / base:.3g} |" if used else f"| {name} | | |", flush=True)


def _peak(name: str, images: int) -> float:
    """Highest resident memory of a run beyond that before it, in MB."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    scenes = like_coco(images)
    if name == "torch_ap":
        run: Callable[[], None] = partial(ours, scenes)
        ours(like_coco(10))  # loads what any first call loads
    elif name in PEERS:
        run = peer(name, scenes)
    else:
        theirs = torchmetrics_map(name.split(", ")[1].replace("-", "_"))
        if theirs is None:
            return 0.0
        run = epoch(theirs, scenes)
    return peak(run)


def sync(images: int) -> None:
    """Seconds of a sync of two ranks with ``images`` images each."""
    print(f"\n### Sync of {images} images on each of 2 ranks\n\n" + head("ranks", ["torchmetrics"]))
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        queue = context.SimpleQueue()
        ranks = [context.Process(target=_sync, args=(rank, images, folder, queue)) for rank in range(2)]
        for process in ranks:
            process.start()
        seconds = queue.get()
        for process in ranks:
            process.join()
    print(row("gloo, 2 ranks", seconds, ["torchmetrics"]))


def _sync(rank: int, images: int, folder: str, queue: Any) -> None:
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    preds, target = like_coco(2 * images).lists(rank * images, (rank + 1) * images)
    seconds = {}
    for name, metric in (("torch_ap", MeanAveragePrecision("xywh")), ("torchmetrics", torchmetrics_map("pycocotools"))):
        if metric is None:
            continue
        for part in range(0, images, BATCH):
            metric.update(preds[part : part + BATCH], target[part : part + BATCH])
        times = []
        for _ in range(3 if name == "torch_ap" else 1):
            dist.barrier()
            start = time.perf_counter()
            metric.sync()
            times.append(time.perf_counter() - start)
            metric.unsync()
        seconds[name] = min(times)
    if rank == 0:
        queue.put(seconds)
    dist.destroy_process_group()


def main() -> None:
    """Print all tables."""
    options = parser(__doc__ or "").parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # the peers use one thread, and CPU seconds are counted
    print(machine("torch", "torchmetrics", "pycocotools", "faster-coco-eval", "numpy"))
    small = [("50", like_coco(50), None), ("500", like_coco(500), None)]
    large = [
        ("5,000", like_coco(), None),
        ("1,203 classes, 1,000", like_coco(1000, 1203), None),
        ("dense, 200 with 1,000 of one class", dense(), [1, 10, 1000]),
    ]
    sets = small if options.quick else small + large
    functions(sets, options.rounds, [large[2][0]])
    detection_shapes.table([50] if options.quick else [500, 2000], options.rounds)
    detection_errors.table([50] if options.quick else [500, 5000], options.rounds, as_annotations)
    detection_lvis.table([50] if options.quick else [500, 5000], options.rounds)
    metrics([(what, scenes) for what, scenes, _ in (small[:1] if options.quick else sets[:3])])
    memory(50 if options.quick else 5000)
    sync(20 if options.quick else 300)


if __name__ == "__main__":
    main()
