"""Counts and intervals at every threshold, against the operating points at each of them."""

import numpy as np
import pytest
import torch

from tests.detection.test_cuts import RATIOS, metric
from tests.support.every_metric import METRICS
from tests.support.tolerances import REORDERED
from torch_ap.detection import MeanAveragePrecision
from torch_ap.detection.errors.every_threshold import numbers_at_every_threshold


def assert_equal_operating_points(metric, *, per_class, places):
    """Compare the thresholds at some places, as shares of all thresholds of a ranking."""
    found = numbers_at_every_threshold(metric._matches_at(None, None, None), per_class=per_class, confidence_level=0.9)
    sizes = np.diff(found.offsets)
    assert len(found.score) == sizes.sum()
    for share in places:
        chosen = found.offsets[:-1] + np.minimum((share * sizes).astype(int), np.maximum(sizes - 1, 0))
        scores = torch.tensor([found.score[x] if size else torch.inf for x, size in zip(chosen, sizes, strict=True)])
        points = metric.operating_points(
            score_threshold=scores if per_class else float(scores[0]), per_class=per_class, confidence_level=0.9
        )
        for ranking, (place, size) in enumerate(zip(chosen, sizes, strict=True)):
            expected = {name: x.reshape(-1)[ranking] for name, x in vars(points).items() if isinstance(x, torch.Tensor)}
            assert found.m[ranking] == expected["tp"] + expected["fn"]
            if not size:
                assert not expected["tp"]
                continue
            assert (found.tp[place], found.fp[place]) == (expected["tp"], expected["fp"])
            for row, name in enumerate(RATIOS):
                ends = [float(expected[f"{name}_{end}"]) for end in ("low", "high")]
                assert [found.low[row, place], found.high[row, place]] == pytest.approx(
                    ends, nan_ok=True, abs=REORDERED
                )


@pytest.mark.parametrize("per_class", [True, False])
def test_numbers_equal_the_operating_points(per_class):
    assert_equal_operating_points(metric(300), per_class=per_class, places=np.linspace(0, 1, 12))


@pytest.mark.parametrize("name", ["coco", "voc"])
def test_numbers_of_metrics_equal_the_operating_points(name):
    small = METRICS[name].new()
    for batch in METRICS[name].batches(2):
        small.update(**batch)
    assert_equal_operating_points(small, per_class=True, places=[0, 0.5, 1])


def test_without_a_hit_there_is_no_threshold():
    empty = MeanAveragePrecision()
    boxes, label = torch.tensor([[0.0, 0, 9, 9]]), torch.tensor([0])
    none = {"boxes": boxes[:0], "scores": torch.zeros(0), "labels": label[:0]}
    empty.update([none], [{"boxes": boxes, "labels": label}])
    for per_class in (True, False):
        found = numbers_at_every_threshold(empty._matches_at(), per_class=per_class, confidence_level=0.95)
        assert found.offsets.tolist() == [0, 0]
        assert found.m.tolist() == [1]
        assert not len(found.score)
