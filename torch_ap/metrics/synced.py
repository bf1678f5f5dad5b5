"""The states of all ranks: gathered, so that each rank has all of them, or exchanged, so that each has its share.

``dist_sync_fn`` says which: torchmetrics hands it from ``compute`` to ``sync``, and what needs every item on one rank,
as a curve or an interval does, hands none and so gathers.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torchmetrics.utilities.distributed import gather_all_tensors

from torch_ap.exchange.failures import raise_everywhere
from torch_ap.exchange.ranks import Ranks
from torch_ap.metrics import states
from torch_ap.metrics.stateful import StatefulMetric
from torch_ap.rules import checks
from torch_ap.rules.options import Sync, allowed
from torch_ap.runtime import memory
from torch_ap.runtime.untraced import leave_methods_to_python


def by_exchange(*_: Any, **__: Any) -> Any:
    """Stands for ``dist_sync_fn`` where states are exchanged, not gathered."""
    raise NotImplementedError


class SyncedMetric(StatefulMetric):
    """Abstract: a metric whose states are gathered over ranks, or exchanged.

    Args:
        sync: "gather" or "exchange".
        kwargs: of ``torchmetrics.Metric``.
    """

    _exchanged: Any = None  # while synced by exchange, what this rank has of all items

    def __init__(self, sync: Sync = "gather", **kwargs: Any) -> None:
        checks.one_of("sync", sync, allowed(Sync))
        if sync == "exchange" and kwargs.get("dist_sync_fn") is not None:
            raise ValueError("`dist_sync_fn` must be None with `sync='exchange'`: it gathers")
        super().__init__(**kwargs)
        if sync == "exchange":
            self.dist_sync_fn = by_exchange

    def _sync_dist(
        self, dist_sync_fn: Callable[..., Any] = gather_all_tensors, process_group: Any | None = None
    ) -> None:
        """Gather or exchange the states, after one small exchange of what each rank holds.

        What ranks hold is compared before any of it is sent, so that all of them raise the same error or none does.
        """
        group = process_group or self.process_group
        gather = partial(gather_all_tensors if dist_sync_fn is by_exchange else dist_sync_fn, group=group)
        names = self._list_states()
        local, failure = self._joined_here(names)
        words = torch.tensor(states.header(self._identity, names, None if failure else local), device=self.device)
        headers = [x.tolist() for x in gather(words)]
        if not all(header[0] for header in headers):
            raise_everywhere(failure, gather, self.device)
        everywhere: dict[str, list[Tensor]] = {name: [] for name in names}
        for held in states.read_headers(headers, len(self._identity), names):
            self._check_fit(everywhere, held, "on every rank or on none")
            everywhere = {name: [*parts, *held[name]] for name, parts in everywhere.items()}
        alike = {name: self._like_all(local.get(name), parts) for name, parts in everywhere.items() if parts}
        exchanged = None
        if dist_sync_fn is by_exchange and self._can_exchange:
            exchanged = self._exchange(Ranks(group, self.device), alike)
        else:
            for name in names:
                setattr(self, name, [self._gathered(gather, alike[name])] if name in alike else [])
        for name, reduction in self._reductions.items():
            if name not in names and callable(reduction):
                setattr(self, name, reduction(torch.stack(list(gather(getattr(self, name))))))
        self._exchanged = exchanged

    @property
    def _gathering(self) -> Callable[..., Any] | None:
        """The ``dist_sync_fn`` that brings all states to each rank."""
        return None if self.dist_sync_fn is by_exchange else self.dist_sync_fn

    def _joined_here(self, names: Sequence[str]) -> tuple[dict[str, Tensor], Exception | None]:
        """The list states of this rank as tensors; or why that fails, which other ranks must hear of."""
        try:
            return states.joined({name: getattr(self, name) for name in names}), None
        except Exception as error:
            return {}, error

    def _like_all(self, mine: Tensor | None, everywhere: list[Tensor]) -> Tensor:
        """One state of this rank, in the dtype and width that hold those of all, whose forms are given."""
        like = memory.joined(everywhere)
        mine = torch.empty((0, *like.shape[1:]), dtype=like.dtype, device=self.device) if mine is None else mine
        return memory.spread(mine.to(like.dtype), like.shape[1:])

    def _gathered(self, gather: Callable[..., Any], mine: Tensor) -> Tensor:
        """One state of all ranks."""
        wire = torch.int32 if mine.dtype == torch.int16 else mine.dtype  # neither gloo nor NCCL sends int16
        return memory.joined(list(gather(mine.to(wire)))).to(mine.dtype)

    @property
    def _can_exchange(self) -> bool:
        """Whether the value can be had from shares; counts are summed, whatever ``sync`` is."""
        return False

    def _exchange(self, ranks: Ranks, held: Mapping[str, Tensor]) -> Any:
        """What this rank gets of the items of all, for ``compute``; for concrete classes.

        Args:
            ranks: all of them call this.
            held: the list states that any rank holds, as they are here.
        """
        raise NotImplementedError

    def unsync(self, should_unsync: bool = True) -> None:
        """As in torchmetrics."""
        super().unsync(should_unsync)
        if should_unsync:
            self._exchanged = None

    def _copy_state_dict(self) -> dict[str, Any]:
        """What ``unsync`` brings back: the states themselves, which nothing writes to; torchmetrics copies them all."""
        return {name: list(x) if isinstance(x, list) else x for name in self._defaults for x in [getattr(self, name)]}


leave_methods_to_python(SyncedMetric)
