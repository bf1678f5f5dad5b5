"""What counts at one IoU threshold, as rankings that are cut at scores, and what each image has of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.matching.matched import Matches
from torch_ap.ranking import order, segments
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

_FEW_BITS = 1 << 29  # cells whose numbers, times 4, are int32, which is sorted in half the time


@dataclass(frozen=True, eq=False)
class Items:
    """Detections in order of category and descending score, and ground truths, as S rankings: K, or one of all.

    Attributes:
        matches: of the detections, N of them.
        score: (N,) of each, as thresholds are compared with it.
        edges: (S + 1,) where the detections of each ranking begin and end.
        hits: (H,) the true positives among them, ascending.
        uncounted: (U,) those that do not count, ascending.
    """

    matches: Matches
    score: Tensor
    edges: Tensor
    hits: Tensor
    uncounted: Tensor

    @property
    def rankings(self) -> int:
        """S."""
        return len(self.edges) - 1

    @cached_property
    def truths(self) -> Tensor:
        """(M,) the ground truths that count."""
        return segments.places(self.matches.valid[0])

    def above(self, places: Any) -> Any:
        """How many that count stand before each of these places, native."""
        return places - arrays.below(native(self.uncounted), places)

    @property
    def n(self) -> Tensor:
        """(S,) how many detections count in each ranking."""
        return arrays.tensor(self.above(native(self.edges))).diff()

    def offsets(self, places: Tensor) -> Tensor:
        """(S + 1,) where those of each ranking begin and end among some of the detections, ascending."""
        return arrays.tensor(arrays.below(native(places), native(self.edges)))

    def of_rankings(self, counts: Tensor) -> Tensor:
        """(S,) what (K,) counts of the categories are in each ranking."""
        return counts if self.rankings == len(counts) else counts.sum(0, keepdim=True)

    def reached(self, least: Any, first: Any, ends: Any) -> Any:
        """Where those that score at least so much end, from each place of a category to another: native.

        Scores descend there, so that their number is found bit by bit.
        """
        score, xp = native(self.score), arrays.namespace(first)
        for bit in reversed(range(int((ends - first).max()).bit_length())):
            further = first + (1 << bit)
            inside = (further <= ends) & (score[arrays.at_most(further, len(score)) - 1] >= least)
            first = xp.where(inside, further, first)
        return first

    def kept(self, least: Tensor) -> tuple[Tensor, Tensor]:
        """Which of the hits thresholds leave, (K,) of the categories or one for all; (N,) bool, what counts of all."""
        edges, xp = native(self.matches.edges), arrays.namespace(native(self.hits))
        ends = self.reached(native(least), edges[:-1], edges[1:])
        lengths = xp.stack([ends - edges[:-1], edges[1:] - ends], 1).reshape(-1)
        flags = arrays.repeat(arrays.steps(len(lengths), lengths) % 2 == 0, lengths)
        flags[native(self.uncounted)] = False
        return arrays.tensor(arrays.places(flags[native(self.hits)])), arrays.tensor(flags)


class OfImages(NamedTuple):
    """What each image has of a ranking: X of these, where there is anything.

    Attributes:
        offsets: (S + 1,) where the images of each ranking begin and end.
        tp, n, m: (X,) float64, true positives, detections and ground truths.
    """

    offsets: Tensor
    tp: Tensor
    n: Tensor
    m: Tensor


def items_of(matches: Matches, place: int, per_class: bool) -> Items:
    """What counts at one IoU threshold, in a ranking of each category or in one of all."""
    _, hits, uncounted = matches.events(0, place)
    return Items(
        matches=matches,
        score=segments.comparable(matches.ranked.score),
        edges=matches.edges if per_class else matches.edges[[0, -1]],
        hits=hits,
        uncounted=uncounted,
    )


def of_images(items: Items, hits: Tensor, kept: Tensor) -> OfImages:
    """What each image has of each ranking.

    Args:
        items: the detections.
        hits: (H,) the true positives that are kept, ascending.
        kept: (X,) all detections that are, ascending.
    """
    matches = items.matches
    groups = (matches.ranked.group.index_select(0, kept), matches.truth_group.index_select(0, items.truths))
    n, m = (arrays.tensor(native(x) // matches.categories) for x in groups)
    images = max((int(x.max()) + 1 for x in (n, m) if len(x)), default=1)
    starts = torch.arange(0, (items.rankings + 1) * images, images, device=n.device)
    if items.rankings > 1:  # the cells of a ranking, one of each image, stand behind those of the one before
        n += segments.repeat(starts[:-1], items.offsets(kept).diff())
        m += matches.truth_category.index_select(0, items.truths) * images
    hit = torch.zeros_like(items.score, dtype=torch.bool).index_fill_(0, hits, True).index_select(0, kept)
    cell, *counts = _cells(n, hit, m, items.rankings * images)
    offsets = arrays.below(native(cell), native(starts))
    return OfImages(arrays.tensor(offsets), *map(segments.as_float64, counts))


def _cells(n: Tensor, hit: Tensor, m: Tensor, many: int) -> tuple[Tensor, ...]:
    """(X,) the cells that have anything, ascending, and how many true positives, detections and ground truths each has.

    Args:
        n: the cells of detections.
        hit: which of these are true positives.
        m: the cells of ground truths.
        many: how many cells there are.
    """
    if many <= len(n) + len(m):
        counts = [segments.count(x, many) for x in (segments.pick(n, hit), n, m)]
        some = segments.places((counts[1] > 0) | (counts[2] > 0))
        return some, *(x.index_select(0, some) for x in counts)
    keys = torch.cat([n, m]).mul_(4)
    keys[: len(n)] += hit
    keys[len(n) :] += 2
    keys = native(order.sort(keys if many > _FEW_BITS else keys.to(torch.int32)))
    group, kind = arrays.tensor(keys >> 2), keys & 3
    start = segments.run_starts(group)
    ends = torch.cat([start, start.new_full((1,), len(keys))])
    tp, of_truths = (segments.running_counts(arrays.tensor(kind == x)).index_select(0, ends).diff() for x in (1, 2))
    return group.index_select(0, start), tp, ends.diff() - of_truths, of_truths
