"""Resampling with replacement as counts: how often each group of equal items was drawn.

AP depends on a resample only through how many items of each kind it holds, so no resample is ever sorted. On CPU the
numbers come from NumPy's generators, one per resample, seeded by the ``torch.Generator``: the resamples are the same
for every batch size and number of threads. On accelerators they come from torch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import order, segments
from torch_ap.ranking.order import Array
from torch_ap.rules import checks
from torch_ap.rules.messages import Plain, refuse
from torch_ap.runtime.progress import with_bar

_DRAWS_PER_GROUP = 16
_NUMBERS_AT_ONCE = 1 << 23
_TOGETHER = 1 << 18


@dataclass(frozen=True, eq=False)
class Resampling:
    """How a computation by random resamples runs: the arguments of these names of the public functions, checked.

    Args:
        n_resamples: B, at least 2.
        generator: a ``torch.Generator``; None for a fresh one with seed 0, so that results repeat. The global random
            state is never used.
        batch: how many resamples are computed at once, which bounds memory and changes no result; None for as many as
            fit 2^23 numbers.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Raises:
        ValueError, TypeError: for an argument that breaks one of these rules.
    """

    n_resamples: int = 1000
    generator: torch.Generator | None = None
    batch: int | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_resamples", checks.positive_int("n_resamples", self.n_resamples, least=2))
        if self.generator is not None and not isinstance(self.generator, torch.Generator):
            refuse("generator", "must be a torch.Generator or None", Plain(type(self.generator).__name__), TypeError)
        object.__setattr__(self, "batch", checks.positive_int("batch", self.batch, optional=True))
        checks.boolean("progress", self.progress)

    def seed(self) -> int:
        """One draw of the generator, to seed others by."""
        generator = self.generator or torch.Generator().manual_seed(0)
        return int(torch.randint(1 << 62, (), generator=generator, device=generator.device))

    def on(self, device: torch.device) -> torch.Generator:
        """A generator on ``device``, seeded by one draw."""
        return torch.Generator(device).manual_seed(self.seed())

    def batches(self, width: int) -> Iterator[range]:
        """The resamples in turn, ``batch`` at a time; by default so many that ``width`` numbers each fit the bound."""
        spans: Any = _spans(self.n_resamples, self.batch or _fitting(width))
        yield from with_bar(spans, self.progress)

    def together(self, work: Callable[[list[np.random.Generator]], Any], size: int) -> list[Any]:
        """``work(rngs)`` of all resamples on CPU, those that hold few numbers together, on as many threads as pay.

        Args:
            work: what becomes of the resamples of some generators; no result may depend on which are together.
            size: about how many numbers one of them holds.
        """
        seed, most = self.seed(), max(1, _TOGETHER // max(size, 1))
        found: list[Any] = []
        for span in self.batches(size):
            tasks = [generators(seed, span[first : first + most]) for first in range(0, len(span), most)]
            found += order.in_threads(work, tasks, order.workers(size * len(span)))
        return found

    def drawn_on_device(self, width: int, draw: Callable[[int], tuple[Tensor, ...]]) -> Iterator[tuple[Tensor, ...]]:
        """What ``draw(b)`` draws, (b, ...) each, for all resamples: a tuple for each of :meth:`batches`.

        A device's generator gives other numbers for blocks of other sizes, so the blocks do not depend on ``batch``.
        """
        blocks = (draw(len(block)) for block in _spans(self.n_resamples, _fitting(width)))
        held = next(blocks)
        for span in self.batches(width):
            while len(held[0]) < len(span):
                held = tuple(torch.cat(parts) for parts in zip(held, next(blocks), strict=True))
            yield tuple(x[: len(span)] for x in held)
            held = tuple(x[len(span) :] for x in held)


def _spans(count: int, step: int) -> list[range]:
    return [range(first, min(first + step, count)) for first in range(0, count, step)]


def _fitting(width: int) -> int:
    """How many resamples of so many numbers each are held at once."""
    return max(1, _NUMBERS_AT_ONCE // max(width, 1))


def generators(seed: int, replicates: range) -> list[np.random.Generator]:
    """NumPy generators of these replicates."""
    return [np.random.Generator(np.random.SFC64([seed, replicate])) for replicate in replicates]


def multinomial(rng: np.random.Generator, sizes: Array, draws: int) -> Array:
    """How often each group is drawn in a number of draws, all equally likely: (K,) int64.

    Args:
        rng: source of the draws.
        sizes: (K,) items in each group.
        draws: number of draws.
    """
    total = int(sizes.sum())
    if not draws or not total:
        return np.zeros(len(sizes), np.int64)
    if len(sizes) * _DRAWS_PER_GROUP < draws:
        return rng.multinomial(draws, sizes / total)
    width = np.uint32 if total < 1 << 32 else np.int64
    times = np.bincount(rng.integers(0, total, draws, dtype=width), minlength=total)
    return np.diff(segments.from_zero(times)[segments.from_zero(sizes)])


def multinomial_on_device(generator: torch.Generator, sizes: Tensor, draws: Tensor) -> Tensor:
    """:func:`multinomial` of many replicates at once, on the device of ``sizes``.

    Args:
        generator: source of the draws, on that device.
        sizes: (K,) int64 items in each group.
        draws: (B,) int64 number of draws of each replicate.

    Returns:
        (B, K) int64.
    """
    group = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    most = int(draws.max()) if len(group) else 0
    out = torch.zeros(len(draws), len(sizes), dtype=torch.int64, device=sizes.device)
    if not most:
        return out
    drawn = group[torch.randint(len(group), (len(draws), most), generator=generator, device=sizes.device)]
    counts = torch.arange(most, device=sizes.device) < draws[:, None]
    return out.scatter_add_(1, drawn, counts.to(torch.int64))


def rows(work: Any, rngs: list[np.random.Generator], size: int) -> list[Any]:
    """``work(rng)`` of each replicate, on as many threads as ``size`` numbers a replicate pay for."""
    return order.in_threads(work, rngs, order.workers(size * len(rngs)))
