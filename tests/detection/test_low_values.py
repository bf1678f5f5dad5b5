"""Warnings of low detection metrics: every usual mistake is named, and weak detectors cause no warning."""

import functools
import math
import sys
import warnings

import numpy as np
import pytest
import torch

from tests.support.each import each
from torch_ap import detection
from torch_ap.detection.errors import low_values

CLASSES = [
    detection.MeanAveragePrecision,
    detection.LVISMeanAveragePrecision,
    detection.VOCMeanAveragePrecision,
    detection.OpenImagesMeanAveragePrecision,
]
SIDE = 640.0
IMAGES = 40
COCO_IDS = np.array([x for x in range(1, 91) if x not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)])
NO_IDS = torch.empty(0, dtype=torch.int64)


def objects(low, high, number):
    """Return a function that draws places and sizes of objects of random sizes between two limits."""

    def draw_objects(draw):
        size = draw.uniform(low, high, (number, 2))
        return draw.uniform(0, SIDE - size), size

    return draw_objects


def text_lines(draw):
    """Return text lines with one left margin, one height and random right ends."""
    number = draw.integers(8, 16)
    top = 20 + draw.uniform(34, 40) * np.arange(number) + draw.uniform(-2, 2, number)
    size = np.stack([draw.uniform(0.3 * SIDE, 0.85 * SIDE, number), draw.uniform(18, 26, number)], 1)
    return np.stack([draw.uniform(20, 40) + draw.uniform(-2, 2, number), top], 1), size


DATA = {
    "spread": objects([20, 20], [140, 110], 6),
    "crowded": objects(30, 80, 60),
    "large": objects(0.35 * SIDE, 0.65 * SIDE, 3),
    "tiny": objects(6, 14, 15),
    "text lines": text_lines,
}
# objects that nearly fill the image, so that most mistakes hardly lower the value
ALL_DATA = DATA | {"filling": objects(0.5 * SIDE, 0.95 * SIDE, 2)}


@functools.cache
def scene(data, seed=0, classes=5, images=IMAGES):
    """Return the corners and labels of the objects of each image."""
    draw = np.random.default_rng(seed)
    every = [ALL_DATA[data](draw) for _ in range(images)]
    return [(np.concatenate([x, x + size], 1), draw.integers(0, classes, len(x))) for x, size in every]


def jittered(boxes, draw, amount):
    return boxes + amount * np.tile(boxes[:, 2:] - boxes[:, :2], 2) * draw.standard_normal(boxes.shape)


def good_detections(objects, seed=1, extra=4):
    """Return boxes near most objects, and false positives with lower scores."""
    draw = np.random.default_rng(seed)
    out = []
    for boxes, labels in objects:
        hit = draw.random(len(boxes)) < 0.95
        start = draw.uniform(0, 0.6 * SIDE, (extra, 2))
        false = np.concatenate([start, start + draw.uniform(10, 0.4 * SIDE, (extra, 2))], 1)
        near = np.concatenate([jittered(boxes[hit], draw, 0.03), false])
        scores = np.concatenate([draw.uniform(0.5, 1, hit.sum()), draw.uniform(0, 0.5, extra)])
        out.append((near, np.concatenate([labels[hit], draw.integers(0, labels.max() + 1, extra)]), scores))
    return out


def packed(images):
    """Return packed images of (boxes, labels) or (boxes, labels, scores)."""
    columns = (torch.from_numpy(np.concatenate(x)) for x in zip(*images, strict=True))
    return dict(zip(("boxes", "labels", "scores"), columns, strict=False)) | {
        "counts": torch.tensor([len(image[0]) for image in images])
    }


def as_xywh(boxes):
    return np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1)


def as_cxcywh(boxes):
    return np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1)


def with_boxes(change):
    return lambda images: [(change(boxes), *others) for boxes, *others in images]


def with_labels(change):
    return lambda images: [(boxes, change(labels), scores) for boxes, labels, scores in images]


# -- usual mistakes: a change of good detections, the number of classes, and the message that names the mistake

MISTAKES = {
    "xywh": (with_boxes(as_xywh), 5, "of the detections seem to be `xywh`, but are read as `xyxy`"),
    "cxcywh": (with_boxes(as_cxcywh), 5, "of the detections seem to be `cxcywh`, but are read as `xyxy`"),
    "fractions": (with_boxes(lambda x: x / SIDE), 5, "of the detections seem to be fractions of the image"),
    "x and y exchanged": (with_boxes(lambda x: x[:, [1, 0, 3, 2]]), 5, "seem to have x and y exchanged"),
    "labels one too high": (with_labels(lambda x: x + 1), 5, "seem to be 1 above the intended labels"),
    "80 classes": (with_labels(lambda x: x), 80, "seem to count COCO's 80 classes from 0"),
    "permuted classes": (with_labels(lambda x: (2 * x + 1) % 5), 5, "seem to be permuted: "),
    "another size": (with_boxes(lambda x: x * 0.625), 5, "seem to need multiplication by 1."),
    "next image": (lambda x: [*x[1:], x[0]], 5, "seem to belong to the next image"),
    "no detections": (
        lambda x: [tuple(y[:0] for y in image) for image in x],
        5,
        "no detection in any of the 40 images",
    ),
    "zeros": (with_boxes(np.zeros_like), 5, "all boxes of the best-scored detections are zero"),
}


def with_mistake(mistake, data, seed=0):
    change, classes, _ = MISTAKES[mistake]
    objects = scene(data, seed, classes)
    target = [(boxes, COCO_IDS[labels]) for boxes, labels in objects] if classes == 80 else objects
    return packed(change(good_detections(objects, seed + 1))), packed(target)


@each("mistake", list(MISTAKES))
@each("data", list(DATA))
def test_every_usual_mistake_is_named(mistake, data):
    for seed in range(3):
        cause = low_values.likely_cause(*with_mistake(mistake, data, seed), "xyxy")
        assert cause is not None, seed
        assert MISTAKES[mistake][2] in cause


@each("given", ["xyxy", "xywh", "cxcywh"])
@each("read", ["xyxy", "xywh", "cxcywh"])
@each("side", [0, 1])
def test_every_format_of_either_side_is_named(given, read, side):
    forms = {"xyxy": lambda x: x, "xywh": as_xywh, "cxcywh": as_cxcywh}
    objects = scene("spread")
    sides = [good_detections(objects), objects]
    sides = [packed(with_boxes(forms[given if x == side else read])(y)) for x, y in enumerate(sides)]
    cause = low_values.likely_cause(*sides, read)
    if given == read:
        assert cause is None
    else:
        whose = ("detections", "ground truths")[side]
        assert f"the boxes of the {whose} seem to be `{given}`, but are read as `{read}`" in cause


@each("side", [0, 1])
def test_fractions_of_images_of_many_sizes_are_named(side):
    sizes = np.random.default_rng(2).uniform(200, 2000, (IMAGES, 2))

    def scaled(images, to_pixels):
        factors = np.tile(sizes, 2) if to_pixels else np.ones((IMAGES, 4))
        return packed([(x[0] / SIDE * y, *x[1:]) for x, y in zip(images, factors, strict=True)])

    objects = scene("spread")
    cause = low_values.likely_cause(scaled(good_detections(objects), side == 1), scaled(objects, side == 0), "xyxy")
    whose = ("detections", "ground truths")[side]
    assert f"the boxes of the {whose} seem to be fractions of the image's width and height" in cause


@each("first", [0, 1])
@each("side", [0, 1])
def test_coco_labels_are_named_in_either_direction(first, side):
    objects = scene("spread", classes=80, images=100)
    found = good_detections(objects)
    counted, ids = (lambda x: x + first), (lambda x: COCO_IDS[x])
    preds = with_labels((counted, ids)[side])(found)
    target = [(boxes, (ids, counted)[side](labels)) for boxes, labels in objects]
    cause = low_values.likely_cause(packed(preds), packed(target), "xyxy")
    assert (
        f"the labels of the {('detections', 'ground truths')[side]} seem to count COCO's 80 classes from {first}"
        in cause
    )


# -- weak detectors without a mistake


def object_part(left, top, right, bottom):
    """Return a detector of the part of each object between these shares of its sides."""

    def detections(objects, draw):
        shares = np.array([left, top, right, bottom])
        return [
            (
                jittered(np.tile(x[:, :2], 2) + shares * np.tile(x[:, 2:] - x[:, :2], 2), draw, 0.02),
                y,
                draw.random(len(x)),
            )
            for x, y in objects
        ]

    return detections


def fixed_camera(objects, draw):
    """Return the same wrong boxes and classes for every image."""
    boxes, labels = objects[0]
    start = draw.uniform(0, SIDE / 2, (5, 2))
    wrong = np.concatenate([start, start + draw.uniform(20, SIDE / 2, (5, 2))], 1)
    wrong[0] = boxes[0] / 2
    return [(jittered(wrong, draw, 0.01), np.resize(labels, 5), draw.random(5)) for _ in objects]


def whole_image(objects, draw):
    return [(np.array([[0, 0, SIDE, SIDE]]), y[:1], draw.random(1)) for _, y in objects]


def random_boxes(objects, draw, per_image=30):
    out = []
    for _, labels in objects:
        start = draw.uniform(0, 0.9 * SIDE, (per_image, 2))
        end = np.minimum(start + draw.uniform(5, SIDE / 2, start.shape), SIDE)
        out.append((np.concatenate([start, end], 1), draw.choice(labels, per_image), draw.random(per_image)))
    return out


def untrained(objects, draw):
    """Return a network's first outputs: fractions around the center, with nearly equal scores."""
    out = []
    for _ in objects:
        center, size = 0.5 + 0.05 * draw.standard_normal((100, 2)), np.exp(0.1 * draw.standard_normal((100, 2))) / 4
        boxes = np.concatenate([center - size / 2, center + size / 2], 1)
        out.append((boxes, draw.integers(0, 5, 100), 0.5 + 0.001 * draw.standard_normal(100)))
    return out


def strongly_jittered(objects, draw):
    return [(jittered(x, draw, 0.3), y, draw.random(len(x))) for x, y in objects]


def one_class(objects, draw):
    return [(jittered(x, draw, 0.03), np.full_like(y, 2), draw.random(len(x))) for x, y in objects]


def few_detections(objects, draw):
    """Return a wrong box in every tenth image."""
    every = random_boxes(objects, draw, 1)
    return [tuple(y[: int(place % 10 == 0)] for y in image) for place, image in enumerate(every)]


WEAK = {
    "left part": object_part(0, 0, 0.4, 1),
    "half size": object_part(0.25, 0.25, 0.75, 0.75),
    "upper left quarter": object_part(0, 0, 0.5, 0.5),
    "fixed camera": fixed_camera,
    "whole image": whole_image,
    "random": random_boxes,
    "untrained": untrained,
    "jittered": strongly_jittered,
    "one class": one_class,
    "few": few_detections,
}


def weak_scene(kind, data, seed):
    draw = np.random.default_rng(100 + seed)
    objects = scene(data, seed)
    if kind == "fixed camera":
        objects = [(jittered(objects[0][0], draw, 0.005), objects[0][1]) for _ in objects]
    return packed(WEAK[kind](objects, draw)), packed(objects)


@each("kind", list(WEAK))
@each("data", list(ALL_DATA))
def test_weak_detectors_give_no_warning(kind, data):
    for seed in range(4):
        preds, target = weak_scene(kind, data, seed)
        assert low_values.likely_cause(preds, target, "xyxy") is None, seed


@each("box_format", ["xywh", "cxcywh"])
@each("kind", list(WEAK))
@each("data", list(ALL_DATA))
def test_weak_detectors_give_no_warning_in_other_formats(box_format, kind, data):
    preds, target = weak_scene(kind, data, 7)
    change = as_xywh if box_format == "xywh" else as_cxcywh
    for side in (preds, target):
        side["boxes"] = torch.from_numpy(change(side["boxes"].numpy()))
    assert low_values.likely_cause(preds, target, box_format) is None


# -- conditions for the search, and its data


def lists(side):
    """Return packed images as one dict per image, with LVIS's lists in the ground truths."""
    counts = side["counts"].tolist()
    parts = {key: x.split(counts) for key, x in side.items() if key != "counts"}
    ids = {} if "scores" in side else {"neg_category_ids": NO_IDS, "not_exhaustive_category_ids": torch.arange(95)}
    return [{key: x[place] for key, x in parts.items()} | ids for place in range(len(counts))]


def warnings_of(work):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    messages = [str(warning.message) for warning in caught]
    return [x for x in messages if "lists categories" not in x and "boxes in `preds`" not in x]


def computed(metric, preds, target):
    """Return the warnings of one epoch."""

    def work():
        metric.reset()
        metric.update(lists(preds), lists(target))
        metric.compute()

    return warnings_of(work)


FRACTIONS = with_mistake("fractions", "spread")
WEAK_SCENE = weak_scene("random", "spread", 0)
GOOD_SCENE = with_mistake("80 classes", "spread")[0], packed(scene("spread", 0, 80))


@each("make", CLASSES)
@each("mistake", ["fractions", "labels one too high", "next image", "no detections"])
def test_metrics_warn_until_the_mistake_is_corrected(make, mistake):
    metric, faulty = make(), with_mistake(mistake, "spread")
    for _ in range(2):
        (message,) = computed(metric, *faulty)
        assert message.startswith("the value is low: ")
        assert MISTAKES[mistake][2] in message
    assert computed(metric, *GOOD_SCENE) == []


def test_a_search_without_result_is_the_last_of_a_metric(monkeypatch):
    metric, searches = detection.MeanAveragePrecision(), []
    search = low_values.likely_cause
    monkeypatch.setattr(low_values, "likely_cause", lambda *x, **y: searches.append(1) or search(*x, **y))
    assert computed(metric, *GOOD_SCENE) == []
    assert searches == []
    for _ in range(3):
        assert computed(metric, *WEAK_SCENE) == []
    assert computed(metric, *FRACTIONS) == []
    assert len(searches) == 1
    assert len(computed(detection.MeanAveragePrecision(), *FRACTIONS)) == 1


def test_the_switch_turns_no_other_check_off():
    metric = detection.MeanAveragePrecision(diagnose=False)
    assert computed(metric, *FRACTIONS) == []
    preds, target = GOOD_SCENE
    (message,) = computed(metric, {**preds, "labels": preds["labels"] + 100}, target)
    assert message.startswith("no label in `preds`")
    with pytest.raises(ValueError, match="NaN"):
        metric.update(lists({**preds, "scores": preds["scores"] * math.nan}), lists(target))
    with pytest.raises(ValueError, match=r"`diagnose` .* got 1"):
        detection.MeanAveragePrecision(diagnose=1)
    assert "diagnose=False" in repr(metric)


@each("make", CLASSES)
def test_metrics_search_in_whole_data_sets_only(make):
    preds, target = map(lists, FRACTIONS)
    assert warnings_of(lambda: make()(preds, target)) == []
    assert computed(make(validate_args=False), *FRACTIONS) == []
    for images, number in ((9, 0), (10, 1)):
        metric = make()
        warnings_of(lambda metric=metric, images=images: metric.update(preds[:images], target[:images]))
        assert len(warnings_of(metric.compute)) == number


def test_other_processes_do_not_search(monkeypatch):
    monkeypatch.setattr("torch_ap.detection.metrics.images.is_first_process", lambda: False)
    assert computed(detection.MeanAveragePrecision(), *FRACTIONS) == []


def test_sanity_checks_do_not_search(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_lightning", sys)
    metric = detection.MeanAveragePrecision()

    def _run_sanity_check():
        return computed(metric, *FRACTIONS)

    assert _run_sanity_check() == []
    assert len(computed(metric, *FRACTIONS)) == 1


@pytest.mark.slow
def test_lightning_has_the_attribute_of_sanity_checks():
    trainer = pytest.importorskip("lightning.pytorch").Trainer
    assert callable(trainer._run_sanity_check)


def test_without_boxes_only_the_number_of_detections_is_read():
    assert computed(detection.MeanAveragePrecision(match="update"), *FRACTIONS) == []
    for preds, target in (with_mistake("no detections", "spread"), FRACTIONS):
        sides = [{("centers" if x == "boxes" else x): y for x, y in side.items()} for side in (preds, target)]
        sides = [{**side, "centers": side["centers"][:, :2]} for side in sides]
        messages = computed(detection.NuScenesMeanAveragePrecision(), *sides)
        assert [x for x in messages if "no detection in any of the 40 images" not in x] == []
        assert len(messages) == (preds is not FRACTIONS[0])


def test_labels_do_not_matter_where_all_objects_are_one_class():
    metric = detection.MeanAveragePrecision(average="micro")
    assert computed(metric, *with_mistake("permuted classes", "spread")) == []
    assert len(computed(metric, *FRACTIONS)) == 1


@pytest.mark.parametrize("most", [100, 3000])
def test_the_sample_is_bounded(most, monkeypatch):
    """The sample stays bounded for any number of images and boxes and for unequal images."""
    draw = np.random.default_rng(0)
    pairs, iou = [], low_values._overlap
    monkeypatch.setattr(low_values, "_overlap", lambda x, y: pairs.append(max(x.shape[-1], y.shape[-1])) or iou(x, y))
    start, counts = draw.uniform(0, 500, (60 * most, 2)), draw.multinomial(60 * most, np.full(60, 1 / 60))
    counts = torch.from_numpy(np.concatenate([counts, np.zeros(200, np.int64)]))
    boxes = torch.from_numpy(np.concatenate([start, start + 30], 1))
    side = {"boxes": boxes, "labels": torch.zeros(len(boxes), dtype=torch.int64), "counts": counts}
    preds = {**side, "boxes": boxes / 600, "scores": torch.rand(len(boxes), generator=torch.Generator().manual_seed(0))}
    low_values.likely_cause(preds, side, "xyxy")
    assert all(number <= 2000 for number in pairs)


def rotated(factors, jitter=0.02, seed=0):
    """Return long boxes, with the angles in degrees multiplied by a factor on either side."""
    draw = np.random.default_rng(seed)
    sides = [], []
    for boxes, labels in scene("spread", seed):
        angle = draw.uniform(-90, 90, (len(boxes), 1))
        size = (boxes[:, 2:] - boxes[:, :2]) * [1, 0.3]
        true = np.concatenate([as_cxcywh(boxes)[:, :2], size], 1)
        near = np.concatenate([true[:, :2] + jitter * size * draw.standard_normal(size.shape), size], 1)
        sides[0].append((np.concatenate([near, angle * factors[0]], 1), labels, draw.random(len(boxes))))
        sides[1].append((np.concatenate([true, angle * factors[1]], 1), labels))
    return [packed(x) for x in sides]


@each("make", [detection.MeanAveragePrecision, detection.VOCMeanAveragePrecision])
@pytest.mark.filterwarnings("ignore:`box_format` has angles in degrees")
def test_radians_on_one_side_are_named(make):
    how = {"box_format": "cxcywhr", "iou_type": "rotated"}
    radians = math.pi / 180
    for factors, whose in (((radians, 1), "detections"), ((1, radians), "ground truths")):
        messages = [x for x in computed(make(**how), *rotated(factors)) if "the value is low" in x]
        assert len(messages) == 1
        assert f"the angles of the {whose} seem to be radians, but are read as degrees" in messages[0]
    for factors, jitter in (((1, 1), 0.02), ((1, 1), 3.0), ((radians, 1), 3.0), ((0, 1), 0.02)):
        assert computed(make(**how), *rotated(factors, jitter)) == []


@pytest.mark.gpu
@each("mistake", ["fractions", "labels one too high"])
def test_on_an_accelerator_too(mistake):
    metric = detection.MeanAveragePrecision().to("cuda")
    preds, target = ({key: x.to("cuda") for key, x in side.items()} for side in with_mistake(mistake, "spread"))
    metric.update(preds, target)
    (message,) = warnings_of(metric.compute)
    assert MISTAKES[mistake][2] in message
