"""Broken COCO files: a table of faults and messages, and random mutations with pycocotools as the reference."""

import contextlib
import copy
import gc
import gzip
import io
import json
import random
import warnings

import numpy as np
import pytest

from tests.support.each import each
from torch_ap.cli import main
from torch_ap.detection import MeanAveragePrecision
from torch_ap.detection.files import entries
from torch_ap.files import read_coco
from torch_ap.functional import coco_mean_average_precision

BOX, POLYGON = [1, 1, 8, 8], [1, 1, 9, 1, 9, 9, 1, 9]
CODE = {"size": [20, 24], "counts": [25, 5, 450]}


def scene():
    """Return annotations and results of boxes and masks, as objects."""
    truth = {
        "images": [{"id": 5, "height": 20, "width": 24}, {"id": 2, "height": 20, "width": 24}],
        "categories": [{"id": 9, "name": "cat"}, {"id": 4, "name": "dog"}],
        "annotations": [
            {"id": 1, "image_id": 5, "category_id": 9, "bbox": BOX, "area": 60, "segmentation": [POLYGON]},
            {"id": 2, "image_id": 2, "category_id": 4, "bbox": BOX, "iscrowd": 1, "segmentation": CODE},
            {"id": 3, "image_id": 2, "category_id": 9, "bbox": BOX, "segmentation": [POLYGON]},
        ],
    }
    found = [
        {"image_id": image, "category_id": 9, "bbox": BOX, "score": score, "segmentation": CODE}
        for image, score in ((5, 0.5), (2, 0.9), (5, 0.25))
    ]
    return copy.deepcopy((truth, found))


def write(folder, truth, found):
    """Write both documents, from objects or bytes, and return their paths."""
    paths = folder / "truth.json", folder / "found.json"
    for path, content in zip(paths, (truth, found), strict=True):
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return paths


@pytest.fixture
def run_command(tmp_path, capsys):
    """Return a function that runs the command on two contents and returns status, standard output and error."""

    def run(truth, found, kind="bbox"):
        status = main.main(["coco", *map(str, write(tmp_path, truth, found)), "--iou-type", kind, "--json"])
        return status, *capsys.readouterr()

    return run


def one_line(error):
    return error.startswith("torch-ap: ") and error.count("\n") == 1 and len(error) < 500 and "Traceback" not in error


def put(path, value):
    """Return a change of (truth, found) at a path, which begins with the index of the document."""

    def change(pair):
        inner = pair
        for key in path[:-1]:
            inner = inner[key]
        if value is ...:
            del inner[path[-1]]
        else:
            inner[path[-1]] = value
        return pair

    return change


T, F = 0, 1
IMAGE, NAME, TRUE, FOUND = (T, "images", 1), (T, "categories", 0), (T, "annotations", 2), (F, 1)
OUTLINE, MASK = (*TRUE, "segmentation"), (*FOUND, "segmentation")
# kinds that read it, path, new value, message
FAULTS = [
    ("both", (*IMAGE, "id"), "2", "truth.json: images[1]: 'id' must be an integer, got '2'"),
    ("both", (*IMAGE, "id"), True, "truth.json: images[1]: 'id' must be an integer, got True"),
    ("both", (*IMAGE, "id"), 5, "truth.json: images[1]: 'id' must occur once, got 5 again"),
    ("both", (*IMAGE, "id"), 2**63, "truth.json: images[1]: 'id' must be an integer, got 9223372036854775808"),
    ("both", (*IMAGE, "id"), ..., "truth.json: images[1]: must have the key 'id', got ['height', 'width']"),
    ("both", IMAGE, 3, "truth.json: images[1]: must be an object, got int"),
    (
        "segm",
        (*IMAGE, "height"),
        None,
        "truth.json: images[1]: 'height' must be a whole number from 1 to 2^31 - 1",
    ),
    (
        "segm",
        (*IMAGE, "width"),
        24.5,
        "truth.json: images[1]: 'width' must be a whole number from 1 to 2^31 - 1",
    ),
    ("both", (*IMAGE, "width"), "24", "truth.json: images[1]: 'width' must be a "),
    ("both", (*IMAGE, "width"), -24, "truth.json: images[1]: 'width' must be a "),
    ("both", (*IMAGE, "height"), float("inf"), "truth.json: images[1]: 'height' must be a "),
    (
        "segm",
        (*IMAGE, "width"),
        ...,
        "truth.json: images[1]: 'width' must be a whole number from 1 to 2^31 - 1",
    ),
    ("segm", (*IMAGE, "width"), 30, "'segmentation' must have the height and width of "),
    ("both", (*NAME, "id"), 4, "truth.json: categories[1]: 'id' must occur once, got 4 again"),
    ("both", (*NAME, "name"), 4, "truth.json: categories[0]: 'name' must be text, got 4"),
    ("both", (*NAME, "name"), ["x" * 99] * 99, "truth.json: categories[0]: 'name' must be text, got ['xxx"),
    ("both", (*TRUE, "image_id"), 3, "truth.json: annotations[2]: unknown image_id 3"),
    ("both", (*TRUE, "image_id"), [2], "truth.json: annotations[2]: 'image_id' must be an integer, got [2]"),
    ("both", (*TRUE, "category_id"), 9.0, "truth.json: annotations[2]: 'category_id' must be an integer, got 9.0"),
    ("both", (*TRUE, "iscrowd"), 256, "truth.json: annotations[2]: 'iscrowd' must be 0 or 1, got 256"),
    ("both", (*TRUE, "iscrowd"), 1.7, "truth.json: annotations[2]: 'iscrowd' must be 0 or 1, got 1.7"),
    ("both", (*TRUE, "iscrowd"), "1", "truth.json: annotations[2]: 'iscrowd' must be 0 or 1, got '1'"),
    ("both", (*TRUE, "iscrowd"), None, "truth.json: annotations[2]: 'iscrowd' must be 0 or 1, got None"),
    ("both", (*TRUE, "area"), "64", "annotations[2]: 'area' must be a finite number of at least 0, got '64'"),
    ("both", (*TRUE, "area"), -1, "annotations[2]: 'area' must be a finite number of at least 0, got -1"),
    ("both", (*TRUE, "area"), None, "annotations[2]: 'area' must be a finite number of at least 0, got None"),
    ("both", (*TRUE, "area"), float("nan"), "annotations[2]: 'area' must be a finite number of at least 0, got nan"),
    ("both", (*TRUE, "area"), 10**400, "annotations[2]: 'area' must be a finite number of at least 0, got 1000"),
    ("bbox", (*TRUE, "bbox"), ..., "truth.json: annotations[2]: must have the key 'bbox' (for masks alone: "),
    ("bbox", (*TRUE, "bbox"), ..., "; for keypoints: 'keypoints', `--iou-type keypoints`), got "),
    (
        "bbox",
        (*TRUE, "bbox"),
        [1, 1, True, 8],
        "annotations[2]: 'bbox' must contain finite numbers, got [1, 1, True, 8]",
    ),
    ("bbox", (*TRUE, "bbox"), [1, 1, "8", 8], "annotations[2]: 'bbox' must contain finite numbers, got [1, 1, '8', 8]"),
    (
        "bbox",
        (*TRUE, "bbox"),
        [1, 1, -8, 8],
        "'bbox' must contain a width and a height of at least 0, got [1, 1, -8, 8]",
    ),
    ("bbox", (*TRUE, "bbox"), [1] * 9999, "'bbox' must contain x, y, width and height, got [1, 1, "),
    ("bbox", (*FOUND, "bbox"), [1, 1, 8], "found.json[1]: 'bbox' must contain x, y, width and height, got [1, 1, 8]"),
    ("both", (*FOUND, "bbox"), [1, 1, 8, -1], "found.json[1]: 'bbox' must contain a width and a height of at least 0"),
    (
        "both",
        (*FOUND, "bbox"),
        [1, 1, 1e999, 8],
        "found.json[1]: 'bbox' must contain finite numbers, got [1, 1, inf, 8]",
    ),
    (
        "bbox",
        (*TRUE, "bbox"),
        [1, 1, 1e160, 8],
        "annotations[2]: 'bbox' must contain numbers at most 1e150 from 0, got",
    ),
    (
        "both",
        (*FOUND, "bbox"),
        [1, 1, 8, 1e160],
        "found.json[1]: 'bbox' must contain numbers at most 1e150 from 0, got",
    ),
    ("both", (*FOUND, "score"), "0.9", "found.json[1]: 'score' must be a finite number, got '0.9'"),
    ("both", (*FOUND, "score"), True, "found.json[1]: 'score' must be a finite number, got True"),
    ("both", (*FOUND, "score"), None, "found.json[1]: 'score' must be a finite number, got None"),
    ("both", (*FOUND, "score"), float("nan"), "found.json[1]: 'score' must be a finite number, got nan"),
    ("both", (*FOUND, "score"), ..., "found.json[1]: must have the key 'score', got ['image_id'"),
    ("both", FOUND, [], "found.json[1]: must be an object, got list"),
    (
        "segm",
        OUTLINE,
        ...,
        "annotations[2]: must have 'segmentation', polygons or a run-length code, got",
    ),
    ("segm", OUTLINE, [], "must have 'segmentation', polygons or a run-length code, got []"),
    ("segm", OUTLINE, [[1, 2, 3, 4]], "annotations[2]: 'segmentation' must contain polygons, lists of x"),
    ("segm", OUTLINE, [1, 2, 3, 4, 5, 6], "lists of x and y alternating, with at least three points, got 1"),
    ("segm", OUTLINE, [[1, 2, 3, 4, 5, 6, 7]], "lists of x and y alternating, with at least three points"),
    ("segm", OUTLINE, [POLYGON, [1, 2, 3]], "at least three points, got [1, 2, 3]"),
    ("segm", OUTLINE, [[1, 2, None, 4, 5, 6]], "lists of numbers, got [1, 2, None, 4, 5, 6]"),
    ("segm", OUTLINE, [[1, 2, "3", 4, 5, 6]], "lists of numbers, got [1, 2, '3', 4, 5, 6]"),
    ("segm", OUTLINE, [[1, 2, float("nan"), 4, 5, 6]], "points are in or near their image, 20 by 24"),
    ("segm", OUTLINE, [[1, 2, 1e9, 4, 5, 6]], "points are in or near their image, 20 by 24"),
    ("segm", OUTLINE, [[1, 2, 10**400, 4, 5, 6]], "points are in or near their image, 20 by 24"),
    ("segm", MASK, {"size": [20, 24]}, "found.json[1]: 'segmentation' must be a dict with 'size'"),
    ("segm", MASK, CODE | {"size": [24, 20]}, "found.json[1]: 'segmentation' must have the height"),
    ("segm", MASK, CODE | {"size": [10, 24]}, "found.json[1]: 'segmentation' must have the height"),
    ("segm", MASK, CODE | {"size": None}, "found.json[1]: 'segmentation': 'size' must be height"),
    ("segm", MASK, CODE | {"counts": [0, 2**62]}, "counts' must be runs that add up to height tim"),
    (
        "segm",
        MASK,
        CODE | {"counts": [-1, 481]},
        "'counts' must be integers of at lea",
    ),
    (
        "segm",
        MASK,
        CODE | {"counts": [1.5, 478.5]},
        "must be integers of at least 0, ",
    ),
    (
        "segm",
        MASK,
        CODE | {"counts": "x" * 999},
        "'counts' must be COCO's compressed text, whose ch",
    ),
    ("segm", MASK, CODE | {"counts": ""}, "'counts' must be runs that add up to height times wid"),
    (
        "segm",
        MASK,
        CODE | {"counts": "\ud800"},
        "'counts' must be COCO's compressed text, whose ch",
    ),
]


@each("kinds, path, value, message", list(FAULTS))
def test_a_fault_names_file_and_entry(run_command, kinds, path, value, message):
    for kind in ("bbox", "segm"):
        status, out, error = run_command(*put(path, value)(scene()), kind)
        if kinds in ("both", kind):
            assert (status, out) == (2, "")
            assert message in error
            assert one_line(error)
            assert "truth.json" in error or "found.json" in error
        elif path[-1] != "bbox":  # not read, so it changes nothing
            assert (status, out) == run_command(*scene(), kind)[:2]


def document(change=lambda text: text):
    return lambda which: [change(json.dumps(part)) if place == which else part for place, part in enumerate(scene())]


DOCUMENTS = {
    "empty": (lambda text: b"", ".json: must be JSON, but is empty"),  # noqa: ARG005
    "truncated": (lambda text: text[:-30].encode(), ".json: must be JSON: "),
    "two documents": (lambda text: (text + text).encode(), ".json: must be JSON: Extra data"),
    "nested": (lambda text: b"[" * 200_000 + text.encode(), ".json: must be JSON of less depth"),
    "UTF-16": (
        lambda text: text.encode("utf-16"),
        ".json, line 1: must be UTF-8 text, got the byte-order mark of UTF-16",
    ),
    "latin-1": (
        lambda text: ("\n\n" + text).replace("0", '"é"', 1).encode("latin-1"),
        ".json, line 3: must be UTF-8",
    ),
    "gzip, cut short": (lambda text: gzip.compress(text.encode())[:-9], ".json: must be whole as gzip: "),
    "gzip of something else": (lambda text: gzip.compress(text.encode("utf-16")), ".json, line 1: must be UTF-8"),
    "a number": (lambda text: b"3", ".json: must be "),  # noqa: ARG005
    "an object of lists": (lambda text: b'{"a": []}', ".json: must be "),  # noqa: ARG005
}


@each("which", [T, F])
@each("fault", list(DOCUMENTS))
def test_other_contents_than_documents(run_command, fault, which):
    change, message = DOCUMENTS[fault]
    status, out, error = run_command(*document(change)(which))
    assert (status, out) == (2, "")
    assert ("truth", "found")[which] + message in error
    assert one_line(error)


def test_a_byte_order_mark_and_any_text_in_utf_8_are_read(run_command):
    truth, found = scene()
    truth["categories"][0]["name"] = "chât"
    marked = [b"\xef\xbb\xbf" + json.dumps(part, ensure_ascii=False).encode() for part in (truth, found)]
    assert run_command(*marked) == run_command(*scene())


def test_alternative_spellings_are_equal(tmp_path):
    truth, found = scene()
    truth["annotations"][0]["iscrowd"], truth["annotations"][1]["iscrowd"] = False, 1.0
    data = read_coco(*write(tmp_path, truth, found))
    assert data.target["iscrowd"].tolist() == [1, 0, 0]
    assert data.preds["scores"].tolist() == [0.9, 0.5, 0.25]
    assert data.sizes.tolist() == [[24, 20], [24, 20]]


@pytest.mark.parametrize("side", [0, None, 1e10])
def test_an_image_of_no_such_width_has_an_unknown_one(tmp_path, side):
    truth, found = scene()
    truth["images"][1]["width"] = side
    sizes = read_coco(*write(tmp_path, truth, found)).sizes
    assert sizes.isnan().tolist() == [[True, False], [False, False]]  # by id


def test_masks_of_an_image_without_a_size_must_be_of_one_size(run_command):
    truth, found = scene()
    truth["annotations"] = truth["annotations"][1:2]
    truth["images"] = [{"id": 5}, {"id": 2}]
    assert run_command(truth, found, "segm")[0] == 0
    found[1]["segmentation"] = {"size": [24, 20], "counts": CODE["counts"]}
    message = "found.json: the masks of "
    assert message in run_command(truth, found, "segm")[2]
    assert "[20, 24], got [24, 20]" in run_command(truth, found, "segm")[2]


# -- mutations at random

NASTY = [
    *(..., ..., ..., None, True, False, "", "1", "x", -1, 0, 1, 2, 1.7, 1e300, -1e300, float("nan"), float("inf")),
    *(2**31, 2**62, 2**64, 10**400, 256, [], {}, [1, 2, 3, 4], [[1, 2, 3, 4]], [[1, 2, 3, 4, 5]], [0] * 200, "a" * 500),
    *([-5, 1, 2, 3], [1, 2, 3, -4], {"size": [20, 24], "counts": [480]}, {"size": [24, 20], "counts": [480]}),
    *({"size": [20, 24], "counts": [0, 2**62]}, {"size": [20, 24], "counts": "junk"}, "\ud800", "a\nb"),
]


def paths(value, path=()):
    """Yield the paths of all values of a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*path, key)
        yield from paths(part, (*path, key))


def numbers_of_pycocotools(truth, found, kind):
    from pycocotools import mask
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        images = COCO()
        images.dataset = copy.deepcopy(truth)
        images.createIndex()
        for annotation in images.dataset["annotations"]:  # pycocotools requires it, and our default replaces it
            annotation.setdefault("iscrowd", 0)
            if "area" not in annotation:
                boxes = kind == "bbox"
                annotation["area"] = (
                    np.prod(annotation["bbox"][2:]) if boxes else mask.area(images.annToRLE(annotation))
                )
        settings = COCOeval(images, images.loadRes(copy.deepcopy(found)), kind)
        settings.evaluate()
        settings.accumulate()
        settings.summarize()
    return settings.stats.tolist()


def compressed(found):
    """Compress the codes of results, the only codes that pycocotools accepts there."""
    rle = pytest.importorskip("pycocotools.mask")
    for entry in found:
        code = rle.frPyObjects(entry["segmentation"], 20, 24)
        entry["segmentation"] = code | {"counts": code["counts"].decode()}


@each("seed", range(120))
def test_mutations_are_refused_by_name_or_read_as_pycocotools_reads_them(run_command, seed):
    r = random.Random(seed)
    pair = scene()
    compressed(pair[F])
    kind = r.choice(["bbox", "segm"])
    for annotation in pair[T]["annotations"]:
        annotation.setdefault("iscrowd", 0)
        annotation.setdefault("area", 64)
    if r.random() < 0.5 and kind == "segm":
        for entry in pair[F]:
            del entry["bbox"]
    # pycocotools stores annotations by their ids, which our reader ignores
    path = r.choice(
        [path for path in paths(list(pair)) if len(path) > 1 and path[1:2] + path[3:] != ("annotations", "id")]
    )
    truth, found = put(path, copy.deepcopy(r.choice(NASTY)))(pair)
    status, out, error = run_command(truth, found, kind)
    if status == 2:
        assert one_line(error)
        assert "truth.json" in error or "found.json" in error
    else:
        expected = numbers_of_pycocotools(truth, found, kind)
        assert list(json.loads(out).values()) == expected


def test_ids_one_less_than_they_are_count_from_0(run_command):
    truth, found = scene()
    truth["categories"] += [{"id": 1, "name": "bus"}]
    moved = [{**one, "category_id": label} for one, label in zip(found, (0, 3, 8), strict=True)]
    assert "found.json[0]: unknown category_id 0; these count from 0" in run_command(truth, moved)[2]
    moved[2]["category_id"] = 9
    assert "found.json[0]: unknown category_id 0; known are 9, 4, 1" in run_command(truth, moved)[2]
    truth["categories"], truth["annotations"] = [], []
    assert "found.json[0]: unknown category_id 0" in run_command(truth, moved)[2]


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_unused_fields_may_contain_anything(run_command, kind):
    truth, found = scene()
    compressed(found)
    wanted = run_command(truth, found, kind)
    for value in (None, -0.5, "", [], {}):
        one = {"area": value, "iscrowd": value, "id": value, "num_keypoints": value, "keypoints": value}
        unused = {"bbox"} if kind == "segm" else {"segmentation"}
        true = {"id": value, "num_keypoints": value, "keypoints": value, **dict.fromkeys(unused, value)}
        truth["annotations"][2] |= true
        truth["images"][1] |= {"file_name": value, "license": value}
        truth["categories"][0] |= {"supercategory": value}
        more = {} if kind == "segm" else {"segmentation": value}
        assert (
            run_command(truth | {"info": value, "licenses": value}, [found[0], found[1] | one | more, found[2]], kind)
            == wanted
        )


# -- whose area counts


@each("seed", range(40))
def test_the_command_takes_areas_as_pycocotools_takes_them(run_command, seed):
    r = random.Random(seed)
    truth, found = scene()
    compressed(found)
    kind = r.choice(["bbox", "segm"])
    for place, annotation in enumerate(truth["annotations"]):
        area = r.choice([0, 0.0, 1, 64, 1024, 1024.5, 9216, 1e11])
        annotation |= {"id": place + 1, "iscrowd": 0, "area": area}
    if r.random() < 0.3 and kind == "segm":
        found[0]["bbox"] = []  # then pycocotools ignores the other fields
    for entry in found[1:]:
        entry["bbox"] = r.choice([[1, 1, 0, 8], [1, 1, 0, 0], [1, 1, 40, 40], [1, 1, 400, 400], BOX])
    status, out, _ = run_command(truth, found, kind)
    assert status == 0
    assert list(json.loads(out).values()) == numbers_of_pycocotools(truth, found, kind)


def test_areas_of_the_function(tmp_path):
    truth, found = scene()
    for annotation, area in zip(truth["annotations"], (0, 0, 5000), strict=True):
        annotation |= {"area": area, "iscrowd": 0}
    data = read_coco(*write(tmp_path, truth, found))
    assert data.target["area"].tolist() == [0, 5000, 0]
    arguments = {"box_format": "xywh", "area_ranges": {"some": (1, 1e10), "medium": (1024, 9216)}}
    own = coco_mean_average_precision(data.preds, data.target, **arguments)
    given = coco_mean_average_precision(data.preds, data.target, **arguments, use_given_area=True)
    # the areas of the undetected dog and of a cat are 64, or 0, which is outside the first range
    assert own["map_some"] == pytest.approx(0.5)
    assert given["map_some"] == pytest.approx(1)
    assert given["map_medium"] == own["map_medium"] > 0


@pytest.mark.parametrize("side", ["preds", "target"])
def test_areas_as_given_require_an_area_of_every_object(tmp_path, side):
    data = read_coco(*write(tmp_path, *scene()), "segm")
    metric = MeanAveragePrecision("xywh", "segm", use_given_area=True)
    images = {"preds": data.preds, "target": data.target}
    metric.update(**images)
    assert float(metric.compute()["map"]) >= 0
    del images[side][1]["area"]
    with pytest.raises(ValueError, match=rf"`{side}\[1\]` must .*'area'"):
        metric.update(**images)
    MeanAveragePrecision("xywh", "segm").update(**images)


@pytest.mark.parametrize(("known", "found", "rule"), [(7, "7", "an integer"), ("x7", 7, "text")])
def test_text_ids_of_one_file_are_named_with_the_ids_of_the_other(known, found, rule, tmp_path):
    one = {"category_id": 1, "bbox": [1, 1, 5, 5]}
    truth = {"images": [{"id": known}], "categories": [{"id": 1, "name": "a"}]}
    truth["annotations"] = [{**one, "image_id": known, "area": 25}]
    paths = write(tmp_path, truth, [{**one, "image_id": x, "score": 0.5} for x in (known, found)])
    message = rf"found.json\[1\]: 'image_id' must be {rule}, .* such as {known!r}, got {found!r}$"
    with pytest.raises(ValueError, match=message):
        read_coco(*paths)


def test_text_ids_are_named_as_text(tmp_path):
    truth, found = scene()
    truth["categories"][1]["id"] = "dog"
    paths = write(tmp_path, truth, found)
    with pytest.raises(ValueError, match=r"categories\[1\]: 'id' must be an integer, as labels are .* got 'dog'"):
        read_coco(*paths)
    truth = {"images": [], "annotations": [], "categories": [{"id": 9, "name": "cat"}]}
    write(tmp_path, truth, [{**found[0], "image_id": "a"}])
    with pytest.raises(ValueError, match=r"found.json\[0\]: unknown image_id 'a'"):
        read_coco(*paths)


def test_the_title_of_classes_names_the_requested_thresholds(tmp_path, capsys):
    paths = write(tmp_path, *scene())
    assert main.main(["coco", *map(str, paths), "--per-class", "--iou-thresholds", "0.3,0.75"]) == 0
    assert "over IoU 0.30,0.75, ap_75 at 0.75; tp" in capsys.readouterr().out


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("content", ["[]", "[", '{"a": 1}\n{"b":'])
def test_reading_restores_the_garbage_collector(enabled, content, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(content)
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with contextlib.suppress(ValueError):
            entries.load(path)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


@pytest.mark.parametrize("visibility", [3, -1, 0.5])
def test_an_unknown_visibility_of_a_keypoint_is_named(visibility, tmp_path):
    entry = {"image_id": 1, "category_id": 1, "area": 4, "keypoints": [1, 1, 2, 5, 5, 1]}
    wrong = {**entry, "keypoints": [1, 1, 2, 5, 5, visibility]}
    truth = {"images": [{"id": 1}], "categories": [{"id": 1, "name": "a"}]}
    for annotations in ([wrong], [entry, wrong]):
        content = truth | {"annotations": [{**x, "bbox": BOX} for x in annotations]}
        paths, place = write(tmp_path, content, []), len(annotations) - 1
        with pytest.raises(
            ValueError, match=rf"annotations\[{place}\]: 'keypoints' .* visibility .* got {visibility}$"
        ):
            read_coco(*paths, "keypoints")
