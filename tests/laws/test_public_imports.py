"""Tests import public objects from public modules, as users do; other imports of private modules test the internals."""

import ast
import importlib

from tests.laws.test_records import MODULES
from tests.support.each import each
from tests.support.paths import ROOT

FILES = sorted((ROOT / "tests").rglob("*.py"))


def public_objects():
    """Return the public objects by their name in each public module."""
    modules = [importlib.import_module(name) for name in MODULES]
    return {(name, id(getattr(module, name))) for module in modules for name in module.__all__}


PUBLIC = public_objects()


def private_imports(text):
    """Return "module:name" of each import of a public object from a private module."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch_ap."):
            module = importlib.import_module(node.module)
            names = [x.name for x in node.names if (x.name, id(getattr(module, x.name, None))) in PUBLIC]
            found += [f"{node.module}:{name}" for name in names if node.module not in MODULES]
    return found


@each("path", {path.name: path for path in FILES})
def test_public_objects_are_imported_from_public_modules(path):
    assert private_imports(path.read_text()) == []


def test_private_imports_are_found():
    text = (
        "from torch_ap import Convention\nfrom torch_ap.core.measures.convention import Convention, resolve_convention"
    )
    assert private_imports(text) == ["torch_ap.core.measures.convention:Convention"]
