import itertools
import math
from fractions import Fraction

import pytest
import torch

from tests.support import oracles_inference as oracles
from tests.support.tolerances import REORDERED, SOLVED
from torch_ap import BinaryAveragePrecision, functional
from torch_ap.inference import normalized_average_precision_interval, precision_recall_gain_interval


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
