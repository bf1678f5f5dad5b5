"""Rotated boxes, intervals and custom similarities: IoU, and COCO's and VOC's rules on it."""

import functools
import sys

import numpy as np
import pytest
import torch

from tests.support.each import each
from tests.support.every_metric import of_images
from tests.support.oracles_detection import (
    joined,
    many,
    packed,
    pycocotools_eval,
    random_intervals,
    random_rotated,
    random_scene,
    voc_ap,
)
from tests.support.tolerances import REORDERED, SOLVED
from torch_ap import MeanAveragePrecision, VOCMeanAveragePrecision, detection
from torch_ap.detection.shapes import rotated
from torch_ap.functional import coco_mean_average_precision, voc_mean_average_precision

DRAWN = {
    "rotated": (random_rotated, {"box_format": "cxcywhr", "iou_type": "rotated"}),
    "corners": (
        functools.partial(random_rotated, box_format="xyxyxyxy"),
        {"box_format": "xyxyxyxy", "iou_type": "rotated"},
    ),
    "intervals": (random_intervals, {"iou_type": "intervals"}),
}
BOTH = pytest.mark.parametrize("kind", DRAWN)


def similarities(kind, preds, target, *, crowds=True):
    """Return (D, G) similarities of each image by the public functions, which have their own tests."""
    found = []
    for first in range(0, len(preds), 10):  # of several images together
        found += _similarities(kind, preds[first : first + 10], target[first : first + 10], crowds)
    return found


def _similarities(kind, preds, target, crowds):
    key = "intervals" if kind == "intervals" else "boxes"
    found, true = (torch.cat([image[key] for image in side]) for side in (preds, target))
    crowd = {"iscrowd": torch.cat([t["iscrowd"] for t in target])} if crowds else {}
    if kind == "intervals":
        every = detection.pairs.interval_iou(found, true, **crowd)
    else:
        every = detection.pairs.rotated_box_iou(found, true, DRAWN[kind][1]["box_format"], **crowd)
    rows, columns = ([len(image["labels"]) for image in side] for side in (preds, target))
    return [x.split(columns, 1)[place] for place, x in enumerate(every.split(rows))]


def areas(kind, image):
    if kind == "intervals":
        return image["intervals"].diff(dim=1).flatten()
    return rotated.area(image["boxes"], DRAWN[kind][1]["box_format"])


def pycocotools_of(kind, preds, target):
    """Match and accumulate by pycocotools, with these similarities."""
    ious = similarities(kind, preds, target)

    def boxed(images):  # with the area of the shape
        sizes = [areas(kind, image) for image in images]
        return [
            {**image, "boxes": torch.stack([0 * x, 0 * x, x, 0 * x + 1], 1), "area": x}
            for image, x in zip(images, sizes, strict=True)
        ]

    ranges = [[-np.inf, np.inf]] if kind == "intervals" else None

    def similarity(image, detections, truths):
        return ious[image][detections][:, truths].numpy()

    return pycocotools_eval(boxed(preds), boxed(target), areas=ranges, similarity=similarity)


def own_interval_iou(preds, target):
    """Return the similarity of a built-in kind by a custom function."""
    return detection.pairs.interval_iou(preds["intervals"], target["intervals"], iscrowd=target["iscrowd"])


def check_coco(kind, preds, target):
    theirs = pycocotools_of(kind, preds, target).eval
    for settings in (DRAWN[kind][1], *([{"iou_type": own_interval_iou}] if kind == "intervals" else [])):
        found = coco_mean_average_precision(preds, target, **settings, extended_summary=True)
        for name in ("precision", "recall", "scores"):
            np.testing.assert_array_equal(found[name].reshape(theirs[name].shape), theirs[name])


def check_voc(kind, preds, target, threshold, *, strict, eleven):
    target = [{"difficult": image.pop("iscrowd"), **image} for image in map(dict, target)]
    found = voc_mean_average_precision(
        *(preds, target),
        **DRAWN[kind][1],
        iou_thresholds=threshold,
        strict=strict,
        interpolation="11-point" if eleven else "all-points",
        class_metrics=True,
        dtype=torch.float64,
    )
    ious = similarities(kind, preds, target, crowds=False)
    given = [{**p, "ious": x} for p, x in zip(preds, ious, strict=True)]
    for label, value in zip(found["classes"].tolist(), found["map_per_class"].tolist(), strict=True):
        expected = voc_ap(given, target, label, threshold, pixel=0, strict=strict, eleven=eleven)
        assert value == pytest.approx(expected, nan_ok=True, abs=REORDERED)


@pytest.mark.parametrize("kind", ["rotated", "intervals"])
def test_two_thousand_scenes_equal_the_rules_one_by_one(kind):
    preds, target = many(DRAWN[kind][0])
    check_coco(kind, preds, target)
    check_voc(kind, preds, target, 0.5, strict=False, eleven=False)


@BOTH
def test_few_scenes_equal_the_rules_one_by_one(kind):
    for strict, eleven in ((False, True), (True, False)):
        preds, target = joined(DRAWN[kind][0], range(10) if strict else range(10, 20))
        check_coco(kind, preds, target)
        check_voc(kind, preds, target, 0.5, strict=strict, eleven=eleven)


@BOTH
def test_scenes_equal_their_similarities(kind):
    """Bits are equal, with custom area ranges and thresholds."""
    preds, target = joined(DRAWN[kind][0], range(60, 120), groups=20)

    def check_function(function, truths, **settings):
        found = function(preds, truths, **DRAWN[kind][1], class_metrics=True, **settings)
        sized = [[{**image, "area": areas(kind, image)} for image in side] for side in (preds, truths)]
        ious = similarities(kind, preds, truths, crowds="iscrowd" in truths[0])
        given = [{**image, "ious": x} for image, x in zip(sized[0], ious, strict=True)]
        known = function(given, sized[1], iou_type="precomputed", class_metrics=True, **settings)
        torch.testing.assert_close(found, known, rtol=0, atol=0, equal_nan=True)

    check_function(coco_mean_average_precision, target, area_ranges={"small": (0, 32**2), "large": (96**2, 1e10)})
    difficult = [{"difficult": image.pop("iscrowd"), **image} for image in target]
    check_function(voc_mean_average_precision, difficult, iou_thresholds=[0.0, 0.3, 0.5])


def turned(count, r, *, place=100.0, size=40.0):
    parts = (place * r.random((count, 2)), size * r.random((count, 2)) + size / 400, 720 * r.random((count, 1)) - 360)
    return torch.from_numpy(np.concatenate(parts, 1))


def grid(count, r):
    parts = (4 * r.integers(0, 6, (count, 2)), 4 * r.integers(1, 4, (count, 2)), 45.0 * r.integers(0, 9, (count, 1)))
    return torch.from_numpy(np.concatenate(parts, 1))


def convex(count, r):
    """Return corners on ellipses, in either orientation, some of them twice."""
    angle = 2 * np.pi * np.sort(r.random((count, 4)))
    angle[: count // 8, 1] = angle[: count // 8, 0]
    place, size = 50 * r.random((count, 1, 2)), 1 + 30 * r.random((count, 1, 2))
    points = place + size * np.stack([np.cos(angle), np.sin(angle)], 2)
    points[::2] = points[::2, ::-1]
    return torch.from_numpy(points.reshape(count, 8))


def darts(count, r):
    """Return triangles with a fourth corner inside, in either orientation, from any first corner."""
    place, size = 50 * r.random((count, 1, 2)), 1 + 30 * r.random((count, 1, 2))
    points = r.random((count, 3, 2))
    inside = (points * r.dirichlet([1, 1, 1], count)[..., None]).sum(1, keepdims=True)
    points = place + size * np.concatenate([points, inside], 1)
    for row in range(count):
        points[row] = np.roll(points[row, :: 1 - 2 * (row % 2)], row // 2, 0)
    return torch.from_numpy(points.reshape(count, 8))


def pairs_of_boxes(r):
    """Return two sets of boxes of each special kind, with their format."""
    some = turned(40, r)
    along = torch.deg2rad(some[:, 4])
    beside, thin, flat = some.clone(), some.clone(), some.clone()
    beside[:, 0] += some[:, 2] * along.cos()
    beside[:, 1] -= some[:, 2] * along.sin()
    thin[:, 2], flat[:, 2] = 1e-4, 0
    length = torch.tensor([1.0, 1, 1, 1, 0])
    yield "cxcywhr", some, turned(40, r)
    yield "cxcywhr", grid(60, r), grid(60, r)
    yield "xywhr", grid(60, r), grid(60, r)
    yield "cxcywhr", some, some
    yield "cxcywhr", some, some * torch.tensor([1, 1, 0.5, 0.5, 1])  # contained
    yield "cxcywhr", some, beside  # touching
    yield "cxcywhr", thin, thin + 1e-3 * (1 - length)
    yield "cxcywhr", flat, some
    yield "cxcywhr", some, some + 1e-12 * length
    yield "cxcywhr", some, some + 1e-9 * (1 - length)
    yield "cxcywhr", some, some + 180 * (1 - length)
    for scale in (1e-9, 1e9):
        unit = torch.where(length > 0, scale, 1)
        yield "cxcywhr", some * unit, turned(40, r) * unit
    yield "xyxyxyxy", convex(60, r), convex(60, r)
    quadrilaterals = convex(40, r)
    yield "xyxyxyxy", quadrilaterals, quadrilaterals
    yield "xyxyxyxy", darts(60, r), darts(60, r)
    yield "xyxyxyxy", darts(60, r), convex(60, r)
    yield "xyxyxyxy", convex(60, r), darts(60, r)


def test_iou_of_rotated_boxes_equals_shapely():
    shapely = pytest.importorskip("shapely")
    for form, one, two in pairs_of_boxes(np.random.default_rng(0)):
        sides = [shapely.polygons(rotated.corners(x, form).numpy()) for x in (one, two)]
        areas = [shapely.area(x) for x in sides]
        inter = shapely.area(shapely.intersection(sides[0][:, None], sides[1][None]))
        union = areas[0][:, None] + areas[1][None] - inter
        expected = np.where(inter > 0, inter / np.where(union > 0, union, 1), 0)
        found = detection.pairs.rotated_box_iou(one, two, form)
        np.testing.assert_allclose(found, expected, rtol=0, atol=SOLVED)
        crowd = detection.pairs.rotated_box_iou(one, two, form, iscrowd=torch.ones(len(two)))
        own = inter / np.where(areas[0] > 0, areas[0], 1)[:, None]
        np.testing.assert_allclose(crowd, np.where(inter > 0, own, 0), rtol=0, atol=SOLVED)


def test_skipped_pairs_do_not_reach_the_threshold():
    for form, one, two in pairs_of_boxes(np.random.default_rng(1)):
        crowd = torch.arange(len(two)) % 3 == 0
        pair = rotated.coco_pairs(one, two, form, crowd)
        d, g = torch.arange(len(one)).repeat_interleave(len(two)), torch.arange(len(two)).repeat(len(one))
        every = pair(d, g, 0.0)[2]
        for least in (1e-300, 0.3, 0.5, 0.95):
            kept = pair(d, g, least)
            reaching = every >= least
            assert torch.equal(kept[0], d[reaching])
            assert torch.equal(kept[1], g[reaching])
            torch.testing.assert_close(kept[2], every[reaching], rtol=0, atol=0)


def test_upright_boxes_and_formats_agree():
    r = np.random.default_rng(2)
    upright = [torch.cat([50 * torch.rand(30, 2), 1 + 30 * torch.rand(30, 2)], 1).double() for _ in range(2)]
    known = detection.pairs.box_iou(*upright, "cxcywh")
    angles = torch.zeros(30, 1, dtype=torch.float64)
    torch.testing.assert_close(detection.pairs.rotated_box_iou(*(torch.cat([x, angles], 1) for x in upright)), known)
    sides = turned(30, r), turned(30, r)
    known = detection.pairs.rotated_box_iou(*sides)
    corners = [rotated.corners(x, "cxcywhr") for x in sides]
    torch.testing.assert_close(detection.pairs.rotated_box_iou(*(x.flatten(1) for x in corners), "xyxyxyxy"), known)
    by_corner = [torch.cat([x[:, 0], y[:, 2:]], 1) for x, y in zip(corners, sides, strict=True)]
    torch.testing.assert_close(detection.pairs.rotated_box_iou(*by_corner, "xywhr"), known)


def test_angles_turn_as_in_torchvision():
    """A box four wide and two high, turned counterclockwise by 90 degrees, is two wide and four high."""
    corners = rotated.corners(torch.tensor([[10.0, 10, 4, 2, 90]]), "cxcywhr")[0]
    expected = torch.tensor([[9.0, 12], [9, 8], [11, 8], [11, 12]], dtype=torch.float64)
    torch.testing.assert_close(corners, expected)


def test_a_function_of_images_is_its_matrices():
    def similarity(preds, target):
        asked.append((len(preds["labels"]), len(target["labels"])))
        return detection.pairs.box_iou(preds["boxes"], target["boxes"], "xywh", iscrowd=target.get("iscrowd"))

    asked = []
    preds, target = random_scene(3, images=12)
    for p in preds:
        p["area"] = p["boxes"][:, 2:].prod(1)
    matrices = [
        {**p, "ious": detection.pairs.box_iou(p["boxes"], t["boxes"], "xywh", iscrowd=t["iscrowd"])}
        for p, t in zip(preds, target, strict=True)
    ]
    found = coco_mean_average_precision(preds, target, iou_type=similarity, extended_summary=True)
    known = coco_mean_average_precision(matrices, target, iou_type="precomputed", extended_summary=True)
    torch.testing.assert_close(found, known, rtol=0, atol=0)
    assert all(d * g for d, g in asked)  # the function is not called for images without pairs
    hard = [{"difficult": t.pop("iscrowd"), **t} for t in target]
    boxed = [{key: x for key, x in p.items() if key != "area"} for p in preds]
    settings = {"box_format": "xywh", "inclusive_pixels": False, "iou_thresholds": [0.0, 0.3, 0.5]}
    found = voc_mean_average_precision(boxed, hard, iou_type=similarity, iou_thresholds=[0.0, 0.3, 0.5])
    torch.testing.assert_close(found, voc_mean_average_precision(boxed, hard, **settings), equal_nan=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.ones(1, 1), r"`iou_type` must return, for image 1, a tensor of shape \(2, 3\), got shape \(1, 1\), "),
        (0.5, r"`iou_type` must return, for image 1, .* got float"),
        (torch.ones(2, 3) + 0j, r"`iou_type` must return, for image 1, .* got shape \(2, 3\), torch.complex64"),
        (torch.full((2, 3), torch.nan), r"`iou_type\(preds\[1\], target\[1\]\)` must be .* no NaN, got nan"),
        (torch.tensor([[1, 1, 1], [0, 35, 0]]), r"`iou_type\(preds\[1\], target\[1\]\)` must be at most 1, .* got 35"),
    ],
)
def test_faults_of_a_function_of_images(given, message):
    two, three = ({"labels": torch.zeros(n, dtype=torch.int64), "scores": torch.ones(n)} for n in (2, 3))
    empty = {"labels": torch.zeros(0, dtype=torch.int64), "scores": torch.ones(0)}
    metric = MeanAveragePrecision(iou_type=lambda *_: given)
    with pytest.raises(ValueError, match=message):
        metric.update([empty, two], [three, three])
    with pytest.raises(ValueError, match="must be lists of dicts"):
        metric.update(packed([two]), packed([three]))
    with pytest.raises(ValueError, match="`iou_type` must be one of"):
        MeanAveragePrecision(iou_type=("bbox", of_images))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes")
def test_the_error_of_a_function_of_images_names_it():
    empty, one = ({"labels": torch.zeros(n).long(), "scores": torch.ones(n)} for n in (0, 1))
    metric = MeanAveragePrecision(iou_type=lambda preds, _: preds["tags"])
    with pytest.raises(KeyError, match="tags") as caught:
        metric.update([empty, one], [one, one])
    assert caught.value.__notes__ == ["`iou_type` was called with `preds[1]` and `target[1]`"]
    assert not metric.update_count


def test_a_nan_among_similarities_raises_with_its_image():
    preds = [{"labels": torch.zeros(n).long(), "scores": torch.ones(n), "ious": torch.ones(n, 3)} for n in (0, 1, 2)]
    target = [{"labels": torch.zeros(3, dtype=torch.int64)}] * 3
    preds[2]["ious"] = torch.tensor([[1.0, 1, 1], [1, torch.nan, 1]])
    with pytest.raises(ValueError, match=r"`preds\[2\]\['ious'\]` must be at most 1, and no NaN, got nan"):
        MeanAveragePrecision(iou_type="precomputed").update(preds, target)


BOWTIE = [0.0, 0, 1, 1, 1, 0, 0, 1]


@each(
    "settings, key, value, message",
    [
        ({"box_format": "cxcywhr"}, "boxes", [[1.0, 1, 1, 1]], r"must have shape \(N, 5\), got \(1, 4\)"),
        ({"box_format": "xyxyxyxy"}, "boxes", [[1.0, 1, 1, 1, 1]], r"must have shape \(N, 8\), got \(1, 5\)"),
        ({"box_format": "xywhr"}, "boxes", [[1.0, 1, -1, 1, 0]], r"must have no negative width or height, got \[1"),
        ({"box_format": "cxcywhr"}, "boxes", [[1.0, 1, 1, 1, np.inf]], "must be finite"),
        ({"box_format": "cxcywhr"}, "boxes", np.array([[0, 0, 1, 2e75, 0]]), "must be finite, at most 1e75"),
        ({"box_format": "xyxyxyxy"}, "boxes", [BOWTIE], r"must be quadrilaterals .* no edges cross, got \[0"),
        ({"iou_type": "intervals"}, "intervals", [[1.0, 0]], r"must have start <= end, got \[1.0, 0.0\]"),
        ({"iou_type": "intervals"}, "intervals", [[1.0, np.nan]], "must be finite"),
        ({"iou_type": "intervals"}, "intervals", np.array([[-2e300, 2e300]]), "must be finite, at most 1e300"),
        ({"iou_type": "intervals"}, "intervals", [[1.0, 2, 3]], r"must have shape \(N, 2\), got \(1, 3\)"),
    ],
)
@each("side", ["preds", "target"])
@each("make", [MeanAveragePrecision, VOCMeanAveragePrecision])
def test_bad_input(make, side, settings, key, value, message):
    settings = {"iou_type": "rotated", **settings}
    good = {"intervals": [[1.0, 1]], "boxes": [[1.0, 1, 1, 1, 7]]}[key]
    good = [[0.0, 0, 1, 0, 1, 1, 0, 1]] if settings.get("box_format") == "xyxyxyxy" else good
    one = {key: torch.tensor(good), "labels": torch.tensor([0]), "scores": torch.ones(1)}
    given = {"preds": [one, one], "target": [one, one]}
    value = torch.as_tensor(value)
    given[side] = [one, one | {key: value}]
    metric = make(**settings)
    with pytest.raises(ValueError, match=rf"`{side}\[1\]\['{key}'\]` {message}"):
        metric.update(**given)
    assert not metric.detection_scores
    function = detection.pairs.interval_iou if key == "intervals" else detection.pairs.rotated_box_iou
    form = {} if key == "intervals" else {"box_format": settings["box_format"]}
    arguments = {"preds": one[key], "target": one[key]} | {side: value}
    with pytest.raises(ValueError, match=rf"`{side}` {message}"):
        function(**arguments, **form)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"intervals": torch.ones(2, 3)}, r"`preds\['intervals'\]` must have shape \(N, 2\), got \(2, 3\)"),
        ({"intervals": torch.ones(3, 2)}, r"`preds\['intervals'\]` must have one entry for each of 2 .*, got 3"),
        ({"intervals": [[0, 1]] * 2}, r"`preds\['intervals'\]` must be a tensor, got list"),
        ({"labels": torch.ones(2)}, r"`preds\['labels'\]` must be an integer tensor"),
        ({"intervals": None}, "`preds` must have the key 'intervals'"),
        ({"intervals": torch.tensor([[1.0, 2], [3, 2]])}, r"`preds\[1\]\['intervals'\]` must have start <= end"),
    ],
)
def test_bad_packed_images(change, message):
    one = {"intervals": torch.tensor([[1.0, 2]]), "labels": torch.tensor([0]), "scores": torch.ones(1)}
    target = packed([one, one])
    preds = {key: x for key, x in (target | change).items() if x is not None}
    with pytest.raises(ValueError, match=message):
        coco_mean_average_precision(preds, target, iou_type="intervals")


def test_integers_that_float64_rounds_raise():
    """Rounding makes both ends of an interval in nanoseconds since 1970 equal."""
    long = torch.tensor([[17 * 10**17, 17 * 10**17 + 100]])
    for preds, target, side in ((long, long % 1000, "preds"), (long % 1000, long, "target")):
        with pytest.raises(ValueError, match=rf"`{side}` must be at most 2\^53 from 0 .*, got \[17"):
            detection.pairs.interval_iou(preds, target)
    assert detection.pairs.interval_iou(long - 17 * 10**17, long - 17 * 10**17).item() == 1


@pytest.mark.parametrize("make", [MeanAveragePrecision, VOCMeanAveragePrecision])
def test_rotated_boxes_require_their_format(make):
    with pytest.raises(ValueError, match=r"`box_format` must be one of .* with `iou_type='rotated'`, got 'xyxy'"):
        make(iou_type="rotated")


@pytest.mark.parametrize("make", [MeanAveragePrecision, VOCMeanAveragePrecision])
@pytest.mark.parametrize("kind", ["intervals", "precomputed", of_images])
def test_a_box_format_without_boxes_raises(make, kind):
    with pytest.raises(ValueError, match=r"`box_format` must be left out with `iou_type=.*, got 'xywh'"):
        make("xywh", iou_type=kind)


@pytest.mark.parametrize("kind", ["rotated", "intervals", "segm", of_images])
def test_inclusive_pixels_without_upright_boxes_raise(kind):
    form = {"box_format": "cxcywhr"} if kind == "rotated" else {}
    with pytest.raises(ValueError, match="`inclusive_pixels` must be left out for shapes other than boxes, got False"):
        VOCMeanAveragePrecision(iou_type=kind, inclusive_pixels=False, **form)


def degree_boxes(angles):
    size = torch.tensor([[50.0, 50, 20, 10]]).expand(len(angles), 4)
    boxes = torch.cat([size, angles[:, None]], 1)
    return {"boxes": boxes, "labels": torch.zeros(len(angles), dtype=torch.int64)}


@pytest.mark.gpu
def test_angles_in_radians_are_noticed_on_an_accelerator():
    truth = {key: x.cuda() for key, x in degree_boxes(torch.linspace(-1.5, 1.5, 20)).items()}
    found = truth | {"scores": torch.ones(20).cuda()}
    metric = VOCMeanAveragePrecision("cxcywhr", iou_type="rotated").cuda()
    metric.update([found], [truth])
    with pytest.warns(UserWarning, match="rad2deg"):
        metric.compute()
    metric = VOCMeanAveragePrecision("cxcywhr", iou_type="rotated", match="update").cuda()
    with pytest.warns(UserWarning, match="rad2deg"):
        metric.update([found], [truth])
    metric.compute()
    detection.pairs.rotated_box_iou(truth["boxes"], truth["boxes"])  # which does not synchronize


@pytest.mark.parametrize("angles", [torch.linspace(-1.5, 1.5, 20), torch.tensor([0, torch.pi / 2]).repeat(8)])
def test_angles_in_radians_are_noticed(angles):
    truth = degree_boxes(angles)
    found = truth | {"scores": torch.ones(len(angles))}
    for metric in (MeanAveragePrecision, VOCMeanAveragePrecision):
        with pytest.warns(UserWarning, match=r"angles in degrees.* in \[-pi, pi\].*rad2deg"):
            metric("cxcywhr", iou_type="rotated").update([found], [truth])
    with pytest.warns(UserWarning, match="rad2deg"):
        detection.pairs.rotated_box_iou(truth["boxes"], truth["boxes"])


@pytest.mark.parametrize(
    "angles",
    [
        torch.zeros(50),
        torch.linspace(-0.5, 0.5, 50),  # scanned pages
        torch.tensor([0.0, 90]).repeat(20),
        torch.linspace(-180, 180, 50),
        torch.tensor([1.0, -1.5, 3]),  # too small a number
    ],
)
def test_degrees_are_not_taken_for_radians(angles):
    truth = degree_boxes(angles)
    metric = MeanAveragePrecision("cxcywhr", iou_type="rotated")
    metric.update([truth | {"scores": torch.ones(len(angles))}], [truth])  # warnings are errors
    assert metric.compute()["map"] > 0


def test_quadrilaterals_with_corners_twice_or_in_a_line_do_not_cross():
    for points in ([0, 0, 0, 0, 2, 0, 1, 1], [0, 0, 1, 0, 2, 0, 1, 1], [0] * 8, [3, 3, 4, 4, 5, 5, 6, 6]):
        box = torch.tensor([points], dtype=torch.float64)
        assert float(detection.pairs.rotated_box_iou(box, box, "xyxyxyxy")) in (0, 1)


def activitynet_ap(found, truths, threshold):
    """Return the AP of one class by ActivityNet's toolkit, from (score, video, start, end) and ``truths`` by video."""
    locked, flags = set(), []
    for _, video, start, end in sorted(found, key=lambda x: -x[0]):
        ious = []
        for place, (left, right) in enumerate(truths.get(video, [])):
            inter = max(0.0, min(end, right) - max(start, left))
            ious.append((inter / (right - left + end - start - inter), place))
        free = [place for iou, place in sorted(ious)[::-1] if iou >= threshold and (video, place) not in locked]
        locked |= {(video, free[0])} if free else set()
        flags.append(bool(free))
    hits = np.cumsum(flags)
    recall = np.concatenate([[0], hits / sum(map(len, truths.values())), [1]])
    precision = np.concatenate([[0], hits / np.arange(1, len(flags) + 1), [0]])
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    rises = np.flatnonzero(recall[1:] != recall[:-1]) + 1
    return float(((recall[rises] - recall[rises - 1]) * precision[rises]).sum())


@each("seed", range(20))
def test_activitynet_where_segments_do_not_overlap(seed):
    r = np.random.default_rng(seed)
    preds, target, found, truths = [], [], [], {}
    for video in range(8):
        ends = np.sort(r.choice(60, 2 * int(r.integers(1, 6)), replace=False)).reshape(-1, 2).astype(float)
        some = np.sort(ends[r.integers(0, len(ends), 7)] + r.integers(-3, 4, (7, 2)), 1)
        some[:, 1] += 0.5
        scores = r.permutation(1000)[:7] / 1000 + video / 1e5
        truths[video] = ends.tolist()
        found += [(score, video, *segment) for score, segment in zip(scores, some.tolist(), strict=True)]
        one = {"intervals": torch.from_numpy(some), "scores": torch.from_numpy(scores)}
        preds.append(one | {"labels": torch.zeros(7, dtype=torch.int64)})
        target.append({"intervals": torch.from_numpy(ends), "labels": torch.zeros(len(ends), dtype=torch.int64)})
    thresholds = np.linspace(0.5, 0.95, 10).tolist()[1:]  # without .5, which both of two adjacent segments can reach
    result = voc_mean_average_precision(preds, target, iou_type="intervals", iou_thresholds=thresholds)
    expected = [activitynet_ap(found, truths, threshold) for threshold in thresholds]
    np.testing.assert_allclose(result["map_per_threshold"], expected, rtol=0, atol=REORDERED)
