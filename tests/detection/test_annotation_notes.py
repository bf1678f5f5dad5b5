"""Notes of the commands about COCO files that are readable but probably wrong."""

import copy
import json
import random

import pytest

from torch_ap.cli import main

FIELDS = {"neg_category_ids": [], "not_exhaustive_category_ids": []}


@pytest.fixture
def run_command(tmp_path, capsys):
    """Return a function that runs a command on annotations and results and returns its standard error."""

    def run(truth, found, *further, command="coco"):
        paths = [tmp_path / "truth.json", tmp_path / "found.json"]
        for path, content in zip(paths, (truth, found), strict=True):
            path.write_text(json.dumps(content))
        assert main.main([command, *map(str, paths), *further, "--json"]) == 0
        return capsys.readouterr().err

    return run


@pytest.fixture
def scene():
    """Return annotations, with masks and three keypoints, and results that match them."""
    r, truths = random.Random(3), []
    for image in range(1, 13):
        for _ in range(3):
            x, y, width, height = r.uniform(100, 400), r.uniform(100, 300), r.uniform(40, 100), r.uniform(40, 100)
            corners = [x, y, x + width, y, x + width, y + height, x, y + height]
            points = [v for at in (0, 2, 4) for v in (*corners[at : at + 2], 2)]
            one = {"image_id": image, "category_id": 1, "bbox": [x, y, width, height], "area": width * height}
            truths.append({**one, "segmentation": [corners], "keypoints": points})
    images = [{"id": one, "width": 640, "height": 480, **FIELDS} for one in range(1, 13)]
    categories = [{"id": 1, "name": "cat", "frequency": "f"}, {"id": 7, "name": "dog", "frequency": "c"}]
    found = [{**one, "score": r.random()} for one in copy.deepcopy(truths)]
    return {"images": images, "annotations": truths, "categories": categories}, found


KINDS = [["--iou-type", "bbox"], ["--iou-type", "segm"], ["--iou-type", "keypoints", "--sigmas", ".1,.1,.1"]]


@pytest.mark.parametrize("kind", KINDS)
def test_correct_files_have_no_notes(kind, scene, run_command):
    if "segm" in kind:
        pytest.importorskip("pycocotools")
    truth, found = scene
    truth = {**truth, "images": [{key: one[key] for key in ("id", "width", "height")} for one in truth["images"]]}
    assert run_command(truth, found, *kind) == ""


@pytest.mark.parametrize(
    ("command", "mark", "read"),
    [
        *(("coco", mark, "iscrowd") for mark in ("ignore", "difficult")),
        *(("lvis", mark, "ignore") for mark in ("iscrowd", "difficult")),
    ],
)
def test_marks_that_are_not_read_are_noted(command, mark, read, scene, run_command):
    for one in scene[0]["annotations"][:4]:
        one[mark] = 1
    notes = run_command(*scene, command=command)
    assert f"truth.json: `{mark}` is 1 of 4 annotations" in notes
    assert f"only `{read}`" in notes


def test_categories_of_one_name_are_noted(scene, run_command):
    scene[0]["categories"][1]["name"] = "cat"
    assert "truth.json: the categories '1, 7' have one name, 'cat'" in run_command(*scene)


@pytest.mark.parametrize("share", [1.0, 0.2, 0.05])
def test_boxes_that_leave_their_images_are_noted(share, scene, run_command):
    for one in scene[0]["annotations"][: round(36 * share)]:
        x, y, width, height = one["bbox"]
        one["bbox"] = [x + 80, y + 80, x + 80 + width, y + 80 + height]
    notes = run_command(scene[0], [{**one, "score": 0.5} for one in scene[0]["annotations"]])
    assert ("boxes of the annotations leave their images" in notes) == (share > 0.1)
    assert ("as x1 y1 x2 y2 all would lie inside" in notes) == (share == 1)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda x, y, width, height: [x / 640, y / 480, width / 640, height / 480], "are fractions, from -1 to 1"),
        (lambda x, y, width, height: [x, y, x + width, y + height], "as x1 y1 x2 y2 all would lie inside"),
    ],
)
def test_results_in_other_units_are_noted_for_weak_detectors(change, text, scene, run_command):
    truth, found = scene
    for one in found:
        x, y, width, height = one["bbox"]
        one["bbox"] = change(x, y, 0.5 * width, 0.5 * height)  # a quarter of the area matches nothing
    notes = run_command(truth, found)
    assert "boxes of the detections" in notes
    assert text in notes


@pytest.mark.parametrize("kind", KINDS)
def test_results_that_match_nothing_are_noted_without_a_known_cause(kind, scene, run_command):
    if "segm" in kind:
        pytest.importorskip("pycocotools")
    truth, found = scene
    truth["images"] += [{"id": 100 + one["id"], "width": 640, "height": 480} for one in truth["images"]]
    for one in found:
        one["image_id"] += 100
    found[0]["image_id"] = 1
    found[0]["bbox"] = [truth["annotations"][0]["bbox"][0] + 39, *found[0]["bbox"][1:]]
    found[0]["segmentation"] = [[0, 0, 9, 0, 9, 9]]
    found[0]["keypoints"] = [x + 200 for x in found[0]["keypoints"]]
    notes = [line for line in run_command(truth, found, *kind).splitlines() if "found.json" in line]
    assert len(notes) == 1
    assert "are these the right files?" in notes[0]
    if "segm" in kind:
        assert "no detection matches" in notes[0]
        assert "an IoU of 0.5 or more" in notes[0]


def test_files_without_detections_have_no_such_note(scene, run_command):
    assert "match" not in run_command(scene[0], [], "--allow-empty")


def test_matches_of_crowds_alone_are_noted(run_command):
    crowd, other = ({"image_id": 1, "category_id": 1, "bbox": [x, 1, 8, 8], "iscrowd": x == 1} for x in (1, 30))
    truth = {"images": [{"id": 1}], "categories": [{"id": 1, "name": "cat"}], "annotations": [crowd, other]}
    notes = run_command(truth, [{**crowd, "score": 0.5}])
    assert "match only ignored ground truths" in notes
    assert "right files" not in notes
