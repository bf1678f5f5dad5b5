"""Errors of detectors: the definition, tidecv, tables of detections and images, LRP, bad input."""

import json
from functools import cache, partial

import numpy as np
import pytest
import torch

from tests.support.oracles_detection import joined, random_intervals, random_rotated, random_scene, to_voc
from tests.support.oracles_errors import KINDS, Errors, matched_by_voc, tidecv_costs, tidecv_run, untied
from tests.support.oracles_lvis import random_federated
from tests.support.tolerances import REORDERED
from torch_ap import MeanAveragePrecision, VOCMeanAveragePrecision
from torch_ap.cli import main
from torch_ap.detection import DETECTION_KINDS, LVISMeanAveragePrecision, NuScenesMeanAveragePrecision
from torch_ap.detection.files.coco import read_annotations, read_results
from torch_ap.detection.pairs import box_iou, interval_iou, rotated_box_iou
from torch_ap.detection.rules import coco

EVERY_KIND = (*KINDS, "false_positives", "false_negatives")
LEVELS = tuple(np.linspace(0, 1, 101).tolist())


def updated(metric, preds, target, parts=1):
    metric.warn_on_many_detections = False
    size = -(-len(preds) // parts)
    for first in range(0, len(preds), size):
        metric.update(preds[first : first + size], target[first : first + size])
    return metric


def overlaps(preds, target, function, crowds=True, **settings):
    """Yield the overlaps of each image, with crowds and with ordinary objects only, for several images per call."""
    key = next(x for x in ("boxes", "intervals") if x in preds[0])
    for first in range(0, len(preds), 20):
        p, t = (side[first : first + 20] for side in (preds, target))
        found, true = (torch.cat([image[key] for image in side]) for side in (p, t))
        flags = [torch.cat([image["iscrowd"] for image in t]), None] if crowds else [None]
        each = [function(found, true, iscrowd=x, **settings).numpy() for x in flags]
        row = column = 0
        for one, two in zip(p, t, strict=True):
            d, g = len(one["labels"]), len(two["labels"])
            own = [x[row : row + d, column : column + g] for x in each]
            yield own[0], own[-1]
            row, column = row + d, column + g


@cache
def coco_scenes(count):
    preds, target = joined(random_scene, range(count))
    return updated(MeanAveragePrecision("xywh"), preds, target), preds, target


def case(name):
    """Return a metric, and the oracle on the same images."""
    few = range(100)
    if name.startswith("coco"):
        metric, preds, target = coco_scenes({"coco": 150, "coco of 2,000": 2000}[name])
        return metric, Errors(preds, target, overlaps(preds, target, box_iou, box_format="xywh"), LEVELS)
    if name == "voc":
        preds, target = to_voc(*joined(random_scene, few))
        iou = overlaps(preds, target, box_iou, crowds=False, inclusive_pixels=True)
        metric = VOCMeanAveragePrecision()
        return updated(metric, preds, target), Errors(preds, target, iou, "all-points", matched=matched_by_voc)
    if name == "rotated":
        preds, target = joined(random_rotated, few[:50])
        metric = MeanAveragePrecision("cxcywhr", "rotated")
        iou = overlaps(preds, target, rotated_box_iou, box_format="cxcywhr")
        return updated(metric, preds, target), Errors(preds, target, iou, LEVELS)
    preds, target = joined(random_intervals, few)
    metric = MeanAveragePrecision(iou_type="intervals", iou_thresholds=[0.75, 0.5])
    return updated(metric, preds, target), Errors(preds, target, overlaps(preds, target, interval_iou), LEVELS)


CASES = ["coco", "voc", "rotated", "intervals", pytest.param("coco of 2,000", marks=pytest.mark.slow)]
cases = cache(case)


@pytest.mark.parametrize("name", CASES)
def test_errors_are_their_definition(name):
    metric, oracle = cases(name)
    found = metric.errors()
    costs, ap = oracle.costs()
    table = found.per_class
    places = {label: place for place, label in enumerate(table["class"].tolist())}
    assert found.average_precision == pytest.approx(ap, abs=REORDERED)
    for kind, (each, cost) in costs.items():
        assert getattr(found, kind) == pytest.approx(cost, abs=REORDERED), kind
        values = table[kind][[places[label] for label in each]]
        np.testing.assert_allclose(values, [*each.values()], atol=REORDERED, rtol=0, err_msg=kind)
    for kind, each in oracle.counts().items():
        counts = {label: count for label, count in zip(places, table[f"{kind}_count"].tolist(), strict=True) if count}
        assert counts == each
        assert found.counts[kind] == sum(each.values()) > 0


@pytest.mark.parametrize("name", CASES)
def test_each_detection_has_its_outcome(name):
    metric, oracle = cases(name)
    table = metric.detections_table()
    truths = [x["truth"] or {"row": -1} for x in oracle.detections]
    assert [DETECTION_KINDS[code] for code in table["kind"].tolist()] == [x["kind"] for x in oracle.detections]
    for column, name in (("image", "image"), ("detection", "row"), ("class", "class"), ("score", "score")):
        assert table[column].tolist() == [x[name] for x in oracle.detections]
    assert table["ground_truth"].tolist() == [x["row"] for x in truths]
    np.testing.assert_array_equal(table["iou"], [x["iou"] for x in oracle.detections])


def test_the_ap_is_that_of_the_metric():
    metric, *_ = coco_scenes(150)
    table = metric.per_class()
    found = metric.errors()
    assert found.average_precision == pytest.approx(float(metric.compute()["map_50"]), abs=REORDERED)
    known = table["ground_truths"] > 0
    np.testing.assert_allclose(found.per_class["ap"][known], table["ap_50"][known], atol=REORDERED)
    assert found.per_class["name"] == table["name"]
    assert metric.errors(0.75).average_precision == pytest.approx(float(metric.compute()["map_75"]), abs=REORDERED)


# -- tidecv


def comparable(preds, target):
    """Draw scenes for which tidecv follows the paper: no crowds, ties, equal overlaps or unknown classes."""

    def distinct(p, t):
        return all(len({*x[x > 0]}) == (x > 0).sum() for x in box_iou(p["boxes"], t["boxes"], "xywh").numpy())

    kept = [pair for pair in zip(preds, target, strict=True) if distinct(*pair)]
    target = [{**t, "iscrowd": torch.zeros_like(t["iscrowd"])} for _, t in kept]
    known = torch.cat([t["labels"] for t in target]).unique()
    return untied([{name: x[torch.isin(p["labels"], known)] for name, x in p.items()} for p, _ in kept]), target


def same_as_tidecv(metric, run):
    costs, ap, counts = tidecv_costs(run)
    found = metric.errors()
    assert found.average_precision == pytest.approx(ap, abs=REORDERED)
    assert {kind: float(getattr(found, kind)) for kind in costs} == pytest.approx(costs, abs=REORDERED)
    assert {kind: int(found.counts[kind]) for kind in counts} == counts
    table = found.per_class
    for error in run.error_dict:
        fixed = run.fix_errors(lambda x, kind=error: isinstance(x, kind))
        kind = KINDS[["Cls", "Loc", "Both", "Dupe", "Bkg", "Miss"].index(error.short_name)]
        for label, cost, ap in zip(*(table[name].tolist() for name in ("class", kind, "ap")), strict=True):
            if cost == cost and fixed.objs[label].num_gt_positives:
                assert ap + cost == pytest.approx(fixed.objs[label].get_ap() / 100, abs=REORDERED)


LEVELS_OF_TIDECV = [x / 100 for x in range(101)]  # some differ by one bit from COCO's


def test_errors_equal_tidecv():
    preds, target = comparable(*joined(random_scene, range(100)))
    metric = MeanAveragePrecision("xywh", rec_thresholds=LEVELS_OF_TIDECV)
    same_as_tidecv(updated(metric, preds, target), tidecv_run(preds, target))


def test_errors_of_masks_equal_tidecv():
    mask = pytest.importorskip("pycocotools.mask")
    preds, target = comparable(*joined(random_scene, range(40)))
    for image in (*preds, *target):
        boxes = image["boxes"].clamp(min=1).numpy()
        image["masks"] = mask.frPyObjects(boxes, 256, 256) if len(boxes) else []
    metric = MeanAveragePrecision(iou_type="segm", rec_thresholds=LEVELS_OF_TIDECV)
    updated(metric, *([{k: v for k, v in x.items() if k != "boxes"} for x in side] for side in (preds, target)))
    same_as_tidecv(metric, tidecv_run(preds, target, key="mask"))


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_errors_of_coco_equal_tidecv(public_data, kind):
    """COCO's images with their crowds; scores without ties, no detections of classes without ground truths."""
    mask = pytest.importorskip("pycocotools.mask")
    folder = public_data / "coco_val2014_100"
    annotations = read_annotations(folder / "instances_val2014_100.json", kind)
    data = read_results(annotations, folder / f"instances_val2014_fake{kind}100_results.json")
    preds, target = (unpacked(side) for side in (data.preds, data.target))
    for image in target if kind == "segm" else ():
        image["masks"] = [
            mask.frPyObjects(x, *x["size"]) if isinstance(x["counts"], list) else x for x in image["masks"]
        ]
    known = torch.cat([t["labels"][t["iscrowd"] == 0] for t in target]).unique()
    preds = [chosen(p, torch.isin(p["labels"], known)) for p in untied(preds)]
    metric = MeanAveragePrecision("xywh", kind, use_given_area=True, rec_thresholds=LEVELS_OF_TIDECV)
    metric.update(preds, target)
    same_as_tidecv(metric, tidecv_run(preds, target, key={"bbox": "bbox", "segm": "mask"}[kind], crowds=True))


def chosen(image, kept):
    return {name: [x[i] for i in kept.nonzero().flatten()] if name == "masks" else x[kept] for name, x in image.items()}


def unpacked(images):
    """Return lists of dicts, from either form."""
    if not isinstance(images, dict):
        return images
    counts = images["counts"].tolist()
    parts = {name: x.split(counts) for name, x in images.items() if name != "counts"}
    return [dict(zip(parts, each, strict=True)) for each in zip(*parts.values(), strict=True)]


def boxes_of(*places):
    return torch.tensor([[float(x), 0, 10, 10] for x in places]).reshape(-1, 4)


def image_of(places, labels, scores=None, **further):
    image = {"boxes": boxes_of(*places), "labels": torch.tensor(labels, dtype=torch.int64)}
    return image | ({} if scores is None else {"scores": torch.tensor(scores)}) | further


def test_ties_cost_nothing_that_tidecv_makes_of_them():
    """tidecv orders equal scores differently before and after fixing, so fixing nothing changes its AP."""
    preds, target = [image_of([0, 50], [0, 0], [0.5, 0.5])], [image_of([0], [0], iscrowd=torch.zeros(1))]
    found = updated(MeanAveragePrecision("xywh"), preds, target).errors()
    assert found.average_precision == 1
    assert found.false_negatives == found.missed == found.classification == 0
    run = tidecv_run(preds, target)
    assert run.ap == 100
    assert run.fix_errors().get_mAP() == 50
    assert tidecv_costs(run)[0]["false_negatives"] == -0.5


def test_detections_in_a_crowd_are_no_errors():
    """tidecv counts it as an error; fixed, it becomes a true positive without having been a false one."""
    target = [image_of([0, 4], [0, 0], iscrowd=torch.tensor([0, 1]))]
    preds = [image_of([5.5], [0], [0.9])]
    metric = updated(MeanAveragePrecision("xywh"), preds, target)
    found = metric.errors()
    assert found.counts["localization"] == 0
    assert (int(found.counts["missed"]), float(found.localization)) == (1, 0)
    assert metric.detections_table()["kind"].tolist() == [DETECTION_KINDS.index("ignored")]
    run = tidecv_run(preds, target, crowds=True)
    counts, costs = (
        {kind.short_name: x for kind, x in each.items()} for each in (run.count_errors(), run.fix_main_errors())
    )
    assert (counts["Loc"], counts["Miss"], costs["Loc"]) == (1, 0, 100)


def test_classes_without_ground_truths_have_no_ap():
    """tidecv gives them an AP of 0, and no AP once their detections are fixed away."""
    preds = [image_of([0, 90], [0, 1], [0.9, 0.8])]
    target = [image_of([0], [0], iscrowd=torch.zeros(1))]
    found = updated(MeanAveragePrecision("xywh"), preds, target).errors()
    assert (float(found.average_precision), float(found.background)) == (1, 0)
    assert found.counts["background"] == 1
    assert found.per_class["background"].isnan().tolist() == [False, True]
    costs, ap, _ = tidecv_costs(tidecv_run(preds, target))
    assert (ap, costs["background"]) == (0.5, 0.5)


def test_a_class_without_remaining_items_has_no_ap():
    """A class without detections has no precision after the fix; its AP is 0 if its detections are wrong."""
    target = [image_of([0, 50, 90], [0, 1, 2])]
    found = updated(MeanAveragePrecision("xywh"), [image_of([0, 30], [0, 2], [0.9, 0.8])], target).errors()
    assert found.average_precision == pytest.approx(1 / 3)
    assert found.missed == pytest.approx(1 / 2 - 1 / 3)
    assert found.per_class["missed"].tolist() == pytest.approx([0, float("nan"), 0], nan_ok=True)


def test_of_several_errors_about_one_ground_truth_the_best_is_mended():
    preds = [image_of([4, 0, 5], [0, 1, 0], [0.9, 0.8, 0.7])]
    target = [image_of([0, 90], [0, 1])]
    metric = updated(MeanAveragePrecision("xywh"), preds, target)
    found = metric.errors()
    assert metric.detections_table()["kind"].tolist() == [2, 1, 2]
    assert found.localization == 0.5
    assert found.classification == 0  # its ground truth goes to the better localized detection
    assert found.counts["missed"] == 1


# -- other tables


def test_a_row_per_image():
    preds, target = random_scene(5, images=40, classes=3)
    metric = updated(MeanAveragePrecision("xywh"), preds, target, parts=3)
    table = metric.per_image(0.6, score_threshold=0.3)
    alone = [updated(MeanAveragePrecision("xywh"), [p], [t]) for p, t in zip(preds, target, strict=True)]
    values = [float(x.compute()["map"]) for x in alone]
    np.testing.assert_allclose(table["ap"], [np.nan if x == -1 else x for x in values], atol=REORDERED)
    for place, one in enumerate(alone):
        each = one.per_class(0.6, 0.3)
        tp, fp, m = (int(each[name].sum()) for name in ("tp", "fp", "ground_truths"))
        assert [int(table[name][place]) for name in ("tp", "fp", "missed")] == [tp, fp, m - tp]
        assert table["f1"][place] == pytest.approx(2 * tp / (tp + fp + m) if tp + fp + m else np.nan, nan_ok=True)
    assert table["image"].tolist() == list(range(40))


def voc_images():
    return to_voc(*random_scene(6, images=20, classes=2))


def lvis_images():
    preds, target = random_scene(12, images=60, classes=3)
    for place, image in enumerate(target):
        absent = [x for x in range(3) if x not in (place % 3, *image["labels"].tolist())]
        image["neg_category_ids"] = torch.tensor(absent, dtype=torch.int64)
        image["not_exhaustive_category_ids"] = torch.tensor([place % 3])
        image["ignore"] = image.pop("iscrowd")
    return preds, target


def nuscenes_images():
    points = [[{"centers": x["boxes"][:, :2] / 8} | x for x in y] for y in random_scene(8, images=40, classes=2)]
    return [[{name: x[name] for name in x if name not in ("boxes", "iscrowd", "area")} for x in y] for y in points]


@pytest.mark.parametrize(
    ("make", "draw"),
    [
        (partial(VOCMeanAveragePrecision, iou_thresholds=[0.5, 0.3], interpolation="11-point"), voc_images),
        (
            partial(LVISMeanAveragePrecision, "xywh", iou_thresholds=[0.75, 0.3, 0.5]),
            lvis_images,
        ),
        (NuScenesMeanAveragePrecision, nuscenes_images),
    ],
)
def test_a_row_per_image_of_other_rules(make, draw):
    preds, target = draw()
    alone = [float(updated(make(), [p], [t]).compute()["map"]) for p, t in zip(preds, target, strict=True)]
    found = updated(make(), preds, target).per_image()["ap"]
    np.testing.assert_allclose(found, [np.nan if x == -1 else x for x in alone], atol=REORDERED)


def test_images_have_their_ids():
    preds, target = random_scene(7, images=3, classes=2)
    ids = torch.tensor([30, 10, 30, 20])
    metric = MeanAveragePrecision("xywh")
    metric.update([preds[x] for x in (0, 1, 0, 2)], [target[x] for x in (0, 1, 0, 2)], sample_ids=ids)
    assert metric.per_image()["image"].tolist() == [30, 10, 20]
    images = torch.repeat_interleave(torch.tensor([30, 10, 20]), torch.tensor([len(x["labels"]) for x in preds]))
    assert torch.equal(metric.detections_table()["image"], images)


def tied_image(draw):
    """Return detections of three classes near four objects, with three scores."""
    true = 10 * torch.randint(4, (4, 2), generator=draw).repeat(1, 2) + torch.tensor([0, 0, 10, 10])
    found = true[torch.randint(4, (12,), generator=draw)] + torch.randint(3, (12, 1), generator=draw)
    classes, scores = torch.randint(3, (2, 12), generator=draw)
    return {"boxes": found, "labels": classes, "scores": scores / 4}, {"boxes": true, "labels": classes[:4]}


@pytest.mark.parametrize("seed", range(12))
def test_errors_are_errors_of_counted_detections(seed):
    draw = torch.Generator().manual_seed(seed)
    preds, target = zip(*(tied_image(draw) for _ in range(3)), strict=True)

    def best(image, most):
        order = image["scores"].argsort(descending=True, stable=True)
        first = torch.cat([order[image["labels"][order] == label][:most] for label in range(3)])
        return chosen(image, torch.zeros(len(order), dtype=torch.bool).index_fill_(0, first, True))

    limited = updated(MeanAveragePrecision(max_detection_thresholds=[3]), preds, target)
    assert limited.errors() == updated(MeanAveragePrecision(), [best(p, 3) for p in preds], target).errors()


def test_detections_beyond_the_limit_do_not_count():
    metric = MeanAveragePrecision("xywh", max_detection_thresholds=[1])
    updated(metric, [image_of([0, 50, 70], [0, 0, 0], [0.5, 0.9, 0.7])], [image_of([0], [0])])
    table = metric.detections_table()
    assert table["kind"].tolist() == [6, 5, 6]
    assert table["ground_truth"].tolist() == [-1, -1, -1]
    assert metric.per_image()["fp"].tolist() == [1]


def lrp_by_definition(oracle, label, tau):
    """Return (LRP, localization, FP, FN, threshold) of one class, for detections above each distinct score."""
    m = sum(x["class"] == label and x["valid"] for x in oracle.truths)
    rows = sorted((x for x in oracle.detections if x["class"] == label), key=lambda x: (-x["score"], x["order"]))
    best, tp, fp, off = (), 0, 0, 0.0
    for x, after in zip(rows, [*rows[1:], {"score": None}], strict=False):
        hit = x["kind"] == "true positive"
        tp, fp, off = tp + hit, fp + (not hit and x["kind"] != "ignored"), off + (1 - x["iou"] if hit else 0)
        if (
            tp
            and m
            and x["score"] != after["score"]
            and (not best or (off / (1 - tau) + fp + m - tp) / (fp + m) < best[0])
        ):
            parts = (off / tp if tp else np.nan, fp / (tp + fp) if tp + fp else np.nan, 1 - tp / m)
            best = ((off / (1 - tau) + fp + m - tp) / (fp + m), *parts, x["score"])
    return best if tp and m else (1, np.nan, np.nan, 1, np.nan) if m else (np.nan,) * 5


@pytest.mark.parametrize("name", ["coco", "voc"])
def test_lrp_is_its_definition(name):
    metric, oracle = cases(name)
    found = metric.lrp()
    names = ("lrp", "localization", "false_positives", "false_negatives", "score_threshold")
    wanted = np.array([lrp_by_definition(oracle, x, 0.5) for x in found.per_class["class"].tolist()])
    for column, values in zip(names, wanted.T, strict=True):
        np.testing.assert_allclose(found.per_class[column], values, atol=REORDERED, err_msg=column)
        if column != "score_threshold":
            assert getattr(found, column) == pytest.approx(float(found.per_class[column].nanmean()), abs=REORDERED)


@pytest.mark.parametrize("seed", range(20))
def test_lrp_of_equal_scores_is_that_of_its_threshold_in_any_order(seed):
    preds, target = random_scene(seed, images=4, classes=2)
    preds = [x | {"scores": (x["scores"] * 3).round() / 3} for x in preds]
    metric = updated(MeanAveragePrecision("xywh"), preds, target)
    found = metric.lrp().per_class
    at = metric.operating_points(score_threshold=found["score_threshold"].nan_to_num(torch.inf))
    some = found["localization"].isfinite()
    torch.testing.assert_close(found["false_positives"][some], (1 - at.precision)[some])
    torch.testing.assert_close(found["false_negatives"][some], (1 - at.recall)[some])
    order = torch.arange(len(preds)).flip(0).tolist()
    other = updated(MeanAveragePrecision("xywh"), [preds[x] for x in order], [target[x] for x in order]).lrp().per_class
    assert torch.equal(other["score_threshold"].nan_to_num(), found["score_threshold"].nan_to_num())
    torch.testing.assert_close(other["lrp"], found["lrp"], equal_nan=True)


@pytest.mark.parametrize("method", ["errors", "lrp", "operating_points", "confusion_matrix"])
def test_one_name_of_two_classes_is_refused(method):
    metric = updated(VOCMeanAveragePrecision(), *to_voc(*random_scene(3, images=3, classes=2)))
    with pytest.raises(ValueError, match="`class_names` must be unique, got 'cat' twice"):
        getattr(metric, method)(class_names=["cat"] * 50)


@pytest.mark.parametrize("tau", [0.5, 0.6])
def test_lrp_of_1_throughout_is_taken_where_something_is_found(tau):
    boxes = torch.tensor([[100.0, 100, 110, 110], [0, 0, 10, 10 * tau]])
    metric = MeanAveragePrecision(iou_thresholds=[tau])
    found = {"boxes": boxes, "scores": torch.tensor([0.9, 0.5]), "labels": torch.tensor([0, 0])}
    metric.update([found], [{"boxes": torch.tensor([[0.0, 0, 10, 10]]), "labels": torch.tensor([0])}])
    lrp = metric.lrp()
    assert float(lrp.lrp) == pytest.approx(1)
    assert float(lrp.localization) == pytest.approx(1 - tau)
    assert lrp.per_class["score_threshold"].tolist() == [0.5]
    assert (float(lrp.false_positives), float(lrp.false_negatives)) == (0.5, 0)


def test_lrp_equals_vernier():
    vernier = pytest.importorskip("vernier.instance")
    lrp = pytest.importorskip("vernier._lrp")
    preds, target = joined(random_scene, range(60))
    preds = untied(preds)
    truths, found = [], []
    for image, (p, t) in enumerate(zip(preds, target, strict=True)):
        for j, label in enumerate(t["labels"].tolist()):
            one = {"image_id": image, "category_id": label, "bbox": t["boxes"][j].tolist(), "area": float(t["area"][j])}
            truths.append(one | {"id": len(truths) + 1, "iscrowd": int(t["iscrowd"][j])})
        for i, label in enumerate(p["labels"].tolist()):
            one = {"image_id": image, "category_id": label, "bbox": p["boxes"][i].tolist()}
            found.append(one | {"score": float(p["scores"][i])})
    images = [{"id": image, "width": 64, "height": 64} for image in range(len(preds))]
    labels = sorted({x["category_id"] for x in (*truths, *found)})
    data = {"images": images, "annotations": truths, "categories": [{"id": x, "name": str(x)} for x in labels]}
    grid = sorted({x["score"] for x in found})
    theirs = lrp.optimal_lrp(json.dumps(data).encode(), json.dumps(found).encode(), iou=vernier.Bbox(), tau_grid=grid)
    ours = updated(MeanAveragePrecision("xywh"), preds, target).lrp()
    assert float(ours.lrp) == pytest.approx(theirs.olrp, abs=REORDERED)
    np.testing.assert_allclose(ours.per_class["lrp"], [x.olrp for x in theirs.per_class], atol=REORDERED)


# -- metrics in every use


def tables(metric):
    found = metric.errors()
    return [found.to_dict(), metric.lrp().to_dict(), metric.detections_table(), metric.per_image()]


def plain(tables):
    """Return tables as text with twelve digits, because a device sums in another order."""

    def rounded(value):
        if isinstance(value, dict):
            return {name: rounded(one) for name, one in value.items()}
        value = value.tolist() if isinstance(value, torch.Tensor) else value
        return (
            [rounded(x) for x in value]
            if isinstance(value, list)
            else round(value, 12)
            if isinstance(value, float)
            else value
        )

    return repr([rounded(x) for x in tables])


def test_two_ranks_agree_with_one(ranks):
    preds, target = random_scene(8, images=30, classes=3)
    wanted = plain(tables(updated(MeanAveragePrecision("xywh"), preds, target)))
    assert ranks(on_ranks, preds, target) == [wanted, wanted]


def on_ranks(rank, preds, target):
    part = slice(0, len(preds) // 2) if rank == 0 else slice(len(preds) // 2, None)
    return plain(tables(updated(MeanAveragePrecision("xywh", sync="exchange"), preds[part], target[part])))


@pytest.mark.gpu
@pytest.mark.parametrize("make", [partial(MeanAveragePrecision, "xywh"), VOCMeanAveragePrecision])
def test_an_accelerator_agrees_with_the_cpu(make):
    preds, target = random_scene(9, images=30, classes=3)
    if make is VOCMeanAveragePrecision:
        preds, target = to_voc(preds, target)
    wanted = tables(updated(make(), preds, target))
    moved = [[{name: x.to("cuda") for name, x in image.items()} for image in side] for side in (preds, target)]
    metric = updated(make().to("cuda"), *moved)
    assert {x.device.type for x in metric.detections_table().values()} == {"cuda"}
    assert metric.errors().missed.device.type == "cuda"
    assert plain(tables(metric)) == plain(wanted)
    assert metric.errors().to("cpu") == metric.errors()


def test_records_are_plain_and_can_be_read():
    metric, *_ = coco_scenes(150)
    names = {label: f"class {label}" for label in range(450)}
    for found in (metric.errors(class_names=names), metric.lrp(class_names=names)):
        text = json.dumps(found.to_dict(), allow_nan=True)
        assert "class 0" in text
        assert "tensor" not in repr(found)
        assert found == found.to("cpu")
        with pytest.raises(AttributeError):
            found.iou_threshold = 1


def test_nothing_found_and_nothing_to_find():
    for preds, target in (
        ([image_of([], [], [])], [image_of([0], [3])]),
        ([image_of([0], [3], [0.5])], [image_of([], [])]),
    ):
        metric = updated(MeanAveragePrecision("xywh"), preds, target)
        found, lrp = metric.errors(), metric.lrp()
        assert found.per_class["class"].tolist() == [3]
        assert int(found.counts["false_positives"] + found.counts["false_negatives"]) == 1
        assert len(metric.detections_table()["kind"]) == len(preds[0]["labels"])
        assert metric.per_image()["tp"].tolist() == [0]
        assert lrp.lrp == 1 if len(target[0]["labels"]) else lrp.lrp.isnan()
    metric = MeanAveragePrecision("xywh")
    metric.update([], [])
    assert metric.errors().average_precision.isnan()
    assert metric.lrp().lrp.isnan()
    assert [len(x) for x in (*metric.per_image().values(), *metric.detections_table().values())] == [0] * 13


def test_any_similarity_agrees_with_boxes():
    preds, target = random_scene(13, images=30, classes=3)
    target = [{**t, "iscrowd": torch.zeros_like(t["iscrowd"])} for t in target]
    wanted = updated(MeanAveragePrecision("xywh"), preds, target)

    def image_ious(p, t):
        return box_iou(p["boxes"], t["boxes"], "xywh")

    def pairwise_iou(one, two, _):
        return torch.stack([box_iou(x[None], y[None], "xywh")[0, 0] for x, y in zip(one, two, strict=True)])

    given = [
        {**p, "ious": image_ious(p, t), "area": torch.ones(len(p["labels"]))}
        for p, t in zip(preds, target, strict=True)
    ]
    for metric, images in (
        (MeanAveragePrecision(iou_type="precomputed"), given),
        (MeanAveragePrecision(iou_type=image_ious), given),
        (MeanAveragePrecision(iou=pairwise_iou), preds),
    ):
        updated(metric, images, target)
        assert metric.errors() == wanted.errors()
        assert plain(tables(metric)) == plain(tables(wanted))


def test_several_kinds_of_shapes_and_micro_averages():
    preds, target = random_scene(10, images=10, classes=3)
    micro = updated(MeanAveragePrecision("xywh", average="micro"), preds, target)
    assert micro.errors() == updated(MeanAveragePrecision("xywh"), preds, target).errors()
    left = torch.arange(8).expand(1, 8, 8) < 4
    masks = [left, ~left]
    sides = [{**image_of([0], [0]), "masks": mask} for mask in masks]
    metric = MeanAveragePrecision("xywh", iou_type=("bbox", "segm"))
    metric.update([sides[0] | {"scores": torch.tensor([0.5])}], [sides[1]])
    assert (metric.errors().average_precision, metric.errors(iou_type="segm").average_precision) == (1, 0)
    assert metric.lrp(iou_type="segm").lrp == 1


def test_low_thresholds_of_iou_lower_that_of_background():
    scene = to_voc(*random_scene(12, images=10))
    found = updated(VOCMeanAveragePrecision(iou_thresholds=0.05), *scene).errors()
    assert (found.iou_threshold, found.background_threshold) == (0.05, 0.05)
    metric = updated(VOCMeanAveragePrecision(iou_thresholds=0), *scene)
    for method in (metric.errors, metric.detections_table):
        with pytest.raises(ValueError, match=r"`iou_threshold` must be above 0 .* got 0\.0"):
            method()
    assert len(metric.per_image()["ap"]) == 10


@pytest.mark.parametrize(
    ("method", "argument", "value"),
    [
        ("errors", "iou_threshold", 0.42),
        ("errors", "iou_threshold", "0.5"),
        ("errors", "background_threshold", 0.0),
        ("errors", "background_threshold", 0.6),
        ("errors", "background_threshold", float("nan")),
        ("errors", "iou_type", "segm"),
        ("errors", "class_names", ["a", 3]),
        ("detections_table", "iou_threshold", 0.42),
        ("detections_table", "background_threshold", -1),
        ("per_image", "iou_threshold", 0.42),
        ("per_image", "score_threshold", float("nan")),
        ("per_image", "iou_type", "segm"),
        ("lrp", "iou_threshold", 1.0),
        ("lrp", "iou_threshold", 0.42),
        ("lrp", "class_names", 3),
    ],
)
def test_bad_arguments_are_named(method, argument, value):
    metric = updated(MeanAveragePrecision("xywh", iou_thresholds=[1.0, 0.5]), *random_scene(3, images=3))
    with pytest.raises(ValueError, match=f"`{argument}`.*got"):
        getattr(metric, method)(**{argument: value})


# -- the commands


def test_the_commands_print_errors_in_every_form(tmp_path, capsys):
    metric = updated(MeanAveragePrecision("xywh", class_names=["cat", "dog"]), *random_scene(11, images=20, classes=2))
    metric.tm_to_coco(str(tmp_path / "scene"))
    found = metric.errors()
    files = ["coco", *(str(tmp_path / f"scene_{side}.json") for side in ("target", "preds")), "--errors"]
    said = {
        form: printed([*files, *form.split()], capsys) for form in ("", "--json", "--csv", "--markdown --per-class")
    }
    document = json.loads(said["--json"])["errors"]
    rows = dict(line.rsplit(",", 1) for line in said["--csv"].splitlines())
    for kind in EVERY_KIND:
        assert document[kind] == pytest.approx(float(getattr(found, kind)), abs=REORDERED)
        assert document["counts"][kind] == int(found.counts[kind]) == int(rows[f"errors.{kind}_count,all"])
        assert float(rows[f"errors.{kind},all"]) == document[kind]
        line = next(x for x in said[""].splitlines() if x.startswith(kind.replace("_", " ")))
        assert line.split()[-2:] == [f"{document[kind]:.4f}", str(document["counts"][kind])]
    assert "per_class" not in document
    classes = json.loads(printed([*files, "--json", "--per-class"], capsys))["errors"]["per_class"]
    assert classes["name"] == ["cat", "dog"]
    np.testing.assert_allclose(classes["missed"], found.per_class["missed"], atol=REORDERED)
    assert f"| cat | {classes['ap'][0]:.4f} |" in said["--markdown --per-class"]


def printed(command, capsys):
    assert main.main(command) == 0
    return capsys.readouterr().out


# -- LVIS


def lvis_scenes(every):
    """Draw images that list categories; with ``every``, all absent ones, so that no other rule of LVIS applies."""
    preds, target = joined(random_federated, range(40))
    for p, t in zip(preds, target, strict=True):
        if every:
            absent = {*p["labels"].tolist()} - {*t["labels"].tolist()}
            t["neg_category_ids"] = torch.tensor([*absent], dtype=torch.int64)
            t["not_exhaustive_category_ids"] = torch.zeros(0, dtype=torch.int64)
            t["ignore"] = torch.zeros_like(t["ignore"])
            t["area"] = t["boxes"][:, 2:].prod(1).clamp(min=1)
    return preds, target


def test_errors_of_lvis_where_all_is_looked_for_are_cocos():
    def crowded(truths):
        return {key: truths[key] for key in ("boxes", "labels", "area")} | {"iscrowd": truths["ignore"]}

    preds, target = lvis_scenes(every=True)
    lvis = updated(LVISMeanAveragePrecision("xywh", use_given_area=True), preds, target)
    sized = [chosen(p, p["boxes"][:, 2:].prod(1) > 0) for p in preds]  # LVIS ignores objects without an area
    coco = updated(MeanAveragePrecision("xywh"), sized, [crowded(t) for t in target])
    assert lvis.errors() == coco.errors()
    assert plain([lvis.per_image()]) == plain([coco.per_image()])
    assert lvis.lrp() == coco.lrp()


def test_errors_of_lvis_are_errors_of_counted_items():
    preds, target = lvis_scenes(every=False)
    metric = updated(LVISMeanAveragePrecision("xywh", use_given_area=True), preds, target)
    found, table, classes = metric.errors(), metric.detections_table(), metric.per_class()
    known = classes["ground_truths"] > 0
    np.testing.assert_allclose(found.per_class["ap"][known], classes["ap_50"][known], atol=REORDERED)
    kinds = torch.bincount(table["kind"], minlength=len(DETECTION_KINDS))
    assert kinds[0] == classes["tp"].sum()
    assert kinds[1:6].sum() == classes["fp"].sum() == found.counts["false_positives"] > 0
    assert kinds[6] > 0
    assert found.counts["false_negatives"] == (classes["ground_truths"] - classes["tp"]).sum() > 0
    images = metric.per_image()
    assert [int(images[name].sum()) for name in ("tp", "fp")] == [int(classes[name].sum()) for name in ("tp", "fp")]


def test_confusion_matrices_match_again_only_for_lower_scores(monkeypatch):
    match, is_partial = coco.match, []

    def counted(*args, kept=None, **options):
        is_partial.append(kept is not None)
        return match(*args, kept=kept, **options)

    monkeypatch.setattr(coco, "match", counted)
    preds, target = random_scene(0, images=100)
    metric, other = (updated(MeanAveragePrecision("xywh"), preds, target) for _ in range(2))
    other.compute()
    is_partial.clear()
    expected = {x: other.confusion_matrix(score_threshold=x) for x in (0.97, 0.95, 0.9)}
    assert not is_partial
    for score, matched in ((0.95, [True]), (0.95, [True]), (0.97, [True]), (0.9, [True, False])):
        assert metric.confusion_matrix(score_threshold=score) == expected[score]
        assert is_partial == matched
    metric.errors()
    assert metric.confusion_matrix(score_threshold=0.95) == expected[0.95]
    assert len(is_partial) == 2
    updated(metric, preds, target)
    assert metric.confusion_matrix(score_threshold=0.95).matrix.sum() == 2 * expected[0.95].matrix.sum()
    assert is_partial[2:] == [True]
