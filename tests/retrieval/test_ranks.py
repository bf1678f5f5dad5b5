"""Precision and recall at every rank, against the functions of a single k and torchmetrics' classes."""

import itertools

import pytest
import torch
import torchmetrics.retrieval as peer
from matplotlib.figure import Figure
from torchmetrics.functional.retrieval import retrieval_precision_recall_curve as peer_function

from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap import RetrievalMAP, RetrievalPrecisionRecallCurve, RetrievalRecallAtFixedPrecision, functional

F64 = {"dtype": torch.float64}
TIES = ("expected", "grouped", "optimistic", "pessimistic")


def data(seed=0, queries=15, docs=11, levels=6):
    generator = torch.Generator().manual_seed(seed)
    preds = torch.randint(levels, (queries, docs), generator=generator) / levels
    target = (torch.rand(queries, docs, generator=generator) < 0.4).long()
    target[4] = 0
    return preds, target, target.sum(1) + 1


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("adaptive", [False, True])
def test_each_rank_equals_the_functions_at_k(ties, adaptive):
    preds, target, m = data()
    mask = torch.rand(15, 11, generator=torch.Generator().manual_seed(1)) < 0.8
    mask[7] = False
    given = {"mask": mask, "num_relevant": m, "ties": ties, **F64}
    precision, recall, k = functional.retrieval_precision_recall_curve(preds, target, 14, adaptive, **given)
    assert k.tolist() == list(range(1, 15))
    for place in range(14):
        for found, wanted in (
            (precision, functional.retrieval_precision(preds, target, place + 1, adaptive, **given)),
            (recall, functional.retrieval_recall(preds, target, place + 1, **given)),
        ):
            assert found[:, place].tolist() == pytest.approx(wanted.tolist(), abs=REORDERED, nan_ok=True)
    one = functional.retrieval_precision_recall_curve(preds[2], target[2], ties=ties, **F64)
    assert one.precision.shape == one.recall.shape == (11,)
    at_3 = functional.retrieval_precision(preds[2], target[2], 3, ties=ties, **F64)
    assert one.precision[2].item() == pytest.approx(at_3.item(), abs=REORDERED)


@pytest.mark.parametrize("k", [None, 3, 20])
@pytest.mark.parametrize("adaptive", [False, True])
def test_torchmetrics_agrees_without_ties(k, adaptive):
    generator = torch.Generator().manual_seed(2)
    preds, target = torch.rand(8, 9, generator=generator), (torch.rand(8, 9, generator=generator) < 0.4).long()
    for s, y in zip(preds, target, strict=True):
        ours, theirs = functional.retrieval_precision_recall_curve(s, y, k, adaptive), peer_function(s, y, k, adaptive)
        torch.testing.assert_close(ours.precision, theirs[0])
        torch.testing.assert_close(ours.recall, theirs[1])


@pytest.mark.parametrize("ties", ["expected", "grouped"])
@pytest.mark.parametrize(("max_k", "adaptive"), [(None, False), (3, False), (8, True)])
def test_chance_level_is_the_mean_over_all_orders(max_k, adaptive, ties):
    metric = RetrievalPrecisionRecallCurve(max_k, adaptive, ties=ties).set_dtype(torch.float64)
    wanted = []
    for query, target in enumerate(map(torch.tensor, ([1, 0, 1, 0, 0], [0, 1], [1], [1, 1, 1, 0], [0, 0, 0]))):
        orders = torch.tensor(sorted(set(itertools.permutations(target.tolist()))))
        preds, m = (torch.arange(len(target)) // 2).double(), int(target.sum()) + 1
        metric.update(preds, target, torch.full_like(target, query), num_relevant={query: m})
        each = RetrievalPrecisionRecallCurve(max_k or 5, adaptive, ties=ties).set_dtype(torch.float64)
        each.update(preds.expand(orders.shape), orders, num_relevant=torch.full((len(orders),), m))
        wanted.append(torch.stack(each.compute()[:2]))
    found = metric.chance_level()
    assert found.k.tolist() == metric.compute().k.tolist()
    torch.testing.assert_close(torch.stack(found[:2]), torch.stack(wanted).mean(0), rtol=REORDERED, atol=0)


def test_missing_chance_levels_raise_with_a_reason():
    with pytest.raises(ValueError, match=r"`aggregation` must be 'mean' for a chance level, got 'max'"):
        RetrievalPrecisionRecallCurve(aggregation="max").chance_level()
    assert not hasattr(RetrievalRecallAtFixedPrecision, "chance_level")


@each("action", ["neg", "pos", "skip"])
@each("aggregation", ["mean", "median", "min", "max"])
@each("k", [None, 5, 40])
def test_drop_in(action, aggregation, k):
    generator = torch.Generator().manual_seed(3)
    preds, indexes = torch.rand(200, generator=generator), torch.randint(20, (200,), generator=generator)
    target = torch.rand(200, generator=generator) < 0.15
    pair = (RetrievalPrecisionRecallCurve, peer.RetrievalPrecisionRecallCurve)
    ours, theirs = (x(k, True, action, None, aggregation) for x in pair)
    for part in torch.arange(200).split(70):
        for metric in (ours, theirs):
            metric.update(preds[part], target[part], indexes[part])
    for found, wanted in zip(ours.compute(), theirs.compute(), strict=True):
        torch.testing.assert_close(found, wanted)
    for least in (0.0, 0.3, 0.99):
        pair = (RetrievalRecallAtFixedPrecision, peer.RetrievalRecallAtFixedPrecision)
        ours, theirs = (x(least, k, False, action) for x in pair)
        for metric in (ours, theirs):
            metric.update(preds, target, indexes)
        for found, wanted in zip(ours.compute(), theirs.compute(), strict=True):
            torch.testing.assert_close(found, wanted, check_dtype=False)


@pytest.mark.parametrize("ties", TIES)
def test_means_equal_the_curve_of_map(ties):
    preds, target, m = data(5)
    metric, other = RetrievalPrecisionRecallCurve(ties=ties).set_dtype(torch.float64), RetrievalMAP(ties=ties)
    for one in (metric, other):
        one.update(preds, target, num_relevant=m)
    found, wanted = metric.compute(), other.curve()
    torch.testing.assert_close(found.precision, wanted.precision)
    torch.testing.assert_close(found.recall, wanted.recall)


def test_undefined_recall_is_not_0():
    preds, target = torch.tensor([[2.0, 1], [2, 1]]), torch.tensor([[0, 0], [1, 0]])
    metric = RetrievalRecallAtFixedPrecision(0.5, empty_target_action="nan")
    assert metric(preds[1:], target[1:])[0] == 1
    recall, rank = metric(preds, target)
    assert recall.isnan()
    assert rank == 2
    skipped = RetrievalRecallAtFixedPrecision(0.5, empty_target_action="skip")
    with pytest.warns(UserWarning, match="No query has a value"):
        assert skipped(preds[:1], target[:1])[0].isnan()


def test_empty_input_and_pictures():
    metric, fixed = RetrievalPrecisionRecallCurve(), RetrievalRecallAtFixedPrecision(0.5)
    empty = (torch.zeros(0), torch.zeros(0), torch.zeros(0).long())
    for one in (metric, fixed):
        one.update(*empty)
        with pytest.warns(UserWarning, match="No query has a value"):
            one.compute()
    assert [len(x) for x in metric.compute()] == [0, 0, 0]
    for one in (metric, fixed):
        one.reset()
        one.update(*data()[:2])
    ax = metric.plot(ax=Figure().subplots())[1]
    assert len(ax.lines[0].get_xdata()) == 11
    fixed.plot(ax=Figure().subplots())
    assert repr(fixed) == "RetrievalRecallAtFixedPrecision(min_precision=0.5)"
    assert repr(RetrievalPrecisionRecallCurve(3, True)) == "RetrievalPrecisionRecallCurve(max_k=3, adaptive_k=True)"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"max_k": 0}, "`max_k` must be an int of at least 1 or None, got 0"),
        ({"adaptive_k": 1}, "`adaptive_k` must be a bool, got 1"),
        ({"ties": "first"}, "`ties` must be one of"),
        ({"min_precision": 1.5}, r"`min_precision` must be a number in \[0, 1\], got 1.5"),
    ],
)
def test_bad_input(words, message):
    make = RetrievalRecallAtFixedPrecision if "min_precision" in words else RetrievalPrecisionRecallCurve
    with pytest.raises(ValueError, match=message):
        make(**words)
    if "min_precision" not in words:
        with pytest.raises(ValueError, match=message):
            functional.retrieval_precision_recall_curve(torch.ones(2), torch.ones(2), **words)
