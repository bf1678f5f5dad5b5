"""Area, hull, order and crossings of hit curves against exact fractions; the ideal and the random curve."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score

from tests.support import oracles
from tests.support.strategies import rankings
from tests.support.tolerances import FEW_TERMS, LAST_BITS, REORDERED, SOLVED
from torch_ap import curves, functional
from torch_ap.core.measures.ties import TIES
from torch_ap.inference.random_ranking import RandomHits


def tensors(ranking):
    return torch.tensor(ranking[0], dtype=torch.float64), torch.tensor(ranking[1])


def corners(scores, relevant):
    """Return (t, h) at the end of each tie group, from (0, 0)."""
    out = [(0, 0)]
    for group in oracles.tie_groups(scores, relevant):
        out.append((out[-1][0] + len(group), out[-1][1] + sum(group)))
    return out


def height(points, t):
    """Return h at t on the straight lines between points, as a Fraction."""
    for (t0, h0), (t1, h1) in itertools.pairwise(points):
        if t0 <= t <= t1:
            return h0 + Fraction(h1 - h0) * (t - t0) / (t1 - t0)
    return Fraction(points[-1][1])


def area_of(points):
    n = points[-1][0]
    return sum(Fraction((t1 - t0) * (h0 + h1), 2) for (t0, h0), (t1, h1) in itertools.pairwise(points)) / n**2


@pytest.mark.parametrize("ties", TIES)
@given(rankings(min_size=1))
def test_area(ties, ranking):
    if ties in ("grouped", "expected"):
        points = corners(*ranking)
    else:
        order = (oracles.hits_first if ties == "optimistic" else oracles.hits_last)(*ranking)
        points = corners(list(range(len(order), 0, -1)), order)
    found = curves.area_under_hit_curve(*tensors(ranking), ties=ties).item()
    assert found == pytest.approx(float(area_of(points)), abs=LAST_BITS)


def test_area_is_that_under_the_roc_curve_in_other_units(generator):
    target = (torch.rand(300, generator=generator) < 0.2).long()
    preds = (torch.randn(300, generator=generator, dtype=torch.float64) + target).round(decimals=1)
    pi = target.double().mean().item()
    wanted = pi * (1 - pi) * roc_auc_score(target, preds) + pi**2 / 2
    assert curves.area_under_hit_curve(preds, target).item() == pytest.approx(wanted, abs=FEW_TERMS)
    points = curves.hit_curve(preds, target, torch.arange(301).double() / 300, fraction=True)
    assert torch.trapezoid(points.hits, points.t).item() == pytest.approx(wanted, abs=FEW_TERMS)
    rows = curves.area_under_hit_curve(torch.stack([preds, -preds]), torch.stack([target, target]))
    assert rows.tolist() == pytest.approx([wanted, pi - wanted], abs=FEW_TERMS)


def test_area_and_ap_can_disagree():
    """If two curves cross, the one with the larger area can have the lower AP (Zhu's warning)."""
    target = torch.tensor([1, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    early = torch.tensor([10.0, 1, 9, 8, 7, 6, 5, 4, 3, 2])
    later = torch.tensor([7.0, 6, 10, 9, 8, 5, 4, 3, 2, 1])
    area, ap = curves.area_under_hit_curve, functional.binary_average_precision
    assert area(early, target) < area(later, target)
    assert ap(early, target) > ap(later, target)
    assert curves.compare_hit_curves(early, later, target).above == "neither"


@given(rankings(min_size=1), rankings(min_size=1))
def test_order_and_crossings(first, second):
    n = min(len(first[0]), len(second[0]))
    a, b, relevant = first[0][:n], second[0][:n], first[1][:n]
    found = curves.compare_hit_curves(*(torch.tensor(x) for x in (a, b, relevant)))
    lines = [corners(x, relevant) for x in (a, b)]
    bends = sorted({t for points in lines for t, _ in points})
    gap = [height(lines[0], t) - height(lines[1], t) for t in bends]
    leads = any(x > 0 for x in gap), any(x < 0 for x in gap)
    assert found.above == {(1, 1): "neither", (0, 0): "equal", (1, 0): "a", (0, 1): "b"}[leads]
    by_rank = dict(zip(found.t.tolist(), found.difference.tolist(), strict=True))
    assert {t: by_rank[t] for t in bends if t in by_rank} == pytest.approx(
        {t: float(x) for t, x in zip(bends, gap, strict=True) if t in by_rank}
    )
    wanted, last = [], None
    for place, x in enumerate(gap):
        if x == 0:
            continue
        if last is not None and (x > 0) != (gap[last] > 0):
            low, high = abs(gap[place - 1]), abs(x)
            wanted.append(float(bends[place - 1] + (bends[place] - bends[place - 1]) * low / (low + high)))
        last = place
    assert found.crossings.tolist() == pytest.approx(wanted)
    fractions = curves.compare_hit_curves(*(torch.tensor(x) for x in (a, b, relevant)), fraction=True)
    assert fractions.crossings.tolist() == pytest.approx([x / n for x in wanted])


def test_order_is_exact_in_large_tie_groups():
    """Two curves differ by one part in 10^10 at one rank: less than rounded shares resolve."""
    n = 200_000
    target = torch.zeros(n, dtype=torch.int64)
    target[: n // 3] = 1
    ranks = torch.arange(n)
    a, b = (ranks >= 99_999).long(), (ranks >= 99_998).long()  # the lower misses come first, in one group each
    found = curves.compare_hit_curves(a, b, target)
    groups = [[(0, 0)], [(0, 0)]]
    for points, scores in zip(groups, (a, b), strict=True):
        for score in (1, 0):
            points.append(
                (points[-1][0] + int((scores == score).sum()), points[-1][1] + int(target[scores == score].sum()))
            )
    gap = [height(groups[0], int(t)) - height(groups[1], int(t)) for t in found.t]
    assert 0 < max(abs(x) for x in gap) < 1
    assert found.above == ("b" if any(x < 0 for x in gap) else "a")


@given(rankings(min_size=1), rankings(min_size=1))
def test_a_curve_above_has_no_lower_ap(first, second):
    """Without ties, a curve above another has no lower AP at any cut."""
    n = min(len(first[0]), len(second[0]))
    relevant = torch.tensor(first[1][:n])
    a, b = (torch.tensor(x[0][:n]).argsort(stable=True).argsort() for x in (first, second))
    found = curves.compare_hit_curves(a, b, relevant)
    assume(found.above in ("a", "equal"))
    for measure in (functional.binary_average_precision, curves.area_under_hit_curve):
        settings = {"empty_target_action": "nan"} if measure is functional.binary_average_precision else {}
        values = [measure(x, relevant, **settings).item() for x in (a, b)]
        assert math.isnan(values[0]) or values[0] >= values[1] - 1e-7


def hull_of(points):
    """Return the upper concave hull by the monotone chain, in integers."""
    out = []
    for t, h in points:
        while len(out) > 1:
            (t0, h0), (t1, h1) = out[-2:]
            if (h1 - h0) * (t - t1) > (h - h1) * (t1 - t0):
                break
            out.pop()
        out.append((t, h))
    return out


@given(rankings(min_size=1, max_size=12))
def test_hull(ranking):
    found = curves.hit_curve_hull(*tensors(ranking))
    points = hull_of(corners(*ranking))
    assert list(zip(found.t.tolist(), found.hits.tolist(), strict=True)) == points
    m = sum(ranking[1])
    slopes = [Fraction(h1 - h0, t1 - t0) for (t0, h0), (t1, h1) in itertools.pairwise(points)]
    assert all(x > y for x, y in itertools.pairwise(slopes))
    for score, (t, _) in list(zip(found.thresholds.tolist(), points, strict=True))[1:]:
        assert sum(x >= score for x in ranking[0]) == t
    if not m:
        assert math.isnan(found.average_precision)
        return
    plain = functional.binary_average_precision(*tensors(ranking)).item()
    assert plain - 1e-12 <= found.average_precision.item() <= 1 + 1e-12
    share = curves.hit_curve_hull(*tensors(ranking), fraction=True)
    torch.testing.assert_close(share.hits, found.hits / len(ranking[0]))
    torch.testing.assert_close(share.average_precision, found.average_precision)


def test_hull_is_isotonic_regression_of_the_targets(generator):
    target = (torch.rand(2000, generator=generator) < 0.1).long()
    preds = torch.randn(2000, generator=generator, dtype=torch.float64) + target
    along = target[preds.argsort(descending=True)].numpy()
    fitted = IsotonicRegression(increasing=False).fit_transform(np.arange(2000), along)
    hull = curves.hit_curve_hull(preds, target)
    at = np.interp(np.arange(1, 2001), hull.t, hull.hits)
    np.testing.assert_allclose(at, fitted.cumsum(), atol=SOLVED)
    again = curves.average_precision_from_hit_curve(hull.hits[1:], hull.t[1:], interpolate="line")
    assert again.item() == pytest.approx(hull.average_precision.item(), rel=REORDERED)


def test_hull_of_a_perfect_and_of_a_worthless_ranking():
    target = (torch.arange(100) < 5).long()
    assert curves.hit_curve_hull(-torch.arange(100.0), target).average_precision.item() == pytest.approx(1)
    worst = curves.hit_curve_hull(torch.arange(100.0), target)
    assert (worst.t.tolist(), worst.hits.tolist()) == ([0, 100], [0, 5])
    assert worst.average_precision.item() == pytest.approx(0.05), "the area of random selection, Zhu's example 1"


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_ideal_and_random_curves(drawn):
    n, m = drawn
    target = (torch.arange(n) < m).long()
    halves = torch.arange(2 * n + 1).double() / 2
    for fraction, t in ((False, None), (True, None), (False, halves), (True, halves / n)):
        best = curves.hit_curve(-torch.arange(n), target, t, fraction=fraction)
        even = curves.hit_curve(torch.zeros(n), target, t, fraction=fraction)
        unit = n if fraction else 1
        assert best.hits.tolist() == pytest.approx([min(x, m / unit) for x in best.t.tolist()])
        assert even.hits.tolist() == pytest.approx([x * m / n for x in even.t.tolist()])
        curve = functional.binary_curve(-torch.arange(n), target)
        for points, wanted in ((curve.ideal_hit_curve, best), (curve.random_hit_curve, even)):
            corners = points(fraction=fraction)
            assert np.interp(wanted.t, corners.t, corners.hits) == pytest.approx(wanted.hits.numpy())
    means = [float(RandomHits(n, m, t).mean) for t in range(1, n + 1)]
    assert curves.hit_curve(torch.zeros(n), target).hits.tolist() == pytest.approx(means)


@given(rankings(min_size=1))
def test_survival_is_the_share_still_to_come(ranking):
    found = curves.survival_function(*tensors(ranking))
    m = sum(ranking[1])
    if not m:
        assert found.survival.isnan().all()
        return
    points = corners(*ranking)
    share = [1 - height(points, t) / m for t in range(1, len(ranking[0]) + 1)]
    assert found.survival.tolist() == pytest.approx([float(x) for x in share], abs=REORDERED)
    assert found.variance.tolist() == pytest.approx([float(x * (1 - x) / m) for x in share], abs=REORDERED)


def test_survival_variance_is_su_and_zhangs():
    """Var(S(t)) = x (m - x) / m^3 with x hits below rank t."""
    found = curves.survival_function(torch.arange(8, 0, -1), torch.tensor([0, 1, 0, 0, 1, 1, 0, 0]))
    assert found.variance.tolist() == pytest.approx([x * (3 - x) / 27 for x in (3, 2, 2, 2, 1, 0, 0, 0)])


def test_bad_arguments():
    two = torch.tensor([0.1, 0.2]), torch.tensor([0, 1])
    for call, name in (
        (lambda: curves.hit_curve(*two, torch.tensor([2.5])), "t"),
        (lambda: curves.hit_curve(*two, torch.tensor([1.5]), fraction=True), "t"),
        (lambda: curves.area_under_hit_curve(*two, ties="x"), "ties"),
        (lambda: curves.compare_hit_curves(two[0], two[0][:1], two[1]), "preds_b"),
        (lambda: curves.compare_hit_curves(two[0] * torch.nan, *two), "preds_a"),
        (lambda: curves.survival_function(*two, torch.tensor([-1.0])), "t"),
        (lambda: curves.hit_curve_hull(two[0] * torch.nan, two[1]), "preds"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`"):
            call()


def test_empty_input():
    empty = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    assert math.isnan(curves.area_under_hit_curve(*empty))
    assert curves.compare_hit_curves(empty[0], *empty).above == "equal"
    assert curves.hit_curve_hull(*empty).t.tolist() == [0]
