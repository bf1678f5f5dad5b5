"""The examples run and print what their docstrings say; the notebooks compute what they show."""

import ast
import contextlib
import importlib.util
import io
import os
import pathlib
import re
import runpy
import shlex
import subprocess
import sys
import warnings
from unittest import mock

import pytest
import torch

FOLDER = pathlib.Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
ON_TWO_RANKS = [path for path in SCRIPTS if "\nRun: torchrun --nproc_per_node 2 " in path.read_text()]
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
    """What a script prints, here or in a process of its own."""
    if path.stem not in OF_ITS_OWN:
        with torch.random.fork_rng(), mock.patch.object(subprocess, "Popen", Here):
            runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out
    command[command.index("python")] = sys.executable
    command[command.index(f"examples/{path.name}")] = str(path)
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=180).stdout


def printed_by_rank(rank, path):
    """What a script prints in one of two processes that torchrun has started; here they go on afterwards."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    places = {"MASTER_ADDR": "localhost", "MASTER_PORT": 0, "TORCHELASTIC_RUN_ID": "tests"}
    given = {name: str(x) for name, x in {**numbers, **places}.items()}
    with (
        mock.patch.dict(os.environ, given),
        mock.patch.object(torch.distributed, "destroy_process_group"),
        mock.patch.object(sys, "argv", [path]),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()) as out,
    ):
        runpy.run_path(path, run_name="__main__")
    return out.getvalue()


def asked_and_said(path):
    """The command that runs a script, and what it prints, as its docstring says; skips where a package is missing."""
    tree = ast.parse(path.read_text())
    need(imported(tree))
    text, _, expected = ast.get_docstring(tree).partition("\nIt prints:\n")
    (command,) = re.findall(r"^Run: ([^()\n]*)", text, re.MULTILINE)
    return command, expected


@pytest.mark.parametrize("path", ON_TWO_RANKS, ids=lambda path: path.stem)
def test_scripts_of_two_ranks_print_what_they_say(path, ranks):
    _, expected = asked_and_said(path)
    found = "".join(ranks(printed_by_rank, str(path)))
    assert alike(found, expected), found


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(x, marks=[pytest.mark.slow] * (x.stem in OF_ITS_OWN), id=x.stem)
        for x in SCRIPTS
        if x not in ON_TWO_RANKS
    ],
)
@pytest.mark.filterwarnings("default")  # as where they are run by hand
def test_scripts_print_what_they_say(path, tmp_path, monkeypatch, capsys):
    command, expected = asked_and_said(path)
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")
def test_notebooks_compute_what_they_show(path, capsys):
    """Cell by cell, here: a kernel would import everything again, which takes ten times as long as what it runs."""
    need(["matplotlib", "nbformat", "sklearn"])
    import nbformat
    from matplotlib import pyplot

    notebook, names = nbformat.read(path, as_version=4), {}
    nbformat.validate(notebook)
    pyplot.close("all")  # what scripts have drawn
    for cell in notebook.cells:
        if cell.cell_type == "code":
            with torch.random.fork_rng():
                exec(cell.source, names)
            text = "".join(x.get("text", "") for x in cell.outputs)
            pictures = [x["data"]["text/plain"] for x in cell.outputs if x.get("data", {}).get("image/png")]
            assert len(cell.outputs) == bool(text) + len(pictures)
            found = capsys.readouterr().out
            assert alike(found, text), found
            assert [repr(pyplot.figure(number)) for number in pyplot.get_fignums()] == pictures
            pyplot.close("all")


if __name__ == "__main__":  # python -m tests.test_examples: the notebooks are run and kept anew
    import nbformat

    for path in NOTEBOOKS:
        nbformat.write(executed(path), path)
