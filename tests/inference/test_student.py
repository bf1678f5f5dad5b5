import math

import pytest
import torch
from scipy import stats

from tests.support.tolerances import DOZENS_OF_TERMS, REORDERED, SOLVED
from torch_ap.inference.record import normal_quantile, student_quantile, student_tail


@pytest.mark.parametrize("level", [0.01, 0.5, 0.8, 0.95, 0.999, 0.999999])
def test_quantiles_equal_scipy(level):
    df = torch.tensor([1, 1.5, 2, 3, 9.7, 49, 244, 999, 1000, 1000.5, 5000, 1e6, 1e12], dtype=torch.float64)
    wanted = torch.from_numpy(stats.t.isf((1 - level) / 2, df.numpy()))
    torch.testing.assert_close(student_quantile(level, df), wanted, rtol=SOLVED, atol=REORDERED)
    assert normal_quantile(level) == pytest.approx(stats.norm.isf((1 - level) / 2), rel=REORDERED)


def test_tails_equal_scipy():
    for t in (0.0, 0.1, 1.0, 3.0, 40.0):
        for df in (1, 2, 7, 100, 900):
            assert student_tail(t, df) == pytest.approx(2 * stats.t.sf(t, df), rel=SOLVED)


@pytest.mark.parametrize("level", [0.5, 0.95, 1 - 1e-6, 1 - 1e-12])
def test_quantiles_to_the_last_digits(level):
    """One and two degrees of freedom have closed forms; many approach the normal distribution."""
    tail = (1 - level) / 2
    found = student_quantile(level, torch.tensor([1.0, 2.0, 1e15], dtype=torch.float64))
    closed = [1 / math.tan(math.pi * tail), (1 - 2 * tail) / math.sqrt(2 * tail * (1 - tail)), stats.norm.isf(tail)]
    # older versions of scipy are right to 1e-10
    assert found.tolist() == pytest.approx(closed, rel=SOLVED)
    assert normal_quantile(level) == pytest.approx(stats.norm.isf(tail), rel=DOZENS_OF_TERMS)


def test_no_degrees_of_freedom_is_nan():
    assert torch.isnan(student_quantile(0.95, torch.tensor([0.0, -1.0, torch.nan], dtype=torch.float64))).all()
