"""Processes of a process group, and the collectives of all exchanges.

- Tensors are sent as bytes, because neither gloo nor NCCL supports all dtypes. They are on the metric's device.
- Repeated samples on several processes are detected without gathering all ids in one process.
- An error of one process is raised by all processes, which would otherwise wait for it.
- Sums over rankings with parts on several processes are bit-identical to the sums of one process.

The sum of a run is the sum of the parts of :mod:`torch_ap.core.ranking.pairwise`. A part on two processes is sent to
the first of them. A part has at most an eighth of the mean number of values of a process, so about a sixteenth of the
values are sent. Order-free sums (:mod:`torch_ap.core.ranking.segments`) would need no such parts, but cost a third of
the time of an AP of 10^6 items in one process, and change the last bit of short sums.
"""

import builtins
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from torch_ap.core.base import arrays
from torch_ap.core.metric import samples
from torch_ap.core.ranking import order, pairwise, segments
from torch_ap.core.ranking.order import Array


def raise_everywhere(
    failure: Exception | None, gather: Callable[[Tensor], Sequence[Tensor]], device: torch.device
) -> NoReturn:
    """Raise the error of the first process with an error, with the same type and message on all processes.

    Args:
        failure: the error of this process, or None.
        gather: returns the (B,) uint8 tensors of all processes, of any lengths.
        device: device of tensors to send.
    """
    description = "" if failure is None else f"{type(failure).__name__}\n{failure}"
    mine = torch.frombuffer(bytearray(b"\0" + description.encode(errors="backslashreplace")), dtype=torch.uint8).to(
        device
    )
    texts = [bytes(x.tolist())[1:].decode() for x in gather(mine)]
    name, _, message = next(text for text in texts if text).partition("\n")
    kind = getattr(builtins, name, None)
    error: Exception = RuntimeError(f"{name}: {message}")  # for errors of other libraries, or with more arguments
    if isinstance(kind, type) and issubclass(kind, Exception):
        with contextlib.suppress(TypeError):
            error = kind(message)
    raise error from failure


Result = TypeVar("Result")

_MIXER = -7046029254386353131  # 2^64 / golden ratio, as int64


class Ranks:
    """Processes of a process group; all processes call the same methods in the same order.

    Args:
        group: group of ``torch.distributed``; None for all processes.
        device: device of tensors to send.
    """

    def __init__(self, group: Any, device: torch.device) -> None:
        self.group, self.device = group, device
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)

    # -- collectives

    def gather(self, values: Tensor) -> Tensor:
        """Gather values of the same shape (...) from all processes, (W, ...)."""
        if not values.numel():
            return values.new_empty((self.size, *values.shape), device=self.device)
        sent = _bytes(values.to(self.device))
        received = sent.new_empty((self.size, *sent.shape))
        dist.all_gather(list(received.unbind()), sent, group=self.group)
        return received.view(values.dtype).reshape(self.size, *values.shape)

    def gather_unequal(self, values: Tensor) -> list[Tensor]:
        """Gather (N, ...) rows from all processes; N may differ."""
        lengths = self.gather(torch.tensor([len(values)])).flatten().tolist()
        padded = values.new_zeros((max(lengths), *values.shape[1:]))
        padded[: len(values)] = values
        return [x[:length] for x, length in zip(self.gather(padded), lengths, strict=True)]

    def sum(self, values: Tensor) -> Tensor:
        """Return the elementwise sum over all processes, of integers or of at most one value other than 0."""
        return self._reduce(values, dist.ReduceOp.SUM)

    def highest(self, values: Tensor) -> Tensor:
        """Return the elementwise maximum over all processes."""
        return self._reduce(values, dist.ReduceOp.MAX)

    def send(self, values: Tensor, counts: Sequence[int], expected: Sequence[int]) -> Tensor:
        """Send rows to processes: the first ``counts[0]`` of (N, ...) to the first process, and so on.

        Args:
            values: (N, ...).
            counts: (W,) number of rows to send to each process.
            expected: (W,) number of rows to receive from each process.

        Returns:
            (M, ...) received rows, in process order.
        """
        row = values.shape[1:].numel() * values.element_size()
        sent = _bytes(values.to(self.device))
        received = sent.new_empty(sum(expected) * row)
        dist.all_to_all_single(received, sent, [x * row for x in expected], [x * row for x in counts], group=self.group)
        return received.view(values.dtype).reshape(sum(expected), *values.shape[1:])

    def swap(self, values: Tensor) -> Tensor:
        """Send entry i of (W, ...) to process i, and return the (W, ...) entries received from all processes."""
        received = torch.empty_like(sent := values.to(self.device).contiguous())
        dist.all_to_all_single(received, sent, group=self.group)
        return received

    def _reduce(self, values: Tensor, operation: Any) -> Tensor:
        result = values.to(self.device, copy=True).contiguous()
        dist.all_reduce(result, operation, group=self.group)
        return result

    # -- failures

    def attempt(self, work: Callable[..., Result], *args: Any) -> Result:
        """Return ``work(*args)``, which must not use collectives; an error of one process is raised by all."""
        failure, result = None, None
        try:
            result = work(*args)
        except Exception as error:
            failure = error
        if bool(self.highest(torch.tensor([int(failure is not None)]))):
            raise_everywhere(failure, self.gather_unequal, self.device)
        return result  # type: ignore[return-value]


class Route:
    """Route of rows to processes, and of answers back; the rows from one process keep their order.

    Args:
        ranks: the processes; all construct a route together.
        destination: (N,) int64, the receiving process of each local row.
    """

    def __init__(self, ranks: Ranks, destination: Tensor) -> None:
        self._ranks, self._order = ranks, order.stable_argsort(destination, ranks.size)
        counts = segments.count(destination, ranks.size)
        self._counts, self._coming = counts.tolist(), ranks.swap(counts).tolist()

    def send(self, values: Tensor) -> Tensor:
        """Send (N, ...) rows, and return the (M, ...) received rows, in process order."""
        return self._ranks.send(values[self._order], self._counts, self._coming)

    def arrivals(self, rows: Tensor, other: "Route") -> Tensor:
        """Return the arrival index of the rows that accompany the rows of another route, (M,) among the received rows.

        Args:
            rows: (E,) int64, the local row that accompanies each row of the other route to the same process.
            other: route of E rows.
        """
        places = torch.empty_like(self._order)
        places[self._order] = torch.arange(len(places), device=places.device)
        sent, coming = (segments.from_counts(torch.tensor(x, device=rows.device)) for x in (self._counts, self._coming))
        place = places[rows]
        received = other.send(place - sent[torch.searchsorted(sent, place, right=True) - 1])
        return received + segments.repeat(coming[:-1], torch.tensor(other._coming, device=rows.device))

    def send_back(self, answers: Tensor) -> Tensor:
        """Return the (M, ...) answers to their origins, and receive the (N, ...) answers to the local rows."""
        received = self._ranks.send(answers, self._coming, self._counts)
        result = torch.empty_like(received)
        result[self._order] = received
        return result


def hash_to_ranks(ids: Tensor, size: int) -> Tensor:
    """Map (N,) int64 ids to processes, about evenly; equal ids have the same process."""
    return ((ids * _MIXER) >> 33) % size  # Knuth's multiplicative hashing


def _bytes(values: Tensor) -> Tensor:
    """Return the values as flat bytes; tensors of at most one value are contiguous for any strides."""
    return values.contiguous().as_strided((values.numel(),), (1,)).view(torch.uint8)


def flag_first_copies(ranks: Ranks, ids: Tensor, key: Tensor, name: str = "targets") -> Tensor:
    """Return which local samples are the first of their id over all processes, in process order: (N,) bool.

    Args:
        ranks: the processes; each calls this function with its own samples.
        ids: (N,) int64.
        key: (N, ...) values that must be equal for all copies of a sample.
        name: name of the values in messages.

    Raises:
        ValueError: on every process, if two different samples have one id.
    """
    route = Route(ranks, hash_to_ranks(ids, ranks.size))
    received = route.send(ids)
    is_first = ranks.attempt(samples.first_copies, received, route.send(key), name)
    return route.send_back(torch.ones_like(received, dtype=torch.bool) if is_first is None else is_first)


_PARTS_A_RANK = 8


class RankParts:
    """Reductions over the parts of all processes; the first process has the highest scores.

    See :class:`torch_ap.core.ranking.hit_curve.Parts`.

    Args:
        ranks: the processes, each with the next run of every ranking.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks

    def total(self, values: Any, offsets: Any) -> Any:
        """Return the (S,) sums of (E,) int64 or float64 entries of all parts, as ``segments.total`` of all entries.

        On an accelerator, where the order of additions is undefined, floats are summed process by process.
        """
        here, bounds = arrays.tensor(values), arrays.tensor(offsets)
        if not here.is_floating_point():
            sums = self._ranks.sum(segments.total(here, bounds))
        elif here.is_cpu:
            sums = _total(self._ranks, here.numpy(), bounds)
        else:
            sums = self._ranks.gather(segments.total(here, bounds)).sum(0)
        return sums if isinstance(values, Tensor) else sums.numpy()

    def highest(self, values: Tensor) -> Tensor:
        """Return the elementwise maximum over all processes."""
        return self._ranks.highest(values)

    def above_and_whole(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums of the values over the parts above this one and over all parts; the sums must be exact."""
        everywhere = self._ranks.gather(values)
        return everywhere[: self._ranks.rank].sum(0), everywhere.sum(0)

    def highest_below(self, values: Tensor) -> Tensor:
        """Return the (S,) maximum over the parts below this one, -inf if there are none."""
        below = self._ranks.gather(values)[self._ranks.rank + 1 :]
        return torch.cat([below, torch.full_like(values[None], -torch.inf)]).amax(0)


def _total(ranks: Ranks, values: Array, offsets: Tensor) -> Tensor:
    lengths = ranks.gather(offsets.diff()).numpy()
    sizes = pairwise.halved(lengths.sum(0), (_PARTS_A_RANK * ranks.size - 1).bit_length())
    starts = segments.from_counts(sizes.flatten())
    # start of the values of each process in the order of all values, segment after segment
    bounds = segments.from_counts(lengths.T.flatten())
    owner = (np.searchsorted(bounds, starts[:-1], "right") - 1) % ranks.size
    mine = (owner == ranks.rank).nonzero()[0]
    parts = np.zeros(sizes.size)
    parts[mine] = pairwise.sum_parts(_gather_parts(ranks, values, bounds, starts, owner, mine), sizes.flatten()[mine])
    sums = ranks.sum(torch.from_numpy(parts)).numpy().reshape(sizes.shape)
    return torch.from_numpy(pairwise.join_sums(sums))


def _gather_parts(ranks: Ranks, values: Array, bounds: Array, starts: Array, owner: Array, mine: Array) -> Array:
    """Return the values of the parts that this process sums, concatenated.

    Args:
        ranks: the processes.
        values: (E,) local values.
        bounds: (S * W + 1,) the start and end of each process's values in each segment, in the order of all values.
        starts: (P + 1,) the start and end of each part.
        owner: (P,) the process that sums each part.
        mine: indices of the parts of this process.
    """
    first, last = bounds[:-1].reshape(-1, ranks.size), bounds[1:].reshape(-1, ranks.size)

    def overlap(parts: Array, rank: slice) -> Array:
        """Return the number of values of these parts on each of these processes."""
        segment, begin, end = parts * len(first) // len(owner), starts[:-1][parts, None], starts[1:][parts, None]
        lengths: Array = np.minimum(end, last[segment, rank]) - np.maximum(begin, first[segment, rank])
        return np.maximum(lengths, 0)

    here = overlap(np.arange(len(owner)), slice(ranks.rank, ranks.rank + 1))[:, 0]
    coming = overlap(mine, slice(None)).T
    order = np.argsort(np.repeat(owner, here), kind="stable")
    sent = np.bincount(owner, weights=here, minlength=ranks.size).astype(np.int64)
    received = ranks.send(torch.from_numpy(values[order]), sent.tolist(), coming.sum(1).tolist()).numpy()
    part = np.repeat(np.tile(np.arange(len(mine)), ranks.size), coming.flatten())
    ordered: Array = received[np.argsort(part, kind="stable")]
    return ordered
