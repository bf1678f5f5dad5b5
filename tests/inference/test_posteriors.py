import json
import math

import numpy as np
import pytest
import torch
from scipy import stats

from tests.support.each import each
from tests.support.paths import DATA
from tests.support.tolerances import REORDERED, SOLVED
from torch_ap.functional import counts_at_k
from torch_ap.inference.posteriors import f_beta_posterior, precision_posterior, probability_better, recall_posterior

REFERENCE = json.loads((DATA / "inference_reference.json").read_text())


@pytest.mark.parametrize("row", REFERENCE["goutte_gaussier"])
def test_reference_intervals(row):
    tp, fp, fn, prior = (row[name] for name in ("tp", "fp", "fn", "lam"))
    assert precision_posterior(tp, fp, prior=prior).interval() == pytest.approx(row["precision_ci95"], abs=SOLVED)
    assert recall_posterior(tp, fn).interval() == pytest.approx(row["recall_ci95"], abs=SOLVED)
    f1 = f_beta_posterior(tp, fp, fn)
    assert [f1.quantile(p) for p in (0.025, 0.5, 0.975)] == pytest.approx(row["f1_quantiles"], abs=SOLVED)
    assert f1.interval() == pytest.approx(row["f1_quantiles"][::2], abs=SOLVED)


@pytest.mark.parametrize("row", REFERENCE["dirichlet_compare"])
def test_reference_comparisons(row):
    assert probability_better(row["n1"], row["n2"], prior=row["alpha"]) == pytest.approx(
        row["p_pi1_gt_pi2"], abs=REORDERED
    )


@each("beta", [0.5, 1.0, 2.0])
@each("counts", [(20, 7, 11), (2, 1, 2), (0, 3, 4), (900, 40, 300), (5, 0, 0)])
def test_f_beta_shares_its_gamma(counts, beta):
    rng = np.random.default_rng(0)
    u, v, w = (rng.gamma(x + 0.5, size=100_000) for x in counts)
    f = (1 + beta**2) * u / ((1 + beta**2) * u + v + beta**2 * w)
    posterior = f_beta_posterior(*counts, beta=beta)
    for p in (0.025, 0.2, 0.5, 0.9, 0.975):
        # 4 standard errors of 100,000 draws
        assert posterior.cdf(np.quantile(f, p)) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 100_000))
        assert posterior.cdf(posterior.quantile(p)) == pytest.approx(p, abs=SOLVED)
    assert posterior.mean == pytest.approx(f.mean(), abs=4 * f.std() / 100_000**0.5)  # likewise
    assert posterior.variance == pytest.approx(f.var(), rel=0.03)  # 7 standard errors of a variance of 100,000 draws
    independent = 2 * (a := rng.beta(20.5, 7.5, 100_000)) * (b := rng.beta(20.5, 11.5, 100_000)) / (a + b)
    if counts == (20, 7, 11) and beta == 1:
        assert independent.std() < 0.93 * f.std()


def test_quadrature_meets_the_closed_form():
    closed, near = f_beta_posterior(20, 7, 11), f_beta_posterior(20, 7, 11, beta=1 + 1e-12)
    for x in (0.3, 0.5, 0.7, 0.9):
        assert near.cdf(x) == pytest.approx(float(closed.cdf(x)), abs=SOLVED)
    assert (closed.cdf(0.0), closed.cdf(1.0)) == (0, 1)


def test_moments_meet_the_closed_form():
    """F_1 = 2 U / (1 + U) with U ~ Beta(tp, fp + fn)."""
    found, u = f_beta_posterior(3, 2, 4), stats.beta(3.5, 2.5 + 4.5)
    mean = u.expect(lambda x: 2 * x / (1 + x))
    assert found.mean == pytest.approx(mean, abs=SOLVED)
    assert found.variance == pytest.approx(u.expect(lambda x: (2 * x / (1 + x) - mean) ** 2), abs=SOLVED)


def test_draws_do_not_matter_to_wins():
    rng = np.random.default_rng(0)
    drawn = rng.dirichlet([12.5, 5.5, 30.5], 400_000)
    # 6 standard errors of 400,000 draws
    assert probability_better(12, 5) == pytest.approx((drawn[:, 0] > drawn[:, 1]).mean(), abs=0.002)
    assert probability_better(4, 4) == pytest.approx(0.5)


def test_priors_and_moments():
    uniform = precision_posterior(3, 1, prior="uniform")
    assert (uniform.a, uniform.b) == (4, 2)
    assert uniform.mean == stats.beta(4, 2).mean()
    assert uniform.variance == pytest.approx(stats.beta(4, 2).var())
    assert precision_posterior(3, 1, prior=0.1).a == 3.1


def test_quantiles_of_the_ends():
    for posterior in (precision_posterior(3, 1), f_beta_posterior(3, 1, 2), f_beta_posterior(3, 1, 2, beta=2.0)):
        assert (posterior.quantile(0), posterior.quantile(1)) == (0, 1)


def test_bad_arguments_raise_by_name():
    for call, name in (
        (lambda: precision_posterior(-1, 2), "tp"),
        (lambda: recall_posterior(1, float("nan")), "fn"),
        (lambda: f_beta_posterior(1, 2, 3, beta=0), "beta"),
        (lambda: f_beta_posterior(1, 2, 3, prior="flat"), "prior"),
        (lambda: probability_better(1, 2, prior=0), "prior"),
        (lambda: precision_posterior(1, 2).interval(1), "confidence_level"),
        (lambda: f_beta_posterior(1, 2, 3).quantile(-0.1), "p"),
        (lambda: f_beta_posterior(1, 2, 3).cdf(float("nan")), "value"),
        (lambda: precision_posterior(1, 2).quantile(1.5), "p"),
        (lambda: precision_posterior(1, 2).quantile(float("nan")), "p"),
        (lambda: precision_posterior(1, 2).cdf("half"), "value"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`"):
            call()


def test_a_value_outside_the_range_has_probability_0_or_1_below_it():
    for posterior in (precision_posterior(3, 1), f_beta_posterior(3, 1, 2), f_beta_posterior(3, 1, 2, beta=2)):
        assert [posterior.cdf(x) for x in (-math.inf, -1, 0, 1, 2, math.inf)] == [0, 0, 0, 1, 1, 1]
        assert (posterior.quantile(0), posterior.quantile(1)) == (0, 1)


def test_counts_come_as_the_counting_functions_give_them():
    found = counts_at_k(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 1, 0]), top_k=2)
    assert f_beta_posterior(found.tp, found.fp, found.fn) == f_beta_posterior(1, 1, 1)
    assert precision_posterior(np.int64(3), np.float32(1)) == precision_posterior(3, 1)
    assert probability_better(torch.tensor(12), 5) == probability_better(12, 5)
    with pytest.raises(ValueError, match=r"`tp` .*finite .*at least 0"):
        precision_posterior(torch.tensor([1, 2]), 1)
