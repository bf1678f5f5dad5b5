"""Boundary IoU: boundaries against the erosion of dense masks, AP against pycocotools' rules and against vernier."""

import functools
import json

import numpy as np
import pytest
import torch

from tests.support.oracles_detection import pycocotools_eval
from tests.support.oracles_lvis import as_files, federated, frequencies_of, lvis_package
from tests.support.oracles_lvis import lvis_eval as lvis_of
from tests.support.tolerances import REORDERED
from torch_ap import MeanAveragePrecision, VOCMeanAveragePrecision
from torch_ap.detection.shapes import boundaries, masks
from torch_ap.files import read_coco
from torch_ap.functional import coco_mean_average_precision, lvis_mean_average_precision

scipy_ndimage = pytest.importorskip("scipy.ndimage")
rle = pytest.importorskip("pycocotools.mask")
HEIGHT, WIDTH = 24, 40


def boundary(mask, near):
    """Remove the pixels of a mask that are farther than ``near`` from the outside."""
    framed = np.pad(mask, near)
    inner = scipy_ndimage.binary_erosion(framed, np.ones((2 * near + 1, 2 * near + 1), bool))
    return mask & ~inner[near:-near, near:-near]


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (5, 1), (7, 9), (40, 60), (160, 120)])
def test_boundaries_are_the_pixels_removed_by_erosion(size):
    r = np.random.default_rng(sum(size))
    dense = r.random((24, *size)) < r.choice([0.5, 0.9, 0.99, 1.0], 24)[:, None, None]
    dense[0] = False
    sizes = torch.tensor([size] * 24)
    near = boundaries.dilation(sizes)
    assert near.unique().tolist() == [max(1, round(0.02 * float(np.sqrt(size[0] ** 2 + size[1] ** 2))))]
    found = boundaries.boundaries(*masks.edges_of([torch.from_numpy(dense)]), sizes, near)
    expected = masks.edges_of([torch.from_numpy(np.stack([boundary(mask, int(near[0])) for mask in dense]))])
    assert all(map(torch.equal, found, expected))


def test_masks_of_several_sizes_keep_apart(monkeypatch):
    monkeypatch.setitem(boundaries._A_CHUNK, "cpu", 700)  # one or two masks at a time
    r = np.random.default_rng(0)
    dense = [r.random(size) < 0.97 for size in ((9, 4), (120, 70), (3, 200), (60, 60))]
    edges, lengths = zip(*(masks.edges_of([torch.from_numpy(one)[None]]) for one in dense), strict=True)
    sizes = torch.tensor([one.shape for one in dense])
    near = boundaries.dilation(sizes)
    found = boundaries.boundaries(torch.cat(edges), torch.cat(lengths), sizes, near)
    for one, many, part in zip(dense, near.tolist(), found[0].split(found[1].tolist()), strict=True):
        assert torch.equal(part, masks.edges_of([torch.from_numpy(boundary(one, many))[None]])[0])


def test_runs_without_pixels_change_nothing():
    """Codes may start or continue with a 0, between two runs that touch, and twice at one place."""
    dense = np.ones((3, 30, 20), bool)
    dense[1, 4], dense[2, :, :9] = False, False
    edges, lengths = masks.edges_of([torch.from_numpy(dense)])
    more = [[7, 7, 90, 90, 90, 90], [0, 0, 3, 3], [600, 600]]
    spread = [sorted([*one.tolist(), *two]) for one, two in zip(edges.split(lengths.tolist()), more, strict=True)]
    sizes, near = torch.tensor([[30, 20]] * 3), torch.tensor([1, 2, 3])
    given = torch.tensor([x for one in spread for x in one]), torch.tensor(list(map(len, spread)))
    expected = boundaries.boundaries(edges, lengths, sizes, near)
    assert all(map(torch.equal, boundaries.boundaries(*given, sizes, near), expected))


def blobs(r, count):
    """Draw dense masks of up to three rectangles, some of them cut out of others."""
    out = np.zeros((count, HEIGHT, WIDTH), bool)
    for mask in out:
        for _ in range(r.integers(0, 4)):
            y, x = r.integers(0, HEIGHT - 4), r.integers(0, WIDTH - 4)
            mask[y : y + r.integers(2, 20), x : x + r.integers(2, 30)] ^= True
    return out


def scene(r):
    """Draw an image with shifted copies of its masks, other masks, ties, crowds, empty masks, or nothing."""
    true, found = blobs(r, int(r.integers(0, 5))), blobs(r, int(r.integers(0, 7)))
    labels, guessed = r.integers(0, 2, len(true)), r.integers(0, 2, len(found))
    for place in range(len(found)):
        if len(true) and r.random() < 0.8:
            source = r.integers(len(true))
            found[place], guessed[place] = np.roll(true[source], r.integers(2), r.integers(2)), labels[source]
    crowd = torch.from_numpy((r.random(len(true)) < 0.2).astype(np.int64))
    scores = torch.from_numpy(r.choice([0.1, 0.3, 0.5, 0.9], len(found)))
    return (
        {"masks": torch.from_numpy(found), "scores": scores, "labels": torch.from_numpy(guessed)},
        {"masks": torch.from_numpy(true), "labels": torch.from_numpy(labels), "iscrowd": crowd},
    )


@functools.cache
def _scenes(count):
    r = np.random.default_rng(0)
    return list(zip(*(scene(r) for _ in range(count)), strict=True))


def scenes(count):
    preds, target = ([{**image} for image in side] for side in _scenes(count))
    return preds, target


def similarities(found, true):
    """Return the (D, G) minimum of pycocotools' IoUs of masks and boundaries; for a crowd the IoU of masks."""
    crowd = true["iscrowd"].tolist()
    sides = [[boundary(mask, 1) for mask in side["masks"].numpy()] for side in (found, true)]
    whole = rle.iou(*(codes(side["masks"].numpy()) for side in (found, true)), crowd)
    of_boundary = rle.iou(*map(codes, sides), crowd)
    return np.where(crowd, whole, np.minimum(whole, of_boundary))


def codes(dense):
    return [rle.encode(np.asfortranarray(mask.astype(np.uint8))) for mask in dense]


def check_arrays(count):
    """Assert that every array equals pycocotools' with the similarities of the rule."""
    preds, target = scenes(count)
    found = coco_mean_average_precision(preds, target, iou_type="boundary", extended_summary=True)

    def boxed(images):
        areas = [image["masks"].sum((1, 2)).double() for image in images]
        return [
            {**image, "boxes": torch.stack([0 * x, 0 * x, x, 0 * x + 1], 1), "area": x}
            for image, x in zip(images, areas, strict=True)
        ]

    @functools.cache
    def image_similarities(image):
        return similarities(preds[image], target[image])

    def similarity(image, detections, truths):
        return image_similarities(image)[detections.numpy()][:, truths.numpy()]

    theirs = pycocotools_eval(boxed(preds), boxed(target), similarity=similarity).eval
    for name in ("precision", "recall", "scores"):
        np.testing.assert_array_equal(found[name].reshape(theirs[name].shape), theirs[name])


def test_some_scenes_equal_the_rule():
    check_arrays(60)


@pytest.mark.slow
def test_every_scene_equals_the_rule():
    check_arrays(2000)


def files(preds, target):
    """Return COCO's annotations and results."""
    images = [{"id": place, "height": HEIGHT, "width": WIDTH} for place in range(len(preds))]
    sides = []
    for side in (preds, target):
        entries = []
        for image, one in enumerate(side):
            for place, code in enumerate(codes(one["masks"].numpy())):
                code["counts"] = code["counts"].decode()
                shape = {"segmentation": code, "bbox": [0, 0, 1, 1]}
                entry = {"image_id": image, "category_id": int(one["labels"][place]), **shape}
                if "scores" in one:
                    entry["score"] = float(one["scores"][place])
                else:
                    area = float(one["masks"][place].sum())
                    entry |= {"id": len(entries) + 1, "iscrowd": int(one["iscrowd"][place]), "area": area}
                entries.append(entry)
        sides.append(entries)
    categories = [{"id": label, "name": f"class {label}"} for label in range(2)]
    return {"images": images, "annotations": sides[1], "categories": categories}, sides[0]


def test_two_thousand_scenes_equal_vernier():
    instance = pytest.importorskip("vernier.instance")
    preds, target = scenes(2000)
    truth, results = (json.dumps(part).encode() for part in files(preds, target))
    theirs = instance.Evaluator(iou=instance.Boundary(), parity_mode="strict").evaluate(truth, results).stats
    ours = coco_mean_average_precision(preds, target, iou_type="boundary", dtype=torch.float64)
    sizes = ("small", "medium", "large")
    names = ["map", "map_50", "map_75", *(f"map_{x}" for x in sizes), *(f"mar_{x}" for x in (1, 10, 100))]
    names += [f"mar_{x}" for x in sizes]
    assert 0.05 < ours["map"] < 0.9
    assert [float(ours[name]) for name in names] == pytest.approx(theirs, abs=REORDERED)


def test_lvis_numbers_of_boundaries(monkeypatch):
    """Compare with the lvis package, with its IoU of masks replaced by the rule."""
    lvis_eval, plain = lvis_package().eval, rle.iou
    preds, target = scenes(120)
    r = np.random.default_rng(0)
    for truth in target:
        truth["area"] = truth["masks"].sum((1, 2)).double()
        truth |= {key: x for key, x in federated(r, truth | {"boxes": truth["masks"]}, 2).items() if "category" in key}
        truth["ignore"] = truth.pop("iscrowd")
    frequencies = frequencies_of(2)
    coded = [[image | {"masks": codes(image["masks"].numpy())} for image in side] for side in (preds, target)]
    truth, found = as_files(*coded, frequencies, "segm")
    truth["images"] = [image | {"height": HEIGHT, "width": WIDTH} for image in truth["images"]]

    def iou(found, true, crowd):
        sides = [[boundary(rle.decode(code).astype(bool), 1) for code in side] for side in (found, true)]
        return np.minimum(plain(found, true, crowd), plain(*map(codes, sides), crowd))

    monkeypatch.setattr(lvis_eval.mask_utils, "iou", iou)
    theirs = lvis_of(truth, found, "segm").results
    monkeypatch.undo()
    settings = {"frequencies": frequencies, "iou_type": "boundary", "use_given_area": True, "dtype": torch.float64}
    preds = [image | {"area": image["masks"].sum((1, 2)).double()} for image in preds]
    ours = lvis_mean_average_precision(preds, target, **settings)
    names = {"map": "AP", "map_50": "AP50", "map_75": "AP75", "map_rare": "APr", "map_common": "APc"}
    assert 0.05 < ours["map"] < 1
    for name, other in names.items():
        assert float(ours[name]) == pytest.approx(float(theirs[other]), abs=REORDERED), name


def test_files_and_several_kinds(tmp_path):
    preds, target = scenes(20)
    truth, results = files(preds, target)
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "found.json").write_text(json.dumps(results))
    data = read_coco(tmp_path / "truth.json", tmp_path / "found.json", "boundary")
    several = MeanAveragePrecision(iou_type=("segm", "boundary"))
    several.update(preds, target)
    found = several.compute()
    alone = coco_mean_average_precision(data.preds, data.target, iou_type="boundary")
    assert float(found["boundary_map"]) == pytest.approx(float(alone["map"]))
    assert 0 < found["boundary_map"] < found["segm_map"]
    several.tm_to_coco(str(tmp_path / "held"))
    again = read_coco(tmp_path / "held_target.json", tmp_path / "held_preds.json", "boundary")
    assert coco_mean_average_precision(again.preds, again.target, iou_type="boundary")["map"] == alone["map"]


def test_a_hole_in_the_middle_counts_for_the_mask_alone():
    true = torch.ones(1, 100, 100, dtype=torch.bool)
    found = true.clone()
    found[:, 48:52, 48:52] = False
    preds = [{"masks": found, "scores": torch.tensor([0.9]), "labels": torch.tensor([0])}]
    target = [{"masks": true, "labels": torch.tensor([0])}]
    near = boundaries.dilation(torch.tensor([[100, 100]]))  # 3: a frame of 3 pixels, and one around the hole
    assert near.tolist() == [3]
    frame, hole = 100**2 - 94**2, 10**2 - 4**2
    metric = VOCMeanAveragePrecision(iou_type="boundary", iou_thresholds=frame / (frame + hole))
    metric.update(preds, target)
    assert metric.compute()["map"] == 1
    assert coco_mean_average_precision(preds, target, iou_type="boundary", iou_thresholds=[0.95])["map"] == 0
    assert coco_mean_average_precision(preds, target, iou_type="segm", iou_thresholds=[0.99])["map"] == 1
