"""Sums, counts and maxima of concatenated rankings."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tolerances import LAST_BITS
from torch_ap.core.ranking import segments

LENGTHS = st.lists(st.integers(0, 4), min_size=1, max_size=6)


@given(LENGTHS)
def test_offsets_ids_and_counts(lengths):
    offsets = segments.from_counts(torch.tensor(lengths))
    ids = segments.ids(offsets)
    assert ids.tolist() == [s for s, length in enumerate(lengths) for _ in range(length)]
    assert segments.count(ids, len(lengths)).tolist() == lengths


@given(LENGTHS, st.randoms(use_true_random=False))
def test_totals_and_maxima(lengths, random):
    parts = [[random.choice([0.0, 0.25, 0.5, 1.0]) for _ in range(length)] for length in lengths]
    values = torch.tensor([x for part in parts for x in part], dtype=torch.float64)
    offsets = segments.from_counts(torch.tensor(lengths))
    assert segments.total(values, offsets).tolist() == [sum(part) for part in parts]
    assert segments.total((values * 4).long(), offsets).tolist() == [int(4 * sum(part)) for part in parts]
    expected = [max(part[i:]) for part in parts for i in range(len(part))]
    assert segments.maximum_from_right(values, offsets).tolist() == expected


def test_long_sums_keep_their_digits(generator):
    values = torch.rand(3_000_000, generator=generator, dtype=torch.float64)
    offsets = torch.tensor([0, 1_000_000, 3_000_000])
    exact = [math.fsum(values[:1_000_000].tolist()), math.fsum(values[1_000_000:].tolist())]
    assert segments.total(values, offsets).tolist() == pytest.approx(exact, rel=LAST_BITS)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool])
def test_picks_equal_torch(dtype):
    values = torch.tensor([0, 3, -2, 5, 0]).to(dtype)
    for places in (
        torch.tensor([4, 1, 1]),
        torch.tensor([True, False, True, True, False]),
        torch.tensor([], dtype=int),
    ):
        found = segments.pick(values, places)
        assert found.dtype == dtype
        assert torch.equal(found, values[places])
