"""Boxes that were written in another way than they are read: the command names the way, and nothing else.

Every mis-encoding is a row; it is applied to scenes of images of many sizes, which each kind of file then holds.
"""

import json
import random
import re
import shutil

import pytest
import torch

from tests.each import each
from torch_ap.analysis import encodings
from torch_ap.cli import main

PLAIN = {"xyxy": "x1 y1 x2 y2", "xywh": "x y width height", "cxcywh": "centre x, centre y, width, height"}


def scene(seed, images=12, objects=5, wrong=0.2, jitter=0.05):
    """(width, height, [(class, true corners, detected corners, score)]) of each image, in pixels."""
    draw = random.Random(seed)
    out = []
    for _ in range(images):
        width, height = draw.randint(300, 900), draw.randint(300, 900)
        rows = []
        for _ in range(objects):
            w, h = draw.uniform(40, 120), draw.uniform(20, 60)
            x, y = draw.uniform(0, width - w), draw.uniform(0, height - h)
            true = (x, y, x + w, y + h)
            x, y, w, h = (v + size * draw.gauss(0, jitter) for v, size in zip((x, y, w, h), (w, h) * 2, strict=True))
            if draw.random() < wrong:
                x, y = draw.uniform(0, width - w), draw.uniform(0, height - h)
            rows.append((draw.randrange(3), true, (x, y, x + w, y + h), draw.random()))
        out.append((width, height, rows))
    return out


def written(corners, box_format):
    x1, y1, x2, y2 = corners
    if box_format == "cxcywh":
        return [(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1]
    return [x1, y1, x2, y2] if box_format == "xyxy" else [x1, y1, x2 - x1, y2 - y1]


# name: corners in pixels and the image's size to other corners; what is said of detections that were written so
SCALES = {
    "doubled": (lambda c, *_: [2 * v for v in c], "multiplied by 0.5, "),
    "halved": (lambda c, *_: [v / 2 for v in c], "multiplied by 2, "),
    "uneven": (lambda c, *_: [c[0] * 2, c[1] * 3, c[2] * 2, c[3] * 3], "x multiplied by 0.5 and y by 0.3333, "),
    "fractions": (
        lambda c, w, h: [c[0] / w, c[1] / h, c[2] / w, c[3] / h],
        "taken as fractions of the image's width and height, ",
    ),
    "percent": (lambda c, w, h: [100 * v / s for v, s in zip(c, (w, h) * 2, strict=True)], "taken as percent of the "),
    "thousandths": (
        lambda c, w, h: [1000 * v / s for v, s in zip(c, (w, h) * 2, strict=True)],
        "taken as thousandths of the image's width and height, ",
    ),
    "resized": (
        lambda c, w, h: [640 * v / s for v, s in zip(c, (w, h) * 2, strict=True)],
        r"taken for those of images resized to about 6[34]\d by 6[34]\d pixels, ",
    ),
    "letterbox": (
        lambda c, w, h: [
            640 * (v + m) / max(w, h) for v, m in zip(c, ((max(w, h) - w) / 2, (max(w, h) - h) / 2) * 2, strict=True)
        ],
        r"resized to fit into about 6[34]\d by 6[34]\d pixels, with equal margins on both ends, ",
    ),
    "longer side": (
        lambda c, w, h: [1333 * v / max(w, h) for v in c],
        r"resized to about 13[234]\d pixels of the longer side, ",
    ),
    "shorter side": (
        lambda c, w, h: [800 * v / min(w, h) for v in c],
        r"resized to about (79|80)\d pixels of the shorter side, ",
    ),
}


def columns(box_format, order):
    return lambda c, *_: [written(c, box_format)[place] for place in order]


# name: corners to four numbers, and their name; the ones that are right for the file are left out
READINGS = {
    **{name: (columns(name, (0, 1, 2, 3)), said) for name, said in PLAIN.items()},
    "yxyx": (columns("xyxy", (1, 0, 3, 2)), "y1 x1 y2 x2"),
    "yxhw": (columns("xywh", (1, 0, 3, 2)), "y x height width"),
    "xyhw": (columns("xywh", (0, 1, 3, 2)), "x y height width"),
    "xxyy": (columns("xyxy", (0, 2, 1, 3)), "x1 x2 y1 y2"),
}


class Coco:
    """COCO's files; ``box_format`` is the one that is right."""

    box_format = "xywh"
    remedy = "write `bbox` as [x, y, width, height] in pixels of the image"

    def __init__(self, folder, sized=True):
        self.folder, self.sized = folder, sized

    def run(self, images, numbers, true=None):
        """What is said, where ``numbers`` of (corners, width, height) are written for each detection."""
        true = true or (lambda c, *_: written(c, "xywh"))
        size = [{"width": w, "height": h} if self.sized else {} for w, h, _ in images]
        truth = {
            "images": [{"id": place, **one} for place, one in enumerate(size)],
            "categories": [{"id": one, "name": f"c{one}"} for one in range(3)],
            "annotations": [
                {"image_id": place, "category_id": one, "bbox": true(t, w, h), "area": 900}
                for place, (w, h, rows) in enumerate(images)
                for one, t, _, _ in rows
            ],
        }
        found = [
            {"image_id": place, "category_id": one, "bbox": numbers(d, w, h), "score": score}
            for place, (w, h, rows) in enumerate(images)
            for one, _, d, score in rows
        ]
        paths = [self.folder / name for name in ("truth.json", "found.json")]
        for path, content in zip(paths, (truth, found), strict=True):
            path.write_text(json.dumps(content))
        return ["coco", *map(str, paths)]


class Voc(Coco):
    """VOC's XML and text."""

    box_format = "xyxy"
    remedy = "write lines of class, score, x1 y1 x2 y2, in pixels"

    def run(self, images, numbers, line="{one} {score} {box}"):
        for name in ("truth", "found"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).mkdir()
        for place, (w, h, rows) in enumerate(images):
            self.truth(place, w, h, rows)
            text = "".join(
                line.format(one=self.names(one), score=score, box=" ".join(map(repr, numbers(d, w, h)))) + "\n"
                for one, _, d, score in rows
            )
            (self.folder / "found" / f"im{place}.txt").write_text(text)
        return ["voc", str(self.folder / "truth"), str(self.folder / "found")]

    def names(self, one):
        return f"c{one}"

    def truth(self, place, w, h, rows):
        size = f"<size><width>{w}</width><height>{h}</height></size>" if self.sized else ""
        tags = ("xmin", "ymin", "xmax", "ymax")
        objects = "".join(
            f"<object><name>c{one}</name><bndbox>"
            + "".join(f"<{tag}>{v!r}</{tag}>" for tag, v in zip(tags, t, strict=True))
            + "</bndbox></object>"
            for one, t, _, _ in rows
        )
        (self.folder / "truth" / f"im{place}.xml").write_text(f"<annotation>{size}{objects}</annotation>")


class VocText(Voc):
    def truth(self, place, w, h, rows):  # noqa: ARG002
        text = "".join(f"c{one} {' '.join(map(repr, t))}\n" for one, t, _, _ in rows)
        (self.folder / "truth" / f"im{place}.txt").write_text(text)


class Yolo(Voc):
    """YOLO's; ``numbers`` gives fractions."""

    box_format = "cxcywh"
    remedy = "write lines of class cx cy w h confidence, in fractions"

    def run(self, images, numbers, line="{one} {box} {score}"):
        def fractions(c, w, h):
            return numbers([c[0] / w, c[1] / h, c[2] / w, c[3] / h], w, h)

        sizes = "".join(f"im{place}.png {w} {h}\n" for place, (w, h, _) in enumerate(images))
        (self.folder / "sizes.txt").write_text(sizes)
        return [*super().run(images, fractions, line), "--format", "yolo", "--images", str(self.folder / "sizes.txt")]

    def names(self, one):
        return str(one)

    def truth(self, place, w, h, rows):
        text = "".join(
            f"{one} {' '.join(map(repr, written((t[0] / w, t[1] / h, t[2] / w, t[3] / h), 'cxcywh')))}\n"
            for one, t, _, _ in rows
        )
        (self.folder / "truth" / f"im{place}.txt").write_text(text)


FILES = {"coco": Coco, "voc": Voc, "voc text": VocText, "yolo": Yolo}
SIZED = ("coco", "voc")


def said(capsys, command):
    assert main.main(command) == 0
    return capsys.readouterr().err


def one_line(text, *parts):
    assert text.count("\n") == 1, text
    for part in parts:
        assert part in text or re.search(part, text)


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("kind", FILES)
def test_right_files_are_read_without_a_word(kind, seed, tmp_path, capsys):
    files = FILES[kind](tmp_path)
    right = READINGS[files.box_format][0]
    for wrong in (0.2, 0.7, 0.95):
        assert said(capsys, files.run(scene(seed, wrong=wrong), right)) == ""


@each("kind", list(FILES))
@each("reading", list(READINGS))
def test_other_columns_are_named(kind, reading, tmp_path, capsys):
    files = FILES[kind](tmp_path)
    if reading == files.box_format:
        return
    make, name = READINGS[reading]
    text = said(capsys, files.run(scene(1), make))
    one_line(text, f"read as {name} instead of {PLAIN[files.box_format]}, ")
    remedy = f"give --box-format {reading}\n" if kind == "voc" and reading in PLAIN else files.remedy
    assert f" would: {remedy}" in text


@pytest.mark.parametrize("reading", ["yxyx", "xywh"])
def test_encodings_that_are_tried_together_fit_as_each_alone(reading, tmp_path, capsys, monkeypatch):
    tried, compared = encodings._tried, []

    def alike(*args):
        fits = []
        for pairs in (0, 2000, 10**9):  # one encoding at a time, some, and all
            with monkeypatch.context() as patch:
                patch.setattr(encodings, "_TRIED", pairs)
                every = [*tried(*args)]
            fits.append([(each.hits, each.encoding, each.moved.tolist(), each.fixed.tolist()) for each in every])
        assert fits[0] == fits[1] == fits[2]
        compared.append(len(fits[0]))
        return tried(*args)

    monkeypatch.setattr(encodings, "_tried", alike)
    for seed in range(4):
        said(capsys, Voc(tmp_path).run(scene(seed), READINGS[reading][0]))
    assert max(compared) > 20


@each("kind", list(SIZED))
@each("scale", list(SCALES))
def test_other_units_are_named(kind, scale, tmp_path, capsys):
    files = FILES[kind](tmp_path)
    make, message = SCALES[scale]
    numbers = READINGS[files.box_format][0]
    one_line(said(capsys, files.run(scene(2), lambda *c: numbers(make(*c)))), message, files.remedy)


@pytest.mark.parametrize("kind", ["coco", "voc", "voc text"])
@pytest.mark.parametrize("scale", ["doubled", "halved", "uneven", "fractions"])
def test_other_units_of_images_of_unknown_sizes(kind, scale, tmp_path, capsys):
    files = FILES[kind](tmp_path, sized=False)
    make, message = SCALES[scale]
    numbers = READINGS[files.box_format][0]
    if scale == "fractions":
        message = "are fractions, as of the image's size, and those of the ground truths pixels"
    one_line(said(capsys, files.run(scene(2), lambda *c: numbers(make(*c)))), message)


@pytest.mark.parametrize("kind", SIZED)
def test_several_faults_at_once(kind, tmp_path, capsys):
    """The output of a model that answers in thousandths, y first."""
    make = SCALES["thousandths"][0]
    text = said(capsys, FILES[kind](tmp_path).run(scene(3), lambda *c: READINGS["yxyx"][0](make(*c))))
    one_line(text, "read as y1 x1 y2 x2 instead of ", " and taken as thousandths of the image's width and height, ")


@pytest.mark.parametrize("scale", ["doubled", "halved", "fractions"])
def test_ground_truths_of_other_units(scale, tmp_path, capsys):
    """Twice too large truths are twice too small detections; which it is, boxes outside their images may tell."""
    make = SCALES[scale][0]
    numbers = READINGS["xywh"][0]
    text = said(capsys, Coco(tmp_path).run(scene(4), numbers, lambda *c: numbers(make(*c))))
    *before, text = text.splitlines(keepends=True)
    assert ["boxes of the annotations leave their images" in line for line in before] == [True] * (scale == "doubled")
    one_line(text, "% of the best detections overlap", " would: write ")


@pytest.mark.parametrize("reading", ["xyxy", "cxcywh"])
def test_ground_truths_in_other_columns(reading, tmp_path, capsys):
    make, name = READINGS[reading]
    text = said(capsys, Coco(tmp_path).run(scene(4), READINGS["xywh"][0], make))
    *before, text = text.splitlines(keepends=True)
    assert all("boxes of the annotations leave their images" in line for line in before)
    one_line(text, f"the ground truths read as {name} instead of x y width height, ")


def test_the_confidence_in_the_second_column(tmp_path, capsys):
    text = said(capsys, Yolo(tmp_path).run(scene(5), READINGS["cxcywh"][0], "{one} {score} {box}"))
    one_line(text, "read as score, centre x, centre y, width, height instead of centre x, ", Yolo.remedy)


@pytest.mark.parametrize("objects", [1, 2])
def test_few_boxes_say_something_of_formats(objects, tmp_path, capsys):
    images = scene(6, images=5, objects=objects, wrong=0)
    one_line(said(capsys, Coco(tmp_path).run(images, READINGS["xyxy"][0])), "read as x1 y1 x2 y2 instead of ")


# -- no false alarms


@pytest.mark.parametrize("kind", FILES)
def test_nothing_is_made_up_of_bad_detections(kind, tmp_path, capsys):
    """Boxes at random, one place for all, the right places in the wrong images, few or many."""
    files = FILES[kind](tmp_path)
    right = READINGS[files.box_format][0]
    for seed in range(3):
        draw = random.Random(seed)
        images = scene(seed, images=draw.choice([1, 2, 5, 20]), objects=draw.choice([1, 2, 6]), wrong=1)
        for worse in (lambda rows, *_: rows, shuffled, constant, shrunk):
            bad = [(w, h, worse(rows, w, h, images, draw)) for w, h, rows in images]
            text = said(capsys, files.run(bad, right))
            assert not re.search(r" would: |fractions|format", text), (seed, worse, text)


def shuffled(rows, w, h, images, draw):
    """Detections of another image, cut to this one."""
    other = draw.choice(images)[2]
    return [
        (a, t, [min(v, s) for v, s in zip(d, (w, h) * 2, strict=True)], s)
        for (a, t, _, s), (_, _, d, _) in zip(rows, other, strict=True)
    ]


def constant(rows, w, h, images, draw):  # noqa: ARG001
    return [(a, t, (0.3 * w, 0.3 * h, 0.6 * w, 0.6 * h), s) for a, t, _, s in rows]


def shrunk(rows, w, h, images, draw):  # noqa: ARG001
    """At the right place, and too small."""
    return [
        (a, t, (*((t[0] + t[2]) / 2 - 9, (t[1] + t[3]) / 2 - 9), *((t[0] + t[2]) / 2 + 9, (t[1] + t[3]) / 2 + 9)), s)
        for a, t, _, s in rows
    ]


def worsened(found, way, draw, sizes):
    out = []
    for one in found:
        x, y, w, h = one["bbox"]
        box = {
            "as they are": one["bbox"],
            "moved": [x + draw.gauss(0, 0.5) * w, y + draw.gauss(0, 0.5) * h, w, h],
            "loose": [x - 0.3 * w, y - 0.3 * h, 1.6 * w, 1.6 * h],
            "anywhere": [draw.uniform(0, 300), draw.uniform(0, 300), w, h],
            "whole image": [0, 0, *sizes[one["image_id"]]],
        }[way]
        out.append({**one, "bbox": box, "score": draw.random()})
    return out


WAYS = ["as they are", "moved", "loose", "anywhere", "whole image"]


@pytest.fixture
def real(public_data):
    folder = public_data / "coco_val2014_100"
    truth = json.loads((folder / "instances_val2014_100.json").read_text())
    found = json.loads((folder / "instances_val2014_fakebbox100_results.json").read_text())
    return folder / "instances_val2014_100.json", found, {x["id"]: (x["width"], x["height"]) for x in truth["images"]}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_made_up_of_real_truths(way, real, tmp_path, capsys):
    path, found, sizes = real
    draw = random.Random(way)
    some = [found] + [draw.sample(found, draw.choice([3, 10, 50])) for _ in range(2)]
    for part in some:
        (tmp_path / "found.json").write_text(json.dumps(worsened(part, way, draw, sizes)))
        text = said(capsys, ["coco", str(path), str(tmp_path / "found.json")])
        assert not re.search(r" would: |fractions|format", text), text


@each("scale", [*SCALES, "xyxy", "cxcywh", "yxhw", "xyhw"])
def test_real_boxes_that_were_written_in_another_way(scale, real, tmp_path, capsys):
    path, found, sizes = real
    found = [{**one} for one in found]
    for one in found:
        x, y, w, h = one["bbox"]
        corners = [x, y, x + w, y + h]
        if scale in SCALES:
            one["bbox"] = written(SCALES[scale][0](corners, *sizes[one["image_id"]]), "xywh")
        else:
            one["bbox"] = READINGS[scale][0](corners)
    (tmp_path / "found.json").write_text(json.dumps(found))
    message = SCALES[scale][1] if scale in SCALES else f"read as {READINGS[scale][1]} instead of x y width height, "
    one_line(said(capsys, ["coco", str(path), str(tmp_path / "found.json")]), message)


@pytest.mark.parametrize("copied", [None, 0, 1], ids=["none", "detections", "ground truths"])
def test_copies_of_one_box_overlap_once(copied, generator):
    images, objects = 6, 10
    start = torch.rand(images, objects, 2, generator=generator) * torch.tensor([10, 200]) + 20
    start[..., 0] += 90 * torch.arange(objects)
    end = start + 30 + 20 * torch.rand(images, objects, 2, generator=generator)
    sides = [torch.cat([start, end], 2).double() for _ in range(2)]
    if copied is not None:
        sides[copied] = sides[copied][:, :1].expand(-1, objects, -1)
    found, true = (side.reshape(-1, 4) for side in sides)
    found = torch.cat([found[:, :2], found[:, 2:] - found[:, :2]], 1)  # x y width height, read as corners
    counts, unknown = torch.full((images,), objects), torch.full((images * objects, 2), torch.nan).double()
    scores = torch.rand(len(found), generator=generator).double()
    fit = encodings.better(
        encodings.Side.of(found, counts, unknown, encodings.CORNERS, scores),
        encodings.Side.of(true, counts, unknown, encodings.CORNERS),
        torch.zeros(len(found), dtype=torch.bool),
    )
    assert (fit is None) == (copied is not None)


@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
def test_crowds_alone_are_said_to_be_no_ground_truths(iou_type, tmp_path, capsys):
    code = {"size": [20, 24], "counts": [0, 480]}
    entry = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9], "segmentation": code}
    truth = {"images": [{"id": 1, "width": 24, "height": 20}], "categories": [{"id": 1, "name": "x"}]}
    (tmp_path / "truth.json").write_text(json.dumps(truth | {"annotations": [entry | {"iscrowd": 1}]}))
    (tmp_path / "found.json").write_text(json.dumps([entry | {"score": 0.5}]))
    command = ["coco", str(tmp_path / "truth.json"), str(tmp_path / "found.json"), "--iou-type", iou_type]
    one_line(said(capsys, command), "every ground truth is a crowd (`iscrowd` 1)")


def test_difficult_objects_alone_are_said_to_be_no_ground_truths(tmp_path, capsys):
    for name, line in (("truth", "x 1 1 9 9 difficult"), ("found", "x 0.5 1 1 9 9")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.txt").write_text(line)
    one_line(said(capsys, ["voc", str(tmp_path / "truth"), str(tmp_path / "found")]), "every ground truth is difficult")
