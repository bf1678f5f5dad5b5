"""Resampling with replacement, represented by the number of times each group of equal items is drawn.

AP depends on a resample only through the number of items of each kind, so no resample is sorted. On CPU, each resample
has its own NumPy generator, seeded by the ``torch.Generator``: the resamples do not depend on the batch size or the
number of threads. On accelerators, torch generates the random numbers.

Bootstrap replicates of average precision, and the intervals computed from them.

A resample of hits and misses is a vector of counts over the groups of the sorted data. A batch of resamples is one
curve of many rankings. Copies of a hit are tied with each other, which biases the replicates slightly upward.

AP after deleting each item in turn: the delete-one jackknife in O(hits) operations after the sort.

Deleting a miss moves each hit at or below it up by one rank. Deleting a hit does the same, lowers h at these ranks by
one, and leaves m - 1 hits to average over.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import Plain, raise_invalid
from torch_ap.core.base.progress import progress_bar
from torch_ap.core.ranking import order, segments
from torch_ap.core.ranking.builders import from_rows
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.inference.influence import ItemValues, count_misses, sum_from_below
from torch_ap.inference.record import Ends, normal_quantile

_DRAWS_PER_GROUP = 16  # above, a multinomial draw is faster than counting single draws
_NUMBERS_PER_BATCH = 1 << 23
_NUMBERS_PER_TASK = 1 << 18


@dataclass(frozen=True, eq=False)
class Resampling:
    """Validated settings of a computation by random resamples, named as in the public functions.

    Args:
        n_resamples: B, at least 2.
        generator: a ``torch.Generator``; None for a new one with seed 0, so that results repeat. The global random
            state is never used.
        chunk_size: number of resamples computed per step, which limits memory and changes no result; None for as many
            as fit 2^23 numbers.
        progress: whether to show a progress bar (``tqdm``; extra: ``inference``).

    Raises:
        ValueError, TypeError: if an argument is invalid.
    """

    n_resamples: int = 1000
    generator: torch.Generator | None = None
    chunk_size: int | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_resamples", checks.positive_int("n_resamples", self.n_resamples, least=2))
        if self.generator is not None and not isinstance(self.generator, torch.Generator):
            raise_invalid(
                "generator", "must be a torch.Generator or None", Plain(type(self.generator).__name__), TypeError
            )
        object.__setattr__(self, "chunk_size", checks.positive_int("chunk_size", self.chunk_size, optional=True))
        checks.boolean("progress", self.progress)

    def seed(self) -> int:
        """Draw a seed for other generators from the generator."""
        generator = self.generator or torch.Generator().manual_seed(0)
        return int(torch.randint(1 << 62, (), generator=generator, device=generator.device))

    def generator_on(self, device: torch.device) -> torch.Generator:
        """Return a generator on ``device`` with a seed drawn from the generator."""
        return torch.Generator(device).manual_seed(self.seed())

    def batches(self, width: int) -> Iterator[range]:
        """Yield ranges of ``chunk_size`` resamples; by default as many as fit in memory with ``width`` numbers each."""
        spans: Any = _spans(self.n_resamples, self.chunk_size or _batch_size(width))
        yield from progress_bar(spans, self.progress)

    def statistics(
        self, statistic: Callable[[np.random.Generator], float], width: int, size: int, seed: int | None = None
    ) -> Tensor:
        """Return ``statistic(rng)`` of each resample, computed on CPU: (B,) float64.

        Args:
            statistic: function of the generator of one resample.
            width: count of numbers that one resample stores, which determines the batch size.
            size: count of numbers that one resample draws, which determines the number of threads.
            seed: seed of the generators; None for ``seed()``.
        """
        seed = self.seed() if seed is None else seed
        values = [x for span in self.batches(width) for x in rows(statistic, generators(seed, span), size)]
        return torch.tensor(values, dtype=torch.float64)

    def map_tasks(self, work: Callable[[list[np.random.Generator]], Any], size: int) -> list[Any]:
        """Return ``work(rngs)`` for tasks of several resamples each, which run on CPU threads.

        Args:
            work: function of the generators of some resamples; its result must not depend on the division into tasks.
            size: approximate count of numbers that one resample stores.
        """
        seed, most = self.seed(), max(1, _NUMBERS_PER_TASK // max(size, 1))
        results: list[Any] = []
        for span in self.batches(size):
            tasks = [generators(seed, span[first : first + most]) for first in range(0, len(span), most)]
            results += order.run_in_threads(work, tasks, order.workers(size * len(span)))
        return results

    def draw_on_device(self, width: int, draw: Callable[[int], tuple[Tensor, ...]]) -> Iterator[tuple[Tensor, ...]]:
        """Yield the tensors of ``draw(b)``, (b, ...) each, for each of :meth:`batches`.

        The random numbers of a device's generator depend on the block size, so the block size does not depend on
        ``chunk_size``.
        """
        blocks = (draw(len(block)) for block in _spans(self.n_resamples, _batch_size(width)))
        buffer = next(blocks)
        for span in self.batches(width):
            while len(buffer[0]) < len(span):
                buffer = tuple(torch.cat(parts) for parts in zip(buffer, next(blocks), strict=True))
            yield tuple(x[: len(span)] for x in buffer)
            buffer = tuple(x[len(span) :] for x in buffer)


def _spans(count: int, step: int) -> list[range]:
    return [range(first, min(first + step, count)) for first in range(0, count, step)]


def _batch_size(width: int) -> int:
    """Return the number of resamples per batch if each stores ``width`` numbers."""
    return max(1, _NUMBERS_PER_BATCH // max(width, 1))


def generators(seed: int, replicates: range) -> list[np.random.Generator]:
    """Return the NumPy generators of these replicates."""
    return [np.random.Generator(np.random.SFC64([seed, replicate])) for replicate in replicates]


def multinomial(rng: np.random.Generator, sizes: Array, draws: int) -> Array:
    """Draw items with equal probabilities, and return the number of draws from each group: (K,) int64.

    Args:
        rng: random number generator.
        sizes: (K,) number of items in each group.
        draws: number of draws.
    """
    total = int(sizes.sum())
    if not draws or not total:
        return np.zeros(len(sizes), np.int64)
    if len(sizes) * _DRAWS_PER_GROUP < draws:
        return rng.multinomial(draws, sizes / total)
    width = np.uint32 if total < 1 << 32 else np.int64
    counts = np.bincount(rng.integers(0, total, draws, dtype=width), minlength=total)
    return np.diff(segments.from_zero(counts)[segments.from_zero(sizes)])


def multinomial_on_device(generator: torch.Generator, sizes: Tensor, draws: Tensor) -> Tensor:
    """Draw :func:`multinomial` counts of several replicates on the device of ``sizes``.

    Args:
        generator: random number generator on that device.
        sizes: (K,) int64 number of items in each group.
        draws: (B,) int64 number of draws of each replicate.

    Returns:
        (B, K) int64.
    """
    group = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    most = int(draws.max()) if len(group) else 0
    out = torch.zeros(len(draws), len(sizes), dtype=torch.int64, device=sizes.device)
    if not most:
        return out
    groups_drawn = group[torch.randint(len(group), (len(draws), most), generator=generator, device=sizes.device)]
    is_draw = torch.arange(most, device=sizes.device) < draws[:, None]
    return out.scatter_add_(1, groups_drawn, is_draw.to(torch.int64))


def rows(work: Any, rngs: list[np.random.Generator], size: int) -> list[Any]:
    """Return ``work(rng)`` for each replicate, on a number of threads that suits ``size`` numbers per replicate."""
    return order.run_in_threads(work, rngs, order.workers(size * len(rngs)))


def leave_one_out(curve: HitCurve) -> ItemValues:
    """Return the AP of each ranking without each item; NaN without the only hit.

    Args:
        curve: S rankings, unweighted, with a threshold per tie group.
    """
    hits, h, t = (segments.as_float64(x) for x in (curve.hits, curve.cumulative_hits, curve.cumulative_items))
    m = segments.as_float64(curve.m)
    hits_of_ranking = m if len(m) == 1 else m[curve.segment]
    left = (hits_of_ranking - 1).clamp(min=0)
    shorter = (t - 1).clamp(min=1)  # a group that ends at rank 1 has no miss in or above it, and h - 1 = 0
    sums = segments.total(hits * h / t, curve.offsets)
    total = sums if len(m) == 1 else sums[curve.segment]
    below = sum_from_below(hits * h / t, curve.offsets)
    without_hit = sum_from_below(hits * (h - 1) / shorter, curve.offsets)
    gain = sum_from_below(torch.where(t > 1, hits * h / (t * shorter), 0), curve.offsets)
    # r - 1 of the r hits of the group remain
    without_one_hit = (total - below + without_hit - (h - 1) / shorter) / left
    return ItemValues(
        curve,
        torch.where(left > 0, without_one_hit, torch.nan),
        (total + gain) / hits_of_ranking,
        torch.where(m > 1, sums / (m - 1), torch.nan),
        sums / m,
    )


def variance(values: ItemValues, design: str) -> Tensor:
    """Return the jackknife variance of AP: (S,) float64; NaN with fewer than two hits or two misses.

    Args:
        values: result of :func:`leave_one_out`.
        design: "stratified": (m - 1) / m times the sum over hits of squared deviations, plus the analogous sum over the
            q misses. "iid": (n - 1) / n times the sum over all items.
    """
    hits, misses = values.hit_moments(), values.miss_moments()
    enough = (hits.count > 1) & (misses.count > 1)
    n = hits.count + misses.count
    if design == "stratified":
        value = hits.squares * (hits.count - 1) / hits.count + misses.squares * (misses.count - 1) / misses.count
    else:
        between = hits.count * misses.count / n * (hits.mean - misses.mean) ** 2
        value = (hits.squares + misses.squares + between) * (n - 1) / n
    return torch.where(enough, value, torch.nan)


def replicates(
    curve: HitCurve,
    measure: Callable[[HitCurve], Tensor],
    design: str,
    resampling: Resampling,
    *,
    split_ties: bool = False,
) -> Tensor:
    """Compute a measure of B resamples of one ranking.

    Args:
        curve: one unweighted ranking.
        measure: function of a curve of b rankings, such as a convention.
        design: "stratified" draws m hits and q misses; "iid" draws n items, so that the number of hits varies.
        resampling: number of resamples, generator and memory bound.
        split_ties: whether the measure depends on the misses that tie with a hit, apart from the misses above the tie
            group; otherwise both are drawn as one group, which is faster.

    Returns:
        (B, ...) float64; AP is NaN for a resample without hits.
    """
    between, below = count_misses(curve)
    hits = torch.cat([curve.hits, curve.m - curve.hits_seen])
    tied = curve.items - curve.hits
    if split_ties and bool((tied > 0).any()):
        misses = torch.cat([between - tied, below, tied])
    else:
        misses = torch.cat([between, below])
    n = int(curve.n)
    if curve.m.device.type != "cpu":
        draw_counts = partial(_draw_on_device, resampling.generator_on(curve.m.device), hits, misses, design)
        resamples = resampling.draw_on_device(8 * len(hits) + n, draw_counts)
    else:
        seed, draws = resampling.seed(), n if design == "iid" else 0
        resamples = (_draw(seed, span, hits, misses, draws) for span in resampling.batches(8 * len(hits)))
    return torch.cat([measure(curve_from_counts(*counts)) for counts in resamples])


def curve_from_counts(hits: Tensor, misses: Tensor) -> HitCurve:
    """Return the hit curves of b resamples.

    Args:
        hits: (b, E + 1) hits of each tie group, then hits that were never retrieved.
        misses: (b, E + 1) misses between each tie group and the group before it, then misses below the last group; or
            (b, 2E + 1) with the misses that tie with the hits of each group after them. Without the latter, misses of
            a tie group count as misses above it, which changes no value at the end of a group.
    """
    groups = hits.shape[1] - 1
    seen, passed = hits[:, :-1], hits[:, :-1] + misses[:, :groups]
    items, tied = seen, misses[:, groups + 1 :]
    if tied.shape[1]:
        items, passed = seen + tied, passed + tied
    hits_above, items_above = segments.from_zero(seen)[:, :-1], segments.from_zero(passed)[:, 1:] - items
    whole = torch.tensor([0, groups], device=hits.device)
    m = hits.sum(1, keepdim=True)
    return from_rows(seen, items, hits_above, items_above, whole, m + misses.sum(1, keepdim=True), m)


def standard_error(values: Tensor) -> Tensor:
    """Return the standard deviation of the replicates that are not NaN, 0-d; NaN for fewer than two."""
    values = values[~torch.isnan(values)]
    return values.std() if len(values) > 1 else values.new_full((), torch.nan)


def two_sided_p_value(gaps: Tensor) -> float:
    """Return the p-value of no difference: twice the share of replicates on the rarer side of 0, (b + 1) / (B + 1)."""
    gaps = gaps[~torch.isnan(gaps)]
    beyond = min(int((gaps <= 0).sum()), int((gaps >= 0).sum()))
    return min(1.0, 2 * (beyond + 1) / (len(gaps) + 1))


def percentile(values: Tensor, confidence_level: float) -> Ends:
    """Return the ends of the central share ``confidence_level`` of the replicates (Efron 1979)."""
    tail = (1 - confidence_level) / 2
    low, high = torch.nanquantile(values, values.new_tensor([tail, 1 - tail]))
    return low, high


def basic(values: Tensor, estimate: Tensor, confidence_level: float) -> Ends:
    """Return the percentiles mirrored at the estimate, which corrects their bias (Davison & Hinkley 1997)."""
    low, high = percentile(values, confidence_level)
    return 2 * estimate - high, 2 * estimate - low


def bca(values: Tensor, estimate: Tensor, acceleration: Tensor, confidence_level: float) -> Ends:
    """Return the bias-corrected and accelerated interval (Efron 1987).

    The ends are the quantiles at Phi(z0 + (z0 + z) / (1 - a (z0 + z))). z0 is computed from the share of replicates
    below the estimate, plus half the share equal to it.
    """
    values = values[~torch.isnan(values)]
    below = segments.as_float64(values < estimate).mean() + segments.as_float64(values == estimate).mean() / 2
    shift = torch.special.ndtri(below.clamp(0.5 / len(values), 1 - 0.5 / len(values)))
    z = shift + values.new_tensor([-1.0, 1.0]) * normal_quantile(confidence_level)
    low, high = torch.quantile(values, torch.special.ndtr(shift + z / (1 - acceleration * z)))
    return low, high


def _draw(seed: int, span: range, hits: Tensor, misses: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Draw the hits and misses of each group in each resample, (b, columns) each; ``n`` is 0 where m is fixed."""
    hit_sizes, miss_sizes = hits.numpy(), misses.numpy()
    m, q = int(hit_sizes.sum()), int(miss_sizes.sum())

    def draw_counts(rng: np.random.Generator) -> tuple[Array, Array]:
        count = int(rng.binomial(n, m / n)) if n else m
        return multinomial(rng, hit_sizes, count), multinomial(rng, miss_sizes, n - count if n else q)

    columns = zip(*rows(draw_counts, generators(seed, span), m + q), strict=True)
    hit_counts, miss_counts = (torch.from_numpy(np.stack(column)) for column in columns)
    return hit_counts, miss_counts


def _draw_on_device(
    generator: torch.Generator, hits: Tensor, misses: Tensor, design: str, count: int
) -> tuple[Tensor, Tensor]:
    m, q = hits.sum().expand(count), misses.sum().expand(count)
    if design == "iid":
        n, share = segments.as_float64(m + q), segments.as_float64(m) / segments.as_float64(m + q)
        m = torch.binomial(n, share, generator=generator).to(torch.int64)
        q = n.to(torch.int64) - m
    return multinomial_on_device(generator, hits, m), multinomial_on_device(generator, misses, q)
