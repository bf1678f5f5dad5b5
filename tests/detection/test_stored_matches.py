"""Stored matches in place of images: equal to the last bit to matching all images together."""

import pytest
import torch

from tests.support.every_metric import (
    FEDERATED,
    METRICS,
    POSES,
    ROTATED,
    coded_images,
    federated_images,
    images_of_own_iou,
    inner_product,
    intervals,
    masked_federated,
    of_images,
    poses,
    turned_boxes,
    voc_images,
    voc_turned_boxes,
    with_areas,
)
from tests.support.oracles_detection import random_scene
from torch_ap import LVISMeanAveragePrecision, MeanAveragePrecision, VOCMeanAveragePrecision, merge

MATCH = ("compute", "update")
LIMITS = {"max_detection_thresholds": [1, 3], "area_ranges": {"small": (0, 1000), "rest": (1000, 1e10)}}
MANY = {
    "iou_thresholds": [x / 100 for x in range(20, 95, 3)],
    "area_ranges": {"a": (0, 900), "b": (5, 1e5), "c": (7, 9)},
}
KINDS = {
    "boxes": (METRICS["coco"].draw, {"box_format": "xywh"}),
    "limits": (METRICS["coco"].draw, {"box_format": "xywh", **LIMITS}),
    "several words": (METRICS["coco"].draw, {"box_format": "xywh", **MANY}),  # 100 criteria
    "micro": (METRICS["coco"].draw, {"box_format": "xywh", "average": "micro", "class_metrics": False}),
    "codes": (coded_images, {"iou_type": "segm"}),
    "keypoints": (poses, POSES),
    "rotated": (turned_boxes, ROTATED),
    "function": (with_areas(intervals), {"iou_type": of_images}),
    "precomputed": (images_of_own_iou, {"iou_type": "precomputed"}),
    "own iou": (METRICS["coco"].draw, {"box_format": "xywh", "iou": inner_product}),
    "voc": (voc_images, {}),
    "voc, strict": (voc_images, {"iou_thresholds": [x / 100 for x in range(95, 20, -1)], "strict": True}),
    "voc, rotated": (voc_turned_boxes, {**ROTATED, "interpolation": "11-point-arange"}),
    "lvis": (federated_images, FEDERATED),
    "lvis, few": (federated_images, {"box_format": "xywh", "max_detections": 2}),
    "lvis, masks": (masked_federated, {"iou_type": "segm"}),
}
CLASS = {"voc": VOCMeanAveragePrecision, "lvis": LVISMeanAveragePrecision}


def pair(settings, kind="coco"):
    made = {"class_metrics": True, **settings}
    metrics = [CLASS.get(kind[:4].rstrip(","), MeanAveragePrecision)(**made, match=match) for match in MATCH]
    for metric in metrics:
        metric.warn_on_many_detections = False
    return metrics


def same(one, other):
    return one.dtype == other.dtype and torch.equal(one.nan_to_num(-9), other.nan_to_num(-9))


def fed(kind, sizes=(3, 0, 1, 8), seed=0):
    draw, settings = KINDS[kind]
    drawn = draw(8 * sum(sizes), torch.Generator().manual_seed(seed))
    metrics, start = pair(settings, kind), 0
    for size in sizes:
        for metric in metrics:
            metric.update(*(drawn[side][start : start + size] for side in ("preds", "target")))
        start += size
    return metrics


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_equals_images_matched_together(kind, seed):
    wanted, found = fed(kind, seed=seed)
    one, two = wanted.compute(), found.compute()
    assert list(one) == list(two)
    assert all(same(value, two[name]) for name, value in one.items())
    how = {"n_resamples": 10}
    assert wanted.confidence_interval(**how) == found.confidence_interval(**how)
    assert wanted.chance_level(**how) == found.chance_level(**how)
    slices = {"x": [0, 3, 5, 11], "y": []}
    sliced = [metric.per_slice(slices) for metric in (wanted, found)]
    assert all(same(x, sliced[1][name]) for name, x in sliced[0].items() if name != "slice")
    if kind != "micro":
        assert wanted.curve() == found.curve()
        assert wanted.operating_points() == found.operating_points()
        assert wanted.confidence_interval(per_class=True, **how) == found.confidence_interval(per_class=True, **how)
        assert wanted.compare(wanted, per_class=True, **how) == found.compare(found, per_class=True, **how)
    for table in ("per_threshold", "per_class", "per_image"):
        if hasattr(wanted, table) and (table == "per_threshold" or kind != "micro"):
            tables = [getattr(metric, table)() for metric in (wanted, found)]
            assert all(same(x, tables[1][name]) for name, x in tables[0].items() if name != "name")


def test_stored_matches_are_small_and_without_shapes():
    images, matches = fed("codes", (30,))
    assert not any("mask" in name or "boxes" in name for name in matches.metric_state)
    sizes = [
        sum(x.nbytes for name, state in metric.metric_state.items() if isinstance(state, list) for x in state)
        for metric in (images, matches)
    ]
    assert sizes[1] < sizes[0] / 3
    drawn = KINDS["boxes"][0](800, torch.Generator().manual_seed(0))
    before = pair({"box_format": "xywh"})[1]
    before.update(**drawn)
    wanted = before.compute()
    for side in drawn.values():
        for image in side:
            for x in image.values():
                x.zero_()
    before._computed = None
    assert torch.equal(before.compute()["map"], wanted["map"])


def test_merged_bytes_and_checkpoints():
    _, whole = fed("boxes", (12,))
    drawn = KINDS["boxes"][0](8 * 12, torch.Generator().manual_seed(0))
    parts = [pair({"box_format": "xywh"})[1] for _ in range(2)]
    for part, images in zip(parts, (slice(0, 5), slice(5, 12)), strict=True):
        part.persistent(True)
        part.update(drawn["preds"][images], drawn["target"][images])
    again = [part.from_bytes(part.to_bytes()) for part in parts]
    loaded = pair({"box_format": "xywh"})[1]
    loaded.load_state_dict(parts[0].state_dict())
    loaded.merge_state(parts[1])
    for metric in (merge(parts), merge(again), loaded):
        found = metric.compute()
        if metric is not loaded:
            assert all(torch.equal(x, found[name]) for name, x in whole.compute().items())
    levels = MeanAveragePrecision("xywh", match="update", rec_thresholds=[0.0, 0.5], class_metrics=True)
    levels.merge_state(parts[0])  # stored matches do not depend on levels
    for settings in ({"iou_thresholds": [0.5]}, LIMITS, {"average": "micro"}, {"match": "compute"}):
        other = MeanAveragePrecision("xywh", **{"match": "update", **settings})
        with pytest.raises(ValueError, match="`incoming_state`"):
            other.merge_state(parts[0])


def test_requests_beyond_matches_raise(tmp_path):
    for settings, name in (
        ({"extended_summary": True}, "extended_summary"),
        ({"average": "micro", "class_metrics": True}, "class_metrics"),
        ({"iou_type": ("bbox", "segm")}, "iou_type"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`.*`match='update'`|`match='update'`.*`{name}`"):
            MeanAveragePrecision(match="update", **settings)
    with pytest.raises(ValueError, match="`match` must be one of 'compute', 'update', got 'later'"):
        MeanAveragePrecision(match="later")
    images, matches = fed("boxes")
    with pytest.raises(ValueError, match="keeps no shapes, which `tm_to_coco` needs"):
        matches.tm_to_coco(str(tmp_path / "x"))
    with pytest.raises(ValueError, match="same settings; match: 'compute' here, 'update' there"):
        images.compare(matches)
    _, micro = fed("micro")
    for call in (micro.per_class, micro.curve, lambda: micro.confidence_interval(per_class=True)):
        with pytest.raises(ValueError, match="`average='micro'` knows no classes"):
            call()
    assert "match='update'" in repr(matches)
    assert "match" not in repr(images)


def test_classes_without_counted_items_are_listed():
    """LVIS lists classes without counted items.

    No annotator searched for 7; 9 is only in a copy of an image; 8 has no area.
    """
    box, ids = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0, 1])
    lists = dict.fromkeys(("neg_category_ids", "not_exhaustive_category_ids"), ids[:0])
    truth = {"boxes": torch.cat([box, box[:, :2].repeat(1, 2)]), "labels": torch.tensor([3, 8]), **lists}
    found = {"boxes": box.repeat(2, 1), "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([3, 7])}
    metrics = pair({}, "lvis")
    for metric in metrics:
        metric.update([found, found], [truth, truth], ids)
        copy = {**found, "labels": torch.tensor([9, 9])}
        metric.update([copy], [truth], ids[1:])
    assert "ground_truth_boxes" not in metrics[1].metric_state
    values = [metric.compute() for metric in metrics]
    assert all(same(x, values[1][name]) for name, x in values[0].items())
    assert values[1]["classes"].tolist() == [3, 7, 8]


@pytest.mark.parametrize("kind", ["voc", "lvis"])
def test_metrics_by_other_rules_keep_matches_that_merge_where_they_may(kind):
    images, matches = fed(kind)
    for call in ("errors", "detections_table", "lrp", "confusion_matrix"):
        with pytest.raises(ValueError, match=f"keeps no shapes, which `{call}` needs"):
            getattr(matches, call)()
    assert "match='update'" in repr(matches)
    again = matches.from_bytes(matches.to_bytes())
    assert same(merge([again, matches._emptied()]).compute()["map"], images.compute()["map"])
    settings = KINDS[kind][1]
    others = {"voc": {"strict": True}, "lvis": {"max_detections": 7}}[kind]
    for other in ({"match": "compute"}, {"match": "update", **others}):
        with pytest.raises(ValueError, match="`incoming_state`"):
            type(images)(**{**settings, **other}).merge_state(matches)


def test_a_limit_on_all_images_is_known_when_all_are_there():
    with pytest.raises(ValueError, match=r"`match` must be 'compute' with `ap_fixed=True`.*, got 'update'"):
        LVISMeanAveragePrecision(ap_fixed=True, match="update")


def change(name, value):
    def changed(state):
        return {**state, name: [value(torch.cat(state[name]))]}

    return changed


def set_item(place, value):
    def changed(x):
        x = x.clone()
        x[place] = value
        return x

    return changed


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (change("detection_labels", lambda x: x.flip(0)), "in order"),
        (change("detection_scores", lambda x: x.flip(0)), "in order"),
        (change("detection_scores", set_item(3, torch.nan)), "`detection_scores` must not contain NaN"),
        (change("detection_inside", set_item(0, 2)), "`detection_inside` must be 0 or 1"),
        (change("detection_inside", lambda x: x[1:]), "`detection_inside` must have"),
        (change("detection_matched", lambda x: torch.zeros_like(x)), "`detection_match_criteria` must have 0 rows"),
        (change("detection_hit_criteria", lambda x: ~x), "`detection_hit_criteria` must be among"),
        (change("detection_match_criteria", set_item(0, -1)), "among `detection_match_criteria`"),
        (change("detections_per_image", lambda x: x + 1), "`detections_per_image` must be one per image"),
        (change("ground_truths_per_image", lambda x: x[1:]), "`ground_truths_per_image` must be one per image"),
        (change("ground_truth_valid", lambda x: x.float()), "`ground_truth_valid"),
    ],
)
def test_invalid_matches_raise(broken, message):
    _, metric = fed("boxes", (40,))
    with pytest.raises(ValueError, match=f"`incoming_state` .*{message}"):
        pair({"box_format": "xywh"})[1].merge_state(broken(metric.metric_state))
    _, federated = fed("lvis", (40,))
    with pytest.raises(ValueError, match="`detection_other_labels_per_image` must be one per image"):
        federated._emptied().merge_state(change("detection_other_labels", lambda x: x[1:])(federated.metric_state))
    _, few = fed("limits", (40,))
    alike = few.metric_state["detection_labels"][0]
    assert len(alike) < len(metric.metric_state["detection_labels"][0])


def test_detections_beyond_the_limit_raise():
    metric = MeanAveragePrecision(match="update", max_detection_thresholds=[1, 3])
    boxes, labels = torch.tensor([[0.0, 0, 5, 5]]), torch.zeros(3, dtype=torch.int64)
    found = {"boxes": (boxes + 50).repeat(3, 1), "labels": labels, "scores": torch.tensor([0.9, 0.8, 0.7])}
    metric.update([found], [{"boxes": boxes, "labels": labels[:1]}])
    state = metric.metric_state
    metric._emptied().merge_state(state)
    rows = ("detection_labels", "detection_scores", "detection_inside", "detection_matched")
    more = {name: [torch.cat([state[name][0], state[name][0][-1:]])] for name in rows}
    more["detections_per_image"] = [state["detections_per_image"][0] + 1]
    with pytest.raises(ValueError, match="no more than the limit"):
        metric._emptied().merge_state({**state, **more})


@pytest.mark.gpu
def test_values_on_a_device_are_checked_by_update():
    preds, target = ([{k: v.cuda() for k, v in x.items()} for x in side] for side in random_scene(9, images=3))
    metric = MeanAveragePrecision("xywh", match="update").cuda()
    metric.update(preds, target)
    broken = [{**image, "scores": torch.full_like(image["scores"], torch.nan)} for image in preds]
    with pytest.raises(ValueError, match="NaN"):
        metric.update(broken, target)
    assert metric.update_count == 1
    assert len(metric.detections_per_image) == 1
    metric.compute()
