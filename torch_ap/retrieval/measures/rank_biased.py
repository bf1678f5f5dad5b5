"""Rank-biased precision: the measure and its function.

A reader looks at the first item, and goes on to the next item with probability p. The item at rank t is seen with
probability p^(t - 1). The measure is the expected number of relevant items that the reader sees, divided by the
expected number of items. A tie group has g items, r hits and t0 items above it. At k, only its first L places count.

| rule | the group adds |
|---|---|
| expected | (r / g) (p^t0 - p^(t0 + L)), the mean over all orders |
| grouped | (r L / g) (1 - p) p^(t0 + L - 1): the whole group enters together, at the rank of its end |
| optimistic, pessimistic | p^(t0 + a) - p^(t0 + b), where the hits that count are at the places a + 1 to b |
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torch_ap.core.base import arrays, cached, checks, untraced
from torch_ap.core.base.options import Ties, TopK, TopKs
from torch_ap.core.measures.average_precision import places_within
from torch_ap.core.measures.measure import Measure, measure_at_ranks
from torch_ap.core.measures.ties import TieRule, cut_rank, rank_per_entry
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.retrieval.settings import evaluate_queries, with_query_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from torch_ap.retrieval.settings import QueryOptions


@dataclass(frozen=True)
class RankBiasedPrecision(Measure):
    """Rank-biased precision in the top k.

    Attributes:
        p: persistence: the probability that the reader goes on to the next item, in (0, 1).
        top_k: k, "relevant" for m, or None for all items of the ranking.
        ties: name of a tie rule.
    """

    p: float = 0.8
    top_k: TopK = None
    ties: str = "expected"

    has_depth_bound = True

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.open_fraction("p", self.p)

    @property
    def name(self) -> str:
        """Name for tables."""
        return f"RBP(p={self.p:g})"

    def describe(self) -> str:
        """Return the definition of the measure."""
        gain = f"{1 - self.p:g} * {self.p:g}^(rank - 1)"
        return f"rank-biased precision, the sum of {gain} over the relevant items in {self.top}"

    def upper_bound(self, most_items: int) -> float:
        """Return 1 - p^min(k, n), the value if all items are relevant."""
        return 1 - self.p ** (min(self.top_k, most_items) if isinstance(self.top_k, int) else most_items)

    @arrays.quiet
    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking: (S,) float64; NaN where nothing is relevant."""
        native = curve.native
        total = segments.total(self._sums(native, self.rule), native.offsets)
        return arrays.tensor(arrays.namespace(total).where(native.m > 0, total, torch.nan))

    def chance_level(self, curve: HitCurve, *, groups: HitCurve | None = None, **options: Any) -> Tensor:
        """Return the mean over random orders: (S,) float64. All places have the same mean relevance."""
        if groups is None:
            return super().chance_level(curve, **options)
        total = arrays.tensor(segments.total(self._sums(groups.native, self.rule), groups.native.offsets))
        total = torch.cat([total, total.new_zeros(len(curve.m) - len(total))])
        share = segments.as_float64(curve.hits_seen) / segments.as_float64(curve.n).clamp(min=1)
        return torch.where(curve.m > 0, share * total, torch.nan)

    def _sums(self, curve: Any, rule: TieRule) -> Any:
        """Return the contribution of each tie group: (E,) float64, native."""
        hits, items, above = (segments.as_float64(x) for x in (curve.hits, curve.items, curve.items_above))
        k = rank_per_entry(cut_rank(self.top_k, curve), curve.offsets)
        places = items if k is None else places_within(items, above, k)
        if rule.is_threshold:
            inside = rule.hits_within(hits, items, places)
            return inside * (1 - self.p) * self.p ** arrays.clamp_min(above + places - 1, 0)
        first, last = rule.hit_places(hits, items)
        size, last = arrays.clamp_min(last - first, 1), arrays.maximum(arrays.minimum(last, places), first)
        return hits / size * (self.p ** (above + first) - self.p ** (above + last))


_measure = cached.settings_cache(RankBiasedPrecision)


@untraced.untraced
@with_query_options
def retrieval_rank_biased_precision(
    preds: Tensor,
    target: Tensor,
    top_k: TopKs = None,
    p: float = 0.8,
    *,
    ties: Ties = "expected",
    **options: "Unpack[QueryOptions]",
) -> Tensor:
    r"""Return the rank-biased precision of each query: the share of relevant items that a reader is expected to see.

    .. math::
        RBP = (1 - p) \sum_{t=1}^{k} y_t \, p^{t - 1}

    where y_t is 1 if the item at rank t is relevant, else 0.

    Args:
        preds: scores, (D,), (Q, D), or any shape with ``indexes``; see
            :func:`torch_ap.functional.retrieval_average_precision`.
        target: shape of ``preds``; integers, bool or floats: the relevance of each item.
        top_k: k of at least 1, "relevant" for m, a list of different ranks, or None for all items of the query.
        p: persistence: the probability that the reader goes on to the next item, in (0, 1).
        ties: "expected" (mean over all orders of equal scores), "grouped" (all at the rank of the last item of the
            group), "optimistic", "pessimistic".
        **options: see :func:`torch_ap.functional.retrieval_average_precision`.

    Returns:
        0-d for (D,) scores, (Q,) for (Q, D); with ``indexes`` (Q,), ascending by query. In [0, 1).

    Raises:
        TypeError, ValueError: if an argument breaks one of these rules; the message names the argument.

    Equals ``ir_measures.RBP`` if no scores are tied.

    Source: Moffat & Zobel (2008), Rank-Biased Precision for Measurement of Retrieval Effectiveness.

    Example:
        >>> import torch
        >>> from torch_ap.functional import retrieval_rank_biased_precision
        >>> retrieval_rank_biased_precision(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1, 0, 1]), p=0.5)
        tensor(0.6250)
    """
    measure = measure_at_ranks(top_k, lambda k: _measure(p, k, ties))
    return evaluate_queries(measure, preds, target, **options)
