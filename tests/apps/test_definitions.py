"""The page of definitions: every name in its tables exists."""

import ast
import importlib
import inspect
import re
from dataclasses import fields, is_dataclass

import pytest

import torch_ap
from tests.support.each import each
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "definitions.md").read_text()
ROWS = [line.strip("| \n").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
NAMES = sorted({name for row in ROWS for name in re.findall(r"`([^`]+)`", row[-1])})
INFERENCE = ("inference", "inference.posteriors", "inference.random_ranking", "inference.published")
TEXTS = ("Zhu (2004)", "A tutorial", "An encyclopedia article", "Su & Zhang", "A note on AP")


def resolve(path):
    """Return the object of a dotted name: a module's member, or a field or property of a record."""
    found = torch_ap
    for part in path.split("."):
        if inspect.isclass(found) and is_dataclass(found) and part in {x.name for x in fields(found)}:
            return found
        if inspect.ismodule(found) and not hasattr(found, part):
            found = importlib.import_module(f"{found.__name__}.{part}")
        else:
            found = getattr(found, part)
    return found


def arguments(call):
    """Return the keywords and the positional arguments of ``f(a, b=)`` or ``f(b="x")``."""
    tree = ast.parse(re.sub(r"=(?=[,)])", "=...", call), mode="eval").body
    return [x.id for x in tree.args], {x.arg: x.value for x in tree.keywords}


def test_every_text_has_its_table_and_its_code():
    sections = PAGE.split("\n## ")[1:]
    assert [section.startswith(text) for section, text in zip(sections, TEXTS, strict=True)] == [True] * len(TEXTS)
    assert all("```python" in section and "| where | definition | here |" in section for section in sections)
    assert len(ROWS) > 80
    assert all(len(row) == 3 for row in ROWS)


@each("name", NAMES)
def test_every_name_exists(name):
    path, _, rest = name.partition("(")
    function = resolve(path)
    if not rest:
        return
    positional, keywords = arguments(name)
    signature = inspect.signature(function)
    known = dict(signature.parameters)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:  # settings that a TypedDict lists
            owner = function.__init__ if inspect.isclass(function) else function
            spelled = getattr(inspect.get_annotations(owner)[parameter.name], "__args__", ())
            known |= {name: None for settings in spelled for name in settings.__annotations__}
    assert set(positional) | set(keywords) <= set(known), f"{name} does not fit {signature}"
    leading = [x for x in known if x != "self"]
    assert positional == leading[: len(positional)]


def test_a_name_that_does_not_exist_would_be_found():
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        resolve("functional.no_such_measure")
    with pytest.raises(AttributeError):
        resolve("functional.Counts.no_such_ratio")


def test_the_index_has_everything_that_is_public_and_nothing_else():
    index = [row for row in ROWS if " | ".join(row) in PAGE.split("\n## ")[0]][1:]
    named = {name.partition("(")[0] for row in index for name in re.findall(r"`([^`]+)`", row[2])}
    public = {
        f"{module}.{name}"
        for module in ("functional", "curves", "detection.curves", "detection.pairs", *INFERENCE)
        for name in importlib.import_module(f"torch_ap.{module}").__all__
        if inspect.isfunction(resolve(f"{module}.{name}"))
    }
    assert {name for name in named if not name.startswith("sklearn.")} == public
    classes = {name for row in index for name in re.findall(r"`([A-Z]\w+)`", row[1])}
    assert classes == {name for name in torch_ap.__all__ if inspect.isclass(getattr(torch_ap, name))} - {
        "Convention",
        "IndexEncoder",
    }
    commands = {name for row in index for name in re.findall(r"`torch-ap (\w+)`", row[1])}
    assert commands == {"score", "trec", "coco", "lvis", "voc", "plan"}
