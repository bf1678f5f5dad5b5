"""Rankings of items that belong to images: detections, which belong to images.

Drawing images with repetition only changes how often each detection and each ground truth counts. The detections stay
matched and sorted as they are, so a resample is a weight per image, and costs a few running sums.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve.interpolation import needed_hits
from torch_ap.ranking import segments
from torch_ap.ranking.order import Array

Values = TypeVar("Values", Tensor, Array)
# recall levels of interpolated AP, the area under the interpolated curve, or the plain sum
InterpolationRule: TypeAlias = Tensor | Literal["all-points"] | None


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

    def average_precision(self, weights: Tensor, interpolation: InterpolationRule = None) -> Tensor:
        """AP of each ranking when each image occurs so many times.

        Args:
            weights: (b, U) int64, at least 0.
            interpolation: (R,) float64 recall levels of interpolated AP; "all-points" for the area under the
                interpolated curve; None for the plain sum.

        Returns:
            (b, S) float64; NaN where nothing is relevant.
        """
        hits, running, items = self._cumulative(weights)
        m = self.relevant(weights)
        start = running[:, self.event_offsets[:-1]]
        cumulative = running[:, 1:] - start[:, segments.ids(self.event_offsets)]
        precision = torch.where(cumulative > 0, cumulative.to(torch.float64) / items, 0)
        if isinstance(interpolation, Tensor):
            return self._at_levels(running, precision, m, interpolation)
        height = precision if interpolation is None else envelope(precision, lift_of(self.event_offsets))
        total = torch.stack([segments.total(row, self.event_offsets) for row in hits * height])
        return torch.where(m > 0, total / m, torch.nan)

    def _cumulative(self, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(b, E) hits of each event; (b, E + 1) hits up to each one, of all rankings; (b, E) items through it."""
        ranking = segments.ids(self.event_offsets)
        items = segments.from_zero(weights[:, self.image] * self.counted)
        start = items[:, self.offsets[self.ranking_list]][:, ranking]
        times = weights[:, self.image[self.event_item]]
        change = self.event_counts.to(torch.int64) - self.counted[self.event_item].to(torch.int64)
        hits = times * self.event_hit
        running, changed = (segments.from_zero(x) for x in (hits, times * change))
        first = self.event_offsets[:-1][ranking]
        items = items[:, self.event_item + 1] - start + (changed[:, 1:] - changed[:, first])
        return hits, running, items

    def relevant(self, weights: Tensor) -> Tensor:
        """(b, S) int64 relevant things of each ranking."""
        m = weights.new_zeros(len(weights), len(self.offsets) - 1)
        return m.index_add_(1, self.relevant_list, weights[:, self.relevant_image])[:, self.ranking_list]

    def _at_levels(self, running: Tensor, precision: Tensor, m: Tensor, levels: Tensor) -> Tensor:
        """Mean over the levels of the highest precision at any recall of at least each: (b, S)."""
        height = envelope(precision, lift_of(self.event_offsets))
        height = torch.cat([height, height.new_zeros(len(height), 1)], 1)
        place = segments.first_reaching(running, self.event_offsets, needed_hits(m, levels))
        reached = height.gather(1, place.flatten(1)).reshape(place.shape)
        return torch.where(m > 0, reached.mean(2), torch.nan)


class ResampledAP:
    """:meth:`ResampledRankings.average_precision` of one resample after another on CPU, by NumPy.

    What does not depend on the weights is computed once. Only hits have places in the running sums; the few items that
    drop out of a ranking, or come into it, have lists of their own.

    Args:
        ranked: the rankings, on CPU.
        interpolation: as for :meth:`ResampledRankings.average_precision`.
    """

    def __init__(self, ranked: ResampledRankings, interpolation: InterpolationRule) -> None:
        self._ranked = ranked
        self._interpolated = interpolation is not None
        self._levels: Array | None = interpolation.double().numpy() if isinstance(interpolation, Tensor) else None
        self._image, self._counted = ranked.image.numpy(), ranked.counted.numpy()
        self._all_count = bool(self._counted.all())
        self._lists, self._list_edges = ranked.ranking_list.numpy(), ranked.offsets.numpy()[:-1]
        self._rankings = len(self._lists)
        self._lay_out_events()

    def _lay_out_events(self) -> None:
        ranked = self._ranked
        item, hit = ranked.event_item.numpy(), ranked.event_hit.numpy()
        offsets = ranked.event_offsets.numpy()
        before = np.concatenate([np.zeros(1, np.int64), hit.cumsum()])
        self._hit_item = item[hit]
        self._hit_image = self._image[self._hit_item]
        self._edges = before[offsets]
        self._sizes = np.diff(self._edges)
        delta = ranked.event_counts.numpy().astype(np.int64) - self._counted[item]
        changed = np.flatnonzero(delta)
        self._change_image, self._delta = self._image[item[changed]], delta[changed]
        # how many changes there are up to each hit, and before each ranking
        self._changes = np.searchsorted(changed, np.flatnonzero(hit), "right")
        self._changes_before = np.searchsorted(changed, offsets[:-1])

    @cached_property
    def _lift(self) -> Array:
        return lift_of(self._edges)

    def __call__(self, weights: Array) -> Array:
        """(S,) float64 AP of each ranking, NaN where nothing is relevant.

        Args:
            weights: (U,) int64, how often each image occurs.
        """
        ranked = self._ranked
        m = np.bincount(
            ranked.relevant_list.numpy(), weights[ranked.relevant_image.numpy()], minlength=len(self._list_edges)
        ).astype(np.int64)[self._lists]
        times = weights[self._hit_image]
        running = segments.from_zero(times)
        cumulative = running[1:] - np.repeat(running[self._edges[:-1]], self._sizes)
        items = self._items(weights)
        precision = np.divide(cumulative, items, out=np.zeros(len(items)), where=cumulative > 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            height = envelope(precision, self._lift) if self._interpolated else precision
            if self._levels is None:
                values = np.diff(segments.from_zero(times * height)[self._edges]) / m
            else:
                values = self._at_levels(running, height, needed_hits(m, self._levels))
        return np.where(m > 0, values, np.nan)

    def _items(self, weights: Array) -> Array:
        """Items through each hit."""
        each = weights[self._image]
        running = segments.from_zero(each if self._all_count else each * self._counted)
        items: Array = running[self._hit_item + 1]
        start = running[self._list_edges[self._lists]]
        if len(self._delta):
            change = segments.from_zero(weights[self._change_image] * self._delta)
            items += change[self._changes]
            start = start + change[self._changes_before]
        items -= np.repeat(start, self._sizes)
        return items

    def _at_levels(self, running: Array, height: Array, needed: Array) -> Array:
        """Mean over the levels."""
        place = segments.first_reaching(running, self._edges, needed)
        values: Array = np.append(height, 0.0)[place].mean(1)
        return values


def lift_of(offsets: Values) -> Values:
    """(E,) float64, lifts the precisions of each ranking above those of the rankings to its right."""
    return 2.0 * segments.as_float64(len(offsets) - 2 - segments.ids(offsets))


def envelope(precision: Values, lift: Values) -> Values:
    """The highest precision from each entry to the end of its ranking: (..., E), rounded as :func:`lift_of` lifts it.

    Not exact, as :func:`torch_ap.ranking.segments.maximum_from_right` is; it takes many rows at once, on any device.
    """
    lifted = precision + lift
    if isinstance(lifted, Tensor):
        return lifted.flip(-1).cummax(-1).values.flip(-1) - lift
    return np.maximum.accumulate(lifted[..., ::-1], -1)[..., ::-1] - lift
