"""Comparison of two rankings at rank k, compared with a weight per item and with explicit swaps."""

import math

import numpy as np
import pytest
import torch

from tests.inference.test_average_precision_at_k import DENOMINATORS, ranked, weighted_ap
from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap import BinaryAveragePrecision
from torch_ap.functional import binary_average_precision, counts_at_k
from torch_ap.inference import average_precision_at_k_interval, compare_rankings_at_k, precision_at_k_interval

MEASURES = [*({"denominator": x} for x in DENOMINATORS), {"measure": "precision"}, {"measure": "recall"}]


def pair(n=300, share=0.2, shifts=(1.5, 1.0), seed=0):
    a, target = ranked(n, share, shifts[0], seed)
    noise = torch.randn(n, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    return a, 0.5 * a + noise + (shifts[1] - 0.5 * shifts[0]) * target, target


def value_at(scores, target, k, measure="average_precision", denominator="min"):
    if measure == "average_precision":
        return float(binary_average_precision(scores.double(), target, top_k=k, denominator=denominator))
    return float(getattr(counts_at_k(scores, target, k), measure))


def weighted_value(hit, weight, share, measure="average_precision", denominator="min"):
    if measure == "average_precision":
        return weighted_ap(hit, weight, share, denominator)
    cut, above, found = share * weight.sum(), 0.0, 0.0
    for is_hit, w in zip(hit, weight, strict=True):
        found += is_hit * min(w, max(cut - above, 0.0))
        above += w
    return found / (cut if measure == "precision" else (hit * weight).sum())


def explicit_interval(a, b, target, k, draws=3000, **options):
    """Return the interval by a weight per item, with pseudo-items as items of the ranking, and the p-value."""
    rng, n = np.random.default_rng(1), len(target)
    orders = [x.argsort(descending=True).numpy() for x in (a, b)]
    hits, columns = [target.numpy()[x].astype(bool) for x in orders], []
    for _ in range(draws):
        weight, pseudo = rng.standard_exponential(n), rng.standard_gamma(0.5, 3)
        for order, hit in zip(orders, hits, strict=True):
            w = weight[order]
            bottom = np.concatenate([[False], hit, [True]]), np.concatenate([pseudo[:1], w, pseudo[1:2]])
            top = np.append(True, hit), np.append(pseudo[2], w)
            columns.append([weighted_value(*x, k / n, **options) for x in (bottom, top, (hit, w))])
    low, high, plain = np.array(columns).reshape(draws, 2, 3).transpose(2, 1, 0)
    values = [value_at(x, target, k, **options) for x in (a, b)]
    below = [max(x - np.quantile(y, 0.025), 0) for x, y in zip(values, low, strict=True)]
    above = [max(np.quantile(y, 0.975) - x, 0) for x, y in zip(values, high, strict=True)]
    r = np.corrcoef(plain)[0, 1]
    ends = [math.sqrt(x * x + y * y - 2 * r * x * y) for x, y in ((below[0], above[1]), (above[0], below[1]))]
    return values[0] - values[1] - ends[0], values[0] - values[1] + ends[1]


@each("options", MEASURES)
def test_ends_are_those_of_a_weight_per_item(options):
    a, b, target = pair(40, 0.4)
    found = compare_rankings_at_k(a, b, target, 12, n_resamples=4000, **options)
    low, high = explicit_interval(a, b, target, 12, 800, **options)
    assert (float(found.low), float(found.high)) == pytest.approx((low, high), abs=0.07)  # of 800 draws


@each("options", MEASURES)
def test_values_are_those_at_k(options):
    a, b, target = pair()
    for x, y in ((a, b), ((2 * a).round(), (2 * b).round().half())):
        found = compare_rankings_at_k(x, y, target, 50, n_resamples=50, **options)
        wanted = [value_at(scores, target, 50, **options) for scores in (x, y)]
        assert [float(found.value_a), float(found.value_b)] == pytest.approx(wanted, rel=REORDERED)
        assert found.low <= found.difference <= found.high
        assert found.standard_error > 0
        back = compare_rankings_at_k(y, x, target, 50, n_resamples=50, **options)
        assert float(back.difference) == -float(found.difference)


def test_interval_of_a_system_against_a_useless_one_is_its_own():
    a, _, target = pair()
    useless = -a  # nothing but misses in the top 20
    found = compare_rankings_at_k(a, useless, target, 20, measure="precision", n_resamples=2000)
    alone = precision_at_k_interval(a, target, 20, n_resamples=2000)
    assert float(found.value_b) == 0
    assert float(found.low) == pytest.approx(float(alone.low) - 0.02, abs=0.1)  # of B, up to 3 / 20


def test_p_value_agrees_with_the_interval():
    for seed in range(12):
        a, b, target = pair(200, 0.3, (1.2, 0.7), seed)
        found = compare_rankings_at_k(a, b, target, 40, n_resamples=300)
        assert (float(found.p_value) < 0.05) == bool((found.low > 0) | (found.high < 0))
        level = 1 - float(found.p_value)
        if 0.01 < level < 0.99:
            edge = compare_rankings_at_k(a, b, target, 40, n_resamples=300, confidence_level=level)
            assert min(abs(float(edge.low)), abs(float(edge.high))) < 1e-4  # halvings


def test_permutation_is_the_share_of_explicit_swaps():
    a, b, target = pair(30, 0.4, (1.5, 0.5), 3)
    rng, hits = np.random.default_rng(0), target.numpy()
    ranks = [(-x).argsort().argsort().numpy() for x in (a, b)]

    def difference(*places):
        tops = [hits[np.lexsort((rng.random(30), place))][:10].sum() for place in places]
        return (tops[0] - tops[1]) / 10

    observed, draws = abs(difference(*ranks)), 1000
    swaps = [rng.random(30) < 0.5 for _ in range(draws)]
    reached = sum(abs(difference(np.where(x, *ranks[::-1]), np.where(x, *ranks))) >= observed - 1e-9 for x in swaps)
    p = (reached + 1) / (draws + 1)
    found = compare_rankings_at_k(a, b, target, 10, measure="precision", method="permutation", n_resamples=draws)
    assert float(found.p_value) == pytest.approx(p, abs=4.5 * math.sqrt(2 * p * (1 - p) / draws))  # two random shares


@each("options", MEASURES)
def test_permutations_reach_no_item_far_below(options):
    a, b, target = pair(3000, 0.05)
    near = (a >= a.topk(300).values[-1]) | (b >= b.topk(300).values[-1])
    found = compare_rankings_at_k(a, b, target, 30, method="permutation", n_resamples=99, **options)
    assert 0.01 <= found.p_value <= 1
    if options.get("denominator") != "relevant" and options.get("measure") != "recall":
        cut = compare_rankings_at_k(a[near], b[near], target[near], 30, method="permutation", n_resamples=99, **options)
        assert float(cut.difference) == pytest.approx(float(found.difference))


def test_two_permutation_values_of_ties():
    target = torch.tensor([1, 0] * 20)
    found = compare_rankings_at_k(torch.zeros(40), torch.arange(40.0), target, 20, method="permutation", n_resamples=50)
    assert 0 < found.p_value <= 1


def test_equal_rankings_have_p_1():
    a, _, target = pair()
    found = compare_rankings_at_k(a, 3 * a + 1, target, 40)
    assert (float(found.p_value), float(found.low), float(found.high), float(found.standard_error)) == (1, 0, 0, 0)
    assert "p = 1 by definition" in found.reason


@each("groups", [None, torch.arange(300) // 5, torch.zeros(300, dtype=torch.int64)])
@each("method", [None, "permutation"])
@each("measure", ["precision", "recall"])
def test_all_items_have_equal_precision_and_recall(groups, method, measure):
    a, b, target = pair()
    method = method if groups is None else None
    found = compare_rankings_at_k(a, b, target, 300, measure=measure, method=method, groups=groups, n_resamples=50)
    value = 1 if measure == "recall" else float(target.double().mean())
    assert (float(found.value_a), float(found.value_b)) == pytest.approx((value, value))
    assert [float(x) for x in (found.difference, found.low, found.high, found.standard_error)] == [0, 0, 0, 0]
    assert (float(found.p_value), found.reason) == (1, f"all items are retrieved: {measure} is equal by definition")


def test_systems_of_equal_value_have_an_interval_and_p_1():
    target = torch.tensor([1] * 20 + [0] * 20)
    a = torch.arange(40, 0, -1.0)
    b = a.clone()
    b[:2] = a[:2].flip(0)
    found = compare_rankings_at_k(a, b, target, 20, n_resamples=100)
    assert float(found.p_value) == 1
    assert found.low < 0 < found.high


def test_least_p_value_has_a_reason():
    a, _, target = pair(1000, 0.2, (4.0, 0.0))
    for method, least in (("dirichlet", 2 / 100), ("permutation", 1 / 100)):
        found = compare_rankings_at_k(a, -a, target, 100, n_resamples=99, method=method, measure="precision")
        assert float(found.p_value) == pytest.approx(least)
        assert "p is no less than" in found.reason


def test_few_hits_warn_for_average_precision_only():
    a, b, target = pair()
    with pytest.warns(UserWarning, match="hits in the top 5: the coverage is measured from 10 on"):
        found = compare_rankings_at_k(a, b, target, 5, n_resamples=50)
    assert "hits in the top 5" in found.reason
    assert compare_rankings_at_k(a, b, target, 5, measure="precision", n_resamples=50).reason == ""


def test_no_hits_and_no_misses():
    a, b = torch.arange(30.0), torch.arange(30.0).flip(0)
    none = compare_rankings_at_k(a, b, torch.zeros(30).long(), 20)
    assert none.p_value.isnan()
    assert none.reason == "no hits: everything is NaN"
    full = compare_rankings_at_k(a, b, torch.ones(30).long(), 20)
    assert float(full.p_value) == 1
    assert float(full.difference) == 0


def test_draws_repeat_and_interval_is_near_those_of_one_system():
    a, b, target = pair()
    found = compare_rankings_at_k(a, b, target, 40, n_resamples=100)
    assert compare_rankings_at_k(a, b, target, 40, n_resamples=100, chunk_size=7) == found
    generator = torch.Generator().manual_seed(5)
    assert compare_rankings_at_k(a, b, target, 40, n_resamples=100, generator=generator).low != found.low
    one = average_precision_at_k_interval(a, target, 40)
    assert float(one.high - one.low) * 0.5 < float(found.high - found.low) < float(one.high - one.low) * 2


@each("denominator", DENOMINATORS)
def test_metrics_at_k_have_the_intervals_of_the_functions(denominator):
    a, b, target = pair()
    metrics = [BinaryAveragePrecision(top_k=40, denominator=denominator, ignore_index=-1) for _ in range(2)]
    for metric, scores in zip(metrics, (a, b), strict=True):
        for part in (slice(100), slice(100, 300)):
            metric.update(scores[part], target[part])
        metric.update(scores[:5], torch.full((5,), -1))
    found, wanted = (
        metrics[0].compare(metrics[1], method="permutation", n_resamples=50),
        compare_rankings_at_k(a, b, target, 40, denominator=denominator, method="permutation", n_resamples=50),
    )
    assert found == wanted
    alone = average_precision_at_k_interval(a, target, 40, denominator=denominator, n_resamples=50)
    assert metrics[0].confidence_interval(n_resamples=50) == alone
    assert metrics[0].summary(n_resamples=50)["ap_low"] == alone.low.double()


def test_metrics_at_k_without_items_or_of_other_settings():
    metric = BinaryAveragePrecision(top_k=5)
    assert metric.confidence_interval().low.isnan()
    assert metric.compare(BinaryAveragePrecision(top_k=5)).p_value.isnan()
    metric.update(torch.arange(20.0), torch.ones(20).long())
    with pytest.warns(UserWarning, match="5 hits in the top 5"):
        assert metric.confidence_interval().high == 1
    for options in ({"method": "influence"}, {"design": "stratified"}, {"simultaneous": True}, {"first_look": 5}):
        with pytest.raises(ValueError, match=next(iter(options))):
            metric.confidence_interval(**options)
    tied = BinaryAveragePrecision(top_k=5, ties="expected")
    tied.update(torch.zeros(20), torch.ones(20).long())
    with pytest.raises(ValueError, match="`ties` must be 'grouped'"):
        tied.confidence_interval()
    mixed = BinaryAveragePrecision(top_k=5, bins=4)
    mixed.update(torch.rand(20), torch.ones(20).long())
    with pytest.raises(ValueError, match="`bins` must be None"):
        mixed.confidence_interval()


@each(
    "options",
    [
        {"top_k": 0},
        {"top_k": 31},
        {"measure": "AP"},
        {"denominator": "k"},
        {"method": "logit"},
        {"confidence_level": 1.0},
        {"n_resamples": 1},
        {"preds_b": torch.arange(29.0)},
        {"preds_b": torch.full((30,), torch.nan)},
    ],
)
def test_invalid_arguments_raise(options):
    items = {"preds_a": torch.arange(30.0), "preds_b": torch.arange(30.0), "target": torch.ones(30).long(), "top_k": 3}
    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        compare_rankings_at_k(**items | options)


def test_items_far_below_the_cut_do_not_distinguish_systems():
    a, _, target = pair(1000)
    b = torch.where(a >= a.topk(500).values[-1], a, -a - 100)  # the lower half in reverse order
    found = compare_rankings_at_k(a, b, target, 30)
    assert (found.low, found.high, found.p_value) == (0, 0, 1)
    assert found.reason.startswith("down to rank 123, every hit and every miss is at the same place")
