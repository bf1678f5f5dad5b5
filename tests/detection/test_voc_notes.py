"""Notes of ``torch-ap voc`` about readable files without any match, in every format."""

import json

import pytest

from torch_ap.cli import main

IMAGES = "abcdefghij"  # fewer than cause the warning of labels in Python, which would duplicate a note
HERE, NEAR, ASIDE = (10.0, 10, 50, 50), (40.0, 10, 80, 50), (60.0, 60, 90, 90)  # in images of 100 pixels


def corners(box):
    x1, y1, x2, y2 = box
    return f"{x1} {y1} {x2} {y1} {x2} {y2} {x1} {y2}"


def fractions(box):
    x1, y1, x2, y2 = (x / 100 for x in box)
    return f"{(x1 + x2) / 2} {(y1 + y2) / 2} {x2 - x1} {y2 - y1}"


def as_voc(truth, found):
    truths = {f"t/{image}.txt": f"{truth[0]} {' '.join(map(str, truth[1]))}" for image in IMAGES}
    return truths | {f"d/{image}.txt": f"{found[0]} 0.9 {' '.join(map(str, found[1]))}" for image in IMAGES}


def as_yolo(truth, found):
    ids = {"cat": 0, "dog": 1}
    truths = {f"t/{image}.txt": f"{ids[truth[0]]} {fractions(truth[1])}" for image in IMAGES}
    detections = {f"d/{image}.txt": f"{ids[found[0]]} {fractions(found[1])} 0.9" for image in IMAGES}
    return truths | detections | {"sizes.txt": "".join(f"{image} 100 100\n" for image in IMAGES)}


def as_dota(truth, found):
    truths = {f"t/{image}.txt": f"{corners(truth[1])} {truth[0]} 0" for image in IMAGES}
    return truths | {f"d/{found[0]}.txt": "".join(f"{image} 0.9 {corners(found[1])}\n" for image in IMAGES)}


def as_activitynet(truth, found):
    one, other = ({"label": name, "segment": box[::2]} for name, box in (truth, found))
    database = {image: {"subset": "validation", "duration": 100, "annotations": [one]} for image in IMAGES}
    results = {image: [{**other, "score": 0.9}] for image in IMAGES}
    return {"t": json.dumps({"database": database}), "d": json.dumps({"results": results})}


FORMATS = {"voc": as_voc, "yolo": as_yolo, "dota": as_dota, "activitynet": as_activitynet}


@pytest.fixture
def run_voc(tmp_path, capsys):
    """Return a function that gives the mean of ten images with a truth and a detection each, and standard error."""

    def run(form, truth, found):
        for name, content in FORMATS[form](truth, found).items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(content)
        sizes = ["--images", str(tmp_path / "sizes.txt")] if form == "yolo" else []
        assert main.main(["voc", str(tmp_path / "t"), str(tmp_path / "d"), "--format", form, *sizes, "--json"]) == 0
        out = capsys.readouterr()
        return json.loads(out.out)["map"], out.err

    return run


CASES = [
    *((form, ("cat", HERE), None) for form in FORMATS),
    *((form, ("cat", NEAR), "no detection matches a ground truth of its image and class") for form in FORMATS),
    *((form, ("cat", ASIDE), "are these the right files?") for form in FORMATS),
    *((form, ("dog", HERE), "no class of the detections") for form in ("voc", "yolo")),  # the other formats raise
]


@pytest.mark.parametrize(("form", "found", "message"), CASES)
def test_files_without_matches_cause_a_note(form, found, message, run_voc):
    value, said = run_voc(form, ("cat", HERE), found)
    assert value == (message is None)
    assert (message or "") in said
    assert said.count("\n") == (message is not None)


@pytest.mark.parametrize(("form", "limit"), [("voc", "of 0.5 or more"), ("dota", "above 0.5")])
def test_the_note_names_the_threshold_of_the_rules(form, limit, run_voc):
    assert f"at an IoU {limit}: are" in run_voc(form, ("cat", HERE), ("cat", NEAR))[1]


def test_only_difficult_objects_cause_a_note(run_voc, monkeypatch):
    def hard(truth, found):
        return {name: lines.replace(" cat 0", " cat 1") for name, lines in as_dota(truth, found).items()}

    monkeypatch.setitem(FORMATS, "dota", hard)
    value, said = run_voc("dota", ("cat", HERE), ("cat", HERE))
    assert value is None
    assert "every ground truth is difficult" in said
