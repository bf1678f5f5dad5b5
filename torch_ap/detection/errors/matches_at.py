"""Matches of all images at one IoU threshold, and their items as rankings with counts per image."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.ranking import order, segments
from torch_ap.detection.inputs.images import Columns, Kind
from torch_ap.detection.matching.matched import Matches
from torch_ap.inference.groups import Groups
from torch_ap.inference.groups_at_threshold import ItemGroups, UnitCounts

_FEW_BITS = 1 << 29  # cells with 4 times their number in int32, which takes half the time to sort


@dataclass(frozen=True, eq=False)
class MatchesAt:
    """Images with their matches in each class, and one IoU threshold: the input of all analyses of errors.

    Attributes:
        settings: settings of the shapes, with the IoU thresholds.
        columns: all images.
        iou_type: one of the ``iou_types`` of the settings.
        matches: the matches of these images at all IoU thresholds.
        interpolation: interpolation of AP, an ``InterpolationRule``.
        labels: (K,) labels of the classes, ascending; without labels there is still one category.
        names: (K,) names of the classes.
        threshold_index: index of the IoU threshold.
        groups: the group of each image, such as its video; None for independent images.
    """

    settings: Any
    columns: Columns
    iou_type: Kind
    matches: Matches
    interpolation: Any
    labels: Tensor
    names: list[str]
    threshold_index: int
    groups: Groups | None = None

    @property
    def iou_threshold(self) -> float:
        """The IoU threshold."""
        threshold: float = self.settings.thresholds[self.threshold_index]
        return threshold

    def select_images(self, kept: Tensor) -> "MatchesAt":
        """Return the images with (B,) flags, whose ``columns`` remain those of all images."""
        groups = None if self.groups is None else Groups.from_ids(self.groups.ids[kept])
        return replace(self, matches=self.matches.select_images(kept), groups=groups)

    def items(self, per_class: bool) -> "Items":
        """Return the items, in one ranking per category or one of all."""
        _, hits, uncounted = map(native, self.matches.events(0, self.threshold_index))
        categories = native(self.matches.edges)
        return Items(
            matches=self.matches,
            score=native(segments.comparable(self.matches.ranked.score)),
            categories=categories,
            edges=categories if per_class else categories[[0, -1]],
            hits=hits,
            uncounted=uncounted,
            image_group=None if self.groups is None else native(self.groups.ids),
        )


@dataclass(frozen=True, eq=False)
class Items:
    """Detections in order of category and descending score, and ground truths, as S rankings: K, or one of all.

    All values are native.

    Attributes:
        matches: the matches of the N detections.
        score: (N,) scores for the comparison with thresholds.
        categories: (K + 1,) offsets of the detections of each category.
        edges: (S + 1,) offsets of the detections of each ranking.
        hits: (H,) indices of the true positives, ascending.
        uncounted: (U,) indices of the detections that do not count, ascending.
        image_group: (B,) group of each image; None for independent images.
    """

    matches: Matches
    score: Any
    categories: Any
    edges: Any
    hits: Any
    uncounted: Any
    image_group: Any = None

    @property
    def rankings(self) -> int:
        """The number of rankings S."""
        return len(self.edges) - 1

    @cached_property
    def truths(self) -> Any:
        """(M,) indices of the ground truths that count."""
        return arrays.true_indices(native(self.matches.valid)[0])

    @property
    def n(self) -> Any:
        """(S,) numbers of detections that count in each ranking."""
        return lengths(self.above(self.edges))

    @property
    def m(self) -> Any:
        """(S,) numbers of ground truths that count in each ranking."""
        counts = native(self.matches.relevant)[0]
        return counts if self.rankings == len(counts) else arrays.whole_sum(counts)

    def above(self, places: Any) -> Any:
        """Return the numbers of detections that count before each of these ascending indices."""
        if len(places) <= len(self.uncounted):
            return places - arrays.below(self.uncounted, places)
        first = arrays.below(places, self.uncounted + 1)  # the first index after each uncounted detection
        return places - segments.count(first, len(places) + 1)[:-1].cumsum(0)

    def offsets(self, places: Any) -> Any:
        """Return the (S + 1,) offsets of the rankings in some of the detections, ascending."""
        return arrays.below(places, self.edges)

    def reached(self, least: Any, first: Any, ends: Any) -> Any:
        """Return the ends of the detections with at least a score, between two indices of a category.

        Scores descend there, so the number of detections is determined bit by bit.
        """
        xp = arrays.namespace(first)
        for bit in reversed(range(int((ends - first).max()).bit_length())):
            further = first + (1 << bit)
            inside = (further <= ends) & (self.score[arrays.clamp_max(further, len(self.score)) - 1] >= least)
            first = xp.where(inside, further, first)
        return first

    def ends(self, least: Any) -> Any:
        """Return the (K,) ends of the detections with at least the score, with one threshold or one per category."""
        return self.reached(least, self.categories[:-1], self.categories[1:])

    def hits_before(self, ends: Any) -> Any:
        """Return which of the hits are before the ends of their categories, ascending."""
        per_category = lengths(arrays.below(self.hits, self.categories))
        return arrays.true_indices(self.hits < arrays.repeat(ends, per_category))

    def before(self, ends: Any) -> Any:
        """Return all detections that count before the ends of their categories, ascending."""
        every = segments.members(self.categories[:-1], ends)
        if not len(self.uncounted) or not len(every):
            return every
        counted, places = arrays.full(len(every), True, every[:0] == 0), arrays.below(every, self.uncounted)
        counted[places[arrays.take(every, arrays.clamp_max(places, len(every) - 1)) == self.uncounted]] = False
        return arrays.take(every, arrays.true_indices(counted))


def lengths(offsets: Any) -> Any:
    """Return the (S,) differences of (S + 1,) offsets, native."""
    return offsets[1:] - offsets[:-1]


def counts_per_image(items: Items, hits: Any, kept: Any) -> UnitCounts:
    """Return the counts of each image, or of each group of images, in each ranking.

    Args:
        items: the detections.
        hits: (H,) indices of the chosen true positives, ascending, native.
        kept: (X,) indices of all chosen detections, ascending.
    """
    matches = items.matches
    n = arrays.take(native(matches.ranked.group), kept) // matches.categories
    m = arrays.take(native(matches.truth_group), items.truths) // matches.categories
    if items.image_group is not None:
        n, m = (arrays.take(items.image_group, x) for x in (n, m))
    images = max((int(x.max()) + 1 for x in (n, m) if len(x)), default=1)
    starts = arrays.arange_like(items.rankings + 1, n) * images
    if items.rankings > 1:  # the cells of rankings, one per image, are consecutive
        n += arrays.repeat(starts[:-1], lengths(items.offsets(kept)))
        m += arrays.take(native(matches.truth_category), items.truths) * images
    hit = arrays.full(len(items.score), False, n[:0] == 0)
    hit[hits] = True
    cell, *counts = _cells(n, arrays.take(hit, kept), m, items.rankings * images)
    return UnitCounts(arrays.below(cell, starts), *map(segments.as_float64, counts))


def detections_in_groups(
    matches: Matches, area: int, threshold: int, groups: Groups, *, per_class: bool = True
) -> list[ItemGroups]:
    """Return the detections that count and the groups of their images, in each category or in one ranking of all."""
    hit, miss = matches.flags(area, threshold)
    counted, valid = (hit | miss).nonzero().squeeze(1), matches.valid[area]
    image, truth_image = matches.images
    size = matches.categories if per_class else 1
    category = matches.ranked.category[counted] if per_class else counted * 0
    cell = groups.ids[truth_image[valid]]
    cell = matches.truth_category[valid] * groups.count + cell if per_class else cell
    positives = segments.count(cell, size * groups.count).view(size, groups.count)
    sizes = segments.count(category, size).tolist()
    columns = (matches.ranked.score[counted], hit[counted], groups.ids[image[counted]])
    parts = zip(*(torch.split(x, sizes) for x in columns), positives, strict=True)
    return [ItemGroups(score, is_hit, ids, groups.count, own) for score, is_hit, ids, own in parts]


def counts_of_images(at: MatchesAt, threshold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the (B,) true positives, detections with at least the score, and ground truths of each image.

    Args:
        at: the matches.
        threshold: 0-d, the least score for all classes.
    """
    items, matches = at.items(per_class=False), at.matches
    ends = items.ends(native(segments.comparable(threshold)))
    group = native(matches.ranked.group) // matches.categories
    truths = arrays.take(native(matches.truth_group), items.truths) // matches.categories
    images = len(at.columns["detections_per_image"])
    found = items.hits[items.hits_before(ends)], items.before(ends)
    tp, n = (segments.count(arrays.take(group, x), images) for x in found)
    return arrays.tensor(tp), arrays.tensor(n), arrays.tensor(segments.count(truths, images))


def _cells(n: Any, hit: Any, m: Any, many: int) -> tuple[Any, ...]:
    """Return the (X,) non-empty cells, ascending, with their true positives, detections and ground truths.

    Args:
        n: the cells of the detections, native.
        hit: flags of the true positives among them.
        m: the cells of the ground truths.
        many: the number of cells.
    """
    if many <= len(n) + len(m):
        counts = [segments.count(x, many) for x in (arrays.take(n, arrays.true_indices(hit)), n, m)]
        some = arrays.true_indices((counts[1] > 0) | (counts[2] > 0))
        return some, *(arrays.take(x, some) for x in counts)
    keys = arrays.join(n, m) * 4
    keys[: len(n)] += hit
    keys[len(n) :] += 2
    keys = arrays.tensor(keys)
    keys = native(order.sort(keys if many > _FEW_BITS else keys.to(torch.int32)))
    group, kind = keys >> 2, keys & 3
    start, both = segments.runs(group)
    ends = arrays.join(start, arrays.full(1, len(keys), start))
    tp, truths = (lengths(arrays.take(segments.running_counts(kind == x), ends)) for x in (1, 2))
    return arrays.take(group, start), tp, both - truths, truths
