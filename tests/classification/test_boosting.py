"""Evaluation functions inside the training of XGBoost and LightGBM."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from torch_ap.boosting import lightgbm_metric, xgboost_metric
from torch_ap.functional import binary_average_precision, multiclass_average_precision, retrieval_average_precision
from torch_ap.functional import retrieval_normalized_dcg as normalized_dcg

lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
ROUNDS = 4
SIZES = [30, 1, 50, 39, 80]


@pytest.fixture(scope="module")
def table():
    draw = np.random.default_rng(5)
    features = draw.normal(size=(200, 4))
    return features, (features[:, 0] + draw.normal(size=200) > 0.8).astype(int), draw.random(200) + 0.5


def train_lightgbm(parameters, features, target, feval, **fields):
    """Return the values of each round, and the scores of the model after each round."""
    data, values = lightgbm.Dataset(features, target, free_raw_data=False, **fields), {}
    model = lightgbm.train(
        {"verbosity": -1, "num_threads": 1, "min_data_in_leaf": 2, "metric": "None", **parameters},
        *(data, ROUNDS),
        valid_sets=[data],
        feval=feval,
        callbacks=[lightgbm.record_evaluation(values)],
    )
    return values["training"], [model.predict(features, num_iteration=at + 1) for at in range(ROUNDS)]


def train_xgboost(parameters, features, target, metric, group=None, **fields):
    data, values = xgboost.DMatrix(features, target, **fields), {}
    if group is not None:
        data.set_group(group)
    model = xgboost.train(
        {"nthread": 1, "verbosity": 0, "disable_default_eval_metric": True, **parameters},
        *(data, ROUNDS),
        evals=[(data, "training")],
        custom_metric=metric,
        evals_result=values,
        verbose_eval=False,
    )
    return values["training"], [model.predict(data, iteration_range=(0, at + 1)) for at in range(ROUNDS)]


PACKAGES = {
    "lightgbm": (train_lightgbm, lightgbm_metric, {"objective": "binary"}, {"objective": "lambdarank"}, "weight"),
    "xgboost": (train_xgboost, xgboost_metric, {"objective": "binary:logistic"}, {"objective": "rank:ndcg"}, "weight"),
}
TOLERANCE = 1e-5  # xgboost prints and reports values with six digits


@pytest.mark.parametrize("package", PACKAGES)
def test_values_of_each_round_are_the_functions(package, table):
    train, metric, binary, ranking, weight = PACKAGES[package]
    features, target, weights = table
    y = torch.tensor(target)
    values, scores = train(binary, features, target, metric())
    assert values["ap"] == pytest.approx(
        [float(binary_average_precision(torch.tensor(x), y)) for x in scores], abs=TOLERANCE
    )
    values, scores = train(binary, features, target, metric("ap"), **{weight: weights})
    own = torch.tensor(weights, dtype=torch.float32)
    expected = [float(binary_average_precision(torch.tensor(x), y, weights=own)) for x in scores]
    assert values["ap"] == pytest.approx(expected, abs=TOLERANCE)
    index = torch.arange(len(SIZES)).repeat_interleave(torch.tensor(SIZES))
    for name, function in (("map@10", retrieval_average_precision), ("ndcg@5", normalized_dcg)):
        values, scores = train(ranking, features, target, metric(name), group=SIZES)
        k = int(name.partition("@")[2])
        expected = [float(function(torch.tensor(x), y, k, indexes=index).mean()) for x in scores]
        assert values[name] == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("package", PACKAGES)
def test_classes_have_a_mean(package, table):
    train, metric, *_ = PACKAGES[package]
    features, target, _ = table
    classes = target + (features[:, 1] > 1)
    objective = "multiclass" if package == "lightgbm" else "multi:softprob"
    values, scores = train({"objective": objective, "num_class": 3}, features, classes, metric("ap"))
    y = torch.tensor(classes)
    expected = [float(multiclass_average_precision(torch.tensor(x), y, 3)) for x in scores]
    assert values["map"] == pytest.approx(expected, abs=TOLERANCE)


def test_faults(table):
    features, target, weights = table
    for make in (lightgbm_metric, xgboost_metric):
        with pytest.raises(ValueError, match="unknown measure 'apk'"):
            make("apk")
        with pytest.raises(TypeError, match="`measure` must be the name"):
            make(3)
        with pytest.raises(ValueError, match="`ties`"):
            make("ap", ties="none")
    data = lightgbm.Dataset(features, target, weight=weights, free_raw_data=False).construct()
    with pytest.raises(ValueError, match="P@5 counts ranks"):
        lightgbm_metric("P@5")(features[:, 0], data)
    name, value, is_higher_better = lightgbm_metric("P@5")(
        features[:, 0], lightgbm.Dataset(features, target).construct()
    )
    best = target[np.argsort(-features[:, 0])[:5]].mean()
    assert (name, value, is_higher_better) == ("P@5", pytest.approx(best), True)


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        ([1, 0.75, 0], None, "`label` must contain integers from 0 to 1, got 0.75 at index 1"),
        ([1, 0, np.nan], None, "`label` must contain integers from 0 to 1, got nan at index 2"),
        ([2, 0, 1], None, "`label` must contain integers from 0 to 1, got 2.0 at index 0"),
        ([0, 2.5, 1], 3, "`label` must contain integers from 0 to 2, got 2.5 at index 1"),
        ([0, 3, 1], 3, "`label` must contain integers from 0 to 2, got 3.0 at index 1"),
    ],
)
def test_invalid_labels(labels, classes, message):
    values = {"get_label": np.array(labels, np.float32), "get_weight": None, "get_group": None}
    data = SimpleNamespace(**{name: lambda x=x: x for name, x in values.items()})
    shape = (3,) if classes is None else (3, classes)
    with pytest.raises(ValueError, match=message):
        lightgbm_metric("ap")(np.arange(math.prod(shape)).reshape(shape) / 10, data)


def normalized_ap(scores, target):
    share = target.mean()
    return (average_precision_score(target, scores) - share) / (1 - share)


def auprg(scores, target):
    """Integrate precision gain over recall gain with the points at recall gain 0 and at each hit, best first."""
    hits, share = target[np.argsort(-scores)].cumsum(), target.mean()
    fraction = np.linspace(share * target.sum(), target.sum(), 200_001)  # true positives
    items = np.interp(fraction, np.append(0, hits), np.arange(len(hits) + 1))
    place = np.searchsorted(hits, fraction)  # between two hits, counts are on a line over the item that is a hit
    items = place + fraction - np.append(0, hits)[place]
    odds = share / (1 - share)
    precision_gain, recall_gain = 1 - odds * (items - fraction) / fraction, 1 - odds * (hits[-1] - fraction) / fraction
    return np.trapezoid(precision_gain, recall_gain)


@pytest.mark.parametrize(("name", "scaled"), [("normalized_ap", normalized_ap), ("auprg", auprg)])
def test_measures_of_one_ranking(name, scaled, table):
    features, target, _ = table
    data = lightgbm.Dataset(features, target).construct()
    found = lightgbm_metric(name)(features[:, 0], data)
    assert found == (name, pytest.approx(scaled(features[:, 0], target), abs=1e-3), True)  # numerical integration
    grouped = lightgbm.Dataset(features, target, group=SIZES).construct()
    with pytest.raises(ValueError, match=f"measure '{name}' is of one ranking, without `group`"):
        lightgbm_metric(name)(features[:, 0], grouped)


def test_messages_name_no_options_of_the_command(table):
    features, target, _ = table
    data = lightgbm.Dataset(features, target).construct()
    with pytest.raises(ValueError, match="measure 'ndcg@5' requires `group`"):
        lightgbm_metric("ndcg@5")(features[:, 0], data)
    with pytest.raises(ValueError, match="`ties='expected'` has no closed form for 11-point"):
        lightgbm_metric("11-point", ties="expected")(features[:, 0], data)
