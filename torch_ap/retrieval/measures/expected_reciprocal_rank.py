"""Expected reciprocal rank: a reader stops at the first item that satisfies.

An item of grade g satisfies with probability R = (2^g - 1) / 2^G, where G is the highest possible grade. The measure is
the mean of 1 / rank of the item where the reader stops, and 0 for readers that never stop:

    ERR = sum over ranks t of (1 / t) R_t (1 - R_1) ... (1 - R_{t - 1})

Tied items are in descending order of their grades ("optimistic"), in ascending order ("pessimistic"), or all have the
rank of the last of them ("grouped").
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
        ties: "grouped", "optimistic" or "pessimistic".
    """

    top_k: TopK = None
    max_grade: int = 4
    ties: str = "grouped"

    supported_ties: ClassVar[tuple[str | None, ...]] = ("grouped", "optimistic", "pessimistic")
    graded: ClassVar[bool] = True
    table_name: ClassVar[str] = "ERR"
    is_bounded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive_int("max_grade", self.max_grade)

    @property
    def has_chance_level(self) -> bool:
        """Whether the mean over random orders has a closed form."""
        return False

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
