"""Terms of average precision as the vertices of a line, so that the area drawn equals the value computed."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.measures import interpolation
from torch_ap.core.measures.average_precision import places_within
from torch_ap.core.measures.convention import Convention
from torch_ap.core.measures.ties import tie_rule
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array
from torch_ap.curves import Curve
from torch_ap.plot.style import array, decimated

_CURVE_STEPS = 33  # vertices of a curve between two thresholds


class Line(NamedTuple):
    """Vertices in the order of ascending recall."""

    recall: Array
    precision: Array


class Rectangles(NamedTuple):
    """Terms of average precision: the width of each rectangle is its gain of recall.

    Attributes:
        right: the right end of each rectangle, ascending.
        height: the height of each rectangle.
    """

    right: Array
    height: Array

    @property
    def width(self) -> Array:
        """The width of each rectangle."""
        return np.diff(self.right, prepend=0.0)


def rectangles(curve: Curve, unit: float | None = None) -> Rectangles:
    """Return the rectangles of plain and of interpolated precision; none without positives, or if none is retrieved.

    Args:
        curve: the ranking.
        unit: number of hits with a total width of 1; None for m.
    """
    gain, height = _terms(curve)
    return Rectangles(array(gain.cumsum(0) / (curve.m if unit is None else unit)), array(height))


def line(curve: Curve) -> Line:
    """Return the decimated line whose area is the average precision: a step, the envelope, or straight segments.

    The line falls to 0 at the end of a ranking that misses positives; with ``top_k`` it ends at k.
    """
    straight = is_straight(curve)
    recall, precision = _straight_ends(curve) if straight else rectangles(curve)
    if not len(recall):
        return Line(recall, precision)
    places = decimated(recall, precision)
    recall, precision = recall[places], precision[places]
    if straight:
        x, y = np.append(0.0, recall), np.append(precision[0], precision)
    else:
        x, y = np.append(0.0, np.repeat(recall, 2)[:-1]), np.repeat(precision, 2)
    ends = recall[-1] < 1 and curve.top_k is None
    return Line(np.append(x, recall[-1]), np.append(y, 0.0)) if ends else Line(x, y)


def points(curve: Curve, unit: float | None = None) -> Line:
    """Return recall and precision at every threshold, also without another hit; with ``top_k`` of the first k items.

    Args:
        curve: the ranking.
        unit: as for :func:`rectangles`.
    """
    hits, items = array(curve.hits), array(curve.items)
    is_shown = (items > 0) & (hits >= 0) & (float(curve.m) > 0)
    if curve.top_k is not None:
        is_shown &= items <= curve.top_k
    hits, items = hits[is_shown], items[is_shown]
    return Line(hits / (float(curve.m) if unit is None else unit), hits / items)


def levels(curve: Curve) -> Line | None:
    """Return the recall levels and the values whose mean is the average precision; None if it is an area."""
    convention = Convention(interpolation=curve.interpolation)
    if not convention.has_levels:
        return None
    recall, precision = convention.at_levels(_with_tie_order(curve))
    order = torch.argsort(recall)
    return Line(array(recall[order]), array(precision[0, order]))


def is_straight(curve: Curve) -> bool:
    """Return whether average precision is the area under a line from threshold to threshold, not under steps."""
    return Convention(interpolation=curve.interpolation).is_line_area


def _straight_ends(curve: Curve) -> Line:
    """Return the vertices of the line: from above each tie group, or each hit, to its end.

    Davis & Goadrich's curve has further vertices between the ends, and Ultralytics' line has one per recall level.
    """
    ranking, m, name = _with_tie_order(curve), segments.as_float64(curve.m), str(curve.interpolation)
    if name.startswith("ultralytics"):
        levels, heights = interpolation.ultralytics_precision(ranking, to_end=name == "ultralytics-8.3")
        return Line(array(levels), array(heights[0])) if float(m) > 0 else Line(np.empty(0), np.empty(0))
    steps = torch.linspace(0, 1, _CURVE_STEPS if name == "davis-goadrich" else 2, dtype=torch.float64)
    hits, items, hits_above, above = (x[:, None] for x in ranking.float_counts)
    recall = (hits_above + steps * hits) / m
    if name == "davis-goadrich":
        precision = (hits_above + steps * hits) / (above + steps * items)
        precision[:, 0] = torch.where(above > 0, hits_above / above, hits / items)[:, 0]
    else:
        first = torch.ones_like(above) if name == "trapezoid-anchored" else (hits_above + hits) / (above + items)
        start = torch.where(above > 0, hits_above / above, first)
        precision = torch.cat([start, (hits_above + hits) / (above + items)], 1)
    return Line(array(recall.flatten()), array(precision.flatten()))


def _terms(curve: Curve) -> tuple[Tensor, Tensor]:
    """Return the hits and the height of each rectangle."""
    ranking, k = _with_tie_order(curve), curve.top_k
    if curve.interpolation is not None and not is_straight(curve):
        return segments.as_float64(ranking.hits), interpolation.envelope(ranking)
    if tie_rule(curve.ties).is_random:
        gain, height, depth = _expected_terms(ranking)
        is_term = depth <= (torch.inf if k is None else k)
        return gain[is_term], height[is_term]
    if k is None:
        return segments.as_float64(ranking.hits), ranking.precision
    hits, items, hits_above, items_above = ranking.float_counts
    places = places_within(items, items_above, k)
    gain = hits * (places / items)
    is_term = gain > 0
    return gain[is_term], ((hits_above + gain) / (items_above + places))[is_term]


def _with_tie_order(curve: Curve) -> HitCurve:
    """Return the ranking, split into single hits if ``ties`` orders them."""
    ranking = curve._ranking()
    return interpolation.order_ties(ranking, curve.ties) if tie_rule(curve.ties).is_ordered else ranking


def _expected_terms(ranking: HitCurve) -> tuple[Tensor, Tensor, Tensor]:
    """Return for each place inside the tie groups the expected hits, the precision at a hit, and the rank.

    In a group of g items with r hits, below h hits of t items, the i-th item is a hit with probability r / g. If it is
    a hit, the expected number of hits above it in the group is (i - 1) (r - 1) / (g - 1).
    """
    sizes = ranking.items
    group = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    place = torch.arange(1, len(group) + 1, device=sizes.device) - (sizes.cumsum(0) - sizes)[group]
    hits, items, hits_above, items_above = (x[group] for x in ranking.float_counts)
    above = hits_above + (place - 1) * ((hits - 1) / (items - 1).clamp(min=1))
    return hits / items, (above + 1) / (items_above + place), items_above + place
