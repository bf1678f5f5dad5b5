"""NumPy's pairwise sum of a long run of values from the sums of its parts, with the same bits.

``numpy.add.reduceat`` adds the first value of a run to the *pairwise* sum of the others. A pairwise sum adds up to 128
values in one order; a longer run is the sum of its first half, shortened to a multiple of 8, and of the rest, each
halved in turn. The sum of a run is therefore the sum of the parts after a few such halvings. The parts can be summed in
different processes or one after another. The tests compare the result with NumPy.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from torch_ap.core.ranking import segments
from torch_ap.core.ranking.order import Array

_UNSPLIT = 128  # longest run that NumPy adds without halving
_PART = 1 << 12  # largest part of a single run, in values


def halved(lengths: Array, halvings: int) -> Array:
    """Return the (S, 1 + 2^halvings) lengths of the parts of (S,) runs; the first part is the first value."""
    sizes = np.maximum(lengths - 1, 0)[:, None]
    for _ in range(halvings):
        half = sizes // 2
        left = np.where(sizes > _UNSPLIT, half - half % 8, sizes)
        sizes = np.stack([left, sizes - left], -1).reshape(len(sizes), -1)
    return np.concatenate([np.minimum(lengths, 1)[:, None], sizes], 1)


def sum_parts(values: Array, sizes: Array) -> Array:
    """Return NumPy's pairwise sum of each part; a 0 before each part makes ``reduceat`` add the whole part pairwise.

    Args:
        values: (E,) values of all parts.
        sizes: (P,) lengths of the parts.
    """
    starts = segments.from_counts(sizes)
    padded = np.insert(values, starts[:-1], 0.0)
    sums: Array = np.add.reduceat(padded, starts[:-1] + np.arange(len(sizes))) if len(sizes) else np.zeros(0)
    return sums


def join_sums(sums: Array) -> Array:
    """Return the (S,) sums of runs from the (S, 1 + 2^halvings) sums of the parts of :func:`halved`."""
    first, others = sums[:, 0], sums[:, 1:]
    while others.shape[1] > 1:
        others = others[:, ::2] + others[:, 1::2]
    joined: Array = first + others[:, 0]
    return joined


class Piece(NamedTuple):
    """A part of the values of one long run, reduced to the sums of the parts that are inside it.

    Attributes:
        first: place of the first value in the run.
        length: number of values.
        sums: sums of the parts of the run that are inside.
        rest: the values of the first and last part, which are partly outside.
    """

    first: int
    length: int
    sums: Array
    rest: Array


def reduce_piece(values: Array, first: int, total: int) -> Piece:
    """Return a piece of a run of ``total`` values, of which the (E,) float64 values begin at ``first``."""
    starts = _part_starts(total)
    inside = np.flatnonzero((starts[:-1] >= first) & (starts[1:] <= first + len(values)))
    if not len(inside):
        return Piece(first, len(values), np.zeros(0), values)
    begin, end = starts[inside[0]] - first, starts[inside[-1] + 1] - first
    sums = sum_parts(values[begin:end], np.diff(starts[inside[0] : inside[-1] + 2]))
    return Piece(first, len(values), sums, np.concatenate([values[:begin], values[end:]]))


def sum_pieces(pieces: Sequence[Piece], total: int) -> float:
    """Return the sum of a run of ``total`` values as ``numpy.add.reduceat`` adds them, from pieces in any order.

    Raises:
        ValueError: unless the pieces contain each value once.
    """
    pieces = sorted(pieces, key=lambda piece: piece[:2])
    ends = [0, *(x.first + x.length for x in pieces)]
    if [x.first for x in pieces] != ends[:-1] or ends[-1] != total:
        raise ValueError(f"the pieces must contain each of {total} values once, got pieces that end at {ends[1:]}")
    starts = _part_starts(total)
    sums, is_missing = np.zeros(len(starts) - 1), np.ones(len(starts) - 1, bool)
    for piece in pieces:
        place = int(np.searchsorted(starts[:-1], piece.first))
        sums[place : place + len(piece.sums)] = piece.sums
        is_missing[place : place + len(piece.sums)] = False
    rest = [x.rest for x in pieces]
    sums[is_missing] = sum_parts(np.concatenate([np.zeros(0), *rest]), np.diff(starts)[is_missing])
    return float(join_sums(sums[None])[0])


def _part_starts(total: int) -> Array:
    """Return the start and end of each part of a run of ``total`` values."""
    return segments.from_counts(halved(np.array([total]), (total // _PART).bit_length())[0])
