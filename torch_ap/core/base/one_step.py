"""State changes that a signal cannot divide.

Python runs signal handlers, such as the one that raises KeyboardInterrupt, between the instructions of Python code. A
call into C that runs no Python code is therefore one step: the handler runs before it or after it.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

_exhaust = deque[Any](maxlen=0).extend  # consumes an iterator in C, and stores nothing
_append: Any = list.append
_update: Any = dict.update
_call: Any = partial.__call__


def append(
    attributes: dict[str, Any], values: Mapping[str, Any], lists: Sequence[list[Any]], entries: list[Any]
) -> None:
    """Set attributes and append one entry to each list in one step.

    Args:
        attributes: the ``__dict__`` of an object.
        values: the new values by attribute name.
        lists: the lists.
        entries: one new entry per list.

    Raises:
        MemoryError: if a list cannot grow; nothing has changed then.
    """
    try:
        _exhaust(chain(map(_append, lists, entries), map(_update, (attributes,), (values,))))
    except MemoryError:
        for extended, entry in zip(lists, entries, strict=True):
            if extended and extended[-1] is entry:
                del extended[-1]
        raise


def write(attributes: dict[str, Any], values: Mapping[str, Any], calls: Iterable[partial[Any]]) -> None:
    """Make calls of C functions, such as additions to a tensor in place, and set attributes in one step.

    Args:
        attributes: the ``__dict__`` of an object.
        values: the new values by attribute name.
        calls: the calls. If one raises, no attribute is set.
    """
    _exhaust(chain(map(_call, calls), map(_update, (attributes,), (values,))))
