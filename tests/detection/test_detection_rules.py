"""Open Images' and nuScenes' rules, against loops that follow their programs."""

import itertools
import json
import warnings

import numpy as np
import pytest
import torch

from tests.support.each import each
from tests.support.oracles_detection import random_scene
from tests.support.tolerances import REORDERED
from torch_ap import NuScenesMeanAveragePrecision, OpenImagesMeanAveragePrecision
from torch_ap.functional import nuscenes_mean_average_precision, open_images_mean_average_precision

PARENTS = {0: 10, 1: [10, 11], 10: 12, 11: 12}
ABOVE = {0: [10, 12], 1: [10, 11, 12], 10: [12], 11: [12]}
BELOW = {10: [0, 1], 11: [1], 12: [0, 1, 10, 11]}


def scenes(count, seed=0):
    """Draw boxes with ties, equal overlaps, groups, difficult ones, and unverified classes."""
    preds, target = random_scene(seed, images=count, classes=3)
    r = np.random.default_rng(seed)
    for truth in target:
        many = len(truth["labels"])
        truth["group_of"] = truth.pop("iscrowd")
        truth["difficult"] = torch.from_numpy((r.random(many) < 0.2).astype(np.int64))
        truth["boxes"][:, 2:] *= torch.where(truth["group_of"] == 1, 3, 1)[:, None]
        if r.random() < 0.5:
            truth["positive_labels"] = torch.from_numpy(r.integers(0, 3, 1))
        if r.random() < 0.5:
            there = {*truth["labels"].tolist(), *truth.get("positive_labels", torch.tensor([])).tolist()}
            there |= {one for label in there for one in ABOVE.get(label, [])}
            truth["negative_labels"] = torch.tensor([x for x in r.choice([0, 1, 2, 10, 11, 12], 2) if x not in there])
    return preds, target


def overlaps(one, two):
    """Return the intersections of boxes (x, y, w, h) and their areas."""
    corners = [np.concatenate([x[:, :2], x[:, :2] + x[:, 2:]], 1) for x in (one, two)]
    low = np.maximum(corners[0][:, None, :2], corners[1][None, :, :2])
    high = np.minimum(corners[0][:, None, 2:], corners[1][None, :, 2:])
    return np.prod(np.clip(high - low, 0, None), 2), np.prod(one[:, 2:], 1), np.prod(two[:, 2:], 1)


def labelled(boxes, scores, order, truth, hard, group, threshold, weight):
    """Return the scores and labels of one image and class, and of its groups.

    As TensorFlow's program, but the first detection of a difficult group is ignored.
    """
    inter, area, of_truth = overlaps(boxes, truth)
    iou = inter / np.maximum(area[:, None] + of_truth - inter, 1e-300)
    share = inter / np.maximum(area[:, None], 1e-300)
    alone, groups = np.flatnonzero(~group), np.flatnonzero(group)
    found, right, ignored = set(), {}, set()
    for d in order if len(alone) else ():
        g = alone[np.argmax(iou[d, alone])]
        if iou[d, g] >= threshold and hard[g]:
            ignored.add(d)
        elif iou[d, g] >= threshold and g not in found:
            found.add(g)
            right[d] = True
    best = {}
    for d in order if len(groups) else ():
        g = groups[np.argmax(share[d, groups])]
        if d not in right and d not in ignored and share[d, g] >= threshold:
            ignored.add(d)
            best.setdefault(g, d)
    out = [(scores[d], d, right.get(d, False)) for d in order if d not in ignored]
    return out + ([(scores[d], d, True) for g, d in best.items() if not hard[g]] if weight else [])


def area_under_envelope(flags, total):
    hits = np.cumsum(flags)
    precision = np.maximum.accumulate((hits / np.arange(1, len(hits) + 1))[::-1])[::-1] if len(hits) else hits
    return float((precision * flags).sum() / total)


def expanded(labels, rows, table):
    return [(row, one) for row, label in zip(rows, labels, strict=True) for one in (label, *table.get(label, []))]


def open_images(preds, target, threshold, weight, tree, expand):
    """Return the AP by class, one detection after another."""
    above, below = (ABOVE, BELOW) if tree else ({}, {})
    entries, totals = {}, {}
    for image, (p, t) in enumerate(zip(preds, target, strict=True)):
        truths = expanded(t["labels"].tolist(), range(len(t["labels"])), above)
        valid = (p["boxes"][:, 2:] > 0).all(1).nonzero().flatten()  # boxes without an area are ignored
        found = expanded(p["labels"][valid].tolist(), valid.tolist(), above if expand else {})
        if "positive_labels" in t or "negative_labels" in t:
            known = {label for _, label in truths}
            for key, table in (("positive_labels", above), ("negative_labels", below)):
                given = t[key].tolist() if key in t else []
                known |= {label for _, label in expanded(given, range(len(given)), table)}
            found = [one for one in found if one[1] in known]
        for label in {one[1] for one in truths + found}:
            g, d = ([row for row, one in side if one == label] for side in (truths, found))
            hard, group = (t[key].numpy().astype(bool)[g] for key in ("difficult", "group_of"))
            scores = p["scores"].numpy()[d]
            order = np.argsort(-scores, kind="stable")
            boxes, true = p["boxes"].numpy()[d], t["boxes"].numpy()[g]
            totals[label] = totals.get(label, 0) + np.where(group, weight, 1)[~hard].sum()
            listed = labelled(boxes, scores, order.tolist(), true, hard, group, threshold, weight)
            entries.setdefault(label, []).extend((-score, image, place, flag) for score, place, flag in listed)
    out = {}
    for label, total in totals.items():
        flags = np.array([flag for *_, flag in sorted(entries.get(label, []))], bool)
        out[label] = area_under_envelope(flags, total) if total else float("nan")
    return [out[label] for label in sorted(out)]


@pytest.mark.parametrize(
    ("group_of", "tree", "expand"), [("count", True, False), ("ignore", True, True), ("count", False, False)]
)
def test_two_thousand_scenes_equal_open_images_rules(group_of, tree, expand):
    preds, target = scenes(300 if tree else 2000)
    found = open_images_mean_average_precision(
        *(preds, target, "xywh"),
        group_of=group_of,
        hierarchy=PARENTS if tree else None,
        expand_preds=expand,
        class_metrics=True,
        dtype=torch.float64,
    )
    expected = open_images(preds, target, 0.5, int(group_of == "count"), tree, expand)
    assert found["map_per_class"].tolist() == pytest.approx(expected, abs=REORDERED, nan_ok=True)
    assert 0.01 < found["map"] < 1
    assert sum(int((t["group_of"] & t["difficult"]).sum()) for t in target) > 20


@pytest.mark.parametrize("group_of", ["count", "ignore"])
def test_a_difficult_group_and_its_detections_are_ignored(group_of):
    single, label = [50.0, 50, 60, 60], torch.zeros(3, dtype=torch.int64)
    pred = {
        "boxes": torch.tensor([[2.0, 2, 8, 8], [9, 9, 15, 15], single]),
        "scores": torch.tensor([0.9, 0.85, 0.8]),
        "labels": label,
    }
    flags = torch.tensor([1, 0])
    truth = {"boxes": torch.tensor([[0.0, 0, 20, 20], single]), "labels": label[:2]}
    metric = OpenImagesMeanAveragePrecision(group_of=group_of, diagnose=False)
    metric.update([pred], [truth | {"group_of": flags, "difficult": flags}])
    counted = metric.per_class()
    assert [int(counted[key]) for key in ("ground_truths", "tp", "fp")] == [1, 1, 0]
    assert metric.detections_table()["kind"].tolist() == [6, 6, 0]
    assert metric.compute()["map"] == 1


@pytest.mark.parametrize("key", ["positive_labels", "negative_labels"])
def test_an_empty_list_of_verified_labels_verifies_no_other_class(key):
    box, none = torch.tensor([[1.0, 1, 5, 5]]), torch.zeros(0, dtype=torch.int64)
    label = torch.zeros(1, dtype=torch.int64)
    preds = [{"boxes": box, "labels": label, "scores": torch.tensor([score])} for score in (0.5, 0.9)]
    target = [{"boxes": box, "labels": label}, {"boxes": box[:0], "labels": none}]
    assert open_images_mean_average_precision(preds, target)["map"] == 0.5
    for image in target:
        image[key] = none
    assert open_images_mean_average_precision(preds, target)["map"] == 1


def test_a_metric_of_several_thresholds_is_each_alone():
    preds, target = scenes(60, seed=5)
    thresholds = [0.3, 0.5, 0.75]
    metric = OpenImagesMeanAveragePrecision("xywh", thresholds, hierarchy=PARENTS)
    for part in (slice(0, 20), slice(20, 60)):
        metric.update(preds[part], target[part])
    each = [open_images(preds, target, x, 1, True, False) for x in thresholds]
    found = metric.compute()
    assert found["map_per_threshold"].tolist() == pytest.approx([float(np.nanmean(x)) for x in each])
    assert metric.confidence_interval(n_resamples=20).estimate == pytest.approx(float(found["map"]))
    assert float(metric.curve(0.5)[0].average_precision) == pytest.approx(each[1][0], nan_ok=True)


def test_masks_in_groups():
    groups = torch.zeros(1, 20, 20, dtype=torch.bool)
    groups[:, 2:18, 2:18] = True
    found = torch.zeros(3, 20, 20, dtype=torch.bool)
    found[0, 3:6, 3:6], found[1, 9:12, 9:12], found[2, 0:3, 0:2] = True, True, True
    target = [{"masks": groups, "labels": torch.tensor([1]), "group_of": torch.tensor([True])}]
    preds = [{"masks": found, "labels": torch.tensor([1, 1, 1]), "scores": torch.tensor([0.9, 0.8, 0.95])}]
    assert open_images_mean_average_precision(preds, target, iou_type="segm")["map"] == 0.5
    assert open_images_mean_average_precision(preds, target, iou_type="segm", group_of="ignore")["map"].isnan()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hierarchy": {1: 2, 2: [3, 1]}}, "`hierarchy` must not have a label among its own ancestors, got 1"),
        ({"hierarchy": {1: 1}}, "among its own ancestors, got 1"),
        ({"hierarchy": {1: "2"}}, "`hierarchy` must map each label to a parent or a list of parents, got '2'"),
        ({"hierarchy": {1: [2.0]}}, r"`hierarchy` must contain integer labels, got 2\.0"),
        ({"hierarchy": {"cat": 1}}, "`hierarchy` must contain integer labels, got 'cat'"),
        ({"hierarchy": {1: 2**70}}, r"`hierarchy` must contain labels that int64 represents, got 118"),
        ({"hierarchy": {-(2**70): [1]}}, "`hierarchy` must contain labels that int64 represents, got -118"),
        ({"hierarchy": {1: [np.ones(2), "a"]}}, "`hierarchy` must contain integer labels"),
        ({"hierarchy": [1]}, "`hierarchy` must be a dict of labels to their parents, got list"),
        ({"group_of": "count twice"}, "`group_of` must be one of 'count', 'ignore'"),
        ({"iou_type": "rotated"}, "`iou_type` must be one of 'bbox', 'segm'"),
        ({"iou_thresholds": 2}, "`iou_thresholds`"),
        ({"expand_preds": 1}, "`expand_preds`"),
    ],
)
def test_bad_settings_of_open_images(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        OpenImagesMeanAveragePrecision(**settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group_of": torch.tensor([2])}, r"`target\[0\]\['group_of'\]` must contain 0 and 1 only, got 2"),
        ({"group_of": torch.tensor([0, 1])}, r"`target\[0\]\['group_of'\]` must have one entry for each of 1 scores"),
        ({"negative_labels": torch.tensor([0.5])}, r"`target\[0\]\['negative_labels'\]` must be a 1-D integer tensor"),
        ({"positive_labels": [1]}, r"`target\[0\]\['positive_labels'\]` must be a 1-D integer tensor.*, got \[1\]"),
        ({"labels": torch.tensor([0.5])}, r"`target\[0\]\['labels'\]` must be an integer tensor"),
        ({"boxes": torch.tensor([[9.0, 9, 1, 1]])}, r"must have x1 <= x2"),
    ],
)
def test_bad_images_of_open_images(change, message):
    box, label = torch.tensor([[0.0, 0, 1, 1]]), torch.tensor([0])
    truth = {"boxes": box, "labels": label} | change
    metric = OpenImagesMeanAveragePrecision(hierarchy=PARENTS)
    with pytest.raises(ValueError, match=message):
        metric.update([{"boxes": box, "labels": label, "scores": torch.ones(1)}], [truth])
    assert not metric.detection_scores
    with pytest.raises(ValueError, match=r"must be a list of dicts.* no packed form, got a dict"):
        metric.update({"boxes": box, "labels": label, "scores": torch.ones(1), "counts": torch.tensor([1])}, [truth])


@pytest.mark.parametrize("hierarchy", [None, {0: 10}])
@pytest.mark.parametrize("listed", [True, False])
@each(
    "side, key",
    [
        *(("preds", key) for key in ("boxes", "scores", "labels")),
        *(("target", key) for key in ("boxes", "labels", "group_of", "difficult")),
    ],
)
@pytest.mark.parametrize("change", [-1, 1])
def test_columns_of_unequal_length_are_never_paired(side, key, change, listed, hierarchy):
    """Rows may be removed or repeated afterwards."""
    box, two = torch.tensor([[0.0, 0, 9, 9]]), torch.tensor([0, 0])
    images = {
        "preds": {"boxes": box.repeat(2, 1), "labels": torch.tensor([5, 0]), "scores": torch.tensor([0.9, 0.8])},
        "target": {"boxes": box.repeat(2, 1), "labels": two, "group_of": two, "difficult": two},
    }
    if listed:
        images["target"]["negative_labels"] = torch.tensor([7])
    value = images[side][key]
    images[side][key] = value[:-1] if change < 0 else torch.cat([value, value[-1:]])
    metric = OpenImagesMeanAveragePrecision(hierarchy=hierarchy, expand_preds=True)
    with pytest.raises(ValueError, match=rf"`{side}\[0\]\['.*'\]` must have one entry for each of \d scores or labels"):
        metric.update([images["preds"]], [images["target"]])


@pytest.mark.parametrize(
    ("labels", "lists", "wrong"),
    [
        ([1], {"negative_labels": [2, 1]}, 1),
        ([2], {"negative_labels": [3], "positive_labels": [3]}, 3),
        ([0], {"negative_labels": [12]}, 12),  # a 0 is a 12
        ([5], {"negative_labels": [11], "positive_labels": [1]}, 11),
    ],
)
def test_present_classes_cannot_be_listed_as_absent(labels, lists, wrong):
    box = torch.tensor([[0.0, 0, 9, 9]])
    truth = {"boxes": box, "labels": torch.tensor(labels)} | {key: torch.tensor(x) for key, x in lists.items()}
    found = {"boxes": box, "labels": torch.tensor(labels), "scores": torch.ones(1)}
    settings = {"hierarchy": PARENTS, "expand_preds": True}
    with pytest.raises(ValueError, match=rf"`target\[0\]\['negative_labels'\]` must not contain .*, got {wrong}$"):
        open_images_mean_average_precision([found], [truth], **settings)
    assert open_images_mean_average_precision([found], [truth], **settings, validate_args=False)["map"] == 1


def test_a_negative_class_of_many_bits_is_none_of_few():
    box = torch.tensor([[0.0, 0, 9, 9]])
    truth = {"boxes": box, "labels": torch.tensor([1], dtype=torch.uint8), "negative_labels": torch.tensor([257])}
    found = {"boxes": box, "labels": torch.tensor([257]), "scores": torch.ones(1)}
    metric = OpenImagesMeanAveragePrecision()
    metric.update([found], [truth])
    assert len(metric.detections_table()["class"]) == 1


def test_rows_of_tables_follow_the_input():
    box = torch.tensor([[0.0, 0, 9, 9]])
    truth = {"boxes": box, "labels": torch.tensor([1]), "negative_labels": torch.tensor([2])}
    found = {"boxes": box.repeat(4, 1), "labels": torch.tensor([5, 1, 5, 2]), "scores": torch.ones(4)}
    metric = OpenImagesMeanAveragePrecision()
    metric.update([found, found], [truth, truth])
    table = metric.detections_table()
    assert table["detection"].tolist() == [1, 3, 1, 3]
    assert table["class"].tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize("name", ["errors", "detections_table", "confusion_matrix"])
def test_a_class_is_not_confused_with_its_ancestors(name):
    box = torch.tensor([[0.0, 0, 9, 9]])
    found = {"boxes": box.repeat(2, 1), "labels": torch.tensor([0, 0]), "scores": torch.tensor([0.9, 0.8])}
    metric = OpenImagesMeanAveragePrecision(hierarchy=PARENTS, expand_preds=True)
    metric.update([found], [{"boxes": box, "labels": torch.tensor([0])}])
    with pytest.raises(
        ValueError, match=f"`{name}` must be called on a second metric of the same images without `hierarchy`"
    ):
        getattr(metric, name)()
    assert metric.lrp().lrp >= 0


def points(count, seed=0, classes=3):
    """Draw centres on a grid and off it, with ties of scores and of distances."""
    r = np.random.default_rng(seed)
    preds, target = [], []
    for _ in range(count):
        g, d = int(r.integers(0, 5)), int(r.integers(0, 7))
        true, labels = r.integers(0, 6, (g, 2)) / 2.0, r.integers(0, classes, g)
        found, guessed = r.integers(0, 6, (d, 2)) / 2.0, r.integers(0, classes, d)
        for place in range(d):
            if g and r.random() < 0.6:
                source = r.integers(g)
                step = r.choice([0.0, 0.5, 1.0]) if r.random() < 0.7 else r.random()
                found[place], guessed[place] = true[source] + step * np.eye(2)[r.integers(2)], labels[source]
        scores = r.choice([0.1, 0.3, 0.5, 0.9], d)
        preds.append({"centers": found, "scores": scores, "labels": guessed})
        target.append({"centers": true, "labels": labels})
    return [[{key: torch.from_numpy(x) for key, x in image.items()} for image in side] for side in (preds, target)]


def nuscenes(preds, target, label, distance):
    """Return the AP of a class by the development kit's loop, one detection after another."""
    total = sum(int((t["labels"] == label).sum()) for t in target)
    if not total:
        return float("nan")
    every = [
        (score, image, centre)
        for image, p in enumerate(preds)
        for score, centre, one in zip(p["scores"].tolist(), p["centers"].tolist(), p["labels"].tolist(), strict=True)
        if one == label
    ]
    order = [place for _, place in sorted((one[0], place) for place, one in enumerate(every))][::-1]
    taken, flags = set(), []
    for place in order:
        _, image, centre = every[place]
        nearest, chosen = np.inf, None
        truth = target[image]
        for g, (one, other) in enumerate(zip(truth["labels"].tolist(), truth["centers"].tolist(), strict=True)):
            if one == label and (image, g) not in taken:
                away = float(np.linalg.norm(np.array(centre) - np.array(other)))
                if away < nearest:
                    nearest, chosen = away, g
        flags.append(nearest < distance)
        taken |= {(image, chosen)} if flags[-1] else set()
    hits = np.cumsum(flags).astype(float)
    precision, recall = hits / np.arange(1, len(hits) + 1), hits / total
    if not len(hits):
        precision, recall = np.array([0.0]), np.array([0.01])
    if recall[0] != 0:
        precision, recall = np.append(precision[0], precision), np.append(0.0, recall)
    found = np.interp(np.linspace(0, 1, 101), recall, precision, right=0)[11:] - 0.1
    return float(np.clip(found, 0, None).mean() / 0.9)


def test_two_thousand_scenes_equal_nuscenes_rules():
    preds, target = points(2000)
    found = nuscenes_mean_average_precision(preds, target, class_metrics=True, dtype=torch.float64)
    each = [[nuscenes(preds, target, label, distance) for label in range(3)] for distance in (0.5, 1.0, 2.0, 4.0)]
    assert found["map_per_threshold"].tolist() == pytest.approx(np.mean(each, 1).tolist(), abs=REORDERED)
    assert found["map_per_class"].tolist() == pytest.approx(np.mean(each, 0).tolist(), abs=REORDERED)
    assert 0.01 < found["map_per_threshold"][0] < found["map_per_threshold"][3] < 1


@each("seed", range(40))
def test_few_scenes_equal_nuscenes_rules(seed):
    """Some classes have no detections or no truths, and some recalls are reached exactly."""
    preds, target = points(1 + seed % 4, seed)
    metric = NuScenesMeanAveragePrecision([2.0, 0.5], class_metrics=True)
    for p, t in zip(preds, target, strict=True):
        metric.update([p], [t])
    labels = sorted({int(x) for image in (*preds, *target) for x in image["labels"]})
    each = [np.mean([nuscenes(preds, target, label, x) for x in (2.0, 0.5)]) for label in labels]
    found = metric.compute()
    assert found["map_per_class"].reshape(-1).tolist() == pytest.approx(each, nan_ok=True, abs=REORDERED)
    for curve, value in zip(metric.curve(0.5), labels, strict=True):
        expected = nuscenes(preds, target, value, 0.5)
        assert float(curve.average_precision) == pytest.approx(expected, nan_ok=True, abs=REORDERED)


def test_nuscenes_has_intervals_and_comparisons():
    preds, target = points(40)
    metric, other = NuScenesMeanAveragePrecision(), NuScenesMeanAveragePrecision()
    metric.update(preds, target)
    other.update([p | {"centers": p["centers"] + 0.3} for p in preds], target)
    found = metric.confidence_interval(n_resamples=50)
    assert found.low < found.estimate < found.high
    assert float(metric.compute()["map"]) == pytest.approx(float(found.estimate))
    assert metric.compare(other, n_resamples=50).difference > 0
    assert 0 < metric.chance_level(n_resamples=20) < metric.compute()["map"]


def test_classes_that_nuscenes_metric_confuses():
    centers = torch.tensor([[0.0, 0], [5, 0], [9, 0]])
    truth = {"centers": centers, "labels": torch.tensor([0, 1, 1])}
    found = {"centers": centers + 0.3, "labels": torch.tensor([0, 0, 1]), "scores": torch.tensor([0.9, 0.8, 0.7])}
    metric = NuScenesMeanAveragePrecision()
    metric.update([found], [truth])
    for distance, matrix in ((0.5, [[1, 0, 0], [1, 1, 0], [0, 0, 0]]), (4.0, [[1, 0, 0], [1, 1, 0], [0, 0, 0]])):
        assert metric.confusion_matrix(distance).matrix.tolist() == matrix
    assert metric.operating_points(distance_threshold=2.0).recall.tolist() == [1, 0.5]
    assert metric.per_image(distance_threshold=4.0)["missed"].tolist() == [1]
    found = metric.confusion_matrix(distance_threshold=2.0)
    assert (found.distance_threshold, found.iou_threshold) == (2, None)
    assert "distance_threshold=2" in repr(found)
    assert "iou_threshold" not in repr(found)
    assert "iou" not in repr(found)
    for name in ("errors", "detections_table", "lrp"):  # they require overlaps
        assert not hasattr(metric, name)
    with pytest.raises(TypeError, match="iou_threshold"):
        metric.per_image(iou_threshold=2.0)
    for name in ("curve", "operating_points", "confusion_matrix", "per_image"):
        with pytest.raises(ValueError, match=r"`distance_threshold` must be one of 0\.5, .* got 3"):
            getattr(metric, name)(3.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"distance_thresholds": -1}, "`distance_thresholds`"),
        ({"distance_thresholds": []}, "`distance_thresholds`"),
        ({"distance_thresholds": "near"}, "`distance_thresholds`"),
        ({"validate_args": 1}, "`validate_args`"),
        ({"class_metrics": 1}, "`class_metrics`"),
    ],
)
def test_bad_settings_of_nuscenes(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        NuScenesMeanAveragePrecision(**settings)


@pytest.mark.parametrize(
    ("centers", "message"),
    [
        ([[1.0, float("nan")]], r"`target\[0\]\['centers'\]` must be finite"),
        ([[1.0, 2, 3]], r"`target\[0\]\['centers'\]` must have shape \(N, 2\), got \(1, 3\)"),
    ],
)
def test_bad_centres(centers, message):
    one = {"centers": torch.zeros(1, 2), "labels": torch.tensor([0]), "scores": torch.ones(1)}
    metric = NuScenesMeanAveragePrecision()
    with pytest.raises(ValueError, match=message):
        metric.update([one], [one | {"centers": torch.tensor(centers)}])
    with pytest.raises(ValueError, match="`distance_threshold`"):
        metric.curve(3.0)


def test_orders_of_images_and_of_rows_change_nothing_without_ties():
    preds, target = points(6, seed=3)
    for place, p in enumerate(preds):
        p["scores"] = torch.arange(len(p["scores"])) + 0.1 * place
    value = nuscenes_mean_average_precision(preds, target)["map"]
    for order in itertools.islice(itertools.permutations(range(6)), 0, 720, 100):
        assert nuscenes_mean_average_precision([preds[i] for i in order], [target[i] for i in order])["map"] == value


@pytest.mark.slow
def test_two_thousand_scenes_equal_hotcoco(tmp_path):
    hotcoco, parents = pytest.importorskip("hotcoco"), {0: 10, 1: 10, 10: 12}
    preds, target = scenes(2000, seed=1)
    scores = torch.rand(sum(len(p["scores"]) for p in preds), generator=torch.Generator().manual_seed(0))
    for p, part in zip(preds, scores.double().split([len(p["scores"]) for p in preds]), strict=True):
        p["scores"] = part
    for p, t in zip(preds, target, strict=True):
        # in that rule a detection whose object is taken may match another, and boxes without a size count
        p["boxes"][:, 2:].clamp_(min=0.5)
        kept = (t["group_of"] == 1) | ((t["group_of"] == 0).cumsum(0) == 1)
        for key in ("boxes", "labels", "group_of"):
            t[key] = t[key][kept]
    target = [{key: t[key] for key in ("boxes", "labels", "group_of")} for t in target]
    entries = {"found": [], "truth": []}
    for side, name in ((preds, "found"), (target, "truth")):
        for image, one in enumerate(side):
            for place, (box, label) in enumerate(zip(one["boxes"].tolist(), one["labels"].tolist(), strict=True)):
                entry = {"image_id": image + 1, "category_id": label + 1, "bbox": box}
                if name == "found":
                    entry["score"] = float(one["scores"][place])
                else:
                    group = bool(one["group_of"][place])
                    entry |= {"id": len(entries[name]) + 1, "area": box[2] * box[3], "is_group_of": group}
                entries[name].append(entry)
    images = [{"id": place + 1, "width": 999, "height": 999} for place in range(len(preds))]
    categories = [{"id": label + 1, "name": str(label)} for label in (0, 1, 2, 10, 12)]
    content = {"images": images, "annotations": entries["truth"], "categories": categories}
    for name, value in (("truth", content), ("found", entries["found"])):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    truth = hotcoco.COCO(str(tmp_path / "truth.json"))
    tree = hotcoco.Hierarchy.from_parent_map({child + 1: parent + 1 for child, parent in parents.items()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hotcoco warns that it has no rule for verified labels
        theirs = hotcoco.COCOeval(
            truth, truth.loadRes(str(tmp_path / "found.json")), "bbox", oid_style=True, hierarchy=tree
        )
        theirs.run()
    each = theirs.results(per_class=True)["per_class"]
    settings = {"hierarchy": parents, "class_metrics": True, "dtype": torch.float64}
    found = open_images_mean_average_precision(preds, target, "xywh", **settings)
    expected = [each[str(label)] for label in found["classes"].tolist()]
    assert found["map_per_class"].tolist() == pytest.approx(expected, abs=REORDERED)
    assert found["map"] > 0.01
