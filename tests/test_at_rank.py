import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from torch_ap.inference import precision_at_k_interval, proportion_interval, recall_at_k_interval


def ranked(n=2000, share=0.1, shift=1.5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(n, generator=generator) < share).long()
    return torch.randn(n, generator=generator, dtype=torch.float64) + shift * target, target


def test_recall_is_the_formula():
    preds, target = ranked()
    k = 150
    order = target[preds.argsort(descending=True)]
    n, m = len(order), int(order.sum())
    q, h = n - m, int(order[:k].sum())
    local = float(order[k - 45 : k + 45].double().mean())
    r, s, share = h / m, (k - h) / q, m / n
    variance = (1 - local) ** 2 * r * (1 - r) / m + (local / share) ** 2 * (1 - share) ** 2 * s * (1 - s) / q
    found = recall_at_k_interval(preds, target, k)
    assert float(found.estimate) == pytest.approx(r)
    assert float(found.standard_error) == pytest.approx(math.sqrt(variance))
    trials = r * (1 - r) / variance
    z = stats.norm.ppf(0.975)
    half = z * math.sqrt(r * (1 - r) / trials + z**2 / (4 * trials**2)) / (1 + z**2 / trials)
    centre = (r + z**2 / (2 * trials)) / (1 + z**2 / trials)
    assert (float(found.low), float(found.high)) == pytest.approx((centre - half, centre + half))
    precision = precision_at_k_interval(preds, target, k)
    assert float(precision.estimate) == pytest.approx(h / k)
    assert float(precision.low) == pytest.approx(float(found.low) * m / k)


def test_recall_covers_under_repetition():
    m, q, k = 200, 1800, 300
    target = torch.cat([torch.ones(m), torch.zeros(q)]).long()
    generator = torch.Generator().manual_seed(1)
    z = torch.distributions.Normal(0.0, 1.0)
    low, high = -5.0, 5.0
    for _ in range(60):  # the threshold that passes k of these items on average
        middle = (low + high) / 2
        passed = m * (1 - float(z.cdf(torch.tensor(middle - 1.5)))) + q * (1 - float(z.cdf(torch.tensor(middle))))
        low, high = (middle, high) if passed > k else (low, middle)
    truth = 1 - float(z.cdf(torch.tensor(low - 1.5)))
    covered = narrow = 0
    for _ in range(400):
        preds = torch.randn(len(target), generator=generator) + 1.5 * target
        found = recall_at_k_interval(preds, target, k)
        covered += float(found.low) <= truth <= float(found.high)
        binomial = proportion_interval(round(float(found.estimate) * m), m)
        narrow += float(found.high - found.low) < float(binomial.high - binomial.low)
    assert 0.91 <= covered / 400 <= 0.98
    assert narrow == 400


def test_edges_have_a_defined_answer():
    for target, word in (([0, 0, 0], "hits"), ([1, 1, 1], "misses")):
        for interval in (recall_at_k_interval, precision_at_k_interval):
            found = interval(torch.arange(3.0), torch.tensor(target), 2)
            assert math.isnan(found.low)
            assert word in found.reason
    every = recall_at_k_interval(*ranked(50), 50)
    assert (float(every.low), float(every.estimate), float(every.high)) == (1, 1, 1)
    assert "by definition" in every.reason
    precision = precision_at_k_interval(*ranked(50), 50)
    assert float(precision.low) == float(precision.high) == float(ranked(50)[1].sum()) / 50
    tied = recall_at_k_interval(torch.zeros(10), (torch.arange(10) < 4).long(), 5)
    assert float(tied.estimate) == pytest.approx(0.5)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from([0.5, 0.95]))
def test_proportions_equal_scipys(counts, level):
    for method, name in (("wilson", "wilson"), ("clopper-pearson", "exact")):
        found = proportion_interval(*counts, level=level, method=method)
        wanted = stats.binomtest(*counts).proportion_ci(level, method=name)
        assert (float(found.low), float(found.high)) == pytest.approx((wanted.low, wanted.high), abs=1e-10)
    assert math.isnan(proportion_interval(0, 0).low)


def test_bad_arguments_are_refused_by_name():
    preds, target = ranked(20)
    for k in (0, 21, 2.0):
        with pytest.raises(ValueError, match="`k`"):
            recall_at_k_interval(preds, target, k)
    with pytest.raises(ValueError, match="`level`"):
        precision_at_k_interval(preds, target, 3, level=0)
    with pytest.raises(ValueError, match="`successes`"):
        proportion_interval(3, 2)
    with pytest.raises(ValueError, match="`method`"):
        proportion_interval(1, 2, method="wald")
