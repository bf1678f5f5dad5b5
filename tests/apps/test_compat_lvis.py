"""The classes of `torch_ap.compat` for LVIS give the results of the package lvis to the last bit."""

import contextlib
import copy
import io
import json
import re
import sys

import numpy as np
import pytest
import torch

import torch_ap
from tests.apps.test_compat import is_equal, random_data
from tests.support import oracles_lvis
from tests.support.each import each
from torch_ap import compat
from torch_ap.compat import LVIS, LVISEval, LVISResults, init_as_lvis

# of pycocotools on NumPy 2, and of lvis
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated:DeprecationWarning"),
]
LIMITS = (300, 3, 1, -1)
ARRAYS = ("precision", "recall", "counts", "dt_pointers")
lvis = oracles_lvis.lvis_package()


def random_files(seed):
    preds, target = oracles_lvis.random_federated(seed)
    return oracles_lvis.as_files(preds, target, oracles_lvis.frequencies_of(3))


def set_params(params, rng):
    """Change some parameters."""
    if rng.integers(3) == 0:
        params.img_ids = params.img_ids[:2]
    if rng.integers(3) == 0:
        params.cat_ids = params.cat_ids[1:][::-1]
    if rng.integers(3) == 0:
        params.iou_thrs = np.array([[0.5], [0.3, 0.75], [0.0, 0.5, 1.0]][rng.integers(3)])
    if rng.integers(3) == 0:
        params.rec_thrs = np.array([0, 0.3, 0.5, 0.9])
    if rng.integers(3) == 0:
        params.area_rng, params.area_rng_lbl = [[0, 1e10], [10, 300], [300, 1e5]], ["all", "small", "odd"]


def evaluations(truth, results, path, seed, kind="bbox"):
    """Return the evaluations of lvis, of this package, and of this package on lvis' data sets."""
    path.write_text(json.dumps(truth))
    limit = LIMITS[seed % len(LIMITS)]
    peers = [lvis.LVIS(str(path))]
    peers.append(lvis.LVISResults(peers[0], copy.deepcopy(results), limit))
    own = LVIS(truth)
    both = own, LVISResults(own, results, limit)
    for cls, data in ((lvis.LVISEval, peers), (LVISEval, both), (LVISEval, peers)):
        evaluation = cls(*data, kind)
        set_params(evaluation.params, np.random.default_rng(seed))
        with oracles_lvis.numpy_has_float():
            evaluation.run()
        yield evaluation


@each("seed", range(40))
def test_every_array_equals_lvis(seed, tmp_path):
    truth, results = random_files(seed)
    if not results:  # lvis raises IndexError
        return
    before = copy.deepcopy((truth, results))
    peer, *own = evaluations(truth, results, tmp_path / "truth.json", seed)
    for evaluation in own:
        assert all(is_equal(peer.eval[name], evaluation.eval[name]) for name in ARRAYS)
        assert dict(peer.results) == dict(evaluation.get_results())
        assert peer.freq_groups == evaluation.freq_groups
        assert is_equal(peer.eval_imgs, evaluation.eval_imgs)
        assert is_equal(dict(peer.ious), evaluation.ious)
        printed = [io.StringIO(), io.StringIO()]
        for each_evaluation, output in zip((peer, evaluation), printed, strict=True):
            with contextlib.redirect_stdout(output):
                each_evaluation.print_results()
        assert printed[0].getvalue() == printed[1].getvalue()
    assert (truth, results) == before


def test_masks_equal_lvis(tmp_path):
    truth, results = random_data(np.random.default_rng(4), "segm")
    for image in truth["images"]:
        image |= {"neg_category_ids": [], "not_exhaustive_category_ids": [truth["categories"][0]["id"]]}
    for number, category in enumerate(truth["categories"]):
        category["frequency"] = "rcf"[number % 3]
    peer, *own = evaluations(truth, results, tmp_path / "truth.json", 0, "segm")
    for evaluation in own:
        assert all(is_equal(peer.eval[name], evaluation.eval[name]) for name in ARRAYS)
    boundary = LVISEval(LVIS(truth), results, "boundary")
    boundary.run()
    assert boundary.results["AP"] <= peer.results["AP"]


def test_the_numbers_equal_those_of_the_metric():
    preds, target = oracles_lvis.random_federated(8)
    frequencies = oracles_lvis.frequencies_of(3)
    evaluation = LVISEval(*oracles_lvis.as_files(preds, target, frequencies), "bbox")
    evaluation.run()
    numbers = torch_ap.functional.lvis_mean_average_precision(
        preds, target, "xywh", frequencies=frequencies, use_given_area=True, dtype=torch.float64
    )
    for name, other in oracles_lvis.NAMES.items():
        key = f"{other}@300" if other.startswith("AR") else other
        assert float(numbers[name]) == pytest.approx(evaluation.results[key]), name


def test_categories_can_be_joined():
    """Lvis finds no objects without categories; each frequency has no number then."""
    truth, results = random_files(3)
    evaluation = LVISEval(truth, results, "bbox")
    evaluation.params.use_cats = 0
    evaluation.run()
    assert evaluation.eval["precision"].shape[2] == 1
    assert evaluation.results["AP"] > -1
    assert evaluation.results["APr"] == -1


def test_names_of_numbers_are_those_of_the_evaluation():
    evaluation = LVISEval(*random_files(3), "bbox")
    evaluation.run()
    results = dict(evaluation.results)
    evaluation.params.iou_thrs, evaluation.params.area_rng_lbl = np.array([0.75]), ["all"]
    evaluation.accumulate()
    evaluation.summarize()
    assert dict(evaluation.results) == results


def test_the_index_answers_as_lvis(tmp_path):
    truth, results = random_files(4)
    path = tmp_path / "truth.json"
    path.write_text(json.dumps(truth))
    own, peer = LVIS(path), lvis.LVIS(str(path))
    for name, arguments in (
        ("get_ann_ids", {}),
        ("get_ann_ids", {"img_ids": [0]}),
        ("get_ann_ids", {"img_ids": [0], "cat_ids": [1, 2]}),
        ("get_ann_ids", {"cat_ids": [0], "area_rng": [10, 900]}),
        ("get_cat_ids", {}),
        ("get_img_ids", {}),
        ("load_anns", {}),
        ("load_anns", {"ids": [1]}),
        ("load_cats", {"ids": [2]}),
        ("load_imgs", {"ids": None}),
    ):
        assert getattr(own, name)(**arguments) == getattr(peer, name)(**arguments), name
    assert (own.img_ann_map, own.cat_img_map) == (peer.img_ann_map, peer.cat_img_map)
    tops = (LVISResults(own, results), lvis.LVISResults(peer, copy.deepcopy(results)))
    assert tops[0].get_top_results(0, 0.5) == tops[1].get_top_results(0, 0.5)


def test_masks_of_annotations(tmp_path):
    annotation = {"id": 1, "image_id": 1, "category_id": 1, "segmentation": [[1, 1, 8, 2, 5, 7.5]], "area": 20}
    image = {"id": 1, "height": 9, "width": 12}
    truth = {"images": [image], "annotations": [annotation], "categories": [{"id": 1, "name": "a"}]}
    path = tmp_path / "truth.json"
    path.write_text(json.dumps(truth))
    own, peer = LVIS(truth), lvis.LVIS(str(path))
    assert own.ann_to_rle(annotation) == peer.ann_to_rle(annotation)
    assert is_equal(own.ann_to_mask(annotation), peer.ann_to_mask(annotation))


BOX = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4]}
TRUTH = {
    "images": [{"id": 1, "neg_category_ids": [], "not_exhaustive_category_ids": []}],
    "categories": [{"id": 1, "name": "a", "frequency": "r"}],
    "annotations": [BOX | {"id": 1, "area": 16}],
}


@pytest.mark.parametrize(
    ("truth", "results", "message"),
    [
        (TRUTH, [BOX | {"image_id": 2, "score": 0.5}], r"results\[0\]: unknown image_id 2"),
        (TRUTH, [BOX | {"score": float("nan")}], r"results\[0\]: 'score'"),
        (TRUTH, [BOX, BOX | {"score": "0.5"}], r"results\[0\]: must have the key 'score'"),
        (TRUTH | {"categories": [{"id": 1}]}, [], r"category 1: 'frequency' must be one of"),
        (TRUTH | {"images": [{"id": 1}]}, [], r"images\[0\]: must have the key 'neg_category_ids'"),
        (TRUTH | {"annotations": [BOX | {"id": 1}]}, [], r"annotations\[0\]: must have the key 'area'"),
        (5, [], "`lvis_gt` must be a data set"),
        (TRUTH, 5, "`lvis_dt` must be a data set"),
    ],
)
def test_invalid_data(truth, results, message):
    with pytest.raises(ValueError, match=message):
        LVISEval(truth, results, "bbox").run()


def test_invalid_parameters():
    with pytest.raises(ValueError, match="iou_type"):
        LVISEval(TRUTH, [], "keypoints")
    evaluation = LVISEval(TRUTH, [], "bbox")
    with pytest.raises(RuntimeError, match="evaluate"):
        evaluation.accumulate()
    with pytest.raises(RuntimeError, match="accumulate"):
        evaluation.summarize()
    evaluation.params.img_ids = [1, 9]
    with pytest.raises(ValueError, match=r"params.img_ids` must contain ids of images.*got 9"):
        evaluation.evaluate()
    evaluation.params.img_ids, evaluation.params.cat_ids = [1], [1, 77]
    with pytest.raises(ValueError, match=r"params.cat_ids` must contain ids of categories.*got 77"):
        evaluation.evaluate()
    evaluation.params.cat_ids = [1, 1]
    with pytest.raises(ValueError, match="each id once"):
        evaluation.evaluate()
    with pytest.raises(ValueError, match="lvis_gt"):
        LVISResults(5, [])


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("iou_thrs", np.array([1.1]), "must be a list of numbers in [0, 1], got [1.1]"),
        ("rec_thrs", [], "must be a list of numbers in [0, 1], got []"),
        ("area_rng_lbl", ["all"], "must name each of the 4 area ranges, got ['all']"),
    ],
)
def test_messages_name_the_parameter(name, value, rule):
    evaluation = LVISEval(TRUTH, [], "bbox")
    setattr(evaluation.params, name, value)
    with pytest.raises(ValueError, match=f"^{re.escape(f'`params.{name}` {rule}')}$"):
        evaluation.evaluate()


def test_imports_of_lvis_are_replaced_and_restored():
    before = sys.modules["lvis"]
    with init_as_lvis():
        from lvis import LVIS as INSTALLED
        from lvis import LVISEval as InstalledEval
        from lvis.eval import Params

        assert (INSTALLED, InstalledEval, Params("bbox").max_dets) == (LVIS, LVISEval, 300)
    assert sys.modules["lvis"] is before
    installed = init_as_lvis()
    try:
        assert sys.modules["lvis.results"].LVISResults is LVISResults
    finally:
        installed.undo()
    assert sys.modules["lvis"] is before


def detectron2(package, truth_path, results):
    """Return the numbers of LVISEvaluator: facebookresearch/detectron2, lvis_evaluation.py at 02b5c4e."""
    truth = package.LVIS(truth_path)
    evaluation = package.LVISEval(truth, package.LVISResults(truth, copy.deepcopy(results), max_dets=300), "bbox")
    with oracles_lvis.numpy_has_float(), contextlib.redirect_stdout(io.StringIO()) as printed:
        evaluation.run()
        evaluation.print_results()
    names = ("AP", "AP50", "AP75", "APs", "APm", "APl", "APr", "APc", "APf")
    return {name: float(evaluation.get_results()[name] * 100) for name in names}, printed.getvalue()


def test_evaluator_of_detectron2(tmp_path):
    truth, results = random_files(3)
    path = tmp_path / "truth.json"
    path.write_text(json.dumps(truth))
    assert detectron2(compat, str(path), results) == detectron2(lvis, str(path), results)
