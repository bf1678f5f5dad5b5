import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import special, stats

from tests.support import oracles_inference as oracles
from tests.support.tolerances import REORDERED, SOLVED
from torch_ap import BinaryAveragePrecision, functional
from torch_ap.inference import (
    compare_rankings_above_chance,
    normalized_average_precision_interval,
    precision_recall_gain_interval,
)


def sample(n, seed, scores=6):
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(n, generator=generator) < 0.4).long()
    target[:2] = torch.tensor([0, 1])
    return torch.randint(scores, (n,), generator=generator).double() + target, target


def area_by_definition(scores, target):
    """Add trapezoids between thresholds; the curve starts where recall is m / n, on the line of the counts."""
    n, m = len(target), sum(target)
    odds, start = Fraction(m, n - m), Fraction(m * m, n)

    def point(tp, fp):
        return 1 - odds * (m - tp) / tp, 1 - odds * fp / tp

    counts = [(Fraction(0), Fraction(0))]
    for score in sorted(set(scores), reverse=True):
        kept = [y for s, y in zip(scores, target, strict=True) if s >= score]
        counts.append((Fraction(sum(kept)), Fraction(len(kept) - sum(kept))))
    area = Fraction(0)
    for (tp, fp), (more_tp, more_fp) in itertools.pairwise(counts):
        if more_tp <= start:
            continue
        share = max(Fraction(0), (start - tp) / (more_tp - tp)) if more_tp > tp else Fraction(0)
        first = point(tp + share * (more_tp - tp), fp + share * (more_fp - fp))
        last = point(more_tp, more_fp)
        area += (last[0] - first[0]) * (first[1] + last[1]) / 2
    return float(area)


def test_area_by_definition():
    for seed in range(25):
        scores, target = sample(4 + seed, seed)
        wanted = area_by_definition(scores.tolist(), target.tolist())
        gains = functional.binary_curve(scores, target).precision_recall_gain()
        assert float(gains.area) == pytest.approx(wanted, abs=REORDERED)
        interval = precision_recall_gain_interval(scores, target, n_resamples=20)
        assert float(interval.estimate) == pytest.approx(wanted, abs=REORDERED)
        weighted = functional.binary_curve(scores, target, weights=torch.full((len(scores),), 0.25))
        assert float(weighted.precision_recall_gain().area) == pytest.approx(wanted, abs=REORDERED)


def test_area_of_the_packages_own_example():
    # calc_auprg(create_prg_curve(labels, scores)) of the paper's package, run once
    labels = [1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 1]
    gains = functional.binary_curve(torch.arange(25.0, 0, -1), torch.tensor(labels)).precision_recall_gain()
    assert float(gains.area) == pytest.approx(0.43246210357423226, rel=SOLVED)


def test_gains_are_zero_at_chance_and_one_for_a_perfect_ranking():
    metric = BinaryAveragePrecision()
    metric.update(torch.tensor([3.0, 2.0, 1.0, 1.0]), torch.tensor([0, 1, 1, 0]))
    gains = metric.curve().precision_recall_gain()
    assert gains.precision_gain.tolist() == [-math.inf, 0, 0]
    assert gains.recall_gain.tolist() == [-math.inf, 0, 1]
    assert gains.thresholds.tolist() == [3, 2, 1]
    perfect = functional.binary_curve(torch.tensor([3.0, 2, 1]), torch.tensor([1, 1, 0]))
    assert float(perfect.precision_recall_gain().area) == 1
    assert float(perfect.normalized_average_precision) == 1


def test_normalized_average_precision_by_finite_differences():
    """The influence of an item is the derivative of the value in its weight."""
    scores, target = sample(30, 3)
    n = len(scores)

    def value(weights):
        curve = functional.binary_curve(scores, target, weights=weights)
        return float(curve.normalized_average_precision)

    step, ones = 1e-5, torch.ones(n, dtype=torch.float64)
    influence = []
    for item in range(n):
        shift = torch.zeros(n, dtype=torch.float64)
        shift[item] = step
        influence.append((value(ones + shift) - value(ones - shift)) / (2 * step))
    influence = torch.tensor(influence, dtype=torch.float64)
    found = normalized_average_precision_interval(scores, target)
    ap = float(oracles.grouped(scores.tolist(), target.tolist()))
    share = float(target.double().mean())
    assert float(found.estimate) == pytest.approx((ap - share) / (1 - share), rel=REORDERED)
    # the variances of hits and of misses have one degree of freedom less, and the difference between the two has not
    kinds = [influence[target == kind] for kind in (0, 1)]
    squares = sum(float((x - x.mean()).square().sum()) * len(x) / (len(x) - 1) for x in kinds)
    squares += sum(len(x) * float(x.mean()) ** 2 for x in kinds)
    assert float(found.standard_error) == pytest.approx(math.sqrt(squares), rel=1e-7)  # of finite differences
    within = normalized_average_precision_interval(scores, target, design="stratified")
    squares = sum(float((x - x.mean()).square().sum()) * len(x) / (len(x) - 1) for x in kinds)
    assert float(within.standard_error) == pytest.approx(math.sqrt(squares), rel=1e-7)  # finite differences or roots


def test_ends_at_the_limits():
    perfect = normalized_average_precision_interval(torch.arange(10.0, 0, -1), torch.tensor([1] * 4 + [0] * 6))
    assert float(perfect.high) == 1
    assert float(perfect.low) == pytest.approx((0.05**0.25 - 0.4) / 0.6)
    worse = normalized_average_precision_interval(torch.arange(10.0), torch.tensor([1] * 4 + [0] * 6))
    assert worse.low < worse.estimate < 0
    for target in ([0, 0, 0], [1, 1, 1], [0, 1, 0]):
        found = normalized_average_precision_interval(torch.arange(3.0), torch.tensor(target))
        assert math.isnan(found.low)
        assert found.reason
    for target, text in (([0, 0], "no hits"), ([1, 1], "no misses")):
        found = precision_recall_gain_interval(torch.arange(2.0), torch.tensor(target))
        assert math.isnan(found.estimate)
        assert text in found.reason
    one = precision_recall_gain_interval(torch.arange(4.0, 0, -1), torch.tensor([1, 0, 0, 0]))
    assert one.low < one.estimate <= one.high == 1


INTERVALS = {
    "normalized_average_precision": normalized_average_precision_interval,
    "precision_recall_gain": precision_recall_gain_interval,
}


def grouped_sample(gap=1.5, seed=0):
    """Return scores of two systems with ties, targets and groups of 240 items."""
    generator = torch.Generator().manual_seed(seed)
    target, ids = (torch.rand(240, generator=generator) < 0.3).long(), torch.arange(240) // 12
    noise = torch.randn(2, 240, generator=generator, dtype=torch.float64)
    a, b = (2 * (noise[0] + gap * target)).round(), noise[0] + noise[1] + gap * target
    return a, b, target, ids


def value_of(measure, scores, target):
    curve = functional.binary_curve(scores, target)
    if measure == "precision_recall_gain":
        return float(curve.precision_recall_gain().area)
    return float(curve.normalized_average_precision)


def explicit_values(measure, scores, target, ids):
    kept = [ids != group for group in ids.unique()]
    return np.array([value_of(measure, scores[x], target[x]) for x in kept])


def explicit_df(target, ids):
    hits = np.bincount(ids, target)
    misses = np.bincount(ids) - hits
    return min(len(hits), *(x.sum() ** 2 / (x**2).sum() for x in (hits, misses))) - 1


# increasing functions with values in (0, 1), their inverses and their derivatives, for targets
UNITS = {
    "normalized_average_precision": lambda target: (
        lambda x: 1 - (1 - x) * float((1.0 - target).mean()),
        lambda u: 1 - (1 - u) / float((1.0 - target).mean()),
        lambda _: float((1.0 - target).mean()),
    ),
    "precision_recall_gain": lambda _: (lambda x: 1 / (2 - x), lambda u: 2 - 1 / u, lambda x: 1 / (2 - x) ** 2),
}


def error_of(values):
    return math.sqrt((len(values) - 1) / len(values) * ((values - values.mean()) ** 2).sum())


@pytest.mark.parametrize("measure", INTERVALS)
def test_groups_follow_from_explicit_deletion(measure):
    a, b, target, ids = grouped_sample()
    values = [explicit_values(measure, x, target, ids) for x in (a, b)]
    value, other = (value_of(measure, x, target) for x in (a, b))
    df, logit, (unit, back, slope) = explicit_df(target, ids), special.logit, UNITS[measure](target)
    found = INTERVALS[measure](a, target, groups=ids)
    assert (float(found.estimate), found.method, found.reason) == (pytest.approx(value), "jackknife", "")
    assert float(found.standard_error) == pytest.approx(error_of(values[0]))
    half = stats.t.isf(0.025, df) * error_of(values[0]) * slope(value) / (unit(value) * (1 - unit(value)))
    ends = logit(unit(value)) - half, logit(unit(value)) + half
    assert [logit(unit(float(x))) for x in (found.low, found.high)] == pytest.approx(ends)
    compared = compare_rankings_above_chance(a, b, target, measure=measure, groups=ids)
    assert float(compared.standard_error) == pytest.approx(error_of(values[0] - values[1]))
    for sign in (1, -1):  # -b is below chance
        compared = compare_rankings_above_chance(a, sign * b, target, measure=measure, groups=ids)
        values[1], other = explicit_values(measure, sign * b, target, ids), value_of(measure, sign * b, target)
        share = (df + 1) / (df + 2)
        x, y = share * unit(value), share * unit(other)
        units, slopes = [unit(z) for z in values], (share / (x * (1 - x)), share / (y * (1 - y)))
        error = error_of(slopes[0] * units[0] - slopes[1] * units[1]) / math.sqrt(share)
        t = abs(logit(x) - logit(y)) / error
        assert float(compared.p_value) == pytest.approx(2 * stats.t.sf(t, df))
        errors = np.array([error_of(k * z) for k, z in zip(slopes, units, strict=True)]) / math.sqrt(share)
        correlation = (sum(errors**2) - error**2) / (2 * errors[0] * errors[1])
        shift, points = stats.t.isf(0.025, df) * errors, back(np.array([x, y]))
        below, above = (abs(back(special.expit(logit([x, y]) + k * shift)) - points) for k in (-1, 1))
        halves = [
            math.sqrt(first**2 + second**2 - 2 * correlation * first * second)
            for first, second in ((below[0], above[1]), (above[0], below[1]))
        ]
        gap = points[0] - points[1]
        assert [float(compared.low), float(compared.high)] == pytest.approx([gap - halves[0], gap + halves[1]])


@pytest.mark.parametrize("measure", INTERVALS)
def test_intervals_near_chance_are_as_wide_as_the_error(measure):
    generator = torch.Generator().manual_seed(2)
    target, scores = (torch.rand(1000, generator=generator) < 0.1).long(), torch.rand(1000, generator=generator)
    for groups in (None, torch.arange(1000) // 10):
        found = INTERVALS[measure](scores, target, groups=groups)
        assert found.low < 0 < found.high
        assert found.high - found.low < (0.1 if measure == "normalized_average_precision" else 1)
    better = scores + target
    compared = compare_rankings_above_chance(better, scores, target, measure=measure, groups=torch.arange(1000) // 10)
    assert compared.p_value < 1e-3
    assert compared.low > 0


@pytest.mark.parametrize("measure", INTERVALS)
def test_groups_at_the_edges(measure):
    interval = INTERVALS[measure]
    a, b, target, ids = grouped_sample()
    perfect = interval(target + 0.0, target, groups=ids)
    assert (float(perfect.estimate), float(perfect.high)) == (1, 1)
    assert 0 < perfect.low < 1
    below = interval(-a, target, groups=ids)
    assert below.low < below.estimate < below.high
    for labels in (target * 0, target * 0 + 1):
        none = interval(a, labels, groups=ids)
        assert none.low.isnan()
        assert "no " in none.reason
    assert interval(a[:0], target[:0], groups=[]).estimate.isnan()
    tied = interval(a * 0, target, groups=ids)
    assert (float(tied.low), float(tied.high), float(tied.standard_error)) == pytest.approx((0, 0, 0), abs=REORDERED)
    assert "no width" in tied.reason
    single = interval(a, target, groups=ids * 0)
    assert single.low.isnan()
    assert "fewer than two groups" in single.reason
    with pytest.warns(UserWarning, match="5 groups with hits"):
        assert "5 groups with hits" in interval(a, target, groups=ids % 5).reason
    with pytest.raises(ValueError, match="`groups`"):
        interval(a, target, groups=[1, 2])
    alone = compare_rankings_above_chance(a, b, target, measure=measure, groups=ids * 0)
    assert alone.p_value.isnan()


@pytest.mark.parametrize("measure", INTERVALS)
def test_two_systems_of_independent_items(measure):
    a, b, target, _ = grouped_sample()
    found = compare_rankings_above_chance(a, b, target, measure=measure)
    back = compare_rankings_above_chance(b, a, target, measure=measure)
    assert float(found.difference) == pytest.approx(value_of(measure, a, target) - value_of(measure, b, target))
    # other draws of the same weights
    assert [float(back.low), float(back.high)] == pytest.approx([-float(found.high), -float(found.low)], abs=0.03)
    assert found.method == "dirichlet"
    at_p = compare_rankings_above_chance(a, b, target, measure=measure, confidence_level=1 - float(found.p_value))
    assert min(abs(float(at_p.low)), abs(float(at_p.high))) < 1e-3
    # the standard error of the draws, and of the jackknife of single items
    items = compare_rankings_above_chance(a, b, target, measure=measure, groups=torch.arange(240))
    assert float(found.standard_error) == pytest.approx(float(items.standard_error), rel=0.15)
    alike = compare_rankings_above_chance(a, 2 * a, target, measure=measure)
    assert (float(alike.p_value), float(alike.difference)) == (1, 0)
    far = compare_rankings_above_chance(target + 0.0, -a, target, measure=measure, n_resamples=99)
    assert (float(far.p_value), far.reason) == (pytest.approx(0.02), "p is no less than 0.02 with these draws")
    none = compare_rankings_above_chance(a, b, target * 0, measure=measure)
    assert (none.p_value.isnan(), none.reason) == (True, "no hits: everything is NaN")
    full = compare_rankings_above_chance(a, b, target * 0 + 1, measure=measure)
    assert full.reason == "no misses: everything is NaN"


def test_invalid_arguments_of_the_comparison():
    a, b, target, ids = grouped_sample()
    for options, message in (
        ({"measure": "ap"}, "`measure`"),
        ({"confidence_level": 1}, "`confidence_level`"),
        ({"groups": ids[:9]}, "`groups`"),
        ({"preds_b": b[:9]}, "`preds_b`"),
        ({"preds_a": a * torch.nan}, "preds_a"),
        ({"target": target + 1}, "target"),
    ):
        with pytest.raises(ValueError, match=message):
            compare_rankings_above_chance(**{"preds_a": a, "preds_b": b, "target": target, **options})
    with pytest.raises(ValueError, match="`design`"):
        normalized_average_precision_interval(a, target, groups=ids, design="stratified")
