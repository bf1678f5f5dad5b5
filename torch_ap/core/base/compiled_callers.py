"""Calls from compiled code; a module of its own, because the import of the compiler takes seconds."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


@torch.compiler.disable  # type: ignore[untyped-decorator]
def run(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the function without the compiler."""
    return function(*args, **kwargs)
