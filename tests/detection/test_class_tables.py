"""The class table of every detection metric: numbers, curves and intervals in rows."""

import inspect

import pytest
import torch

from tests.support.each import each
from tests.support.every_metric import METRICS, one_each
from tests.support.modes import quiet
from torch_ap import MeanAveragePrecision, OpenImagesMeanAveragePrecision, VOCMeanAveragePrecision

NAMES = ("coco", "coco_matched", "coco_micro", "lvis_matched", "nuscenes_packed", "voc_11_point", "voc_matched")
ROWS = {*(name for name in one_each(METRICS) if METRICS[name].kind == "images"), *NAMES}
FEW = {"n_resamples": 10, "confidence_level": 0.8}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_rows_agree_with_curves_and_intervals(name):
    row = METRICS[name]
    metric = row.new()
    for batch in row.batches(2, 120):
        metric.update(**batch)
    threshold = metric._settings.thresholds[-1]
    table, curves = metric.per_class(threshold, interval=True, **FEW), metric.curve(threshold)
    value = metric.compute()
    assert table["class"].tolist() == value["classes"].reshape(-1).tolist()
    assert table["name"] == [curve.name for curve in curves]
    assert table["ground_truths"].tolist() == [int(curve.m) for curve in curves]
    assert table["tp"].tolist() == [int(curve.hits[-1]) if len(curve.hits) else 0 for curve in curves]
    assert table["fp"].tolist() == [int(curve.n - hits) for curve, hits in zip(curves, table["tp"], strict=True)]
    least = float(torch.cat([curve.thresholds for curve in curves]).median())
    few = metric.per_class(threshold, score_threshold=least)
    kept = [curve.hits[curve.thresholds >= least] for curve in curves]
    assert few["tp"].tolist() == [int(hits[-1]) if len(hits) else 0 for hits in kept]
    known = table["ap"][table["ground_truths"] > 0]
    if row.settings.get("average") != "micro":
        torch.testing.assert_close(known.mean().to(value["map"].dtype), value["map"])
    ends = metric.confidence_interval(per_class=True, **FEW)
    torch.testing.assert_close([table["ap_low"], table["ap_high"]], [ends.low, ends.high], equal_nan=True)
    assert list(metric.per_class(threshold)) == [x for x in table if x not in ("ap_low", "ap_high")]


def test_names_of_the_metric_are_used_everywhere():
    boxes = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]])
    found = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([3, 4])}
    target = {"boxes": boxes, "labels": torch.tensor([3, 3])}
    for make in (VOCMeanAveragePrecision, OpenImagesMeanAveragePrecision):
        metric = make(class_names={3: "cat", 4: "dog"})
        metric.update([found], [target])
        assert "class_names={3: 'cat', 4: 'dog'}" in repr(metric)
        assert metric.per_class()["name"] == [x.name for x in metric.curve()] == ["cat", "dog"]
        assert metric.operating_points().names == metric.errors().per_class["name"] == ["cat", "dog"]
        assert metric.confusion_matrix().names == ["cat", "dog", "background"]
        assert [x.name for x in metric.curve(class_names={3: "c"})] == ["c", "4"]
        with pytest.raises(ValueError, match="`class_names` must be None, a list of names"):
            make(class_names=[1])
        with pytest.raises(ValueError, match=r"`iou_threshold` must be one of 0\.5, got 0\.7"):
            metric.per_class(0.7)
        with pytest.raises(ValueError, match="`interval` must be a bool, got 1"):
            metric.per_class(interval=1)


NAMED = {name: row for name, row in METRICS.items() if "class_names" in inspect.signature(row.call).parameters}


@each("row", NAMED)
def test_a_label_beyond_a_list_of_names_is_refused_in_update(row):
    for batch in row.batches(2, 60):
        metric = row.call(**{**row.settings, "class_names": ["only"]})
        with pytest.raises(ValueError, match=r"`class_names` as a list of 1 names .* got the label"):
            quiet(metric.update, **batch)
        assert (metric.update_count, metric.detection_labels) == (0, [])
        for names in ({0: "only"}, [f"class {label}" for label in range(1 << 12)]):
            quiet(row.call(**{**row.settings, "class_names": names}).update, **batch)


@pytest.mark.gpu
def test_on_an_accelerator_it_is_refused_in_compute():
    box = torch.tensor([[1.0, 1, 9, 9]]).cuda()
    truth = {"boxes": box, "labels": torch.tensor([1]).cuda()}
    for make in (MeanAveragePrecision, VOCMeanAveragePrecision):
        metric = make(class_names=["only"]).to("cuda")
        metric.update([truth | {"scores": box[:, 0]}], [truth])
        with pytest.raises(ValueError, match="got the label 1"):
            metric.compute()
        with pytest.raises(ValueError, match="got the label 1"):
            make(class_names=["only"], match="update").to("cuda").update([truth | {"scores": box[:, 0]}], [truth])
