"""AP of curves given as points, interpolated precision as data, and precision at a recall."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.integrate import quad
from sklearn.metrics import auc, average_precision_score
from sklearn.metrics import precision_recall_curve as sklearns_curve
from torchmetrics.functional import classification as theirs

from tests.support import oracles
from tests.support.strategies import FLOATS, rankings
from tests.support.tolerances import FEW_TERMS, SINGLE, SOLVED
from torch_ap import curves, functional
from torch_ap.core.base.options import PointsInterpolation, allowed_values
from torch_ap.curves import average_precision_from_hit_curve, average_precision_from_precision_recall
from torch_ap.functional import (
    binary_average_precision,
    binary_precision_at_fixed_recall,
    interpolated_precision,
    precision_recall_curve,
)


def tensors(ranking, dtype=torch.float64):
    return torch.tensor(ranking[0], dtype=dtype), torch.tensor(ranking[1])


def with_hit(ranking):
    assume(sum(ranking[1]))
    return tensors(ranking)


@given(rankings(min_size=1))
def test_points_at_tie_groups_give_the_ap_of_the_ranking(ranking):
    preds, target = with_hit(ranking)
    t = (preds >= preds.unique().flip(0)[:, None]).sum(1)
    points = curves.hit_curve(preds, target, t)
    wanted = binary_average_precision(preds, target).item()
    assert average_precision_from_hit_curve(points.hits, t).item() == pytest.approx(wanted, abs=FEW_TERMS)
    n = len(preds)
    share = average_precision_from_hit_curve(points.hits / n, t.double() / n, m=target.sum().item() / n)
    assert share.item() == pytest.approx(wanted, abs=FEW_TERMS)


@given(rankings(min_size=1), st.integers(0, 3))
def test_missing_hits_count_0(ranking, missed):
    _, target = with_hit(ranking)
    found = average_precision_from_hit_curve(target.cumsum(0), m=float(target.sum() + missed)).item()
    assert found == pytest.approx(
        float(oracles.ap_of_ranking(target.tolist(), sum(ranking[1]) + missed)), abs=FEW_TERMS
    )


def test_zhus_examples():
    t = torch.linspace(0, 1, 21, dtype=torch.float64)[1:]
    for between in ("step", "line"):
        assert average_precision_from_hit_curve(0.05 * t, t, interpolate=between).item() == pytest.approx(0.05)
        assert average_precision_from_hit_curve(t.clamp(max=0.05), t, interpolate=between).item() == pytest.approx(1)
    assert average_precision_from_hit_curve(torch.tensor([1, 1, 1, 2, 2, 2, 2, 3, 3, 3])).item() == 0.625


@pytest.mark.parametrize(("c", "printed"), [(5 / 42, 0.26), (1 / 6, 0.20)])
def test_the_line_is_lemma_4(c, printed):
    """A curve with many points has the area of the smooth curve; for the hyperbola it is pi (1 + 1 / (2 c))."""
    t = torch.linspace(0, 1, 100_001, dtype=torch.float64)[1:]
    found = average_precision_from_hit_curve(0.05 * t * (1 + c) / (t + c), t, interpolate="line").item()
    # straight lines between 100,000 points of a smooth curve
    assert found == pytest.approx(0.05 * (1 + 1 / (2 * c)), abs=1e-8)
    assert round(found, 2) == printed


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=5))
def test_the_line_is_the_integral(steps):
    t = torch.tensor([run for run, _ in steps]).cumsum(0)
    h = torch.tensor([min(rise, run) for run, rise in steps]).cumsum(0)
    assume(h[-1] > 0)
    wanted, t0, h0 = 0.0, 0, 0
    for t1, h1 in zip(t.tolist(), h.tolist(), strict=True):
        b = (h1 - h0) / (t1 - t0)
        wanted += quad(lambda x, b=b, h0=h0, t0=t0: (h0 + b * (x - t0)) * b / x if x else b * b, t0, t1)[0]
        t0, h0 = t1, h1
    found = average_precision_from_hit_curve(h, t, interpolate="line").item()
    assert found == pytest.approx(wanted / h0, abs=SOLVED)


INTERPOLATIONS = allowed_values(PointsInterpolation)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@given(rankings(min_size=1))
def test_points_of_the_precision_recall_curve_give_the_ap_of_the_ranking(interpolation, ranking):
    preds, target = with_hit(ranking)
    curve = precision_recall_curve(preds, target)
    wanted = binary_average_precision(preds, target, interpolation=interpolation).item()
    precision, recall = curve.precision, curve.recall
    if interpolation == "trapezoid":  # the last point, (1, 0), is a point of the curve
        precision, recall = precision[:-1], recall[:-1]
        assume(len(recall.unique()) > 1)
    for p, r in ((precision, recall), (precision.flip(0), recall.flip(0))):
        found = average_precision_from_precision_recall(p, r, interpolation=interpolation)
        assert found.item() == pytest.approx(wanted, abs=FEW_TERMS)


def test_points_of_other_programs(generator):
    target = (torch.rand(500, generator=generator) < 0.3).long()
    preds = (torch.randn(500, generator=generator) + target).round(decimals=1)
    precision, recall, _ = (torch.from_numpy(x.copy()) for x in sklearns_curve(target, preds))
    found = average_precision_from_precision_recall(precision, recall)
    assert found.item() == pytest.approx(average_precision_score(target, preds), abs=FEW_TERMS)
    line = average_precision_from_precision_recall(precision, recall, interpolation="trapezoid")
    assert line.item() == pytest.approx(auc(recall, precision), abs=FEW_TERMS)


@pytest.mark.parametrize("n", [7, 10, 30])
def test_levels_are_reached_in_float32_too(n):
    """Recall j / n in float32 reaches the level j / n, as in the ranking."""
    precision, recall = torch.linspace(1, 0.5, n), (torch.arange(n) + 1) / n
    for levels in (torch.arange(n + 1) / n, "11-point"):
        found = average_precision_from_precision_recall(precision, recall, interpolation=levels)
        exact = torch.arange(n + 1).double() / n if isinstance(levels, torch.Tensor) else levels
        wanted = average_precision_from_precision_recall(
            precision.double(), (torch.arange(n).double() + 1) / n, interpolation=exact
        )
        assert found.item() == pytest.approx(wanted.item(), abs=SINGLE)


def test_a_curve_without_hits():
    assert math.isnan(average_precision_from_hit_curve(torch.zeros(3)))
    assert math.isnan(average_precision_from_hit_curve(torch.zeros(3), interpolate="line"))
    assert average_precision_from_hit_curve(torch.zeros(3), m=2) == 0


def test_bad_points():
    ok = torch.tensor([0.5, 1.0])
    for call, name in (
        (lambda: average_precision_from_hit_curve(torch.tensor([1.0, 3.0])), "hits"),
        (lambda: average_precision_from_hit_curve(torch.tensor([1.0, 0.0])), "hits"),
        (lambda: average_precision_from_hit_curve(torch.tensor([-1.0, 0.0])), "hits"),
        (lambda: average_precision_from_hit_curve(torch.tensor([torch.nan, 1.0])), "hits"),
        (lambda: average_precision_from_hit_curve(ok, torch.tensor([1.0])), "hits"),
        (lambda: average_precision_from_hit_curve(ok, torch.tensor([2.0, 2.0])), "t"),
        (lambda: average_precision_from_hit_curve(ok, torch.tensor([0.0, 2.0])), "t"),
        (lambda: average_precision_from_hit_curve(ok, m=0.5), "m"),
        (lambda: average_precision_from_hit_curve(ok, interpolate="spline"), "interpolate"),
        (lambda: average_precision_from_hit_curve(ok[:0]), "hits"),
        (lambda: average_precision_from_precision_recall(ok, torch.tensor([0.5, 1.5])), "recall"),
        (lambda: average_precision_from_precision_recall(torch.tensor([0.5, torch.nan]), ok), "precision"),
        (lambda: average_precision_from_precision_recall(ok[[0, 1, 0]], ok[[0, 1, 0]]), "recall"),
        (lambda: average_precision_from_precision_recall(ok, ok, interpolation="11-point-trec9"), "interpolation"),
        (lambda: binary_precision_at_fixed_recall(ok, torch.tensor([0, 1]), 1.5), "min_recall"),
        (lambda: binary_precision_at_fixed_recall(ok, torch.tensor([0, 1]), torch.tensor([])), "min_recall"),
        (lambda: interpolated_precision(ok, torch.tensor([0, 1]), "5-point"), "recall_levels"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`"):
            call()
    for call, name in (
        (lambda: average_precision_from_hit_curve([1, 2]), "hits"),
        (lambda: average_precision_from_precision_recall([1, 2], ok), "precision"),
    ):
        with pytest.raises(TypeError, match=f"`{name}`"):
            call()


@given(rankings(min_size=1))
def test_interpolated_precision(ranking):
    preds, target = with_hit(ranking)
    points = oracles.curve_points(*ranking)
    found = interpolated_precision(preds, target)
    wanted = sorted({r for r, _ in points if r})
    assert found.recall.tolist() == pytest.approx([float(r) for r in wanted])
    assert found.precision.tolist() == pytest.approx([float(oracles.interpolated_precision(points, r)) for r in wanted])
    for name, count in (("11-point", 10), ("101-point", 100)):
        at = interpolated_precision(preds, target, name)
        exact = [float(oracles.interpolated_precision(points, Fraction(j, count))) for j in range(count + 1)]
        if name == "11-point":
            assert at.precision.tolist() == pytest.approx(exact)
        assert at.precision.mean().item() == pytest.approx(
            binary_average_precision(preds, target, interpolation=name).item()
        )


LEVELS = [0.0, 0.2, 0.25, 0.5, 0.6, 2 / 3, 0.75, 1.0]


@given(rankings(min_size=1))
def test_precision_at_recall(ranking):
    preds, target = with_hit(ranking)
    m = sum(ranking[1])
    choices = {}
    for score in set(ranking[0]):
        taken = [y for s, y in zip(ranking[0], ranking[1], strict=True) if s >= score]
        choices[score] = Fraction(sum(taken), len(taken)), Fraction(sum(taken), m)
    found = binary_precision_at_fixed_recall(preds, target, torch.tensor(LEVELS, dtype=torch.float64))
    for place, level in enumerate(LEVELS):
        reached = [(p, r, score) for score, (p, r) in choices.items() if float(r) >= level and r]
        p, r, score = max(reached)
        single = binary_precision_at_fixed_recall(preds, target, level)
        assert (single.precision.item(), single.recall.item()) == pytest.approx((float(p), float(r)))
        assert single.threshold.item() == score
        assert [x[place].item() for x in found] == [x.item() for x in single]


@pytest.mark.parametrize("dtype", FLOATS)
def test_precision_at_recall_is_torchmetrics(dtype, generator):
    target = (torch.rand(200, generator=generator) < 0.3).long()
    preds = torch.sigmoid(torch.randn(200, generator=generator) + target).to(dtype)
    for level in (0.1, 0.5, 0.75, 1.0):
        found = binary_precision_at_fixed_recall(preds, target, level)
        precision, threshold = theirs.binary_precision_at_fixed_recall(preds.float(), target, level)
        assert found.precision.item() == pytest.approx(precision.item(), abs=SINGLE)
        at = functional.counts_at_threshold(preds, target, found.threshold.item())
        assert (at.precision.item(), at.recall.item()) == pytest.approx((found.precision.item(), found.recall.item()))
        assert found.threshold.dtype == dtype
        assert found.threshold.item() == threshold.item()


def test_precision_at_recall_with_weights_and_without_items():
    preds, target = torch.tensor([4, 3, 2, 1]), torch.tensor([1, 0, 1, 0])
    weights = torch.tensor([0.1, 5.0, 0.2, 1.0])
    found = binary_precision_at_fixed_recall(preds, target, 0.3, weights=weights)
    assert [x.item() for x in found] == pytest.approx([1, 1 / 3, 4])
    none = binary_precision_at_fixed_recall(preds, torch.zeros(4, dtype=torch.int64), torch.tensor([0.0, 0.5]))
    assert all(x.isnan().all() for x in none)
    assert math.isnan(binary_precision_at_fixed_recall(preds, target, 0.5, weights=torch.zeros(4)).precision)
    assert interpolated_precision(preds, torch.zeros(4, dtype=torch.int64), "11-point").precision.isnan().all()
