"""Random orders of the labels of a tied ranking: enumeration, mean and variance in closed form."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.support import oracles_inference as oracles
from tests.support.tolerances import DOZENS_OF_TERMS, FEW_TERMS, LAST_BITS, REORDERED, SOLVED, UNDERFLOW
from torch_ap.core.ranking.builders import from_scores
from torch_ap.inference import chance_test, enumeration
from torch_ap.inference.chance_moments import moments_of_sums
from torch_ap.inference.enumeration import can_enumerate, every_average_precision
from torch_ap.inference.random_ranking import random_average_precision

tie_groups = st.lists(st.integers(1, 4), min_size=1, max_size=5).filter(lambda sizes: sum(sizes) > 1)
grouped_labels = tie_groups.flatmap(lambda sizes: st.tuples(st.just(sizes), st.integers(1, sum(sizes) - 1)))


def array(sizes):
    return np.array(sizes, np.int64)


def scores_of(sizes):
    return torch.repeat_interleave(torch.arange(len(sizes), 0, -1.0), torch.tensor(sizes))


def moments_of_ap(sizes, m):
    mark = torch.ones(sum(sizes), dtype=torch.bool)
    curve = from_scores(scores_of(sizes), mark, keep_all_groups=True)
    mean, variance = moments_of_sums(curve, torch.tensor([m]))
    return float(mean) / m, math.sqrt(variance) / m


def split(law):
    """Return {value: weight}, with the values rounded to nine digits."""
    found = Counter()
    for value, weight in zip(*law, strict=True):
        found[round(float(value), 9)] += float(weight)
    return found


def wanted_law(sizes, m):
    wanted = Counter()
    for hits in oracles.allocations(sizes, m):
        ways = math.prod(math.comb(size, r) for size, r in zip(sizes, hits, strict=True))
        wanted[round(float(oracles.grouped_allocation(sizes, hits)), 9)] += ways
    return wanted


@given(grouped_labels)
@settings(deadline=None, max_examples=150)
def test_lists_every_allocation(drawn):
    sizes, m = drawn
    assert split(every_average_precision(array(sizes), m)) == pytest.approx(wanted_law(sizes, m), rel=FEW_TERMS)


@given(grouped_labels)
@settings(deadline=None, max_examples=60)
def test_both_enumerations_list_the_same(drawn):
    sizes, m = drawn
    n = sum(sizes)
    algorithms = enumeration._list_by_item, enumeration._list_by_group
    answers = [split((s / m, w)) for s, w in (algorithm(array(sizes), n, m) for algorithm in algorithms)]
    assert answers[0] == pytest.approx(answers[1], rel=FEW_TERMS)


@given(grouped_labels.filter(lambda drawn: sum(drawn[0]) <= 12))  # the orders of 20 items take seconds
@settings(deadline=None, max_examples=100)
def test_moments_equal_the_enumeration(drawn):
    sizes, m = drawn
    scores = scores_of(sizes).tolist()
    mean, variance = oracles.moments([oracles.grouped(scores, y) for y in oracles.rankings(len(scores), m)])
    found = moments_of_ap(sizes, m)
    assert found == pytest.approx((float(mean), math.sqrt(variance)), rel=REORDERED, abs=LAST_BITS)


@pytest.mark.parametrize(("n", "m"), [(2, 1), (3, 1), (3, 2), (4, 2), (3000, 245), (100_000, 99_000)])
def test_moments_without_ties_are_the_closed_form(n, m):
    chance = random_average_precision(n, m)
    found = moments_of_ap([1] * n, m)
    assert found == pytest.approx((float(chance.mean), float(chance.standard_deviation)), rel=SOLVED)


@given(grouped_labels)
@settings(deadline=None, max_examples=100)
def test_counts_the_ways(drawn):
    sizes, m = drawn
    ways = len(oracles.allocations(sizes, m))
    for most in (ways - 1, ways):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(enumeration, "MOST_LISTED", most)
            patch.setattr(enumeration, "_MOST_CHOSEN", 0)
            assert can_enumerate(array(sizes), m) == (most == ways)


@pytest.mark.parametrize(
    ("sizes", "m", "feasible"),
    [
        ([10**8, 10**8], 2_999_999, True),
        ([10**8, 10**8], 3_000_000, False),
        ([10**8, 5], 10**7, True),
        ([1] * 24, 12, True),
        ([1] * 25, 12, False),
        ([2] * 2448, 2, True),
        ([2] * 2449, 2, False),
        (np.repeat(1, 3_000_000), 1, True),
        (np.repeat(1, 3_000_001), 1, False),
        (np.repeat(1, 3_000_000), 1_500_000, False),
        ([1000] * 1000, 500_000, False),
        ([5], 3, True),
        ([2, 3], 0, False),
        ([2, 3], 5, False),
    ],
)
def test_feasible_orders(sizes, m, feasible):
    assert can_enumerate(array(sizes), m) == feasible


@given(grouped_labels, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_exact_p_with_ties_is_the_share_of_permutations(drawn, random):
    sizes, m = drawn
    n = sum(sizes)
    scores, target = scores_of(sizes), [1] * m + [0] * (n - m)
    random.shuffle(target)
    ap = oracles.grouped(scores.tolist(), target)
    values = [oracles.grouped(scores.tolist(), y) for y in oracles.rankings(n, m)]
    found = chance_test(scores, torch.tensor(target))
    mean, variance = oracles.moments(values)
    assert found.method == "exact"
    assert found.p_value == float(Fraction(sum(v >= ap for v in values), len(values)))
    assert found.chance_level == pytest.approx(float(mean), rel=DOZENS_OF_TERMS)
    assert found.standard_deviation == pytest.approx(math.sqrt(variance), rel=REORDERED, abs=LAST_BITS)


def test_two_groups_of_many_items_are_hypergeometric():
    """AP of two groups is a convex function of the hits in the upper one, so its tail is two tails of these hits."""
    upper, lower, m, above = 30_000, 70_000, 20_000, 6_150
    n = upper + lower
    target = torch.zeros(n, dtype=torch.int64)
    target[:above], target[upper : upper + m - above] = 1, 1
    found = chance_test(scores_of([upper, lower]), target)
    hits = np.arange(m + 1)
    ap = (hits**2 / upper + (m - hits) * m / n) / m
    less, law = hits[ap < float(found.estimate) - 1e-12], stats.hypergeom(n, m, upper)
    wanted = law.cdf(less[0] - 1) + law.sf(less[-1])
    assert found.method == "exact"
    assert found.p_value == pytest.approx(wanted, rel=SOLVED)
    assert 1e-5 < found.p_value < 0.05


@pytest.mark.parametrize(
    ("sizes", "m"), [([2, 3000, 1], 2998), ([2, 3000, 1], 5), ([2000, 3, 1900], 1700), ([1, 1200, 2], 3)]
)
def test_weights_of_large_groups_are_their_shares(sizes, m):
    """Tails of AP against exact integers; the binomial coefficients of one group may exceed all floats."""
    exact = []
    for first in range(sizes[0] + 1):
        for last in range(max(0, m - first - sizes[1]), min(sizes[2], m - first) + 1):
            hits = (first, m - first - last, last)
            ways = math.prod(math.comb(size, r) for size, r in zip(sizes, hits, strict=True))
            exact.append((float(oracles.grouped_allocation(sizes, hits)), ways))
    values, weights = every_average_precision(array(sizes), m)
    assert len(values) == len(exact)
    for place in np.linspace(values.min(), values.max(), 30)[1:-1]:
        share = Fraction(sum(ways for value, ways in exact if value > place), math.comb(sum(sizes), m))
        assert weights[values > place].sum() / weights.sum() == pytest.approx(float(share), rel=SOLVED, abs=UNDERFLOW)


def test_grades_of_many_items_agree_with_permutations():
    generator = torch.Generator().manual_seed(2)
    target = (torch.rand(400, generator=generator) < 0.2).long()
    preds = (torch.rand(400, generator=generator) * 3 + target * 0.4).floor()
    exact = chance_test(preds, target)
    drawn = chance_test(preds, target, method="permutation", n_resamples=4000)
    assert (exact.method, drawn.method) == ("exact", "permutation")
    assert drawn.standard_deviation == exact.standard_deviation
    # 4 standard errors, and the observed ranking itself
    assert drawn.p_value == pytest.approx(float(exact.p_value), abs=4 * math.sqrt(exact.p_value / 4000) + 3e-4)


@pytest.mark.parametrize("m", [1, 2_999_999])
def test_one_hit_or_one_miss_among_millions(m):
    n, place = 3_000_000, 2_345_678
    target = torch.zeros(n, dtype=torch.int64) if m == 1 else torch.ones(n, dtype=torch.int64)
    target[place - 1] = int(m == 1)
    found = chance_test(torch.arange(n, 0, -1, dtype=torch.int32), target)
    assert found.method == "exact"
    assert found.p_value == (place / n if m == 1 else (n - place + 1) / n)
    law = random_average_precision(n, m).distribution
    assert law.tail(found.estimate) == found.p_value


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [[3, 2, 4, 1], [1] * 10, [40, 50, 60]])
def test_exact_on_cuda(sizes):
    scores = scores_of(sizes)
    target = torch.tensor([1, 0, 1, 0, 0, 1, 0, 0, 0, 0] * 15)[: len(scores)]
    here, there = chance_test(scores, target), chance_test(scores.cuda(), target.cuda()).to("cpu")
    assert here.method == there.method == "exact"
    assert there.p_value == here.p_value
    assert there.standard_deviation == pytest.approx(float(here.standard_deviation), rel=REORDERED)
