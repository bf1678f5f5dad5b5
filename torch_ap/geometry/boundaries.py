"""The boundaries of masks: the pixels of a mask that are near the outside, found from where the mask begins and ends.

A pixel is near the outside if one within ``dilation`` rows and columns of it is outside the mask or the image. The
others are what remains when each run of a column loses ``dilation`` pixels at both ends, and what all columns within
``dilation`` have in common then: of two neighbours, of four, of eight, and so on. No picture is made.
"""

import itertools
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from torch_ap.geometry import masks
from torch_ap.geometry.boxes import Spanned
from torch_ap.ranking import segments
from torch_ap.runtime import arrays
from torch_ap.runtime.arrays import native

MaskColumns: TypeAlias = tuple[Tensor, Tensor, Tensor]  # edges, edges per mask, sizes of their images

RATIO = 0.02  # of an image's diagonal
_A_CHUNK = {"cpu": 1 << 21}  # rows, columns and edges
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
    # so many masks at a time that memory is bounded: each run of a column may meet up to 25 of another
    cumulative = (8 * lengths + 4 * sizes.sum(1)).cumsum(0)
    total, step = int(cumulative[-1]) if len(cumulative) else 0, _A_CHUNK.get(edges.device.type, _A_CHUNK_ON_DEVICE)
    cuts = torch.searchsorted(cumulative, torch.arange(0, total, step, device=edges.device)).tolist()
    offsets, found = segments.from_counts(lengths), [(edges[:0], lengths[:0])]
    for first, last in itertools.pairwise(sorted({0, *cuts, len(lengths)})):
        start, end = offsets[first], offsets[last]
        columns = edges[start:end], lengths[first:last], sizes[first:last], near[first:last]
        one, two = _boundaries(*map(native, columns))
        found.append((arrays.tensor(one), arrays.tensor(two)))
    return torch.cat([part[0] for part in found]), torch.cat([part[1] for part in found])


def _boundaries(edges: Any, lengths: Any, sizes: Any, near: Any) -> tuple[Any, Any]:
    """The same of some masks, in native values."""
    height, width = sizes[:, 0], sizes[:, 1]
    pixels = segments.from_counts(height * width + 1)  # so that no mask's last edge is the next one's first
    outer = edges + segments.repeat(pixels[:-1], lengths)
    if arrays.some(outer[1:] == outer[:-1]):
        outer = native(_once(arrays.tensor(outer)))
        lengths = arrays.namespace(outer).searchsorted(outer, pixels)
        lengths = lengths[1:] - lengths[:-1]
        edges = outer - segments.repeat(pixels[:-1], lengths)
    mask, column, begin, stop = _inner(*_column_runs(edges, lengths, height), near)
    shift = arrays.take(pixels, mask) + column * arrays.take(height, mask)
    inner = arrays.namespace(shift).stack([begin + shift, stop + shift], 1).reshape(-1)
    lengths = lengths + 2 * segments.count(mask, len(lengths))
    return masks.merged(outer, inner) - segments.repeat(pixels[:-1], lengths), lengths


def _column_runs(edges: Any, lengths: Any, height: Any) -> tuple[Any, Any, Any, Any]:
    """The runs of each column: (R,) mask, (R,) column, (R,) first row, (R,) the one behind the last."""
    xp, mask = arrays.namespace(edges), segments.ids(segments.from_counts(lengths // 2))
    start, end, rows = edges[::2], edges[1::2], arrays.take(height, mask)
    first = start // rows
    count = (end - 1) // rows - first + 1
    run, before = segments.repeat(arrays.steps(len(count), count), count), segments.from_counts(count)[:-1]
    column = arrays.steps(len(run), run) + arrays.take(first - before, run)
    mask, rows = arrays.take(mask, run), arrays.take(rows, run)
    start, end = arrays.take(start, run) - column * rows, arrays.take(end, run) - column * rows
    return mask, column, arrays.at_least(start, 0), xp.minimum(end, rows)


def _inner(mask: Any, column: Any, begin: Any, stop: Any, near: Any) -> tuple[Any, Any, Any, Any]:
    """The runs of columns that are farther than ``near`` from the outside; in order, as those given."""
    begin, stop = begin + arrays.take(near, mask), stop - arrays.take(near, mask)
    kept = arrays.places(begin < stop)
    mask, column, begin, stop = (arrays.take(x, kept) for x in (mask, column, begin, stop))
    # lines are the columns of all masks between their first and last, and one behind without runs, beyond which no step
    # goes: it is no longer than the windows are wide, all of whose columns have runs
    offset, first = _lines(mask, column, len(near))
    line, of_line = arrays.take(offset[:-1] - first, mask) + column, segments.ids(offset)
    wide = near * 0 + 1
    while arrays.some(wide <= 2 * near):
        move = arrays.namespace(wide).minimum(wide, 2 * near + 1 - wide)
        line, begin, stop = _common(line, begin, stop, arrays.take(move, arrays.take(of_line, line)), len(of_line))
        wide = wide + move
    mask = arrays.take(of_line, line)
    return mask, line + arrays.take(first - offset[:-1] + near, mask), begin, stop


def _lines(mask: Any, column: Any, size: int) -> tuple[Any, Any]:
    """(N + 1,) offsets of the lines of each mask, (N,) the column of its first."""
    count = segments.count(mask, size)
    runs, filled = segments.from_counts(count), arrays.places(count > 0)
    first, lines = count * 0, count * 0
    first[filled] = arrays.take(column, arrays.take(runs, filled))
    lines[filled] = arrays.take(column, arrays.take(runs, filled + 1) - 1) + 2 - arrays.take(first, filled)
    return segments.from_counts(lines), first


def _common(line: Any, begin: Any, stop: Any, move: Any, lines: int) -> tuple[Any, Any, Any]:
    """What runs have in common with those so many lines later."""
    xp, count = arrays.namespace(line), segments.count(line, lines)
    other = line + move
    many = arrays.take(count, other)
    run = segments.repeat(arrays.steps(len(line), line), many)
    partner = arrays.take(segments.from_counts(count), other) - segments.from_counts(many)[:-1]
    partner = arrays.take(partner, run) + arrays.steps(len(run), run)
    begin = xp.maximum(arrays.take(begin, run), arrays.take(begin, partner))
    stop = xp.minimum(arrays.take(stop, run), arrays.take(stop, partner))
    kept = arrays.places(begin < stop)
    return arrays.take(line, arrays.take(run, kept)), arrays.take(begin, kept), arrays.take(stop, kept)


def _once(places: Tensor) -> Tensor:
    """The ascending places that occur an odd number of times."""
    first = segments.run_starts(places)
    count = first.diff(append=first.new_tensor([len(places)]))
    return places[first[count % 2 == 1]]


def coco_pairs(detections: MaskColumns, truths: MaskColumns, crowd: Tensor) -> Spanned:
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
        detected, real = map(_bounded, sides, (detections, truths), (found, true))
        of_boundary = masks.coco_pairs(detected, real, crowd[true])(one, two, 0.0)[2]
        value = torch.where(crowd[g], value, torch.minimum(value, of_boundary))
        kept = (value >= least).nonzero().squeeze(1)
        return d[kept], g[kept], value[kept]

    return replace(whole, pair_iou=overlapping)


def _bounded(side: masks.Masks, given: MaskColumns, rows: Tensor) -> masks.Masks:
    """The boundaries of some of the masks."""
    _, lengths, sizes = given
    edges, size = segments.as_int64(arrays.tensor(side.edges_of(native(rows)))), sizes[rows]
    return masks.Masks(*boundaries(edges, lengths[rows], size, dilation(size)), size)
