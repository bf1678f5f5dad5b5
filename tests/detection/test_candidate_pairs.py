"""The base of detection: sorts, criteria as bits, groups, hit curves of matches; dtypes and infinities."""

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

from tests.support import emulated
from tests.support.each import each
from tests.support.oracles_detection import joined, packed, random_scene, to_voc
from tests.support.tolerances import REORDERED
from torch_ap.core.ranking import builders, hit_curve, order, segments
from torch_ap.detection import MeanAveragePrecision, VOCMeanAveragePrecision
from torch_ap.detection.matching import candidate_pairs
from torch_ap.detection.matching.assignment import Criteria
from torch_ap.functional import coco_mean_average_precision


@each("bound", [1, 2, 7, 1 << 20, 1 << 62])
@each("size", [0, 1, 2, 1000])
def test_stable_argsort(bound, size):
    keys = torch.from_numpy(np.random.default_rng(size).integers(0, min(bound, 1 << 61), size))
    assert order.stable_argsort(keys, bound).tolist() == sorted(range(size), key=keys.tolist().__getitem__)


def test_maximum_of_segments():
    values, offsets = torch.tensor([3.0, 1, 2, 5, 4]), torch.tensor([0, 1, 3, 5])
    assert segments.maximum(values, offsets).tolist() == [3, 2, 5]
    assert segments.maximum(values[:0], torch.tensor([0])).tolist() == []


def test_entries_without_a_hit_change_nothing():
    r = np.random.default_rng(0)
    ranking, scores = torch.from_numpy(r.integers(0, 5, 80)), torch.from_numpy(r.integers(0, 9, 80) / 8)
    relevant = torch.from_numpy(r.integers(0, 3, 80) == 0)
    settings = {"segment": ranking, "segments_count": 6}
    kept = hit_curve.drop_groups_without_hits(builders.from_scores(scores, relevant, **settings, keep_all_groups=True))
    wanted = builders.from_scores(scores, relevant, **settings)
    for name in ("hits", "items", "hits_above", "items_above", "score", "offsets", "n", "m"):
        assert torch.equal(getattr(kept, name), getattr(wanted, name)), name


@pytest.mark.parametrize(
    ("thresholds", "ranges"), [([0.5], 1), ([0.9, 0.1, 0.5], 4), ([0.2, 0.4] * 20, 5), ([0.3], 70)]
)
def test_criteria_are_bits_of_words(thresholds, ranges):
    criteria = Criteria(torch.tensor(thresholds, dtype=torch.float64), ranges)
    iou = torch.tensor([0.0, 0.1, 0.3, 0.4, 0.5, 1.0], dtype=torch.float64)
    flags = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (ranges, 6))).bool()
    words = torch.stack([criteria.passed(iou, w) for w in range(criteria.word_count)]) & criteria.spread(flags)
    for area in range(ranges):
        expected = (iou >= torch.tensor(thresholds, dtype=torch.float64)[:, None]) & flags[area]
        assert torch.equal(criteria.range_flags(words, area), expected)
    if ranges == 1:
        assert torch.equal(criteria.range_flags(criteria.pack(expected), 0), expected)


@each("most", [None, 1, 3])
@each("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.uint8])
def test_rank_is_the_stable_order(most, dtype):
    r = np.random.default_rng(5)
    scores = torch.from_numpy(r.integers(0, 4, 60)).to(dtype)
    category, image = torch.from_numpy(r.integers(0, 3, 60)), torch.from_numpy(np.sort(r.integers(0, 4, 60)))
    ranked = candidate_pairs.rank(scores, category, image, categories=3, images=4, most=most)
    rows = sorted(range(60), key=lambda i: (int(category[i]), -int(scores[i])))
    seen, kept = {}, []
    for i in rows:
        group = int(image[i]) * 3 + int(category[i])
        seen[group] = seen.get(group, -1) + 1
        if most is None or seen[group] < most:
            kept.append((i, group, seen[group]))
    assert list(zip(ranked.rows.tolist(), ranked.group.tolist(), ranked.place.tolist(), strict=True)) == kept
    by_group = [kept[i][1:] for i in ranked.by_group.tolist()]
    assert by_group == sorted(by_group)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int32])
def test_dtype_of_scores_and_boxes_does_not_matter_for_exact_numbers(dtype):
    preds, target = joined(random_scene, range(20))
    preds = [{**image, "scores": (image["scores"] * 8).round()} for image in preds]
    wanted = coco_mean_average_precision(preds, target, "xywh", extended_summary=True)
    cast = [{**image, "scores": image["scores"].to(dtype), "boxes": image["boxes"].to(dtype)} for image in preds]
    found = coco_mean_average_precision(cast, target, "xywh", extended_summary=True)
    for name in ("precision", "recall", "scores"):
        torch.testing.assert_close(found[name], wanted[name], rtol=0, atol=0)


def test_infinite_and_negative_scores_are_scores():
    preds, target = random_scene(12, images=5, classes=2)
    wanted = coco_mean_average_precision(preds, target, "xywh")
    levels = sorted({x for image in preds for x in image["scores"].tolist()})
    names = dict(zip(levels, [-torch.inf, -3.0, -0.0, 2.0, *range(3, 60)], strict=False))
    names[levels[-1]] = torch.inf
    moved = [{**i, "scores": torch.tensor([names[x] for x in i["scores"].tolist()]).double()} for i in preds]
    found = coco_mean_average_precision(moved, target, "xywh")
    assert all(torch.equal(found[name], value) for name, value in wanted.items())


@pytest.mark.parametrize("iou_type", ["bbox", "segm", "precomputed", ("bbox", "segm")])
def test_nothing_is_minus_one_for_every_geometry(iou_type):
    metric = MeanAveragePrecision(iou_type=iou_type, extended_summary=True)
    metric.update([], [])
    found = metric.compute()
    assert {float(value) for name, value in found.items() if name.split("_")[-1] in ("map", "50", "100")} == {-1.0}


def test_a_collection_keeps_the_two_apart():
    preds, target = to_voc(*random_scene(6, images=4))
    target = [{**image, "iscrowd": torch.zeros_like(image["difficult"])} for image in target]
    both = MetricCollection({"coco": MeanAveragePrecision(), "voc": VOCMeanAveragePrecision()}, prefix="val/")
    both.update(packed(preds), packed(target))
    alone = VOCMeanAveragePrecision()
    alone.update(preds, target)
    found = both.compute()
    voc = next(value for name, value in found.items() if "voc" in name and name.endswith("map"))
    assert voc == alone.compute()["map"]


def test_a_warning_turned_error_leaves_no_trace():
    boxes = torch.rand(3, 4)
    metric = MeanAveragePrecision("xywh", max_detection_thresholds=[1])
    with pytest.raises(UserWarning, match="only the best 1 count"):
        metric.update(
            [{"boxes": boxes, "scores": torch.rand(3), "labels": torch.arange(3)}],
            [{"boxes": boxes, "labels": torch.arange(3)}],
        )
    assert metric.detection_scores == []
    assert metric.update_count == 0


def test_many_ranges_and_thresholds_need_several_words():
    assert Criteria(torch.linspace(0, 1, 25), 4).word_count == 2
    assert Criteria(torch.linspace(0, 1, 31), 2).word_count == 1


def test_graphs_and_callers_tensors_stay_out_of_the_state():
    boxes = torch.rand(2, 4, requires_grad=True)
    metric = VOCMeanAveragePrecision("xywh")
    metric.update(
        {"boxes": boxes, "scores": boxes[:, 0], "labels": torch.tensor([0, 1]), "counts": torch.tensor([2])},
        {"boxes": boxes, "labels": torch.tensor([0, 1]), "counts": torch.tensor([2])},
    )
    held = metric.detection_boxes[0]
    assert not held.requires_grad
    assert held.data_ptr() != boxes.data_ptr()


def test_pairs_are_the_same_in_chunks_of_any_size(monkeypatch):
    preds, target = random_scene(3, images=20, classes=2)
    whole = coco_mean_average_precision(preds, target, "xywh", extended_summary=True)
    assert float(whole["map"]) > 0
    for size in (1, 7):
        monkeypatch.setattr(candidate_pairs, "_PAIRS_A_CHUNK", {"cpu": size})
        found = coco_mean_average_precision(preds, target, "xywh", extended_summary=True)
        for name in ("precision", "recall", "scores"):
            assert torch.equal(found[name], whole[name])


@pytest.mark.parametrize("kind", ["bbox", "segm", "boundary"])
def test_spans_leave_out_no_pair(monkeypatch, kind):
    preds, target = joined(random_scene, range(60))
    if kind != "bbox":
        r = np.random.default_rng(0)
        for image in (*preds, *target):
            size = (len(image["labels"]), 12, 9)
            image["masks"] = torch.from_numpy((r.random(size) < r.choice([0, 0.2, 0.8])).cumprod(r.integers(3)) > 0)
    found, asked = [], []
    monkeypatch.setattr(candidate_pairs, "_BLOCK_GAIN", 0)  # spans instead of blocks
    for crowded in (False, True):
        monkeypatch.setattr(
            candidate_pairs, "_is_crowded", lambda *_, crowded=crowded: asked.append(crowded) or crowded
        )
        metric = MeanAveragePrecision("xywh", kind, extended_summary=True)
        metric.update(preds, target)
        found.append(metric.compute() | {"confusion": metric.confusion_matrix(0.5, 0.0).matrix})
    assert {*asked} == {False, True}  # the shape has spans
    assert float(found[0]["map"]) > 0
    for name in ("precision", "recall", "scores", "confusion"):
        assert torch.equal(found[0][name], found[1][name])
    here = coco_mean_average_precision(preds[:20], target[:20], "xywh", iou_type=kind)["map"]
    with emulated.device():
        sides = ([{key: x.to("cuda") for key, x in image.items()} for image in side[:20]] for side in (preds, target))
        there = coco_mean_average_precision(*sides, "xywh", iou_type=kind)["map"]
        assert float(there) == pytest.approx(float(here), rel=REORDERED)
