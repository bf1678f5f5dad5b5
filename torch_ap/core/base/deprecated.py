"""Former public names and keywords: renamed ones work for one release with a FutureWarning, removed ones raise."""

import functools
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

from torch.nn import Module

from torch_ap.core.base.messages import warn_caller

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=Module)


def renamed_keywords(**current_names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that accepts the former names of keywords.

    Args:
        **current_names: the current name of each former keyword.

    Returns:
        A decorator. The decorated function warns if it is called with a former keyword, and raises TypeError if it is
        called with both names.

    Example:
        >>> from torch_ap.core.base.deprecated import renamed_keywords
        >>> @renamed_keywords(batch="chunk_size")
        ... def resample(chunk_size=None):
        ...     return chunk_size
        >>> resample(chunk_size=10)
        10
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for former in current_names.keys() & kwargs.keys():
                current = current_names[former]
                if current in kwargs:
                    raise TypeError(f"`{former}` is the former name of `{current}`: use `{current}` alone")
                warn_caller(f"`{former}` is deprecated: use `{current}`", FutureWarning)
                kwargs[current] = kwargs.pop(former)
            return function(*args, **kwargs)

        return call

    return decorate


def renamed_attributes(**current_names: str) -> Callable[[type[T]], type[T]]:
    """Return a decorator of a module class whose instances accept the former names of attributes, with a warning.

    Former names are not properties, because ``torch.jit`` reads all properties of a module.
    """

    def decorate(cls: type[T]) -> type[T]:
        inherited: Any = cls.__getattr__

        def find(self: Any, name: str) -> Any:
            if name not in current_names:
                return inherited(self, name)
            warn_caller(f"`{name}` is deprecated: use `{current_names[name]}`", FutureWarning)
            return getattr(self, current_names[name])

        cls.__getattr__ = find  # type: ignore[method-assign]
        return cls

    return decorate


def former_names(
    module: str, renamed: Mapping[str, str], removed: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """Return the function `__getattr__` of a module, which finds former names.

    Args:
        module: name of the module.
        renamed: "module:name" of the current object for each former name; the object is returned with a warning.
        removed: what to use in place of each removed name, for the message of the AttributeError.
    """

    def find(name: str) -> Any:
        if name in renamed:
            home, _, current = renamed[name].partition(":")
            warn_caller(f"`{module}.{name}` is deprecated: use `{home}.{current}`", FutureWarning)
            return getattr(import_module(home), current)
        if removed is not None and name in removed:
            raise AttributeError(f"`{module}.{name}` was removed: use {removed[name]}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find
