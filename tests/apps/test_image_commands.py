"""``torch-ap coco``, ``lvis`` and ``voc`` with several lists of detections, slices and custom settings."""

import json
import pathlib
import random
import re

import pytest

from tests.support.tolerances import REORDERED
from torch_ap.cli import main
from torch_ap.cli.image_options import area_ranges
from torch_ap.detection import LVISMeanAveragePrecision, MeanAveragePrecision, VOCMeanAveragePrecision
from torch_ap.detection.metrics.coco_analyses import CocoEvaluation
from torch_ap.files import read_coco, read_lvis, read_voc
from torch_ap.inference import best_of_metrics

COMMANDS = ("coco", "lvis", "voc")
SYSTEMS = {"a": 5, "b": 9, "c": 3}  # offsets of the boxes
FEW = ["--n-resamples", "30"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write annotations and results of three detectors; paths are relative."""
    draw, found = random.Random(3), {name: [] for name in SYSTEMS}
    images = [{"id": 100 + one, "width": 600, "height": 600} for one in range(16)]
    categories = [{"id": one, "name": name} for one, name in ((1, "cat"), (2, "dog"), (9, "yak"))]
    truths = []
    for image in images:
        for _ in range(4):
            box = [draw.uniform(0, 500), draw.uniform(0, 500), draw.uniform(20, 90), draw.uniform(20, 90)]
            one = {"image_id": image["id"], "category_id": draw.choice([1, 1, 2])}
            truths.append({**one, "bbox": box, "area": box[2] * box[3]})
            for name, off in SYSTEMS.items():
                moved = [max(1, x + draw.gauss(0, off)) for x in box]
                found[name].append({**one, "bbox": moved, "score": draw.random()})
    write = {"truth": {"images": images, "categories": categories, "annotations": truths}, **found}
    for name, content in write.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    (tmp_path / "slices.json").write_text(json.dumps({"day": list(range(100, 110)), "night": [112, 110], "none": []}))
    monkeypatch.chdir(tmp_path)
    return write


@pytest.fixture
def command_inputs(files):
    """Return ground truths, detections and slices for each command, from the same three detectors."""
    truth = files["truth"]
    lists = {"neg_category_ids": [], "not_exhaustive_category_ids": [9]}
    federated = {
        **truth,
        "images": [{**x, **lists} for x in truth["images"]],
        "categories": [{**x, "frequency": "rcf"[x["id"] % 3]} for x in truth["categories"]],
    }
    pathlib.Path("federated.json").write_text(json.dumps(federated))
    names = {x["id"]: x["name"] for x in truth["categories"]}
    for folder, every in (("truth", truth["annotations"]), *((x, files[x]) for x in SYSTEMS)):
        lines = {x["id"]: [] for x in truth["images"]}
        for one in every:
            x, y, w, h = one["bbox"]
            score = f"{one['score']} " if "score" in one else ""
            lines[one["image_id"]].append(f"{names[one['category_id']]} {score}{x} {y} {x + w} {y + h}")
        pathlib.Path(folder).mkdir()
        for image, rows in lines.items():
            pathlib.Path(folder, f"{image}.txt").write_text("\n".join(rows))
    parts = {name: list(map(str, ids)) for name, ids in (("day", range(100, 110)), ("night", range(110, 116)))}
    pathlib.Path("parts.json").write_text(json.dumps(parts))
    results = [f"{name}.json" for name in SYSTEMS]
    return {
        "coco": ("truth.json", results, "slices.json"),
        "lvis": ("federated.json", results, "slices.json"),
        "voc": ("truth", list(SYSTEMS), "parts.json"),
    }


@pytest.fixture
def run_command(capsys):
    """Return a function that runs a command and returns its output."""

    def run(*words, status=0):
        try:
            found = main.main([*words])
        except SystemExit as stopped:
            found = stopped.code
        assert found == status
        out, err = capsys.readouterr()
        return json.loads(out) if "--json" in words else err if status else out

    return run


@pytest.mark.usefixtures("files")
def test_several_results_have_the_numbers_of_each(run_command):
    names = [f"{name}.json" for name in SYSTEMS]
    more = ["--per-class", "--interval", "--slices", "slices.json", *FEW]
    together = run_command("coco", "truth.json", *names, *more, "--json")
    assert list(together) == names
    for name in names:
        assert together[name] == run_command("coco", "truth.json", name, *more, "--json")
    head, *rows = [line.split(",") for line in run_command("coco", "truth.json", *names, *more, "--csv").splitlines()]
    assert head == ["measure", "class", *names]
    cells = {(measure, of): values for measure, of, *values in rows}
    assert [float(x) for x in cells["map", "all"]] == [together[name]["map"] for name in names]
    assert [float(x) for x in cells["ap", "cat"]] == [together[name]["per_class"]["ap"][0] for name in names]
    assert [float(x) for x in cells["slice.map", "day"]] == [together[name]["per_slice"]["map"][0] for name in names]
    text = run_command("coco", "truth.json", *names, *more).splitlines()
    first = text[1].split()
    assert first[-1].endswith("*")
    assert [float(x.rstrip("*")) for x in first[-3:]] == [round(together[name]["map"], 3) for name in names]
    assert "**" in run_command("coco", "truth.json", *names, "--markdown")


@pytest.mark.usefixtures("files")
def test_comparisons_equal_pairs_with_holm(run_command):
    names = [f"{name}.json" for name in SYSTEMS]
    more = ["--per-class", "--slices", "slices.json", *FEW, "--json"]
    for given, baseline in ((["--compare"], "a.json"), (["--compare", "c.json"], "c.json")):
        together = run_command("coco", "truth.json", *names, *more, *given)
        assert "compared" not in together[baseline]
        others = [name for name in names if name != baseline]
        for name in others:
            alone = run_command("coco", "truth.json", name, *more, "--compare", baseline)
            adjusted = together[name]["compared"].pop("adjusted_p_value")
            assert together[name] == alone
            assert adjusted >= alone["compared"]["p_value"]
        p_values = sorted(together[name]["compared"]["p_value"] for name in others)
        assert p_values[0] <= 2 * p_values[0] <= 1
    apart = run_command("coco", "truth.json", "a.json", "b.json", *FEW, "--json", "--compare", "c.json")
    assert list(apart) == ["c.json", "a.json", "b.json"]
    classes = together["a.json"]["per_class"]
    assert classes["name"] == ["cat", "dog"]
    for ap, other, difference in zip(
        classes["ap"], together["c.json"]["per_class"]["ap"], classes["difference"], strict=True
    ):
        assert difference == pytest.approx(ap - other, abs=REORDERED)
    assert together["a.json"]["per_slice"]["p_value"][2] is None
    text = run_command("coco", "truth.json", *names, "--compare", "--per-class", *FEW)
    assert "Minus a.json; Holm's p" in text
    assert "c.json - a.json: ap of each class" in text


def test_a_slice_is_a_file_of_its_images(files, run_command):
    table = run_command("coco", "truth.json", "a.json", "--slices", "slices.json", "--interval", *FEW, "--json")[
        "per_slice"
    ]
    assert (table["slice"], table["images"], table["map"][2]) == (["day", "night", "none"], [10, 2, 0], -1)
    for row, kept in enumerate((range(100, 110), (110, 112))):
        truth = {
            **files["truth"],
            "images": [x for x in files["truth"]["images"] if x["id"] in kept],
            "annotations": [x for x in files["truth"]["annotations"] if x["image_id"] in kept],
        }
        with open("part.json", "w") as file:  # noqa: PTH123
            json.dump(truth, file)
        with open("found.json", "w") as file:  # noqa: PTH123
            json.dump([x for x in files["a"] if x["image_id"] in kept], file)
        alone = run_command("coco", "part.json", "found.json", "--interval", *FEW, "--json")
        for name in ("map", "map_50", "mar_1", "map_medium", "map_low", "map_high", "map_chance"):
            assert table[name][row] == pytest.approx(alone[name], abs=REORDERED), name


@pytest.mark.usefixtures("files")
def test_notes_of_slices_with_few_images(run_command, capsys):
    """The output names the reason for missing interval ends and slices without images."""
    pathlib.Path("few.json").write_text(json.dumps({"one": [100], "two": [101, 102], "none": []}))
    given = ["coco", "truth.json", "c.json", "--slices", "few.json", "--interval", "--compare", "b.json", *FEW]
    reasons = run_command(*given, "--json")["reasons"]
    assert [x.partition(":")[0] for x in reasons] == ["intervals of slices", "comparisons of slices"]
    for reason in reasons:
        assert all(f"{name}: " in reason for name in ("one", "two", "none"))
    text = run_command(*given)
    assert all(reason[1:] in text for reason in reasons)
    beside = run_command("coco", "truth.json", "c.json", "b.json", *given[3:], "--per-class")
    assert all(f"c.json: {reason}" in beside for reason in reasons)
    capsys.readouterr()
    assert main.main(given) == 0
    assert "few.json: none" in capsys.readouterr().err.replace("'", "")


@pytest.mark.usefixtures("files")
def test_matches_are_computed_only_for_their_options(run_command, monkeypatch):
    monkeypatch.setattr(CocoEvaluation, "_matched", None)
    assert "Average Precision" in run_command("coco", "truth.json", "a.json", "--per-class")
    with pytest.raises(TypeError, match="not callable"):
        run_command("coco", "truth.json", "a.json", "--operating-points")


@pytest.mark.usefixtures("files")
def test_settings_equal_the_class(run_command):
    ranges = "tiny:0:900,rest:900:1e10"
    more = ["--max-detections", "2,1", "--iou-thresholds", "0.4,0.6", "--areas", ranges]
    found = run_command("coco", "truth.json", "a.json", *more, "--json")
    data = read_coco("truth.json", "a.json")
    metric = MeanAveragePrecision(
        "xywh",
        iou_thresholds=[0.4, 0.6],
        max_detection_thresholds=[1, 2],
        area_ranges={"tiny": (0, 900), "rest": (900, 1e10)},
        use_given_area=True,
    )
    metric.warn_on_many_detections = False
    metric.update(data.preds, data.target)
    wanted = {name: x.item() for name, x in metric.compute().items() if x.ndim == 0 and "class" not in name}
    assert found == wanted
    lines = run_command("coco", "truth.json", "a.json", *more, "--per-class")
    assert " Average Precision  (AP) @[ IoU=0.40,0.60 | area=   all | maxDets=  2 ] = " in lines
    assert "maxDets=100" not in lines
    assert "IoU=0.50 " not in lines
    assert "tp and fp at 0.40" in lines
    assert area_ranges("x:1:2,y:3:1e4") == {"x": (1, 2), "y": (3, 1e4)}


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.json", "b.json", "a.json"], "a.json: is listed twice"),
        (["a.json", "--compare"], "--compare without BASELINE takes at least two"),
        (["a.json", "b.json", "c.json", "--report", "x.html"], "--report takes one list of detections"),
        (["a.json", "b.json", "--report", "x.html"], "--report takes one list of detections"),
        (["a.json", "--max-detections", "1,0"], "--max-detections: must be different ints of at least 1"),
        (["a.json", "--max-detections", "10,10"], "--max-detections: must be different ints of at least 1"),
        (["a.json", "--iou-thresholds", "-1,.5"], "--iou-thresholds: must be different numbers in [0, 1], got '-1,.5'"),
        (["a.json", "--iou-thresholds", "0.5,1.5"], "--iou-thresholds: must be different numbers in [0, 1]"),
        (["a.json", "--areas", "x:5:1"], "--areas: must be NAME:LOW:HIGH, LOW at most HIGH, got 'x:5:1'"),
        (["a.json", "--areas", "x:1:2,x:3:4"], "--areas: must give each range another name, got 'x:3:4'"),
        (["a.json", "--areas", "x:1:2,:3:4"], "--areas: must give each range a name, got ':3:4'"),
        (["a.json", "--areas", "x:1:2,rare:3:4"], "none of low, high, chance, rare"),
        (["a.json", "--operating-points", "--precision", "90"], "--precision must be"),
        (["a.json", "--operating-points", "--recall", "-1"], "--recall must be"),
        (["a.json", "--operating-points", "--beta", "-1"], "--beta must be"),
        (["a.json", "--areas", "x"], "got 'x'"),
        (["a.json", "--slices", "a.json"], "a.json: must be a JSON object of names to lists of images"),
        (["a.json", "--slices", "wrong.json"], "wrong.json: 'day': unknown image '100'; known are 100, 101"),
        (["a.json", "--slices", "twice.json"], "twice.json: 'day': an image is named twice"),
        (["a.json", "--slices", "nosuch.json"], "nosuch.json: No such file"),
    ],
)
def test_invalid_input_raises(words, message, run_command, tmp_path):
    (tmp_path / "wrong.json").write_text('{"day": ["100"]}')
    (tmp_path / "twice.json").write_text('{"day": [100, 100]}')
    assert message in run_command("coco", "truth.json", *words, status=2)


def test_skeletons_want_their_sigmas(tmp_path, monkeypatch, run_command):
    monkeypatch.chdir(tmp_path)
    one = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9], "keypoints": [1, 2, 2, 3, 4, 2, 5, 1, 1], "area": 50}
    truth = {"images": [{"id": 1}], "categories": [{"id": 1, "name": "x"}], "annotations": [one]}
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "found.json").write_text(json.dumps([{**one, "score": 0.5}]))
    (tmp_path / "long.json").write_text(json.dumps([{**one, "keypoints": one["keypoints"][:6], "score": 0.5}]))
    kind = ["--iou-type", "keypoints"]
    message = run_command("coco", "truth.json", "found.json", *kind, status=2)
    assert message == (
        "torch-ap: truth.json: has 3 keypoints per object and needs as many --sigmas, got the 17 of COCO, the default\n"
    )
    assert "truth.json: has 3 keypoints" in run_command(
        "coco", "truth.json", "found.json", *kind, "--sigmas", "1,1", status=2
    )
    sigmas = ["--sigmas", "0.1,0.1,0.2"]
    told = run_command("coco", "truth.json", "long.json", *kind, *sigmas, status=2)
    assert "long.json[0]: 'keypoints' must contain 9 numbers, as those of the annotations, got 6" in told
    negative = run_command("coco", "truth.json", "found.json", *kind, "--sigmas", "-1,.1,.1", status=2)
    assert "sigmas" in negative
    assert "-1" in negative
    assert run_command("coco", "truth.json", "found.json", *kind, *sigmas, "--json")["map"] == pytest.approx(1)
    assert "--sigmas has no meaning without --iou-type" in run_command(
        "coco", "truth.json", "found.json", *sigmas, status=2
    )
    vast = {"image_id": 1, "category_id": 1, "score": 0.5, "keypoints": [-1e200, -1e200, 1, 1e200, 1e200, 1, 3, 3, 1]}
    (tmp_path / "long.json").write_text(json.dumps([vast]))
    told = run_command("coco", "truth.json", "long.json", *kind, *sigmas, status=2)
    assert "long.json[0]: 'keypoints' must span a finite area, got inf" in told


def test_output_omits_lines_of_other_thresholds(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    one = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9], "keypoints": [1, 2, 2], "area": 50}
    truth = {"images": [{"id": 1}], "categories": [{"id": 1, "name": "x"}], "annotations": [one]}
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "found.json").write_text(json.dumps([{**one, "score": 0.5}]))
    words = ["--iou-type", "keypoints", "--sigmas", "0.1", "--iou-thresholds", "0.5,0.9"]
    assert main.main(["coco", "truth.json", "found.json", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [sum(f"IoU={at} " in line for line in lines) for at in ("0.50", "0.75", "0.50,0.90")] == [2, 0, 6]


def test_notes_of_keypoints_in_fractions_or_with_y_first(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    draw, truths, found = random.Random(1), [], {"found": [], "fractions": [], "turned": []}
    images = [{"id": image, "width": 640, "height": 480} for image in range(12)]
    for image in [image for image in range(12) for _ in range(2)]:
        x, y = draw.uniform(0, 400), draw.uniform(0, 300)
        points = [(x + draw.uniform(0, 80), y + draw.uniform(0, 100)) for _ in range(17)]
        one = {"image_id": image, "category_id": 1, "score": draw.random()}
        labelled = [z for x, y in points[:15] for z in (x, y, 2)] + [0] * 6
        truths.append({**one, "bbox": [x, y, 80, 100], "area": 6000, "keypoints": labelled})
        ways = ([(x, y) for x, y in points], [(x / 640, y / 480) for x, y in points], [(y, x) for x, y in points])
        for name, way in zip(found, ways, strict=True):
            found[name].append({**one, "keypoints": [z for x, y in way for z in (x, y, 0.5)]})
    truths[0]["keypoints"] = [0] * 51
    write = {"truth": {"images": images, "categories": [{"id": 1, "name": "x"}], "annotations": truths}, **found}
    for name, content in write.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    told = {}
    for name in found:
        assert main.main(["coco", "truth.json", f"{name}.json", "--iou-type", "keypoints"]) == 0
        told[name] = capsys.readouterr().err
    assert told["found"] == ""
    assert "fractions of the image's width and height" in told["fractions"]
    assert "x and y exchanged" in told["turned"]


def test_single_keypoints_have_no_boxes_that_could_overlap(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    images = [{"id": image, "width": 640, "height": 480} for image in range(12)]
    truths, found = [], []
    for one in images:
        entry = {"image_id": one["id"], "category_id": 1}
        truths.append({**entry, "bbox": [90, 90, 40, 40], "area": 1600, "keypoints": [100, 100, 2]})
        found.append({**entry, "score": 0.5, "keypoints": [101, 100, 1]})
    truth = {"images": images, "categories": [{"id": 1, "name": "ball"}], "annotations": truths}
    for name, content in {"truth": truth, "found": found}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    assert main.main(["coco", "truth.json", "found.json", "--iou-type", "keypoints", "--sigmas", "0.1", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["map"] == pytest.approx(1)
    assert said.err == ""


def test_several_folders_of_detections(tmp_path, monkeypatch, run_command):
    monkeypatch.chdir(tmp_path)
    draw = random.Random(2)
    for folder in ("truth", "one", "two"):
        (tmp_path / folder).mkdir()
    for image in range(8):
        boxes = [(draw.choice(["cat", "dog"]), draw.randrange(300), draw.randrange(300)) for _ in range(3)]
        lines = [f"{name} {x} {y} {x + 40} {y + 50}" for name, x, y in boxes]
        (tmp_path / "truth" / f"{image}.txt").write_text("\n".join(lines))
        for folder, off in (("one", 3), ("two", 25)):
            found = [
                f"{name} {draw.random():.3f} {x + draw.randrange(off)} {y} {x + 40} {y + 50}" for name, x, y in boxes
            ]
            # a class in one folder only, which comes first by name
            extra = [f"ant {draw.random():.3f} 0 0 9 9"] if folder == "two" else []
            (tmp_path / folder / f"{image}.txt").write_text("\n".join(found + extra))
    (tmp_path / "slices.json").write_text(json.dumps({"low": ["0", "1", "2", "3"], "high": ["6", "7"]}))
    more = ["--per-class", "--slices", "slices.json"]
    together = run_command("voc", "truth", "one", "two", "--compare", *more, *FEW, "--json")
    assert list(together) == ["one", "two"]
    for name in together:
        alone = run_command("voc", "truth", name, *more, "--json")
        assert together[name]["map"] == alone["map"]
        assert together[name]["per_slice"]["map"] == alone["per_slice"]["map"]
    two = together["two"]
    assert two["per_class"]["name"] == ["ant", "cat", "dog"]
    assert two["compared"]["difference"] == pytest.approx(two["map"] - together["one"]["map"], abs=REORDERED)
    assert two["per_class"]["difference"][0] is None
    for place in (1, 2):
        gap = two["per_class"]["ap"][place] - together["one"]["per_class"]["ap"][place - 1]
        assert two["per_class"]["difference"][place] == pytest.approx(gap, abs=REORDERED)
    lines = [line.split() for line in run_command("voc", "truth", "one", "two", *more).splitlines()]
    assert lines[1:3] == [["class", "one", "two"], ["cat", *lines[2][1:]]]
    assert ["ant", "-", "-"] in lines
    unknown = tmp_path / "unknown.json"
    unknown.write_text('{"x": [0]}')
    assert "unknown image 0; did you mean '0'" in run_command(
        "voc", "truth", "one", "--slices", "unknown.json", status=2
    )


# -- options of all three commands


def holm(p_values):
    """Return Holm's adjusted p-values in the order of the input."""
    adjusted, highest = dict.fromkeys(range(len(p_values))), 0
    for place, row in enumerate(sorted(adjusted, key=p_values.__getitem__)):
        highest = adjusted[row] = max(highest, min(1, (len(p_values) - place) * p_values[row]))
    return list(adjusted.values())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_compares_several_lists_and_their_classes_and_slices(command, command_inputs, run_command):
    truth, lists, slices = command_inputs[command]
    plain = [command, truth, *lists, "--iou-thresholds", "0.5"]
    words = [*plain, "--compare", "--per-class", "--slices", slices, "--interval", *FEW]
    found = run_command(*words, "--json")
    mean = "AP" if command == "lvis" else "map"
    others = [found[name] for name in lists[1:]]
    p_values = [one["compared"]["p_value"] for one in others]
    assert [one["compared"]["adjusted_p_value"] for one in others] == pytest.approx(holm(p_values))
    for one in others:
        assert one["compared"]["difference"] == pytest.approx(one[mean] - found[lists[0]][mean], abs=REORDERED)
        classes = [x for x in one["per_class"]["p_value"] if x is not None]
        assert [x for x in one["per_class"]["adjusted_p_value"] if x is not None] == pytest.approx(holm(classes))
        assert one[f"{mean}_low"] <= one[mean] <= one[f"{mean}_high"]
        assert len(one["per_slice"][f"{mean}_low"]) == len(one["per_slice"]["slice"])
    head, *rows = [line.split(",") for line in run_command(*plain, "--csv").splitlines()]
    assert head == ["measure", "class", *lists]
    assert [float(x) for x in {(a, b): x for a, b, *x in rows}[mean, "all"]] == [found[name][mean] for name in lists]


@pytest.mark.parametrize("command", ["coco", "lvis"])
def test_clusters_of_images(command, command_inputs, run_command):
    truth, (path, baseline, _), slices = command_inputs[command]
    content = json.loads(pathlib.Path(truth).read_text())
    videos = {x["id"]: ("v" if x["id"] % 13 == 1 else x["id"] % 13) for x in content["images"]}
    for image in content["images"]:
        image["video"] = videos[image["id"]]
    pathlib.Path("videos.json").write_text(json.dumps({**content, "images": content["images"][::-1]}))
    words = [command, "videos.json", path, "--cluster", "video", "--iou-thresholds", "0.5", "--json", *FEW]
    more = ["--interval", "--compare", baseline, "--per-class", "--slices", slices]
    found = run_command(*words, *more)
    read, class_of = {"coco": (read_coco, MeanAveragePrecision), "lvis": (read_lvis, LVISMeanAveragePrecision)}[command]
    metric, other = (class_of("xywh", iou_thresholds=[0.5], use_given_area=True) for _ in "ab")
    for one, name in ((metric, path), (other, baseline)):
        data = read(truth, name)
        one.update(data.preds, data.target)
    groups = {place: videos[image] for place, image in enumerate(sorted(videos))}
    interval, compared = metric.confidence_interval(groups=groups), metric.compare(other, groups=groups)
    classes = metric.confidence_interval(groups=groups, per_class=True)
    mean = "AP" if command == "lvis" else "map"
    assert [found[f"{mean}_low"], found[f"{mean}_high"]] == [interval.low.item(), interval.high.item()]
    assert found["compared"]["p_value"] == compared.p_value.item()
    lows = found["per_class"]["ap_low" if command == "coco" else "AP_low"]
    assert [x for x in lows if x is not None] == [x for x in classes.low.tolist() if x == x]
    at_once = run_command(*words, "--interval", "--per-class", "--simultaneous")
    joint = metric.confidence_interval(groups=groups, per_class=True, simultaneous=True)
    lows = at_once["per_class"]["ap_low" if command == "coco" else "AP_low"]
    assert [x for x in lows if x is not None] == [x for x in joint.low.tolist() if x == x]
    assert at_once["reasons"][0].startswith("intervals of classes: they contain all values at once")
    clusters = len(set(videos.values()))
    assert [at_once[x] for x in ("simultaneous", "clusters", "images")] == [True, clusters, len(videos)]
    words_of_text = [x for x in words if x != "--json"]
    text = run_command(*words_of_text, "--interval", "--per-class", "--simultaneous", "--report", "x.md")
    assert f"{len(videos)} images in {clusters} clusters" in text.splitlines()
    assert "simultaneous 95% low  simultaneous 95% high" in text
    page = pathlib.Path("x.md").read_text()
    assert "low and high its simultaneous 95% interval over groups of images." in page
    low = next(x for x in joint.low.tolist() if x == x)
    assert f" {low:.3f} |" in page
    gated = run_command(*words, "--fail-below", f"{mean}=0")["gates"]
    assert gated[0]["low"] == interval.low.item()
    if command == "coco":
        day = ",".join(map(str, range(100, 110)))
        del content["images"][12]["video"]  # is not evaluated
        pathlib.Path("videos.json").write_text(json.dumps(content))
        part = run_command(*words, "--interval", "--img-ids", day)
        assert part["map_low"] == found["per_slice"]["map_low"][0]


@pytest.mark.usefixtures("files")
def test_clusters_of_folders(tmp_path, monkeypatch, run_command):
    monkeypatch.chdir(tmp_path)
    draw = random.Random(3)
    boxes = {f"i{x}": [(draw.randrange(60), draw.randrange(60)) for _ in range(6)] for x in range(24)}
    for folder in ("truth", "one", "two"):
        pathlib.Path(folder).mkdir()
        for name, corners in boxes.items():
            score, off = (" " if folder == "truth" else f" {draw.random():.3f} "), 0 if folder == "truth" else 25
            lines = [f"cat{score}{x + draw.randint(0, off)} {y} {x + 40} {y + 50}" for x, y in corners]
            pathlib.Path(folder, f"{name}.txt").write_text("\n".join(lines))
    pathlib.Path("videos.txt").write_text("".join(f"{name} v{place // 2}\n" for place, name in enumerate(boxes)))
    words = ("voc", "truth", "one", "--interval", "--per-class", "--compare", "two", *FEW, "--json")
    found, alone = run_command(*words, "--cluster", "videos.txt"), run_command(*words)
    assert found["map"] == alone["map"]
    metrics = []
    for folder in ("one", "two"):
        data = read_voc("truth", folder)
        metric = VOCMeanAveragePrecision(iou_thresholds=0.5, interpolation="all-points", inclusive_pixels=True)
        metric.update(data.preds, data.target)
        metrics.append(metric)
    place = {name: at for at, name in enumerate(data.images)}
    groups = {place[name]: at // 2 for at, name in enumerate(boxes)}
    interval = metrics[0].confidence_interval(groups=groups, n_resamples=int(FEW[1]))
    assert (found["map_low"], found["map_high"]) == (float(interval.low), float(interval.high))
    assert found["map_low"] != alone["map_low"]
    compared = metrics[0].compare(metrics[1], groups=groups, n_resamples=int(FEW[1]))
    assert found["compared"]["p_value"] == float(compared.p_value)
    data = read_voc("truth", "one")
    metric = VOCMeanAveragePrecision(iou_thresholds=0.5, interpolation="all-points", inclusive_pixels=True)
    metric.update(data.preds, data.target, groups=[groups[at] for at in range(len(data.images))])
    words = ("voc", "truth", "one", "--cluster", "videos.txt", "--operating-points", "--report", "x.md", "--json")
    document = run_command(*words)
    points = document["operating_points"]["per_class"]
    assert points["recall_low"] == metric.operating_points().recall_low.tolist()
    assert points["recall_low"] != metrics[0].operating_points().recall_low.tolist()
    assert document["clusters"] == 12
    shown = ", ".join(f"{float(x):.4f}" for x in (interval.low, interval.high)).replace(", ", " to ")
    assert f"95% interval {shown}; chance level" in pathlib.Path("x.md").read_text()
    pathlib.Path("videos.txt").write_text("i0 v0\n")
    words = ("voc", "truth", "one", "--cluster", "videos.txt")
    wanted = "videos.txt (--cluster): must have a line `image cluster` for every image, got none for 'i1'"
    assert wanted in run_command(*words, "--interval", status=2)
    assert "--cluster has no meaning without --interval" in run_command(*words, status=2)


def test_invalid_clusters_raise(files, run_command):
    def message(*words, key="video"):
        return run_command("coco", "truth.json", "a.json", "--cluster", key, *words, status=2)

    users = "--interval, --compare, --fail-below, --best, --report or --operating-points"
    assert f"--cluster has no meaning without {users}" in message()
    alone = run_command("coco", "truth.json", "a.json", "--simultaneous", status=2)
    assert "--simultaneous has no meaning without --interval" in alone
    assert "--simultaneous needs --interval and --per-class" in message("--interval", "--simultaneous")
    truth = files["truth"]
    found = message("--interval")
    assert "truth.json: images[0]: must have the key 'video' (--cluster), got ['id', 'width', 'height']" in found
    for wrong in (None, 0.5, True, [1]):
        for image in truth["images"]:
            image["video"] = 1
        truth["images"][3]["video"] = wrong
        pathlib.Path("truth.json").write_text(json.dumps(truth))
        assert "truth.json: images[3]: 'video' must be an integer or text, got " in message("--interval")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_reports_errors_and_operating_points(command, command_inputs, run_command):
    truth, (first, *_), slices = command_inputs[command]
    words = [command, truth, first, "--errors", "--operating-points", "--per-class", "--slices", slices]
    found = run_command(*words, "--json")
    ap, classes = "AP" if command == "lvis" else "ap", found["errors"]["per_class"]
    assert found["errors"]["average_precision"] == pytest.approx(sum(classes[ap]) / 2, abs=REORDERED)
    points = found["operating_points"]["per_class"]
    truths = [tp + fn for tp, fn in zip(points["tp"], points["fn"], strict=True)]
    assert truths == found["per_class"]["ground_truths"]
    text = run_command(*words)
    for title in ("Errors at IoU 0.5", "Operating points of the best F1", "Each slice of the images"):
        assert title in text
    measures = {line.split(",")[0] for line in run_command(*words, "--csv").splitlines()}
    assert {f"errors.{ap}", "errors.classification", "operating_point.threshold"} < measures


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_lists_suspicious_labels(command, command_inputs, run_command):
    truth, (first, second, *_), _ = command_inputs[command]
    if command != "voc":
        content = json.loads(pathlib.Path(truth).read_text())
        annotations = {100 + place: x for place, x in enumerate(content["annotations"])}
        content["annotations"] = [{**x, "id": place} for place, x in annotations.items()]
        names = {x["id"]: x["name"] for x in content["categories"]}
        pathlib.Path(truth).write_text(json.dumps(content))
    words = [command, truth, first, "--suspicious-labels"]
    found = run_command(*words, "--json")["suspicious_labels"]
    rows, counts = found["rows"], found["counts"]
    assert len(rows) == sum(counts.values()) > 0
    changes = [row["change"] for row in rows if row["change"] is not None]
    assert changes == sorted(changes, reverse=True)
    if command != "voc":
        for row in rows:
            assert (row["annotation"] is None) == (row["kind"] == "missing annotation")
            if row["annotation"] is not None:
                annotation = annotations[row["annotation"]]
                assert (annotation["image_id"], names[annotation["category_id"]]) == (row["image"], row["class"])
    text = run_command(*words)
    assert f"missed by all {counts['missed by all']}" in text
    assert "the change of AP if a label were corrected" in text
    csv_rows = [line.split(",") for line in run_command(*words, "--csv").splitlines()]
    kinds = [row[2] for row in csv_rows if row[0].startswith("suspicious_labels.") and row[0].endswith(".kind")]
    assert kinds == [row["kind"] for row in rows]
    found = [] if command == "voc" else json.loads(pathlib.Path(first).read_text())
    boxes = [tuple(x["bbox"]) for x in found]
    for row in rows:
        assert (row["box"] is None) == (row["score"] is None)
        if row["box"] is not None:
            assert command == "voc" or tuple(row["box"]) in boxes
            assert " ".join(f"{x:.6g}" for x in row["box"]) in text
    words.insert(3, second)
    both = run_command(*words, "--json")
    (with_labels,) = (x["suspicious_labels"] for x in both.values() if "suspicious_labels" in x)
    assert with_labels["counts"]["missed by all"] <= counts["missed by all"]
    said = run_command(*words)
    assert "missed by all" in said
    assert f"Suspicious labels of {next(iter(both))} at IoU" in said


@pytest.mark.usefixtures("command_inputs")
def test_the_best_of_folders_equals_the_metrics(run_command):
    found = run_command("voc", "truth", "a", "b", "--best", *FEW, "--json")
    metrics = {name: VOCMeanAveragePrecision() for name in "ab"}
    for name, metric in metrics.items():
        data = read_voc("truth", name)
        metric.update(data.preds, data.target)
    expected = best_of_metrics(metrics, n_resamples=30)
    assert found["file"] == "truth"
    assert found["measures"]["map"]["corrected"] == pytest.approx(float(expected.corrected), rel=REORDERED)


@pytest.mark.usefixtures("files")
def test_classes_of_a_convention_have_intervals_and_comparisons(run_command):
    words = ["coco", "truth.json", "a.json", "b.json", "--convention", "ultralytics", "--per-class", "--interval"]
    found = run_command(*words, "--compare", "a.json", *FEW, "--json")
    classes = {name: found[name]["per_class"] for name in ("a.json", "b.json")}
    differences = [b - a for a, b in zip(classes["a.json"]["map"], classes["b.json"]["map"], strict=True)]
    assert classes["b.json"]["difference"] == pytest.approx(differences)
    assert all(low < x for low, x in zip(classes["a.json"]["map_low"], classes["a.json"]["map"], strict=True))
    assert "mAP50-95 of each class" in run_command(*words, *FEW)


@pytest.mark.usefixtures("command_inputs")
def test_lvis_has_the_settings_of_its_class_and_one_vocabulary(run_command):
    more = ["--max-detections", "3", "--iou-thresholds", "0.4,0.5", "--areas", "tiny:0:900,large:900:1e10"]
    words = ["lvis", "federated.json", "a.json", *more, "--per-class", "--slices", "slices.json", "--interval", *FEW]
    found = run_command(*words, "--json")
    data = read_lvis("federated.json", "a.json")
    metric = LVISMeanAveragePrecision(
        "xywh",
        iou_thresholds=[0.4, 0.5],
        max_detections=3,
        area_ranges={"tiny": (0, 900), "large": (900, 1e10)},
        frequencies=data.frequencies,
        use_given_area=True,
    )
    metric.update(data.preds, data.target)
    names = {"AP": "map", "AP50": "map_50", "AP75": "map_75", "AP_tiny": "map_tiny", "APl": "map_large"}
    names |= {"APr": "map_rare", "APc": "map_common", "APf": "map_frequent"}
    names |= {"AR@3": "mar_3", "AR_tiny@3": "mar_tiny", "ARl@3": "mar_large"}
    wanted = {name: metric.compute()[key].item() for name, key in names.items()}
    expected = [*names, "AP_low", "AP_high", "AP_chance", "reason", "per_class", "per_slice", "reasons"]
    assert list(found) == expected
    assert {name: found[name] for name in names} == wanted
    assert wanted["AP75"] == -1
    assert wanted["APl"] > 0
    written = json.dumps(found) + run_command(*words, "--csv") + run_command(*words)
    assert not re.search(r"\b(map|mar|ap|ar)(_\w+)?\b", written)
    assert "area=  tiny | maxDets=  3 catIds=all] = " in written


@pytest.mark.usefixtures("command_inputs")
def test_voc_has_the_thresholds_of_its_class(run_command):
    data = read_voc("truth", "a")
    metric = VOCMeanAveragePrecision(iou_thresholds=[0.75, 0.5, 0.6])
    metric.update(data.preds, data.target)
    more = ["--iou-thresholds", "0.75,0.5,0.6"]
    found = run_command("voc", "truth", "a", *more, "--json")
    means = metric.compute()["map_per_threshold"].tolist()
    assert [found["map"], *(found[f"map_{x}"] for x in (75, 50, 60))] == [metric.compute()["map"].item(), *means]
    text = run_command("voc", "truth", "a", *more, "--per-class")
    assert "AP at IoU of at least 0.75, 0.5, 0.6, interpolation all-points; tp and fp of any score, at 0.5\n" in text
    assert f"\nmean at 0.75  {means[0]:.4f}\n" in text
    near = run_command("voc", "truth", "a", "--iou-thresholds", "0.5,0.500000002", "--json")
    assert [name for name in near if name.startswith("map_")] == ["map_50", "map_50.0000002"]
    assert "\nmean at 0.500000002  " in run_command("voc", "truth", "a", "--iou-thresholds", "0.5,0.500000002")
    one = run_command("voc", "truth", "a", "--per-class", "--json")
    assert run_command("voc", "truth", "a", "--per-class", "--iou-thresholds", "0.5", "--json") == one
    assert run_command("voc", "truth", "a", "--per-class", *more, "--json")["per_class"]["tp"] == one["per_class"]["tp"]


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("voc", ["--areas", "x:0:9"], "--areas has no meaning here: PASCAL VOC's rules have none"),
        ("voc", ["--max-detections", "10"], "--max-detections has no meaning here: PASCAL VOC's rules have none"),
        ("voc", ["--iou-type", "segm"], "--iou-type has no meaning here: --format determines the shapes"),
        ("voc", ["--iou-thresholds", "0.5,x"], "--iou-thresholds: must be numbers with commas between them"),
        ("lvis", ["--iou-type", "keypoints"], "--iou-type: invalid choice: 'keypoints'"),
        ("lvis", ["--sigmas", "0.1"], "--sigmas has no meaning here: LVIS has no keypoints"),
        ("lvis", ["--max-detections", "1,10"], "--max-detections: must be an int of at least 1, got '1,10'"),
        ("voc", ["--iou-thresholds", "0.5,0.50"], "--iou-thresholds: must be different numbers in [0, 1]"),
        ("voc", ["--iou-thresholds", "0.5,0.5000000001"], "--iou-thresholds: must be different numbers in [0, 1]"),
        (
            "lvis",
            ["--areas", "rare:0:9"],
            "must have names that no other number has: not an integer, none of low, high",
        ),
        ("coco", ["--areas", "50:0:9"], "got '50:0:9'"),
        ("coco", ["--areas", "all:0:9"], "must not be called all, which is the range of every area, got 'all:0:9'"),
        ("coco", ["--areas", "per_class:0:9"], "got 'per_class:0:9'"),
    ],
)
def test_options_without_effect_raise(command, words, message, run_command):
    assert message in run_command(command, "truth", "found", *words, status=2)


@pytest.mark.parametrize("command", COMMANDS)
def test_notes_of_lists_joined_with_themselves(command, command_inputs, capsys):
    truth, results, _ = command_inputs[command]
    copied = 6  # of 64: below a tenth there is no note
    for path in map(pathlib.Path, results[:2]):
        if path.suffix:
            found = json.loads(path.read_text())
            path.write_text(json.dumps(found + found[:copied]))
        else:
            rows = [(one, row) for one in sorted(path.iterdir()) for row in one.read_text().splitlines()]
            for one, row in rows[:copied]:
                one.write_text(f"{one.read_text()}\n{row}")
        copied = 64
    assert main.main([command, truth, *results]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "repeat another of their image" in line]
    assert [line.partition(", with")[0] for line in notes] == [
        f"torch-ap: {results[1]}: 64 of 128 detections repeat another of their image"
    ]


@pytest.mark.parametrize("form", ["--csv", "--markdown"])
def test_several_lists_show_all_categories_of_one_name(form, tmp_path, capsys):
    box = {"image_id": 1, "bbox": [10, 10, 30, 30]}
    categories = [{"id": k, "name": "cat"} for k in (1, 2)]
    annotations = [{**box, "category_id": k, "area": 900} for k in (1, 2)]
    truth = {"images": [{"id": 1}], "categories": categories, "annotations": annotations}
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    for name, label in (("first", 1), ("second", 2)):  # each detects one of the categories
        detections = [{**box, "category_id": label, "score": 0.5}]
        (tmp_path / f"{name}.json").write_text(json.dumps(detections))
    paths = [str(tmp_path / f"{name}.json") for name in ("truth", "first", "second")]
    assert main.main(["coco", *paths, "--per-class", "--compare", "--n-resamples", "5", form]) == 0
    lines = [line.replace("*", "") for line in capsys.readouterr().out.splitlines()]
    if form == "--csv":
        rows = [line.split(",")[2:] for line in lines if line.startswith("ap,cat,")]
        assert [[round(float(x)) for x in row] for row in rows] == [[1, 0], [0, 1]]
    else:
        assert [line for line in lines if line.startswith("| cat | ")][:2] == [
            "| cat | 1.000 | 0.000 |",
            "| cat | 0.000 | 1.000 |",
        ]
        assert [line[:16] for line in lines if line.startswith(("| cat | +", "| cat | -"))] == [
            "| cat | -1.0000 ",
            "| cat | +1.0000 ",
        ]


def test_subsets_and_one_category_are_those_of_pycocotools(files, run_command, capsys):
    coco, evaluation = pytest.importorskip("pycocotools.coco"), pytest.importorskip("pycocotools.cocoeval")
    listed = [{**x, "id": at, "iscrowd": 0} for at, x in enumerate(files["truth"]["annotations"], 1)]
    pathlib.Path("truth.json").write_text(json.dumps({**files["truth"], "annotations": listed}))
    truth, three = coco.COCO("truth.json"), {"catIds": [1, 2], "imgIds": [110, 111, 112]}
    for words, parameters in (
        (("--img-ids", "100,103,101,109"), {"imgIds": [100, 101, 103, 109]}),
        (("--cat-ids", "2"), {"catIds": [2]}),
        (("--img-ids", "104,105", "--cat-ids", "1,9"), {"imgIds": [104, 105], "catIds": [1, 9]}),
        (("--no-cats",), {"useCats": 0}),
        (("--no-cats", "--cat-ids", "1,2", "--img-ids", "110,111,112"), {"useCats": 0, **three}),
    ):
        theirs = evaluation.COCOeval(truth, truth.loadRes("a.json"), "bbox")
        for name, value in parameters.items():
            setattr(theirs.params, name, value)
        theirs.evaluate()
        theirs.accumulate()
        theirs.summarize()
        capsys.readouterr()
        found = run_command("coco", "truth.json", "a.json", *words, "--json")
        assert list(found.values())[:12] == pytest.approx(theirs.stats.tolist())
    text = run_command("coco", "truth.json", "a.json", "--cat-ids", "2", "--per-class", "--csv")
    assert {line.split(",")[1] for line in text.splitlines()[1:]} == {"all", "dog"}
    for words, part in (
        (("--img-ids", "99"), "--img-ids: truth.json has no '99'; known are 100, 101, 102, ..."),
        (("--cat-ids", "1,1"), "--cat-ids: must be different ids with commas between them, got '1,1'"),
        (("--cat-ids", "1,,2"), "must be different ids"),
        (("--no-cats", "--per-class"), "--per-class has no meaning with --no-cats"),
        (("--no-cats", "--errors"), "--errors has no meaning with --no-cats"),
    ):
        assert part in run_command("coco", "truth.json", "a.json", *words, status=2)


def test_masks_of_a_subset(tmp_path, monkeypatch, run_command):
    monkeypatch.chdir(tmp_path)
    square = [[5, 5, 5, 15, 15, 15, 15, 5]]
    truths = [
        {"id": 2 * image + category, "image_id": image, "category_id": category, "segmentation": square, "area": 100}
        for image in (1, 2)
        for category in (1, 2)
    ]
    images = [{"id": x, "width": 30, "height": 30} for x in (1, 2)]
    write = {"images": images, "annotations": truths, "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}
    pathlib.Path("t.json").write_text(json.dumps(write))
    found = [{**x, "score": 0.5} for x in truths if (x["image_id"], x["category_id"]) != (1, 2)]
    pathlib.Path("r.json").write_text(json.dumps(found))
    for words, value in (
        ((), 0.75),
        (("--img-ids", "2"), 1.0),
        (("--cat-ids", "1"), 1.0),
        (("--cat-ids", "2"), 0.505),
    ):
        got = run_command("coco", "t.json", "r.json", "--iou-type", "segm", *words, "--json")["map"]
        assert got == pytest.approx(value, abs=0.005)  # rounded values
