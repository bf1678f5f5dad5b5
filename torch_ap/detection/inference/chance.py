"""Chance level of a :class:`ResampledRankings`, with the items of each list in random order.

Hits remain hits, and omitted items remain omitted. The mean of interpolated AP over random orders has no closed form,
but the mean of the plain sum has. So only the difference of the two is simulated, whose standard deviation is two to
seven times smaller than the standard deviation of interpolated AP.
"""

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.options import InterpolationRule
from torch_ap.core.measures.chance import expected_average_precision
from torch_ap.core.measures.convention import PLAIN, Convention
from torch_ap.core.ranking import order, segments
from torch_ap.core.ranking.builders import from_rows
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.detection.inference.rankings import ResampledRankings
from torch_ap.detection.inference.resampled import size_of
from torch_ap.inference.resampling import Resampling


def chance_of_images(
    ranked: ResampledRankings, *, interpolation: InterpolationRule = None, resampling: Resampling | None = None
) -> Tensor:
    r"""Return the mean over all item orders of the mean AP over the rankings with ground truths.

    .. math::
        E(\bar I) = E(\bar P) + E(\bar I - \bar P)

    with the plain AP P, whose mean is exact, and the interpolated AP I of the same B random orders.

    Args:
        ranked: the rankings.
        interpolation: as for :meth:`ResampledRankings.average_precision`; None, for the plain sum, needs no replicates.
        resampling: number of orders and generator; None for 1,000 orders that repeat.

    Returns:
        0-d float64; NaN without ground truths.
    """
    how, shuffles = resampling or Resampling(), Shuffles(ranked, interpolation)
    if interpolation is None or not shuffles.hits:
        return shuffles.expected
    return shuffles.expected + _gains(shuffles, how).mean()


class Shuffles:
    """Values that do not depend on the order of the items; a call returns the gain of some orders.

    Args:
        ranked: the rankings.
        interpolation: as for :meth:`ResampledRankings.average_precision`.

    Attributes:
        ranked: the rankings.
        interpolation: the interpolation.
        items: N, the number of items.
        hits: H, the number of hits of all rankings.
        bits: number of random bits per item.
        expected: 0-d float64, the mean of the mean plain AP over all orders.
    """

    def __init__(self, ranked: ResampledRankings, interpolation: InterpolationRule) -> None:
        self.ranked, self.interpolation, self._measure = ranked, interpolation, Convention(interpolation=interpolation)
        self.items, lists = len(ranked.image), len(ranked.offsets) - 1
        self.bits = 63 - self.items.bit_length() - lists.bit_length()
        self._counted = ranked.counted.to(torch.int64)
        place = torch.arange(self.items, device=ranked.image.device)
        self._line = (segments.ids(ranked.offsets) << (63 - lists.bit_length())) | place
        self._hit_item, _, self._ranking, first, self._edges = map(arrays.tensor, ranked.hits)
        self._changed_item, _, self._changed_ranking, self._added, _, changes = map(arrays.tensor, ranked.changes)
        self._changes_above = segments.from_counts(segments.total(self._added, changes))[:-1]
        self._start = ranked.offsets[ranked.ranking_list]
        self.hits = len(self._ranking)
        self._hits_above = torch.arange(self.hits, device=place.device) - first
        given = ranked.curve(torch.ones(1, ranked.images, dtype=torch.int64, device=place.device))
        self._n, self._m = arrays.tensor(given.n), arrays.tensor(given.m)
        self._known = (self._m > 0).nonzero().squeeze(1)
        self.expected = self._mean(self._plain())

    def _plain(self) -> Tensor:
        """Return E(AP) of each ranking for random orders of its items, (S,)."""
        hits = self._edges.diff()
        total = expected_average_precision(self._n.clamp(min=1), hits, denominator="relevant") * hits
        return torch.where(hits > 0, total, 0) / self._m

    def _mean(self, values: Tensor) -> Tensor:
        """Return the mean of (..., S) values over the rankings with ground truths."""
        return values[..., self._known].mean(-1)

    def __call__(self, random: Tensor) -> Tensor:
        """Return the increase of the mean AP by interpolation in each of b orders, (b,).

        Args:
            random: (b, N) int64 in [0, 2^bits), the sort keys of the items of each list.
        """
        curve = self._curve(self._cumulative_counted(self._shuffled(random)))
        gain = self._measure(curve) - PLAIN(curve)
        return self._mean(gain.reshape(len(random), -1))

    def _curve(self, cumulative: Tensor) -> HitCurve:
        """Return the curves of the rankings in b orders from the (b, H) number of items through each hit."""
        one = torch.ones_like(cumulative)
        n, m = (x.expand(len(cumulative), -1) for x in (self._n, self._m))
        return from_rows(one, one, self._hits_above.expand_as(one), cumulative - 1, self._edges, n, m)

    def _shuffled(self, random: Tensor) -> Tensor:
        """Return the rank of each item over the concatenated lists, each in random order: (b, N)."""
        width = self.items.bit_length()
        item = order.sort_segments(self._line | (random << width), arrays.native(self.ranked.offsets)) & (
            (1 << width) - 1
        )
        return torch.empty_like(item).scatter_(1, item, torch.arange(self.items, device=item.device).expand_as(item))

    def _cumulative_counted(self, place: Tensor) -> Tensor:
        """Return the number of counted items through each hit, in the new order of the hits: (b, H)."""
        size, ranking = self.items, self._ranking
        narrow = torch.int32 if len(self._n) * size < 1 << 31 else torch.int64  # sorted twice as fast
        line = (place[:, self._hit_item] + ranking * size).to(narrow)
        line = order.sort_segments(line, self.ranked.hits.offsets).to(torch.int64)
        found = line - ranking * size
        if self.ranked.all_count:
            items = found + 1 - self._start[ranking]
        else:
            counted = segments.from_zero(torch.empty_like(place).scatter_(1, place, self._counted.expand_as(place)))
            items = counted.gather(1, found + 1) - counted[:, self._start[ranking]]
        if not len(self._changed_item):
            return items
        first = torch.searchsorted(line, place[:, self._changed_item] + self._changed_ranking * size)
        change = torch.zeros(len(line), line.shape[1] + 1, dtype=torch.int64, device=line.device)
        change.scatter_add_(1, first, self._added.expand_as(first))
        return items + change.cumsum(1)[:, :-1] - self._changes_above[ranking]


def _gains(shuffles: Shuffles, resampling: Resampling) -> Tensor:
    """Return the increase of the mean AP by interpolation in random orders, (B,)."""
    ranked, interpolation = shuffles.ranked, shuffles.interpolation
    size, device = size_of(ranked, interpolation) + 4 * shuffles.items, ranked.image.device
    bound = 1 << shuffles.bits
    if device.type != "cpu":
        generator = resampling.generator_on(device)

        def draw(count: int) -> tuple[Tensor]:
            return (torch.randint(bound, (count, shuffles.items), generator=generator, device=device),)

        return torch.cat([shuffles(*random) for random in resampling.draw_on_device(size, draw)])

    def gains(rngs: list[np.random.Generator]) -> Tensor:
        return shuffles(torch.from_numpy(np.stack([rng.integers(bound, size=shuffles.items) for rng in rngs])))

    return torch.cat(resampling.map_tasks(gains, size))
