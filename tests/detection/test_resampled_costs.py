"""Intervals of the costs of errors: costs of weighted images, intervals and comparisons from the same resamples."""

import math

import pytest
import torch

from tests.support.oracles_detection import joined, random_scene
from tests.support.oracles_errors import untied
from tests.support.tolerances import REORDERED
from torch_ap import MeanAveragePrecision
from torch_ap.detection.errors.outcomes import outcomes_of
from torch_ap.detection.errors.resampled_costs import cost_intervals, error_costs
from torch_ap.detection.errors.tide import KINDS, Fixes
from torch_ap.detection.inference.resampled import image_replicates
from torch_ap.inference.groups import Groups
from torch_ap.inference.record import student_quantile
from torch_ap.inference.resampling import Resampling


def metric_of(preds, target, images):
    metric = MeanAveragePrecision("xywh")
    metric.warn_on_many_detections = False
    metric.set_dtype(torch.float64)
    metric.update([preds[x] for x in images], [target[x] for x in images])
    return metric


def outcomes(metric):
    return outcomes_of(metric._matches_at(None, None, {}), 0.1)


@pytest.mark.parametrize("seed", [0, 3, 36])  # with 36, hits move to the end and to the start of adjacent classes
def test_a_weight_is_a_repeated_image(seed):
    preds, target = joined(random_scene, range(10 * seed, 10 * seed + 6))
    preds = untied(preds)
    found = outcomes(metric_of(preds, target, range(len(preds))))
    weights = torch.randint(0, 3, (3, len(preds)), generator=torch.Generator().manual_seed(seed))
    weights = torch.cat([weights, torch.ones_like(weights[:1]), torch.eye(len(preds), dtype=torch.int64)])
    costs = error_costs(Fixes(found).rankings(), weights, found.at.interpolation)
    for row, each in zip(weights, costs, strict=True):
        errors = metric_of(preds, target, torch.arange(len(preds)).repeat_interleave(row).tolist()).errors()
        expected = torch.stack([getattr(errors, kind) for kind in KINDS])
        torch.testing.assert_close(each, expected, atol=REORDERED, rtol=0, equal_nan=True)


def test_intervals_and_comparisons_are_of_the_same_resamples():
    preds, target = joined(random_scene, range(40))
    systems = [outcomes(metric_of(x, target, range(len(x)))) for x in (preds, preds[:1] + untied(preds)[1:])]
    intervals, comparisons, count = cost_intervals(systems, confidence_level=0.9, resampling=Resampling(60))
    assert count == 60
    ranked = [Fixes(x).rankings() for x in systems]
    statistic = lambda x, weights: error_costs(x, weights, systems[0].at.interpolation)  # noqa: E731
    values = image_replicates(ranked, Resampling(60), statistics=[statistic] * 2)
    for place, interval in enumerate(intervals):
        torch.testing.assert_close(interval.standard_error, values[:, place].std(0))
        known = ~interval.low.isnan()
        assert known.sum() >= 5
        estimate, error = interval.estimate[known], interval.standard_error[known]
        half = torch.logit(interval.high[known]) - torch.logit(estimate)
        quantile = half * estimate * (1 - estimate) / error
        assert ((quantile > 1.64) & (quantile <= student_quantile(0.9, torch.tensor(4.0)) + 1e-9)).all()
        assert ((interval.low[known] > 0) & (interval.low[known] < estimate)).all()
    for k, comparison in enumerate(comparisons):
        assert float(comparison.difference) == pytest.approx(float(intervals[0].estimate[k] - intervals[1].estimate[k]))
        gap = float((values[:, 0, k] - values[:, 1, k]).std())
        assert float(comparison.standard_error) == pytest.approx(gap, abs=REORDERED)


def test_groups_are_resampled_whole():
    preds, target = joined(random_scene, range(40))
    systems = [outcomes(metric_of(x, target, range(len(x)))) for x in (preds, untied(preds))]
    groups = Groups.from_ids(torch.arange(len(preds)) // 3)
    intervals, comparisons, _ = cost_intervals(systems, confidence_level=0.9, resampling=Resampling(60), groups=groups)

    def whole(found):
        rankings, levels = Fixes(found).rankings(), found.at.interpolation
        return lambda _, weights: error_costs(rankings, weights[:, groups.ids], levels)

    ranked = [Fixes(x).rankings().in_groups(groups) for x in systems]
    values = image_replicates(ranked, Resampling(60), statistics=[*map(whole, systems)])
    unbiased = math.sqrt(groups.count / (groups.count - 1))
    for place, interval in enumerate(intervals):
        torch.testing.assert_close(interval.standard_error, unbiased * values[:, place].std(0))
        assert interval.low.isfinite().sum() >= 5
    for k, comparison in enumerate(comparisons):
        gap = unbiased * (values[:, 0, k] - values[:, 1, k]).std()
        torch.testing.assert_close(comparison.standard_error, gap)
        half = student_quantile(0.9, torch.tensor(groups.count - 1.0)) * gap
        torch.testing.assert_close(comparison.high - comparison.difference, half)


@pytest.mark.parametrize(("images", "groups"), [(8, None), (16, [0, 1, 2, 3] * 4)])
def test_errors_in_few_images_or_groups_have_no_interval(images, groups):
    box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
    metric = MeanAveragePrecision()
    for image in range(images):
        shift = 200 if image < images // 2 else 0
        pred = {"boxes": box + shift, "scores": torch.tensor([0.9 - image / 20]), "labels": label}
        metric.update([pred], [{"boxes": box, "labels": label}])
    settings = {"confidence_level": 0.95, "resampling": Resampling(20)}
    found, known = outcomes(metric), None if groups is None else Groups.from_ids(torch.tensor(groups))
    (interval, _), (difference, *_), _ = cost_intervals([found, found], groups=known, **settings)
    assert interval.estimate[KINDS.index("background")] > 0
    assert interval.low.isnan().all()
    assert interval.high.isnan().all()
    assert difference.low.isnan() == (groups is not None)
    (interval,), _, _ = cost_intervals([found], groups=Groups.from_ids(torch.arange(images)), **settings)
    assert interval.low.isfinite().any() == (images // 2 >= 5)


def test_many_detections_have_fewer_resamples(monkeypatch):
    monkeypatch.setattr("torch_ap.detection.errors.resampled_costs._MAX_NUMBERS", 1)
    preds, target = joined(random_scene, range(3))
    systems = [outcomes(metric_of(preds, target, range(len(preds))))]
    assert cost_intervals(systems, confidence_level=0.95, resampling=Resampling(60))[2] == 50
