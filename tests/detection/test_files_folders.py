"""Readers of folders accept mappings from names to content, with the same results and messages."""

import gzip
import random

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from torch_ap.files import read_dota, read_voc, read_yolo

STEMS = ["im", "im-b", "im.a", "im.z", "ünd ich", "leer"]  # in another order than their files
SIZES = {name: (64 + 8 * place, 48) for place, name in enumerate(STEMS)}


def quarter(draw, low, high):
    return draw.randrange(low, high) / 4


def scene(form):
    """Draw the files of ground truths and of detections, as rows by name; numbers are exact in float32."""
    draw, truth, found = random.Random(5), {}, {}
    for name in STEMS:
        count = 0 if name == "leer" else draw.randint(1, 3)
        x, y = quarter(draw, 0, 60), quarter(draw, 0, 60)
        corners = [x, y, x + 9, y, x + 9, y + 9.5, x, y + 9.5]
        if form == "dota":
            truth[name] = [[*corners, draw.choice(["ship", "large plane"]), draw.randrange(3)] for _ in range(count)]
            for one in ("ship", "large plane") if count else ():
                rows = [[name.replace(" ", ""), draw.randrange(64) / 64, *corners] for _ in range(count)]
                found.setdefault(one, []).extend(rows)
        elif form == "yolo":
            boxes = [[draw.randrange(3), *(draw.randrange(8, 56) / 64 for _ in range(4))] for _ in range(count)]
            truth[name], found[name] = boxes, [[*row, draw.randrange(64) / 64] for row in boxes]
        else:
            boxes = [[draw.randrange(3), x, y, x + 9, y + quarter(draw, 20, 60)] for _ in range(count)]
            truth[name] = boxes
            found[name] = [[row[0], draw.randrange(64) / 64, *row[1:]] for row in boxes]
    return ({x.replace(" ", ""): rows for x, rows in truth.items()} if form == "dota" else truth), found


def text(rows):
    return "\n".join(" ".join(map(str, row)) for row in rows)


def xml(rows):
    keys = ("xmin", "ymin", "xmax", "ymax")
    objects = [
        f"<object><name>{row[0]}</name><bndbox>{''.join(f'<{k}>{x}</{k}>' for k, x in zip(keys, row[1:], strict=True))}"
        "</bndbox></object>"
        for row in rows
    ]
    return f"<annotation><size><width>99</width><height>98</height></size>{''.join(objects)}</annotation>"


def write(folder, files, suffix="txt"):
    folder.mkdir()
    for name, content in files.items():
        (folder / f"{name}.{suffix}").write_text(content, encoding="utf-8")
    return folder


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a.nan_to_num(-1), b.nan_to_num(-1))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[x], b[x]) for x in a)
    return a == b


READERS = {
    "voc": (read_voc, {}),
    "yolo": (read_yolo, {"images": SIZES}),
    "dota": (read_dota, {}),
}
CONTENTS = {
    "text": text,
    "bytes": lambda rows: text(rows).encode(),
    "gzip": lambda rows: gzip.compress(b"\xef\xbb\xbf" + text(rows).replace("\n", "\r\n").encode()),
    "lines": lambda rows: text(rows).splitlines(keepends=True),
    "rows": tuple,
    "array": lambda rows: np.array(rows, float),
    "array32": lambda rows: np.array(rows, np.float32),
    "tensor": torch.tensor,
    "float64 rows": lambda rows: [torch.tensor(row, dtype=torch.float64) for row in rows],
    "scalars": lambda rows: [[np.float32(x) for x in row] for row in rows],
    "pandas": pd.DataFrame,
    "polars": lambda rows: pl.DataFrame(rows, orient="row"),
}
WITH_NAMES = ("text", "bytes", "gzip", "lines", "rows", "pandas")


@pytest.mark.parametrize("form", READERS)
def test_mappings_are_read_as_folders(form, tmp_path):
    (truth, found), (read, settings) = scene(form), READERS[form]
    folders = [
        write(tmp_path / name, {x: text(rows) for x, rows in files.items()})
        for name, files in (("truth", truth), ("found", found))
    ]
    wanted = vars(read(*folders, **settings))
    assert len(wanted["preds"]["labels"]) > 5
    for name, convert in CONTENTS.items():
        if form != "dota" or name in WITH_NAMES:
            sides = [{x: convert(rows) for x, rows in reversed(files.items())} for files in (truth, found)]
            assert equal(vars(read(*sides, **settings)), wanted), name
    assert equal(vars(read(folders[0], sides[1], **settings)), wanted)
    assert equal(vars(read(sides[0], folders[1], **settings)), wanted)


def test_annotations_in_xml(tmp_path):
    truth, found = scene("voc")
    annotations = {name: xml(rows) for name, rows in truth.items()}
    wanted = read_voc(write(tmp_path / "truth", annotations, "xml"), {x: text(rows) for x, rows in found.items()})
    for convert in (str, str.encode, str.splitlines):
        read = read_voc({name: convert(content) for name, content in annotations.items()}, found)
        assert equal(vars(read), vars(wanted))
    assert wanted.images == ["im-b", "im.a", "im", "im.z", "leer", "ünd ich"]
    assert (wanted.sizes == torch.tensor([99.0, 98.0])).all()


def test_a_document_per_class(tmp_path):
    truth = {name: text(rows) for name, rows in scene("voc")[0].items()}
    found = {"comp4_det_test_1": "im 0.5 0 0 9 9\nim-b 0.25 1 1 5 5"}
    assert equal(vars(read_voc(truth, found)), vars(read_voc(truth, write(tmp_path / "found", found))))


def test_sizes_and_names_of_yolo(tmp_path):
    truth, found = scene("yolo")
    (tmp_path / "sizes.txt").write_text("".join(f"{x} {w} {h}\n" for x, (w, h) in SIZES.items()), encoding="utf-8")
    (tmp_path / "names.txt").write_text("cat\ntraffic light\ndog")
    wanted = vars(read_yolo(truth, found, tmp_path / "sizes.txt", tmp_path / "names.txt"))
    names = ["cat", "traffic light", "dog"]
    for sizes in (torch.tensor, np.array, list, "{0[0]} {0[1]}".format):
        files = {f"{x}.jpg": sizes(size) for x, size in SIZES.items()}
        for given in (names, tuple(names), dict(enumerate(names)), None):
            labels = truth if given else truth | {"classes": "\n".join(names)}
            assert equal(vars(read_yolo(labels, found, files, given)), wanted)


CORNERS = "10 0 20 10 10 20 0 10"
SPARSE = torch.eye(6).to_sparse()
VOC, YOLO, DOTA = {"a": "cat 1 1 9 9"}, {"a": "0 .5 .5 .1 .1"}, {"a": f"{CORNERS} ship 0"}


@pytest.mark.parametrize(
    ("read", "arguments", "kind", "message"),
    [
        (
            read_voc,
            (VOC, {"a": ["cat .5 1 1 9 9", "cat x 1 1 9 9"]}),
            ValueError,
            r"^`detections\['a'\]`, line 2: .*score",
        ),
        (read_voc, (VOC, {"b": ["cat .5 1 1 9 9"]}), ValueError, r"^`detections\['b'\]`, line 1: there are no ground"),
        (read_voc, (VOC, {"a": 5}), ValueError, r"^`detections\['a'\]`: must be text, bytes, .*, got 5"),
        (
            read_voc,
            (VOC, {"a": SPARSE}),
            ValueError,
            r"^`detections\['a'\]`: must be a dense tensor.*, got torch.sparse_coo",
        ),
        (read_voc, (VOC, {"a": [SPARSE[0]]}), ValueError, r"^`detections\['a'\]`, line 1: must be a dense tensor"),
        (
            read_voc,
            (VOC, {"a": np.ones(6)}),
            ValueError,
            r"^`detections\['a'\]`, line 1: must be text or a row .* got 1",
        ),
        (read_voc, (VOC, {"a": np.ones((1, 0))}), ValueError, r"line 1: must be text or a row .* got \[\]"),
        (read_voc, (VOC, {"a": [[None, 1, 1, 1, 9, 9]]}), ValueError, r"line 1: must be text or a row .* got \[None"),
        (read_voc, (VOC, {"a": "cat .5 1 1 9 9\n\x00"}), ValueError, r"^`detections\['a'\]`, line 2: must be UTF-8"),
        (read_voc, (VOC, {"a": "\ud800"}), ValueError, r"^`detections\['a'\]`, line 1: must be UTF-8"),
        (read_voc, (VOC, {"a": b"\xff"}), ValueError, r"^`detections\['a'\]`, line 1: must be UTF-8"),
        (
            read_voc,
            (VOC, {}),
            ValueError,
            r"^`detections` must have an entry \(allow_empty=True lets it pass\), got {}",
        ),
        (read_voc, ({}, VOC), ValueError, "^`ground_truths` must have an entry per image, got {}"),
        (read_voc, ({1: "cat 1 1 9 9"}, VOC), TypeError, "^`ground_truths` must have names .* as keys, as text, got 1"),
        (read_voc, (VOC, ["cat 1 1 1 9 9"]), TypeError, "^`detections` must be a folder, or a mapping .* got list"),
        (
            read_voc,
            ({"a": "<annotation/>", "b": "cat 1 1 9 9"}, VOC),
            ValueError,
            r"^`ground_truths\['b'\]`.*must be XML",
        ),
        (read_voc, ({"a": "0 .1 .1 .2 .2"}, {"a": "0 .5 .1 .1 .2 .2"}), ValueError, "^`ground_truths`: .*YOLO"),
        (
            read_voc,
            (VOC, {"x_cat": "", "y_cat": ""}),
            ValueError,
            r"^`detections\['y_cat'\]`: class 'cat' must have one",
        ),
        (
            read_yolo,
            (YOLO, {"a": [[0, 0.5, 0.5, 0.1, 0.1]]}, {"a": (9, 9)}),
            ValueError,
            r"^`detections\['a'\]`, line 1: .*6",
        ),
        (
            read_yolo,
            (YOLO, {"a": torch.tensor([[0.5] * 6])}, {"a": (9, 9)}),
            ValueError,
            r"line 1: the class must be an id",
        ),
        (
            read_yolo,
            (YOLO, {"a": np.full((1, 6), np.inf)}, {"a": (9, 9)}),
            ValueError,
            r"the class must be an id, got 'inf'",
        ),
        (
            read_yolo,
            (YOLO, {"a": [[0, *[np.nan] * 5]]}, {"a": (9, 9)}),
            ValueError,
            "line 1: .* must contain finite numbers",
        ),
        (read_yolo, (YOLO, YOLO), ValueError, "^`images` must be a mapping of sizes or a path, if .* got None"),
        (
            read_yolo,
            (YOLO, YOLO, {"b": (9, 9)}),
            ValueError,
            r"^`ground_truths\['a'\]`: no image in `images` has the name 'a'",
        ),
        (
            read_yolo,
            (YOLO, YOLO, {"a": (9, 9, 3)}),
            ValueError,
            r"^`images\['a'\]`: must be width and height.* got \(9, 9, 3\)",
        ),
        (read_yolo, (YOLO, YOLO, {"a": (9.5, 9)}), ValueError, r"^`images\['a'\]`: must be width and height, in whole"),
        (read_yolo, (YOLO, YOLO, {"a.png": (9, 9), "a": (9, 9)}), ValueError, "image 'a' must occur once"),
        (read_yolo, (YOLO, YOLO, {}), ValueError, "^`images`: must be a folder"),
        (read_yolo, (YOLO, YOLO, {"a": (9, 9)}, ["cat", "cat"]), ValueError, "^`names`: class 1: 'cat' is class 0 too"),
        (
            read_yolo,
            (YOLO, YOLO, {"a": (9, 9)}, {"0": "cat"}),
            ValueError,
            "^`names`: a class id must be a whole number",
        ),
        (
            read_yolo,
            (YOLO, YOLO, {"a": (9, 9)}, 5),
            ValueError,
            "^`names`: must be a path, a list or a mapping .* got 5",
        ),
        (
            read_dota,
            (DOTA, {"ship": f"a .5 {CORNERS}\nb .5 {CORNERS}"}),
            ValueError,
            r"^`detections\['ship'\]`, line 2: unknown",
        ),
        (
            read_dota,
            (DOTA, {"shop": ""}),
            ValueError,
            r"^`detections\['shop'\]`: no ground truth is of class .* 'ship'",
        ),
        (read_dota, (DOTA, {"ship": "", "Task1_ship": ""}), ValueError, r"has `detections\['Task1_ship'\]` too"),
        (
            read_dota,
            ({"a": ""}, {"ship": f"a .5 {CORNERS}"}),
            ValueError,
            "^`ground_truths`: the ground truths contain no",
        ),
    ],
)
def test_errors_name_key_and_line(read, arguments, kind, message):
    with pytest.raises(kind, match=message):
        read(*arguments)


def test_an_empty_mapping_of_detections_may_be_allowed():
    for read, truth, settings in (
        (read_voc, VOC, {}),
        (read_yolo, YOLO, {"images": {"a": (9, 9)}}),
        (read_dota, DOTA, {}),
    ):
        assert len(read(truth, {}, allow_empty=True, **settings).preds["labels"]) == 0
        assert len(read(truth, {}, allow_empty=True, **settings).target["labels"]) == 1
