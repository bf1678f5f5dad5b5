import math

import numpy as np
import pytest
import scipy.stats
import torch

from tests.inference.test_groups import explicit_count
from tests.support.tolerances import REORDERED
from torch_ap import MultilabelAveragePrecision, functional
from torch_ap.core.measures.top_share import precision_at_recall
from torch_ap.core.ranking import builders
from torch_ap.inference import average_precision_interval, precision_band
from torch_ap.inference.resampling import Resampling
from torch_ap.inference.simultaneous import band_ends, max_t_level, sequence_factor

LEVELS = torch.tensor([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0], dtype=torch.float64)


def sample(n=300, classes=0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (n, classes) if classes else (n,)
    target = (torch.rand(shape, generator=generator) < 0.2).long()
    return torch.randn(shape, generator=generator, dtype=torch.float64) + 1.5 * target, target


def precision_by_definition(scores, target, weights, level):
    """Walk down the tie groups until the wanted weight of hits is reached; take the same part of hits and misses."""
    m = float(weights[target == 1].sum())
    h = t = 0.0
    for score in sorted(set(scores.tolist()), reverse=True):
        group = scores == score
        hits, items = float(weights[group & (target == 1)].sum()), float(weights[group].sum())
        if h + hits >= level * m * (1 - 1e-12) and hits:
            part = 1.0 if not h else (level * m - h) / hits
            return (h + part * hits) / (t + part * items)
        h, t = h + hits, t + items
    raise AssertionError


def test_precision_at_recall_by_definition():
    generator = torch.Generator().manual_seed(1)
    for n in (2, 7, 20, 20):
        scores = torch.randint(6, (n,), generator=generator).double()
        target = (torch.rand(n, generator=generator) < 0.5).long()
        target[0] = 1
        for weights in (torch.ones(n, dtype=torch.float64), torch.rand(n, generator=generator).double() + 0.1):
            curve = builders.from_scores(scores, target, weight=weights)
            wanted = [precision_by_definition(scores, target, weights, float(level)) for level in LEVELS]
            assert precision_at_recall(curve, LEVELS)[0].tolist() == pytest.approx(wanted)


def test_the_band_is_wider_than_pointwise_and_contains_the_curve():
    preds, target = sample()
    band = precision_band(preds, target, LEVELS, simultaneous=True)
    curve = functional.binary_curve(preds, target)
    assert (band.method, band.reason) == ("dirichlet", "")
    assert (band.low <= band.estimate).all()
    assert (band.estimate <= band.high).all()
    assert (band.low >= 0).all()
    assert (band.high <= 1).all()
    wider = precision_band(preds, target, LEVELS, simultaneous=True, confidence_level=0.99)
    assert (wider.high - wider.low >= band.high - band.low).all()
    points = precision_band(preds, target, LEVELS)
    assert ((band.high - band.low)[1:-1] > (points.high - points.low)[1:-1]).all()
    again = curve.band(LEVELS, simultaneous=True, design="stratified")
    assert (again.low != band.low).any()
    fixed = precision_band(preds, target, LEVELS, simultaneous=True, design="stratified")
    assert again == fixed
    one = precision_band(torch.arange(4.0, 0, -1), torch.tensor([0, 1, 0, 0]), LEVELS, simultaneous=True)
    assert (one.low < one.high).all()


def test_the_band_contains_the_estimate_below_many_misses():
    preds, target = torch.tensor([1.0] * 30 + [0.0] * 30), torch.tensor([0] * 30 + [1] * 30)
    for draws in (2, 1000):
        band = precision_band(preds, target, LEVELS, simultaneous=True, n_resamples=draws)
        assert (band.low <= band.estimate).all()
        assert (band.estimate <= band.high).all()


def test_bands_without_hits_or_misses():
    for target, design, text in (([0, 0], "iid", "no hits"), ([1, 1], "stratified", "no misses")):
        found = precision_band(torch.arange(2.0), torch.tensor(target), design=design, simultaneous=True)
        assert found.low.isnan().all()
        assert text in found.reason
    preds, target = sample(20)
    with pytest.raises(ValueError, match="`simultaneous`"):
        precision_band(preds, target, simultaneous=1)


def test_calibrated_ends_contain_the_share_of_whole_draws():
    generator = torch.Generator().manual_seed(2)
    draws = torch.randn(4000, 6, generator=generator, dtype=torch.float64).cumsum(1)
    low, high = band_ends(draws, draws, 0.9)
    inside = ((draws >= low) & (draws <= high)).all(1).double().mean()
    assert inside == pytest.approx(0.9, abs=0.03)  # one tail may lose draws of the other
    constant = torch.ones(50, 3, dtype=torch.float64)
    assert [x.tolist() for x in band_ends(constant, constant, 0.9)] == [[1] * 3, [1] * 3]


def test_classes_have_the_level_of_the_greatest_deviation():
    preds, target = sample(classes=4)
    found = average_precision_interval(preds, target, simultaneous=True)
    assert (found.method, found.confidence_level) == ("max-t", 0.95)
    metric = MultilabelAveragePrecision(4, average=None)
    metric.update(preds, target)
    assert metric.confidence_interval(simultaneous=True) == found
    # nearly independent classes: the level of one is that of Sidak (1967)
    single = average_precision_interval(preds, target, confidence_level=0.95 ** (1 / 4))
    assert (found.high - found.low).tolist() == pytest.approx((single.high - single.low).tolist(), rel=0.02)
    twice = average_precision_interval(preds[:, [0, 0]], target[:, [0, 0]], simultaneous=True)
    alone = average_precision_interval(preds[:, 0], target[:, 0])
    assert twice.low.tolist() == pytest.approx([float(alone.low)] * 2, rel=0.01)  # random draws
    perfect = torch.stack([target[:, 0].double(), preds[:, 1]], 1)
    edge = average_precision_interval(perfect, target[:, :2], simultaneous=True)
    assert edge.high[0] == 1
    assert edge.low[0] < 1


def test_the_level_of_single_values_from_published_tables():
    """Two-sided 5% points of Dunnett (1964) and of the studentized range, for infinitely many degrees of freedom."""
    for count, point in {2: 2.21, 3: 2.35, 5: 2.51, 9: 2.69}.items():  # correlations of 1/2
        rows = torch.cat([torch.ones(count, 1), torch.eye(count)], 1)
        rows = torch.cat([rows, -rows], 1)
        level = max_t_level(rows.double(), 0.95, Resampling())
        assert scipy.stats.norm.isf((1 - level) / 2) == pytest.approx(point, rel=0.01)  # random draws
    for count, point in {3: 3.31, 5: 3.86}.items():  # all differences of independent values
        means = torch.eye(count, dtype=torch.float64)
        first, second = torch.triu_indices(count, count, 1)
        rows = means[first] - means[second]
        level = max_t_level(torch.cat([rows, -rows], 1), 0.95, Resampling())
        assert scipy.stats.norm.isf((1 - level) / 2) * 2**0.5 == pytest.approx(point, rel=0.01)  # random draws


def test_confidence_sequences_by_formula():
    preds, target = sample(200)
    found = average_precision_interval(preds, target, first_look=50)
    alone = average_precision_interval(preds, target)
    n, alpha, z = 200, 0.05, scipy.stats.norm.isf(0.025)
    rho = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha) + 1)) / 100
    half = math.sqrt(2 * (n * rho + 1) / (n**2 * rho) * math.log(math.sqrt(n * rho + 1) / alpha)) * math.sqrt(n) / z
    assert float(sequence_factor(torch.tensor([n]), 50, 0.95)) == pytest.approx(half, rel=REORDERED)
    logits = [scipy.special.logit(float(x)) for x in (found.low, alone.low, alone.high, found.high, alone.estimate)]
    assert logits[3] - logits[4] == pytest.approx((logits[2] - logits[4]) * half)
    assert logits[0] - logits[4] == pytest.approx((logits[1] - logits[4]) * half)
    assert (found.method, found.reason) == ("confidence-sequence", "")
    # the width is about the narrowest at twice the first look
    factors = [float(sequence_factor(torch.tensor([n]), 50, 0.95)) for n in (50, 100, 400)]
    assert factors[1] < min(factors[0], factors[2])


def test_looks_with_few_hits_and_many_rankings():
    few = average_precision_interval(*sample(40), first_look=20)
    assert "fewer than 20 hits" in few.reason
    preds, target = sample(30, classes=2)
    target[:, 1] = 0
    found = average_precision_interval(preds, target, first_look=20)
    assert found.low[1].isnan()
    assert "ranking 0: fewer than" in found.reason
    perfect = average_precision_interval(torch.arange(4.0), torch.tensor([0, 0, 1, 1]), first_look=2)
    assert math.isnan(perfect.low)


def test_arguments_that_cannot_be_combined():
    preds, target = sample(60, classes=2)
    binned = MultilabelAveragePrecision(2, average=None, thresholds=[0.0, 1.0])
    binned.update(preds, target)
    groups = torch.arange(60) % 12
    calls = {
        "simultaneous": [
            lambda: average_precision_interval(preds[:, 0], target[:, 0], simultaneous=True),
            lambda: average_precision_interval(preds, target, average="macro", method="influence", simultaneous=True),
            lambda: average_precision_interval(preds[:, 0], target[:, 0], simultaneous=True, groups=groups),
            lambda: average_precision_interval(preds, target, simultaneous=0),
        ],
        "thresholds": [lambda: binned.confidence_interval(simultaneous=True)],
        "method": [
            lambda: average_precision_interval(preds, target, simultaneous=True, method="wald"),
            lambda: average_precision_interval(preds, target, first_look=9, method="wald"),
            lambda: average_precision_interval(preds, target, first_look=9, method="wald", groups=groups),
            lambda: average_precision_interval(preds, target, simultaneous=True, method="wald", groups=groups),
        ],
        "first_look": [
            lambda: average_precision_interval(preds, target, first_look=61),
            lambda: average_precision_interval(preds, target, first_look=1),
            lambda: average_precision_interval(preds, target, first_look=9, simultaneous=True),
            lambda: average_precision_interval(preds, target, first_look=9, average="macro", method="influence"),
        ],
    }
    for name, all_calls in calls.items():
        for call in all_calls:
            with pytest.raises(ValueError, match=f"`{name}`"):
                call()


def test_correlations_of_the_classes_by_simulation():
    """The level of single classes is between the level of one class and that of independent classes."""
    generator = np.random.default_rng(0)
    target = torch.tensor(generator.random((400, 3)) < 0.3).long()
    shared = generator.normal(size=(400, 1))
    preds = torch.tensor(0.95 * shared + 0.3 * generator.normal(size=(400, 3))) + target
    found = average_precision_interval(preds, target, simultaneous=True)
    low, high = (average_precision_interval(preds, target, confidence_level=x) for x in (0.95, 0.95 ** (1 / 3)))
    widths = [x.high - x.low for x in (low, found, high)]
    assert (widths[0] < widths[1]).all()
    assert (widths[1] <= widths[2] * 1.005).all()


def joint_level_by_definition(rows, level=0.95, draws=400_000):
    """Return P(abs(Z) <= c) with c the quantile of the largest of normal variates that correlate as the rows."""
    z = np.random.default_rng(1).multivariate_normal(np.zeros(len(rows)), np.corrcoef(rows), draws)
    return 1 - 2 * scipy.stats.norm.sf(np.quantile(abs(z).max(1), level))


def test_classes_of_items_in_groups():
    preds, target = sample(classes=4)
    groups = torch.arange(300) // 15
    found = average_precision_interval(preds, target, simultaneous=True, groups=groups)
    values = []
    for group in range(20):
        kept = groups != group
        values.append(functional.multilabel_average_precision(preds[kept], target[kept], num_labels=4, average=None))
    level = joint_level_by_definition(torch.stack(values, 1).numpy())
    single = average_precision_interval(preds, target, confidence_level=level, groups=groups)
    assert (found.method, found.confidence_level, found.reason) == ("max-t", 0.95, "")
    for name in ("estimate", "standard_error"):
        assert torch.equal(getattr(found, name), getattr(single, name))
    assert found.low.tolist() == pytest.approx(single.low.tolist(), rel=0.01)  # random draws
    assert found.high.tolist() == pytest.approx(single.high.tolist(), rel=0.01)
    metric = MultilabelAveragePrecision(4, average=None)
    metric.update(preds, target, groups=groups)
    assert metric.confidence_interval(simultaneous=True) == found
    assert average_precision_interval(preds, target, simultaneous=True, groups=groups, method="influence").low[0] > 0
    alone = average_precision_interval(preds, target, simultaneous=True, groups=groups * 0)
    assert alone.low.isnan().all()


def test_looks_at_items_in_groups():
    preds, target = sample(300)
    groups = torch.arange(300) // 15
    found = average_precision_interval(preds, target, first_look=60, groups=groups)
    single = average_precision_interval(preds, target, groups=groups)
    factor = float(sequence_factor(torch.tensor([300]), 60, 0.95))
    low, estimate, high = (scipy.special.logit(float(x)) for x in (found.low, single.estimate, found.high))
    error = float(single.standard_error / (single.estimate * (1 - single.estimate)))
    half = scipy.stats.t.ppf(0.975, explicit_count(target, groups) - 1) * error * factor
    assert (high - estimate, estimate - low) == pytest.approx((half, half))
    assert (found.method, found.reason) == ("confidence-sequence", "")
    with pytest.warns(UserWarning, match="6 groups with hits"):
        few = average_precision_interval(preds, target, first_look=60, groups=groups % 6)
    assert few.reason == "6 groups with hits, but coverage is measured from 10 on: the interval may be too narrow"
    alone = average_precision_interval(preds, target, first_look=60, groups=groups * 0)
    assert alone.low.isnan()
    assert "fewer than two groups" in alone.reason
