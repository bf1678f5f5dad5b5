"""The scorer in scikit-learn's own tools, against scikit-learn's scorer with the same name."""

import itertools
import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score as sklearns
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, ShuffleSplit, cross_val_score, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB

from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap.inference import compare_splits
from torch_ap.sklearn import average_precision_score, average_precision_scorer


@pytest.fixture(scope="module")
def data():
    return make_classification(200, weights=[0.8], random_state=0)


@pytest.mark.parametrize("estimator", [LogisticRegression(), GaussianNB(), DummyClassifier()], ids=str)
def test_cross_validation(estimator, data):
    ours = cross_val_score(estimator, *data, scoring=average_precision_scorer, cv=4)
    wanted = cross_val_score(estimator, *data, scoring="average_precision", cv=4)
    np.testing.assert_allclose(ours, wanted, rtol=REORDERED)


def test_several_scores_at_once_and_grid_search(data):
    scoring = {"ap": average_precision_scorer, "theirs": "average_precision", "auc": "roc_auc"}
    found = cross_validate(LogisticRegression(), *data, scoring=scoring, cv=3, return_train_score=True)
    for part in ("test", "train"):
        np.testing.assert_allclose(found[f"{part}_ap"], found[f"{part}_theirs"], rtol=REORDERED)
    grid = {"C": [1e-3, 1.0]}
    searches = [
        GridSearchCV(LogisticRegression(), grid, scoring=how, cv=3).fit(*data)
        for how in (average_precision_scorer, "average_precision")
    ]
    assert searches[0].best_params_ == searches[1].best_params_
    assert searches[0].best_score_ == pytest.approx(searches[1].best_score_)
    refit = GridSearchCV(LogisticRegression(), grid, scoring=scoring, refit="ap", cv=3).fit(*data)
    assert refit.best_params_ == searches[0].best_params_
    assert clone(refit).scoring["ap"] is not None


def test_higher_is_better_and_survives_pickle(data):
    fitted = LogisticRegression().fit(*data)
    value = average_precision_scorer(fitted, *data)
    assert isinstance(value, float)
    assert value == pytest.approx(sklearns(data[1], fitted.decision_function(data[0])))
    assert pickle.loads(pickle.dumps(average_precision_scorer))(fitted, *data) == value


@pytest.mark.parametrize("names", [["no", "yes"], [False, True], [-1, 1], [1, 2], [0.0, 1.0]], ids=str)
def test_labels_of_any_kind(names, data):
    x, y = data
    labels = np.asarray(names)[y]
    fitted = LogisticRegression().fit(x, labels)
    wanted = sklearns(y, fitted.decision_function(x))
    assert average_precision_scorer(fitted, x, labels) == pytest.approx(wanted, rel=REORDERED)
    first = make_scorer(average_precision_score, response_method="predict_proba", pos_label=names[0])
    assert first(fitted, x, labels) == pytest.approx(sklearns(1 - y, fitted.predict_proba(x)[:, 0]), rel=REORDERED)


def test_weights(data):
    x, y = data
    weights = np.random.default_rng(0).random(len(y))
    scores = x[:, 0].astype(np.float32)
    assert average_precision_score(y, scores, sample_weight=weights) == pytest.approx(
        sklearns(y, scores, sample_weight=weights)
    )
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(average_precision_score, response_method="decision_function")
        scorer = scorer.set_score_request(sample_weight=True)
        estimator = LogisticRegression().set_fit_request(sample_weight=False)
        found = cross_validate(estimator, x, y, scoring=scorer, cv=3, params={"sample_weight": weights})
        theirs = make_scorer(sklearns, response_method="decision_function").set_score_request(sample_weight=True)
        wanted = cross_validate(estimator, x, y, scoring=theirs, cv=3, params={"sample_weight": weights})
    np.testing.assert_allclose(found["test_score"], wanted["test_score"], rtol=REORDERED)


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_more_classes(average):
    x, y = make_classification(300, n_informative=5, n_classes=4, random_state=1)
    names = np.array(["d", "a", "c", "b"])[y]
    fitted = LogisticRegression().fit(x, names)
    scores = fitted.predict_proba(x)
    found = average_precision_score(names, scores, average=average)
    assert found == pytest.approx(sklearns(names, scores, average=average))
    assert average_precision_scorer(fitted, x, names) == pytest.approx(sklearns(names, fitted.decision_function(x)))
    order = [2, 0, 3, 1]
    again = average_precision_score(names, scores[:, order], labels=fitted.classes_[order], average=average)
    assert again == pytest.approx(found)
    with pytest.raises(ValueError, match="`labels` must name the 4 columns"):
        average_precision_score(names[names != "a"], scores[names != "a"])
    with pytest.raises(ValueError, match=r"`y_true` .*`labels`"):
        average_precision_score(names, scores, labels=["a", "b", "c", "e"])


def test_labels_of_many_kinds_at_once():
    x, y = make_multilabel_classification(200, n_classes=3, random_state=0)
    for estimator in (OneVsRestClassifier(LogisticRegression()), RandomForestClassifier(10, random_state=0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = cross_val_score(estimator, x, y, scoring=average_precision_scorer, cv=3)
            wanted = cross_val_score(estimator, x, y, scoring="average_precision", cv=3)
        np.testing.assert_allclose(ours, wanted, rtol=REORDERED)


def test_conventions(data):
    x, y = data
    scorer = make_scorer(average_precision_score, response_method="decision_function", top_k=10, denominator="min")
    fitted = LogisticRegression().fit(x, y)
    top = np.sort(y[np.argsort(-fitted.decision_function(x))][:10][::-1])
    assert 0 <= scorer(fitted, x, y) <= 1
    assert scorer(fitted, x, y) == 1 or top.sum() < 10
    assert average_precision_score([0, 1], [1.0, 1.0], ties="expected") == 0.75


def test_repeated_splits_compare_by_the_corrected_t(data):
    cv = ShuffleSplit(10, test_size=0.2, random_state=0)
    a, b = (
        torch.from_numpy(cross_val_score(model, *data, scoring=average_precision_scorer, cv=cv))
        for model in (LogisticRegression(), DummyClassifier())
    )
    found = compare_splits(a, b, n_train=160, n_test=40)
    assert found.low > 0
    assert found.p_value < 0.05


def test_bad_labels():
    with pytest.raises(ValueError, match="`pos_label` is required"):
        average_precision_score(["a", "a"], [0.1, 0.2], pos_label=None)
    for labels, unknown in ((["a", "b"], "c"), ([0, 1], 2), ([-1, 1], "1")):
        with pytest.raises(ValueError, match=r"`pos_label` must be one of the labels .* got "):
            average_precision_score(labels, [0.1, 0.2], pos_label=unknown)
    with pytest.warns(UserWarning, match="No positive"):  # as in a fold that lacks them
        assert average_precision_score(["a", "a"], [0.1, 0.2], pos_label="b") == 0
    with pytest.raises(ValueError, match="y_score contains NaN"):
        average_precision_score([0, 1], [0.1, np.nan])


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    monkeypatch.delitem(sys.modules, "torch_ap.sklearn")
    with pytest.raises(ModuleNotFoundError, match=r"pip install scikit-learn"):
        import torch_ap.sklearn  # noqa: F401


def test_the_greater_label_is_the_positive_one():
    scores = [0.9, 0.8, 0.1]
    assert average_precision_score([0, -1, -1], scores, pos_label=None) == 1
    assert average_precision_score([-1, -1, 1], scores, pos_label=None) == average_precision_score([0, 0, 1], scores)


@pytest.mark.parametrize("names", [[0, 1], [-1, 1], ["no", "yes"], "abcd"], ids=str)
@pytest.mark.parametrize("lacking", [0, -1])
def test_a_fold_that_lacks_a_class_equals_scikit_learn(names, lacking):
    x = np.random.default_rng(0).normal(size=(60, 3))
    labels = np.asarray(list(names))[np.digitize(x[:, 0], [-0.5, 0.2, 0.8] if len(names) > 2 else [0])]
    fold = np.flatnonzero(labels != names[lacking])[:10]
    found = []
    for scoring in (average_precision_scorer, "average_precision"):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            cv = [(np.setdiff1d(np.arange(60), fold), fold)]
            found.append(cross_val_score(LogisticRegression(), x, labels, scoring=scoring, cv=cv)[0])
        assert len([x for x in said if issubclass(x.category, UserWarning)]) == (found[-1] != 1)
    np.testing.assert_equal(*(x + 0.0 for x in found))  # scikit-learn 1.5 returns -0.0
    assert found[0] == ({0: 1, -1: 0}[lacking] if names[-1] == 1 else pytest.approx(np.nan, nan_ok=True))


def test_classes_that_a_fold_lacks_can_be_named():
    x = np.random.default_rng(0).normal(size=(60, 3))
    names = np.array(["no", "yes"])[(x[:, 0] > 0).astype(int)]
    fold = np.flatnonzero(names == "yes")[:10]
    cv = [(np.setdiff1d(np.arange(60), fold), fold)]
    scorer = make_scorer(average_precision_score, response_method="decision_function", pos_label="yes")
    assert cross_val_score(LogisticRegression(), x, names, scoring=scorer, cv=cv) == 1


RNG = np.random.default_rng(7)
N = 20
TWO, THREE = RNG.integers(0, 2, N), np.arange(N) % 3
SCORES, WIDE = RNG.integers(0, 6, N) / 5, RNG.integers(0, 6, (N, 3)) / 5
BITS = RNG.integers(0, 2, (N, 3))
TARGETS = {
    "0 and 1": TWO,
    "bool": TWO == 1,
    "float": TWO * 1.0,
    "list": TWO.tolist(),
    "series": pd.Series(TWO),
    "series of text": pd.Series(np.array(["no", "yes"])[TWO]),
    "tensor": torch.from_numpy(TWO),
    "-1 and 1": 2 * TWO - 1,
    "1 and 2": TWO + 1,
    "2 and 3": TWO + 2,
    "text": np.array(["no", "yes"])[TWO],
    "digits": np.array(["0", "1"])[TWO],
    "objects": np.array([0, 1], object)[TWO],
    "column": TWO[:, None],
    "column of text": np.array(["no", "yes"])[TWO][:, None],
    "zeros": TWO * 0,
    "ones": TWO * 0 + 1,
    "twos": TWO * 0 + 2,
    "text of one class": np.array(["a"] * N),
    "three": THREE,
    "three as list": THREE.tolist(),
    "three names": np.array(["a", "b", "c"])[THREE],
    "three as column": THREE[:, None],
    "four": np.arange(N) % 4,
    "indicators": BITS,
    "indicators as list": BITS.tolist(),
    "bool indicators": BITS == 1,
    "frame": pd.DataFrame(BITS),
    "sparse": scipy.sparse.csr_matrix(BITS),
    "indicators of -1 and 1": 2 * BITS - 1,
    "indicators of 0 and 2": 2 * BITS,
    "absent label": BITS * [1, 1, 0],
    "no label": BITS * 0,
    "two columns": BITS[:, :2],
    "multioutput": BITS + THREE[:, None],
    "continuous": SCORES + 0.1,
    "NaN": np.where(TWO, 1, np.nan),
    "short": TWO[1:],
    "empty": [],
    "None": None,
    "3-D": BITS[None],
}
PREDICTIONS = {
    "one column": SCORES,
    "list": SCORES.tolist(),
    "series": pd.Series(SCORES),
    "float32": SCORES.astype(np.float32),
    "int": (SCORES * 5).astype(np.int16),
    "bool": SCORES > 0.5,
    "(N, 1)": SCORES[:, None],
    "(N, 3)": WIDE,
    "frame": pd.DataFrame(WIDE),
    "list of lists": WIDE.tolist(),
    "(N, 2)": WIDE[:, :2],
    "NaN": np.where(SCORES > 0.9, np.nan, SCORES),
    "infinite": np.where(WIDE > 0.9, np.inf, WIDE),
    "text": SCORES.astype(str),
    "sparse": scipy.sparse.csr_matrix(WIDE),
}
PREDICTION_WIDTHS = {name: (*np.shape(x), 0, 0)[1] for name, x in PREDICTIONS.items()}
WEIGHTS = {"none": None, "weights": RNG.random(N), "with zeros": RNG.integers(0, 2, N), "column": RNG.random((N, 1))}
AVERAGES = ("macro", "micro", "weighted", "samples", None, "median")


def result(function, *args, **kwargs):
    """Return the value of a call, or the type of its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(function(*args, **kwargs), dtype=np.float64)
        except (ValueError, TypeError, IndexError):
            return None


def equal_to_scikit_learn(truth, scores, **kwargs):
    """Compare values and errors, except for three faults of scikit-learn."""
    if truth == "indicators of -1 and 1" and kwargs.get("average") == "weighted":
        return  # its weights are sums of -1 and 1
    arguments = TARGETS[truth], PREDICTIONS[scores]
    try:
        theirs = result(sklearns, *arguments, **kwargs)
    except AttributeError:  # it does not support lists of scores with more than two classes
        theirs = result(sklearns, *map(np.asarray, arguments), **kwargs)
    if truth != "sparse" and np.ndim(arguments[0]) == 2 and 1 <= PREDICTION_WIDTHS[scores] < np.shape(arguments[0])[1]:
        theirs = None  # it ignores labels without a column of scores
    ours = result(average_precision_score, *arguments, **kwargs)
    assert (ours is None) == (theirs is None), (ours, theirs)
    if ours is not None:
        np.testing.assert_allclose(ours, theirs, rtol=REORDERED, atol=1e-15)  # values of 0


@each(
    "truth, scores, average", list(itertools.product(TARGETS, PREDICTIONS, AVERAGES))[::7]
)  # 7 has no common factor with the other numbers
def test_values_and_errors_of_scikit_learn(truth, scores, average):
    equal_to_scikit_learn(truth, scores, average=average)


FEW = ("0 and 1", "1 and 2", "text", "three", "three names", "indicators", "absent label", "column", "twos")


@each("truth, weights, average", list(itertools.product(FEW, WEIGHTS, AVERAGES)))
def test_weights_of_scikit_learn(truth, weights, average):
    for scores in ("one column", "(N, 3)"):
        equal_to_scikit_learn(truth, scores, average=average, sample_weight=WEIGHTS[weights])


@each("average", AVERAGES[:-1])
def test_one_sample_of_several_labels(average):
    truth = np.array([[1, 0, 1, 1]])
    for scores in ([[0.67, 1.0, 0.0, 0.33]], [[0.5, 0.5, 0.5, 0.2]]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for weight in (None, [2.0]):
                found = average_precision_score(truth, scores, average=average, sample_weight=weight)
                wanted = sklearns(truth, scores, average=average, sample_weight=weight)
                np.testing.assert_allclose(found, wanted, rtol=REORDERED)


@each(
    "truth, pos_label", list(itertools.product((*FEW, "zeros", "2 and 3", "-1 and 1"), (0, 1, 2, -1, "yes", "a", True)))
)
def test_positive_label_of_scikit_learn(truth, pos_label):
    for scores in ("one column", "(N, 3)"):
        equal_to_scikit_learn(truth, scores, pos_label=pos_label)
