"""Hit curves of rankings whose scores are a matrix too large to hold: it is made tile by tile, and counted.

The relevant items of a row are few. Their scores are read first; then every tile says how many of its other items lie
above each of them. Counts of tiles add, in any order and wherever the tiles lie, so ranks may each count their own. A
score is read once, as that of a relevant item or as one of the others: nothing depends on a product that is made again
being the same to the last bit.

| relevant items of a row | how a tile is counted on CPU |
|---|---|
| few | each is compared with the whole row |
| more | the row is sorted by itself, and searched |
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import order, segments
from torch_ap.ranking.hit_curve import HitCurve
from torch_ap.ranking.order import Array

WIDTH = 1024  # columns of a tile are a multiple of it
BYTES_OF_A_HIT = 256  # in the arrays of one span
_FEW = 16  # relevant items whose comparisons take as long as a sort
_FEW_ON_DEVICE = 64
_TILES_SORTED_AT_ONCE = 16  # which are searched once for all
_ROWS_AT_ONCE = 16  # whose flags stay in cache
_WORDS = 128  # of eight flags: sums of up to 255 flags stay in their bytes

PoolMap: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]


class Pairs(NamedTuple):
    """The pairs of a tile that are relevant, and those that do not count.

    Attributes:
        row: (P,) int64, place in the tile.
        column: (P,) int64; no pair comes twice.
        relevant: (P,) bool; the others do not count.
    """

    row: Tensor
    column: Tensor
    relevant: Tensor


class Ranks(Protocol):
    """Processes that each have a part of the columns."""

    def gather_unequal(self, values: Tensor) -> Sequence[Tensor]:
        """(N,) values, of each rank any number, to those of each."""

    def sum(self, values: Tensor) -> Tensor:
        """The sum of each value over all ranks."""

    def attempt(self, work: Callable[..., Any], *args: Any) -> Any:
        """``work(*args)`` of each rank; an error of one is raised by all."""


class Matrix(Protocol):
    """Scores of queries, in rows, and items, in columns, which are made when they are asked for.

    Attributes:
        shape: queries and items.
        tile: rows and columns of a tile, the columns a multiple of ``WIDTH``.
    """

    shape: tuple[int, int]
    tile: tuple[int, int]

    def scores(self, rows: slice, columns: slice) -> Tensor:
        """A tile in new memory, at least the rows asked for: floats without NaN, -inf in columns that there are not."""

    def pairs(self, rows: slice, columns: slice) -> Pairs | None:
        """What is known of a tile; None where all its pairs count and none is relevant."""


def curve_of(matrix: Matrix, span: slice, pool_map: PoolMap, room: int = 0, ranks: "Ranks | None" = None) -> HitCurve:
    """The hit curves of some rows, which should be a multiple of a tile's.

    Args:
        matrix: of all rows.
        span: the rows meant.
        pool_map: where the work is done.
        room: bytes of tiles that each thread may keep from reading relevant items to counting others.
        ranks: where each has columns of its own, and all have the same rows: all of them call it, and get the curves of
            all columns.
    """
    blocks = [_Rows(matrix, rows, 0 if ranks else room) for rows in order.blocks(span, matrix.tile[0]) or [span]]
    if ranks is None:
        return _curve(*_end_to_end(pool_map(_Rows.counted, blocks)))
    found, m, n = ranks.attempt(lambda: _end_to_end(pool_map(_Rows.hits, blocks)))
    everywhere = ranks.gather_unequal(found.t())

    def counted() -> tuple[Tensor, list[Tensor]]:
        scores = torch.cat([*everywhere]).t().sort(1, descending=True).values
        wanted = zip(blocks, torch.split(scores, matrix.tile[0]), strict=True)
        return scores, _end_to_end(pool_map(lambda pair: pair[0].misses(pair[1]), wanted))

    scores, counts = ranks.attempt(counted)
    return _curve(scores, *(ranks.sum(x) for x in (m, n, *counts)))


def _end_to_end(parts: Sequence[tuple[Tensor, ...]]) -> list[Tensor]:
    """Each column of all parts; those of (b, M) are made as wide as the widest."""
    widest = max(part[0].shape[1] for part in parts)

    def widened(values: Tensor) -> Tensor:
        if values.ndim == 1 or values.shape[1] == widest:
            return values
        blank = -torch.inf if values.is_floating_point() else 0
        return torch.nn.functional.pad(values, (0, widest - values.shape[1]), value=blank)

    return [torch.cat([widened(x) for x in column]) for column in zip(*parts, strict=True)]


class _Rows:
    """Some rows of a matrix, at most as many as a tile has; ``room`` bytes of tiles are kept for the second pass."""

    def __init__(self, matrix: Matrix, rows: slice, room: int) -> None:
        self._matrix, self._rows, self._room = matrix, rows, room
        self._columns = order.blocks(slice(0, matrix.shape[1]), matrix.tile[1])
        self._kept: dict[int, Tensor] = {}

    def hits(self) -> tuple[Tensor, Tensor, Tensor]:
        """(b, M) the scores of the relevant items, descending, then -inf; (b,) how many; (b,) how many items count."""
        size, known, scores = self._rows.stop - self._rows.start, [], []
        for columns in self._columns:
            pairs = self._matrix.pairs(self._rows, columns)
            if pairs is None:
                continue
            tile = self._matrix.scores(self._rows, columns)
            known.append(pairs)
            scores.append(tile[pairs.row, pairs.column])
            if tile.nbytes <= self._room:
                self._room -= tile.nbytes
                self._kept[columns.start] = _without(tile, pairs)
        if not known:
            empty = self._matrix.scores(self._rows, slice(0, 0))[:size, :0]
            none = torch.zeros(size, dtype=torch.int64, device=empty.device)
            return empty, none, none + self._matrix.shape[1]
        row, relevant = torch.cat([pairs.row for pairs in known]), torch.cat([pairs.relevant for pairs in known])
        n = self._matrix.shape[1] - segments.count(row[~relevant], size)
        row = row[relevant]
        m = segments.count(row, size)
        return _in_rows(torch.cat(scores)[relevant], row, m), m, n

    def counted(self) -> tuple[Tensor, ...]:
        """What :meth:`hits` and then :meth:`misses` of their scores give."""
        found = self.hits()
        return *found, *self.misses(found[0])

    def misses(self, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """How many items that count and are not relevant score above, and as, (b, M) wanted scores: int64."""
        above = torch.zeros(wanted.shape, dtype=torch.int64, device=wanted.device)
        at_least = torch.zeros_like(above)
        together = 1 if wanted.shape[1] <= _FEW else _TILES_SORTED_AT_ONCE
        for start in range(0, len(self._columns) if wanted.shape[1] else 0, together):
            parts = [self._misses(columns)[: len(wanted)] for columns in self._columns[start : start + together]]
            counts = _counts(parts[0] if len(parts) == 1 else torch.cat(parts, 1), wanted)
            above += counts[0]
            at_least += counts[1]
        return above, at_least - above

    def _misses(self, columns: slice) -> Tensor:
        """A tile, in which what is relevant or does not count stands below all others."""
        tile = self._kept.pop(columns.start, None)
        if tile is not None:
            return tile
        tile, pairs = self._matrix.scores(self._rows, columns), self._matrix.pairs(self._rows, columns)
        return tile if pairs is None else _without(tile, pairs)


def _without(tile: Tensor, pairs: Pairs) -> Tensor:
    """The tile, in which these pairs stand below all others."""
    tile[pairs.row, pairs.column] = -torch.inf
    return tile


def _in_rows(scores: Tensor, row: Tensor, m: Tensor) -> Tensor:
    """(b, M) the scores of each row, descending, then -inf."""
    place = order.stable_argsort(row, max(len(m), 1))
    row, scores = row[place], scores[place]
    out = scores.new_full((len(m), int(m.max())), -torch.inf)
    out[row, torch.arange(len(row), device=row.device) - segments.from_counts(m)[row]] = scores
    return out.sort(1, descending=True).values


def _counts(tile: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """How many scores of each row are above, and how many at least, what is wanted: (b, M) int64. Writes into the tile.

    Args:
        tile: (b, W).
        wanted: (b, M) descending.
    """
    if not tile.is_cpu:
        return _counts_on_device(tile, wanted)
    count = _by_comparing if wanted.shape[1] <= _FEW else _by_sorting
    above, at_least = count(tile.numpy(), wanted.numpy())
    return torch.from_numpy(above), torch.from_numpy(at_least)


def _by_comparing(tile: Array, wanted: Array) -> Array:
    out = np.empty((2, *wanted.shape), np.int64)
    flags = np.empty((_ROWS_AT_ONCE, wanted.shape[1], tile.shape[1]), bool)
    for rows in order.blocks(slice(0, len(tile)), _ROWS_AT_ONCE):
        now = flags[: rows.stop - rows.start]
        for place, compare in enumerate((np.greater, np.greater_equal)):
            compare(tile[rows, None], wanted[rows, :, None], out=now)
            words = now.view(np.int64).reshape(*now.shape[:2], -1, _WORDS).sum(-1)
            words.view(np.uint8).sum(-1, dtype=np.int64, out=out[place, rows])
    return out


def _by_sorting(tile: Array, wanted: Array) -> Array:
    tile.sort(axis=-1)
    return _by_searching(torch.from_numpy(tile), torch.from_numpy(wanted).contiguous()).numpy()


def _by_searching(ascending: Tensor, wanted: Tensor) -> Tensor:
    """The same of rows that are sorted: (2, b, M)."""
    below = torch.searchsorted(ascending, wanted)
    at_or_below = below
    if bool((ascending.gather(1, below.clamp(max=ascending.shape[1] - 1)) == wanted).any()):
        at_or_below = torch.searchsorted(ascending, wanted, right=True)
    return ascending.shape[1] - torch.stack([at_or_below, below])


def _counts_on_device(tile: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    if wanted.shape[1] > _FEW_ON_DEVICE:
        above, at_least = _by_searching(tile.sort(1).values, wanted.contiguous())
        return above, at_least
    each = wanted.t()[:, :, None]
    return torch.stack([(tile > one).sum(1) for one in each], 1), torch.stack([(tile >= one).sum(1) for one in each], 1)


def _curve(scores: Tensor, m: Tensor, n: Tensor, above: Tensor, level: Tensor) -> HitCurve:
    """The curves of rows whose misses above and level with each hit are known; all of (R, M), but m and n."""
    place = torch.arange(scores.shape[1], device=scores.device)
    real = place < m[:, None]
    first = real.clone()
    first[:, 1:] &= scores[:, 1:] != scores[:, :-1]
    row, column = first.nonzero().unbind(1)
    start = segments.from_counts(m)[row] + column
    hits = torch.cat([start, m.sum()[None]]).diff()
    above = above[row, column]
    # below a hit of -inf there is nothing, and pairs that do not count stand there too
    level = torch.minimum(level[row, column], (n - m)[row] - above)
    return HitCurve(
        hits=hits,
        items=hits + level,
        hits_above=column,
        items_above=column + above,
        score=scores[row, column],
        offsets=segments.from_counts(first.sum(1)),
        n=n,
        m=m,
    )
