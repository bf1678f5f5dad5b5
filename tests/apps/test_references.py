"""References by roles in docstrings resolve to existing names."""

import ast
import importlib
import inspect
import pathlib
import re

import torch_ap
from tests.support.each import each

ROOT = pathlib.Path(torch_ap.__file__).parent
ROLE = re.compile(r":(func|class|meth|mod|attr|data|exc|obj):`([^`]*)`")


def resolve_inside(found, path):
    """Return the object at a dotted name in a module or class, or None."""
    for part in path.split("."):
        if inspect.isclass(found) and part in inspect.get_annotations(found):
            return True
        if (found := getattr(found, part, None)) is None:
            return None
    return found


def resolve(path):
    """Return the object at a full name: the longest module in it, and the rest inside this module."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        return resolve_inside(module, ".".join(parts[count:])) if parts[count:] else module
    return None


def exists(role, path, scope):
    """Return whether the name exists with this role, in full or in an enclosing class or module of the docstring."""
    path = path.removeprefix("~")
    found = resolve(path) if path.startswith("torch_ap.") else None
    found = found or next((x for part in scope if (x := resolve_inside(part, path)) is not None), None)
    return found is not None and {
        "func": inspect.isroutine(found),
        "meth": inspect.isroutine(found),
        "class": inspect.isclass(found),
        "mod": inspect.ismodule(found),
    }.get(role, True)


def docstrings(tree, scope):
    """Yield every docstring below a node, with the objects that can contain its names, the innermost first."""
    yield ast.get_docstring(tree) or "", scope
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from docstrings(node, [getattr(scope[0], node.name), *scope])
        elif isinstance(node, ast.FunctionDef):
            yield from docstrings(node, scope)


def unresolved(text, module):
    return [
        role + " " + path
        for docstring, scope in docstrings(ast.parse(text), [module])
        for role, path in ROLE.findall(docstring)
        if not exists(role, path, scope)
    ]


FILES = sorted(ROOT.rglob("*.py"))


def name_of(path):
    return ".".join(("torch_ap", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


@each("path", [x for x in FILES if ROLE.search(x.read_text())])
def test_references_of_docstrings_resolve(path):
    assert unresolved(path.read_text(), importlib.import_module(name_of(path))) == []


def test_a_wrong_reference_is_reported():
    text = '''
class BinaryAveragePrecision:
    """:class:`Convention`, :meth:`compute`, :func:`torch_ap.curves.hit_curve` and :mod:`torch_ap.inference`."""
    def compute(self):
        """:func:`hit_curve`, :func:`torch_ap.functional.no_such`, :class:`torch_ap.curves.hit_curve`."""
def f():
    """:meth:`compute`."""
'''
    assert unresolved(text, torch_ap) == [
        "func hit_curve",
        "func torch_ap.functional.no_such",
        "class torch_ap.curves.hit_curve",
        "meth compute",
    ]
