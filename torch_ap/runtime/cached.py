"""Settings checked once: what is made of them is cached, so a call that repeats them only looks it up."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")
_KEPT = 256


def kept(make: Callable[..., Made]) -> Callable[..., Made]:
    """A function or class whose results for plain settings are cached and shared, so they must be immutable.

    Settings also differ by type, since 1, 1.0 and True are equal but not equally valid. Pass no tensors: their owner
    may write into them. Errors are not cached.
    """
    known = functools.lru_cache(_KEPT, typed=True)(make)

    @functools.wraps(make, updated=())
    def made(*settings: Any) -> Made:
        try:
            return known(*settings)
        except TypeError:  # a setting without a hash: called without the cache, which raises the right error, if any
            return make(*settings)

    return made
