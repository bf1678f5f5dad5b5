"""Settings checked once: what is made of them is kept, and a call that repeats them only looks it up."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")
_KEPT = 256


def kept(make: Callable[..., Made]) -> Callable[..., Made]:
    """A function or class whose results for plain settings are kept and shared, so they must be immutable.

    Settings are told apart by type too, since 1, 1.0 and True are equal and not alike valid. Give no tensors, which
    their owner may write into. What raises is not kept.
    """
    known = functools.lru_cache(_KEPT, typed=True)(make)

    @functools.wraps(make, updated=())
    def made(*settings: Any) -> Made:
        try:
            return known(*settings)
        except TypeError:  # of what has no hash, if it is no fault of ours; it is told as such
            return make(*settings)

    return made
