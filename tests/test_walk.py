"""The files from `update` to the number, as CONTRIBUTING lists them, are those that the data pass."""

import pathlib
import re
import sys

import pytest
import torch

import torch_ap

ROOT = pathlib.Path(torch_ap.__file__).parent
PAGE = ROOT.parent / "CONTRIBUTING.md"
SECTION = PAGE.read_text().partition("## From `update` to the number")[2].partition("\n## ")[0]
LISTS = dict(re.findall(r"^\| `([\w.]+)` \| (.*) \|$", SECTION, re.MULTILINE))
MOST = {"BinaryAveragePrecision": 8, "RetrievalMAP": 12, "MeanAveragePrecision": 12}


def files_in(text):
    return set(re.findall(r"`([a-z]\w*(?:/\w+)*)`", text))


HELPERS = files_in(SECTION.partition("|")[0])  # rooms and files


def images():
    box = torch.tensor([[10.0, 10, 50, 50], [20, 20, 60, 60], [5, 5, 30, 30]])
    labels = torch.zeros(3, dtype=torch.int64)
    found = [{"boxes": box + 1, "scores": torch.tensor([0.9, 0.8, 0.7]), "labels": labels}]
    return found, [{"boxes": box, "labels": labels}]


def items():
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(20_000, generator=generator)
    return scores, torch.rand(20_000, generator=generator) < 0.1


INPUTS = {
    "BinaryAveragePrecision": items,
    "RetrievalMAP": lambda: (*items(), torch.arange(20_000) // 100),
    "MeanAveragePrecision": images,
}


def files_called(metric, batch, ask="compute"):
    """The files of this package in which any function is called, without `.py`."""
    called = set()

    def note(frame, event, _):
        if event == "call":
            called.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        metric.update(*batch)
        getattr(metric, ask)()
    finally:
        sys.setprofile(before)
    paths = [pathlib.Path(name) for name in called]
    return {path.relative_to(ROOT).with_suffix("").as_posix() for path in paths if path.is_relative_to(ROOT)}


@pytest.mark.parametrize("name", INPUTS)
def test_the_walk_is_the_one_of_the_page(name):
    walk, called = files_in(LISTS[name]), files_called(getattr(torch_ap, name)(), INPUTS[name]())
    assert len(walk) <= MOST[name]
    assert walk <= called
    assert {file for file in called - walk if not {file, file.split("/")[0]} & HELPERS} == set()


def test_the_walk_of_an_interval_is_the_one_of_the_page():
    name, _, ask = next(row for row in LISTS if "." in row).partition(".")
    called = files_called(getattr(torch_ap, name)(), INPUTS[name](), ask)
    walk = files_in(LISTS[f"{name}.{ask}"])
    shared = files_in(LISTS[name])
    assert walk <= called
    assert {file for file in called - walk - shared if not {file, file.split("/")[0]} & HELPERS} == set()
    assert "matching/assignment" in shared & called
