"""Crowded scenes, where many detections overlap many ground truths, against pycocotools to the last bit."""

import numpy as np
import pytest
import torch

from tests.support.each import each
from tests.support.oracles_detection import joined, pycocotools_eval
from torch_ap.detection.matching import assignment, candidate_pairs
from torch_ap.functional import coco_mean_average_precision

SCENES = 300
ALWAYS, NEVER = 0, 1 << 30  # lower and upper bounds of the sizes for a faster algorithm
FAST_WAYS = [
    (assignment, "_COMPARISONS_PAY"),
    (assignment, "_NARROW"),
    (candidate_pairs, "_BLOCK"),
    (candidate_pairs, "_BLOCK_WIDTH"),
]


def crowded_scene(seed):
    """Draw one image of boxes around one place: equal boxes, IoUs and scores, crowds, areas at the limits."""
    r = np.random.default_rng(seed)
    spread, ignored = r.choice([0, 1, 4, 12]), r.choice([0.0, 0.1, 0.5])
    detections, truths = r.integers(1, 33, 2)
    side = r.choice([16.0, 32.0, 96.0])

    def boxes(count):
        shift = r.integers(-spread, spread + 1, (count, 4)) * r.choice([1.0, 0.5])
        return np.maximum(np.array([50.0, 50, side, side]) + shift, 0)

    true = boxes(truths)
    areas = true[:, 2] * true[:, 3] * r.choice([0.7, 1.0, 1.3], truths)
    scores = r.random(detections) if r.random() < 0.5 else r.choice([0.2, 0.6, 0.7], detections)
    found = {"boxes": boxes(detections), "scores": scores, "labels": r.integers(0, 2, detections)}
    known = {"boxes": true, "labels": r.integers(0, 2, truths), "area": areas}
    known["iscrowd"] = (r.random(truths) < ignored).astype(np.int64)
    return [[{key: torch.from_numpy(value) for key, value in side.items()}] for side in (found, known)]


def assert_equals_pycocotools(preds, target, limits):
    expected = pycocotools_eval(preds, target, limits=limits).eval
    ours = coco_mean_average_precision(
        preds, target, "xywh", extended_summary=True, max_detection_thresholds=limits, class_metrics=True
    )
    for name in ("precision", "recall", "scores"):
        np.testing.assert_array_equal(ours[name].numpy(), expected[name])


@pytest.mark.parametrize("limits", [[1, 10, 100], [3, 7]])
@pytest.mark.parametrize(("bound", "pairs"), [(ALWAYS, 200), (NEVER, NEVER)])
def test_crowded_scenes_equal_pycocotools(monkeypatch, limits, bound, pairs):
    for module, name in FAST_WAYS:
        monkeypatch.setattr(module, name, bound)
    for module, name in ((assignment, "_PAIRS_A_PART"), (candidate_pairs, "_PAIRS_A_BLOCK")):
        monkeypatch.setattr(module, name, pairs)
    first = SCENES * limits[0] if bound else 0  # other scenes for each case
    preds, target = joined(crowded_scene, range(first, first + SCENES), groups=1)
    assert_equals_pycocotools(preds, target, limits)


@each("spread", [0.0, 3.0, 30.0])
def test_large_crowds_equal_pycocotools(spread):
    r = np.random.default_rng(int(spread))
    sides = [torch.from_numpy(np.abs([90, 90, 40, 40] + spread * r.normal(size=(n, 4)))) for n in (120, 130)]
    preds = {"boxes": sides[0], "scores": torch.from_numpy(r.random(120).round(2)), "labels": torch.zeros(120).long()}
    area = torch.from_numpy(r.choice([900.0, 1024, 1600], 130))
    target = {"boxes": sides[1], "labels": torch.zeros(130).long(), "area": area}
    target["iscrowd"] = torch.from_numpy((r.random(130) < 0.05).astype(np.int64))
    assert_equals_pycocotools([preds], [target], [1, 10, 120])


@each("full", [True, False])
@each("lowest", [0.5, 1e-300, -4.0])
def test_preference_is_the_stable_order_in_any_range(lowest, full):
    """The IoUs differ in their last bits, so keys without these bits leave rows in a wrong order."""
    r = np.random.default_rng(0)
    values = np.array([lowest, 0.7, 0.9, 1.0])
    values = np.concatenate([values, np.nextafter(values[:-1], 2.0), np.nextafter(0.9, [0.0])])
    iou = r.choice(values, (40, 37))
    iou[0, :2] = lowest, 1.0
    count = np.full(40, 37) if full else r.integers(1, 38, 40)
    inside = None if full else np.arange(37) < count[:, None]
    for number in (iou, torch.from_numpy(iou)):
        kind = type(number)
        flags = inside if full or kind is np.ndarray else torch.from_numpy(inside)
        found = assignment.preferred_columns(number, flags)
        for row, columns, last in zip(iou, found.tolist(), count.tolist(), strict=True):
            assert columns[:last] == sorted(range(last), key=lambda x, row=row: (-row[x], -x))
