"""Time, traffic and memory to synchronize processes: gathered (each gets all items) or exchanged (each gets a share).

    python -m benchmarks.ranks [--quick] [--ranks 2 4 8 16] [--items 2000000] [--only scores]

This prints Markdown tables, and so does ``benchmarks.scale``. The processes are gloo processes of one thread each on
this machine. With more processes than processors, the wall time is the time of their work one after the other.

- Bytes: received from other processes, counted at the calls of ``torch.distributed``.
- Memory: the peak of a process in addition to its memory before the first update.
- In brackets: the model of docs/scale.md.
- Share: the memory of one process with all items, divided by the number of processes.
- Cost: processor seconds as a sum of comparisons and bytes received, each times a constant. The constants are fitted to
  both modes of all numbers of processes except the largest, for which they predict the seconds.
"""

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from math import log2
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from scipy.optimize import nnls
from torch import Generator

import torch_ap
from benchmarks.detection_scenes import like_coco
from benchmarks.timing import machine, parser, peak_memory, print_head, print_row

BATCHES, HITS = 8, 0.02
MODES = ("gather", "exchange")


class Traffic:
    """Bytes that this process has received, and number of collectives."""

    def __init__(self) -> None:
        self.bytes = self.calls = 0
        for name in ("all_gather", "all_to_all_single", "all_reduce"):
            setattr(dist, name, self._count_calls(name, getattr(dist, name)))

    def _count_calls(self, name: str, collective: Any) -> Any:
        def call(out: Any, *args: Any, **more: Any) -> Any:
            if isinstance(out, list):
                self.bytes += sum(x.nbytes for x in out[1:])
            elif name == "all_to_all_single" and len(args) > 1:
                self.bytes += out.nbytes - out.element_size() * args[1][dist.get_rank()]
            else:
                self.bytes += out.nbytes
            self.calls += 1
            return collective(out, *args, **more)

        return call


def model(sync: str, ranks: int, each: int, hits: float = HITS) -> tuple[float, float, float]:
    """Return the bytes that a process receives, the comparisons of its sorts, and the bytes of its items with copies.

    Args:
        sync: "gather" or "exchange".
        ranks: number of processes.
        each: number of items of each process, with float32 scores and one byte per target.
        hits: share of relevant items.
    """
    others, items = ranks - 1, ranks * each
    if sync == "gather":
        return 5 * each * others, items * log2(items), 22 * items
    if hits * ranks <= 0.125:
        found = hits * items
        return 4 * found * others / ranks + 16 * found, each * log2(each) + found * log2(found), 22 * each
    samples = 2 * 256 * 4 * others
    sums = 8 * hits * each / 16 + 8 * 8 * ranks
    return 4 * each * others / ranks + samples + sums, 2 * each * log2(each), 22 * each


def print_model() -> None:
    """Print the model for large numbers of items and processes."""
    columns = "GB received, comparisons, GB stored"
    print_head("", "scores", "processes", *(f"{sync}: {columns}" for sync in MODES))
    for items in (10**9, 10**12):
        for ranks in (8, 64, 1024):
            cells = [model(sync, ranks, items // ranks) for sync in MODES]
            print_row(f"{items:.0e}", f"{ranks:,}", *(f"{x / 1e9:.3g}, {y:.1e}, {z / 1e9:.3g}" for x, y, z in cells))


def fit_costs(rows: dict[tuple[str, int], tuple[float, float]], size: int) -> tuple[float, float]:
    """Return the seconds per comparison and per byte that fit the measurements, with equal relative errors.

    Args:
        rows: processor seconds and bytes received by mode and number of processes.
        size: number of items of each process.
    """
    features = np.array([(model(*key, size)[1], received) for key, (_, received) in rows.items()])
    seconds = np.array([x[0] for x in rows.values()])
    constants, _ = nnls(features / seconds[:, None], np.ones(len(seconds)))
    return float(constants[0]), float(constants[1])


def print_costs(rows: dict[tuple[str, int], tuple[float, float]], size: int) -> None:
    """Print the fitted costs, predictions for the largest number of processes, and for up to 1,024 processes."""
    largest = max(count for _, count in rows)
    fitted = {key: x for key, x in rows.items() if key[1] < largest or largest == min(c for _, c in rows)}
    comparison, byte = fit_costs(fitted, size)
    print(f"\n{comparison * 1e9:.2g} ns a comparison and {byte * 1e9:.2g} ns a byte, fitted below {largest} processes")
    heads = (f"{sync}: measured s, model s" for sync in MODES)
    print_head("", f"processes x {size:,} scores", *heads)
    for count in sorted({count for _, count in rows} | {64, 256, 1024}):
        cells = []
        for sync in MODES:
            received, comparisons, _ = model(sync, count, size)
            measured = f"{rows[sync, count][0]:.2g}" if (sync, count) in rows else "-"
            cells.append(f"{measured}, {comparison * comparisons + byte * received:.2g}")
        print_row(f"{count:,}", *cells)


def score_batches(rank: int, size: int, ranks: int) -> list[tuple[Any, ...]]:
    """Return batches of scores and targets."""
    del ranks
    generator = Generator().manual_seed(rank)
    target = torch.rand(size, generator=generator) < HITS
    scores = torch.sigmoid(torch.randn(size, generator=generator) + 2 * target)
    return list(zip(scores.chunk(BATCHES), target.chunk(BATCHES), strict=True))


def document_batches(rank: int, size: int, ranks: int) -> list[tuple[Any, ...]]:
    """Return batches of scores, targets and indexes. The 100 documents of a query are spread over all processes."""
    generator = Generator().manual_seed(rank)
    indexes = torch.randint(max(size * ranks // 100, 1), (size,), generator=generator)
    columns = zip(*score_batches(rank, size, ranks), strict=True)
    return list(zip(*columns, indexes.chunk(BATCHES), strict=True))


def image_batches(rank: int, size: int, ranks: int) -> list[tuple[Any, ...]]:
    """Return one batch of images like COCO's."""
    del ranks
    scenes = like_coco(size, seed=rank)
    return [(scenes.preds, scenes.target)]


class Kind(NamedTuple):
    """A metric and its input."""

    metric: Callable[..., Any]
    batches: Callable[[int, int, int], list[tuple[Any, ...]]]
    value: Callable[[Any], float] = float
    items: int = 1  # number of scores that count as one item, for example an image


def images(match: Literal["compute", "update"]) -> Kind:
    """Return the metric of images that are matched in ``update`` or in ``compute``."""
    metric = partial(torch_ap.MeanAveragePrecision, "xywh", match=match)
    return Kind(metric, image_batches, lambda found: float(found["map"]), items=1000)


KINDS = {
    "scores": Kind(torch_ap.BinaryAveragePrecision, score_batches),
    "documents of queries": Kind(torch_ap.RetrievalMAP, document_batches),
    "images": images("compute"),
    "images matched in update": images("update"),
}


def measure_memory(metric: Any, batches: list[tuple[Any, ...]]) -> float:
    """Return the peak memory of the process in MB, from the first update to the value."""

    def run() -> None:
        for batch in batches:
            metric.update(*batch)
        metric.compute()

    return peak_memory(run)


def new_metric(kind: Kind, sync: str) -> Any:
    """Return a metric after a first ``compute``, which loads modules, and a reset."""
    metric = kind.metric(sync=sync)
    for batch in kind.batches(0, 1000 // kind.items + 8, 1):
        metric.update(*batch)
    metric.compute()
    metric.reset()
    return metric


def run_process(rank: int, name: str, ranks: int, size: int, rounds: int, store: str, results: Any) -> None:
    """Measure both modes in one process of a group."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    kind = KINDS[name]
    traffic, batches = Traffic(), kind.batches(rank, size, ranks)
    measurements: dict[str, Any] = {}
    for sync in MODES:
        metric, seconds = new_metric(kind, sync), []
        megabytes = measure_memory(metric, batches)
        for _ in range(rounds):
            metric._computed = None
            traffic.bytes = traffic.calls = 0
            dist.barrier()
            start = time.perf_counter(), time.process_time()
            value = metric.compute()
            processor_end = time.process_time()
            dist.barrier()
            seconds.append((time.perf_counter() - start[0], processor_end - start[1]))
        wall, processor = map(statistics.median, zip(*seconds, strict=True))
        measurements[sync] = wall, processor, traffic.bytes / 1e6, traffic.calls, megabytes, kind.value(value)
    results.put(measurements)
    dist.barrier()
    dist.destroy_process_group()


def run_alone(name: str, size: int, results: Any) -> None:
    """Measure the memory of one process with all items."""
    torch.set_num_threads(1)
    kind = KINDS[name]
    results.put(measure_memory(new_metric(kind, "gather"), kind.batches(0, size, 1)))


def run_in_processes(work: Any, arguments: list[tuple[Any, ...]]) -> list[Any]:
    """Run a function in one process per tuple of arguments, and return the results."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=work, args=(*args, queue)) for args in arguments]
    for process in processes:
        process.start()
    results = [queue.get() for _ in processes]
    for process in processes:
        process.join()
    return results


def print_table(name: str, ranks: list[int], size: int, rounds: int) -> None:
    """Print a row per number of processes, with the maximum over the processes. The model applies to scores."""
    size //= KINDS[name].items
    columns = "s, processor s, MB received, collectives, peak MB, peak / share"
    costs: dict[tuple[str, int], tuple[float, float]] = {}
    heads = (f"{sync}: {columns}" for sync in MODES)
    print_head("", f"processes x {size:,} {name}", *heads, "gather / exchange: s, processor s")
    for count in ranks:
        memory_alone = run_in_processes(run_alone, [(name, count * size)])[0]
        with tempfile.TemporaryDirectory() as folder:
            arguments = [(rank, name, count, size, rounds, f"file://{folder}/store") for rank in range(count)]
            results = run_in_processes(run_process, arguments)
        assert len({values[-1] for result in results for values in result.values()}) == 1
        cells, seconds = [], []
        for sync in MODES:
            wall, processor, received, calls, peak = (max(result[sync][i] for result in results) for i in range(5))
            seconds.append((wall, processor))
            costs[sync, count] = processor, received * 1e6
            modelled = [f" ({model(sync, count, size)[i] / 1e6:.3g})" if name == "scores" else "" for i in (0, 2)]
            cells.append(
                f"{wall:.2g}, {processor:.2g}, {received:.3g}{modelled[0]}, {calls}, "
                f"{peak:.3g}{modelled[1]}, {peak / (memory_alone / count):.2g}"
            )
        print_row(
            str(count), *cells, ", ".join(f"{gather / exchange:.2g}" for gather, exchange in zip(*seconds, strict=True))
        )
    if name == "scores":
        print_costs(costs, size)


def main() -> None:
    """Print all tables."""
    options = parser(__doc__ or "")
    options.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8, 16])
    options.add_argument("--items", type=int, default=2_000_000, help="scores of each process; images: 1/1,000")
    options.add_argument("--only", choices=KINDS, nargs="+", default=list(KINDS))
    chosen = options.parse_args()
    print(machine("torch"))
    if chosen.quick:
        chosen.ranks, chosen.items = [2], 20_000
    for name in chosen.only:
        print_table(name, chosen.ranks, chosen.items, chosen.rounds)
    print_model()


if __name__ == "__main__":
    main()
