"""Hostile values in JSON files, long paths and control characters in names give one line of error, no traceback."""

import json
import random
import sys

import pytest
import torch

from torch_ap import MeanAveragePrecision, report
from torch_ap.cli import main
from torch_ap.retrieval.runs.results import Table

HOSTILE = {
    "400 digits": "9" * 400,
    "5,000 digits": "9" * 5000,
    "negative": "-" + "9" * 400,
    "a large fraction": "9" * 400 + ".5",
    "a large exponent": "1e999999999999999999999",
    "a small exponent": "1e-999999999999999999999",
    "lists": "[" * 100_000 + "]" * 100_000,
    "objects": '{"a":' * 3000 + "1" + "}" * 3000,
    "unclosed": "[" * 100_000,
    "NaN": "NaN",
    "infinity": "-Infinity",
    "null": "null",
    "in a list": "[null]",
    "a list of digits": f"[{'9' * 400}]",
    "bool": "true",
    "escape": '"\\u001b[2J"',
    "surrogate": '"\\ud800"',
}
ENTRY = {"image_id": 1, "category_id": 1, "bbox": [1, 2, 30, 40], "score": 0.5}
TRUTH = {
    "images": [{"id": 1, "width": 64, "height": 64, "neg_category_ids": [], "not_exhaustive_category_ids": []}],
    "categories": [{"id": 1, "name": "cat", "frequency": "f"}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 30, 40], "area": 1200, "iscrowd": 0}],
}
VIDEOS = {
    "database": {"v": {"subset": "validation", "duration": 9, "annotations": [{"segment": [2, 8], "label": "x"}]}},
}
FOUND = {"results": {"v": [{"segment": [2, 8], "label": "x", "score": 0.5}]}}
SLICES = {"day": [1]}


def leaves(value, path=()):
    """Yield the paths of all values inside a value."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from leaves(part, (*path, key))


def replaced(value, path, mark):
    """Return a copy with another value at a path."""
    if not path:
        return mark
    parts = dict(value) if isinstance(value, dict) else list(value)
    parts[path[0]] = replaced(parts[path[0]], path[1:], mark)
    return parts


COMMANDS = {
    "coco": (["coco", "truth.json", "found.json"], {"truth.json": TRUTH, "found.json": [ENTRY]}),
    "lvis": (["lvis", "truth.json", "found.json"], {"truth.json": TRUTH, "found.json": [ENTRY]}),
    "slices": (
        ["coco", "truth.json", "found.json", "--slices", "slices.json"],
        {"slices.json": SLICES, "truth.json": TRUTH, "found.json": [ENTRY]},
    ),
    "activitynet": (
        ["voc", "videos.json", "segments.json", "--format", "activitynet"],
        {"videos.json": VIDEOS, "segments.json": FOUND},
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_ends_with_one_line_for_hostile_json(command, tmp_path, monkeypatch, capsys):
    """Put each kind of hostile value at random places of each file, and one value at each place."""
    monkeypatch.chdir(tmp_path)
    arguments, files = COMMANDS[command]
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    draw = random.Random(4)
    for name in list(files)[:1] if command == "slices" else files:
        places = list(leaves(files[name]))
        cases = [(draw.choice(places), kind) for kind in HOSTILE] + [(x, draw.choice([*HOSTILE])) for x in places]
        cases += [(path, "400 digits") for path in places]
        for path, kind in cases:
            text = json.dumps(replaced(files[name], path, "@")).replace('"@"', HOSTILE[kind])
            (tmp_path / name).write_text(text)
            status = main.main([*arguments, "--json"])
            lines = capsys.readouterr().err.splitlines()
            assert status in (0, 2), (name, path, kind)
            assert all(line.isprintable() and line.startswith("torch-ap: ") for line in lines)
            assert status == 0 or len(lines[-1]) < 600
        (tmp_path / name).write_text(json.dumps(files[name]))


def test_tables_of_hostile_json(tmp_path, monkeypatch, capsys):
    """Put each hostile value into each column, with and without pyarrow."""
    path = tmp_path / "x.jsonl"
    row = {"s": 0.5, "y": 1, "g": "a", "w": 1.0, "ignored": 0}
    for hidden in (False, True):
        with monkeypatch.context() as patch:
            if hidden:
                patch.setitem(sys.modules, "pyarrow", None)
            for column in row:
                for literal in HOSTILE.values():
                    text = json.dumps({**row, column: "@"}).replace('"@"', literal)
                    path.write_text(f"{json.dumps(row)}\n{text}\n")
                    further = ["--weights", "w"] if column == "w" else ["--group", "g"]
                    assert main.main(["score", str(path), "--preds", "s", "--target", "y", *further]) in (0, 2)
                    assert all(x.startswith("torch-ap: ") for x in capsys.readouterr().err.splitlines())


def test_null_in_a_slice_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments, files = COMMANDS["slices"]
    for name, content in {**files, "slices.json": {"a": [None]}}.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert main.main(arguments) == 2
    assert "torch-ap: slices.json: 'a': unknown image None" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a" * 5000, "/".join(["b" * 200] * 15), "c d " * 1200])
@pytest.mark.parametrize("command", ["coco", "lvis", "voc", "trec", "score", "report"])
def test_long_paths_are_cut(name, command, capsys):
    further = ["--preds", "s", "--target", "y", "--format", "csv"] if command in ("score", "report") else ["other"]
    assert main.main([command, name, *further]) == 2
    message = capsys.readouterr().err
    assert len(message) < 600
    assert message.startswith(f"torch-ap: {name[:40]}")


NAME = "c\x1b[31mat\x07\u202e"


def test_control_characters_of_names_reach_no_output(tmp_path, monkeypatch, capsys):
    """Text, JSON, CSV, Markdown and the pages with their pictures contain no control character."""
    monkeypatch.chdir(tmp_path)
    truth = {**TRUTH, "categories": [{"id": 1, "name": NAME, "frequency": "f"}, {"id": 2, "name": "dog"}]}
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "found.json").write_text(json.dumps([ENTRY, {**ENTRY, "category_id": 2}]))
    (tmp_path / "slices.json").write_text(json.dumps({NAME: [1]}))
    texts = []
    for form in ([], ["--json"], ["--csv"], ["--markdown"], ["--report", "x.md"], ["--report", "x.html"]):
        more = ["--n-resamples", "20"] if "--report" in form else []
        arguments = ["coco", "truth.json", "found.json", "--per-class", "--slices", "slices.json", *form, *more]
        assert main.main(arguments) == 0
        texts.append(capsys.readouterr().out)
        if form == ["--json"]:
            assert json.loads(texts[-1])["per_class"]["name"][0] == NAME
    texts += [(tmp_path / f"x.{suffix}").read_text() for suffix in ("md", "html")]
    for text in texts:
        assert all(line.isprintable() for line in text.split("\n"))
    assert sum(r"c\x1b[31mat\x07\u202e" in text.replace("\\\\", "\\") or r"\u001b" in text for text in texts) >= 6


def test_tables_and_pages_of_the_functions_too(tmp_path):
    table = Table([("name", "value"), (NAME, "1")])
    for lines in (table.lines(), table.markdown(), table.latex()):
        assert all(line.isprintable() for line in lines)
    metric = MeanAveragePrecision(class_names=[NAME, "dog"])
    boxes = torch.tensor([[1.0, 2.0, 30.0, 40.0]])
    preds = [{"boxes": boxes, "scores": torch.tensor([0.5]), "labels": torch.tensor([one])} for one in (0, 1)]
    metric.update(preds, [{"boxes": boxes, "labels": torch.tensor([one])} for one in (0, 1)])
    path = report(metric, tmp_path / "x.md", n_resamples=20, system_names=(NAME, "other"), title=NAME)
    assert all(line.isprintable() for line in path.read_text().split("\n"))


def test_pictures_have_printable_names():
    plot = pytest.importorskip("torch_ap.plot")
    figure = pytest.importorskip("matplotlib.figure")
    metric = MeanAveragePrecision(class_names=[NAME, "dog"])
    boxes = torch.tensor([[1.0, 2.0, 30.0, 40.0]])
    preds = [{"boxes": boxes, "scores": torch.tensor([0.5]), "labels": torch.tensor([one])} for one in (0, 1)]
    metric.update(preds, [{"boxes": boxes, "labels": torch.tensor([one])} for one in (0, 1)])
    for draw in (plot.per_class, plot.precision_recall, plot.f_beta_thresholds):
        ax = draw(metric, ax=figure.Figure().subplots())
        texts = [x.get_text() for x in ax.figure.findobj(lambda x: hasattr(x, "get_text"))]
        assert any(r"\x1b" in text for text in texts)
        assert all(text.replace("\n", "").isprintable() for text in texts)
