"""The boundaries of masks: the pixels of a mask that are near the outside, found from where the mask begins and ends.

A pixel is near the outside if one within ``dilation`` rows and columns of it is outside the mask or the image. The
others are what remains of each run of a column when it loses ``dilation`` pixels at both ends, and then of each run of
a row likewise. Runs of rows are found from those of columns without a look at the pixels inside: a row's run begins and
ends where two neighbouring columns differ.
"""

import itertools
from typing import TypeAlias

import torch
from torch import Tensor

from torch_ap.geometry import masks
from torch_ap.geometry.boxes import PairIoU
from torch_ap.ranking import order, segments
from torch_ap.runtime import arrays

MaskColumns: TypeAlias = tuple[Tensor, Tensor, Tensor]  # edges, edges per mask, sizes of their images

RATIO = 0.02  # of an image's diagonal
_A_CHUNK = {"cpu": 1 << 21}  # edges and pixels
_A_CHUNK_ON_DEVICE = 1 << 25


def dilation(sizes: Tensor, ratio: float = RATIO) -> Tensor:
    """(B,) int64 pixels that count as near, from (B, 2) heights and widths: ``ratio`` of the diagonal, at least 1."""
    diagonal = segments.as_float64(sizes.square().sum(1)).sqrt()
    return (ratio * diagonal).round().to(torch.int64).clamp(min=1)


def boundaries(edges: Tensor, lengths: Tensor, sizes: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """The boundaries of masks, as masks.

    Args:
        edges: (E,) int64 of all masks, column by column.
        lengths: (N,) int64 edges per mask.
        sizes: (N, 2) int64 height and width of each mask's image.
        near: (N,) int64, :func:`dilation` of each.

    Returns:
        As ``edges`` and ``lengths``, without edges that come twice.
    """
    # so many masks at a time that memory is bounded: pixels are written out where neighbouring lines differ
    cumulative = (lengths + 4 * sizes.sum(1)).cumsum(0)
    total, step = int(cumulative[-1]) if len(cumulative) else 0, _A_CHUNK.get(edges.device.type, _A_CHUNK_ON_DEVICE)
    cuts = torch.searchsorted(cumulative, torch.arange(0, total, step, device=edges.device)).tolist()
    offsets, found = segments.from_counts(lengths), [(edges[:0], lengths[:0])]
    for first, last in itertools.pairwise(sorted({0, *cuts, len(lengths)})):
        start, end = offsets[first], offsets[last]
        found.append(_boundaries(edges[start:end], lengths[first:last], sizes[first:last], near[first:last]))
    return torch.cat([part[0] for part in found]), torch.cat([part[1] for part in found])


def _boundaries(edges: Tensor, lengths: Tensor, sizes: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    height, width = sizes.unbind(1)
    mask, start, end = _column_runs(edges, lengths, height)
    # with a pixel outside behind each column, runs of neighbouring columns never touch
    framed = (height + 1) * (width + 1)
    offset = segments.from_counts(framed)
    begin = offset[mask] + start + start // height[mask]
    stop = begin + end - start
    begin, stop, mask = _shortened(begin, stop, mask, near)
    begin, stop, mask = _other_way(begin, stop, mask, offset, height + 1, width + 1)
    begin, stop, mask = _shortened(begin, stop, mask, near)
    begin, stop, mask = _other_way(begin, stop, mask, offset, width + 1, height + 1)
    inner = torch.cat([begin, stop]) - offset[torch.cat([mask, mask])]
    mask = torch.cat([mask, mask])
    inner -= inner // (height + 1)[mask]  # without the frame
    pixels = segments.from_counts(height * width + 1)
    outer = edges + pixels[segments.ids(segments.from_counts(lengths))]
    changed = _once(torch.cat([outer, inner + pixels[mask]]))
    mask = torch.searchsorted(pixels, changed, right=True) - 1
    return changed - pixels[mask], segments.count(mask, len(lengths))


def _column_runs(edges: Tensor, lengths: Tensor, height: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The runs of each column: (R,) mask, (R,) first pixel, (R,) the one behind the last."""
    mask = segments.ids(segments.from_counts(lengths))[::2]
    start, end = edges[::2], edges[1::2]
    filled = (start < end).nonzero().squeeze(1)
    mask, start, end = mask[filled], start[filled], end[filled]
    rows = height[mask]
    first = start // rows
    count = (end - 1) // rows - first + 1
    run = segments.ids(segments.from_counts(count))
    column = first[run] + torch.arange(len(run), device=run.device) - segments.from_counts(count)[run]
    mask, rows = mask[run], rows[run]
    return mask, torch.maximum(start[run], column * rows), torch.minimum(end[run], (column + 1) * rows)


def _shortened(begin: Tensor, stop: Tensor, mask: Tensor, near: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Runs without so many pixels at both ends; those that have no others vanish."""
    begin, stop = begin + near[mask], stop - near[mask]
    kept = (begin < stop).nonzero().squeeze(1)
    return begin[kept], stop[kept], mask[kept]


def _other_way(
    begin: Tensor, stop: Tensor, mask: Tensor, offset: Tensor, long: Tensor, many: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Runs along columns as runs along rows, or the other way round.

    Args:
        begin, stop: (R,) of the runs of all masks, each in its own stretch of pixels.
        mask: (R,) of each run.
        offset: (N + 1,) where the pixels of each mask begin.
        long: (N,) pixels of a line, that outside behind it included.
        many: (N,) lines, that outside behind them included.
    """
    ends, both = torch.cat([begin, stop]), torch.cat([mask, mask])
    # a mask and itself one line later differ where pixels differ from those of the line before
    changed = _once(torch.cat([ends, ends + long[both]])).reshape(-1, 2)
    count = changed.diff(dim=1).flatten()
    starts = segments.from_counts(count)
    run = segments.ids(starts)
    place = changed[:, 0][run] + torch.arange(len(run), device=run.device) - starts[run]
    mask = torch.searchsorted(offset, place, right=True) - 1
    place -= offset[mask]
    line = place // long[mask]
    turned = offset[mask] + (place - line * long[mask]) * many[mask] + line
    begin, stop = order.sort(turned).reshape(-1, 2).t().contiguous()
    return begin, stop, torch.searchsorted(offset, begin, right=True) - 1


def _once(places: Tensor) -> Tensor:
    """The places that occur an odd number of times, ascending."""
    ordered = order.sort(places)
    first = segments.run_starts(ordered)
    count = first.diff(append=first.new_tensor([len(ordered)]))
    return ordered[first[count % 2 == 1]]


def coco_pairs(detections: MaskColumns, truths: MaskColumns, crowd: Tensor) -> PairIoU:
    """The lower of the IoU of masks and of the IoU of their boundaries; that of masks alone for a crowd.

    Args:
        detections: of D masks.
        truths: of G masks.
        crowd: (G,) bool.
    """
    sides = [masks.Masks(*side) for side in (detections, truths)]
    whole = masks.coco_pairs(sides[0], sides[1], crowd)

    def overlapping(d: Tensor, g: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
        d, g, value = whole(d, g, least)
        (found, one), (true, two) = (torch.unique(x, return_inverse=True) for x in (d, g))
        bounded = [
            _bounded(side, given, rows)
            for side, given, rows in zip(sides, (detections, truths), (found, true), strict=True)
        ]
        of_boundary = masks.coco_pairs(bounded[0], bounded[1], crowd[true])(one, two, 0.0)[2]
        value = torch.where(crowd[g], value, torch.minimum(value, of_boundary))
        kept = (value >= least).nonzero().squeeze(1)
        return d[kept], g[kept], value[kept]

    return overlapping


def _bounded(side: masks.Masks, given: MaskColumns, rows: Tensor) -> masks.Masks:
    """The boundaries of some of the masks."""
    _, lengths, sizes = given
    edges, size = arrays.tensor(side.edges_of(arrays.native(rows))), sizes[rows]
    return masks.Masks(*boundaries(edges, lengths[rows], size, dilation(size)), size)
