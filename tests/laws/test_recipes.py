"""Recipes of CONTRIBUTING, executed on a copy of the package: a new measure needs a small number of files."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import torch_ap

PACKAGE = pathlib.Path(torch_ap.__file__).parent
PAGE = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
SECTION = PAGE.partition("## How to add a measure over queries")[2].partition("\n## ")[0]
MOST_FILES = 3

USE = """
import json
import torch
import torch_ap
from torch_ap.cli.main import main
from torch_ap.core.measures.ties import TIES

preds, target = torch.tensor([[0.9, 0.8], [0.5, 0.5]]), torch.tensor([[1, 0], [0, 1]])
metric = torch_ap.RetrievalFirstItem()
metric.update(preds, target)
rules = [float(torch_ap.retrieval.RetrievalFirstItem(ties=x)(preds, target)) for x in TIES]
qrels, run = {"q": {"a": 1}, "r": {"a": 1}}, {"q": {"a": 2.0, "b": 1.0}, "r": {"a": 1.0, "b": 2.0}}
evaluation = torch_ap.evaluate(qrels, run, "first")
values = {
    "function": torch_ap.functional.retrieval_first_item(preds, target).tolist(),
    "metric": float(metric.compute()),
    "chance": float(metric.chance_level()),
    "interval": metric.confidence_interval().low.isfinite().item(),
    "rules": rules,
    "evaluate": evaluation.to_dict(),
    "conventions": evaluation.conventions["first"],
    "exported": "retrieval_first_item" in torch_ap.functional.__all__ and "RetrievalFirstItem" in torch_ap.__all__,
}
print(json.dumps(values))
status = main(["score", "table.csv", "--preds", "s", "--target", "y", "--group", "q", "-m", "first", "--csv"])
status += main(["score", "table.csv", "--preds", "s", "--target", "y", "--group", "q", "-m", "first", "--bins", "4"])
raise SystemExit(status)
"""


def contents(folder):
    return {path.relative_to(folder): path.read_text() for path in folder.rglob("*.py")}


def test_a_measure_over_queries_takes_few_files(tmp_path):
    copy = tmp_path / "torch_ap"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    before = contents(copy)
    line = re.search(r"```\n *(NamedMeasure\(.*\),)\n", SECTION)[1]
    homes = dict.fromkeys(re.findall(r'"torch_ap\.([\w.]+):', line))
    modules = [textwrap.dedent(x) for x in re.findall(r" *```python\n(.*?)```", SECTION, re.DOTALL)]
    for home, module in zip(homes, modules, strict=True):
        (copy / home.replace(".", "/")).with_suffix(".py").write_text(module)
    registry = copy / "core" / "measures" / "names.py"
    registry.write_text(registry.read_text().replace("MEASURES = (\n", f"MEASURES = (\n    {line}\n", 1))
    after = contents(copy)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert len(changed) == 3 <= MOST_FILES
    (tmp_path / "table.csv").write_text("s,y,q\n2,1,a\n1,0,a\n2,0,b\n1,1,b\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, env=environment, capture_output=True, check=True, text=True
    )
    first, *table = done.stdout.splitlines()
    assert json.loads(first) == {
        "function": [1.0, 0.5],
        "metric": 0.75,
        "chance": 0.5,
        "interval": True,
        "rules": [0.75, 0.75, 1.0, 0.5],
        "evaluate": {"first": 0.5},
        "conventions": "The mean over queries of whether the first item is relevant. Items with equal scores are in "
        "descending order of their names, as in trec_eval 10.",
        "exported": True,
    }
    assert table[:2] == ["measure,group,value", "first,all,0.5"]
    assert "first" in table[-1]
