"""DOTA's and ActivityNet's files: scenes have the number of their tensors; invalid input."""

import gzip
import json

import pytest
import torch

from tests.support.oracles_detection import random_intervals, random_rotated
from torch_ap.cli import main
from torch_ap.detection.shapes import rotated
from torch_ap.files import read_activitynet, read_dota, read_hierarchy
from torch_ap.functional import voc_mean_average_precision

CLASSES = ["plane", "small-vehicle"]
TEN = [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]


def scenes(draw, seed=3, **settings):
    preds, target = draw(seed, images=12, classes=2, **settings)
    hard = [{"difficult": image.pop("iscrowd"), **image} for image in target]
    return preds, [{key: x for key, x in image.items() if key != "area"} for image in hard]


def with_distinct_scores(preds):
    """Draw distinct scores, since files determine the order of equal ones."""
    count = sum(len(image["scores"]) for image in preds)
    scores = torch.rand(count, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    parts = scores.split([len(image["scores"]) for image in preds])
    return [image | {"scores": part} for image, part in zip(preds, parts, strict=True)]


def run_command(arguments, capsys):
    status = main.main(["voc", *map(str, arguments), "--json"])
    out = capsys.readouterr()
    return (status, json.loads(out.out)) if status == 0 else (status, out.err)


@pytest.fixture
def dota(tmp_path):
    preds, target = scenes(random_rotated)
    preds = with_distinct_scores(preds)
    truth, found = tmp_path / "labelTxt", tmp_path / "Task1"
    lines = {name: [] for name in CLASSES}
    for folder in (truth, found):
        folder.mkdir()
    for place, (p, t) in enumerate(zip(preds, target, strict=True)):
        corners = [rotated.corners(x["boxes"], "cxcywhr").flatten(1).tolist() for x in (p, t)]
        rows = zip(corners[1], t["labels"].tolist(), t["difficult"].tolist(), strict=True)
        objects = [f"{' '.join(map(repr, box))} {CLASSES[label]} {hard}" for box, label, hard in rows]
        (truth / f"P{place:04}.txt").write_text("\n".join(["imagesource:GoogleEarth", "gsd:0.15", *objects]))
        for box, label, score in zip(corners[0], p["labels"].tolist(), p["scores"].tolist(), strict=True):
            lines[CLASSES[label]].append(f"P{place:04} {score!r} {' '.join(map(repr, box))}")
    for name, one in lines.items():
        (found / f"Task1_{name}.txt").write_text("\n".join(one))
    return truth, found, preds, target


def test_dota_folders_give_the_number_of_their_boxes(dota, capsys):
    truth, found, preds, target = dota
    rules = {"iou_type": "rotated", "interpolation": "11-point-arange", "strict": True, "class_metrics": True}
    expected = voc_mean_average_precision(preds, target, "cxcywhr", **rules)
    data = read_dota(truth, found)
    assert (data.class_names, len(data.images), data.preds["boxes"].shape[1]) == (CLASSES, 12, 8)
    ours = voc_mean_average_precision(data.preds, data.target, "xyxyxyxy", **rules)
    assert 0 < ours["map"] < 1
    assert torch.allclose(ours["map_per_class"], expected["map_per_class"])
    status, said = run_command([truth, found, "--format", "dota", "--interval", "--n-resamples", 20], capsys)
    assert (status, said["map"]) == (0, pytest.approx(float(ours["map"])))
    status, said = run_command([truth, found, "--format", "dota", "--interpolation", "all-points"], capsys)
    whole = voc_mean_average_precision(data.preds, data.target, "xyxyxyxy", iou_type="rotated", strict=True)
    assert (status, said["map"]) == (0, pytest.approx(float(whole["map"])))


@pytest.mark.usefixtures("dota")
def test_dota_ground_truths_must_contain_an_object(tmp_path, capsys):
    for path in (tmp_path / "labelTxt").iterdir():
        path.write_text("")
    status, said = run_command([tmp_path / "labelTxt", tmp_path / "Task1", "--format", "dota"], capsys)
    assert status == 2
    assert "labelTxt: the ground truths contain no object" in str(said)


SQUARE = "0 0 9 0 9 9 0 9"
CROSSED = "0 0 9 9 9 0 0 9"


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("labelTxt/P0000.txt", f"{SQUARE} plane", "P0000.txt, line 1: must contain 8 numbers, a class and"),
        ("labelTxt/P0000.txt", f"{SQUARE} plane hard", "line 1: difficult must be 0, 1 or 2, got 'hard'"),
        ("labelTxt/P0000.txt", f"{SQUARE} plane 3", "line 1: difficult must be 0, 1 or 2, got '3'"),
        ("labelTxt/P0000.txt", "0 0 9 0 9 9 0 x plane 0", "line 1: corners must contain finite numbers"),
        ("labelTxt/P0000.txt", f"{SQUARE[:-1]}1e16 plane 0", "corners must contain numbers of at most 1e"),
        ("Task1/Task1_plane.txt", f"P0000 {SQUARE}", "line 1: must contain an image, a score and 8 numbers"),
        ("Task1/Task1_plane.txt", f"P9 0.5 {SQUARE}", "line 1: unknown image 'P9'"),
        ("Task1/Task1_plane.txt", f"P0000.png 0.5 {SQUARE}", "unknown image 'P0000.png'; did you mean 'P0000'?"),
        ("Task1/Task1_plane.txt", f"P0000 nan {SQUARE}", "score must contain finite numbers"),
        ("Task1/Task1_plan.txt", f"P0000 0.5 {SQUARE}", "no ground truth is of class 'plan'; did you mean 'plane'?"),
        ("Task1/P0001.txt", f"{SQUARE} plane 0", "are the folders swapped?"),
        ("Task1/plane.txt", f"P0000 0.5 {SQUARE}", "class 'plane' must have one file, but has "),
        ("labelTxt/P0000.txt", f"gsd:1\n{CROSSED} plane 0", "labelTxt/P0000.txt, line 2: the corners must be quadri"),
        ("Task1/Task1_plane.txt", f"P0000 0.5 {SQUARE}\nP0000 0.5 {CROSSED}", "plane.txt, line 2: the corners must be"),
        ("Task1/Task1_plane.txt", f"P0000 0.5 {CROSSED}", "9.0]; put these in order, or leave the line out"),
    ],
)
@pytest.mark.usefixtures("dota")
def test_broken_dota_files_are_named(name, line, message, tmp_path, capsys):
    (tmp_path / name).write_text(line)
    status, said = run_command([tmp_path / "labelTxt", tmp_path / "Task1", "--format", "dota"], capsys)
    assert status == 2
    assert message in said


def test_dota_annotations_need_not_be_convex(tmp_path, capsys):
    dart = "0 0 90 50 0 90 30 50"
    for folder, name, line in (("labelTxt", "P1", f"{dart} plane 0"), ("Task1", "plane", f"P1 0.5 {dart}")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.txt").write_text(line)
    status, said = run_command([tmp_path / "labelTxt", tmp_path / "Task1", "--format", "dota"], capsys)
    assert (status, said["map"]) == (0, 1)


def test_dota_in_fractions_and_other_options_are_refused(tmp_path, dota, capsys):
    truth, found, *_ = dota
    for option in (["--names", "x"], ["--subset", "x"], ["--exclusive-pixels"], ["--box-format", "xyxy"]):
        status, said = run_command([truth, found, "--format", "dota", *option], capsys)
        assert status == 2
        assert f"{option[0]} has no meaning with --format dota" in said
    assert "labelTxt/P0000.txt, line 1: must contain a name and 4 numbers" in (
        said := run_command([truth, found], capsys)[1]
    )
    assert "as in DOTA's files: --format dota" in said
    (tmp_path / "voc").mkdir()
    (tmp_path / "voc" / "P0000.txt").write_text("plane 0 0 9 9")
    said = run_command([tmp_path / "voc", found], capsys)[1]
    assert "Task1_plane.txt, line 1: must contain a na" in said
    assert "as in DOTA's files: --format dota" in said
    (found / "Task1_plane.txt").unlink()
    (found / "Task1_small-vehicle.txt").write_text("P0000 0.5 .1 .1 .2 .1 .2 .2 .1 .2")
    with pytest.raises(ValueError, match=r"Task1: all corners are in \[0, 1\]; they must be in pixels"):
        read_dota(truth, found)
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="allow-empty"):
        read_dota(truth, tmp_path / "none")
    assert not len(read_dota(truth, tmp_path / "none", allow_empty=True).preds["labels"])
    with pytest.raises(ValueError, match=r"must be a folder with \.txt files"):
        read_dota(tmp_path / "none", found)


def test_dota_objects_that_are_cut_are_difficult(dota):
    truth, found, *_ = dota
    (truth / "P0000.txt").write_text("".join(f"{SQUARE} plane {mark}\n" for mark in range(3)))
    assert read_dota(truth, found).target["difficult"][:3].tolist() == [0, 1, 1]


@pytest.fixture
def activitynet(tmp_path):
    preds, target = scenes(random_intervals)
    preds = with_distinct_scores(preds)
    for image in target:
        image["difficult"] = torch.zeros_like(image["difficult"])

    def annotations_of(image):
        keys = ("intervals", "labels", *(["scores"] if "scores" in image else []))
        rows = zip(*(image[key].tolist() for key in keys), strict=True)
        names = ("segment", "label", "score")
        return [dict(zip(names, (row[0], CLASSES[row[1]], *row[2:]), strict=False)) for row in rows]

    database = {
        f"v{place:02}": {"subset": "validation", "duration": 1000.0, "annotations": annotations_of(image)}
        for place, image in enumerate(target)
    }
    database["other"] = {"subset": "training", "duration": 9.0, "annotations": []}
    results = {f"v{place:02}": annotations_of(image) for place, image in enumerate(preds)}
    truth, found = tmp_path / "truth.json.gz", tmp_path / "found.json"
    truth.write_bytes(gzip.compress(json.dumps({"version": "1.3", "database": database}).encode()))
    found.write_text(json.dumps({"results": results}))
    return truth, found, preds, target


def test_activitynet_files_give_the_number_of_their_segments(activitynet, capsys):
    truth, found, preds, target = activitynet
    rules = {"iou_type": "intervals", "iou_thresholds": TEN, "class_metrics": True}
    expected = voc_mean_average_precision(preds, target, **rules)
    data = read_activitynet(truth, found)
    ours = voc_mean_average_precision(data.preds, data.target, **rules)
    assert (data.class_names, len(data.images)) == (CLASSES, 12)
    assert 0 < ours["map"] < 1
    assert torch.allclose(ours["map_per_class"], expected["map_per_class"])
    status, said = run_command([truth, found, "--format", "activitynet", "--per-class"], capsys)
    assert (status, said["map"]) == (0, pytest.approx(float(ours["map"])))
    assert main.main(["voc", str(truth), str(found), "--format", "activitynet", "--iou-threshold", "0.5"]) == 0
    assert "AP at IoU of at least 0.5, interpolation all-points" in capsys.readouterr().out


def entry(**change):
    return {"results": {"v00": [{"segment": [1, 2], "label": "plane", "score": 0.5} | change]}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (entry(segment=[2, 1]), "results['v00'][0]: 'segment' must contain start and end in seconds, the start first"),
        (entry(segment=[1]), "'segment' must contain start and end"),
        (entry(score="0.5"), "results['v00'][0]: 'score' must be a finite number, got '0.5'"),
        (entry(label="plan"), "[0]: no ground truth is of class 'plan'; did you mean 'plane'?"),
        ({"results": {"v_v00": []}}, "no such video; did you mean 'v00'?"),
        ({"results": {"v000": []}}, "no such video; did you mean 'v00'?"),
        ({"results": {"other": []}}, "must be a video of the subset 'validation'; it is of the subset 'training'"),
        ({"results": {"v00": {}}}, "results['v00']: must be a list of objects with 'segment' and 'label', got {}"),
        ({"database": {}}, "must be a JSON object with the object 'results', but has 'database': are the two"),
        ([], "must be a JSON object with the object 'results', got []"),
        ({"results": {}}, "contains no detections"),
        (entry(segment=[0.1, 0.9]), "must be in seconds, not fractions of the video"),
        (entry(segment=[3000, 4000]), "must be in seconds, not frames"),
    ],
)
def test_broken_activitynet_files_are_named(activitynet, content, message, capsys):
    truth, found, *_ = activitynet
    found.write_text(json.dumps(content))
    status, said = run_command([truth, found, "--format", "activitynet"], capsys)
    assert status == 2
    assert message in said


TREE = {"LabelName": "a", "Subcategory": [{"LabelName": "b", "Subcategory": [{"LabelName": "c"}]}, {"LabelName": "c"}]}


def test_the_parents_of_classes(tmp_path):
    path = tmp_path / "tree.json"
    path.write_text(json.dumps(TREE))
    assert read_hierarchy(path, {"a": 0, "b": 1, "c": 2}) == {1: [0], 2: [0, 1]}
    assert read_hierarchy(path, {"a": 0, "c": 2}) == {2: [0]}  # through a class without a label
    assert read_hierarchy(path, {"c": 2}) == {}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([], "hierarchy: must be an object with 'LabelName', got "),
        ({"LabelName": "a", "Subcategory": [{}]}, r"hierarchy.Subcategory\[0\]: must be an object with 'LabelName'"),
        ({"LabelName": "a", "Subcategory": {}}, "hierarchy: 'Subcategory' must be a list, got {}"),
        ({"LabelName": "/m/0"}, r"none of its names has a label; `labels` has \['a'\]"),
    ],
)
def test_broken_hierarchies_are_named(tree, message, tmp_path):
    path = tmp_path / "tree.json"
    path.write_text(json.dumps(tree))
    with pytest.raises(ValueError, match=message):
        read_hierarchy(path, {"a": 0})


def test_the_subset_is_one_of_the_file(activitynet, capsys):
    truth, found, *_ = activitynet
    status, said = run_command([truth, found, "--format", "activitynet", "--subset", "testing"], capsys)
    assert status == 2
    assert "no video is of the subset 'testing'; there are ['training', 'validation']" in said
