"""The files that run from `update` to the value are few, and CONTRIBUTING lists them."""

import pathlib
import re
import sys

import pytest
import torch

import torch_ap

ROOT = pathlib.Path(torch_ap.__file__).parent
SECTION = (ROOT.parent / "CONTRIBUTING.md").read_text().partition("## From `update` to the value")[2]
LISTS = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", SECTION.partition("\n## ")[0], re.MULTILINE))
MOST = {"BinaryAveragePrecision": 17, "RetrievalMAP": 19, "MeanAveragePrecision": 22}
DOMAINS = {"BinaryAveragePrecision": "classification", "RetrievalMAP": "retrieval", "MeanAveragePrecision": "detection"}


def items():
    generator = torch.Generator().manual_seed(0)
    return torch.rand(1000, generator=generator), torch.rand(1000, generator=generator) < 0.1


def images():
    generator = torch.Generator().manual_seed(0)
    corners = 100 * torch.rand(20, 5, 2, generator=generator)
    boxes = torch.cat([corners, corners + 10 + 40 * torch.rand(20, 5, 2, generator=generator)], 2)
    labels = torch.randint(3, (20, 5), generator=generator)
    scores = torch.rand(20, 5, generator=generator)
    columns = list(zip(boxes, labels, scores, strict=True))
    preds = [{"boxes": box + 1, "labels": label, "scores": score} for box, label, score in columns]
    return preds, [{"boxes": box, "labels": label} for box, label, _ in columns]


INPUTS = {
    "BinaryAveragePrecision": items,
    "RetrievalMAP": lambda: (*items(), torch.arange(1000) // 50),
    "MeanAveragePrecision": images,
}


def files_called(metric, batch):
    """Return the files of this package in which a function is called, without `.py`."""
    called = set()

    def record(frame, event, _):
        if event == "call":
            called.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        metric.update(*batch)
        metric.compute()
    finally:
        sys.setprofile(before)
    paths = [pathlib.Path(name) for name in called]
    return {path.relative_to(ROOT).with_suffix("").as_posix() for path in paths if path.is_relative_to(ROOT)}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", INPUTS)
def test_files_are_few_and_listed(name):
    called = files_called(getattr(torch_ap, name)(), INPUTS[name]())
    print(name, len(called), *sorted(called))
    assert len(called) <= MOST[name]
    assert set(re.findall(r"`([\w/]+)`", LISTS[name])) == called
    assert {file.split("/")[0] for file in called} == {"core", DOMAINS[name]}
