"""Exclusion of this package from the graphs of ``torch.compile``: compiled callers get plain results at a graph break.

The package sorts with NumPy, and torch does not trace NumPy's calls on writable views correctly.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Collection
from typing import ParamSpec, TypeVar

import torch

from torch_ap.core.base.plain_tensors import PLAIN_KEYS, WITHOUT_TENSORS, call_with_plain, key_bits, key_set

P = ParamSpec("P")
R = TypeVar("R")

_transforms_active = torch._C._are_functorch_transforms_active


def untraced(function: Callable[P, R], otherwise: Callable[P, R] | None = None, first: int = 0) -> Callable[P, R]:
    """Return a function that compiled code calls without tracing, and that receives plain tensors.

    ``torch.compiler.disable`` would import the compiler. :mod:`torch_ap.core.base.plain_tensors` converts the tensors.

    Args:
        function: called if all arguments are plain tensors, None, numbers or text.
        otherwise: called with other arguments; None for the function itself.
        first: index of the first argument that can be a tensor: 1 for a method.
    """
    general = otherwise or function

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_dynamo_compiling():  # the global `torch` makes the compiler trace this frame
            from torch_ap.core.base.compiled_callers import run

            result: R = run(call, *args, **kwargs)
            return result
        plain = not _transforms_active()
        for value in (*args[first:], *kwargs.values()):  # twice as fast as `all`
            kind = value.__class__
            if kind in WITHOUT_TENSORS or (kind is list and not value):
                continue
            if kind is not torch.Tensor or value.requires_grad or key_bits(key_set(value)) not in PLAIN_KEYS:  # type: ignore[attr-defined, arg-type]
                plain = False
                break
        return function(*args, **kwargs) if plain else call_with_plain(general, args, kwargs)

    # own code object per function: the compiler counts calls per code object, up to a limit
    call.__code__ = call.__code__.replace(co_name=function.__name__)  # type: ignore[attr-defined]
    return call


def untraced_package(package: str) -> None:
    """Make the public functions of a package untraced, in its modules and in the modules that define them."""
    public = {name: vars(sys.modules[package])[name] for name in sys.modules[package].__all__}
    replaced = {function: untraced(function) for function in public.values() if inspect.isfunction(function)}
    homes = {package, *(function.__module__ for function in replaced)}
    for module in [x for name, x in sys.modules.items() if name in homes or name.startswith(f"{package}.")]:
        for name, value in vars(module).copy().items():
            if inspect.isfunction(value) and value in replaced:
                setattr(module, name, replaced[value])


def disable_tracing_of_methods(cls: type, but: Collection[str] = ()) -> None:
    """Exclude a class's public methods from tracing, except those in ``but``, and its properties from ``torch.jit``."""
    for name, method in vars(cls).copy().items():
        if inspect.isfunction(method) and not name.startswith("_"):
            method.__qualname__ = name  # for TypeError messages: callers may not know this base class
            if name not in but:
                setattr(cls, name, untraced(method, first=1))
    properties = {name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, property)}
    cls.__jit_unused_properties__ = sorted(properties)  # type: ignore[attr-defined]
