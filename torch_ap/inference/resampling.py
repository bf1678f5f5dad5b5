"""Bootstrap of rankings: resamples as counts, replicates of AP, and the intervals computed from them.

AP depends on a resample only through the number of times that each item, or each group of equal items, is drawn. So a
resample is a vector of counts, no resample is sorted, and a batch of resamples is one curve of many rankings. Copies of
a hit are tied with each other, which biases the replicates slightly upward.

On CPU, each resample has its own NumPy generator, seeded by the ``torch.Generator``: the resamples do not depend on the
batch size or the number of threads. On accelerators, torch generates the random numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import checks
from torch_ap.core.base.messages import Plain, raise_invalid
from torch_ap.core.base.options import Design, allowed_values
from torch_ap.core.base.progress import progress_bar
from torch_ap.core.ranking import order, segments
from torch_ap.core.ranking.builders import from_rows
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.inference.influence import ItemValues, count_misses
from torch_ap.inference.record import SAME_VALUE, Ends, normal_quantile

DESIGNS = allowed_values(Design)
_DRAWS_PER_GROUP = 16  # above, a multinomial draw is faster than counting single draws
_NUMBERS_PER_BATCH = 1 << 23
_NUMBERS_PER_TASK = 1 << 18
_TASKS_PER_STEP = 8  # of each thread, between two changes of a progress bar


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
        self, statistic: "Callable[[np.random.Generator], float]", width: int, size: int, seed: int | None = None
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

    def map_tasks(
        self, work: "Callable[[list[np.random.Generator]], Any]", size: int, most_numbers: int = _NUMBERS_PER_TASK
    ) -> list[Any]:
        """Return ``work(rngs)`` for tasks of several resamples each, which run on CPU threads.

        Args:
            work: function of the generators of some resamples; its result must not depend on the division into tasks.
            size: approximate count of numbers that one resample stores.
            most_numbers: count of numbers that one task stores, unless one resample stores more.
        """
        seed, most = self.seed(), max(1, most_numbers // max(size, 1))
        at_once = self.chunk_size or self.n_resamples
        threads = min(order.workers(size * self.n_resamples), at_once)
        spans = _spans(self.n_resamples, min(most, at_once // threads))
        steps: Any = progress_bar(order.blocks(slice(0, len(spans)), _TASKS_PER_STEP * threads), self.progress)
        with order.torch_thread_pool(threads) as pool_map:
            return [x for step in steps for x in pool_map(lambda span: work(generators(seed, span)), spans[step])]

    def draw_on_device(
        self, width: int, draw: Callable[[int], tuple[Tensor, ...]], drawn: int | None = None
    ) -> Iterator[tuple[Tensor, ...]]:
        """Yield the tensors of ``draw(b)``, (b, ...) each, for each of :meth:`batches`.

        The random numbers of a device's generator depend on the block size, so the block size does not depend on
        ``chunk_size``, nor on ``width`` if ``drawn`` is given: the count of numbers that one resample draws.
        """
        blocks = (draw(len(block)) for block in _spans(self.n_resamples, _batch_size(drawn or width)))
        buffer = next(blocks)
        for span in self.batches(width):
            while len(buffer[0]) < len(span):
                buffer = tuple(torch.cat(parts) for parts in zip(buffer, next(blocks), strict=True))
            yield tuple(x[: len(span)] for x in buffer)
            buffer = tuple(x[len(span) :] for x in buffer)

    def draws(
        self,
        device: torch.device,
        width: int,
        size: int,
        draw: "Callable[[np.random.Generator], tuple[Array, ...]]",
        draw_on_device: Callable[[torch.Generator, int], tuple[Tensor, ...]],
    ) -> Iterator[tuple[Tensor, ...]]:
        """Yield the random counts of each of :meth:`batches`, as (b, ...) tensors on a device.

        Args:
            device: device of the counts.
            width: count of numbers that one resample stores, which determines the batch size.
            size: count of numbers that one resample draws, which determines the number of threads.
            draw: function of the generator of one resample, used on CPU.
            draw_on_device: function of a generator on the device and of b, used on other devices.
        """
        if device.type != "cpu":
            yield from self.draw_on_device(width, partial(draw_on_device, self.generator_on(device)))
            return
        seed = self.seed()
        for span in self.batches(width):
            columns = zip(*rows(draw, generators(seed, span), size), strict=True)
            yield tuple(torch.from_numpy(np.stack(column)) for column in columns)


@dataclass(frozen=True, eq=False)
class InferenceSettings:
    """Validated settings of an interval or a comparison of rankings, named as in the public functions.

    Args:
        confidence_level: nominal coverage, in (0, 1).
        method: name of the method; the functions that use the settings validate it.
        design: "iid" (the number of hits is random) or "stratified" (it is fixed).
        resampling: settings of the methods that resample.
        simultaneous: whether the level is the probability that the intervals of all classes contain their values.
        first_look: number of items at the first of several looks, at all of which the interval holds; None for one.

    Raises:
        ValueError: if ``confidence_level``, ``design``, ``simultaneous`` or ``first_look`` is invalid.
    """

    confidence_level: float = 0.95
    method: str = "influence"
    design: str = "iid"
    resampling: Resampling = Resampling()
    simultaneous: bool = False
    first_look: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence_level", checks.open_fraction("confidence_level", self.confidence_level))
        checks.one_of("design", self.design, DESIGNS)
        checks.boolean("simultaneous", self.simultaneous)
        first_look = checks.positive_int("first_look", self.first_look, least=2, optional=True)
        object.__setattr__(self, "first_look", first_look)

    @property
    def fields(self) -> dict[str, Any]:
        """The settings that results contain, by field name."""
        return {"confidence_level": self.confidence_level, "method": self.method, "design": self.design}


def _spans(count: int, step: int) -> list[range]:
    return [range(first, min(first + step, count)) for first in range(0, count, step)]


def _batch_size(width: int) -> int:
    """Return the number of resamples per batch if each stores ``width`` numbers."""
    return max(1, _NUMBERS_PER_BATCH // max(width, 1))


def generators(seed: int, replicates: range) -> "list[np.random.Generator]":
    """Return the NumPy generators of these replicates."""
    return [np.random.Generator(np.random.SFC64([seed, replicate])) for replicate in replicates]


def multinomial(rng: "np.random.Generator", sizes: Array, draws: int) -> Array:
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
    return np.diff(segments.from_zero(times_drawn(rng, total, draws))[segments.from_zero(sizes)])


def times_drawn(rng: "np.random.Generator", items: int, draws: int) -> Array:
    """Draw items with equal probabilities, and return the number of times that each is drawn: (items,) int64."""
    if not items:
        return np.zeros(0, np.int64)
    width = np.uint32 if items < 1 << 32 else np.int64
    return np.bincount(rng.integers(0, items, draws, dtype=width), minlength=items)


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


def rows(work: Any, rngs: "list[np.random.Generator]", size: int) -> list[Any]:
    """Return ``work(rng)`` for each replicate, on a number of threads that suits ``size`` numbers per replicate."""
    return order.run_in_threads(work, rngs, order.workers(size * len(rngs)))


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
    m, n = int(curve.m), int(curve.n)
    width = 8 * len(hits) + (0 if hits.is_cpu else n)
    draw = partial(_draw, hits.cpu().numpy(), misses.cpu().numpy(), m, n, design)
    draws = resampling.draws(hits.device, width, n, draw, partial(_draw_on_device, hits, misses, design))
    return torch.cat([measure(curve_from_counts(*counts)) for counts in draws])


def _draw(hits: Array, misses: Array, m: int, n: int, design: str, rng: "np.random.Generator") -> tuple[Array, Array]:
    """Draw the number of hits and of misses from each group in one resample, (K,) each."""
    count = int(rng.binomial(n, m / n)) if design == "iid" else m
    return multinomial(rng, hits, count), multinomial(rng, misses, n - count)


def _draw_on_device(
    hits: Tensor, misses: Tensor, design: str, generator: torch.Generator, count: int
) -> tuple[Tensor, Tensor]:
    m, q = hits.sum().expand(count), misses.sum().expand(count)
    if design == "iid":
        n, share = segments.as_float64(m + q), segments.as_float64(m) / segments.as_float64(m + q)
        m = torch.binomial(n, share, generator=generator).to(torch.int64)
        q = n.to(torch.int64) - m
    return multinomial_on_device(generator, hits, m), multinomial_on_device(generator, misses, q)


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


@dataclass(frozen=True, eq=False)
class GroupedItems:
    """Items of one ranking, assigned to the groups of its hit curve.

    Attributes:
        group: (N,) int64 in [0, G), the group of each item: the hits of each of E tie groups, the hits never retrieved,
            the misses above each tie group, the misses below the last one, and the misses that tie with hits.
        sizes: E + 1 groups of hits, and E + 1 or 2E + 1 groups of misses, as in :func:`curve_from_counts`.
    """

    group: Tensor
    sizes: tuple[int, int]

    def curve(self, weights: Tensor) -> HitCurve:
        """Return the hit curves of b resamples.

        Args:
            weights: (b, N) int64, how often each item occurs.
        """
        counts = weights.new_zeros(len(weights), sum(self.sizes)).index_add_(1, self.group, weights)
        return curve_from_counts(counts[:, : self.sizes[0]], counts[:, self.sizes[0] :])


def group_items(curve: HitCurve, scores: Tensor, relevant: Tensor, *, split_ties: bool = False) -> GroupedItems:
    """Return the group of each item of one ranking.

    Args:
        curve: the ranking.
        scores: (N,) scores from which the curve was made.
        relevant: (N,) bool.
        split_ties: as for :func:`replicates`.
    """
    groups = len(curve.hits)
    index = torch.arange(groups, device=scores.device)
    last = index.new_full((1,), groups)
    values = ItemValues(curve, index, index + groups + 1, last, last + groups + 1)
    group = values.values_at(scores, relevant)
    if not split_ties or not bool((curve.items > curve.hits).any()):
        return GroupedItems(group, (groups + 1, groups + 1))
    assert curve.score is not None
    above = (group - groups - 1).clamp(0, groups - 1)  # the tie group of a miss that is not below the last
    tied = ~relevant & (scores == curve.score[above])
    return GroupedItems(group + tied * (groups + 1), (groups + 1, 2 * groups + 1))


def replicate_items(
    measure: Callable[[Tensor], Tensor], strata: Sequence[Tensor], items: int, resampling: Resampling
) -> Tensor:
    """Compute a measure under B resamples of items that several rankings share: (B, ...).

    Args:
        measure: function of (b, N) int64 weights, how often each item is drawn, that returns (b, ...) values.
        strata: indices of the items of each stratum, which is resampled separately. Items of no stratum, such as
            ignored items, are never drawn.
        items: N.
        resampling: number of resamples, generator and memory limit.
    """
    draw, draw_on_device = partial(_draw_items, strata, items), partial(_draw_items_on_device, strata, items)
    draws = resampling.draws(strata[0].device, 4 * items, items, draw, draw_on_device)
    return torch.cat([measure(*weights) for weights in draws])


def _draw_items(strata: Sequence[Tensor], items: int, rng: "np.random.Generator") -> tuple[Array]:
    """Return the number of times each item is drawn in one resample, (N,)."""
    weights = np.zeros(items, np.int64)
    for indices in strata:
        weights[indices.numpy()] = times_drawn(rng, len(indices), len(indices))
    return (weights,)


def _draw_items_on_device(
    strata: Sequence[Tensor], items: int, generator: torch.Generator, count: int
) -> tuple[Tensor]:
    weights = torch.zeros(count, items, dtype=torch.int64, device=generator.device)
    for indices in strata:
        sizes = torch.ones_like(indices)
        weights[:, indices] = multinomial_on_device(generator, sizes, sizes.sum().expand(count))
    return (weights,)


def standard_error(values: Tensor) -> Tensor:
    """Return the standard deviation of the replicates that are not NaN, 0-d; NaN for fewer than two."""
    values = values[~torch.isnan(values)]
    return values.std() if len(values) > 1 else values.new_full((), torch.nan)


def two_sided_p_value(gaps: Tensor) -> tuple[float, float]:
    """Return the p-value of no difference and the smallest possible one.

    The p-value is twice the share of replicates on the rarer side of 0, (b + 1) / (B + 1).
    """
    gaps = gaps[~torch.isnan(gaps)]
    beyond = min(int((gaps <= 0).sum()), int((gaps >= 0).sum()))
    return min(1.0, 2 * (beyond + 1) / (len(gaps) + 1)), 2 / (len(gaps) + 1)


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
    below the estimate, plus half the share equal to it, up to rounding.
    """
    values = values[~torch.isnan(values)]
    gaps = values - estimate
    below = (segments.as_float64(gaps < -SAME_VALUE) + segments.as_float64(gaps <= SAME_VALUE)).mean() / 2
    shift = torch.special.ndtri(below.clamp(0.5 / len(values), 1 - 0.5 / len(values)))
    z = shift + values.new_tensor([-1.0, 1.0]) * normal_quantile(confidence_level)
    low, high = torch.quantile(values, torch.special.ndtr(shift + z / (1 - acceleration * z)))
    return low, high
