"""Products in float32 under any settings of torch, which are restored afterwards."""

import pytest
import torch

from torch_ap.core.base.arrays import full_precision

BY_BACKEND = hasattr(torch.backends.mkldnn, "matmul")
CPU = torch.device("cpu")


def precision_backends():
    backends = torch.backends
    return backends, backends.cudnn, backends.cuda.matmul, backends.mkldnn.matmul


def settings():
    return (
        [place.fp32_precision for place in precision_backends()]
        if BY_BACKEND
        else [torch.get_float32_matmul_precision()]
    )


FULL = ["ieee"] if BY_BACKEND else ["highest"]
LOWERED = {
    "all products": lambda: torch.set_float32_matmul_precision("medium"),
    "everything": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
    "cuda": lambda: setattr(torch.backends.cudnn, "fp32_precision", "tf32"),
    "products on cpu": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "both": lambda: (LOWERED["everything"](), LOWERED["products on cpu"]()),
}


@pytest.fixture(params=LOWERED if BY_BACKEND else ["all products"])
def lowered(request):
    before = settings()
    LOWERED[request.param]()
    yield request.param, before
    torch.set_float32_matmul_precision("highest")
    if BY_BACKEND:
        for place, precision in zip(precision_backends(), before, strict=True):
            place.fp32_precision = precision


def test_settings_are_as_they_were(lowered):
    (name, unlowered), before = lowered, settings()
    with full_precision(CPU), full_precision(CPU):
        assert {*settings()} <= {*FULL, "none"}
    assert settings() == before
    if name == "everything":  # inherited values are not stored explicitly
        torch.backends.fp32_precision = unlowered[0]
        assert settings() == unlowered


@pytest.mark.usefixtures("lowered")
def test_the_thread_that_leaves_last_restores_them():
    before = settings()
    one, other = full_precision(CPU), full_precision(CPU)
    one.__enter__()
    inside = settings()
    other.__enter__()
    one.__exit__(None, None, None)
    assert settings() == inside != before
    other.__exit__(None, None, None)
    assert settings() == before


def test_full_precision_is_not_set_again(monkeypatch):
    monkeypatch.setattr(torch._C, "_set_fp32_precision_setter", None, raising=False)
    monkeypatch.setattr(torch, "set_float32_matmul_precision", None)
    before = settings()
    with full_precision(CPU):  # calls no setter, they are removed above
        assert settings() == before
