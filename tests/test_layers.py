"""Imports point down: from an application to a domain, from a domain to the core, and never between domains."""

import ast
import functools
import graphlib
import pathlib
import sys

import torch_ap

ROOT = pathlib.Path(torch_ap.__file__).parent
DOMAINS = ("classification", "retrieval", "detection")
# the parts of the package and their levels, the lowest first
LEVELS = {
    "_version": 0,
    "core": 1,
    "inference": 2,
    "curves": 3,
    **dict.fromkeys(DOMAINS, 4),
    "functional": 5,
    "files": 5,
    "sklearn": 6,
    "boosting": 6,
    "plot": 6,
    "reports": 7,
    "compat": 7,
    "engines": 7,
    "explanation": 7,
    "": 8,
    "cli": 9,
    "__main__": 10,
}
# the levels inside a part; a module that is not listed is below the first level
INNER = {
    "core": ("base", "ranking", "measures", "metric", "items", "columns"),
    "detection": ("shapes", "inputs", "matching", "rules", "inference", "errors", "files", "metrics"),
}
FACADES = ("functional", "files", "", "classification", "retrieval", "detection")


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
    """Return the modules of this package that the file imports, anywhere in it."""
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


def part(module):
    return module.split(".")[0]


def is_upward(module, other):
    """Whether an import goes to a higher level, or from one domain to another."""
    one, two = part(module), part(other)
    return LEVELS[two] > LEVELS[one] or (one != two and {one, two} <= set(DOMAINS))


def inner_level(module):
    """Return the level of a module inside its part, or None for a part without levels or a module beside them."""
    names = module.split(".")
    levels = INNER.get(names[0], ())
    return levels.index(names[1]) if len(names) > 2 and names[1] in levels else None


def test_imports_point_down():
    pairs = [(module, other) for module, path in modules().items() for other in imports(path)]
    assert not [f"{module} imports {other}" for module, other in pairs if is_upward(module, other)]


def test_imports_point_down_inside_a_part():
    pairs = [(module, other) for module, path in modules().items() for other in imports(path)]
    inside = [(one, two) for one, two in pairs if part(one) == part(two) and None not in map(inner_level, (one, two))]
    assert inside
    assert not [f"{one} imports {two}" for one, two in inside if inner_level(two) > inner_level(one)]


def test_no_cycles():
    graph = {module: imports(path) - {module} for module, path in modules().items()}
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) >= len(graph)


def test_facades_define_nothing():
    for name in FACADES:
        defined = [x.name for x in tree(modules()[name]).body if isinstance(x, ast.FunctionDef | ast.ClassDef)]
        assert not defined, name


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


def test_a_wrong_import_is_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def f():\n    import torch_ap.core.metric.base\n    from torch_ap.core.ranking import segments\n")
    assert set(imports(wrong)) == {"core.metric.base", "core.ranking.segments"}
    assert is_upward("core.metric.base", "inference.chance")
    assert is_upward("retrieval.inputs", "detection.pairs")
    assert not is_upward("functional", "retrieval.inputs")
    assert inner_level("core.metric.base") > inner_level("core.ranking.segments")
