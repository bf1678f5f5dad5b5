"""Detections of other labels than the ground truths: values of 0 that say why, where all images are seen."""

import warnings

import pytest
import torch

from tests.threads import Threads
from torch_ap import detection, functional

CLASSES = [
    detection.MeanAveragePrecision,
    detection.LVISMeanAveragePrecision,
    detection.VOCMeanAveragePrecision,
    detection.OpenImagesMeanAveragePrecision,
    detection.NuScenesMeanAveragePrecision,
]
FUNCTIONS = [
    functional.coco_mean_average_precision,
    functional.lvis_mean_average_precision,
    functional.voc_mean_average_precision,
    functional.kitti_mean_average_precision,
    functional.open_images_mean_average_precision,
    functional.nuscenes_mean_average_precision,
]
IDS = torch.empty(0, dtype=torch.int64)


def scene(found=1, true=0, images=10):
    """Images with a detection and a ground truth each, of these labels."""
    shapes = {"boxes": torch.tensor([[1.0, 1, 9, 9]]), "centers": torch.tensor([[1.0, 2]])}
    pred = {**shapes, "labels": torch.tensor([found]), "scores": torch.ones(1)}
    lists = {"neg_category_ids": IDS if found == true else torch.tensor([found]), "not_exhaustive_category_ids": IDS}
    return [pred] * images, [{**shapes, "labels": torch.tensor([true]), **lists}] * images


def of_metric(make, *batches, **settings):
    def work():
        metric = make(**settings)
        for batch in batches:
            metric.update(*batch)
        metric.compute()

    return told(work)


def told(work):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    return [str(one.message) for one in found if "lists categories" not in str(one.message)]


@pytest.mark.parametrize("make", CLASSES)
def test_metrics_say_that_no_label_is_in_common(make):
    (said,) = of_metric(make, scene())
    assert said.startswith("no label in `preds`, [1], is one of those in `target`, [0], so that no detection can match")
    assert of_metric(make, scene(), validate_args=False) == []
    assert of_metric(make, scene(images=9)) == of_metric(make, scene(images=5), scene(images=4)) == []
    assert of_metric(make, scene(), ([scene(2)[0][0]], [scene(2, 1)[1][0]])) == []  # 1 is a ground truth's
    later = [[*one, *two] for one, two in zip(scene(), scene(3, 3), strict=True)]  # not the first of either side
    assert of_metric(make, later) == []
    assert told(lambda: make()(*scene())) == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_do_too(function):
    assert "no label in `preds`" in told(lambda: function(*scene()))[0]
    assert told(lambda: function(*scene(1, 1))) == told(lambda: function(*scene(images=9))) == []


def test_labels_may_differ_where_they_do_not_matter():
    coco = detection.MeanAveragePrecision
    assert of_metric(coco, scene(), average="micro") == []
    assert told(lambda: functional.coco_mean_average_precision(*scene(), average="micro")) == []
    nothing = [{key: x[:0] for key, x in image.items()} for image in scene()[0]]
    assert of_metric(coco, (nothing, scene()[1])) == []
    assert len(of_metric(coco, scene(), match="update")) == 1


@pytest.mark.parametrize("match", ["compute", "update"])
def test_a_detection_that_takes_no_part_in_matching_has_a_label_in_common(match):
    preds, target = scene(0, 2, images=1)
    left_out = preds, [{**target[0], "neg_category_ids": IDS}]  # nobody looked for 0 in it
    found = of_metric(detection.LVISMeanAveragePrecision, scene(), left_out, match=match)
    assert found == []


@pytest.mark.filterwarnings("ignore:.*lists categories")
@pytest.mark.parametrize("sync", ["gather", "exchange"])
def test_the_images_of_one_rank_are_not_all(sync):
    threads = Threads(2)
    how = {"dist_sync_fn": threads.gather} if sync == "gather" else {}

    def metric(label, **how):
        found = detection.MeanAveragePrecision(distributed_available_fn=lambda: True, **how)
        found.update(*scene(label, 1 - label))
        return found

    metrics = [metric(label, sync=sync, **how) for label in (0, 1)]
    assert told(lambda: threads(lambda rank: metrics[rank].compute())) == []
    assert told(metric(1, sync_on_compute=False).compute) == []


@pytest.mark.filterwarnings("ignore:.*lists categories")
def test_each_rank_says_so_of_the_images_of_all():
    threads = Threads(2)

    def work(rank):
        metric = detection.MeanAveragePrecision(distributed_available_fn=lambda: True, dist_sync_fn=threads.gather)
        metric.update(*scene(images=5 * rank + 3))  # 3 and 8, each too few
        return metric.compute()

    assert [one[:20] for one in told(lambda: threads(work))] == ["no label in `preds`,"] * 2
