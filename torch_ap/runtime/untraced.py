"""Keeping our code out of the graphs of ``torch.compile``: compiled callers get the plain results, at a graph break.

The sorting is NumPy's, and what torch traces NumPy's calls on writable views to is not what they do.
"""

import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

_DENSE = torch.strided
_PLAIN: frozenset[type[Any]] = frozenset((int, float, bool, str, bytes, type(None), torch.dtype))
_DEEPEST = 4  # the masks of the images of a list; what is in codes of masks is looked at where they are read


def untraced(function: Callable[P, R], otherwise: Callable[P, R] | None = None, first: int = 0) -> Callable[P, R]:
    """The function, called from compiled code without tracing; ``torch.compiler.disable`` would import the compiler.

    Nor is it called with a sparse tensor, alone or in lists and dicts: NumPy reads none.

    Args:
        function: called where all arguments are dense tensors that require no grad, or None.
        otherwise: called with other arguments; None for the function itself.
        first: the argument from which on they are looked at: 1 of a method, whose object is no tensor.
    """
    general = otherwise or function

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_dynamo_compiling():  # the name `torch` makes the compiler look at this frame
            from torch_ap.runtime.compiled_callers import run

            value: R = run(call, *args, **kwargs)
            return value
        for one in (*args[first:], *kwargs.values()):  # in half the time of `all`
            kind = one.__class__
            if kind in _PLAIN or (kind is list and not one):
                continue
            if kind is not torch.Tensor or one.requires_grad or one.layout is not _DENSE:  # type: ignore[attr-defined]
                break
        else:
            return function(*args, **kwargs)
        _refuse_sparse(function, args, kwargs)
        return general(*args, **kwargs)

    # a code object of its own: the compiler counts how often it sees each one, and gives up on it
    call.__code__ = call.__code__.replace(co_name=function.__name__)  # type: ignore[attr-defined]
    return call


def _refuse_sparse(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise for the first sparse tensor among arguments of a function, by its name."""
    if all(map(_dense, (*args, *kwargs.values()))):
        return
    # `forward` passes on what it is given
    signature = inspect.signature(type(args[0]).update if function.__name__ == "forward" else function)
    given = signature.bind_partial(*args, **kwargs).arguments
    for name in [name for name, one in signature.parameters.items() if one.kind is inspect.Parameter.VAR_KEYWORD]:
        given |= given.pop(name, {})
    pending = list(given.items())[::-1]
    while pending:
        name, value = pending.pop()
        if isinstance(value, Mapping):
            pending += [(f"{name}[{key!r}]", part) for key, part in value.items()][::-1]
        elif isinstance(value, list | tuple):
            pending += [(f"{name}[{place}]", part) for place, part in enumerate(value)][::-1]
        elif not _dense(value):
            raise ValueError(f"`{name}` is a sparse tensor ({value.layout}); give `{name}.to_dense()`")


def _dense(value: Any) -> bool:
    """Whether all tensors in a value are dense; level by level, since most of a level are of one type.

    Not deeper than arguments have them: codes of masks are many, and a list may hold itself.
    """
    level = [value]
    for deeper in reversed(range(_DEEPEST)):
        kinds: set[type[Any]] = set(map(type, level))
        inner: list[Any] = []
        for kind in kinds - _PLAIN:
            same = level if len(kinds) == 1 else [x for x in level if type(x) is kind]
            if issubclass(kind, torch.Tensor):
                if any(x.layout is not _DENSE for x in same):
                    return False
            elif not deeper:
                continue
            elif issubclass(kind, Mapping):
                inner += itertools.chain.from_iterable(map(kind.values, same))
            elif issubclass(kind, list | tuple):
                inner += itertools.chain.from_iterable(same)
        if not inner:
            break
        level = inner
    return True


def untraced_package(package: str) -> None:
    """Make the public functions of a package untraced, under all the names that its modules give them."""
    public = {name: vars(sys.modules[package])[name] for name in sys.modules[package].__all__}
    replaced = {function: untraced(function) for function in public.values() if inspect.isfunction(function)}
    for module in [x for name, x in sys.modules.items() if f"{name}.".startswith(f"{package}.")]:
        for name, value in vars(module).copy().items():
            if inspect.isfunction(value) and value in replaced:
                setattr(module, name, replaced[value])


def leave_methods_to_python(cls: type, but: Collection[str] = ()) -> None:
    """Make a class's public methods untraced, except those in ``but``, and its properties unused by ``torch.jit``."""
    for name, method in vars(cls).copy().items():
        if inspect.isfunction(method) and not name.startswith("_"):
            method.__qualname__ = name  # which a TypeError says, and the class may be one that no caller knows
            if name not in but:
                setattr(cls, name, untraced(method, first=1))
    properties = {name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, property)}
    cls.__jit_unused_properties__ = sorted(properties)  # type: ignore[attr-defined]
