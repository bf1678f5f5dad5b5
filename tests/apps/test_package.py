"""Installation, citation and publication of the package."""

import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys

import pytest

import torch_ap
from tests.support.paths import ROOT

PROJECT = (ROOT / "pyproject.toml").read_text()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def imports():
    """Import in a fresh process.

    Returns {module: (own, cumulative) microseconds}, the modules that the two statements add to torchmetrics, and the
    modules loaded after the first value of a metric on ranks.
    """
    code = (
        "import json, sys\n"
        "import torch_ap\n"
        "light = sorted(sys.modules)\n"
        "import torchmetrics\n"
        "before = set(sys.modules)\n"
        "from torch_ap import BinaryAveragePrecision\n"
        "added = sorted(set(sys.modules) - before)\n"
        "import torch\n"
        "from torch_ap import functional, inference\n"
        "ranks = dict(dist_sync_fn=lambda x, group: [x, x], distributed_available_fn=lambda: True)\n"
        "metric = BinaryAveragePrecision(**ranks)\n"
        "metric.update(torch.rand(3), torch.tensor([0, 1, 1]))\n"
        "metric.compute()\n"
        "print(json.dumps([light, added, sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, check=True, text=True)
    rows = re.findall(r"import time: +(\d+) \| +(\d+) \| +(\S+)", done.stderr)
    return {name: (int(own), int(total)) for own, total, name in rows}, *json.loads(done.stdout)


def outside(modules):
    """Return the packages outside the standard library and this package."""
    found = {name.partition(".")[0] for name in modules}
    return {name for name in found - sys.stdlib_module_names - {"torch_ap", "__main__"} if not name.startswith("_")}


def test_importing_adds_no_packages_to_torchmetrics(imports):
    """SciPy, matplotlib, tqdm, pyarrow and others are imported in the functions that use them."""
    _, light, added, _ = imports
    assert not outside(light) & {"torch", "numpy", "torchmetrics", "scipy", "matplotlib", "tqdm", "pyarrow", "sklearn"}
    assert not outside(added)
    assert "torch_ap.classification" in added


def test_the_compiler_is_not_imported(imports):
    """Neither the package nor the first computation on ranks imports it."""
    *_, used = imports
    assert "torch_ap.inference" in used
    assert "torch._dynamo" not in used


def test_importing_takes_less_time_than_torchmetrics(imports):
    times, *_ = imports
    ours = sum(own for name, (own, _) in times.items() if name.split(".")[0] == "torch_ap")
    assert 0 < ours < times["torchmetrics"][1] - times["torch"][1]


def test_versions_agree():
    assert f"\nversion: {torch_ap.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert importlib.metadata.version("torch-ap") == torch_ap.__version__


def test_licences_agree():
    name = re.search(r'^license = "([\w.-]+)', PROJECT, re.MULTILINE)[1]  # of this package, without libraries
    assert f"\nlicense: {name}\n" in (ROOT / "CITATION.cff").read_text()
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:200]
    assert name == "Apache-2.0"


def test_types_are_published():
    assert (pathlib.Path(torch_ap.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_the_repositorys_scripts(path):
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    commands = [
        step["run"].replace("${{ matrix.script }}", row["script"])
        for job in jobs
        for row in job.get("strategy", {}).get("matrix", {}).get("include", [{"script": ""}])
        for step in job["steps"]
        if "run" in step
    ]
    assert commands
    for command in commands:
        bash, script, *_ = command.split()
        assert bash == "bash"
        assert (ROOT / script).stat().st_mode & 0o100


def test_the_workflow_of_tests_runs_every_python_that_is_promised():
    promised = re.findall(r"Python :: (3\.\d+)", PROJECT)
    run = re.findall(r'python: "(3\.\d+)"', (ROOT / ".github" / "workflows" / "tests.yml").read_text())
    assert run == promised
    assert f'requires-python = ">={promised[0]}"' in PROJECT
