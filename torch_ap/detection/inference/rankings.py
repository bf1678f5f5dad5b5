"""Rankings of matched detections with a weight per image.

A resample of images changes only the number of times that each detection and each ground truth counts. Detections
remain matched and sorted, so a resample is a weight per image. Its hit curves are computed by a few cumulative sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.options import InterpolationRule
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.interpolation import levels_reached, mean_at_recall
from torch_ap.core.ranking import order, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.detection.matching.matched import Matches
from torch_ap.inference.groups import Groups

ENDED = ("nuscenes", "ultralytics-8.3")  # interpolations that depend on the number of items after the last hit
_NUMBERS_IN_CACHE = 1 << 18  # of one pass over several resamples
_LEVELS_PER_RUN = 8  # recall levels of a table that take as long as a run of a sum


class Hits(NamedTuple):
    """The hits of all rankings.

    Attributes:
        item: (H,) the item of each hit.
        image: (H,) its image.
        ranking: (H,) its ranking.
        first: (H,) the first hit of its ranking.
        offsets: (S + 1,) boundaries of the hits of each ranking.
    """

    item: Any
    image: Any
    ranking: Any
    first: Any
    offsets: Any


class Runs(NamedTuple):
    """Runs of successive hits of a ranking without another counted item between them.

    Attributes:
        end: (R,) the number of hits of all rankings up to the last hit of each run.
        item_end: (R,) the number of items of all lists up to this hit.
        change_end: (R,) the number of changes of all rankings up to this hit.
        offsets: (S + 1,) boundaries of the runs of each ranking.
    """

    end: Any
    item_end: Any
    change_end: Any
    offsets: Any


class Changes(NamedTuple):
    """Items that a ranking omits or adds, relative to the items of its list that count.

    Attributes:
        item: (X,) the item of each change.
        image: (X,) its image.
        ranking: (X,) its ranking.
        added: (X,) -1 or 1.
        before_hit: (H,) the number of changes up to each hit, over all rankings.
        offsets: (S + 1,) the number of changes before each ranking.
    """

    item: Any
    image: Any
    ranking: Any
    added: Any
    before_hit: Any
    offsets: Any


@dataclass(frozen=True, eq=False)
class ResampledRankings:
    """S rankings over K lists of items that belong to images; several rankings may share a list.

    A list contains items, best first: the detections of a category. A ranking has events for some of its items: at an
    IoU threshold, the true positives, and the items that it omits or adds. All other items of its list are misses.

    Attributes:
        image: (N,) int64 in [0, U), the image of each item; the lists are concatenated.
        counted: (N,) bool, whether the item counts in rankings without an event for it.
        offsets: (K + 1,) int64, boundaries of the items of each list.
        event_item: (E,) int64, the item of each event, ascending in each ranking.
        event_hit: (E,) bool, whether the item is a hit in the ranking.
        event_counts: (E,) bool, whether the item counts in the ranking; True for hits.
        event_offsets: (S + 1,) int64, boundaries of the events of each ranking.
        ranking_list: (S,) int64, the list of each ranking.
        relevant_image: (G,) int64, the image of each ground truth.
        relevant_list: (G,) int64, the list of each ground truth.
        images: U, the number of images.
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

    def in_groups(self, groups: Groups) -> "ResampledRankings":
        """Return the rankings with groups of images, which are resampled whole, in place of images."""
        image, relevant_image = groups.ids[self.image], groups.ids[self.relevant_image]
        return replace(self, image=image, relevant_image=relevant_image, images=groups.count)

    @cached_property
    def hits(self) -> Hits:
        """The events that are hits, as native arrays."""
        place = self.event_hit.nonzero().squeeze(1)
        offsets = segments.from_zero(self.event_hit.to(torch.int64))[self.event_offsets]
        item, ranking = self.event_item[place], segments.ids(offsets)
        return Hits(*map(arrays.native, (item, self.image[item], ranking, offsets[ranking], offsets)))

    @cached_property
    def changes(self) -> Changes:
        """The events that change the items of a ranking, as native arrays."""
        added = self.event_counts.to(torch.int64) - self.counted[self.event_item].to(torch.int64)
        place, hit = added.nonzero().squeeze(1), self.event_hit.nonzero().squeeze(1)
        before, offsets = torch.searchsorted(place, hit, right=True), torch.searchsorted(place, self.event_offsets)
        item = self.event_item[place]
        fields = (item, self.image[item], segments.ids(offsets), added[place], before, offsets)
        return Changes(*map(arrays.native, fields))

    @cached_property
    def _runs(self) -> Runs:
        """The runs of hits, as native arrays."""
        item, _, ranking, _, offsets = map(arrays.tensor, self.hits)
        _, _, _, added, before, _ = map(arrays.tensor, self.changes)
        rank = segments.from_zero(self.counted.to(torch.int64))[item + 1] + segments.from_zero(added)[before]
        is_last = torch.ones_like(item, dtype=torch.bool)
        is_last[:-1] = (ranking.diff() > 0) | (rank.diff() > 1)
        last = is_last.nonzero().squeeze(1)
        fields = (last + 1, item[last] + 1, before[last], torch.searchsorted(last, offsets))
        return Runs(*map(arrays.native, fields))

    @cached_property
    def all_count(self) -> bool:
        """Whether all items count in rankings without an event for them."""
        return bool(self.counted.all())

    @cached_property
    def _most(self) -> int:
        """The highest number of items, or of ground truths, of an image."""
        counts = [segments.count(x, max(self.images, 1)).max() for x in (self.image, self.relevant_image)]
        return int(max(counts))

    @cached_property
    def _columns(self) -> tuple[Any, ...]:
        """Native arrays: images and counts of items, list boundaries per ranking, images of ground truths by list."""
        by_list = torch.argsort(self.relevant_list, stable=True)
        truths = segments.from_counts(segments.count(self.relevant_list, len(self.offsets) - 1))
        ends = self.offsets[self.ranking_list], self.offsets[self.ranking_list + 1]
        items, relevant_images = (self.image, self.counted.to(torch.int64)), (self.relevant_image[by_list], truths)
        return tuple(map(arrays.native, (*items, *ends, self.ranking_list, *relevant_images)))

    @property
    def unit_weights(self) -> Tensor:
        """Weights that count each image once, (1, U)."""
        return torch.ones(1, self.images, dtype=torch.int64, device=self.image.device)

    def average_precision(self, weights: Tensor, interpolation: InterpolationRule = None) -> Tensor:
        """Return the AP of each ranking for given numbers of occurrences of the images.

        Args:
            weights: (b, U) int64, at least 0.
            interpolation: (R,) float64 recall levels of interpolated AP; "all-points" for the area under the
                interpolated curve; None for the plain sum.

        Returns:
            (b, S) float64; NaN without ground truths.
        """
        if isinstance(interpolation, Tensor):
            return self._mean_over_levels(weights, interpolation)
        curve = self.curve(weights)
        values = Convention(interpolation=interpolation)(curve)
        return torch.where(arrays.tensor(curve.m) > 0, values, torch.nan).reshape(len(weights), -1)

    @arrays.quiet
    def _mean_over_levels(self, weights: Tensor, levels: Tensor) -> Tensor:
        """Return the AP of each ranking, interpolated at recall levels: see :meth:`average_precision`.

        In every resample, the precision of a run is highest at its last hit. The other hits of a run are not needed.
        """
        image, counted, starts, _, lists, *_ = self._columns
        hits, changes, runs, rows = self.hits, self.changes, self._runs, len(weights)
        counts, row_weights = runs.offsets[1:] - runs.offsets[:-1], arrays.native(weights)
        bits = (self._most * int(row_weights.sum(1).max())).bit_length()  # of any count of a list
        packed = _packed(row_weights, bits)

        def since_start(sums: Any, ends: Any, first: Any) -> Any:
            """Return the sums between the start of a ranking and the end of each of its runs, (rows, R)."""
            return arrays.take(sums, ends) - arrays.repeat(arrays.take(sums, first), counts)

        # sums over all rankings may carry into the next count of a packed number; their differences are exact
        found = since_start(segments.from_zero(arrays.take(packed, hits.image)), runs.end, hits.offsets[:-1])
        items = arrays.take(packed, image)
        items = since_start(segments.from_zero(items if self.all_count else items * counted), runs.item_end, starts)
        if len(changes.item):
            change = segments.from_zero(arrays.take(packed, changes.image) * changes.added)
            items += since_start(change, runs.change_end, changes.offsets[:-1])
        found, items, m = (_unpacked(x, rows, bits) for x in (found, items, self._counts_of_truths(packed)))
        width = found.shape[1] + (0 if self._has_few_runs(levels) else len(lists) * len(levels))
        step = max(1, _NUMBERS_IN_CACHE // max(width, 1))
        spans = order.blocks(slice(0, rows), step)
        parts = [self._mean_of_runs(found[x], items[x], m[x], levels) for x in spans]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _mean_of_runs(self, found: Any, items: Any, m: Any, levels: Tensor) -> Tensor:
        """Return the AP of each ranking: (b, S).

        Args:
            found: (b, R) native number of hits of the ranking up to the end of each run.
            items: (b, R) native number of items of the ranking up to the end of each run.
            m: (b, K) native number of ground truths of each list.
            levels: (L,) recall levels.
        """
        runs, rows, lists = self._runs, len(found), arrays.native(self.ranking_list)
        counts = runs.offsets[1:] - runs.offsets[:-1]
        precision = segments.as_float64(found) / arrays.clamp_min(items, 1)
        # the rankings of a list share a table of the recalls of 0 to m hits
        sizes = m.reshape(-1) + 1
        first = segments.from_counts(sizes)
        hits = segments.as_float64(arrays.arange_like(int(first[-1]), sizes) - arrays.repeat(first[:-1], sizes))
        recall = arrays.tensor(hits / arrays.repeat(segments.as_float64(m.reshape(-1)), sizes)).to(levels.dtype)
        places = arrays.minimum(found, arrays.repeat(arrays.take(m, lists), counts))  # no recall is above 1
        places += arrays.repeat(arrays.take(first[:-1].reshape(rows, -1), lists), counts)
        recall, levels = segments.as_float64(recall), segments.as_float64(levels)
        if self._has_few_runs(levels):
            reached = levels_reached(recall.numpy(), levels.sort().values.numpy()).take(places)
            mean = torch.from_numpy(self._sum_over_runs(precision, reached) / len(levels))
        else:
            offsets = segments.from_counts(arrays.namespace(counts).tile(counts, (rows,)))
            mean = mean_at_recall(arrays.tensor(precision).reshape(-1), recall, places.reshape(-1), levels, offsets)
        return torch.where(arrays.tensor(arrays.take(m, lists)) > 0, mean.reshape(rows, -1), torch.nan)

    def _has_few_runs(self, levels: Tensor) -> bool:
        """Whether a sum over runs is faster than a table of all levels, from which it differs in the last bits."""
        few = _LEVELS_PER_RUN * len(self._runs.end) <= len(self.ranking_list) * len(levels)
        return self.image.is_cpu and few

    def _sum_over_runs(self, precision: Array, reached: Array) -> Array:
        """Return the sum over recall levels of the highest precision at a recall of at least the level, (b, S).

        The highest precision from a run on counts for each level that this run is the first to reach.

        Args:
            precision: (b, R) at the end of each run.
            reached: (b, R) number of levels up to the recall at the end of each run.
        """
        offsets, sums = self._runs.offsets, np.zeros((len(precision), len(self.ranking_list)))
        filled = (offsets[1:] > offsets[:-1]).nonzero()[0]
        if len(filled):
            before = np.zeros_like(reached)
            before[:, 1:] = reached[:, :-1]
            before[:, offsets[filled]] = 0
            lifted = np.empty(precision.shape, np.complex128)  # see `segments.maximum_from_right`
            lifted.real, lifted.imag = -segments.ids(offsets)[::-1], precision[:, ::-1]
            best = np.maximum.accumulate(lifted, 1).imag[:, ::-1]
            sums[:, filled] = np.add.reduceat(best * (reached - before), offsets[filled], 1)
        return sums

    def average_precision_of_lists(self, weights: Tensor, interpolation: InterpolationRule = None) -> Tensor:
        """Return the mean AP over the rankings of each list: (b, K) float64, NaN without ground truths.

        Args:
            weights: as for :meth:`average_precision`.
            interpolation: as for :meth:`average_precision`.
        """
        aps, size = self.average_precision(weights, interpolation), len(self.offsets) - 1
        sums = aps.new_zeros(len(aps), size).index_add_(1, self.ranking_list, aps)
        return sums / segments.count(self.ranking_list, size)

    def recall(self, weights: Tensor) -> Tensor:
        """Return the recall of all items of each ranking: (b, S) float64, NaN without ground truths.

        Args:
            weights: as for :meth:`average_precision`.
        """
        row_weights, hits = arrays.native(weights), self.hits
        cumulative = segments.from_zero(arrays.take(row_weights, hits.image))
        counts = arrays.take(cumulative, hits.offsets[1:]) - arrays.take(cumulative, hits.offsets[:-1])
        hit_count, m = (segments.as_float64(arrays.tensor(x)) for x in (counts, self._relevant_counts(row_weights)))
        return hit_count / m

    def _relevant_counts(self, row_weights: Any) -> Any:
        """Return the number of ground truths of each ranking, (b, S), for native weights."""
        return arrays.take(self._counts_of_truths(row_weights), arrays.native(self.ranking_list))

    def _counts_of_truths(self, row_weights: Any) -> Any:
        """Return the number of ground truths of each list, (b, K), for native weights."""
        *_, truth_image, truths = self._columns
        cumulative = arrays.take(segments.from_zero(arrays.take(row_weights, truth_image)), truths)
        return cumulative[:, 1:] - cumulative[:, :-1]

    def curve(self, weights: Tensor) -> HitCurve:
        """Return the hit curves of b * S rankings, by row of weights; an entry is a hit with its number of occurrences.

        Args:
            weights: (b, U) as for :meth:`average_precision`.
        """
        image, counted, starts, ends, lists, *_ = self._columns
        row_weights, hits, changes = arrays.native(weights), self.hits, self.changes
        times_of_hits = arrays.take(row_weights, hits.image)
        flat = arrays.true_indices(times_of_hits.reshape(-1) > 0)
        # with a single row, all indices are in row 0, which saves a pass to add it
        row: Any = 0 if len(row_weights) == 1 else segments.ids(segments.from_counts((times_of_hits > 0).sum(1)))
        hit = flat - row * times_of_hits.shape[1]
        ranking = row * len(lists) + hits.ranking[hit]
        offsets = segments.from_counts(segments.count(ranking, len(row_weights) * len(lists)))
        times = times_of_hits.reshape(-1)[flat]
        # the cumulative count of items in their lists, and its changes in the rankings
        items = segments.from_zero(arrays.take(arrays.cast(row_weights, counted), image) * counted)
        change = segments.from_zero(arrays.take(row_weights, changes.image) * changes.added)
        start = arrays.take(items, starts) + arrays.take(change, changes.offsets[:-1])
        end = arrays.take(items, ends) + arrays.take(change, changes.offsets[1:])
        cumulative = items.reshape(-1)[row * items.shape[1] + hits.item[hit] + 1] - start.reshape(-1)[ranking]
        cumulative += change.reshape(-1)[row * change.shape[1] + changes.before_hit[hit]]
        m = self._relevant_counts(row_weights)
        cumulative_hits = segments.from_zero(times)
        hits_above = cumulative_hits[:-1] - cumulative_hits[offsets[:-1]][ranking]
        return HitCurve(
            times, times, hits_above, cumulative - times, None, offsets, (end - start).reshape(-1), m.reshape(-1)
        )


def _packed(row_weights: Any, bits: int) -> Any:
    """Return the weights of several rows as the bits of one number each, so that one sum adds all of them."""
    rows = -(-len(row_weights) // max(1, 63 // max(bits, 1)))
    packed = row_weights[:rows] + 0  # new memory
    for part, span in enumerate(order.blocks(slice(rows, len(row_weights)), rows), 1):
        shifted = row_weights[span] << (bits * part)
        packed[: len(shifted)] += shifted
    return packed


def _unpacked(packed: Any, rows: int, bits: int) -> Any:
    """Return the counts of each row of weights, (b, ...), from the counts of :func:`_packed` rows."""
    if len(packed) == rows:
        return packed
    last = (1 << bits) - 1
    parts = [(packed >> (bits * part)) & last for part in range(-(-rows // len(packed)))]
    return arrays.namespace(packed).concatenate(parts)[:rows]


def count_images(systems: Sequence[ResampledRankings], groups: Sequence[Tensor], count: int) -> Tensor:
    """Count the images with a ground truth or an item of any system in each group of lists: (K,) int64.

    Args:
        systems: systems over the same images.
        groups: for each system, the group of each list, int64; K for lists without a group.
        count: K.
    """
    size, places = max(systems[0].images, 1), []
    for ranked, group in zip(systems, groups, strict=True):
        places.append(group[segments.ids(ranked.offsets)] * size + ranked.image)
        places.append(group[ranked.relevant_list] * size + ranked.relevant_image)
    group_of_image: Tensor = torch.unique(torch.cat(places)) // size
    return segments.count(group_of_image, count + 1)[:count]


def images_of_mean(systems: Sequence[ResampledRankings]) -> int:
    """Return the number of images with a ground truth, or with an item of a list that has ground truths."""
    groups = []
    for ranked in systems:
        has_truths = segments.count(ranked.relevant_list, len(ranked.offsets) - 1) > 0
        groups.append((~has_truths).to(torch.int64))
    return int(count_images(systems, groups, 1))


def ranked_images(matches: Matches, images: int, area: int = 0) -> ResampledRankings:
    """Return the T * K rankings of one area range by threshold, over the detections of the K categories.

    A matched detection is a hit, or is omitted if its ground truth is ignored. Any other detection is a miss, or is
    omitted outside the area range.

    Args:
        matches: matches by COCO's or VOC's rule.
        images: number of images, including images without detections and ground truths.
        area: index of the area range.
    """
    size, ranked = matches.categories, matches.ranked
    counted = matches.inside[area]
    is_matched, true_positive = (
        matches.criteria.range_flags(words, area) for words in (matches.matched, matches.true_positive)
    )
    t, pair = is_matched.nonzero(as_tuple=True)
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
        event_offsets=segments.from_counts(segments.count(ranking, len(is_matched) * size)),
        ranking_list=lists.repeat(len(is_matched)),
        relevant_image=valid // size,
        relevant_list=valid % size,
        images=images,
    )
