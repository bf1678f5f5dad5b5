"""Measures relative to the share of hits: normalized average precision, and the area under precision-recall gain.

A random ranking of many items has the value 0 for any share of hits, a ranking below chance a negative value.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from torch_ap.core.measures.convention import PLAIN
from torch_ap.core.measures.measure import Measure
from torch_ap.core.measures.precision_recall_gain import precision_recall_gain_area
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve


@dataclass(frozen=True)
class _Relative(Measure):
    """A measure relative to the share of hits.

    Attributes:
        ties: name of a tie rule, "grouped".
    """

    ties: str = "grouped"

    supported_ties: ClassVar[tuple[str | None, ...]] = ("grouped",)
    is_bounded: ClassVar[bool] = False


@dataclass(frozen=True)
class NormalizedAveragePrecision(_Relative):
    """Average precision relative to the share of hits, (AP - m / n) / (1 - m / n)."""

    table_name: ClassVar[str] = "normalized AP"

    def describe(self) -> str:
        """Return the definition of the measure."""
        return "average precision relative to the share p of relevant items, (AP - p) / (1 - p)"

    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking: (S,) float64; NaN without hits or without misses."""
        return _relative(PLAIN.values(curve), curve)

    def chance_level(
        self, curve: HitCurve, *, groups: HitCurve | None = None, undefined: float | None = None
    ) -> Tensor:
        """Return the mean over random orders: (S,) float64."""
        return _relative(PLAIN.chance_level(curve, groups=groups, undefined=undefined), curve)


@dataclass(frozen=True)
class PrecisionRecallGainArea(_Relative):
    """Area under the curve of precision gain over recall gain (Flach & Kull 2015)."""

    table_name: ClassVar[str] = "AUPRG"

    @property
    def has_chance_level(self) -> bool:
        """Whether the mean over random orders has a closed form."""
        return False

    def describe(self) -> str:
        """Return the definition of the measure."""
        return "the area under the curve of precision gain over recall gain"

    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking: (S,) float64; NaN without hits or without misses."""
        return precision_recall_gain_area(curve)


def _relative(values: Tensor, curve: HitCurve) -> Tensor:
    """Return APs relative to the share of hits; NaN without misses."""
    share = segments.as_float64(curve.m) / segments.as_float64(curve.n)
    return torch.where(share < 1, (values - share) / (1 - share), torch.nan)
