"""Copies in memory allocated by NumPy contain the values of torch's copies."""

import pytest
import torch

from tests.support.each import each
from torch_ap.core.base import arrays

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
LARGE = 5_000_000  # bytes


@each("dtype", DTYPES)
@each("size", [0, 1, LARGE])
def test_copied(dtype, size):
    size = size // dtype.itemsize if size == LARGE else size
    values = torch.arange(size).remainder_(100).to(dtype)
    copy = arrays.copy(values)
    assert torch.equal(copy, values)
    assert copy.dtype == dtype
    values += 1 if dtype != torch.bool else torch.ones_like(values)
    assert size == 0 or not torch.equal(copy, values)


@pytest.mark.parametrize("size", [6, 3_000_000])
def test_copied_of_any_layout_is_contiguous(size):
    values = torch.arange(size).reshape(3, -1).t()
    copy = arrays.copy(values)
    assert copy.is_contiguous()
    assert torch.equal(copy, values)


@each("dtype", DTYPES)
@each("sizes", [(0,), (3,), (0, 4, 2), (LARGE, 0, LARGE)])
@each("width", [(), (2,)])
def test_joined(dtype, sizes, width):
    sizes = [size // dtype.itemsize - place if size == LARGE else size for place, size in enumerate(sizes)]
    parts = [torch.arange(2 * size).remainder_(100).to(dtype).reshape(-1, 2)[:, : len(width) + 1] for size in sizes]
    parts = [part if width else part[:, 0] for part in parts]
    assert torch.equal(arrays.concatenate(parts), torch.cat(parts))
    assert arrays.concatenate(parts).dtype == dtype


def test_only_large_copies_take_the_memory_of_numpy():
    """Torch cannot resize memory of NumPy."""
    small, large = torch.zeros(1000), torch.zeros(1 << 20)
    for make in (arrays.copy, lambda part: arrays.concatenate([part, part])):
        assert make(small).untyped_storage().resizable()
        assert not make(large).untyped_storage().resizable()


@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float16), (torch.float16, torch.float32)])
def test_parts_of_several_dtypes_are_promoted(dtypes):
    parts = [torch.full((3_000_000,), 1e4, dtype=dtype) * 10 for dtype in dtypes]
    assert arrays.concatenate(parts).dtype == torch.float32
    assert torch.equal(arrays.concatenate(parts), torch.cat(parts))


def test_parts_of_another_shape_are_left_to_torch():
    parts = [torch.empty(0), torch.ones(3_000_000, 2)]
    assert torch.equal(arrays.concatenate(parts), parts[1])


def test_graphs_are_kept():
    part = torch.ones(3_000_000, requires_grad=True)
    assert arrays.concatenate([part, part.detach()]).requires_grad


def test_a_single_part_is_not_copied():
    part = torch.zeros(3)
    assert arrays.concatenate([part]) is part
