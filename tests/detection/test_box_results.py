"""Results read into arrays by ``msgspec``: equal to the reader of entries, or left to it."""

import copy
import gzip
import json
import random
import sys

import numpy as np
import pytest
import torch

from torch_ap.detection.files import box_results
from torch_ap.files import read_coco

TRUTH = {
    "images": [{"id": 7}, {"id": 2}, {"id": 5}],
    "categories": [{"id": 9, "name": "cat"}, {"id": 4, "name": "dog"}],
    "annotations": [{"id": 1, "image_id": 5, "category_id": 9, "bbox": [1, 1, 8, 8], "area": 60}],
}
FAULTS = {
    "unknown image": ("image_id", 3),
    "unknown category": ("category_id", 1),
    "text": ("score", "0.5"),
    "whole fraction as id": ("image_id", 7.5),
    "flag": ("category_id", True),
    "no score": ("score", None),
    "large score": ("score", 1 << 60),
    "huge id": ("image_id", 1 << 70),
    "negative width": ("bbox", [1, 1, -8, 8]),
    "three numbers": ("bbox", [1, 1, 8]),
    "large box": ("bbox", [1, 1, 8, 1e300]),
}
VALID = {
    "whole numbers": ("score", 1),
    "zero": ("bbox", [0, 0.0, 0, 8]),
    "subnormal": ("score", 5e-324),
    "unread numbers": ("id", 3),
    "unread polygons": ("segmentation", [[1, 2, 3.5, 4, 5, 6]]),
    "unread code": ("segmentation", {"size": [4, 4], "counts": "abc"}),
    "other key": ("comment", "a \"text\" with 'quotes'"),
}
READ_FAST = ("whole numbers", "zero", "unread numbers", "unread polygons")  # of VALID


def results(count=6):
    generator = random.Random(0)
    return [
        {
            "image_id": generator.choice([7, 2, 5]),
            "category_id": generator.choice([9, 4]),
            "bbox": [round(generator.uniform(0, 90), 2) for _ in range(4)],
            "score": generator.random(),
        }
        for _ in range(count)
    ]


def outcome(path):
    """Return the detections, or the message of the error."""
    try:
        return read_coco(TRUTH, path).preds
    except ValueError as error:
        return str(error)


def check(path, content, monkeypatch, is_fast):
    """Compare both readers; ``is_fast`` is whether the results are read into arrays."""
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    assert (box_results.read_boxes(path, [2, 5, 7], {9, 4}) is not None) == is_fast
    now = outcome(path)
    with monkeypatch.context() as patch:
        patch.setattr(box_results, "read_boxes", lambda *_: None)
        expected = outcome(path)
    if isinstance(expected, str):
        assert now == expected
        return
    assert list(now) == list(expected)
    for key, column in expected.items():
        torch.testing.assert_close(now[key], column, rtol=0, atol=0)


PARTS = [1, 150, 1 << 21]  # bytes that are decoded at a time: one entry, two, all


@pytest.mark.parametrize("part", PARTS)
def test_arrays_equal_the_reader_of_entries(part, tmp_path, monkeypatch):
    pytest.importorskip("msgspec")
    monkeypatch.setattr(box_results, "_PART", part)
    plain = results()
    check(tmp_path / "found.json", plain, monkeypatch, is_fast=True)
    check(tmp_path / "found.json", gzip.compress(json.dumps(plain).encode()), monkeypatch, is_fast=True)
    check(tmp_path / "found.json", b"\xef\xbb\xbf" + json.dumps(plain, indent=1).encode(), monkeypatch, is_fast=True)
    check(tmp_path / "found.json", [dict(reversed(x.items())) for x in plain], monkeypatch, is_fast=True)
    for name, (key, value) in VALID.items():
        changed = copy.deepcopy(plain)
        changed[2][key] = value
        check(tmp_path / "found.json", changed, monkeypatch, name in READ_FAST)


@pytest.mark.parametrize("part", PARTS)
def test_invalid_results_are_left_to_the_reader_of_entries(part, tmp_path, monkeypatch):
    monkeypatch.setattr(box_results, "_PART", part)
    for key, value in FAULTS.values():
        changed = results()
        changed[3][key] = value
        if value is None:
            del changed[3][key]
        check(tmp_path / "found.json", changed, monkeypatch, is_fast=False)
    text = json.dumps(results())
    for content in (
        text.replace('"score"', '"bbox": [1, 2, 3, 4], "score"', 1),  # repeated key
        text.replace('"score": 0', '"score": NaN, "id": 0', 1),
        text.replace('"score": 0', '"score": 1e-400, "id": 0', 1),
        text.replace('"score": 0', f'"score": 0.{"0" * 330}1, "id": 0', 1),
        text.replace('"score": 0', f'"score": {"9" * 5000}, "id": 0', 1),
        text[:-1],
        text[1:],
        text[:-1] + ",]",
        "[," + text[1:],
        text.replace("},", "},,", 1),
        text.replace("},", "}", 1),
        text.replace("},", "}],", 1),
        text.replace("},", "}, 3,", 1),
        f"\f{text}",
        f"{text}, 1",
        f"[{text}]",
        text + text,
        text.replace("},", "}\n").strip("[]"),  # JSON Lines
        "[]",
        "",
        "{}",
        "[" * 5000,
        text.encode("utf-16"),
    ):
        check(tmp_path / "found.json", content if isinstance(content, bytes) else content.encode(), monkeypatch, False)


def test_text_ids_and_missing_package(tmp_path, monkeypatch):
    path = tmp_path / "found.json"
    path.write_text(json.dumps(results()))
    assert box_results.read_boxes(path, ["2", "5"], {9}) is None
    monkeypatch.setitem(sys.modules, "msgspec", None)
    assert box_results.read_boxes(path, [2, 5, 7], {9, 4}) is None
    assert np.isfinite(outcome(path)["scores"].numpy()).all()
