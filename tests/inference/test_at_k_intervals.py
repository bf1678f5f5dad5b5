import math

import pytest
import torch
from scipy import stats

from benchmarks.coverage.at_rank import cuts, limit
from benchmarks.coverage.rankings import labels
from tests.support.tolerances import LAST_BITS, REORDERED, SOLVED
from torch_ap.inference import precision_at_k_interval, proportion_interval, recall_at_k_interval


def ranked(n=2000, share=0.1, shift=1.5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(n, generator=generator) < share).long()
    return torch.randn(n, generator=generator, dtype=torch.float64) + shift * target, target


def ends(share, variance):
    """Return Wilson's interval ends, by scipy's quantile."""
    trials, z = share * (1 - share) / variance, stats.norm.ppf(0.975)
    half = z * math.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2)) / (1 + z**2 / trials)
    centre = (share + z**2 / (2 * trials)) / (1 + z**2 / trials)
    return pytest.approx([centre - half, centre + half])


def local_share(order, k):
    reach = round(max(10, 0.3 * k))
    return float(order[max(0, k - reach) : k + reach].double().mean())


@pytest.mark.parametrize("k", [150, 20, 1500, 2000])
def test_iid_variances_are_variances_of_the_contributions_of_items(k):
    preds, target = ranked()
    order = target[preds.argsort(descending=True)].double()
    n, m, h, local = len(order), float(order.sum()), float(order[:k].sum()), local_share(order, k)
    top = (torch.arange(n) < k).double()
    adds = (order - local) * top
    precision = precision_at_k_interval(preds, target, k, method="delta-wilson")
    assert float(precision.estimate) == pytest.approx(h / k)
    assert float(precision.standard_error) ** 2 == pytest.approx(n / k**2 * float(adds.var(correction=0)))
    assert [float(precision.low), float(precision.high)] == ends(h / k, float(precision.standard_error) ** 2)
    if k == n:
        wanted = proportion_interval(int(m), n)
        assert (float(precision.low), float(precision.high)) == pytest.approx((float(wanted.low), float(wanted.high)))
        return
    recall = recall_at_k_interval(preds, target, k, method="delta-wilson")
    variance = float((adds - h / m * order).var(correction=0)) * n / m**2
    assert float(recall.estimate) == pytest.approx(h / m)
    assert float(recall.standard_error) ** 2 == pytest.approx(variance)
    assert [float(recall.low), float(recall.high)] == ends(h / m, variance)


def test_stratified_variance_is_the_formula():
    preds, target = ranked()
    k = 150
    order = target[preds.argsort(descending=True)]
    n, m = len(order), int(order.sum())
    q, h = n - m, int(order[:k].sum())
    local = local_share(order, k)
    r, s, share = h / m, (k - h) / q, m / n
    variance = (1 - local) ** 2 * r * (1 - r) / m + (local / share) ** 2 * (1 - share) ** 2 * s * (1 - s) / q
    found = recall_at_k_interval(preds, target, k, design="stratified")
    assert float(found.estimate) == pytest.approx(r)
    assert float(found.standard_error) == pytest.approx(math.sqrt(variance))
    assert [float(found.low), float(found.high)] == ends(r, variance)
    precision = precision_at_k_interval(preds, target, k, design="stratified")
    assert float(precision.estimate) == pytest.approx(h / k)
    assert float(precision.low) == pytest.approx(float(found.low) * m / k)
    assert found.design == precision.design == "stratified"


@pytest.mark.parametrize(("n", "k"), [(300, 30), (100, 1), (60, 23), (50, 50)])
def test_the_measured_coverage_is_that_of_the_public_functions(n, k):
    generator = torch.Generator().manual_seed(3)
    target = torch.rand(6, n, generator=generator) < 0.2
    preds = torch.randn(6, n, generator=generator) + target
    for design in ("iid", "stratified"):
        together = cuts(preds, target, k)
        for interval, many in (
            (precision_at_k_interval, together.precision(0.9, design)),
            (recall_at_k_interval, together.recall(0.9, design)),
        ):
            single = [
                interval(s, y.long(), k, confidence_level=0.9, design=design, method="delta-wilson")
                for s, y in zip(preds, target, strict=True)
            ]
            torch.testing.assert_close(many.low, torch.stack([one.low for one in single]))
            torch.testing.assert_close(many.high, torch.stack([one.high for one in single]))


@pytest.mark.parametrize("random_m", [True, False])
@pytest.mark.parametrize(("n", "share", "distance", "k"), [(2000, 0.1, 1.5, 300), (300, 0.1, 1.5, 30)])
def test_each_design_covers_where_it_belongs(random_m, n, share, distance, k):
    """The other design's interval of precision, for m fixed where it is random, would cover about .65 and .87."""
    generator, runs = torch.Generator().manual_seed(1), 300
    recall = limit(share, distance, k / n)
    truths = {recall_at_k_interval: recall, precision_at_k_interval: recall * share * n / k}
    covered = dict.fromkeys(truths, 0)
    for target in labels(n, round(n * share), random_m, runs, generator):
        preds = torch.randn(n, generator=generator) + distance * target
        for interval, truth in truths.items():
            design = "iid" if random_m else "stratified"
            found = interval(preds, target.long(), k, design=design, method="delta-wilson")
            covered[interval] += float(found.low) <= truth <= float(found.high)
    assert min(covered.values()) / runs >= 0.91


def test_dirichlet_weights_cover_on_a_cliff():
    """Nearly all hits are above rank k, so the delta method would cover about .79."""
    runs, generator = 60, torch.Generator().manual_seed(1)
    recall, covered = limit(0.02, 5.0, 0.02), [0, 0]
    for target in labels(1000, 20, True, runs, generator):
        preds = torch.randn(1000, generator=generator) + 5 * target
        for place, interval in enumerate((precision_at_k_interval, recall_at_k_interval)):
            found = interval(preds, target.long(), 20, n_resamples=200)
            assert found.method == "dirichlet"
            assert 0 <= found.low <= found.estimate <= found.high <= 1
            covered[place] += float(found.low) <= recall <= float(found.high)
    assert min(covered) / runs >= 0.87


@pytest.mark.parametrize("interval", [precision_at_k_interval, recall_at_k_interval])
def test_dirichlet_weights_do_not_need_the_items_below_the_cut(interval, monkeypatch):
    preds, target = ranked(3000)
    found = interval(preds, target, 20)
    monkeypatch.setattr("torch_ap.core.ranking.hit_curve.top", lambda curve, _: curve)
    whole = interval(preds, target, 20)
    # other random numbers: the error of a quantile of 1,000 draws is about a tenth of the half width
    close = 0.15 * float(found.high - found.low)
    assert (float(found.low), float(found.high)) == pytest.approx((float(whole.low), float(whole.high)), abs=close)
    again = interval(preds, target, 20, generator=torch.Generator().manual_seed(3))
    assert again.low != whole.low
    tied = interval((2 * preds).round(), target, 20)
    assert 0 < tied.low < tied.estimate < tied.high < 1
    with pytest.raises(ValueError, match="`method` must be 'delta-wilson' or None in design 'stratified'"):
        interval(preds, target, 20, method="dirichlet", design="stratified")


def test_edges_have_a_defined_answer():
    for target, word in (([0, 0, 0], "hits"), ([1, 1, 1], "misses")):
        for interval, design in (
            (recall_at_k_interval, "iid"),
            (recall_at_k_interval, "stratified"),
            (precision_at_k_interval, "stratified"),
        ):
            found = interval(torch.arange(3.0), torch.tensor(target), 2, design=design)
            assert math.isnan(found.low)
            assert word in found.reason
        # precision needs neither hits nor misses
        found, wanted = precision_at_k_interval(torch.arange(3.0), torch.tensor(target), 2), (2 * target[0], 2)
        assert float(found.estimate) == target[0]
        assert float(found.low) == pytest.approx(float(proportion_interval(*wanted).low), abs=LAST_BITS)
        assert float(found.high) == pytest.approx(float(proportion_interval(*wanted).high))
    every = recall_at_k_interval(*ranked(50), 50)
    assert (float(every.low), float(every.estimate), float(every.high)) == (1, 1, 1)
    assert "by definition" in every.reason
    precision = precision_at_k_interval(*ranked(50), 50, design="stratified")
    assert float(precision.low) == float(precision.high) == float(ranked(50)[1].sum()) / 50
    tied = recall_at_k_interval(torch.zeros(10), (torch.arange(10) < 4).long(), 5)
    assert float(tied.estimate) == pytest.approx(0.5)


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("trials", [1, 2, 3, 8, 60])
def test_proportions_equal_scipys(trials, level):
    for successes in range(trials + 1):
        for method, name in (("wilson", "wilson"), ("clopper-pearson", "exact")):
            found = proportion_interval(successes, trials, confidence_level=level, method=method)
            wanted = stats.binomtest(successes, trials).proportion_ci(level, method=name)
            assert (float(found.low), float(found.high)) == pytest.approx((wanted.low, wanted.high), abs=SOLVED)
    assert math.isnan(proportion_interval(0, 0).low)


@pytest.mark.parametrize("trials", [3, 1000, 10**9])
def test_no_success_and_no_failure_have_closed_forms(trials):
    tail = math.log(0.025) / trials
    found = proportion_interval(0, trials, method="clopper-pearson")
    assert (float(found.low), float(found.high)) == (0, pytest.approx(-math.expm1(tail), rel=REORDERED))
    found = proportion_interval(trials, trials, method="clopper-pearson")
    assert (float(found.low), float(found.high)) == (pytest.approx(math.exp(tail), rel=REORDERED), 1)


def test_bad_arguments_are_refused_by_name():
    preds, target = ranked(20)
    for k in (0, 21, 2.0):
        with pytest.raises(ValueError, match="`top_k`"):
            recall_at_k_interval(preds, target, k)
    with pytest.raises(ValueError, match="`design`"):
        precision_at_k_interval(preds, target, 3, design="random")
    with pytest.raises(ValueError, match="`confidence_level`"):
        precision_at_k_interval(preds, target, 3, confidence_level=0)
    with pytest.raises(ValueError, match="`successes`"):
        proportion_interval(3, 2)
    with pytest.raises(ValueError, match="`method`"):
        proportion_interval(1, 2, method="wald")


def test_an_interval_contains_its_estimate_at_the_bounds():
    for seed in range(20):
        scores = torch.randn(50, generator=torch.Generator().manual_seed(seed))
        for target in (torch.zeros(50, dtype=torch.int64), torch.ones(50, dtype=torch.int64)):
            found = precision_at_k_interval(scores, target, 10)
            assert found.low <= found.estimate <= found.high


@pytest.mark.parametrize("interval", [precision_at_k_interval, recall_at_k_interval])
@pytest.mark.parametrize(("top", "reason"), [("1101110011", "3"), ("1101110111", "2 misses"), ("0000000011", "2 hits")])
def test_few_hits_or_misses_in_the_top_have_a_reason(interval, top, reason):
    target = torch.tensor([*map(int, top), *[0, 1] * 10])
    scores = -torch.arange(30.0)
    wanted = f"{reason} in the top 10: the interval may be too narrow" if " " in reason else ""
    for options in ({"design": "stratified"}, {"method": "delta-wilson"}):
        assert interval(scores, target, 10, **options).reason == wanted
    assert interval(scores, target, 10, n_resamples=20).reason == ""
    assert "too narrow" not in interval(scores, target, 30, design="stratified").reason


def test_precision_of_few_misses_covers_too_little_in_a_stratified_design():
    """Count the samples with 100 of 200 positives whose interval of precision at 20 has a reason, and covers."""
    target, generator = (torch.arange(200) < 100).long(), torch.Generator().manual_seed(0)
    covered, flagged, truth = [], 0, 0.956  # the limit at a share of 10% for d' = 1.5
    for _ in range(200):
        scores = torch.randn(200, generator=generator) + 1.5 * target
        found = precision_at_k_interval(scores, target, 20, design="stratified")
        flagged += bool(found.reason)
        covered.append(bool(found.low <= truth <= found.high))
    # .768 of 250 in another run, with a standard deviation of .03
    assert sum(covered) < 0.88 * 200
    assert flagged > 150
