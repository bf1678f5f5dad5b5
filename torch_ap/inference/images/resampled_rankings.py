"""Rankings of items that belong to images: detections, which belong to images.

Drawing images with repetition only changes how often each detection and each ground truth counts. The detections stay
matched and sorted as they are, so a resample is a weight per image, and costs a few running sums.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from torch_ap.ranking import segments

# recall levels of interpolated AP, the area under the interpolated curve, or the plain sum
Interpolation: TypeAlias = Tensor | Literal["all-points"] | None


@dataclass(frozen=True, eq=False)
class ResampledRankings:
    """Rankings of items that belong to images; S rankings over K lists, of which several may share one.

    A list holds items, best first: the detections of a category. A ranking says what some of them are in it: at one IoU
    threshold, which are true positives, and which drop out or come in. All others of its list are misses.

    Attributes:
        image: (N,) int64 in [0, U), the image of each item; lists end to end.
        counted: (N,) bool, whether the item counts in the rankings of its list that say nothing else.
        offsets: (K + 1,) int64, where the items of each list begin and end.
        event_item: (E,) int64, the items that a ranking says something of, ascending in each ranking.
        event_hit: (E,) bool, whether it is a hit there.
        event_counts: (E,) bool, whether it counts as an item there; a hit does.
        event_offsets: (S + 1,) int64, where the events of each ranking begin and end.
        ranking_list: (S,) int64, the list of each ranking.
        relevant_image: (G,) int64, the image of each relevant thing.
        relevant_list: (G,) int64, the list in whose rankings it is to be found.
        images: U.
    """

    image: Tensor
    counted: Tensor
    offsets: Tensor
    event_item: Tensor
    event_hit: Tensor
    event_counts: Tensor
    event_offsets: Tensor
    ranking_list: Tensor
    relevant_image: Tensor
    relevant_list: Tensor
    images: int

    def average_precision(self, weights: Tensor, interpolation: Interpolation = None) -> Tensor:
        """AP of each ranking when each image occurs so many times.

        Args:
            weights: (b, U) int64, at least 0.
            interpolation: (R,) float64 recall levels of interpolated AP; "all-points" for the area under the
                interpolated curve; None for the plain sum.

        Returns:
            (b, S) float64; NaN where nothing is relevant.
        """
        hits, through, items = self._cumulative(weights)
        m = self.relevant(weights)
        precision = torch.where(through > 0, through.to(torch.float64) / items, 0)
        if isinstance(interpolation, Tensor):
            return self._at_levels(through, precision, m, interpolation)
        height = precision if interpolation is None else envelope(precision, self.event_offsets)
        total = torch.stack([segments.total(row, self.event_offsets) for row in hits * height])
        return torch.where(m > 0, total / m, torch.nan)

    def _cumulative(self, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(b, E) hits of each event, hits through it, and items through it."""
        ranking = segments.ids(self.event_offsets)
        items = from_zero(weights[:, self.image] * self.counted)
        start = items[:, self.offsets[self.ranking_list]][:, ranking]
        times = weights[:, self.image[self.event_item]]
        change = self.event_counts.to(torch.int64) - self.counted[self.event_item].to(torch.int64)
        hits = times * self.event_hit
        through, changed = (from_zero(x) for x in (hits, times * change))
        first = self.event_offsets[:-1][ranking]
        items = items[:, self.event_item + 1] - start + (changed[:, 1:] - changed[:, first])
        return hits, through[:, 1:] - through[:, first], items

    def relevant(self, weights: Tensor) -> Tensor:
        """(b, S) int64 relevant things of each ranking."""
        m = weights.new_zeros(len(weights), len(self.offsets) - 1)
        return m.index_add_(1, self.relevant_list, weights[:, self.relevant_image])[:, self.ranking_list]

    def _at_levels(self, through: Tensor, precision: Tensor, m: Tensor, levels: Tensor) -> Tensor:
        """Mean over the levels of the highest precision at any recall of at least each: (b, S)."""
        count, size = through.shape
        rankings = len(self.event_offsets) - 1
        height = torch.cat([envelope(precision, self.event_offsets), precision.new_zeros(count, 1)], 1)
        # hits never fall along a ranking: one search in whole numbers finds the first event that reaches each level
        step = int(m.max()) + 2 if m.numel() else 2
        line = segments.ids(self.event_offsets) * step + through
        needed = needed_hits(m, levels) + (torch.arange(rankings, device=m.device) * step)[:, None]
        place = torch.searchsorted(line.contiguous(), needed.reshape(count, -1)).reshape(needed.shape)
        place = torch.where(place < self.event_offsets[1:, None], place, size)
        reached = height.gather(1, place.reshape(count, -1)).reshape(place.shape)
        return torch.where(m > 0, reached.mean(2), torch.nan)


def envelope(precision: Tensor, offsets: Tensor) -> Tensor:
    """The highest precision from each entry to the end of its ranking: (b, E) to (b, E)."""
    # each ranking is lifted above those to its right, and one running maximum from the right serves all
    lift = 2.0 * (len(offsets) - 2 - segments.ids(offsets))
    return (precision + lift).flip(1).cummax(1).values.flip(1) - lift


def needed_hits(m: Tensor, levels: Tensor) -> Tensor:
    """(b, S, R) the fewest hits h with h / m of at least each level, compared as floats."""
    m, levels = m.clamp(min=1).to(torch.float64)[:, :, None], levels.to(torch.float64)
    about = torch.ceil(levels * m)
    about = torch.where((about - 1) / m >= levels, about - 1, about)
    return torch.where(about / m < levels, about + 1, about).clamp(min=0).to(torch.int64)


def from_zero(counts: Tensor) -> Tensor:
    """Running sums along each row, with a 0 before the first."""
    return torch.cat([counts.new_zeros(len(counts), 1), counts.cumsum(1)], 1)
