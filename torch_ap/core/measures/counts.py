"""True and false positives and negatives at a cut of the ranking, and their ratios."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks
from torch_ap.core.base.record import Record
from torch_ap.core.measures.average_precision import places_within
from torch_ap.core.measures.ties import tie_rule
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve


@dataclass(frozen=True, eq=False)
class Counts(Record):
    """The four counts of a binary decision, as float64 tensors of one shape; 0 / 0 is NaN.

    Attributes:
        tp: relevant and retrieved.
        fp: not relevant, retrieved.
        fn: relevant, not retrieved.
        tn: not relevant, not retrieved.
    """

    tp: Tensor
    fp: Tensor
    fn: Tensor
    tn: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> "Counts":
        """Return the counts with a function applied to each of them."""
        return Counts(change(self.tp), change(self.fp), change(self.fn), change(self.tn))

    @property
    def precision(self) -> Tensor:
        """Precision, tp / (tp + fp)."""
        return self.tp / (self.tp + self.fp)

    @property
    def recall(self) -> Tensor:
        """Recall, tp / (tp + fn), also called sensitivity and true positive rate."""
        return self.tp / (self.tp + self.fn)

    @property
    def specificity(self) -> Tensor:
        """Specificity, tn / (tn + fp), also called true negative rate."""
        return self.tn / (self.tn + self.fp)

    @property
    def fall_out(self) -> Tensor:
        """Fall-out, fp / (fp + tn), also called false positive rate."""
        return self.fp / (self.fp + self.tn)

    @property
    def miss_rate(self) -> Tensor:
        """Miss rate, fn / (tp + fn), also called false negative rate: 1 - recall."""
        return self.fn / (self.tp + self.fn)

    @property
    def false_discovery_rate(self) -> Tensor:
        """False discovery rate, fp / (tp + fp): 1 - precision."""
        return self.fp / (self.tp + self.fp)

    @property
    def accuracy(self) -> Tensor:
        """Accuracy, (tp + tn) / (tp + fp + fn + tn)."""
        return (self.tp + self.tn) / (self.tp + self.fp + self.fn + self.tn)

    @property
    def matthews_corrcoef(self) -> Tensor:
        """Matthews correlation: (tp tn - fp fn) / sqrt((tp + fp) (tp + fn) (tn + fp) (tn + fn)), in [-1, 1].

        NaN if a sum under the root is 0; scikit-learn returns 0 in this case (Matthews 1975).
        """
        total = self.tp + self.fp + self.fn + self.tn
        unit = total / torch.frexp(total).mantissa  # a power of two: counts in it are exact, and products are finite
        tp, fp, fn, tn = (x / unit for x in (self.tp, self.fp, self.fn, self.tn))
        # pairs of factors, because the root of a square is exact
        spread = torch.sqrt((tp + fp) * (tp + fn)) * torch.sqrt((tn + fn) * (tn + fp))
        return (tp * tn - fp * fn) / spread

    def f_beta(self, beta: float = 1.0) -> Tensor:
        """Return F_beta = (1 + beta^2) p r / (beta^2 p + r) (van Rijsbergen 1979).

        It is computed as (1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp). Without retrieved items it is 0, and NaN
        if there are no relevant items either.

        Args:
            beta: weight of recall relative to precision.
        """
        checks.beta("beta", beta, zero=True)
        share = beta**2 / (1 + beta**2) if beta < 1 else 1 / (1 + float(beta) ** -2)
        return self.tp / (self.tp + share * self.fn + (1 - share) * self.fp)

    def effectiveness(self, alpha: float = 0.5) -> Tensor:
        """Return van Rijsbergen's E = 1 - 1 / (alpha / p + (1 - alpha) / r); lower is better.

        It equals 1 - F_beta for alpha = 1 / (beta^2 + 1). It is computed from 1 / p = (tp + fp) / tp and
        1 / r = (tp + fn) / tp, which avoids divisions by 0 items.

        Args:
            alpha: weight of precision, in [0, 1].
        """
        checks.fraction("alpha", alpha)
        return 1 - self.tp / (alpha * (self.tp + self.fp) + (1 - alpha) * (self.tp + self.fn))


@arrays.quiet
def counts_at_rank(curve: HitCurve, k: Any, *, ties: str = "grouped") -> Counts:
    """Return the counts if the top ``k`` items of each ranking are retrieved.

    If fewer than k items were ranked, the missing ones count as retrieved and not relevant, so that precision is
    hits / k.

    Args:
        curve: S rankings without weights, or their native values.
        k: an int of at least 1; or (S,) float64, one per ranking.
        ties: number of counted hits of a group that straddles k: "grouped" and "expected" r L / g, "optimistic" the
            highest possible number, "pessimistic" the lowest.

    Returns:
        Counts of shape (S,), native if the curve is native.
    """
    values, k = curve.native, arrays.native(k)
    tp = hits_in_top(values, k, ties)
    n, m = segments.as_float64(values.n), segments.as_float64(values.m)
    misses, retrieved = n - segments.as_float64(values.hits_seen), arrays.clamp_max(n, k)
    counts = Counts(tp=tp, fp=k - tp, fn=m - tp, tn=misses - (retrieved - tp))
    return counts if values is curve else counts.map(arrays.tensor)


def hits_in_top(curve: Any, k: Any, ties: str) -> Any:
    """Return the number of hits in the top k of each ranking of a native curve: (S,) float64.

    Args:
        curve: S rankings without weights, native.
        k: an int of at least 1; or (S,) float64, native.
        ties: as in :func:`counts_at_rank`.
    """
    if curve.single:
        return np.array([single_hits_in_top(curve, k if isinstance(k, int) else int(k[0]), ties)])
    if not len(curve.items_above):
        return segments.as_float64(curve.m) * 0
    where = arrays.namespace(curve.items_above).where
    cut = k if isinstance(k, int) else segments.each_entry(k, curve.offsets)
    if curve.untied:
        return segments.total(segments.as_float64(curve.items_above < cut), curve.offsets)
    reached = segments.total(where(curve.items_above < cut, 1, 0), curve.offsets)
    last = arrays.clamp_min(curve.offsets[:-1] + reached - 1, 0)
    hits, items, hits_above, above = (
        segments.as_float64(x[last]) for x in (curve.hits, curve.items, curve.hits_above, curve.items_above)
    )
    inside = tie_rule(ties).hits_within(hits, items, places_within(items, above, k))
    return where(reached > 0, hits_above + inside, 0)


def single_hits_in_top(curve: Any, k: int, ties: str) -> float:
    """Return :func:`hits_in_top` of one ranking, computed from its last group in the top k."""
    last = np.count_nonzero(curve.items_above < k) - 1
    if last < 0:
        return 0.0
    hits, items, above = curve.hits.item(last), curve.items.item(last), curve.items_above.item(last)
    return float(curve.hits_above.item(last) + tie_rule(ties).hits_within(hits, items, min(items, k - above)))


def sum_hits_at_ranks(
    curve: HitCurve, depth: int, ties: str, weight: Tensor, rows: Tensor | None = None, count: int = 1
) -> Tensor:
    """Return sums over rankings of h(k) times a weight, for k = 1 .. ``depth``: (``count``, K) float64.

    Args:
        curve: S rankings without weights.
        depth: the last rank.
        ties: name of a tie rule.
        weight: (S,) weight of each ranking.
        rows: (E,) row of the result for each entry; None for a single row.
        count: number of rows.
    """
    first, last = tie_rule(ties).hit_places(curve.hits, curve.items)
    size = last - first
    first, last = (x + curve.items_above for x in (first, last))
    rise = segments.as_float64(curve.hits) / segments.as_float64(size.clamp(min=1)) * weight[curve.segment]
    start = 0 if rows is None else rows * (depth + 1)
    added, steps = (rise.new_zeros(count * (depth + 1)) for _ in range(2))
    first, last = (start + x.clamp(max=depth) for x in (first, last))
    # groups of one item are added without rounding; a larger group adds the same amount at each of its ranks
    longer = torch.where(size == 1, 0, rise)
    added.index_add_(0, first, torch.where(size == 1, rise, 0))
    steps.index_add_(0, first, longer).index_add_(0, last, -longer)
    added, steps = (x.reshape(count, depth + 1)[:, :depth] for x in (added, steps))
    total: Tensor = (added + steps.cumsum(1)).cumsum(1)
    return total


def counts_from_bins(hits: Tensor, items: Tensor) -> Counts:
    """Return the counts at the lower edge of each bin, where the bin and all higher bins are retrieved.

    Args:
        hits: (S, B) hits in each bin, highest scores first; the last bin is never retrieved.
        items: (S, B) items in each bin.

    Returns:
        Counts of shape (S, B - 1), one threshold per column, highest first.
    """
    tp, retrieved = (segments.as_float64(x.cumsum(1))[:, :-1] for x in (hits, items))
    m, n = (segments.as_float64(x.sum(1, keepdim=True)) for x in (hits, items))
    fp = retrieved - tp
    return Counts(tp=tp, fp=fp, fn=m - tp, tn=n - m - fp)


@arrays.quiet
def r_precision(curve: HitCurve, *, ties: str = "grouped") -> Tensor:
    """Return precision at rank m, equal to recall at m: (S,) float64, NaN without relevant items."""
    native = curve.native
    m = segments.as_float64(native.m)
    return arrays.tensor(hits_in_top(native, m, ties) / m)


def hits_at(curve: HitCurve, t: Tensor, *, ties: str = "grouped") -> Tensor:
    """Return h(t), the number of hits among the top t of one ranking.

    Between whole ranks h is linear. Inside a tie group it is linear for "grouped" and "expected": the expected number
    of hits in the first places.

    Args:
        curve: one ranking, without weights.
        t: (T,) ranks in [0, n], also fractional ones.
        ties: name of a tie rule.

    Returns:
        (T,) float64.
    """
    t = segments.as_float64(t)
    if not len(curve.hits):
        return torch.zeros_like(t)
    entry = (torch.searchsorted(segments.as_float64(curve.items_above), t, right=False) - 1).clamp(min=0)
    hits, items, hits_above, items_above = (
        segments.as_float64(x[entry]) for x in (curve.hits, curve.items, curve.hits_above, curve.items_above)
    )
    places = torch.minimum(items, (t - items_above).clamp(min=0))
    total: Tensor = hits_above + tie_rule(ties).hits_within(hits, items, places)
    return total
