"""Slices of the images: the numbers of a metric with these images only, from one matching."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from tests.detection.test_image_uncertainty import CASES, blurred, fed, scene
from tests.support.oracles_detection import random_scene, to_voc
from tests.support.oracles_lvis import federated
from tests.support.tolerances import REORDERED
from torch_ap.detection import LVISMeanAveragePrecision, MeanAveragePrecision, VOCMeanAveragePrecision
from torch_ap.detection.inference.resampled import list_replicates
from torch_ap.detection.matching import candidate_pairs
from torch_ap.detection.metrics import tables
from torch_ap.inference.record import group_comparison
from torch_ap.inference.resampling import Resampling

FEW = {"n_resamples": 40}
SLICES = {"low": [0, 1, 2, 5], "high": range(3, 12), "none": [], "one": torch.tensor([4]), "all": np.arange(12)}
KINDS = {
    "coco": (lambda: MeanAveragePrecision("xywh", class_metrics=True), lambda *x: x),
    "stored": (lambda: MeanAveragePrecision("xywh", class_metrics=True, match="update"), lambda *x: x),
    "micro": (lambda: MeanAveragePrecision("xywh", average="micro", class_metrics=True), lambda *x: x),
    "few": (
        lambda: MeanAveragePrecision("xywh", max_detection_thresholds=[1, 3], class_metrics=True),
        lambda *x: x,
    ),
    "lvis": (
        lambda: LVISMeanAveragePrecision("xywh", frequencies={0: "r", 1: "c", 2: "f"}, class_metrics=True),
        lambda preds, target: (preds, [federated(np.random.default_rng(len(x["labels"])), x, 3) for x in target]),
    ),
    "voc": (lambda: VOCMeanAveragePrecision(iou_thresholds=[0.5, 0.7], class_metrics=True), to_voc),
}


def chosen(side, images):
    return [side[int(i)] for i in images]


def quiet(metric):
    metric.warn_on_many_detections = False
    return metric.set_dtype(torch.float64)


def values_by_class(found, labels, name):
    """Return (K,) values of all classes, NaN for classes that the metric does not contain."""
    known = dict(zip(found["classes"].reshape(-1).tolist(), found[name].reshape(-1).tolist(), strict=True))
    return [known.get(label, math.nan) for label in labels]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_a_slice_is_a_metric_of_its_images(kind, seed):
    make, prepare = KINDS[kind]
    preds, target = prepare(*random_scene(seed, images=12, classes=3))
    whole = quiet(make())
    for start in (0, 5):
        end = 5 if start == 0 else 12
        whole.update(preds[start:end], target[start:end])
    labels = whole.compute()["classes"].reshape(-1).tolist()
    table = whole.per_slice(SLICES)
    assert table["slice"] == list(SLICES)
    for row, images in enumerate(SLICES.values()):
        alone = quiet(make())
        alone.update(chosen(preds, images), chosen(target, images))
        wanted = alone.compute()
        for name in wanted.keys() - {"classes"}:
            found = table[name][row]
            if name.endswith("per_class"):
                theirs = torch.tensor(values_by_class(wanted, labels, name))
                known = ~theirs.isnan()
                torch.testing.assert_close(found[known], theirs.double()[known], rtol=0, atol=1e-7)  # in float32
                assert bool((found[~known].isnan() | (found[~known] == -1)).all())
            else:
                assert torch.equal(found.nan_to_num(-2), wanted[name].double().nan_to_num(-2)), (name, images)
        assert table["images"][row] == len(images)
        counts = alone.per_class() if kind in ("coco", "few") else None
        if counts is not None:
            assert table["ground_truths"][row] == counts["ground_truths"].sum()
            assert table["detections"][row] == counts["detections"].sum()


@pytest.mark.parametrize("case", CASES)
def test_intervals_comparisons_and_chance_equal_a_metric_of_the_images(case):
    preds, target = scene(3, case, images=12)
    other = blurred(preds)
    a, b = fed(case, preds, target), fed(case, other, target)
    slices = {name: SLICES[name] for name in ("low", "high", "none")}
    found, gap = a.confidence_interval(slices=slices, **FEW), a.compare(b, slices=slices, **FEW)
    chance = a.chance_level(slices=slices, **FEW)
    for row, images in enumerate(slices.values()):
        one, two = (fed(case, chosen(side, images), chosen(target, images)) for side in (preds, other))
        wanted, difference = one.confidence_interval(**FEW), one.compare(two, **FEW)
        for name in ("estimate", "low", "high", "standard_error"):
            assert getattr(found, name)[row].item() == pytest.approx(
                getattr(wanted, name).item(), abs=REORDERED, nan_ok=True
            )
        for name in ("value_a", "value_b", "difference", "low", "high", "p_value"):
            assert getattr(gap, name)[row].item() == pytest.approx(
                getattr(difference, name).item(), abs=REORDERED, nan_ok=True
            )
        assert chance[row].item() == pytest.approx(one.chance_level(**FEW).item(), abs=REORDERED, nan_ok=True)
    assert gap.names == list(slices)
    assert all(x.reason.endswith("; none: nothing is relevant") for x in (found, gap))
    assert all("low: 2 images: " in x.reason for x in (found, gap))
    least, most = sorted(gap.p_value[:2].tolist())
    assert sorted(gap.adjusted_p_value[:2].tolist()) == pytest.approx([min(1, 2 * least), min(1, max(2 * least, most))])
    assert math.isnan(gap.adjusted_p_value[2])


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_slices_on_cuda(kind):
    make, prepare = KINDS[kind]
    sides = prepare(*random_scene(1, images=12, classes=3))
    here, there = quiet(make()), quiet(make().cuda())
    here.update(*sides)
    there.update(*([{key: x.cuda() for key, x in image.items()} for image in side] for side in sides))
    wanted, found = here.per_slice(SLICES), there.per_slice(SLICES)
    assert found.pop("slice") == wanted.pop("slice")
    for name, column in found.items():
        assert column.is_cuda
        torch.testing.assert_close(column.cpu(), wanted[name], rtol=0, atol=REORDERED, equal_nan=True)


@pytest.mark.parametrize("most", [1, 2, 10])
def test_slices_do_not_depend_on_their_number(most, monkeypatch):
    """Include overlapping and empty slices, and one slice for each image."""
    make, prepare = KINDS["coco"]
    metric = quiet(make())
    metric.update(*prepare(*random_scene(4, images=12, classes=3)))
    slices = {**SLICES, **{str(i): [i] for i in range(12)}, "last": [], "pairs": [3, 8]}
    alone = [metric.per_slice({name: images}) for name, images in slices.items()]
    monkeypatch.setattr(tables, "_MAX_SLICES", most)
    for name, column in metric.per_slice(slices).items():
        if name != "slice":
            assert torch.equal(column, torch.cat([one[name] for one in alone])), name


@pytest.mark.parametrize("kind", KINDS)
def test_slices_do_not_repeat_matching(kind, monkeypatch):
    make, prepare = KINDS[kind]
    metric, other = quiet(make()), quiet(make())
    preds, target = prepare(*random_scene(3, images=8, classes=3))
    for one in (metric, other):
        one.update(preds, target)
        one.compute()
    find, calls = candidate_pairs.find_candidates, []
    monkeypatch.setattr(candidate_pairs, "find_candidates", lambda *x: (calls.append(1), find(*x))[1])
    slices = {str(i): [i] for i in range(8)}
    metric.per_slice(slices)
    metric.confidence_interval(slices=slices, **FEW)
    metric.compare(other, slices=slices, **FEW)
    assert not calls


def test_ids_name_images_wherever_they_came():
    """Images are padded by a sampler: copies count once, and ids are in any order."""
    preds, target = random_scene(5, images=8, classes=2)
    ids = torch.tensor([70, -3, 12, 5, 40, 8, 9, 11])
    metric = MeanAveragePrecision("xywh")
    metric.update(preds[:5], target[:5], ids[:5])
    metric.update(preds[3:], target[3:], ids[3:])
    plain = MeanAveragePrecision("xywh")
    plain.update(preds, target)
    for slices, places in (({"x": [9, -3, 70], "y": {5}}, {"x": [6, 1, 0], "y": [3]}),):
        one, two = metric.per_slice(slices), plain.per_slice(places)
        assert {name: x if isinstance(x, list) else x.tolist() for name, x in one.items()} == {
            name: x if isinstance(x, list) else x.tolist() for name, x in two.items()
        }
    with pytest.raises(ValueError, match=r"`slices\['x'\]` must be `sample_ids` of updates, got 0"):
        metric.per_slice({"x": [0]})
    other = MeanAveragePrecision("xywh")
    other.update(preds, target, ids.flip(0))
    with pytest.raises(ValueError, match=r"`other` .*`sample_ids`"):
        metric.compare(other, slices={"x": [9]}, **FEW)


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        ([[0]], r"`slices` must be a dict.* got list"),
        ({}, r"`slices` must contain at least one"),
        ({3: [0]}, r"`slices` must have names that are str, got 3"),
        ({"x": [0, 8]}, r"`slices\['x'\]` .*places of the 8 images.* got 8"),
        ({"x": [-1]}, r"`slices\['x'\]` .*places.* got -1"),
        ({"x": [1, 2, 1]}, r"`slices\['x'\]` .*once, got 1"),
        ({"x": torch.ones(8, dtype=torch.bool)}, r"`slices\['x'\]` .*ints, got .*flags.nonzero"),
        ({"x": [0.5]}, r"`slices\['x'\]` .*ints, got"),
        ({"x": "01"}, r"`slices\['x'\]` .*ints, got str"),
        ({"x": 3}, r"`slices\['x'\]` .*ints, got int"),
        ({"x": ["a"]}, r"`slices\['x'\]` .*ints, got"),
        ({"x": np.array([2**63], np.uint64)}, r"`slices\['x'\]` must contain ints below 2\^63"),
        ({"x": torch.zeros(2, 2, dtype=torch.int64)}, r"`slices\['x'\]` "),
    ],
)
def test_invalid_slices_raise(slices, message):
    metric = fed("coco", *scene(1))
    for call in (metric.per_slice, lambda x: metric.confidence_interval(slices=x)):
        with pytest.raises((TypeError, ValueError), match=message):
            call(slices)
    with pytest.raises(ValueError, match="`per_class` must be False with `slices`"):
        metric.compare(metric, per_class=True, slices={"x": [0]})


def test_a_metric_without_images_has_empty_slices():
    for metric in (MeanAveragePrecision(), VOCMeanAveragePrecision()):
        table = metric.per_slice({"x": []})
        assert table["images"].tolist() == [0]
        assert metric.confidence_interval(slices={"x": []}).reason == "x: nothing is relevant"
        with pytest.raises(ValueError, match="places of the 0 images"):
            metric.per_slice({"x": [0]})


# -- comparison of each class


@pytest.mark.parametrize("case", CASES)
def test_each_class_is_compared_by_the_resamples_of_both(case):
    """Another test compares the resamples of one system with repeated data sets."""
    preds, target = scene(3, case, images=10)
    other = blurred(preds)
    # a class with detections of one detector only, and no ground truth
    other[0]["labels"] = torch.where(torch.arange(len(other[0]["labels"])) == 0, 1_000, other[0]["labels"])
    other[1]["labels"] = torch.where(torch.arange(len(other[1]["labels"])) == 0, -5, other[1]["labels"])
    systems = [fed(case, x, target) for x in (preds, other)]
    found = systems[0].compare(systems[1], per_class=True, **FEW)
    samples = [x._sample(per_class=True) for x in systems]
    assert set(found.names) == {str(x) for image in target for x in counted_labels(case, image)}
    values, drawn = [], []
    for sample in samples:
        places = [sample.labels.tolist().index(int(name)) for name in found.names]
        values.append(sample.each_class()[places])
        replicates = list_replicates([sample.ranked], Resampling(40), sample.interpolation)[0]
        drawn.append(replicates[:, places])
    assert torch.equal(found.value_a, values[0])
    assert torch.equal(found.value_b, values[1])
    gaps = (drawn[0] - drawn[1]).numpy()
    assert found.standard_error.tolist() == pytest.approx(np.nanstd(gaps, axis=0, ddof=1).tolist(), abs=REORDERED)
    # Student's t with one degree of freedom less than images that contain the class
    images = torch.tensor([sum(int(name) in counted_labels(case, x) for x in target) for name in found.names])
    size = (found.difference / found.standard_error).abs().numpy()
    wanted = 2 * scipy.stats.t.sf(size, images.numpy() - 1)  # NaN if no resample differs
    assert found.p_value.tolist() == pytest.approx(np.nan_to_num(wanted, nan=1.0).tolist(), rel=1e-6)
    percentile = systems[0].compare(systems[1], per_class=True, method="bootstrap-percentile", **FEW)
    assert percentile.low.tolist() == pytest.approx(np.nanquantile(gaps, 0.025, axis=0).tolist(), abs=REORDERED)


def counted_labels(case, image):
    """Return the labels of the ground truths of an image that count."""
    if case == "lvis":  # ground truths without area do not count
        return image["labels"][(image["ignore"] == 0) & (image["area"] > 0)].tolist()
    return image["labels"][image["difficult" if case.startswith("voc") else "iscrowd"] == 0].tolist()


def test_the_same_detector_is_no_better_in_any_class():
    metric = fed("coco", *scene(3))
    for method in (None, "bootstrap-percentile"):
        found = metric.compare(metric, per_class=True, method=method, **FEW)
        assert found.difference.tolist() == [0] * len(found.names)
        assert found.p_value.tolist() == found.adjusted_p_value.tolist() == [1] * len(found.names)
    assert found.to_dict()["names"] == found.names
    assert "GroupComparison" in repr(found)


def test_a_comparison_of_no_classes_is_empty():
    found = MeanAveragePrecision().compare(MeanAveragePrecision(), per_class=True)
    assert found.names == []
    assert found.difference.shape == (0,)
    assert group_comparison({}, confidence_level=0.9, method="", design="").reason == ""


def check_two_ranks(rank):
    preds, target = scene(2)
    mine = slice(0, 3) if rank == 0 else slice(3, 8)
    slices = {"odd": [1, 3, 5], "rest": [0, 2, 4, 6, 7]}
    part, whole = fed("coco", preds[mine], target[mine]), fed("coco", preds, target, sync_on_compute=False)
    assert part.per_slice(slices)["map"].tolist() == whole.per_slice(slices)["map"].tolist()
    assert part.compare(part, slices=slices, **FEW) == whole.compare(whole, slices=slices, **FEW)
    assert not part._is_synced


def test_all_ranks_count(ranks):
    ranks(check_two_ranks)


def test_with_fixed_limits_and_micro_averages_images_are_not_as_if_they_were_alone():
    """The documentation names both exceptions.

    LVIS's limit applies to all images together; the AP of an image is the mean over its classes.
    """
    box, label = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])

    truth = {"boxes": box, "labels": label, "neg_category_ids": label[:0], "not_exhaustive_category_ids": label[:0]}
    found = LVISMeanAveragePrecision(ap_fixed=True, max_detections=1)
    for score in (0.9, 0.8):
        found.update([{"boxes": box, "scores": torch.tensor([score]), "labels": label}], [truth])
    assert found.per_slice({"second": [1]})["map"].tolist() == [0]
    torch.testing.assert_close(found.per_image()["ap"], torch.tensor([1.0, 0.0], dtype=torch.float64))
    two = {"boxes": torch.cat([box, box + 200]), "labels": torch.tensor([0, 1])}
    each = {name: MeanAveragePrecision(average=name) for name in ("macro", "micro")}
    for one in each.values():
        one.update([{**two, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([0, 0])}], [two])
    macro, micro = (one.per_image()["ap"] for one in each.values())
    assert torch.equal(macro, micro)
    assert (round(float(micro[0]), 9), float(each["micro"].compute()["map"])) == (0.5, 1)
