"""Detections of supervision and FiftyOne, as objects of the packages if installed, and of replacements."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.oracles_detection import random_scene
from torch_ap import MeanAveragePrecision
from torch_ap.files import read_fiftyone, read_supervision

SIZE = (512, 256)  # width and height: fractions of powers of two are exact


@dataclass
class Detections:
    """Replacement of supervision's class, with its attributes alone."""

    xyxy: Any
    mask: Any = None
    confidence: Any = None
    class_id: Any = None
    tracker_id: Any = None
    data: dict = field(default_factory=dict)
    metadata: dict = field(default_factory=dict)

    @classmethod
    def empty(cls):
        return cls(np.empty((0, 4), np.float32), None, np.array([], np.float32), np.array([], int))


@pytest.fixture(params=["stand-in", "supervision"])
def detections(request):
    """Return the class of supervision or its replacement."""
    return Detections if request.param == "stand-in" else pytest.importorskip("supervision").Detections


def scene(images=60):
    """Draw images of boxes as corners with crowds and areas, some of them empty."""
    preds, target = random_scene(5, images=images, classes=3)
    for one in (*preds, *target):
        one["boxes"] = torch.cat([one["boxes"][:, :2], one["boxes"][:, :2] + one["boxes"][:, 2:]], 1)
    return preds, target


def as_supervision(kind, image):
    """Convert a dict of an image to a supervision object."""
    rows = {key: image[key].numpy() for key in image}
    data = {key: rows[key] for key in ("iscrowd", "area") if key in rows}
    if not len(rows["labels"]):
        return kind.empty()
    return kind(
        xyxy=rows["boxes"],
        mask=rows.get("masks"),
        class_id=rows["labels"],
        confidence=rows.get("scores"),
        data={**data, "class_name": np.array([f"c{x}" for x in rows["labels"]])},
    )


def numbers(preds, target, **settings):
    metric = MeanAveragePrecision(class_metrics=True, **settings)
    metric.warn_on_many_detections = False
    metric.update(preds, target)
    return {name: value.tolist() for name, value in metric.compute().items()}


def test_supervision_agrees_with_tensors(detections):
    preds, target = scene()
    given = [[as_supervision(detections, image) for image in side] for side in (preds, target)]
    data = read_supervision(*given)
    assert numbers(data.preds, data.target) == numbers(preds, target)
    assert data.class_names == {label: f"c{label}" for label in (0, 1, 2)}
    one = read_supervision(given[0][3], given[1][3])
    assert torch.equal(one.preds[0]["boxes"], preds[3]["boxes"])
    data.target[0]["boxes"].zero_()
    assert given[1][0].xyxy.any() or not len(given[1][0].xyxy)


def test_supervisions_own_metric_has_the_same_value():
    sv = pytest.importorskip("supervision")
    from supervision.metrics import MeanAveragePrecision as Theirs

    preds, target = scene(20)
    given = [[as_supervision(sv.Detections, image) for image in side] for side in (preds, target)]
    data = read_supervision(*given)
    metric = MeanAveragePrecision(use_given_area=True)
    metric.update(data.preds, data.target)
    theirs = Theirs().update(*given).compute()
    ours = metric.per_threshold()["all"].tolist()
    assert ours == pytest.approx(theirs.mAP_scores.tolist(), rel=1e-7)  # supervision stores precision as float32


def masked(images=12):
    """Draw images of masks and their boxes."""
    r = np.random.default_rng(3)
    sides = [], []
    for _ in range(images):
        count = int(r.integers(0, 4))
        masks = np.zeros((2, count, SIZE[1], SIZE[0]), bool)
        corner, off = r.integers(10, 100, (count, 2)), r.integers(-4, 5, (count, 2))
        for side in (0, 1):
            for place, (x, y) in enumerate(corner + side * off):
                masks[side, place, y : y + 40, x : x + 30 + place] = True
                masks[side, place, y, x + 1 : x + 20] = False  # no rectangle
        boxes = (
            [
                np.concatenate([x, x + [[30 + i, 40] for i in range(count)]], 1).reshape(-1, 4)
                for x in (corner, corner + off)
            ]
            if count
            else [np.zeros((0, 4))] * 2
        )
        labels = torch.from_numpy(r.integers(0, 2, count))
        for side, one, box in zip(sides, masks, boxes, strict=True):
            side.append(
                {"masks": torch.from_numpy(one), "boxes": torch.from_numpy(box.astype(float)), "labels": labels}
            )
        sides[0][-1]["scores"] = torch.from_numpy(r.random(count))
    return sides


def test_supervisions_masks_compact_ones_too(detections):
    preds, target = masked()
    given = [[as_supervision(detections, image) for image in side] for side in (preds, target)]
    wanted = numbers(preds, target, iou_type="segm")
    data = read_supervision(*given, "segm")
    assert numbers(data.preds, data.target, iou_type="segm") == wanted
    assert 0 < wanted["map"] < 1
    if detections is not Detections:
        from supervision.detection.compact_mask import CompactMask

        for one in given[0]:
            if one.mask is not None:
                one.mask = CompactMask.from_dense(one.mask, one.xyxy, one.mask.shape[1:])
        data = read_supervision(*given, "segm")
        assert numbers(data.preds, data.target, iou_type="segm") == wanted


def test_supervisions_rotated_boxes(detections):
    corners = np.array([[[10, 0], [20, 10], [10, 20], [0, 10]]], np.float32)
    shape = {"xyxy": np.array([[0, 0, 20, 20]]), "class_id": np.array([1]), "data": {"xyxyxyxy": corners}}
    found, truth = detections(**shape, confidence=np.array([0.5])), detections(**shape)
    data = read_supervision([found, detections.empty()], [truth, truth], "rotated")
    value = numbers(data.preds, data.target, iou_type="rotated", box_format="xyxyxyxy")
    assert value["mar_100"] == 0.5


BOX = np.array([[0.0, 0, 9, 9]])
FOUND = {"xyxy": BOX, "class_id": np.array([2]), "confidence": np.array([0.5])}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"found": {"confidence": None}},
            r"`predictions\[0\].confidence` must contain a row for each of 1 objects, got N",
        ),
        ({"found": {"class_id": None}}, r"`predictions\[0\].class_id` must contain a row"),
        (
            {"truth": {"class_id": np.array([1, 2])}},
            r"`targets\[0\].class_id` must contain a row for each of 1 .*, got shape \(2,\)",
        ),
        ({"found": {"confidence": [None]}}, r"`predictions\[0\].confidence` must contain numbers, got object"),
        ({"found": {"confidence": [np.nan]}}, r"`predictions\[0\].confidence\[0\]` must not be NaN, got nan"),
        ({"truth": {"xyxy": BOX * np.nan}}, r"`targets\[0\].xyxy\[0\]` must not be NaN, got \[nan"),
        ({"found": {"confidence": 0.5}}, r"`predictions\[0\].confidence` must contain a row .*, got shape \(\)"),
        ({"truth": {"class_id": np.array([1.0])}}, r"`targets\[0\].class_id` must contain whole numbers, got float64"),
        ({"kind": "segm"}, r"`predictions\[0\].mask` must contain a row for each of 1 objects, got None"),
        ({"kind": "rotated"}, r"`predictions\[0\].data\['xyxyxyxy'\]` must contain a row"),
        ({"truth": {"data": {"ignore": np.array([1])}}}, r"`targets\[0\].data\['ignore'\]` must be 0.*got 1"),
        ({"kind": "intervals"}, "`iou_type` must be one of"),
        (
            {"kind": "keypoints"},
            r"`predictions\[0\]` must be a supervision.KeyPoints with .*keypoints.* got Detections",
        ),
        (
            {"found": {"xyxy": np.zeros((1, 5))}},
            r"`predictions\[0\].xyxy` must contain a row for each of 1 .*shape \(1, 4\), got shape \(1, 5\)",
        ),
        (
            {"found": {"xyxy": [[0, 0, 1, 1], [0, 0]]}},
            r"`predictions\[0\].xyxy` must contain a row .* all of one shape",
        ),
        ({"found": {"xyxy": None}}, r"`predictions\[0\].xyxy` must contain a row for each object, got None"),
        ({"found": {"xyxy": np.array(5)}}, r"`predictions\[0\].xyxy` must contain a row for each object, got array"),
        ({"truth": {"data": [1]}}, r"`targets\[0\].data` must be a dict, got \[1\]"),
        ({"truth": {"data": {"class_name": ["a", "b"]}}}, r"class_name'\]` must contain a name for each of 1 objects"),
        ({"truth": {"data": {"class_name": 5}}}, r"class_name'\]` must contain a name for each of 1 objects, got 5"),
        (
            {"truth": {"data": {"class_name": "a"}}},
            r"class_name'\]` must contain a name for each of 1 objects, got 'a'",
        ),
        (
            {"truth": {"data": {"class_name": [["a"]]}}},
            r"class_name'\]` must contain a name for each of 1 objects, got",
        ),
        ({"truth": {"data": {"class_name": [["a"], []]}}}, r"class_name'\]` must contain a name for each of 1 objects"),
        ({"found": {"confidence": np.ones((1, 1))}}, r"`predictions\[0\].confidence` must .* got shape \(1, 1\)"),
        (
            {"found": {"class_id": np.array([2**63 + 2], np.uint64)}},
            r"`predictions\[0\].class_id\[0\]` must be below 2\^63, got 9223372036854775810",
        ),
        (
            {"found": {"mask": np.ones((1, 9), bool)}, "kind": "segm"},
            r"mask` must contain .*shape \(1, \.\.\., \.\.\.\), got shape \(1, 9\)",
        ),
        (
            {"found": {"data": {"xyxyxyxy": np.ones((1, 4))}}, "kind": "rotated"},
            r"xyxyxyxy'\]` must contain .* \(1, 4, 2\) or \(1, 8\), got shape \(1, 4\)",
        ),
        ({"truth": {"data": {"area": np.ones((1, 2))}}}, r"`targets\[0\].data\['area'\]` must contain .* \(1, 2\)"),
        (
            {
                "found": {"data": {"class_name": np.array(["cat"])}},
                "truth": {"data": {"class_name": np.array(["dog"])}},
            },
            r"`targets\[0\].data\['class_name'\]` must call class 2 'cat'.*another model\?\), got 'dog'",
        ),
    ],
)
def test_missing_attributes_of_supervisions_objects_are_named(given, message):
    found, truth = (Detections(**{**FOUND, **given.get(side, {})}) for side in ("found", "truth"))
    with pytest.raises(ValueError, match=message):
        read_supervision([found], [truth], given.get("kind", "bbox"))


@pytest.mark.parametrize(
    "dtype", [np.longdouble, ">f4", ">f8", "<f4", np.float16, ">i8", np.uint8, np.uint16, np.uint32, np.uint64]
)
def test_numbers_of_any_dtype_are_read(dtype):
    rows = {key: np.array(value).astype(dtype) for key, value in FOUND.items()}
    rows["class_id"] = np.array([2], ">i4")
    data = read_supervision([Detections(**rows)], [Detections(**{**rows, "data": {"area": rows["xyxy"][:, 3]}})])
    assert data.preds[0]["boxes"].tolist() == [[0, 0, 9, 9]]
    assert data.preds[0]["scores"].tolist() == rows["confidence"].tolist()
    assert data.target[0]["area"].tolist() == [9]
    MeanAveragePrecision().update(data.preds, data.target)
    assert data.target[0]["labels"].tolist() == [2]


@dataclass
class KeyPoints:
    """Replacement of supervision's class, with its attributes alone."""

    xy: Any
    class_id: Any = None
    detection_confidence: Any = None
    visible: Any = None
    data: dict = field(default_factory=dict)


def poses(images=40, points=5):
    """Draw images of poses and detections: with unlabelled points or none, with areas and boxes or without."""
    r = np.random.default_rng(7)
    found, true = [], []
    for image in range(images):
        count = int(r.integers(0, 4))
        xy = r.uniform(0, 300, (count, 1, 2)) + r.uniform(0, 80, (count, points, 2))
        near = xy + r.normal(0, 3, xy.shape)
        visible = (r.random((count, points)) < 0.7) & (r.random((count, 1)) < 0.8)
        corners = np.concatenate([xy.min(1) - 5, xy.max(1) + 5], 1)
        data = {"iscrowd": r.random(count) < 0.1}
        data |= {"area": r.uniform(500, 12000, count)} if image % 2 else {}
        data |= {"xyxy": corners} if image % 3 else {}
        labels = r.integers(0, 2, count)
        true.append({"xy": xy, "class_id": labels, "visible": visible if image % 5 else None, "data": data})
        further = {"xyxy": corners} if image % 4 == 1 else {}
        found.append({"xy": near, "class_id": labels, "detection_confidence": r.random(count), "data": further})
    return found, true


@pytest.mark.parametrize("unscored", [[], [3, 4, 8], [*range(40)]])
def test_supervisions_keypoints_have_the_value_of_its_own_metric(unscored):
    sv = pytest.importorskip("supervision")
    from supervision.metrics import KeyPointMeanAveragePrecision as Theirs

    sigmas, (found, true) = [0.05, 0.1, 0.15, 0.1, 0.05], poses()
    for image in unscored:
        found[image]["detection_confidence"] = None
    given = [[sv.KeyPoints(**image) for image in side] for side in (found, true)]
    theirs = Theirs(sigmas=sigmas).update(*given).compute()
    for sides in (given, [[KeyPoints(**image) for image in side] for side in (found, true)]):
        data = read_supervision(*sides, "keypoints")
        metric = MeanAveragePrecision(iou_type="keypoints", sigmas=sigmas, use_given_area=True)
        metric.update(data.preds, data.target)
        ours = metric.per_threshold()
        assert 0.1 < float(ours["all"].mean()) < 0.9
        for area, part in (("all", theirs), ("medium", theirs.medium_objects), ("large", theirs.large_objects)):
            assert ours[area].tolist() == pytest.approx(part.mAP_scores.tolist(), rel=1e-7)  # float32 there


def test_a_third_number_of_keypoints_is_ignored():
    one = {"xy": np.ones((1, 2, 3), np.float32), "class_id": np.array([0])}
    found = KeyPoints(**one, detection_confidence=np.array([0.5]))
    data = read_supervision([found], [KeyPoints(**one, visible=np.array([[True, False]]))], "keypoints")
    assert data.preds[0]["keypoints"].tolist() == [[[1, 1, 2], [1, 1, 2]]]
    assert data.target[0]["keypoints"].tolist() == [[[1, 1, 2], [1, 1, 0]]]
    assert data.target[0]["area"].tolist() == [0]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"xy": np.ones((1, 4))}, r"`predictions\[0\].xy` must contain .*\(1, \.\.\., 2\) or .* got shape \(1, 4\)"),
        ({"xy": np.full((1, 2, 2), np.nan)}, r"`predictions\[0\].xy\[0\]` must not be NaN"),
        ({"xy": np.full((1, 2, 2), np.inf)}, r"`predictions\[0\].xy\[0\]` must be finite, got \[\[inf, inf\]"),
        ({"xy": np.ones((1, 0, 2))}, r"`predictions\[0\].xy` must contain at least one point .* \(1, 0, 2\)"),
        (
            {"detection_confidence": np.ones(2)},
            r"`predictions\[0\].detection_confidence` must contain a row .* shape \(2,\)",
        ),
        ({"class_id": None}, r"`predictions\[0\].class_id` must contain a row .* got None"),
        (
            {"visible": np.ones((1, 3))},
            r"`predictions\[0\].visible` must have a column for each of 2 points, got \(1, 3\)",
        ),
        ({"data": {"xyxy": np.ones((1, 3))}}, r"`predictions\[0\].data\['xyxy'\]` must contain .* got shape \(1, 3\)"),
    ],
)
def test_missing_attributes_of_supervisions_keypoints_are_named(found, message):
    one = {"xy": np.ones((1, 2, 2)), "class_id": np.array([0]), "detection_confidence": np.array([0.5])}
    with pytest.raises(ValueError, match=message):
        read_supervision(KeyPoints(**{**one, **found}), KeyPoints(**one), "keypoints")


def test_lists_of_supervision_fit_together():
    with pytest.raises(ValueError, match="`predictions` and `targets` must contain as many images, got 1 and 2"):
        read_supervision([Detections.empty()], [Detections.empty()] * 2)
    with pytest.raises(ValueError, match=r"`targets\[0\]` must be a supervision.Detections with .*bbox.*, got dict"):
        read_supervision([Detections.empty()], [{}])


def test_keypoints_of_versions_without_a_score_of_the_object_are_named():
    older = SimpleNamespace(xy=np.ones((1, 2, 2)), class_id=np.array([0]), confidence=np.ones((1, 2)), data={})
    with pytest.raises(ValueError, match=r"must be a supervision.KeyPoints .* without `detection_confidence`"):
        read_supervision(older, older, "keypoints")


def test_names_of_supervisions_classes_may_be_numbers():
    nothing = dict.fromkeys(("class_name", "area", "iscrowd", "ignore"))
    empty = Detections(np.zeros((0, 4)), data={"class_name": 5})
    assert read_supervision([empty], [empty]).class_names == {}
    assert read_supervision([Detections(**FOUND)], [Detections(**FOUND, data=nothing)]).class_names == {}
    found, truth = (Detections(**FOUND, data={"class_name": names}) for names in (np.array([7]), ["7"]))
    assert read_supervision([found], [truth]).class_names == {2: "7"}


# -- FiftyOne, whose package needs a database


class Detection:
    """Replacement of FiftyOne's class, with its documented attributes."""

    def __init__(self, label=None, bounding_box=None, mask=None, confidence=None, **attributes):
        self.label, self.bounding_box, self.mask, self.confidence = label, bounding_box, mask, confidence
        self.index, self.tags, self._attributes = None, [], attributes

    def get_attribute_value(self, name, default=None):
        return self._attributes.get(name, default)


class Sample:
    """A sample: fields by item, and the size of its image."""

    def __init__(self, size=SIZE, **fields):
        self.filepath, self.id, self._fields = "/data/image.jpg", None, fields
        self.metadata = None if size is None else SimpleNamespace(width=size[0], height=size[1], num_channels=3)

    def __getitem__(self, name):
        return self._fields[name]


def as_fiftyone(preds, target):
    """Convert images to samples, with masks cut out of the image as in FiftyOne's import of COCO."""
    samples = []
    for images in zip(preds, target, strict=True):
        lists = []
        for image in images:
            lists.append([])
            for place, (label, box) in enumerate(zip(image["labels"].tolist(), image["boxes"].tolist(), strict=True)):
                x, y, w, h = (x / side for x, side in zip(box, SIZE * 2, strict=True))
                one = Detection(f"c{label}", [x, y, w - x, h - y])
                if "masks" in image:
                    left, top, right, bottom = map(round, box)
                    one.mask = image["masks"][place, top:bottom, left:right].numpy()
                if "scores" in image:
                    one.confidence = float(image["scores"][place])
                elif "iscrowd" in image:
                    one._attributes["iscrowd"] = bool(image["iscrowd"][place])
                lists[-1].append(one)
        found, truth = (SimpleNamespace(detections=one) for one in lists)
        samples.append(Sample(ground_truth=truth if lists[1] else None, found=found))
    return samples


def test_fiftyone_agrees_with_tensors():
    preds, target = scene()
    samples = as_fiftyone(preds, target)
    data = read_fiftyone(iter(samples), "found")
    for image in target:
        del image["area"]
    wanted = numbers(preds, target)
    assert numbers(data.preds, data.target) == wanted
    assert data.class_names == {0: "c0", 1: "c1", 2: "c2"}
    assert 0 < wanted["map"] < 1


def test_fiftyones_masks_go_where_they_were_cut_out():
    preds, target = masked()
    data = read_fiftyone(as_fiftyone(preds, target), "found", iou_type="segm")
    for found, images in ((data.preds, preds), (data.target, target)):
        assert all(torch.equal(one["masks"], image["masks"]) for one, image in zip(found, images, strict=True))
    assert numbers(data.preds, data.target, iou_type="segm") == numbers(preds, target, iou_type="segm")


@pytest.mark.parametrize(
    ("box", "mask", "where"),
    [
        ([0.1, 0.1, 0.2, 0.2], [[1, 0]], (slice(16, 48), slice(20, 40))),  # stretched
        ([-0.1, -0.1, 0.2, 0.2], np.ones((9, 9)), (slice(0, 16), slice(0, 20))),  # beyond the image
        ([0.9, 0.9, 0.2, 0.2], np.ones((9, 9)), (slice(144, 160), slice(180, 200))),
        ([0.1034, 0.1, 0.2, 0.2], np.ones((9, 9)), (slice(16, 48), slice(21, 61))),  # 20.68 to 60.68
        ([0.5, 0.5, 0.0, 0.2], np.ones((9, 9)), (slice(0, 0), slice(0, 0))),  # no pixel
        ([1.2, 0.5, 0.1, 0.2], np.ones((9, 9)), (slice(0, 0), slice(0, 0))),  # outside
        ([0.5, 0.5, 0.2, 0.001], np.ones((0, 40)), (slice(0, 0), slice(0, 0))),  # thinner than a pixel
        ([0.5, 0.5, 0.2, 0.01], np.ones((0, 40)), (slice(0, 0), slice(0, 0))),  # without a row, in a box of two
        ([28.5 / 200, 0, 0.2, 0.2], np.ones((32, 40)), (slice(0, 32), slice(28, 68))),  # 28.5, rounded to even, to 68.5
        ([0.05, 20.5 / 160, 0.2, 10 / 160], np.ones((11, 40)), (slice(20, 31), slice(10, 50))),  # 30.5 rounds to 31
    ],
)
def test_a_mask_of_any_size_is_put_into_its_box(box, mask, where):
    one = Detection("x", box, mask, 0.5)
    data = read_fiftyone([Sample((200, 160), a=SimpleNamespace(detections=[one]), b=None)], "a", "b", iou_type="segm")
    wanted = torch.zeros((160, 200), dtype=torch.bool)
    wanted[where] = True
    assert torch.equal(data.preds[0]["masks"][0], wanted)


def test_a_mask_in_a_file_is_read():
    one = Detection("x", [0, 0, 1, 1], None, 0.5)
    one.get_mask = lambda: np.full((2, 2), 255)
    data = read_fiftyone([Sample(a=SimpleNamespace(detections=[one]), b=None)], "a", "b", iou_type="segm")
    assert data.preds[0]["masks"].all()


def test_an_unreadable_file_of_a_mask_is_named():
    one = Detection("x", [0, 0, 1, 1], None, 0.5)

    def missing():
        raise OSError("Image not found 'none.png'")  # the message of FiftyOne 1.22

    one.get_mask = missing
    with pytest.raises(
        ValueError, match=r"detections\[0\].mask_path` must be a file that can be read: Image not found"
    ):
        read_fiftyone([Sample(a=SimpleNamespace(detections=[one]), b=None)], "a", "b", iou_type="segm")


@pytest.mark.parametrize(("kind", "instead"), [("Polylines", "`to_detection"), ("Keypoints", "`keypoints`")])
def test_errors_of_other_labels_than_detections_name_the_alternative(kind, instead):
    label = type(kind, (), {kind.lower(): []})()
    with pytest.raises(ValueError, match=rf"`samples\[0\]\['a'\]` must be fiftyone.Detections .*got {kind}.*{instead}"):
        read_fiftyone([Sample(a=label, b=None)], "a", "b")


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_classes_and_sizes_may_be_arguments(kind):
    one = Detection("dog", np.array([0, 0, 0.5, 1], np.float32), confidence=0.5)
    sample = Sample(None, a=SimpleNamespace(detections=[one]), b=None)
    data = read_fiftyone([sample], "a", "b", class_names=["cat", "dog"], sizes=kind([[100, 50]]))
    assert data.preds[0]["labels"].tolist() == [1]
    assert data.preds[0]["boxes"].tolist() == [[0, 0, 50, 50]]
    assert data.class_names == {0: "cat", 1: "dog"}


@pytest.mark.parametrize(
    ("size", "label", "more", "message"),
    [
        (None, {}, {}, r"`samples\[0\]` must have `metadata` with width and height.*`compute_metadata\(\)`.*`sizes`"),
        (SIZE, {}, {"sizes": []}, r"`sizes` must contain \(width, height\) of each sample"),
        (SIZE, {}, {"sizes": [(0, 5)]}, r"`sizes\[0\]` must be width and height in pixels, above 0 .*got \(0, 5\)"),
        (SIZE, {}, {"gt_field": "truth"}, r"`samples\[0\]\['truth'\]`: the sample has no such field"),
        (SIZE, {}, {"gt_field": "other"}, r"`samples\[0\]\['other'\]` must be fiftyone.Detections or None, got str"),
        (SIZE, {}, {"sizes": [SIZE, SIZE]}, r"`sizes` must contain .* of each sample, of which there are 1, got"),
        (SIZE, {}, {"sizes": SIZE}, r"`sizes\[0\]` must be width and height in pixels"),
        (SIZE, {}, {"sizes": {"image": SIZE}}, r"`sizes` must be .*\(width, height\) .*got {'image': \(512, 256\)}"),
        (SIZE, {}, {"sizes": 5}, r"`sizes` must be a list .* got 5"),
        (SIZE, {}, {"sizes": {SIZE}}, r"`sizes` must be a list .* got {\(512, 256\)}"),
        (SIZE, {}, {"sizes": np.array(5)}, r"`sizes` must be a list .* got array\(5\)"),
        (SIZE, {}, {"class_names": np.array("cat")}, "`class_names` must be a list of different names, got array"),
        (SIZE, {}, {"sizes": [None]}, r"`sizes\[0\]` must be width and height in pixels.* got None"),
        (SIZE, {}, {"sizes": [object()]}, r"`sizes\[0\]` must be width and height in pixels.* got <object"),
        (SIZE, {}, {"sizes": [("a", 5)]}, r"`sizes\[0\]` must be .* got \('a', 5\)"),
        (SIZE, {}, {"sizes": np.array([[0, 5]])}, r"`sizes\[0\]` must be .* got array\(\[0, 5\]\)"),
        ((-5, 4), {}, {}, r"`samples\[0\].metadata` must be width and height in pixels, above 0.* got \(-5, 4\)"),
        ((5, 0), {}, {}, r"`samples\[0\].metadata` must be .* got \(5, 0\)"),
        (("8", "4"), {}, {}, r"`samples\[0\].metadata` must be .* got \('8', '4'\)"),
        (SIZE, {}, {"class_names": 5}, "`class_names` must be a list of different names, got 5"),
        (SIZE, {"confidence": float("nan")}, {}, r"detections\[0\].confidence` must be .* other than NaN, got nan"),
        (SIZE, {"iscrowd": np.ones(2)}, {"gt_field": "a"}, r"detections\[0\].iscrowd` must be 0, 1 or None, got array"),
        (SIZE, {}, {"class_names": "cat"}, "`class_names` must be a list of different names, got 'cat'"),
        (SIZE, {}, {"class_names": {0: "cat"}}, "`class_names` must be a list of different names"),
        (SIZE, {}, {"class_names": ["cat", "cat"]}, "`class_names` must be a list of different names"),
        (SIZE, {"label": 3}, {}, r"detections\[0\].label` must be given, as text, got 3"),
        (
            SIZE,
            {"confidence": 10**400},
            {},
            r"detections\[0\].confidence` must be .* that float64 represents, got 1000",
        ),
        (SIZE, {"confidence": "high"}, {}, r"detections\[0\].confidence` must be given, as a number .*got 'high'"),
        (SIZE, {"iscrowd": "no"}, {"gt_field": "a"}, r"detections\[0\].iscrowd` must be 0, 1 or None, got 'no'"),
        (SIZE, {"label": None}, {}, r"`samples\[0\]\['a'\].detections\[0\].label` must be given"),
        (SIZE, {"confidence": None}, {}, r"detections\[0\].confidence` must be given, as a number .*got None"),
        (
            SIZE,
            {"bounding_box": [0, 0, 50, 60]},
            {},
            r"bounding_box` must contain .*fractions of the image's size, got \[",
        ),
        (
            SIZE,
            {"bounding_box": [0, 0, 1, -0.1]},
            {},
            r"bounding_box` must contain x, y, width and height as fractions",
        ),
        (SIZE, {"bounding_box": None}, {}, "bounding_box` must contain .*got None"),
        (SIZE, {"bounding_box": "0 0 1 1"}, {}, "bounding_box` must contain .*got '0 0 1 1'"),
        (SIZE, {"bounding_box": [0, 0, float("nan"), 1]}, {}, "bounding_box` must contain .*got "),
        (SIZE, {}, {"iou_type": "segm"}, r"detections\[0\].mask` must be given, .*got None"),
        (SIZE, {"mask": [[1], [1, 0]]}, {"iou_type": "segm"}, r"mask` must have rows of one length, got \[\[1\], "),
        (SIZE, {"mask": [1, 0]}, {"iou_type": "segm"}, r"mask` must have two dimensions, got shape \(2,\)"),
        (
            SIZE,
            {"mask": [[None]]},
            {"iou_type": "segm"},
            r"detections\[0\].mask` must be given, as an array of numbers",
        ),
        (
            SIZE,
            {},
            {"class_names": ["cats", "dog"]},
            "`class_names` must contain all labels; did you mean 'cats'.*got 'cat'",
        ),
        (SIZE, {}, {"iou_type": "rotated"}, "`iou_type` must be one of 'bbox', 'segm', 'boundary'"),
    ],
)
def test_missing_attributes_of_fiftyones_samples_are_named(size, label, more, message):
    one = Detection(**{"label": "cat", "bounding_box": [0.1, 0.1, 0.5, 0.5], "confidence": 0.5, **label})
    sample = Sample(size, a=SimpleNamespace(detections=[one]), b=None, other="text")
    with pytest.raises(ValueError, match=message):
        read_fiftyone([sample], "a", **{"gt_field": "b", **more})


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ("text", "`samples` must be .* a list of samples, got str"),
        ({"image": Sample()}, "`samples` must be .* a list of samples, got dict"),
        (None, "`samples` must be .* a list of samples, got NoneType"),
        (["text"], r"`samples\[0\]` must be a sample.*got str"),
        ([Sample(a=None, b=None), 5], r"`samples\[1\]` must be a sample.*got int"),
    ],
)
def test_other_objects_than_samples_are_refused(samples, message):
    with pytest.raises(ValueError, match=message):
        read_fiftyone(samples, "a", "b")


def test_objects_and_dicts_with_the_documented_attributes_alone_are_read():
    """Read the attributes that docs/switching.md lists; a crowd and metadata are optional."""
    one = {"label": "cat", "bounding_box": [0.25, 0, 0.5, 1], "confidence": 0.5, "mask": np.ones((2, 2))}
    size = {"width": 8, "height": 4}
    found = read_fiftyone([{"a": SimpleNamespace(detections=[one]), "b": None, "metadata": size}], "a", "b")
    for kind in (dict, SimpleNamespace):
        listed = SimpleNamespace(detections=[kind(**one), kind(**one, iscrowd=np.bool_(True))])
        data = read_fiftyone([{"a": listed, "metadata": kind(**size)}], "a", "a", iou_type="segm")
        assert data.preds[0]["boxes"].tolist() == found.preds[0]["boxes"].tolist() * 2 == [[2, 0, 6, 4]] * 2
        assert data.preds[0]["masks"].sum((1, 2)).tolist() == [16, 16]
        assert data.target[0]["iscrowd"].tolist() == [0, 1]
