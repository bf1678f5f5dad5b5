"""COCO's mean average precision: time, peak memory and synchronization, compared with other packages.

    python -m benchmarks.detection [--parts boxes lvis] [--threads 1]

The Markdown tables show the time or memory of a peer as a multiple of torch_ap, in the same run. Each contender starts
from the input that it needs no conversion for: arrays for torch_ap, loaded files for the evaluators (without the time
for loading), lists of dicts for the metrics. First all parts measure the processor time of one thread. Then some parts
measure the wall time of two threads, which requires an idle machine.

The total time is limited. A contender that takes more than 5 seconds runs once, and no part starts after ``--minutes``.
Each part prints its duration.
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
    detection_small,
    detection_weak,
)
from benchmarks.detection_scenes import Scenes, clustered, dense, like_coco
from benchmarks.timing import (
    Timer,
    machine,
    parser,
    peak_memory,
    print_head,
    print_peer_head,
    print_peer_row,
    print_row,
    time_in_turns,
)
from torch_ap.detection import MeanAveragePrecision
from torch_ap.detection.functions import coco_mean_average_precision

METRICS = ["torchmetrics, faster-coco-eval", "torchmetrics, pycocotools"]
THREADED = ("boxes", "density", "shapes", "lvis")
PARTS = (
    *THREADED,
    "evaluators",
    "updates",
    "cuts",
    "errors",
    "slices",
    "weak",
    "few",
    "batch",
    "command",
    "memory",
    "sync",
)
DENSE = "dense, 200 with 1,000 of one class"
LONGEST = 5.0  # seconds; slower contenders run once
BATCH = 50


def ours(scenes: Scenes, limits: list[int] | None = None, *, class_metrics: bool = False) -> None:
    """Compute COCO's numbers of packed images with the function."""
    coco_mean_average_precision(
        scenes.preds, scenes.target, "xywh", max_detection_thresholds=limits, class_metrics=class_metrics
    )


def torchmetrics_map(backend: Any) -> Any:
    """Return the metric of torchmetrics, or None if it does not run on this machine."""
    try:
        from torchmetrics.detection import MeanAveragePrecision as Theirs

        return Theirs("xywh", backend=backend)
    except Exception as reason:  # it requires a torchvision built for this torch
        print(f"torchmetrics left out: {str(reason).splitlines()[0]}")
        return None


def epoch(metric: Any, scenes: Scenes) -> Callable[[], None]:
    """Return a function that updates the metric with batches of 50 images and computes it."""
    preds, target = scenes.lists()

    def run() -> None:
        metric.reset()
        for first in range(0, len(preds), BATCH):
            metric.update(preds[first : first + BATCH], target[first : first + BATCH])
        metric.compute()

    return run


def print_functions(sets: Sequence[tuple[str, Scenes, list[int] | None]], timer: Timer, slow: Sequence[str]) -> None:
    """Print the time from loaded images to numbers. On the sets in ``slow`` pycocotools would take an hour."""
    peers = detection_peers.installed()
    names = ["metric, with updates", "with class_metrics", *peers]
    print_peer_head("From images in memory to the numbers", "images", names)
    for what, scenes, limits in sets:
        contenders: dict[str, Callable[[], Any]] = {
            "torch_ap": partial(ours, scenes, limits),
            names[0]: epoch(MeanAveragePrecision("xywh", max_detection_thresholds=limits), scenes),
            names[1]: partial(ours, scenes, limits, class_metrics=True),
        }
        files = detection_peers.box_annotations(scenes)
        contenders |= {
            name: detection_peers.peer(name, *files, "bbox", limits)
            for name in peers
            if name != "pycocotools" or what not in slow
        }
        print_peer_row(what, timer(contenders), names)


def print_evaluators(sets: Sequence[tuple[str, Scenes]], timer: Timer) -> None:
    """Print the time of each package's own ``COCOeval`` on loaded data: evaluate, accumulate and summarize."""
    names = ["metric, with updates", *detection_peers.installed()]
    print_peer_head("COCOeval of loaded data", "images", names)
    for what, scenes in sets:
        files = detection_peers.box_annotations(scenes)
        contenders = {name: detection_peers.peer(name, *files, "bbox") for name in ("torch_ap", *names[1:])}
        contenders[names[0]] = epoch(MeanAveragePrecision("xywh"), scenes)
        print_peer_row(what, timer(contenders), names)


def print_metrics(sets: Sequence[tuple[str, Scenes]], timer: Timer) -> None:
    """Print the time of an epoch of updates and compute."""
    print_peer_head("An epoch of updates of 50 images, and compute", "images", METRICS)
    for what, scenes in sets:
        contenders = {"torch_ap": epoch(MeanAveragePrecision("xywh"), scenes)}
        for name, backend in zip(METRICS, ("faster_coco_eval", "pycocotools"), strict=True):
            theirs = torchmetrics_map(backend)
            if theirs is not None:
                contenders[name] = epoch(theirs, scenes)
        print_peer_row(what, timer(contenders), METRICS)


def print_memory(images: int) -> None:
    """Print the peak memory in addition to the images. Each contender runs in its own process."""
    print_head(f"Peak memory on {images:,} images, MB", "", "MB", "multiple of torch_ap")
    context = multiprocessing.get_context("spawn")
    base = 0.0
    for name in ("torch_ap", *detection_peers.installed(), *METRICS):
        with context.Pool(1) as pool:
            used = pool.apply(_measure_memory, (name, images))
        base = base or used
        print_row(name, *((f"{used:.0f}", f"{used / base:.3g}") if used else ("", "")))


def _measure_memory(name: str, images: int) -> float:
    """Return the peak memory of one contender in MB."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    scenes = like_coco(images)
    if name == "torch_ap":
        run: Callable[[], None] = partial(ours, scenes)
        ours(like_coco(10))  # excludes the memory of imports
    elif name in detection_peers.PEERS:
        run = detection_peers.peer(name, *detection_peers.box_annotations(scenes), "bbox")
    else:
        theirs = torchmetrics_map(name.split(", ")[1].replace("-", "_"))
        if theirs is None:
            return 0.0
        run = epoch(theirs, scenes)
    return peak_memory(run)


def print_sync(images: int) -> None:
    """Print the time to synchronize two processes with ``images`` images each."""
    print_peer_head(f"Synchronization of {images} images in each of 2 processes", "processes", ["torchmetrics"])
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        queue = context.SimpleQueue()
        ranks = [context.Process(target=_synchronize, args=(rank, images, folder, queue)) for rank in range(2)]
        for process in ranks:
            process.start()
        seconds = queue.get()
        for process in ranks:
            process.join()
    print_peer_row("gloo, 2 processes", seconds, ["torchmetrics"])


def _synchronize(rank: int, images: int, folder: str, queue: Any) -> None:
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
    """Return scenes of boxes around one position, from equal boxes to boxes with mostly low IoU."""
    if quick:
        return [("1 of 20 x 30", clustered(1, 20, 30, 5), None)]
    limits = [1, 10, 3000]
    sets: list[tuple[int, int, int, int, list[int] | None]] = [
        (1, 100, 300, 5, None),
        (1, 100, 3000, 5, None),
        *((300, 100, 100, x, None) for x in (5, 20, 60)),
    ]
    sets += [(1, 3000, 1000, x, limits) for x in (0, 5, 20, 60)]
    return [
        (f"{images} of {found:,} x {true:,}, spread {x}", clustered(images, found, true, x), most)
        for images, found, true, x, most in sets
    ]


def print_tables(parts: Sequence[str], threads: int, rounds: int, quick: bool, end: float) -> None:
    """Print the tables of some parts, with wall time for several threads. No part starts after the time ``end``."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    timer = partial(time_in_turns, rounds=rounds, clock=clock, longest=LONGEST, warm_up=True)
    sizes = [50] if quick else [500, 5000]
    crowded = _density(quick) if "density" in parts else []
    every: dict[str, Callable[[], None]] = {
        "boxes": lambda: print_functions(_boxes(quick), timer, [DENSE]),
        "density": lambda: print_functions(crowded, timer, [what for what, *_ in crowded]),
        "shapes": lambda: detection_shapes.print_tables([50] if quick else [500, 2000], timer),
        "lvis": lambda: detection_lvis.print_table(sizes, timer),
        "evaluators": lambda: print_evaluators([(f"{x:,}", like_coco(x)) for x in (50, *sizes)], timer),
        "updates": lambda: print_metrics([scenes[:2] for scenes in _boxes(True)][: 1 if quick else 2], timer),
        "cuts": lambda: detection_cuts.print_table(sizes, rounds),
        "errors": lambda: detection_errors.print_tables(sizes if quick else [50, *sizes], rounds),
        "slices": lambda: detection_slices.print_tables(*((50, 10) if quick else (5000, 300)), rounds),
        "weak": lambda: detection_weak.print_table([20, 100] if quick else [20, 100, 1000, 5000], rounds),
        "few": lambda: detection_small.print_table(timer, partial(timer, calls=1 if quick else 20), quick=quick),
        "batch": lambda: detection_small.print_batches(partial(timer, calls=1 if quick else 50)),
        "command": lambda: detection_small.print_command(50 if quick else 5000, 1 if quick else rounds),
        "memory": lambda: print_memory(50 if quick else 5000),
        "sync": lambda: print_sync(20 if quick else 300),
    }
    print(f"\n## {'Processor time of one thread' if threads == 1 else f'Wall time of {threads} threads'}\n")
    print(machine("torch", "torchmetrics", "numpy", *detection_peers.installed()), flush=True)
    for part in every if threads == 1 else THREADED:
        start = time.time()
        if part in parts and start < end:
            every[part]()
            print(f"\n({part}: {time.time() - start:.0f} s including the preparation)", flush=True)
        elif part in parts:
            print(f"\n({part}: left out, because the time is over)", flush=True)


def main() -> None:
    """Print all tables, for each number of threads in a separate process."""
    known = parser(__doc__ or "")
    known.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads (default 1 2)")
    known.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="some of the tables (default all)")
    known.add_argument("--minutes", type=float, default=60, help="no part starts after this time (default 60)")
    options = known.parse_args()
    context, end = multiprocessing.get_context("spawn"), time.time() + 60 * options.minutes
    for threads in options.threads:
        os.environ |= {
            "RAYON_NUM_THREADS": str(threads),
            "OMP_NUM_THREADS": str(threads),
        }
        process = context.Process(
            target=print_tables, args=(options.parts, threads, options.rounds, options.quick, end)
        )
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(process.exitcode)


if __name__ == "__main__":
    main()
