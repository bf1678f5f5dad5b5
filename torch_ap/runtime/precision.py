"""Products of float32 in float32, whatever torch was told about matrix products elsewhere."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

_FULL = ("none", "ieee")
_lock = threading.Lock()
_within = 0  # how many threads are
_undo: list[Callable[[], None]] = []


@contextmanager
def full_precision(device: torch.device) -> Generator[None, None, None]:
    """No autocast, and no TF32 or bfloat16 in place of float32: training asks for those, and their scores tie.

    Those settings are of the whole process: the first thread changes them, and the last one changes them back.
    """
    _enter()
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        _leave()


def _enter() -> None:
    global _within
    with _lock:
        if not _within:
            _undo.extend(_by_backend() if hasattr(torch.backends.mkldnn, "matmul") else _for_all())
        _within += 1


def _leave() -> None:
    global _within
    with _lock:
        _within -= 1
        while not _within and _undo:
            _undo.pop()()


def _by_backend() -> Generator[Callable[[], None], None, None]:
    """Set what lowers the precision, the general before the special, which so goes on inheriting it; how to undo it.

    The settings that torch has had since 2.9.
    """
    backends: Any = torch.backends
    for place in (backends, backends.cudnn, backends.cuda.matmul, backends.mkldnn.matmul):
        before = place.fp32_precision
        if before not in _FULL:
            place.fp32_precision = "ieee"
            yield partial(setattr, place, "fp32_precision", before)


def _for_all() -> Generator[Callable[[], None], None, None]:
    """The same by the setting of older versions."""
    before = torch.get_float32_matmul_precision()
    if before != "highest":
        torch.set_float32_matmul_precision("highest")
        yield partial(torch.set_float32_matmul_precision, before)
