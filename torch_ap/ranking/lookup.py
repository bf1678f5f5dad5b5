"""How many of many ascending ends each score reaches, on CPU: by tables, which take a tenth of a binary search's time.

The bits of a float32, made to ascend with the number, are a place in a table. The first twelve name a cell: a sign, a
power of two and an eighth of it. A cell is cut into parts, the more the more ends lie in it; a part knows how many ends
lie below it, and with those few inside it a score is compared.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_ap.ranking import order, segments

PAYS = 1 << 12  # scores, whose binary search takes as long as making the tables of 16,384 ends
_BITS, _CELL_BITS = 32, 12
_IN_CELL = _BITS - _CELL_BITS
_PARTS = 4  # of a cell for each end in it, at least; with more of them few hold two ends
_BLOCK = 1 << 15  # scores whose keys and parts stay in the cache


@dataclass(frozen=True, eq=False)
class Lookup:
    """Ascending ends, and tables of them.

    Attributes:
        ends: (E + S,) float64, the last ones NaN, which no score reaches.
        first: (4096,) int32, the first part of each cell.
        shift: (4096,) int32, how many bits of a key do not matter to which part of its cell it belongs.
        below: (P,) int32, how many ends lie below each part, or below the numbers that float32 rounds into it.
        steps: S, S / 2, ... 1, of the search among the ends in a part, of which none has more than 2 S - 1.
    """

    ends: Tensor
    first: Tensor
    shift: Tensor
    below: Tensor
    steps: tuple[int, ...]

    def __call__(self, scores: Tensor) -> Tensor:
        """How many ends each of (N,) scores reaches: int32. Equals ``searchsorted(ends, scores, right=True)``."""
        return torch.cat([self._of_block(some) for some in torch.split(scores, _BLOCK)])

    def _of_block(self, scores: Tensor) -> Tensor:
        exact, keys = segments.as_float64(scores).numpy(), _keys(scores)
        cell = _cell(keys)
        reached = self.below.index_select(0, self.first.index_select(0, cell) + _part(keys, self.shift, cell))
        for step in self.steps:
            further = exact >= self.ends[step - 1 :].index_select(0, reached).numpy()  # torch compares at a tenth of it
            reached.add_(torch.from_numpy(further), alpha=step)
        return reached


def of_ends(ends: Tensor) -> Lookup:
    """The tables of (E,) ascending float64 ends, without NaN.

    float32 rounds each of them to a number that is not above what it rounds a greater one to, and so the scores: of two
    that it rounds to different numbers it keeps the order, and which ends are in doubt is known from the numbers alone.
    """
    keys = _keys(ends)
    cell = _cell(keys)
    inside = torch.bincount(cell, minlength=1 << _CELL_BITS)
    parts = torch.frexp((_PARTS * inside - 1).clamp_(0, (1 << _IN_CELL) - 1).float()).exponent  # their power of two
    shift = _IN_CELL - parts
    running = segments.from_zero(torch.ones_like(parts) << parts)
    first = running[:-1]
    held = torch.bincount(first.index_select(0, cell) + _part(keys, shift, cell), minlength=int(running[-1]))
    below = segments.from_zero(held)[:-1].to(torch.int32)
    steps = tuple(1 << power for power in reversed(range(int(held.max()).bit_length())))
    padded = torch.cat([ends, ends.new_full((sum(steps),), torch.nan)])
    return Lookup(padded, first, shift, below, steps)


def _keys(scores: Tensor) -> Tensor:
    """Of the scores as float32, int32."""
    narrow = scores if scores.dtype == torch.float32 else segments.as_float64(scores).to(torch.float32)
    return order.keys(narrow)


def _cell(keys: Tensor) -> Tensor:
    return (keys >> _IN_CELL).add_(1 << _CELL_BITS - 1)


def _part(keys: Tensor, shift: Tensor, cell: Tensor) -> Tensor:
    """Which part of its cell each key lies in."""
    return keys.bitwise_and((1 << _IN_CELL) - 1).bitwise_right_shift_(shift.index_select(0, cell))
