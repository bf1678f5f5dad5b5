"""Time several contenders in turns in one run, and print Markdown tables."""

import argparse
import contextlib
import ctypes
import gc
import math
import os
import pathlib
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, TypeAlias

import torch

Contenders: TypeAlias = Mapping[str, Callable[[], Any]]
Timer: TypeAlias = Callable[[Contenders], dict[str, float]]
"""Contenders to their seconds: :func:`time_in_turns` with all other arguments set."""


def time_in_turns(
    contenders: Contenders,
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    *,
    statistic: Callable[[list[float]], float] = statistics.median,
    calls: int = 1,
    longest: float = math.inf,
    warm_up: bool = False,
) -> dict[str, float]:
    """Return the seconds per call of each contender.

    The contenders run in turns, so that a drifting machine slows all of them equally. The first round does not count.

    Args:
        contenders: functions without arguments, by name.
        rounds: number of rounds that count. With 0, the first round counts.
        clock: ``time.perf_counter`` for wall time, ``time.process_time`` for processor time.
        statistic: of the rounds, for example ``min``.
        calls: number of calls that are timed together, for functions that are too short to be timed alone.
        longest: a contender whose first round takes more seconds has only one round that counts.
        warm_up: run each contender once more before each timed round. Evaluators in C++ free millions of blocks, and
            the next allocations sort these blocks for up to 0.1 s, which would count for the next contender.
    """
    first: dict[str, float] = {}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    with _frozen_garbage():
        for turn in range(rounds + 1):
            for name, run in contenders.items():
                if turn > 1 and first[name] * calls > longest:
                    continue
                if warm_up and turn:
                    run()
                gc.collect(0 if calls > 1 else 2)
                start = clock()
                for _ in range(calls):
                    run()
                took = (clock() - start) / calls
                first.setdefault(name, took)
                if turn:
                    seconds[name].append(took)
    return {name: statistic(times or [first[name]]) for name, times in seconds.items()}


@contextlib.contextmanager
def _frozen_garbage() -> Iterator[None]:
    """Exclude all existing objects from garbage collection.

    A collection of all objects of the libraries evicts the caches of the processor. The next milliseconds of Python
    would then take up to twice as long, unlike compiled code.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def time_once(contenders: Contenders, clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    """Return the seconds of one run of each contender, for contenders that are too slow to be repeated."""
    return time_in_turns(contenders, 0, clock)


def peak_memory(run: Callable[[], Any]) -> float:
    """Return the highest resident memory of a run in addition to the memory before it, in MB.

    The result is NaN on systems other than Linux. Call ``run`` once before to exclude memory for imports and caches.
    """
    status, clear = pathlib.Path("/proc/self/status"), pathlib.Path("/proc/self/clear_refs")
    if not clear.exists():
        return float("nan")
    gc.collect()
    with contextlib.suppress(AttributeError):  # only glibc has malloc_trim
        ctypes.CDLL(None).malloc_trim(0)  # return freed memory; otherwise the run would reuse it without being counted
    clear.write_text("5")  # resets the high-water mark
    before = _read_status(status, "VmRSS")
    run()
    return (_read_status(status, "VmHWM") - before) / 1024


def _read_status(path: pathlib.Path, key: str) -> int:
    return next(int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith(key))


def print_head(title: str, *columns: str) -> None:
    """Print the title and the head of a Markdown table."""
    if title:
        print(f"\n### {title}")
    print(f"\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)


def print_row(*cells: str) -> None:
    """Print a row of a Markdown table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def print_peer_head(title: str, first_column: str, peers: Sequence[str]) -> None:
    """Print the head of a table whose rows are from :func:`print_peer_row`."""
    print_head(title, first_column, "torch_ap, ms", *peers)


def print_peer_row(name: str, seconds: Mapping[str, float], peers: Sequence[str]) -> None:
    """Print the time of torch_ap, and the time of each peer as a multiple of it."""
    own = seconds["torch_ap"]
    print_row(name, milliseconds(own), *(f"{seconds[peer] / own:.3g}" if peer in seconds else "" for peer in peers))


def milliseconds(seconds: float) -> str:
    """Return the milliseconds with three digits."""
    return f"{seconds * 1000:.3g}"


def machine(*packages: str) -> str:
    """Return a line with the processor, the number of threads and the versions of packages."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):  # only Linux has this file
        model = platform.machine()
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cpus} cores, {torch.get_num_threads()} threads; Python {platform.python_version()}; {versions}"


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5, help="timed rounds of each table row (default 5)")
    options.add_argument("--quick", action="store_true", help="use small sizes, to check that the benchmark runs")
    return options
