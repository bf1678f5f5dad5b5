"""Exact AP of one ranking whose items are divided into ranges of scores, as an engine or a spilled file divides them.

1. Each range counts its items, hits and tie groups with hits (:func:`count_range`).
2. The counts give the number of items above each range (:func:`rank_ranges`).
3. Each range reduces its part of the sum over hits (:func:`sum_range`). :func:`average_precision_of_pieces` adds the
   parts as one process adds them, so that the result has the same bits.

Items of one score must be in one range. The ranges can be in any order.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.measures.average_precision import precision_sums
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.ties import cut_rank, divisor, rank_per_entry
from torch_ap.core.ranking import builders, segments
from torch_ap.core.ranking.hit_curve import HitCurve, without_entries
from torch_ap.core.ranking.order import Array
from torch_ap.core.ranking.pairwise import Piece, reduce_piece, sum_pieces


class RangeCounts(NamedTuple):
    """Counts of a range.

    Attributes:
        low: lowest score.
        high: highest score.
        items: number of items.
        hits: number of relevant items.
        entries: number of tie groups that contain a hit.
    """

    low: float
    high: float
    items: int
    hits: int
    entries: int


class RankedRange(NamedTuple):
    """A range, and its place in the ranking.

    Attributes:
        counts: counts of the range.
        above: items, hits and entries of all higher ranges.
        whole: items, hits and entries of all ranges.
    """

    counts: RangeCounts
    above: tuple[int, int, int]
    whole: tuple[int, int, int]


def check_convention(convention: Convention) -> None:
    """Raise ValueError for a convention that is no sum over hits with a divisor that the counts determine."""
    if not convention.has_bounds:
        setting = "interpolation" if convention.interpolation is not None else "denominator"
        value = getattr(convention, setting)
        raise ValueError(f"`{setting}` must be the default or 'relevant' for an AP in ranges of scores, got {value!r}")


def count_range(scores: Tensor, relevant: Tensor) -> RangeCounts:
    """Return the counts of a range of at least one item.

    Args:
        scores: (N,) scores, no NaN.
        relevant: (N,) of 0 and 1.
    """
    low, high = scores.aminmax()
    curve = builders.from_scores(scores, relevant).native
    return RangeCounts(low.item(), high.item(), len(scores), int(curve.m[0]), len(curve.hits))


def rank_ranges(counts: Sequence[RangeCounts]) -> list[RankedRange]:
    """Return the ranges by descending score, with the numbers of items above each.

    Raises:
        ValueError: if two ranges overlap: a score is in both, or one range occurs twice.
    """
    ranges = sorted(counts, key=lambda x: x.high, reverse=True)
    for upper, lower in pairwise(ranges):
        if not lower.high < upper.low:
            spans = " and ".join(f"{x.low!r} to {x.high!r}" for x in (upper, lower))
            raise ValueError(f"ranges of scores must not overlap, got {spans}")
    whole = _sums(ranges)
    return [RankedRange(x, _sums(ranges[:place]), whole) for place, x in enumerate(ranges)]


def sum_range(scores: Tensor, relevant: Tensor, ranges: Sequence[RankedRange], convention: Convention) -> Piece:
    """Return the part of the sum over hits of one of the ranges, from its items.

    Args:
        scores: (N,) scores of the range, as for :func:`count_range`.
        relevant: (N,) of 0 and 1.
        ranges: result of :func:`rank_ranges`.
        convention: a convention that passes :func:`check_convention`.

    Raises:
        ValueError: if no range has these counts, because the items have changed.
    """
    counts = count_range(scores, relevant)
    place = next((x for x in ranges if x.counts == counts), None)
    if place is None:
        raise ValueError(f"a range of scores must have the counts of the first pass, got {counts}")
    (items, hits, entries), whole = place.above, place.whole
    curve = builders.from_scores(scores, relevant)
    return reduce_piece(sum_precisions(curve, (items, hits), whole[:2], convention), entries, whole[2])


def sum_precisions(curve: HitCurve, above: tuple[int, int], whole: tuple[int, int], convention: Convention) -> Array:
    """Return the sum of the precisions at the hits of each entry of a range, (E,) float64.

    Args:
        curve: the items of the range as one ranking.
        above: numbers of items and of hits in all higher ranges.
        whole: numbers of items and of hits in all ranges.
        convention: a convention that passes :func:`check_convention`.
    """
    native = curve.native
    values: Any = replace(
        native,
        hits_above=segments.as_int64(native.hits_above) + above[1],
        items_above=segments.as_int64(native.items_above) + above[0],
        n=np.array([whole[0]]),
        m=np.array([whole[1]]),
        single=False,
    )
    rule = convention.rule
    k = rank_per_entry(cut_rank(convention.top_k, values), values.offsets)
    sums: Array = precision_sums(values, rule, k, has_ties=not (k is None and rule.is_threshold))
    return sums


def average_precision_of_pieces(
    pieces: Sequence[Piece], ranges: Sequence[RankedRange], convention: Convention
) -> tuple[Tensor, HitCurve]:
    """Return the AP of the whole ranking, (1,) float64, and a curve without entries that has its n and m.

    Args:
        pieces: result of :func:`sum_range` for each range, in any order.
        ranges: result of :func:`rank_ranges`.
        convention: see :func:`sum_range`.
    """
    items, hits, entries = ranges[0].whole if ranges else (0, 0, 0)
    value = divide_by_hits(sum_pieces(pieces, entries), hits, convention)
    return torch.tensor([value], dtype=torch.float64), without_entries(items, hits)


def divide_by_hits(total: float, hits: int, convention: Convention) -> float:
    """Return the AP from the sum over all hits; NaN without hits."""
    k = hits if convention.top_k == "relevant" else convention.top_k
    return float(total / divisor(convention.denominator, hits, k)) if hits else math.nan


def _sums(ranges: Sequence[RangeCounts]) -> tuple[int, int, int]:
    return sum(x.items for x in ranges), sum(x.hits for x in ranges), sum(x.entries for x in ranges)
