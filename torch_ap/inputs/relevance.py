"""Which items are relevant to which queries, by their labels, told for a tile of all pairs at a time."""

from collections.abc import Callable

import torch
from torch import Tensor

from torch_ap.ranking import segments
from torch_ap.ranking.tiles import Pairs
from torch_ap.rules import tensors
from torch_ap.rules.messages import refuse

Relevance = Callable[[Tensor, Tensor], Tensor]


class ByLabel:
    """Relevant is what has the query's label; what has its group too does not count, nor does the query itself.

    In the order of this object what a query's label has in common with items is a run of columns, and so is the part of
    its group.

    Args:
        queries: (Q,) int64 labels, and (Q,) int64 groups or None.
        gallery: (G,) labels, and groups, likewise.
        own: (Q,) int64, which item the query itself is, -1 for none; None where that is so for all.
        query_order: (Q,) int64, a wanted order of the queries; None for that of their labels, rare ones first.

    Attributes:
        query_order: (Q,) the places of the queries, in order.
        item_order: (G,) the places of the items, in order.
        most: the most items that have one query's label.
    """

    def __init__(
        self,
        queries: tuple[Tensor, Tensor | None],
        gallery: tuple[Tensor, Tensor | None],
        own: Tensor | None = None,
        query_order: Tensor | None = None,
    ) -> None:
        label, item_key = _by_frequency(queries[0], gallery[0])
        query_key, count = label, 1
        if queries[1] is not None and gallery[1] is not None:
            names, group = torch.unique(torch.cat([queries[1], gallery[1]]), return_inverse=True)
            count = len(names)
            query_key, item_key = query_key * count + group[: len(label)], item_key * count + group[len(label) :]
        self.query_order = torch.argsort(query_key, stable=True) if query_order is None else query_order
        self.item_order = torch.argsort(item_key, stable=True)
        ordered, wanted, label = item_key[self.item_order], query_key[self.query_order], label[self.query_order]
        first, last = (torch.searchsorted(ordered, (label + one) * count) for one in (0, 1))
        self._first, self._last = (x.masked_fill(label < 0, 0) for x in (first, last))
        ends = (torch.searchsorted(ordered, wanted, right=right) for right in (False, True))
        self._junk = None if queries[1] is None else tuple(ends)
        self._own = None if own is None else _places_of(own[self.query_order], self.item_order)
        self.most = int((self._last - self._first).max()) if len(label) else 0

    def pairs(self, rows: slice, columns: slice) -> Pairs | None:
        """The pairs of one label in a tile."""
        first = self._first[rows].clamp(min=columns.start, max=columns.stop)
        counts = self._last[rows].clamp(min=columns.start, max=columns.stop) - first
        total = int(counts.sum())
        if not total:
            return None
        row = segments.repeat(torch.arange(len(counts), device=counts.device), counts)
        column = torch.arange(total, device=row.device) - (segments.from_counts(counts)[:-1] - first)[row]
        relevant = torch.ones_like(row, dtype=torch.bool)
        if self._junk is not None:
            relevant &= (column < self._junk[0][rows][row]) | (column >= self._junk[1][rows][row])
        if self._own is not None:
            relevant &= column != self._own[rows][row]
        return Pairs(row, column - columns.start, relevant)


def _by_frequency(queries: Tensor, gallery: Tensor) -> tuple[Tensor, Tensor]:
    """The place of each label among those of the gallery, rare ones first; -1 where the gallery has none such."""
    known, item, sizes = torch.unique(gallery, return_inverse=True, return_counts=True)
    rank = torch.argsort(torch.argsort(sizes, stable=True))
    if not len(known):
        return torch.full_like(queries, -1), item
    place = torch.searchsorted(known, queries).clamp(max=len(known) - 1)
    return torch.where(known[place] == queries, rank[place], -1), rank[item]


def _places_of(items: Tensor, order: Tensor) -> Tensor:
    """Where items come in an order; -1 stays."""
    place = torch.argsort(order)
    return torch.where(items >= 0, place[items], -1) if len(order) else items


class ByFunction:
    """Relevant is what a caller's function says, of the labels of some queries and of some items.

    Args:
        function: (b, ...) and (g, ...) labels to (b, g): bool, or numbers, above 0 for relevant, below 0 for pairs
            that do not count.
        queries: (Q, ...) labels.
        gallery: (G, ...) labels.
        own: as of :class:`ByLabel`.
    """

    def __init__(self, function: Relevance, queries: Tensor, gallery: Tensor, own: Tensor | None = None) -> None:
        self._function, self._queries, self._gallery, self._own = function, queries, gallery, own
        self.query_order, self.item_order = (torch.arange(len(x), device=x.device) for x in (queries, gallery))
        self.most = len(gallery)

    def pairs(self, rows: slice, columns: slice) -> Pairs | None:
        """The pairs of a tile that are not plainly irrelevant."""
        queries, gallery = self._queries[rows], self._gallery[columns]
        if not len(queries):
            return None
        given = self._function(queries, gallery)
        wanted = (len(queries), len(gallery))
        rule = f"must return a tensor of shape {wanted} for labels of {wanted[0]} queries and {wanted[1]} items"
        tensors.returned("relevance", rule, given, wanted)
        if given.is_floating_point() and bool(torch.isnan(given).any()):
            refuse("relevance", "must return no NaN", given)
        counted = given != 0
        if self._own is not None:
            own = self._own[rows]
            inside = ((own >= columns.start) & (own < columns.stop)).nonzero().squeeze(1)
            given, counted = given.clone(), counted.clone()
            given[inside, own[inside] - columns.start] = 0
            counted[inside, own[inside] - columns.start] = True
        row, column = counted.nonzero().unbind(1)
        return Pairs(row, column, given[row, column] > 0) if len(row) else None
