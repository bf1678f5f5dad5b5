"""Caches keyed by settings, or by the identity and version of tensors."""

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")
_MOST_CACHED = 256
_OWNED = (Tensor, FunctionType, MethodType)
_INSPECTED = (tuple, *_OWNED)
_MOST_RESULTS = 4
_latest: deque[tuple[list[tuple[weakref.ref[Tensor], int]], object, Any]] = deque(maxlen=_MOST_RESULTS)
_lock = threading.Lock()  # metrics may compute in several threads
_mode, _FAKE = torch._C._get_dispatch_mode, torch._C._TorchDispatchModeKey.FAKE


def settings_cache(make: Callable[..., Result]) -> Callable[..., Result]:
    """Return a function or class that caches its results for plain settings; results are shared and must be immutable.

    The key contains the types too, also inside tuples, since 1, 1.0 and True are equal but not equally valid.
    Exceptions are not cached. Results for tensors, which may change, for functions, which may own much memory, and
    inside ``FakeTensorMode``, whose tensors have no values, are not cached.
    """

    @functools.lru_cache(_MOST_CACHED, typed=True)
    def cached(_types: Any, *settings: Any, **named: Any) -> Result:
        return make(*settings, **named)

    @functools.wraps(make, updated=())
    def call(*settings: Any, **named: Any) -> Result:
        if _mode(_FAKE) is not None:
            return make(*settings, **named)
        try:
            values = (*settings, *named.values()) if named else settings
            inner_types = tuple([_inner_types(x) for x in values if isinstance(x, _INSPECTED)])
            return cached(inner_types, *settings, **named)
        except TypeError:  # unhashable settings: `make` raises its own error, if any
            return make(*settings, **named)

    return call


def _inner_types(setting: Any) -> Any:
    """Return the types inside a setting; an unhashable list if its results are not cached."""
    types = tuple(map(type, setting)) if isinstance(setting, tuple) else (type(setting),)
    return [] if _contains_owned(types) else types


@functools.lru_cache(_MOST_CACHED)
def _contains_owned(types: tuple[type, ...]) -> bool:
    return any(issubclass(x, _OWNED) for x in types)


def memoize(make: Callable[[], Result], key: object, tensors: Sequence[Tensor]) -> Result:
    """Return ``make()``, or its last result for the same unchanged tensors.

    The metrics of a compute group share one state and need one sort. The last few results are stored while their
    tensors exist. Results of inference tensors are not stored, because torch does not count writes to them, and no
    results inside ``FakeTensorMode``.

    Args:
        make: pure function of the tensors.
        key: identity of the function: the same object in every call.
        tensors: input of ``make``.
    """
    if _mode(_FAKE) is not None or any(map(Tensor.is_inference, tensors)):
        return make()
    if results := _stored_results(key, tensors):
        stored: Result = results[0]
        return stored
    result = make()
    if tensors:
        with _lock:
            _latest.append(([(weakref.ref(x), x._version) for x in tensors], key, result))
    return result


def is_stored(key: object, tensors: Sequence[Tensor]) -> bool:
    """Whether :func:`memoize` has the result of this key for the same unchanged tensors."""
    return not any(map(Tensor.is_inference, tensors)) and bool(_stored_results(key, tensors))


def _stored_results(key: object, tensors: Sequence[Tensor]) -> list[Any]:
    """Return the stored results of a key, the latest last, and delete results of tensors that no longer exist."""
    found = []
    with _lock:
        for entry in list(_latest):
            if any(reference() is None for reference, _ in entry[0]):
                del _latest[next(i for i, other in enumerate(_latest) if other is entry)]  # == compares tensors
            elif entry[1] is key and _is_same(entry[0], tensors):
                found.append(entry[2])
    return found


def _is_same(stored: Sequence[tuple[weakref.ref[Tensor], int]], tensors: Sequence[Tensor]) -> bool:
    return len(stored) == len(tensors) and all(
        reference() is x and version == x._version for (reference, version), x in zip(stored, tensors, strict=True)
    )
