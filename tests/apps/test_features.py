"""Cells of the table of features on the landing page about other packages, by calls of these packages."""

import contextlib
import inspect
import io

import numpy as np
import pytest
import pytrec_eval
import torch
import torchmetrics
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from sklearn import metrics as sklearn_metrics
from torchmetrics import classification, retrieval, wrappers
from torchmetrics.detection import mean_ap


def trec(qrels, run, measure):
    return pytrec_eval.RelevanceEvaluator(qrels, {measure}).evaluate(run)["q"]


def test_trec_eval():
    qrels, run = {"q": {"a": 1, "b": 0, "z": 1}}, {"q": {"a": 0.5, "b": 0.5, "c": 0.1}}
    assert trec(qrels, run, "map")["map"] == 1 / 4, "z counts, and b precedes a, whose score is equal"
    assert trec(qrels, {"q": {"a": 0.9}}, "map_cut.1")["map_cut_1"] == 1 / 2, "AP@1 divides by both relevant documents"
    assert len(trec(qrels, run, "iprec_at_recall")) == 11


def test_torchmetrics():
    scores, target, indexes = torch.tensor([0.9, 0.8, 0.7]), torch.tensor([1, 0, 1]), torch.zeros(3, dtype=torch.int64)
    at_2 = retrieval.RetrievalMAP(top_k=2)
    assert float(at_2(scores, target, indexes)) == 1, "AP@2 divides by the one document found"
    assert "num_relevant" not in inspect.signature(at_2.update).parameters, "documents that were not retrieved"
    for metric in (classification.BinaryAveragePrecision(), at_2):
        assert not {"weights", "sample_weight"} & {*inspect.signature(metric.update).parameters}
    assert isinstance(classification.MultilabelAveragePrecision(2, thresholds=5).confmat, torch.Tensor)
    assert "num_bootstraps" in inspect.signature(wrappers.BootStrapper).parameters
    types = repr(inspect.signature(mean_ap.MeanAveragePrecision).parameters["iou_type"].annotation)
    assert [name for name in ("bbox", "segm", "boundary", "keypoints") if name in types] == ["bbox", "segm"]
    assert not [name for name in dir(torchmetrics.functional) if "chance" in name or "interval" in name]


def test_scikit_learn():
    assert "sample_weight" in inspect.signature(sklearn_metrics.average_precision_score).parameters
    assert sklearn_metrics.average_precision_score([1, 0, 1], [0.5, 0.5, 0.5]) == pytest.approx(2 / 3), "one group"
    with pytest.raises(ValueError, match="inhomogeneous"):
        sklearn_metrics.label_ranking_average_precision_score([[1, 0], [1, 0, 1]], [[0.1, 0.2], [0.1, 0.2, 0.3]])


def test_pycocotools():
    coco = COCO()
    boxes = [{"id": k, "image_id": k, "category_id": 1, "bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 0} for k in (1, 2)]
    coco.dataset = {"images": [{"id": 1}, {"id": 2}], "annotations": boxes[:1], "categories": [{"id": 1}]}
    with contextlib.redirect_stdout(io.StringIO()):
        coco.createIndex()
        values = []
        for order in (1, -1):  # equal scores: the order of the list
            results = [{"image_id": k, "category_id": 1, "bbox": [0, 0, 9, 9], "score": 0.5} for k in (1, 2)][::order]
            evaluation = COCOeval(coco, coco.loadRes(results), "bbox")
            evaluation.evaluate()
            evaluation.accumulate()
            values.append(evaluation.eval["precision"][0, :, 0, 0, -1].mean())
    assert values == pytest.approx([1, 1]), "the image with the lower id comes first, whatever the order of the list is"
    assert len(evaluation.params.recThrs) == 101
    assert np.array_equal(evaluation.params.iouThrs, np.linspace(0.5, 0.95, 10))
    for kind in ("bbox", "segm", "keypoints"):
        COCOeval(iouType=kind)
    with pytest.raises(Exception, match="iouType not supported"):
        COCOeval(iouType="boundary")
