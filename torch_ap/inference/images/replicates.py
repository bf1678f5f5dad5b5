"""One replicate of the bootstrap over images on CPU: what does not depend on the weights is laid out once.

Only hits have places in the running sums. What drops out of a ranking, or comes into it, is rare and kept apart.
"""

from functools import cached_property

import numpy as np
from torch import Tensor

from torch_ap.inference.images.resampled_rankings import Interpolation, ResampledRankings
from torch_ap.ranking.order import Array


class ResampledAP:
    """The layout of ranked images for many vectors of weights; a call gives the AP of each ranking under one.

    Args:
        ranked: the rankings, on CPU.
        interpolation: as for :meth:`ResampledRankings.average_precision`.
    """

    def __init__(self, ranked: ResampledRankings, interpolation: Interpolation) -> None:
        self._ranked = ranked
        self._interpolated = interpolation is not None
        self._levels = interpolation.double().numpy() if isinstance(interpolation, Tensor) else None
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
        """Lifts each ranking's precisions above those of the rankings to its right."""
        return np.repeat(2.0 * np.arange(self._rankings)[::-1], self._sizes)

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
        running = _from_zero(times)
        through = running[1:] - np.repeat(running[self._edges[:-1]], self._sizes)
        items = self._items(weights)
        precision = np.divide(through, items, out=np.zeros(len(items)), where=through > 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            height = self._envelope(precision) if self._interpolated else precision
            if self._levels is None:
                values = np.diff(_from_zero(times * height)[self._edges]) / m
            else:
                values = self._at_levels(running, height, needed_hits(m, self._levels))
        return np.where(m > 0, values, np.nan)

    def _items(self, weights: Array) -> Array:
        """Items through each hit."""
        each = weights[self._image]
        running = _from_zero(each if self._all_count else each * self._counted)
        items: Array = running[self._hit_item + 1]
        start = running[self._list_edges[self._lists]]
        if len(self._delta):
            change = _from_zero(weights[self._change_image] * self._delta)
            items += change[self._changes]
            start = start + change[self._changes_before]
        items -= np.repeat(start, self._sizes)
        return items

    def _envelope(self, precision: Array) -> Array:
        """The highest precision from each hit to the end of its ranking."""
        height: Array = np.maximum.accumulate((precision + self._lift)[::-1])[::-1] - self._lift
        return height

    def _at_levels(self, running: Array, height: Array, needed: Array) -> Array:
        """Mean over the levels; hits through all rankings end to end never fall, so one search serves all."""
        first, last = self._edges[:-1, None], self._edges[1:, None]
        place = np.searchsorted(running[1:], needed + running[self._edges[:-1]][:, None])
        # nothing needed is reached by the first hit of the ranking itself
        place = np.maximum(place, first)
        place = np.where(place < last, place, len(height))
        values: Array = np.append(height, 0.0)[place].mean(1)
        return values


def needed_hits(m: Array, levels: Array) -> Array:
    """(S, R) the fewest hits h with h / m of at least each level, compared as floats."""
    total = np.maximum(m, 1)[:, None].astype(np.float64)
    about = np.ceil(levels * total)
    about = np.where((about - 1) / total >= levels, about - 1, about)
    return np.maximum(np.where(about / total < levels, about + 1, about), 0).astype(np.int64)


def _from_zero(counts: Array) -> Array:
    """Running sums with a 0 before the first."""
    out = np.zeros(len(counts) + 1, counts.dtype)
    np.cumsum(counts, out=out[1:])
    return out
