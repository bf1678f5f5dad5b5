import bisect
import itertools
import json
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.support import oracles_inference as oracles
from tests.support.each import each
from tests.support.paths import DATA
from tests.support.tolerances import DOZENS_OF_TERMS, FEW_TERMS, LAST_BITS, REORDERED, SINGLE, SOLVED, UNDERFLOW
from torch_ap import Convention, MulticlassAveragePrecision, MultilabelAveragePrecision
from torch_ap.core.measures.chance import expected_average_precision
from torch_ap.functional import binary_average_precision
from torch_ap.inference import chance_level, chance_test
from torch_ap.inference.enumeration import exact_distribution
from torch_ap.inference.published import normal_average_precision, normal_precision, normal_recall
from torch_ap.inference.random_ranking import (
    RandomHits,
    joint_rank_probability,
    random_average_precision,
    rank_probability,
)

REFERENCE = json.loads((DATA / "inference_reference.json").read_text())
sizes = st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n)))


def tensor(x):
    return torch.tensor(x, dtype=torch.int64)


@given(sizes, st.integers(1, 10) | st.none(), st.sampled_from(["min", "relevant"]))
@settings(deadline=None, max_examples=80)
def test_law_is_that_of_all_permutations(size, k, denominator):
    n, m = size
    norm = m if k is None or denominator == "relevant" else min(k, m)
    values = oracles.random_values(n, m, k, norm)
    mean, variance = oracles.moments(values)
    chance = random_average_precision(n, m, k, denominator=denominator)
    assert chance.mean == pytest.approx(float(mean), rel=LAST_BITS)
    assert chance.variance == pytest.approx(float(variance), rel=FEW_TERMS, abs=0)
    assert chance.least == pytest.approx(float(min(values)), abs=LAST_BITS)
    assert float(expected_average_precision(tensor(n), tensor(m), k, denominator=denominator)) == pytest.approx(
        float(mean), rel=FEW_TERMS
    )
    law = chance.distribution
    distinct = sorted(set(values))
    assert law.values.tolist() == pytest.approx([float(x) for x in distinct], abs=FEW_TERMS)
    assert law.counts.tolist() == [values.count(x) for x in distinct]
    assert law.total == len(values)
    for x in distinct:
        assert law.tail(float(x)) == sum(v >= x for v in values) / len(values)
    assert law.quantile(0.5) == pytest.approx(float(sorted(values)[math.ceil(len(values) / 2) - 1]), abs=FEW_TERMS)


@each("row", REFERENCE["random_AP_mean_var"])
def test_moments_of_reference(row):
    chance = random_average_precision(row["n"], row["m"])
    assert chance.mean == pytest.approx(row["E"], rel=FEW_TERMS)
    assert chance.variance == pytest.approx(row["Var"], rel=DOZENS_OF_TERMS)


@each("row", REFERENCE["random_APatK_mean_var"])
def test_moments_at_k_of_reference(row):
    chance = random_average_precision(row["n"], row["m"], row["K"])
    assert chance.mean == pytest.approx(row["E"], rel=FEW_TERMS)
    assert chance.variance == pytest.approx(row["Var"], rel=DOZENS_OF_TERMS)


@each("row", list(REFERENCE["random_AP_distribution"]))
def test_distribution_of_reference(row):
    law = exact_distribution(row["n"], row["m"])
    wanted = sorted((Fraction(v), c) for v, c in zip(row["values"], row["counts"], strict=True))
    assert law.counts.tolist() == [c for _, c in wanted]
    assert law.values.tolist() == pytest.approx([float(v) for v, _ in wanted], abs=FEW_TERMS)


@pytest.mark.parametrize(("n", "m"), [(18, 9), (300, 2), (300, 298), (60, 3), (40000, 1), (40000, 39999), (5, 5)])
def test_distribution_has_the_closed_moments(n, m):
    law, chance = exact_distribution(n, m), random_average_precision(n, m)
    mean = float((law.values * law.probabilities).sum())
    assert law.total == math.comb(n, m) == int(law.counts.sum())
    assert mean == pytest.approx(float(chance.mean), rel=REORDERED)
    variance = float(((law.values - mean) ** 2 * law.probabilities).sum())
    # a variance of 0 is left at rounding squared
    assert variance == pytest.approx(float(chance.variance), rel=SOLVED, abs=1e-30)


def test_moments_at_a_billion():
    chance = random_average_precision(10**9, 5 * 10**8)
    # decimal arithmetic with twice the digits, in another order: E(AP) by its simpler form
    harmonic = math.log(10**9) + 0.5772156649015329 + 0.5e-9
    assert chance.mean == pytest.approx(0.5 + 0.5 * (harmonic - 1) / (10**9 - 1), rel=LAST_BITS)
    assert chance.variance == pytest.approx(2.5e-10, rel=SINGLE)
    assert random_average_precision(10**9, 10**9).variance == 0
    assert random_average_precision(10**9, 10**9).mean == 1


def test_lists_only_feasible_orders():
    assert not random_average_precision(10**9, 5 * 10**8).has_exact_distribution
    for n, m in ((3000, 245), (10**9, 5 * 10**8), (5, 0)):
        with pytest.raises(ValueError, match="3,000,000"):
            exact_distribution(n, m)


def test_seed_table():
    chance = random_average_precision(3000, 245)
    mean, deviation = float(chance.mean), float(chance.standard_deviation)
    assert (round(mean, 10), round(deviation, 10)) == (0.0839889109, 0.0056134508)
    assert (round(mean, 5), round(deviation, 5)) == (0.08399, 0.00561)
    assert round(245 / 3001, 5) == 0.08164  # the value in brackets in the table
    table = {50: (0.01680, 0.00791), 100: (0.03341, 0.01108), 245: (0.08168, 0.01682), 500: (0.16675, 0.02289),
             1500: (0.49948, 0.03052), 2500: (0.83296, 0.02290)}  # fmt: skip
    for t, (mean, deviation) in table.items():
        law = normal_recall(3000, 245, t)
        assert abs(law.mean - mean) < 4 * law.standard_deviation / 100  # 10,000 repetitions
        assert abs(law.standard_deviation / deviation - 1) < 4 / math.sqrt(20000)


@each("row", REFERENCE["random_recall"])
def test_recall_of_reference(row):
    law = normal_recall(row["n"], row["m"], row["t"])
    assert law.mean == pytest.approx(row["E"], rel=FEW_TERMS)
    assert law.standard_deviation**2 == pytest.approx(row["Var_exact"], rel=DOZENS_OF_TERMS)
    precision = normal_precision(row["n"], row["m"], row["t"])
    assert precision.mean == pytest.approx(row["m"] / row["n"])
    scale = row["m"] / row["t"]
    assert precision.standard_deviation == pytest.approx(law.standard_deviation * scale)


@pytest.mark.parametrize(
    ("n", "m", "t"), [(8, 3, 2), (8, 3, 8), (1, 1, 1), (3000, 245, 50), (10**6, 1000, 7000), (9, 0, 4), (9, 9, 4)]
)
def test_hits_equal_scipys_hypergeometric(n, m, t):
    law, peer = RandomHits(n, m, t), stats.hypergeom(n, m, t)
    with np.errstate(all="ignore"):
        assert law.mean == pytest.approx(peer.mean())
        if n > 1:
            assert law.variance == pytest.approx(peer.var(), rel=REORDERED, abs=1e-30)  # 0 is left at rounding squared
    for j in range(min(m, t, 40) + 2):
        # SciPy subtracts logarithms of large factorials
        assert law.probability(j) == pytest.approx(peer.pmf(j), rel=1e-8, abs=UNDERFLOW)
        assert law.tail(j) == pytest.approx(peer.sf(j - 1), rel=1e-8, abs=UNDERFLOW)  # likewise
    for p in (0.01, 0.025, 0.5, 0.9, 0.999):
        assert law.quantile(p) == peer.ppf(p)
    low, high = law.interval(0.9)
    assert peer.cdf(high) - peer.cdf(low - 1) >= 0.9 - 1e-12


def test_hits_are_exact_fractions():
    n, m, t = 60, 20, 25
    law = RandomHits(n, m, t)
    for j in range(m + 1):
        exact = Fraction(math.comb(m, j) * math.comb(n - m, t - j), math.comb(n, t))
        assert law.probability(j) == pytest.approx(float(exact), rel=DOZENS_OF_TERMS)


@pytest.mark.parametrize("size", [(10**6, 10**4, 10**5), (10**9, 3 * 10**8, 10**8), (10**15, 10**9, 10**12)])
def test_hits_of_many_items_to_ten_digits(size):
    """scipy's values are wrong by 1e-10, 1e-7 and a quarter in these cases."""
    n, m, t = size
    law = RandomHits(n, m, t)
    with mpmath.workdps(60):

        def log_choose(a, b):
            return mpmath.loggamma(a + 1) - mpmath.loggamma(b + 1) - mpmath.loggamma(a - b + 1)

        for deviations in (-20, 0, 3, 20):
            j = int(law.mean + deviations * math.sqrt(law.variance))
            wanted = mpmath.exp(log_choose(m, j) + log_choose(n - m, t - j) - log_choose(n, t))
            assert law.probability(j) == pytest.approx(float(wanted), rel=SOLVED, abs=0)


def test_quantiles_of_hits_equal_exact_fractions():
    """At probabilities that are reached exactly, scipy's quantiles are often the next value."""
    for m, n in itertools.combinations(range(1, 13), 2):
        t = n // 2
        ways = [math.comb(m, j) * math.comb(n - m, t - j) for j in range(min(m, t) + 1)]
        through = [Fraction(x, math.comb(n, t)) for x in itertools.accumulate(ways)]
        for p in filter(None, through):
            assert RandomHits(n, m, t).quantile(float(p)) == through.index(p)


def test_hits_of_a_billion_items():
    law = RandomHits(10**9, 3 * 10**8, 10**8)
    half = law.quantile(0.5)
    assert abs(half - law.mean) < 2
    deviation = math.sqrt(law.variance)
    # whole numbers, and nearly normal
    assert law.quantile(0.975) == pytest.approx(law.mean + 1.959964 * deviation, abs=2)
    assert law.tail(half) == pytest.approx(0.5, abs=1e-3)  # half of the probability of one of many values
    assert law.tail(0) == 1
    assert law.probability(0) == 0


def test_covariance_of_hits_by_enumeration():
    n, m = 7, 3
    every = [np.cumsum(y) for y in oracles.rankings(n, m)]
    for s, t in itertools.combinations_with_replacement(range(1, n + 1), 2):
        wanted = np.cov([h[s - 1] for h in every], [h[t - 1] for h in every], ddof=0)[0, 1]
        assert RandomHits(n, m, s).covariance(t) == pytest.approx(wanted, abs=DOZENS_OF_TERMS)


def test_ranks_of_hits_by_enumeration():
    n, m = 7, 3
    every = [[i + 1 for i, y in enumerate(ranking) if y] for ranking in oracles.rankings(n, m)]
    for j, t in itertools.product(range(1, m + 1), range(1, n + 1)):
        wanted = sum(ranks[j - 1] == t for ranks in every) / len(every)
        assert rank_probability(n, m, j, t) == pytest.approx(wanted, abs=FEW_TERMS)
        for i, s in itertools.product(range(1, j), range(1, n + 1)):
            both = sum(ranks[i - 1] == s and ranks[j - 1] == t for ranks in every) / len(every)
            assert joint_rank_probability(n, m, (i, s), (j, t)) == pytest.approx(both, abs=FEW_TERMS)


# -- the test


@given(
    st.integers(2, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1), st.randoms(use_true_random=False)))
)
@settings(deadline=None, max_examples=40)
def test_exact_p_is_the_share_of_permutations(drawn):
    n, m, random = drawn
    target = [1] * m + [0] * (n - m)
    random.shuffle(target)
    ap = oracles.of_order(target) / m
    values = oracles.random_values(n, m)
    found = chance_test(torch.arange(n, 0, -1.0), tensor(target))
    assert found.method == "exact"
    assert found.estimate == pytest.approx(float(ap), abs=LAST_BITS)
    assert found.p_value == sum(v >= ap for v in values) / len(values)
    mean, variance = oracles.moments(values)
    assert found.z == pytest.approx(float(ap - mean) / math.sqrt(variance))
    assert found.lift == pytest.approx(float(ap / mean))
    assert found.corrected == pytest.approx(float((ap - mean) / (1 - mean)))


def test_the_least_p_of_permutations_is_noted():
    preds = torch.arange(400, 0, -1.0)
    perfect, none = (preds > 380).long(), (preds % 2 == 1).long()
    found = chance_test(preds, perfect, n_resamples=99)
    assert found.p_value == 0.01
    assert found.reason == "p_value is the smallest possible with 99 permutations"
    assert chance_test(preds, none, n_resamples=99).reason == ""


@pytest.mark.parametrize("scores", [[3, 3, 2, 2, 2, 1, 0, 0], [1] * 8, [8, 7, 6, 5, 4, 3, 2, 1]])
def test_permutation_keeps_ties(scores):
    target = [1, 0, 1, 1, 0, 0, 0, 0]
    values = [oracles.grouped(scores, y) for y in oracles.rankings(8, 3)]
    ap = oracles.grouped(scores, target)
    found = chance_test(torch.tensor(scores).float(), tensor(target), method="permutation", n_resamples=6000)
    mean, variance = (float(x) for x in oracles.moments(values))
    p = sum(v >= ap for v in values) / len(values)
    assert found.chance_level == pytest.approx(mean, rel=DOZENS_OF_TERMS)
    assert found.standard_deviation == pytest.approx(math.sqrt(variance), rel=DOZENS_OF_TERMS)
    # 4 standard errors, and the observed ranking itself
    assert found.p_value == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 6000) + 2e-4)


def test_permutation_counts_the_observed_order():
    preds, target = torch.arange(300, 0, -1.0), (torch.arange(300) < 30).long()
    found = chance_test(preds, target, n_resamples=99)
    assert (found.method, found.p_value) == ("permutation", 0.01)
    again = chance_test(preds.flip(0), target, n_resamples=99, chunk_size=1)
    assert again.p_value == 1


def test_permutation_repeats_under_a_generator():
    torch.manual_seed(3)
    preds, target = torch.randn(200), (torch.rand(200) < 0.3).long()

    def p(seed, **how):
        return chance_test(preds, target, n_resamples=200, generator=torch.Generator().manual_seed(seed), **how).p_value

    assert p(1) == p(1) == p(1, chunk_size=10)
    assert len({p(seed) for seed in range(5)}) > 1


def test_scipys_permutation_test_agrees():
    torch.manual_seed(3)
    target = (torch.rand(60) < 0.3).long()
    preds = torch.randn(60) + target * 0.4
    found = chance_test(preds, target, n_resamples=4000)
    peer = stats.permutation_test(
        (target.numpy(),), lambda y: float(binary_average_precision(preds, torch.from_numpy(y))),
        permutation_type="pairings", n_resamples=2000, alternative="greater", random_state=np.random.default_rng(0),
        vectorized=False,
    )  # fmt: skip
    assert found.p_value == pytest.approx(peer.pvalue, abs=0.035)
    assert chance_test(preds, target, method="lognormal").p_value == pytest.approx(float(found.p_value), abs=0.03)


def test_lognormal_has_its_stated_size_and_the_normal_law_does_not():
    chance = random_average_precision(100, 10)
    target = np.zeros(100, int)
    target[:10] = 1
    rng = np.random.default_rng(1)
    ranks = np.argsort(rng.random((40000, 100)), 1)[:, :10] + 1
    values = np.sort((np.arange(1, 11) / np.sort(ranks, 1)).mean(1))

    def share_of_rejections(tail):
        """Return the share of rankings with p <= 0.01."""
        assert (np.diff([tail(x) for x in values[::400]]) <= 0).all()
        return 1 - bisect.bisect_left(values, True, key=lambda x: tail(x) <= 0.01) / len(values)

    # 4 standard errors of the drawn share
    assert share_of_rejections(chance.lognormal_tail) == pytest.approx(0.008, abs=0.002)
    assert share_of_rejections(chance.normal_tail) == pytest.approx(0.035, abs=0.004)  # likewise
    assert chance.lognormal_tail(chance.least) == 1
    assert chance.lognormal_tail(1.0) > 0


def test_normal_law_of_ap_is_the_published_one():
    preds, target = torch.arange(12, 0, -1.0), tensor([1, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0])
    law = normal_average_precision(preds, target)
    assert law.mean == 5 / 12
    assert 0 < law.tail(0.8) < law.tail(0.5) < 0.5
    assert normal_recall(5, 5, 5).tail(1.0) == 1


@pytest.mark.parametrize(
    ("n", "m", "t", "wanted"),
    [(3000, 245, 50, (81.6, 93.9)), (3000, 245, 1500, (81.8, 95.5)), (100, 10, 50, (68.2, 90.8))],
)
def test_normal_laws_have_the_documented_coverage(n, m, t, wanted):
    """Check the docstring's figures: how often r(t) is within mean ± z sd, from the law of h(t)."""
    h = np.arange(m + 1)
    chances = stats.hypergeom(n, m, t).pmf(h)
    for level, share in zip((0.8, 0.95), wanted, strict=True):
        for law, values in ((normal_recall(n, m, t), h / m), (normal_precision(n, m, t), h / t)):
            near = np.abs(values - float(law.mean)) <= stats.norm.ppf((1 + level) / 2) * float(law.standard_deviation)
            assert round(100 * chances[near].sum(), 1) == share
    assert all(f"{x}" in " ".join(normal_recall.__doc__.split()) for x in wanted)


def test_normal_law_of_ap_and_the_test_refuse_the_same_input():
    preds, target = torch.arange(12, 0, -1.0), tensor([1, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0])
    assert normal_average_precision(preds, target.bool()) == normal_average_precision(preds, target)
    for scores, labels, named in (
        (preds.log() * 0 + math.nan, target, "`preds` must not contain NaN"),
        (preds, target * 2, "`target` must contain integers from 0 to 1"),
        (preds, target * 0, "`target` must contain at least one hit, got none among 12 items"),
        (preds, target[1:], "same shape"),
    ):
        with pytest.raises(ValueError, match=named):
            normal_average_precision(scores, labels)


def test_edges_of_the_laws():
    hits = RandomHits(3000, 245, 1500)
    assert (hits.quantile(0), hits.quantile(1)) == (0, 245)
    assert (RandomHits(5, 4, 3).quantile(0.0), RandomHits(5, 4, 3).quantile(1.0)) == (2, 3)
    law = exact_distribution(5, 2)
    assert (law.quantile(0), law.quantile(1)) == (float(law.values[0]), 1)
    assert law.tail(torch.tensor(1.0)) == law.tail(np.float32(1)) == 0.1
    assert law.quantile(np.float32(1)) == 1
    assert hits.tail(np.int64(100)) == hits.tail(100)
    assert (law.tail(-math.inf), law.tail(math.inf)) == (1, 0)
    cut = exact_distribution(40_000, 1, 3)
    assert cut.values.tolist() == pytest.approx([0, 1 / 3, 1 / 2, 1])
    assert cut.counts.tolist() == [39_997, 1, 1, 1]


def test_edges_of_the_test():
    none = chance_test(torch.rand(4), torch.zeros(4, dtype=torch.int64))
    assert math.isnan(none.p_value)
    assert none.reason == "no hits"
    every = chance_test(torch.rand(4), torch.ones(4, dtype=torch.int64))
    assert (every.estimate, every.p_value) == (1, 1)
    assert "no misses" in every.reason
    for void in (none, every, chance_test(torch.rand(4), tensor([0] * 4), method="permutation")):
        assert void.method == "exact"
    empty = chance_test(torch.empty(0), torch.empty(0, dtype=torch.int64))
    assert math.isnan(empty.estimate)
    assert math.isnan(random_average_precision(4, 0).mean)
    assert torch.isnan(expected_average_precision(tensor(4), tensor(0)))


def test_bad_arguments_are_refused_by_name():
    for n, m in ((0, 0), (3, 4), (3, -1), (3.0, 1), (True, 1)):
        with pytest.raises(ValueError, match=r"`[nm]`"):
            random_average_precision(n, m)
    with pytest.raises(ValueError, match="`top_k`"):
        random_average_precision(3, 1, 0)
    with pytest.raises(ValueError, match="`denominator`"):
        random_average_precision(3, 1, 1, denominator="found")
    with pytest.raises(ValueError, match="`t`"):
        RandomHits(5, 2, 6)
    law = exact_distribution(5, 2)
    for quantile in (RandomHits(5, 2, 3).quantile, law.quantile):
        for p in (-0.1, 1.5, math.nan, True, "half"):
            with pytest.raises(ValueError, match=r"`p` .*\[0, 1\], got"):
                quantile(p)
    chance = random_average_precision(300, 20)
    for tail in (law.tail, chance.lognormal_tail, chance.normal_tail, normal_recall(5, 2, 3).tail):
        with pytest.raises(ValueError, match=r"`value` .*NaN, got nan"):
            tail(math.nan)
    for hits in (1.5, True, 1.0):
        for probability in (RandomHits(5, 2, 3).probability, RandomHits(5, 2, 3).tail):
            with pytest.raises(ValueError, match="`hits` must be an int, got"):
                probability(hits)
    with pytest.raises(ValueError, match="`k`"):
        exact_distribution(5, 2, 0)
    with pytest.raises(ValueError, match="`m`"):
        exact_distribution(2, 5)
    with pytest.raises(ValueError, match="`hit`"):
        rank_probability(5, 2, 3, 4)
    with pytest.raises(ValueError, match="`second`"):
        joint_rank_probability(5, 2, (2, 1), (1, 2))
    with pytest.raises(ValueError, match="`hit` must be at most the number of relevant items, 2"):
        rank_probability(5, 2, 3, 3)
    for name, value in (("first", None), ("first", []), ("second", torch.zeros(2, 0)), ("second", (1, 2, 3))):
        with pytest.raises(TypeError, match=f"`{name}` must be a hit and its rank, two ints, got "):
            joint_rank_probability(9, 3, **{"first": (1, 1), "second": (2, 4), name: value})
    for name, value in (("first", (1, 10)), ("first", (0, 1)), ("second", (4, 5)), ("second", (2, "4"))):
        with pytest.raises(ValueError, match=f"`{name}` must be "):
            joint_rank_probability(9, 3, **{"first": (1, 1), "second": (2, 4), name: value})
    with pytest.raises(ValueError, match=r"`method='lognormal'` .*ties"):
        chance_test(torch.zeros(4), tensor([1, 0, 0, 0]), method="lognormal")
    with pytest.raises(ValueError, match=r"`method='exact'` .*3,000,000 .*n=300, m=30"):
        chance_test(torch.arange(300.0), (torch.arange(300) < 30).long(), method="exact")
    with pytest.raises(ValueError, match=r"`preds` and `target` .*shape.* \(4,\) and \(3,\)"):
        chance_test(torch.rand(4), tensor([1, 0, 0]))


@pytest.mark.gpu
@pytest.mark.parametrize("spread", [1e9, 3])
def test_on_cuda(spread):
    torch.manual_seed(0)
    target = (torch.rand(500) < 0.2).long()
    preds = (torch.randn(500, dtype=torch.float64) + target * 0.2).mul(spread).round()
    here = chance_test(preds, target, n_resamples=2000)
    there = chance_test(preds.cuda(), target.cuda(), n_resamples=2000).to("cpu")
    # 2,000 resamples of each of two generators: 3 standard errors of their difference
    assert there.p_value == pytest.approx(float(here.p_value), abs=0.05)
    assert there.chance_level == pytest.approx(float(here.chance_level), rel=REORDERED)


# -- the chance level as a function


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(1, 6), st.data())
@settings(deadline=None, max_examples=60)
def test_chance_level_is_the_mean_over_all_orders_of_the_labels(scores, hits, data):
    target = [1] * min(hits, len(scores)) + [0] * max(0, len(scores) - hits)
    how = data.draw(
        st.sampled_from([{}, {"ties": "expected"}, {"top_k": 2}, {"top_k": 2, "denominator": "relevant"}, {"top_k": 9}])
    )
    preds = torch.tensor(scores, dtype=torch.float64)
    every = [binary_average_precision(preds, tensor(y), **how) for y in set(itertools.permutations(target))]
    found = chance_level(preds, tensor(target), **how)
    assert found.dtype == torch.float64
    assert float(found) == pytest.approx(float(torch.stack(every).mean()), rel=REORDERED)


def test_chance_level_of_classes_and_labels_is_that_of_the_metrics():
    generator = torch.Generator().manual_seed(3)
    preds = torch.rand(40, 3, generator=generator).mul(8).round() / 8
    labels = (torch.rand(40, 3, generator=generator) < 0.3).long()
    classes = torch.randint(3, (40,), generator=generator)
    for average in ("none", "macro", "weighted", "micro"):
        metric = MultilabelAveragePrecision(3, average=average, top_k=7)
        metric.update(preds.double(), labels)
        found = chance_level(preds, labels, average=average, convention=Convention(top_k=7))
        assert torch.equal(found, metric.chance_level())
        assert torch.equal(found, chance_level(preds, labels, average=average, top_k=7))
    rows = preds / preds.sum(1, keepdim=True)
    metric = MulticlassAveragePrecision(3)
    metric.update(rows.double(), classes)
    found = chance_level(rows.double(), classes, average="macro")
    assert torch.equal(found, metric.chance_level())
    each = chance_level(rows.double(), classes)
    assert float(found) == pytest.approx(float(each.mean()))
    n, m = torch.full((3,), 40), torch.bincount(classes)
    smooth = torch.rand(40, 3, generator=generator, dtype=torch.float64)
    assert chance_level(smooth, classes).tolist() == pytest.approx(expected_average_precision(n, m).tolist())


def test_chance_level_without_hits_and_of_invalid_input():
    preds, none = torch.rand(4), torch.zeros(4).long()
    assert chance_level(preds, none) == 0
    assert chance_level(preds, none, empty_target_action="nan").isnan()
    assert chance_level(preds, none + 1) == 1
    for how in ({"interpolation": "101-point"}, {"top_k": 2, "denominator": "found"}, {"ties": "none"}, {"top_k": 0}):
        name = "denominator" if "denominator" in how else next(iter(how))
        with pytest.raises(ValueError, match=f"`{name}"):
            chance_level(preds, none, **how)
    with pytest.raises(ValueError, match=r"`top_k` .*`convention`"):
        chance_level(preds, none, top_k=2, convention=Convention())
    with pytest.raises(ValueError, match=r"`preds` .*NaN.* at index 0"):
        chance_level(preds * torch.nan, none)
