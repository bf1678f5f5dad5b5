"""Low values of detection metrics whose images have a likely fault, which a warning names."""

import functools
import math
import warnings

import pytest
import torch
from torchmetrics import MetricCollection

from tests.each import each
from torch_ap import detection, functional

CLASSES = [
    detection.MeanAveragePrecision,
    detection.LVISMeanAveragePrecision,
    detection.VOCMeanAveragePrecision,
    detection.OpenImagesMeanAveragePrecision,
]
IDS = torch.empty(0, dtype=torch.int64)
IMAGES, OBJECTS, SIDE = 24, 4, 640.0
HALF = OBJECTS // 2


def corners(centre, size):
    return torch.cat([centre - size / 2, centre + size / 2], -1)


@functools.cache
def scene(jitter=0.05):
    """Packed images of objects of five classes, and of detections near them."""
    draw = torch.Generator().manual_seed(3)
    shape = IMAGES * OBJECTS, 2
    size = torch.rand(shape, generator=draw) * torch.tensor([100.0, 40]) + 20
    centre = size / 2 + torch.rand(shape, generator=draw) * (SIDE - size)
    labels = torch.randint(1, 6, shape[:1], generator=draw)
    near = centre + size * jitter * torch.randn(shape, generator=draw)
    scores = torch.rand(shape[:1], generator=draw)
    return near, size, centre, labels, scores


def images(boxes, labels, scores=None):
    """A dict per image."""
    columns = {"boxes": boxes, "labels": labels} | ({} if scores is None else {"scores": scores})
    lists = {"neg_category_ids": IDS, "not_exhaustive_category_ids": torch.arange(8)} if scores is None else {}
    parts = {key: torch.as_tensor(x).split(OBJECTS) for key, x in columns.items()}
    return [{key: x[place] for key, x in parts.items()} | lists for place in range(len(labels) // OBJECTS)]


def told(work):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    return [str(one.message) for one in found if "lists categories" not in str(one.message)]


def of_metric(make, preds, target, step=5, **settings):
    def work():
        metric = make(**settings)
        for first in range(0, len(preds), step):
            metric.update(preds[first : first + step], target[first : first + step])
        metric.compute()

    return told(work)


def as_xywh(boxes):
    return torch.cat([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1)


def as_cxcywh(boxes):
    return torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1)


FAULTS = {  # of what corners detections have, their labels, and their place among the images; what is said
    "fractions": (lambda x: x / SIDE, 0, 0, "multiplied by 6"),
    "thousandths": (lambda x: x / SIDE * 1000, 0, 0, "multiplied by 0.64"),
    "y x": (lambda x: x[:, [1, 0, 3, 2]], 0, 0, "read as y1 x1 y2 x2 instead of x1 y1 x2 y2"),
    "of the next image": (lambda x: x, 0, 1, "hardly any of their own: are both in the same order?"),
    "labels one too high": (lambda x: x, 1, 0, "another number? Most are 1 above theirs"),
    "labels one too low": (lambda x: x, -1, 0, "another number? Most are 1 below theirs"),
}


def faulty(fault):
    change, step, places, _ = FAULTS[fault]
    near, size, centre, labels, scores = scene()
    preds = images(change(corners(near, size)), labels + step, scores)
    return [*preds[places:], *preds[:places]], images(corners(centre, size), labels)


@pytest.mark.parametrize("fault", FAULTS)
@each("make", CLASSES)
def test_what_is_likely_wrong_is_told_once(make, fault):
    (said,) = of_metric(make, *faulty(fault))
    assert FAULTS[fault][3] in said
    assert told(lambda: make()(*faulty(fault))) == []
    assert of_metric(make, *faulty(fault), validate_args=False) == []
    assert of_metric(make, *(side[:9] for side in faulty(fault))) == []
    assert len(of_metric(make, *(side[:10] for side in faulty(fault)))) == 1


def test_values_of_a_tenth_are_not_low():
    wrong, target = faulty("fractions")
    near, size, _, labels, scores = scene()
    right = images(corners(near, size), labels, scores)
    low, high = ([*right[:count], *wrong[count:]] for count in (5, 6))
    settings = {"iou_thresholds": [0.5]}
    assert len(of_metric(detection.MeanAveragePrecision, low, target, **settings)) == 1
    assert of_metric(detection.MeanAveragePrecision, high, target, **settings) == []


def test_images_that_take_turns_are_not_said_to_be_counted_from_another_number():
    preds, target = faulty("of the next image")
    preds, turns = [preds[0], preds[-1]], [place % 2 for place in range(IMAGES)]  # those of images 1 and 0
    assert of_metric(detection.MeanAveragePrecision, [preds[x] for x in turns], [target[x] for x in turns]) == []


@pytest.mark.parametrize(("given", "read"), [("cxcywh", "xywh"), ("xywh", "cxcywh"), ("xyxy", "xywh")])
def test_boxes_of_another_format_are_told(given, read):
    forms = {"xyxy": lambda x: x, "xywh": as_xywh, "cxcywh": as_cxcywh}
    near, size, centre, labels, scores = scene()
    small = size / 2  # so that sizes read as another format are seldom seen
    preds = images(forms[given](corners(near, small)), labels, scores)
    target = images(forms[read](corners(centre, small)), labels)
    (said,) = of_metric(detection.MeanAveragePrecision, preds, target, box_format=read)
    assert f"as `box_format='{read}'` has it, in the units of `target`" in said


@each(
    "function",
    [
        functional.coco_mean_average_precision,
        functional.lvis_mean_average_precision,
        functional.voc_mean_average_precision,
        functional.kitti_mean_average_precision,
        functional.open_images_mean_average_precision,
    ],
)
def test_functions_tell_too(function):
    assert "multiplied by 6" in told(lambda: function(*faulty("fractions")))[0]


@each("make", CLASSES)
@each("jitter", [0.01, 0.05, 0.3, 2.0])
def test_nothing_is_said_of_detectors_good_and_poor(make, jitter):
    near, size, centre, labels, scores = scene(jitter)
    target = images(corners(centre, size), labels)
    assert of_metric(make, images(corners(near, size), labels, scores), target) == []
    for seed in range(3):  # of classes it knows nothing yet
        wrong = torch.randint(1, 6, labels.shape, generator=torch.Generator().manual_seed(seed))
        assert of_metric(make, images(corners(near, size), wrong, scores), target) == []
    assert of_metric(make, images(corners(near, size), torch.full_like(labels, 2), scores), target) == []


@pytest.mark.parametrize("outputs", ["uniform", "normal", "points", "zeros", "one box", "raw", "small", "anchors"])
def test_nothing_is_said_of_untrained_detectors(outputs):
    for seed in range(8):
        draw = torch.Generator().manual_seed(seed)
        _, size, centre, labels, scores = scene()
        x = torch.rand(len(labels), 4, generator=draw)
        made = {
            "uniform": torch.cat([x, x[:, :2] + x[:, 2:]], 1)[:, [0, 1, 4, 5]] * SIDE / 2,
            "normal": corners(torch.randn(len(labels), 2, generator=draw) * 50 + SIDE / 2, x[:, :2] * 100),
            "points": x[:, [0, 1, 0, 1]] * SIDE,
            "zeros": torch.zeros_like(x),
            "one box": torch.tensor([100.0, 100, 300, 300]).expand(len(labels), 4),
            "raw": corners(torch.randn(len(labels), 2, generator=draw) * 3, 5 * x[:, :2]),
            "small": corners(torch.randn(len(labels), 2, generator=draw) / 10, (x[:, :2] - 0.5).exp() / 10),
            "anchors": corners((x[:, :2] * 10).round() * SIDE / 10, torch.full((1, 2), 64.0).expand(len(labels), 2)),
        }[outputs]
        guessed = torch.randint(1, 6, labels.shape, generator=draw)
        target = images(corners(centre, size), labels)
        assert of_metric(detection.MeanAveragePrecision, images(made, guessed, scores), target) == []
        normed = images(corners(centre, size) / SIDE, labels)
        assert of_metric(detection.MeanAveragePrecision, images(made / 100, guessed, scores), normed) == []


@pytest.mark.parametrize("unit", [1.0, SIDE])
def test_nothing_is_said_of_detectors_that_find_the_whole_image(unit):
    for seed in range(8):
        draw = torch.Generator().manual_seed(seed)
        counts = torch.randint(1, 9, (60,), generator=draw).tolist()
        size = (torch.rand(sum(counts), 2, generator=draw) * 0.35 + 0.05) * SIDE
        start = torch.rand(len(size), 2, generator=draw) * (SIDE - size)
        boxes = (torch.cat([start, start + size], 1) / unit).split(counts)
        target = [{"boxes": x, "labels": torch.ones(len(x), dtype=torch.int64)} for x in boxes]
        whole = {
            "boxes": torch.tensor([[0, 0, SIDE, SIDE]]) / unit,
            "labels": torch.tensor([1]),
            "scores": torch.ones(1),
        }
        assert of_metric(detection.MeanAveragePrecision, [whole] * len(counts), target) == []


def test_nothing_is_said_of_whole_images_of_many_sizes():
    for seed in range(8):
        draw = torch.Generator().manual_seed(seed)
        sides = torch.randint(200, 2000, (40, 2), generator=draw).double()
        preds, target = [], []
        for side in sides:
            size = (torch.rand(6, 2, generator=draw) * 0.35 + 0.05) * side
            start = torch.rand(6, 2, generator=draw) * (side - size)
            target.append({"boxes": torch.cat([start, start + size], 1), "labels": torch.ones(6, dtype=torch.int64)})
            whole = torch.cat([torch.zeros(2), side])[None]
            preds.append({"boxes": whole, "labels": torch.tensor([1]), "scores": torch.ones(1)})
        assert of_metric(detection.MeanAveragePrecision, preds, target) == []


def rotated(angle, found=1.0, true=1.0, jitter=0.03):
    """Long boxes with angles in degrees times a factor."""
    near, size, centre, labels, scores = scene(jitter)
    size = size * torch.tensor([1.0, 0.3])
    preds = torch.cat([near, size, angle[:, None] * found], 1)
    return images(preds, labels, scores), images(torch.cat([centre, size, angle[:, None] * true], 1), labels)


RADIANS = math.pi / 180
ANGLES = torch.rand(IMAGES * OBJECTS, generator=torch.Generator().manual_seed(5)) * 180 - 90


@each("make", [detection.MeanAveragePrecision, detection.VOCMeanAveragePrecision])
@pytest.mark.filterwarnings("ignore:`box_format` has angles in degrees")
def test_radians_on_one_side_are_told(make):
    how = {"box_format": "cxcywhr", "iou_type": "rotated"}
    for preds, target, name in ((RADIANS, 1.0, "preds"), (1.0, RADIANS, "target")):
        said = [x for x in of_metric(make, *rotated(ANGLES, preds, target), **how) if "best detections" in x]
        assert len(said) == 1
        assert f"with the angles in `{name}` taken as radians" in said[0]
    assert of_metric(make, *rotated(ANGLES), **how) == []
    assert of_metric(make, *rotated(ANGLES, jitter=3.0), **how) == []
    shuffled = rotated(ANGLES)[0], rotated(ANGLES.flip(0))[1]
    assert of_metric(make, *shuffled, **how) == []
    assert of_metric(make, rotated(ANGLES.flip(0), RADIANS, jitter=3.0)[0], rotated(ANGLES)[1], **how) == []


@each("step", [1, 2])
@each("boxes", [1, 4])
def test_radians_of_few_boxes_an_update_are_told_by_compute(step, boxes):
    preds, target = rotated(ANGLES, RADIANS, RADIANS)
    preds, target = ([{key: x[:boxes] for key, x in image.items()} for image in side] for side in (preds, target))
    how = {"box_format": "cxcywhr", "iou_type": "rotated"}
    (said,) = of_metric(detection.VOCMeanAveragePrecision, preds, target, step, **how)
    assert "as radians do" in said
    assert of_metric(detection.VOCMeanAveragePrecision, *rotated(ANGLES), step, **how) == []


def test_a_low_value_of_one_class_has_no_labels():
    near, size, centre, labels, scores = scene()
    preds, target = images(corners(near, size) / SIDE, labels + 7, scores), images(corners(centre, size), labels)
    (said,) = of_metric(detection.MeanAveragePrecision, preds, target, average="micro")
    assert "multiplied by 6" in said
    (said,) = of_metric(detection.MeanAveragePrecision, preds, target)
    assert "no label in `preds`" in said


def test_a_collection_tells_once():
    """By Python's usual filter, which shows a warning of one line once: all metrics say it in the same words."""
    metrics = MetricCollection([make() for make in CLASSES])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        metrics.update(*faulty("fractions"))
        metrics.compute()
    assert len([one for one in found if "best detections" in str(one.message)]) == 1


@pytest.mark.gpu
@each("fault", ["fractions", "labels one too high"])
def test_on_an_accelerator_too(fault):
    preds, target = ([{key: x.to("cuda") for key, x in one.items()} for one in side] for side in faulty(fault))
    metric = detection.MeanAveragePrecision().to("cuda")
    metric.update(preds, target)
    (said,) = told(metric.compute)
    assert FAULTS[fault][3] in said
