"""Readers of files accept the content of a file, COCO objects and tables, with the same result and messages."""

import copy
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from tests.support.each import each
from torch_ap import compat
from torch_ap.files import read_activitynet, read_coco, read_hierarchy, read_lvis, read_qrels, read_run

BOX = {"image_id": 7, "category_id": 3, "bbox": [1, 2, 30.5, 40]}
TRUTH = {
    "images": [{"id": 7, "width": 90, "height": 80, "neg_category_ids": [], "not_exhaustive_category_ids": []}],
    "categories": [{"id": 3, "name": "cat", "frequency": "r"}],
    "annotations": [{**BOX, "id": 1, "area": 12.5, "iscrowd": 0}],
}
RESULTS = [{**BOX, "score": 0.5}, {**BOX, "bbox": [0, 0, 5, 5], "score": 0.25}]


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a.nan_to_num(-1), b.nan_to_num(-1))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[x], b[x]) for x in a)
    return all(map(equal, a, b)) if isinstance(a, list) else a == b


@pytest.fixture
def paths(tmp_path):
    for name, content in (("truth", TRUTH), ("found", RESULTS)):
        (tmp_path / name).write_text(json.dumps(content))
    return tmp_path / "truth", str(tmp_path / "found")


def contents():
    """Return annotations and results in each form."""
    coco = compat.COCO(copy.deepcopy(TRUTH))
    arrays = [{**x, "bbox": np.array(x["bbox"]), "score": np.float64(x["score"])} for x in RESULTS]
    tensors = tuple({**x, "bbox": torch.tensor(x["bbox"], dtype=torch.float64)} for x in RESULTS)
    return {
        "dict": (TRUTH, RESULTS),
        "object": (coco, coco.loadRes(copy.deepcopy(RESULTS))),
        "arrays": (TRUTH, arrays),
        "tensors": (TRUTH, tensors),
        "pandas": (TRUTH, pd.DataFrame(RESULTS)),
        "polars": (TRUTH, pl.DataFrame([{**x, "bbox": list(map(float, x["bbox"]))} for x in RESULTS])),
        "arrow": (TRUTH, pa.Table.from_pylist([{**x, "bbox": list(map(float, x["bbox"]))} for x in RESULTS])),
    }


@each("form", {name: name for name in contents()})
def test_content_is_read_as_its_file(form, paths):
    truth, results = contents()[form]
    before = copy.deepcopy(truth) if isinstance(truth, dict) else None
    for read in (read_coco, read_lvis):
        assert equal(vars(read(truth, results)), vars(read(*paths)))
    assert before is None or truth == before


def test_pycocotools_objects_and_codes_as_bytes(paths):
    theirs = pytest.importorskip("pycocotools.coco").COCO(paths[0])
    assert equal(vars(read_coco(theirs, theirs.loadRes(paths[1]))), vars(read_coco(*paths)))
    code = compat.mask.encode(np.asfortranarray(np.eye(80, 90, dtype=np.uint8)))
    masks = [{"image_id": 7, "category_id": 3, "score": 0.5, "segmentation": x} for x in (code,)]
    truth = {**TRUTH, "annotations": [{**TRUTH["annotations"][0], "segmentation": code}]}
    for counts in (code["counts"], code["counts"] if isinstance(code["counts"], bytes) else code["counts"].encode()):
        masks[0]["segmentation"] = {**code, "counts": counts}
        assert len(read_coco(truth, masks, "segm").preds[0]["masks"]) == 1


def test_errors_name_the_argument_and_the_entry():
    for truth, results, kind, part in (
        (TRUTH, [{**RESULTS[0], "image_id": 8}], ValueError, r"^`results`\[0\]: unknown image_id 8"),
        ({"images": []}, RESULTS, ValueError, "^`annotations`: must be a JSON object with the lists"),
        (RESULTS, TRUTH, ValueError, "are the two files swapped"),
        (3, RESULTS, TypeError, "`annotations` must be a path, a dict, a list, a COCO object or a table, got int"),
        (TRUTH, pd.DataFrame([{**RESULTS[0], "score": float("nan")}]), ValueError, r"^`results`\[0\]: 'score'"),
    ):
        with pytest.raises(kind, match=part):
            read_coco(truth, results)


def test_other_readers():
    one = {"segment": [2, 10], "label": "Surfing"}
    truth = {"database": {"v": {"subset": "validation", "duration": 20, "annotations": [one]}}}
    data = read_activitynet(truth, {"results": {"v": [{**one, "score": 0.9}]}})
    assert data.preds["intervals"].tolist() == [[2, 10]]
    with pytest.raises(ValueError, match=r"^`detections`: must be a JSON object"):
        read_activitynet(truth, {})
    tree = {"LabelName": "animal", "Subcategory": [{"LabelName": "dog"}]}
    assert read_hierarchy(tree, {"animal": 0, "dog": 1}) == {1: [0]}
    with pytest.raises(ValueError, match=r"^`path`: none of its names"):
        read_hierarchy(tree, {})
    table = {"query": ["q", "q"], "doc": ["a", "b"]}
    for content in ({"q": {"a": 1, "b": 0}}, pd.DataFrame({**table, "grade": [1, 0]})):
        assert read_qrels(content).relevance.tolist() == [1, 0]
    for content in ({"q": {"a": 1.5, "b": 0.5}}, pl.DataFrame({**table, "score": [1.5, 0.5]})):
        assert read_run(content).scores.tolist() == [1.5, 0.5]
