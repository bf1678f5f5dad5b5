"""LVIS's mean average precision against the package lvis; its files, command and invalid input."""

import gzip
import json

import numpy as np
import pytest
import torch

import torch_ap
from tests.support.oracles_lvis import NAMES, as_files, frequencies_of, lvis_eval, random_federated
from tests.support.paths import DATA
from tests.support.tolerances import REORDERED
from torch_ap.detection.curves import lvis_curve
from torch_ap.detection.rules import lvis
from torch_ap.files import read_lvis
from torch_ap.functional import lvis_mean_average_precision

NOTHING = torch.empty(0, dtype=torch.int64)
TIGHT = {"rtol": 0, "atol": 1e-12}  # the documented tolerance


def many(count, groups, first=0):
    """Return scenes of one image as one data set; each group has its own classes."""
    preds, target = [], []
    for place in range(count):
        own = 3 * (place % groups)
        for side, images in zip((preds, target), random_federated(first + place, images=1), strict=True):
            ids = {key: images[0][key] + own for key in images[0] if key == "labels" or key.endswith("category_ids")}
            side.append(images[0] | ids)
    return preds, target


def ours(preds, target, frequencies, **settings):
    return lvis_mean_average_precision(
        preds, target, "xywh", frequencies=frequencies, use_given_area=True, class_metrics=True, **settings
    )


def equal(found, evaluation, most, prefix=""):
    """Assert that all thirteen numbers and the values of each class are equal."""
    wanted = evaluation.results
    for name, theirs in NAMES.items():
        assert float(found[prefix + name]) == pytest.approx(
            wanted.get(theirs, wanted.get(f"{theirs}@{most}")), abs=REORDERED
        )
    kept = [evaluation.params.cat_ids.index(label) for label in found["classes"].tolist()]
    limit = next(name for name in found if name.startswith(f"{prefix}mar_") and name.endswith("_per_class"))
    assert float(found[limit.removesuffix("_per_class")]) == pytest.approx(wanted[f"AR@{most}"], abs=REORDERED)
    each = evaluation.eval["precision"][:, :, kept, 0].mean((0, 1)), evaluation.eval["recall"][:, kept, 0].mean(0)
    for name, values in zip((f"{prefix}map_per_class", limit), each, strict=True):
        torch.testing.assert_close(found[name], torch.from_numpy(values), **TIGHT)


def test_random_scenes_have_lvis_numbers():
    preds, target = many(2000, 3)
    frequencies = frequencies_of(9)
    equal(ours(preds, target, frequencies), lvis_eval(*as_files(preds, target, frequencies)), 300)


@pytest.mark.parametrize("most", [1, 4])
def test_the_best_of_an_image_count_whatever_their_categories(most):
    preds, target = many(300, 4, first=5000)
    frequencies = frequencies_of(12)
    found = ours(preds, target, frequencies, max_detections=most)
    evaluation = lvis_eval(*as_files(preds, target, frequencies), most=most)
    equal(found, evaluation, most)
    curves = lvis_curve(preds, target, "xywh", max_detections=most, use_given_area=True)
    theirs = torch.from_numpy(evaluation.eval["precision"][0, ..., 0])
    for curve in curves:
        torch.testing.assert_close(curve.interpolated("101-point").precision, theirs[:, int(curve.name)], **TIGHT)
    unlike = ours(preds, target, frequencies)
    assert float(found["map"]) != float(unlike["map"])


@pytest.mark.parametrize("most", [30, 10_000])
def test_fixed_counts_the_best_of_each_category(most):
    preds, target = many(300, 2, first=9000)
    frequencies = frequencies_of(6)
    truth, listed = as_files(preds, target, frequencies)
    cut = [x for label in frequencies for x in best_of([x for x in listed if x["category_id"] == label], most)]
    equal(ours(preds, target, frequencies, ap_fixed=True, max_detections=most), lvis_eval(truth, cut, most=-1), -1)


def best_of(found, most):
    return sorted(found, key=lambda x: x["score"], reverse=True)[:most]


# -- masks, and real annotations


@pytest.fixture
def examples(tmp_path):
    """Return LVIS's own 100 images: https://github.com/lvis-dataset/lvis-api, data/lvis_val_100.json."""
    path = tmp_path / "lvis_val_100.json"
    path.write_bytes(gzip.decompress((DATA / "lvis_val_100.json.gz").read_bytes()))
    return path


def detections(truth, kind):
    """Return plausible detections: moved shapes, wrong categories, several of one object."""
    pytest.importorskip("pycocotools")
    from pycocotools import mask

    r = np.random.default_rng(0)
    sizes = {image["id"]: (image["height"], image["width"]) for image in truth["images"]}
    ids = {image["id"]: [*image["neg_category_ids"]] for image in truth["images"]}
    for entry in truth["annotations"]:
        ids[entry["image_id"]].append(entry["category_id"])
    found = []
    for entry in truth["annotations"]:
        for _ in range(r.poisson(1.5)):
            dx, dy = r.normal(0, 0.08, 2) * entry["bbox"][2:]
            image = entry["image_id"]
            one = {"image_id": image, "category_id": entry["category_id"], "score": round(float(r.random()), 2)}
            if r.random() < 0.3:
                one["category_id"] = int(r.choice(ids[image])) if r.random() < 0.7 else int(r.integers(1, 1000))
            if kind == "bbox":
                x, y, w, h = entry["bbox"]
                found.append({**one, "bbox": [x + dx, y + dy, w * r.uniform(0.8, 1.2), h]})
            else:
                moved = [[c + (dy if i % 2 else dx) for i, c in enumerate(part)] for part in entry["segmentation"]]
                code = mask.merge(mask.frPyObjects(moved, *sizes[image]))
                found.append({**one, "segmentation": {**code, "counts": code["counts"].decode()}})
    return found


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_real_annotations_have_lvis_numbers(kind, examples, tmp_path):
    path = examples
    truth = json.loads(path.read_text())
    found = detections(truth, kind)
    results = tmp_path / "results.json"
    results.write_text(json.dumps(found))
    data = read_lvis(path, results, kind)
    shown = {x["category_id"] for x in [*truth["annotations"], *found]}
    truth["categories"] = [x for x in truth["categories"] if x["id"] in shown]  # lvis takes minutes for the other ones
    ours = lvis_mean_average_precision(
        data.preds, data.target, "xywh", kind, frequencies=data.frequencies, use_given_area=True, class_metrics=True
    )
    assert len(data.images) == 100
    assert 0.05 < float(ours["map"]) < 0.9
    equal(ours, lvis_eval(truth, found, kind), 300)


def test_boxes_and_masks_in_one_metric():
    row = torch_ap.LVISMeanAveragePrecision(iou_type=("bbox", "segm"))
    whole, half = torch.ones(1, 4, 4, dtype=torch.bool), torch.zeros(1, 4, 4, dtype=torch.bool)
    half[:, :2] = True
    box, label = torch.tensor([[0.0, 0, 4, 4]]), torch.tensor([2])
    lists = {"neg_category_ids": NOTHING, "not_exhaustive_category_ids": NOTHING}
    found = {"boxes": box, "masks": half, "scores": torch.ones(1), "labels": label}
    row.update([found], [{"boxes": box, "masks": whole, "labels": label, **lists}])
    value = row.compute()
    assert (float(value["bbox_map"]), float(value["segm_map"])) == (1.0, pytest.approx(0.1))


# -- single rules


def image(found, true, negative=(), not_exhaustive=(), **more):
    """Return an image from labels of detections, one box each, and of ground truths, at the first boxes."""
    boxes = torch.tensor([[100.0 * i, 0, 100 * i + 50, 50] for i in range(max(len(found), len(true)))]).reshape(-1, 4)
    preds = {"boxes": boxes[: len(found)], "labels": torch.tensor(found, dtype=torch.int64)}
    preds["scores"] = 1 - torch.arange(len(found)) / 10
    target = {"boxes": boxes[: len(true)], "labels": torch.tensor(true, dtype=torch.int64), **more}
    target["neg_category_ids"] = torch.tensor(negative, dtype=torch.int64)
    target["not_exhaustive_category_ids"] = torch.tensor(not_exhaustive, dtype=torch.int64)
    return [preds], [target]


@pytest.mark.parametrize(
    ("given", "detections", "false_positives"),
    [
        (image([1, 1], [1]), [2], [1]),
        (image([1, 2], [1]), [1, 0], [0, 0]),  # no annotator searched for 2
        (image([1, 2], [1], [2]), [1, 1], [0, 1]),
        (image([1, 1], [1], (), [1]), [2], [0]),  # the image can contain further objects of 1
        (image([2, 1], [2], ignore=torch.tensor([1])), [0, 1], [0, 0]),
        (image([1], [1], area=torch.tensor([float("inf")])), [0], [0]),  # raises where values are checked
    ],
)
def test_counted_items(given, detections, false_positives):
    metric = torch_ap.LVISMeanAveragePrecision(validate_args=False)
    metric.update(*given)
    table = metric.per_class()
    assert table["detections"].tolist() == detections
    assert table["fp"].tolist() == false_positives


def test_categories_in_both_lists_raise_or_are_ignored():
    given = image([1, 2], [1], [2], [2])
    with pytest.raises(ValueError, match=r"must not contain a category of not_exhaustive_category_ids, got 2"):
        torch_ap.LVISMeanAveragePrecision().update(*given)
    metric = torch_ap.LVISMeanAveragePrecision(validate_args=False)  # as in lvis
    metric.update(*given)
    assert metric.per_class()["fp"].tolist() == [0, 0]


def test_few_and_many_possible_pairs_of_image_and_category(monkeypatch):
    preds, target = many(60, 4)
    one = lvis_mean_average_precision(preds, target, "xywh")
    monkeypatch.setattr(lvis, "_LARGEST_TABLE", 0)
    torch.testing.assert_close(one, lvis_mean_average_precision(preds, target, "xywh"), rtol=0, atol=0)


def test_copies_of_images_count_once():
    preds, target = many(12, 2)
    once, twice = (torch_ap.LVISMeanAveragePrecision("xywh") for _ in range(2))
    once.update(preds, target, torch.arange(12))
    twice.update(preds[:8], target[:8], torch.arange(8))
    twice.update(preds[4:], target[4:], torch.arange(4, 12))
    torch.testing.assert_close(once.compute(), twice.compute(), rtol=0, atol=0)


def test_detectors_are_compared_on_the_same_lists():
    preds, target = many(12, 2)
    metric, other = (torch_ap.LVISMeanAveragePrecision("xywh") for _ in range(2))
    metric.update(preds, target)
    other.update(preds, [{**image, "not_exhaustive_category_ids": NOTHING} for image in target])
    with pytest.raises(ValueError, match=r"same ground truths .*; `not_exhaustive_category_ids` in `target` differs"):
        metric.compare(other)
    assert float(metric.compare(metric, n_resamples=20).difference) == 0


def test_frequencies_are_shown_by_their_number():
    metric = torch_ap.LVISMeanAveragePrecision(frequencies=frequencies_of(1203), ap_fixed=True, max_detections=7)
    assert repr(metric) == (
        "LVISMeanAveragePrecision(box_format='xyxy', iou_type='bbox', max_detections=7, ap_fixed=True, "
        "frequencies=<1203 by key>)"
    )


# -- invalid input


@pytest.mark.parametrize("given", [{2**70: "f"}, {1: np.array(["f", "c"])}, {1: "x"}, {"1": "f"}, {True: "f"}])
def test_invalid_frequencies_raise(given):
    with pytest.raises(ValueError, match="`frequencies` must be None or a dict of ids of categories to"):
        torch_ap.LVISMeanAveragePrecision(frequencies=given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"neg_category_ids": None}, r"`target\[1\]` must have the key 'neg_category_ids'"),
        ({"not_exhaustive_category_ids": None}, r"`target\[1\]` must have the key 'not_exhaustive_category_ids'"),
        ({"neg_category_ids": [4]}, r"`target\[1\]\['neg_category_ids'\]` must be a tensor, got list"),
        ({"neg_category_ids": torch.tensor([0.5])}, r"\['neg_category_ids'\]` must be an integer tensor"),
        ({"neg_category_ids": torch.tensor([[4]])}, r"\['neg_category_ids'\]` must have shape \(N,\), got \(1, 1\)"),
        (
            {"neg_category_ids": torch.tensor([2, 1])},
            r"`target\[1\]\['neg_category_ids'\]` must not contain a category of the image's ground truths, got 1",
        ),
        (
            {"not_exhaustive_category_ids": torch.tensor([2])},
            r"`target\[1\]\['neg_category_ids'\]` must not contain a category of not_exhaustive_category_ids, got 2",
        ),
        (
            {"not_exhaustive_category_ids": torch.tensor([9])},
            r"`target\[1\]\['not_exhaustive_category_ids'\]` must be categories of `frequencies`, got 9",
        ),
        ({"labels": torch.tensor([9])}, r"`target\[1\]\['labels'\]` must be categories of `frequencies`, got 9"),
        ({"ignore": torch.tensor([2])}, r"`target\[1\]\['ignore'\]` must contain 0 and 1 only, got 2"),
    ],
)
def test_bad_images_raise_by_name(change, message):
    metric = torch_ap.LVISMeanAveragePrecision(frequencies={1: "r", 2: "f"})
    preds, target = image([1, 2], [1], [2])
    broken = {key: x for key, x in (target[0] | change).items() if x is not None}
    with pytest.raises(ValueError, match=message):
        metric.update(preds * 2, [target[0], broken])
    assert not metric.update_count


def test_lists_of_packed_images_have_counts():
    preds, target = image([1], [1], [2])
    packed = [{**preds[0], "counts": torch.tensor([1])}, {**target[0], "counts": torch.tensor([1])}]
    with pytest.raises(ValueError, match=r"`target` must have the key 'neg_category_ids_counts'"):
        lvis_mean_average_precision(*packed)
    packed[1] |= {"neg_category_ids_counts": torch.tensor([2]), "not_exhaustive_category_ids_counts": torch.tensor([0])}
    with pytest.raises(ValueError, match=r"`target\['neg_category_ids_counts'\]` must be at least 0 and add up to"):
        lvis_mean_average_precision(*packed)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"frequencies": ["r"]}, "`frequencies` must be None or a dict of ids of categories to 'r', 'c' or 'f'"),
        ({"frequencies": {1: "rare"}}, r"'r', 'c' or 'f', got \{1: 'rare'\}"),
        ({"frequencies": {1.5: "r"}}, r"'r', 'c' or 'f', got \{1.5: 'r'\}"),
        ({"ap_fixed": 1}, "`ap_fixed` must be a bool"),
        ({"max_detections": 0}, "`max_detections` must be an int of at least 1 or None, got 0"),
        (
            {"iou_type": "keypoints"},
            "`iou_type` must be 'bbox', 'segm' or 'boundary', .* got 'keypoints'",
        ),
        (
            {"iou_type": "precomputed"},
            "`iou_type` must be 'bbox', 'segm' or 'boundary', .* got 'precomputed'",
        ),
    ],
)
def test_bad_settings_raise(settings, message):
    with pytest.raises(ValueError, match=message):
        torch_ap.LVISMeanAveragePrecision(**settings)


@pytest.mark.parametrize("name", ["neg_category_ids", "neg_category_ids_per_image", "not_exhaustive_category_ids"])
def test_loaded_states_are_validated(name):
    metric, other = (torch_ap.LVISMeanAveragePrecision("xywh") for _ in range(2))
    metric.persistent(True)
    metric.update(*many(5, 2))
    state = metric.state_dict()
    other.load_state_dict(state)
    torch.testing.assert_close(other.compute(), metric.compute(), rtol=0, atol=0)
    state[name] = [state[name][0][:-1]] if isinstance(state[name], list) else state[name][:-1]
    with pytest.raises(RuntimeError, match=name.removesuffix("_per_image")):
        torch_ap.LVISMeanAveragePrecision("xywh").load_state_dict(state)
