"""COCO's tables of precision, built from matches, equal the tables of the hit curves."""

import pytest
import torch

from tests.support.oracles_detection import joined, random_scene
from torch_ap import MeanAveragePrecision
from torch_ap.core.measures import interpolation
from torch_ap.detection.matching import precision_tables
from torch_ap.detection.rules import coco


@pytest.mark.parametrize("chunk", [1, 1 << 15])
def test_tables_equal_the_curves(chunk, monkeypatch):
    """Compare bits, with criteria in two words, unsorted levels, and thresholds one at a time or together."""
    monkeypatch.setitem(precision_tables._COUNTS_A_CHUNK, "cpu", chunk)
    thresholds = [0.9 - 0.04 * x for x in range(20)]
    metric = MeanAveragePrecision("xywh", iou_thresholds=thresholds, rec_thresholds=[0.7, 0.1, 1.0, 0.35])
    metric.update(*joined(random_scene, range(40)))
    numbers = coco.match(metric._settings, metric._columns(), "bbox")
    levels, last = numbers.levels, len(metric._settings.limits) - 1
    for area, m in enumerate(numbers.matches.relevant):
        curve = numbers.curve(area, last)
        hits = curve.cumulative_hits.double()
        precision = hits / (curve.cumulative_items - hits + hits + precision_tables.SPACING)
        wanted = interpolation.max_at_levels(curve, precision, levels).reshape(*numbers.shape, -1).transpose(1, 2)
        assert torch.equal(numbers.precision(area, last), torch.where(m > 0, wanted, -1))
        found = curve.offsets.diff().reshape(numbers.shape)
        assert torch.equal(numbers.recall(area, last), torch.where(m > 0, found.double() / m, -1))


def test_few_pairs_give_the_same_bits(monkeypatch):
    """Compare both ways to fill the tables, also their strides, which change the order of sums."""
    for seed in range(30):
        preds, target = joined(random_scene, range(3 * seed, 3 * seed + 1 + seed % 3))
        levels = (None, [0.0, 0.5, 1.0], [0.9, 0.1, 0.0], [0.3])[seed % 4]
        limits = (None, [1, 2])[seed % 2]
        options = {"rec_thresholds": levels, "max_detection_thresholds": limits, "class_metrics": True}
        found = []
        for most in (precision_tables._FEW_PAIRS, -1):
            monkeypatch.setattr(precision_tables, "_FEW_PAIRS", most)
            options["average"] = "micro" if seed % 5 == 4 else "macro"
            metric = MeanAveragePrecision("xywh", **options)
            metric.warn_on_many_detections = False
            metric.set_dtype(torch.float64)
            metric.update(preds, target)
            found.append(metric.compute())
        assert found[0].keys() == found[1].keys()
        for name, value in found[0].items():
            assert torch.equal(value, found[1][name]), name
        monkeypatch.undo()
