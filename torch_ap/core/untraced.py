"""Leaving our code out of the graphs of ``torch.compile``: compiled callers get what plain ones get, at a graph break.

The sorting is NumPy's, and torch traces NumPy's calls on writable views to something else than what they do.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Collection
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def untraced(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which compiled code calls as it is. ``torch.compiler.disable`` would import the compiler here."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_dynamo_compiling():  # naming `torch` is what makes the compiler look at this frame
            from torch_ap.core.compiled_callers import run

            value: R = run(function, *args, **kwargs)
            return value
        return function(*args, **kwargs)

    # code of its own: the compiler counts how often it sees one code, and gives up on it
    call.__code__ = call.__code__.replace(co_name=function.__name__)  # type: ignore[attr-defined]
    return call


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
