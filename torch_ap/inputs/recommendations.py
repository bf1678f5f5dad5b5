"""Validation of recommendations: what users like, what they have seen, and scores made for some users at a time."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_ap.ranking import segments, tiles
from torch_ap.ranking.tiles import Pairs
from torch_ap.rules import tensors
from torch_ap.rules.messages import Plain, refuse

_BYTES_OF_A_TILE = 1 << 24
_MOST_ROWS = 256
_EXACT = 1 << 53  # whole numbers that float64 tells apart


class Lists:
    """Items of users, end to end: those of user u are ``items[offsets[u] : offsets[u + 1]]``."""

    def __init__(self, offsets: Tensor, items: Tensor) -> None:
        self.offsets, self.items = offsets, items

    @property
    def users(self) -> int:
        """How many there are."""
        return len(self.offsets) - 1

    def pairs(self, rows: slice) -> tuple[Tensor, Tensor]:
        """The row, from 0, and the item of each pair of some users."""
        first, last = (int(x) for x in self.offsets[[rows.start, rows.stop]])
        return segments.ids(self.offsets[rows.start : rows.stop + 1] - first), self.items[first:last]


def lists(name: str, value: Any, columns: int, *, one_each: bool = False) -> Lists:
    """(U, columns) bool, or (offsets, items) as of a sparse matrix by rows; ``one_each``: or (U,), an item each."""
    if isinstance(value, tuple | list) and len(value) == 2:
        offsets, items = value
        for part in (offsets, items):
            tensors.tensor(name, part)
            tensors.integers(name, part)
        rule = "as (offsets, items) must have offsets that rise from 0 to the number of items"
        if offsets.ndim != 1 or items.ndim != 1 or not len(offsets):
            refuse(name, f"{rule}, both 1-D", Plain(f"shapes {tuple(offsets.shape)} and {tuple(items.shape)}"))
        offsets = offsets.long()  # differences of unsigned ones are never negative
        falls = (offsets.diff() < 0).nonzero().flatten().tolist()
        if falls:
            refuse(name, rule, Plain(f"{int(offsets[falls[0]])}, then {int(offsets[falls[0] + 1])}"))
        ends = int(offsets[0]), int(offsets[-1])
        if ends != (0, len(items)):
            refuse(name, rule, Plain(f"offsets from {ends[0]} to {ends[1]}, {len(items)} items"))
        return Lists(offsets, items.long())
    tensors.tensor(name, value, hint=" or a pair (offsets, items)")
    if one_each and value.ndim == 1 and value.dtype != torch.bool:
        tensors.integers(name, value)
        return Lists(torch.arange(len(value) + 1, device=value.device), value.long())
    if value.ndim != 2 or value.dtype != torch.bool:
        forms = "(U,) integers, (U, I) bool" if one_each else "(U, I) bool"
        refuse(name, f"must be {forms} or a pair (offsets, items)", Plain(f"shape {tuple(value.shape)}, {value.dtype}"))
    if value.shape[1] != columns:
        refuse(name, f"must have a column for each of {columns} items", Plain(f"shape {tuple(value.shape)}"))
    return Lists(segments.from_counts(value.sum(1)), value.nonzero()[:, 1])


class UserScores:
    """Scores of users, in rows, and items, in columns; see ``tiles.Matrix``. A tile is as wide as all items.

    Args:
        scores: (U, I), or a function of (b,) users that gives (b, I).
        items: I.
        target: what is relevant.
        seen: what does not count; None for nothing.
    """

    def __init__(
        self, scores: Tensor | Callable[[Tensor], Tensor], items: int, target: Lists, seen: Lists | None
    ) -> None:
        width = -(-items // tiles.WIDTH) * tiles.WIDTH
        self.shape = (target.users, items)
        self.tile = (max(1, min(_MOST_ROWS, _BYTES_OF_A_TILE // (4 * width))), width)
        self._scores, self._target, self._seen = scores, target, seen

    def scores(self, rows: slice, columns: slice) -> Tensor:  # noqa: ARG002 - there is one tile of columns
        """A tile of checked scores."""
        device = self._target.items.device
        if callable(self._scores):
            given = self._scores(torch.arange(rows.start, rows.stop, device=device))
        else:
            given = self._scores[rows]
        tensors.scores("scores", given)
        wanted = torch.Size([rows.stop - rows.start, self.shape[1]])
        tensors.shape("scores", given, [wanted], " for these users")
        if given.dtype == torch.int64 and bool((far := (given < -_EXACT) | (given > _EXACT)).any()):
            row, item = far.nonzero()[0].tolist()
            who = Plain(f"{int(given[row, item])} of user {rows.start + row}, item {item}")
            refuse("scores", "of int64 must lie within 2^53, up to which float64 tells them apart", who)
        wide = given.dtype if given.dtype in (torch.float32, torch.float64) else torch.float32
        given = given.detach().to(torch.float64 if given.dtype in (torch.int32, torch.int64) else wide)
        if bool((nan := torch.isnan(given)).any()):
            row, item = nan.nonzero()[0].tolist()
            refuse("scores", "must not hold NaN", Plain(f"NaN of user {rows.start + row}, item {item}"))
        tile = given.new_full((len(given), self.tile[1]), -torch.inf)
        tile[:, : self.shape[1]] = given
        return tile

    def pairs(self, rows: slice, columns: slice) -> Pairs | None:  # noqa: ARG002 - there is one tile of columns
        """What the users like, and what they have seen."""
        parts = [self._target.pairs(rows)] + ([] if self._seen is None else [self._seen.pairs(rows)])
        row, item = (torch.cat(x) for x in zip(*parts, strict=True))
        relevant = torch.arange(len(row), device=row.device) < len(parts[0][0])
        self._check(rows, row, item, relevant)
        return Pairs(row, item, relevant) if len(row) else None

    def _check(self, rows: slice, row: Tensor, item: Tensor, relevant: Tensor) -> None:
        """Items there are, none of them twice."""
        bad = (item < 0) | (item >= self.shape[1])
        if bool(bad.any()):
            place = int(bad.nonzero()[0])
            name = "target" if bool(relevant[place]) else "seen"
            refuse(
                name,
                f"must hold items from 0 to {self.shape[1] - 1}",
                Plain(f"{int(item[place])} of user {rows.start + int(row[place])}"),
            )
        key = row * self.shape[1] + item
        known, place, counts = torch.unique(key, return_inverse=True, return_counts=True)
        if len(known) < len(key):
            first = int((counts[place] > 1).nonzero()[0])
            who = Plain(f"item {int(item[first])} of user {rows.start + int(row[first])}")
            twice = relevant[key == key[first]]
            both = bool(twice.any()) and not bool(twice.all())
            rule = "must not hold what is in `target`" if both else "must hold an item of a user once"
            refuse("seen" if both or not bool(relevant[first]) else "target", rule, who)
