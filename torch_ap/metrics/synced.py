"""The states of all ranks: gathered, so that each rank has all of them, or exchanged, so that each has its share.

``dist_sync_fn`` says which: torchmetrics hands it from ``compute`` to ``sync``, and what needs every item on one rank,
as a curve or an interval does, hands none and so gathers.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor
from torchmetrics.utilities.distributed import gather_all_tensors

from torch_ap.exchange.failures import raise_everywhere
from torch_ap.exchange.ranks import Ranks
from torch_ap.metrics import once, states
from torch_ap.metrics.stateful import StatefulMetric
from torch_ap.rules import checks
from torch_ap.rules.messages import refuse
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

    beside_states: ClassVar[Sequence[str]] = ("_exchanged",)

    _exchanged: Any = None  # while synced by exchange, what this rank has of all items

    def __init__(self, sync: Sync = "gather", **kwargs: Any) -> None:
        checks.one_of("sync", sync, allowed(Sync))
        if sync == "exchange" and kwargs.get("dist_sync_fn") is not None:
            refuse("dist_sync_fn", "must be None with `sync='exchange'`, for it gathers", kwargs["dist_sync_fn"])
        super().__init__(**kwargs)
        if sync == "exchange":
            self.dist_sync_fn = by_exchange
        once.enrol(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """As in torchmetrics, of a copy."""
        super().__setstate__(state)
        once.enrol(self)

    def __getnewargs__(self) -> tuple[()]:
        """Nothing: torchmetrics' gives the letters of ``repr``, which are of no use and a third of a copy's time."""
        return ()

    def extra_repr(self) -> str:
        """What differs from the defaults, for ``repr``."""
        synced = ["sync='exchange'"] if self.dist_sync_fn is by_exchange else []
        return ", ".join(filter(None, [self._settings_text(), *synced]))

    def _settings_text(self) -> str:
        """The settings of the class that differ from their defaults; for concrete classes."""
        raise NotImplementedError

    def _sync_dist(
        self, dist_sync_fn: Callable[..., Any] = gather_all_tensors, process_group: Any | None = None
    ) -> None:
        """Gather or exchange the states, after one small exchange of what each rank holds.

        What ranks hold is compared before any of it is sent, so that all of them raise the same error or none does.
        Metrics of a ``MetricCollection`` that share a state are synchronized once.
        """
        group = process_group or self.process_group
        exchanges = dist_sync_fn is by_exchange and self._can_exchange
        gather = partial(gather_all_tensors if dist_sync_fn is by_exchange else dist_sync_fn, group=group)
        kind = (type(self)._exchange, self._exchange_key) if exchanges else dist_sync_fn, group
        state, names = self._tensors(), self._list_states()
        local, failure = self._joined_here(names)
        tokens = [once.token_of(kind, state), once.new_token()]
        header = states.header(self._identity, names, None if failure else local)
        headers = [x.tolist() for x in gather(torch.tensor([*tokens, *header], device=self.device))]
        if not all(words[2] for words in headers):
            raise_everywhere(failure, gather, self.device)
        known = tokens[0] and all(words[0] == tokens[0] for words in headers)
        if known:
            found = once.take()
        else:
            found = self._synced(gather, self._agreed(local, [words[2:] for words in headers]), group, exchanges)
        for name, value in found.items():
            setattr(self, name, list(value) if isinstance(value, list) else value)
        if not known:
            once.keep(headers[0][1], kind, state, found)

    def _agreed(self, local: dict[str, Tensor], headers: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        """The list states that any rank holds, taken from ``local``, in the dtype and width that hold those of all."""
        everywhere: dict[str, list[Tensor]] = {name: [] for name in self._list_states()}
        for held in states.read_headers(headers, len(self._identity), self._list_states()):
            self._check_fit(everywhere, held, "on every rank or on none")
            everywhere = {name: [*parts, *held[name]] for name, parts in everywhere.items()}
        return {name: self._like_all(local.pop(name, None), parts) for name, parts in everywhere.items() if parts}

    def _synced(
        self, gather: Callable[..., Any], held: dict[str, Tensor], group: Any, exchanges: bool
    ) -> dict[str, Any]:
        """The states of all ranks, or this rank's share of them."""
        found: dict[str, Any] = {}
        if exchanges:
            for name in held:  # with `compute_on_cpu` they lie elsewhere
                held[name] = held[name].to(self.device)
            found["_exchanged"] = self._exchange(Ranks(group, self.device), held)
        else:
            found = {name: [self._gathered(gather, held[name])] if name in held else [] for name in self._list_states()}
        for name, reduction in self._reductions.items():
            if name not in self._list_states() and callable(reduction):
                found[name] = reduction(torch.stack(list(gather(getattr(self, name)))))
        return found

    def _tensors(self) -> list[Tensor]:
        """All tensors of the state, that of violations last, where they are tensors."""
        lists = [getattr(self, name) for name in self._list_states()]
        sums = [getattr(self, name) for name in self._defaults if name not in self._list_states()]
        found = [x for parts in lists for x in parts if isinstance(x, Tensor)]
        return [*found, *(x for x in sums if x is not self.first_violation), self.first_violation]

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

    @property
    def _exchange_key(self) -> Any:
        """What the share depends on beside the state; metrics that share a state have the rest in common."""
        return None

    def _exchange(self, ranks: Ranks, held: dict[str, Tensor]) -> Any:
        """What this rank gets of the items of all, for ``compute``; for concrete classes.

        Args:
            ranks: all of them call this.
            held: the list states that any rank holds, as they are here; what is taken out of it can be let go of.
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
