"""Interval of AP@k and its test against chance, compared with their definitions."""

import itertools

import numpy as np
import pytest
import torch

from benchmarks.coverage.cliffs import ap_limits
from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap import Convention
from torch_ap.core.ranking.builders import from_scores
from torch_ap.functional import binary_average_precision
from torch_ap.inference import average_precision_at_k_interval, chance_test_of_queries

DENOMINATORS = ("min", "relevant", "found")


def ranked(n=300, share=0.2, shift=1.5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(n, generator=generator) < share).long()
    return torch.randn(n, generator=generator, dtype=torch.float64) + shift * target, target


def weighted_ap(hit, weight, share, denominator):
    """Return AP cut at a share of the total weight, item by item, best first."""
    cut, above, hits, total, found = share * weight.sum(), 0.0, 0.0, 0.0, 0.0
    for is_hit, w in zip(hit, weight, strict=True):
        inside = min(w, max(cut - above, 0.0))
        if is_hit:
            found += inside
            total += inside * (hits + inside) / (above + inside) if inside else 0.0
            hits += w
        above += w
    divisor = {"min": min(cut, (hit * weight).sum()), "relevant": (hit * weight).sum(), "found": found}[denominator]
    return total / divisor if divisor else 0.0


def explicit_ends(hit, k, denominator, draws=3000):
    """Return the interval ends by a weight per item, with pseudo-items as items of the ranking."""
    rng, n = np.random.default_rng(1), len(hit)
    low, high = [], []
    for _ in range(draws):
        weight, pseudo = rng.standard_exponential(n), rng.standard_gamma(0.5, 3)
        bottom = np.concatenate([[False], hit, [True]]), np.concatenate([pseudo[:1], weight, pseudo[1:2]])
        low.append(weighted_ap(*bottom, k / n, denominator))
        high.append(weighted_ap(np.append(True, hit), np.append(pseudo[2], weight), k / n, denominator))
    return np.quantile(low, 0.025), np.quantile(high, 0.975)


@each("denominator", DENOMINATORS)
def test_ends_are_those_of_a_weight_per_item(denominator):
    preds, target = ranked(60, 0.4)
    found = average_precision_at_k_interval(preds, target, 20, denominator=denominator, n_resamples=3000)
    hit = target[preds.argsort(descending=True)].bool().numpy()
    # results in float32
    assert (float(found.low), float(found.high)) == pytest.approx(explicit_ends(hit, 20, denominator), abs=0.02)


@each("denominator", DENOMINATORS)
def test_estimate_is_ap_at_k(denominator):
    preds, target = ranked()
    tied = (preds * 2).round()
    for scores in (preds, tied, tied.half()):
        found = average_precision_at_k_interval(scores, target, 50, denominator=denominator, n_resamples=50)
        wanted = binary_average_precision(scores.double(), target, top_k=50, denominator=denominator)
        assert float(found.estimate) == pytest.approx(float(wanted), rel=REORDERED)
        assert 0 <= found.low <= found.estimate <= found.high <= 1
        assert (found.method, found.design, found.reason) == ("dirichlet", "iid", "")


def test_all_items_are_the_interval_of_ap():
    from torch_ap.inference import average_precision_interval

    preds, target = ranked()
    found = average_precision_at_k_interval(preds, target, 300)
    wanted = average_precision_interval(preds, target, method="dirichlet")
    # results in float32
    assert (float(found.low), float(found.high)) == pytest.approx((float(wanted.low), float(wanted.high)), rel=1e-6)


def test_draws_repeat_and_differ_by_seed():
    preds, target = ranked()
    found = average_precision_at_k_interval(preds, target, 40, n_resamples=100)
    assert average_precision_at_k_interval(preds, target, 40, n_resamples=100, chunk_size=7).low == found.low
    generator = torch.Generator().manual_seed(5)
    assert average_precision_at_k_interval(preds, target, 40, n_resamples=100, generator=generator).low != found.low


def test_few_hits_warn():
    preds, target = ranked()
    with pytest.warns(UserWarning, match="hits in the top 5: the coverage is measured from 10 on"):
        found = average_precision_at_k_interval(preds, target, 5, n_resamples=50)
    assert "hits in the top 5" in found.reason


def test_no_hits_and_no_misses():
    preds = torch.arange(30.0)
    none = average_precision_at_k_interval(preds, torch.zeros(30).long(), 20)
    assert none.low.isnan()
    assert none.reason == "no hits: everything is NaN"
    full = average_precision_at_k_interval(preds, torch.ones(30).long(), 20)
    assert float(full.estimate) == float(full.high) == 1
    assert 0.5 < float(full.low) < 1


def test_limit_is_the_value_of_a_large_sample():
    preds, target = ranked(200_000, 0.2, seed=3)
    limits = ap_limits(0.2, 1.0, 1.5, 0.1)
    for denominator in DENOMINATORS:
        value = binary_average_precision(preds, target, top_k=20_000, denominator=denominator)
        assert float(value) == pytest.approx(limits[denominator], abs=0.01)  # results in float32


@each("denominator", ("min", "relevant"))
def test_chance_at_k_is_the_mean_over_all_orders(denominator):
    preds, target = torch.tensor([5.0, 4, 4, 3, 2, 2, 1]), torch.tensor([1, 1, 0, 1, 0, 0, 0])
    measure = Convention(top_k=3, denominator=denominator, ties="grouped")
    values = []
    for places in itertools.combinations(range(7), 3):
        relevant = torch.zeros(7, dtype=torch.bool)
        relevant[list(places)] = True
        values.append(float(measure(from_scores(preds, relevant))))
    found = chance_test_of_queries(preds, target, top_k=3, denominator=denominator, ties="grouped", n_resamples=2000)
    assert float(found.chance_level) == pytest.approx(np.mean(values))
    assert float(found.standard_deviation) == pytest.approx(np.std(values))
    p = np.mean(np.array(values) >= float(found.estimate) - 1e-9)
    assert float(found.p_value) == pytest.approx(p, abs=4.5 * np.sqrt(p / 2000) + 1 / 2000)  # results in float32


@each("options", [{"top_k": 0}, {"top_k": 31}, {"denominator": "k"}, {"confidence_level": 1.0}, {"n_resamples": 1}])
def test_invalid_arguments_raise(options):
    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        average_precision_at_k_interval(
            **{"preds": torch.arange(30.0), "target": torch.ones(30).long(), "top_k": 3} | options
        )
