"""Areas under the precision-recall curve that are not the plain step sum: interpolated precision and the trapezoid.

Interpolated precision at recall level l is the highest precision at any recall of at least l (Salton & McGill 1983;
Everingham et al. 2010, section 4.2). Averages over fixed levels follow TREC and VOC 2007 (11 points) and COCO (101);
the area under the interpolated curve is VOC 2010's.
"""

from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array
from torch_ap.runtime import arrays

Values = TypeVar("Values", Tensor, Array)

_MOST_HITS = 2.0**62


def levels_of(name: str, device: torch.device | str = "cpu") -> Tensor:
    """The recall levels of a named convention, float64.

    "11-point": j / 10, rounded once, so that comparing them with h / m is exact: 3 of 10 found reach the level 0.3.
    "11-point-arange": ``numpy.arange(0, 1.1, 0.1)``, as VOC's evaluation is written in Python (py-faster-rcnn and after
    it), whose levels 0.3, 0.6 and 0.7 are one bit larger: 3 of 10 found do not reach 0.30000000000000004. "101-point":
    COCO's own ``numpy.linspace(0, 1, 101)``, some of whose levels are one bit larger than j / 100; its published
    numbers are computed with them.
    """
    if name == "11-point":
        return segments.as_float64(torch.arange(11, device=device)) / 10
    if name == "11-point-arange":
        return segments.as_float64(torch.from_numpy(np.arange(0, 1.1, 0.1)).to(device))
    return segments.as_float64(torch.from_numpy(np.linspace(0, 1, 101)).to(device))


def at_levels(curve: HitCurve, levels: Tensor) -> Tensor:
    """Interpolated precision at each recall level, for each ranking.

    Args:
        curve: S rankings, tie groups as thresholds.
        levels: (L,) floating recall levels in [0, 1], any order; recall is compared with them in their dtype.

    Returns:
        (S, L) float64; 0 at levels that are not reached, NaN where nothing is relevant.
    """
    found = highest_at_levels(curve, _precision(curve), levels)
    return torch.where(curve.m[:, None] > 0, found, torch.nan)


def highest_at_levels(curve: HitCurve, values: Tensor, levels: Tensor, *, missing: float = 0.0) -> Tensor:
    """The highest value of any entry whose recall is at least each level: (S, L) float64.

    Args:
        curve: S rankings.
        values: (E,) float64, one per entry.
        levels: (L,) as of :func:`at_levels`.
        missing: what stands where no entry reaches the level; no value is below it.
    """
    size, width = len(curve.m), len(levels) + 1
    ordered, places = levels.sort()
    recall, bounds = _comparable(curve, ordered)
    # along a ranking the number of levels reached never falls, so equal cells of this table lie together
    cell = curve.segment * width + torch.searchsorted(bounds, recall, right=True)
    starts = segments.run_starts(cell)
    table = values.new_full((size * width,), missing)
    if len(starts):
        runs = torch.cat([starts, starts.new_full((1,), len(cell))])
        table.scatter_(0, cell[starts], segments.maximum(values, runs))
    table = table.reshape(size, width)[:, 1:].flip(1).cummax(1).values.flip(1)
    return table if torch.equal(ordered, levels) else table.index_select(1, places.argsort())


def best_entries(curve: HitCurve, levels: Tensor) -> Tensor:
    """The entry of one ranking whose precision is the interpolated one at each level: (L,) int64, E for none.

    Of several such entries it is the last, that of the highest recall.
    """
    recall, levels = _comparable(curve, levels)
    best = envelope(curve)
    first = torch.searchsorted(recall, levels)
    wanted = torch.cat([best, best.new_full((1,), torch.nan)])[first]
    # the envelope never rises: it keeps a value up to the last entry with that precision
    last = torch.searchsorted(-best, -wanted, right=True) - 1
    return torch.where((first < len(best)) & (curve.m > 0), last, len(best))


def _comparable(curve: HitCurve, levels: Tensor) -> tuple[Tensor, Tensor]:
    """(E,) recall of each entry, and the levels: both float64 after the same rounding."""
    recall = segments.as_float64(curve.cumulative_hits) / segments.as_float64(curve.m)[curve.segment]
    if curve.weighted and bool((curve.hits != curve.hits.floor()).any()):
        recall = recall * (1 + 1e-12)  # sums of fractions carry rounding, and a recall equal to a level must reach it
    return segments.as_float64(recall.to(levels.dtype)), segments.as_float64(levels)


def at_hits(curve: HitCurve, counts: Tensor) -> Tensor:
    """Interpolated precision at given numbers of hits: the highest precision with at least that many hits.

    Args:
        curve: S rankings without weights.
        counts: (S, L) int64 numbers of hits.

    Returns:
        (S, L) float64; 0 where the ranking has fewer hits, NaN where nothing is relevant.
    """
    precision = torch.cat([envelope(curve), segments.as_float64(curve.m).new_zeros(1)])
    entry = segments.first_reaching(segments.from_zero(curve.hits), curve.offsets, counts.clamp(min=1))
    return torch.where(curve.m[:, None] > 0, precision[entry], torch.nan)


def trec_cuts(m: Tensor, levels: Tensor, version: int) -> Tensor:
    """The number of hits that reaches each recall level, by trec_eval's rule: (S, L) int64.

    Up to version 9 it is int(l m + 0.9), which is sometimes below l m; version 10 rounds l m, halves up.
    """
    wanted = segments.as_float64(m)[:, None] * segments.as_float64(levels.to(m.device))
    wanted = wanted.clamp(max=_MOST_HITS)  # beyond it int64 would wrap
    if version == 9:
        return (wanted + 0.9).to(torch.int64)
    whole = wanted.floor()
    return (whole + (wanted - whole >= 0.5)).to(torch.int64)


def over_all_points(curve: HitCurve) -> Tensor:
    """Area under the interpolated precision-recall curve: (S,) float64.

    (1 / m) * sum over hits of the highest precision at that recall or beyond.
    """
    m = segments.as_float64(curve.m)
    area = segments.total(segments.as_float64(curve.hits) * envelope(curve), curve.offsets)
    return torch.where(m > 0, area / m, torch.nan)


def trapezoid(curve: HitCurve) -> Tensor:
    """Area under straight lines between the points (r, p) of successive thresholds, from (0, p(1)): (S,) float64.

    Lines between points of a precision-recall curve are too high (Davis & Goadrich 2006); the area is here because
    others publish it.
    """
    m = segments.as_float64(curve.m)
    end = curve.precision
    above = segments.as_float64(curve.items_above)
    start = torch.where(above > 0, segments.as_float64(curve.hits_above) / above, end)
    area = segments.total(segments.as_float64(curve.hits) * ((start + end) / 2), curve.offsets)
    return torch.where(m > 0, area / m, torch.nan)


def untied(curve: HitCurve, ties: str) -> HitCurve:
    """The curve with every tie group resolved, hits first ("optimistic") or misses first ("pessimistic").

    It has one entry per hit. Every measure of the result is the measure of that one ranking.
    """
    group = torch.repeat_interleave(torch.arange(len(curve.hits), device=curve.hits.device), curve.hits)
    first = curve.hits.cumsum(0) - curve.hits
    inside = torch.arange(len(group), device=group.device) - first[group]
    misses = 0 if ties == "optimistic" else (curve.items - curve.hits)[group]
    ones = torch.ones_like(inside)
    return HitCurve(
        hits=ones,
        items=ones,
        hits_above=curve.hits_above[group] + inside,
        items_above=curve.items_above[group] + inside + misses,
        score=None if curve.score is None else curve.score[group],
        offsets=segments.from_counts(curve.hits_seen),
        n=curve.n,
        m=curve.m,
    )


def envelope(curve: HitCurve) -> Tensor:
    """(E,) float64, the highest precision from this entry to the end of its ranking."""
    return segments.maximum_from_right(_precision(curve), curve.offsets)


def _precision(curve: HitCurve) -> Tensor:
    """(E,) float64, 0 where no hit is found yet."""
    return torch.where(curve.cumulative_hits > 0, curve.precision, 0)


def needed_hits(m: Values, levels: Values) -> Values:
    """The fewest hits h with h / m of at least each level, compared as float64: (..., S) and (R,) to (..., S, R)."""
    where = arrays.namespace(m).where
    total, levels = segments.as_float64(arrays.at_least(m, 1))[..., None], segments.as_float64(levels)
    about = arrays.namespace(m).ceil(levels * total)
    about = where((about - 1) / total >= levels, about - 1, about)
    least: Values = arrays.as_int64(arrays.at_least(where(about / total < levels, about + 1, about), 0))
    return least
