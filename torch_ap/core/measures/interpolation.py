"""Interpolated precision, and areas under the precision-recall curve other than the plain step sum.

Interpolated precision at recall level l is the highest precision at any recall of at least l (Salton & McGill 1983;
Everingham et al. 2010, section 4.2). TREC and VOC 2007 average it over 11 fixed levels, COCO over 101. VOC 2010
uses the area under the interpolated curve.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.measures.ties import tie_rule
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve, separate_hits

_MOST_HITS = 2.0**62
_LEAST_PRECISION = 0.1  # of nuScenes
_SERIES_BELOW, _SERIES_TERMS = 0.01, 8  # of a logarithm; the first term left out is below 1e-17
_RECALL_TOLERANCE = 1e-12  # relative; a rounded sum of fractional weights can be below the level that it should equal
_LEVEL_BINS = 1024  # a power of two, so that the bin of a recall is exact

LEVELS = {
    "11-point": np.arange(11) / 10,
    "11-point-arange": np.arange(0, 1.1, 0.1),
    "40-point": np.arange(1, 41) / 40,
    "101-point": np.linspace(0, 1, 101),
    "nuscenes": np.linspace(0, 1, 101)[11:],
}


def recall_levels(name: str, device: torch.device | str = "cpu") -> Tensor:
    """Return the recall levels of a named convention, float64.

    - "11-point": j / 10, rounded once, so that the comparison with h / m is exact: 3 of 10 hits reach the level 0.3.
    - "11-point-arange": ``numpy.arange(0, 1.1, 0.1)``, as in Python versions of VOC's evaluation since py-faster-rcnn.
      Its levels 0.3, 0.6 and 0.7 are one bit larger: 3 of 10 hits do not reach 0.30000000000000004.
    - "40-point": j / 40 from 1 / 40 on, as in KITTI.
    - "101-point": COCO's ``numpy.linspace(0, 1, 101)``. Some levels are one bit larger than j / 100. COCO's published
      numbers use them.
    - "nuscenes": the levels of "101-point" above 0.1.
    """
    return segments.as_float64(torch.from_numpy(LEVELS[name]).to(device))


def precision_at_levels(curve: HitCurve, levels: Tensor) -> Tensor:
    """Return the interpolated precision of each ranking at each recall level.

    Args:
        curve: S rankings, tie groups as thresholds.
        levels: (L,) floating recall levels in [0, 1], in any order. Recall is compared with them in their dtype.

    Returns:
        (S, L) float64; 0 at levels that are not reached, NaN without relevant items.
    """
    precision = max_at_levels(curve, _precision(curve), levels)
    arrays.native(precision)[~(curve.native.m > 0)] = torch.nan
    return precision


def max_at_levels(curve: HitCurve, values: Tensor, levels: Tensor, *, missing: float = 0.0) -> Tensor:
    """Return the highest value of the entries whose recall is at least each level: (S, L) float64.

    Args:
        curve: S rankings.
        values: (E,) float64, one per entry.
        levels: (L,) as in :func:`precision_at_levels`.
        missing: result at levels that no entry reaches; at most the lowest value.
    """
    highest = max_at_recall(values, *_comparable(curve, levels), curve.native.offsets, missing=missing)
    return highest if curve.parts is None else curve.parts.highest(highest)


def max_at_recall(values: Tensor, recall: Tensor, levels: Tensor, offsets: Any, *, missing: float = 0.0) -> Tensor:
    """Return :func:`max_at_levels` from the recall of the entries: (E,) float64, ascending in each ranking."""
    filled, best = _filled_rankings(values, recall, levels, offsets, None, missing)
    highest = values.new_full((len(offsets) - 1, len(levels)), missing)
    arrays.native(highest)[filled] = arrays.native(best)
    return highest


def mean_at_recall(values: Tensor, recall: Tensor, places: Any, levels: Tensor, offsets: Any) -> Tensor:
    """Return the mean of :func:`max_at_levels` over levels, of entries that share a table of recalls: (S,) float64.

    Args:
        values: (E,) float64, at least 0, one per entry.
        recall: (X,) float64.
        places: (E,) native indices of the recalls of the entries, which ascend in each ranking.
        levels: (L,) float64.
        offsets: (S + 1,) native boundaries of the entries of each ranking.
    """
    filled, best = _filled_rankings(values, recall, levels, offsets, places, 0.0)
    mean = values.new_zeros(len(offsets) - 1)
    arrays.native(mean)[filled] = arrays.native(best.mean(1))
    return mean


def _filled_rankings(
    values: Tensor, recall: Tensor, levels: Tensor, offsets: Any, places: Any, missing: float
) -> tuple[Any, Tensor]:
    """Return the native indices of the (F,) rankings with entries, and their highest values at each level, (F, L)."""
    native_recall, bounds, ends = (arrays.native(x) for x in (recall, levels, offsets))
    if arrays.any_true(bounds[1:] < bounds[:-1]):
        ordered, order = levels.sort()
        filled, best = _filled_rankings(values, recall, ordered, offsets, places, missing)
        return filled, best.index_select(1, order.argsort())
    counts, width = ends[1:] - ends[:-1], len(levels) + 1
    reached = levels_reached(native_recall, bounds)
    if places is not None:
        reached = arrays.take(reached, places)
    filled = arrays.true_indices(counts > 0)  # rankings without entries reach no level
    last = arrays.repeat((arrays.arange_like(len(filled), counts) + 1) * width - 1, counts[filled])
    table = values.new_full((len(filled) * width,), missing)  # highest level first, for the running maximum
    arrays.raise_to(arrays.native(table), last - reached, arrays.native(values))
    return filled, table.reshape(-1, width)[:, :-1].cummax(1).values.flip(1)


def mean_over_levels(curve: HitCurve, values: Tensor, levels: Tensor) -> Tensor:
    """Return the mean of :func:`max_at_levels` over levels, (S,) float64, without the (S, L) table.

    The highest value from an entry on is weighted by the number of levels that this entry is the first to reach.

    Args:
        curve: S rankings.
        values: (E,) float64, at least 0.
        levels: (L,) as in :func:`precision_at_levels`.
    """
    best, start = segments.maximum_from_right(values, curve.offsets), curve.offsets[:-1]
    recall, bounds = _comparable(curve, levels.sort().values)
    reached = arrays.tensor(levels_reached(*map(arrays.native, (recall, bounds))))
    before = torch.cat([reached.new_zeros(1), reached[:-1]])
    before[start[curve.offsets.diff() > 0]] = 0
    total: Tensor = curve.total(best * (reached - before))
    return total / len(levels)


def levels_reached(recall: Any, levels: Any) -> Any:
    """Count the ascending levels in [0, 1] up to each recall, native, by a table of the levels below equal bins.

    A binary search takes four times as long for many entries.
    """
    if isinstance(recall, Tensor) or len(recall) < _LEVEL_BINS:
        return arrays.namespace(recall).searchsorted(levels, recall, side="right")
    below = np.searchsorted(levels, np.arange(_LEVEL_BINS + 1) / _LEVEL_BINS, side="right")
    if below[-1] < len(levels) or (np.diff(below) > 1).any():
        return np.searchsorted(levels, recall, side="right")
    recall = np.fmin(recall, 1.0)  # NaN and infinity, without relevant items, reach all levels
    low = below.take((recall * _LEVEL_BINS).astype(np.int32))
    return low + (np.append(levels, np.inf).take(low) <= recall)


def best_entries(curve: HitCurve, levels: Tensor) -> Tensor:
    """Return the entry of one ranking with the interpolated precision at each level: (L,) int64, E if there is none.

    If several entries have this precision, the result is the last one, which has the highest recall.
    """
    precision = _precision(curve)
    highest = max_at_levels(curve, precision, levels, missing=-torch.inf)[0]
    best = segments.maximum_from_right(precision, curve.offsets)
    # the envelope never rises: it keeps a value up to the last entry with that precision
    last = torch.searchsorted(-best, -highest, right=True) - 1
    return torch.where(torch.isneginf(highest) | (curve.m == 0), len(best), last)


@arrays.quiet
def _comparable(curve: HitCurve, levels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the recall of each entry, (E,), and the levels: both float64, rounded to the dtype of the levels."""
    counts = curve.native
    m = arrays.repeat(segments.as_float64(counts.m), counts.offsets[1:] - counts.offsets[:-1])
    recall = arrays.tensor(segments.as_float64(counts.cumulative_hits) / m)
    if tolerance := _recall_tolerance(curve):
        recall = recall * (1 + tolerance)
    return segments.as_float64(recall.to(levels.dtype)), segments.as_float64(levels)


def _recall_tolerance(curve: HitCurve) -> float:
    """Return the relative tolerance of recall, 0 unless the hits are sums of fractional weights."""
    return _RECALL_TOLERANCE if curve.weighted and curve.any_entry(curve.hits != curve.hits.floor()) else 0.0


def precision_at_hits(curve: HitCurve, counts: Tensor) -> Tensor:
    """Return the highest precision with at least each number of hits.

    Args:
        curve: S rankings without weights.
        counts: (S, L) int64 numbers of hits.

    Returns:
        (S, L) float64; 0 if the ranking has fewer hits, NaN without relevant items.
    """
    precision = torch.cat([envelope(curve), segments.as_float64(curve.m).new_zeros(1)])
    counts = counts.clamp(min=1)
    if curve.parts is not None and len(curve.hits):  # subtract the hits of the parts above this one
        first = curve.offsets[:-1].clamp(max=len(curve.hits) - 1)
        counts = counts - curve.hits_above[first][:, None]
    entry = segments.first_reaching(curve.hits, curve.offsets, counts)
    highest = precision[entry] if curve.parts is None else curve.parts.highest(precision[entry])
    return torch.where(curve.m[:, None] > 0, highest, torch.nan)


def trec_cuts(m: Tensor, levels: Tensor, version: int) -> Tensor:
    """Return the number of hits that reaches each recall level by trec_eval's rule: (S, L) int64.

    Up to version 9 it is int(l m + 0.9), which can be below l m. Version 10 rounds l m, with halves rounded up.
    """
    hits = segments.as_float64(m)[:, None] * segments.as_float64(levels.to(m.device))
    hits = hits.clamp(max=_MOST_HITS)  # above, int64 would overflow
    if version == 9:
        return (hits + 0.9).to(torch.int64)
    whole = hits.floor()
    return (whole + (hits - whole >= 0.5)).to(torch.int64)


def area_over_all_points(curve: HitCurve) -> Tensor:
    """Return the area under the interpolated precision-recall curve: (S,) float64.

    It is (1 / m) * the sum over hits of the highest precision at the recall of the hit or any higher recall.
    """
    m = segments.as_float64(curve.m)
    area = curve.total(segments.as_float64(curve.hits) * envelope(curve))
    return torch.where(m > 0, area / m, torch.nan)


def nuscenes_precision(curve: HitCurve) -> tuple[Tensor, Tensor]:
    """Return the (90,) recall levels of nuScenes, and its precision there, (S, 90) float64.

    Precision p is linear between the points (r, p) of successive thresholds, constant from recall 0 to the first point,
    and 0 beyond the last point. The result is max(p - 0.1, 0) / 0.9, and NaN without relevant items.
    """
    levels, m = recall_levels("nuscenes", curve.m.device), segments.as_float64(curve.m)
    above = segments.as_float64(curve.items_above)
    low = torch.where(above > 0, segments.as_float64(curve.hits_above) / above, curve.precision)
    precision = _lines_at_levels(curve, levels, low, curve.precision)
    hits = segments.as_float64(curve.total(curve.hits))[:, None]
    whole = hits / segments.as_float64(curve.n)[:, None]
    is_end = (levels - hits / m[:, None]).abs() <= _recall_tolerance(curve)
    precision = torch.where(is_end, whole, precision)
    scaled = (precision - _LEAST_PRECISION).clamp(min=0) / (1 - _LEAST_PRECISION)
    return levels, torch.where(m[:, None] > 0, scaled, torch.nan)


def trapezoid(curve: HitCurve, *, anchor: float | None = None) -> Tensor:
    """Return the area under straight lines between the points (r, p) of successive thresholds: (S,) float64.

    The lines overestimate the curve between the points (Davis & Goadrich 2006). The area is included because it occurs
    in publications.

    Args:
        curve: S rankings.
        anchor: precision of the point at recall 0; None for p(1).
    """
    m = segments.as_float64(curve.m)
    end = curve.precision
    above = segments.as_float64(curve.items_above)
    first = end if anchor is None else torch.full_like(end, anchor)
    start = torch.where(above > 0, segments.as_float64(curve.hits_above) / above, first)
    area = curve.total(segments.as_float64(curve.hits) * ((start + end) / 2))
    return torch.where(m > 0, area / m, torch.nan)


def davis_goadrich(curve: HitCurve) -> Tensor:
    r"""Return the area under Davis & Goadrich's curve between successive thresholds: (S,) float64.

    Between two thresholds, false positives grow linearly with true positives. For r hits of g items, below h hits of t
    items, the integral is

    .. math::
        \int_0^r \frac{h + u}{t + u g / r} du = \frac{r}{g} (h L + r (1 - L t / g)), \qquad L = \log(1 + g / t)

    Source: Davis & Goadrich (2006), section 4.1, which adds trapezoids of one hit each; the integral: Keilwagen, Grosse
    & Grau (2014), Area under Precision-Recall Curves for Weighted and Unweighted Data.
    """
    counts = (curve.hits, curve.items, curve.hits_above, curve.items_above, curve.m)
    r, g, h, t, m = map(segments.as_float64, counts)
    ratio = torch.where(t > 0, g / t, torch.inf)
    log = torch.where(t > 0, torch.log1p(torch.where(t > 0, ratio, 0)), 0)
    area = torch.where(g == 0, 0, r / g * (h * log + r * _lost_share(ratio, log)))  # NaN if the counts are NaN
    return torch.where(m > 0, curve.total(area) / m, torch.nan)


def _lost_share(z: Tensor, log: Tensor) -> Tensor:
    """Return 1 - log(1 + z) / z, by its series for small z, where the difference would lose digits."""
    series = torch.zeros_like(z)
    for power in range(_SERIES_TERMS + 1, 1, -1):
        series = z * ((1 if power % 2 == 0 else -1) / power + series)
    return torch.where(z < _SERIES_BELOW, series, 1 - log / z)


def ultralytics(curve: HitCurve, *, to_end: bool = False) -> Tensor:
    """Return the area that Ultralytics computes: (S,) float64; see :func:`ultralytics_precision`."""
    levels, precision = ultralytics_precision(curve, to_end=to_end)
    return torch.trapezoid(precision, levels)


def ultralytics_precision(curve: HitCurve, *, to_end: bool = False) -> tuple[Tensor, Tensor]:
    """Return the (101,) recall levels of Ultralytics, and the precision there, (S, 101) float64.

    The curve of all thresholds starts at (0, 1). Each precision becomes the highest from there on. The value at a level
    is linear between two points; of points with equal recall the last one counts.

    Args:
        curve: S rankings, tie groups as thresholds.
        to_end: whether a line connects the last point with (1, 0), as in versions up to 8.3. Otherwise the precision is
            0 from the last recall on, as from a version between 8.4.34 and 8.4.37 on.
    """
    levels, m = recall_levels("101-point", curve.m.device), segments.as_float64(curve.m)
    high = envelope(curve)
    above = segments.as_float64(curve.items_above)
    low = torch.where(above > 0, segments.as_float64(curve.hits_above) / above, 1)
    precision = _lines_at_levels(curve, levels, torch.maximum(low, high), high)
    hits, n = segments.as_float64(curve.total(curve.hits)), segments.as_float64(curve.n)
    recall = (hits / m)[:, None]
    last = torch.where(hits > 0, hits / n, 0)[:, None] if to_end else torch.zeros_like(recall)
    line = last * (1 - levels) / (1 - torch.where(recall < 1, recall, 0))
    precision = torch.where((levels >= recall) & (recall < 1), line, precision)
    return levels, torch.where(m[:, None] > 0, precision, torch.nan)


def _lines_at_levels(curve: HitCurve, levels: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return the values at recall levels of lines from the start to the end of each entry: (S, L) float64.

    A level at the end of an entry belongs to the next entry. The value is 0 at levels without an entry.

    Args:
        curve: S rankings.
        levels: (L,) ascending recall levels.
        low: (E,) values at the starts.
        high: (E,) values at the ends.
    """
    m = segments.as_float64(curve.m)
    entry_m = m[curve.segment] * (1 + _recall_tolerance(curve))
    start, end = (segments.as_float64(x) / entry_m for x in (curve.hits_above, curve.cumulative_hits))
    first, last = (torch.searchsorted(levels, x) for x in (start, end))
    offsets = segments.from_counts(last - first)
    entry = segments.ids(offsets)
    level = first[entry] + torch.arange(len(entry), device=entry.device) - offsets[entry]
    slope = (high - low) / torch.where(end > start, end - start, 1)
    values = torch.zeros((len(m), len(levels)), dtype=m.dtype, device=m.device)
    values[curve.segment[entry], level] = low[entry] + slope[entry] * (levels[level] - start[entry])
    return values if curve.parts is None else curve.parts.highest(values)


def order_ties(curve: HitCurve, ties: str) -> HitCurve:
    """Return the curve with each tie group in the order of the rule, "optimistic" or "pessimistic".

    The result has one entry per hit, without ties.
    """
    rule = tie_rule(ties)
    group = torch.repeat_interleave(torch.arange(len(curve.hits), device=curve.hits.device), curve.hits)
    first = curve.hits.cumsum(0) - curve.hits
    inside = torch.arange(len(group), device=group.device) - first[group]
    misses = rule.hit_places(curve.hits, curve.items)[0][group]
    return separate_hits(curve, group, inside, inside + misses)


def envelope(curve: HitCurve) -> Tensor:
    """Return the highest precision from each entry to the end of its ranking, (E,) float64."""
    highest = segments.maximum_from_right(_precision(curve), curve.offsets)
    if curve.parts is None:
        return highest
    first = torch.where(curve.offsets.diff() > 0, torch.cat([highest, highest.new_zeros(1)])[curve.offsets[:-1]], 0)
    return torch.maximum(highest, segments.repeat(curve.parts.highest_below(first), curve.offsets.diff()))


def _precision(curve: HitCurve) -> Tensor:
    """Return the precision at each entry, (E,) float64; 0 before the first hit."""
    counts = curve.native
    has_hit = counts.cumulative_hits > 0
    return arrays.tensor(arrays.namespace(has_hit).where(has_hit, counts.precision, 0))
