"""The commands as programs: imports, missing readers of their output, and messages about unusual files."""

import argparse
import gzip
import json
import os
import random
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import torch

import torch_ap
from benchmarks import start
from tests.support.paths import ROOT
from tests.support.tolerances import REORDERED
from torch_ap.cli import main
from torch_ap.cli.file_notes import low_value_causes
from torch_ap.cli.options import Parser
from torch_ap.cli.tables import Report, Table
from torch_ap.core.base.messages import short_repr
from torch_ap.core.measures.ties import TIES
from torch_ap.detection import MeanAveragePrecision, VOCMeanAveragePrecision
from torch_ap.detection.files import entries
from torch_ap.files import read_coco, read_run, read_voc
from torch_ap.retrieval.runs import measure_names

HEAVY = ("torch", "numpy", "torchmetrics", "scipy", "pyarrow", "tqdm")
PROGRAM = [sys.executable, "-m", "torch_ap"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["trec", "--help"],
        ["coco", "-h"],
        ["voc", "-h"],
        ["score", "-h"],
        ["trec"],
        ["score", "x"],
        ["voc", "--x"],
        [],
    ],
)
def test_help_and_complaints_import_nothing_heavy(arguments):
    code = (
        "import sys\nfrom torch_ap.cli import main\ntry:\n    main.main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert done.stdout.count("\n") + done.stderr.count("\n") > 1


def test_functions_do_not_import_torchmetrics():
    code = (
        "import sys, torch_ap.functional as f; f.retrieval_rank_biased_precision; print('torchmetrics' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"


@pytest.fixture
def small_files(tmp_path, monkeypatch):
    start.write_files(tmp_path)
    (tmp_path / "other.json").write_bytes((tmp_path / "found.json").read_bytes())
    (tmp_path / "slices.json").write_text('{"day": [1]}')
    monkeypatch.chdir(tmp_path)


SLOW = ("torchmetrics", "scipy", "matplotlib", "pyarrow", "pandas")
MOST_MODULES = 255  # beyond the modules of `import torch`: of this package and the standard library


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize(
    ("arguments", "slow"),
    [
        ("score table.csv --preds score --target label", []),
        ("score table.csv --preds score --target label -m ap@5 -m P@5 --json", []),
        ("score table.csv --preds score --target label --group query -m map -m ndcg", []),
        ("score table.csv --preds score --target label --interval", ["scipy"]),
        ("score table.csv --preds score --target label --bins 64", []),
        ("trec qrels.txt run.txt", []),
        ("coco truth.json found.json --per-class --errors", []),
        ("coco truth.json found.json --operating-points --suspicious-labels", ["scipy"]),
        ("coco truth.json found.json --convention ultralytics --slices slices.json --json", []),
        ("coco truth.json found.json other.json --compare --interval", []),
        ("coco truth.json found.json --report page.html", ["scipy", "matplotlib"]),
        ("voc objects detected --report page.md", ["scipy"]),
        ("trec qrels.txt run.txt --interval --chance-test", ["scipy"]),
        ("trec qrels.txt run.txt --report page.html", ["scipy", "matplotlib"]),
        ("report table.csv --preds score --target label -o page.html", ["scipy", "matplotlib"]),
        ("report table.csv --preds score --target label --group query -m map -o page.html", ["scipy", "matplotlib"]),
        ("score table.csv --preds score --target label --suspicious-labels", []),
        ("score table.csv --preds score query --target label --best --report page.md", ["scipy"]),
        ("lvis lvis.json found.json --per-class", []),
        ("voc objects detected --per-class --errors", []),
        ("explain table.csv --preds score --target label", []),
        ("plan --ap 0.62 --units 80 --half-width 0.05", ["scipy"]),
    ],
)
def test_commands_import_few_modules(arguments, slow):
    """Numbers need no metric, and so not torchmetrics, which imports SciPy and matplotlib and takes two seconds."""
    code = (
        "import json, sys, torch\nbefore = set(sys.modules)\nfrom torch_ap.cli import main\n"
        "assert main.main(sys.argv[1:]) == 0\nadded = sys.modules.keys() - before\n"
        f"print(json.dumps([[x for x in {SLOW} if x in added], len(added)]))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments.split()], capture_output=True, check=True, text=True)
    names, count = json.loads(done.stdout.splitlines()[-1])
    assert names == slow
    assert count < MOST_MODULES or slow


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize(("first", "is_frozen"), [("", "True"), ("import torch", "False")])
def test_only_a_new_process_imports_without_collections(first, is_frozen):
    """The garbage collector works again after the imports, and leaves objects of other programs as they are."""
    code = (
        f"{first}\nimport gc\nfrom torch_ap.cli import main\n"
        "assert main.main(['plan', '--ap', '0.62', '--units', '80', '--half-width', '0.05']) == 0\n"
        "print(gc.isenabled(), gc.get_freeze_count() > 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines()[-1] == f"True {is_frozen}"


def test_every_name_of_the_package_is_there():
    for name in torch_ap.__all__:
        assert getattr(torch_ap, name) is not None
        assert name in dir(torch_ap)
    with pytest.raises(AttributeError, match="module 'torch_ap' has no attribute 'nothing'"):
        _ = torch_ap.nothing


def test_help_of_the_package_lists_its_commands():
    table = torch_ap.__doc__.split("\n" + "=" * 29)[2]
    told = [line.split()[0] for line in table.splitlines()[1:]]
    assert sorted(told) == sorted(set(torch_ap.__all__) - {"__version__"})


def test_conventions_of_the_command_equal_the_library():
    assert (*measure_names.TREC_CONVENTIONS, *TIES) == measure_names.CONVENTIONS


@pytest.fixture
def trec(tmp_path, monkeypatch):
    (tmp_path / "qrels").write_text("".join(f"{query} 0 d{query} 1\n" for query in range(3000)))
    (tmp_path / "run").write_text("".join(f"{query} Q0 d{query} 1 2.5 t\n" for query in range(3000)))
    monkeypatch.chdir(tmp_path)
    return [*PROGRAM, "trec", "qrels", "run", "-q", "-m", "map"]


def test_a_reader_that_goes_away_ends_the_command_quietly(trec):
    with subprocess.Popen(trec, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.close()
        assert running.wait() == 141
        assert running.stderr.read() == b""


def test_warnings_for_programmers_are_not_noted(monkeypatch, capsys):
    class Both(UserWarning, DeprecationWarning):
        """A warning of two categories, as in pyparsing, which matplotlib imports."""

    def run(_):
        warnings.warn("of a library", Both, stacklevel=2)
        warnings.warn("of the data", stacklevel=2)
        return 0

    monkeypatch.setattr("torch_ap.cli.trec.run", run)
    assert main.main(["trec", "a", "b"]) == 0
    assert capsys.readouterr().err == "torch-ap: of the data\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")  # noqa: PTH110
def test_a_full_disk_is_one_line(trec, monkeypatch, capsys):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", full)
        assert main.main(trec[len(PROGRAM) :]) == 2
        monkeypatch.undo()
    assert capsys.readouterr().err.splitlines()[-1].endswith("No space left on device")


def test_closed_standard_output_is_one_line(trec):
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *trec], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (2, b"torch-ap: standard output is closed\n")


@pytest.mark.parametrize("pack", ["plain", "gzip"])
def test_a_line_without_end_takes_no_time(pack, tmp_path, capsys):
    path = tmp_path / "endless"
    if pack == "plain":
        path.write_bytes(b"q Q0 d\n" + b"x" * 100)
        os.truncate(path, 1 << 34)  # sparse: it takes no space on disk
    else:
        path.write_bytes(gzip.compress(b"q Q0 d 1 2 t\n" + bytes(1 << 25), 1))
    started = time.process_time()
    assert main.main(["trec", str(path), str(path)]) == 2
    assert time.process_time() - started < 5
    assert capsys.readouterr().err.startswith(f"torch-ap: {path}, line ")


def test_lines_up_to_a_mebibyte_are_read_anywhere_in_the_file(tmp_path):
    short = "q Q0 d{} 1 2.5 t\n"
    for before in (0, 100_000, 230_000):
        lines = "".join(map(short.format, range(before)))
        (tmp_path / "run").write_text(f"{lines}r Q0 d 1 3.5 t {'x' * ((1 << 20) - 16)}\n")
        assert read_run(tmp_path / "run").scores[-1] == 3.5
        (tmp_path / "run").write_text(f"{lines}r Q0 d 1 3.5 t {'x' * (1 << 20)}\n")
        with pytest.raises(ValueError, match=f"run, line {before + 1}: .*1048576 bytes"):
            read_run(tmp_path / "run")


def test_ranks_for_scores_are_noted(tmp_path, capsys):
    (tmp_path / "qrels").write_text("q 0 a 1\n")
    (tmp_path / "run").write_text("".join(f"q Q0 {d} x {rank} t\n" for rank, d in enumerate("bacd", 1)))
    assert main.main(["trec", str(tmp_path / "qrels"), str(tmp_path / "run"), "-m", "map"]) == 0
    assert "the scores of its first query rise by one per line, as ranks do" in capsys.readouterr().err


def test_an_empty_run_among_others(tmp_path, capsys):
    (tmp_path / "qrels").write_text("q 0 a 1\nr 0 a 1\n")
    (tmp_path / "run").write_text("q Q0 a 1 2 t\n")
    (tmp_path / "none").write_text("# nothing\n")
    command = ["trec", *(str(tmp_path / name) for name in ("qrels", "run", "none")), "-m", "map"]
    assert main.main([*command, "-c"]) == 2
    assert capsys.readouterr().out == ""
    assert main.main([*command, "-c", "--allow-empty"]) == 0
    assert capsys.readouterr().out.split()[-2:] == ["0.5000", "0.0000"]
    assert main.main([*command, "--allow-empty", "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=lambda x: pytest.fail(f"{x} is no JSON"))
    assert [measures["map"]["all"] for measures in found.values()] == [1, None]


def boxes(count, draw, width=600.0):
    """Return corners of objects, and of detections near them."""
    for _ in range(count):
        w, h = draw.uniform(20, 80), draw.uniform(20, 80)
        x, y = draw.uniform(0, width - w), draw.uniform(0, width - h)
        dx, dy = draw.uniform(-4, 4), draw.uniform(-4, 4)
        yield (x, y, x + w, y + h), (x + dx, y + dy, x + dx + w, y + dy + h)


@pytest.fixture
def coco(tmp_path):
    """Write annotations and results; return the corners of all detections and a function that runs the command."""
    draw = random.Random(1)
    truth = {
        "images": [{"id": one, "width": 600, "height": 600} for one in range(20)],
        "categories": [{"id": one, "name": f"class {one}"} for one in range(1, 6)],
        "annotations": [],
    }
    found = []
    for image in range(20):
        for true, detected in boxes(4, draw):
            one = {"image_id": image, "category_id": draw.randint(1, 4)}
            truth["annotations"].append(one | {"bbox": xywh(true), "area": 900})
            found.append(one | {"corners": detected, "score": draw.random()})

    def run(change, *further, size=True):
        if not size:
            truth["images"] = [{"id": one} for one in range(20)]
        (tmp_path / "truth.json").write_text(json.dumps(truth))
        (tmp_path / "found.json").write_text(json.dumps([change(one) for one in found]))
        return main.main(["coco", str(tmp_path / "truth.json"), str(tmp_path / "found.json"), *further])

    return run


def xywh(corners):
    x1, y1, x2, y2 = corners
    return [x1, y1, x2 - x1, y2 - y1]


COCO_CAUSES = {
    "right": (lambda x: xywh(x["corners"]), lambda x: x["category_id"], ""),
    "corners": (lambda x: list(x["corners"]), None, "seem to be `xyxy`, but are read as `xywh`"),
    "centres": (
        lambda x: [
            (x["corners"][0] + x["corners"][2]) / 2,
            (x["corners"][1] + x["corners"][3]) / 2,
            *xywh(x["corners"])[2:],
        ],
        None,
        "seem to be `cxcywh`, but are read as `xywh`",
    ),
    "fractions": (
        lambda x: [v / 600 for v in xywh(x["corners"])],
        None,
        "the boxes of the detections seem to be fractions of the image's width and height",
    ),
    "other scale": (
        lambda x: [v * 40 for v in xywh(x["corners"])],
        None,
        "the boxes of the detections seem to need multiplication by 0.025",
    ),
    "shifted ids": (None, lambda x: x["category_id"] + 1, "the labels of the detections seem to be 1 above"),
    "other class": (
        None,
        lambda _: 5,
        "no class of the detections ('class 5') is one of the ground truths ('class 1, ",
    ),
    "elsewhere": (
        lambda x: [0, 597, 2 + x["score"], 3],
        None,
        "no detection matches a ground truth of its image and class at an IoU of 0.5 or more",
    ),
}


@pytest.mark.parametrize("cause", COCO_CAUSES)
def test_why_coco_results_match_nothing(cause, coco, capsys):
    box, category, message = COCO_CAUSES[cause]
    box, category = box or COCO_CAUSES["right"][0], category or COCO_CAUSES["right"][1]
    for size in (True, False):
        assert coco(lambda x: {**x, "bbox": box(x), "category_id": category(x)}, size=size) == 0
        said = capsys.readouterr().err
        assert said.count("\n") == bool(message)
        assert message in said


@pytest.mark.parametrize(("step", "which"), [(-1, "next"), (1, "previous")])
def test_results_of_neighbouring_images_are_noted(step, which, coco, capsys):
    """Move results to the next image, and results of the image at the end to the other end."""
    assert coco(lambda x: {**x, "bbox": xywh(x["corners"]), "image_id": (x["image_id"] + step) % 20}) == 0
    said = capsys.readouterr().err
    assert f"the detections seem to belong to the {which} image" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_real_results_have_no_notes(kind, public_data, capsys):
    folder = public_data / "coco_val2014_100"
    if kind == "segm":
        pytest.importorskip("pycocotools")
    found = folder / f"instances_val2014_fake{kind}100_results.json"
    assert main.main(["coco", str(folder / "instances_val2014_100.json"), str(found), "--iou-type", kind]) == 0
    assert capsys.readouterr().err == ""


def test_no_results_are_an_error_but_for_allow_empty(coco, tmp_path, capsys):
    (tmp_path / "none.json").write_text("[]")
    assert coco(lambda x: {**x, "bbox": xywh(x["corners"])}, "--compare", str(tmp_path / "none.json")) == 2
    said = capsys.readouterr()
    assert said.err == f"torch-ap: {tmp_path / 'none.json'}: contains no detections (--allow-empty lets it pass)\n"
    assert said.out == ""
    assert main.main(["coco", str(tmp_path / "truth.json"), str(tmp_path / "none.json"), "--allow-empty"]) == 0
    assert capsys.readouterr().err == ""


@pytest.fixture
def voc(tmp_path):
    """Write the same objects as XML and as text in any format, and detections as text."""
    draw = random.Random(2)
    scene = [(f"im{number}", list(boxes(3, draw))) for number in range(10)]
    names = ["traffic light", "light"]

    def write(box_format="xyxy", name=lambda one: names[one], scale=1.0):
        for folder in ("xml", "text", "found"):
            (tmp_path / folder).mkdir(exist_ok=True)
        score = random.Random(5)
        for image, objects in scene:
            truths = [as_format([scale * v for v in true], box_format) for true, _ in objects]
            found = [as_format([scale * v for v in detected], box_format) for _, detected in objects]
            xml = "".join(
                f"<object><name>{names[i % 2]}</name><bndbox><xmin>{x1}</xmin><ymin>{y1}</ymin><xmax>{x2}</xmax>"
                f"<ymax>{y2}</ymax></bndbox></object>"
                for i, ((x1, y1, x2, y2), _) in enumerate(objects)
            )
            size = "<size><width>600</width><height>600</height></size>"
            (tmp_path / "xml" / f"{image}.xml").write_text(f"<annotation>{size}{xml}</annotation>")
            (tmp_path / "text" / f"{image}.txt").write_text(
                "".join(f"{names[i % 2]} {' '.join(map(repr, box))}\n" for i, box in enumerate(truths))
            )
            (tmp_path / "found" / f"{image}.txt").write_text(
                "".join(f"{name(i % 2)} {score.random()} {' '.join(map(repr, box))}\n" for i, box in enumerate(found))
            )
        return tmp_path

    return write


def as_format(corners, box_format):
    x1, y1, x2, y2 = corners
    if box_format == "cxcywh":
        return [(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1]
    return [x1, y1, x2, y2] if box_format == "xyxy" else [x1, y1, x2 - x1, y2 - y1]


def value(capsys, *arguments):
    status = main.main(["voc", *map(str, arguments), "--json"])
    said = capsys.readouterr()
    return (json.loads(said.out)["map"] if status == 0 else None), said.err


@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
def test_the_box_format_is_that_of_the_text_files(box_format, voc, capsys):
    folder = voc(box_format)
    wanted, said = value(capsys, folder / "text", folder / "found", "--box-format", box_format)
    assert wanted > 0.9
    assert said == ""
    mixed, said = value(capsys, folder / "xml", folder / "found", "--box-format", box_format)
    assert mixed == pytest.approx(wanted, abs=REORDERED)
    assert said == ""
    corners = read_voc(folder / "xml", folder / "found", box_format)
    torch.testing.assert_close(
        corners.target["boxes"], read_voc(folder / "text", folder / "found", box_format).target["boxes"]
    )


def test_why_voc_detections_match_nothing(voc, capsys):
    folder = voc("xywh")
    for given, message in (
        ("xyxy", "seem to be `xywh`, but are read as `xyxy`"),
        ("cxcywh", "seem to be `xywh`, but are read as `cxcywh`"),
    ):
        assert message in value(capsys, folder / "xml", folder / "found", "--box-format", given)[1]
    for name, message in (
        (
            str,
            "('0, 1') is one of the ground truths ('light, traffic light'), so that none can match; class ids here, ",
        ),
        (lambda one: ("Traffic Light", "LIGHT")[one], "; they differ in upper and lower case"),
        (
            lambda one: ("car", "bus")[one],
            "no class of the detections ('bus, car') is one of the ground truths ('light, ",
        ),
    ):
        voc(name=name)
        found, said = value(capsys, folder / "xml", folder / "found")
        assert found == 0
        assert message in said
        assert said.count("\n") == 1


@pytest.mark.parametrize("name", ["light", "traffic light"])
def test_an_extra_number_in_a_line_of_ground_truths_is_noted(name, voc, capsys):
    folder = voc()
    (folder / "text" / "im0.txt").write_text(f"{name} 10 10 60 40 2")
    found, said = value(capsys, folder / "text", folder / "found")
    assert found is None
    assert "im0.txt, line 1" in said
    assert f"the class is '{name} 10': is there a number more" in said


def test_text_truths_in_a_folder_of_xml_are_noted_as_ignored(voc, capsys):
    folder = voc()
    (folder / "xml" / "im0.txt").write_text("cat 1 2 3 4")
    assert value(capsys, folder / "xml", folder / "found") == (
        value(capsys, folder / "text", folder / "found")[0],
        f"torch-ap: {folder / 'xml'}: the ground truths are read from its 10 .xml files; its 1 .txt files are left "
        "out\n",
    )
    with pytest.warns(UserWarning, match="its 1 .txt files are left out"):
        read_voc(folder / "xml", folder / "found")


def test_boxes_in_fractions_have_no_pixels_to_include(voc, capsys):
    """Sizes of x2 - x1 + 1 would make all boxes of an image equal."""
    folder = voc(scale=1 / 600)
    found, said = value(capsys, folder / "text", folder / "found")
    assert found is None
    assert "give --exclusive-pixels" in said
    found, said = value(capsys, folder / "text", folder / "found", "--exclusive-pixels")
    assert 0.9 < found < 1.01
    assert said == ""


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("comp4_det_test_traffic_light", "traffic light"),
        ("comp3_det_val2012_traffic light", "traffic light"),
        ("comp4_det_test_light", "light"),
        ("comp4_det_test_bus_light", "bus_light"),
        ("comp4_det_my_set_traffic_light", "traffic light"),
        ("results_light", "light"),
        ("results_bus", "bus"),
    ],
)
def test_the_class_in_the_name_of_a_file(stem, name, voc):
    folder = voc()
    for path in (folder / "found").iterdir():
        path.unlink()
    (folder / "found" / f"{stem}.txt").write_text("im0 0.5 1 2 3 4")
    data = read_voc(folder / "xml", folder / "found")
    assert data.class_names[data.preds["labels"][0]] == name
    (folder / "found" / f"x{stem.replace(' ', '_')}.txt").write_text("im0 0.5 1 2 3 4")
    if name != "bus_light":
        with pytest.raises(ValueError, match=f"class '{name}' .*one file.* has "):
            read_voc(folder / "xml", folder / "found")


def test_empty_files_have_no_notes():
    """The input has no detections, no objects and no images."""
    none = {
        "boxes": torch.zeros(0, 4),
        "labels": torch.zeros(0, dtype=torch.int64),
        "counts": torch.zeros(2, dtype=torch.int64),
    }
    one = {"boxes": torch.ones(1, 4), "labels": torch.tensor([7]), "counts": torch.tensor([0, 1])}
    assert list(low_value_causes(none, one, "xyxy", {7: "x"})) == []
    assert list(low_value_causes(one, none, "xyxy", {7: "x"})) == [
        "the ground truths contain no object, so that no detection can match"
    ]
    assert list(low_value_causes([], [], "xyxy", {})) == [
        "the ground truths contain no object, so that no detection can match"
    ]


def test_values_are_shown_in_80_characters():
    deep = []
    for _ in range(2000):
        deep = [deep] * 50
    for value in ("x" * 500, b"x" * 500, ["x" * 50] * 50, {"a": [1] * 500}, 10**5000, deep, {1: {2: {}}}):
        assert 0 < len(short_repr(value)) <= 80


def test_short_values_are_shown_as_they_are():
    for value in ("x", b"y", 1.5, None, [1, 2, 3], {"a": 1}, "x" * 77):
        assert short_repr(value) == repr(value)


def test_files_are_read_once_for_all_purposes(coco, tmp_path, capsys, monkeypatch):
    opened, load = [], entries.load
    monkeypatch.setattr(entries, "load", lambda path: opened.append(Path(path).name) or load(path))
    assert coco(lambda x: {**x, "bbox": xywh(x["corners"])}, "--compare", str(tmp_path / "found.json")) == 0
    assert sorted(opened) == ["found.json", "truth.json"]
    assert "difference of the mean +0.0000" in capsys.readouterr().out


def test_a_class_without_truths_is_a_dash_in_tables_and_as_peers_have_it_in_json(tmp_path, capsys):
    box = {"image_id": 1, "category_id": 1, "bbox": [10, 10, 20, 20]}
    names = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    (tmp_path / "truth.json").write_text(json.dumps({"images": [{"id": 1}], "annotations": [box], "categories": names}))
    found = [{**box, "score": 0.9}, {**box, "category_id": 2, "score": 0.8}]
    (tmp_path / "found.json").write_text(json.dumps(found))
    files = [str(tmp_path / name) for name in ("truth.json", "found.json")]
    assert main.main(["coco", *files, "--per-class"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["dog", "-", "-", "-", "-", "0", "1", "0", "1"]
    assert main.main(["coco", *files, "--per-class", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["per_class"]["ap"] == [pytest.approx(1), -1]
    for folder, line in (("truth", "cat"), ("found", "cat 0.9"), ("found", "dog 0.8")):
        (tmp_path / folder).mkdir(exist_ok=True)
        with (tmp_path / folder / "1.txt").open("a") as file:
            file.write(f"{line} 10 10 30 30\n")
    folders = [str(tmp_path / name) for name in ("truth", "found")]
    assert main.main(["voc", *folders]) == 0
    assert capsys.readouterr().out.splitlines()[3].split() == ["dog", "-"]
    assert main.main(["voc", *folders, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["per_class"] == {"cat": 1, "dog": None}


def test_every_help_has_examples_that_are_understood(capsys, monkeypatch):
    for command in ("score", "trec", "coco", "lvis", "voc"):
        with pytest.raises(SystemExit):
            main.main([command, "--help"])
        lines = capsys.readouterr().out.split("\nExamples:\n")[1].splitlines()
        examples = [line.split("torch-ap ", 1)[1].split(" >")[0].split() for line in lines]
        assert len(examples) >= 4
        monkeypatch.setattr(f"torch_ap.cli.{command}.run", lambda _: 0)
        assert [main.main(example) for example in examples] == [0] * len(examples)


@pytest.mark.parametrize("command", [["coco", "a", "b"], ["lvis", "a", "b"], ["voc", "a", "b"], ["trec", "a", "b"]])
@pytest.mark.parametrize("option", ["--confidence-level", "--n-resamples"])
def test_options_of_results_that_are_not_requested_are_refused(command, option, capsys):
    assert main.main([*command, option, {"--n-resamples": "9"}.get(option, "0.9")]) == 2
    needed = "--interval, --compare, --report, --fail-below or --best"
    if command[0] == "trec":
        further = "--fail-below, --best or --judge" if option == "--confidence-level" else "or --chance-test"
        needed = f"--compare, --interval, --report{',' if '--best' in further else ''} {further}"
    elif option == "--confidence-level":
        needed = "--interval, --compare, --report, --fail-below, --best or --operating-points"
    assert capsys.readouterr().err == f"torch-ap: {option} has no meaning without {needed}\n"


def test_detection_in_every_form(coco, voc, tmp_path, capsys):
    folder = voc()
    (tmp_path / "other").mkdir()
    for path in (folder / "found").iterdir():
        (tmp_path / "other" / path.name).write_text("".join(path.read_text().splitlines(True)[:2]))
    of = {
        "coco": lambda *more: coco(lambda x: {**x, "bbox": xywh(x["corners"])}, *more),
        "voc": lambda *more: main.main(["voc", str(folder / "text"), str(folder / "found"), *more]),
    }
    baseline = {"coco": str(tmp_path / "found.json"), "voc": str(tmp_path / "other")}
    for name, run in of.items():
        more = ("--per-class", "--interval", "--compare", baseline[name], "--n-resamples", "20")
        said = {}
        for form in ("--json", "--csv", "--markdown", ""):
            assert run(*more, *([form] if form else [])) == 0
            said[form] = capsys.readouterr().out
        document = json.loads(said["--json"])
        rows = {tuple(line.split(",")[:2]): line.split(",")[2] for line in said["--csv"].splitlines()}
        assert float(rows["map", "all"]) == document["map"]
        assert float(rows["compared.difference", "all"]) == document["compared"]["difference"]
        classes = document["per_class"]
        for place, one in enumerate(classes["name"]):
            assert float(rows["ap", one] or "nan") == pytest.approx(classes["ap"][place], nan_ok=True)
            assert int(rows["tp", one]) == classes["tp"][place]
            assert rows["ap_low", one] == ("" if (low := classes["ap_low"][place]) is None else repr(low))
            assert low is None or 0 <= low <= classes["ap"][place] <= classes["ap_high"][place] <= 1
        assert said["--markdown"].count("|---") > 3
        assert "IoU" in said[""].replace("IoU=", "")
        assert f" - {baseline[name]}: difference of the mean" in said[""]
    assert document["compared"]["difference"] > 0


@pytest.mark.parametrize("wanted", [(), ("--beta", "2"), ("--precision", "0.4"), ("--recall", "0.3")])
def test_operating_points_in_every_form(wanted, coco, voc, tmp_path, capsys):
    """Operating points are in tables, and in documents in the form of the metrics."""
    folder = voc()
    more = ("--operating-points", "--confidence-level", "0.9", *wanted)
    settings = {wanted[0].strip("-"): float(wanted[1])} if wanted else {}
    for command in ("coco", "voc"):
        said = {}
        for form in ("--json", "--csv", "--markdown", ""):
            if command == "coco":
                assert coco(lambda x: {**x, "bbox": xywh(x["corners"])}, *more, *([form] if form else [])) == 0
            else:
                arguments = [str(folder / "text"), str(folder / "found"), *more, *([form] if form else [])]
                assert main.main(["voc", *arguments]) == 0
            said[form] = capsys.readouterr().out
        found = json.loads(said["--json"])["operating_points"]
        metric, names = read_again(command, tmp_path)
        each = metric.operating_points(**settings, confidence_level=0.9, class_names=names).to_dict()
        assert found["iou_threshold"] == 0.5
        assert found["per_class"].pop("name") == each.pop("names")
        assert found["per_class"] == {x: replace_nan(y) for x, y in each.items()}
        together = metric.operating_points(**settings, confidence_level=0.9, per_class=False).to_dict()
        assert found["all"] == {x: replace_nan(y) for x, y in together.items() if x not in ("labels", "names")}
        rows = {tuple(line.split(",")[:2]): line.split(",")[2] for line in said["--csv"].splitlines()}
        assert float(rows["operating_point.threshold", "all"]) == together["threshold"]
        assert "Operating points of " in said[""]
        assert "90% low" in said["--markdown"]


def replace_nan(value):
    if isinstance(value, list):
        return [replace_nan(x) for x in value]
    return None if value != value else value


def read_again(command, folder):
    if command == "voc":
        data, metric = read_voc(folder / "text", folder / "found", "xyxy"), VOCMeanAveragePrecision()
    else:
        data, metric = read_coco(folder / "truth.json", folder / "found.json"), MeanAveragePrecision("xywh")
    metric.update(data.preds, data.target)
    return metric, data.class_names


def test_options_of_operating_points_require_them(coco, capsys):
    for option in ("--beta", "--precision", "--recall"):
        assert main.main(["coco", "a", "b", option, "0.5"]) == 2
        assert capsys.readouterr().err == f"torch-ap: {option} has no meaning without --operating-points\n"
    assert coco(lambda x: {**x, "bbox": xywh(x["corners"])}, "--operating-points", "--precision", "1.5") == 2
    assert capsys.readouterr().err == "torch-ap: --precision must be a number in [0, 1], got 1.5\n"
    both = ("--operating-points", "--precision", "0.5", "--recall", "0.5")
    assert coco(lambda x: {**x, "bbox": xywh(x["corners"])}, *both) == 2
    assert "--precision and --recall cannot be combined" in capsys.readouterr().err


def test_names_with_bars_do_not_break_a_table(capsys):
    class Bars(Report):
        def parts(self):
            return [Table([("name", "x"), ("a|b", "1")])]

        records = document = parts

    Bars().write("markdown")
    assert capsys.readouterr().out.splitlines() == ["| name | x |", "|---|---:|", "| a\\|b | 1 |"]


def test_why_there_is_no_interval(tmp_path, capsys):
    for folder, line in (("truth", "cat difficult"), ("found", "cat 0.9")):
        (tmp_path / folder).mkdir()
        name, *more = line.split()
        (tmp_path / folder / "1.txt").write_text(f"{name} {' '.join(more * (folder == 'found'))} 10 10 30 30")
    with (tmp_path / "truth" / "1.txt").open("a") as file:
        file.write(" difficult\n")
    assert main.main(["voc", str(tmp_path / "truth"), str(tmp_path / "found"), "--interval"]) == 0
    ends, chance = capsys.readouterr().out.splitlines()[-2:]
    assert ends.startswith("95% interval of the mean: - to - (")
    assert chance == "Chance level of the mean: - (the same boxes, their scores in random order)"


def test_swapped_files_are_noted(coco, voc, tmp_path, capsys):
    folder = voc()
    assert coco(lambda x: {**x, "bbox": xywh(x["corners"])}) == 0
    truth, found = str(tmp_path / "truth.json"), str(tmp_path / "found.json")
    (tmp_path / "qrels").write_text("q 0 d 1\n")
    (tmp_path / "run").write_text("q Q0 d 1 2.5 t\n")
    capsys.readouterr()
    for command in (
        ["coco", found, truth],
        ["coco", truth, truth],
        ["voc", folder / "found", folder / "text"],
        ["voc", folder / "text", folder / "text"],
        ["voc", folder / "found", folder / "xml"],
        ["voc", folder / "xml", folder / "xml"],
        ["trec", tmp_path / "run", tmp_path / "qrels"],
        ["trec", tmp_path / "qrels", tmp_path / "qrels"],
    ):
        assert main.main([str(word) for word in command]) == 2
        assert "swapped?" in capsys.readouterr().err


def test_hints_for_ids_from_0_and_for_yolos_files(coco, tmp_path, capsys):
    assert coco(lambda x: {**x, "bbox": xywh(x["corners"]), "category_id": x["category_id"] - 1}) == 2
    assert "unknown category_id 0; these count from 0, as places in a list do" in capsys.readouterr().err
    for name, line in (("truth", "0 0.5 0.5 0.2 0.2"), ("found", "0 0.5 0.5 0.2 0.2 0.9")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.txt").write_text(line)
    assert main.main(["voc", str(tmp_path / "truth"), str(tmp_path / "found")]) == 2
    assert "in [0, 1], as in YOLO's files: --format yolo" in capsys.readouterr().err


def _boxes(folder, lines):
    folder.mkdir()
    (folder / "one.txt").write_text("".join(f"{line} 10 10 50 50\n" for line in lines))
    return str(folder)


def test_classes_of_detections_alone_are_noted_by_voc(tmp_path, capsys):
    truth = _boxes(tmp_path / "truth", ["person", "cat"])
    alone = ["persn .9", "persn .8", "tram .7", "7 .6", "bus .5", "bicycle .4"]
    found = _boxes(tmp_path / "found", ["person .9", *alone])
    assert main.main(["voc", truth, found]) == 0
    out, err = capsys.readouterr()
    first, *others = err.splitlines()
    for part in (found, "'persn'", "are 2", "did you mean 'person'?"):
        assert part in first
    assert len(others) == 3
    assert not any("did you mean" in line for line in others)
    assert out.splitlines()[-1].split() == ["mean", "0.5000"]
    assert main.main(["voc", truth, _boxes(tmp_path / "misspelt", ["persn .9"])]) == 0
    assert "did you mean 'person'?" in capsys.readouterr().err
    assert main.main(["voc", truth, _boxes(tmp_path / "same", ["person .9"])]) == 0
    assert not capsys.readouterr().err


def test_an_image_of_yolo_that_is_not_known_has_a_hint(tmp_path, capsys):
    for name, line in (("truth", "0 0.5 0.5 0.2 0.2"), ("found", "0 0.5 0.5 0.2 0.2 0.9")):
        (tmp_path / name).mkdir()
        (tmp_path / name / ("one.txt" if name == "truth" else "onee.txt")).write_text(line)
    (tmp_path / "sizes.txt").write_text("one.jpg 640 480")
    folders = [str(tmp_path / name) for name in ("truth", "found")]
    assert main.main(["voc", *folders, "--format", "yolo", "--images", str(tmp_path / "sizes.txt")]) == 2
    assert "name 'onee'; did you mean 'one'?" in capsys.readouterr().err


def test_unknown_measures_of_trec_have_a_hint(capsys):
    for given, meant in (("mpa", "map"), ("Pp@5", "P@5"), ("gain_10", ""), ("recal_100", "recall_100")):
        assert main.main(["trec", "a", "b", "-m", given]) == 2
        assert (
            f"{given!r}; did you mean {meant!r}?; known" if meant else f"{given!r}; known"
        ) in capsys.readouterr().err


def test_runs_of_one_tag_are_distinguished_by_the_ends_of_their_paths(tmp_path, capsys):
    (tmp_path / "qrels").write_text("q 0 a 1\n")
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run").write_text("q Q0 a 1 2 t\n")
        (tmp_path / f"{name}.run").write_text("q Q0 a 1 2 t\n")
    for names, head in ((("x.run", "y.run"), ["x.run", "y.run"]), (("x/run", "y/run"), ["x/run", "y/run"])):
        assert main.main(["trec", str(tmp_path / "qrels"), *(str(tmp_path / x) for x in names), "-m", "map"]) == 0
        assert capsys.readouterr().out.splitlines()[0].split()[2:] == head


def parsers():
    """Return the parser of each command by its name."""
    subparsers = Parser().add_subparsers()
    for add in main._ADD:
        add(subparsers)
    return subparsers.choices


def test_every_option_has_its_help():
    for parser in parsers().values():
        assert all(action.help for action in parser._actions)


def test_options_of_several_commands_equal_the_page():
    text = (ROOT / "docs" / "command.md").read_text().split("Options of several commands:\n\n")[1].split("\n\n")[0]
    head, _, *rows = [[cell.strip() for cell in line.split("|")[2:-1]] for line in text.splitlines()]
    words = {
        name: {word for x in parser._actions for word in x.option_strings if x.help != argparse.SUPPRESS}
        for name, parser in parsers().items()
    }
    assert len(rows) > 10
    for cells in rows:  # the options are at the beginning of a cell
        named = [set(re.findall("--[a-z-]+", re.match("(`[^`]+`(, )?)*", cell)[0])) for cell in cells]
        for commands, options in zip(head, named, strict=True):
            for command in re.findall("`(.+?)`", commands):
                assert options == set.union(*named) & words[command], (command, cells)


@pytest.mark.parametrize("given", [("nosuch", "found"), ("text", "nosuch"), ("xml", "nosuch")])
def test_a_folder_that_is_not_there(given, voc, capsys):
    folder = voc()
    assert main.main(["voc", *(str(folder / name) for name in given)]) == 2
    assert capsys.readouterr().err == f"torch-ap: {folder / 'nosuch'}: no such folder\n"


def test_no_counts_are_printed_where_no_threshold_is_found():
    from torch_ap.cli.diagnosis import _POINT_COLUMNS, _point_cells

    ends = {f"{name}_{end}": None for name in ("precision", "recall") for end in ("low", "high")}
    cells = _point_cells(dict.fromkeys(_POINT_COLUMNS) | ends | {"tp": 0, "fp": 0, "fn": 3})
    assert cells == ["-"] * 11
