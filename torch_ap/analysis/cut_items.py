"""What counts at one IoU threshold, as rankings that are cut at scores, and what each image has of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from torch_ap.matching.matched import Matches
from torch_ap.ranking import order, segments
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native


@dataclass(frozen=True, eq=False)
class Items:
    """Detections in order of category and descending score, and ground truths, as S rankings: K, or one of all.

    Attributes:
        matches: of the detections, N of them.
        score: (N,) of each, as thresholds are compared with it.
        edges: (S + 1,) where the detections of each ranking begin and end.
        counted: (N,) bool, which of them count.
        hits: (H,) the true positives among them, ascending.
        truths: (M,) the ground truths that count.
    """

    matches: Matches
    score: Tensor
    edges: Tensor
    counted: Tensor
    hits: Tensor
    truths: Tensor

    @property
    def rankings(self) -> int:
        """S."""
        return len(self.edges) - 1

    @cached_property
    def above(self) -> Tensor:
        """(N + 1,) int32, how many before each detection count."""
        return segments.running_counts(self.counted)

    @property
    def n(self) -> Tensor:
        """(S,) how many detections count in each ranking."""
        if self.rankings == 1:
            return self.edges.new_tensor([arrays.count(native(self.counted))])
        return self.above[self.edges].diff().to(torch.int64)

    def offsets(self, places: Tensor) -> Tensor:
        """(S + 1,) where those of each ranking begin and end among some of the detections, ascending."""
        return arrays.tensor(arrays.below(native(places), native(self.edges)))

    def ranking(self, category: Tensor) -> Tensor:
        """The ranking of what is of a category."""
        return category if self.rankings == self.matches.categories else torch.zeros_like(category)


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
    hits, found = matches.events(0, place)
    counted = matches.inside[0].index_fill(0, found, False).index_fill_(0, hits, True)
    return Items(
        matches=matches,
        score=segments.comparable(matches.ranked.score),
        edges=matches.edges if per_class else matches.edges[[0, -1]],
        counted=counted,
        hits=hits,
        truths=segments.places(matches.valid[0]),
    )


def of_images(items: Items, hits: Tensor, kept: Tensor) -> OfImages:
    """What each image has of each ranking.

    Args:
        items: the detections.
        hits: (H,) the true positives that are kept, ascending.
        kept: (X,) all detections that are, ascending.
    """
    matches = items.matches
    both = matches.images, (matches.ranked.category, matches.truth_category)
    image, category = (torch.cat([x.index_select(0, kept), y.index_select(0, items.truths)]) for x, y in both)
    images = int(image.max()) + 1 if len(image) else 1
    hit = torch.zeros_like(items.counted).index_fill_(0, hits, True).index_select(0, kept)
    kind = torch.cat([hit.to(torch.int64), image.new_full((len(items.truths),), 2)])
    keys = native(order.sort((items.ranking(category) * images + image).mul_(4).add_(kind)))
    group, kind = arrays.tensor(keys >> 2), keys & 3
    start = segments.run_starts(group)
    ends = torch.cat([start, start.new_full((1,), len(keys))])
    tp, m = (segments.running_counts(arrays.tensor(kind == x)).index_select(0, ends).diff() for x in (1, 2))
    ranking = arrays.tensor(native(group.index_select(0, start)) // images)
    offsets = segments.from_counts(segments.count(ranking, items.rankings))
    return OfImages(offsets, *map(segments.as_float64, (tp, ends.diff() - m, m)))
