"""Deduplication of equal rankings, so that expensive results are computed once for all of them.

Many short rankings have few distinct forms: with one ground truth per image and class, only the rank of the hit
differs. Rankings are grouped by a sum of mixed bits and then compared exactly, so hash collisions never change a
result.
"""

from dataclasses import replace
from typing import Any

from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.ranking import order, segments
from torch_ap.core.ranking.hit_curve import HitCurve

_FACTORS = (0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 0x14D049BB133111EB)  # odd, with irregular bits


def distinct_rankings(curve: HitCurve) -> tuple[HitCurve, Tensor]:
    """Return the rankings with distinct counts, and the index of each ranking among them, (S,) int64.

    Args:
        curve: S rankings without weights whose entries are one hit each.
    """
    counts = curve.native
    ends, rank, m, n = counts.offsets, counts.items_above, counts.m, counts.n
    size, lengths = len(m), ends[1:] - ends[:-1]
    sums = segments.total(_mix(rank, counts.hits_above), ends) + _mix(n, m)
    bits = 63 - max(size - 1, 1).bit_length()  # of the hash, sorted in one int64 with its place
    keys = sums >> 63 - bits & (1 << bits) - 1
    by_key = native(order.stable_argsort(arrays.tensor(keys), 1 << bits))
    starts, times = segments.runs(keys[by_key])
    first = arrays.full(size, 0, ends)
    first[by_key] = arrays.repeat(by_key[starts], times)
    is_equal = all(not arrays.any_true(x != x[first]) for x in (lengths, m, n))
    if not is_equal or arrays.any_true(rank != rank[arrays.repeat(ends[:-1][first], lengths) + counts.hits_above]):
        return curve, arrays.tensor(arrays.arange_like(size, ends))
    is_first = first == arrays.arange_like(size, ends)
    entries = arrays.tensor(arrays.true_indices(arrays.repeat(is_first, lengths)))
    columns = {name: getattr(curve, name)[entries] for name in ("hits", "items", "hits_above", "items_above")}
    offsets, selected = arrays.tensor(segments.from_counts(lengths[is_first])), arrays.tensor(is_first)
    representatives = replace(curve, **columns, score=None, offsets=offsets, n=curve.n[selected], m=curve.m[selected])
    return representatives, arrays.tensor((is_first.cumsum(0) - 1)[first])


def _mix(first: Any, second: Any) -> Any:
    """Return (X,) 64-bit hashes of pairs of integers; overflow wraps around."""
    mixed = (first * _FACTORS[0] + second + 1) * _FACTORS[1]  # + 1: no hit differs from a hit at the top
    mixed ^= mixed >> 31
    return mixed * _FACTORS[2]
