"""Rankings that are alike, so that what costs much is computed once for all of them.

Of many short rankings most are one of a few: of an image and class with one ground truth, all that can differ is where
the hit stands. Rankings of the same sum of mixed bits are looked at number by number, so chance decides nothing.
"""

from dataclasses import replace
from typing import Any

from torch import Tensor

from torch_ap.ranking import order, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

_FACTORS = (0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 0x14D049BB133111EB)  # odd, of bits without a pattern


def distinct(curve: HitCurve) -> tuple[HitCurve, Tensor]:
    """Rankings that differ in their counts, and for each ranking its place among these: (S,) int64.

    Args:
        curve: S rankings without weights whose entries are one hit each.
    """
    counts = curve.native
    ends, rank, m, n = counts.offsets, counts.items_above, counts.m, counts.n
    size, lengths = len(m), ends[1:] - ends[:-1]
    sums = segments.total(_mixed(rank, counts.hits_above), ends) + _mixed(n, m)
    bits = 63 - max(size - 1, 1).bit_length()  # of a number and its place in one sort
    keys = sums >> 63 - bits & (1 << bits) - 1
    by_key = native(order.stable_argsort(arrays.tensor(keys), 1 << bits))
    starts, times = segments.runs(keys[by_key])
    first = arrays.full(size, 0, ends)
    first[by_key] = arrays.repeat(by_key[starts], times)
    alike = all(not arrays.some(x != x[first]) for x in (lengths, m, n))
    if not alike or arrays.some(rank != rank[arrays.repeat(ends[:-1][first], lengths) + counts.hits_above]):
        return curve, arrays.tensor(arrays.steps(size, ends))
    kept = first == arrays.steps(size, ends)
    entries = arrays.tensor(arrays.places(arrays.repeat(kept, lengths)))
    columns = {name: getattr(curve, name)[entries] for name in ("hits", "items", "hits_above", "items_above")}
    offsets, one = arrays.tensor(segments.from_counts(lengths[kept])), arrays.tensor(kept)
    found = replace(curve, **columns, score=None, offsets=offsets, n=curve.n[one], m=curve.m[one])
    return found, arrays.tensor((kept.cumsum(0) - 1)[first])


def _mixed(one: Any, two: Any) -> Any:
    """(X,) numbers of 64 bits of two whole numbers each; what is beyond is cut off."""
    mixed = (one * _FACTORS[0] + two + 1) * _FACTORS[1]  # no hit is not one at the top
    mixed ^= mixed >> 31
    return mixed * _FACTORS[2]
