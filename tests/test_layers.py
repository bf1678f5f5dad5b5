"""Imports point down: a module imports only from its own room and from rooms below it, without a cycle."""

import ast
import functools
import graphlib
import pathlib
import sys

import torch_ap

ROOT = pathlib.Path(torch_ap.__file__).parent
FLOORS = (
    *("_version", "rules", "runtime", "ranking", "curve", "geometry", "inputs", "matching", "evaluation", "exchange"),
    *("inference", "analysis", "functional", "files", "runs", "metrics", "plot", "reports"),
    *("classification", "retrieval", "detection", "sklearn", "cli", "", "__main__"),
)


@functools.cache
def modules():
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").removesuffix("."): path
        for path in ROOT.rglob("*.py")
    }


@functools.cache
def tree(path):
    return ast.parse(path.read_text())


@functools.cache
def imports(path):
    """Modules of this package that the file imports, anywhere in it."""
    return set(_imports(path))


def _imports(path):
    known = modules()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch_ap":
            base = node.module.removeprefix("torch_ap").removeprefix(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".removeprefix(".")
                yield inner if inner in known else base
        elif isinstance(node, ast.Import):
            yield from (
                alias.name.removeprefix("torch_ap.") for alias in node.names if alias.name.startswith("torch_ap.")
            )


def floor_of(module):
    """The place of its room."""
    return FLOORS.index(module.split(".")[0])


def test_imports_point_down():
    broken = [
        f"{module} imports {other}"
        for module, path in modules().items()
        for other in imports(path)
        if floor_of(other) > floor_of(module)
    ]
    assert not broken


def test_no_cycles():
    graph = {module: imports(path) - {module} for module, path in modules().items()}
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) >= len(graph)


def test_other_packages_are_imported_where_they_are_used():
    """SciPy takes longer to import than most calls take to run; other packages need not be installed."""
    at_the_top = {
        (module, ast.unparse(node).split()[1].partition(".")[0])
        for module, path in modules().items()
        for node in tree(path).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    allowed = {*sys.stdlib_module_names, "torch", "torchmetrics", "numpy", "torch_ap"}
    assert not {(module, package) for module, package in at_the_top if package not in allowed}


def test_a_wrong_import_would_be_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def f():\n    import torch_ap.metrics.base\n    from torch_ap.ranking import segments\n")
    assert set(imports(wrong)) == {"metrics.base", "ranking.segments"}
    assert floor_of("metrics.base") > floor_of("functional.curves") > floor_of("ranking.segments") > floor_of("rules")
