"""Imports point down: a module imports only from lower floors, or from its own floor without a cycle."""

import ast
import graphlib
import pathlib

import torch_ap

ROOT = pathlib.Path(torch_ap.__file__).parent
FLOORS = [
    {"core.checks", "core.order", "core.harmonic"},
    {"core.segments"},
    {"core.hit_curve", "core.builders", "core.bins"},
    {"core.average_precision", "core.interpolation", "core.counts", "core.convention", "core.averaging", "core.batch"},
    {"functional"},
    {"metrics"},
    {"", "_version"},
]


def modules():
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").removesuffix("."): path
        for path in ROOT.rglob("*.py")
    }


def imports(path):
    """Modules of this package that the file imports, anywhere in it."""
    known = modules()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch_ap":
            base = node.module.removeprefix("torch_ap").removeprefix(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".removeprefix(".")
                yield inner if inner in known else base


def floor_of(module):
    if module in ("", "_version"):
        return len(FLOORS) - 1 if module == "" else 0
    exact = [level for level, names in enumerate(FLOORS) if module in names]
    return exact[0] if exact else next(level for level, names in enumerate(FLOORS) if module.split(".")[0] in names)


def test_imports_point_down():
    broken = [
        f"{module} imports {other}"
        for module, path in modules().items()
        if module != "core"
        for other in imports(path)
        if floor_of(other) > floor_of(module)
    ]
    assert not broken


def test_no_cycles():
    graph = {module: set(imports(path)) - {module} for module, path in modules().items()}
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) >= len(graph)


def test_a_wrong_import_would_be_found():
    assert floor_of("core.order") < floor_of("core.segments") < floor_of("functional.classification")
    assert "core.segments" in set(imports(ROOT / "core" / "hit_curve.py"))
