"""Areas under the precision-recall curve that are not the plain step sum: interpolated precision and the trapezoid.

Interpolated precision at recall level l is the highest precision at any recall of at least l (Salton & McGill 1983;
Everingham et al. 2010, section 4.2). Averages over fixed levels follow TREC and VOC 2007 (11 points) and COCO (101);
the area under the interpolated curve is VOC 2010's.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.runtime import arrays

_MOST_HITS = 2.0**62
_LEAST_PRECISION = 0.1  # of nuScenes
_RECALL_LACKS = 1e-12  # the share that sums of fractional weights may lack of a level that they equal on paper


def levels_of(name: str, device: torch.device | str = "cpu") -> Tensor:
    """The recall levels of a named convention, float64.

    "11-point": j / 10, rounded once, so that comparing them with h / m is exact: 3 of 10 found reach the level 0.3.
    "11-point-arange": ``numpy.arange(0, 1.1, 0.1)``, as VOC's evaluation is written in Python (py-faster-rcnn and after
    it), whose levels 0.3, 0.6 and 0.7 are one bit larger: 3 of 10 found do not reach 0.30000000000000004. "40-point":
    KITTI's j / 40 from 1 / 40 on. "101-point": COCO's own ``numpy.linspace(0, 1, 101)``, some of whose levels are one
    bit larger than j / 100; its published numbers are computed with them. "nuscenes": those of them above 0.1.
    """
    if name == "40-point":
        return segments.as_float64(torch.arange(1, 41, device=device)) / 40
    if name == "nuscenes":
        return levels_of("101-point", device)[11:]
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
    arrays.native(found)[~(curve.native.m > 0)] = torch.nan
    return found


def highest_at_levels(curve: HitCurve, values: Tensor, levels: Tensor, *, missing: float = 0.0) -> Tensor:
    """The highest value of any entry whose recall is at least each level: (S, L) float64.

    Args:
        curve: S rankings.
        values: (E,) float64, one per entry.
        levels: (L,) as of :func:`at_levels`.
        missing: what stands where no entry reaches the level; no value is below it.
    """
    found = highest_from(values, *_comparable(curve, levels), curve.native.offsets, missing=missing)
    return found if curve.parts is None else curve.parts.highest(found)


def highest_from(values: Tensor, recall: Tensor, levels: Tensor, offsets: Any, *, missing: float = 0.0) -> Tensor:
    """The same where only the recall of the entries is known: (E,) float64, ascending in each ranking."""
    each, bounds, ends = (arrays.native(x) for x in (recall, levels, offsets))
    if arrays.some(bounds[1:] < bounds[:-1]):
        ordered, places = levels.sort()
        return highest_from(values, recall, ordered, offsets, missing=missing).index_select(1, places.argsort())
    counts, width = ends[1:] - ends[:-1], len(levels) + 1
    reached = arrays.namespace(each).searchsorted(bounds, each, side="right")
    filled = arrays.places(counts > 0)  # rankings without entries reach no level
    last = arrays.repeat((arrays.steps(len(filled), counts) + 1) * width - 1, counts[filled])
    table = values.new_full((len(filled) * width,), missing)  # the highest level first, for the running maximum
    arrays.raise_to(arrays.native(table), last - reached, arrays.native(values))
    best = arrays.native(table.reshape(-1, width)[:, :-1].cummax(1).values)
    found = values.new_full((len(counts), len(levels)), missing)
    arrays.native(found)[filled] = arrays.namespace(best).flip(best, (1,))
    return found


def mean_over_levels(curve: HitCurve, values: Tensor, levels: Tensor) -> Tensor:
    """The mean over levels of :func:`highest_at_levels`, without them: (S,) float64; ``values`` are at least 0.

    The highest value from an entry on counts as often as there are levels that this entry reaches and none before it.
    """
    best, start = segments.maximum_from_right(values, curve.offsets), curve.offsets[:-1]
    recall, bounds = _comparable(curve, levels.sort().values)
    reached = torch.searchsorted(bounds, recall, right=True)
    before = torch.cat([reached.new_zeros(1), reached[:-1]])
    before[start[curve.offsets.diff() > 0]] = 0
    total: Tensor = curve.total(best * (reached - before))
    return total / len(levels)


def best_entries(curve: HitCurve, levels: Tensor) -> Tensor:
    """The entry of one ranking whose precision is the interpolated one at each level: (L,) int64, E for none.

    Of several such entries it is the last, that of the highest recall.
    """
    precision = _precision(curve)
    wanted = highest_at_levels(curve, precision, levels, missing=-torch.inf)[0]
    best = segments.maximum_from_right(precision, curve.offsets)
    # the envelope never rises: it keeps a value up to the last entry with that precision
    last = torch.searchsorted(-best, -wanted, right=True) - 1
    return torch.where(torch.isneginf(wanted) | (curve.m == 0), len(best), last)


@arrays.quiet
def _comparable(curve: HitCurve, levels: Tensor) -> tuple[Tensor, Tensor]:
    """(E,) recall of each entry, and the levels: both float64 after the same rounding."""
    counts = curve.native
    m = arrays.repeat(segments.as_float64(counts.m), counts.offsets[1:] - counts.offsets[:-1])
    recall = arrays.tensor(segments.as_float64(counts.cumulative_hits) / m)
    if curve.weighted and curve.some(curve.hits != curve.hits.floor()):
        recall = recall * (1 + _RECALL_LACKS)
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
    counts = counts.clamp(min=1)
    if curve.parts is not None and len(curve.hits):  # of the parts above this one
        first = curve.offsets[:-1].clamp(max=len(curve.hits) - 1)
        counts = counts - curve.hits_above[first][:, None]
    entry = segments.first_reaching(curve.hits, curve.offsets, counts)
    found = precision[entry] if curve.parts is None else curve.parts.highest(precision[entry])
    return torch.where(curve.m[:, None] > 0, found, torch.nan)


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
    area = curve.total(segments.as_float64(curve.hits) * envelope(curve))
    return torch.where(m > 0, area / m, torch.nan)


def nuscenes(curve: HitCurve) -> tuple[Tensor, Tensor]:
    """The precision of nuScenes at its recall levels: (90,) levels, and (S, 90) float64; NaN where nothing is relevant.

    It lies on straight lines between the points (r, p) of successive thresholds, the first of which goes on to recall
    0; it is 0 beyond the last. Of it 0.1 is taken away, and what is above 0 divided by 0.9.
    """
    levels, m = levels_of("nuscenes", curve.m.device), segments.as_float64(curve.m)
    of_entry = m[curve.segment]
    start, end = (segments.as_float64(x) / of_entry for x in (curve.hits_above, curve.cumulative_hits))
    above = segments.as_float64(curve.items_above)
    low = torch.where(above > 0, segments.as_float64(curve.hits_above) / above, curve.precision)
    # a level that is a point lies on that point, the last of those of equal recall
    first, last = (torch.searchsorted(levels, x) for x in (start, end))
    offsets = segments.from_counts(last - first)
    entry = segments.ids(offsets)
    level = first[entry] + torch.arange(len(entry), device=entry.device) - offsets[entry]
    slope = (curve.precision - low) / torch.where(end > start, end - start, 1)
    found = torch.zeros((len(m), len(levels)), dtype=m.dtype, device=m.device)
    found[curve.segment[entry], level] = low[entry] + slope[entry] * (levels[level] - start[entry])
    if curve.parts is not None:
        found = curve.parts.highest(found)
    hits = segments.as_float64(curve.total(curve.hits))[:, None]
    whole = hits / segments.as_float64(curve.n).clamp(min=1)[:, None]
    found = torch.where(levels == hits / m[:, None], whole, found)
    return levels, torch.where(
        m[:, None] > 0, (found - _LEAST_PRECISION).clamp(min=0) / (1 - _LEAST_PRECISION), torch.nan
    )


def trapezoid(curve: HitCurve) -> Tensor:
    """Area under straight lines between the points (r, p) of successive thresholds, from (0, p(1)): (S,) float64.

    Lines between points of a precision-recall curve are too high (Davis & Goadrich 2006); the area is here because
    others publish it.
    """
    m = segments.as_float64(curve.m)
    end = curve.precision
    above = segments.as_float64(curve.items_above)
    start = torch.where(above > 0, segments.as_float64(curve.hits_above) / above, end)
    area = curve.total(segments.as_float64(curve.hits) * ((start + end) / 2))
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
        offsets=segments.from_counts(segments.total(curve.hits, curve.offsets)),
        n=curve.n,
        m=curve.m,
        parts=curve.parts,
    )


def envelope(curve: HitCurve) -> Tensor:
    """(E,) float64, the highest precision from this entry to the end of its ranking."""
    found = segments.maximum_from_right(_precision(curve), curve.offsets)
    if curve.parts is None:
        return found
    here = torch.where(curve.offsets.diff() > 0, torch.cat([found, found.new_zeros(1)])[curve.offsets[:-1]], 0)
    return torch.maximum(found, segments.repeat(curve.parts.highest_below(here), curve.offsets.diff()))


def _precision(curve: HitCurve) -> Tensor:
    """(E,) float64, 0 where no hit is found yet."""
    counts = curve.native
    found = counts.cumulative_hits > 0
    return arrays.tensor(arrays.namespace(found).where(found, counts.precision, 0))
