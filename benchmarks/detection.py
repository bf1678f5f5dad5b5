"""COCO's mean average precision: time, peak memory and sync against the peers.

    python -m benchmarks.detection [--parts boxes lvis] [--threads 1]

prints Markdown tables; a peer's figure is its time, memory or sync time as a multiple of ours, in the same run.
Each contender starts from the input that it takes without conversion: arrays here, loaded files for the evaluators
(loading them is not counted), lists of dicts for the metrics. Times are processor time of one thread, then some parts
by the clock on two threads, which needs a machine that nobody else uses.

The time of the whole is bounded: what takes more than 5 seconds runs once, and no part begins after so many minutes as
are given. Each part says in the end how long it took.
"""

import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from benchmarks import (
    detection_cuts,
    detection_errors,
    detection_lvis,
    detection_peers,
    detection_shapes,
    detection_slices,
    detection_weak,
)
from benchmarks.detection_scenes import Scenes, around_one_place, dense, like_coco
from benchmarks.timing import Timed, by_turns, head, machine, parser, peak, row
from torch_ap.detection import MeanAveragePrecision
from torch_ap.detection.functions import coco_mean_average_precision

METRICS = ["torchmetrics, faster-coco-eval", "torchmetrics, pycocotools"]
THREADED = ("boxes", "density", "shapes", "lvis")
PARTS = (*THREADED, "updates", "cuts", "errors", "slices", "weak", "memory", "sync")
DENSE = "dense, 200 with 1,000 of one class"
PATIENCE = 5.0  # seconds: what takes longer the first time runs once
BATCH = 50


def ours(scenes: Scenes, limits: list[int] | None = None, *, class_metrics: bool = False) -> None:
    """The function on packed images."""
    coco_mean_average_precision(
        scenes.preds, scenes.target, "xywh", max_detection_thresholds=limits, class_metrics=class_metrics
    )


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


def functions(sets: Sequence[tuple[str, Scenes, list[int] | None]], timed: Timed, endless: Sequence[str]) -> None:
    """Seconds from loaded images to numbers; pycocotools not where it would take an hour."""
    peers = detection_peers.installed()
    names = ["metric, with updates", "with class_metrics", *peers]
    print("\n### From images in memory to the numbers\n\n" + head("images", names))
    for what, scenes, limits in sets:
        contenders: dict[str, Callable[[], Any]] = {
            "torch_ap": partial(ours, scenes, limits),
            names[0]: epoch(MeanAveragePrecision("xywh", max_detection_thresholds=limits), scenes),
            names[1]: partial(ours, scenes, limits, class_metrics=True),
        }
        files = detection_peers.of_boxes(scenes)
        contenders |= {
            name: detection_peers.peer(name, *files, "bbox", limits)
            for name in peers
            if name != "pycocotools" or what not in endless
        }
        print(row(what, timed(contenders), names), flush=True)


def metrics(sets: Sequence[tuple[str, Scenes]], timed: Timed) -> None:
    """Seconds of an epoch of updates and compute."""
    print("\n### An epoch of updates of 50 images, and compute\n\n" + head("images", METRICS))
    for what, scenes in sets:
        contenders = {"torch_ap": epoch(MeanAveragePrecision("xywh"), scenes)}
        for name, backend in zip(METRICS, ("faster_coco_eval", "pycocotools"), strict=True):
            theirs = torchmetrics_map(backend)
            if theirs is not None:
                contenders[name] = epoch(theirs, scenes)
        print(row(what, timed(contenders), METRICS), flush=True)


def memory(images: int) -> None:
    """Peak memory beyond that of the images, each contender in a process of its own."""
    print(f"\n### Peak memory on {images:,} images, MB\n\n| | MB | multiple of ours |\n|---|---|---|")
    context = multiprocessing.get_context("spawn")
    base = 0.0
    for name in ("torch_ap", *detection_peers.installed(), *METRICS):
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
    elif name in detection_peers.PEERS:
        run = detection_peers.peer(name, *detection_peers.of_boxes(scenes), "bbox")
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


def _boxes(quick: bool) -> list[tuple[str, Scenes, list[int] | None]]:
    small: list[tuple[str, Scenes, list[int] | None]] = [(str(x), like_coco(x), None) for x in (50, 500)]
    if quick:
        return small
    return [
        *small,
        ("5,000", like_coco(), None),
        ("1,203 classes, 1,000", like_coco(1000, 1203), None),
        (DENSE, dense(), [1, 10, 1000]),
    ]


def _density(quick: bool) -> list[tuple[str, Scenes, list[int] | None]]:
    """Boxes around one place, from equal ones to such that mostly do not reach the lowest IoU threshold."""
    if quick:
        return [("1 of 20 x 30", around_one_place(1, 20, 30, 5), None)]
    limits = [1, 10, 3000]
    sets: list[tuple[int, int, int, int, list[int] | None]] = [
        (1, 100, 300, 5, None),
        (1, 100, 3000, 5, None),
        *((300, 100, 100, x, None) for x in (5, 20, 60)),
    ]
    sets += [(1, 3000, 1000, x, limits) for x in (0, 5, 20, 60)]
    return [
        (f"{images} of {found:,} x {true:,}, spread {x}", around_one_place(images, found, true, x), most)
        for images, found, true, x, most in sets
    ]


def tables(parts: Sequence[str], threads: int, rounds: int, quick: bool, end: float) -> None:
    """Print the tables of some parts; by the clock where there are several threads, and none later than ``end``."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    timed = partial(by_turns, rounds=rounds, clock=clock, most=PATIENCE, warmed=True)
    sizes = [50] if quick else [500, 5000]
    crowded = _density(quick) if "density" in parts else []
    every: dict[str, Callable[[], None]] = {
        "boxes": lambda: functions(_boxes(quick), timed, [DENSE]),
        "density": lambda: functions(crowded, timed, [what for what, *_ in crowded]),
        "shapes": lambda: detection_shapes.table([50] if quick else [500, 2000], timed),
        "lvis": lambda: detection_lvis.table(sizes, timed),
        "updates": lambda: metrics([(what, scenes) for what, scenes, _ in _boxes(True)][: 1 if quick else 2], timed),
        "cuts": lambda: detection_cuts.table(sizes, rounds),
        "errors": lambda: detection_errors.table(sizes if quick else [50, *sizes], rounds, detection_peers.of_boxes),
        "slices": lambda: detection_slices.tables(*((50, 10) if quick else (5000, 300)), rounds),
        "weak": lambda: detection_weak.table([20, 100] if quick else [20, 100, 1000, 5000], rounds),
        "memory": lambda: memory(50 if quick else 5000),
        "sync": lambda: sync(20 if quick else 300),
    }
    print(f"\n## {'Processor time of one thread' if threads == 1 else f'Time by the clock, {threads} threads'}\n")
    print(machine("torch", "torchmetrics", "numpy", *detection_peers.installed()), flush=True)
    for part in every if threads == 1 else THREADED:
        start = time.time()
        if part in parts and start < end:
            every[part]()
            print(f"\n({part}: {time.time() - start:.0f} s with all that was made for it)", flush=True)
        elif part in parts:
            print(f"\n({part}: left out, as the time is over)", flush=True)


def main() -> None:
    """Print all tables, those of each number of threads from a process of its own."""
    known = parser(__doc__ or "")
    known.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads (default 1 2)")
    known.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="some of the tables (default all)")
    known.add_argument("--minutes", type=float, default=60, help="after which no part begins (default 60)")
    options = known.parse_args()
    context, end = multiprocessing.get_context("spawn"), time.time() + 60 * options.minutes
    for threads in options.threads:
        os.environ |= {"RAYON_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}  # read when they start
        process = context.Process(target=tables, args=(options.parts, threads, options.rounds, options.quick, end))
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(process.exitcode)


if __name__ == "__main__":
    main()
