"""The classes of `torch_ap.compat` give pycocotools' results to the last bit."""

import contextlib
import copy
import io
import json
import re
import sys

import numpy as np
import pytest
import torch
from pycocotools import coco, cocoeval
from pycocotools import mask as peer_mask
from scipy.ndimage import binary_erosion

import torch_ap
from tests.support.each import each
from torch_ap.compat import COCO, COCOeval, init_as_pycocotools, mask

# of pycocotools on NumPy 2
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
HEIGHT, WIDTH = 64, 80
ARRAYS = ("precision", "recall", "scores")


def silently(function, *args):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        result = function(*args)
    return result, output.getvalue()


def is_equal(one, two):
    """Return whether two results have the same values, and arrays the same shapes."""
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(is_equal(one[key], two[key]) for key in one)
    if isinstance(one, np.ndarray):
        return isinstance(two, np.ndarray) and one.shape == two.shape and bool((one == two).all())
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(is_equal, one, two))
    return bool(one == two)


def random_box(rng):
    return [*rng.integers(0, 40, 2).tolist(), *rng.integers(1, 25, 2).tolist()]


def shape_of(box, kind, rng, visibility):
    """Return the keys of the shape of a box: a mask, keypoints, or nothing more."""
    x, y, width, height = box
    if kind == "segm":
        pixels = np.zeros((HEIGHT, WIDTH), np.uint8, order="F")
        pixels[y : y + height, x : x + width] = 1
        code = peer_mask.encode(pixels)
        return {"segmentation": code | {"counts": code["counts"].decode()}}
    if kind == "keypoints":
        points = np.stack([x + rng.random(17) * width, y + rng.random(17) * height, visibility], 1)
        return {"keypoints": points.round(1).flatten().tolist(), "num_keypoints": int((visibility > 0).sum())}
    return {}


def random_data(rng, kind):
    """Return annotations and results with ties, crowds, areas that differ from the shapes, and empty images."""
    categories = sorted(rng.choice(20, rng.integers(1, 5), replace=False).tolist())
    images = [{"id": i, "height": HEIGHT, "width": WIDTH} for i in rng.permutation(np.arange(3, 9)).tolist()]
    annotations, results = [], []
    for image in images:
        boxes = [random_box(rng) for _ in range(rng.integers(0, 6))]
        labels = [int(rng.choice(categories)) for _ in boxes]
        for box, label in zip(boxes, labels, strict=True):
            area = float(rng.choice([box[2] * box[3], 50, 2000, 10000]))
            visibility = rng.integers(0, 3, 17) * (rng.random() < 0.8)
            keys = {"image_id": image["id"], "category_id": label, "bbox": box, "area": area}
            crowd = int(rng.random() < 0.15)
            annotations.append(keys | {"iscrowd": crowd} | shape_of(box, kind, rng, visibility))
        for _ in range(rng.integers(0, 9)):
            box, label = random_box(rng), int(rng.choice(categories))
            if boxes and rng.random() < 0.7:
                number = rng.integers(len(boxes))
                box = [int(max(1, x + rng.integers(-2, 3))) for x in boxes[number]]
                label = labels[number] if rng.random() < 0.8 else label
            keys = {"image_id": image["id"], "category_id": label, "score": float(rng.choice([0.1, 0.5, rng.random()]))}
            shape = {"bbox": box} if kind == "bbox" else shape_of(box, kind, rng, np.ones(17))
            results.append(keys | shape)
    if rng.random() < 0.5:  # as from detectors, which compute in float32
        results = [x | {"score": float(np.float32(x["score"]))} for x in results]
    rng.shuffle(annotations)
    annotations = [x | {"id": number} for number, x in enumerate(annotations, 1)]
    names = [{"id": label, "name": str(label)} for label in categories]
    return {"images": images, "annotations": annotations, "categories": names}, results


def set_params(params, rng, kind):
    """Change some parameters."""
    choose = rng.integers
    if choose(2):
        params.maxDets = [[1, 2, 3], [3, 1, 2], [100], [5, 300]][choose(4)]
    if choose(2) and kind != "keypoints":
        params.useCats = 0
    if choose(3) == 0:
        params.imgIds = params.imgIds[: max(1, len(params.imgIds) // 2)][::-1]
    if choose(3) == 0:
        params.catIds = [*params.catIds[1:], 77]
    if choose(3) == 0:
        params.iouThrs = np.array([[0.5], [0.3, 0.75], [0.0, 0.5, 1.0]][choose(3)])
    if choose(3) == 0:
        params.recThrs = np.array([0, 0.3, 0.5, 0.9])
    if choose(3) == 0:
        params.areaRng, params.areaRngLbl = [[0, 1e10], [10, 300], [300, 1e5]], ["all", "small", "odd"]


def test_keypoints_without_categories_count():
    """pycocotools looks for the annotations of the category -1, which has none."""
    truth, results = random_data(np.random.default_rng(2), "keypoints")
    category = truth["categories"][0]["id"]
    results = [x | {"category_id": category} for x in results]
    truth["annotations"] = [x | {"category_id": category} for x in truth["annotations"]]
    arrays = []
    for cls, data, use in (
        (COCOeval, own_data(truth, results), 0),
        (cocoeval.COCOeval, peer_data(truth, results), 1),
        (cocoeval.COCOeval, peer_data(truth, results), 0),
    ):
        evaluation = cls(*data, "keypoints")
        evaluation.params.catIds, evaluation.params.useCats = [category], use
        silently(evaluation.evaluate)
        silently(evaluation.accumulate)
        arrays.append(evaluation.eval)
    own, one_category, peer = arrays
    assert all(is_equal(own[name], one_category[name]) for name in ARRAYS)
    assert own["precision"].max() > peer["precision"].max() == peer["recall"].max() == 0


def peer_data(truth, results):
    data = coco.COCO()
    data.dataset = copy.deepcopy({"info": {}} | truth)
    silently(data.createIndex)
    return data, silently(data.loadRes, copy.deepcopy(results))[0]


def own_data(truth, results):
    data = COCO(truth)
    return data, data.loadRes(results)


def evaluated(cls, data, kind, seed):
    evaluation = cls(*data, kind)
    set_params(evaluation.params, np.random.default_rng(seed), kind)
    silently(evaluation.evaluate)
    silently(evaluation.accumulate)
    return evaluation


@each("seed", range(60))
def test_every_array_equals_pycocotools(seed):
    rng = np.random.default_rng(seed)
    kind = ("bbox", "segm", "keypoints")[seed % 3]
    truth, results = random_data(rng, kind)
    if not results:  # pycocotools raises IndexError
        return
    before = copy.deepcopy((truth, results))
    peers = peer_data(truth, results)
    peer = evaluated(cocoeval.COCOeval, peers, kind, seed)
    for data in (own_data(truth, results), peers):
        own = evaluated(COCOeval, data, kind, seed)
        assert all(is_equal(peer.eval[name], own.eval[name]) for name in ARRAYS)
        assert peer.eval["counts"] == own.eval["counts"]
        assert is_equal(peer.evalImgs, own.evalImgs)
        assert is_equal(peer.ious, own.ious)
        own.evalImgs = list(own.evalImgs)  # as code does that gathers them from several processes
        own.accumulate()
        assert all(is_equal(peer.eval[name], own.eval[name]) for name in ARRAYS)
    assert (truth, results) == before


@each("seed", range(15))
def test_a_part_of_the_evaluation_can_be_accumulated(seed):
    truth, results = random_data(np.random.default_rng(seed), "bbox")
    evaluations = []
    for cls, data in ((cocoeval.COCOeval, peer_data(truth, results)), (COCOeval, own_data(truth, results))):
        evaluation = cls(*data, "bbox")
        silently(evaluation.evaluate)
        part = copy.deepcopy(evaluation.params)
        part.catIds, part.imgIds, part.maxDets = part.catIds[:1], part.imgIds[:3], [10]
        part.areaRng, part.areaRngLbl = part.areaRng[:2], part.areaRngLbl[:2]
        silently(evaluation.accumulate, part)
        evaluations.append(evaluation)
    assert all(is_equal(evaluations[0].eval[name], evaluations[1].eval[name]) for name in ARRAYS)


@each("seed", range(15))
def test_any_part_equals_an_evaluation_of_this_part(seed):
    """Pycocotools takes the first categories, images and area ranges, whatever the part is."""
    data = own_data(*random_data(np.random.default_rng(seed), "bbox"))
    whole, alone = (COCOeval(*data, "bbox") for _ in range(2))
    whole.evaluate()
    part = copy.deepcopy(whole.params)
    part.catIds, part.imgIds, part.areaRng, part.areaRngLbl = part.catIds[-1:], part.imgIds[2:5], [[1024, 9216]], ["m"]
    whole.accumulate(part)
    alone.params = copy.deepcopy(part)
    alone.evaluate()
    alone.accumulate()
    assert all(is_equal(whole.eval[name], alone.eval[name]) for name in ARRAYS)


@pytest.mark.parametrize(
    ("kind", "limits"),
    [
        *((kind, None) for kind in ("bbox", "segm", "keypoints")),
        ("keypoints", [1, 20, 100]),  # pycocotools reports the limit 20
        ("bbox", [1, 1, 100]),  # it averages over both, which changes the last bit
    ],
)
def test_summaries_are_printed_as_by_pycocotools(kind, limits):
    truth, results = random_data(np.random.default_rng(7), kind)
    printed = []
    for cls, data in ((cocoeval.COCOeval, peer_data(truth, results)), (COCOeval, own_data(truth, results))):
        evaluation = cls(*data, kind)
        evaluation.params.maxDets = limits or evaluation.params.maxDets
        silently(evaluation.evaluate)
        silently(evaluation.accumulate)
        printed.append((silently(evaluation.summarize)[1], evaluation.stats))
    assert is_equal(printed[0], printed[1])
    assert printed[1][0].count("\n") == len(printed[1][1])


def test_the_first_number_is_at_the_last_limit():
    truth, results = random_data(np.random.default_rng(3), "bbox")
    evaluation = COCOeval(*own_data(truth, results), "bbox")
    evaluation.params.maxDets = [1, 10, 300]
    evaluation.evaluate()
    evaluation.accumulate()
    silently(evaluation.summarize)
    assert (
        evaluation.stats[0]
        == evaluation.eval["precision"][..., 0, 2][evaluation.eval["precision"][..., 0, 2] > -1].mean()
    )


@each("seed", range(40))
def test_masks_equal_pycocotools(seed):
    rng = np.random.default_rng(seed)
    height, width, number = rng.integers(1, 30, 3).tolist()
    number = 1 + number % 4
    share = rng.choice([0, 0.05, 0.5, 0.95, 1])
    dense = np.asfortranarray((rng.random((height, width, number)) < share).astype(np.uint8))
    others = np.asfortranarray((rng.random((height, width, 3)) < 0.4).astype(np.uint8))
    crowd = rng.integers(0, 2, number).tolist()
    boxes = rng.integers(0, 20, (3, 4)).astype(float)
    corners = [
        (rng.random(2 * k) * np.tile([width, height], k) * 1.4 - 0.2 * height).round(seed % 3) for k in (3, 5, 8)
    ]
    runs = rng.integers(0, 4, 6).tolist()
    plain = {"size": [height, width], "counts": [*runs, max(0, height * width - sum(runs))]}
    results = []
    for module in (peer_mask, mask):
        codes = module.encode(dense)
        out = [codes, module.encode(np.asfortranarray(dense[:, :, 0]))]
        out += [f(x) for f in (module.decode, module.area, module.toBbox) for x in (codes, codes[0])]
        out += [
            module.merge(codes),
            module.merge(codes, intersect=True),
            module.iou(module.encode(others), codes, crowd),
        ]
        out += [module.iou(boxes, boxes[:2], [0, 1]), module.frPyObjects(boxes, height, width)]
        out += [module.frPyObjects([x.tolist() for x in corners], height, width)]
        out += [module.frPyObjects(plain, height, width)] if sum(runs) <= height * width else []
        results.append(out)
    assert is_equal(*results)


def test_the_index_answers_as_pycocotools():
    truth, results = random_data(np.random.default_rng(11), "bbox")
    (own, _), (peer, _) = own_data(truth, results), peer_data(truth, results)
    image, label = truth["images"][0]["id"], truth["categories"][0]["id"]
    for name, arguments in (
        ("getAnnIds", {}),
        ("getAnnIds", {"imgIds": image}),
        ("getAnnIds", {"imgIds": [image, 4], "catIds": [label], "areaRng": [10, 3000], "iscrowd": False}),
        ("getCatIds", {"catNms": str(label)}),
        ("getCatIds", {"catIds": [label]}),
        ("getImgIds", {}),
        ("getImgIds", {"catIds": label}),
        ("loadAnns", {"ids": [1, 2]}),
        ("loadCats", {"ids": label}),
        ("loadImgs", {"ids": image}),
    ):
        assert getattr(own, name)(**arguments) == getattr(peer, name)(**arguments), name
    assert own.imgToAnns == peer.imgToAnns
    assert own.catToImgs == peer.catToImgs


def test_masks_of_annotations():
    image = {"id": 1, "height": 9, "width": 12}
    polygon = {"id": 1, "image_id": 1, "category_id": 1, "segmentation": [[1, 1, 8, 2, 5, 7.5], [0, 0, 3, 0, 3, 3]]}
    runs = {"id": 2, "image_id": 1, "category_id": 1, "segmentation": {"size": [9, 12], "counts": [10, 20, 78]}}
    truth = {"images": [image], "annotations": [polygon, runs], "categories": [{"id": 1, "name": "a"}]}
    own, (peer, _) = (
        COCO(truth),
        peer_data(truth, [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1], "score": 1}]),
    )
    for annotation in (polygon, runs):
        assert own.annToRLE(annotation) == peer.annToRLE(annotation)
        assert is_equal(own.annToMask(annotation), peer.annToMask(annotation))


def test_results_are_read_from_files_lists_and_arrays(tmp_path):
    truth, results = random_data(np.random.default_rng(5), "bbox")
    path, truth_path = tmp_path / "results.json", tmp_path / "truth.json"
    path.write_text(json.dumps(results))
    truth_path.write_text(json.dumps(truth))
    rows = np.array([[x["image_id"], *x["bbox"], x["score"], x["category_id"]] for x in results])
    data = COCO(truth_path)
    expected = data.loadRes(results).anns
    assert data.loadRes(str(path)).anns == expected
    from_array = data.loadRes(rows).anns
    assert [x["bbox"] for x in from_array.values()] == [x["bbox"] for x in expected.values()]
    assert data.loadRes([]).anns == {}


BOX = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4]}
TRUTH = {
    "images": [{"id": 1}],
    "categories": [{"id": 1, "name": "a"}],
    "annotations": [BOX | {"id": 1, "area": 16, "iscrowd": 0}],
}


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([BOX | {"image_id": 2, "score": 0.5}], r"results\[0\]: unknown image_id 2"),
        ([BOX | {"score": 0.5}, {"image_id": 1, "score": 1}], r"results\[1\]: must have the key 'bbox'"),
        ([BOX | {"bbox": None}], r"results\[0\]: must have a valid shape"),
        ([{"image_id": 1, "bbox": [0, 0, 4, 4]}], r"results\[0\]: must be an object with the key 'category_id'"),
        ([BOX | {"image_id": [1]}], r"results\[0\]: 'image_id' must be an integer or text, got \[1\]"),
        ("nothing", "nothing"),
        (5, "must be a list of detections, got 5"),
        (np.zeros((2, 6)), r"shape \(N, 7\), got \(2, 6\)"),
    ],
)
def test_invalid_results(results, message):
    with pytest.raises((ValueError, OSError), match=message):
        COCO(TRUTH).loadRes(results)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), "0.5", None])
def test_invalid_scores(score):
    evaluation = COCOeval(*own_data(TRUTH, [BOX | {"score": score}]), "bbox")
    with pytest.raises(ValueError, match=r"results\[0\]: 'score'"):
        evaluation.evaluate()


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        ([], "must be a JSON object"),
        ({"images": [{}]}, r"images\[0\]: must be an object with the key 'id'"),
        ({"images": [{"id": 1}, {"id": 1}]}, r"images\[1\]: 'id' must be given once, got 1 again"),
        (TRUTH | {"annotations": [{"id": 1}]}, r"annotations\[0\]: must be an object with the key 'image_id'"),
        ({"images": [{"id": [1]}]}, r"images\[0\]: 'id' must be an integer or text, got \[1\]"),
        (TRUTH | {"annotations": [BOX | {"id": 1, "category_id": [1]}]}, r"annotations\[0\]: 'category_id' must be"),
    ],
)
def test_invalid_annotations(truth, message, tmp_path):
    path = tmp_path / "truth.json"
    path.write_text(json.dumps(truth))
    with pytest.raises(ValueError, match=message):
        COCO(path)


def test_the_order_of_calls():
    evaluation = COCOeval(*own_data(TRUTH, [BOX | {"score": 0.5}]), "bbox")
    with pytest.raises(RuntimeError, match="evaluate"):
        evaluation.accumulate()
    with pytest.raises(RuntimeError, match="accumulate"):
        evaluation.summarize()
    with pytest.raises(ValueError, match="iouType"):
        COCOeval(iouType="boxes")
    for data in ((TRUTH, None), (COCO(TRUTH), None), (COCO(TRUTH), [BOX])):
        with pytest.raises(TypeError, match=r"must be a data set.*got (None|\[|\{)"):
            COCOeval(*data, "bbox").evaluate()


def test_parameters_that_change_between_the_calls():
    evaluation, others = (COCOeval(*own_data(*random_data(np.random.default_rng(5), "bbox")), "bbox") for _ in range(2))
    for each_evaluation in (evaluation, others):
        each_evaluation.evaluate()
        each_evaluation.accumulate()
    silently(evaluation.summarize)
    others.params.maxDets, others.params.areaRngLbl = [1, 2, 3], ["a", "b", "c", "d"]
    silently(others.summarize)  # by the parameters of the arrays
    assert is_equal(evaluation.stats, others.stats)
    changed = copy.deepcopy(evaluation.params)
    changed.iouThrs = [0.5]
    with pytest.raises(ValueError, match=r"`params.iouThrs` must be those of `evaluate"):
        others.accumulate(changed)
    others.params.areaRng = [[0, 1e10]]
    with pytest.raises(ValueError, match=r"`params.areaRngLbl` must name each of the 1 area ranges"):
        others.accumulate()


def test_ids_of_annotations_must_be_numbers_for_the_results_of_images():
    truth = TRUTH | {"annotations": [TRUTH["annotations"][0] | {"id": "a"}]}
    evaluation = COCOeval(*own_data(truth, [BOX | {"score": 0.5}]), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    assert evaluation.eval["recall"].max() == 1
    with pytest.raises(ValueError, match=r"annotations\[0\]: 'id' must be an integer, got 'a'"):
        print(evaluation.evalImgs)


def test_a_ground_truth_with_id_0_counts_with_a_warning():
    truth = TRUTH | {"annotations": [TRUTH["annotations"][0] | {"id": 0}]}
    evaluation = COCOeval(*own_data(truth, [BOX | {"score": 0.5}]), "bbox")
    with pytest.warns(UserWarning, match="id 0"):
        evaluation.evaluate()
    evaluation.accumulate()
    assert evaluation.eval["recall"].max() == 1


def test_unknown_entries_are_named_in_warnings():
    other = {"id": 2, "area": 1, "iscrowd": 0}
    truth = TRUTH | {"annotations": [*TRUTH["annotations"], BOX | other | {"image_id": 8}]}
    for results, message in (
        ([BOX | {"score": 0.5}], r"annotations\[1\]: unknown image_id 8.*1 such entries"),
        ([BOX | {"score": 0.5}, BOX | {"score": 0.5, "category_id": 9}], r"results\[1\]: unknown category_id 9"),
    ):
        data = own_data(truth if "annotations" in message else TRUTH, results)
        evaluation = COCOeval(*data, "bbox")
        with pytest.warns(UserWarning, match=message):
            evaluation.evaluate()
    evaluation.params.catIds = [1]
    evaluation.params.imgIds = [1, 4]
    with pytest.raises(ValueError, match=r"params.imgIds` must contain ids of images.*got 4"):
        evaluation.evaluate()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"score": 0.5, "bbox": [1, 2, 3]}, r"results\[1\]: must have a valid shape"),
        ({"score": 0.5, "bbox": [1, 2, 3, float("inf")]}, r"results\[1\]: 'bbox'"),
        ({"score": 0.5, "bbox": [1, 2, 3, -1e160]}, r"results\[1\]: 'bbox' must contain numbers at most 1e150"),
        ({"bbox": [1, 2, 3, 4]}, r"results\[1\]: must have the key 'score'"),
    ],
)
def test_invalid_results_are_named(entry, message):
    with pytest.raises(ValueError, match=message):
        COCOeval(*own_data(TRUTH, [BOX | {"score": 0.5}, BOX | entry]), "bbox").evaluate()


@pytest.mark.parametrize(
    "box", ["1234", ["1", "2", "3", "4"], [1, 2, 3], [1, 2, 3, None], [[1], 2, 3, 4], [1, 2, 1e160, 4]]
)
def test_invalid_boxes_of_ground_truths(box):
    truth = TRUTH | {"annotations": [*TRUTH["annotations"], TRUTH["annotations"][0] | {"id": 2, "bbox": box}]}
    evaluation = COCOeval(*own_data(truth, [BOX | {"score": 0.5}]), "bbox")
    with pytest.raises(ValueError, match=r"annotations\[1\]: 'bbox' must contain"):
        evaluation.evaluate()


@pytest.mark.parametrize(
    ("name", "value"), [("maxDets", [0, 1]), ("maxDets", [1.5]), ("maxDets", []), ("catIds", [1, 1]), ("imgIds", [2])]
)
def test_invalid_parameters(name, value):
    evaluation = COCOeval(*own_data(TRUTH, [BOX | {"score": 0.5}]), "bbox")
    evaluation.params.useCats = 0
    setattr(evaluation.params, name, value)
    with pytest.raises(ValueError, match=rf"`params.{name}` must .*got {value[0] if name == 'imgIds' else ''}"):
        evaluation.evaluate()


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("iouThrs", np.array([1.1]), "must be a list of numbers in [0, 1], got [1.1]"),
        ("iouThrs", np.array([]), "must be a list of numbers in [0, 1], got []"),
        ("recThrs", [0.5, -0.5], "must be a list of numbers in [0, 1], got [0.5, -0.5]"),
        ("maxDets", [0, 1], "must be a list of ints of at least 1, got [0, 1]"),
        ("areaRngLbl", ["all"], "must name each of the 4 area ranges, got ['all']"),
    ],
)
def test_messages_name_the_parameter(name, value, rule):
    evaluation = COCOeval(*own_data(TRUTH, [BOX | {"score": 0.5}]), "bbox")
    setattr(evaluation.params, name, value)
    with pytest.raises(ValueError, match=f"^{re.escape(f'`params.{name}` {rule}')}$"):
        evaluation.evaluate()


@pytest.mark.parametrize("category", ["cat", 2**60 + 1, 1.5, -3])
def test_any_id_of_a_category(category):
    box = BOX | {"category_id": category}
    truth = TRUTH | {"categories": [{"id": category}], "annotations": [TRUTH["annotations"][0] | box]}
    evaluation = COCOeval(*own_data(truth, [box | {"score": 0.5}]), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    assert evaluation.eval["recall"].max() == 1


def test_arrays_and_numbers_of_numpy_are_read():
    result = BOX | {"score": np.float32(0.5), "bbox": np.array([0.0, 0, 4, 4]), "category_id": np.int64(1)}
    evaluation = COCOeval(*own_data(TRUTH, [result, result | {"bbox": torch.tensor([0.0, 0, 4, 4])}]), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    assert evaluation.eval["recall"].max() == 1


def test_imports_of_pycocotools_are_replaced_and_restored():
    before = sys.modules["pycocotools.cocoeval"]
    with init_as_pycocotools():
        from pycocotools import coco as installed_coco
        from pycocotools import cocoeval as installed_cocoeval

        assert (installed_coco.COCO, installed_cocoeval.COCOeval) == (COCO, COCOeval)
    assert sys.modules["pycocotools.cocoeval"] is before
    installed = init_as_pycocotools()
    try:
        assert sys.modules["pycocotools.mask"].area is mask.area
    finally:
        installed.undo()
    assert sys.modules["pycocotools.cocoeval"] is before


def test_the_numbers_equal_those_of_the_metric():
    truth, results = random_data(np.random.default_rng(21), "bbox")
    evaluation = COCOeval(*own_data(truth, results), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    silently(evaluation.summarize)
    metric = torch_ap.MeanAveragePrecision("xywh", use_given_area=True)
    sides = []
    for listed in (results, truth["annotations"]):
        images = []
        for image in sorted(truth["images"], key=lambda x: x["id"]):
            entries = [x for x in listed if x["image_id"] == image["id"]]
            boxes = torch.tensor([x["bbox"] for x in entries], dtype=torch.float64).reshape(-1, 4)
            columns = {"scores": "score", "area": "area", "iscrowd": "iscrowd"}
            values = {key: torch.tensor([x[name] for x in entries if name in x]) for key, name in columns.items()}
            labels = torch.tensor([x["category_id"] for x in entries], dtype=torch.int64)
            images.append(values | {"boxes": boxes, "labels": labels})
        sides.append(images)
    metric.update([{key: x[key] for key in ("boxes", "scores", "labels")} for x in sides[0]], sides[1])
    metric.set_dtype(torch.float64)
    numbers = metric.compute()
    names = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large", "mar_1", "mar_10", "mar_100")
    assert [float(numbers[name]) for name in names] == pytest.approx(evaluation.stats[:9].tolist())


@pytest.mark.parametrize(("number", "visibility"), [(0, 2), (3, 0)])
def test_numbers_of_keypoints_must_fit_the_visibility(number, visibility):
    points = {"keypoints": [1.0, 2.0, float(visibility)] * 17}
    truth = TRUTH | {"annotations": [TRUTH["annotations"][0] | points | {"num_keypoints": number}]}
    data = own_data(truth, [{"image_id": 1, "category_id": 1, "score": 0.5} | points])
    with pytest.raises(ValueError, match=r"annotations\[0\]: 'num_keypoints' must fit"):
        COCOeval(*data, "keypoints").evaluate()


def test_detections_of_negative_size_warn():
    evaluation = COCOeval(*own_data(TRUTH, [BOX | {"bbox": [4, 4, -4, 4], "score": 0.5}]), "bbox")
    with pytest.warns(UserWarning, match=r"1 of 1 boxes in `preds` have"):
        evaluation.evaluate()


@each("seed", range(12))
def test_areas_of_detections_are_used_as_by_pycocotools(seed):
    """Results of masks have the areas of the masks, also if their boxes are evaluated."""
    rng = np.random.default_rng(seed)
    truth, results = random_data(rng, ("bbox", "segm")[seed % 2])
    if not results:
        return
    truths, found = peer_data(truth, results)
    if seed % 2 == 0:
        for entry in found.dataset["annotations"]:
            entry["area"] = float(rng.choice([50, 2000, 10000]))
    peer = evaluated(cocoeval.COCOeval, (truths, found), "bbox", seed)
    sides = [(truths, found)] if seed % 2 == 0 else [(truths, found), own_data(truth, results)]
    for data in sides:
        own = evaluated(COCOeval, data, "bbox", seed)
        assert all(is_equal(peer.eval[name], own.eval[name]) for name in ARRAYS)
        assert is_equal(peer.evalImgs, own.evalImgs)


def test_given_areas_of_detections_are_checked_and_named_by_the_metric():
    truths, found = peer_data(TRUTH, [BOX | {"score": 0.5}, BOX | {"score": 0.4}])
    evaluation = COCOeval(truths, found, "bbox")
    evaluation.evaluate()
    evaluation.to_metric()  # without a warning
    found.anns[2]["area"] = 5000
    evaluation.evaluate()
    with pytest.warns(UserWarning, match="area"):
        evaluation.to_metric()
    del found.anns[2]["area"]
    with pytest.raises(ValueError, match="must have the key 'area'"):
        evaluation.evaluate()
    del found.anns[1]["area"]
    evaluation.evaluate()  # all areas are those of the boxes


def test_arrays_are_computed_when_they_are_read():
    data = own_data(*random_data(np.random.default_rng(8), "bbox"))
    evaluations = [COCOeval(*data, "bbox") for _ in range(3)]
    for evaluation in evaluations:
        assert evaluation.eval == {}
        evaluation.evaluate()
        evaluation.accumulate()
    first, second, third = evaluations
    expected = copy.deepcopy(first).eval
    second.params.catIds = []  # later changes of parameters do not change the arrays
    second.evalImgs = []
    assert all(is_equal(expected[name], second.eval[name]) for name in ARRAYS)
    silently(first.summarize)
    third.eval = expected
    silently(third.summarize)
    assert is_equal(first.stats, third.stats)
    third.eval["precision"][:] = 0.25
    silently(third.summarize)
    assert third.stats[0] == 0.25


class BoundaryEval(cocoeval.COCOeval):
    """pycocotools' evaluation with the boundary IoU of Cheng et al. (2021), as in boundary-iou-api at 37d2558.

    A boundary contains the pixels of a mask that one of d erosions by 3 x 3 pixels removes, with d 2% of the diagonal
    of the image, rounded, at least 1; outside the image there is no mask.
    """

    def computeIoU(self, imgId, catId):  # noqa: N802, N803
        ious = super().computeIoU(imgId, catId)
        params = self.params
        categories = [catId] if params.useCats else params.catIds
        true, found = ([x for label in categories for x in side[imgId, label]] for side in (self._gts, self._dts))
        if not len(true) or not len(found):
            return ious
        found = [found[place] for place in np.argsort([-x["score"] for x in found], kind="mergesort")]
        crowd = [x["iscrowd"] for x in true]
        sides = [[self.boundary(x["segmentation"]) for x in side] for side in (found[: params.maxDets[-1]], true)]
        no_crowd = np.array(crowd) == 0
        ious[:, no_crowd] = np.minimum(ious, peer_mask.iou(*sides, crowd))[:, no_crowd]
        return ious

    @staticmethod
    def boundary(code):
        dense = peer_mask.decode(code).astype(bool)
        steps = max(1, round(0.02 * float(np.hypot(*dense.shape))))
        inner = binary_erosion(dense, np.ones((3, 3), bool), iterations=steps)
        return peer_mask.encode(np.asfortranarray((dense & ~inner).astype(np.uint8)))


@each("seed", range(20))
def test_boundaries_equal_the_definition(seed):
    truth, results = random_data(np.random.default_rng(seed), "segm")
    if not results:
        return
    peer = evaluated(BoundaryEval, peer_data(truth, results), "segm", seed)
    own = COCOeval(*own_data(truth, results), "boundary")
    set_params(own.params, np.random.default_rng(seed), "segm")
    own.evaluate()
    own.accumulate()
    assert all(is_equal(peer.eval[name], own.eval[name]) for name in ARRAYS)


def test_an_edited_area_counts_as_in_pycocotools():
    for seed in (4, 6):
        truth, results = random_data(np.random.default_rng(seed), "bbox")
        peers, own = peer_data(truth, results), own_data(truth, results)
        for _, detections in (peers, own):
            for number, entry in detections.anns.items():
                if number % 3 == 0:
                    entry["area"] = 50.0
                if number % 5 == 0:
                    entry["bbox"] = [x + 1 for x in entry["bbox"]]
        peer, found = evaluated(cocoeval.COCOeval, peers, "bbox", 1), evaluated(COCOeval, own, "bbox", 1)
        assert all(is_equal(peer.eval[name], found.eval[name]) for name in ARRAYS)
