"""Copies in memory of NumPy's hold what torch's would."""

import pytest
import torch

from torch_ap.core import memory

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int16,
    torch.uint8,
    torch.bool,
)
SIZES = (0, 1, 5_000_000)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_copied(dtype, size):
    values = torch.arange(size).remainder_(100).to(dtype)
    copy = memory.copied(values)
    assert torch.equal(copy, values)
    assert copy.dtype == dtype
    values += 1 if dtype != torch.bool else torch.ones_like(values)
    assert size == 0 or not torch.equal(copy, values)


def test_copied_of_any_layout_is_contiguous():
    values = torch.arange(3_000_000).reshape(3, -1).t()
    copy = memory.copied(values)
    assert copy.is_contiguous()
    assert torch.equal(copy, values)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(0,), (3,), (0, 4, 2), (2_500_000, 0, 2_500_001)])
@pytest.mark.parametrize("width", [(), (2,)])
def test_joined(dtype, sizes, width):
    parts = [torch.arange(2 * size).remainder_(100).to(dtype).reshape(-1, 2)[:, : len(width) + 1] for size in sizes]
    parts = [part if width else part[:, 0] for part in parts]
    assert torch.equal(memory.joined(parts), torch.cat(parts))
    assert memory.joined(parts).dtype == dtype


def test_parts_of_several_dtypes_are_promoted():
    parts = [torch.zeros(2_000_000), torch.ones(2_000_000, dtype=torch.float16)]
    assert memory.joined(parts).dtype == torch.float32
    assert torch.equal(memory.joined(parts), torch.cat(parts))


def test_a_single_part_is_not_copied():
    part = torch.zeros(3)
    assert memory.joined([part]) is part
