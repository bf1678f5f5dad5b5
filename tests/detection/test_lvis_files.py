"""LVIS's files: reading, output of the command, and invalid files."""

import copy
import json

import pytest
import torch

import torch_ap
from tests.detection.test_lvis import many
from tests.support.oracles_lvis import as_files, frequencies_of, lvis_eval
from tests.support.tolerances import REORDERED
from torch_ap.cli.main import main
from torch_ap.files import read_lvis

FREQUENCIES = frequencies_of(6)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write annotations, results and worse results; return the first two as objects."""
    folder = tmp_path_factory.mktemp("lvis")
    truth, found = as_files(*many(60, 2), FREQUENCIES)
    worse = [{**one, "score": 0.5} for one in found[::2]]
    paths = [folder / name for name in ("truth.json", "found.json", "worse.json")]
    for path, content in zip(paths, (truth, found, worse), strict=True):
        path.write_text(json.dumps(content))
    return [*map(str, paths), truth, found]


def printed(capsys, *arguments):
    assert main(["lvis", *arguments]) == 0
    return capsys.readouterr()


def test_the_metric_accepts_read_files(files):
    data = read_lvis(*files[:2])
    assert data.frequencies == FREQUENCIES
    metric = torch_ap.LVISMeanAveragePrecision("xywh", frequencies=data.frequencies, use_given_area=True)
    metric.update(data.preds, data.target)
    wanted = lvis_eval(*files[3:]).results
    assert float(metric.compute()["map_rare"]) == pytest.approx(wanted["APr"], abs=REORDERED)


@pytest.mark.parametrize("fixed", [False, True])
def test_json_has_lvis_names_and_numbers(files, capsys, fixed):
    found = json.loads(printed(capsys, *files[:2], "--json", *["--fixed"] * fixed).out)
    wanted = lvis_eval(*files[3:], most=-1 if fixed else 300).results
    assert list(found) == list(wanted)
    assert found == pytest.approx(wanted, abs=REORDERED)


def test_lines_equal_lvis(files, capsys):
    out = printed(capsys, *files[:2]).out
    lvis_eval(*files[3:]).print_results()
    assert out == capsys.readouterr().out
    out = printed(capsys, *files[:2], "--fixed", "--per-class").out.partition("\n\n")
    lvis_eval(*files[3:], most=-1).print_results()
    assert out[0] + "\n" == capsys.readouterr().out.replace("maxDets= -1", "maxDets=all")  # detections per image
    assert "AR@all" in out[2]
    assert "-1" not in out[2]


def test_tables_intervals_and_a_baseline(files, capsys):
    more = ("--per-class", "--interval", "--compare", files[2], "--n-resamples", "20")
    found = json.loads(printed(capsys, *files[:2], "--json", *more).out)
    assert found["AP_low"] < found["AP"] < found["AP_high"]
    assert found["compared"]["low"] < found["compared"]["difference"] < found["compared"]["high"]
    assert found["per_class"]["name"] == [f"c{label}" for label in FREQUENCIES]
    assert list(found["per_class"])[:8] == ["class", "name", "AP", "AP_low", "AP_high", "AP50", "AP75", "AR@300"]
    points = json.loads(printed(capsys, *files[:2], "--json", "--operating-points").out)["operating_points"]
    assert points["per_class"]["name"] == found["per_class"]["name"]
    assert "Operating points of the best F1, at IoU 0.5" in printed(capsys, *files[:2], "--operating-points").out
    markdown = printed(capsys, *files[:2], "--markdown", "--per-class").out
    assert f"| Average Precision | 0.50 | all | all | {found['AP50']:.3f} |" in markdown
    csv = printed(capsys, *files[:2], "--csv").out
    assert csv.splitlines()[1] == f"AP,all,{found['AP']!r}"


def test_a_report(files, capsys, tmp_path):
    page = tmp_path / "page.md"
    printed(capsys, *files[:2], "--report", str(page), "--n-resamples", "20")
    assert "LVIS's mean average precision: the mean over 10 IoU thresholds" in page.read_text()
    assert "at most 300 detections per image" in page.read_text()


def test_coco_notes_a_file_with_lvis_fields(files, capsys):
    assert main(["coco", *files[:2]]) == 0
    assert (
        "truth.json: has LVIS's lists, `neg_category_ids` or `not_exhaustive_category_ids`, which"
        in capsys.readouterr().err
    )


def remove_key(key):
    def change(entry):
        del entry[key]

    return change


def set_key(key, value):
    return lambda entry: entry.update({key: value})


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("images", remove_key("neg_category_ids"), "images[0]: must have the key 'neg_category_ids' (of LVIS's files;"),
        ("images", remove_key("not_exhaustive_category_ids"), "must have the key 'not_exhaustive_category_ids'"),
        ("images", set_key("neg_category_ids", 3), "images[0]: 'neg_category_ids' must be a list of ids of categories"),
        ("images", set_key("neg_category_ids", ["3"]), "images[0]: 'neg_category_ids' must be a list of ids"),
        ("images", set_key("neg_category_ids", [77]), "'neg_category_ids' must contain ids of categories, got 77"),
        ("images", set_key("not_exhaustive_category_ids", [77]), "must contain ids of categories, got 77"),
        ("categories", remove_key("frequency"), "categories[0]: must have the key 'frequency'"),
        ("categories", set_key("frequency", "rare"), "categories[0]: 'frequency' must be 'r', 'c' or 'f', got 'rare'"),
        ("annotations", remove_key("area"), "annotations[0]: must have the key 'area'"),
        ("annotations", set_key("area", -5), "'area' must be a finite number of at least 0, got -5"),
        ("annotations", set_key("category_id", 77), "annotations[0]: unknown category_id 77"),
        ("annotations", set_key("ignore", 2), "annotations[0]: 'ignore' must be 0 or 1, got 2"),
    ],
)
def test_missing_fields_raise(files, capsys, tmp_path, part, change, message):
    truth = copy.deepcopy(files[3])
    change(truth[part][0])
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(truth))
    assert main(["lvis", str(path), files[1]]) == 2
    said = capsys.readouterr().err
    assert f"{path}: " in said
    assert message in said


def test_a_category_is_not_both_negative_and_annotated(files, capsys, tmp_path):
    truth = copy.deepcopy(files[3])
    first = truth["annotations"][0]
    place = next(i for i, image in enumerate(truth["images"]) if image["id"] == first["image_id"])
    truth["images"][place]["neg_category_ids"].append(first["category_id"])
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(truth))
    assert main(["lvis", str(path), files[1]]) == 2
    assert (
        f"images[{place}]: 'neg_category_ids' must contain no category that an annotation of the image has, got "
        f"{first['category_id']}"
    ) in capsys.readouterr().err


def test_a_category_is_in_one_list_of_an_image(files, capsys, tmp_path):
    truth = copy.deepcopy(files[3])
    place, image = next((i, image) for i, image in enumerate(truth["images"]) if image["neg_category_ids"])
    image["not_exhaustive_category_ids"] = image["neg_category_ids"][:1]
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(truth))
    assert main(["lvis", str(path), files[1]]) == 2
    said = f"images[{place}]: 'neg_category_ids' must contain no category that 'not_exhaustive_category_ids' has"
    assert said in capsys.readouterr().err


def test_crowds_are_noted(files, capsys, tmp_path):
    truth = copy.deepcopy(files[3])
    truth["annotations"][1]["iscrowd"] = 1
    path = tmp_path / "crowds.json"
    path.write_text(json.dumps(truth))
    said = printed(capsys, str(path), files[1]).err
    assert "`iscrowd` is 1 of 1 annotations; LVIS's rules read only `ignore`" in said
    assert "iscrowd" not in printed(capsys, *files[:2]).err


def test_masks(tmp_path, capsys):
    pytest.importorskip("pycocotools")
    code = {"size": [20, 24], "counts": [25, 5, 450]}
    lists = {"neg_category_ids": [2], "not_exhaustive_category_ids": []}
    truth = {
        "images": [{"id": 1, "height": 20, "width": 24, **lists}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "segmentation": code, "area": 5}],
        "categories": [{"id": i, "name": str(i), "frequency": "f"} for i in (1, 2)],
    }
    found = [{"image_id": 1, "category_id": i, "segmentation": code, "score": 0.5} for i in (1, 2)]
    paths = [tmp_path / name for name in ("truth.json", "found.json")]
    for path, content in zip(paths, (truth, found), strict=True):
        path.write_text(json.dumps(content))
    numbers = json.loads(printed(capsys, *map(str, paths), "--iou-type", "segm", "--json").out)
    assert (numbers["APf"], numbers["APr"]) == (pytest.approx(1.0), -1)
    # if the first result has a box, areas are box areas, as in lvis: this one is large and ignored
    boxed = [{**found[0], "bbox": [0, 0, 1000, 1000]}, {**found[1], "bbox": [0, 0, 1, 5]}]
    paths[1].write_text(json.dumps(boxed))
    numbers = json.loads(printed(capsys, *map(str, paths), "--iou-type", "segm", "--json").out)
    assert numbers == pytest.approx(lvis_eval(truth, boxed, "segm").results, abs=REORDERED)
    data = read_lvis(*paths, "segm")
    assert [image["neg_category_ids"].tolist() for image in data.target] == [[2]]
    assert torch.equal(data.target[0]["not_exhaustive_category_ids"], torch.empty(0, dtype=torch.int64))
