"""Time and memory of exact and binned metrics for a growing number of scores, and the width of the bounds.

    python -m benchmarks.scale [--quick] [--largest 10000000]

This prints Markdown tables. Scores are generated in batches of a million: sigmoid(z), one of fifty relevant, d' = 2.
Time is processor time. Memory is the size of the state, and the additional peak memory of the process.
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
from benchmarks.timing import machine, parser, peak_memory, print_head, print_row, time_in_turns
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
    items: int, transform: Callable[[Tensor], Tensor] = torch.sigmoid, seed: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of scores and targets, equal in every run."""
    generator = Generator().manual_seed(seed)
    for first in range(0, items, BATCH):
        size = min(BATCH, items - first)
        target = torch.rand(size, generator=generator) < 0.02
        yield transform(torch.randn(size, generator=generator) + 2 * target), target


def new_metric(mode: str, pilot: int = 1 << 16) -> torch_ap.BinaryAveragePrecision:
    """Return a metric of this mode that never warns of its width."""
    return torch_ap.BinaryAveragePrecision(bins=MODES[mode], pilot=pilot, tolerance=1.0)


def convert_scores(preds: Tensor, mode: str) -> Tensor:
    """Return the scores in the dtype of the mode."""
    return preds.bfloat16() if mode == "half" else preds


def state_bytes(metric: torch_ap.BinaryAveragePrecision) -> int:
    """Return the size of the state."""
    states = metric.metric_state.values()
    return sum(x.nbytes for state in states for x in (state if isinstance(state, list) else [state]))


def measure_stream(mode: str, size: int, results: list[float]) -> None:
    """Append the seconds of all updates and of ``compute``, and the MB of the state to ``results``."""
    metric, seconds = new_metric(mode), 0.0
    for preds, target in batches(size):
        preds = convert_scores(preds, mode)
        start = time.process_time()
        metric.update(preds, target)
        seconds += time.process_time() - start
    start = time.process_time()
    metric.compute()
    results += [seconds, time.process_time() - start, state_bytes(metric) / 1e6]


def print_growth(largest: int) -> None:
    """Print the time and memory of 100,000 to ``largest`` scores."""
    print_head("", "scores", *(f"{mode}: s, compute s, MB, peak MB" for mode in MODES))
    size = 100_000
    while size <= largest:
        cells = []
        for mode in MODES:
            measure_stream(mode, min(size, BATCH), [])  # the first run needs more memory
            results: list[float] = []
            peak = peak_memory(partial(measure_stream, mode, size, results))
            cells.append(f"{results[0]:.3g}, {results[1]:.2g}, {results[2]:.3g}, {peak:.0f}")
        print_row(f"{size:,}", *cells)
        size *= 10


def print_throughput(rounds: int, size: int) -> None:
    """Print the time of an update, compared with ``torch.bincount`` of the same number of bin numbers."""
    preds, target = (torch.cat(x) for x in zip(*batches(size), strict=True))
    bin_numbers = (preds * (1 << 14)).long() * 2 + target
    contenders: dict[str, Callable[[], Any]] = {"bincount": lambda: torch.bincount(bin_numbers, minlength=1 << 15)}
    for mode in MODES:
        scores, metric = convert_scores(preds, mode), new_metric(mode)
        metric.update(scores, target)
        contenders[mode] = lambda metric=metric, scores=scores: metric.update(scores, target)  # type: ignore[misc]
    unchecked = torch_ap.BinaryAveragePrecision(bins=1 << 14, validate_args=False, tolerance=1.0)
    contenders["2^14, unchecked"] = lambda: unchecked.update(preds, target)
    seconds = time_in_turns(contenders, rounds, time.process_time)
    columns = ("million scores a second of processor time", "time as a multiple of `torch.bincount`")
    print_head("", "update of", *columns)
    for mode, took in seconds.items():
        print_row(mode, f"{size / took / 1e6:.3g}", f"{took / seconds['bincount']:.3g}")


def print_widths(items: int) -> None:
    """Print the width of the bounds, and the difference of the value from the exact value."""
    modes: dict[str, Any] = {f"2^{power}": 1 << power for power in (10, 14, 16)} | {"adaptive": "adaptive"}
    print_head("", "scores", *(f"{mode}: width, error" for mode in modes), "adaptive, 8 shards")
    for name, transform in SCORES.items():
        preds, target = (torch.cat(x) for x in zip(*batches(items, transform), strict=True))
        exact = binary_average_precision(preds, target, dtype=torch.float64)
        bounds = []
        for bins in modes.values():
            metric = torch_ap.BinaryAveragePrecision(bins=bins, tolerance=1.0)
            metric.update(preds, target)
            bounds.append(metric.bounds())
        shards = []
        for shard in torch.arange(items).chunk(8):
            metric = new_metric("adaptive")
            metric.update(preds[shard], target[shard])
            shards.append(metric)
        bounds.append(torch_ap.merge(shards).bounds())
        print_row(name, *(f"{x.high - x.low:.1e}, {abs(x.estimate - exact):.0e}" for x in bounds))


def print_merging(shards: int, items: int) -> None:
    """Print the size of serialized metrics, and the time to write, read and merge them."""
    columns = ("KB each", "write, ms each", "read, ms each", "merge, s", "compute, s")
    print_head("", f"{shards:,} shards of {items:,} scores", *columns)
    for mode in ("exact", "2^14", "adaptive"):
        metrics = []
        for shard in range(shards):
            metric = new_metric(mode, items // 2)
            for preds, target in batches(items, seed=shard):
                metric.update(convert_scores(preds, mode), target)
            metrics.append(metric)
        clock = [time.process_time()]
        payloads = [metric.to_bytes() for metric in metrics]
        clock.append(time.process_time())
        empty = new_metric(mode, items // 2)
        read = [empty.from_bytes(x) for x in payloads]
        clock.append(time.process_time())
        merged = torch_ap.merge(read)
        clock.append(time.process_time())
        merged.compute()
        clock.append(time.process_time())
        write, load, merge, compute = (b - a for a, b in pairwise(clock))
        size = sum(map(len, payloads)) / shards / 1e3
        milliseconds_each = (f"{x / shards * 1e3:.2g}" for x in (write, load))
        print_row(mode, f"{size:.3g}", *milliseconds_each, f"{merge:.2g}", f"{compute:.2g}")


def main() -> None:
    """Print all tables."""
    options = parser(__doc__ or "")
    options.add_argument("--largest", type=int, default=100_000_000, help="scores of the largest row (default 10^8)")
    chosen = options.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    quick = chosen.quick
    print(machine("torch"))
    print_throughput(chosen.rounds, 100_000 if quick else 10 * BATCH)
    print_widths(20_000 if quick else BATCH)
    print_growth(100_000 if quick else chosen.largest)
    ranks.print_table("scores", [2] if quick else [2, 4, 8], 20_000 if quick else 2 * BATCH, chosen.rounds)
    print_merging(3 if quick else SHARDS, 500 if quick else 10_000)


if __name__ == "__main__":
    main()
