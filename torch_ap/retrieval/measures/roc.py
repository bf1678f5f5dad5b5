"""Area under the ROC curve, recall over fall-out: the share of pairs of a hit and a miss that are in order.

A ranking has m hits and q misses. A tie group of r hits and f misses with F0 misses above it adds r (q - F0 - f) for
the misses below it. For the misses inside it, it adds r f times 1/2 (expected and grouped), 1 (optimistic) or
0 (pessimistic). The sum is divided by m q. Up to a fall-out of x / q, the group adds r max(0, x - F0 - f) for the
misses below it. For the misses inside it, with u = min(x - F0, f) and its integer part j, it adds

| ties | added |
|---|---|
| expected | r (j (j + 1) / 2 + (u - j) (j + 1)) / (f + 1), the mean over all orders |
| grouped | r u^2 / (2 f), below a straight line |
| optimistic | r u |
| pessimistic | 0 |

The partial area is scaled to [0, 1] so that chance, the diagonal, has 1/2 (McClish 1989).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks
from torch_ap.core.base.messages import raise_invalid
from torch_ap.core.base.options import TopK
from torch_ap.core.measures.average_precision import cases_within, places_within
from torch_ap.core.measures.measure import Measure
from torch_ap.core.measures.ties import cut_rank, rank_per_entry
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve, one_group
from torch_ap.retrieval.measures.at_rank import FirstHit


def _expected_misses(u: Any, misses: Any) -> Any:
    whole = arrays.namespace(u).floor(u)
    return (whole * (whole + 1) / 2 + (u - whole) * (whole + 1)) / (misses + 1)


def _grouped_misses(u: Any, misses: Any) -> Any:
    return arrays.namespace(u).where(misses > 0, u * u / (2 * arrays.clamp_min(misses, 1e-300)), 0)


_MISSES_BELOW: dict[str, Callable[[Any, Any], Any]] = {  # u and f of a group to the misses below each of its hits
    "expected": _expected_misses,
    "grouped": _grouped_misses,
    "optimistic": lambda u, misses: u,  # noqa: ARG005
    "pessimistic": lambda u, misses: 0 * u,  # noqa: ARG005
}


@dataclass(frozen=True)
class AUROC(Measure):
    """Area under the ROC curve of the items in the top k.

    Attributes:
        top_k: k, "relevant" for m, or None for all items of the ranking.
        max_fpr: the highest fall-out of the area, in (0, 1]; None for the whole area.
        ties: name of a tie rule.
    """

    top_k: TopK = None
    max_fpr: float | None = None
    ties: str = "expected"

    supported_ties: ClassVar[tuple[str | None, ...]] = tuple(_MISSES_BELOW)
    table_name: ClassVar[str] = "AUROC"
    is_bounded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_fpr is not None:
            checks.positive_fraction("max_fpr", self.max_fpr)

    @property
    def is_monotone(self) -> bool:
        """Whether a hit that moves up never makes the value worse; one that enters the top k can come below misses."""
        return self.top_k is None

    @property
    def has_chance_level(self) -> bool:
        """Whether the mean over random orders has a closed form."""
        return not self.rule.is_threshold or (self.top_k is None and self.max_fpr is None)

    def describe(self) -> str:
        """Return the definition of the measure."""
        part = "" if self.max_fpr is None else f" up to a fall-out of {self.max_fpr:g}"
        return f"the area under the ROC curve{part}, of {self.top}"

    def can_have_chance_level(self, curve: HitCurve, undefined: float | None) -> bool:
        """Return whether these rankings have a chance level."""
        return self.has_chance_level and (undefined is not None or not self._is_sometimes_undefined(curve))

    def chance_level(self, curve: HitCurve, *, undefined: float | None = None, **_: Any) -> Tensor:
        """Return the mean over random orders: (S,) float64, NaN if it is undefined in every order.

        In the top k, it is also undefined in orders with relevant items only.

        Raises:
            ValueError: for grouped ties in the top k or up to a fall-out, where the share of a group is not a number
                of hits; for orders without a value if ``undefined`` is None.
        """
        if not self.has_chance_level:
            raise_invalid(
                "ties", "must have a closed form of the chance level of AUROC with `top_k` or `max_fpr`", self.ties
            )
        values, rare = super().chance_level(curve), self._is_sometimes_undefined(curve)
        if undefined is None and rare:
            raise ValueError(
                "`empty_target_action` must be 'neg' or 'pos' for the chance level of AUROC if all items in the top k "
                "can be relevant: AUROC is then undefined in some orders, and the mean over the other orders has no "
                "closed form"
            )
        if undefined is None or not rare:
            return values
        misses = curve.n - curve.hits_seen
        defined = FirstHit("hit_rate", self.top_k, "expected")(one_group(curve, misses))
        defined = torch.where(misses > 0, defined, 1)
        return values * defined + undefined * (1 - defined)

    def _is_sometimes_undefined(self, curve: HitCurve) -> bool:
        """Return whether some ranking is undefined in some orders only, with nothing but hits in the top k."""
        k = arrays.tensor(cut_rank(self.top_k, curve)) if isinstance(self.top_k, str) else self.top_k
        return k is not None and bool(((curve.hits_seen >= k) & (curve.hits_seen < curve.n)).any())

    @arrays.quiet
    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking: (S,) float64 in [0, 1].

        NaN if the top k contains no relevant item, or only relevant items; 0 if all hits are below rank k. If a group
        straddles rank k, "expected" is the mean over the orders with a defined value.
        """
        native = curve.native
        (hits, items, hits_above, items_above), n = native.float_counts, segments.as_float64(native.n)
        rank = cut_rank(self.top_k, native)
        if rank is None:
            value = self._area(native.offsets, hits, items, items_above - hits_above, n - native.hits_seen)
            return arrays.tensor(self._fill(value, native, native.hits_seen > 0))
        n = arrays.clamp_max(n, rank)
        k = rank_per_entry(rank, native.offsets)
        places = places_within(items, items_above, k)
        inside = self.rule.hits_within(hits, items, places)
        if self.rule.is_random and arrays.any_true((places > 0) & (places < items)):
            return arrays.tensor(self._mean(native, (hits, items, hits_above, items_above), places, n))
        hits_inside = segments.total(inside, native.offsets)
        value = self._area(native.offsets, inside, places, items_above - hits_above, n - hits_inside)
        return arrays.tensor(self._fill(value, native, hits_inside > 0))

    def _area(self, offsets: Any, hits: Any, items: Any, misses_above: Any, misses: Any) -> Any:
        """Return the area of each ranking, (S,), from its tie groups and misses; NaN without hits or misses."""
        inside = items - hits
        total = segments.each_entry(misses, offsets)
        part = self.max_fpr if self.max_fpr is not None and self.max_fpr < 1 else 1.0
        reached = total * part
        below = arrays.clamp_min(reached - misses_above - inside, 0)
        u = arrays.clamp_min(arrays.namespace(hits).minimum(inside, reached - misses_above), 0)
        area = segments.total(hits * (below + _MISSES_BELOW[self.ties](u, inside)), offsets) / (
            segments.total(hits, offsets) * misses
        )
        if part == 1:
            return area
        least = part * part / 2
        return (1 + (area - least) / (part - least)) / 2

    def _fill(self, value: Any, curve: Any, has_hits: Any) -> Any:
        """Return 0 for rankings without hits in the top k, NaN if nothing is relevant, else the value."""
        where = arrays.namespace(value).where
        return where(curve.m > 0, where(has_hits, value, 0), torch.nan)

    def _mean(self, curve: Any, counts: Any, places: Any, n: Any) -> Any:
        """Return the mean over the number of hits above k of the group that straddles it; each case is a ranking."""
        hits, items, hits_above, items_above = (arrays.tensor(x) for x in counts)
        places, n, owner = arrays.tensor(places), arrays.tensor(n), arrays.tensor(curve.segment)
        cut = (places > 0) & (places < items)
        cases, x, chance = cases_within(hits[cut], items[cut], places[cut])
        number = torch.ones_like(arrays.tensor(curve.m))  # cases per ranking; 1 if no group straddles k
        number[owner[cut]] = torch.bincount(cases, minlength=int(cut.sum()))
        weight = segments.as_float64(torch.ones(int(number.sum()), device=n.device))
        first = segments.from_counts(number)
        straddled = owner[cut][cases]
        nth = torch.arange(len(cases), device=n.device) - torch.searchsorted(cases, cases)
        of_case = first[straddled] + nth
        weight[of_case] = chance
        own = segments.as_float64(torch.zeros_like(weight))
        own[of_case] = x
        # repeat the entries of each ranking for each of its cases
        kept = places > 0
        entries = kept.nonzero().squeeze(1)
        lengths = segments.count(owner[entries], len(n))
        starts = segments.from_counts(lengths)
        case = segments.ids(first)
        offsets = segments.from_counts(lengths[case])
        again = segments.ids(offsets)
        source = entries[starts[case][again] + torch.arange(len(again), device=n.device) - offsets[again]]
        inside = torch.where(cut[source], own[again], hits[source])
        hits_inside = segments.total(inside, offsets)
        rows: Any = (offsets, inside, places[source], (items_above - hits_above)[source], n[case] - hits_inside)
        value = arrays.tensor(self._area(*map(arrays.native, rows)))
        value = torch.where(hits_inside > 0, value, 0)
        defined = torch.where(value == value, weight, 0)
        total = segments.total(torch.where(defined > 0, value * defined, 0), first)
        return self._fill(arrays.native(total / segments.total(defined, first)), curve, curve.m > 0)
