"""Differences of harmonic numbers against exact fractions and long sums."""

import itertools
import math
from fractions import Fraction

import pytest
import torch

from tests.support.each import each
from tests.support.tolerances import FEW_TERMS, LAST_BITS
from torch_ap.core.measures import ties
from torch_ap.core.measures.ties import harmonic_difference, harmonic_step


def difference(start, length):
    return harmonic_difference(torch.tensor([float(start)]).double(), torch.tensor([float(length)]).double()).item()


@each("start", [0, 1, 2, 15, 16, 17, 100])
@pytest.mark.parametrize("length", [0, 1, 2, 15, 16, 17, 18, 40, 300])
def test_exact_fractions(start, length):
    exact = sum((Fraction(1, start + j) for j in range(1, length + 1)), Fraction(0))
    assert difference(start, length) == pytest.approx(float(exact), rel=4e-16 * 8, abs=0)  # eight roundings


def test_many_at_once_of_any_shape():
    start, length = torch.arange(60).reshape(3, 20).double(), (torch.arange(60) * 7 % 40).reshape(3, 20).double()
    each = [difference(*pair) for pair in zip(start.flatten().tolist(), length.flatten().tolist(), strict=True)]
    assert harmonic_difference(start, length).flatten().tolist() == each
    assert harmonic_difference(start[:0], length[:0]).shape == (0, 20)
    assert harmonic_difference(torch.tensor(3.0).double(), torch.tensor(30.0).double()) == difference(3, 30)


@pytest.mark.parametrize("start", [0, 10**4, 10**8, 10**12])
def test_large_ranks(start):
    exact = math.fsum(1 / (start + j) for j in range(1, 10**5 + 1))
    assert difference(start, 10**5) == pytest.approx(exact, rel=FEW_TERMS)


@pytest.mark.parametrize("start", [0, 1, 4000, 8170, 8191])
def test_every_length_to_the_last_bits(start):
    """The differences around the end of the lookup table are exact to the last bits."""
    exact = list(itertools.accumulate((Fraction(1, start + j) for j in range(1, 42)), initial=Fraction(0)))
    lengths = torch.arange(42).double()
    found = harmonic_difference(torch.full_like(lengths, start), lengths).tolist()
    assert found == pytest.approx([float(x) for x in exact], rel=LAST_BITS, abs=0)
    assert [harmonic_step(start, length) for length in range(42)] == found


def test_lookup_table_equals_sums():
    start, length = torch.arange(3000).double(), torch.arange(3000).flip(0).double()
    summed = ties._sum_terms(start, length)
    # the sums kept are rounded too
    assert harmonic_difference(start, length).tolist() == pytest.approx(summed.tolist(), rel=3e-15, abs=0)
