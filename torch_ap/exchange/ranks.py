"""The ranks of a process group, and the few collectives that all exchanges are made of.

Tensors travel as bytes, whatever their dtype: neither gloo nor NCCL sends all of them. They lie on the metric's device.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from torch_ap.exchange.failures import raise_everywhere
from torch_ap.ranking import order, segments

Result = TypeVar("Result")

_MIXER = -7046029254386353131  # 2^64 / golden ratio, as int64


class Ranks:
    """The ranks of a process group; all of them call the same methods in the same order.

    Args:
        group: of ``torch.distributed``; None for all processes.
        device: where what is sent must lie.
    """

    def __init__(self, group: Any, device: torch.device) -> None:
        self.group, self.device = group, device
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)

    # -- collectives

    def gather(self, values: Tensor) -> Tensor:
        """(...) values, as many on each rank, to (W, ...) those of all."""
        if not values.numel():
            return values.new_empty((self.size, *values.shape), device=self.device)
        sent = _bytes(values.to(self.device))
        found = sent.new_empty((self.size, *sent.shape))
        dist.all_gather(list(found.unbind()), sent, group=self.group)
        return found.view(values.dtype).reshape(self.size, *values.shape)

    def gather_unequal(self, values: Tensor) -> list[Tensor]:
        """(N, ...) rows, of each rank any number, to those of each."""
        lengths = self.gather(torch.tensor([len(values)])).flatten().tolist()
        padded = values.new_zeros((max(lengths), *values.shape[1:]))
        padded[: len(values)] = values
        return [x[:length] for x, length in zip(self.gather(padded), lengths, strict=True)]

    def sum(self, values: Tensor) -> Tensor:
        """The sum of each value over all ranks: whole numbers, or such that at most one is not 0."""
        return self._reduced(values, dist.ReduceOp.SUM)

    def highest(self, values: Tensor) -> Tensor:
        """The greatest of each value over all ranks."""
        return self._reduced(values, dist.ReduceOp.MAX)

    def send(self, values: Tensor, counts: Sequence[int], expected: Sequence[int]) -> Tensor:
        """Rows to their ranks: the first ``counts[0]`` of (N, ...) go to the first rank, and so on.

        Args:
            values: (N, ...).
            counts: (W,) how many rows go to each rank.
            expected: (W,) how many come from each.

        Returns:
            (M, ...) rows, those of the first rank first.
        """
        row = values.shape[1:].numel() * values.element_size()
        sent = _bytes(values.to(self.device))
        found = sent.new_empty(sum(expected) * row)
        dist.all_to_all_single(found, sent, [x * row for x in expected], [x * row for x in counts], group=self.group)
        return found.view(values.dtype).reshape(sum(expected), *values.shape[1:])

    def swap(self, values: Tensor) -> Tensor:
        """(W, ...) one entry for each rank to (W, ...) one from each."""
        found = torch.empty_like(sent := values.to(self.device).contiguous())
        dist.all_to_all_single(found, sent, group=self.group)
        return found

    def _reduced(self, values: Tensor, how: Any) -> Tensor:
        found = values.to(self.device, copy=True).contiguous()
        dist.all_reduce(found, how, group=self.group)
        return found

    # -- failures

    def attempt(self, work: Callable[..., Result], *args: Any) -> Result:
        """``work(*args)`` of each rank, which must have no collectives; an error of one is raised by all."""
        failure, found = None, None
        try:
            found = work(*args)
        except Exception as error:
            failure = error
        if bool(self.highest(torch.tensor([int(failure is not None)]))):
            raise_everywhere(failure, self.gather_unequal, self.device)
        return found  # type: ignore[return-value]


class Route:
    """The way of rows to ranks, and of answers back; rows from one rank keep their order.

    Args:
        ranks: all of them make one.
        destination: (N,) int64, the rank that each row here goes to.
    """

    def __init__(self, ranks: Ranks, destination: Tensor) -> None:
        self._ranks, self._order = ranks, order.stable_argsort(destination, ranks.size)
        counts = segments.count(destination, ranks.size)
        self._counts, self._coming = counts.tolist(), ranks.swap(counts).tolist()

    def send(self, values: Tensor) -> Tensor:
        """(N, ...) rows to the (M, ...) that come here, those of the first rank first."""
        return self._ranks.send(values[self._order], self._counts, self._coming)

    def arrivals(self, rows: Tensor, other: "Route") -> Tensor:
        """Where rows arrive, of each row of another route: (M,) places among the rows that come here, for its M.

        Args:
            rows: (E,) int64, the row here that each of the other route's goes with, to the same rank.
            other: of E rows.
        """
        places = torch.empty_like(self._order)
        places[self._order] = torch.arange(len(places), device=places.device)
        sent, coming = (segments.from_counts(torch.tensor(x, device=rows.device)) for x in (self._counts, self._coming))
        place = places[rows]
        received = other.send(place - sent[torch.searchsorted(sent, place, right=True) - 1])
        return received + segments.repeat(coming[:-1], torch.tensor(other._coming, device=rows.device))

    def send_back(self, answers: Tensor) -> Tensor:
        """(M, ...) answers to what came, to (N, ...) those to the rows here."""
        received = self._ranks.send(answers, self._coming, self._counts)
        found = torch.empty_like(received)
        found[self._order] = received
        return found


def spread(ids: Tensor, size: int) -> Tensor:
    """(N,) int64 to ranks that are about equally often chosen, the same for the same id."""
    return ((ids * _MIXER) >> 33) % size  # Knuth's multiplicative hashing


def _bytes(values: Tensor) -> Tensor:
    """The values as flat bytes; of at most one value any stride is called contiguous."""
    return values.contiguous().as_strided((values.numel(),), (1,)).view(torch.uint8)
