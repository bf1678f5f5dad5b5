"""Metrics over queries: equal values for any batching and layout, shared state and sort, clear errors."""

import contextlib
import itertools
from inspect import signature

import numpy as np
import pytest
import torch
import torchmetrics
import torchmetrics.retrieval as peer
from hypothesis import given, settings
from hypothesis import strategies as st
from torchmetrics import MetricCollection

from tests.support import oracles_retrieval as oracles
from tests.support.each import each
from tests.support.tolerances import REORDERED
from torch_ap import functional as functions
from torch_ap import retrieval as metrics
from torch_ap.core.ranking import builders
from torch_ap.retrieval import RetrievalMAP, rankings
from torch_ap.retrieval.settings import AGGREGATIONS

PAIRS = {
    "map": (metrics.RetrievalMAP, functions.retrieval_average_precision, {"top_k": 3}),
    "precision": (metrics.RetrievalPrecision, functions.retrieval_precision, {"top_k": 3, "adaptive_k": True}),
    "recall": (metrics.RetrievalRecall, functions.retrieval_recall, {"top_k": 2}),
    "f_beta": (metrics.RetrievalFBeta, functions.retrieval_f_beta, {"top_k": 3, "beta": 2.0}),
    "r_precision": (metrics.RetrievalRPrecision, functions.retrieval_r_precision, {}),
    "hit_rate": (metrics.RetrievalHitRate, functions.retrieval_hit_rate, {"top_k": 2}),
    "fall_out": (metrics.RetrievalFallOut, functions.retrieval_fall_out, {"top_k": 2}),
    "mrr": (metrics.RetrievalMRR, functions.retrieval_reciprocal_rank, {"top_k": 4}),
}


def data(seed=0, size=200, queries=12, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    preds = torch.randint(-4, 5, (size,), generator=generator).to(dtype)
    target = (torch.rand(size, generator=generator) < 0.3).long()
    indexes = torch.randint(0, queries, (size,), generator=generator) * 10**15 - 5
    return preds, target, indexes


@each("name", list(PAIRS))
@each("ties", ["expected", "grouped", "optimistic", "pessimistic"])
def test_class_is_the_mean_of_its_function(name, ties):
    make, function, words = PAIRS[name]
    preds, target, indexes = data()
    metric = make(ties=ties, **words)
    for part in torch.arange(200).split(37):
        metric.update(preds[part], target[part], indexes[part])
    values = function(preds, target, indexes=indexes, ties=ties, dtype=torch.float64, **words)
    torch.testing.assert_close(metric.compute(), values.mean().float())
    queries, each = metric.per_query()
    assert torch.equal(queries, indexes.unique())
    assert torch.equal(each, values.float())


@pytest.mark.parametrize("name", [name for name in PAIRS if name != "f_beta"])
def test_drop_in(name):
    make, _, words = PAIRS[name]
    theirs = getattr(peer, make.__name__)
    generator = torch.Generator().manual_seed(3)
    preds, indexes = torch.rand(300, generator=generator), torch.randint(0, 60, (300,), generator=generator)
    target = (torch.rand(300, generator=generator) < 0.3).long()
    extras = {"denominator": "found"} if name == "map" else {}
    positional = ["neg", None, *words.values(), "mean"]
    ours, other = make(*positional, **extras), theirs(*positional)
    for metric in (ours, other):
        metric.update(preds, target, indexes)
    torch.testing.assert_close(ours.compute(), other.compute())
    torch.testing.assert_close(
        ours(preds[:40], target[:40], indexes=indexes[:40]), other(preds[:40], target[:40], indexes=indexes[:40])
    )


@pytest.mark.parametrize("action", ["neg", "pos", "skip"])
@pytest.mark.parametrize("aggregation", ["mean", "median", "min", "max", lambda values, dim: values.std(dim)])
def test_actions_and_aggregations_are_torchmetrics(action, aggregation):
    preds, target, indexes = torch.rand(60), torch.randint(0, 5, (60,)) == 0, torch.arange(60) % 15
    words = {"empty_target_action": action, "aggregation": aggregation}
    ours, other = metrics.RetrievalRecall(**words), peer.RetrievalRecall(**words)
    for metric in (ours, other):
        metric.update(preds, target, indexes)
    torch.testing.assert_close(ours.compute(), other.compute())


def test_nan_is_an_action_too():
    metric = RetrievalMAP(empty_target_action="nan")
    metric.update(torch.tensor([[1.0], [1.0]]), torch.tensor([[0], [1]]))
    assert torch.isnan(metric.compute())
    assert metric.per_query()[0].tolist() == [0, 1]


def test_any_callable_aggregates():
    metric = RetrievalMAP(aggregation=lambda values: values.sum())
    metric.update(torch.tensor([[1.0], [1.0]]), torch.tensor([[1], [1]]))
    assert metric.compute() == 2


def share_of_hits(curve):
    """The share of relevant items among the ranked ones, as a measure of a user."""
    return torch.where(curve.m > 0, curve.hits_seen / curve.n, torch.nan).double()


def test_a_function_of_the_curve_is_a_measure():
    metric, usual = metrics.QueryMetric(share_of_hits, "skip"), metrics.RetrievalPrecision("skip")
    preds, target = torch.rand(6, 5), torch.tensor([[0, 0, 0, 0, 0], *[[1, 0, 1, 0, 0], [0, 1, 0, 0, 0]] * 2, [1] * 5])
    for one in (metric, usual):
        one.update(preds, target)
    assert metric.compute() == usual.compute()
    assert repr(metric) == "QueryMetric(measure=share_of_hits, empty_target_action='skip')"
    assert [x.tolist() for x in metric.per_query()] == [x.tolist() for x in usual.per_query()]
    torch.testing.assert_close(metric.confidence_interval().low, usual.confidence_interval().low)
    assert [*metric.summary()] == ["value", "value_low", "value_high"]
    with pytest.raises(ValueError, match=r"a chance level requires a measure that defines it, got .*share_of_hits"):
        metric.chance_level()


def spread(values, dim=None):
    """A custom aggregation with the arguments that torchmetrics passes."""
    return values.max() - values.min() if dim is None else values.amax(dim) - values.amin(dim)


CLASSES = [x for name, x in vars(metrics).items() if isinstance(x, type) and name != "QueryMetric"]
AGGREGATED = [x for x in CLASSES if "aggregation" in signature(x).parameters]
EMPTY_QUERIES = {"skip": None, "neg": 0.0, "pos": 1.0}


@each("metric, aggregation, action", list(itertools.product(AGGREGATED, (*AGGREGATIONS, spread), EMPTY_QUERIES)))
def test_aggregation_of_queries_without_a_value(metric, aggregation, action):
    """Equal to torchmetrics with a value, NaN with a warning in place of its 0 without one."""
    relevant = int(metric is metrics.RetrievalFallOut)  # undefined for queries with relevant items only
    words = {"aggregation": aggregation, "empty_target_action": action}
    ours = metric(**words)
    ours.update(torch.tensor([0.3, 0.2, 0.1]), torch.full((3,), relevant), torch.tensor([0, 0, 1]))
    several = isinstance(ours, metrics.RetrievalPrecisionRecallCurve)
    with pytest.warns(UserWarning, match="No query has a value") if action == "skip" else contextlib.nullcontext():
        found = ours.compute()[1 if several else ...]
    if action == "skip":
        assert found.isnan().all()
        assert found.shape == ((2,) if several else ())
        return
    value = EMPTY_QUERIES[action] if aggregation is not spread else 0.0
    torch.testing.assert_close(found, torch.full_like(found, value if aggregation != "gm" else max(value, 1e-5)))


def test_an_undefined_query_can_be_an_error_with_any_aggregation():
    for aggregation in (*AGGREGATIONS, spread):
        metric = RetrievalMAP("error", aggregation=aggregation)
        metric.update(torch.tensor([0.3]), torch.tensor([0]), torch.tensor([0]))
        with pytest.raises(ValueError, match="`target` must define the measure of every query"):
            metric.compute()


def test_geometric_mean_has_a_floor():
    metric = RetrievalMAP(aggregation="gm")
    metric.update(torch.tensor([[2.0, 1], [1, 2], [2, 1]]), torch.tensor([[1, 0], [1, 0], [0, 0]]))
    assert metric.compute().item() == pytest.approx((1 * 0.5 * 1e-5) ** (1 / 3))


@given(st.data())
@settings(deadline=None, max_examples=50)
def test_judgements_against_the_definition(draw):
    queries = draw.draw(st.lists(st.integers(-3, 3), min_size=1, max_size=12))
    scores = draw.draw(st.lists(st.sampled_from((-1.0, 0.0, 1.0)), min_size=len(queries), max_size=len(queries)))
    relevant = draw.draw(st.lists(st.integers(0, 1), min_size=len(queries), max_size=len(queries)))
    unseen = draw.draw(st.dictionaries(st.integers(-4, 4), st.integers(0, 3)))
    lists = {q: ([], []) for q in (*queries, *unseen)}
    for query, score, y in zip(queries, scores, relevant, strict=True):
        lists[query][0].append(score)
        lists[query][1].append(y)
    m = {q: sum(lists[q][1]) + unseen.get(q, 0) for q in lists}
    expected = {
        q: float(oracles.over_orders(lambda order, q=q: oracles.average_precision(order, m[q]), *lists[q], "expected"))
        for q in lists
    }
    metric = RetrievalMAP().set_dtype(torch.float64)
    for place in range(0, len(queries), 5):
        part = slice(place, place + 5)
        metric.update(torch.tensor(scores[part]), torch.tensor(relevant[part]), torch.tensor(queries[part]))
    metric.update(num_relevant={q: m[q] for q in unseen})
    found = dict(zip(*(x.tolist() for x in metric.per_query()), strict=True))
    assert found == pytest.approx(expected, abs=REORDERED)


def test_rows_are_queries():
    generator = torch.Generator().manual_seed(0)
    preds, target = torch.randn(20, 8, generator=generator), torch.rand(20, 8, generator=generator) < 0.4
    mask = torch.rand(20, 8, generator=generator) < 0.8
    metric = RetrievalMAP()
    for part in torch.arange(20).split(6):
        metric.update(preds[part], target[part], mask=mask[part])
    values = functions.retrieval_average_precision(preds, target, mask=mask)
    assert torch.equal(metric.per_query()[1], values)
    assert metric.per_query()[0].tolist() == list(range(20))
    m = target.sum(1) + 3
    metric.reset()
    metric.update(preds, target, mask=mask, num_relevant=m)
    assert torch.equal(
        metric.per_query()[1], functions.retrieval_average_precision(preds, target, mask=mask, num_relevant=m)
    )


@pytest.mark.parametrize(("missing", "value"), [("neg", 0.25), ("skip", 0.5)])
def test_missing_queries(missing, value):
    metric = RetrievalMAP(missing_queries=missing)
    metric.update(torch.tensor([1.0]), torch.tensor([1]), torch.tensor([4]), num_relevant={4: 2, 9: 1})
    assert metric.compute().item() == value
    assert metric.per_query()[0].tolist() == ([4, 9] if missing == "neg" else [4])
    strict = RetrievalMAP(missing_queries="error")
    strict.update(num_relevant={9: 1})
    with pytest.raises(ValueError, match="invalid for 9"):
        strict.compute()


@pytest.mark.parametrize("m", [0, 3])
def test_fall_out_of_a_missing_query_is_the_best(m):
    metric = metrics.RetrievalFallOut(top_k=2)
    metric.update(
        torch.tensor([0.9, 0.8, 0.7]), torch.tensor([1, 0, 0]), torch.ones(3).long(), num_relevant={1: 1, 2: m}
    )
    assert metric.per_query()[1].tolist() == [0.5, 0]
    assert metric.compute() == 0.25


def test_num_relevant_by_item():
    preds, target, indexes = data()
    m = 50 + indexes % 7
    metric, other = RetrievalMAP(), RetrievalMAP()
    metric.update(preds, target, indexes, num_relevant=m)
    other.update(preds, target, indexes, num_relevant=dict(zip(indexes.tolist(), m.tolist(), strict=True)))
    assert metric.compute() == other.compute()


def test_ignored_items_and_queries_of_ignored_items_only():
    metric, other = RetrievalMAP(ignore_index=-1), RetrievalMAP()
    preds, target, indexes = data()
    target[::3] = -1
    target[indexes == -5] = -1
    metric.update(preds, target, indexes)
    kept = target != -1
    other.update(preds[kept], target[kept], indexes[kept])
    assert metric.compute() == other.compute()
    assert -5 not in metric.per_query()[0]


def test_one_state_and_one_sort(monkeypatch):
    sorts = []
    for name in ("from_scores", "from_runs"):
        given = getattr(builders, name)
        monkeypatch.setattr(builders, name, lambda *x, given=given, **y: sorts.append(1) or given(*x, **y))
    collection = MetricCollection({name: make(**words) for name, (make, _, words) in PAIRS.items()})
    preds, target, indexes = data()
    for part in torch.arange(200).split(50):
        collection.update(preds[part], target[part], indexes[part])
    assert len(collection.compute_groups) == 1
    together = collection.compute()
    assert sum(sorts) == 1
    for name, (make, _, words) in PAIRS.items():
        alone = make(**words)
        alone.update(preds, target, indexes)
        torch.testing.assert_close(together[name], alone.compute())
    collection.update(preds, 1 - target, indexes)
    assert collection.compute()["map"] != together["map"]


def test_a_collection_takes_judgements_alone():
    collection = MetricCollection({"map": RetrievalMAP(), "recall": metrics.RetrievalRecall()})
    collection.update(num_relevant={3: 2, 4: 1})
    collection.update(torch.tensor([1.0]), torch.tensor([1]), torch.tensor([3]))
    assert {name: value.item() for name, value in collection.compute().items()} == {"map": 0.25, "recall": 0.25}


def test_unknown_aggregation():
    with pytest.raises(ValueError, match=r"`aggregation` .*function.* got 'sum'"):
        RetrievalMAP(aggregation="sum")


def test_other_levels_and_measures_do_not_share():
    collection = MetricCollection(
        {"one": RetrievalMAP(), "two": RetrievalMAP(relevance_level=2), "ap": torchmetrics.MeanMetric()}
    )
    collection["one"].update(torch.tensor([2.0, 1]), torch.tensor([1, 2]), torch.tensor([0, 0]))
    assert collection["one"].first_violation.tolist() != collection["two"].first_violation.tolist()


def test_writes_after_the_update_have_no_effect():
    preds, target, indexes = torch.tensor([2.0, 1]), torch.tensor([1, 0]), torch.tensor([0, 0])
    metric = RetrievalMAP()
    metric.update(preds, target, indexes)
    for tensor in (preds, target, indexes):
        tensor.mul_(-1)
    assert metric.compute() == 1


def test_merge_refuses_other_layouts():
    rows, flat = RetrievalMAP(), RetrievalMAP()
    rows.update(torch.ones(1, 2), torch.ones(1, 2))
    flat.update(*data())
    with pytest.raises(ValueError, match=r"`indexes` .*`incoming_state`"):
        flat.merge_state(rows)
    with pytest.raises(ValueError, match=r"`incoming_state` .*same settings .*`relevance_level`"):
        flat.merge_state(RetrievalMAP(relevance_level=2))


def test_metrics_without_data():
    metric = RetrievalMAP()
    metric.update(torch.zeros(0), torch.zeros(0), torch.zeros(0, dtype=torch.int64))
    with pytest.warns(UserWarning, match="No query has a value"):
        assert torch.isnan(metric.compute())
    assert metric.per_query()[0].tolist() == []


def test_result_dtype():
    for dtype in (torch.float16, torch.float32, torch.float64):
        metric = RetrievalMAP()
        metric.update(*data(dtype=dtype))
        assert metric.compute().dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((torch.ones(1, 2), torch.ones(1, 2)), "`indexes` must be given in every update or in none"),
        ((torch.ones(2), torch.ones(2)), r"`preds` must be \(Q, D\)"),
        ((torch.ones(2), torch.ones(2), torch.ones(2)), "`indexes` must be an integer tensor"),
        ((torch.ones(2), torch.ones(2), torch.tensor([2**63] * 2, dtype=torch.uint64)), "`indexes` .* torch.uint64"),
        ((torch.ones(2), torch.ones(2), torch.ones(3).long()), "`indexes` must have the shape of `preds`"),
        ((torch.tensor([float("nan")]), torch.ones(1), torch.ones(1).long()), "`preds` must not contain NaN"),
        ((None, torch.ones(1)), "`preds` must be a tensor .*, got NoneType"),
    ],
)
def test_an_invalid_batch_leaves_the_state(given, message):
    metric = RetrievalMAP()
    metric.update(*data())
    value = metric.compute()
    before = {name: list(getattr(metric, name)) for name in metric._lists}
    with pytest.raises((ValueError, TypeError), match=message):
        metric.update(*given)
    for name, state in before.items():
        assert all(x is y for x, y in zip(state, getattr(metric, name), strict=True))
    assert metric.compute() == value


def one_query(m, hits=2):
    return (torch.arange(hits + 1.0), torch.ones(hits + 1) - torch.eye(hits + 1)[0], torch.ones(hits + 1).long()), m


CONTRADICTIONS = {
    "fewer than there are": (one_query({1: 1}), "got 1 for query 1, where there are 2$"),
    "fewer, by item": (one_query(torch.ones(3).long()), "got 1 for query 1, where there are 2$"),
    "fewer in a row": (((torch.ones(2, 2), torch.eye(2)), torch.tensor([2, 0])), "got 0 for row 1, where there are 1$"),
    "twice": (one_query(torch.tensor([3, 4, 3])), "got 3 and 4 for query 1$"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_batch_that_contradicts_itself_leaves_no_trace(name):
    (given, m), message = CONTRADICTIONS[name]
    metric = RetrievalMAP()
    metric.update(*given)
    with pytest.raises(ValueError, match=message):
        metric.update(*given, num_relevant=m)
    with pytest.raises(ValueError, match=message):
        metric(*given, num_relevant=m)
    assert (len(metric.query_scores), metric.judged_counts, metric.update_count) == (1, [], 1)
    metric.compute()


def test_a_batch_may_judge_other_queries_and_ignore_hits():
    metric = RetrievalMAP(ignore_index=2)
    given, _ = one_query(None)
    metric.update(given[0], given[1] * 2, given[2], num_relevant={1: 0, -5: 3, 7: 1})
    metric.update(torch.empty(0), torch.empty(0), torch.empty(0).long(), num_relevant=torch.empty(0).long())
    metric.update(num_relevant={})
    metric.update(given[0], given[1], given[2] + 1, num_relevant={2: 2, -5: 3})
    assert metric.per_query()[0].tolist() == [-5, 1, 2, 7]


@pytest.mark.parametrize(
    ("second", "message"),
    [({1: 4, 2: 1}, "got 3 and 4 for query 1"), ({2: 1}, "got 1 for query 2, where there are 2")],
)
def test_batches_that_contradict_one_another(second, message):
    metric = RetrievalMAP()
    given, _ = one_query(None)
    metric.update(given[0], given[1], given[2] + 1, num_relevant={1: 3})
    metric.update(num_relevant=second)
    for ask in (metric.compute, metric.per_query, metric.chance_level):
        with pytest.raises(ValueError, match=rf"{message}.* `reset\(\)`"):
            ask()
    metric.reset()
    metric.update(*given, num_relevant={1: 4})
    assert metric.compute() == pytest.approx(0.5)


def test_no_look_at_items_without_judgements(monkeypatch):
    monkeypatch.setattr(rankings, "_check_seen", pytest.fail)
    monkeypatch.setattr(rankings, "_distinct_judgements", pytest.fail)
    RetrievalMAP().update(*data())


def test_repr_repeats_the_convention():
    levels = torch.tensor([0.5])
    metric = RetrievalMAP(interpolation=levels)
    assert (metric.convention.ties, metric.convention.top_k) == ("grouped", None)
    assert torch.equal(metric.convention.interpolation, levels)
    told = {
        "RetrievalMAP()": RetrievalMAP(),
        "RetrievalMAP(top_k=3)": RetrievalMAP(top_k=3),
        "RetrievalMAP(interpolation='11-point')": RetrievalMAP(interpolation="11-point", ties="grouped"),
        "RetrievalMAP(ties='grouped')": RetrievalMAP(ties="grouped"),
        "RetrievalMAP(interpolation=[0.5])": metric,
        "RetrievalPrecision(top_k=2, adaptive_k=True)": metrics.RetrievalPrecision(top_k=2, adaptive_k=True),
        "RetrievalFBeta(beta=2.0)": metrics.RetrievalFBeta(beta=2.0),
        "RetrievalMRR(ties='optimistic')": metrics.RetrievalMRR(ties="optimistic"),
    }
    assert {name: repr(one) for name, one in told.items()} == {name: name for name in told}


@pytest.mark.parametrize("name", PAIRS)
def test_where_all_are_skipped_it_is_nan(name):
    make, _, words = PAIRS[name]
    metric = make(empty_target_action="skip", **words)
    undefined = torch.ones(1, 2) if name == "fall_out" else torch.zeros(1, 2)
    metric.update(torch.ones(1, 2), undefined)
    with pytest.warns(UserWarning, match="No query has a value"):
        assert torch.isnan(metric.compute())


def test_rows_are_judged_always_or_never():
    metric = RetrievalMAP()
    metric.update(torch.ones(2, 2), torch.ones(2, 2), num_relevant=torch.tensor([2, 2]))
    with pytest.raises(ValueError, match=r"`num_relevant` of rows .*every update or in none"):
        metric.update(torch.ones(2, 2), torch.ones(2, 2))
    with pytest.raises(ValueError, match=r"`num_relevant` .*dict .*`indexes`"):
        metric.update(num_relevant={1: 2})


def compute_on_rank(rank, layout):
    metric = RetrievalMAP()
    if layout == "flat":
        preds, target, indexes = data()
        cut = slice(0, 150) if rank == 0 else slice(150, None)
        metric.update(preds[cut], target[cut], indexes[cut])
        if rank == 1:
            metric.update(num_relevant={1: 5})
    elif rank == 0:
        metric.update(torch.tensor([[2.0, 1], [1, 2]]), torch.tensor([[1, 0], [1, 0]]))
    else:
        metric.update(torch.tensor([[1.0, 2, 3]]), torch.tensor([[1, 0, 0]]))
    return metric.compute().item(), *(x.tolist() for x in metric.per_query()), metric.compute().item()


@pytest.mark.parametrize("layout", ["flat", "rows"])
def test_two_ranks(layout, ranks):
    first, second = ranks(compute_on_rank, layout)
    assert first == second
    if layout == "rows":
        assert first[1] == [0, 1, 2]
        assert first[2] == pytest.approx([1, 0.5, 1 / 3])
    else:
        alone = RetrievalMAP()
        alone.update(*data(), num_relevant={1: 5})
        assert first[0] == alone.compute().item()
        assert first[1] == alone.per_query()[0].tolist()


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["flat", "rows"])
def test_accelerator(layout):
    preds, target, indexes = data(size=4000, queries=50)
    given = (preds.reshape(40, 100), target.reshape(40, 100)) if layout == "rows" else (preds, target, indexes)
    for make, _, words in PAIRS.values():
        here, there = make(**words), make(**words).cuda()
        here.update(*given)
        on_device = [x.cuda() for x in given]
        torch.cuda.set_sync_debug_mode("error")
        try:
            there.update(*on_device)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        torch.testing.assert_close(there.compute().cpu(), here.compute())
        np.testing.assert_array_equal(there.per_query()[0].cpu(), here.per_query()[0])


@pytest.mark.gpu
def test_a_broken_rule_on_an_accelerator_is_raised_later():
    metric = RetrievalMAP().cuda()
    metric.update(torch.tensor([[float("nan")]]).cuda(), torch.ones(1, 1).cuda())
    with pytest.raises(ValueError, match=r"`preds` .*NaN.* update 1"):
        metric.compute()


@pytest.mark.gpu
def test_a_batch_that_contradicts_itself_on_an_accelerator_is_raised_later():
    metric = RetrievalMAP().cuda()
    given, m = one_query(torch.ones(3).long())
    on_device, m = [x.cuda() for x in given], m.cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        metric.update(*on_device, num_relevant=m)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    with pytest.raises(ValueError, match=r"got 1 for query 1.* 2.* `reset\(\)`"):
        metric.compute()
