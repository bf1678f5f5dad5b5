"""Products of float32 in float32, whatever torch was told about matrix products elsewhere."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def full_precision(device: torch.device) -> Generator[None, None, None]:
    """No autocast, and no TF32 or bfloat16 in place of float32: training asks for those, and their scores tie."""
    backends: Any = torch.backends
    by_backend = hasattr(backends.mkldnn, "matmul")  # since torch 2.9
    before = _by_backend("ieee", "ieee") if by_backend else _for_all("highest")
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        _by_backend(*before) if by_backend else _for_all(*before)


def _by_backend(*wanted: str) -> list[str]:
    """Set the precision of products on CUDA and on CPU; what they were."""
    backends: Any = torch.backends
    places = (backends.cuda.matmul, backends.mkldnn.matmul)
    before = [place.fp32_precision for place in places]
    for place, precision in zip(places, wanted, strict=True):
        place.fp32_precision = precision
    return before


def _for_all(wanted: str) -> list[str]:
    """The same by the setting of older versions."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(wanted)
    return [before]
