"""Intersection over union of rotated boxes and of general quadrilaterals, pair by pair.

One box is transformed so that the other box becomes the unit square. Each edge of the first box contributes to the
integral of its height, clipped to [0, 1]; the sum over the edges is the area of the intersection. The corners of the
intersection are not computed, so boxes that share an edge, exactly or nearly, are no special case. Other quadrilaterals
are split into two triangles along a diagonal that is inside.
"""

import itertools

import torch
from torch import Tensor

from torch_ap.core.base.options import RotatedFormat, allowed_values
from torch_ap.core.ranking import segments
from torch_ap.detection.shapes.boxes import PairIoU, pairs_above

FORMATS = allowed_values(RotatedFormat)
_PAIRS_A_CHUNK = {"cpu": 1 << 13}  # pairs whose polygons stay in a processor's cache from step to step
_PAIRS_A_CHUNK_ON_DEVICE = 1 << 22
_SLACK = 1 - 1e-9  # rounding drops no pair


def corners(boxes: Tensor, box_format: str) -> Tensor:
    """Convert (N, 5) or (N, 8) boxes of a format to the corners of quadrilaterals, (N, 4, 2) float64.

    Angles are in degrees, counterclockwise in an image, whose y points down, as in torchvision. "cxcywhr" has the
    centre; "xywhr" has the corner that is the upper left one at 0 degrees, and that moves with the rotation.
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
    """Return the (N,) float64 areas of boxes of a format."""
    if box_format == "xyxyxyxy":
        return _signed_area(*corners(boxes, box_format).permute(2, 1, 0)).abs()
    return segments.as_float64(boxes[:, 2]) * segments.as_float64(boxes[:, 3])


def coco_pairs(detections: Tensor, truths: Tensor, box_format: str, crowd: Tensor) -> PairIoU:
    """Return the function of the IoU of rows of two sets of boxes.

    IoU = i / (a + b - i), and i / a for a crowd; 0 without area.

    Args:
        detections: (D, 5) or (D, 8); corners of quadrilaterals in order, clockwise or counterclockwise.
        truths: (G, 5) or (G, 8).
        box_format: the format of both sets.
        crowd: (G,) bool.
    """
    sides = [_Quadrilaterals(corners(side, box_format), box_format != "xyxyxyxy") for side in (detections, truths)]

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        d_area, g_area = sides[0].area.index_select(0, d), sides[1].area.index_select(0, g)
        common = torch.minimum(_common_bounds(sides[0], sides[1], d, g), torch.minimum(d_area, g_area))
        # whether the rest of the ground truth is part of the union
        counts = (~crowd).to(g_area.dtype).index_select(0, g)
        # the intersection is not larger than the intersection of the upright boxes around both
        is_candidate = (common > 0) & (common >= least * _SLACK * (d_area + counts * (g_area - common)))
        places = is_candidate.nonzero().squeeze(1)
        near = [x.index_select(0, places) for x in (d, g, d_area, g_area, counts)]
        inter = torch.minimum(_intersections(sides[0], sides[1], near[0], near[1]), torch.minimum(near[2], near[3]))
        value = inter / (near[2] + near[4] * (near[3] - inter))
        if least <= 0:
            return d, g, torch.zeros_like(d_area).scatter_(0, places, value)
        return pairs_above(near[0], near[1], value, least)

    return overlapping


class _Quadrilaterals:
    """Quadrilaterals with uniform orientation, and their precomputed areas and bounds.

    Attributes:
        points: x and y, (4, N) each; the diagonal from the first corner is inside.
        area: (N,).
        parallelograms: whether all quadrilaterals are parallelograms.
        low: (2, N) lower ends of the upright box around each.
        high: (2, N) upper ends of the upright box around each.
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
    """Return the (N,) areas of polygons of (V, N) corners, positive in the direction from x to y.

    Coordinates are relative to the first corner, so the result is accurate far from 0 too.
    """
    x, y = x - x[0], y - y[0]
    twice = torch.zeros_like(x[0])
    for i, j in itertools.pairwise(range(1, len(x))):  # the same order for any number of polygons
        twice += x[i] * y[j] - x[j] * y[i]
    return 0.5 * twice


def _common_bounds(detections: _Quadrilaterals, truths: _Quadrilaterals, d: Tensor, g: Tensor) -> Tensor:
    """Return the (P,) areas common to the upright boxes around each of a pair; 0 if disjoint."""
    common = torch.ones_like(d, dtype=detections.area.dtype)
    for axis in (0, 1):
        low = torch.maximum(detections.low[axis].index_select(0, d), truths.low[axis].index_select(0, g))
        high = torch.minimum(detections.high[axis].index_select(0, d), truths.high[axis].index_select(0, g))
        common *= (high - low).clamp_(min=0)
    return common


def _intersections(detections: _Quadrilaterals, truths: _Quadrilaterals, d: Tensor, g: Tensor) -> Tensor:
    """Return the (P,) areas of the intersection of each pair."""
    size = _PAIRS_A_CHUNK.get(d.device.type, _PAIRS_A_CHUNK_ON_DEVICE)
    parts = [detections.area[:0]]
    for d_part, g_part in zip(torch.split(d, size), torch.split(g, size), strict=True):
        x, y = (axis.index_select(1, d_part) for axis in detections.points)
        cut_x, cut_y = (axis.index_select(1, g_part) for axis in truths.points)
        x, y = x - cut_x[0], y - cut_y[0]
        sides = [torch.stack([cut_x[corner] - cut_x[0], cut_y[corner] - cut_y[0]]) for corner in (1, 2, 3)]
        if truths.parallelograms:
            parts.append(_common_area(x, y, sides[0], sides[2], 0.0))
        else:
            parts.append(_common_area(x, y, sides[0], sides[1], 1.0) + _common_area(x, y, sides[1], sides[2], 1.0))
    return torch.cat(parts)


def _common_area(x: Tensor, y: Tensor, right: Tensor, up: Tensor, slope: float) -> Tensor:
    """Return the (P,) areas of the intersections of polygons with parallelograms, or with triangles.

    With u along one side and v along the other, the area is the integral over u from 0 to 1 of the polygon's v, clipped
    to [0, 1 - slope * u]. Each edge of the polygon adds its part.

    Args:
        x: (4, P) corners, relative to the corner where the two sides begin.
        y: (4, P) likewise.
        right: (2, P) the first side.
        up: (2, P) the second side.
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
    """Return the mean of the positive part along a line from ``start`` to ``end``."""
    above_start, above_end = start.clamp(min=0), end.clamp(min=0)
    is_level = start == end
    area = 0.5 * (above_end - above_start) * (above_end + above_start)
    return torch.where(is_level, above_start, area / torch.where(is_level, 1, end - start))
