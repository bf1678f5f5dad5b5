"""The four counts and their ratios, at k and at a threshold."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    fbeta_score,
    matthews_corrcoef,
    precision_score,
    recall_score,
)

from tests.support import oracles
from tests.support.strategies import rankings
from tests.support.tolerances import LAST_BITS, REORDERED
from torch_ap import functional
from torch_ap.core.measures import counts
from torch_ap.core.measures.ties import TIES
from torch_ap.core.ranking import bins, builders
from torch_ap.functional import Counts


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
    assert four(counts.counts_at_rank(curve_of(ranking), k, ties=ties)) == pytest.approx(exact, abs=REORDERED)


@given(rankings(), st.lists(st.sampled_from([-3.0, -1.0, 0.0, 0.3, 0.5, 2.0]), min_size=1, max_size=4, unique=True))
def test_at_thresholds(ranking, thresholds):
    items = bins.Items(torch.tensor(ranking[0]), torch.tensor(ranking[1]).long())
    binned = bins.count(items, torch.tensor(sorted(thresholds)))
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
def test_hits_between_ranks_are_on_a_line(ranking):
    n = len(ranking[0])
    whole = counts.hits_at(curve_of(ranking), torch.arange(n + 1).double())
    middle = counts.hits_at(curve_of(ranking), torch.arange(n) + 0.5)
    torch.testing.assert_close(middle, (whole[1:] + whole[:-1]) / 2)


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_ratios_of_errors_equal_sklearns(tp, fp, fn, tn):
    at = Counts(*(torch.tensor(float(x), dtype=torch.float64) for x in (tp, fp, fn, tn)))
    target, preds = [1] * tp + [0] * fp + [1] * fn + [0] * tn, [1] * (tp + fp) + [0] * (fn + tn)
    value = at.matthews_corrcoef.item()
    if (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn):
        assert value == pytest.approx(matthews_corrcoef(target, preds), abs=LAST_BITS)
    else:
        assert math.isnan(value)
    for ratio, other in ((at.miss_rate, at.recall), (at.false_discovery_rate, at.precision)):
        assert ratio.item() == pytest.approx(1 - other.item(), nan_ok=True)


@pytest.mark.parametrize("size", [1.0, 3.0, 1e-80, 1e76, 12_345_678_901.0])
def test_matthews_correlation_of_perfect_decisions_is_one(size):
    counts_of = [torch.tensor(size, dtype=torch.float64), torch.tensor(7 * size, dtype=torch.float64)]
    none = torch.zeros((), dtype=torch.float64)
    assert Counts(counts_of[0], none, none, counts_of[1]).matthews_corrcoef == 1
    assert Counts(none, counts_of[0], counts_of[1], none).matthews_corrcoef.item() == pytest.approx(-1, abs=LAST_BITS)


@pytest.mark.parametrize("weight", [1e-310, 1e-290, 1e-200, 1.0, 1e200, 1e288])
def test_matthews_correlation_does_not_depend_on_the_unit_of_weights(weight):
    weights = torch.full((3,), weight, dtype=torch.float64)
    scores = torch.tensor([0.9, 0.8, 0.7], dtype=torch.float64)
    at = functional.counts_at_threshold(scores, torch.tensor([1, 0, 1]), 0.75, weights=weights)
    assert at.matthews_corrcoef.item() == pytest.approx(matthews_corrcoef([1, 0, 1], [1, 1, 0]), abs=LAST_BITS)


def test_bool_decisions(generator):
    target = torch.rand((20, 10), generator=generator) < 0.3
    preds = torch.rand((20, 10), generator=generator) < 0.4
    at = functional.counts_at_threshold(preds, target)
    tn, fp, fn, tp = confusion_matrix(target.flatten(), preds.flatten()).ravel()
    assert four(at) == [tp, fp, fn, tn]
    assert at.matthews_corrcoef.item() == pytest.approx(matthews_corrcoef(target.flatten(), preds.flatten()))
    weights = torch.rand((20, 10), generator=generator)
    weighted = functional.counts_at_threshold(preds, target, weights=weights).precision.item()
    assert weighted == pytest.approx(
        precision_score(target.flatten(), preds.flatten(), sample_weight=weights.flatten())
    )
    with pytest.raises(ValueError, match="`threshold` must be None for bool"):
        functional.counts_at_threshold(preds, target, 0.5)
    with pytest.raises(ValueError, match="`threshold` must be given for scores"):
        functional.counts_at_threshold(preds.float(), target)


@pytest.mark.parametrize("ties", TIES)
@given(rankings(min_size=1), st.lists(st.booleans(), min_size=7, max_size=7), st.integers(1, 9))
def test_at_rank_of_predicted_items(ties, ranking, flags, k):
    """Equals the ranking of the predicted items alone, with the other items as false or true negatives."""
    scores, relevant = ranking
    flags = flags[: len(scores)]
    kept = (
        [x for x, flag in zip(scores, flags, strict=True) if flag],
        [x for x, flag in zip(relevant, flags, strict=True) if flag],
    )
    rest = [x for x, flag in zip(relevant, flags, strict=True) if not flag]

    def exact(k):
        if ties in ("grouped", "expected"):
            at = [
                float(oracles.mean_over_orders(lambda r, i=i: Fraction(oracles.counts_at_rank(r, k)[i]), *kept))
                for i in range(4)
            ]
        else:
            order = (oracles.hits_first if ties == "optimistic" else oracles.hits_last)(*kept)
            at = oracles.counts_at_rank(order, k)
        return [at[0], at[1], at[2] + sum(rest), at[3] + len(rest) - sum(rest)]

    preds, target, predicted = (torch.tensor(x) for x in (scores, relevant, flags))
    at = functional.counts_at_k(preds, target, k, ties=ties, predicted=predicted)
    assert four(at) == pytest.approx(exact(k), abs=REORDERED)
    m = sum(relevant)
    assert at.precision.item() == pytest.approx(exact(k)[0] / k, abs=REORDERED)
    assert math.isnan(at.recall) if not m else at.recall.item() == pytest.approx(exact(k)[0] / m, abs=REORDERED)
    if m:
        at_m = functional.counts_at_k(preds, target, m, ties=ties, predicted=predicted)
        assert at_m.precision.item() == at_m.recall.item() == pytest.approx(exact(m)[0] / m, abs=REORDERED)
    rows = functional.counts_at_k(
        *(x.expand(2, -1) for x in (preds, target)), k, ties=ties, predicted=torch.stack([predicted, ~predicted])
    )
    assert [x[0].item() for x in (rows.tp, rows.fp, rows.fn, rows.tn)] == pytest.approx(four(at))


def test_fewer_predicted_than_k():
    """Six of the twelve documents are predicted: for k = 8, two places are false positives."""
    preds = torch.tensor([0.94, 0.91, 0.90, 0.66, 0.63, 0.57, 0.37, 0.27, 0.21, 0.20, 0.18, 0.06])
    target = torch.tensor([0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0])
    predicted = functional.counts_at_k(preds, target, 8, predicted=preds >= 0.5)
    assert predicted.precision.item() == pytest.approx(4 / 8)
    assert predicted.recall.item() == pytest.approx(4 / 7)
    assert functional.counts_at_k(preds, target, 8).precision.item() == pytest.approx(5 / 8)


def test_bad_predicted():
    preds, target = torch.rand(3), torch.tensor([0, 1, 1])
    for bad in (torch.ones(3), torch.ones(2, dtype=torch.bool)):
        with pytest.raises(ValueError, match="`predicted` must be bool"):
            functional.counts_at_k(preds, target, 2, predicted=bad)
    with pytest.raises(TypeError, match="`predicted` must be a bool tensor"):
        functional.counts_at_k(preds, target, 2, predicted=[True, True, False])
    empty = torch.zeros(0, dtype=torch.bool)
    assert functional.counts_at_k(empty.float(), empty, 2, predicted=empty).precision == 0
