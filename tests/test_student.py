import pytest
import torch
from scipy import stats

from torch_ap.inference.student import normal_quantile, student_quantile, student_tail


@pytest.mark.parametrize("level", [0.01, 0.5, 0.8, 0.95, 0.999, 0.999999])
def test_quantiles_equal_scipy(level):
    df = torch.tensor([1, 1.5, 2, 3, 9.7, 49, 244, 999, 1000, 1000.5, 5000, 1e6, 1e12], dtype=torch.float64)
    wanted = torch.from_numpy(stats.t.ppf((1 + level) / 2, df.numpy()))
    torch.testing.assert_close(student_quantile(level, df), wanted, rtol=1e-9, atol=1e-12)
    assert normal_quantile(level) == pytest.approx(stats.norm.ppf((1 + level) / 2), rel=1e-12)


def test_tails_equal_scipy():
    t = torch.tensor([0.0, 0.1, 1.0, 3.0, 40.0], dtype=torch.float64)[:, None]
    df = torch.tensor([1.0, 2, 7, 100, 900], dtype=torch.float64).expand(5, 5)
    wanted = torch.from_numpy(2 * stats.t.sf(t.numpy(), df.numpy()))
    torch.testing.assert_close(student_tail(t.expand(5, 5), df), wanted, rtol=1e-11, atol=0)


def test_no_degrees_of_freedom_is_nan():
    assert torch.isnan(student_quantile(0.95, torch.tensor([0.0, -1.0, torch.nan], dtype=torch.float64))).all()
