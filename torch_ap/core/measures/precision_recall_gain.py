"""Precision gain, recall gain, and the area under the curve of the two (Flach & Kull 2015).

With m positives among n items and q negatives,

    precision gain = (p - m / n) / ((1 - m / n) p) = 1 - (m / q) FP / TP
    recall gain    = (r - m / n) / ((1 - m / n) r) = 1 - (m / q) FN / TP

The area is over recall gains from 0, which recall reaches at m / n. Points between two thresholds are on a straight
line, which the counts follow too.
"""

import torch
from torch import Tensor

from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve


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
