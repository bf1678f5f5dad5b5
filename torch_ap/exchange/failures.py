"""An error of one rank, raised by all of them, where the others would otherwise wait for it."""

import builtins
import contextlib
from collections.abc import Callable, Sequence
from typing import NoReturn

import torch
from torch import Tensor


def raise_everywhere(
    failure: Exception | None, gather: Callable[[Tensor], Sequence[Tensor]], device: torch.device
) -> NoReturn:
    """Raise the error of the first rank that has one, of the same type and message on all.

    Args:
        failure: what went wrong here; None where nothing did.
        gather: a tensor of each rank, (B,) uint8 of any length, to those of all.
        device: where tensors must lie to be sent.
    """
    told = "" if failure is None else f"{type(failure).__name__}\n{failure}"
    mine = torch.frombuffer(bytearray(b"\0" + told.encode(errors="backslashreplace")), dtype=torch.uint8).to(device)
    texts = [bytes(x.tolist())[1:].decode() for x in gather(mine)]
    name, _, message = next(text for text in texts if text).partition("\n")
    kind = getattr(builtins, name, None)
    error: Exception = RuntimeError(f"{name}: {message}")  # of another library, or of more than a message
    if isinstance(kind, type) and issubclass(kind, Exception):
        with contextlib.suppress(TypeError):
            error = kind(message)
    raise error from failure
