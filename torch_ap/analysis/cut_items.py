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

    def above(self, places: Any) -> Any:
        """How many that count stand before each of these places, native; few do not."""
        return places - arrays.below(native(self._uncounted), places)

    @cached_property
    def _uncounted(self) -> Tensor:
        return segments.places(~self.counted)

    @property
    def n(self) -> Tensor:
        """(S,) how many detections count in each ranking."""
        return arrays.tensor(self.above(native(self.edges))).diff()

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
    _, hits, counted = matches.events(0, place)
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
    image, of_truths = items.matches.images
    places = ((image, hits), (image, kept), (of_truths, items.truths))
    found, n, m = (x.index_select(0, y) for x, y in places)
    images = max((int(x.max()) + 1 for x in (n, m) if len(x)), default=1)
    starts = torch.arange(0, (items.rankings + 1) * images, images, device=n.device)
    if items.rankings > 1:  # the cells of a ranking, one of each image, stand behind those of the one before
        for cell, x in ((found, hits), (n, kept)):
            cell += segments.repeat(starts[:-1], items.offsets(x).diff())
        m += items.matches.truth_category.index_select(0, items.truths) * images
    cell, *counts = _cells(found, n, m, items.rankings * images)
    offsets = arrays.below(native(cell), native(starts))
    return OfImages(arrays.tensor(offsets), *map(segments.as_float64, counts))


def _cells(found: Tensor, n: Tensor, m: Tensor, many: int) -> tuple[Tensor, ...]:
    """(X,) the cells that have anything, ascending, and how many true positives, detections and ground truths each has.

    Args:
        found, n, m: the cells of these.
        many: how many cells there are.
    """
    if many <= len(n) + len(m):
        counts = [segments.count(x, many) for x in (found, n, m)]
        some = segments.places((counts[1] > 0) | (counts[2] > 0))
        return some, *(x.index_select(0, some) for x in counts)
    keys = torch.cat([n, found, m]).mul_(4)
    for first in (len(n), len(n) + len(found)):
        keys[first:] += 1
    keys = native(order.sort(keys if many > _FEW_BITS else keys.to(torch.int32)))
    group, kind = arrays.tensor(keys >> 2), keys & 3
    start = segments.run_starts(group)
    ends = torch.cat([start, start.new_full((1,), len(keys))])
    tp, of_truths = (segments.running_counts(arrays.tensor(kind == x)).index_select(0, ends).diff() for x in (1, 2))
    return group.index_select(0, start), tp, ends.diff() - tp - of_truths, of_truths
