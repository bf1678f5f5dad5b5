"""Leaving our code out of the graphs of ``torch.compile``: compiled callers get what plain ones get, at a graph break.

The sorting is NumPy's, and torch traces NumPy's calls on writable views to something else than what they do.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def untraced(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which compiled code calls as it is. ``torch.compiler.disable`` would import the compiler here."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_dynamo_compiling():  # naming `torch` is what makes the compiler look at this frame
            from torch_ap.runtime.compiled_callers import run

            value: R = run(function, *args, **kwargs)
            return value
        refuse_sparse(function, args, kwargs)
        return function(*args, **kwargs)

    # code of its own: the compiler counts how often it sees one code, and gives up on it
    call.__code__ = call.__code__.replace(co_name=function.__name__)  # type: ignore[attr-defined]
    return call


def refuse_sparse(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise for tensors that are not dense, alone or in lists and dicts: NumPy reads no others.

    Raises:
        ValueError: naming the argument.
    """
    for value in args:
        if not _dense(value):
            break
    else:
        if all(map(_dense, kwargs.values())):
            return
    signature = inspect.signature(function)
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
    """Whether no tensor in a value is of another layout than the dense one."""
    if isinstance(value, torch.Tensor):
        return value.layout is torch.strided
    if isinstance(value, Mapping):
        return all(map(_dense, value.values()))
    return not isinstance(value, list | tuple) or all(map(_dense, value))


def untraced_package(package: str) -> None:
    """Make the public functions of a package untraced, under all names that its modules have for them."""
    public = {name: vars(sys.modules[package])[name] for name in sys.modules[package].__all__}
    replaced = {function: untraced(function) for function in public.values() if inspect.isfunction(function)}
    for module in [x for name, x in sys.modules.items() if f"{name}.".startswith(f"{package}.")]:
        for name, value in vars(module).copy().items():
            if inspect.isfunction(value) and value in replaced:
                setattr(module, name, replaced[value])


def leave_methods_to_python(cls: type, but: Collection[str] = ()) -> None:
    """Make the public methods of a module's class untraced, but those of these names; ``torch.jit`` has no property."""
    for name, method in vars(cls).copy().items():
        if inspect.isfunction(method) and not name.startswith("_") and name not in but:
            setattr(cls, name, untraced(method))
    properties = {name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, property)}
    cls.__jit_unused_properties__ = sorted(properties)  # type: ignore[attr-defined]
