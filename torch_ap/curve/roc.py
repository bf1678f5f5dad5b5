"""The area under the ROC curve, recall over fall-out: the share of pairs of a hit and a miss that are in order.

With m hits and q misses, a tie group of r hits and f misses that has F0 misses above it adds to the area
r (q - F0 - f), for the misses below it, and for those inside it r f times 1/2 (expected and grouped), 1 (optimistic) or
0 (pessimistic); the sum is divided by m q. Up to a fall-out of x / q it adds r max(0, x - F0 - f), and with u = x - F0,
at most f, and its whole part j,

| ties | of those inside it |
|---|---|
| expected | r (j (j + 1) / 2 + (u - j) (j + 1)) / (f + 1), the mean over all orders |
| grouped | r u^2 / (2 f), below a straight line |
| optimistic | r u |
| pessimistic | 0 |

Such a part is mapped to [0, 1] so that chance, the diagonal, has 1/2 (McClish 1989).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_ap.curve.average_precision import cases_within, hits_within, places_within
from torch_ap.curve.convention import TIES
from torch_ap.curve.top_k import at_entries, rank_of
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.rules.options import TopK
from torch_ap.runtime import arrays


@dataclass(frozen=True)
class AUROC:
    """The area under the ROC curve of what is in the top k.

    Attributes:
        top_k: k, "relevant" for m, or None for all items of the ranking.
        max_fpr: the fall-out up to which the area counts, in (0, 1]; None for all of it.
        ties: how a tie group counts.
    """

    top_k: TopK = None
    max_fpr: float | None = None
    ties: str = "expected"

    def __post_init__(self) -> None:
        object.__setattr__(self, "top_k", checks.top_k("top_k", self.top_k))
        checks.one_of("ties", self.ties, TIES)
        if self.max_fpr is not None:
            checks.positive_fraction("max_fpr", self.max_fpr)

    @property
    def has_chance_level(self) -> bool:
        """Whether the mean over random orders has a closed form."""
        return self.ties != "grouped" or (self.top_k is None and self.max_fpr is None)

    def is_sometimes_undefined(self, curve: HitCurve) -> bool:
        """Whether of some ranking it is undefined in some orders only: those in which all of the top k are hits."""
        k = arrays.tensor(rank_of(self.top_k, curve)) if isinstance(self.top_k, str) else self.top_k
        return k is not None and bool(((curve.hits_seen >= k) & (curve.hits_seen < curve.n)).any())

    @arrays.quiet
    def __call__(self, curve: HitCurve) -> Tensor:
        """(S,) float64 in [0, 1]; NaN where nothing, or nothing else, is in the top k, but 0 where hits are all below.

        Where a group straddles rank k, "expected" is the mean over the orders for which that is defined.
        """
        native = curve.native
        hits, items, hits_above, items_above, n = (
            segments.as_float64(x) for x in (native.hits, native.items, native.hits_above, native.items_above, native.n)
        )
        rank = rank_of(self.top_k, native)
        if rank is None:
            value = self._area(native.offsets, hits, items, items_above - hits_above, n - native.hits_seen)
            return arrays.tensor(self._below(value, native, native.hits_seen > 0))
        n = arrays.at_most(n, rank)
        k = at_entries(rank, native.offsets)
        places = places_within(items, items_above, k)
        inside = hits_within(hits, items, places, self.ties)
        if self.ties == "expected" and arrays.some((places > 0) & (places < items)):
            return arrays.tensor(self._mean(native, (hits, items, hits_above, items_above), places, n))
        found = segments.total(inside, native.offsets)
        value = self._area(native.offsets, inside, places, items_above - hits_above, n - found)
        return arrays.tensor(self._below(value, native, found > 0))

    def _area(self, offsets: Any, hits: Any, items: Any, misses_above: Any, misses: Any) -> Any:
        """(S,) of groups of each ranking, of as many misses in all; NaN without hits or misses."""
        where, inside = arrays.namespace(hits).where, items - hits
        total = segments.each_entry(misses, offsets)
        part = self.max_fpr if self.max_fpr is not None and self.max_fpr < 1 else 1.0
        reached = total * part
        below = arrays.at_least(reached - misses_above - inside, 0)
        u = arrays.at_least(arrays.namespace(hits).minimum(inside, reached - misses_above), 0)
        if self.ties == "expected":
            j = arrays.namespace(u).floor(u)
            own = (j * (j + 1) / 2 + (u - j) * (j + 1)) / (inside + 1)
        elif self.ties == "grouped":
            own = where(inside > 0, u * u / (2 * arrays.at_least(inside, 1e-300)), 0)
        else:
            own = u if self.ties == "optimistic" else 0 * u
        area = segments.total(hits * (below + own), offsets) / (segments.total(hits, offsets) * misses)
        if part == 1:
            return area
        least = part * part / 2
        return (1 + (area - least) / (part - least)) / 2

    def _below(self, value: Any, curve: Any, some: Any) -> Any:
        """0 where all hits are below rank k, or were not ranked; NaN where nothing is relevant."""
        where = arrays.namespace(value).where
        return where(curve.m > 0, where(some, value, 0), torch.nan)

    def _mean(self, curve: Any, counts: Any, places: Any, n: Any) -> Any:
        """Over how many hits of the groups that straddle k lie above it, each case a ranking of its own."""
        hits, items, hits_above, items_above = (arrays.tensor(x) for x in counts)
        places, n, owner = arrays.tensor(places), arrays.tensor(n), arrays.tensor(curve.segment)
        cut = (places > 0) & (places < items)
        cases, x, chance = cases_within(hits[cut], items[cut], places[cut])
        number = torch.ones_like(arrays.tensor(curve.m))  # of cases of each ranking, one where no group straddles k
        number[owner[cut]] = torch.bincount(cases, minlength=int(cut.sum()))
        weight = segments.as_float64(torch.ones(int(number.sum()), device=n.device))
        first = segments.from_counts(number)
        straddled = owner[cut][cases]
        nth = torch.arange(len(cases), device=n.device) - torch.searchsorted(cases, cases)
        of_case = first[straddled] + nth
        weight[of_case] = chance
        own = segments.as_float64(torch.zeros_like(weight))
        own[of_case] = x
        # the entries of each ranking as often as it has cases
        kept = places > 0
        entries = kept.nonzero().squeeze(1)
        lengths = segments.count(owner[entries], len(n))
        starts = segments.from_counts(lengths)
        case = segments.ids(first)
        offsets = segments.from_counts(lengths[case])
        again = segments.ids(offsets)
        source = entries[starts[case][again] + torch.arange(len(again), device=n.device) - offsets[again]]
        inside = torch.where(cut[source], own[again], hits[source])
        found = segments.total(inside, offsets)
        rows: Any = (offsets, inside, places[source], (items_above - hits_above)[source], n[case] - found)
        value = arrays.tensor(self._area(*map(arrays.native, rows)))
        value = torch.where(found > 0, value, 0)
        defined = torch.where(value == value, weight, 0)
        total = segments.total(torch.where(defined > 0, value * defined, 0), first)
        return self._below(arrays.native(total / segments.total(defined, first)), curve, curve.m > 0)
