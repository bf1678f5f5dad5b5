"""Where the scores of a ranking tie, whatever is relevant."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ap.ranking import order, segments
from torch_ap.ranking.order import Array


class Ties(NamedTuple):
    """The tie groups of two items and more, by ranking, best score first.

    Attributes:
        items: (E,) int64 items of each.
        items_above: (E,) int64 items of its ranking above it.
        offsets: (S + 1,) int64, where the groups of each ranking begin and end.
        n: (S,) int64 items of each ranking, tied or not.
    """

    items: Tensor
    items_above: Tensor
    offsets: Tensor
    n: Tensor


def ties_of(scores: Tensor) -> Ties:
    """The ties of one ranking, or of one per column.

    Args:
        scores: (N,) or (N, C), any real dtype, no NaN.
    """
    columns = scores[:, None] if scores.ndim == 1 else scores
    first, last, groups = (_on_cpu if scores.device.type == "cpu" else _on_device)(columns)
    n = torch.full((columns.shape[1],), len(columns), device=scores.device)
    return Ties(last - first + 1, first, segments.from_counts(groups), n)


def _on_device(columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where the first and the last item of each group stand, best first; and the groups of each column."""
    ordered = torch.sort(order.keys(columns).t(), descending=True).values
    same = torch.zeros(len(ordered), len(columns) + 1, dtype=torch.bool, device=columns.device)
    torch.eq(ordered[:, 1:], ordered[:, :-1], out=same[:, 1:-1])
    column, edges = (same[:, 1:] != same[:, :-1]).nonzero().unbind(1)
    return edges[::2], edges[1::2], segments.count(column[::2], len(ordered))


def _on_cpu(columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`_on_device` by NumPy, a block of columns at a time in each thread."""
    given = order.sortable(columns)

    def block(span: slice) -> list[Array]:
        across = order.as_rows(given[:, span]).numpy()
        return [_edges(order.sort_in_place(column)) for column in across]

    tasks = order.blocks(slice(0, given.shape[1]), order.COLUMNS_A_TASK)
    edges = [one for part in order.in_threads(block, tasks, order.workers(given.numel())) for one in part]
    groups = torch.tensor([len(one) // 2 for one in edges], dtype=torch.int64)
    both = torch.from_numpy(np.concatenate([np.empty(0, np.int64), *edges]))
    return both[::2], both[1::2], groups


def _edges(ascending: Array) -> Array:
    """Of each run of equal values, the places of its first and last one, counted from the end."""
    same = np.zeros(len(ascending) + 1, bool)
    np.equal(ascending[1:], ascending[:-1], out=same[1:-1])
    edges: Array = len(ascending) - 1 - np.flatnonzero(same[1:] != same[:-1])[::-1]
    return edges
