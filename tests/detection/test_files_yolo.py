"""YOLO's folders: a scene has the number of VOC's files; sizes from headers, names, invalid input."""

import json
import random
import struct

import pytest

from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap.cli import main
from torch_ap.detection.files.yolo import class_names, image_size, image_sizes
from torch_ap.files import read_voc, read_yolo

NAMES = ["cat", "traffic light", "dog"]


def png(width, height):
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", width, height, 8, 2, 0, 0, 0) + bytes(4)


def segment(marker, data):
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def exif(orientation, order="<"):
    head = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 8)
    entries = [(0x0100, 4, 1, 1), (0x0112, 3, 1, orientation)]
    body = struct.pack(f"{order}H", len(entries))
    for tag, kind, count, value in entries:
        body += struct.pack(f"{order}HHI", tag, kind, count)
        body += struct.pack(f"{order}HH", value, 0) if kind == 3 else struct.pack(f"{order}I", value)
    return b"Exif\0\0" + head + body


def jpeg(width, height, *before, frame=0xC0):
    frame_header = segment(frame, struct.pack(">BHHB", 8, height, width, 3) + bytes(9))
    return b"\xff\xd8" + b"".join(before) + b"\xff\xff" + frame_header[1:] + segment(0xDA, bytes(10)) + b"\0\xff\xd9"


@pytest.fixture
def scene(tmp_path):
    """Write one scene as XML, VOC text and YOLO: eight images, three classes, an image without objects."""
    draw = random.Random(3)
    for folder in ("xml", "labels/val", "images/val", "voc", "yolo"):
        (tmp_path / folder).mkdir(parents=True)
    for number in range(8):
        name, width, height = f"im.{number}", draw.randint(50, 300), draw.randint(50, 300)
        data = png(width, height) if number % 2 else jpeg(width, height)
        (tmp_path / "images" / "val" / f"{name}.{'png' if number % 2 else 'JPG'}").write_bytes(data)
        objects, truths, found, detected = [], [], [], []
        for _ in range(0 if number == 5 else draw.randint(1, 4)):
            one, w, h = draw.randrange(3), draw.randint(8, 40), draw.randint(8, 40)
            x, y = draw.uniform(0, width - w), draw.uniform(0, height - h)
            objects.append(
                f"<object><name>{NAMES[one]}</name><bndbox><xmin>{x!r}</xmin><ymin>{y!r}</ymin>"
                f"<xmax>{x + w!r}</xmax><ymax>{y + h!r}</ymax></bndbox></object>"
            )
            truths.append(f"{one} {(x + w / 2) / width!r} {(y + h / 2) / height!r} {w / width!r} {h / height!r}")
            for _ in range(draw.randint(0, 3)):
                x, y, score = x + draw.uniform(-6, 6), y + draw.uniform(-6, 6), draw.random()
                one = one if draw.random() < 0.8 else draw.randrange(3)
                found.append(f"{NAMES[one]} {score!r} {x!r} {y!r} {x + w!r} {y + h!r}")
                fractions = ((x + w / 2) / width, (y + h / 2) / height, w / width, h / height, score)
                detected.append(" ".join(map(repr, (one, *fractions))))
        size = f"<size><width>{width}</width><height>{height}</height></size>"
        (tmp_path / "xml" / f"{name}.xml").write_text(f"<annotation>{size}{''.join(objects)}</annotation>")
        if truths:
            (tmp_path / "labels" / "val" / f"{name}.txt").write_text("\n".join(truths))
        (tmp_path / "voc" / f"{name}.txt").write_text("\n".join(found))
        if detected:
            (tmp_path / "yolo" / f"{name}.txt").write_text("\n".join(detected) + "\n")
    (tmp_path / "names.yaml").write_text("path: x\nnames:\n  0: cat\n  1: traffic light\n  2: dog\n")
    return tmp_path


def value(capsys, *arguments):
    """Return the output of the command and its standard error."""
    assert main.main(["voc", *map(str, arguments), "--json"]) == 0
    said = capsys.readouterr()
    return json.loads(said.out), said.err


@pytest.mark.parametrize("further", [(), ("--interpolation", "11-point", "--strict")])
def test_the_same_scene_has_the_same_number(scene, further, capsys):
    """YOLO's boxes end at their coordinates, not a pixel later."""
    wanted, said = value(capsys, scene / "xml", scene / "voc", "--exclusive-pixels", *further)
    assert said == ""
    assert 0.2 < wanted["map"] < 0.9
    yolo = (scene / "labels" / "val", scene / "yolo", "--format", "yolo", "--names", scene / "names.yaml")
    found, said = value(capsys, *yolo, *further)
    assert said == ""
    assert found["map"] == pytest.approx(wanted["map"], abs=REORDERED)
    assert found["per_class"] == pytest.approx(wanted["per_class"], abs=REORDERED)


def test_a_size_has_no_pixel_more_than_its_box(tmp_path, capsys):
    """The IoU of these boxes is 65 / 135; with VOC's pixel it is 82.5 / 159.5, which is above .5."""
    for folder, line in (("truth", "0 0.15 0.15 0.1 0.1"), ("found", "0 0.185 0.15 0.1 0.1 0.9")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(line)
    (tmp_path / "sizes.txt").write_text("a 100 100")
    given = (tmp_path / "truth", tmp_path / "found", "--format", "yolo", "--images", tmp_path / "sizes.txt")
    found, said = value(capsys, *given)
    assert found["map"] == 0
    assert "no detection matches" in said
    assert value(capsys, *given, "--iou-thresholds", "0.48")[0]["map"] == 1


def test_sizes_of_a_file_equal_the_headers(scene, capsys):
    folders = (scene / "labels" / "val", scene / "yolo", "--format", "yolo", "--images")
    of_images, _ = value(capsys, *folders, scene / "images" / "val")
    sizes = image_sizes(scene / "images" / "val")
    assert len(sizes) == 8
    (scene / "sizes.txt").write_text("".join(f"{name}.jpg {w} {h}\n" for name, (w, h) in sizes.items()))
    assert value(capsys, *folders, scene / "sizes.txt") == (of_images, "")
    assert set(of_images["per_class"]) == {"0", "1", "2"}


def test_a_detection_on_an_image_without_labels_counts(scene):
    (scene / "yolo" / "im.5.txt").write_text("1 0.5 0.5 0.1 0.1 0.99")
    data = read_yolo(scene / "labels" / "val", scene / "yolo")
    assert data.images[5] == "im.5"
    assert data.preds["counts"][5] == 1
    assert data.target["counts"][5] == 0
    assert data.sizes.tolist()[5] == list(image_sizes(scene / "images" / "val")["im.5"])


@each("frame", [0xC0, 0xC1, 0xC2, 0xCF])
@each("order", ["<", ">"])
@each("orientation", [1, 3, 5, 6, 8])
def test_sizes_of_jpeg_headers(frame, order, orientation, tmp_path):
    segments = [segment(0xE0, b"JFIF\0" + bytes(9)), segment(0xE1, exif(orientation, order)), segment(0xDB, bytes(65))]
    (tmp_path / "x.jpg").write_bytes(jpeg(640, 480, *segments, segment(0xFE, b"\xff\xc0 comment"), frame=frame))
    assert image_size(tmp_path / "x.jpg") == ((480, 640) if orientation >= 5 else (640, 480))


def test_sizes_agree_with_pillow(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for place, kind in enumerate(("png", "jpeg", "jpeg", "jpeg")):
        one = image.new("RGB", (31 + place, 17))
        stored = image.Exif()
        if place == 2:
            stored[0x0112] = 6
        one.save(tmp_path / "x", kind, exif=stored, **({"progressive": True} if place == 3 else {}))
        assert image_size(tmp_path / "x") == ((17, 33) if place == 2 else (31 + place, 17))


def size_or_complaint(path):
    try:
        return image_size(path)
    except ValueError as error:
        return str(error)


def test_no_cut_header_is_read(tmp_path):
    """Every truncated image either has its size or raises ValueError."""
    whole = {"png": png(640, 480), "jpeg": jpeg(640, 480, segment(0xE1, exif(6)), segment(0xDB, bytes(65)))}
    for kind, data in whole.items():
        known = 0
        for length in range(len(data) + 1):
            (tmp_path / "x").write_bytes(data[:length])
            size = size_or_complaint(tmp_path / "x")
            known += size == ((640, 480) if kind == "png" else (480, 640))
            assert isinstance(size, tuple) or size.startswith(f"{tmp_path / 'x'}: must be a PNG or JPEG image")
        assert 0 < known < 35


def test_random_bytes_are_no_image(tmp_path):
    draw = random.Random(0)
    for _ in range(300):
        data = bytearray(jpeg(640, 480, segment(0xE1, exif(6))))
        for _ in range(3):
            data[draw.randrange(len(data))] = draw.randrange(256)
        (tmp_path / "x").write_bytes(data)
        size = size_or_complaint(tmp_path / "x")
        assert min(size) > 0 if isinstance(size, tuple) else "must be a PNG or JPEG" in size


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.yaml", "names: [cat, 'traffic light', dog]"),
        ("b.yml", "# data\nnames:\n- cat\n- traffic light\n- dog\nnc: 3"),
        ("c.yaml", "names: {2: dog, 0: cat, 1: traffic  light}"),
        ("d.txt", "cat\r\ntraffic light \ndog\n\n"),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_forms_of_names(name, content, mark, tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / name).write_text(mark + content, encoding="utf-8", newline="")
    assert class_names(tmp_path / name) == dict(enumerate(NAMES))


def test_names_in_the_folder_of_labels(scene):
    (scene / "labels" / "val" / "classes.txt").write_text("\n".join(NAMES))
    assert read_yolo(scene / "labels" / "val", scene / "yolo").class_names == NAMES


def test_yolo_files_are_not_scored_as_others(scene, capsys):
    """Read as class, score and four numbers they would silently give a wrong number."""
    labels, found, xml = scene / "labels" / "val", scene / "yolo", scene / "xml"
    for box_format in ("xyxy", "xywh", "cxcywh"):
        for truths in (labels, xml):
            assert main.main(["voc", str(truths), str(found), "--box-format", box_format]) == 2
            said = capsys.readouterr()
            assert said.out == ""
            assert "--format yolo" in said.err or "must have no negative size" in said.err
    with pytest.raises(ValueError, match=r"YOLO.* --format yolo"):
        read_voc(xml, found)


def test_scores_behind_the_box_are_not_read_as_coordinates(scene, capsys):
    for path in (scene / "voc").iterdir():
        words = [line.rsplit(" ", 5) for line in path.read_text().splitlines()]
        path.write_text("\n".join(" ".join([name, *numbers[1:], numbers[0]]) for name, *numbers in words))
    assert main.main(["voc", str(scene / "xml"), str(scene / "voc")]) == 2
    assert "the score must come before the box" in capsys.readouterr().err


def test_options_of_the_other_format(scene, capsys):
    for given, said in (
        (["--format", "yolo", "--box-format", "xywh"], "--box-format has no meaning with --format yolo"),
        (["--names", "x"], "--names has no meaning with --format voc"),
        (["--images", "x"], "--images has no meaning without --report"),
    ):
        assert main.main(["voc", str(scene / "xml"), str(scene / "voc"), *given]) == 2
        assert capsys.readouterr().err == f"torch-ap: {said}\n"


def test_where_the_images_are(scene, capsys):
    labels, elsewhere = scene / "labels" / "val", scene / "elsewhere"
    labels.rename(elsewhere)
    assert main.main(["voc", str(elsewhere), str(scene / "yolo"), "--format", "yolo"]) == 2
    assert capsys.readouterr().err.startswith(f"torch-ap: {elsewhere}: give the folder of its images, or a file of")


def test_no_detections(scene, capsys):
    none = scene / "none"
    none.mkdir()
    labels = scene / "labels" / "val"
    for further in ([], ["im.0.txt"]):
        for name in further:
            (none / name).write_text("\n")
        assert main.main(["voc", str(labels), str(none), "--format", "yolo"]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(f"torch-ap: {none}: ")
        assert "--allow-empty lets it pass" in said.err
        found, said = value(capsys, labels, none, "--format", "yolo", "--allow-empty")
        assert found["map"] == 0
        assert said == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("names:\n  1: a\n  2: b\n  1: c\n", "line 4: the key 1 must occur once"),
        ("names:\n  1: a\n  0x1: c\n", "line 3: the key 1 must occur once"),
        ("names: [a]\nnc: 1\nnames: [b]\n", "line 3: the key 'names' must occur once"),
        ("nc: 1\nnc: 2\nnames: [a]\n", "line 2: the key 'nc' must occur once"),
        (f"names: [a]\nnc: {'9' * 5000}\n", "line 2: a whole number of thousands of digits"),
    ],
)
def test_repeated_keys_of_yaml_are_refused(content, message, tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "names.yaml").write_text(content)
    with pytest.raises(ValueError, match=rf"^{tmp_path / 'names.yaml'}, {message}"):
        class_names(tmp_path / "names.yaml")


def test_yaml_may_refer_to_itself_and_merge(tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "names.yaml").write_text("a: &a {x: 1}\nb: {<<: *a, x: 2}\nc: &c [*c]\nnames: [cat, dog]\n")
    assert class_names(tmp_path / "names.yaml") == {0: "cat", 1: "dog"}
