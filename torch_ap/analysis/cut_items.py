"""What counts at one IoU threshold, as rankings that are cut at scores, and what each image has of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch

from torch_ap.matching.matched import Matches
from torch_ap.ranking import order, segments
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

_FEW_BITS = 1 << 29  # cells whose numbers, times 4, are int32, which is sorted in half the time


@dataclass(frozen=True, eq=False)
class Items:
    """Detections in order of category and descending score, and ground truths, as S rankings: K, or one of all.

    All is native.

    Attributes:
        matches: of the detections, N of them.
        score: (N,) of each, as thresholds are compared with it.
        categories: (K + 1,) where the detections of each category begin and end.
        edges: (S + 1,) where those of each ranking do.
        hits: (H,) the true positives among them, ascending.
        uncounted: (U,) those that do not count, ascending.
    """

    matches: Matches
    score: Any
    categories: Any
    edges: Any
    hits: Any
    uncounted: Any

    @property
    def rankings(self) -> int:
        """S."""
        return len(self.edges) - 1

    @cached_property
    def truths(self) -> Any:
        """(M,) the ground truths that count."""
        return arrays.places(native(self.matches.valid)[0])

    @property
    def n(self) -> Any:
        """(S,) how many detections count in each ranking."""
        return lengths(self.above(self.edges))

    @property
    def m(self) -> Any:
        """(S,) how many ground truths do."""
        counts = native(self.matches.relevant)[0]
        return counts if self.rankings == len(counts) else arrays.whole_sum(counts)

    def above(self, places: Any) -> Any:
        """How many that count stand before each of these places, ascending."""
        if len(places) <= len(self.uncounted):
            return places - arrays.below(self.uncounted, places)
        first = arrays.below(places, self.uncounted + 1)  # of the places that they stand before
        return places - segments.count(first, len(places) + 1)[:-1].cumsum(0)

    def offsets(self, places: Any) -> Any:
        """(S + 1,) where those of each ranking begin and end among some of the detections, ascending."""
        return arrays.below(places, self.edges)

    def reached(self, least: Any, first: Any, ends: Any) -> Any:
        """Where those that score at least so much end, from each place of a category to another.

        Scores descend there, so that their number is found bit by bit.
        """
        xp = arrays.namespace(first)
        for bit in reversed(range(int((ends - first).max()).bit_length())):
            further = first + (1 << bit)
            inside = (further <= ends) & (self.score[arrays.at_most(further, len(self.score)) - 1] >= least)
            first = xp.where(inside, further, first)
        return first

    def ends(self, least: Any) -> Any:
        """(K,) where those that thresholds leave end, of the categories or one for all."""
        return self.reached(least, self.categories[:-1], self.categories[1:])

    def hits_before(self, ends: Any) -> Any:
        """Which of the hits stand before the ends of their categories, ascending."""
        of_categories = lengths(arrays.below(self.hits, self.categories))
        return arrays.places(self.hits < arrays.repeat(ends, of_categories))

    def before(self, ends: Any) -> Any:
        """All that count and stand before the ends of their categories, ascending."""
        every = segments.members(self.categories[:-1], ends)
        if not len(self.uncounted) or not len(every):
            return every
        counted, places = arrays.full(len(every), True, every[:0] == 0), arrays.below(every, self.uncounted)
        counted[places[arrays.take(every, arrays.at_most(places, len(every) - 1)) == self.uncounted]] = False
        return arrays.take(every, arrays.places(counted))


class OfImages(NamedTuple):
    """What each image has of a ranking: X of these, where there is anything; native.

    Attributes:
        offsets: (S + 1,) where the images of each ranking begin and end.
        tp, n, m: (X,) float64, true positives, detections and ground truths.
    """

    offsets: Any
    tp: Any
    n: Any
    m: Any


def lengths(offsets: Any) -> Any:
    """(S,) how many there are between the one and the next of (S + 1,) places: native."""
    return offsets[1:] - offsets[:-1]


def items_of(matches: Matches, place: int, per_class: bool) -> Items:
    """What counts at one IoU threshold, in a ranking of each category or in one of all."""
    _, hits, uncounted = map(native, matches.events(0, place))
    categories = native(matches.edges)
    return Items(
        matches=matches,
        score=native(segments.comparable(matches.ranked.score)),
        categories=categories,
        edges=categories if per_class else categories[[0, -1]],
        hits=hits,
        uncounted=uncounted,
    )


def of_images(items: Items, hits: Any, kept: Any) -> OfImages:
    """What each image has of each ranking.

    Args:
        items: the detections.
        hits: (H,) the true positives that are kept, ascending, native.
        kept: (X,) all detections that are, ascending.
    """
    matches = items.matches
    n = arrays.take(native(matches.ranked.group), kept) // matches.categories
    m = arrays.take(native(matches.truth_group), items.truths) // matches.categories
    images = max((int(x.max()) + 1 for x in (n, m) if len(x)), default=1)
    starts = arrays.steps(items.rankings + 1, n) * images
    if items.rankings > 1:  # the cells of a ranking, one of each image, stand behind those of the one before
        n += arrays.repeat(starts[:-1], lengths(items.offsets(kept)))
        m += arrays.take(native(matches.truth_category), items.truths) * images
    hit = arrays.full(len(items.score), False, n[:0] == 0)
    hit[hits] = True
    cell, *counts = _cells(n, arrays.take(hit, kept), m, items.rankings * images)
    return OfImages(arrays.below(cell, starts), *map(segments.as_float64, counts))


def _cells(n: Any, hit: Any, m: Any, many: int) -> tuple[Any, ...]:
    """(X,) the cells that have anything, ascending, and how many true positives, detections and ground truths each has.

    Args:
        n: the cells of detections, native.
        hit: which of these are true positives.
        m: the cells of ground truths.
        many: how many cells there are.
    """
    if many <= len(n) + len(m):
        counts = [segments.count(x, many) for x in (arrays.take(n, arrays.places(hit)), n, m)]
        some = arrays.places((counts[1] > 0) | (counts[2] > 0))
        return some, *(arrays.take(x, some) for x in counts)
    keys = arrays.joined(n, m) * 4
    keys[: len(n)] += hit
    keys[len(n) :] += 2
    keys = arrays.tensor(keys)
    keys = native(order.sort(keys if many > _FEW_BITS else keys.to(torch.int32)))
    group, kind = keys >> 2, keys & 3
    start, both = segments.runs(group)
    ends = arrays.joined(start, arrays.full(1, len(keys), start))
    tp, truths = (lengths(arrays.take(segments.running_counts(kind == x), ends)) for x in (1, 2))
    return arrays.take(group, start), tp, both - truths, truths
