"""Output of commands: names of any characters on any terminal, and output that cannot be written."""

import io
import json
import os
import sys

import pytest

from torch_ap.cli import main
from torch_ap.core.base.messages import escape_unprintable

FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")  # noqa: PTH110
STRANGE = "ch\u00e4t\u2028\x7f\x9b2J\u202e"  # allowed in text files: a line end and control characters


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Return a command line of each kind, over files that contain the name."""
    monkeypatch.chdir(tmp_path)

    def make(name):
        entry = {"image_id": 1, "category_id": 1, "bbox": [1, 1, 8, 8]}
        truth = {"images": [{"id": 1}], "categories": [{"id": 1, "name": name}], "annotations": [entry]}
        word = "".join(name.split())
        word = "x" if set(word) & {"\x1b", "\ud800"} else word  # text files cannot contain these
        files = {
            "truth.json": json.dumps(truth),
            "found.json": json.dumps([entry | {"score": 0.5}]),
            "qrels": f"{word} 0 d 1\n",
            "run": f"{word} Q0 d 1 2.5 {word}\n",
            "truth/one.txt": f"{word} 1 1 9 9\n",
            "found/one.txt": f"{word} 0.5 1 1 9 9\n",
        }
        for path, content in files.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(content, encoding="utf-8", newline="")
        trec = ["trec", "qrels", "run", "-q", "-m", "map"]
        coco, voc = ["coco", "truth.json", "found.json", "--per-class"], ["voc", "truth", "found"]
        forms = [[*trec, "--json"], [*coco, "--json"], [*voc, "--json"]]
        return [trec, [*trec, "--csv"], coco, voc], forms

    return make


def printed(command, encoding, monkeypatch):
    raw = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
        assert main.main(command) == 0
        sys.stdout.flush()
        return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_names_of_any_characters_on_any_terminal(encoding, commands, monkeypatch):
    texts, documents = commands("ch\u00e4t\u65e5")
    shown = "ch\u00e4t\u65e5".encode(encoding, "backslashreplace").decode(encoding)
    for command in texts:
        assert shown in printed(command, encoding, monkeypatch)
    for command in documents:
        assert "ch\u00e4t\u65e5" in str(json.loads(printed(command, encoding, monkeypatch)))


def test_text_files_send_no_control_characters_to_a_terminal(commands, monkeypatch):
    texts, documents = commands(STRANGE)
    word = "".join(STRANGE.split())
    for command in texts:
        text = printed(command, "utf-8", monkeypatch)
        assert text.replace("\n", "").isprintable()
        assert escape_unprintable(word) in text or escape_unprintable(STRANGE) in text
    for command in documents:
        text = printed(command, "utf-8", monkeypatch)
        assert text.replace("\n", "").isprintable()
        assert any(repr(x)[1:-1] in str(json.loads(text)) for x in (word, STRANGE))


@pytest.mark.parametrize("name", ["a\nb\x1b[31m", "\ud800"])
def test_json_sends_no_control_characters_to_a_terminal(name, commands, monkeypatch):
    (*_, table, _), (_, document, _) = commands(name)
    lines = printed(commands("x")[0][2], "utf-8", monkeypatch).count("\n")
    commands(name)
    text = printed(table, "utf-8", monkeypatch)
    assert text.replace("\n", "").isprintable()
    assert escape_unprintable(name) in text
    assert text.count("\n") == lines
    assert json.loads(printed([*document, "--per-class"], "utf-8", monkeypatch))["per_class"]["name"] == [name]


def test_a_note_is_a_line_without_escapes(commands, capsys):
    commands("x")
    assert main.main(["trec", "qrels", "no\x1b[31m\nfile"]) == 2
    assert capsys.readouterr().err == "torch-ap: no\\x1b[31m file: No such file or directory\n"


def test_spaces_and_joiners_are_as_they_are():
    assert escape_unprintable("a\u00a0b\u3000c\u200cd") == "a\u00a0b\u3000c\u200cd"
    assert escape_unprintable("a\tb\u200e\ufeff") == "a\\tb\\u200e\\ufeff"


@FULL
@pytest.mark.parametrize("buffering", [1, -1], ids=["at once", "at the end"])
def test_output_that_cannot_be_written_is_an_error_of_one_line(buffering, commands, monkeypatch, capsys):
    texts, documents = commands("x")
    for command in [*texts, *documents, ["--version"], ["--help"], ["coco", "--help"]]:
        with open("/dev/full", "w", buffering=buffering) as full, monkeypatch.context() as patch:  # noqa: PTH123
            patch.setattr(sys, "stdout", full)
            assert main.main(command) == 2
        assert capsys.readouterr().err == "torch-ap: standard output: No space left on device\n"


@pytest.mark.parametrize("write", [True, False], ids=["at once", "at the end"])
def test_help_for_a_reader_that_went_away_ends_quietly(write, monkeypatch, capsys):
    class Closed(io.StringIO):
        def fail(self, *_):
            raise BrokenPipeError

    closed = Closed()
    setattr(closed, "write" if write else "flush", closed.fail)
    for command in (["--version"], ["--help"], ["trec", "--help"]):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", closed)
            assert main.main(command) == 141
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", [["--version"], ["--help"], ["voc", "--help"]])
def test_help_without_standard_output_is_an_error(command, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert main.main(command) == 2
    assert capsys.readouterr().err == "torch-ap: standard output is closed\n"


# -- duplicate keys and infinite numbers

ENTRY = '{"image_id": 1, "category_id": 1, "bbox": [1, 1, 8, 8]'
DIGITS = "9" * 5000
JSON = {  # annotations, results, message
    "annotation": (f'{ENTRY}, "image_id": 2}}', None, "annotations[1]: the key 'image_id' must occur once"),
    "result": (None, f'{ENTRY}, "score": 1, "score": 0.5}}', "found.json[1]: the key 'score' must occur once"),
    "inner": (
        f'{ENTRY}, "segmentation": {{"size": [1, 1], "size": [2, 2], "counts": [1]}}}}',
        None,
        "truth.json: annotations[1].segmentation: the key 'size' must occur once",
    ),
    "whole": (f'{ENTRY}}}], "images": [{{"id": 1}}', None, "truth.json: the key 'images' must occur once"),
    "digits": (
        None,
        ENTRY.replace("[1", f"[{DIGITS}") + ', "score": 1}',
        "found.json[1]: 'bbox' must contain finite num",
    ),
    "id": (ENTRY.replace('d": 1', f'd": {DIGITS}', 1) + "}", None, "[1]: 'image_id' must be an integer, got a n"),
    "score": (None, f'{ENTRY}, "score": {DIGITS}}}', "found.json[1]: 'score' must be a finite number, got a number of"),
    "infinite": (None, f'{ENTRY}, "score": 1e999}}', "found.json[1]: 'score' must be a number that float64 represents"),
    "named so": (None, f'{ENTRY}, "score": Infinity}}', "found.json[1]: 'score' must be a finite number, got inf"),
}


@pytest.mark.parametrize("fault", JSON)
def test_json_names_file_and_entry(fault, commands, tmp_path, capsys):
    _, (_, command, _) = commands("x")
    true, found, message = JSON[fault]
    good, scored = ENTRY + "}", ENTRY + ', "score": 0.5}'
    images = '{"images": [{"id": 1}], "categories": [{"id": 1, "name": "x"}], "annotations": ['
    (tmp_path / "truth.json").write_text(f"{images}{good}, {true or good}]}}")
    (tmp_path / "found.json").write_text(f"[{scored}, {found or scored}]")
    assert main.main(command) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert said.err.count("\n") == 1
    assert len(said.err) < 300


def test_numbers_without_end_that_nobody_reads_do_no_harm(commands, tmp_path, capsys):
    _, (_, command, _) = commands("x")
    assert main.main(command) == 0
    wanted = capsys.readouterr().out
    (tmp_path / "found.json").write_text(f'[{ENTRY}, "score": 0.5, "note": {DIGITS}}}]')
    assert main.main(command) == 0
    assert capsys.readouterr().out == wanted
