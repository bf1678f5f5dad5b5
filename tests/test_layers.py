"""Imports point down: a module imports only from lower floors, or from its own floor without a cycle."""

import ast
import functools
import graphlib
import pathlib

import torch_ap

ROOT = pathlib.Path(torch_ap.__file__).parent
FLOORS = [
    {
        "core.messages",
        "core.checks",
        "core.queries.rules",
        "core.detection.rules",
        "core.order",
        "core.harmonic",
        "core.memory",
        "core.arrays",
        "core.plans",
    },
    {"core.segments", "core.packing", "core.hit_keys"},
    {
        *(
            "core.hit_curve",
            "core.tie_groups",
            "core.few_items",
            "core.rows",
            "core.shuffled",
            "core.builders",
            "core.bins",
        ),
        *("core.detection.boxes", "core.detection.masks", "core.detection.detections", "core.detection.door"),
        "core.detection.run_lengths",
    },
    {"core"},
    {"functional"},
    {"inference"},
    {"metrics", "files", "sklearn"},
    {"commands"},
    {"", "cli"},
]


@functools.cache
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
        elif isinstance(node, ast.Import):
            yield from (
                alias.name.removeprefix("torch_ap.") for alias in node.names if alias.name.startswith("torch_ap.")
            )


def floor_of(module):
    """Of a module that is named, or else of its folder; the version stands below everything."""
    if module == "_version":
        return 0
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


def test_scipy_is_imported_where_it_is_used():
    """It takes longer to import than most calls take to run."""
    at_the_top = [
        module
        for module, path in modules().items()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom) and "scipy" in ast.unparse(node)
    ]
    assert not at_the_top


def test_a_wrong_import_would_be_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def f():\n    import torch_ap.metrics.base\n    from torch_ap.core import segments\n")
    assert set(imports(wrong)) == {"metrics.base", "core.segments"}
    assert floor_of("metrics.base") > floor_of("functional.curves") > floor_of("core.segments") > floor_of("core.order")
