"""Interpolated AP and the trapezoid against the definitions, for one ranking and for many."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc, precision_recall_curve

from tests import oracles
from tests.strategies import rankings, tables
from torch_ap.core import builders, hit_curve, interpolation
from torch_ap.core.convention import Convention

ELEVEN = [Fraction(j, 10) for j in range(11)]
COCO = np.linspace(0, 1, 101).tolist()


def close(value, exact):
    return math.isnan(value) if exact is None else abs(value - float(exact)) < 1e-14


def curve_of(ranking):
    return builders.from_scores(*(torch.tensor(x) for x in ranking))


@pytest.mark.parametrize(
    ("name", "meaning"),
    [("11-point", ELEVEN), ("all-points", "all-points"), ("trapezoid", "trapezoid")],
)
@given(rankings(max_size=12))
def test_equals_the_definition(name, meaning, ranking):
    value = Convention(interpolation=name)(curve_of(ranking)).item()
    assert close(value, oracles.interpolated_average_precision(*ranking, meaning))


def over_float_levels(ranking, levels):
    """As pycocotools compares them: recall and levels as the float64 numbers that they are."""
    if not sum(ranking[1]):
        return None
    points = [(Fraction(float(recall)), precision) for recall, precision in oracles.curve_points(*ranking)]
    return sum(oracles.interpolated_precision(points, Fraction(level)) for level in levels) / len(levels)


@given(rankings(), st.lists(st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0]), min_size=1, max_size=5))
def test_own_levels(ranking, levels):
    value = Convention(interpolation=torch.tensor(levels, dtype=torch.float64))(curve_of(ranking)).item()
    assert close(value, over_float_levels(ranking, levels))


@given(rankings(max_size=12))
def test_cocos_levels(ranking):
    value = Convention(interpolation="101-point")(curve_of(ranking)).item()
    assert close(value, over_float_levels(ranking, COCO))


@pytest.mark.parametrize("name", ["11-point", "101-point", "all-points", "trapezoid"])
@given(tables(columns=4))
def test_many_rankings_are_each_their_own(name, table):
    convention = Convention(interpolation=name)
    together = convention(builders.from_columns(*table))
    each = [convention(builders.from_scores(table[0][:, c], table[1][:, c])) for c in range(4)]
    torch.testing.assert_close(together, torch.cat(each), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("ties", ["optimistic", "pessimistic"])
@pytest.mark.parametrize("name", ["11-point", "all-points"])
@given(rankings())
def test_resolved_ties(name, ties, ranking):
    order = (oracles.hits_first if ties == "optimistic" else oracles.hits_last)(*ranking)
    value = Convention(interpolation=name, ties=ties)(curve_of(ranking)).item()
    meaning = ELEVEN if name == "11-point" else name
    assert close(value, oracles.interpolated_average_precision([-i for i in range(len(order))], order, meaning))


def test_eleven_points_compare_recall_exactly():
    """0.1 * 3 is above 3 / 10 in floats; a ranking whose recall is exactly 3 / 10 must reach the level."""
    relevant = [1, 1, 1, *[0] * 50, *[1] * 7]
    curve = curve_of([[float(-i) for i in range(60)], relevant])
    at = interpolation.at_levels(curve, interpolation.levels_of("11-point"))
    assert at[0, 3] == 1
    assert at[0, 4] < 1


def test_trapezoid_is_sklearns_but_for_the_anchor(generator):
    scores = torch.randn(300, generator=generator)
    relevant = torch.rand(300, generator=generator) < 0.3
    relevant[scores.argmax()] = True  # the first point is then (1 / m, 1), and both anchors are (0, 1)
    precision, recall, _ = precision_recall_curve(relevant.numpy(), scores.numpy())
    value = interpolation.trapezoid(builders.from_scores(scores, relevant)).item()
    assert value == pytest.approx(auc(recall, precision), abs=1e-14)


def test_weighted_recall_reaches_its_last_level():
    weight = torch.tensor([0.1, 0.2, 0.3, 0.1, 0.7])
    curve = builders.from_scores(torch.arange(5.0), torch.tensor([1, 0, 1, 1, 1]), weight=weight)
    columns = builders.from_columns(
        torch.arange(5.0)[:, None].expand(5, 2), torch.tensor([1, 0, 1, 1, 1])[:, None].expand(5, 2), weight=weight
    )
    one = interpolation.at_levels(curve, torch.tensor([1.0]))[0, 0].item()
    assert one == pytest.approx((0.1 + 0.3 + 0.1 + 0.7) / 1.4, abs=1e-7)
    torch.testing.assert_close(interpolation.at_levels(columns, torch.tensor([1.0])), torch.full((2, 1), one).double())


def test_no_rankings_at_all():
    empty = hit_curve.from_bins(torch.zeros(0, 3, dtype=torch.int64), torch.zeros(0, 3, dtype=torch.int64))
    assert interpolation.over_all_points(empty).shape == (0,)
