"""What each item adds to the APs of two systems that rank it, and so how far functions of the two can be trusted."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from torch_ap.inference import influence, jackknife
from torch_ap.inference.student import student_tail
from torch_ap.ranking.hit_curve import HitCurve


class PairedItems:
    """What each item adds to both systems' AP, and so the standard error of functions of the two."""

    def __init__(
        self, curves: Sequence[HitCurve], scores: tuple[Tensor, Tensor], relevant: Tensor, source: str, design: str
    ) -> None:
        self.curves, self.relevant, self.source, self.design = curves, relevant, source, design
        self.m, self.n = int(curves[0].m), len(relevant)
        self.each: list[Tensor] = []
        if min(self.m, self.n - self.m) > 1:
            of = influence.influence if source == "influence" else jackknife.leave_one_out
            self.each = [of(curve).of_items(s, relevant) for curve, s in zip(curves, scores, strict=True)]

    def error(self, slopes: tuple[float, float] = (1.0, 1.0)) -> float:
        """Of slope * AP(A) - slope * AP(B); NaN with fewer than two hits or two misses."""
        if not self.each:
            return math.nan
        gap = slopes[0] * self.each[0] - slopes[1] * self.each[1]
        if self.source == "influence":
            value = centred(gap, self.relevant).square().sum()
            if self.design == "iid":
                shares = [influence.prevalence_slope(curve) for curve in self.curves]
                slope = slopes[0] * shares[0] - slopes[1] * shares[1]
                value = value + self.m * (self.n - self.m) / self.n**3 * slope.square()[0]
            return math.sqrt(float(value))
        parts = (gap,) if self.design == "iid" else (gap[self.relevant], gap[~self.relevant])
        return math.sqrt(float(sum((len(x) - 1) / len(x) * (x - x.mean()).square().sum() for x in parts)))


def p_of_logits(values: list[float], items: PairedItems, least: int) -> float:
    """Of the difference of logits, as though one more hit in ``least`` had not been found."""
    share = least / (least + 1)
    a, b = (share * value for value in values)
    error = items.error((share / (a * (1 - a)), share / (b * (1 - b))))
    gap = abs(math.log(a / (1 - a)) - math.log(b / (1 - b)))
    # sqrt(share): with few hits the test would reject too often without it (benchmarks.coverage)
    return student_tail(gap / error * math.sqrt(share), least - 1) if error > 0 else math.nan


def centred(values: Tensor, relevant: Tensor) -> Tensor:
    """Each item's share of the standard error: hits and misses each centred and scaled.

    (v - mean) / sqrt(m (m - 1)) for hits, the same with q for misses, so that the squares add up to
    var(hits) / m + var(misses) / q. NaN with fewer than two of either.
    """
    out = torch.empty_like(values)
    for kind in (relevant, ~relevant):
        some = values[kind]
        scale = (len(some) * (len(some) - 1)) ** 0.5 or float("nan")
        out[kind] = (some - some.mean()) / scale
    return out
