"""Measures of queries: definitions in exact fractions under every rule for ties, and peers."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
import torchmetrics.functional.retrieval as peer
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, fbeta_score

from tests.support import oracles_retrieval as oracles
from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap import functional as functions
from torch_ap.retrieval import RetrievalMAP

SCORES = (-1.0, 0.0, 0.5, 2.0)
ORDERED_TIES = ("expected", "optimistic", "pessimistic")
CUTS = st.sampled_from([None, 1, 2, 3, 9])
F64 = {"dtype": torch.float64}


@st.composite
def ranking(draw):
    size = draw(st.integers(1, 6))
    scores = draw(st.lists(st.sampled_from(SCORES), min_size=size, max_size=size))
    relevant = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    unseen = draw(st.integers(0, 2))
    return scores, relevant, sum(relevant) + unseen


def tensors(case):
    scores, relevant, m = case
    return torch.tensor(scores), torch.tensor(relevant), {"num_relevant": m, **F64}


def agree(value, exact):
    assert value.dtype == torch.float64
    assert value.item() == pytest.approx(float(exact), abs=REORDERED)


@given(
    ranking(),
    st.sampled_from(ORDERED_TIES),
    st.sampled_from([None, 1, 2, 3, 9]),
    st.sampled_from(["min", "relevant", "found"]),
)
@settings(deadline=None)
def test_average_precision(case, ties, k, denominator):
    preds, target, words = tensors(case)
    value = functions.retrieval_average_precision(preds, target, k, ties=ties, denominator=denominator, **words)
    measure = partial(oracles.average_precision, m=case[2], k=k, denominator=denominator)
    agree(value, oracles.over_orders(measure, case[0], case[1], ties))


def r_precision(preds, target, top_k=None, **words):
    del top_k
    return functions.retrieval_r_precision(preds, target, **words)


MEASURES = {
    "precision": (functions.retrieval_precision, lambda order, case: oracles.precision(order, case["k"])),
    "adaptive": (
        partial(functions.retrieval_precision, adaptive_k=True),
        lambda order, case: oracles.precision(order, case["k"], adaptive=True),
    ),
    "recall": (functions.retrieval_recall, lambda order, case: oracles.recall(order, **case)),
    "f_1": (functions.retrieval_f_beta, lambda order, case: oracles.f_beta(order, beta=Fraction(1), **case)),
    "f_2": (
        partial(functions.retrieval_f_beta, beta=2.0),
        lambda order, case: oracles.f_beta(order, beta=Fraction(2), **case),
    ),
    "hit_rate": (functions.retrieval_hit_rate, lambda order, case: oracles.hit_rate(order, case["k"])),
    "reciprocal_rank": (
        functions.retrieval_reciprocal_rank,
        lambda order, case: oracles.reciprocal_rank(order, case["k"]),
    ),
    "r_precision": (r_precision, lambda order, case: oracles.r_precision(order, case["m"])),
}


@pytest.mark.parametrize("name", MEASURES)
@given(case=ranking(), ties=st.sampled_from(ORDERED_TIES), k=CUTS)
@settings(deadline=None)
def test_measures(name, case, ties, k):
    function, oracle = MEASURES[name]
    scores, relevant, m = case
    preds, target, words = tensors(case)
    value = function(preds, target, top_k=k, ties=ties, **words)
    known = {"m": m, "k": k}
    agree(value, oracles.over_orders(lambda order: oracle(order, known), scores, relevant, ties) if m else 0)


@given(case=ranking(), ties=st.sampled_from(ORDERED_TIES), k=CUTS)
@settings(deadline=None)
def test_fall_out(case, ties, k):
    scores, relevant, _ = case
    value = functions.retrieval_fall_out(torch.tensor(scores), torch.tensor(relevant), k, ties=ties, **F64)
    some = not all(relevant)
    agree(value, oracles.over_orders(lambda order: oracles.fall_out(order, k), scores, relevant, ties) if some else 1)


@given(ranking())
@settings(deadline=None)
def test_grouped_average_precision_is_scikit_learns(case):
    scores, relevant, _ = case
    value = functions.retrieval_average_precision(torch.tensor(scores), torch.tensor(relevant), ties="grouped", **F64)
    if any(relevant):
        agree(value, average_precision_score(relevant, scores))


def test_grouped_first_hit_is_at_the_end_of_its_group():
    preds, target = torch.tensor([3.0, 2, 2, 2, 1]), torch.tensor([0, 1, 0, 0, 1])
    assert functions.retrieval_reciprocal_rank(preds, target, ties="grouped").item() == 0.25
    assert functions.retrieval_hit_rate(preds, target, 3, ties="grouped").item() == 0
    assert functions.retrieval_hit_rate(preds, target, 4, ties="grouped").item() == 1


def test_untied_positive_scores_agree_with_torchmetrics():
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        preds, target = torch.rand(12, generator=generator), torch.rand(12, generator=generator) < 0.3
        for k in (None, 1, 5, 20):
            pairs = (
                (functions.retrieval_precision(preds, target, k), peer.retrieval_precision(preds, target, k)),
                (functions.retrieval_recall(preds, target, k), peer.retrieval_recall(preds, target, k)),
                (functions.retrieval_hit_rate(preds, target, k), peer.retrieval_hit_rate(preds, target, k)),
                (functions.retrieval_fall_out(preds, target, k), peer.retrieval_fall_out(preds, target, k)),
                (
                    functions.retrieval_reciprocal_rank(preds, target, k),
                    peer.retrieval_reciprocal_rank(preds, target, k),
                ),
                (functions.retrieval_r_precision(preds, target), peer.retrieval_r_precision(preds, target)),
                (
                    functions.retrieval_average_precision(preds, target, k, denominator="found"),
                    peer.retrieval_average_precision(preds, target, k),
                ),
            )
            for ours, theirs in pairs:
                torch.testing.assert_close(ours, theirs)


def test_f_beta_is_scikit_learns():
    preds, target = torch.tensor([5.0, 4, 3, 2, 1]), torch.tensor([1, 0, 1, 1, 0])
    value = functions.retrieval_f_beta(preds, target, top_k=2, beta=0.5, **F64)
    agree(value, fbeta_score(target, [1, 1, 0, 0, 0], beta=0.5))


def test_the_three_denominators():
    preds, target = torch.arange(6.0, 0, -1), torch.tensor([1, 0, 1, 0, 0, 1])
    table = {"relevant": (0.25, 5 / 12, 5 / 12), "min": (0.5, 5 / 9, 5 / 12), "found": (1.0, 5 / 6, 5 / 6)}
    for denominator, expected in table.items():
        for k, value in zip((2, 3, 5), expected, strict=True):
            words = {"denominator": denominator, "num_relevant": 4, **F64}
            agree(functions.retrieval_average_precision(preds, target, k, **words), value)
    agree(functions.retrieval_average_precision(preds, target, num_relevant=4, **F64), 13 / 24)


@pytest.mark.parametrize("version", [9, 10])
@given(relevant=st.lists(st.integers(0, 1), min_size=1, max_size=12), unseen=st.integers(0, 9))
@settings(deadline=None)
def test_trec_interpolation(version, relevant, unseen):
    m = sum(relevant) + unseen
    preds = torch.arange(len(relevant), 0, -1.0)
    value = functions.retrieval_average_precision(
        preds, torch.tensor(relevant), interpolation=f"11-point-trec{version}", ties="grouped", num_relevant=m, **F64
    )
    levels = [oracles.trec_interpolated(relevant, m, level / 10, version) for level in range(11)]
    agree(value, sum(levels) / 11 if m else 0)


@pytest.mark.parametrize("interpolation", ["11-point", "11-point-trec10", "101-point", "all-points"])
def test_interpolation_groups_ties_by_default(interpolation):
    preds, target = torch.tensor([[3.0, 2, 2, 2, 1]]), torch.tensor([[0, 1, 0, 1, 1]])
    value = functions.retrieval_average_precision(preds, target, interpolation=interpolation)
    grouped = functions.retrieval_average_precision(preds, target, interpolation=interpolation, ties="grouped")
    metric = RetrievalMAP(interpolation=interpolation)
    metric.update(preds, target)
    assert value == grouped == metric.compute()
    assert value != functions.retrieval_average_precision(preds, target, interpolation=interpolation, ties="optimistic")


def test_trec_9_and_10_differ():
    preds, target = torch.arange(10.0, 0, -1), torch.tensor([1, 0, 0, 1, 0, 0, 0, 0, 0, 1])
    nine, ten = (
        functions.retrieval_average_precision(preds, target, interpolation=f"11-point-trec{v}", ties="grouped", **F64)
        for v in (9, 10)
    )
    assert nine != ten


def test_layouts_agree():
    generator = torch.Generator().manual_seed(0)
    preds, target = torch.randn(7, 9, generator=generator), torch.rand(7, 9, generator=generator) < 0.4
    mask = torch.rand(7, 9, generator=generator) < 0.7
    mask[3] = False
    rows = functions.retrieval_average_precision(preds, target, mask=mask)
    assert torch.isnan(rows[3])
    ids = torch.tensor([50, -3, 2**60, 7, 8, -(2**62), 4])
    places = torch.randperm(63, generator=generator)
    indexes = ids[:, None].expand(7, 9)
    for order in (torch.arange(63), places):
        flat, keep = [x.flatten()[order] for x in (preds, target, indexes)], mask.flatten()[order]
        value = functions.retrieval_average_precision(*flat[:2], indexes=flat[2], mask=keep)
        ascending = torch.argsort(ids)
        ascending = ascending[ascending != 3]
        assert torch.equal(value, rows[ascending])
    single = functions.retrieval_average_precision(preds[0], target[0], mask=mask[0])
    assert single.shape == ()
    assert single == rows[0]


def test_masked_items_can_have_any_value():
    preds, mask = torch.tensor([[0.5, float("nan"), 0.1]]), torch.tensor([[True, False, True]])
    assert functions.retrieval_average_precision(preds, torch.tensor([[0, 7, 1]]), mask=mask).item() == 0.5


def test_shifted_scores_rank_alike():
    preds, target = torch.tensor([0.9, 0.3, 0.5, 0.1]), torch.tensor([0, 1, 1, 0])
    value = functions.retrieval_average_precision(preds, target)
    for shift in (-100, -0.5, 100):
        assert functions.retrieval_average_precision(preds + shift, target) == value


def test_infinite_scores_and_dtypes():
    target = torch.tensor([0, 1, 1])
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        preds = torch.tensor([float("inf"), 1, -float("inf")], dtype=dtype)
        value = functions.retrieval_average_precision(preds, target)
        assert value.item() == pytest.approx(7 / 12)
        assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


def test_graded_targets():
    preds, target = torch.tensor([4.0, 3, 2, 1]), torch.tensor([1, 2, -1, 2])
    assert functions.retrieval_average_precision(preds, target, relevance_level=2).item() == 0.5
    assert functions.retrieval_precision(preds, target, 2, relevance_level=1).item() == 1
    for bad in (target, target.float(), target.abs() / 2, torch.tensor([1, 0, -1, 1], dtype=torch.int8)):
        offender = next(x for x in bad.tolist() if x < 0 or x % 1)
        with pytest.raises(ValueError, match=rf"`target` .*`relevance_level`.* got {offender} at index"):
            functions.retrieval_precision(preds, bad, 2)
        metric = RetrievalMAP()
        with pytest.raises(ValueError, match="`relevance_level`"):
            metric.update(preds, bad, torch.zeros(4, dtype=torch.long))
        assert not metric.update_called
        assert functions.retrieval_precision(preds, bad, 2, relevance_level=0.5).item() >= 0
    assert functions.retrieval_precision(preds, target, 2, ignore_index=-1).item() == 1
    assert functions.retrieval_precision(preds, target.float() / 2, 2, relevance_level=0.75).item() == 0.5


def test_judged_queries_without_items():
    preds, target, indexes = torch.tensor([2.0, 1]), torch.tensor([1, 1]), torch.tensor([5, 5])
    words = {"indexes": indexes, "num_relevant": {5: 4, 9: 2, 1: 0}}
    assert functions.retrieval_average_precision(preds, target, **words).tolist() == [0, 0.5, 0]
    values = functions.retrieval_average_precision(preds, target, missing_queries="skip", **words)
    assert values[1] == 0.5
    assert torch.isnan(values[[0, 2]]).all()
    with pytest.raises(ValueError, match=r"`num_relevant` .*queries .* 1, 9"):
        functions.retrieval_average_precision(preds, target, missing_queries="error", **words)


@pytest.mark.parametrize(("action", "value"), [("neg", 0), ("pos", 1), ("nan", None), ("skip", None)])
def test_no_relevant_item(action, value):
    result = functions.retrieval_average_precision(torch.tensor([1.0]), torch.tensor([0]), empty_target_action=action)
    assert torch.isnan(result) if value is None else result == value


def test_no_items_at_all():
    assert functions.retrieval_average_precision(torch.zeros(0, 5), torch.zeros(0, 5)).shape == (0,)
    empty = torch.zeros(0, dtype=torch.int64)
    assert functions.retrieval_average_precision(torch.zeros(0), empty, indexes=empty).shape == (0,)
    assert torch.isnan(functions.retrieval_average_precision(torch.zeros(0), empty))


PREDS, TARGET, INDEXES = torch.tensor([0.5, 0.2]), torch.tensor([1, 0]), torch.tensor([3, 3])


@each(
    "arguments, words, message",
    [
        ((PREDS, TARGET), {"indexes": INDEXES.float()}, "`indexes` must be an integer tensor, got torch.float32"),
        ((PREDS, TARGET), {"indexes": INDEXES[:1]}, r"`indexes` must have the shape of `preds`, \(2,\), got \(1,\)"),
        ((PREDS, TARGET), {"indexes": [3, 3]}, "`indexes` must be a tensor or None, got list"),
        (
            (PREDS, TARGET),
            {"indexes": INDEXES, "num_relevant": {3: 0}},
            "got 0 for query 3, where there are 1",
        ),
        ((PREDS, TARGET), {"indexes": INDEXES, "num_relevant": {3: -1}}, "ints of at least 0 .*, got -1 for query 3"),
        ((PREDS, TARGET), {"indexes": INDEXES, "num_relevant": {"3": 1}}, "int queries as keys, .*, got '3'"),
        ((PREDS, TARGET), {"num_relevant": {3: 1}}, "`num_relevant` as a dict requires `indexes`"),
        ((PREDS, TARGET), {"num_relevant": torch.tensor([1.0])}, "`num_relevant` must be an integer tensor"),
        (
            (PREDS, TARGET),
            {"num_relevant": torch.tensor([1, 2])},
            r"must have shape \(1,\), or be an int, .*, got \(2,\)",
        ),
        ((PREDS, TARGET), {"num_relevant": torch.tensor(-2)}, "`num_relevant` must not be negative, got -2"),
        ((PREDS, TARGET), {"num_relevant": -2}, r"`num_relevant` of one ranking must be an int from 0 .*, got -2$"),
        ((PREDS, TARGET), {"num_relevant": True}, r"`num_relevant` of one ranking must be an int from 0 .*, got True$"),
        ((PREDS, TARGET), {"num_relevant": 2**63}, r"`num_relevant` of one ranking .*, got 9223372036854775808$"),
        ((PREDS, TARGET), {"num_relevant": 0}, "relevant ranked items, got 0, where there are 1$"),
        ((PREDS[None], TARGET[None]), {"num_relevant": torch.tensor([0])}, "got 0 for row 0, where there are 1$"),
        ((PREDS[None], TARGET[None]), {"num_relevant": 2}, "`num_relevant` must be a tensor, a dict or None, got int"),
        ((PREDS, TARGET), {"indexes": INDEXES, "num_relevant": {2**70: 1}}, r"int queries as keys, .*, got 11805916"),
        ((PREDS, TARGET), {"indexes": INDEXES, "num_relevant": {3: 2**63}}, "below 2.63, got 9223372036854775808 for"),
        ((PREDS, TARGET), {"indexes": INDEXES, "num_relevant": {True: 1}}, "int queries as keys, .*, got True"),
        ((PREDS, TARGET), {"indexes": INDEXES.to(torch.uint64)}, "`indexes` must have an int.* got torch.uint64"),
        (
            (PREDS, TARGET),
            {"indexes": INDEXES, "num_relevant": INDEXES.to(torch.uint64)},
            "`num_relevant` must have an integer dtype that int64 represents, got torch.uint64",
        ),
        ((PREDS, TARGET.to(torch.uint64)), {}, "`target` must be .* signed integer tensor, got torch.uint64"),
        (
            (PREDS, TARGET),
            {"indexes": INDEXES, "num_relevant": torch.tensor([1, 2])},
            "equal for all items of a query, got 1 and 2 for query 3",
        ),
        (
            (PREDS, TARGET),
            {"mask": torch.ones(3, dtype=torch.bool)},
            r"`mask` must have the shape of `preds`, \(2,\), got \(3,\)",
        ),
        ((PREDS, TARGET), {"mask": torch.ones(2)}, "`mask` must be a bool tensor, got torch.float32"),
        ((PREDS, TARGET), {"top_k": 0}, "`top_k` must be an int of at least 1, 'relevant' or None, got 0"),
        ((PREDS, TARGET), {"top_k": -1}, "`top_k` must be an int of at least 1, 'relevant' or None, got -1"),
        ((PREDS, TARGET), {"relevance_level": float("nan")}, "`relevance_level` must be a finite number, got nan"),
        ((PREDS, TARGET), {"empty_target_action": "drop"}, "`empty_target_action` must be one of"),
        ((PREDS, TARGET), {"missing_queries": "nan"}, "`missing_queries` must be one of"),
        ((PREDS, TARGET), {"dtype": torch.int64}, "`dtype` must be a floating torch.dtype or None, got torch.int64"),
        (
            (PREDS, TARGET),
            {"beta": 1},
            "unexpected keyword argument 'beta'",
        ),
        ((PREDS, TARGET), {"ties": ""}, "`ties` must be one of"),
        (
            (PREDS, TARGET),
            {"interpolation": "11-point", "ties": "expected"},
            "`interpolation` has no closed form for `ties='expected'`",
        ),
        ((PREDS, TARGET[:1]), {}, "same shape"),
        ((PREDS * float("nan"), TARGET), {}, r"`preds` must not contain NaN, got nan at index 0$"),
        ((PREDS, TARGET * float("nan")), {}, "`target` must not contain NaN"),
        ((PREDS[None, None], TARGET[None, None]), {}, r"`preds` must be \(Q, D\)"),
    ],
)
def test_bad_input(arguments, words, message):
    with pytest.raises((ValueError, TypeError), match=message):
        functions.retrieval_average_precision(*arguments, **words)


def test_numbers_of_numpy_and_tensors_are_ints_too():
    m = {np.int64(3): np.int32(2), 4: torch.tensor(1)}
    values = functions.retrieval_average_precision(PREDS, TARGET, indexes=INDEXES, num_relevant=m)
    assert values.tolist() == [0.5, 0]
    for one in (np.uint8(2), 2, torch.tensor(2), torch.tensor([2])):
        assert functions.retrieval_average_precision(PREDS, TARGET, num_relevant=one).item() == 0.5


@pytest.mark.parametrize("m", [0, 3])
@pytest.mark.parametrize(("missing", "value"), [("neg", 0), ("skip", None)])
def test_fall_out_of_a_missing_query(missing, value, m):
    words = {"indexes": INDEXES, "num_relevant": {3: 1, 9: m}, "missing_queries": missing}
    first, second = functions.retrieval_fall_out(PREDS, TARGET, 2, **words).tolist()
    assert first == 1
    assert second == value if missing == "neg" else math.isnan(second)
    with pytest.raises(ValueError, match=r"only queries that have items .* 9"):
        functions.retrieval_fall_out(PREDS, TARGET, 2, **words | {"missing_queries": "error"})


def test_a_missing_query_without_relevant_items_is_undefined():
    words = {"indexes": INDEXES, "num_relevant": {3: 1, 9: 0}}
    for action, value in {"neg": 0, "pos": 1}.items():
        found = functions.retrieval_average_precision(PREDS, TARGET, empty_target_action=action, **words)
        assert found.tolist() == [1, value]


def test_error_on_undefined():
    with pytest.raises(ValueError, match="invalid for 4"):
        functions.retrieval_recall(PREDS, TARGET * 0, indexes=INDEXES + 1, empty_target_action="error")
