"""Images of which each rank has some: matched where they are; what was matched goes to one rank for each class."""

import heapq
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from torch_ap.exchange.ranks import Ranks, Route
from torch_ap.matching.candidate_pairs import Ranked, descending
from torch_ap.matching.matched import Matches
from torch_ap.ranking import order, segments


class ClassShares:
    """The classes shared among ranks, about as many detections on each; see :class:`torch_ap.matching.matched.Shares`.

    Args:
        ranks: each with its own images.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._mine = torch.empty(0, dtype=torch.bool)

    def labels(self, here: Tensor) -> Tensor:
        """The labels of the images of all ranks, ascending."""
        return order.dense_ranks(torch.cat(self.ranks.gather_unequal(here)))[0]

    def matches(self, found: Callable[[], Matches]) -> Matches:
        """The matches in the classes of this rank's share, of the images of all ranks, in the order of ranks.

        Args:
            found: gives the matches of the images here.
        """
        here = self.ranks.attempt(found)
        ranked, size = here.ranked, here.categories
        owner = self._owners(self.ranks.sum(segments.count(ranked.category, size))).to(ranked.category.device)
        self._mine = owner == self.ranks.rank
        route = Route(self.ranks, owner[ranked.category])
        category, score, place = (route.send(x) for x in (ranked.category, ranked.score, ranked.place))
        inside = route.send(here.inside.t().contiguous()).t()
        pairs = Route(self.ranks, owner[ranked.category[here.at]])
        at = route.arrivals(here.at, pairs)
        matched, true_positive = (pairs.send(x.t().contiguous()).t() for x in (here.matched, here.true_positive))
        rows = order.stable_argsort((category << 32).add_(descending(score)), size << 32)
        now = torch.empty_like(rows).scatter_(0, rows, torch.arange(len(rows), device=rows.device))
        at, places = now[at].sort(stable=True)
        category = category[rows]
        return replace(
            here,
            ranked=Ranked(rows, category, score[rows], category, place[rows], rows),
            at=at,
            matched=matched[:, places],
            true_positive=true_positive[:, places],
            inside=inside[:, rows],
            partners=None,
            relevant_of_all=self.ranks.sum(here.relevant),
        )

    def whole(self, values: Tensor) -> Tensor:
        """(T, K, ...) values, which are right for the classes of the share, to those of all classes."""
        mine = self._mine.reshape(-1, *[1] * (values.ndim - 2))
        return self.ranks.sum(torch.where(mine, values, torch.zeros_like(values)))

    def _owners(self, detections: Tensor) -> Tensor:
        """(K,) the rank of each class: the largest first, each to the rank that has the fewest detections so far."""
        owners, loads = [0] * len(detections), [(0, rank) for rank in range(self.ranks.size)]
        sizes = detections.tolist()
        for category in sorted(range(len(sizes)), key=lambda one: -sizes[one]):
            load, rank = heapq.heappop(loads)
            owners[category] = rank
            heapq.heappush(loads, (load + sizes[category], rank))
        return torch.tensor(owners)
