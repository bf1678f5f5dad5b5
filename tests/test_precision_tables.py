"""COCO's tables of precision, made from matches, are those of the hit curves."""

import pytest
import torch

from tests.oracles_detection import joined, random_scene
from torch_ap import MeanAveragePrecision
from torch_ap.curve import interpolation
from torch_ap.matching import coco, precision_tables


@pytest.mark.parametrize("chunk", [1, 1 << 15])
def test_tables_are_those_of_the_curves(chunk, monkeypatch):
    """To the last bit; of criteria in two words, levels in any order, and one threshold at a time or all."""
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
        wanted = interpolation.highest_at_levels(curve, precision, levels).reshape(*numbers.shape, -1).transpose(1, 2)
        assert torch.equal(numbers.precision(area, last), torch.where(m > 0, wanted, -1))
        found = curve.offsets.diff().reshape(numbers.shape)
        assert torch.equal(numbers.recall(area, last), torch.where(m > 0, found.double() / m, -1))
