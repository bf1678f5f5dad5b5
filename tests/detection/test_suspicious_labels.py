"""Suspicious ground truths: each change equals a second evaluation with the corrected ground truth."""

import math
import warnings

import pytest
import torch

from tests.support.each import each
from tests.support.oracles_detection import random_intervals, random_poses, random_rotated, random_scene, to_voc
from tests.support.oracles_lvis import random_federated
from tests.support.tolerances import REORDERED
from torch_ap import MeanAveragePrecision, VOCMeanAveragePrecision
from torch_ap.detection import LVISMeanAveragePrecision, OpenImagesMeanAveragePrecision, suspicious_labels
from torch_ap.detection.errors import corrections
from torch_ap.detection.pairs import box_iou
from torch_ap.inference import SuspiciousLabels

KINDS = ["missing annotation", "wrong class", "missed by all", "duplicate"]
SEARCH = {"score_threshold": 0.2, "duplicate_threshold": 0.5, "limit": None}


def masked(seed):
    """Draw masks of rectangles."""
    preds, target = random_scene(seed)
    for image in (*preds, *target):
        image.pop("area", None)
        image["masks"] = torch.zeros((len(image["labels"]), 128, 128), dtype=torch.bool)
        for mask, (x, y, w, h) in zip(image["masks"], image.pop("boxes").long().tolist(), strict=True):
            mask[y : y + h, x : x + w] = True
    return preds, target


def grouped(seed):
    """Draw boxes, some of them around groups."""
    preds, target = to_voc(*random_scene(seed))
    for image in target:
        image["group_of"] = image.pop("difficult")
    return preds, target


CASES = {
    "coco": (lambda: MeanAveragePrecision("xywh"), random_scene, None),
    "coco, one detection, micro": (
        lambda: MeanAveragePrecision("xywh", average="micro", max_detection_thresholds=[1]),
        random_scene,
        0.75,
    ),
    "masks": (lambda: MeanAveragePrecision(iou_type="segm"), masked, None),
    "keypoints": (lambda: MeanAveragePrecision("xywh", iou_type="keypoints"), random_poses, None),
    "rotated": (lambda: MeanAveragePrecision("cxcywhr", "rotated"), random_rotated, None),
    "intervals": (lambda: MeanAveragePrecision(iou_type="intervals"), random_intervals, None),
    "own similarity": (
        lambda: MeanAveragePrecision("xywh", iou=lambda a, b, crowd: box_iou(a, b, "xywh", iscrowd=crowd).diagonal()),
        random_scene,
        None,
    ),
    "voc": (VOCMeanAveragePrecision, lambda seed: to_voc(*random_scene(seed)), None),
    "ultralytics": (lambda: VOCMeanAveragePrecision("xywh", convention="ultralytics"), random_scene, None),
    "open images": (OpenImagesMeanAveragePrecision, grouped, None),
    "lvis": (lambda: LVISMeanAveragePrecision("xywh"), random_federated, None),
}


def updated(metric, preds, target, ids=None):
    metric.warn_on_many_detections = False
    metric.update(preds, target, ids)
    return metric


def added(key, column, pred, row):
    """Return the column of an image with a ground truth that has the shape of a detection."""
    value = pred[key][row] if key in pred else torch.zeros(column.shape[1:])
    if key == "keypoints":
        value = torch.cat([value[:, :2], torch.full_like(value[:, :1], 2)], 1)
    if key == "area" and "keypoints" in pred:
        points = pred["keypoints"][row, :, :2]
        value = (points.amax(0) - points.amin(0)).prod()
    return torch.cat([column, value[None].to(column.dtype)])


def corrected(row, preds, target):
    """Return the ground truths after the correction of a row of the table."""
    image = {key: x.clone() for key, x in target[row["image"]].items()}
    pred, lists = preds[row["image"]], {key: image.pop(key) for key in [*image] if key.endswith("category_ids")}
    place, old = row["ground_truth"], image["labels"]
    if row["kind"] == "missing annotation":
        image = {key: added(key, x, pred, row["detection"]) for key, x in image.items()}
    elif row["kind"] == "wrong class":
        image["labels"][place] = pred["labels"][row["detection"]]
    else:
        image = {key: torch.cat([x[:place], x[place + 1 :]]) for key, x in image.items()}
    if lists:  # of LVIS: a searched class stays searched
        searched = {*lists["neg_category_ids"].tolist(), *old.tolist()}
        negative = sorted(searched - {*image["labels"].tolist(), *lists["not_exhaustive_category_ids"].tolist()})
        lists["neg_category_ids"] = torch.tensor(negative, dtype=torch.int64)
    return [*target[: row["image"]], image | lists, *target[row["image"] + 1 :]]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of low values and labels without ground truths
def test_each_change_is_that_of_the_corrected_ground_truths(case, monkeypatch):
    monkeypatch.setattr(corrections, "_ENTRIES_A_CHUNK", 7)  # many chunks
    new, draw, threshold = CASES[case]
    kinds = set()
    for seed in range(6):
        preds, target = draw(seed)
        metric = updated(new(), preds, target)
        found, before = metric.suspicious_labels(iou_threshold=threshold, **SEARCH), metric.errors(threshold)
        value = before.average_precision.item()
        assert found.value.item() == pytest.approx(value, abs=REORDERED, nan_ok=True)
        rows = found.rows()
        assert len(rows) == sum(found.counts.values())
        for row in rows[:: 1 + len(rows) // 8]:
            after = updated(new(), preds, corrected(row, preds, target)).errors(threshold).average_precision.item()
            assert row["change"] == pytest.approx(after - value, abs=REORDERED, nan_ok=True), row
            kinds.add(row["kind"])
        changes = [x for x in found.table["change"].tolist() if x == x]
        assert changes == sorted(changes, reverse=True)
    assert len(kinds) >= 3


def scene():
    """Return a metric with one label of each kind; images are 10, 11 and 12."""
    box = torch.tensor([[0.0, 0, 40, 40], [50, 50, 90, 90], [0, 60, 40, 99]])
    label = torch.tensor([0, 1, 0])
    target = [
        {"boxes": box[:2], "labels": label[:2]},
        {"boxes": torch.cat([box, box[:1] + 1]), "labels": torch.tensor([0, 0, 0, 0])},
        {"boxes": box, "labels": label},
    ]
    preds = [
        {"boxes": box, "labels": label, "scores": torch.tensor([0.9, 0.8, 0.7])},  # the third is not annotated
        {"boxes": box[:2], "labels": label[:2], "scores": torch.tensor([0.6, 0.95])},  # the second is a 0 in the labels
        {"boxes": box[:1], "labels": label[:1], "scores": torch.tensor([0.3])},
    ]
    return preds, target


def test_every_kind_names_its_rows_and_classes():
    metric = updated(MeanAveragePrecision(class_names=["cat", "dog"]), *scene(), [10, 11, 12])
    found = metric.suspicious_labels(score_threshold=0.5)
    assert isinstance(found, SuspiciousLabels)
    assert found.counts == dict(zip(KINDS, (1, 1, 3, 1), strict=True))
    assert list(found.counts) == KINDS
    rows = {(row["kind"], row["image"], row["ground_truth"]): row for row in found.rows()}
    missing = rows["missing annotation", 10, -1]
    assert (missing["class"], missing["detected_class"], missing["detection"]) == (None, "cat", 2)
    assert missing["score"] == pytest.approx(0.7)
    assert math.isnan(missing["iou"])
    wrong = rows["wrong class", 11, 1]
    assert (wrong["class"], wrong["detected_class"], wrong["detection"], wrong["iou"]) == ("cat", "dog", 1, 1)
    copy = rows["duplicate", 11, 3]
    assert (copy["other"], copy["class"], copy["detected_class"]) == (0, "cat", None)
    assert copy["iou"] == pytest.approx(39**2 / (2 * 40**2 - 39**2))
    assert {key[1:] for key in rows if key[0] == "missed by all"} == {(11, 2), (12, 1), (12, 2)}


def test_a_limit_keeps_the_first_rows_and_all_counts():
    metric = updated(MeanAveragePrecision(), *scene())
    every, two = metric.suspicious_labels(score_threshold=0.5), metric.suspicious_labels(score_threshold=0.5, limit=2)
    assert two.counts == every.counts
    assert repr(two.rows()) == repr(every.rows()[:2])
    assert every._repr_html_().count("<tr>") == 1 + 6
    assert "2 of 6 suspicious labels" in two._repr_html_()


@pytest.mark.filterwarnings("ignore::UserWarning")
@each("case", ["coco", "voc", "ultralytics", "lvis"])
def test_a_limit_leaves_out_only_smaller_changes(case):
    new, draw, _ = CASES[case]
    for seed in range(8):
        metric = updated(new(), *draw(seed))
        every = metric.suspicious_labels(**SEARCH).table["change"]
        for limit in (1, 4):
            some = metric.suspicious_labels(**SEARCH | {"limit": limit}).table["change"]
            assert some.tolist() == pytest.approx(every[:limit].tolist(), abs=REORDERED, nan_ok=True), (seed, limit)


def test_the_default_threshold_is_the_best_f1_of_each_class():
    preds, target = random_scene(3, images=30, classes=3)
    metric = updated(MeanAveragePrecision("xywh"), preds, target)
    expected = metric.suspicious_labels(score_threshold=metric.operating_points())
    assert repr(metric.suspicious_labels().to_dict()) == repr(expected.to_dict())


def test_few_groups_of_images_do_not_matter():
    metrics = [MeanAveragePrecision("xywh") for _ in range(2)]
    for metric, groups in zip(metrics, (None, [0, 1, 2, 3, 4] * 4), strict=True):
        metric.update(*random_scene(0, images=20), groups=groups)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metrics[0].suspicious_labels() == metrics[1].suspicious_labels()


def test_a_ground_truth_is_missed_only_if_every_detector_misses_it():
    preds, target = scene()
    metric = updated(MeanAveragePrecision(), preds, target)
    preds[2] = {"boxes": target[2]["boxes"], "labels": target[2]["labels"], "scores": torch.tensor([0.1, 0.2, 0.3])}
    other = updated(MeanAveragePrecision(), preds, target)
    found = metric.suspicious_labels([other], score_threshold=0.5)
    assert found.counts == dict(zip(KINDS, (1, 1, 1, 1), strict=True))
    assert [row["image"] for row in found.rows() if row["kind"] == "missed by all"] == [1]


@pytest.mark.filterwarnings("ignore::UserWarning")
@each(
    "draw, settings",
    [
        (random_scene, {"box_format": "xywh"}),
        (masked, {"iou_type": "segm"}),
        (random_poses, {"box_format": "xywh", "iou_type": "keypoints"}),
        (random_rotated, {"box_format": "cxcywhr", "iou_type": "rotated"}),
        (random_intervals, {"iou_type": "intervals"}),
    ],
)
def test_the_function_equals_the_method(draw, settings):
    for seed in range(3):
        preds, target = draw(seed)
        other = [{name: x[::2] for name, x in image.items()} for image in preds]
        first, second = (updated(MeanAveragePrecision(**settings), x, target) for x in (preds, other))
        expected = first.suspicious_labels([second], **SEARCH)
        found = suspicious_labels(preds, target, **settings, others=[other], **SEARCH)
        assert repr(found.to_dict()) == repr(expected.to_dict())
    with pytest.raises(ValueError, match="iou_threshold"):
        suspicious_labels(preds, target, **settings, iou_threshold=2)


def test_a_detected_copy_leaves_the_first_ground_truth_suspicious():
    box = torch.tensor([[0.0, 0, 40, 40], [1, 0, 41, 40]])
    truth = {"boxes": box, "labels": torch.tensor([0, 0])}
    pred = {"boxes": box[1:], "labels": torch.tensor([0]), "scores": torch.tensor([0.9])}
    metric = updated(MeanAveragePrecision(), [pred], [truth])
    (row,) = metric.suspicious_labels().rows()
    assert (row["kind"], row["ground_truth"], row["other"]) == ("duplicate", 0, 1)
    assert row["change"] == pytest.approx(1 - 51 / 101)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_images_no_detections_and_no_ground_truths():
    preds, target = scene()
    nothing = {"boxes": torch.empty(0, 4), "labels": torch.empty(0, dtype=torch.int64)}
    empty = [nothing | {"scores": torch.empty(0)}] * 3
    for one, other, counts in (
        ([], [], (0, 0, 0, 0)),
        (empty, [nothing] * 3, (0, 0, 0, 0)),
        (empty, target, (0, 0, 8, 1)),
        (preds, [nothing] * 3, (6, 0, 0, 0)),
    ):
        metric = updated(MeanAveragePrecision(), one, other)
        found = metric.suspicious_labels(score_threshold=0.2)
        assert tuple(found.counts.values()) == counts
        assert len(found.rows()) == sum(counts)


@each(
    "arguments, match",
    [
        ({"duplicate_threshold": 0}, "duplicate_threshold"),
        ({"limit": 0}, "limit"),
        ({"iou_threshold": 0.52}, "iou_threshold"),
        ({"score_threshold": "high"}, "score_threshold"),
        ({"iou_type": "segm"}, "iou_type"),
        ({"others": [5]}, "others|other"),
    ],
)
def test_bad_arguments(arguments, match):
    metric = updated(MeanAveragePrecision(), *scene())
    with pytest.raises((TypeError, ValueError), match=match):
        metric.suspicious_labels(**arguments)


def test_what_has_no_shapes_or_another_limit_is_an_error():
    preds, target = scene()
    metric = updated(MeanAveragePrecision(match="update"), preds, target)
    with pytest.raises(ValueError, match="match"):
        metric.suspicious_labels()
    metric = MeanAveragePrecision(iou_type="precomputed")
    with pytest.raises(ValueError, match="iou_type"):
        metric.suspicious_labels()
    with pytest.raises(ValueError, match="ap_fixed"):
        LVISMeanAveragePrecision(ap_fixed=True).suspicious_labels()
    metric, other = updated(MeanAveragePrecision(), preds, target), updated(MeanAveragePrecision(), preds, target[::-1])
    with pytest.raises(ValueError, match="same ground truths"):
        metric.suspicious_labels([other])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_box_is_that_of_the_detection(case):
    new, draw, threshold = CASES[case]
    boxes = 0
    for seed in range(3):
        preds, target = draw(seed)
        metric = updated(new(), preds, target)
        for row in metric.suspicious_labels(iou_threshold=threshold, **SEARCH).rows():
            assert (row["box"] is None) == (row["detection"] < 0)
            if row["box"] is not None:
                assert row["box"] == pytest.approx(box_of(preds[row["image"]], row["detection"])), case
                boxes += 1
    assert boxes > 3


def box_of(pred, row):
    """Return the box of a detection as given, or around its mask (xyxy) or keypoints (xywh)."""
    if "masks" in pred:
        y, x = pred["masks"][row].nonzero(as_tuple=True)
        return [x.min().item(), y.min().item(), x.max().item() + 1, y.max().item() + 1] if len(x) else [0] * 4
    if "keypoints" in pred:
        x, y = pred["keypoints"][row, :, :2].double().unbind(1)
        return [x.min().item(), y.min().item(), (x.max() - x.min()).item(), (y.max() - y.min()).item()]
    return pred["intervals" if "intervals" in pred else "boxes"][row].tolist()
