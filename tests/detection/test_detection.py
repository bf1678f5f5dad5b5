"""The detection functions against pycocotools, VOC's rules one detection at a time, and cases computed by hand."""

import re

import numpy as np
import pytest
import torch

from tests.support import emulated
from tests.support.each import each
from tests.support.oracles_detection import joined, packed, pycocotools_eval, random_scene, to_voc, voc_ap
from tests.support.tolerances import FEW_TERMS, LAST_BITS, SINGLE
from torch_ap.core.base.tensors import INTEGERS, UNSIGNED
from torch_ap.detection import MeanAveragePrecision, OpenImagesMeanAveragePrecision, VOCMeanAveragePrecision
from torch_ap.functional import coco_mean_average_precision, voc_mean_average_precision

ARRAYS = ("precision", "recall", "scores")


GROUPS = 4  # scenes that share their classes: pycocotools evaluates each class in each image


def difference(seeds, **settings):
    """Return the largest difference between our arrays and pycocotools' on random scenes as one data set."""
    preds, target = joined(random_scene, seeds, groups=GROUPS)
    theirs = {"iou_thresholds": "thresholds", "rec_thresholds": "levels", "max_detection_thresholds": "limits"}
    expected = pycocotools_eval(
        preds,
        target,
        **{theirs[name]: value for name, value in settings.items() if name in theirs},
        **({"areas": [(0, 1e10), *settings["area_ranges"].values()]} if "area_ranges" in settings else {}),
    ).eval
    ours = coco_mean_average_precision(preds, target, "xywh", extended_summary=True, **settings)
    if not expected["precision"].size:
        return 0.0
    return max(float(np.abs(ours[name].numpy() - expected[name]).max()) for name in ARRAYS)


@pytest.mark.slow
def test_arrays_equal_pycocotools_on_random_scenes():
    """Some scenes are evaluated alone, for the cases of small data sets, and two thousand together, bit by bit."""
    assert max(difference([seed]) for seed in range(20)) == 0
    assert max(difference(range(first, first + 100)) for first in range(100, 2100, 100)) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"iou_thresholds": [0.0, 0.3, 0.5]},
        {"iou_thresholds": [0.9, 0.1, 0.5, 1.0], "max_detection_thresholds": [2, 1]},
        {"iou_thresholds": np.linspace(0.05, 1, 25).tolist()},  # 100 cells: more than the bits of a word
        {"max_detection_thresholds": [5, 1, 2, 9]},
        {"max_detection_thresholds": [3], "rec_thresholds": [0.1, 0.25, 0.7]},
        {"rec_thresholds": [0.5], "area_ranges": {"a": (0, 1024), "b": (100, 4096)}},
        {"area_ranges": {"none": (5000, 6000)}},
        {"area_ranges": {f"from_{i}": (i * 64, (i + 2) * 64) for i in range(70)}, "iou_thresholds": [0.5, 0.25]},
    ],
)
def test_arrays_equal_pycocotools_with_own_settings(settings):
    few = len(settings.get("area_ranges", ())) >= 10  # each range costs pycocotools as much again
    assert max(difference([seed], **settings) for seed in range(2000, 2002 if few else 2006)) == 0
    assert difference(range(2010, 2025 if few else 2070), **settings) == 0


def test_the_comparison_with_pycocotools_can_fail():
    preds, target = random_scene(3)
    ours = coco_mean_average_precision(preds, target, "cxcywh", extended_summary=True)
    assert not np.array_equal(ours["precision"].numpy(), pycocotools_eval(preds, target).eval["precision"])


def test_summary_and_ious_equal_pycocotools():
    import contextlib
    import io

    for seeds in (*([seed] for seed in range(20)), range(20, 100)):
        preds, target = joined(random_scene, seeds, groups=GROUPS)
        theirs = pycocotools_eval(preds, target)
        with contextlib.redirect_stdout(io.StringIO()):
            theirs.summarize()
        ours = coco_mean_average_precision(preds, target, "xywh", extended_summary=True)
        numbers = [
            float(value) for name, value in ours.items() if name.startswith(("map", "mar")) and "per" not in name
        ]
        assert numbers == theirs.stats.tolist()
        for key, expected in theirs.ious.items():
            found = ours["ious"][tuple(map(int, key))]
            if len(expected):
                torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float32), rtol=0, atol=0)
            else:
                assert len(found) == 0


def test_micro_is_one_class():
    preds, target = random_scene(11, images=4, classes=3)
    one = [{**image, "labels": torch.zeros_like(image["labels"])} for image in preds]
    two = [{**image, "labels": torch.zeros_like(image["labels"])} for image in target]
    micro = coco_mean_average_precision(preds, target, "xywh", average="micro", class_metrics=True)
    assert micro["map"] == coco_mean_average_precision(one, two, "xywh")["map"]
    macro = coco_mean_average_precision(preds, target, "xywh", class_metrics=True)
    torch.testing.assert_close(micro["map_per_class"], macro["map_per_class"])


def test_class_metrics_equal_the_evaluation_of_each_class_alone():
    preds, target = random_scene(17, images=6, classes=3)
    ours = coco_mean_average_precision(preds, target, "xywh", class_metrics=True, class_names={0: "ant", 1: "bee"})
    for place, label in enumerate(ours["classes"].tolist()):

        def only(images, label=label):
            return [{key: value[image["labels"] == label] for key, value in image.items()} for image in images]

        alone = coco_mean_average_precision(only(preds), only(target), "xywh")
        torch.testing.assert_close(ours["map_per_class"][place], alone["map"], rtol=0, atol=LAST_BITS)
        torch.testing.assert_close(ours["mar_100_per_class"][place], alone["mar_100"], rtol=0, atol=LAST_BITS)
    assert ours["map_class_bee"] == ours["map_per_class"][1]
    assert ours["mar_100_class_2"] == ours["mar_100_per_class"][2]


@each("seed", range(20))
def test_packed_form_and_box_formats_agree(seed):
    preds, target = random_scene(seed)
    wanted = coco_mean_average_precision(preds, target, "xywh")
    found = coco_mean_average_precision(packed(preds), packed(target), "xywh")

    def corners(images):
        shifted = [image["boxes"] for image in images]
        shifted = [torch.cat([box[:, :2], box[:, :2] + box[:, 2:]], 1) for box in shifted]
        return [{**image, "boxes": box} for image, box in zip(images, shifted, strict=True)]

    def centres(images):
        shifted = [image["boxes"] for image in images]
        shifted = [torch.cat([box[:, :2] + box[:, 2:] / 2, box[:, 2:]], 1) for box in shifted]
        return [{**image, "boxes": box} for image, box in zip(images, shifted, strict=True)]

    for other in (
        found,
        coco_mean_average_precision(corners(preds), corners(target), "xyxy"),
        coco_mean_average_precision(centres(preds), centres(target), "cxcywh"),
    ):
        for name, value in wanted.items():
            torch.testing.assert_close(other[name], value, rtol=0, atol=0)


def test_own_iou_as_function_and_as_matrices():
    from torch_ap.detection.shapes.boxes import all_pairs, coco_pairs

    def own(one, two, crowd):
        rows = torch.arange(len(one))
        return coco_pairs(one, two, crowd)(rows, rows, 0.0)[2]

    for seed in range(30):
        preds, target = random_scene(seed)
        wanted = coco_mean_average_precision(preds, target, "xywh")
        asked = coco_mean_average_precision(preds, target, "xywh", iou=own)
        matrices = []
        for p, t in zip(preds, target, strict=True):
            d, g = all_pairs(len(p["boxes"]), len(t["boxes"]), torch.device("cpu"))
            iou = coco_pairs(p["boxes"], t["boxes"], t["iscrowd"].bool())(d, g, 0.0)[2]
            matrices.append({**p, "ious": iou.reshape(len(p["boxes"]), len(t["boxes"]))})
        given = coco_mean_average_precision(matrices, target, iou_type="precomputed")
        flat = {**packed(preds), "ious": torch.cat([image["ious"].flatten() for image in matrices])}
        also = coco_mean_average_precision(flat, packed(target), iou_type="precomputed")
        for name in ("map", "map_50", "mar_1", "mar_100"):
            assert asked[name] == given[name] == also[name] == wanted[name]


def test_boxes_of_any_width_and_area():
    """Intervals on a line: (start, end), IoU of lengths; lengths beyond COCO's range of areas count too."""

    def own(one, two, crowd):
        inter = (torch.minimum(one[:, 1], two[:, 1]) - torch.maximum(one[:, 0], two[:, 0])).clamp(min=0)
        return inter / torch.where(
            crowd, one[:, 1] - one[:, 0], (one[:, 1] - one[:, 0]) + (two[:, 1] - two[:, 0]) - inter
        )

    spans, labels = torch.tensor([[0.0, 10], [20, 30], [5, 9]]), torch.tensor([0, 0, 0])
    preds = {
        "boxes": spans + 1,
        "scores": torch.tensor([0.9, 0.8, 0.7]),
        "labels": labels,
        "area": torch.full((3,), 9e12),
    }
    target = {"boxes": spans[:2], "labels": labels[:2], "area": torch.full((2,), 9e12)}
    found = coco_mean_average_precision([preds], [target], iou=own, box_width=2)
    assert float(found["map_50"]) == 1
    assert float(found["map"]) == pytest.approx(0.7, abs=1e-6)  # IoU 9/11 = .818 passes .5, .55, ..., .8
    with pytest.raises(ValueError, match=r"`iou` must return a tensor of shape"):
        coco_mean_average_precision([preds], [target], iou=lambda one, two, crowd: one[0], box_width=2)  # noqa: ARG005


def test_values_that_are_no_similarity_are_refused():
    """A GIoU is below 0 if boxes are disjoint, and matches nothing."""
    boxes, one, two = torch.tensor([[0.0, 0, 9, 9]]), torch.tensor([1]), torch.tensor([2])

    def value(similarity, **settings):
        preds = [{"boxes": boxes, "scores": torch.ones(1), "labels": label} for label in (one, two)]
        target = [{"boxes": boxes, "labels": two}] * 2
        return coco_mean_average_precision(preds, target, iou=lambda *_: torch.tensor([similarity]), **settings)["map"]

    for similarity in (torch.nan, 1.1, torch.inf, 35.0):
        with pytest.raises(ValueError, match=rf"`iou` must be at most 1, .* got {similarity:.2g}.* of image 1"):
            value(similarity)
    assert 0 < value(1.0) == value(1 + 1e-7) < 1
    assert value(-0.3) == 0
    assert value(35, validate_args=False) == value(1.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_may_round_a_similarity_above_1(dtype):
    label, eps = torch.tensor([1]), torch.finfo(dtype).eps

    def value(similarity, kind):
        given, shape = torch.tensor([[similarity]], dtype=dtype), {"boxes": torch.tensor([[0.0, 0, 9, 9]])}
        pred = {**shape, "scores": torch.ones(1), "labels": label, "ious": given}
        how = {
            "pairs": {"iou": lambda *_: given[0]},
            "image": {"iou_type": lambda *_: given},
            "given": {"iou_type": "precomputed"},
        }
        return float(coco_mean_average_precision([pred], [{**shape, "labels": label}], **how[kind])["map"])

    for kind in ("pairs", "image", "given"):
        assert value(1 + eps, kind) == value(1.0, kind) == pytest.approx(1)
        for wrong in (1 + 4 * eps, torch.nan):
            with pytest.raises(ValueError, match="must be at most 1"):
                value(wrong, kind)


def test_a_hand_worked_case():
    boxes = torch.tensor([[0.0, 0, 10, 10], [20, 20, 30, 30]])
    preds = [{"boxes": boxes[[0, 0, 1]], "scores": torch.tensor([0.9, 0.8, 0.7]), "labels": torch.tensor([1, 1, 1])}]
    target = [{"boxes": boxes, "labels": torch.tensor([1, 1])}]
    found = coco_mean_average_precision(preds, target)
    # precision 1 up to recall 1/2 (51 of 101 levels), then 2/3
    assert float(found["map"]) == pytest.approx((51 + 50 * 2 / 3) / 101, abs=SINGLE)
    assert float(found["mar_1"]) == 0.5
    voc = voc_mean_average_precision(preds, target)
    assert float(voc["map"]) == pytest.approx(0.5 + 0.5 * 2 / 3)
    eleven = voc_mean_average_precision(preds, target, interpolation="11-point")
    assert float(eleven["map"]) == pytest.approx((6 + 5 * 2 / 3) / 11)


def test_no_images_no_detections_no_truths():
    nothing = coco_mean_average_precision([], [], class_metrics=True)
    assert float(nothing["map"]) == -1
    assert nothing["classes"].shape == (0,)
    assert nothing["map_per_class"].shape == (0,)
    empty = {"boxes": torch.tensor([]), "scores": torch.tensor([]), "labels": torch.tensor([])}
    one = {"boxes": torch.tensor([[0.0, 0, 5, 5]]), "scores": torch.tensor([0.5]), "labels": torch.tensor([2])}
    assert float(coco_mean_average_precision([empty], [one])["map"]) == 0
    assert float(coco_mean_average_precision([one], [empty])["map"]) == -1
    assert torch.isnan(voc_mean_average_precision([one], [empty])["map"])
    assert float(voc_mean_average_precision([empty], [one])["map"]) == 0


@pytest.mark.filterwarnings("ignore:.*x2 < x1")
def test_degenerate_boxes_overlap_nothing():
    flat, whole = torch.tensor([[5.0, 5, 5, 9]]), torch.tensor([[5.0, 5, 9, 9]])
    backwards = torch.tensor([[9.0, 9, 5, 5]])
    for detected, truth in ((flat, flat), (backwards, whole), (backwards, flat)):
        preds = [{"boxes": detected, "scores": torch.tensor([0.5]), "labels": torch.tensor([0])}]
        assert float(coco_mean_average_precision(preds, [{"boxes": truth, "labels": torch.tensor([0])}])["map"]) == 0


@pytest.mark.parametrize(
    ("box_format", "box", "rule"),
    [
        ("xyxy", [9.0, 5, 4, 8], "have x1 <= x2 and y1 <= y2"),
        ("xyxy", [4.0, 8, 9, 5], "have x1 <= x2 and y1 <= y2"),
        ("xywh", [4.0, 8, -1, 5], "have no negative width or height"),
        ("cxcywh", [4.0, 8, 1, -5], "have no negative width or height"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*boxes in `preds`")
def test_ground_truths_of_negative_size_are_refused(box_format, box, rule):
    """Sizes read as corners would silently give an AP near 0; detected boxes only cause a warning."""
    fine, wrong = torch.tensor([[1.0, 1, 2, 2]]), torch.tensor([[1.0, 1, 2, 2], box])
    preds = [{"boxes": x, "scores": torch.rand(len(x)), "labels": torch.zeros(len(x)).long()} for x in (fine, wrong)]
    target = [{key: image[key] for key in ("boxes", "labels")} for image in preds]
    message = re.escape(f"`target[1]['boxes']` must {rule}, by `box_format='{box_format}'`, got {[*map(float, box)]}")
    metrics = [MeanAveragePrecision(box_format), VOCMeanAveragePrecision(box_format)]
    for metric in metrics:
        with pytest.raises(ValueError, match=message):
            metric.update(preds, target)
        assert metric.update_count == 0
        metric.update(preds, [target[0]] * 2)
    for function in (coco_mean_average_precision, voc_mean_average_precision):
        with pytest.raises(ValueError, match=message):
            function(preds, target, box_format)
        function(preds, [target[0]] * 2, box_format)
    with pytest.raises(ValueError, match=re.escape(f"`target[1]['boxes']` must {rule}")):
        coco_mean_average_precision(packed(preds), packed(target), box_format)
    MeanAveragePrecision(box_format, validate_args=False).update(preds, target)
    own = MeanAveragePrecision(box_format, iou=lambda detections, *_: torch.zeros(len(detections)))
    areas = [{**image, "area": torch.ones(len(image["labels"]))} for image in preds]
    own.update(areas, target)


@pytest.mark.slow
def test_voc_equals_the_devkit_written_out():
    cases = 0
    for way in range(8):
        preds, target = to_voc(*joined(random_scene, range(way, 2000, 8)))
        images = {}  # of each label: the devkit evaluates all boxes of its files
        for image in zip(preds, target, strict=True):
            for label in {label for side in image for label in side["labels"].tolist()}:
                images.setdefault(label, []).append(image)
        strict, pixel, eleven = bool(way & 1), bool(way & 2), bool(way & 4)
        for threshold in (0.3, 0.5, 0.75):
            found = voc_mean_average_precision(
                preds,
                target,
                iou_thresholds=threshold,
                interpolation="11-point" if eleven else "all-points",
                inclusive_pixels=pixel,
                strict=strict,
                class_metrics=True,
            )
            for label, value in zip(
                found["classes"].reshape(-1).tolist(), found["map_per_class"].reshape(-1), strict=True
            ):
                given = zip(*images[label], strict=True)
                wanted = voc_ap(*given, label, threshold, pixel=float(pixel), strict=strict, eleven=eleven)
                assert float(value) == pytest.approx(wanted, abs=FEW_TERMS, nan_ok=True)
                cases += 1
    assert cases >= 10000


def test_voc_thresholds_at_once_equal_one_by_one():
    preds, target = to_voc(*random_scene(5, images=6, classes=2))
    several = voc_mean_average_precision(preds, target, iou_thresholds=[0.75, 0.3, 0.5])
    each = [voc_mean_average_precision(preds, target, iou_thresholds=x)["map"] for x in (0.75, 0.3, 0.5)]
    torch.testing.assert_close(several["map_per_threshold"], torch.stack(each))


def test_difficult_objects_count_for_nothing():
    boxes = torch.tensor([[0.0, 0, 10, 10], [20, 20, 30, 30]])
    preds = [{"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}]
    target = [{"boxes": boxes, "labels": torch.tensor([0, 0]), "difficult": torch.tensor([1, 0])}]
    assert float(voc_mean_average_precision(preds, target)["map"]) == 1


BAD = [
    (lambda images: images[0][1].pop("scores"), r"preds\[1\]` must have the key 'scores'"),
    (lambda images: images[1][0].pop("boxes"), r"target\[0\]` must have the key 'boxes'"),
    (lambda images: images[0][1].pop("labels"), r"preds\[1\]` must have the key 'labels'"),
    (lambda images: images[0].pop(), "same length, got 1 and 2"),
    (
        lambda images: images[0][1].update(scores=images[0][1]["scores"][:1]),
        r"preds\[1\]\['scores'\]` must have one entry",
    ),
    (
        lambda images: images[1][1].update(boxes=images[1][1]["boxes"][:, :3]),
        r"target\[1\]\['boxes'\]` must have shape \(N, 4\)",
    ),
    (
        lambda images: images[0][0].update(labels=images[0][0]["labels"].float()),
        r"preds\[0\]\['labels'\]` must be an integer tensor",
    ),
    (lambda images: images[0][0].update(labels=[0, 1]), r"preds\[0\]\['labels'\]` must be a tensor, got list"),
    (lambda images: images[0][0].update(boxes=images[0][0]["boxes"] / 0), r"preds\[0\]\['boxes'\]` must be finite"),
    (
        lambda images: images[0][1].update(scores=images[0][1]["scores"] * torch.nan),
        r"preds\[1\]\['scores'\]` must not contain NaN",
    ),
    (lambda images: images[1][1].update(iscrowd=torch.tensor([0, 2])), r"target\[1\]\['iscrowd'\]` must contain"),
    (
        lambda images: images[1][1].update(area=torch.tensor([0, torch.nan])),
        r"target\[1\]\['area'\]` must be finite",
    ),
    (
        lambda images: images[0][0].update(labels=images[0][0]["labels"][None]),
        r"preds\[0\]\['labels'\]` must have shape \(N,\)",
    ),
]


def two_images():
    boxes = torch.tensor([[1.0, 1, 10, 10], [20, 20, 30, 30]])
    preds = [{"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 1])} for _ in range(2)]
    return preds, [{"boxes": boxes, "labels": torch.tensor([0, 1])} for _ in range(2)]


@pytest.mark.parametrize(("spoil", "message"), BAD)
def test_bad_input_names_image_and_key(spoil, message):
    preds, target = two_images()
    spoil((preds, target))
    with pytest.raises(ValueError, match=message):
        coco_mean_average_precision(preds, target)


@pytest.mark.parametrize("side", ["preds", "target"])
@pytest.mark.parametrize("make", [MeanAveragePrecision, VOCMeanAveragePrecision, OpenImagesMeanAveragePrecision])
def test_boxes_whose_areas_would_overflow_raise(make, side):
    metric, images = make(), dict(zip(("preds", "target"), two_images(), strict=True))
    images[side][1]["boxes"] = images[side][1]["boxes"].double() * 1e160
    message = rf"`{side}\[1\]\['boxes'\]` must be finite, at most 1e150 from 0, got \[1e\+160"
    with pytest.raises(ValueError, match=message):
        metric.update(**images)


def test_two_devices_are_refused():
    preds, target = two_images()
    with emulated.device():
        target = [{key: value.to("cuda") for key, value in image.items()} for image in target]
        with pytest.raises(ValueError, match=r"one device.* got \['cpu', 'cuda:0'\]"):
            coco_mean_average_precision(preds, target)


@pytest.mark.parametrize(
    ("preds", "message"),
    [
        ({"counts": torch.tensor([1, 2])}, "`preds\\['counts'\\]` must be at least 0 and add up"),
        ({"counts": torch.tensor([3, -1])}, "`preds\\['counts'\\]` must be at least 0 and add up"),
        ({"counts": torch.tensor([2.0])}, "must be a 1-D integer tensor"),
        ({"counts": torch.tensor([2])}, "same length, got 1 and 2"),
    ],
)
def test_bad_packed_input(preds, message):
    one = {"boxes": torch.ones(2, 4), "scores": torch.ones(2), "labels": torch.tensor([0, 1])}
    two = {"boxes": torch.ones(2, 4), "labels": torch.tensor([0, 1]), "counts": torch.tensor([1, 1])}
    with pytest.raises(ValueError, match=message):
        coco_mean_average_precision({**one, **preds}, two)
    with pytest.raises(ValueError, match=r"both .*lists of dicts"):
        coco_mean_average_precision([one], two)


def test_images_that_are_no_list_are_refused():
    one = {"boxes": torch.ones(2, 4), "scores": torch.ones(2), "labels": torch.tensor([0, 1])}
    counts = {"counts": torch.tensor([2])}
    message = r"`{}` must be a list of dicts.*or .*`counts`.* got a dict with the keys \['boxes', 'labels', 'scores'\]"
    for preds, target, name in ((one, one, "preds"), (one | counts, one, "target"), (one, one | counts, "preds")):
        with pytest.raises(ValueError, match=message.format(name)):
            MeanAveragePrecision().update(preds, target)


@each(
    "settings, message",
    [
        ({"box_format": "yolo"}, "`box_format` must be one of"),
        ({"iou_type": "pose"}, "`iou_type` must be one of"),
        ({"iou_type": ("bbox", "keypoints")}, "`iou_type` must be 'keypoints' alone"),
        ({"sigmas": [0.1]}, "`sigmas` must be None without `iou_type='keypoints'`"),
        ({"iou_type": "keypoints", "sigmas": [0.1, 0]}, "`sigmas` must be None or a list of numbers in"),
        ({"iou_thresholds": 0.5}, "`iou_thresholds` must be None or a list of numbers"),
        ({"iou_thresholds": [1.5]}, "`iou_thresholds` must be None or a list of numbers"),
        ({"rec_thresholds": []}, "`rec_thresholds` must be None or a list of numbers"),
        ({"max_detection_thresholds": [0]}, "`max_detection_thresholds` must be None or a list of ints"),
        ({"average": "weighted"}, "`average` must be one of"),
        ({"area_ranges": {"a": (5, 1)}}, "`area_ranges` must map names to"),
        ({"area_ranges": {"50": (0, 9)}}, "`area_ranges` must have unreserved names: not an integer.*, got '50'"),
        ({"area_ranges": {"low": (0, 9)}}, "`area_ranges` must have unreserved names"),
        ({"area_ranges": {"iou_50": (0, 9)}}, "`area_ranges` must have unreserved names"),
        ({"area_ranges": {"per_class": (0, 9)}}, "`area_ranges` must have unreserved names"),
        ({"box_width": 5}, "`box_width` must be 4 without a function `iou`"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        coco_mean_average_precision(*two_images(), **settings)


def labelled(*labels):
    """Return one image with a box of each label, all of them detected."""
    boxes = torch.tensor([[20.0 * x, 0, 20 * x + 10, 10] for x in range(len(labels))])
    image = {"boxes": boxes, "labels": torch.tensor(labels), "scores": torch.full((len(labels),), 0.5)}
    return [image], [image]


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        (
            (1, 2, 3),
            ["cat", "dog", "owl"],
            r"list of 3 names the labels 0 to 2, got the label 3; if",
        ),
        ((-1, 2), ["cat", "dog", "owl"], r"names the labels 0 to 2, got the label -1"),
        ((0, 1), ["cat", "cat"], r"must be unique, got 'cat' twice"),
        ((1, 3), {1: "3"}, r"must be unique, got '3' twice"),
    ],
)
def test_class_names_that_do_not_fit_the_labels(labels, names, message):
    with pytest.raises(ValueError, match=message):
        coco_mean_average_precision(*labelled(*labels), class_metrics=True, class_names=names)
    metric = MeanAveragePrecision(class_names=names)
    if "twice" in message:
        metric.update(*labelled(*labels))
        assert float(metric.compute()["map"]) == 1  # no name is needed
        assert len(metric.per_class()["name"]) == 2
    else:
        with pytest.raises(ValueError, match=message):
            metric.update(*labelled(*labels))
        metric = MeanAveragePrecision(class_names=names, validate_args=False)
        metric.update(*labelled(*labels))
        with pytest.raises(ValueError, match=message):
            metric.per_class()


def test_class_names_of_labels_that_start_at_one():
    found = coco_mean_average_precision(
        *labelled(1, 2), class_metrics=True, class_names=dict(enumerate(["cat", "dog"], 1))
    )
    assert {"map_class_cat", "map_class_dog"} <= set(found)


@pytest.mark.parametrize("names", ["cat", [1, 2], {"cat": 0}, {0: 1}, {True: "cat"}, {"cat"}, ["x" * 999, 3]])
def test_class_names_of_another_kind(names):
    with pytest.raises(ValueError, match=r"`class_names` .*list of names") as said:
        coco_mean_average_precision([], [], class_names=names)
    assert len(str(said.value)) < 250


@each("dtype", [torch.bool, *INTEGERS, *UNSIGNED, torch.float16, torch.float64])
def test_flags_may_be_of_any_dtype(dtype):
    preds, target = labelled(0)
    for value in (0, 1):
        flags = [{**target[0], "iscrowd": torch.tensor([value]).to(dtype)}]
        assert coco_mean_average_precision(preds, flags)["map"] == (1, -1)[value]


def test_scores_are_of_a_dtype_that_torch_sorts():
    preds, target = labelled(0)
    for dtype in UNSIGNED:
        with pytest.raises(ValueError, match=r"`preds\[0\]\['scores'\]` must be a real .* torch does not sort"):
            coco_mean_average_precision([{**preds[0], "scores": torch.ones(1).to(dtype)}], target)


@pytest.mark.parametrize("value", [torch.tensor([256]), torch.tensor([1.5]), torch.tensor([-1], dtype=torch.int8)])
def test_a_flag_that_is_none_is_shown_as_it_is(value):
    preds, target = labelled(0)
    with pytest.raises(ValueError, match=rf"`target\[0\]\['iscrowd'\]` must contain 0 and 1 only, got {value.item()}$"):
        coco_mean_average_precision(preds, [{**target[0], "iscrowd": value}])
