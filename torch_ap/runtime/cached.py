"""What is made once: of the same settings, and of the same tensors."""

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, TypeVar

from torch import Tensor

Made = TypeVar("Made")
_MOST_CACHED = 256
_OWNED = (Tensor, FunctionType, MethodType)
_KEPT = 4
_latest: deque[tuple[list[tuple[weakref.ref[Tensor], int]], object, Any]] = deque(maxlen=_KEPT)
_lock = threading.Lock()  # metrics may compute in several threads


def settings_cache(make: Callable[..., Made]) -> Callable[..., Made]:
    """A function or class whose results for plain settings are cached and shared, so they must be immutable.

    The key holds the types too, also those inside tuples, since 1, 1.0 and True are equal and not equally valid. What
    raises is not cached, and neither is what is made of a tensor, which its owner may write into, or of a function,
    which may hold much memory.
    """

    @functools.lru_cache(_MOST_CACHED, typed=True)
    def known(_types: Any, *settings: Any, **named: Any) -> Made:
        return make(*settings, **named)

    @functools.wraps(make, updated=())
    def made(*settings: Any, **named: Any) -> Made:
        try:
            return known(tuple(map(_inner, (*settings, *named.values()))), *settings, **named)
        except TypeError:  # a setting without a hash: called without the cache, which raises the right error, if any
            return make(*settings, **named)

    return made


def _inner(setting: Any) -> Any:
    """The types inside a setting; of what is not kept, something without a hash."""
    types = tuple(map(type, setting)) if isinstance(setting, tuple) else (type(setting),)
    return [] if any(issubclass(x, _OWNED) for x in set(types)) else types


def memoize(make: Callable[[], Made], key: object, tensors: Sequence[Tensor]) -> Made:
    """``make()``, or what it gave the last time for the very same tensors, if nothing has been written to them since.

    The metrics of a compute group hold one state, and need one sort between them. The last few results are kept as long
    as their tensors live; none of inference tensors, for torch does not count what is written to them.

    Args:
        make: pure function of the tensors.
        key: what is made, an object that is always the same for it.
        tensors: what it is made of.
    """
    if any(x.is_inference() for x in tensors):
        return make()
    with _lock:
        for entry in list(_latest):
            held = [reference() for reference, _ in entry[0]]
            if any(x is None for x in held):
                del _latest[next(place for place, other in enumerate(_latest) if other is entry)]  # == compares tensors
            elif entry[1] is key and _same(entry[0], tensors):
                made: Made = entry[2]
                return made
    result = make()
    if tensors:
        with _lock:
            _latest.append(([(weakref.ref(x), x._version) for x in tensors], key, result))
    return result


def _same(kept: Sequence[tuple[weakref.ref[Tensor], int]], tensors: Sequence[Tensor]) -> bool:
    return len(kept) == len(tensors) and all(
        reference() is x and version == x._version for (reference, version), x in zip(kept, tensors, strict=True)
    )
