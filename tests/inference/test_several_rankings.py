"""Comparison of several systems on the same items, of two over repeated splits; interval of printed numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from tests.support.tolerances import REORDERED, SOLVED
from torch_ap.functional import binary_average_precision
from torch_ap.inference import (
    best_of,
    compare_rankings,
    compare_splits,
    compare_systems,
    reported_average_precision_interval,
)
from torch_ap.inference.published import normal_precision, normal_recall, published_interval
from torch_ap.inference.random_ranking import RandomHits


def systems(count=4, n=300, seed=0, spread=0.3):
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(n, generator=generator) < 0.15).long()
    shared = torch.randn(n, generator=generator, dtype=torch.float64)
    own = torch.randn(count, n, generator=generator, dtype=torch.float64)
    return shared + own + target * (1 + spread * torch.arange(count)[:, None]), target


def test_holm_is_compare_rankings_for_all_pairs():
    preds, target = systems()
    found = compare_systems(preds, target, test="influence", design="iid")
    pairs = {
        (i, j): compare_rankings(preds[i], preds[j], target, method="influence", design="iid")
        for i in range(4)
        for j in range(i)
    }
    assert found.means.tolist() == pytest.approx([binary_average_precision(x, target).item() for x in preds])
    for (i, j), pair in pairs.items():
        assert found.p_value[i, j] == found.p_value[j, i]
        assert found.p_value[i, j].item() == pytest.approx(float(pair.p_value))
        assert found.difference[i, j].item() == pytest.approx(float(pair.difference))
    ordered = sorted(pairs.values(), key=lambda pair: pair.p_value)
    raised = np.maximum.accumulate([float(p.p_value) * (6 - place) for place, p in enumerate(ordered)]).clip(max=1)
    wanted = {(float(p.value_a), float(p.value_b)): x for p, x in zip(ordered, raised, strict=True)}
    for (i, j), pair in pairs.items():
        assert found.adjusted_p_value[i, j].item() == pytest.approx(wanted[float(pair.value_a), float(pair.value_b)])
    assert (found.p_value.diagonal() == 1).all()


def test_two_systems_need_no_adjustment():
    preds, target = systems(2)
    found = compare_systems(preds, target)
    assert found.adjusted_p_value[0, 1].item() == found.p_value[0, 1].item() == compare_rankings(*preds, target).p_value


def test_tukey_of_two_systems_is_the_swap_test():
    preds, target = systems(2, spread=0.2)
    how = {"n_resamples": 2000}
    found = compare_systems(preds, target, method="tukey", **how).adjusted_p_value[0, 1].item()
    swap = compare_rankings(*preds, target, method="permutation", **how).p_value.item()
    # 4 standard errors of a difference of two shares of 2,000 each
    assert found == pytest.approx(swap, abs=4 * math.sqrt(swap / 1000))
    assert compare_systems(preds, target, method="tukey", **how).adjusted_p_value[0, 1] == found


def test_tukey_depends_on_ranks_only_and_detects_differences():
    preds, target = systems(3, spread=1.0)
    found = compare_systems(preds, target, method="tukey", n_resamples=200)
    other = compare_systems(preds.exp(), target, method="tukey", n_resamples=200)
    assert torch.equal(found.adjusted_p_value, other.adjusted_p_value)
    assert found.adjusted_p_value[0, 2] < 0.02
    shuffled = compare_systems(torch.stack([preds[1]] * 3), target, method="tukey", n_resamples=50)
    assert (shuffled.adjusted_p_value == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["holm", "tukey"])
def test_family_wise_error(method):
    told = []
    for seed in range(60):
        preds, target = systems(4, 200, seed, spread=0.0)
        found = compare_systems(preds, target, method=method, n_resamples=99)
        told.append(bool((found.adjusted_p_value <= 0.05).any()))
    assert np.mean(told) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 60)


def test_bad_systems():
    preds, target = systems(2)
    for bad in (preds[0], preds[:1]):
        with pytest.raises(ValueError, match=r"`preds` must have shape \(S, N\)"):
            compare_systems(bad, target)
    for name in ("method", "test", "design"):
        with pytest.raises(ValueError, match=f"`{name}` .*one of .*got 'x'"):
            compare_systems(preds, target, **{name: "x"})
    with pytest.raises(ValueError, match=r"`target` must have shape \(300,\), one per item, got \(5,\)"):
        compare_systems(preds, target[:5])
    columns = r"`preds` must have shape \(S, N\), one system per row, got \(300, 2\) for `target` of shape \(300,\)"
    rows = r"`preds` must be a tensor .*, got list; write `torch.stack\(preds\)`$"
    for compare in (compare_systems, best_of):
        with pytest.raises(ValueError, match=f"{columns}; write `preds.t\\(\\)`"):
            compare(preds.t(), target)
        with pytest.raises(TypeError, match=rows):
            compare(list(preds), target)
    with pytest.raises(ValueError, match=r"`preds` .*NaN.* at index \(1, 3\)"):
        compare_systems(preds.index_put((torch.tensor(1), torch.tensor(3)), torch.tensor(torch.nan).double()), target)
    nothing = compare_systems(preds, torch.zeros_like(target), method="tukey")
    assert nothing.adjusted_p_value[0, 1].isnan()
    assert "no hits" in nothing.reason


def two_over_splits(count=30, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(0.8, 0.02, count)
    return torch.from_numpy(a), torch.from_numpy(a - rng.normal(0.01, 0.02, count))


@pytest.mark.parametrize(("n_train", "n_test"), [(900, 100), (2, 1), (0.5, 0.5)])
def test_corrected_t(n_train, n_test):
    a, b = two_over_splits()
    found = compare_splits(a, b, n_train, n_test)
    plain = stats.ttest_rel(a.numpy(), b.numpy())
    t = plain.statistic / math.sqrt(1 + 30 * n_test / n_train)
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(t), 29))
    assert found.difference / found.standard_error == pytest.approx(t)
    half, difference = stats.t.ppf(0.975, 29) * float(found.standard_error), float(found.difference)
    assert (found.low.item(), found.high.item()) == pytest.approx((difference - half, difference + half))
    assert found.p_value > plain.pvalue
    assert (found.splits, found.reason) == (30, "")
    edge = compare_splits(a, b, n_train, n_test, confidence_level=1 - found.p_value.item())
    assert min(abs(edge.low), abs(edge.high)) == pytest.approx(0, abs=SOLVED)


def test_corrected_t_equals_scikit_learns_example():
    """The source is https://scikit-learn.org, "Statistical comparison of models using grid search"."""
    a, b = (x.numpy() for x in two_over_splits(100, 3))
    differences, n_train, n_test = a - b, 180, 20
    corrected_std = np.sqrt(np.var(differences, ddof=1) * (1 / len(differences) + n_test / n_train))
    t_stat = np.mean(differences) / corrected_std
    p = 2 * stats.t.sf(np.abs(t_stat), len(differences) - 1)
    assert compare_splits(torch.from_numpy(a), torch.from_numpy(b), n_train, n_test).p_value == pytest.approx(p)


def test_splits_without_spread_and_bad_arguments():
    a, b = two_over_splits(5)
    same = compare_splits(a, a, 9, 1)
    assert (same.p_value, same.low, same.high) == (1, 0, 0)
    shifted = compare_splits(a, a - 0.1, 9, 1)
    assert math.isnan(shifted.p_value)
    assert "all differences are equal" in shifted.reason
    for arguments, name in (
        ((a[:1], b[:1], 9, 1), "values_a"),
        ((a, b[:2], 9, 1), "values_a"),
        ((a, b, 0, 1), "n_train"),
        ((a, b, 9, -1), "n_test"),
        ((a * torch.nan, b, 9, 1), "values_a"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`"):
            compare_splits(*arguments)
    with pytest.raises(ValueError, match="`confidence_level`"):
        compare_splits(a, b, 9, 1, confidence_level=95)


@pytest.mark.parametrize("method", ["boyd-logit", "boyd-binomial"])
def test_reported_interval_equals_the_ranking(method):
    preds, target = systems(1)
    wanted = published_interval(preds[0], target, method=method, confidence_level=0.9)
    found = reported_average_precision_interval(wanted.estimate, int(target.sum()), method=method, confidence_level=0.9)
    for name in ("estimate", "low", "high", "standard_error"):
        assert getattr(found, name).item() == pytest.approx(getattr(wanted, name).item(), rel=REORDERED)


def test_reported_interval_at_the_edges():
    perfect = reported_average_precision_interval(1.0, 10)
    assert (perfect.low.item(), perfect.high.item()) == pytest.approx((0.05**0.1, 1))
    assert "AP of 1" in perfect.reason
    for value, m in ((0.0, 10), (0.4, 1)):
        found = reported_average_precision_interval(value, m)
        assert found.low.isnan()
        assert found.reason
    for arguments, name in (((1.1, 3), "average_precision"), ((0.5, 0), "m"), ((0.5, 2.5), "m")):
        with pytest.raises(ValueError, match=f"`{name}`"):
            reported_average_precision_interval(*arguments)
    with pytest.raises(ValueError, match="`method`"):
        reported_average_precision_interval(0.5, 5, method="influence")


@pytest.mark.parametrize(("n", "m", "t"), [(8, 3, 2), (3000, 245, 50), (5, 5, 5), (7, 1, 7), (1, 1, 1)])
def test_laws_of_recall_precision_and_survival_by_name(n, m, t):
    law = RandomHits(n, m, t)
    hits = range(max(0, t - (n - m)), min(m, t) + 1)
    chance = [Fraction(math.comb(m, h) * math.comb(n - m, t - h), math.comb(n, t)) for h in hits]
    mean = sum(h * p for h, p in zip(hits, chance, strict=True))
    variance = sum((h - mean) ** 2 * p for h, p in zip(hits, chance, strict=True))
    assert (law.recall_mean, law.recall_variance) == pytest.approx((mean / m, variance / m**2))
    assert (law.precision_mean, law.precision_variance) == pytest.approx((mean / t, variance / t**2))
    assert (law.survival_mean, law.survival_variance) == pytest.approx((1 - mean / m, variance / m**2))
    assert math.sqrt(law.precision_variance) == pytest.approx(normal_precision(n, m, t).standard_deviation)
    assert math.sqrt(law.recall_variance) == pytest.approx(normal_recall(n, m, t).standard_deviation)
    nothing = RandomHits(n, 0, t)
    assert math.isnan(nothing.recall_mean)
    assert math.isnan(nothing.survival_variance)
    assert (nothing.precision_mean, nothing.precision_variance) == (0, 0)


def test_splits_at_a_level_near_1_have_the_exact_quantile():
    """(1 + level) / 2 rounds, so the quantile comes from the lower tail; 2 degrees of freedom have a closed form."""
    a, b, level = torch.tensor([0.3, 0.5, 0.9]).double(), torch.tensor([0.1, 0.4, 0.2]).double(), 1 - 1e-12
    comparison = compare_splits(a, b, 9, 1, confidence_level=level)
    tail = (1 - level) / 2
    quantile = (1 - 2 * tail) / math.sqrt(2 * tail * (1 - tail))
    half_width = float(comparison.high - comparison.low) / 2
    assert half_width == pytest.approx(quantile * float(comparison.standard_error), rel=SOLVED)
