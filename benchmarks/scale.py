"""What each way to keep a ranking costs as it grows, and how much bins leave open.

    python -m benchmarks.scale [--quick] [--most 10000000]

prints Markdown tables. Scores are made on the fly, a million at a time: sigmoid(z), one of fifty relevant with d' = 2.
Time is the processor's; memory is what the state holds, and the highest of the process beyond what it had before.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Generator, Tensor

import torch_ap
from benchmarks import ranks
from benchmarks.timing import by_turns, machine, parser, peak
from torch_ap.functional import binary_average_precision

BATCH = 1_000_000
SHARDS = 1000
MODES: dict[str, Any] = {"exact": None, "half": "half", "2^10": 1 << 10, "2^14": 1 << 14, "adaptive": "adaptive"}
SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid(z)": torch.sigmoid,
    "sigmoid(6 (z - 2))": lambda z: torch.sigmoid(6 * (z - 2)),
    "sigmoid(z - 12)": lambda z: torch.sigmoid(z - 12),
}


def batches(
    items: int, made: Callable[[Tensor], Tensor] = torch.sigmoid, seed: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """So many items, the same in every run."""
    generator = Generator().manual_seed(seed)
    for first in range(0, items, BATCH):
        size = min(BATCH, items - first)
        target = torch.rand(size, generator=generator) < 0.02
        yield made(torch.randn(size, generator=generator) + 2 * target), target


def metric_of(mode: str, pilot: int = 1 << 16) -> torch_ap.BinaryAveragePrecision:
    return torch_ap.BinaryAveragePrecision(bins=MODES[mode], pilot=pilot, tolerance=1.0)


def given(preds: Tensor, mode: str) -> Tensor:
    return preds.bfloat16() if mode == "half" else preds


def held(metric: torch_ap.BinaryAveragePrecision) -> int:
    """Bytes of its state."""
    states = metric.metric_state.values()
    return sum(x.nbytes for state in states for x in (state if isinstance(state, list) else [state]))


def streamed(mode: str, size: int, found: list[float]) -> None:
    """Finds seconds of all updates and of ``compute``, and MB of the state."""
    metric, spent = metric_of(mode), 0.0
    for preds, target in batches(size):
        preds = given(preds, mode)
        start = time.process_time()
        metric.update(preds, target)
        spent += time.process_time() - start
    start = time.process_time()
    metric.compute()
    found += [spent, time.process_time() - start, held(metric) / 1e6]


def growth(most: int) -> None:
    print("\n| scores | " + " | ".join(f"{mode}: s, compute s, MB, peak MB" for mode in MODES) + " |")
    print("|---" * (1 + len(MODES)) + "|")
    size = 100_000
    while size <= most:
        cells = []
        for mode in MODES:
            streamed(mode, min(size, BATCH), [])  # a first run loads and keeps more
            found: list[float] = []
            highest = peak(partial(streamed, mode, size, found))
            cells.append(f"{found[0]:.3g}, {found[1]:.2g}, {found[2]:.3g}, {highest:.0f}")
        print(f"| {size:,} | " + " | ".join(cells) + " |", flush=True)
        size *= 10


def throughput(rounds: int, size: int) -> None:
    """Updates of so many scores against counting as many places, in turns."""
    preds, target = (torch.cat(x) for x in zip(*batches(size), strict=True))
    places = (preds * (1 << 14)).long() * 2 + target
    contenders: dict[str, Callable[[], Any]] = {"bincount": lambda: torch.bincount(places, minlength=1 << 15)}
    for mode in MODES:
        scores, metric = given(preds, mode), metric_of(mode)
        metric.update(scores, target)
        contenders[mode] = lambda metric=metric, scores=scores: metric.update(scores, target)  # type: ignore[misc]
    unchecked = torch_ap.BinaryAveragePrecision(bins=1 << 14, validate_args=False, tolerance=1.0)
    contenders["2^14, unchecked"] = lambda: unchecked.update(preds, target)
    seconds = by_turns(contenders, rounds, time.process_time)
    print(
        "\n| update of | million scores a second of processor time | time as a multiple of `torch.bincount` |"
        "\n|---|---|---|"
    )
    for mode, took in seconds.items():
        print(f"| {mode} | {size / took / 1e6:.3g} | {took / seconds['bincount']:.3g} |")


def widths(items: int) -> None:
    """The width of the bounds, and how far the value is from the exact one."""
    modes: dict[str, Any] = {f"2^{power}": 1 << power for power in (10, 14, 16)} | {"adaptive": "adaptive"}
    print("\n| scores | " + " | ".join(f"{mode}: width, error" for mode in modes) + " | adaptive, 8 shards |")
    print("|---" * (2 + len(modes)) + "|")
    for name, made in SCORES.items():
        preds, target = (torch.cat(x) for x in zip(*batches(items, made), strict=True))
        exact = binary_average_precision(preds, target, dtype=torch.float64)
        found = []
        for bins in modes.values():
            metric = torch_ap.BinaryAveragePrecision(bins=bins, tolerance=1.0)
            metric.update(preds, target)
            found.append(metric.bounds())
        shards = []
        for part in torch.arange(items).chunk(8):
            metric = metric_of("adaptive")
            metric.update(preds[part], target[part])
            shards.append(metric)
        found.append(torch_ap.merge(shards).bounds())
        cells = [f"{one.high - one.low:.1e}, {abs(one.estimate - exact):.0e}" for one in found]
        print(f"| {name} | " + " | ".join(cells) + " |")


def merging(shards: int, items: int) -> None:
    head = ("KB each", "write, ms each", "read, ms each", "merge, s", "compute, s")
    print(f"\n| {shards:,} shards of {items:,} scores | " + " | ".join(head) + " |")
    print("|---" * 6 + "|")
    for mode in ("exact", "2^14", "adaptive"):
        metrics = []
        for shard in range(shards):
            metric = metric_of(mode, items // 2)
            for preds, target in batches(items, seed=shard):
                metric.update(given(preds, mode), target)
            metrics.append(metric)
        clock = [time.process_time()]
        payloads = [metric.to_bytes() for metric in metrics]
        clock.append(time.process_time())
        empty = metric_of(mode, items // 2)
        read = [empty.from_bytes(x) for x in payloads]
        clock.append(time.process_time())
        merged = torch_ap.merge(read)
        clock.append(time.process_time())
        merged.compute()
        clock.append(time.process_time())
        write, load, merge, compute = (b - a for a, b in pairwise(clock))
        size = sum(map(len, payloads)) / shards / 1e3
        cells = [f"{size:.3g}", *(f"{x / shards * 1e3:.2g}" for x in (write, load)), f"{merge:.2g}", f"{compute:.2g}"]
        print(f"| {mode} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--most", type=int, default=100_000_000, help="scores of the largest row (default 10^8)")
    chosen = options.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    quick = chosen.quick
    print(machine("torch"))
    throughput(chosen.rounds, 100_000 if quick else 10 * BATCH)
    widths(20_000 if quick else BATCH)
    growth(100_000 if quick else chosen.most)
    ranks.table("scores", [2] if quick else [2, 4, 8], 20_000 if quick else 2 * BATCH, chosen.rounds)
    merging(3 if quick else SHARDS, 500 if quick else 10_000)


if __name__ == "__main__":
    main()
