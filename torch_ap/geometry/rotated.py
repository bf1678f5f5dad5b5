"""Intersection over union of rotated boxes, and of quadrilaterals of any kind, pair by pair.

A box is seen in the coordinates of another, in which that is the unit square. The area they have in common is the sum
of what each edge adds to the integral of the box's height, cut off at 0 and 1. No corner of the intersection has to be
found, so that boxes which share an edge, or nearly do, are no special case. Other quadrilaterals are two triangles, on
either side of a diagonal that lies inside.
"""

import itertools

import torch
from torch import Tensor

from torch_ap.geometry.boxes import PairIoU
from torch_ap.ranking import segments
from torch_ap.rules.options import RotatedFormat, allowed

FORMATS = allowed(RotatedFormat)
_PAIRS_A_CHUNK = {"cpu": 1 << 13}  # whose polygons stay in a processor's cache from step to step
_PAIRS_A_CHUNK_ON_DEVICE = 1 << 22
_SLACK = 1 - 1e-9  # rounding drops no pair


def corners(boxes: Tensor, box_format: str) -> Tensor:
    """(N, 5) or (N, 8) boxes of a format as the corners of quadrilaterals: (N, 4, 2) float64.

    Angles are in degrees, against the clock in an image, whose y points down, as in torchvision: "cxcywhr" has the
    centre, "xywhr" the corner that is the upper left one at 0 degrees, which moves with the rotation.
    """
    boxes = segments.as_float64(boxes)
    if box_format == "xyxyxyxy":
        return boxes.reshape(-1, 4, 2)
    start, (width, height, angle) = boxes[:, :2], boxes[:, 2:].unbind(1)
    angle = torch.deg2rad(angle)
    right = torch.stack([angle.cos(), -angle.sin()], 1) * width[:, None]
    down = torch.stack([angle.sin(), angle.cos()], 1) * height[:, None]
    if box_format == "cxcywhr":
        start = start - 0.5 * right - 0.5 * down
    return torch.stack([start, start + right, start + right + down, start + down], 1)


def area(boxes: Tensor, box_format: str) -> Tensor:
    """(N,) float64 of boxes of a format."""
    if box_format == "xyxyxyxy":
        return _signed_area(*corners(boxes, box_format).permute(2, 1, 0)).abs()
    return segments.as_float64(boxes[:, 2]) * segments.as_float64(boxes[:, 3])


def coco_pairs(detections: Tensor, truths: Tensor, box_format: str, crowd: Tensor) -> PairIoU:
    """The IoU of rows of two sets of boxes of a format: i / (a + b - i), and i / a for a crowd; 0 without area.

    Args:
        detections: (D, 5) or (D, 8); corners of quadrilaterals in order, either way round.
        truths: (G, 5) or (G, 8).
        box_format: of both.
        crowd: (G,) bool.
    """
    sides = [_Quadrilaterals(corners(side, box_format), box_format != "xyxyxyxy") for side in (detections, truths)]

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        one, two = sides[0].area.index_select(0, d), sides[1].area.index_select(0, g)
        common = torch.minimum(_common_bounds(sides[0], sides[1], d, g), torch.minimum(one, two))
        counts = (~crowd).to(two.dtype).index_select(0, g)  # of the ground truth's area beside the intersection
        # the intersection is no larger than what is common to the upright boxes around both
        kept = (common > 0) & (common >= least * _SLACK * (one + counts * (two - common)))
        places = kept.nonzero().squeeze(1)
        near = [x.index_select(0, places) for x in (d, g, one, two, counts)]
        inter = torch.minimum(_intersections(sides[0], sides[1], near[0], near[1]), torch.minimum(near[2], near[3]))
        value = inter / (near[2] + near[4] * (near[3] - inter))
        if least <= 0:
            return d, g, torch.zeros_like(one).scatter_(0, places, value)
        reached = (value >= least).nonzero().squeeze(1)
        return near[0].index_select(0, reached), near[1].index_select(0, reached), value.index_select(0, reached)

    return overlapping


class _Quadrilaterals:
    """Corners that go round the same way, and what is asked of each quadrilateral often.

    Attributes:
        points: x and y, (4, N) each; the diagonal from the first corner lies inside.
        area: (N,).
        parallelograms: whether all of them are such.
        low, high: (2, N), ends of the upright box around each.
    """

    def __init__(self, points: Tensor, parallelograms: bool) -> None:
        self.parallelograms = parallelograms
        x, y = points.permute(2, 1, 0).contiguous()
        area = _signed_area(x, y)
        self.points = [torch.where(area < 0, axis.flip(0), axis) for axis in (x, y)]
        if not parallelograms:
            halves = ([axis.roll(turn, 0)[:3] for axis in self.points] for turn in (0, 2))
            outside = torch.minimum(*(_signed_area(*half) for half in halves)) < 0
            self.points = [torch.where(outside, axis.roll(1, 0), axis) for axis in self.points]
        self.area = area.abs()
        self.low = torch.stack([axis.amin(0) for axis in self.points])
        self.high = torch.stack([axis.amax(0) for axis in self.points])


def _signed_area(x: Tensor, y: Tensor) -> Tensor:
    """(N,) area of polygons of (V, N) corners, above 0 where x turns to y; from the first corner, so that it is exact
    far from 0 too.
    """
    x, y = x - x[0], y - y[0]
    twice = torch.zeros_like(x[0])
    for one, two in itertools.pairwise(range(1, len(x))):  # in one order, however many polygons there are
        twice += x[one] * y[two] - x[two] * y[one]
    return 0.5 * twice


def _common_bounds(one: _Quadrilaterals, two: _Quadrilaterals, d: Tensor, g: Tensor) -> Tensor:
    """(P,) the area common to the upright boxes around each of a pair; 0 where there is none."""
    common = torch.ones_like(d, dtype=one.area.dtype)
    for axis in (0, 1):
        low = torch.maximum(one.low[axis].index_select(0, d), two.low[axis].index_select(0, g))
        high = torch.minimum(one.high[axis].index_select(0, d), two.high[axis].index_select(0, g))
        common *= (high - low).clamp_(min=0)
    return common


def _intersections(one: _Quadrilaterals, two: _Quadrilaterals, d: Tensor, g: Tensor) -> Tensor:
    """(P,) area of the intersection of each pair."""
    size = _PAIRS_A_CHUNK.get(d.device.type, _PAIRS_A_CHUNK_ON_DEVICE)
    parts = [one.area[:0]]
    for rows, truths in zip(torch.split(d, size), torch.split(g, size), strict=True):
        x, y = (axis.index_select(1, rows) for axis in one.points)
        cut_x, cut_y = (axis.index_select(1, truths) for axis in two.points)
        x, y = x - cut_x[0], y - cut_y[0]
        sides = [torch.stack([cut_x[corner] - cut_x[0], cut_y[corner] - cut_y[0]]) for corner in (1, 2, 3)]
        if two.parallelograms:
            parts.append(_common_area(x, y, sides[0], sides[2], 0.0))
        else:
            parts.append(_common_area(x, y, sides[0], sides[1], 1.0) + _common_area(x, y, sides[1], sides[2], 1.0))
    return torch.cat(parts)


def _common_area(x: Tensor, y: Tensor, right: Tensor, up: Tensor, slope: float) -> Tensor:
    """(P,) area that polygons have in common with parallelograms, or with triangles.

    With u along one side and v along the other, it is the integral over u from 0 to 1 of the polygon's v, cut off below
    0 and above 1 - slope * u; each edge of the polygon adds its part.

    Args:
        x, y: (4, P) corners, seen from the corner where the two sides begin.
        right, up: (2, P) the two sides.
        slope: 0 for parallelograms, 1 for triangles.
    """
    size = right[0] * up[1] - right[1] * up[0]
    scale = torch.where(size > 0, size, 1)
    u, v = (x * up[1] - y * up[0]) / scale, (y * right[0] - x * right[1]) / scale
    after_u, after_v = u.roll(-1, 0), v.roll(-1, 0)
    start, end = u.clamp(0, 1), after_u.clamp(0, 1)
    rise = (after_v - v) / torch.where(after_u == u, 1, after_u - u)
    low, high = v + (start - u) * rise, v + (end - u) * rise
    parts = (start - end) * (_mean_above(low, high) - _mean_above(low + slope * start - 1, high + slope * end - 1))
    total = parts[0] + parts[1] + parts[2] + parts[3]
    return torch.where(size > 0, total.clamp_(0, 1) * size, 0)


def _mean_above(start: Tensor, end: Tensor) -> Tensor:
    """The mean, along a line from ``start`` to ``end``, of what of it is above 0."""
    one, two = start.clamp(min=0), end.clamp(min=0)
    level = start == end
    return torch.where(level, one, 0.5 * (two - one) * (two + one) / torch.where(level, 1, end - start))
