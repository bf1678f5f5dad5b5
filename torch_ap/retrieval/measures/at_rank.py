"""Measures of counts and of the first hit: precision, recall, F_beta, fall-out, reciprocal rank, hit rate.

A value is NaN if no item is relevant; fall-out is NaN if all items are relevant. The fall-out of a ranking without
items is 0, because it contains no item that is not relevant.

The reciprocal rank and the hit rate depend on the rank of the first hit and on the tie rule. In a group of g items with
r hits, t0 items and no hit above it, the first hit has rank t0 + X:

| ties | X |
|---|---|
| grouped | g: the whole group enters together, at the rank of its end |
| optimistic | 1 |
| pessimistic | g - r + 1 |
| expected | x with probability C(g - x, r - 1) / C(g, r); measures are averaged over x |

Probabilities are computed recursively: P(1) = r / g, and P(x + 1) = P(x) (g - r + 1 - x) / (g - x). All terms are
positive and do not grow, so their sum loses no digits to cancellation or underflow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks
from torch_ap.core.base.options import TopK
from torch_ap.core.measures import counts, interpolation, lists
from torch_ap.core.measures.lists import FewHits
from torch_ap.core.measures.measure import Measure, straddles
from torch_ap.core.measures.ties import cut_rank, harmonic_difference, rank_per_entry
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve

_ENOUGH = 64  # P(X > 64 g / r) < exp(-64), too small to change a float64 sum
_NARROWEST = 4
_MOST_AT_ONCE = 1 << 20  # terms


def _first_groups(curve: Any) -> tuple[Any, Any, Any, Any]:
    """Return the rankings with a hit, and the hits, items and items above of the first group with a hit of each."""
    starts = curve.offsets[:-1]
    if not arrays.any_true(curve.hits == 0):
        ranking = arrays.true_indices(curve.offsets[1:] > starts)
        entries = starts[ranking]
    else:
        entries = arrays.true_indices(curve.hits > 0)
        owner = curve.segment[entries]
        new = arrays.namespace(owner).ones_like(owner, dtype=bool)
        new[1:] = owner[1:] != owner[:-1]
        ranking, entries = owner[new], entries[new]
    hits, items, above = (segments.as_float64(x[entries]) for x in (curve.hits, curve.items, curve.items_above))
    return ranking, hits, items, above


def _mean_reciprocal_rank(hits: Any, items: Any, above: Any, k: Any) -> Any:
    """Return E[1 / (t0 + X); t0 + X <= k] of each group. Most groups contain one item and need no sum."""
    value = arrays.namespace(above).where(above < k, 1 / (above + 1), 0)
    tied = arrays.true_indices((items > 1) & (above < k))
    if len(tied):
        value[tied] = _mean(hits[tied], items[tied], above[tied], k[tied], reciprocal=True)
    return value


def _chance_of_hit(hits: Any, items: Any, above: Any, k: Any) -> Any:
    """Return P(t0 + X <= k) of each group: 0 or 1 unless a group of misses and hits straddles k."""
    value = segments.as_float64(above < k)
    cut = arrays.true_indices((above < k) & (k <= above + (items - hits)))
    if len(cut):
        value[cut] = arrays.clamp_max(_mean(hits[cut], items[cut], above[cut], k[cut], reciprocal=False), 1)
    return value


def _mean(hits: Any, items: Any, above: Any, k: Any, *, reciprocal: bool) -> Any:
    """Return the sum over x with t0 + x <= k of P(x), or of P(x) / (t0 + x), of each group. All begin above rank k.

    Groups with about the same number of terms are summed together, in rows whose width depends only on the group.
    """
    xp = arrays.namespace(items)
    places = xp.minimum(items - hits + 1, k - above)
    value = (harmonic_difference(above, places) if reciprocal else places) / items  # one hit, anywhere
    terms = xp.where(hits > 1, xp.minimum(places, xp.ceil(_ENOUGH * items / hits)), 0)
    powers = arrays.clamp_min(xp.frexp(terms - 1)[1], _NARROWEST)
    for power in xp.unique(powers[terms > 0]).tolist():
        step = arrays.arange_like(1 << power, items)
        for rows in _blocks(arrays.true_indices((terms > 0) & (powers == power)), max(1, _MOST_AT_ONCE >> power)):
            columns = (x[rows][:, None] for x in (hits, items, above, terms))
            value[rows] = _sum(*columns, step=step, reciprocal=reciprocal)
    return value


def _sum(hits: Any, items: Any, above: Any, terms: Any, *, step: Any, reciprocal: bool) -> Any:
    """Return the sum of the first terms of one group per row."""
    chance = arrays.namespace(step).where(step < terms, (items - hits + 1 - step) / (items - step), 0)
    chance[..., :1] = hits / items
    chance = chance.cumprod(-1)
    if reciprocal:
        chance /= above + 1 + step
    return chance.sum(-1)


def _blocks(rows: Any, size: int) -> list[Any]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


_RATIOS = {
    "precision": "precision, the share of relevant items in",
    "recall": "recall, the share of the relevant items that are in",
    "f_beta": "F with beta = {beta}, of precision and recall in",
    "fall_out": "fall-out, the share of the items not relevant that are in",
    "hits": "the number of relevant items in",
    "capped_recall": "the number of relevant items, divided by their largest possible number, in",
    "precision_times_recall": "precision times recall in",
}


@dataclass(frozen=True)
class AtRank(Measure):
    """A ratio of the counts at rank k.

    Attributes:
        ratio: "precision", "recall", "f_beta", "fall_out", "hits" (the number of hits), "capped_recall" (hits divided
            by min(k, m)) or "precision_times_recall".
        top_k: k, "relevant" for m, or None for all items of the ranking.
        adaptive_k: whether k is n if fewer items were ranked, so that precision is hits / n.
        beta: weight of recall in "f_beta".
        ties: how a tie group that straddles k counts.
    """

    ratio: str
    top_k: TopK = None
    adaptive_k: bool = False
    beta: float = 1.0
    ties: str = "grouped"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("ratio", self.ratio, tuple(_RATIOS))
        checks.boolean("adaptive_k", self.adaptive_k)
        checks.beta("beta", self.beta, zero=True)

    @property
    def name(self) -> str:
        """Name for tables."""
        return f"F{self.beta:g}" if self.ratio == "f_beta" else self.ratio.replace("_", "-")

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher value is better."""
        return self.ratio != "fall_out"

    def describe(self) -> str:
        """Return the definition of the measure."""
        adaptive = ", or of all items of a query that has fewer" if self.adaptive_k and self.top_k is not None else ""
        return f"{_RATIOS[self.ratio].format(beta=f'{self.beta:g}')} {self.top}{adaptive}"

    @property
    def has_depth_bound(self) -> bool:
        """Whether rankings with few items cannot reach 1."""
        has_divisor = self.ratio in ("precision", "f_beta", "precision_times_recall")
        return has_divisor and isinstance(self.top_k, int) and not self.adaptive_k

    def upper_bound(self, most_items: int) -> float:
        """Return min(k, n) / k for precision, and F of this precision and recall 1; 1 for other ratios."""
        if not self.has_depth_bound or not isinstance(self.top_k, int):
            return 1.0
        hits, squared = min(self.top_k, most_items), self.beta**2
        return (1 + squared) * hits / (squared * hits + self.top_k) if self.ratio == "f_beta" else hits / self.top_k

    def _depends_on_order(self, curve: HitCurve) -> Tensor:
        return straddles(curve, self.top_k)

    def values_of_lists(self, rankings: Sequence[FewHits]) -> list[float] | None:
        """Return the value of each short ranking; None for rare settings."""
        nothing_else = self.ratio == "fall_out" and any(hits.n == len(hits.places) for hits in rankings)
        if self.adaptive_k or self.ratio not in ("precision", "recall", "fall_out") or nothing_else:
            return None
        return [lists.ratio(hits, self.ratio, self.top_k) for hits in rankings]

    @arrays.quiet
    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking: (S,) float64; NaN if nothing is relevant, 0 if no item was ranked."""
        native = curve.native
        k = cut_rank(self.top_k, native)
        if k is None or self.adaptive_k or self.ratio == "fall_out":
            k = segments.as_float64(native.n if k is None else arrays.clamp_max(native.n, k))
        if self.ratio == "f_beta":
            value = counts.counts_at_rank(native, k, ties=self.ties).f_beta(self.beta)
            return arrays.tensor(arrays.namespace(value).where(native.m > 0, value, torch.nan))
        tp = counts.hits_in_top(native, k, self.ties)
        where = arrays.namespace(tp).where
        if self.ratio == "recall":
            return arrays.tensor(tp / segments.as_float64(native.m))
        if self.ratio == "fall_out":
            others = segments.as_float64(native.n - native.hits_seen)
            return arrays.tensor(where(native.n > 0, (k - tp) / others, 0))
        divisor = {"hits": 1, "capped_recall": arrays.minimum(k + 0 * tp, segments.as_float64(native.m))}
        value = where(native.n > 0, tp / divisor.get(self.ratio, k), 0)
        if self.ratio == "precision_times_recall":
            value = value * tp / segments.as_float64(native.m)
        return arrays.tensor(where(native.m > 0, value, torch.nan))


@dataclass(frozen=True)
class AtEveryRank(Measure):
    """Precision or recall at each rank from 1 on.

    Attributes:
        ratio: "precision" or "recall".
        max_k: the last rank, or None for the length of the longest ranking.
        adaptive_k: whether precision beyond the n items of a ranking is hits / n.
        ties: how tie groups count.
    """

    ratio: str
    max_k: int | None = None
    adaptive_k: bool = False
    ties: str = "grouped"

    is_bounded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "max_k", checks.positive_int("max_k", self.max_k, optional=True))
        checks.boolean("adaptive_k", self.adaptive_k)

    @property
    def name(self) -> str:
        """Name for tables."""
        return f"{self.ratio} at every rank"

    def describe(self) -> str:
        """Return the definition of the measure."""
        return f"{self.ratio} at each rank"

    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking at each rank: (S, K) float64; NaN if nothing is relevant."""
        k = self.ranks(curve)
        rankings, ones = len(curve.m), torch.ones_like(curve.m)
        hits = counts.sum_hits_at_ranks(curve, len(k), self.ties, ones, curve.segment, rankings)
        n, m = curve.n[:, None], curve.m[:, None]
        total = m if self.ratio == "recall" else torch.minimum(k, n.clamp(min=1)) if self.adaptive_k else k
        return torch.where(m > 0, hits / segments.as_float64(total), torch.nan)

    def ranks(self, curve: HitCurve) -> Tensor:
        """Return the ranks: (K,) int64."""
        depth = self.max_k if self.max_k is not None else int(curve.n.max()) if len(curve.n) else 0
        return torch.arange(1, depth + 1, device=curve.m.device)


@dataclass(frozen=True)
class RPrecision(Measure):
    """Precision at rank m."""

    ties: str = "grouped"

    table_name: ClassVar[str] = "R-precision"

    def describe(self) -> str:
        """Return the definition of the measure."""
        return "R-precision, the precision at as many items as are relevant"

    def _depends_on_order(self, curve: HitCurve) -> Tensor:
        return straddles(curve, "relevant")

    def values_of_lists(self, rankings: Sequence[FewHits]) -> list[float]:
        """Return the value of each short ranking."""
        return [lists.ratio(hits, "precision", "relevant") for hits in rankings]

    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking: (S,) float64."""
        return counts.r_precision(curve, ties=self.ties)


_FIRST_HIT = {  # name for tables, description
    "reciprocal_rank": ("MRR", "the reciprocal rank of the first relevant item, in {}"),
    "hit_rate": ("hit rate", "whether a relevant item is in {}"),
}


@dataclass(frozen=True)
class FirstHit(Measure):
    """Reciprocal rank of the first hit in the top k, or whether it exists.

    Attributes:
        what: "reciprocal_rank" or "hit_rate".
        top_k: k, "relevant" for m, or None for all items of the ranking.
        ties: how a tie group counts.
    """

    what: str
    top_k: TopK = None
    ties: str = "grouped"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("what", self.what, tuple(_FIRST_HIT))

    @property
    def name(self) -> str:
        """Name for tables."""
        return _FIRST_HIT[self.what][0]

    def describe(self) -> str:
        """Return the definition of the measure."""
        return _FIRST_HIT[self.what][1].format(self.top)

    def values_of_lists(self, rankings: Sequence[FewHits]) -> list[float]:
        """Return the value of each short ranking."""
        return [lists.first_hit(hits, self.what, self.top_k) for hits in rankings]

    @arrays.quiet
    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking: (S,) float64; 0 without a hit in the top k, NaN if nothing is relevant."""
        curve = curve.native
        ranking, hits, items, above = _first_groups(curve)
        k = cut_rank(self.top_k, curve)
        k = k[ranking] if self.top_k == "relevant" else above * 0 + (torch.inf if k is None else k)
        first = self._values_of_groups(hits, items, above, k)
        if len(ranking) == len(curve.m):
            return arrays.tensor(first)
        value = segments.as_float64(curve.m) * 0
        value[ranking] = first
        return arrays.tensor(arrays.namespace(value).where(curve.m > 0, value, torch.nan))

    def _values_of_groups(self, hits: Any, items: Any, above: Any, k: Any) -> Any:
        """Return the value of each ranking from its first group with a hit."""
        is_reciprocal, place = self.what == "reciprocal_rank", self.rule.first_place
        if place is None:
            return (_mean_reciprocal_rank if is_reciprocal else _chance_of_hit)(hits, items, above, k)
        rank = above + place(hits, items)
        return arrays.namespace(rank).where(rank <= k, 1 / rank, 0) if is_reciprocal else segments.as_float64(rank <= k)

    def chance_level(self, curve: HitCurve, *, groups: HitCurve | None = None, **options: Any) -> Tensor:
        """Return the mean over random orders: (S,) float64.

        The top t of n items contain none of r hits with probability C(n - t, r) / C(n, r). The first hit is in the
        group from t0 to t with the difference of two such probabilities.
        """
        if groups is None:
            return super().chance_level(curve, **options)
        offsets = segments.from_counts(groups.n)
        owner = segments.ids(offsets)
        left = segments.as_float64(offsets[1:][owner] - torch.arange(len(owner), device=owner.device))
        share = (segments.as_float64(curve.hits_seen[: len(groups.n)])[owner] / left).clamp(max=1)
        missed = torch.cat([left.new_ones(1), segments.cumulative(torch.log1p(-share), offsets).exp()])
        end = offsets[groups.segment] + groups.cumulative_items
        chance = torch.where(groups.items_above > 0, missed[end - groups.items], 1) - missed[end]
        k = arrays.tensor(cut_rank(self.top_k, curve)) if isinstance(self.top_k, str) else self.top_k
        rank = segments.as_float64(groups.cumulative_items)
        if k is not None:
            chance = torch.where(rank <= rank_per_entry(k, groups.offsets), chance, 0)
        total = segments.total(chance / rank if self.what == "reciprocal_rank" else chance, groups.offsets)
        total = torch.cat([total, total.new_zeros(len(curve.m) - len(total))])
        return torch.where(curve.m > 0, total, torch.nan)

    def _depends_on_order(self, curve: HitCurve) -> Tensor:
        return curve.hits_above == 0


@dataclass(frozen=True)
class PrecisionAtRecall(Measure):
    """Interpolated precision from a recall level on, as in trec_eval."""

    level: float
    version: int

    table_name: ClassVar[str] = "interpolated precision"
    is_bounded: ClassVar[bool] = False
    has_chance_level = False

    def describe(self) -> str:
        """Return the definition of the measure."""
        return f"the highest precision at recall {self.level:g} or beyond, as in trec_eval {self.version}"

    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking: (S,) float64; tie groups are thresholds."""
        cuts = interpolation.trec_cuts(curve.m, torch.tensor([self.level], dtype=torch.float64), self.version)
        return interpolation.precision_at_hits(curve, cuts)[:, 0]
