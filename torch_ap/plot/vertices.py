"""What average precision sums, as the vertices of a line: what is drawn has the area that is computed."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.curve import interpolation
from torch_ap.curve.average_precision import places_within
from torch_ap.curve.convention import Convention
from torch_ap.functional import Curve
from torch_ap.plot.style import array, decimated
from torch_ap.ranking import segments
from torch_ap.ranking.counting import from_bins
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array

_AREAS = (None, "all-points", "trapezoid")


class Line(NamedTuple):
    """Vertices, recall ascending."""

    recall: Array
    precision: Array


class Rectangles(NamedTuple):
    """What average precision adds up: each rectangle is as wide as recall grows there.

    Attributes:
        right: where each ends, ascending.
        height: of each.
    """

    right: Array
    height: Array

    @property
    def width(self) -> Array:
        """Of each."""
        return np.diff(self.right, prepend=0.0)


def rectangles(curve: Curve, unit: float | None = None) -> Rectangles:
    """The rectangles of plain and of interpolated precision; none without positives, or where none is retrieved.

    Args:
        curve: the ranking.
        unit: hits that make a width of 1; None for m.
    """
    gain, height = _sums(curve)
    return Rectangles(array(gain.cumsum(0) / (curve.m if unit is None else unit)), array(height))


def line(curve: Curve) -> Line:
    """The line whose area is the average precision, decimated: a step, the envelope, or straight from point to point.

    It falls to 0 where the ranking ends without having found everything; with ``top_k`` it ends at k.
    """
    straight = is_straight(curve)
    recall, precision = _straight(curve) if straight else rectangles(curve)
    if not len(recall):
        return Line(recall, precision)
    kept = decimated(recall, precision)
    recall, precision = recall[kept], precision[kept]
    if straight:
        x, y = np.append(0.0, recall), np.append(precision[0], precision)
    else:
        x, y = np.append(0.0, np.repeat(recall, 2)[:-1]), np.repeat(precision, 2)
    ends = recall[-1] < 1 and curve.top_k is None
    return Line(np.append(x, recall[-1]), np.append(y, 0.0)) if ends else Line(x, y)


def points(curve: Curve, unit: float | None = None) -> Line:
    """Recall and precision at every threshold, those without another hit included; with ``top_k`` of the first k items.

    Args:
        curve: the ranking.
        unit: as for :func:`rectangles`.
    """
    hits, items = array(curve.hits), array(curve.items)
    shown = (items > 0) & (hits >= 0) & (float(curve.m) > 0)
    if curve.top_k is not None:
        shown &= items <= curve.top_k
    hits, items = hits[shown], items[shown]
    return Line(hits / (float(curve.m) if unit is None else unit), hits / items)


def levels(curve: Curve) -> Line | None:
    """The recall levels over which average precision is a mean, with the values; None where it is an area."""
    if not isinstance(curve.interpolation, Tensor) and curve.interpolation in _AREAS:
        return None
    recall, precision = Convention(interpolation=curve.interpolation).at_levels(_resolved(curve))
    order = torch.argsort(recall)
    return Line(array(recall[order]), array(precision[0, order]))


def ranking_of(curve: Curve) -> HitCurve:
    """The ranking, each tie group that holds a hit as an entry."""
    hits, items = (torch.diff(x, prepend=x.new_zeros(1))[None] for x in (curve.hits, curve.items))
    return from_bins(hits, items, n=curve.n[None], m=curve.m[None])


def is_straight(curve: Curve) -> bool:
    """Whether average precision is the area under straight lines from threshold to threshold."""
    return isinstance(curve.interpolation, str) and curve.interpolation == "trapezoid"


def _straight(curve: Curve) -> Line:
    """Both ends of the straight lines whose area "trapezoid" is: from above each tie group, or each hit, to its end."""
    ranking, m = _resolved(curve), segments.as_float64(curve.m)
    above, hits_above = segments.as_float64(ranking.items_above), segments.as_float64(ranking.hits_above)
    start = torch.where(above > 0, hits_above / above, ranking.precision)
    ends = (hits_above / m, segments.as_float64(ranking.cumulative_hits) / m), (start, ranking.precision)
    recall, precision = (array(torch.stack(pair, 1).flatten()) for pair in ends)
    return Line(recall, precision)


def _sums(curve: Curve) -> tuple[Tensor, Tensor]:
    """The hits that each rectangle stands for, and its height."""
    ranking, k = _resolved(curve), curve.top_k
    if curve.interpolation is not None and not is_straight(curve):
        return segments.as_float64(ranking.hits), interpolation.envelope(ranking)
    if curve.ties == "expected":
        gain, height, depth = _in_any_order(ranking)
        shown = depth <= (torch.inf if k is None else k)
        return gain[shown], height[shown]
    if k is None:
        return segments.as_float64(ranking.hits), ranking.precision
    counts = (ranking.hits, ranking.items, ranking.hits_above, ranking.items_above)
    hits, items, hits_above, items_above = (segments.as_float64(x) for x in counts)
    places = places_within(items, items_above, k)
    gain = hits * (places / items)
    shown = gain > 0
    return gain[shown], ((hits_above + gain) / (items_above + places))[shown]


def _resolved(curve: Curve) -> HitCurve:
    """The ranking, hit by hit where ``ties`` orders them."""
    ranking = ranking_of(curve)
    return interpolation.untied(ranking, curve.ties) if curve.ties in ("optimistic", "pessimistic") else ranking


def _in_any_order(ranking: HitCurve) -> tuple[Tensor, Tensor, Tensor]:
    """For each place inside the tie groups: the hits expected there, the precision that they find, and the rank.

    Of g items with r hits, below h hits of t items, the i-th is a hit with probability r / g; if it is, so are
    (i - 1) (r - 1) / (g - 1) of those of the group above it, on average.
    """
    sizes = ranking.items
    group = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    place = torch.arange(1, len(group) + 1, device=sizes.device) - (sizes.cumsum(0) - sizes)[group]
    hits, items, hits_above, items_above = (
        segments.as_float64(x)[group] for x in (ranking.hits, sizes, ranking.hits_above, ranking.items_above)
    )
    above = hits_above + (place - 1) * ((hits - 1) / (items - 1).clamp(min=1))
    return hits / items, (above + 1) / (items_above + place), items_above + place
