"""The scorer in scikit-learn's own tools, against scikit-learn's scorer of the same name."""

import pickle
import sys
import warnings

import numpy as np
import pytest
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

from tests.tolerances import REORDERED
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
    with pytest.raises(ValueError, match="`pos_label` must be given"):
        average_precision_score(["a", "a"], [0.1, 0.2])
    for labels, unknown in ((["a", "b"], "c"), ([0, 1], 2), ([-1, 1], "1")):
        with pytest.raises(ValueError, match=r"`pos_label` must be one of the labels .* got "):
            average_precision_score(labels, [0.1, 0.2], pos_label=unknown)
    with pytest.warns(UserWarning, match="No positive"):  # as of a fold that lacks them
        assert average_precision_score(["a", "a"], [0.1, 0.2], pos_label="b") == 0
    with pytest.raises(ValueError, match="`preds` must not hold NaN"):
        average_precision_score([0, 1], [0.1, np.nan])


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    monkeypatch.delitem(sys.modules, "torch_ap.sklearn")
    with pytest.raises(ModuleNotFoundError, match=r"pip install scikit-learn"):
        import torch_ap.sklearn  # noqa: F401


def test_the_greater_label_is_the_positive_one():
    scores = [0.9, 0.8, 0.1]
    assert average_precision_score([0, -1, -1], scores) == 1
    assert average_precision_score([-1, -1, 1], scores) == average_precision_score([0, 0, 1], scores)


@pytest.mark.parametrize("names", [[0, 1], [-1, 1], ["no", "yes"], "abcd"], ids=str)
@pytest.mark.parametrize("lacking", [0, -1])
def test_a_fold_that_lacks_a_class_is_what_scikit_learn_makes_of_it(names, lacking):
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
    np.testing.assert_equal(*(x + 0.0 for x in found))  # scikit-learn 1.5 says -0.0
    assert found[0] == ({0: 1, -1: 0}[lacking] if names[-1] == 1 else pytest.approx(np.nan, nan_ok=True))


def test_classes_that_a_fold_lacks_can_be_named():
    x = np.random.default_rng(0).normal(size=(60, 3))
    names = np.array(["no", "yes"])[(x[:, 0] > 0).astype(int)]
    fold = np.flatnonzero(names == "yes")[:10]
    cv = [(np.setdiff1d(np.arange(60), fold), fold)]
    scorer = make_scorer(average_precision_score, response_method="decision_function", pos_label="yes")
    assert cross_val_score(LogisticRegression(), x, names, scoring=scorer, cv=cv) == 1
