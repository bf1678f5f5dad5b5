"""Losses of images: they add up to 1 - mAP, and equal a loop over cuts."""

import pytest
import torch

from tests.detection.test_cuts import metric, scenes
from tests.support.every_metric import METRICS
from tests.support.tolerances import REORDERED, SINGLE
from torch_ap.detection import MeanAveragePrecision, VOCMeanAveragePrecision
from torch_ap.detection.errors.loss_per_image import loss_per_image


def losses(metric):
    return loss_per_image(metric._matches_at(None, None, None))


@pytest.mark.parametrize("interpolation", ["11-point", "all-points"])
def test_losses_of_voc_add_up(interpolation):
    voc = VOCMeanAveragePrecision(interpolation=interpolation)
    for batch in METRICS["voc"].batches(4):
        voc.update(**batch)
    assert float(losses(voc).sum()) == pytest.approx(1 - float(voc.compute()["map"]), abs=SINGLE)


def test_losses_of_random_scenes_add_up():
    many = metric(300)
    value = many.confidence_interval(n_resamples=2).estimate
    assert float(losses(many).sum()) == pytest.approx(1 - float(value), abs=REORDERED)


def test_losses_equal_a_loop_over_cuts():
    """Two images of one class: hit, false, hit; one object is missed."""
    single = MeanAveragePrecision("xywh", iou_thresholds=[0.5], rec_thresholds=[0.0, 0.5, 1.0])
    boxes = torch.tensor([[0.0, 0, 10, 10], [50, 50, 10, 10], [90, 90, 10, 10]])
    labels = torch.zeros(3, dtype=torch.int64)
    pred = {"boxes": boxes[[0, 2]], "scores": torch.tensor([0.9, 0.8]), "labels": labels[:2]}
    other = {"boxes": boxes[:1], "scores": torch.tensor([0.7]), "labels": labels[:1]}
    single.update(
        [pred, other], [{"boxes": boxes[:2], "labels": labels[:2]}, {"boxes": boxes[:1], "labels": labels[:1]}]
    )
    # levels 0: after one detection; 0.5: 2 of 3 objects after three detections, one false; 1: unreached
    assert losses(single).tolist() == pytest.approx([(0 + 1 / 3 + 1) / 3, 0.0], abs=REORDERED)


def test_stored_matches_have_no_losses():
    stored = MeanAveragePrecision("xywh", match="update")
    stored.update(*scenes(20))
    assert losses(stored) is None
