"""Polygons as masks, with the pixels of COCO's ``rleFrPoly``.

The outline is drawn on a grid five times as fine as the pixels, edge by edge. Where the outline crosses the centre of a
column of pixels, the mask has an edge: from this row on, the pixels of the column are on the other side.
"""

from collections.abc import Sequence

import numpy as np

from torch_ap.core.ranking.order import Array

_FINE = 5.0


def edges_of_polygon(corners: Sequence[float], height: int, width: int) -> Array:
    """Return the edges of the mask of a polygon, as in :mod:`torch_ap.detection.shapes.masks`.

    Args:
        corners: x and y in turn, in pixels.
        height: rows of the image.
        width: columns of the image.

    Returns:
        (E,) int64, an even number of ascending pixel counts, column by column.
    """
    points = np.array(corners, np.float64).reshape(-1, 2)
    x, y = _outline(np.trunc(_FINE * points + 0.5).astype(np.int64))
    step = np.flatnonzero(x[1:] != x[:-1])
    before, after = step, step + 1
    column = (np.where(x[after] < x[before], x[after], x[after] - 1) + 0.5) / _FINE - 0.5
    row = (np.minimum(y[after], y[before]) + 0.5) / _FINE - 0.5
    crosses = (np.floor(column) == column) & (column >= 0) & (column <= width - 1)
    row = np.ceil(np.clip(row[crosses], 0, height)).astype(np.int64)
    places = np.sort(column[crosses].astype(np.int64) * height + row)
    if len(places) % 2:
        places = np.append(places, height * width)
    return _drop_empty_runs(places)


def edges_of_union(edges: Array, least: int = 1) -> Array:
    """Return the edges of the pixels that at least some of several masks contain.

    Args:
        edges: (E,) int64, the edges of masks of one size, one mask after the other.
        least: the number of masks that must contain a pixel: 1 for the union, all of them for the intersection.
    """
    order = np.argsort(edges, kind="stable")
    places, depth = edges[order], (1 - 2 * (order % 2)).cumsum()  # an edge begins a run, and the next one ends it
    last = np.flatnonzero(np.diff(places, append=-1))  # the depth after all changes at a place
    inside = depth[last] >= least
    changed = np.flatnonzero(inside != np.concatenate([[False], inside[:-1]]))
    out: Array = places[last][changed]
    return out


def _outline(corners: Array) -> tuple[Array, Array]:
    """Return x and y of all fine points along the closed outline of (P, 2) fine corners."""
    start, stop = corners, np.roll(corners, -1, 0)
    size = np.abs(stop - start)
    steep = size[:, 0] < size[:, 1]
    along, across = np.where(steep, 1, 0), np.where(steep, 0, 1)
    edge = np.arange(len(corners))
    # each edge is drawn in the ascending direction of its longer side, and passed in its own direction
    flipped = start[edge, along] > stop[edge, along]
    low, high = np.where(flipped[:, None], stop, start), np.where(flipped[:, None], start, stop)
    length = size[edge, along]
    with np.errstate(all="ignore"):
        slope = (high[edge, across] - low[edge, across]) / length  # NaN for a point, whose product below is not used
    slope[length == 0] = 0
    count = length + 1
    number = np.repeat(edge, count)
    step = np.arange(len(number)) - np.repeat(count.cumsum() - count, count)
    step = np.where(flipped[number], length[number] - step, step)
    main = low[edge, along][number] + step
    other = np.trunc(low[edge, across][number] + slope[number] * step + 0.5).astype(np.int64)
    return np.where(steep[number], other, main), np.where(steep[number], main, other)


def _drop_empty_runs(places: Array) -> Array:
    """Drop pairs of equal places from ascending places: no pixel is between them."""
    values, counts = np.unique(places, return_counts=True)
    odd: Array = values[counts % 2 == 1]
    return odd
