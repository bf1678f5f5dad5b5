"""What ranks need to synchronize: gathered, each gets all items; exchanged, each gets its share.

    python -m benchmarks.ranks [--quick] [--ranks 2 4 8] [--items 2000000] [--only scores]

prints Markdown tables; ``benchmarks.scale`` prints them too. Ranks are gloo processes of one thread each, all on this
machine, so that with more ranks than processors the wall time is that of their work one after the other. Bytes are
those that a rank receives from others, counted where ``torch.distributed`` is called; memory is the peak of a rank's
process above that before it had any items; in brackets what the model of docs/scale.md says. A rank's *share* is what
one process needs for the items of all, divided by the number of ranks.
"""

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from math import log2
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Generator

import torch_ap
from benchmarks.detection_scenes import like_coco
from benchmarks.timing import machine, parser, peak

BATCHES, HITS = 8, 0.02
MODES = ("gather", "exchange")


class Counted:
    """Bytes that this rank has received, and collectives."""

    def __init__(self) -> None:
        self.bytes = self.calls = 0
        for name in ("all_gather", "all_to_all_single", "all_reduce"):
            setattr(dist, name, self._counting(name, getattr(dist, name)))

    def _counting(self, name: str, collective: Any) -> Any:
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
    """Bytes that a rank receives, comparisons of its sorts, and bytes of items and copies of them that it holds.

    Args:
        sync: "gather" or "exchange".
        ranks: W.
        each: items of each rank, float32 scores and a byte for each target.
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


def on_paper() -> None:
    head = ("GB received", "comparisons", "GB held")
    print("\n| scores | ranks | " + " | ".join(f"{sync}: {', '.join(head)}" for sync in MODES) + " |")
    print("|---|---|---|---|")
    for items in (10**9, 10**12):
        for ranks in (8, 64, 1024):
            cells = [model(sync, ranks, items // ranks) for sync in MODES]
            told = [f"{x / 1e9:.3g}, {y:.1e}, {z / 1e9:.3g}" for x, y, z in cells]
            print(f"| {items:.0e} | {ranks:,} | " + " | ".join(told) + " |")


def scores_of(rank: int, size: int, ranks: int) -> list[tuple[Any, ...]]:
    """Batches of scores and targets."""
    del ranks
    generator = Generator().manual_seed(rank)
    target = torch.rand(size, generator=generator) < HITS
    scores = torch.sigmoid(torch.randn(size, generator=generator) + 2 * target)
    return list(zip(scores.chunk(BATCHES), target.chunk(BATCHES), strict=True))


def documents_of(rank: int, size: int, ranks: int) -> list[tuple[Any, ...]]:
    """Batches of scores, targets and indexes: queries of about 100 documents, which lie on any ranks."""
    generator = Generator().manual_seed(rank)
    indexes = torch.randint(max(size * ranks // 100, 1), (size,), generator=generator)
    parts = zip(*scores_of(rank, size, ranks), strict=True)
    return list(zip(*parts, indexes.chunk(BATCHES), strict=True))


def images_of(rank: int, size: int, ranks: int) -> list[tuple[Any, ...]]:
    """One batch of images, with as many ground truths and detections as COCO's."""
    del ranks
    scenes = like_coco(size, seed=rank)
    return [(scenes.preds, scenes.target)]


class Kind(NamedTuple):
    """What is synchronized."""

    metric: Callable[..., Any]
    batches: Callable[[int, int, int], list[tuple[Any, ...]]]
    value: Callable[[Any], float] = float
    items: int = 1  # scores for one of these


def images(match: Literal["compute", "update"]) -> Kind:
    """Images that are matched when they come, or when all are there."""
    metric = partial(torch_ap.MeanAveragePrecision, "xywh", match=match)
    return Kind(metric, images_of, lambda found: float(found["map"]), items=1000)


KINDS = {
    "scores": Kind(torch_ap.BinaryAveragePrecision, scores_of),
    "documents of queries": Kind(torch_ap.RetrievalMAP, documents_of),
    "images": images("compute"),
    "images matched as they come": images("update"),
}


def measured(metric: Any, batches: list[tuple[Any, ...]]) -> float:
    """MB that the process needs at most, from the first update to the value."""

    def run() -> None:
        for batch in batches:
            metric.update(*batch)
        metric.compute()

    return peak(run)


def new(kind: Kind, sync: str) -> Any:
    metric = kind.metric(sync=sync)
    for batch in kind.batches(0, 1000 // kind.items + 8, 1):
        metric.update(*batch)
    metric.compute()  # what a first call loads
    metric.reset()
    return metric


def on_rank(rank: int, name: str, ranks: int, size: int, rounds: int, store: str, answers: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    kind = KINDS[name]
    counted, batches = Counted(), kind.batches(rank, size, ranks)
    found: dict[str, Any] = {}
    for sync in MODES:
        metric, seconds = new(kind, sync), []
        megabytes = measured(metric, batches)
        for _ in range(rounds):
            metric._computed = None
            counted.bytes = counted.calls = 0
            dist.barrier()
            start = time.perf_counter(), time.process_time()
            value = metric.compute()
            worked = time.process_time()
            dist.barrier()
            seconds.append((time.perf_counter() - start[0], worked - start[1]))
        wall, processor = map(statistics.median, zip(*seconds, strict=True))
        found[sync] = wall, processor, counted.bytes / 1e6, counted.calls, megabytes, kind.value(value)
    answers.put(found)
    dist.barrier()
    dist.destroy_process_group()


def alone(name: str, size: int, answers: Any) -> None:
    """One process with all items."""
    torch.set_num_threads(1)
    kind = KINDS[name]
    answers.put(measured(new(kind, "gather"), kind.batches(0, size, 1)))


def in_processes(work: Any, every: list[tuple[Any, ...]]) -> list[Any]:
    """What each process puts into its queue."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    processes = [context.Process(target=work, args=(*args, answers)) for args in every]
    for process in processes:
        process.start()
    found = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    return found


def table(name: str, ranks: list[int], size: int, rounds: int) -> None:
    """One row per number of ranks; of all ranks the one that needs most. The model is of scores."""
    size //= KINDS[name].items
    head = ("s", "processor s", "MB received", "collectives", "peak MB", "peak / share")
    print(f"\n| ranks x {size:,} {name} | " + " | ".join(f"{sync}: {', '.join(head)}" for sync in MODES), end="")
    print(" | gather / exchange: s, processor s |\n|---|---|---|---|")
    for count in ranks:
        whole = in_processes(alone, [(name, count * size)])[0]
        with tempfile.TemporaryDirectory() as folder:
            given = [(rank, name, count, size, rounds, f"file://{folder}/store") for rank in range(count)]
            found = in_processes(on_rank, given)
        assert len({value[-1] for one in found for value in one.values()}) == 1
        cells, seconds = [], []
        for sync in MODES:
            wall, processor, received, calls, peaked = (max(one[sync][place] for one in found) for place in range(5))
            seconds.append((wall, processor))
            received_on_paper, held = (f" ({model(sync, count, size)[place] / 1e6:.3g})" for place in (0, 2))
            if name != "scores":
                received_on_paper = held = ""
            cells.append(
                f"{wall:.2g}, {processor:.2g}, {received:.3g}{received_on_paper}, {calls}, "
                f"{peaked:.3g}{held}, {peaked / (whole / count):.2g}"
            )
        ratios = ", ".join(f"{one / other:.2g}" for one, other in zip(*seconds, strict=True))
        print(f"| {count} | " + " | ".join(cells) + f" | {ratios} |", flush=True)


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    options.add_argument("--items", type=int, default=2_000_000, help="on each rank; of images a thousandth")
    options.add_argument("--only", choices=KINDS, nargs="+", default=list(KINDS))
    chosen = options.parse_args()
    print(machine("torch"))
    if chosen.quick:
        chosen.ranks, chosen.items = [2], 20_000
    for name in chosen.only:
        table(name, chosen.ranks, chosen.items, chosen.rounds)
    on_paper()


if __name__ == "__main__":
    main()
