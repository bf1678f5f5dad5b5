"""Rankings of detections, which belong to images that are resampled whole.

Drawing images with repetition only changes how often each detection and each ground truth counts. The detections stay
matched and sorted as they are, so a resample is a weight per image: its hit curves cost a few running sums, and their
AP is that of any others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from torch_ap.curve.convention import Convention
from torch_ap.matching.matched import Matches
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.runtime import arrays

# recall levels of interpolated AP, the area under the interpolated curve, nuScenes' rule, or the plain sum
InterpolationRule: TypeAlias = Tensor | Literal["all-points", "nuscenes"] | None


class Hits(NamedTuple):
    """The hits of all rankings.

    (H,) the item of each, its image, its ranking and the first hit of that; (S + 1,) where those of each begin and end.
    """

    item: Any
    image: Any
    ranking: Any
    first: Any
    offsets: Any


class Changes(NamedTuple):
    """Items that a ranking leaves out, or takes in, other than its list says.

    (X,) the item of each, its image, its ranking and what it adds, -1 or 1; (H,) how many there are up to each hit, of
    all rankings, and (S + 1,) before each ranking.
    """

    item: Any
    image: Any
    ranking: Any
    added: Any
    before_hit: Any
    offsets: Any


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

    @cached_property
    def hits(self) -> Hits:
        """Its events that are hits, native."""
        place = self.event_hit.nonzero().squeeze(1)
        offsets = segments.from_zero(self.event_hit.to(torch.int64))[self.event_offsets]
        item, ranking = self.event_item[place], segments.ids(offsets)
        return Hits(*map(arrays.native, (item, self.image[item], ranking, offsets[ranking], offsets)))

    @cached_property
    def changes(self) -> Changes:
        """Its events that are changes, native."""
        added = self.event_counts.to(torch.int64) - self.counted[self.event_item].to(torch.int64)
        place, hit = added.nonzero().squeeze(1), self.event_hit.nonzero().squeeze(1)
        before, offsets = torch.searchsorted(place, hit, right=True), torch.searchsorted(place, self.event_offsets)
        item = self.event_item[place]
        fields = (item, self.image[item], segments.ids(offsets), added[place], before, offsets)
        return Changes(*map(arrays.native, fields))

    @cached_property
    def _width(self) -> torch.dtype:
        """int32 where no running count of items leaves it, whichever images are drawn: it takes half the memory."""
        most = segments.count(self.image, max(self.images, 1)).max() if self.images else 0
        return torch.int32 if int(most) * self.images < 2**31 else torch.int64

    @cached_property
    def _columns(self) -> tuple[Any, ...]:
        """Native: images and counts of items, ends of lists by ranking, and relevant images by list."""
        order = torch.argsort(self.relevant_list, stable=True)
        truths = segments.from_counts(segments.count(self.relevant_list, len(self.offsets) - 1))
        ends = self.offsets[self.ranking_list], self.offsets[self.ranking_list + 1]
        fields = (
            self.image,
            self.counted.to(self._width),
            *ends,
            self.ranking_list,
            self.relevant_image[order],
            truths,
        )
        return tuple(map(arrays.native, fields))

    def average_precision(self, weights: Tensor, interpolation: InterpolationRule = None) -> Tensor:
        """AP of each ranking when each image occurs so many times.

        Args:
            weights: (b, U) int64, at least 0.
            interpolation: (R,) float64 recall levels of interpolated AP; "all-points" for the area under the
                interpolated curve; None for the plain sum.

        Returns:
            (b, S) float64; NaN where nothing is relevant.
        """
        curve = self.curve(weights)
        values = Convention(interpolation=interpolation)(curve)
        return torch.where(arrays.tensor(curve.m) > 0, values, torch.nan).reshape(len(weights), -1)

    def average_precision_of_lists(self, weights: Tensor, interpolation: InterpolationRule = None) -> Tensor:
        """The mean AP over the rankings of each list: (b, K) float64, NaN where nothing is relevant.

        Args:
            weights, interpolation: as for :meth:`average_precision`.
        """
        each, size = self.average_precision(weights, interpolation), len(self.offsets) - 1
        sums = each.new_zeros(len(each), size).index_add_(1, self.ranking_list, each)
        return sums / segments.count(self.ranking_list, size)

    def curve(self, weights: Tensor) -> HitCurve:
        """The hit curves of b * S rankings, those of the first row first; an entry is a hit, as often as it was drawn.

        Args:
            weights: (b, U) as above.
        """
        image, counted, starts, ends, lists, truth_image, truths = self._columns
        each, hits, changes = arrays.native(weights), self.hits, self.changes
        drawn = arrays.take(each, hits.image)
        flat = arrays.places(drawn.reshape(-1) > 0)
        # with one row, as on CPU, all places are in row 0, and adding it costs no pass
        row: Any = 0 if len(each) == 1 else segments.ids(segments.from_counts((drawn > 0).sum(1)))
        hit = flat - row * drawn.shape[1]
        ranking = row * len(lists) + hits.ranking[hit]
        offsets = segments.from_counts(segments.count(ranking, len(each) * len(lists)))
        times = drawn.reshape(-1)[flat]
        # the running count of items in their lists, and what the rankings change of it
        items = segments.from_zero(arrays.take(arrays.cast(each, counted), image) * counted)
        change = segments.from_zero(arrays.take(each, changes.image) * changes.added)
        start = arrays.take(items, starts) + arrays.take(change, changes.offsets[:-1])
        end = arrays.take(items, ends) + arrays.take(change, changes.offsets[1:])
        cumulative = items.reshape(-1)[row * items.shape[1] + hits.item[hit] + 1] - start.reshape(-1)[ranking]
        cumulative += change.reshape(-1)[row * change.shape[1] + changes.before_hit[hit]]
        m = arrays.take(segments.from_zero(arrays.take(each, truth_image)), truths)
        m = arrays.take(m[:, 1:] - m[:, :-1], lists)
        found = segments.from_zero(times)
        hits_above = found[:-1] - found[offsets[:-1]][ranking]
        return HitCurve(
            times, times, hits_above, cumulative - times, None, offsets, (end - start).reshape(-1), m.reshape(-1)
        )


def images_taking_part(systems: Sequence[ResampledRankings], groups: Sequence[Tensor], count: int) -> Tensor:
    """(K,) int64, in how many images any system has something to find, or an item, of each group of lists.

    Args:
        systems: over the same images.
        groups: of each system the group of each list, int64; K where it is in none.
        count: K.
    """
    size, seen = max(systems[0].images, 1), []
    for ranked, group in zip(systems, groups, strict=True):
        seen.append(group[segments.ids(ranked.offsets)] * size + ranked.image)
        seen.append(group[ranked.relevant_list] * size + ranked.relevant_image)
    holding: Tensor = torch.unique(torch.cat(seen)) // size
    return segments.count(holding, count + 1)[:count]


def images_of_mean(systems: Sequence[ResampledRankings]) -> int:
    """The images that have a part in the mean: with an item of a list that has something to find, or that itself."""
    groups = []
    for ranked in systems:
        known = segments.count(ranked.relevant_list, len(ranked.offsets) - 1) > 0
        groups.append((~known).to(torch.int64))
    return int(images_taking_part(systems, groups, 1))


def ranked_images(matches: Matches, images: int, area: int = 0) -> ResampledRankings:
    """The T * K rankings of one area range, those of the first threshold first, over the K categories' detections.

    A matched detection is a hit, or drops out where its ground truth is ignored; any other is a miss, or is no item
    where it lies outside the area range.

    Args:
        matches: of COCO's or VOC's rule.
        images: how many images there are, those without detections and ground truths included.
        area: which area range.
    """
    size, ranked = matches.categories, matches.ranked
    counted = matches.inside[area]
    found, true_positive = (
        matches.criteria.of_range(words, area) for words in (matches.matched, matches.true_positive)
    )
    t, pair = found.nonzero(as_tuple=True)
    item, hit = matches.at[pair], true_positive[t, pair]
    valid = matches.truth_group[matches.valid[area]]
    ranking = t * size + ranked.category[item]
    lists = torch.arange(size, device=item.device)
    return ResampledRankings(
        image=ranked.group // size,
        counted=counted,
        offsets=segments.from_counts(segments.count(ranked.category, size)),
        event_item=item,
        event_hit=hit,
        event_counts=hit,
        event_offsets=segments.from_counts(segments.count(ranking, len(found) * size)),
        ranking_list=lists.repeat(len(found)),
        relevant_image=valid // size,
        relevant_list=valid % size,
        images=images,
    )
