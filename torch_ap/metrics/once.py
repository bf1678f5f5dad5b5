"""Synchronizing once what several metrics share: a ``MetricCollection`` computes them one after the other.

The last result is kept only while another metric holds the same state, and is used only where all ranks have it.
"""

import secrets
import threading
import weakref
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor

_thread = threading.local()
_metrics: "weakref.WeakValueDictionary[int, SharesState]" = weakref.WeakValueDictionary()


class SharesState(Protocol):
    """A metric, which holds this tensor with the metrics that share its state, and with no others."""

    first_violation: Tensor


def enrol(metric: SharesState) -> None:
    """Let it be known that there is this metric, as long as there is."""
    _metrics[id(metric)] = metric


class _Kept(NamedTuple):
    token: int
    kind: Hashable
    state: Sequence[tuple["weakref.ref[Tensor]", int]]
    result: Mapping[str, Any]
    others: list[None]


def new_token() -> int:
    """A number that no other synchronization has."""
    return 1 + secrets.randbits(62)


def token_of(kind: Hashable, state: Sequence[Tensor]) -> int:
    """The number of the synchronization of this very state, by the rank that was first in it; 0 where none is kept."""
    kept: _Kept | None = getattr(_thread, "kept", None)
    if kept is None or kept.kind != kind or len(kept.state) != len(state):
        return 0
    same = all(held() is x and version == _version(x) for (held, version), x in zip(kept.state, state, strict=True))
    return kept.token if same else 0


def take() -> Mapping[str, Any]:
    """What is kept; for the last metric that shares it, for good."""
    kept: _Kept = _thread.kept
    kept.others.pop()
    if not kept.others:
        _thread.kept = None
    return kept.result


def keep(token: int, kind: Hashable, state: Sequence[Tensor], result: Mapping[str, Any]) -> None:
    """Keep a result for the other metrics that hold the same state, if there are any.

    Args:
        token: of this synchronization, the same on all ranks.
        kind: what else the result depends on.
        state: tensors, the last of them ``first_violation``, which the metric that was synchronized has no longer.
        result: what synchronization gave.
    """
    others = sum(getattr(held(), "first_violation", None) is state[-1] for held in _metrics.valuerefs())
    _thread.kept = None
    if others:
        held = [(weakref.ref(x, _forget), _version(x)) for x in state]
        _thread.kept = _Kept(token, kind, held, result, [None] * others)


def _forget(_: Any) -> None:
    """The state is gone, or has changed."""
    _thread.kept = None


def _version(x: Tensor) -> int:
    return -1 if x.is_inference() else x._version
