"""Every reader and every fault: a file is read correctly, or refused in one line that names file and place.

A row of ``READERS`` is a reader: its good files, the file to spoil, and the command that reads them. A fault changes
the bytes of that file. It is either harmless, and the output does not change, or the command ends with status 2.
"""

import random

import pytest

from tests.support.each import each
from torch_ap.cli import main
from torch_ap.files import read_coco, read_qrels, read_run, read_voc, read_yolo

VOC = ["voc", "truth", "found"]
YOLO = [*VOC, "--format", "yolo", "--images", "sizes.txt"]
XML = (
    "<annotation>\n<object><name>ch\u00e4t</name>\n<bndbox><xmin>{}</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax>"
    "</bndbox>\n</object></annotation>\n"
)
TEXTS = {
    "truth/one.txt": "ch\u00e4t 1 2 30 40\ndog 5 5 9 9\n",
    "found/one.txt": "ch\u00e4t 0.5 1 2 30 44\ndog 0.7 5 5 9 8\n",
}
BOXES = {
    "truth/\u00e4.txt": "0 0.5 0.5 0.25 0.25\n1 0.1 0.1 0.1 0.1\n",
    "found/\u00e4.txt": "0 0.5 0.5 0.25 0.2 0.75\n1 0.1 0.1 0.1 0.09 0.5\n",
    "sizes.txt": "\u00e4.jpg 640 480\n\u00f6.jpg 320 200\n",
}
TREC = {"qrels": "q 0 d\u00e9 1\nq 0 e 0\n", "run": "q Q0 d\u00e9 1 2.5 t\nq Q0 e 2 3.5 t\n"}
COCO = {
    "truth.json": '{"images": [{"id": 1}],\n"categories": [{"id": 3, "name": "ch\u00e4t"}],\n'
    '"annotations": [{"image_id": 1, "category_id": 3, "bbox": [1, 2, 30, 40]}]}',
    "found.json": '[{"image_id": 1, "category_id": 3, "note": "ch\u00e4t",\n"bbox": [1, 2, 30, 42], "score": 0.5}]',
}
# reader: good files, the file to spoil, the command
READERS = {
    "qrels": (TREC, "qrels", ["trec", "qrels", "run", "-m", "map"]),
    "run": (TREC, "run", ["trec", "qrels", "run", "-m", "map"]),
    "voc truths": (TEXTS, "truth/one.txt", VOC),
    "voc detections": (TEXTS, "found/one.txt", VOC),
    "voc devkit": (
        {
            "truth/\u00e4.txt": "cat 1 2 30 40",
            "found/comp4_det_test_cat.txt": "\u00e4 0.5 1 2 30 44\n\u00e4 0.4 1 2 30 40\n",
        },
        "found/comp4_det_test_cat.txt",
        VOC,
    ),
    "voc xml": ({**TEXTS, "truth/one.txt": None, "truth/one.xml": XML.format(1)}, "truth/one.xml", VOC),
    "yolo truths": (BOXES, "truth/\u00e4.txt", YOLO),
    "yolo detections": (BOXES, "found/\u00e4.txt", YOLO),
    "sizes": (BOXES, "sizes.txt", YOLO),
    "names": ({**BOXES, "names.txt": "ch\u00e4t\ndog\n"}, "names.txt", [*YOLO, "--names", "names.txt"]),
    "yaml": ({**BOXES, "names.yaml": "names:\n- ch\u00e4t\n- dog\n"}, "names.yaml", [*YOLO, "--names", "names.yaml"]),
    "coco truths": (COCO, "truth.json", ["coco", "truth.json", "found.json"]),
    "coco results": (COCO, "found.json", ["coco", "truth.json", "found.json"]),
}


def write(folder, reader):
    """Write the good files of a reader; return the path of the one to spoil, and the command."""
    files, spoiled, command = READERS[reader]
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if content is not None:
            path.write_text(content, encoding="utf-8", newline="")
    return folder / spoiled, command


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(command, path, capsys, line=True):
    """Return the error line of a failing command, which names the file and, with ``line``, a line of it."""
    status = main.main(command)
    said = capsys.readouterr()
    assert status == 2
    assert said.out == ""
    assert said.err.startswith("torch-ap: ")
    assert said.err.count("\n") == 1
    name = str(path.relative_to(path.parents[1] if path.parent.name in ("truth", "found") else path.parent))
    assert name in said.err
    assert not line or f"{name}, line " in said.err, said.err
    return said.err


def to(encoding):
    return lambda data: data.decode().encode(encoding)


HARMLESS = {"mark": lambda data: b"\xef\xbb\xbf" + data, "crlf": lambda data: data.replace(b"\n", b"\r\n")}
ENCODINGS = {
    "utf-16 with mark": to("utf-16"),
    "utf-16-be with mark": lambda data: b"\xfe\xff" + to("utf-16-be")(data),
    "utf-16-le": to("utf-16-le"),
    "utf-16-be": to("utf-16-be"),
    "utf-32 with mark": to("utf-32"),
    "utf-32-be with mark": lambda data: b"\0\0\xfe\xff" + to("utf-32-be")(data),
    "utf-32-le": to("utf-32-le"),
    "latin-1": to("latin-1"),
    "nul": lambda data: data[:5] + b"\0" + data[5:],
    "nul at the end": lambda data: data + b"\0",
    "control": lambda data: data.replace(b" ", b" \x1b", 1) if b" " in data else b"\x1b" + data,
    "two marks": lambda data: b"\xef\xbb\xbf\xef\xbb\xbf" + data,
    "mark inside": lambda data: data.replace(b"\n", b"\n\xef\xbb\xbf", 1),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_mark_and_line_ends_of_windows_change_nothing(reader, here, capsys):
    path, command = write(here, reader)
    assert main.main(command) == 0
    wanted = capsys.readouterr()
    assert wanted.err.count("no ground truth is of class 'dog'") == wanted.err.count("\n") == (reader == "voc xml")
    data = path.read_bytes()
    for spoil in HARMLESS.values():
        path.write_bytes(spoil(data))
        assert main.main(command) == 0
        assert capsys.readouterr() == wanted


@pytest.mark.parametrize("reader", READERS)
@each("fault", ENCODINGS.keys())
def test_other_encodings_are_named(reader, fault, here, capsys):
    path, command = write(here, reader)
    data = path.read_bytes()
    path.write_bytes(ENCODINGS[fault](data))
    if data.isascii() and fault == "latin-1":
        assert path.read_bytes() == data
        return
    refused(command, path, capsys)


@pytest.mark.parametrize("declared", ["utf-8", "UTF-8", "iso-8859-1", "utf-16", "nothing-known"])
def test_characters_must_agree_with_the_declaration_of_the_xml(declared, here, capsys):
    path, command = write(here, "voc xml")
    (here / "found" / "one.txt").write_text("chat 0.5 1 2 30 44")
    head = f"<?xml version='1.0' encoding='{declared}'?>"
    path.write_text(head + XML.format(1).replace("\u00e4", "a"), encoding="ascii")
    assert main.main(command) == 0
    assert capsys.readouterr().out.splitlines()[2].split() == ["chat", "1.0000"]
    path.write_text(head + XML.format(1), encoding="utf-8")
    if declared.lower() == "utf-8":
        assert read_voc("truth", "found").class_names == ["chat", "ch\u00e4t"]
    else:
        assert f"is declared as {declared!r}" in refused(command, path, capsys)


@pytest.mark.parametrize(
    "content",
    [
        "<annotation>&" + "x" * 3000 + ";</annotation>",
        "<annotation><object><name>" + "<a>" * 5000,
        "<!DOCTYPE a [<!ENTITY b 'x'>" + "".join(f"<!ENTITY b{i} '{f'&b{i - 1};' * 9}'>" for i in range(1, 30)) + "]>"
        "<annotation>&b29;</annotation>",
    ],
    ids=["entity", "depth", "amplification"],
)
def test_hostile_xml(content, here, capsys):
    path, command = write(here, "voc xml")
    path.write_text(content)
    assert len(refused(command, path, capsys)) < 300


# a number in a file, its replacement, the message
NUMBERS = ["abc", "nan", "1_0", "\u0661\u0662", "0x10", "1,5", "--1", "9" * 5000 + "x", "1e999"]
PLACES = {
    "qrels": " 1\n",
    "run": " 2.5 ",
    "voc truths": " 40\n",
    "voc detections": " 0.7 ",
    "voc devkit": " 0.4 ",
    "voc xml": ">2<",
    "yolo truths": " 0.25\n",
    "yolo detections": " 0.75\n",
    "sizes": " 480\n",
}
FURTHER = [
    *(("voc truths", " 40\n", x) for x in ("inf", "1e300", "-1")),
    *(("voc detections", " 44\n", x) for x in ("inf", "-inf", "1e300", "nan")),
    *(("voc xml", ">2<", x) for x in ("inf", "-1e300", "41", "")),
    *(("yolo truths", " 0.25\n", x) for x in ("inf", "-0.25", "25", "2")),
    *(("yolo truths", "0 0.5", x) for x in ("-1 0.5", "cat 0.5", "0.0 0.5", "0 240", "0 0.5 0.5", "9999999999 0.5")),
    *(("yolo detections", " 0.75\n", x) for x in ("75", "-0.1", "0.75 7", "")),
    *(("yolo detections", " 0.2 ", x) for x in ("-0.2", "200", "inf")),
    *(("sizes", " 480\n", x) for x in ("0", "-480", "480.5", "")),
    *(("qrels", " 1\n", x) for x in ("1.5", "", "1 2", "99999999999999999999")),
    ("run", " 2.5 t", ""),
    ("voc truths", " 40\n", ""),
    ("voc detections", "dog 0.7", ""),
]


def spoiled_number(path, old, new):
    data = path.read_text(encoding="utf-8")
    assert old in data
    new = new if new == "" else old.replace(old.strip(" \n<>"), new)
    path.write_text(data.replace(old, new or old[-1], 1), encoding="utf-8", newline="")


@pytest.mark.parametrize("reader", PLACES)
@each("number", NUMBERS)
def test_invalid_numbers_are_refused(reader, number, here, capsys):
    path, command = write(here, reader)
    spoiled_number(path, PLACES[reader], number)
    said = refused(command, path, capsys, line=reader != "voc xml")
    assert len(said) < 300
    assert "9" * 81 not in said


@pytest.mark.parametrize(("reader", "old", "new"), FURTHER)
def test_implausible_content_is_refused(reader, old, new, here, capsys):
    path, command = write(here, reader)
    spoiled_number(path, old, new)
    refused(command, path, capsys, line=reader != "voc xml")


@pytest.mark.parametrize("reader", ["qrels", "run"])
def test_lines_that_end_as_on_old_macs_are_refused(reader, here, capsys):
    """Old Macs end lines with a carriage return: a run's reader would take the first columns of a single line."""
    path, command = write(here, reader)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r"))
    assert "carriage return" in refused(command, path, capsys)


READ = {
    "qrels": lambda: read_qrels("qrels"),
    "run": lambda: read_run("run"),
    "coco truths": lambda: read_coco("truth.json", "found.json"),
    "coco results": lambda: read_coco("truth.json", "found.json"),
} | {
    reader: (lambda: read_voc("truth", "found"))
    if reader.startswith("voc")
    else (lambda name=command[-1]: read_yolo("truth", "found", "sizes.txt", name if "names" in name else None))
    for reader, (_, _, command) in READERS.items()
    if command[0] == "voc"
}


def outcome(read):
    try:
        read()
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize("reader", READERS)
def test_beginnings_of_files_and_wrong_bytes_are_read_or_named(reader, here):
    """Truncated files and wrong bytes raise at most a ValueError that names one of the files."""
    path, _ = write(here, reader)
    data = path.read_bytes()
    draw = random.Random(reader)
    spoiled = [data[:length] for length in range(len(data))]
    for _ in range(150):
        wrong = bytearray(data)
        for _ in range(draw.randint(1, 3)):
            wrong[draw.randrange(len(data))] = draw.choice([*range(256), *b"\"'{}[]<>&:, \n\r\t-0"])
        spoiled.append(bytes(wrong))
    files = [name for name, content in READERS[reader][0].items() if content is not None]
    for content in spoiled:
        path.write_bytes(content)
        said = outcome(READ[reader])
        assert said is None or any(said.startswith((name, name.split("/")[0])) for name in files), said


@pytest.mark.parametrize(("reader", "old"), [("run", " 2.5 "), ("voc detections", " 0.5 "), ("voc xml", ">1<")])
def test_errors_show_the_beginning_of_long_values(reader, old, here, capsys):
    path, command = write(here, reader)
    spoiled_number(path, old, "x" * 3000)
    said = refused(command, path, capsys, line=False)
    assert "x" * 60 in said
    assert "x" * 81 not in said


@pytest.mark.parametrize(
    "arguments", [["trec", "q", "r", "-m"], ["trec", "q", "r", "-l"], ["voc", "a", "b", "--format"]]
)
def test_complaints_about_arguments_show_their_beginning(arguments, here, capsys):
    write(here, "run")
    try:
        status = main.main([*arguments, "x" * 3000])
    except SystemExit as error:
        status = error.code
    assert status == 2
    said = capsys.readouterr().err
    assert "x" * 60 in said
    assert "x" * 81 not in said


@pytest.mark.parametrize("tag", ["name", "bndbox", "difficult", "xmin"])
def test_repeated_tags_of_xml_are_refused(tag, here, capsys):
    path, command = write(here, "voc xml")
    text = path.read_text(encoding="utf-8").replace("</name>", "</name><difficult>0</difficult>")
    end = text.index(f"</{tag}>") + len(tag) + 3
    path.write_text(text[:end] + text[text.index(f"<{tag}>") : end] + text[end:], encoding="utf-8")
    assert f"one.xml: object 1: <{tag}> must occur once, but occurs twice" in refused(command, path, capsys, False)
