"""The randomization test of two systems' decisions, against all swaps, scipy's tests and random draws."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import accuracy_score, fbeta_score, precision_score, recall_score

from tests.support.tolerances import FEW_TERMS, SOLVED
from torch_ap.core.base.options import allowed_values
from torch_ap.inference import compare_decisions
from torch_ap.inference.decisions import Measure
from torch_ap.inference.posteriors import probability_better


def value_of(measure, target, preds, beta):
    """Return the measure as a Fraction, None for 0 / 0."""
    pairs = list(zip(target, preds, strict=True))
    tp, fp, fn = (sum((y, p) == wanted for y, p in pairs) for wanted in ((1, 1), (0, 1), (1, 0)))
    square = Fraction(beta) ** 2
    over, under = {
        "precision": (tp, tp + fp),
        "recall": (tp, tp + fn),
        "f_beta": ((1 + square) * tp, (1 + square) * tp + square * fn + fp),
        "accuracy": (len(pairs) - fp - fn, len(pairs)),
    }[measure]
    return Fraction(over) / under if under else None


def difference(measure, target, a, b, beta):
    values = [value_of(measure, target, x, beta) for x in (a, b)]
    return None if None in values else values[0] - values[1]


def swapped(a, b, target, measure, beta):
    """Return p over all swaps of items."""
    observed = abs(difference(measure, target, a, b, beta))
    reached = []
    for swap in itertools.product([0, 1], repeat=len(a)):
        x = [q if s else p for p, q, s in zip(a, b, swap, strict=True)]
        y = [p if s else q for p, q, s in zip(a, b, swap, strict=True)]
        gap = difference(measure, target, x, y, beta)
        reached.append(gap is None or abs(gap) >= observed)
    return sum(reached) / len(reached)


def test_the_oracle_is_sklearns():
    target, preds = [1, 1, 1, 0, 0, 0, 0, 1], [1, 0, 1, 1, 0, 0, 1, 0]
    for name, theirs in (("precision", precision_score), ("recall", recall_score), ("accuracy", accuracy_score)):
        assert float(value_of(name, target, preds, 1)) == pytest.approx(theirs(target, preds))
    for beta in (0.5, 1, 2):
        assert float(value_of("f_beta", target, preds, beta)) == pytest.approx(fbeta_score(target, preds, beta=beta))


@pytest.mark.parametrize("measure", allowed_values(Measure))
@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=5),
    st.sampled_from([0.5, 1, 2]),
)
def test_is_the_share_of_all_swaps(measure, items, beta):
    a, b, target = (list(x) for x in zip(*items, strict=True))
    values = [value_of(measure, target, x, beta) for x in (a, b)]
    found = compare_decisions(*(torch.tensor(x) for x in (a, b, target)), measure=measure, beta=beta)
    wanted = tuple(math.nan if x is None else float(x) for x in values)
    assert (found.value_a, found.value_b) == pytest.approx(wanted, nan_ok=True)
    if None in values:
        assert math.isnan(found.p_value)
        assert "0 / 0" in found.reason
        return
    assert found.p_value == pytest.approx(swapped(a, b, target, measure, beta), abs=FEW_TERMS)
    assert found.method == "exact"
    rights = [sum(x == y != z for x, y, z in zip(p, target, q, strict=True)) for p, q in ((a, b), (b, a))]
    assert [found.right_a, found.right_b] == rights


def two(n=2000, seed=0, better=0.1):
    rng = np.random.default_rng(seed)
    target = rng.random(n) < 0.3
    shared = rng.standard_normal(n) + target
    a, b = (shared + noise * rng.standard_normal(n) > 1 for noise in (0.5 + better, 0.5))
    return (torch.from_numpy(x) for x in (a, b, target))


def test_recall_and_accuracy_are_mcnemars():
    a, b, target = two()
    found = compare_decisions(a, b, target, measure="accuracy")
    assert found.p_value == pytest.approx(
        stats.binomtest(found.right_a, found.right_a + found.right_b).pvalue, rel=SOLVED
    )
    hits = compare_decisions(a, b, target, measure="recall")
    only = int((a & ~b & target).sum()), int((b & ~a & target).sum())
    assert hits.p_value == pytest.approx(stats.binomtest(only[0], sum(only)).pvalue, rel=SOLVED)
    assert 0 <= probability_better(found.right_a, found.right_b) <= 1


@pytest.mark.parametrize("measure", ["precision", "f_beta"])
def test_is_scipys_permutation_test(measure):
    a, b, target = (x.numpy() for x in two(400))

    def gap(x, y, axis):
        tp = [(z & target).sum(axis) for z in (x, y)]
        total = [z.sum(axis) + (0 if measure == "precision" else target.sum()) for z in (x, y)]
        return (1 if measure == "precision" else 2) * (tp[0] / total[0] - tp[1] / total[1])

    wanted = stats.permutation_test(
        (a, b),
        gap,
        permutation_type="samples",
        n_resamples=2000,
        vectorized=True,
        random_state=np.random.default_rng(0),
    )
    tensors = [torch.from_numpy(x) for x in (a, b, target)]
    exact = compare_decisions(*tensors, measure=measure)
    drawn = compare_decisions(*tensors, measure=measure, method="randomization")
    assert (exact.method, drawn.method) == ("exact", "randomization")
    error = math.sqrt(exact.p_value * (1 - exact.p_value) / 2000)
    # 4 standard errors, and the observed case itself
    assert wanted.pvalue == pytest.approx(float(exact.p_value), abs=4 * error + 1e-3)
    assert drawn.p_value == pytest.approx(float(exact.p_value), abs=2 * error + 1e-3)  # our p is larger
    again = compare_decisions(*tensors, measure=measure, method="randomization", n_resamples=10_000)
    assert again == drawn


def test_many_items_are_drawn():
    a, b, target = two(20_000, better=0.5)
    found = compare_decisions(a, b, target)
    assert found.method == "randomization"
    assert found.p_value == 1 / 10_001
    with pytest.raises(ValueError, match="lists at most 3,000,000"):
        compare_decisions(a, b, target, method="exact")


def test_size():
    """The test rejects for two equal systems in at most 5% of samples, because p is discrete."""
    rng = np.random.default_rng(1)
    rejected = []
    for _ in range(400):
        target = rng.random(200) < 0.3
        shared = rng.standard_normal(200) + target
        a, b = (torch.from_numpy(shared + 0.5 * rng.standard_normal(200) > 1) for _ in range(2))
        rejected.append(compare_decisions(a, b, torch.from_numpy(target)).p_value <= 0.05)
    assert 0.01 <= np.mean(rejected) <= 0.08


def test_edges_and_bad_arguments():
    a, b, target = (x[:40] for x in two(40))
    same = compare_decisions(a, a, target)
    assert (same.p_value, same.difference) == (1, 0)
    assert "no difference" in same.reason
    none = compare_decisions(torch.zeros_like(a), b, target, measure="precision")
    assert math.isnan(none.value_a)
    assert math.isnan(none.p_value)
    for name, value in (("measure", "auc"), ("method", "t"), ("beta", -1)):
        with pytest.raises(ValueError, match=f"`{name}`"):
            compare_decisions(a, b, target, **{name: value})
    with pytest.raises(ValueError, match="`preds_a` must be bool decisions"):
        compare_decisions(a.float(), b, target)
    with pytest.raises(ValueError, match=r"`preds_b` and `target` .*same shape"):
        compare_decisions(a, b[:3], target)
    with pytest.raises(TypeError, match="`preds_b` must be a tensor"):
        compare_decisions(a, b.tolist(), target)


def in_groups(size=60, groups=9, seed=0):
    generator = torch.Generator().manual_seed(seed)
    target = torch.rand(size, generator=generator) < 0.4
    a, b = (torch.rand(size, generator=generator) < 0.2 + 0.5 * target for _ in range(2))
    return a, b, target, torch.randint(groups, (size,), generator=generator)


@pytest.mark.parametrize("measure", allowed_values(Measure))
def test_groups_are_swapped_as_a_whole(measure):
    for seed in range(4):
        a, b, target, ids = in_groups(seed=seed)
        observed = abs(difference(measure, target.tolist(), a.tolist(), b.tolist(), 1.0))
        gaps = []
        for flags in itertools.product([False, True], repeat=9):
            swap = torch.tensor(flags)[ids]
            one, other = torch.where(swap, b, a), torch.where(swap, a, b)
            gaps.append(abs(difference(measure, target.tolist(), one.tolist(), other.tolist(), 1.0)))
        expected = np.mean([gap >= observed for gap in gaps])
        found = compare_decisions(a, b, target, measure=measure, groups=ids * 10**15 - 3)
        assert found.method == "exact"
        assert float(found.p_value) == pytest.approx(expected if observed else 1.0)
        drawn = compare_decisions(a, b, target, measure=measure, groups=ids.tolist(), method="randomization")
        # five standard errors of 10,000 draws
        assert float(drawn.p_value) == pytest.approx(expected if observed else 1.0, abs=0.025)


def test_groups_of_one_item_are_items():
    for seed in range(5):
        a, b, target, _ = (x[:14] for x in in_groups(seed=seed))
        for measure in allowed_values(Measure):
            one, other = (compare_decisions(a, b, target, measure=measure, groups=x) for x in (torch.arange(14), None))
            assert float(one.p_value) == pytest.approx(float(other.p_value), abs=FEW_TERMS)
            assert float(one.difference) == float(other.difference)


def test_few_and_many_groups():
    a, b, target, ids = in_groups(groups=4)
    found = compare_decisions(a, b, target, groups=ids)
    assert found.reason == "4 groups with different decisions, so that p is at least 0.125"
    assert float(found.p_value) >= 0.125
    one = compare_decisions(a, b, target, groups=torch.zeros(60, dtype=torch.int64))
    assert (float(one.p_value), one.reason) == (1, "1 group with different decisions, so that p is at least 1")
    same = compare_decisions(a, a, target, groups=ids)
    assert (float(same.p_value), same.reason) == (1.0, "no difference: p = 1 by definition")
    a, b, target, ids = in_groups(size=400, groups=60)
    assert compare_decisions(a, b, target, groups=ids).method == "randomization"
    with pytest.raises(ValueError, match=r"lists at most 3,000,000 cases, got \d+ groups with different decisions"):
        compare_decisions(a, b, target, groups=ids, method="exact")
    with pytest.raises(ValueError, match="`groups` must be one per item"):
        compare_decisions(a, b, target, groups=ids[:5])
    one, other = (compare_decisions(a, b, target, groups=ids, chunk_size=x) for x in (7, None))
    assert one == other
    shaped = compare_decisions(*(x.view(20, 20) for x in (a, b, target)), groups=ids.view(20, 20))
    assert shaped == other
