"""Expected reciprocal rank: a reader stops at the first item that satisfies.

An item of grade g satisfies with probability R = (2^g - 1) / 2^G, where G is the highest possible grade. The measure is
the mean of 1 / rank of the item where the reader stops, and 0 for readers that never stop:

    ERR = sum over ranks t of (1 / t) R_t (1 - R_1) ... (1 - R_{t - 1})

Tied items are in descending order of their grades ("optimistic"), in ascending order ("pessimistic"), or all have the
rank of the last of them ("grouped"). The mean over all orders ("expected") of a group below t0 items, which the share S
of the readers reaches, is

    S sum over j of (E_{j - 1} - E_j) / (t0 + j)

where E_j is the mean, over all choices of j of its items, of the product of 1 - R: j of the items are equally likely to
precede the others, and E_{j - 1} - E_j readers stop at the next one.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from torch_ap.core.base import arrays, checks
from torch_ap.core.base.options import TopK
from torch_ap.core.measures.measure import Measure
from torch_ap.core.measures.ties import cut_rank, rank_per_entry
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.retrieval.measures.gain import order_gains


@dataclass(frozen=True)
class ExpectedReciprocalRank(Measure):
    """Expected reciprocal rank in the top k (Chapelle, Metzler, Zhang & Grinspan 2009, equation 4).

    Attributes:
        top_k: k, "relevant" for the number of items with a grade above 0, or None for all items of the ranking.
        max_grade: highest possible grade, at least 1; 4 as in gdeval and ir_measures.
        ties: "expected", "grouped", "optimistic" or "pessimistic".
    """

    top_k: TopK = None
    max_grade: int = 4
    ties: str = "grouped"

    graded: ClassVar[bool] = True
    table_name: ClassVar[str] = "ERR"
    is_bounded: ClassVar[bool] = False
    has_chance_level = False

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive_int("max_grade", self.max_grade)

    def describe(self) -> str:
        """Return the definition of the measure."""
        return (
            f"expected reciprocal rank in {self.top}, where an item satisfies with probability "
            f"(2^grade - 1) / {2**self.max_grade}"
        )

    @arrays.quiet
    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking of a curve with grades: (S,) float64, NaN if nothing has a gain.

        Raises:
            ValueError: for a grade above ``max_grade``.
        """
        native, grades = curve.native, arrays.native(curve.grades)
        highest = float(arrays.tensor(grades).max()) if len(grades) else 0
        if highest > self.max_grade:
            raise ValueError(f"ERR takes grades up to `max_grade`, {self.max_grade}, got {highest:g}")
        satisfied = (2.0**grades - 1) / 2.0**self.max_grade
        hits_above = segments.from_zero(native.hits)
        if self.ties == "expected":
            return self._mean_over_orders(curve, arrays.tensor(satisfied), arrays.tensor(hits_above))
        if self.rule.is_threshold:
            going_on = segments.total(arrays.namespace(grades).log1p(-satisfied), hits_above)
            rank, offsets = native.items_above + native.items, native.offsets
        else:
            ordered, above, _ = order_gains(native, satisfied, hits_above, self.rule)
            going_on, rank, offsets = arrays.namespace(ordered).log1p(-ordered), above + 1, hits_above[native.offsets]
        k = rank_per_entry(cut_rank(self.top_k, native), offsets)
        space = arrays.namespace(going_on)
        before = arrays.native(segments.cumulative(*map(arrays.tensor, (going_on, offsets)))) - going_on
        added = -space.expm1(going_on) * space.exp(before) / rank
        value = segments.total(added if k is None else added * (rank <= k), offsets)
        return arrays.tensor(space.where(native.m > 0, value, torch.nan))

    def _mean_over_orders(self, curve: HitCurve, satisfied: Tensor, hits_above: Tensor) -> Tensor:
        """Return the mean value over all orders of tied items: (S,) float64, NaN if nothing has a gain.

        Args:
            curve: the rankings.
            satisfied: (H,) probability of each hit that it satisfies.
            hits_above: (E + 1,) number of hits before each tie group, of all rankings.
        """
        going_on = segments.as_float64(segments.total(torch.log1p(-satisfied), hits_above))
        before = (segments.cumulative(going_on, curve.offsets) - going_on).exp()
        last = rank_per_entry(cut_rank(self.top_k, curve.native), curve.native.offsets)
        if isinstance(last, int):
            last = torch.full_like(curve.items, last)
        added = torch.zeros_like(before)
        sizes, kind = torch.unique(torch.stack([curve.items, curve.hits]), dim=1, return_inverse=True)
        for number, (items, hits) in enumerate(sizes.t().tolist()):  # groups of one form make a table
            same = kind == number
            places = hits_above[:-1][same, None] + torch.arange(hits, device=kind.device)
            reached = _mean_survival(1 - satisfied[places], items)
            rank = curve.items_above[same, None] + torch.arange(1, items + 1, device=kind.device)
            stopped = (reached[:, :-1] - reached[:, 1:]) / rank
            added[same] = (stopped if last is None else stopped * (rank <= arrays.tensor(last)[same, None])).sum(1)
        value = segments.total(before * added, curve.offsets)
        return torch.where(curve.m > 0, value, torch.nan)


def _mean_survival(going_on: Tensor, items: int) -> Tensor:
    """Return the mean of the product of the factors of j chosen items, for j from 0 to g: (T, g + 1) float64.

    Args:
        going_on: (T, r) factors of the hits of each group; the factors of its other items are 1.
        items: g, the number of items of each group, hits included.
    """
    groups, hits = going_on.shape
    chosen = torch.arange(hits + 1, dtype=torch.float64, device=going_on.device)
    mean = torch.eye(1, hits + 1, dtype=torch.float64, device=going_on.device).expand(groups, -1)
    for number, factor in enumerate(going_on.t().unsqueeze(-1), 1):  # the mean over choices among the first hits
        share = (chosen / number).clamp(max=1)
        mean = (1 - share) * mean + share * factor * mean.roll(1, 1)

    def log_choices(n: Tensor | int, k: Tensor) -> Tensor:
        """Return the logarithm of the number of choices of k among n, -inf for none."""
        inside = (k >= 0) & (k <= n)
        n, k = torch.as_tensor(n).to(k), torch.where(inside, k, 0)
        choices = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
        return torch.where(inside, choices, -torch.inf)

    places = torch.arange(items + 1, dtype=torch.float64, device=going_on.device)[:, None]
    among = (log_choices(hits, chosen) + log_choices(items - hits, places - chosen)).softmax(1)  # hits of j items
    return mean @ among.t()
