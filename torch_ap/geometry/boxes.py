"""Intersection over union of boxes, pair by pair, with the operations of COCO's own C code in the same order.

That order (corners as x + w, union as area + area - intersection, float64 throughout) makes every IoU, and so every
comparison with a threshold, equal to pycocotools' to the last bit.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.rules.options import BoxFormat, allowed

FORMATS = allowed(BoxFormat)

PairIoU: TypeAlias = Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor, Tensor]]
"""(detections, ground truths, least): the pairs of rows that have an IoU of at least ``least``, and their IoUs."""


def to_xywh(boxes: Tensor, box_format: str) -> Tensor:
    """Boxes of a format as float64 (x, y, width, height): (N, 4) to (N, 4)."""
    boxes = segments.as_float64(boxes)
    if box_format == "xywh":
        return boxes
    start, end = boxes[:, :2], boxes[:, 2:]
    if box_format == "xyxy":
        return torch.cat([start, end - start], 1)
    return torch.cat([start - 0.5 * end, end], 1)


def to_xyxy(boxes: Tensor, box_format: str) -> Tensor:
    """Boxes of a format as float64 (x1, y1, x2, y2): (N, 4) to (N, 4)."""
    boxes = segments.as_float64(boxes)
    if box_format == "xyxy":
        return boxes
    start, size = boxes[:, :2], boxes[:, 2:]
    if box_format == "cxcywh":
        start = start - 0.5 * size
    return torch.cat([start, start + size], 1)


def from_xywh(boxes: Tensor, box_format: str) -> Tensor:
    """The inverse of :func:`to_xywh`, up to rounding where the formats differ."""
    start, size = boxes[:, :2], boxes[:, 2:]
    if box_format == "xywh":
        return boxes
    return torch.cat([start, start + size] if box_format == "xyxy" else [start + 0.5 * size, size], 1)


def area(boxes: Tensor) -> Tensor:
    """Width times height of (N, 4) boxes in (x, y, width, height)."""
    return boxes[:, 2] * boxes[:, 3]


def coco_pairs(detections: Tensor, truths: Tensor, crowd: Tensor) -> PairIoU:
    """COCO's IoU of rows of two sets of boxes, (x, y, width, height), float64.

    IoU = i / (a + b - i), and i / a for a crowd, with i the intersection, a and b the areas of detection and ground
    truth. Boxes that do not overlap have an IoU of 0, and so have boxes of zero or negative size.

    Args:
        detections: (D, 4).
        truths: (G, 4).
        crowd: (G,) bool.
    """
    left, lower, width, height = detections.t().contiguous()
    one = (left, lower, left + width, lower + height, width * height)
    left, lower, width, height = truths.t().contiguous()
    two = (left, lower, left + width, lower + height, width * height)

    def extent(axis: int, d: Tensor, g: Tensor) -> Tensor:
        end = torch.minimum(one[axis + 2].index_select(0, d), two[axis + 2].index_select(0, g))
        return end - torch.maximum(one[axis].index_select(0, d), two[axis].index_select(0, g))

    def iou(d: Tensor, g: Tensor, wide: Tensor, high: Tensor) -> Tensor:
        inter, size = wide * high, one[4].index_select(0, d)
        union = size + two[4].index_select(0, g) - inter
        return inter / torch.where(crowd.index_select(0, g), size, union)

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        wide = extent(0, d, g)
        if least <= 0:
            high = extent(1, d, g)
            return d, g, torch.where((wide > 0) & (high > 0), iou(d, g, wide, high), 0)
        d, g, wide = _where(wide > 0, d, g, wide)
        high = extent(1, d, g)
        d, g, wide, high = _where(high > 0, d, g, wide, high)
        value = iou(d, g, wide, high)
        return _where(value >= least, d, g, value)  # type: ignore[return-value]

    return overlapping


def voc_pairs(detections: Tensor, truths: Tensor, pixel: float) -> PairIoU:
    """VOC's IoU of rows of two sets of boxes, (x1, y1, x2, y2), float64.

    Args:
        detections: (D, 4).
        truths: (G, 4).
        pixel: 1 where the pixels of the corners belong to the box, as in the devkit, else 0.
    """
    one, two = detections.t().contiguous(), truths.t().contiguous()
    sizes = [(box[2] - box[0] + pixel) * (box[3] - box[1] + pixel) for box in (one, two)]

    def extent(axis: int, d: Tensor, g: Tensor) -> Tensor:
        return torch.minimum(one[axis + 2][d], two[axis + 2][g]) - torch.maximum(one[axis][d], two[axis][g]) + pixel

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ARG001
        wide = extent(0, d, g)
        d, g, wide = _where(wide > 0, d, g, wide)
        high = extent(1, d, g)
        d, g, wide, high = _where(high > 0, d, g, wide, high)
        inter = wide * high
        return d, g, inter / (sizes[0][d] + sizes[1][g] - inter)

    return overlapping


def of_rows(pair_iou: PairIoU, rows: Tensor, truths: Tensor) -> PairIoU:
    """The same of places in ``rows`` and ``truths``, different numbers of detections and ground truths each."""
    places = [
        x.new_empty(int(x.max()) + 1 if len(x) else 0).scatter_(0, x, torch.arange(len(x), device=x.device))
        for x in (rows, truths)
    ]

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        d, g, value = pair_iou(rows.index_select(0, d), truths.index_select(0, g), least)
        return places[0].index_select(0, d), places[1].index_select(0, g), value

    return overlapping


def all_pairs(rows: int, columns: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Every row with every column, row by row: two (rows * columns,) int64."""
    every = torch.arange(rows * columns, device=device)
    return every // max(columns, 1), every % max(columns, 1)


def _where(kept: Tensor, *columns: Tensor) -> tuple[Tensor, ...]:
    places = kept.nonzero().squeeze(1)
    return tuple(column.index_select(0, places) for column in columns)
