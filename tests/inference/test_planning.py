"""Planning of samples: against statsmodels, the formulas, and simulated pilots."""

import math

import pytest
import torch
from scipy import stats

from tests.support.each import each
from tests.support.tolerances import SOLVED
from torch_ap.inference import (
    average_precision_interval,
    compare_per_query,
    mean_interval,
    plan_comparison,
    plan_interval,
    proportion_interval,
    reported_average_precision_interval,
)

PILOT = reported_average_precision_interval(0.6, m=50)


def comparison(count=40, seed=0):
    a, b = torch.rand(2, count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return compare_per_query(a, b)


def test_units_fall_with_the_square_of_the_half_width():
    width = float(PILOT.high - PILOT.low) / 2
    plan = plan_interval(PILOT, 50, [width, width / 2, width / 4])
    assert plan.units.tolist() == pytest.approx([50, 200, 800], abs=1)  # rounded up
    assert (plan.units_low <= plan.units).all()
    assert (plan.units <= plan.units_high).all()
    assert plan_interval(PILOT, 50, width).units.tolist() == plan.units[:1].tolist()


def test_the_range_has_the_quantiles_of_chi_square_and_of_the_value():
    plan = plan_interval(PILOT, 50, 0.05)
    ratio = stats.norm.isf(0.1) / stats.norm.isf(0.025)
    logits = torch.stack([PILOT.low, PILOT.estimate, PILOT.high]).logit()
    low, p, high = torch.sigmoid(logits[1] + ratio * (logits - logits[1])).tolist()
    variances = [x * (1 - x) / (p * (1 - p)) for x in (low, p, high)]
    needed = 50 * (float(PILOT.high - PILOT.low) / 2 / 0.05) ** 2
    wanted = needed * min(variances) * 49 / stats.chi2.isf(0.1, 49)
    assert float(plan.units_low) == math.floor(wanted)
    assert low > 0.5
    assert float(plan.units_high) == math.ceil(needed * max(variances) * 49 / stats.chi2.isf(0.9, 49))
    middle = plan_interval(reported_average_precision_interval(0.5, m=50), 50, 0.05)
    half = float(middle.units_high / middle.units * stats.chi2.isf(0.9, 49) / 49)
    assert half == pytest.approx(1, abs=0.01)  # p (1 - p) has its maximum at the estimate


def test_pilots_of_functions_and_metrics():
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(60, generator=generator)
    assert plan_interval(mean_interval(values), 60, 0.02).units > 60
    target = (torch.rand(500, generator=generator) < 0.2).long()
    interval = average_precision_interval(torch.randn(500, generator=generator) + target, target)
    assert plan_interval(interval, int(target.sum()), 0.02).units > int(target.sum())


@each("units", [10, 40, 300])
def test_power_is_that_of_the_t_test(units):
    pilot = comparison()
    effect = 0.05 / (float(pilot.standard_error) * 40**0.5)
    plan = plan_comparison(pilot, 40, 0.05, planned_units=[units])
    t, shift = stats.t.isf(0.025, units - 1), effect * units**0.5
    wanted = stats.nct.sf(t, units - 1, shift) + stats.nct.cdf(-t, units - 1, shift)
    # the central t at the shifted quantile instead of the noncentral t
    assert float(plan.power[0]) == pytest.approx(wanted, abs=0.03)


def test_needed_units_have_the_requested_power():
    pilot = comparison()
    plan = plan_comparison(pilot, 40, -0.1, power=0.9)
    needed = int(plan.needed)
    around = plan_comparison(pilot, 40, 0.1, planned_units=[needed - 1, needed]).power
    assert around[0] < 0.9 <= around[1]
    assert plan.needed_low < plan.needed < plan.needed_high
    found = plan_comparison(pilot, 40, float(plan.smallest_difference)).power
    assert float(found[0]) == pytest.approx(0.9, abs=SOLVED)
    certain = plan_comparison(pilot, 40, 1e3)
    assert (int(certain.needed), float(certain.power[0])) == (2, 1.0)


def test_small_pilots_warn():
    with pytest.warns(UserWarning, match="pilot of 10 units"):
        plan = plan_interval(reported_average_precision_interval(0.6, m=10), 10, 0.05)
    assert "too small" in plan.reason
    with pytest.warns(UserWarning, match="pilot of 10 units"):
        assert plan_comparison(comparison(10), 10, 0.1).reason


@each(
    "argument, value",
    [
        ("units", 1),
        ("half_width", 0),
        ("half_width", []),
        ("half_width", [0.1, -1]),
        ("interval", 3),
        ("interval", mean_interval(torch.tensor([0.5]), method="t")),
        ("interval", reported_average_precision_interval(1, m=50)),
        ("interval", proportion_interval(0, 50, method="clopper-pearson")),
    ],
)
def test_bad_arguments_of_intervals(argument, value):
    with pytest.raises((ValueError, TypeError), match=f"`{argument}`"):
        plan_interval(**{"interval": PILOT, "units": 50, "half_width": 0.1, argument: value})


@each(
    "argument, value",
    [
        ("units", 1),
        ("difference", 0),
        ("difference", math.inf),
        ("difference", 1e-12),
        ("power", 0.01),
        ("power", 1),
        ("planned_units", [1]),
        ("planned_units", [2.5]),
        ("comparison", PILOT),
        ("comparison", compare_per_query(torch.rand(3), torch.rand(3)).__class__),
    ],
)
def test_bad_arguments_of_comparisons(argument, value):
    with pytest.raises((ValueError, TypeError), match=f"`{argument}`"):
        plan_comparison(**{"comparison": comparison(), "units": 40, "difference": 0.1, argument: value})
    same = compare_per_query(torch.ones(40), torch.ones(40))
    with pytest.raises(ValueError, match="`comparison`"):
        plan_comparison(same, 40, 0.1)
