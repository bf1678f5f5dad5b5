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
