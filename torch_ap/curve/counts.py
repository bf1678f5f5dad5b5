"""True and false positives and negatives at a cut of the ranking, and the measures that are ratios of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve.average_precision import hits_within, places_within
from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.rules import checks
from torch_ap.runtime import arrays


@dataclass(frozen=True, eq=False)
class Counts:
    """The four counts of a binary decision, as float64 tensors of one shape; ratios of nothing are NaN.

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
        """The same change made to each count: picked, reshaped, moved."""
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

        NaN where a sum under the root is 0; scikit-learn gives 0 there (Matthews 1975).
        """
        retrieved, relevant = self.tp + self.fp, self.tp + self.fn
        left, irrelevant = self.tn + self.fn, self.tn + self.fp
        # a pair of factors at a time: the root of a square is exact, and four counts of 1e80 would overflow
        spread = torch.sqrt(retrieved * relevant) * torch.sqrt(left * irrelevant)
        return (self.tp * self.tn - self.fp * self.fn) / spread

    def f_beta(self, beta: float = 1.0) -> Tensor:
        """(1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp), which is (1 + beta^2) p r / (beta^2 p + r).

        Recall counts ``beta`` times as much as precision (van Rijsbergen 1979). Written in counts it is 0 where
        nothing is retrieved, and NaN only where nothing is retrieved and nothing is relevant.
        """
        checks.beta("beta", beta, zero=True)
        share = beta**2 / (1 + beta**2) if beta < 1 else 1 / (1 + float(beta) ** -2)
        return self.tp / (self.tp + share * self.fn + (1 - share) * self.fp)

    def effectiveness(self, alpha: float = 0.5) -> Tensor:
        """Van Rijsbergen's E = 1 - 1 / (alpha / p + (1 - alpha) / r); 1 - F_beta for alpha = 1 / (beta^2 + 1).

        Lower is better. 1 / p = (tp + fp) / tp and 1 / r = (tp + fn) / tp, so that nothing is divided by 0 items.
        """
        checks.fraction("alpha", alpha)
        return 1 - self.tp / (alpha * (self.tp + self.fp) + (1 - alpha) * (self.tp + self.fn))


@arrays.quiet
def counts_at_rank(curve: HitCurve, k: Any, *, ties: str = "grouped") -> Counts:
    """The counts when each ranking's top ``k`` items are retrieved.

    Where fewer than k items were ranked, the missing ones count as retrieved and not relevant, so that precision is
    hits / k.

    Args:
        curve: S rankings without weights, or their native values.
        k: an int of at least 1; or (S,) float64, one per ranking.
        ties: how many hits of a group that straddles k count: "grouped" and "expected" its share, r L / g;
            "optimistic" the most, "pessimistic" the fewest.

    Returns:
        Counts of shape (S,), native where the curve is.
    """
    values, k = curve.native, arrays.native(k)
    tp = hits_in_top(values, k, ties)
    n, m = segments.as_float64(values.n), segments.as_float64(values.m)
    misses, retrieved = n - segments.as_float64(values.hits_seen), arrays.at_most(n, k)
    found = Counts(tp=tp, fp=k - tp, fn=m - tp, tn=misses - (retrieved - tp))
    return found if values is curve else found.map(arrays.tensor)


def hits_in_top(curve: Any, k: Any, ties: str) -> Any:
    """The number of hits in the top k of each ranking of a native curve: (S,) float64.

    Args:
        curve, k, ties: as in :func:`counts_at_rank`, native values.
    """
    if curve.single:
        return np.array([hits_of_one(curve, k if isinstance(k, int) else int(k[0]), ties)])
    if not len(curve.items_above):
        return segments.as_float64(curve.m) * 0
    where = arrays.namespace(curve.items_above).where
    cut = k if isinstance(k, int) else segments.each_entry(k, curve.offsets)
    if curve.untied:
        return segments.total(segments.as_float64(curve.items_above < cut), curve.offsets)
    reached = segments.total(where(curve.items_above < cut, 1, 0), curve.offsets)
    last = arrays.at_least(curve.offsets[:-1] + reached - 1, 0)
    hits, items, hits_above, above = (
        segments.as_float64(x[last]) for x in (curve.hits, curve.items, curve.hits_above, curve.items_above)
    )
    return where(reached > 0, hits_above + hits_within(hits, items, places_within(items, above, k), ties), 0)


def hits_of_one(curve: Any, k: int, ties: str) -> float:
    """:func:`hits_in_top` of one ranking, without arrays: only its last group in the top k is looked at."""
    last = np.count_nonzero(curve.items_above < k) - 1
    if last < 0:
        return 0.0
    hits, items, above = curve.hits.item(last), curve.items.item(last), curve.items_above.item(last)
    places = min(items, k - above)
    if ties == "optimistic":
        inside = min(hits, places)
    elif ties == "pessimistic":
        inside = max(places - (items - hits), 0)
    else:
        inside = hits * (places / items)
    return float(curve.hits_above.item(last) + inside)


def hits_at_every_rank(curve: HitCurve, depth: int, ties: str) -> Tensor:
    """h(k) of each ranking for k = 1 .. ``depth``: (S, K) float64; inside a tie group as :func:`hits_in_top` has it."""
    hits, items, first = curve.hits, curve.items, curve.items_above
    last, rise = first + items, segments.as_float64(hits) / segments.as_float64(items)
    if ties in ("optimistic", "pessimistic"):
        first, last = (first, first + hits) if ties == "optimistic" else (last - hits, last)
        rise = torch.ones_like(rise)
    row = curve.segment * (depth + 1)
    added, steps = (rise.new_zeros(len(curve.m) * (depth + 1)) for _ in range(2))
    one, (first, last) = last - first == 1, (x.clamp(max=depth) for x in (first, last))
    # where groups of several places lie, as much is added at each of them; other places stay without rounding
    longer = torch.where(one, 0, rise)
    added.index_add_(0, row + first, torch.where(one, rise, 0))
    steps.index_add_(0, row + first, longer).index_add_(0, row + last, -longer)
    added, steps = (x.reshape(-1, depth + 1)[:, :depth] for x in (added, steps))
    return (added + steps.cumsum(1)).cumsum(1)


def counts_from_bins(hits: Tensor, items: Tensor) -> Counts:
    """The counts at the lower edge of each bin: all items of that bin and of those above it are retrieved.

    Args:
        hits: (S, B) hits in each bin, highest scores first; the last bin holds what no threshold retrieves.
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
    """Precision at rank m of each ranking, also the recall there: (S,) float64; NaN where nothing is relevant."""
    native = curve.native
    if native.single:
        most = native.m.item(0)
        return arrays.tensor(np.array([hits_of_one(native, most, ties) / most if most else np.nan]))
    m = segments.as_float64(native.m)
    return arrays.tensor(hits_in_top(native, m, ties) / m)


def hits_at(curve: HitCurve, t: Tensor, *, ties: str = "grouped") -> Tensor:
    """h(t), the hits among the top t of one ranking, at any t.

    Between whole ranks, and inside a tie group under "grouped" and "expected", h is the straight line: the share of
    the group's hits that its first places are expected to hold.

    Args:
        curve: one ranking, without weights.
        t: (T,) ranks in [0, n], whole or not.

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
    found: Tensor = hits_above + hits_within(hits, items, places, ties)
    return found
