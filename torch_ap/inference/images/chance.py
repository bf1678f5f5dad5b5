"""What chance gives the rankings of a :class:`ResampledRankings`: the items of each list in random order.

Hits stay hits, and what drops out of a ranking stays out. Interpolated AP of a random order has no closed form of its
mean. That of the plain sum has one, so only what interpolation adds to it is simulated, which spreads two to seven
times less than the whole.
"""

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve.interpolation import needed_hits
from torch_ap.inference.images.bootstrap import size_of
from torch_ap.inference.images.resampled_rankings import InterpolationRule, ResampledRankings, envelope, lift_of
from torch_ap.inference.random_ranking import expected_average_precision
from torch_ap.inference.resampling import Resampling, generators, rows
from torch_ap.ranking import order, segments


def chance_of_images(
    ranked: ResampledRankings, *, interpolation: InterpolationRule = None, resampling: Resampling | None = None
) -> Tensor:
    r"""The mean over all orders of the items of each list, of mean AP over the rankings that have something to find.

    .. math::
        E(\bar I) = E(\bar P) + E(\bar I - \bar P)

    with the plain AP P, whose mean is exact, and the interpolated AP I of the same B random orders.

    Args:
        ranked: the rankings.
        interpolation: as for :meth:`ResampledRankings.average_precision`; None, for the plain sum, needs no replicates.
        resampling: how many orders, from which generator; None for 1,000 that repeat.

    Returns:
        0-d float64; NaN where nothing is relevant.
    """
    how, shuffles = resampling or Resampling(), Shuffles(ranked, interpolation)
    if interpolation is None or not len(shuffles.ranking):
        return shuffles.expected
    return shuffles.expected + _gains(shuffles, how).mean()


class Shuffles:
    """What does not depend on the order of the items is computed once; a call gives the gain of some orders.

    Args:
        ranked: the rankings.
        interpolation: as for :meth:`ResampledRankings.average_precision`.

    Attributes:
        ranked, interpolation: as given.
        items: N, how many there are.
        bits: how many random bits an item has.
        ranking: (H,) int64, the ranking of each hit.
        expected: 0-d float64, the mean of the mean plain AP over all orders.
    """

    def __init__(self, ranked: ResampledRankings, interpolation: InterpolationRule) -> None:
        self.ranked, self.interpolation = ranked, interpolation
        self.items, lists = len(ranked.image), len(ranked.offsets) - 1
        self.bits = 63 - self.items.bit_length() - lists.bit_length()
        self._counted, self._all_count = ranked.counted.to(torch.int64), bool(ranked.counted.all())
        place = torch.arange(self.items, device=ranked.image.device)
        self._line = (segments.ids(ranked.offsets) << (63 - lists.bit_length())) | place
        ranking = segments.ids(ranked.event_offsets)
        self.ranking, self._hit_item = ranking[ranked.event_hit], ranked.event_item[ranked.event_hit]
        self._count_changes(ranking)
        every = torch.ones(1, ranked.images, dtype=torch.int64, device=place.device)
        self._m = ranked.relevant(every)[0]
        self._known = (self._m > 0).nonzero().squeeze(1)
        self._edges = segments.from_counts(segments.count(self.ranking, len(self._m)))
        self._cumulative = torch.arange(1, len(self.ranking) + 1, device=place.device) - self._edges[self.ranking]
        self.expected = self._mean(self._plain())

    def _count_changes(self, ranking: Tensor) -> None:
        """Items that a ranking leaves out, or takes in, other than its list says."""
        ranked = self.ranked
        delta = ranked.event_counts.to(torch.int64) - ranked.counted[ranked.event_item].to(torch.int64)
        changed = delta.nonzero().squeeze(1)
        self._changed_item, self._changed_ranking = ranked.event_item[changed], ranking[changed]
        self._delta = delta[changed]
        self._change = delta.new_zeros(len(ranked.ranking_list)).index_add_(0, ranking, delta)

    def _plain(self) -> Tensor:
        """(S,) E(AP) of each ranking: its items in random order."""
        cumulative = segments.from_counts(self._counted)[self.ranked.offsets]
        n, hits = cumulative.diff()[self.ranked.ranking_list] + self._change, self._edges.diff()
        total = expected_average_precision(n.clamp(min=1), hits, denominator="relevant") * hits
        return torch.where(hits > 0, total, 0) / self._m

    def _mean(self, values: Tensor) -> Tensor:
        """Mean over the rankings that have something to find, of (..., S)."""
        return values[..., self._known].mean(-1)

    def __call__(self, random: Tensor) -> Tensor:
        """(b,) what interpolation adds to the mean plain AP, in each of b orders.

        Args:
            random: (b, N) int64 in [0, 2^bits), by which the items of each list are sorted.
        """
        precision = self._cumulative / segments.as_float64(self._cumulative_counted(self._shuffled(random)))
        height = envelope(precision, lift_of(self._edges))
        gain = -self._area(precision)
        if self._reaches is None:
            return self._mean(gain + self._area(height))
        height = torch.cat([height, height.new_zeros(len(height), 1)], 1)
        return self._mean(gain + height[:, self._reaches].mean(2))

    @cached_property
    def _reaches(self) -> Tensor | None:
        """(S, R) the hit that reaches each recall level, whatever the order; H where none does."""
        if not isinstance(self.interpolation, Tensor):
            return None
        place = self._edges[:-1, None] + needed_hits(self._m, self.interpolation).clamp(min=1) - 1
        return torch.where(place < self._edges[1:, None], place, len(self.ranking))

    def _area(self, height: Tensor) -> Tensor:
        """(b, S) sum of the heights of all hits, over m."""
        return segments.from_zero(height)[:, self._edges].diff(dim=1) / self._m

    def _shuffled(self, random: Tensor) -> Tensor:
        """(b, N) the place of each item among all, those of a list before those of the next, in random order."""
        width = self.items.bit_length()
        item = order.sort(self._line | (random << width)) & ((1 << width) - 1)
        return torch.empty_like(item).scatter_(1, item, torch.arange(self.items, device=item.device).expand_as(item))

    def _cumulative_counted(self, place: Tensor) -> Tensor:
        """(b, H) items that count through each hit; the hits of each ranking in their new order."""
        start, size = self.ranked.offsets[self.ranked.ranking_list], self.items
        line = order.sort(place[:, self._hit_item] + self.ranking * size)
        found = line - self.ranking * size
        if self._all_count:
            items = found + 1 - start[self.ranking]
        else:
            counted = segments.from_zero(torch.empty_like(place).scatter_(1, place, self._counted.expand_as(place)))
            items = counted.gather(1, found + 1) - counted[:, start[self.ranking]]
        if not len(self._changed_item):
            return items
        first = torch.searchsorted(line, place[:, self._changed_item] + self._changed_ranking * size)
        change = torch.zeros(len(line), line.shape[1] + 1, dtype=torch.int64, device=line.device)
        change.scatter_add_(1, first, self._delta.expand_as(first))
        before = self._change.cumsum(0) - self._change
        return items + change.cumsum(1)[:, :-1] - before[self.ranking]


def _gains(shuffles: Shuffles, resampling: Resampling) -> Tensor:
    """(B,) what interpolation adds, in random orders."""
    ranked, interpolation = shuffles.ranked, shuffles.interpolation
    size, device = size_of(ranked, interpolation) + 4 * shuffles.items, ranked.image.device
    bound = 1 << shuffles.bits
    if device.type != "cpu":
        generator = resampling.on(device)

        def draw(count: int) -> tuple[Tensor]:
            return (torch.randint(bound, (count, shuffles.items), generator=generator, device=device),)

        return torch.cat([shuffles(*random) for random in resampling.drawn_on_device(size, draw)])

    def one(rng: np.random.Generator) -> Tensor:
        return shuffles(torch.from_numpy(rng.integers(bound, size=(1, shuffles.items))))

    seed = resampling.seed()
    return torch.cat([x for span in resampling.batches(size) for x in rows(one, generators(seed, span), size)])
