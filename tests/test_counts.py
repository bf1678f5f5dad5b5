"""The four counts and their ratios, at k and at a threshold."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, fbeta_score, precision_score, recall_score

from tests import oracles
from tests.strategies import rankings
from torch_ap.core import bins, builders, counts
from torch_ap.core.convention import TIES
from torch_ap.core.counts import Counts


def curve_of(ranking):
    return builders.from_scores(*(torch.tensor(x) for x in ranking))


def four(at):
    return [x.item() for x in (at.tp, at.fp, at.fn, at.tn)]


@pytest.mark.parametrize("ties", TIES)
@given(rankings(), st.integers(1, 9))
def test_at_rank(ties, ranking, k):
    if ties in ("grouped", "expected"):
        exact = [
            float(oracles.mean_over_orders(lambda r, i=i: Fraction(oracles.counts_at_rank(r, k)[i]), *ranking))
            for i in range(4)
        ]
    else:
        order = (oracles.hits_first if ties == "optimistic" else oracles.hits_last)(*ranking)
        exact = oracles.counts_at_rank(order, k)
    assert four(counts.counts_at_rank(curve_of(ranking), k, ties=ties)) == pytest.approx(exact, abs=1e-12)


@given(rankings(), st.lists(st.sampled_from([-3.0, -1.0, 0.0, 0.3, 0.5, 2.0]), min_size=1, max_size=4, unique=True))
def test_at_thresholds(ranking, thresholds):
    binned = bins.count(torch.tensor(ranking[0]), torch.tensor(ranking[1]).long(), torch.tensor(sorted(thresholds)))
    at = counts.counts_from_bins(binned[:, :, 1], binned.sum(2))
    for place, threshold in enumerate(sorted(thresholds, reverse=True)):
        exact = oracles.counts_at_score(*ranking, threshold)
        assert tuple(x[0, place].item() for x in (at.tp, at.fp, at.fn, at.tn)) == exact


def test_ratios_equal_sklearns(generator):
    target = torch.rand(200, generator=generator) < 0.3
    preds = torch.rand(200, generator=generator) < 0.4
    tn, fp, fn, tp = confusion_matrix(target, preds).ravel()
    at = Counts(*(torch.tensor(float(x)) for x in (tp, fp, fn, tn)))
    close = pytest.approx
    assert at.precision.item() == close(precision_score(target, preds))
    assert at.recall.item() == close(recall_score(target, preds))
    assert at.specificity.item() == close(recall_score(~target, ~preds))
    assert at.fall_out.item() == close(1 - recall_score(~target, ~preds))
    assert at.accuracy.item() == close(accuracy_score(target, preds))
    for beta in (0, 0.5, 1, 2, 10):
        assert at.f_beta(beta).item() == close(fbeta_score(target, preds, beta=beta))


@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 9), st.sampled_from([0, 0.5, 1, 2, 3.5]))
def test_f_beta_is_one_minus_effectiveness(tp, fp, fn, beta):
    at = Counts(*(torch.tensor(float(x)) for x in (tp, fp, fn, 5)))
    exact = oracles.f_beta(Fraction(tp, tp + fp), Fraction(tp, tp + fn), Fraction(beta))
    assert at.f_beta(beta).item() == pytest.approx(float(exact))
    assert 1 - at.effectiveness(1 / (beta**2 + 1)).item() == pytest.approx(float(exact))


def test_ratios_of_nothing_are_nan():
    nothing = Counts(*(torch.tensor(0.0) for _ in range(4)))
    ratios = (nothing.precision, nothing.recall, nothing.specificity, nothing.fall_out, nothing.accuracy)
    assert all(math.isnan(x.item()) for x in ratios)
    missed = Counts(*(torch.tensor(float(x)) for x in (0, 0, 3, 1)))
    assert missed.f_beta().item() == 0


@pytest.mark.parametrize("ties", TIES)
@given(rankings())
def test_r_precision(ties, ranking):
    value = counts.r_precision(curve_of(ranking), ties=ties).item()
    m = sum(ranking[1])
    if not m:
        assert math.isnan(value)
    else:
        at = counts.counts_at_rank(curve_of(ranking), m, ties=ties)
        assert value == pytest.approx(at.precision.item())
        assert value == pytest.approx(at.recall.item())


@pytest.mark.parametrize("ties", TIES)
@given(rankings(min_size=1))
def test_hits_at_whole_ranks(ties, ranking):
    n = len(ranking[0])
    h = counts.hits_at(curve_of(ranking), torch.arange(n + 1).double(), ties=ties).tolist()
    exact = [0.0] + [counts.counts_at_rank(curve_of(ranking), k, ties=ties).tp.item() for k in range(1, n + 1)]
    assert h == pytest.approx(exact)


@given(rankings(min_size=1))
def test_hits_between_ranks_lie_on_a_line(ranking):
    n = len(ranking[0])
    whole = counts.hits_at(curve_of(ranking), torch.arange(n + 1).double())
    middle = counts.hits_at(curve_of(ranking), torch.arange(n) + 0.5)
    torch.testing.assert_close(middle, (whole[1:] + whole[:-1]) / 2)
