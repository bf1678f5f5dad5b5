"""Operating points and confusion matrix of a detector, against loops over thresholds, images and pairs."""

import functools
import inspect
import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.support import oracles_cuts
from tests.support.each import each
from tests.support.every_metric import METRICS
from tests.support.modes import quiet
from tests.support.oracles_detection import joined, random_scene, to_voc
from tests.support.parts import count, cut
from tests.support.tolerances import REORDERED, SOLVED
from torch_ap.detection import (
    ConfusionMatrix,
    MeanAveragePrecision,
    OpenImagesMeanAveragePrecision,
    VOCMeanAveragePrecision,
)
from torch_ap.detection.errors import matches_at, operating_points
from torch_ap.detection.errors.confusion import one_to_one
from torch_ap.detection.errors.outcomes import row_pairs
from torch_ap.detection.matching import assignment

RATIOS = ("precision", "recall", "f_beta")
WANTED = [{}, {"beta": 0.3}, {"precision": 0.5}, {"precision": 1.0}, {"recall": 0.5}, {"recall": 1.0}]
ALL_IN_ONE_PASS = 300  # scenes whose intervals are computed image by image, among the 2,000


@functools.cache
def scenes(count=2000):
    """Return random scenes as one data set, with ties, crowds, empty images, and classes on one side only."""
    return joined(random_scene, range(count))


@functools.cache
def metric(count=2000):
    found = MeanAveragePrecision("xywh", iou_thresholds=[0.5, 0.75]).set_dtype(torch.float64)
    found.warn_on_many_detections = False
    found.update(*scenes(count))
    return found


@functools.cache
def items(count=2000):
    """Return by label the detections that count and the images of ground truths."""
    return oracles_cuts.coco_items(*map(oracles_cuts.plain, scenes(count)))


@functools.cache
def every_count():
    return [oracles_cuts.every_count(*each) for each in items().values()]


@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_operating_points_equal_a_loop_over_thresholds(wanted):
    found = metric().operating_points(**wanted)
    assert found.labels.tolist() == list(items())
    slow = [oracles_cuts.best(each, **wanted) for each in every_count()]
    np.testing.assert_array_equal(found.threshold, slow)
    rows = [
        oracles_cuts.counts(*each, math.inf if math.isnan(threshold) else threshold)
        for each, threshold in zip(items().values(), slow, strict=True)
    ]
    assert torch.stack([found.tp, found.fp, found.fn], 1).tolist() == [list(row) for row in rows]
    tp, fp, fn = (np.array(x, dtype=float) for x in zip(*rows, strict=True))
    with np.errstate(invalid="ignore"):
        missing = np.isnan(slow)
        square = wanted.get("beta", 1.0) ** 2
        wanted_f = (1 + square) * tp / ((1 + square) * tp + square * fn + fp)
        for name, value in zip(RATIOS, (tp / (tp + fp), tp / (tp + fn), wanted_f), strict=True):
            value[missing] = np.nan
            np.testing.assert_allclose(getattr(found, name), value, rtol=REORDERED)
    assert found.n.tolist() == [len(each) for each, _ in items().values()]
    assert 0.02 < missing.mean() < 0.95  # both kinds occur


@pytest.mark.parametrize("wanted", [{}, {"recall": 0.5}, {"beta": 2.0}], ids=str)
def test_intervals_equal_a_loop_over_images(wanted):
    found = metric().operating_points(**wanted, confidence_level=0.9)
    beta = wanted.get("beta", 1.0)
    rows = list(zip(items().values(), found.threshold.tolist(), strict=True))[:ALL_IN_ONE_PASS]
    slow = [
        [(math.nan, math.nan)] * 3
        if math.isnan(threshold)
        else oracles_cuts.ends(*each, threshold, beta=beta, level=0.9)
        for each, threshold in rows
    ]
    for place, name in enumerate(RATIOS):
        for end, which in (("_low", 0), ("_high", 1)):
            ours = getattr(found, name + end)[:ALL_IN_ONE_PASS].tolist()
            assert ours == pytest.approx([row[place][which] for row in slow], abs=SOLVED, nan_ok=True)
        known = ~torch.isnan(getattr(found, f"{name}_low"))
        low, value, high = (getattr(found, name + end)[known] for end in ("_low", "", "_high"))
        assert known.any()
        assert ((low >= 0) & (low <= value) & (value <= high) & (high <= 1)).all()


def test_one_threshold_for_all_classes():
    together = [x for each, _ in items(60).values() for x in each]
    truths = [x for _, each in items(60).values() for x in each]
    for wanted in ({}, {"precision": 0.35}, {"recall": 0.1}):
        found = metric(60).operating_points(**wanted, per_class=False)
        threshold = oracles_cuts.best(oracles_cuts.every_count(together, truths), **wanted)
        assert found.threshold.shape == found.recall_low.shape == found.tp.shape == ()
        assert float(found.threshold) == threshold
        assert (int(found.tp), int(found.fp), int(found.fn)) == oracles_cuts.counts(together, truths, threshold)
        each = metric(60).operating_points(score_threshold=threshold)
        assert [int(x.sum()) for x in (each.tp, each.fp, each.fn)] == [int(x) for x in (found.tp, found.fp, found.fn)]
        assert set(each.threshold.tolist()) == {threshold}


@pytest.mark.parametrize("marks", [1, 2, 7, 10**6])
def test_the_threshold_of_all_classes_is_the_same_however_many_hits_are_looked_at_first(marks, monkeypatch):
    monkeypatch.setattr(operating_points, "_MARKS", marks)
    together, truths = ([x for each in items(60).values() for x in each[side]] for side in (0, 1))
    every = oracles_cuts.every_count(together, truths)
    for wanted in (*WANTED, {"precision": 0.35}, {"recall": 0.1}):
        found = metric(60).operating_points(**wanted, per_class=False)
        np.testing.assert_array_equal(found.threshold, oracles_cuts.best(every, **wanted))


@pytest.mark.gpu
def test_one_threshold_of_many_hits_on_an_accelerator_without_a_warning(recwarn, monkeypatch):
    """torch warns once about a search in values that are not contiguous."""
    torch.set_warn_always(True)
    monkeypatch.setattr(operating_points, "_MARKS", 7)
    found = MeanAveragePrecision("xywh").to("cuda")
    found.update(*([{key: x.to("cuda") for key, x in image.items()} for image in side] for side in scenes(12)))
    recwarn.clear()
    try:
        together = found.operating_points(per_class=False)
    finally:
        torch.set_warn_always(False)
    assert int(together.tp) > 7
    assert [str(x.message) for x in recwarn] == []


def test_chosen_thresholds_reproduce_their_operating_points():
    """Thresholds from other images are valid, and for equal images the numbers are equal."""
    chosen = metric().operating_points()
    given = metric().operating_points(score_threshold=chosen.threshold)
    fields = {"method", "reason", "recall", "recall_low", "recall_high", "f_beta", "f_beta_low", "f_beta_high"}
    one, two = chosen.to_dict(), given.to_dict()
    assert {x: repr(one[x]) for x in one.keys() - fields} == {x: repr(two[x]) for x in two.keys() - fields}
    missing = torch.isnan(chosen.threshold)
    assert torch.equal(given.recall[~missing], chosen.recall[~missing])


@pytest.mark.parametrize("kind", [MeanAveragePrecision, VOCMeanAveragePrecision])
def test_points_are_on_the_curves(kind):
    preds, target = scenes(40)
    if kind is VOCMeanAveragePrecision:
        preds, target = to_voc(preds, target)
    found = kind("xyxy" if kind is VOCMeanAveragePrecision else "xywh").set_dtype(torch.float64)
    found.update(preds, target)
    for wanted in ({}, {"precision": 0.5}, {"recall": 0.5}):
        points = found.operating_points(**wanted)
        for place, curve in enumerate(found.curve()):
            one = curve.operating_point(**wanted)
            assert points.names[place] == curve.name
            for name in ("threshold", *RATIOS):
                both = [float(getattr(x, name)) for x in (one,)] + [float(getattr(points, name)[place])]
                assert both[0] == pytest.approx(both[1], rel=REORDERED, nan_ok=True), name


def test_a_class_without_ground_truths_or_with_all_in_one_image_has_a_reason():
    found = MeanAveragePrecision()
    box = torch.tensor([[10.0, 10, 50, 50]])
    for label in (0, 0, 1, 1):
        truth = {"boxes": box, "labels": torch.tensor([label])}
        found.update([{**truth, "scores": torch.tensor([0.9]), "labels": torch.tensor([2])}], [truth])
        found.update([{**truth, "scores": torch.tensor([0.8])}], [truth])
    points = found.operating_points(class_names=["cat", "dog", "hen"])
    assert points.names == ["cat", "dog", "hen"]
    assert points.reason == "1 of 3 classes: no ground truths"
    assert points.fn.tolist() == [2, 2, 0]
    assert torch.isnan(points.threshold).tolist() == [False, False, True]
    alone = MeanAveragePrecision()
    alone.update(
        [{"boxes": box, "labels": torch.tensor([0]), "scores": torch.tensor([0.5])}],
        [truth | {"labels": torch.tensor([0])}],
    )
    assert "no detection is chosen, or all are in one image" in alone.operating_points().reason
    assert torch.isnan(alone.operating_points().recall_low).all()


def test_thresholds_of_a_loss_are_numbers():
    """Thresholds are numbers even if the scores require gradients, for all classes and for each, without a warning."""
    for given in (torch.tensor(0.3, requires_grad=True), torch.full((3,), 0.3, requires_grad=True)):
        found = MeanAveragePrecision("xywh")
        found.update(*([{**x, "labels": x["labels"] % 3} for x in side] for side in scenes(20)))
        assert not found.confusion_matrix(score_threshold=given).score_threshold.requires_grad
        assert found.operating_points(score_threshold=given) == found.operating_points(score_threshold=given.detach())


# -- confusion matrix


@functools.cache
def three_class_scenes():
    """Return the scenes with three labels shared by their classes."""
    return [[{**image, "labels": image["labels"] % 3} for image in side] for side in scenes()]


def test_the_confusion_matrix_is_that_of_a_loop_over_pairs():
    (preds, target), score_threshold = three_class_scenes(), 0.3
    found = MeanAveragePrecision("xywh").set_dtype(torch.float64)
    found.update(preds, target)
    matrix = found.confusion_matrix(0.5, score_threshold)
    slow = oracles_cuts.confusion(*map(oracles_cuts.plain, (preds, target)), matrix.labels.tolist(), score_threshold)
    assert matrix.matrix.tolist() == slow.tolist()
    assert (slow > 0).sum() == slow.size - 1  # unlabelled and undetected entries are not counted
    of_each = torch.full((3,), score_threshold, dtype=torch.float64)
    assert found.confusion_matrix(score_threshold=of_each).matrix.tolist() == slow.tolist()
    points = found.operating_points(score_threshold=score_threshold)
    assert torch.equal(matrix.matrix[:-1].sum(1), points.tp + points.fn)
    assert torch.equal(matrix.matrix[:, :-1].sum(0), points.tp + points.fp)
    assert matrix.matrix.dtype == torch.int64
    assert torch.equal(matrix.labels, points.labels)


@functools.cache
def moved():
    """Return the scenes without crowds, as lists; no IoU equals another or the threshold."""
    r = np.random.default_rng(0)
    sides = [
        [{**x, "boxes": x["boxes"] + torch.from_numpy(r.uniform(0.01, 0.3, x["boxes"].shape))} for x in y]
        for y in three_class_scenes()
    ]
    for image in sides[1]:
        image["iscrowd"] = torch.zeros_like(image["iscrowd"])
    return sides


@functools.cache
def plainly_moved():
    return [oracles_cuts.plain(side) for side in moved()]


@functools.cache
def confused(score_threshold, by_iou):
    return oracles_cuts.confusion(*plainly_moved(), range(3), score_threshold, by_iou=by_iou)


def test_pairs_of_one_class_by_iou_as_supervision_has_them_are_nearly_the_same():
    ours, theirs = (confused(0.3, by_iou) for by_iou in (False, True))
    assert 0 < abs(ours - theirs).sum() < 0.001 * ours.sum()


def test_supervision_takes_pairs_by_iou():
    theirs = pytest.importorskip("supervision").ConfusionMatrix
    sides = moved()
    rows = [
        [torch.column_stack([x["boxes"][:, :2], x["boxes"][:, :2] + x["boxes"][:, 2:], x["labels"]]) for x in y]
        for y in sides
    ]
    rows[0] = [torch.column_stack([x, p["scores"]]) for x, p in zip(rows[0], sides[0], strict=True)]
    for least in (0.0, 0.3):
        wanted = theirs.from_tensors(*([x.numpy() for x in y] for y in rows), ["a", "b", "c"], least, 0.5).matrix
        assert confused(least, True).tolist() == np.asarray(wanted).tolist()


def test_pairs_are_taken_in_turn():
    """Compare random pairs in an order of preference with taking one after another; long chains too."""
    r = np.random.default_rng(0)
    chain = np.array([(k // 2, (k + 1) // 2) for k in range(400)])
    for pairs in (*(r.integers(0, 8, (r.integers(0, 30), 2)) for _ in range(200)), chain, chain[::-1].copy()):
        one, other = torch.from_numpy(pairs.reshape(-1, 2)).unbind(1)
        used, slow = (set(), set()), []
        for place, (a, b) in enumerate(pairs.tolist()):
            if a not in used[0] and b not in used[1]:
                used[0].add(a)
                used[1].add(b)
                slow.append(place)
        assert sorted(one_to_one(one, other, 400, 400).tolist()) == slow
        assert sorted(one_to_one(one.numpy(), other.numpy(), 400, 400).tolist()) == slow


# -- every kind of shape and input


def results_of(found, threshold=None):
    threshold = found._settings.thresholds[0] if threshold is None else threshold
    return [
        found.operating_points(threshold),
        found.operating_points(threshold, recall=0.2, per_class=False),
        found.confusion_matrix(threshold, 0.3),
    ]


HIGH_SCORES = (0.8, 2.0)
ROWS = ("coco", "coco_micro", "coco_masks", "coco_function", "voc", "lvis")


def check_ranks(rank):
    """Check that images on two ranks, one with a third or none of them, have the values of a single process."""
    for name, share in itertools.product(ROWS, (lambda n: [n - n // 3, n // 3], lambda n: [n, 0])):
        row = METRICS[name]
        drawn = row.draw(12, torch.Generator().manual_seed(3))
        parts = cut(drawn, share(count(drawn)))
        here, whole = row.new(), row.new(sync_on_compute=False)
        for place, part in enumerate(parts):
            for found in [whole] + [here] * (place == rank):
                if count(part):
                    quiet(found.update, **part)
        assert results_of(here) == results_of(whole), name


def test_two_ranks(ranks):
    ranks(check_ranks)


WITH_SHAPES = [x for x, row in METRICS.items() if row.kind == "images" and row.settings.get("match") != "update"]


def test_stored_matches_have_operating_points_but_no_confusion_matrix():
    kept, images = (MeanAveragePrecision("xywh", match=x).set_dtype(torch.float64) for x in ("update", "compute"))
    preds, target = scenes(60)
    for found in (kept, images):
        found.update(preds[:100], target[:100])
        found.update(preds[100:], target[100:])
    assert kept.operating_points() == images.operating_points()
    assert kept.operating_points(per_class=False) == images.operating_points(per_class=False)
    with pytest.raises(ValueError, match="`match='update'` keeps no shapes, which `confusion_matrix` needs"):
        kept.confusion_matrix()


@each("name", list(WITH_SHAPES))
def test_every_kind_of_shape(name):
    """The objects of the confusion matrix are the objects of the operating points, in any batches."""
    row = METRICS[name]
    drawn = row.draw(120, torch.Generator().manual_seed(1))
    third = count(drawn) // 3
    if "hierarchy" in row.settings:  # with a hierarchy, a class is not confused with its ancestors
        row = replace(row, settings={k: v for k, v in row.settings.items() if k != "hierarchy"})
    one, several = row.new(), row.new()
    quiet(one.update, **drawn)
    for part in cut(drawn, [third, 0, count(drawn) - third]):
        quiet(several.update, **part)
    first = several._settings.thresholds[0]
    alone = [several.confusion_matrix(first, score) for score in HIGH_SCORES]  # matches only the high scores
    assert quiet(results_of, one) == quiet(results_of, several)  # groups may be few
    assert [several.confusion_matrix(first, score) for score in HIGH_SCORES] == alone  # the matches of all scores
    points = quiet(one.operating_points, one._settings.thresholds[0], score_threshold=0.3)
    matrix = one.confusion_matrix(one._settings.thresholds[0], 0.3).matrix
    assert torch.equal(matrix[:-1].sum(1), points.tp + points.fn)
    assert torch.equal(matrix[:, :-1].sum(0), points.tp + points.fp)
    assert matrix[:-1, :-1].sum() > 0


@each("name", list(WITH_SHAPES))
def test_no_pair_of_an_image_is_below_the_minimum(name):
    row = METRICS[name]
    found = row.new()
    quiet(found.update, **row.draw(120, torch.Generator().manual_seed(1)))
    at = found._matches_at(found._settings.thresholds[0])
    columns, criteria = at.columns, at.matches.criteria
    chosen = np.ones(len(columns["detection_labels"]), bool), np.arange(len(columns["ground_truth_labels"]))
    for least in criteria.thresholds.tolist():
        pairs = row_pairs(at, *chosen, least)
        assert (pairs.iou >= least).all()
    assert len(pairs.iou)


@pytest.mark.parametrize("strict", [False, True])
def test_difficult_objects_and_strict_thresholds_of_voc(strict):
    found = VOCMeanAveragePrecision(inclusive_pixels=False, strict=strict)
    truth = torch.tensor([[0.0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10]])
    boxes = torch.tensor([[0.0, 0, 10, 5], [20, 0, 30, 10], [40, 0, 50, 10], [60, 0, 70, 10]])  # an IoU of 1 / 2 first
    found.update(
        [{"boxes": boxes, "scores": torch.tensor([0.9, 0.8, 0.7, 0.6]), "labels": torch.tensor([0, 0, 0, 1])}],
        [{"boxes": truth, "labels": torch.tensor([0, 0, 0]), "difficult": torch.tensor([0, 1, 0])}],
    )
    hit = 0 if strict else 1
    wanted = [[1 + hit, 0, 1 - hit], [0, 0, 0], [1 - hit, 1, 0]]
    assert found.confusion_matrix().matrix.tolist() == wanted
    found.reset()  # equal overlap, of two classes
    labels = {"labels": torch.tensor([0]), "boxes": truth[:1]}
    found.update([{"boxes": boxes[:1], "scores": torch.tensor([0.9]), "labels": torch.tensor([1])}], [labels])
    assert found.confusion_matrix().matrix.tolist() == [[0, hit, 1 - hit], [0, 0, 0], [0, 1 - hit, 0]]


@pytest.mark.parametrize("limit", [1, 2])
def test_only_the_best_detections_up_to_the_limit_are_confused(limit):
    found = MeanAveragePrecision(max_detection_thresholds=[1, 1, limit])
    found.warn_on_many_detections = False
    boxes = torch.tensor([[0.0, 0, 10, 10], [50, 50, 60, 60]])
    scores, labels = torch.tensor([0.9, 0.8]), torch.tensor([1, 1])
    found.update([{"boxes": boxes, "scores": scores, "labels": labels}], [{"boxes": boxes, "labels": labels - labels}])
    assert found.confusion_matrix().matrix.tolist() == [[0, limit, 2 - limit], [0, 0, 0], [0, 0, 0]]


def low_overlap(kind, **settings):
    """Return the matrix of a detection that overlaps an object of another class by less than the threshold."""
    found = kind(**settings)
    box = torch.tensor([[0.0, 0, 50, 10]])
    found.update(
        [{"boxes": box, "scores": torch.tensor([0.9]), "labels": torch.tensor([1])}],
        [{"boxes": box + torch.tensor([45.0, 0, 45, 0]), "labels": torch.tensor([0])}],
    )
    return found.confusion_matrix().matrix.tolist()


def test_boxes_of_two_classes_that_overlap_too_little_are_not_confused():
    of_voc = ({"inclusive_pixels": pixels, "strict": strict} for pixels in (False, True) for strict in (False, True))
    rows = [(VOCMeanAveragePrecision, settings) for settings in of_voc]
    for kind, settings in [(MeanAveragePrecision, {}), (OpenImagesMeanAveragePrecision, {}), *rows]:
        assert low_overlap(kind, **settings) == [[0, 0, 1], [0, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("threshold", [0.5, 1.0])
def test_a_strict_threshold_of_one_is_exceeded_by_no_pair_of_two_classes(threshold):
    found = VOCMeanAveragePrecision(strict=True, iou_thresholds=threshold)
    box, score = {"boxes": torch.tensor([[0.0, 0, 10, 10]])}, {"scores": torch.tensor([0.9])}
    found.update([{**box, **score, "labels": torch.tensor([1])}], [{**box, "labels": torch.tensor([0])}])
    hit = int(threshold < 1)
    assert found.confusion_matrix().matrix.tolist() == [[0, hit, 1 - hit], [0, 0, 0], [0, 1 - hit, 0]]


def test_the_same_class_comes_before_a_better_overlap():
    found = MeanAveragePrecision(class_names=["cat", "dog"])
    truth = {"boxes": torch.tensor([[0.0, 0, 10, 10]]), "labels": torch.tensor([0])}
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 8], [0, 0, 10, 9]])
    found.update(
        [{"boxes": boxes, "scores": torch.tensor([0.9, 0.3, 0.8]), "labels": torch.tensor([1, 0, 1])}], [truth]
    )
    assert found.confusion_matrix().matrix.tolist() == [[1, 0, 0], [0, 0, 0], [0, 2, 0]]
    assert found.confusion_matrix(0.85).matrix.tolist() == [[0, 1, 0], [0, 0, 0], [1, 1, 0]]
    assert found.confusion_matrix(0.85).names == ["cat", "dog", "background"]
    assert found.confusion_matrix(class_names=["a", "b"]).names == ["a", "b", "background"]


def test_shares_of_the_matrix():
    found = ConfusionMatrix(torch.tensor([[3, 1, 0], [0, 0, 0], [1, 0, 0]]), torch.arange(2), ["a", "b", "-"], 0.5, 0.2)
    assert found.normalized()[0].tolist() == [0.75, 0.25, 0]
    assert torch.isnan(found.normalized()[1]).all()
    assert found.normalized("pred")[:, 0].tolist() == [0.75, 0, 0.25]
    assert found.normalized("all").sum() == pytest.approx(1)
    assert found.to_dict()["matrix"] == [[3, 1, 0], [0, 0, 0], [1, 0, 0]]
    with pytest.raises(ValueError, match="`over` must be one of"):
        found.normalized("rows")


def test_matching_is_done_once_and_again_when_the_state_is_another(monkeypatch):
    done = Counter()

    def count_calls(*args, **kwargs):
        done["matched"] += 1
        return greedy(*args, **kwargs)

    greedy = assignment.greedy
    monkeypatch.setattr(assignment, "greedy", count_calls)
    found = MeanAveragePrecision("xywh", class_metrics=True)
    preds, target = scenes(20)
    found.update(preds[:30], target[:30])
    before = found.compute()["map"], results_of(found), found.per_class()["tp"], found.curve()
    assert done["matched"] == 1
    found.update(preds[30:], target[30:])
    assert results_of(found) != before[1]
    assert done["matched"] == 2
    found.reset()
    found.update(preds[:30], target[:30])
    assert results_of(found) == before[1]
    assert done["matched"] == 3
    found.detection_scores[0].mul_(-1)
    assert results_of(found) != before[1]
    assert done["matched"] == 4


REFUSED = {
    "iou_threshold": ({"iou_threshold": 0.42}, "`iou_threshold` must be one of 0.5, .* got 0.42"),
    "iou_type": ({"iou_type": "segm"}, "`iou_type` must be one of"),
    "class_names": ({"class_names": ["a"]}, "`class_names` as a list of 1"),
    "class names": ({"class_names": 3}, "`class_names` must be None, a list"),
    "score_threshold": ({"score_threshold": "high"}, "`score_threshold` must be a number .* got 'high'"),
    "a NaN": ({"score_threshold": math.nan}, "`score_threshold` must be a number other than NaN"),
    "a bool": ({"score_threshold": True}, "`score_threshold` must be a number .* got True"),
    "bools": ({"score_threshold": torch.tensor(True)}, "`score_threshold` must be a number .* got tensor"),
    "bools of classes": ({"score_threshold": torch.ones(60, dtype=torch.bool)}, "`score_threshold` must be a number"),
    "complex": ({"score_threshold": torch.ones((), dtype=torch.complex64)}, "`score_threshold` must be a number"),
    "words": ({"score_threshold": ["high"]}, r"or tensor of one for each of the \d+ classes, got \['high'\]"),
    "too few": ({"score_threshold": [0.5]}, r"or tensor of one for each of the \d+ classes, got \[0.5\]"),
    "a class without": ({"score_threshold": {99: 0.5}}, "of each class, and has none of label 0, got {99: 0.5}"),
    "another number": ({"score_threshold": torch.ones(7)}, r"one for each of the \d+ classes, got \(7,\)"),
}
REFUSED_BY_POINTS = {
    "both": ({"precision": 0.5, "recall": 0.5}, "`precision` and `recall` cannot be combined"),
    "all": ({"precision": 0.5, "score_threshold": 0.5}, "`score_threshold` cannot be combined with `precision`"),
    "precision": ({"precision": 1.5}, r"`precision` must be a number in \[0, 1\], got 1.5"),
    "beta": ({"beta": 0.0}, "`beta` must be a finite number above 0"),
    "level": ({"confidence_level": 1}, "`confidence_level` must be"),
    "per_class": ({"per_class": 1}, "`per_class` must be a bool"),
}


@pytest.mark.parametrize(
    "settings", [*REFUSED.values(), *REFUSED_BY_POINTS.values()], ids=[*REFUSED, *REFUSED_BY_POINTS]
)
def test_bad_arguments_are_refused_by_name(settings):
    given, message = settings
    for method in ("operating_points", "confusion_matrix")[
        : 1 if given in [x for x, _ in REFUSED_BY_POINTS.values()] else 2
    ]:
        with pytest.raises(ValueError, match=message):
            getattr(metric(60), method)(**given)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.float64])
def test_scores_of_any_dtype(dtype):
    box, labels = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]]), torch.tensor([0, 1])
    scores = torch.tensor([3, 1]).to(dtype)
    found = MeanAveragePrecision()
    for _ in range(2):
        found.update([{"boxes": box, "scores": scores, "labels": labels}], [{"boxes": box, "labels": labels}])
    points = found.operating_points()
    assert points.threshold.tolist() == [3, 1]
    assert points.threshold.dtype == (dtype if dtype.is_floating_point else torch.float64)
    assert points.precision.dtype == torch.float64
    assert float(found.operating_points(per_class=False).threshold) == 1
    assert float(found.operating_points(per_class=False, precision=1.0).threshold) == 1
    assert found.confusion_matrix(score_threshold=points.threshold).matrix.tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 0]]
    assert found.confusion_matrix(score_threshold=2).matrix.tolist() == [[2, 0, 0], [0, 0, 2], [0, 0, 0]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_threshold_is_not_rounded_to_the_dtype_of_the_scores(dtype):
    """The record and the memory of the caller are not rounded either."""
    box, labels = torch.tensor([[10.0, 10, 50, 50]]), torch.tensor([0])
    score = torch.tensor([0.65625]).to(dtype)  # exact in each; the next number of bfloat16 is 0.66015625
    found = MeanAveragePrecision()
    found.update([{"boxes": box, "scores": score, "labels": labels}], [{"boxes": box, "labels": labels}])
    for given, tp in ((0.65725 if dtype == torch.bfloat16 else 0.6563, 0), (0.65625, 1), (0.6562, 1)):
        of_each = torch.tensor([given], dtype=torch.float64)
        for threshold in (given, of_each):
            points = found.operating_points(score_threshold=threshold)
            matrix = found.confusion_matrix(score_threshold=threshold)
            assert (points.tp.item(), matrix.matrix[0, 0].item()) == (tp, tp)
            for held in (points.threshold, matrix.score_threshold):
                assert held.dtype == (dtype if dtype == torch.float64 else torch.float32)
                assert held.item() == of_each.to(held.dtype).item()
                held.fill_(77)
        assert of_each.item() == given
        assert found.per_image(score_threshold=given)["tp"].item() == tp
        assert found.per_class(score_threshold=given)["tp"].item() == tp
    together = metric().operating_points(score_threshold=0.3)
    together.threshold[0] = 77
    assert together.threshold[1] != 77


def test_without_images_there_is_nothing():
    for kind in (MeanAveragePrecision, VOCMeanAveragePrecision):
        points, together, matrix = results_of(kind())
        assert points.threshold.shape == (0,)
        assert math.isnan(together.threshold)
        assert (matrix.matrix.tolist(), matrix.names) == ([[0]], ["background"])


def default_of(iou_thresholds):
    """Return the default results of each method that takes one IoU threshold, and the threshold of each."""
    preds, target = scenes(20)
    metrics = [MeanAveragePrecision("xywh", iou_thresholds=iou_thresholds)]
    metrics.append(VOCMeanAveragePrecision(iou_thresholds=iou_thresholds, inclusive_pixels=False))
    for found, given in zip(metrics, ((preds, target), to_voc(preds, target)), strict=True):
        found.update(*given)
        kind = type(found)
        methods = [x for x, f in inspect.getmembers(kind) if "iou_threshold" in getattr(f, "__annotations__", ())]
        for name in methods:
            if name.startswith("_"):
                continue
            default, *each = (
                repr(getattr(found, name)(**at)) if name == "curve" else repr(plainly(getattr(found, name)(**at)))
                for at in ({}, *({"iou_threshold": x} for x in iou_thresholds))
            )
            yield kind.__name__, name, [x for x, said in zip(iou_thresholds, each, strict=True) if said == default]


def plainly(found):
    return found if isinstance(found, dict) else found.to_dict()


@pytest.mark.parametrize(("known", "wanted"), [([0.7, 0.3, 0.5], 0.5), ([0.75], 0.75), ([0.9, 0.6], 0.6)], ids=str)
def test_methods_of_one_threshold_have_the_same_default(known, wanted):
    found = list(default_of(known))
    assert {"operating_points", "confusion_matrix", "curve", "per_class", "errors", "per_image"} <= {
        x for _, x, _ in found
    }
    assert [(*x, at) for *x, at in found if at != [wanted]] == []


def test_thresholds_of_other_images_follow_their_labels():
    preds, target = scenes(60)
    other = MeanAveragePrecision("xywh").set_dtype(torch.float64)
    sides = ([{k: v[x["labels"] != 0] for k, v in x.items()} for x in side] for side in (preds, target))
    other.update(*sides)
    points = metric(60).operating_points()
    by_label = dict(zip(points.labels.tolist(), points.threshold.tolist(), strict=True))
    known = other.operating_points(score_threshold=points)
    assert known.labels.tolist() == points.labels.tolist()[1:]
    assert torch.equal(known.threshold.nan_to_num(-1), points.threshold[1:].nan_to_num(-1))
    for given in (by_label, known.threshold, known.threshold.tolist(), known):
        again = other.operating_points(score_threshold=given)
        assert torch.equal(again.tp, points.tp[1:])
        assert repr(again) == repr(known)
        matrix = other.confusion_matrix(score_threshold=given).matrix
        assert torch.equal(matrix.diagonal()[:-1], points.tp[1:])
    with pytest.raises(ValueError, match="must have a threshold of each class, and has none of label 0"):
        metric(60).operating_points(score_threshold=known)
    one = metric(60).operating_points(per_class=False)
    assert repr(metric(60).operating_points(score_threshold=one, per_class=False).tp) == repr(one.tp)
    for given in (points, by_label):
        with pytest.raises(ValueError, match="OperatingPoints of one threshold, where `per_class=False`, got"):
            metric(60).operating_points(score_threshold=given, per_class=False)


@pytest.mark.parametrize("many", [7, 100, 1 << 29, (1 << 29) + 1, 1 << 40])
def test_any_number_of_cells_is_counted(many):
    n, m = (torch.tensor(x) for x in ([0, 3, 3, many - 1, many - 1], [many - 1, 5, 3]))
    cells, *counts = matches_at._cells(n, torch.tensor([False, False, True, True, False]), m, many)
    assert cells.tolist() == [0, 3, 5, many - 1]
    assert [x.tolist() for x in counts] == [[0, 1, 0, 1], [1, 2, 0, 2], [0, 1, 1, 1]]
