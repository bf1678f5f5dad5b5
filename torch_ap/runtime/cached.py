"""Settings checked once: what is made of them is cached."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")
_MOST_CACHED = 256


def settings_cache(make: Callable[..., Made]) -> Callable[..., Made]:
    """A function or class whose results for plain settings are cached and shared, so they must be immutable.

    The key holds the types too, since 1, 1.0 and True are equal and not equally valid. Give no tensors, which
    their owner may write into. What raises is not cached.
    """
    known = functools.lru_cache(_MOST_CACHED, typed=True)(make)

    @functools.wraps(make, updated=())
    def made(*settings: Any) -> Made:
        try:
            return known(*settings)
        except TypeError:  # a setting without a hash: called without the cache, which raises the right error, if any
            return make(*settings)

    return made
