"""Resampling with replacement as counts: how often each group of equal items was drawn.

AP depends on a resample only through how many items of each kind it holds, so no resample is ever sorted. On CPU the
numbers come from NumPy's generators, one a replicate, seeded by the ``torch.Generator``: the replicates are the same
for every chunk size and number of threads. On accelerators they come from torch.
"""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import order
from torch_ap.ranking.order import Array
from torch_ap.rules import checks

_DRAWS_A_CELL = 16


@dataclass(frozen=True, eq=False)
class Resampling:
    """How a computation by random replicates runs.

    Args:
        replicates: B, at least 2.
        generator: a ``torch.Generator``; None for a fresh one with seed 0, so that results repeat. The global random
            state is never used.
        chunk: how many numbers are held at once: the bound on memory.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Raises:
        ValueError, TypeError: for an argument that breaks one of these rules.

    Example:
        >>> import torch
        >>> from torch_ap.inference import Resampling, chance_test
        >>> preds, target = torch.arange(40, 0, -1.0), torch.tensor([1, 1, 0, 1] * 5 + [0] * 20)
        >>> how = Resampling(99, generator=torch.Generator().manual_seed(1))
        >>> round(chance_test(preds, target, resampling=how).p_value, 2)
        0.01
    """

    replicates: int = 1000
    generator: torch.Generator | None = None
    chunk: int = 1 << 23
    progress: bool = False

    def __post_init__(self) -> None:
        checks.positive_int("replicates", self.replicates, least=2)
        checks.positive_int("chunk", self.chunk)
        checks.boolean("progress", self.progress)
        if self.generator is not None and not isinstance(self.generator, torch.Generator):
            raise TypeError(f"`generator` must be a torch.Generator or None, got {type(self.generator).__name__}")

    def seed(self) -> int:
        """One draw of the generator, to seed others by."""
        generator = self.generator or torch.Generator().manual_seed(0)
        return int(torch.randint(1 << 62, (), generator=generator, device=generator.device))

    def on(self, device: torch.device) -> torch.Generator:
        """A generator on ``device``, seeded by one draw."""
        return torch.Generator(device).manual_seed(self.seed())

    def batches(self, width: int) -> Iterator[range]:
        """The replicates in turn, so many at a time that ``width`` numbers each fit a chunk."""
        step = max(1, self.chunk // max(width, 1))
        starts: Any = range(0, self.replicates, step)
        if self.progress:
            starts = _with_bar(starts)
        for first in starts:
            yield range(first, min(first + step, self.replicates))


def generators(seed: int, replicates: range) -> list[np.random.Generator]:
    """NumPy generators of these replicates."""
    return [np.random.Generator(np.random.SFC64([seed, replicate])) for replicate in replicates]


def multinomial(rng: np.random.Generator, sizes: Array, draws: int) -> Array:
    """How often each cell is met when so many items are drawn, all alike likely: (K,) int64.

    Args:
        rng: source of the draws.
        sizes: (K,) items in each cell.
        draws: number of draws.
    """
    total = int(sizes.sum())
    if not draws or not total:
        return np.zeros(len(sizes), np.int64)
    if len(sizes) * _DRAWS_A_CELL < draws:
        return rng.multinomial(draws, sizes / total)
    width = np.uint32 if total < 1 << 32 else np.int64
    times = np.bincount(rng.integers(0, total, draws, dtype=width), minlength=total)
    through = np.concatenate([np.zeros(1, np.int64), times.cumsum()])
    return np.diff(through[np.concatenate([np.zeros(1, np.int64), sizes.cumsum()])])


def multinomial_on_device(generator: torch.Generator, sizes: Tensor, draws: Tensor) -> Tensor:
    """:func:`multinomial` of many replicates at once, on the device of ``sizes``.

    Args:
        generator: source of the draws, on that device.
        sizes: (K,) int64 items in each cell.
        draws: (B,) int64 number of draws of each replicate.

    Returns:
        (B, K) int64.
    """
    cell = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    most = int(draws.max()) if len(cell) else 0
    out = torch.zeros(len(draws), len(sizes), dtype=torch.int64, device=sizes.device)
    if not most:
        return out
    drawn = cell[torch.randint(len(cell), (len(draws), most), generator=generator, device=sizes.device)]
    counts = torch.arange(most, device=sizes.device) < draws[:, None]
    return out.scatter_add_(1, drawn, counts.to(torch.int64))


def rows(work: Any, rngs: list[np.random.Generator], size: int) -> list[Any]:
    """``work(rng)`` of each replicate, on as many threads as ``size`` numbers a replicate pay for."""
    return order.in_threads(work, rngs, order.workers(size * len(rngs)))


def _with_bar(starts: Any) -> Any:
    try:
        bars: Any = importlib.import_module("tqdm.auto")
    except ImportError as error:
        raise ModuleNotFoundError("`progress=True` needs tqdm: pip install tqdm (extra `inference`)") from error
    return bars.tqdm(starts)
