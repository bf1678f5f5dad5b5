"""The examples run and print what their docstrings say; the notebooks compute what they show."""

import ast
import importlib.util
import os
import pathlib
import re
import runpy
import shlex
import subprocess
import sys
from unittest import mock

import pytest
import torch

FOLDER = pathlib.Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
OF_ITS_OWN = ("merge_ray",)  # starts processes that import everything, and tells them of it in the environment
EXTRAS = "pip install 'torch-ap[examples,neighbours]'"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def alike(found, expected):
    """Whether two texts have the same words, and numbers that training on another machine explains."""
    words = [NUMBER.sub("#", text).split() for text in (found, expected)]
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (found, expected)]
    return words[0] == words[1] and numbers[0] == pytest.approx(numbers[1], rel=0.02, abs=0.002)


@pytest.mark.parametrize("found", ["AP 0.5, p = 1e-06", "AP  0.502, p = 2e-06"])
def test_alike(found):
    assert alike(found, "AP 0.501, p = 3e-05")
    assert not alike(found, "AP 0.54, p = 3e-05")
    assert not alike(found, "MAP 0.501, p = 3e-05")
    assert not alike(found, "AP 0.501")


def need(names):
    """Skip where one of these packages is not installed."""
    if absent := [name for name in names if importlib.util.find_spec(name) is None]:
        pytest.skip(f"{', '.join(absent)} not installed: {EXTRAS}")


def imported(tree):
    """The packages that a module imports at its top."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(".")[0]


class Here:
    """Stands for ``subprocess.Popen``: the script that a process would run is run at once, here."""

    def __init__(self, command):
        assert command[0] == sys.executable
        with mock.patch.object(sys, "argv", command[1:]):
            runpy.run_path(command[1], run_name="__main__")

    def wait(self):
        return 0


def printed(command, path, capsys):
    """What a script prints, here if Python is all that it takes, or else in a process of its own."""
    if command[0] == "python" and path.stem not in OF_ITS_OWN:
        with torch.random.fork_rng(), mock.patch.object(subprocess, "Popen", Here):
            runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out
    command[0] = str(pathlib.Path(sys.executable).with_name(command[0]))
    command[command.index(f"examples/{path.name}")] = str(path)
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=180).stdout


@pytest.mark.parametrize(
    "path", [pytest.param(x, marks=[pytest.mark.slow] * (x.stem in OF_ITS_OWN), id=x.stem) for x in SCRIPTS]
)
@pytest.mark.filterwarnings("default")  # as where they are run by hand
def test_scripts_print_what_they_say(path, tmp_path, monkeypatch, capsys):
    tree = ast.parse(path.read_text())
    need(imported(tree))
    text, _, expected = ast.get_docstring(tree).partition("\nIt prints:\n")
    (command,) = re.findall(r"^Run: ([^()\n]*)", text, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setattr(os, "environ", os.environ.copy())  # Lightning notes its seed there
    monkeypatch.setattr(sys, "argv", [str(path)])
    found = printed(shlex.split(command), path, capsys)
    assert alike(found, expected), found


def executed(path):
    """A notebook as it is kept: run, with what it prints and shows, without times, warnings and versions."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    metadata = notebook.metadata.copy()
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3", record_timing=False).execute()
    notebook.metadata = metadata
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [x for x in cell.outputs if x.get("name") != "stderr"]
    return notebook


def shown(output):
    return output.get("text") or output["data"]["text/plain"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_compute_what_they_show(path):
    need(["ipykernel", "matplotlib", "nbclient", "sklearn"])
    import nbformat

    kept = nbformat.read(path, as_version=4)
    nbformat.validate(kept)
    for cell, again in zip(kept.cells, executed(path).cells, strict=True):
        for old, new in zip(cell.get("outputs", []), again.get("outputs", []), strict=True):
            assert alike(shown(new), shown(old)), shown(new)
            assert new.get("data", {}).keys() == old.get("data", {}).keys()


if __name__ == "__main__":  # python -m tests.test_examples: the notebooks are run and kept anew
    import nbformat

    for path in NOTEBOOKS:
        nbformat.write(executed(path), path)
