r"""Precision, recall and F of items in groups at a threshold: ratios of sums over the groups.

Each ratio is r = A / B with the sums A of a_g and B of b_g over the groups. Group g has a_g true positives, and b_g is
the number of its retrieved items (precision), of its positives (recall), or their weighted mean (F). The values without
each group have a closed form, so the delete-one-group jackknife of :mod:`torch_ap.inference.groups` takes one pass:

.. math::
    r_{(-g)} - r = -\frac{a_g - r b_g}{B - b_g}

The interval is on the logit scale, with Student's t and K - 1 degrees of freedom, where K = B^2 / (sum of b_g^2) is the
effective number of groups. Ratios of 0 and 1 have no standard error. Their intervals are one-sided:
[0, 1 - alpha^(1 / K)] and [alpha^(1 / K), 1]. The threshold counts as fixed.

Source: Bell & McCaffrey (2002), as for :mod:`torch_ap.inference.groups`. The one-sided ends are a heuristic.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.bins import count_reached
from torch_ap.inference.record import Result, student_quantile

METHOD = "jackknife"
NO_GROUP = "positives that are not among the items have no group: the ends are NaN"
_ROUNDING = 1e-12  # error of a K of 2, from the weighted means of F
_MOST_CELLS = 1 << 22  # thresholds times groups that are counted at once, in 32 MB per count


class UnitCounts(NamedTuple):
    """Counts of the X pairs of a ranking and a unit with any object, such as an image or a group; native.

    Attributes:
        offsets: (S + 1,) offsets of the units of each ranking.
        tp, n, m: (X,) float64 numbers of true positives, retrieved items and positives.
    """

    offsets: Any
    tp: Any
    n: Any
    m: Any

    def denominators(self, beta: float) -> tuple[Any, Any, Any]:
        """Return the (X,) denominators of precision, recall and F_beta, whose numerator is ``tp``."""
        share = beta**2 / (1 + beta**2) if beta < 1 else 1 / (1 + beta**-2)
        return self.n, self.m, share * self.m + (1 - share) * self.n


@dataclass(frozen=True, eq=False, repr=False)
class ItemGroups(Result):
    """The items of one ranking with their groups, or the detections with the groups of their images.

    Attributes:
        scores: (N,) scores.
        relevant: (N,) bool.
        ids: (N,) int64 in [0, G).
        count: G.
        positives: (G,) int64 numbers of positives, if they are not the relevant items, as undetected ground truths.
    """

    scores: Tensor
    relevant: Tensor
    ids: Tensor
    count: int
    positives: Tensor | None = None

    _keep_dtype = ("scores", "relevant")

    @property
    def group_positives(self) -> Tensor:
        """The number of positives of each group, (G,)."""
        if self.positives is not None:
            return self.positives
        return segments.count(self.ids[self.relevant], self.count)

    def counts(self, thresholds: Tensor) -> UnitCounts:
        """Return the counts of each group for the items with at least each of (T,) descending thresholds."""
        rows, shape = len(thresholds), (len(thresholds) + 1, self.count)
        scores = segments.comparable(self.scores)
        cells = (rows - count_reached(scores, thresholds.flip(0).to(scores))) * self.count + self.ids
        n, tp = (segments.count(x, shape[0] * shape[1]).view(shape) for x in (cells, cells[self.relevant]))
        m = self.group_positives.expand(rows, -1)
        tp, n = (x[:rows].cumsum(0) for x in (tp, n))
        kept = (n > 0) | (m > 0)
        offsets = torch.cat([kept.new_zeros(1, dtype=torch.int64), kept.sum(1).cumsum(0)])
        return UnitCounts(arrays.native(offsets), *(arrays.native(segments.as_float64(x[kept])) for x in (tp, n, m)))

    def ends(self, thresholds: Tensor, m: float, beta: float, confidence_level: float) -> tuple[Tensor, Tensor]:
        """Return the ends of precision, recall and F_beta at (T,) descending thresholds: (3, T) each.

        They are NaN if m, the number of all positives, counts positives that are not among the items.
        """
        if m != int(self.group_positives.sum()):
            nan = torch.full((3, len(thresholds)), torch.nan, dtype=torch.float64)
            return nan, nan
        parts = torch.split(thresholds, max(1, _MOST_CELLS // max(self.count, 1)))
        pairs = [grouped_ratio_ends(self.counts(x), beta, confidence_level) for x in parts]
        low, high = (torch.cat([arrays.tensor(x) for x in ends], 1) for ends in zip(*pairs, strict=True))
        return low, high


@arrays.quiet
def grouped_ratio_ends(counts: UnitCounts, beta: float, confidence_level: float) -> tuple[Any, Any]:
    """Return the lower and upper ends of precision, recall and F_beta: (3, S) each, native.

    They are NaN where K is below 2.
    """
    offsets, tp, _, _ = counts
    xp, total = arrays.namespace(tp), segments.total(tp, offsets)
    ends = []
    for b in counts.denominators(beta):
        whole, units = segments.total(b, offsets), segments.as_float64(offsets[1:] - offsets[:-1])
        ratio, effective = total / whole, whole**2 / segments.total(b * b, offsets)
        effective = xp.where(abs(effective - 2) < _ROUNDING, 2.0, effective)
        ratio_each, whole_each = (arrays.repeat(x, offsets[1:] - offsets[:-1]) for x in (ratio, whole))
        change = (tp - ratio_each * b) / (whole_each - b)
        squares = segments.total(change * change, offsets) - segments.total(change, offsets) ** 2 / units
        error = xp.sqrt(arrays.clamp_min(squares, 0) * (units - 1) / units)
        half = student_quantile(confidence_level, effective - 1) * error / (ratio * (1 - ratio))
        center = xp.log(ratio / (1 - ratio))
        low, high = (1 / (1 + xp.exp(-x)) for x in (center - half, center + half))
        low, high = xp.minimum(low, ratio), xp.maximum(high, ratio)  # rounding, if all groups have the same ratio
        bound = xp.where(effective >= 2, (1 - confidence_level) ** (1 / effective), torch.nan)
        low = xp.where(ratio == 0, 0 * bound, xp.where(ratio == 1, bound, low))
        high = xp.where(ratio == 0, 1 - bound, xp.where(ratio == 1, 1 + 0 * bound, high))
        ends.append((low, high))
    low, high = (xp.stack(x) for x in zip(*ends, strict=True))
    return low, high
