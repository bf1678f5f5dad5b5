"""Measures relative to the share of hits: normalized average precision, and the area under precision-recall gain.

A random ranking of many items has the value 0 for any share of hits, a ranking below chance a negative value. With m
positives among n items and q negatives (Flach & Kull 2015),

    precision gain = (p - m / n) / ((1 - m / n) p) = 1 - (m / q) FP / TP
    recall gain    = (r - m / n) / ((1 - m / n) r) = 1 - (m / q) FN / TP

The area is over recall gains from 0, which recall reaches at m / n. Points between two thresholds are on a straight
line, which the counts follow too.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from torch_ap.core.measures.convention import PLAIN
from torch_ap.core.measures.measure import Measure
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

    def chance_level(self, curve: HitCurve, **options: Any) -> Tensor:
        """Return the mean over random orders: (S,) float64."""
        return _relative(PLAIN.chance_level(curve, **options), curve)


@dataclass(frozen=True)
class PrecisionRecallGainArea(_Relative):
    """Area under the curve of precision gain over recall gain (Flach & Kull 2015)."""

    table_name: ClassVar[str] = "AUPRG"
    has_chance_level = False

    def describe(self) -> str:
        """Return the definition of the measure."""
        return "the area under the curve of precision gain over recall gain"

    def values(self, curve: HitCurve) -> Tensor:
        """Return the value of each ranking: (S,) float64; NaN without hits or without misses."""
        return precision_recall_gain_area(curve)


def gain(wrong: Tensor, tp: Tensor, m: Tensor, n: Tensor) -> Tensor:
    """Return the precision gain of FP, or the recall gain of FN; NaN without hits or without misses."""
    return 1 - m / (n - m) * (wrong / tp)


def precision_recall_gain_area(curve: HitCurve) -> Tensor:
    """Return the area under the precision-recall-gain curve: (S,) float64, at most 1; NaN without hits or misses.

    Args:
        curve: S rankings, weighted or not, with a threshold per tie group.
    """
    hits, items, h, t = curve.float_counts
    n, m = (segments.each_entry(segments.as_float64(x), curve.offsets) for x in (curve.n, curve.m))
    # the part of each tie group below recall m / n is left out
    part = torch.where(hits > 0, (m * (m / n) - h) / hits, 1.0).clamp(0, 1)
    start, end = h + part * hits, h + hits
    precision = gain(t - h + part * (items - hits), start, m, n) + gain(t - h + items - hits, end, m, n)
    width = gain(m - end, end, m, n) - gain(m - start, start, m, n)
    area: Tensor = curve.total(torch.where(part < 1, width * precision / 2, 0))
    return torch.where((curve.m > 0) & (curve.m < curve.n), area.clamp(max=1), torch.nan)  # sums round


def _relative(values: Tensor, curve: HitCurve) -> Tensor:
    """Return APs relative to the share of hits; NaN without misses."""
    share = segments.as_float64(curve.m) / segments.as_float64(curve.n)
    return torch.where(share < 1, (values - share) / (1 - share), torch.nan)
