"""COCO's and VOC's files: real data with published numbers, small files written here, and broken ones."""

import contextlib
import gzip
import io
import json
import os
import pathlib
import re

import numpy as np
import pytest
import torch

from torch_ap.cli import main
from torch_ap.detection import MeanAveragePrecision
from torch_ap.files import read_coco, read_voc
from torch_ap.functional import coco_mean_average_precision, voc_mean_average_precision

FOLDER = os.environ.get("TORCH_AP_TEST_DATA")
needs_data = pytest.mark.skipif(not FOLDER, reason="the environment variable TORCH_AP_TEST_DATA names no folder")
BOXES = [
    0.5045806987249628,
    0.6969727247299577,
    0.5729816669904824,
    0.5856257209410443,
    0.5193996948036719,
    0.5013978986347466,
    0.38681277964578054,
    0.5936795762842003,
    0.595352982877607,
    0.6398109626113442,
    0.5664205978994309,
    0.5642905982905982,
]
MASKS = [0.320, 0.562, 0.299, 0.387, 0.310, 0.327, 0.268, 0.415, 0.417, 0.469, 0.377, 0.381]


def real(kind):
    folder = pathlib.Path(FOLDER) / "coco_val2014_100"
    name = {"bbox": "instances_val2014_fakebbox100_results.json", "segm": "instances_val2014_fakesegm100_results.json"}
    return folder / "instances_val2014_100.json", folder / name[kind]


def numbers(found):
    return [float(v) for k, v in found.items() if k.startswith(("map", "mar")) and "per" not in k]


@needs_data
def test_the_twelve_box_numbers_of_a_hundred_real_images():
    data = read_coco(*real("bbox"))
    assert numbers(coco_mean_average_precision(data.preds, data.target, "xywh")) == BOXES


@needs_data
@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_real_images_equal_pycocotools_in_every_digit(kind):
    pytest.importorskip("pycocotools")
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth, found = real(kind)
    data = read_coco(truth, found, kind)
    ours = coco_mean_average_precision(data.preds, data.target, "xywh", kind, extended_summary=True)
    with contextlib.redirect_stdout(io.StringIO()):
        images = COCO(str(truth))
        theirs = COCOeval(images, images.loadRes(json.loads(found.read_text())), kind)
        theirs.evaluate()
        theirs.accumulate()
        theirs.summarize()
    assert numbers(ours) == theirs.stats.tolist()
    seen = np.isin(theirs.params.catIds, ours["classes"].numpy())
    np.testing.assert_array_equal(ours["precision"].numpy(), theirs.eval["precision"][:, :, seen])
    np.testing.assert_array_equal(ours["recall"].numpy(), theirs.eval["recall"][:, seen])
    assert (theirs.eval["recall"][:, ~seen] == -1).all()


@needs_data
def test_masks_of_real_images_and_the_metric_on_lists():
    pytest.importorskip("pycocotools")
    data = read_coco(*real("segm"), "segm")
    metric = MeanAveragePrecision(iou_type="segm")
    for start in range(0, 100, 30):
        metric.update(data.preds[start : start + 30], data.target[start : start + 30])
    assert [round(x, 3) for x in numbers(metric.compute())] == MASKS


@needs_data
def test_the_command_prints_coco_s_lines(capsys):
    truth, found = real("bbox")
    assert main.main(["coco", str(truth), str(found), "--per-class"]) == 0
    lines = capsys.readouterr().out.splitlines()
    published = (pathlib.Path(FOLDER) / "coco_val2014_100" / "val2014_fake_eval_res.txt").read_text()
    wanted = published[published.index("type=bbox") :].splitlines()[3:15]
    assert [line.replace(" ", "") for line in lines[:12]] == [line.replace(" ", "") for line in wanted]
    assert lines[12] == ""
    assert lines[13].startswith("Each class: ap and ar over IoU 0.50:0.95, ")
    assert lines[14].split() == ["class", "ap", "ap_50", "ap_75", "ar", "ground_truths", "detections", "tp", "fp"]
    assert lines[15].split()[0] == "person"
    assert main.main(["coco", str(truth), str(found), "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out).values()) == BOXES


@needs_data
def test_the_command_prints_the_interval_of_its_mean(capsys, tmp_path):
    truth, found = real("bbox")
    fewer, nothing = tmp_path / "fewer.json", tmp_path / "nothing.json"
    fewer.write_text(json.dumps(json.loads(found.read_text())[::2]))
    nothing.write_text("[]")
    assert (
        main.main(
            ["coco", str(truth), str(found), "--interval", "--compare", str(fewer), "--json", "--n-resamples", "200"]
        )
        == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert said["map_low"] < said["map"] < said["map_high"]
    # these made-up detections have random scores
    assert said["map_chance"] == pytest.approx(said["map"], abs=0.01)
    assert 0 < said["compared"]["low"] < said["compared"]["difference"] < said["compared"]["high"]
    assert said["compared"]["baseline"] == str(fewer)
    assert said["compared"]["p_value"] < 0.05
    assert main.main(["coco", str(truth), str(nothing), "--interval", "--compare", str(nothing)]) == 2
    assert capsys.readouterr().err == f"torch-ap: {nothing}: contains no detections (--allow-empty lets it pass)\n"
    command = ["coco", str(truth), str(nothing), "--interval", "--compare", str(nothing), "--allow-empty"]
    command += ["--confidence-level", "0.9", "--n-resamples", "20"]
    assert main.main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[12:] == [
        "90% interval of the mean: 0.0000 to 0.0000 (all resamples have the same value, which says nothing of its "
        "spread)",
        "Chance level of the mean: 0.0000 (the same boxes, their scores in random order)",
        f"{nothing} - {nothing}: difference of the mean +0.0000, 90% interval +0.0000 to +0.0000, p = 1 "
        "(equal values without a spread: p = 1 by definition)",
    ]


@pytest.fixture
def files(tmp_path):
    """Return truth and results of a small COCO data set as objects, and a function that writes them."""
    truth = {
        "images": [{"id": 5, "height": 20, "width": 20}, {"id": 2, "height": 20, "width": 20}],
        "categories": [{"id": 9, "name": "cat"}, {"id": 4, "name": "dog"}],
        "annotations": [
            {"image_id": 5, "category_id": 9, "bbox": [1, 1, 8, 8], "area": 60, "iscrowd": 0},
            {"image_id": 2, "category_id": 4, "bbox": [3, 3, 6, 6]},
        ],
    }
    truth["annotations"][0]["segmentation"] = [[1, 1, 9, 1, 9, 9, 1, 9]]
    truth["annotations"][1]["segmentation"] = {"size": [20, 20], "counts": [63, 6, 331]}
    found = [
        {"image_id": 5, "category_id": 9, "bbox": [1, 1, 8, 8], "score": 0.5},
        {"image_id": 2, "category_id": 9, "bbox": [1, 1, 8, 8], "score": 0.9},
        {"image_id": 5, "category_id": 4, "bbox": [1, 1, 8, 8], "score": 0.25},
    ]

    def write():
        (tmp_path / "truth.json").write_text(json.dumps(truth))
        (tmp_path / "found.json").write_text(json.dumps(found))
        return tmp_path / "truth.json", tmp_path / "found.json"

    return truth, found, write


def test_files_come_in_order_of_image(files):
    data = read_coco(*files[2]())
    assert data.images == [2, 5]
    assert data.class_names == {9: "cat", 4: "dog"}
    assert data.preds["counts"].tolist() == [1, 2]
    assert data.preds["scores"].tolist() == [0.9, 0.5, 0.25]
    assert data.target["labels"].tolist() == [4, 9]
    assert data.target["area"].tolist() == [36, 60]
    found = coco_mean_average_precision(
        data.preds, data.target, "xywh", class_metrics=True, class_names=data.class_names
    )
    assert 0 < float(found["map_class_cat"]) < 1
    assert float(found["map_class_dog"]) == 0


def test_ids_of_images_may_be_text(files):
    truth, found, write = files
    plain = read_coco(*write())
    for entry in (*truth["annotations"], *found):
        entry["image_id"] = f"image {entry['image_id']}"
    for image in truth["images"]:
        image["id"] = f"image {image['id']}"
    data = read_coco(*write())
    assert data.images == [f"image {one}" for one in plain.images]
    assert all(torch.equal(data.preds[key], plain.preds[key]) for key in plain.preds)
    found[0]["image_id"] = "image 55"
    with pytest.raises(ValueError, match=r"found.json\[0\]: unknown image_id 'image 55'; did you mean 'image 5'"):
        read_coco(*write())
    found[0]["image_id"], found[2]["image_id"] = "image 5", "imag 2"
    with pytest.raises(ValueError, match=r"found.json\[2\]: unknown image_id 'imag 2'; did you mean 'image 2'"):
        read_coco(*write())
    found[0]["image_id"] = 5
    said = r"found.json\[0\]: 'image_id' must be text, .* such as 'image 2', got 5"
    with pytest.raises(ValueError, match=said):
        read_coco(*write())
    truth["images"][1]["id"] = 2
    with pytest.raises(ValueError, match=r"images\[1\]: 'id' must be text, got 2"):
        read_coco(*write())


def test_results_may_be_annotations_of_an_object_and_gzip(files, tmp_path):
    paths = files[2]()
    plain = read_coco(*paths)
    found = json.loads(paths[1].read_text())
    packed = [tmp_path / f"{name}.json.gz" for name in ("truth", "found")]
    packed[0].write_bytes(gzip.compress(paths[0].read_bytes()))
    packed[1].write_bytes(gzip.compress(json.dumps({"info": {}, "annotations": found}).encode()))
    data = read_coco(*packed)
    assert all(torch.equal(data.preds[key], plain.preds[key]) for key in plain.preds)
    paths[1].write_text(json.dumps({"annotations": [{**found[0], "image_id": 77}]}))
    with pytest.raises(ValueError, match=r"found.json: annotations\[0\]: unknown image_id 77"):
        read_coco(*paths)
    paths[1].write_text(json.dumps({"detections": found}))
    with pytest.raises(ValueError, match=r"an object that has it as 'annotations', got .* \['detections'\]$"):
        read_coco(*paths)
    paths[1].write_text(json.dumps({"annotations": [{"image_id": 2}]}))
    with pytest.raises(ValueError, match="whose annotations have no score: are the two files swapped"):
        read_coco(*paths)


def test_results_may_be_one_object_per_line(files):
    paths = files[2]()
    plain, found = read_coco(*paths), json.loads(paths[1].read_text())
    lines = [json.dumps(entry) for entry in found]
    paths[1].write_text("\r\n".join([*lines, "", ""]))
    data = read_coco(*paths)
    assert all(torch.equal(data.preds[key], plain.preds[key]) for key in plain.preds)
    paths[1].write_text("\n".join([lines[0], '{"score": 0.5, "score": 0.6}']))
    with pytest.raises(ValueError, match=r"found.json\[1\]: the key 'score' must occur once"):
        read_coco(*paths)
    for broken, said in ((lines[1][:-2], ": line 4 must be JSON: "), ("7", r"\[2\]: must be an object, got int")):
        paths[1].write_text("\n".join([*lines[:2], "", broken]))
        with pytest.raises(ValueError, match=f"found.json{said}"):
            read_coco(*paths)


def test_polygons_and_plain_codes(files):
    pytest.importorskip("pycocotools")
    truth, found, write = files
    for entry in found:
        entry["segmentation"] = [[1, 1, 9, 1, 9, 9, 1, 9]]
    data = read_coco(*write(), "segm")
    assert [len(image["masks"]) for image in data.preds] == [1, 2]
    assert float(coco_mean_average_precision(data.preds, data.target, iou_type="segm")["map"]) > 0
    del truth["images"][0]["height"], truth["images"][0]["width"]
    with pytest.raises(ValueError, match=r"image 5 .*'height'.*'width'"):
        read_coco(*write(), "segm")


def _entry(where, place, **change):
    def spoil(truth, found):
        entries = found if where == "found" else truth[where]
        for key, value in change.items():
            if value is None:
                del entries[place][key]
            else:
                entries[place][key] = value

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_entry("found", 1, image_id=77), r"found.json\[1\]: unknown image_id 77; known are 2, 5$"),
        (_entry("found", 2, category_id=77), r"found.json\[2\]: unknown category_id 77; known are 9, 4$"),
        (_entry("found", 0, score=None), r"found.json\[0\]: must have the key 'score'"),
        (_entry("found", 0, score="high"), r"found.json\[0\]: 'score' must be a finite number, got 'high'"),
        (
            _entry("found", 1, bbox=[1, 2, 3]),
            r"found.json\[1\]: 'bbox' must contain x, y",
        ),
        (_entry("found", 0, bbox=[1, 2, float("nan"), 3]), r"found.json\[0\]: 'bbox' must contain finite"),
        (_entry("annotations", 0, bbox=[1, 2, -3, 1]), r"annotations\[0\]: 'bbox' must contain a width"),
        (_entry("found", 0, bbox="1234"), r"found.json\[0\]: 'bbox' must contain x, y, width and height, got '1234'"),
        (_entry("found", 0, bbox=[1, 2, 3, 10**400]), r"found.json\[0\]: 'bbox' must contain finite numbers"),
        (_entry("annotations", 0, bbox=[1, 2, 3, -1]), r"annotations\[0\]: 'bbox' must contain a width"),
        (_entry("annotations", 1, image_id=8), r"truth.json: annotations\[1\]: unknown image_id 8"),
        (_entry("annotations", 0, bbox=None), r"truth.json: annotations\[0\]: must have the key 'bbox'"),
        (_entry("categories", 1, id=9), r"truth.json: categories\[1\]: 'id' must occur once, got 9 again"),
        (_entry("images", 1, id="x"), r"truth.json: images\[1\]: 'id' must be an integer"),
        (lambda truth, found: truth.pop("images"), r"truth.json: must be a JSON object with the lists.* no 'images'"),  # noqa: ARG005
        (lambda truth, found: truth.update(images={}), r"truth.json: .*, got {} as 'images'$"),  # noqa: ARG005
        (lambda truth, found: found.append(3), r"found.json\[3\]: must be an object, got int"),  # noqa: ARG005
    ],
)
def test_broken_entries_are_named(files, spoil, message, capsys):
    truth, found, write = files
    spoil(truth, found)
    paths = write()
    with pytest.raises(ValueError, match=message):
        read_coco(*paths)
    assert main.main(["coco", *map(str, paths)]) == 2
    assert capsys.readouterr().err.startswith("torch-ap: ")


def test_no_json(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(ValueError, match=r"a.json: must be JSON"):
        read_coco(tmp_path / "a.json", tmp_path / "a.json")


XML = """<annotation><object><name>cat</name><difficult>{hard}</difficult>
<bndbox><xmin>10</xmin><ymin>10</ymin><xmax>50</xmax><ymax>50</ymax></bndbox></object></annotation>"""


@pytest.fixture
def voc(tmp_path):
    """Write two images as XML and as text, with detections per image and class."""
    for folder in ("xml", "text", "images", "classes"):
        (tmp_path / folder).mkdir()
    for name, hard in (("one", 0), ("two", 1)):
        (tmp_path / "xml" / f"{name}.xml").write_text(XML.format(hard=hard))
        (tmp_path / "text" / f"{name}.txt").write_text("cat 10 10 50 50" + (" difficult" if hard else ""))
    (tmp_path / "images" / "one.txt").write_text("cat 0.9 12 10 50 50\ncat 0.95 80 80 90 90\n")
    (tmp_path / "images" / "two.txt").write_text("\ncat 0.99 10 10 50 50\n")
    lines = "one 0.9 12 10 50 50\none 0.95 80 80 90 90\ntwo 0.99 10 10 50 50\n"
    (tmp_path / "classes" / "comp3_det_test_cat.txt").write_text(lines)
    return tmp_path


@pytest.mark.parametrize("truths", ["xml", "text"])
@pytest.mark.parametrize("detections", ["images", "classes"])
def test_voc_folders(voc, truths, detections, capsys):
    data = read_voc(voc / truths, voc / detections)
    assert data.images == ["one", "two"]
    assert data.target["difficult"].tolist() == [0, 1]
    assert float(voc_mean_average_precision(data.preds, data.target)["map"]) == 0.5
    assert main.main(["voc", str(voc / truths), str(voc / detections)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "AP at IoU of at least 0.5, interpolation all-points",
        *("class      ap", "cat    0.5000", "mean   0.5000"),
    ]
    assert main.main(["voc", str(voc / truths), str(voc / detections), "--json", "--interpolation", "11-point"]) == 0
    assert json.loads(capsys.readouterr().out)["map"] == pytest.approx(0.5)
    if (truths, detections) != ("xml", "images"):
        return  # the following checks need no file
    assert main.main(["voc", str(voc / truths), str(voc / detections), "--interval"]) == 0
    lines = capsys.readouterr().out.splitlines()
    # a class with one object, and two detections in random order: (1 + 1/2) / 2
    none = "all resamples have the same value, which says nothing of its spread"
    assert lines[5:] == [
        f"95% interval of the mean: 0.5000 to 0.5000 ({none})",
        "Chance level of the mean: 0.7500 (the same boxes, their scores in random order)",
    ]
    assert main.main(["voc", str(voc / truths), str(voc / detections), "--interval", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "map": 0.5, "map_low": 0.5, "map_high": 0.5, "map_chance": 0.75, "reason": none, "per_class": {"cat": 0.5},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("images/one.txt", "cat 0.9 1 2 3", r"one.txt, line 1: must contain a name and 5 numbers"),
        ("images/one.txt", "\ncat 0.9 1 2 3 x", r"one.txt, line 2: box must contain finite numbers"),
        ("images/three_cat.txt", "three 0.9 1 2 3 4", r"three_cat.txt, line 1: unknown image 'three'"),
        ("images/x_cat.txt", "oen 0.9 1 2 3 4", r"unknown image 'oen'; did you mean 'one'\?.*of class 'cat'"),
        (
            "images/onee.txt",
            "cat 0.9 1 2 3 4",
            r"no ground truths for an image 'onee'.* 'one'.*'cat'",
        ),
        ("xml/one.xml", "<a>", r"one.xml, line 1: must be XML"),
        (
            "xml/one.xml",
            "<a><object><name>cat</name></object></a>",
            r"one.xml: object 1: must have a 'bndbox' with 'xmin', 'ymin', 'xmax', 'ymax'",
        ),
        (
            "xml/one.xml",
            "<a><object><name>cat</name><bndbox><xmin>9</xmin><ymin>1</ymin><xmax>5</xmax><ymax>2</ymax></bndbox></object></a>",
            r"one.xml: object 1: bndbox must have xmin <= xmax and ymin <= ymax, got \[9.0, 1.0, 5.0, 2.0\]",
        ),
        (
            "xml/one.xml",
            "<a><object><name>cat</name><bndbox><xmin>1</xmin><ymin>3</ymin><xmax>5</xmax><ymax>2</ymax></bndbox></object></a>",
            r"one.xml: object 1: bndbox must have xmin <= xmax and ymin <= ymax, got \[1.0, 3.0, 5.0, 2.0\]",
        ),
        ("xml/one.xml", "<a><object></object></a>", r"one.xml: object 1: must have a 'name'"),
    ],
)
def test_broken_voc_files_are_named(voc, name, text, message):
    (voc / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_voc(voc / "xml", voc / "images")


def test_empty_folders(voc):
    (voc / "none").mkdir()
    with pytest.raises(ValueError, match=r"folder .*\.xml or \.txt"):
        read_voc(voc / "none", voc / "images")
    with pytest.raises(ValueError, match=r"must be a folder with \.txt files"):
        read_voc(voc / "xml", voc / "none")


def test_class_names_with_spaces(tmp_path):
    for name, line in (("a", "traffic light 1 2 3 4"), ("b", "traffic light 0.5 1 2 3 4")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text(line)
    data = read_voc(tmp_path / "a", tmp_path / "b")
    assert data.class_names == ["traffic light"]
    torch.testing.assert_close(data.preds["scores"], torch.tensor([0.5], dtype=torch.float64))


@pytest.mark.parametrize(
    ("side", "line", "said"),
    [
        ("truth", "dog .8 20 20 50 50", "must contain a name and 4 numbers, but has one more"),
        ("found", "dog 17 .9 11 11 50 50", "no ground truth is of class 'dog 17', but some are of 'dog'"),
    ],
)
def test_a_further_column_is_no_part_of_the_class(side, line, said, tmp_path):
    lines = {"truth": ["dog 20 20 50 50", "dog 20 20 50 50"], "found": ["dog .9 20 20 50 50", "dog .8 20 20 50 50"]}
    lines[side][0] = line
    for folder, content in lines.items():
        (tmp_path / folder).mkdir()
        for name, text in zip("ab", content, strict=True):
            (tmp_path / folder / f"{name}.txt").write_text(text)
    with pytest.raises(ValueError, match=re.escape(said)):
        read_voc(tmp_path / "truth", tmp_path / "found")
