"""The examples reproduce the output in their docstrings, and the notebooks their stored output."""

import ast
import contextlib
import importlib.util
import io
import os
import re
import runpy
import subprocess
import sys
import warnings
from unittest import mock

import pytest
import torch

from tests.support.paths import ROOT

FOLDER = ROOT / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
ON_TWO_RANKS = [path for path in SCRIPTS if "\nRun: torchrun --nproc_per_node 2 " in path.read_text()]
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
EXTRAS = "pip install 'torch-ap[examples,neighbours]'"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def alike(found, expected):
    """Whether two texts have equal words, and numbers that differ only as much as training on another machine."""
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
    """Skip if one of these packages is not installed."""
    if absent := [name for name in names if importlib.util.find_spec(name) is None]:
        pytest.skip(f"{', '.join(absent)} not installed: {EXTRAS}")


def imported(tree):
    """Yield the packages that a module imports at its top."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(".")[0]


class Here:
    """Replacement of ``subprocess.Popen`` that runs the script immediately in this process."""

    def __init__(self, command):
        assert command[0] == sys.executable
        with mock.patch.object(sys, "argv", command[1:]):
            runpy.run_path(command[1], run_name="__main__")

    def wait(self):
        return 0


def printed(path, capsys):
    """Return the output of a script, run in this process."""
    with torch.random.fork_rng(), mock.patch.object(subprocess, "Popen", Here):
        runpy.run_path(str(path), run_name="__main__")
    return capsys.readouterr().out


def printed_by_rank(rank, path):
    """Return the output of a script in one of the two processes of torchrun; the processes continue afterwards."""
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


def documented_run(path):
    """Return the command and the output in the docstring of a script; skip if a package is missing."""
    tree = ast.parse(path.read_text())
    need(imported(tree))
    text, _, expected = ast.get_docstring(tree).partition("\nIt prints:\n")
    (command,) = re.findall(r"^Run: ([^()\n]*)", text, re.MULTILINE)
    return command, expected


@pytest.mark.parametrize("path", ON_TWO_RANKS, ids=lambda path: path.stem)
def test_scripts_of_two_ranks_print_the_documented_output(path, ranks):
    _, expected = documented_run(path)
    found = "".join(ranks(printed_by_rank, str(path)))
    assert alike(found, expected), found


@pytest.mark.parametrize("path", [x for x in SCRIPTS if x not in ON_TWO_RANKS], ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")  # as in a run by hand
def test_scripts_print_the_documented_output(path, tmp_path, monkeypatch, capsys):
    _, expected = documented_run(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setattr(os, "environ", os.environ.copy())  # Lightning stores its seed there
    monkeypatch.setattr(sys, "argv", [str(path)])
    found = printed(path, capsys)
    assert alike(found, expected), found


def executed(path):
    """Return an executed notebook with its output, without times, warnings and versions."""
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
def test_notebooks_reproduce_their_output(path, capsys):
    """Run the cells in this process, because a kernel imports everything again and takes ten times as long."""
    need(["matplotlib", "nbformat", "sklearn"])
    import nbformat
    from matplotlib import pyplot

    notebook, names = nbformat.read(path, as_version=4), {}
    nbformat.validate(notebook)
    pyplot.close("all")  # figures of the scripts
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


if __name__ == "__main__":  # python -m tests.apps.test_examples: run the notebooks and store their output
    import nbformat

    for path in NOTEBOOKS:
        nbformat.write(executed(path), path)
