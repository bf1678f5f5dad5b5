"""Warning of detections and ground truths without a common label, once all images are there."""

import warnings

import pytest
import torch

from tests.support.threads import Threads
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
    """Return images with one detection and one ground truth each, of these labels."""
    shapes = {"boxes": torch.tensor([[1.0, 1, 9, 9]]), "centers": torch.tensor([[1.0, 2]])}
    pred = {**shapes, "labels": torch.tensor([found]), "scores": torch.ones(1)}
    lists = {"neg_category_ids": IDS if found == true else torch.tensor([found]), "not_exhaustive_category_ids": IDS}
    return [pred] * images, [{**shapes, "labels": torch.tensor([true]), **lists}] * images


def metric_warnings(make, *batches, **settings):
    def work():
        metric = make(**settings)
        for batch in batches:
            metric.update(*batch)
        metric.compute()

    return recorded_warnings(work)


def recorded_warnings(work):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    return [str(one.message) for one in found if "lists categories" not in str(one.message)]


@pytest.mark.parametrize("make", CLASSES)
def test_metrics_warn_without_a_common_label(make):
    (said,) = metric_warnings(make, scene())
    assert said.startswith("no label in `preds`, [1], occurs in `target`, [0], so no detection can match")
    assert metric_warnings(make, scene(), validate_args=False) == []
    assert metric_warnings(make, scene(images=9)) == metric_warnings(make, scene(images=5), scene(images=4)) == []
    assert (
        metric_warnings(make, scene(), ([scene(2)[0][0]], [scene(2, 1)[1][0]])) == []
    )  # 1 is the label of a ground truth
    later = [[*one, *two] for one, two in zip(scene(), scene(3, 3), strict=True)]  # not the first entry on either side
    assert metric_warnings(make, later) == []
    assert recorded_warnings(lambda: make()(*scene())) == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_do_too(function):
    assert "no label in `preds`" in recorded_warnings(lambda: function(*scene()))[0]
    assert (
        recorded_warnings(lambda: function(*scene(1, 1))) == recorded_warnings(lambda: function(*scene(images=9))) == []
    )


def test_labels_may_differ_where_they_do_not_matter():
    coco = detection.MeanAveragePrecision
    assert metric_warnings(coco, scene(), average="micro") == []
    assert recorded_warnings(lambda: functional.coco_mean_average_precision(*scene(), average="micro")) == []
    nothing = [{key: x[:0] for key, x in image.items()} for image in scene()[0]]
    assert metric_warnings(coco, (nothing, scene()[1]), diagnose=False) == []
    assert len(metric_warnings(coco, scene(), match="update")) == 1


@pytest.mark.parametrize("match", ["compute", "update"])
def test_a_detection_that_takes_no_part_in_matching_has_a_label_in_common(match):
    preds, target = scene(0, 2, images=1)
    left_out = preds, [{**target[0], "neg_category_ids": IDS}]  # no annotator searched for 0 in this image
    found = metric_warnings(detection.LVISMeanAveragePrecision, scene(), left_out, match=match)
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
    assert recorded_warnings(lambda: threads(lambda rank: metrics[rank].compute())) == []
    assert recorded_warnings(metric(1, sync_on_compute=False).compute) == []


@pytest.mark.filterwarnings("ignore:.*lists categories")
def test_each_rank_warns_of_all_images():
    threads = Threads(2)

    def work(rank):
        metric = detection.MeanAveragePrecision(distributed_available_fn=lambda: True, dist_sync_fn=threads.gather)
        metric.update(*scene(images=5 * rank + 3))  # 3 and 8 images, too few on each rank
        return metric.compute()

    assert [one[:20] for one in recorded_warnings(lambda: threads(work))] == ["no label in `preds`,"] * 2
