"""KITTI's AP against the rules of its development kit, applied one detection at a time."""

import functools
import math

import numpy as np
import pytest
import torch

from tests.support.oracles_detection import random_intervals, random_scene
from tests.support.tolerances import REORDERED
from torch_ap import VOCMeanAveragePrecision, detection
from torch_ap.detection.rules.kitti import sample_recalls
from torch_ap.functional import kitti_mean_average_precision


def scenes(count, seed=0, draw=random_scene):
    """Scenes with tied scores and overlaps, objects above the level, detections below it, and regions."""
    preds, target = draw(seed, images=count, classes=3)
    r = np.random.default_rng(seed)
    for p, t in zip(preds, target, strict=True):
        t.pop("area", None)
        t["difficult"] = torch.from_numpy((r.random(len(t["labels"])) < 0.15).astype(np.int64))
        p["ignore"] = torch.from_numpy((r.random(len(p["labels"])) < 0.15).astype(np.int64))
    return preds, target


def similarity(p, t):
    """Return (D, G) overlaps; for regions the share of the detection."""
    if "intervals" in p:
        return detection.pairs.interval_iou(p["intervals"], t["intervals"], iscrowd=t["iscrowd"])
    return detection.pairs.box_iou(p["boxes"], t["boxes"], "xywh", iscrowd=t["iscrowd"])


def inputs_per_class(preds, target, labels):
    """Return for each class and image: scores, too low detections, overlaps, hard objects and regions."""
    found = {label: [] for label in labels}
    for p, t in zip(preds, target, strict=True):
        overlaps, region, hard = similarity(p, t).numpy(), t["iscrowd"].numpy() == 1, t["difficult"].numpy() == 1
        for label, images in found.items():
            d, mine = p["labels"].numpy() == label, t["labels"].numpy() == label
            objects, regions = mine & ~region, mine & region
            sides = overlaps[d][:, objects], hard[objects], overlaps[d][:, regions]
            images.append((p["scores"].numpy()[d].tolist(), p["ignore"].numpy()[d].tolist(), *sides))
    return found


def statistics(image, least, cut=None):
    """Return true positives' scores and the number of false positives, as ``computeStatistics`` at score ``cut``."""
    scores, low, overlap, hard, share = image
    assigned, right = [cut is not None and score < cut for score in scores], []
    below = list(assigned)
    for g, is_hard in enumerate(hard):
        chosen, valid, highest, chose_low = -1, -math.inf, 0.0, False
        for d, score in enumerate(scores):
            if assigned[d] or not overlap[d, g] > least:
                continue
            if cut is None:
                if score > valid:
                    chosen, valid = d, score
            elif (overlap[d, g] > highest or chose_low) and not low[d]:
                chosen, highest, chose_low, valid = d, overlap[d, g], False, 1
            elif valid == -math.inf and low[d]:
                chosen, chose_low, valid = d, True, 1
        if chosen >= 0:
            assigned[chosen] = True
            right += [] if is_hard or low[chosen] else [scores[chosen]]
    wrong = sum(not (assigned[d] or low[d] or (share[d] > least).any() or below[d]) for d in range(len(scores)))
    return right, wrong


@functools.cache
def drawn(count, seed):
    preds, target = scenes(count, seed)
    return preds, target, inputs_per_class(preds, target, range(3))


def kit_average_precision(images, least, places):
    """Return the AP of a class as the development kit computes it."""
    total = sum(int((~image[3]).sum()) for image in images)
    if not total:
        return math.nan
    scores = sorted((score for image in images for score in statistics(image, least)[0]), reverse=True)
    recall, cuts = 0.0, []
    for place, score in enumerate(scores):
        is_last = place == len(scores) - 1
        left, right = (place + 1) / total, (place + 1 if is_last else place + 2) / total
        if right - recall < recall - left and not is_last:
            continue
        cuts.append(score)
        recall += 1 / 40
    precision = np.zeros(41)
    for place, cut in enumerate(cuts):
        found = [statistics(image, least, cut) for image in images]
        hits, misses = sum(len(right) for right, _ in found), sum(wrong for _, wrong in found)
        precision[place] = hits / (hits + misses) if hits else 0
    return np.maximum.accumulate(precision[::-1])[::-1][places].mean()


PLACES = {"40-point": slice(1, None), "11-point": slice(0, None, 4)}


@pytest.mark.parametrize(("interpolation", "threshold"), [("40-point", 0.5), ("11-point", 0.3)])
def test_two_thousand_scenes_equal_the_kits_rules(interpolation, threshold):
    """Some data sets have one to six images, which give fewer than 41 thresholds."""
    for count, seeds in ((2000, 1), (1, 20), (6, 20)):
        for seed in range(seeds):
            preds, target, images = drawn(count, seed)
            settings = {"interpolation": interpolation, "class_metrics": True, "dtype": torch.float64}
            found = kitti_mean_average_precision(preds, target, "xywh", threshold, **settings)
            labels = found["classes"].reshape(-1).tolist()
            expected = [kit_average_precision(images[label], threshold, PLACES[interpolation]) for label in labels]
            assert found["map_per_class"].reshape(-1).tolist() == pytest.approx(expected, abs=REORDERED, nan_ok=True)
        assert count < 2000 or 0.003 < found["map"] < 1


def test_any_shapes_by_a_function_of_images():
    preds, target = scenes(200, 3, random_intervals)
    found = kitti_mean_average_precision(preds, target, iou_threshold=0.4, iou_type="intervals", class_metrics=True)
    same = kitti_mean_average_precision(preds, target, iou_threshold=0.4, iou_type=similarity, class_metrics=True)
    torch.testing.assert_close(found, same, rtol=0, atol=0)
    images = inputs_per_class(preds, target, range(3)).values()
    expected = [kit_average_precision(each, 0.4, PLACES["40-point"]) for each in images]
    assert found["map_per_class"].tolist() == pytest.approx(expected, abs=REORDERED)


@pytest.mark.parametrize(("found", "total"), [(0, 3), (3, 3), (3, 90), (40, 40), (400, 401), (999, 3000), (3000, 3000)])
def test_thresholds_are_the_nearest_to_their_recall(found, total):
    places = sample_recalls(found, total)
    assert places == sorted(set(places))
    assert len(places) <= 41
    for wanted, place in enumerate(places[:-1]):
        others = [x for x in range(found) if place < x or wanted == 0 or x > places[wanted - 1]]
        nearest = min(abs((x + 1) / total - wanted / 40) for x in others)
        assert abs((place + 1) / total - wanted / 40) == pytest.approx(nearest)


def test_few_objects_leave_thresholds_out():
    """Check a perfect detector of each number of objects."""
    for count, value in ((1, 0), (3, 2 / 40), (40, 39 / 40), (41, 1), (500, 1)):
        boxes = torch.arange(float(count))[:, None] * 30 + torch.tensor([0.0, 0, 20, 40])
        truth = {"boxes": boxes, "labels": torch.zeros(count, dtype=torch.int64)}
        found = truth | {"scores": torch.linspace(1, 0, count)}
        assert float(kitti_mean_average_precision([found], [truth])["map"]) == pytest.approx(value)
    assert kitti_mean_average_precision([], [])["map"].isnan()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"iou_threshold": 1.5}, "`iou_threshold` must be .* got 1.5"),
        ({"iou_threshold": [0.5]}, "`iou_threshold` must be"),
        ({"interpolation": "101-point"}, "`interpolation` must be one of '40-point', '11-point', got '101-point'"),
        ({"iou_type": ("bbox", "segm")}, "`iou_type` must be one kind"),
        ({"class_metrics": 1}, "`class_metrics` must be"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        kitti_mean_average_precision([], [], **settings)


@pytest.mark.parametrize(("side", "key"), [("preds", "ignore"), ("target", "difficult"), ("target", "iscrowd")])
def test_bad_flags(side, key):
    one = {"boxes": torch.tensor([[0.0, 0, 9, 9]]), "labels": torch.tensor([0]), "scores": torch.ones(1)}
    given = {"preds": [one, one], "target": [one, one]}
    for value, rule in (
        (torch.tensor([2]), "contain 0 and 1 only, got 2"),
        (torch.tensor([0, 0]), "have one entry for each"),
    ):
        given[side] = [one, one | {key: value}]
        with pytest.raises(ValueError, match=rf"`{side}\[1\]\['{key}'\]` must {rule}"):
            kitti_mean_average_precision(**given)


def test_forty_levels_of_vocs_class_equal_the_definition():
    preds, target = random_scene(4, images=150, classes=1)
    r = np.random.default_rng(0)
    for p, t in zip(preds, target, strict=True):
        p["scores"] = torch.from_numpy(r.random(len(p["scores"])))
        t["difficult"] = t.pop("iscrowd")
    metric = VOCMeanAveragePrecision("xywh", 0.5, interpolation="40-point", inclusive_pixels=False, strict=True)
    metric.update(preds, target)
    curve = metric.curve()[0]
    levels = torch.arange(1, 41, dtype=torch.float64) / 40
    highest = [
        max((float(p) for p, x in zip(curve.precision, curve.recall, strict=True) if x >= level), default=0.0)
        for level in levels
    ]
    assert float(metric.compute()["map"]) == pytest.approx(float(np.mean(highest)), abs=REORDERED)
