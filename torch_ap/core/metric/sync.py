"""Synchronization of the states of all processes.

States are gathered, so that each process has the states of all, or exchanged, so that each process has a share.
``dist_sync_fn`` selects one of the two; torchmetrics passes it from ``compute`` to ``sync``. Results that need every
item in one process, such as curves and intervals, always gather.

Metrics of a ``MetricCollection`` can share a state. The result of the last synchronization is stored while another
metric has the same state, and is used if all processes have stored it.
"""

import secrets
import threading
import weakref
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors

from torch_ap.core.base import arrays
from torch_ap.core.metric import state as states
from torch_ap.core.metric.exchange import Ranks, raise_everywhere

_thread = threading.local()
_metrics: "weakref.WeakValueDictionary[int, Metric]" = weakref.WeakValueDictionary()


def register(metric: Metric) -> None:
    """Register a metric for its lifetime; metrics with one state have the same tensor ``first_violation``."""
    _metrics[id(metric)] = metric


class _Stored(NamedTuple):
    token: int
    kind: Hashable
    state: Sequence[tuple["weakref.ref[Tensor]", int]]
    result: Mapping[str, Any]
    others: list[None]


def token_of(kind: Hashable, state: Sequence[Tensor]) -> int:
    """Return the number of the stored synchronization of this state, or 0 without one."""
    stored: _Stored | None = getattr(_thread, "stored", None)
    if stored is None or stored.kind != kind or len(stored.state) != len(state):
        return 0
    pairs = zip(stored.state, state, strict=True)
    same = all(reference() is x and version == _version(x) for (reference, version), x in pairs)
    return stored.token if same else 0


def take() -> Mapping[str, Any]:
    """Return the stored result, and delete it after the last metric that shares the state."""
    stored: _Stored = _thread.stored
    stored.others.pop()
    if not stored.others:
        _thread.stored = None
    return stored.result


def keep(token: int, kind: Hashable, state: Sequence[Tensor], result: Mapping[str, Any]) -> None:
    """Store a result for the other metrics that have the same state, if there are any.

    Args:
        token: number of this synchronization, the same in all processes.
        kind: the other values that the result depends on.
        state: tensors; the last is ``first_violation``, which the synchronized metric no longer has.
        result: the synchronized state.
    """
    others = sum(getattr(metric(), "first_violation", None) is state[-1] for metric in _metrics.valuerefs())
    _thread.stored = None
    if others:
        references = [(weakref.ref(x, _forget), _version(x)) for x in state]
        _thread.stored = _Stored(token, kind, references, result, [None] * others)


def _forget(_: Any) -> None:
    """Delete the result of a state that was deleted or changed."""
    _thread.stored = None


def _version(x: Tensor) -> int:
    return -1 if x.is_inference() else x._version


def by_exchange(*_: Any, **__: Any) -> Any:
    """Mark the metrics with exchanged states: it is their ``dist_sync_fn`` and is never called."""
    raise NotImplementedError


def synchronize(metric: Any, dist_sync_fn: Callable[..., Any], group: Any) -> None:
    """Gather or exchange the states of a metric, after one small exchange of their forms.

    The forms are compared before any state is sent, so that all processes raise the same error or none does. Metrics
    of a ``MetricCollection`` that share a state are synchronized once.
    """
    exchanges = dist_sync_fn is by_exchange and metric._can_exchange
    gather = partial(gather_all_tensors if dist_sync_fn is by_exchange else dist_sync_fn, group=group)
    kind = (type(metric)._exchange, metric._exchange_key) if exchanges else dist_sync_fn, group
    state, names = metric._tensors(), metric._lists
    local, failure = _joined_here(metric, names)
    tokens = [token_of(kind, state), 1 + secrets.randbits(62)]
    header = states.header(metric._identity, names, None if failure else local)
    headers = [x.tolist() for x in gather(torch.tensor([*tokens, *header], device=metric.device))]
    if not all(words[2] for words in headers):
        raise_everywhere(failure, gather, metric.device)
    is_synced_already = tokens[0] and all(words[0] == tokens[0] for words in headers)
    if is_synced_already:
        synced = take()
    else:
        synced = _synced(metric, gather, _agreed(metric, local, [words[2:] for words in headers]), group, exchanges)
    values = {name: list(value) if isinstance(value, list) else value for name, value in synced.items()}
    vars(metric).update({**values, "_is_synced": True})
    if not is_synced_already:
        keep(headers[0][1], kind, state, synced)


def _joined_here(metric: Any, names: Sequence[str]) -> tuple[dict[str, Tensor], Exception | None]:
    """Return the list states of this process as tensors, or the error, which the other processes must raise too."""
    try:
        return states.joined({name: getattr(metric, name) for name in names}), None
    except Exception as error:
        return {}, error


def _agreed(metric: Any, local: dict[str, Tensor], headers: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """Return local list states in the dtype and width of all processes; absent ones are empty if another has them."""
    everywhere: dict[str, list[Tensor]] = {name: [] for name in metric._lists}
    for held in states.read_headers(headers, len(metric._identity), metric._lists):
        metric._check_fit(everywhere, held, "on every rank or on none")
        everywhere = {name: [*parts, *held[name]] for name, parts in everywhere.items()}
    return {name: _like_all(local.pop(name, None), parts, metric.device) for name, parts in everywhere.items() if parts}


def _like_all(mine: Tensor | None, everywhere: list[Tensor], device: torch.device) -> Tensor:
    """Return a local state in the common dtype and width of all processes, whose forms are ``everywhere``."""
    like = arrays.concatenate(everywhere)
    mine = torch.empty((0, *like.shape[1:]), dtype=like.dtype, device=device) if mine is None else mine
    return arrays.expand_columns(mine.to(like.dtype), like.shape[1:])


def _synced(
    metric: Any, gather: Callable[..., Any], held: dict[str, Tensor], group: Any, exchanges: bool
) -> dict[str, Any]:
    """Return the states of all processes, or the share of this process."""
    lists, device = metric._lists, metric.device
    synced: dict[str, Any] = {}
    if exchanges:
        for name in held:  # with `compute_on_cpu`, list states are on the CPU
            held[name] = held[name].to(device)
        synced["_exchanged"] = metric._exchange(Ranks(group, device), held)
    else:
        synced = {name: [_gathered(gather, held[name])] if name in held else [] for name in lists}
    for name, reduction in metric._reductions.items():
        if name not in lists and callable(reduction):
            synced[name] = reduction(torch.stack(list(gather(getattr(metric, name)))))
    return synced


def _gathered(gather: Callable[..., Any], mine: Tensor) -> Tensor:
    """Return the concatenated state of all processes."""
    wire = torch.int32 if mine.dtype == torch.int16 else mine.dtype  # neither gloo nor NCCL sends int16
    return arrays.concatenate(list(gather(mine.to(wire)))).to(mine.dtype)


@contextmanager
def all_ranks(self: Any) -> Generator[None, None, None]:
    """Use the state of all processes together."""
    to_sync = self._to_sync and not self._is_synced
    gather = None if self.dist_sync_fn is by_exchange else self.dist_sync_fn  # brings all states to each process
    with self.sync_context(gather, should_sync=to_sync, should_unsync=self._should_unsync and to_sync):
        yield
