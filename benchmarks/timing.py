"""Timing by turns: every contender once, then again, so that a drifting machine slows all of them equally."""

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

Timed: TypeAlias = Callable[[Mapping[str, Callable[[], Any]]], dict[str, float]]
"""Contenders to their seconds, as :func:`by_turns` with all else given."""


def by_turns(
    contenders: Mapping[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    most: float = math.inf,
    warmed: bool = False,
) -> dict[str, float]:
    """Median seconds of each contender, after one round that does not count; ``time.process_time`` for CPU seconds.

    A contender whose first round takes more than ``most`` seconds runs only that once, and it counts. ``warmed``: each
    runs once more before its clock starts. What peers in C++ free, millions of blocks, is put in order by the next
    allocations, which takes up to 0.1 s, and that is then not in the time of whoever comes next.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    first: dict[str, float] = {}
    with _collected():
        for turn in range(rounds + 1):
            for name, run in contenders.items():
                if first.get(name, 0) > most:
                    continue
                if warmed and name in first:
                    run()
                gc.collect()
                start = clock()
                run()
                took = clock() - start
                first.setdefault(name, took)
                if turn:
                    seconds[name].append(took)
    return {name: statistics.median(times or [first[name]]) for name, times in seconds.items()}


@contextlib.contextmanager
def _collected() -> Iterator[None]:
    """Inside, garbage is looked for among what is made there alone.

    A look through all that libraries have made puts them out of the caches, and the next few milliseconds of Python
    take up to twice as long, which no user waits for; and of compiled code they do not.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def once(
    contenders: Mapping[str, Callable[[], Any]], clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Seconds of one run each, where repeating would take too long."""
    return by_turns(contenders, 0, clock)


def peak(run: Callable[[], Any]) -> float:
    """Highest resident memory of a run beyond that before it, in MB; NaN where the system does not tell it.

    What a first run loads and keeps is not counted where the caller has run it once before.
    """
    status, clear = pathlib.Path("/proc/self/status"), pathlib.Path("/proc/self/clear_refs")
    if not clear.exists():  # only Linux has it
        return float("nan")
    gc.collect()
    with contextlib.suppress(AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)  # gives back what earlier runs have freed, which a run would take unseen
    clear.write_text("5")  # resets the high-water mark
    before = _status(status, "VmRSS")
    run()
    return (_status(status, "VmHWM") - before) / 1024


def _status(path: pathlib.Path, key: str) -> int:
    return next(int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith(key))


def row(what: str, seconds: Mapping[str, float], names: Sequence[str]) -> str:
    """A table row: our time, then each peer's time as a multiple of ours."""
    ours = seconds["torch_ap"]
    cells = [f"{seconds[name] / ours:.3g}" if name in seconds else "" for name in names]
    return f"| {what} | {in_ms(ours)} | " + " | ".join(cells) + " |"


def head(first: str, names: Sequence[str]) -> str:
    """The head of a table whose rows are from :func:`row`."""
    return f"| {first} | torch_ap, ms | " + " | ".join(names) + " |\n" + "|---" * (2 + len(names)) + "|"


def in_ms(seconds: float) -> str:
    """Milliseconds with three digits."""
    return f"{seconds * 1000:.3g}"


def machine(*packages: str) -> str:
    """The machine and the versions of the figures."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):  # only Linux has it
        model = platform.machine()
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cpus} cores, {torch.get_num_threads()} threads; Python {platform.python_version()}; {versions}"


def parser(description: str) -> argparse.ArgumentParser:
    """Options that every benchmark has."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--rounds", type=int, default=5, help="timed rounds of each table row (default 5)")
    options.add_argument("--quick", action="store_true", help="small sizes only, to see that it runs")
    return options
