"""Scores of embeddings as inner products, tile by tile, and the threads that compute and count them.

Hit curves of rankings whose score matrix does not fit in memory: the matrix is computed and counted tile by tile.

If the relevant items of a row are few, their scores are read first; then the other items of each tile are counted above
each of these scores. Counts of tiles are added in any order, so each process can count its own tiles. Each score is
read only once, as the score of a relevant item or of another item. No result therefore depends on a product being
reproducible to the last bit.

| relevant items of a row | count on CPU |
|---|---|
| few | each is compared with the whole row of a tile |
| more | the row of a tile is sorted by itself, and searched |
| at least one of 32, in one process | the whole row is sorted with the relevance of its items |
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.ranking import hit_curve, many_rankings, order, segments
from torch_ap.core.ranking.hit_curve import HitCurve
from torch_ap.core.ranking.order import Array

WIDTH = 1024  # the number of columns of a tile is a multiple of WIDTH
BYTES_OF_A_HIT = 256  # in the arrays of one span
_MAX_COMPARED = 16  # relevant items; comparing more takes longer than a sort
_MAX_COMPARED_ON_DEVICE = 64
_SORTED_SHARE = 1 / 32  # relevant or ignored pairs; from this share on, sorting whole rows is faster in as much memory
_TILES_SORTED_AT_ONCE = 16  # with one search for all of them
_ROWS_AT_ONCE = 16  # rows whose flags stay in cache
_WORDS = 128  # words of eight flags: sums of up to 255 flags stay in their bytes

PoolMap: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]


class Pairs(NamedTuple):
    """The relevant pairs and the ignored pairs of a tile.

    Attributes:
        row: (P,) int64, index in the tile.
        column: (P,) int64; no pair occurs twice.
        relevant: (P,) bool; the other pairs are ignored.
    """

    row: Tensor
    column: Tensor
    relevant: Tensor


class TileRanks(Protocol):
    """Processes that each have a part of the columns."""

    def gather_unequal(self, values: Tensor) -> Sequence[Tensor]:
        """Gather (N,) values from each process, where N differs between processes."""

    def sum(self, values: Tensor) -> Tensor:
        """Return the elementwise sum over all processes."""

    def highest(self, values: Tensor) -> Tensor:
        """Return the greatest of each value over all processes."""

    def attempt(self, work: Callable[..., Any], *args: Any) -> Any:
        """Return ``work(*args)`` of each process; an error in one process is raised in all."""


class Matrix(Protocol):
    """Scores of queries, in rows, and items, in columns, computed on demand.

    Attributes:
        shape: queries and items.
        tile: rows and columns of a tile, the columns a multiple of ``WIDTH``.
    """

    shape: tuple[int, int]
    tile: tuple[int, int]

    def scores(self, rows: slice, columns: slice) -> Tensor:
        """Return a tile in new memory with at least the requested rows.

        The scores are floats without NaN, and -inf in columns outside the matrix.
        """

    def pairs(self, rows: slice, columns: slice) -> Pairs | None:
        """Return the relevant and ignored pairs of a tile; None if there are no such pairs."""


def curve_from_tiles(
    matrix: Matrix, span: slice, pool_map: PoolMap, room: int = 0, ranks: "TileRanks | None" = None
) -> HitCurve:
    """Return the hit curves of some rows; their number should be a multiple of the rows of a tile.

    Args:
        matrix: the scores of all rows.
        span: the rows to rank.
        pool_map: runs a function over parts, on threads.
        room: bytes of tiles that each thread may keep from the first pass (relevant items) to the second (other items).
        ranks: the processes, if each has some of the columns and all have the same rows. All processes call the
            function, and get the curves of all columns.
    """
    blocks = [_Rows(matrix, rows, 0 if ranks else room) for rows in order.blocks(span, matrix.tile[0]) or [span]]
    if ranks is None:
        return hit_curve.join(pool_map(_Rows.curve, blocks))
    hit_scores, m, n = ranks.attempt(lambda: _concatenate_columns(pool_map(_Rows.hits, blocks)))
    gathered = ranks.gather_unequal(hit_scores.t())

    def count_misses() -> tuple[Tensor, list[Tensor]]:
        scores = torch.cat([*gathered]).t().sort(1, descending=True).values
        wanted = zip(blocks, torch.split(scores, matrix.tile[0]), strict=True)
        return scores, _concatenate_columns(pool_map(lambda pair: pair[0].misses(pair[1]), wanted))

    scores, counts = ranks.attempt(count_misses)
    return _curve(scores, *(ranks.sum(x) for x in (m, n, *counts)))


def _concatenate_columns(parts: Sequence[tuple[Tensor, ...]]) -> list[Tensor]:
    """Concatenate each column of all parts; (b, M) values are padded to the largest width."""
    widest = max(part[0].shape[1] for part in parts)

    def padded(values: Tensor) -> Tensor:
        if values.ndim == 1 or values.shape[1] == widest:
            return values
        fill = -torch.inf if values.is_floating_point() else 0
        return torch.nn.functional.pad(values, (0, widest - values.shape[1]), value=fill)

    return [torch.cat([padded(x) for x in column]) for column in zip(*parts, strict=True)]


class _Rows:
    """Rows of a matrix, at most as many as a tile has; ``room`` bytes of tiles are kept for the second pass."""

    def __init__(self, matrix: Matrix, rows: slice, room: int) -> None:
        self._matrix, self._rows, self._room = matrix, rows, room
        self._columns = order.blocks(slice(0, matrix.shape[1]), matrix.tile[1])
        self._stored_tiles: dict[int, Tensor] = {}

    @cached_property
    def _pairs(self) -> list[Pairs | None]:
        """The pairs of each tile."""
        return [self._matrix.pairs(self._rows, columns) for columns in self._columns]

    def curve(self) -> HitCurve:
        """Return the hit curves of the rows."""
        pairs = [x for x in self._pairs if x is not None]
        items = (self._rows.stop - self._rows.start) * self._matrix.shape[1]
        if pairs and pairs[0].row.is_cpu and sum(len(x.row) for x in pairs) >= _SORTED_SHARE * items:
            return self._sorted_curve()
        hits = self.hits()
        return _curve(*hits, *self.misses(hits[0]))

    def _sorted_curve(self) -> HitCurve:
        """Return the hit curves by sorting the whole rows; ignored items are last, beyond the length of their row."""
        size, width = self._rows.stop - self._rows.start, self._matrix.shape[1]
        tiles = [self._matrix.scores(self._rows, columns)[:size].numpy() for columns in self._columns]
        parts = [tile[:, : span.stop - span.start] for tile, span in zip(tiles, self._columns, strict=True)]
        scores = np.concatenate(parts, 1)
        flags, lowest, ignored = np.zeros(scores.size, bool), scores.min(), np.zeros(size, np.int64)
        for columns, pairs in zip(self._columns, self._pairs, strict=True):
            if pairs is None:
                continue
            places, relevant = (pairs.row * width + (pairs.column + columns.start)).numpy(), pairs.relevant.numpy()
            flags[places] = relevant
            others = np.flatnonzero(~relevant)
            scores.reshape(-1)[places[others]] = lowest
            ignored += np.bincount(pairs.row.numpy()[others], minlength=size)
        hits = torch.from_numpy(flags).view(size, width)
        return many_rankings.from_table(torch.from_numpy(scores), hits, width - ignored)

    def hits(self) -> tuple[Tensor, Tensor, Tensor]:
        """Read the relevant items.

        Returns:
            (b, M) scores of the relevant items, descending, then -inf; (b,) number of relevant items; (b,) number of
            items that are not ignored.
        """
        size, pairs_of_tiles, scores = self._rows.stop - self._rows.start, [], []
        for columns, pairs in zip(self._columns, self._pairs, strict=True):
            if pairs is None:
                continue
            tile = self._matrix.scores(self._rows, columns)
            pairs_of_tiles.append(pairs)
            scores.append(tile[pairs.row, pairs.column])
            if tile.nbytes <= self._room:
                self._room -= tile.nbytes
                self._stored_tiles[columns.start] = _mask_pairs(tile, pairs)
        if not pairs_of_tiles:
            empty = self._matrix.scores(self._rows, slice(0, 0))[:size, :0]
            zeros = torch.zeros(size, dtype=torch.int64, device=empty.device)
            return empty, zeros, zeros + self._matrix.shape[1]
        row, relevant = (torch.cat([getattr(x, name) for x in pairs_of_tiles]) for name in ("row", "relevant"))
        n = self._matrix.shape[1] - segments.count(row[~relevant], size)
        row = row[relevant]
        m = segments.count(row, size)
        return _as_rows(torch.cat(scores)[relevant], row, m), m, n

    def misses(self, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """Count the items that are neither relevant nor ignored above, and tied with, (b, M) wanted scores: int64."""
        above = torch.zeros(wanted.shape, dtype=torch.int64, device=wanted.device)
        at_least = torch.zeros_like(above)
        batch_size = 1 if wanted.shape[1] <= _MAX_COMPARED else _TILES_SORTED_AT_ONCE
        tiles = list(zip(self._columns, self._pairs, strict=True)) if wanted.shape[1] else []
        for batch in order.blocks(slice(0, len(tiles)), batch_size):
            parts = [self._misses(*tile)[: len(wanted)] for tile in tiles[batch]]
            counts = _count_at_scores(parts[0] if len(parts) == 1 else torch.cat(parts, 1), wanted)
            above += counts[0]
            at_least += counts[1]
        return above, at_least - above

    def _misses(self, columns: slice, pairs: Pairs | None) -> Tensor:
        """Return a tile with -inf for the pairs that are relevant or ignored."""
        tile = self._stored_tiles.pop(columns.start, None)
        if tile is not None:
            return tile
        tile = self._matrix.scores(self._rows, columns)
        return tile if pairs is None else _mask_pairs(tile, pairs)


def _mask_pairs(tile: Tensor, pairs: Pairs) -> Tensor:
    """Set the scores of the pairs to -inf."""
    tile[pairs.row, pairs.column] = -torch.inf
    return tile


def _as_rows(scores: Tensor, row: Tensor, m: Tensor) -> Tensor:
    """Return the (b, M) scores of each row, descending, then -inf."""
    place = order.stable_argsort(row, max(len(m), 1))
    row, scores = row[place], scores[place]
    out = scores.new_full((len(m), int(m.max())), -torch.inf)
    out[row, torch.arange(len(row), device=row.device) - segments.from_counts(m)[row]] = scores
    return out.sort(1, descending=True).values


def _count_at_scores(tile: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Count the scores of each row above, and at or above, each wanted score: (b, M) int64. Overwrites the tile.

    Args:
        tile: (b, W).
        wanted: (b, M) descending.
    """
    if not tile.is_cpu:
        return _count_on_device(tile, wanted)
    count = _count_by_comparing if wanted.shape[1] <= _MAX_COMPARED else _count_by_sorting
    above, at_least = count(tile.numpy(), wanted.numpy())
    return torch.from_numpy(above), torch.from_numpy(at_least)


def _count_by_comparing(tile: Array, wanted: Array) -> Array:
    out = np.empty((2, *wanted.shape), np.int64)
    flags = np.empty((_ROWS_AT_ONCE, wanted.shape[1], tile.shape[1]), bool)
    for rows in order.blocks(slice(0, len(tile)), _ROWS_AT_ONCE):
        block_flags = flags[: rows.stop - rows.start]
        for place, compare in enumerate((np.greater, np.greater_equal)):
            compare(tile[rows, None], wanted[rows, :, None], out=block_flags)
            words = block_flags.view(np.int64).reshape(*block_flags.shape[:2], -1, _WORDS).sum(-1)
            words.view(np.uint8).sum(-1, dtype=np.int64, out=out[place, rows])
    return out


def _count_by_sorting(tile: Array, wanted: Array) -> Array:
    tile.sort(axis=-1)
    return _count_by_searching(torch.from_numpy(tile), torch.from_numpy(wanted).contiguous()).numpy()


def _count_by_searching(ascending: Tensor, wanted: Tensor) -> Tensor:
    """Count as :func:`_count_at_scores` in sorted rows, (2, b, M)."""
    below = torch.searchsorted(ascending, wanted)
    at_or_below = below
    if bool((ascending.gather(1, below.clamp(max=ascending.shape[1] - 1)) == wanted).any()):
        at_or_below = torch.searchsorted(ascending, wanted, right=True)
    return ascending.shape[1] - torch.stack([at_or_below, below])


def _count_on_device(tile: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    if wanted.shape[1] > _MAX_COMPARED_ON_DEVICE:
        above, at_least = _count_by_searching(tile.sort(1).values, wanted.contiguous())
        return above, at_least
    columns = wanted.t()[:, :, None]
    above, at_least = ([compare(tile, x).sum(1) for x in columns] for compare in (torch.gt, torch.ge))
    return torch.stack(above, 1), torch.stack(at_least, 1)


def _curve(scores: Tensor, m: Tensor, n: Tensor, above: Tensor, tied: Tensor) -> HitCurve:
    """Build the hit curves of rows from the misses above and tied with each hit; all (R, M) except m and n."""
    place = torch.arange(scores.shape[1], device=scores.device)
    is_hit = place < m[:, None]
    is_first = is_hit.clone()
    is_first[:, 1:] &= scores[:, 1:] != scores[:, :-1]
    row, column = is_first.nonzero().unbind(1)
    start = segments.from_counts(m)[row] + column
    hits = torch.cat([start, m.sum()[None]]).diff()
    above = above[row, column]
    # no item ranks below a hit of -inf, but ignored pairs have that score too
    tied = torch.minimum(tied[row, column], (n - m)[row] - above)
    return HitCurve(
        hits=hits,
        items=hits + tied,
        hits_above=column,
        items_above=column + above,
        score=scores[row, column],
        offsets=segments.from_counts(is_first.sum(1)),
        n=n,
        m=m,
    )


_TILE = {"cpu": (256, 4096)}  # rows and columns
_TILE_ON_DEVICE = (1024, 16384)
_TILES_AT_ONCE = 8  # maximum number of rows of tiles in a span
_HALF = (torch.float16, torch.bfloat16)


class Relation(Protocol):
    """Relevant pairs of queries and items, in an order chosen by the relation.

    Attributes:
        query_order: (Q,) int64, the indices of the queries in that order.
        item_order: (G,) int64, the indices of the items in that order.
        most: an upper bound of the number of relevant items of one query.
    """

    query_order: Tensor
    item_order: Tensor
    most: int

    def pairs(self, rows: slice, columns: slice) -> Pairs | None:
        """Return the pairs of a tile, as ``tiles.Matrix.pairs``."""


class Products:
    """Scores of queries and items: inner products of their embeddings, tile by tile; see ``tiles.Matrix``.

    Embeddings are copied in the order of ``relation`` and padded with zeros to whole tiles, so that all products of a
    BLAS library have the same shape.

    Args:
        queries: (Q, d) floating.
        gallery: (G, d), of the same dtype.
        relation: the relevant pairs.
        similarity: "euclidean" for scores in the order of negative distances, q g - |g|^2 / 2; else q g.
    """

    def __init__(self, queries: Tensor, gallery: Tensor, relation: Relation, similarity: str) -> None:
        rows, columns = _TILE.get(queries.device.type, _TILE_ON_DEVICE)
        parts = max(1, -(-len(gallery) // columns))  # of equal width
        columns = _round_up(max(1, -(-len(gallery) // parts)), WIDTH)
        self.most, self._relation = relation.most, relation
        self.shape, self.tile = (len(queries), len(gallery)), (rows, columns)
        self._queries = _reorder(queries, relation.query_order, rows)
        self._gallery = _reorder(gallery, relation.item_order, columns)
        self._offset = -(self._gallery**2).sum(1) / 2 if similarity == "euclidean" else None

    def scores(self, rows: slice, columns: slice) -> Tensor:
        """Return the scores of a tile."""
        height, width = self.tile
        queries = self._queries[rows.start : rows.start + height]
        gallery = self._gallery[columns.start : columns.start + width].t()
        if self._offset is None:
            tile = queries @ gallery
        else:
            tile = torch.addmm(self._offset[columns.start : columns.start + width], queries, gallery)
        tile[:, columns.stop - columns.start :] = -torch.inf
        return tile.float() if tile.dtype in _HALF else tile

    def pairs(self, rows: slice, columns: slice) -> Pairs | None:
        """Return the pairs of a tile."""
        return self._relation.pairs(rows, columns)


def _round_up(size: int, part: int) -> int:
    return -(-size // part) * part


def _reorder(embeddings: Tensor, places: Tensor, part: int) -> Tensor:
    """Return the embeddings in the given order, padded with zeros to a multiple of ``part``."""
    out = embeddings.new_zeros(_round_up(len(places), part), embeddings.shape[1])
    out[: len(places)] = embeddings[places]
    return out


def spans(matrix: Products, room: int) -> list[slice]:
    """Split the rows of a matrix into spans of whole tiles, whose hits need about ``room`` bytes."""
    all_rows = slice(0, matrix.shape[0])
    return order.blocks(all_rows, rows_at_once(matrix.most, room, matrix.tile[0])) or [all_rows]


def rows_at_once(most: int, room: int, rows: int = _TILE["cpu"][0]) -> int:
    """Return the number of rows of a span, each with at most ``most`` hits; at least the rows of one tile."""
    tiles_of_rows = room // (2 * BYTES_OF_A_HIT * max(1, most) * rows)
    return rows * max(1, min(tiles_of_rows, _TILES_AT_ONCE))
