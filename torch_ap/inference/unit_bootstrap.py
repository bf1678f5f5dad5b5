"""The bootstrap over units that hold many items of many rankings: over images for detection's mean average precision.

Drawing images with repetition only changes how often each detection and each ground truth counts. The detections stay
matched and sorted as they are, so a replicate is a weight an image, and costs a few running sums.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from torch_ap.core import checks_inference, segments
from torch_ap.inference import bootstrap
from torch_ap.inference.interval import Interval
from torch_ap.inference.resampling import Resampling, generators, multinomial, multinomial_on_device, rows


@dataclass(frozen=True, eq=False)
class RankedUnits:
    """Rankings of items that belong to units; S rankings over K lists, of which several may share one.

    A list holds items, best first: the detections of a category. A ranking says what some of them are in it: at one IoU
    threshold, which are true positives, and which drop out or come in. All others of its list are misses.

    Attributes:
        unit: (N,) int64 in [0, U), the unit of each item; lists end to end.
        counted: (N,) bool, whether the item counts in the rankings of its list that say nothing else.
        offsets: (K + 1,) int64, where the items of each list begin and end.
        event_item: (E,) int64, the items that a ranking says something of, ascending in each ranking.
        event_hit: (E,) bool, whether it is a hit there.
        event_counts: (E,) bool, whether it counts as an item there; a hit does.
        event_offsets: (S + 1,) int64, where the events of each ranking begin and end.
        ranking_list: (S,) int64, the list of each ranking.
        relevant_unit: (G,) int64, the unit of each relevant thing.
        relevant_list: (G,) int64, the list in whose rankings it is to be found.
        units: U.
    """

    unit: Tensor
    counted: Tensor
    offsets: Tensor
    event_item: Tensor
    event_hit: Tensor
    event_counts: Tensor
    event_offsets: Tensor
    ranking_list: Tensor
    relevant_unit: Tensor
    relevant_list: Tensor
    units: int

    def average_precision(self, weights: Tensor, levels: Tensor | None = None) -> Tensor:
        """AP of each ranking when each unit occurs so many times.

        Args:
            weights: (b, U) int64, at least 0.
            levels: (R,) float64 recall levels of interpolated AP; None for the plain sum.

        Returns:
            (b, S) float64; NaN where nothing is relevant.
        """
        hits, through, items = self._through(weights)
        m = self._relevant(weights)
        precision = torch.where(through > 0, through.to(torch.float64) / items, 0)
        if levels is not None:
            return self._interpolated(through, precision, m, levels)
        total = torch.stack([segments.total(row, self.event_offsets) for row in hits * precision])
        return torch.where(m > 0, total / m, torch.nan)

    def _through(self, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(b, E) hits of each event, hits through it, and items through it."""
        ranking = segments.ids(self.event_offsets)
        items = _from_zero(weights[:, self.unit] * self.counted)
        start = items[:, self.offsets[self.ranking_list]][:, ranking]
        times = weights[:, self.unit[self.event_item]]
        change = self.event_counts.to(torch.int64) - self.counted[self.event_item].to(torch.int64)
        hits = times * self.event_hit
        through, changed = (_from_zero(x) for x in (hits, times * change))
        first = self.event_offsets[:-1][ranking]
        items = items[:, self.event_item + 1] - start + (changed[:, 1:] - changed[:, first])
        return hits, through[:, 1:] - through[:, first], items

    def _relevant(self, weights: Tensor) -> Tensor:
        """(b, S) int64 relevant things of each ranking."""
        m = weights.new_zeros(len(weights), len(self.offsets) - 1)
        return m.index_add_(1, self.relevant_list, weights[:, self.relevant_unit])[:, self.ranking_list]

    def _interpolated(self, through: Tensor, precision: Tensor, m: Tensor, levels: Tensor) -> Tensor:
        """Mean over the levels of the highest precision at any recall of at least each: (b, S)."""
        count, size = through.shape
        rankings = len(self.event_offsets) - 1
        # each ranking is lifted above those to its right, and one running maximum from the right serves all
        lift = 2.0 * (rankings - 1 - segments.ids(self.event_offsets))
        envelope = (precision + lift).flip(1).cummax(1).values.flip(1) - lift
        envelope = torch.cat([envelope, envelope.new_zeros(count, 1)], 1)
        # hits never fall along a ranking: one search in whole numbers finds the first event that reaches each level
        step = int(m.max()) + 2 if m.numel() else 2
        line = segments.ids(self.event_offsets) * step + through
        needed = _needed(m, levels) + (torch.arange(rankings, device=m.device) * step)[:, None]
        place = torch.searchsorted(line.contiguous(), needed.reshape(count, -1)).reshape(needed.shape)
        place = torch.where(place < self.event_offsets[1:, None], place, size)
        reached = envelope.gather(1, place.reshape(count, -1)).reshape(place.shape)
        return torch.where(m > 0, reached.mean(2), torch.nan)


def unit_replicates(ranked: RankedUnits, resampling: Resampling, levels: Tensor | None = None) -> Tensor:
    """The mean AP over the rankings that have something to find, of B resamples of the units: (B,) float64."""
    device = ranked.unit.device
    on_device = device.type != "cpu"
    generator, seed = (resampling.on(device), 0) if on_device else (None, resampling.seed())
    width = 2 * len(ranked.unit) + 8 * len(ranked.event_item)
    width += 4 * len(ranked.ranking_list) * (0 if levels is None else len(levels))
    ones = torch.ones(ranked.units, dtype=torch.int64, device=device)

    def one(rng: np.random.Generator) -> Tensor:
        return torch.from_numpy(multinomial(rng, ones.numpy(), ranked.units))

    parts = []
    for span in resampling.spans(width):
        if generator is not None:
            weights = multinomial_on_device(generator, ones, (ones * ranked.units)[:1].expand(len(span)))
        else:
            weights = torch.stack(rows(one, generators(seed, span), ranked.units))
        parts.append(ranked.average_precision(weights, levels).nanmean(1))
    return torch.cat(parts)


def unit_interval(
    ranked: RankedUnits, *, level: float = 0.95, levels: Tensor | None = None, resampling: Resampling | None = None
) -> Interval:
    """A confidence interval for mean AP by the bootstrap over units: percentiles and standard error.

    Args:
        ranked: the rankings.
        level: nominal coverage, in (0, 1).
        levels: (R,) recall levels of interpolated AP, such as COCO's 101; None for the plain sum.
        resampling: None for 1,000 replicates that repeat.

    Returns:
        :class:`torch_ap.inference.interval.Interval` of 0-d float64 tensors; NaN where nothing is relevant, or all
        stands in one unit.

    Raises:
        ValueError: for a level outside (0, 1).

    Source: Efron (1979); units are drawn with all that they hold.

    Example:
        >>> import torch
        >>> from torch_ap.inference.unit_bootstrap import RankedUnits, unit_interval
        >>> hits, one = torch.tensor([True, False, True, True, False, False]), torch.tensor([0, 6])
        >>> ranked = RankedUnits(
        ...     unit=torch.arange(6), counted=torch.ones(6, dtype=torch.bool), offsets=one,
        ...     event_item=hits.nonzero()[:, 0], event_hit=hits[hits], event_counts=hits[hits],
        ...     event_offsets=torch.tensor([0, 3]), ranking_list=torch.tensor([0]),
        ...     relevant_unit=hits.nonzero()[:, 0], relevant_list=torch.zeros(3, dtype=torch.int64), units=6,
        ... )
        >>> round(float(unit_interval(ranked).estimate), 4)
        0.8056
    """
    checks_inference.level(level)
    every = torch.ones(1, ranked.units, dtype=torch.int64, device=ranked.unit.device)
    estimate = ranked.average_precision(every, levels).nanmean()
    nan = torch.full_like(estimate, torch.nan)
    empty = Interval(estimate, nan, nan, nan, level, "bootstrap-percentile", "iid")
    if bool(torch.isnan(estimate)):
        return replace(empty, reason="nothing is relevant")
    if ranked.units < 2:
        return replace(empty, reason="one unit, which has no spread: the ends are NaN")
    values = unit_replicates(ranked, resampling or Resampling(), levels)
    low, high = bootstrap.percentile(values, level)
    return replace(empty, low=low, high=high, standard_error=bootstrap.standard_error(values))


def _needed(m: Tensor, levels: Tensor) -> Tensor:
    """(b, S, R) the fewest hits h with h / m of at least each level, compared as floats."""
    m, levels = m.clamp(min=1).to(torch.float64)[:, :, None], levels.to(torch.float64)
    about = torch.ceil(levels * m)
    about = torch.where((about - 1) / m >= levels, about - 1, about)
    return torch.where(about / m < levels, about + 1, about).clamp(min=0).to(torch.int64)


def _from_zero(counts: Tensor) -> Tensor:
    """Running sums along each row, with a 0 before the first."""
    return torch.cat([counts.new_zeros(len(counts), 1), counts.cumsum(1)], 1)
