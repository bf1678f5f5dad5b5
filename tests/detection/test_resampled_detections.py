"""Bootstrap over images of mAP, against data sets that repeat the drawn images."""

import math

import numpy as np
import pytest
import torch

from tests.support.each import each
from tests.support.oracles_detection import random_scene
from tests.support.tolerances import DOZENS_OF_TERMS, REORDERED
from torch_ap import Convention
from torch_ap.detection import MeanAveragePrecision
from torch_ap.detection.inference import rankings
from torch_ap.detection.inference.rankings import ranked_images

SETTINGS = pytest.mark.parametrize(
    "settings",
    [
        {},
        {"average": "micro"},
        {"max_detection_thresholds": [1, 3]},
        {"iou_thresholds": [0.5, 0.3], "rec_thresholds": [1.0, 0.0, 0.4]},
    ],
)


def scene(seed, images=8):
    """Return a random scene with score ties between images and never inside one."""
    preds, target = random_scene(seed, images=images, classes=3)
    r = np.random.default_rng(seed)
    for image in preds:
        image["scores"] = torch.from_numpy(r.permutation(12)[: len(image["scores"])] / 12)
    return preds, target


def fed(preds, target, **settings):
    metric = MeanAveragePrecision("xywh", **settings).set_dtype(torch.float64)
    metric.warn_on_many_detections = False
    metric.update(preds, target)
    return metric


def ranked_of(metric, area=0):
    columns = metric._columns()
    numbers = metric._numbers(columns, None, micro=metric.average == "micro")
    return ranked_images(numbers.matches, len(columns["detections_per_image"]), area), numbers.levels


def written_out(preds, target, weights, **settings):
    drawn = np.repeat(np.arange(len(preds)), weights)
    found = fed([preds[i] for i in drawn], [target[i] for i in drawn], **settings).compute()
    return [math.nan if found[name] == -1 else float(found[name]) for name in AREAS]


AREAS = ("map", "map_small", "map_medium")


@SETTINGS
@each("seed", range(8))
def test_weights_are_images_written_out(settings, seed):
    preds, target = scene(seed)
    weights = np.random.default_rng(seed).multinomial(8, np.ones(8) / 8, 4)
    weights[0] = 1
    metric = fed(preds, target, **settings)
    wanted = torch.tensor([written_out(preds, target, row, **settings) for row in weights], dtype=torch.float64)
    for area in range(len(AREAS)):
        ranked, levels = ranked_of(metric, area)
        found = ranked.average_precision(torch.from_numpy(weights), levels).nanmean(1)
        torch.testing.assert_close(found, wanted[:, area], rtol=0, atol=REORDERED, equal_nan=True)


@each("levels_per_run, tolerance", [(math.inf, 0), (0, DOZENS_OF_TERMS)])
@each("seed", range(8))
def test_levels_have_the_precision_of_hit_curves(seed, levels_per_run, tolerance, monkeypatch):
    """Runs of hits change no bit of a table of the interpolated precision, and a sum over runs only the last bits."""
    monkeypatch.setattr(rankings, "_LEVELS_PER_RUN", levels_per_run)
    ranked, levels = ranked_of(fed(*scene(seed)), seed % 3)
    weights = torch.from_numpy(np.random.default_rng(seed).multinomial(8, np.ones(8) / 8, 4))
    for recall in (levels, levels.to(torch.float32), levels.flip(0)):
        curve = ranked.curve(weights)
        wanted = Convention(interpolation=recall)(curve).reshape(4, -1)
        found = ranked.average_precision(weights, recall)
        torch.testing.assert_close(found, wanted, rtol=0, atol=tolerance, equal_nan=True)


def test_scenes_contain_edge_cases():
    """The scenes contain matched ignored ground truths and images that the next test depends on."""
    dropped = [ranked_of(fed(*scene(seed)))[0] for seed in range(8)]
    assert any(bool((~ranked.event_counts).any()) for ranked in dropped)
    assert any(len(ranked.image.unique()) < ranked.images for ranked in dropped)
    assert any(len(ranked._runs.end) < len(ranked.hits.item) for ranked in dropped)


def test_interval_equals_repeated_images():
    preds, target = scene(3, images=25)
    metric = fed(preds, target, iou_thresholds=[0.5])
    found = metric.confidence_interval(0.9, n_resamples=400)
    # every draw has its own classes in one data set
    drawn = np.sort(np.random.default_rng(1).integers(0, 25, (120, 25)), axis=1).tolist()
    sides = [
        [{**side[i], "labels": side[i]["labels"] + 3 * place} for place, row in enumerate(drawn) for i in row]
        for side in (preds, target)
    ]
    every = fed(*sides, iou_thresholds=[0.5], class_metrics=True).compute()
    each = every["map_per_class"].where(every["map_per_class"] >= 0, torch.nan)
    slow = [each[every["classes"] // 3 == place].nanmean().item() for place in range(120)]
    # the standard deviation of 120 draws has an error of 6.5%; the tolerance is 4 errors
    assert float(found.standard_error) == pytest.approx(np.std(slow, ddof=1), rel=0.25)
    assert float(found.estimate) == pytest.approx(float(metric.compute()["map"]), abs=REORDERED)
    assert found.low < found.estimate < found.high
    other = metric.confidence_interval(0.9, "bootstrap-logit", n_resamples=400)
    assert other.standard_error == found.standard_error
    assert 0 < other.low < other.estimate < other.high < 1
    plain, wider = (metric.confidence_interval(x, "bootstrap-percentile", n_resamples=400) for x in (0.9, 0.99))
    # mirrored at the estimate, and no less than 0
    assert float(found.high) == pytest.approx(2 * float(found.estimate) - float(plain.low))
    assert float(found.low) == pytest.approx(max(0, 2 * float(found.estimate) - float(plain.high)))
    found = plain
    assert wider.low < found.low
    assert wider.high > found.high


def test_dtype_and_state_equal_compute():
    preds, target = scene(0)
    for image in preds:
        image["scores"] = image["scores"].float()
    metric = MeanAveragePrecision("xywh")
    metric.update(preds, target)
    before = metric.compute()["map"]
    found = metric.confidence_interval(n_resamples=20)
    assert found.low.dtype == torch.float64
    assert torch.equal(found.estimate.to(before.dtype), before)
    assert torch.equal(metric.compute()["map"], before)


def test_edges_have_a_defined_answer():
    assert MeanAveragePrecision().confidence_interval().reason == "nothing is relevant"
    preds, target = scene(1)
    one = fed(preds[:1], target[:1]).confidence_interval()
    assert "one image" in one.reason
    assert math.isnan(one.low)
    metric = fed(preds, target)
    with pytest.raises(ValueError, match="`confidence_level`"):
        metric.confidence_interval(1.0)
    with pytest.raises(ValueError, match="`method`"):
        metric.confidence_interval(method="influence")
    with pytest.raises(ValueError, match="`iou_type`"):
        metric.confidence_interval(iou_type="segm")


def check_two_ranks(rank):
    preds, target = scene(2)
    mine = slice(0, 3) if rank == 0 else slice(3, 8)
    part = fed(preds[mine], target[mine])
    found, wanted = part.confidence_interval(), fed(preds, target, sync_on_compute=False).confidence_interval()
    assert (found.estimate, found.low, found.high) == (wanted.estimate, wanted.low, wanted.high)
    assert not part._is_synced


def test_all_ranks_count(ranks):
    ranks(check_two_ranks)


@pytest.mark.gpu
def test_on_cuda():
    preds, target = scene(3, images=25)
    there = [[{k: v.cuda() for k, v in image.items()} for image in side] for side in (preds, target)]
    metric = MeanAveragePrecision("xywh").cuda().set_dtype(torch.float64)
    metric.update(*there)
    found, wanted = metric.confidence_interval(), fed(preds, target).confidence_interval()
    assert found.low.device.type == "cuda"
    assert float(found.estimate) == pytest.approx(float(wanted.estimate), abs=REORDERED)
    # resamples from other generators
    assert float(found.standard_error) == pytest.approx(float(wanted.standard_error), rel=0.15)
