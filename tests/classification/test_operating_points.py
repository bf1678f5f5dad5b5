"""Precision at a recall and recall at a precision: equal to torchmetrics and scikit-learn, and special cases."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import precision_recall_curve
from sklearn.model_selection import cross_val_score
from torchmetrics import MetricCollection, classification

import torch_ap
from tests.support.tolerances import SINGLE
from torch_ap import sklearn as scores_of
from torch_ap.functional import binary_precision_at_fixed_recall

KINDS = ["PrecisionAtFixedRecall", "RecallAtFixedPrecision"]
COLUMNS = {"Binary": (), "Multiclass": (3,), "Multilabel": (3,)}


def drawn(task, generator):
    """Return scores with many ties, and targets in which every class occurs."""
    size = int(torch.randint(4, 14, (1,), generator=generator))
    grid = int(torch.randint(3, 30, (1,), generator=generator))
    shape = (size, *COLUMNS[task])
    preds = torch.randint(grid, shape, generator=generator) / grid
    target = torch.randint(3 if task == "Multiclass" else 2, shape[: 2 - (task == "Multiclass")], generator=generator)
    target[: 3 if task == "Multiclass" else 1] = torch.arange(3) if task == "Multiclass" else 1
    return preds, target


@pytest.mark.parametrize("task", COLUMNS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("thresholds", [None, 5, [0.2, 0.5, 0.9]])
def test_equals_torchmetrics(task, kind, thresholds, generator):
    more = {"normalization": "none"} if task == "Multiclass" else {}
    for least in (0.0, 0.25, 0.5, 0.75, 1.0):
        preds, target = drawn(task, generator)
        ours = getattr(torch_ap, task + kind)(*COLUMNS[task], least, thresholds, **more)
        theirs = getattr(classification, task + kind)(*COLUMNS[task], least, thresholds)
        for metric in (ours, theirs):
            metric.update(preds[:3], target[:3])
            metric.update(preds[3:], target[3:])
        for found, wanted in zip(ours.compute(), theirs.compute(), strict=True):
            assert torch.allclose(found, wanted, rtol=SINGLE, atol=SINGLE, equal_nan=True)


def test_equals_the_function_and_the_operating_point(generator):
    for least in (0.0, 0.3, 0.9):
        preds, target = drawn("Binary", generator)
        weights = torch.randint(1, 9, target.shape, generator=generator) / 8
        metric, curve = torch_ap.BinaryPrecisionAtFixedRecall(least), torch_ap.BinaryAveragePrecision()
        metric.update(preds.double(), target, weights)
        curve.update(preds.double(), target, weights)
        precision, _, threshold = binary_precision_at_fixed_recall(preds.double(), target, least, weights=weights)
        assert metric.compute() == (precision, threshold)
        point = curve.curve().operating_point(recall=least)
        assert (point.precision, point.threshold) == (precision, threshold)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int64])
def test_the_threshold_selects_the_items(dtype):
    preds, target = torch.tensor([9, 8, 7, 6, 5], dtype=dtype), torch.tensor([1, 0, 1, 1, 0])
    metric = torch_ap.BinaryRecallAtFixedPrecision(0.75)
    metric.update(preds, target)
    recall, threshold = metric.compute()
    assert (recall, threshold) == (1, 6)
    assert threshold.dtype == (dtype if dtype.is_floating_point else torch.float64)
    assert target[preds >= threshold].double().mean() == 0.75


def test_no_positive_and_no_item():
    metric = torch_ap.BinaryPrecisionAtFixedRecall(0.5)
    metric.update(torch.tensor([0.9, 0.1]), torch.tensor([0, 0]))
    with pytest.warns(UserWarning, match="No positive"):
        precision, threshold = metric.compute()
    assert precision == 0
    assert math.isnan(threshold)
    error = torch_ap.BinaryPrecisionAtFixedRecall(0.5, empty_target_action="error")
    error.update(torch.tensor([0.9, 0.1]), torch.tensor([0, 0]))
    with pytest.raises(ValueError, match="`target` must contain a positive"):
        error.compute()
    empty = torch_ap.BinaryRecallAtFixedPrecision(0.5)
    empty.update(torch.empty(0), torch.empty(0, dtype=torch.int64))
    with pytest.warns(UserWarning, match="No items"):
        assert all(map(math.isnan, empty.compute()))


def test_no_threshold_reaches_the_precision():
    metric = torch_ap.BinaryRecallAtFixedPrecision(0.9)
    metric.update(torch.tensor([0.9, 0.1]), torch.tensor([0, 1]))
    recall, threshold = metric.compute()
    assert recall == 0
    assert math.isnan(threshold)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, "0.5", None])
def test_invalid_minimum(value):
    with pytest.raises(ValueError, match="`min_recall` must be a number in"):
        torch_ap.MultilabelPrecisionAtFixedRecall(3, value)
    with pytest.raises(ValueError, match="`min_precision` must be a number in"):
        torch_ap.BinaryRecallAtFixedPrecision(value)
    with pytest.raises(ValueError, match="`min_precision` must be a number in"):
        scores_of.recall_at_precision_scorer(value)


def test_settings_of_average_precision_are_unknown():
    for name in ("top_k", "interpolation", "bins", "prevalence"):
        with pytest.raises(ValueError, match=f"Unexpected keyword arguments: `{name}`"):
            torch_ap.BinaryRecallAtFixedPrecision(0.5, **{name: 3})


def test_collection_shares_the_items_and_plots(generator):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    metrics = MetricCollection(
        [torch_ap.BinaryPrecisionAtFixedRecall(0.5), torch_ap.BinaryRecallAtFixedPrecision(0.5)], compute_groups=True
    )
    preds, target = drawn("Binary", generator)
    metrics.update(preds, target)
    assert len(metrics.compute_groups) == 1
    metric = metrics["BinaryRecallAtFixedPrecision"]
    figure, ax = metric.plot()
    assert ax.lines[0].get_ydata().tolist() == [metric.compute()[0].item()]
    pyplot.close(figure)


SCORES = {
    "precision_at_recall_score": lambda precision, recall, least: precision[recall >= least].max(initial=0),
    "recall_at_precision_score": lambda precision, recall, least: recall[precision >= least].max(initial=0),
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_equal_the_curve_of_scikit_learn(name, weighted):
    rng = np.random.default_rng(0)
    keyword = "min_recall" if name.startswith("precision") else "min_precision"
    for least in (0.0, 0.4, 0.8, 1.0):
        y, s = rng.permutation(np.arange(30) % 3 > 1), rng.integers(0, 12, 30) / 12
        weight = rng.integers(1, 5, 30) if weighted else None
        precision, recall, _ = precision_recall_curve(y, s, sample_weight=weight)
        wanted = SCORES[name](precision[:-1], recall[:-1], least)  # without the point that has no threshold
        found = getattr(scores_of, name)(y, s, sample_weight=weight, **{keyword: least})
        assert found == pytest.approx(wanted)


def test_scorers():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(60, 2)), np.array(["no", "yes"])[rng.integers(0, 2, 60)]
    model = LogisticRegression().fit(x, y)
    scores = model.decision_function(x)
    for name in ("precision_at_recall", "recall_at_precision"):
        keyword = "min_recall" if name.startswith("precision") else "min_precision"
        scorer = getattr(scores_of, f"{name}_scorer")(0.6)
        score = getattr(scores_of, f"{name}_score")
        assert scorer(model, x, y) == score(y, scores, pos_label="yes", **{keyword: 0.6})
        assert len(cross_val_score(model, x, y, scoring=scorer, cv=3)) == 3


def test_invalid_targets_of_scores():
    with pytest.raises(ValueError, match="`y_true` must contain labels of two classes, got multiclass"):
        scores_of.precision_at_recall_score([0, 1, 2], [0.1, 0.2, 0.3], min_recall=0.5)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        scores_of.recall_at_precision_score([0, 1], [0.1, 0.2, 0.3], min_precision=0.5)
