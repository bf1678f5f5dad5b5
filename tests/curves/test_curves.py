"""Curves as data: definitions, scikit-learn's numbers, and equal records from functions and from metrics."""

import inspect
import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
import torchmetrics
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import fbeta_score, precision_recall_curve

import torch_ap
from tests.support import oracles
from tests.support.each import each
from tests.support.every_metric import METRICS, flat
from tests.support.modes import quiet, same
from tests.support.strategies import FLOATS, rankings
from tests.support.tolerances import FEW_TERMS, LAST_BITS, REORDERED, SINGLE, SOLVED
from torch_ap import curves, detection, functional
from torch_ap.curves import Curve
from torch_ap.inference import posteriors, resampling
from torch_ap.inference.operating_point import CHOSEN
from torch_ap.inference.resampling import Resampling

TIES = ("grouped", "expected", "optimistic", "pessimistic")
GOALS = [{"beta": 1.0}, {"beta": 0.5}, {"beta": 2}, {"precision": 0.5}, {"precision": 1.0}, {"recall": 0.5}]
GOALS += [{"recall": 0.75}, {"recall": 0}, {"recall": 1}, {"precision": 2 / 3, "beta": 3.0}]


def sample(size, seed=0, levels=30):
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(size, generator=generator) < 0.3).long()
    scores = torch.randn(size, generator=generator, dtype=torch.float64) + target
    return (scores * levels / 6).round() / levels, target


def f_beta(tp, fp, fn, beta):
    square = Fraction(beta) ** 2
    return (1 + square) * tp / ((1 + square) * tp + square * fn + fp)


def cuts(scores, relevant):
    """Return (threshold, tp, fp, fn) of each distinct score, descending."""
    out, tp, fp, m = [], 0, 0, sum(relevant)
    for threshold, group in zip(sorted(set(scores), reverse=True), oracles.tie_groups(scores, relevant), strict=True):
        tp, fp = tp + sum(group), fp + len(group) - sum(group)
        out.append((threshold, tp, fp, m - tp))
    return out


def chosen(scores, relevant, beta=1.0, precision=None, recall=None):
    """Return the operating point by a loop over every threshold; None if there is none."""
    points = [point for point in cuts(scores, relevant) if point[1]]
    if precision is not None:
        points = [x for x in points if Fraction(x[1], x[1] + x[2]) >= Fraction(precision).limit_denominator(1000)]
        key = [(x[1], x[0]) for x in points]
    elif recall is not None:
        points = [x for x in points if Fraction(x[1], x[1] + x[3]) >= Fraction(recall).limit_denominator(1000)]
        key = [(Fraction(x[1], x[1] + x[2]), x[1], x[0]) for x in points]
    else:
        key = [(f_beta(*x[1:], beta), x[0]) for x in points]
    return points[key.index(max(key))] if points else None


@given(rankings())
def test_every_threshold_by_definition(ranking):
    scores, relevant = ranking
    curve = functional.binary_curve(torch.tensor(scores), torch.tensor(relevant, dtype=torch.int64))
    assert list(zip(*(x.tolist() for x in (curve.thresholds, curve.hits, curve.items)), strict=True)) == [
        (threshold, tp, tp + fp) for threshold, tp, fp, _ in cuts(scores, relevant)
    ]
    assert (int(curve.n), int(curve.m)) == (len(relevant), sum(relevant))
    for beta in (0.5, 1, 3):
        wanted = [float(f_beta(*x[1:], beta)) for x in cuts(scores, relevant)]
        assert curve.f_beta(beta).tolist() == pytest.approx(wanted, rel=FEW_TERMS)
    if relevant:
        assert float(curve.chance_level) == sum(relevant) / len(relevant)
    ap = oracles.average_precision(scores, relevant)
    assert float(curve.average_precision) == pytest.approx(math.nan if ap is None else float(ap), nan_ok=True)


@given(rankings(min_size=1))
def test_precision_recall_is_that_of_sklearn(ranking):
    scores, relevant = ranking
    found = functional.binary_curve(
        torch.tensor(scores, dtype=torch.float64), torch.tensor(relevant)
    ).precision_recall()
    if not sum(relevant):
        assert torch.isnan(found.recall[:-1]).all()
        return
    # scikit-learn rejects infinite scores, but only their order matters
    order = np.unique(scores, return_inverse=True)[1]
    precision, recall, thresholds = precision_recall_curve(relevant, order)
    assert found.precision.numpy() == pytest.approx(precision, rel=LAST_BITS)
    assert found.recall.numpy() == pytest.approx(recall, rel=LAST_BITS)
    assert found.thresholds.tolist() == np.unique(scores)[thresholds].tolist()


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("fraction", [False, True])
def test_corners_of_the_hit_curve(ties, fraction):
    scores, target = sample(60, levels=5)
    curve = functional.binary_curve(scores, target, ties=ties)
    corners = curve.hit_curve(fraction=fraction)
    assert corners.t[0] == corners.hits[0] == 0
    assert (corners.t.diff() > 0).all()
    wanted = curves.hit_curve(scores, target, corners.t, fraction=fraction, ties=ties)
    same_points(corners, wanted)
    # the curve is a straight line between corners: every rank is on it
    each = curves.hit_curve(scores, target, ties=ties, fraction=fraction)
    assert np.interp(each.t, corners.t, corners.hits) == pytest.approx(each.hits.numpy())
    for beside, ranking in ((curve.ideal_hit_curve, target), (curve.random_hit_curve, torch.zeros(60))):
        found = beside(fraction=fraction)
        same_points(found, curves.hit_curve(ranking, target, found.t, fraction=fraction))
        each = curves.hit_curve(ranking, target, fraction=fraction)
        assert np.interp(each.t, found.t, found.hits) == pytest.approx(each.hits.numpy())


def same_points(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)


@pytest.mark.parametrize("levels", [None, "11-point", "101-point", torch.tensor([0.0, 0.33, 1.0])])
@pytest.mark.parametrize("interpolation", ["all-points", "101-point", "trapezoid"])
def test_interpolated_precision_is_that_of_the_function(levels, interpolation):
    scores, target = sample(80)
    curve = functional.binary_curve(scores, target, interpolation=interpolation)
    same(curve.interpolated(levels), functional.interpolated_precision(scores, target, levels))
    wanted = functional.binary_average_precision(scores, target, interpolation=interpolation)
    assert float(curve.average_precision) == float(wanted)
    band = curve.band(n_resamples=30)
    assert band == torch_ap.inference.precision_band(scores, target, n_resamples=30)


@given(rankings(), st.sampled_from(GOALS))
def test_operating_points_by_looking_at_every_threshold(ranking, goal):
    scores, relevant = ranking
    found = functional.binary_curve(
        torch.tensor(scores, dtype=torch.float64), torch.tensor(relevant, dtype=torch.int64)
    ).operating_point(**goal)
    wanted = chosen(scores, relevant, **goal)
    if wanted is None:
        assert math.isnan(found.threshold)
        assert math.isnan(found.f_beta_high)
        assert found.reason.startswith("no " if sum(relevant) else "no positives")
        return
    threshold, tp, fp, fn = wanted
    assert (float(found.threshold), int(found.tp), int(found.fp), int(found.fn)) == wanted
    beta = goal.get("beta", 1.0)
    ratios = (tp / (tp + fp), tp / (tp + fn), float(f_beta(tp, fp, fn, beta)))
    assert [float(x) for x in (found.precision, found.recall, found.f_beta)] == pytest.approx(ratios, rel=FEW_TERMS)
    predicted = [int(score >= threshold) for score in scores]
    assert float(found.f_beta) == pytest.approx(fbeta_score(relevant, predicted, beta=beta))
    laws = [
        posteriors.precision_posterior(tp, fp),
        posteriors.recall_posterior(tp, fn),
        posteriors.f_beta_posterior(tp, fp, fn, beta=beta),
    ]
    ends = [(found.precision_low, found.precision_high), (found.recall_low, found.recall_high)]
    for law, estimate, (low, high) in zip(laws, ratios, [*ends, (found.f_beta_low, found.f_beta_high)], strict=True):
        wanted_low, wanted_high = law.interval()
        assert float(low) == pytest.approx(min(float(wanted_low), estimate), rel=SOLVED)
        assert float(high) == pytest.approx(max(float(wanted_high), estimate), rel=SOLVED)


@given(rankings(), st.sampled_from([0.125, 0.25, 0.5, 0.75, 1.5, 2.0, 3.0, 5.0]), st.sampled_from([1, 3, 7]))
def test_thresholds_of_the_same_f_beta_are_ties(ranking, beta, times):
    scores, relevant = ranking
    curve = functional.binary_curve(torch.tensor(scores * times).double(), torch.tensor(relevant * times).long())
    wanted = chosen(scores * times, relevant * times, beta=beta)
    assert curve.operating_point(beta=beta).threshold.item() == pytest.approx(
        wanted[0] if wanted else math.nan, nan_ok=True
    )


def test_ties_of_f_beta_whose_square_is_rounded():
    """Among equal values of F_beta, the highest threshold is chosen, even if the square of beta is rounded."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(100):
        target = torch.randint(2, (12,), generator=generator)
        scores = torch.arange(12.0).flip(0)
        curve = functional.binary_curve(scores, target)
        for tenths in (1, 3, 7, 11):
            square, m = Fraction(tenths, 10) ** 2, int(target.sum())
            values = [h / (square * m + i) for i, h in enumerate(map(Fraction, target.cumsum(0).tolist()), 1)]
            # two resamples suffice, because the interval ends are not tested
            found = curve.operating_point(beta=tenths / 10, method="bootstrap", n_resamples=2)
            if m:
                assert float(found.threshold) == float(scores[values.index(max(values))])


def test_a_tie_of_f_beta_that_rounding_broke():
    scores, target = torch.tensor([0.3, 3, 0, 2, 2, 4, 3, 0.5]), torch.tensor([1, 1, 0, 1, 1, 0, 0, 0])
    assert float(functional.binary_curve(scores, target).operating_point(beta=0.5).threshold) == 2


def test_thresholds_that_differ_by_weights_of_0():
    scores, target = torch.tensor([4.0, 3, 2, 1]), torch.tensor([1, 0, 0, 1])
    curve = functional.binary_curve(scores, target, weights=torch.tensor([1.0, 0, 1, 0]))
    for goal in ({}, {"recall": 0.5}, {"precision": 0.5}):
        assert float(curve.operating_point(**goal).threshold) == 4


@pytest.mark.parametrize("beta", [1e200, 10**200, 1e155])
def test_a_beta_whose_square_is_not_finite(beta):
    curve = functional.binary_curve(*sample(20))
    for call in (curve.operating_point, lambda **x: posteriors.f_beta_posterior(3, 2, 1, **x)):
        with pytest.raises(ValueError, match="`beta` must be at most 1e\\+154, so that its square is finite"):
            call(beta=beta)
    assert float(curve.operating_point(beta=1e154).recall) == 1


def test_an_interval_without_width_has_a_reason():
    """One positive is always found, and one tie group has a survival function without spread."""
    curve = functional.binary_curve(torch.tensor([3.0, 2, 1]), torch.tensor([1, 0, 0]))
    found = curve.operating_point(method="bootstrap", n_resamples=30)
    assert float(found.recall_low) == float(found.recall_high)
    assert "no spread of precision and recall and f_beta, whose interval has no width" in found.reason
    found = torch_ap.inference.published.published_interval(
        torch.ones(6), torch.tensor([1, 0, 1, 0, 0, 1]), method="survival"
    )
    assert float(found.low) == float(found.high)
    assert found.reason == "the standard error is 0, as for hits that are all tied: the interval has no width"


def test_repeated_class_names_of_detectors():
    boxes = torch.tensor([[0.0, 0, 10, 10], [20.0, 20, 30, 30]])
    truth = {"boxes": boxes, "labels": torch.tensor([0, 2])}
    for kind in (torch_ap.MeanAveragePrecision, torch_ap.VOCMeanAveragePrecision):
        metric = kind()
        metric.update([{**truth, "scores": torch.ones(2)}], [truth])
        assert [x.name for x in metric.curve(class_names=["a", "N/A", "b", "N/A"])] == ["a", "b"]
        for names in (["a"] * 6, {0: "a", 2: "a"}, {0: "2"}):
            with pytest.raises(ValueError, match="`class_names` must be unique"):
                metric.curve(class_names=names)


@pytest.mark.parametrize("call", ["forward", "update", "__call__"])
def test_sparse_tensors_are_named_as_update_names_them(call):
    scores, target = torch.rand(4), torch.tensor([1, 0, 1, 0])
    with pytest.raises(ValueError, match=r"`preds` is a sparse tensor"):
        getattr(torch_ap.BinaryAveragePrecision(), call)(scores.to_sparse(), target)
    with pytest.raises(ValueError, match=r"`target` is a sparse tensor"):
        getattr(torch_ap.BinaryAveragePrecision(), call)(scores, target=target.to_sparse())


def test_operating_point_at_a_recall_equals_precision_at_fixed_recall():
    for seed in range(20):
        scores, target = sample(70, seed)
        for recall in (0.1, 0.5, 0.8, 1.0):
            found = functional.binary_curve(scores, target).operating_point(recall=recall)
            wanted = functional.binary_precision_at_fixed_recall(scores, target, recall)
            assert [float(x) for x in wanted] == [float(x) for x in (found.precision, found.recall, found.threshold)]


@pytest.mark.parametrize("goal", [{}, {"beta": 0.5}, {"precision": 0.6}, {"recall": 0.8}])
def test_the_bootstrap_chooses_anew_in_each_resample(goal):
    scores, target = sample(60)
    curve = functional.binary_curve(scores, target)
    found = curve.operating_point(**goal, method="bootstrap", n_resamples=50, confidence_level=0.8)
    assert found.method == "bootstrap"
    drawn = []
    resampling.replicates(curve._ranking(), lambda x: drawn.append(x) or x.m, "iid", Resampling(50))
    groups = int((curve.hits.diff(prepend=torch.zeros(1, dtype=torch.int64)) > 0).sum())
    own = functional.binary_curve(scores, target)
    kept = own.hits.diff(prepend=torch.zeros(1, dtype=torch.int64)) > 0
    gaps = []
    for many in drawn:
        hits, items = many.cumulative_hits.reshape(-1, groups), many.cumulative_items.reshape(-1, groups)
        for row in range(len(hits)):
            m, best, point = int(many.m[row]), None, None
            for place in range(groups):
                tp, fp = int(hits[row, place]), int(items[row, place] - hits[row, place])
                if not tp:
                    continue
                p, r, f = Fraction(tp, tp + fp), Fraction(tp, m), f_beta(tp, fp, m - tp, goal.get("beta", 1.0))
                if p < Fraction(goal.get("precision", 0)).limit_denominator(100):
                    continue
                if r < Fraction(goal.get("recall", 0)).limit_denominator(100):
                    continue
                key = (tp, -place) if "precision" in goal else (p, place) if "recall" in goal else (f, -place)
                if best is None or key > best:
                    best, point = key, (place, float(p), float(r), float(f))
            if point is not None:
                place = point[0]
                there = (own.precision[kept], own.recall[kept], own.f_beta(goal.get("beta", 1.0))[kept])
                gaps.append([x - float(y[place]) for x, y in zip(point[1:], there, strict=True)])
    assert len(gaps) > 30
    lost = 50 - len(gaps)
    assert found.reason == (f"{lost} of 50 resamples have no such threshold and are omitted" if lost else "")
    for name, drawn in zip(("precision", "recall", "f_beta"), np.array(gaps).T, strict=True):
        estimate = float(getattr(found, name))
        low, high = estimate - np.quantile(drawn, [0.9, 0.1])
        assert float(getattr(found, f"{name}_low")) == pytest.approx(np.clip(low, 0, 1), abs=REORDERED)
        assert float(getattr(found, f"{name}_high")) == pytest.approx(np.clip(high, 0, 1), abs=REORDERED)


@pytest.mark.parametrize("goal", [{}, {"beta": 2.0}, {"precision": 0.6}, {"recall": 0.8}, {"threshold": 0.0}])
def test_the_best_f_on_the_same_items_has_a_reason(goal):
    curve = functional.binary_curve(*sample(60))
    assert curve.operating_point(**goal).reason == (CHOSEN if goal.keys() <= {"beta"} else "")
    if "threshold" not in goal:
        assert CHOSEN not in curve.operating_point(**goal, method="bootstrap", n_resamples=20).reason


def test_the_bootstrap_corrects_the_bias_of_the_choice():
    """With random scores, the best F_1 of few items is due to chance, and more so with more thresholds."""
    generator = torch.Generator().manual_seed(3)
    gaps = []
    for _ in range(30):
        target = (torch.rand(60, generator=generator) < 0.1).long()
        curve = functional.binary_curve(torch.rand(60, generator=generator), target)
        if int(curve.m) < 2:
            continue
        plain, anew = (curve.operating_point(method=x, n_resamples=100) for x in ("posterior", "bootstrap"))
        gaps.append(float((plain.f_beta_low + plain.f_beta_high - anew.f_beta_low - anew.f_beta_high) / 2))
    assert np.mean(gaps) > 0.02


def test_no_result_depends_on_the_batch():
    curve = functional.binary_curve(*sample(50))
    wanted = curve.operating_point(method="bootstrap", n_resamples=25)
    for batch in (1, 7, 100):
        assert curve.operating_point(method="bootstrap", n_resamples=25, chunk_size=batch) == wanted
    other = curve.operating_point(method="bootstrap", n_resamples=25, generator=torch.Generator().manual_seed(1))
    assert other != wanted


@pytest.mark.parametrize(
    ("target", "reason"),
    [([], "no positives"), ([0], "no positives"), ([0, 0, 0], "no positives"), ([1], ""), ([1, 1], "")],
)
def test_few_items(target, reason):
    scores = torch.arange(len(target), 0, -1.0)
    curve = functional.binary_curve(scores, torch.tensor(target, dtype=torch.int64))
    assert len(curve.thresholds) == len(target)
    assert math.isnan(curve.average_precision) == (not sum(target))
    assert len(curve.hit_curve().t) == len(target) + 1
    assert len(curve.precision_recall().precision) == len(target) + 1
    for method in ("posterior", "bootstrap"):
        found = curve.operating_point(method=method, n_resamples=5)
        without_width = "resamples show no spread of " if method == "bootstrap" else CHOSEN
        assert found.reason.startswith(reason or without_width)
        assert bool(found.reason) == bool(reason or without_width), found.reason
        assert math.isnan(found.f_beta) == (not sum(target))
        assert int(found.n) == len(target)
    assert math.isnan(curve.band(n_resamples=5).low[0])
    assert str(curve).startswith("Curve(")


def test_unreachable_goals_are_noted():
    curve = functional.binary_curve(torch.tensor([0.9, 0.8, 0.7]), torch.tensor([0, 1, 1]))
    assert curve.operating_point(precision=0.7).reason == "no threshold has a precision of 0.7: everything is NaN"
    assert float(curve.operating_point(precision=2 / 3).threshold) == pytest.approx(0.7)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.uint8])
def test_thresholds_have_the_dtype_of_the_scores(dtype):
    scores = torch.tensor([3, 2, 2, 1, 0]).to(dtype)
    curve = functional.binary_curve(scores, torch.tensor([1, 0, 1, 1, 0]))
    assert curve.thresholds.dtype == dtype
    assert curve.thresholds.tolist() == [3, 2, 1, 0]
    assert {x.dtype for x in (curve.hits, curve.items, curve.n, curve.m)} == {torch.int64}
    assert {x.dtype for x in (curve.average_precision, curve.precision, curve.f_beta())} == {torch.float64}
    point = curve.operating_point()
    assert point.threshold.dtype == dtype
    assert {x.dtype for x in (point.precision_low, point.f_beta)} == {torch.float64}
    assert {x.dtype for x in (point.tp, point.n)} == {torch.int64}
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert curve.precision_recall().recall.dtype == curve.interpolated().recall.dtype == wide


def test_weights_are_repetitions():
    scores, target = sample(40)
    times = torch.randint(1, 4, (40,), generator=torch.Generator().manual_seed(1))
    weighted = functional.binary_curve(scores, target, weights=times / 4)
    repeated = functional.binary_curve(scores.repeat_interleave(times), target.repeat_interleave(times))
    assert weighted.hits.dtype == torch.float64
    torch.testing.assert_close(weighted.hits * 4, repeated.hits.double())
    for name in ("precision", "recall", "average_precision", "chance_level"):
        torch.testing.assert_close(getattr(weighted, name), getattr(repeated, name))
    torch.testing.assert_close(weighted.f_beta(2), repeated.f_beta(2))
    same_points(weighted.hit_curve(fraction=True), repeated.hit_curve(fraction=True))
    same_points(weighted.ideal_hit_curve(fraction=True), repeated.ideal_hit_curve(fraction=True))
    for goal in ({}, {"precision": float(repeated.precision[5])}, {"recall": float(repeated.recall[7])}):
        one, other = weighted.operating_point(**goal), repeated.operating_point(**goal)
        assert one.threshold == other.threshold
        torch.testing.assert_close(one.tp * 4, other.tp.double())
        assert math.isnan(one.recall_low)
        assert one.reason.startswith("no interval exists with weights")
    with pytest.raises(ValueError, match="`weights` cannot be combined with a confidence band"):
        weighted.band()
    with pytest.raises(ValueError, match="`weights` require `top_k=None`"):
        functional.binary_curve(scores, target, weights=times, ties="expected")


def test_items_of_no_weight():
    curve = functional.binary_curve(
        torch.tensor([3.0, 2, 1]), torch.tensor([1, 1, 0]), weights=torch.tensor([0.0, 1, 1])
    )
    assert math.isnan(curve.precision[0])
    assert curve.operating_point().threshold == 2


def test_bad_arguments_are_named():
    scores, target = torch.tensor([0.9, 0.8]), torch.tensor([1, 0])
    with pytest.raises(TypeError, match="`name` must be a str, got 3"):
        functional.binary_curve(scores, target, name=3)
    with pytest.raises(ValueError, match="`ties` must be one of"):
        functional.binary_curve(scores, target, ties="x")
    with pytest.raises(ValueError, match="`interpolation` has no closed form for `ties='expected'`"):
        functional.binary_curve(scores, target, ties="expected", interpolation="11-point")
    with pytest.raises(ValueError, match=r"`preds` .*NaN"):
        functional.binary_curve(scores * torch.nan, target)
    curve = functional.binary_curve(scores, target)
    for name, value in (("beta", 0), ("precision", 1.1), ("recall", "x"), ("confidence_level", 1), ("method", "exact")):
        with pytest.raises(ValueError, match=f"`{name}` must be"):
            curve.operating_point(**{name: value})
    with pytest.raises(ValueError, match=r"`precision` and `recall` cannot be combined, got 0.5 and 0.6"):
        curve.operating_point(precision=0.5, recall=0.6)
    with pytest.raises(ValueError, match="`fraction` must be a bool, got 1"):
        curve.hit_curve(fraction=1)
    with pytest.raises(ValueError, match="`beta` must be"):
        curve.f_beta(-1)
    for call in (
        lambda: curve.f_beta(1e200),
        lambda: functional.counts_at_k(scores, target, 1).f_beta(1e200),
        lambda: functional.retrieval_f_beta(scores, target, 1, 1e200),
        lambda: torch_ap.RetrievalFBeta(beta=1e200),
        lambda: torch_ap.inference.compare_decisions(target, target, target, beta=1e200),
    ):
        with pytest.raises(
            ValueError, match=r"`beta` must be at most 1e\+154, so that its square is finite, got 1e\+200"
        ):
            call()
    with pytest.raises(ValueError, match="`recall_levels` must be one of"):
        curve.interpolated("5-point")


def test_long_curves_print_and_move():
    curve = functional.binary_curve(torch.arange(1_000_000.0), torch.arange(1_000_000) % 7 == 0)
    assert "    thresholds=[1e+06, 1e+06, 1e+06, ..., 2, 1, 0],\n" in repr(curve)
    assert float(curve.average_precision) == pytest.approx(1 / 7, rel=1e-3)  # evenly spread hits: nearly a random order
    assert float(curve.operating_point(recall=0.5).recall) >= 0.5
    assert curve.to("cpu").thresholds.dtype == torch.float32
    assert functional.binary_curve(torch.ones(2), torch.ones(2).bool(), name="x").to_dict() == {
        "thresholds": [1.0],
        "hits": [2],
        "items": [2],
        "n": 2,
        "m": 2,
        "average_precision": 1.0,
        "ties": "grouped",
        "interpolation": None,
        "name": "x",
        "top_k": None,
        "denominator": "min",
        "groups": None,
    }


# -- the same record from metrics

CURVES = {name: row for name, row in METRICS.items() if hasattr(row.call, "curve") or name == "task_binary"}


def test_every_metric_of_average_precision_has_a_curve():
    without = {row.call.__name__ for row in METRICS.values()} - {row.call.__name__ for row in CURVES.values()}
    at_one_threshold = {name for name in torch_ap.classification.__all__ if "AtFixed" in name}
    assert without - at_one_threshold == {
        name
        for name in torch_ap.retrieval.__all__
        if name not in ("RetrievalMAP", "QueryMetric")
        and isinstance(found := getattr(torch_ap.retrieval, name), type)
        and issubclass(found, torchmetrics.Metric)
    }


@each("which", list(CURVES))
def test_curves_of_metrics_have_the_metrics_average_precision(which):
    row = CURVES[which]
    metric = row.new()
    for batch in row.batches(3):
        quiet(metric.update, **batch)
    found, value = metric.curve(), quiet(metric.compute)
    found = found if isinstance(found, list) else [found]
    assert metric.curve() == (found if len(found) > 1 or row.kind == "images" else found[0])
    if row.kind == "images":
        wanted = [metric.curve(threshold) for threshold in metric._settings.thresholds]
        each = torch.tensor([[float(one.average_precision) for one in curves] for curves in wanted])
        if row.settings.get("average") != "micro":
            assert float(each.nanmean()) == pytest.approx(float(value["map"]), rel=SINGLE)
        assert all(int(one.items[-1]) == int(one.n) for one in found if len(one.items))
        return
    if row.call is torch_ap.RetrievalMAP:
        if metric.aggregation == "mean":
            assert float(found[0].average_precision) == pytest.approx(float(value), rel=SINGLE)
        return
    if "average" in inspect.signature(row.call).parameters and row.settings.get("average") != "micro":
        single = row.call(**{**row.settings, "average": None})
        for batch in row.batches(3):
            quiet(single.update, **batch)
        value = quiet(single.compute)
    for one, filled in zip(found, value.reshape(-1).tolist(), strict=True):
        assert float(one.average_precision) == pytest.approx(filled if one.m else math.nan, rel=SINGLE, nan_ok=True)


def table_batch(size=60, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = (torch.rand(size, classes, generator=generator) * 16).round() / 16
    return scores, torch.randint(classes, (size,), generator=generator), torch.rand(size, generator=generator)


def test_one_record_from_function_and_metric():
    scores, target, weights = table_batch()
    one = torch_ap.BinaryAveragePrecision(ignore_index=2, interpolation="11-point")
    for part in range(3):
        one.update(scores[part::3, 0], target[part::3])
    assert one.curve() == functional.binary_curve(scores[:, 0], target, ignore_index=2, interpolation="11-point")
    each = torch_ap.MulticlassAveragePrecision(3, normalization="none", average=None)
    each.update(scores, target, weights)
    names = ["a", "b", "c"]
    assert each.curve(names) == [
        functional.binary_curve(scores[:, c], target == c, weights=weights, name=names[c]) for c in range(3)
    ]
    assert [one.name for one in each.curve()] == ["0", "1", "2"]
    hits = torch.randint(-1, 2, scores.shape, generator=torch.Generator().manual_seed(2))
    labels = torch_ap.MultilabelAveragePrecision(3, ignore_index=-1, ties="expected", top_k=5)
    labels.update(scores, hits)
    found = labels.curve(["a", "b", "c"])
    plain = [functional.binary_curve(scores[:, c], hits[:, c], ignore_index=-1, name=names[c]) for c in range(3)]
    assert [(x.top_k, x.ties, x.denominator) for x in found] == [(5, "expected", "min")] * 3
    for x, y in zip(found, plain, strict=True):
        same([x.thresholds, x.hits, x.items, x.n, x.m], [y.thresholds, y.hits, y.items, y.n, y.m])
    micro = torch_ap.MultilabelAveragePrecision(3, ignore_index=-1, average="micro")
    micro.update(scores, hits)
    assert micro.curve() == functional.binary_curve(scores, hits, ignore_index=-1)


FUNCTION_OF = {
    torch_ap.BinaryAveragePrecision: functional.binary_curve,
    torch_ap.MulticlassAveragePrecision: functional.multiclass_curve,
    torch_ap.MultilabelAveragePrecision: functional.multilabel_curve,
    torch_ap.RetrievalMAP: functional.retrieval_curve,
    torch_ap.MeanAveragePrecision: detection.curves.coco_curve,
    torch_ap.LVISMeanAveragePrecision: detection.curves.lvis_curve,
    torch_ap.VOCMeanAveragePrecision: detection.curves.voc_curve,
}
# settings of the summary of a curve, or of the validation of updates, that do not change the curve
NO_MATTER = {"average", "empty_target_action", "class_metrics", "extended_summary", "aggregation", "match"}
NO_MATTER |= {"frequencies"}
OF_A_CELL = {"iou_threshold", "iou_thresholds", "max_detection_thresholds", "max_detections"}
# counts, which a function does not store, and positives without a score
WITHOUT_FUNCTION = {"thresholds", "bins", "pilot", "tolerance", "num_relevant"}


def cells_of(metric):
    """Return the arguments of the method for each curve of a metric."""
    if isinstance(metric, torch_ap.VOCMeanAveragePrecision):
        return [{"iou_threshold": x} for x in metric._settings.thresholds]
    if not isinstance(metric, torch_ap.MeanAveragePrecision | torch_ap.LVISMeanAveragePrecision):
        return [{}]
    settings = metric._settings
    some = settings.thresholds[:: max(1, len(settings.thresholds) - 1)]
    names = ("iou_threshold", "area", "max_detections")
    return [dict(zip(names, x, strict=True)) for x in itertools.product(some, settings.areas, {*settings.limits[::2]})]


@each("which", [x for x, row in CURVES.items() if row.call in FUNCTION_OF])
def test_functions_give_the_curves_of_metrics(which):
    row, (drawn,) = CURVES[which], CURVES[which].batches(1)
    function, metric = FUNCTION_OF[row.call], row.new()
    quiet(metric.update, **drawn)
    has_groups = drawn.pop("groups", None) is not None  # curves of metrics know them
    if set(row.settings) & WITHOUT_FUNCTION:
        return
    settings = {x: value for x, value in row.settings.items() if x not in NO_MATTER | OF_A_CELL}
    if isinstance(metric, torch_ap.VOCMeanAveragePrecision):  # also for a convention of `MeanAveragePrecision`
        function = FUNCTION_OF[torch_ap.VOCMeanAveragePrecision]
    if row.settings.get("average") == "micro" and row.call is torch_ap.MultilabelAveragePrecision:
        function, weights = functional.binary_curve, drawn.get("weights")
        settings.pop("num_labels")
        if weights is not None:
            drawn = {**drawn, "weights": weights.reshape(len(weights), -1).expand(drawn["preds"].shape)}
    for cell in cells_of(metric):
        found = metric.curve(**cell)
        each_curve = found if isinstance(found, list) else [found]
        assert all((x.groups is not None) == has_groups for x in each_curve if isinstance(x, Curve))
        each_curve = [replace(x, groups=None) if isinstance(x, Curve) else x for x in each_curve]
        found = each_curve if isinstance(found, list) else each_curve[0]
        assert found == quiet(function, **drawn, **settings, **cell), cell


def test_a_detectors_function_and_metric_refuse_the_same_input():
    box = {"boxes": torch.tensor([[0.0, 0, 10, 10]]), "labels": torch.tensor([4])}
    box |= dict.fromkeys(("neg_category_ids", "not_exhaustive_category_ids"), torch.empty(0, dtype=torch.int64))
    given = [{**box, "scores": torch.ones(1)}], [box]
    for function in (detection.curves.coco_curve, detection.curves.lvis_curve, detection.curves.voc_curve):
        assert [x.name for x in function(*given, class_names={4: "cat"})] == ["cat"]
        assert function([], []) == []
        for name, value in (("iou_threshold", 2), ("box_format", "xxyy"), ("class_names", [1])):
            with pytest.raises(ValueError, match=f"`{name}` must be"):
                function(*given, **{name: value})
        with pytest.raises(ValueError, match="`class_names` as a list of 1 names the labels"):
            function(*given, class_names=["cat"])
        with pytest.raises(ValueError, match=r"`preds\[0\]\['scores'\]`.*NaN"):
            function([{**box, "scores": torch.tensor([torch.nan])}], [box])
    for name, value in (("area", "tiny"), ("iou_type", ("bbox", "segm")), ("iou_type", "rbox"), ("max_detections", 0)):
        for function in (detection.curves.coco_curve, detection.curves.lvis_curve):
            with pytest.raises(ValueError, match=f"`{name}` must be"):
                function(*given, **{name: value})


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_per_threshold_are_curves_too(weighted):
    scores, target, weights = table_batch()
    weights = weights if weighted else None
    levels = torch.tensor([0.25, 0.5, 0.75, 2.0])
    metric = torch_ap.BinaryAveragePrecision(thresholds=levels)
    metric.update(scores[:, 0], target == 1, weights)
    found = metric.curve()
    assert found.thresholds.tolist() == levels.flip(0).tolist()
    wanted = functional.counts_at_threshold(scores[:, 0], target == 1, found.thresholds, weights=weights)
    torch.testing.assert_close(found.hits.double(), wanted.tp)
    torch.testing.assert_close(found.items.double(), wanted.tp + wanted.fp)
    torch.testing.assert_close(found.m.double(), (wanted.tp + wanted.fn)[0])
    assert math.isnan(found.precision[0])
    assert float(found.average_precision) == pytest.approx(float(metric.compute()))
    assert float(found.chance_level) == pytest.approx(float(found.m / found.n))
    point = found.operating_point(recall=0.5)
    assert float(point.threshold) == chosen_of(wanted, levels.flip(0), 0.5)


def chosen_of(counts, thresholds, recall):
    fits = [x for x in range(len(thresholds)) if counts.recall[x] >= recall]
    return float(thresholds[max(fits, key=lambda x: (float(counts.precision[x]), x))])


def test_names_of_classes_are_checked():
    metric = torch_ap.MultilabelAveragePrecision(3)
    for wrong in (["a", "b"], ["a", "a", "b"], "abc", [1, 2, 3]):
        with pytest.raises(ValueError, match="`class_names` must be a list of 3 different names, got"):
            quiet(metric.curve, wrong)
    micro = torch_ap.MultilabelAveragePrecision(3, average="micro")
    with pytest.raises(ValueError, match="`class_names` must be None for a single curve"):
        quiet(micro.curve, ["a", "b", "c"])
    box = {"boxes": torch.ones(1, 4), "labels": torch.tensor([4])}
    detector = torch_ap.VOCMeanAveragePrecision()
    detector.update([{**box, "scores": torch.ones(1)}], [box])
    assert [one.name for one in detector.curve()] == ["4"]
    assert [one.name for one in detector.curve(class_names={4: "cat"})] == ["cat"]
    with pytest.raises(ValueError, match="`class_names` as a list of 1 names the labels"):
        detector.curve(class_names=["cat"])
    with pytest.raises(ValueError, match="`class_names` must be None, a list of names"):
        detector.curve(class_names=[1])


def test_metrics_without_updates():
    assert quiet(torch_ap.BinaryAveragePrecision().curve) == functional.binary_curve(
        torch.zeros(0), torch.zeros(0).long()
    )
    assert quiet(torch_ap.MeanAveragePrecision().curve) == []
    assert quiet(torch_ap.VOCMeanAveragePrecision().curve) == []
    queries = quiet(torch_ap.RetrievalMAP().curve)
    assert len(queries.k) == 0
    assert math.isnan(queries.average_precision)


def gathered(rank):
    scores, target, _ = table_batch()
    metric = torch_ap.BinaryAveragePrecision()
    metric.update(scores[rank::2, 0], target[rank::2] == 0)
    queries = torch_ap.RetrievalMAP()
    queries.update(scores[rank::2, 0], target[rank::2] == 0, indexes=torch.arange(60)[rank::2] % 7)
    return metric.curve(), queries.curve()


def test_curves_are_of_all_ranks(ranks):
    scores, target, _ = table_batch()
    wanted = functional.retrieval_curve(scores[:, 0], target == 0, indexes=torch.arange(60) % 7)
    for curve, queries in ranks(gathered):
        assert curve == functional.binary_curve(scores[:, 0], target == 0)
        for name in ("precision", "recall", "interpolated_precision", "average_precision"):
            torch.testing.assert_close(getattr(queries, name), getattr(wanted, name))


# -- detection


@pytest.mark.parametrize("which", ["coco", "coco_own_levels", "coco_masks", "coco_given_ious"])
def test_each_threshold_retrieves_the_detections_of_the_table(which):
    row = METRICS[which]
    metric = row.new()
    for batch in row.batches(3, size=80):
        quiet(metric.update, **batch)
    for place, threshold in enumerate(metric.iou_thresholds[:2]):
        curves = metric.curve(threshold)
        for number, curve in enumerate(curves):
            assert (curve.thresholds.diff() <= 0).all()
            last = torch.cat([curve.thresholds[1:] != curve.thresholds[:-1], torch.ones(1, dtype=torch.bool)])
            for score in curve.thresholds[last].unique()[::5].tolist():
                table = metric.per_class(threshold, score_threshold=score)
                at = int((curve.thresholds >= score).sum()) - 1
                assert int(table["tp"][number]) == int(curve.hits[at])
                assert int(table["tp"][number] + table["fp"][number]) == int(curve.items[at])
        assert [one.name for one in curves] == [str(x) for x in metric.per_class()["class"].tolist()], place


def test_areas_and_limits_of_curves():
    row = METRICS["coco"]
    metric = row.new(extended_summary=True)
    for batch in row.batches(2, size=60):
        metric.update(**batch)
    numbers = metric.compute()
    for area, name in enumerate(("all", "small", "medium", "large")):
        for limit, most in enumerate((1, 10, 100)):
            found = metric.curve(0.75, area=name, max_detections=most)
            for number, curve in enumerate(found):
                precision = numbers["precision"][5, :, number, area, limit]
                wanted = math.nan if precision[0] < 0 else float(precision.mean())
                assert float(curve.average_precision) == pytest.approx(wanted, nan_ok=True)
                recall = float(numbers["recall"][5, number, area, limit])
                if recall >= 0:
                    assert (float(curve.recall[-1]) if len(curve.recall) else 0) == pytest.approx(recall)


def test_a_threshold_cannot_part_detections_of_one_score():
    curve = Curve(
        thresholds=torch.tensor([0.9, 0.5, 0.5, 0.5]),
        hits=torch.tensor([0, 1, 2, 2]),
        items=torch.tensor([1, 2, 3, 4]),
        n=torch.tensor(4),
        m=torch.tensor(3),
        average_precision=torch.tensor(0.5),
    )
    point = curve.operating_point(precision=0.5)
    assert (int(point.tp), int(point.fp), int(point.fn)) == (2, 2, 1)
    assert math.isnan(curve.operating_point(precision=0.6).threshold)
    assert float(curve.chance_level) == 0.5
    assert curve.ideal_hit_curve().hits.tolist() == [0, 3, 3]


# -- queries

QUERY_ROWS = {name: row for name, row in METRICS.items() if row.call is torch_ap.RetrievalMAP}


@pytest.mark.parametrize("which", QUERY_ROWS)
def test_curves_of_queries_are_the_means_at_each_rank(which):
    row = QUERY_ROWS[which]
    metric, batches = row.new(), row.batches(2)
    names = ("empty_target_action", "ignore_index", "relevance_level", "missing_queries")
    settings = {name: getattr(metric, name) for name in names} | {"ties": metric.convention.ties}
    for batch in batches:
        metric.update(**batch)
    curve = metric.curve()
    for k in curve.k.tolist():
        for kind, values in ((torch_ap.RetrievalPrecision, curve.precision), (torch_ap.RetrievalRecall, curve.recall)):
            other = kind(top_k=k, **settings).set_dtype(torch.float64)
            for batch in batches:
                other.update(**batch)
            assert float(values[k - 1]) == pytest.approx(float(other.compute()), abs=REORDERED)
    levels = [
        mean_interpolated(metric, level, 9 if "trec9" in str(metric.convention.interpolation) else 10)
        for level in curve.recall_levels.tolist()
    ]
    assert curve.interpolated_precision.tolist() == pytest.approx(levels, abs=REORDERED)
    assert curve.queries == len(metric.per_query()[0])


def mean_interpolated(metric, level, version):
    """Return TREC's interpolated precision, query by query, by definition."""
    values = []
    rankings = metric._ranked()
    for number in range(len(rankings.queries)):
        m, n = int(rankings.curve.m[number]), int(rankings.curve.n[number])
        entries = slice(int(rankings.curve.offsets[number]), int(rankings.curve.offsets[number + 1]))
        if (n == 0 and not (bool(rankings.judged[number]) and metric.missing_queries == "neg")) or not m:
            if n or (m == 0 and metric.missing_queries == "neg" and bool(rankings.judged[number])):
                values.append({"neg": 0.0, "pos": 1.0}[metric.empty_target_action])
            continue
        wanted = max(1, int(level * m + 0.9) if version == 9 else math.floor(level * m + 0.5))
        hits = rankings.curve.cumulative_hits[entries].tolist()
        items = rankings.curve.cumulative_items[entries].tolist()
        values.append(max([h / t for h, t in zip(hits, items, strict=True) if h >= wanted], default=0.0))
    return float(np.mean(values))


@pytest.mark.parametrize("action", ["neg", "pos", "skip", "nan"])
@pytest.mark.parametrize("ties", TIES)
def test_queries_without_relevant_items_and_ties(action, ties):
    drawn = flat(40, torch.Generator().manual_seed(4))
    drawn["target"] = drawn["target"] * (drawn["indexes"] > 0)
    settings = {"empty_target_action": action, "ties": ties}
    found = functional.retrieval_curve(**drawn, **settings)
    for k in found.k.tolist():
        for values, function in (
            (found.precision, functional.retrieval_precision),
            (found.recall, functional.retrieval_recall),
        ):
            each = function(**drawn, top_k=k, **settings, dtype=torch.float64)
            each = each[~each.isnan()] if action == "skip" else each
            assert float(values[k - 1]) == pytest.approx(float(each.mean()), abs=REORDERED, nan_ok=True)


def test_one_record_of_queries_from_function_and_metric():
    drawn = flat(60, torch.Generator().manual_seed(5))
    for settings in ({}, {"top_k": 3, "denominator": "relevant"}, {"interpolation": "11-point-trec9"}):
        metric = torch_ap.RetrievalMAP(**settings)
        metric.update(**drawn)
        assert metric.curve() == functional.retrieval_curve(**drawn, **settings)
    one = functional.retrieval_curve(torch.tensor([0.9, 0.8, 0.7]), torch.tensor([0, 1, 1]), name="one")
    assert one.precision.tolist() == pytest.approx([0, 1 / 2, 2 / 3])
    assert (one.queries, one.name) == (1, "one")
    with pytest.raises(ValueError, match="`target` must define the measure"):
        functional.retrieval_curve(torch.ones(1, 2), torch.zeros(1, 2), empty_target_action="error")
    with pytest.raises(TypeError, match="`name` must be a str"):
        functional.retrieval_curve(torch.ones(1, 2), torch.zeros(1, 2), name=None)


# -- summaries of two metrics in one log


def test_summaries_do_not_collide():
    scores, target = sample(80)
    metrics = [torch_ap.BinaryAveragePrecision(ties=ties) for ties in ("grouped", "grouped")]
    log = {}
    for metric, prefix in zip(metrics, ("valid/ap", "test/ap"), strict=True):
        metric.update(scores, target)
        log |= metric.summary(prefix=prefix)
    assert set(log) == {f"{x}/ap{end}" for x in ("valid", "test") for end in ("", "_low", "_high", "_chance")}
    assert log["test/ap"] == metrics[1].summary()["ap"]
    each = torch_ap.MultilabelAveragePrecision(2, average="none")
    each.update(scores.reshape(-1, 2), target.reshape(-1, 2))
    assert "x_cat_low" in each.summary(prefix="x", class_names=["cat", "dog"])
    with pytest.raises(TypeError, match="`prefix` must be a str or None, got 1"):
        metrics[0].summary(prefix=1)
    queries = torch_ap.RetrievalMAP()
    queries.update(scores.reshape(-1, 8), target.reshape(-1, 8))
    assert set(queries.summary(prefix="test/map")) == {f"test/map{end}" for end in ("", "_low", "_high", "_chance")}
    for metric in (metrics[0], queries):
        with pytest.raises(ValueError, match="`prefix` must not be empty"):
            metric.summary(prefix="")
