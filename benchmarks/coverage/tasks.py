"""A simulation as tasks with separate seeds, so that the result does not depend on the number of processes."""

import math
import multiprocessing
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Options:
    """Repetitions of each configuration, and ``resampled`` repetitions for methods that resample."""

    repetitions: int
    resampled: int


@dataclass
class Share:
    """How often something happened, and for intervals the sum of their widths."""

    count: float = 0.0
    trials: int = 0
    width: float = 0.0

    def __iadd__(self, other: "Share") -> "Share":
        self.count += other.count
        self.trials += other.trials
        self.width += other.width
        return self

    @property
    def value(self) -> float:
        return self.count / self.trials

    @property
    def variance(self) -> float:
        """Monte Carlo variance of the value; above 0 even where the count is 0 or all trials."""
        shrunk = (self.count + 1) / (self.trials + 2)
        return shrunk * (1 - shrunk) / self.trials

    @property
    def error(self) -> float:
        """Monte Carlo standard error of the value."""
        return math.sqrt(self.variance)


# shares by what was estimated, such as (method, level)
Tally = dict[tuple[Any, ...], Share]


@dataclass(frozen=True)
class Task:
    """Some repetitions of one configuration."""

    run: Callable[..., Tally]
    configuration: tuple[Any, ...]
    repetitions: int
    part: int = 0

    def __call__(self) -> Tally:
        return self.run(*self.configuration, repetitions=self.repetitions, generator=self.generator())

    def generator(self) -> torch.Generator:
        """Seeded by the configuration and the part of its repetitions that this task runs."""
        words = repr((self.run.__module__, self.run.__name__, self.configuration, self.part))
        return torch.Generator().manual_seed(zlib.crc32(words.encode()))


def tasks_of(
    run: Callable[..., Tally], configurations: Iterable[tuple[Any, ...]], repetitions: int, at_once: int
) -> list[Task]:
    """All repetitions of all configurations, at most ``at_once`` per task."""
    return [
        Task(run, configuration, min(at_once, repetitions - first), first)
        for configuration in configurations
        for first in range(0, repetitions, at_once)
    ]


@dataclass(frozen=True)
class Section:
    """Part of the report: its tasks, and the function from results by configuration to lines."""

    tasks: list[Task]
    lines: Callable[[dict[tuple[Any, ...], Tally]], list[str]]


@dataclass
class Progress:
    """A line on stderr with the number of finished tasks."""

    total: int
    start: float = field(default_factory=time.perf_counter)
    done: int = 0

    def step(self) -> None:
        self.done += 1
        took = time.perf_counter() - self.start
        end = "\n" if self.done == self.total else ""
        print(f"\r{self.done} of {self.total} tasks, {took:.0f} s ", end=end, file=sys.stderr, flush=True)


def tally(into: Tally, key: tuple[Any, ...], happened: Any, width: float = 0.0) -> None:
    """Count an event, or a tensor of them."""
    flags = torch.as_tensor(happened, dtype=torch.float64)
    into.setdefault(key, Share())
    into[key] += Share(float(flags.sum()), flags.numel(), width)


def run_all(sections: list[Section], processes: int) -> Iterator[list[str]]:
    """The lines of each section in turn, as soon as its tasks are done."""
    progress = Progress(sum(len(section.tasks) for section in sections))
    with multiprocessing.get_context("spawn").Pool(processes, _one_thread) as pool:
        answers = pool.imap(_call, [task for section in sections for task in section.tasks])
        for section in sections:
            found: dict[tuple[Any, ...], Tally] = {}
            for task in section.tasks:
                here = found.setdefault(task.configuration, {})
                for key, share in next(answers).items():
                    here.setdefault(key, Share())
                    here[key] += share
                progress.step()
            yield section.lines(found)


def _one_thread() -> None:
    torch.set_num_threads(1)


def _call(task: Task) -> Tally:
    return task()
