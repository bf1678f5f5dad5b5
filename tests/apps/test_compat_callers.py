"""The calls of other projects give pycocotools' numbers: each test repeats the calls and the attributes of one project.

The projects import ``COCO``, ``COCOeval`` and ``mask``. Each test runs with pycocotools and with `torch_ap.compat`.
"""

import contextlib
import copy
import io
import itertools
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from pycocotools import coco, cocoeval
from pycocotools import mask as peer_mask

from tests.apps.test_compat import HEIGHT, WIDTH, is_equal, own_data, random_data, silently
from torch_ap import compat
from torch_ap.compat import COCO, CocoDetection, COCOeval, CocoEvaluator, LVISEval, mask

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


class Pycocotools:
    """The names of pycocotools that other projects import."""

    COCO, COCOeval, mask = coco.COCO, cocoeval.COCOeval, peer_mask


@pytest.fixture
def files(tmp_path):
    """Return the paths of annotations and results."""
    truth, results = random_data(np.random.default_rng(31), "bbox")
    paths = tmp_path / "truth.json", tmp_path / "results.json"
    for path, content in zip(paths, ({"info": {}} | truth, results), strict=True):
        path.write_text(json.dumps(content))
    return tuple(map(str, paths))


def both(run, *args):
    """Return the results of a caller with pycocotools and with this package."""
    with contextlib.redirect_stdout(io.StringIO()):
        return run(Pycocotools, *args), run(compat, *args)


def content(path):
    return json.loads(Path(path).read_text())


def detectron2(package, truth_path, results_path):
    """Return the numbers of COCOEvaluator: facebookresearch/detectron2, coco_evaluation.py at 021ec57."""
    api = package.COCO(truth_path)
    assert len(api.getAnnIds()) > 0
    results = copy.deepcopy(content(results_path))
    evaluation = package.COCOeval(api, api.loadRes(results), "bbox")
    evaluation.params.maxDets = [1, 10, 100]
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    numbers = [float(evaluation.stats[place] * 100) for place in range(6)]
    precisions = evaluation.eval["precision"]
    assert len(api.loadCats(api.getCatIds())) == precisions.shape[2]
    for place in range(precisions.shape[2]):
        precision = precisions[:, :, place, 0, -1]
        precision = precision[precision > -1]
        numbers.append(np.mean(precision) if precision.size else -1)
    return numbers


def mmdetection(package, truth_path, results_path):
    """Return the numbers of CocoMetric: open-mmlab/mmdetection, coco_metric.py at 013e541 (wrapper classes too)."""

    class Wrapper(package.COCO):
        def __init__(self, annotation_file=None):
            super().__init__(annotation_file=annotation_file)
            self.img_ann_map, self.cat_img_map = self.imgToAnns, self.catToImgs

        def get_cat_ids(self, cat_names=(), sup_names=(), cat_ids=()):
            return self.getCatIds(list(cat_names), list(sup_names), list(cat_ids))

    api = Wrapper(truth_path)
    detections = api.loadRes(content(results_path))
    out = []
    for kind, proposals in (("bbox", False), ("bbox", True)):
        evaluation = package.COCOeval(api, detections, kind)
        evaluation.params.catIds = api.get_cat_ids(cat_names=[x["name"] for x in api.dataset["categories"]])
        evaluation.params.imgIds = api.getImgIds()
        evaluation.params.maxDets = [100, 300, 1000]
        evaluation.params.iouThrs = np.linspace(0.5, 0.95, 10)
        if proposals:
            evaluation.params.useCats = 0
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
        out.append([float(f"{x:.3f}") for x in evaluation.stats])
        for place, category in enumerate(() if proposals else evaluation.params.catIds):
            name = api.loadCats(int(category))[0]["name"]
            precision = evaluation.eval["precision"][:, :, place, 0, -1]
            out.append([name, precision[precision > -1].mean() if (precision > -1).any() else -1])
    return out


def sahi(package, truth_path, results_path):
    """Return the numbers of evaluate_core: obss/sahi, scripts/coco_evaluation.py at 014f5cb."""
    truth = package.COCO(truth_path)
    evaluation = package.COCOeval(truth, truth.loadRes(content(results_path)), "bbox")
    params = evaluation.params
    params.areaRng = [[0, 1e10], [0, 1024], [1024, 9216], [9216, 1e10]]
    params.catIds = list(truth.cats.keys())
    params.maxDets = [500]
    params.iouThrs = np.linspace(0.5, 0.95, 10)
    evaluation.evaluate()
    evaluation.accumulate()
    out = []
    for area, threshold in itertools.product(("all", "small", "medium", "large"), (None, 0.5)):
        areas = [place for place, name in enumerate(params.areaRngLbl) if name == area]
        limits = [place for place, limit in enumerate(params.maxDets) if limit == 500]
        values = evaluation.eval["precision"]
        if threshold is not None:
            values = values[np.where(threshold == params.iouThrs)[0]]
        per_category = values[:, :, 0, areas, limits]
        values = values[:, :, :, areas, limits]
        out += [x[x > -1].mean() if (x > -1).any() else -1 for x in (values, per_category)]
    return [*out, truth.getImgIds(catIds=[params.catIds[0]])]


def rf_detr(package, truth_path, results_path):
    """Return the numbers of a backend: roboflow/rf-detr, training/coco_map.py at 02bf877, with torchmetrics 1.9.0.

    A backend is a module with COCO, COCOeval and mask. Data sets are filled, not loaded.
    """
    data, results = content(truth_path), content(results_path)
    truth, detections = package.COCO(), package.COCO()
    for number, result in enumerate(results, 1):
        result |= {"id": number, "area": result["bbox"][2] * result["bbox"][3], "iscrowd": 0}
    truth.dataset = {key: data[key] for key in ("images", "annotations", "categories")}
    detections.dataset = truth.dataset | {"annotations": results}
    out = []
    for data in (truth, detections):
        data.createIndex()
    assert all(callable(getattr(package.mask, name)) for name in ("encode", "decode", "area", "iou", "toBbox"))
    evaluation = package.COCOeval(truth, detections, iouType="bbox")
    evaluation.params.iouThrs = np.linspace(0.5, 0.95, 10)
    evaluation.params.recThrs = np.linspace(0, 1, 101)
    evaluation.params.maxDets = [1, 10, 100]
    for category in (None, *sorted(truth.cats)):  # torchmetrics evaluates each class again
        if category is not None:
            evaluation.params.catIds = [category]
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
        out += [evaluation.stats, evaluation.eval["precision"], evaluation.eval["recall"], evaluation.ious]
    return out


def supervision(package, truth_path, results_path):
    """Return the numbers that roboflow/supervision 0.31.2 reads from a data set: polygons and boxes by image."""
    truth = package.COCO(truth_path)
    out = []
    for image in sorted(truth.getImgIds()):
        listed = truth.loadAnns(truth.getAnnIds(imgIds=[image], iscrowd=None))
        out.append([(x["bbox"], x["category_id"]) for x in listed])
        out.append(truth.loadImgs([image])[0]["id"])
    detections = truth.loadRes(results_path)
    return [*out, [(x["id"], x["area"], x["score"]) for x in detections.dataset["annotations"]]]


@pytest.mark.parametrize("run", [detectron2, mmdetection, sahi, rf_detr, supervision])
def test_numbers_of_other_projects(run, files):
    peer, own = both(run, *files)
    assert is_equal(peer, own)


def gathered_batches(package, truth, batches):
    """Return the stats of the evaluators that gather ``evalImgs``.

    pytorch/vision, references/detection/coco_eval.py at 12e7d7b; rf-detr, datasets/coco_eval.py at 35ac6ab.
    """
    data = package.COCO()
    data.dataset = truth
    data.createIndex()
    evaluation = package.COCOeval(copy.deepcopy(data), iouType="bbox")
    image_ids, listed = [], []
    for images, results in batches:
        evaluation.cocoDt = package.COCO.loadRes(data, copy.deepcopy(results)) if results else package.COCO()
        evaluation.params.imgIds = list(np.unique(images))
        evaluation.evaluate()
        params = evaluation.params
        shape = len(params.catIds), len(params.areaRng), len(params.imgIds)
        listed.append(np.asarray(evaluation.evalImgs).reshape(shape))
        image_ids += params.imgIds
    merged, first = np.unique(image_ids, return_index=True)
    evaluation.evalImgs = list(np.concatenate(listed, 2)[..., first].flatten())
    evaluation.params.imgIds = list(merged)
    evaluation._paramsEval = copy.deepcopy(evaluation.params)
    evaluation.accumulate()
    evaluation.summarize()
    return evaluation.stats, pickle.loads(pickle.dumps(evaluation.eval))["precision"]  # DETR and D-FINE save `eval`


def rt_detr(package, truth, batches, kind):
    """Return the stats of RT-DETR's own evaluator, which also is DETR's: it calls the parts of ``evaluate``.

    lyuwenyu/RT-DETR, rtdetr_pytorch/src/data/coco/coco_eval.py and src/solver/det_engine.py at 068dfde.
    """
    data = package.COCO()
    data.dataset = truth
    data.createIndex()
    evaluation = package.COCOeval(copy.deepcopy(data), iouType=kind)
    params, image_ids, listed = evaluation.params, [], []
    for images, results in batches:
        ids = list(np.unique(images))
        evaluation.cocoDt = package.COCO.loadRes(data, copy.deepcopy(results)) if results else package.COCO()
        params.imgIds = list(ids)
        assert params.useSegm is None
        params.imgIds, params.catIds = list(np.unique(params.imgIds)), list(np.unique(params.catIds))
        params.maxDets = sorted(params.maxDets)
        evaluation.params = params
        evaluation._prepare()
        iou = evaluation.computeOks if params.iouType == "keypoints" else evaluation.computeIoU
        evaluation.ious = {pair: iou(*pair) for pair in itertools.product(params.imgIds, params.catIds)}
        cells = itertools.product(params.catIds, params.areaRng, params.imgIds)
        entries = [evaluation.evaluateImg(x, category, area, params.maxDets[-1]) for category, area, x in cells]
        listed.append(np.asarray(entries).reshape(len(params.catIds), len(params.areaRng), len(params.imgIds)))
        evaluation._paramsEval = copy.deepcopy(evaluation.params)
        image_ids.extend(ids)
    merged, first = np.unique(image_ids, return_index=True)
    evaluation.evalImgs = list(np.concatenate(listed, 2)[..., first].flatten())
    evaluation.params.imgIds = list(merged)
    evaluation._paramsEval = copy.deepcopy(evaluation.params)
    evaluation.accumulate()
    evaluation.summarize()
    return {"coco_eval_bbox": evaluation.stats.tolist()}, evaluation.eval["precision"]


@pytest.mark.parametrize("kind", ["bbox", "segm", "keypoints"])
def test_evaluator_of_rt_detr(kind):
    truth, results = random_data(np.random.default_rng(17), kind)
    batches = batches_of(truth, results)
    peer, own = both(rt_detr, truth, batches, kind)
    assert is_equal(peer, own)
    evaluator = CocoEvaluator(truth, [kind])  # RT-DETRv2, rtdetrv2_pytorch/src/solver/det_engine.py at 068dfde
    evaluator.cleanup()
    for images, _ in batches:
        evaluator.update(predictions_of(images, results, kind))
    evaluator.synchronize_between_processes()
    evaluator.accumulate()
    silently(evaluator.summarize)
    assert evaluator.coco_eval[kind].stats.tolist() == peer[0]["coco_eval_bbox"]


def test_an_entry_of_an_image():
    truth, results = random_data(np.random.default_rng(17), "bbox")
    evaluation = COCOeval(*own_data(truth, results), "bbox")
    evaluation.evaluate()
    params = evaluation.params
    cell = params.imgIds[0], params.catIds[0], params.areaRng[0]
    assert evaluation.evaluateImg(*cell, 100) is evaluation.evalImgs[0]
    for place, name in enumerate(("imgId", "catId", "aRng")):
        changed = [*cell]
        changed[place] = (-7, 0) if name == "aRng" else -7
        with pytest.raises(ValueError, match=f"`{name}` must be one that `evaluate` has evaluated, got"):
            evaluation.evaluateImg(*changed, 100)
    with pytest.raises(ValueError, match="`maxDet` must be one of"):
        evaluation.evaluateImg(*cell, 10)


def batches_of(truth, results):
    """Return pairs of images and their results; the last batch repeats an image, as samplers do to pad."""
    images = [image["id"] for image in truth["images"]]
    parts = [images[:2], images[2:4], [*images[4:], images[0]]]
    return [(part, [x for x in results if x["image_id"] in part]) for part in parts]


def predictions_of(images, results, kind):
    """Return results as the dicts of tensors that models return, by image id."""
    out = {}
    for image in images:
        mine = [x for x in results if x["image_id"] == image]
        columns = {
            "scores": torch.tensor([x["score"] for x in mine], dtype=torch.float64),
            "labels": torch.tensor([x["category_id"] for x in mine], dtype=torch.int64),
        }
        if kind == "bbox":
            boxes = torch.tensor([x["bbox"] for x in mine], dtype=torch.float64).reshape(-1, 4)
            columns["boxes"] = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)
        elif kind == "segm":
            dense = [torch.from_numpy(mask.decode(x["segmentation"])) for x in mine]
            columns["masks"] = torch.stack(dense)[:, None].float() if mine else torch.zeros(0, 1, HEIGHT, WIDTH)
        else:
            points = torch.tensor([x["keypoints"] for x in mine], dtype=torch.float64)
            columns["keypoints"] = points.reshape(len(mine), 17, 3)
        out[image] = columns if mine else {}
    return out


def test_gathered_images():
    truth, results = random_data(np.random.default_rng(9), "bbox")
    peer, own = both(gathered_batches, truth, batches_of(truth, results))
    assert is_equal(peer, own)


@pytest.mark.parametrize("kind", ["bbox", "segm", "keypoints"])
def test_evaluator_of_batches(kind):
    """The calls of engine.evaluate: pytorch/vision references at 12e7d7b, D-FINE's det_engine.py at 4a1f73a."""
    truth, results = random_data(np.random.default_rng(9), kind)
    evaluators = [CocoEvaluator(data, [kind]) for data in (COCO(truth), truth)]
    alone = COCOeval(*own_data(truth, results), kind)
    alone.evaluate()
    alone.accumulate()
    silently(alone.summarize)
    for evaluator in evaluators:
        evaluator.update(predictions_of([truth["images"][0]["id"]], results, kind))
        evaluator.cleanup()
        assert evaluator.iou_types == [kind]
        for images, _ in batches_of(truth, results):
            evaluator.update(predictions_of(images, results, kind))
        evaluator.synchronize_between_processes()
        evaluator.accumulate()
        _, printed = silently(evaluator.summarize)
        assert printed.startswith(f"IoU metric: {kind}\n")
        assert evaluator.coco_eval[kind].stats.tolist() == alone.stats.tolist()
        assert is_equal(evaluator.coco_eval[kind].eval["precision"], alone.eval["precision"])


def test_a_part_of_the_images():
    truth, results = random_data(np.random.default_rng(12), "bbox")
    images = [image["id"] for image in truth["images"]][:3]
    evaluator = CocoEvaluator(truth, ["bbox", "segm"][:1])
    evaluator.update(predictions_of(images, results, "bbox"))
    evaluator.accumulate()
    alone = COCOeval(*own_data(truth, results), "bbox")
    alone.params.imgIds = images
    alone.evaluate()
    alone.accumulate()
    assert is_equal(evaluator.coco_eval["bbox"].eval["precision"], alone.eval["precision"])


def _evaluated_share(rank):
    """Return the stats of the evaluator in one of two processes; both have the first image."""
    truth, results = random_data(np.random.default_rng(9), "bbox")
    evaluator = CocoEvaluator(truth, ["bbox"])
    images = [image["id"] for image in truth["images"]]
    evaluator.update(predictions_of([images[0], *images[1 + rank :: 2]], results, "bbox"))
    evaluator.synchronize_between_processes()
    evaluator.accumulate()
    silently(evaluator.summarize)
    return evaluator.coco_eval["bbox"].stats.tolist()


def test_evaluator_in_two_processes(ranks):
    truth, results = random_data(np.random.default_rng(9), "bbox")
    alone = COCOeval(*own_data(truth, results), "bbox")
    alone.evaluate()
    alone.accumulate()
    silently(alone.summarize)
    assert ranks(_evaluated_share) == [alone.stats.tolist()] * 2


def test_invalid_predictions():
    truth, _ = random_data(np.random.default_rng(9), "bbox")
    evaluator = CocoEvaluator(truth, ["bbox"])
    image = truth["images"][0]["id"]
    tensors = {"scores": torch.ones(1), "labels": torch.ones(2, dtype=torch.int64), "boxes": torch.ones(1, 4)}
    with pytest.raises(ValueError, match="equally many labels, scores, boxes, got 2, 1, 1"):
        evaluator.update({image: tensors})
    tensors["labels"] = torch.ones(1, dtype=torch.int64)
    for key, value in (
        ("boxes", torch.ones(4)),
        ("boxes", torch.ones(1, 5)),
        ("boxes", np.ones((1, 4))),
        ("scores", None),
    ):
        got = re.escape(str(tuple(value.shape))) if isinstance(value, torch.Tensor) else ""
        with pytest.raises(ValueError, match=rf"`predictions\[{image}\]` must have `{key}`, a tensor of .*got {got}"):
            evaluator.update({image: tensors | {key: value}})
    with pytest.raises(TypeError, match=r"`predictions` must be a dict.*got \["):
        evaluator.update([tensors])
    with pytest.raises(ValueError, match="must have ids of images as keys, got 99"):
        evaluator.update({99: {}})
    assert evaluator.img_ids == []
    with pytest.raises(ValueError, match="iou_types"):
        CocoEvaluator(truth, "bbox")
    with pytest.raises(ValueError, match="iou_types"):
        CocoEvaluator(truth, ["boxes"])


def test_data_set_of_images(tmp_path):
    truth, _ = random_data(np.random.default_rng(9), "bbox")
    for image in truth["images"]:
        image["file_name"] = f"{image['id']}.png"
        Image.new("L", (WIDTH, HEIGHT), image["id"]).save(tmp_path / image["file_name"])
    data = CocoDetection(tmp_path, truth)
    assert data.ids == sorted(image["id"] for image in truth["images"])
    image, target = data[1]
    assert (image.mode, image.size, image.getpixel((0, 0))[0]) == ("RGB", (WIDTH, HEIGHT), data.ids[1])
    assert target == [x for x in truth["annotations"] if x["image_id"] == data.ids[1]]
    changed = CocoDetection(tmp_path, truth, transform=np.asarray, target_transform=len)[1]
    assert (changed[0].shape, changed[1]) == ((HEIGHT, WIDTH, 3), len(target))
    assert CocoDetection(tmp_path, truth, transforms=lambda *pair: pair[::-1])[1][0] == target
    with pytest.raises(ValueError, match="transforms"):
        CocoDetection(tmp_path, truth, len, transforms=lambda *pair: pair[::-1])


def evaluated(results, truth, kind="bbox"):
    evaluation = COCOeval(*own_data(truth, results), kind)
    evaluation.evaluate()
    evaluation.accumulate()
    return evaluation


def test_statistics_of_an_evaluation(tmp_path):
    truth, results = random_data(np.random.default_rng(21), "bbox")
    evaluation = evaluated(results, truth)
    _, printed = silently(evaluation.summarize, 0.9)
    interval = evaluation.confidence_interval(0.9)
    assert f"90% interval of the first number: {interval.low:.3f} to {interval.high:.3f}" in printed
    assert float(interval.estimate) == pytest.approx(evaluation.stats[0])
    metric = evaluation.to_metric()
    assert float(metric.compute()["map_small"]) == pytest.approx(evaluation.stats[3])
    assert metric.compute()["classes"].tolist() == evaluation.params.catIds
    reversed_scores = [x | {"score": 1 - x["score"]} for x in results]
    other = evaluated(reversed_scores, truth)
    comparison = evaluation.compare(other, n_resamples=50)
    assert float(comparison.difference) == pytest.approx(
        float(metric.compute()["map"] - other.to_metric().compute()["map"])
    )
    assert repr(evaluation.errors()) == repr(metric.errors())
    assert evaluation.operating_points().tp.tolist() == metric.operating_points().tp.tolist()
    path = evaluation.report(tmp_path / "report.md", other=other, n_resamples=20)
    text = path.read_text()
    assert f"{evaluation.stats[0]:.4f}" in text
    path = evaluation.report(tmp_path / "report.md", other=[other], n_resamples=20)
    assert path.read_text() == text
    text = evaluation.report(tmp_path / "report.md", other=(other, other.to_metric()), n_resamples=20).read_text()
    assert "## All systems" in text
    other.params.imgIds = other.params.imgIds[1:]
    other.evaluate()
    with pytest.raises(ValueError, match="same images"):
        evaluation.compare(other)
    with pytest.raises(TypeError, match="other"):
        evaluation.compare(5)
    other.evalImgs = []
    with pytest.raises(RuntimeError, match="evaluate"):
        other.errors()


def images_of_boxes(ids, offset):
    """Return annotations and results of one box per image; boxes of images of the second half are found worse."""
    boxes = [[10 + number, 10, 40, 40] for number in range(len(ids))]
    truth = {
        "images": [{"id": x, "height": 200, "width": 200, **LVIS_FIELDS} for x in ids],
        "categories": [{"id": 3, "name": "cat", "frequency": "f"}],
        "annotations": [
            {"id": place, "image_id": x, "category_id": 3, "bbox": box, "area": 1600, "iscrowd": 0}
            for place, (x, box) in enumerate(zip(ids, boxes, strict=True), 1)
        ],
    }
    moved = [[x + offset * (2 * place >= len(ids)), *rest] for place, (x, *rest) in enumerate(boxes)]
    scores = [1 - place / (2 * len(ids)) for place in range(len(ids))]
    keys = zip(ids, moved, scores, strict=True)
    return truth, [{"image_id": x, "category_id": 3, "bbox": box, "score": score} for x, box, score in keys]


LVIS_FIELDS = {"neg_category_ids": [], "not_exhaustive_category_ids": []}
IDS = {
    "numbers": [*range(1, 13)],
    "others": [*range(101, 125, 2)],
    "floats": [float(x) for x in range(1, 13)],
    "text": [f"image-{x:02}" for x in range(12)],
}


def evaluated_by(package, ids, offset):
    truth, results = images_of_boxes(ids, offset)
    if package == "coco":
        return evaluated(results, truth)
    evaluation = LVISEval(truth, results, "bbox")
    evaluation.run()
    return evaluation


@pytest.mark.parametrize("package", ["coco", "lvis"])
@pytest.mark.parametrize("kind", IDS)
def test_slices_groups_and_pages_use_the_ids_of_the_images(kind, package, tmp_path):
    ids = IDS[kind]
    one, other = (evaluated_by(package, ids, offset) for offset in (18, 10))
    slices, few = {"good": ids[:6], "bad": ids[6:], "first": ids[:1]}, {"n_resamples": 20}
    interval = one.confidence_interval(slices=slices, **few)
    alone = []
    for chosen in slices.values():
        part = evaluated_by(package, ids, 18)
        setattr(part.params, "imgIds" if package == "coco" else "img_ids", chosen)
        part.evaluate()
        alone.append(float(part.to_metric().compute()["map"]))
    assert interval.estimate.tolist() == pytest.approx(alone)
    assert alone[0] == pytest.approx(1)
    assert alone[1] < 0.5
    gaps = one.compare(other, slices=slices, **few)
    assert gaps.difference.tolist() == pytest.approx([0, alone[1] - float(other_half(other, ids, package)), 0])
    groups = {x: place % 10 for place, x in enumerate(ids)}
    metric = one.to_metric()
    of_metric = dict(zip(metric.per_image()["image"].tolist(), groups.values(), strict=True))
    pairs = [x.confidence_interval(groups=y) for x, y in ((one, groups), (metric, of_metric))]
    assert (float(pairs[0].low), float(pairs[0].high)) == (float(pairs[1].low), float(pairs[1].high))
    unknown = "image-99" if kind == "text" else 0
    for call in (one.confidence_interval, lambda **options: one.compare(other, **options)):
        with pytest.raises(ValueError, match=r"slices.*(image-99|0)"):
            call(slices={"day": [ids[0], unknown]}, **few)
        with pytest.raises(ValueError, match="`groups` must contain every image"):
            call(groups=dict(list(groups.items())[1:]))
    with pytest.raises(ValueError, match="slices"):
        one.report(tmp_path / "x.md", slices={"day": [unknown]}, **few)
    page = one.report(tmp_path / "x.md", other=other, slices=slices, **few).read_text()
    table = page.split("## All images")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ")[0] for line in table.splitlines() if line.startswith("|")]
    assert sorted(rows[2:]) == sorted(map(str, ids))


def other_half(evaluation, ids, package):
    """Return mAP of the second half of the images."""
    setattr(evaluation.params, "imgIds" if package == "coco" else "img_ids", ids[6:])
    evaluation.evaluate()
    value = evaluation.to_metric().compute()["map"]
    setattr(evaluation.params, "imgIds" if package == "coco" else "img_ids", ids)
    evaluation.evaluate()
    return value


@pytest.mark.parametrize("package", ["coco", "lvis"])
def test_the_metric_of_an_evaluation_has_the_ids_of_the_images(package):
    ids = IDS["others"]
    metric = evaluated_by(package, ids, 18).to_metric()
    assert metric.per_slice({"good": ids[:6], "bad": ids[6:]})["map"][0] == pytest.approx(1)
    assert {row["image"] for row in metric.suspicious_labels().rows()} <= set(ids[6:])
    assert metric.detections_table()["image"].unique().tolist() == ids
    with pytest.raises(ValueError, match="`sample_ids` of updates"):
        metric.per_slice({"first": [0]})


@pytest.mark.parametrize("kind", ["segm", "boundary", "keypoints"])
def test_other_shapes_have_statistics(kind):
    truth, results = random_data(np.random.default_rng(22), "segm" if kind == "boundary" else kind)
    evaluation = evaluated(results, truth, kind)
    silently(evaluation.summarize)
    assert float(evaluation.confidence_interval(n_resamples=10).estimate) == pytest.approx(evaluation.stats[0])
