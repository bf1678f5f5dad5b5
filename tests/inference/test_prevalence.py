import math
from functools import partial

import numpy as np
import pytest
import scipy.stats
import torch
from sklearn.metrics import average_precision_score

from tests.inference.test_dirichlet import by_definition
from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap import (
    BinaryAveragePrecision,
    Convention,
    MulticlassAveragePrecision,
    MultilabelAveragePrecision,
    functional,
)
from torch_ap.core.ranking import builders, hit_curve
from torch_ap.inference import average_precision_interval, dirichlet
from torch_ap.inference.resampling import generators


def sample(n=60, seed=0, shape=()):
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(n, *shape, generator=generator) < 0.3).long()
    scores = torch.randint(12, (n, *shape), generator=generator, dtype=torch.float64) + 3 * target
    return scores, target


def expected_ap(scores, target, prevalence):
    """Weigh the misses, as Elkan (2001) does."""
    m, q = float(target.sum()), float((1 - target).sum())
    weight = m / q * (1 - prevalence) / prevalence
    return average_precision_score(target, scores, sample_weight=np.where(target == 1, 1.0, weight))


@pytest.mark.parametrize("prevalence", [0.001, 0.3, 0.9])
def test_value_has_the_misses_weighted(prevalence):
    scores, target = sample()
    wanted = expected_ap(scores, target, prevalence)
    metric = BinaryAveragePrecision(prevalence=prevalence)
    for part in (slice(25), slice(25, None)):
        metric.update(scores[part], target[part])
    binned = BinaryAveragePrecision(bins=torch.arange(-0.5, 16).tolist(), prevalence=prevalence, tolerance=2.0)
    binned.update(scores, target)
    curve = functional.binary_curve(scores, target, prevalence=prevalence)
    bounds = binned.bounds()
    values = {
        "function": functional.binary_average_precision(scores, target, prevalence=prevalence),
        "metric": metric.compute(),
        "curve": curve.average_precision,
        "metric's curve": metric.curve().average_precision,
        "interval": average_precision_interval(scores, target, prevalence=prevalence, n_resamples=2).estimate,
    }
    for name, value in values.items():
        assert float(value) == pytest.approx(wanted, rel=REORDERED), name
    assert float(curve.chance_level) == pytest.approx(prevalence, rel=REORDERED)
    assert bounds.low <= wanted <= bounds.high
    assert "prevalence" in repr(metric)


def test_value_of_classes_and_labels():
    scores, target = sample(shape=(3,))
    each = [expected_ap(scores[:, i], target[:, i], 0.1) for i in range(3)]
    metric = MultilabelAveragePrecision(3, average=None, prevalence=0.1)
    metric.update(scores, target)
    assert metric.compute().tolist() == pytest.approx(each)
    interval = metric.confidence_interval(n_resamples=20)
    assert interval.estimate.tolist() == pytest.approx(each)
    assert (interval.low < interval.high).all()
    kinds = torch.arange(60) % 3
    wanted = [expected_ap(scores[:, i], (kinds == i).long(), 0.1) for i in range(3)]
    options = {"average": None, "normalization": "none", "prevalence": 0.1}
    assert functional.multiclass_average_precision(scores, kinds, 3, **options).tolist() == pytest.approx(wanted)
    mean = MulticlassAveragePrecision(3, normalization="none", prevalence=0.1)
    mean.update(scores, kinds)
    assert float(mean.compute()) == pytest.approx(sum(wanted) / 3)
    with pytest.raises(ValueError, match="`average`"):
        mean.confidence_interval()


def test_prevalence_of_the_sample_changes_nothing():
    scores, target = sample()
    share = float(target.double().mean())
    assert float(functional.binary_average_precision(scores, target, prevalence=share)) == pytest.approx(
        float(functional.binary_average_precision(scores, target)), rel=REORDERED
    )
    plain = average_precision_interval(scores, target, method="dirichlet", design="stratified", n_resamples=100)
    found = average_precision_interval(scores, target, prevalence=share, n_resamples=100)
    assert float(found.low) == pytest.approx(float(plain.low), rel=REORDERED)
    assert float(found.high) == pytest.approx(float(plain.high), rel=REORDERED)
    assert (found.method, found.design) == ("dirichlet", "stratified")


def test_sampling_weights_equal_for_all_items_change_nothing():
    scores, target = sample()
    plain = average_precision_interval(scores, target, method="dirichlet", n_resamples=100)
    weights = torch.full((60,), 8.0)
    found = average_precision_interval(scores, target, sampling_weights=weights, n_resamples=100)
    for end in ("estimate", "low", "high"):
        assert float(getattr(found, end)) == pytest.approx(float(getattr(plain, end)), rel=REORDERED)
    assert "above the median hit" in found.reason
    metric = BinaryAveragePrecision()
    metric.update(scores, target, weights)
    assert metric.confidence_interval(sampling_weights=True, n_resamples=100) == found
    labels = torch.stack([target, 1 - target], 1)
    both = average_precision_interval(
        torch.stack([scores, -scores], 1), labels, sampling_weights=weights[:, None].expand(60, 2), n_resamples=100
    )
    assert both.low[0] == found.low


@pytest.mark.parametrize("side", [0, 1])
def test_draws_of_sampled_items_have_the_distribution_of_weights_per_item(side):
    rng, count, share = np.random.default_rng(side), 2000, 0.2
    scores, target = (x[:14] for x in sample(seed=4))
    scores[:3] = torch.tensor([20.0, 19.0, 18.0])
    target[:3] = torch.tensor([0, 1, 0])
    rates = torch.tensor([1.0, 0.5, 0.1, 0.5, 1.0, 0.1, 0.1] * 2, dtype=torch.float64)
    curve = builders.from_scores(scores, target, weight=rates)
    items = dirichlet.WeightedItems.from_items(curve, scores, target == 1, rates)
    # the highest two misses are above the median hit
    hits, misses = rates[target == 1], rates[(target == 0) & (scores >= median_hit(scores, target, rates))]
    assert items.pseudo_weights.tolist() == [misses.max(), hits.max(), hits.max()]
    assert items.effective_misses == pytest.approx(float(misses.sum() ** 2 / misses.square().sum()))

    def replicate():
        weights = rng.standard_exponential(14) * rates.numpy()
        half = rng.standard_gamma(0.5, 2) * items.pseudo_weights[:2]
        more = [(math.inf, 1, half[1])] if side else [(math.inf, 0, half[0]), (-math.inf, 1, half[1])]
        columns = [
            [*x, *y] for x, y in zip((scores.tolist(), target.tolist(), weights), zip(*more, strict=True), strict=True)
        ]
        hit = sum(w for w, y in zip(columns[2], columns[1], strict=True) if y)
        miss = sum(columns[2]) - hit
        columns[2] = [
            w if y else w * hit / miss * (1 - share) / share for w, y in zip(columns[2], columns[1], strict=True)
        ]
        return by_definition(*columns, 0.3)["AP"]

    drawn = hit_curve.at_prevalence(items.curves(generators(3, range(count)))[side], share)
    values = Convention(ties="grouped")(drawn).numpy()
    # the probability of a smaller p-value is 1e-4
    assert scipy.stats.ks_2samp(values, [replicate() for _ in range(count)]).pvalue > 1e-4


def median_hit(scores, target, weights):
    """Return the score of the hit at which half of the weight of the hits is reached."""
    hits = sorted(zip(scores[target == 1].tolist(), weights[target == 1].tolist(), strict=True), reverse=True)
    half, total = sum(w for _, w in hits) / 2, 0.0
    for score, weight in hits:
        total += weight
        if total >= half:
            return score
    raise AssertionError


def test_effective_misses_are_a_number_for_equal_weights():
    curve = builders.from_scores(torch.tensor([5.0, 4, 4, 3, 2, 1]), torch.tensor([0, 1, 0, 1, 0, 1]))
    assert dirichlet.WeightedItems.from_curve(curve).effective_misses == 2
    few = average_precision_interval(torch.tensor([5.0, 4, 3, 2]), torch.tensor([0, 1, 1, 0]), prevalence=0.01)
    assert "median hit: 1, too few" in few.reason
    perfect = builders.from_scores(torch.tensor([3.0, 2, 1]), torch.tensor([1, 0, 0]))
    assert dirichlet.WeightedItems.from_curve(perfect).effective_misses == 0
    assert dirichlet.WeightedItems.from_curve(perfect).pseudo_weights.tolist() == [1, 1, 1]


@pytest.mark.parametrize("value", [0.0, 0.25, 1 - 2**-10])
def test_sampling_weights_below_1_are_no_reciprocals_of_probabilities(value):
    scores, target = sample()
    weights = torch.ones(60)
    weights[[7, 9]] = value
    message = rf"`sampling_weights` must be finite and at least 1, as 1 / probability, got {value} at index 7$"
    with pytest.raises(ValueError, match=message):
        average_precision_interval(scores, target, sampling_weights=weights)
    labels = torch.stack([target, target], 1), weights[:, None].expand(60, 2)
    with pytest.raises(ValueError, match=r"at index \(7, 0\)$"):
        average_precision_interval(torch.stack([scores, scores], 1), labels[0], sampling_weights=labels[1])
    metric = BinaryAveragePrecision()
    metric.update(scores, target, weights)
    before = metric.compute()
    with pytest.raises(ValueError, match=message):
        metric.confidence_interval(sampling_weights=True)
    assert metric.compute() == before
    assert average_precision_score(target, scores, sample_weight=weights) == pytest.approx(float(before))


@each(
    "weights, rule",
    [
        ([1.0] * 60, "must be a tensor or None, got list; write `torch.tensor.sampling_weights."),
        (torch.ones(60, dtype=torch.bool), "must be a floating or integer tensor"),
        (torch.ones(59), r"must have shape \(60,\), got \(59,\)"),
        (torch.full((60,), -1.0), "must be finite and at least 1.* got -1.0 at index 0"),
        (torch.full((60,), math.nan), "must be finite and at least 1.* got nan at index 0"),
        (torch.full((60,), math.inf), "must be finite and at least 1.* got inf at index 0"),
    ],
)
def test_messages_name_the_sampling_weights(weights, rule):
    scores, target = sample()
    with pytest.raises((TypeError, ValueError), match=f"^`sampling_weights` {rule}"):
        average_precision_interval(scores, target, sampling_weights=weights)
    with pytest.raises(TypeError, match=r"^`preds` must be a tensor"):
        average_precision_interval([0.5], target, sampling_weights=weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_sampling_weights_are_at_least_1_up_to_rounding(dtype):
    scores, target = sample()
    rates = torch.rand(60, generator=torch.Generator().manual_seed(0)) * 0.9 + 0.1
    rates[::2] = 1
    weights = 1 / (rates * (1 + 1e-7)) if dtype.is_floating_point else torch.where(target == 1, 1, 4)
    found = average_precision_interval(scores, target, sampling_weights=weights.to(dtype), n_resamples=20)
    assert found.low < found.estimate < found.high


def test_intervals_without_hits_or_misses():
    scores = torch.arange(3.0)
    none = average_precision_interval(scores, torch.zeros(3).long(), method="dirichlet")
    assert math.isnan(none.low)
    assert "no hits" in none.reason
    every = torch.ones(3).long()
    assert "no misses" in average_precision_interval(scores, every, prevalence=0.1).reason
    assert math.isnan(functional.binary_average_precision(scores, every, prevalence=0.1))
    iid = average_precision_interval(scores, every, method="dirichlet")
    assert 0 < iid.low < iid.high == 1


def test_arguments_that_cannot_be_combined():
    scores, target = sample(20)
    metric = BinaryAveragePrecision(prevalence=0.1)
    metric.update(scores, target)
    weighted = BinaryAveragePrecision()
    weighted.update(scores, target, torch.ones(20))
    interval = partial(average_precision_interval, scores, target)
    calls = {
        "prevalence": [
            lambda: BinaryAveragePrecision(prevalence=1),
            lambda: BinaryAveragePrecision(prevalence="0.1"),
            lambda: BinaryAveragePrecision(prevalence=0.1, top_k=3),
            lambda: functional.binary_average_precision(scores, target, prevalence=0.1, ties="expected"),
            lambda: interval(prevalence=0),
            metric.chance_level,
            lambda: metric.compare(metric),
        ],
        "method": [
            lambda: interval(prevalence=0.1, method="influence"),
            lambda: interval(sampling_weights=torch.ones(20), method="wald"),
            lambda: metric.confidence_interval(method="bootstrap-bca"),
        ],
        "sampling_weights": [
            lambda: interval(sampling_weights=torch.zeros(20)),
            lambda: metric.confidence_interval(sampling_weights=True),
            lambda: weighted.confidence_interval(sampling_weights=1),
            lambda: interval(sampling_weights=torch.ones(20), convention=Convention(ties="expected")),
        ],
        "weights": [weighted.confidence_interval],
        "interpolation": [lambda: interval(prevalence=0.1, interpolation="101-point")],
    }
    for name, all_calls in calls.items():
        for call in all_calls:
            with pytest.raises(ValueError, match=f"`{name}`"):
                call()
    summary = metric.summary(n_resamples=20)
    assert set(summary) == {"ap", "ap_low", "ap_high"}
