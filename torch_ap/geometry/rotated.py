"""Intersection over union of rotated boxes, and of convex quadrilaterals of any kind, pair by pair.

A quadrilateral is cut by the four edges of another (Sutherland & Hodgman 1974), all pairs at once. Each cut leaves a
convex polygon of at most one vertex more; polygons of fewer vertices repeat one, which adds no area.
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


def coco_pairs(detections: Tensor, truths: Tensor, crowd: Tensor) -> PairIoU:
    """The IoU of rows of two sets of convex quadrilaterals: i / (a + b - i), and i / a for a crowd; 0 without area.

    Args:
        detections: (D, 4, 2) corners in order, either way round, float64.
        truths: (G, 4, 2).
        crowd: (G,) bool.
    """
    sides = [_Quadrilaterals(side) for side in (detections, truths)]

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        common = _common_bounds(sides[0], sides[1], d, g)
        one, two = sides[0].area[d], sides[1].area[g]
        common = torch.minimum(common, torch.minimum(one, two))
        other = torch.where(crowd[g], 0, two)
        # the intersection is no larger than what is common to the upright boxes around both
        kept = ((common > 0) & (common >= least * _SLACK * (one + other - torch.where(crowd[g], 0, common)))).nonzero()
        kept = kept.squeeze(1)
        inter = _intersections(sides[0], sides[1], d[kept], g[kept])
        inter = torch.minimum(inter, torch.minimum(one[kept], two[kept]))
        value = inter / (one[kept] + other[kept] - torch.where(crowd[g[kept]], 0, inter))
        if least <= 0:
            return d, g, torch.zeros_like(one).scatter_(0, kept, value)
        reached = (value >= least).nonzero().squeeze(1)
        kept = kept[reached]
        return d[kept], g[kept], value[reached]

    return overlapping


class _Quadrilaterals:
    """Corners that go round the same way, and what is asked of each quadrilateral often.

    Attributes:
        points: x and y, (4, N) each.
        area: (N,).
        low, high: (2, N), ends of the upright box around each.
    """

    def __init__(self, points: Tensor) -> None:
        x, y = points.permute(2, 1, 0)
        turned = _signed_area(x, y) < 0
        self.points = [torch.where(turned, axis.flip(0), axis).contiguous() for axis in (x, y)]
        self.area = _signed_area(*self.points)
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
    common = torch.ones_like(one.area[d])
    for axis in (0, 1):
        low = torch.maximum(one.low[axis][d], two.low[axis][g])
        common *= (torch.minimum(one.high[axis][d], two.high[axis][g]) - low).clamp_(min=0)
    return common


def _intersections(one: _Quadrilaterals, two: _Quadrilaterals, d: Tensor, g: Tensor) -> Tensor:
    """(P,) area of the intersection of each pair."""
    size = _PAIRS_A_CHUNK.get(d.device.type, _PAIRS_A_CHUNK_ON_DEVICE)
    parts = [one.area[:0]]
    for rows, truths in zip(torch.split(d, size), torch.split(g, size), strict=True):
        origin = [axis[0][rows] for axis in one.points]
        x, y = (axis[:, rows] - start for axis, start in zip(one.points, origin, strict=True))
        cut_x, cut_y = (axis[:, truths] - start for axis, start in zip(two.points, origin, strict=True))
        parts.append(_clipped_area(x, y, cut_x, cut_y))
    return torch.cat(parts)


def _clipped_area(x: Tensor, y: Tensor, cut_x: Tensor, cut_y: Tensor) -> Tensor:
    """(P,) area of the part of each polygon that lies inside a quadrilateral; all are (corners, P)."""
    empty = torch.zeros(x.shape[1], dtype=torch.bool, device=x.device)
    for edge in range(4):
        start, end = edge, (edge + 1) % 4
        distance = (cut_x[end] - cut_x[start]) * (y - cut_y[start]) - (cut_y[end] - cut_y[start]) * (x - cut_x[start])
        x, y, nothing = _cut(x, y, distance)
        empty |= nothing
    return torch.where(empty, 0, _signed_area(x, y).clamp_(min=0))


def _cut(x: Tensor, y: Tensor, distance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The part of convex polygons on one side of a line each.

    From the corner that lies farthest inside, the corners before and after it are kept as far as they are inside, so
    that rounding of the distances of corners on the line does not matter.

    Args:
        x, y: (V, P) corners.
        distance: (V, P) of each corner from the line, at least 0 inside.

    Returns:
        (V + 1, P) x and y of the corners left; (P,) bool, where nothing is left.
    """
    count = len(x)
    place = torch.arange(count, device=x.device)[:, None]
    deepest, first = distance.max(0)
    inside = (distance >= 0).gather(0, (first + place) % count)
    after = torch.where(inside, count, place).amin(0)  # corners inside from the deepest on
    before = count - 1 - torch.where(inside, -1, place).amax(0)  # and before it
    slot = torch.arange(count + 1, device=x.device)[:, None]
    source = torch.where(slot < after, slot, (slot - after - 2 + count - before).clamp_(max=count))
    corner = (first + source) % count
    leave, enter = first + after, first - before
    crossings = []
    for at, kept, out in ((after, leave - 1, leave), (after + 1, enter, enter - 1)):
        ends = torch.stack([kept, out]) % count
        inner, outer = distance.gather(0, ends)
        crossings.append((slot == at, ends, torch.where(outer < 0, inner / (inner - outer), 0)))

    def cut(axis: Tensor) -> Tensor:
        left = axis.gather(0, corner)
        for here, ends, share in crossings:
            start, end = axis.gather(0, ends)
            left = torch.where(here, start + share * (end - start), left)
        return left

    return cut(x), cut(y), deepest < 0
