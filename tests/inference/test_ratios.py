"""Difference of two ratios: the interval equals that of a jackknife, and degenerate units have none."""

import pytest
import torch

from torch_ap.inference.ratios import compare_ratios
from torch_ap.inference.record import student_quantile


def drawn(seed, units):
    """Draw true positives, decisions and positives of units for two systems; return x and y of their F1."""
    generator = torch.Generator().manual_seed(seed)
    m = torch.randint(1, 9, (units,), generator=generator).double()
    sides = []
    for share in (0.7, 0.5):
        tp = (m * (torch.rand(units, generator=generator) * 0.3 + share)).floor()
        n = tp + torch.randint(0, 4, (units,), generator=generator)
        sides.append((2 * tp, n + m))
    return sides


def test_the_standard_error_is_close_to_the_jackknife():
    for seed in range(5):
        a, b = drawn(seed, 80)
        found = compare_ratios(a, b, confidence_level=0.9)
        difference = float(a[0].sum() / a[1].sum() - b[0].sum() / b[1].sum())
        assert float(found.difference) == pytest.approx(difference)
        left = [(x.sum() - x, y.sum() - y) for x, y in (a, b)]
        without = left[0][0] / left[0][1] - left[1][0] / left[1][1]
        error = float(((without - without.mean()).square().sum() * 79 / 80).sqrt())
        # both are the variance to first order
        assert float(found.standard_error) == pytest.approx(error, rel=0.02)
        half = float(found.standard_error * student_quantile(0.9, torch.tensor(79.0, dtype=torch.float64)))
        assert (float(found.low), float(found.high)) == pytest.approx((difference - half, difference + half))
        assert (float(found.p_value) < 0.1) == (float(found.low) > 0 or float(found.high) < 0)


def test_units_without_spread_have_no_interval():
    a, b = drawn(0, 20)
    same = compare_ratios(a, a, confidence_level=0.95)
    assert (float(same.difference), float(same.p_value)) == (0, 1)
    assert same.low.isnan()
    one = compare_ratios(*((x[:1], y[:1]) for x, y in (a, b)), confidence_level=0.95)
    assert one.low.isnan()
    assert one.p_value.isnan()
    assert "no spread" in one.reason
    none = compare_ratios((a[0] * 0, a[1] * 0), b, confidence_level=0.95)
    assert none.difference.isnan()
    assert none.high.isnan()
