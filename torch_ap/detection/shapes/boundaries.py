"""Boundaries of masks: the pixels of a mask that are near its outside, computed from the edges of the mask.

A pixel is near the outside if a pixel within ``dilation`` rows and columns is outside the mask or the image. To find
the other pixels, each run of a column loses ``dilation`` pixels at both ends; then all columns within ``dilation`` are
intersected, in doubling windows of two, four, eight columns and so on. No dense mask is made.
"""

import itertools
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.base.arrays import native
from torch_ap.core.ranking import segments
from torch_ap.detection.shapes import masks
from torch_ap.detection.shapes.boxes import Spanned, pairs_above

MaskColumns: TypeAlias = tuple[Tensor, Tensor, Tensor]  # edges, edges per mask, sizes of their images

RATIO = 0.02  # of an image's diagonal
_A_CHUNK = {"cpu": 1 << 21}  # rows, columns and edges
_A_CHUNK_ON_DEVICE = 1 << 25


def dilation(sizes: Tensor, ratio: float = RATIO) -> Tensor:
    """Return the distance in pixels that counts as near: ``ratio`` of the image's diagonal, at least 1.

    Args:
        sizes: (B, 2) heights and widths.
        ratio: fraction of the diagonal.

    Returns:
        (B,) int64.
    """
    diagonal = segments.as_float64(sizes.square().sum(1)).sqrt()
    return (ratio * diagonal).round().to(torch.int64).clamp(min=1)


def boundaries(edges: Tensor, lengths: Tensor, sizes: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """Return the boundaries of masks, as masks.

    Args:
        edges: (E,) int64 of all masks, column by column.
        lengths: (N,) int64 edges per mask.
        sizes: (N, 2) int64 height and width of each mask's image.
        near: (N,) int64, :func:`dilation` of each mask.

    Returns:
        As ``edges`` and ``lengths``, without duplicate edges.
    """
    # chunks of masks bound the memory: each run of a column can overlap up to 25 runs of another column
    cumulative = (8 * lengths + 4 * sizes.sum(1)).cumsum(0)
    total, step = int(cumulative[-1]) if len(cumulative) else 0, _A_CHUNK.get(edges.device.type, _A_CHUNK_ON_DEVICE)
    cuts = torch.searchsorted(cumulative, torch.arange(0, total, step, device=edges.device)).tolist()
    offsets, chunks = segments.from_counts(lengths), [(edges[:0], lengths[:0])]
    for first, last in itertools.pairwise(sorted({0, *cuts, len(lengths)})):
        start, end = offsets[first], offsets[last]
        columns = edges[start:end], lengths[first:last], sizes[first:last], near[first:last]
        chunk_edges, chunk_lengths = _boundaries(*map(native, columns))
        chunks.append((arrays.tensor(chunk_edges), arrays.tensor(chunk_lengths)))
    return torch.cat([x for x, _ in chunks]), torch.cat([x for _, x in chunks])


def _boundaries(edges: Any, lengths: Any, sizes: Any, near: Any) -> tuple[Any, Any]:
    """Return the boundaries of a chunk of masks, in native values."""
    height, width = sizes[:, 0], sizes[:, 1]
    # + 1 separates the last edge of a mask from the first edge of the next
    pixels = segments.from_counts(height * width + 1)
    outer = edges + segments.repeat(pixels[:-1], lengths)
    if arrays.any_true(outer[1:] == outer[:-1]):
        values = arrays.tensor(outer)
        first = segments.run_starts(values)
        count = first.diff(append=first.new_tensor([len(values)]))
        outer = native(values[first[count % 2 == 1]])  # an edge that occurs an even number of times has no effect
        lengths = arrays.namespace(outer).searchsorted(outer, pixels)
        lengths = lengths[1:] - lengths[:-1]
        edges = outer - segments.repeat(pixels[:-1], lengths)
    mask, column, begin, stop = _inner_runs(*_column_runs(edges, lengths, height), near)
    shift = arrays.take(pixels, mask) + column * arrays.take(height, mask)
    inner = arrays.namespace(shift).stack([begin + shift, stop + shift], 1).reshape(-1)
    lengths = lengths + 2 * segments.count(mask, len(lengths))
    return masks.merge_sorted(outer, inner) - segments.repeat(pixels[:-1], lengths), lengths


def _column_runs(edges: Any, lengths: Any, height: Any) -> tuple[Any, Any, Any, Any]:
    """Return the runs of each column: (R,) mask, (R,) column, (R,) first row, (R,) the row after the last."""
    xp, mask = arrays.namespace(edges), segments.ids(segments.from_counts(lengths // 2))
    start, end, rows = edges[::2], edges[1::2], arrays.take(height, mask)
    first = start // rows
    count = (end - 1) // rows - first + 1
    run, before = segments.repeat(arrays.arange_like(len(count), count), count), segments.from_counts(count)[:-1]
    column = arrays.arange_like(len(run), run) + arrays.take(first - before, run)
    mask, rows = arrays.take(mask, run), arrays.take(rows, run)
    start, end = arrays.take(start, run) - column * rows, arrays.take(end, run) - column * rows
    return mask, column, arrays.clamp_min(start, 0), xp.minimum(end, rows)


def _inner_runs(mask: Any, column: Any, begin: Any, stop: Any, near: Any) -> tuple[Any, Any, Any, Any]:
    """Return the parts of the runs of columns that are farther than ``near`` from the outside, in the same order."""
    begin, stop = begin + arrays.take(near, mask), stop - arrays.take(near, mask)
    remaining = arrays.true_indices(begin < stop)
    mask, column, begin, stop = (arrays.take(x, remaining) for x in (mask, column, begin, stop))
    # The lines are the columns of all masks from the first to the last, and one empty column after the last. No step
    # goes beyond it: a step is at most as wide as the window, and all columns of a window have runs.
    offset, first = _line_offsets(mask, column, len(near))
    line, of_line = arrays.take(offset[:-1] - first, mask) + column, segments.ids(offset)
    width = near * 0 + 1
    while arrays.any_true(width <= 2 * near):
        move = arrays.namespace(width).minimum(width, 2 * near + 1 - width)
        moves = arrays.take(move, arrays.take(of_line, line))
        line, begin, stop = _intersect_runs(line, begin, stop, moves, len(of_line))
        width = width + move
    mask = arrays.take(of_line, line)
    return mask, line + arrays.take(first - offset[:-1] + near, mask), begin, stop


def _line_offsets(mask: Any, column: Any, size: int) -> tuple[Any, Any]:
    """Return the (N + 1,) offsets of the lines of each mask, and the (N,) first column of each."""
    count = segments.count(mask, size)
    runs, filled = segments.from_counts(count), arrays.true_indices(count > 0)
    first, lines = count * 0, count * 0
    first[filled] = arrays.take(column, arrays.take(runs, filled))
    lines[filled] = arrays.take(column, arrays.take(runs, filled + 1) - 1) + 2 - arrays.take(first, filled)
    return segments.from_counts(lines), first


def _intersect_runs(line: Any, begin: Any, stop: Any, move: Any, lines: int) -> tuple[Any, Any, Any]:
    """Intersect runs with the runs ``move`` lines later."""
    xp, count = arrays.namespace(line), segments.count(line, lines)
    target = line + move
    partners = arrays.take(count, target)
    run = segments.repeat(arrays.arange_like(len(line), line), partners)
    partner = arrays.take(segments.from_counts(count), target) - segments.from_counts(partners)[:-1]
    partner = arrays.take(partner, run) + arrays.arange_like(len(run), run)
    begin = xp.maximum(arrays.take(begin, run), arrays.take(begin, partner))
    stop = xp.minimum(arrays.take(stop, run), arrays.take(stop, partner))
    overlapping = arrays.true_indices(begin < stop)
    line = arrays.take(line, arrays.take(run, overlapping))
    return line, arrays.take(begin, overlapping), arrays.take(stop, overlapping)


def coco_pairs(detections: MaskColumns, truths: MaskColumns, crowd: Tensor) -> Spanned:
    """Return the function of the lower of mask IoU and boundary IoU; the mask IoU alone for a crowd.

    Args:
        detections: D masks.
        truths: G masks.
        crowd: (G,) bool.
    """
    sides = [masks.Masks(*side) for side in (detections, truths)]
    mask_pairs = masks.coco_pairs(sides[0], sides[1], crowd)

    def boundary_masks(side: int, rows: Tensor) -> masks.Masks:
        _, lengths, sizes = (detections, truths)[side]
        edges, size = segments.as_int64(arrays.tensor(sides[side].edges_of(native(rows)))), sizes[rows]
        return masks.Masks(*boundaries(edges, lengths[rows], size, dilation(size)), size)

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        d, g, value = mask_pairs(d, g, least)
        (d_rows, d_index), (g_rows, g_index) = (torch.unique(x, return_inverse=True) for x in (d, g))
        pair_iou = masks.coco_pairs(boundary_masks(0, d_rows), boundary_masks(1, g_rows), crowd[g_rows])
        boundary_iou = pair_iou(d_index, g_index, 0.0)[2]
        return pairs_above(d, g, torch.where(crowd[g], value, torch.minimum(value, boundary_iou)), least)

    return replace(mask_pairs, pair_iou=overlapping)
