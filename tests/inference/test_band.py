import math

import pytest
import torch

from tests.support.tolerances import REORDERED
from torch_ap.functional import binary_average_precision
from torch_ap.inference import average_precision_interval, precision_band


def sample(n=400):
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(n, generator=generator) < 0.2).long()
    return torch.randn(n, generator=generator, dtype=torch.float64) + target, target


@pytest.mark.parametrize("design", ["iid", "stratified"])
def test_its_mean_is_interpolated_ap(design):
    preds, target = sample()
    band = precision_band(preds, target, design=design)
    assert band.estimate.shape == band.low.shape == (101,)
    wanted = binary_average_precision(preds, target, interpolation="101-point")
    assert float(band.estimate.mean()) == pytest.approx(float(wanted))
    assert (band.low <= band.high).all()
    inside = (band.low <= band.estimate) & (band.estimate <= band.high)
    assert inside.double().mean() > 0.9
    narrow = precision_band(preds, target, design=design, confidence_level=0.5)
    assert (narrow.high - narrow.low <= band.high - band.low).all()


def test_one_level_for_all_is_the_interval():
    preds, target = sample()
    levels = torch.tensor([0.4], dtype=torch.float64)
    band = precision_band(preds, target, levels, n_resamples=200)
    whole = average_precision_interval(
        preds, target, method="bootstrap-percentile", interpolation=levels, n_resamples=200
    )
    assert (float(band.low), float(band.high)) == pytest.approx((float(whole.low), float(whole.high)), abs=REORDERED)
    assert float(band.standard_error) == pytest.approx(float(whole.standard_error))


def test_edges_and_bad_arguments():
    few = precision_band(torch.arange(3.0), torch.tensor([0, 1, 0]))
    assert math.isnan(few.low[0])
    assert "fewer than two hits" in few.reason
    preds, target = sample(20)
    for name, value in (("confidence_level", 0), ("design", "x"), ("recall_levels", torch.tensor([2.0]))):
        with pytest.raises(ValueError, match=f"`{name}`"):
            precision_band(preds, target, **{name: value})
    for name, value in (("recall_levels", [0.1]), ("generator", 100)):
        with pytest.raises(TypeError, match=f"`{name}` must be a .* got"):
            precision_band(preds, target, **{name: value})


@pytest.mark.parametrize(
    ("levels", "covered"),
    [
        ([0.0, 0.3, 0.5, 0.9], None),
        ([0.0, 0.1, 0.9], "95% covered .585 to .944 at recall 0.1"),
        ([0.3, 1.0], "95% covered .172 to .869 at recall 1"),
        ([0.05, 0.95], "95% covered .585 to .944 at recall 0.1 and .172 to .869 at recall 1"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_levels_near_the_ends_have_a_reason(levels, covered, dtype):
    preds, target = sample()
    recall = torch.tensor(levels, dtype=dtype)
    reason = precision_band(preds, target, recall, n_resamples=50).reason
    assert reason == (f"likely too high or narrow: {covered}" if covered else "")
    fixed = precision_band(preds, target, recall, n_resamples=50, design="stratified").reason
    assert bool(fixed) == bool(covered)
    assert ".585" not in fixed
    assert not precision_band(preds, target, recall, n_resamples=50, simultaneous=True).reason
