"""What chance gives the rankings of a :class:`ResampledRankings`: the items of each list in random order.

Hits stay hits, and what drops out of a ranking stays out. Interpolated AP of a random order has no closed form of its
mean. That of the plain sum has one, so only what interpolation adds to it is simulated, which spreads two to seven
times less than the whole.
"""

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve.convention import PLAIN, Convention
from torch_ap.inference.images.bootstrap import size_of
from torch_ap.inference.images.resampled_rankings import InterpolationRule, ResampledRankings
from torch_ap.inference.random_ranking import expected_average_precision
from torch_ap.inference.resampling import Resampling
from torch_ap.ranking import order, segments
from torch_ap.ranking.counting import of_rows
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.runtime import arrays


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
    if interpolation is None or not shuffles.hits:
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
        hits: H, how many hits all rankings have.
        bits: how many random bits an item has.
        expected: 0-d float64, the mean of the mean plain AP over all orders.
    """

    def __init__(self, ranked: ResampledRankings, interpolation: InterpolationRule) -> None:
        self.ranked, self.interpolation, self._measure = ranked, interpolation, Convention(interpolation=interpolation)
        self.items, lists = len(ranked.image), len(ranked.offsets) - 1
        self.bits = 63 - self.items.bit_length() - lists.bit_length()
        self._counted, self._all_count = ranked.counted.to(torch.int64), bool(ranked.counted.all())
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
        """(S,) E(AP) of each ranking: its items in random order."""
        hits = self._edges.diff()
        total = expected_average_precision(self._n.clamp(min=1), hits, denominator="relevant") * hits
        return torch.where(hits > 0, total, 0) / self._m

    def _mean(self, values: Tensor) -> Tensor:
        """Mean over the rankings that have something to find, of (..., S)."""
        return values[..., self._known].mean(-1)

    def __call__(self, random: Tensor) -> Tensor:
        """(b,) what interpolation adds to the mean plain AP, in each of b orders.

        Args:
            random: (b, N) int64 in [0, 2^bits), by which the items of each list are sorted.
        """
        curve = self._curve(self._cumulative_counted(self._shuffled(random)))
        gain = self._measure(curve) - PLAIN(curve)
        return self._mean(gain.reshape(len(random), -1))

    def _curve(self, cumulative: Tensor) -> HitCurve:
        """The curves of the rankings in b orders, those of the first order first: (b, H) items through each hit."""
        one = torch.ones_like(cumulative)
        n, m = (x.expand(len(cumulative), -1) for x in (self._n, self._m))
        return of_rows(one, one, self._hits_above.expand_as(one), cumulative - 1, self._edges, n, m)

    def _shuffled(self, random: Tensor) -> Tensor:
        """(b, N) the place of each item among all, those of a list before those of the next, in random order."""
        width = self.items.bit_length()
        item = order.sort(self._line | (random << width)) & ((1 << width) - 1)
        return torch.empty_like(item).scatter_(1, item, torch.arange(self.items, device=item.device).expand_as(item))

    def _cumulative_counted(self, place: Tensor) -> Tensor:
        """(b, H) items that count through each hit; the hits of each ranking in their new order."""
        size, ranking = self.items, self._ranking
        line = order.sort(place[:, self._hit_item] + ranking * size)
        found = line - ranking * size
        if self._all_count:
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
    """(B,) what interpolation adds, in random orders."""
    ranked, interpolation = shuffles.ranked, shuffles.interpolation
    size, device = size_of(ranked, interpolation) + 4 * shuffles.items, ranked.image.device
    bound = 1 << shuffles.bits
    if device.type != "cpu":
        generator = resampling.on(device)

        def draw(count: int) -> tuple[Tensor]:
            return (torch.randint(bound, (count, shuffles.items), generator=generator, device=device),)

        return torch.cat([shuffles(*random) for random in resampling.drawn_on_device(size, draw)])

    def some(rngs: list[np.random.Generator]) -> Tensor:
        return shuffles(torch.from_numpy(np.stack([rng.integers(bound, size=shuffles.items) for rng in rngs])))

    return torch.cat(resampling.together(some, size))
