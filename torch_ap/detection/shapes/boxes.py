"""Intersection over union of boxes and of intervals, pair by pair, in COCO's order of operations.

COCO's C code uses corners as x + w, union as area + area - intersection, and float64 throughout. The same order makes
every IoU, and so every comparison with a threshold, bit-identical to pycocotools.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.base.options import BoxFormat, allowed_values
from torch_ap.core.ranking import segments
from torch_ap.core.ranking.order import Array

FORMATS = allowed_values(BoxFormat)
_ULTRALYTICS_EPS = 1e-7  # in the divisor of its IoU
_CROWDED_BLOCKS = 128  # pairs per box; below, the IoU block by block costs less than a search of the spans

PairIoU: TypeAlias = Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor, Tensor]]
"""(detections, ground truths, least): the pairs of rows that have an IoU of at least ``least``, and their IoUs."""

BlockIoU: TypeAlias = Callable[[slice, slice, float], tuple[Tensor, Tensor, Tensor]]
"""A :data:`PairIoU` of all pairs of two slices of detections and ground truths, by detection; ``least`` above 0."""


@dataclass(frozen=True, eq=False)
class Spanned:
    """A :data:`PairIoU` that is 0 for pairs whose spans on some line are disjoint.

    Attributes:
        pair_iou: the function.
        starts: (D,) and (G,), the starts of the spans of detections and of ground truths.
        ends: (D,) and (G,), the ends of the spans.
        crowded: pairs per detection and ground truth; above this number, a search of the spans costs less than the
            function.
        block: a faster function of all pairs of two slices, or None.
    """

    pair_iou: PairIoU
    starts: tuple[Tensor, Tensor]
    ends: tuple[Tensor, Tensor]
    crowded: int = 32
    block: BlockIoU | None = None

    def __call__(self, d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        """Call the function."""
        return self.pair_iou(d, g, least)


def to_xywh(boxes: Tensor, box_format: str) -> Tensor:
    """Convert (N, 4) boxes of a format to float64 (x, y, width, height), in new memory, column by column."""
    if boxes.is_cpu and boxes.dtype != torch.bfloat16:  # NumPy has no bfloat16, but is three times faster
        rows = torch.from_numpy(np.array(boxes.numpy().T, np.float64, order="C"))
    else:
        rows = boxes.new_empty((4, len(boxes)), dtype=segments.widest(boxes.device)).copy_(boxes.t())
    if box_format == "xyxy":
        rows[2:] -= rows[:2]
    elif box_format == "cxcywh":
        rows[:2] -= 0.5 * rows[2:]
    return rows.t()


def to_xyxy(boxes: Tensor, box_format: str) -> Tensor:
    """Convert (N, 4) boxes of a format to float64 (x1, y1, x2, y2)."""
    boxes = segments.as_float64(boxes)
    if box_format == "xyxy":
        return boxes
    start, size = boxes[:, :2], boxes[:, 2:]
    if box_format == "cxcywh":
        start = start - 0.5 * size
    return torch.cat([start, start + size], 1)


def from_xywh(boxes: Tensor, box_format: str) -> Tensor:
    """Convert boxes from (x, y, width, height) to a format; the inverse of :func:`to_xywh`, up to rounding."""
    start, size = boxes[:, :2], boxes[:, 2:]
    if box_format == "xywh":
        return boxes
    return torch.cat([start, start + size] if box_format == "xyxy" else [start + 0.5 * size, size], 1)


def area(boxes: Tensor) -> Tensor:
    """Return width times height of (N, 4) boxes in (x, y, width, height)."""
    return boxes[:, 2] * boxes[:, 3]


@arrays.quiet
def coco_pairs(detections: Tensor, truths: Tensor, crowd: Tensor) -> Spanned:
    """Return the function of COCO's IoU of rows of two sets of boxes, (x, y, width, height), float64.

    IoU = i / (a + b - i), and i / a for a crowd, with i the intersection, a and b the areas of detection and ground
    truth. Boxes that do not overlap, and boxes of zero or negative size, have an IoU of 0.

    Args:
        detections: (D, 4).
        truths: (G, 4).
        crowd: (G,) bool.
    """
    d_sides, g_sides = (
        (left, lower, left + width, lower + height, width * height)
        for left, lower, width, height in (native(side.t().contiguous()) for side in (detections, truths))
    )
    crowds, xp = native(crowd), arrays.namespace(native(crowd))

    def extent(axis: int, d: Any, g: Any) -> Any:
        end = xp.minimum(arrays.take(d_sides[axis + 2], d), arrays.take(g_sides[axis + 2], g))
        end -= xp.maximum(arrays.take(d_sides[axis], d), arrays.take(g_sides[axis], g))
        return end

    def meeting(axis: int, d: Any, g: Any) -> tuple[Any, ...]:
        meet = arrays.take(d_sides[axis], d) < arrays.take(g_sides[axis + 2], g)
        meet &= arrays.take(g_sides[axis], g) < arrays.take(d_sides[axis + 2], d)
        return _filter(meet, d, g)

    @arrays.quiet
    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        first, second = native(d), native(g)
        if least > 0:
            first, second = meeting(1, *meeting(0, first, second))
        wide, high = extent(0, first, second), extent(1, first, second)
        inter, size = wide * high, arrays.take(d_sides[4], first)
        union = size + arrays.take(g_sides[4], second) - inter
        value, overlaps = inter / xp.where(arrays.take(crowds, second), size, union), (wide > 0) & (high > 0)
        if least <= 0:
            return d, g, arrays.tensor(xp.where(overlaps, value, 0.0))
        first, second, value = _filter(overlaps & (value >= least), first, second, value)
        return arrays.tensor(first), arrays.tensor(second), arrays.tensor(value)

    @arrays.quiet
    def block(rows: slice, columns: slice, least: float) -> tuple[Tensor, Tensor, Tensor]:
        first, second, crowded = [x[rows, None] for x in d_sides], [x[columns] for x in g_sides], crowds[columns]
        inter, high = (_common_extent(first[axis::2], second[axis::2]) for axis in (0, 1))
        inter *= high
        union = np.add(first[4], second[4], out=high)
        union -= inter
        if crowded.any():
            union = np.where(crowded, first[4], union)
        value = np.divide(inter, union, out=inter).reshape(-1)
        places = (value >= least).nonzero()[0]
        row = places // len(crowded)
        column = places - row * len(crowded)
        row += rows.start
        column += columns.start
        return arrays.tensor(row), arrays.tensor(column), arrays.tensor(value.take(places))

    starts, ends = ((arrays.tensor(d_sides[at]), arrays.tensor(g_sides[at])) for at in (0, 2))
    if not detections.is_cpu:
        return Spanned(overlapping, starts, ends)
    return Spanned(overlapping, starts, ends, crowded=_CROWDED_BLOCKS, block=block)


def _common_extent(first: list[Array], second: list[Array]) -> Array:
    """Return the length that intervals have in common, 0 if they are disjoint; each side is starts, then ends."""
    out = np.minimum(first[1], second[1])
    out -= np.maximum(first[0], second[0])
    return np.maximum(out, 0, out=out)


def voc_pairs(detections: Tensor, truths: Tensor, pixel: float) -> PairIoU:
    """Return the function of VOC's IoU of rows of two sets of boxes, (x1, y1, x2, y2), float64.

    Args:
        detections: (D, 4).
        truths: (G, 4).
        pixel: 1 if the pixels of the corners belong to the box, as in the devkit, else 0.
    """
    d_sides, g_sides = detections.t().contiguous(), truths.t().contiguous()
    sizes = [(box[2] - box[0] + pixel) * (box[3] - box[1] + pixel) for box in (d_sides, g_sides)]

    def extent(axis: int, d: Tensor, g: Tensor) -> Tensor:
        end = torch.minimum(d_sides[axis + 2][d], g_sides[axis + 2][g])
        return end - torch.maximum(d_sides[axis][d], g_sides[axis][g]) + pixel

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        wide = extent(0, d, g)
        d, g, wide = _filter(wide > 0, d, g, wide)
        high = extent(1, d, g)
        d, g, wide, high = _filter(high > 0, d, g, wide, high)
        inter = wide * high
        value = inter / (sizes[0][d] + sizes[1][g] - inter)
        return pairs_above(d, g, value, least) if least > 0 else (d, g, value)

    return overlapping


def ultralytics_pairs(detections: Tensor, truths: Tensor) -> PairIoU:
    """Return the function of Ultralytics' IoU of rows of two sets of boxes, (x1, y1, x2, y2): computed in float32.

    Args:
        detections: (D, 4) float32.
        truths: (G, 4) float32.
    """
    d_sides, g_sides = detections.t().contiguous(), truths.t().contiguous()
    sizes = [(box[2] - box[0]) * (box[3] - box[1]) for box in (d_sides, g_sides)]

    def extent(axis: int, d: Tensor, g: Tensor) -> Tensor:
        end = torch.minimum(d_sides[axis + 2][d], g_sides[axis + 2][g])
        return (end - torch.maximum(d_sides[axis][d], g_sides[axis][g])).clamp(min=0)

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        inter = extent(0, d, g) * extent(1, d, g)
        value = segments.as_float64(inter / (sizes[1][g] + sizes[0][d] - inter + _ULTRALYTICS_EPS))
        return pairs_above(d, g, value, least) if least > 0 else (d, g, value)

    return overlapping


def select_rows(pair_iou: PairIoU, rows: Tensor, truths: Tensor) -> PairIoU:
    """Return the function for indices into ``rows`` and ``truths``, which are distinct rows of the two sets."""
    places = [
        x.new_empty(int(x.max()) + 1 if len(x) else 0).scatter_(0, x, torch.arange(len(x), device=x.device))
        for x in (rows, truths)
    ]

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        d, g, value = pair_iou(rows.index_select(0, d), truths.index_select(0, g), least)
        return places[0].index_select(0, d), places[1].index_select(0, g), value

    if isinstance(pair_iou, Spanned):
        starts, ends = ((d_side[rows], g_side[truths]) for d_side, g_side in (pair_iou.starts, pair_iou.ends))
        return replace(pair_iou, pair_iou=overlapping, starts=starts, ends=ends, block=None)
    return overlapping


def swap_sides(pair_iou: PairIoU) -> PairIoU:
    """Return the function with the two sides exchanged, in arguments and results."""

    def overlapping(g: Tensor, d: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        d, g, value = pair_iou(d, g, least)
        return g, d, value

    if isinstance(pair_iou, Spanned):
        return replace(
            pair_iou, pair_iou=overlapping, starts=pair_iou.starts[::-1], ends=pair_iou.ends[::-1], block=None
        )
    return overlapping


def all_pairs(rows: int, columns: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Pair every row with every column, row by row: two (rows * columns,) int64."""
    pair = torch.arange(rows * columns, device=device)
    return pair // max(columns, 1), pair % max(columns, 1)


def pairs_of_images(rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Pair every row with every column of the same image: (B,) rows per image and (B,) columns per image."""
    repeats = segments.repeat(columns, rows)
    offsets = segments.from_counts(repeats)
    d = segments.ids(offsets)
    first = segments.repeat(segments.from_counts(columns)[:-1], rows)
    return d, torch.arange(len(d), device=d.device) - offsets[d] + first[d]


def interval_pairs(detections: Tensor, truths: Tensor, crowd: Tensor) -> PairIoU:
    """Return the function of the IoU of rows of two sets of intervals: i / (a + b - i), and i / a for a crowd.

    Disjoint intervals have an IoU of 0.

    Args:
        detections: (D, 2) start and end, float64.
        truths: (G, 2).
        crowd: (G,) bool.
    """
    sides = [side.t().contiguous() for side in (detections, truths)]
    lengths = [end - start for start, end in sides]

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        inter = torch.minimum(sides[0][1][d], sides[1][1][g]) - torch.maximum(sides[0][0][d], sides[1][0][g])
        if least > 0:
            d, g, inter = _filter(inter > 0, d, g, inter)
        own = lengths[0][d]
        union = torch.where(crowd[g], own, own + lengths[1][g] - inter)
        value = torch.where(inter > 0, inter / union, 0)
        return pairs_above(d, g, value, least) if least > 0 else (d, g, value)

    return overlapping


def pairs_above(d: Tensor, g: Tensor, value: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the pairs whose value is at least ``least``."""
    rows = (value >= least).nonzero().squeeze(1)
    return d.index_select(0, rows), g.index_select(0, rows), value.index_select(0, rows)


def _filter(flags: Any, *columns: Any) -> tuple[Any, ...]:
    """Return the values of columns where the flags are true."""
    places = arrays.true_indices(flags)
    return tuple(arrays.take(column, places) for column in columns)
