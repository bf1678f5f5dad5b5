"""The best of several systems: against definitions, brute-force selection, and peers."""

import itertools
import logging
import math
import pickle
import warnings

import numpy as np
import pytest
import torch
from scipy import optimize, special, stats
from torch.utils.data import DataLoader, TensorDataset

from tests.support.each import each
from tests.support.tolerances import REORDERED, SINGLE, SOLVED
from torch_ap import (
    BestOf,
    BinaryAveragePrecision,
    MeanAveragePrecision,
    MulticlassAveragePrecision,
    MultilabelAveragePrecision,
    RetrievalMAP,
)
from torch_ap.core.ranking import builders
from torch_ap.functional import binary_average_precision
from torch_ap.inference import (
    average_precision_interval,
    best_of,
    best_of_metrics,
    best_of_per_query,
    compare_rankings,
    compare_systems,
    compare_systems_per_query,
)
from torch_ap.inference.contributions import ranking_contributions
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.selection import METHODS, adjusted_p_values
from torch_ap.inference.selection_intervals import (
    JointDistribution,
    _hybrid,
    _truncation,
    selection_errors,
    student_draws,
)

F = torch.float64
DRAWN = 0.02  # 4 standard errors of a share of 10,000 draws near 1/2


def systems(count=4, n=400, seed=0, spread=0.1, correlation=0.6):
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(n, generator=generator) < 0.15).long()
    shared = torch.randn(n, generator=generator, dtype=F)
    own = torch.randn(count, n, generator=generator, dtype=F)
    scores = correlation**0.5 * shared + (1 - correlation) ** 0.5 * own
    return scores + target * (1 + spread * torch.arange(count)[:, None]), target


def joint(values, covariance, df=30.0):
    covariance = np.array(covariance, float)
    return JointDistribution(np.array(values, float), covariance, student_draws(covariance, df))


def random_joint(seed, count=5, df=30.0):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(count, count + 2))
    return joint(rng.normal(size=count), factor @ factor.T / 8, df)


def test_values_and_covariances_are_those_of_single_systems_and_pairs():
    preds, target = systems()
    relevant = target == 1
    shares = [ranking_contributions(builders.from_scores(x, relevant), x, relevant, "iid").shares for x in preds]
    assert best_of(preds, target).values.tolist() == [float(binary_average_precision(x, target)) for x in preds]
    for x, share in zip(preds, shares, strict=True):
        assert float(share.norm()) == pytest.approx(float(average_precision_interval(x, target).standard_error))
    pair = compare_rankings(preds[0], preds[2], target, method="influence")
    assert float((shares[0] - shares[2]).norm()) == pytest.approx(float(pair.standard_error), abs=REORDERED)


@each("design", ["iid", "stratified"])
def test_holm_is_that_of_all_pairs(design):
    preds, target = systems(spread=0.5)
    found = best_of(preds, target, design=design)
    wanted = compare_systems(preds, target, design=design).adjusted_p_value
    torch.testing.assert_close(found.adjusted_p_value, wanted, rtol=SOLVED, atol=REORDERED)
    assert (found.best, found.correction) == (3, "holm")
    values = torch.rand(4, 30, generator=torch.Generator().manual_seed(1), dtype=F)
    wanted = compare_systems_per_query(values, method="holm").adjusted_p_value
    for bounds in ((0, 1), None):
        found = best_of_per_query(values, bounds=bounds)
        torch.testing.assert_close(found.adjusted_p_value, wanted, rtol=SOLVED, atol=REORDERED)


@each("target", {"no misses": [1, 1, 1, 1], "one miss": [1, 1, 0, 1], "one hit": [0, 1, 0, 0]})
@each("design", ["iid", "stratified"])
def test_pairs_without_a_standard_error_are_nan_where_those_of_equal_rankings_are_1(target, design):
    preds = torch.tensor([[4.0, 3, 2, 1], [8.0, 6, 4, 2]])
    found = best_of(preds, torch.tensor(target), design=design)
    assert found.adjusted_p_value[0, 1].isnan()
    assert found.reason.startswith("too few hits, misses")
    assert compare_systems(preds, torch.tensor(target), design=design).adjusted_p_value[0, 1] == 1
    values = torch.tensor([[0.5], [0.5]])
    for groups, columns in ((None, 1), ([3, 3], 2)):
        equal = values.repeat(1, columns)
        assert best_of_per_query(equal, groups=groups).adjusted_p_value[0, 1].isnan()
        assert compare_systems_per_query(equal, method="holm", groups=groups).adjusted_p_value[0, 1] == 1


@each("seed", [0, 1, 2])
def test_the_best_remains_the_best_between_the_ends_of_the_truncation(seed):
    """Move the best value, and the others with it, along the part that is correlated with it."""
    given = random_joint(seed)
    best = int(given.values.argmax())
    floor, ceiling = _truncation(given, best)
    slope = given.covariance[:, best] / given.covariance[best, best]
    for value in np.linspace(given.values[best] - 5, given.values[best] + 5, 501):
        moved = given.values + slope * (value - given.values[best])
        assert (moved.argmax() == best) == (floor <= value <= ceiling)


@each("seed", [0, 1, 2, 3])
def test_ends_of_hybrid_solve_the_truncated_normal_distribution(seed):
    given = random_joint(seed, df=math.inf)
    best, alpha, beta = int(given.values.argmax()), 0.1, 0.01
    value, error = given.values[best], given.errors[best]
    (floor, ceiling), widest = _truncation(given, best), given.critical_value(beta) * error

    def share(theta):
        low, high = max(floor, theta - widest), min(ceiling, theta + widest)
        return stats.truncnorm.cdf(value, (low - theta) / error, (high - theta) / error, theta, error)

    tail = (alpha - beta) / (1 - beta) / 2
    for target, end in zip((1 - tail, tail), _hybrid(given, best, alpha), strict=True):
        inside = value - 0.999 * widest, value + 0.999 * widest
        if (share(inside[0]) - target) * (share(inside[1]) - target) < 0:
            # finite differences or roots
            assert end == pytest.approx(optimize.brentq(lambda x, t=target: share(x) - t, *inside), abs=1e-8)
        else:
            assert abs(end - value) == pytest.approx(widest, rel=2e-3)  # cut at the simultaneous interval


def test_hybrid_of_a_clear_winner_is_its_own_interval_nearly():
    """Without truncation, the level 1 - alpha is divided between beta and the rest, as in the definition."""
    given = joint([10.0, 0.0, 0.0], np.eye(3), df=math.inf)
    low, high = _hybrid(given, 0, 0.05)
    assert -stats.norm.isf(0.025) * 1.05 < low - 10 < -stats.norm.isf(0.025) * 0.99
    assert high - 10 == pytest.approx(10 - low, abs=SINGLE)
    assert selection_errors(given).mean() == pytest.approx(0, abs=REORDERED)


def test_selection_errors_of_equal_systems_are_the_largest_draws():
    equal = joint(np.zeros(4), 0.5 * np.eye(4) + 0.5, df=math.inf)
    errors = selection_errors(equal)
    np.testing.assert_array_equal(errors, equal.draws.max(0))
    # mean of the maximum of four normal variables, times sqrt(1 - correlation)
    assert errors.mean() == pytest.approx(1.0294 * 0.5**0.5, abs=DRAWN)


def test_selection_errors_by_a_loop_over_draws():
    given = random_joint(7)
    values, errors, count = given.values, given.errors, len(given.values)
    correlation = given.covariance / np.outer(errors, errors)
    off_diagonal = np.mean([correlation[i, j] for i in range(count) for j in range(count) if i != j])
    noise = (count - 1) * np.mean(errors**2) * (1 - off_diagonal)
    factor = max(1 - noise / sum((values - values.mean()) ** 2), 0)
    centers = values.mean() + factor * (values - values.mean())
    wanted = []
    for draw in given.draws.T[:200]:
        drawn = centers + draw * errors
        wanted.append(drawn.max() - centers[drawn.argmax()])
    np.testing.assert_allclose(selection_errors(given)[:200], wanted, atol=REORDERED)


def test_critical_values():
    independent = joint(np.arange(6.0), np.eye(6), df=math.inf)
    # random draws
    assert independent.critical_value(0.05) == pytest.approx(stats.norm.isf((1 - 0.95 ** (1 / 6)) / 2), abs=0.05)
    together = joint(np.arange(6.0), np.ones((6, 6)), df=8.0)
    assert together.critical_value(0.05) == pytest.approx(stats.t.isf(0.025, 8), abs=0.1)  # random draws
    draws = random_joint(3, df=12.0)
    np.testing.assert_allclose(
        np.corrcoef(draws.draws),
        draws.covariance / np.outer(draws.errors, draws.errors),
        atol=0.05,  # random draws
    )


@each("seed", [0, 1])
def test_max_t_by_its_definition(seed):
    """Step-down: each statistic is compared with the largest of itself and all smaller ones."""
    given = random_joint(seed, df=15.0)
    pairs = np.stack(np.triu_indices(5, 1), 1)
    found = adjusted_p_values((given.values, given.covariance, 1.0), given.draws, pairs, 15.0, "max-t")
    size, drawn = [], []
    for i, j in pairs:
        contrast = np.zeros(5)
        contrast[[i, j]] = 1, -1
        error = math.sqrt(contrast @ given.covariance @ contrast)
        size.append(abs(contrast @ given.values) / error)
        drawn.append(np.abs(contrast @ (given.draws * given.errors[:, None])) / error)
    size, drawn, last = np.array(size), np.array(drawn), 0.0
    left = list(np.argsort(-size))
    for _ in range(len(size)):
        first = left[0]
        last = max(last, (np.sum(drawn[left].max(0) >= size[first]) + 1) / (drawn.shape[1] + 1))
        assert found[first] == pytest.approx(last, abs=REORDERED)
        left.pop(0)


def test_max_t_against_a_control():
    """The blood counts of Dunnett (1955): the smallest adjusted p-value is that of his test."""
    control = [7.40, 8.50, 7.20, 8.24, 9.84, 8.32]
    drugs = [9.76, 8.80, 7.68, 9.36], [12.80, 9.68, 12.16, 9.20, 10.55]
    samples = [np.array(x) for x in (control, *drugs)]
    df = sum(map(len, samples)) - 3
    variance = sum(((x - x.mean()) ** 2).sum() for x in samples) / df
    means, covariance = np.array([x.mean() for x in samples]), np.diag([variance / len(x) for x in samples])
    pairs = np.array([[0, 1], [0, 2]])
    found = adjusted_p_values((means, covariance, 1.0), student_draws(covariance, df), pairs, df, "max-t")
    expected = stats.dunnett(*drugs, control=control).pvalue
    single = stats.t.sf((means[1] - means[0]) / math.sqrt(covariance[0, 0] + covariance[1, 1]), df) * 2
    assert found[1] == pytest.approx(expected[1], abs=0.003)  # 4 standard errors of a share of 10,000 draws
    assert found[0] == pytest.approx(single, abs=DRAWN)  # the last step of a step-down test


def test_max_t_of_two_systems_is_the_single_test_and_has_more_power_than_holm():
    preds, target = systems(2, spread=0.3)
    found = best_of(preds, target, correction="max-t").adjusted_p_value[0, 1]
    assert float(found) == pytest.approx(float(compare_rankings(*preds, target).p_value), abs=DRAWN)
    preds, target = systems(12, spread=0.15, correlation=0.9)
    default, holm = best_of(preds, target), best_of(preds, target, correction="holm")
    assert default.correction == "max-t"
    assert default.adjusted_p_value.mean() < holm.adjusted_p_value.mean()


def test_p_values_against_a_reference():
    preds, target = systems(5, spread=0.3)
    names = ["a", "b", "c", "d", "e"]
    found = best_of(preds, target, reference="b", names=names)
    assert (found.reference, found.correction, found.names) == (1, "max-t", names)
    assert found.adjusted_p_value.shape == (5,)
    assert found.adjusted_p_value[1] == 1
    pairs = best_of(preds, target, correction="max-t").adjusted_p_value[1]
    assert (found.adjusted_p_value <= pairs).all()  # fewer comparisons
    assert best_of(preds, target, reference=1).adjusted_p_value.tolist() == found.adjusted_p_value.tolist()


@each("method", METHODS)
def test_the_interval_contains_the_value_and_widens_with_the_level(method):
    for seed in range(6):
        preds, target = systems(3, n=80, seed=seed, spread=0.0, correlation=0.1)
        narrow, wide = (best_of(preds, target, method=method, confidence_level=x) for x in (0.8, 0.99))
        for found in (narrow, wide):
            assert 0 < found.low <= found.value <= found.high < 1
            assert found.optimism == found.value - found.corrected
            assert found.optimism > 0
            assert (found.simultaneous_low < found.values).all()
            assert (found.values < found.simultaneous_high).all()
        assert wide.low <= narrow.low
        assert narrow.high <= wide.high
        assert (wide.simultaneous_low < narrow.simultaneous_low).all()


def test_nearly_equal_systems_have_an_interval_that_contains_their_values():
    """The conditional distribution alone would put both ends far below the two values."""
    values = torch.tensor([[0.5, 0.61, 0.3, 0.8, 0.45, 0.62], [0.62, 0.45, 0.8, 0.3, 0.61, 0.5]], dtype=F)
    values[0, 0] += 1e-9
    found = best_of_per_query(values)
    assert found.low < 0.4
    assert found.high == found.value


@each("seed", range(40))
def test_an_end_at_the_value_has_no_rounding_error(seed):
    row = torch.rand(4, generator=torch.Generator().manual_seed(seed), dtype=F)
    found = best_of_per_query(torch.stack([row, row.flip(0)]))  # the conditional distribution is below the value
    assert found.low < found.value <= found.high
    assert not found.reason


def test_copies_of_a_system_change_nothing_but_the_draws():
    preds, target = systems(3, spread=0.2)
    found, copied = best_of(preds, target), best_of(preds[[0, 1, 2, 2]], target)
    assert (copied.best, copied.value) == (2, found.value)
    assert copied.adjusted_p_value[2, 3] == 1
    assert copied.low == pytest.approx(float(found.low), abs=DRAWN)
    same = best_of(preds[[0, 0]], target)
    assert (same.adjusted_p_value == 1).all()
    assert same.optimism == pytest.approx(0, abs=REORDERED)


def test_cases_without_an_interval():
    target = torch.tensor([1, 1, 1, 0, 0, 0, 0, 0])
    perfect = torch.stack([torch.arange(8.0, 0, -1), torch.tensor([3.0, 8, 2, 7, 6, 5, 4, 1])])
    found = best_of(perfect, target)
    assert (found.best, found.value) == (0, 1)
    assert "largest or smallest possible value" in found.reason
    assert all(math.isnan(x) for x in (found.low, found.high, found.corrected, found.simultaneous_low[0]))
    assert 0 < found.simultaneous_low[1] < found.values[1]
    assert found.adjusted_p_value[0, 1] < 1
    few = best_of(perfect, torch.tensor([1, 0, 0, 0, 0, 0, 0, 0]))
    assert "too few hits" in few.reason
    assert few.adjusted_p_value[0, 1].isnan()
    none = best_of(perfect, torch.zeros(8, dtype=torch.int64))
    assert "NaN" in none.reason
    assert none.value.isnan()
    constant = best_of_per_query(torch.tensor([[0.5, 0.5, 0.5], [0.1, 0.2, 0.4]]))
    assert constant.reason == "the standard error of the best value is 0"
    moved = best_of_per_query(torch.tensor([[0.4, 0.5, 0.6], [0.2, 0.3, 0.4]], dtype=F))
    assert "no p-value" in moved.reason
    assert moved.adjusted_p_value[0, 1].isnan()
    assert best_of_per_query(torch.tensor([[0.4], [0.2]])).reason.startswith("too few")


EXTREME = "the value is the largest or smallest possible value, which has no standard error"
FLAT = "the standard error of the value is 0"
PAIR = "two systems have a difference without a standard error, and so no p-value"
QUERIES = [0.2, 0.5, 0.7, 0.4]


@each(
    "rows, bounds, expected",
    {
        "at a bound": ([QUERIES, [0.0] * 4], (0, 1), f"system a: {EXTREME}"),
        "unbounded": ([QUERIES, [0.0] * 4], None, f"system a: {FLAT}"),
        "first": ([[0.25] * 4, QUERIES], (0, 1), f"system best: {FLAT}"),
        "several": ([QUERIES, [0.0] * 4, [0.25] * 4], (0, 1), f"{PAIR}; system a: {EXTREME}; system b: {FLAT}"),
        "the best, too": ([[1.0] * 4, [0.0] * 4], (0, 1), f"the best value{EXTREME[9:]}; {PAIR}; system a: {EXTREME}"),
        "many": ([QUERIES, *[[0.25] * 4] * 4, QUERIES], (0, 1), f"4 of 5: {FLAT}"),
        "none": ([QUERIES, QUERIES[::-1]], None, ""),
    },
)
def test_missing_simultaneous_intervals_have_a_reason(rows, bounds, expected):
    """Means have no spread if all values are equal, and no logit at the bounds."""
    found = best_of_per_query(torch.tensor(rows, dtype=F), bounds=bounds, names=["best", *"abcde"][: len(rows)])
    missing = [len(set(row)) == 1 for row in rows]
    assert found.simultaneous_low.isnan().tolist() == found.simultaneous_high.isnan().tolist() == missing
    assert found.reason == expected


def test_a_ranking_of_equal_scores_has_no_simultaneous_interval():
    preds = torch.tensor([[4.0, 3, 2, 1] * 3, [1.0] * 12])
    found = best_of(preds, torch.tensor([1, 0, 0, 1] * 3), design="stratified")
    assert found.simultaneous_low.isnan().tolist() == [False, True]
    assert found.reason == f"system 1: {FLAT}"


@each(
    "argument, value, call",
    {
        "method": ("method", "median", best_of),
        "correction": ("correction", "tukey", best_of),
        "level": ("confidence_level", 1.0, best_of),
        "design": ("design", "random", best_of),
        "name": ("reference", "x", best_of),
        "index": ("reference", 4, best_of),
        "negative": ("reference", -1, best_of),
        "names": ("names", ["a", "a", "b", "c"], best_of),
        "one": ("preds", torch.rand(1, 400), best_of),
        "nan": ("preds", torch.full((2, 400), torch.nan), best_of),
        "target": ("target", torch.ones(3), best_of),
    },
)
def test_bad_arguments(argument, value, call):
    preds, target = systems()
    with pytest.raises((ValueError, TypeError), match=f"`{argument}`"):
        call(**{"preds": preds, "target": target, argument: value})


def test_bad_values_of_queries():
    for values, kind in ((torch.rand(1, 3), "two systems"), (torch.tensor([[0.1, 2.0], [0.3, 0.4]]), "within")):
        with pytest.raises(ValueError, match=kind):
            best_of_per_query(values)
    unbounded = best_of_per_query(torch.tensor([[0.1, 2.0, 4.0], [0.3, 0.4, 0.1]]), bounds=None)
    assert unbounded.low < unbounded.value < unbounded.high


def test_results_repeat_for_every_dtype():
    preds, target = systems(n=100)
    found = best_of(preds, target)
    assert found == best_of(preds, target)
    half = best_of(preds.half(), target)
    assert half.low == pytest.approx(float(found.low), abs=DRAWN)


# -- groups


def test_groups_have_the_covariance_of_the_delete_one_group_jackknife():
    preds, target = systems(3, n=300)
    ids = torch.arange(300) % 25 * 7
    found = best_of(preds, target, groups=ids)
    kept = [ids != group for group in ids.unique()]
    without = torch.stack(
        [torch.stack([binary_average_precision(x[k], target[k]).double() for k in kept]) for x in preds]
    )
    deviations = without - without.mean(1, keepdim=True)
    covariance = 24 / 25 * deviations @ deviations.t()
    hits = torch.bincount(ids // 7, target.double())
    df = float(hits.sum() ** 2 / hits.square().sum()) - 1
    share = (df + 1) / (df + 2)
    shrunk = share * found.values
    slopes = share / (shrunk * (1 - shrunk))
    gap, errors = shrunk.logit(), covariance * slopes[:, None] * slopes
    error = (errors[0, 0] + errors[1, 1] - 2 * errors[0, 1]) ** 0.5
    raw = best_of(preds[:2], target, groups=ids.tolist()).adjusted_p_value[0, 1]
    # results in float32
    assert raw == pytest.approx(2 * stats.t.sf(float((gap[0] - gap[1]).abs() / error) * share**0.5, df), rel=1e-5)
    assert best_of(preds, target, groups=torch.arange(300)).low == pytest.approx(
        float(best_of(preds, target).low), abs=DRAWN
    )
    assert found.low < best_of(preds, target).value
    with pytest.raises(ValueError, match="`design`"):
        best_of(preds, target, groups=ids, design="stratified")
    for count, with_hits in ((5, 5), (15, 14)):  # the best of several needs more groups than one AP
        words = f"{with_hits} groups with hits, but the best of several covers from 20 on"
        with pytest.warns(UserWarning, match=words):
            few = best_of(preds, target, groups=torch.arange(300) % count)
        assert few.reason.startswith(words)
    assert not found.reason


def test_metrics_with_groups():
    preds, target = systems(2, n=300)
    ids = torch.arange(300) % 25
    metrics = [BinaryAveragePrecision() for _ in preds]
    for metric, row in zip(metrics, preds, strict=True):
        metric.update(row, target, groups=ids)
    assert best_of_metrics(metrics) == best_of(preds, target, groups=ids)
    labels = torch.stack([target, target.roll(7)], 1)
    both = [MultilabelAveragePrecision(num_labels=2) for _ in preds]
    for metric, row in zip(both, preds, strict=True):
        metric.update(torch.stack([row, row.roll(7)], 1), labels, groups=ids)
    found, wanted = best_of_metrics(both), both[0].compare(both[1])
    assert found.adjusted_p_value[0, 1] == pytest.approx(float(wanted.p_value), abs=SOLVED)
    other = BinaryAveragePrecision()
    other.update(preds[1], target, groups=ids.flip(0))
    with pytest.raises(ValueError, match="`groups` of system 1 differs"):
        best_of_metrics([metrics[0], other])


def test_groups_of_queries():
    values = torch.rand(3, 30, generator=torch.Generator().manual_seed(0), dtype=F)
    single = best_of_per_query(values)
    assert best_of_per_query(values, groups=torch.arange(30)) == single
    ids = torch.arange(30) // 3
    found = best_of_per_query(values, groups=ids, correction="holm", reference=0)
    sums = (values - values.mean(1, keepdim=True)).reshape(3, 10, 3).sum(2)
    gap = sums[1] - sums[0]
    error = float((10 / 9 * gap.square().sum()).sqrt() / 30)
    raw = best_of_per_query(values[:2], groups=ids).adjusted_p_value[0, 1]
    assert raw == pytest.approx(2 * stats.t.sf(float((values[1] - values[0]).mean().abs()) / error, 9), abs=SOLVED)
    assert found.adjusted_p_value[1] >= raw - SOLVED


def test_few_groups_warn_once_with_a_reason():
    generator = torch.Generator().manual_seed(0)
    preds, target = systems(6, n=300)
    values, ids = torch.rand(4, 50, generator=generator, dtype=F), torch.arange(50) % 5
    queries = [RetrievalMAP() for _ in range(3)]
    for metric in queries:
        metric.update(torch.rand(50, 4, generator=generator), torch.eye(4).long()[torch.arange(50) % 4], groups=ids)
    items = [BinaryAveragePrecision() for _ in range(3)]
    for metric, row in zip(items, preds, strict=False):
        metric.update(row, target, groups=torch.arange(300) % 5)
    selections = {
        "items": lambda: best_of(preds, target, groups=torch.arange(300) % 5),
        "queries": lambda: best_of_per_query(values, groups=ids),
        "metrics": lambda: best_of_metrics(items),
        "metrics of queries": lambda: best_of_metrics(queries),
        "pairs": lambda: compare_systems(preds, target, groups=torch.arange(300) % 5),
        "pairs of queries": lambda: compare_systems_per_query(values, method="holm", groups=ids),
    }
    for name, call in selections.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = call()
        reason = f"5 groups with {'queries' if 'queries' in name else 'hits'}"
        assert found.reason.startswith(reason), name
        assert [str(x.message) for x in caught] == [f"`groups`: {found.reason}"], name
        assert caught[0].filename == __file__, name
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not best_of_per_query(values, groups=torch.arange(50) % 10).reason
        assert not compare_systems_per_query(values, method="holm", groups=torch.arange(50) % 10).reason


def test_groups_of_queries_of_unequal_size():
    """The single tests are those of `compare_per_query`, whose degrees of freedom count equal groups."""
    values = torch.rand(2, 60, generator=torch.Generator().manual_seed(1), dtype=F)
    ids = (torch.arange(60) - 20).clamp(min=0)
    found = best_of_per_query(values, groups=ids, correction="holm")
    wanted = compare_systems_per_query(values, method="holm", groups=ids)
    torch.testing.assert_close(found.adjusted_p_value, wanted.adjusted_p_value, rtol=SOLVED, atol=REORDERED)


# -- metrics


def metrics_of(kind, updates, **settings):
    metrics = [kind(**settings) for _ in updates]
    for metric, arguments in zip(metrics, updates, strict=True):
        metric.update(*arguments)
    return metrics


def test_metrics_of_one_ranking_equal_the_function():
    preds, target = systems()
    wanted = best_of(preds, target)
    metrics = metrics_of(BinaryAveragePrecision, [(x, target) for x in preds])
    assert best_of_metrics(metrics) == wanted
    ignored = torch.cat([target, torch.full((5,), -1)])
    more = [(torch.cat([x, torch.full((5,), 9.0)]), ignored) for x in preds]
    assert best_of_metrics(metrics_of(BinaryAveragePrecision, more, ignore_index=-1)) == wanted
    named = best_of_metrics(dict(zip("abcd", metrics, strict=True)), reference="a")
    assert named.names == ["a", "b", "c", "d"]


def test_averages_of_labels():
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(300, 3, generator=generator) < 0.2).long()
    updates = [(torch.randn(300, 3, generator=generator) + k * target, target) for k in (1.0, 1.2)]
    metrics = metrics_of(MultilabelAveragePrecision, updates, num_labels=3)
    found = best_of_metrics(metrics)
    assert found.values.tolist() == pytest.approx([float(x.compute()) for x in metrics])
    wanted = metrics[0].compare(metrics[1])
    assert found.adjusted_p_value[0, 1] == pytest.approx(float(wanted.p_value), abs=SOLVED)


def perfect_and_noisy(order, average="macro", kind=MultilabelAveragePrecision, ids=None):
    """Return metrics, and the epochs of one metric, of two noisy systems and a perfect one of index 2, in an order."""
    generator = torch.Generator().manual_seed(0)
    onehot = torch.nn.functional.one_hot(torch.arange(60) % 3, 3)
    target = onehot if kind is MultilabelAveragePrecision else onehot.argmax(1)
    scores = [onehot + noise * torch.rand(60, 3, generator=generator) for noise in (3.0, 2.0, 0.3)]
    settings = {"normalization": "none"} if kind is MulticlassAveragePrecision else {}
    metrics, epochs = (
        [kind(3, average=average, **settings) for _ in order],
        BestOf(kind(3, average=average, **settings)),
    )
    for metric, place in zip(metrics, order, strict=True):
        metric.update(scores[place], target, groups=ids)
        epochs.update(scores[place], target, groups=ids)
        epochs.compute()
        epochs.reset()
    return metrics, epochs


@each("average", ["macro", "weighted", "micro"])
@each("order", list(itertools.permutations(range(3), 2)))
def test_p_values_of_a_perfect_average_do_not_depend_on_the_order(average, order):
    metrics, epochs = perfect_and_noisy(order, average)
    found = best_of_metrics(metrics).adjusted_p_value
    assert float(metrics[0].compare(metrics[1]).p_value) == pytest.approx(float(found[0, 1]), rel=SOLVED)
    assert best_of_metrics(metrics[::-1]).adjusted_p_value.tolist() == found.tolist()
    assert float(epochs.best().adjusted_p_value[0, 1]) == pytest.approx(float(found[0, 1]), rel=1e-4)  # float32 shares


@pytest.mark.filterwarnings("ignore:`groups`")
@each("average", ["macro", "weighted"])
@each("kind", [MultilabelAveragePrecision, MulticlassAveragePrecision])
@each("ids", [None, torch.arange(60) // 2])
def test_a_perfect_average_leaves_the_intervals_of_the_others(average, kind, ids):
    both = best_of_metrics(perfect_and_noisy([0, 1], average, kind, ids)[0])
    for order in [*itertools.permutations(range(3)), (0, 2), (2, 0)]:
        metrics, epochs = perfect_and_noisy(order, average, kind, ids)
        single = metrics[order.index(0)].confidence_interval()
        low, high = (
            (single.low, single.high) if len(order) == 2 else (both.simultaneous_low[0], both.simultaneous_high[0])
        )
        for found in (best_of_metrics(metrics), epochs.best()):
            assert (found.value, order[found.best]) == (1, 2)
            assert found.reason.startswith("the best value is the largest or smallest possible value")
            assert found.low.isnan()
            assert found.simultaneous_low[found.best].isnan()
            assert float(found.simultaneous_low[order.index(0)]) == pytest.approx(float(low), abs=DRAWN)
            assert float(found.simultaneous_high[order.index(0)]) == pytest.approx(float(high), abs=DRAWN)
            assert not found.adjusted_p_value.isnan().any()


@each("average", ["macro", "weighted"])
@each("ids", [None, torch.arange(300) // 5])
def test_intervals_of_averages_have_no_bias(average, ids):
    generator = torch.Generator().manual_seed(2)
    target = (torch.rand(300, 8, generator=generator) < 0.05).long()
    preds = [torch.randn(300, 8, generator=generator, dtype=F) + k * target for k in (1.0, 1.1, 1.2)]
    metrics = [MultilabelAveragePrecision(8, average=average) for _ in preds]
    epochs = BestOf(MultilabelAveragePrecision(8, average=average))
    for metric, x in zip(metrics, preds, strict=True):
        metric.update(x, target, groups=ids)
        epochs.update(x, target, groups=ids)
        epochs.compute()
        epochs.reset()
    found = best_of_metrics(metrics)
    torch.testing.assert_close(epochs.best().corrected, found.corrected, rtol=0, atol=1e-4)  # float32 contributions
    values, biases = found.values.numpy(), np.array([float(x.confidence_interval().bias) for x in metrics])
    df = min(x._sample().contributions(Resampling()).df for x in metrics)
    if ids is None:
        errors = [float(x.confidence_interval(method="influence").standard_error) for x in metrics]
    else:
        errors = np.array([float(x.confidence_interval().standard_error) for x in metrics])
        errors = np.sqrt(errors**2 - biases**2 / 4)
    gaps = np.array([[float(a.compare(b).standard_error) if a is not b else 0.0 for b in metrics] for a in metrics])
    squares = np.array(errors) ** 2
    covariance = (squares[:, None] + squares - gaps**2) / 2 + np.outer(biases, biases) / 4
    centers = values - biases
    slopes = 1 / (centers * (1 - centers))
    shift = special.logit(values) - special.logit(centers)
    scaled = covariance * np.outer(slopes, slopes)
    expected = JointDistribution(special.logit(values), scaled, student_draws(covariance, df))
    ends = special.expit(expected.simultaneous(0.05) - shift)
    assert found.simultaneous_low.tolist() == pytest.approx(ends[0].tolist(), abs=SOLVED)
    assert found.simultaneous_high.tolist() == pytest.approx(ends[1].tolist(), abs=SOLVED)
    logits = np.array(_hybrid(expected, found.best, 0.05))
    logits = [min(logits[0], special.logit(values[found.best])), max(logits[1], special.logit(values[found.best]))]
    low, high = special.expit(np.array(logits) - shift[found.best])
    assert (float(found.low), float(found.high)) == pytest.approx((low, high), abs=SOLVED)
    corrected = special.logit(values[found.best]) - selection_errors(expected).mean() - shift[found.best]
    assert float(found.corrected) == pytest.approx(special.expit(corrected), abs=SOLVED)


def test_a_value_above_its_interval_has_a_reason():
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(500, 40, generator=generator) < 0.03).long()
    preds = [torch.randn(500, 40, generator=generator) + target for _ in range(2)]
    metrics = metrics_of(MultilabelAveragePrecision, [(x, target) for x in preds], num_labels=40)
    assert not best_of_metrics(metrics).reason
    found = best_of_metrics(metrics, confidence_level=0.6)
    assert found.value > found.high
    assert found.reason.startswith("the value is outside its interval, which is corrected for a bias of 0.0")


def test_queries_equal_the_function_in_any_order():
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(20, 6, generator=generator) < 0.4).long()
    preds = torch.rand(3, 20, 6, generator=generator)
    order = torch.randperm(20, generator=generator)
    index = torch.arange(20).repeat_interleave(6).reshape(20, 6)
    updates = [(x.flatten(), target.flatten(), index.flatten()) for x in preds[:2]]
    updates.append(tuple(x[order].flatten() for x in (preds[2], target, index)))
    metrics = metrics_of(RetrievalMAP, updates)
    values = torch.stack([x.per_query()[1] for x in metrics]).double()
    found, wanted = best_of_metrics(metrics), best_of_per_query(values)
    assert found.values.tolist() == pytest.approx(wanted.values.tolist(), abs=SINGLE)
    assert found.low == pytest.approx(float(wanted.low), abs=1e-5)  # resamples of values in float32


def scene(shift, seed=0, images=12):
    generator = torch.Generator().manual_seed(seed)
    preds, target = [], []
    for _ in range(images):
        boxes = 50 * torch.rand(3, 2, generator=generator)
        boxes = torch.cat([boxes, boxes + 20 + 20 * torch.rand(3, 2, generator=generator)], 1)
        moved = boxes + shift * torch.randn(3, 2, generator=generator).repeat(1, 2)
        labels = torch.zeros(3, dtype=torch.int64)
        target.append({"boxes": boxes, "labels": labels})
        preds.append({"boxes": moved, "scores": torch.rand(3, generator=generator), "labels": labels})
    return preds, target


def test_detectors_have_the_covariance_of_their_replicates():
    metrics = metrics_of(MeanAveragePrecision, [scene(shift) for shift in (3.0, 4.0, 6.0)])
    found = best_of_metrics(metrics, n_resamples=200, correction="holm")
    assert found.values.tolist() == pytest.approx([float(x.compute()["map"]) for x in metrics], abs=SINGLE)
    pair = metrics[0].compare(metrics[1], n_resamples=200, method="bootstrap-normal")
    raw = 2 * stats.t.sf(float(pair.difference.abs() / pair.standard_error), 11)
    alone = best_of_metrics(metrics[:2], n_resamples=200)
    assert alone.adjusted_p_value[0, 1] == pytest.approx(raw, rel=SINGLE)
    assert "12 images: likely too narrow" in found.reason
    many = best_of_metrics(metrics_of(MeanAveragePrecision, [scene(x, images=60) for x in (3.0, 4.0)]), n_resamples=50)
    assert many.reason == ""
    seeded = best_of_metrics(metrics, n_resamples=200, generator=torch.Generator().manual_seed(3))
    assert seeded.adjusted_p_value[0, 1] == pytest.approx(float(found.adjusted_p_value[0, 1]), abs=0.1)  # random draws


def test_metrics_that_differ():
    preds, target = systems(2)
    first = metrics_of(BinaryAveragePrecision, [(preds[0], target)])[0]
    other = metrics_of(BinaryAveragePrecision, [(preds[1], 1 - target)])[0]
    with pytest.raises(ValueError, match="same targets"):
        best_of_metrics([first, other])
    with pytest.raises(ValueError, match="at least two metrics"):
        best_of_metrics([first])
    binned = metrics_of(BinaryAveragePrecision, [(preds.sigmoid()[0], target)] * 2, thresholds=10)
    with pytest.raises(ValueError, match="`thresholds`"):
        best_of_metrics(binned)
    twice = [(x[:, None].repeat(1, 2), target[:, None].repeat(1, 2)) for x in preds]
    labels = metrics_of(MultilabelAveragePrecision, twice, num_labels=2, average="none")
    with pytest.raises(ValueError, match="`average`"):
        best_of_metrics(labels)


@each(
    "metrics, rule",
    {
        "none": (None, "be a sequence or mapping of metrics of torch_ap, got None"),
        "one": (
            BinaryAveragePrecision(),
            "be a sequence or mapping of metrics of torch_ap, got BinaryAveragePrecision",
        ),
        "numbers": ([1, 2], "contain metrics of torch_ap, got 1 as system 0"),
        "names": ({"a": BinaryAveragePrecision(), "b": "x"}, "contain metrics of torch_ap, got 'x' as system 1"),
        "epochs": ([BestOf(BinaryAveragePrecision())] * 2, "contain metrics of torch_ap, got BestOf"),
    },
)
def test_what_is_no_metric(metrics, rule):
    with pytest.raises(TypeError, match=f"^`metrics` must {rule}"):
        best_of_metrics(metrics)


# -- epochs


def epochs_of(preds, target, **settings):
    metric, values = BestOf(BinaryAveragePrecision(), **settings), []
    for row in preds:
        for scores, part in zip(row.split(100), target.split(100), strict=True):
            metric.update(scores, part)
        values.append(metric.compute())
        metric.reset()
    return metric, values


def test_epochs_equal_the_systems():
    preds, target = systems(5)
    metric, values = epochs_of(preds, target)
    for value, row in zip(values, preds, strict=True):
        plain = BinaryAveragePrecision()
        plain.update(row, target)
        assert torch.equal(value, plain.compute())
    found, wanted = metric.best(), best_of(preds, target)
    assert (found.best, found.names) == (wanted.best, wanted.names)
    for name in ("values", "low", "high", "corrected"):
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name), rtol=0, atol=1e-7)  # float32 shares
    copy = pickle.loads(pickle.dumps(metric))
    assert copy.best() == found


def test_a_value_that_is_computed_again_is_the_same_epoch():
    preds, target = systems(3)
    metric = BestOf(BinaryAveragePrecision())
    for row in preds:
        metric.update(row[:200], target[:200])
        if row is not preds[0]:
            assert float(metric(row[:200], target[:200])) > 0  # forward, as in a step; counts in the state
        metric.reset()
    with pytest.raises(ValueError, match="at least two values, got 0"):
        metric.best()
    for row in preds:
        metric.update(row[:200], target[:200])
        metric.update(row[200:], target[200:])
        metric.compute()
        metric.compute()
        metric.reset()
    assert metric.best(method="shifted", names=["a", "b", "c"]).names == ["a", "b", "c"]


def test_some_units_suffice():
    preds, target = systems(6, n=4000)
    all_units, few = epochs_of(preds, target)[0], epochs_of(preds, target, max_units=600)[0]
    assert few._epochs[0].shares.shape == (600,)
    every, found = all_units.best(), few.best()
    assert torch.equal(found.values, every.values)
    exact, sketched = (torch.stack([epoch.shares for epoch in x._epochs]).double() for x in (all_units, few))
    for first, second in itertools.combinations(range(6), 2):
        ratio = (sketched[first] - sketched[second]).square().sum() / (exact[first] - exact[second]).square().sum()
        assert abs(ratio - 1) < 4 * (2 / 600) ** 0.5  # standard errors of a sum of 600 squares
    assert all_units._epochs[0].df == min(target.sum(), 4000 - target.sum()) - 1
    assert epochs_of(preds, target, max_units=20)[0]._epochs[0].df == 20
    assert found.corrected == pytest.approx(float(every.corrected), abs=0.005)  # 600 of 4,000 units
    assert found.low == pytest.approx(float(every.low), abs=0.01)  # 600 of 4,000 units


def test_a_sanity_check_is_dropped_and_other_targets_raise():
    preds, target = systems(3)
    metric = BestOf(BinaryAveragePrecision())
    for row, count in ((preds[0], 100), (preds[0], 400), (preds[1], 400)):
        metric.update(row[:count], target[:count])
        metric.compute()
        metric.reset()
    assert len(metric.best().names) == 2
    metric.update(preds[2], 1 - target)
    with pytest.raises(ValueError, match="epoch 2 must have the targets of epoch 0"):
        metric.compute()
    metric.reset()
    assert len(metric.best().names) == 2
    with pytest.raises(TypeError, match="`metric`"):
        BestOf(torch.nn.Linear(1, 1))


def test_detectors_and_queries_as_epochs():
    metric = BestOf(MeanAveragePrecision())
    for shift in (3.0, 4.0):
        metric.update(*scene(shift))
        assert metric.compute() == pytest.approx(float(metric.metric.compute()["map"]))
        metric.reset()
    wanted = best_of_metrics(metrics_of(MeanAveragePrecision, [scene(shift) for shift in (3.0, 4.0)]))
    assert metric.best().corrected == pytest.approx(float(wanted.corrected), abs=SINGLE)


@each("images", [0, 1, 3])
@each("has_groups", [False, True])
def test_detectors_without_ground_truths_have_no_value(images, has_groups):
    boxes, labels = torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64)
    preds = [{"boxes": boxes, "scores": torch.zeros(0), "labels": labels}] * images
    target = [{"boxes": boxes, "labels": labels}] * images
    groups = list(range(images)) if has_groups else None
    metrics, epochs = [MeanAveragePrecision(), MeanAveragePrecision()], BestOf(MeanAveragePrecision())
    for metric in metrics:
        if images:
            metric.update(preds, target, groups=groups)
            epochs.update(preds, target, groups=groups)
        assert epochs.compute().isnan()
        epochs.reset()
    for found in (best_of_metrics(metrics), epochs.best()):
        assert found.reason == "the value of a system is NaN"
        for name in ("values", "value", "corrected", "low", "high", "simultaneous_low", "simultaneous_high"):
            assert getattr(found, name).isnan().all()


def check_two_ranks(rank):
    preds, target = systems(3)
    metric = BestOf(BinaryAveragePrecision())
    for row in preds:
        metric.update(row[rank::2], target[rank::2])
        metric.compute()
        metric.reset()
    wanted = best_of(preds, target)
    found = metric.best()
    torch.testing.assert_close(found.values, wanted.values, rtol=0, atol=REORDERED)
    assert float(found.low) == pytest.approx(float(wanted.low), abs=SINGLE)


def test_epochs_of_two_processes(ranks):
    ranks(check_two_ranks)


@pytest.mark.slow
def test_lightning_keeps_the_checkpoint_of_the_best_epoch(tmp_path):
    lightning = pytest.importorskip("lightning")
    from lightning.pytorch.callbacks import ModelCheckpoint

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*exists and is not empty.*")
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(300, generator=generator) < 0.2).long()
    features = torch.randn(300, 4, generator=generator) + 0.5 * target[:, None]
    loader = DataLoader(TensorDataset(features, target), batch_size=100)

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
            self.ap = BestOf(BinaryAveragePrecision())

        def training_step(self, batch, _):
            logits = self.layer(batch[0]).squeeze(1)
            return torch.nn.functional.binary_cross_entropy_with_logits(logits, batch[1].float())

        def validation_step(self, batch, _):
            self.ap.update(self.layer(batch[0]).squeeze(1), batch[1])
            self.log("valid_ap", self.ap)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    module, checkpoint = Classifier(), ModelCheckpoint(tmp_path, monitor="valid_ap", mode="max")
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=4, logger=False, callbacks=[checkpoint], enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, loader, loader)
    found = module.ap.best()
    assert len(found.names) == 4
    assert float(checkpoint.best_model_score) == pytest.approx(float(found.value))
    assert found.corrected <= found.value
