"""What the README and the examples show is what happens."""

import os
import pathlib
import re
import runpy
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_readme_prints_what_it_says(capsys):
    names = {}
    for block in BLOCKS:
        exec(block, names)
        said = re.findall(r"^print\(.*\)\s+# (.*)$", block.replace(")\n# ", ") # "), re.MULTILINE)
        assert said
        assert capsys.readouterr().out.splitlines() == said


def test_ci_runs_the_readmes_test_command():
    command = next(line.split("#")[0].strip() for line in README.splitlines() if "pytest  " in line)
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(example, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, example],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 2


def test_the_version_is_said_once():
    version = runpy.run_path(str(ROOT / "torch_ap" / "_version.py"))["__version__"]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
