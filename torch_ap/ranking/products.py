"""Scores of embeddings as inner products, tile by tile, and the threads that make and count them."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor

from torch_ap.ranking import order, tiles
from torch_ap.ranking.tiles import Pairs, PoolMap

_TILE = {"cpu": (256, 4096)}
_TILE_ON_DEVICE = (1024, 16384)
_TILES_AT_ONCE = 8  # rows of them, whose measures are then taken
_HALF = (torch.float16, torch.bfloat16)


class Relation(Protocol):
    """Which pairs are relevant, of queries and items in an order of its own.

    Attributes:
        query_order: (Q,) int64, the places of the queries, in that order.
        item_order: (G,) int64, the places of the items.
        most: the most items that are relevant to one query, or more.
    """

    query_order: Tensor
    item_order: Tensor
    most: int

    def pairs(self, rows: slice, columns: slice) -> Pairs | None:
        """As of ``tiles.Matrix``."""


class Products:
    """The scores of queries and items: inner products of their embeddings, tile by tile; see ``tiles.Matrix``.

    Embeddings are copied in the order of ``relation``, and padded with zeros to whole tiles, so that all products of a
    BLAS library have the same shape.

    Args:
        queries: (Q, d) floating.
        gallery: (G, d), of the same dtype.
        relation: which pairs are relevant.
        similarity: "euclidean" for scores that rank as distances do, q g - |g|^2 / 2; else q g.
    """

    def __init__(self, queries: Tensor, gallery: Tensor, relation: Relation, similarity: str) -> None:
        rows, columns = _TILE.get(queries.device.type, _TILE_ON_DEVICE)
        parts = max(1, -(-len(gallery) // columns))  # as wide as one another
        columns = _whole(max(1, -(-len(gallery) // parts)), tiles.WIDTH)
        self.most, self._relation = relation.most, relation
        self.shape, self.tile = (len(queries), len(gallery)), (rows, columns)
        self._queries = _ordered(queries, relation.query_order, rows)
        self._gallery = _ordered(gallery, relation.item_order, columns)
        self._offset = -(self._gallery**2).sum(1) / 2 if similarity == "euclidean" else None

    def scores(self, rows: slice, columns: slice) -> Tensor:
        """A tile."""
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
        """What is known of a tile."""
        return self._relation.pairs(rows, columns)


def _whole(size: int, part: int) -> int:
    return -(-size // part) * part


def _ordered(embeddings: Tensor, places: Tensor, part: int) -> Tensor:
    """The embeddings in that order, and zeros up to whole parts."""
    out = embeddings.new_zeros(_whole(len(places), part), embeddings.shape[1])
    out[: len(places)] = embeddings[places]
    return out


def spans(matrix: Products, room: int) -> list[slice]:
    """The rows of a matrix in spans of whole tiles, so many that what is known of their hits takes about that room."""
    every = slice(0, matrix.shape[0])
    return order.blocks(every, rows_at_once(matrix.most, room, matrix.tile[0])) or [every]


def rows_at_once(most: int, room: int, rows: int = _TILE["cpu"][0]) -> int:
    """How many rows, of at most so many hits each, make a span; at least those of one tile."""
    tiles_of_rows = room // (2 * tiles.BYTES_OF_A_HIT * max(1, most) * rows)
    return rows * max(1, min(tiles_of_rows, _TILES_AT_ONCE))


@contextmanager
def workers(threads: int) -> Generator[PoolMap, None, None]:
    """Threads that each call torch on their own, while torch's threads rest.

    They would be started for each of ours, and wait for their next work by spinning beside them.
    """
    given = torch.get_num_threads()
    alone = given > 1 and threads > 1
    with order.thread_pool(threads) as pool_map:
        try:
            if alone:
                torch.set_num_threads(1)
            yield pool_map
        finally:
            if alone:
                torch.set_num_threads(given)
