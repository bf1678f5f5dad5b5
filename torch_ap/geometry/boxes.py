"""Intersection over union of boxes, pair by pair, with the operations of COCO's own C code in the same order.

That order (corners as x + w, union as area + area - intersection, float64 throughout) makes every IoU, and so every
comparison with a threshold, equal to pycocotools' to the last bit.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.rules.options import BoxFormat, allowed
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

FORMATS = allowed(BoxFormat)

PairIoU: TypeAlias = Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor, Tensor]]
"""(detections, ground truths, least): the pairs of rows that have an IoU of at least ``least``, and their IoUs."""


@dataclass(frozen=True, eq=False)
class Spanned:
    """A :data:`PairIoU` that is 0 for pairs whose spans on some line have nothing in common.

    Attributes:
        pair_iou: the function.
        starts, ends: (D,) and (G,), where the spans of detections and of ground truths begin and end.
        crowded: pairs per detection and ground truth, from which on a search of the spans costs less than the function.
    """

    pair_iou: PairIoU
    starts: tuple[Tensor, Tensor]
    ends: tuple[Tensor, Tensor]
    crowded: int = 32

    def __call__(self, d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        """Call the function."""
        return self.pair_iou(d, g, least)


def to_xywh(boxes: Tensor, box_format: str) -> Tensor:
    """Boxes of a format as float64 (x, y, width, height): (N, 4) to (N, 4), in memory of its own, column by column."""
    rows = boxes.new_empty((4, len(boxes)), dtype=segments.widest(boxes.device))
    if boxes.is_cpu and boxes.dtype != torch.bfloat16:  # NumPy, which lacks these, takes a third of the time
        rows.numpy()[...] = boxes.numpy().T
    else:
        rows.copy_(boxes.t())
    if box_format == "xyxy":
        rows[2:] -= rows[:2]
    elif box_format == "cxcywh":
        rows[:2] -= 0.5 * rows[2:]
    return rows.t()


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


@arrays.quiet
def coco_pairs(detections: Tensor, truths: Tensor, crowd: Tensor) -> Spanned:
    """COCO's IoU of rows of two sets of boxes, (x, y, width, height), float64.

    IoU = i / (a + b - i), and i / a for a crowd, with i the intersection, a and b the areas of detection and ground
    truth. Boxes that do not overlap have an IoU of 0, and so have boxes of zero or negative size.

    Args:
        detections: (D, 4).
        truths: (G, 4).
        crowd: (G,) bool.
    """
    one, two = (
        (left, lower, left + width, lower + height, width * height)
        for left, lower, width, height in (native(side.t().contiguous()) for side in (detections, truths))
    )
    crowds, xp = native(crowd), arrays.namespace(native(crowd))

    def extent(axis: int, d: Any, g: Any) -> Any:
        end = xp.minimum(arrays.take(one[axis + 2], d), arrays.take(two[axis + 2], g))
        end -= xp.maximum(arrays.take(one[axis], d), arrays.take(two[axis], g))
        return end

    def meeting(axis: int, d: Any, g: Any) -> tuple[Any, ...]:
        meet = arrays.take(one[axis], d) < arrays.take(two[axis + 2], g)
        meet &= arrays.take(two[axis], g) < arrays.take(one[axis + 2], d)
        return _where(meet, d, g)

    @arrays.quiet
    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        first, second = native(d), native(g)
        if least > 0:
            first, second = meeting(1, *meeting(0, first, second))
        wide, high = extent(0, first, second), extent(1, first, second)
        inter, size = wide * high, arrays.take(one[4], first)
        union = size + arrays.take(two[4], second) - inter
        value, some = inter / xp.where(arrays.take(crowds, second), size, union), (wide > 0) & (high > 0)
        if least <= 0:
            return d, g, arrays.tensor(xp.where(some, value, 0.0))
        first, second, value = _where(some & (value >= least), first, second, value)
        return arrays.tensor(first), arrays.tensor(second), arrays.tensor(value)

    starts, ends = ((arrays.tensor(one[at]), arrays.tensor(two[at])) for at in (0, 2))
    return Spanned(overlapping, starts, ends)


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

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        wide = extent(0, d, g)
        d, g, wide = _where(wide > 0, d, g, wide)
        high = extent(1, d, g)
        d, g, wide, high = _where(high > 0, d, g, wide, high)
        inter = wide * high
        value = inter / (sizes[0][d] + sizes[1][g] - inter)
        return _where(value >= least, d, g, value) if least > 0 else (d, g, value)

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

    if isinstance(pair_iou, Spanned):
        starts, ends = ((one[rows], two[truths]) for one, two in (pair_iou.starts, pair_iou.ends))
        return replace(pair_iou, pair_iou=overlapping, starts=starts, ends=ends)
    return overlapping


def turned(pair_iou: PairIoU) -> PairIoU:
    """The same of ground truths and detections: both sides are given, and found, in the other order."""

    def overlapping(g: Tensor, d: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        d, g, value = pair_iou(d, g, least)
        return g, d, value

    if isinstance(pair_iou, Spanned):
        return replace(pair_iou, pair_iou=overlapping, starts=pair_iou.starts[::-1], ends=pair_iou.ends[::-1])
    return overlapping


def all_pairs(rows: int, columns: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Every row with every column, row by row: two (rows * columns,) int64."""
    every = torch.arange(rows * columns, device=device)
    return every // max(columns, 1), every % max(columns, 1)


def pairs_of_images(rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """The same of each image, which has so many of both: (B,) rows per image and (B,) columns per image."""
    repeats = segments.repeat(columns, rows)
    offsets = segments.from_counts(repeats)
    d = segments.ids(offsets)
    first = segments.repeat(segments.from_counts(columns)[:-1], rows)
    return d, torch.arange(len(d), device=d.device) - offsets[d] + first[d]


def _where(kept: Any, *columns: Any) -> tuple[Any, ...]:
    places = arrays.places(kept)
    return tuple(arrays.take(column, places) for column in columns)
