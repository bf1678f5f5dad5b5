"""Chance level, interval, comparison and summary of the detection metrics."""

import itertools
import math

import numpy as np
import pytest
import torch

from tests.support.each import each
from tests.support.oracles_detection import pycocotools_eval, random_scene, to_voc, voc_ap
from tests.support.oracles_lvis import federated
from tests.support.tolerances import REORDERED, SINGLE
from torch_ap.detection import LVISMeanAveragePrecision, MeanAveragePrecision, VOCMeanAveragePrecision
from torch_ap.detection.inference.resampled import image_replicates
from torch_ap.inference.resampling import Resampling

FEW = {"n_resamples": 60}
KEYS = {"map", "map_low", "map_high", "map_chance"}
TWO = {"iou_thresholds": [0.5, 0.75]}
CASES = {
    "coco": (MeanAveragePrecision, {}),
    "coco micro": (MeanAveragePrecision, {"average": "micro", **TWO}),
    "lvis": (LVISMeanAveragePrecision, {}),
    "voc 2010": (VOCMeanAveragePrecision, {}),
    "voc 2007": (VOCMeanAveragePrecision, {"interpolation": "11-point"}),
    "voc several": (VOCMeanAveragePrecision, {"iou_thresholds": [0.3, 0.6], "inclusive_pixels": False}),
    "voc strict": (VOCMeanAveragePrecision, {"interpolation": "101-point", "strict": True}),
}
EVERY = pytest.mark.parametrize("case", CASES)
VOC = pytest.mark.parametrize("case", [case for case in CASES if case.startswith("voc")])


def scene(seed, case="coco", images=8, classes=3):
    """Return a random scene with score ties between images and never inside one."""
    preds, target = random_scene(seed, images=images, classes=classes)
    r = np.random.default_rng(seed)
    for image in preds:
        image["scores"] = torch.from_numpy(r.permutation(12)[: len(image["scores"])] / 12)
    if case == "lvis":
        target = [federated(r, image, classes) for image in target]
    return to_voc(preds, target) if case.startswith("voc") else (preds, target)


def blurred(preds, seed=0):
    """Return another detector: some boxes move, and scores change."""
    r = np.random.default_rng(seed)
    out = []
    for image in preds:
        count = len(image["scores"])
        moved = torch.from_numpy((r.random((count, 1)) < 0.4) * 0.3) * image["boxes"].abs()
        scores = torch.from_numpy(r.permutation(count) / 12)
        out.append({**image, "boxes": image["boxes"] + moved, "scores": scores})
    return out


def fed(case, preds, target, **more):
    kind, settings = CASES.get(case, (MeanAveragePrecision, TWO))  # "coco of each" has several classes
    form = "xyxy" if case.startswith("voc") else "xywh"
    metric = kind(form, **settings, **more).set_dtype(torch.float64)
    metric.update(preds, target)
    return metric


def value(metric):
    found = float(metric.compute()["map"])
    return math.nan if found == -1 else found


def values(case, *data_sets):
    """Return the value of each data set, from one joint data set with separate classes for each."""
    micro = "micro" in case

    def together(side):
        parts = [(place, image) for place, data in enumerate(data_sets) for image in data[side]]
        ids = ("labels", "neg_category_ids", "not_exhaustive_category_ids")
        return [x | {key: (0 if micro else 1) * x[key] + 10 * place for key in ids if key in x} for place, x in parts]

    found = fed(case.replace("micro", "of each"), together(0), together(1), class_metrics=True).compute()
    each = found["map_per_class"].where(found["map_per_class"] >= 0, torch.nan)
    return [each[found["classes"] // 10 == place].nanmean().item() for place in range(len(data_sets))]


def rankings(metric):
    sample = metric._sample()
    return sample.ranked, sample.interpolation


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("coco")])
@each("seed", range(8))
def test_weights_are_images_written_out(case, seed):
    preds, target = scene(seed, case)
    ranked, interpolation = rankings(fed(case, preds, target))
    weights = np.random.default_rng(seed).multinomial(8, np.ones(8) / 8, 4)
    weights[0] = 1
    drawn = [np.repeat(np.arange(8), row) for row in weights]
    wanted = values(case, *([[side[i] for i in row] for side in (preds, target)] for row in drawn))
    found = ranked.average_precision(torch.from_numpy(weights), interpolation).nanmean(1)
    assert found.tolist() == pytest.approx(wanted, abs=REORDERED, nan_ok=True)


def test_voc_by_the_devkits_rules():
    """Repeat the images and evaluate each class by the steps of the development kit."""
    preds, target = scene(4, "voc")
    for case, eleven in (("voc 2010", False), ("voc 2007", True)):
        ranked, interpolation = rankings(fed(case, preds, target))
        for row in np.random.default_rng(1).multinomial(8, np.ones(8) / 8, 3):
            drawn = [[side[i] for i in np.repeat(np.arange(8), row)] for side in (preds, target)]
            each = [voc_ap(*drawn, label, 0.5, pixel=1, strict=False, eleven=eleven) for label in range(3)]
            assert float(
                ranked.average_precision(torch.from_numpy(row)[None], interpolation).nanmean()
            ) == pytest.approx(np.nanmean(each))


def test_scenes_contain_edge_cases():
    """The scenes contain dropped detections of difficult objects, and empty images."""
    dropped = [rankings(fed("voc 2010", *scene(seed, "voc")))[0] for seed in range(8)]
    assert any(bool((~ranked.event_counts).any()) for ranked in dropped)
    assert any(len(ranked.image.unique()) < ranked.images for ranked in dropped)


@EVERY
def test_a_replicate_is_its_images_written_out(case):
    preds, target = scene(3, case, images=10)
    other = blurred(preds)
    systems = [fed(case, x, target) for x in (preds, other)]
    found = systems[0].compare(systems[1], n_resamples=200)
    (first, interpolation), (second, _) = map(rankings, systems)
    gaps = image_replicates((first, second), Resampling(200), interpolation).diff(dim=1)
    assert found.standard_error == pytest.approx(float(gaps.std()))
    # in the order of the images: equal scores between images are ranked in input order
    drawn = np.sort(np.random.default_rng(1).integers(0, 10, (150, 10)), axis=1).tolist()
    a, b, truths = ([[side[i] for i in row] for row in drawn] for side in (preds, other, target))
    slow = np.subtract(*(values(case, *zip(x, truths, strict=True)) for x in (a, b)))
    assert found.standard_error == pytest.approx(np.std(slow, ddof=1), rel=0.25)  # few draws are repeated
    assert (found.value_a, found.value_b) == pytest.approx([value(x) for x in systems], abs=REORDERED)
    assert found.low < found.difference < found.high


def test_compared_values_are_pycocotools():
    preds, target = scene(6, images=12)
    other = blurred(preds)
    found = fed("coco", preds, target).compare(fed("coco", other, target), **FEW)
    wanted = []
    for side in (preds, other):
        precision = pycocotools_eval(side, target).eval["precision"][:, :, :, 0, 2]
        wanted.append(precision[precision > -1].mean())
    assert (found.value_a, found.value_b) == pytest.approx(wanted, abs=REORDERED)


@EVERY
def test_the_same_detector_is_no_better(case):
    preds, target = scene(5, case)
    metric, again = fed(case, preds, target), fed(case, preds, target)
    # false positives of a class without ground truths: the same value from a larger table
    further = {**preds[0], "labels": torch.full_like(preds[0]["labels"], 9)}
    if "micro" not in case:
        further = {key: torch.cat([preds[0][key], further[key]]) for key in further}
        again = fed(case, [further, *preds[1:]], target)
    for method in ("bootstrap-percentile", "bootstrap-normal"):
        for other in (metric, again):
            found = metric.compare(other, method=method, **FEW)
            assert (found.difference, found.standard_error, found.p_value) == (0, 0, 1)
            assert "p = 1 by definition" in found.reason


def chance_slowly(case):
    """Return the mean over every order of the scores.

    No box overlaps another box's ground truth, so the matches do not change.
    """
    boxes = torch.tensor([[0.0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 52, 10], [60, 0, 70, 10]])
    labels = torch.tensor([0, 0, 1, 0])
    shift = torch.tensor([[0.0], [3.0], [0.0], [2.0]])
    target = [{"boxes": boxes, "labels": labels}]
    found = {"boxes": torch.cat([boxes + shift, boxes[:2] + 200]), "labels": torch.tensor([0, 0, 1, 0, 0, 1])}
    if not case.startswith("voc"):
        target = [{**target[0], "boxes": target[0]["boxes"] - torch.nn.functional.pad(boxes[:, :2], (2, 0))}]
        found["boxes"] = found["boxes"] - torch.nn.functional.pad(found["boxes"][:, :2], (2, 0))
    if case == "lvis":
        nothing = torch.empty(0, dtype=torch.int64)
        target = [{**target[0], "neg_category_ids": nothing, "not_exhaustive_category_ids": nothing}]
    one = fed(case, [{**found, "scores": torch.arange(6) / 6}], target)
    orders = torch.tensor(list(itertools.permutations(range(6)))) / 6

    def each(image):
        """Return an image for every order, with its own classes; the mean over classes is the mean over orders."""
        own = torch.zeros_like(image["labels"]) if "micro" in case else image["labels"]
        return [{**image, "labels": own + 2 * place} for place in range(len(orders))]

    preds = [{**image, "scores": scores} for image, scores in zip(each(found), orders, strict=True)]
    return one, value(fed(case.removesuffix(" micro"), preds, each(target[0])))


@EVERY
def test_chance_level_is_the_mean_over_all_orders_of_the_scores(case):
    metric, wanted = chance_slowly(case)
    found = metric.chance_level(n_resamples=500)
    assert found.dtype == torch.float64
    assert float(found) == pytest.approx(wanted, abs=4e-3)  # means over different shuffles
    assert 0 < wanted < 1
    assert metric.chance_level(**FEW) == metric.chance_level(**FEW)


@EVERY
def test_summary_equals_the_methods(case):
    preds, target = scene(3, case, images=12)
    metric = fed(case, preds, target)
    before = metric.compute()["map"]
    summary, found = metric.summary(0.9, **FEW), metric.confidence_interval(0.9, **FEW)
    assert set(summary) == KEYS
    assert all(x.ndim == 0 and x.dtype == before.dtype for x in summary.values())
    assert (summary["map"], summary["map_low"], summary["map_high"]) == (found.estimate, found.low, found.high)
    assert float(summary["map"]) == pytest.approx(float(before), abs=REORDERED)
    assert summary["map_chance"] == metric.chance_level(**FEW)
    assert 0 < summary["map_chance"] < 1
    assert torch.equal(metric.compute()["map"], before)


def test_matching_is_done_once(monkeypatch):
    preds, target = scene(3)
    metric, counted = fed("coco", preds, target), []
    matched = MeanAveragePrecision._matched
    monkeypatch.setattr(MeanAveragePrecision, "_matched", lambda *args: (counted.append(1), matched(*args))[1])
    metric.summary(**FEW)
    assert len(counted) == 1
    metric.compare(fed("coco", preds, target), **FEW)
    assert len(counted) == 3


@EVERY
def test_dtype_equals_compute(case):
    kind, settings = CASES[case]
    preds, target = scene(2, case)
    metric = kind("xyxy" if case.startswith("voc") else "xywh", **settings)
    metric.update([{**image, "scores": image["scores"].float()} for image in preds], target)
    summary = metric.summary(**FEW)
    assert all(x.dtype == torch.float32 for x in summary.values())
    assert summary["map"] == metric.compute()["map"]


@EVERY
def test_edges_have_a_defined_answer(case):
    kind, settings = CASES[case]
    empty = kind(**settings)
    assert all(math.isnan(x) for x in empty.summary().values())
    assert math.isnan(empty.chance_level())
    assert empty.confidence_interval().reason == "nothing is relevant"
    assert empty.compare(kind(**settings)).reason == "nothing is relevant"
    preds, target = scene(1, case)
    kept = next(i for i, image in enumerate(target) if len(image["labels"]))
    one = fed(case, preds[kept : kept + 1], target[kept : kept + 1])
    assert "one image" in one.confidence_interval().reason
    found = one.compare(one)
    assert (found.difference, found.p_value) == (0, 1)
    assert "equal values without a spread" in found.reason
    nothing = [{key: column[:0] for key, column in preds[kept].items()}]
    found = one.compare(fed(case, nothing, target[kept : kept + 1]))
    assert found.difference == 0 or (math.isnan(found.standard_error) and "one image" in found.reason)
    nothing = [{key: column[:0] for key, column in image.items()} for image in preds]
    blind = fed(case, nothing, target)
    summary = blind.summary(**FEW)
    assert [float(x) for x in summary.values()] == [0, 0, 0, 0]
    assert fed(case, preds, target).compare(blind, **FEW).value_b == 0
    without = fed(case, preds, [{key: column[:0] for key, column in image.items()} for image in target])
    assert all(math.isnan(x) for x in without.summary(**FEW).values())
    metric = fed(case, preds, target)
    for call in (
        metric.confidence_interval,
        metric.summary,
        lambda confidence_level: metric.compare(metric, confidence_level=confidence_level),
    ):
        with pytest.raises(ValueError, match="`confidence_level`"):
            call(confidence_level=1.0)
    for call in (metric.confidence_interval, lambda **how: metric.compare(metric, **how)):
        with pytest.raises(ValueError, match="`method`"):
            call(method="influence")
        with pytest.raises(ValueError, match="`iou_type`"):
            call(iou_type="segm")


def test_other_metrics_and_other_images_raise():
    preds, target = scene(1)
    metric = fed("coco", preds, target)
    with pytest.raises(ValueError, match=r"`other` .*MeanAveragePrecision"):
        metric.compare(fed("voc 2010", *scene(1, "voc")))
    for settings in ({"iou_thresholds": [0.5]}, {"rec_thresholds": [0.0, 1.0]}, {"max_detection_thresholds": [1, 20]}):
        with pytest.raises(ValueError, match="`other` must have the same settings"):
            metric.compare(fed("coco", preds, target, **settings))
    with pytest.raises(ValueError, match="average: 'macro' here, 'micro' there"):
        metric.compare(fed("coco", preds, target, average="micro"))
    with pytest.raises(ValueError, match="interpolation: 'all-points' here, '11-point' there"):
        fed("voc 2010", *scene(1, "voc")).compare(fed("voc 2007", *scene(1, "voc")))
    one = {"box_format": "xywh", "iou_type": ("bbox", "segm")}
    with pytest.raises(ValueError, match="iou_type: "):
        metric.compare(MeanAveragePrecision(**one))
    with pytest.raises(ValueError, match="validate_args: True here, False there"):
        metric.compare(fed("coco", preds, target, validate_args=False))
    other = fed("coco", preds, target, class_metrics=True)
    assert metric.compare(other, **FEW).p_value == 1
    moved = [{**image, "boxes": image["boxes"] + 1} for image in target]
    crowds = [{**image, "iscrowd": 1 - image["iscrowd"]} for image in target]
    joined = {key: torch.cat([image[key] for image in target[-2:]]) for key in target[0]}
    changed = {
        "`boxes` in `target` differs, first of the image at place 0": (preds, moved),
        "`boxes` in `target` differs, first of the image at place 3": (preds, [*target[:3], *moved[3:]]),
        "`iscrowd` in `target` differs": (preds, crowds),
        f"it has {len(preds) - 1} images, and this metric {len(preds)}": (preds[:-1], [*target[:-2], joined]),
        r"the image at place \d has \d+ ground truths here and \d+ there": (preds[::-1], target[::-1]),
    }
    for name, data in changed.items():
        with pytest.raises(ValueError, match=f"`other` .* same ground truths .*; {name}"):
            metric.compare(fed("coco", *data))


@pytest.mark.parametrize("match", ["compute", "update"])
def test_images_that_differ_are_named_by_their_ids(match):
    preds, target = scene(1)

    def metric(ids):
        found = MeanAveragePrecision("xywh", match=match)
        found.update([preds[x] for x in ids], [target[x] for x in ids], [10 * x for x in ids])
        return found

    ids = [*range(len(preds))]
    for other, said in (
        (ids[:-2], f"this metric alone has image {10 * ids[-2]} and 1 more"),
        ([*ids[:-1]], f"this metric alone has image {10 * ids[-1]}$"),
        (ids[::-1], f"the image at place 0 is 0 here and {10 * ids[-1]} there"),
    ):
        with pytest.raises(ValueError, match=f"`other` .*same ground truths in the same order; {said}"):
            metric(ids).compare(metric(other), **FEW)
    with pytest.raises(ValueError, match=f"; it alone has image {10 * ids[-1]}$"):
        metric(ids[:-1]).compare(metric(ids), **FEW)


def test_masks_and_boxes_each_have_their_own():
    r = torch.Generator().manual_seed(0)
    masks = torch.zeros(6, 3, 32, 32, dtype=torch.bool)
    for image, k in itertools.product(range(6), range(3)):
        masks[image, k, 4 * k : 4 * k + 9, 2 * image : 2 * image + 8] = True
    boxes = torch.tensor([0.0, 0, 8, 9]).expand(3, 4)
    noisy = masks & (torch.rand(masks.shape, generator=r) < 0.9)
    labels, metrics = torch.tensor([0, 0, 1]), []
    for found in (masks, noisy):
        metric = MeanAveragePrecision("xywh", iou_type=("bbox", "segm"))
        for image in range(6):
            scores = torch.rand(3, generator=r)
            preds = {"boxes": boxes, "masks": found[image], "scores": scores, "labels": labels}
            metric.update([preds], [{"boxes": boxes, "masks": masks[image], "labels": labels}])
        metrics.append(metric)
    a, b = metrics
    assert a.compare(b, iou_type="segm", **FEW).difference > 0
    for kind in ("bbox", "segm"):
        found = a.compare(b, iou_type=kind, **FEW)
        assert found.value_b == pytest.approx(float(b.compute()[f"{kind}_map"]), abs=SINGLE)
        assert 0 < float(b.chance_level(iou_type=kind, **FEW)) <= 1


def check_two_ranks(rank):
    for case, split in itertools.product(("coco", "voc 2010"), (3, 0)):
        preds, target = scene(2, case)
        other = blurred(preds)
        mine = slice(0, split) if rank == 0 else slice(split, 8)
        one, two = (fed(case, x[mine], target[mine]) for x in (preds, other))
        whole, against = (fed(case, x, target, sync_on_compute=False) for x in (preds, other))
        assert one.summary(**FEW) == whole.summary(**FEW)
        assert one.compare(two, **FEW).to_dict() == whole.compare(against, **FEW).to_dict()
        assert one.compare(one, **FEW).p_value == 1
        assert one.compute()["map"] == whole.compute()["map"]
        with pytest.raises(ValueError, match=r"`other` .*same ground truths"):
            one.compare(fed(case, preds[:2], target[:2]))
        with one.sync_context(should_sync=True):
            assert one.chance_level(**FEW) == whole.chance_level(**FEW)
        assert not one._is_synced
        assert not two._is_synced
        assert sum(map(len, one.detections_per_image)) == len(preds[mine])


def test_all_ranks_count(ranks):
    ranks(check_two_ranks)


@pytest.mark.gpu
@EVERY
def test_on_cuda(case):
    preds, target = scene(3, case, images=25)
    here, there = [], []
    for side in (preds, blurred(preds)):
        here.append(fed(case, side, target))
        kind, settings = CASES[case]
        metric = kind("xyxy" if case.startswith("voc") else "xywh", **settings).cuda().set_dtype(torch.float64)
        metric.update(*([{k: v.cuda() for k, v in image.items()} for image in x] for x in (side, target)))
        there.append(metric)
    # the standard error of 100 resamples is right within 7%; two of them differ by 30% once in 300
    many = {"n_resamples": 100}
    found, wanted = (a.compare(b, **many) for a, b in (there, here))
    values = [[float(x) for x in (one.value_a, one.value_b)] for one in (found, wanted)]
    assert values[0] == pytest.approx(values[1], abs=REORDERED)
    # resamples from other generators
    assert float(found.standard_error) == pytest.approx(float(wanted.standard_error), rel=0.3)
    one, two = (x[0].summary(**many) for x in (there, here))
    assert all(x.device.type == "cuda" for x in one.values())
    assert float(one["map"]) == pytest.approx(float(two["map"]), abs=REORDERED)
    # shuffles from other generators
    assert float(one["map_chance"]) == pytest.approx(float(two["map_chance"]), abs=1e-2)
    with pytest.raises(ValueError, match="`other` must be on the same device"):
        there[0].compare(here[0])


@EVERY
def test_intervals_of_classes_belong_to_reported_values(case):
    preds, target = scene(3, case, images=12)
    metric = fed(case, preds, target, class_metrics=True)
    found = metric.confidence_interval(0.8, per_class=True, **FEW)
    each = metric.compute()["map_per_class"].reshape(-1)
    assert found.estimate.tolist() == pytest.approx([math.nan if x == -1 else x for x in each.tolist()], nan_ok=True)
    assert found.method == "bootstrap-logit"
    known = ~torch.isnan(found.low)
    assert known.any()
    assert (found.low < found.estimate)[known].all()
    assert (found.estimate < found.high)[known].all()
    assert found == metric.confidence_interval(0.8, per_class=True, chunk_size=7, **FEW)
    assert metric.confidence_interval(0.8, **FEW).estimate.ndim == 0
    with pytest.raises(ValueError, match="`per_class` must be a bool, got 1"):
        metric.confidence_interval(per_class=1)


def test_no_class_has_no_interval():
    for kind in (MeanAveragePrecision, VOCMeanAveragePrecision):
        found = kind().confidence_interval(per_class=True)
        assert found.estimate.shape == found.low.shape == (0,)
